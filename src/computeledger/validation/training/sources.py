"""What each source of training measurements states in its own words, read into one configuration.

What a source's whole table means without saying so per row (its attention kernel, its sharding, its releases' kernels)
is written here once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Model, truncated
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_accelerator, load_model, load_system, system_named_in
from computeledger.facts.schema import System
from computeledger.physics.attention import mixer_of
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.training.batch import GRADIENT_BYTES, Stack
from computeledger.units import TERA

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
#: Sources whose software kept the scores of attention in HBM: Megatron-LM before it used FlashAttention.
UNFUSED = ("Narayanan", "Korthikanti", "(Megatron-LM)", "BigScience")
#: Sources whose loss is made of PyTorch's single operations.
UNFUSED_LOSS = ("torchtitan", "BigScience", "InternEvo")
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
    "gpt-3 175b": "megatron-gpt-175b",
    "internlm 7b": "internlm-7b",
    "internlm 20b": "internlm-20b",
    "nemotron-4 340b": "nemotron-4-340b-base",
    "nemotron-4 15b": "nemotron-4-15b",
    "grok-1": "grok-1",
    "llama 4 maverick": "llama-4-maverick-17b-128e",
    "llama 4 scout": "llama-4-scout-17b-16e",
    "llama 3 70b": "meta-llama/Meta-Llama-3-70B",
    "llama 3 8b": "meta-llama/Meta-Llama-3-8B",
    "llama 2 7b": "meta-llama/Llama-2-7b-hf",
    "llama 2 13b": "meta-llama/Llama-2-13b-hf",
    "llama 2 70b": "meta-llama/Llama-2-70b-hf",
    "mistral 7b": "mistralai/Mistral-7B-v0.3",
    "bloom-176b": "bigscience/bloom",
}


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A measured configuration."""

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
    beside_bytes: float = 0.0

    @property
    def is_accounted(self) -> bool:
        """Whether its stack is one whose memory the account was made for: Megatron's, with all of it stated."""
        return not self.sharded_weights and self.stack.sequence_parallel and self.stack.fused_loss


class SkippedRunError(ComputeLedgerError):
    """A configuration that cannot be predicted; its text is the reason."""


def describe_run(stated: Mapping[str, str]) -> TrainingRun:
    """Read one configuration, whatever was measured of it.

    Examples
    --------
    >>> describe_run({"source": "x", "model": "nobody"})
    Traceback (most recent call last):
    computeledger.validation.training.sources.SkippedRunError: model not known
    """
    row = _with_recipe(stated)
    notes = row.get("notes") or ""
    model = _model(row)
    system = _system(row, notes)
    n_gpus, sequence = _positive(row, "n_gpus"), _positive(row, "seq_len")
    if n_gpus is None or sequence is None:
        raise SkippedRunError("GPUs or sequence length not stated")
    layout, sharded = _layout(row, notes, int(n_gpus))
    micro = _microbatch(row, layout)
    return TrainingRun(
        row={**stated, "model_kind": _kind(model), "chip": system.accelerator.id},
        model=model,
        system=system,
        precision=_precision(row),
        layout=layout,
        sequence_tokens=sequence,
        global_sequences=_global_tokens(row, notes, layout, sequence, micro) / sequence,
        microbatch_sequences=micro,
        virtual_stages=_virtual_stages(row, notes, model, layout),
        recompute=_recompute(row, model),
        sharded_weights=sharded,
        stack=_stack(row, notes, model, system),
        step_s=np.nan,
        memory_bytes=np.nan,
    )


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
    if "MaxText" not in row["source"]:
        return row
    size = row["model"].lower().removeprefix("maxtext ")
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


#: A shape that a row states in its own words.
_STATED = re.compile(r"bloom-like .*\(d=(?P<hidden>\d+), l=(?P<layers>\d+), (?P<heads>\d+) heads\)")


def _model(row: Mapping[str, str]) -> Model:
    name = row["model"].strip().lower()
    if "lora" in name:
        raise SkippedRunError("adapters whose rank is not stated")
    if (stated := _STATED.fullmatch(name)) is not None:
        return _bloom_like(stated)
    wanted = next((model for word, model in MODELS.items() if word in name), None)
    if name.startswith("mpt-"):
        wanted = f"mosaicml/{name}"
    if name.startswith("maxtext "):
        wanted = f"google/{name.replace(' ', '-')}"
    try:
        model = load_model(wanted or row["model"].strip())
    except ComputeLedgerError:
        raise SkippedRunError("model not known") from None
    cut = re.search(r"truncated to (\d+) layers", name)
    return truncated(model, int(cut[1])) if cut else model


def _bloom_like(stated: re.Match[str]) -> Model:
    """BLOOM with other widths: layers, heads and hidden size as a row states them."""
    vocabulary = load_model("bigscience/bloom").vocab_size
    hidden, layers, heads = (int(stated[name]) for name in ("hidden", "layers", "heads"))
    fields = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return parse_config({"model_type": "bloom", "vocab_size": vocabulary, **fields}, stated[0])


def _system(row: Mapping[str, str], notes: str) -> System:
    text = row["hardware"].lower()
    if "placeholder" in text or not text:
        named = re.search(r"config_\w+|system: [\w-]+", notes, re.IGNORECASE)
        text = named[0].lower() if named else text
    if "prime-rl" in row["source"] and "b200" in text:
        raise SkippedRunError("the source's software had no kernels for the chip yet")
    found = "8xa800-sxm4-80gb" if "a800" in text else system_named_in(text)
    if found is None:
        raise SkippedRunError("system not known")
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
        or ("InternEvo" in source and notes.startswith("FSDP"))
        or any(name in source for name in ("torchtitan", "prime-rl", "AutoModel", "MaxText"))
    )
    stated = {name: _positive(row, name) for name in ("tp", "pp", "cp", "ep")}
    if "prime-rl" in source:
        stated = {"tp": 1.0, "pp": 1.0, **{k: v for k, v in stated.items() if v}}
    if not stated.get("tp") or not stated.get("pp"):
        raise SkippedRunError("parallel split not stated")
    tp, pp = int(stated["tp"] or 1), int(stated["pp"] or 1)
    cp, ep = int(stated.get("cp") or 1), int(stated.get("ep") or 1)
    if "AutoModel" in source:
        ep = n_gpus if not _positive(row, "ep") else ep
    if n_gpus % (tp * pp):
        raise SkippedRunError("parallel split does not divide the GPUs")
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
    pieces = _noted(notes, r"micro_batches=(\d+)") or _noted(notes, r"micro_num (\d+)")
    if stated is None and pieces is None:
        raise SkippedRunError("global batch not stated")
    tokens = stated or (pieces or 1.0) * micro * sequence * float(layout.dp)
    if tokens / sequence < 0.5 * float(layout.dp):
        raise SkippedRunError("global batch does not divide over the ranks")
    return tokens


def _virtual_stages(row: Mapping[str, str], notes: str, model: Model, layout: Layout) -> float:
    if layout.pp == 1:
        return 1.0
    if "Llama 3 herd" in row["source"]:
        raise SkippedRunError("pipeline schedule not stated")
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
    if "(Megatron-LM)" in row["source"]:
        return "selective"
    if "AutoModel" in row["source"] and model.hidden_size >= 8192:
        return "full"
    return "none"


def _stack(row: Mapping[str, str], notes: str, model: Model, system: System) -> Stack:
    source, precision = row["source"], row["precision"].lower()
    recipe = "block" if "mx" in precision or "nv" in precision else "row" if "rowwise" in precision else "tensor"
    flash2 = "flash_attention_2" in notes or any(name in source for name in ("llm-foundry", "torchtitan"))
    unfused = any(name in source for name in UNFUSED)
    adapters = "LoRA Performance" in notes or re.search(r"lora_rank=\d", notes) or "LoRA" in row["model"]
    fine_tuned = "AutoModel" in source and _kind(model) == "dense"
    return Stack(
        recipe=recipe,
        attention="flash2" if flash2 else "unfused" if unfused else "best",
        compiled="eager" not in notes,
        fused_experts=_fused_experts(notes, model, system),
        graphs="_cg" in notes or "MaxText" in source or _graphs(source, model, system),
        hidden_tensor_parallel="async tp" in notes.lower().replace("asynctp", "async tp"),
        trained_fraction=0.01 if adapters or fine_tuned else 1.0,
        mtp_layers=model.n_mtp_layers if "Megatron-Bridge" in source and "w/o mtp" not in row["model"].lower() else 0,
        residual_streams=4.0 if "DeepSeek-V4" in model.id else 1.0,
        gradient_bytes=_gradient_bytes(source, notes),
        sequence_parallel="BigScience" not in source and "InternEvo" not in source,
        fused_loss=not any(name in source for name in UNFUSED_LOSS),
        in_calibration=True,
    )


def _gradient_bytes(source: str, notes: str) -> float:
    """fp32, but DeepSpeed's fp16 gradients, beside which BLOOM's last runs kept fp32."""
    if "BigScience" in source:
        return 2.0 + (GRADIENT_BYTES if "accumulated in fp32" in notes else 0.0)
    return GRADIENT_BYTES


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
    text = row["precision"].lower()
    if not text and "Megatron-Bridge" not in row["source"]:
        raise SkippedRunError("precision not stated")
    name = "fp4" if "fp4" in text else "fp8" if "fp8" in text or "float8" in text or not text else "bf16"
    return Precision(attention=name, dense=name, experts=name)
