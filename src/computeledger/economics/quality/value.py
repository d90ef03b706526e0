"""Who is strong for its price: offers by ability and blended price, frontier and trend; and what a quality costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from computeledger.arrays import t_95
from computeledger.economics.quality.ability import Scale
from computeledger.economics.quality.evaluations import Floats, Results, evaluated_models, evaluated_prices, version_of
from computeledger.units import DAY_S, YEAR_S

#: Fewest price records that a line is drawn through: two of them are free.
LEAST_RECORDS = 4
#: Shortest span of records whose line is given as a yearly rate: less would be drawn on beyond them [year].
LEAST_SPAN_YEARS = 1.0


@dataclass(frozen=True, slots=True)
class Offer:
    """A model as it was run, with its ability and what its tokens cost.

    ``excess_ability`` is ability beyond the trend of all offers at that price and age; ``price_over_frontier_ratio``
    how many times the cheapest offer that is as strong it costs. On the frontier no other is as strong for as little.
    """

    name: str
    version: str
    released: str
    reasons: bool
    ability: float
    ability_error: float
    usd_per_mtok: float
    basis: str
    excess_ability: float = math.nan
    price_over_frontier_ratio: float = math.nan
    on_frontier: bool = False


@dataclass(frozen=True, slots=True)
class Trend:
    """Ability of offers by price and date: what ten times the price and a year later go with, in units of ability."""

    per_tenfold_price: float
    per_year: float
    scatter: float
    n_offers: int


def years_between(first: str, last: str) -> float:
    """Time between two days [year].

    Examples
    --------
    >>> round(years_between("2024-01-01", "2025-01-01"), 3)
    1.002
    """
    return (date.fromisoformat(last) - date.fromisoformat(first)).days * DAY_S / YEAR_S


def priced_offers(scale: Scale, inputs_per_output: float, with_reasoning: bool = True) -> list[Offer]:
    """Every evaluated model that has a price, the strongest first.

    Examples
    --------
    >>> from computeledger.economics.quality.ability import shipped_scale
    >>> offers = priced_offers(shipped_scale(), 3.0)
    >>> offers[0].ability > offers[-1].ability
    True
    """
    prices, models = evaluated_prices("last"), evaluated_models()
    offers = []
    for place, name in enumerate(scale.names):
        version, effort = version_of()[name]
        reasons = models[version].reasons or bool(effort)
        if version in prices and (with_reasoning or not reasons):
            price = prices[version]
            offers.append(
                Offer(
                    name, version, models[version].released, reasons, float(scale.ability[place]),
                    float(scale.error[place]), price.blended(inputs_per_output), price.basis,
                )
            )  # fmt: skip
    return sorted(offers, key=lambda one: (-one.ability, one.usd_per_mtok))


def judged(offers: Sequence[Offer]) -> tuple[list[Offer], Trend]:
    """Offers beside the trend and the frontier of all of them, the strongest first.

    Parameters
    ----------
    offers : sequence of Offer
        Four or more.

    Returns
    -------
    tuple of list of Offer and Trend
        With ``excess_ability`` and ``price_over_frontier_ratio``.

    Examples
    --------
    >>> from computeledger.economics.quality.ability import shipped_scale
    >>> found, trend = judged(priced_offers(shipped_scale(), 3.0))
    >>> trend.per_year > 0 and min(one.price_over_frontier_ratio for one in found) == 1.0
    True
    """
    first = min(one.released for one in offers)
    ability = np.array([one.ability for one in offers])
    price = np.array([one.usd_per_mtok for one in offers])
    ages = np.array([years_between(first, one.released) for one in offers])
    design = np.column_stack([np.ones(len(offers)), np.log10(price), ages])
    found = np.linalg.lstsq(design, ability, rcond=None)[0]
    left = ability - design @ found
    scatter = float(np.sqrt(np.sum(left**2) / max(len(offers) - 3, 1)))
    rows = []
    for one, beyond in zip(offers, left, strict=True):
        better = (ability >= one.ability) & (price <= one.usd_per_mtok)
        better &= (ability > one.ability) | (price < one.usd_per_mtok)
        ratio = one.usd_per_mtok / float(price[ability >= one.ability].min())
        rows.append(
            replace(
                one, excess_ability=float(beyond), price_over_frontier_ratio=ratio, on_frontier=not bool(better.any())
            )
        )
    rows.sort(key=lambda one: (-one.ability, one.usd_per_mtok))
    return rows, Trend(float(found[1]), float(found[2]), scatter, len(offers))


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """An offer that was cheaper than every earlier one of the quality."""

    date: str
    name: str
    score: float
    usd_per_mtok: float
    source: str
    locator: str


@dataclass(frozen=True, slots=True)
class Fall:
    """How many times cheaper the last record is than the first, and the years between them."""

    ratio: float
    span_years: float


@dataclass(frozen=True, slots=True)
class Decline:
    """How many times cheaper a quality gets in a year, with the 90 % interval of the line's slope."""

    ratio_per_year: float
    p05_ratio_per_year: float
    p95_ratio_per_year: float
    n_records: int


def price_records(
    results: Results, benchmark: str, least_score: float, inputs_per_output: float, with_reasoning: bool = True
) -> list[PriceRecord]:
    """Launch prices of the models that reach a score, where each was the cheapest so far.

    Examples
    --------
    >>> from computeledger.economics.quality.evaluations import evaluations
    >>> [one.name for one in price_records(evaluations(), "gpqa-diamond", 0.33, 3.0)][:2]
    ['gpt-4-0314', 'claude-2.0']
    """
    prices, models = evaluated_prices("launch"), evaluated_models()
    place = results.benchmarks.index(benchmark)
    rows: dict[str, PriceRecord] = {}
    for who, score in zip(*(getattr(results, key)[results.which == place] for key in ("who", "score")), strict=True):
        name = results.names[who]
        version, effort = version_of()[name]
        thinks = models[version].reasons or bool(effort)
        if score >= least_score and version in prices and (with_reasoning or not thinks):
            price = prices[version]
            rows[name] = PriceRecord(
                models[version].released, name, float(score), price.blended(inputs_per_output),
                price.source, price.locator,
            )  # fmt: skip
    return cheapest_so_far(list(rows.values()))


def cheapest_so_far(offers: Sequence[PriceRecord]) -> list[PriceRecord]:
    """Offers that cost less than every one before them.

    Examples
    --------
    >>> rows = [PriceRecord(f"2024-0{i}-01", "x", 0.5, usd, "", "") for i, usd in ((1, 4.0), (2, 5.0), (3, 1.0))]
    >>> [one.usd_per_mtok for one in cheapest_so_far(rows)]
    [4.0, 1.0]
    """
    kept: list[PriceRecord] = []
    for one in sorted(offers, key=lambda row: (row.date, row.usd_per_mtok)):
        if not kept or one.usd_per_mtok < kept[-1].usd_per_mtok:
            kept.append(one)
    return kept


def fall_of(records: Sequence[PriceRecord]) -> Fall:
    """First price over last, as observed: nothing is drawn on beyond the records.

    Examples
    --------
    >>> rows = [PriceRecord(day, "x", 0.5, usd, "", "") for day, usd in (("2024-01-01", 4.0), ("2024-07-01", 1.0))]
    >>> fall_of(rows).ratio, round(fall_of(rows).span_years, 1)
    (4.0, 0.5)
    """
    first, last = records[0], records[-1]
    return Fall(first.usd_per_mtok / last.usd_per_mtok, years_between(first.date, last.date))


def fit_decline(dates: Sequence[str], prices: Sequence[float] | Floats) -> Decline | None:
    """Fit a straight line to logarithms of prices over time; none with fewer than four records.

    Parameters
    ----------
    dates : sequence of str
        ISO.
    prices : sequence of float
        Of the same quality, above 0 [USD/Mtok].

    Returns
    -------
    Decline or None
        By how many times the price falls in a year.

    Examples
    --------
    >>> found = fit_decline([f"{year}-01-01" for year in range(2020, 2026)], [10.0 ** -i for i in range(6)])
    >>> round(found.ratio_per_year, 1)
    10.0
    """
    if len(prices) < LEAST_RECORDS or len(set(dates)) < 2:
        return None
    x = np.array([years_between(dates[0], one) for one in dates])
    y = np.log(np.asarray(prices, float))
    about = x - x.mean()
    square = float(np.sum(about**2))
    slope = float(np.sum(about * y)) / square
    rest = y - y.mean() - slope * about
    half = t_95(len(x) - 2) * math.sqrt(float(np.sum(rest**2)) / (len(x) - 2) / square)
    low, ratio, high = (math.exp(-slope + side * half) for side in (-1, 0, 1))
    return Decline(ratio, low, high, len(x))
