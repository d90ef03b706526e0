"""Sweeps: the same blocks and the same results, to the last bit, whoever computes them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.workloads.serving.columns import BLOCK_EVALUATIONS, ServingBlock, evaluate_block, serving_blocks
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.search import layouts_that_fit, search_serving
from computeledger.workloads.sweep import join_columns, sweep

FP8 = Precision("fp8", "fp8", "fp8")
SCENARIO = ServingScenario(load_model("deepseek-v3"), Layout(), FP8, 4096.0, 1024.0, 1.0, usd_per_gpu_hour=3.0)
MACHINE = Machine(load_system("gb200-nvl72"), efficiency())


@pytest.fixture(scope="module")
def blocks() -> list[ServingBlock]:
    layouts = layouts_that_fit(SCENARIO, MACHINE, 72)
    return list(serving_blocks(SCENARIO, layouts, MACHINE, [*range(1, 2049)]))


def test_blocks_cover_the_search_once(blocks) -> None:
    assert all(len(block.layouts) * len(block.batches) <= BLOCK_EVALUATIONS for block in blocks)
    every = [str(layout) for block in blocks for layout in block.layouts]
    assert len(set(every)) == len(every) > 50


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_the_same_results_whoever_computes(blocks, kind) -> None:
    spawn = get_context("spawn")
    with ThreadPoolExecutor(2) if kind == "threads" else ProcessPoolExecutor(2, mp_context=spawn) as pool:
        spread = join_columns(sweep(evaluate_block, blocks, pool))
    alone = join_columns(sweep(evaluate_block, blocks))
    assert spread.keys() == alone.keys()
    assert all(np.array_equal(spread[name], alone[name]) for name in alone)


def test_search_through_an_executor_is_the_same_search() -> None:
    layouts = layouts_that_fit(SCENARIO, MACHINE, 72)
    with ThreadPoolExecutor(2) as pool:
        assert search_serving(SCENARIO, layouts, MACHINE, executor=pool) == search_serving(SCENARIO, layouts, MACHINE)


class Counting(Executor):
    """Computes at once, and counts what is under way."""

    def __init__(self) -> None:
        self.waiting = self.most = 0

    def submit(self, fn, /, *args, **kwargs) -> Future:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_a_sweep_longer_than_memory_keeps_a_window() -> None:
    pool, taken = Counting(), []

    def endless() -> Iterator[int]:
        for number in range(10_000):
            taken.append(number)
            yield number

    for count, found in enumerate(sweep(abs, endless(), pool, window=8)):
        pool.waiting -= 1
        assert found == count
        if count == 100:
            break
    assert pool.most <= 9 and len(taken) < 120


def test_replicas_of_a_power_of_two_are_searched_in_a_rack_of_72() -> None:
    sizes = {int(layout.n_gpus) for layout in layouts_that_fit(SCENARIO, MACHINE, 72)}
    assert {8, 16, 32, 64} <= sizes and max(sizes) <= 72


def test_every_option_fits(blocks) -> None:
    columns = evaluate_block(blocks[0])
    assert np.all(columns["memory_bytes_per_gpu"] <= MACHINE.system.accelerator.hbm_bytes.value)
