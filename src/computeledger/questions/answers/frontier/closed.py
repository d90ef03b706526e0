"""Answer what scraps say of a closed model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import Z_95, Range, Uncertain
from computeledger.economics.prices.inversion import PriceClues, revealed_sizes
from computeledger.economics.quality.drift import MARKET_DATE, market_drift
from computeledger.economics.quality.value import years_between
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_accelerator
from computeledger.fields import Given
from computeledger.frontier.capability import fitted_capability, read_scores
from computeledger.frontier.closed_models import SPARSITY, ClosedModel, Floats, Pull, Scraps, fitted_laws, infer
from computeledger.frontier.clues import WRONG, WRONG_RATIO
from computeledger.frontier.epoch_files import checked_day
from computeledger.frontier.narrowing import Narrowing, narrowings
from computeledger.frontier.systems import system_of_accelerator
from computeledger.frontier.trials import open_model_of, tried_by
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answer import Answer, Quantity, from_python
from computeledger.questions.answers.frontier.closed_working import sheet_working
from computeledger.questions.document import document
from computeledger.questions.sheet import SheetQuestion
from computeledger.validation.prices_near import sizes_by_price

#: Unit of each figure.
UNITS = {
    "n_params_active": "", "n_params_total": "", "tokens": "tokens", "training_flop": "FLOP", "gpu_hours": "GPU-hours",
    "training_usd": "USD",
}  # fmt: skip
#: What stands between figures: stored over active parameters, utilisation, the price of a GPU-hour.
_BETWEEN = ("stored_per_active_ratio", "utilization_fraction", "usd_per_gpu_hour")
#: Ends of what a price list may say [USD/Mtok], and days that a model may have come out on.
_CHEAPEST, _DEAREST = 1e-5, 1e5
_FIRST_DAY, _LAST_DAY = "2022-01-01", "2027-12-31"

#: Premiums that are told beside the prices of open models.
_PREMIUMS = (2.0, 4.0)
_LN_10 = math.log(10.0)

_WRONG_WORDS = (
    f"each clue but the date is wrong with a probability of {WRONG:.0%}, and then off by a factor of about "
    f"{WRONG_RATIO:g}"
)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ClosedModelAnswer(Answer):
    """A closed model's sheet: its figures, what each clue does to them, and which clues contradict the others."""

    question: SheetQuestion
    scraps: Scraps
    result: ClosedModel
    narrowings: tuple[Narrowing, ...]

    @property
    def n_params_active(self) -> Quantity:
        """Parameters multiplied per token [params]."""
        return _quantity(self.result.quantiles["n_params_active"], "")

    @property
    def n_params_total(self) -> Quantity:
        """Parameters stored [params]."""
        return _quantity(self.result.quantiles["n_params_total"], "")

    @property
    def n_params_total_half(self) -> tuple[float, float]:
        """Ends of half of the total parameters [params]."""
        _, _, _, _, _, low, high = self.result.quantiles["n_params_total"].tolist()
        return low, high

    @property
    def by_price(self) -> tuple[Quantity, Quantity] | None:
        """Active parameters by the price alone: what ``invert`` tells, and this; None at a premium or an old price."""
        price = self.scraps.usd_per_mtok
        if price is None or self.scraps.price_date is not None or self.question.premium != 1:
            return None
        own = infer(Scraps(usd_per_mtok=price)).quantiles["n_params_active"]
        ends = revealed_sizes(PriceClues(*price))[0]
        (p05, p95), (p10, p90), (p50, _) = (ends[level] for level in ("90", "80", "median"))
        return Quantity(p05, p10, p50, p90, p95, "params"), _quantity(own, "params")

    @property
    def training_flop(self) -> Quantity:
        """FLOP of pretraining [FLOP]."""
        return _quantity(self.result.quantiles["training_flop"], "FLOP")

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Clues that contradict the others."""
        return tuple(one.clue.name for one in self.result.pulls if one.conflicts and len(self.result.pulls) > 1)

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger sheet --json`` prints it."""
        found = self.result
        said = {
            **{name: document(_quantity(found.quantiles[name], unit)) for name, unit in UNITS.items()},
            "dense_probability": found.dense_probability,
            "accelerator": self.scraps.accelerator_id,
            "n_params_active": _with_half(found.quantiles["n_params_active"]),
            "n_params_active_before": _with_half(found.before),
            "clues": [self._clue(one) for one in found.pulls],
            "conflicts": list(self.conflicts),
            "would_narrow": [document(one) for one in self.narrowings],
            "assumptions": self._assumptions(),
            **self._listed(),
            **self._published(),
            **self._tried(),
            **self._alike(),
            **self._at_premium(),
        }
        if working:
            laws = {name: document(_quantity(found.quantiles[name], "")) for name in _BETWEEN}
            said["working"] = sheet_working(self.question, said, laws, self.narrowings)
        return said

    def _listed(self) -> dict[str, Any]:
        """Day of which its prices are taken to be, where they are known."""
        given = self.scraps
        return {} if given.usd_per_mtok is None else {"price_date": given.price_date or MARKET_DATE}

    def _published(self) -> dict[str, Any]:
        """What is known of the open model that the clues are of, and which of it lies outside the 90 % range."""
        one = open_model_of(self.scraps)
        if one is None:
            return {}
        known = {name: float(value) for name in ("n_params_active", "n_params_total", "tokens", "gpu_hours")
                 if (value := getattr(one, name)) is not None}  # fmt: skip
        ends = self.result.quantiles
        outside = [name for name, value in known.items() if not ends[name][0] <= value <= ends[name][4]]
        said = {"model": one.name, **known, "outside": outside, "source": one.source, "locator": one.locator}
        return {"published": said}

    def _tried(self) -> dict[str, Any]:
        """How well open models of known size were told by the same clues, where that was tried."""
        tried = tried_by(tuple(one.clue.name for one in self.result.pulls))
        return {} if tried is None else {"tried": document(tried)}

    def _alike(self) -> dict[str, Any]:
        """Open models that are sold at about its price, where that is known."""
        price = self.scraps.usd_per_mtok
        return {} if price is None else {"measured_alike": document(sizes_by_price(*price))}

    def _at_premium(self) -> dict[str, Any]:
        """Active parameters if it is sold at a premium, where a price is given and no premium."""
        if self.scraps.usd_per_mtok is None or self.question.premium != 1:
            return {}
        sizes = [infer(replace(self.scraps, premium_ratio=one)).quantiles["n_params_active"][2] for one in _PREMIUMS]
        rows = [
            {"premium_ratio": one, "n_params_active": float(size)} for one, size in zip(_PREMIUMS, sizes, strict=True)
        ]
        return {"at_premium": rows}

    def _clue(self, one: Pull) -> dict[str, Any]:
        return {
            "clue": one.clue.name,
            "said": one.clue.said,
            "n_params_active_alone": _with_half(one.alone),
            "n_params_active_without": document(_quantity(one.without, "")),
            "pull_ratio": float(self.result.quantiles["n_params_active"][2] / one.without[2]),
            "agreement_probability": one.surprise,
            "wrong_probability": one.wrong_probability,
            "conflicts": one.clue.name in self.conflicts,
        }

    def _assumptions(self) -> list[str]:
        asked = self.question
        out = [
            "it follows the laws of open models: sizes, tokens and prices of closed models may lie elsewhere",
            _WRONG_WORDS,
            "a figure without a range is good for a factor of 1.2 either way (90 %)",
            f"a GPU-hour costs ${_plain(asked.gpu_price)}",
            _sparsity_words(),
        ]
        if asked.price is not None:
            out.append(f"it is sold at {_plain(asked.premium)} times the open market's price")
            out.append(self._dated_price())
        if asked.speed is not None:
            out.append("it is served as nine open models were benchmarked: 8 to 128 requests in flight")
        if asked.score is not None:
            law = fitted_capability()
            out.append(
                f"its scores follow FLOP and date as {law.n_models} open models of {law.n_developers} developers do: "
                f"the index rises {law.per_log_flop * _LN_10:.1f} for ten times the FLOP and {law.per_year:.1f} a "
                f"year; developers left out lie {law.spread:.1f} off (data: Epoch AI, CC BY)"
            )
        return out

    def _dated_price(self) -> str:
        """When the prices were listed, and what follows."""
        drift, listed = market_drift(), self.scraps.price_date
        if listed is None:
            return f"its prices are those of {MARKET_DATE}; for older ones say when they were listed"
        is_taken = self.question.price_date is None
        now = math.exp(drift.per_year * years_between(listed, MARKET_DATE))
        return f"its prices are those of its release, {listed}; " * is_taken + (
            f"a model's price on the open market falls {-math.expm1(drift.per_year):.0%} a year (±{drift.error:.0%}, "
            f"{drift.n_versions} open models from their launch on): prices of {listed} count {now:.2f} times today"
        )


def _sparsity_words() -> str:
    """How many times its active parameters a model is taken to store."""
    prior = fitted_laws().prior
    place = int(np.argmax(prior.covariance[:, SPARSITY, SPARSITY]))
    mean, spread = prior.mean[place, SPARSITY], math.sqrt(prior.covariance[place, SPARSITY, SPARSITY])
    low, median, high = (math.exp(mean + sign * Z_95 * spread) for sign in (-1.0, 0.0, 1.0))
    return (
        f"a mixture of experts stores {median:.2g} times its active parameters ({low:.2g} to {high:.2g}, 90 %), as "
        f"open ones do; before any clue a model is one with a probability of {prior.weight[place]:.0%}"
    )


def _plain(value: Uncertain) -> str:
    return str(value) if isinstance(value, Range) else f"{median_of(value):g}"


def _quantity(values: Floats, unit: str) -> Quantity:
    p05, p10, p50, p90, p95 = (float(one) for one in values[:5])
    return Quantity(p05, p10, p50, p90, p95, unit)


def _with_half(values: Floats) -> dict[str, Any]:
    """A count with the ends of half of it too."""
    return {**document(_quantity(values, "")), "p25": float(values[5]), "p75": float(values[6])}


def sheet(question: SheetQuestion | None = None, /, **given: Given) -> ClosedModelAnswer:
    """What scraps say of a closed model: price, speed, scores, cost, chips and months, power, date, claims, joined.

    Parameters
    ----------
    question : SheetQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.sheet.SheetQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    ClosedModelAnswer
        Parameters, tokens, FLOP, GPU-hours and cost with their intervals, each clue's pull, and conflicts.

    Raises
    ------
    InputError
        For bad input, and where no clue is given.

    Examples
    --------
    >>> answer = sheet(price="0.27/1.1", date="2024-12-26", usd="$5.6M", accelerator="h800-sxm5-80gb")
    >>> answer.conflicts, sheet(answer.question, flop="1e27").conflicts
    ((), ('training FLOP',))
    """
    return from_python(SheetQuestion, answer_sheet, question, given)


def answer_sheet(question: SheetQuestion) -> ClosedModelAnswer:
    """Answer ``computeledger sheet``."""
    chip = load_accelerator(question.accelerator)
    scraps = Scraps(
        usd_per_mtok=None if question.price is None else read_prices(question.price),
        price_date=_listed_on(question),
        premium_ratio=question.premium,
        tokens_per_s=question.speed,
        release_date=None if question.date is None else _day(question.date),
        scores=None if question.score is None else read_scores(question.score),
        training_usd=question.usd,
        gpu_hours=question.gpu_hours,
        chips=question.chips,
        duration_s=question.duration,
        power_w=question.power,
        w_per_chip=1.0 if question.power is None else _watts(chip.id),
        flop=question.flop,
        tokens=question.tokens,
        n_params_total=question.total,
        accelerator_id=chip.id,
        utilization_fraction=question.utilization,
        usd_per_gpu_hour=question.gpu_price,
    )
    return ClosedModelAnswer(question, scraps, infer(scraps), narrowings(scraps))


def read_prices(text: str) -> tuple[float, float]:
    """Prices of input and output.

    Examples
    --------
    >>> read_prices("3/15"), read_prices("$0.27 / $1.10")
    ((3.0, 15.0), (0.27, 1.1))
    """
    try:
        low, high = (float(part.strip().removeprefix("$")) for part in text.split("/"))
    except ValueError:
        raise InputError(
            f"--price {shown(text)}: expected USD per million tokens as INPUT/OUTPUT, such as 3/15"
        ) from None
    if not all(_CHEAPEST <= one <= _DEAREST for one in (low, high)):
        raise InputError(
            f"--price {shown(text)}: each must lie from {_CHEAPEST:g} to {_DEAREST:g} USD per million tokens"
        )
    return low, high


def _listed_on(question: SheetQuestion) -> str | None:
    """Day of the prices: as given, else that of the release, since a list price stands from then on; None for today's.

    Launch prices of 11 open models, the model left out of every law: within x1.36 in half of them if taken as such, and
    within x1.83 if taken for those of the shipped edition (2026-11).
    """
    if question.price_date is not None:
        return _day(question.price_date, "--price-date")
    if question.price is None or question.date is None:
        return None
    released = _day(question.date)
    return released if released < MARKET_DATE else None


def _day(text: str, where: str = "--date") -> str:
    day = checked_day(text, where)
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise InputError(
            f"{where} {day}: must lie from {_FIRST_DAY} to {_LAST_DAY}, near the models that laws were fitted on"
        )
    return day


def _watts(accelerator_id: str) -> Uncertain:
    system = system_of_accelerator(accelerator_id)
    if system is None:
        raise InputError(
            f"--power: no shipped system is made of {accelerator_id}, so its facility power is not known; give --chips"
        )
    return system.facility_w_per_chip.uncertain
