"""Optimizers: what they keep and compute, against what their authors say, and what a step makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.errors import UnknownIdError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.attention import mixer_of
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.physics.training.counts import layer_counts
from computeledger.physics.training.memory import training_memory
from computeledger.physics.training.optimizers import (
    OPTIMIZERS,
    Matrix,
    _of_matrix,
    load_optimizer,
    mixer_matrices,
    update_of,
)
from computeledger.physics.training.step import StepTime, step_time

LLAMA, LARGE, DEEPSEEK = load_model("llama-3.1-70b"), load_model("llama-3.1-405b"), load_model("deepseek-v3")
TYPICAL = Machine(load_system("h100-nvl8"), training=training_efficiency())
LAYOUT = Layout(tp=4, pp=4, dp=16)


def with_optimizer(name: str) -> Batch:
    return Batch(8192.0, 512.0, recompute="full", stack=Stack(optimizer=name))


def step(name: str, layout: Layout = LAYOUT, model=LLAMA) -> StepTime:
    return step_time(model, with_optimizer(name), layout, Precision(), TYPICAL)


@pytest.mark.parametrize("model", [LLAMA, DEEPSEEK, load_model("gpt-oss-120b"), load_model("nemotron-3-nano")])
def test_matrices_are_the_mixers_parameters(model) -> None:
    for group in model.layers:
        found = mixer_matrices(group.attention, model.hidden_size)
        whole = mixer_of(group.attention).params(model.hidden_size) if group.attention.is_present else 0
        assert sum(one.params for one in found) == pytest.approx(whole)


@pytest.mark.parametrize(("width", "batch_tokens", "overhead"), [(768, 524_288, 0.007), (16_384, 16e6, 0.005)])
def test_muons_arithmetic_is_at_most_what_its_author_counts(width: int, batch_tokens: float, overhead: float) -> None:
    """muon-blog: T m / B over the 6 m n B of a linear layer, 0.7 % of a NanoGPT speed run, 0.5 % of Llama 405B."""
    _, square, _ = _of_matrix(load_optimizer("muon"), float(width), float(width))
    assert square / (6 * width**2 * batch_tokens) == pytest.approx(5 * width / batch_tokens)
    assert 5 * width / batch_tokens == pytest.approx(overhead, rel=0.05)
    _, wide, _ = _of_matrix(load_optimizer("muon"), float(width), 4.0 * width)
    assert wide / 4 < square


def test_muon_of_llama_405b_stays_below_its_bound() -> None:
    update = update_of("muon", LARGE.layers, LARGE.hidden_size, False)
    assert 0.5 * 5 * 16_384 < update.flop / 6 < 5 * 16_384
    largest = Matrix(16_384.0, 53_248.0)
    assert update.largest_flop == 5 * (4 * 16_384**2 * largest.columns + 2 * 16_384**3)


def test_muon_keeps_half_of_what_adam_keeps_beside_the_master_copy() -> None:
    """moonlight-paper, section 2.3: one momentum buffer where AdamW has two; tables keep AdamW's."""
    update = {name: update_of(name, LLAMA.layers, LLAMA.hidden_size, False) for name in ("adamw", "muon")}
    assert update["muon"].state_values == update["adamw"].state_values / 2
    held = {
        name: float(training_memory(LLAMA, with_optimizer(name), Layout(dp=8)).optimizer_bytes)
        for name in ("adamw", "muon")
    }
    tables = 2 * LLAMA.vocab_size * LLAMA.hidden_size
    matrices = layer_counts(LLAMA.layers, LLAMA.hidden_size).dense_params
    assert held["adamw"] == pytest.approx(12 * (tables + matrices) / 8)
    assert held["muon"] == pytest.approx((12 * tables + 8 * matrices) / 8)


def test_preconditioners_take_what_their_code_says() -> None:
    """distributed-shampoo: 4 m n beside the moments; soap: squares of either side, twice, and none beyond 10,000."""
    shampoo, soap = load_optimizer("shampoo"), load_optimizer("soap")
    for rows, columns in ((8192.0, 8192.0), (16_384.0, 8192.0)):
        kept, _, _ = _of_matrix(shampoo, rows, columns)
        assert kept == (2 + 4) * rows * columns
    kept, _, _ = _of_matrix(soap, 1024.0, 4096.0)
    assert kept == 2 * 1024 * 4096 + 2 * 1024**2 + 2 * 4096**2
    kept, _, _ = _of_matrix(soap, 4096.0, 14_336.0)
    assert kept == 2 * 4096 * 14_336 + 2 * 4096**2


def test_adafactor_keeps_rows_and_columns_alone() -> None:
    kept, flop, cubes = _of_matrix(load_optimizer("adafactor"), 4096.0, 14_336.0)
    assert (kept, flop, cubes) == (4096 + 14_336, 0.0, 0.0)


def test_overheads_are_those_that_were_published() -> None:
    """moonlight-paper: 1 to 3 % of forward and backward; distributed-shampoo's paper: at most 10 % of a step."""
    plain = step("adamw")
    more = {name: float((step(name).step_s - plain.step_s) / plain.step_s) for name in OPTIMIZERS}
    assert 0.01 < more["muon"] < 0.03
    assert 0.01 < more["shampoo"] < 0.10
    assert 0.01 < more["soap"] < 0.10
    assert -0.001 < more["adafactor"] < more["lion"] == more["sgd"] < 0


def test_work_on_a_whole_matrix_does_not_divide_further() -> None:
    """More data-parallel ranks than matrices: each computes one, and no more of them helps."""
    times = [float(np.asarray(step("muon", Layout(tp=8, pp=16, dp=dp), LARGE).optimizer_s)) for dp in (32, 512)]
    update = update_of("muon", LARGE.layers, LARGE.hidden_size, False)
    assert times[1] > update.largest_flop / TYPICAL.bf16_flop_per_s
    assert times[0] < 1.5 * times[1]


def test_experts_are_matrices_of_their_own() -> None:
    update = update_of("muon", DEEPSEEK.layers, DEEPSEEK.hidden_size, True)
    assert update.largest_flop == 5 * (4 * 2048**2 * 7168 + 2 * 2048**3)
    assert update_of("muon", LLAMA.layers, LLAMA.hidden_size, True).flop == 0


def test_an_unknown_optimizer_gets_the_nearest() -> None:
    with pytest.raises(UnknownIdError, match="muon"):
        load_optimizer("moun")
