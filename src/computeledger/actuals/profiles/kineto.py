"""PyTorch's traces (Kineto, as ``export_chrome_trace`` writes them, plain or gzipped): one GPU's step, part by part.

A step is what ``ProfilerStep#N`` marks. Where a trace has kernels, they are the work; where it has none, as on a CPU,
the operators are. What no kernel fills is what the host does meanwhile.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from computeledger.actuals.profiles.profile import (
    Spans,
    StepProfile,
    length,
    load_parts,
    part_of,
    united,
    wait_of,
    without,
)
from computeledger.errors import InputError, shown
from computeledger.files import open_user_file
from computeledger.units import GIB, LARGEST, MEGA

TOOL = "PyTorch profiler trace"
MARK = re.compile(rb'"traceEvents"\s*:')
GZIPPED = b"\x1f\x8b"
#: The largest trace that is read, unpacked [byte].
MOST_TRACE_BYTES = int(GIB)
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_STEP = re.compile(r"^ProfilerStep#\d+$")
_OPTIMIZER = re.compile(r"^Optimizer\.step#")
_RECOMPUTED = re.compile(r"CheckpointFunctionBackward|_checkpoint_without_reentrant|recompute", re.IGNORECASE)
#: Kernels of each part that are named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time: its kind, name and thread or stream, from and to [s]."""

    kind: str
    name: str
    lane: str
    start_s: float
    end_s: float


def read_trace(path: str, n_steps: int | None = None) -> StepProfile:
    """Read a trace.

    Examples
    --------
    >>> read_trace("nowhere.json")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.json: no such file
    """
    events = list(_events(_text(path), path))
    steps = [one for one in events if one.kind in ("user_annotation", "cpu_op") and _STEP.match(one.name)]
    work = [one for one in events if one.kind in _KERNELS]
    is_host = not work
    if is_host:
        work = [one for one in events if one.kind == "cpu_op" and not _STEP.match(one.name)]
    if not work:
        raise InputError(f"{shown(path)}: a trace without a kernel or an operator")
    if steps:
        window, n_steps = (min(one.start_s for one in steps), max(one.end_s for one in steps)), len(steps)
    elif n_steps is None:
        raise InputError(f"{shown(path)}: no ProfilerStep marks a step in this trace: give --profiled-steps")
    else:
        window = min(one.start_s for one in work), max(one.end_s for one in work)
    return _profile(path, events, (work, is_host), (window, n_steps))


def _profile(
    path: str, events: Sequence[Event], done: tuple[Sequence[Event], bool], over: tuple[tuple[float, float], int]
) -> StepProfile:
    (work, is_host), (window, n_steps) = done, over
    optimizer = united((one.start_s, one.end_s) for one in events if _is_optimizer(one, is_host))
    spans: dict[str, list[tuple[float, float]]] = {}
    kernels: dict[str, dict[str, float]] = {}
    for one in work:
        low, high = max(one.start_s, window[0]), min(one.end_s, window[1])
        if low >= high or (is_host and _is_frame(one.name)):
            continue
        part = "optimizer" if _within(one, optimizer) else part_of(one.name)
        spans.setdefault(part, []).append((low, high))
        own = kernels.setdefault(part, {})
        own[one.name] = own.get(one.name, 0.0) + (high - low) / n_steps
    exposed, covered = {}, united([])
    for part in (one.name for one in sorted(load_parts().kernels, key=lambda one: one.is_network)):
        if part in spans:
            alone = without(united(spans[part]), covered)
            covered = united([*map(tuple, covered.tolist()), *spans[part]])
            exposed[part] = length(alone) / n_steps
    idle = without(united([window]), covered)
    exposed |= {name: seconds / n_steps for name, seconds in _waits(idle, events, window).items()}
    return StepProfile(
        path, TOOL, n_steps, (window[1] - window[0]) / n_steps,
        {part: _busy_s(spans[part], is_host) / n_steps for part in kernels}, exposed,
        {part: tuple(sorted(own.items(), key=lambda pair: -pair[1])[:_NAMED]) for part, own in kernels.items()},
        any(_RECOMPUTED.search(one.name) for one in events if one.kind in ("cpu_op", "user_annotation")), is_host,
    )  # fmt: skip


def _busy_s(spans: Sequence[tuple[float, float]], is_host: bool) -> float:
    """Time of kernels, or of operators, which stand within one another."""
    return length(united(spans)) if is_host else sum(high - low for low, high in spans)


def _is_optimizer(one: Event, is_host: bool) -> bool:
    """Whether an event marks the optimizer where the work is: on the GPU, or on the host."""
    return one.kind == ("user_annotation" if is_host else "gpu_user_annotation") and bool(_OPTIMIZER.match(one.name))


def _is_frame(name: str) -> bool:
    """Whether an operator of a CPU only holds others: autograd's frames and views."""
    return name.startswith(("autograd::engine", "torch::autograd", "ProfilerStep"))


def _within(one: Event, spans: Spans) -> bool:
    middle = (one.start_s + one.end_s) / 2
    return bool(len(spans)) and bool(((spans[:, 0] <= middle) & (middle < spans[:, 1])).any())


def _waits(idle: Spans, events: Sequence[Event], window: tuple[float, float]) -> dict[str, float]:
    """Idle time by what the host does: waits of a name first, what is left is launches."""
    left, out = idle, {}
    named = load_parts().waits
    for part in (one.name for one in named[:-1]):
        doing = united(
            (max(one.start_s, window[0]), min(one.end_s, window[1]))
            for one in events
            if one.kind in ("user_annotation", "cpu_op", "python_function") and wait_of(one.name) == part
            and one.end_s > window[0] and one.start_s < window[1]
        )  # fmt: skip
        rest = without(left, doing)
        out[part] = length(left) - length(rest)
        left = rest
    out[named[-1].name] = length(left)
    return {name: seconds for name, seconds in out.items() if seconds > 0}


def _text(path: str) -> str:
    with open_user_file(Path(path)) as stream:
        raw = stream.read(MOST_TRACE_BYTES + 1)
    if raw[:2] == GZIPPED:
        raw = unpacked(raw, path, MOST_TRACE_BYTES + 1)
    if len(raw) > MOST_TRACE_BYTES:
        raise InputError(f"{shown(path)}: a trace of more than 1 GiB: profile fewer steps")
    return raw.decode("utf-8", "replace")


def unpacked(raw: bytes, path: str, most_bytes: int) -> bytes:
    """The beginning of a gzipped file's content."""
    try:
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        return unpacker.decompress(raw, most_bytes)
    except (zlib.error, gzip.BadGzipFile):
        raise InputError(f"{shown(path)}: damaged: not a whole gzip file") from None


def _events(text: str, path: str) -> Iterator[Event]:
    """Complete events of a trace, one decoded at a time."""
    found = re.search(r'"traceEvents"\s*:\s*\[', text)
    if found is None:
        raise InputError(f"{shown(path)}: no list of traceEvents: not a whole PyTorch trace")
    decoder, at = json.JSONDecoder(), found.end()
    space = re.compile(r"[\s,]*")
    while True:
        gap = space.match(text, at)
        at = gap.end() if gap else at
        if text.startswith("]", at):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            line = text.count("\n", 0, at) + 1
            raise InputError(f"{path}:{line}: damaged or cut off: an event of the trace is no JSON") from None
        if isinstance(value, Mapping) and (event := _event(value)) is not None:
            yield event


def _event(value: Mapping[str, Any]) -> Event | None:
    """A complete event with a duration; marks, counters and metadata are left out."""
    start, duration = value.get("ts"), value.get("dur")
    if value.get("ph") != "X" or not _is_time(start) or not _is_time(duration):
        return None
    kind, name, lane = str(value.get("cat", "")).lower(), str(value.get("name", "")), str(value.get("tid", ""))
    return Event(kind, name, lane, float(start) / MEGA, (float(start) + max(float(duration), 0.0)) / MEGA)


def _is_time(value: object) -> TypeGuard[float]:
    """A finite number: a damaged trace may hold any text, NaN or infinity."""
    return isinstance(value, (int, float)) and abs(value) < LARGEST
