"""Answer what a price sheet reveals of the model behind it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.prices.evidence import PriceEvidence, price_evidence
from computeledger.economics.prices.inversion import Inversion, PriceClues, invert_prices, premium_of, revealed_sizes
from computeledger.economics.prices.points import fit_sizes, one_sheet, open_models, shipped_points
from computeledger.economics.prices.readings import (
    LIFETIMES_S,
    cache_reads_to_break_even,
    lifetime_readings,
    store_or_resend_s,
)
from computeledger.economics.prices.sheets import PriceSheet, PriceTier, Rate, read_sheet
from computeledger.economics.prices.working import inversion_figures
from computeledger.errors import InputError, nearest, shown
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answer import Answer, Quantity, from_python
from computeledger.questions.answers.frontier.closed import ClosedModelAnswer, sheet
from computeledger.questions.answers.prices.source import load_sheet
from computeledger.questions.document import document, picked
from computeledger.questions.grounds import figure_document
from computeledger.questions.invert import InvertQuestion
from computeledger.units import format_si, format_usd
from computeledger.validation.prices_near import PricedModel, priced_models, sizes_by_price
from computeledger.workloads.result import Figure, Term

#: Below so many effective samples the weights are rough.
FEW_SAMPLES = 200
#: Quantiles of what holds before and after the prices, and the quantities that physics adds to the sizes.
_ENDS = {"p05": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95}
_SERVED = ("kv_bytes_per_token", "decode_batch", "gross_margin_fraction", "utilization_fraction")
#: How much larger a ratio of output to input price is said what of.
_RATIO_TRIED = 4.0
#: How a line begins on prices that no open model is sold at.
EXTRAPOLATED = "sizes are extrapolated"
#: How much larger a cache is said what of.
_TWICE = 2.0


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class InvertAnswer(Answer):
    """What a price sheet reveals."""

    question: InvertQuestion
    sheet: PriceSheet
    clues: PriceClues
    result: Inversion

    @property
    def remarks(self) -> tuple[str, ...]:
        """None: its model is one of a price list, whose shape nobody states."""
        return ()

    @property
    def n_params_active(self) -> Quantity:
        """Parameters multiplied per token [params]."""
        return _quantity(self.result.n_params_active)

    @property
    def n_params_total(self) -> Quantity:
        """Parameters stored [params]."""
        return _quantity(self.result.n_params_total)

    @property
    def gross_margin_fraction(self) -> Quantity:
        """Price less cost, over price; prices alone do not identify it [-]."""
        return Quantity.of(self.result.gross_margin_fraction, "")

    @property
    def by_sheet(self) -> ClosedModelAnswer | None:
        """What ``sheet`` tells from the same price alone; None at a premium."""
        rates = {kind: rate.base for kind, rate in self.sheet.rates.items()}
        if self.clues.premium_ratio != 1 or self.clues.premium_spread or not {"input", "output"} <= rates.keys():
            return None
        return _by_sheet(f"{rates['input']}/{rates['output']}")

    @property
    def n_params_total_by_sheet(self) -> Quantity | None:
        """Total parameters that ``sheet`` tells from the same price alone; None at a premium [params]."""
        return None if self.by_sheet is None else self.by_sheet.n_params_total

    @property
    def learnt_from(self) -> tuple[PricedModel, ...]:
        """Open models of known size that sizes are learnt from, with their median list prices."""
        return priced_models()

    def n_params_active_at(self, usd_per_mtok_input: float) -> Quantity:
        """Active parameters by another price of input, output as many times as dear as here [params]."""
        times = usd_per_mtok_input / self.clues.usd_per_mtok_input
        output = self.clues.usd_per_mtok_output * times
        clues = replace(self.clues, usd_per_mtok_input=usd_per_mtok_input, usd_per_mtok_output=output)
        return _quantity(revealed_sizes(clues)[0])

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger invert --json`` prints it."""
        sheet, clues, found = self.sheet, self.clues, self.result
        said = inversion_document(found, self.by_sheet)
        base = {kind: float(rate.base) for kind, rate in sheet.rates.items()}
        said["prices"] = base
        said["sheet"] = {"name": sheet.name, "origin": sheet.origin, "notes": list(sheet.notes)}
        said["elasticities"] = _elasticities()
        said["not_identified"] = [*_far(found, clues), *_not_identified(found)]
        said["readings"] = _readings(sheet, clues)
        said["questions"] |= {
            f"cache lifetime, {kind}": [document(one) for one in group]
            for kind, group in lifetime_readings(base).items()
        }
        said["size_times_margin"] = _line(clues)
        said["assumptions"] = _assumptions(found, clues)
        said["measured_alike"] = document(sizes_by_price(base["input"], base["output"]))
        if working:
            figures = (*inversion_figures(found, clues), *self._beside(said))
            said["working"] = [figure_document(one) for one in figures]
        return said

    def _beside(self, said: Mapping[str, Any]) -> tuple[Figure, ...]:
        """Where the figures come from that stand beside the sizes of a model sold as open models are."""
        total = self.n_params_total_by_sheet
        if total is None:
            return ()
        nearest, (_, wider, *_) = said["measured_alike"]["nearest"][0], said["size_times_margin"]
        known = open_models()[nearest["model"]]
        read = f"{known.source}, {known.locator}"
        prices = [Term(f"{kind} price", said["prices"][kind], "USD/Mtok", "plan", f"--{kind}")
                  for kind in ("input", "output")]  # fmt: skip
        return (
            Figure("total_parameters_by_sheet", total.p50, "params",
                   "sizes of open models, weighed by how likely each is sold at these prices: see sheet",
                   (*prices, Term("90 % range, least", total.p05, "params"),
                    Term("90 % range, most", total.p95, "params"))),
            Figure("active_parameters_at_twice_the_margin", wider["n_params_active"], "params",
                   "active parameters at half the input and half the output price",
                   (*prices, Term("active parameters", said["n_params_active"]["p50"], "params"))),
            Figure("active_parameters_of_the_nearest_in_price", nearest["measured"], "params", "as published",
                   (Term(nearest["model"], nearest["measured"], "params", "fact", read),)),
        )  # fmt: skip


@functools.lru_cache(maxsize=16)
def _by_sheet(price: str) -> ClosedModelAnswer:
    """The sheet of a price alone, which a view asks for more than once."""
    return sheet(price=price)


def invert(question: InvertQuestion | str | Path | None = None, /, **given: Given) -> InvertAnswer:
    """What a price sheet reveals of the model behind it, and what it does not.

    Parameters
    ----------
    question : InvertQuestion, str or Path, optional
        What is asked, or the path of a price sheet; keywords change single fields.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.questions.invert.InvertQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    InvertAnswer
        Sizes with their intervals, hypotheses with their weights.

    Raises
    ------
    InputError
        For bad input, and for a sheet without a price of input or output.

    Examples
    --------
    >>> answer = invert(input=2, output=12, samples=2000)
    >>> dearer = invert(answer.question, input=8, output=48)
    >>> dearer.n_params_active.p50 > answer.n_params_active.p50
    True
    """
    if isinstance(question, (str, Path)):
        question, given = None, {**given, "sheet": str(question)}
    return from_python(InvertQuestion, answer_invert, question, given)


def answer_invert(question: InvertQuestion) -> InvertAnswer:
    """Answer ``computeledger invert``."""
    sheet = _sheet(question)
    missing = [kind for kind in ("input", "output") if kind not in sheet.rates or sheet.rates[kind].base <= 0]
    if missing:
        raise InputError(f"{sheet.name}: the {missing[0]} price is missing or 0, so nothing can be learnt from it")
    steps = sheet.rates["input"].tiers
    provider = question.provider or sheet.name.partition("/")[0]
    sellers = fit_sizes(shipped_points()).provider_effects
    if question.provider and provider not in sellers:
        raise InputError(f"--provider {shown(provider)}: no price of theirs is known: {nearest(provider, sellers)}")
    premium, spread = premium_of(question.premium, question.premium_spread)
    clues = PriceClues(
        float(sheet.rates["input"].base), float(sheet.rates["output"].base), provider,
        float(steps[0].threshold_tokens) if steps else None, premium, spread, question.fast_price, question.fast_speed,
    )  # fmt: skip
    return InvertAnswer(question, sheet, clues, invert_prices(clues, question.samples, question.seed))


def _sheet(question: InvertQuestion) -> PriceSheet:
    """The sheet of ``--model``, of a file, or of prices given by hand."""
    if question.model is not None:
        return load_sheet(question.model)
    if question.sheet is not None:
        return read_sheet(question.sheet)
    price = Decimal(str(question.input))
    tiers: tuple[PriceTier, ...] = ()
    if question.threshold is not None:
        tiers = (PriceTier(int(median_of(question.threshold)), price * 2),)
    return PriceSheet("given by hand", {"input": Rate(price, tiers), "output": Rate(Decimal(str(question.output)))})


def _far(found: Inversion, clues: PriceClues) -> list[str]:
    """What makes an answer rough: few samples, and prices beyond those of open models."""
    out: list[str] = []
    known = shipped_points()
    for name, asked, logs in (
        ("input", clues.usd_per_mtok_input, known.log_input),
        ("output", clues.usd_per_mtok_output, known.log_output),
    ):
        low, high = (math.exp(float(end)) for end in (logs.min(), logs.max()))
        if not low <= asked / clues.premium_ratio <= high:
            sold = f"{format_usd(low, 2)} to {format_usd(high)} per million tokens"
            words = f"{EXTRAPOLATED}: open models sell {name} at {sold}"
            out.insert(0, words)
    if found.effective_samples < FEW_SAMPLES:
        rough = f"only {found.effective_samples:.0f} samples carry the weight: what rests on physics is rough here"
        out.insert(0, rough)
    return out


def _assumptions(found: Inversion, clues: PriceClues) -> list[str]:
    markup = [math.exp(value) for value in found.markup.mean]
    return [
        f"prices {clues.premium_ratio:g} times those of the open market, log sd {clues.premium_spread:g}",
        "rent of the price edition; context 2K..32K, occupancy 30..80 %; chips, precisions, targets equally likely",
        (f"fitted on {found.markup.n_sheets} sheets of open models: input price {markup[0]:.2f} and output price "
        f"{markup[1]:.2f} times the cost so counted, log sd {found.markup.covariance[0, 0] ** 0.5:.2f} and "
        f"{found.markup.covariance[1, 1] ** 0.5:.2f}"),
    ]  # fmt: skip


def _quantity(interval: Mapping[str, tuple[float, float]]) -> Quantity:
    found = _size(interval)
    p05, p10, p50, p90, p95 = (float(found[end]) for end in ("p05", "p10", "p50", "p90", "p95"))
    return Quantity(p05, p10, p50, p90, p95, "params")


def _size(interval: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    out: dict[str, Any] = {"p50": interval["median"][0], "unit": "params"}
    for level, (low, high) in (("90", ("p05", "p95")), ("80", ("p10", "p90")), ("50", ("p25", "p75"))):
        out[low], out[high] = interval[level]
    return out


def _spread(values: NDArray[np.float64], name: str) -> dict[str, Any]:
    """The quantiles of a document with the quartiles between them: what holds half of all, and nine tenths."""
    ends = dict(zip(_ENDS, np.quantile(values, list(_ENDS.values())).tolist(), strict=True))
    unit = "byte/token" if name == "kv_bytes_per_token" else "params" if name.startswith("n_params") else ""
    return {**ends, "unit": unit}


def inversion_document(found: Inversion, by_sheet: ClosedModelAnswer | None = None) -> dict[str, Any]:
    """Intervals and hypotheses as JSON, sizes by the price alone with those that ``sheet`` tells from it."""
    return {
        "n_params_active": _size(found.n_params_active),
        "n_params_total": _size(found.n_params_total),
        **({} if by_sheet is None else _said_by_sheet(by_sheet)),
        **{name: _spread(getattr(found, name), name) for name in _SERVED},
        **picked(found, "hypotheses", "questions"),
        "before_prices": {name: _spread(values, name) for name, values in found.before.items()},
        "bits": found.learnt,
        "informed_by": found.informed_by,
        "identified": {name: name.startswith("n_params") for name in found.learnt},
        "effective_samples": found.effective_samples,
    }


def _said_by_sheet(found: ClosedModelAnswer) -> dict[str, Any]:
    """Sizes that ``sheet`` tells from the same price, the total with the ends of half of it."""
    active, total = (document(replace(one, unit="params")) for one in (found.n_params_active, found.n_params_total))
    low, high = found.n_params_total_half
    return {"n_params_active_by_sheet": active, "n_params_total_by_sheet": {**total, "p25": low, "p75": high}}


def _elasticities() -> list[dict[str, Any]]:
    """Of size by price: the regression's."""
    fit = fit_sizes(shipped_points())
    return [
        {"quantity": name, "input_price_elasticity": float(of[1]), "output_price_elasticity": float(of[2])}
        for name, of in (("n_params_active", fit.active), ("n_params_total", fit.total))
    ]


def _cache_words(found: PriceEvidence) -> str:
    """What prices say of the cache: by how much those of a model with twice as large a one lie higher."""
    twice, error = (_TWICE**value - 1 for value in (found.kv_elasticity, found.kv_error))
    return (
        f"prices do not tell the KV cache: of {found.n_with_kv} models one with twice the cache costs "
        f"{100 * twice:.0f} % more (± {100 * error:.0f} %); its range is that of open models"
    )


def _not_identified(inverted: Inversion) -> list[str]:
    """What the shipped prices say of quantities that they hardly reveal."""
    found = price_evidence()
    active, total = inverted.n_params_regressed
    clipped = (
        f"total parameters are set to the active ones: the regression alone gives {format_si(total)} total and "
        f"{format_si(active)} active, fewer than are multiplied"
    )
    return [
        *([clipped] if total < active else []),
        _cache_words(found),
        _ratio_words(found),
        *([inverted.threshold_words] if inverted.threshold_words else []),
        "a larger model and a wider margin look alike: prices alone do not tell them apart",
    ]


def _ratio_words(found: PriceEvidence) -> str:
    """What the ratio of output to input price tells: nothing alone, the sparsity beside a price of input."""
    fit = fit_sizes(shipped_points())
    active, total = (_RATIO_TRIED ** float(slopes[2]) for slopes in (fit.active, fit.total))
    return (
        f"the ratio of output to input price alone tells no size (it explains {100 * found.ratio_r2:.1f} % of that of "
        f"{found.n_models} models); at the same input price, {_RATIO_TRIED:g} times the ratio means a sparser model: "
        f"{active:.2g} times the active and {total:.2g} times the total parameters"
    )


def _readings(sheet: PriceSheet, clues: PriceClues) -> dict[str, Any]:
    """The lecture's readings of a sheet: explanations, each with what is known against it."""
    base = {kind: float(rate.base) for kind, rate in sheet.rates.items()}
    out: dict[str, Any] = {"output_over_input_ratio": base["output"] / base["input"]}
    if "cached_read" in base:
        out["cached_read_over_input_ratio"] = base["cached_read"] / base["input"]
        for kind in LIFETIMES_S:
            reads = cache_reads_to_break_even(base, kind) if kind in base else math.inf
            if math.isfinite(reads) and reads > 0:
                out[f"reads_to_break_even_{kind}"] = reads
                out[f"store_or_resend_s_{kind}"] = store_or_resend_s(base, kind)
    modes = {name: rates["input"] for name, rates in sheet.modes.items() if "input" in rates}
    out["mode_over_standard_ratio"] = {name: float(rate.base) / base["input"] for name, rate in modes.items()}
    if clues.fast_batch_ratio is not None:
        out["fast_mode_batch_ratio"] = clues.fast_batch_ratio
    return out


def _line(clues: PriceClues) -> list[dict[str, float]]:
    """Median size at extra margins of 1, 2, 4 and 8: one product."""
    fit, rows = fit_sizes(shipped_points()), []
    for extra in (1.0, 2.0, 4.0, 8.0):
        prices = clues.usd_per_mtok_input / extra, clues.usd_per_mtok_output / extra
        size = math.exp(float(fit.predict(one_sheet(clues.provider, *prices))[0]))
        rows.append({"extra_margin_ratio": extra, "n_params_active": size})
    return rows
