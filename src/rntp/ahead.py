"""Thoughts that are drawn one batch before they are learnt from, so that an engine elsewhere samples meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import fields
from pathlib import Path
from typing import Any

from computeledger.actuals.recording.run import PhaseBook
from rntp.turns import Thoughts

#: Rows of a batch.
Batch = list[dict[str, Any]]
#: What a thread beside the trainer's own counts its work in: the time it takes is no phase of the trainer.
BESIDE: ContextVar[PhaseBook | None] = ContextVar("beside", default=None)


class Ahead:
    """A batch in hand, with its thoughts or while they are drawn.

    Parameters
    ----------
    draw : callable
        Samples the thoughts of some rows.
    is_beside : bool
        Whether that goes on in a thread of its own, as it may where the engine has weights of its own.

    Examples
    --------
    >>> ahead = Ahead(lambda rows: f"thoughts of {len(rows)} rows", is_beside=True)
    >>> ahead.begin([4, 5], [{}, {}], PhaseBook(None))
    >>> ahead.wait(PhaseBook(None))
    >>> ahead.take()
    ([{}, {}], 'thoughts of 2 rows')
    >>> ahead.take() is None
    True
    """

    def __init__(self, draw: Callable[[Batch], Thoughts], *, is_beside: bool) -> None:
        self._draw, self._is_beside = draw, is_beside
        self._numbers: Sequence[int] = ()
        self._rows: Batch = []
        self._due: Future[Thoughts] | None = None
        self._counted: PhaseBook | None = None

    @property
    def is_open(self) -> bool:
        """Whether a thread draws, or has drawn, what was not waited for."""
        return self._counted is not None

    def begin(self, numbers: Sequence[int], rows: Batch, counted: PhaseBook) -> None:
        """Draw the thoughts of rows: now, or meanwhile, with what is counted in a book of its own."""
        due: Future[Thoughts] = Future()
        self._numbers, self._rows, self._due = numbers, rows, due
        if self._is_beside:
            self._counted = counted
            # a thread that waits for a server does not keep a run that was stopped alive
            threading.Thread(target=self._work, args=(rows, counted, due), daemon=True).start()
        else:
            due.set_result(self._draw(rows))

    def _work(self, rows: Batch, counted: PhaseBook, due: Future[Thoughts]) -> None:
        BESIDE.set(counted)
        try:
            due.set_result(self._draw(rows))
        except BaseException as error:  # noqa: BLE001 - it is raised where the thoughts are waited for
            due.set_exception(error)

    def wait(self, book: PhaseBook) -> None:
        """Wait for what is being drawn, and count its work in the phase that waits."""
        if self._due is not None:
            self._due.result()
        if self._counted is not None:
            book.tokens(**self._counted.tokens_by_kind)
            if self._counted.work is not None:
                book.add(self._counted.work)
            self._counted = None

    def take(self) -> tuple[Batch, Thoughts] | None:
        """Hand over the batch, with its thoughts; None where there is none."""
        if self._due is None:
            return None
        taken = self._rows, self._due.result()
        self._rows, self._due = [], None
        return taken

    def state(self) -> dict[str, Any] | None:
        """What a checkpoint keeps of the batch; None where there is none."""
        if self._due is None:
            return None
        thoughts = self._due.result()
        kept = {one.name: getattr(thoughts, one.name) for one in fields(Thoughts) if one.name != "plays"}
        return {"rows": list(self._numbers), "thoughts": kept}

    def load(self, state: Mapping[str, Any], row_of: Callable[[int], dict[str, Any]]) -> None:
        """Go on with a batch that was kept."""
        self._numbers = state["rows"]
        self._rows, self._due = [row_of(number) for number in self._numbers], Future()
        self._due.set_result(Thoughts(**state["thoughts"], plays=[None] * len(self._rows)))


def read_state(path: Path) -> dict[str, Any]:
    """Read what a checkpoint kept: as many tokens as a batch has, more than a user's own file may hold."""
    state: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return state
