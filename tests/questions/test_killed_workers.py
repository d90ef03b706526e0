"""A worker of a cluster killed in the middle of each kind of job: the answer of one process, none lost or doubled."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl

ROOT = Path(__file__).resolve().parents[2]
OFFERS = Path(__file__).resolve().parents[1] / "interfaces" / "few_offers.toml"
#: The gathered measurements, beside the project.
DATA = ROOT.parent / "shared" / "data"
#: What a job says of its own run, and no other.
_OF_THE_RUN = ("wall_s", "options_per_s", "executor")

JOBS: dict[str, Callable[..., Any]] = {
    "sweep": lambda **on: cl.sweep(model="llama-3.1-8b", system=("h100-nvl8", "h200-nvl8", "a100-nvl8"), gpus=8,
                                   input_tokens=(512, 1024, 2048, 4096), **on),
    "compare": lambda **on: cl.compare(OFFERS, **on),
    "simulate serve": lambda **on: cl.simulate_serve(
        model="llama-3.1-8b", system="h100-nvl8", layout="tp1", arrivals="poisson:8", requests=400, find_load=True,
        tpot="30ms", ttft="2s", **on),
    "fit": lambda **on: cl.fit(what="neighbours", data=str(DATA), **on),
    "forecast": lambda **on: cl.forecast(flop="1e28", samples=300_000, **on),
    "simulate rl": lambda **on: cl.simulate_rl(ROOT / "examples" / "rl-async.toml", steps=2, lags=(0, 1), **on),
}  # fmt: skip
_IN_SUITE = ("sweep",)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two processes that are started again when they die."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as local:
        yield local


def kill_one_at_work(cluster: Any, killed: list[int], done: threading.Event) -> None:
    """Kill the first worker that is seen to compute."""
    while not done.is_set() and not killed:
        for worker in cluster.scheduler.workers.values():
            if worker.processing:
                pid = next(one.pid for one in cluster.workers.values() if one.worker_address == worker.address)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
        time.sleep(0.005)


@pytest.mark.filterwarnings("ignore")  # a cluster's own warnings about ports and lost workers are not ours
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.stress] * (one not in _IN_SUITE)) for one in JOBS]
)
def test_a_worker_killed_in_the_middle_changes_nothing(name: str, cluster: Any) -> None:
    if name == "fit" and not DATA.exists():
        pytest.skip("the gathered figures lie beside the project")
    alone = JOBS[name]().to_dict()
    killed: list[int] = []
    done = threading.Event()
    killer = threading.Thread(target=kill_one_at_work, args=(cluster, killed, done))
    killer.start()
    try:
        spread = JOBS[name](cluster=cluster.scheduler_address).to_dict()
    finally:
        done.set()
        killer.join()
    assert len(killed) == 1
    assert {key: one for key, one in spread.items() if key not in _OF_THE_RUN} == {
        key: one for key, one in alone.items() if key not in _OF_THE_RUN
    }
