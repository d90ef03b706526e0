"""The question of ``computeledger calibrate``: the efficiency profile of the machine that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.fields import Asked, asked

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


@dataclass(frozen=True, kw_only=True)
class CalibrateQuestion(Asked):
    """Measure this machine and fit its profile: products, memory, attention, launches, all-reduce."""

    name: str = asked("text", "Name of the profile and of the system.", "this-machine", metavar="NAME")
    write: str | None = asked(
        "text", "Write profile.toml, system.toml and accelerator.toml there.", metavar="FOLDER", blank="nothing"
    )
    backend: str = asked("text", "Library to measure.", "auto", choices=("auto", "torch", "numpy"))
    device: str = asked("text", "Device to measure; ROCm counts as cuda.", "auto", choices=("auto", "cpu", "cuda"))
    threads: int | None = asked("whole", "Threads of CPU kernels.", least=1, metavar="N", blank="as the library has")
    processes: int = asked("whole", "Processes of the all-reduce, one per GPU.", 1, least=1, metavar="N")
    budget: float = asked(
        "s", "Time to spend on measurements.", 40.0, unit=None, is_single=True, metavar="T", blank="40s"
    )
    like: str = asked(
        "text", "Profile of what is not measured here, such as an engine's host time: vllm, sglang, trtllm, ideal.",
        "ideal", metavar="P",
    )  # fmt: skip
    accelerator: str | None = asked(
        "text",
        "Shipped accelerator that this machine has; fractions refer to its datasheet.",
        metavar="ID",
        blank="unknown",
    )
    power: Uncertain | None = asked(
        "w", "Power of the machine under load.", unit="W", metavar="W", blank="unknown: energy counts as 0"
    )
