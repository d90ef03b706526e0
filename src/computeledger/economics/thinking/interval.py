"""A 90 % interval that holds 90 % of groups it has not seen: errors by group, each group held by the others'."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Share of figures that an interval promises to hold, and the shares of errors tried to keep that promise.
PROMISE = 0.9
_LADDER = (0.9, 0.92, 0.94, 0.96, 0.98, 1.0)


def _quantile(sizes: Floats, share: float) -> float:
    """The smallest size below which so many of one more figure would lie."""
    place = min(math.ceil((len(sizes) + 1) * share), len(sizes)) - 1
    return float(np.partition(sizes, place)[place])


def _level(sizes: Floats, groups: NDArray[np.intp]) -> float:
    """Share of the errors whose size holds nine of ten of each group by the others."""
    if len(np.unique(groups)) == 1:
        return PROMISE
    for share in _LADDER:
        held = [sizes[groups == one] <= _quantile(sizes[groups != one], share) for one in np.unique(groups)]
        if float(np.concatenate(held).mean()) >= PROMISE:
            return share
    return _LADDER[-1]


def _split(errors: Sequence[tuple[str, float]]) -> tuple[Floats, NDArray[np.intp]]:
    _, groups = np.unique([group for group, _ in errors], return_inverse=True)
    return np.abs([error for _, error in errors]), groups


def half_width(errors: Sequence[tuple[str, float]]) -> float:
    """Half-width of a 90 % interval about a group that was not seen.

    The quantile of the errors that holds nine of ten figures where each group is held by the others: more than nine of
    ten errors where groups differ.

    Parameters
    ----------
    errors : sequence of tuple
        Group, and error.

    Returns
    -------
    float
        In the unit of the errors.

    Examples
    --------
    >>> half_width([("a", 0.1), ("b", 0.2), ("c", -0.3)])
    0.3
    """
    sizes, groups = _split(errors)
    return _quantile(sizes, _level(sizes, groups))


def held_fraction(errors: Sequence[tuple[str, float]]) -> float:
    """Share of figures inside the interval that :func:`half_width` makes of the other groups alone.

    Parameters
    ----------
    errors : sequence of tuple
        Group, and error.

    Returns
    -------
    float
        Of all figures [-].

    Examples
    --------
    >>> held_fraction([("a", 0.1), ("a", 0.1), ("b", 0.2), ("b", 0.05)])
    0.75
    """
    sizes, groups = _split(errors)
    held = [
        sizes[groups == one] <= _quantile(sizes[groups != one], _level(sizes[groups != one], groups[groups != one]))
        for one in np.unique(groups)
    ]
    return float(np.concatenate(held).mean())
