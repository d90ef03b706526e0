"""Answer how a budget is split over size, pretraining, RL and inference, or judge three ledgers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, median, sample
from computeledger.economics.income.months import behaviour
from computeledger.economics.plan.levers import (
    PRESETS,
    demand_curve,
    judge_feeding,
    ledger_levers,
    return_curves,
    rl_of_curve,
)
from computeledger.economics.scaling.allocation import (
    PHASES,
    Allocation,
    AllocationScenario,
    Ledgers,
    PhaseCosts,
    RLGain,
    judge_ledgers,
    phase_gpu_hours,
)
from computeledger.economics.scaling.allocation import allocate as split_budget
from computeledger.economics.scaling.confidence import beyond_fit, sampled_law
from computeledger.economics.scaling.earnings import Buyers, Earnings, allocate_for_income
from computeledger.economics.scaling.forms import load_constants, rl_recipe, with_precision
from computeledger.economics.scaling.laws import LossLaw, load_loss_law, read_law, tokens_per_param_at_optimum
from computeledger.economics.scaling.sparsity import sparsity_multiplier, sparsity_table, with_sparsity
from computeledger.errors import InputError, QuantityError, unknown_id
from computeledger.facts.load import load_system
from computeledger.fields import Given
from computeledger.physics.blackboard.estimates import lifetime_tokens
from computeledger.physics.blackboard.ledgers import (
    BETA_FLOP,
    DECODING_UTILIZATION_RATIO,
    PRETRAINING_UTILIZATION_FRACTION,
    rl_beta,
)
from computeledger.questions.allocate import AllocateQuestion
from computeledger.questions.answer import Answer, Quantity, from_python
from computeledger.questions.answers.setup import check_positive, price_of
from computeledger.questions.document import picked
from computeledger.units import TOKENS_PER_MTOK, format_percent, format_si, format_times, parse_quantity
from computeledger.validation.rl.beta import published_utilization
from computeledger.workloads.result import quantities, quantity

#: Inputs that may be left out, as they are sampled: the field of the question that gives each.
_OPTIONAL = {
    "tokens_pretraining": "tokens", "tokens_rl": "rl_tokens", "tokens_inference": "inference_tokens",
    "n_params": "n_params", "n_params_reference": "at_n_params", "rate": "rate", "life": "life", "rl_gain": "rl_gain",
    "rl_mid": "rl_mid", "rl_exponent": "rl_exponent", "unique_tokens": "unique_tokens",
    "sparsity_multiplier": "sparsity_multiplier",
}  # fmt: skip
#: Whose GPU-hours ScaleRL's sigmoids count.
_SCALERL_SYSTEM = "gb200-nvl72"
#: What buyers do, as a plan's income has it.
_BUYERS = ("value_per_nat", "rl_nats")
_CURRENCIES = {"flop": "FLOP", "gpu_hours": "GPU-hours", "usd": "USD"}


def parse_budget(text: str) -> tuple[Uncertain, str]:
    """A budget in FLOP, GPU-hours or USD."""
    for dimension in _CURRENCIES:
        try:
            found = parse_quantity(text, dimension)
        except QuantityError:
            continue
        check_positive("--budget", found)
        return found, dimension
    raise InputError(f"--budget {text!r}: write '5.76e23 FLOP', '2.7M GPU-hours' or '$50M'")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class AllocateAnswer(Answer):
    """A budget split by equal marginal returns, or ledgers that were judged."""

    question: AllocateQuestion
    scenario: AllocationScenario
    allocation: Allocation
    law: LossLaw
    budget_unit: str
    draws: Mapping[str, Num]
    is_judged: bool
    earnings: Earnings | None = None

    @property
    def n_params_active(self) -> Quantity:
        """Parameters multiplied per token [params]."""
        return Quantity.of(self.allocation.ledgers.n_params_active, "params")

    @property
    def tokens_pretraining(self) -> Quantity:
        """Tokens trained on [tokens]."""
        return Quantity.of(self.allocation.ledgers.tokens_pretraining, "tokens")

    @property
    def loss(self) -> Quantity:
        """By the law, RL included where its gain was stated [nat/token]."""
        return Quantity.of(self.allocation.loss, "")

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger allocate --json`` prints it."""
        question, found, scenario = self.question, self.allocation, self.scenario
        document = allocation_document(found, scenario, self.budget_unit)
        document["warning"] = _warning(document["law"])
        document["assumptions"] = _assumptions(question, self.draws, self.law)
        peak = load_system(question.system).accelerator.peak_flop_per_s["bf16"]
        document["sources"] = sorted({*_law_sources(question), peak.source})
        if question.sparsity_ratio is not None:
            total = found.ledgers.n_params_active * question.sparsity_ratio
            document |= quantities({"n_params_total": (total, "params")})
        if question.unique_tokens is not None and question.unverified:
            document["sparsities"] = sparsity_table(
                median(found.flop["pretraining"]), median(self.draws["unique_tokens"]), self.law
            )
        if self.is_judged:
            document["diagnosis"] = judge_feeding(found)
        if question.levers:
            document["levers"] = ledger_levers(question.levers, question.system)
        if self.earnings is not None:
            document["value"] = value_document(self.earnings, self.draws["price"], _least_words(question))
        document["curve"] = demand_curve(scenario, found)
        document["curve_rl"] = rl_of_curve(scenario)
        document["return_curves"] = return_curves(scenario, found)
        return document


def allocate(question: AllocateQuestion | None = None, /, **given: Given) -> AllocateAnswer:
    """Split a budget over size, pretraining, RL and inference by equal marginal returns, or judge given ledgers.

    Parameters
    ----------
    question : AllocateQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.questions.allocate.AllocateQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    AllocateAnswer
        Size and tokens, FLOP and GPU-time of each ledger, and what one more GPU-hour of it takes off the loss.

    Raises
    ------
    InputError
        For bad input, and for laws that ask for ``unverified``.

    Examples
    --------
    >>> answer = allocate(budget="3M GPU-hours", inference_tokens="100T", samples=64)
    >>> more = allocate(answer.question, inference_tokens="1000T")
    >>> more.n_params_active.p50 < answer.n_params_active.p50
    True
    """
    return from_python(AllocateQuestion, answer_allocate, question, given)


def answer_allocate(question: AllocateQuestion) -> AllocateAnswer:
    """Answer ``computeledger allocate``."""
    question = _with_preset(question)
    published = load_loss_law(question.law, question.unverified)
    inputs, budget_unit = _inputs(question)
    draws = sample(inputs, question.samples, question.seed)
    law = _changed(sampled_law(published, question.samples, question.seed), question, draws)
    system = load_system(question.system)
    utilizations = PhaseCosts(*(draws[f"utilization_{phase}"] for phase in PHASES))
    hours = phase_gpu_hours(system.accelerator.peak_flop_per_s["bf16"].value, utilizations)
    scenario = AllocationScenario(
        law=law,
        budget=draws.get("budget", 1.0),
        costs=_costs(budget_unit, hours, draws),
        gpu_hours=hours,
        tokens_inference=_served(draws),
        tokens_rl=draws.get("tokens_rl"),
        beta=rl_beta(draws["samples_per_kept"]) if "samples_per_kept" in draws else draws["beta"],
        demand_elasticity=draws["elasticity"] if question.objective == "loss" else 0.0,
        n_params_reference=draws.get("n_params_reference", 1.0),
        rl_gain=_rl_gain(draws, question.rl_recipe),
    )
    asked = _given_ledgers(draws, scenario)
    earnings = None
    if question.objective == "value":
        per_token = draws["token_price"] / TOKENS_PER_MTOK if "token_price" in draws else None
        buyers = Buyers(draws["value_per_nat"], draws["elasticity"], per_token, draws["rl_nats"])
        earnings = allocate_for_income(scenario, buyers, 1.0 if budget_unit == "usd" else draws["price"])
        scenario, found = earnings.scenario, earnings.allocation
    else:
        found = split_budget(scenario) if asked is None else judge_ledgers(scenario, asked)
    return AllocateAnswer(
        question=question,
        scenario=scenario,
        allocation=found,
        law=published,
        budget_unit=budget_unit,
        draws=draws,
        is_judged=asked is not None,
        earnings=earnings,
    )


def _with_preset(question: AllocateQuestion) -> AllocateQuestion:
    """The ledgers of an assumed lab in the place of given ones."""
    name = question.preset
    if name is None:
        return question
    if name not in PRESETS:
        raise unknown_id("preset", name, PRESETS)
    n_params, tokens, rl_tokens, inference_tokens = PRESETS[name]
    return replace(question, n_params=n_params, tokens=tokens, rl_tokens=rl_tokens, inference_tokens=inference_tokens)


def _inputs(question: AllocateQuestion) -> tuple[dict[str, Uncertain], str]:
    """What is sampled, by name, and the currency of the budget."""
    elasticity: Uncertain = 0.0 if question.objective == "loss" else behaviour()["demand_elasticity"][0]
    if question.elasticity is not None:
        elasticity = _elasticity(question.elasticity, question.unverified)
    beta = BETA_FLOP if question.beta_flop is None else question.beta_flop
    inputs: dict[str, Uncertain] = {"beta": beta, "elasticity": elasticity}
    if question.samples_per_kept is not None:
        inputs["samples_per_kept"] = question.samples_per_kept
    unit = "gpu_hours"  # ledgers that are judged have no budget, and are judged by the GPU-hour
    if question.budget is not None:
        inputs["budget"], unit = parse_budget(question.budget)
    for phase in PHASES:
        given = _given_utilization(phase, question)
        inputs[f"utilization_{phase}"] = _utilization(phase, question)[0] if given is None else given
    if question.objective == "value":
        inputs |= _buyers(question)
    elif elasticity and question.at_n_params is None:
        raise InputError("--elasticity needs --at-n-params, the size at which the demand is --inference-tokens")
    if question.sparsity_ratio is not None and question.sparsity_multiplier is None:
        inputs["sparsity_multiplier"] = sparsity_multiplier(question.sparsity_ratio, question.unverified)
    optional = {name: getattr(question, key) for name, key in _OPTIONAL.items()}
    inputs |= {name: value for name, value in optional.items() if value is not None}
    if unit == "flop" and question.objective == "value":
        raise InputError("--objective value pays for GPU-hours: give --budget in GPU-hours or USD")
    if unit == "usd" or question.price is not None or question.objective == "value":
        inputs["price"] = price_of(load_system(question.system), question.price)[0]
    return inputs, unit


def _buyers(question: AllocateQuestion) -> dict[str, Uncertain]:
    """What buyers do, by the assumptions of a plan's income where the question is silent."""
    given = {name: getattr(question, name) for name in _BUYERS}
    found = {name: behaviour()[name][0] if value is None else value for name, value in given.items()}
    return found if question.token_price is None else found | {"token_price": question.token_price}


def _given_utilization(phase: str, question: AllocateQuestion) -> Uncertain | None:
    given: Uncertain | None = getattr(question, f"utilization_{phase}")
    return given


def _utilization(phase: str, question: AllocateQuestion) -> tuple[Uncertain, str]:
    """Utilisation of a phase where the question is silent, and the words of its assumption."""
    if phase == "rl":
        kind = "moe" if (question.sparsity_ratio or 1.0) > 1 else "dense"
        used = published_utilization(kind)
        name = "mixtures of experts" if kind == "moe" else "dense models"
        return used, f"utilisation of rl {_ends(used, format_percent)}: published RL steps of {name}, waiting included"
    share = PRETRAINING_UTILIZATION_FRACTION * (1.0 if phase == "pretraining" else DECODING_UTILIZATION_RATIO)
    return share, f"utilisation of {phase} {format_percent(share)}"


def _ends(of: Range, say: Callable[[float], str]) -> str:
    return f"{say(float(of.quantile(0.0)))} ({say(of.low)} to {say(of.high)})"


def _served(draws: Mapping[str, Num]) -> Num | None:
    if "rate" in draws:
        return lifetime_tokens(draws["rate"], draws["life"])
    return draws.get("tokens_inference")


def _rl_gain(draws: Mapping[str, Num], recipe: str | None) -> RLGain | None:
    if "rl_gain" not in draws:
        return None
    if recipe is None:
        return RLGain(draws["rl_gain"], draws["rl_mid"], draws.get("rl_exponent", 1.0))
    sigmoid = rl_recipe(recipe)
    peak = load_system(_SCALERL_SYSTEM).accelerator.peak_flop_per_s["bf16"].value
    hours = phase_gpu_hours(peak, PhaseCosts(1.0, draws["utilization_rl"], 1.0)).rl
    return RLGain(draws["rl_gain"], sigmoid["C_mid"] / hours, draws.get("rl_exponent", sigmoid["B"]))


def _elasticity(text: str, unverified: bool) -> Uncertain:
    """The price elasticity of demand: a number, a range, or the published one."""
    if text == "published":
        return load_constants("demand_elasticity", unverified)["elasticity"]
    try:
        return parse_quantity(text, "fraction")
    except QuantityError:
        pass
    try:
        return parse_quantity(text, "ratio")
    except InputError as error:
        raise InputError(f"--elasticity {error} (or 'published')") from None


def _changed(law: LossLaw, question: AllocateQuestion, draws: Mapping[str, Num]) -> LossLaw:
    """The law with sparsity, precision and a limit of fresh data laid over it."""
    if "sparsity_multiplier" in draws:
        law = with_sparsity(law, draws["sparsity_multiplier"])
    if question.train_precision is not None:
        law = with_precision(law, *_bits(question.train_precision))
    if "unique_tokens" in draws:
        words = f"data repeat beyond {format_si(median(draws['unique_tokens']))} tokens"
        law = replace(law, unique_tokens=draws["unique_tokens"], changes=(*law.changes, words))
    return law


def _bits(text: str) -> list[float]:
    """Bits of weights, activations and cache, ``8/8/16``; what is left out is 16."""
    parts = text.split("/")
    try:
        bits = [float(part) for part in parts]
    except ValueError:
        bits = []
    if not 1 <= len(bits) <= 3 or any(not 1 <= one <= 32 for one in bits):
        raise InputError(f"--train-precision {text!r}: write bits of weights, activations and cache, such as 8/8/16")
    return bits


def _law_sources(question: AllocateQuestion) -> set[str]:
    """Laws that took part."""
    asked = {
        "muennighoff_2023": question.unique_tokens is not None, "kumar_2024": question.train_precision is not None,
        "scalerl_2025": question.rl_recipe is not None, "demand_elasticity": question.elasticity == "published",
        "sparsity_multiplier": question.sparsity_ratio is not None and question.sparsity_multiplier is None,
    }  # fmt: skip
    name = question.law.replace("-", "_")
    tables = [read_law(one, unverified=True) for one in (name, *(other for other, used in asked.items() if used))]
    own = (part for key in ("range", "uncertainty") if (part := tables[0][0].get(key)) is not None)
    return {origin["source"] for _, origin in tables} | {part["source"] for part in own}


def _costs(unit: str, hours: PhaseCosts, draws: Mapping[str, Num]) -> PhaseCosts:
    if unit == "flop":
        return PhaseCosts()
    price = draws["price"] if unit == "usd" else 1.0
    return PhaseCosts(*(getattr(hours, phase) * price for phase in PHASES))


def _given_ledgers(draws: Mapping[str, Num], scenario: AllocationScenario) -> Ledgers | None:
    if "n_params" not in draws:
        return None
    served = 0.0 if scenario.tokens_inference is None else scenario.tokens_inference
    return Ledgers(draws["n_params"], draws["tokens_pretraining"], draws.get("tokens_rl", 0.0), served)


def allocation_document(found: Allocation, scenario: AllocationScenario, unit: str) -> dict[str, Any]:
    """The split as JSON."""
    ledgers, law = found.ledgers, scenario.law
    shares = {
        kind: quantities({p: (of[p] / sum(of.values()), "") for p in PHASES})
        for kind, of in (("flop", found.flop), ("gpu_time", found.gpu_hours))
    }
    units = {
        "n_params_active": "params",
        "marginal_return": f"loss/{_CURRENCIES[unit]}",
        "marginal_return_per_gpu_hour": "loss/GPU-hour",
    }
    per_param = tokens_per_param_at_optimum(found.flop["pretraining"], law)
    return {
        **picked(ledgers, "n_params_active", "tokens_pretraining", "tokens_rl", "tokens_inference", units=units),
        "shares": shares,
        **picked(found, "marginal_return", "marginal_return_per_gpu_hour", units=units),
        **picked(found, "overtraining_ratio"),
        **quantities({
            "tokens_per_param": (ledgers.tokens_pretraining / ledgers.n_params_active, "tokens/parameter"),
            "tokens_per_param_compute_optimal": (per_param, "tokens/parameter"),
        }),
        **picked(found, "exponent_ratio"),
        **quantities({
            "inference_over_pretraining_tokens_ratio": (ledgers.tokens_inference / ledgers.tokens_pretraining, ""),
        }),
        **picked(found, "loss", "flop", "gpu_hours"),
        "law": _law_document(law, ledgers),
        "budget": {"value": quantities({"v": (scenario.budget, _CURRENCIES[unit])})["v"], "unit": _CURRENCIES[unit]},
    }  # fmt: skip


def _law_document(law: LossLaw, ledgers: Ledgers) -> dict[str, Any]:
    """The law at the middle of its coefficients, with the range of its fit and how far the answer lies outside."""
    middle = {name: median(getattr(law, name)) for name in ("E", "A", "B", "alpha", "beta", "unique_tokens")}
    return picked(law, "name", "source", "date", "locator", "read", "fit") | {
        **{name: value for name, value in middle.items() if value != math.inf},
        "changes": list(law.changes),
        "fitted": {name: list(ends) for name, ends in law.fitted.items()},
        "beyond_fit_ratio": beyond_fit(law, ledgers.n_params_active, ledgers.tokens_pretraining),
        "coefficients_are_sampled": bool(law.covariance),
    }


def _warning(law: Mapping[str, Any]) -> str | None:
    """Words on an answer that lies where its law was neither fitted nor tested."""
    if not law["beyond_fit_ratio"]:
        return None
    parts = [_beyond(name, ratio, law["fitted"][name]) for name, ratio in law["beyond_fit_ratio"].items()]
    return f"{law['name']} is extrapolated: {', '.join(parts)}"


def _beyond(name: str, ratio: float, ends: list[float]) -> str:
    words = {"n_params": "parameters", "tokens": "tokens", "flop": "FLOP", "tokens_per_param": "tokens per parameter"}
    if ratio > 1:
        return f"{words[name]} {format_times(ratio)} the most that it was fitted or tested on ({format_si(ends[1])})"
    return f"{words[name]} {ratio:.2g} of the least that it was fitted or tested on ({format_si(ends[0])})"


def _assumptions(question: AllocateQuestion, draws: Mapping[str, Num], law: LossLaw) -> list[str]:
    sure = "intervals hold how sure the law's coefficients are, and not whether its form holds"
    out = [sure if law.covariance else "the law's coefficients count as exact: how sure they are was not published"]
    if "price" in draws and question.price is None:
        out.append(f"a GPU-hour costs {format_si(median(draws['price']))} USD at the median: rent of {question.system}")
    out += [_utilization(p, question)[1] for p in PHASES if _given_utilization(p, question) is None]
    if question.beta_flop is None and question.samples_per_kept is None:
        parts = "6 to train, 2 to sample, 0 to 4 to score"
        out.append(f"beta of {_ends(BETA_FLOP, format_si)} FLOP per parameter and RL token: {parts}")
    if _served(draws) is None and question.n_params is None:
        out.append("no demand given: the one at which inference costs what pretraining does, a choice and no law")
    if question.objective == "value":
        out += _buyers_words(question, draws)
    elif question.rl_tokens is None and question.rl_gain is None and question.n_params is None:
        out.append("no RL tokens given: as many as make RL cost what pretraining does, a choice and no law")
    if question.preset is not None:
        out.append(f"the lab {question.preset} is assumed, and no report of a real one")
    if question.rl_recipe is not None:
        out.append(
            f"half of what RL gives is reached after ScaleRL's {rl_recipe(question.rl_recipe)['C_mid']:g} GPU-hours "
            "of GB200 at the utilisation given, whatever the size; --rl-gain is what its pass rate is worth in loss"
        )
    elif question.rl_gain is not None:
        out.append("the sigmoid of RL is the question's own")
    if question.train_precision is not None:
        out.append("a FLOP in few bits takes the GPU-time that --utilization-pretraining says, of the bf16 peak")
        out.append("what few bits cost was fitted on models of 30M to 220M parameters")
    if question.objective == "loss" and np.any(np.asarray(draws["elasticity"]) > 1):
        out.append("demand is more than elastic: a larger model is served less in all; what it earns does not count")
    return out


def _buyers_words(question: AllocateQuestion, draws: Mapping[str, Num]) -> list[str]:
    """What is assumed of buyers, where the question is silent."""
    used = [*_BUYERS[:1], *(_BUYERS[1:] if question.rl_tokens is None and question.rl_gain is None else ())]
    used += ["demand_elasticity"] if question.elasticity is None else []
    out = [
        f"{name} of {_range_words(behaviour()[name][0])}: {behaviour()[name][1].removeprefix('assumption: ')}"
        for name in used
        if getattr(question, name, None) is None
    ]
    if question.token_price is None:
        out.append("no token price given: that at which the split of the lowest loss earns what it costs")
    out.append("the demand is that at the market's price for the model's quality: nobody buys above it")
    if np.any(np.asarray(draws["elasticity"]) > 1):
        out.append("a lower price sells more, up to any number of tokens, where the elasticity is above 1")
    return [*out, "income of the whole life at one price: decline, churn and interest are a plan's ([income])"]


def _range_words(value: Uncertain) -> str:
    return f"{value.low:.3g} to {value.high:.3g}" if isinstance(value, Range) else f"{value:.3g}"


_HOW = {
    "pretraining": "more tokens, a better model", "rl": "more RL, a better model",
    "inference": "a larger model for the same users",
}  # fmt: skip


def _least_words(question: AllocateQuestion) -> str:
    """What the split of the lowest loss takes as given."""
    if question.rl_gain is not None:
        return "serves all demand"
    rl = "the given RL" if question.rl_tokens is not None else "RL that costs what pretraining does"
    return f"serves all demand with {rl}"


def value_document(found: Earnings, price: Num, how: str) -> dict[str, Any]:
    """Income of a split as JSON: what each ledger's next GPU-hour brings, what binds, and the split of least loss."""
    hours = [(phase, how, found.usd_per_gpu_hour[phase]) for phase, how in _HOW.items()]
    hours.append(("inference", "more users", found.more_users_usd_per_gpu_hour))
    least = found.lowest_loss
    of_time = {phase: (least.gpu_hours[phase] / sum(least.gpu_hours.values()), "") for phase in PHASES}
    return {
        **quantities({
            "revenue_usd": (found.revenue_usd, "USD"),
            "usd_per_mtok": (found.usd_per_token * TOKENS_PER_MTOK, "USD/Mtok"),
            "usd_per_gpu_hour": (price, "USD/h"),
            "served_over_demand_ratio": (found.served_ratio, ""),
        }),
        "value_per_gpu_hour": [
            {"phase": phase, "how": how, "usd_per_hour": quantity(usd, "USD/h"),
             "over_price_ratio": quantity(usd / price, "")}
            for phase, how, usd in hours
        ],
        "binds": found.binds,
        "lowest_loss": {
            "how": how,
            **picked(least.ledgers, "n_params_active", "tokens_pretraining", "tokens_rl", "tokens_inference",
                     units={"n_params_active": "params"}),
            "shares": {"gpu_time": quantities(of_time)},
            **quantities({
                "loss": (least.loss, ""),
                "revenue_usd": (found.lowest_loss_revenue_usd, "USD"),
                "usd_per_mtok": (
                    found.lowest_loss_revenue_usd / least.ledgers.tokens_inference * TOKENS_PER_MTOK, "USD/Mtok"
                ),
            }),
        },
    }  # fmt: skip
