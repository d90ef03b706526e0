"""One million requests through 64 replicas, how that grows, and how far skipping events departs from single steps.

    python benchmarks/simulate.py [--json] [--requests 1000000] [--kind serve|rl]

Prints requests per second of processor time after compilation, peak memory of the process, the time per request at a
tenth and a hundredth of the requests (n log n growth leaves it nearly level), the time of a curve of 10 loads, and the
largest relative error of throughput and of every percentile against the step-by-step fleet of
tests/simulation/reference.py on 200 random cases.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.simulation import compiled
from computeledger.simulation.engine import Engine, timed_pool
from computeledger.simulation.measures import Slo
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.simulation.rl.scenario import RLClockScenario, Rollouts, Trainer, WeightSync
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad, draw_trace
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.search import sweep_loads
from computeledger.simulation.state import Pool
from computeledger.units import KIB, MEGA
from computeledger.workloads.serving.estimate import ServingScenario
from tests.simulation.test_reference import compared

N_REPLICAS, N_CASES, N_LOADS = 64, 200, 10
#: Requests per second and replica: about 70 % of what a replica of this size carries.
RATE = 4.5


def replicas() -> Pool:
    """Llama-3.1-70B on eight H100 each."""
    question = ServingScenario(load_model("llama-3.1-70b"), parse_layout("tp8"), Precision(), 1024.0, 256.0, 1.0)
    machine = Machine(load_system("h100-nvl8"), efficiency())
    return timed_pool(question, machine, Engine(N_REPLICAS, contexts_tokens=(500.0, 8000.0))).pool


def serve_s(n: int, pool: Pool) -> float:
    """Seconds to serve n requests."""
    load = draw_trace(
        Arrivals("poisson", RATE * N_REPLICAS), ("lognormal:1000:4000", "lognormal:250:1000"), n, 0, 120_000
    )
    start = time.process_time()
    result = simulate_serving(ServingClock((pool,), (8,)), load)
    seconds = time.process_time() - start
    assert int(np.isfinite(result.world.when[:, 4]).sum()) == n
    return seconds


def rl_s(n: int, pool: Pool) -> float:
    """Seconds to generate, verify and train n rollouts."""
    rng, batch = np.random.default_rng(0), max(n // 64, 1)
    output = np.maximum(np.rint(np.exp(6.5 + 0.8 * rng.standard_normal(n))), 1).astype(int)
    drawn = Rollouts(np.full(n, 300), np.minimum(output, 60_000), rng.exponential(1.0, n), np.ones(n, bool))
    one = RLClockScenario(
        pool, 8.0, 8.0 * N_REPLICAS, Trainer(256.0, 5.0, 1e-6, 3e-6), False, n // batch, batch, 4, 1024,
        WeightSync(1.0),
    )  # fmt: skip
    start = time.process_time()
    simulate_rl(one, drawn)
    return time.process_time() - start


def curve_s(pool: Pool) -> float:
    """Seconds for a curve of loads of the whole fleet in steady state, the largest stable load included."""
    lengths = ("lognormal:1000:4000", "lognormal:250:1000")
    load = DrawnLoad(Arrivals("poisson", RATE * N_REPLICAS), lengths, 0, 120_000)
    start = time.process_time()
    points = sweep_loads(ServingClock((pool,), (8,)), load, Slo(), np.geomspace(0.25, 2.0, N_LOADS))
    assert len(points) == N_LOADS
    return time.process_time() - start


def largest_error() -> float:
    """Against the step-by-step fleet."""
    worst = 0.0
    for seed in range(N_CASES):
        worst = max(worst, *(abs(error) for error in compared(seed)[0].values()))
    return worst


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=("serve", "rl"), default="serve")
    options = parser.parse_args()
    run, pool, n = {"serve": serve_s, "rl": rl_s}[options.kind], replicas(), options.requests
    start = time.perf_counter()
    run(max(n // 100, compiled.COMPILE_EVENTS // 2), pool)  # compiles, or loads what was compiled before
    first_s = time.perf_counter() - start
    growth = {str(m): run(m, pool) / m for m in (n // 10, n // 3) if m * 5 > compiled.COMPILE_EVENTS}
    seconds = run(n, pool)
    result = {
        "requests_per_s": n / seconds,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * int(KIB),
        "max_relative_error": largest_error(),
        "seconds": seconds,
        "curve_s": curve_s(pool),
        "first_call_s": first_s,
        "seconds_per_request": {**growth, str(n): seconds / n},
        "compiled": compiled.can_compile(),
    }
    if options.json:
        print(json.dumps(result))
        return
    memory = f"{result['peak_memory_bytes'] / MEGA:.0f} MB"
    print(f"{n:,} requests on {N_REPLICAS} replicas in {seconds:.2f} s: {n / seconds:,.0f} requests/s, {memory}")
    print(f"curve of {N_LOADS} loads: {result['curve_s']:.2f} s")
    print(f"first call, compilation included, {first_s:.1f} s; largest error {result['max_relative_error']:.2%}")
    for size, each in {**growth, str(n): seconds / n}.items():
        print(f"{int(size):>10,} requests: {each * MEGA:.2f} us each")


if __name__ == "__main__":
    main()
