"""llama.cpp on a GPU, on Apple silicon or on a CPU.

Arguments as ``tools/server/README.md`` lists them (commit 00dc805, 2026): ``--ctx-size`` is shared by the slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from computeledger.physics.serving.buffers import LOCAL_BUFFERS
from computeledger.workloads.engines.engine import FOUR_BITS, Engine, Launch, shell

if TYPE_CHECKING:
    from computeledger.physics.parallelism import Layout


def _refusal(layout: Layout) -> str | None:
    if layout.dp > 1 or layout.ep > 1:
        return "it spreads neither requests (dp) nor experts (ep) over GPUs"
    if layout.tp > 1 and layout.pp > 1:
        return "it splits layers (pp) or tensors (tp) over GPUs, not both"
    return None


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    on_chip = f"{round(one.n_layers * (1 - one.host_weights))}" if one.host_weights else "all"
    options = ['-m "$GGUF"', f"--n-gpu-layers {on_chip}", f"--ctx-size {one.context_tokens * one.batch}"]
    options += [f"--n-cpu-moe {round(one.n_layers * one.host_experts)}"] if one.host_experts else []
    options += ["--no-kv-offload"] if one.host_kv else []
    options.append(f"--parallel {one.batch}")
    if layout.n_gpus > 1:
        options.append(f"--split-mode {'tensor' if layout.tp > 1 else 'layer'}")
    cache = ENGINE.caches[one.kv]
    options += [f"--cache-type-k {cache}", f"--cache-type-v {cache}"] if cache else []
    return [f"# set GGUF to the file of {one.model} in {one.weights}", *shell("llama-server", options)]


#: ggml-org publishes gpt-oss with 8 bits beside the experts (pull request 15091). Of other checkpoints in 8 or 4 bits
#: the converter makes 16 bits again, and what is downloaded is the file of as many bits (assumption).
_FILES = {
    "mxfp4": "gguf-mxfp4",
    **dict.fromkeys(("fp8", "fp8-block", "mxfp8", "int8", "w8a16"), "gguf-q8_0"),
    **dict.fromkeys(FOUR_BITS, "gguf-q4_k_m"),
}

ENGINE = Engine(
    "llama.cpp",
    buffers=LOCAL_BUFFERS,
    names=("llama.cpp", "llama-cpp", "llama-bench", "ollama"),
    computes_on_host=True,
    default_on=("apple-gpu", "apple-phone", "cpu"),
    own_files="a GGUF file",
    default_files=_FILES,
    memory_share="--n-gpu-layers and --ctx-size: layers and cache that stay on the GPU",
    quantises_on_loading=False,
    caches={"bf16": "", "int8": "q8_0", "int4": "q4_0", "q8_0": "q8_0", "q4_0": "q4_0"},
    refusal=_refusal,
    commands=_commands,
)
