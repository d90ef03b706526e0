"""Training logs of NeMo, Megatron-Bridge, MaxText and DeepSpeed: a step's time or rate, and the settings above it.

The lines are those of ``workloads/pretraining/step_logs.toml``; Megatron-LM and torchtitan have readers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.steps import Line, Placed, Timed, placed, training_entries
from computeledger.actuals.readers.tally import Hints, Tally, known_devices, stamp_s
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.workloads.pretraining.step_logs import FORMATS, Format, Settings, measured

#: Tools that are read here, and a mark of each.
_MARKS = {
    "NeMo": rb"train_step_timing in s", "Megatron-Bridge": rb"Step Time : [\d.]+s GPU utilization",
    "MaxText": rb"completed step: \d+, seconds:", "DeepSpeed": rb"RunningAvgSamplesPerSec=",
}  # fmt: skip
TOOLS = tuple((form, re.compile(_MARKS[form.tool])) for form in FORMATS if form.tool in _MARKS)


def entries(form: Format, lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a log of one tool."""
    yield from training_entries(map(_timed, placed(_reports(form, lines, hints, tally), tally)), hints.run, tally)


def _timed(one: Placed) -> Timed:
    step_s, tokens, devices = one.line.values
    return Timed(one, one.n_steps * step_s, int(devices), one.n_steps * tokens, 0.0)


def _reports(form: Format, lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Line]:
    settings, step = Settings(), 0
    for number, text in lines:
        for piece in text.split("\r"):  # a progress bar writes over its line
            found = form.line.search(piece)
            if found is None:
                settings.read(piece)
                continue
            figures = measured(found.groupdict())
            if not figures:
                tally.damage("cut off, or its time is no number above 0", number)
                continue
            own = settings.whole()
            sequences = figures.get("sequences", own.get("sequences"))
            sequence = own.get("sequence", hints.sequence_tokens)
            devices = known_devices(own.get("gpus"), hints, f"the {form.tool} log")
            if "step" in figures and "tokens_per_s_per_gpu" in figures and not (sequences and sequence):
                tokens, step_s = figures["tokens_per_s_per_gpu"] * devices * figures["step"], figures["step"]
            elif sequences and sequence:
                tokens = sequences * sequence
                step_s = figures["step"] if "step" in figures else sequences / figures["samples_per_s"]
            else:
                lacks = "--sequence-tokens" if not sequence else "a log that states its global batch"
                raise InputError(f"the {form.tool} log does not say how large a step is: give {lacks}")
            step = int(float(found["step"])) if found["step"] else step + 1
            yield Line(number, step, "", piece, stamp_s(piece[:80]), (step_s, tokens, float(devices)))
