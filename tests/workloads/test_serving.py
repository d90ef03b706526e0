"""Serving: conservation of cost, limits, searches, and figures of other tools and published systems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.arrays import sample
from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency, load_factors
from computeledger.physics.parallelism import Layout, serving_layouts
from computeledger.physics.roofline import Machine, Precision, total_s
from computeledger.physics.serving.operations import activation_bytes
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving.search import (
    Slo,
    layouts_that_fit,
    pareto_front,
    price_of_speed,
    search_serving,
    size_fleet,
)

BF16, FP8 = Precision(), Precision("fp8", "fp8", "fp8")


def scenario(
    model: str, layout: Layout, batch: float, lengths: tuple[float, float], precision: Precision = BF16
) -> ServingScenario:
    return ServingScenario(load_model(model), layout, precision, *lengths, batch, 0.0, 2.0)


# Speed-of-light decode times that aiconfigurator 0.12.0 gives for stated inputs (its own ideal roofline, without
# launches, host or fabric): its `cli estimate` in SOL mode, run 2026-11-21. Tolerance: mean context and head are
# counted differently.
SOL = [
    ("llama-3.1-70b", "h100-nvl8", Layout(tp=8), 32, (2048, 256), Precision(), 6.55e-3),
    ("llama-3.1-70b", "h100-nvl8", Layout(tp=8), 1, (2048, 256), Precision(), 5.23e-3),
    ("llama-3.1-70b", "h200-nvl8", Layout(tp=4), 64, (4096, 1024), Precision(), 13.14e-3),
    ("llama-3.1-70b", "b200-nvl8", Layout(tp=4), 64, (4096, 1024), Precision(), 8.12e-3),
    ("llama-3.1-8b", "h100-nvl8", Layout(), 64, (1024, 256), Precision(), 7.52e-3),
]


@pytest.mark.parametrize(("model", "system", "layout", "batch", "lengths", "precision", "published_s"), SOL)
def test_ideal_decode_against_another_tools_limit(
    model, system, layout, batch, lengths, precision, published_s
) -> None:
    result = ideal_serving(scenario(model, layout, batch, lengths, precision), Machine(load_system(system)))
    on_chip = total_s(one for one in result.decode if not np.any(one.network_s))
    assert float(on_chip) == pytest.approx(published_s, rel=0.1)


def test_hand_roofline() -> None:
    """(16.06 GB of weights + 64 x 1152 x 131 kB of cache) / 3.35 TB/s = 7.7 ms, less the input embedding's 1.05 GB."""
    result = ideal_serving(scenario("llama-3.1-8b", Layout(), 64, (1024, 256)), Machine(load_system("h100-nvl8")))
    assert float(result.decode_s) == pytest.approx((16.06e9 - 1.05e9 + 64 * 1152 * 131072) / 3.35e12, rel=0.01)


def test_cost_is_conserved() -> None:
    """Input and output prices together pay for exactly the GPU-time that the replica spends."""
    one = scenario("deepseek-v3", Layout(tp=8, ep=8), 48, (4096, 1024), FP8)
    result = estimate_serving(one, Machine(load_system("h200-nvl8"), efficiency()))
    per_request = 4096 * result.usd_per_mtok_input / 1e6 + 1024 * result.usd_per_mtok_output / 1e6
    spent = 8 * 2.0 / 3600 / result.requests_per_s
    assert float(per_request) == pytest.approx(float(spent))


def test_identities_of_the_result() -> None:
    result = estimate_serving(
        scenario("llama-3.1-8b", Layout(), 64, (1024, 256)), Machine(load_system("h100-nvl8"), efficiency())
    )
    assert float(result.output_tokens_per_s_per_user * result.tpot_s) == pytest.approx(1)
    assert float(result.gpu_s_per_output_token * result.output_tokens_per_s_per_gpu) == pytest.approx(1)
    assert result.ttft_s > result.prefill_s
    assert result.tpot_s > result.decode_s


def test_cached_tokens_are_cheaper_than_new_ones_and_shorten_ttft() -> None:
    machine = Machine(load_system("h200-nvl8"), efficiency())
    one = scenario("deepseek-v3", Layout(tp=8, ep=8), 32, (8192, 512), FP8)
    fresh, cached = (
        estimate_serving(one, machine),
        estimate_serving(replace(one, input_tokens=1024.0, cached_tokens=7168.0), machine),
    )
    assert cached.ttft_s < fresh.ttft_s
    assert fresh.usd_per_mtok_cached_read < 0.5 * fresh.usd_per_mtok_input


def test_price_of_speed_has_a_floor_and_a_plateau() -> None:
    machine = Machine(load_system("h100-nvl8"), efficiency())
    curve = price_of_speed(scenario("llama-3.1-8b", Layout(), 64, (1024, 256)), machine)
    costs = [one.usd_per_mtok_output for one in curve.options]
    speeds = [one.tpot_s for one in curve.options]
    assert costs == sorted(costs, reverse=True)
    assert speeds == sorted(speeds)
    assert curve.latency_floor_s == speeds[0]
    assert 0 <= curve.slow_mode_saves_fraction < 0.8


def test_front_is_undominated_and_within_memory() -> None:
    machine = Machine(load_system("h200-nvl8"), efficiency())
    one = scenario("deepseek-v3", Layout(), 1, (4096, 1024), FP8)
    options = search_serving(one, layouts_that_fit(one, machine), machine)
    front = pareto_front(options)
    assert len(front) > 5
    for point in front:
        assert not any(
            other.tpot_s < point.tpot_s and other.output_tokens_per_s_per_gpu > point.output_tokens_per_s_per_gpu
            for other in options
        )


def test_search_agrees_with_single_answers() -> None:
    machine = Machine(load_system("h100-nvl8"), efficiency())
    one = scenario("llama-3.1-70b", Layout(), 1, (2048, 256))
    for option in search_serving(one, serving_layouts(one.model, 8, 8), machine)[::37]:
        alone = estimate_serving(replace(one, layout=option.layout, batch=float(option.batch)), machine)
        assert float(alone.tpot_s) == pytest.approx(option.tpot_s)


def test_fleet_carries_the_load() -> None:
    machine = Machine(load_system("h100-nvl8"), efficiency())
    one = scenario("llama-3.1-8b", Layout(), 1, (1024, 256))
    options = search_serving(one, serving_layouts(one.model, 8, 8), machine)
    fleet = size_fleet(options, Slo(100.0, tpot_s=0.03))
    assert fleet.n_replicas * fleet.option.requests_per_s >= 100.0
    assert fleet.option.tpot_s <= 0.03
    assert size_fleet(options, Slo(200.0, tpot_s=0.03)).n_gpus >= fleet.n_gpus
    with pytest.raises(QuantityError, match="no layout meets"):
        size_fleet(options, Slo(1.0, tpot_s=1e-6))


def test_too_large_a_model_is_refused() -> None:
    machine = Machine(load_system("h100-nvl8"))
    one = scenario("deepseek-v3", Layout(), 1, (4096, 1024), FP8)
    with pytest.raises(DoesNotFitError, match="does not fit"):
        search_serving(one, serving_layouts(one.model, 8, 8), machine)


def test_published_production_day_within_a_factor_of_two() -> None:
    """DeepSeek's day of 2025-02-27: 266B prefilled, 342B cached, 168B generated on 226.75 nodes of 8 H800.

    Prefill and decode ran in pools of their own: no prompt stands between two decode steps (open-infra-index, day 6).
    """
    machine = Machine(load_system("h800-nvl8"), efficiency())
    one = ServingScenario(load_model("deepseek-v3"), Layout(dp=128, ep=128), FP8, 1917.0, 1211.0, 128 * 64.0, 2465.0)
    result = estimate_serving(one, machine)
    replica_s = (
        266e9 * result.prefill_s / 128 / 1917 + 168e9 * result.decode_s / one.batch + 342e9 * result.cached_busy_s
    )
    assert 0.5 < float(replica_s) * 128 / (226.75 * 8 * 86400) < 2.0


def test_result_broadcasts_over_samples() -> None:
    draws = np.linspace(0.5, 0.9, 7)
    machine = Machine(load_system("h100-nvl8"), replace(efficiency(), weight_bandwidth_fraction=draws))
    result = estimate_serving(scenario("llama-3.1-8b", Layout(), 8, (1024, 256)), machine)
    assert result.tpot_s.shape == (7,)
    assert np.all(np.diff(result.tpot_s) < 0)


def test_no_sample_beats_the_physical_limit() -> None:
    """Long prompts on a fast engine: the ratio for what is not modelled stops at the limit."""
    factors = {f"efficiency.{name}": one.value for name, one in load_factors().items()}
    machine = Machine(load_system("h100-nvl8"), efficiency(draws=sample(factors, 512)))
    one = scenario("llama-3.1-8b", Layout(), 16, (16000, 4000))
    result, limit = estimate_serving(one, machine), ideal_serving(one, machine)
    for name in ("decode_s", "prefill_s", "tpot_s", "ttft_s"):
        samples = getattr(result, name)
        assert np.all(samples > getattr(limit, name)), name
        assert len(np.unique(samples)) > 500, "and none piles up on it"


def test_expert_copies_do_not_grow_with_tensor_parallelism() -> None:
    """Eight ranks that hold an eighth of the experts each see an eighth of the routed copies."""
    model = load_model("deepseek-v3")
    alone, spread = (float(activation_bytes(model, 4096.0, 8, copies)) for copies in (4096.0, 512.0))
    routed = 58 * 4 * 7168 * 8 * 2
    assert alone - spread == pytest.approx((4096 - 512) * routed)
