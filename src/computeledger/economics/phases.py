"""What a phase of a plan comes to: tokens, FLOP, GPU-hours, utilisation, money and energy, with the working."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.setting import Setting
from computeledger.facts.architecture import Model
from computeledger.physics.roofline import Operation
from computeledger.physics.transformer import n_params_active
from computeledger.units import HOUR_S
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.serving_search import PriceOfSpeed


@dataclass(frozen=True, slots=True)
class Phase:
    """One ledger of a plan.

    Attributes
    ----------
    name : str
        ``pretraining``, ``rl``, ``inference`` or ``experiments``.
    tokens, flop, gpu_hours, utilization_fraction, usd, energy_j : float or ndarray
        Tokens that are multiplied [token], model FLOP without attention [FLOP], GPU-time [h], FLOP over dense bf16
        peak x GPU-time [-], money [USD], facility energy [J].
    accelerator, model : str
        What it runs on, and what runs.
    peak_flop_per_s : float
        Dense bf16 peak of one GPU, the reference of the utilisation [FLOP/s].
    details : mapping of str to (float or ndarray, str)
        Further figures with their units.
    figures : tuple of Figure
        The working.
    choices : mapping of str to str
        Layouts, batches and modes, and whether the plan gave them.
    operations : mapping of str to tuple of Operation
        For the roofline plot.
    curves : mapping of str to PriceOfSpeed
        Cost against speed of each stream's engine, at the medians of its inputs.
    """

    name: str
    tokens: Num
    flop: Num
    gpu_hours: Num
    utilization_fraction: Num
    usd: Num
    energy_j: Num
    accelerator: str
    model: str
    peak_flop_per_s: float
    details: Mapping[str, tuple[Num, str]]
    figures: tuple[Figure, ...]
    choices: Mapping[str, str]
    operations: Mapping[str, tuple[Operation, ...]]
    curves: Mapping[str, PriceOfSpeed] = field(default_factory=dict)

    @property
    def gpu_s_per_token(self) -> Num:
        """GPU-time of one token of the phase [s]."""
        return self.gpu_hours * HOUR_S / self.tokens


@dataclass(frozen=True, slots=True)
class Spent:
    """What a phase spends before money and energy.

    Attributes
    ----------
    tokens, flop, gpu_hours : float or ndarray
        Of the phase [token], [FLOP], [h].
    details : mapping of str to (float or ndarray, str)
        Further figures with their units.
    figures : tuple of Figure
        The working so far.
    choices : mapping of str to str
        Layouts, batches and modes.
    operations : mapping of str to tuple of Operation
        For the roofline plot.
    """

    tokens: Num
    flop: Num
    gpu_hours: Num
    details: Mapping[str, tuple[Num, str]]
    figures: tuple[Figure, ...]
    choices: Mapping[str, str]
    operations: Mapping[str, tuple[Operation, ...]]


def params_term(model: Model) -> Term:
    """Active parameters as an input of a formula.

    Parameters
    ----------
    model : Model
        Counted from its configuration.

    Returns
    -------
    Term
        ``N``.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> params_term(load_model("llama-3.1-8b")).name
    'N'
    """
    ground = f"counted from the configuration of {model.id}: output head in, input embedding out"
    return Term("N", n_params_active(model), "params", "figure", ground)


def plan_term(name: str, value: Num, unit: str, key: str) -> Term:
    return Term(name, value, unit, "plan", key)


def close(name: str, setting: Setting, spent: Spent) -> Phase:
    """Add utilisation, money and energy to what a phase spends.

    Parameters
    ----------
    name : str
        Of the phase.
    setting : Setting
        With price and power.
    spent : Spent
        Tokens, FLOP and GPU-time.

    Returns
    -------
    Phase
        With its working.

    Examples
    --------
    >>> close.__name__
    'close'
    """
    peak = setting.machine.bf16_flop_per_s
    hours = spent.gpu_hours
    utilization = spent.flop / (np.maximum(hours, 1e-300) * HOUR_S * peak)
    usd = hours * setting.usd_per_gpu_hour
    energy = hours * HOUR_S * setting.facility_w_per_gpu
    peak_fact = setting.machine.system.accelerator.peak_flop_per_s["bf16"]
    ground = f"{peak_fact.source}, {peak_fact.date}, {peak_fact.locator}"
    hours_term, flop_term = Term("GPU-hours", hours, "GPU-hours"), Term("FLOP", spent.flop, "FLOP")
    figures = (
        *spent.figures,
        Figure(f"{name}.utilization_fraction", utilization, "", "FLOP / (GPU-hours x 3600 s/h x dense bf16 peak)",
               (flop_term, hours_term, Term("dense bf16 peak", peak, "FLOP/s", "fact", ground))),
        Figure(f"{name}.usd", usd, "USD", "GPU-hours x price", (hours_term, setting.price_term)),
        Figure(f"{name}.energy_j", energy, "J", "GPU-hours x 3600 s/h x facility power", (hours_term, setting.power_term)),
    )  # fmt: skip
    return Phase(
        name=name, tokens=spent.tokens, flop=spent.flop, gpu_hours=hours, utilization_fraction=utilization, usd=usd,
        energy_j=energy, accelerator=setting.machine.system.accelerator.id, model=setting.model.id, peak_flop_per_s=peak,
        details=spent.details, figures=figures, choices=spent.choices, operations=spent.operations,
    )  # fmt: skip


def stated_hours(name: str, hours: Num, setting: Setting, flop: Num) -> tuple[Num, Figure] | None:
    """GPU-hours that the plan states, or that follow from a utilisation it states."""
    section = setting.section
    if "gpu_hours" in section:
        given = setting.number("gpu_hours")
        return given, Figure(f"{name}.gpu_hours", given, "GPU-hours", "as the plan states",
                             (plan_term("GPU-hours", given, "GPU-hours", f"{name}.gpu_hours"),))  # fmt: skip
    if "utilization" in section:
        share, peak = setting.number("utilization"), setting.machine.bf16_flop_per_s
        value = flop / (share * peak * HOUR_S)
        terms = (Term("FLOP", flop, "FLOP"), plan_term("utilisation", share, "", f"{name}.utilization"),
                 Term("dense bf16 peak", peak, "FLOP/s"))  # fmt: skip
        return value, Figure(f"{name}.gpu_hours", value, "GPU-hours", "FLOP / (utilisation x dense bf16 peak x 3600 s/h)", terms)  # fmt: skip
    return None
