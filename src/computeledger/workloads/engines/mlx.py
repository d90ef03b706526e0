"""MLX on Apple silicon.

Arguments as ``mlx_lm/server.py`` defines them (commit d78bf58, August 2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from computeledger.physics.serving.buffers import LOCAL_BUFFERS
from computeledger.workloads.engines.engine import FOUR_BITS, Engine, Launch, shell

if TYPE_CHECKING:
    from computeledger.physics.parallelism import Layout


def _refusal(layout: Layout) -> str | None:
    return None if layout.n_gpus == 1 else "its server runs on one device; mlx.launch joins several"


def _commands(one: Launch) -> list[str]:
    options = ['--model "$MLX_MODEL"', f"--decode-concurrency {one.batch}"]
    note = f"# set MLX_MODEL to {one.model} in {one.weights}, as mlx_lm.convert writes it"
    return [note, *shell("mlx_lm.server", options)]


#: mlx-community publishes gpt-oss as MXFP4-Q8 and MXFP4-Q4 (mlx-lm, issue 605); the first keeps 8 bits beside the
#: experts, as llama.cpp's file does. Of other checkpoints, the conversion to as many bits (assumption).
_FILES = {
    "mxfp4": "mlx-mxfp4-q8",
    **dict.fromkeys(("fp8", "fp8-block", "mxfp8", "int8", "w8a16"), "mlx-8bit"),
    **dict.fromkeys(FOUR_BITS, "mlx-4bit"),
}

ENGINE = Engine(
    "mlx",
    buffers=LOCAL_BUFFERS,
    names=("mlx",),
    own_files="an MLX checkpoint",
    default_files=_FILES,
    memory_share="memory is shared with the CPU: iogpu.wired_limit_mb of macOS bounds what the GPU may hold",
    quantises_on_loading=False,
    caches={"bf16": ""},
    makers=("Apple", "NVIDIA"),  # MLX's installation page: Metal, and CUDA on Linux
    refusal=_refusal,
    commands=_commands,
)
