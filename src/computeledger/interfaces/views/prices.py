"""The views of price sheets: what a model asks for its tokens, what a request costs, and what tokens cost to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from computeledger.interfaces.plots.bars import bars_figure
from computeledger.interfaces.plots.palette import PLAIN
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.interfaces.views.invert import write_words
from computeledger.questions.answer import Answer
from computeledger.questions.answers.prices.sheets import (
    BillAnswer,
    PriceFloorAnswer,
    PriceHistoryAnswer,
    PriceListAnswer,
    PriceSheetAnswer,
    Seller,
)
from computeledger.questions.wording import headline_words, short_model
from computeledger.units import format_count, format_usd

#: Digits of a listed price, which is exact.
_EXACT = 6
_PER_MTOK = "USD per million tokens"


def view(answer: Answer, working: bool) -> View:  # noqa: ARG001 (prices are facts, and show no working)
    """Of a list, a sheet, a bill, a history or a cost floor."""
    name, make = _VIEWS[type(answer).__name__]
    return replace(make(answer), overline=f"prices {name}")


def _list(answer: PriceListAnswer) -> View:
    rows = [[name] for name in answer.models]
    said = f"{format_count(len(rows), 'sheet')} of {answer.edition}"
    return View(
        title=said,
        headline=headline_words("Prices of tokens", said),
        tables=(Table("", ("provider/model",), rows),),
    )


def _sheet(answer: PriceSheetAnswer) -> View:
    document = answer.to_dict()
    rows = [
        [mode, kind, format_usd(rate["base"], _EXACT), "; ".join(map(_tier_words, rate["tiers"]))]
        for mode, rates in {"standard": document["usd_per_mtok"], **document["modes"]}.items()
        for kind, rate in rates.items()
    ]
    spans = document.get("store_or_resend_s", {})
    facts = [
        (kind, write_words(reads, spans[kind]) if kind in spans else "always pays")
        for kind, reads in document.get("reads_to_break_even", {}).items()
    ]
    if document["usd_per_request"]:
        facts.append(("each request", format_usd(document["usd_per_request"], _EXACT)))
    return View(
        title=f"{document['name']} ({document['origin']})",
        headline=headline_words(document["name"], _listed_words(document["usd_per_mtok"])),
        tables=(Table(_PER_MTOK, ("mode", "tokens", "price #", "long prompts"), rows),),
        facts=tuple(facts),
        grounds=tuple(document["notes"]),
    )


def _listed_words(rates: Mapping[str, Any]) -> str:
    """What is listed for new input and for output; of a sheet without them, for its first kind of tokens."""
    kinds = [kind for kind in ("input", "output") if kind in rates] or list(rates)[:1]
    said = ", ".join(f"{format_usd(rates[kind]['base'], _EXACT)} {kind}" for kind in kinds)
    return f"{said} per million tokens"


def _tier_words(tier: dict[str, Any]) -> str:
    edge = "from" if tier["inclusive"] else "above"
    return f"{format_usd(tier['price'], _EXACT)} {edge} {tier['above_tokens']:,} tokens"


def _bill(answer: BillAnswer) -> View:
    bills = answer.bills
    kinds = [kind for kind in bills[0].parts if any(one.parts.get(kind) for one in bills)]
    columns = ("sheet", "total #", *(f"{kind.replace('_', ' ')} #" for kind in kinds))
    rows = [
        [one.name, format_usd(one.usd, _EXACT), *(format_usd(one.parts.get(kind, 0.0)) for kind in kinds)]
        for one in bills
    ]
    first, last = bills[0], bills[-1]
    said = f"{format_usd(first.usd, _EXACT)} at {first.name}"
    if len(bills) > 1:
        said += f", {format_usd(last.usd, _EXACT)} at {last.name}"
    return View(
        title=f"One request, {answer.mode} mode",
        headline=headline_words("One such request", said),
        plots=(
            Plot(
                "bills",
                "Bills",
                "What the same request costs at each sheet.",
                bars_figure({one.name: one.usd for one in bills}, "USD", PLAIN),
            ),
        ),
        tables=(Table("Cheapest first", columns, rows),),
        grounds=tuple(
            dict.fromkeys("; ".join((f"{one.name}: {one.origin}", *map(_note_words, one.notes))) for one in bills)
        ),
    )


def _note_words(text: str) -> str:
    """A note with the keys of a price list in words: ``web_searches_kcount`` counts thousands of web searches."""
    return text.replace("_kcount", "").replace("_", " ")


def _history(answer: PriceHistoryAnswer) -> View:
    kinds = list(dict.fromkeys(kind for one in answer.history for kind in one.usd_per_mtok))
    rows: list[list[str | Cell]] = []
    for one in answer.history:
        moved = one.ratio_to_previous or {}
        cells = [
            Cell(format_usd(one.usd_per_mtok[kind]), below=f"x{moved[kind]:.3g}" if moved.get(kind, 1.0) != 1 else "")
            if kind in one.usd_per_mtok
            else Cell("")
            for kind in kinds
        ]
        rows.append([one.since, *cells])
    return View(
        title=f"{answer.name} ({answer.edition})",
        headline=headline_words(answer.name, f"{format_count(len(rows), 'price list')} in {answer.edition}"),
        tables=(Table(_PER_MTOK, ("holds", *(f"{kind.replace('_', ' ')} #" for kind in kinds)), rows),),
        grounds=("beside a price: how many times the one before it, where it changed",) if len(rows) > 1 else (),
    )


def _floor(answer: PriceFloorAnswer) -> View:
    cost, sellers = answer.usd_per_mtok_cost, answer.providers
    rows: list[list[str | Cell]] = [
        [
            one.provider,
            format_usd(one.input),
            format_usd(one.output),
            Cell(
                f"{one.price_over_cost_ratio:.2f}",
                below=f"{one.price_over_cost_ratio_p05:.2f} – {one.price_over_cost_ratio_p95:.2f}",
            ),
            _verdict(one),
        ]
        for one in sellers
    ]
    below, surely = (sum(getattr(one, name) for one in sellers) for name in ("below_cost", "surely_below_cost"))
    n_sellers = format_count(len(sellers), "provider")
    ratios = {
        one.provider: {
            "p05": one.price_over_cost_ratio_p05,
            "p50": one.price_over_cost_ratio,
            "p95": one.price_over_cost_ratio_p95,
        }
        for one in sellers
    }
    return View(
        title=f"{answer.model} on {answer.system}",
        headline=headline_words(
            f"{short_model(answer.model)} on {answer.system}",
            f"{format_usd(cost['output'])} per million output tokens to make at the medians; {below} of {n_sellers} "
            f"sell below that, {surely} of them below its whole interval",
        ),
        tiles=(
            Tile("Input", f"{format_usd(cost['input'])}/Mtok", key="usd_per_mtok_cost.input"),
            Tile("Output", f"{format_usd(cost['output'])}/Mtok", key="usd_per_mtok_cost.output"),
        ),
        plots=(
            Plot(
                "ratios",
                "Price over cost",
                "At 1 a provider sells at the cost on this hardware.",
                bars_figure(ratios, "x", PLAIN, most=len(ratios)),
                "price_over_cost_ratio",
            ),
        ),
        tables=(
            Table(
                f"Market of {answer.market_date}, {answer.market}",
                ("provider", "input #", "output #", "price / cost #", ""),
                rows,
                "providers",
            ),
        ),
        facts=(("Cheapest to make", f"{answer.layout}, batch {answer.batch:,}"),),
        grounds=(f"assumed: {'; '.join(answer.assumptions)}",),
        tile_heading="median cost",
    )


def _verdict(one: Seller) -> str:
    if not one.below_cost:
        return ""
    return "below the whole interval" if one.surely_below_cost else "below the median cost"


_VIEWS: dict[str, tuple[str, Callable[[Any], View]]] = {
    "PriceListAnswer": ("list", _list),
    "PriceSheetAnswer": ("show", _sheet),
    "BillAnswer": ("bill", _bill),
    "PriceHistoryAnswer": ("history", _history),
    "PriceFloorAnswer": ("floor", _floor),
}
