"""What questions share: a model, a machine with samples, a price, checks of what was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from computeledger.arrays import Num, Range, Uncertain, sample
from computeledger.economics.hosting.rent import hourly_price
from computeledger.errors import InputError
from computeledger.facts.editions import load_prices
from computeledger.facts.formats import FORMATS
from computeledger.facts.schema import Accelerator, System
from computeledger.physics.calibration.efficiency import efficiency, median_of
from computeledger.physics.calibration.serving import DEFAULT_TUNING
from computeledger.physics.calibration.training import load_all_factors, training_efficiency
from computeledger.physics.roofline import Machine
from computeledger.questions.grounds import fact_document
from computeledger.workloads.engines import constants_of
from computeledger.workloads.questions.setup import Sampled


def multiplied_in(chip: Accelerator, widths: Iterable[str]) -> dict[str, str]:
    """Precisions in which a chip multiplies those that it has no units for, or that are narrow on purpose."""
    natives = {width: chip.native_precision(width) for width in widths}
    units = {width: chip.wide_unit if native == "bf16" else native for width, native in natives.items()}
    return {width: unit for width, unit in units.items() if unit != FORMATS[width].own_unit}


def check_positive(name: str, value: Uncertain | None) -> None:
    """Refuse a quantity that is not greater than 0."""
    ends = (value.low,) if isinstance(value, Range) else (value,)
    if any(end is not None and end <= 0 for end in ends):
        raise InputError(f"{name} must be greater than 0")


def price_of(system: System, given: Uncertain | None) -> tuple[Uncertain, dict[str, Any]]:
    """A GPU-hour's price and where it comes from; the value of a range is its median."""
    if given is not None:
        return given, {"origin": "given", "edition": None, "value": median_of(given)}
    fact, edition = hourly_price(system.accelerator), load_prices().id
    if fact is None:
        raise InputError(f"price edition {edition} has no rent of {system.accelerator.id}: give --price '$2/h'")
    return fact.uncertain, {"origin": "fact", "edition": edition, "kind": "rent", **fact_document(fact)}


def draw_machine(
    system: System,
    quantities: Mapping[str, Uncertain],
    profile: str,
    sampling: Sampled,
    run: tuple[float | None, str] = (None, DEFAULT_TUNING),
) -> tuple[dict[str, Num], Machine, Machine]:
    """Samples of the question's quantities, the machine with samples of its factors, and with their medians.

    A quantity named ``efficiency.NAME`` stands in for the profile's own factor; ``run`` is the age of the engine's
    release and the tuning, as :func:`~computeledger.physics.calibration.efficiency.efficiency` takes them.
    """
    profile = constants_of(profile, system.accelerator)
    factors = {f"efficiency.{name}": factor.value for name, factor in load_all_factors(profile).items()}
    inputs = factors | dict(quantities)
    draws = sample(inputs, sampling.samples, sampling.seed)
    typical = {name: median_of(value) for name, value in inputs.items() if name.startswith("efficiency.")}
    drawn, at_median = (
        Machine(system, efficiency(profile, values, *run), training_efficiency(draws=values))
        for values in (draws, typical)
    )
    return draws, drawn, at_median
