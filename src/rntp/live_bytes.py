"""Bytes of the tensors that live at a time, counted as torch makes and frees them: the same on every machine.

What a kernel holds within itself is not seen; what existed before, such as weights, is not counted.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the tensors that are made while it is open.

    Examples
    --------
    >>> before = torch.zeros(1000)
    >>> with LiveBytes() as live:
    ...     for _ in range(3):
    ...         _ = (before.view(10, 100) + 1).sum()
    >>> live.peak_bytes, live.largest_bytes
    (4004, 4000)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch types it in part
        self.peak_bytes = self.largest_bytes = self.live_bytes = 0
        self._holders: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry an operation out, and count what it made."""
        given = kwargs or {}
        before = {_place(one) for one in tree_leaves((args, given)) if isinstance(one, torch.Tensor)}
        out = func(*args, **given)
        for one in tree_leaves(out):
            if isinstance(one, torch.Tensor) and (_place(one) in self._holders or _place(one) not in before):
                self._hold(one)
        return out

    def _hold(self, made: torch.Tensor) -> None:
        place, size = _place(made), made.untyped_storage().nbytes()
        if place not in self._holders:
            self.live_bytes += size
            self.largest_bytes = max(self.largest_bytes, size)
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        self._holders[place] = self._holders.get(place, 0) + 1
        weakref.finalize(made, self._let_go, place, size)

    def _let_go(self, place: int, size: int) -> None:
        """A tensor is gone; its storage with the last that shares it."""
        self._holders[place] -= 1
        if not self._holders[place]:
            del self._holders[place]
            self.live_bytes -= size


def _place(one: torch.Tensor) -> int:
    return one.untyped_storage().data_ptr()
