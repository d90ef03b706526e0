"""All-reduce between processes of this machine: PyTorch's collectives, or shared memory where there is no PyTorch.

Processes wait for one another, so the time is the clock's, and the slowest process's counts.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.actuals.machine.kernels import Kernels
from computeledger.actuals.machine.microbenchmarks import Measurement, load_torch
from computeledger.errors import InputError

#: Values of a message (fp32), repeats of each, seconds after which a process counts as lost.
_SIZES, _REPEATS, _PATIENCE_S = (256, 16_384, 262_144, 2_097_152), 15, 120.0
_VALUE_BYTES = 4


@dataclass(frozen=True, slots=True)
class _Group:
    """What every process of a measurement is told."""

    n: int
    backend: str
    device: str
    meeting: str
    memory: str


def measure_all_reduce(kernels: Kernels, n_processes: int) -> list[Measurement]:
    """Time all-reduces over sizes."""
    if n_processes == 1:
        return []
    if kernels.device == "cuda" and n_processes > (gpus := int(load_torch().cuda.device_count())):
        raise InputError(f"--processes {n_processes}: there are {gpus} GPUs, and each process takes one")
    context = multiprocessing.get_context("spawn")
    held = SharedMemory(create=True, size=(n_processes + 1) * max(_SIZES) * _VALUE_BYTES)
    try:
        with tempfile.TemporaryDirectory() as folder:
            group = _Group(n_processes, kernels.name, kernels.device, str(Path(folder) / "meeting"), held.name)
            barrier, answers = context.Barrier(n_processes), context.Queue()
            started = [
                context.Process(target=_take_part, args=(rank, group, barrier, answers), daemon=True)
                for rank in range(n_processes)
            ]
            for one in started:
                one.start()
            found = _gather(started, answers)
            for one in started:
                one.join(_PATIENCE_S)
    finally:
        held.close()
        held.unlink()
    slowest = np.max(np.stack(found), 0)
    return [
        Measurement("all-reduce", "fp32", {"processes": n_processes, "values": size}, 0.0, float(size * _VALUE_BYTES),
                    float(np.min(times)), float(np.median(times) / np.min(times) - 1))
        for size, times in zip(_SIZES, slowest, strict=True)
    ]  # fmt: skip


def _gather(started: list[Any], answers: Any) -> list[NDArray[np.float64]]:
    """Each process's times; a process that ends without an answer ends the measurement."""
    found: list[NDArray[np.float64]] = []
    deadline = time.monotonic() + _PATIENCE_S
    while len(found) < len(started):
        if not answers.empty():
            found.append(answers.get())
        elif any(one.exitcode for one in started) or time.monotonic() > deadline:
            for one in started:
                one.terminate()
            raise InputError(f"--processes {len(started)}: a process of the all-reduce failed; its message is above")
        else:
            time.sleep(0.01)
    return found


def _take_part(rank: int, group: _Group, barrier: Any, answers: Any) -> None:
    """One process: times of every size, by repeat."""
    reduce = _torch_reduce(rank, group) if group.backend == "torch" else _shared_reduce(rank, group, barrier)
    out = []
    for size in _SIZES:
        once = reduce(size)
        for _ in range(2):
            once()
        times = []
        for _ in range(_REPEATS):
            barrier.wait(_PATIENCE_S)
            start = time.perf_counter()
            once()
            times.append(time.perf_counter() - start)
        out.append(times)
    answers.put(np.array(out))
    barrier.wait(_PATIENCE_S)


def _torch_reduce(rank: int, group: _Group) -> Callable[[int], Callable[[], object]]:
    torch = load_torch()
    gpu = group.device == "cuda"
    torch.set_num_threads(1)
    if gpu:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl" if gpu else "gloo", init_method=f"file://{group.meeting}", rank=rank, world_size=group.n
    )

    def of(size: int) -> Callable[[], object]:
        values = torch.ones(size, device=f"cuda:{rank}" if gpu else "cpu")

        def once() -> None:
            torch.distributed.all_reduce(values)
            if gpu:
                torch.cuda.synchronize()

        return once

    return of


def _shared_reduce(rank: int, group: _Group, barrier: Any) -> Callable[[int], Callable[[], object]]:
    """Each process adds up its slice of all messages, then takes the whole sum: 2 (n-1)/n of the bytes each way."""
    held = SharedMemory(group.memory)
    n = group.n

    def of(size: int) -> Callable[[], object]:
        table: NDArray[np.float32] = np.ndarray((n + 1, size), np.float32, held.buf)
        mine = np.ones(size, np.float32)
        part = slice(rank * size // n, (rank + 1) * size // n)

        def once() -> None:
            table[rank] = mine
            barrier.wait(_PATIENCE_S)
            table[n, part] = table[:n, part].sum(0)
            barrier.wait(_PATIENCE_S)
            mine[:] = table[n] / n

        return once

    return of
