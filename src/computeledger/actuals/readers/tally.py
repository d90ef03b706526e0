"""What all readers share: the lines of a file however large, what a user adds, and what was damaged or remarkable."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from computeledger.errors import InputError
from computeledger.files import bounded_lines, open_user_file
from computeledger.units import HOUR_S, LARGEST, MINUTE_S, SMALLEST
from computeledger.workloads.pretraining.step_logs import ESCAPES

#: Times that a log prints may be over what they add up to by this much: logs round (assumption).
ROUNDING = 1.01

#: What logs of RL state of a step beside its times: mean tokens of a rollout and of a prompt, rollouts, GPUs.
STATED = ("rollout_tokens", "prompt_tokens", "rollouts", "gpus")

_STAMP = re.compile(r"(\d{4}[-/]?\d\d[-/]?\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class Hints:
    """What a log does not say and its reader has to know; GPUs it need not know where times alone count."""

    run: str = "run"
    devices: int | None = None
    sequence_tokens: int | None = None
    rollouts_per_step: int | None = None
    duration_s: float | None = None
    workload: str = ""
    is_timed_only: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """Something a reader came across more than once, perhaps."""

    count: int
    line: int


@dataclass(frozen=True, slots=True)
class Observed:
    """What a tool says about its own speed and work, over a file."""

    count: int
    total: float
    least: float
    most: float

    @property
    def mean(self) -> float:
        """Mean of the values, in the quantity's own unit."""
        return self.total / self.count

    def joined(self, other: Observed) -> Observed:
        """What both say together."""
        ends = min(self.least, other.least), max(self.most, other.most)
        return Observed(self.count + other.count, self.total + other.total, *ends)


@dataclass(frozen=True, slots=True)
class Tally:
    """What a reader found beside entries; complete when the file is at its end."""

    damaged: dict[str, Seen] = field(default_factory=dict)
    remarks: dict[str, Seen] = field(default_factory=dict)
    observed: dict[str, Observed] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)

    def damage(self, reason: str, line: int) -> None:
        """Count a line whose figures are lost."""
        _count(self.damaged, reason, line)

    def remark(self, what: str, line: int) -> None:
        """Count a line that is whole, and odd."""
        _count(self.remarks, what, line)

    def trains(self, text: str, setting: re.Pattern[str]) -> None:
        """Keep the model that a line of settings names, the first of a file."""
        if not self.models and (found := setting.search(text)):
            self.models[found[1]] = None

    def state(self, rollout_tokens: float, prompt_tokens: float, rollouts: float, gpus: float) -> None:
        """Keep what a tool states of an RL step: mean lengths, rollouts and GPUs, 0 where it states none."""
        stated = (rollout_tokens, prompt_tokens, rollouts, gpus)
        for name, value in zip(STATED, stated, strict=True):
            if value:
                self.observe(name, value)

    def observe(self, name: str, value: float) -> None:
        """Keep a figure that the tool states about itself."""
        new, before = Observed(1, value, value, value), self.observed.get(name)
        self.observed[name] = new if before is None else before.joined(new)


def _count(counts: dict[str, Seen], name: str, line: int) -> None:
    one = counts.get(name)
    counts[name] = Seen(1, line) if one is None else Seen(one.count + 1, one.line)


def lines_of(path: Path, tally: Tally) -> Iterator[tuple[int, str]]:
    r"""Read a text file line by line: undecodable bytes and colours do no harm, endless lines are counted.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "log")
    >>> _ = path.write_bytes(b"one\r\n\x1b[36mtwo\x1b[0m \xff")
    >>> list(lines_of(path, Tally()))
    [(1, 'one'), (2, 'two \ufffd')]
    """
    with open_user_file(path) as stream:
        for number, raw in bounded_lines(stream):
            if raw is None:
                tally.damage("longer than any line a tool writes", number)
                continue
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            yield number, ESCAPES.sub("", text) if "\x1b" in text else text


def amount(text: str) -> float | None:
    """Read a number of a log.

    Examples
    --------
    >>> amount("6,577"), amount("nan"), amount("-1"), amount("12.")
    (6577.0, None, None, 12.0)
    """
    try:
        value = float(text.replace(",", "") if "," in text else text)
    except ValueError:
        return None
    return value if value == 0.0 or SMALLEST <= value <= LARGEST else None


def amounts(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Numbers of a log by name, those alone that can be read.

    Examples
    --------
    >>> amounts([("step", "12.5"), ("loss", "nan")])
    {'step': 12.5}
    """
    return {name: value for name, text in pairs if (value := amount(text)) is not None}


def stamp_s(text: str) -> float | None:
    """Find the time that a line of a log carries.

    Examples
    --------
    >>> stamp_s("[2026-05-27 17:59:11] it") - stamp_s("[2026-05-27 17:59:00] it"), stamp_s("2026-13-40 10:00:00")
    (11.0, None)
    """
    found = _STAMP.search(text)
    if found is None:
        return None
    day, hour, minute, second, fraction = found.groups()
    midnight = _midnight_s(day)
    if midnight is None or hour > "23" or minute > "59" or second > "60":
        return None
    clock = int(hour) * HOUR_S + int(minute) * MINUTE_S + int(second)
    return midnight + clock + (float(f"0.{fraction}") if fraction else 0.0)


@functools.lru_cache(maxsize=64)
def _midnight_s(day: str) -> float | None:
    try:
        return datetime.strptime(re.sub(r"\D", "", day) + "+0000", "%Y%m%d%z").timestamp()
    except ValueError:
        return None


def known_devices(own: float | None, hints: Hints, words: str) -> int:
    """How many GPUs a run held: what the log says, and what the user says where it is silent.

    Examples
    --------
    >>> known_devices(8.0, Hints(devices=4), "a log"), known_devices(None, Hints(devices=4), "a log")
    (8, 4)
    """
    if own is not None:
        return max(round(own), 1)
    if hints.is_timed_only:
        return hints.devices or 1
    if hints.devices is None:
        raise InputError(f"{words} does not say how many GPUs it held: give --gpus")
    return hints.devices


def none_readable(tool: str, tally: Tally) -> InputError:
    """The error of a file that is a tool's, and in which nothing could be read.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.damage("cut off", 3)
    >>> str(none_readable("Megatron-LM log", tally))
    'Megatron-LM log: no figure in it that counts: line 3: cut off'
    """
    seen = tally.damaged or tally.remarks
    if not seen:
        return InputError(f"{tool}: no figure in it")
    reason, first = min(seen.items(), key=lambda pair: pair[1].line)
    return InputError(f"{tool}: no figure in it that counts: line {first.line}: {reason}")


def counted(seen: Mapping[str, Seen]) -> dict[str, dict[str, int]]:
    """Counts as plain tables, the most frequent first.

    Examples
    --------
    >>> counted({"cut off": Seen(2, 7)})
    {'cut off': {'count': 2, 'first_line': 7}}
    """
    ordered = sorted(seen.items(), key=lambda pair: -pair[1].count)
    return {name: {"count": one.count, "first_line": one.line} for name, one in ordered}
