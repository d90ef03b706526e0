"""The view of what a price sheet reveals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from computeledger.interfaces.plots import palette
from computeledger.interfaces.plots.bars import bars_figure
from computeledger.interfaces.plots.open_models import Sold, priced_sizes_figure
from computeledger.interfaces.plots.prices import Told, before_after_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_table, source_links, with_interval
from computeledger.interfaces.views.closed_model import by_price_table
from computeledger.interfaces.views.display_names import in_names
from computeledger.interfaces.views.evidence import price_evidence
from computeledger.interfaces.views.tiers import span_words
from computeledger.interfaces.working import working_view
from computeledger.questions.answers.prices.invert import EXTRAPOLATED, InvertAnswer
from computeledger.questions.wording import (
    figure_words,
    headline_words,
    interval_words,
    listed,
    percent,
    words,
)
from computeledger.validation.prices_near import PricedModel

_NAMES = {
    "n_params_active": ("Active parameters", "params"),
    "n_params_total": ("Total parameters", "params"),
    "gross_margin_fraction": ("Gross margin", "fraction"),
    "decode_batch": ("Decode batch", ""),
    "utilization_fraction": ("Utilisation", "fraction"),
    "kv_bytes_per_token": ("KV cache per token", "B"),
}
_MAIN = "n_params_active"
_SOURCES = ("genai-prices", "litellm-prices")
#: Ways of serving that are drawn; of questions, all answers stand in the table. None of them stands out where the first
#: has less than so many times the weight of the last.
_LIKELIEST, _STANDS_OUT = 6, 2.0
#: The same quantities inside a sentence.
_SAID = {
    "n_params_active": "active parameters",
    "n_params_total": "total parameters",
    "decode_batch": "batch",
    "gross_margin_fraction": "margin",
    "utilization_fraction": "utilisation",
    "kv_bytes_per_token": "cache",
}
#: Why the same price has another total among other clues.
_TOTAL = (
    "of the two totals the sizes that open models have bound the first; the second draws the line of open models on, "
    "which makes a dear model's total larger. CSV and JSON call them n_params_total_by_sheet and n_params_total"
)
_BY_SHEET, _BY_PRICE = "the price and the sizes that open models have", "the price alone"
#: Premiums that are told beside the prices of open models.
_PREMIUMS = (2.0, 4.0)
_WRITES = {"cache_write": "a cache write", "cache_write_1h": "a cache write for an hour"}


def view(answer: InvertAnswer, working: bool) -> View:
    """Sizes, where they stand among open models, and what stays unknown."""
    document = answer.to_dict(working=working)
    active, sheet = document["n_params_active"], document["sheet"]
    prices = ", ".join(f"{kind.replace('_', ' ')} {words(price, 'USD')}" for kind, price in document["prices"].items())
    subject = f"{_sold_at(document['prices'])} per Mtok"
    is_given = sheet["origin"] == "given"
    name = f"A model at {_sold_at(document['prices'])}" if is_given else sheet["name"]
    return View(
        title=f"{name}: what its prices reveal",
        asked=(f"per million tokens: {prices}", *(() if is_given else (sheet["origin"],)), *sheet["notes"]),
        headline=headline_words(
            subject if is_given else f"{name}, {subject}",
            f"about {figure_words(active, 'params')} active parameters" + " at open-model prices" * _is_usual(answer),
            active,
            "params",
        ),
        context=_context(answer, document),
        tiles=_tiles(answer, document),
        plots=_plots(answer, document),
        tables=(
            *_margins(answer, document),
            _learnt(answer, document),
            *_two_ways(answer, document),
            _weights(document),
        ),
        facts=tuple(_facts(document["readings"])),
        notes=tuple(document["not_identified"]),
        grounds=tuple(f"assumed: {one}" for one in document["assumptions"]),
        working=tuple(working_view(document)) if working else (),
        overline="invert",
        main=_MAIN,
        links=source_links(_SOURCES),
        sources=_SOURCES,
        evidence=price_evidence(document),
    )


def _sold_at(prices: Mapping[str, float]) -> str:
    """List prices of new input and of output."""
    return f"{words(prices['input'], 'USD')} in, {words(prices['output'], 'USD')} out"


def _is_usual(answer: InvertAnswer) -> bool:
    """Whether a model is taken to be sold as open models are."""
    return answer.clues.premium_ratio == 1 and not answer.clues.premium_spread


def _context(answer: InvertAnswer, document: Mapping[str, Any]) -> str:
    """What the size rests on, and what a premium makes of it."""
    far = any(one.startswith(EXTRAPOLATED) for one in document["not_identified"])
    said = "Extrapolated: no open model is sold at such a price. " * far
    if not _is_usual(answer):
        return f"{said}That holds if it is sold at {answer.clues.premium_ratio:.2g} times the open market's price."
    twice, more = (words(_at_premium(document, one), "params", 2) for one in _PREMIUMS)
    return f"{said}A closed model may charge more: at twice open models' prices it has {twice}, at 4 times {more}."


def _nearest(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The open model that is sold at about the price."""
    found: Mapping[str, Any] = document["measured_alike"]["nearest"][0]
    return found


def _at_premium(document: Mapping[str, Any], premium: float) -> float:
    """Active parameters if it is sold at so many times the prices of open models."""
    rows = document["size_times_margin"]
    return float(next(one["n_params_active"] for one in rows if one["extra_margin_ratio"] == premium))


def _tiles(answer: InvertAnswer, document: Mapping[str, Any]) -> tuple[Tile, ...]:
    """The sizes, what a premium makes of them, and the open model that is sold nearest to the price."""
    active = with_interval(Tile(_NAMES[_MAIN][0], "", key=_MAIN), document[_MAIN], "params")
    sizes = (active, _total(answer, document))
    if not _is_usual(answer):
        return sizes
    nearest = _nearest(document)
    twice, more = (_at_premium(document, one) for one in _PREMIUMS)
    return (
        *sizes,
        Tile("At a premium of 2 \u00d7", words(twice, "params", 2),
             f"active; at 4 \u00d7: {words(more, 'params', 2)}", twice,
             "active_parameters_at_twice_the_margin", unit="params"),
        Tile(f"Nearest: {nearest['model']}", words(nearest["measured"], "params"),
             f"active, at {words(nearest['usd_per_mtok_input'], 'USD')} and "
             f"{words(nearest['usd_per_mtok_output'], 'USD')}", nearest["measured"],
             "active_parameters_of_the_nearest_in_price", unit="params"),
    )  # fmt: skip


def _total(answer: InvertAnswer, document: Mapping[str, Any]) -> Tile:
    """Total parameters: those that Sheet tells from the same price, where it can."""
    label, unit = _NAMES["n_params_total"]
    total = answer.n_params_total_by_sheet
    if total is None:
        return with_interval(Tile(label, "", key="n_params_total"), document["n_params_total"], unit)
    return with_interval(Tile(label, "", key="total_parameters_by_sheet"), asdict(total), unit)


def _two_ways(answer: InvertAnswer, document: Mapping[str, Any]) -> tuple[Table, ...]:
    """Sizes as this page and *Sheet* tell them from the same price, and why they differ."""
    sheet = answer.by_sheet
    if sheet is None:
        return ()
    sizes = by_price_table(answer.n_params_active, sheet.n_params_active)
    totals = quantity_table("", ((f"total, by {name}", value, "params") for name, value in (
        (_BY_SHEET, asdict(sheet.n_params_total)), (_BY_PRICE, document["n_params_total"]),
    )))  # fmt: skip
    rows = [*([f"active, {row[0]}", *row[1:]] for row in sizes.rows), *totals.rows]
    return (replace(sizes, rows=rows, note=f"{sizes.note}; {_TOTAL}"),)


def _learnt(answer: InvertAnswer, document: Mapping[str, Any]) -> Table:
    """Every quantity before and after the prices, and how much narrower they make its range."""
    rows: list[list[str | Cell]] = []
    for key in sorted(_NAMES, key=lambda one: bool(document["identified"][one])):
        (label, unit), after, before = _NAMES[key], _after(answer, document, key), document["before_prices"][key]
        if not document["identified"][key]:
            rows.append([label, "not told", "", _unbounded(before, unit), ""])
            continue
        told = "" if after is not document[key] else _narrower(document["bits"][key])
        rows.append([label, figure_words(after, unit), interval_words(after, unit), interval_words(before, unit), told])
    columns = ("", "median #", "90 % range #", "before any price #", "narrower by #")
    note = "on a scale of ratios; what prices do not tell rests on how models are served"
    return Table("What prices do not tell, and what they do", columns, rows, "bits", note, is_detail=True)


def _unbounded(before: Mapping[str, Any], unit: str) -> str:
    """A range before any price; of shares, a low end under 0 says nothing more than that.

    Examples
    --------
    >>> _unbounded({"p05": -23.0, "p95": 0.72}, "fraction").replace(chr(160), " ")
    'below 0 to 72 %'
    """
    if unit != "fraction" or before["p05"] >= 0:
        return interval_words(before, unit)
    return f"below 0 to {percent(before['p95'], 2)}"


def _plots(answer: InvertAnswer, document: Mapping[str, Any]) -> tuple[Plot, ...]:
    told = [key for key in _NAMES if document["identified"][key]]
    rows = [Told(*_NAMES[key], document["before_prices"][key], _after(answer, document, key)) for key in told]
    unknown = listed([said for key, said in _SAID.items() if key not in told])
    caption = "Thin: 90 %, thick: half of all."
    weights, speeds = _ways(document)
    shown = f"The {_LIKELIEST} likeliest of {len(weights)}" if len(weights) > _LIKELIEST else "Weights"
    ways = Plot("hypotheses", "Likeliest ways of serving", f"{shown}, by chip, precision and speed target: {speeds}.",
                bars_figure(weights, "fraction", palette.PLAIN, most=_LIKELIEST), "hypotheses",
                is_detail=True)  # fmt: skip
    return (
        _among(answer, document),
        Plot("told", "What the prices told", f"{caption} Prices say nothing of {unknown}." if unknown else caption,
             before_after_figure(rows), "bits", is_wide=_is_alike(weights), is_detail=True),
        *(() if _is_alike(weights) else (ways,)),
    )  # fmt: skip


def _after(answer: InvertAnswer, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A quantity after the prices, as its tile says it."""
    sheet = answer.by_sheet
    if key != "n_params_total" or sheet is None:
        found: Mapping[str, Any] = document[key]
        return found
    low, high = sheet.n_params_total_half
    return {**asdict(sheet.n_params_total), "p25": low, "p75": high}


def _among(answer: InvertAnswer, document: Mapping[str, Any]) -> Plot:
    """The price among open models of known size."""
    every = answer.learnt_from
    named = {_nearest(document)["model"], *(end(every, key=lambda one: one.measured).model for end in (min, max))}
    sold = [
        Sold(one.model, one.usd_per_mtok_input, one.usd_per_mtok_output, one.measured, one.model in named)
        for one in every
    ]
    price = document["prices"]["input"]
    low, high = sold[0].usd_per_mtok_input, sold[-1].usd_per_mtok_input
    beyond = [] if low <= price <= high or math.isclose(price, low) or math.isclose(price, high) else [price]
    line = [(end, asdict(answer.n_params_active_at(end))) for end in sorted([low, high, *beyond])]
    here = _times_dear(price, document["prices"]["output"])
    usual = _times_dear(*_median_prices(every))
    caption = (
        f"Each dot is one of {len(sold)} open models at its median list price. Line and band are for output "
        f"{here} as dear as input, as here, and lie lower the dearer output is (median of the dots: {usual})."
    )
    at = [_at_premium(document, one) for one in _PREMIUMS] if _is_usual(answer) else []
    figure = priced_sizes_figure(sold, line, (price, document[_MAIN]), at)
    return Plot("among", "Active parameters by input price", caption, figure, _MAIN, is_wide=True)


def _median_prices(every: Sequence[PricedModel]) -> tuple[float, float]:
    """Price of output over that of input, as a pair: the median of open models."""
    return 1.0, statistics.median(one.usd_per_mtok_output / one.usd_per_mtok_input for one in every)


def _times_dear(come: float, go: float) -> str:
    """How many times as dear output is as input.

    Examples
    --------
    >>> _times_dear(0.05, 0.4), _times_dear(3, 10)
    ('8 times', '3.3 times')
    """
    return f"{go / come:.2g} times"


def _ways(document: Mapping[str, Any]) -> tuple[dict[str, float], str]:
    """Weights by chip and precision, the largest first, and the speed targets that they stand for."""
    likely = [one for one in document["hypotheses"] if one["rejected"] is None]
    weights = {in_names(one["name"].rpartition(", ")[0]): float(one["weight"]) for one in likely}
    speeds = dict.fromkeys(", ".join(one["name"].split(", ")[1:]) for one in likely)
    return dict(sorted(weights.items(), key=lambda pair: -pair[1])), "; ".join(speeds)


def _is_alike(weights: Mapping[str, float]) -> bool:
    """Whether none of the likeliest ways of serving stands out."""
    drawn = list(weights.values())[:_LIKELIEST]
    return len(drawn) == _LIKELIEST and drawn[0] < _STANDS_OUT * drawn[-1]


def _narrower(bits: float | None) -> str:
    """How much narrower a range is than before, by how many times it was halved."""
    if bits is None:
        return ""
    share = 1 - 2.0**-bits
    return percent(share, 2) if share >= 0 else f"wider by {percent(-share, 2)}"


def _weights(document: Mapping[str, Any]) -> Table:
    """Answers to each question with their weights."""
    rows: list[list[str | Cell]] = []
    for question, group in document["questions"].items():
        for place, one in enumerate(sorted(group, key=lambda row: -row["weight"])):
            weight = percent(one["weight"], 2) if one["weight"] or not one["rejected"] else ""
            reason = f"ruled out: {one['rejected']}" if one["rejected"] else ""
            rows.append([question if place == 0 else "", Cell(in_names(one["name"]), below=reason), weight])
    weights, speeds = _ways(document)
    note = f"speed targets: {speeds}"
    if _is_alike(weights):
        note = f"no chip and precision together has twice the weight of the {_LIKELIEST}th likeliest; {note}"
    columns = ("question", "answer", "weight #")
    return Table("How it may be served, and how likely each way is", columns, rows, "hypotheses", note, is_detail=True)


def _margins(answer: InvertAnswer, document: Mapping[str, Any]) -> tuple[Table, ...]:
    if not _is_usual(answer):
        return ()
    rows = [
        [f"{one['extra_margin_ratio']:g} ×", words(one["n_params_active"], "params", 2)]
        for one in document["size_times_margin"]
    ]
    title = "At a premium, this price means a smaller model"
    return (Table(title, ("premium: price over open models'", "active parameters #"), rows, "n_params_active"),)


def _facts(readings: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = []
    for kind, name in _WRITES.items():
        if f"store_or_resend_s_{kind}" in readings:
            reads, span_s = readings[f"reads_to_break_even_{kind}"], readings[f"store_or_resend_s_{kind}"]
            out.append((name[:1].upper() + name[1:], write_words(reads, span_s)))
    if "fast_mode_batch_ratio" in readings:
        out.append(("Fast mode", f"batch / {readings['fast_mode_batch_ratio']:.3g} at equal margin"))
    return out


def write_words(reads: float, span_s: float) -> str:
    """From how many reads a write to the cache pays."""
    return (
        f"pays from {reads:.2f} reads within its life: for a prefix that comes back within {span_words(span_s)}, on "
        "average"
    )
