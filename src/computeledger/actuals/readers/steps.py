"""Steps of a training log in their order: repeated lines, misread numbers, restarts, and the time between steps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from computeledger.actuals.readers.tally import STATED, Hints, Tally, known_devices
from computeledger.actuals.run_ledger import Entry
from computeledger.units import DAY_S

#: Time between two lines that no step took is a pause from here on: stamps are cut to a second (assumption) [s].
LEAST_PAUSE_S = 2.0
#: A longer way forward within a run is a clock that was set, not a pause (assumption) [s].
LONGEST_PAUSE_S = 7 * DAY_S
#: Lines that decide which rank is read, and distances that make an interval usual (assumptions).
RANK_LINES, SETTLED_INTERVALS = 64, 3
_STATED = len(STATED)


class Line(NamedTuple):
    """A line that reports a step."""

    number: int
    step: int
    rank: str
    text: str
    stamp_s: float | None
    values: tuple[float, ...]


class Placed(NamedTuple):
    """A line with its place in the run."""

    line: Line
    n_steps: int
    n_lost: int
    attempt: int
    is_restart: bool


class Timed(NamedTuple):
    """What the steps of a line took and did."""

    placed: Placed
    duration_s: float
    devices: int
    trained_tokens: float
    flop: float


def placed(lines: Iterable[Line], tally: Tally) -> Iterator[Placed]:
    """Put lines in order: one of each step and attempt, and none whose step number cannot be right.

    A line is judged by the accepted one before it and the next one after it. A step that goes back is a
    restart.

    Examples
    --------
    >>> def line(number, step):
    ...     return Line(number, step, "", f"step {step}, line {number}", None, ())
    >>> tally = Tally()
    >>> given = [line(number, step) for number, step in enumerate([1, 2, 700, 3, 4, 3, 4, 5])]
    >>> [(one.line.step, one.attempt) for one in placed(given, tally)]
    [(1, 0), (2, 0), (3, 0), (4, 0), (3, 1), (4, 1), (5, 1)]
    >>> tally.damaged
    {'its step number does not fit between its neighbours': Seen(count=1, line=2)}
    >>> tally.remarks
    {'restart: the step went back': Seen(count=1, line=5)}
    """
    before: Line | None = None
    attempt, last = 0, 0
    intervals: dict[int, int] = {}
    for one, after in _with_next(_one_rank(lines, tally)):
        if _is_misnumbered(before, one, after, intervals):
            tally.damage("its step number does not fit between its neighbours", one.number)
            continue
        if before is not None and one.step == before.step:
            tally.remark("the same step again", one.number)
            continue
        if before is not None and one.step < before.step:
            tally.remark("restart: the step went back", one.number)
            attempt += 1
            since = one.step
        elif before is None:
            since = one.step
        else:
            since = one.step - before.step
            intervals[since] = intervals.get(since, 0) + 1
        usual = _usual(intervals, after.step - one.step if after is not None else 0)
        n_steps = max(min(since, usual or since), 1)
        lost = since - n_steps if before is not None and one.step > before.step else 0
        if lost:
            tally.remark("steps before it that no readable line reports", one.number)
        yield Placed(one, n_steps, lost, attempt, attempt != last)
        before, last = one, attempt


def _usual(intervals: dict[int, int], coming: int) -> int:
    """The interval between lines that is the most frequent, the next one counted in; the smaller of two alike."""
    if not intervals and coming <= 0:
        return 0
    if len(intervals) == 1 and (coming <= 0 or coming in intervals):
        return next(iter(intervals))
    count = max([*intervals.values(), intervals.get(coming, 0) + 1 if coming > 0 else 0])
    alike = [gap for gap, times in intervals.items() if times + (gap == coming) == count]
    if coming > 0 and intervals.get(coming, 0) + 1 == count:
        alike.append(coming)
    return min(alike)


def _with_next(lines: Iterator[Line]) -> Iterator[tuple[Line, Line | None]]:
    one = next(lines, None)
    for after in lines:
        if one is not None:
            yield one, after
        one = after
    if one is not None:
        yield one, None


def _one_rank(lines: Iterable[Line], tally: Tally) -> Iterator[Line]:
    """Lines of the rank that reports most at first; the others say the same of the same steps."""
    stream = iter(lines)
    first = list(itertools.islice(stream, RANK_LINES))
    rank = Counter(line.rank for line in first).most_common(1)[0][0] if first else ""
    for line in itertools.chain(first, stream):
        if line.rank == rank:
            yield line
        else:
            tally.remark("the same step from another rank", line.number)


def _is_misnumbered(before: Line | None, one: Line, after: Line | None, intervals: dict[int, int]) -> bool:
    """Whether a step number lies outside its neighbours, or off the usual distance, and they are in order without."""
    if after is None:
        return False
    if before is None:
        return one.step > after.step
    if before.step >= after.step:
        return False
    if one.step > after.step or one.step < before.step:
        return True
    if after.step - one.step == one.step - before.step:
        return False
    usual = _usual(intervals, 0)
    settled = intervals.get(usual, 0) >= SETTLED_INTERVALS
    between = before.step < one.step < after.step
    return settled and between and after.step - before.step == 2 * usual and one.step != before.step + usual


class WallClock:
    """Time between lines that no step accounts for."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._origin_s: float | None = None
        self._booked_s = 0.0
        self._last_s = 0.0

    def pause_s(self, line: Line, step_s: float, is_restart: bool) -> float:
        """Time before a line that its steps did not take."""
        now = line.stamp_s
        if now is None:
            return 0.0
        if self._origin_s is None or is_restart or self._has_jumped(now, line.number):
            self._origin_s, self._booked_s, self._last_s = now, 0.0, now
            return 0.0
        self._last_s = now
        self._booked_s += step_s
        pause = now - self._origin_s - self._booked_s
        if -pause > max(step_s, LEAST_PAUSE_S):
            self._tally.remark("steps that took longer than the log's clock says", line.number)
            self._booked_s += pause
        if pause < LEAST_PAUSE_S:
            return 0.0
        self._booked_s += pause
        return pause

    def _has_jumped(self, now: float, number: int) -> bool:
        if -LEAST_PAUSE_S <= now - self._last_s <= LONGEST_PAUSE_S:
            return False
        self._tally.remark(f"the clock jumped {'back' if now < self._last_s else 'forward'}", number)
        return True


class StatedStep(NamedTuple):
    """What a tool states of an RL step beside its times; 0 where it states none."""

    rollout_tokens: float = 0.0
    prompt_tokens: float = 0.0
    rollouts: float = 0.0
    gpus: float = 0.0


def rl_entries(reports: Iterable[Line], phases: Sequence[str], hints: Hints, on: tuple[str, Tally]) -> Iterator[Entry]:
    """Entries of RL steps whose values are what their tool states, then the time of each phase."""
    tool, tally = on
    for one in placed(reports, tally):
        stated, durations = StatedStep(*one.line.values[:_STATED]), one.line.values[_STATED:]
        devices = known_devices(stated.gpus or None, hints, f"the {tool}")
        tally.state(*stated)
        sampled = stated.rollout_tokens * (stated.rollouts or hints.rollouts_per_step or 0)
        for phase, duration_s in zip(phases, durations, strict=True):
            if duration_s:
                counts = {"sampled": sampled} if phase == "generation" and sampled else {}
                yield Entry(hints.run, "rl", phase, duration_s, devices, one.line.step, one.attempt, counts)


def training_entries(steps: Iterable[Timed], run: str, tally: Tally) -> Iterator[Entry]:
    """Entries of pretraining steps, and of the pauses between them."""
    clock = WallClock(tally)
    for (line, _, n_lost, attempt, is_restart), duration_s, devices, tokens, flop in steps:
        if pause_s := clock.pause_s(line, duration_s, is_restart):
            phase = "other" if n_lost else "idle"
            yield Entry(run, "pretraining", phase, pause_s, devices, line.step, attempt)
        counts = {"trained": tokens}
        yield Entry(run, "pretraining", "step", duration_s, devices, line.step, attempt, counts, flop or None)
