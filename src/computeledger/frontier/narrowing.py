"""What another clue would be worth: the interval of a closed model's sheet if the clue came as the others expect it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from computeledger.frontier.capability import INDEX
from computeledger.frontier.closed_models import Laws, Scraps, clues_of, fitted_laws, prior_of, quantities
from computeledger.frontier.clues import learn

#: One figure for each clue: what it says is replaced by what is expected, so that only its law and noise count.
_ANY = Scraps(
    usd_per_mtok=(1.0, 4.0), tokens_per_s=50.0, release_date="2025-01-01", scores={INDEX: 130.0}, training_usd=1e7,
    gpu_hours=1e6, flop=1e24, tokens=1e13, n_params_total=1e11,
)  # fmt: skip
#: Clues that say what GPU-hours say.
_HOURS = {"chips x time", "power x time"}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a clue that is not given would do.

    Attributes
    ----------
    clue : str
        Its name.
    n_params_active_width_ratio, training_flop_width_ratio : float
        Upper over lower end of the 90 % interval with it [-].
    """

    clue: str
    n_params_active_width_ratio: float
    training_flop_width_ratio: float


def narrowings(scraps: Scraps, laws: Laws | None = None) -> tuple[Narrowing, ...]:
    """Each clue that is not given, as the others expect it and right; what narrows active parameters most comes first.

    Parameters
    ----------
    scraps : Scraps
        What is known.
    laws : Laws, optional
        Those of all open models when left out.

    Returns
    -------
    tuple of Narrowing
        One for each clue that is missing.

    Examples
    --------
    >>> found = narrowings(Scraps(usd_per_mtok=(0.27, 1.1), release_date="2024-12-26"))
    >>> min(found, key=lambda one: one.training_flop_width_ratio).clue
    'training FLOP'
    """
    known = laws or fitted_laws()
    given = clues_of(scraps, known)
    after = learn(prior_of(scraps, known), given)
    names = {clue.name for clue in given}
    names |= {"GPU-hours"} if names & _HOURS else set()
    rows = quantities(scraps.accelerator_id)
    asked = replace(_ANY, premium_ratio=scraps.premium_ratio, accelerator_id=scraps.accelerator_id)
    out = []
    for clue in clues_of(asked, known):
        if clue.name not in names:
            expected = clue.matrix @ (after.weight @ after.mean)
            then = learn(after, [replace(clue, value=expected, may_be_wrong=False)])
            widths = [
                math.exp(float(np.ptp(then.quantiles(*rows[name], (0.05, 0.95)))))
                for name in ("n_params_active", "training_flop")
            ]
            out.append(Narrowing(clue.name, *widths))
    return tuple(sorted(out, key=lambda one: one.n_params_active_width_ratio))
