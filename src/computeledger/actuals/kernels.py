"""What a micro-benchmark asks of an array library, a transformer layer in those terms, and the NumPy kernels."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Array = Any
#: Values that are drawn; a longer array repeats them, because drawing takes longer than what is measured.
_DRAWN = 65_521


class Kernels(Protocol):
    """Kernels of one library on one device."""

    @property
    def name(self) -> str:
        """Library."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``; ROCm answers to the second."""

    @property
    def device_name(self) -> str:
        """The device, as it calls itself."""

    @property
    def version(self) -> str:
        """Of the library."""

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those with a matrix product; the first is the one that a profile counts as bf16."""

    @property
    def value_bytes(self) -> Mapping[str, float]:
        """Bytes of one value by precision [byte]."""

    @property
    def threads(self) -> int:
        """Threads that a kernel on the CPU uses [-]."""

    @property
    def wall(self) -> bool:
        """Whether time is the clock's; else processor time of this process, which other work does not lengthen."""

    @property
    def memory_bytes(self) -> float:
        """Memory of the device [byte]."""

    def repeated(self, call: Callable[[], object], calls: int, captured: bool) -> Callable[[], object]:
        """So many calls as one; captured as a graph where the device can and it is asked for."""

    def seconds(self, call: Callable[[], object]) -> float:
        """Time of one call, finished on the device [s]."""

    def random(self, shape: tuple[int, ...], precision: str) -> Array:
        """Array of small random values."""

    def linear(self, x: Array, weight: Array) -> Array:
        """``x weight^T``."""

    def norm(self, x: Array, weight: Array) -> Array:
        """Root-mean-square norm over the last axis."""

    def heads(self, x: Array, first: int, n_heads: int, head_dim: int) -> Array:
        """Heads from column ``first`` of a projection on, as (batch, head, token, value)."""

    def rotate(self, x: Array, cosine: Array, sine: Array) -> Array:
        """Rotary positions on queries or keys."""

    def attend(self, query: Array, keys: Array, values: Array, causal: bool) -> Array:
        """Softmax attention, grouped queries allowed."""

    def merge(self, x: Array) -> Array:
        """Heads back to (batch, token, width)."""

    def gate(self, x: Array) -> Array:
        """``silu(first half) * second half`` of the last axis."""

    def total(self, x: Array) -> object:
        """Sum of all values: reads each once."""

    def copy(self, target: Array, source: Array) -> None:
        """Copy all values: reads and writes each once."""

    def choose(self, scores: Array) -> object:
        """Index of the largest score, on the host."""


def processor_name() -> str:
    """Name of this machine's processor, as the system tells it.

    Returns
    -------
    str
        Model name, or ``cpu`` where the system does not tell.

    Examples
    --------
    >>> len(processor_name()) > 0
    True
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 (a file of the system, not of a user)
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else "cpu"


def host_memory_bytes() -> float:
    """Memory of this machine.

    Returns
    -------
    float
        As the system reports it [byte].

    Examples
    --------
    >>> host_memory_bytes() > 0
    True
    """
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@dataclass(frozen=True, slots=True)
class NumpyKernels:
    """NumPy on the CPU, in fp32: the narrowest precision whose matrix product NumPy hands to a fast library.

    Attributes
    ----------
    threads : int
        Threads that the library behind NumPy was started with; it cannot be changed later [-].
    """

    threads: int = 1
    name: str = "numpy"
    device: str = "cpu"
    device_name: str = field(default_factory=processor_name)
    version: str = np.__version__
    memory_bytes: float = field(default_factory=host_memory_bytes)
    precisions: tuple[str, ...] = ("fp32",)

    @property
    def value_bytes(self) -> Mapping[str, float]:
        """Bytes of one value by precision [byte]."""
        return {"fp32": 4.0}

    @property
    def wall(self) -> bool:
        """Whether time is the clock's."""
        return self.threads > 1

    def repeated(self, call: Callable[[], object], calls: int, captured: bool) -> Callable[[], object]:  # noqa: ARG002 (nothing to capture)
        """So many calls as one."""

        def many() -> None:
            for _ in range(calls):
                call()

        return many

    def seconds(self, call: Callable[[], object]) -> float:
        """Time of one call [s]."""
        clock = time.perf_counter if self.wall else time.process_time
        start = clock()
        call()
        return clock() - start

    def random(self, shape: tuple[int, ...], precision: str) -> Array:  # noqa: ARG002 (one precision only)
        """Array of small random values."""
        return np.resize(np.random.default_rng(0).standard_normal(_DRAWN, dtype=np.float32) * np.float32(0.02), shape)

    def linear(self, x: Array, weight: Array) -> Array:
        """``x weight^T``."""
        return x @ weight.T

    def norm(self, x: Array, weight: Array) -> Array:
        """Root-mean-square norm over the last axis."""
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(1e-6)) * weight

    def heads(self, x: Array, first: int, n_heads: int, head_dim: int) -> Array:
        """Heads from column ``first`` of a projection on, as (batch, head, token, value)."""
        part = x[..., first : first + n_heads * head_dim]
        return part.reshape(*x.shape[:-1], n_heads, head_dim).swapaxes(1, 2)

    def rotate(self, x: Array, cosine: Array, sine: Array) -> Array:
        """Rotary positions on queries or keys."""
        half = x.shape[-1] // 2
        return x * cosine + np.concatenate([-x[..., half:], x[..., :half]], -1) * sine

    def attend(self, query: Array, keys: Array, values: Array, causal: bool) -> Array:
        """Softmax attention, grouped queries allowed; all scores are kept, as NumPy has no fused kernel."""
        group = query.shape[1] // keys.shape[1]
        if group > 1:
            keys, values = np.repeat(keys, group, 1), np.repeat(values, group, 1)
        scores = query @ keys.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
        if causal:
            scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ values

    def merge(self, x: Array) -> Array:
        """Heads back to (batch, token, width)."""
        return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape[0], x.shape[2], -1)

    def gate(self, x: Array) -> Array:
        """``silu(first half) * second half`` of the last axis."""
        half = x.shape[-1] // 2
        return x[..., :half] / (1 + np.exp(-x[..., :half])) * x[..., half:]

    def total(self, x: Array) -> object:
        """Sum of all values: reads each once."""
        return x.sum()

    def copy(self, target: Array, source: Array) -> None:
        """Copy all values: reads and writes each once."""
        np.copyto(target, source)

    def choose(self, scores: Array) -> object:
        """Index of the largest score."""
        return int(np.argmax(scores))


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Shape of one transformer layer.

    Attributes
    ----------
    width, n_heads, n_kv_heads, head_dim, mlp_width : int
        Model width, query heads, KV heads, values of a head, width of the gated MLP [-].
    """

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
    """One transformer layer's kernels, with or without its large products, to time them apart.

    Parameters
    ----------
    kernels : Kernels
        What runs them.
    shape : LayerShape
        Of the layer.
    tokens : int
        New tokens of the one sequence [token].
    """

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

    def mixer(self, weights: tuple[Array, Array]) -> Array:
        """Norm, projections, attention to itself, projection back, sum."""
        kernels = self.kernels
        projected = kernels.linear(kernels.norm(self.x, self.scale), weights[0])
        query, keys, values = self._around_attention(projected)
        return self.x + kernels.linear(kernels.merge(kernels.attend(query, keys, values, causal=False)), weights[1])

    def mlp(self, weights: tuple[Array, Array]) -> Array:
        """Norm, both halves in one product, gate, product back, sum."""
        kernels = self.kernels
        widened = kernels.linear(kernels.norm(self.x, self.scale), weights[0])
        return self.x + kernels.linear(kernels.gate(widened), weights[1])


def default_threads() -> int:
    """Threads that matrix libraries start with: what ``OMP_NUM_THREADS`` says, else one per usable core.

    Returns
    -------
    int
        Number of threads [-].

    Examples
    --------
    >>> default_threads() >= 1
    True
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else len(os.sched_getaffinity(0))
