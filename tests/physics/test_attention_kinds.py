"""A new kind of attention is one class: its name stands nowhere else, and every answer follows from its methods."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import numpy as np
import pytest

import computeledger as cl
from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.facts import huggingface
from computeledger.facts.architecture import Attention
from computeledger.facts.huggingface.fields import Fields
from computeledger.facts.huggingface.parts import Shape, dense_mlp, grouped_heads, layer_count
from computeledger.physics import attention
from computeledger.physics.attention.softmax import Softmax

SRC = Path(__file__).resolve().parents[2] / "src"
#: Where a kind may be named: its class, and the readers of configurations.
HOMES = ("computeledger/physics/attention/", "computeledger/facts/huggingface/", "computeledger/facts/architecture.py")
#: A published shape, small enough for one GPU.
LLAMA = {
    "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Strided(Softmax):
    """Queries see every ``index_heads``-th token; the cache keeps all of them."""

    kind: ClassVar[str] = "strided"

    def visible_tokens(self, context_tokens: Num) -> Num:
        return np.asarray(context_tokens, float) / (self.shape.index_heads or 1)

    def summed_visible_tokens(self, n_tokens: Num) -> Num:
        return n_tokens * (n_tokens + 1) / 2 / (self.shape.index_heads or 1)

    def indexer_flop_per_query(self, context_tokens: Num) -> Num:
        return 0.0 * context_tokens


def strided(f: Fields) -> Shape:
    """All layers alike."""
    layers = layer_count(f)
    mixer = replace(grouped_heads(f), kind="strided", index_heads=f.integer("stride"))
    return Shape([mixer] * layers, [dense_mlp(f)] * layers, norm_params_per_layer=2 * f.integer("hidden_size"))


def answers(path: Path, config: dict[str, object]) -> tuple[cl.ServeAnswer, float]:
    """Decoding long sequences, and the step of a training run."""
    path.write_text(json.dumps(config), "utf-8")
    asked = {"model": str(path), "system": "h100-nvl8"}
    served = cl.serve(**asked, layout="tp1", batch=4, input_tokens=100_000, output_tokens=1000, price="$2/h")
    trained = cl.pretrain(
        **asked, gpus=64, layout="tp2-dp32", sequence_tokens=65536, global_batch_tokens="4M", tokens="1T"
    )
    return served, trained.step_s.p50


def test_a_toy_kind_is_served_and_trained(tmp_path: Path) -> None:
    """With a stride of one it is plain attention, to the bit; with four its scores and reads are a quarter."""
    plain, plain_s = answers(tmp_path / "plain.json", {"model_type": "llama", **LLAMA})
    with patch.dict(huggingface._READERS, {"toy": strided}), patch.dict(attention.KINDS, {"strided": Strided}):
        one, one_s = answers(tmp_path / "one.json", {"model_type": "toy", "stride": 1, **LLAMA})
        four, four_s = answers(tmp_path / "four.json", {"model_type": "toy", "stride": 4, **LLAMA})
    assert (one.tpot_s.p50, one_s) == (plain.tpot_s.p50, plain_s)
    assert four.tpot_s.p50 < one.tpot_s.p50 and four_s < one_s
    read, all_read = (next(part for part in answer.result.decode if part.name == "attention") for answer in (four, one))
    assert np.allclose(4 * np.asarray(read.bytes), all_read.bytes) and np.allclose(
        4 * np.asarray(read.flop), all_read.flop
    )
    assert np.array_equal(np.asarray(four.result.memory.kv_cache_bytes), one.result.memory.kv_cache_bytes)


def test_an_unknown_kind_is_an_error_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"mlaa.*mla"):
        attention.mixer_of(Attention("mlaa", 8, 8, 64, 64))


def test_no_other_file_asks_for_a_kind() -> None:
    """Outside its class and the readers only a shape that is made names a kind; nothing imports a kind's class."""
    kinds = set(attention.KINDS) - {"none"}
    asks = []
    for path in sorted(SRC.rglob("*.py")):
        name = path.relative_to(SRC).as_posix()
        if name.startswith(HOMES):
            continue
        text = path.read_text("utf-8")
        if not any(word in text for word in (*kinds, "computeledger.physics.attention.")):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "Attention"]
        made = {id(call.args[0]) for call in calls}
        for node in nodes:
            named = isinstance(node, ast.Constant) and node.value in kinds and id(node) not in made
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if named or module.startswith("computeledger.physics.attention."):
                asks.append(name)
    assert asks == []
