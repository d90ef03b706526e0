"""The question of ``computeledger sheet``: what scraps say of a closed model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import Asked, asked

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Fields of which any one is a clue.
CLUES = (
    "price", "speed", "date", "score", "usd", "gpu_hours", "chips", "power", "flop", "tokens", "total",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SheetQuestion(Asked):
    """What a price sheet, speed, scores, a leaked cost, chips and months, power and a date say of a model together."""

    price: str | None = asked(
        "text", "List prices of input and output in USD per million tokens, such as 3/15.", metavar="IN/OUT",
        label="List prices", group="The offer",
    )  # fmt: skip
    price_date: str | None = asked(
        "text", "Day on which the prices were listed: the market's fall since is taken off.", metavar="YYYY-MM-DD",
        label="Listed on", group="The offer", blank="the release, or 2026-11-21",
    )  # fmt: skip
    premium: Uncertain = asked(
        "ratio", "Price relative to the open market's, such as 3 or 1.5..6: a closed model may cost more.", 1.0,
        is_open=True, least=1e-3, most=1e3, metavar="X", label="Premium", group="The offer", slider=(0.2, 20),
    )  # fmt: skip
    speed: Uncertain | None = asked(
        "tokens_per_s", "Output speed that one user sees.", unit="tokens/s", least=0.1, most=1e5, metavar="R",
        label="Speed", group="The offer", slider=(5, 1000),
    )  # fmt: skip
    date: str | None = asked("text", "Day of release.", metavar="YYYY-MM-DD", label="Release", group="The offer")
    score: str | None = asked(
        "text",
        "Benchmark scores, such as gpqa-diamond=59%,otis-mock-aime=16%, or Epoch's Capabilities Index, eci=133.",
        metavar="NAME=V,...",
        label="Scores",
        group="The offer",
    )
    usd: Uncertain | None = asked(
        "usd", "Cost of the final training run.", unit="$", least=100.0, metavar="$", label="Cost", group="The run",
        slider=(1e5, 1e10),
    )  # fmt: skip
    gpu_hours: Uncertain | None = asked(
        "gpu_hours", "GPU-hours of pretraining.", unit="GPU-hours", least=1.0, metavar="H", label="GPU-hours",
        group="The run", slider=(1e4, 5e8),
    )  # fmt: skip
    chips: Uncertain | None = asked(
        "count", "Chips of the run; with --duration.", unit="", least=1.0, most=5e8, metavar="N", label="Chips",
        group="The run", slider=(100, 1e6),
    )  # fmt: skip
    power: Uncertain | None = asked(
        "w", "Facility power of the run; with --duration.", unit="MW", is_open=True, metavar="W", label="Power",
        group="The run", slider=(0.1, 1e4),
    )  # fmt: skip
    duration: Uncertain | None = asked(
        "s", "Duration of the run, with --chips or --power.", unit=None, is_open=True, metavar="T", label="Duration",
        group="The run",
    )  # fmt: skip
    flop: Uncertain | None = asked(
        "flop", "Training FLOP as claimed.", unit="FLOP", least=5e17, metavar="FLOP", label="Training", group="Claims",
        slider=(1e21, 1e28),
    )  # fmt: skip
    tokens: Uncertain | None = asked(
        "tokens", "Pretraining tokens as claimed.", unit="tokens", least=1e8, metavar="N", label="Pretraining",
        group="Claims", slider=(1e11, 1e14),
    )  # fmt: skip
    total: Uncertain | None = asked(
        "count", "Total parameters as claimed.", unit="", least=1e7, metavar="N", label="Parameters in all",
        group="Claims", slider=(1e8, 1e13),
    )  # fmt: skip
    accelerator: str = asked("text", "Chip of the run.", "h100-sxm5-80gb", metavar="ID", label="Chip", group="The run")
    utilization: Uncertain | None = asked(
        "fraction", "Utilisation of the run, as a share of peak FLOP/s in bf16.", is_open=True, metavar="F",
        label="Utilisation", group="The run", blank="that of open models",
    )  # fmt: skip
    gpu_price: Uncertain = asked(
        "usd_per_hour", "Price of a GPU-hour.", "1.5..4", unit="$/h", is_open=True, metavar="$/h", label="GPU-hour",
        group="The run", slider=(0.5, 20),
    )  # fmt: skip

    def check(self) -> None:
        """Refuse an empty sheet, and parts of a clue."""
        if all(getattr(self, name) is None for name in CLUES):
            spelled = ", ".join(f"--{name.replace('_', '-')}" for name in CLUES)
            raise InputError(f"no clue is given; give one or more of {spelled}")
        if self.price_date is not None and self.price is None:
            raise InputError("--price-date says nothing alone; give --price with it")
        if self.duration is None and not (self.chips is None and self.power is None):
            raise InputError("--duration: needed, --chips and --power are clues only with the time of the run")
        if self.duration is not None and self.chips is None and self.power is None:
            raise InputError("--duration says nothing alone; give --chips or --power with it")
