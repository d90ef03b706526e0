"""vLLM's Prometheus counters (``/metrics``): scrapes one after the other, their differences summed over restarts.

A scrape has no clock unless a scraper added one: a stamp behind the value, or the process's start time beside it. The
time that the counters cover is the user's to give otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.tally import Hints, Tally, amount, known_devices
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.units import KILO

TOOL = "vLLM metrics"
MARK = b"vllm:generation_tokens"

#: Counter -> kind of token; prompt tokens hold the cached ones, which are taken off.
COUNTERS = {
    "vllm:prompt_tokens_total": "input",
    "vllm:generation_tokens_total": "output",
    "vllm:prefix_cache_hits_total": "cached",
    "vllm:gpu_prefix_cache_hits_total": "cached",
}
_NAMES = {"vllm:prompt_tokens": "vllm:prompt_tokens_total", "vllm:generation_tokens": "vllm:generation_tokens_total"}
_SAMPLE = re.compile(r"^([a-z_:]+)(\{[^}]*\})?\s+(\S+)(?:\s+(\d{10,13}))?\s*$")
_START = "process_start_time_seconds"


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read scrapes."""
    first: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    added: dict[tuple[str, str], float] = {}
    seen: set[tuple[str, str]] = set()
    stamps: list[float] = []
    started = None
    for number, text in lines:
        if not text.startswith(("vllm:", _START)):
            continue
        sample = _SAMPLE.match(text)
        value = amount(sample[3]) if sample else None
        if sample is None or value is None:
            tally.damage("no sample of the text format", number)
            continue
        if sample[4]:
            stamps = [stamps[0] if stamps else _seconds(sample[4]), _seconds(sample[4])]
        name = _NAMES.get(sample[1], sample[1])
        if name == _START:
            started = value if started is None else min(started, value)
        if name not in COUNTERS:
            continue
        key = (name, sample[2] or "")
        if key in last and value < last[key]:
            tally.remark("counters that began again: the server was restarted", number)
            added[key] = added.get(key, 0.0) + last[key]
        first.setdefault(key, value)
        if key in last:
            seen.add(key)
        last[key] = value
    if not last:
        return
    tokens = {
        kind: sum(
            added.get(k, 0.0) + last[k] - (first[k] if k in seen else 0.0) for k in last if COUNTERS[k[0]] == kind
        )
        for kind in ("input", "output", "cached")
    }
    duration_s = _duration_s(stamps, started, bool(seen), hints)
    tokens["input"] = max(tokens["input"] - tokens["cached"], 0.0)
    devices = known_devices(None, hints, "vLLM's metrics")
    counts = {kind: count for kind, count in tokens.items() if count}
    yield Entry(hints.run, "serving", "step", duration_s, devices, tokens_by_kind=counts)


def _seconds(stamp: str) -> float:
    return float(stamp) / (KILO if len(stamp) > 10 else 1.0)


def _duration_s(stamps: list[float], started: float | None, several: bool, hints: Hints) -> float:
    if several and stamps and stamps[-1] > stamps[0]:
        return stamps[-1] - stamps[0]
    if not several and stamps and started is not None and stamps[-1] > started:
        return stamps[-1] - started
    if hints.duration_s is None:
        raise InputError("vLLM's metrics do not say what time they cover: give --duration")
    return hints.duration_s
