"""The table of what runs cost beside their predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import format_percent, format_si
from rntp.interfaces.tables.ledger import MISSING


def print_costs(document: dict[str, Any]) -> None:
    """Print a run by phase, or several in one table: counted and measured, predicted, and how the two compare."""
    console = Page()
    machine, runs = document["machine"], document["runs"]
    if len(runs) == 1:
        _print_run(console, runs[0], timed=machine is not None)
    else:
        _print_runs(console, runs)
    said = "times: not predicted; --machine FOLDER of computeledger calibrate --write does"
    if machine is not None:
        said = f"times are predicted for {machine['name']}, best {format_si(machine['peak_flop_per_s'], 'FLOP/s')}"
    console.print(said)
    console.print("FLOP are counted with attention, predicted without; ratio: predicted over those")
    if len(runs) == 1:
        console.print("pad: FLOP that were multiplied over those counted; times have it, beta does not")


def _print_runs(console: Page, runs: Sequence[Mapping[str, Any]]) -> None:
    table = FittingTable(title="beta, and shares of device-time", box=box.SIMPLE_HEAD)
    for name in (
        "run",
        "FLOP",
        "pre-\ndicted",
        "time",
        "error",
        "pre-\ndicted",
        "gene-\nration",
        "scores",
        "update",
        "rest",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for number, one in enumerate(runs, 1):
        console.print(f"{number}: {one['run']}", soft_wrap=True)
        reference, share = one["reference"] or {}, {name: part["fraction"] for name, part in one["phases"].items()}
        scores = share.pop("thought scoring", 0.0) + share.pop("baseline", 0.0)
        generation, update = share.pop("generation", 0.0), share.pop("update", 0.0)
        error = reference.get("standard_error_fraction")
        table.add_row(
            f"{number}", *_numbers(one["beta_flop"])[:2], _numbers(one["beta_gpu_time"])[0],
            MISSING if error is None else format_percent(error), _numbers(one["beta_gpu_time"])[1],
            *(format_percent(part) for part in (generation, scores, update, 1 - generation - scores - update)),
        )  # fmt: skip
    console.print(table)
    for number, one in enumerate(runs, 1):
        if one["not_covered"]:
            console.print(f"{number}: {one['not_covered']}")
    console.print("time: beta in GPU-time, 6 in next-token training; error: standard error of that")


def _print_run(console: Page, one: Mapping[str, Any], *, timed: bool) -> None:
    shapes = one["shapes"]
    title = (
        f"{one['run']}: {one['steps']} steps of {shapes['prompts_per_step']} x {shapes['group_size']} thoughts of "
        f"{shapes['thought_tokens']:.1f} tokens\nprompt {shapes['prompt_tokens']:.1f}, gold "
        f"{shapes['gold_tokens']:.1f}, {format_si(one['n_params_active'])} parameters, scorer {one['scorer']}"
    )
    table = FittingTable(title=title, box=box.SIMPLE_HEAD)
    times = ("pre-\ndicted", "ratio") if timed else ()
    for name in ("phase", "share", "beta,\nFLOP", "pre-\ndicted", "ratio", "pad", "time\na step", *times):
        table.add_column(name, justify="left" if name == "phase" else "right", no_wrap=True)
    for name, part in sorted(one["phases"].items(), key=lambda pair: -(pair[1]["s_per_step"]["measured"] or 0.0)):
        step, padded = part["s_per_step"], part["executed_over_counted_flop"]
        said = (_si(step["predicted"]), _ratio(step)) if timed else ()
        table.add_row(
            name, format_percent(part["fraction"]), *_numbers(part["beta_flop"]),
            MISSING if padded is None else f"{padded:.2f}", _si(step["measured"]), *said,
        )  # fmt: skip
    console.print(table)
    for name, key in (("beta in FLOP", "beta_flop"), ("beta in GPU-time", "beta_gpu_time")):
        measured, predicted, ratio = _numbers(one[key])
        console.print(f"{name} {measured}, predicted {predicted} ({ratio}); next-token training: 6")
    if one["not_covered"]:
        console.print(one["not_covered"])
    reference = one["reference"]
    if reference is not None:
        error, count = reference["standard_error_fraction"], reference["measurements"]
        per = reference["s_per_token"]
        console.print(f"a token of next-token training: {_si(per['measured'])}, predicted {_si(per['predicted'])}")
        if error is not None:
            console.print(f"{count} steps of it were measured; standard error {format_percent(error)}")


def _si(value: float | None) -> str:
    return MISSING if value is None else format_si(value, "s")


def _ratio(pair: Mapping[str, float | None]) -> str:
    found = pair["predicted_over_measured"]
    return MISSING if found is None else f"{found:.2f}"


def _numbers(pair: Mapping[str, float | None]) -> tuple[str, str, str]:
    shown = (MISSING if value is None else f"{value:.3g}" for value in (pair["measured"], pair["predicted"]))
    return (*shown, _ratio(pair))  # type: ignore[return-value]
