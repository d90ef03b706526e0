"""The inference ledger: traffic by kind, the engine that carries it, streams and variants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.phases import Phase, Spent, close, params_term, stated_hours
from computeledger.economics.plan import Section
from computeledger.economics.setting import Setting
from computeledger.errors import DoesNotFitError
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Operation
from computeledger.units import HOUR_S
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.serving import ServingResult, ServingScenario, estimate_serving
from computeledger.workloads.serving_search import (
    PriceOfSpeed,
    ServingOption,
    layouts_that_fit,
    price_of_speed,
    search_serving,
)


def serving_estimate(setting: Setting, shape: tuple[Num, Num, Num], stream: Section | None = None) -> tuple[ServingResult, str]:
    """Estimate the engine of a section; search its layout and batch where the plan leaves them out.

    Parameters
    ----------
    setting : Setting
        Of an inference or RL section.
    shape : tuple of float or ndarray
        New input, cached and output tokens of a request [token].
    stream : Section, optional
        Traffic whose keys come before the section's.

    Returns
    -------
    tuple of ServingResult and str
        The estimate, and layout and batch with how they were chosen.

    Raises
    ------
    DoesNotFitError
        Where nothing fits.

    Examples
    --------
    >>> serving_estimate.__name__
    'serving_estimate'
    """
    where = stream or setting.section
    typical = [float(np.median(np.asarray(one))) for one in shape]
    scenario = ServingScenario(setting.model, Layout(), setting.precision, typical[0], typical[2], 1.0, typical[1], 1.0)
    text = where.text("layout") or setting.section.text("layout")
    if text:
        layouts = [check_layout(parse_layout(text), setting.model)]
    else:
        layouts = layouts_that_fit(scenario, setting.typical)
    options = search_serving(scenario, layouts, setting.typical)
    if "batch" in where or "batch" in setting.section:
        batch = setting.number("batch", where)
        fitting = [one for one in options if one.batch >= float(np.median(np.asarray(batch)))] or options
        best = min(fitting, key=lambda one: one.tpot_s * float(one.layout.n_gpus))
        room = max(one.batch for one in options if one.layout == best.layout)
        if np.median(np.asarray(batch)) > 1.5 * room:
            raise DoesNotFitError(f"[{where.name}] batch = {np.median(np.asarray(batch)):.0f} does not fit {best.layout}: "
                                  f"about {room} sequences of {sum(typical):.0f} tokens do")  # fmt: skip
    else:
        best = _cheapest(options, setting.typical_number("tpot", stream))
        batch = float(best.batch)
    chosen = replace(
        scenario, layout=best.layout, batch=batch, input_tokens=shape[0], cached_tokens=shape[1], output_tokens=shape[2],
        usd_per_gpu_hour=setting.usd_per_gpu_hour,
    )  # fmt: skip
    how = "plan" if text and "batch" in where else "searched"
    label = f"{best.layout}, batch {float(np.median(np.asarray(batch))):.0f} ({how})"
    return estimate_serving(chosen, setting.machine), label


def _cheapest(options: list[ServingOption], tpot_s: float) -> ServingOption:
    """Least GPU-time per token among the options that are fast enough; the fastest where none is."""
    fast = [one for one in options if one.tpot_s <= tpot_s]
    if not fast:
        return min(options, key=lambda one: one.tpot_s)
    return max(fast, key=lambda one: one.output_tokens_per_s_per_gpu)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Tokens of a stream by what the engine does with them.

    Attributes
    ----------
    prefill, cached, output : float or ndarray
        Tokens prefilled, read from the cache, generated [token].
    """

    prefill: Num
    cached: Num
    output: Num

    @property
    def multiplied(self) -> Num:
        """Tokens that pass the model: cached ones are read, not multiplied [token]."""
        return self.prefill + self.output


def traffic_of(setting: Setting, stream: Section) -> Traffic:
    """Split a stream's tokens by what the engine does with them.

    Parameters
    ----------
    setting : Setting
        Of the inference section.
    stream : Section
        The section itself or one of its streams.

    Returns
    -------
    Traffic
        By the plan's kinds, or in proportion to a request's shape.

    Examples
    --------
    >>> traffic_of.__name__
    'traffic_of'
    """
    kinds = stream.kinds
    parts = ("system_prompt", "user_input", "tool_results", "cached", "output")
    if kinds is not None and kinds.text("shares") is None:
        amounts = {name: setting.draws.get(f"{kinds.name}.{name}", 0.0) for name in parts}
        return Traffic(sum((amounts[name] for name in parts[:3]), start=0.0), amounts["cached"], amounts["output"])
    whole = setting.number("tokens", stream) if "tokens" in stream else setting.number("rate", stream) * setting.number("life", stream)  # fmt: skip
    if kinds is not None:
        shares = {name: setting.draws.get(f"{kinds.name}.{name}", 0.0) for name in parts}
        new = sum((shares[name] for name in parts[:3]), start=0.0)
        return Traffic(whole * new, whole * shares["cached"], whole * shares["output"])
    new, cached, output = request_shape(setting, stream)
    total = new + cached + output
    return Traffic(whole * new / total, whole * cached / total, whole * output / total)


def request_shape(setting: Setting, stream: Section) -> tuple[Num, Num, Num]:
    """New input, cached and output tokens of a request.

    Parameters
    ----------
    setting : Setting
        Of the inference section.
    stream : Section
        The section itself or one of its streams.

    Returns
    -------
    tuple of float or ndarray
        Three amounts [token].

    Examples
    --------
    >>> request_shape.__name__
    'request_shape'
    """
    return (
        setting.number("input", stream),
        setting.optional("cached", 0.0, stream),
        setting.number("output", stream),
    )


def inference_phase(settings: list[tuple[Setting, Section]]) -> Phase:
    """Estimate the inference ledger from its streams.

    Parameters
    ----------
    settings : list of (Setting, Section)
        One per stream; a stream may run a variant of the model.

    Returns
    -------
    Phase
        Summed over streams.

    Examples
    --------
    >>> inference_phase.__name__
    'inference_phase'
    """
    setting = settings[0][0]
    sums: dict[str, Num] = dict.fromkeys(("prefill", "cached", "output", "flop", "busy_hours"), 0.0)
    figures: list[Figure] = []
    choices: dict[str, str] = {}
    operations: dict[str, tuple[Operation, ...]] = {}
    details: dict[str, tuple[Num, str]] = {}
    curves: dict[str, PriceOfSpeed] = {}
    for one, stream in settings:
        label = stream.text("name") or "inference"
        traffic, shape = traffic_of(one, stream), request_shape(one, stream)
        result, choices[label] = serving_estimate(one, shape, stream)
        scenario, active = result.scenario, params_term(one.model)
        curves[label] = _typical_curve(one, scenario)
        per_output, per_input = result.decode_s / scenario.batch, result.prefill_busy_s / scenario.input_tokens
        replica_s = traffic.prefill * per_input + traffic.output * per_output + traffic.cached * result.cached_busy_s
        hours = replica_s * scenario.layout.n_gpus / HOUR_S
        flop = 2 * active.value * traffic.multiplied
        parts = {"prefill": traffic.prefill, "cached": traffic.cached, "output": traffic.output, "flop": flop}
        sums = {name: sums[name] + ({**parts, "busy_hours": hours})[name] for name in sums}
        operations |= {f"{label}: decode": result.decode, f"{label}: prefill": result.prefill}
        details |= {f"{label}: tpot_s": (result.tpot_s, "s"), f"{label}: ttft_s": (result.ttft_s, "s"),
                    f"{label}: usd_per_mtok_output": (result.usd_per_mtok_output, "USD/Mtok"),
                    f"{label}: usd_per_mtok_input": (result.usd_per_mtok_input, "USD/Mtok")}  # fmt: skip
        figures += [
            Figure(f"{label}.flop", flop, "FLOP", "2 N (prefilled + generated tokens)",
                   (active, Term("prefilled", traffic.prefill, "tokens", "plan", f"{stream.name}"),
                    Term("generated", traffic.output, "tokens", "plan", f"{stream.name}"))),
            Figure(f"{label}.busy_gpu_hours", hours, "GPU-hours",
                   "GPUs per replica x (prefilled x t_in + generated x t_out + cached x t_read) / 3600",
                   (Term("GPUs per replica", scenario.layout.n_gpus, "GPUs"), Term("t_in", per_input, "s"),
                    Term("t_out", per_output, "s"), Term("t_read", result.cached_busy_s, "s"))),
        ]  # fmt: skip
    tokens = sums["prefill"] + sums["output"]
    stated = stated_hours("inference", 0.0, setting, sums["flop"])
    occupancy = setting.optional("occupancy", 1.0)
    hours = sums["busy_hours"] / occupancy
    figure = Figure("inference.gpu_hours", hours, "GPU-hours", "busy GPU-hours / occupancy",
                    (Term("busy GPU-hours", sums["busy_hours"], "GPU-hours"),
                     Term("occupancy", occupancy, "", "plan" if "occupancy" in setting.section else "assumption",
                          "inference.occupancy" if "occupancy" in setting.section else "no idle GPUs: the plan is silent")))  # fmt: skip
    if stated is not None:
        details["modelled_gpu_hours"] = (hours, "GPU-hours")
        hours, figure = stated
    details |= {"prefilled_tokens": (sums["prefill"], "tokens"), "cached_tokens": (sums["cached"], "tokens"),
                "output_tokens": (sums["output"], "tokens")}  # fmt: skip
    spent = Spent(tokens, sums["flop"], hours, details, (*figures, figure), choices, operations)
    return replace(close("inference", setting, spent), curves=curves)


def _typical_curve(setting: Setting, scenario: ServingScenario) -> PriceOfSpeed:
    """Cost against speed of an engine at the medians of its inputs."""
    names = ("batch", "input_tokens", "cached_tokens", "output_tokens", "usd_per_gpu_hour")
    numbers = {name: median(getattr(scenario, name)) for name in names}
    return price_of_speed(replace(scenario, **numbers), setting.typical)
