"""Anchors: what is read, what is refused, and what they do to an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.files import MOST_BYTES, without_user_files
from computeledger.physics.roofline import Precision
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.anchor import AskedDeployment, anchor_ratios, anchoring_of, read_anchors
from computeledger.workloads.serving.intervals import interval_of

ASKED = AskedDeployment(load_model("llama-3.1-70b"), load_system("h100-nvl8"), Precision(), "vllm", "tp8")
#: What the benchmarks write, by the source code of their writers: the entries that are read, and a neighbour of each.
VLLM = {
    "model_id": "meta-llama/Llama-3.1-70B-Instruct", "completed": 320, "total_input_tokens": 320 * 1000,
    "total_output_tokens": 320 * 900, "max_concurrency": 32, "mean_tpot_ms": 19.0, "mean_ttft_ms": 180.0,
    "request_rate": "inf", "p99_tpot_ms": 40.0,
}  # fmt: skip
SGLANG = {
    "backend": "sglang", "request_rate": 4.0, "max_concurrency": None, "duration": 60.0, "completed": 320,
    "total_input_tokens": 320 * 1000, "total_output_tokens": 320 * 900, "total_output_tokens_retokenized": 287000,
    "mean_ttft_ms": 180.0, "median_ttft_ms": 170.0, "mean_tpot_ms": 19.0, "concurrency": 32.0,
}  # fmt: skip
GENAI_PERF = {
    "time_to_first_token": {"unit": "ms", "avg": 180.0, "p99": 300.0},
    "inter_token_latency": {"unit": "ms", "avg": 19.0}, "input_sequence_length": {"unit": "tokens", "avg": 1000.0},
    "output_sequence_length": {"unit": "tokens", "avg": 900.0},
    "input_config": {"model_names": ["my-llama"], "perf_analyzer": {"stimulus": {"concurrency": 32}}},
}  # fmt: skip
AIPERF = {
    "time_to_first_token": {"unit": "ms", "avg": 180.0}, "inter_token_latency": {"unit": "ms", "avg": 19.0},
    "request_count": {"unit": "requests", "avg": 320.0}, "total_isl": {"unit": "tokens", "avg": 320000.0},
    "output_sequence_length": {"unit": "tokens", "avg": 900.0},
    "input_config": {"endpoint": {"model_names": ["my-llama"]}, "loadgen": {"concurrency": 32}},
}  # fmt: skip
GUIDELLM = {"benchmarks": [{"config": {"strategy": {"type_": "concurrent", "streams": 32}}, "metrics": {
    "request_totals": {"successful": 320, "errored": 0, "incomplete": 0, "total": 320},
} | {
    name: {"successful": {"mean": mean, "median": mean}, "errored": {"mean": 0.0}}
    for name, mean in {
        "request_concurrency": 32.0, "prompt_token_count": 1000.0, "output_token_count": 900.0,
        "inter_token_latency_ms": 19.0, "time_per_output_token_ms": 19.2, "time_to_first_token_ms": 180.0,
    }.items()
}}]}  # fmt: skip
TRTLLM = {
    "engine": {"model": "meta-llama/Llama-3.1-70B", "backend": "Pytorch", "dtype": "bfloat16", "quantization": None},
    "world_info": {"tp_size": 8, "pp_size": 1, "ep_size": 1, "world_size": 8},
    "request_info": {"num_requests": 320, "avg_num_concurrent_requests": 32.0, "avg_input_length": 1000.0,
                     "avg_output_length": 900.0},
    "performance": {"request_throughput_req_s": 1.0},
    "streaming_metrics": {"avg_ttft_ms": 180.0, "avg_tpot_ms": 19.0},
}  # fmt: skip
BENCHMARKS = {
    "vllm": VLLM, "sglang": SGLANG, "genai-perf": GENAI_PERF, "aiperf": AIPERF, "guidellm": GUIDELLM, "trtllm": TRTLLM,
}  # fmt: skip
LLAMA_BENCH = [
    {"model_type": "llama 8B Q4_K - Medium", "model_n_params": 8030261312, "n_prompt": 512, "n_gen": 0, "n_depth": 0,
     "avg_ts": 5120.0},
    {"model_type": "llama 8B Q4_K - Medium", "model_n_params": 8030261312, "n_prompt": 0, "n_gen": 128, "n_depth": 4096,
     "avg_ts": 100.0},
    {"model_type": "llama 8B Q4_K - Medium", "model_n_params": 8030261312, "n_prompt": 512, "n_gen": 128, "n_depth": 0,
     "avg_ts": 150.0},
]  # fmt: skip


def written(folder: Path, document: object) -> str:
    file = folder / "result.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return str(file)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_read_as_a_point(tmp_path: Path, name: str) -> None:
    (one,) = read_anchors([written(tmp_path, BENCHMARKS[name])])
    assert (one.batch, one.input_tokens, one.output_tokens) == (32, 1000, 900)
    assert (one.tpot_s, one.ttft_s) == (0.019, 0.18)
    states_no_start = ("sglang", "genai-perf")  # a rate of arrivals, and no count of requests
    assert one.rounds == (float("inf") if name in states_no_start else 10)
    if name != "trtllm":
        ratios = anchor_ratios([one], ASKED)
        assert 0.8 < ratios["tpot"][0].ratio < 2 and len(ratios["ttft"]) == 1


def test_a_line_a_load_or_a_test_is_an_anchor_each(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({**SGLANG, "concurrency": load}) for load in (1, 8, 64)) + "\n"
    assert [one.batch for one in read_anchors([written(tmp_path, lines)])] == [1, 8, 64]
    several = {"benchmarks": GUIDELLM["benchmarks"] * 3}
    assert len(read_anchors([written(tmp_path, several)])) == 3
    prompt, output = read_anchors([written(tmp_path, LLAMA_BENCH)])
    assert (prompt.input_tokens, prompt.ttft_s, prompt.tpot_s) == (512, 0.1, None)
    assert (output.batch, output.input_tokens, output.output_tokens, output.tpot_s) == (1, 4096, 128, 0.01)
    assert (output.precision, output.engine) == ("gguf-q4_k_m", "llama.cpp")


def test_what_a_file_lacks_is_said_behind_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, {**VLLM, "max_concurrency": None})
    with pytest.raises(InputError, match=r"max_concurrency missing in this result of vLLM.*,batch="):
        read_anchors([path])
    (one,) = read_anchors([f"{path}, batch=16, layout=tp4"])
    assert (one.batch, one.tpot_s, str(one.layout)) == (16, 0.019, "tp4")
    first, second = read_anchors([f"{path},batch=16; batch=1,isl=10,osl=10,tpot=9ms"])
    assert (first.batch, second.batch) == (16, 1)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", "the file is empty; known are results of"),
        ("batch=1", "not valid JSON"),
        ({"hello": 1}, "not a benchmark's result that is known"),
        ([], "no test of a prompt alone"),
        ({**VLLM, "completed": 0}, "completed and total_input_tokens, completed and total_output_tokens missing"),
        ({**VLLM, "mean_tpot_ms": None, "mean_ttft_ms": None}, "mean_tpot_ms and mean_ttft_ms missing"),
        ({**TRTLLM, "streaming_metrics": None}, "streaming_metrics .of --streaming. missing"),
        ({**GENAI_PERF, "input_config": {}}, "input_config's concurrency missing"),
        ({"benchmarks": [{"metrics": {}}]}, "metrics.request_concurrency.successful.mean"),
        ([{**LLAMA_BENCH[0], "avg_ts": None}], "avg_ts missing"),
        ("x" * (MOST_BYTES + 1), "larger than 32 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_in_one_line(tmp_path: Path, document: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_anchors([written(tmp_path, document)])
    assert "\n" not in str(caught.value)


def test_a_path_without_a_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        read_anchors([str(tmp_path)])
    with pytest.raises(InputError, match="no such file"):
        read_anchors(["nowhere.jsonl"])
    with without_user_files(), pytest.raises(InputError, match="files cannot be named here; write batch=32"):
        read_anchors([written(tmp_path, VLLM)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch=32,isl=1024,osl=1024,tpot=5ms", "below the physical limit"),
        ("batch=32,isl=1024,osl=1024,tpot=21s", "far above"),
        ("batch=32,isl=1024,osl=1024,ttft=1ms", "below the physical limit"),
        ("batch=32,isl=1024,tpot=21ms", "osl missing"),
        ("batch=32,isl=1024,osl=1024", "tpot or ttft missing"),
        ("batch=32,isl=1024,osl=1024,tpot=21ms,precision=fp8", "it measured fp8 weights, the question is bf16"),
        ("batch=32,isl=1024,osl=1024,tpot=21ms,model=qwen3-8b", "it measured Qwen/Qwen3-8B"),
    ],
)
def test_what_cannot_be_of_that_point_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        anchor_ratios(read_anchors([text]), ASKED)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({**VLLM, "model_id": "deepseek-ai/DeepSeek-V3"}, "it measured deepseek-ai/DeepSeek-V3"),
        (TRTLLM, "it measured trtllm, the question is vllm"),
        (LLAMA_BENCH, "it measured llama.cpp, the question is vllm"),
    ],
)
def test_a_benchmark_of_something_else_is_refused(tmp_path: Path, document: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        anchor_ratios(read_anchors([written(tmp_path, document)]), ASKED)


def test_a_narrower_checkpoint_or_another_size_is_of_something_else(tmp_path: Path) -> None:
    wide = AskedDeployment(load_model("deepseek-v3"), load_system("h200-nvl8"), Precision(), "sglang", "tp8")
    with pytest.raises(InputError, match="it measured fp8 weights, the question is bf16"):
        anchor_ratios(read_anchors([written(tmp_path, {**VLLM, "model_id": "deepseek-ai/DeepSeek-V3"})]), wide)
    small = AskedDeployment(load_model("qwen3-4b"), load_system("h100-nvl8"), Precision(), "llama.cpp", "tp1")
    with pytest.raises(InputError, match=r"it measured a model of 8.+B parameters, the question is Qwen/Qwen3-4B"):
        anchor_ratios(read_anchors([written(tmp_path, LLAMA_BENCH)]), small)


def test_the_layout_is_the_anchors_own_else_the_questions(tmp_path: Path) -> None:
    text = "batch=32,isl=1024,osl=1024,tpot=40ms"
    one, two = (anchor_ratios(read_anchors([said]), ASKED)["tpot"][0].ratio for said in (text, f"{text},layout=tp4"))
    assert one > 1.3 * two
    nowhere = AskedDeployment(ASKED.model, ASKED.system, Precision(), "vllm")
    with pytest.raises(InputError, match="state the layout it was measured on"):
        anchor_ratios(read_anchors([text]), nowhere)
    alone = AskedDeployment(load_model("qwen3-8b"), load_system("1xrtx-4090"), Precision(), "vllm")
    assert anchor_ratios(read_anchors(["batch=1,isl=128,osl=128,tpot=25ms"]), alone)["tpot"]
    question = ServeQuestion(model="llama-3.1-70b", system="h100-nvl8", layout="tp8", anchor=(text,))
    found = anchoring_of(question, ASKED.model, ASKED.system, interval_of("known deployment"))
    assert found is not None and found.lessons["ttft"].after == interval_of("known deployment").ttft
