"""What ``vllm bench serve`` and SGLang's ``bench_serving`` write: a JSON document per benchmark, alone or in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from computeledger.actuals.readers.tally import Hints, Tally, amount, known_devices
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.files import MOST_BYTES, parse_json
from computeledger.units import KILO

#: Figures that follow from others may differ from them by this share: they are rounded (assumption).
AGREE = 0.02


def benchmark_entries(engine: str, lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read benchmark results of an engine."""
    for step, (number, document) in enumerate(_documents(lines, tally), 1):
        figures = _figures(document)
        if isinstance(figures, str):
            tally.damage(figures, number)
            continue
        duration_s, tokens = figures
        if tpot_ms := amount(str(document.get("mean_tpot_ms", ""))):
            tally.observe("tpot_s", tpot_ms / KILO)
        failed = amount(str(document.get("failed", ""))) or 0.0
        asked = amount(str(document.get("num_prompts", ""))) or 0.0
        if failed or asked > (amount(str(document.get("completed", ""))) or asked):
            tally.remark("benchmarks with requests that failed", number)
        devices = known_devices(_own_devices(document), hints, f"the {engine} result")
        device = document.get("gpu_name") or document.get("hardware") or ""
        yield Entry(
            hints.run, "serving", "step", duration_s, devices, step, tokens_by_kind=tokens, device=str(device),
            versions={engine.lower(): str(document.get("version", ""))} if document.get("version") else {},
        )  # fmt: skip


def _documents(lines: Iterable[tuple[int, str]], tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    """Documents of a file: each line by itself, or one that runs over many lines."""
    held: list[str] = []
    first = number = held_bytes = 0
    for number, text in lines:
        if not text.strip():
            continue
        document = _loaded(text)
        if document is not None and not held:
            yield number, document
            continue
        if text.startswith("{") and held:
            tally.damage("not JSON: cut off or spliced", first)
            held = []
        if document is not None:
            yield number, document
            continue
        first = first if held else number
        held.append(text)
        held_bytes = held_bytes + len(text) if len(held) > 1 else len(text)
        if text.rstrip() == "}" and (document := _loaded("\n".join(held))) is not None:
            held = []
            yield first, document
        elif text.rstrip() == "}" or held_bytes > MOST_BYTES:
            tally.damage("not JSON: cut off or spliced", first)
            held = []
    if held:
        tally.damage("not JSON: cut off or spliced", first)


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        document = parse_json(text, "")
    except InputError:
        return None
    return document if isinstance(document, dict) and "total_output_tokens" in document else None


def _figures(document: Mapping[str, Any]) -> tuple[float, dict[str, float]] | str:
    """Duration and tokens; or why they cannot be right."""
    names = ("duration", "total_input_tokens", "total_output_tokens", "output_throughput")
    values = [amount(str(document.get(name, ""))) for name in names]
    if any(value is None for value in values):
        missing = next(name for name, value in zip(names, values, strict=True) if value is None)
        return f"{missing} is missing or no number"
    duration_s, n_input, n_output, rate = (value or 0.0 for value in values)
    if not duration_s:
        return "duration is 0"
    if abs(n_output / duration_s - rate) > AGREE * max(rate, n_output / duration_s):
        return "duration, output tokens and output throughput contradict one another"
    whole = amount(str(document.get("total_token_throughput", document.get("total_throughput", ""))))
    found = (n_input + n_output) / duration_s
    if whole is not None and abs(found - whole) > AGREE * max(whole, found):
        return "duration, tokens and token throughput contradict one another"
    return duration_s, {"input": n_input, "output": n_output}


def _own_devices(document: Mapping[str, Any]) -> float | None:
    """GPUs of one replica, where the result names its layout."""
    server = document.get("server_info")
    layout = {**server, **document} if isinstance(server, dict) else document
    tensor = layout.get("tensor_parallel_size", layout.get("tp_size", layout.get("tp")))
    pipeline = layout.get("pipeline_parallel_size", layout.get("pp_size", 1))
    if not isinstance(tensor, int) or not isinstance(pipeline, int) or tensor < 1 or pipeline < 1:
        return None
    return float(tensor * pipeline)
