"""Replicas of a serving question, ready to be simulated, and the load that they are put under."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import Range
from computeledger.distributions import Spread
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.questions.answers.serving.cache_tiers import cache_tiers
from computeledger.questions.answers.serving.classes import read_classes, shares_of
from computeledger.questions.answers.serving.setting import Setting
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.engine import Engine, TimedPool, timed_pool
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad, parse_curve
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.conversations import conversations_of
from computeledger.simulation.serving.scaling import Autoscale, Policies, parse_policies
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.serving.workload import Workload
from computeledger.simulation.state import Pool
from computeledger.workloads.engines import scheduler_of
from computeledger.workloads.questions.conversations import on_their_own
from computeledger.workloads.serving.anchor import ANCHORED
from computeledger.workloads.serving.estimate import ServingScenario, largest_batch
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.images import image_tokens, with_images
from computeledger.workloads.serving.pools import Chips, DisaggregatedScenario, moved_s
from computeledger.workloads.serving.reading import interval_asked, layouts_of_engine
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    at_load,
    cheapest,
    layouts_that_fit,
    search_serving,
)
from computeledger.workloads.serving.speculation import best_drafts, undrafted

#: Requests of a drawn load that does not last (scaling, failures, a day's curve), where nobody says how many.
DEFAULT_REQUESTS = 2000
#: Share of requests that may be shortened to fit the context.
CUT_FRACTION = 0.1


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replicas to simulate, and what they are made of."""

    clock: ServingClock
    timed: tuple[TimedPool, ...]
    layouts: tuple[Layout, ...]
    machine: Machine
    machines: tuple[Machine, ...]


def drawn_load(
    model: Model, arrivals: Arrivals, question: SimulateServeQuestion, workload: Workload | None = None
) -> DrawnLoad:
    """A drawn load, of a workload's requests where one is named."""
    curve = parse_curve(question.load_curve) if question.load_curve is not None else ()
    arrivals = replace(arrivals, curve=curve, requests_per_s=arrivals.requests_per_s * question.pace)
    load = DrawnLoad(arrivals, (question.input_tokens, question.output_tokens), question.seed)
    if workload is not None:
        load = workload.drawn(arrivals, question.seed)
    load = replace(load, added_tokens=image_tokens(with_images(question, model)).new)
    conversation = question.conversation()
    if conversation is not None:
        return conversations_of(load, conversation, model.max_context_tokens)
    return within_context(model, load, question.requests or DEFAULT_REQUESTS)


def within_context(model: Model, load: DrawnLoad, n_requests: int) -> DrawnLoad:
    """The load; few of its requests may be shortened to fit the model's context."""
    context = model.max_context_tokens
    differ = load.requests is not None or any(isinstance(one, Spread) and one.form for one in load.lengths)
    if not context or not differ:
        return load
    # a token more than fits is enough to tell; lengths may have no end
    trace = replace(load, longest_tokens=int(context) + 1)(n_requests, load.requests_per_s)
    beyond = float(np.mean(trace.input_tokens + trace.output_tokens > context))
    if beyond > CUT_FRACTION:
        raise InputError(f"{beyond:.0%} of the requests exceed the context of {model.id}: {context:,} tokens")
    return replace(load, longest_tokens=int(context))


def fleet_of(setting: Setting, trace: Trace, question: SimulateServeQuestion, score: float = 0.0) -> Fleet:
    """Replicas, and what may change their number; ``score`` is where in the interval of times they lie."""
    scenario, model = setting.at_median, setting.at_median.model
    machine, longer = _at_score(setting, score)
    reading = 1.0
    if setting.anchoring is not None and setting.interval is not None:
        # what the reader's measurements moved of a first token is its prompt's own work: the tables carry it
        reading = setting.anchoring.lessons["ttft"].shift * longer
        of_class = replace(machine.efficiency, first_token_ratio=median_of(setting.interval.ttft))
        machine = replace(machine, efficiency=of_class)
    of_one = None
    if question.prefill_replicas is None:
        plain: dict[str, Any] = dict.fromkeys(("ttft", "tpot", "e2e", "arrival_spread", "goodput"))
        lone = replace(setting.question, batch=1, **plain, **on_their_own())
        of_one = interval_asked(lone, model, machine.system)
    alone = None if of_one is None else median_of(of_one.ttft) * longer
    layout = _layout(scenario, machine, question)
    sizes = [(question.replicas, layout)]
    if question.prefill_replicas is not None:
        given = question.prefill_layout
        first = check_layout(parse_layout(given), model) if given else layout
        sizes.insert(0, (question.prefill_replicas, first))
    scenario = _drafting(replace(scenario, layout=layout), machine, trace.requests_per_s / question.replicas)
    total = trace.input_tokens + trace.output_tokens
    near = max(float(np.quantile(trace.input_tokens, 0.05)), 1.0)
    prefix = round(float(np.asarray(scenario.cached_tokens)))
    contexts = (near + prefix, max(float(total.max()), near + 2.0) + prefix)
    reads = machine if setting.reading is None else _at_score(setting.reading, score)[0]
    timed = [
        timed_pool(
            replace(scenario, layout=one), reads if place < len(sizes) - 1 else machine,
            Engine(n, int(float(scenario.settings.chunk_tokens)), question.max_batch, contexts, reading, alone, prefix,
                   question.scheduler or scheduler_of(question.engine)),
        )
        for place, (n, one) in enumerate(sizes)
    ]  # fmt: skip
    handed_s = (0.0, 0.0)
    if question.prefill_replicas is not None:
        rate = None if question.transfer_bytes_per_s is None else median_of(question.transfer_bytes_per_s)
        chips = Chips(reads, scenario.usd_per_gpu_hour)
        pools = DisaggregatedScenario(scenario, sizes[0][1], sizes[0][0], sizes[1][0], 1.0, chips, rate)
        once_s, each_s = _handed_s(pools, machine, trace)
        handed_s = (once_s + prefix * each_s, each_s)
    clock = ServingClock(
        tuple(_with_limits(one.pool, question, place) for place, one in enumerate(timed)),
        tuple(one.n_gpus_per_replica for one in timed), question.rule_of_routing,
        timed[0].host_s, *handed_s, uses_prefixes=not question.no_prefix_cache,
        tiers=cache_tiers(replace(scenario, layout=sizes[0][1]), reads, question), autoscale=_autoscale(question),
        failure_s=np.inf if question.failures is None else median_of(question.failures),
        repair_s=median_of(question.repair), class_shares=shares_of(read_classes(question.priority)),
    )  # fmt: skip
    return Fleet(clock, tuple(timed), tuple(one for _, one in sizes), machine, (reads, machine)[-len(sizes) :])


def _handed_s(pools: DisaggregatedScenario, machine: Machine, trace: Trace) -> tuple[float, float]:
    """Hand-over of a cache as the closed form has it within a first token: once, and per token of the prompt [s]."""
    efficiency = pools.prefill_machine(machine).efficiency
    tokens = np.array([1.0, max(float(np.mean(trace.input_tokens)), 2.0)])
    short_s, mean_s = np.broadcast_to(np.asarray(moved_s(pools, machine, tokens), float), tokens.shape)
    slope_s = (mean_s - short_s) / (tokens[1] - tokens[0])
    ratio = float(np.asarray(efficiency.first_token_ratio))
    moving = ratio if pools.transfer_bytes_per_s is None else 1.0
    return ratio * float(efficiency.transfer_s) + moving * float(short_s - slope_s), moving * float(slope_s)


def _with_limits(pool: Pool, question: SimulateServeQuestion, place: int) -> Pool:
    """Replicas whose line may have an end, those that requests come to first; what a step reads of one prompt."""
    queue = 0 if place or question.queue_limit is None else question.queue_limit
    return pool._replace(limits=pool.limits._replace(queue=queue, long_tokens=question.long_prefill_tokens or 0))


def _drafting(scenario: ServingScenario, machine: Machine, requests_per_s: float) -> ServingScenario:
    """With the draft that is best at a replica's share of the load, where the question leaves its length open."""
    if not scenario.speculation.is_open:
        return scenario
    most = float(np.min(largest_batch(scenario, machine)))
    loaded = at_load(replace(undrafted(scenario), batch=max(most, 1.0)), machine, requests_per_s)
    return scenario.drafting(best_drafts(scenario, machine, loaded.batch))


def slower_at(setting: Setting, score: float) -> dict[str, float]:
    """Times at a standard normal score of their interval over those at the medians, by quantity [-]."""
    machine, first = _at_score(setting, score)
    ratio = float(machine.efficiency.serving_ratio) / float(setting.typical.efficiency.serving_ratio)
    return {"tpot_s": ratio, "ttft_s": first}


def _at_score(setting: Setting, score: float) -> tuple[Machine, float]:
    """The machine at a standard normal score of what real times are over modelled ones, and first tokens over theirs.

    Both ratios go together: what makes a deployment slow makes both slow (assumption).
    """
    ranges, efficiency = setting.ranges, setting.typical.efficiency
    moved = {
        factor: float(getattr(efficiency, factor)) * float(one.quantile(score) / one.quantile(0.0))
        for factor in ANCHORED
        if isinstance(one := ranges.get(f"efficiency.{factor}"), Range)
    }
    own = float(efficiency.first_token_ratio)
    first = moved.get("first_token_ratio", own) / own
    return replace(setting.typical, efficiency=replace(efficiency, **moved)), first


def _autoscale(question: SimulateServeQuestion) -> Autoscale | None:
    if question.autoscale is None:
        return None
    return Autoscale(
        question.autoscale, question.target_requests, median_of(question.tick), median_of(question.start),
        median_of(question.tolerance), median_of(question.scale_up_window), median_of(question.scale_down_window),
        _policies("scale_up", question.scale_up), _policies("scale_down", question.scale_down),
    )  # fmt: skip


def _policies(name: str, text: str) -> Policies:
    try:
        return parse_policies(text)
    except InputError as error:
        raise InputError(f"--{name.replace('_', '-')} {error}") from None


def _layout(scenario: ServingScenario, machine: Machine, question: SimulateServeQuestion) -> Layout:
    """The layout that was given, or the cheapest that is fast enough in steady state."""
    if question.layout is not None:
        return layouts_of_engine(question.engine, [check_layout(parse_layout(question.layout), scenario.model)])[0]
    limit = SLOWEST_TPOT_S if question.tpot is None else median_of(question.tpot)
    with with_remedies(scenario, machine.system, question.engine):
        layouts = layouts_of_engine(question.engine, layouts_that_fit(scenario, machine))
        found = search_serving(scenario, layouts, machine)
    return cheapest(found, limit).layout
