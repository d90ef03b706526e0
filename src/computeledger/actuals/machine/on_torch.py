"""PyTorch's kernels on CPU, CUDA and ROCm. The library is handed in, so that this file loads without it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from computeledger.actuals.machine.kernels import Array, Kernels, host_memory_bytes, processor_name

#: First compute capability with 8-bit floating-point products in PyTorch.
_FP8_CAPABILITY = (8, 9)
#: Values that are drawn; a longer array repeats them.
_DRAWN = 65_521
#: Rows of an 8-bit product come in multiples of this [token].
_FP8_ROWS = 16


@dataclass(frozen=True)
class TorchKernels(Kernels):
    """PyTorch in bf16, with fp32 (and fp8 where the GPU has it) for comparison."""

    torch: Any

    def repeated(self, call: Callable[[], object], calls: int, captured: bool) -> Callable[[], object]:
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
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        clock = time.perf_counter if self.wall else time.process_time
        start = clock()
        call()
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return clock() - start

    def random(self, shape: tuple[int, ...], precision: str) -> Array:
        size = math.prod(shape)
        drawn = (self.torch.randn(_DRAWN, device=self.device) * 0.02).to(_type(self.torch, precision))
        return drawn.repeat(-(-size // _DRAWN))[:size].reshape(shape).contiguous()

    def linear(self, x: Array, weight: Array) -> Array:
        if x.dtype != _type(self.torch, "fp8"):
            return self.torch.nn.functional.linear(x, weight)
        short = -x.shape[0] % _FP8_ROWS
        if short:
            x = self.torch.cat([x.view(self.torch.uint8), self._padding(short, x)]).view(x.dtype)
        one = self.torch.ones((), device=self.device)
        return self.torch._scaled_mm(  # noqa: SLF001 (PyTorch has no public name for the 8-bit product)
            x, weight.t(), scale_a=one, scale_b=one, out_dtype=self.torch.bfloat16
        )

    def _padding(self, rows: int, x: Array) -> Array:
        return self.torch.zeros((rows, x.shape[1]), dtype=self.torch.uint8, device=self.device)

    def norm(self, x: Array, weight: Array) -> Array:
        return self.torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    def heads(self, x: Array, first: int, n_heads: int, head_dim: int) -> Array:
        part = x[..., first : first + n_heads * head_dim]
        return part.unflatten(-1, (n_heads, head_dim)).transpose(1, 2)

    def rotate(self, x: Array, cosine: Array, sine: Array) -> Array:
        first, second = x.chunk(2, -1)
        return x * cosine + self.torch.cat([-second, first], -1) * sine

    def attend(self, query: Array, keys: Array, values: Array, causal: bool) -> Array:
        return self.torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, is_causal=causal, enable_gqa=query.shape[1] != keys.shape[1]
        )

    def merge(self, x: Array) -> Array:
        return x.transpose(1, 2).flatten(2)

    def gate(self, x: Array) -> Array:
        first, second = x.chunk(2, -1)
        return self.torch.nn.functional.silu(first) * second

    def total(self, x: Array) -> object:
        return x.sum()

    def copy(self, target: Array, source: Array) -> None:
        target.copy_(source)

    def choose(self, scores: Array) -> object:
        return scores.argmax().item()


def _type(torch: Any, precision: str) -> Any:
    return {"bf16": torch.bfloat16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn}[precision]


def torch_kernels(torch: Any, device: str, threads: int) -> TorchKernels:
    """PyTorch's kernels on a device."""
    torch.set_num_threads(threads)
    version = str(torch.__version__)
    if device == "cpu":
        found = (processor_name(), version, ("bf16", "fp32"), threads, threads > 1, host_memory_bytes())
        return TorchKernels("torch", device, *found, torch)
    narrow = torch.version.hip is None and torch.cuda.get_device_capability() >= _FP8_CAPABILITY
    precisions = ("bf16", "fp8", "fp32") if narrow else ("bf16", "fp32")
    memory_bytes = float(torch.cuda.get_device_properties(0).total_memory)
    name = str(torch.cuda.get_device_name())
    return TorchKernels("torch", device, name, version, precisions, threads, True, memory_bytes, torch)
