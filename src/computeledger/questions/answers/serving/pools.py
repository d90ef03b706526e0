"""Answer a serving question with prefill and decode apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, median
from computeledger.errors import InputError
from computeledger.physics.calibration.efficiency import IDEAL, median_of
from computeledger.physics.parallelism import Layout
from computeledger.questions.answers.serving import document as documents
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.answers.serving.drafts import drafts_document, speculation_document
from computeledger.questions.answers.serving.engine_settings import settings_document
from computeledger.questions.answers.serving.images import images_document
from computeledger.questions.answers.serving.launch import launch_text
from computeledger.questions.answers.serving.loras import adapter_remarks, adapters_document
from computeledger.questions.answers.serving.masks import mask_remarks, masks_document
from computeledger.questions.answers.serving.promise import KeptPromise, TwoPools
from computeledger.questions.answers.serving.promise_document import promise_document
from computeledger.questions.answers.serving.setting import (
    ServingAnswer,
    Setting,
    aim_of_the_search,
    engine_document,
    engine_remarks,
    interval_document,
    model_document,
)
from computeledger.questions.answers.serving.talks import talks_document
from computeledger.questions.answers.serving.traffic import context_and_traffic
from computeledger.questions.grounds import efficiency_document, working_document
from computeledger.units import HOUR_S, format_count, format_si
from computeledger.workloads.figures import pools_figures
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.breakdown import break_down_pools
from computeledger.workloads.serving.estimate import largest_batch
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.pool_search import (
    MOST_BUSY_FRACTION,
    PoolOption,
    Reading,
    pools_usd_per_mtok,
    search_pools,
    size_pools,
)
from computeledger.workloads.serving.pools import (
    Chips,
    DisaggregatedResult,
    at_rate,
    estimate_disaggregated,
    without_prompts,
)
from computeledger.workloads.serving.reading import (
    check_request,
    layouts_of_engine,
    layouts_to_search,
    stated_layout,
)
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    ServingOption,
    Slo,
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
    requests_per_s: float | None = None
    full_load: DisaggregatedResult | None = None
    kept: KeptPromise | None = None
    modes: Mapping[str, Any] | None = None

    @property
    def _usd_per_mtok(self) -> tuple[Num, Num]:
        return pools_usd_per_mtok(self.result, self.requests_per_s)

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger serve --mode disaggregated --json`` prints it."""
        setting, question, system = self.setting, self.question, self.setting.system
        document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
        limit = (self.limit, pools_usd_per_mtok(self.limit, self.requests_per_s))
        document |= documents.pools_document((self.result, self._usd_per_mtok), limit, self.chosen, self.n_gpus)
        document["winner"] = documents.pool_option_document(self.chosen)
        document["n_options"] = len(self.options)
        if self.requests_per_s is None:
            document["pareto"] = [documents.pool_option_document(one) for one in pareto_front(list(self.options))]
        else:
            document["fleet"] = self._fleet(self.requests_per_s)
            if setting.reading is not None:
                own = setting.reading
                document["pools"]["prefill"] |= {"system": own.system.id, "price": dict(own.price)}
            for name, most in self._most_sequences().items():
                document["pools"][name]["max_sequences"] = most
        single = self.aggregated
        document["aggregated"] = None if single is None else documents.option_document(single)
        document |= {
            "price": dict(setting.price),
            "assumptions": documents.serving_assumptions(setting.at_median.host.buffers)
            | {"most_prefill_busy_fraction": MOST_BUSY_FRACTION},
        }
        if (limits := question.limits) and self.kept is None:
            document["meets"] = documents.meets_document(self.result, limits, self._carries())
        model = setting.at_median.model
        document |= model_document(setting)
        if question.context_tokens is not None:
            document["assumptions"]["context_tokens"] = model.max_context_tokens
        document["remarks"] += engine_remarks(question, system) + documents.wider_products(setting.scenario, system)
        document["remarks"] += documents.foreign_engine(question.backend or question.emitted_engine, system)
        document["remarks"] += documents.carried_over(setting.machine)
        document["remarks"] += adapter_remarks(setting.at_median) + mask_remarks(question, self.result.decode)
        document["assumptions"] |= aim_of_the_search(question, self.chosen.tpot_s)
        one = self.result.scenario.decode
        document |= drafts_document(one) | adapters_document(one) | masks_document(question, self.result.decode)
        apart, typical = without_prompts(setting.machine), without_prompts(setting.typical)
        at_median = self.chosen.scenario(setting.at_median).decode
        document |= speculation_document(replace(setting, machine=apart), one, at_median, typical)
        read = self.result.prefill
        document |= images_document(question, read.scenario, read.prefill, self.result.ttft_s)
        document |= settings_document(question, system.accelerator)
        document |= context_and_traffic(question, at_median, self._filled_by(), system.accelerator)
        if self.modes is not None:
            document["modes"] = dict(self.modes)
        if self.kept is not None:
            document |= promise_document(self.kept, document["fleet"]["usd_per_request"], self._facility_w())
            document |= talks_document(self.kept)
            del document["fleet"]["carries_probability"]  # the promise has a chance of its own
        if question.emit is not None:
            document["launch"] = {
                "engine": question.emit,
                "text": launch_text(question.emit, engine_document(setting) | document),
            }
        promises = None if self.kept is None else self.kept.asked.promises
        return document | {
            **(self._working() if working else {}),
            **engine_document(setting),
            **anchor_document(setting.anchoring),
            "interval": interval_document(setting.interval, question.engine, system, promises),
        }

    def _filled_by(self) -> Num | None:
        """Requests that keep both pools full; None under a promise, which has a load of its own [1/s]."""
        return None if self.kept else (self.full_load or self.result).requests_per_s

    def _working(self) -> dict[str, Any]:
        """Both pools taken apart at the medians, and every figure with its formula and inputs."""
        setting, own, rate = self.setting, self.setting.reading, self.requests_per_s
        chips = None if own is None else Chips(own.typical, own.at_median.usd_per_gpu_hour)
        pools = self.chosen.scenario(setting.at_median, chips, transfer_of(setting))
        if rate is not None:
            most = np.minimum(largest_batch(pools.decode, setting.typical), pools.decode.settings.max_batch)
            pools = replace(pools, decode=replace(pools.decode, batch=most))
        found = break_down_pools(pools, setting.typical, rate)
        return {
            "breakdown": documents.pools_breakdown_document(found, setting.constants),
            "working": working_document(pools_figures(self.result, self._usd_per_mtok), setting.price),
            "efficiency": efficiency_document(self.question.engine),
        }

    def _carries(self) -> NDArray[np.bool_]:
        """The samples in which both pools finish what arrives."""
        if self.full_load is None or self.requests_per_s is None:
            return np.array(True)
        return np.asarray(self.full_load.requests_per_s >= self.requests_per_s)

    def _facility_w(self) -> float:
        """Power of both pools [W]."""
        setting = self.setting
        chips = [(one or setting).system.facility_w_per_chip.value for one in (setting.reading, setting)]
        return float(self.chosen.weight((float(chips[0]), float(chips[1]))))

    def _most_sequences(self) -> dict[str, int]:
        """Sequences that a worker of each pool takes at once under a load: what is simulated, or what memory holds."""
        if self.kept is not None:
            return {
                name: int(one.limits.live)
                for name, one in zip(("prefill", "decode"), self.kept.chosen.unit.clock.pools, strict=True)
            }
        told = median(self.setting.scenario.settings.max_batch)
        held = {name: median(getattr(self.result, name).memory.largest_batch) for name in ("prefill", "decode")}
        return {name: max(int(min(most, told)), 1) for name, most in held.items()}

    def _fleet(self, requests_per_s: float) -> dict[str, Any]:
        """Workers that carry a load, and what they cost."""
        prices = self.result.scenario.prefill_usd_per_gpu_hour, self.result.scenario.decode.usd_per_gpu_hour
        usd_per_hour = median(np.asarray(self.chosen.weight(prices)))
        full = self.full_load
        return {
            "n_gpus": self.chosen.n_gpus,
            "n_replicas": self.chosen.n_decode,
            "n_prefill_replicas": self.chosen.n_prefill,
            "load_fraction": requests_per_s / median(full.requests_per_s) if full is not None else None,
            "usd_per_hour": usd_per_hour,
            "usd_per_request": usd_per_hour / HOUR_S / requests_per_s,
            "carries_probability": float(np.mean(self._carries())),
        }


def pools_to_search(setting: Setting) -> tuple[list[Layout], tuple[Layout, int | None] | None]:
    """Layouts of decode workers, and the stated one of prefill workers with the batch of a decode worker."""
    question = setting.question
    check_request(setting.at_median)
    if question.layout and question.prefill_layout:
        model = setting.at_median.model
        stated = stated_layout(question.prefill_layout, model), question.batch
        return layouts_of_engine(question.engine, [stated_layout(question.layout, model)]), stated
    at_hand = None if question.requests_per_s is not None else question.gpus  # of a load they limit the fleet
    with with_remedies(setting.at_median, setting.system, question.engine, question.gpus):
        fitting = layouts_that_fit(setting.at_median, setting.typical, at_hand)
    if question.gpus is not None:
        fitting = [one for one in fitting if one.n_gpus <= question.gpus] or fitting
    return layouts_to_search(question, fitting), None


def prefill_workers(setting: Setting, layouts: list[Layout]) -> Reading:
    """Prefill workers that may be chosen, on the chips of their own where they have some."""
    own, transfer = setting.reading, transfer_of(setting)
    if own is None:
        return Reading(layouts, transfer_bytes_per_s=transfer)
    chips = Chips(own.typical, own.at_median.usd_per_gpu_hour)
    return Reading(pools_to_search(own)[0] if setting.question.prefill_layout is None else layouts, chips, transfer)


def transfer_of(setting: Setting) -> float | None:
    """Stated rate at which a cache moves between the pools [byte/s]."""
    given = setting.question.transfer_bytes_per_s
    return None if given is None else median_of(given)


def two_pools(setting: Setting) -> TwoPools:
    """Two pools of a question that can be sized for a load."""

    def sized(slo: Slo) -> list[PoolOption]:
        layouts, stated = pools_to_search(setting)
        with with_remedies(setting.at_median, setting.system, setting.question.engine, setting.question.gpus):
            return size_pools(
                setting.at_median, layouts, setting.typical, slo, stated, prefill_workers(setting, layouts)
            )

    return TwoPools(setting, sized)


def answer_sized_pools(setting: Setting, kept: KeptPromise | None = None) -> PoolsAnswer:
    """Two pools for a load: of a promise that was kept, or the fewest GPUs within plain limits."""
    question, rate = setting.question, median_of(setting.question.requests_per_s or 0.0)
    found = [one.option for one in kept.finalists if isinstance(one.option, PoolOption)] if kept else None
    found = found or fewest_pools(setting)
    chosen = found[0]
    if kept is not None and isinstance(kept.option, PoolOption):
        n_prefill, n_decode = kept.chosen.best.counts
        chosen = replace(kept.option, n_prefill=n_prefill, n_decode=n_decode)
    own = setting.reading
    chips = None if own is None else Chips(own.machine, own.scenario.usd_per_gpu_hour)
    pools = chosen.scenario(setting.scenario, chips, transfer_of(setting))
    most = largest_batch(pools.decode, setting.machine)
    full = replace(pools, decode=replace(pools.decode, batch=np.minimum(most, setting.scenario.settings.max_batch)))
    ideal = replace(setting.machine, efficiency=IDEAL)
    bound = full
    if own is not None:
        fastest = Chips(replace(own.machine, efficiency=IDEAL), own.scenario.usd_per_gpu_hour)
        bound = replace(full, prefill_on=fastest)
    result, at_full, limit = (
        estimate_disaggregated(at_rate(asked, machine, at), machine)
        for asked, machine, at in (
            (full, setting.machine, rate),
            (full, setting.machine, np.inf),
            (bound, ideal, rate),
        )
    )
    chosen = replace(
        chosen,
        decode_batch=median(result.decode_batch),
        concurrency=median(result.scenario.concurrency),
        tpot_s=median(result.tpot_s),
        ttft_s=median(result.ttft_s),
        requests_per_s=rate,
        prefill_busy_fraction=median(result.prefill_busy_fraction),
    )
    return PoolsAnswer(
        question=question,
        setting=setting,
        chosen=chosen,
        options=tuple(found),
        result=result,
        limit=limit,
        n_gpus=chosen.n_gpus,
        aggregated=None,
        requests_per_s=rate,
        full_load=at_full,
        kept=kept,
    )


def fewest_pools(setting: Setting) -> list[PoolOption]:
    """Two pools for a load within plain limits, fewest GPUs first; none beyond the GPUs at hand."""
    question = setting.question
    limits = {"ttft": np.inf, "tpot": SLOWEST_TPOT_S} | question.limits
    found = two_pools(setting).sized(Slo(median_of(question.requests_per_s or 0.0), limits["ttft"], limits["tpot"]))
    if question.gpus is not None and found[0].n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that load needs {format_count(found[0].n_gpus, 'GPU')} in two pools; leave "
            "--gpus out to size them"
        )
    return found


def answer_pools(setting: Setting) -> PoolsAnswer:
    """Answer ``computeledger serve --mode disaggregated``."""
    question = setting.question
    if question.requests_per_s is not None:
        return answer_sized_pools(setting)
    layouts, stated = pools_to_search(setting)
    least = min(int(one.n_gpus) for one in layouts)
    least += int(stated[0].n_gpus) if stated else least
    gpus = question.gpus or setting.system.n_gpus or max(int(setting.system.n_gpus_scale_up.value), least)
    with with_remedies(setting.at_median, setting.system, question.engine, question.gpus):
        reading = prefill_workers(setting, layouts)
        found = search_pools(setting.at_median, layouts, setting.typical, gpus, stated, reading)
    chosen = _choose(found, question)
    pools = chosen.scenario(setting.scenario, None, transfer_of(setting))
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
