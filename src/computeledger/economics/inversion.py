"""What a price sheet says of the model behind it: size by regression on open models, and what physics adds to it.

Size comes from prices of open models of known size: its interval is the one that left-out models keep. The roofline
then says which batches and margins go with that size, by importance sampling over named hypotheses of chip, precision
and the meaning of a long-context threshold. Cache
bytes are not identifiable from prices: their interval is that of open models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.economics.price_points import (
    LEVELS,
    LeftOut,
    PricePoints,
    conformal_half_width,
    fit_sizes,
    leave_models_out,
    one_sheet,
    open_models,
    shipped_points,
)
from computeledger.errors import InputError
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_system
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.blackboard import BlackboardMachine, BlackboardModel, decode_times, inference_flop
from computeledger.physics.blackboard_context import kv_bytes_per_token, kv_crossover_bytes_per_token
from computeledger.units import HOUR_S, TOKENS_PER_MTOK

Floats = NDArray[np.float64]

#: One layer of the lecture's cache: 8 KV heads of 128, keys and values, one byte each.
ONE_LAYER_BYTES = float(kv_bytes_per_token(1, 8, 128, 1.0))
#: Chips a price may come from, and precisions of the weights.
SYSTEMS = ("h100-nvl8", "h200-nvl8", "b200-nvl8", "gb200-nvl72", "mi300x-8", "tpu-v6e-pod", "tpu-v7-pod")
PRECISIONS = ("bf16", "fp8", "fp4")
LARGEST_REPLICA = 128.0


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
    """

    usd_per_mtok_input: float
    usd_per_mtok_output: float
    provider: str = ""
    threshold_tokens: float | None = None
    premium_ratio: float = 1.0
    premium_spread: float = 0.0


@dataclass(frozen=True, slots=True)
class ServingPrior:
    """What is assumed of how a model is served: 90 % intervals of log-normal quantities.

    Attributes
    ----------
    context_tokens : tuple of float
        In a sequence's cache [token].
    tpot_s : tuple of float
        Speed that is promised [s].
    prefill_fraction, bandwidth_fraction, occupancy_fraction : tuple of float
        Of peak FLOP in prefill, of bandwidth in decoding, of hours that are sold [-].
    log_price_over_cost : tuple of float
        Mean and standard deviation of the logarithm of input price over cost: assumed, not fitted [-].
    """

    context_tokens: tuple[float, float] = (2000.0, 32000.0)
    tpot_s: tuple[float, float] = (0.01, 0.05)
    prefill_fraction: tuple[float, float] = (0.3, 0.6)
    bandwidth_fraction: tuple[float, float] = (0.4, 0.75)
    occupancy_fraction: tuple[float, float] = (0.3, 0.8)
    log_price_over_cost: tuple[float, float] = (math.log(2.0), 0.75)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way to read a sheet.

    Attributes
    ----------
    name : str
        Chip, precision, and what the threshold means.
    weight : float
        Posterior probability [-].
    rejected : str or None
        Why it cannot be; None where it can.
    """

    name: str
    weight: float
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Inversion:
    """What a sheet says, as weighted samples.

    Attributes
    ----------
    n_params_active, n_params_total : dict of str to tuple of float
        Intervals by level, and the median under ``50%`` as ``median`` [-].
    kv_bytes_per_token, decode_batch, gross_margin_fraction : ndarray
        Samples of the posterior [byte/token], [-], [-].
    size_samples : ndarray
        Active parameters of the same samples [-].
    hypotheses : tuple of Hypothesis
        Named readings with their weights.
    learnt : dict of str to float
        By quantity, how much narrower the interval is than before the prices, ``log2(prior / posterior)`` [bit].
    effective_samples : float
        Samples that the weights leave [-].
    """

    n_params_active: dict[str, tuple[float, float]]
    n_params_total: dict[str, tuple[float, float]]
    kv_bytes_per_token: Floats
    decode_batch: Floats
    gross_margin_fraction: Floats
    size_samples: Floats
    hypotheses: tuple[Hypothesis, ...]
    learnt: dict[str, float]
    effective_samples: float


def open_kv_bytes() -> Floats:
    """Cache bytes per token of open models: the prior, and the posterior, of what prices do not tell.

    Returns
    -------
    ndarray
        One number per model that ships with a known cache [byte/token].

    Examples
    --------
    >>> bool(open_kv_bytes().min() > ONE_LAYER_BYTES)
    True
    """
    known = np.array([model.kv_bytes_per_token for model in open_models().values()])
    return known[np.isfinite(known)]


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
    known = shipped_points() if points is None else points
    rng = np.random.default_rng(seed)
    errors = leave_models_out(known, single=True)
    centre = _sizes(clues, known)
    active, total = _draw_sizes(centre, errors, clues, rng, n_samples)
    use = prior or ServingPrior()
    per = n_samples // (len(SYSTEMS) * len(PRECISIONS))
    kv = rng.choice(open_kv_bytes(), n_samples) * np.exp(0.3 * rng.standard_normal(n_samples))
    readings, parts = [], []
    place = 0
    for system_id in SYSTEMS:
        for precision in PRECISIONS:
            span = slice(place, place + per)
            place += per
            name, samples, why = _read(clues, (system_id, precision), (active[span], total[span], kv[span]), use, rng)
            readings.append((name, why))
            parts.append(samples)
    batch, margin, weight = (np.concatenate([part[i] for part in parts]) for i in range(3))
    sizes, caches = active[:place], kv[:place]
    shares = np.array([part[2].sum() for part in parts])
    if not shares.sum() > 0:
        raise InputError("no hypothesis is left: " + "; ".join(f"{name}: {why}" for name, why in readings if why))
    hypotheses = [Hypothesis(name, float(share / max(shares.sum(), 1e-300)), why)
                  for (name, why), share in zip(readings, shares, strict=True)]  # fmt: skip
    chosen = rng.choice(place, 4096, p=weight / weight.sum())
    own = _intervals(centre, errors, clues)
    return Inversion(
        own[0], own[1], caches[chosen], batch[chosen], margin[chosen], sizes[chosen],
        tuple(hypotheses + _thresholds(clues, centre[0])), _bits(own, known, caches[chosen]),
        float(weight.sum() ** 2 / (weight**2).sum()),
    )  # fmt: skip


def _check(clues: PriceClues) -> None:
    for name in ("usd_per_mtok_input", "usd_per_mtok_output", "premium_ratio"):
        value = getattr(clues, name)
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} {value:g}: a price must be greater than 0")
    if clues.premium_spread < 0:
        raise InputError(f"premium_spread {clues.premium_spread:g}: must not be negative")


def _sizes(clues: PriceClues, known: PricePoints) -> tuple[float, float]:
    """Log active and log total at the sheet's prices, the premium taken off."""
    prices = clues.usd_per_mtok_input / clues.premium_ratio, clues.usd_per_mtok_output / clues.premium_ratio
    active, total = fit_sizes(known).predict(one_sheet(clues.provider, *prices))
    return float(active), float(total)


def _weights(errors: LeftOut) -> Floats:
    """Every model counts once, whatever the number of its sheets."""
    _, rows, counts = np.unique(errors.model, return_inverse=True, return_counts=True)
    return 1.0 / counts[rows]


def _slope(known: PricePoints) -> float:
    fit = fit_sizes(known)
    return float(fit.active[1] + fit.active[2])


def _draw_sizes(
    centre: tuple[float, float], errors: LeftOut, clues: PriceClues, rng: np.random.Generator, n: int
) -> tuple[Floats, Floats]:
    weight = _weights(errors)
    rows = rng.choice(len(weight), n, p=weight / weight.sum())
    moved = clues.premium_spread * rng.standard_normal(n)
    active = centre[0] + errors.error_active[rows] + 0.1 * rng.standard_normal(n) - moved
    total = centre[1] + errors.error_total[rows] + 0.1 * rng.standard_normal(n) - moved
    return np.exp(active), np.exp(np.maximum(total, active))


def _intervals(
    centre: tuple[float, float], errors: LeftOut, clues: PriceClues
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Intervals of active and of total parameters; an assumed premium widens them in quadrature."""
    weight = _weights(errors)
    out: list[dict[str, tuple[float, float]]] = []
    for middle, own in zip(centre, (errors.error_active, errors.error_total), strict=True):
        found = {"median": (math.exp(middle), math.exp(middle))}
        for level, score in zip((*LEVELS,), (0.6745, 1.2816, 1.6449), strict=True):
            half = math.hypot(float(conformal_half_width(own, level, weight)), score * clues.premium_spread)
            found[f"{100 * level:.0f}"] = math.exp(middle - half), math.exp(middle + half)
        out.append(found)
    return out[0], out[1]


def _bits(
    own: tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]], known: PricePoints, kv: Floats
) -> dict[str, float]:
    """Widths before and after: the prior is the spread of open models."""
    _, first = np.unique(known.model, return_index=True)
    bits = {}
    for name, interval, logs in (
        ("n_params_active", own[0]["90"], known.log_active[first]),
        ("n_params_total", own[1]["90"], known.log_total[first]),
    ):
        before = float(np.subtract(*np.quantile(logs, [0.95, 0.05])))
        bits[name] = math.log2(before / math.log(interval[1] / interval[0]))
    before = float(np.subtract(*np.quantile(np.log(open_kv_bytes()), [0.95, 0.05])))
    bits["kv_bytes_per_token"] = math.log2(before / float(np.subtract(*np.quantile(np.log(kv), [0.95, 0.05]))))
    return bits


def _lognormal(ends: tuple[float, float], rng: np.random.Generator, n: int) -> Floats:
    middle, half = 0.5 * (math.log(ends[0]) + math.log(ends[1])), 0.5 * math.log(ends[1] / ends[0]) / 1.6449
    return np.exp(middle + half * rng.standard_normal(n))


def _read(
    clues: PriceClues, chip: tuple[str, str], drawn: tuple[Floats, Floats, Floats], use: ServingPrior,
    rng: np.random.Generator,
) -> tuple[str, tuple[Floats, Floats, Floats], str | None]:  # fmt: skip
    """Batch, margin and weight of samples under one chip and precision."""
    active, total, kv = drawn
    nothing = np.ones_like(active), np.zeros_like(active), np.zeros_like(active)
    system = load_system(chip[0])
    name = f"{system.accelerator.id} {chip[1]}"
    peaks = system.accelerator.peak_flop_per_s
    prices = load_prices().usd_per_gpu_hour.get(system.accelerator.id, {})
    if chip[1] not in peaks:
        return name, nothing, f"{system.accelerator.id} does not compute in {chip[1]}"
    if "rent" not in prices:
        return name, nothing, f"the price edition has no rent of {system.accelerator.id}"
    hourly, largest = float(prices["rent"].value), min(LARGEST_REPLICA, float(system.n_gpus_scale_up.value))
    n, width = len(active), PRECISION_BYTES[chip[1]]
    hbm = 0.9 * float(system.accelerator.hbm_bytes.value)
    gpus = np.clip(2 ** np.ceil(np.log2(np.maximum(1.5 * total * width / hbm, 1.0))), 1.0, LARGEST_REPLICA)
    bandwidth = float(system.accelerator.hbm_bytes_per_s.value) * gpus * _lognormal(use.bandwidth_fraction, rng, n)
    peak = float(peaks[chip[1]].value) * gpus * np.minimum(_lognormal(use.prefill_fraction, rng, n), 0.95)
    context, tpot = _lognormal(use.context_tokens, rng, n), _lognormal(use.tpot_s, rng, n)
    model = BlackboardModel(active, total, width, kv)
    room = (hbm * gpus - total * width) / (context * kv)
    one = decode_times(1.0, context, model, BlackboardMachine(peak, bandwidth))
    batch = np.minimum(np.minimum(room, (tpot - one.weights_s) / one.kv_s), tpot / one.compute_s)
    fits = (batch >= 1) & (gpus <= largest)
    batch = np.maximum(batch, 1.0)
    step = decode_times(batch, context, model, BlackboardMachine(peak, bandwidth)).step_s
    sold = np.minimum(_lognormal(use.occupancy_fraction, rng, n), 1.0)
    per_s = gpus * hourly / HOUR_S / sold * TOKENS_PER_MTOK
    cost_input, cost_output = per_s * inference_flop(active, 1.0) / peak, per_s * step / batch
    mean, spread = use.log_price_over_cost
    seen = np.log(clues.usd_per_mtok_input / clues.premium_ratio / cost_input)
    weight = np.where(fits, np.exp(-0.5 * ((seen - mean) / spread) ** 2), 0.0)
    margin = 1 - (3 * cost_input + cost_output) / (3 * clues.usd_per_mtok_input + clues.usd_per_mtok_output)
    why = None if weight.sum() > 0 else "no batch of one fits beside the weights"
    return name, (batch, margin, weight), why


def _thresholds(clues: PriceClues, log_active: float) -> list[Hypothesis]:
    """The lecture's reading of a long-context threshold, and why it is rejected."""
    if clues.threshold_tokens is None:
        return []
    out = []
    for system_id, precision in (
        ("h100-nvl8", "bf16"),
        ("h100-nvl8", "fp8"),
        ("b200-nvl8", "fp8"),
        ("tpu-v7-pod", "fp8"),
    ):
        chip = load_system(system_id).accelerator
        peak, bandwidth = float(chip.peak_flop_per_s[precision].value), float(chip.hbm_bytes_per_s.value)
        k = threshold_kv_bytes_per_token(math.exp(log_active), peak, bandwidth, clues.threshold_tokens)
        layers = float(k) / (ONE_LAYER_BYTES * PRECISION_BYTES[precision])
        smallest = float(open_kv_bytes().min())
        words = f"{float(k):,.0f} bytes per token are {layers:.2g} layers of 8 KV heads x 128"
        if layers < 1:
            why = f"{words}: less than one layer"
        elif float(k) < smallest:
            why = f"{words}: less than any open model keeps ({smallest:,.0f})"
        else:
            why = "the formula was 12 to 800 times too low on 5 of 5 models whose cache is known"
        out.append(Hypothesis(f"threshold is the crossover, {chip.id} {precision}", 0.0, why))
    return out


def threshold_kv_bytes_per_token(
    n_params_active: Num, peak_flop_per_s: Num, hbm_bytes_per_s: Num, threshold_tokens: Num
) -> Num:
    """Cache that a threshold would mean if it were a crossover, ``k = 2 N W / (F L*)``: an explanation, no estimator.

    On models whose cache is known it is 12 to 800 times too low.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token, ``N`` [-].
    peak_flop_per_s, hbm_bytes_per_s : float or ndarray
        ``F`` [FLOP/s] and ``W`` [byte/s] of one chip.
    threshold_tokens : float or ndarray
        Prompt beyond which a token costs more, ``L*`` [token].

    Returns
    -------
    float or ndarray
        ``k`` [byte/token].

    References
    ----------
    roofline-lecture C136.

    Examples
    --------
    >>> [round(float(threshold_kv_bytes_per_token(100e9, peak, 3.35e12, 200e3))) for peak in (989.4e12, 1979e12)]
    [3386, 1693]
    """
    return kv_crossover_bytes_per_token(n_params_active, peak_flop_per_s, hbm_bytes_per_s, threshold_tokens)


def cache_reads_to_break_even(prices: Mapping[str, float], write: str = "cache_write") -> float:
    """Reads within its life after which writing a prefix to the cache was cheaper than sending it again each time.

    ``n (p_in - p_read) = p_write - p_in``

    Parameters
    ----------
    prices : mapping of str to float
        Per million tokens, by kind.
    write : str
        ``cache_write`` or ``cache_write_1h``.

    Returns
    -------
    float
        Reads; infinite where a read costs what a fresh token does [-].

    Examples
    --------
    >>> sheet = {"input": 5.0, "cached_read": 0.5, "cache_write": 6.25, "cache_write_1h": 10.0}
    >>> [round(cache_reads_to_break_even(sheet, kind), 2) for kind in ("cache_write", "cache_write_1h")]
    [0.28, 1.11]
    """
    saved = prices["input"] - prices.get("cached_read", prices["input"])
    extra = prices.get(write, prices["input"]) - prices["input"]
    if saved <= 0:
        return math.inf
    return extra / saved
