"""The simulator skips events and must not be seen to: a plain step-by-step fleet gives the same times."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.simulation.schedulers import SCHEDULERS
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Limits, Pool, plain_step_times
from tests.simulation import reference

TOLERANCE = 0.005


def as_pool(part: reference.Part) -> Pool:
    """The same replicas in the simulator's words."""
    batch = np.arange(part.live + 1.0)
    decode = np.where(batch > 0, part.decode[0] + part.decode[1] * batch, 0.0)
    chunks = np.array([1.0, 1000.0])
    reading = (chunks, part.read[0] + part.read[1] * chunks, np.full(2, part.read[2]))
    times = plain_step_times((decode, np.full(part.live + 1, part.decode[2])), reading, part.share)
    limits = Limits(part.live, part.kv, part.reserve, 0, part.chunk, part.ranks, 1, 0, *SCHEDULERS[part.scheduler])
    limits = limits._replace(share_permille=round(1000 * part.conservativeness), queue=part.line, long_tokens=part.long)
    return Pool(part.n_replicas, times, limits)


def as_scenario(case: reference.Case) -> tuple[ServingClock, Trace]:
    """The same problem in the simulator's words."""
    numbers: dict[int, int] = {}
    blocks = tuple(
        np.array([numbers.setdefault(block, len(numbers)) for block in one.blocks], np.int32) for one in case.sequences
    )
    arrival, prompt, output = (
        np.array([getattr(one, name) for one in case.sequences]) for name in ("arrival", "prompt", "output")
    )
    trace = Trace(arrival, prompt, output, blocks if case.block else None, case.block)
    pools = tuple(as_pool(part) for part in case.pools)
    once_s, per_token_s = case.handover
    fleet = ServingClock(
        pools,
        (1,) * len(pools),
        routing=case.routing,
        handover_s=once_s,
        handover_s_per_token=per_token_s,
        class_shares=case.shares,
    )
    return fleet, trace


def relative_errors(result: ServingClockResult, expected: dict[str, np.ndarray]) -> dict[str, float]:
    """Of throughput and of every percentile."""
    found = result.percentiles
    last_s = float(np.max(result.world.when[result.finished, 4]))
    errors = {"end_s": last_s / expected["end_s"][0] - 1}
    errors["n_served"] = float(np.sum(result.finished)) - expected["n_served"][0]
    for name in ("ttft_s", "tpot_s", "end_to_end_s", "itl_s"):
        for key, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            want = float(np.quantile(expected[name], share)) if len(expected[name]) else 0.0
            errors[f"{name}.{key}"] = found[name][key] / want - 1 if want else found[name][key]
    return errors


def compared(seed: int, most_requests: int = 40) -> tuple[dict[str, float], ServingClockResult]:
    """Errors of one random fleet."""
    case = reference.draw(seed, most_requests)
    result = simulate_serving(*as_scenario(case))
    return relative_errors(result, reference.run(case, result.run.draws, result.request_classes)), result


@pytest.mark.parametrize("block", range(4))
def test_two_hundred_random_cases(block: int) -> None:
    put_back = 0
    for seed in range(50 * block, 50 * block + 50):
        errors, result = compared(seed)
        worst = max(errors, key=lambda name: abs(errors[name]))
        assert abs(errors[worst]) <= TOLERANCE, (seed, worst, errors[worst])
        put_back += result.n_put_back
    assert put_back > 0, "no case was crowded: the cases test too little"


@pytest.mark.stress
def test_two_hundred_larger_fleets() -> None:
    for seed in range(1000, 1200):
        errors, _ = compared(seed, 400)
        worst = max(errors, key=lambda name: abs(errors[name]))
        assert abs(errors[worst]) <= TOLERANCE, (seed, worst, errors[worst])
