"""The table of levers: each row is the answer to the question with that one change."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.levers import Lever, levers

MACHINE = Machine(load_system("h100-nvl8"), training=training_efficiency())
ASKED = {
    "model": "qwen3-30b-a3b", "system": "h100-nvl8", "layout": "tp2-pp2-dp4-ep4", "recompute": "selective",
    "microbatch_sequences": "2", "virtual_stages": "4", "samples": "16",
}  # fmt: skip


def pulled(model: str, layout: Layout, batch: Batch) -> dict[tuple[str, str], Lever]:
    scenario = PretrainingScenario(load_model(model), layout, Precision(), batch)
    return {(one.lever, one.value): one for one in levers(scenario, MACHINE)}


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (("recompute", "full"), {"recompute": "full"}),
        (("in host memory", "optimizer"), {"offload": "optimizer"}),
        (("sharding", "zero-2"), {"sharding": "zero-2"}),
        (("expert parallelism", "ep8"), {"layout": "tp2-pp2-dp4-ep8"}),
        (("pipeline stages", "pp4"), {"layout": "tp2-pp4-dp2-ep4"}),
        (("microbatch", "1"), {"microbatch_sequences": "1"}),
        (("optimizer", "muon"), {"optimizer": "muon"}),
        (("moments", "bf16"), {"moment_precision": "bf16"}),
    ],
)
def test_a_row_is_the_answer_to_the_changed_question(row: tuple[str, str], change: dict[str, str]) -> None:
    table = {(one.lever, one.value): one for one in cl.pretrain(**ASKED, levers=True).levers}
    alone = cl.pretrain(**{**ASKED, **change}, levers=True).levers[0]
    assert (table[row].memory_bytes, table[row].step_s, table[row].fits) == pytest.approx(
        (alone.memory_bytes, alone.step_s, alone.fits)
    )


def test_what_cannot_run_is_left_out() -> None:
    alone = pulled("llama-3.1-8b", Layout(), Batch(8192.0, 4.0))
    assert {lever for lever, _ in alone}.isdisjoint({"sharding", "tensor parallelism", "context parallelism"})
    piped = pulled("llama-3.1-8b", Layout(pp=4, dp=2), Batch(8192.0, 8.0, virtual_stages=2.0))
    assert ("sharding", "zero-3") not in piped and ("microbatch", "2") not in piped
    away = pulled("llama-3.1-8b", Layout(dp=8), Batch(8192.0, 64.0, stack=Stack(offload="optimizer")))
    assert not any(value == "reversible" for _, value in alone)
    assert ("optimizer", "muon") not in away and ("in host memory", "nothing") in away


def test_levers_of_memory_free_memory() -> None:
    table = pulled("llama-3.1-8b", Layout(dp=8), Batch(8192.0, 64.0, recompute="none"))
    now = table["as it is", ""]
    for row in (("recompute", "full"), ("in host memory", "activations"), ("sharding", "zero-3"), ("moments", "bf16"),
                ("tensor parallelism", "tp2"), ("context parallelism", "cp2"), ("optimizer", "adafactor"),
                ("activations", "fp8")):  # fmt: skip
        assert table[row].memory_bytes < now.memory_bytes, row
    assert table["recompute", "full"].step_s > now.step_s
    assert ("recompute", "reversible") not in table and table["precision", "fp8"].step_s < now.step_s


def test_each_stage_of_zero_frees_memory_for_time() -> None:
    """Shards of 64 ranks: zero-2 keeps a layer's gradients and both tables', zero-3 their weights too."""
    table = pulled("llama-3.1-8b", Layout(dp=64), Batch(8192.0, 512.0))
    one, two, three = table["as it is", ""], table["sharding", "zero-2"], table["sharding", "zero-3"]
    layer, tables = 2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336, 2 * 128256 * 4096
    params = 32 * layer + tables
    assert one.memory_bytes - two.memory_bytes == pytest.approx(4 * (params * 63 / 64 - layer - tables), rel=1e-3)
    assert one.memory_bytes > two.memory_bytes > three.memory_bytes
    assert one.step_s < two.step_s < three.step_s
    staged = pulled("llama-3.1-8b", Layout(pp=4, dp=16), Batch(8192.0, 512.0))
    assert ("sharding", "zero-2") not in staged, "a stage of one chunk keeps its gradients whole"


def test_checkpointing_by_operation_has_its_price() -> None:
    """Between none and full, in memory as in time; offered where weights are sharded as PyTorch does."""
    table = pulled("llama-3.1-8b", Layout(dp=8), Batch(8192.0, 64.0, recompute="none", sharded_weights=True))
    none, some, full = (table[row] for row in (("as it is", ""), ("recompute", "selective-op"), ("recompute", "full")))
    assert none.memory_bytes > some.memory_bytes > full.memory_bytes and none.step_s < some.step_s < full.step_s


def test_a_framework_that_nobody_named_has_the_spread_of_all_stacks() -> None:
    """The narrow interval of peaks is one framework's; no lever changes a step by minus nothing."""
    asked: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "system": "h100-nvl8",
        "gpus": 8,
        "tokens": 1e9,
        "layout": "dp8",
        "samples": 32,
    }
    named, unnamed = (
        cl.pretrain(**asked, **more).to_dict()["memory_ratio"] for more in ({"framework": "megatron-lm"}, {})
    )
    assert unnamed["low"] < named["low"] < 1 < named["high"] < unnamed["high"]
    table = next(one for one in cl.pretrain(**asked, levers=True).view().tables if one.title.startswith("What each"))
    assert not any(cell == "\u22120.0 %" for row in table.rows for cell in row)
