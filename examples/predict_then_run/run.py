"""Predict prefill and decode times of a transformer from this machine's profile, then run it and compare.

The profile comes from micro-benchmarks (``computeledger calibrate``), whose shapes are none of those run here. Nothing
is fitted to what this script measures. On a CPU: two small models. On a GPU: a 7B shape with random weights, bf16 and
fp8.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from model import GROUPED, SEVEN_B, SMALL, Transformer, Weights

from computeledger.errors import InputError
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_system
from computeledger.interfaces.cli import main as computeledger
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision, total_s
from computeledger.physics.serving.operations import Step, forward, prefill

#: Rounds at least and at most; spread (median over least) or share of the time without the processor that disturbs.
ROUNDS, BUSY_FRACTION = (5, 40), 0.10


@dataclass(frozen=True)
class Point:
    """One shape to predict and to run: ``tokens`` of prompt, or of context for a decode step."""

    model: str
    precision: str
    phase: str
    batch: int
    tokens: int


def points(gpu: bool) -> list[Point]:
    """Shapes to run; none is one of the micro-benchmarks'. On a GPU, those whose cache fits beside the weights."""
    if gpu:
        per_token = 4 * SEVEN_B.n_layers * SEVEN_B.n_kv_heads * SEVEN_B.head_dim  # keys and values in bf16
        room = 0.8 * torch.cuda.mem_get_info()[0] - 16e9  # the weights in bf16
        return [
            Point("7b", precision, phase, batch, tokens)
            for precision in ("bf16", "fp8")
            for phase, pairs in {
                "prefill": [(1, 512), (1, 2048), (4, 2048), (1, 8192), (1, 32000), (8, 4096)],
                "decode": [(b, s) for b in (1, 4, 16, 64, 256) for s in (512, 2048, 8192, 32000)],
            }.items()
            for batch, tokens in pairs
            if batch * tokens * per_token <= room
        ]
    prompts = [(1, 16), (1, 32), (1, 64), (1, 128), (1, 256), (1, 512), (1, 900), (4, 32), (4, 128), (8, 64), (2, 320)]
    steps = [
        (1, 64),
        (1, 512),
        (1, 2000),
        (2, 256),
        (4, 64),
        (4, 700),
        (8, 128),
        (8, 1000),
        (16, 64),
        (16, 400),
        (32, 128),
    ]
    return [
        Point(model, "bf16", phase, batch, tokens)
        for model in ("small", "grouped")
        for phase, pairs in (("prefill", prompts), ("decode", steps))
        for batch, tokens in pairs
    ]


MODELS = {"small": SMALL, "grouped": GROUPED, "7b": SEVEN_B}


def predict_s(point: Point, machine: Machine) -> float:
    """Time of a step by the public operation model."""
    model = parse_config(MODELS[point.model].config(), point.model)
    precision = Precision(attention=point.precision, dense=point.precision)
    if point.phase == "decode":
        step = Step(float(point.batch), float(point.tokens), 1.0)
        return float(total_s(forward(model, step, Layout(), precision, machine)))
    step = Step(float(point.batch), 0.0, float(point.tokens), decode=False)
    return float(total_s(prefill(model, step, Layout(), precision, machine)))


def call_of(point: Point, weights: Weights, gpu: bool) -> Callable[[], object]:
    """Runs a step once; on a GPU a decode step replays a captured graph, as engines do."""
    shape = MODELS[point.model]
    new = 1 if point.phase == "decode" else point.tokens
    start = point.tokens if point.phase == "decode" else 0
    model = Transformer(shape, weights, point.batch, start + new)
    tokens = torch.randint(0, shape.vocab_size, (point.batch, new), device=weights.table.device)
    if not gpu or point.phase == "prefill":
        return lambda: model.forward(tokens, start).tolist()
    for _ in range(3):
        model.forward(tokens, start)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chosen = model.forward(tokens, start)

    def replay() -> object:
        graph.replay()
        return chosen.tolist()

    return replay


def groups(asked: list[Point]) -> Iterator[tuple[tuple[str, str], list[Point]]]:
    """Points that share weights."""
    for key in dict.fromkeys((one.model, one.precision) for one in asked):
        yield key, [one for one in asked if (one.model, one.precision) == key]


def run_all(asked: list[Point], budget_s: float, gpu: bool, threads: int) -> dict[Point, list[float]]:
    """Measure every point in interleaved rounds: processor time of one thread, else the clock's."""
    clock = time.process_time if threads == 1 and not gpu else time.perf_counter
    samples: dict[Point, list[float]] = {one: [] for one in asked}
    together = list(groups(asked))
    for (name, precision), here in together:
        weights = Weights(MODELS[name], "cuda" if gpu else "cpu", precision)
        begin = time.perf_counter()
        calls = {} if gpu else {one: call_of(one, weights, gpu) for one in here}
        for one in here if gpu else ():  # caches of 7B shapes do not fit beside one another
            samples[one] = timed(call_of(one, weights, gpu), clock, ROUNDS[0])
            gc.collect()
            torch.cuda.empty_cache()
        for number in range(ROUNDS[1] if calls else 0):
            for one, call in calls.items():
                samples[one] += timed(call, clock, 1, warm=number == 0)
            spent = time.perf_counter() - begin
            print(f"\r{name}: round {number + 1}, {spent:.0f} s ", end="", file=sys.stderr, flush=True)
            if spent > budget_s / len(together) and number + 1 >= ROUNDS[0]:
                break
        print(file=sys.stderr)
    return samples


def timed(call: Callable[[], object], clock: Callable[[], float], rounds: int, warm: bool = True) -> list[float]:
    """Times of so many calls, after one that does not count."""
    if warm:
        call()
    out = []
    for _ in range(rounds):
        begin = clock()
        call()
        out.append(clock() - begin)
    return out


def report(samples: dict[Point, list[float]], machine: Machine, waiting: float | None) -> dict[str, Any]:
    """Predicted against measured time of each point: the lower quartile, as the micro-benchmarks take it."""
    rows = []
    for one, times in samples.items():
        measured, predicted = statistics.quantiles(times, n=4)[0], predict_s(one, machine)
        spread = statistics.median(times) / min(times) - 1
        rows.append({**asdict(one), "predicted_s": predicted, "measured_s": measured, "error": predicted / measured - 1,
                     "spread_fraction": spread, "rounds": len(times)})  # fmt: skip
    spread = statistics.median(row["spread_fraction"] for row in rows)
    return {**errors(rows), "by": {phase: errors([row for row in rows if row["phase"] == phase])
                                   for phase in dict.fromkeys(row["phase"] for row in rows)},
            "spread_fraction": spread, "waiting_fraction": waiting,
            "busy": max(spread, waiting or 0.0) > BUSY_FRACTION, "points": rows}  # fmt: skip


def errors(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median, 90th percentile and bias of the errors."""
    sizes = sorted(abs(row["error"]) for row in rows)
    tenth = statistics.quantiles(sizes, n=10)[-1] if len(sizes) > 1 else sizes[0]
    bias = statistics.median(row["error"] for row in rows)
    return {"median_abs_error": statistics.median(sizes), "p90_abs_error": tenth, "bias": bias, "n": len(sizes)}


def profile_of(folder: str | None, options: argparse.Namespace, gpu: bool) -> Machine:
    """The machine as its profile describes it; measured now where no folder is given."""
    with tempfile.TemporaryDirectory() as made:
        if folder is None:
            folder = made
            asked = ["calibrate", "--backend", "torch", "--device", "cuda" if gpu else "cpu"]
            measured = [*asked, "--threads", str(options.threads), "--write", folder]
            if code := _quietly(measured):
                raise InputError(f"calibrate ended with {code}")
        place = Path(folder)
        return Machine(load_system(str(place / "system.toml")), efficiency(str(place / "profile.toml")))


def _quietly(arguments: list[str]) -> int:
    """Run a command of computeledger with its table on standard error: standard output is one document's."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            computeledger(arguments)
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


def main() -> None:
    """Predict, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", metavar="FOLDER", help="what calibrate --write made; measured now when left out")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for the rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    gpu = options.device == "cuda"
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    try:
        machine = profile_of(options.profile, options, gpu)
    except InputError as error:
        parser.error(str(error))
    begun = time.perf_counter(), time.process_time()
    samples = run_all(points(gpu), options.budget, gpu, options.threads)
    ran = (time.process_time() - begun[1]) / (time.perf_counter() - begun[0])
    found = report(samples, machine, None if gpu or options.threads > 1 else max(0.0, 1 - ran))
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for row in found["points"]:
        print(f"{row['model']:8} {row['precision']:5} {row['phase']:8} {row['batch']:4} x {row['tokens']:6}  predicted "
              f"{row['predicted_s'] * 1e3:9.2f} ms  measured {row['measured_s'] * 1e3:9.2f} ms  {row['error']:+7.1%}  "
              f"spread {row['spread_fraction']:.1%}")  # fmt: skip
    for name, one in {"all": found, **found["by"]}.items():
        print(f"{name:8} n {one['n']:3}  median error {one['median_abs_error']:.1%}  90th percentile "
              f"{one['p90_abs_error']:.1%}  bias {one['bias']:+.1%}")  # fmt: skip
    if found["busy"]:
        print(f"the machine was busy: spread {found['spread_fraction']:.0%}, the processor held by others "
              f"{found['waiting_fraction'] or 0:.0%} of the time; run again when it is idle")  # fmt: skip


if __name__ == "__main__":
    main()
