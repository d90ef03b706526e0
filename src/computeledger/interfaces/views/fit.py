"""The views of fits: constants with how well the data fix them, and errors by what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.view import Cell, Table, Tile, View, share_cell
from computeledger.physics.calibration.efficiency import factor_dimension
from computeledger.questions.answers.fit import FitAnswer
from computeledger.questions.wording import headline_words, percent, show
from computeledger.units import format_count

Document = Mapping[str, Any]
_SIZES = ("median_abs_error", "mean_abs_error", "p90_abs_error")
_NEIGHBOURS = "Error of a predicted ratio: squares of its scale in the logarithm"


def view(answer: FitAnswer, working: bool) -> View:
    """Of serving, training, RL or neighbours; a fit has no working of its own."""
    document = answer.to_dict(working=working)
    tables, notes = _VIEWS[document["fit"]](document)
    written = answer.question.write
    n_constants = document["n_constants"] if "n_constants" in document else len(document["errors"])
    tiles = [Tile("constants", str(n_constants))]
    if "n" in document:
        tiles.append(Tile("measurements", f"{document['n']:,}"))
    return View(
        title=f"Fit of {answer.question.what}",
        headline=headline_words(
            f"Fit of {answer.question.what}",
            f"{format_count(n_constants, 'constant')} derived from the tables of {answer.question.data}",
        ),
        tiles=tuple(tiles),
        tables=tuple(tables),
        notes=tuple(notes),
        grounds=(f"calibration: {written}",) if written is not None else (),
        overline=f"fit {answer.question.what}",
        tile_heading="",
    )


def _three(one: Mapping[str, float]) -> str:
    return f"{' / '.join(percent(one[name]) for name in _SIZES)}  bias {one['bias']:.2f}"


def _unit(constant: str) -> str:
    return "s" if factor_dimension(constant) == "s" else ""


def _serving(document: Document) -> tuple[Sequence[Table], Sequence[str]]:
    columns = ("constant", "engine", "assumed #", "fitted #", "known to #", "the data say", "what it is")
    constants: list[list[str | Cell]] = [
        [one["constant"], one["engine"], *_before_and_after(one),
         share_cell(one["identified_fraction"], percent(one["identified_fraction"])), one["what"]]
        for one in document["constants"]
    ]  # fmt: skip
    errors = [
        (one["left_out"], one["kind"], f"{one['n']:,}", _three(one["tpot"]), _three(one["ttft"]))
        for one in document["errors"]
    ]
    heads = ("left out", "kind", "points #", "time per output token #", "time to first token #")
    title = "Errors, predicted over measured - 1: median / mean / 90th percentile"
    note = "the data say: how much of the assumed range's variance the measurements removed"
    sources = [
        (one["source"], f"{one['n']:,}", f"{one['effect']:.2f} ±{percent(one['sd'])}",
         *("-" if one[name] is None else _three(one[name]) for name in ("step", "ttft")))
        for one in document.get("sources", ())
    ]  # fmt: skip
    found = [Table("Constants", columns, constants, note=note), Table(title, heads, errors)]
    if sources:
        heads = ("source", "figures #", "slower than the recipes by #", "steps and rates #", "time to first token #")
        found.append(Table("Other people's sources, each left out in turn", heads, sources))
    return found, ()


def _before_and_after(one: Document) -> tuple[str, str, str]:
    unit = _unit(one["constant"])
    return show(one["prior"], unit), show(one["value"], unit), f"±{percent(one['sd'])}"


def _training(document: Document) -> tuple[Sequence[Table], Sequence[str]]:
    constants = [
        (one["name"], show(one["value"], _unit(one["name"])), f"±{percent(one['relative_error'])}",
         f"{one['n_runs']:,}", f"{one['partner']} ({one['correlation']:+.2f})")
        for one in document["constants"]
    ]  # fmt: skip
    errors = [
        (name.replace("_", " "), value, str(one["n"]), *(percent(one[key]) for key in _SIZES))
        for name, slices in document["errors"].items()
        for value, one in slices.items()
    ]
    factors = ", ".join(f"{name} {factor:.2f}" for name, factor in document["interval_factors"].items())
    columns = ("constant", "fitted #", "known to #", "runs it moves #", "trades most with")
    heads = ("table", "slice", "n #", "median #", "mean #", "p90 #")
    tables = Table("Constants", columns, constants), Table("Errors, predicted over measured - 1", heads, errors)
    return tables, (f"90 % interval, x/÷: {factors}",)


def _rl(document: Document) -> tuple[Sequence[Table], Sequence[str]]:
    constants = [(one["constant"], *_before_and_after(one)) for one in document["constants"]]
    errors = [(one["left_out"], one["runs"], str(one["n"]), _three(one["step_time"])) for one in document["errors"]]
    columns = ("constant", "assumed #", "fitted #", "known to #")
    title = "Errors of the step time: median / mean / 90th percentile"
    return (
        Table("Constants", columns, constants),
        Table(title, ("left out", "runs", "n #", "step time #"), errors),
    ), ()


def _neighbours(document: Document) -> tuple[Sequence[Table], Sequence[str]]:
    """The law, and how it covers what it has not seen."""
    laws = [("nothing", document | document["coverage"])]
    laws += [(", ".join(one["architectures"]), one) for one in document["left_out"]]
    rows = [
        (left_out, f"{one['n']:,}", *(f"{value:.2g}" for value in one["errors"].values()),
         *(percent(one[f"coverage_{level}"]) for level in (80, 90)))
        for left_out, one in laws
    ]  # fmt: skip
    columns = ("left out", "pairs #", "per doubling of the layout #", "of the batch #", "far apart #", "in 80 % #",
               "in 90 % #")  # fmt: skip
    return (Table(_NEIGHBOURS, columns, rows),), ()


def _anchors(document: Document) -> tuple[Sequence[Table], Sequence[str]]:
    """Spreads of deployments, and what one measurement does where a whole source is left out."""
    parts = ("between_sd", "scatter_sd", "per_batch_doubling_sd", "per_input_doubling_sd")
    spreads = [
        (name, *(f"{one[key]:.3f}" for key in parts), ", ".join(f"{tail:.2f}" for tail in one["tails"]))
        for name, one in document["spreads"].items()
    ]
    errors = [
        (name, f"{one['n']:,}", *(percent(one[key]) for key in ("before", "after", "after_any", "coverage_90")),
         f"{one['width_ratio']:.2f}")
        for name, one in document["source_left_out"].items()
    ]  # fmt: skip
    columns = ("time", "deployments #", "scatter #", "per doubling of the batch #", "of the input #",
               "ends of the interval, deviations")  # fmt: skip
    heads = ("time", "points #", "before #", "one measurement #", "any one #", "in 90 % #", "high over low end #")
    tables = [Table("Standard deviations of the logarithm", columns, spreads)]
    if errors:
        tables.append(Table("Median errors on sources left out", heads, errors))
    return [*tables, *_trained(document["training"])], ()


def _trained(document: Document) -> list[Table]:
    """Spreads of training steps, and what the smallest runs do where a whole source is left out."""
    spread = document["spread"]
    named = {"between sources and chips": "between_sd", "between configurations, dense": "scatter_sd",
             "between configurations, experts": "scatter_moe_sd", "from model to model, dense": "model_sd",
             "from model to model, experts": "model_moe_sd"}  # fmt: skip
    rows = [
        *((words, f"{spread[key]:.3f}") for words, key in named.items()),
        *((f"per doubling of {axis}", f"{sd:.3f}") for axis, sd in spread["per_doubling_sd"].items()),
    ]
    gains = [
        (one["kind"], f"{one['n_anchors']}", f"{one['n']:,}",
         *(percent(one[key]) for key in ("before", "after", "before_p90", "after_p90", "coverage_before",
                                         "coverage_90")),
         f"{one['width_before']:.2f}", f"{one['width_ratio']:.2f}")
        for one in document["source_left_out"]
    ]  # fmt: skip
    heads = ("predicted", "measured #", "n #", "median before #", "after #", "p90 before #", "after #",
             "in 90 % before #", "after #", "width before #", "after #")  # fmt: skip
    spreads = Table("A training step: standard deviations of the logarithm", ("", "deviation #"), rows)
    return [spreads, *([Table("A training step on sources left out", heads, gains)] if gains else [])]


_VIEWS = {"serving": _serving, "training": _training, "rl": _rl, "neighbours": _neighbours, "local": _serving,
          "anchors": _anchors}  # fmt: skip
