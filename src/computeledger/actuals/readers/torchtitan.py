"""torchtitan console logs: tokens per second and GPU since the line before, and the layout above the first step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.steps import Line, Placed, Timed, placed, training_entries
from computeledger.actuals.readers.tally import Hints, Tally, amount, known_devices, stamp_s
from computeledger.actuals.run_ledger import Entry
from computeledger.units import PERCENT, TERA

TOOL = "torchtitan log"
MARK = re.compile(rb"step:\s*\d+\s[^\n]*loss:[^\n]*(?:tps|wps):")

_STEP = re.compile(
    r"step:\s*(\d+)\s+loss:\s*(\S+).*?(?:tps|wps):\s*([\d,.]+)\s(?:.*?tflops:\s*([\d,.]+)\s)?.*?mfu:\s*(?:([\d.]+)%|N/A)"
)
_WORDS = ("step:", "loss:", "tps:", "wps:", "mfu:")
_LAYOUT = re.compile(r"parallelism: (pp=\d+.*)$")
_DEGREE = re.compile(r"\b(pp|dp_replicate|dp_shard|cp|tp)=(\d+)")
_BATCH = re.compile(r"global batch size (\d+)\b.*?sequence length (\d+)")
_PEAK = re.compile(r"Peak FLOPS used for computing MFU: ([\d.e+]+)")
_RANK = re.compile(r"\[rank(\d+)\]")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a log."""
    yield from training_entries(_timed(placed(_reports(lines, hints, tally), tally), tally), hints.run, tally)


def _timed(lines: Iterable[Placed], tally: Tally) -> Iterator[Timed]:
    """Time and tokens of each line: of its batch, or where that is unknown of the stamps and the rate."""
    last_s = None
    for one in lines:
        rate, devices, batch_tokens, flop_per_s = one.line.values
        since_s = one.line.stamp_s - last_s if one.line.stamp_s is not None and last_s is not None else 0.0
        last_s = one.line.stamp_s
        if not math.isnan(batch_tokens):
            trained = one.n_steps * batch_tokens
            duration_s = trained / (rate * devices)
        elif one.is_restart or since_s <= 0:
            tally.damage("neither its batch nor the time since the line before is known", one.line.number)
            continue
        else:
            duration_s, trained = since_s, rate * devices * since_s
        yield Timed(one, duration_s, int(devices), trained, flop_per_s * devices * duration_s)


def _reports(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Line]:
    world: float | None = None
    batch_tokens, peak = math.nan, 0.0
    for number, text in lines:
        if sum(word in text for word in _WORDS) < 2:
            if found := _LAYOUT.search(text):
                world = float(math.prod(int(size) for _, size in _DEGREE.findall(found[1])))
            elif found := _BATCH.search(text):
                batch_tokens = float(found[1]) * float(found[2])
            elif found := _PEAK.search(text):
                peak = amount(found[1]) or 0.0
            continue
        found = _STEP.search(text)
        rate = amount(found[3]) if found else None
        if found is None or text.count("step:") > 1:
            tally.damage("two lines in one" if text.count("step:") > 1 else "cut off or overwritten", number)
            continue
        if not rate:
            tally.damage("its rate is no number above 0", number)
            continue
        if amount(found[2]) is None:
            tally.remark("steps with a loss that is not a number", number)
        mfu = (amount(found[5] or "") or 0.0) / PERCENT
        flop_per_s = (amount(found[4] or "0") or 0.0) * TERA or mfu * peak
        if mfu:
            tally.observe("mfu_fraction", mfu)
        if flop_per_s:
            tally.observe("flop_per_s", flop_per_s)
        rank = _RANK.search(text)
        devices = known_devices(world, hints, "the torchtitan log")
        figures = (rate, float(devices), batch_tokens, flop_per_s)
        yield Line(number, int(found[1]), rank[1] if rank else "", text, stamp_s(text), figures)
