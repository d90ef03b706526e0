"""What a phase of a plan runs on: model, machine, price and power, as numbers along the sample axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from computeledger.arrays import Num, Uncertain, sample
from computeledger.economics.hosting.cost import OwnedGpu
from computeledger.economics.hosting.rent import hourly_price
from computeledger.economics.income.months import behaviour
from computeledger.economics.plan.keys import SECTIONS, TRAFFIC
from computeledger.economics.plan.read import INCOME, STEPS_IN_FLIGHT, Plan, Section, question_of
from computeledger.errors import InputError, PlanError
from computeledger.facts.architecture import Model
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import Fact, System
from computeledger.fields import Record, fields_of
from computeledger.physics.calibration.efficiency import efficiency, load_factors, median_of
from computeledger.physics.calibration.serving import DEFAULT_ENGINE, DEFAULT_TUNING
from computeledger.physics.calibration.training import load_all_factors, training_efficiency
from computeledger.physics.roofline import Machine, Precision, parse_training_precision
from computeledger.physics.weights import precision_of
from computeledger.workloads.engines import constants_of, default_engine
from computeledger.workloads.pretraining.reading import guessed_ratios
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.result import Figure, Term, fact_term
from computeledger.workloads.rl.confidence import rl_ratios
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN
from computeledger.workloads.serving.anchor import ANCHORED, Anchoring, anchoring_of
from computeledger.workloads.serving.intervals import Interval, is_measured_chip
from computeledger.workloads.serving.reading import interval_asked, run_asked
from computeledger.workloads.serving.search import SLOWEST_TPOT_S

#: What every phase takes when the plan is silent; each use is listed in the result.
DEFAULTS: Mapping[str, tuple[float, str]] = {
    **{
        f"pretraining.{name}": (fields_of(PretrainQuestion)[name].default, "tokens")
        for name in ("sequence_tokens", "global_batch_tokens")
    },
    "rl.longest_over_mean": (LONGEST_OVER_MEAN, ""),
    "rl.verifier_cores": (fields_of(RLQuestion)["verifier_cores"].default, ""),
    "rl.steps_in_flight": (STEPS_IN_FLIGHT, ""),
    "inference.tpot": (SLOWEST_TPOT_S, "s"),
}


def price_kind(plan: Plan, section: Section) -> str | None:
    """Kind of price a section takes from the edition, or None where the plan gives the price.

    Examples
    --------
    >>> plan = Plan("x", Section("plan", {"price": "reserve"}))
    >>> price_kind(plan, Section("rl", {})), price_kind(plan, Section("rl", {"price": 2.0}))
    ('reserve', None)
    """
    value = plan.value(section, "price")
    if value is None:
        return "rent"
    return value if isinstance(value, str) else None


def price_fact(system: System, kind: str) -> Fact:
    """Price of a GPU-hour in the newest edition.

    Examples
    --------
    >>> price_fact(load_system("h100-nvl8"), "rent").unit
    'usd_per_hour'
    """
    fact = hourly_price(system.accelerator, kind)
    if fact is None:
        edition, chip = load_prices().id, system.accelerator.id
        raise PlanError(f"price edition {edition} has no {kind!r} price of {chip}: give price = '$2/h'")
    return fact


def system_of(plan: Plan, section: Section) -> System:
    """System that a section runs on.

    Examples
    --------
    >>> system_of(Plan("x", Section("plan", {"system": "h100-nvl8"})), Section("rl", {})).accelerator.id
    'h100-sxm5-80gb'
    """
    given = plan.value(section, "system")
    if given is None:
        given = plan.value(plan.sections["pretraining"], "system")
    if not isinstance(given, str):
        raise PlanError(f"[{section.name}] system is missing: give it there or at the top of the plan")
    return load_system(given)


def price_of(plan: Plan, section: Section, draws: Mapping[str, Num]) -> Term:
    """Price of a section's GPU-hour.

    Examples
    --------
    >>> term = price_of(Plan("x", Section("plan", {"price": 2.0})), Section("rl", {}), {"plan.price": 2.0})
    >>> term.value, term.ground
    (2.0, 'plan.price')
    """
    kind = price_kind(plan, section)
    if kind is None:
        where = section if "price" in section else plan.top
        return Term("price", draws[f"{where.name}.price"], "usd_per_hour", "plan", f"{where.name}.price")
    system = system_of(plan, section)
    if kind == "own":
        figure = _owned_figure(section, system, draws)
        return Term("price", figure.value, "usd_per_hour", "figure", f"{figure.name}: {figure.formula}")
    return fact_term("price", price_fact(system, kind), draws[f"price.{system.accelerator.id}.{kind}"])


def _owned_figure(section: Section, system: System, draws: Mapping[str, Num]) -> Figure:
    """Cost of an owned GPU-hour; where a section states its own occupancy, the phase counts the idle hours itself."""
    gpu = OwnedGpu(system.accelerator, system)
    if "occupancy" not in section:
        return gpu.figure(draws)
    figure = gpu.figure({**draws, "ownership.occupancy_fraction": 1.0}, {"ownership.occupancy_fraction": 1.0})
    return replace(figure, name=f"{figure.name} ({section.name}, idle hours apart)")


def owned_figures(plan: Plan, draws: Mapping[str, Num]) -> tuple[Figure, ...]:
    """Working of the owned GPU-hours of a plan.

    Examples
    --------
    >>> owned_figures(Plan("x", Section("plan", {"price": "rent"})), {})
    ()
    """
    found = {}
    for section in plan.sections.values():
        if "skip" not in section and price_kind(plan, section) == "own":
            figure = _owned_figure(section, system_of(plan, section), draws)
            found[figure.name] = figure
    return tuple(found.values())


def uncertain_inputs(plan: Plan) -> dict[str, Uncertain]:
    """Every uncertain or overridable input of a plan, by the name its samples go by.

    Examples
    --------
    >>> from computeledger.arrays import Range
    >>> section = Section("rl", {"rollout_tokens": Range(1e4, 5e4)})
    >>> plan = Plan("x", Section("plan", {"system": "h100-nvl8"}), {"rl": section})
    >>> sorted(name for name in uncertain_inputs(plan) if not name.startswith("efficiency"))
    ['power.h100-nvl8', 'price.h100-sxm5-80gb.rent', 'rl.rollout_tokens']
    """
    inputs: dict[str, Uncertain] = {f"efficiency.{name}": one.value for name, one in load_all_factors().items()}
    inputs |= _training_ratios(plan)
    inputs |= _serving_ratios(plan) | _engine_factors(plan)
    inputs |= market_inputs(plan) | plan.uncertain()
    for section in plan.sections.values():
        if "skip" in section:
            continue
        system = system_of(plan, section)
        inputs[f"power.{system.id}"] = system.facility_w_per_chip.uncertain
        kind = price_kind(plan, section)
        if kind == "own":
            facts = OwnedGpu(system.accelerator, system).facts()
            inputs |= {name: fact.uncertain for name, fact in facts.items()}
        elif kind is not None:
            inputs[f"price.{system.accelerator.id}.{kind}"] = price_fact(system, kind).uncertain
    return inputs


def market_inputs(plan: Plan) -> dict[str, Uncertain]:
    """What the market does where an income section is silent, by the names its samples go by.

    Examples
    --------
    >>> plan = Plan("x", Section("plan", {}), income=Section("income", {"growth": 0.02}))
    >>> "income.growth" in market_inputs(plan), market_inputs(plan)["income.demand_elasticity"]
    (False, Range(low=0.5, high=1.5, bounded=False))
    """
    if plan.income is None:
        return {}
    return {f"{INCOME}.{name}": value for name, (value, _) in behaviour().items() if name not in plan.income}


def sampled(inputs: Mapping[str, Uncertain], n_samples: int, seed: int) -> dict[str, Num]:
    """Draw the inputs of a plan; a key's random stream goes by its first name, so that renaming it moves no figure.

    Examples
    --------
    >>> from computeledger.arrays import Range
    >>> named, first = sampled({"rl.rollout_tokens": Range(1.0, 2.0)}, 8, 0), sample({"rl.rollout": Range(1.0, 2.0)}, 8)
    >>> bool((named["rl.rollout_tokens"] == first["rl.rollout"]).all())
    True
    """
    streams = {name: _stream(name) for name in inputs}
    drawn = sample({streams[name]: value for name, value in inputs.items()}, n_samples, seed)
    return {name: drawn[stream] for name, stream in streams.items()}


def _stream(name: str) -> str:
    section, _, key = name.rpartition(".")
    keys = SECTIONS.get(section, TRAFFIC if section.startswith("inference.traffic") else {})
    return f"{section}.{keys[key].stream}" if key in keys else name


def _training_ratios(plan: Plan) -> dict[str, Uncertain]:
    """Real over modelled times of what the plan trains: of an RL step, and of a pretraining step of a guessed shape."""
    planned = {name: one for name, one in plan.sections.items() if "skip" not in one}
    named = {name: plan.value(one, "model") for name, one in planned.items()}
    models = {name: load_model(one) if isinstance(one, str) else None for name, one in named.items()}
    out: dict[str, Uncertain] = {}
    if (pretrained := models.get("pretraining")) is not None:
        out |= guessed_ratios(pretrained)
    if "rl" in planned:
        out |= {f"efficiency.{name}": value for name, value in rl_ratios(models["rl"]).items()}
    return out


def _serving_ratios(plan: Plan) -> dict[str, Uncertain]:
    """Real over predicted times of what the plan serves: the interval of its class, as ``serve`` has it."""
    section = plan.sections.get("inference")
    if section is None or "skip" in section:
        return {}
    if (anchoring := serving_anchors(plan)) is not None:
        return anchoring.ranges
    ids, system = _served(plan, section), system_of(plan, section)
    if len(ids) > 1 and is_measured_chip(system):  # several models share one factor: that of what was not measured
        return {}
    found = _interval(plan, section, load_model(ids.pop()), system)
    return {} if found is None else {f"efficiency.{one}": getattr(found, name) for one, name in ANCHORED.items()}


def _served(plan: Plan, section: Section) -> set[str]:
    """Ids of the models that a plan serves."""
    named = [plan.value(section, "model"), *(one.text("model") for one in section.traffic)]
    return {str(one) for one in named if one is not None}


def _interval(plan: Plan, section: Section, model: Model, system: System) -> Interval | None:
    question = question_of(plan, section)
    return interval_asked(question, model, system) if isinstance(question, ServeQuestion) else None


def serving_anchors(plan: Plan) -> Anchoring | None:
    """What the measurements that a plan names taught of what it serves.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "pretraining": {"skip": "open weights"},
    ...                   "rl": {"skip": "none"}, "inference": {"tokens": "1T tokens", "input_tokens": "2K tokens",
    ...                   "output_tokens": "500 tokens", "anchor": ["batch=8,isl=1024,osl=256,tpot=9ms,layout=tp1"]}})
    >>> round(serving_anchors(plan).lessons["tpot"].ratios[0], 1)
    1.1
    """
    section = plan.sections.get("inference")
    if section is None or "anchor" not in section:
        return None
    ids, system, question = _served(plan, section), system_of(plan, section), question_of(plan, section)
    if len(ids) > 1 or not isinstance(question, ServeQuestion):
        raise PlanError(f"[inference] anchor measures one deployment, the streams serve {len(ids)} models")
    model = load_model(ids.pop())
    try:
        return anchoring_of(question, model, system, interval_asked(question, model, system))
    except InputError as error:
        raise refused_anchor("inference", error) from None


def refused_anchor(section: str, error: InputError) -> PlanError:
    """The error of a plan whose measurement is refused.

    Examples
    --------
    >>> str(refused_anchor("pretraining", InputError("--anchor a.log: no such file")))
    '[pretraining] anchor = a.log: no such file'
    """
    what = str(error).removeprefix("--").removeprefix("anchor").lstrip(" :")
    return PlanError(f"[{section}] anchor = {what}")


def serving_constants(plan: Plan, section: Section) -> str:
    """Name the constants of the engine that a section runs on: inference states one or has its chip's, the rest vLLM's.

    Examples
    --------
    >>> plan = Plan("x", Section("plan", {"system": "h100-nvl8"}))
    >>> [serving_constants(plan, Section(name, {"backend": "sglang"})) for name in ("inference", "pretraining")]
    ['sglang', 'vllm']
    """
    if section.name != "inference":
        return DEFAULT_ENGINE
    chip = system_of(plan, section).accelerator
    return constants_of(section.text("backend") or default_engine(chip), chip)


def has_own_engine(plan: Plan, section: Section) -> bool:
    """Say whether a section's engine is stated, or is not the one that all others have.

    Examples
    --------
    >>> plans = (Plan("x", Section("plan", {"system": system})) for system in ("h100-nvl8", "1xm4-max"))
    >>> [has_own_engine(plan, Section("inference", {})) for plan in plans]
    [False, True]
    """
    return "backend" in section or serving_constants(plan, section) != DEFAULT_ENGINE


#: What inputs are called that hold for the engine of inference alone.
_OF_INFERENCE = "inference."


def _engine_factors(plan: Plan) -> dict[str, Uncertain]:
    """Factors of an engine that inference states, by names of their own; what the plan overrides holds for all."""
    section = plan.sections.get("inference")
    if section is None or "skip" in section or not has_own_engine(plan, section):
        return {}
    factors = load_factors(serving_constants(plan, section))
    own = {name: one.value for name, one in factors.items() if name not in plan.efficiency.values}
    return {f"{_OF_INFERENCE}efficiency.{name}": value for name, value in own.items() if name not in _RATIOS}


#: Ratios that the interval of a question's class replaces.
_RATIOS = ("serving_ratio", "first_token_ratio")


_Q = TypeVar("_Q", bound=Record)


@dataclass(frozen=True, slots=True)
class Setting:
    """A section with everything it rests on."""

    plan: Plan
    section: Section
    model: Model
    machine: Machine
    typical: Machine
    precision: Precision
    usd_per_gpu_hour: Num
    facility_w_per_gpu: Num
    price_term: Term
    power_term: Term
    draws: Mapping[str, Num]

    def asked(self, kind: type[_Q], stream: Section | None = None) -> _Q:
        """The question that the section asks."""
        found = question_of(self.plan, self.section, stream)
        if not isinstance(found, kind):
            raise PlanError(f"[{self.section.name}] asks no {kind.__name__}")
        return found

    def numbers(self, known: Mapping[str, Uncertain], section: Section | None = None) -> dict[str, Num]:
        """Samples of a question's numbers, and of the efficiency factors."""
        of_names = [one.name for one in (section, self.section) if one is not None]
        out: dict[str, Num] = {name: one for name, one in self.draws.items() if name.startswith("efficiency.")}
        for name, value in known.items():
            drawn = [self.draws[f"{of}.{name}"] for of in of_names if f"{of}.{name}" in self.draws]
            out[name] = drawn[0] if drawn else median_of(value)
        return out

    def number(self, key: str, section: Section | None = None) -> Num:
        """Samples of a quantity that the section states.

        Examples
        --------
        >>> from computeledger.economics.plan.read import read_plan
        >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
        ...                   "pretraining": {"tokens": "15T tokens", "gpus": 64},
        ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
        >>> draws = {name: median_of(value) for name, value in uncertain_inputs(plan).items()}
        >>> setting = make_setting(plan, plan.sections["pretraining"], draws)
        >>> setting.number("gpus"), setting.asked(PretrainQuestion).sequence_tokens
        (64.0, 4096.0)
        """
        where = section or self.section
        if key in where:
            return self.draws[f"{where.name}.{key}"]
        if section is not None and key in self.section:
            return self.draws[f"{self.section.name}.{key}"]
        raise PlanError(f"[{where.name}] {key} is missing")

    def assumed(self, *keys: str, section: Section | None = None) -> tuple[Term, ...]:
        """Defaults of the quantities that the plan leaves out.

        Examples
        --------
        >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": 2.0}))
        >>> draws = {"plan.price": 2.0, "power.h100-nvl8": 1800.0}
        >>> setting = make_setting(plan, Section("pretraining", {"sequence_tokens": 8192.0}), draws)
        >>> [(one.name, one.value) for one in setting.assumed("sequence_tokens", "global_batch_tokens")]
        [('pretraining.global_batch_tokens', 4000000.0)]
        """
        stated = {*self.section.values, *(section.values if section is not None else ())}
        names = [f"{self.section.name}.{key}" for key in keys if key not in stated]
        return tuple(Term(name, *DEFAULTS[name], "assumption", "the plan is silent") for name in names)

    def optional(self, key: str, default: float, section: Section | None = None) -> Num:
        """Samples of a quantity whose absence means a neutral value."""
        where = section or self.section
        if key in where:
            return self.draws[f"{where.name}.{key}"]
        return self.draws.get(f"{self.section.name}.{key}", default)


def make_setting(plan: Plan, section: Section, draws: Mapping[str, Num], model_id: str | None = None) -> Setting:
    """Gather what a section rests on.

    Examples
    --------
    >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": 2.0}))
    >>> setting = make_setting(plan, Section("rl", {}), {"plan.price": 2.0, "power.h100-nvl8": 1800.0})
    >>> setting.model.id, setting.usd_per_gpu_hour, setting.precision.name
    ('meta-llama/Meta-Llama-3.1-8B', 2.0, 'bf16')
    """
    system = system_of(plan, section)
    model = load_model(model_id or str(plan.value(section, "model")))
    price_term = price_of(plan, section, draws)
    power = draws[f"power.{system.id}"]
    overrides = {name: value for name, value in draws.items() if name.startswith("efficiency.")}
    constants = serving_constants(plan, section)
    if section.name == "inference":
        own = {
            name.removeprefix(_OF_INFERENCE): value for name, value in draws.items() if name.startswith(_OF_INFERENCE)
        }
        overrides |= {name: value for name, value in own.items() if name.startswith("efficiency.")}
    typical = {name: median_of(value) for name, value in _serving_ratios(plan).items()}
    typical |= {
        f"efficiency.{name}": median_of(value)
        for name, value in plan.efficiency.values.items()
        if not isinstance(value, str)
    }
    question = question_of(plan, section) if section.name == "inference" else None
    run = run_asked(question) if isinstance(question, ServeQuestion) else (None, DEFAULT_TUNING)
    return Setting(
        plan=plan,
        section=section,
        model=model,
        machine=Machine(system, efficiency(constants, overrides, *run), training_efficiency(draws=overrides)),
        typical=Machine(system, efficiency(constants, typical, *run), training_efficiency(draws=typical)),
        precision=_precision(plan, section, model),
        usd_per_gpu_hour=price_term.value,
        facility_w_per_gpu=power,
        price_term=price_term,
        power_term=fact_term("facility power", system.facility_w_per_chip, power),
        draws=draws,
    )


def _precision(plan: Plan, section: Section, model: Model) -> Precision:
    """Of pretraining bf16 where the plan does not say, else as the weights are stored."""
    given = plan.value(section, "precision")
    text = given if isinstance(given, str) else None
    if section.name == "pretraining":
        return parse_training_precision(text or "bf16", model.is_moe)
    return precision_of(model, text)
