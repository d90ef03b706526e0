"""Two pools whose layouts are stated, copies of experts, two batches in turn: as ``serve`` takes them."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_model
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.questions.answers.serving.pools import PoolsAnswer
from computeledger.workloads.serving.reading import with_copies

GIVEN: dict[str, Any] = {
    "model": "deepseek-v3", "system": "h800-nvl8", "mode": "disaggregated", "prefill_layout": "tp1-dp32-ep32",
    "layout": "tp1-dp144-ep144", "redundant_experts": 32, "two_batches": True, "backend": "sglang",
    "tuning": "recipe", "batch": 12672, "input_tokens": 1917, "cached_tokens": 2465, "output_tokens": 1211,
    "gpus": 400, "samples": 64,
}  # fmt: skip


def test_stated_pools_are_served_as_stated() -> None:
    """DeepSeek's units: 4 nodes read, 18 decode; at its batch a user sees its 20 to 22 tokens/s within a tenth."""
    answer = cl.serve(**GIVEN)
    assert (str(answer.chosen.prefill_layout), str(answer.chosen.layout)) == ("tp1-dp32-ep32", "tp1-dp144-ep144")
    assert answer.chosen.batch == pytest.approx(12672, rel=0.01)
    assert 18 < 1 / answer.tpot_s.p50 < 24
    assert {str(one.decode_layout) for one in answer.options} == {"tp1-dp144-ep144"}


def test_copies_of_experts_are_held_and_not_multiplied() -> None:
    plain = load_model("deepseek-v3")
    copied = with_copies(plain, 32)
    assert n_params_active(copied) == pytest.approx(n_params_active(plain), rel=0.001)  # its router has more outputs
    routed = 58 * 32 * 3 * 7168 * 2048
    assert n_params_total(copied) - n_params_total(plain) == pytest.approx(routed, rel=0.001)
    assert with_copies(plain, 0) is plain


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "aggregated"}, "add mode disaggregated"),
        ({"layout": None}, "two pools have two layouts"),
        ({"layout": None, "prefill_layout": None}, "batch is of a decoding worker"),
        ({"redundant_experts": 0}, "ep must divide 256"),
        ({"model": "qwen3-8b"}, "has no routed experts to copy"),
        ({"emit": "sglang", "backend": None}, "launch commands have no two_batches"),
        ({"batch": 40000}, "largest batch that fits is"),
        ({"gpus": 200}, "at least 240 can, each keeping up"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        cl.serve(**{**GIVEN, **changes})


def test_a_decoding_worker_takes_as_many_as_it_was_told() -> None:
    asked = {"model": "qwen3-32b", "system": "4xh100-nvl8", "mode": "disaggregated"}
    free, told = cl.serve(**asked), cl.serve(**asked, max_batch=16)
    assert isinstance(free, PoolsAnswer) and isinstance(told, PoolsAnswer)
    assert free.chosen.batch > 16 and max(one.batch for one in told.options) <= 16
    assert told.to_dict()["engine_settings"]["max_batch"]["stated"] == 16
    with pytest.raises(InputError, match=r"^batch 32: a decoding worker takes at most max_batch 16$"):
        cl.serve(**asked, max_batch=16, layout="tp2", prefill_layout="tp2", batch=32)
