"""Answer ``computeledger simulate serve``: a fleet under a load, request by request."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.fields import Given, fields_of
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answer import Answer, from_python, remarked
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.answers.serving.cache_tiers import host_caches_document
from computeledger.questions.answers.serving.classes import class_documents, read_classes
from computeledger.questions.answers.serving.fleet import DEFAULT_REQUESTS, Fleet, drawn_load, fleet_of
from computeledger.questions.answers.serving.images import tokens_document
from computeledger.questions.answers.serving.loras import adapter_remarks
from computeledger.questions.answers.serving.setting import Setting, read_setting
from computeledger.questions.answers.setup import price_of
from computeledger.questions.answers.simulation.document import (
    conversation_document,
    point_document,
    serving_document,
    steady_document,
)
from computeledger.questions.executors import open_executor
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.measures import Slo
from computeledger.simulation.serving.arrivals import Arrivals, parse_arrivals
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.search import Load, LoadPoint, is_too_much, most_carried, most_load, sweep_loads
from computeledger.simulation.serving.steady import LEAST_REQUESTS, MOST_REQUESTS, Estimate, Steady, steady_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.serving.workload import Workload, read_workload
from computeledger.workloads.engines import scheduler_of
from computeledger.workloads.questions.conversations import on_their_own
from computeledger.workloads.questions.serve import TWO_POOLS, ServeQuestion, serve_question
from computeledger.workloads.serving.anchor import Anchoring
from computeledger.workloads.serving.images import image_tokens, with_images

#: Requests that tell the lengths of a load that lasts; most of a report's own sweep.
SAMPLE_REQUESTS, SWEEP_REQUESTS = 20_000, 20_000
#: Loads of a report's sweep.
SWEEP_POINTS = 7


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
    usd_per_gpu_hour: tuple[float, ...]
    anchoring: Anchoring | None = None
    prefill: Mapping[str, Any] | None = None
    said: tuple[str, ...] = ()

    @property
    def percentiles(self) -> Mapping[str, Mapping[str, float]]:
        """p50, p90, p95, p99 of ``ttft_s``, ``tpot_s``, ``itl_s``, ``end_to_end_s`` [s]; infinite where overloaded."""
        return (self.steady or self.result).percentiles

    def records(self) -> Mapping[str, Any]:
        """Every request, as columns."""
        return self.result.records()

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger simulate serve --json`` prints it; a simulation has no working."""
        del working
        question, fleet, rate = self.question, self.fleet, self.load.requests_per_s
        money = (np.array([one.bf16_flop_per_s for one in fleet.machines]), np.array(self.usd_per_gpu_hour))
        document = serving_document(self.result, self.model, self.slo, money, self.steady)
        document["load"]["requests_per_s"] = rate if np.isfinite(rate) else None
        document |= steady_document(rate, self.capacity, self.steady)
        document |= conversation_document(self.load, fleet.clock, rate)
        document |= host_caches_document(question, fleet.layouts[0], fleet.machines[0].system)
        limits = fleet.timed[-1].pool.limits
        is_endless = self.steady is not None and self.is_saturated
        return (
            remarked(document, (*self.remarks, *self.said))
            | anchor_document(self.anchoring)
            | ({} if self.prefill is None else {"prefill": dict(self.prefill)})
            | {
                "saturated": self.is_saturated,
                "system": fleet.machine.system.id,
                "layouts": [str(one) for one in fleet.layouts],
                "routing": question.rule_of_routing,
                "rejected": int(self.result.rejected.sum()),
                "classes": class_documents(
                    read_classes(question.priority),
                    self.result,
                    self.slo,
                    is_endless,
                ),
                **_of_images(question, self.model),
                "scheduler": question.scheduler or scheduler_of(question.engine),
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
    lengths["input_tokens"] -= image_tokens(with_images(question, model)).new
    apart: dict[str, Any] = {"transfer_bytes_per_s": None, "prefill_system": None, "prefill_price": None}
    if question.prefill_replicas is not None:
        stated = (question.layout, question.prefill_layout or question.layout) if question.anchor else (None, None)
        apart |= {"mode": TWO_POOLS, "layout": stated[0], "prefill_layout": stated[1]}
    apart |= {"workload": None, **on_their_own()}
    asked = serve_question(question, goodput=None, e2e=None, **lengths, **apart)
    setting, reading = read_setting(asked), None
    if question.prefill_system is not None:
        reading = read_setting(replace(asked, system=question.prefill_system, price=question.prefill_price))
        setting = replace(setting, reading=reading)
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
        usd_per_gpu_hour=_prices(setting, question),
        anchoring=setting.anchoring,
        prefill=None if reading is None else {"system": reading.system.id, "price": dict(reading.price)},
        said=(*adapter_remarks(setting.at_median, is_simulated=True), *_of_lengths(question)),
    )


def _of_lengths(question: SimulateServeQuestion) -> tuple[str, ...]:
    """That lengths which were left out are others than those of ``serve``."""
    names = ("input_tokens", "output_tokens")
    own, other = ([fields_of(one)[name].default for name in names] for one in (SimulateServeQuestion, ServeQuestion))
    if question.workload is not None or all(
        getattr(question, name) != default for name, default in zip(names, own, strict=True)
    ):
        return ()
    here, there = (f"{read:,.0f} tokens in and {written:,.0f} out" for read, written in (own, other))
    said = f"where lengths are left out, simulate serve takes {here}, serve {there}"
    return (f"{said}: state --input-tokens and --output-tokens to ask both of the same load",)


def _of_images(question: SimulateServeQuestion, model: Model) -> dict[str, Any]:
    """Images of every request, where there are any."""
    found = tokens_document(question, with_images(question, model))
    return {"images": found} if found else {}


def _prices(setting: Setting, question: SimulateServeQuestion) -> tuple[float, ...]:
    """Price of a GPU-hour of each pool [USD/h]."""
    own = median_of(price_of(setting.system, question.price)[0])
    if question.prefill_replicas is None:
        return (own,)
    first = own if setting.reading is None else median_of(price_of(setting.reading.system, question.prefill_price)[0])
    return first, own


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
    given = (question.ttft, question.tpot, question.e2e)
    ttft_s, tpot_s, end_to_end_s = (np.inf if one is None else median_of(one) for one in given)
    return Slo(ttft_s, tpot_s, question.goodput, end_to_end_s)


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


def _check_lengths(question: SimulateServeQuestion) -> None:
    """A workload has lengths of its own."""
    for name in ("input_tokens", "output_tokens"):
        if getattr(question, name) != fields_of(SimulateServeQuestion)[name].default:
            option = name.replace("_", "-")
            raise InputError(f"--{option}: the lengths are those of --workload {question.workload}: leave out one")


def _arrivals(question: SimulateServeQuestion, workload: Workload | None) -> Arrivals:
    """Arrivals as they are written, or those of a workload that states them."""
    if question.arrivals is not None or workload is None:
        return parse_arrivals(question.arrivals or "")
    if workload.requests_per_s is None:
        raise InputError(f"--workload {question.workload}: at which rate? add --arrivals, such as poisson:8")
    return workload.load(workload.requests_per_s).arrivals


def _load(model: Model, question: SimulateServeQuestion) -> tuple[Load, Trace]:
    """The requests, and those that tell their lengths: a trace is itself, a drawn load lasts where nothing changes."""
    workload = None if question.workload is None else read_workload(question.workload)
    if workload is not None:
        _check_lengths(question)
    if workload is not None and workload.trace is not None and question.arrivals is None:
        trace = workload.trace
        trace = trace if question.requests is None else trace.first(question.requests)
        trace = replace(trace, input_tokens=trace.input_tokens + image_tokens(with_images(question, model)).new)
        load: Load = trace.faster(question.pace)
    else:
        drawn = drawn_load(model, _arrivals(question, workload), question, workload)
        # what changes over time makes a drawn load a trace of its own, with a beginning and an end
        changes = (question.load_curve, question.autoscale, question.failures, drawn.sharing, drawn.by_stretch or None)
        lasts = all(one is None for one in changes)
        own = max(DEFAULT_REQUESTS, drawn.round_requests)
        trace = drawn(SAMPLE_REQUESTS if lasts else question.requests or own, drawn.requests_per_s)
        load = drawn if lasts else trace
    total = trace.input_tokens + trace.output_tokens
    longest = int(np.argmax(total))
    if model.max_context_tokens and total[longest] > model.max_context_tokens:
        raise InputError(
            f"request {longest + 1}: {total[longest]:,} tokens exceed the context of {model.id}: "
            f"{model.max_context_tokens:,}"
        )
    return load, trace
