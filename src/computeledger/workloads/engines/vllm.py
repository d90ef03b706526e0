"""vLLM.

Arguments as its engine arguments and data-parallel deployment are documented (November 2026).
"""

from __future__ import annotations

import json

from computeledger.units import GIGA
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


ENGINE = Engine(
    "vllm",
    names=("vllm",),
    has_narrow_cache=True,
    memory_share="--gpu-memory-utilization: the share of memory for weights, activations, workspace and cache together",
    commands=_commands,
)
