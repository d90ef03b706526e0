"""Rows of published serving figures as questions to the model: what is asked, what is known, what must be supplied."""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from computeledger.errors import UnknownIdError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.weights import stored_precision
from computeledger.units import GIGA, KIB, KILO, MEGA
from computeledger.validation.compare import MOST_MEASURED

Row = Mapping[str, str]
NEEDED = (
    "source", "model", "hardware", "n_gpus", "parallelism", "precision", "isl", "osl", "batch_or_concurrency", "kv_len",
    "metric", "value", "unit",
)  # fmt: skip
#: GPUs of a node in figures that are stated per node.
NODE_GPUS = 8
#: Tokens per GPU and prefill batch where a row states none (assumption: what the rows that state one use).
PUBLISHED_CHUNK_TOKENS = 16384.0
#: Sequences per rank that the engine schedules at most where a row states no limit (assumption).
MOST_SEQUENCES = 2048.0
INPUT, OUTPUT = "input_tokens_per_s_per_gpu", "output_tokens_per_s_per_gpu"
UNITS = {
    INPUT: "token/s", OUTPUT: "token/s", "tpot": "s", "ttft": "s", "memory_bytes": "B", "n_nodes": "nodes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """What a row states, and what is taken where it does not."""

    quantity: str
    measured: float
    kind: str
    model: Model
    system: str
    layout: Layout
    precision: Precision
    input_tokens: float
    output_tokens: float
    batch: float = 0.0
    n_requests: float = 0.0
    cached_fraction: float = 0.0
    tokens_per_step: float = 1.0
    accepted_per_step: float = 1.0
    chunk_tokens: float = PUBLISHED_CHUNK_TOKENS
    overlapped: bool = False
    balanced: bool = False
    ranks_balanced: bool = False
    rounds: float = math.inf
    statistic: str = "mean"
    companions: Mapping[str, float] | None = None
    assumed: tuple[str, ...] = ()


class Unpredictable(Exception):  # noqa: N818 (not an error: the reason why a row is counted as skipped)
    """A row lacks what a prediction needs; the message is the reason."""


@functools.cache
def _settings() -> Mapping[str, Any]:
    text = resources.files("computeledger.validation.published").joinpath("published.toml").read_text("utf-8")
    return tomllib.loads(text)


def _number(text: str) -> float:
    found = re.search(r"\d[\d,]*\.?\d*", text or "")
    value = float(found.group().replace(",", "")) if found else 0.0
    if value > MOST_MEASURED:
        raise Unpredictable(f"a number beyond {MOST_MEASURED:g}")
    return value


def _deployment(source: str) -> Mapping[str, Any]:
    return next((one for one in _settings()["deployment"] if source.startswith(one["source"])), {})


#: Metric to (quantity, kind, divisor): "n" stands for the row's number of GPUs.
_METRICS: Mapping[str, tuple[str, str, float | str]] = {
    "prefill_input_tokens_per_s_per_node": (INPUT, "prefill", NODE_GPUS),
    "prefill_input_tokens_per_s_per_node_incl_cache_hits": (INPUT, "prefill", NODE_GPUS),
    "prefill_input_tokens_per_s_per_node_excl_cache_hits": (INPUT, "prefill", NODE_GPUS),
    "prefill_input_tokens_per_s_per_gpu": (INPUT, "prefill", 1.0),
    "prefill_tokens_per_s_per_gpu": (INPUT, "prefill", 1.0),
    "decode_output_tokens_per_s_per_node": (OUTPUT, "decode", NODE_GPUS),
    "decode_output_tokens_per_s_per_gpu": (OUTPUT, "decode", 1.0),
    "decode_tokens_per_s_per_gpu": (OUTPUT, "decode", 1.0),
    "output_tokens_per_s_per_gpu": (OUTPUT, "mixed", 1.0),
    "output_tokens_per_s_total": (OUTPUT, "mixed", "n"),
    "output_throughput": (OUTPUT, "mixed", "n"),
    "output_tokens_per_s_per_user": ("tpot", "mixed", 1.0),
    "mean_request_latency": ("tpot", "mixed", 1.0),
    "median_tpot": ("tpot", "mixed", 1.0),
    "median_ttft": ("ttft", "mixed", 1.0),
    "mean_TTFT": ("ttft", "stages", 1.0),
    "FMHA_kernel_latency": ("ttft", "kernel", KILO),
    "output_tokens_per_s_per_gpu(prefill+decode GPUs)": (OUTPUT, "disaggregated", 1.0),
    "avg_nodes": ("n_nodes", "nodes", 1.0),
    "weights_plus_activation_per_gpu": ("memory_bytes", "weights", 1 / GIGA),
    "kv_per_request_1k2k": ("memory_bytes", "request", 1 / MEGA),
}


def case_of(row: Row, rows: Sequence[Row] = ()) -> Case:
    """Read a row as a question.

    Examples
    --------
    >>> case_of(dict.fromkeys(NEEDED, "") | {"metric": "cost_profit_margin"})
    Traceback (most recent call last):
    computeledger.validation.published.rows.Unpredictable: a price list times tokens
    """
    settings = _settings()
    if row["metric"] in settings["skipped"]:
        raise Unpredictable(settings["skipped"][row["metric"]])
    if row["metric"] not in _METRICS:
        raise Unpredictable("quantity not known")
    quantity, kind, divisor = _METRICS[row["metric"]]
    if row["source"].startswith("MLPerf"):
        raise Unpredictable("input lengths not stated")
    _refuse(row, kind)
    model = _model(row["model"])
    system = settings["systems"].get(row["hardware"])
    if system is None:
        raise Unpredictable(
            "hardware not stated" if "not in" in row["hardware"] else "hardware not bundled as a system"
        )
    n_gpus = _number(row["n_gpus"])
    value = _number(row["value"]) / (n_gpus if divisor == "n" else float(divisor))
    if row["metric"].endswith("_incl_cache_hits"):
        value *= 1 - _deployment(row["source"]).get("cached_fraction", 0.0)
    if value <= 0:
        raise Unpredictable("incomplete record")
    case = Case(
        quantity=quantity,
        measured=1 / value if row["metric"] == "output_tokens_per_s_per_user" else value,
        kind=kind,
        model=model,
        system=system,
        layout=_layout(row, kind, n_gpus),
        precision=_precision(model, f"{row['precision']} {row['unit'] if 'KV' in row['unit'] else ''}".strip()),
        input_tokens=_number(row["isl"]),
        output_tokens=_number(row["osl"]),
    )
    return _completed(case, row, rows)


def _refuse(row: Row, kind: str) -> None:
    """Reasons that stand in a row's own words."""
    text = f"{row['parallelism']} {row['precision']}"
    if kind == "disaggregated":
        raise Unpredictable("disaggregated without its pools' sizes")
    if re.search(r"MTP\d", text) or row["metric"] == "mean_request_latency":
        raise Unpredictable("speculative acceptance not stated")


def _model(name: str) -> Model:
    try:
        return load_model(_settings()["models"].get(name, name))
    except UnknownIdError:
        raise Unpredictable("model not known") from None


def _layout(row: Row, kind: str, n_gpus: float) -> Layout:
    """Degrees as the engines write them; a pool that names only its expert ranks has as many attention ranks."""
    text = row["parallelism"].upper().replace("ATTENTION DP", "DP")
    if kind == "nodes":
        return Layout(dp=32, ep=32)
    if kind in ("stages", "kernel") and (found := re.search(r"PP(\d+)", text)):
        return Layout(pp=int(found.group(1)))
    if kind in ("prefill", "decode"):
        found = re.search(r"EP\s?(\d+)", text) or re.search(r"(\d+) RANKS", text) or re.search(r"\((\d+) GPU\)", text)
        n = int(found.group(1)) if found else int(n_gpus)
        if not found and n > 1 and "EP" not in text:
            raise Unpredictable("layout not stated")
        return Layout(dp=n, ep=n)
    degrees = {name: int(number) for name, number in re.findall(r"\b(TP|PP|DP|EP|DEP|TEP)\s?(\d+)", text)}
    if not degrees:
        raise Unpredictable("layout not stated")
    both = degrees.get("DEP", 1), degrees.get("TEP", 1)
    return Layout(
        tp=max(degrees.get("TP", 1), both[1]),
        pp=degrees.get("PP", 1),
        dp=max(degrees.get("DP", 1), both[0]),
        ep=max(degrees.get("EP", 1), *both),
    )


def _precision(model: Model, text: str) -> Precision:
    """Weights by kind as stated, else as stored; 4-bit checkpoints of expert models keep their mixers wide."""
    words = text.lower()
    kv = "fp8" if "bf16 kv" not in words and re.search(r"fp8 (kv|attention)|modelopt", words) else "bf16"
    scores = "fp8" if "fp8 attention" in words else "bf16"
    if not words or model.id.startswith("openai/gpt-oss"):
        return stored_precision(model, kv, scores)
    if "fp4" in words:
        is_moe = model.is_moe
        mixers = "fp8" if "fp8 attention" in words else "bf16" if is_moe else "fp4"
        return Precision(mixers, "fp8" if "fp8 attention" in words else "fp4", "fp4", kv, scores)
    width = "fp8" if "fp8" in words else "bf16"
    return Precision(width, width, width, kv, scores)


def _completed(case: Case, row: Row, rows: Sequence[Row]) -> Case:
    """Load, overlap and the rest of the deployment, and what was assumed of them."""
    deployment = _deployment(row["source"])
    assumed = [deployment["assumed"]] if deployment else []
    kind = case.kind
    text = row["batch_or_concurrency"]
    changes: dict[str, Any] = {
        "overlapped": kind in deployment.get("overlapped", ()),
        "ranks_balanced": deployment.get("ranks_balanced", False),
        "rounds": float(deployment.get("rounds", math.inf)),
        "statistic": "median" if row["metric"].startswith("median") else "mean",
    }
    if "TBO" in row["parallelism"]:
        changes["overlapped"] = "no TBO" not in row["parallelism"]
    if kind == "prefill":
        changes |= _prefill(case, row, assumed)
    elif kind == "decode":
        changes |= _decode(row, assumed)
    elif kind == "mixed":
        if "max load" in text:
            changes |= {"kind": "offline", "n_requests": _number(text.partition("num_requests=")[2])}
            assumed.append(f"as many sequences as fit, at most {MOST_SEQUENCES:,.0f} per rank")
        elif not _number(text):
            raise Unpredictable("batch not stated")
        else:
            changes["batch"] = _number(text)
    elif kind in ("stages", "kernel"):
        changes |= _stages(row, case.input_tokens)
    elif kind == "nodes":
        changes |= {"companions": _companions(rows, deployment), **_prompts(deployment)}
    changed: Case = replace(case, **changes, assumed=tuple(assumed))
    if changed.kind in ("mixed", "offline", "request") and not (case.input_tokens and case.output_tokens):
        raise Unpredictable("lengths not stated")
    return changed


def _prefill(case: Case, row: Row, assumed: list[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {"balanced": "perfect" in row["parallelism"]}
    stated = _number(row["batch_or_concurrency"]) if "tokens/GPU" in row["batch_or_concurrency"] else 0.0
    if stated:
        changes["chunk_tokens"] = stated
    else:
        assumed.append(f"{PUBLISHED_CHUNK_TOKENS:,.0f} tokens per GPU and batch")
    if not case.input_tokens:
        changes |= _prompts(_deployment(row["source"]))
    return changes


def _prompts(deployment: Mapping[str, Any]) -> dict[str, float]:
    if "prompt_tokens" not in deployment:
        raise Unpredictable("lengths not stated")
    return {"input_tokens": float(deployment["prompt_tokens"]), "cached_fraction": deployment["cached_fraction"]}


def _stages(row: Row, input_tokens: float) -> dict[str, Any]:
    """A long prompt in one piece, or in the chunks that the row's note states."""
    note = row.get("notes", "")
    chunk = re.search(r"(\d+)K dynamic chunk", note)
    if not chunk and "no chunking" not in note:
        raise Unpredictable("chunking not stated")
    return {"chunk_tokens": float(chunk.group(1)) * KIB if chunk else input_tokens}


def _decode(row: Row, assumed: list[str]) -> dict[str, Any]:
    context = _number(row["kv_len"]) or _number(row["isl"])
    if not context:
        raise Unpredictable("lengths not stated")
    changes: dict[str, Any] = {"input_tokens": context, "output_tokens": _number(row["osl"])}
    per_gpu = _number(row["batch_or_concurrency"])
    layout = _layout(row, "decode", _number(row["n_gpus"]))
    if per_gpu:
        changes["batch"] = per_gpu * float(layout.dp)
    else:
        assumed.append("as many sequences as fit")
    if accepted := re.search(r"MTP \((\d+)% accept", row["parallelism"]):
        changes |= {"tokens_per_step": 2.0, "accepted_per_step": 1 + float(accepted.group(1)) / 100}
        assumed.append("one drafted token per step")
    return changes


def _companions(rows: Sequence[Row], deployment: Mapping[str, Any]) -> dict[str, float]:
    """The day's load, from the rows beside the number of nodes."""
    found = {one["metric"]: one for one in rows if one["source"].startswith(deployment.get("source", "-"))}
    names = ("daily_input_tokens", "daily_input_tokens_cache_hit", "daily_output_tokens", "output_speed_per_user_low",
             "output_speed_per_user_high")  # fmt: skip
    if any(name not in found for name in names):
        raise Unpredictable("the day's load stands in rows that are missing")
    load = {name: _number(found[name]["value"]) for name in names}
    context = _number(found["daily_output_tokens"]["kv_len"])
    return load | {"context_tokens": context, "decode_gpus": float(deployment["decode_gpus"])}
