"""The view of predictions beside measurements, and of sizes told from prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots.validation import columns_to_color, quantity_words, scatter_figure, slices_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell
from computeledger.questions.answers.validate import PriceCheckAnswer, ValidateAnswer
from computeledger.questions.wording import headline_words, percent, words
from computeledger.units import format_count
from computeledger.validation.accuracy.table import NEW_PAIR
from computeledger.validation.compare import Comparison

Document = Mapping[str, Any]
#: Farthest rows where the question does not say how many: on a terminal, and in a report.
_WORST, _WORST_IN_REPORT = 5, 12
#: A quantity with fewer measurements gets no plot, only its line in the table.
_FEWEST_PLOTTED = 3
#: Parts of a prediction that are named.
_MOST_PARTS = 5
_ERRORS = ("n #", "median error #", "p90 #", "bias #", "in 90 % #", "width #")
_MEANING = (
    "error = |predicted / measured - 1|; bias = median of predicted / measured; in 90 % = share inside the 90 % "
    "interval; width = its high end over its low end, in the median"
)
_FITTED = (
    "Constants of serving and of training were fitted on the published tables that their calibration names; "
    "docs/LOG.md has the errors on what a fit had not seen."
)
LEFT_OUT_WORDS = {
    "source": "whole sources left out",
    "a fifth": "a fifth of the points left out",
    NEW_PAIR: "the model on that system left out",
    "configuration": "the configuration left out",
    "model": "the model left out",
    "nothing": "nothing fitted to them",
}
_POINTS = "On the line a prediction is right; in the band it is within 20 %. Whiskers are 90 % intervals."
_SLICES = "The dot is the median of predicted over measured, the dark bar holds half of the rows, the light one 90 %."
_PRICE_ERRORS = {
    "median_abs_log10_error": "active parameters",
    "median_abs_log10_error_size": "sqrt(active x total)",
    "median_abs_log10_error_regression": "active, plain regression on input price",
}


def view(answer: ValidateAnswer | PriceCheckAnswer, working: bool) -> View:
    """Errors over all rows, by slice and by row; a report has plots, every usual slice and the sources."""
    if isinstance(answer, PriceCheckAnswer):
        return _prices(answer.to_dict())
    comparison, question = answer.comparison, answer.question
    worst = question.worst if question.worst is not None else _WORST_IN_REPORT if working else _WORST
    colors = columns_to_color(comparison, question.by) if working else []
    by = [*question.by, *(name for name in colors if name not in question.by)] if comparison.rows else question.by
    document = answer.summarized(by, worst)
    quantities = [name for name in comparison.measured if document[name]["n"]]
    return View(
        title="Predicted against measured",
        asked=(f"{len(comparison.rows):,} rows of {question.data or 'the shipped measurements'}",),
        headline=_headline(document, quantities, question.data),
        context=_in_sample(document, quantities),
        notes=(_MEANING, *([_FITTED] if working else []), *_anchor_words(document)),
        tiles=tuple(_tile(name, document[name]) for name in quantities),
        plots=tuple(_plots(comparison, quantities, colors)),
        tables=(
            _errors("All rows", ["quantity"], [([quantity_words(name)], document[name]) for name in quantities]),
            *(_sliced(column, values) for column, values in document["by"].items()),
            *_doubtful(document),
            *(_farthest(name, rows, working) for name, rows in document.get("worst", {}).items() if rows),
            *_skipped(document),
            *(_sources(comparison) if working else ()),
        ),
        overline="validate",
        tile_heading="median error",
    )


def _headline(document: Document, quantities: Sequence[str], data: str | None) -> str:
    """Errors on what was left out of the fit first; those on rows that it has seen are called so."""
    subject = str(data) if data is not None else "The shipped measurements"
    if not quantities:
        return headline_words(subject, "no row of this table could be predicted")
    name = quantities[0]
    one, found = document[name], document["rows"]["out_of_sample"]
    unseen, folds = (found[part].get(name) for part in ("unseen", "folds"))
    if unseen is not None and unseen["n"] == one["n"]:
        return headline_words(subject, f"no fit has seen these rows, the {quantity_words(name)} is {_off(one)}")
    if folds is not None:
        left = " or ".join(LEFT_OUT_WORDS[part] for part in folds["left_out"])
        said = f"with {left}, the {quantity_words(name)} of these sources is {_off(folds)}"
        return headline_words(subject, f"{said} ({folds['n']:,} figures)")
    if unseen is not None:
        rows = format_count(unseen["n"], "row")
        return headline_words(subject, f"on {rows} that no fit has seen the {quantity_words(name)} is {_off(unseen)}")
    seen = f"the {quantity_words(name)} of these rows, most or all in the fit of the constants (in sample)"
    return headline_words(subject, f"{seen}: {_off(one)}")


def _in_sample(document: Document, quantities: Sequence[str]) -> str:
    """Errors on other rows that no fit has seen, and on all rows, where the headline is about a part of them."""
    if not quantities:
        return ""
    name = quantities[0]
    one, found = document[name], document["rows"]["out_of_sample"]
    unseen, folds = (found[part].get(name) for part in ("unseen", "folds"))
    if (unseen is None and folds is None) or (unseen is not None and unseen["n"] == one["n"]):
        return ""
    rows = "" if unseen is None or folds is None else format_count(unseen["n"], "row")
    said = [f"On {rows} that no fit has seen the {quantity_words(name)} is {_off(unseen)}."] if rows else []
    said.append(f"All rows below, most or all in the fit of the constants (in sample): {_off(one)}.")
    return " ".join(said)


def _off(one: Document) -> str:
    """How far off, in the median and in nine of ten, and what the interval holds."""
    median, most, inside = (percent(one[key]) for key in ("median_abs_error", "p90_abs_error", "coverage_90"))
    return f"off by {median} in the median and by {most} or less in nine of ten, the 90 % interval holds {inside}"


def _tile(name: str, one: Document) -> Tile:
    band = f"nine in ten within {percent(one['p90_abs_error'])}, {format_count(one['n'], 'row')}"
    return Tile(quantity_words(name), percent(one["median_abs_error"]), band, one["median_abs_error"])


def _plots(comparison: Comparison, quantities: Sequence[str], columns: Sequence[str]) -> list[Plot]:
    """Every point, and the ratio by group, of each quantity; the reader chooses the column that tells rows apart."""
    made = []
    for name in quantities:
        if len(columns) and int((comparison.measured[name] > 0).sum()) >= _FEWEST_PLOTTED:
            said = quantity_words(name)
            points = {one.replace("_", " "): scatter_figure(comparison, name, one) for one in columns}
            groups = {one.replace("_", " "): slices_figure(comparison, name, one) for one in columns}
            made += [
                Plot(name, f"Every point: {said}", _POINTS, next(iter(points.values())), variants=points),
                Plot(f"{name}-slices", f"By group: {said}", _SLICES, next(iter(groups.values())), variants=groups),
            ]
    return made


def _cells(one: Document) -> list[str]:
    """Count, errors, bias and coverage of a summary."""
    if not one["n"]:
        return ["0", *[""] * (len(_ERRORS) - 1)]
    others = (percent(one["p90_abs_error"]), f"{one['bias']:.2f}", percent(one["coverage_90"]))
    return [str(one["n"]), percent(one["median_abs_error"]), *others, width_words(one["width_90"])]


def width_words(width: float | None) -> str:
    """The factor between an interval's ends."""
    return "" if width is None else f"{width:.3g}"


def _errors(title: str, heads: Sequence[str], rows: Sequence[tuple[Sequence[str | Cell], Document]]) -> Table:
    return Table(title, (*heads, *_ERRORS), [[*labels, *_cells(one)] for labels, one in rows])


def _sliced(column: str, values: Mapping[str, Document]) -> Table:
    said = column.replace("_", " ")
    ordered = sorted(values.items(), key=lambda pair: -max(one["n"] for one in pair[1].values()))
    rows = [([value, quantity_words(name)], one) for value, found in ordered for name, one in found.items()]
    return _errors(f"By {said}", [said, "quantity"], rows)


def _doubtful(document: Document) -> tuple[Table, ...]:
    """Groups of rows that no physics explains, or that mix what the record does not tell apart."""
    suspects = document.get("rows", {}).get("suspects", {"groups": []})
    if not suspects["groups"]:
        return ()
    first = next(iter(suspects["without"]))
    rows = [([Cell(group["name"], below=group["why"])], group["summaries"][first]) for group in suspects["groups"]]
    table = _errors("In doubt: counted above, reported apart", ["group"], rows)
    with_, without = (_cells(held[first]) for held in (document, suspects["without"]))
    note = (
        f"{quantity_words(first)}: median {with_[1]}, p90 {with_[2]} with these {suspects['n']} rows; "
        f"{without[1]}, {without[2]} without"
    )
    return (Table(table.title, table.columns, table.rows, note=note, is_stacked=True),)


def _farthest(name: str, rows: Sequence[Document], working: bool) -> Table:
    """Half as much counts like twice as much; what a prediction is made of is at the medians of the factors."""
    made: list[list[str | Cell]] = []
    for one in rows:
        unit, ends = one["unit"], one["predicted"]
        doubt = f"in doubt: {one['suspect']}" if one["suspect"] != "no" else ""
        made.append(
            [
                quantity_cell(ends, unit),
                words(one["measured"], unit),
                f"{one['ratio']:.2f}",
                Cell(one["row"], below="; ".join(part for part in (doubt, one["id"] if working else "") if part)),
                _made_of(one.get("breakdown")),
            ]
        )
    columns = ("predicted #", "measured #", "ratio #", "row", "made of")
    return Table(f"Farthest from the measurement: {quantity_words(name)}", columns, made, is_stacked=True)


def _made_of(breakdown: Document | None) -> Cell:
    """The longest parts with what binds each, and what binds the whole."""
    if not breakdown or not breakdown["parts"]:
        return Cell("")
    parts = [
        f"{percent(part['share_fraction'])} {part['name']} ({words(part['time_s'], 's')}, {part['bound']})"
        for part in breakdown["parts"][:_MOST_PARTS]
    ]
    assumed = "".join(f"; assumed: {text}" for text in breakdown["assumed"])
    return Cell(", ".join(parts), below=f"{breakdown['of']}; bound by {breakdown['bound']}{assumed}")


def _skipped(document: Document) -> tuple[Table, ...]:
    skipped = sorted(document["skipped"].items(), key=lambda pair: -pair[1])
    if not skipped:
        return ()
    rows = [(reason, str(n)) for reason, n in skipped]
    return (Table(f"Not predicted: {sum(n for _, n in skipped):,} rows", ("reason", "rows #"), rows),)


def _anchor_words(document: Document) -> list[str]:
    """What one measurement of a run does to the errors on the rest of it."""
    return [
        f"{quantity_words(name)}: median error {percent(one['before'])} -> {percent(one['after'])} on {one['n']} "
        f"points of {one['n_runs']} runs, the point of the middle load of each as its anchor "
        f"({percent(one['after_any'])} with any point); the 90 % interval then holds {percent(one['coverage_90'])}, a "
        f"factor of {one['width_ratio']:.2f} wide in the median"
        for name, one in document.get("rows", {}).get("anchors", {}).items()
    ]


def _sources(comparison: Comparison) -> tuple[Table, ...]:
    """Who measured, under which licence; only tables that say so."""
    licences: dict[str, str] = {}
    urls: dict[str, dict[str, int]] = {}
    for row in comparison.rows:
        if source := row.get("source", ""):
            licences.setdefault(source, row.get("licence", ""))
            url = row.get("url") or row.get("url_or_repo_path", "")
            urls.setdefault(source, {})[url] = urls.setdefault(source, {}).get(url, 0) + 1
    rows = []
    for source in sorted(urls, key=lambda one: -sum(urls[one].values())):
        first, *others = urls[source]
        more = f"{first} and {len(others)} more" if others else first
        below = "; ".join(part for part in (licences[source], more) if part)
        rows.append((Cell(source, below=below), str(sum(urls[source].values()))))
    return (Table("Sources", ("source", "rows #"), rows, is_stacked=True),) if rows else ()


def _prices(document: Document) -> View:
    inside = [Tile(f"inside the {level} % interval", percent(share)) for level, share in document["coverage"].items()]
    errors = [Tile(f"median error, {said}", f"x{10 ** document[key]:.2f}") for key, said in _PRICE_ERRORS.items()]
    width = Tile("median width of the 90 % interval", f"x{10 ** document['median_width_log10_90']:.1f}")
    return View(
        headline=headline_words(
            f"Size from price, {document['n']:,} models each left out in turn",
            f"active parameters off by x{10 ** document['median_abs_log10_error']:.2f} in the median",
        ),
        tiles=(*inside, *errors, width),
        overline="validate --prices",
        tile_heading="",
    )
