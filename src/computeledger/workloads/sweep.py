"""Long sweeps in blocks, over any executor: this process, local processes, a cluster.

Blocks do not depend on who computes them, so neither do results. They come back in order, and only a window of them is
under way, so that a sweep may be longer than memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from computeledger.progress import counted, watched

Block = TypeVar("Block")
Result = TypeVar("Result")
Columns = dict[str, NDArray[Any]]

#: Blocks under way at a time.
WINDOW = 256


def sweep(
    evaluate: Callable[[Block], Result],
    blocks: Iterable[Block],
    executor: Executor | None = None,
    window: int = WINDOW,
    what: str = "parts of the search",
) -> Iterator[Result]:
    """Evaluate blocks, in order.

    Parameters
    ----------
    evaluate : callable
        From a block to its result; both must be picklable for an executor of other processes.
    blocks : iterable
        Taken as they are needed.
    executor : concurrent.futures.Executor, optional
        Who computes; this process when left out. It is not shut down.
    window : int
        Blocks under way at a time [-].
    what : str
        What blocks are, for whoever watches.

    Yields
    ------
    object
        Each block's result, in the order of the blocks.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(sweep(abs, [-1, -2, -3], pool)) == list(sweep(abs, [-1, -2, -3]))
    True
    """
    if executor is None:
        yield from map(evaluate, counted(blocks, what))
        return
    total = len(blocks) if isinstance(blocks, Sized) else 0
    yield from watched(_in_order(evaluate, blocks, executor, window), total, what)


def _in_order(
    evaluate: Callable[[Block], Result], blocks: Iterable[Block], executor: Executor, window: int
) -> Iterator[Result]:
    """Results of other processes in the order of their blocks, a window of them under way."""
    rest = iter(blocks)
    waiting: deque[Future[Result]] = deque(executor.submit(evaluate, block) for block in islice(rest, max(window, 1)))
    try:
        while waiting:
            done = waiting.popleft()
            waiting.extend(executor.submit(evaluate, block) for block in islice(rest, 1))
            yield done.result()
    finally:
        for future in waiting:
            future.cancel()


def join_columns(parts: Iterable[Mapping[str, NDArray[Any]]]) -> Columns:
    """Put the columns of many blocks together.

    Examples
    --------
    >>> join_columns([{"a": np.array([1])}, {"a": np.array([2, 3])}])["a"].tolist()
    [1, 2, 3]
    """
    every = list(parts)
    return {name: np.concatenate([part[name] for part in every]) for name in (every[0] if every else ())}
