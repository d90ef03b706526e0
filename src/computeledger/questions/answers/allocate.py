"""From parsed options to the split of a budget, or the judgement of three ledgers, as a document."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, median, sample
from computeledger.economics.allocation import (
    PHASES,
    Allocation,
    AllocationScenario,
    Ledgers,
    PhaseCosts,
    RLGain,
    allocate,
    judge_ledgers,
    phase_gpu_hours,
)
from computeledger.economics.levers import PRESETS, demand_curve, judge_feeding, ledger_levers, return_curves
from computeledger.economics.scaling import LossLaw, load_loss_law, read_law, tokens_per_param_at_optimum
from computeledger.economics.scaling_confidence import beyond_fit, sampled_law
from computeledger.economics.scaling_forms import load_constants, rl_recipe, with_precision
from computeledger.economics.scaling_sparsity import sparsity_multiplier, sparsity_table, with_sparsity
from computeledger.errors import InputError, QuantityError, unknown_id
from computeledger.facts.load import load_system
from computeledger.physics.blackboard import (
    BETA_FLOP,
    DECODING_UTILIZATION_RATIO,
    PRETRAINING_UTILIZATION_FRACTION,
    rl_beta,
)
from computeledger.physics.blackboard_estimates import lifetime_tokens
from computeledger.questions.answers.setup import check_positive, price_of
from computeledger.units import format_percent, format_si, parse_quantity
from computeledger.validation.rl_beta import published_utilization
from computeledger.workloads.result import quantities

_OPTIONAL = ("tokens_pretraining", "tokens_rl", "tokens_inference", "n_params", "n_params_reference", "rate", "life",
             "rl_gain", "rl_mid", "rl_exponent", "unique_tokens", "sparsity_multiplier")  # fmt: skip
#: Whose GPU-hours ScaleRL's sigmoids count.
_SCALERL_SYSTEM = "gb200-nvl72"
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


def answer_allocate(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger allocate``."""
    options = _with_preset(options)
    options = {**options, "elasticity": _elasticity(options["elasticity"], options["unverified"])}
    published = load_loss_law(options["law"], options["unverified"])
    inputs, budget_unit = _inputs(options)
    draws = sample(inputs, options["samples"], options["seed"])
    law = _changed(sampled_law(published, options["samples"], options["seed"]), options, draws)
    system = load_system(options["system"])
    utilizations = PhaseCosts(*(draws[f"utilization_{phase}"] for phase in PHASES))
    peak = system.accelerator.peak_flop_per_s["bf16"].value
    hours = phase_gpu_hours(peak, utilizations)
    scenario = AllocationScenario(
        law=law,
        budget=draws.get("budget", 1.0),
        costs=_costs(budget_unit, hours, draws),
        gpu_hours=hours,
        tokens_inference=_served(draws),
        tokens_rl=draws.get("tokens_rl"),
        beta=rl_beta(draws["samples_per_kept"]) if "samples_per_kept" in draws else draws["beta"],
        demand_elasticity=draws["elasticity"],
        n_params_reference=draws.get("n_params_reference", 1.0),
        rl_gain=_rl_gain(draws, options["rl_recipe"]),
    )
    asked = _given_ledgers(options, draws, scenario)
    found = allocate(scenario) if asked is None else judge_ledgers(scenario, asked)
    document = allocation_document(found, scenario, budget_unit)
    document["warning"] = _warning(document["law"])
    document["assumptions"] = _assumptions(options, draws, published)
    document["sources"] = sorted({*_law_sources(options), system.accelerator.peak_flop_per_s["bf16"].source})
    if options["sparsity_ratio"] is not None:
        document |= quantities(
            {"n_params_total": (found.ledgers.n_params_active * options["sparsity_ratio"], "params")}
        )
    if options["unique_tokens"] is not None and options["unverified"]:
        document["sparsities"] = sparsity_table(
            median(found.flop["pretraining"]), median(draws["unique_tokens"]), published
        )
    if asked is not None:
        document["diagnosis"] = judge_feeding(found)
    if options["levers"]:
        document["levers"] = ledger_levers(options["levers"], options["system"])
    document["curve"] = demand_curve(scenario, found)
    document["return_curves"] = return_curves(scenario, found)
    return document


def _with_preset(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ledgers of an assumed lab in the place of given ones."""
    name = options["preset"]
    if name is None:
        return options
    if name not in PRESETS:
        raise unknown_id("preset", name, PRESETS)
    keys = ("n_params", "tokens_pretraining", "tokens_rl", "tokens_inference")
    return {**options, **dict(zip(keys, PRESETS[name], strict=True))}


def _inputs(options: Mapping[str, Any]) -> tuple[dict[str, Uncertain], str]:
    beta = BETA_FLOP if options["beta"] is None else options["beta"]
    inputs: dict[str, Uncertain] = {"beta": beta, "elasticity": options["elasticity"]}
    if options["samples_per_kept"] is not None:
        check_positive("--samples-per-kept", options["samples_per_kept"])
        inputs["samples_per_kept"] = options["samples_per_kept"]
    check_positive("--beta", options["beta"])
    unit = "gpu_hours"  # ledgers that are judged have no budget, and are judged by the GPU-hour
    if options["budget"] is not None:
        inputs["budget"], unit = parse_budget(options["budget"])
    elif options["n_params"] is None:
        raise InputError(
            "--budget is missing: '5.76e23 FLOP', '2.7M GPU-hours' or '$50M' (or give --n-params to judge)"
        )
    for phase in PHASES:
        given = options[f"utilization_{phase}"]
        check_positive(f"--utilization-{phase}", given)
        inputs[f"utilization_{phase}"] = _utilization(phase, options)[0] if given is None else given
    _check_pairs(options)
    if options["sparsity_ratio"] is not None and options["sparsity_multiplier"] is None:
        inputs["sparsity_multiplier"] = sparsity_multiplier(options["sparsity_ratio"], options["unverified"])
    inputs |= {name: options[name] for name in _OPTIONAL if options[name] is not None}
    if unit == "usd" or options["price"] is not None:
        inputs["price"] = price_of(load_system(options["system"]), options["price"])[0]
    return inputs, unit


def _utilization(phase: str, options: Mapping[str, Any]) -> tuple[Uncertain, str]:
    """Utilisation of a phase where the question is silent, and the words of its assumption."""
    if phase == "rl":
        kind = "moe" if (options["sparsity_ratio"] or 1.0) > 1 else "dense"
        used = published_utilization(kind)
        name = "mixtures of experts" if kind == "moe" else "dense models"
        return used, f"utilisation of rl {_ends(used, format_percent)}: published RL steps of {name}, waiting included"
    share = PRETRAINING_UTILIZATION_FRACTION * (1.0 if phase == "pretraining" else DECODING_UTILIZATION_RATIO)
    return share, f"utilisation of {phase} {format_percent(share)}"


def _ends(of: Range, say: Callable[[float], str]) -> str:
    return f"{say(float(of.quantile(0.0)))} ({say(of.low)} to {say(of.high)})"


def _check_pairs(options: Mapping[str, Any]) -> None:
    if (options["rate"] is None) != (options["life"] is None):
        raise InputError("--rate and --life go together: tokens served are their product")
    if options["rate"] is not None and options["tokens_inference"] is not None:
        raise InputError("--inference-tokens is what --rate and --life multiply to: give one of them")
    if options["elasticity"] and options["n_params_reference"] is None:
        raise InputError("--elasticity needs --at-n-params, the size at which the demand is --inference-tokens")
    if options["rl_recipe"] is not None and options["rl_mid"] is not None:
        raise InputError("--rl-recipe says where half of the gain is reached, and so does --rl-mid: give one of them")
    if (options["rl_gain"] is None) != (options["rl_mid"] is None and options["rl_recipe"] is None):
        raise InputError(
            "--rl-gain goes with --rl-mid or --rl-recipe: what RL is worth, and where half of it is reached"
        )


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


def _changed(law: LossLaw, options: Mapping[str, Any], draws: Mapping[str, Num]) -> LossLaw:
    """The law with sparsity, precision and a limit of fresh data laid over it."""
    if "sparsity_multiplier" in draws:
        law = with_sparsity(law, draws["sparsity_multiplier"])
    if options["train_bits"] is not None:
        law = with_precision(law, *_bits(options["train_bits"]))
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
        raise InputError(f"--train-bits {text!r}: write bits of weights, activations and cache, such as 8/8/16")
    return bits


def _law_sources(options: Mapping[str, Any]) -> set[str]:
    """Laws that took part."""
    asked = {
        "muennighoff_2023": options["unique_tokens"] is not None, "kumar_2024": options["train_bits"] is not None,
        "scalerl_2025": options["rl_recipe"] is not None, "demand_elasticity": options["elasticity"] == "published",
        "sparsity_multiplier": options["sparsity_ratio"] is not None and options["sparsity_multiplier"] is None,
    }  # fmt: skip
    name = options["law"].replace("-", "_")
    tables = [read_law(one, unverified=True) for one in (name, *(other for other, used in asked.items() if used))]
    own = (part for key in ("range", "uncertainty") if (part := tables[0][0].get(key)) is not None)
    return {origin["source"] for _, origin in tables} | {part["source"] for part in own}


def _costs(unit: str, hours: PhaseCosts, draws: Mapping[str, Num]) -> PhaseCosts:
    if unit == "flop":
        return PhaseCosts()
    price = draws["price"] if unit == "usd" else 1.0
    return PhaseCosts(*(getattr(hours, phase) * price for phase in PHASES))


def _given_ledgers(
    options: Mapping[str, Any], draws: Mapping[str, Num], scenario: AllocationScenario
) -> Ledgers | None:
    if options["n_params"] is None:
        return None
    if options["budget"] is not None or options["tokens_pretraining"] is None:
        raise InputError("--n-params judges ledgers that are given: with --tokens, and without --budget")
    served = 0.0 if scenario.tokens_inference is None else scenario.tokens_inference
    return Ledgers(draws["n_params"], draws["tokens_pretraining"], draws.get("tokens_rl", 0.0), served)


def allocation_document(found: Allocation, scenario: AllocationScenario, unit: str) -> dict[str, Any]:
    """The split as JSON."""
    ledgers, law = found.ledgers, scenario.law
    shares = {
        kind: quantities({p: (of[p] / sum(of.values()), "") for p in PHASES})
        for kind, of in (("flop", found.flop), ("gpu_time", found.gpu_hours))
    }
    per_param = tokens_per_param_at_optimum(found.flop["pretraining"], law)
    return {
        **quantities({
            "n_params_active": (ledgers.n_params_active, "params"),
            "tokens_pretraining": (ledgers.tokens_pretraining, "tokens"),
            "tokens_rl": (ledgers.tokens_rl, "tokens"),
            "tokens_inference": (ledgers.tokens_inference, "tokens"),
        }),
        "shares": shares,
        "marginal_return": quantities({p: (found.marginal_return[p], f"loss/{_CURRENCIES[unit]}") for p in PHASES}),
        "marginal_return_per_gpu_hour": quantities({
            p: (found.marginal_return_per_gpu_hour[p], "loss/GPU-hour") for p in PHASES}),
        **quantities({
            "overtraining_ratio": (found.overtraining_ratio, ""),
            "tokens_per_param": (ledgers.tokens_pretraining / ledgers.n_params_active, "tokens/parameter"),
            "tokens_per_param_compute_optimal": (per_param, "tokens/parameter"),
            "exponent_ratio": (found.exponent_ratio, ""),
            "inference_over_pretraining_tokens_ratio": (ledgers.tokens_inference / ledgers.tokens_pretraining, ""),
            "loss": (found.loss, ""),
        }),
        "flop": quantities({p: (found.flop[p], "FLOP") for p in PHASES}),
        "gpu_hours": quantities({p: (found.gpu_hours[p], "GPU-hours") for p in PHASES}),
        "law": _law_document(law, ledgers),
        "budget": {"value": quantities({"v": (scenario.budget, _CURRENCIES[unit])})["v"], "unit": _CURRENCIES[unit]},
    }  # fmt: skip


def _law_document(law: LossLaw, ledgers: Ledgers) -> dict[str, Any]:
    """The law at the middle of its coefficients, with the range of its fit and how far the answer lies outside."""
    names = ("name", "source", "date", "locator", "read", "fit")
    middle = {name: median(getattr(law, name)) for name in ("E", "A", "B", "alpha", "beta", "unique_tokens")}
    return {name: getattr(law, name) for name in names} | {
        **{name: value for name, value in middle.items() if value != math.inf}, "changes": list(law.changes),
        "fitted": {name: list(ends) for name, ends in law.fitted.items()},
        "beyond_fit_ratio": beyond_fit(law, ledgers.n_params_active, ledgers.tokens_pretraining),
        "coefficients_are_sampled": bool(law.covariance),
    }  # fmt: skip


def _warning(law: Mapping[str, Any]) -> str | None:
    """Words on an answer that lies where its law was neither fitted nor tested."""
    if not law["beyond_fit_ratio"]:
        return None
    parts = [_beyond(name, ratio, law["fitted"][name]) for name, ratio in law["beyond_fit_ratio"].items()]
    return f"{law['name']} is extrapolated: {', '.join(parts)}"


def _beyond(name: str, ratio: float, ends: list[float]) -> str:
    words = {"n_params": "parameters", "tokens": "tokens", "flop": "FLOP", "tokens_per_param": "tokens per parameter"}
    if ratio > 1:
        return f"{words[name]} {ratio:.3g} times the most that it was fitted or tested on ({format_si(ends[1])})"
    return f"{words[name]} {ratio:.2g} of the least that it was fitted or tested on ({format_si(ends[0])})"


def _assumptions(options: Mapping[str, Any], draws: Mapping[str, Num], law: LossLaw) -> list[str]:
    sure = "intervals hold how sure the law's coefficients are, and not whether its form holds"
    out = [sure if law.covariance else "the law's coefficients count as exact: how sure they are was not published"]
    out += [_utilization(p, options)[1] for p in PHASES if options[f"utilization_{p}"] is None]
    if options["beta"] is None and options["samples_per_kept"] is None:
        parts = "6 to train, 2 to sample, 0 to 4 to score"
        out.append(f"beta of {_ends(BETA_FLOP, format_si)} FLOP per parameter and RL token: {parts}")
    if _served(draws) is None and options["n_params"] is None:
        out.append("no demand given: the one at which inference costs what pretraining does, a choice and no law")
    if options["tokens_rl"] is None and options["rl_gain"] is None and options["n_params"] is None:
        out.append("no RL tokens given: as many as make RL cost what pretraining does, a choice and no law")
    if options["preset"] is not None:
        out.append(f"the lab {options['preset']} is assumed, and no report of a real one")
    if options["rl_recipe"] is not None:
        out.append(
            f"half of what RL gives is reached after ScaleRL's {rl_recipe(options['rl_recipe'])['C_mid']:g} GPU-hours "
            "of GB200 at the utilisation given, whatever the size; --rl-gain is what its pass rate is worth in loss"
        )
    elif options["rl_gain"] is not None:
        out.append("the sigmoid of RL is the question's own")
    if options["train_bits"] is not None:
        out.append("a FLOP in few bits takes the GPU-time that --utilization-pretraining says, of the bf16 peak")
        out.append("what few bits cost was fitted on models of 30M to 220M parameters")
    if np.any(np.asarray(draws["elasticity"]) > 1):
        out.append("demand is more than elastic: a larger model is served less in all; what it earns does not count")
    return out
