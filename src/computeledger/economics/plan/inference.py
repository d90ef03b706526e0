"""The inference ledger: traffic by kind, the engine that carries it, streams and variants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.plan.keys import KINDS
from computeledger.economics.plan.phases import Carried, Phase, Spent, make_phase, params_term, stated_gpu_hours
from computeledger.economics.plan.read import Section, in_plan
from computeledger.economics.plan.setting import Setting
from computeledger.errors import InputError
from computeledger.physics.roofline import Machine
from computeledger.units import HOUR_S, format_percent
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario, estimate_serving
from computeledger.workloads.serving.images import image_tokens
from computeledger.workloads.serving.intervals import CHIP, is_measured_chip
from computeledger.workloads.serving.pools import prefill_worker, without_prompts
from computeledger.workloads.serving.reading import (
    check_request,
    choose_option,
    layouts_to_search,
    layouts_to_try,
    lengths_of,
    median_lengths,
    model_of,
    read_serving,
    search_options,
    stated_layout,
)
from computeledger.workloads.serving.search import PriceOfSpeed, price_of_speed


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Tokens that the engine prefills, reads from the cache and generates: of a stream, or of a request."""

    prefilled_tokens: Num
    cached_tokens: Num
    output_tokens: Num

    @property
    def multiplied_tokens(self) -> Num:
        """Tokens that pass the model: cached ones are read, not multiplied."""
        return self.prefilled_tokens + self.output_tokens


#: Keys of a section and its streams that :func:`model_engine` does not read.
LATER_KEYS = frozenset(
    {"tokens", "rate", "life", "occupancy", "gpu_hours", "utilization", "price", "name", "paid", "sold"}
)


@dataclass(frozen=True, slots=True)
class EngineModel:
    """The engine that serves a stream, whatever its traffic and its price."""

    result: ServingResult
    reader: ServingResult  # of prompts: the same worker, or one of a pool of its own
    choice: str
    curve: PriceOfSpeed


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream on its engine."""

    label: str
    key: str
    paid: bool
    traffic: _Traffic
    engine: ServingResult
    reader: ServingResult
    usd_per_gpu_hour: Num
    choice: str
    params: Term
    curve: PriceOfSpeed
    life_s: Num | None

    @property
    def flop(self) -> Num:
        return 2 * self.params.value * self.traffic.multiplied_tokens

    @property
    def prefill_s(self) -> Num:
        """Time of one prefilled token, of the worker that reads it: attending to the prefix is paid by cached ones."""
        one = self.reader.scenario
        own_s = self.reader.prefill_busy_s - one.cached_tokens * self.reader.cached_attended_s
        return np.maximum(own_s, 0.0) / one.input_tokens

    @property
    def output_s(self) -> Num:
        """Replica time of one generated token."""
        return self.engine.decode_s / self.engine.scenario.batch

    @property
    def busy_gpu_hours(self) -> Num:
        traffic, reader = self.traffic, self.reader
        read_s = traffic.prefilled_tokens * self.prefill_s + traffic.cached_tokens * reader.cached_busy_s
        gpu_s = read_s * reader.scenario.layout.n_gpus
        gpu_s = gpu_s + traffic.output_tokens * self.output_s * self.engine.scenario.layout.n_gpus
        return gpu_s / HOUR_S

    def carried(self, all_gpu_hours: Num) -> Carried:
        """Its tokens, and its share of the busy time of all streams."""
        one = self.traffic
        share = self.busy_gpu_hours / all_gpu_hours
        return Carried(self.key, one.prefilled_tokens, one.cached_tokens, one.output_tokens, share)

    def chosen(self) -> str:
        """The engine, and how much of one replica's time a load keeps busy that does not fill it."""
        if self.life_s is None:
            return self.choice
        paid_s = median(self.life_s) * median(self.engine.scenario.layout.n_gpus)
        busy_fraction = median(self.busy_gpu_hours) * HOUR_S / paid_s
        if busy_fraction >= 1:
            return self.choice
        idle = "; occupancy prices the rest"
        return f"{self.choice}; busy {format_percent(busy_fraction)} of one replica's time{idle}"

    def figures(self) -> tuple[Figure, ...]:
        prefilled = Term("prefilled", self.traffic.prefilled_tokens, "tokens", "plan", self.key)
        generated = Term("generated", self.traffic.output_tokens, "tokens", "plan", self.key)
        engine, reader = self.engine, self.reader
        terms: tuple[Term, ...] = (
            Term("GPUs per replica", engine.scenario.layout.n_gpus, "GPUs"),
            Term("t_in", self.prefill_s, "s"),
            Term("t_out", self.output_s, "s"),
            Term("t_read", reader.cached_busy_s, "s"),
        )
        formula = "GPUs per replica x (prefilled x t_in + generated x t_out + cached x t_read) / 3600"
        if reader is not engine:
            terms = (Term("GPUs per reader", reader.scenario.layout.n_gpus, "GPUs"), *terms)
            formula = (
                "(GPUs per reader x (prefilled x t_in + cached x t_read) + GPUs per replica x generated x t_out) / 3600"
            )
        flop_terms = (self.params, prefilled, generated)
        return (
            Figure(f"{self.label}.flop", self.flop, "FLOP", "2 N (prefilled + generated tokens)", flop_terms),
            Figure(f"{self.label}.busy_gpu_hours", self.busy_gpu_hours, "GPU-hours", formula, terms),
        )

    def details(self) -> dict[str, tuple[Num, str]]:
        price = self.usd_per_gpu_hour
        return {
            f"{self.label}: tpot_s": (self.engine.tpot_s, "s"),
            f"{self.label}: ttft_s": (self.reader.ttft_s, "s"),
            f"{self.label}: usd_per_mtok_output": (price * self.engine.usd_per_mtok_output, "USD/Mtok"),
            f"{self.label}: usd_per_mtok_input": (
                price * self.reader.usd_per_mtok_input,
                "USD/Mtok",
            ),
        }


def model_engine(setting: Setting, stream: Section) -> EngineModel:
    """Model the engine of a stream; its layout and batch are searched where the plan leaves them out.

    Examples
    --------
    >>> from computeledger.economics.plan.read import Plan
    >>> from computeledger.economics.plan.setting import make_setting
    >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": 2.0}))
    >>> section = Section("inference", {"input_tokens": 2000.0, "output_tokens": 500.0, "layout": "tp1"})
    >>> draws = {"plan.price": 2.0, "power.h100-nvl8": 1300.0}
    >>> draws |= {f"inference.{key}": value for key, value in section.values.items() if key != "layout"}
    >>> model_engine(make_setting(plan, section, draws), section).choice
    'tp1, batch 184 (searched)'
    """
    result, reader, choice = _engine(setting, stream)
    machine = setting.typical if reader is result else without_prompts(setting.typical)
    return EngineModel(result, reader, choice, _typical_curve(machine, result.scenario))


def inference_phase(settings: list[tuple[Setting, Section]], engines: list[EngineModel]) -> Phase:
    """Estimate the inference ledger from its streams, ``C = 2 N D`` with ``D`` without cached tokens.

    ``GPU-hours = sum over streams of (GPUs per replica x replica time) / 3600 / occupancy``

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "rl": {"skip": "none"},
    ...                   "inference": {"tokens": "1T tokens", "input_tokens": "2K tokens",
    ...                                 "output_tokens": "500 tokens"}})
    >>> section = plan.sections["inference"]
    >>> setting = make_setting(plan, section, sample(uncertain_inputs(plan)))
    >>> phase = inference_phase([(setting, section)], [model_engine(setting, section)])
    >>> phase.details["prefilled_tokens"], phase.details["output_tokens"]
    ((800000000000.0, 'tokens'), (200000000000.0, 'tokens'))
    """
    setting = settings[0][0]
    streams = [_stream(*one, engine) for one, engine in zip(settings, engines, strict=True)]
    flop = _sum(one.flop for one in streams)
    hours = modelled = _gpu_hours(setting, _sum(one.busy_gpu_hours for one in streams))
    details = {name: detail for one in streams for name, detail in one.details().items()}
    stated = stated_gpu_hours("inference", setting, flop)
    if stated is not None:
        details["modelled_gpu_hours"] = modelled.value, "GPU-hours"
        hours = stated
    details |= {
        "prefilled_tokens": (_sum(one.traffic.prefilled_tokens for one in streams), "tokens"),
        "cached_tokens": (_sum(one.traffic.cached_tokens for one in streams), "tokens"),
        "output_tokens": (_sum(one.traffic.output_tokens for one in streams), "tokens"),
    }
    if not all(one.paid for one in streams):
        unpaid = _sum(one.busy_gpu_hours for one in streams if not one.paid)
        details["unpaid_gpu_time_fraction"] = unpaid / _sum(one.busy_gpu_hours for one in streams), ""
    spent = Spent(
        tokens=_sum(one.traffic.multiplied_tokens for one in streams),
        flop=flop,
        gpu_hours=hours.value,
        details=details,
        figures=(*(figure for one in streams for figure in one.figures()), hours),
        choices={one.label: one.chosen() for one in streams},
        operations={
            f"{one.label}: {step}": getattr(result, step)
            for one in streams
            for step, result in (("decode", one.engine), ("prefill", one.reader))
        },
        assumptions=_assumed(settings),
    )
    busy = _sum(one.busy_gpu_hours for one in streams)
    return replace(
        make_phase("inference", setting, spent),
        curves={one.label: one.curve for one in streams},
        carried=tuple(one.carried(busy) for one in streams),
    )


def _sum(parts: Iterable[Num]) -> Num:
    return sum(parts, start=0.0)


#: Unit and ground of an occupancy that the plan leaves out.
_NO_IDLE_GPUS = ("", "assumption", "no idle GPUs: the plan is silent")


def _assumed(settings: list[tuple[Setting, Section]]) -> tuple[Term, ...]:
    """The slowest time per token where a batch is searched, and that no GPU idles where hours are modelled."""
    section = settings[0][0].section
    searched = [one for one in settings if not ("batch" in one[1] or "batch" in section)]
    found = {term.name: term for setting, stream in searched for term in setting.assumed("tpot", section=stream)}
    if not {"occupancy", "gpu_hours", "utilization"} & set(section.values):
        found["inference.occupancy"] = Term("inference.occupancy", 1.0, *_NO_IDLE_GPUS)
    return tuple(found.values())


def _gpu_hours(setting: Setting, busy_gpu_hours: Num) -> Figure:
    occupancy = setting.optional("occupancy", 1.0)
    if "occupancy" in setting.section:
        occupancy_term = Term("occupancy", occupancy, "", "plan", "inference.occupancy")
    else:
        occupancy_term = Term("occupancy", occupancy, *_NO_IDLE_GPUS)
    terms = (Term("busy GPU-hours", busy_gpu_hours, "GPU-hours"), occupancy_term)
    hours = busy_gpu_hours / occupancy
    return Figure("inference.gpu_hours", hours, "GPU-hours", "busy GPU-hours / occupancy", terms)


def _stream(setting: Setting, section: Section, modelled: EngineModel) -> _Stream:
    is_silent = not any(_has(setting, section, key) for key in ("occupancy", "gpu_hours", "utilization"))
    return _Stream(
        label=section.text("name") or section.name.replace("inference.traffic", "stream "),
        key=section.name,
        paid=section.text("paid") != "no",
        traffic=_traffic(setting, section, _request(setting, section)),
        engine=modelled.result,
        reader=modelled.reader,
        usd_per_gpu_hour=setting.usd_per_gpu_hour,
        choice=modelled.choice,
        params=params_term(setting.model),
        curve=modelled.curve.at_price(median(setting.usd_per_gpu_hour)),
        life_s=setting.number("life", section) if is_silent and _has(setting, section, "life") else None,
    )


def _has(setting: Setting, stream: Section, key: str) -> bool:
    return key in stream or key in setting.section


def _request(setting: Setting, stream: Section) -> _Traffic:
    """New input, cached prefix and output of a request."""
    question = setting.asked(ServeQuestion, stream)
    numbers = setting.numbers(lengths_of(question), stream)
    seen = image_tokens(model_of(question), question.cached_images)
    prefilled, cached = numbers["input_tokens"] + seen.new, numbers["cached_tokens"] + seen.cached
    return _cached(question, prefilled, cached, numbers["output_tokens"])


def _cached(question: ServeQuestion, prefilled: Num, cached: Num, output: Num) -> _Traffic:
    """Traffic by kind; without a prefix cache all of it is prefilled."""
    if question.no_prefix_cache:
        return _Traffic(prefilled + cached, 0.0 * cached, output)
    return _Traffic(prefilled, cached, output)


def _traffic(setting: Setting, stream: Section, request: _Traffic) -> _Traffic:
    """A stream's tokens by the plan's kinds, or in proportion to a request's."""
    kinds = stream.kinds
    if kinds is None:
        whole = _whole_tokens(setting, stream)
        total = request.multiplied_tokens + request.cached_tokens
        return _Traffic(
            prefilled_tokens=whole * request.prefilled_tokens / total,
            cached_tokens=whole * request.cached_tokens / total,
            output_tokens=whole * request.output_tokens / total,
        )
    amounts = {name: setting.draws.get(f"{kinds.name}.{name}", 0.0) for name in KINDS}
    whole = 1.0 if kinds.text("shares") is None else _whole_tokens(setting, stream)
    prefilled = whole * _sum(amounts[name] for name in ("system_prompt", "user_input", "tool_results"))
    return _cached(
        setting.asked(ServeQuestion, stream), prefilled, whole * amounts["cached"], whole * amounts["output"]
    )


def _whole_tokens(setting: Setting, stream: Section) -> Num:
    if "tokens" in stream:
        return setting.number("tokens", stream)
    return setting.number("rate", stream) * setting.number("life", stream)


def _engine(setting: Setting, stream: Section) -> tuple[ServingResult, ServingResult, str]:
    """A stream's engine, as ``serve`` finds it: its layout and batch are searched where the plan leaves them out."""
    question = setting.asked(ServeQuestion, stream)
    lengths = lengths_of(question)
    typical = read_serving(question, median_lengths(question), 1.0)
    try:
        check_request(typical)
        layouts = layouts_to_search(question, layouts_to_try(question, typical, setting.typical))
        best = choose_option(question, search_options(question, typical, layouts, setting.typical))
    except InputError as error:
        raise in_plan(stream.name, error) from None
    drawn = read_serving(question, setting.numbers(lengths, stream), 1.0)
    batch = float(best.batch) if question.batch is None else setting.number("batch", stream)
    how = "searched" if question.batch is None or question.layout is None else "plan"
    if not is_measured_chip(setting.machine.system):
        how += f"; {CHIP}"
    label = f"{best.layout}, batch {median(batch):,.0f} ({how})"
    at = replace(best.placed(drawn), batch=batch)
    if question.prefill_layout is None:
        result = estimate_serving(at, setting.machine)
        return result, result, label
    layout = stated_layout(question.prefill_layout, drawn.model)
    reader = prefill_worker(drawn, layout, setting.machine)
    return estimate_serving(at, without_prompts(setting.machine)), reader, f"prompts on {layout}; {label}"


def _typical_curve(machine: Machine, scenario: ServingScenario) -> PriceOfSpeed:
    """Cost against speed of an engine at the medians of its inputs."""
    typical = replace(
        scenario,
        batch=median(scenario.batch),
        input_tokens=median(scenario.input_tokens),
        cached_tokens=median(scenario.cached_tokens),
        output_tokens=median(scenario.output_tokens),
    )
    return price_of_speed(typical, machine)
