"""Published percentiles of serving: how runs are sent through the simulator, and how far its quantiles lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.state import Limits, Pool, StepTimes, constant_step_times
from computeledger.validation.compare import Comparison
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.tail_spread import TailFigure, fit_tails, held_left_out, spread_of_tails
from computeledger.validation.serving.tails import (
    BEYOND,
    NEEDED,
    SHIPPED,
    Sent,
    run_of_row,
    seen_by,
    sent_of,
    tail_figures,
)
from computeledger.validation.tables import compare_table
from computeledger.workloads.serving.tails import load_tails
from tests.validation.test_accuracy import told_by_any_column

#: Sources of which no figure was ever in a fit.
NEVER_FITTED = ("BLIS experiments (inference-sim)", "vLLM pull request 26887")


def _fleet(live: int) -> ServingClock:
    times: StepTimes = constant_step_times(live, 0.02, 0.3)
    return ServingClock((Pool(1, times, Limits(live, 10**7, 0, 0, 512)),))


def _clients(n: int, n_requests: int = 400) -> Sent:
    return Sent("clients", 0.0, n, n_requests, ("uniform:50:500", "exponential:40"))


@pytest.mark.parametrize("n", [1, 3, 16])
def test_clients_are_requests_that_arrive_when_an_answer_ends(n: int) -> None:
    found = seen_by(_fleet(n), _clients(n), 0, None)
    trace = replace(_clients(n).trace(0, None), arrival_s=found.sent_s)
    again = simulate_serving(_fleet(64), trace)
    np.testing.assert_allclose(again.times_s["ttft_s"], found.times_s["ttft_s"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.times_s["end_to_end_s"], found.times_s["end_to_end_s"], rtol=1e-9, atol=1e-9)


def test_clients_stay_in_flight() -> None:
    """Little's law: requests in flight are the rate times the time of each, but for the last ones."""
    for n in (2, 8):
        found = seen_by(_fleet(n), _clients(n, 2000), 0, None)
        whole_s = float(np.max(found.sent_s + found.times_s["end_to_end_s"]))
        assert float(np.sum(found.times_s["end_to_end_s"])) / whole_s == pytest.approx(n, rel=0.01)


def test_limits_of_a_load() -> None:
    burst = seen_by(_fleet(8), Sent("burst", 0.0, 0, 8, ("100", "20")), 0, None)
    many = seen_by(_fleet(8), Sent("clients", 0.0, 8, 8, ("100", "20")), 0, None)
    assert burst.quantile_s("ttft_s", 0.99) == many.quantile_s("ttft_s", 0.99), "as many clients as requests: a burst"
    alone = seen_by(_fleet(1), Sent("clients", 0.0, 1, 20, ("100", "20")), 0, None)
    seldom = seen_by(_fleet(8), Sent("even", 1e-3, 0, 20, ("100", "20")), 0, None)
    for share in (0.5, 0.99):
        assert seldom.quantile_s("end_to_end_s", share) == pytest.approx(alone.quantile_s("end_to_end_s", share))
    cached = replace(Sent("even", 1.0, 0, 3, ("1000", "2")), cached_fraction=0.9)
    assert cached.trace(0, None).input_tokens.tolist() == [100, 100, 100]


def test_what_a_row_does_not_tell_is_the_reason_to_leave_it_out() -> None:
    row = dict.fromkeys(NEEDED, "") | {"requests": "100", "input_lengths": "100", "output_lengths": "10"}
    for arrivals, reason in (("poisson", "rate"), ("clients", "not counted"), ("tides", "arrivals")):
        with pytest.raises(Unpredictable, match=reason):
            sent_of(row | {"arrivals": arrivals})
    with pytest.raises(Unpredictable, match="lengths"):
        sent_of(row | {"arrivals": "burst", "output_lengths": ""})


def test_settings_of_a_run_are_those_of_its_row() -> None:
    rows = curated_rows(SHIPPED)
    blis = run_of_row(next(row for row in rows if row["source"] == NEVER_FITTED[0]))
    assert blis.live == 128 and float(np.asarray(blis.case.scenario.settings.chunk_tokens)) == 2048
    burst = run_of_row(next(row for row in rows if row["arrivals"] == "burst" and row["engine"] == "vllm"))
    assert burst.live == 1024, "the release's own limit on sequences"
    ten = run_of_row(next(row for row in rows if row["source"] == "vLLM pull request 23151"))
    assert ten.live == 10, "no more than the clients hold"


@pytest.fixture(scope="module")
def asked() -> Comparison:
    return compare_table(SHIPPED, 64)


def test_the_table_is_told_by_any_of_its_columns() -> None:
    told_by_any_column(compare_table(SHIPPED, n_samples=8))


def _errors(found: Comparison, quantities: tuple[str, ...], **where: str | tuple[str, ...]) -> np.ndarray:
    out = []
    for name in quantities:
        for row, measured, cloud in zip(found.rows, found.measured[name], found.predicted[name], strict=True):
            if np.isfinite(measured) and all(row[key] in value for key, value in where.items()):
                out.append(abs(float(np.median(cloud)) / float(measured) - 1))
    return np.array(out)


def test_published_percentiles_are_met(asked: Comparison) -> None:
    assert not asked.skipped and len({row["source"] for row in asked.rows}) >= 8
    first = _errors(asked, ("ttft_p90", "ttft_p99"))
    assert len(first) >= 60 and np.median(first) <= 0.40
    assert np.median(_errors(asked, ("ttft_p90", "ttft_p99"), source=NEVER_FITTED)) <= 0.40
    assert np.median(_errors(asked, ("ttft_p90", "ttft_p95", "ttft_p99"), load=("rate", "clients"))) <= 0.35
    assert np.median(_errors(asked, ("tpot_p99",))) <= 0.30
    assert np.median(_errors(asked, ("request_latency_p90", "request_latency_p99"), source=NEVER_FITTED)) <= 0.20


def test_shipped_spreads_of_percentiles_are_those_of_the_fit_and_hold_what_they_promise(asked: Comparison) -> None:
    figures = tail_figures(curated_rows(SHIPPED))
    fitted = fit_tails(figures)
    shipped = {(load, name): one for load in ("steady", "burst") for name, one in load_tails(load).items()}
    assert fitted.keys() == shipped.keys()
    for key, one in fitted.items():
        known = shipped[key]
        assert (one.n, one.n_sources) == (known.n, known.n_sources)
        assert one.spread.low == pytest.approx(known.spread.low, rel=0.02), key
        assert one.spread.high == pytest.approx(known.spread.high, rel=0.02), key
        assert one.coverage_fraction == pytest.approx(known.coverage_fraction, abs=0.02), key
    for name in ("ttft_s", "tpot_s"):  # of p90, p95 and p99, every source left out in turn
        held = [
            held
            for load in ("steady", "burst")
            for held in held_left_out([one for one in figures if (one.load, one.quantity) == (load, name)])
        ]
        assert 0.82 <= np.mean(held) <= 0.97, name
    assert all(row["class"].endswith(BEYOND) == (row["statistic"] != "median") for row in asked.rows)


def test_the_fit_of_percentiles_holds_nine_of_ten_of_new_sources() -> None:
    rng = np.random.default_rng(3)
    figures = [
        TailFigure(
            f"source {source}", "steady", "ttft_s", "p99", float(np.exp(shared + own)), np.exp(-0.5), np.exp(0.5)
        )
        for source, shared in enumerate(rng.normal(0, 0.6, 60))
        for own in rng.normal(0, 0.3, 4)
    ]
    spread = spread_of_tails(figures)
    assert spread.high > 1.5 and spread.low < 0.7
    assert 0.85 <= np.mean(held_left_out(figures)) <= 0.95
    inside = [TailFigure(one.source, "steady", "ttft_s", "p99", 1.0, 0.5, 2.0) for one in figures]
    assert (spread_of_tails(inside).low, spread_of_tails(inside).high) == (1.0, 1.0), "never narrower than the class"
