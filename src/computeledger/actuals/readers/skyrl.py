"""SkyRL consoles: the metrics that its console tracker prints below a step, an RL step by phase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.metric_steps import PrintedStep, metric_entries
from computeledger.actuals.readers.tally import Hints, Tally, amounts
from computeledger.actuals.run_ledger import Entry

TOOL = "SkyRL log"
MARK = b"'timing/fwd_logprobs_values_reward'"

_STEP = re.compile(r"Step (\d+):\s*$")
_VALUE = re.compile(r"'((?:timing|generate)/\w+)': '?([\d.eE+-]+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a console."""
    yield from metric_entries("skyrl", _printed(lines), hints, (TOOL, tally))


def _printed(lines: Iterable[tuple[int, str]]) -> Iterator[PrintedStep]:
    """Metrics of each step; an asynchronous run prints those of a step twice, its times last."""
    step, last = -1, 0
    metrics: dict[str, float] = {}
    for number, text in lines:
        if found := _STEP.search(text):
            if int(found[1]) != step and metrics:
                yield PrintedStep(last, step, metrics)
                metrics = {}
            step = int(found[1])
        elif step >= 0 and "'" in text:
            read = amounts(_VALUE.findall(text))
            metrics |= read
            last = number if read else last
    if metrics:
        yield PrintedStep(last, step, metrics)
