"""A few steps of RL on random text by the package's own trainer: time, FLOP, memory of every phase, by its ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from computeledger.actuals.run_ledger import Entry
from computeledger.actuals.run_summary import summary
from rntp.gpu.device import MemoryLedger, measured_machine
from rntp.gpu.parts import MEMORY, MFU, Job, Row, Rows
from rntp.gpu.settings import RUNS, Settings, Shape
from rntp.machine import measure_next_token
from rntp.mixture import mixed_rows
from rntp.models import counted_by, make_tokenizer
from rntp.positions import Place
from rntp.recipe import CorpusSpec, ModelSpec, Recipe, RlSpec, ThoughtSpec
from rntp.run_folder import BASE, LEDGER, prepare
from rntp.trainer import Extras, RntpTrainer

#: Words of the tokenizer: the ids that a text has. What is sampled may be any of the model's.
_WORDS = 40
_FIRST = 6  # the special tokens stand before it
#: Steps of next-token training that are measured, behind one that warms up.
_REFERENCES = 3
TIME, FLOP, REFERENCE = "time per step", "FLOP per step", "next-token reference"
BETAS = ("beta_flop", "beta_gpu_time", "beta_gpu_time_busy")


class _InTime(TrainerCallback):
    """Ends training where another step and the reference behind it would not fit."""

    def __init__(self, job: Job) -> None:
        self._job, self._begun, self._longest = job, 0.0, 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_said: Any) -> None:  # noqa: ARG002 - transformers names them
        self._begun = self._job.deadline.left_s

    def on_step_end(self, args: Any, state: Any, control: Any, **_said: Any) -> None:  # noqa: ARG002 - transformers names them
        self._longest = max(self._longest, self._begun - self._job.deadline.left_s)
        if not self._job.deadline.allows(2 * self._longest):  # the reference is about one step more
            control.should_training_stop = True


def run_folder_of(output: Path, shape: Shape) -> Path:
    """Find the folder of a model's run.

    Parameters
    ----------
    output : Path
        Folder of the report.
    shape : Shape
        The model.

    Returns
    -------
    Path
        As ``rntp ledger`` reads it.

    Examples
    --------
    >>> str(run_folder_of(Path("gpu"), Shape("a/b", "tiny", 1)))
    'gpu/rntp/tiny'
    """
    return output / RUNS / shape.name


def _recipe(settings: Settings, folder: Path, name: str, *, is_cuda: bool) -> Recipe:
    sizes = settings.rollouts
    rl = RlSpec(
        steps=sizes.steps, prompts_per_step=sizes.prompts, group_size=sizes.group, micro_batch=sizes.micro_batch,
        learning_rate=1e-6, save_steps=0, device="cuda" if is_cuda else "cpu", precision="bfloat16",
    )  # fmt: skip
    return Recipe(
        name=name, output=str(folder), folder=folder, model=ModelSpec(path=BASE), rl=rl,
        corpus=CorpusSpec(source=("random tokens",)),
        thought=ThoughtSpec(budget=sizes.thought, truncation="keep"),
    )  # fmt: skip


def _places(settings: Settings) -> list[Place]:
    sizes, chance = settings.rollouts, np.random.default_rng(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(chance.integers(_FIRST, _WORDS, length).tolist())

    return [Place(ids(sizes.context), ids(sizes.gold), f"{n}", sizes.context) for n in range(sizes.prompts)]


def learning_rows(job: Job, shape: Shape) -> Rows:
    """Train a few steps, and give what each phase took.

    Parameters
    ----------
    job : Job
        The device, the sizes, and the end of the time.
    shape : Shape
        The model.

    Yields
    ------
    Row
        Seconds per step, MFU and peak memory of each phase, and beta.
    """
    folder, device, sizes = run_folder_of(job.output, shape), job.device, job.settings.rollouts
    recipe = _recipe(job.settings, folder, shape.name, is_cuda=device.is_cuda)
    prepare(folder, recipe, fresh=True)
    model = device.model(shape.folder(job.output), torch.float32)
    (folder / BASE).mkdir(exist_ok=True)
    model.config.save_pretrained(folder / BASE)
    words = " ".join(f"w{number}" for number in range(_WORDS))
    tokenizer = make_tokenizer(ModelSpec(tokenizer="word", vocabulary=_WORDS + _FIRST), recipe.thought, [words])
    rows = mixed_rows(_places(job.settings), {}, {"text": 1.0}, sizes.steps * sizes.prompts)
    machine = measured_machine(device.device, job.output)
    books = MemoryLedger(
        folder / LEDGER, counted_by(model, shape.name), machine, run=shape.name, peak=device.peak_bytes
    )
    with contextlib.closing(books):
        trainer = RntpTrainer(model, tokenizer, rows, recipe, books, Extras(callbacks=[_InTime(job)]))
        trainer.args.save_strategy = "no"
        trainer.train()
        tokens = sizes.context + sizes.thought + 2 + sizes.gold
        ids = device.tokens(_WORDS, sizes.micro_batch, tokens)
        measure_next_token(books, trainer.model, ids, repeats=_REFERENCES)
        books.summary()  # writes what is open
    yield from _rows_of(shape.name, books.entries, sizes.steps)


def _rows_of(name: str, entries: list[Entry], wanted: int) -> Iterator[Row]:
    """Figures of the steps behind the first, which loads and compiles kernels."""
    done = len({entry.step for entry in entries if entry.phase == "update"})
    kept = [entry for entry in entries if entry.step] if done > 1 else entries
    steps = max(done - 1, 1)
    found = summary(kept, "rl")
    for phase, part in found["phases"].items():
        mine = [entry for entry in kept if entry.phase == phase]
        if phase == REFERENCE:  # those without tokens warm up
            mine = [entry for entry in mine if entry.tokens_by_kind]
        count = len(mine) if phase == REFERENCE else steps
        at: dict[str, float | str] = {"phase": phase, "steps": count}
        yield Row("rntp", name, TIME, sum(entry.device_s for entry in mine) / count, "s", at)
        if part["flop"] is not None:
            yield Row("rntp", name, FLOP, part["flop"] / count, "FLOP", at)
        work = [(entry.flop, (entry.peak_flop_per_s or 0.0) * entry.device_s) for entry in mine]
        possible = sum(most for _, most in work)
        if part["flop"] is not None and possible:
            yield Row("rntp", name, MFU, sum(flop or 0.0 for flop, _ in work) / possible, "", at)
        peaks = [entry.peak_memory_bytes for entry in mine if entry.peak_memory_bytes is not None]
        if peaks:
            yield Row("rntp", name, MEMORY, max(peaks), "B", at)
        joules = [entry.energy_j for entry in mine if entry.energy_j is not None]
        if joules:
            yield Row("rntp", name, "energy per step", sum(joules) / count, "J", at)
    for quantity in BETAS:
        if found[quantity] is not None:
            yield Row("rntp", name, quantity, found[quantity], "", {"steps": steps})
    if done < wanted:
        yield Row("rntp", name, note=f"left out for lack of time: the last {wanted - done} of {wanted} steps")
