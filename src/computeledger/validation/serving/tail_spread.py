"""How much further out percentiles lie than the interval of their class: fitted to published ones, by source left out.

The ends are split-conformal as those of a class are: of every published percentile, how far it lies beyond what is
simulated at an end of the interval; no source counts for more than a few of its figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from computeledger.validation.conformal import FEWEST_ERRORS, MOST_OF_A_GROUP, Array
from computeledger.workloads.serving.tails import TailCalibration, TailSpread

#: Fewer sources carry no spread of their own: one left out has to leave three.
_FEWEST_SOURCES = 4
#: Share beyond either end of a 90 % interval.
_BEYOND = 0.05
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class TailFigure:
    """A published percentile beyond the median, beside what is simulated.

    Attributes
    ----------
    source : str
        Who measured it.
    load, quantity, statistic : str
        ``steady`` or ``burst``; ``ttft_s`` and the like; which percentile.
    measured_s : float
        What was published [s].
    low_s, high_s : float
        Simulated at the ends of the 90 % interval of its class [s].
    """

    source: str
    load: str
    quantity: str
    statistic: str
    measured_s: float
    low_s: float
    high_s: float

    def is_held(self, spread: TailSpread) -> bool:
        """Whether the interval holds what was measured.

        Examples
        --------
        >>> far = TailFigure("a", "steady", "ttft_s", "p99", 3.0, 1.0, 2.0)
        >>> far.is_held(TailSpread()), far.is_held(TailSpread(1.0, 1.5))
        (False, True)
        """
        return spread.low * self.low_s <= self.measured_s <= spread.high * self.high_s


def spread_of_tails(figures: Sequence[TailFigure]) -> TailSpread:
    """Fit both ends; an interval is never narrower than that of the class.

    Examples
    --------
    >>> figures = [TailFigure(f"source {n % 5}", "steady", "ttft_s", "p99", 1.0 + n, 1.0, 10.0) for n in range(20)]
    >>> spread_of_tails(figures)
    TailSpread(low=1.0, high=2.0)
    """
    groups = np.array([one.source for one in figures])
    above = np.array([math.log(one.measured_s / one.high_s) for one in figures])
    below = np.array([math.log(one.low_s / one.measured_s) for one in figures])
    return TailSpread(round(1 / _out(below, groups), _DIGITS), round(_out(above, groups), _DIGITS))


def _out(beyond: Array, groups: np.ndarray) -> float:
    """Ratio that leaves 5 % of new figures beyond it; ``(n + 1) / n`` makes up for how few there are."""
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights = np.minimum(1.0, MOST_OF_A_GROUP / counts[places])
    order, n = np.argsort(beyond), float(weights.sum())
    share = min((1 - _BEYOND) * (n + 1) / n, 1.0)
    place = int(np.searchsorted(np.cumsum(weights[order]) / n, share - 1e-12))
    return math.exp(max(float(beyond[order][min(place, len(beyond) - 1)]), 0.0))


def held_left_out(figures: Sequence[TailFigure]) -> list[bool]:
    """Of every figure, whether the spread of all other sources holds it."""
    spreads = {
        source: spread_of_tails([one for one in figures if one.source != source])
        for source in {one.source for one in figures}
    }
    return [one.is_held(spreads[one.source]) for one in figures]


def carries(figures: Sequence[TailFigure]) -> bool:
    """Whether there are enough figures and sources for a spread of their own."""
    return len(figures) >= FEWEST_ERRORS and len({one.source for one in figures}) >= _FEWEST_SOURCES


def fit_tails(figures: Sequence[TailFigure]) -> dict[tuple[str, str], TailCalibration]:
    """Fit every time under every kind of load that has enough figures.

    Examples
    --------
    >>> fit_tails([TailFigure("a", "steady", "ttft_s", "p99", 3.0, 1.0, 2.0)])
    {}
    """
    out = {}
    for key in sorted({(one.load, one.quantity) for one in figures}):
        own = [one for one in figures if (one.load, one.quantity) == key]
        if carries(own):
            held, sources = held_left_out(own), {one.source for one in own}
            share, today = round(float(np.mean(held)), _DIGITS), date.today().isoformat()
            out[key] = TailCalibration(spread_of_tails(own), len(own), len(sources), share, today)
    return out


def tails_text(found: dict[tuple[str, str], TailCalibration]) -> str:
    """Write a fit as the file that the package ships.

    Examples
    --------
    >>> print(tails_text({("steady", "ttft_s"): TailCalibration(TailSpread(0.5, 2.0), 30, 5, 0.9, "2026-11-23")}))
    # Percentiles beyond the median, over what is simulated at the ends of their class's 90 % interval: fitted by
    # computeledger.validation.serving.tail_spread to serving_percentiles.csv; a test derives it again.
    [steady.ttft_s]
    low = 0.5
    high = 2.0
    n = 30
    n_sources = 5
    coverage_fraction = 0.9
    data = "30 published percentiles of 5 sources; the share held has each source left out"
    date = "2026-11-23"
    <BLANKLINE>
    """
    lines = [
        "# Percentiles beyond the median, over what is simulated at the ends of their class's 90 % interval: fitted by",
        "# computeledger.validation.serving.tail_spread to serving_percentiles.csv; a test derives it again.",
    ]
    for (load, name), one in found.items():
        data = f"{one.n} published percentiles of {one.n_sources} sources; the share held has each source left out"
        lines += [
            f"[{load}.{name}]", f"low = {one.spread.low}", f"high = {one.spread.high}", f"n = {one.n}",
            f"n_sources = {one.n_sources}", f"coverage_fraction = {one.coverage_fraction}", f'data = "{data}"',
            f'date = "{one.date}"', "",
        ]  # fmt: skip
    return "\n".join(lines)
