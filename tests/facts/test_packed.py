"""A configuration in one word: the same model as from its file, short enough for an address, nothing unbounded."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import ModelConfigError
from computeledger.facts.load import load_model, model_file, model_name
from computeledger.facts.packed import MOST_PACKED, packed
from computeledger.facts.reading import read_file

#: One of each kind of shape: dense, latent attention with experts, hybrid, multimodal.
_MODELS = ("meta-llama/Meta-Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct",
           "google/gemma-3-27b-it")  # fmt: skip


def config_of(name: str) -> dict[str, Any]:
    return dict(read_file(model_file(name), shipped=True).table["config_json"])


def word(data: bytes) -> str:
    return f"config:own:{base64.urlsafe_b64encode(zlib.compress(data, 9, -15)).decode().rstrip('=')}"


@pytest.mark.parametrize("name", _MODELS)
def test_a_pasted_configuration_is_the_model_of_its_file(name: str, tmp_path: Path) -> None:
    text = json.dumps({**config_of(name), "transformers_version": "4.43", "_name_or_path": "/home/me/own model"})
    file = tmp_path / "config.json"
    file.write_text(text, "utf-8")
    made = packed(text)
    assert made.startswith("config:own-model:") and len(made) < 700
    assert model_name(made) == made
    from_file, from_word = load_model(str(file)), load_model(made)
    assert dataclasses.replace(from_word, id=from_file.id) == from_file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "not valid JSON"),
        ("[]", "expected an object"),
        ("{}", "model_type: missing"),
        ('{"model_type": "lama"}', "did you mean"),
        ('{"model_type": "llama"}', "num_hidden_layers: missing"),
        ("[" * 5000, "deep"),
    ],
)
def test_what_is_no_configuration_is_said_in_a_line(text: str, said: str) -> None:
    with pytest.raises(ModelConfigError, match=said) as refused:
        packed(text)
    assert "\n" not in str(refused.value) and str(refused.value).startswith("not a config.json that can be read: ")


@pytest.mark.parametrize(
    "text",
    ["config:", "config:own:", "config:own:***", "config:own:AAAA", "config:../x:q1Y",
     "config:own:" + "A" * MOST_PACKED,
     word(b"\xff\xfe"), word(b" " * 10_000_000)],
)  # fmt: skip
def test_what_is_no_packed_configuration_is_refused(text: str) -> None:
    with pytest.raises(ModelConfigError, match="not a packed configuration"):
        load_model(text)
