"""Tables of measured training runs: what each row states, read into one configuration per run.

Sources state different things in different words; a configuration is what the training model needs. What a source's
whole table means without saying so per row (its attention kernel, its FLOP convention) is written here once.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from computeledger.errors import ComputeLedgerError, InputError
from computeledger.facts.architecture import LayerGroup, Model
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.facts.schema import System
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.training import Stack
from computeledger.physics.transformer import training_flop_per_token
from computeledger.units import GIB, KILO, TERA

NEEDED = ("source", "model", "hardware", "n_gpus", "seq_len", "precision", "metric", "value", "unit", "notes")
#: Best metric first: a time states what it says; TFLOP/s and MFU need the source's FLOP convention.
METRICS = ("step_time", "tokens_per_s_per_gpu", "tokens_per_s_total", "TFLOPs_per_gpu", "MFU", "HFU")
#: Systems by the beginning of a word in the hardware column, or in the notes where that column is empty.
SYSTEMS = {
    "gb300": "gb300-nvl72",
    "gb200": "gb200-nvl72",
    "b300": "b300-nvl8",
    "b200": "b200-nvl8",
    "h200": "h200-nvl8",
    "h800": "h800-nvl8",
    "h100": "h100-nvl8",
    "a100": "a100-nvl8",
}
#: Words of model names, in the order tried, and the model they mean.
MODELS = {
    "llama3.1_405b": "llama-3.1-405b",
    "llama 3.1 405b": "llama-3.1-405b",
    "llama3_405b": "llama-3.1-405b",
    "llama3_70b": "llama-3.1-70b",
    "llama 3.1 70b": "llama-3.1-70b",
    "llama3 70b": "llama-3.1-70b",
    "llama3_8b": "llama-3.1-8b",
    "llama 3.1 8b": "llama-3.1-8b",
    "llama3-8b": "llama-3.1-8b",
    "llama3 8b": "llama-3.1-8b",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "deepseekv4 flash": "deepseek-v4-flash",
    "deepseekv3": "deepseek-v3",
    "deepseek-v3": "deepseek-v3",
    "deepseekv2": "deepseek-ai/DeepSeek-V2",
    "gpt oss 120b": "gpt-oss-120b",
    "gpt-oss 120b": "gpt-oss-120b",
    "gpt-oss 20b": "gpt-oss-20b",
    "qwen3_30b_a3b": "qwen3-30b-a3b",
    "qwen3 moe 30b": "qwen3-30b-a3b",
    "qwen3_235b_a22b": "qwen3-235b-a22b",
    "kimi_k2": "kimi-k2-instruct",
    "kimi k2": "kimi-k2-instruct",
    "nemotron_3_nano": "nemotron-3-nano",
    "nemotron v3 nano": "nemotron-3-nano",
    "nemotron_3_super": "nemotron-3-super",
    "nemotron v3 super": "nemotron-3-super",
    "nemotron_3_ultra": "nemotron-3-ultra",
    "nemotron_3_5_lightning": "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "intellect-3": "glm-4.5-air",
    "megatron-22b": "megatron-gpt-22b",
    "gpt3-175b": "megatron-gpt-175b",
    "gpt 175b": "megatron-gpt-175b",
    "turing-530b": "megatron-gpt-530b",
    "megatron-1t": "megatron-gpt-1t",
    "gpt 3.6b": "megatron-gpt-3.6b",
    "gpt 18.4b": "megatron-gpt-18.4b",
    "gpt 39.1b": "megatron-gpt-39.1b",
    "gpt 76.1b": "megatron-gpt-76.1b",
    "gpt 310.1b": "megatron-gpt-310.1b",
    "gpt 529.6b": "megatron-gpt-530b",
    "gpt 1008.0b": "megatron-gpt-1t",
}


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A measured configuration.

    Attributes
    ----------
    row : mapping
        Columns as read, and ``model_kind``, ``chip``.
    model : Model
        What was trained.
    system : System
        On what.
    precision : Precision
        Of products.
    layout : Layout
        Integer degrees.
    sequence_tokens, global_sequences, microbatch_sequences, virtual_stages : float
        The batch: tokens of a sequence [token], sequences per step and per microbatch, chunks per stage [-].
    recompute : str
        ``none``, ``selective`` or ``full``.
    sharded_weights : bool
        FSDP.
    stack : Stack
        The software.
    step_s, memory_bytes : float
        Measured; not a number where the row does not say [s], [byte].
    """

    row: Mapping[str, str]
    model: Model
    system: System
    precision: Precision
    layout: Layout
    sequence_tokens: float
    global_sequences: float
    microbatch_sequences: float
    virtual_stages: float
    recompute: str
    sharded_weights: bool
    stack: Stack
    step_s: float
    memory_bytes: float


class _SkipRowError(Exception):
    """A configuration that cannot be predicted; the text is the reason."""


def is_training_table(columns: Sequence[str]) -> bool:
    """Tell a table of training runs by its columns.

    Parameters
    ----------
    columns : sequence of str
        Of a table.

    Returns
    -------
    bool
        Whether every needed column is there.

    Examples
    --------
    >>> is_training_table(["model_path", "silicon_ttft_ms"])
    False
    """
    return set(NEEDED) <= set(columns)


def read_training_table(path: str | Path) -> list[dict[str, str]]:
    """Read a table of measured training runs.

    Parameters
    ----------
    path : str or Path
        CSV with the columns :data:`NEEDED`; further columns are kept.

    Returns
    -------
    list of dict
        One per row.

    Raises
    ------
    InputError
        No such file, not a table, or a column missing.

    Examples
    --------
    >>> read_training_table("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table ({error.__class__.__name__})") from None
    columns = list(rows[0]) if rows else []
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise InputError(f"{path}: the columns {', '.join(missing)} are missing; needed: {', '.join(NEEDED)}")
    return rows


def training_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[TrainingRun], Counter[str]]:
    """Turn rows into configurations: the metrics of one run are one configuration.

    Parameters
    ----------
    rows : sequence of mapping
        From :func:`read_training_table`.

    Returns
    -------
    tuple of list of TrainingRun and Counter
        Configurations, and how many were left out by reason.

    Examples
    --------
    >>> runs, skipped = training_runs([{"source": "x", "model": "nobody", "metric": "MFU", "value": "40"}])
    >>> len(runs), dict(skipped)
    (0, {'model not known': 1})
    """
    groups: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        key = tuple(value or "" for name, value in row.items() if name not in {"metric", "value", "unit"})
        groups.setdefault(key, []).append(row)
    runs: list[TrainingRun] = []
    skipped: Counter[str] = Counter()
    for members in groups.values():
        try:
            runs.append(_run(members))
        except _SkipRowError as reason:
            skipped[str(reason)] += 1
    return runs, skipped


def _run(members: Sequence[Mapping[str, str]]) -> TrainingRun:
    row = members[0]
    notes = row.get("notes") or ""
    metrics = {one["metric"]: one for one in members}
    known = next((name for name in METRICS if name in metrics), None)
    if known is None and "peak_alloc_memory" not in metrics:
        raise _SkipRowError(_unusable(row["metric"]))
    model = _model(row)
    system = _system(row, notes)
    n_gpus = _positive(row, "n_gpus")
    sequence = _positive(row, "seq_len")
    if n_gpus is None or sequence is None:
        raise _SkipRowError("GPUs or sequence length not stated")
    layout, sharded = _layout(row, notes, int(n_gpus))
    micro = _microbatch(row, layout)
    tokens = _global_tokens(row, notes, layout, sequence, micro)
    stack = _stack(row, notes, model)
    run = TrainingRun(
        row={**row, "model_kind": _kind(model), "chip": system.accelerator.id},
        model=model,
        system=system,
        precision=_precision(row),
        layout=layout,
        sequence_tokens=sequence,
        global_sequences=tokens / sequence,
        microbatch_sequences=micro,
        virtual_stages=_virtual_stages(row, notes, model, layout),
        recompute=_recompute(row, model),
        sharded_weights=sharded,
        stack=stack,
        step_s=np.nan,
        memory_bytes=np.nan,
    )
    memory = metrics.get("peak_alloc_memory")
    return replace(
        run,
        step_s=_step_s(run, metrics[known], tokens, n_gpus) if known else np.nan,
        memory_bytes=float(memory["value"]) * GIB if memory else np.nan,
    )


def _unusable(metric: str) -> str:
    if metric in {"time_to_train", "gpu_hours", "training_flops_and_time"}:
        return "time to a result, not of a step"
    return "no step time, throughput or memory stated"


def _kind(model: Model) -> str:
    return "moe" if any(group.feed_forward.n_experts for group in model.layers) else "dense"


def _positive(row: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if np.isfinite(value) and value > 0 else None


def _noted(notes: str, pattern: str) -> float | None:
    found = re.search(pattern, notes)
    return float(found[1]) if found else None


def _model(row: Mapping[str, str]) -> Model:
    name = row["model"].strip().lower()
    wanted = next((model for word, model in MODELS.items() if word in name), None)
    if name.startswith("mpt-"):
        wanted = f"mosaicml/{name}"
    try:
        model = load_model(wanted or row["model"].strip())
    except ComputeLedgerError:
        raise _SkipRowError("model not known") from None
    truncated = re.search(r"truncated to (\d+) layers", name)
    return _truncated(model, int(truncated[1])) if truncated else model


def _truncated(model: Model, n_layers: int) -> Model:
    """The first layers of a model; SimuMax keeps one dense layer before those with experts."""
    moe = [group for group in model.layers if group.feed_forward.n_experts]
    dense = [group for group in model.layers if not group.feed_forward.n_experts]
    groups: list[LayerGroup] = []
    if moe:
        first = [replace(dense[0], count=1)] if dense else []
        groups = [*first, replace(moe[0], count=n_layers - len(first))]
    else:
        groups = [replace(dense[0], count=n_layers)]
    return replace(model, layers=tuple(groups), n_mtp_layers=0)


def _system(row: Mapping[str, str], notes: str) -> System:
    text = row["hardware"].lower()
    if "placeholder" in text or not text:
        named = re.search(r"config_\w+|system: [\w-]+", notes, re.IGNORECASE)
        text = named[0].lower() if named else text
    found = next((system for word, system in SYSTEMS.items() if word in text), None)
    if found is None:
        raise _SkipRowError("system not known")
    system = load_system(found)
    if "a100" in text and ("40gb" in text or "40 gb" in text):
        system = replace(system, accelerator=load_accelerator("a100-sxm4-40gb"))
    stated = re.search(r"([\d.]+)tb/s", text)
    if stated:
        chip = system.accelerator
        bandwidth = replace(chip.hbm_bytes_per_s, value=float(stated[1]) * TERA)
        system = replace(system, accelerator=replace(chip, hbm_bytes_per_s=bandwidth))
    return system


def _layout(row: Mapping[str, str], notes: str, n_gpus: int) -> tuple[Layout, bool]:
    """Degrees, and whether weights are sharded over data-parallel ranks."""
    source = row["source"]
    noted = _noted(notes, r"FSDP=(\d+)")
    sharded = (
        (noted or 0) > 1
        or "FULL_SHARD" in notes
        or any(name in source for name in ("torchtitan", "prime-rl", "AutoModel"))
    )
    stated = {name: _positive(row, name) for name in ("tp", "pp", "cp", "ep")}
    if "prime-rl" in source:
        stated = {"tp": 1.0, "pp": 1.0, **{k: v for k, v in stated.items() if v}}
    if not stated.get("tp") or not stated.get("pp"):
        raise _SkipRowError("parallel split not stated")
    tp, pp = int(stated["tp"] or 1), int(stated["pp"] or 1)
    cp, ep = int(stated.get("cp") or 1), int(stated.get("ep") or 1)
    if "AutoModel" in source:
        ep = n_gpus if not _positive(row, "ep") else ep
    if n_gpus % (tp * pp):
        raise _SkipRowError("parallel split does not divide the GPUs")
    if "long-sequence" in source:
        # the table's split covers the GPUs only with more context parallelism than it prints
        sequences = _noted(notes, r"GBS=(\d+)") or 1.0
        cp = max(cp, int(n_gpus // (tp * pp * min(sequences, n_gpus // (tp * pp * cp)))))
    dp = max(n_gpus // (tp * pp * cp), 1)
    return Layout(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep), sharded


def _microbatch(row: Mapping[str, str], layout: Layout) -> float:
    if "torchtitan" in row["source"] and layout.pp > 1:
        return 1.0
    return _positive(row, "micro_batch") or 1.0


def _global_tokens(row: Mapping[str, str], notes: str, layout: Layout, sequence: float, micro: float) -> float:
    stated = _positive(row, "global_batch_tokens")
    pieces = _noted(notes, r"micro_batches=(\d+)")
    if stated is None and pieces is None:
        raise _SkipRowError("global batch not stated")
    tokens = stated or (pieces or 1.0) * micro * sequence * float(layout.dp)
    if tokens / sequence < 0.5 * float(layout.dp):
        raise _SkipRowError("global batch does not divide over the ranks")
    return tokens


def _virtual_stages(row: Mapping[str, str], notes: str, model: Model, layout: Layout) -> float:
    if layout.pp == 1:
        return 1.0
    if "Llama 3 herd" in row["source"]:
        raise _SkipRowError("pipeline schedule not stated")
    stated = _noted(notes, r"VP=(\d+)") or _noted(notes, r"interleave (\d+)")
    if stated is None and "interleave: 175B & 530B" in notes:
        stated = 3.0
    if stated is None and "Interleaved" in notes:
        stated = 2.0
    return max(min(stated or 1.0, model.n_layers / float(layout.pp)), 1.0)


def _recompute(row: Mapping[str, str], model: Model) -> str:
    stated = (row.get("recompute") or "").lower()
    if stated.startswith(("full", "recompute", "offload")):
        return "full"
    if stated.startswith("selective"):
        return "selective"
    if "AutoModel" in row["source"] and model.hidden_size >= 8192:
        return "full"
    return "none"


def _stack(row: Mapping[str, str], notes: str, model: Model) -> Stack:
    source, precision = row["source"], row["precision"].lower()
    recipe = "block" if "mx" in precision or "nv" in precision else "row" if "rowwise" in precision else "tensor"
    flash2 = "flash_attention_2" in notes or any(name in source for name in ("llm-foundry", "torchtitan"))
    adapters = "LoRA Performance" in notes or re.search(r"lora_rank=\d", notes) or "LoRA" in row["model"]
    fine_tuned = "AutoModel" in source and _kind(model) == "dense"
    return Stack(
        recipe=recipe,
        attention="flash2" if flash2 else "best",
        compiled="eager" not in notes,
        graphs="_cg" in notes,
        hidden_tensor_parallel="async tp" in notes.lower().replace("asynctp", "async tp"),
        trained_fraction=0.01 if adapters or fine_tuned else 1.0,
        mtp_layers=model.n_mtp_layers if "Megatron-Bridge" in source and "w/o mtp" not in row["model"].lower() else 0,
        in_calibration=True,
    )


def _precision(row: Mapping[str, str]) -> Precision:
    text = row["precision"].lower()
    if not text and "Megatron-Bridge" not in row["source"]:
        raise _SkipRowError("precision not stated")
    name = "fp4" if "fp4" in text else "fp8" if "fp8" in text or "float8" in text or not text else "bf16"
    return Precision(attention=name, dense=name, experts=name)


def _step_s(run: TrainingRun, row: Mapping[str, str], tokens: float, n_gpus: float) -> float:
    value = float(row["value"])
    metric, unit = row["metric"], row["unit"]
    if metric == "step_time":
        return value / (KILO if unit.startswith("ms") else 1.0)
    if metric == "tokens_per_s_per_gpu":
        return tokens / value / n_gpus
    if metric == "tokens_per_s_total":
        if "prime-rl" in row["source"]:
            raise _SkipRowError("throughput contradicts the source's own step time")
        return tokens / value
    return tokens * _counted_flop_per_token(run) / (_rate(run, row, value) * n_gpus)


def _rate(run: TrainingRun, row: Mapping[str, str], value: float) -> float:
    """FLOP/s per GPU that a TFLOP/s or utilisation figure means."""
    if row["metric"] == "TFLOPs_per_gpu":
        return value * TERA
    if "prime-rl" in row["source"]:
        raise _SkipRowError("utilisation contradicts the source's own step time")
    share = value / 100 if row["unit"] == "%" else value
    return share * run.system.accelerator.peak_flop_per_s["bf16"].value


def _counted_flop_per_token(run: TrainingRun) -> float:
    """FLOP per token as the row's source counts them.

    Megatron papers, llm-foundry and NeMo's long sequences count attention in full instead of causal; Narayanan's rows
    and every HFU count recomputation.
    """
    source = run.row["source"]
    model = replace(run.model, layers=run.model.layers)
    flop = float(training_flop_per_token(model, run.sequence_tokens))
    full = ("Narayanan", "Korthikanti", "MegaScale", "llm-foundry", "long-sequence", "Megatron-Core")
    if any(name in source for name in full):
        width = sum(
            group.count * group.attention.n_query_heads * (group.attention.qk_head_dim + group.attention.v_head_dim)
            for group in model.layers
        )
        flop += 3 * width * run.sequence_tokens
    if "Narayanan" in source:
        head = 6 * model.vocab_size * model.hidden_size
        flop = head + (flop - head) * 4 / 3
    return flop
