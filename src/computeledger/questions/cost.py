"""The question of ``computeledger cost``: what a used GPU-hour costs rented, reserved and owned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import asked
from computeledger.workloads.questions.setup import Sampled

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


@dataclass(frozen=True, kw_only=True)
class CostQuestion(Sampled):
    """The same GPU-hour rented, reserved and owned; what is left out comes from the newest editions."""

    system: str | None = asked(
        "text", "System id, a count (2xl40s, 4xh100-nvl8), or path to a system TOML.", metavar="ID"
    )
    accelerator: str | None = asked(
        "text", "Accelerator id, or path to a TOML file, instead of a system.", metavar="ID"
    )
    kind: tuple[str, ...] = asked("texts", "rent, reserve or own; may be repeated.", (), metavar="KIND", blank="all")
    occupancy: Uncertain | None = asked(
        "fraction", "Hours used as a share of hours paid, such as 60%..90%.", is_open=True, metavar="F"
    )
    electricity: Uncertain | None = asked("usd_per_kwh", "Price of electricity.", unit="$/kWh", metavar="$/kWh")
    life: Uncertain | None = asked("years", "Years of service.", unit="years", is_open=True, metavar="Y")
    cost_of_capital: Uncertain | None = asked("fraction", "Cost of capital per year, such as 8%..12%.", metavar="F")
    capex: Uncertain | None = asked(
        "usd", "Purchase price of one GPU, its share of the building included.", unit="$", metavar="$"
    )
    operation: Uncertain | None = asked(
        "usd_per_year", "Staff, repairs and space per GPU.", unit="$/year", metavar="$/year"
    )

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        if (self.accelerator is None) == (self.system is None):
            raise InputError("give --system ID, or --accelerator ID")
