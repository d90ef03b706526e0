"""Answer what a GPU-hour costs: rented, reserved and owned, with energy and carbon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from computeledger.economics.hosting.cost import GpuHourCost, OwnedGpu, estimate_gpu_hour
from computeledger.facts.editions import PRICE_KINDS
from computeledger.facts.load import load_accelerator, load_system, system_ids
from computeledger.fields import Given
from computeledger.questions.answer import Answer, Quantity, from_python
from computeledger.questions.cost import CostQuestion
from computeledger.questions.document import picked
from computeledger.questions.grounds import figure_document

#: Field of the question -> the input that it replaces; ``{chip}`` stands for the accelerator.
_GIVEN = {
    "occupancy": "ownership.occupancy_fraction",
    "electricity": "ownership.electricity_usd_per_kwh",
    "life": "ownership.life_years",
    "cost_of_capital": "ownership.cost_of_capital_fraction",
    "capex": "ownership.{chip}.capex_usd_per_gpu",
    "operation": "ownership.operation_usd_per_gpu_year",
}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class CostAnswer(Answer):
    """What a used GPU-hour costs."""

    question: CostQuestion
    result: GpuHourCost

    @property
    def usd_per_gpu_hour(self) -> dict[str, Quantity]:
        """Cost of a used GPU-hour by kind: ``rent``, ``reserve``, ``own`` [USD/h]."""
        return {kind: Quantity.of(hour.usd_per_gpu_hour, "USD/h") for kind, hour in self.result.by_kind.items()}

    @property
    def energy_j_per_gpu_hour(self) -> Quantity:
        """Energy at the meter of the facility [J]."""
        return Quantity.of(self.result.energy_j_per_gpu_hour, "J")

    @property
    def carbon_kg_per_gpu_hour(self) -> Quantity:
        """Carbon dioxide of that energy from the grid [kg]."""
        return Quantity.of(self.result.carbon_kg_per_gpu_hour, "kg")

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (its working is always there)
        """As ``computeledger cost --json`` prints it."""
        cost = self.result
        gpu = cost.gpu
        return {
            "accelerator": gpu.accelerator.id,
            "system": gpu.system.id if gpu.system is not None else None,
            "kinds": {
                kind: {
                    **picked(hour, "usd_per_gpu_hour", "components", units={"components": "USD/h"}),
                    "working": figure_document(hour.figure),
                }
                for kind, hour in cost.by_kind.items()
            },
            "missing": dict(cost.missing),
            **picked(
                cost,
                "energy_j_per_gpu_hour",
                "carbon_kg_per_gpu_hour",
                "editions",
                "sources",
                units={"energy_j_per_gpu_hour": "J", "carbon_kg_per_gpu_hour": "kg"},
            ),
        }


def cost(question: CostQuestion | None = None, /, **given: Given) -> CostAnswer:
    """What a used GPU-hour costs rented, reserved and owned, with its energy and carbon.

    Parameters
    ----------
    question : CostQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.questions.cost.CostQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    CostAnswer
        With a quantity in USD per used GPU-hour for each kind.

    Raises
    ------
    InputError
        For bad input, and for a kind that has no price.

    Examples
    --------
    >>> answer = cost(system="h100-nvl8", kind="own", occupancy="90%")
    >>> half = cost(answer.question, occupancy="45%")
    >>> round(half.usd_per_gpu_hour["own"].p50 / answer.usd_per_gpu_hour["own"].p50, 1)
    2.0
    """
    return from_python(CostQuestion, answer_cost, question, given)


def answer_cost(question: CostQuestion) -> CostAnswer:
    """Answer ``computeledger cost``."""
    gpu = _gpu(question)
    stated = {name.format(chip=gpu.accelerator.id): getattr(question, key) for key, name in _GIVEN.items()}
    given = {name: value for name, value in stated.items() if value is not None}
    found = estimate_gpu_hour(gpu, given, question.kind or PRICE_KINDS, question.samples, question.seed)
    return CostAnswer(question, found)


def _gpu(question: CostQuestion) -> OwnedGpu:
    """What an hour is asked of: a system, or an accelerator in the first shipped system that is made of it."""
    if question.system is not None:
        found = load_system(question.system)
        return OwnedGpu(found.accelerator, found)
    chip = load_accelerator(question.accelerator or "")
    made_of_it = [one for one in map(load_system, system_ids()) if one.accelerator.id == chip.id]
    return OwnedGpu(chip, made_of_it[0] if made_of_it else None)
