"""A model given by numbers: the sizes come back, the text is the id, and what cannot be is refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from computeledger.errors import ModelConfigError, UnknownIdError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.transformer import kv_bytes_per_sequence, kv_bytes_per_token, n_params_active, n_params_total
from computeledger.workloads.serving.intervals import interval_class, interval_for, interval_of

WITHIN = 0.005


@settings(max_examples=60, deadline=None)
@given(total=st.floats(2.0, 5000.0), ratio=st.floats(1.3, 60.0))
def test_the_sizes_are_those_that_were_typed(total: float, ratio: float) -> None:
    active = max(total / ratio, 0.5)
    model = load_model(f"{total:.3f}B-A{active:.3f}B")
    assert n_params_total(model) == pytest.approx(total * 1e9, rel=WITHIN)
    if model.is_moe:
        assert n_params_active(model) == pytest.approx(active * 1e9, rel=WITHIN)
    assert load_model(model.id) == model


@pytest.mark.parametrize("text", ["100M", "0.6B", "8B", "70B", "405b", "1.2T"])
def test_a_dense_model_has_all_of_its_parameters_active(text: str) -> None:
    model = load_model(text)
    typed = float(text[:-1]) * {"M": 1e6, "B": 1e9, "T": 1e12}[text[-1].upper()]
    assert not model.is_moe
    assert n_params_total(model) == pytest.approx(typed, rel=WITHIN)


def test_what_is_typed_is_kept() -> None:
    model = load_model("2t-a100b, layers=61,kv=2KB/token hidden=8192 heads=64 vocab=200K experts=384 context=1M")
    assert model.id == "2T-A100B layers=61 kv=2KB/token hidden=8192 heads=64 vocab=200K experts=384 context=1M"
    assert (model.n_layers, model.hidden_size, model.vocab_size, model.n_experts) == (61, 8192, 200_000, 384)
    assert model.mixers[0][1].n_query_heads == 64
    assert model.max_context_tokens == 1_000_000
    assert float(kv_bytes_per_token(model, 2.0)) == pytest.approx(2000, rel=WITHIN)
    long, longer = (float(kv_bytes_per_sequence(model, tokens, 2.0)) for tokens in (1e5, 2e5))
    assert longer - long == pytest.approx(2000 * 1e5, rel=WITHIN)
    assert n_params_active(model) == pytest.approx(100e9, rel=WITHIN)
    assert model.guessed == ()


def test_a_stated_precision_is_that_of_the_weights() -> None:
    model = load_model("70B precision=fp8")
    stored = Precision(model.weight_precision, model.dense_precision, model.expert_precision)
    assert float(weights_bytes_per_gpu(model, Layout(), stored)) == pytest.approx(70e9, rel=0.05)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("70B layer=80", "did you mean 'layers'"),
        ("70B layers=0", "a whole number of 1 to 2,000"),
        ("70B layers=80 layers=81", "given twice"),
        ("70B layers", "expected KEY=VALUE with one of layers, hidden"),
        ("100B-A10B kv=3", "bytes per token in bf16 such as 2KB/token"),
        ("100B-A10B kv=1KB..2KB/token", "bytes per token in bf16"),
        ("100B-A10B precision=fp9", "fp8"),
        ("5B-A10B", "10B active of 5B"),
        ("70B-A70B experts=8", "leave none"),
        ("10B layers=2000 hidden=65536", "without any MLP"),
        ("100B-A10B experts=8 active_experts=8", "fewer than all"),
        ("120B-A5B experts=16 active_experts=8", "try more experts or fewer active ones"),
        ("1M", "100M to 1000T"),
        ("1.2.3B", "is not a number"),
        ("100B-A10B heads=7 kv=800KB/token", "no multiple of the 32 KV heads"),
    ],
)
def test_what_cannot_be_gets_one_line(text: str, told: str) -> None:
    with pytest.raises(ModelConfigError, match=told) as raised:
        load_model(text)
    assert "\n" not in str(raised.value)


def test_a_name_that_begins_with_a_digit_is_no_number() -> None:
    with pytest.raises(UnknownIdError):
        load_model("8x7B")


def test_a_guessed_shape_widens_the_interval_and_a_given_cache_less() -> None:
    where = ("fp8", load_system("h200-nvl8"), "vllm")
    real = interval_of(interval_class(load_model("70B"), *where))
    guessed, with_cache = (interval_for(load_model(text), *where) for text in ("70B", "70B kv=320KB/token"))
    assert real.tpot.high < with_cache.tpot.high < guessed.tpot.high
    assert guessed.tpot.low < with_cache.tpot.low < real.tpot.low
    assert interval_for(load_model("70B layers=80 hidden=8192 kv=320KB/token"), *where) == real
