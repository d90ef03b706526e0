"""Memory of one GPU against what vLLM's start-up logs say: weights within 0.3 %, cache within 1.2 %."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.memory import sequence_bytes_per_gpu, weights_bytes_per_gpu
from computeledger.physics.weights import precision_of
from computeledger.units import GIB

#: Model, format (None: as stored), TP, GiB that "Loading model weights took", and the thread of vllm-project/vllm.
WEIGHTS = [
    ("llama-3.1-8b", None, 1, 14.9888, "issue 10517: RTX 3090"),
    ("llama-3.1-70b", "int8", 1, 67.7229, "pull request 12569: Meta-Llama-3.1-70B-Instruct-quantized.w8a8"),
    ("qwen3-30b-a3b", None, 4, 14.2474, "issue 17327, turn 23"),
    ("qwen2.5-7b", "awq", 1, 5.2032, "issue 13882: RTX 4060"),
]  # fmt: skip
#: Model, TP, tokens of the cache, GiB given to it, and the thread.
CACHES = [
    ("llama-3.1-8b", 1, 1952 * 16, 3.81, "issue 10517: 1952 blocks of 16 tokens"),
    ("qwen3-235b-a22b-fp8", 4, 178_880, 8.11, "issue 21348: 4 x H100"),
]  # fmt: skip


def weight_error(name: str, precision: str | None, tp: int, published_gib: float) -> float:
    """Ours over what the log says, less 1."""
    model = load_model(name)
    ours = float(weights_bytes_per_gpu(model, Layout(tp=tp), precision_of(model, precision)))
    return ours / (published_gib * GIB) - 1


@pytest.mark.parametrize(("name", "precision", "tp", "gib", "thread"), WEIGHTS)
def test_weights_of_a_gpu(name: str, precision: str | None, tp: int, gib: float, thread: str) -> None:
    """The logs count rotary tables and padding of the allocator too: all are above ours."""
    assert -0.003 < weight_error(name, precision, tp, gib) <= 0, thread


@pytest.mark.parametrize(("name", "tp", "tokens", "gib", "thread"), CACHES)
def test_cache_of_a_gpu(name: str, tp: int, tokens: int, gib: float, thread: str) -> None:
    ours = float(sequence_bytes_per_gpu(load_model(name), tokens, Layout(tp=tp), 2.0))
    assert abs(ours / (gib * GIB) - 1) < 0.012, thread


def test_the_median_error_is_far_below_three_percent() -> None:
    assert np.median([abs(weight_error(*row[:4])) for row in WEIGHTS]) < 0.003
