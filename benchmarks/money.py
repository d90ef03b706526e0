"""An allocation over three ledgers, and the search of every cascade of eight models.

Prints the median seconds of an allocation with given RL, of one that seeks RL's share too, and of 28,064 policies:
depth 3, up to four tries, verifier errors in both directions.

    python benchmarks/money.py [--json] [--repeats 15]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from computeledger.economics.routing.model import RouteModel, RouteTask, Verifier, evaluate_policies
from computeledger.economics.scaling.allocation import AllocationScenario, PhaseCosts, RLGain, allocate, phase_gpu_hours
from computeledger.economics.scaling.laws import load_loss_law


def median_s(call: Callable[[], object], repeats: int) -> float:
    """Median seconds of a call."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    """Time all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    law, hours = load_loss_law("besiroglu_2024"), phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.13, 0.13))
    given = AllocationScenario(law, 3e6, hours, hours, 1e14, 1e13)
    sought = AllocationScenario(law, 3e6, hours, hours, 1e14, rl_gain=RLGain(0.1, 1e24))
    models = tuple(RouteModel(f"m{i}", 0.3 + 0.07 * i, 0.01 * 3**i, 0.016 * 3**i, 5, 9) for i in range(8))
    task = RouteTask(models, Verifier(0.01, 1.0, 0.1, 0.05), max_tries=4, max_depth=3)
    found = {
        "allocate_s": median_s(lambda: allocate(given), options.repeats),
        "allocate_with_rl_share_s": median_s(lambda: allocate(sought), options.repeats),
        "route_8_models_s": median_s(lambda: evaluate_policies(task), max(options.repeats // 3, 1)),
        "policies": len(evaluate_policies(task).policies),
    }
    print(json.dumps(found) if options.json else "\n".join(f"{name} {value:.4g}" for name, value in found.items()))


if __name__ == "__main__":
    main()
