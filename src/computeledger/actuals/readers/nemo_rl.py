"""NeMo RL consoles: the timing block below each step, an RL step by phase.

Names of timers as ``nemo_rl/algorithms/grpo.py`` has them at commit 7ea279a of 2026-08-22.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from computeledger.actuals.readers.steps import Line, StatedStep, rl_entries
from computeledger.actuals.readers.tally import ROUNDING, Hints, Tally, amount
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
_MODEL = re.compile(r"'model_name': '([^']+)'")
_RATE = re.compile(r"E2E \(([\w/]+)\): +([\d.]+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a console."""
    yield from rl_entries(_reports(lines, tally), _SUMMED, hints, (TOOL, tally))


def _reports(lines: Iterable[tuple[int, str]], tally: Tally) -> Iterator[Line]:
    """A line for each step whose timing block is whole; its rates stand below the times."""
    step, length, total_s, since = 0, 0.0, 0.0, 0
    timers: dict[str, float] = {}
    rates: dict[str, float] = {}
    for number, text in lines:
        if found := _STEP.search(text):
            if total_s:
                yield _line(since, step, (_stated(length, total_s, rates), total_s, timers), tally)
            step, length, total_s, timers, rates = int(found[1]), 0.0, 0.0, {}, {}
        elif found := _LENGTH.search(text):
            length = amount(found[1]) or 0.0
        elif found := _TOTAL.search(text):
            total_s, since = amount(found[1]) or 0.0, number
        elif found := _RATE.search(text):
            rates[found[1]] = amount(found[2]) or 0.0
        elif "'model_name'" in text:
            tally.trains(text, _MODEL)
        elif total_s and (found := _PART.search(text)):
            timers[found[1]] = amount(found[2]) or 0.0
    if total_s:
        yield _line(since, step, (_stated(length, total_s, rates), total_s, timers), tally)


def _stated(length: float, total_s: float, rates: Mapping[str, float]) -> StatedStep:
    """Lengths, rollouts and GPUs, where the rates of the whole run and of one GPU tell them."""
    samples, tokens, per_gpu = (rates.get(name, 0.0) for name in ("Samples/sec", "Tokens/sec", "Tokens/sec/gpu"))
    if not (samples and tokens and per_gpu):
        return StatedStep(length)
    return StatedStep(length, max(tokens / samples - length, 0.0), round(samples * total_s), round(tokens / per_gpu))


def _line(number: int, step: int, figures: tuple[StatedStep, float, Mapping[str, float]], tally: Tally) -> Line:
    """The phases of a step; what no timer takes is idle."""
    stated, total_s, timers = figures
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
    return Line(number, step, "", f"step {step}: {timers}", None, (*stated, *times.values()))
