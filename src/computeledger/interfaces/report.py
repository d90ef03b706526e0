"""The report of a plan: one HTML file that needs nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.arrays import Range
from computeledger.economics.ledger import Ledger
from computeledger.interfaces import plot_parts, plots
from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.questions.documents.records import operations_document
from computeledger.questions.wording import (
    PHASE_NAMES,
    input_phrase,
    input_words,
    interval_words,
    model_words,
    percent,
    point,
    span,
    step_words,
    words,
)
from computeledger.sources import bibtex, load_sources
from computeledger.workloads.result import quantity

Context = dict[str, Any]

_COLUMNS = (
    ("tokens", "Tokens", "tokens"), ("flop", "FLOP", "FLOP"), ("gpu_hours", "GPU-hours", "GPU-hours"),
    ("utilization_fraction", "Utilisation", "fraction"), ("usd", "Cost", "USD"), ("energy_j", "Energy", "J"),
)  # fmt: skip


def plan_report(ledger: Ledger, document: Mapping[str, Any]) -> str:
    """Render the report of a plan.

    Parameters
    ----------
    ledger : Ledger
        The result, with samples and operations.
    document : mapping
        The same as :func:`computeledger.questions.documents.records.plan_document` with its working.

    Returns
    -------
    str
        A whole HTML page with its styles, scripts and data inside.
    """
    figures = _figures(ledger, document)
    context: Context = {
        "title": document["title"],
        "lead": _lead(document),
        "tiles": _tiles(document),
        "columns": [label for _, label, _ in _COLUMNS],
        "rows": _rows(document),
        "skipped": [(PHASE_NAMES[name], reason) for name, reason in document["skipped"].items()],
        "captions": _captions(ledger, document),
        "balance": _balance(document),
        "steps": _steps(ledger),
        "curves": _curves(ledger),
        "phases": _phases(ledger),
        "assumptions": [_term(term) for term in document["assumptions"]],
        "efficiency": _efficiency(ledger, document),
        "working": _working(ledger, document),
        "sources": _sources(document),
        "bibtex": bibtex(_source_keys(document)),
        "editions": dict(document["editions"]),
        "plan": ledger.plan.name,
        "n_samples": document["n_samples"],
        "seed": document["seed"],
        "version": version(),
        "figures": list(figures),
        "data": script_json({"figures": figures, "config": plot_parts.CONFIG,
                              "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}}),
        "plotly": plotly_script(),
        "style": assets("report.css"),
        "script": assets("draw.js", "report.js"),
    }  # fmt: skip
    return page_template("report.html").render(context)


def _figures(ledger: Ledger, document: Mapping[str, Any]) -> dict[str, plot_parts.Spec]:
    """The plots that the plan has the data for."""
    out: dict[str, plot_parts.Spec] = {}
    if len(document["shares"]["flop"]) > 1:
        out["shares"] = plots.shares_figure(document)
    out["gpu_hours"] = plots.phases_figure(ledger, "gpu_hours")
    out["usd"] = plots.phases_figure(ledger, "usd")
    if any(phase.operations for phase in ledger.phases.values()):
        out["roofline"] = plots.roofline_figure(ledger)
        out["bounds"] = plots.bounds_figure(ledger)
    if "inference" in ledger.phases and ledger.phases["inference"].curves:
        out["speed"] = plots.speed_figure(ledger)
    if document["drivers"]:
        out["drivers"] = plots.drivers_figure(document)
    return out


def _amount(value: Any, unit: str) -> dict[str, str]:
    return {"text": words(point(value), unit), "band": interval_words(value, unit)}


def _bare(value: Any, unit: str) -> dict[str, str]:
    """An amount whose unit stands in the heading."""
    amount = _amount(value, unit)
    named = unit in ("tokens", "GPU-hours", "FLOP")
    return {key: text.removesuffix(f"\u00a0{unit}") for key, text in amount.items()} if named else amount


def _in_band(value: Any, unit: str) -> str:
    amount = _amount(value, unit)
    return f"{amount['text']} ({amount['band']})" if amount["band"] else amount["text"]


def _every_phase(document: Mapping[str, Any]) -> dict[str, Any]:
    extra = {"experiments": document["experiments"]} if document["experiments"] else {}
    return {**document["phases"], **extra}


def _lead(document: Mapping[str, Any]) -> Context:
    """The answer in words, in parts."""
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    return {
        "gpu_hours": _amount(document["total"]["gpu_hours"], "GPU-hours"),
        "usd": _amount(document["total"]["usd"], "USD"),
        "experiments": document["experiments"] is not None,
        "n_ledgers": len(time),
        "gpu_time": _leaders(time),
        "flop": _leaders(flop),
        "flop_of_leaders": " and ".join(percent(flop[name]) for name in _largest(time)),
        "drivers": [input_phrase(one["name"]) for one in document["drivers"][:2]],
    }


def _largest(shares: Mapping[str, Any]) -> list[str]:
    """The ledgers that take the most, more than one where they are level to a percent."""
    top = max((point(share) for share in shares.values()), default=0.0)
    return [name for name, share in shares.items() if point(share) > top - 0.01]


def _leaders(shares: Mapping[str, Any]) -> Context:
    names = _largest(shares)
    each = " each" if len(names) > 1 else ""
    return {
        "names": [PHASE_NAMES[name] for name in names],
        "share": f"{percent(shares[names[0]])}{each}" if names else "",
    }


def _tiles(document: Mapping[str, Any]) -> list[Context]:
    kinds = (("gpu_hours", "GPU-hours", "GPU-hours"), ("usd", "Cost", "USD"), ("energy_j", "Energy", "J"),
             ("flop", "FLOP", "FLOP"))  # fmt: skip
    return [{"label": label, **_bare(document["total"][name], unit)} for name, label, unit in kinds]


def _rows(document: Mapping[str, Any]) -> list[Context]:
    """The ledger: a row per phase, then the total."""
    rows = []
    for name, phase in _every_phase(document).items():
        hours_only = name == "experiments"
        cells = [None if hours_only and key in ("tokens", "flop", "utilization_fraction") else _bare(phase[key], unit)
                 for key, _, unit in _COLUMNS]  # fmt: skip
        note = f"{model_words(phase['model'])} on {phase['accelerator']}"
        rows.append({"name": PHASE_NAMES[name], "key": name, "cells": cells, "note": note})
    total = document["total"]
    cells = [_bare(total[key], unit) if key in total else None for key, _, unit in _COLUMNS]
    return [*rows, {"name": "Total", "key": "total", "cells": cells, "note": ""}]


def _captions(ledger: Ledger, document: Mapping[str, Any]) -> dict[str, str]:
    """The numbers of each plot: the alternative to looking."""
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    phases = _every_phase(document)
    drivers = [(input_words(one["name"]), one["rank_correlation"]) for one in document["drivers"][:8]]
    longest = [(step["name"], step["rows"][0]) for step in _steps(ledger) if step["rows"]]
    return {
        "shares": "; ".join(
            f"{PHASE_NAMES[name]} {_in_band(flop[name], 'fraction')} of the FLOP and "
            f"{_in_band(time[name], 'fraction')} of the GPU-time" for name in flop
        ),
        "gpu_hours": "; ".join(
            f"{PHASE_NAMES[key]} {_in_band(one['gpu_hours'], 'GPU-hours')}" for key, one in phases.items()
        ),
        "usd": "; ".join(f"{PHASE_NAMES[key]} {_in_band(one['usd'], 'USD')}" for key, one in phases.items()),
        "drivers": "; ".join(f"{name} {_signed(rho['gpu_hours'])} and {_signed(rho['usd'])}" for name, rho in drivers),
        "bounds": "; ".join(f"{name}: {row['name']} ({row['share']}, {row['bound']})" for name, row in longest),
    }  # fmt: skip


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")


_BALANCE = (
    ("overtraining_ratio", "×", "Pretraining data against the compute-optimal",
     "D_pre / (20 N)", "Tokens of the run over Chinchilla’s 20 per active parameter."),
    ("inference_efficiency", "", "Efficiency of inference",
     "e", "FLOP that a GPU-hour of inference does, over what one of pretraining does."),
    ("tokens_inference_balanced", "tokens", "Inference tokens that balance pretraining",
     "D_inf = 3 e D_pre", "As many take the GPU-time of pretraining."),
    ("inference_over_balanced", "×", "Inference against that balance",
     "", "GPU-time of inference over that of pretraining."),
    ("beta_flop", "", "RL’s coefficient in FLOP",
     "beta_flop", "FLOP per active parameter and sampled token; pretraining has 6."),
    ("beta_gpu_time", "", "RL’s coefficient in GPU-time",
     "beta_gpu_time", "The same in GPU-time, on a scale where a pretraining token takes 6."),
    ("tokens_rl_balanced", "tokens", "RL tokens that balance pretraining",
     "D_RL = (6 / beta_gpu_time) D_pre", "As many sampled tokens take the GPU-time of pretraining."),
    ("rl_over_balanced", "×", "RL against that balance",
     "", "GPU-time of RL over that of pretraining."),
)  # fmt: skip


def _balance(document: Mapping[str, Any]) -> list[Context]:
    found = document["balance"]
    return [
        {"name": name, "formula": formula, "meaning": meaning, "ratio": unit == "×",
         **_amount(found[key], unit.replace("×", ""))}
        for key, unit, name, formula, meaning in _BALANCE
        if key in found
    ]  # fmt: skip


def _steps(ledger: Ledger) -> list[Context]:
    """Operations of every step, longest first."""
    out = []
    for name, phase in ledger.phases.items():
        for step, operations in phase.operations.items():
            rows = [
                {
                    "name": one["name"], "bound": one["bound"], "share": percent(one["share_fraction"]),
                    "width": round(100 * one["share_fraction"], 1), "time": _amount(one["time_s"], "s"),
                    **{name: words(one[key], unit) if one[key] else "" for name, key, unit in
                       (("flop", "flop", "FLOP"), ("bytes", "bytes", "B"), ("network", "network_bytes", "B"))},
                }
                for one in sorted(operations_document(operations), key=lambda one: -one["share_fraction"])
            ]  # fmt: skip
            out.append({"name": step_words(name, step), "rows": rows, "accelerator": phase.accelerator})
    return out


def _curves(ledger: Ledger) -> list[Context]:
    """The price of speed in words, a line per engine."""
    phase = ledger.phases.get("inference")
    if phase is None:
        return []
    return [
        {
            "name": label, "floor": words(curve.latency_floor_s, "s"),
            "ratio": f"{words(curve.fast_mode_costs_ratio, '')} times", "largest": curve.options[-1].batch,
            "plateau": words(curve.usd_per_mtok_output_plateau, "USD/Mtok"),
            "saves": percent(curve.slow_mode_saves_fraction), "choice": phase.choices.get(label, ""),
        }
        for label, curve in phase.curves.items()
    ]  # fmt: skip


_DETAILS = {
    "mfu_fraction": "MFU, attention counted", "hfu_fraction": "HFU, recompute counted", "step_s": "step time",
    "modelled_gpu_hours": "GPU-hours by the model", "flop_with_attention": "FLOP with attention", "days": "duration",
    "beta_flop": "beta in FLOP", "beta_gpu_time": "beta in GPU-time", "steps": "optimiser steps",
    "rollout_tpot_s": "time per rollout token", "tpot_s": "time per output token", "ttft_s": "time to first token",
    "usd_per_mtok_output": "output", "usd_per_mtok_input": "input", "prefilled_tokens": "prefilled",
    "cached_tokens": "read from the cache", "output_tokens": "generated", "goodput_fraction": "goodput",
    "unpaid_gpu_time_fraction": "GPU-time that nobody pays for",
}  # fmt: skip


def _phases(ledger: Ledger) -> list[Context]:
    """Choices and further figures of each phase."""
    out = []
    for name, phase in ledger.phases.items():
        details = []
        for key, (value, unit) in phase.details.items():
            stream, _, measure = key.rpartition(": ")
            label, shown = _DETAILS.get(measure, measure.replace("_", " ")), unit
            if measure.endswith("_fraction"):
                shown = "fraction"
                label = _DETAILS.get(measure, f"GPU-time: {measure.removesuffix('_fraction')}")
            stream = "" if stream == name else stream
            details.append({"name": f"{stream}: {label}" if stream else label,
                            **_amount(quantity(value, unit), shown)})  # fmt: skip
        choices = {label if label != name else "engine": text for label, text in phase.choices.items()}
        out.append({"name": PHASE_NAMES[name], "key": name, "choices": choices, "details": details,
                    "model": model_words(phase.model), "accelerator": phase.accelerator,
                    "peak": words(phase.peak_flop_per_s, "FLOP/s")})  # fmt: skip
    return out


def _efficiency(ledger: Ledger, document: Mapping[str, Any]) -> list[Context]:
    """Efficiency factors with their grounds; what the plan overrides says so."""
    rows = []
    for name, factor in document["efficiency"].items():
        low, high, kind, why, source = (factor[key] for key in ("low", "high", "kind", "why", "source"))
        given = ledger.plan.efficiency.values.get(name)
        if given is not None and not isinstance(given, str):
            low, high = (given.low, given.high) if isinstance(given, Range) else (given, given)
            kind, why, source = "plan", f"the plan's own: efficiency.{name}", ""
        unit = "s" if name.endswith("_s") else ""
        text = span(low, high, unit) or words(low, unit)
        inside = "_fraction" in name or name.endswith("interference")
        rows.append({
            "name": name.removesuffix("_s").replace("_", " "), "range": text, "kind": kind, "why": why,
            "source": source if source in load_sources() else "",
            "low": round(100 * low, 1) if inside else None, "width": round(100 * (high - low), 1) if inside else None,
        })  # fmt: skip
    return rows


def _term(term: Mapping[str, Any]) -> Context:
    key, _, rest = term["ground"].partition(",")
    known = key in load_sources()
    return {
        "name": term["name"], **_amount(term["value"], term["unit"]), "origin": term["origin"],
        "source": key if known else "", "ground": rest.strip() if known else term["ground"],
    }  # fmt: skip


def _working(ledger: Ledger, document: Mapping[str, Any]) -> list[Context]:
    """Every figure with formula and inputs, by phase."""
    figures = iter(document["working"])
    groups = [(PHASE_NAMES[name], len(phase.figures)) for name, phase in ledger.phases.items()]
    out = []
    for name, count in [*groups, ("Balance", len(ledger.figures))]:
        cards = [_card(next(figures)) for _ in range(count)]
        if cards:
            out.append({"name": name, "figures": cards})
    return out


def _card(figure: Mapping[str, Any]) -> Context:
    unit = "fraction" if figure["name"].endswith("_fraction") else figure["unit"]
    return {"name": figure["name"], "formula": figure["formula"], **_amount(figure["value"], unit),
            "terms": [_term(term) for term in figure["terms"]]}  # fmt: skip


def _source_keys(document: Mapping[str, Any]) -> list[str]:
    """Sources of the figures and of the efficiency factors."""
    factors = {one["source"] for one in document["efficiency"].values()}
    return sorted(key for key in {*document["sources"], *factors} if key in load_sources())


def _sources(document: Mapping[str, Any]) -> list[Context]:
    every = load_sources()
    return [
        {"key": key, "title": one.title, "publisher": one.publisher, "date": one.date, "url": one.url,
         "web": one.url.startswith(("https://", "http://")), "verified": one.verified, "license": one.license}
        for key in _source_keys(document)
        for one in [every[key]]
    ]  # fmt: skip
