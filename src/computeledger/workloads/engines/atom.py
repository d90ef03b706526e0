"""ATOM of ROCm: no constants of its own; that it reads prompts first is inferred from its times.

Arguments as its README and ``atom/model_engine/arg_utils.py`` give them (commit ffdf3bb, August 2026).
"""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    options = [f"--model {one.model}", f"--tensor-parallel-size {layout.tp}"]
    options += [f"--pipeline-parallel-size {layout.pp}"] if layout.pp > 1 else []
    options += [f"--data-parallel-size {layout.dp}", "--enable-dp-attention"] if layout.dp > 1 else []
    options += ["--enable-expert-parallel"] if layout.ep > 1 else []
    options += [f"--max-num-seqs {one.per_rank}", f"--max-model-len {one.context_tokens}"]
    options += [f"--max-num-batched-tokens {one.chunk_tokens}", f"--gpu-memory-utilization {one.whole_fraction:.2f}"]
    options += ["--kv_cache_dtype fp8"] if one.kv == "fp8" else []
    options += ["--enable_prefix_caching"] if one.cached else []
    options += ["--enforce-eager"] if one.eager else []
    options += ["--method mtp", f"--num-speculative-tokens {one.drafts}"] if one.drafts else []
    notes = on_several_hosts(layout, "its data-parallel addresses")
    return [*notes, *shell("python -m atom.entrypoints.openai_server", options)]


ENGINE = Engine(
    "atom",
    makers=("AMD",),
    names=("rocm atom",),
    reads_prompts_first=True,
    memory_share="--gpu-memory-utilization: the share of memory for weights, activations, workspace and cache together",
    quantises_on_loading=False,
    commands=_commands,
)
