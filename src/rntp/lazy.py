"""A sequence whose items are made when they are asked for, in order, and forgotten behind a window."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, overload

from computeledger.errors import InputError

T = TypeVar("T")
#: Items kept behind the last one that was asked for.
WINDOW = 1024


class Renewed(Iterable[T]):
    """An iterable that begins anew each time, such as a stream of documents."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        """Begin anew."""
        return self._make()


class Lazy(Sequence[T]):
    """Items of an iterable by their place, made in order: memory does not grow with their number.

    Asking for one that was forgotten begins anew and makes all before it once more.
    """

    def __init__(self, given: Iterable[T], count: int, window: int = WINDOW) -> None:
        self._given, self._count, self._window = given, count, window
        self._kept: OrderedDict[int, T] = OrderedDict()
        self._next = 0
        self._source: Iterator[T] = iter(given)

    def __len__(self) -> int:
        """Items in all [-]."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        """Give one item, or some as a list."""
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        if place < self._next and place not in self._kept:
            self._source, self._next = iter(self._given), 0
            self._kept.clear()
        while place >= self._next:
            try:
                self._kept[self._next] = next(self._source)
            except StopIteration:
                raise InputError(f"{self._next} items where {self._count} were promised") from None
            self._next += 1
            if len(self._kept) > self._window:
                self._kept.popitem(last=False)
        return self._kept[place]
