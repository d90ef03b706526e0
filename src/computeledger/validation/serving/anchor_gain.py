"""What one measurement of a run is worth: errors on the rest of the run, before and after it shifts the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.validation.compare import Comparison
from computeledger.workloads.serving.intervals import anchored, interval_of

#: Points that a run needs, the anchor included.
FEWEST_SETTINGS = 4


@dataclass(frozen=True, slots=True)
class AnchorGain:
    """Median errors on the points of runs whose middle point was taken as an anchor."""

    n: int
    n_runs: int
    before: float
    after: float


def anchor_gain(comparison: Comparison, quantity: str = "tpot") -> AnchorGain | None:
    """Anchor every run on one of its points and predict the others.

    Examples
    --------
    >>> row = {"run": "one", "class": "known deployment"}
    >>> measured = np.array([2.0, 2.1, 1.9, 2.0])
    >>> found = anchor_gain(Comparison([row] * 4, {"tpot": measured}, {"tpot": np.ones((4, 3))}, {}))
    >>> bool(found.after < 0.6 * found.before)
    True
    """
    if quantity not in comparison.measured:
        return None
    runs: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(comparison.rows):
        if "run" in row and "class" in row and np.isfinite(comparison.measured[quantity][place]):
            runs.setdefault((row["run"], row["class"]), []).append(place)
    middle = np.median(comparison.predicted[quantity], axis=1)
    before: list[float] = []
    after: list[float] = []
    n_runs = 0
    for (_, name), places in runs.items():
        if len(places) < FEWEST_SETTINGS:
            continue
        n_runs += 1
        ratios = comparison.measured[quantity][places] / middle[places]
        # the point that measures the middle time stands for the run
        anchor = int(np.argsort(comparison.measured[quantity][places])[len(places) // 2])
        shift = float(anchored(interval_of(name), quantity, [float(ratios[anchor])]).quantile(0.0))
        others = np.delete(ratios, anchor)
        before += np.abs(1 / others - 1).tolist()
        after += np.abs(shift / others - 1).tolist()
    if not before:
        return None
    return AnchorGain(len(before), n_runs, float(np.median(before)), float(np.median(after)))
