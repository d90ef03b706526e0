"""An experiment: a run of RL, a judge pretrained beside it from another seed, plain training for as long, one table.

The folder holds ``run/`` (the run as :mod:`rntp.run` leaves it), ``judge/base/``, ``run/controls/ntp-equal-time/`` and,
once everything is measured, ``summary.json``. Killed at any moment, the same command goes on.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from computeledger.actuals.run_ledger import read_ledger
from computeledger.actuals.run_summary import BESIDE_RL, superseded
from computeledger.errors import InputError, shown
from computeledger.files import read_json
from rntp.base_model import corpus_of, make_base
from rntp.control_runs import rival_spec, token_budget, train_rival
from rntp.corpus import Chunk, chunks, stream
from rntp.errors import TrainingError
from rntp.evaluate import places_of
from rntp.gap import Models, held_against, measure, reader
from rntp.machine import this_machine
from rntp.models import load_model
from rntp.must_think.mixed import PROSE
from rntp.positions import Place
from rntp.pretraining import batches
from rntp.quiet import hush
from rntp.recipe import PretrainSpec, Recipe
from rntp.recipe_file import fingerprint
from rntp.run import Report, run
from rntp.run_folder import BASE, FINAL, LEDGER, RECIPE, SUMMARY, check, finished, prepare, read_metrics, write_json
from rntp.sampling import Sampling
from rntp.thinking import coverage_of, habit

RUN, JUDGE, RIVAL = "run", "judge", "ntp-equal-time"
#: Documents whose length says how many updates a number of tokens makes.
_MEASURED = 2000
#: The seed's stream of documents that plain training goes on with; the run reads others.
_STREAM = 200
#: Stream of the held-out places, the same for every seed of a recipe.
_HELD_OUT = 31337
#: Places at most where many thoughts are sampled.
COVERED = 96
#: Parts of the learning curve.
_PARTS = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What an experiment is to measure.

    Attributes
    ----------
    places : int
        Held-out places.
    judge : Path or None
        A model of the same corpus that was trained apart; one is pretrained from the next seed when left out.
    kinds : tuple of str
        Kinds of documents that are measured; those trained on when left empty.
    thread_count : int
        Threads of each of the two processes; 0 leaves what torch takes [-].
    rival : bool
        Whether the model before RL is also trained on by plain next-token prediction for as long.
    samples : int
        Thoughts at each place for pass@k; 0 for none [-].
    where : Recipe or None
        Whose places are measured, where they are not those of the run's own recipe.
    """

    places: int = 384
    judge: Path | None = None
    kinds: tuple[str, ...] = ()
    thread_count: int = 0
    rival: bool = True
    samples: int = 0
    where: Recipe | None = None


def experiment(recipe: Recipe, plan: Plan, report: Report, *, fresh: bool = False) -> dict[str, Any]:
    """Carry an experiment out, or go on with it.

    Examples
    --------
    >>> experiment(Recipe(), Plan(), print)
    Traceback (most recent call last):
    computeledger.errors.InputError: an experiment needs a [corpus]
    """
    folder = Path(recipe.output)
    _check(recipe, plan, folder)
    mark = _mark(recipe, plan)
    before = finished(folder)
    if before is not None and before.get("fingerprint") == mark and not fresh:
        return before
    if plan.thread_count:
        torch.set_num_threads(plan.thread_count)
    begun = time.perf_counter()
    own = replace(recipe, output=str(folder / RUN))
    other = replace(recipe, output=str(folder / JUDGE), seed=recipe.seed + 1)
    for one in (own, other):
        check(Path(one.output), one, fresh=fresh)
    (folder / SUMMARY).unlink(missing_ok=True)
    beside = multiprocessing.get_context("spawn").Process(target=_beside, args=(other, plan, fresh), daemon=True)
    if plan.judge is None:
        beside.start()
    taken = run(own, fresh=fresh, report=report)
    ended = time.perf_counter()
    trained = _rival(own, report) if plan.rival else None
    if plan.judge is None:
        beside.join()
        if beside.exitcode:
            raise TrainingError("the judge's pretraining was stopped; the same command goes on with it")
    policy, rival = (Path(own.output) / one for one in (FINAL, f"controls/{RIVAL}"))
    judge = plan.judge or Path(other.output) / BASE
    measured = measure_models(own, Checkpoints(_base(own), policy, judge, rival if plan.rival else None), plan)
    found = fractions(measured)
    summary = {
        "name": recipe.name, "seed": recipe.seed, "judge": str(judge), "fingerprint": mark, **found,
        "beta_flop": taken["beta_flop"], "beta_gpu_time": taken["beta_gpu_time"],
        "wall_s": taken["wall_s"] + time.perf_counter() - max(ended, begun),
        "bars": held_against(found), "measured": measured, "ntp_equal_time": trained, "curve": _curve(Path(own.output)),
        "phases": taken["phases"], "steps": taken["steps"], "pretraining_wall_s": taken["pretraining_wall_s"],
    }  # fmt: skip
    write_json(folder / SUMMARY, summary)
    return summary


def _mark(recipe: Recipe, plan: Plan) -> str:
    """What two experiments share that measure the same."""
    where = fingerprint(plan.where) if plan.where is not None else ""
    parts = (fingerprint(recipe), plan.places, plan.samples, plan.rival, where, *plan.kinds)
    return "/".join(map(str, parts))


def fractions(measured: Mapping[str, Any]) -> dict[str, float]:
    """Name the fractions of a table that are held against bars.

    Examples
    --------
    >>> fractions({"gain_nats_per_token": 0.1, "intervals": {"gap_closed_fraction": {"mean": 0.9}}})
    {'gain_nats_per_token': 0.1, 'gap_closed_fraction': 0.9}
    """
    means = {name: one["mean"] for name, one in measured["intervals"].items()}
    rivals = [means[name] for name in (f"{RIVAL}, no thought", f"{RIVAL}, its own thought") if name in means]
    found = {
        "gain_nats_per_token": measured["gain_nats_per_token"],
        "gap_closed_fraction": means["gap_closed_fraction"],
        "empty_thought_gap_closed_fraction": means.get("empty_thought_gap_closed_fraction"),
        "swapped_thought_loss_fraction": measured.get("swapped_thought_loss_fraction"),
        "independent_scorer_fraction": measured.get("independent_scorer_fraction"),
        "ntp_equal_time_gap_closed_fraction": max(rivals, default=None),
    }
    return {name: value for name, value in found.items() if value is not None}


def _check(recipe: Recipe, plan: Plan, folder: Path) -> None:
    if recipe.corpus is None:
        raise InputError("an experiment needs a [corpus]")
    if recipe.model.path and plan.judge is None:
        raise InputError("an experiment with a model that is there needs --judge, a model trained apart")
    if (folder / RECIPE).exists():
        raise InputError(f"output {shown(str(folder))}: holds a run of rntp train; give another output")


def _base(recipe: Recipe) -> Path:
    """Folder of the model before RL."""
    return recipe.folder / recipe.model.path if recipe.model.path else Path(recipe.output) / BASE


def pretrained(recipe: Recipe, plan: Plan, fresh: bool) -> None:
    """Pretrain the model of a recipe and nothing more, or go on with it.

    Examples
    --------
    >>> pretrained(Recipe(output="docs"), Plan(), False)
    Traceback (most recent call last):
    computeledger.errors.InputError: output 'docs': holds other files and no run; choose another folder
    """
    if plan.thread_count:
        torch.set_num_threads(plan.thread_count)
    folder = Path(recipe.output)
    check(folder, recipe, fresh=fresh)
    prepare(folder, recipe, fresh=fresh)
    device = torch.device("cpu" if recipe.rl.device == "cpu" or not torch.cuda.is_available() else "cuda")
    precision = "bf16" if recipe.rl.precision == "bfloat16" else "fp32"
    make_base(recipe, folder, this_machine(device, 1, precision), device, lambda _step, _said: None)


def _beside(recipe: Recipe, plan: Plan, fresh: bool) -> None:
    """Pretrain the judge, in a process of its own."""
    hush()
    pretrained(recipe, plan, fresh)


def _rival(recipe: Recipe, report: Report) -> dict[str, Any]:
    """Train the model before RL on by next-token prediction, for as long as RL took, on documents of all kinds."""
    run_folder = Path(recipe.output)
    folder = run_folder / "controls" / RIVAL
    entries = read_ledger(run_folder / LEDGER).entries
    budget = token_budget(RIVAL, entries)
    model, tokenizer = load_model(_base(recipe), recipe.thought)
    model.to(_device(recipe))
    spec = _rival_spec(recipe, budget, tokenizer)
    kept = zip(entries, superseded(entries), strict=True)
    rl_s = sum(one.device_s for one, again in kept if one.workload == "rl" and one.phase not in BESIDE_RL and not again)
    out = {"steps": spec.steps, "tokens": budget, "rl_device_s": rl_s, "learning_rate": spec.learning_rate}
    written = folder / "took.json"
    if not folder.is_dir():
        folder.parent.mkdir(exist_ok=True)
        begun = time.perf_counter()
        read = (one for one in _chunks(recipe, tokenizer) if len(one.ids) > 1)
        rows = (ids for batch in batches(read, spec.batch_sequences, recipe.seed) for ids in batch)
        train_rival(model, rows, spec, folder, lambda step, steps: report(RIVAL, step, steps, {}))
        tokenizer.save_pretrained(folder)
        write_json(written, {"wall_s": time.perf_counter() - begun})
    return {**out, **read_json(written)}


def _rival_spec(recipe: Recipe, tokens: float, tokenizer: Any) -> PretrainSpec:
    """As many updates as the documents' real length makes of the tokens."""
    lengths = [len(one.ids) for one in itertools.islice(_chunks(recipe, tokenizer), _MEASURED)]
    spec = rival_spec(recipe, tokens)
    steps = max(1, math.ceil(tokens * len(lengths) / (spec.batch_sequences * sum(lengths))))
    longest = (recipe.pretrain or spec).sequence_tokens
    return replace(spec, steps=steps, save_steps=steps, sequence_tokens=longest)


def _chunks(recipe: Recipe, tokenizer: Any) -> Iterator[Chunk]:
    """Documents of all kinds that the run has not read."""
    length = recipe.pretrain.sequence_tokens if recipe.pretrain else recipe.rl.ntp_tokens
    return chunks(stream(corpus_of(recipe), recipe.folder, _STREAM + recipe.seed), tokenizer, length)


def _device(recipe: Recipe) -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() and recipe.rl.device != "cpu" else "cpu")


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Folders of what is compared."""

    base: Path
    policy: Path
    judge: Path
    rival: Path | None = None


def measure_models(recipe: Recipe, there: Checkpoints, plan: Plan) -> dict[str, Any]:
    """Measure the table, at places that no seed was trained on.

    Examples
    --------
    >>> measure_models(Recipe(), Checkpoints(Path("nowhere"), Path("b"), Path("c")), Plan())
    Traceback (most recent call last):
    computeledger.errors.InputError: ...
    """
    device, asked = _device(recipe), plan.where or recipe

    def load(path: Path) -> tuple[Any, Any]:
        model, tokenizer = load_model(path, recipe.thought)
        return model.to(device).eval(), tokenizer

    base, tokenizer = load(there.base)
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    sampling = Sampling(
        start, end, asked.thought.budget, thoughts=1, temperature=asked.rl.temperature,
        skip_first_gold=asked.positions.skip_first_gold, stop_ids=(tokenizer.eos_token_id,), seed=_HELD_OUT,
    )  # fmt: skip
    policy = load(there.policy)[0]
    rivals = {RIVAL: load(there.rival)[0]} if there.rival is not None else {}
    models = Models(tokenizer, base, policy, reader(*load(there.judge), tokenizer), rivals)
    kinds = plan.kinds or asked.positions.kinds

    def placed(wanted: tuple[str, ...], count: int) -> list[Place]:
        where = replace(asked.positions, kinds=wanted)
        return places_of(replace(asked, seed=_HELD_OUT, positions=where), base, tokenizer, count)

    places = placed(tuple(one for one in kinds if one != PROSE), plan.places)
    out = measure(models, places, sampling)
    some = places[: min(plan.places, COVERED)]
    out["coverage"] = coverage_of(base, policy, tokenizer, some, sampling, plan.samples)
    if PROSE in kinds:
        prose = placed((PROSE,), plan.places)
        out["habits"] = {
            name: {side: habit(model, base, some, sampling) for side, some in (("helps", places), ("elsewhere", prose))}
            for name, model in (("before RL", base), ("after RL", policy))
        }
    return out


def _curve(folder: Path) -> list[dict[str, float]]:
    """Mean gain of the thoughts of every tenth of the steps, on documents that are read once."""
    rows = [row for row in read_metrics(folder) if "gain" in row]
    size = max(1, math.ceil(len(rows) / _PARTS))
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [{"step": part[-1]["step"], "gain_nats": sum(row["gain"] for row in part) / len(part)} for part in parts]
