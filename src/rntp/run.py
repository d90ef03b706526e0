"""A recipe carried out: a model loaded or pretrained, places chosen, RL, and what it took.

Whatever ends a run, the same recipe goes on from what is in its folder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback, TrainerCallback

from computeledger.actuals.recording.run import RunLedger
from computeledger.errors import InputError
from rntp.adapter import check_lora
from rntp.arguments import process_state
from rntp.base_model import base_tokenizer, make_base
from rntp.checkpoints import last_checkpoint
from rntp.device_time import SPENT, DeviceTime, clock_of
from rntp.errors import TrainingError
from rntp.evaluate import evaluate, places_of
from rntp.machine import measure_next_token, this_machine
from rntp.memory import check_memory
from rntp.mixture import Rows
from rntp.models import counted_by, load_model
from rntp.positions import Place
from rntp.preflight import check_names, check_recipe, check_tokens
from rntp.recipe import Recipe
from rntp.rows import choose_rows, next_token_documents, selection
from rntp.run_folder import (
    BASE,
    EMA,
    FINAL,
    LEDGER,
    METRICS,
    SUMMARY,
    check,
    finished,
    lengthen,
    prepare,
    read_metrics,
    trim_metrics,
    write_json,
)
from rntp.sampling import Sampling
from rntp.trackers import tracking
from rntp.trainer import Extras, RntpTrainer

#: Told the stage, its step, its steps, and figures of the step.
Report = Callable[[str, int, int, Mapping[str, float]], None]
PRETRAINING, LEARNING = "pretraining", "RL"
#: Figures of a step that the summary gives for the first and the last tenth, and those that it gives by source.
_SHOWN = ("gain", "reward", "reward_std", "thought/tokens", "thought/truncated_fraction", "answer/tokens", "loss")
_BY_SOURCE = ("reward/", "audit/", "no_verdict_fraction/")
#: One step of plain training is measured for so many of RL's, and at least so many in a run: beta rests on them, and at
#: half a step of RL each they are 2.5 % of it.
_STEPS_PER_REFERENCE, _LEAST_REFERENCES = 20, 3


def _silent(_stage: str, _step: int, _steps: int, _figures: Mapping[str, float]) -> None:
    """Say nothing."""


def run(recipe: Recipe, *, fresh: bool = False, longer: bool = False, report: Report = _silent) -> dict[str, Any]:
    """Carry a recipe out, or go on with it; where asked, also with a run of fewer steps or less device-time.

    Examples
    --------
    >>> run(Recipe(output="docs"))
    Traceback (most recent call last):
    computeledger.errors.InputError: output 'docs': holds other files and no run; choose another folder
    """
    folder = Path(recipe.output)
    try:
        if longer and not fresh:
            lengthen(folder, recipe)
        check(folder, recipe, fresh=fresh)
    except InputError:
        check_names(recipe)  # a name that is wrong is why the recipe is another one
        raise
    before = finished(folder)
    if before is not None and not fresh:
        return before
    state = process_state(recipe)
    if recipe.rl.device == "cuda" and state.device.type != "cuda":
        raise InputError("[rl] device 'cuda': no such device is here; 'auto' takes what there is")
    check_recipe(recipe, state.num_processes)
    try:
        if state.is_main_process:
            prepare(folder, recipe, fresh=fresh)
        state.wait_for_everyone()
        return _carry_out(recipe, folder, state, report)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        last = last_checkpoint(folder)
        kept = f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"
        raise TrainingError(f"{error.filename or folder}: no room left on the disk; {kept}") from None


def _carry_out(recipe: Recipe, folder: Path, state: PartialState, report: Report) -> dict[str, Any]:
    precision = "bf16" if recipe.rl.precision == "bfloat16" else "fp32"
    machine = this_machine(state.device, state.num_processes, precision)
    base = recipe.folder / recipe.model.path if recipe.model.path else folder / BASE
    if not recipe.model.path:
        steps = recipe.pretrain.steps if recipe.pretrain else 0
        if state.is_main_process:
            made = base_tokenizer(recipe, folder)
            check_tokens(recipe, made, recipe.model.context_tokens)
            check_memory(recipe, made, state.device, state.num_processes)
            make_base(recipe, folder, machine, state.device, lambda step, said: report(PRETRAINING, step, steps, said))
        state.wait_for_everyone()
    else:
        check_memory(recipe, None, state.device, state.num_processes)
    model, tokenizer = load_model(base, recipe.thought)
    check_tokens(recipe, tokenizer, getattr(model.config, "max_position_embeddings", None) or math.inf)
    check_lora(recipe.lora, model)
    # where weights are sharded, a device holds the whole model only while a rule asks it
    is_sharded, asks = os.environ.get("ACCELERATE_USE_FSDP", "") == "true", bool(recipe.positions.measured)
    model.to(state.device if asks or not is_sharded else "cpu").eval()
    counted = counted_by(model, recipe.name)
    books = RunLedger(folder / LEDGER if state.is_main_process else None, counted, machine, run=recipe.name)
    with contextlib.closing(books):
        with books.phase("evaluation"):  # chosen before anything is trained: none may be there
            held_out = _held_out_places(recipe, model, tokenizer)
        rows = choose_rows(recipe, model, tokenizer, selection(recipe, model, tokenizer, books))
        if is_sharded:
            model.to("cpu")
        spent = DeviceTime(recipe.rl.device_s, clock_of(state.device.type))
        reference = _Reference(recipe, rows, books, spent)
        told = _Told(recipe, folder, report, spent)
        trainer = _train(recipe, model, tokenizer, rows, books, (spent, told, reference))
        if not reference.is_measured:  # the last checkpoint was behind the last place of one
            reference.measure(trainer.model, trainer.args, trainer.state.log_history)
        with books.phase("checkpoint"):
            trainer.save_final(folder / FINAL, folder / EMA)
        with books.phase("evaluation"):
            # a model that is sharded is evaluated from its checkpoint, by rntp evaluate
            places = [] if trainer.is_fsdp_enabled else held_out
            found = _held_out(recipe, trainer.model, tokenizer, base, places)
        summary = {**_summary(recipe, folder, books), "held_out": found}
    if state.is_main_process:
        write_json(folder / SUMMARY, summary)
    return summary


class _Told(TrainerCallback):
    """Passes the figures of every step on, and keeps them in the run's folder."""

    def __init__(self, recipe: Recipe, folder: Path, report: Report, spent: DeviceTime) -> None:
        self._steps, self._path, self._report = recipe.rl.steps, folder / METRICS, report
        self._folder, self._spent = folder, spent if recipe.rl.device_s else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **said: Any) -> None:  # noqa: ARG002 - transformers names them
        if self._spent is not None:  # what earlier attempts spent on the steps that are kept
            before = (row[SPENT] for row in reversed(read_metrics(self._folder, state.global_step)) if SPENT in row)
            self._spent.spent_s = next(before, 0.0)

    def on_log(self, args: Any, state: Any, control: Any, **said: Any) -> None:  # noqa: ARG002 - transformers names them
        figures = {name: float(value) for name, value in said["logs"].items() if isinstance(value, int | float)}
        if not state.is_world_process_zero or "loss" not in figures:
            return
        if self._spent is not None:
            figures[SPENT] = self._spent.spent_s
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'step': state.global_step, **figures})}\n")
        self._report(LEARNING, state.global_step, self._steps, figures)


class _Reference(TrainerCallback):
    """Measures a step of next-token training between some steps of RL, spread evenly over the run.

    What else the machine does then slows both alike, and how far the measurements differ says how sure beta is.
    """

    def __init__(self, recipe: Recipe, rows: Rows, books: RunLedger, spent: DeviceTime) -> None:
        self._recipe, self._books, self._spent = recipe, books, spent
        first = rows[: recipe.rl.prompts_per_step]
        self._length = round(sum(len(row["context_ids"]) + len(row["gold_ids"]) for row in first) / len(first))
        steps = recipe.rl.steps
        count = max(_LEAST_REFERENCES, steps // _STEPS_PER_REFERENCE)
        self._places = {math.ceil((place + 0.5) * steps / count) for place in range(count)}
        self.is_measured = False

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_said: Any) -> None:  # noqa: ARG002 - transformers names them
        if state.global_step in self._places:
            self.measure(model, args, state.log_history)

    def measure(self, model: Any, args: Any, logged: Sequence[Mapping[str, float]]) -> None:
        """Measure one step; the first of a process is preceded by one that warms up."""
        said = [row["completion/tokens"] for row in logged if "completion/tokens" in row]
        sampled = round(said[-1]) if said else self._recipe.thought.budget
        # episodes give their own contexts, which no row has
        sampled += round(next((row["context/tokens"] for row in reversed(logged) if "context/tokens" in row), 0.0))
        ids = self._ids(sampled, model.config.vocab_size, args.world_size).to(args.device)
        with self._spent.beside():
            measure_next_token(self._books, model, ids, repeats=1, warm_up=not self.is_measured)
        self.is_measured = True

    def _ids(self, sampled: int, vocabulary: int, processes: int) -> torch.Tensor:
        """Sequences of plain training, as many and about as long as a pass of RL trains on at this time."""
        rl = self._recipe.rl
        count = rl.micro_batch or rl.prompts_per_step * rl.group_size // processes
        length = self._length + sampled + 2
        chance = torch.Generator().manual_seed(self._recipe.seed)
        return torch.randint(1, vocabulary, (count, length), generator=chance)


def _train(
    recipe: Recipe, model: Any, tokenizer: Any, rows: Rows, books: RunLedger, callbacks: Sequence[TrainerCallback]
) -> RntpTrainer:
    """RL, from the last whole checkpoint on."""
    folder = Path(recipe.output)
    with tracking(recipe) as trackers:
        extras = Extras(next_token_documents(recipe, tokenizer), None, [*trackers, *callbacks])
        trainer = RntpTrainer(model, tokenizer, rows, recipe, books, extras)
        trainer.remove_callback(PrinterCallback)
        last = last_checkpoint(folder)
        if trainer.accelerator.is_main_process:
            trim_metrics(folder, int(last.name.rpartition("-")[2]) if last else 0)
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    return trainer


def _summary(recipe: Recipe, folder: Path, books: RunLedger) -> dict[str, Any]:
    """What a run has learnt, and what it took."""
    kept, metrics = books.summary(), read_metrics(folder)
    pretraining = sum(entry.duration_s for entry in books.entries if entry.workload == "pretraining")
    seen = {name: None for row in metrics for name in row}
    names = [name for name in seen if name in _SHOWN or name.startswith(_BY_SOURCE)]
    tenth = max(1, len(metrics) // 10)
    parts = {"first": metrics[:tenth], "last": metrics[-tenth:]}
    learnt = {
        name: {part: _mean([row[name] for row in some if name in row]) for part, some in parts.items()}
        for name in names
    }
    if recipe.lora is not None and kept["beta_gpu_time_note"]:
        kept["beta_gpu_time_note"] += "; the reference trains the same adapter: 4 N + 6 a FLOP a token, not 6 N"
    return {
        **kept, "name": recipe.name, "steps": len(metrics), "wall_s": kept["wall_s"] + pretraining,
        "pretraining_wall_s": pretraining, "checkpoint": str(folder / FINAL), "learnt": learnt,
    }  # fmt: skip


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _held_out_places(recipe: Recipe, model: Any, tokenizer: Any) -> list[Place]:
    """Places that are evaluated at the end; none where text is not trained on."""
    corpus, count = recipe.corpus, recipe.report.places
    if corpus is None or not corpus.weight or not count or not corpus.held_out_fraction:
        return []
    return places_of(recipe, model, tokenizer, count)


def _held_out(recipe: Recipe, model: Any, tokenizer: Any, base: Path, places: Sequence[Place]) -> dict[str, Any] | None:
    """What thinking gains at held-out places, beside the model before RL; None where there are none.

    Every process does all of it, with the same draws: the figures are those of one process, in its time, and none waits
    in a barrier that could run out.
    """
    if not places:
        return None
    before, _ = load_model(base, recipe.thought)
    before.to(model.device).eval()
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    sampling = Sampling(
        start, end, recipe.thought.budget, thoughts=1, temperature=recipe.rl.temperature,
        skip_first_gold=recipe.positions.skip_first_gold, stop_ids=(tokenizer.eos_token_id,), seed=recipe.seed,
    )  # fmt: skip
    found = evaluate({"policy": model.eval, "base": lambda: before}, places, sampling)
    return {name: found.document[name] for name in ("places", "documents", "loss", "settled", "thoughts")}
