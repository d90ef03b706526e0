"""What a phase of a plan comes to: tokens, FLOP, GPU-hours, utilisation, money and energy, with the working."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.plan.setting import Setting
from computeledger.errors import PlanError
from computeledger.facts.architecture import Model
from computeledger.facts.schema import Accelerator
from computeledger.physics.roofline import Operation
from computeledger.physics.transformer import n_params_active
from computeledger.units import HOUR_S, format_percent, format_si
from computeledger.workloads.result import Figure, Term, fact_term
from computeledger.workloads.serving.search import PriceOfSpeed


@dataclass(frozen=True, slots=True)
class Carried:
    """What a stream of inference carries, and its share of the phase's GPU-time."""

    key: str
    prefilled_tokens: Num
    cached_tokens: Num
    output_tokens: Num
    time_fraction: Num


@dataclass(frozen=True, slots=True)
class Phase:
    """One ledger of a plan."""

    name: str
    tokens: Num
    flop: Num
    gpu_hours: Num
    utilization_fraction: Num
    usd: Num
    energy_j: Num
    chip: Accelerator
    model: str
    peak_flop_per_s: float
    details: Mapping[str, tuple[Num, str]]
    figures: tuple[Figure, ...]
    choices: Mapping[str, str]
    operations: Mapping[str, tuple[Operation, ...]]
    assumptions: tuple[Term, ...] = ()
    curves: Mapping[str, PriceOfSpeed] = field(default_factory=dict)
    carried: tuple[Carried, ...] = ()

    @property
    def accelerator(self) -> str:
        """Id of its chip."""
        return self.chip.id

    @property
    def gpu_s_per_token(self) -> Num:
        """GPU-time of one token of the phase [s/token]."""
        return self.gpu_hours * HOUR_S / np.maximum(self.tokens, 1e-300)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a phase spends before money and energy."""

    tokens: Num
    flop: Num
    gpu_hours: Num
    details: Mapping[str, tuple[Num, str]] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, tuple[Operation, ...]] = field(default_factory=dict)
    assumptions: tuple[Term, ...] = ()


def params_term(model: Model) -> Term:
    """Active parameters as an input of a formula.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> term = params_term(load_model("llama-3.1-8b"))
    >>> term.name, term.value, term.unit
    ('N', 7504658432, 'params')
    """
    ground = f"counted from the configuration of {model.id}: output head in, input embedding out"
    return Term("N", n_params_active(model), "params", "figure", ground)


def make_phase(name: str, setting: Setting, spent: Spent) -> Phase:
    """Add utilisation, money and energy to what a phase spends.

    ``utilisation = FLOP / (GPU-hours x 3600 s/h x dense bf16 peak)``; ``USD = GPU-hours x price``;
    ``J = GPU-hours x 3600 s/h x facility power``.

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
    >>> setting = make_setting(plan, plan.sections["pretraining"], sample(uncertain_inputs(plan)))
    >>> phase = make_phase("pretraining", setting, Spent(15e12, 6.75e23, 0.5e6))
    >>> phase.usd, round(float(phase.utilization_fraction), 3)
    (1000000.0, 0.379)
    """
    peak = setting.machine.bf16_flop_per_s
    hours = spent.gpu_hours
    utilization = spent.flop / (np.maximum(hours, 1e-300) * HOUR_S * peak)
    fastest = max(fact.value for fact in setting.machine.system.accelerator.peak_flop_per_s.values()) / peak
    if median(utilization) > fastest:
        raise PlanError(
            f"[{name}] {format_si(median(hours))} GPU-hours for {format_si(median(spent.flop), 'FLOP')} is faster than "
            f"the chips compute: {format_percent(median(utilization))} of the dense bf16 peak"
        )
    usd = hours * setting.usd_per_gpu_hour
    energy = hours * HOUR_S * setting.facility_w_per_gpu
    hours_term, flop_term = Term("GPU-hours", hours, "GPU-hours"), Term("FLOP", spent.flop, "FLOP")
    accelerator = setting.machine.system.accelerator
    peak_term = replace(fact_term("dense bf16 peak", accelerator.peak_flop_per_s["bf16"]), unit="FLOP/s")
    formula = "FLOP / (GPU-hours x 3600 s/h x dense bf16 peak)"
    energy_terms = (hours_term, setting.power_term)
    figures = (
        *spent.figures,
        Figure(f"{name}.utilization_fraction", utilization, "", formula, (flop_term, hours_term, peak_term)),
        Figure(f"{name}.usd", usd, "USD", "GPU-hours x price", (hours_term, setting.price_term)),
        Figure(f"{name}.energy_j", energy, "J", "GPU-hours x 3600 s/h x facility power", energy_terms),
    )
    return Phase(
        name=name,
        tokens=spent.tokens,
        flop=spent.flop,
        gpu_hours=hours,
        utilization_fraction=utilization,
        usd=usd,
        energy_j=energy,
        chip=accelerator,
        model=setting.model.id,
        peak_flop_per_s=peak,
        details=spent.details,
        figures=figures,
        choices=spent.choices,
        operations=spent.operations,
        assumptions=spent.assumptions,
    )


def stated_gpu_hours(name: str, setting: Setting, flop: Num) -> Figure | None:
    """GPU-hours that the plan states, or that follow from a utilisation it states.

    ``GPU-hours = FLOP / (utilisation x dense bf16 peak x 3600 s/h)``

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
    >>> setting = make_setting(plan, plan.sections["pretraining"], sample(uncertain_inputs(plan)))
    >>> round(stated_gpu_hours("pretraining", setting, 6.75e23).value)
    473772
    """
    if "gpu_hours" in setting.section:
        given = setting.number("gpu_hours")
        term = Term("GPU-hours", given, "GPU-hours", "plan", f"{name}.gpu_hours")
        return Figure(f"{name}.gpu_hours", given, "GPU-hours", "as the plan states", (term,))
    if "utilization" in setting.section:
        share, peak = setting.number("utilization"), setting.machine.bf16_flop_per_s
        terms = (
            Term("FLOP", flop, "FLOP"),
            Term("utilisation", share, "", "plan", f"{name}.utilization"),
            Term("dense bf16 peak", peak, "FLOP/s"),
        )
        formula = "FLOP / (utilisation x dense bf16 peak x 3600 s/h)"
        return Figure(f"{name}.gpu_hours", flop / (share * peak * HOUR_S), "GPU-hours", formula, terms)
    return None
