"""What would fail late, found before anything is trained: packages, processes, held-out text, questions, markers."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from computeledger.errors import InputError, shown
from rntp.adapter import check_lora
from rntp.arguments import grpo_config
from rntp.base_model import corpus_of
from rntp.corpus import Document, chunks, split, stream
from rntp.episodes import Episodes
from rntp.judges.answers import check_judges
from rntp.models import marker_id, outline, question_ids
from rntp.positions import places, rule_of
from rntp.problems import episode_seeds, problems
from rntp.recipe import MEASURED, EnvironmentSpec, Recipe
from rntp.reward import try_reward
from rntp.trackers import check_trackers


def check_recipe(recipe: Recipe, processes: int = 1) -> None:
    """Refuse what a recipe says and this machine cannot do; nothing of the corpus but its first documents is read.

    Examples
    --------
    >>> from rntp.recipe import ReportSpec
    >>> check_recipe(Recipe(output="out", report=ReportSpec(trackers=("tensorbord",))))
    Traceback (most recent call last):
    computeledger.errors.InputError: [report] trackers 'tensorbord': did you mean 'tensorboard'?
    """
    grpo_config(recipe, processes)
    rule_of(recipe.positions)
    try_reward(recipe.reward, recipe.folder, recipe.positions.gold_tokens)
    if recipe.rl.engine != "transformers" and importlib.util.find_spec("vllm") is None:
        raise InputError(
            f"[rl] engine {shown(recipe.rl.engine)}: vllm is not installed; 'transformers' needs nothing more"
        )
    check_names(recipe)
    check_judges(recipe)
    if (
        recipe.positions.measured == MEASURED["proxy"]
        and not (recipe.folder / recipe.positions.proxy / "config.json").is_file()
    ):
        raise InputError(f"[positions] proxy {shown(recipe.positions.proxy)}: no folder with a config.json")
    if recipe.controls.judge and not (recipe.folder / recipe.controls.judge / "config.json").is_file():
        raise InputError(f"[controls] judge {shown(recipe.controls.judge)}: no folder with a config.json")
    if recipe.corpus is not None:
        next(stream(recipe.corpus, recipe.folder, recipe.seed))
    if _is_held_out(recipe):
        next(_held_out(recipe))


def check_names(recipe: Recipe) -> None:
    """Refuse trackers that cannot be used here, and an adapter beside layers that the model does not have.

    Examples
    --------
    >>> from rntp.recipe import LoraSpec
    >>> check_names(Recipe(lora=LoraSpec(target_modules=("q_prj",))))
    Traceback (most recent call last):
    computeledger.errors.InputError: [lora] target_modules 'q_prj': did you mean 'q_proj'?
    """
    check_trackers(recipe)
    check_lora(recipe.lora)
    if recipe.lora is not None and recipe.lora.target_modules:
        one_layer = replace(recipe.model, layers=1)  # all layers of a model from scratch are alike
        check_lora(recipe.lora, outline(one_layer, recipe.folder, recipe.model.vocabulary))


def _is_held_out(recipe: Recipe) -> bool:
    """Whether held-out text is evaluated at the end."""
    corpus = recipe.corpus
    return bool(corpus is not None and corpus.weight and recipe.report.places and corpus.held_out_fraction)


def _held_out(recipe: Recipe) -> Iterator[Document]:
    return split(corpus_of(recipe), recipe.folder, recipe.seed, held_out=True)


def check_tokens(recipe: Recipe, tokenizer: Any, context_tokens: float = math.inf) -> None:
    """Refuse what a tokenizer or the model's context does not allow: places, questions, markers.

    Examples
    --------
    >>> check_tokens(Recipe(), object())
    Traceback (most recent call last):
    computeledger.errors.InputError: tokenizer: an end-of-text token is needed
    """
    if getattr(tokenizer, "eos_token_id", None) is None:
        raise InputError("tokenizer: an end-of-text token is needed")
    for text in (recipe.thought.start, recipe.thought.end):
        marker_id(tokenizer, text)
    if recipe.reward.name == "self-evaluation":
        question_ids(tokenizer)
    positions, thought = recipe.positions, recipe.thought
    if recipe.corpus is not None and recipe.corpus.weight:
        if positions.context_tokens + thought.budget + positions.gold_tokens + 1 > context_tokens:
            raise InputError(
                f"the model's context of {context_tokens} tokens is too short: context {positions.context_tokens} + "
                f"thought {thought.budget} + gold {positions.gold_tokens} + 1 tokens are needed"
            )
        # whatever a rule makes of a model, it can only choose among the places that any rule may take
        spec = replace(positions, rule="random", measure="") if positions.measured else positions
        length = spec.context_tokens + spec.gold_tokens
        sides = [split(recipe.corpus, recipe.folder, recipe.seed)]
        sides += [_held_out(recipe)] if _is_held_out(recipe) else []
        for side in sides:
            next(places(chunks(side, tokenizer, length), spec, recipe.seed))
    for one in recipe.environments:
        room = context_tokens - thought.budget - one.answer_tokens - 2
        if one.source:
            _check_episode(recipe, one, tokenizer, int(min(room, 2**31)))
            continue
        some = problems(one, tokenizer, int(min(room, 2**31)), recipe.folder, recipe.seed)
        list(itertools.islice(some, 1))


def _check_episode(recipe: Recipe, spec: EnvironmentSpec, tokenizer: Any, room: int) -> None:
    """Begin one episode, and end it."""
    episodes = Episodes(spec, tokenizer, recipe.folder, room)
    first = next(iter(episode_seeds(spec, recipe.seed)))
    play = episodes.begin([first.seed])[0]
    if reason := play.fault or play.failure:
        raise InputError(f"environment {shown(spec.name)}: {reason}")
    episodes.cut([play])
    episodes.close()
