"""Answer a serving question with prefill and decode apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.parallelism import Layout
from computeledger.questions.answers.serving import document as documents
from computeledger.questions.answers.serving.engine_settings import settings_document
from computeledger.questions.answers.serving.launch import launch_text
from computeledger.questions.answers.serving.setting import (
    ServingAnswer,
    Setting,
    aim_of_the_search,
    engine_document,
    engine_remarks,
    interval_document,
    model_document,
    speculation,
)
from computeledger.units import format_si
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.pool_search import MOST_BUSY_FRACTION, PoolOption, pools_usd_per_mtok, search_pools
from computeledger.workloads.serving.pools import DisaggregatedResult, estimate_disaggregated
from computeledger.workloads.serving.reading import check_request, layouts_to_search, stated_layout
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    ServingOption,
    layouts_that_fit,
    pareto_front,
    search_serving,
)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PoolsAnswer(ServingAnswer):
    """A serving question answered by two pools of workers."""

    chosen: PoolOption
    options: tuple[PoolOption, ...]
    result: DisaggregatedResult
    limit: DisaggregatedResult
    n_gpus: int
    aggregated: ServingOption | None

    @property
    def _usd_per_mtok(self) -> tuple[Num, Num]:
        return pools_usd_per_mtok(self.result)

    @property
    def has_working(self) -> bool:
        """Working is built for one pool."""
        return False

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger serve --mode disaggregated --json`` prints it; the working is built for one pool only."""
        if working:
            raise InputError("--working is not built for two pools: leave out --mode disaggregated")
        setting, question, system = self.setting, self.question, self.setting.system
        document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
        document |= documents.pools_document(
            (self.result, self._usd_per_mtok), (self.limit, pools_usd_per_mtok(self.limit)), self.chosen, self.n_gpus
        )
        document["winner"] = documents.pool_option_document(self.chosen)
        document["pareto"] = [documents.pool_option_document(one) for one in pareto_front(list(self.options))]
        document["n_options"] = len(self.options)
        single = self.aggregated
        document["aggregated"] = None if single is None else documents.option_document(single)
        document |= {
            "price": dict(setting.price),
            "assumptions": documents.serving_assumptions(setting.at_median.host.buffers)
            | {"most_prefill_busy_fraction": MOST_BUSY_FRACTION},
        }
        if limits := question.limits:
            document["meets"] = documents.meets_document(self.result, limits)
        model = setting.at_median.model
        document |= model_document(setting)
        if question.context_tokens is not None:
            document["assumptions"]["context_tokens"] = model.max_context_tokens
        document["remarks"] += engine_remarks(question, system)
        document["remarks"] += documents.foreign_engine(question.backend or question.emit, system)
        document["remarks"] += documents.wider_products(setting.scenario, system)
        document["remarks"] += documents.carried_over(setting.machine)
        document["assumptions"] |= aim_of_the_search(question, self.chosen.tpot_s)
        document |= speculation(question)
        document |= settings_document(question, system.accelerator)
        if question.emit is not None:
            document["launch"] = {"engine": question.emit, "text": launch_text(question.emit, document)}
        engine = question.engine
        return document | {
            **engine_document(setting),
            "interval": interval_document(setting.interval, engine, system),
        }


def answer_pools(setting: Setting) -> PoolsAnswer:
    """Answer ``computeledger serve --mode disaggregated``."""
    question, stated = setting.question, None
    check_request(setting.at_median)
    if question.layout and question.prefill_layout:
        model = setting.at_median.model
        layouts = [stated_layout(question.layout, model)]
        stated = stated_layout(question.prefill_layout, model), question.batch
        least = sum(int(one.n_gpus) for one in (layouts[0], stated[0]))
    else:
        with with_remedies(setting.at_median, setting.system, question.engine, question.gpus):
            fitting = layouts_that_fit(setting.at_median, setting.typical, question.gpus)
        layouts = layouts_to_search(question, fitting)
        least = 2 * min(int(one.n_gpus) for one in layouts)
    gpus = question.gpus or setting.system.n_gpus or max(int(setting.system.n_gpus_scale_up.value), least)
    with with_remedies(setting.at_median, setting.system, question.engine, question.gpus):
        found = search_pools(setting.at_median, layouts, setting.typical, gpus, stated)
    chosen = _choose(found, question)
    pools = chosen.scenario(setting.scenario)
    return PoolsAnswer(
        question=question,
        setting=setting,
        chosen=chosen,
        options=tuple(found),
        result=estimate_disaggregated(pools, setting.machine),
        limit=estimate_disaggregated(pools, replace(setting.machine, efficiency=IDEAL)),
        n_gpus=gpus,
        aggregated=_aggregated(setting, layouts, chosen),
    )


def _choose(found: list[PoolOption], question: ServeQuestion) -> PoolOption:
    """The most throughput within the limits."""
    limits = question.limits
    for name, limit in limits.items():
        within = [one for one in found if getattr(one, f"{name}_s") <= limit]
        if not within:
            best = format_si(min(getattr(one, f"{name}_s") for one in found), "s")
            raise InputError(f"--{name} {format_si(limit, 's')}: no two pools are that fast; the best take {best}")
        found = within
    fast = [one for one in found if one.tpot_s <= limits.get("tpot", SLOWEST_TPOT_S)] or found
    return max(fast, key=lambda one: one.output_tokens_per_s_per_gpu)


def _aggregated(setting: Setting, layouts: list[Layout], chosen: PoolOption) -> ServingOption | None:
    """The best answer of one pool that is as fast per token."""
    found = search_serving(setting.at_median, layouts, setting.typical)
    fast = [one for one in found if one.tpot_s <= chosen.tpot_s]
    return max(fast, key=lambda one: one.output_tokens_per_s_per_gpu) if fast else None
