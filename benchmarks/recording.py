"""What writing a run ledger costs a step: processor time of the callback, of a loop's own phases, of a metrics logger.

The callback's events are driven by hand around a small model, so that only what it adds is timed: a step of eight
microbatches with a Trainer's phases. Prints milliseconds of processor time a step, the least of rounds: other work only
adds to it.

    python benchmarks/recording.py [--json] [--steps 200] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import torch
from transformers import Qwen3Config

import computeledger as cl
from computeledger.actuals.run_ledger import read_ledger
from computeledger.units import KILO

MICROBATCHES, SEQUENCES, WIDTH = 8, 16, 512


class Watched(torch.nn.Module):
    """A model that computes next to nothing, with the configuration of one that would."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = Qwen3Config()

    def forward(self, **_: torch.Tensor) -> torch.Tensor:
        """Nothing."""
        return self.weight


def callback_s(path: Path, steps: int) -> float:
    """Processor time of the callback's events and of its hook, without that of the bare passes [s]."""
    model = Watched()
    ids = torch.zeros(SEQUENCES, WIDTH, dtype=torch.long)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}

    def passes() -> None:
        for _ in range(MICROBATCHES):
            model(**batch)

    begun = time.process_time()
    for _ in range(steps):
        passes()
    bare = (time.process_time() - begun) / steps
    args, state = SimpleNamespace(world_size=1), SimpleNamespace(is_world_process_zero=True, global_step=0)
    state.num_input_tokens_seen = 0
    callback = cl.trainer_callback(path)
    callback.on_train_begin(args, state, None, model=model)
    begun = time.process_time()
    for step in range(steps):
        callback.on_step_begin(args, state, None)
        passes()
        callback.on_pre_optimizer_step(args, state, None)
        state.global_step = step + 1
        callback.on_step_end(args, state, None)
    taken = time.process_time() - begun
    callback.on_train_end(args, state, None)
    return taken / steps - bare


def phases_s(path: Path, steps: int) -> float:
    """Processor time of five phases of a loop of one's own, their work counted [s]."""
    with cl.RunLedger(path, cl.load_model("Qwen/Qwen3-8B"), by_step=True) as ledger:
        begun = time.process_time()
        for step in range(steps):
            for name in ("generation", "verification", "log-probs", "update", "weight sync"):
                with ledger.phase(name, step) as counted:
                    if name == "update":
                        counted.update(WIDTH, WIDTH)
        return (time.process_time() - begun) / steps


def logger_s(path: Path, steps: int) -> float:
    """Processor time of the metrics of one step of verl, their work counted [s]."""
    metrics = {
        "timing_s/step": 100.0,
        "timing_s/gen": 60.0,
        "timing_s/update_actor": 30.0,
        "perf/total_num_tokens": 5e6,
    }
    metrics |= {"prompt_length/mean": 200.0, "response_length/mean": 800.0}
    with cl.FrameworkLogger(path, "verl", devices=16, model=cl.load_model("Qwen/Qwen3-8B")) as logger:
        begun = time.process_time()
        for step in range(steps):
            logger.log(metrics, step)
        return (time.process_time() - begun) / steps


def main() -> None:
    """Time all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    kinds: dict[str, Callable[[Path, int], float]] = {
        "callback": callback_s, "five phases": phases_s, "metrics": logger_s,
    }  # fmt: skip
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in kinds.items():
            paths = [Path(folder, f"{name} {number}.jsonl") for number in range(options.rounds)]
            found[f"{name}_ms"] = min(measure(path, options.steps) for path in paths) * KILO
            assert {one.step for one in read_ledger(paths[0]).entries} >= set(range(1, options.steps))
    print(json.dumps(found) if options.json else "\n".join(f"{name} {value:.3f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
