"""Throughput of the verifiers: programs in fresh and warm sandboxes beside a bare loop, mathematics, the attacks.

    python benchmarks/verify.py [--json] [--seconds 4] [--no-attacks]

Rates are of whole verifications; ``bare`` starts the same interpreter on the same program without any sandbox. The exit
status is 1 where an attack is not contained.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rntp.verify.bubblewrap import interpreter
from rntp.verify.engine import Engine
from rntp.verify.pool import LocalPool, Plan, stream
from rntp.verify.task import read_task
from tests.rntp.attack import ATTACKS, attempt, footprint, honest, outside

JOBS = (1, 2, 4, 8)
PROGRAM = "print(int(input()) ** 2)"
TASK = read_task({"id": "1", "domain": "code", "tests": [{"stdin": "12\n", "stdout": "144\n"}]})


def repeated(make: Callable[[], Callable[[], None]], jobs: int, seconds: float) -> list[float]:
    """Wall times of a call that some threads repeat, each with its own engine, for some seconds."""
    times: list[float] = []
    ready, begin = threading.Barrier(jobs), threading.Event()
    ends: list[float] = []

    def work() -> None:
        call = make()
        call()
        ready.wait()
        if not begin.is_set():
            ends.append(time.perf_counter() + seconds)
            begin.set()
        while (started := time.perf_counter()) < ends[0]:
            call()
            times.append(time.perf_counter() - started)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def bare() -> None:
    """The same program without a sandbox."""
    folder = interpreter()[0]
    line = [str(folder / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"), "-c", PROGRAM]
    done = subprocess.run(line, input=b"12\n", capture_output=True, check=True)  # noqa: S603 - our own line
    assert done.stdout == b"144\n"


def checking(isolation: str, engines: list[Engine]) -> Callable[[], Callable[[], None]]:
    """Makes an engine, and the call that checks the program with it."""

    def make() -> Callable[[], None]:
        engine = Engine(isolation)
        engines.append(engine)

        def call() -> None:
            made = engine.verify(TASK, PROGRAM)
            assert made.status == "correct", made

        return call

    return make


def rates(seconds: float) -> dict[str, dict[int, list[float]]]:
    """Wall times by way of running and number of jobs."""
    out: dict[str, dict[int, list[float]]] = {"bare": {}, "fresh": {}, "warm": {}}
    for jobs in JOBS:
        out["bare"][jobs] = repeated(lambda: bare, jobs, seconds)
        for isolation in ("fresh", "warm"):
            engines: list[Engine] = []
            out[isolation][jobs] = repeated(checking(isolation, engines), jobs, seconds)
            for engine in engines:
                engine.close()
    return out


def maths_per_s(seconds: float, *, short: bool) -> float:
    """Whole-number checks per second through two worker processes; the long way parses every one."""
    text = "So it is \\boxed{%d}." if short else "So it is $%d$."

    def items(count: int):
        for n in range(count):
            yield read_task({"id": str(n), "domain": "math", "answer": str(n % 100)}), text % (n % 100)

    with LocalPool(2) as pool:
        list(stream(items(64), pool))
        count, rate = 500, 0.0
        while True:
            started = time.perf_counter()
            records = list(stream(items(count), pool, Plan(in_hand=256)))
            taken = time.perf_counter() - started
            assert all(record.verdict.status == "correct" for record in records)
            rate = count / taken
            if taken > seconds / 2:
                return rate
            count *= 2


def attacks() -> tuple[int, int]:
    """How many attacks were contained, with an honest job after each, and how many there are."""
    contained, before = 0, footprint()
    with tempfile.TemporaryDirectory() as folder, outside(Path(folder)) as aim, Engine("fresh") as engine:
        for attack in ATTACKS:
            found = attempt(engine, attack, aim) or honest(engine)
            contained += not found
            if found:
                print(found, file=sys.stderr)
    assert footprint() == before
    return contained, len(ATTACKS)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--no-attacks", action="store_true")
    options = parser.parse_args()
    found = rates(options.seconds)
    per_s = {way: {jobs: len(times) / options.seconds for jobs, times in by.items()} for way, by in found.items()}
    contained, total = (None, len(ATTACKS)) if options.no_attacks else attacks()
    result = {
        "fresh_per_s": max(per_s["fresh"].values()),
        "fresh_p50_s": statistics.median(found["fresh"][2]),
        "warm_per_s": per_s["warm"][2],
        "bare_per_s": max(per_s["bare"].values()),
        "maths_per_s": maths_per_s(options.seconds, short=True),
        "maths_parsed_per_s": maths_per_s(options.seconds, short=False),
        "attacks_contained": contained,
        "attacks_total": total,
        "scaling": per_s,
        "load_1min": os.getloadavg()[0],
    }
    if options.json:
        print(json.dumps(result))
    else:
        show(found, result)
    sys.exit(contained not in (None, total))


def show(found: dict[str, dict[int, list[float]]], result: dict[str, Any]) -> None:
    """Print the figures for people."""
    per_s = result["scaling"]
    print(f"{'jobs':>6} {'bare/s':>8} {'fresh/s':>8} {'p50 ms':>8} {'warm/s':>8} {'p50 ms':>8}")
    for jobs in JOBS:
        mid = {way: 1000 * statistics.median(found[way][jobs]) for way in ("fresh", "warm")}
        fresh, warm = per_s["fresh"][jobs], per_s["warm"][jobs]
        print(
            f"{jobs:>6} {per_s['bare'][jobs]:>8.1f} {fresh:>8.1f} {mid['fresh']:>8.1f} {warm:>8.1f} {mid['warm']:>8.1f}"
        )
    print(f"whole numbers: {result['maths_per_s']:.0f}/s; parsed by math-verify: {result['maths_parsed_per_s']:.0f}/s")
    print(
        f"attacks contained: {result['attacks_contained']} of {result['attacks_total']}; load {result['load_1min']:.1f}"
    )


if __name__ == "__main__":
    main()
