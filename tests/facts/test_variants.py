"""What a model's name answers with is what its own publisher says: context, precision, MTP layers, tied embeddings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import UnknownIdError
from computeledger.facts.catalog import alias_records, model_ids
from computeledger.facts.load import load_model, model_file, read_model
from computeledger.facts.reading import parse_document, read_file

VARIANTS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("variants.toml").read_text("utf-8"))


@pytest.mark.parametrize("given", VARIANTS)
def test_a_name_answers_with_what_is_published_of_it(given: str) -> None:
    model, published = load_model(given), VARIANTS[given]
    answered = {
        "max_context_tokens": model.max_context_tokens,
        "weights": model.expert_precision.removesuffix("-block"),
        "mtp": model.n_mtp_layers,
        "tied": model.tied_embeddings,
    }
    assert {key: answered[key] for key in published if key != "locator"} == {
        key: value for key, value in published.items() if key != "locator"
    }


def test_every_alias_with_weights_of_its_own_was_read_or_says_that_it_was_not() -> None:
    """An alias that was not read may be wrong in the same way as one that was wrong: it must tell."""
    checkpoints = {name: alias for name, alias in alias_records().items() if alias.kind == "checkpoint"}
    assert {name for name, alias in checkpoints.items() if alias.verified} == set(checkpoints) & set(VARIANTS)
    for name, alias in checkpoints.items():
        assert ("unverified" in " ".join(load_model(name).notes)) == (not alias.verified), name


def test_every_entry_that_is_like_another_was_read() -> None:
    own = [model_id for model_id in model_ids() if "like" in read_file(model_file(model_id), shipped=True).table]
    assert len(own) >= 17
    unread = {model_id for model_id in own if "unverified" in " ".join(load_model(model_id).notes)}
    assert set(own) - unread <= set(VARIANTS)


def test_a_mirror_and_a_short_name_answer_as_the_model() -> None:
    assert load_model("zhipuai/GLM-5") is load_model("zai-org/GLM-5")
    assert load_model("nemotron-3-super").weight_precision == "bf16"  # as nemotron-3-nano and -ultra


@pytest.mark.parametrize("given", ["phi-3-mini", "mistral-7b", "qwen3-235b-a22b-2507"])
def test_a_name_of_several_models_that_differ_is_refused(given: str) -> None:
    with pytest.raises(UnknownIdError, match=r"could mean|did you mean"):
        load_model(given)


def test_a_file_may_lengthen_the_context_of_a_bundled_model() -> None:
    text = 'id = "mine/yarn"\nlike = "Qwen/Qwen3-8B"\n[config_json]\nmax_position_embeddings = 131072'
    mine, base = read_model(parse_document("mine.toml", text, shipped=False)), load_model("Qwen/Qwen3-8B")
    assert (mine.max_context_tokens, mine.layers) == (131072, base.layers)
    with pytest.raises(UnknownIdError, match="did you mean"):
        read_model(parse_document("mine.toml", text.replace("Qwen3-8B", "Qwen3-9B"), shipped=False))
