"""Tables of measured training runs: the metrics of each configuration, brought to a step time.

A time or a throughput states what it says; TFLOP/s and utilisation need the FLOP convention of their source, which is
written here once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from computeledger.physics.training.counts import trained_layers
from computeledger.physics.transformer import training_flop_per_token
from computeledger.units import GIB, GIGA, KILO, TERA
from computeledger.validation.compare import MOST_MEASURED
from computeledger.validation.measured_table import read_rows
from computeledger.validation.training.named import SkippedRunError
from computeledger.validation.training.sources import TrainingRun, describe_run, release_of

#: Megatron-Bridge container from which GPT-OSS counts more FLOP per token, and by how much (27.15 to 32.6 GFLOP).
GPT_OSS_RECOUNTED, GPT_OSS_RECOUNT_RATIO = 26.06, 1.2
NEEDED = ("source", "model", "hardware", "n_gpus", "seq_len", "precision", "metric", "value", "unit", "notes")
#: What a driver shows beside what the framework allocates: 0.5 GiB of context alone, 1.5 to 2.1 with links, as the
#: start-up logs of ``memory_curated.csv`` say.
DRIVER_BYTES = 2.0 * GIB
#: Peaks as allocated or reserved by the framework, or as the driver shows them, and what the figure holds besides.
MEMORY_METRICS = {"peak_alloc_memory": 0.0, "peak_reserved_memory": 0.0, "peak_memory": DRIVER_BYTES}
#: Best metric first: a time states what it says; TFLOP/s and MFU need the source's FLOP convention.
METRICS = ("step_time", "tokens_per_s_per_gpu", "tokens_per_s_total", "TFLOPs_per_gpu", "MFU")


def read_training_table(path: str | Path) -> list[dict[str, str]]:
    """Read a table of measured training runs.

    Examples
    --------
    >>> read_training_table("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    return read_rows(path, NEEDED)


def training_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[TrainingRun], Counter[str]]:
    """Turn rows into configurations: the metrics of one run are one configuration.

    Examples
    --------
    >>> runs, skipped = training_runs([{"source": "x", "model": "nobody", "metric": "MFU", "value": "40"}])
    >>> len(runs), dict(skipped)
    (0, {'model not known': 1})
    """
    groups: dict[tuple[object, ...], list[Mapping[str, str]]] = {}
    repeats: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        key = tuple(value or "" for name, value in row.items() if name not in {"metric", "value", "unit"})
        # the same metric once more is the same configuration measured once more
        repeats[key, row["metric"]] += 1
        groups.setdefault((key, repeats[key, row["metric"]]), []).append(row)
    runs: list[TrainingRun] = []
    skipped: Counter[str] = Counter()
    for members in groups.values():
        try:
            runs.append(_run(members))
        except SkippedRunError as reason:
            skipped[str(reason)] += 1
    return runs, skipped


def _run(members: Sequence[Mapping[str, str]]) -> TrainingRun:
    metrics = {one["metric"]: one for one in members}
    known = next((name for name in METRICS if name in metrics), None)
    peak = next((name for name in MEMORY_METRICS if name in metrics), None)
    if known is None and peak is None:
        raise SkippedRunError(_unusable(members[0]["metric"]))
    run = describe_run(members[0])
    return replace(
        run,
        step_s=_step_s(run, metrics[known]) if known else np.nan,
        memory_bytes=_memory_bytes(metrics[peak]) if peak else np.nan,
        beside_bytes=MEMORY_METRICS.get(peak or "", 0.0),
    )


def _memory_bytes(row: Mapping[str, str]) -> float:
    unit = row["unit"].strip()
    if unit not in ("GiB", "GB"):
        raise SkippedRunError("unit of memory not known")
    return _number(row["value"]) * (GIB if unit == "GiB" else GIGA)


def _unusable(metric: str) -> str:
    if metric in {"time_to_train", "gpu_hours", "training_flops_and_time"}:
        return "time to a result, not of a step"
    return "no step time, throughput or memory stated"


def _step_s(run: TrainingRun, row: Mapping[str, str]) -> float:
    value, n_gpus = _number(row["value"]), float(run.layout.n_gpus)
    tokens = run.global_sequences * run.sequence_tokens
    metric, unit = row["metric"], row["unit"]
    if metric == "step_time":
        return value / (KILO if unit.startswith("ms") else 1.0)
    if metric == "tokens_per_s_per_gpu":
        return tokens / value / n_gpus
    if metric == "tokens_per_s_total":
        if "prime-rl" in row["source"]:
            raise SkippedRunError("throughput contradicts the source's own step time")
        return tokens / value
    return tokens * _counted_flop_per_token(run) / (_rate(run, row, value) * n_gpus)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SkippedRunError("the measured value is no number") from None
    if not 0 < value <= MOST_MEASURED:
        raise SkippedRunError("the measured value is not above 0")
    return value


def _rate(run: TrainingRun, row: Mapping[str, str], value: float) -> float:
    """FLOP/s per GPU that a TFLOP/s or utilisation figure means."""
    if row["metric"] == "TFLOPs_per_gpu":
        return value * TERA
    if "prime-rl" in row["source"]:
        raise SkippedRunError("utilisation contradicts the source's own step time")
    share = value / 100 if row["unit"] == "%" else value
    precision = run.precision.dense if "llm-foundry" in row["source"] else "bf16"
    return share * run.system.accelerator.peak(precision)


def _counted_flop_per_token(run: TrainingRun) -> float:
    """FLOP per token as the row's source counts them.

    Megatron-Bridge counts causal attention, prediction modules, and 4 N where only adapters are trained; its GPT-OSS
    figures before container 26.06 are a sixth lower than the same throughput after it. Megatron papers, llm-foundry
    and NeMo's long sequences count attention in full instead of causal; Narayanan's rows count recomputation too.
    """
    source, modules = run.row["source"], run.stack.mtp_layers
    model = replace(run.model, layers=trained_layers(run.model, modules))
    flop = float(training_flop_per_token(model, run.sequence_tokens))
    # each prediction module has a head pass and a projection of two residual streams to one
    flop += modules * 6 * model.hidden_size * (model.vocab_size + 2 * model.hidden_size)
    full = ("Narayanan", "Korthikanti", "MegaScale", "llm-foundry", "long-sequence", "Megatron-Core")
    if any(name in source for name in full):
        width = sum(
            group.count * group.attention.n_query_heads * (group.attention.qk_head_dim + group.attention.v_head_dim)
            for group in model.layers
        )
        flop += 3 * width * run.sequence_tokens
    if "gpt-oss" in run.model.id and (release_of(run.row) or np.inf) < GPT_OSS_RECOUNTED:
        flop /= GPT_OSS_RECOUNT_RATIO
    flop *= (2 + float(np.asarray(run.stack.trained_fraction))) / 3
    if "Narayanan" in source:
        head = 6 * model.vocab_size * model.hidden_size
        flop = head + (flop - head) * 4 / 3
    return flop
