"""Anchors: what is read, what is refused, and what they do to an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.workloads.serving.anchor import anchor_ratios, read_anchor
from computeledger.workloads.serving.estimate import ServingScenario

ASKED = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=8), Precision(), 1.0, 1.0, 1.0)
MACHINE = Machine(load_system("h100-nvl8"), efficiency("vllm", {"efficiency.serving_ratio": 1.0}))
#: A result of vLLM's `bench serve` holds these among others.
BENCH = {
    "model_id": "meta-llama/Llama-3.1-70B-Instruct", "completed": 320, "total_input_tokens": 320 * 1000,
    "total_output_tokens": 320 * 900, "max_concurrency": 32, "mean_tpot_ms": 19.0, "mean_ttft_ms": 180.0,
}  # fmt: skip


def bench(folder: Path, **changes: object) -> str:
    file = folder / "bench.json"
    file.write_text(json.dumps({**BENCH, **changes}), "utf-8")
    return str(file)


def test_a_benchmark_is_read_as_a_point(tmp_path: Path) -> None:
    one = read_anchor(bench(tmp_path))
    assert (one.batch, one.input_tokens, one.output_tokens) == (32, 1000, 900)
    assert (one.tpot_s, one.ttft_s) == (0.019, 0.18)
    ratios = anchor_ratios([one], ASKED, MACHINE)
    assert 0.8 < ratios["tpot"][0] < 2 and len(ratios["ttft"]) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch=32,isl=1024,osl=1024,tpot=5ms", "below the physical limit"),
        ("batch=32,isl=1024,osl=1024,tpot=21s", "far above"),
        ("batch=32,isl=1024,osl=1024,ttft=1ms", "below the physical limit"),
        ("batch=32,isl=1024,tpot=21ms", "osl missing"),
        ("batch=32,isl=1024,osl=1024", "tpot or ttft missing"),
        ("nowhere.json", "no such file"),
    ],
)
def test_what_cannot_be_of_that_point_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        anchor_ratios([read_anchor(text)], ASKED, MACHINE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_id": "deepseek-ai/DeepSeek-V3"}, "it measured deepseek-ai/DeepSeek-V3"),
        ({"completed": 0}, "completed missing"),
        ({"mean_tpot_ms": None, "mean_ttft_ms": None}, "mean_tpot_ms and mean_ttft_ms"),
    ],
)
def test_a_benchmark_of_something_else_is_refused(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        anchor_ratios([read_anchor(bench(tmp_path, **changes))], ASKED, MACHINE)
