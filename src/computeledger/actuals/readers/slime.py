"""slime consoles: what a rollout and a training step took, an RL step by phase.

Names as ``slime/observability`` has them at commit 624b824 of 2026-08-21.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from computeledger.actuals.readers.steps import Line, StatedStep, rl_entries
from computeledger.actuals.readers.tally import Hints, Tally, amounts
from computeledger.actuals.run_ledger import Entry

TOOL = "slime log"
MARK = re.compile(rb"perf \d+: \{")

#: Timers of the training part -> phase.
PHASE_OF_TIMER: Mapping[str, str] = {
    "log_probs": "log-probs", "ref_log_probs": "log-probs", "actor_train": "update", "data_preprocess": "data",
}  # fmt: skip
#: Timers outside it: weights, and what moves out of their way.
_OUTSIDE = ("update_weights", "sleep", "wake_up")
_SUMMED = ("generation", "weight sync", *dict.fromkeys(PHASE_OF_TIMER.values()), "idle")

#: Steps by which the two lines of one may be apart where rollouts run ahead (assumption).
_FARTHEST_APART = 16
_PERF = re.compile(r"perf (\d+): \{(.*)\}")
_MODEL = re.compile(r"hf_checkpoint \.+ (\S+)")
_VALUE = re.compile(r"'(?:perf|rollout)/([\w/]+)': (?:np\.float64\()?([\d.eE+-]+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a console."""
    yield from rl_entries(_reports(lines, tally), _SUMMED, hints, (TOOL, tally))


def _reports(lines: Iterable[tuple[int, str]], tally: Tally) -> Iterator[Line]:
    """A line for each step: what its rollout and its training say together."""
    held: dict[int, dict[str, float]] = {}
    for number, text in lines:
        found = _PERF.search(text)
        if found is None:
            if "hf_checkpoint" in text:
                tally.trains(text, _MODEL)
            continue
        step = int(found[1])
        timers = held.pop(step, {})
        held = {one: kept for one, kept in held.items() if abs(one - step) <= _FARTHEST_APART}
        timers |= amounts(_VALUE.findall(found[2]))
        if "step_time" in timers and "rollout_time" in timers:
            yield _line(number, step, timers)
        elif "step_time" in timers or "rollout_time" in timers:
            held[step] = timers
        else:
            tally.damage("neither a rollout nor a step", number)


def _line(number: int, step: int, timers: Mapping[str, float]) -> Line:
    """The phases of a step; generation is the part of a rollout in which the trainer waits for it."""
    times = dict.fromkeys(_SUMMED, 0.0)
    times["weight sync"] = sum(timers.get(f"{name}_time", 0.0) for name in _OUTSIDE)
    waited_s = max(timers.get("train_wait_time", 0.0) - times["weight sync"], 0.0)
    times["generation"] = min(timers["rollout_time"], waited_s)
    for name, phase in PHASE_OF_TIMER.items():
        times[phase] += timers.get(f"{name}_time", 0.0)
    times["idle"] = max(timers["step_time"] - sum(times.values()), 0.0)
    stated = StatedStep(timers.get("response_len/mean", 0.0))
    return Line(number, step, "", f"step {step}: {timers}", None, (*stated, *times.values()))
