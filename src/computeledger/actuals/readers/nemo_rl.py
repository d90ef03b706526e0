"""NeMo RL consoles: the timing block below each step, an RL step by phase.

Names of timers as ``nemo_rl/algorithms/grpo.py`` has them at commit 7ea279a of 2026-08-22.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from computeledger.actuals.readers.steps import Line, rl_entries
from computeledger.actuals.readers.tally import ROUNDING, Hints, Tally, amount, known_devices
from computeledger.actuals.run_ledger import Entry

TOOL = "NeMo RL log"
MARK = re.compile(rb"\W policy_training: [\d.]+s \(")

#: Timer -> phase; asynchronous runs log the wait for rollouts in place of their generation.
PHASE_OF_TIMER: Mapping[str, str] = {
    "generation": "generation", "exposed_generation": "generation", "reward_calculation": "verification",
    "policy_and_reference_logprobs": "log-probs", "policy_training": "update",
    "prepare_for_generation/total": "weight sync", "weight_sync": "weight sync", "data_processing": "data",
    "checkpointing": "checkpoint",
}  # fmt: skip
_SUMMED = (*dict.fromkeys(PHASE_OF_TIMER.values()), "idle")

_STEP = re.compile(r"=== Step (\d+)/\d+ ===")
_TOTAL = re.compile(r"Total step time: ([\d.]+)s")
_PART = re.compile(r"\W ([\w/]+): ([\d.]+)s \([\d.]+%\)")
_LENGTH = re.compile(r"Mean Generation Length: ([\d.]+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a console."""
    yield from rl_entries(_reports(lines, tally), _SUMMED, hints, (known_devices(None, hints, f"the {TOOL}"), tally))


def _reports(lines: Iterable[tuple[int, str]], tally: Tally) -> Iterator[Line]:
    """A line for each step whose timing block is whole."""
    step, length, total_s, since = 0, 0.0, 0.0, 0
    timers: dict[str, float] = {}
    for number, text in lines:
        if found := _STEP.search(text):
            if total_s:
                yield _line(since, step, (length, total_s, timers), tally)
            step, length, total_s, timers = int(found[1]), 0.0, 0.0, {}
        elif found := _LENGTH.search(text):
            length = amount(found[1]) or 0.0
        elif found := _TOTAL.search(text):
            total_s, since = amount(found[1]) or 0.0, number
        elif total_s and (found := _PART.search(text)):
            timers[found[1]] = amount(found[2]) or 0.0
    if total_s:
        yield _line(since, step, (length, total_s, timers), tally)


def _line(number: int, step: int, figures: tuple[float, float, Mapping[str, float]], tally: Tally) -> Line:
    """The phases of a step; what no timer takes is idle."""
    length, total_s, timers = figures
    times = dict.fromkeys(_SUMMED, 0.0)
    for name, duration_s in timers.items():
        if name in PHASE_OF_TIMER:
            times[PHASE_OF_TIMER[name]] += duration_s
    within_s = total_s + times["checkpoint"]
    booked_s = sum(times.values())
    if booked_s > ROUNDING * within_s:
        tally.remark("phases that overlap: scaled to the time of their step", number)
        times = {phase: duration_s * within_s / booked_s for phase, duration_s in times.items()}
    times["idle"] = max(total_s - sum(times.values()), 0.0)
    return Line(number, step, "", f"step {step}: {timers}", None, (length, *times.values()))
