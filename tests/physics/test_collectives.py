"""Collectives over PCIe: the published times of all-reduces on servers and workstations of cards."""

from __future__ import annotations

import pytest

from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.collectives import all_to_all_s, latency_s, ring_s
from computeledger.physics.roofline import Machine

#: aiconfigurator 0.12.0, kernel tables, NCCL 2.29.2 and 2.27.3 [us]: all-reduces of 2 KB and of 67 MB.
SMALL = {("8xrtx-pro-6000-server", 2): 6.3, ("8xrtx-pro-6000-server", 4): 13.2, ("8xrtx-pro-6000-server", 8): 25.1,
         ("8xl40s", 2): 6.4, ("8xl40s", 4): 12.2, ("8xl40s", 8): 23.0}  # fmt: skip
LARGE = {("8xrtx-pro-6000-server", 2): 1840, ("8xrtx-pro-6000-server", 4): 4032, ("8xrtx-pro-6000-server", 8): 4927,
         ("8xl40s", 2): 3359}  # fmt: skip


@pytest.mark.parametrize(("system", "n"), SMALL)
def test_a_small_all_reduce_over_pcie_passes_from_card_to_card(system: str, n: int) -> None:
    machine = Machine(load_system(system), efficiency("vllm"))
    assert 1e6 * float(latency_s(n, machine)) == pytest.approx(SMALL[system, n], rel=0.15)


@pytest.mark.parametrize(("system", "n"), LARGE)
def test_a_large_all_reduce_over_pcie_reaches_less_with_more_cards(system: str, n: int) -> None:
    machine = Machine(load_system(system), efficiency("vllm"))
    assert 1e6 * float(ring_s(67.1e6, n, machine)) == pytest.approx(LARGE[system, n], rel=0.1)


def test_nvlink_keeps_its_fitted_share_and_the_limit_its_peak() -> None:
    board, box = load_system("h100-nvl8"), load_system("8xl40s")
    assert board.ring_link_fraction is None and box.ring_link_fraction is not None
    fast, slow = (float(ring_s(1e9, 8, Machine(one, efficiency("ideal")))) for one in (board, box))
    assert slow / fast == pytest.approx(450 / 31.5, rel=0.01)


#: DeepEP's low-latency kernels on H800, 128 tokens of 7,168 values to 8 experts: dispatch in fp8, combine in bf16 [us].
EXCHANGES = {16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}


@pytest.mark.parametrize("n", EXCHANGES)
def test_an_exchange_between_experts_takes_what_deepep_measured(n: int) -> None:
    """docs/legacy.md: no reduction's own steps come on top of the fabric's latency, and no ring waits."""
    machine = Machine(load_system("h800-nvl8"), efficiency("sglang", tuning="recipe"))
    floor_s = machine.efficiency.all_to_all_floor_s
    for bytes_per_value, measured_us in zip((1, 2), EXCHANGES[n], strict=True):
        taken_s = all_to_all_s(128 * 8 * 7168 * bytes_per_value, n, machine) + floor_s
        assert 1e6 * float(taken_s) == pytest.approx(measured_us, rel=0.15)
