"""Samples of supposed models under every hypothesis of how they are served, and open models beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.prices.markup import known_models
from computeledger.economics.prices.physics import (
    SPEED_TARGETS,
    Cell,
    Served,
    ServingPrior,
    Supposed,
    cells,
    rows_of,
    serve_supposed,
)
from computeledger.economics.prices.points import PricePoints, open_models
from computeledger.facts.load import load_system
from computeledger.physics.blackboard.context import kv_crossover_context_tokens
from computeledger.progress import counted

Floats = NDArray[np.float64]

#: Draws of each open model per hypothesis.
KNOWN_EACH = 2


def open_kv_bytes() -> Floats:
    """Cache bytes per token of open models: the prior, and the posterior, of what prices do not tell.

    Examples
    --------
    >>> bool(4096 < open_kv_bytes().min() < 10_000)
    True
    """
    known = np.array([model.kv_bytes_per_token for model in open_models().values()])
    return np.asarray(known[np.isfinite(known)], float)


@dataclass(frozen=True, slots=True)
class Samples:
    """Everything drawn: the sheet's own model under every hypothesis, and open models served alike."""

    supposed: Supposed
    premium: Floats
    served: Served
    crossover_tokens: Floats
    where: NDArray[np.int64]
    places: list[tuple[Cell, str]]
    ruled_out: dict[Cell, str]
    names: NDArray[np.str_]
    known: Served

    def refusals(self, weight: Floats) -> dict[tuple[Cell, str], str]:
        """Why hypotheses have no weight."""
        out = {}
        for place, (cell, speed) in enumerate(self.places):
            mine = self.where == place
            if not weight[mine].sum() > 0:
                held = np.any(self.served.largest_batch[mine] >= 1)
                why = "no batch of one fits beside the weights"
                if np.any(self.served.fits[mine]):
                    why = "the batch is too small for the fast mode's share of it"
                elif held:
                    why = f"even one sequence takes more than the {speed} target per token"
                out[cell, speed] = why
        return out


def serve_samples(
    drawn: tuple[Supposed, Floats], known: PricePoints, prior: ServingPrior, rng: np.random.Generator,
    fast_batch_ratio: float | None,
) -> Samples:  # fmt: skip
    """Serve a share of the samples, and every open model, under each hypothesis.

    Examples
    --------
    >>> from computeledger.economics.prices.points import shipped_points
    >>> drawn = Supposed(*(np.full(960, value) for value in (8e9, 8e9, 131072.0))), np.zeros(960)
    >>> found = serve_samples(drawn, shipped_points(), ServingPrior(), np.random.default_rng(0), None)
    >>> len(found.where) == 960 and bool(np.median(found.served.batch[found.served.fits]) > 50)
    True
    """
    supposed, premium = drawn
    ruled_out, possible = cells()
    places = [(cell, speed) for cell in possible for speed in SPEED_TARGETS]
    per = len(premium) // len(places) * len(SPEED_TARGETS)
    speeds = np.repeat(np.arange(len(SPEED_TARGETS)), per // len(SPEED_TARGETS))
    rows = np.arange(per * len(possible))
    own, others, crossover = [], [], []
    names = np.unique(known.model)
    for place, cell in enumerate(counted(possible, "ways of serving")):
        mine = rows_of(supposed, rows[place * per : (place + 1) * per])
        names, open_ = known_models(known, rng.permutation(open_kv_bytes()), KNOWN_EACH * len(SPEED_TARGETS))
        both = Supposed(*(np.concatenate([getattr(mine, key), getattr(open_, key)]) for key in Supposed.__slots__))
        aims = np.concatenate([speeds, np.tile(np.arange(len(SPEED_TARGETS)), len(names) * KNOWN_EACH)])
        served = serve_supposed(both, (cell, aims), prior, rng, fast_batch_ratio)
        own.append(rows_of(served, np.arange(per)))
        others.append(rows_of(served, np.arange(per, len(aims))))
        chip = load_system(cell.system_id).accelerator
        cached = mine.kv_bytes_per_token * (1.0 if cell.precision == "bf16" else 0.5)
        peak, bandwidth = chip.peak(chip.native_precision(cell.precision)), float(chip.hbm_bytes_per_s.value)
        crossover.append(np.asarray(kv_crossover_context_tokens(mine.n_params_active, peak, bandwidth, cached), float))
    served = Served(*(np.concatenate([getattr(one, key) for one in own]) for key in Served.__slots__))
    table = {
        key: np.stack([getattr(one, key).reshape(len(names), -1) for one in others], axis=1).reshape(-1)
        for key in Served.__slots__
    }
    return Samples(
        rows_of(supposed, rows), premium[rows], served, np.concatenate(crossover),
        np.repeat(np.arange(len(places)), per // len(SPEED_TARGETS)), places, ruled_out, names,
        Served(**table),
    )  # fmt: skip
