"""Tiers: the law of the drain time, break-even intervals that break even, and memory that pipelining frees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.arrays import sample
from computeledger.economics.hosting.kv_tiers import (
    Holding,
    KvTiersResult,
    estimate_kv_tiers,
    hit_usd,
    hold_or_recompute_s,
    load_tier_market,
)
from computeledger.economics.hosting.memory_design import design_memory
from computeledger.errors import QuantityError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.workloads.serving.estimate import ServingScenario

FP8 = Precision("fp8", "fp8", "fp8")
SCENARIO = ServingScenario(
    load_model("deepseek-v3"),
    Layout(tp=8, ep=8),
    FP8,
    4096.0,
    1024.0,
    16.0,
    cached_tokens=16384.0,
    usd_per_gpu_hour=4.0,
)
MACHINE = Machine(load_system("h200-nvl8"), efficiency())
AMOUNT = st.floats(1e-3, 1e3)


@pytest.fixture(scope="module")
def tiers() -> KvTiersResult:
    return estimate_kv_tiers(SCENARIO, MACHINE)


@given(AMOUNT, AMOUNT, AMOUNT, AMOUNT)
def test_a_hit_costs_the_busier_of_room_and_bandwidth(price, drain_s, reuse_s, size) -> None:
    """A device that holds n prefixes, each back every T, is paid by them: n <= C/b and n <= T W/b."""
    holding = Holding(1.0, price, drain_s)
    capacity = drain_s * holding.read_bytes_per_s
    n_prefixes = min(capacity / size, reuse_s * holding.read_bytes_per_s / size)
    per_hit = price * capacity * reuse_s / n_prefixes
    assert hit_usd(holding, size, reuse_s) == pytest.approx(per_hit)


@given(AMOUNT, AMOUNT, AMOUNT, AMOUNT)
def test_at_the_break_even_holding_costs_what_it_saves(price, drain_s, size, worth_usd) -> None:
    holding = Holding(1.0, price, drain_s)
    until_s = float(hold_or_recompute_s(holding, size, worth_usd))
    if until_s:
        assert hit_usd(holding, size, until_s) == pytest.approx(worth_usd)
    else:
        assert hit_usd(holding, size, 0.0) > worth_usd * (1 - 1e-12)


def test_the_source_documents_drain_times() -> None:
    """roofline-lecture C140: flash drains in minutes, a modern disk in a day; NVMe 276 s, disk 24 TB / 285 MB/s."""
    tiers = load_tier_market().tiers.tiers
    assert tiers["nvme-4tb"].drain_s == pytest.approx(4e12 / 14.5e9)
    assert 20 * 3600 < tiers["hdd-24tb"].drain_s < 26 * 3600


def test_a_prefix_by_hand(tiers) -> None:
    """16384 tokens x 61 layers x (512 + 64) x 2 B, read from DDR over eight cards."""
    assert float(tiers.prefix_bytes) == 16384 * 61 * 576 * 2
    ddr = next(one for one in tiers.tiers if one.id == "ddr5-socket")
    slowest = min(2 * 460.8e9, 8 * float(MACHINE.scale_out_bytes_per_s))
    assert float(ddr.hit_s) == pytest.approx(float(tiers.prefix_bytes) / slowest)
    assert all(one.hit_s < tiers.recompute_s for one in tiers.tiers)


def test_cheaper_tiers_for_longer_intervals(tiers) -> None:
    """The chain of cheapest tiers covers all intervals once, and each link is no dearer than any other tier there."""
    assert tiers.cheapest[0][1] == 0.0 and tiers.cheapest[-1][2] == np.inf
    ids = [one.id for one in tiers.tiers]
    prices = {one.id: float(one.holding.usd_per_byte_per_s) for one in tiers.tiers}
    chain = [name for name, _, _ in tiers.cheapest if name in ids]
    assert [prices[name] for name in chain] == sorted((prices[name] for name in chain), reverse=True)
    for (_, _, end), (name, start, _) in zip(tiers.cheapest, tiers.cheapest[1:], strict=False):
        assert end == start and name in [*ids, "recompute"]


def test_a_larger_discount_pays_for_longer(tiers) -> None:
    more = estimate_kv_tiers(SCENARIO, MACHINE, cache_read_fraction=0.5)
    assert all(b.discount_s >= a.discount_s for a, b in zip(tiers.tiers, more.tiers, strict=True))
    assert all(one.discount_s <= one.hold_s for one in more.tiers)


def test_tiers_take_samples() -> None:
    draws = sample(load_tier_market().uncertain(), 64)
    flash = next(one for one in estimate_kv_tiers(SCENARIO, MACHINE, draws).tiers if one.id == "nvme-30tb")
    assert np.shape(flash.hold_s) == (64,) and np.ptp(flash.hold_s) > 0


def test_free_gpus_are_refused() -> None:
    with pytest.raises(QuantityError, match="must be positive"):
        estimate_kv_tiers(replace(SCENARIO, usd_per_gpu_hour=0.0), MACHINE)


def test_pipelining_frees_the_weights_and_nothing_else() -> None:
    """Twice the stages: half the layers per GPU, the same cache, the same throughput but for the hops.

    The ends keep a table each, so that the first cut frees one of the two tables besides.
    """
    one, two, four, eight = design_memory(SCENARIO, MACHINE)
    assert two.hbm_bytes - four.hbm_bytes == pytest.approx(2 * (four.hbm_bytes - eight.hbm_bytes))
    assert one.hbm_bytes - two.hbm_bytes > 2 * (two.hbm_bytes - four.hbm_bytes)
    assert eight.n_gpus == 8 * one.n_gpus
    assert eight.output_tokens_per_s_per_gpu == pytest.approx(one.output_tokens_per_s_per_gpu, rel=0.02)
    assert eight.tpot_s >= one.tpot_s
    saved = (eight.saved_usd_per_gpu - one.saved_usd_per_gpu) / (one.hbm_bytes - eight.hbm_bytes)
    assert saved == pytest.approx(15.1e-9)
