"""PyTorch's kernels on CPU, CUDA and ROCm. The library is handed in, so that this file loads without it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from computeledger.actuals.kernels import Array, host_memory_bytes, processor_name

#: First compute capability with 8-bit floating-point products in PyTorch.
_FP8_CAPABILITY = (8, 9)
#: Values that are drawn; a longer array repeats them.
_DRAWN = 65_521
#: Rows of an 8-bit product come in multiples of this [token].
_FP8_ROWS = 16


class TorchKernels:
    """PyTorch in bf16, with fp32 (and fp8 where the GPU has it) for comparison.

    Parameters
    ----------
    torch : module
        PyTorch.
    device : str
        ``cpu`` or ``cuda``; ROCm answers to ``cuda``.
    threads : int
        Of kernels on the CPU [-].
    """

    def __init__(self, torch: Any, device: str, threads: int) -> None:
        self.torch, self.device, self.threads = torch, device, threads
        self.name, self.version = "torch", str(torch.__version__)
        self.precisions: tuple[str, ...] = ("bf16", "fp32")
        self.wall = device != "cpu" or threads > 1
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        if device == "cuda":
            self.device_name = str(torch.cuda.get_device_name())
            self.memory_bytes = float(torch.cuda.get_device_properties(0).total_memory)
            if torch.version.hip is None and torch.cuda.get_device_capability() >= _FP8_CAPABILITY:
                self.precisions = ("bf16", "fp8", "fp32")
        else:
            self.device_name, self.memory_bytes = processor_name(), host_memory_bytes()
        self._types = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn}
        self._one = torch.ones((), device=device)

    @property
    def value_bytes(self) -> Mapping[str, float]:
        """Bytes of one value by precision [byte]."""
        return {"bf16": 2.0, "fp8": 1.0, "fp32": 4.0}

    def repeated(self, call: Callable[[], object], calls: int, captured: bool) -> Callable[[], object]:
        """So many calls as one; on a GPU as one captured graph, which the host launches once."""

        def many() -> None:
            for _ in range(calls):
                call()

        if self.device == "cpu" or not captured:
            return many
        many()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            many()
        replay: Callable[[], object] = graph.replay
        return replay

    def seconds(self, call: Callable[[], object]) -> float:
        """Time of one call, finished on the device [s]."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        clock = time.perf_counter if self.wall else time.process_time
        start = clock()
        call()
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return clock() - start

    def random(self, shape: tuple[int, ...], precision: str) -> Array:
        """Array of small random values."""
        size = math.prod(shape)
        drawn = (self.torch.randn(_DRAWN, device=self.device) * 0.02).to(self._types[precision])
        return drawn.repeat(-(-size // _DRAWN))[:size].reshape(shape).contiguous()

    def linear(self, x: Array, weight: Array) -> Array:
        """``x weight^T``; 8-bit rows are padded to what the product takes."""
        if x.dtype != self._types["fp8"]:
            return self.torch.nn.functional.linear(x, weight)
        short = -x.shape[0] % _FP8_ROWS
        if short:
            x = self.torch.cat([x.view(self.torch.uint8), self._padding(short, x)]).view(x.dtype)
        return self.torch._scaled_mm(  # noqa: SLF001 (PyTorch has no public name for the 8-bit product)
            x, weight.t(), scale_a=self._one, scale_b=self._one, out_dtype=self.torch.bfloat16
        )

    def _padding(self, rows: int, x: Array) -> Array:
        return self.torch.zeros((rows, x.shape[1]), dtype=self.torch.uint8, device=self.device)

    def norm(self, x: Array, weight: Array) -> Array:
        """Root-mean-square norm over the last axis."""
        return self.torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    def heads(self, x: Array, first: int, n_heads: int, head_dim: int) -> Array:
        """Heads from column ``first`` of a projection on, as (batch, head, token, value)."""
        part = x[..., first : first + n_heads * head_dim]
        return part.unflatten(-1, (n_heads, head_dim)).transpose(1, 2)

    def rotate(self, x: Array, cosine: Array, sine: Array) -> Array:
        """Rotary positions on queries or keys."""
        first, second = x.chunk(2, -1)
        return x * cosine + self.torch.cat([-second, first], -1) * sine

    def attend(self, query: Array, keys: Array, values: Array, causal: bool) -> Array:
        """Softmax attention, grouped queries allowed."""
        return self.torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, is_causal=causal, enable_gqa=query.shape[1] != keys.shape[1]
        )

    def merge(self, x: Array) -> Array:
        """Heads back to (batch, token, width)."""
        return x.transpose(1, 2).flatten(2)

    def gate(self, x: Array) -> Array:
        """``silu(first half) * second half`` of the last axis."""
        first, second = x.chunk(2, -1)
        return self.torch.nn.functional.silu(first) * second

    def total(self, x: Array) -> object:
        """Sum of all values: reads each once."""
        return x.sum()

    def copy(self, target: Array, source: Array) -> None:
        """Copy all values: reads and writes each once."""
        target.copy_(source)

    def choose(self, scores: Array) -> object:
        """Index of the largest score, on the host."""
        return scores.argmax().item()
