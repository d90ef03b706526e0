"""Text Generation Inference: no constants of its own.

Arguments as ``docs/source/reference/launcher.md`` lists them (commit db931fc, January 2026).
"""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine, Launch, only_tensor_parallel, shell


def _commands(one: Launch) -> list[str]:
    options = [f"--model-id {one.model}", f"--num-shard {one.layout.tp}", f"--max-concurrent-requests {one.batch}"]
    options += [f"--max-total-tokens {one.context_tokens}", f"--max-batch-prefill-tokens {one.chunk_tokens}"]
    options.append(f"--cuda-memory-fraction {one.whole_fraction:.2f}")
    options += ["--quantize fp8"] if one.online_fp8 else []
    options += ["--kv-cache-dtype fp8_e4m3fn"] if one.kv == "fp8" else []
    return shell("text-generation-launcher", options)


ENGINE = Engine(
    "tgi",
    names=("text-generation-inference", "text generation inference"),
    memory_share="--cuda-memory-fraction: the share of memory for weights, activations, workspace and cache together",
    refusal=only_tensor_parallel,
    commands=_commands,
)
