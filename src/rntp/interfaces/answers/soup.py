"""What ``rntp soup`` merges, and the evaluation on which it looks for weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging as quiet

from computeledger.errors import InputError, shown
from rntp.evaluate import gold_scores, places_of
from rntp.interfaces.answers.evaluate import Progress, load, sampling_of
from rntp.recipe import Recipe
from rntp.recipe_file import read_recipe
from rntp.sampling import Sampling, sample_thoughts
from rntp.solvers import every
from rntp.soup import (
    check_alike,
    merged_state,
    normalised,
    open_checkpoint,
    search_weights,
    write_soup,
)

#: Lower is better: of a model, on what is chosen by or what is judged by.
Score = Callable[[Any], float]
#: Samples at each place or task of the search.
SAMPLES = 4
#: Tokens that a question may have.
_LONGEST = 2**31


@dataclass(frozen=True)
class Order:
    """What is to be merged."""

    checkpoints: tuple[Path, ...]
    out: Path
    method: str
    weights: str | None
    places: int
    trials: int


def soup_answer(order: Order, search: Path | None, progress: Progress) -> dict[str, Any]:
    """Merge, after a search where asked."""
    quiet.disable_progress_bar()
    weights = normalised(_numbers(order.weights), len(order.checkpoints), order.method)
    if order.out.exists():
        raise InputError(f"--out {shown(str(order.out))}: is there already; name a new folder")
    parts = [open_checkpoint(folder) for folder in order.checkpoints]
    check_alike(parts)
    found: dict[str, Any] | None = None
    if search is not None:
        if order.weights is not None:
            raise InputError("--weights with --search: give one of them")
        found = _search(order, read_recipe(search), progress)
        weights = tuple(found["weights"])
    write_soup(parts, weights, order.method, order.out)
    names = [str(folder) for folder in order.checkpoints]
    return {
        "out": str(order.out),
        "method": order.method,
        "checkpoints": names,
        "weights": list(weights),
        "search": found,
    }


def _numbers(text: str | None) -> tuple[float, ...]:
    try:
        return () if text is None else tuple(float(one) for one in text.split(","))
    except ValueError:
        raise InputError(f"--weights {shown(text)}: numbers separated by commas are needed") from None


def _search(order: Order, recipe: Recipe, progress: Progress) -> dict[str, Any]:
    """Choose weights on one half of what is held out, and judge them on the other."""
    device = torch.device("cuda" if torch.cuda.is_available() and recipe.rl.device != "cpu" else "cpu")
    model, tokenizer = load(order.checkpoints[0], recipe, device)
    states = [load(folder, recipe, torch.device("cpu"))[0].state_dict() for folder in order.checkpoints]
    measure, (choosing, judging) = _measures(recipe, model, tokenizer, order.places)
    count = itertools.count(1)

    def score(weights: Sequence[float], on: Score = choosing) -> float:
        """Loss of a soup."""
        progress("searching", next(count), order.trials + len(states) + 1)
        model.load_state_dict(merged_state(states, weights, order.method))
        return on(model)

    trials = search_weights(score, len(states), order.trials)
    best = min(trials, key=lambda trial: trial.score)
    alone = [tuple(float(place == one) for place in range(len(states))) for one in range(len(states))]
    return {
        "measure": measure,
        "weights": list(best.weights),
        "chosen_on": best.score,
        "held_out": score(best.weights, judging),
        "held_out_alone": [score(weights, judging) for weights in alone],
        "trials": [{"weights": list(trial.weights), "score": trial.score} for trial in trials],
    }


def _measures(recipe: Recipe, model: Any, tokenizer: Any, count: int) -> tuple[str, tuple[Score, Score]]:
    """What is measured, on two halves: tasks that fail where there are environments, else loss after a thought."""
    sampling = sampling_of(recipe, model, tokenizer, SAMPLES)
    if recipe.environments:
        drawn = every(recipe, tokenizer, sampling, (2 * (count // 2), recipe.seed + 1))
        for name, some in drawn.items():
            if some.count < 2:
                raise InputError(f"--search: environment {shown(name)} has {some.count} task; two halves are needed")
        weights = [one.weight for one in recipe.environments]

        def failed(half: slice, model: Any) -> float:
            """Share of answers that fail, environments by their weight."""
            shares = [1 - np.nanmean(some.solve(model, half)) for some in drawn.values()]
            return float(np.average(shares, weights=weights))

        halves = (slice(0, None, 2), slice(1, None, 2))
        first, second = (lambda model, half=half: failed(half, model) for half in halves)
        return "share of answers that fail", (first, second)
    places = places_of(recipe, model, tokenizer, count)
    if len({place.document for place in places}) < 2:
        raise InputError("--search: held-out text of at least two documents is needed")
    documents = sorted({place.document for place in places})
    sides = [[place for place in places if (documents.index(place.document) % 2) == side] for side in (0, 1)]
    first, second = (lambda model, side=side: _loss(model, side, sampling) for side in sides)
    return "nats per token after a thought", (first, second)


def _loss(model: Any, places: Sequence[Any], sampling: Sampling) -> float:
    thoughts = sample_thoughts(model, [place.context_ids for place in places], sampling)
    scores = gold_scores(model, places, thoughts.rows, sampling)
    tokens = sampling.thoughts * sum(max(0, len(place.gold_ids) - sampling.skip_first_gold) for place in places)
    return float(-scores.sums.sum() / tokens)
