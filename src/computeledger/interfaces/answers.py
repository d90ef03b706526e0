"""From parsed options to a document: the calls that the command line and the web share. No formula here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.arrays import Num, Range, Uncertain, sample
from computeledger.errors import InputError, nearest
from computeledger.facts.architecture import Model
from computeledger.facts.editions import load_prices
from computeledger.facts.load import (
    load_model,
    load_system,
)
from computeledger.facts.schema import System
from computeledger.interfaces import documents
from computeledger.physics.efficiency import efficiency, load_factors, middle
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, Precision, parse_precision
from computeledger.physics.training import RECOMPUTE, Batch
from computeledger.units import format_si
from computeledger.validation.compare import comparison_document
from computeledger.validation.serving_points import compare_serving, read_points
from computeledger.workloads.figures import pretraining_figures, serving_figures
from computeledger.workloads.pretraining import (
    PretrainingScenario,
    check_shared,
    estimate_pretraining,
    power_of_two,
    search_pretraining,
    training_layouts,
)
from computeledger.workloads.serving import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving_search import (
    Fleet,
    ServingOption,
    Slo,
    layouts_that_fit,
    pareto_front,
    price_of_speed,
    search_serving,
    size_fleet,
)

#: The speed that a search aims at when the question names none (assumption).
DEFAULT_TPOT_S = 0.05


def _is_moe(model: Model) -> bool:
    return any(group.feed_forward.n_experts for group in model.layers)


def _precision(model: Model, given: str | None, kv: str = "bf16") -> Precision:
    if given is not None:
        return parse_precision(given, _is_moe(model), kv)
    parse_precision("bf16", False, kv)
    return Precision(model.weight_precision, model.dense_precision, model.expert_precision, kv)


def _whole(name: str, value: Uncertain | None) -> int | None:
    """A count that must be one positive whole number."""
    if value is None:
        return None
    if isinstance(value, Range) or value != int(value) or value < 1:
        raise InputError(
            f"{name} {value if isinstance(value, Range) else f'{value:g}'}: expected one whole number, at least 1"
        )
    return int(value)


def _positive(name: str, value: Uncertain | None) -> None:
    ends = (value.low,) if isinstance(value, Range) else (value,)
    if any(end is not None and end <= 0 for end in ends):
        raise InputError(f"{name} must be greater than 0")


def _price(system: System, given: Uncertain | None) -> tuple[Uncertain, dict[str, Any]]:
    """A GPU-hour's price and where it comes from."""
    if given is not None:
        return given, {"origin": "given", "edition": None}
    edition = load_prices()
    prices = edition.usd_per_gpu_hour.get(system.accelerator.id, {})
    if "rent" not in prices:
        raise InputError(f"price edition {edition.id} has no rent of {system.accelerator.id}: give --price '$2/h'")
    fact = prices["rent"]
    return fact.uncertain, {"origin": "fact", "edition": edition.id, "kind": "rent", **documents.fact_document(fact)}


def _draw(options: Mapping[str, Any], quantities: Mapping[str, Uncertain]) -> tuple[dict[str, Num], Machine, Machine]:
    """Samples of the question's quantities, the machine with samples of its factors, and with their medians."""
    system = load_system(options["system"])
    inputs = {f"efficiency.{name}": factor.value for name, factor in load_factors().items()} | dict(quantities)
    draws = sample(inputs, options["samples"], options["seed"])
    return draws, Machine(system, efficiency(draws=draws)), Machine(system, efficiency())


def answer_serve(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger serve``."""
    model, system = load_model(options["model"]), load_system(options["system"])
    price, price_ground = _price(system, options["price"])
    lengths = {name: options[f"{name}_tokens"] for name in ("input", "output", "cached")}
    for name in ("input", "output"):
        _positive(f"--{name}-tokens", lengths[name])
    draws, machine, typical = _draw(options, {**lengths, "price": price})
    scenario = ServingScenario(
        model=model,
        layout=Layout(),
        precision=_precision(model, options["precision"], options["kv_precision"]),
        input_tokens=draws["input"],
        output_tokens=draws["output"],
        batch=1.0,
        cached_tokens=draws["cached"],
        usd_per_gpu_hour=draws["price"],
    )
    middles = replace(
        scenario,
        input_tokens=middle(lengths["input"]),
        output_tokens=middle(lengths["output"]),
        cached_tokens=middle(lengths["cached"]),
        usd_per_gpu_hour=middle(price),
    )
    _check_context(model, middles)
    gpus, layouts = _layouts(options, middles, typical)
    found = search_serving(middles, layouts, typical)
    batch = _whole("--batch", options["batch"])
    document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
    if options["requests_per_s"] is not None:
        exact = found if batch is None else search_serving(middles, layouts, typical, batches=[batch])
        fleet = _fleet(exact, batch, options)
        document["fleet"] = documents.fleet_document(fleet)
        chosen, gpus = fleet.option, fleet.n_gpus
    else:
        chosen = _choose(found, batch, options, typical, middles)
    at = replace(scenario, layout=chosen.layout, batch=float(chosen.batch))
    result, ideal = estimate_serving(at, machine), ideal_serving(at, machine)
    curve = price_of_speed(replace(middles, layout=chosen.layout, batch=float(chosen.batch)), typical)
    document |= documents.serve_document(result, ideal, curve, gpus)
    if batch is None:
        document["pareto"] = [documents.option_document(one) for one in pareto_front(found)]
        document["n_options"] = len(found)
    document |= {"price": price_ground, "efficiency_profile": "assumed", "assumptions": documents.serving_assumptions()}
    if batch is None and options["tpot"] is None:
        document["assumptions"]["slowest_tpot_s_of_the_search"] = DEFAULT_TPOT_S
    if options["working"]:
        document["working"] = [documents.figure_document(one) for one in serving_figures(result)]
        document["efficiency"] = documents.efficiency_document()
    return document


def _fleet(found: list[ServingOption], batch: int | None, options: Mapping[str, Any]) -> Fleet:
    """The fewest GPUs for the load asked about."""
    defaults = {"requests_per_s": 0.0, "ttft": float("inf"), "tpot": float("inf")}
    asked = [middle(options[name]) if options[name] is not None else default for name, default in defaults.items()]
    slo = Slo(*asked)
    _positive("--requests-per-s", slo.requests_per_s)
    if not found:
        raise InputError(f"--batch {batch}: does not fit any layout")
    fleet = size_fleet(found, slo)
    gpus = _whole("--gpus", options["gpus"])
    if gpus is not None and fleet.n_gpus > gpus:
        raise InputError(f"--gpus {gpus}: that load needs {fleet.n_gpus} GPUs; leave --gpus out to size the fleet")
    return fleet


def _check_context(model: Model, scenario: ServingScenario) -> None:
    held = scenario.cached_tokens + scenario.input_tokens + scenario.output_tokens
    if model.max_context_tokens and held > model.max_context_tokens:
        raise InputError(f"{int(held)} tokens per request exceed the context of {model.id}: {model.max_context_tokens}")


def _layouts(options: Mapping[str, Any], scenario: ServingScenario, machine: Machine) -> tuple[int, list[Layout]]:
    """GPUs at hand, and the layouts to try on them."""
    gpus = _whole("--gpus", options["gpus"])
    if options["layout"] is not None:
        layout = check_layout(parse_layout(options["layout"]), scenario.model, gpus)
        if int(layout.cp) > 1:
            raise InputError(
                f"layout {layout}: context parallelism is for training and prefill; serving decodes with cp1"
            )
        return gpus or int(layout.n_gpus), [layout]
    layouts = layouts_that_fit(scenario, machine, gpus)
    return gpus or max(int(one.n_gpus) for one in layouts), layouts


def _choose(
    found: list[ServingOption],
    batch: int | None,
    options: Mapping[str, Any],
    machine: Machine,
    scenario: ServingScenario,
) -> ServingOption:
    """The layout for a batch, or the cheapest option that is fast enough."""
    if batch is None:
        limit = middle(options["tpot"]) if options["tpot"] is not None else DEFAULT_TPOT_S
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
    layouts = sorted({str(one.layout): one.layout for one in found}.items())
    room = {str(one.layout): max(o.batch for o in found if o.layout == one.layout) for one in found}
    exact = search_serving(scenario, [layout for _, layout in layouts], machine, batches=[batch])
    if not exact:
        name, largest = max(room.items(), key=lambda pair: pair[1])
        raise InputError(f"--batch {batch}: does not fit; the largest batch that fits is {largest} ({name})")
    return max(exact, key=lambda one: one.output_tokens_per_s_per_gpu)


def answer_pretrain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger pretrain``."""
    model, system = load_model(options["model"]), load_system(options["system"])
    price, price_ground = _price(system, options["price"])
    recompute, microbatch = options["recompute"], options["microbatch_sequences"]
    if recompute is not None and recompute not in RECOMPUTE:
        raise InputError(f"--recompute {recompute!r}: {nearest(recompute, RECOMPUTE)}")
    for name in ("tokens", "sequence_tokens", "global_batch_tokens"):
        _positive(f"--{name.replace('_', '-')}", options[name])
    for name in ("microbatch_sequences", "virtual_stages"):
        _positive(f"--{name.replace('_', '-')}", float(options[name]) if options[name] is not None else None)
    draws, machine, typical = _draw(options, {"tokens": options["tokens"], "price": price})
    sequence, wanted = middle(options["sequence_tokens"]), middle(options["global_batch_tokens"])
    batch = Batch(
        sequence_tokens=sequence,
        global_sequences=float(power_of_two(wanted / sequence)),
        microbatch_sequences=float(microbatch or 1),
        recompute=recompute or "selective",
        virtual_stages=float(options["virtual_stages"]),
    )
    scenario = PretrainingScenario(
        model,
        Layout(),
        parse_precision(options["precision"] or "bf16", _is_moe(model)),
        batch,
        draws["tokens"],
        draws["price"],
    )
    gpus = _whole("--gpus", options["gpus"])
    if options["layout"] is not None:
        layout = parse_layout(options["layout"])
        if gpus is not None and layout.dp == 1 and gpus % int(layout.n_gpus) == 0:
            layout = replace(layout, dp=gpus // int(layout.n_gpus))
        layout = check_layout(layout, model, gpus)
        gpus = gpus or int(layout.n_gpus)
        scenario = check_shared(replace(scenario, layout=layout))
    gpus = gpus or int(system.n_gpus_scale_up.value)
    domain = int(system.n_gpus_scale_up.value)
    search = replace(scenario, tokens=0.0)
    best = [
        one
        for one in search_pretraining(search, training_layouts(model, gpus, domain), typical, top=sys.maxsize)
        if recompute in (None, one.recompute) and microbatch in (None, one.microbatch_sequences)
    ][: options["top"]]
    if not best:
        raise InputError(f"no layout fits with recompute {recompute or 'any'} and microbatch {microbatch or 'any'}")
    if options["layout"] is None:
        first = best[0]
        chosen = replace(batch, microbatch_sequences=float(first.microbatch_sequences), recompute=first.recompute)
        scenario = replace(scenario, layout=first.layout, batch=chosen)
    result = estimate_pretraining(scenario, machine)
    document = {"system": system.id, "accelerator": system.accelerator.id, **documents.pretrain_document(result, best)}
    document |= {"price": price_ground, "efficiency_profile": "assumed", "asked_global_batch_tokens": wanted}
    if options["working"]:
        document["working"] = [documents.figure_document(one) for one in pretraining_figures(result)]
        document["efficiency"] = documents.efficiency_document()
    return document


def answer_validate(data_file: str, by: str, samples: int, seed: int) -> dict[str, Any]:
    """Answer ``computeledger validate``."""
    columns = [name.strip() for name in by.split(",") if name.strip()]
    return comparison_document(compare_serving(read_points(data_file), samples, seed), columns)
