"""From parsed options to frontier documents: the calls that the command line and the web share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Range, median
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.frontier.abilities import MIXTURE, optimal_tokens, trains
from computeledger.frontier.decoding import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REFERENCE_MODEL,
    ROLLOUT_TOKENS,
    reinforces,
    serves,
)
from computeledger.frontier.described import DEFAULT_ACCELERATOR
from computeledger.frontier.epoch_files import (
    CREDIT,
    checked_day,
    read_chips,
    read_timelines,
    shipped_chips,
    shipped_sites,
)
from computeledger.frontier.fits import MODELS, SYSTEMS, weights_fractions
from computeledger.frontier.forecast import backtest, forecast_series, run_series, site_series, when_reached
from computeledger.frontier.growth import (
    dated_quantities,
    fitted_growth,
    flat_funding_slowdown,
    largest_systems,
    load_scenarios,
    project,
    years_to_grow,
)
from computeledger.frontier.labs import lab_timeline
from computeledger.frontier.memory import hbm_share
from computeledger.frontier.needs import needed_system
from computeledger.frontier.shapes import shaped_model
from computeledger.frontier.sheets import UTILIZATION, Schedule, Spending, model_sheet, published_chip, release_dates
from computeledger.frontier.sites import check_claimed_power, share_within, site_rows
from computeledger.frontier.spread import DomainStep, Spread, estimate_spread, levers, steps_by_domain
from computeledger.frontier.steps import SEQUENCE_TOKENS, run_model, run_steps
from computeledger.frontier.systems import described_system, flop_per_month
from computeledger.frontier.text import text_facts
from computeledger.frontier.trends import Series, date_of, year_of
from computeledger.frontier.working import (
    growth_figures,
    reached_figures,
    run_figures,
    served_figures,
    site_figures,
    system_figures,
)
from computeledger.physics.critical_batch import critical_batch_tokens
from computeledger.physics.efficiency import middle
from computeledger.physics.transformer import n_params_total
from computeledger.progress import stage
from computeledger.questions.answers.setup import check_positive, whole_number
from computeledger.questions.documents import frontier as documents
from computeledger.questions.documents.records import figure_document
from computeledger.units import KILO, MONTH_S
from computeledger.workloads.serving_search import SLOWEST_TPOT_S

#: Of a step that an exchange between sites may take where nothing is said (assumption: one second of six).
EXCHANGE_SHARE = 1 / 6


def answer_systems(spec: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a system has, costs, trains, does RL with, and serves."""
    utilization, duration = middle(options["utilization"]), middle(options["duration"])
    check_positive("--utilization", utilization)
    system = described_system(spec, options["samples"], options["seed"])
    if median(system.chips) < 1:
        raise InputError(f"{shown(spec)}: that is less than one chip")
    months = duration / MONTH_S
    document = documents.system_document(system)
    monthly = flop_per_month(system, utilization)
    document["flop_per_month"] = {one: documents.quantity(value, "FLOP") for one, value in monthly.items()}
    runs = trains(system, duration, utilization)
    timed = {name: run_steps(run, system.generations, name) for name, run in runs.items()}
    document["trains"] = {"months": months, "utilization_fraction": utilization, "precision": "bf16"}
    document["trains"] |= {name: documents.timed_run_document(run, timed[name]) for name, run in runs.items()}
    models = [load_model(REFERENCE_MODEL), *(run_model(run, name) for name, run in runs.items())]
    rl = [reinforces(model, one) for model in models for one in system.generations]
    served = [serves(model, one) for model in models for one in system.generations]
    document |= documents.decoding_document(rl, served)
    stock = text_facts()["stock_tokens"]
    document["text"] = {"stock_tokens": documents.quantity(stock.value, "tokens"), "low": stock.low, "high": stock.high}
    names = [one.system.id for one in system.generations if one.system is not None]
    domains = list(dict.fromkeys([*names, *SYSTEMS]))
    fits = weights_fractions([*MODELS, *models[1:]], domains)
    document["fits"] = documents.fits_document(fits)
    document["assumptions"] = {
        "utilization_fraction": utilization,
        "sequence_tokens": SEQUENCE_TOKENS,
        "reference_model": REFERENCE_MODEL,
        "served_tpot_s": SLOWEST_TPOT_S,
        "served_input_tokens": INPUT_TOKENS,
        "served_output_tokens": OUTPUT_TOKENS,
        "mean_rollout_tokens": ROLLOUT_TOKENS,
        "moe_total_over_active_ratio": MIXTURE.total_over_active_ratio,
        "moe_tokens_ratio": MIXTURE.tokens_ratio,
        "moe_compute_ratio": MIXTURE.compute_ratio,
    }
    if options["working"]:
        steps = {name: document["trains"][name]["step_s"] for name in runs}
        own = len(system.generations)
        sampled = sum((one.sampled_tokens_per_s for one in rl[:own]), start=0.0)
        sold = sum((one.output_tokens_per_s for one in served[:own]), start=0.0)
        first = next(one for one in fits if one.model == REFERENCE_MODEL)
        document["working"] = [figure_document(one) for one in (
            *system_figures(system), *run_figures(runs, system, (duration, utilization), steps),
            *served_figures(sampled, sold, first),
        )]  # fmt: skip
    return document


def answer_sites(options: Mapping[str, Any]) -> dict[str, Any]:
    """Sites over time, and a claim about one of them."""
    date = None if options["date"] is None else checked_day(options["date"], "--date")
    if options["claim"] is not None and (options["site"] is None or date is None):
        raise InputError("--claim needs --site and --date: power of which site, on which day")
    folder = None if options["data"] is None else Path(options["data"])
    timelines = list(shipped_sites()) if folder is None else read_timelines(folder)
    if options["html_file"] is not None and (options["claim"] is not None or options["lab"] is not None):
        raise InputError("--html shows sites: it does not go with --claim or --lab")
    if options["claim"] is not None:
        found = check_claimed_power(options["site"], middle(options["claim"]), date or "", timelines)
        return {"claim": documents.claim_document(found), "credit": CREDIT}
    chips = list(shipped_chips()) if folder is None else read_chips(folder)
    if options["lab"] is not None:
        dated = lab_timeline(options["lab"], chips)
        return documents.lab_document([one for one in dated if date is None or one.date <= date])
    rows = site_rows(timelines, chips)
    shares = {
        "power_checked": share_within(rows),
        "power_checked_observed": share_within(rows, projected=False),
        "counted": share_within(rows, counted=True),
        "counted_observed": share_within(rows, projected=False, counted=True),
    }
    kept = [row for row in rows if options["site"] is None or options["site"].lower() in row.published.name.lower()]
    if not kept:
        raise InputError(f"--site {options['site']!r}: {nearest(options['site'], {r.published.name for r in rows})}")
    rows = [row for row in kept if date is None or row.published.date <= date]
    working = {"working": [figure_document(one) for one in site_figures(rows, shares["power_checked"])]}
    return documents.sites_document(rows, shares) | (working if options["working"] else {})


def _sites(options: Mapping[str, Any]) -> Any:
    return None if options["data"] is None else read_timelines(Path(options["data"]))


def answer_backtest(options: Mapping[str, Any]) -> dict[str, Any]:
    """Forecasts from a cut-off beside what came."""
    return documents.backtest_document(backtest(checked_day(options["cutoff"], "--cutoff"), _sites(options)))


def answer_growth(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fitted growth, and scenarios."""
    first, last = (checked_day(options[name], f"--{name}") for name in ("first", "last"))
    sites = _sites(options)
    fits, dated = fitted_growth(first, last, sites), dated_quantities(sites)
    years = np.arange(options["years"] + 1.0)
    found = [project(one, fits, years) for one in load_scenarios(options["scenario"]).values()]
    return {
        **({"working": [figure_document(one) for one in growth_figures(fits)]} if options["working"] else {}),
        "growth": [documents.growth_document(one, dated[one.name]) for one in fits.values()],
        "flat_funding_slowdown": flat_funding_slowdown(fits["site_h100e"], fits["h100e_per_usd"]),
        "hbm_capex_fraction": dataclasses.asdict(hbm_share()),
        "scenarios": [documents.projection_document(one) for one in found],
        "credit": CREDIT,
    }


def answer_forecast(flop: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """When a run is possible, and what it takes."""
    target, duration, utilization = middle(flop), middle(options["duration"]), middle(options["utilization"])
    for name, value in (("FLOP", target), ("--duration", duration), ("--utilization", utilization)):
        check_positive(name, value)
    stage("the record so far")
    series = run_series()
    reached = when_reached(series, target, options["samples"], options["seed"])
    document = documents.reached_document(reached)
    if options["by"] is not None:
        day = checked_day(options["by"], "--by")
        document["probability_by"] = {"date": day, "probability": reached.probability_by(day)}
    if options["scenario"] is not None:
        document["scenarios"] = _scenario_dates(options["scenario"], series, target)
    needed = needed_system(target, options["accelerator"], duration, utilization)
    document["needs"] = documents.system_document(needed.system)
    document["trains"] = {
        name: documents.timed_run_document(one, run_steps(one, needed.system.generations, name))
        for name, one in needed.runs.items()
    }
    document["repetition"] = {name: documents.repetition_document(one) for name, one in needed.text.items()}
    document["gpu_time"] = documents.gpu_time_document(needed)
    powered = when_reached(site_series(), float(np.median(needed.system.power_w["facility"])), options["samples"])
    document["largest_site_has_the_power"] = documents.reached_document(powered)
    ends, ahead = forecast_series(series, "2030-12-31")
    document["ahead"] = documents.ahead_document(series, ends, ahead)
    ends, ahead = forecast_series(site_series(), "2030-12-31")
    document["sites_ahead"] = documents.ahead_document(site_series(), ends, ahead)
    document["known_systems"] = documents.known_systems_document(largest_systems())
    document["fits"] = documents.fits_document(weights_fractions())
    if options["working"]:
        steps = {name: document["trains"][name]["step_s"] for name in needed.runs}
        given = (duration, utilization)
        document["working"] = [figure_document(one) for one in (
            *reached_figures(reached), *system_figures(needed.system),
            *run_figures(needed.runs, needed.system, given, steps),
        )]  # fmt: skip
    return document | {"credit": CREDIT}


def _scenario_dates(given: str, series: Series, target: float) -> list[dict[str, Any]]:
    """When the largest run reaches a size if it grows as the largest system does in a scenario: a date, no interval."""
    fits, known, last = fitted_growth(), float(series.values[-1]), year_of(series.dates[-1])
    found = []
    for one in load_scenarios(given).values():
        years = years_to_grow(one, fits, target / known)
        date = date_of(last + years) if math.isfinite(years) else None
        found.append({"scenario": one.name, "note": one.note, "date": date})
    return found


def answer_spread(options: Mapping[str, Any]) -> dict[str, Any]:
    """A run over several sites."""
    model, params = _spread_model(options)
    placed = options["system"] is not None and options["gpus"] is not None
    if (options["system"] is None) != (options["gpus"] is None):
        raise InputError("--system and --gpus (of one site) go together: the step comes from both")
    if options["step"] is None and not placed:
        raise InputError("--step T is missing; --system ID and --gpus N of one site give it from the operation model")
    given = None if options["step"] is None else middle(options["step"])
    check_positive("--step", given)
    check_positive("--params", params)
    batch = options["batch_tokens"]
    batch_tokens = float(critical_batch_tokens(optimal_tokens(params))) if batch is None else middle(batch)
    check_positive("--batch-tokens", batch_tokens)
    check_positive("--bytes-per-gradient", options["bytes_per_gradient"])
    if options["distance_km"] < 0:
        raise InputError(f"--distance-km {options['distance_km']:g}: must not be negative")
    run = Spread(
        n_params=params,
        step_s=1.0 if given is None else given,
        n_sites=options["sites"],
        distance_metres=options["distance_km"] * KILO,
        local_steps=options["local_steps"],
        bytes_per_gradient=options["bytes_per_gradient"],
    )
    domains = _spread_domains(model, run, options, batch_tokens / options["sites"]) if placed else []
    if given is None:
        own = next(
            one for one in domains if one.n_scale_up == int(load_system(options["system"]).n_gpus_scale_up.value)
        )
        if own.result is None:
            raise InputError(f"--system {options['system']}: {own.problem}")
        run = replace(run, step_s=own.step_s)
    exchange = float(run.step_s) * EXCHANGE_SHARE if options["exchange"] is None else middle(options["exchange"])
    return documents.spread_document(run, levers(run, exchange), domains) | {"batch_tokens": batch_tokens}


def _spread_model(options: Mapping[str, Any]) -> tuple[Model, float]:
    if (options["model"] is None) == (options["params"] is None):
        raise InputError("give --params N or --model ID, one of both: what is exchanged are its gradients")
    if options["model"] is not None:
        model = load_model(options["model"])
        return model, float(n_params_total(model))
    params = middle(options["params"])
    check_positive("--params", params)
    return shaped_model("dense", params), params


def _spread_domains(model: Model, run: Spread, options: Mapping[str, Any], share: float) -> list[DomainStep]:
    gpus = whole_number("--gpus", options["gpus"]) or 1
    estimate_spread(replace(run, step_s=MONTH_S), MONTH_S)  # sites and local steps are checked before the search
    return steps_by_domain(model, load_system(options["system"]), (gpus, share), run, EXCHANGE_SHARE)


def answer_sheet(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A model's training FLOP from three sides."""
    names = ("gpu_hours", "usd", "price", "claim")
    given = {name: None if options[name] is None else middle(options[name]) for name in names}
    for name, value in given.items():
        check_positive(f"--{name.replace('_', '-')}", value)
    used: float | Range = options["utilization"] or UTILIZATION
    named, published = options["accelerator"], published_chip(model)
    spending = Spending(
        accelerator_id=named or published or DEFAULT_ACCELERATOR,
        gpu_hours=given["gpu_hours"],
        usd=given["usd"],
        usd_per_gpu_hour=given["price"] or 0.0,
        precision=options["precision"],
        utilization_fraction=used,
        claimed_flop=given["claim"],
    )
    lines = model_sheet(model, spending)
    return {
        "model": model,
        "accelerator": spending.accelerator_id,
        "accelerator_ground": "as asked" if named else "as published" if published else "assumed",
        "lines": [documents.sheet_line_document(line) for line in lines],
        "reconciled": all(line.agrees for line in lines),
    }


def answer_schedule(start: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """When a model is out."""
    names = ("delivery", "installation", "pretraining", "post_training")
    schedule = Schedule(*(options[name] for name in names))
    ends = release_dates(checked_day(start, "START"), schedule)
    return {
        "start": start,
        "ends": {name: dict(zip(("p05", "p50", "p95"), one, strict=True)) for name, one in ends.items()},
    }
