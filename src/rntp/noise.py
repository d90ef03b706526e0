"""What noise in the text costs RL: how much a right thought is still worth, and a law of few constants.

With label noise ``p`` a story ends in a random state. A right thought then earns ``(1 - p) R + p M`` over no thought,
``R`` where the end is true and ``M`` the mean over all ends, so that of its worth without noise there remains

``w = 1 - p / p_0``, ``p_0 = R / (R - M)``

``p_0`` is measured with the frozen scorer before RL: 1 for the probability of the end, since probabilities add up to 1
whatever the thought; less for its logarithm, which punishes a confident thought for a wrong end more than it pays for a
right one. Above ``p_0`` thinking does not pay. The law says what share of the gap ``U`` updates close, whose positions
are visited ``v`` times each, ``g_0`` before RL:

``g = g_0 + (G - g_0) (1 - exp(-(x / x_0)^a))``, ``x = U w^c V / (V + v - 1)``

``c`` says what noise costs: the same share needs ``w^-c`` times the updates. ``V`` visits of a position are worth half
as much as new ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from computeledger.errors import InputError
from rntp.evaluate import gold_scores, places_of
from rntp.gap import oracle_thoughts, words_of
from rntp.models import load_model
from rntp.must_think.families import family_of
from rntp.must_think.family import read, states
from rntp.recipe import Recipe
from rntp.reward import GoldScores, RewardOptions, reward_named
from rntp.sampling import Sampling

LABEL, TEXT = "label_noise", "text_noise"
#: Constants of the law, and where a fit begins.
_BEGUN = {"ceiling": 0.9, "updates": 20.0, "shape": 1.0, "exponent": 1.0, "visits": 20.0}
#: Exponents that are held against the fitted one: none, one that only dilutes, and equal noise per unit of signal.
_HELD = (0.0, 1.0, 2.0)
_STARTS, _ITERATIONS = 2, 100
#: Stream of the held-out positions, and how many the worth of a thought is measured at.
_HELD_OUT, _MEASURED = 31337, 96


@dataclass(frozen=True, slots=True)
class Cell:
    """A way of training at a level of noise, and what it closed of the gap, by seed.

    Attributes
    ----------
    reward : str
        Name of the reward.
    label_noise, text_noise : float
        Rates of the corpus [-].
    updates : int
        Of RL [-].
    visits : float
        How often each position was visited [-].
    closed : tuple of float
        Share of the gap that thoughts close, a value per seed [-].
    """

    reward: str
    label_noise: float
    text_noise: float
    updates: int
    visits: float
    closed: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return sum(self.closed) / len(self.closed)


def setting_of(recipe: Recipe) -> dict[str, Any]:
    """Say what of a recipe the law asks for.

    Examples
    --------
    >>> from rntp.recipe import CorpusSpec, PositionSpec, RlSpec
    >>> some = Recipe(corpus=CorpusSpec(options={"label_noise": 0.4}), positions=PositionSpec(distinct=16))
    >>> setting_of(replace(some, rl=RlSpec(steps=4, prompts_per_step=8)))["visits"]
    2.0
    """
    options = recipe.corpus.options if recipe.corpus else {}
    drawn, distinct = recipe.rl.steps * recipe.rl.prompts_per_step, recipe.positions.distinct
    return {
        "reward": recipe.reward.name, LABEL: float(options.get(LABEL, 0.0)), TEXT: float(options.get(TEXT, 0.0)),
        "updates": recipe.rl.steps, "visits": max(1.0, drawn / distinct) if distinct else 1.0, "positions": distinct,
    }  # fmt: skip


def payoffs(recipe: Recipe, base: Path, rewards: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Measure what a right thought earns over none: where the end is true, and on average over all ends.

    Examples
    --------
    >>> payoffs(Recipe(), Path("nowhere"), ["probability"])
    Traceback (most recent call last):
    computeledger.errors.InputError: model: no folder with a config.json is named 'nowhere'
    """
    model, tokenizer = load_model(base, recipe.thought)
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    sampling = Sampling(
        start, end, recipe.thought.budget, thoughts=1, skip_first_gold=recipe.positions.skip_first_gold,
    )  # fmt: skip
    clean = replace(recipe.corpus, options=_without_noise(recipe)) if recipe.corpus else None
    where = replace(recipe, seed=_HELD_OUT, corpus=clean, positions=replace(recipe.positions, distinct=0))
    places = places_of(where, model.eval(), tokenizer, _MEASURED)
    thoughts = oracle_thoughts(tokenizer, places, sampling)
    families = [family_of(place.document) for place in places]
    stories = [read(words_of(tokenizer, place.context_ids)) for place in places]
    last = [states(*one)[-1] for one in zip(families, stories, strict=True)]
    gained: dict[str, list[NDArray[np.float64]]] = {name: [] for name in rewards}
    for turn in range(len(families[0].states)):  # the true end first, then the others in their order
        ended = []
        for number, (family, place) in enumerate(zip(families, places, strict=True)):
            state = family.states[(family.states.index(last[number]) + turn) % len(family.states)]
            said = family.end(random.Random(number), state)  # noqa: S311 - no secret
            ids = tokenizer(said, add_special_tokens=False)["input_ids"]
            ended.append(replace(place, gold_ids=(*ids, tokenizer.eos_token_id)))
        with_thought, without = (gold_scores(model, ended, some, sampling).log_probs for some in (thoughts, None))
        mask = np.zeros(with_thought.shape, dtype=bool)
        for row, place in enumerate(ended):
            mask[row, sampling.skip_first_gold : len(place.gold_ids)] = True
        zero = np.zeros(with_thought.shape)
        for name in rewards:
            earned, unaided = (
                reward_named(name)(GoldScores(zero.astype(int), one, without, zero, zero.astype(int), mask),
                                   RewardOptions.of(recipe.reward))
                for one in (with_thought, without)
            )  # fmt: skip
            gained[name].append(earned - unaided)
    return {name: (float(some[0].mean()), float(np.mean(some))) for name, some in gained.items()}


def _without_noise(recipe: Recipe) -> dict[str, Any]:
    options = recipe.corpus.options if recipe.corpus else {}
    return {name: value for name, value in options.items() if name not in (LABEL, TEXT)}


def worthless(payoff: Sequence[tuple[float, float]]) -> float:
    """Label noise at which a right thought earns nothing any more; payoffs of several seeds are averaged.

    Examples
    --------
    >>> round(worthless([(1.8, -1.2)]), 9), worthless([(0.3, 0.0), (0.5, 0.0)])
    (0.6, 1.0)
    """
    true, mean = np.mean(payoff, axis=0).tolist()
    if true <= max(0.0, mean):
        raise InputError(f"noise: a right thought earns {true:.3g} before RL: the model has not learnt the single step")
    return float(true / (true - mean))


def damaged_fraction(rate: float, steps: Sequence[int]) -> float:
    """Share of stories in which text noise hit the word that a state depends on, of at least one step.

    Examples
    --------
    >>> round(damaged_fraction(0.1, [1, 2]), 3)
    0.145
    """
    return float(np.mean([1 - (1 - rate) ** count for count in steps]))


@dataclass(frozen=True, slots=True)
class _Table:
    """Cells as columns, with what a right thought is still worth in each."""

    worth: Tensor
    updates: Tensor
    visits: Tensor
    closed: Tensor
    before: float


def _law(constants: Mapping[str, Tensor | float], table: _Table) -> Tensor:
    """Share of the gap that the law expects of cells."""
    strength = table.worth.abs().clamp(min=1e-9) ** constants["exponent"]
    seen = table.updates * strength * constants["visits"] / (constants["visits"] + table.visits - 1)
    done = 1 - torch.exp(-((seen / constants["updates"]) ** constants["shape"]))
    return table.before + torch.where(table.worth > 0, constants["ceiling"] - table.before, -table.before) * done


def _fitted(table: _Table, exponent: float | None = None) -> dict[str, float]:
    """Constants with the least squared error, by L-BFGS on their logarithms from several starts."""
    free = [name for name in _BEGUN if exponent is None or name != "exponent"]
    if len(set(table.visits.tolist())) < 2:
        free.remove("visits")
    fixed = {**_BEGUN, **({} if exponent is None else {"exponent": exponent})}
    begun = np.log([_BEGUN[name] for name in free])
    chance, best = np.random.default_rng(0), (math.inf, dict(fixed))
    for turn in range(_STARTS):
        logs = torch.tensor(begun + chance.normal(scale=0.5 * bool(turn), size=len(free)), requires_grad=True)
        solver = torch.optim.LBFGS([logs], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

        def error(logs: Tensor = logs) -> Tensor:
            """Squared error; logarithms far from where fits begin cost a little, so that none runs away."""
            now = {**fixed, **dict(zip(free, logs.exp(), strict=True))}
            return ((_law(now, table) - table.closed) ** 2).mean() + 1e-4 * ((logs - torch.tensor(begun)) ** 2).mean()

        def closure(logs: Tensor = logs, error: Callable[[], Tensor] = error) -> Tensor:
            logs.grad = None
            value = error()
            value.backward()  # type: ignore[no-untyped-call]  # torch types it in part
            return value

        solver.step(closure)  # type: ignore[no-untyped-call]  # as above
        value = float(error().detach())
        if value < best[0]:
            best = (value, {**fixed, **dict(zip(free, logs.detach().exp().tolist(), strict=True))})
    return best[1]


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(one**2 for one in values) / len(values)) if values else math.nan


def fit_noise(
    cells: Sequence[Cell], before: float, limits: Mapping[str, float], steps: Sequence[int]
) -> dict[str, Any]:
    """Fit the law to label noise, judge it on levels left out, and say what it expects of text noise.

    Parameters
    ----------
    cells : sequence of Cell
        What was measured.
    before : float
        Share of the gap that thoughts close before RL [-].
    limits : mapping
        By reward, the label noise at which a right thought earns nothing [-].
    steps : sequence of int
        Steps of the stories, for the share that text noise damages [-].

    Returns
    -------
    dict
        ``constants``, root mean squared errors, ``forms`` with a fixed exponent, and ``cells``.

    Examples
    --------
    >>> cells = [Cell("probability", p, 0.0, n, 1.0, (0.9 - 0.8 * math.exp(-n * (1 - p) ** 2 / 20),))
    ...          for p in (0.0, 0.3, 0.6) for n in (12, 48, 96)]
    >>> found = fit_noise(cells, 0.1, {"probability": 1.0}, [5])
    >>> round(found["constants"]["exponent"], 1), found["left_out_rms"] < 0.02
    (2.0, True)
    """
    labels = [one for one in cells if not one.text_noise]
    levels = sorted({one.label_noise for one in labels})
    if len(levels) < 3:
        raise InputError(f"noise: {len(levels)} levels of label noise: a fit needs at least 3, one of them left out")

    def table(some: Sequence[Cell]) -> _Table:
        noise = [damaged_fraction(one.text_noise, steps) if one.text_noise else one.label_noise for one in some]
        worth = [1 - level / limits[one.reward] for level, one in zip(noise, some, strict=True)]
        updates, visits, closed = ([getattr(one, name) for one in some] for name in ("updates", "visits", "mean"))
        return _Table(_column(worth), _column(updates), _column(visits), _column(closed), before)

    def errors(constants: Mapping[str, float], some: Sequence[Cell]) -> list[float]:
        columns = table(some)
        return [float(one) for one in _law(constants, columns) - columns.closed]

    def left_out(exponent: float | None) -> Iterator[tuple[float, list[float]]]:
        for level in levels:
            rest = [one for one in labels if one.label_noise != level]
            out = [one for one in labels if one.label_noise == level]
            yield level, errors(_fitted(table(rest), exponent), out)

    constants = _fitted(table(labels))
    forms = []
    for exponent in (None, *_HELD):
        by_level = dict(left_out(exponent))
        forms.append({
            "exponent": exponent, "rms": _rms(errors(_fitted(table(labels), exponent), labels)),
            "left_out_rms": _rms([value for some in by_level.values() for value in some]),
            "left_out_by_level": {f"{level:g}": _rms(some) for level, some in by_level.items()},
        })  # fmt: skip
    texts = [one for one in cells if one.text_noise]
    every = table(cells)
    spread = [value - one.mean for one in labels for value in one.closed]
    return {
        "constants": constants, "before": before, "worthless_label_noise": dict(limits), "forms": forms,
        "rms": forms[0]["rms"], "left_out_rms": forms[0]["left_out_rms"], "seed_rms": _rms(spread),
        "text_rms": _rms(errors(constants, texts)) if texts else None,
        "cells": [
            {**_said(one), "worth": worth, "expected": expected}
            for one, worth, expected in zip(cells, every.worth.tolist(), _law(constants, every).tolist(), strict=True)
        ],
    }  # fmt: skip


def _said(cell: Cell) -> dict[str, Any]:
    return {
        "reward": cell.reward, LABEL: cell.label_noise, TEXT: cell.text_noise, "updates": cell.updates,
        "visits": cell.visits, "closed": list(cell.closed),
    }  # fmt: skip
