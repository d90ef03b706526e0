"""From parsed options to a serving document: the call that the command line and the web share. No formula here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Uncertain, median
from computeledger.errors import InputError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import user_path
from computeledger.facts.load import (
    load_model,
    load_system,
)
from computeledger.facts.schema import System
from computeledger.interfaces import documents, documents_serving
from computeledger.interfaces.answers_disaggregated import Asked, answer_disaggregated
from computeledger.interfaces.answers_serving_parts import (
    Answered,
    add_parts,
    aim_of_the_search,
    check_parts,
    layouts_to_search,
    speculation,
)
from computeledger.interfaces.answers_setting import (
    check_positive,
    draw_machine,
    multiplied_in,
    precision_of,
    price_of,
    whole_number,
)
from computeledger.physics.calibration import ENGINES
from computeledger.physics.efficiency import efficiency, load_factors, middle
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.units import format_count, format_si
from computeledger.workloads.figures import serving_figures
from computeledger.workloads.intervals import Interval, anchored, interval_class, interval_of
from computeledger.workloads.serving import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving_anchor import anchor_ratios, read_anchor
from computeledger.workloads.serving_burst import PREFILL_FIRST, start_wait_s
from computeledger.workloads.serving_search import (
    SLOWEST_TPOT_S,
    Fleet,
    ServingOption,
    Slo,
    layouts_that_fit,
    price_of_speed,
    search_serving,
    size_fleet,
)
from computeledger.workloads.serving_sweep import room


def answer_serve(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger serve``."""
    check_parts(options)
    system, model = load_system(options["system"]), _with_context(load_model(options["model"]), options)
    price, price_ground = price_of(system, options["price"])
    lengths = {name: options[f"{name}_tokens"] for name in ("input", "output", "cached")}
    for name in ("input", "output"):
        check_positive(f"--{name}-tokens", lengths[name])
    engine = options["backend"]
    sure = _sureness(model, system, engine, options)
    ratios, anchor_document = _anchored(options, sure, model, system)
    draws, machine, typical = draw_machine(options, {**lengths, "price": price, **ratios}, engine)
    scenario = ServingScenario(
        model=model,
        layout=Layout(),
        precision=_asked_precision(options, model),
        input_tokens=draws["input"],
        output_tokens=draws["output"],
        batch=1.0,
        cached_tokens=draws["cached"],
        usd_per_gpu_hour=draws["price"],
    )
    scenario = _way_of_serving(scenario, options)
    middles = replace(
        scenario,
        input_tokens=middle(lengths["input"]),
        output_tokens=middle(lengths["output"]),
        cached_tokens=middle(lengths["cached"]),
        usd_per_gpu_hour=middle(price),
    )
    _check_context(model, middles)
    if options.get("mode") == "disaggregated":
        apart = answer_disaggregated(Asked(options, scenario, machine, middles, typical, price_ground))
        return apart | {"backend": engine, "efficiency_profile": engine, "interval": _interval_document(sure, engine)}
    gpus, layouts = _layouts(options, middles, typical)
    batch = whole_number("--batch", options["batch"])
    found = search_serving(middles, layouts, typical, None if batch is None else [batch])
    document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
    if not found:
        raise _does_not_fit(batch, layouts, middles, typical)
    if options["requests_per_s"] is not None:
        fleet = _fleet(found, options)
        document["fleet"] = documents_serving.fleet_document(fleet)
        chosen, gpus = fleet.option, fleet.n_gpus
    else:
        chosen = _choose(found, batch, options)
    at = replace(scenario, layout=chosen.layout, batch=float(chosen.batch))
    result, ideal = estimate_serving(at, machine), ideal_serving(at, machine)
    at_middles = replace(middles, layout=chosen.layout, batch=float(chosen.batch))
    curve = price_of_speed(at_middles, typical)
    document |= documents_serving.serve_document(result, ideal, curve, gpus)
    document["multiplied_in"] = multiplied_in(system.accelerator, [at.precision.attention, at.precision.experts])
    document |= {"price": price_ground, "backend": engine, "efficiency_profile": engine, **speculation(options)}
    document |= _carried(anchor_document, sure, draws)
    document |= {"interval": _interval_document(sure, engine), "assumptions": documents_serving.serving_assumptions()}
    if batch is None:
        document["assumptions"] |= aim_of_the_search(options, chosen.tpot_s)
    add_parts(document, Answered(options, chosen, found, result, machine, at_middles, typical, layouts))
    if options["working"] or options.get("html"):
        document["working"] = documents.working_document(serving_figures(result), price_ground)
        document["efficiency"] = documents.efficiency_document(engine)
    return document


def _way_of_serving(scenario: ServingScenario, options: Mapping[str, Any]) -> ServingScenario:
    """The scenario with speculation and the start that were asked for."""
    drafts, accepted, rounds = options["draft_tokens"], options["tokens_per_step"], options["rounds"]
    if drafts < 0:
        raise InputError(f"--draft-tokens {drafts:g}: at least 0 is needed")
    if drafts and accepted == 1:
        raise InputError("--draft-tokens needs --tokens-per-step: the tokens that a step yields, its own included")
    if not 1 <= accepted <= 1 + drafts:
        raise InputError(
            f"--tokens-per-step {accepted:g}: between 1 and one more than the drafted tokens ({1 + drafts:g})"
        )
    if rounds is not None and (rounds < 1 or rounds % 1 != 0):
        raise InputError(f"--rounds {rounds:g}: expected one whole number, at least 1")
    start_wait_s(0.0, 1.0, options["statistic"])
    if rounds is None and (options["equal_lengths"] or options["statistic"] != "mean"):
        raise InputError("--statistic and --equal-lengths are of a run that starts at once: add --rounds N")
    rounds = float("inf") if rounds is None else rounds
    if options["equal_lengths"] and options["backend"] in PREFILL_FIRST:
        rounds = 1.0  # every round starts together
    return replace(
        scenario, draft_tokens=drafts, tokens_per_step=accepted, rounds=rounds, statistic=options["statistic"]
    )


def profile_path(given: str, options: Mapping[str, Any]) -> str:
    """The path of a machine's profile, which stands in for an engine."""
    if options["emit"] or options["anchor"] or options["mode"] != "aggregated":
        raise InputError("--profile: a machine's own kernels have no engine to launch, to anchor or to disaggregate")
    if user_path(given) is None:
        raise InputError(f"--profile {shown(given)}: no such file; computeledger calibrate --write FOLDER makes one")
    return given


def _sureness(model: Model, system: System, engine: str, options: Mapping[str, Any]) -> Interval | None:
    """The interval of the question's class; the physical limit has none."""
    load_factors(engine)
    kind, stated = options.get("mode", "aggregated"), options.get("layout")
    if kind == "aggregated" and stated and parse_layout(stated).n_gpus > system.n_gpus_scale_up.value:
        kind = "spread"
    weights = _asked_precision(options, model).name
    return None if engine not in ENGINES else interval_of(interval_class(model, weights, system, engine, kind))


def _anchored(
    options: Mapping[str, Any], sure: Interval | None, model: Model, system: System
) -> tuple[dict[str, Uncertain], dict[str, Any]]:
    """Ranges of real over predicted time, with what the user's own measurements say about them."""
    given = [read_anchor(text) for text in options["anchor"]]
    if sure is None:
        if given:
            raise InputError("--anchor: the physical limit is no engine; an anchor needs trtllm, vllm or sglang")
        return {}, {}
    ranges = {"tpot": sure.tpot, "ttft": sure.ttft}
    document: dict[str, Any] = {}
    if given:
        if options["layout"] is None and any(one.layout is None for one in given):
            raise InputError("--anchor: state the layout it was measured on, with --layout or as layout=tp8")
        layout = check_layout(parse_layout(options["layout"]), model) if options["layout"] else Layout()
        central = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
        asked = ServingScenario(model, layout, _asked_precision(options, model), 1.0, 1.0, 1.0)
        ratios = anchor_ratios(given, asked, Machine(system, efficiency(options["backend"], central)))
        ranges = {name: anchored(sure, name, ratios[name]) for name in ranges}
        document = {"anchor": {"n": len(given), "measured_over_predicted": ratios}}
    return {f"efficiency.{name}": ranges[key] for name, key in _RATIOS.items()}, document


_RATIOS = {"serving_ratio": "tpot", "first_token_ratio": "ttft"}


def _asked_precision(options: Mapping[str, Any], model: Model) -> Precision:
    return precision_of(model, options["precision"], options["kv_precision"])


def _carried(found: Mapping[str, Any], sure: Interval | None, draws: Mapping[str, Num]) -> dict[str, Any]:
    """An anchor's part of the document, with the factor by which each time is shifted at the median."""
    if sure is None or "anchor" not in found:
        return dict(found)
    names = {"tpot": "efficiency.serving_ratio", "ttft": "efficiency.first_token_ratio"}
    shift = {name: median(draws[key]) / middle(getattr(sure, name)) for name, key in names.items()}
    return {**found, "anchor": {**found["anchor"], "carried_over": shift}}


def _interval_document(sure: Interval | None, engine: str) -> dict[str, Any]:
    if sure is None and engine != "ideal":
        why = "constants measured on one machine; its residuals stand in the profile, and no class of deployments"
        return {"class": "own profile", "why": why, "n": 0}
    if sure is None:
        return {"class": "physical limit", "why": "every peak reached and no overhead: no machine does this", "n": 0}
    return {"class": sure.name, "why": sure.sentence, "n": sure.n}


def _fleet(found: list[ServingOption], options: Mapping[str, Any]) -> Fleet:
    """The fewest GPUs for the load asked about."""
    defaults = {"requests_per_s": 0.0, "ttft": float("inf"), "tpot": float("inf")}
    asked = [middle(options[name]) if options[name] is not None else default for name, default in defaults.items()]
    slo = Slo(*asked)
    check_positive("--requests-per-s", slo.requests_per_s)
    fleet = size_fleet(found, slo)
    gpus = whole_number("--gpus", options["gpus"])
    if gpus is not None and fleet.n_gpus > gpus:
        raise InputError(
            f"--gpus {gpus}: that load needs {format_count(fleet.n_gpus, 'GPU')}; leave --gpus out to size the fleet"
        )
    return fleet


def _with_context(model: Model, options: Mapping[str, Any]) -> Model:
    """The model with the longest context that the user says it is served with."""
    stated = whole_number("--context-tokens", options.get("context_tokens"))
    return model if stated is None else replace(model, max_context_tokens=stated)


def _check_context(model: Model, scenario: ServingScenario) -> None:
    held = scenario.cached_tokens + scenario.input_tokens + scenario.output_tokens
    if model.max_context_tokens and held > model.max_context_tokens:
        raise InputError(
            f"{int(held)} tokens per request exceed the context of {model.id}: {model.max_context_tokens}; "
            "--context-tokens states a longer one (YaRN)"
        )


def _layouts(options: Mapping[str, Any], scenario: ServingScenario, machine: Machine) -> tuple[int, list[Layout]]:
    """GPUs at hand, and the layouts to try on them."""
    gpus = whole_number("--gpus", options["gpus"])
    if options["layout"] is not None:
        layout = check_layout(parse_layout(options["layout"]), scenario.model, gpus)
        if int(layout.cp) > 1:
            raise InputError(
                f"layout {layout}: context parallelism is for training and prefill; serving decodes with cp1"
            )
        return gpus or int(layout.n_gpus), [layout]
    layouts = layouts_to_search(options, layouts_that_fit(scenario, machine, gpus))
    return gpus or max(int(one.n_gpus) for one in layouts), layouts


def _choose(found: list[ServingOption], batch: int | None, options: Mapping[str, Any]) -> ServingOption:
    """The layout for a batch, or the cheapest option that is fast enough."""
    if batch is not None:
        in_order = sorted(found, key=lambda one: str(one.layout))
        return max(in_order, key=lambda one: one.output_tokens_per_s_per_gpu)
    limit = middle(options["tpot"]) if options["tpot"] is not None else SLOWEST_TPOT_S
    if options["ttft"] is not None:
        first = middle(options["ttft"])
        best_ttft_s = min(one.ttft_s for one in found)
        found = [one for one in found if one.ttft_s <= first]
        if not found:
            soonest = format_si(best_ttft_s, "s")
            raise InputError(f"--ttft {format_si(first, 's')}: no layout is that soon; the soonest takes {soonest}")
    fast = [one for one in found if one.tpot_s <= limit]
    if not fast and options["tpot"] is not None:
        best = min(found, key=lambda one: one.tpot_s)
        fastest = f"{best.layout} at batch {best.batch} takes {format_si(best.tpot_s, 's')}"
        raise InputError(f"--tpot {format_si(limit, 's')}: the fastest layout is slower: {fastest}")
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
