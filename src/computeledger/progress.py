"""How far long work is, and its end where nobody waits any more: loops over blocks say so to whoever listens.

The work runs in one thread, its listener reads in another. Where nobody listens a loop is a plain loop.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
#: Silence after which work that is counted says how far it is [s]; later it says so less often, each fifth more.
SILENT_S, LATER = 4.0, 0.2


class StoppedError(BaseException):
    """Whoever asked has gone. Like an interrupt it is no error of the input, and nothing on the way may answer it."""


class Progress:
    """Listener of one piece of work; it may be told in words what is about to take long.

    Examples
    --------
    >>> heard = Progress()
    >>> with listening(heard):
    ...     for _ in counted("abcd", "letters"):
    ...         heard.done, heard.total, heard.what
    ...         heard.is_stopped = heard.done == 1
    Traceback (most recent call last):
    computeledger.progress.StoppedError
    >>> heard.done
    2

    A loop of which what is done is kept may be given a time, and is asked again:

    >>> with listening(Progress(most_s=0.0)) as heard:
    ...     for _ in counted("abcd", "letters"):
    ...         pass
    Traceback (most recent call last):
    computeledger.progress.StoppedError
    >>> heard.done
    1
    """

    __slots__ = (
        "_said_s", "_since_s", "command", "depth", "done", "is_stopped", "most_s", "said_done", "say", "total", "what",
    )  # fmt: skip

    def __init__(self, say: Callable[[str], None] | None = None, most_s: float = math.inf) -> None:
        self.say = say
        #: Time from which on the outermost loop ends between two of its blocks: what is done of it is kept [s].
        self.most_s = most_s
        self.done, self.total, self.what = 0, 0, ""
        self.command = ""
        self.is_stopped = False
        self.depth = 0
        self.said_done: int | None = None  # what was last said of this loop
        self._since_s = self._said_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether to end before the next block: nobody waits, or the outermost loop has had its time and did one."""
        if self.is_stopped or self.depth > 1 or self.done == 0 or math.isinf(self.most_s):
            return self.is_stopped
        return time.monotonic() - self._since_s > self.most_s

    def tell(self, *, is_end: bool = False) -> None:
        """Say how far long work is, to whoever wants to be told: now and then; its end where more was said."""
        now_s = time.monotonic()
        is_due = now_s - self._said_s >= max(SILENT_S, LATER * (now_s - self._since_s))
        if self.say is None or not (self.said_done not in (None, self.done) if is_end else is_due):
            return
        self._said_s, self.said_done = now_s, self.done
        self.say(f"{self.done:,} of {self.total:,} {self.what}" if self.total else f"{self.done:,} {self.what}")


_heard: ContextVar[Progress | None] = ContextVar("heard", default=None)


@contextlib.contextmanager
def listening(progress: Progress) -> Iterator[Progress]:
    """Listen to the work inside a ``with`` block, of this thread.

    Examples
    --------
    >>> with listening(Progress()) as heard:
    ...     pairs = [(one, two) for one in counted("ab", "outer") for two in counted([1, 2, 3], "inner")]
    >>> len(pairs), heard.done, heard.total, heard.what
    (6, 2, 2, 'outer')
    """
    token = _heard.set(progress)
    try:
        yield progress
    finally:
        _heard.reset(token)


def counted(items: Iterable[Item], what: str) -> Iterator[Item]:
    """Go over blocks of work and say before each how many are done.

    Examples
    --------
    >>> list(counted([1, 2, 3], "blocks"))
    [1, 2, 3]
    """
    heard = _heard.get()
    if heard is None:
        yield from items
        return
    known = list(items)
    yield from watched(known, len(known), what)


def watched(results: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Go over results as they come, of so many in all (0: not known), and say how many have come.

    Examples
    --------
    >>> with listening(Progress()) as heard:
    ...     [(one, heard.done, heard.total) for one in watched(iter("ab"), 2, "letters")]
    [('a', 0, 2), ('b', 1, 2)]
    """
    heard = _heard.get()
    if heard is None:
        yield from results
        return
    if heard.is_stopped:
        raise StoppedError
    heard.depth += 1
    try:
        if heard.depth == 1:
            heard.done, heard.total, heard.what, heard.said_done = 0, total, what, None
        for place, item in enumerate(results):
            if heard.is_over:
                raise StoppedError
            if heard.depth == 1:
                heard.done, heard.total, heard.what = place, total, what
            yield item
            if heard.depth == 1:
                heard.done = place + 1
                heard.tell()
        if heard.depth == 1:
            heard.tell(is_end=True)
    finally:
        heard.depth -= 1


def stage(what: str) -> None:
    """Say what is worked on where there is no loop to count, and end where nobody waits any more.

    Examples
    --------
    >>> with listening(Progress()) as heard:
    ...     stage("the text")
    >>> heard.what, heard.total
    ('the text', 0)
    """
    heard = _heard.get()
    if heard is None:
        return
    if heard.is_stopped:
        raise StoppedError
    if heard.depth == 0:
        heard.done, heard.total, heard.what = 0, 0, what


def commanded(command: str) -> None:
    """Say by which command the same may be asked, before the work on its answer begins.

    Examples
    --------
    >>> with listening(Progress()) as heard:
    ...     commanded("computeledger think")
    >>> heard.command
    'computeledger think'
    """
    heard = _heard.get()
    if heard is not None:
        heard.command = command


def announce(what: str) -> None:
    """Say before a long wait that can be neither counted nor ended what it is.

    Examples
    --------
    >>> with listening(Progress(print)):
    ...     announce("half a minute of silence")
    half a minute of silence
    """
    heard = _heard.get()
    if heard is not None:
        heard.done, heard.total, heard.what = 0, 0, what
        if heard.say is not None:
            heard.say(what)
