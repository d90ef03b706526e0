"""SGLang.

Arguments as its server arguments are documented (November 2026).
"""

from __future__ import annotations

from computeledger.physics.serving.buffers import Buffers
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.units import GIB, MIB
from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    options = [f"--model-path {one.model}", f"--tp-size {layout.n_gpus_per_stage}"]
    if layout.pp > 1:
        options.append(f"--pp-size {layout.pp}")
    if layout.dp > 1:
        options += [f"--dp-size {layout.dp}", "--enable-dp-attention"]
    if layout.ep > 1:
        options.append(f"--ep-size {layout.ep}")
    options += [f"--max-running-requests {one.per_rank * layout.dp}", f"--context-length {one.context_tokens}"]
    options += [f"--chunked-prefill-size {one.chunk_tokens * layout.dp}"]
    options += [f"--mem-fraction-static {one.static_fraction:.2f}"]
    options += ["--quantization fp8"] if one.online_fp8 else []
    options += ["--kv-cache-dtype fp8_e4m3"] if one.kv == "fp8" else []
    options += ["--disable-radix-cache"] if one.no_prefix_cache else []
    options += ["--disable-cuda-graph"] if one.eager else []
    if one.drafts:  # a chain: as many steps as drafts, and one token more to verify
        options.append(f"--speculative-algorithm {'EAGLE' if one.is_drafted_by_mtp else 'EAGLE3'}")
        options += [] if one.is_drafted_by_mtp else ['--speculative-draft-model-path "$DRAFT_MODEL"']
        options += [f"--speculative-num-steps {one.drafts}", "--speculative-eagle-topk 1"]
        options += [f"--speculative-num-draft-tokens {one.drafts + 1}"]
    options += [f"--disaggregation-mode {one.role}"] if one.role else []
    notes = []
    if layout.dp > 1:
        notes.append("# --tp-size counts all GPUs of a stage; requests and chunk are shared by the data-parallel ranks")
    notes += on_several_hosts(layout, "--nnodes, --node-rank and --dist-init-addr")
    return [*notes, *shell("python3 -m sglang.launch_server", options)]


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
    memory_share="--mem-fraction-static: the share of memory for weights and cache; the rest is for activations",
    commands=_commands,
)
