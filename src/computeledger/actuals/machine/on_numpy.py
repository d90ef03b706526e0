"""NumPy's kernels: what a machine without PyTorch is measured with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from computeledger.actuals.machine.kernels import Array, Kernels, host_memory_bytes, processor_name

#: Values that are drawn; a longer array repeats them, because drawing takes longer than what is measured.
_DRAWN = 65_521


@dataclass(frozen=True)
class NumpyKernels(Kernels):
    """NumPy on the CPU, in fp32: the narrowest precision whose matrix product NumPy hands to a fast library."""

    def repeated(self, call: Callable[[], object], calls: int, captured: bool) -> Callable[[], object]:  # noqa: ARG002 (nothing to capture)
        def many() -> None:
            for _ in range(calls):
                call()

        return many

    def seconds(self, call: Callable[[], object]) -> float:
        clock = time.perf_counter if self.wall else time.process_time
        start = clock()
        call()
        return clock() - start

    def random(self, shape: tuple[int, ...], precision: str) -> Array:  # noqa: ARG002 (one precision only)
        return np.resize(np.random.default_rng(0).standard_normal(_DRAWN, dtype=np.float32) * np.float32(0.02), shape)

    def linear(self, x: Array, weight: Array) -> Array:
        return x @ weight.T

    def norm(self, x: Array, weight: Array) -> Array:
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(1e-6)) * weight

    def heads(self, x: Array, first: int, n_heads: int, head_dim: int) -> Array:
        part = x[..., first : first + n_heads * head_dim]
        return part.reshape(*x.shape[:-1], n_heads, head_dim).swapaxes(1, 2)

    def rotate(self, x: Array, cosine: Array, sine: Array) -> Array:
        half = x.shape[-1] // 2
        return x * cosine + np.concatenate([-x[..., half:], x[..., :half]], -1) * sine

    def attend(
        self, query: Array, keys: Array, values: Array, causal: bool
    ) -> Array:  # all scores are kept: NumPy has no fused kernel
        group = query.shape[1] // keys.shape[1]
        if group > 1:
            keys, values = np.repeat(keys, group, 1), np.repeat(values, group, 1)
        scores = query @ keys.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
        if causal:
            scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ values

    def merge(self, x: Array) -> Array:
        return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape[0], x.shape[2], -1)

    def gate(self, x: Array) -> Array:
        half = x.shape[-1] // 2
        return x[..., :half] / (1 + np.exp(-x[..., :half])) * x[..., half:]

    def total(self, x: Array) -> object:
        return x.sum()

    def copy(self, target: Array, source: Array) -> None:
        np.copyto(target, source)

    def choose(self, scores: Array) -> object:
        return int(np.argmax(scores))


def numpy_kernels(threads: int) -> NumpyKernels:
    """NumPy's kernels on this machine."""
    return NumpyKernels(
        "numpy", "cpu", processor_name(), np.__version__, ("fp32",), threads, threads > 1, host_memory_bytes()
    )
