"""Families with names, biases or experts of their own: counts as published, shared caches, refusals in one line."""

from __future__ import annotations

import pytest

from computeledger.errors import ModelConfigError
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_model
from computeledger.physics.transformer import kv_bytes_per_token, n_params_active_with_embeddings, n_params_total

#: Total and active parameters as their publishers say, in billions.
PUBLISHED = [
    ("bigscience/bloom", 176.2, None),
    ("databricks/dbrx-base", 132.0, 36.0),
    ("tencent/Tencent-Hunyuan-Large", 389.0, 52.0),
    ("CohereLabs/c4ai-command-r-plus", 104.0, None),
    ("xai-org/grok-1", 314.0, None),
    ("inclusionAI/Ring-flash-2.0", 103.0, 6.1),
    ("zai-org/GLM-4.5", 355.0, 32.0),
    ("facebook/opt-66b", 66.0, None),
    ("nvidia/Nemotron-4-340B-Base", 340.0, None),
]


@pytest.mark.parametrize(("model_id", "total", "active"), PUBLISHED)
def test_parameters_are_the_published_ones(model_id: str, total: float, active: float | None) -> None:
    model = load_model(model_id)
    assert n_params_total(model) / 1e9 == pytest.approx(total, rel=0.01)
    if active is not None:
        assert n_params_active_with_embeddings(model) / 1e9 == pytest.approx(active, rel=0.06)


def test_a_layer_that_shares_a_cache_keeps_none() -> None:
    model = load_model("tencent/Tencent-Hunyuan-Large")
    assert float(kv_bytes_per_token(model, 2.0)) == 32 * 2 * 8 * 80 * 2  # half of 64 layers


@pytest.mark.parametrize(
    ("family", "changed", "told"),
    [
        ("bigscience/bloom", {"n_layer": 0}, "at least 1"),
        ("facebook/opt-66b", {"word_embed_proj_dim": 512}, "word_embed_proj_dim: an embedding of another width"),
        ("inclusionAI/Ling-mini-2.0", {"use_bias": True}, "use_bias: true is not understood"),
        ("internlm/internlm-20b", {"layer_group_size": 4}, "layer_group_size.*may change its shape"),
        ("databricks/dbrx-base", {"ffn_config": {"moe_shared": 3}}, "num_local_experts|intermediate_size"),
    ],
)
def test_what_is_not_understood_is_named(family: str, changed: dict, told: str) -> None:
    from computeledger.facts.load import model_file
    from computeledger.facts.reading import read_file

    config = read_file(model_file(family), shipped=True).table["config_json"] | changed
    with pytest.raises(ModelConfigError, match=told):
        parse_config(config, "mine")
