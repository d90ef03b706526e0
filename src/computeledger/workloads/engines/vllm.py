"""vLLM.

Arguments as its engine arguments and data-parallel deployment are documented (November 2026).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from computeledger.physics.serving.buffers import Buffers
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.units import GIB, GIGA
from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell


def _commands(one: Launch) -> list[str]:
    layout, options = one.layout, []
    options.append(f"--tensor-parallel-size {layout.tp}")
    if layout.pp > 1:
        options.append(f"--pipeline-parallel-size {layout.pp}")
    if layout.dp > 1:
        options.append(f"--data-parallel-size {layout.dp}")
    if layout.ep > 1:
        options.append("--enable-expert-parallel")
    options += [f"--max-num-seqs {one.per_rank}", f"--max-model-len {one.context_tokens}"]
    options += [f"--max-num-batched-tokens {one.chunk_tokens}", f"--gpu-memory-utilization {one.whole_fraction:.2f}"]
    options += [f"--cpu-offload-gb {one.host_weights_bytes / GIGA:.0f}"] if one.host_weights_bytes else []
    options += ["--quantization fp8"] if one.online_fp8 else []
    options += ["--kv-cache-dtype fp8"] if one.kv == "fp8" else []
    options += ["--enable-prefix-caching"] if one.cached else []
    options += ["--no-enable-prefix-caching"] if one.no_prefix_cache else []
    options += ["--enforce-eager"] if one.eager else []
    if one.drafts:
        drafter = {"method": "mtp"} if one.is_drafted_by_mtp else {"method": "eagle3", "model": "'\"$DRAFT_MODEL\"'"}
        said = json.dumps({**drafter, "num_speculative_tokens": one.drafts}, separators=(",", ":"))
        options.append("--speculative-config '" + said.replace('\\"', '"') + "'")
    if one.role:
        connector = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
        options.append(f"--kv-transfer-config '{connector}'")
    notes = ["# --max-num-seqs is per data-parallel rank"] if layout.dp > 1 else []
    spread = "--data-parallel-size-local, --data-parallel-start-rank, --data-parallel-address, --headless"
    notes += on_several_hosts(layout, spread if layout.dp > 1 else "--nnodes, --node-rank and --master-addr")
    return [*notes, *shell(f"vllm serve {one.model}", options)]


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
    buffers=VLLM_BUFFERS,
    buffers_since=SINCE,
    has_narrow_cache=True,
    memory_share="--gpu-memory-utilization: the share of memory for weights, activations, workspace and cache together",
    commands=_commands,
)
