"""What a price sheet says of the model behind it: size by regression on open models, and what physics adds to it.

Size comes from prices of open models of known size: its interval is the one that left-out models keep. Importance
sampling over named hypotheses (chip, precision, speed target, meaning of a long-context threshold, margin) then says
how a model of that size would be served: costs are those of ``serve``, price over cost is fitted on open models. The
prices are not used twice: weights add up alike within every size, which the regression alone has told. Cache bytes are
not identifiable from prices: their interval is that of open models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range, Uncertain
from computeledger.economics.prices.markup import Markup, fit_markup, gross_margin_fraction, log_ratios
from computeledger.economics.prices.physics import SPEED_TARGETS, ServingPrior, Supposed
from computeledger.economics.prices.points import (
    REVEALED_LEVELS,
    LeftOut,
    PricePoints,
    SizeFit,
    conformal_half_width,
    fit_sizes,
    leave_models_out,
    one_sheet,
    open_models,
    shipped_points,
    single_price_errors,
)
from computeledger.economics.prices.readings import Hypothesis, threshold_words
from computeledger.economics.prices.samples import Samples, open_kv_bytes, serve_samples
from computeledger.errors import InputError
from computeledger.facts.load import load_system
from computeledger.physics.blackboard.serving import fast_mode_batch_ratio
from computeledger.units import format_si

Floats = NDArray[np.float64]

#: What a long-context threshold may mean; each as likely before it is seen (assumption).
PRICE_STEPS = ("crossover: reading the cache takes as long as computing",
               "room: the batch of the speed target no longer fits the memory",
               "convention: a round number with no cost behind it")  # fmt: skip
#: Log standard deviation of a threshold about what would cause it, and of a fast mode's speed (assumptions).
_THRESHOLD_SPREAD, _SPEED_SPREAD = 0.35, 0.25
#: Thresholds that price lists know, from 8K to 1M tokens: a convention is as likely anywhere between (assumption).
_CONVENTION_NATS = math.log(125.0)
#: Ends of what a price list may say, USD/Mtok, and of how unsure a premium may be (limits of the regression's reach).
_DEAREST, _WIDEST = 1e5, 3.0
#: Bins of size within which weights add up alike.
_BINS = 40


@dataclass(frozen=True, slots=True)
class PriceClues:
    """What is known of a model that is sold.

    Attributes
    ----------
    usd_per_mtok_input, usd_per_mtok_output : float
        List prices [USD/Mtok].
    provider : str
        Who sells it.
    threshold_tokens : float or None
        Prompt beyond which it costs more [token].
    premium_ratio : float
        How much dearer than on the open market it is said to be; the slider of closed models [-].
    premium_spread : float
        Standard deviation of the logarithm of that; 0 trusts the open market [-].
    fast_price_ratio, fast_speed_ratio : float or None
        Price and speed of a fast mode over those of the plain one [-].
    """

    usd_per_mtok_input: float
    usd_per_mtok_output: float
    provider: str = ""
    threshold_tokens: float | None = None
    premium_ratio: float = 1.0
    premium_spread: float = 0.0
    fast_price_ratio: float | None = None
    fast_speed_ratio: float | None = None

    @property
    def fast_batch_ratio(self) -> float | None:
        """Batch over that of the fast mode, price times speed; None where no fast mode is known [-]."""
        if self.fast_price_ratio is None or self.fast_speed_ratio is None:
            return None
        return float(fast_mode_batch_ratio(self.fast_price_ratio, self.fast_speed_ratio))


@dataclass(frozen=True, slots=True)
class Inversion:
    """What a sheet says, as weighted samples.

    Attributes
    ----------
    n_params_active, n_params_total : dict of str to tuple of float
        Intervals by level, and the median under ``median`` [-].
    kv_bytes_per_token, decode_batch, utilization_fraction, gross_margin_fraction : ndarray
        Samples of the posterior [byte/token], [-], [-], [-].
    size_samples : ndarray
        Active parameters of the same samples [-].
    hypotheses : tuple of Hypothesis
        Chip, precision and speed target together; weights add up to 1. Rejected readings follow.
    questions : dict of str to tuple of Hypothesis
        The same by question: ``chip``, ``precision``, ``speed target``, ``price step``, ``margin``.
    threshold_words : str
        What the threshold would mean as a crossover, beside the models that ship; empty where none was given.
    n_params_regressed : tuple of float
        Active and total parameters of the regression alone; a total below the active ones is set to them [-].
    learnt : dict of str to float
        By quantity, how much narrower the interval is than before the prices, ``log2(prior / posterior)`` [bit].
    informed_by : dict of str to dict of str to float
        The same by clue, each taken alone [bit].
    before : dict of str to ndarray
        By quantity, what holds before any price is seen: samples over open models, each alike [unit of the quantity].
    markup : Markup
        Price over cost of open models.
    effective_samples : float
        Samples that the weights leave [-].
    """

    n_params_active: dict[str, tuple[float, float]]
    n_params_total: dict[str, tuple[float, float]]
    kv_bytes_per_token: Floats
    decode_batch: Floats
    utilization_fraction: Floats
    gross_margin_fraction: Floats
    size_samples: Floats
    hypotheses: tuple[Hypothesis, ...]
    questions: dict[str, tuple[Hypothesis, ...]]
    threshold_words: str
    n_params_regressed: tuple[float, float]
    learnt: dict[str, float]
    informed_by: dict[str, dict[str, float]]
    before: dict[str, Floats]
    markup: Markup
    effective_samples: float


def invert_prices(
    clues: PriceClues, n_samples: int = 200_000, seed: int = 0, prior: ServingPrior | None = None,
    points: PricePoints | None = None,
) -> Inversion:  # fmt: skip
    """Say what a price sheet reveals, and what it does not.

    Parameters
    ----------
    clues : PriceClues
        Prices.
    n_samples : int
        Samples over all hypotheses [-].
    seed : int
        Of the sampling [-].
    prior : ServingPrior, optional
        How models are served.
    points : PricePoints, optional
        Open models to learn from; those that ship when left out.

    Returns
    -------
    Inversion
        Intervals, weights, and how much was learnt.

    Examples
    --------
    >>> found = invert_prices(PriceClues(2.0, 12.0), n_samples=20_000)
    >>> low, high = found.n_params_active["90"]
    >>> low < 1e11 < high and high / low > 5
    True
    """
    _check(clues)
    if points is None:
        return _inverted_by_shipped(clues, n_samples, seed, prior or ServingPrior())
    return _inverted(clues, (n_samples, seed, prior or ServingPrior()), points, _learnt_sizes(points))


@lru_cache(maxsize=8)
def _inverted_by_shipped(clues: PriceClues, n_samples: int, seed: int, prior: ServingPrior) -> Inversion:
    """A sheet that is asked about again, in another form or with its working, is not drawn again."""
    return _inverted(clues, (n_samples, seed, prior), shipped_points(), _shipped_sizes())


def _inverted(
    clues: PriceClues, draws: tuple[int, int, ServingPrior], known: PricePoints, learnt: tuple[SizeFit, LeftOut]
) -> Inversion:
    """The samples of a sheet, weighted."""
    (n_samples, seed, prior), (fit, errors) = draws, learnt
    rng = np.random.default_rng(seed)
    centre = _sizes(clues, fit)
    drawn = _draw(clues, (centre, fit, errors), rng, n_samples)
    samples = serve_samples(drawn, known, prior, rng, clues.fast_batch_ratio)
    meaning = rng.integers(0, len(PRICE_STEPS), len(samples.premium))
    markup = fit_markup(known, fit, samples.names, samples.known)
    weights = _weigh(clues, (samples, meaning), markup, fit)
    weight = weights["all"]
    if not weight.sum() > 0:
        raise InputError(f"no hypothesis is left: {'; '.join(sorted(set(samples.refusals(weight).values())))}")
    chosen = rng.choice(len(weight), 4096, p=weight / weight.sum())
    own = _intervals(centre, fit, errors, clues)
    served = samples.served
    prices = clues.usd_per_mtok_input, clues.usd_per_mtok_output
    columns = {
        "kv_bytes_per_token": samples.supposed.kv_bytes_per_token,
        "decode_batch": served.batch,
        "utilization_fraction": served.utilization_fraction,
        "gross_margin_fraction": gross_margin_fraction(prices, served),
    }
    before = _before(samples, known)
    informed = {clue: _bits(columns, before, one) for clue, one in weights.items()}
    for clue, bits in _size_bits(known, (before, own), errors).items():
        informed[clue].update(bits)
    questions = _questions(clues, (samples, meaning), weight)
    return Inversion(
        n_params_active=own[0],
        n_params_total=own[1],
        kv_bytes_per_token=columns["kv_bytes_per_token"][chosen],
        decode_batch=columns["decode_batch"][chosen],
        utilization_fraction=columns["utilization_fraction"][chosen],
        gross_margin_fraction=columns["gross_margin_fraction"][chosen],
        size_samples=samples.supposed.n_params_active[chosen],
        hypotheses=tuple(_hypotheses(samples, weight) + _rejected(questions.get("price step", ()))),
        questions=questions,
        threshold_words=_threshold_words(clues.threshold_tokens, samples, weight, math.exp(centre[0])),
        n_params_regressed=(math.exp(centre[0]), math.exp(centre[1])),
        learnt=informed.pop("all"),
        informed_by=informed,
        before=before,
        markup=markup,
        effective_samples=float(weight.sum() ** 2 / (weight**2).sum()),
    )


def revealed_sizes(clues: PriceClues) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """What a price sheet alone says of sizes: the regression of :func:`invert_prices`, without its samples of serving.

    Parameters
    ----------
    clues : PriceClues
        Prices.

    Returns
    -------
    tuple of dict
        Intervals of active and of total parameters by level, and the median under ``median`` [-].

    Examples
    --------
    >>> clues = PriceClues(2.0, 12.0)
    >>> revealed_sizes(clues)[0] == invert_prices(clues, n_samples=20_000).n_params_active
    True
    """
    _check(clues)
    fit, errors = _shipped_sizes()
    return _intervals(_sizes(clues, fit), fit, errors, clues)


def _learnt_sizes(known: PricePoints) -> tuple[SizeFit, LeftOut]:
    """Regression of sizes on prices, and its errors on models left out."""
    return fit_sizes(known), leave_models_out(known, single=True)


@cache
def _shipped_sizes() -> tuple[SizeFit, LeftOut]:
    return _learnt_sizes(shipped_points())


def premium_of(given: Uncertain, spread: float = 0.0) -> tuple[float, float]:
    """A premium that may be a range, as its median and the standard deviation of its logarithm.

    Parameters
    ----------
    given : float or Range
        Price over that of the open market [-].
    spread : float
        Standard deviation of its logarithm, where it is given apart [-].

    Returns
    -------
    tuple of float
        Median [-] and standard deviation of the logarithm [-].

    Examples
    --------
    >>> median, spread = premium_of(Range(2.0, 8.0))
    >>> round(median, 6), round(spread, 3)
    (4.0, 0.421)
    """
    if not isinstance(given, Range):
        return float(given), spread
    if spread:
        raise InputError(f"premium_spread {spread:g}: the range of the premium says it already")
    if not given.low > 0:
        raise InputError(f"premium {given.low:g}..{given.high:g}: must be greater than 0")
    return math.sqrt(given.low * given.high), math.log(given.high / given.low) / (2 * Z_95)


def _check(clues: PriceClues) -> None:
    for name, most in (("usd_per_mtok_input", _DEAREST), ("usd_per_mtok_output", _DEAREST), ("premium_ratio", 1e3)):
        value = getattr(clues, name)
        if not 1 / most <= value <= most:
            raise InputError(
                f"{name.removesuffix('_ratio')} {value:g}: must be greater than 0, from {1 / most:g} to {most:g}"
            )
    if not 0 <= clues.premium_spread <= _WIDEST:
        raise InputError(f"premium_spread {clues.premium_spread:g}: must not be negative, and at most {_WIDEST:g}")
    for name in ("fast_price_ratio", "fast_speed_ratio"):
        value = getattr(clues, name)
        if value is not None and not 1 < value <= 1e3:
            raise InputError(f"{name} {value:g}: a fast mode costs more and is faster, from 1 to 1000 times")
    if (clues.fast_price_ratio is None) != (clues.fast_speed_ratio is None):
        raise InputError("a fast mode needs both its price and its speed over the plain mode")
    if clues.threshold_tokens is not None and not clues.threshold_tokens > 0:
        raise InputError(f"threshold_tokens {clues.threshold_tokens:g}: must be greater than 0")


def _sizes(clues: PriceClues, fit: SizeFit) -> tuple[float, float]:
    """Log active and log total at the sheet's prices, the premium taken off."""
    prices = clues.usd_per_mtok_input / clues.premium_ratio, clues.usd_per_mtok_output / clues.premium_ratio
    active, total = fit.predict(one_sheet(clues.provider, *prices))
    return float(active), float(total)


def _each_model_once(errors: LeftOut) -> Floats:
    """Weights: every model counts once, whatever the number of its sheets."""
    _, rows, counts = np.unique(errors.model, return_inverse=True, return_counts=True)
    return 1.0 / counts[rows]


def _draw(
    clues: PriceClues, learnt: tuple[tuple[float, float], SizeFit, LeftOut], rng: np.random.Generator, n: int
) -> tuple[Supposed, Floats]:
    """Supposed models, and the logarithm of the premium over the one given that each was drawn with.

    Far from the prices of open models the regression's totals run away: none is sparser than the sparsest open model.
    """
    centre, fit, errors = learnt
    weight = _each_model_once(errors)
    rows = rng.choice(len(weight), n, p=weight / weight.sum())
    premium = clues.premium_spread * rng.standard_normal(n)
    active = centre[0] + errors.error_active[rows] + 0.1 * rng.standard_normal(n) - fit.active[1:].sum() * premium
    total = centre[1] + errors.error_total[rows] + 0.1 * rng.standard_normal(n) - fit.total[1:].sum() * premium
    kv = rng.choice(open_kv_bytes(), n) * np.exp(0.3 * rng.standard_normal(n))
    sparsest = max(math.log(one.n_params_total / one.n_params_active) for one in open_models().values())
    return Supposed(np.exp(active), np.exp(np.clip(total, active, active + sparsest)), kv), premium


def _weigh(
    clues: PriceClues, drawn: tuple[Samples, NDArray[np.int64]], markup: Markup, fit: SizeFit
) -> dict[str, Floats]:
    """Weights of the samples under each clue alone and under all: ``all`` first."""
    samples, meaning = drawn
    effect = np.array(fit.provider_effects.get(clues.provider, (0.0, 0.0)))
    seen = np.log([clues.usd_per_mtok_input, clues.usd_per_mtok_output]) - effect - math.log(clues.premium_ratio)
    ratios = log_ratios(seen - samples.premium[:, None], samples.served)
    fits = samples.served.fits.astype(float)
    sizes = np.log(samples.supposed.n_params_active)

    def prices(which: str) -> Floats:
        likely = np.where(fits > 0, markup.log_likelihood(ratios, which), -math.inf)
        top = likely.max()
        return np.exp(likely - top) if math.isfinite(top) else fits

    out = {"all": prices("both"), "input price": prices("input"), "output price": prices("output")}
    if clues.threshold_tokens is not None:
        out["threshold"] = _threshold_likelihood(clues.threshold_tokens, samples, meaning) * fits
    if clues.fast_speed_ratio is not None:
        attained = samples.served.fast_speed_ratio
        apart = np.log(clues.fast_speed_ratio / np.where(attained > 0, attained, 1.0)) / _SPEED_SPREAD
        out["fast mode"] = np.where((attained > 0) & samples.served.fits, np.exp(-0.5 * apart**2), 0.0)
    for further in list(out)[3:]:
        out["all"] = out["all"] * out[further]
    return {clue: _once_per_size(weight, sizes) for clue, weight in out.items()}


def _once_per_size(weight: Floats, log_size: Floats) -> Floats:
    """Weights whose mean within each bin of size is 1: the regression has told the size already."""
    edges = np.quantile(log_size, np.linspace(0, 1, _BINS + 1)[1:-1])
    place = np.searchsorted(edges, log_size)
    mean = np.bincount(place, weight, _BINS) / np.maximum(np.bincount(place, minlength=_BINS), 1)
    return np.where(mean[place] > 0, weight / np.maximum(mean[place], 1e-300), 0.0)


def _threshold_likelihood(threshold: float, samples: Samples, meaning: NDArray[np.int64]) -> Floats:
    """How likely a threshold is under the meaning that each sample was drawn with, per unit of its logarithm."""
    served = samples.served
    room = served.context_tokens * served.largest_batch / served.batch
    cause = np.where(meaning == 0, samples.crossover_tokens, room)
    apart = np.log(threshold / np.maximum(cause, 1e-9)) / _THRESHOLD_SPREAD
    physical = np.exp(-0.5 * apart**2) / (_THRESHOLD_SPREAD * math.sqrt(2 * math.pi))
    return np.nan_to_num(np.where(meaning == 2, 1 / _CONVENTION_NATS, physical))


def _intervals(
    centre: tuple[float, float], fit: SizeFit, errors: LeftOut, clues: PriceClues
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Intervals of active and of total parameters; an assumed premium widens them in quadrature."""
    weight = _each_model_once(errors)
    out: list[dict[str, tuple[float, float]]] = []
    slopes = fit.active[1:].sum(), fit.total[1:].sum()
    for middle, own, slope in zip(centre, (errors.error_active, errors.error_total), slopes, strict=True):
        found = {"median": (math.exp(middle), math.exp(middle))}
        for level, score in zip((*REVEALED_LEVELS,), (0.6745, 1.2816, 1.6449), strict=True):
            half = math.hypot(
                float(conformal_half_width(own, level, weight)), score * float(slope) * clues.premium_spread
            )
            found[f"{100 * level:.0f}"] = math.exp(middle - half), math.exp(middle + half)
        out.append(found)
    active, total = out
    ends = {level: (max(low, active[level][0]), max(high, active[level][1])) for level, (low, high) in total.items()}
    return active, ends


def _width(values: Floats, weight: Floats | None = None) -> float:
    order = np.argsort(values)
    reached = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    ends = np.searchsorted(reached / reached[-1], (0.05, 0.95))
    return float(np.diff(values[order[np.minimum(ends, len(values) - 1)]])[0])


def _before(samples: Samples, known: PricePoints) -> dict[str, Floats]:
    """What holds of each quantity before any price is seen: open models, and every way of serving them that fits."""
    models, first = np.unique(known.model, return_index=True)
    each = len(samples.known.fits) // len(models)
    asked = [np.repeat(np.exp(values[first]), each) for values in (known.log_input, known.log_output)]
    fits = samples.known.fits
    return {
        "n_params_active": np.exp(known.log_active[first]),
        "n_params_total": np.exp(known.log_total[first]),
        "kv_bytes_per_token": open_kv_bytes(),
        "decode_batch": samples.known.batch[fits],
        "utilization_fraction": samples.known.utilization_fraction[fits],
        "gross_margin_fraction": gross_margin_fraction((asked[0], asked[1]), samples.known)[fits],
    }


def _logs(name: str, values: Floats) -> Floats:
    """Logarithms, in which widths are compared; of a margin, that of price over cost."""
    return -np.log1p(-values) if name == "gross_margin_fraction" else np.log(values)


def _bits(columns: dict[str, Floats], before: dict[str, Floats], weight: Floats) -> dict[str, float]:
    """How much narrower each quantity is than on open models before any price: ``log2`` of the ratio of widths."""
    keep = weight > 0
    bits = {}
    for name, values in columns.items():
        width = _width(_logs(name, values[keep]), weight[keep])
        bits[name] = math.log2(_width(_logs(name, before[name])) / max(width, 1e-9))
    return bits


def _size_bits(
    known: PricePoints,
    sizes: tuple[dict[str, Floats], tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]],
    errors: LeftOut,
) -> dict[str, dict[str, float]]:
    """Bits of size: the prior is the spread of open models; of one price alone, by a regression on it alone."""
    before, own = sizes
    names = ("n_params_active", "n_params_total")
    widths = {"all": [math.log(one["90"][1] / one["90"][0]) for one in own]}
    weight = _each_model_once(errors)
    for clue, place in (("input price", 0), ("output price", 1)):
        widths[clue] = [2 * float(conformal_half_width(e, 0.9, weight)) for e in single_price_errors(known, place)]
    return {
        clue: {name: math.log2(_width(np.log(before[name])) / width) for name, width in zip(names, pair, strict=True)}
        for clue, pair in widths.items()
    }


def _speed_words(speed: str) -> str:
    low, high = (format_si(end, "s") for end in SPEED_TARGETS[speed])
    return f"{speed}, {low} to {high} per token"


def _hypotheses(samples: Samples, weight: Floats) -> list[Hypothesis]:
    """Chip, precision and speed target together."""
    share = np.bincount(samples.where, weight, len(samples.places)) / weight.sum()
    refused = samples.refusals(weight)
    found = [
        Hypothesis(f"{cell.name}, {_speed_words(speed)}", float(share[place]), refused.get((cell, speed)))
        for place, (cell, speed) in enumerate(samples.places)
    ]
    return found + [Hypothesis(cell.name, 0.0, why) for cell, why in samples.ruled_out.items()]


def _rejected(group: tuple[Hypothesis, ...]) -> list[Hypothesis]:
    """The readings that fall away, without the little weight that their samples had."""
    return [Hypothesis(one.name, 0.0, one.rejected) for one in group if one.rejected]


def _questions(
    clues: PriceClues, drawn: tuple[Samples, NDArray[np.int64]], weight: Floats
) -> dict[str, tuple[Hypothesis, ...]]:
    samples, meaning = drawn
    share = np.bincount(samples.where, weight, len(samples.places)) / weight.sum()
    groups: dict[str, dict[str, float]] = {"chip": {}, "precision": {}, "speed target": {}}
    for place, (cell, speed) in enumerate(samples.places):
        for group, name in zip(groups, (cell.name.split()[0], cell.precision, _speed_words(speed)), strict=True):
            groups[group][name] = groups[group].get(name, 0.0) + float(share[place])
    out = {group: tuple(Hypothesis(name, value) for name, value in of.items()) for group, of in groups.items()}
    if clues.threshold_tokens is not None:
        meant = np.bincount(meaning, weight, len(PRICE_STEPS)) / weight.sum()
        why = ("no way of serving that fits crosses near it", "at the batches that fit, memory ends elsewhere", None)
        out["price step"] = tuple(
            Hypothesis(name, float(value), reason if value == 0 else None)
            for name, value, reason in zip(PRICE_STEPS, meant, why, strict=True)
        )
    given = clues.premium_ratio != 1 or clues.premium_spread > 0
    premium = f"{clues.premium_ratio:g} times that of open models, log sd {clues.premium_spread:g}, as given"
    out["margin"] = (
        Hypothesis("that of open models, fitted", float(not given), "a premium was given" if given else None),
        Hypothesis(premium, 1.0)
        if given
        else Hypothesis("a closed model's premium", 0.0, "none was given: prices cannot tell it from size"),
    )
    return out


def _threshold_words(threshold: float | None, samples: Samples, weight: Floats, active: float) -> str:
    """What the threshold would mean on the likeliest chip; empty where there is none."""
    if threshold is None:
        return ""
    share = np.bincount(samples.where, weight, len(samples.places))
    cell = samples.places[int(np.argmax(share))][0]
    return threshold_words(threshold, active, load_system(cell.system_id).accelerator, cell.precision)
