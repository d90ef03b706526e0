"""What ``rntp evaluate`` is asked, where it finds models and recipe, and the rivals that it trains."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as quiet

from computeledger.actuals.run_ledger import read_ledger
from computeledger.errors import InputError, nearest, shown
from rntp.checkpoints import last_checkpoint
from rntp.control_runs import TRAINED, mixed_rows, rival_spec, token_budget, train_rival
from rntp.corpus import chunks, stream
from rntp.evaluate import Evaluation, Roles, evaluate, evaluate_answers, places_of
from rntp.measures import measure_for
from rntp.models import load_model
from rntp.positions import Place, places, wanted
from rntp.recipe import Recipe
from rntp.recipe_file import parse_recipe, read_recipe
from rntp.run_folder import read_written_recipe
from rntp.sampling import Sampling
from rntp.solvers import audited, every

#: Told a stage, how far it is, and how far it goes.
Progress = Callable[[str, int, int], None]
#: The seed's stream of documents that rivals are trained on; RL reads others.
_STREAM = 100


@dataclass(frozen=True)
class Question:
    """What is asked."""

    target: Path
    places: int
    thoughts: int
    samples: int
    controls: tuple[str, ...]
    recipe: Path | None = None
    base: Path | None = None
    judge: Path | None = None


@dataclass(frozen=True)
class _Found:
    checkpoint: Path
    run: Path | None
    recipe: Recipe
    base: Path | None
    judge: Path | None


def evaluate_answer(question: Question, progress: Progress) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Evaluate, and give the document and the samples."""
    quiet.disable_progress_bar()
    _wanted(question.controls)
    found = _found(question)
    recipe = found.recipe
    named = [name for name in recipe.controls.names if name in TRAINED] if found.run else []
    wanted = _wanted(question.controls or named)
    device = torch.device("cuda" if torch.cuda.is_available() and recipe.rl.device != "cpu" else "cpu")
    policy, tokenizer = load(found.checkpoint, recipe, device)
    sampling = sampling_of(recipe, policy, tokenizer, question.thoughts)
    judge_like = load(found.base, recipe, device)[0] if found.base else policy
    roles, missing = _roles(found, recipe, device, tokenizer)
    asked = functools.partial(places_of, recipe, judge_like, tokenizer)
    held_out = asked(question.places) if recipe.corpus is not None and recipe.corpus.weight else []
    document: dict[str, Any] = {"checkpoint": str(found.checkpoint), "base": str(found.base) if found.base else None}
    samples: list[dict[str, Any]] = []
    if held_out:
        for name in wanted:
            roles[name] = _rival(name, found, device, sampling, progress)
        told = itertools.count()
        trained = asked(min(question.places, 64), held_out=False)
        out = evaluate(
            roles, held_out, sampling, trained, lambda role: progress(f"scoring: {role}", next(told), len(roles))
        )
        missing |= {name: "not asked for: --controls" for name in TRAINED if name not in roles}
        document |= {**out.document, "controls_not_measured": missing}
        samples = _samples(out, held_out, tokenizer, question.samples)
    progress("answers", 0, 1)
    document["environments"] = _answers(roles, found, tokenizer, sampling, question.places)
    if not held_out and not document["environments"]:
        raise InputError("the recipe has neither text nor environments to evaluate on")
    return document, samples


def _wanted(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in (*TRAINED, "all"):
            raise InputError(f"--controls {shown(name)}: {nearest(name, [*TRAINED, 'all'])}")
    return TRAINED if "all" in names else tuple(names)


def _found(question: Question) -> _Found:
    """Find checkpoint, run, recipe, base and judge."""
    checkpoint, run = checkpoint_of(question.target)
    recipe = _recipe(question, run)
    base = question.base or (run / "base" if run is not None and (run / "base").is_dir() else None)
    if base is None and recipe.model.path:
        base = recipe.folder / recipe.model.path
    judge = question.judge or (recipe.folder / recipe.controls.judge if recipe.controls.judge else None)
    return _Found(checkpoint, run, recipe, base, judge)


def checkpoint_of(target: Path) -> tuple[Path, Path | None]:
    """The checkpoint that a folder is, or that of a run; and the run that it belongs to, where there is one."""
    run = next((one for one in (target, target.parent) if (one / "recipe.json").is_file()), None)
    if (target / "config.json").is_file():
        return target, run
    whole = target / "final" if (target / "final").is_dir() else last_checkpoint(target)
    if run != target or whole is None:
        raise InputError(f"{shown(str(target))}: neither a checkpoint (config.json) nor a run with one")
    return whole, run


def _recipe(question: Question, run: Path | None) -> Recipe:
    if question.recipe is not None:
        return read_recipe(question.recipe)
    if run is None:
        raise InputError(f"{shown(str(question.target))}: belongs to no run; name its recipe with --recipe FILE")
    written, where = read_written_recipe(run)
    if where is None:
        raise InputError(f"{shown(str(run))}: does not say where its recipe stood; name it with --recipe FILE")
    environments = written.get("environments", [])
    if not isinstance(environments, list) or not all(isinstance(one, dict) for one in environments):
        raise InputError(f"{shown(str(run))}: its recipe's environments are no list of tables")
    for one in environments:
        one.setdefault("held_out_fraction", 0.0)  # a run of before tasks were held out was trained on all of them
    return parse_recipe(written, where)


def load(path: Path, recipe: Recipe, device: torch.device) -> tuple[Any, Any]:
    """A model, ready to be asked, and its tokenizer."""
    model, tokenizer = load_model(path, recipe.thought, "bfloat16" if recipe.rl.precision == "bfloat16" else "float32")
    return model.to(device).eval(), tokenizer


def sampling_of(recipe: Recipe, model: Any, tokenizer: Any, thoughts: int) -> Sampling:
    """How a recipe's thoughts are sampled and scored."""
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    given = model.generation_config.eos_token_id
    ends = [tokenizer.eos_token_id, *(given if isinstance(given, list) else [given])]
    return Sampling(
        start, end, recipe.thought.budget, thoughts, recipe.rl.temperature, recipe.positions.skip_first_gold,
        recipe.reward.k, tuple(sorted({one for one in ends if one is not None} - {end})), seed=recipe.seed,
    )  # fmt: skip


def _roles(
    found: _Found, recipe: Recipe, device: torch.device, tokenizer: Any
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """How to load the model of each role, and why some are not there."""
    roles: dict[str, Callable[[], Any]] = {"policy": lambda: load(found.checkpoint, recipe, device)[0]}
    missing: dict[str, str] = {}
    for role, name, path, option in (
        ("base", "frozen-scorer", found.base, "--base"),
        ("independent-scorer", "independent-scorer", found.judge, "--judge"),
    ):
        if path is None:
            missing[name] = f"no model for it: {option} FOLDER"
            continue
        if load(path, recipe, device)[1].get_vocab() != tokenizer.get_vocab():
            raise InputError(f"{option} {shown(str(path))}: its tokenizer is not the checkpoint's")
        roles[role] = functools.partial(lambda where: load(where, recipe, device)[0], path)
    return roles, missing


def _rival(name: str, found: _Found, device: torch.device, sampling: Sampling, progress: Progress) -> Callable[[], Any]:
    """A rival of the run, trained now where it was not before."""
    recipe, run, base = found.recipe, found.run, found.base
    if run is None or base is None or not (run / "ledger.jsonl").is_file():
        raise InputError(f"--controls {name}: a run with its ledger and the model before RL is needed")
    folder = run / "controls" / name
    if not folder.is_dir():
        spec = rival_spec(recipe, token_budget(name, read_ledger(run / "ledger.jsonl").entries))
        model, tokenizer = load(base, recipe, device)
        rows = _rows(name, found, model, tokenizer, sampling)
        train_rival(model, rows, spec, folder, lambda step, steps: progress(f"training: {name}", step, steps))
        tokenizer.save_pretrained(folder)
    return lambda: load(folder, recipe, device)[0]


def _rows(name: str, found: _Found, model: Any, tokenizer: Any, sampling: Sampling) -> Any:
    """Text of the training side, without end; for mixed training with thoughts of the model as it was."""
    recipe = found.recipe
    if recipe.corpus is None:
        raise InputError(f"--controls {name}: the recipe has no [corpus] to train on")
    spec, kinds = recipe.positions, recipe.positions.kinds
    length = spec.context_tokens + spec.gold_tokens

    def text(seed: int) -> Any:
        return chunks(stream(recipe.corpus, recipe.folder, seed), tokenizer, length)  # type: ignore[arg-type]

    plain = (one.ids for one in text(_STREAM + recipe.seed) if len(one.ids) > 1 and wanted(one.kind, kinds))
    if name != "mixed-sft":
        return plain
    thinker = load(found.base, recipe, model.device)[0] if found.base else model
    measure = measure_for(recipe, thinker, tokenizer)
    chosen: Any = places(text(_STREAM + 1 + recipe.seed), spec, recipe.seed, measure)
    return mixed_rows(thinker, plain, chosen, sampling)


def _answers(roles: Roles, found: _Found, tokenizer: Any, sampling: Sampling, count: int) -> dict[str, dict[str, Any]]:
    recipe, drawn = found.recipe, (count, found.recipe.seed + _STREAM)
    asked = every(recipe, tokenizer, sampling, drawn)
    if any(one.audit for one in recipe.environments):
        truth = every(audited(recipe), tokenizer, sampling, drawn)
        asked |= {f"{one.name}, audited": truth[one.name] for one in recipe.environments if one.audit}
    return evaluate_answers(roles, asked, sampling)


def _samples(out: Evaluation, held_out: Sequence[Place], tokenizer: Any, count: int) -> list[dict[str, Any]]:
    """The first places, in their order, each with its first thought: nothing is picked out."""
    each = len(out.thoughts.rows) // len(held_out)
    return [_sample(out, place, number, number * each, tokenizer) for number, place in enumerate(held_out[:count])]


def _sample(out: Evaluation, place: Place, number: int, row: int, tokenizer: Any) -> dict[str, Any]:
    gains = out.with_thought.log_probs[row] - out.without.log_probs[number]
    texts = pieces(tokenizer, place.gold_ids)
    return {
        "document": place.document, "kind": place.kind, "position": place.position,
        "context": tokenizer.decode(place.context_ids), "thought": tokenizer.decode(out.thoughts.rows[row][1:-1]),
        "truncated": bool(out.thoughts.truncated[row]),
        "gain": float(out.with_thought.sums[row] - out.without.sums[number]),
        "gold": [{"text": text, "gain": float(gain)} for text, gain in zip(texts, gains, strict=False)],
    }  # fmt: skip


def pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """What each token adds to the text."""
    whole = [tokenizer.decode(ids[:end]) for end in range(len(ids) + 1)]
    return [after.removeprefix(before) for before, after in itertools.pairwise(whole)]
