"""Constants carried over to chips that they were not fitted on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.facts.catalog import accelerator_ids
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.physics.calibration.achieved import bandwidth_ratio, loss_ratio, measured_kernels
from computeledger.physics.calibration.efficiency import IDEAL, efficiency
from computeledger.physics.calibration.serving import load_calibration
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, OperationKind, Precision
from computeledger.physics.serving.operations import Step, forward


def test_chips_of_the_fit_are_what_the_constants_say() -> None:
    for chip in load_calibration().chips:
        assert (loss_ratio(load_accelerator(chip)), bandwidth_ratio(load_accelerator(chip))) == (1.0, 1.0)
    h200, eff = Machine(load_system("h200-nvl8"), efficiency("sglang")), efficiency("sglang")
    assert h200.gemm_flop_per_s("fp8") == 1979e12 * eff.gemm_fraction_fp8
    assert h200.kv_bytes_per_s == 4.8e12 * eff.kv_bandwidth_fraction


@pytest.mark.parametrize("chip", ["h20-sxm5-96gb", "gh200-96gb"])
def test_one_ratio_tells_every_kernel_of_a_chip(chip: str) -> None:
    """Leave one kernel out: its share follows from what the others lose, and not from the H100's own share."""
    kernels = measured_kernels("compute")[chip]
    for left_out in kernels:
        others = [one.loss_ratio for one in kernels if one is not left_out]
        ratio = float(np.exp(np.mean(np.log(others))))
        told = 1 / (1 + ratio * (1 / left_out.reference_share - 1))
        assert abs(told / left_out.share - 1) < 0.16
        assert abs(told / left_out.share - 1) < abs(left_out.reference_share / left_out.share - 1)


def test_the_law_agrees_with_kernels_that_were_measured() -> None:
    """Tensor over vector peak puts an H20 at 0.23 of an H100's loss; its kernels at 0.19 to 0.40."""
    h20, l40s = (load_accelerator(one) for one in ("h20-sxm5-96gb", "l40s"))
    assert loss_ratio(h20) == pytest.approx((148 / 44) / (989.4 / 66.91), rel=0.1)
    assert loss_ratio(l40s) == pytest.approx((362.05 / 91.6) / (989.4 / 66.91))


def test_a_chip_that_is_poor_in_compute_reaches_more_of_it() -> None:
    h20, h100 = (Machine(load_system(one), efficiency("sglang")) for one in ("h20-nvl8", "h100-nvl8"))
    assert 0.75 < h20.gemm_flop_per_s("fp8") / 296e12 < 0.85
    assert h100.gemm_flop_per_s("fp8") / 1979e12 < 0.7 * h20.gemm_flop_per_s("fp8") / 296e12
    # the fit has grouped products at their cap, the rate of large ones
    assert h20.expert_flop_per_s("fp8") <= h20.gemm_flop_per_s("fp8") < 296e12


def test_sliced_experts_lose_as_the_chip_does_and_spread_ones_wait_for_the_busiest_rank() -> None:
    model, step = load_model("deepseek-r1"), Step(1.0, 0.0, 4096.0, decode=False)
    h20 = Machine(load_system("h20-nvl8"), efficiency("sglang"))
    even = replace(h20, efficiency=replace(h20.efficiency, expert_imbalance=1.0))

    def experts_flop(machine: Machine, layout: Layout) -> float:
        work = forward(model, step, layout, Precision(), machine)
        return float(next(np.ravel(one.flop)[0] for one in work if one.kind is OperationKind.ROUTED_EXPERTS))

    spread, sliced = Layout(tp=1, dp=8, ep=8), Layout(tp=8)
    assert experts_flop(h20, sliced) / experts_flop(even, sliced) < 1.2
    assert experts_flop(h20, spread) / experts_flop(even, spread) > 1.2


def test_what_was_measured_on_the_chip_is_not_corrected() -> None:
    assert IDEAL.chip_correction == efficiency("llama.cpp on geforce").chip_correction == 0
    h20 = load_system("h20-nvl8")
    assert Machine(h20).gemm_flop_per_s("fp8") == 296e12
    own = Machine(h20, replace(efficiency(), chip_correction=0.0, gemm_fraction_bf16=0.5))
    assert own.gemm_flop_per_s("bf16") == 74e12


def test_the_table_names_chips_and_sources_that_there_are() -> None:
    known = set(accelerator_ids())
    for kind in ("compute", "bandwidth"):
        assert set(measured_kernels(kind)) <= known
        for one in (one for rows in measured_kernels(kind).values() for one in rows):
            assert 0 < one.share < 1
            assert 0 < one.reference_share < 1
            assert one.locator
    assert all(0 < loss_ratio(load_accelerator(one)) <= 1 for one in known)
