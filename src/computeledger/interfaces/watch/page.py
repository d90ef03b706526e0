"""The live page of ``computeledger watch``: the newest answer and the last hour of it, as one view."""

from __future__ import annotations

import datetime
from collections import deque
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from computeledger.interfaces.plots.watch import Moment, history_figure
from computeledger.interfaces.render.html import report
from computeledger.interfaces.view import Plot
from computeledger.units import KILO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from computeledger.questions.answers.watch.answer import WatchAnswer
    from computeledger.questions.answers.watch.session import Endpoint

#: Answers that a page remembers: an hour of one every 5 s.
REMEMBERED = 720
#: Quantities that are drawn over time: title, unit of the axis, and what a value is multiplied with for it.
_DRAWN = {
    "tpot_s": ("Time per output token", "ms", KILO),
    "output_tokens_per_s": ("Output tokens per second", "tokens/s", 1.0),
}


class Board:
    """What the page and the metrics show: the newest answer, and what came before.

    Parameters
    ----------
    every_s : float
        Time after which the page asks for what is new [s].
    """

    def __init__(self, every_s: float = 5.0) -> None:
        self.every_s = every_s
        self.answer: WatchAnswer | None = None
        self.endpoints: tuple[Endpoint, ...] = ()
        self._history: dict[str, deque[Moment]] = {key: deque(maxlen=REMEMBERED) for key in _DRAWN}

    def show(self, answer: WatchAnswer, when: datetime.datetime) -> None:
        """Take a newer answer.

        Parameters
        ----------
        answer : WatchAnswer
            The newest one.
        when : datetime.datetime
            The end of its span, with a time zone.
        """
        told = when.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
        for key, (_, _, factor) in _DRAWN.items():
            row = answer.row(key)
            seen = None if row is None or row.actual is None else factor * row.actual
            of = None if row is None else row.predicted
            ends = None if of is None else (factor * of.p05, factor * of.p50, factor * of.p95)
            if seen is not None or self._history[key]:
                self._history[key].append((told, seen, ends))
        self.answer, self.endpoints = answer, answer.endpoints

    def hear_nothing(self, endpoints: Sequence[Endpoint]) -> None:
        """No address has answered yet."""
        self.endpoints = tuple(endpoints)

    def page(self, *, is_whole: bool) -> str:
        """The page; without what never changes where it asks for itself again."""
        answer = self.answer
        if answer is None:
            said = "; ".join(one.said(one.silence) for one in self.endpoints if one.silence)
            return _WAITING.replace("{said}", f" {escape(said)}." if said else "")
        view = replace(answer.view(), plots=tuple(self._plots()))
        return report(view, live_s=self.every_s, has_library=is_whole, silence=answer.silence)

    def _plots(self) -> list[Plot]:
        return [
            Plot(
                key,
                f"{title} over time",
                "Measured between two scrapes; the band is the 90 % interval of the prediction at that load.",
                history_figure(list(self._history[key]), unit),
            )
            for key, (title, unit, _) in _DRAWN.items()
            if self._history[key]
        ]


#: The page while no scrape has been answered.
_WAITING = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta http-equiv="refresh" content="2"><link rel="icon" href="data:,">
<title>computeledger watch</title><body style="font-family: system-ui, sans-serif; margin: 2rem">
<main><h1>computeledger watch</h1><p>No scrape has been answered yet.{said}</p></main></body></html>
"""
