"""Results of serving benchmarks as measured points, told apart by what they hold.

Each format is read as its writer writes it: the serving benchmarks of vLLM and SGLang (a document, or one a line),
GenAI-Perf and AIPerf, GuideLLM, trtllm-bench and llama-bench, whose table is read too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from computeledger.errors import InputError, shown
from computeledger.files import parse_json, read_user_text
from computeledger.units import GIGA, KILO, MEGA, TERA

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | bool | None"
#: Most points of one file that count: a sweep of a benchmark has fewer.
MOST_ANCHORS = 1000
#: Units in which benchmarks state times [s].
_UNITS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class BenchmarkPoint:
    """What a result says of one point: numbers in SI by key of an anchor, words, and its own name of each key."""

    kind: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Format:
    """What one benchmark writes: keys of which any tells it, how a document is read, and its names of an anchor's."""

    kind: str
    marks: tuple[str, ...]
    read: Callable[[Json], list[tuple[dict[str, float | None], dict[str, str]]]]
    keys: Mapping[str, str]


def read_benchmarks(path: str) -> list[BenchmarkPoint]:
    """Read the points of a benchmark's result.

    Examples
    --------
    >>> read_benchmarks("nowhere.json")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.json: no such file
    """
    text = read_user_text(Path(path))
    if not text.strip():
        raise InputError(f"{path}: the file is empty; {_KINDS}")
    documents = _table_rows(text, path) if is_table(text) else _documents(text, path)
    points = [point for document in documents for point in _points(document, path)]
    if not points:
        raise InputError(f"{path}: no test of a prompt alone or of output alone in this result of llama-bench")
    if len(points) > MOST_ANCHORS:
        raise InputError(f"{path}: {len(points):,} points, more than {MOST_ANCHORS:,}; keep those of one deployment")
    return points


def _documents(text: str, path: str) -> list[Json]:
    """The documents of a file: one, a list of them, or one a line."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for _, line in lines):
        return [parse_json(line, path, number) for number, line in lines]
    found: Json = parse_json(text, path)
    return list(found) if isinstance(found, list) else [found]


#: Head of the table that llama-bench prints where no other output is asked for.
_TABLE = re.compile(r"(?m)^[ \t]*\|[ \t]*model[ \t]*\|[^\n]*\|[ \t]*t/s[ \t]*\|[ \t\r]*$")
#: One of its tests: so many tokens of a prompt or of output, behind a context.
_TEST = re.compile(r"(?:pp ?(\d{1,9}))?\+?(?:tg ?(\d{1,9}))?(?: @ d(\d{1,9}))?")
_DEVICE = re.compile(r"(?m)^\s*Device \d+: ([^,\n]+),")
_PARAMS = {"M": MEGA, "B": GIGA, "T": TERA}


def is_table(text: str) -> bool:
    """Whether a text holds the table of llama-bench.

    Examples
    --------
    >>> is_table("| model | size | params | backend | ngl | test | t/s |"), is_table("| model | loss |")
    (True, False)
    """
    return _TABLE.search(text) is not None


def _table_rows(text: str, path: str) -> list[Json]:
    """Rows of llama-bench's table as its documents have them; the chip is named above the table, if at all."""
    head = _TABLE.search(text)
    if head is None:
        raise InputError(f"{path}: not a benchmark's result that is known; {_KINDS}")
    first = text.count("\n", 0, head.end()) + 1
    names = _cells(head[0])
    chips = set(_DEVICE.findall(text[: head.start()]))
    chip = chips.pop().strip() if len(chips) == 1 else ""
    found: list[Json] = []
    for number, line in enumerate(text[head.end() :].splitlines()[1:], first + 1):
        if not line.strip().startswith("|"):
            break
        row = dict(zip(names, _cells(line), strict=False))
        if not row["model"].strip("-: "):
            continue
        test, rate = _TEST.fullmatch(row.get("test", "")), re.match(r"[\d.]+", row.get("t/s", ""))
        if test is None or not any(test.groups()[:2]) or rate is None:
            raise InputError(f"{path}:{number}: no test such as pp512 or tg128 with its tokens per second in this row")
        size, _, unit = row.get("params", "").partition(" ")
        prompt, written, depth = (float(one or 0) for one in test.groups())
        found.append({
            "n_prompt": prompt, "n_gen": written, "n_depth": depth, "avg_ts": _decimal(rate[0]),
            "model_type": row["model"], "model_n_params": (_decimal(size) or 0.0) * _PARAMS.get(unit, 0.0),
            "gpu_info": chip,
        })  # fmt: skip
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _decimal(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text) else None


def _points(document: Json, path: str) -> list[BenchmarkPoint]:
    for one in FORMATS:
        if any(_at(document, mark) is not None for mark in one.marks):
            try:
                found = one.read(document)
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
            return [
                BenchmarkPoint(one.kind, {name: value for name, value in numbers.items() if value}, words, one.keys)
                for numbers, words in found
            ]
    raise InputError(f"{path}: not a benchmark's result that is known; {_KINDS}")


def _at(document: Json, path: str) -> Json:
    """The value at a dotted path; the first of a list of one."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document[0] if isinstance(document, list) and len(document) == 1 else document


def _number(document: Json, *paths: str) -> float | None:
    """The first of several entries that is a number above 0."""
    for path in paths:
        value = _at(document, path)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
            return float(value)
    return None


def _figure(document: Json, *paths: str) -> float | None:
    """The first of several entries that states a figure; refused where that is none, or no figure that can be."""
    for path in paths:
        value = _at(document, path)
        if value is None or (value == 0 and not isinstance(value, bool)):
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
            raise InputError(f"{path}: {shown(value)} is no number above 0; take the entry out if it was not measured")
        return float(value)
    return None


def _word(document: Json, *paths: str) -> str:
    return next((value for path in paths if isinstance(value := _at(document, path), str)), "")


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _over(value: float | None, count: float | None) -> float | None:
    return None if value is None or count is None else value / count


def _said(**words: str) -> dict[str, str]:
    return {name: word for name, word in words.items() if word}


def _served(document: Json) -> list[tuple[dict[str, float | None], dict[str, str]]]:
    """Of vLLM's and SGLang's serving benchmark: totals over requests, times in milliseconds."""
    completed, held = _number(document, "completed"), _number(document, "max_concurrency")
    rate = _at(document, "request_rate")
    at_once = rate in (None, "inf", math.inf)  # all clients start together: runs of few rounds are a burst
    numbers = {
        "batch": held or _number(document, "concurrency"),
        "isl": _over(_figure(document, "total_input_tokens"), completed),
        "osl": _over(_figure(document, "total_output_tokens"), completed),
        "tpot": _scaled(_figure(document, "mean_tpot_ms", "median_tpot_ms"), 1 / KILO),
        "ttft": _scaled(_figure(document, "mean_ttft_ms", "median_ttft_ms"), 1 / KILO),
        "rounds": _over(completed, held) if at_once else None,
        "failed": _number(document, "failed"),
    }
    asks = _ASKED.get(_word(document, "backend", "endpoint_type").removesuffix("-chat"), "")
    medians = {
        f"{name}_statistic": "median"
        for name in ("tpot", "ttft")
        if _figure(document, f"mean_{name}_ms") is None and numbers[name] is not None
    }
    model = _word(document, "model_id", "server_info.model_path")
    return [(numbers, _said(model=model, asked_engine=asks, **medians))]


#: Engines whose own protocol these benchmarks ask by; that of OpenAI is of no engine.
_ASKED = {"vllm": "vllm", "sglang": "sglang", "sglang-native": "sglang", "sglang-oai": "sglang", "lmdeploy": "lmdeploy",
          "tensorrt-llm": "trtllm", "trt": "trtllm", "tgi": "tgi"}  # fmt: skip


def _time(document: Json, name: str) -> float | None:
    """A mean with its unit beside it [s]."""
    return _scaled(_figure(document, f"{name}.avg"), _UNITS.get(_word(document, f"{name}.unit") or "ms", math.nan))


def _profiled(document: Json) -> list[tuple[dict[str, float | None], dict[str, str]]]:
    """Of GenAI-Perf and AIPerf: means with their unit, and the options of the run."""
    count = _number(document, "request_count.avg")
    options = ("perf_analyzer.stimulus.concurrency", "loadgen.concurrency", "concurrency")
    held = _number(document, *(f"input_config.{name}" for name in options))
    # after a warm-up, or at a rate, no clients start together
    is_start = not _number(
        document, *(f"input_config.loadgen.{name}" for name in ("warmup_request_count", "request_rate"))
    )
    numbers = {
        "batch": held,
        "isl": _figure(document, "input_sequence_length.avg") or _over(_number(document, "total_isl.avg"), count),
        "osl": _figure(document, "output_sequence_length.avg") or _over(_number(document, "total_osl.avg"), count),
        "tpot": _time(document, "inter_token_latency"),
        "ttft": _time(document, "time_to_first_token"),
        "rounds": _over(count, held) if is_start else None,
        "failed": _number(document, "error_request_count.avg"),
    }
    names = ("endpoint.model_names", "model_names", "model")
    return [(numbers, _said(model=_word(document, *(f"input_config.{name}" for name in names))))]


def _guided(document: Json) -> list[tuple[dict[str, float | None], dict[str, str]]]:
    """Of GuideLLM: a benchmark per load; its time per output token counts the first one, its gap does not."""
    out = []
    given = _at(document, "benchmarks") if isinstance(document, Mapping) else None
    benchmarks = given if isinstance(given, list) else [given]
    for one in benchmarks:
        means = {name: _figure(one, f"metrics.{entry}.successful.mean") for name, entry in _GUIDED.items()}
        numbers = {name: _scaled(mean, 1 / KILO if name in ("tpot", "ttft") else 1.0) for name, mean in means.items()}
        # only these clients start together: of a rate, streams are not stated
        streams = _number(one, "config.strategy.streams", "args.strategy.streams")
        done = _number(one, "metrics.request_totals.successful", "request_totals.successful")
        numbers["rounds"] = _over(done, streams)
        numbers["failed"] = _number(one, "metrics.request_totals.errored", "request_totals.errored")
        model = _word(one, "config.backend.model", "worker.backend_model") or _word(document, "args.model")
        out.append((numbers, _said(model=model)))
    return out


_GUIDED = {"batch": "request_concurrency", "isl": "prompt_token_count", "osl": "output_token_count",
           "tpot": "inter_token_latency_ms", "ttft": "time_to_first_token_ms"}  # fmt: skip


def _trtllm(document: Json) -> list[tuple[dict[str, float | None], dict[str, str]]]:
    """Of trtllm-bench: times stand there where it streamed; experts' ranks do not tell attention's."""
    tp, pp, ep = (_number(document, f"world_info.{name}_size") or 1.0 for name in ("tp", "pp", "ep"))
    held = _number(document, "request_info.avg_num_concurrent_requests")
    numbers = {
        "batch": held,
        "rounds": _over(_number(document, "request_info.num_requests"), held),
        "isl": _figure(document, "request_info.avg_input_length"),
        "osl": _figure(document, "request_info.avg_output_length"),
        "tpot": _scaled(_figure(document, "streaming_metrics.avg_tpot_ms"), 1 / KILO),
        "ttft": _scaled(_figure(document, "streaming_metrics.avg_ttft_ms"), 1 / KILO),
    }
    layout = "" if ep > 1 or _at(document, "world_info") is None else f"tp{tp:.0f}-pp{pp:.0f}"
    width = _QUANTIZED.get(_word(document, "engine.quantization"), "")
    return [(numbers, _said(model=_word(document, "engine.model"), layout=layout, precision=width, engine="trtllm"))]


#: Formats of weights as TensorRT-LLM names its algorithms; others say nothing here.
_QUANTIZED = {"FP8": "fp8", "FP8_BLOCK_SCALES": "fp8", "NVFP4": "fp4", "W4A16_AWQ": "int4", "W4A16_GPTQ": "int4"}
#: What stands in llama-bench's type of a model behind the name: ``Q4_K - Medium``, ``Q8_0``.
_MIX = re.compile(r"\b(I?Q\d\w*|MXFP4|BF16|F16)(?: - (\w)\w*)?")


def _llama(document: Json) -> list[tuple[dict[str, float | None], dict[str, str]]]:
    """Of llama-bench: tests of a prompt alone, or of output alone behind a context of ``n_depth``."""
    prompt, written, depth = (_number(document, name) or 0.0 for name in ("n_prompt", "n_gen", "n_depth"))
    rate = _figure(document, "avg_ts")
    if prompt and written:
        return []  # both in one rate
    found = _MIX.search(_word(document, "model_type"))
    mix = "_".join(part.lower() for part in found.groups() if part) if found else ""
    words = _said(
        precision=mix if mix in ("", "bf16") else f"gguf-{mix}".replace("gguf-f16", "bf16"), engine="llama.cpp",
        chip=_word(document, "gpu_info") or _word(document, "cpu_info"),
    )  # fmt: skip
    size = {"batch": 1.0, "n_params": _number(document, "model_n_params")}
    if written:
        return [({**size, "isl": max(depth, 1.0), "osl": written, "tpot": _over(1.0, rate)}, words)]
    prompt_s = None if depth else _over(prompt, rate)  # a prompt behind a context is another question
    return [({**size, "isl": prompt, "osl": 1.0, "ttft": prompt_s}, words)] if prompt_s or rate is None else []


#: The first whose marks a document holds is taken: a new format is one more entry.
FORMATS = (
    Format("GuideLLM", ("benchmarks",), _guided, {
        **{name: f"metrics.{entry}.successful.mean" for name, entry in _GUIDED.items()},
        "tpot or ttft": "metrics.inter_token_latency_ms",
    }),
    Format("trtllm-bench", ("request_info", "world_info"), _trtllm, {
        "batch": "request_info.avg_num_concurrent_requests", "isl": "request_info.avg_input_length",
        "osl": "request_info.avg_output_length", "tpot or ttft": "streaming_metrics (of --streaming)",
    }),
    Format("GenAI-Perf or AIPerf", ("input_config", "time_to_first_token", "inter_token_latency"), _profiled, {
        "batch": "input_config's concurrency", "isl": "input_sequence_length", "osl": "output_sequence_length",
        "tpot or ttft": "inter_token_latency (of --streaming)",
    }),
    Format("llama-bench", ("avg_ts", "n_gen"), _llama, {"tpot or ttft": "avg_ts"}),
    Format("vLLM's or SGLang's serving benchmark",
        ("completed", "total_output_tokens", "mean_tpot_ms", "median_ttft_ms"), _served, {
        "batch": "max_concurrency", "isl": "completed and total_input_tokens",
        "osl": "completed and total_output_tokens", "tpot or ttft": "mean_tpot_ms and mean_ttft_ms",
    }),
)  # fmt: skip
_KINDS = f"known are results of {', '.join(one.kind for one in FORMATS)}"
