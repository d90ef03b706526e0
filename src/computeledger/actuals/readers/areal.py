"""AReaL consoles: the table of statistics below each train step, an RL step by phase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.metric_steps import PrintedStep, metric_entries
from computeledger.actuals.readers.tally import Hints, Tally, amounts
from computeledger.actuals.run_ledger import Entry

TOOL = "AReaL log"
MARK = b"timeperf/train_step"

_STEP = re.compile(r"Train step (\d+)/\d+ done")
_CELL = re.compile(r"\u2502\s*(timeperf/\w+)\s*\u2502\s*([\d.eE+-]+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a console."""
    yield from metric_entries("areal", _printed(lines), hints, (TOOL, tally))


def _printed(lines: Iterable[tuple[int, str]]) -> Iterator[PrintedStep]:
    """The cells of times between one train step's line and the next."""
    step, last = 0, 0
    metrics: dict[str, float] = {}
    for number, text in lines:
        if found := _STEP.search(text):
            if metrics:
                yield PrintedStep(last, step, metrics)
                metrics = {}
            step = int(found[1])
        elif "timeperf/" in text:
            metrics |= amounts(_CELL.findall(text))
            last = number
    if metrics:
        yield PrintedStep(last, step, metrics)
