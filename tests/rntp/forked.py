"""Jobs of two processes without a GPU, and runs that are killed: one process loads everything and forks the others.

    python forked.py FOLDER

What the processes of a job print is in FOLDER/JOB.txt. The launcher itself is tried by a run of the command.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from rntp.deferred import TRACKERS
from rntp.recipe import LoraSpec
from tests.rntp import gradients, killed, served, sharded


def _gradients(folder: Path) -> None:
    atexit.register(gradients.say_threads)  # before the trainer registers its own, so that it runs after it
    gradients.main(str(folder / "gradients"), str(folder / "gradients.npy"), "3")


#: Shared by two ranks, in the order of their running.
JOBS: dict[str, Callable[[Path], None]] = {
    "gradients": _gradients,
    "served": lambda folder: served.main(folder / "served"),
    "fsdp": lambda folder: sharded.run(folder / "fsdp", is_sharded=True),
    "ddp": lambda folder: sharded.run(folder / "ddp", is_sharded=False),
    "more": lambda folder: sharded.changed(folder / "more"),
    "ddp-lora": lambda folder: sharded.run(folder / "ddp-lora", is_sharded=False, lora=LoraSpec(rank=4)),
}


def _alone(folder: Path) -> None:
    """Killed in step 4, then while the checkpoint of step 4 is written, then left alone."""
    killed.run(folder / "killed", (3, -4, 0))


def _rank(number: int, folder: Path, job: str) -> None:
    """What the launcher would set, then the job."""
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
    }  # fmt: skip
    # a file in place of the launcher's port: no other process can take it
    torch.distributed.init_process_group("gloo", f"file://{folder / job}.group", rank=number, world_size=2)
    JOBS[job](folder)


def _forked(work: Callable[[], None], said: Path) -> int:
    """Process that does the work, writes what it prints to a file, and ends as the interpreter does."""
    if child := os.fork():
        return child
    with said.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    work()
    sys.exit()


def main(folder: Path) -> None:
    """Each job in turn."""
    torch.set_num_threads(1)
    gc.freeze()  # what is loaded stays: the trainer collects garbage after each run
    (folder / "loaded.txt").write_text(" ".join(set(TRACKERS) & set(sys.modules)))
    tasks = {job: [partial(_rank, number, folder, job) for number in range(2)] for job in JOBS}
    first, last = {"one": [partial(sharded.alone, folder / "one")]}, {"killed": [partial(_alone, folder)]}
    for job, works in {**first, **tasks, **last}.items():
        children = [_forked(work, folder / f"{job}.txt") for work in works]
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        (folder / f"{job}.ended").write_text(" ".join(map(str, ended)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
