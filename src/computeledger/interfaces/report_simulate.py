"""A simulation as one HTML page that needs nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces import plot_parts
from computeledger.interfaces import plots_simulate as plots
from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.tables_simulate import SATURATED, TIMES, headline, subline
from computeledger.questions.wording import words
from computeledger.units import format_percent

Plot = tuple[str, str, str, dict[str, Any]]


def simulation_report(document: Mapping[str, Any]) -> str:
    """Render a simulation as a whole page with its styles, scripts and data inside."""
    figures = _figures(document)
    data = {"figures": {name: spec for name, _, _, spec in figures}, "config": plot_parts.CONFIG,
            "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}}  # fmt: skip
    return page_template("simulate.html").render(
        title=headline(document),
        lead=subline(document),
        saturated=SATURATED[document["kind"]] if document["saturated"] else "",
        tiles=_tiles(document),
        figures=[(name, heading, text) for name, heading, text, _ in figures],
        times=[
            (label, [words(document["percentiles"][name][key], "s") for key in ("p50", "p90", "p99")])
            for name, label in TIMES.items()
        ],
        phases=[
            (name, words(part["gpu_hours"], "gpu_hours"), format_percent(part["fraction"]), color)
            for (name, part), color in zip(document["phases"].items(), plots.PHASE_TINTS, strict=False)
            if part["gpu_hours"]
        ],
        facts=_facts(document),
        seed=document["seed"],
        version=version(),
        data=script_json(data),
        plotly=plotly_script(),
        style=assets("report.css"),
        script=assets("draw.js"),
    )


def _figures(document: Mapping[str, Any]) -> list[Plot]:
    """Plots with their heading and what they show."""
    phases = (
        "phases",
        "Where GPU-time goes",
        "Adds up to GPUs times wall time; the table below names the colours.",
        plots.phases_figure(document),
    )
    if document["kind"] == "serve":
        found = [
            ("timeline", "In flight", "Requests that wait for a place, are read and are written.",
             plots.timeline_figure(document)),
            ("latency", "Latency", "Share of requests that take at most so long.", plots.latency_figure(document)),
        ]  # fmt: skip
        if document["sweep"]:
            text = "Good requests per second over those that arrive; a cross is a load at which the fleet falls behind."
            found.append(("load", "Goodput against load", text, plots.load_figure(document)))
        return [*found, phases]
    return [
        phases,
        ("gantt", "Steps", "Each batch from the release of its rollouts to the end of its training.",
         plots.gantt_figure(document)),
        ("timeline", "Rollouts", "Rollouts that wait for a place, are written, wait for a verdict, wait for training.",
         plots.timeline_figure(document)),
        ("staleness", "Staleness", "Versions of the weights between a rollout's beginning and its training.",
         plots.staleness_figure(document)),
    ]  # fmt: skip


def _tiles(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures at the top: label, value, remark."""
    if document["kind"] == "serve":
        times, load = document["percentiles"], document["load"]
        first = f"p99 {words(times['ttft_s']['p99'], 's')}"
        more = f"p99 {words(times['tpot_s']['p99'], 's')}"
        best = document["most_load"]
        tile = (
            (
                "Most load within the objective",
                f"{best['requests_per_s']:.3g} /s",
                f"{best['ratio']:.3g} times this one",
            )
            if best
            else ("Goodput", f"{document['goodput_requests_per_s']:.3g} /s", format_percent(document["good_fraction"]))
        )
        return [
            ("Time to first token, p50", words(times["ttft_s"]["p50"], "s"), first),
            ("Time per output token, p50", words(times["tpot_s"]["p50"], "s"), more),
            tile,
            ("Cost per million output tokens", words(document["usd_per_mtok_output"], "USD"),
             f"{load['requests']} requests, {words(document['usd'], 'USD')}"),
        ]  # fmt: skip
    stale, busy = document["staleness_steps"], document["busy_fraction"]
    return [
        ("Step", words(document["step_s"], "s"), f"{words(document['steady_step_s'], 's')} once the pipeline is full"),
        ("GPUs at work", format_percent(busy), f"FLOP over peak {format_percent(document['utilization_fraction'])}"),
        ("Staleness", f"{stale['mean']:.3g} steps", f"{stale['max']} at most"),
        ("Verifiers busy", format_percent(document["verifiers"]["busy_fraction"]),
         f"{document['verifiers']['n']} of them"),
    ]  # fmt: skip


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the simulation took for granted."""
    out = []
    for name, value in document["assumptions"].items():
        number = f"{value:.3g}" if isinstance(value, float) else str(value)
        text = ", ".join(value) if isinstance(value, list) else number
        if text:
            out.append((name.replace("_", " "), text))
    return out
