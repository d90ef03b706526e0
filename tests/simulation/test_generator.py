"""A generator fitted to a trace draws requests like it: parameters come back, and times are near the replay's."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import computeledger as cl
from computeledger.distributions import Spread, read_spread
from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad, StretchLengths
from computeledger.simulation.serving.clock import simulate_serving
from computeledger.simulation.serving.generator import fit_workload, workload_toml
from computeledger.simulation.serving.sharing import Sharing, draw_prompts
from computeledger.simulation.serving.traces import Trace, read_trace
from computeledger.simulation.serving.workload import Workload, stated_workload

#: Lengths by parts of a round, of input and of output.
PARTS = """rates = '1 2'
stretch = '9 s'
input_by_stretch = '{}'
output_by_stretch = '{}'
correlation_by_stretch = '0 0'"""
SMALL = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1"}


def again(workload: Workload) -> Workload:
    """As its file reads it."""
    return stated_workload(tomllib.loads(workload_toml(workload)), "fitted.toml")


def test_what_a_generator_draws_is_what_is_fitted_to_it() -> None:
    """Rate, burstiness, correlation and quantiles of a drawn load come back from its trace, through the file."""
    rates = (0.5, 1.5, 1.0, 2.0, 0.25, 0.75)
    lengths = (read_spread("lognormal:800:3000", "i", "tokens"), read_spread("lognormal:150:600", "o", "tokens"))
    stated = Workload("", *lengths, 0.5, 20.0, 1.8, rates=rates, stretch_s=200.0)
    found = again(fit_workload(stated.load(20.0)(24_000, 20.0)))
    assert found.requests_per_s == pytest.approx(20.0, rel=0.03)
    assert found.arrival_spread == pytest.approx(1.8, rel=0.15)
    assert found.correlation == pytest.approx(0.5, abs=0.02)
    scores = np.linspace(-2, 2, 9)
    for one, other in ((found.input_tokens, lengths[0]), (found.output_tokens, lengths[1])):
        assert one.at_scores(scores) == pytest.approx(other.at_scores(scores), rel=0.05)
    assert max(found.rates) / np.mean(found.rates) == pytest.approx(2.0, rel=0.25)


def test_lengths_that_change_within_the_hour_come_back() -> None:
    """Two halves of a round: each has its own lengths and correlation, through the file, and the whole has both."""
    halves = (StretchLengths(Spread(200.0), read_spread("lognormal:300:900", "o", "tokens")),
              StretchLengths(read_spread("lognormal:4000:9000", "i", "tokens"),
                             read_spread("lognormal:50:90", "o", "tokens"), 0.6))  # fmt: skip
    whole = (Spread(2000.0), Spread(200.0))
    stated = Workload("", *whole, requests_per_s=20.0, rates=(1.0, 3.0), stretch_s=200.0, by_stretch=halves)
    trace = stated.load(20.0)(8_000, 20.0)
    late = trace.arrival_s >= 200.0
    assert set(trace.input_tokens[~late].tolist()) == {200} and np.median(trace.input_tokens[late]) > 3_500
    found = again(fit_workload(trace)).by_stretch
    assert len(found) == 8
    assert [one.input_tokens.mean for one in found[:2]] == pytest.approx([200.0, 200.0])
    assert [one.correlation for one in found[5:]] == pytest.approx([0.6] * 3, abs=0.06)
    assert found[7].output_tokens.at_scores(np.zeros(1)) == pytest.approx([50.0], rel=0.05)
    plain = stated.drawn(Arrivals("poisson", 20.0))(2_000, 20.0)
    assert set(plain.input_tokens.tolist()) == {2000}, "arrivals without that round have the lengths of the whole"


def test_a_rate_that_changes_keeps_its_mean() -> None:
    """Over whole rounds of its stretches as many requests come as at an even rate."""
    arrivals = Arrivals("even", 10.0, 0.0, rates=(0.0, 1.0, 3.0), stretch_s=10.0)
    at = DrawnLoad(arrivals, ("100", "10"))(900, 10.0).arrival_s
    assert at[298] < 30.0
    assert at[299] >= 40.0
    assert np.histogram(at, [0, 10, 20, 30])[0].tolist() == pytest.approx([0, 75, 225], abs=1)


def test_shared_beginnings_come_back() -> None:
    """Share, wait and what is added are found in the blocks that were drawn; a cache finds as much of both."""
    sharing = Sharing(0.4, Spread(4096.0), Spread(1024.0), Spread(60.0), 512, 512)
    at = np.cumsum(np.random.default_rng(1).exponential(0.5, 5000))
    tokens, blocks = draw_prompts(sharing, at, np.zeros(5000), np.random.default_rng(2))
    trace = Trace(at, tokens, np.full(5000, 20), blocks, 512)
    found = again(fit_workload(trace)).sharing
    assert found is not None
    assert found.continued_fraction == pytest.approx(0.4, abs=0.02)
    assert (found.common_tokens, found.block_tokens) == (512, 512)
    assert float(np.exp(np.log(found.wait_s.at_scores(np.zeros(1)))[0])) == pytest.approx(60.0, rel=0.02)
    drawn = again(fit_workload(trace)).load(2.0)(5000, 2.0)
    shared = [1 - one.unshared_tokens().sum() / one.input_tokens.sum() for one in (trace, drawn)]
    assert shared[1] == pytest.approx(shared[0], abs=0.05)


@pytest.mark.parametrize(
    ("file", "pace", "within"),
    [("AzureLLMInferenceTrace_conv.csv", 1.0, 0.08), ("AzureLLMInferenceTrace_conv.csv", 1.7, 0.12),
     ("AzureLLMInferenceTrace_code.csv", 2.0, 0.6)],
)  # fmt: skip
def test_times_of_the_generator_are_near_those_of_the_trace(
    shared_data: Path, file: str, pace: float, within: float
) -> None:
    """Percentiles of first tokens and of times per token, fitted over replayed; the log has the errors."""
    path = shared_data / "traces" / file
    trace = read_trace(path)
    replay = cl.simulate_serve(**SMALL, workload=str(path), pace=pace)
    fitted = again(fit_workload(trace))
    assert fitted.requests_per_s is not None
    drawn = fitted.load(fitted.requests_per_s)(len(trace.arrival_s), fitted.requests_per_s)
    result = simulate_serving(replay.fleet.clock, drawn.faster(pace))
    for name in ("ttft_s", "tpot_s"):
        for share in ("p50", "p90", "p95"):
            assert result.percentiles[name][share] == pytest.approx(replay.percentiles[name][share], rel=within)


def test_shares_of_a_published_trace_come_back(shared_data: Path) -> None:
    """Mooncake: what an endless cache would find of the prompts, fitted and counted."""
    trace = read_trace(shared_data / "traces" / "mooncake_conversation.jsonl")
    fitted = again(fit_workload(trace))
    drawn = fitted.load(3.4)(len(trace.arrival_s), 3.4)
    found, counted = (1 - one.unshared_tokens().sum() / one.input_tokens.sum() for one in (drawn, trace))
    assert found == pytest.approx(counted, abs=0.03)
    assert drawn.input_tokens.mean() == pytest.approx(trace.input_tokens.mean(), rel=0.08)


def test_the_command_writes_what_the_command_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--write-workload`` of a trace, then ``--workload`` of what was written."""
    trace, file = tmp_path / "own.csv", tmp_path / "fitted.toml"
    rows = "".join(f"{0.25 * i},{200 + 3 * i},{5 + i % 9}\n" for i in range(80))
    trace.write_text(f"arrival,input_tokens,output_tokens\n{rows}", "utf-8")
    asked = ["simulate", "serve", *(f"--{name}={value}" for name, value in SMALL.items())]
    for more in (["--workload", str(trace), "--write-workload", str(file)], ["--workload", str(file)]):
        with pytest.raises(SystemExit) as stop:
            main([*asked, *more, "--json"])
        assert stop.value.code == 0
        assert "percentiles" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main([*asked, "--arrivals", "poisson:2", "--write-workload", str(file)])
    assert stop.value.code == 2
    assert "add --workload FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("rates = '1 2'", "rates and stretch belong together"),
        ("rates = '0 0'\nstretch = '10 s'", "nor all 0"),
        ("rates = 'x y'\nstretch = '10 s'", "such as '0.5 1 1.5'"),
        ("continued_fraction = 0.5", "belong together"),
        ("input_by_stretch = '5; 6'\noutput_by_stretch = '5; 6'\ncorrelation_by_stretch = '0 0'", "belong together"),
        (PARTS.format("5; 6", "5"), "2, 1 and 2 parts"),
        (PARTS.format("5; x", "5; 6"), "input_by_stretch"),
    ],
)
def test_a_generator_that_lacks_a_part_is_refused(more: str, said: str) -> None:
    """One line."""
    with pytest.raises(InputError, match=said):
        stated_workload(tomllib.loads(f"input_tokens = 100\noutput_tokens = 5\n{more}"), "w.toml")


def test_few_requests_tell_nothing() -> None:
    """A trace that is too short, or arrives at once, has no generator."""
    for at in (np.arange(5.0), np.zeros(50)):
        with pytest.raises(InputError, match="at least 20 requests"):
            fit_workload(Trace(at, np.full(len(at), 9), np.full(len(at), 9)))
