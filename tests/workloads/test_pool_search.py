"""Two pools: the search's figures are those of the closed system, and nothing tried by hand beats it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from computeledger.errors import DoesNotFitError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.pool_search import MOST_BUSY_FRACTION, PoolOption, search_pools
from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated
from computeledger.workloads.serving.search import pareto_front

FP8 = Precision("fp8", "fp8", "fp8")
SCENARIO = ServingScenario(load_model("llama-3.1-70b"), Layout(), FP8, 2048.0, 512.0, 1.0, usd_per_gpu_hour=3.0)
MACHINE = Machine(load_system("h200-nvl8"), efficiency())
LAYOUTS = [Layout(tp=1), Layout(tp=2), Layout(tp=4)]


@pytest.fixture(scope="module")
def found() -> list[PoolOption]:
    return search_pools(SCENARIO, LAYOUTS, MACHINE, 8)


def test_figures_are_those_of_the_closed_system(found) -> None:
    for one in pareto_front(found)[::7]:
        result = estimate_disaggregated(one.scenario(SCENARIO), MACHINE)
        assert float(np.asarray(result.tpot_s).item()) == pytest.approx(one.tpot_s, rel=1e-3)
        assert float(np.asarray(result.ttft_s).item()) == pytest.approx(one.ttft_s, rel=1e-3)
        paid = one.usd_per_mtok_output * 512 + one.usd_per_mtok_input * 2048
        assert paid / 1e6 * one.requests_per_s == pytest.approx(one.n_gpus * 3.0 / 3600)


def test_pools_stay_within_the_gpus_and_the_queue_within_reason(found) -> None:
    assert all(one.n_gpus <= 8 and one.n_prefill >= 1 and one.n_decode >= 1 for one in found)
    assert all(one.prefill_busy_fraction <= MOST_BUSY_FRACTION + 0.05 for one in found)


@pytest.mark.parametrize("limit_s", [0.012, 0.02, 0.04])
def test_nothing_tried_by_hand_is_better(found, limit_s) -> None:
    """Every pair of layouts, every split of 8 GPUs, loads in steps of 4 %: at the same share of prefill time."""
    best = 0.0
    load = np.geomspace(1, 4000, 212)
    for first, second in product(LAYOUTS, LAYOUTS):
        for n_prefill, n_decode in product(range(1, 8), range(1, 8)):
            if n_prefill * int(first.tp) + n_decode * int(second.tp) > 8:
                continue
            one = ServingScenario(SCENARIO.model, second, FP8, 2048.0, 512.0, 1.0)
            result = estimate_disaggregated(DisaggregatedScenario(one, first, n_prefill, n_decode, load), MACHINE)
            room = result.decode_batch <= result.decode.memory.largest_batch
            settled = np.abs(result.decode_batch / result.decode.scenario.batch - 1) < 0.02
            fits = room & settled & (result.tpot_s <= limit_s) & (result.prefill_busy_fraction <= MOST_BUSY_FRACTION)
            best = max(best, float(np.max(np.where(fits, result.output_tokens_per_s_per_gpu, 0.0))))
    within = [one.output_tokens_per_s_per_gpu for one in found if one.tpot_s <= limit_s]
    # the grid of batches is two per doubling, that of the loads finer
    assert best > 0 and max(within) > 0.93 * best


def test_too_few_gpus_are_refused() -> None:
    with pytest.raises(DoesNotFitError, match="1 GPU cannot hold a prefill and a decode worker: at least 2 can"):
        search_pools(SCENARIO, LAYOUTS, MACHINE, 1)
