"""The full layout search of DeepSeek-V3 on 2,048 GPUs on one core, and how many configurations it times per second.

Every legal layout, microbatch, recompute mode and pipeline schedule, through the call that ``pretrain`` uses. The rate
is measured over many global batches, in processor time, so that a busy machine does not count.

    python benchmarks/training_search.py [--json] [--rounds 40]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.physics.training.batch import Batch
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.pipeline import SCHEDULES
from computeledger.workloads.pretraining.search import evaluate

N_GPUS = 2048


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    start = time.perf_counter()
    model, machine = load_model("deepseek-v3"), Machine(load_system("h800-nvl8"), training=training_efficiency())
    batch = Batch(4096.0, 15360.0)
    scenario = PretrainingScenario(model, Layout(), parse_precision("fp8", moe=True), batch)
    limits = Limits(n_scale_up=8, schedules=SCHEDULES)
    every = candidates(scenario, N_GPUS, limits)
    best = evaluate(scenario, every, machine).best(1)[0]
    whole_s = time.perf_counter() - start
    count, spent, checksum = 0, 0.0, 0.0
    for turn in range(options.rounds):
        one = replace(scenario, batch=replace(batch, global_sequences=7680.0 * (1 + turn % 8)))
        tried = candidates(one, N_GPUS, limits)
        start = time.process_time()
        swept = evaluate(one, tried, machine)
        spent += time.process_time() - start
        count += tried.size
        checksum += float(swept.step_s.sum())
    result = {
        "search_s": whole_s,
        "n_configurations": every.size,
        "best": str(best.layout),
        "configurations_per_s": count / spent,
        "checksum": checksum,
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(f"search of {every.size:,} configurations, facts loaded: {whole_s:.2f} s, best {best.layout}")
        print(f"{count / spent:,.0f} configurations/s over {count:,}, checksum {checksum:.6g} s")


if __name__ == "__main__":
    main()
