"""Megatron-LM console logs (and Megatron-Bridge, Megatron-DeepSpeed, FlagScale, Primus, which print the same line).

A line tells the mean time of the iterations since the line before; evaluation and checkpoints lie outside it, between
the stamps of two lines. World size and sequence length stand in the arguments above the first iteration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.steps import Line, Placed, Timed, placed, training_entries
from computeledger.actuals.readers.tally import Hints, Tally, amount, known_devices, stamp_s
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.units import KILO, TERA

TOOL = "Megatron-LM log"
MARK = b"elapsed time per iteration (ms):"

#: The line as Megatron-LM itself prints it; what is not of this form is taken apart field by field.
_USUAL = re.compile(
    r"iteration +(\d+)/ +\d+ \| consumed samples: +\d+ \| elapsed time per iteration \(ms\): ([\d.]+) \|"
    r"(?: throughput per GPU \(TFLOP/s/GPU\): ([\d.]+) \|)? learning rate: [^|]+\| global batch size: +(\d+) \|"
    r"[^\n]*\| number of skipped iterations: +(\d+) \| number of nan iterations: +(\d+) \|$"
)
_STEP = re.compile(r"iteration\s+(\d+)\s*/\s*\d+\s*\|")
_RANK = re.compile(r"\[(default\d+|[Rr]ank[ -]?\d+)[^\]]*\]|^(\d+):")
_ELAPSED = "elapsed time per iteration (ms):"
_ARGUMENT = re.compile(r"^\W*(?:\S+:)?\s*(world_size|seq_length) \.{2,} (\d+)\s*$")
_COMMAND = re.compile(r"--seq-length[ =](\d+)")
_WORLD = re.compile(r"using world size: (\d+)")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a log."""
    yield from training_entries(map(_timed, placed(_reports(lines, hints, tally), tally)), hints.run, tally)


def _timed(one: Placed) -> Timed:
    elapsed_s, samples, devices, sequence, rate, skipped = one.line.values
    duration_s = one.n_steps * elapsed_s
    trained = samples * sequence * max(one.n_steps - skipped, 0.0)
    return Timed(one, duration_s, int(devices), trained, rate * devices * duration_s)


def _reports(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Line]:
    world: float | None = None
    checked: float | None = -1.0
    devices = 0
    sequence = hints.sequence_tokens
    for number, text in lines:
        if _ELAPSED not in text:
            if "seq" in text or "world" in text:
                world, sequence = _header(text, world, sequence)
            elif "iteration" in text and "consumed samples" in text:
                tally.damage("cut off before its time", number)
            continue
        values = _values(text)
        if isinstance(values, str):
            tally.damage(values, number)
            continue
        step, elapsed_s, samples, rate, skipped, not_finite = values
        if skipped:
            tally.remark("iterations that were skipped", number)
        if not_finite:
            tally.remark("iterations with a loss that is not a number", number)
        if rate:
            tally.observe("flop_per_s", rate)
        if world != checked:
            devices, checked = known_devices(world, hints, "the Megatron-LM log"), world
        if sequence is None:
            raise InputError("the Megatron-LM log does not say how long a sequence is: give --sequence-tokens")
        found = _RANK.search(text, 0, 64) if text[:1] != " " else None
        rank = (found[1] or found[2]) if found else ""
        figures = (elapsed_s, samples, float(devices), float(sequence), rate, skipped)
        yield Line(number, step, rank, text, stamp_s(text[:80]), figures)


def _header(text: str, world: float | None, sequence: int | None) -> tuple[float | None, int | None]:
    """World size and sequence length, where a line of arguments or a command holds them."""
    if found := _ARGUMENT.search(text):
        if found[1] == "world_size":
            return float(found[2]), sequence
        return world, int(found[2])
    if found := _COMMAND.search(text):
        return world, int(found[1])
    if found := _WORLD.search(text):
        return float(found[1]), sequence
    return world, sequence


def _values(text: str) -> tuple[int, float, float, float, float, bool] | str:
    """Step, seconds, samples, FLOP/s, skipped iterations and whether a loss was lost; or what is wrong."""
    if text.count(_ELAPSED) > 1:
        return "two lines in one"
    if usual := _USUAL.search(text):
        step_text, ms, tflops, batch, skips, nans = usual.groups()
        if (ms_value := amount(ms)) and (sequences := float(batch)):
            flop_per_s = (amount(tflops) or 0.0) * TERA if tflops else 0.0
            return int(step_text), ms_value / KILO, sequences, flop_per_s, float(skips), nans != "0"
    step = _STEP.search(text)
    if step is None:
        return "cut off before its step"
    elapsed = _field(text, _ELAPSED)
    if elapsed is None:
        return "cut off in its time"
    elapsed_ms = amount(elapsed.partition("/")[0])
    samples = amount(_field(text, "global batch size:") or _field(text, "gloabl batch size:") or "")
    if not elapsed_ms:
        return "its time is no number above 0"
    if not samples:
        return "cut off before its batch size"
    rate = amount((_field(text, "throughput per GPU (TFLOP/s/GPU):") or "0").partition("/")[0]) or 0.0
    skipped = amount(_field(text, "number of skipped iterations:") or "0") or 0.0
    not_finite = amount(_field(text, "number of nan iterations:") or "0") or 0.0
    return int(step[1]), elapsed_ms / KILO, samples, rate * TERA, skipped, bool(not_finite)


def _field(text: str, name: str) -> str | None:
    """What stands behind a name up to the next bar; None where the bar is missing too."""
    start = text.find(name)
    if start < 0:
        return None
    end = text.find("|", start)
    return text[start + len(name) : end].strip() if end >= 0 else None
