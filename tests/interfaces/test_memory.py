"""The command memory: where a model fits, with the bytes of each part, and what starts it there."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib import resources
from pathlib import Path

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_accelerator
from computeledger.interfaces.cli import main
from computeledger.interfaces.views.display_names import in_names
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
    (stored, other, file), said = (one.launch for one in answer.fits), answer.fits[1].launch_problem
    assert stored.startswith("vllm serve Qwen/Qwen3-14B") and "--max-model-len 8192" in stored
    assert other == "" and "is stored in bf16 and the answer is for int4" in said, "as serve --emit refuses it"
    assert "llama-server" in file and "gguf-q4_k_m" in file


def test_what_fits_nowhere_says_how_much_is_missing(tmp_path: Path) -> None:
    done = call(main, ["memory", "--model", "kimi-k2-instruct", "--system", "h100-nvl8", "--gpus", "8"], tmp_path)
    assert done.returncode == 0
    assert "Does not fit" in done.stdout and "fits none of them" not in done.stdout  # int4 does
    (row,) = [line.split() for line in done.stdout.splitlines() if line.split()[:3] == ["fp8", "8", "H100"]]
    assert float(row[5]) > float(row[7]) > 79, "more is needed on each of the 8 than one has"
    view = cl.memory(model="deepseek-v3", system="h100-nvl8", precision="fp8", gpus=8).view()
    (table,) = view.tables
    lacking, needed, there = table.rows[0][2:5]
    assert f"each GPU lacks {lacking} ({needed} needed, {there} there)" in view.headline
    assert float(str(needed).split()[0]) - float(str(there).split()[0]) == pytest.approx(23.3, abs=0.5)
    seen = "An H100 sold as 80 GB has 80 GiB, of which an engine sees 79.2 GiB, or 85 GB."
    assert seen in view.context.replace("\u00a0", " ")
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
    assert refused == []


def test_memory_counts_what_the_driver_offers(tmp_path: Path) -> None:
    """nvidia-smi shows 24,564 MiB of an RTX 4090; macOS lets a GPU hold three quarters, and says how to change it."""
    (card,) = cl.memory(model="qwen3-8b", system=["1xrtx-4090"], precision="int4").fits
    assert card.memory.capacity_bytes == pytest.approx(24564 * 2**20, rel=1e-5)
    done = call(main, ["memory", "--model", "qwen3-8b", "--system", "1xm4-max", "--precision", "gguf-q8_0"], tmp_path)
    assert "103 GB of m4-max's 128 GB count" in done.stdout and "iogpu.wired_limit_mb" in done.stdout
    own = tmp_path / "small-mac.toml"
    lines = ('id = "small-mac"', 'like = "m4-max"', "[hbm_bytes]", "value = 64", 'unit = "GB"', 'source = "user"')
    own.write_text("\n".join(lines), "utf-8")
    chip = load_accelerator(str(own))
    assert chip.usable_bytes / chip.hbm_bytes.value == pytest.approx(96 * 2**30 / 128e9)


def test_a_count_that_is_not_what_was_named_is_said(tmp_path: Path) -> None:
    """More GPUs than the name counts are more nodes; a few GPUs of a board are a part of it."""
    words = ["serve", "--model", "qwen3-8b", "--batch", "8", "--json", "--system"]
    said = (
        json.loads(call(main, [*words, *one.split()], tmp_path).stdout)["remarks"]
        for one in ("2xl40s --gpus 8", "8xl40s --gpus 8", "1xh100")
    )
    more, same, part = ([one for one in remarks if not one.startswith("constants of")] for remarks in said)
    assert more == ["8 GPUs are 4 x 2xl40s: 25 GB/s a GPU between them, 31.5 GB/s inside; 8xl40s is one node"]
    assert same == []
    assert part == ["1 of the 8 GPUs of h100-nvl8, with their share of its fabric and power"]


def test_a_local_engine_counts_the_file_that_its_users_download(tmp_path: Path) -> None:
    """gpt-oss 120B on a GB10: 79.7 tokens/s were published; with the checkpoint's 16 bits the limit would be 54."""
    words = [
        "serve",
        "--model",
        "gpt-oss-120b",
        "--system",
        "1xgb10",
        "--backend",
        "llama.cpp",
        "--batch",
        "1",
        "--json",
    ]
    file = json.loads(call(main, words, tmp_path).stdout)
    named = json.loads(call(main, [*words, "--precision", "gguf-mxfp4"], tmp_path).stdout)
    assert file["precision"]["attention"] == "q8_0" and file["tpot_s"] == named["tpot_s"]
    assert any("counted in gguf-mxfp4" in one for one in file["remarks"])
    assert not any("counted in" in one for one in named["remarks"])
    mlx = cl.serve(model="gpt-oss-20b", system="1xm4-max", backend="mlx", batch=1).to_dict()
    assert mlx["precision"]["attention"] == "mlx-8bit"


@pytest.mark.parametrize("system", ["8xh200-sxm5-141gb", "gb200-nvl72", "8xmi300x"])
def test_what_is_started_is_what_the_headline_says(system: str) -> None:
    """Of formats on equally few GPUs, one that can be started leads; a larger one that is started is named."""
    view = cl.memory(model="deepseek-v3", system=system).view()
    for title, _ in view.blocks:
        precision, place = title.removeprefix("Start it in ").split(" on ")
        count, name = place.split(" of ")
        fits = re.compile(rf"fits on {count.split()[0]} \S+ in {re.escape(precision)} with [\w.-]+,")
        assert fits.search(view.headline) or f"in {precision} on {count} of {in_names(name)}" in view.context


@pytest.mark.parametrize(("field", "given"), [("model", "qwen3-32b,gpt-oss-120b"), ("system", "2xl40s,h100-nvl8")])
def test_several_where_one_is_asked_for(field: str, given: str) -> None:
    asked = {"model": "qwen3-8b", "system": "h100-nvl8"} | {field: given}
    with pytest.raises(InputError, match=rf"^{field} '{given}': 2 of them, where one is asked for; `sweep") as caught:
        cl.serve(**asked)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["sglang", "vllm", "trtllm"])
def test_an_engine_that_is_named_keeps_its_own_share(backend: str) -> None:
    asked = {"model": "gpt-oss-120b", "system": "1xh100-sxm5-80gb", "backend": backend}
    fits = cl.memory(**asked, context_tokens=5120).fits
    served = cl.serve(**asked, layout="tp1", batch=1, input_tokens=4096, output_tokens=1024)
    assert fits[0].engine == backend and fits[0].largest_batch == int(served.result.memory.largest_batch)
    assert not [one.precision for one in fits if one.precision.startswith("gguf")]
    with pytest.raises(InputError, match=r"^backend 'vlm': did you mean 'vllm'"):
        cl.memory(model="qwen3-8b", backend="vlm")
