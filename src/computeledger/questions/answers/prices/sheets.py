"""Answer questions about price sheets of tokens: lists, sheets, bills, histories, and the cost floor of open models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from computeledger.economics.prices.points import PricePoints, open_models, shipped_points
from computeledger.economics.prices.readings import LIFETIMES_S, cache_reads_to_break_even, store_or_resend_s
from computeledger.economics.prices.sheets import PriceSheet, Rate, Usage, read_sheet
from computeledger.economics.prices.sheets import bill as price_request
from computeledger.economics.quality.drift import MARKET_DATE
from computeledger.errors import InputError, nearest
from computeledger.facts.load import load_model
from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.prices import source as price_source
from computeledger.questions.answers.serving.answer import answer_one_pool
from computeledger.questions.document import WHERE_KNOWN
from computeledger.questions.prices import (
    TOKENS,
    BillQuestion,
    PriceFloorQuestion,
    PriceHistoryQuestion,
    PriceListQuestion,
    PriceSheetQuestion,
)
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.search import pareto_front

#: Input tokens for each output token in a cost.
_INPUTS_PER_OUTPUT = 3.0
#: Draws of what is uncertain about a cost floor.
_SAMPLES = 64


@dataclass(frozen=True, repr=False, slots=True)
class PriceListAnswer(Answer):
    """Models that have a price sheet."""

    edition: str
    models: tuple[str, ...]


def answer_price_list(question: PriceListQuestion) -> PriceListAnswer:
    """Answer ``computeledger prices list``."""
    names = tuple(name for name in price_source.model_names() if question.text.lower() in name.lower())
    if not names:
        raise InputError(f"no model of {price_source.edition()} holds {question.text!r}")
    return PriceListAnswer(price_source.edition(), names)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PriceSheetAnswer(Answer):
    """A price sheet, and from how many reads a write to its cache pays."""

    sheet: PriceSheet

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger prices show --json`` prints it, USD per million tokens."""
        sheet = self.sheet
        base = {kind: float(rate.base) for kind, rate in sheet.rates.items()}
        document = {
            "name": sheet.name,
            "origin": sheet.origin,
            "usd_per_mtok": _rates(sheet.rates),
            "usd_per_request": float(sheet.request_price),
            "modes": {name: _rates(mode) for name, mode in sheet.modes.items()},
            "notes": list(sheet.notes),
        }
        kinds = [kind for kind in LIFETIMES_S if kind in base]
        if kinds and base.get("cached_read", math.inf) < base.get("input", 0.0):
            document["reads_to_break_even"] = {kind: cache_reads_to_break_even(base, kind) for kind in kinds}
            spans = {kind: store_or_resend_s(base, kind) for kind in kinds}
            document["store_or_resend_s"] = {kind: span for kind, span in spans.items() if math.isfinite(span)}
        return document


def _rates(rates: Mapping[str, Rate]) -> dict[str, Any]:
    return {
        kind: {
            "base": float(rate.base),
            "tiers": [
                {"above_tokens": tier.threshold_tokens, "inclusive": tier.is_inclusive, "price": float(tier.price)}
                for tier in rate.tiers
            ],
        }
        for kind, rate in rates.items()
    }


def answer_price_sheet(question: PriceSheetQuestion) -> PriceSheetAnswer:
    """Answer ``computeledger prices show``."""
    return PriceSheetAnswer(_sheet_named(question.name))


def _sheet_named(name: str, hour: str | None = None) -> PriceSheet:
    """A sheet from a TOML file, or from the snapshot at an hour of today."""
    if name.endswith(".toml"):
        return read_sheet(name)
    if hour is None:
        return price_source.load_sheet(name)
    hours, minutes = map(int, hour.split(":"))
    return price_source.load_sheet(name, datetime.now(tz=UTC).replace(hour=hours, minute=minutes))


@dataclass(frozen=True, slots=True)
class Bill:
    """What a request costs at one sheet [USD]."""

    name: str
    usd: float
    origin: str
    parts: Mapping[str, float]
    notes: tuple[str, ...]


@dataclass(frozen=True, repr=False, slots=True)
class BillAnswer(Answer):
    """One request at one or more price sheets, the cheapest first."""

    question: BillQuestion
    bills: tuple[Bill, ...]
    mode: str


def bill(question: BillQuestion | None = None, /, **given: Given) -> BillAnswer:
    """What one request costs at one or more price sheets, exactly as the sheets say it.

    Parameters
    ----------
    question : BillQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or sequence of str
        Fields of :class:`~computeledger.questions.prices.BillQuestion`.

    Returns
    -------
    BillAnswer
        A bill for each sheet, the cheapest first, with its parts.

    Raises
    ------
    InputError
        For a sheet that is not known, a mode that it lacks, and tokens that contradict one another.

    Examples
    --------
    >>> answer = bill(names="examples/money/price-sheet.toml", input_tokens="100K", output_tokens=1000)
    >>> cached = bill(answer.question, input_tokens="20K", cached_tokens="80K")
    >>> cached.bills[0].usd < 0.5 * answer.bills[0].usd
    True
    """
    return from_python(BillQuestion, answer_bill, question, given)


def answer_bill(question: BillQuestion) -> BillAnswer:
    """Answer ``computeledger prices bill``."""
    new, output, cached, *written = (int(getattr(question, name)) for name in TOKENS)
    usage = Usage(new + cached, output, cached, *written)  # a sheet's tiers go by the whole prompt
    bills = []
    for name in question.names:
        sheet = _sheet_named(name, question.at)
        parts = {kind: float(value) for kind, value in price_request(sheet, usage, question.mode).items()}
        bills.append(Bill(sheet.name, parts.pop("total"), sheet.origin, parts, sheet.notes))
    return BillAnswer(question, tuple(sorted(bills, key=lambda one: one.usd)), question.mode)


@dataclass(frozen=True, slots=True)
class DatedPrices:
    """Prices from one day on, or at some hours of the day [USD/Mtok]."""

    since: str
    usd_per_mtok: Mapping[str, float]
    ratio_to_previous: Mapping[str, float] | None = field(default=None, metadata=WHERE_KNOWN)


@dataclass(frozen=True, repr=False, slots=True)
class PriceHistoryAnswer(Answer):
    """Prices of a model through time, where the source has them."""

    name: str
    edition: str
    history: tuple[DatedPrices, ...]


def price_history(question: PriceHistoryQuestion | None = None, /, **given: Given) -> PriceHistoryAnswer:
    """Every dated set of prices that the source has for a model.

    Parameters
    ----------
    question : PriceHistoryQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str
        Fields of :class:`~computeledger.questions.prices.PriceHistoryQuestion`: ``name``, as ``provider/name``.

    Returns
    -------
    PriceHistoryAnswer
        Prices in USD per million tokens, the first first, each with its ratio to the one before.

    Raises
    ------
    InputError
        For a name that is not known, and without the package genai-prices.

    Examples
    --------
    >>> first, *later = price_history(name="deepseek/deepseek-chat").history
    >>> first.ratio_to_previous is None and all(one.ratio_to_previous for one in later)
    True
    """
    return from_python(PriceHistoryQuestion, answer_price_history, question, given)


def answer_price_history(question: PriceHistoryQuestion) -> PriceHistoryAnswer:
    """Answer ``computeledger prices history``."""
    rows: list[DatedPrices] = []
    for since, prices in price_source.history(question.name):
        before = rows[-1].usd_per_mtok if rows else {}
        moved = {kind: prices[kind] / before[kind] for kind in prices if before.get(kind)} if rows else None
        rows.append(DatedPrices(since, prices, moved))
    return PriceHistoryAnswer(question.name, price_source.edition(), tuple(rows))


@dataclass(frozen=True, slots=True)
class Seller:
    """What a provider asks for an open model, beside what its tokens cost to make."""

    provider: str
    input: float
    output: float
    price_over_cost_ratio: float
    price_over_cost_ratio_p05: float
    price_over_cost_ratio_p95: float
    below_cost: bool
    surely_below_cost: bool


@dataclass(frozen=True, repr=False, slots=True)
class PriceFloorAnswer(Answer):
    """Cost of an open model's tokens on given hardware beside its market prices."""

    model: str
    market: str
    system: str
    layout: str
    batch: int
    usd_per_mtok_cost: Mapping[str, float]
    market_date: str
    providers: tuple[Seller, ...]
    assumptions: tuple[str, ...] = (
        "three input tokens for each output token",
        "the GPUs are always sold",
        "the cheapest layout and batch; GPUs at the edition's rent unless priced",
    )


def price_floor(question: PriceFloorQuestion | None = None, /, **given: Given) -> PriceFloorAnswer:
    """Cost of an open model's tokens on given hardware beside its market prices: who sells below cost.

    Parameters
    ----------
    question : PriceFloorQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.prices.PriceFloorQuestion`.

    Returns
    -------
    PriceFloorAnswer
        The cheapest layout and batch with its cost, and each provider's price over it.

    Raises
    ------
    InputError
        For bad input, and for a model without market prices.

    Examples
    --------
    >>> answer = price_floor(model="llama-3.1-70b", system="h200-nvl8", price=2)
    >>> dearer = price_floor(model="llama-3.1-70b", system="h200-nvl8", price=4)
    >>> round(dearer.usd_per_mtok_cost["output"] / answer.usd_per_mtok_cost["output"], 6)
    2.0
    """
    return from_python(PriceFloorQuestion, answer_price_floor, question, given)


def answer_price_floor(question: PriceFloorQuestion) -> PriceFloorAnswer:
    """Answer ``computeledger prices floor``."""
    points = shipped_points()
    market = _market_name(question, sorted(set(points.model.tolist())))
    asked = ServeQuestion(model=question.model, system=question.system, price=question.price, samples=_SAMPLES)
    front = pareto_front(answer_one_pool(asked).options)
    best = min(front, key=lambda one: _blended(one.usd_per_mtok_input, one.usd_per_mtok_output))
    served = answer_one_pool(replace(asked, layout=str(best.layout), batch=best.batch))
    read, written = served.usd_per_mtok_input, served.usd_per_mtok_output
    cost = {end: _blended(getattr(read, end), getattr(written, end)) for end in ("p05", "p50", "p95")}
    sellers = [
        _seller(points, market, provider, cost)
        for provider in sorted(set(points.provider[points.model == market].tolist()))
    ]
    return PriceFloorAnswer(
        model=question.model,
        market=market,
        system=question.system,
        layout=str(best.layout),
        batch=best.batch,
        usd_per_mtok_cost={"input": read.p50, "output": written.p50},
        market_date=MARKET_DATE,
        providers=tuple(sorted(sellers, key=lambda one: one.price_over_cost_ratio)),
    )


def _market_name(question: PriceFloorQuestion, names: list[str]) -> str:
    """Name of the model in the table of market prices."""
    market = question.market or question.model.rpartition("/")[2]
    found = next((name for name in names if name.lower() == market.lower()), None)
    if found is None and question.market is None:
        shape = load_model(question.model).id
        found = next((one.name for one in open_models().values() if one.shape == shape), None)
    if found is None:
        raise InputError(f"no market prices of {market!r}: {nearest(market, names)} (--market)")
    return found


def _seller(points: PricePoints, market: str, provider: str, cost: Mapping[str, float]) -> Seller:
    mask = (points.model == market) & (points.provider == provider)
    asked = [float(np.exp(np.median(values[mask]))) for values in (points.log_input, points.log_output)]
    ratios = {end: _blended(asked[0], asked[1]) / usd for end, usd in cost.items()}
    return Seller(
        provider=provider,
        input=asked[0],
        output=asked[1],
        price_over_cost_ratio=ratios["p50"],
        price_over_cost_ratio_p05=ratios["p95"],
        price_over_cost_ratio_p95=ratios["p05"],
        below_cost=ratios["p50"] < 1,
        surely_below_cost=ratios["p05"] < 1,
    )


def _blended(input_usd: float, output_usd: float) -> float:
    """Cost of three input tokens and one output token, a million times."""
    return _INPUTS_PER_OUTPUT * input_usd + output_usd
