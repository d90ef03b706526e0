"""Traces are read as they are published, and refused with the line where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.simulation.serving.arrivals import Arrivals, draw_arrivals, draw_lengths, parse_arrivals, parse_curve
from computeledger.simulation.serving.traces import read_trace


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_azure_trace(shared_data: Path) -> None:
    """Figures of the published file, counted with awk: 19,366 requests, inputs of 22,361,870 tokens in all."""
    trace = read_trace(shared_data / "traces" / "AzureLLMInferenceTrace_conv.csv")
    assert len(trace.arrival_s) == 19_366
    assert (trace.input_tokens[0], trace.output_tokens[0]) == (374, 44)
    assert trace.arrival_s[0] == 0
    assert trace.arrival_s[1] == pytest.approx(50.9951690 - 46.6805900)
    assert trace.blocks is None


def test_the_mooncake_trace(shared_data: Path) -> None:
    trace = read_trace(shared_data / "traces" / "mooncake_conversation.jsonl")
    assert len(trace.arrival_s) == 12_031
    assert trace.arrival_s[-1] == pytest.approx(3536.999)
    assert trace.blocks is not None
    # 6,758 tokens fill 13 blocks of 512; the fourteenth is not full and cannot be shared
    assert (len(trace.blocks[0]), trace.blocks[0][0], trace.blocks[1][0]) == (13, 0, 0)


def test_one_s_own_trace(tmp_path: Path) -> None:
    rows = [
        {"arrival": 5.0, "input_tokens": 300, "output_tokens": 7, "prefix": "system", "prefix_tokens": 200},
        {"arrival": 6.5, "input_tokens": 100, "output_tokens": 1},
        {"arrival": 6.5, "input_tokens": 256, "output_tokens": 2, "prefix": "system", "prefix_tokens": 200},
    ]
    trace = read_trace(write(tmp_path / "a.jsonl", "\n".join(json.dumps(row) for row in rows)))
    assert trace.arrival_s.tolist() == [0.0, 1.5, 1.5]
    assert trace.blocks is not None
    assert [one.tolist() for one in trace.blocks] == [[0, 1, 2], [], [0, 1, 2]]
    same = read_trace(write(tmp_path / "a.csv", "arrival,input_tokens,output_tokens\n5,300,7\n6.5,100,1\n6.5,256,2\n"))
    assert np.array_equal(same.input_tokens, trace.input_tokens)
    assert trace.faster(2.0).arrival_s.tolist() == [0.0, 0.75, 0.75]


HEAD = "arrival,input_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no request"),
        (HEAD, "holds no request"),
        ("time,in,out\n1,2,3\n", "are no trace"),
        (f"{HEAD}0,10,5\n1,,5\n", ":3: input_tokens is missing"),
        (f"{HEAD}0,10,5\n1,10\n", ":3: output_tokens is missing"),
        (f"{HEAD}2,10,5\n1,10,5\n", ":3: arrives before the line above"),
        (f"{HEAD}0,10,0\n", ":2: output_tokens = '0'"),
        (f"{HEAD}0,10.5,3\n", ":2: input_tokens = '10.5'"),
        (f"{HEAD}soon,10,3\n", ":2: arrival = 'soon' is not a time"),
        (f"{HEAD}nan,10,3\n", ":2: arrival = 'nan' is not a time"),
        ('{"timestamp": 0, "input_length": 5\n', ":1: not valid JSON"),
        ('{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": ["x"]}', ":1: hash_ids"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", ":2: TIMESTAMP"),
    ],
)
def test_holes_and_disorder_are_refused_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(write(tmp_path / "t.csv", text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "spread"), [("poisson:5", 1.0), ("gamma:5:2.5", 2.5), ("even:5", 0.0)])
def test_arrivals_have_their_rate_and_spread(text: str, spread: float) -> None:
    gaps = np.diff(draw_arrivals(parse_arrivals(text), 200_000, np.random.default_rng(0)))
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, abs=0.04)


def test_a_daily_curve_keeps_the_mean_and_moves_the_load() -> None:
    arrivals = Arrivals("poisson", 1.0, 1.0, parse_curve("0:0.5,6:0.5,12:1.5,18:1.5"))
    times = draw_arrivals(arrivals, 10 * 86_400, np.random.default_rng(0))
    assert times[-1] == pytest.approx(10 * 86_400, rel=0.01)
    hours = times / 3600 % 24
    night, noon = (np.sum((hours >= low) & (hours < low + 2)) / 20 / 3600 for low in (2, 14))
    assert [night, noon] == pytest.approx([0.5, 1.5], rel=0.05)


def test_lengths_have_their_quantiles() -> None:
    drawn = draw_lengths("lognormal:500:4000", 100_000, np.random.default_rng(0))
    assert np.quantile(drawn, [0.5, 0.95]) == pytest.approx([500, 4000], rel=0.03)


@pytest.mark.parametrize("text", ["poisson", "poisson:0", "gamma:3", "burst:3", "poisson:x", "poisson:nan"])
def test_arrivals_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        parse_arrivals(text)
