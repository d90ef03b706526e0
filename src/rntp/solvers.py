"""What models are asked in the environments of a recipe, and how often they are right: tasks, puzzles and episodes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rntp.episodes import Episodes
from rntp.problems import asked_problems, episode_seeds
from rntp.recipe import DOMAIN, EnvironmentSpec, Recipe
from rntp.sampling import Sampling, played, solved

#: What a model has seen of the episodes that it is evaluated on.
UNSEEN_SEEDS = "of seeds that training never takes"


@dataclass(frozen=True, slots=True)
class Asked:
    """What models are asked in one environment.

    Attributes
    ----------
    count : int
        Problems or episodes [-].
    seen : str
        What training has seen of them.
    solve : callable
        From a model and a slice of them to scores, a row for each and a column for each of its samples; NaN where
        the machine failed.
    """

    count: int
    seen: str
    solve: Callable[[Any, slice], NDArray[np.float64]]


def asked_of(
    recipe: Recipe, spec: EnvironmentSpec, tokenizer: Any, sampling: Sampling, asked: tuple[int, int]
) -> Asked:
    """Draw what models are asked in an environment; ``asked`` is how many, and the seed of the draw.

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> spec = EnvironmentSpec("sums", puzzle="chain_sum")
    >>> found = asked_of(Recipe(environments=(spec,)), spec, Letters(), Sampling(1, 2, 3), (2, 0))
    >>> found.count, found.seen
    (2, 'made anew')
    """
    count, seed = asked
    longest = max(one.answer_tokens for one in recipe.environments)
    if spec.source:
        seeds = [one.seed for one in itertools.islice(episode_seeds(spec, seed, held_out=True), count)]

        def play(model: Any, part: slice) -> NDArray[np.float64]:
            context = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
            episodes = Episodes(spec, tokenizer, recipe.folder, context - sampling.budget - longest - 2)
            try:
                return played(model, tokenizer, episodes, seeds[part], sampling, longest)
            finally:
                episodes.close()

        return Asked(count, UNSEEN_SEEDS, play)
    some, seen = asked_problems(spec, tokenizer, count, recipe.folder, seed)
    return Asked(len(some), seen, lambda model, part: solved(model, tokenizer, some[part], sampling, longest, recipe))


def audited(recipe: Recipe) -> Recipe:
    """Let environments that are audited be scored by that, in place of their judges.

    Examples
    --------
    >>> spec = EnvironmentSpec("sums", tasks="tasks.jsonl", judge="prefix", audit="exact")
    >>> audited(Recipe(environments=(spec,))).environments[0].judge
    'exact'
    """
    turned = (
        replace(one, judge="" if one.audit == DOMAIN else one.audit) if one.audit else one
        for one in recipe.environments
    )
    return replace(recipe, environments=tuple(turned))


def every(recipe: Recipe, tokenizer: Any, sampling: Sampling, asked: tuple[int, int]) -> dict[str, Asked]:
    """Draw what models are asked in every environment of a recipe.

    Examples
    --------
    >>> every(Recipe(), None, Sampling(1, 2, 3), (2, 0))
    {}
    """
    return {one.name: asked_of(recipe, one, tokenizer, sampling, asked) for one in recipe.environments}
