"""Traffic that fills a serving answer, and the context from which its cache outweighs compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.facts.traffic import chatgpt_usage
from computeledger.interfaces.cli import main
from computeledger.physics.blackboard.context import kv_crossover_context_tokens
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.context import crossover_context_tokens
from computeledger.physics.serving.memory import sequence_bytes_per_gpu
from computeledger.physics.transformer import attention_flop_per_cached_token, kv_bytes_per_token, n_params_active
from computeledger.questions.answers.serving.answer import ServeAnswer
from computeledger.questions.answers.serving.cache_design import cache_design_document
from tests.commands import call

ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "batch": 64, "input_tokens": 512,
    "output_tokens": 256, "samples": 16,
}  # fmt: skip


def _answer(**given: Any) -> dict[str, Any]:
    return cl.serve(**ASKED | given).to_dict()


def test_users_send_what_a_full_replica_finishes() -> None:
    document = _answer(user_requests=20.0)
    one, rate = document["traffic"], document["requests_per_s_per_replica"]["p50"]
    assert one["users"]["p50"] == pytest.approx(rate * 86400 / 20)
    assert one["output_tokens_per_user_per_day"] == 20 * 256 and one["input_tokens_per_user_per_day"] == 20 * 512
    per_gpu = document["output_tokens_per_s_per_gpu"]["p50"] * document["n_gpus_per_replica"]
    assert one["output_tokens_per_s"]["p50"] == pytest.approx(per_gpu)
    half = _answer(user_requests=10.0)["traffic"]
    assert half["users"]["p50"] == pytest.approx(2 * one["users"]["p50"]) and "usage" not in half


def test_requests_of_a_user_are_published_unless_stated() -> None:
    one = _answer()["traffic"]
    assert one["requests_per_user_per_day"] == pytest.approx(18e9 / 7 / 700e6)  # NBER 34255, abstract
    assert one["usage"]["n_weekly_users"]["source"] == "chatgpt-usage-2025"
    assert chatgpt_usage().requests_per_user_per_day == one["requests_per_user_per_day"]
    with pytest.raises(InputError, match="user_requests 0"):
        _answer(user_requests=0.0)


def test_a_load_is_filled_by_its_replicas_users_and_a_promise_by_none() -> None:
    """What fills one replica does not depend on the load that the fleet is sized for."""
    free: dict[str, Any] = {"batch": None, "tpot": 0.05}
    small, large = (_answer(requests_per_s=rate, **free)["traffic"] for rate in (20.0, 200.0))
    assert small["users"] == large["users"]


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-405b", "kimi-k2", "qwen3-8b"])
def test_the_crossover_is_the_closed_form_with_full_attention(name: str) -> None:
    model, chip = load_model(name), load_system("h200-nvl8").accelerator
    closed = kv_crossover_context_tokens(
        n_params_active(model), chip.peak("bf16"), chip.hbm_bytes_per_s.value, kv_bytes_per_token(model, 2.0),
        attention_flop_per_cached_token(model),
    )  # fmt: skip
    assert crossover_context_tokens(model, chip, Layout(), Precision()) == pytest.approx(float(closed), rel=1e-3)


def test_latent_attention_has_no_crossover_until_tensor_parallelism_copies_it() -> None:
    """128 heads multiply an entry of 1,152 bytes 242 times a byte, more than an H200 (206), less than an H100 can."""
    model = load_model("deepseek-v3")
    chips = {name: load_system(f"{name}-nvl8").accelerator for name in ("h200", "h100")}
    found = {name: crossover_context_tokens(model, chip, Layout(), Precision()) for name, chip in chips.items()}
    assert np.isinf(found["h200"]) and 1e4 < found["h100"] < 1e5
    copied = [crossover_context_tokens(model, chips["h200"], Layout(tp=tp), Precision()) for tp in (2, 4, 8)]
    assert sorted(copied, reverse=True) == copied and copied[0] < np.inf
    grouped = load_model("llama-3.1-70b")  # eight KV heads: no copies up to tp8, eight of them on tp64
    one, eight, many = (crossover_context_tokens(grouped, chips["h100"], Layout(tp=n), Precision()) for n in (1, 8, 64))
    assert one == eight > many


def test_windows_and_sparse_attention_put_the_crossover_off() -> None:
    chip = load_system("h200-nvl8").accelerator
    model, plain = load_model("deepseek-v3.2"), load_model("deepseek-v3")
    sparse, full = (crossover_context_tokens(one, chip, Layout(tp=2), Precision()) for one in (model, plain))
    assert sparse > full or np.isinf(sparse)
    eight_bits = crossover_context_tokens(load_model("llama-3.1-8b"), chip, Layout(), Precision(kv="fp8"))
    assert eight_bits > crossover_context_tokens(load_model("llama-3.1-8b"), chip, Layout(), Precision())


def test_an_answer_says_both_by_one_pool_and_by_two() -> None:
    two = cl.serve(model="llama-3.1-8b", system="h100-nvl8", gpus=4, mode="disaggregated", samples=16).to_dict()
    one = _answer()
    assert two["cache_against_compute"]["context_tokens"] == one["cache_against_compute"]["context_tokens"]
    rate = two["requests_per_s_per_replica"]["p50"]
    assert two["traffic"]["users"]["p50"] == pytest.approx(rate * 86400 / two["traffic"]["requests_per_user_per_day"])


def test_the_cache_of_a_wanted_context_is_the_answer_s_own_spread_over_more_tokens() -> None:
    answer = cl.serve(**ASKED, wanted_context=1e6)
    found = answer.to_dict()["cache_design"]
    here = 512 + 256 / 2  # the mean context of a decoded token
    assert isinstance(answer, ServeAnswer)
    own = float(sequence_bytes_per_gpu(answer.result.scenario.model, 1.0, Layout(), 2.0))
    assert found["bytes_per_token"] == pytest.approx(own * here / 1e6) and found["bound"] == "reading"
    assert found["own_read_fraction"] == pytest.approx(here / 1e6)
    at_home = cache_design_document(answer.result, here)
    assert at_home["entries"][0]["n_layers"] == {"16": 32, "8": 32, "4": 32}  # the model's own: 32 layers of 8 heads
    twice = cache_design_document(answer.result, 2 * here)["entries"][0]["n_layers"]
    assert twice == {"16": 16, "8": 32, "4": 32}  # no more layers than the model has
    with pytest.raises(InputError, match="a request of the answer has 768 tokens"):
        cl.serve(**ASKED, wanted_context=512).to_dict()


def test_two_pools_have_no_cache_design_and_one_pool_prints_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wanted_context is not built for two pools"):
        cl.serve(model="llama-3.1-8b", system="h100-nvl8", gpus=4, mode="disaggregated", wanted_context=1e6)
    assert "cache_design" not in _answer()
    line = "serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --batch 8 --samples 16 --wanted-context 1M"
    printed = call(main, line.split(), tmp_path)
    assert printed.returncode == 0 and "A cache for 1M tokens at this price and speed" in " ".join(
        printed.stdout.split()
    )


def test_a_pipeline_says_what_a_hop_sends_and_what_was_measured() -> None:
    staged, whole = (_answer(layout=layout)["remarks"] for layout in ("tp1-pp2", "tp2"))
    said = [one for one in staged if one.startswith("between two stages")]
    assert len(said) == 1 and "4.76" in said[0] and "zhang-nvlink-infiniband" in said[0]
    assert not [one for one in whole if one.startswith("between two stages")]
