"""What a micro-benchmark asks of an array library, and a transformer layer in those terms."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Array = Any
#: Bytes of one value by precision.
VALUE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0}


@dataclass(frozen=True)
class Kernels(ABC):
    """Kernels of one library on one device."""

    name: str
    device: str
    device_name: str
    version: str
    precisions: tuple[str, ...]
    threads: int
    wall: bool
    memory_bytes: float

    @abstractmethod
    def repeated(self, call: Callable[[], object], calls: int, captured: bool) -> Callable[[], object]:
        """Make so many calls one."""

    @abstractmethod
    def seconds(self, call: Callable[[], object]) -> float:
        """Time a call until it is finished on the device."""

    @abstractmethod
    def random(self, shape: tuple[int, ...], precision: str) -> Array:
        """Make an array of small random values."""

    @abstractmethod
    def linear(self, x: Array, weight: Array) -> Array:
        """Multiply: ``x weight^T``."""

    @abstractmethod
    def norm(self, x: Array, weight: Array) -> Array:
        """Root-mean-square norm over the last axis."""

    @abstractmethod
    def heads(self, x: Array, first: int, n_heads: int, head_dim: int) -> Array:
        """Take heads out of a projection."""

    @abstractmethod
    def rotate(self, x: Array, cosine: Array, sine: Array) -> Array:
        """Rotary positions on queries or keys."""

    @abstractmethod
    def attend(self, query: Array, keys: Array, values: Array, causal: bool) -> Array:
        """Softmax attention, grouped queries allowed."""

    @abstractmethod
    def merge(self, x: Array) -> Array:
        """Put heads side by side again."""

    @abstractmethod
    def gate(self, x: Array) -> Array:
        """``silu(first half) * second half`` of the last axis."""

    @abstractmethod
    def total(self, x: Array) -> object:
        """Add up: reads each value once."""

    @abstractmethod
    def copy(self, target: Array, source: Array) -> None:
        """Copy: reads and writes each value once."""

    @abstractmethod
    def choose(self, scores: Array) -> object:
        """Index of the largest score, on the host."""


def processor_name() -> str:
    """Name of this machine's processor, as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 (a file of the system, not of a user)
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else "cpu"


def host_memory_bytes() -> float:
    """Memory of this machine."""
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Shape of one transformer layer."""

    width: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    mlp_width: int

    @property
    def projected(self) -> int:
        """Columns of queries, keys and values together [-]."""
        return (self.n_heads + 2 * self.n_kv_heads) * self.head_dim

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Inner and outer size of its four matrix products [-]."""
        return (
            (self.width, self.projected),
            (self.n_heads * self.head_dim, self.width),
            (self.width, 2 * self.mlp_width),
            (self.mlp_width, self.width),
        )


class Layer:
    """One transformer layer's kernels, with or without its large products, to time them apart."""

    def __init__(self, kernels: Kernels, shape: LayerShape, tokens: int) -> None:
        self.kernels, self.shape, self.tokens = kernels, shape, tokens
        precision = kernels.precisions[0]
        self.x = kernels.random((1, tokens, shape.width), precision)
        self.scale = kernels.random((shape.width,), precision)
        self.table = kernels.random((tokens, shape.head_dim), precision)
        self.projected = kernels.random((1, tokens, shape.projected), precision)
        self.widened = kernels.random((1, tokens, 2 * shape.mlp_width), precision)
        self.kept = [kernels.random((1, shape.n_kv_heads, tokens + 1, shape.head_dim), precision) for _ in "kv"]

    def _around_attention(self, projected: Array) -> tuple[Array, Array, Array]:
        """Queries, and the cache with this step's keys and values in it."""
        shape, kernels = self.shape, self.kernels
        n, k, h = shape.n_heads, shape.n_kv_heads, shape.head_dim
        query = kernels.rotate(kernels.heads(projected, 0, n, h), self.table, self.table)
        self.kept[0][:, :, 1:] = kernels.rotate(kernels.heads(projected, n * h, k, h), self.table, self.table)
        self.kept[1][:, :, 1:] = kernels.heads(projected, (n + k) * h, k, h)
        return query, self.kept[0][:, :, 1:], self.kept[1][:, :, 1:]

    def elementwise(self) -> None:
        """Everything of a layer but its matrix products and its attention."""
        kernels = self.kernels
        kernels.norm(self.x, self.scale)
        query, _, _ = self._around_attention(self.projected)
        kernels.merge(query)
        _ = self.x + self.x
        kernels.norm(self.x, self.scale)
        kernels.gate(self.widened)
        _ = self.x + self.x

    def mixer(self, weights: Sequence[Array]) -> Array:
        """Norm, projections, attention to itself, projection back, sum."""
        kernels = self.kernels
        projected = kernels.linear(kernels.norm(self.x, self.scale), weights[0])
        query, keys, values = self._around_attention(projected)
        return self.x + kernels.linear(kernels.merge(kernels.attend(query, keys, values, causal=False)), weights[1])

    def mlp(self, weights: Sequence[Array]) -> Array:
        """Norm, both halves in one product, gate, product back, sum."""
        kernels = self.kernels
        widened = kernels.linear(kernels.norm(self.x, self.scale), weights[0])
        return self.x + kernels.linear(kernels.gate(widened), weights[1])


def default_threads() -> int:
    """Threads that matrix libraries start with: what ``OMP_NUM_THREADS`` says, else one per usable core."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else len(os.sched_getaffinity(0))
