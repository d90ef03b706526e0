"""Parts of a serving answer: the front and margins of a search, breakdown, tiers of memory, launch commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import Uncertain, sample
from computeledger.economics.kv_tiers import CACHE_READ_FRACTION, estimate_kv_tiers, load_tier_market
from computeledger.economics.memory_design import design_memory
from computeledger.errors import DoesNotFitError, InputError, unknown_id
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import checkpoint_id
from computeledger.facts.load import load_model
from computeledger.interfaces.answers_setting import check_positive, whole_number
from computeledger.interfaces.documents_serving import (
    breakdown_document,
    dear_reads,
    margins_document,
    meets_document,
    option_document,
    pool_option_document,
    wider_products,
)
from computeledger.interfaces.documents_tiers import kv_tiers_document
from computeledger.interfaces.launch_flags import LAUNCHERS, engine_runs, launch_text
from computeledger.physics.calibration import ENGINES
from computeledger.physics.efficiency import middle
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.units import format_si
from computeledger.workloads.intervals import interval_class, interval_of
from computeledger.workloads.pool_search import search_pools
from computeledger.workloads.serving import ServingResult, ServingScenario
from computeledger.workloads.serving_breakdown import break_down_serving
from computeledger.workloads.serving_margins import rivals_of
from computeledger.workloads.serving_search import SLOWEST_TPOT_S, ServingOption, pareto_front


@dataclass(frozen=True, slots=True)
class Answered:
    """A serving question with its answer.

    Attributes
    ----------
    options : mapping
        As the command line parsed them.
    chosen : ServingOption
        Layout and batch of the answer.
    found : sequence of ServingOption
        What was searched.
    result : ServingResult
        With samples.
    machine : Machine
        With samples.
    middles, typical : ServingScenario and Machine
        The same with single numbers.
    layouts : sequence of Layout
        What was searched over.
    """

    options: Mapping[str, Any]
    chosen: ServingOption
    found: Sequence[ServingOption]
    result: ServingResult
    machine: Machine
    middles: ServingScenario
    typical: Machine
    layouts: Sequence[Layout]


def check_parts(options: Mapping[str, Any]) -> None:
    """Refuse parts that cannot be, before anything is computed."""
    engine = options.get("emit")
    if engine is not None and engine not in LAUNCHERS:
        raise unknown_id("engine", engine, LAUNCHERS)
    if engine is not None and options["backend"] == "ideal":
        raise InputError(f"--emit {engine}: the physical limit is no engine: leave out --backend ideal")
    if options.get("cache_discount") is not None and not options.get("kv_tiers"):
        raise InputError("--cache-discount is the price of a cached read in --kv-tiers: add that")
    for name in ("tpot", "ttft"):
        check_positive(f"--{name}", options[name])


def layouts_to_search(options: Mapping[str, Any], layouts: list[Layout]) -> list[Layout]:
    """Layouts that the engine can run, where a launch command is asked for."""
    engine = options.get("emit")
    if not engine:
        return layouts
    return [one for one in layouts if engine_runs(engine, one)]


def add_asked_model(document: dict[str, Any], options: Mapping[str, Any], model: Model) -> None:
    """Say which checkpoint was named, and where its context is the user's and not the configuration's."""
    own = load_model(options["model"])
    document["remarks"] = []
    document["checkpoint"] = checkpoint_id(options["model"]) or model.id
    if model.max_context_tokens != own.max_context_tokens:
        document["assumptions"]["context_tokens"] = model.max_context_tokens
        document["remarks"].append(
            f"a context of {model.max_context_tokens:,} tokens is your assumption: the configuration of {own.id} says "
            f"{own.max_context_tokens:,}, and what rope scaling does to quality is not modelled"
        )


def add_parts(document: dict[str, Any], answered: Answered) -> None:
    """Add what was asked for to a serving document."""
    options = answered.options
    add_asked_model(document, options, answered.middles.model)
    document["remarks"] += wider_products(answered.middles.precision, answered.machine.system)
    document["remarks"] += dear_reads(answered.result)
    if options["batch"] is None:
        document["winner"] = option_document(answered.chosen)
        document["pareto"] = [option_document(one) for one in pareto_front(answered.found)]
        document["n_options"] = len(answered.found)
    limits = {name: middle(options[name]) for name in ("tpot", "ttft") if options[name] is not None}
    if limits:
        document["meets"] = meets_document(answered.result, limits)
    if options["batch"] is None and options["requests_per_s"] is None:
        document["margins"] = _margins(answered)
    if options["working"] or options.get("html"):
        found = break_down_serving(answered.middles, answered.typical)
        document["breakdown"] = breakdown_document(found, options["backend"])
    if (apart := _two_pools(answered)) is not None:
        document["two_pools"] = apart
    if options.get("kv_tiers"):
        document["kv_tiers"] = _kv_tiers(answered)
    if options.get("emit"):
        document["launch"] = {"engine": options["emit"], "text": launch_text(options["emit"], document)}


def _margins(answered: Answered) -> dict[str, Any]:
    """The winner against the best of every other layout within the same limits."""
    asked = {name: answered.options[name] for name in ("tpot", "ttft")}
    limits = {name: middle(value) for name, value in asked.items() if value is not None}
    within = [
        one for one in answered.found if all(getattr(one, f"{name}_s") <= limit for name, limit in limits.items())
    ]
    fast = [one for one in within if one.tpot_s <= max(answered.chosen.tpot_s, SLOWEST_TPOT_S)]
    chosen_from = fast if "tpot" not in limits else within
    chances = {name: float(np.mean(getattr(answered.result, f"{name}_s") <= limit)) for name, limit in limits.items()}
    return margins_document(rivals_of(answered.chosen, chosen_from), chances, len(chosen_from))


def speculation(options: Mapping[str, Any]) -> dict[str, float]:
    """What was asked of speculative decoding, where it was."""
    names = ("draft_tokens", "tokens_per_step")
    return {name: float(options[name]) for name in names} if options["draft_tokens"] else {}


def aim_of_the_search(options: Mapping[str, Any], tpot_s: float) -> dict[str, Any]:
    """What a search aimed at that was told no speed, beside the speed that it found."""
    if options["tpot"] is not None:
        return {}
    if tpot_s <= SLOWEST_TPOT_S:
        return {"slowest_tpot_s_of_the_search": SLOWEST_TPOT_S}
    return {"choice_of_the_search": f"the fastest: no layout takes {format_si(SLOWEST_TPOT_S, 's')} per token or less"}


#: Throughput of two pools over that of one beyond which an answer for one names them, and GPUs that are tried for it at
#: most: a larger fleet repeats them (assumptions).
CLEARLY_MORE, MOST_TRIED = 1.2, 512


def _two_pools(answered: Answered) -> dict[str, Any] | None:
    """The best two pools on the GPUs at hand, where they give clearly more than the answer's one."""
    options, typical, layouts = answered.options, answered.typical, answered.layouts
    gpus, engine = whole_number("--gpus", options["gpus"]), options["backend"]
    is_searched = options["batch"] is options["layout"] is options["requests_per_s"] is None
    if gpus is None or not is_searched or engine not in ENGINES or gpus < 2 * min(int(one.n_gpus) for one in layouts):
        return None
    one = answered.middles
    sure = interval_of(interval_class(one.model, one.precision.name, typical.system, engine, "disaggregated"))
    at_median = replace(typical.efficiency, serving_ratio=middle(sure.tpot), first_token_ratio=middle(sure.ttft))
    try:
        found = search_pools(one, layouts, replace(typical, efficiency=at_median), min(gpus, MOST_TRIED))
    except DoesNotFitError:
        return None
    limits = {"tpot": SLOWEST_TPOT_S} | {
        name: middle(options[name]) for name in ("tpot", "ttft") if options[name] is not None
    }
    within = [one for one in found if all(getattr(one, f"{name}_s") <= limit for name, limit in limits.items())]
    if not within:
        return None
    best = max(within, key=lambda one: one.output_tokens_per_s_per_gpu)
    gain = best.output_tokens_per_s_per_gpu / answered.chosen.output_tokens_per_s_per_gpu
    return pool_option_document(best) | {"gain_ratio": gain} if gain > CLEARLY_MORE else None


def _kv_tiers(answered: Answered) -> dict[str, Any]:
    given: Uncertain | None = answered.options.get("cache_discount")
    inputs = load_tier_market().uncertain() | {"cache_read": CACHE_READ_FRACTION if given is None else given}
    draws = sample(inputs, answered.options["samples"], answered.options["seed"])
    market = load_tier_market()
    scenario = answered.result.scenario
    if np.any(np.asarray(scenario.usd_per_gpu_hour) <= 0):
        raise InputError("--kv-tiers compares tiers with the price of GPU-time: --price must be greater than 0")
    found = estimate_kv_tiers(scenario, answered.machine, draws, market, draws["cache_read"])
    designs = design_memory(scenario, answered.machine, draws, market)
    return kv_tiers_document(found, designs, market, draws["cache_read"])
