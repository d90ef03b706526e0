"""A run's ledger, reconciled, calibrates a plan: how far its GPU-time for the next run is from what that run took.

Run: ``python benchmarks/round_trip.py recipes/tiny_math/config.toml [--runs 4] [--steps 40]``, on a machine that does
nothing else: on a busy one the error is that of its other work. ``--processor-time`` keeps the books by the clock of
the process instead, which other work disturbs less. Each run is predicted from the one before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from computeledger.actuals.plan_calibration import calibrated, calibration_of
from computeledger.actuals.readers.all_tools import read_actuals
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.reconcile import settle_plan
from computeledger.actuals.sums import Actual, Sums
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import Plan, load_plan
from computeledger.units import GIGA, HOUR_S

PLAN = """
model = "{model}"
system = "host.toml"
price = "$1/h"
[pretraining]
tokens = "100K tokens"
utilization = "5%..40%"
[rl]
gpus = 1
tokens = "10K tokens"
prompts_per_step = 8
group_size = 8
rollout = "8 tokens"
prompt = "8 tokens"
sequence = "64 tokens"
[inference]
skip = "not served"
"""
#: The processor in the place of a GPU: only its peak enters, and a calibrated plan does not depend on it.
ACCELERATOR = """
like = "h100-sxm5-80gb"
id = "this-processor"
[peak_flop_per_s]
bf16 = {{ value = {peak}, unit = "GFLOP/s", source = "user", date = "2026-11-21", locator = "the run's own ledger" }}
"""
SYSTEM = 'like = "h100-nvl8"\nid = "this-host"\naccelerator = "processor.toml"\n'


#: The trainer's books with the clock of the process in place of the wall's.
BY_PROCESSOR = (
    "import sys, time; time.perf_counter = time.process_time; from rntp.interfaces.cli import main; main(sys.argv[1:])"
)


def actuals_of(ledger: Path) -> dict[str, Actual]:
    """Sums of a run's ledger."""
    sums = Sums()
    sums.add(read_actuals(ledger, Hints(), Tally()))
    return sums.actuals()


def plan_of(folder: Path, run: Path) -> Plan:
    """A plan on this processor for the model of a run."""
    first = json.loads((run / "ledger.jsonl").read_text().splitlines()[0])
    (folder / "processor.toml").write_text(ACCELERATOR.format(peak=first["peak_flop_per_s"] / GIGA))
    (folder / "host.toml").write_text(SYSTEM)
    (folder / "plan.toml").write_text(PLAN.format(model=run / "base" / "config.json"))
    return load_plan(folder / "plan.toml")


def predicted_s(plan: Plan, before: dict[str, Actual], tokens: dict[str, float]) -> dict[str, float]:
    """GPU-time of each phase at the next run's tokens, calibrated by the run before [s]."""
    next_plan = calibrated(plan, calibration_of(settle_plan(plan, before, {}), {}))
    sections = dict(next_plan.sections)
    for name, count in tokens.items():
        sections[name] = replace(sections[name], values={**sections[name].values, "tokens": count})
    phases = estimate_ledger(replace(next_plan, sections=sections), 256).phases
    return {name: float(np.median(phases[name].gpu_hours)) * HOUR_S for name in tokens}


def main() -> None:
    """Run the recipe again and again, and predict each run from the one before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--processor-time", action="store_true")
    given = parser.parse_args()
    errors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), None
        for index in range(given.runs):
            run = folder / str(index)
            options = [
                f"--set=output={run}",
                f"--set=rl.steps={given.steps}",
                f"--set=seed={index}",
                "--fresh",
                "--json",
            ]
            start = ["-c", BY_PROCESSOR] if given.processor_time else ["-m", "rntp"]
            command = [sys.executable, *start, "train", given.recipe, *options]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603 (our own trainer)
            took = actuals_of(run / "ledger.jsonl")
            if before is not None:
                guess = predicted_s(plan_of(folder, run), before, {phase: one.tokens for phase, one in took.items()})
                for phase, seconds in guess.items():
                    error = seconds / (took[phase].gpu_hours * HOUR_S) - 1
                    errors.setdefault(phase, []).append(error)
                    print(f"run {index}, {phase}: {error:+.1%}, load {os.getloadavg()[0]:.1f}", flush=True)
            before = took
    for phase, found in errors.items():
        print(f"{phase}: median {np.median(np.abs(found)):.1%} of {len(found)}, worst {max(map(abs, found)):.1%}")


if __name__ == "__main__":
    main()
