"""Tokens on their way to experts: what overlaps, what stays exposed, against DeepSeek's report and its trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.training import load_training_factors, training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.physics.training.exchange import EXCHANGE_FRACTION, dropped_fraction, exchange_s, overlapped_s
from computeledger.physics.training.operations import microbatch
from computeledger.units import KILO

DEEPSEEK, H800 = load_model("deepseek-v3"), load_system("h800-nvl8")
IDEAL, TYPICAL = Machine(H800), Machine(H800, training=training_efficiency())
STACK = Stack(schedule="dualpipe", recipe="block", activation_precision="fp8")
BATCH = Batch(4096.0, 64.0, recompute="layernorm,mla_up_proj,moe_act", stack=STACK)
LAYOUT = Layout(dp=64, ep=64)


def wire(model=DEEPSEEK, **traits) -> float:
    return float(exchange_s(model, replace(BATCH, stack=replace(STACK, **traits)), LAYOUT, IDEAL))


@given(st.floats(0, 1e3), st.floats(0, 1e3))
def test_overlap_lies_between_the_longer_and_the_sum(exchange: float, computing: float) -> None:
    both = float(overlapped_s(exchange, computing))
    assert max(exchange, computing) <= both <= exchange + computing


def test_processors_that_move_tokens_do_not_compute() -> None:
    """DeepSeek-V3 report, section 3.5.1: 20 of the 132 SMs of an H800."""
    assert float(overlapped_s(1.0, 10.0)) == pytest.approx(10 + 20 / 132)
    assert EXCHANGE_FRACTION == 20 / 132


def test_tokens_go_to_four_nodes_at_most() -> None:
    """Report, section 3.2.2: the bytes of a token go over InfiniBand to 4 nodes; section 3.3.3: dispatch in 8 bits."""
    ib = H800.scale_out_bytes_per_s_per_gpu.value
    once = 4096 * 7168 * 4 * (7 / 8) / ib
    latency = wire() - 58 * 2 * (1 + 2) * once
    assert 0 <= latency < 0.02 * wire()
    assert wire(activation_precision="bf16") - latency == pytest.approx(58 * 4 * 2 * once)
    free = replace(DEEPSEEK.layers[-1], feed_forward=replace(DEEPSEEK.layers[-1].feed_forward, n_groups_active=0))
    anywhere = replace(DEEPSEEK, layers=(DEEPSEEK.layers[0], free))
    assert wire(model=anywhere) > 1.2 * wire()


def test_a_chunk_of_deepseeks_trace_lies_in_the_interval() -> None:
    """profile-data, train.json: 129.012 ms for a forward and a backward chunk of 4 MoE layers, routing balanced."""
    four = replace(DEEPSEEK, layers=(replace(DEEPSEEK.layers[-1], count=4),), n_mtp_layers=0)
    parts = {one.name: one.time_s for one in microbatch(four, BATCH, LAYOUT, parse_precision("fp8", True), TYPICAL)}
    chunk = sum(float(part) for name, part in parts.items() if name not in {"output head", "uneven stages"})
    ratio = load_training_factors()["training_expert_ratio"].value
    assert ratio.low < 129.012 / KILO / chunk < ratio.high


def test_dropped_tokens_are_what_lies_above_the_capacity() -> None:
    """Against loads drawn from the same normal distribution; nothing is dropped beyond the busiest, more below it."""
    n_ranks, imbalance = 64, 1.4
    spread = (imbalance - 1) / np.sqrt(2 * np.log(n_ranks))
    loads = np.random.default_rng(0).normal(1.0, spread, 400_000)
    for capacity in (1.0, 1.1, 1.25):
        drawn = np.maximum(loads - capacity, 0.0).mean()
        assert dropped_fraction(imbalance, capacity, n_ranks) == pytest.approx(drawn, rel=0.05, abs=1e-4)
    assert dropped_fraction(imbalance, imbalance, n_ranks) < 1e-3
    assert dropped_fraction(1.0, 1.25, n_ranks) == 0.0 and dropped_fraction(1.0, 0.9, n_ranks) == pytest.approx(0.1)


def test_uneven_routing_stretches_experts_and_their_traffic_alone() -> None:
    layout = Layout(dp=64, ep=64)
    even, uneven = (
        {
            one.name: float(np.asarray(one.time_s))
            for one in microbatch(DEEPSEEK, batch, layout, parse_precision("fp8"), IDEAL)
        }
        for batch in (BATCH, replace(BATCH, stack=replace(STACK, imbalance=1.5, schedule="1f1b")))
    )
    assert uneven["routed experts"] > even["routed experts"]
    assert uneven["matrix products"] == even["matrix products"] and uneven["attention"] == even["attention"]
    assert 1.4 < wire(imbalance=1.5) / wire() <= 1.5
