"""Answer a serving question: the layout and batch, speed, cost and memory, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Uncertain, median
from computeledger.errors import InputError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import efficiency, load_factors, middle
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.questions.answer import from_python
from computeledger.questions.answers.serve_answer import ServeAnswer
from computeledger.questions.answers.serve_pools import PoolsAnswer, answer_pools
from computeledger.questions.answers.serve_setting import Setting, layouts_to_search
from computeledger.questions.answers.setup import draw_machine, precision_of, price_of
from computeledger.questions.launch import check_launcher
from computeledger.units import format_count, format_si
from computeledger.workloads.engines import reads_prompts_first
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.anchor import anchor_ratios, read_anchor
from computeledger.workloads.serving.columns import room
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving.intervals import Interval, anchored, interval_class, interval_of
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    Fleet,
    ServingOption,
    Slo,
    layouts_that_fit,
    price_of_speed,
    search_serving,
    size_fleet,
)


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
    layouts = _layouts(setting)
    found = search_serving(
        setting.at_median, layouts, setting.typical, None if question.batch is None else [question.batch]
    )
    if not found:
        raise _does_not_fit(question.batch, layouts, setting.at_median, setting.typical)
    fleet = _fleet(found, question) if question.requests_per_s is not None else None
    chosen = fleet.option if fleet is not None else _choose(found, question)
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
    system, model = load_system(question.system), load_model(question.model)
    if question.context_tokens is not None:
        model = replace(model, max_context_tokens=question.context_tokens)
    price, ground = price_of(system, question.price)
    lengths = {name: getattr(question, f"{name}_tokens") for name in ("input", "output", "cached")}
    interval = _interval(model, system, question)
    ratios, anchors = _anchored(question, interval, model, system)
    draws, machine, typical = draw_machine(system, {**lengths, "price": price, **ratios}, question.engine, question)
    scenario = ServingScenario(
        model=model,
        layout=Layout(),
        precision=_asked_precision(question, model),
        input_tokens=draws["input"],
        output_tokens=draws["output"],
        batch=1.0,
        cached_tokens=draws["cached"],
        usd_per_gpu_hour=draws["price"],
        draft_tokens=question.draft_tokens,
        tokens_per_step=question.tokens_per_step,
        rounds=_rounds(question),
        statistic=question.statistic,
    )
    at_median = replace(
        scenario,
        input_tokens=middle(lengths["input"]),
        output_tokens=middle(lengths["output"]),
        cached_tokens=middle(lengths["cached"]),
        usd_per_gpu_hour=middle(price),
    )
    _check_context(model, at_median)
    setting = Setting(question, scenario, at_median, machine, typical, ground, interval)
    return setting, _carried(anchors, interval, draws)


def _rounds(question: ServeQuestion) -> float:
    """Requests per client that start together."""
    if question.rounds is None:
        return float("inf")
    if question.equal_lengths and reads_prompts_first(question.engine):
        return 1.0  # every round starts together
    return float(question.rounds)


def _interval(model: Model, system: System, question: ServeQuestion) -> Interval | None:
    """The interval of the question's class; the physical limit has none."""
    engine, kind, stated = question.engine, question.mode, question.layout
    load_factors(engine)
    if kind == "aggregated" and stated and parse_layout(stated).n_gpus > system.n_gpus_scale_up.value:
        kind = "spread"
    weights = _asked_precision(question, model).name
    return (
        None
        if engine not in calibrated_engines()
        else interval_of(interval_class(model, weights, system, engine, kind))
    )


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
        asked = ServingScenario(model, layout, _asked_precision(question, model), 1.0, 1.0, 1.0)
        ratios = anchor_ratios(given, asked, Machine(system, efficiency(question.engine, central)))
        ranges = {name: anchored(interval, name, ratios[name]) for name in ranges}
        document = {"anchor": {"n": len(given), "measured_over_predicted": ratios}}
    return {f"efficiency.{name}": ranges[key] for name, key in _RATIOS.items()}, document


_RATIOS = {"serving_ratio": "tpot", "first_token_ratio": "ttft"}


def _asked_precision(question: ServeQuestion, model: Model) -> Precision:
    return precision_of(model, question.precision, question.kv_precision)


def _carried(anchors: Mapping[str, Any], interval: Interval | None, draws: Mapping[str, Num]) -> dict[str, Any]:
    """An anchor's part of the document, with the factor by which each time is shifted at the median."""
    if interval is None or "anchor" not in anchors:
        return dict(anchors)
    names = {"tpot": "efficiency.serving_ratio", "ttft": "efficiency.first_token_ratio"}
    shift = {name: median(draws[key]) / middle(getattr(interval, name)) for name, key in names.items()}
    return {"anchor": {**anchors["anchor"], "carried_over": shift}}


def _fleet(found: list[ServingOption], question: ServeQuestion) -> Fleet:
    """The fewest GPUs for the load asked about."""
    limits = {"requests_per_s": 0.0, "ttft": float("inf"), "tpot": float("inf")}
    given = {name: getattr(question, name) for name in limits}
    fleet = size_fleet(found, Slo(*(limits[name] if value is None else middle(value) for name, value in given.items())))
    if question.gpus is not None and fleet.n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that load needs {format_count(fleet.n_gpus, 'GPU')}; leave --gpus out to size "
            "the fleet"
        )
    return fleet


def _check_context(model: Model, scenario: ServingScenario) -> None:
    held = scenario.cached_tokens + scenario.input_tokens + scenario.output_tokens
    if model.max_context_tokens and held > model.max_context_tokens:
        raise InputError(
            f"{int(held)} tokens per request exceed the context of {model.id}: {model.max_context_tokens}; "
            "--context-tokens states a longer one (YaRN)"
        )


def _layouts(setting: Setting) -> list[Layout]:
    """The layouts to try."""
    question, model = setting.question, setting.at_median.model
    if question.layout is None:
        return layouts_to_search(question, layouts_that_fit(setting.at_median, setting.typical, question.gpus))
    layout = check_layout(parse_layout(question.layout), model, question.gpus)
    if int(layout.cp) > 1:
        raise InputError(f"layout {layout}: context parallelism is for training and prefill; serving decodes with cp1")
    return [layout]


def _choose(found: list[ServingOption], question: ServeQuestion) -> ServingOption:
    """The layout for a batch, or the cheapest option that is fast enough."""
    if question.batch is not None:
        in_order = sorted(found, key=lambda one: str(one.layout))
        return max(in_order, key=lambda one: one.output_tokens_per_s_per_gpu)
    limit = middle(question.tpot) if question.tpot is not None else SLOWEST_TPOT_S
    if question.ttft is not None:
        first = middle(question.ttft)
        best_ttft_s = min(one.ttft_s for one in found)
        found = [one for one in found if one.ttft_s <= first]
        if not found:
            best = format_si(best_ttft_s, "s")
            raise InputError(f"--ttft {format_si(first, 's')}: no layout reaches that TTFT; the best is {best}")
    fast = [one for one in found if one.tpot_s <= limit]
    if not fast and question.tpot is not None:
        quickest = min(found, key=lambda one: one.tpot_s)
        words = f"{quickest.layout} at batch {quickest.batch} takes {format_si(quickest.tpot_s, 's')}"
        raise InputError(f"--tpot {format_si(limit, 's')}: the fastest layout is slower: {words}")
    if not fast:
        return min(found, key=lambda one: one.tpot_s)
    return max(fast, key=lambda one: one.output_tokens_per_s_per_gpu)


def _does_not_fit(batch: int | None, layouts: list[Layout], scenario: ServingScenario, machine: Machine) -> InputError:
    """A stated batch that no layout holds, with the largest that one does."""
    held = np.ravel(room(scenario, layouts, machine))
    best = int(np.argmax(held))
    return InputError(
        f"--batch {batch}: does not fit; the largest batch that fits is {int(held[best])} ({layouts[best]})"
    )
