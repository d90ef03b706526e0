"""What a job may use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.units import KIB, MIB

#: Beyond this a limit would be none: half an hour, and a tebibyte.
MAX_S, MAX_BYTES, MAX_COUNT = 1800.0, int(MIB * MIB), 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a job may use; a task's tests each run under them."""

    wall_s: float = 10.0
    cpu_s: float = 5.0
    memory_bytes: int = int(256 * MIB)
    tmp_bytes: int = int(64 * MIB)
    output_bytes: int = int(4 * MIB)
    processes: int = 32
    open_files: int = 128

    def rlimits(self, *, grouped: bool) -> dict[str, int]:
        """The limits that each process carries itself."""
        out = {
            "RLIMIT_CPU": math.ceil(self.cpu_s),
            "RLIMIT_FSIZE": self.tmp_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_STACK": min(self.memory_bytes, int(256 * MIB)),
        }
        return out if grouped else {**out, "RLIMIT_AS": self.memory_bytes, "RLIMIT_NPROC": self.processes}


_BOUNDS = {
    "wall_s": (0.01, MAX_S), "cpu_s": (0.01, MAX_S), "memory_bytes": (8 * MIB, MAX_BYTES),
    "tmp_bytes": (KIB, MAX_BYTES), "output_bytes": (1.0, MAX_BYTES), "processes": (1, MAX_COUNT),
    "open_files": (16, MAX_COUNT),
}  # fmt: skip


def read_limits(given: Any, default: Limits | None = None) -> Limits:
    """Read the limits of a task.

    Examples
    --------
    >>> read_limits({"wall_s": 2, "memory_bytes": 67108864}).memory_bytes
    67108864
    >>> read_limits({"wall": 2})
    Traceback (most recent call last):
    computeledger.errors.InputError: limits: unknown 'wall': did you mean 'wall_s'?
    """
    base = default or Limits()
    if not isinstance(given, Mapping):
        raise InputError(f"limits: a table is needed, not {shown(given)}")
    values: dict[str, Any] = {field.name: getattr(base, field.name) for field in fields(Limits)}
    for name, value in given.items():
        if name not in _BOUNDS:
            raise InputError(f"limits: unknown {shown(name)}: {nearest(str(name), _BOUNDS)}")
        low, high = _BOUNDS[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise InputError(f"limits: {name} {shown(value)}: a number from {low:g} to {high:g} is needed")
        values[name] = float(value) if name.endswith("_s") else int(value)
    return Limits(**values)
