"""The view of the published table of accuracy: errors, coverage and width by slice, beside another tool."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from computeledger.fields import fields_of
from computeledger.interfaces.plots.peers import peers_figure
from computeledger.interfaces.plots.validation import quantity_words, scatter_figure, slices_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.interfaces.views.accuracy_links import workload_address
from computeledger.interfaces.views.display_names import chip_name, engine_name
from computeledger.interfaces.views.validate import LEFT_OUT_WORDS
from computeledger.physics.calibration.serving import DEFAULT_TUNING
from computeledger.questions.accuracy import AccuracyQuestion
from computeledger.questions.answers.accuracy import (
    COUNTED,
    AccuracyAnswer,
    answer_accuracy,
    errors_by_workload,
)
from computeledger.questions.wording import accuracy_slice, headline_words, listed, percent, short_model
from computeledger.units import format_count
from computeledger.validation.accuracy.table import FEWEST_TIMES, Errors, comparison_of, kinds_of, published
from computeledger.validation.compare import Comparison, comparison_document

Document = Mapping[str, Any]
#: Fewer measurements make no plot; more quantities than these are told by the tables alone.
_FEWEST, _MOST_PLOTS = 8, 2
_ERRORS = ("figures #", "median error #", "9 in 10 within #", "bias #", "range holds #", "either way #")
_BESIDE = ("of", "figures #", "our error #", "its error #", "ours / its #", "our 90 % #", "its 90 % #", "its bias #")
#: Quantities in the words of a narrow column; another one by its usual words.
_SHORT = {
    "tpot": "TPOT",
    "ttft": "TTFT",
    "output_tokens_per_s_per_gpu": "output tokens/s",
    "total_tokens_per_s_per_gpu": "all tokens/s",
    "decode_output_tokens_per_s_per_gpu": "decode tokens/s",
    "input_tokens_per_s_per_gpu": "prompt tokens/s",
}
#: How a slice is told: of steps in full, of first tokens in short.
_STEPS = ("figures #", "steps: error #", "9 in 10 within #", "bias #", "held #", "either way #", "TTFT error #",
          "TTFT held #", "TTFT either way #")  # fmt: skip
#: What a narrow page leaves out first.
_DROPS = ("TTFT either way", "either way", "TTFT held", "bias")
_OF_KINDS = (
    "steps: times per output token, and rates that tell of them; TTFT: first tokens and prompts; held: share that the "
    "90 % range holds; either way: the factor that it reaches up and down; figures: all, of which each error says "
    "its own"
)
_MEANING = (
    "error = |predicted / measured - 1|, its median and 90th percentile; bias = median of predicted / measured; the "
    "range is that of 90 %, either way the factor that it reaches up and down"
)
_CAPTION = (
    "On the line a prediction is right; in the grey band it is within the usual 90 % range. Every dot was left out of "
    "the fit that predicts it; press one for its source."
)
_SAME = "Drawn in the same way: on the line a prediction is right."
_CLASSES = (
    "The dot is the median, the thick bar holds half of the figures, the line 90 %. A new chip has no measurement in "
    "the fit, a new engine no constants of its own."
)
#: What classes are called; the rest of a class after a comma stands behind it.
_CLASS_NAMES = {
    "as people usually run it": "known engine and chip",
    "one burst": "all requests at once",
    "chip never measured": "new chip",
    "engine never fitted": "new engine",
    "moe": "mixture of experts",
    "one request at a time": "one request",
}
#: Times that answers are made of, as a sentence, a tile and a row call them.
_TIMES = {
    "token": ("per token", "A token served"),
    "first_token": ("to the first token", "Time to first token"),
    "training_step": ("per training step", "A training step"),
    "rl_step": ("per RL step", "An RL step"),
    "local_token": ("per token of local engines", "A token of local engines"),
}
#: Those that tiles and sentences tell.
_FIRST = ("token", "first_token", "training_step", "rl_step")
#: Where each time stands in detail.
_DETAILS = {"training": "Training in detail", "rl": "RL in detail"}
#: Kinds of figures as an axis calls them.
_AXES = {"step": "times per token and rates of tokens", "step_time": "time of a step"}
#: Figures of one time from which on a group may be named as the worst: fewer tell little.
_GROUP = 8
#: Classes that make a plot.
_FEWEST_CLASSES = 2
_TITLES = {"rl": "RL", "local": "local engines"}
_SAID = {"rl": "RL", "local": "Local engines"}
#: What follows a share.
_PERCENT = "\u00a0%"
#: A narrower interval than this is none: the quantity is counted, not predicted.
_EXACT = 1.005
#: A 90 % interval that holds less is too narrow, and a sentence says so.
_TOO_FEW = 0.85
_WHOSE = {
    "usual": "other people's deployments",
    "recipe": "the public recipes' deployments",
}


def view(answer: AccuracyAnswer, working: bool) -> View:
    """Tiles of both times, every figure as a dot, and a table for each way to slice."""
    del working
    document, question = answer.to_dict(), answer.question
    is_overview = _is_overview(question)
    quantities = sorted(answer.comparison.measured, key=lambda name: -document[name]["n"])
    peer = next(iter(document["peers"].items()), None)
    left = " or ".join(LEFT_OUT_WORDS[one] for one in document["left_out"])
    n = len(answer.table.rows)
    figures = f"{format_count(n, 'figure')} of {format_count(document['n_sources'], 'source')}"
    whose = {"serving": f"{_WHOSE[question.tuning]}, ", "local": "llama.cpp and MLX, one request at a time, "}
    return View(
        title="Accuracy" if is_overview else f"Accuracy of {_TITLES.get(question.workload, question.workload)}",
        asked=(
            f"{whose.get(question.workload, '')}{left}",
            _of_serving(document, n, figures) if is_overview else figures,
        ),
        headline=_headline_of_all(document) if is_overview else _headline(question, document, quantities),
        context=f"{_cases_words(answer)}{_context_of_all(document)}"
        if is_overview
        else _context(document, quantities, left),
        notes=(_MEANING, *([_peer_words(*peer)] if peer else [])),
        tiles=_tiles_of_all(document) if is_overview else tuple(_tile(document, name) for name in quantities[:4]),
        tile_heading="typical error",
        plots=(*_plots(answer, document, quantities), *([_peer_plot(*peer)] if peer else []), *_by_class(answer)),
        tables=(
            *((_of_all(answer, document),) if is_overview else ()),
            replace(_all(document, quantities, "Serving in detail" if is_overview else "All"), is_detail=is_overview),
            *([_beside(*peer, is_short=_is_usual(answer))] if peer else []),
            *_slices(answer),
        ),
        facts=(("Predicted", f"{document['date']}, with the constants that this version ships"),),
        overline="accuracy",
        links=() if is_overview else _others(question.workload),
    )


def _is_overview(question: AccuracyQuestion) -> bool:
    """Whether nobody chose figures, so that the answer begins with every workload."""
    usual = asdict(AccuracyQuestion())
    return {**asdict(question), "by": usual["by"]} == usual


def _of_serving(document: Document, n: int, figures: str) -> str:
    """The figures of serving among those that the first sentence counts, and the rest of them."""
    token, first = (document["by_workload"][name]["n"] for name in ("token", "first_token"))
    rest = n - token - first
    return (
        f"serving alone is {figures}: {token:,} of a token, {first:,} to a first token{f', {rest} other' * (rest > 0)}"
    )


def _headline_of_all(document: Document) -> str:
    errors = document["by_workload"]
    return headline_words(
        "Typical error",
        ", ".join(f"{percent(errors[name]['median_abs_error'], 2)} {_TIMES[name][0]}" for name in _FIRST),
    )


def _context_of_all(document: Document) -> str:
    """Of how many figures that is told, as the start page counts them, what ranges hold, and another tool's error."""
    errors = document["by_workload"]
    held = sorted(errors[name]["coverage_90"] for name in (*COUNTED, "first_token"))
    low, high = (percent(one, 2) for one in (held[0], held[-1]))
    local = percent(errors["local_token"]["coverage_90"], 2)
    said = (
        f"{document['n_times']:,} published times of tokens and steps and {errors['first_token']['n']:,} to a "
        "first token, each predicted unseen; half came out closer. "
        f"90\u00a0% ranges held {low.removesuffix(_PERCENT)} to {high}; for local engines ({local}) allow more."
    )
    return f"{said}{_beside_words(document)}"


def _beside_words(document: Document) -> str:
    """Errors of another tool and ours of the time per token, where both answer."""
    for tool, peer in document["peers"].items():
        one = _quantities(peer).get("tpot")
        if one is not None:
            ours, theirs = (percent(one[whose]["median_abs_error"], 2) for whose in ("ours", "theirs"))
            return f" On {one['n']:,} times per token {_tool_words(tool)} is {theirs} off, this tool {ours}."
    return ""


def _cases_words(answer: AccuracyAnswer) -> str:
    """Errors of a token by kind of case, the least first: what a reader's own case may expect."""
    rows = kinds_of(answer.table.rows)
    found = comparison_document(comparison_of(rows), ["class"])["by"]["class"]
    steps = {name: each["step"] for name, each in found.items() if name in _CASES and "step" in each}
    known = sorted((one["median_abs_error"], _CASES[name]) for name, one in steps.items() if one["n"] >= FEWEST_TIMES)
    return f"A token is {listed([f'{percent(error, 2)} off {said}' for error, said in known])}. " if known else ""


#: Kinds of cases as the first sentence tells them.
_CASES = {
    "as people usually run it": "on an engine and chip that were measured",
    "chip never measured": "on a new chip",
    "one burst": "with all requests at once",
}


def _tool_words(tool: str) -> str:
    """Another tool with whose it is."""
    return {"aiconfigurator": "NVIDIA's aiconfigurator"}.get(tool, tool)


def _worst_group(answer: AccuracyAnswer) -> str:
    """The group of this page's tables, of enough figures, of which the fewest lie in their range, and how many do."""
    columns = [column for column in answer.question.by if _is_stated(answer, column)]
    found = comparison_document(comparison_of(kinds_of(answer.table.rows)), columns)["by"]
    held, _, column, value = min(
        (one["coverage_90"], columns.index(column), column, value)
        for column in columns
        for value, each in found[column].items()
        for one in each.values()
        if one["n"] >= _GROUP
    )
    return f"{_value(column, value)} ({percent(held, 2)}"


def _tiles_of_all(document: Document) -> tuple[Tile, ...]:
    errors = document["by_workload"]
    return tuple(
        replace(_error_tile(_TIMES[name][1], errors[name]), also=_detail(errors[name]["workload"])) for name in _FIRST
    )


def _detail(workload: str) -> tuple[str, str] | None:
    """Where a workload's errors stand in detail, beside those of serving."""
    return (_DETAILS[workload], workload_address(workload)) if workload in _DETAILS else None


def _of_all(answer: AccuracyAnswer, document: Document) -> Table:
    """What is promised of each time that answers are made of."""
    rows: list[list[str | Cell]] = [
        [
            Cell(_TIMES[name][1], "" if one["workload"] == "serving" else workload_address(one["workload"])),
            f"{one['n']:,}", *(percent(one[key]) for key in ("median_abs_error", "coverage_90")), _width(one),
        ]
        for name, one in document["by_workload"].items()
    ]  # fmt: skip
    columns = ("time of", "measured #", "typical error #", "range holds #", "either way #")
    note = (
        "typical: half of the figures lie within it; either way: the factor that the 90 % range reaches up and down; "
        "a token: times per output token and rates "
        f"that tell of them; ranges fail most often for {_worst_group(answer)} held; groups of {_GROUP} or more count)"
    )
    return Table("How far off, by what is asked", columns, rows, note=note, is_detail=True)


def _all(document: Document, quantities: list[str], title: str) -> Table:
    """Errors of each quantity; of few figures only where there are no others."""
    told = [name for name in quantities if document[name]["n"] >= FEWEST_TIMES] or quantities
    rows: list[list[str | Cell]] = [[quantity_words(name), *_cells(document[name])] for name in told]
    rest = [f"{quantity_words(name)} ({document[name]['n']})" for name in quantities if name not in told]
    note = f"left out, of too few figures: {listed(rest)}" if rest else ""
    return Table(title, ("of", *_ERRORS), rows, note=note, is_sortable=True)


def _slices(answer: AccuracyAnswer) -> list[Table]:
    """A table for each way to slice; where none was asked for, a terminal prints the first and names the others."""
    columns = [column for column in answer.question.by if _is_stated(answer, column)]
    tables = [_sliced(answer, column) for column in columns]
    if not columns[1:] or not _is_usual(answer):
        return tables
    named = ", ".join(_column_words(column) for column in columns[1:])
    notes = [f"also by {named}: --all prints every table, --by {columns[1]} one of them", *[""] * len(columns)]
    rest = (replace(one, in_short=Table("", (), (), note=said)) for one, said in zip(tables[1:], notes, strict=False))
    return [tables[0], *rest]


def _is_usual(answer: AccuracyAnswer) -> bool:
    """Whether nobody chose what errors are told by."""
    return bool(answer.question.by == fields_of(AccuracyQuestion)["by"].default)


def _others(workload: str) -> tuple[tuple[str, str], ...]:
    """The other workloads with their median errors, and where they stand in the app."""
    return tuple(
        (_other_words(name, one), workload_address(name))
        for name, one in errors_by_workload().items()
        if name != workload
    )


def _other_words(name: str, one: Errors) -> str:
    said = _SAID.get(name, name.capitalize())
    return f"{said}: median error {percent(one.median_abs_error, 2)} of {format_count(one.n, 'measurement')}"


def _told(quantities: list[str]) -> list[str]:
    """Both times of serving, where they were measured; elsewhere the quantity that was measured most."""
    return [name for name in ("tpot", "ttft") if name in quantities] or quantities[:1]


def _headline(question: AccuracyQuestion, document: Document, quantities: list[str]) -> str:
    """How far off answers are, typically, and for which engine, chip and source."""
    said = [f"{quantity_words(name)} {percent(document[name]['median_abs_error'], 2)}" for name in _told(quantities)]
    return headline_words(f"{_chosen_words(question)}, typical error", ", ".join(said))


def _chosen_words(question: AccuracyQuestion) -> str:
    """The workload with the engine, the chip and the models that were chosen."""
    workload = _SAID.get(question.workload, question.workload.capitalize())
    engine, chip = (
        f" {before} {said(*chosen)}" if len(chosen) == 1 else ""
        for before, said, chosen in (("with", engine_name, question.engine), ("on", chip_name, question.accelerator))
    )
    models = [short_model(one) for one in question.model]
    of = f" {listed(models)}" if 0 < len(models) <= _FEW_MODELS else ""
    return f"{workload}{of}{engine}{chip}"


#: Models that a headline names, at most.
_FEW_MODELS = 2


def _context(document: Document, quantities: list[str], left: str) -> str:
    """Of how many figures that is told, what their intervals hold, and bad cases."""
    told = _told(quantities)
    said = f"Each of {format_count(document['n'], 'measurement')} was predicted unseen ({left}); half came out closer"
    held = [percent(document[name]["coverage_90"], 2) for name in told if _interval(document[name])[1]]
    reach = listed([_width(document[name]) for name in told if _interval(document[name])[1]])
    least = min((document[name]["coverage_90"] for name in told if _interval(document[name])[1]), default=1.0)
    narrow = ", so allow more than they say" if least < _TOO_FEW else ""
    said += f". Their 90\u00a0% ranges, a {reach} either way, held {listed(held)}{narrow}" if held else ""
    return f"{said}."


def _tile(document: Document, name: str) -> Tile:
    return _error_tile(_capital(quantity_words(name)), document[name])


def _error_tile(label: str, one: Document) -> Tile:
    """A typical error with the bad one."""
    held = percent(one["coverage_90"], 2)
    band = f"90\u00a0% range: {_width(one)} either way; it holds {held}" if _interval(one)[1] else "counted"
    return Tile(label, percent(one["median_abs_error"], 2), band, one["median_abs_error"])


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def _plots(answer: AccuracyAnswer, document: Document, quantities: list[str]) -> list[Plot]:
    shown = [name for name in quantities if document[name]["n"] >= _FEWEST][:_MOST_PLOTS]
    serving = "Serving: " if _is_overview(answer.question) else ""
    column = _told_apart(answer)
    known = _usual_engines(answer.question.workload) if column == "engine" else ()
    return [
        Plot(
            name, _capital(f"{serving}{quantity_words(name)}"),
            _SAME if place else " ".join(filter(None, (_CAPTION, _rest_words(answer, document, name)))),
            scatter_figure(_named(answer.comparison), name, column, is_typical=True, known=known), is_detail=place > 0,
        )
        for place, name in enumerate(shown)
    ]  # fmt: skip


def _rest_words(answer: AccuracyAnswer, document: Document, name: str) -> str:
    """How many of the times of a token this plot has, where the page counts rates of tokens among them too."""
    n = document["by_workload"]["token"]["n"]
    if not _is_overview(answer.question) or name != "tpot":
        return ""
    return f"{document[name]['n']:,} of the {n:,} times of a token are drawn; the others were published as tokens/s."


@functools.cache
def _usual_engines(workload: str) -> tuple[str, ...]:
    """The engines of most figures by name, in the order of their names: each keeps its colour in every chart."""
    counts = Counter(engine_name(row["engine"]) for row in published(workload, DEFAULT_TUNING).promised().rows)
    return tuple(sorted(name for name, _ in counts.most_common(_COLOURED)))


#: Engines that have a colour of their own.
_COLOURED = 3


def _named(comparison: Comparison) -> Comparison:
    """The same with engines and chips as people call them."""
    rows = [
        {**row, "engine": engine_name(row["engine"]), "accelerator": chip_name(row["accelerator"])}
        for row in comparison.rows
    ]
    return replace(comparison, rows=rows)


def _told_apart(answer: AccuracyAnswer) -> str:
    """What colours tell apart: the engine, the chip where all have one engine, and else the source."""
    values = {name: {row[name] for row in answer.table.rows} for name in ("engine", "accelerator", "source")}
    return next((name for name, every in values.items() if len(every) > 1), "source")


def _by_class(answer: AccuracyAnswer) -> tuple[Plot, ...]:
    """Errors by class of question: what an interval is made of; none where all figures are of one class."""
    rows = [{**row, "class": _class_name(row["class"])} for row in kinds_of(answer.table.rows)]
    first = next(iter(comparison_of(rows).measured))
    counts = Counter(row["class"] for row in rows if row["quantity"] == first)
    rows = [row for row in rows if counts[row["class"]] >= FEWEST_TIMES]
    if len({row["class"] for row in rows}) < _FEWEST_CLASSES:
        return ()
    figure = slices_figure(comparison_of(rows), first, "class", _AXES.get(first, quantity_words(first)))
    return (Plot("class", "How far off, by kind of case", _CLASSES, figure, is_wide=True,
                 is_detail=True),)  # fmt: skip


def _class_name(name: str) -> str:
    """A class as a chart calls it.

    Examples
    --------
    >>> _class_name("chip never measured, one request at a time"), _class_name("dense")
    ('new chip, one request', 'dense')
    """
    return ", ".join(_CLASS_NAMES.get(part, part) for part in name.split(", "))


def _sliced(answer: AccuracyAnswer, column: str) -> Table:
    """One row for each value, the most measured first; a source leads to what it published."""
    rows = answer.table.rows
    urls = {row["source"]: row["url"] for row in reversed(rows)} if column == "source" else {}
    kinds = comparison_of(kinds_of(rows))
    found = comparison_document(kinds, [column])["by"][column]
    is_serving = {"step", "ttft"} >= set(kinds.measured)
    ordered = sorted(found.items(), key=lambda pair: -sum(one["n"] for one in pair[1].values()))
    said = _column_words(column)
    if is_serving:
        lines: list[list[str | Cell]] = [
            [Cell(_value(column, value), urls.get(value, "")), *_of_kinds(one)] for value, one in ordered
        ]
        return Table(
            f"Error by {said}", (said, *_STEPS), lines, note=_OF_KINDS, is_sortable=True, drops=_DROPS, is_detail=True
        )
    cells: list[list[str | Cell]] = [
        [Cell(_value(column, value), urls.get(value, "")), _SHORT.get(name, quantity_words(name)), *_cells(one)]
        for value, each in ordered
        for name, one in each.items()
    ]
    if len(kinds.measured) > 1:
        return Table(f"Error by {said}", (said, "of", *_ERRORS), cells, is_sortable=True, drops=_DROPS, is_detail=True)
    (name,) = kinds.measured
    return Table(
        f"Error by {said}, {quantity_words(name)}", (said, *_ERRORS), [[row[0], *row[2:]] for row in cells],
        is_sortable=True, drops=_DROPS, is_detail=True,
    )  # fmt: skip


def _value(column: str, value: str) -> str:
    """What a table calls a value that it slices by."""
    said = {"engine": engine_name, "accelerator": chip_name, "class": _class_name}.get(column)
    return said(value) if said else value


def _column_words(column: str) -> str:
    return {"accelerator": "chip", "family": "model family", "class": "kind of case"}.get(column, column)


def _is_stated(answer: AccuracyAnswer, column: str) -> bool:
    """Whether a figure says what it is sliced by."""
    return any(row[column] for row in answer.table.rows)


def _of_kinds(found: Document) -> list[str | Cell]:
    """Figures, the errors of steps in full, and of first tokens the median and the interval."""
    steps, first = (_cells(found[name])[1:] if name in found else [""] * 5 for name in ("step", "ttft"))
    n_steps, n_first = (found[name]["n"] if name in found else 0 for name in ("step", "ttft"))
    errors = [
        Cell(error, below=f"of {n:,}") if n_steps and n_first else error
        for error, n in ((steps[0], n_steps), (first[0], n_first))
    ]
    return [f"{n_steps + n_first:,}", errors[0], *steps[1:], errors[1], *first[3:]]


def alike_table(alike: Document) -> Table:
    """The same measurements, by who took them."""
    answer = answer_accuracy(AccuracyQuestion(**accuracy_slice(alike), by="source"))  # type: ignore[arg-type]
    return replace(_sliced(answer, "source"), title="Measurements like this one, left out of the fit", is_detail=False)


def _cells(one: Document) -> list[str]:
    errors = (percent(one[key]) for key in ("median_abs_error", "p90_abs_error"))
    return [f"{one['n']:,}", *errors, f"{one['bias']:.2f}", *_interval(one)]


def _interval(one: Document) -> tuple[str, str]:
    """Coverage, and how far the range reaches to either side as a factor; what is counted has none."""
    has_one = one["width_90"] is not None and one["width_90"] > _EXACT
    return (percent(one["coverage_90"]), f"×{math.sqrt(one['width_90']):.2g}") if has_one else ("exact", "")


def _width(one: Document) -> str:
    """How far the interval reaches to either side, as a factor."""
    return f"factor of {math.sqrt(one['width_90']):.2g}" if _interval(one)[1] else ""


def _quantities(document: Document) -> dict[str, Document]:
    return {name: one for name, one in document.items() if isinstance(one, Mapping) and "theirs" in one}


def _peer_words(tool: str, document: Document) -> str:
    skipped = sum(document["skipped"].values())
    why = ", ".join(f"{reason} {n:,}" for reason, n in sorted(document["skipped"].items(), key=lambda pair: -pair[1]))
    rest = f"; {skipped:,} rows it cannot answer ({why})" if skipped else ""
    return (
        f"{tool} {document['version']}, asked on {document['date']}, with its better setting for each quantity{rest}; "
        "its engines are of later releases than most rows, and nothing of it was fitted to them"
    )


def _peer_plot(tool: str, document: Document) -> Plot:
    """Median errors of both tools on the rows that both answer."""
    rows = {
        quantity_words(name): (one["n"], one["ours"]["median_abs_error"], one["theirs"]["median_abs_error"])
        for name, one in _quantities(document).items()
    }
    caption = (
        f"Median error on the figures that both tools answer, ours with each figure left out of the fit. Nothing of "
        f"{tool} {document['version']} was fitted to them, and its engines are later releases than most."
    )
    return Plot(
        "peers", f"Beside {_tool_words(tool)}, on the same figures", caption, peers_figure(rows, tool), is_wide=True
    )


def _beside(tool: str, document: Document, *, is_short: bool) -> Table:
    """Both tools on the rows that both answer: over all, then by engine, chip and load."""
    rows = [["all", *_pair(name, one)] for name, one in _quantities(document).items()]
    for column in ("engine", "accelerator", "load"):
        by_value = document["by"].get(column, {})
        if len(by_value) > 1:  # one value is all of them
            rows += [
                [_value(column, value), *_pair(name, one)]
                for value, found in by_value.items()
                for name, one in found.items()
            ]
    n_over_all = len(_quantities(document))
    found = Table(
        f"Beside {tool}, the same figures",
        ("", *_BESIDE),
        rows,
        strong=tuple(range(n_over_all)),
        is_sortable=True,
        drops=("its bias", "its 90 %"),
        is_detail=True,
    )
    short = replace(found, rows=rows[:n_over_all], note="--all adds engines, chips and loads")
    return replace(found, in_short=short if is_short else None)


def _pair(name: str, one: Document) -> list[str]:
    ours, theirs = one["ours"], one["theirs"]
    errors, tails = ([percent(each[key]) for each in (ours, theirs)] for key in ("median_abs_error", "p90_abs_error"))
    ratio = f"{ours['median_abs_error'] / theirs['median_abs_error']:.2f}" if theirs["median_abs_error"] else ""
    return [_SHORT.get(name, quantity_words(name)), f"{one['n']:,}", *errors, ratio, *tails, f"{theirs['bias']:.2f}"]
