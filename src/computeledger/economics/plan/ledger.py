"""The life-cycle ledger of a plan: three phases in two currencies, their balance, and what drives the spread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, centred_ranks, ends_over_centre, median
from computeledger.display import Displayed
from computeledger.economics.plan import inference as phase_inference
from computeledger.economics.plan import pretraining as phase_pretraining
from computeledger.economics.plan import rl as phase_rl
from computeledger.economics.plan.income import WEAKEST_DRIVER, Returns, estimate_income
from computeledger.economics.plan.phases import Phase
from computeledger.economics.plan.read import Plan, Section
from computeledger.economics.plan.setting import (
    Setting,
    make_setting,
    owned_figures,
    price_kind,
    price_of,
    sampled,
    serving_constants,
    system_of,
    uncertain_inputs,
)
from computeledger.facts.catalog import user_path
from computeledger.facts.editions import load_ownership, load_prices
from computeledger.facts.schema import Fact
from computeledger.physics.blackboard.ledgers import tokens_inference_balanced, tokens_rl_balanced
from computeledger.physics.blackboard.training import overtraining_ratio
from computeledger.physics.calibration.efficiency import load_factors
from computeledger.physics.calibration.serving import DEFAULT_ENGINE, load_calibration
from computeledger.physics.calibration.training import load_all_factors
from computeledger.progress import counted
from computeledger.units import HOUR_S, TERA
from computeledger.workloads.result import Figure, Term, sources_of

#: Prices that differ by less come from one price, multiplied and divided [-].
_SAME_PRICE = 1e-9


@dataclass(frozen=True, slots=True)
class Driver:
    """An uncertain input and how strongly it moves the totals.

    ``gpu_hours_ends`` and ``usd_ends`` are the totals where the input is at the low end of its 90 % interval and at the
    high end, the other inputs as they are (:func:`computeledger.arrays.ends_over_centre`).
    """

    name: str
    value: Range
    gpu_hours_correlation: float
    usd_correlation: float
    gpu_hours_ends: tuple[float, float]
    usd_ends: tuple[float, float]

    @property
    def strength(self) -> float:
        """The stronger of the two correlations, without its sign [-]."""
        return max(abs(self.gpu_hours_correlation), abs(self.usd_correlation))


@dataclass(frozen=True, slots=True)
class Ledger(Displayed):
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
        Working of the totals and of the balance.
    drivers : tuple of Driver
        Strongest first.
    assumptions : tuple of Term
        What was assumed because the plan is silent.
    editions : mapping of str to str
        Dated facts that were used.
    sources : tuple of str
        Source keys that the figures rest on.
    n_samples, seed : int
        Of the sampling [-].
    income : Returns or None
        What it earns, where it says prices.
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
    income: Returns | None = None

    def total(self, quantity: str) -> Num:
        """Sum of a quantity over all phases, experiments included.

        Parameters
        ----------
        quantity : str
            ``flop``, ``gpu_hours``, ``usd`` or ``energy_j``.

        Returns
        -------
        float or ndarray
            The sum, in the quantity's own unit.
        """
        return _total(self.phases.values(), quantity)

    def shares(self, quantity: str) -> dict[str, Num]:
        """Each of the three ledgers' share of a quantity, experiments apart.

        Parameters
        ----------
        quantity : str
            ``flop``, ``gpu_hours``, ``usd`` or ``energy_j``.

        Returns
        -------
        dict of str to float or ndarray
            By phase; they add up to one [-].
        """
        three = {name: phase for name, phase in self.phases.items() if name != "experiments"}
        total = np.maximum(_total(three.values(), quantity), 1e-300)
        return {name: getattr(phase, quantity) / total for name, phase in three.items()}

    def usd_per_gpu_hour(self) -> float | None:
        """The price of a GPU-hour where it is one number in all phases and samples.

        Returns
        -------
        float or None
            The price [USD/h]; None where prices differ, or no phase takes GPU-time.

        Examples
        --------
        >>> from computeledger.economics.plan.read import read_plan
        >>> plan = {"model": "llama-3.1-8b", "system": "h100-nvl8",
        ...         "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
        ...         "rl": {"skip": "none"}, "inference": {"skip": "none"}}
        >>> for price in ("$2/h", "$2..3/h"):
        ...     print(estimate_ledger(read_plan(plan | {"price": price}), n_samples=64).usd_per_gpu_hour())
        2.0
        None
        """
        held = [one for one in self.phases.values() if np.all(np.asarray(one.gpu_hours) > 0)]
        prices = np.concatenate([np.ravel(one.usd / one.gpu_hours) for one in held]) if held else np.zeros(1)
        return float(prices[0]) if np.ptp(prices) < _SAME_PRICE * prices[0] else None

    def shares_of_cost(self) -> dict[str, Num]:
        """Each phase's share of the cost, experiments included.

        Returns
        -------
        dict of str to float or ndarray
            By phase; they add up to one [-].
        """
        total = np.maximum(self.total("usd"), 1e-300)
        return {name: phase.usd / total for name, phase in self.phases.items()}


def _total(phases: Iterable[Phase], quantity: str) -> Num:
    return sum((getattr(phase, quantity) for phase in phases), start=0.0)


def estimate_ledger(plan: Plan, n_samples: int = 4096, seed: int = 0) -> Ledger:
    """Work out a plan.

    Parameters
    ----------
    plan : Plan
        From :func:`computeledger.economics.plan.read.load_plan`.
    n_samples : int
        Samples of the uncertain inputs [-].
    seed : int
        Of the sampling [-]; the same seed gives the same result.

    Returns
    -------
    Ledger
        Phases, balance, drivers and working.

    Raises
    ------
    InputError
        Where a model, system or layout of the plan does not exist or does not fit.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "none"}, "inference": {"skip": "none"}})
    >>> ledger = estimate_ledger(plan, n_samples=64)
    >>> round(ledger.phases["pretraining"].gpu_hours / 1e6, 2), round(ledger.total("usd") / 1e6, 2)
    (0.47, 0.95)
    >>> {name: float(share) for name, share in ledger.shares("gpu_hours").items()}
    {'pretraining': 1.0}
    """
    inputs = uncertain_inputs(plan)
    draws = sampled(inputs, n_samples, seed)
    planned = {name: section for name, section in plan.sections.items() if "skip" not in section}
    settings = {name: _settings(plan, section, draws) for name, section in planned.items() if name != "experiments"}
    phases = _phases(settings, functools.partial(_model, plan, n_samples, seed))
    if "experiments" in planned:
        phases["experiments"] = _experiments(plan, draws, phases)
    balance, working = _balance(phases)
    income = estimate_income(plan, phases, inputs, draws)
    earned = () if income is None else income.figures
    assumed = () if income is None else income.assumptions
    figures = (*owned_figures(plan, draws), *_totals(phases), *working, *earned)
    assumptions = {term.name: term for phase in phases.values() for term in phase.assumptions}
    return Ledger(
        plan=plan,
        phases=phases,
        balance=balance,
        figures=figures,
        drivers=_drivers(inputs, draws, phases),
        assumptions=(*assumptions.values(), *assumed),
        editions=_editions(plan),
        sources=_sources(settings, [*figures, *(one for phase in phases.values() for one in phase.figures)]),
        n_samples=n_samples,
        seed=seed,
        income=income,
    )


#: Phases whose name in a formula is another.
_NAMES = {"rl": "RL"}
#: Quantities that have a total, with their units.
_TOTALS = {"usd": "USD", "gpu_hours": "GPU-hours"}


def _totals(phases: Mapping[str, Phase]) -> tuple[Figure, ...]:
    """Sums over the phases, where there is more than one."""
    if len(phases) < 2:
        return ()
    return tuple(
        Figure(
            f"total.{quantity}",
            _total(phases.values(), quantity),
            unit,
            "sum over the phases",
            tuple(Term(_NAMES.get(name, name), getattr(phase, quantity), unit) for name, phase in phases.items()),
        )
        for quantity, unit in _TOTALS.items()
    )


def _settings(plan: Plan, section: Section, draws: Mapping[str, Num]) -> list[tuple[Setting, Section]]:
    """A setting for each stream of traffic; the section itself is one where it has none."""
    streams = section.traffic or (section,)
    return [(make_setting(plan, section, draws, stream.text("model")), stream) for stream in streams]


#: Keys of a section that its phase's model does not read.
_LATER_KEYS = {
    "pretraining": phase_pretraining.LATER_KEYS,
    "rl": phase_rl.LATER_KEYS,
    "inference": phase_inference.LATER_KEYS,
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a phase's model follows from; the setting is made of it, so it is not compared."""

    top: Section
    section: Section
    stream: Section
    efficiency: Section
    system_and_model: tuple[str, str]
    n_samples: int
    seed: int
    setting: Setting = field(compare=False, repr=False)


#: Models kept, and the longest sample axis of one: a plan that differs elsewhere only is not modelled again.
_KEPT, _MOST_SAMPLES = 8, 8192


@functools.lru_cache(maxsize=_KEPT)
def _modelled(asked: _Asked) -> Any:
    """Model of a phase, whatever its amount and its price."""
    if asked.section.name == "inference":
        return phase_inference.model_engine(asked.setting, asked.stream)
    if asked.section.name == "rl":
        return phase_rl.model_rl(asked.setting)
    return phase_pretraining.model_training(asked.setting)


def _model(plan: Plan, n_samples: int, seed: int, setting: Setting, stream: Section) -> Any:
    section = setting.section
    names = (setting.machine.system.id, setting.model.id)
    later = _LATER_KEYS[section.name]
    top, stated, streamed = (
        Section(one.name, {key: value for key, value in one.values.items() if key not in dropped})
        for one, dropped in ((plan.top, {"title", "price"}), (section, later), (stream, later))
    )
    asked = _Asked(top, stated, streamed, plan.efficiency, names, n_samples, seed, setting)
    parts = (plan.top, section, stream, plan.sections["pretraining"])
    texts = [part.text(key) for part in parts for key in ("system", "model")]
    # a user's file is read afresh, and a long sample axis is not held on to
    own = any(text is not None and user_path(text) is not None for text in texts)
    return _modelled.__wrapped__(asked) if own or n_samples > _MOST_SAMPLES else _modelled(asked)


def _phases(
    settings: Mapping[str, list[tuple[Setting, Section]]], modelled: Callable[[Setting, Section], Any]
) -> dict[str, Phase]:
    """Inference first, as pretraining may balance with it, then pretraining, then RL."""
    phases: dict[str, Phase] = {}
    for name in counted([one for one in ("inference", "pretraining", "rl") if one in settings], "ledgers"):
        models = [modelled(*one) for one in settings[name]]
        setting = settings[name][0][0]
        if name == "inference":
            phases[name] = phase_inference.inference_phase(settings[name], models)
        elif name == "pretraining":
            phases[name] = _pretraining(setting, models[0], phases.get("inference"))
        else:
            phases[name] = _rl(setting, models[0], phases.get("pretraining"))
    return {name: phases[name] for name in ("pretraining", "rl", "inference") if name in phases}


def _pretraining(setting: Setting, modelled: phase_pretraining.TrainingModel, inference: Phase | None) -> Phase:
    if inference is None or setting.section.text("tokens") != "balanced":
        return phase_pretraining.pretraining_phase(setting, modelled, setting.number("tokens"), "as the plan states")
    # GPU-time is proportional to tokens, so a trial run tells that of one token
    trial = phase_pretraining.pretraining_phase(setting, modelled, TERA, "trial")
    tokens = inference.gpu_hours / (trial.gpu_hours / TERA)
    formula = "balanced: GPU-time equal to inference, D_pre = D_inf / (3 e)"
    return phase_pretraining.pretraining_phase(setting, modelled, tokens, formula)


def _rl(setting: Setting, modelled: phase_rl.RLModel, pretraining: Phase | None) -> Phase:
    """Beta compares with the plan's own pretraining where model and chip are the same."""
    if pretraining is None:
        return phase_rl.rl_phase(setting, modelled, None, 0.0)
    runs_on = (setting.machine.system.accelerator.id, setting.model.id)
    same = (pretraining.accelerator, pretraining.model) == runs_on
    compared_s = pretraining.gpu_s_per_token if same else None
    return phase_rl.rl_phase(setting, modelled, compared_s, pretraining.gpu_hours)


def _experiments(plan: Plan, draws: Mapping[str, Num], phases: Mapping[str, Phase]) -> Phase:
    section = plan.sections["experiments"]
    system = system_of(plan, section)
    hours = _experiment_gpu_hours(section, draws, phases)
    price = price_of(plan, section, draws)
    usd = hours.value * price.value
    hours_term = Term("GPU-hours", hours.value, "GPU-hours", "plan", "experiments")
    return Phase(
        name="experiments",
        tokens=0.0,
        flop=0.0,
        gpu_hours=hours.value,
        utilization_fraction=0.0,
        usd=usd,
        energy_j=hours.value * HOUR_S * draws[f"power.{system.id}"],
        chip=system.accelerator,
        model="research runs",
        peak_flop_per_s=system.accelerator.peak_flop_per_s["bf16"].value,
        details={"clusters": (draws.get("experiments.clusters", 1.0), "")},
        figures=(hours, Figure("experiments.usd", usd, "USD", "GPU-hours x price", (hours_term, price))),
        choices={},
        operations={},
    )


def _experiment_gpu_hours(section: Section, draws: Mapping[str, Num], phases: Mapping[str, Phase]) -> Figure:
    if "gpu_hours" in section:
        return Figure("experiments.gpu_hours", draws["experiments.gpu_hours"], "GPU-hours", "as the plan states")
    hours = draws["experiments.gpu_time_of_pretraining"] * phases["pretraining"].gpu_hours
    return Figure("experiments.gpu_hours", hours, "GPU-hours", "multiple of the pretraining run's GPU-hours")


Balance = dict[str, tuple[Num, str]]


def _balance(phases: Mapping[str, Phase]) -> tuple[Balance, tuple[Figure, ...]]:
    """How the ledgers stand to D_inf = 3 e D_pre and D_RL = (6 / beta) D_pre."""
    out: Balance = {}
    figures: list[Figure] = []
    pre, rl, inference = (phases.get(name) for name in ("pretraining", "rl", "inference"))
    if rl is not None:
        out |= {name: rl.details[name] for name in ("beta_flop", "beta_gpu_time")}
    if pre is None:
        return out, ()
    n_active = pre.flop / (6 * pre.tokens)
    ratio = overtraining_ratio(pre.tokens, n_active)
    out["overtraining_ratio"] = ratio, ""
    terms = (Term("D_pre", pre.tokens, "tokens"), Term("N", n_active, "params"))
    figures.append(Figure("balance.overtraining_ratio", ratio, "", "D_pre / (20 N)", terms))
    if inference is not None:
        more, working = _inference_balance(pre, inference)
        out, figures = out | more, figures + working
    if rl is not None:
        balanced = tokens_rl_balanced(pre.tokens, rl.details["beta_gpu_time"][0])
        out |= {"tokens_rl_balanced": (balanced, "tokens"), "rl_over_balanced": (rl.gpu_hours / pre.gpu_hours, "")}
        terms = (Term("beta_gpu_time", rl.details["beta_gpu_time"][0], ""), Term("D_pre", pre.tokens, "tokens"))
        formula = "D_RL = (6 / beta_gpu_time) D_pre"
        figures.append(Figure("balance.tokens_rl_balanced", balanced, "tokens", formula, terms))
    return out, tuple(figures)


def _inference_balance(pre: Phase, inference: Phase) -> tuple[Balance, list[Figure]]:
    """Inference tokens whose GPU-time equals pretraining's: 3 e D_pre where both run the same model."""
    served, trained = inference.flop / inference.gpu_hours, pre.flop / pre.gpu_hours
    e = served / trained
    n_trained, n_served = pre.flop / (6 * pre.tokens), inference.flop / (2 * inference.tokens)
    balanced = tokens_inference_balanced(pre.tokens, e) * n_trained / n_served
    formula = "e = (FLOP / GPU-hour of inference) / (FLOP / GPU-hour of pretraining)"
    rates = (Term("inference", served, "FLOP"), Term("pretraining", trained, "FLOP"))
    terms = (
        Term("e", e, ""),
        Term("D_pre", pre.tokens, "tokens"),
        Term("N_pre", n_trained, "params"),
        Term("N_inf", n_served, "params"),
    )
    name, equation = "balance.tokens_inference_balanced", "D_inf = 3 e D_pre N_pre / N_inf"
    figures = [
        Figure("balance.inference_efficiency", e, "", formula, rates),
        Figure(name, balanced, "tokens", equation, terms),
    ]
    over = inference.gpu_hours / pre.gpu_hours
    return {
        "inference_efficiency": (e, ""),
        "tokens_inference_balanced": (balanced, "tokens"),
        "inference_over_balanced": (over, ""),
    }, figures


def _drivers(
    inputs: Mapping[str, Uncertain], draws: Mapping[str, Num], phases: Mapping[str, Phase]
) -> tuple[Driver, ...]:
    totals = [_total(phases.values(), quantity) for quantity in ("gpu_hours", "usd")]
    ranks, centres = [centred_ranks(total) for total in totals], [float(median(total)) for total in totals]
    strong: list[Driver] = []
    for name, value in inputs.items():
        if not isinstance(value, Range):
            continue
        own = centred_ranks(draws[name])
        correlations = [float(np.sum(own * one)) for one in ranks]
        if max(map(abs, correlations)) < WEAKEST_DRIVER:
            continue
        pairs = (ends_over_centre(draws[name], total) for total in totals)
        hours, usd = ((low * centre, high * centre) for (low, high), centre in zip(pairs, centres, strict=True))
        strong.append(Driver(name, value, correlations[0], correlations[1], hours, usd))
    return tuple(sorted(strong, key=lambda one: one.strength, reverse=True))


def _sources(settings: Mapping[str, list[tuple[Setting, Section]]], figures: list[Figure]) -> tuple[str, ...]:
    """Keys of everything the figures rest on: their own terms, the systems' facts and the efficiency factors."""
    keys = sources_of(figures) | {factor.source for factor in load_all_factors().values()}
    for parts in settings.values():
        for setting, _ in parts:
            constants = serving_constants(setting.plan, setting.section)
            keys |= {factor.source for factor in load_factors(constants).values()}
            system = setting.machine.system
            records = [getattr(one, field.name) for one in (system, system.accelerator) for field in fields(one)]
            facts = [*records, *system.accelerator.peak_flop_per_s.values()]
            keys |= {fact.source for fact in facts if isinstance(fact, Fact)}
            keys |= {fact.source for fact in setting.model.published.values()}
    return tuple(sorted(keys - {"assumption", "user"}))


def _editions(plan: Plan) -> dict[str, str]:
    kinds = {price_kind(plan, section) for section in plan.sections.values() if "skip" not in section} - {None}
    owned = {"ownership": load_ownership().id} if "own" in kinds else {}
    served = {serving_constants(plan, one) for one in plan.sections.values() if "skip" not in one}
    fitted = f"{', '.join(sorted(served)) or DEFAULT_ENGINE} of {load_calibration().date}"
    return {"prices": load_prices().id if kinds else "the plan's own", **owned, "efficiency": fitted}
