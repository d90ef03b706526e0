"""RL answers as terminal tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import bar, console, interval, new_table, note, print_working
from computeledger.questions.wording import interval_words, point, show
from computeledger.units import KILO, format_count, format_percent, format_si

RL_ROWS = [
    ("step", "step_s", "s"),
    ("beta in FLOP", "beta_flop", ""),
    ("beta in GPU-time", "beta_gpu_time", ""),
    ("utilisation (dense bf16)", "utilization_fraction", "fraction"),
    ("sampled tokens/s per GPU", "tokens_per_s_per_gpu", ""),
    ("GPU-hours", "gpu_hours", "GPU-hours"),
    ("days", "days", "days"),
    ("FLOP", "flop", "FLOP"),
    ("cost", "usd", "USD"),
    ("energy", "energy_j", "J"),
]


def print_rl(document: Mapping[str, Any], working: bool = False) -> None:
    """Print whatever ``rl`` was asked."""
    if "published" in document:
        _print_published(console(), document)
    elif "reward" in document or "coverage" in document:
        _print_returns(console(), document)
    else:
        _print_run(console(), document, working)


def _print_run(out: Console, document: Mapping[str, Any], working: bool) -> None:
    split, made = document["split"], document["generation"]
    turns = (
        "in turns"
        if split["colocated"]
        else f"{split['generation_gpus']:.0f} generate, {split['training_gpus']:.0f} train"
    )
    out.print(
        Text(
            f"RL of {document['model']} on {format_count(document['n_gpus'], 'GPU')} of {document['system']}, {turns}",
            "bold",
        )
    )
    lag = f"lag {split['max_lag']}" if split["max_lag"] else "synchronous"
    live = f"{format_si(point(made['rollouts_decoding']))} rollouts decode on each of {made['replicas']:.0f} replicas"
    note(
        out,
        f"generation {split['layout']}, trainer {split['training_layout']} (recompute {split['recompute']}), {lag}",
    )
    note(out, live)
    if not document["fits"]:
        out.print(Text("DOES NOT FIT: weights and one longest rollout need more memory", style="red"))
    table = new_table("", f"{format_si(point(document['steps']))} steps", "median and 90 % interval")
    for label, key, unit in RL_ROWS:
        table.add_row(label, interval(document[key], unit))
    out.print(table)
    table = new_table("Where GPU-time goes", "phase", "GPU-hours", "share", ">beta", ">utilisation")
    busy, parts = document["phase_utilization_fraction"], document["beta"]["gpu_time_by_phase"]
    for name, part in document["phases"].items():
        share = point(part["fraction"])
        used = format_percent(point(busy[name])) if name in busy else ""
        shown = bar(share, 16).append(format_percent(share))
        table.add_row(name, interval(part["gpu_hours"], "GPU-hours"), shown, show(point(parts[name]), ""), used)
    out.print(table)
    _print_notes(out, document)
    for name, show_one in _PARTS.items():
        if name in document:
            show_one(out, document[name])
    if working:
        print_working(out, document)


def _print_notes(out: Console, document: Mapping[str, Any]) -> None:
    saved = document["next_gpu"]["step_saved_fraction"]
    best = document["next_gpu"]["best"]
    note(out, f"binds: {document['binding_phase']} ({document['bound']}); the next GPU saves most in {best} "
         f"({format_percent(saved[best])} of a step each)")  # fmt: skip
    if point(document["verifier_cores_needed"]):
        note(out, f"verifier cores that keep pace: {format_si(point(document['verifier_cores_needed']))}")
    note(out, f"beta: {document['beta']['convention']}; in GPU-time a pretraining token at --mfu takes 6")
    _print_demand(out, document["demand"])
    if "equal_gpu_time" in document:
        one = document["equal_gpu_time"]
        names = ("pretraining_flop", "rl_flop", "rl_flop_by_price_ratio")
        whole, here, priced = (format_si(point(one[name]), "FLOP") for name in names)
        note(out, f"in the GPU-time of a pretraining run of {whole} RL performs {here}")
        note(out, f"the {one['price_ratio']:.0f}-fold price of output over input tokens would suggest {priced}")
    if "interval" in document:
        note(out, f"interval of a {document['interval']['class']}")


def _print_demand(out: Console, demand: Mapping[str, Any]) -> None:
    """What a budget of FLOP asks for: tasks, or places of a text."""
    tokens, steps, tasks = (format_si(point(demand[name])) for name in ("tokens", "steps", "tasks"))
    budget = format_si(point(demand["flop"]), "FLOP")
    if "places" not in demand:
        note(out, f"{budget} of RL like this: {tokens} tokens, {steps} steps, {tasks} verifiable tasks")
        return
    places, text = (format_si(point(demand[name])) for name in ("places", "text_tokens"))
    share = interval(demand["passes_over_the_stock"], "fraction")
    note(out, f"{budget} of RL like this: {tokens} tokens sampled in {steps} steps, at {places} places of a text")
    note(out, f"that is {text} tokens of text, {share} of all that is public")
    units = (("gpu_hours", "GPU-hours"), ("days", "days"), ("usd", "USD"))
    hours, days, cost = (_in_words(demand[key], unit) for key, unit in units)
    note(out, f"and {hours}, {days} on these GPUs, {cost}")


def _in_words(value: Any, unit: str) -> str:
    """Median with its unit, and the 90 % interval in brackets."""
    ends = interval_words(value, unit)
    middle = f"{show(point(value), unit)}{' GPU-hours' if unit == 'GPU-hours' else ''}"
    return f"{middle} ({ends})" if ends else middle


def _print_options(out: Console, options: Sequence[Mapping[str, Any]]) -> None:
    columns = (">step", ">GPU-s per 1K kept tokens", ">cores", "paced by")
    table = new_table("Best splits (medians)", ">generate", ">train", "layout", *columns)
    for one in options:
        trains = "in turns" if one["colocated"] else f"{one['training_gpus']:.0f}"
        cost = show(KILO * one["gpu_s_per_kept_token"], "s")
        table.add_row(f"{one['generation_gpus']:.0f}", trains, one["layout"], show(one["step_s"], "s"), cost,
                      format_si(one["verifier_cores"]), one["binding_phase"])  # fmt: skip
    out.print(table)


def _print_levers(out: Console, levers: Sequence[Mapping[str, Any]]) -> None:
    table = new_table("What would bring GPU-time down", "change", ">GPU-time per token", ">step", "what")
    for one in levers:
        table.add_row(one["name"], f"x {one['gpu_time_per_token_ratio']:.2f}", show(one["step_s"], "s"), one["why"])
    out.print(table)


def _print_groups(out: Console, groups: Mapping[str, Mapping[str, float]]) -> None:
    parts = [f"{size}: {show(one['gpu_s_per_problem'], 's')} of GPU-time" for size, one in groups.items()]
    note(out, f"samples per problem, GPU-time of a problem: {', '.join(parts)}")


def _print_world(out: Console, domains: Sequence[Mapping[str, Any]]) -> None:
    table = new_table("Does it fit the scale-up world", "domain", ">HBM", ">weights", ">rollouts", "layout",
                      ">tokens/s per GPU", ">utilisation", "efficient", ">longest trace", "largest model")  # fmt: skip
    for one in domains:
        figures = (format_si(one["tokens_per_s_per_gpu"]), format_percent(one["utilization_fraction"]))
        table.add_row(
            one["system"], format_si(one["hbm_bytes"], "B"), format_si(one["weights_bytes"], "B"),
            format_si(one["rollouts"]) if one["fits"] else "does not fit", one["layout"], *figures,
            "yes" if one["efficient"] else "no", format_si(one["longest_trace_tokens"]),
            one["largest_model"].rpartition("/")[2],
        )  # fmt: skip
    out.print(table)
    note(
        out,
        "efficient: weights and launches are at most half of a decode step; traces stay inside the context",
    )


_PARTS: dict[str, Callable[[Console, Any], None]] = {
    "split_options": _print_options,
    "levers": _print_levers,
    "samples_per_problem": _print_groups,
    "scale_up": _print_world,
}


def _print_published(out: Console, document: Mapping[str, Any]) -> None:
    columns = (">tokens", ">step", ">beta FLOP", ">beta GPU-time", ">modelled", "parts of the modelled beta")
    table = new_table("Beta of published runs", "model", "hardware", "mode", *columns)
    for one in document["published"]:
        parts = sorted(one["by_phase"].items(), key=lambda pair: -pair[1])[:3]
        words = ", ".join(f"{name} {format_si(value)}" for name, value in parts)
        where = f"{one['hardware']} x {one['n_gpus']:.0f}"
        table.add_row(
            one["model"], where, f"{one['mode']}, {one['precision']}", f"{one['mean_tokens']:.0f}",
            show(one["step_s"], "s"),
            f"{one['beta_flop']:.1f}", f"{one['beta_gpu_time']:.0f}", f"{one['modelled_beta_gpu_time']:.0f}",
            words + ("" if one["split_stated"] else " (split assumed)"),
        )  # fmt: skip
    out.print(table)
    note(out, document["convention"])


def _print_returns(out: Console, document: Mapping[str, Any]) -> None:
    if "reward" in document:
        table = new_table("What RL buys", "law", "parameter", ">value", ">90 % interval")
        for law, one in document["reward"].items():
            for name, value in one["values"].items():
                ends = one["intervals"][name]
                table.add_row(law, name, format_si(value), f"{format_si(ends['p05'])} to {format_si(ends['p95'])}")
        out.print(table)
        for law, one in document.get("forecast", {}).items():
            if law != "compute":
                at = format_si(document["forecast"]["compute"])
                note(out, f"{law} at {at}: {one['p50']:.3f} ({one['p05']:.3f} to {one['p95']:.3f})")
        return
    fit = document["coverage"]
    table = new_table(f"coverage = exp({fit['a']:.3g} k^{fit['b']:.3g})", ">k", ">coverage")
    for one in document["pass_at_k"]:
        table.add_row(f"{one['k']:g}", format_percent(one["coverage"]))
    out.print(table)
    if "forecast" in document:
        note(out, f"at {document['forecast']['k']:g} samples: {format_percent(document['forecast']['coverage'])}")
