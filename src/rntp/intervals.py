"""Means over positions with 95 % intervals over documents: cluster-robust, with Student's t, and none from too few.

Positions of one document are not independent, so the unit is the document. With ``u_d`` the sum of a document's
deviations from the mean and ``h_d`` its share of the positions, the variance of the mean is

    V = sum_d u_d^2 / (1 - h_d) / n^2

which has no bias under independence (CR2), and the interval takes Student's t at the degrees of freedom of Bell and
McCaffrey: those of a variance that is estimated from documents of unequal length. Drawing documents again (the
percentile bootstrap) gives intervals that are too narrow below about 30 documents: docs/LOG.md has the table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError

#: Least number of documents for an interval: below it the coverage rests on the shape of the distribution.
LEAST_DOCUMENTS = 8
#: Least degrees of freedom: fewer say that one or two documents are most of the text.
LEAST_FREEDOM = 2.0
_LEVEL = 0.975
#: Steps of the integral of Student's density, and halvings of the search for its quantile.
_STEPS, _HALVINGS = 4001, 60


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over positions and its 95 % interval over documents."""

    mean: float
    low: float
    high: float
    n: int
    n_documents: int
    no_interval: str = ""

    def document(self) -> dict[str, float | str | None]:
        """Write it down; an end that is not finite is None."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        why = {"no_interval": self.no_interval} if self.no_interval else {}
        return {"mean": self.mean, "low": low, "high": high, "n": self.n, "documents": self.n_documents, **why}


def estimate(values: NDArray[np.float64], documents: Sequence[str]) -> Estimate:
    """Average over positions, with an interval over documents.

    Examples
    --------
    >>> one = estimate(np.array([1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0, 1.0]), list("abcdefgh"))
    >>> round(one.mean, 3), round(one.low, 3), round(one.high, 3)
    (1.0, 0.9, 1.1)
    >>> estimate(np.array([1.0, 1.2]), ["a", "b"]).no_interval
    '2 documents: at least 8 are needed for an interval'
    """
    if len(values) != len(documents) or not len(values):
        raise InputError(f"{len(values)} values of {len(documents)} positions: one each is needed, and at least one")
    _, which = np.unique(np.asarray(documents), return_inverse=True)
    counts = np.bincount(which).astype(float)
    mean, n, n_documents = float(np.mean(values)), len(values), len(counts)
    why = ""
    if n_documents < LEAST_DOCUMENTS:
        noun = "document" if n_documents == 1 else "documents"
        why = f"{n_documents} {noun}: at least {LEAST_DOCUMENTS} are needed for an interval"
    elif (freedom := _freedom(counts)) < LEAST_FREEDOM:
        why = (
            f"{n_documents} documents, most of the positions in one or two: more equal ones are needed for an interval"
        )
    if why:
        return Estimate(mean, -math.inf, math.inf, n, n_documents, why)
    off = np.bincount(which, weights=values - mean)
    error = math.sqrt(float(np.sum(off**2 / (1 - counts / n)))) / n
    reach = student_quantile(round(freedom, 1)) * error
    return Estimate(mean, mean - reach, mean + reach, n, n_documents)


def _freedom(counts: NDArray[np.float64]) -> float:
    """Degrees of freedom of the variance: the fewer of those with independent positions and with equal ones."""
    share = counts / counts.sum()
    found = []
    for power in (1, 2):  # variance of a document's sum: as its positions, or as their square
        spread = counts**power
        # covariance of u_d / sqrt(1 - h_d), where u = (I - h 1') e
        product = (
            np.diag(spread) - np.outer(share, spread) - np.outer(spread, share) + np.outer(share, share) * spread.sum()
        )
        scaled = product / np.sqrt(np.outer(1 - share, 1 - share))
        found.append(float(np.trace(scaled) ** 2 / np.sum(scaled**2)))
    return min(found)


@functools.lru_cache(maxsize=256)
def student_quantile(freedom: float) -> float:
    """Find where 97.5 % of Student's distribution lies below.

    Examples
    --------
    >>> [round(student_quantile(one), 3) for one in (2.0, 7.0, 1000.0)]
    [4.303, 2.365, 1.962]
    """
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2

    def above_median(end: float) -> float:
        """Probability between 0 and an end."""
        at = np.linspace(0.0, end, _STEPS)
        density = np.exp(scale - (freedom + 1) / 2 * np.log1p(at * at / freedom))
        return float(np.trapezoid(density, at))

    low, high = 1.9, 20.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if above_median(middle) < _LEVEL - 0.5 else (low, middle)
    return low
