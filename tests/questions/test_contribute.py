"""A result or a log becomes rows of measurements: with its origin, predicted, and read back as what it is."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.questions.answers.contribute import SERVING, TRAINING, ContributeAnswer, contribute
from computeledger.questions.answers.validate import ValidateAnswer, validate
from computeledger.validation.measured_table import curated_columns
from tests.actuals.samples import megatron_log
from tests.commands import call

ORIGIN = {
    "source": "A laboratory", "url": "https://example.org/0123abc/result.json", "date": "2026-11",
    "licence": "CC-BY-4.0", "note": "vllm serve, 320 requests", "samples": 64,
}  # fmt: skip
SERVED = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "backend": "vllm",
          "backend_version": "0.11.0"}  # fmt: skip
RESULT = {
    "model_id": "meta-llama/Meta-Llama-3.1-8B", "request_rate": "inf", "max_concurrency": 32, "completed": 320,
    "total_input_tokens": 327680, "total_output_tokens": 81920, "mean_tpot_ms": 12.5, "mean_ttft_ms": 190.0,
}  # fmt: skip


@pytest.fixture
def result(tmp_path: Path) -> str:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT))
    return str(path)


def contributed(**given: Any) -> ContributeAnswer:
    return contribute(**{**ORIGIN, **SERVED, **given})


def test_the_rows_written_are_read_back_and_predicted_alike(result: str, tmp_path: Path) -> None:
    answer = contributed(result=result, out=str(tmp_path / "rows.csv"))
    answer.write()
    with (tmp_path / "rows.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == curated_columns(SERVING)
    assert [(row["metric"], float(row["value"]), row["rounds"]) for row in rows] == [
        ("tpot", 0.0125, "10"),
        ("ttft", 0.19, "10"),
    ]
    assert len({row["id"] for row in rows}) == 2
    again = validate(data=str(tmp_path / "rows.csv"), samples=64)
    assert isinstance(again, ValidateAnswer)
    own = {one["quantity"]: one["ratio"] for one in answer.to_dict()["residuals"]}
    summed = again.to_dict()
    assert {name: summed[name]["bias"] for name in own} == pytest.approx(own)
    assert answer.open_points == ()


@pytest.mark.parametrize("value", [-5.0, math.nan, "12.5"], ids=str)
def test_a_figure_that_cannot_be_is_refused_by_its_name(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT | {"mean_tpot_ms": value}))
    with pytest.raises(InputError, match=f"result.json: mean_tpot_ms: '?{value}'? is no number above 0"):
        contributed(result=str(path))


def test_a_median_where_no_mean_stands_is_a_row_of_a_median(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**RESULT, "mean_tpot_ms": None, "median_tpot_ms": 12.0}))
    rows = contributed(result=str(path)).rows
    assert [(row["metric"], row["statistic"]) for row in rows] == [("tpot", "median"), ("ttft", "mean")]


def test_the_headline_counts_the_gpus_of_the_rows_and_a_log_holds_its_layout_to_its_own(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT | {"backend": "sglang"}))
    answer = contributed(result=str(path), layout="tp2")
    assert answer.view().headline.startswith("llama-3.1-8b on 2 H100: ")
    assert answer.open_points == ("--backend is vllm, and the result is of sglang: are they the same?",)
    (asked, _) = contributed(result=str(path), layout="tp16").open_points[::-1]
    assert asked == "--layout tp16 takes 16 GPUs, and one h100-nvl8 has 8: were there several?"
    log = tmp_path / "run.log"
    log.write_text(megatron_log())
    given: dict[str, Any] = {
        "result": str(log),
        "model": "Qwen/Qwen3-30B-A3B",
        "backend": None,
        "backend_version": None,
    }
    assert contributed(**given, layout="tp1-pp8-dp8-ep8").view().headline.startswith("Qwen3-30B-A3B on 64 H100: ")
    with pytest.raises(InputError, match="layout tp1: of 1 GPU, the log says 64: write all of it, tp1-dp64"):
        contributed(**given, layout="tp1")


def test_a_training_log_becomes_a_row_of_training(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(megatron_log())
    given = {"result": str(log), "model": "Qwen/Qwen3-30B-A3B", "layout": "tp1-pp8-dp8-ep8", "backend": None}
    answer = contributed(**given, backend_version=None, out=str(tmp_path / "rows.csv"))
    (row,) = answer.rows
    assert list(row) == curated_columns(TRAINING) and answer.table == TRAINING
    assert (row["n_gpus"], row["pp"], row["dp"], row["ep"]) == ("64", "8", "8", "8")
    assert (row["metric"], row["value"], row["global_batch_tokens"]) == ("step_time", "11.4545", str(64 * 4096))
    assert [one["quantity"] for one in answer.to_dict()["residuals"]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"date": "November"}, "date 'November': a month"),
        ({"url": "http://example.org/r"}, "url .* https"),
        ({"source": " "}, "source: is empty"),
        ({"note": "two\nlines"}, "note: one line"),
        ({"backend": "vlm"}, "backend 'vlm': did you mean 'vllm'"),
        ({"layout": None}, "layout: needed"),
        ({"date": "2099-01"}, "date '2099-01': has not begun"),
        ({"licence": "nonsense"}, "licence 'nonsense': no SPDX id.*LicenseRef-NAME"),
        ({"licence": "Apache 2.0"}, "did you mean 'Apache-2.0'"),
        ({"backend_version": "banana"}, "version 'banana': no version"),
        ({"licence": "Free"}, "and 18 more; any other is written LicenseRef-NAME"),
        ({"layout": "tp3"}, "layout tp3: 32 attention heads"),
    ],
    ids=str,
)
def test_a_row_that_nobody_could_look_up_is_refused(given: dict[str, Any], said: str, result: str) -> None:
    with pytest.raises(InputError, match=said):
        contributed(result=result, **given)


def test_what_a_reviewer_would_ask_is_said(result: str) -> None:
    url = "https://github.com/a/b/blob/main/result.json"
    points = contributed(result=result, url=url, note="", model="qwen3-8b").open_points
    assert ["branch" in points[0], "--note is empty" in points[1], "are they the same?" in points[2]] == [True] * 3


@pytest.mark.parametrize(
    ("key", "what"), [("mean_tpot_ms", "per output token"), ("mean_ttft_ms", "to the first token")]
)
def test_what_no_chip_can_do_is_refused(key: str, what: str, tmp_path: Path) -> None:
    """15 GB of weights at 3.35 TB/s take 4.5 ms; a microsecond is a slip of the unit."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT | {key: 0.001}))
    with pytest.raises(InputError, match=f"1 µs {what} is below the 4.48 ms in which 1 x h100-sxm5-80gb read"):
        contributed(result=str(path))
    path.write_text(json.dumps(RESULT | {key: 4.6}))
    assert contributed(result=str(path)).rows


LLAMA = {"model_type": "llama 8B Q4_K - Medium", "model_n_params": 8030261312, "n_prompt": 0, "n_gen": 128,
         "n_depth": 0, "avg_ts": 40.0, "gpu_info": "NVIDIA GeForce RTX 4090"}  # fmt: skip
DESK = {"system": "1xrtx-4090", "backend": "llama.cpp", "backend_version": "b6123", "precision": "gguf-q4_k_m"}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, []),
        ({"model": "qwen3-32b"}, ["--model is qwen3-32b with 32.8B parameters, and the result's has 8.03B"]),
        ({"system": "h100-nvl8"}, ["--system is h100-nvl8, and the result names 'NVIDIA GeForce RTX 4090'"]),
        ({"precision": "gguf-q8_0"}, ["--precision is gguf-q8_0, and the result names gguf-q4_k_m"]),
        (
            {"backend": "vllm", "precision": "int4"},
            ["--backend is vllm, and the result is of llama.cpp", "--precision"],
        ),
    ],
    ids=str,
)
def test_every_contradiction_of_llama_bench_is_asked(given: dict[str, Any], asked: list[str], tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps([LLAMA]))
    found = contributed(**{"result": str(path), **DESK, **given}).open_points
    assert len(found) == len(asked), found
    assert all(part in one for part, one in zip(asked, found, strict=True))


#: As llama-bench prints it by default, with what stands before and after it on a screen; the figures are made up.
TABLE = """found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes
| model                  |     size | params | backend | ngl |         test |            t/s |
| ---------------------- | -------: | -----: | ------- | --: | -----------: | -------------: |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 |        pp512 | 5120.00 ± 8.10 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 |       tg 128 |   40.00 ± 0.20 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 | tg128 @ d512 |   38.00 ± 0.20 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 | pp512+tg128  |  180.00 ± 0.20 |

build: 0123abcd (6123)
"""


def test_the_table_that_llama_bench_prints_is_read_as_its_documents_are(tmp_path: Path) -> None:
    path, same = tmp_path / "bench.md", tmp_path / "bench.json"
    path.write_text(TABLE)
    tests = [(512, 0, 0, 5120.0), (0, 128, 0, 40.0), (0, 128, 512, 38.0), (512, 128, 0, 180.0)]
    same.write_text(json.dumps([LLAMA | dict(zip(("n_prompt", "n_gen", "n_depth", "avg_ts"), one, strict=True))
                                for one in tests]))  # fmt: skip
    found, again = (contributed(**{"result": str(one), **DESK}) for one in (path, same))
    kept = [(row["metric"], row["value"]) for row in found.rows]
    assert kept == [(row["metric"], row["value"]) for row in again.rows] and len(kept) == 3
    assert found.open_points == again.open_points
    path.write_text(TABLE.replace("RTX 4090", "RTX 3060"))
    assert any("the result names 'NVIDIA GeForce RTX 3060'" in one
               for one in contributed(**{"result": str(path), **DESK}).open_points)  # fmt: skip
    path.write_text(TABLE.replace("tg 128 ", "other "))
    with pytest.raises(InputError, match=r"bench\.md:6: no test such as pp512 or tg128"):
        contributed(**{"result": str(path), **DESK})


def test_failed_requests_are_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT | {"failed": 150}))
    assert contributed(result=str(path)).open_points[0].startswith("150 requests failed")


def test_the_command_writes_the_table_and_never_over_the_result(result: str, tmp_path: Path) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**ORIGIN, **SERVED}.items()]
    done = call(main, ["contribute", result, *options], tmp_path)
    assert done.returncode == 0 and "2 of 2 inside the 90 % interval" in done.stdout.replace("\u00a0", " ")
    assert (tmp_path / "measurement.csv").read_text().count("\n") == 3
    over = call(main, ["contribute", result, *options, f"--out={result}"], tmp_path)
    assert over.returncode == 2 and "is a file that was read" in over.stderr
