"""The device-time of RL as it goes on, and the end of a run that has spent what it may.

On a CPU it is the processor time of the process, which what else the machine does changes little; elsewhere the time
that passes. What is measured beside RL is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

#: Under which the figures of a step keep what was spent up to it.
SPENT = "device_s"


def clock_of(device_type: str) -> Callable[[], float]:
    """Choose what device-time is read from.

    Examples
    --------
    >>> clock_of("cpu") is time.process_time, clock_of("cuda") is time.perf_counter
    (True, True)
    """
    return time.process_time if device_type == "cpu" else time.perf_counter


class DeviceTime(TrainerCallback):
    """Counts the device-time of a run over all its attempts, and ends it after a number of seconds; 0 for never."""

    def __init__(self, most_s: float, clock: Callable[[], float]) -> None:
        self.spent_s = 0.0
        self._most_s, self._clock, self._since = most_s, clock, clock()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_said: Any) -> None:  # noqa: ARG002 - transformers names them
        self._since = self._clock()

    def on_step_end(self, args: Any, state: Any, control: Any, **_said: Any) -> None:  # noqa: ARG002 - as above
        now = self._clock()
        self.spent_s, self._since = self.spent_s + now - self._since, now
        if self._most_s:
            ended = [self.spent_s >= self._most_s]
            broadcast_object_list(ended)  # every process makes as many steps as the first
            control.should_training_stop = control.should_training_stop or ended[0]
            control.should_save = control.should_save or ended[0]  # a longer run may go on from here

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Leave out what is measured meanwhile."""
        begun = self._clock()
        yield
        self._since += self._clock() - begun
