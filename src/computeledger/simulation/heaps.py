"""Ordered containers in plain arrays: a binary heap and a tournament tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from computeledger.simulation.compiled import kernel

Times = NDArray[np.float64]


@kernel
def push(keys: NDArray[np.generic], values: NDArray[np.generic], n: int, key: float, value: int) -> None:
    """Put an entry into a heap; of equal keys the smaller value comes first.

    Examples
    --------
    >>> keys, values = np.zeros(4), np.zeros(4, int)
    >>> push(keys, values, 0, 2.0, 7), push(keys, values, 1, 1.0, 8), float(keys[0]), int(values[0])
    (None, None, 1.0, 8)
    """
    place = n
    while place > 0:
        above = (place - 1) >> 1
        if keys[above] < key or (keys[above] == key and values[above] <= value):
            break
        keys[place] = keys[above]
        values[place] = values[above]
        place = above
    keys[place] = key
    values[place] = value


@kernel
def pop(keys: NDArray[np.generic], values: NDArray[np.generic], n: int) -> None:
    """Take the first entry out of a heap.

    Examples
    --------
    >>> keys, values = np.array([1.0, 2.0]), np.array([8, 7])
    >>> pop(keys, values, 2), int(values[0])
    (None, 7)
    """
    last = n - 1
    key, value = keys[last], values[last]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        right = below + 1
        if right < last and (
            keys[right] < keys[below] or (keys[right] == keys[below] and values[right] < values[below])
        ):
            below = right
        if keys[below] > key or (keys[below] == key and values[below] >= value):
            break
        keys[place] = keys[below]
        values[place] = values[below]
        place = below
    keys[place] = key
    values[place] = value


@kernel
def remove(keys: NDArray[np.generic], values: NDArray[np.generic], n: int, place: int) -> None:
    """Take any entry out of a heap.

    Examples
    --------
    >>> keys, values = np.array([1.0, 2.0, 3.0]), np.array([8, 7, 6])
    >>> remove(keys, values, 3, 1), int(values[1])
    (None, 6)
    """
    last = n - 1
    key, value = keys[last], values[last]
    for entry in range(place, last):  # close the gap, then order again: rare, so simple
        keys[entry] = keys[entry + 1]
        values[entry] = values[entry + 1]
    for entry in range(1, last):
        key, value = keys[entry], values[entry]
        push(keys, values, entry, key, value)


@kernel
def put_end(tree: Times, leaf: int, end_s: float) -> None:
    """Set when a replica's run ends.

    Examples
    --------
    >>> tree = np.full(4, np.inf)
    >>> put_end(tree, 1, 2.0), float(tree[1]), first_leaf(tree)
    (None, 2.0, 1)
    """
    place = (len(tree) >> 1) + leaf
    tree[place] = end_s
    place >>= 1
    while place > 0:
        left, right = tree[2 * place], tree[2 * place + 1]
        tree[place] = min(left, right)
        place >>= 1


@kernel
def first_leaf(tree: Times) -> int:
    """Replica whose run ends first; of several, the first of them.

    Examples
    --------
    >>> tree = np.full(4, np.inf)
    >>> put_end(tree, 1, 2.0), first_leaf(tree)
    (None, 1)
    """
    leaves = len(tree) >> 1
    place = 1
    while place < leaves:
        place *= 2
        if tree[place] > tree[place + 1]:
            place += 1
    return place - leaves
