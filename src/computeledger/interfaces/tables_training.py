"""Pretraining documents as terminal tables: the answer, what binds, margins, scaling, launch arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import (
    DIM,
    bar,
    console,
    interval,
    new_table,
    note,
    print_grounds,
    print_memory,
    print_working,
)
from computeledger.interfaces.tables_step import print_step
from computeledger.physics.training_memory import TRAINING_HBM_FRACTION
from computeledger.questions.wording import MFU_WORDS, UTILIZATION_WORDS, point, show, width_words, words
from computeledger.units import format_count, format_percent, format_si

#: Rounding that is worth a word.
ROUNDED_FRACTION = 0.01

STEP_ROWS = [
    ("step time", "step_s", "s"),
    ("tokens/s per GPU", "tokens_per_s_per_gpu", ""),
    ("MFU (dense bf16 peak)", "mfu_fraction", "fraction"),
    ("HFU", "hfu_fraction", "fraction"),
    ("utilisation", "utilization_fraction", "fraction"),
]
RUN_ROWS = [
    ("GPU-hours", "gpu_hours", "effective_gpu_hours", "GPU-hours"),
    ("days", "days", "effective_days", "days"),
    ("cost", "usd", "effective_usd", "USD"),
]
_LOSSES = {
    "straggler": "slow hosts", "pause": "checkpoint pauses", "lost": "work done again", "restart": "restarts",
    "planned": "planned stops",
}  # fmt: skip


def print_pretrain(document: Mapping[str, Any], working: bool = False) -> None:
    """Print a pretraining answer."""
    out = console()
    _print_head(out, document)
    table = new_table("", "", "median and 90 % interval")
    for label, key, unit in STEP_ROWS:
        table.add_row(label, interval(document[key], unit))
    out.print(table)
    note(out, f"{MFU_WORDS}; HFU counts recomputation too; {UTILIZATION_WORDS}")
    _print_run(out, document)
    if "anchor" in document:
        _print_anchor(out, document["anchor"])
    if working:
        print_step(out, document)
    else:
        _print_parts(out, document["components"])
    print_memory(out, document["memory_bytes"], _fit_words(document))
    _print_remedies(out, document)
    _print_advice(out, document)
    _print_layouts(out, document)
    if "scaling" in document:
        _print_scaling(out, document["scaling"])
    if "growing_batch" in document:
        _print_growing(out, document["growing_batch"])
    if "launch" in document:
        _print_launch(out, document["launch"])
    print_grounds(out, document, "")
    if working:
        print_working(out, document)


def _fit_words(document: Mapping[str, Any]) -> str:
    """Whether it fits into what a job may fill; some published jobs fill more."""
    if document["fits"]:
        return "fits"
    held, hbm_bytes = document["memory_bytes"], document["memory_bytes"]["usable"] / TRAINING_HBM_FRACTION
    if held["total"] <= hbm_bytes:
        return f"TIGHT: more than a job should fill, within the GPU's {format_si(hbm_bytes, 'B')}"
    return "DOES NOT FIT"


def _print_head(out: Console, document: Mapping[str, Any]) -> None:
    gpus = format_count(document["n_gpus"], "GPU")
    where = f"{document['model']} on {gpus} of {document['system']}, {document['layout']}"
    out.print(Text(f"{where}, {how_words(document)}", style="bold"))
    sequence, batch = format_si(document["sequence_tokens"]), format_si(document["global_batch_tokens"])
    asked = document["asked_global_batch_tokens"]
    rounded = abs(asked / document["global_batch_tokens"] - 1) > ROUNDED_FRACTION
    remark = f" (rounded from {format_si(asked)}, so that it divides over ranks)" if rounded else ""
    widths = width_words([document["precision"]], document["multiplied_in"])
    note(out, f"{widths}, sequence {sequence}, global batch {batch} tokens{remark}")
    if "lora" in document:
        lora = document["lora"]
        trained = f"{format_si(lora['n_params_trained'])} parameters, {format_percent(lora['trainable_fraction'])}"
        note(out, f"adapters of rank {lora['rank']} ({lora['targets']}): {trained} of all, the rest frozen")


def how_words(document: Mapping[str, Any]) -> str:
    """How a layout runs: microbatch, recomputation, schedule."""
    parts = [f"microbatch {document['microbatch_sequences']:.0f}", f"recompute {document['recompute']}"]
    if document["virtual_stages"] > 1:
        parts.append(f"{document['virtual_stages']:.0f} virtual stages")
    if document["schedule"] != "1f1b":
        parts.append(str(document["schedule"]))
    parts += ["sharded weights"] if document["sharded_weights"] else []
    if "recipe" in document:
        parts += _stack_words(document)
    return ", ".join(parts)


def _stack_words(document: Mapping[str, Any]) -> list[str]:
    """What the software does that is out of the ordinary."""
    said = {
        "sharded gradients": document["sharded_gradients"],
        f"a scale per {document['recipe']}": document["recipe"] != "tensor",
        f"activations kept in {document['activation_precision']}": document["activation_precision"] != "bf16",
        f"moments in {document['moment_precision']}": document["moment_precision"] != "fp32",
        f"MTP modules {document['mtp_layers']}": document["mtp_layers"] > 0,
    }
    return [words for words, holds in said.items() if holds]


def _print_run(out: Console, document: Mapping[str, Any]) -> None:
    table = new_table(
        f"The run of {format_si(point(document['tokens']))} tokens", "", "without failures", "as it will be"
    )
    for label, plain, effective, unit in RUN_ROWS:
        table.add_row(label, interval(document[plain], unit), interval(document[effective], unit))
    table.add_row("energy at the meter", "", interval(document["energy_j"], "J"))
    out.print(table)
    spent = document["goodput"]
    losses = sorted(_LOSSES, key=lambda name: -point(spent["shares"][name]))
    lost = ", ".join(f"{_LOSSES[name]} {format_percent(point(spent['shares'][name]))}" for name in losses)
    line = Text("Goodput  ", style="bold").append(interval(document["goodput_fraction"], "fraction"))
    out.print(line.append(f"   lost to {lost}", style=DIM))
    between, every = (
        words(point(spent[key]), "s") for key in ("mean_time_between_failures_s", "checkpoint_interval_s")
    )
    note(out, f"a failure every {between}, a checkpoint every {every}")


def _print_anchor(out: Console, held: Mapping[str, Any]) -> None:
    measured, modelled = show(held["measured_step_s"], "s"), show(held["modelled_step_s"], "s")
    line = f"{held['layout']} measured {measured}, modelled {modelled} (ratio {held['measured_ratio']:.3g}); "
    kept = format_percent(held["shrinkage_fraction"])
    line += f"{kept} of that carries over, the interval is {format_percent(held['narrowed_fraction'])} as wide"
    out.print(Text("Anchor  ", style="bold").append(line, style="not bold"))


def _print_parts(out: Console, parts: Mapping[str, Any]) -> None:
    whole = sum(point(part) for part in parts.values())
    table = new_table("One step", "part", "time", "share")
    for name, part in parts.items():
        share = point(part) / whole
        table.add_row(name, interval(part, "s"), bar(share, 16).append(format_percent(share)))
    out.print(table)


def _print_remedies(out: Console, document: Mapping[str, Any]) -> None:
    if document["fits"] or "remedies" not in document:
        return
    held = document["memory_bytes"]
    largest = max((name for name in held if name not in ("total", "usable")), key=held.__getitem__)
    out.print(Text(f"What fits instead ({largest} take the most)", style="bold"))
    for one in document["remedies"]:
        layout = f": {one['layout']}, step {show(one['step_s'], 's')}" if "layout" in one else ""
        out.print(Text(f"  {one['change']}{layout}"))


def _print_advice(out: Console, document: Mapping[str, Any]) -> None:
    out.print(Text("What binds  ", style="bold").append(document["binds_words"], style="not bold"))
    advice = document["advice"][:5]
    if not advice:
        note(out, "nothing that was tried gains more than 1 %")
        return
    table = new_table("What would change it (medians, same model)", "change", ">tokens/s", "remark")
    for one in advice:
        table.add_row(one["change"], f"+{format_percent(one['gain_fraction'])}", Text(one["remark"], style=DIM))
    out.print(table)


def _print_layouts(out: Console, document: Mapping[str, Any]) -> None:
    layouts = document["best_layouts"]
    if not layouts:
        return
    tried = f"{document['n_configurations']:,} configurations, {document['n_fitting']:,} fit"
    table = new_table(
        f"Best legal layouts of {tried} (medians; slower than the first, 90 % interval)",
        "layout", ">mb", "recompute", "schedule", ">step", ">MFU", ">memory", "slower", "",
    )  # fmt: skip
    for one in layouts:
        figures = (show(one["step_s"], "s"), format_percent(one["mfu_fraction"]), format_si(one["memory_bytes"], "B"))
        named = one["recompute"].split(",")
        again = one["recompute"] if len(named) == 1 else f"{len(named)} named"
        how = (str(one["microbatch_sequences"]), again, _schedule_words(one))
        table.add_row(one["layout"], *how, *figures, _slower(one), Text("level" if one["level"] else "", style=DIM))
    out.print(table)
    told = f"{document['n_level']:,} of {document['n_fitting']:,} cannot be told from the first"
    note(
        out,
        f"level: may as well be the faster one, as far as the model knows ({told}); choose by memory and simplicity",
    )


def _schedule_words(one: Mapping[str, Any]) -> str:
    pieces = f" x{one['virtual_stages']:.0f}" if one["virtual_stages"] > 1 else ""
    return f"{one['schedule']}{pieces}{', sharded' if one['sharded_weights'] else ''}"


def _slower(one: Mapping[str, Any]) -> Text:
    ratio = one["step_ratio"]
    if not isinstance(ratio, Mapping):
        return Text("–" if ratio == 1 else f"{100 * (ratio - 1):.1f} %", style=DIM)
    ends = f"{100 * (ratio['p05'] - 1):.1f} – {100 * (ratio['p95'] - 1):.1f} %"
    return Text(f"{100 * (ratio['p50'] - 1):.1f} %").append(f"  {ends}", style=DIM)


def _print_scaling(out: Console, scaling: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    titles = {
        "strong": "Strong scaling: the same batch (medians, with failures)",
        "weak": "Weak scaling: the batch grows with the GPUs (medians, with failures)",
    }
    for name, rows in scaling.items():
        table = new_table(
            titles[name], ">GPUs", ">batch", "layout", ">MFU", ">of best", ">goodput", ">days", ">GPU-hours", ""
        )
        most = max((one.get("tokens_per_s_per_gpu", 0.0) for one in rows), default=0.0)
        for one in rows:
            batch = format_si(one["global_batch_tokens"])
            if "problem" in one:
                table.add_row(str(one["n_gpus"]), batch, Text(_short(one["problem"]), style=DIM))
                continue
            share = format_percent(one["tokens_per_s_per_gpu"] / most)
            figures = [format_percent(one[key]) for key in ("mfu_fraction", "goodput_fraction")]
            days, hours = (format_si(one[f"effective_{key}"]) for key in ("days", "gpu_hours"))
            beyond = "beyond the critical batch" if one["beyond_critical_batch"] else ""
            table.add_row(
                str(one["n_gpus"]), batch, one["layout"], figures[0], share, figures[1], days, hours,
                Text(beyond, style=DIM),
            )  # fmt: skip
        out.print(table)


def _short(problem: str) -> str:
    return problem.split(": ", 1)[-1]


def _print_growing(out: Console, grown: Mapping[str, Any]) -> None:
    here, larger = grown["n_scale_up"], grown["n_scale_up_larger"]
    table = new_table(
        f"A batch that grows with the critical batch ({', '.join(grown['sources'])}), scale-up domains of {here} and "
        f"{larger} GPUs",
        ">from token", ">batch", f"layout ({here})", ">MFU", ">days", f"layout ({larger})", ">MFU", ">days",
    )  # fmt: skip
    for one in grown["phases"]:
        cells: list[str | Text] = []
        for place in ("here", "larger"):
            row = one[place]
            if "problem" in row:
                cells += [Text(_short(row["problem"]), style=DIM), "", ""]
            else:
                cells += [row["layout"], format_percent(row["mfu_fraction"]), format_si(row["effective_days"])]
        table.add_row(format_si(one["start_tokens"]), format_si(one["batch_tokens"]), *cells)
    out.print(table)
    days = grown["effective_days"]
    if None not in days.values():
        saved = format_percent(1 - days["larger"] / days["here"])
        words = (
            f"{format_si(days['here'])} days in all, {format_si(days['larger'])} on the larger domain ({saved} less)"
        )
        note(out, f"{words}; the critical batch is measured to {format_si(grown['measured_batch_tokens'])} tokens")


def _print_launch(out: Console, launch: Mapping[str, Any]) -> None:
    out.print(Text(f"Launch with {launch['framework']}", style="bold"))
    out.print(Text(launch["text"]), soft_wrap=True)
