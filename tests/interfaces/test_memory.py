"""The command memory: where a model fits, with the bytes of each part, and what starts it there."""

from __future__ import annotations

import csv
import io
import json
from importlib import resources
from pathlib import Path

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from tests.commands import call

LOCAL_ROWS = resources.files("computeledger.validation").joinpath("data", "local_curated.csv")


def test_fewest_gpus_by_format() -> None:
    """Llama 3.1 70B: 141 GB in 16 bits take two H100 or H200 with their first sequence, 40 GB in int4 one."""
    answer = cl.memory(model="llama-3.1-70b", system=["h100-nvl8", "h200-nvl8"], precision="bf16,fp8,int4")
    few = {(one.precision, one.system): int(one.layout.n_gpus) for one in answer.fits}
    assert few["bf16", "h100-nvl8"] == 2 and few["fp8", "h200-nvl8"] == 1
    assert few["int4", "h100-nvl8"] == 1
    (crowded,) = cl.memory(answer.question, system="h100-nvl8", precision="bf16", batch=16, context_tokens=32768).fits
    assert int(crowded.layout.n_gpus) > 2, "16 sequences take 172 GB of cache"
    for one in answer.fits:
        held = one.memory
        parts = held.weights_bytes + held.kv_cache_bytes + held.activations_bytes + held.workspace_bytes
        assert float(parts) == pytest.approx(float(held.total_bytes))
        assert float(held.total_bytes) < held.capacity_bytes


def test_longest_context_and_largest_batch_are_the_last_that_fit() -> None:
    asked: dict[str, str | int] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "precision": "bf16", "gpus": 1}
    (one,) = cl.memory(**asked, batch=8).fits
    (longest,) = cl.memory(**asked, batch=8, context_tokens=one.longest_context_tokens).fits
    (longer,) = cl.memory(**asked, batch=8, context_tokens=one.longest_context_tokens + 1).fits
    assert longest.fits and not longer.fits
    (most,) = cl.memory(**asked, batch=one.largest_batch).fits
    (more,) = cl.memory(**asked, batch=one.largest_batch + 1).fits
    assert most.fits and not more.fits


def test_a_gguf_file_is_started_by_llama_cpp_and_others_by_vllm() -> None:
    answer = cl.memory(model="qwen3-14b", system="h100-nvl8", precision="bf16,int4,gguf-q4_k_m", kv_precision="bf16")
    stored, other, file = (one.launch for one in answer.fits)
    assert stored.startswith("vllm serve Qwen/Qwen3-14B") and "--max-model-len 8192" in stored
    assert other.startswith("# the checkpoint of Qwen/Qwen3-14B in int4")
    assert "llama-server" in file and "gguf-q4_k_m" in file


def test_what_fits_nowhere_says_how_much_is_missing(tmp_path: Path) -> None:
    done = call(main, ["memory", "--model", "kimi-k2-instruct", "--system", "h100-nvl8", "--gpus", "8"], tmp_path)
    assert done.returncode == 0
    assert "fp8 on h100-nvl8: " in " ".join(done.stdout.split()) and "it does not fit" in " ".join(done.stdout.split())
    with pytest.raises(InputError, match="unknown precision 'int5'"):
        cl.memory(model="qwen3-14b", precision="int5")


def test_the_command_is_the_function(tmp_path: Path) -> None:
    words = ["memory", "--model", "qwen3-14b", "--system", "h100-nvl8", "--batch", "4", "--json"]
    done = call(main, words, tmp_path)
    assert json.loads(done.stdout) == cl.memory(model="qwen3-14b", system="h100-nvl8", batch=4).to_dict()


def test_what_was_run_on_a_desk_fits() -> None:
    """Published runs of llama.cpp and MLX: their weights and contexts lay in the memory of the chips that they name."""
    ran = {
        (row["model"], f"{row['n_accelerators']}x{row['accelerator']}", row["weights"], int(float(row["input_tokens"])))
        for row in map(dict[str, str], csv.DictReader(io.StringIO(LOCAL_ROWS.read_text("utf-8"))))
        if row["weights"].startswith("gguf") and row["input_tokens"]
    }
    assert len(ran) > 150
    refused = []
    for model, system, weights, tokens in sorted(ran):
        (one,) = cl.memory(model=model, system=[system], precision=[weights], context_tokens=max(tokens, 1)).fits
        refused += [] if one.fits else [(model, system, weights, tokens)]
    # 20.3 GB: datasheets' GB are taken as 1e9 bytes, and the card's are 2^30
    assert refused == [("Qwen/Qwen3-32B", "1xrx-7900-xt", "gguf-q4_k_m", 64)]
