"""Electrical energy of the GPUs, from nvidia-smi where it is present."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import threading
import time
from typing import IO

#: Time between two readings, in the milliseconds that nvidia-smi takes.
INTERVAL = 200


class EnergyCounter:
    """Adds up energy from readings of power, each held until the next one of its device."""

    def __init__(self) -> None:
        self._watts: dict[str, float] = {}
        self._joules, self._since = 0.0, 0.0

    def read(self, device: str, power_w: float, clock_s: float) -> None:
        """Take a reading."""
        self._joules = self.energy_j(clock_s) or 0.0
        self._since = clock_s
        self._watts[device] = power_w

    @property
    def devices(self) -> int:
        """Devices that have been read [-]."""
        return len(self._watts)

    def energy_j(self, clock_s: float) -> float | None:
        """Energy since the first reading; None before it [J]."""
        if not self._watts:
            return None
        return self._joules + sum(self._watts.values()) * max(clock_s - self._since, 0.0)


class PowerMeter:
    """Reads power in the background; without nvidia-smi it measures nothing and says so."""

    def __init__(self) -> None:
        self._counter = EnergyCounter()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        program = shutil.which("nvidia-smi")
        if program is None:
            return
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "").strip()
        query = [program, "--query-gpu=index,power.draw", "--format=csv,noheader,nounits"]
        query += [f"--loop-ms={INTERVAL}", *(["-i", chosen] if chosen else [])]
        self._process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603 - found on the path
        if self._process.stdout is not None:
            threading.Thread(target=self._follow, args=(self._process.stdout,), daemon=True).start()

    @property
    def devices(self) -> int:
        """Devices that have been read [-]."""
        with self._lock:
            return self._counter.devices

    def _follow(self, lines: IO[str]) -> None:
        for line in lines:
            device, _, text = line.partition(",")
            watts = _number(text)
            if watts is not None:
                with self._lock:
                    self._counter.read(device.strip(), watts, time.perf_counter())

    def energy_j(self) -> float | None:
        """Energy of the devices since the first reading; None where there is none [J]."""
        with self._lock:
            return self._counter.energy_j(time.perf_counter())

    def close(self) -> None:
        """Stop reading."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _number(text: str) -> float | None:
    """A reading; None where the device gives none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
