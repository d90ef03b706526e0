"""A serving question's answer by one pool of replicas, and the parts of its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Uncertain, sample
from computeledger.economics.hosting.kv_tiers import CACHE_READ_FRACTION, estimate_kv_tiers, load_tier_market
from computeledger.economics.hosting.memory_design import design_memory
from computeledger.errors import DoesNotFitError, InputError
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.parallelism import Layout
from computeledger.questions.answers.serve_setting import (
    ServingAnswer,
    aim_of_the_search,
    interval_document,
    model_document,
    speculation,
)
from computeledger.questions.answers.setup import multiplied_in
from computeledger.questions.documents import records as documents
from computeledger.questions.documents import serving as documents_serving
from computeledger.questions.documents.serving import (
    breakdown_document,
    dear_reads,
    margins_document,
    meets_document,
    option_document,
    pool_option_document,
    wider_products,
)
from computeledger.questions.documents.tiers import kv_tiers_document
from computeledger.questions.launch import launch_text
from computeledger.workloads.figures import serving_figures
from computeledger.workloads.serving.breakdown import break_down_serving
from computeledger.workloads.serving.estimate import ServingResult
from computeledger.workloads.serving.intervals import interval_for
from computeledger.workloads.serving.margins import rivals_of
from computeledger.workloads.serving.pool_search import search_pools
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, Fleet, PriceOfSpeed, ServingOption, pareto_front


@dataclass(frozen=True, eq=False, slots=True)
class ServeAnswer(ServingAnswer):
    """A serving question answered at one layout and batch."""

    chosen: ServingOption
    options: tuple[ServingOption, ...]
    layouts: tuple[Layout, ...]
    result: ServingResult
    limit: ServingResult
    price_of_speed: PriceOfSpeed
    fleet: Fleet | None
    n_gpus: int
    anchored: Mapping[str, Any] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Of one replica."""
        return self.chosen.layout

    @property
    def _usd_per_mtok(self) -> tuple[Num, Num]:
        return self.result.usd_per_mtok_output, self.result.usd_per_mtok_input

    @property
    def batch(self) -> int:
        """Sequences decoding per replica [-]."""
        return self.chosen.batch

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger serve --json`` prints it.

        Examples
        --------
        >>> from computeledger.questions.answers.serve import serve
        >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8, samples=16)
        >>> answer.to_dict()["tpot_s"]["p50"] == answer.tpot_s.p50
        True
        """
        setting, question = self.setting, self.question
        engine, chip = question.engine, setting.system.accelerator
        document: dict[str, Any] = {"system": setting.system.id, "accelerator": chip.id}
        if self.fleet is not None:
            document["fleet"] = documents_serving.fleet_document(self.fleet)
        document |= documents_serving.serve_document(self.result, self.limit, self.price_of_speed, self.n_gpus)
        precision = self.result.scenario.precision
        document["multiplied_in"] = multiplied_in(chip, [precision.attention, precision.experts])
        document |= {"price": dict(setting.price), "backend": engine, "efficiency_profile": engine}
        document |= {**speculation(question), **self.anchored, "interval": interval_document(setting.interval, engine)}
        document["assumptions"] = documents_serving.serving_assumptions()
        if question.is_searched:
            document["assumptions"] |= aim_of_the_search(question, self.chosen.tpot_s)
        document |= parts_document(self, document, working)
        if working:
            document["working"] = documents.working_document(serving_figures(self.result), setting.price)
            document["efficiency"] = documents.efficiency_document(engine)
        return document


def parts_document(answer: ServeAnswer, document: Mapping[str, Any], working: bool) -> dict[str, Any]:
    """Parts of a serving document that depend on what was asked for."""
    question, setting = answer.question, answer.setting
    out = model_document(question, setting.at_median.model)
    if out["remarks"]:
        out["assumptions"] = {**document["assumptions"], "context_tokens": setting.at_median.model.max_context_tokens}
    out["remarks"] += wider_products(setting.at_median.precision, setting.machine.system) + dear_reads(answer.result)
    if question.is_searched:
        out["winner"] = option_document(answer.chosen)
        out["pareto"] = [option_document(one) for one in pareto_front(answer.options)]
        out["n_options"] = len(answer.options)
    if limits := question.limits:
        out["meets"] = meets_document(answer.result, limits)
    if question.is_searched and question.requests_per_s is None:
        out["margins"] = _margins(answer)
    if working:
        found = break_down_serving(setting.at_median, setting.typical)
        out["breakdown"] = breakdown_document(found, question.engine)
    if (apart := _two_pools(answer)) is not None:
        out["two_pools"] = apart
    if question.kv_tiers:
        out["kv_tiers"] = _kv_tiers(answer)
    if question.emit is not None:
        out["launch"] = {"engine": question.emit, "text": launch_text(question.emit, {**document, **out})}
    return out


def _margins(answer: ServeAnswer) -> dict[str, Any]:
    """The winner against the best of every other layout within the same limits."""
    limits = answer.question.limits
    within = [
        one for one in answer.options if all(getattr(one, f"{name}_s") <= limit for name, limit in limits.items())
    ]
    fast = [one for one in within if one.tpot_s <= max(answer.chosen.tpot_s, SLOWEST_TPOT_S)]
    chosen_from = fast if "tpot" not in limits else within
    chances = {name: float(np.mean(getattr(answer.result, f"{name}_s") <= limit)) for name, limit in limits.items()}
    return margins_document(rivals_of(answer.chosen, chosen_from), chances, len(chosen_from))


#: Throughput of two pools over that of one beyond which an answer for one names them, and GPUs that are tried for it at
#: most: a larger fleet repeats them (assumptions).
CLEARLY_MORE, MOST_TRIED = 1.2, 512


def _two_pools(answer: ServeAnswer) -> dict[str, Any] | None:
    """The best two pools on the GPUs at hand, where they give clearly more than the answer's one."""
    question, typical, layouts = answer.question, answer.setting.typical, answer.layouts
    gpus, engine = question.gpus, question.engine
    is_searched = question.batch is None and question.layout is None and question.requests_per_s is None
    if (
        gpus is None
        or not is_searched
        or engine not in calibrated_engines()
        or gpus < 2 * min(int(one.n_gpus) for one in layouts)
    ):
        return None
    one = answer.setting.at_median
    sure = interval_for(one.model, one.precision.name, typical.system, engine, "disaggregated")
    at_median = replace(typical.efficiency, serving_ratio=median_of(sure.tpot), first_token_ratio=median_of(sure.ttft))
    try:
        found = search_pools(one, layouts, replace(typical, efficiency=at_median), min(gpus, MOST_TRIED))
    except DoesNotFitError:
        return None
    limits = {"tpot": SLOWEST_TPOT_S} | question.limits
    within = [one for one in found if all(getattr(one, f"{name}_s") <= limit for name, limit in limits.items())]
    if not within:
        return None
    best = max(within, key=lambda one: one.output_tokens_per_s_per_gpu)
    gain = best.output_tokens_per_s_per_gpu / answer.chosen.output_tokens_per_s_per_gpu
    return pool_option_document(best) | {"gain_ratio": gain} if gain > CLEARLY_MORE else None


def _kv_tiers(answer: ServeAnswer) -> dict[str, Any]:
    given = answer.question.cache_discount
    inputs: dict[str, Uncertain] = load_tier_market().uncertain() | {
        "cache_read": CACHE_READ_FRACTION if given is None else given
    }
    draws = sample(inputs, answer.question.samples, answer.question.seed)
    market = load_tier_market()
    scenario = answer.result.scenario
    if np.any(np.asarray(scenario.usd_per_gpu_hour) <= 0):
        raise InputError("--kv-tiers compares tiers with the price of GPU-time: --price must be greater than 0")
    found = estimate_kv_tiers(scenario, answer.setting.machine, draws, market, draws["cache_read"])
    designs = design_memory(scenario, answer.setting.machine, draws, market)
    return kv_tiers_document(found, designs, market, draws["cache_read"])
