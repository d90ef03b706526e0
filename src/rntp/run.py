"""A recipe carried out: a model loaded or pretrained, places chosen, RL, and what it took.

Whatever ends a run, the same recipe goes on from what is in its folder.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback, TrainerCallback

from computeledger.errors import InputError
from rntp.arguments import process_state
from rntp.base_model import PLACES, TEXT, make_base, read_documents
from rntp.books import Books
from rntp.checkpoints import last_checkpoint
from rntp.corpus import chunks
from rntp.errors import TrainingError
from rntp.evaluate import evaluate, places_of
from rntp.machine import measure_next_token, this_machine
from rntp.measures import measure_for
from rntp.mixture import TEXT as TEXT_ROWS
from rntp.mixture import Rows, mixed_rows
from rntp.models import load_model, planned_config
from rntp.positions import Place, places, wanted
from rntp.problems import problems
from rntp.recipe import Recipe
from rntp.run_folder import (
    BASE,
    FINAL,
    LEDGER,
    METRICS,
    SUMMARY,
    check,
    finished,
    prepare,
    read_metrics,
    trim_metrics,
    write_json,
)
from rntp.sampling import Sampling
from rntp.trainer import Extras, RntpTrainer

#: Told the stage, its step, its steps, and figures of the step.
Report = Callable[[str, int, int, Mapping[str, float]], None]
PRETRAINING, LEARNING = "pretraining", "RL"
#: One step of plain training is measured for so many of RL's, and at least so many in a run: beta rests on them, and at
#: half a step of RL each they are 2.5 % of it.
_STEPS_PER_REFERENCE, _LEAST_REFERENCES = 20, 3


def _silent(_stage: str, _step: int, _steps: int, _figures: Mapping[str, float]) -> None:
    """Say nothing."""


def run(recipe: Recipe, *, fresh: bool = False, report: Report = _silent) -> dict[str, Any]:
    """Carry a recipe out, or go on with it.

    Parameters
    ----------
    recipe : Recipe
        What to do; its output is the folder of the run.
    fresh : bool
        Whether an earlier run there is removed first.
    report : callable
        Told every step.

    Returns
    -------
    dict
        ``beta_flop``, ``beta_gpu_time``, ``phases``, ``steps``, ``wall_s``, ``checkpoint`` and what was learnt.

    Examples
    --------
    >>> run(Recipe(output="docs"))
    Traceback (most recent call last):
    computeledger.errors.InputError: output 'docs': holds other files and no run; choose another folder
    """
    folder = Path(recipe.output)
    check(folder, recipe, fresh=fresh)
    before = finished(folder)
    if before is not None and not fresh:
        return before
    state = process_state(recipe)
    if recipe.rl.device == "cuda" and state.device.type != "cuda":
        raise InputError("[rl] device 'cuda': no such device is here; 'auto' takes what there is")
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
    if recipe.model.path:
        base = recipe.folder / recipe.model.path
    else:
        base = folder / BASE
        steps = recipe.pretrain.steps if recipe.pretrain else 0
        if state.is_main_process:
            make_base(recipe, folder, machine, state.device, lambda step, said: report(PRETRAINING, step, steps, said))
        state.wait_for_everyone()
    model, tokenizer = load_model(base, recipe.thought)
    _fits(recipe, model)
    model.to(state.device)
    rows = choose_rows(recipe, model.eval(), tokenizer)
    books = Books(folder / LEDGER if state.is_main_process else None, planned_config(model), machine, run=recipe.name)
    with contextlib.closing(books):
        reference = _Reference(recipe, rows, books)
        trainer = _train(recipe, model, tokenizer, rows, books, (_Told(recipe, folder, report), reference))
        if not reference.is_measured:  # the last checkpoint was behind the last place of one
            reference.measure(trainer.model, trainer.args, trainer.state.log_history)
        with books.phase("checkpoint"):
            trainer.save_model(str(folder / FINAL))
        with books.phase("evaluation"):
            # a model that is sharded is evaluated from its checkpoint, by rntp evaluate
            held_out = None if trainer.is_fsdp_enabled else _held_out(recipe, trainer.model, tokenizer, base)
        summary = {**_summary(recipe, folder, books), "held_out": held_out}
    if state.is_main_process:
        write_json(folder / SUMMARY, summary)
    return summary


def _fits(recipe: Recipe, model: Any) -> None:
    """Refuse a model whose context is too short for the recipe."""
    longest = getattr(model.config, "max_position_embeddings", None) or math.inf
    positions, thought = recipe.positions, recipe.thought
    parts = positions.context_tokens + thought.budget + positions.gold_tokens + 1
    if recipe.corpus is not None and recipe.corpus.weight and parts > longest:
        raise InputError(
            f"the model's context of {longest} tokens is too short: context {positions.context_tokens} + thought "
            f"{thought.budget} + gold {positions.gold_tokens} + 1 tokens are needed"
        )


def choose_rows(recipe: Recipe, model: Any, tokenizer: Any) -> Rows:
    """Choose all that RL goes over, in its order: places of text and problems, mixed by weight.

    Parameters
    ----------
    recipe : Recipe
        Corpus, environments, rule and number of steps.
    model : PreTrainedModel
        As it is before RL, for the rules that ask it.
    tokenizer : PreTrainedTokenizerFast
        Its own.

    Returns
    -------
    Rows
        The same for the same recipe.

    Examples
    --------
    >>> from rntp.models import make_tokenizer
    >>> from rntp.recipe import CorpusSpec, ModelSpec, RlSpec, ThoughtSpec
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["import json def return"])
    >>> corpus = CorpusSpec("generator", ("python-library",), options={"pattern": "json/*.py"})
    >>> len(choose_rows(Recipe(corpus=corpus, rl=RlSpec(steps=2, prompts_per_step=3)), None, words).dataset)
    6
    """
    rl, spec = recipe.rl, recipe.positions
    count = math.ceil(rl.steps / rl.updates_per_batch) * rl.prompts_per_step
    text: Iterable[Place] = ()
    weights: dict[str, float] = {}
    if recipe.corpus is not None and recipe.corpus.weight:
        read = chunks(read_documents(recipe, PLACES), tokenizer, spec.context_tokens + spec.gold_tokens)
        text = places(read, spec, recipe.seed, measure_for(recipe, model, tokenizer))
        text = itertools.islice(text, spec.distinct or None)
        weights[TEXT_ROWS] = recipe.corpus.weight
    asked = {}
    longest = getattr(getattr(model, "config", None), "max_position_embeddings", None) or sys.maxsize
    for one in recipe.environments:
        room = longest - recipe.thought.budget - one.answer_tokens - 2
        asked[one.name] = problems(one, tokenizer, room, recipe.folder, recipe.seed)
        weights[one.name] = one.weight
    return mixed_rows(text, asked, weights, count, recipe.seed)


def _text_ids(recipe: Recipe, tokenizer: Any) -> list[tuple[int, ...]]:
    """Documents of the next-token term, of the kinds that places are taken from."""
    rl, kinds = recipe.rl, recipe.positions.kinds
    if not rl.ntp_weight:
        return []
    read = chunks(read_documents(recipe, TEXT), tokenizer, rl.ntp_tokens)
    some = (one.ids for one in read if len(one.ids) > 1 and wanted(one.kind, kinds))
    return list(itertools.islice(some, rl.steps * rl.ntp_sequences))


class _Told(TrainerCallback):
    """Passes the figures of every step on, and keeps them in the run's folder."""

    def __init__(self, recipe: Recipe, folder: Path, report: Report) -> None:
        self._steps, self._path, self._report = recipe.rl.steps, folder / METRICS, report

    def on_log(self, args: Any, state: Any, control: Any, **said: Any) -> None:  # noqa: ARG002 - transformers names them
        figures = {name: float(value) for name, value in said["logs"].items() if isinstance(value, int | float)}
        if not state.is_world_process_zero or "loss" not in figures:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'step': state.global_step, **figures})}\n")
        self._report(LEARNING, state.global_step, self._steps, figures)


class _Reference(TrainerCallback):
    """Measures a step of next-token training between some steps of RL, spread evenly over the run.

    What else the machine does then slows both alike, and how far the measurements differ says how sure beta is.
    """

    def __init__(self, recipe: Recipe, rows: Rows, books: Books) -> None:
        self._recipe, self._rows, self._books = recipe, rows, books
        steps = recipe.rl.steps
        count = max(_LEAST_REFERENCES, steps // _STEPS_PER_REFERENCE)
        self._places = {math.ceil((place + 0.5) * steps / count) for place in range(count)}
        self.is_measured = False

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_said: Any) -> None:  # noqa: ARG002 - transformers names them
        if state.global_step in self._places:
            self.measure(model, args, state.log_history)

    def measure(self, model: Any, args: Any, logged: Sequence[Mapping[str, float]]) -> None:
        """Measure one step; the first of a process is preceded by one that warms up."""
        said = [row["thought/tokens"] for row in logged if "thought/tokens" in row]
        thought = round(said[-1]) if said else self._recipe.thought.budget
        ids = self._ids(thought, model.config.vocab_size, args.world_size).to(args.device)
        measure_next_token(self._books, model, ids, repeats=1, warm_up=not self.is_measured)
        self.is_measured = True

    def _ids(self, thought: int, vocabulary: int, processes: int) -> torch.Tensor:
        """Sequences of plain training, as many and about as long as a pass of RL trains on at this time."""
        rl, first = self._recipe.rl, self._rows.dataset.select(range(self._recipe.rl.prompts_per_step))
        lengths = [len(row["context_ids"]) + len(row["gold_ids"]) for row in first]
        count = rl.micro_batch or rl.prompts_per_step * rl.group_size // processes
        length = round(sum(lengths) / len(lengths)) + thought + 2
        chance = torch.Generator().manual_seed(self._recipe.seed)
        return torch.randint(1, vocabulary, (count, length), generator=chance)


def _train(
    recipe: Recipe, model: Any, tokenizer: Any, rows: Rows, books: Books, callbacks: Sequence[TrainerCallback]
) -> RntpTrainer:
    """RL, from the last whole checkpoint on."""
    folder = Path(recipe.output)
    trainer = RntpTrainer(model, tokenizer, rows, recipe, books, Extras(_text_ids(recipe, tokenizer), None, callbacks))
    trainer.remove_callback(PrinterCallback)
    last = last_checkpoint(folder)
    if trainer.accelerator.is_main_process:
        trim_metrics(folder, int(last.name.rpartition("-")[2]) if last else 0)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    return trainer


def _summary(recipe: Recipe, folder: Path, books: Books) -> dict[str, Any]:
    """What a run has learnt, and what it took."""
    kept, metrics = books.summary(), read_metrics(folder)
    pretraining = sum(entry.duration_s for entry in books.entries if entry.workload == "pretraining")
    shown_figures = ("gain", "reward", "reward_std", "thought/tokens", "thought/truncated_fraction", "loss")
    names = [name for name in (metrics[-1] if metrics else {}) if name in shown_figures or name.startswith("reward/")]
    tenth = max(1, len(metrics) // 10)
    parts = {"first": metrics[:tenth], "last": metrics[-tenth:]}
    learnt = {
        name: {part: _mean([row[name] for row in some if name in row]) for part, some in parts.items()}
        for name in names
    }
    return {
        **kept, "name": recipe.name, "steps": len(metrics), "wall_s": kept["wall_s"] + pretraining,
        "pretraining_wall_s": pretraining, "checkpoint": str(folder / FINAL), "learnt": learnt,
    }  # fmt: skip


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _held_out(recipe: Recipe, model: Any, tokenizer: Any, base: Path) -> dict[str, Any] | None:
    """What thinking gains at held-out places, beside the model before RL; None where text is not trained on.

    Every process does all of it, with the same draws: the figures are those of one process, in its time, and none waits
    in a barrier that could run out.
    """
    corpus, count = recipe.corpus, recipe.report.places
    if corpus is None or not corpus.weight or not count or not corpus.held_out_fraction:
        return None
    before, _ = load_model(base, recipe.thought)
    before.to(model.device).eval()
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    sampling = Sampling(
        start, end, recipe.thought.budget, thoughts=1, temperature=recipe.rl.temperature,
        skip_first_gold=recipe.positions.skip_first_gold, stop_ids=(tokenizer.eos_token_id,), seed=recipe.seed,
    )  # fmt: skip
    some = places_of(recipe, before, tokenizer, count)
    found = evaluate({"policy": model.eval, "base": lambda: before}, some, sampling)
    return {name: found.document[name] for name in ("places", "loss", "settled", "thoughts")}
