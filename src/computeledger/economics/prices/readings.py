"""Readings of single entries of a price sheet: a threshold, cache prices, cache lifetimes: no estimators.

Each says what an entry would mean if one mechanism stood behind it, and what speaks against that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.facts.editions import load_tiers
from computeledger.facts.load import load_model, load_system, model_ids, system_ids
from computeledger.facts.schema import PRECISION_BYTES, Accelerator
from computeledger.physics.blackboard.context import kv_crossover_bytes_per_token
from computeledger.physics.transformer import kv_bytes_per_sequence, n_params_active, state_bytes_per_sequence
from computeledger.units import DAY_S, HOUR_S, MINUTE_S

#: Precisions that the threshold formula is tried in, and how near to a model's cache counts as right (assumptions).
_PRECISIONS, _NEAR_RATIO = ("bf16", "fp8"), 2.0
#: How long a cache write is held [s].
LIFETIMES_S = {"cache_write": 5 * MINUTE_S, "cache_write_1h": HOUR_S}
#: A lifetime within this ratio of a device's drain time could stand for it (assumption).
_SAME_RATIO = 2.0
#: Log standard deviation of a lifetime about the drain time behind it; a round number lies anywhere from a minute to a
#: day (assumptions).
_SPREAD, _LIFETIME_NATS = 0.35, math.log(DAY_S / MINUTE_S)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way to read a sheet."""

    name: str
    weight: float
    rejected: str | None = None


def threshold_kv_bytes_per_token(
    n_params_active: Num, peak_flop_per_s: Num, hbm_bytes_per_s: Num, threshold_tokens: Num
) -> Num:
    """Cache that a threshold would mean if it were a crossover, ``k = 2 N W / (F L*)``: an explanation, no estimator.

    :func:`threshold_errors` tries it on every model and precision, and the chips of the bundled systems.

    References
    ----------
    roofline-lecture C136.

    Examples
    --------
    >>> [round(float(threshold_kv_bytes_per_token(100e9, peak, 3.35e12, 200e3))) for peak in (989.4e12, 1979e12)]
    [3386, 1693]
    """
    return kv_crossover_bytes_per_token(n_params_active, peak_flop_per_s, hbm_bytes_per_s, threshold_tokens)


@dataclass(frozen=True, slots=True)
class ThresholdError:
    """How far the threshold formula is from the cache of a model that ships, at the model's own size."""

    model: str
    accelerator: str
    precision: str
    ratio: float


@functools.cache
def threshold_errors(threshold_tokens: float) -> tuple[ThresholdError, ...]:
    """Try the threshold formula on every model and precision (bf16, fp8), and the chips of the bundled systems.

    A model's cache is what it keeps of a prompt of that length, over its tokens: windows, latent and linear attention,
    shared caches and compression count as they are, the state that does not grow is left out. Models of one shape count
    once.

    Examples
    --------
    >>> found = threshold_errors(200e3)
    >>> found[0].accelerator, 0.5 < found[0].ratio < 1.0
    ('h20-sxm5-96gb', True)
    """
    shapes: dict[tuple[float, float], tuple[str, float, dict[str, float]]] = {}
    for name in model_ids():
        model = load_model(name)
        active, state = float(n_params_active(model)), float(state_bytes_per_sequence(model))
        cache = {
            precision: (float(kv_bytes_per_sequence(model, threshold_tokens, PRECISION_BYTES[precision])) - state)
            / threshold_tokens
            for precision in _PRECISIONS
        }
        if cache["bf16"] > 0:
            shapes.setdefault((active, cache["bf16"]), (name, active, cache))
    found = [
        ThresholdError(name, chip.id, precision, cache[precision] / float(threshold_kv_bytes_per_token(
            active, chip.peak(precision), chip.hbm_bytes_per_s.value, threshold_tokens)))
        for chip in {load_system(one).accelerator.id: load_system(one).accelerator for one in system_ids()}.values()
        for precision in _PRECISIONS
        if precision in chip.peak_flop_per_s for name, active, cache in shapes.values()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.ratio))


def threshold_words(threshold_tokens: float, n_params_active: float, accelerator: Accelerator, precision: str) -> str:
    """What a threshold would mean as a crossover, and what the models that ship say of the formula.

    Examples
    --------
    >>> words = threshold_words(200e3, 100e9, load_system("h200-nvl8").accelerator, "fp8")
    >>> words.partition(" per token")[0]
    'read as a crossover on h200-sxm5-141gb in fp8, the threshold means 2,425 bytes of cache'
    """
    peak = accelerator.peak(accelerator.native_precision(precision))
    k = float(threshold_kv_bytes_per_token(n_params_active, peak, accelerator.hbm_bytes_per_s.value, threshold_tokens))
    errors = threshold_errors(threshold_tokens)
    here = [one for one in errors if one.accelerator == accelerator.id and one.precision == precision] or list(errors)
    least, near = here[0], [one for one in errors if 1 / _NEAR_RATIO <= one.ratio <= _NEAR_RATIO]
    where = "there" if here != list(errors) else "on all chips"
    words = (
        f"read as a crossover on {accelerator.id} in {precision}, the threshold means {k:,.0f} bytes of cache per "
        f"token; the caches of {len(here)} open shapes are {least.ratio:.2g} ({least.model.rpartition('/')[2]}) to "
        f"{here[-1].ratio:,.0f} times what the formula gives {where}"
    )
    if not near:
        return f"{words}, and on no chip within a factor of {_NEAR_RATIO:g}"
    chips = sorted({one.accelerator for one in near})
    models = len({one.model for one in near})
    return f"{words}; within a factor of {_NEAR_RATIO:g} it is right for {models} of them, on {', '.join(chips)} alone"


def cache_reads_to_break_even(prices: Mapping[str, float], write: str = "cache_write") -> float:
    """Reads within its life after which writing a prefix to the cache was cheaper than sending it again each time.

    ``n (p_in - p_read) = p_write - p_in``

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
            if 1 / _SAME_RATIO <= ratio <= _SAME_RATIO
            else 0.0
            for ratio in apart
        ]
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
