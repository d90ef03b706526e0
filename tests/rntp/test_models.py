"""Small models and tokenizers: caches and padding change nothing, markers are single tokens, no folder's code runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from computeledger.errors import InputError
from rntp.head import CACHE
from rntp.models import load_model, make_model, make_tokenizer, planned_config
from rntp.recipe import ModelSpec, ThoughtSpec

TEXT = "the cat sat on the mat <think> it was so </think> and it sat there for long"
SHAPE = {"tokenizer": "word", "hidden_size": 32, "heads": 4, "kv_heads": 2, "intermediate_size": 48}


def made(architecture: str) -> tuple[Any, Any]:
    """A model and its tokenizer."""
    spec = ModelSpec(architecture=architecture, **SHAPE)  # type: ignore[arg-type]
    tokenizer = make_tokenizer(spec, ThoughtSpec(), [TEXT] * 2)
    return make_model(spec, tokenizer, seed=1).eval(), tokenizer


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3-smear"])
@torch.no_grad()
def test_caches_and_padding_change_nothing(architecture: str) -> None:
    model, tokenizer = made(architecture)
    ids = tokenizer([TEXT], return_tensors="pt")["input_ids"]
    whole = model(ids).logits
    first = model(ids[:, :6], use_cache=True)
    cache = first[CACHE]
    parts = [first.logits, *(model(ids[:, t : t + 1], **{CACHE: cache}).logits for t in range(6, ids.shape[1]))]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=0)
    cache.crop(7 - cache.get_seq_length())
    cache.batch_repeat_interleave(2)
    again = model(ids[:, 7:].expand(2, -1), use_cache=True, **{CACHE: cache}).logits
    torch.testing.assert_close(again[1:], whole[:, 7:], atol=1e-5, rtol=0)
    padded = torch.cat([torch.full((1, 3), tokenizer.pad_token_id), ids], dim=1)
    mask = (torch.arange(padded.shape[1]) >= 3).long()[None]
    left = model(padded, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp(min=0)).logits[:, 3:]
    torch.testing.assert_close(left, whole, atol=1e-5, rtol=0)
    lazy = model(ids, use_cache=True, **{CACHE: DynamicCache()}).logits
    torch.testing.assert_close(lazy, whole, atol=1e-5, rtol=0)


def test_a_smear_looks_three_tokens_back_and_never_ahead() -> None:
    model, _ = made("qwen3-smear")
    ids = torch.arange(8, 16)[None]
    embedded = model.model.embed_tokens(ids)
    seen = []
    model.model.layers[0].register_forward_pre_hook(lambda _layer, given: seen.append(given[0]))
    model(ids)
    expected = embedded.clone()
    for back in (1, 2, 3):
        expected[:, back:] += 0.3 * embedded[:, :-back]
    torch.testing.assert_close(seen[0], expected)
    with pytest.raises(InputError, match="takes input_ids"):
        model(inputs_embeds=embedded)


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3-smear"])
def test_a_model_survives_its_folder(architecture: str, tmp_path: Path) -> None:
    model, tokenizer = made(architecture)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again, other = load_model(tmp_path, ThoughtSpec())
    assert type(again) is type(model) and other(TEXT)["input_ids"] == tokenizer(TEXT)["input_ids"]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert planned_config(again)["model_type"] == "qwen3"
    wider, more = load_model(tmp_path, ThoughtSpec("<muse>", "</muse>"))
    assert len(more("<muse> it </muse>")["input_ids"]) == 3
    assert wider.get_input_embeddings().num_embeddings == len(more) == len(other) + 2


def test_markers_are_single_tokens_even_where_the_corpus_has_them() -> None:
    for kind in ("word", "bpe"):
        tokenizer: Any = make_tokenizer(ModelSpec(tokenizer=kind, vocabulary=300), ThoughtSpec(), [TEXT])
        start, end = tokenizer.convert_tokens_to_ids(["<think>", "</think>"])
        ids = tokenizer(TEXT)["input_ids"]
        assert ids.count(start) == ids.count(end) == 1 and max(tokenizer.get_vocab().values()) == len(tokenizer) - 1
        assert tokenizer.decode(ids).split() == TEXT.split()
    with pytest.raises(InputError, match="vocabulary 100: at least 262"):
        make_tokenizer(ModelSpec(vocabulary=100), ThoughtSpec(), [TEXT])


def test_a_folder_s_own_code_is_never_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    code = (
        f"open({str(ran)!r}, 'w').close()\nfrom transformers import PretrainedConfig\nclass C(PretrainedConfig): pass\n"
    )
    (tmp_path / "own.py").write_text(code)
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(tmp_path, ThoughtSpec())
    assert not ran.exists()
