"""A pretraining answer as one HTML page that needs nothing from the network: timeline, operations, run, layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces import plot_parts, plots_training
from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.tables_training import how_words
from computeledger.questions.wording import interval_words, model_words, percent, point, words
from computeledger.sources import load_sources
from computeledger.units import format_count

Context = dict[str, Any]

_TILES = (
    ("step_s", "Step", "s"), ("tokens_per_s_per_gpu", "Tokens/s per GPU", ""), ("mfu_fraction", "MFU", "fraction"),
    ("goodput_fraction", "Goodput", "fraction"), ("effective_days", "Days, with failures", "days"),
    ("effective_gpu_hours", "GPU-hours", ""), ("effective_usd", "Cost", "USD"), ("energy_j", "Energy", "J"),
)  # fmt: skip


def pretrain_report(document: Mapping[str, Any]) -> str:
    """Render a pretraining answer.

    Parameters
    ----------
    document : mapping
        As :func:`computeledger.questions.answers.pretrain.answer_pretrain` gives it, with its working.

    Returns
    -------
    str
        A whole HTML page with its styles, scripts and data inside.
    """
    step = document["step"]
    figures = {
        "operations": plots_training.operations_figure(step),
        "goodput": plots_training.goodput_figure(document["goodput"]),
    }
    if "problem" not in step["timeline"]:
        figures["timeline"] = plots_training.timeline_figure(step["timeline"])
    templates = {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}
    context: Context = {
        "document": document,
        "title": f"{model_words(document['model'])} on {format_count(document['n_gpus'], 'GPU')}",
        "how": how_words(document),
        "tiles": [{"label": label, **_amount(document[key], unit)} for key, label, unit in _TILES],
        "figures": list(figures),
        "timeline_words": _timeline_words(step["timeline"]),
        "limit": percent(step["limit_fraction"]),
        "operations": [_operation(one) for one in step["operations"]],
        "phases": [(name, words(value, "s")) for name, value in step["phases_s"].items() if value > 0],
        "losses": _losses(document["goodput"]),
        "stops": [_stop(name, one) for name, one in document["stops"].items()],
        "layouts": [_layout(one) for one in document["best_layouts"]],
        "advice": [{**one, "gain": f"+{percent(one['gain_fraction'])}"} for one in document["advice"]],
        "memory": _memory(document["memory_bytes"]),
        "working": [_card(one) for one in document["working"]],
        "sources": _sources(document),
        "version": version(),
        "data": script_json({"figures": figures, "config": plot_parts.CONFIG, "templates": templates}),
        "plotly": plotly_script(),
        "style": assets("report.css"),
        "script": assets("draw.js"),
    }
    return page_template("pretrain.html").render(context)


def _amount(value: Any, unit: str) -> dict[str, str]:
    return {"text": words(point(value), unit), "band": interval_words(value, unit)}


def _timeline_words(drawn: Mapping[str, Any]) -> str:
    if "problem" in drawn:
        return str(drawn["problem"])
    left = f"; {drawn['left_out']} microbatches of the steady middle are left out" if drawn["left_out"] else ""
    idle = percent(drawn["bubble_fraction"])
    pieces = f", lighter for later pieces of the {drawn['n_pieces']} on each stage" if drawn["n_pieces"] > 1 else ""
    return (
        f"Each row is a stage of one pipeline, each box a pass of one microbatch{pieces}: medians of the model, not a "
        f"measured trace. What stays empty is the bubble, {idle} of the step{left}."
    )


def _operation(one: Mapping[str, Any]) -> Context:
    reached = one["limit_fraction"]
    return {
        "name": one["name"],
        "flop": words(one["flop"], "FLOP") if one["flop"] else "",
        "bytes": words(one["bytes"], "bytes") if one["bytes"] else "",
        "time": _amount(one["time_s"], "s"),
        "share": percent(one["share_fraction"]),
        "width": round(100 * one["share_fraction"], 1),
        "limit": percent(reached) if reached is not None else "",
        "exposed": words(one["exposed_s"], "s") if one["exposed_s"] > 0 else "",
        "hidden": words(one["hidden_s"], "s") if one["hidden_s"] > 0 else "",
        "phases": ", ".join(f"{name} {percent(share)}" for name, share in one["phases"].items()),
        "bound": one["bound"],
    }


def _losses(spent: Mapping[str, Any]) -> str:
    between = words(point(spent["mean_time_between_failures_s"]), "s")
    every = words(point(spent["checkpoint_interval_s"]), "s")
    return f"A failure every {between} on average, a checkpoint every {every} of training."


def _stop(name: str, one: Mapping[str, Any]) -> Context:
    from computeledger.units import DAY_S, YEAR_S

    label, factor, unit = {
        "interruptions_per_gpu_s": ("unexpected stops per GPU and year", YEAR_S, ""),
        "planned_stops_per_s": ("planned stops a day", DAY_S, ""),
        "pause_s": ("pause of a checkpoint", 1.0, "s"),
        "write_s": ("until a checkpoint is usable", 1.0, "s"),
        "restart_s": ("restart", 1.0, "s"),
        "straggler_fraction": ("time added by slow hosts", 1.0, "fraction"),
    }[name]
    low, high = words(one["low"] * factor, unit), words(one["high"] * factor, unit)
    return {"name": label, "range": low if low == high else f"{low} – {high}", "why": one["why"]}


def _layout(one: Mapping[str, Any]) -> Context:
    ratio = one["step_ratio"]
    spread = (
        "" if not isinstance(ratio, Mapping) else f"{100 * (ratio['p05'] - 1):.1f} – {100 * (ratio['p95'] - 1):.1f} %"
    )
    return {
        "layout": one["layout"],
        "how": how_words(one),
        "step": words(one["step_s"], "s"),
        "mfu": percent(one["mfu_fraction"]),
        "memory": words(one["memory_bytes"], "bytes"),
        "slower": f"{100 * (point(ratio) - 1):.1f} %",
        "band": spread,
        "level": one["level"],
    }


def _memory(held: Mapping[str, float]) -> list[Context]:
    rows = [(name, value) for name, value in held.items() if name != "usable"]
    return [
        {"name": name, "text": words(value, "bytes"), "width": round(min(100 * value / held["usable"], 100), 1)}
        for name, value in rows
    ]


def _card(figure: Mapping[str, Any]) -> Context:
    unit = "fraction" if figure["name"].endswith("_fraction") else figure["unit"]
    terms = [
        {
            "name": term["name"],
            "origin": term["origin"],
            "ground": term["ground"],
            **_amount(term["value"], term["unit"]),
        }
        for term in figure["terms"]
    ]
    return {"name": figure["name"], "formula": figure["formula"], **_amount(figure["value"], unit), "terms": terms}


def _sources(document: Mapping[str, Any]) -> list[Any]:
    keys = {one["source"] for one in document["efficiency"].values()} | {document["price"].get("source", "")}
    keys |= {"llama-3-herd", "megascale-paper", "bytecheckpoint-paper"}
    every = load_sources()
    return [every[key] for key in sorted(keys) if key in every]
