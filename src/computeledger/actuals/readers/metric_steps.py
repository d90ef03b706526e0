"""RL steps from the metrics that a framework prints: times by phase, lengths and rollouts, as its timers are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from computeledger.actuals.readers.framework_timers import framework_timers, step_times
from computeledger.actuals.readers.steps import Line, StatedStep, rl_entries
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.run_ledger import Entry


class PrintedStep(NamedTuple):
    """Metrics of a step, and the line that they end on."""

    number: int
    step: int
    metrics: Mapping[str, float]


def metric_entries(
    framework: str, printed: Iterable[PrintedStep], hints: Hints, on: tuple[str, Tally]
) -> Iterator[Entry]:
    """Entries of the steps that a framework's console prints."""
    timers = framework_timers(framework)
    phases = (*dict.fromkeys(timers.phases.values()), "idle")

    def reports() -> Iterator[Line]:
        for number, step, given in printed:
            metrics = timers.with_step(given)
            found = step_times(timers, metrics)
            if isinstance(found, str):
                on[1].damage(found, number)
                continue
            length, rollouts = (metrics.get(name, 0.0) for name in (timers.output_tokens_mean, timers.rollouts))
            times = [found.by_phase.get(phase, 0.0) for phase in phases]
            stated = StatedStep(length, rollouts=rollouts)
            yield Line(number, step, "", f"step {step}: {dict(metrics)}", None, (*stated, *times))

    yield from rl_entries(reports(), phases, hints, on)
