"""TensorRT-LLM.

Arguments as ``trtllm-serve`` documents them (November 2026). Speculation was read in
``docs/source/features/speculative-decoding.md`` (commit 04c8822) and in pull request 12341, which renamed MTP's field.
"""

from __future__ import annotations

from computeledger.fields import Given
from computeledger.physics.parallelism import Layout
from computeledger.workloads.engines.engine import Engine, Launch, shell
from computeledger.workloads.engines.flags import Stated, Understood, flags_of


def _refusal(layout: Layout) -> str | None:
    if layout.dp > 1 and layout.tp > 1:
        return "attention data parallelism there takes every GPU of the stage (tp1), not groups of tensor parallelism"
    return None


def _told(one: Launch) -> dict[str, str]:
    """What a launch tells it, by the words of its table of flags; keys of its file of settings go into one."""
    layout = one.layout
    told = {"attention_dp": _yes(int(layout.dp) > 1), "chunked": "true", "kv": "fp8" if one.kv == "fp8" else "auto"}
    told |= {"reuse": _yes(not one.no_prefix_cache), "share": f"{one.cache_fraction:g}"}
    told |= {"tp": str(layout.n_gpus_per_stage), "pp": str(layout.pp), "ep": str(layout.ep)}
    told |= {"batch": str(one.per_rank), "chunk": str(one.chunk_tokens), "context": str(one.context_tokens)}
    told["settings"] = f"{one.role}.yaml" if one.role else "serving.yaml"
    told |= {"graphs": "null"} if one.eager else {}
    if one.role:
        told |= {"transfer": "DEFAULT"} | ({"no_overlap": "true"} if one.role == "prefill" else {})
    if one.drafts:
        told |= {"algorithm": "MTP" if one.is_drafted_by_mtp else "Eagle3", "drafts": str(one.drafts)}
        told |= {} if one.is_drafted_by_mtp else {"drafter": "$DRAFT_MODEL"}
    return told


def _yes(is_on: bool) -> str:
    return "true" if is_on else "false"


def _commands(one: Launch) -> list[str]:
    written = flags_of("trtllm").written(_told(one))
    options = [text for text in written if text.startswith("--")]
    pairs = [text.partition(" ")[::2] for text in written if not text.startswith("--")]
    settings: list[str] = []
    for key, value in pairs:
        above, _, last = key.rpartition(".")
        settings += [f"{above}:"] if above and not any(line == f"{above}:" for line in settings) else []
        settings.append(f"{'  ' if above else ''}{last}: {value}")
    notes = ["# --tp_size counts all GPUs of a stage; the batch is per attention rank"] if one.layout.dp > 1 else []
    if one.role:
        notes.append("# trtllm-serve disaggregated -c FILE joins the servers: FILE lists their addresses")
    if one.drafts and one.is_drafted_by_mtp:
        notes.append("# TensorRT-LLM before March 2026 calls max_draft_len of MTP num_nextn_predict_layers")
    end = "END" if one.drafts and not one.is_drafted_by_mtp else "'END'"  # the variable is filled in
    file = [f"cat > {_told(one)['settings']} <<{end}", *settings, "END"]
    return [*notes, *file, *shell(f"trtllm-serve {one.model}", options)]


#: What starts a worker of one of two pools.
_ROLES = {"context": "prefill", "generation": "decode"}


def _read(stated: Stated) -> Understood:
    stage = stated.whole("tp")
    dp = stage if stated.on("attention_dp") else 1
    layout = Layout(tp=stage // dp, pp=stated.whole("pp"), dp=dp, ep=stated.whole("ep"))
    found: dict[str, Given] = {"layout": str(layout), "memory_fraction": stated.share("share")}
    found["max_batch"] = stated.whole("batch") * dp if "batch" in stated else None
    found["context_tokens"] = stated.whole("context") if "context" in stated else None
    found["chunk_tokens"] = stated.whole("chunk") if "chunk" in stated else None
    found["eager"] = stated.text("graphs", "on").lower() in ("null", "~", "none", "") or None
    found["no_prefix_cache"] = None if stated.on("reuse") in (None, True) else True
    kv = stated.text("kv", "auto")
    found["kv_precision"] = "fp8" if kv.startswith("fp8") else None
    left = ["kv"] if not kv.startswith(("fp8", "auto", "bf", "float16")) else []
    is_chain = stated.text("algorithm") in ("MTP", "Eagle3", "Eagle") and "drafts" in stated
    found["draft_tokens"] = stated.whole("drafts") if is_chain else None
    left += ["algorithm"] if "algorithm" in stated and not is_chain else []
    return Understood(found, role=_ROLES.get(stated.text("role").lower(), ""), left=left)


ENGINE = Engine(
    "trtllm",
    makers=("NVIDIA",),
    names=("tensorrt", "trt-llm", "trtllm"),
    scheduler="trtllm",
    has_narrow_cache=True,
    memory_share="free_gpu_memory_fraction: the cache's share of the memory that weights and workspace leave",
    quantises_on_loading=False,
    refusal=_refusal,
    commands=_commands,
    reading=_read,
)
