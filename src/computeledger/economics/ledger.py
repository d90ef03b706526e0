"""The life-cycle ledger of a plan: three phases in two currencies, their balance, and what drives the spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, sample, spearman
from computeledger.economics.phase_inference import inference_phase
from computeledger.economics.phase_pretraining import pretraining_phase
from computeledger.economics.phase_rl import rl_phase
from computeledger.economics.phases import Phase
from computeledger.economics.plan import Plan, Section
from computeledger.economics.setting import Setting, make_setting, price_kind, system_of, uncertain_inputs
from computeledger.facts.load import load_prices
from computeledger.physics.blackboard import tokens_inference_balanced, tokens_rl_balanced
from computeledger.physics.blackboard_training import overtraining_ratio
from computeledger.units import HOUR_S
from computeledger.workloads.result import Figure, Term, sources_of


@dataclass(frozen=True, slots=True)
class Driver:
    """An uncertain input and how strongly it moves the totals.

    Attributes
    ----------
    name : str
        Of the input.
    value : Range
        Its 90 % interval, in SI.
    gpu_hours, usd : float
        Rank correlation with the total [-].
    """

    name: str
    value: Range
    gpu_hours: float
    usd: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """A plan's result.

    Attributes
    ----------
    plan : Plan
        What was asked.
    phases : mapping of str to Phase
        ``pretraining``, ``rl``, ``inference`` and, where planned, ``experiments``; a skipped phase is absent.
    balance : mapping of str to (float or ndarray, str)
        How the ledgers stand to one another, with units.
    figures : tuple of Figure
        Working of the balance.
    drivers : tuple of Driver
        Strongest first.
    assumptions : tuple of Term
        What was assumed because the plan is silent, and the efficiency factors.
    editions : mapping of str to str
        Dated facts that were used.
    sources : tuple of str
        Source keys that the figures rest on.
    n_samples, seed : int
        Of the sampling [-].
    """

    plan: Plan
    phases: Mapping[str, Phase]
    balance: Mapping[str, tuple[Num, str]]
    figures: tuple[Figure, ...]
    drivers: tuple[Driver, ...]
    assumptions: tuple[Term, ...]
    editions: Mapping[str, str]
    sources: tuple[str, ...]
    n_samples: int
    seed: int

    def total(self, quantity: str) -> Num:
        """Sum of a quantity over all phases, experiments included, in its own unit."""
        total: Num = 0.0
        for phase in self.phases.values():
            total = total + getattr(phase, quantity)
        return total

    def shares(self, quantity: str) -> dict[str, Num]:
        """Each of the three ledgers' share of a quantity, experiments apart [-]."""
        three = {name: getattr(phase, quantity) for name, phase in self.phases.items() if name != "experiments"}
        total: Num = 0.0
        for part in three.values():
            total = total + part
        return {name: part / np.maximum(total, 1e-300) for name, part in three.items()}


def estimate_ledger(plan: Plan, n_samples: int = 4096, seed: int = 0) -> Ledger:
    """Work out a plan.

    Parameters
    ----------
    plan : Plan
        From :func:`computeledger.economics.plan.load_plan`.
    n_samples : int
        Samples of the uncertain inputs [-].
    seed : int
        Of the sampling [-]; the same seed gives the same result.

    Returns
    -------
    Ledger
        Phases, balance, drivers and working.

    Examples
    --------
    >>> from computeledger.economics.plan import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "none"}, "inference": {"skip": "none"}})
    >>> ledger = estimate_ledger(plan, n_samples=64)
    >>> round(ledger.phases["pretraining"].gpu_hours / 1e6, 2)
    0.47
    """
    inputs = uncertain_inputs(plan)
    draws = sample(inputs, n_samples, seed)
    settings = {name: _settings(plan, section, draws) for name, section in plan.sections.items() if "skip" not in section}
    phases, figures = _phases(plan, settings)
    if "experiments" in plan.sections:
        phases["experiments"] = _experiments(plan, draws, phases)
    balance, more = _balance(phases)
    figures = (*figures, *more)
    everything = [*figures, *(figure for phase in phases.values() for figure in phase.figures)]
    return Ledger(
        plan=plan,
        phases=phases,
        balance=balance,
        figures=figures,
        drivers=_drivers(inputs, draws, phases),
        assumptions=tuple(term for parts in settings.values() for one, _ in parts for term in one.defaults),
        editions=_editions(plan),
        sources=tuple(sorted(sources_of(everything))),
        n_samples=n_samples,
        seed=seed,
    )


def _settings(plan: Plan, section: Section, draws: Mapping[str, Num]) -> list[tuple[Setting, Section]]:
    if section.name == "experiments":
        return []
    if not section.traffic:
        return [(make_setting(plan, section, draws), section)]
    return [(make_setting(plan, section, draws, stream.text("model")), stream) for stream in section.traffic]


def _phases(
    plan: Plan, settings: Mapping[str, list[tuple[Setting, Section]]]
) -> tuple[dict[str, Phase], tuple[Figure, ...]]:
    """Inference first where pretraining is to balance with it, then pretraining, then RL."""
    phases: dict[str, Phase] = {}
    if "inference" in settings:
        phases["inference"] = inference_phase(settings["inference"])
    per_token: Num | None = None
    hours: Num = 0.0
    if "pretraining" in settings:
        setting = settings["pretraining"][0][0]
        if plan.sections["pretraining"].text("tokens") == "balanced":
            tokens, formula = _balanced_tokens(setting, phases["inference"])
        else:
            tokens, formula = setting.number("tokens"), "as the plan states"
        phases["pretraining"], per_token = pretraining_phase(setting, tokens, formula)
        hours = phases["pretraining"].gpu_hours
    if "rl" in settings:
        setting = settings["rl"][0][0]
        same = "pretraining" in phases and phases["pretraining"].accelerator == setting.machine.system.accelerator.id
        same = same and phases["pretraining"].model == setting.model.id
        phases["rl"], _ = rl_phase(setting, per_token if same else None, hours)
    return {name: phases[name] for name in ("pretraining", "rl", "inference") if name in phases}, ()


def _balanced_tokens(setting: Setting, inference: Phase) -> tuple[Num, str]:
    """Pretraining tokens whose GPU-time equals inference's, from the modelled training step."""
    trial, _ = pretraining_phase(setting, 1e12, "trial")
    return inference.gpu_hours / (trial.gpu_hours / 1e12), "balanced: GPU-time equal to inference, D_pre = D_inf / (3 e)"


def _experiments(plan: Plan, draws: Mapping[str, Num], phases: Mapping[str, Phase]) -> Phase:
    section = plan.sections["experiments"]
    system = system_of(plan, section)
    if "gpu_hours" in section:
        hours, formula = draws["experiments.gpu_hours"], "as the plan states"
    else:
        base = phases["pretraining"].gpu_hours if "pretraining" in phases else 0.0
        hours = draws["experiments.gpu_time_of_pretraining"] * base
        formula = "multiple of the pretraining run's GPU-hours"
    kind = price_kind(plan, section)
    if kind is None:
        price = draws["experiments.price" if "price" in section else "plan.price"]
    else:
        price = draws[f"price.{system.accelerator.id}.{kind}"]
    usd, power = hours * price, draws[f"power.{system.id}"]
    term = Term("GPU-hours", hours, "GPU-hours", "plan", "experiments")
    return Phase(
        name="experiments", tokens=0.0, flop=0.0, gpu_hours=hours, utilization_fraction=0.0, usd=usd,
        energy_j=hours * HOUR_S * power, accelerator=system.accelerator.id, model="research runs",
        peak_flop_per_s=system.accelerator.peak_flop_per_s["bf16"].value,
        details={"clusters": (draws.get("experiments.clusters", 1.0), "")},
        figures=(Figure("experiments.gpu_hours", hours, "GPU-hours", formula),
                 Figure("experiments.usd", usd, "USD", "GPU-hours x price", (term, Term("price", price, "usd_per_hour")))),
        choices={}, operations={},
    )  # fmt: skip


def _balance(phases: Mapping[str, Phase]) -> tuple[dict[str, tuple[Num, str]], tuple[Figure, ...]]:
    """How the ledgers stand to D_inf = 3 e D_pre and D_RL = (6 / beta) D_pre."""
    out: dict[str, tuple[Num, str]] = {}
    figures: list[Figure] = []
    pre, rl, inference = (phases.get(name) for name in ("pretraining", "rl", "inference"))
    if rl is not None:
        out |= {name: rl.details[name] for name in ("beta_flop", "beta_gpu_time")}
    if pre is None:
        return out, ()
    d_pre = Term("D_pre", pre.tokens, "tokens")
    n_active = pre.flop / (6 * pre.tokens)
    ratio = overtraining_ratio(pre.tokens, n_active)
    out["overtraining_ratio"] = ratio, ""
    figures.append(Figure("balance.overtraining_ratio", ratio, "", "D_pre / (20 N)", (d_pre, Term("N", n_active, "params"))))
    if inference is not None:
        e = (inference.flop / inference.gpu_hours) / (pre.flop / pre.gpu_hours)
        wanted = pre.gpu_hours / inference.gpu_hours * inference.tokens
        same_model = tokens_inference_balanced(pre.tokens, e)
        out |= {"inference_efficiency": (e, ""), "tokens_inference_balanced": (wanted, "tokens"),
                "inference_over_balanced": (inference.gpu_hours / pre.gpu_hours, "")}  # fmt: skip
        figures += [
            Figure("balance.inference_efficiency", e, "", "e = (FLOP / GPU-hour of inference) / (FLOP / GPU-hour of pretraining)",
                   (Term("inference", inference.flop / inference.gpu_hours, "FLOP"), Term("pretraining", pre.flop / pre.gpu_hours, "FLOP"))),
            Figure("balance.tokens_inference_balanced", same_model, "tokens", "D_inf = 3 e D_pre", (Term("e", e, ""), d_pre)),
        ]  # fmt: skip
    if rl is not None:
        beta = rl.details["beta_gpu_time"][0]
        balanced = tokens_rl_balanced(pre.tokens, beta)
        out |= {"tokens_rl_balanced": (balanced, "tokens"), "rl_over_balanced": (rl.gpu_hours / pre.gpu_hours, "")}
        figures.append(Figure("balance.tokens_rl_balanced", balanced, "tokens", "D_RL = (6 / beta_gpu_time) D_pre",
                              (Term("beta_gpu_time", beta, ""), d_pre)))  # fmt: skip
    return out, tuple(figures)


def _drivers(inputs: Mapping[str, Uncertain], draws: Mapping[str, Num], phases: Mapping[str, Phase]) -> tuple[Driver, ...]:
    hours: Num = 0.0
    usd: Num = 0.0
    for phase in phases.values():
        hours, usd = hours + phase.gpu_hours, usd + phase.usd
    found = [
        Driver(name, value, spearman(draws[name], hours), spearman(draws[name], usd))
        for name, value in inputs.items()
        if isinstance(value, Range)
    ]
    strong = [one for one in found if max(abs(one.gpu_hours), abs(one.usd)) >= 0.05]
    return tuple(sorted(strong, key=lambda one: -max(abs(one.gpu_hours), abs(one.usd))))


def _editions(plan: Plan) -> dict[str, str]:
    used = any("skip" not in section and price_kind(plan, section) for section in plan.sections.values())
    return {"prices": load_prices().id if used else "the plan's own", "efficiency": "assumed"}
