"""Classes of requests and lines with an end, against queues with known answers and through a command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from computeledger.interfaces.cli import main
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Limits, Pool, constant_step_times
from tests.commands import call

#: Requests, tokens of one on average, of a step each [s], and the share of time that one place is taken.
N, TOKENS, STEP_S, BUSY = 20_000, 200.0, 1.0, 0.8


def one_place(queue: int = 0, shares: tuple[float, ...] = ()) -> ServingClockResult:
    """A single place with exponential service under Poisson arrivals; prompts take no time."""
    rng = np.random.default_rng(1)
    output = np.maximum(np.rint(rng.exponential(TOKENS, N)), 1).astype(int)
    arrival = np.cumsum(rng.exponential(TOKENS * STEP_S / BUSY, N))
    limits = Limits(1, 10**6, 0, 0, 100, queue=queue)
    fleet = ServingClock((Pool(1, constant_step_times(1, STEP_S, 0.0), limits),), class_shares=shares)
    return simulate_serving(fleet, Trace(arrival, np.ones(N, int), output))


def test_urgent_requests_wait_as_in_a_queue_with_priorities() -> None:
    """Cobham (1954): the wait of a class is W0 over what the classes up to it, and before it, leave free."""
    shares = (0.25, 0.75)
    result = one_place(shares=shares)
    waits = (result.world.when[:, 1] - result.trace.arrival_s, result.request_classes)
    in_service_s, before = BUSY * TOKENS * STEP_S, 1.0
    for rank, share in enumerate(shares):
        after = before - BUSY * share
        expected_s = in_service_s / (before * after)
        assert float(waits[0][waits[1] == rank].mean()) == pytest.approx(expected_s, rel=0.1), rank
        before = after


@pytest.mark.parametrize("queue", [1, 4])
def test_a_full_line_turns_away_as_many_as_a_queue_of_that_length(queue: int) -> None:
    """M/M/1/K, with one in service."""
    result, most = one_place(queue=queue), queue + 1
    lost = (1 - BUSY) * BUSY**most / (1 - BUSY ** (most + 1))
    assert 1 - result.served_fraction == pytest.approx(lost, rel=0.1)
    assert np.isfinite(result.times_s["ttft_s"]).sum() == np.sum(result.finished) == N - result.rejected.sum()


ASKED = "simulate serve --model llama-3.1-8b --system h100-nvl8 --layout tp1"


def test_a_command_says_how_each_class_fares(tmp_path: Path) -> None:
    crowded = f"{ASKED} --max-batch 16 --requests 500 --arrivals poisson:40 --queue-limit 8 --json"
    answer = call(main, [*crowded.split(), "--priority", "chat:30%:1s", "--priority", "batch:70%"], tmp_path)
    document = json.loads(answer.stdout)
    chat, batch = document["classes"]
    assert chat["ttft_s"]["p95"] < batch["ttft_s"]["p50"]
    assert document["rejected"] == chat["rejected"] + batch["rejected"] > 0
    assert document["goodput_requests_per_s"] == pytest.approx(document["throughput"]["requests_per_s"])


@pytest.mark.parametrize("given", ["chat", "chat:0", "chat:50%", "a:50% b:20%", "a:50% a:50%"])
def test_bad_classes_are_one_line(given: str, tmp_path: Path) -> None:
    options = [part for one in given.split() for part in ("--priority", one)]
    answer = call(main, [*ASKED.split(), "--arrivals", "poisson:1", *options], tmp_path)
    assert answer.returncode == 2 and "--priority" in answer.stderr
