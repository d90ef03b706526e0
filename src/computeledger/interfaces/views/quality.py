"""The views of quality against price: who is strong for its price, and what a quality costs over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from computeledger.economics.quality.value import LEAST_RECORDS, LEAST_SPAN_YEARS, Offer
from computeledger.interfaces.plots.compare import intervals_figure
from computeledger.interfaces.plots.quality import model_of_version, offers_figure, records_figure
from computeledger.interfaces.view import Cell, Evidence, Plot, Table, Tile, View
from computeledger.interfaces.views.display_names import benchmark_name
from computeledger.questions.answer import Answer
from computeledger.questions.answers.prices.quality import (
    ImpliedSize,
    QualityAnswer,
    QualityPriceAnswer,
    QualitySizeAnswer,
)
from computeledger.questions.wording import headline_words, words
from computeledger.units import format_count, format_si, format_usd

#: Rows of the table of what is strong for its price.
_MOST = 10
#: Of evaluations and prices.
_SOURCES = ("epoch-benchmark-runs", "genai-prices", "litellm-prices", "litellm-editions")


def view(answer: Answer, working: bool) -> View:  # noqa: ARG001 (every row names its source in the document)
    """Of a ranking, or of a price over time."""
    if isinstance(answer, QualityPriceAnswer):
        return _price(answer)
    return _size(answer) if isinstance(answer, QualitySizeAnswer) else _ranking(cast("QualityAnswer", answer))


def _ranking(answer: QualityAnswer) -> View:
    offers, trend = answer.offers, answer.trend
    front = [one for one in offers if one.on_frontier]
    strong = sorted(offers, key=lambda one: -one.excess_ability)[:_MOST]
    columns = ("model", "released", "ability #", "USD/Mtok #", "beyond the trend #")
    benchmarks = [
        [benchmark_name(one.benchmark), f"{one.difficulty:.2f}", f"{one.slope:.2f}", f"{one.n_models}"]
        for one in answer.benchmarks
    ]
    return View(
        title="Ability against price",
        overline="prices quality",
        headline=headline_words(
            f"Of {len(offers)} evaluated models",
            _strongest(front),
        ),
        context=f"For {len(front)} of them no other is as strong for less: the line in the chart.",
        plots=(
            Plot(
                "offers",
                "Ability and price",
                "Up and to the left is better. Ability 0 is half of GPQA diamond beyond guessing.",
                offers_figure(answer.to_dict()["offers"]),
                "offers",
            ),
        ),
        tables=(
            Table("Nobody is as strong for less", columns, [_row(one) for one in front], "offers"),
            Table("Strong for their price and date", columns, [_row(one) for one in strong], "offers"),
            Table(
                "Benchmarks on the scale of ability", ("benchmark", "difficulty #", "slope #", "models #"), benchmarks,
                "benchmarks", "a model of that ability gets half of what guessing does not",
            ),
        ),
        facts=(
            ("Ten times the price", f"goes with {trend.per_tenfold_price:+.2f} of ability"),
            ("A year later", f"goes with {trend.per_year:+.2f} of ability"),
            ("Scatter around that", f"{trend.scatter:.2f} of ability"),
        ),
        notes=(
            "ability: log-odds of GPQA diamond above guessing, from all benchmarks; beside it, its standard error",
            f"{format_count(len(answer.unpriced), 'evaluated version')} without a price in any source: left out",
        ),
        grounds=(f"assumed: {'; '.join(answer.assumptions)}",),
        sources=_SOURCES,
    )  # fmt: skip


def _strongest(front: Sequence[Offer]) -> str:
    """The strongest model, and the cheapest whose ability is within noise of its own."""
    first = front[0]
    said = f"{model_of_version(first.name)} is the strongest, at {words(first.usd_per_mtok, 'USD', 2)}/Mtok"
    near = [
        one for one in front
        if first.ability - one.ability < math.hypot(first.ability_error, one.ability_error)
    ]  # fmt: skip
    other = min(near, key=lambda one: one.usd_per_mtok)
    if other is first:
        return said
    return f"{said}; {model_of_version(other.name)} is within noise of it at {words(other.usd_per_mtok, 'USD', 2)}"


def _row(one: Offer) -> list[str | Cell]:
    ability = Cell(f"{one.ability:.2f}", below=f"± {one.ability_error:.2f}")
    return [one.name, one.released, ability, format_usd(one.usd_per_mtok), f"{one.excess_ability:+.2f}"]


def _price(answer: QualityPriceAnswer) -> View:
    records, decline = answer.records, answer.decline
    first, last = records[0], records[-1]
    asked = f"{100 * answer.score_fraction:g} % on {benchmark_name(answer.benchmark)}"
    prices = [f"{format_usd(one.usd_per_mtok)}/Mtok" for one in (first, last)]
    said = headline_words(asked, f"{prices[0]} at first ({first.name}), {prices[1]} at last ({last.name})")
    context = ""
    months = 12 * answer.fall.span_years
    few = len(records) < LEAST_RECORDS
    why = f"{len(records)} price records, fewer than {LEAST_RECORDS}" if few else (
        f"the records span {months:.2g} months, less than {12 * LEAST_SPAN_YEARS:g}"
    )  # fmt: skip
    notes: tuple[str, ...] = (f"{why}: no yearly rate is drawn from them",)
    tiles: tuple[Tile, ...] = ()
    if len(records) > 1:
        tiles = (Tile(f"Cheaper within {months:.2g} months", f"{_times(answer.fall.ratio)} ×", "as observed",
                      answer.fall.ratio, "fall.ratio"),)  # fmt: skip
    if decline is not None:
        low, high = map(_times, (decline.p05_ratio_per_year, decline.p95_ratio_per_year))
        context = f"It gets {_times(decline.ratio_per_year)} times cheaper a year, {low} – {high}."
        tiles = (
            Tile(
                "Cheaper a year", f"{_times(decline.ratio_per_year)} ×", f"{low} – {high}", decline.ratio_per_year,
                "decline.ratio_per_year",
            ),
        )  # fmt: skip
        notes = ("the interval is the line's own, 90 %: a few records, chosen because they were low",)
    rows: list[list[str | Cell]] = [
        [one.date, one.name, f"{100 * one.score:.1f} %", format_usd(one.usd_per_mtok), one.locator] for one in records
    ]
    return View(
        title=f"The price of {asked}",
        overline="prices quality",
        headline=said,
        context=context,
        tiles=tiles,
        main="decline.ratio_per_year",
        plots=(
            Plot(
                "records",
                "Price of the quality",
                "Launch prices, each below all before it.",
                records_figure(answer.to_dict()["records"]),
                "records",
            ),
        ),
        tables=(Table("Cheapest so far", ("date", "model", "score #", "USD/Mtok #", "read in"), rows, "records"),),
        notes=notes,
        grounds=(f"assumed: {'; '.join(answer.assumptions)}",),
        sources=_SOURCES,
    )


def _size(answer: QualitySizeAnswer) -> View:
    active, total = answer.fit_active, answer.fit_total
    rows: list[list[str | Cell]] = [
        [one.kind, one.told_by, format_si(one.p50_params), _ends(one)] for one in answer.implied
    ]
    for kind, known in (("active", answer.published_active_params), ("total", answer.published_total_params)):
        if known is not None:
            rows.append([kind, "published", format_si(known), ""])
    notes: tuple[str, ...] = (
        (
            f"total by ability: half of {total.n_models} left-out open models within "
            f"{total.median_error_ratio:.2g} times, {total.mean_error_ratio:.2g} from their mean size"
        ),
        (
            f"active parameters are not told by ability: {active.median_error_ratio:.2g} times, "
            f"{active.mean_error_ratio:.2g} from the mean"
        ),
    )
    if answer.beyond_open_models:
        notes = (
            *notes,
            f"stronger than every open model in the fit (ability {total.strongest:.2f}): extrapolated",
        )
    by_price, by_ability = answer.implied[0], answer.implied[2]
    return View(
        title=f"{answer.name}: what its price and its ability imply",
        overline="prices quality",
        asked=(
            f"released {answer.released}",
            f"{format_usd(answer.usd_per_mtok)}/Mtok blended",
            f"ability {answer.ability:.2f} ± {answer.ability_error:.2f}",
        ),
        headline=headline_words(
            answer.name,
            f"about {format_si(by_price.p50_params)} active parameters by its price (90\u00a0%: "
            f"{_ends(by_price).replace(' – ', ' to ')})",
        ),
        context=f"In all {format_si(by_ability.p50_params)} by its ability, {_ends(by_ability)}.",
        evidence=Evidence(
            f"{total.n_models} open models of known size, each left out of the fit in turn: half of the total sizes by "
            f"ability lie within {total.median_error_ratio:.2g} times the published ones."
        ),
        plots=(
            Plot(
                "implied",
                "Implied size",
                "Medians with 90 % intervals, on a scale of ratios.",
                intervals_figure(_sizes(answer), "params"),
                "implied",
            ),
        ),
        tables=(Table("Implied size", ("parameters", "estimated from", "median #", "90 % interval"), rows, "implied"),),
        notes=notes,
        grounds=(f"assumed: {'; '.join(answer.assumptions)}",),
        sources=_SOURCES,
    )


def _ends(one: ImpliedSize) -> str:
    return f"{format_si(one.p05_params)} – {format_si(one.p95_params)}"


def _sizes(answer: QualitySizeAnswer) -> dict[str, Any]:
    """What price and ability imply, and what was published."""
    ends = {f"{one.kind}, by {one.told_by}": (one.p05_params, one.p50_params, one.p95_params) for one in answer.implied}
    published = {"active": answer.published_active_params, "total": answer.published_total_params}
    ends |= {f"{kind}, published": (size, size, size) for kind, size in published.items() if size is not None}
    return {
        name: {"p05": low, "p10": low, "p50": mid, "p90": high, "p95": high} for name, (low, mid, high) in ends.items()
    }


def _times(ratio: float) -> str:
    """A ratio in two digits."""
    return f"{ratio:.2g}" if ratio < 100 else format_si(ratio, digits=2)
