"""A finished fit as terminal tables: constants with what the data say about each, errors by what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.tables import bar, console, new_table, note
from computeledger.physics.calibration.efficiency import factor_dimension
from computeledger.questions.wording import show
from computeledger.units import format_percent


def print_fit(document: Mapping[str, Any]) -> None:
    """Constants, then errors."""
    out = console()
    table = new_table(
        f"{document['n_constants']} constants on {document['n']:,} points",
        "constant", "engine", ">assumed", ">fitted", ">known to", "the data say", "what it is",
    )  # fmt: skip
    for one in document["constants"]:
        unit = "s" if factor_dimension(one["constant"]) == "s" else ""
        numbers = (show(one["prior"], unit), show(one["value"], unit), f"±{format_percent(one['sd'])}")
        table.add_row(one["constant"], one["engine"], *numbers, bar(one["identified_fraction"], 8), one["what"])
    out.print(table)
    note(out, "the data say: how much of the assumed range's variance the measurements removed")
    errors = new_table(
        "Errors, predicted over measured - 1: median / mean / 90th percentile", "left out", "kind", ">points",
        ">time per output token", ">time to first token",
    )  # fmt: skip
    for one in document["errors"]:
        errors.add_row(one["left_out"], one["kind"], f"{one['n']:,}", _three(one["tpot"]), _three(one["ttft"]))
    out.print(errors)


def _three(one: Mapping[str, float]) -> str:
    names = ("median_abs_error", "mean_abs_error", "p90_abs_error")
    return f"{' / '.join(format_percent(one[name]) for name in names)}  bias {one['bias']:.2f}"


def print_neighbours(document: Mapping[str, Any]) -> None:
    """The law of neighbours' errors, and how it covers what it has not seen."""
    out = console()
    titles = (">pairs", ">per doubling of the layout", ">of the batch", ">far apart", ">in 80 %", ">in 90 %")
    table = new_table("Error of a predicted ratio: squares of its scale in the logarithm", "left out", *titles)
    rows = [("nothing", document | document["coverage"])]
    rows += [(", ".join(one["architectures"]), one) for one in document["left_out"]]
    for left_out, one in rows:
        law = (f"{value:.2g}" for value in one["errors"].values())
        cover = (format_percent(one[f"coverage_{level}"]) for level in (80, 90))
        table.add_row(left_out, f"{one['n']:,}", *law, *cover)
    out.print(table)


def print_training_fit(document: Mapping[str, Any]) -> None:
    """Constants of training, and errors by what was left out."""
    out = console()
    table = new_table(
        f"{document['n_constants']} constants of training",
        "constant", ">fitted", ">known to", ">runs it moves", "trades most with",
    )  # fmt: skip
    for one in document["constants"]:
        unit = "s" if factor_dimension(one["name"]) == "s" else ""
        trade = f"{one['partner']} ({one['correlation']:+.2f})"
        known = f"±{format_percent(one['relative_error'])}"
        table.add_row(one["name"], show(one["value"], unit), known, f"{one['n_runs']:,}", trade)
    out.print(table)
    errors = new_table("Errors, predicted over measured - 1", "table", "slice", ">n", ">median", ">mean", ">p90")
    for name, slices in document["errors"].items():
        for value, one in slices.items():
            figures = (format_percent(one[f"{key}_abs_error"]) for key in ("median", "mean", "p90"))
            errors.add_row(name.replace("_", " "), value, str(one["n"]), *figures)
    out.print(errors)
    factors = (f"{name} {factor:.2f}" for name, factor in document["interval_factors"].items())
    note(out, f"90 % interval, x/÷: {', '.join(factors)}")


def print_rl_fit(document: Mapping[str, Any]) -> None:
    """Constants of RL, and errors of the step time by what was left out."""
    out = console()
    table = new_table(
        f"{document['n_constants']} constants of RL on {document['n']} runs",
        "constant", ">assumed", ">fitted", ">known to",
    )  # fmt: skip
    for one in document["constants"]:
        unit = "s" if one["constant"].endswith("_s") else ""
        table.add_row(
            one["constant"], show(one["prior"], unit), show(one["value"], unit), f"±{format_percent(one['sd'])}"
        )
    out.print(table)
    errors = new_table(
        "Errors of the step time: median / mean / 90th percentile", "left out", "runs", ">n", ">step time"
    )
    for one in document["errors"]:
        errors.add_row(one["left_out"], one["runs"], str(one["n"]), _three(one["step_time"]))
    out.print(errors)
