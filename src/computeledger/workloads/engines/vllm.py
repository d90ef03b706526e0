"""vLLM.

Arguments as its engine arguments and data-parallel deployment are documented (November 2026).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from computeledger.facts.architecture import DATA
from computeledger.fields import Given
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.buffers import Buffers
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.units import GIB, GIGA
from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell
from computeledger.workloads.engines.flags import Stated, Understood, flags_of


def _told(one: Launch) -> dict[str, str]:
    """What a launch tells it, by the words of its table of flags."""
    layout, told = one.layout, {"tp": str(one.layout.tp)}
    told |= {name: str(degree) for name, degree in (("pp", layout.pp), ("dp", layout.dp)) if degree > 1}
    told |= {"experts": ""} if layout.ep > 1 else {}
    told |= {"batch": str(one.per_rank), "context": str(one.context_tokens), "chunk": str(one.chunk_tokens)}
    told |= {"share": f"{one.whole_fraction:.2f}"}
    told |= {"host_gb": f"{one.host_weights_bytes / GIGA:.0f}"} if one.host_weights_bytes else {}
    told |= {"quantization": "fp8"} if one.online_fp8 else {}
    told |= {"kv": "fp8"} if one.kv == "fp8" else {}
    switches = {"prefix_cache": one.cached, "no_prefix_cache": one.no_prefix_cache, "eager": one.eager}
    told |= {word: "" for word, is_on in switches.items() if is_on}
    if one.drafts:
        said = json.dumps({**_drafter(one), "num_speculative_tokens": one.drafts}, separators=(",", ":"))
        told["speculation"] = "'" + said.replace('\\"', '"') + "'"
    told |= {"encoder": "data"} if one.image_encoder == DATA else {}
    if one.adapters:
        told |= {"lora": "", "max_loras": str(one.max_loras), "lora_rank": str(one.lora_rank)}
        told |= {"cpu_loras": str(one.adapters)} if one.adapters > one.max_loras else {}
    if one.role:
        told["transfer"] = '\'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''
    return told


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    notes = ["# --max-num-seqs is per data-parallel rank"] if layout.dp > 1 else []
    spread = "--data-parallel-size-local, --data-parallel-start-rank, --data-parallel-address, --headless"
    notes += on_several_hosts(layout, spread if layout.dp > 1 else "--nnodes, --node-rank and --master-addr")
    notes += ["# name the adapters: --lora-modules NAME=PATH ..."] if one.adapters else []
    return [*notes, *shell(f"vllm serve {one.model}", flags_of("vllm").written(_told(one)))]


#: Words of a connector's table by the pool that it makes of a worker; workers that are both say nothing of it.
_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode"}


def _read(stated: Stated) -> Understood:
    tp, pp, dp = (stated.whole(word) for word in ("tp", "pp", "dp"))
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=tp * dp if stated.on("experts") else 1)
    found: dict[str, Given] = {"layout": str(layout), "memory_fraction": stated.share("share")}
    found["max_batch"] = stated.whole("batch") * dp if "batch" in stated else None
    context = stated.text("context") not in ("auto", "-1", "")
    found["context_tokens"] = stated.whole("context") if context else None
    found["chunk_tokens"] = stated.whole("chunk") if "chunk" in stated else None
    found |= {"eager": stated.on("eager"), "no_prefix_cache": stated.on("no_prefix_cache")}
    found["two_batches"] = stated.on("two_batches")
    left = [word for word in ("host_gb",) if stated.text(word, "0") != "0"]
    kv = stated.text("kv", "auto")
    found["kv_precision"] = "fp8" if kv.startswith("fp8") else None
    left += ["kv"] if not kv.startswith(("fp8", "auto", "bfloat16", "float16")) else []
    copies = stated.table("balance").get("num_redundant_experts", stated.text("redundant", "0"))
    found["redundant_experts"] = int(copies) if str(copies).isdigit() and str(copies) != "0" else None
    drafts = stated.table("speculation").get("num_speculative_tokens")
    found["draft_tokens"] = drafts if isinstance(drafts, int) and drafts > 0 else None
    left += ["speculation"] if "speculation" in stated and found["draft_tokens"] is None else []
    is_spread = stated.text("encoder", "weights") == "data" or stated.on("encoder_data")
    found["image_encoder"] = DATA if is_spread else None
    found |= _adapters(stated)
    left += [word for word in ("max_loras", "lora_rank", "cpu_loras") if word in stated and not stated.on("lora")]
    transfer = stated.table("transfer")
    role = _ROLES.get(str(transfer.get("kv_role")), "")
    left += ["transfer"] if transfer and not role else []
    return Understood(found, stated.text("quantization"), role, left=left)


def _adapters(stated: Stated) -> dict[str, Given]:
    """Adapters: as many as host memory keeps, at most so many at once; its own defaults are one, of rank 16."""
    if not stated.on("lora"):
        return {}
    slots = stated.whole("max_loras")
    return {
        "adapters": stated.whole("cpu_loras", slots), "max_loras": slots, "lora_rank": stated.whole("lora_rank", 16),
    }  # fmt: skip


def _drafter(one: Launch) -> dict[str, str | int]:
    """What drafts, as ``--speculative-config`` names it; n-grams of two to five tokens, as vLLM's own tests look up."""
    if one.is_drafted_by_mtp:
        return {"method": "mtp"}
    if one.draft_method == "ngram":
        return {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}
    if one.draft_method == "draft":
        return {"method": "draft_model", "model": one.draft_model}
    return {"method": one.draft_method, "model": "'\"$DRAFT_MODEL\"'"}


#: Of version 0.18 and later, fitted to 61 start-up logs of 0.19.0 (28 models on H100; the shares of what stays are in
#: ``docs/validation.md``). The share of memory is its default (0.9 before 2026). Graphs: residual 0.19 GiB.
VLLM_BUFFERS = Buffers(
    chunk_tokens=CHUNK_TOKENS,
    workspace_bytes=0.25 * GIB,
    cache_fraction=1.0,
    whole_fraction=0.92,
    group_bytes=1.85 * GIB,
    graph_bytes=0.47 * GIB,
    graph_bytes_per_layer=0.0146 * GIB,
    logit_bytes=14.7,
    hidden_copies=4.25,
    keeps_expert_buffers=True,
    activations_sd=0.02,
    workspace_sd=0.03,
    graphs_sd=0.15,
)
#: By the first release of each: sampling sorted all logits before 0.17, and libraries and exchange took less before
#: 0.18.
SINCE: Mapping[tuple[int, ...], Buffers] = {
    (0, 18): VLLM_BUFFERS,
    (0, 17): replace(VLLM_BUFFERS, workspace_bytes=0.13 * GIB, group_bytes=0.42 * GIB),
    (0, 9): replace(VLLM_BUFFERS, workspace_bytes=0.13 * GIB, group_bytes=0.42 * GIB, logit_bytes=38.4),
}
ENGINE = Engine(
    "vllm",
    names=("vllm",),
    scheduler="vllm",
    buffers=VLLM_BUFFERS,
    buffers_since=SINCE,
    has_narrow_cache=True,
    memory_share="--gpu-memory-utilization: the share of memory for weights, activations, workspace and cache together",
    commands=_commands,
    reading=_read,
)
