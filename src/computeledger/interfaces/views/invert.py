"""The view of what a price sheet reveals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

from computeledger.interfaces.plots import palette
from computeledger.interfaces.plots.bars import bars_figure
from computeledger.interfaces.plots.prices import Told, before_after_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_table, with_interval
from computeledger.interfaces.views.display_names import in_names
from computeledger.interfaces.views.evidence import price_evidence
from computeledger.interfaces.views.tiers import span_words
from computeledger.interfaces.working import working_view
from computeledger.questions.answers.prices.invert import InvertAnswer
from computeledger.questions.wording import (
    ends_words,
    figure_words,
    headline_words,
    interval_words,
    listed,
    percent,
    words,
)

_NAMES = {
    "n_params_active": ("Active parameters", "params"),
    "n_params_total": ("Total parameters", "params"),
    "gross_margin_fraction": ("Gross margin", "fraction"),
    "decode_batch": ("Decode batch", ""),
    "utilization_fraction": ("Utilisation", "fraction"),
    "kv_bytes_per_token": ("KV cache per token", "B"),
}
_MAIN = "n_params_active"
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
    "Which total to use",
    (
        "that of Sheet (sheet): it starts from the sizes that open models have, and takes further clues; this one "
        "draws the line of open models on to the price alone, which makes a dear model's total larger"
    ),
)
_WRITES = {"cache_write": "a cache write", "cache_write_1h": "a cache write for an hour"}


def view(answer: InvertAnswer, working: bool) -> View:
    """Sizes, hypotheses and what stays unknown."""
    document = answer.to_dict(working=working)
    active, sheet = document["n_params_active"], document["sheet"]
    ends = ends_words(active, "params")
    is_usual = answer.clues.premium_ratio == 1 and not answer.clues.premium_spread
    margin = ", if sold at the open market's margin" if is_usual else ""
    prices = ", ".join(f"{kind.replace('_', ' ')} {words(price, 'USD')}" for kind, price in document["prices"].items())
    return View(
        title=f"{sheet['name']}: what its prices reveal",
        asked=(f"per million tokens: {prices}", sheet["origin"], *sheet["notes"]),
        headline=headline_words(
            f"A model sold at {prices} per million tokens"
            if sheet["origin"] == "given"
            else f"{sheet['name']}, sold at {prices}",
            f"about {figure_words(active, 'params')} active parameters{f' ({ends})' if ends else ''}{margin}",
        ),
        context=_told(document["identified"]),
        tiles=tuple(_tile(answer, document, key) for key in _NAMES if _is_tile(document, key)),
        plots=_plots(document),
        tables=(
            *_not_identified(document),
            *_alike_ways(document),
            _clues(document),
            _weights(document),
            _margins(document),
            *_rejected(document),
        ),
        facts=(*_facts(document["readings"]), _TOTAL),
        notes=tuple(document["not_identified"]),
        grounds=tuple(f"assumed: {one}" for one in document["assumptions"]),
        working=tuple(working_view(document)) if working else (),
        overline="invert",
        main=_MAIN,
        evidence=price_evidence(document),
    )


def _is_tile(document: Mapping[str, Any], key: str) -> bool:
    """Whether a quantity stands on top: the size that was asked for, and what else prices identify."""
    return bool(document["identified"][key]) or key == _MAIN


def _told(identified: Mapping[str, bool]) -> str:
    """What prices tell, and what stays unknown."""
    known = listed([said for key, said in _SAID.items() if identified[key]])
    unknown = listed([said for key, said in _SAID.items() if not identified[key]])
    if not unknown:
        return ""
    is_size = all(identified[key] is ("params" in key) for key in _SAID)
    return f"Prices tell {'the size only' if is_size else known or 'none of it'}: {unknown} stay unknown."


def _by_sheet(answer: InvertAnswer) -> tuple[str, str] | None:
    """The total that Sheet tells from the same price, and its address."""
    total = answer.n_params_total_by_sheet
    if total is None:
        return None
    rates = answer.sheet.rates
    price = f"{rates['input'].base}/{rates['output'].base}"
    return f"Sheet says {figure_words(asdict(total), 'params')}", f"/sheet?price={quote(price)}&speed=&date="


def _tile(answer: InvertAnswer, document: Mapping[str, Any], key: str) -> Tile:
    label, unit = _NAMES[key]
    known = "" if document["identified"][key] else " (not identified)"
    value = document[key]
    also = _by_sheet(answer) if key == "n_params_total" else None
    return with_interval(Tile(label + known, "", key=key, also=also), value, unit)


def _not_identified(document: Mapping[str, Any]) -> tuple[Table, ...]:
    """Quantities whose intervals prices do not narrow."""
    rows = [(label, document[key], unit) for key, (label, unit) in _NAMES.items() if not document["identified"][key]]
    note = "prices alone do not tell them: their intervals rest on what is assumed and on physics"
    left = next((key for key in _NAMES if not document["identified"][key]), "")
    made = quantity_table("Not identified by prices", rows, left)
    return (replace(made, note=note, is_detail=True),) if rows else ()


def _plots(document: Mapping[str, Any]) -> tuple[Plot, ...]:
    rows = [
        Told(label, unit, document["before_prices"][key], document[key], document["identified"][key],
             key == "gross_margin_fraction")
        for key, (label, unit) in _NAMES.items()
    ]  # fmt: skip
    weights, speeds = _ways(document)
    shown = f"The {_LIKELIEST} likeliest of {len(weights)}" if len(weights) > _LIKELIEST else "Weights"
    ways = Plot("hypotheses", "Likeliest ways of serving", f"{shown}, by chip, precision and speed target: {speeds}.",
                bars_figure(weights, "fraction", palette.PLAIN, most=_LIKELIEST), "hypotheses")  # fmt: skip
    return (
        Plot("told", "What the prices told", "Thin: 90 %, thick: half of all. Before: open models, and every way of "
             "serving them that fits. Hatched: prices do not identify it, and its interval rests on what is assumed.",
             before_after_figure(rows), "bits", is_wide=_is_alike(weights)),
        *(() if _is_alike(weights) else (ways,)),
    )  # fmt: skip


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


def _alike_ways(document: Mapping[str, Any]) -> tuple[Table, ...]:
    """Ways of serving as a closed table in place of a chart, where none stands out."""
    weights, speeds = _ways(document)
    if not _is_alike(weights):
        return ()
    rows = [[name, percent(weight)] for name, weight in list(weights.items())[:_LIKELIEST]]
    note = "the likeliest has less than twice the weight of the last one here, so that prices choose none of them; "
    note += f"speed targets: {speeds}"
    title = "Ways of serving: none stands out"
    return (Table(title, ("chip, precision", "weight #"), rows, "hypotheses", note, is_detail=True),)


def _clues(document: Mapping[str, Any]) -> Table:
    """Intervals before and after, bits that all clues tell together, and each alone."""
    alone = document["informed_by"]
    rows = []
    for key, (label, unit) in _NAMES.items():
        ends = [interval_words(one[key], unit) for one in (document["before_prices"], document)]
        together = f"{document['bits'][key]:.2f}" if document["identified"][key] else "–"
        each = (bits.get(key) for bits in alone.values())
        rows.append([label, *ends, together, *("" if bits is None else f"{bits:.2f}" for bits in each)])
    columns = ("", "before any price #", "after #", "bits #", *(f"{name} #" for name in alone))
    note = (
        "before and after: 90 % intervals. A bit: half the width of the interval before, from all clues and from each "
        "alone; below 0 a clue alone widens it, since it moves weight to hypotheses that differ more; –: prices do not "
        "identify it; its interval rests on what is assumed and on physics"
    )
    return Table("What each clue told", columns, rows, "bits", note, drops=tuple(alone))


def _weights(document: Mapping[str, Any]) -> Table:
    """Answers to each question with their weights."""
    rows: list[list[str | Cell]] = []
    for question, group in document["questions"].items():
        for place, one in enumerate(sorted(group, key=lambda row: -row["weight"])):
            weight = f"{one['weight']:.3f}" if one["weight"] or not one["rejected"] else ""
            reason = f"ruled out: {one['rejected']}" if one["rejected"] else ""
            rows.append([question if place == 0 else "", Cell(in_names(one["name"]), below=reason), weight])
    return Table("How likely each assumption is", ("question", "answer", "weight #"), rows, "hypotheses")


def _margins(document: Mapping[str, Any]) -> Table:
    rows = [
        [f"{one['extra_margin_ratio']:g} ×", words(one["n_params_active"], "params")]
        for one in document["size_times_margin"]
    ]
    title = "A wider margin would mean a smaller model"
    return Table(title, ("extra margin", "active parameters #"), rows, "n_params_active")


def _rejected(document: Mapping[str, Any]) -> list[Table]:
    """Combinations of chip, precision and speed that the prices exclude, by reason."""
    steps = {one["name"] for one in document["questions"].get("price step", ())}
    refused: dict[str, list[str]] = {}
    for one in document["hypotheses"]:
        if one["rejected"] and one["name"] not in steps:
            refused.setdefault(one["rejected"], []).append(one["name"])
    rows: list[list[str | Cell]] = [[why, "; ".join(map(in_names, names))] for why, names in refused.items()]
    return (
        [Table("Ways of serving that are ruled out", ("why", "chip, precision, speed"), rows, "hypotheses")]
        if rows
        else []
    )


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
