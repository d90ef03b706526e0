"""A workload is one declaration: a name, a trace or a file; lengths keep what was stated of them."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

import computeledger as cl
from computeledger.distributions import read_spread, spread_of_values
from computeledger.errors import InputError
from computeledger.facts.traffic import named_workloads
from computeledger.files import without_user_files
from computeledger.simulation.serving import arrivals
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad, draw_lengths
from computeledger.simulation.serving.traces import read_trace
from computeledger.simulation.serving.workload import read_workload

SMALL = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1"}
MANY = 400_000


def quantile_text(rng: np.random.Generator) -> tuple[str, dict[float, float]]:
    """Quantiles at random, rising, with or without a shortest and a longest one."""
    shares = sorted(rng.choice([1, 5, 10, 25, 50, 75, 90, 95, 99], size=rng.integers(2, 7), replace=False))
    shares = [0, *shares] if rng.random() < 0.5 else shares
    shares = [*shares, 100] if rng.random() < 0.5 else shares
    values = np.sort(np.exp(rng.uniform(4, 9, len(shares)))).round()
    stated = {float(one): float(value) for one, value in zip(shares, values, strict=True)}
    return "quantiles:" + ",".join(f"p{one:g}={value:.0f}" for one, value in stated.items()), stated


@pytest.mark.parametrize("seed", range(8))
def test_lengths_have_the_quantiles_that_were_stated(seed: int) -> None:
    """Of many draws, the share below each stated quantile is the stated one, and the mean is the closed form's."""
    rng = np.random.default_rng(seed)
    text, stated = quantile_text(rng)
    spread = read_spread(text, "--input-tokens", "tokens")
    drawn = spread.at_scores(rng.standard_normal(MANY))
    for share, value in stated.items():
        chance = 4 * math.sqrt(0.25 / MANY)
        below, at_most = np.mean(drawn < value * (1 - 1e-9)), np.mean(drawn <= value * (1 + 1e-9))
        assert below - chance <= share / 100 <= at_most + chance
    middle = spread.at_scores(np.linspace(-2.5, 2.5, 101))
    assert np.all(np.diff(middle) >= 0)
    assert isinstance(spread.mean, float)
    scores = np.linspace(-8, 8, 400_001)
    weights = np.exp(-(scores**2) / 2)
    assert spread.mean == pytest.approx(float(np.sum(spread.at_scores(scores) * weights) / weights.sum()), rel=1e-3)
    assert read_spread(str(spread), "--input-tokens", "tokens").mean == pytest.approx(spread.mean, rel=1e-6)


@pytest.mark.parametrize("jump", [3.0, 60.0, 1e4])
def test_a_jump_between_quantiles_has_a_mean_and_a_deviation(jump: float) -> None:
    """Waits of a millisecond, then of a minute: a steep stretch is no overflow, and draws have the same moments."""
    one = read_spread(f"quantiles:p0=0.5s,p25=1s,p26={jump}s,p90={2 * jump}s,p100={3 * jump}s", "--wait", "s")
    scores = np.array([NormalDist().inv_cdf((at + 0.5) / MANY) for at in range(MANY)])
    drawn = one.at_scores(scores)
    assert one.mean == pytest.approx(drawn.mean(), rel=1e-4)
    assert one.deviation == pytest.approx(drawn.std() / drawn.mean(), rel=1e-3)


def test_two_quantiles_are_the_log_normal_of_the_other_notation() -> None:
    """``lognormal:P50:P95`` and ``quantiles:p50=,p95=`` are one distribution, drawn alike."""
    texts = ("lognormal:1000:4000", "quantiles:p50=1000,p95=4000")
    first, second = (draw_lengths(text, 1000, np.random.default_rng(1)) for text in texts)
    assert np.array_equal(first, second)


def test_named_workloads_keep_their_published_means() -> None:
    """The distribution through eleven percentiles has the mean that was counted, within six percent."""
    for one in named_workloads().values():
        for side in ("input", "output"):
            published = one.value(f"{side}_mean_tokens")
            if published is not None:
                assert one.lengths(side).mean == pytest.approx(published, rel=0.06), (one.id, side)


def test_named_workloads_are_counted_from_their_traces(shared_data: Path) -> None:
    """Percentiles, rate and spread of gaps, from the published files."""
    files = {"azure-conv-2023": "AzureLLMInferenceTrace_conv.csv", "azure-code-2023": "AzureLLMInferenceTrace_code.csv",
             "mooncake-conversation": "mooncake_conversation.jsonl"}  # fmt: skip
    for name, file in files.items():
        one, trace = named_workloads()[name], read_trace(shared_data / "traces" / file)
        for side, tokens in (("input", trace.input_tokens), ("output", trace.output_tokens)):
            for share in (1, 50, 99):
                assert one.value(f"{side}_p{share}_tokens") == pytest.approx(np.percentile(tokens, share), abs=0.51)
            assert one.value(f"{side}_mean_tokens") == pytest.approx(np.mean(tokens), abs=0.06)
        gaps = np.diff(trace.arrival_s)
        assert one.value("gap_spread_ratio") == pytest.approx(np.std(gaps) / np.mean(gaps), abs=0.001)
        assert one.value("mean_requests_per_s") == pytest.approx(trace.requests_per_s, rel=1e-4)


def test_a_point_distribution_is_the_number() -> None:
    """All quantiles at one length: the promise and the closed form answer what the number does."""
    point = "quantiles:p10=512,p90=512"
    for more in ({"batch": 8}, {"requests_per_s": 30.0, "ttft": "p95:0.5s", "tpot": "p95:25ms"}):
        plain, spread = (
            cl.serve(**SMALL, input_tokens=length, output_tokens=64, samples=64, **more).to_dict()
            for length in (512, point)
        )
        assert spread["tpot_s"]["p50"] == pytest.approx(plain["tpot_s"]["p50"], rel=1e-12)
        assert spread.get("attained") == plain.get("attained")
    first, second = (
        cl.simulate_serve(**SMALL, input_tokens=length, output_tokens=64, arrivals="poisson:20", requests=300)
        for length in (512, point)
    )
    assert first.percentiles == second.percentiles


def test_longer_tails_break_a_promise_sooner() -> None:
    """With the same mean, a wider distribution attains no shorter p99 and needs no fewer GPUs."""
    found = []
    for ratio in (1.0, 3.0, 9.0):  # p95 over p50
        sigma = math.log(ratio) / 1.6448536269514722
        median = 1000 / math.exp(sigma**2 / 2)
        answer = cl.serve(
            **SMALL, input_tokens=f"lognormal:{median:.6f}:{ratio * median:.6f}", output_tokens=64, samples=64,
            requests_per_s=30.0, ttft="p99:0.6s",
        ).to_dict()  # fmt: skip
        found.append((answer["gpus"], answer["attained"]["ttft_s"]["p99"]))
    gpus = [one for one, _ in found]
    assert gpus == sorted(gpus)
    assert all(late > early for (few, early), (more, late) in itertools.pairwise(found) if few == more)


def write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)


ROWS = "arrival,input_tokens,output_tokens\n" + "".join(
    f"{0.1 * i**1.5},{100 + 7 * i},{5 + i % 13}\n" for i in range(60)
)


def test_a_trace_is_replayed_over_and_over(tmp_path: Path) -> None:
    """At its own rate, the replay's first round is the trace; its lengths stay together; other arrivals draw them."""
    workload = read_workload(write(tmp_path / "own.csv", ROWS))
    assert workload.trace is not None
    assert workload.requests_per_s is not None
    load = workload.load(workload.requests_per_s)
    again = load(150, workload.requests_per_s)
    assert np.array_equal(again.input_tokens[:60], workload.trace.input_tokens)
    assert np.array_equal(again.output_tokens[60:120], workload.trace.output_tokens)
    assert np.allclose(np.diff(again.arrival_s[:60]), np.diff(workload.trace.arrival_s))
    assert np.allclose(np.diff(again.arrival_s[60:120]), np.diff(workload.trace.arrival_s))
    twice = load(61, 2 * workload.requests_per_s)
    assert twice.arrival_s[60] - twice.arrival_s[0] == pytest.approx(60 / (2 * workload.requests_per_s))
    drawn = workload.load(5.0, spread=1.0)(500, 5.0)
    known = set(zip(workload.trace.input_tokens.tolist(), workload.trace.output_tokens.tolist(), strict=True))
    assert set(zip(drawn.input_tokens.tolist(), drawn.output_tokens.tolist(), strict=True)) <= known
    assert spread_of_values(workload.trace.input_tokens).mean == pytest.approx(np.mean(workload.trace.input_tokens))


def test_a_trace_in_a_promise_and_in_a_simulation(tmp_path: Path) -> None:
    """``serve`` sizes for the arrivals of a trace; ``simulate serve`` replays it; the closed form takes its means."""
    path = write(tmp_path / "own.csv", ROWS)
    kept = cl.serve(**SMALL, workload=path, requests_per_s=20.0, ttft="p95:1s", samples=64).to_dict()
    assert kept["workload"]["name"] == path
    assert kept["attained"]["ttft_s"]["p95"] <= 1.0
    plain = cl.serve(**SMALL, workload=path, batch=4, samples=64)
    assert plain.to_dict()["remarks"][-1].startswith("lengths differ")
    means = cl.serve(**SMALL, input_tokens=float(np.mean([100 + 7 * i for i in range(60)])),
                     output_tokens=float(np.mean([5 + i % 13 for i in range(60)])), batch=4, samples=64)  # fmt: skip
    assert plain.tpot_s.p50 == pytest.approx(means.tpot_s.p50, rel=1e-12)
    replay = cl.simulate_serve(**SMALL, workload=path)
    assert len(replay.result.trace.arrival_s) == 60
    assert cl.simulate_serve(**SMALL, trace=path).percentiles == replay.percentiles


def test_input_and_output_are_drawn_together() -> None:
    """A correlation of scores is kept, and changes neither of the two distributions."""
    lengths = ("lognormal:1000:4000", "lognormal:200:500")
    apart, together = (
        DrawnLoad(Arrivals("poisson", 1.0), lengths, correlation=one)(20_000, 1.0) for one in (0.0, -0.6)
    )
    found = np.corrcoef(np.log(together.input_tokens), np.log(together.output_tokens))[0, 1]
    assert found == pytest.approx(-0.6, abs=0.02)
    assert np.array_equal(apart.input_tokens, together.input_tokens)
    assert np.quantile(together.output_tokens, 0.95) == pytest.approx(500, rel=0.03)


def test_other_formats(tmp_path: Path) -> None:
    """BurstGPT leaves out what failed and says how many; Qwen-Bailian counts in seconds and blocks of 16 tokens."""
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    rows = "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,0,0,0,Conversation log\n118,GPT-4,417,276,693,API log\n"
    burst = read_trace(write(tmp_path / "b.csv", head + rows))
    assert (burst.arrival_s.tolist(), burst.input_tokens.tolist(), burst.n_failed) == ([0.0, 113.0], [472, 417], 1)
    row = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 2.5, "input_length": 40, "output_length": 3, "type": "text",
           "turn": 1, "hash_ids": [7, 8, 9]}  # fmt: skip
    one = read_trace(write(tmp_path / "q.jsonl", "\n".join(json.dumps(row | {"timestamp": at}) for at in (2.5, 4.0))))
    assert (one.arrival_s.tolist(), one.block_tokens) == ([0.0, 1.5], 16)
    assert one.blocks is not None
    assert len(one.blocks[0]) == 2
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.25+00:00,5,6\n2024-05-10 00:00:01+00:00,5,6\n"
    assert read_trace(write(tmp_path / "a.csv", text)).arrival_s.tolist() == [0.0, 0.75]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("input_tokens = 100", "output_tokens: needed"),
        ("input_tokens = 100\noutput_tokens = 'lognormal:9:3'", "rising numbers"),
        ("input_tokens = 100\noutput_tokens = 5\ncorrelation = 2", "at most 0.99"),
        ("input_tokens = 100\noutput_tokens = '5..9'", "expected one number"),
        ("input_tokens = 100\noutput_tokens = 5\nturns = 3", "no field"),
        ("input_tokens = -1\noutput_tokens = 5", "greater than 0"),
    ],
)
def test_a_file_that_says_nothing_clear_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """One line with the file's name."""
    with pytest.raises(InputError, match=said) as caught:
        read_workload(write(tmp_path / "w.toml", text))
    assert "w.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workload": "azure-conv"}, "did you mean 'azure-conv-2023'"),
        ({"workload": "nowhere.csv"}, "no such file"),
        ({"workload": "azure-conv-2023", "output_tokens": 5}, "leave out one"),
        ({"input_tokens": "quantiles:p50=100"}, "at least two percentiles"),
        ({"input_tokens": "quantiles:p50=100,p90=50"}, "rising"),
        ({"input_tokens": "quantiles:p50=100,p190=500"}, "between p0 and p100"),
        ({"input_tokens": "normal:100:200"}, "lognormal"),
        ({"input_tokens": "lognormal:100:1e18"}, "at most"),
    ],
)
def test_what_cannot_be_read_is_refused(given: dict[str, object], said: str) -> None:
    """The same words from ``serve`` and ``simulate serve``."""
    with pytest.raises(InputError, match=said):
        cl.serve(**SMALL, batch=4, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=said):
        cl.simulate_serve(**SMALL, arrivals="poisson:2", **given)  # type: ignore[arg-type]


def test_a_stranger_names_no_file(tmp_path: Path) -> None:
    """In the app a workload is a name; a text is never taken for a path."""
    path = write(tmp_path / "own.csv", ROWS)
    with without_user_files(), pytest.raises(InputError, match="no such workload"):
        read_workload(path)


def test_a_named_workload_has_no_rate_of_its_own() -> None:
    """``simulate serve`` asks for one; a file may state it."""
    with pytest.raises(InputError, match="at which rate"):
        cl.simulate_serve(**SMALL, workload="azure-conv-2023")


def test_a_plan_counts_with_the_means() -> None:
    """``workload`` in ``[inference]`` is its mean lengths, and so is a distribution."""
    from computeledger.economics.plan.read import read_plan

    rest = {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": {"skip": "x"},
            "rl": {"skip": "x"}}  # fmt: skip
    served = {"rate": "1M tokens/s", "life": "1 years"}
    named = read_plan({**rest, "inference": {**served, "workload": "azure-conv-2023"}})
    assert named.sections["inference"].values["input_tokens"] == pytest.approx(1155, rel=0.06)
    spread = read_plan({**rest, "inference": {**served, "input_tokens": "uniform:100:300", "output_tokens": 20}})
    assert spread.sections["inference"].values["input_tokens"] == 200.0


@pytest.mark.parametrize("correlation", [0.0, 0.4])
@pytest.mark.parametrize("process", [("poisson", 1.0), ("gamma", 2.5), ("even", 0.0)])
def test_what_is_kept_of_a_draw_is_what_would_be_drawn(
    process: tuple[str, float], correlation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search draws its load hundreds of times: the beginning of a draw that is kept is a draw of its own."""
    name, spread = process
    lengths = ("quantiles:p10=20,p50=300,p99=4000", "exponential:200")
    load = DrawnLoad(Arrivals(name, 1.0, spread, ((0.0, 1.0), (12.0, 3.0))), lengths, 7, 900, correlation)
    sizes = (1, 999, 16_384, 16_385)
    kept = [load(n, 1.7) for n in sizes]
    monkeypatch.setattr(arrivals, "_KEPT_REQUESTS", (0, 0))
    for n, one in zip(sizes, kept, strict=True):
        fresh = load(n, 1.7)
        for column in ("arrival_s", "input_tokens", "output_tokens"):
            assert np.array_equal(getattr(one, column), getattr(fresh, column))


def test_prompts_that_fit_no_context_are_refused_before_their_blocks_are_drawn(tmp_path: Path) -> None:
    """A billion fresh tokens are 62 million blocks a prompt: what a context holds is enough to tell."""
    (tmp_path / "w.toml").write_text(
        'input_tokens = "lognormal:1000:4000"\noutput_tokens = "100"\nrequests_per_s = 2.0\nblock_tokens = 16\n'
        'fresh_tokens = "1e9"\ncommon_tokens = 5\ncontinued_fraction = 0.5\nadded_tokens = "100"\n'
        'continued_after = "5s"\n'
    )
    with pytest.raises(InputError, match="of the requests exceed the context"):
        cl.simulate_serve(**SMALL, workload=str(tmp_path / "w.toml"))
