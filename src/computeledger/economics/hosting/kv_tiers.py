"""A cached prefix in each kind of memory: hit time, price of a hit, hold or recompute, what a discount pays for.

Holding ``b`` bytes for a time ``T`` costs ``b p T``. Reading them takes the device for ``b / W``, which is worth what
the whole device costs in that time: ``C p b / W``, as much as holding the bytes for its drain time ``C / W``. A device
whose prefixes come back every ``T`` is full when ``T`` lies above the drain time and out of bandwidth below it, so a
hit costs ``b p max(T, C / W)``. Writes, wear and the power of the devices are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, Uncertain, median
from computeledger.economics.hosting.cost import annuity_fraction
from computeledger.errors import QuantityError
from computeledger.facts.editions import load_ownership, load_tiers
from computeledger.facts.schema import PRECISION_BYTES, Fact, OwnershipEdition, TierEdition
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.memory import sequence_bytes_per_gpu
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, YEAR_S
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, largest_batch

#: Devices per GPU of a replica: a server of eight GPUs has two sockets, and is given a drive per GPU (assumptions).
DEVICES_PER_GPU = {"ddr5-socket": 0.25}
#: Price of a cached token over a new one: the median of price lists (litellm, 2026-11), here at cost (assumption).
CACHE_READ_FRACTION = 0.1
#: Reuse intervals that are shown, and the grid on which tiers are compared [s].
REUSE_S = (MINUTE_S, 10 * MINUTE_S, HOUR_S, DAY_S)
#: Step of the batch by which the worth of more room is measured [-].
_MORE = 1.02
_GRID_S = np.geomspace(1.0, YEAR_S, 1201)
#: The edition's entry that an accelerator's own HBM is priced by.
HBM = "hbm3e-stack"


@dataclass(frozen=True, slots=True)
class Holding:
    """A place to keep bytes.

    Attributes
    ----------
    read_bytes_per_s : float or ndarray
        What one prefix is read at [byte/s].
    usd_per_byte_per_s : float or ndarray
        Cost of a byte held for a second [USD/byte/s].
    drain_s : float or ndarray
        Capacity over bandwidth of one device [s]; 0 where reading is no traffic of its own.
    """

    read_bytes_per_s: Num
    usd_per_byte_per_s: Num
    drain_s: Num


def hit_s(holding: Holding, prefix_bytes: Num) -> Num:
    """Time to bring a prefix back, ``b / W``.

    Parameters
    ----------
    holding : Holding
        Where it lies.
    prefix_bytes : float or ndarray
        Its cache [byte].

    Returns
    -------
    float or ndarray
        Before its first new token can be computed [s].

    Examples
    --------
    >>> hit_s(Holding(14.5e9, 0.0, 276.0), 1.45e9)
    0.1
    """
    return prefix_bytes / holding.read_bytes_per_s


def hit_usd(holding: Holding, prefix_bytes: Num, reuse_s: Num) -> Num:
    """Cost of one hit when the prefix comes back every ``T``, ``b p max(T, C / W)``.

    Parameters
    ----------
    holding : Holding
        Where it lies.
    prefix_bytes : float or ndarray
        Its cache [byte].
    reuse_s : float or ndarray
        Time between two uses [s].

    Returns
    -------
    float or ndarray
        Of the tier alone [USD].

    Examples
    --------
    >>> holding = Holding(1e9, 1e-15, 300.0)
    >>> [round(float(hit_usd(holding, 1e9, reuse_s)) * 1e3, 3) for reuse_s in (60.0, 300.0, 600.0)]
    [0.3, 0.3, 0.6]
    """
    return prefix_bytes * holding.usd_per_byte_per_s * np.maximum(reuse_s, holding.drain_s)


def hold_or_recompute_s(holding: Holding, prefix_bytes: Num, recompute_usd: Num) -> Num:
    """Reuse interval up to which holding is cheaper than computing again, ``V / (b p)``.

    Parameters
    ----------
    holding : Holding
        Where it lies.
    prefix_bytes : float or ndarray
        Its cache [byte].
    recompute_usd : float or ndarray
        What a hit saves, ``V`` [USD].

    Returns
    -------
    float or ndarray
        0 where it lies below the drain time: reading alone then costs more than computing [s].

    Examples
    --------
    >>> holding = Holding(1e9, 1e-15, 300.0)
    >>> round(float(hold_or_recompute_s(holding, 1e9, 1e-3))), float(hold_or_recompute_s(holding, 1e9, 1e-4))
    (1000, 0.0)
    """
    worth = np.maximum(recompute_usd, 0.0) / (prefix_bytes * holding.usd_per_byte_per_s)
    return np.where(worth >= holding.drain_s, worth, 0.0)


def usd_per_byte_per_s(usd_per_byte: Num, life_years: Num, cost_of_capital_fraction: Num) -> Num:
    """Cost of owning a byte for a second: its price as a yearly payment over its life, power and servers apart.

    Parameters
    ----------
    usd_per_byte : float or ndarray
        Purchase [USD/byte].
    life_years : float or ndarray
        Of service [year].
    cost_of_capital_fraction : float or ndarray
        Per year [-].

    Returns
    -------
    float or ndarray
        Payment [USD/byte/s].

    Examples
    --------
    >>> round(float(usd_per_byte_per_s(1.0, 5.0, 0.0)) * 3.15576e7, 3)
    0.2
    """
    return annuity_fraction(cost_of_capital_fraction, life_years) * usd_per_byte / YEAR_S


@dataclass(frozen=True, slots=True)
class TierMarket:
    """Facts that tiers are priced by.

    Attributes
    ----------
    tiers : TierEdition
        Capacity, bandwidth and price.
    ownership : OwnershipEdition
        Life and cost of capital.
    """

    tiers: TierEdition
    ownership: OwnershipEdition

    def facts(self) -> dict[str, Fact]:
        """Every fact by the name its samples go by.

        Returns
        -------
        dict of str to Fact
            ``tiers.ID.FIELD`` and ``ownership.FIELD``.

        Examples
        --------
        >>> load_tier_market().facts()["tiers.nvme-4tb.capacity_bytes"].given
        '4 TB'
        """
        out = {
            f"ownership.{name}": getattr(self.ownership, name) for name in ("life_years", "cost_of_capital_fraction")
        }
        for key, tier in self.tiers.tiers.items():
            for name in ("capacity_bytes", "read_bytes_per_s", "usd_per_byte"):
                out[f"tiers.{key}.{name}"] = getattr(tier, name)
        return out

    def uncertain(self) -> dict[str, Uncertain]:
        """What to draw samples of.

        Returns
        -------
        dict of str to float or Range
            By the names of :meth:`facts`; prices and bandwidths where sources disagree, capacities as they are.

        Examples
        --------
        >>> load_tier_market().uncertain()["tiers.hdd-24tb.capacity_bytes"]
        24000000000000.0
        """
        return {
            name: fact.value if name.endswith("capacity_bytes") else fact.uncertain
            for name, fact in self.facts().items()
        }


def load_tier_market(edition: str | None = None) -> TierMarket:
    """Load the newest facts, or a named edition of the tiers.

    Parameters
    ----------
    edition : str, optional
        Id or path of an edition of the tiers.

    Returns
    -------
    TierMarket
        Tiers with the newest ownership edition.

    Examples
    --------
    >>> "ddr5-socket" in load_tier_market().tiers.tiers
    True
    """
    return TierMarket(load_tiers(edition), load_ownership())


@dataclass(frozen=True, slots=True)
class TierResult:
    """A prefix in one tier.

    Attributes
    ----------
    id, name : str
        Of the tier.
    holding : Holding
        Rate, price and drain time.
    n_prefixes : float or ndarray
        How many such prefixes the tier of one replica holds [-].
    hit_s : float or ndarray
        Time to bring it back [s].
    load_usd : float or ndarray
        HBM kept free while it comes back [USD].
    hit_usd : dict of float to float or ndarray
        Cost of a hit by reuse interval, loading included [USD].
    hold_s : float or ndarray
        Reuse interval up to which holding beats computing again [s].
    discount_s : float or ndarray
        Reuse interval that a discounted cache read pays for [s].
    """

    id: str
    name: str
    holding: Holding
    n_prefixes: Num
    hit_s: Num
    load_usd: Num
    hit_usd: Mapping[float, Num]
    hold_s: Num
    discount_s: Num


@dataclass(frozen=True, slots=True)
class KvTiersResult:
    """A prefix in every tier.

    Attributes
    ----------
    prefix_tokens : float or ndarray
        Its length [token].
    prefix_bytes : float or ndarray
        Its cache, stored once [byte].
    recompute_s, recompute_usd : float or ndarray
        Computing it again: time to its end, and the GPU-time at its price [s], [USD].
    tiers : tuple of TierResult
        HBM first, then the edition's by price, dearest first.
    cheapest : tuple of (str, float, float)
        At the medians, which tier is cheapest between two reuse intervals [s]; ``recompute`` beyond the last.
    """

    prefix_tokens: Num
    prefix_bytes: Num
    recompute_s: Num
    recompute_usd: Num
    tiers: tuple[TierResult, ...]
    cheapest: tuple[tuple[str, float, float], ...]


def estimate_kv_tiers(
    scenario: ServingScenario,
    machine: Machine,
    draws: Mapping[str, Num] | None = None,
    market: TierMarket | None = None,
    cache_read_fraction: Num = CACHE_READ_FRACTION,
) -> KvTiersResult:
    """Compare the tiers that a request's prefix may wait in.

    The prefix is the scenario's cached part, or its whole input where nothing is cached. A byte of HBM is priced at
    what a running sequence in its place would earn: the GPU's price over the cache room, times how much more batch
    raises the throughput there. The other tiers are bought, paid back over their life, and read over the network card.

    Parameters
    ----------
    scenario : ServingScenario
        With a layout, a batch and a price of the GPU-hour.
    machine : Machine
        One GPU, its links, and what they reach.
    draws : mapping of str to float or ndarray, optional
        Samples of :meth:`TierMarket.uncertain`; medians when left out.
    market : TierMarket, optional
        Facts; the newest when left out.
    cache_read_fraction : float or ndarray
        Price of a cached token over a new one [-].

    Returns
    -------
    KvTiersResult
        Times, prices and break-even intervals.

    Raises
    ------
    QuantityError
        Where the GPU-hour has no price.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> model = load_model("llama-3.1-70b")
    >>> scenario = ServingScenario(model, Layout(tp=8), Precision(), 1024.0, 256.0, 32.0, 8192.0, 2.0)
    >>> found = estimate_kv_tiers(scenario, Machine(load_system("h100-nvl8")))
    >>> [one.id for one in found.tiers][:2], [name for name, _, _ in found.cheapest][-1]
    (['hbm', 'ddr5-socket'], 'recompute')
    """
    if np.any(np.asarray(scenario.usd_per_gpu_hour) <= 0):
        raise QuantityError(
            "usd_per_gpu_hour = 0: tiers are compared with the price of GPU-time, which must be positive"
        )
    market = market or load_tier_market()
    values = {name: fact.value for name, fact in market.facts().items()} | dict(draws or {})
    prefix = np.where(np.asarray(scenario.cached_tokens) > 0, scenario.cached_tokens, scenario.input_tokens)
    prefix_bytes = sequence_bytes_per_gpu(scenario.model, prefix, Layout(), PRECISION_BYTES[scenario.precision.kv])
    again = estimate_serving(replace(scenario, input_tokens=prefix, cached_tokens=0.0), machine)
    recompute_usd = _usd_per_s(scenario) * again.prefill_busy_s
    hbm, room_bytes = _hbm(scenario, machine)
    frame = _Prefix(prefix_bytes, recompute_usd, hbm, cache_read_fraction)
    tiers = [_tier_result(("hbm", f"memory of {machine.system.accelerator.id}"), hbm, room_bytes, frame)]
    for key, tier in market.tiers.tiers.items():
        if key != HBM:
            holding, capacity = _holding(key, values, scenario.layout, machine)
            tiers.append(_tier_result((key, tier.name), holding, capacity, frame))
    tiers.sort(key=lambda one: (one.id != "hbm", -median(one.holding.usd_per_byte_per_s)))
    return KvTiersResult(
        prefix_tokens=prefix,
        prefix_bytes=prefix_bytes,
        recompute_s=again.prefill_s,
        recompute_usd=recompute_usd,
        tiers=tuple(tiers),
        cheapest=_cheapest(tiers, frame),
    )


@dataclass(frozen=True, slots=True)
class _Prefix:
    """What every tier is asked about."""

    bytes: Num
    recompute_usd: Num
    hbm: Holding
    cache_read_fraction: Num


def _usd_per_s(scenario: ServingScenario) -> Num:
    return scenario.usd_per_gpu_hour / HOUR_S * scenario.layout.n_gpus


def _hbm(scenario: ServingScenario, machine: Machine) -> tuple[Holding, Num]:
    """HBM as a tier, and the bytes of distinct prefixes that a replica has room for."""
    largest = np.maximum(largest_batch(scenario, machine), 1.0)
    here, more = (estimate_serving(replace(scenario, batch=largest * by), machine) for by in (1.0, _MORE))
    gained = np.log(_MORE * here.tpot_s / more.tpot_s) / np.log(_MORE)
    one = sequence_bytes_per_gpu(scenario.model, scenario.held_tokens, Layout(), PRECISION_BYTES[scenario.precision.kv])
    room = largest * one
    return Holding(np.inf, _usd_per_s(scenario) * np.clip(gained, 0.0, 1.0) / room, 0.0), room


def _holding(key: str, values: Mapping[str, Num], layout: Layout, machine: Machine) -> tuple[Holding, Num]:
    """A bought tier, and the bytes that stand beside one replica."""
    capacity, read = values[f"tiers.{key}.capacity_bytes"], values[f"tiers.{key}.read_bytes_per_s"]
    devices = DEVICES_PER_GPU.get(key, 1.0) * layout.n_gpus
    wire = machine.scale_out_bytes_per_s * layout.tp * layout.pp
    price = usd_per_byte_per_s(
        values[f"tiers.{key}.usd_per_byte"],
        values["ownership.life_years"],
        values["ownership.cost_of_capital_fraction"],
    )
    return Holding(np.minimum(devices * read, wire), price, capacity / read), devices * capacity


def _tier_result(named: tuple[str, str], holding: Holding, capacity_bytes: Num, prefix: _Prefix) -> TierResult:
    time_s = hit_s(holding, prefix.bytes)
    load_usd = prefix.hbm.usd_per_byte_per_s * prefix.bytes * time_s
    return TierResult(
        id=named[0],
        name=named[1],
        holding=holding,
        n_prefixes=np.floor(capacity_bytes / prefix.bytes),
        hit_s=time_s,
        load_usd=load_usd,
        hit_usd={reuse_s: load_usd + hit_usd(holding, prefix.bytes, reuse_s) for reuse_s in REUSE_S},
        hold_s=hold_or_recompute_s(holding, prefix.bytes, prefix.recompute_usd - load_usd),
        discount_s=hold_or_recompute_s(
            holding, prefix.bytes, prefix.cache_read_fraction * prefix.recompute_usd - load_usd
        ),
    )


def _cheapest(tiers: list[TierResult], prefix: _Prefix) -> tuple[tuple[str, float, float], ...]:
    """Tiers by reuse interval, at the medians."""
    size = median(prefix.bytes)
    costs = [
        median(one.load_usd)
        + hit_usd(Holding(1.0, median(one.holding.usd_per_byte_per_s), median(one.holding.drain_s)), size, _GRID_S)
        for one in tiers
    ]
    names = [*(one.id for one in tiers), "recompute"]
    best = np.argmin(np.stack([*costs, np.full_like(_GRID_S, median(prefix.recompute_usd))]), axis=0)
    starts = [0, *(np.flatnonzero(np.diff(best)) + 1)]
    ends = [*(float(_GRID_S[start]) for start in starts[1:]), float("inf")]
    return tuple(
        (names[int(best[start])], 0.0 if start == 0 else float(_GRID_S[start]), end)
        for start, end in zip(starts, ends, strict=True)
    )
