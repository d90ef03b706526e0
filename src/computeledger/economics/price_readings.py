"""Readings of single entries of a price sheet: a threshold, cache prices, cache lifetimes: no estimators.

Each says what an entry would mean if one mechanism stood behind it, and what speaks against that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.facts.editions import load_tiers
from computeledger.physics.blackboard_context import kv_bytes_per_token, kv_crossover_bytes_per_token
from computeledger.units import DAY_S, HOUR_S, MINUTE_S

#: One layer of the lecture's cache: 8 KV heads of 128, keys and values, one byte each.
ONE_LAYER_BYTES = float(kv_bytes_per_token(1, 8, 128, 1.0))
#: How long a cache write is held [s].
LIFETIMES_S = {"cache_write": 5 * MINUTE_S, "cache_write_1h": HOUR_S}
#: A lifetime within this ratio of a device's drain time could stand for it (assumption).
_SAME_RATIO = 2.0
#: Log standard deviation of a lifetime about the drain time behind it; a round number lies anywhere from a minute to a
#: day (assumptions).
_SPREAD, _LIFETIME_NATS = 0.35, math.log(DAY_S / MINUTE_S)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way to read a sheet.

    Attributes
    ----------
    name : str
        What is supposed.
    weight : float
        Posterior probability [-].
    rejected : str or None
        Why it cannot be; None where it can.
    """

    name: str
    weight: float
    rejected: str | None = None


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


def crossover_words(kv_bytes_per_token: float, bytes_per_value: float, least_bytes_per_token: float) -> str:
    """What speaks against a threshold as a crossover.

    Parameters
    ----------
    kv_bytes_per_token : float
        Cache that it would mean [byte/token].
    bytes_per_value : float
        Of a cached value [byte].
    least_bytes_per_token : float
        Least that an open model keeps, in bf16 [byte/token].

    Returns
    -------
    str
        One clause.

    Examples
    --------
    >>> crossover_words(1000.0, 1.0, 6000.0)
    '1,000 bytes per token are 0.49 layers of 8 KV heads x 128: less than one layer'
    """
    layers = kv_bytes_per_token / (ONE_LAYER_BYTES * bytes_per_value)
    words = f"{kv_bytes_per_token:,.0f} bytes per token are {layers:.2g} layers of 8 KV heads x 128"
    if layers < 1:
        return f"{words}: less than one layer"
    if kv_bytes_per_token < least_bytes_per_token * bytes_per_value / 2:
        return f"{words}: less than any open model keeps"
    return f"{words}: the formula was 12 to 800 times too low on 5 of 5 models whose cache is known"


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


def store_or_resend_s(prices: Mapping[str, float], write: str = "cache_write") -> float:
    """Mean time between uses up to which storing a prefix is cheaper than sending it again, ``T / n``.

    A write is held for ``T`` and must be read ``n`` times in it to pay; a prefix that comes back at random every
    ``t`` is read ``T / t`` times.

    Parameters
    ----------
    prices : mapping of str to float
        Per million tokens, by kind.
    write : str
        ``cache_write`` or ``cache_write_1h``.

    Returns
    -------
    float
        Break-even interval; 0 where storing never pays, infinite where a write costs no more than input [s].

    Examples
    --------
    >>> sheet = {"input": 5.0, "cached_read": 0.5, "cache_write": 6.25, "cache_write_1h": 10.0}
    >>> [round(store_or_resend_s(sheet, kind)) for kind in ("cache_write", "cache_write_1h")]
    [1080, 3240]
    """
    reads = cache_reads_to_break_even(prices, write)
    return LIFETIMES_S[write] / reads if reads > 0 else math.inf


def lifetime_readings(kinds: Mapping[str, float]) -> dict[str, tuple[Hypothesis, ...]]:
    """Which memory a cache's lifetime could be the drain time of: capacity over bandwidth, read once.

    A device holds what comes back more seldom than its drain time, so a seller's lifetimes may be those of devices; a
    modern disk drains in a day. Nothing but the length of the lifetime speaks for it: it may as well be a round number.
    Every device of the newest edition and the round number are equally likely before (assumption).

    Parameters
    ----------
    kinds : mapping of str to float
        Prices by kind; those of cache writes are read.

    Returns
    -------
    dict of str to tuple of Hypothesis
        By kind of write, the round number and the devices, nearest first.

    Examples
    --------
    >>> found = lifetime_readings({"cache_write": 2.5})["cache_write"]
    >>> [(one.name, one.rejected) for one in found][:2]
    [('a round number with no device behind it', None), ('NVMe flash, PCIe 5.0, 4 TB, drained in 4.6 min', None)]
    """
    out = {}
    for kind in (name for name in LIFETIMES_S if name in kinds):
        held = LIFETIMES_S[kind]
        tiers = sorted(load_tiers().tiers.values(), key=lambda tier: abs(math.log(tier.drain_s / held)))
        apart = [tier.drain_s / held for tier in tiers]
        likely = [1 / _LIFETIME_NATS] + [
            math.exp(-0.5 * (math.log(ratio) / _SPREAD) ** 2) / (_SPREAD * math.sqrt(2 * math.pi))
            if 1 / _SAME_RATIO <= ratio <= _SAME_RATIO else 0.0
            for ratio in apart
        ]  # fmt: skip
        names = ["a round number with no device behind it"]
        names += [f"{tier.name}, drained in {_span(tier.drain_s)}" for tier in tiers]
        why = [None] + [
            None if weight else f"{_ratio(ratio)} than {_span(held)}"
            for weight, ratio in zip(likely[1:], apart, strict=True)
        ]
        out[kind] = tuple(
            Hypothesis(name, weight / sum(likely), reason)
            for name, weight, reason in zip(names, likely, why, strict=True)
        )
    return out


def _span(seconds: float) -> str:
    if seconds < MINUTE_S:
        return f"{seconds:.2g} s"
    return f"{seconds / MINUTE_S:.2g} min" if seconds < HOUR_S else f"{seconds / HOUR_S:.2g} h"


def _ratio(ratio: float) -> str:
    times = max(ratio, 1 / ratio)
    number = f"{times:.2g}" if times < 100 else f"{times:,.0f}"
    return f"{number} times {'longer' if ratio > 1 else 'shorter'}"
