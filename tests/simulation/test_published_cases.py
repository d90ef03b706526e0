"""Cases that other simulators publish: BLIS's regression data, with its laws of step times, and LLMServingSim's runs.

In BLIS a step takes a constant, and so much for every token that is read and every sequence that writes; a request
comes into line after a constant and so much for every token of its prompt, and tokens come out a constant later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.simulation.measures import gap_quantile_s
from computeledger.simulation.schedulers import SCHEDULERS
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Limits, Pool, StepTimes

BLIS: dict[str, Any] = json.loads(Path(__file__).with_name("blis_cases.json").read_text("utf-8"))


def whole_us(seconds: np.ndarray) -> np.ndarray:
    """What BLIS counts: whole microseconds."""
    return np.floor(1e6 * seconds + 1e-6) * 1e-6


def replica(case: dict[str, Any]) -> Pool:
    """One replica as BLIS's blackbox backend has it [us]."""
    step, read, write = (1e-6 * one for one in case["beta_us"])
    live, chunks = BLIS["live"], np.array([1.0, 1000.0])
    decode = np.where(np.arange(live + 1) > 0, whole_us(step + write * np.arange(live + 1)), 0.0)
    reading = read * chunks
    times = StepTimes(
        decode, np.zeros(live + 1), chunks, step + reading, np.zeros(2), np.ones(1), reading[:, None],
        np.zeros((2, 1)), np.zeros(2), np.zeros(0),
    )  # fmt: skip
    kv_tokens = case["kv_blocks"] * BLIS["block_tokens"]
    return Pool(1, times, Limits(live, kv_tokens, 0, 0, BLIS["chunk_tokens"], 1, 1, 0, *SCHEDULERS["vllm"]))


def prompts(shared: int, tokens: np.ndarray) -> tuple[np.ndarray, ...]:
    """Blocks of each prompt: those of the shared beginning, then its own."""
    size, n_shared = BLIS["block_tokens"], shared // BLIS["block_tokens"]
    own = tokens // size - n_shared
    first = n_shared + np.cumsum(own) - own
    head = np.arange(n_shared, dtype=np.int32)
    return tuple(np.append(head, np.arange(at, at + n, dtype=np.int32)) for at, n in zip(first, own, strict=True))


@pytest.mark.parametrize("case", BLIS["cases"], ids=lambda case: case["model"].partition("/")[2])
def test_blis_golden_cases(case: dict[str, Any]) -> None:
    n, lengths = case["requests"], BLIS["lengths"][case["lengths"]]
    output, shared = np.array(lengths["output"][:n]), lengths["shared_tokens"]
    prompt = np.array(lengths["prompt"][:n]) + shared
    assert [prompt.sum(), output.sum()] == case["tokens"]
    once, per_token, later = (1e-6 * one for one in case["alpha_us"])
    before, later = whole_us(once + per_token * prompt), float(whole_us(np.array(later)))
    arrival = 1e-6 * BLIS["gap_us"] * np.arange(n)
    trace = Trace(arrival + before, prompt, output, prompts(shared, prompt), BLIS["block_tokens"])
    result = simulate_serving(ServingClock((replica(case),)), trace)
    ttft = result.times_s["ttft_s"] + before + later
    whole = result.times_s["end_to_end_s"] + before + later * output
    found = {"vllm_estimated_duration_s": float(np.max(result.world.when[:, 4]))}
    for name, values in (("ttft", ttft), ("e2e", whole)):
        found |= {f"{name}_mean_ms": 1e3 * values.mean()}
        found |= {f"{name}_p{p}_ms": 1e3 * float(np.percentile(values, p)) for p in (90, 99)}
    found |= {f"itl_p{p}_ms": 1e3 * (gap_quantile_s(result.world.gaps, p / 100) + later) for p in (90, 99)}
    found["itl_mean_ms"] = 1e3 * float((whole - ttft).sum() / (output - 1).sum())
    errors = {name: abs(found[name] / value - 1) for name, value in case["published"].items()}
    assert max(error for name, error in errors.items() if name.startswith("ttft")) < 0.005, errors
    assert max(error for name, error in errors.items() if not name.startswith("ttft")) < 0.001, errors


def test_splitwise_sim_example() -> None:
    """Mutinifni/splitwise-sim 8f99e7d, ``notebooks/example.ipynb``: Baseline-H100 on ``test_trace.csv``, its own times.

    A prompt of 2,048 tokens takes 0.251964 s, one of 4,096 0.649598 s; a token (0.499255 - 0.251964) s / 7.
    """
    chunks, write = np.array([2048.0, 4096.0]), np.array([0.0, (0.499255 - 0.251964) / 7])
    reading, none = np.array([0.251964, 0.649598]), np.zeros((2, 1))
    times = StepTimes(
        write, np.zeros(2), chunks, reading, np.zeros(2), np.ones(1), none, none, np.zeros(2), np.zeros(0)
    )
    fleet = ServingClock((Pool(1, times, Limits(1, 10_000, 0, 0, 4096)),))
    trace = Trace(np.array([1.0, 3.0, 4.0]), np.array([4096, 2048, 2048]), np.array([32, 8, 16]))
    found = simulate_serving(fleet, trace).times_s
    assert found["ttft_s"] == pytest.approx([0.649598, 0.251964, 0.251964], abs=1e-6)
    assert found["end_to_end_s"] == pytest.approx([1.744743, 0.499255, 0.781873], abs=2e-6)


#: vLLM 0.19.0 under the trace beside this file: mean, median, p90, p95 and p99 [ms] of
#: casys-kaist/LLMServingSim 5daddb21, ``bench/examples/*/Llama-3.1-8B/validation/summary.txt`` (MIT); the requests are
#: those of ``RTXPRO6000/Llama-3.1-8B/vllm/requests.jsonl``, the limits of ``meta.json``.
MEASURED = {
    "1xrtx-pro-6000": (128, (9442.7, 16852.7, 18397.9, 19755.3), (33.4, 36.5, 36.9, 37.3),
                       (29615.6, 35450.7, 36617.4, 37638.8)),
    "1xrtx-4090": (256, (60110.9, 121121.7, 122739.2, 137356.3), (30.8, 38.1, 48.1, 56.0),
                   (83413.3, 141600.9, 148977.6, 153627.5)),
}  # fmt: skip


@pytest.mark.parametrize("system", MEASURED)
def test_llmservingsim_measured_cases(system: str) -> None:
    """300 requests in 29 s on chips that no constant was fitted on; none carries them."""
    batch, *published = MEASURED[system]
    file = Path(__file__).with_name("llmservingsim_sharegpt.csv")
    found = cl.simulate_serve(
        model="llama-3.1-8b", system=system, layout="tp1", backend="vllm", max_batch=batch, chunk_tokens=2048,
        workload=str(file),
    ).percentiles  # fmt: skip
    for name, most, values in zip(("ttft_s", "tpot_s", "end_to_end_s"), (0.31, 0.26, 0.18), published, strict=True):
        for quantile, value in zip(("p50", "p90", "p95", "p99"), values, strict=True):
            assert 1e3 * found[name][quantile] == pytest.approx(value, rel=most), (name, quantile)
