"""SGLang.

Arguments as its server arguments are documented (November 2026).
"""

from __future__ import annotations

from computeledger.facts.architecture import DATA
from computeledger.fields import Given
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.buffers import Buffers
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.units import GIB, MIB
from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell
from computeledger.workloads.engines.flags import Stated, Understood, flags_of


def _told(one: Launch) -> dict[str, str]:
    """What a launch tells it, by the words of its table of flags."""
    layout = one.layout
    told = {"model": one.model, "tp": str(layout.n_gpus_per_stage)}
    told |= {"pp": str(layout.pp)} if layout.pp > 1 else {}
    told |= {"dp": str(layout.dp), "attention_dp": ""} if layout.dp > 1 else {}
    told |= {"ep": str(layout.ep)} if layout.ep > 1 else {}
    told |= {"batch": str(one.per_rank * layout.dp), "context": str(one.context_tokens)}
    told |= {"chunk": str(one.chunk_tokens * layout.dp), "share": f"{one.static_fraction:.2f}"}
    told |= {"quantization": "fp8"} if one.online_fp8 else {}
    told |= {"kv": "fp8_e4m3"} if one.kv == "fp8" else {}
    told |= {"no_prefix_cache": ""} if one.no_prefix_cache else {}
    told |= {"eager": ""} if one.eager else {}
    told |= {"encoder_data": ""} if one.image_encoder == DATA else {}
    if one.adapters:
        told |= {"lora": "", "max_loras": str(one.max_loras), "lora_rank": str(one.lora_rank)}
        told |= {"cpu_loras": str(one.adapters)} if one.adapters > one.max_loras else {}
    if one.drafts:  # a chain: as many steps as drafts, and one token more to verify
        told |= _drafting(one)
    return told | ({"role": one.role} if one.role else {})


def _commands(one: Launch) -> list[str]:
    layout, notes = one.layout, []
    if layout.dp > 1:
        notes.append("# --tp-size counts all GPUs of a stage; requests and chunk are shared by the data-parallel ranks")
    notes += on_several_hosts(layout, "--nnodes, --node-rank and --dist-init-addr")
    notes += ["# name the adapters: --lora-paths NAME=PATH ..."] if one.adapters else []
    return [*notes, *shell("python3 -m sglang.launch_server", flags_of("sglang").written(_told(one)))]


def _read(stated: Stated) -> Understood:
    stage, dp = stated.whole("tp"), stated.whole("dp")
    shared = dp if stated.on("attention_dp") else 1  # otherwise they are replicas behind one address
    if stage % shared:
        raise stated.wrong("tp", f"a multiple of the {shared} data-parallel ranks that share attention")
    layout = Layout(tp=stage // shared, pp=stated.whole("pp"), dp=shared, ep=stated.whole("ep"))
    found: dict[str, Given] = {"layout": str(layout), "memory_fraction": stated.share("share")}
    found["max_batch"] = stated.whole("batch") if "batch" in stated else None
    found["context_tokens"] = stated.whole("context") if "context" in stated else None
    chunked = stated.text("chunk", "-1") != "-1"
    found["chunk_tokens"] = stated.whole("chunk") // shared if chunked else None
    found |= {"eager": stated.on("eager"), "no_prefix_cache": stated.on("no_prefix_cache")}
    found["two_batches"] = stated.on("two_batches")
    found["image_encoder"] = DATA if stated.on("encoder_data") else None
    found["redundant_experts"] = stated.whole("redundant") if stated.text("redundant", "0") != "0" else None
    kv = stated.text("kv", "auto")
    found["kv_precision"] = "fp8" if kv.startswith("fp8") else None
    left = ["kv"] if not kv.startswith(("fp8", "auto", "bf", "float16")) else []
    left += ["chunk"] if "chunk" in stated and not chunked else []
    is_chain = "drafts" in stated and stated.whole("draft_branches") == 1 and stated.whole("drafts") > 1
    found["draft_tokens"] = stated.whole("drafts") - 1 if is_chain else None
    left += ["algorithm"] if "algorithm" in stated and not is_chain else []
    is_ranked = bool(stated.on("lora")) and "lora_rank" in stated  # it takes the rank of the adapters' own files else
    if is_ranked:
        slots = stated.whole("max_loras", _LORAS)
        found |= {"adapters": stated.whole("cpu_loras", slots), "max_loras": slots}
        found["lora_rank"] = stated.whole("lora_rank")
    loras = ("lora", "max_loras", "lora_rank", "cpu_loras")
    left += [word for word in loras if word in stated and not is_ranked]
    role = stated.text("role", "null")
    if role not in ("null", "prefill", "decode"):
        raise stated.wrong("role", "'prefill', 'decode' or 'null'")
    return Understood(found, stated.text("quantization"), role.replace("null", ""), dp // shared, left)


#: Adapters that it takes into a batch where nobody says otherwise (its page on LoRA).
_LORAS = 8
_ALGORITHMS = {"eagle": "EAGLE", "eagle3": "EAGLE3", "ngram": "NGRAM", "draft": "STANDALONE"}


def _drafting(one: Launch) -> dict[str, str]:
    """A chain of drafts, by what drafts."""
    method = "eagle" if one.is_drafted_by_mtp else one.draft_method
    told = {"algorithm": _ALGORITHMS[method]}
    if method != "ngram":
        told |= {} if one.is_drafted_by_mtp else {"drafter": one.draft_model or '"$DRAFT_MODEL"'}
        told |= {"draft_steps": str(one.drafts), "draft_branches": "1"}
    return told | {"drafts": str(one.drafts + 1)}


#: Its own rule keeps 0.5 GiB, 1.5 MiB for each token of a chunk and 2 MiB for each of 512 sequences in graphs free
#: (``server_args.py``, pull request 10975), whatever activations take; an eighth of a GiB for each GPU is
#: left out here. Its share is of what the driver's context leaves (2 %, from one log of 8 H200).
SGLANG_BUFFERS = Buffers(
    chunk_tokens=CHUNK_TOKENS,
    workspace_bytes=1.5 * GIB,
    cache_fraction=1.0,
    whole_fraction=0.98,
    reserved_bytes=1.5 * GIB,
    reserved_bytes_per_token=1.5 * MIB,
)
ENGINE = Engine(
    "sglang",
    buffers=SGLANG_BUFFERS,
    names=("sglang",),
    publishers=("lmsys", "deepseek"),
    makers=("NVIDIA", "AMD", "Intel", "Huawei", "Apple"),  # its pages of hardware; on TPUs sglang-jax stands for it
    reads_prompts_first=True,
    scheduler="sglang",
    memory_share="--mem-fraction-static: the share of memory for weights and cache; the rest is for activations",
    commands=_commands,
    reading=_read,
)
