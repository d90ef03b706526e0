"""Simulations as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import bar, console, new_table, note
from computeledger.questions.wording import show
from computeledger.units import format_count, format_percent, format_si, format_usd

TIMES = {"ttft_s": "time to first token", "tpot_s": "time per output token", "itl_s": "gap between tokens",
         "end_to_end_s": "end to end"}  # fmt: skip
SATURATED = {
    "serve": "SATURATED: the load is more than this fleet carries; its queue and every time grow without end",
    "rl": "SATURATED: the verifiers work all the time; more of them would shorten the steps",
}


def print_simulation(document: Mapping[str, Any]) -> None:
    """Print a simulation."""
    out = console()
    out.print(Text(headline(document), style="bold"))
    note(out, subline(document))
    if document["saturated"]:
        out.print(Text(SATURATED[document["kind"]], style="bold red"))
    _print_percentiles(out, document)
    _print_phases(out, document)
    (_print_serving if document["kind"] == "serve" else _print_rl)(out, document)


def headline(document: Mapping[str, Any]) -> str:
    """What was simulated, and the figure that matters most."""
    if document["kind"] == "serve":
        rate = document["throughput"]["requests_per_s"]
        return f"{document['model']} on {format_count(document['n_gpus'], 'GPU')}: {rate:.3g} requests/s"
    steady, mean = show(document["steady_step_s"], "s"), show(document["step_s"], "s")
    rest = "" if steady == mean else f", {steady} once the pipeline is full"
    return f"{document['model']}: {mean} per RL step over {format_count(document['n_steps'], 'step')}{rest}"


def subline(document: Mapping[str, Any]) -> str:
    """What it ran on."""
    if document["kind"] == "serve":
        load = document["load"]
        layouts = " + ".join(f"{n} x {one}" for n, one in zip(document["replicas"], document["layouts"], strict=True))
        rate = "all at once" if load["requests_per_s"] is None else f"{load['requests_per_s']:.3g} requests/s"
        lengths = f"{format_si(load['mean_input_tokens'])} in, {format_si(load['mean_output_tokens'])} out"
        what = f"{load['requests']} requests at {rate}, {lengths}"
        if document["steady"] is not None:
            what = f"{rate}, {lengths}; steady state, {load['requests']} requests measured"
        return f"{document['system']}, {layouts}, {document['routing']}; {what}"
    generation, training = document["generation"], document["training"]
    where = (
        f"in turns on {format_count(training['n_gpus'], 'GPU')}"
        if document["colocated"]
        else f"generation on {format_count(generation['n_gpus'], 'GPU')}, training on {training['n_gpus']:,g}"
    )
    rollouts = f"{document['rollouts_per_step']} rollouts per step, largest lag {document['max_lag']}"
    return f"{where}; {generation['replicas']} x {generation['layout']}; {rollouts}; {document['n_steps']} steps"


def _print_percentiles(out: Console, document: Mapping[str, Any]) -> None:
    table = new_table("", "", ">p50", ">p90", ">p99")
    for name, words in TIMES.items():
        points = document["percentiles"][name]
        table.add_row(words, *(show(points[key], "s") for key in ("p50", "p90", "p99")))
    out.print(table)


def _print_phases(out: Console, document: Mapping[str, Any]) -> None:
    table = new_table("GPU-time", "phase", ">GPU-hours", "share")
    for name, part in document["phases"].items():
        if part["gpu_hours"]:
            share = bar(part["fraction"], 16).append(format_percent(part["fraction"]))
            table.add_row(name, format_si(part["gpu_hours"]), share)
    out.print(table)


def _print_serving(out: Console, document: Mapping[str, Any]) -> None:
    rows = new_table("", "", "")
    goal = [f"{words} {show(document['slo'][key], 's')}" for key, words in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"))
            if document["slo"][key] is not None]  # fmt: skip
    good = f"{document['goodput_requests_per_s']:.3g} requests/s, {format_percent(document['good_fraction'])} of them"
    if goal:
        rows.add_row(f"goodput within {' and '.join(goal)}", good)
    capacity, steady = document["capacity"], document["steady"]
    if capacity["p50"] is not None and capacity["load_fraction"] is not None:
        share = format_percent(capacity["load_fraction"])
        rows.add_row("largest stable load", f"{capacity['p50']:.3g} requests/s; this one is {share} of it")
    if steady is not None and not document["saturated"]:
        time = steady["end_to_end_s"]
        spread = f"{show(time['p05'], 's')} to {show(time['p95'], 's')} (90 % interval of the simulation)"
        rows.add_row("mean end to end", spread if steady["converged"] else f"NOT CONVERGED: {spread}")
    rows.add_row("output tokens/s per GPU", format_si(document["throughput"]["output_tokens_per_s_per_gpu"]))
    rows.add_row("FLOP over peak", format_percent(document["utilization_fraction"]))
    cost = format_usd(document["usd_per_mtok_output"])
    rows.add_row("cost", f"{format_usd(document['usd'])}, {cost} per million output tokens, input included")
    rows.add_row("prompt tokens from the cache", format_percent(document["cached_fraction"]))
    rows.add_row("put back for want of memory", str(document["preemptions"]))
    if document["failures"]:
        rows.add_row("failures of replicas", str(document["failures"]))
    out.print(rows)
    _print_loads(out, document)


def _print_loads(out: Console, document: Mapping[str, Any]) -> None:
    if document["most_load"] is not None:
        best = document["most_load"]
        share = format_percent(best["good_fraction"])
        goal = any(document["slo"][key] is not None for key in ("ttft_s", "tpot_s"))
        words = "Largest stable load that meets it" if goal else "Largest stable load, to one percent"
        found = f"{best['requests_per_s']:.3g} requests/s, {best['ratio']:.3g} times this one"
        out.print(Text(f"{words}: {found}{f'; {share} are good' if goal else ''}", style="bold"))
    if document["sweep"]:
        table = new_table("Loads", ">requests/s", ">done/s", ">goodput", ">good", ">TTFT p90", ">TPOT p90", "")
        for one in document["sweep"]:
            table.add_row(
                *(f"{one[f'{name}requests_per_s']:.3g}" for name in ("", "throughput_", "goodput_")),
                format_percent(one["good_fraction"]), show(one["ttft_p90_s"], "s"), show(one["tpot_p90_s"], "s"),
                "saturated" if one["saturated"] else "",
            )  # fmt: skip
        out.print(table)


def _print_rl(out: Console, document: Mapping[str, Any]) -> None:
    rows = new_table("", "", "")
    stale, tokens = document["staleness_steps"], document["tokens"]
    rows.add_row("step once the pipeline is full", show(document["steady_step_s"], "s"))
    rows.add_row("staleness", f"{stale['mean']:.3g} steps on average, {stale['max']} at most")
    kinds = ", ".join(f"{name} {format_si(value)}" for name, value in tokens.items() if value)
    rows.add_row("tokens", kinds)
    verifiers = document["verifiers"]
    rows.add_row("verifiers", f"{verifiers['n']}, busy {format_percent(verifiers['busy_fraction'])}")
    weights = document["weights"]
    rate = show(weights["bytes_per_s_to_arrive_within_a_step"], "B/s")
    rows.add_row("weights", f"{show(weights['bytes'], 'B')}; {rate} for them to arrive elsewhere within a step")
    rows.add_row("FLOP over peak", format_percent(document["utilization_fraction"]))
    rows.add_row("cost of a step, on average", format_usd(document["usd_per_step"]))
    if document["failures"]:
        rows.add_row("failures of replicas", str(document["failures"]))
    out.print(rows)
    if document["lags"]:
        table = new_table("The same seed and GPUs at other lags", ">largest lag", ">step", ">mean staleness", "waiting")
        for one in document["lags"]:
            idle = sum(part["fraction"] for name, part in one["phases"].items() if "waiting" in name)
            table.add_row(
                str(one["max_lag"]), show(one["step_s"], "s"), f"{one['mean_staleness']:.3g}",
                bar(idle, 10).append(format_percent(idle)),
            )  # fmt: skip
        out.print(table)
    if document["assumptions"]["silent"]:
        note(out, f"assumed because the plan is silent: {'; '.join(document['assumptions']['silent'])}")
