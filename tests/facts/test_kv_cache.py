"""Cache of one token: published figures, what engines allocated, modelling code that was run, and the fields alone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, model_file, model_ids
from computeledger.facts.reading import read_file
from computeledger.physics.transformer import (
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    n_params_active_with_embeddings,
    n_params_total,
)

KV: dict[str, Any] = tomllib.loads(Path(__file__).with_name("kv_cache.toml").read_text("utf-8"))
BF16, KIB = 2.0, 1024.0


def model_of(row: Mapping[str, Any], model_id: str) -> Model:
    """The model, without the indexer's keys where a figure leaves them out."""
    model = load_model(model_id)
    if "without" not in row:
        return model
    layers = [replace(one, attention=replace(one.attention, index_key_bytes=0.0)) for one in model.layers]
    return replace(model, layers=tuple(layers))


def check(counted: float, published: float, row: Mapping[str, Any], rel: float) -> None:
    """Agrees, or differs by just what the row says, with its reason."""
    expected = published * (1 + row.get("error", 0.0))
    assert counted == pytest.approx(expected, rel=rel)
    assert ("why" in row) == ("error" in row)


@pytest.mark.parametrize("row", KV["published"], ids=lambda row: f"{row['model']}-{row['source']}")
def test_the_cache_is_the_published_one(row: dict[str, Any]) -> None:
    check(float(kv_bytes_per_token(model_of(row, row["model"]), BF16)) / KIB, row["kib"], row, 0.01)
    assert row["source"] in KV["sources"]


@pytest.mark.parametrize("row", KV["measured"], ids=lambda row: f"{row['model']}-{row['source']}")
def test_the_cache_is_what_an_engine_allocates(row: dict[str, Any]) -> None:
    check(float(kv_bytes_per_token(load_model(row["model"]), BF16)), row["bytes"] / row["tokens"], row, 0.01)
    assert row["source"] in KV["sources"]


@pytest.mark.parametrize("model_id", KV["executed"])
def test_counts_are_those_of_the_modelling_code_to_its_last_printed_digit(model_id: str) -> None:
    row = KV["executed"][model_id]
    model = model_of(row, model_id)
    for name, count in (("n_params_total", n_params_total), ("n_params_active", n_params_active_with_embeddings)):
        if name in row:
            number, unit = row[name].split()
            digit = 10.0 ** -len(number.partition(".")[2])
            assert abs(count(model) / {"B": 1e9, "M": 1e6}[unit] - float(number)) <= 0.5001 * digit, name
    if "kib" in row:
        assert float(kv_bytes_per_token(model, BF16)) / KIB == pytest.approx(row["kib"], abs=0.0501)
    if "growing_bytes" in row:  # windows are full, and the compressed entries alone still grow
        bare = model_of({"without": "indexer keys"}, model_id)
        far, near = (float(kv_bytes_per_sequence(bare, tokens, BF16)) for tokens in (2.0**21, 2.0**20))
        assert (far - near) / 2**20 == row["growing_bytes"]


#: Families whose layers all cache the same, by the names of their fields.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "attn_config.kv_n_heads")
_WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model")
#: Families with caches of another kind, or another in some layers; [executed] has what was run of them.
_OTHER = ("bailing", "deepseek_v32", "deepseek_v4", "deepseek_ref", "falcon", "gemma4", "glm_moe_dsa", "hunyuan",
          "kimi_k3", "kimi_linear", "mimo_v2", "minimax_m1", "minimax_m3", "nemotron-nas", "nemotron_h")  # fmt: skip


def cache_by_fields(config: Mapping[str, Any]) -> float | None:
    """Bytes of one token by the rule of vLLM and transformers: latent and rotary part, or two per KV head; in bf16."""
    text = config.get("text_config") or config

    def field(names: tuple[str, ...]) -> Any:
        for name in names:
            outer, _, inner = name.partition(".")
            value = text.get(outer) if not inner else (text.get(outer) or {}).get(inner)
            if value is not None:
                return value
        return None

    family = str(text.get("model_type") or config["model_type"])
    if family.startswith(_OTHER) or str(config["model_type"]).startswith(_OTHER):
        return None
    layers, heads = field(_LAYERS), field(_HEADS)
    if "layer_types" in text:
        layers = sum(kind != "linear_attention" for kind in text["layer_types"][:layers])
    elif text.get("full_attention_interval"):
        layers //= text["full_attention_interval"]
    if text.get("kv_lora_rank"):
        return float(layers * (text["kv_lora_rank"] + text["qk_rope_head_dim"]) * BF16)
    size = text.get("head_dim") or {"gemma3_text": 256}.get(family) or field(_WIDTH) // (heads or 8)
    kv_heads = field(_KV_HEADS) or heads
    return float(layers * 2 * kv_heads * size * BF16)


def test_the_cache_of_every_plain_configuration_is_that_of_its_fields() -> None:
    compared = {}
    for model_id in model_ids():
        table = read_file(model_file(model_id), shipped=True).table
        if "like" not in table and (expected := cache_by_fields(table["config_json"])) is not None:
            compared[model_id] = (float(kv_bytes_per_token(load_model(model_id), BF16)), expected)
    assert {name: pair for name, pair in compared.items() if pair[0] != pair[1]} == {}
    assert len(compared) >= 100


def test_every_source_is_used_and_says_where_it_was_read() -> None:
    used = {row["source"] for kind in ("published", "measured") for row in KV[kind]} | {"arch-tracer"}
    assert used == set(KV["sources"])
    assert all(re.match("https://", one["url"]) and len(one["read"]) > 10 for one in KV["sources"].values())
    assert len({row["model"] for row in KV["published"]} | set(KV["executed"])) >= 45
