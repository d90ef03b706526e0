"""One million operation-level decode evaluations of DeepSeek-V3 on one core.

Batch, context and layout (TP, attention-DP, EP, PP) all vary; the call is the one that a single answer uses. Prints
evaluations per second, peak memory of the process and a checksum of the step times.

    python benchmarks/sweep.py [--json] [--evaluations 1000000]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

from computeledger.arrays import blocks
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout, serving_layouts
from computeledger.physics.roofline import Machine, Precision, total_s
from computeledger.physics.serving.operations import Step, forward
from computeledger.units import KIB, MEGA


def sweep(n: int) -> tuple[float, float]:
    """Seconds and checksum of n decode evaluations."""
    model, system = load_model("deepseek-v3"), load_system("gb200-nvl72")
    machine, precision = Machine(system, efficiency()), Precision("fp8", "fp8", "fp8")
    layouts = serving_layouts(model, 64, 72)
    rng = np.random.default_rng(0)
    degrees = np.array([[one.tp, one.pp, one.dp, one.ep] for one in layouts], float)
    columns = degrees[rng.integers(len(layouts), size=n)].T
    batch, context = rng.integers(1, 4096, n).astype(float), rng.integers(256, 131072, n).astype(float)
    checksum, start = 0.0, time.perf_counter()
    for piece in blocks(n):
        tp, pp, dp, ep = (np.ascontiguousarray(column[piece]) for column in columns)
        layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
        step_s = total_s(forward(model, Step(batch[piece], context[piece]), layout, precision, machine))
        checksum += float(np.sum(step_s))
    return time.perf_counter() - start, checksum


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    options = parser.parse_args()
    sweep(min(20_000, options.evaluations))
    seconds, checksum = sweep(options.evaluations)
    result = {
        "evaluations_per_s": options.evaluations / seconds,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * int(KIB),
        "checksum": checksum,
    }
    if options.json:
        print(json.dumps(result))
    else:
        memory = f"{result['peak_memory_bytes'] / MEGA:.0f} MB"
        print(f"{result['evaluations_per_s']:,.0f} evaluations/s, {memory}, checksum {checksum:.6f} s")


if __name__ == "__main__":
    main()
