"""What each source of training measurements states in its own words, read into one configuration.

What a source's whole table means without saying so per row (its attention kernel, its sharding, its releases' kernels)
is written here once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.schema import System
from computeledger.physics.attention import mixer_of
from computeledger.physics.calibration.training import framework_ratio
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.training.batch import BY_OPERATION, GRADIENT_BYTES, Stack
from computeledger.physics.training.memory import is_accounted
from computeledger.validation.training.named import DEVICES, SkippedRunError, named_model, named_system
from computeledger.workloads.frameworks import USUAL_STACK, Framework, framework_ids, load_framework, named_framework

#: MaxText's recipes by chip and billions of parameters: sequences per chip, tensor parallelism, recomputation.
MAXTEXT = {
    ("v5e", "16b"): (6, 1, "full"),
    ("v5e", "32b"): (4, 1, "full"),
    ("v5e", "64b"): (2, 1, "full"),
    ("v5e", "128b"): (1, 16, "selective"),
    ("v5p", "64b"): (3, 4, "selective"),
    ("v5p", "128b"): (1, 8, "selective"),
    ("v5p", "256b"): (1, 8, "selective"),
    ("v5p", "512b"): (2, 8, "full"),
    ("v5p", "1024b"): (2, 8, "full"),
}
MAXTEXT_SEQUENCE_TOKENS = 2048
#: Words of sources that are tables of a vendor's own tuned runs.
RECIPES = ("nvidia", "nemo", "mlperf", "dgx", "recipes", "google", "modelzoo", "narayanan", "korthikanti")
#: Sources whose software kept the scores of attention in HBM: Megatron-LM before it used FlashAttention.
UNFUSED = ("Narayanan", "Korthikanti", "(Megatron-LM)", "BigScience")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A measured configuration."""

    row: Mapping[str, str]
    model: Model
    system: System
    framework: Framework
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
    beside_bytes: float = 0.0

    @property
    def is_accounted(self) -> bool:
        """Whether its stack is one whose memory the account was made for: Megatron's, with all of it stated."""
        return is_accounted(self.sharded_weights, self.stack)


def describe_run(stated: Mapping[str, str]) -> TrainingRun:
    """Read one configuration, whatever was measured of it.

    Examples
    --------
    >>> describe_run({"source": "x", "model": "nobody"})
    Traceback (most recent call last):
    computeledger.validation.training.named.SkippedRunError: model not known
    """
    row = _with_recipe(stated)
    notes = row.get("notes") or ""
    model = named_model(row)
    system = named_system(row, notes)
    framework = framework_of(row)
    sequence = _positive(row, "seq_len")
    if _positive(row, "n_gpus") is None or sequence is None:
        raise SkippedRunError("GPUs or sequence length not stated")
    layout, sharded = _layout(row, notes, system, framework)
    micro = _microbatch(row, layout, framework)
    tokens, micro = _batch(row, notes, (layout, sequence, micro), framework)
    return TrainingRun(
        row={**stated, "model_kind": _kind(model), "chip": system.accelerator.id, "framework": framework.id},
        model=model,
        system=system,
        framework=framework,
        precision=_precision(row),
        layout=layout,
        sequence_tokens=sequence,
        global_sequences=tokens / sequence,
        microbatch_sequences=micro,
        virtual_stages=_virtual_stages(notes, (model, layout), framework),
        recompute=_recompute(row, model),
        sharded_weights=sharded,
        stack=_stack(row, notes, (model, system), framework),
        step_s=np.nan,
        memory_bytes=np.nan,
    )


def framework_of(row: Mapping[str, str]) -> Framework:
    """Find the framework of a row: as it states it, as its source or note names it, else the generic one.

    Examples
    --------
    >>> framework_of({"source": "A table of XTuner", "notes": "Pai-Megatron-Patch"}).id
    'megatron-lm'
    """
    stated = (row.get("framework") or "").strip().lower()
    if stated in framework_ids():
        return load_framework(stated)
    for text in (stated, " ".join((row["source"], row.get("notes") or "")), row.get("url") or ""):
        if (found := named_framework(text)).id != USUAL_STACK:
            return found
    return load_framework(USUAL_STACK)


def release_of(row: Mapping[str, str]) -> float | None:
    """Read the release of a container in a row's notes.

    Examples
    --------
    >>> release_of({"notes": "section: 26.06.01 NeMo Container"})
    26.06
    """
    return _noted(row.get("notes") or "", r"section: (\d+\.\d+)")


def _with_recipe(row: Mapping[str, str]) -> Mapping[str, str]:
    """MaxText's table names its recipes and leaves their contents to the recipes themselves."""
    size = row["model"].lower().removeprefix("maxtext ")
    if "MaxText" not in row["source"] or _positive(row, "seq_len") or size == row["model"].lower():
        return row
    chip = "v5e" if "v5e" in row["hardware"] else "v5p"
    if (chip, size) not in MAXTEXT:
        raise SkippedRunError("recipe not known")
    sequences, tp, recompute = MAXTEXT[chip, size]
    tokens = sequences * MAXTEXT_SEQUENCE_TOKENS * (_positive(row, "n_gpus") or 0.0)
    degrees = {"tp": str(tp), "pp": "1", "cp": "1", "ep": "", "micro_batch": str(sequences * tp)}
    batch = {"seq_len": str(MAXTEXT_SEQUENCE_TOKENS), "global_batch_tokens": str(tokens), "recompute": recompute}
    return {**row, **degrees, **batch}


def _kind(model: Model) -> str:
    return "moe" if model.is_moe else "dense"


def _positive(row: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if np.isfinite(value) and value > 0 else None


def _noted(notes: str, pattern: str) -> float | None:
    found = re.search(pattern, notes)
    return float(found[1]) if found else None


def _layout(row: Mapping[str, str], notes: str, system: System, framework: Framework) -> tuple[Layout, bool]:
    """Degrees, and whether weights are sharded over data-parallel ranks.

    Degrees may count the cores or dies that software takes for devices; they are brought to whole chips.
    """
    source, n_gpus = row["source"], int(_positive(row, "n_gpus") or 1)
    sharded = _sharded(row, notes, framework)
    stated = {name: _positive(row, name) for name in ("tp", "pp", "cp", "ep", "dp")}
    if not stated["tp"] and not sharded and stated["dp"] != n_gpus:
        raise SkippedRunError("parallel split not stated")
    tp, pp, cp, ep = (int(stated[name] or 1) for name in ("tp", "pp", "cp", "ep"))
    if "AutoModel" in source:
        ep = n_gpus if not stated["ep"] else ep
    devices = DEVICES.get(system.accelerator.id, 1)
    if devices > 1 and tp * pp * cp * int(stated["dp"] or 1) == devices * n_gpus:
        shared = min(devices, tp)
        tp, cp = tp // shared, max(cp // (devices // shared), 1)
    if n_gpus % (tp * pp):
        raise SkippedRunError("parallel split does not divide the GPUs")
    if "long-sequence" in source:
        # the table's split covers the GPUs only with more context parallelism than it prints
        sequences = _noted(notes, r"GBS=(\d+)") or 1.0
        cp = max(cp, int(n_gpus // (tp * pp * min(sequences, n_gpus // (tp * pp * cp)))))
    dp = max(n_gpus // (tp * pp * cp), 1)
    return Layout(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep), sharded


def _sharded(row: Mapping[str, str], notes: str, framework: Framework) -> bool:
    """Whether a row shards its weights: as it says, else as its framework does without a pipeline."""
    said = f"{notes}; {row.get('note') or ''}"
    if re.search(r"FULL_SHARD|zero-?3|\bhsdp\b|FSDP over", said, re.IGNORECASE) or said.startswith("FSDP"):
        return True
    if re.search(r"zero-?[12]\b|\bddp\b|NO_SHARD", said, re.IGNORECASE):
        return False
    noted = _noted(notes, r"FSDP=(\d+)")
    return (noted or 0) > 1 or framework.shards_weights


def _microbatch(row: Mapping[str, str], layout: Layout, framework: Framework) -> float | None:
    """Sequences of a microbatch, where the row states them; a share of one is that of a context-parallel rank."""
    if framework.id == "torchtitan" and layout.pp > 1 and "microbatch by default" not in (row.get("notes") or ""):
        return 1.0
    stated = _positive(row, "micro_batch")
    return None if stated is None else stated * (float(layout.cp) if stated < 1 else 1.0)


def _batch(
    row: Mapping[str, str], notes: str, shape: tuple[Layout, float, float | None], framework: Framework
) -> tuple[float, float]:
    """Tokens of a step, and sequences of a microbatch.

    Frameworks that do not accumulate pass all sequences of a rank at once, or as many as fill 16,384 tokens.
    """
    layout, sequence, micro = shape
    stated = _positive(row, "global_batch_tokens")
    pieces = _noted(notes, r"micro_batches=(\d+)") or _noted(notes, r"micro_num (\d+)")
    unknown = micro is None or (framework.accumulates and row.get("metric") == "step_time")
    if stated is None and pieces is None and unknown:
        raise SkippedRunError("global batch not stated")
    if stated is None:
        stated = (pieces or (1.0 if layout.pp == 1 else 8.0 * float(layout.pp))) * (micro or 1.0) * sequence
        stated *= float(layout.dp)
    each = stated / sequence / float(layout.dp)
    if each < 0.5:
        raise SkippedRunError("global batch does not divide over the ranks")
    if not framework.accumulates and layout.pp == 1:
        if framework.id == "maxtext":
            return stated, max(each, 1.0)
        return stated, micro or max(min(each, MICROBATCH_TOKENS / sequence), 1.0)
    return stated, micro or 1.0


#: Tokens of a microbatch where nobody states it and ranks do not accumulate (assumption).
MICROBATCH_TOKENS = 16_384


def _virtual_stages(notes: str, shape: tuple[Model, Layout], framework: Framework) -> float:
    """Chunks of a stage: as stated, else as many as the framework's chunks of a few layers make."""
    model, layout = shape
    if layout.pp == 1:
        return 1.0
    stated = _noted(notes, r"VP=(\d+)") or _noted(notes, r"interleave (\d+)")
    if stated is None and "interleave: 175B & 530B" in notes:
        stated = 3.0
    if stated is None and "Interleaved" in notes:
        stated = 2.0
    layers = model.n_layers / float(layout.pp)
    if stated is None and framework.chunk_layers and "VP=n/a" not in notes:
        stated = np.floor(layers / framework.chunk_layers)
    return max(min(stated or 1.0, layers), 1.0)


def _recompute(row: Mapping[str, str], model: Model) -> str:
    stated = (row.get("recompute") or "").lower()
    if stated == BY_OPERATION.replace("-", " ") or stated == BY_OPERATION:
        return BY_OPERATION
    if stated.startswith(("full", "recompute", "offload", "custom", "qkv_proj", "block", "true", "yes", "moe")):
        return "full"
    if "norm" in (row.get("note") or "") and stated == "select":
        return "layernorm,moe_act"
    if stated.startswith("sel"):
        return "selective"
    if "(Megatron-LM)" in row["source"]:
        return "selective"
    if "AutoModel" in row["source"] and model.hidden_size >= 8192:
        return "full"
    return "none"


def _stack(row: Mapping[str, str], notes: str, what: tuple[Model, System], framework: Framework) -> Stack:
    """The framework's software, and what the row or its source says otherwise."""
    (model, system), source, precision = what, row["source"], (row.get("precision") or "").lower()
    recipe = "block" if "mx" in precision or "nv" in precision else "row" if "rowwise" in precision else "tensor"
    said = "flash2" if "flash_attention_2" in notes else "best" if "flash_attention_3" in notes else None
    unfused = any(name in source for name in UNFUSED)
    adapters = "LoRA Performance" in notes or re.search(r"lora_rank=\d", notes) or "LoRA" in row["model"]
    fine_tuned = "AutoModel" in source and _kind(model) == "dense"
    return replace(
        framework.stack,
        recipe=recipe,
        attention="unfused" if unfused else said or framework.stack.attention,
        compiled=framework.stack.compiled and "eager" not in notes,
        fused_loss=framework.stack.fused_loss and not re.search(r"eager|loss not compiled", notes),
        fused_experts=_fused_experts(notes, model, system),
        graphs=framework.stack.graphs or "_cg" in notes or _graphs(source, model, system),
        hidden_tensor_parallel="async tp" in notes.lower().replace("asynctp", "async tp"),
        trained_fraction=0.01 if adapters or fine_tuned else 1.0,
        mtp_layers=model.n_mtp_layers if "Megatron-Bridge" in source and "w/o mtp" not in row["model"].lower() else 0,
        gradient_bytes=_gradient_bytes(source, notes, framework),
        imbalance=_capacity(f"{notes}; {row.get('note') or ''}"),
        time_ratio=framework_ratio(framework.id),
        tuning="recipe" if any(word in source.lower() for word in RECIPES) else "usual",
    )


def _capacity(said: str) -> float:
    """Slots of the busiest expert over the mean's tokens: a capacity factor pads every expert to it."""
    return _noted(said, r"capacity factor (\d+(?:\.\d+)?)") or 1.0


def _gradient_bytes(source: str, notes: str, framework: Framework) -> Num:
    """As the framework has them; BLOOM's last runs kept fp32 beside DeepSpeed's 16 bits."""
    beside = GRADIENT_BYTES if "BigScience" in source and "accumulated in fp32" in notes else 0.0
    return framework.stack.gradient_bytes + beside


def _graphs(source: str, model: Model, system: System) -> bool:
    """Megatron-Bridge's recipes for NVL72 systems capture graphs of models whose layers are alike."""
    alike = all(mixer_of(group.attention).attends for group in model.layers)
    return "Megatron-Bridge" in source and alike and system.n_gpus_scale_up.value > 8


def _fused_experts(notes: str, model: Model, system: System) -> bool:
    """Megatron-Bridge's recipes for NVL72 systems fuse experts with a plain SwiGLU from container 26.06 on."""
    release = release_of({"notes": notes})
    gated = "gpt-oss" not in model.id and any(
        group.feed_forward.n_experts and group.feed_forward.n_matrices == 3 for group in model.layers
    )
    return gated and (release or 0) >= 26.06 and system.n_gpus_scale_up.value > 8


def _precision(row: Mapping[str, str]) -> Precision:
    text = (row.get("precision") or "").lower()
    if not text:
        # Megatron-Bridge's table of 25.09 leaves it out where it ran fp8; others mean 16 bits
        text = "fp8" if "Megatron-Bridge" in row["source"] else "bf16"
    text = "bf16" if "not stated" in text else text.replace("float8", "fp8")
    name = next((one for one in ("int8", "fp4", "fp8") if one in text), "bf16")
    return Precision(attention=name, dense=name, experts=name)
