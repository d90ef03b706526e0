"""Histograms of Prometheus: what was observed between two scrapes, its mean, and quantiles by interpolation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Observed:
    """Times that were observed.

    Attributes
    ----------
    count : float
        How many [-].
    total_s : float
        Their sum [s].
    up_to : Mapping of float to float
        How many were at most so long, by the upper end of each bucket [s].
    """

    count: float
    total_s: float
    up_to: Mapping[float, float] = field(default_factory=dict)

    @property
    def mean_s(self) -> float:
        """Mean [s]."""
        return self.total_s / self.count

    def quantile_s(self, share: float) -> float | None:
        """Time that a share of them keeps, as if those of a bucket lay evenly in it; None beyond the last bound.

        Parameters
        ----------
        share : float
            Of the observations, 0 to 1 [-].

        Returns
        -------
        float or None
            Quantile [s].

        Examples
        --------
        >>> seen = Observed(10.0, 3.0, {0.1: 0.0, 0.2: 4.0, 0.5: 9.0, math.inf: 10.0})
        >>> seen.quantile_s(0.2), seen.quantile_s(0.65), seen.quantile_s(0.95)
        (0.15000000000000002, 0.35, None)
        """
        wanted = share * max(self.up_to.values(), default=0.0)
        below, start = 0.0, 0.0
        for end, count in sorted(self.up_to.items()):
            if count >= wanted and count > below:
                if math.isinf(end):
                    return None
                return start + (end - start) * (wanted - below) / (count - below)
            below, start = max(count, below), end
        return None


def joined(parts: list[Observed]) -> Observed:
    """What several ranks observed, as one.

    Examples
    --------
    >>> joined([Observed(2.0, 1.0, {1.0: 2.0}), Observed(1.0, 3.0, {1.0: 0.0})])
    Observed(count=3.0, total_s=4.0, up_to={1.0: 2.0})
    """
    up_to: dict[float, float] = {}
    for one in parts:
        for end, count in one.up_to.items():
            up_to[end] = up_to.get(end, 0.0) + count
    return Observed(sum(one.count for one in parts), sum(one.total_s for one in parts), up_to)
