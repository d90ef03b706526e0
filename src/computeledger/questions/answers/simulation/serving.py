"""Answer ``computeledger simulate serve``: a fleet under a load, request by request."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import Range
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.questions.answer import Answer, from_python, remarked
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.answers.serving.setting import Setting, read_setting
from computeledger.questions.answers.setup import price_of
from computeledger.questions.answers.simulation.document import point_document, serving_document, steady_document
from computeledger.questions.executors import open_executor
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.engine import Engine, TimedPool, handover_s_per_token, timed_pool
from computeledger.simulation.measures import Slo
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad, parse_arrivals, parse_curve
from computeledger.simulation.serving.clock import Autoscale, ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.search import Load, LoadPoint, is_too_much, most_carried, most_load, sweep_loads
from computeledger.simulation.serving.steady import LEAST_REQUESTS, MOST_REQUESTS, Estimate, Steady, steady_serving
from computeledger.simulation.serving.traces import Trace, read_trace
from computeledger.workloads.questions.serve import serve_question
from computeledger.workloads.serving.anchor import ANCHORED, Anchoring
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.reading import interval_asked, layouts_of_engine
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, cheapest, layouts_that_fit, search_serving

#: Requests of a drawn load that does not last (scaling, failures, a day's curve), where nobody says how many; requests
#: that tell the lengths of one that does; most of a report's own sweep.
DEFAULT_REQUESTS, SAMPLE_REQUESTS, SWEEP_REQUESTS = 2000, 20_000, 20_000
#: Loads of a report's sweep, and share of requests that may be cut to fit the context.
SWEEP_POINTS, CUT_FRACTION = 7, 0.1


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replicas to simulate, and what they are made of."""

    clock: ServingClock
    timed: tuple[TimedPool, ...]
    layouts: tuple[Layout, ...]
    machine: Machine


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SimulateServeAnswer(Answer):
    """A simulated fleet."""

    question: SimulateServeQuestion
    model: Model
    fleet: Fleet
    load: Load
    result: ServingClockResult
    steady: Steady | None
    is_saturated: bool
    capacity: Estimate
    slo: Slo
    most_load: LoadPoint | None
    sweep: tuple[LoadPoint, ...]
    price: Mapping[str, Any]
    usd_per_gpu_hour: float
    anchoring: Anchoring | None = None

    @property
    def percentiles(self) -> Mapping[str, Mapping[str, float]]:
        """p50, p90, p95, p99 of ``ttft_s``, ``tpot_s``, ``itl_s``, ``end_to_end_s`` [s]; infinite where overloaded."""
        return (self.steady or self.result).percentiles

    def records(self) -> Mapping[str, Any]:
        """Every request, as columns."""
        return self.result.records()

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger simulate serve --json`` prints it; a simulation has no working."""
        del working
        question, fleet, rate = self.question, self.fleet, self.load.requests_per_s
        money = (fleet.machine.bf16_flop_per_s, self.usd_per_gpu_hour)
        document = serving_document(self.result, self.model, self.slo, money, self.steady)
        document["load"]["requests_per_s"] = rate if np.isfinite(rate) else None
        document |= steady_document(rate, self.capacity, self.steady)
        limits = fleet.timed[-1].pool.limits
        return (
            remarked(document, self.remarks)
            | anchor_document(self.anchoring)
            | {
                "saturated": self.is_saturated,
                "system": fleet.machine.system.id,
                "layouts": [str(one) for one in fleet.layouts],
                "routing": question.routing,
                "price": dict(self.price),
                "seed": question.seed,
                "most_load": None if self.most_load is None else point_document(self.most_load),
                "sweep": [point_document(one) for one in self.sweep],
                "assumptions": {
                    "step_time_fit_error_fraction": max(one.fit_error_fraction for one in fleet.timed),
                    "kv_tokens_per_replica": limits.kv_tokens,
                    "largest_batch": limits.live,
                    "chunk_tokens": limits.chunk_tokens,
                    "host_s": float(np.mean(fleet.clock.host_s.at_s(self.result.trace.input_tokens))),
                    "efficiency": f"medians of the factors of {question.engine}",
                },
            }
        )


def simulate_serve(question: SimulateServeQuestion | None = None, /, **given: Given) -> SimulateServeAnswer:
    """A fleet under a load, request by request: percentiles, goodput, cost, saturation.

    Parameters
    ----------
    question : SimulateServeQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.questions.simulate.SimulateServeQuestion`: texts with units, or numbers in SI
        units. Either ``arrivals`` or ``trace`` is needed.

    Returns
    -------
    SimulateServeAnswer
        A trace from beginning to end, drawn arrivals in steady state.

    Raises
    ------
    InputError
        For bad input.

    Examples
    --------
    >>> asked = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "requests": 100}
    >>> quiet, busy = (simulate_serve(**asked, arrivals=f"poisson:{rate}") for rate in (1, 8))
    >>> quiet.percentiles["tpot_s"]["p50"] < busy.percentiles["tpot_s"]["p50"], busy.is_saturated
    (True, False)
    """
    return from_python(SimulateServeQuestion, answer_simulate_serve, question, given)


def answer_simulate_serve(question: SimulateServeQuestion, is_reported: bool = False) -> SimulateServeAnswer:
    """Answer ``computeledger simulate serve``; a report gets a sweep over loads of its own where that is quick."""
    model = load_model(question.model)
    load, sample = _load(model, question)
    lengths = {name: float(np.mean(getattr(sample, name))) for name in ("input_tokens", "output_tokens")}
    setting = read_setting(serve_question(question, **lengths))
    fleet = fleet_of(setting, sample, question)
    slo = _slo(question)
    capacity = most_carried(fleet.clock, load, question.seed)
    search = _Search(question, fleet.clock, load, slo, capacity)
    with open_executor(question.workers, question.cluster) as pool:
        best, points = _loads(search, is_reported, pool)
    result, steady, is_saturated = _simulated(search)
    return SimulateServeAnswer(
        question=question,
        model=model,
        fleet=fleet,
        load=load,
        result=result,
        steady=steady,
        is_saturated=is_saturated,
        capacity=capacity,
        slo=slo,
        most_load=best,
        sweep=tuple(points),
        price=setting.price,
        usd_per_gpu_hour=median_of(price_of(setting.system, question.price)[0]),
        anchoring=setting.anchoring,
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """A fleet under a load, the objective, and the largest stable load."""

    question: SimulateServeQuestion
    clock: ServingClock
    load: Load
    slo: Slo
    capacity: Estimate


def _simulated(search: _Search) -> tuple[ServingClockResult, Steady | None, bool]:
    """The load itself: in steady state where it lasts, from beginning to end where it is a trace."""
    clock, load, seed, carried = search.clock, search.load, search.question.seed, search.capacity
    if isinstance(load, Trace):
        result = simulate_serving(clock, load, seed)
        return result, None, is_too_much(result, carried)
    least = search.question.requests or LEAST_REQUESTS
    steady = steady_serving(clock, load, load.requests_per_s, seed, carried, (least, max(least, MOST_REQUESTS)))
    return steady.result, steady, steady.is_saturated


def _slo(question: SimulateServeQuestion) -> Slo:
    """The objective, as far as it is given."""
    ttft_s, tpot_s = (np.inf if one is None else median_of(one) for one in (question.ttft, question.tpot))
    return Slo(ttft_s, tpot_s, question.good_fraction)


def _loads(search: _Search, is_reported: bool, pool: Executor | None) -> tuple[LoadPoint | None, list[LoadPoint]]:
    """The search for the most load, and the sweep, where they are asked for."""
    question, clock, load, slo = search.question, search.clock, search.load, search.slo
    known = (question.seed, search.capacity)
    best, points = most_load(clock, load, slo, pool, known) if question.find_load else (None, [])
    wanted = question.sweep
    n_requests = len(load.arrival_s) if isinstance(load, Trace) else question.requests or LEAST_REQUESTS
    is_small = n_requests <= SWEEP_REQUESTS and load.requests_per_s < np.inf
    if wanted is None and is_reported and not points and is_small:
        wanted = SWEEP_POINTS
    if wanted is not None:
        points = sorted(
            [*points, *sweep_loads(clock, load, slo, np.geomspace(0.25, 2.0, wanted), pool, known)],
            key=lambda one: one.requests_per_s,
        )
    return best, points


def _load(model: Model, question: SimulateServeQuestion) -> tuple[Load, Trace]:
    """The requests, and those that tell their lengths: a trace is itself, a drawn load lasts where nothing changes."""
    if question.trace is not None:
        trace = read_trace(question.trace)
        trace = trace if question.requests is None else trace.first(question.requests)
        load: Load = trace.faster(question.pace)
    else:
        drawn = drawn_load(model, parse_arrivals(question.arrivals or ""), question)
        # what changes over time makes a drawn load a trace of its own, with a beginning and an end
        lasts = question.load_curve is None and question.autoscale is None and question.failures is None
        trace = drawn(SAMPLE_REQUESTS if lasts else question.requests or DEFAULT_REQUESTS, drawn.requests_per_s)
        load = drawn if lasts else trace
    total = trace.input_tokens + trace.output_tokens
    longest = int(np.argmax(total))
    if model.max_context_tokens and total[longest] > model.max_context_tokens:
        raise InputError(
            f"request {longest + 1}: {total[longest]:,} tokens exceed the context of {model.id}: "
            f"{model.max_context_tokens:,}"
        )
    return load, trace


def drawn_load(model: Model, arrivals: Arrivals, question: SimulateServeQuestion) -> DrawnLoad:
    """A drawn load; few of its requests may be cut to fit the model's context."""
    curve = parse_curve(question.load_curve) if question.load_curve is not None else ()
    arrivals = replace(arrivals, curve=curve, requests_per_s=arrivals.requests_per_s * question.pace)
    lengths = (question.input_tokens, question.output_tokens)
    context = model.max_context_tokens
    load = DrawnLoad(arrivals, lengths, question.seed)
    if not context or not any(":" in text for text in lengths):
        return load
    trace = load(question.requests or DEFAULT_REQUESTS, arrivals.requests_per_s)
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
    lone = replace(setting.question, batch=1, ttft=None, tpot=None, e2e=None, arrival_spread=1.0)
    of_one = interval_asked(lone, model, machine.system)
    alone = None if of_one is None or question.prefill_replicas is not None else median_of(of_one.ttft) * longer
    layout = _layout(scenario, machine, question)
    sizes = [(question.replicas, layout)]
    if question.prefill_replicas is not None:
        given = question.prefill_layout
        first = check_layout(parse_layout(given), model) if given else layout
        sizes.insert(0, (question.prefill_replicas, first))
    total = trace.input_tokens + trace.output_tokens
    near = max(float(np.quantile(trace.input_tokens, 0.05)), 1.0)
    prefix = round(median_of(setting.question.cached_tokens))
    contexts = (near + prefix, max(float(total.max()), near + 2.0) + prefix)
    timed = [
        timed_pool(
            replace(scenario, layout=one), machine,
            Engine(n, int(float(scenario.settings.chunk_tokens)), question.max_batch, contexts, reading, alone, prefix),
        )
        for n, one in sizes
    ]  # fmt: skip
    rate = None if question.transfer_bytes_per_s is None else median_of(question.transfer_bytes_per_s)
    clock = ServingClock(
        tuple(one.pool for one in timed), tuple(one.n_gpus_per_replica for one in timed), question.routing,
        timed[0].host_s.later(0.0 if question.prefill_replicas is None else float(machine.efficiency.transfer_s)),
        handover_s_per_token=handover_s_per_token(replace(scenario, layout=sizes[0][1]), machine, rate),
        uses_prefixes=not question.no_prefix_cache, autoscale=_autoscale(question),
        failure_s=np.inf if question.failures is None else median_of(question.failures),
        repair_s=median_of(question.repair),
    )  # fmt: skip
    return Fleet(clock, tuple(timed), tuple(one for _, one in sizes), machine)


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
    return Autoscale(question.autoscale, question.target_requests, median_of(question.tick), median_of(question.start))


def _layout(scenario: ServingScenario, machine: Machine, question: SimulateServeQuestion) -> Layout:
    """The layout that was given, or the cheapest that is fast enough in steady state."""
    if question.layout is not None:
        return layouts_of_engine(question.engine, [check_layout(parse_layout(question.layout), scenario.model)])[0]
    limit = SLOWEST_TPOT_S if question.tpot is None else median_of(question.tpot)
    with with_remedies(scenario, machine.system, question.engine):
        layouts = layouts_of_engine(question.engine, layouts_that_fit(scenario, machine))
        found = search_serving(scenario, layouts, machine)
    return cheapest(found, limit).layout
