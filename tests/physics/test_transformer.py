"""Counts that follow from a shape: hand-derived cache bytes, FLOP per token, and averages that are averages."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.facts.architecture import Attention, FeedForward, LayerGroup, Model
from computeledger.facts.load import load_model
from computeledger.physics import transformer
from computeledger.physics.attention import mixer_of
from computeledger.physics.attention.linear import GatedDelta

FULL = Attention("gqa", 64, 8, 128, 128)
LATENT = Attention("mla", 128, 128, 192, 128, q_lora_rank=1536, kv_lora_rank=512, rope_head_dim=64)
SPARSE = dataclasses.replace(LATENT, sparse_tokens=2048, index_heads=64, index_head_dim=128, index_key_bytes=132.0)
WINDOW = dataclasses.replace(FULL, window=128)
CHUNK = dataclasses.replace(FULL, window=100, chunked=True)
COMPRESSED = Attention(
    "compressed",
    64,
    1,
    512,
    512,
    window=128,
    compression=4,
    sparse_tokens=512,
    one_kv_projection=True,
    one_kv_entry=True,
)
HEAVILY = dataclasses.replace(COMPRESSED, compression=128, sparse_tokens=None)
WINDOW_ONLY = dataclasses.replace(COMPRESSED, compression=0, sparse_tokens=None)
DELTA = Attention("gated_delta", 32, 16, 128, 128, conv_width=4, gated=True)
NONE = Attention("none", 0, 0, 0, 0)
ALL = [FULL, LATENT, SPARSE, WINDOW, CHUNK, COMPRESSED, HEAVILY, WINDOW_ONLY, DELTA, NONE]

#: Bytes of one more token in a 16-bit cache: values per layer x layers x 2 bytes.
KV_BYTES = {
    "deepseek-ai/DeepSeek-V3": (512 + 64) * 61 * 2,  # latent and shared rotary key; 70,272
    "moonshotai/Kimi-K2-Instruct": (512 + 64) * 61 * 2,
    "meta-llama/Meta-Llama-3.1-8B": 2 * 8 * 128 * 32 * 2,
    "meta-llama/Meta-Llama-3.1-70B": 2 * 8 * 128 * 80 * 2,  # 327,680
    "meta-llama/Meta-Llama-3.1-405B": 2 * 8 * 128 * 126 * 2,  # 516,096
    "Qwen/Qwen3-235B-A22B": 2 * 4 * 128 * 94 * 2,  # 192,512
    "openai/gpt-oss-120b": 2 * 8 * 64 * 36 * 2,  # sliding layers too, inside their window
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 2 * 2 * 256 * 12 * 2,  # 12 full layers of 48
    "MiniMaxAI/MiniMax-M1-80k": 2 * 8 * 128 * 10 * 2,  # 10 full layers of 80
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 2 * 2 * 128 * 6 * 2,  # 6 attention layers of 52
    "XiaomiMiMo/MiMo-V2-Flash": (9 * 4 + 39 * 8) * (192 + 128) * 2,  # keys wider than values
    "google/gemma-4-26B-A4B": (25 * 8 * 256 + 5 * 2 * 512) * 2 * 2,  # one projection, but two cached vectors
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": 2 * 8 * 128 * 49 * 2,  # 31 of 80 blocks have no attention
    "deepseek-ai/DeepSeek-V3.2": (512 + 64) * 61 * 2 + 61 * 132,  # indexer keys: 128 in 8 bits and a scale
}


@pytest.mark.parametrize("model_id", KV_BYTES)
def test_kv_bytes_per_token_by_hand(model_id: str) -> None:
    assert float(transformer.kv_bytes_per_token(load_model(model_id), 2.0)) == KV_BYTES[model_id]


def test_kv_bytes_per_sequence_clips_windows() -> None:
    model = load_model("openai/gpt-oss-120b")
    layer = 2 * 8 * 64 * 2
    assert float(transformer.kv_bytes_per_sequence(model, 100_000.0, 2.0)) == layer * 18 * (100_000 + 128)
    inside = float(transformer.kv_bytes_per_sequence(model, 100.0, 2.0))
    assert inside == 100 * float(transformer.kv_bytes_per_token(model, 2.0))


def test_compressed_cache_of_deepseek_v4() -> None:
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")
    n = 1_000_000.0
    entry = 512 * 2
    by_hand = 43 * 128 * entry + 21 * n / 4 * (entry + 132) + 20 * n / 128 * entry
    assert float(transformer.kv_bytes_per_sequence(model, n, 2.0)) == pytest.approx(by_hand, rel=1e-12)
    plain = transformer.kv_bytes_per_sequence(load_model("deepseek-ai/DeepSeek-V3.2"), n, 2.0)
    assert by_hand < 0.1 * float(plain)


def test_states_do_not_grow() -> None:
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    by_hand = 36 * (32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2)
    assert transformer.state_bytes_per_sequence(model) == by_hand
    kept = np.asarray(transformer.kv_bytes_per_sequence(model, np.array([0.0, 1.0, 2.0]), 2.0))
    assert kept.tolist() == [by_hand, by_hand + 24576, by_hand + 2 * 24576]


@pytest.mark.parametrize(
    ("model_id", "sequence_tokens", "gflop_per_token"),
    [
        ("meta-llama/Meta-Llama-3.1-70B", 8192, 449.2),
        ("moonshotai/Kimi-K2-Instruct", 4096, 204.4),
        ("Qwen/Qwen3-30B-A3B", 4096, 23.0),
        ("Qwen/Qwen3-235B-A22B", 4096, 148.0),
        ("openai/gpt-oss-120b", 4096, 32.6),
    ],
)
def test_training_flop_agree_with_megatron_bridge(model_id: str, sequence_tokens: int, gflop_per_token: float) -> None:
    flop = float(transformer.training_flop_per_token(load_model(model_id), sequence_tokens))
    assert flop / 1e9 == pytest.approx(gflop_per_token, rel=0.01)


def test_training_flop_of_deepseek_v3_with_its_prediction_module() -> None:
    model = load_model("deepseek-ai/DeepSeek-V3")
    d = model.hidden_size
    module = dataclasses.replace(model.layers[-1], count=1)  # one more expert layer, its merge and a head
    longer = dataclasses.replace(model, layers=(*model.layers, module))
    flop = float(transformer.training_flop_per_token(longer, 4096)) + 6 * (2 * d * d + model.vocab_size * d)
    assert flop / 1e9 == pytest.approx(260.0, rel=0.01)


@pytest.mark.parametrize("mixer", ALL, ids=lambda one: f"{one.kind}-{one.window}-{one.compression}")
@pytest.mark.parametrize(("start", "new"), [(0, 1), (0, 97), (0, 5000), (90, 40), (4000, 1500)])
def test_mean_visible_tokens_is_the_mean_of_visible_tokens(mixer: Attention, start: int, new: int) -> None:
    positions = np.arange(start + 1, start + new + 1, dtype=float)
    expected = float(np.mean(mixer_of(mixer).visible_tokens(positions)))
    assert float(mixer_of(mixer).mean_visible_tokens(float(new), float(start))) == pytest.approx(expected, rel=2e-3)


@given(st.integers(1, 300), st.integers(1, 400))
def test_mean_visible_tokens_of_windows_is_exact(window: int, sequence_tokens: int) -> None:
    for mixer in (dataclasses.replace(FULL, window=window), dataclasses.replace(CHUNK, window=window)):
        positions = np.arange(1, sequence_tokens + 1, dtype=float)
        expected = float(np.mean(mixer_of(mixer).visible_tokens(positions)))
        assert float(mixer_of(mixer).mean_visible_tokens(sequence_tokens)) == pytest.approx(expected, rel=1e-12)


def test_visible_tokens() -> None:
    at = 10_000.0
    expected = {
        FULL: at, WINDOW: 128, CHUNK: 100, SPARSE: 2048, COMPRESSED: 128 + 512, HEAVILY: 128 + at / 128,
        WINDOW_ONLY: 128, DELTA: 0, NONE: 0,
    }  # fmt: skip
    for mixer, tokens in expected.items():
        assert float(mixer_of(mixer).visible_tokens(at)) == tokens
    assert float(mixer_of(CHUNK).visible_tokens(10_001.0)) == 1.0


def test_attention_flop() -> None:
    assert float(mixer_of(FULL).flop_per_query(10.0, absorbed=True)) == 2 * 64 * 256 * 10
    assert float(mixer_of(LATENT).flop_per_query(10.0, absorbed=True)) == 2 * 128 * (512 + 64 + 512) * 10
    assert float(mixer_of(LATENT).flop_per_query(10.0, absorbed=False)) == 2 * 128 * (192 + 128) * 10
    near, far = (float(mixer_of(DELTA).flop_per_query(s, absorbed=False)) for s in (1.0, 1e6))
    assert near == far == 6 * 32 * 128 * 128
    assert float(mixer_of(SPARSE).indexer_flop_per_query(10.0)) == 2 * 64 * 128 * 10
    assert float(mixer_of(FULL).indexer_flop_per_query(10.0)) == 0


def test_forward_flop_grow_with_context_only_by_attention() -> None:
    model = load_model("meta-llama/Meta-Llama-3.1-70B")
    empty = float(transformer.forward_flop_per_token(model, 0.0))
    assert empty == 2 * transformer.n_params_active(model)
    grown = float(transformer.forward_flop_per_token(model, 1000.0)) - empty
    assert grown == 80 * 2 * 64 * 256 * 1000


def test_what_is_kept_and_what_is_read() -> None:
    context = 65_536.0
    assert float(mixer_of(FULL).kv_read_bytes(context, 2.0)) == float(mixer_of(FULL).kv_cache_bytes(context, 2.0))
    kept = float(mixer_of(SPARSE).kv_cache_bytes(context, 1.0))
    read = float(mixer_of(SPARSE).kv_read_bytes(context, 1.0))
    assert kept == context * (576 + 132)
    assert read == 2048 * 576 + context * 132
    sharing = dataclasses.replace(FULL, shares_kv=True)
    assert float(mixer_of(sharing).kv_cache_bytes(context, 2.0)) == 0
    assert float(mixer_of(sharing).kv_read_bytes(context, 2.0)) == float(mixer_of(FULL).kv_read_bytes(context, 2.0))
    assert float(mixer_of(DELTA).kv_read_bytes(context, 2.0)) == 2 * mixer_of(DELTA).state_bytes


def test_params_of_parts() -> None:
    d = 2048
    shared = dataclasses.replace(FULL, shares_kv=True)
    key_value = d * 8 * 256
    assert mixer_of(FULL).params(d) - mixer_of(shared).params(d) == key_value
    one = dataclasses.replace(FULL, one_kv_projection=True)
    assert mixer_of(FULL).params(d) - mixer_of(one).params(d) == key_value // 2
    gated = dataclasses.replace(FULL, gated=True)
    assert mixer_of(gated).params(d) - mixer_of(FULL).params(d) == d * 64 * 128
    channels = GatedDelta(DELTA).channels
    values = 32 * 128
    assert mixer_of(DELTA).params(d) == channels * (d + 4) + 2 * d * values + 2 * 32 * d
    part = FeedForward(n_experts=8, n_experts_active=2, expert_width=512, latent_width=256, n_matrices=2)
    assert transformer.expert_params(part, d) == 2 * 512 * 256
    assert transformer.always_active_params(part, d) == d * 8 + 2 * d * 256
    stored = transformer.feed_forward_params(part, d) - transformer.feed_forward_active_params(part, d)
    assert stored == 6 * transformer.expert_params(part, d)


def test_tied_embeddings_are_stored_once_and_multiplied_once() -> None:
    layers = (LayerGroup(2, FULL, FeedForward(width=128)),)
    untied = Model("x", 64, 1000, layers)
    tied = dataclasses.replace(untied, tied_embeddings=True)
    assert transformer.n_params_total(untied) - transformer.n_params_total(tied) == 64_000
    assert transformer.n_params_active(untied) == transformer.n_params_active(tied)
    assert transformer.n_params_active_with_embeddings(tied) == transformer.n_params_active(tied)


@pytest.mark.parametrize("model_id", ["deepseek-ai/DeepSeek-V4-Pro", "moonshotai/Kimi-K3", "openai/gpt-oss-20b"])
def test_arrays_broadcast(model_id: str) -> None:
    model = load_model(model_id)
    contexts = np.geomspace(1, 1e6, 7)
    precisions = np.array([[0.5625], [1.0], [2.0]])
    table = np.asarray(transformer.kv_bytes_per_sequence(model, contexts, precisions))
    assert table.shape == (3, 7)
    for row, precision in enumerate(precisions[:, 0]):
        for column, context in enumerate(contexts):
            one = float(transformer.kv_bytes_per_sequence(model, float(context), float(precision)))
            assert table[row, column] == pytest.approx(one, rel=1e-12)
    flop = np.asarray(transformer.forward_flop_per_token(model, contexts))
    assert np.all(np.diff(flop) >= 0)
    assert np.asarray(transformer.training_flop_per_token(model, contexts)).shape == (7,)
