"""Answer a serving question: the layout and batch, speed, cost and memory, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.arrays import Num, Uncertain, median
from computeledger.errors import InputError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_system
from computeledger.facts.schema import System
from computeledger.fields import Given, fields_of
from computeledger.physics.calibration.efficiency import efficiency, load_factors, median_of
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, precision_of
from computeledger.questions.answer import from_python
from computeledger.questions.answers.serve_answer import ServeAnswer
from computeledger.questions.answers.serve_pools import PoolsAnswer, answer_pools
from computeledger.questions.answers.serve_setting import Setting, layouts_to_search
from computeledger.questions.answers.setup import draw_machine, price_of
from computeledger.questions.launch import check_launcher
from computeledger.units import format_count
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.anchor import anchor_ratios, read_anchor
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving.intervals import Interval, anchored, interval_for
from computeledger.workloads.serving.reading import (
    check_request,
    choose_option,
    layouts_to_try,
    lengths_of,
    model_of,
    read_serving,
    search_options,
)
from computeledger.workloads.serving.search import Fleet, ServingOption, Slo, price_of_speed, size_fleet


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
        given = shown(question.profile)
        raise InputError(f"--profile {given}: no such file; computeledger calibrate --write FOLDER makes one")
    setting, anchored_by = _setting(question)
    return answer_pools(setting) if question.mode == "disaggregated" else _answer_one_pool(setting, anchored_by)


def answer_one_pool(question: ServeQuestion) -> ServeAnswer:
    """The answer of one pool of replicas, for callers that ask for no other."""
    return _answer_one_pool(*_setting(question))


def _answer_one_pool(setting: Setting, anchored_by: Mapping[str, Any]) -> ServeAnswer:
    question = setting.question
    layouts = layouts_to_try(question, setting.at_median, setting.typical)
    if question.layout is None:
        layouts = layouts_to_search(question, layouts)
    found = search_options(question, setting.at_median, layouts, setting.typical)
    fleet = _fleet(found, question) if question.requests_per_s is not None else None
    chosen = fleet.option if fleet is not None else choose_option(question, found)
    at = replace(setting.scenario, layout=chosen.layout, batch=float(chosen.batch))
    at_median = replace(setting.at_median, layout=chosen.layout, batch=float(chosen.batch))
    return ServeAnswer(
        question=question,
        setting=replace(setting, at_median=at_median),
        chosen=chosen,
        options=tuple(found),
        layouts=tuple(layouts),
        result=estimate_serving(at, setting.machine),
        limit=ideal_serving(at, setting.machine),
        price_of_speed=price_of_speed(at_median, setting.typical),
        fleet=fleet,
        n_gpus=fleet.n_gpus if fleet is not None else question.gpus or max(int(one.n_gpus) for one in layouts),
        anchored=anchored_by,
    )


def _setting(question: ServeQuestion) -> tuple[Setting, dict[str, Any]]:
    """Scenario and machine of a question, with samples and at their medians; and what its anchors say."""
    system, model = load_system(question.system), model_of(question)
    price, ground = price_of(system, question.price)
    lengths = lengths_of(question)
    streams = {name: one.stream for name, one in fields_of(ServeQuestion).items() if name in lengths}
    interval = _interval(model, system, question)
    ratios, anchors = _anchored(question, interval, model, system)
    inputs = {streams[name]: value for name, value in lengths.items()}
    draws, machine, typical = draw_machine(system, {**inputs, "price": price, **ratios}, question.engine, question)
    scenario = read_serving(question, {name: draws[streams[name]] for name in lengths}, draws["price"])
    medians: dict[str, Num] = {name: median_of(value) for name, value in lengths.items()}
    at_median = read_serving(question, medians, median_of(price))
    check_request(at_median)
    setting = Setting(question, scenario, at_median, machine, typical, ground, interval)
    return setting, _carried(anchors, interval, draws)


def _interval(model: Model, system: System, question: ServeQuestion) -> Interval | None:
    """The interval of the question's class; the physical limit has none."""
    engine, kind, stated = question.engine, question.mode, question.layout
    load_factors(engine)
    if kind == "aggregated" and stated and parse_layout(stated).n_gpus > system.n_gpus_scale_up.value:
        kind = "spread"
    weights = precision_of(model, question.precision, question.kv_precision).name
    return None if engine not in calibrated_engines() else interval_for(model, weights, system, engine, kind)


def _anchored(
    question: ServeQuestion, interval: Interval | None, model: Model, system: System
) -> tuple[dict[str, Uncertain], dict[str, Any]]:
    """Ranges of real over predicted time, with what the reader's own measurements say about them."""
    given = [read_anchor(text) for text in question.anchor]
    if interval is None:
        if given:
            raise InputError("--anchor: the physical limit is no engine; an anchor needs trtllm, vllm or sglang")
        return {}, {}
    ranges = {"tpot": interval.tpot, "ttft": interval.ttft}
    document: dict[str, Any] = {}
    if given:
        if question.layout is None and any(one.layout is None for one in given):
            raise InputError("--anchor: state the layout it was measured on, with --layout or as layout=tp8")
        layout = check_layout(parse_layout(question.layout), model) if question.layout else Layout()
        central = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
        asked = ServingScenario(
            model, layout, precision_of(model, question.precision, question.kv_precision), 1.0, 1.0, 1.0
        )
        ratios = anchor_ratios(given, asked, Machine(system, efficiency(question.engine, central)))
        ranges = {name: anchored(interval, name, ratios[name]) for name in ranges}
        document = {"anchor": {"n": len(given), "measured_over_predicted": ratios}}
    return {f"efficiency.{name}": ranges[key] for name, key in _RATIOS.items()}, document


_RATIOS = {"serving_ratio": "tpot", "first_token_ratio": "ttft"}


def _carried(anchors: Mapping[str, Any], interval: Interval | None, draws: Mapping[str, Num]) -> dict[str, Any]:
    """An anchor's part of the document, with the factor by which each time is shifted at the median."""
    if interval is None or "anchor" not in anchors:
        return dict(anchors)
    names = {"tpot": "efficiency.serving_ratio", "ttft": "efficiency.first_token_ratio"}
    shift = {name: median(draws[key]) / median_of(getattr(interval, name)) for name, key in names.items()}
    return {"anchor": {**anchors["anchor"], "carried_over": shift}}


def _fleet(found: list[ServingOption], question: ServeQuestion) -> Fleet:
    """The fewest GPUs for the load asked about."""
    limits = {"requests_per_s": 0.0, "ttft": float("inf"), "tpot": float("inf")}
    given = {name: getattr(question, name) for name in limits}
    fleet = size_fleet(
        found, Slo(*(limits[name] if value is None else median_of(value) for name, value in given.items()))
    )
    if question.gpus is not None and fleet.n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that load needs {format_count(fleet.n_gpus, 'GPU')}; leave --gpus out to size "
            "the fleet"
        )
    return fleet
