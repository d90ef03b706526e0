"""TRL's own timers, listened to while a step goes on: what the library times becomes a phase of the step."""

from __future__ import annotations

import sys
from typing import Any

from computeledger.actuals.readers.framework_timers import framework_timers
from computeledger.actuals.recording.run import PhaseBook, RunLedger

_MODULE, _CONTEXT = "trl.extras.profiling", "ProfilingContext"


class TrlTimers:
    """Charge what TRL times to phases of a ledger.

    TRL makes its timers from one class of one module, and reports them to W&B, MLflow and Trackio alone; while this
    listens, a subclass stands in its place that also opens and ends a phase.
    """

    def __init__(self, ledger: RunLedger) -> None:
        self._ledger = ledger
        self._phases = framework_timers("trl").phases
        self._names: list[str] = []
        self.in_step = False
        self._module: Any = sys.modules.get(_MODULE)
        self._theirs = getattr(self._module, _CONTEXT, None)
        if self._theirs is not None:
            setattr(self._module, _CONTEXT, self._listening(self._theirs))

    @property
    def works(self) -> bool:
        """Whether this release of TRL has the timers."""
        return self._theirs is not None

    def close(self) -> None:
        """Put TRL's class back."""
        if self._theirs is not None:
            setattr(self._module, _CONTEXT, self._theirs)

    def _listening(self, theirs: Any) -> Any:
        def enter(context: Any) -> Any:
            context.opened = self._enter(context.name)
            return theirs.__enter__(context)

        def leave(context: Any, *raised: Any) -> Any:
            answer = theirs.__exit__(context, *raised)
            self._leave(context.name, context.opened)
            return answer

        return type(_CONTEXT, (theirs,), {"__enter__": enter, "__exit__": leave})

    def _enter(self, name: str) -> PhaseBook | None:
        own = name.partition(".")[2]
        # the update's own log-probabilities belong to the update
        if not self.in_step or own not in self._phases or "compute_loss" in self._names:
            return None
        self._names.append(own)
        return self._ledger.begin()

    def _leave(self, name: str, opened: PhaseBook | None) -> None:
        if opened is not None:
            own = name.partition(".")[2]
            self._names.remove(own)
            self._ledger.end(opened, self._phases[own])
