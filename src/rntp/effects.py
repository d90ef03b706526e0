"""Differences between ways of training, paired over documents and seeds, and what can be told from them.

Every way was measured at the same documents with each seed. An interval draws seeds and documents again, crossed. Few
seeds make it too narrow: a verdict therefore also needs every seed on the same side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError

Floats = NDArray[np.float64]

_DRAWS = 4000
_ENDS = (0.025, 0.975)
#: Below this a spread is rounding.
_LEAST_SPREAD = 1e-12
BETTER, WORSE, UNKNOWN = "better", "worse", "cannot be told"


@dataclass(frozen=True, slots=True)
class Effect:
    """A mean over seeds and documents, its 95 % interval, the mean of every seed; of a difference Cohen's d."""

    mean: float
    low: float
    high: float
    by_seed: tuple[float, ...]
    cohens_d: float | None = None

    @property
    def verdict(self) -> str:
        """Better or worse where interval and seeds agree."""
        if self.low > 0 and min(self.by_seed) > 0:
            return BETTER
        return WORSE if self.high < 0 and max(self.by_seed) < 0 else UNKNOWN

    def document(self) -> dict[str, Any]:
        """Write it down."""
        out = {"mean": self.mean, "low": self.low, "high": self.high, "by_seed": list(self.by_seed)}
        return out if self.cohens_d is None else {**out, "cohens_d": self.cohens_d, "verdict": self.verdict}


def mean_effect(values: Floats, seed: int = 0) -> Effect:
    """Average over seeds (rows) and documents (columns), both drawn again for the interval.

    Examples
    --------
    >>> one = mean_effect(np.array([[1.0, 0.0], [1.0, 1.0]]))
    >>> one.mean, one.low <= one.mean <= one.high, one.by_seed
    (0.75, True, (0.5, 1.0))
    """
    if values.ndim != 2 or not values.size:
        raise InputError(f"effect: a row per seed and a column per document are needed, not the shape {values.shape}")
    chance = np.random.default_rng(seed)
    n_seeds, n_documents = values.shape
    seeds = chance.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), _DRAWS) / n_seeds
    documents = chance.multinomial(n_documents, np.full(n_documents, 1 / n_documents), _DRAWS) / n_documents
    low, high = np.quantile(np.einsum("rs,rs->r", seeds, documents @ values.T), _ENDS)
    return Effect(float(values.mean()), float(low), float(high), tuple(values.mean(axis=1).tolist()))


def paired_effect(one: Floats, other: Floats) -> Effect:
    """Compare two ways at the same seeds and documents: mean difference, and Cohen's d of the paired differences.

    Examples
    --------
    >>> chance = np.random.default_rng(0)
    >>> before = chance.normal(size=(3, 50))
    >>> found = paired_effect(before + 1 + 0.5 * chance.normal(size=(3, 50)), before)
    >>> found.verdict, round(found.cohens_d)
    ('better', 2)
    """
    if one.shape != other.shape:
        raise InputError(f"effect: the same seeds and documents are needed, not {one.shape} and {other.shape}")
    found = mean_effect(one - other)
    spread = float((one - other).std())
    size = found.mean / spread if spread > _LEAST_SPREAD else 0.0
    return Effect(found.mean, found.low, found.high, found.by_seed, size)
