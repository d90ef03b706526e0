"""Answer who is strong for its price, and what a given quality costs over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from computeledger.economics.prices.inversion import PriceClues, revealed_sizes
from computeledger.economics.prices.points import open_models
from computeledger.economics.quality.ability import shipped_scale
from computeledger.economics.quality.evaluations import (
    evaluated_models,
    evaluated_prices,
    evaluations,
    unpriced,
    version_of,
)
from computeledger.economics.quality.size import SizeByAbility, shipped_sizes_by_ability
from computeledger.economics.quality.value import (
    LEAST_SPAN_YEARS,
    Decline,
    Fall,
    Offer,
    PriceRecord,
    Trend,
    fall_of,
    fit_decline,
    judged,
    price_records,
    priced_offers,
)
from computeledger.errors import InputError, unknown_id
from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.prices import QualityQuestion

_DATED = "a maker's price of today, or its last; the median of providers where the weights are open"


@dataclass(frozen=True, repr=False, slots=True)
class BenchmarkScale:
    """What a benchmark asks, in units of ability."""

    benchmark: str
    difficulty: float
    slope: float
    n_models: int


@dataclass(frozen=True, repr=False, slots=True)
class QualityAnswer(Answer):
    """Evaluated models by ability, beside their blended price."""

    has_working = False

    question: QualityQuestion
    offers: tuple[Offer, ...]
    trend: Trend
    benchmarks: tuple[BenchmarkScale, ...]
    score_scatter_fraction: float
    unpriced: tuple[str, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, repr=False, slots=True)
class QualityPriceAnswer(Answer):
    """Launch prices of a quality, each below all before it, and the line through their logarithms."""

    has_working = False

    question: QualityQuestion
    benchmark: str
    score_fraction: float
    records: tuple[PriceRecord, ...]
    fall: Fall
    decline: Decline | None
    assumptions: tuple[str, ...]


@dataclass(frozen=True, repr=False, slots=True)
class ImpliedSize:
    """Parameters, with a 90 % interval: active ones by price, stored ones by price and by ability."""

    kind: str
    told_by: str
    p05_params: float
    p50_params: float
    p95_params: float


@dataclass(frozen=True, repr=False, slots=True)
class QualitySizeAnswer(Answer):
    """What a model's price and its ability imply of its size; ``published`` where the weights are open."""

    has_working = False

    question: QualityQuestion
    version: str
    name: str
    released: str
    ability: float
    ability_error: float
    usd_per_mtok: float
    implied: tuple[ImpliedSize, ...]
    published_active_params: float | None
    published_total_params: float | None
    fit_active: SizeByAbility
    fit_total: SizeByAbility
    beyond_open_models: bool
    assumptions: tuple[str, ...]


AnyQualityAnswer: TypeAlias = QualityAnswer | QualityPriceAnswer | QualitySizeAnswer


def price_quality(question: QualityQuestion | None = None, /, **given: Given) -> AnyQualityAnswer:
    """Who is strong for its price; with ``at``, what that score costs over time; with ``size_of``, its size.

    Parameters
    ----------
    question : QualityQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or bool
        Fields of :class:`~computeledger.questions.prices.QualityQuestion`.

    Returns
    -------
    QualityAnswer, QualityPriceAnswer or QualitySizeAnswer
        Offers by ability, price records of a score, or implied sizes.

    Raises
    ------
    InputError
        For a benchmark that is not known, and a score that nobody with a price reaches.

    Examples
    --------
    >>> strongest = price_quality().offers[0]
    >>> bool(strongest.ability > 1)
    True
    >>> found = price_quality(at=0.33, no_reasoning=True)
    >>> found.records[0].usd_per_mtok > found.records[-1].usd_per_mtok
    True
    """
    return from_python(QualityQuestion, answer_quality, question, given)


def answer_quality(question: QualityQuestion) -> AnyQualityAnswer:
    """Answer ``computeledger prices quality``."""
    blend = f"{question.inputs_per_output:g} input tokens for each output token"
    kept = not question.no_reasoning
    if question.at is not None:
        return _price_of(question, blend)
    if question.size_of is not None:
        return _size_of(question, question.size_of, blend)
    scale, results = shipped_scale(), evaluations()
    offers, trend = judged(priced_offers(scale, question.inputs_per_output, kept))
    benchmarks = tuple(
        BenchmarkScale(
            name, float(scale.difficulty[place]), float(scale.slope[place]),
            len(set(results.who[results.which == place].tolist())),
        )
        for place, name in enumerate(scale.benchmarks)
    )  # fmt: skip
    assumptions = (blend, _DATED, "a token costs the same whoever writes it: reasoning models write more of them")
    return QualityAnswer(question, tuple(offers), trend, benchmarks, scale.scatter, unpriced(), assumptions)


def _price_of(question: QualityQuestion, blend: str) -> QualityPriceAnswer:
    at, results = float(question.at or 0.0), evaluations()
    records = price_records(results, question.benchmark, at, question.inputs_per_output, not question.no_reasoning)
    if not records:
        best = float(results.score[results.which == results.benchmarks.index(question.benchmark)].max())
        raise InputError(
            f"--at {at:g}: no model that has a price reaches it on {question.benchmark}; the best score is {best:g}"
        )
    assumptions = (blend, "a list price holds from the release on, where its source dates no change")
    fall, decline = fall_of(records), None
    if fall.span_years >= LEAST_SPAN_YEARS:
        decline = fit_decline([one.date for one in records], [one.usd_per_mtok for one in records])
    return QualityPriceAnswer(question, question.benchmark, at, tuple(records), fall, decline, assumptions)


def _size_of(question: QualityQuestion, version: str, blend: str) -> QualitySizeAnswer:
    models, prices, scale = evaluated_models(), evaluated_prices("last"), shipped_scale()
    if version not in models:
        raise unknown_id("evaluated version", version, models)
    if version not in prices:
        raise InputError(f"--size-of {version}: no price source names it, so its price implies nothing")
    runs = [place for place, name in enumerate(scale.names) if version_of()[name][0] == version]
    best = max(runs, key=lambda place: float(scale.ability[place]))
    model, price, ability = models[version], prices[version], float(scale.ability[best])
    by_price = revealed_sizes(PriceClues(price.usd_per_mtok_input, price.usd_per_mtok_output))
    active, total = shipped_sizes_by_ability()
    implied = [
        ImpliedSize(kind, "price", found["90"][0], found["median"][0], found["90"][1])
        for kind, found in zip(("active", "total"), by_price, strict=True)
    ]
    implied.append(ImpliedSize("total", "ability and date", *total.params(ability, model.released)))
    known = open_models().get(model.open_model)
    assumptions = (
        blend,
        "priced as open models of its size are; a premium of its seller makes it smaller",
        "as many parameters for its ability and date as open models",
        "the total by price is a line drawn on; sheet starts from the sizes of open models and puts it lower",
    )
    return QualitySizeAnswer(
        question, version, scale.names[best], model.released, ability, float(scale.error[best]),
        price.blended(question.inputs_per_output), tuple(implied),
        None if known is None else known.n_params_active, None if known is None else known.n_params_total,
        active, total, ability > total.strongest, assumptions,
    )  # fmt: skip
