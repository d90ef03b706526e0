"""Answer a serving question by one pool of replicas: layout and batch, speed, cost and memory, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, Uncertain, median, sample
from computeledger.economics.hosting.kv_tiers import CACHE_READ_FRACTION, estimate_kv_tiers, load_tier_market
from computeledger.economics.hosting.memory_design import design_memory
from computeledger.errors import DoesNotFitError, InputError, shown
from computeledger.facts.catalog import user_path
from computeledger.fields import Given
from computeledger.files import check_user_file
from computeledger.physics.calibration.efficiency import IDEAL, median_of
from computeledger.physics.calibration.local import local_engines
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.parallelism import Layout
from computeledger.questions.answer import from_python
from computeledger.questions.answers.serving import document as documents
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.answers.serving.corpus import corpus_document
from computeledger.questions.answers.serving.document import (
    breakdown_document,
    carried_over,
    dear_reads,
    foreign_engine,
    margins_document,
    meets_document,
    option_document,
    pool_option_document,
    wider_products,
)
from computeledger.questions.answers.serving.drafts import drafts_document, speculation_document
from computeledger.questions.answers.serving.engine_settings import settings_document, settings_remarks
from computeledger.questions.answers.serving.hops import pipeline_remarks
from computeledger.questions.answers.serving.images import images_document
from computeledger.questions.answers.serving.launch import check_launcher, launch_text
from computeledger.questions.answers.serving.loras import adapter_remarks, adapters_document, slots_document
from computeledger.questions.answers.serving.masks import mask_remarks, masks_document
from computeledger.questions.answers.serving.pools import (
    PoolsAnswer,
    answer_pools,
    answer_sized_pools,
    two_pools,
)
from computeledger.questions.answers.serving.promise import KeptPromise, OnePool, keep_promise, loaded_option
from computeledger.questions.answers.serving.promise_document import promise_document
from computeledger.questions.answers.serving.setting import (
    ServingAnswer,
    Setting,
    aim_of_the_search,
    alike_document,
    cost_ratio,
    engine_document,
    engine_remarks,
    host_memory_document,
    host_memory_remarks,
    idle_options,
    interval_document,
    model_document,
    read_setting,
)
from computeledger.questions.answers.serving.talks import (
    conversations_asked,
    setting_at_hits,
    settings_of_turns,
    talks_document,
)
from computeledger.questions.answers.serving.tiers import kv_tiers_document
from computeledger.questions.answers.serving.traffic import context_and_traffic
from computeledger.questions.answers.setup import multiplied_in
from computeledger.questions.grounds import efficiency_document, working_document
from computeledger.simulation.serving.conversations import DrawnConversations
from computeledger.units import format_count
from computeledger.workloads.engines import default_file
from computeledger.workloads.figures import serving_figures
from computeledger.workloads.questions.serve import ONE_POOL, TWO_POOLS, ServeQuestion
from computeledger.workloads.serving.breakdown import break_down_serving
from computeledger.workloads.serving.estimate import ServingResult, estimate_serving, ideal_serving
from computeledger.workloads.serving.intervals import interval_for
from computeledger.workloads.serving.margins import rivals_of
from computeledger.workloads.serving.pool_search import search_pools
from computeledger.workloads.serving.reading import (
    check_request,
    choose_option,
    layouts_of_engine,
    layouts_to_search,
    layouts_to_try,
    search_options,
)
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    Fleet,
    PriceOfSpeed,
    ServingOption,
    Slo,
    at_load,
    pareto_front,
    price_of_speed,
    size_fleet,
)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
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
    full_load: ServingResult | None = None
    full_limit: ServingResult | None = None
    kept: KeptPromise | None = None
    modes: Mapping[str, Any] | None = None

    @property
    def layout(self) -> Layout:
        """Of one replica."""
        return self.chosen.layout

    @property
    def _usd_per_mtok(self) -> tuple[Num, Num]:
        figures = documents.serve_figures(self.result, self.fleet)
        return figures["usd_per_mtok_output"][0], figures["usd_per_mtok_input"][0]

    @property
    def batch(self) -> int:
        """Sequences that a replica decodes at once, at most where a load is asked about [-]."""
        return self.chosen.batch

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger serve --json`` prints it.

        Examples
        --------
        >>> from computeledger.questions.answers.serving.answer import serve
        >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8, samples=16)
        >>> answer.to_dict()["tpot_s"]["p50"] == answer.tpot_s.p50
        True
        """
        setting, question = self.setting, self.question
        engine, chip = question.engine, setting.system.accelerator
        document: dict[str, Any] = {"system": setting.system.id, "accelerator": chip.id}
        if self.fleet is not None and self.full_load is not None:
            document["fleet"] = documents.fleet_document(self.fleet, self.result, self.full_load)
        document |= documents.serve_document(self.result, self.limit, self.price_of_speed, self.n_gpus)
        if self.fleet is not None and self.full_limit is not None:
            document |= documents.paid_document(self.fleet, self.result, (self.limit, self.full_limit))
        if np.all(np.asarray(self.result.scenario.output_tokens) <= 1):
            document = documents.without_further_tokens(document)
        precision = self.result.scenario.precision
        document["multiplied_in"] = multiplied_in(chip, [precision.attention, precision.experts])
        document |= {"price": dict(setting.price), **engine_document(setting)}
        document |= host_memory_document(setting.at_median.host)
        document |= {
            **drafts_document(self.result.scenario),
            **adapters_document(self.result.scenario),
            **masks_document(question, self.result),
            **anchor_document(setting.anchoring),
            "interval": interval_document(
                setting.interval, engine, setting.system, None if self.kept is None else self.kept.asked.promises
            ),
        }
        document |= settings_document(question, chip, median(self.result.scenario.waiting))
        medians = {"tpot": median(self.result.tpot_s)} if document["tpot_s"] is not None else {}
        medians |= {"ttft": median(self.result.ttft_s)}
        document |= alike_document(question, setting, medians, document["model"], document["usd_per_mtok_output"])
        document["assumptions"] = documents.serving_assumptions(setting.at_median.host.buffers)
        if question.is_searched:
            document["assumptions"] |= aim_of_the_search(question, self.chosen.tpot_s)
        document |= parts_document(self, document, working)
        if working:
            document["working"] = working_document(serving_figures(self.result), setting.price)
            document["efficiency"] = efficiency_document(engine)
        return document


def parts_document(answer: ServeAnswer, document: Mapping[str, Any], working: bool) -> dict[str, Any]:
    """Parts of a serving document that depend on what was asked for."""
    question, setting = answer.question, answer.setting
    out = model_document(setting)
    if question.context_tokens is not None:
        out["assumptions"] = {**document["assumptions"], "context_tokens": setting.at_median.model.max_context_tokens}
    out["remarks"] += engine_remarks(question, setting.system) + idle_options(question, answer.layout)
    out["remarks"] += foreign_engine(
        question.backend or question.emitted_engine, setting.machine.system
    ) + host_memory_remarks(setting.at_median.host)
    out["remarks"] += wider_products(setting.at_median, setting.machine.system) + dear_reads(
        answer.result, setting.system
    )
    out["remarks"] += carried_over(setting.machine) + pipeline_remarks(answer.result)
    out["remarks"] += mask_remarks(question, answer.result)
    out["remarks"] += adapter_remarks(setting.at_median, is_simulated=answer.kept is not None)
    out["remarks"] += settings_remarks(question, setting.system.accelerator, answer.result.scenario)
    held = setting.system.n_gpus
    if answer.fleet is not None and held is not None and answer.fleet.n_gpus > held:
        out["remarks"].append(
            f"that load takes {format_count(answer.fleet.n_gpus, 'GPU')}: {question.system} has {held}"
        )
    if question.is_searched:
        out["winner"] = option_document(answer.chosen)
        out["pareto"] = [option_document(one) for one in pareto_front(answer.options)]
        out["n_options"] = len(answer.options)
    if (limits := question.limits) and answer.kept is None:  # a kept promise says it of its percentiles
        out["meets"] = meets_document(answer.result, limits, _carries(answer))
    if question.is_searched and question.requests_per_s is None:
        out["margins"] = _margins(answer)
    if working:
        found = break_down_serving(setting.at_median, setting.typical)
        out["breakdown"] = breakdown_document(found, setting.constants)
    if (apart := _two_pools(answer)) is not None:
        out["two_pools"] = apart
    if answer.modes is not None:
        out["modes"] = dict(answer.modes)
    if answer.kept is not None:
        power_w = answer.kept.chosen.n_gpus * float(setting.system.facility_w_per_chip.value)
        out |= promise_document(answer.kept, document["fleet"]["usd_per_request"], power_w)
        out |= talks_document(answer.kept) | slots_document(answer.kept)
        # the promise has a chance of its own, and that of an even load says less
        out["fleet"] = {key: one for key, one in document["fleet"].items() if key != "carries_probability"}
    full = answer.full_load or answer.result
    out |= speculation_document(setting, full.scenario, answer.chosen.placed(setting.at_median), setting.typical)
    out |= images_document(question, answer.result.scenario, answer.result.prefill, answer.result.ttft_s)
    filled = None if answer.kept else full.requests_per_s
    out |= context_and_traffic(question, full, filled, setting.system.accelerator)
    out |= corpus_document(question, answer.result.scenario, setting.machine)
    if question.kv_tiers:
        out["kv_tiers"] = _kv_tiers(answer)
    if question.emit is not None:
        stored = question.precision or default_file(question.engine, setting.at_median.model)
        told = {} if answer.kept is None else {"max_sequences": answer.kept.chosen.most_sequences}
        text = launch_text(question.emit, {**document, **out, **told, "stored_as": stored})
        out["launch"] = {"engine": question.emit, "text": text}
    return out


def _carries(answer: ServeAnswer) -> NDArray[np.bool_]:
    """The samples in which the fleet carries its load: in all others the queue before a first token grows."""
    if answer.fleet is None or answer.full_load is None:
        return np.array(True)
    return documents.carries(answer.fleet, answer.full_load)


def _margins(answer: ServeAnswer) -> dict[str, Any]:
    """The winner against the best of every other layout within the same limits."""
    limits = answer.question.limits
    within = [
        one for one in answer.options if all(getattr(one, f"{name}_s") <= limit for name, limit in limits.items())
    ]
    fast = [one for one in within if one.tpot_s <= max(answer.chosen.tpot_s, SLOWEST_TPOT_S)]
    chosen_from = fast if "tpot" not in limits else within
    kept = limits if "tpot" in limits or answer.chosen.tpot_s > SLOWEST_TPOT_S else {"tpot": SLOWEST_TPOT_S} | limits
    chances = {name: float(np.mean(getattr(answer.result, f"{name}_s") <= limit)) for name, limit in kept.items()}
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
    interval = interval_for(one.model, one.precision.name, typical.system, engine, "disaggregated", question.tuning)
    ratios = {"serving_ratio": median_of(interval.tpot), "first_token_ratio": median_of(interval.ttft)}
    at_median = replace(typical.efficiency, **ratios)
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


def serve(question: ServeQuestion | None = None, /, **given: Given) -> ServeAnswer | PoolsAnswer:
    """How fast and how cheap a model is served, and what binds.

    Parameters
    ----------
    question : ServeQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.workloads.questions.serve.ServeQuestion`: texts with units, or numbers
        in SI units.

    Returns
    -------
    ServeAnswer or PoolsAnswer
        At the layout and batch that were stated, or at the cheapest that are fast enough; prefill and decode apart with
        ``mode="disaggregated"``.

    Raises
    ------
    InputError
        For bad input, and for a batch or speed that no layout reaches, with the nearest that one does.

    Examples
    --------
    >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8, backend="ideal")
    >>> round(1000 * answer.tpot_s.p50, 1), serve(answer.question, batch=64).tpot_s.p50 > answer.tpot_s.p50
    (6.3, True)
    """
    return from_python(ServeQuestion, answer_serve, question, given)


def answer_serve(question: ServeQuestion) -> ServeAnswer | PoolsAnswer:
    """Answer ``computeledger serve``."""
    if question.emit is not None:
        check_launcher(question.emit)
    if question.profile is not None and user_path(question.profile) is None:
        check_user_file(f"--profile {shown(question.profile)}", "leave profile out, or anchor the answer")
        given = shown(question.profile)
        raise InputError(f"--profile {given}: no such file; `computeledger calibrate --write FOLDER` makes one")
    if question.promises:
        return _answer_promise(question)
    if question.modes == (TWO_POOLS,):
        apart = answer_pools(read_setting(question))
        if not question.anchor or question.batch is not None:
            return apart
        return answer_pools(read_setting(question, apart.chosen.decode_batch))
    return answer_one_pool(question) if len(question.modes) == 1 else _fewer_gpus(question)


def _answer_promise(question: ServeQuestion) -> ServeAnswer | PoolsAnswer:
    """One pool or two, whichever keeps the promises on fewer GPUs."""
    if question.modes == (ONE_POOL,):
        return answer_one_pool(question)
    one, refused, apart = None, {ONE_POOL: "not asked for"}, replace(question, mode=TWO_POOLS)
    load = None if question.turns is None else conversations_asked(read_setting(apart))
    if ONE_POOL in question.modes:
        try:
            one, refused = _one_pool(*_settings(of_one_pool(question), load)), {}
        except DoesNotFitError as error:
            refused = {ONE_POOL: str(error)}
    searched, simulated = _settings(apart, load)
    kept = keep_promise(one, replace(two_pools(searched), setting=simulated), refused)
    if one is None or kept.fleet is None:
        setting = kept.chosen.setting if load is None else setting_at_hits(kept, load)
        return replace(answer_sized_pools(setting, kept), question=question)
    return _answered(one, kept) if load is None else _answered_turns(one, kept, load, question)


def _settings(question: ServeQuestion, load: DrawnConversations | None) -> tuple[Setting, Setting]:
    """What is searched in closed form, and what is simulated: the same where requests are on their own."""
    if load is not None:
        return settings_of_turns(question, load)
    setting = read_setting(question)
    return setting, setting


def _fewer_gpus(question: ServeQuestion) -> ServeAnswer | PoolsAnswer:
    """One pool or two, whichever carries a load within plain limits on fewer GPUs; one where they take as many."""
    found: list[ServeAnswer | PoolsAnswer] = []
    refused: dict[str, str] = {}
    for mode, asked in ((ONE_POOL, of_one_pool(question)), (TWO_POOLS, replace(question, mode=TWO_POOLS))):
        try:
            found.append(answer_one_pool(asked) if mode == ONE_POOL else answer_pools(read_setting(asked)))
        except InputError as error:
            refused[mode] = str(error)
    if not found:
        raise InputError(refused[ONE_POOL])
    sizes = {TWO_POOLS if isinstance(one, PoolsAnswer) else ONE_POOL: one.n_gpus for one in found}
    fewest = min(found, key=lambda one: one.n_gpus)  # of as many GPUs one pool, which stands first
    return replace(fewest, modes=modes_words(sizes, refused))


def of_one_pool(question: ServeQuestion) -> ServeQuestion:
    """The same question of one pool alone."""
    return replace(question, mode=ONE_POOL, transfer_bytes_per_s=None)


def modes_words(sizes: Mapping[str, int], refused: Mapping[str, str]) -> dict[str, Any]:
    """GPUs of one pool and of two at even arrivals, or why there are none, and which takes fewer."""
    out: dict[str, Any] = {mode: {"gpus": n} for mode, n in sizes.items()}
    out |= {mode: {"refused": said} for mode, said in refused.items()}
    if refused:
        return out | {"why": "; ".join(f"{mode}: {said}" for mode, said in refused.items())}
    one, two = sizes[ONE_POOL], sizes[TWO_POOLS]
    share = f"{abs(two - one) / one:.0%} {'fewer' if two < one else 'more'}" if two != one else "as many"
    verdict = "two pools pay" if two < one else "two pools do not pay"
    return out | {"why": f"{verdict}: {two} GPUs in two pools, {one} in one ({share}), at even arrivals"}


def answer_one_pool(question: ServeQuestion) -> ServeAnswer:
    """The answer of one pool of replicas, for callers that ask for no other."""
    if question.turns is not None:
        return _answer_turns(question)
    answer = _answer_one_pool(read_setting(question))
    if not question.anchor or question.batch is not None:
        return answer
    return _answer_one_pool(read_setting(question, float(answer.batch)))


def _answer_turns(question: ServeQuestion) -> ServeAnswer:
    """One pool that keeps a promise over conversations."""
    load = conversations_asked(read_setting(question))
    one = _one_pool(*settings_of_turns(question, load))
    kept = keep_promise(one, None, {TWO_POOLS: question.bound_to_one_pool or "not asked for"})
    return _answered_turns(one, kept, load, question)


def _answered_turns(one: OnePool, kept: KeptPromise, load: DrawnConversations, question: ServeQuestion) -> ServeAnswer:
    """The answer of the mean turn and what it finds on the fleet that was sized."""
    at_hits = _one_pool(setting_at_hits(kept, load))
    kept = replace(kept, option=loaded_option(kept.chosen, at_hits.found, kept.asked))
    return replace(_answered(at_hits, kept), options=tuple(one.found), layouts=tuple(one.layouts), question=question)


def _answer_one_pool(setting: Setting) -> ServeAnswer:
    one, question = _one_pool(setting), setting.question
    why = question.bound_to_one_pool or "not asked for"
    return _answered(one, keep_promise(one, None, {TWO_POOLS: why}) if question.promises else None)


def _one_pool(setting: Setting, simulated: Setting | None = None) -> OnePool:
    """Every layout and batch of one pool; of conversations what is simulated is another setting."""
    question = setting.question
    check_request(setting.at_median)
    of_any = replace(question, gpus=None) if question.promises and question.layout is None else question
    layouts = layouts_to_try(of_any, setting.at_median, setting.typical)
    if question.gpus is not None:  # of a promise they limit the fleet, not what its replicas are made of
        layouts = [one for one in layouts if one.n_gpus <= question.gpus] or layouts
    if question.layout is None or question.engine in local_engines():
        layouts = layouts_to_search(question, layouts)
    else:
        layouts = layouts_of_engine(question.engine, layouts)
    return OnePool(simulated or setting, layouts, search_options(question, setting.at_median, layouts, setting.typical))


def _answered(one: OnePool, kept: KeptPromise | None) -> ServeAnswer:
    """The answer of what was searched: of a promise, of a load, or of the cheapest replica that is fast enough."""
    setting, layouts, found = one.setting, one.layouts, list(one.found)
    question = setting.question
    fleet = kept.fleet if kept else _fleet(found, question) if question.requests_per_s is not None else None
    chosen = fleet.option if fleet is not None else choose_option(question, found)
    at_hand = question.gpus or setting.system.n_gpus
    full, full_at_median = (chosen.placed(one) for one in (setting.scenario, setting.at_median))
    at_full = estimate_serving(full, setting.machine)
    ratio = cost_ratio(at_full, chosen)
    answer = ServeAnswer(
        question=question,
        setting=replace(setting, at_median=full_at_median),
        chosen=chosen.at_price(ratio),
        options=tuple(one.at_price(ratio) for one in found),
        layouts=tuple(layouts),
        result=at_full,
        limit=ideal_serving(full, setting.machine),
        price_of_speed=price_of_speed(full_at_median, setting.typical).at_price(ratio),
        fleet=None if fleet is None else replace(fleet, option=chosen.at_price(ratio)),
        n_gpus=fleet.n_gpus if fleet is not None else at_hand or max(int(one.n_gpus) for one in layouts),
        kept=kept,
    )
    return answer if fleet is None else _loaded(answer, fleet)


def _loaded(answer: ServeAnswer, fleet: Fleet) -> ServeAnswer:
    """The answer at the load of a fleet: each replica finishes its share of what arrives, and all are paid for."""
    setting, full = answer.setting, answer.result.scenario
    share = fleet.requests_per_s / fleet.n_replicas
    ideal = replace(setting.machine, efficiency=IDEAL)
    return replace(
        answer,
        setting=replace(setting, at_median=at_load(setting.at_median, setting.typical, share)),
        result=estimate_serving(at_load(full, setting.machine, share), setting.machine),
        limit=estimate_serving(at_load(full, ideal, share), ideal),
        full_load=answer.result,
        full_limit=answer.limit,
    )


def _fleet(found: list[ServingOption], question: ServeQuestion) -> Fleet:
    """The fewest GPUs for the load asked about."""
    limits = {"ttft": float("inf"), "tpot": float("inf")} | question.limits
    if question.tpot is None and question.is_searched:  # as any search that was told no speed
        within = [one.tpot_s for one in found if one.ttft_s <= limits["ttft"]]
        limits["tpot"] = max(SLOWEST_TPOT_S, min(within, default=limits["tpot"]))
    fleet = size_fleet(found, Slo(median_of(question.requests_per_s or 0.0), limits["ttft"], limits["tpot"]))
    if question.gpus is not None and fleet.n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that load needs {format_count(fleet.n_gpus, 'GPU')}; leave --gpus out to size "
            "the fleet"
        )
    return fleet
