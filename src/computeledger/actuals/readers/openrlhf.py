"""OpenRLHF consoles: the line of each global step, an RL step by phase.

A step's own time is the sum of its phases, or, where generation goes on beside the trainer, from one step to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.metric_steps import PrintedStep, metric_entries
from computeledger.actuals.readers.tally import Hints, Tally, amounts
from computeledger.actuals.run_ledger import Entry

TOOL = "OpenRLHF log"
MARK = re.compile(rb"Global step \d+: \{")

_STEP = re.compile(r"Global step (\d+): \{(.*)")
_VALUE = re.compile(r"'((?:timing|rollout)/\w+)': ([\d.eE+-]+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a console."""
    printed = (
        PrintedStep(number, int(found[1]), amounts(_VALUE.findall(found[2])))
        for number, text in lines
        if (found := _STEP.search(text))
    )
    yield from metric_entries("openrlhf", printed, hints, (TOOL, tally))
