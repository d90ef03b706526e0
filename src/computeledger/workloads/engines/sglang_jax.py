"""SGLang on JAX: no constants of its own; its scheduler is SGLang's.

Arguments as ``docs/features/server_arguments.md`` lists them (commit cddbf6f, August 2026).
"""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    options = [f"--model-path {one.model}", "--device tpu", f"--tp-size {layout.n_gpus_per_stage}"]
    options += [f"--dp-size {layout.dp}"] if layout.dp > 1 else []
    options += [f"--ep-size {layout.ep}"] if layout.ep > 1 else []
    options += [f"--max-running-requests {one.per_rank * layout.dp}", f"--context-length {one.context_tokens}"]
    options += [f"--chunked-prefill-size {one.chunk_tokens}", f"--mem-fraction-static {one.static_fraction:.2f}"]
    options += ["--disable-radix-cache"] if one.no_prefix_cache else []
    notes = on_several_hosts(layout, "--nnodes, --node-rank and --dist-init-addr")
    return [*notes, *shell("python3 -m sgl_jax.launch_server", options)]


ENGINE = Engine(
    "sglang-jax",
    makers=("Google",),
    names=("sglang-jax", "sgl-jax"),
    reads_prompts_first=True,
    scheduler="sglang",
    memory_share="--mem-fraction-static: the share of memory for weights and cache; activations take the rest",
    quantises_on_loading=False,
    caches={"bf16": ""},
    refusal=lambda layout: "it has no pipeline parallelism" if layout.pp > 1 else None,
    commands=_commands,
)
