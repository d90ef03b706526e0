"""Launch commands of serving engines for a layout and batch, as text that can be pasted.

Names of arguments as their projects document them (November 2026): vLLM's engine arguments and data-parallel
deployment, SGLang's server arguments, ``trtllm-serve``. Speculation there was read in TensorRT-LLM's
``docs/source/features/speculative-decoding.md`` (commit 04c8822) and in pull request 12341, which renamed MTP's field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from computeledger.errors import InputError, unknown_id
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.serving.memory import CACHE_FRACTION
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.questions.wording import point, show
from computeledger.units import format_count

#: A request may be this much longer than the typical one before it is refused (assumption).
LONGEST_RATIO = 1.25
#: GPUs of the largest host (assumption); replicas beyond it get a word on how to start them.
LARGEST_HOST = 8
#: Share of HBM that an engine may take at most (assumption): the rest is the driver's and other processes'.
MOST_FRACTION = 0.97
_CONTEXT_STEP = 256
_KV_NAMES = {"vllm": "fp8", "sglang": "fp8_e4m3", "trtllm": "fp8"}


#: What an engine means by its share of the memory.
_SHARES = {
    "vllm": "--gpu-memory-utilization: the share of HBM for weights, activations, workspace and cache together",
    "sglang": "--mem-fraction-static: the share of HBM for weights and cache; activations and graphs take the rest",
    "trtllm": "free_gpu_memory_fraction: the share of the HBM that weights and workspace leave which the cache takes",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """What an engine is to run."""

    model: str
    layout: Layout
    batch: int
    context_tokens: int
    cached: bool
    kv: str
    online_fp8: bool
    role: str
    whole_fraction: float
    static_fraction: float
    short: bool
    drafts: int = 0
    is_drafted_by_mtp: bool = False

    @property
    def per_rank(self) -> int:
        """Sequences of one attention-DP rank [-]."""
        return math.ceil(self.batch / self.layout.dp)


def engine_runs(engine: str, layout: Layout) -> bool:
    """Whether an engine can run a layout at all."""
    spread = int(layout.ep) in (1, int(layout.n_gpus_per_stage))
    return spread and not (engine == "trtllm" and layout.dp > 1 and layout.tp > 1)


def launch_text(engine: str, document: Mapping[str, Any]) -> str:
    """Commands that start what a serving document describes; raises where the engine cannot run it."""
    if engine not in LAUNCHERS:
        raise unknown_id("engine", engine, LAUNCHERS)
    pools = document.get("pools")
    if pools is None:
        return "\n".join([*_comments(engine, document), *_commands(engine, _launch(engine, document, document, ""))])
    lines = _comments(engine, document)
    for role in ("prefill", "decode"):
        pool = pools[role]
        lines += [
            "",
            f"# {role}: start {pool['n_workers']} of these, {format_count(pool['n_gpus_per_worker'], 'GPU')} each",
        ]
        lines += _commands(engine, _launch(engine, document, pool, role))
    return "\n".join(lines)


def _commands(engine: str, one: Launch) -> list[str]:
    most = f"# the predicted batch takes more than {MOST_FRACTION:.0%} of HBM: it may not fit"
    return [*([most] if one.short else []), *_draft_note(one), *LAUNCHERS[engine](one)]


def _launch(engine: str, document: Mapping[str, Any], pool: Mapping[str, Any], role: str) -> Launch:
    layout, precision = parse_layout(pool["layout"]), document["precision"]
    held = sum(document[f"{name}_tokens"] for name in ("cached", "input", "output")) * LONGEST_RATIO
    stated = document.get("assumptions", {}).get("context_tokens")
    most = stated or load_model(document["model"]).max_context_tokens or math.inf
    longest = int(min(math.ceil(held / _CONTEXT_STEP) * _CONTEXT_STEP, most))
    if precision["kv"] not in ("bf16", "fp8"):
        raise InputError(f"--emit {engine}: a cache in {precision['kv']} has no setting there; use bf16 or fp8")
    ep, stage = int(layout.ep), int(layout.n_gpus_per_stage)
    if ep not in (1, stage):
        raise InputError(
            f"--emit {engine}: layout {layout}: the engine spreads experts over all {stage} GPUs of a stage "
            f"(ep{stage}) or none, not over {ep}"
        )
    held = pool.get("memory_bytes", document["memory_bytes"])
    beside, capacity = held["total"] - held["kv_cache"], held["capacity"]
    cache = CACHE_FRACTION * (capacity - beside)
    return Launch(
        model=document["checkpoint"],
        layout=layout,
        batch=int(pool["batch"]),
        context_tokens=longest,
        cached=document["cached_tokens"] > 0,
        kv=precision["kv"],
        online_fp8=_online_fp8(engine, document),
        role=role,
        whole_fraction=_share((beside + cache) / capacity),
        static_fraction=_share((held["weights"] + cache) / capacity),
        short=held["total"] > MOST_FRACTION * capacity,
        drafts=_drafts(engine, document),
        is_drafted_by_mtp=load_model(document["model"]).n_mtp_layers > 0,
    )


def _drafts(engine: str, document: Mapping[str, Any]) -> int:
    """Tokens drafted per step, which engines take as a whole number."""
    drafts = float(document.get("draft_tokens", 0.0))
    if drafts % 1:
        raise InputError(f"--emit {engine}: --draft-tokens {drafts:g}: the engine drafts a whole number of tokens")
    return int(drafts)


def _draft_note(one: Launch) -> list[str]:
    """Whose drafts the answer counts on."""
    if not one.drafts or one.is_drafted_by_mtp:
        return []
    return ["# set DRAFT_MODEL to the EAGLE-3 head that was trained for this model: the model has none of its own"]


def _share(fraction: float) -> float:
    """Rounded up to a hundredth, so that what was predicted has its room; the driver and the context keep theirs."""
    return min(math.ceil(100 * fraction) / 100, MOST_FRACTION)


def _online_fp8(engine: str, document: Mapping[str, Any]) -> bool:
    """Whether bf16 weights are to be cut on loading; any other difference needs another checkpoint."""
    model, asked = load_model(document["model"]), document["precision"]
    kinds = {"attention": "weight", "dense": "dense"} | ({"experts": "expert"} if model.is_moe else {})
    pairs = {(getattr(model, f"{stored}_precision"), asked[kind]) for kind, stored in kinds.items()}
    if all(stored == wanted for stored, wanted in pairs):
        return False
    if pairs <= {("bf16", "fp8")} and engine != "trtllm":
        return True
    stored = "/".join(sorted({stored for stored, _ in pairs}))
    wanted = "/".join(sorted({wanted for _, wanted in pairs}))
    raise InputError(
        f"--emit {engine}: {model.id} is stored in {stored} and the answer is for {wanted}: name a checkpoint stored "
        f"in {wanted} as --model, or leave --precision out"
    )


def _comments(engine: str, document: Mapping[str, Any]) -> list[str]:
    lengths = ", ".join(f"{document[f'{name}_tokens']:.0f} {name}" for name in ("input", "cached", "output"))
    figures = (("TTFT", "ttft_s", "s"), ("TPOT", "tpot_s", "s"), ("tokens/s/GPU", "output_tokens_per_s_per_gpu", ""))
    said = ", ".join(f"{label} {_ends(document[name], unit)}" for label, name, unit in figures)
    where = document["layout"] if "pools" not in document else "prefill and decode apart"
    fleet = document.get("fleet")
    started = []
    if fleet is not None:
        replicas, gpus = format_count(fleet["n_replicas"], "replica"), format_count(fleet["n_gpus"], "GPU")
        started.append(
            f"# for the load asked about: start {replicas}, {gpus} in all, {fleet['load_fraction']:.0%} loaded, behind "
            "a load balancer"
        )
    drafts = document.get("draft_tokens", 0)
    if drafts:
        started.append(
            f"# predicted with {drafts:g} drafted tokens per step of which {document['tokens_per_step'] - 1:g} are "
            "accepted on average: measure that on your own requests"
        )
    batch = "" if "pools" in document else f" at batch {document['batch']:.0f}"
    assumed = f"longest request {LONGEST_RATIO:g} times that, prefill in chunks of "
    stated = document.get("assumptions", {}).get("context_tokens")
    longer = (
        [f"# a context of {stated} tokens is yours: set the rope scaling of the model's card too"] if stated else []
    )
    return [
        *longer,
        f"# {document['model']} on {document['system']}: {where}{batch}; {lengths} tokens per request",
        f"# predicted for {document.get('backend', engine)}: {said} (median, 90 % interval)",
        *started,
        f"# {_SHARES[engine]}",
        f"# assumed: {assumed}{CHUNK_TOKENS:.0f} tokens; CUDA graphs and overlap as {engine} sets them",
    ]


def _ends(value: Any, unit: str) -> str:
    low, high = point(value, "p05"), point(value, "p95")
    return f"{show(point(value), unit)} ({show(low, unit)} to {show(high, unit)})"


def _shell(program: str, options: list[str]) -> list[str]:
    """A command over several lines."""
    return [f"{program} \\", *(f"  {one} \\" for one in options[:-1]), f"  {options[-1]}"]


def _vllm(one: Launch) -> list[str]:
    layout, options = one.layout, []
    options.append(f"--tensor-parallel-size {layout.tp}")
    if layout.pp > 1:
        options.append(f"--pipeline-parallel-size {layout.pp}")
    if layout.dp > 1:
        options.append(f"--data-parallel-size {layout.dp}")
    if layout.ep > 1:
        options.append("--enable-expert-parallel")
    options += [f"--max-num-seqs {one.per_rank}", f"--max-model-len {one.context_tokens}"]
    options += [f"--max-num-batched-tokens {CHUNK_TOKENS:.0f}", f"--gpu-memory-utilization {one.whole_fraction:.2f}"]
    options += ["--quantization fp8"] if one.online_fp8 else []
    options += [f"--kv-cache-dtype {_KV_NAMES['vllm']}"] if one.kv == "fp8" else []
    options += ["--enable-prefix-caching"] if one.cached else []
    if one.drafts:
        drafter = {"method": "mtp"} if one.is_drafted_by_mtp else {"method": "eagle3", "model": "'\"$DRAFT_MODEL\"'"}
        said = json.dumps({**drafter, "num_speculative_tokens": one.drafts}, separators=(",", ":"))
        options.append("--speculative-config '" + said.replace('\\"', '"') + "'")
    if one.role:
        connector = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
        options.append(f"--kv-transfer-config '{connector}'")
    notes = ["# --max-num-seqs is per data-parallel rank"] if layout.dp > 1 else []
    spread = "--data-parallel-size-local, --data-parallel-start-rank, --data-parallel-address, --headless"
    notes += _hosts(layout, spread if layout.dp > 1 else "--nnodes, --node-rank and --master-addr")
    return [*notes, *_shell(f"vllm serve {one.model}", options)]


def _hosts(layout: Layout, arguments: str) -> list[str]:
    """What a replica over several hosts needs; how many GPUs a host has is not known here."""
    if layout.n_gpus <= LARGEST_HOST:
        return []
    return [f"# {layout.n_gpus} GPUs on more than one host: the same command on each, with {arguments}"]


def _sglang(one: Launch) -> list[str]:
    layout = one.layout
    options = [f"--model-path {one.model}", f"--tp-size {layout.n_gpus_per_stage}"]
    if layout.pp > 1:
        options.append(f"--pp-size {layout.pp}")
    if layout.dp > 1:
        options += [f"--dp-size {layout.dp}", "--enable-dp-attention"]
    if layout.ep > 1:
        options.append(f"--ep-size {layout.ep}")
    options += [f"--max-running-requests {one.per_rank * layout.dp}", f"--context-length {one.context_tokens}"]
    options += [f"--chunked-prefill-size {CHUNK_TOKENS * layout.dp:.0f}"]
    options += [f"--mem-fraction-static {one.static_fraction:.2f}"]
    options += ["--quantization fp8"] if one.online_fp8 else []
    options += [f"--kv-cache-dtype {_KV_NAMES['sglang']}"] if one.kv == "fp8" else []
    options += ["--disable-radix-cache"] if not one.cached else []
    if one.drafts:  # a chain: as many steps as drafts, and one token more to verify
        options.append(f"--speculative-algorithm {'EAGLE' if one.is_drafted_by_mtp else 'EAGLE3'}")
        options += [] if one.is_drafted_by_mtp else ['--speculative-draft-model-path "$DRAFT_MODEL"']
        options += [f"--speculative-num-steps {one.drafts}", "--speculative-eagle-topk 1"]
        options += [f"--speculative-num-draft-tokens {one.drafts + 1}"]
    options += [f"--disaggregation-mode {one.role}"] if one.role else []
    notes = []
    if layout.dp > 1:
        notes.append("# --tp-size counts all GPUs of a stage; requests and chunk are shared by the data-parallel ranks")
    notes += _hosts(layout, "--nnodes, --node-rank and --dist-init-addr")
    return [*notes, *_shell("python3 -m sglang.launch_server", options)]


def _trtllm(one: Launch) -> list[str]:
    layout = one.layout
    if layout.dp > 1 and layout.tp > 1:
        raise InputError(
            f"--emit trtllm: layout {layout}: attention data parallelism there takes every GPU of the stage (tp1), "
            "not groups of tensor parallelism"
        )
    name = f"{one.role}.yaml" if one.role else "serving.yaml"
    settings = [f"enable_attention_dp: {'true' if layout.dp > 1 else 'false'}", "enable_chunked_prefill: true"]
    settings += ["kv_cache_config:", f"  dtype: {'fp8' if one.kv == 'fp8' else 'auto'}"]
    settings += [
        f"  enable_block_reuse: {'true' if one.cached else 'false'}",
        f"  free_gpu_memory_fraction: {CACHE_FRACTION:g}",
    ]
    options = [f"--tp_size {layout.n_gpus_per_stage}", f"--pp_size {layout.pp}", f"--ep_size {layout.ep}"]
    options += [f"--max_batch_size {one.per_rank}", f"--max_num_tokens {CHUNK_TOKENS:.0f}"]
    options += [f"--max_seq_len {one.context_tokens}", f"--config {name}"]
    notes = ["# --tp_size counts all GPUs of a stage; the batch is per attention rank"] if layout.dp > 1 else []
    if one.role:
        notes.append("# trtllm-serve disaggregated -c FILE joins the servers: FILE lists their addresses")
        settings += ["cache_transceiver_config:", "  backend: DEFAULT"]
        settings += ["disable_overlap_scheduler: true"] if one.role == "prefill" else []
    if one.drafts:
        if one.is_drafted_by_mtp:
            notes.append("# TensorRT-LLM before March 2026 calls max_draft_len of MTP num_nextn_predict_layers")
        settings += ["speculative_config:", f"  decoding_type: {'MTP' if one.is_drafted_by_mtp else 'Eagle3'}"]
        settings += [f"  max_draft_len: {one.drafts}"]
        settings += [] if one.is_drafted_by_mtp else ["  speculative_model: $DRAFT_MODEL"]
    end = "END" if one.drafts and not one.is_drafted_by_mtp else "'END'"  # the variable is filled in
    file = [f"cat > {name} <<{end}", *settings, "END"]
    return [*notes, *file, *_shell(f"trtllm-serve {one.model}", options)]


LAUNCHERS: dict[str, Callable[[Launch], list[str]]] = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}
