"""One device: its clock, its memory, and models of random weights on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from computeledger.actuals.recording.devices import accelerator_of
from computeledger.actuals.recording.run import PhaseBook, RunLedger, RunMachine
from computeledger.facts.load import load_system
from rntp.gpu.settings import CALIBRATION
from rntp.machine import this_machine

#: Precision of what is measured; weights that are trained are kept in float32.
PRECISION = "bf16"


@dataclass(frozen=True, slots=True)
class Device:
    """A CUDA GPU, or the CPU of a dry run."""

    device: torch.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def peak_bytes(self) -> float | None:
        """Most memory that tensors have held since the last call, which it starts anew; None on a CPU [B]."""
        if not self.is_cuda:
            return None
        peak = float(torch.cuda.max_memory_allocated(self.device))
        torch.cuda.reset_peak_memory_stats(self.device)
        return peak

    def seconds(self, call: Callable[[], object]) -> float:
        """Time a call, the device's work included [s]."""
        self.wait()
        begun = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - begun

    def tokens(self, vocabulary: int, batch: int, length: int, seed: int = 0) -> torch.Tensor:
        """Draw random token ids."""
        chance = torch.Generator().manual_seed(seed)
        return torch.randint(1, vocabulary, (batch, length), generator=chance).to(self.device)

    def autocast(self) -> torch.autocast:
        """Multiply in the measured precision."""
        return torch.autocast(self.device.type, torch.bfloat16)

    def model(self, folder: Path, dtype: torch.dtype) -> Any:
        """Make a model of a configuration with random weights, on the device."""
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.device(self.device):
            return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")


def sheet_of(device: torch.device) -> str | None:
    """Find the shipped data sheet of a GPU; None on a CPU, and where no name and memory agree.

    Parameters
    ----------
    device : torch.device
        The device.

    Returns
    -------
    str or None
        Id of the accelerator.

    Examples
    --------
    >>> sheet_of(torch.device("cpu")) is None
    True
    """
    if device.type != "cuda":
        return None
    memory_bytes = float(torch.cuda.get_device_properties(device).total_memory)
    return accelerator_of(torch.cuda.get_device_name(device), memory_bytes)


def measured_machine(device: torch.device, output: Path) -> RunMachine:
    """Describe the machine; without a data sheet its peak is the calibration's fastest product, where there is one.

    Parameters
    ----------
    device : torch.device
        The device.
    output : Path
        Folder of the report, in which the calibration stands.

    Returns
    -------
    RunMachine
        With the peak that utilisation is against [FLOP/s].

    Examples
    --------
    >>> measured_machine(torch.device("cpu"), Path("nowhere")).peak_source
    'measured: matrix product of side 512 in bf16'
    """
    here, system = this_machine(device, precision=PRECISION), output / CALIBRATION / "system.toml"
    if sheet_of(device) is not None or not system.is_file():
        return here
    peak = load_system(str(system)).accelerator.peak(PRECISION)
    return replace(here, peak_flop_per_s=peak, peak_source=f"measured: fastest product of the calibration, {PRECISION}")


class MemoryLedger(RunLedger):
    """A run ledger that also notes the peak memory of every phase, without that of phases within it."""

    def __init__(self, *given: Any, peak: Callable[[], float | None], **options: Any) -> None:
        super().__init__(*given, **options)
        self._peak, self._within = peak, list[PhaseBook]()

    @contextmanager
    def phase(self, name: str, step: int | None = None) -> Iterator[PhaseBook]:
        """Charge what happens inside to a phase, time and memory."""
        self._note()
        with super().phase(name, step) as book:
            self._within.append(book)
            try:
                yield book
            finally:
                self._note()
                self._within.remove(book)

    def _note(self) -> None:
        """Give the memory since the last call to the innermost phase."""
        peak = self._peak()
        if self._within and peak is not None:
            book = self._within[-1]
            book.peak_memory_bytes = max(book.peak_memory_bytes or 0.0, peak)
