"""What RL goes over: positions chosen once and kept, rows made when their step comes.

A rule that asks a model is carried out before RL, by all processes in turns, as the phase "position selection" of the
books; what it chose is written to the run's folder, so that a restart does not choose again.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object

from computeledger.actuals.recording.run import PhaseBook, RunLedger
from rntp.base_model import PLACES, TEXT, read_documents
from rntp.corpus import Chunk, chunks
from rntp.lazy import Lazy, Renewed
from rntp.measures import measure_for
from rntp.mixture import TEXT as TEXT_ROWS
from rntp.mixture import EpisodeSeed, Problem, Rows, drawn_sources, mixed_rows
from rntp.positions import PATIENCE, Place, chosen, no_place, places, places_at, rule_of, wanted
from rntp.problems import episode_seeds, problems
from rntp.recipe import Recipe
from rntp.run_folder import POSITIONS, read_json, write_json

#: Positions of each chunk, in their turn.
Selection = Sequence[Sequence[int]]


def row_count(recipe: Recipe) -> int:
    """Count the prompts of a run.

    Examples
    --------
    >>> row_count(Recipe())
    800
    """
    return math.ceil(recipe.rl.steps / recipe.rl.updates_per_batch) * recipe.rl.prompts_per_step


def _weights(recipe: Recipe) -> dict[str, float]:
    text = {TEXT_ROWS: recipe.corpus.weight} if recipe.corpus is not None and recipe.corpus.weight else {}
    return text | {one.name: one.weight for one in recipe.environments}


def _chunks(recipe: Recipe, tokenizer: Any) -> Iterator[Chunk]:
    length = recipe.positions.context_tokens + recipe.positions.gold_tokens
    return chunks(read_documents(recipe, PLACES), tokenizer, length)


def select(recipe: Recipe, model: Any, tokenizer: Any, book: PhaseBook) -> list[list[int]] | None:
    """Carry out a rule that asks a model, a chunk in each process at a time.

    Examples
    --------
    >>> select(Recipe(), None, None, PhaseBook(None)) is None
    True
    """
    spec, weights = recipe.positions, _weights(recipe)
    if not spec.measured or TEXT_ROWS not in weights:
        return None
    needed = drawn_sources(weights, row_count(recipe), recipe.seed).count(TEXT_ROWS)
    needed = min(needed, spec.distinct) if spec.distinct else needed
    state, measure, rule = PartialState(), measure_for(recipe, model, tokenizer, book), rule_of(spec)
    read = enumerate(_chunks(recipe, tokenizer))
    found: list[list[int]] = []
    barren = total = 0
    while total < needed:
        turn, chunk = list(itertools.islice(read, state.num_processes))[state.process_index]
        for some in gather_object([chosen(chunk, spec, (recipe.seed, turn), measure, rule).tolist()]):
            found.append(some)
            total, barren = total + len(some), 0 if some else barren + 1
        if barren >= PATIENCE:
            raise no_place(spec, barren)
    return found


def selection(recipe: Recipe, model: Any, tokenizer: Any, books: RunLedger) -> Selection | None:
    """Choose positions on the books, or read what an earlier attempt chose.

    Examples
    --------
    >>> from computeledger.actuals.recording.run import RunMachine
    >>> selection(Recipe(), None, None, RunLedger(None, None, RunMachine())) is None
    True
    """
    if not recipe.positions.measured:
        return None
    path, state = Path(recipe.output) / POSITIONS, PartialState()
    before = read_json(path)
    if before is not None:
        return list(before["positions"])
    with books.phase("position selection", 0) as book:  # step 0: a restart that chooses again is told from the first
        found = select(recipe, model, tokenizer, book)
        state.wait_for_everyone()  # no process may find the file that another has just written
        if found is not None and state.is_main_process:
            write_json(path, {"positions": found})
    return found


def choose_rows(recipe: Recipe, model: Any, tokenizer: Any, positions: Selection | None = None) -> Rows:
    """Say all that RL goes over, in its order: places of text and problems, mixed by weight.

    Examples
    --------
    >>> from rntp.models import make_tokenizer
    >>> from rntp.recipe import CorpusSpec, ModelSpec, RlSpec, ThoughtSpec
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["import json def return"])
    >>> corpus = CorpusSpec("generator", ("python-library",), options={"pattern": "json/*.py"})
    >>> len(choose_rows(Recipe(corpus=corpus, rl=RlSpec(steps=2, prompts_per_step=3)), None, words))
    6
    """
    spec = recipe.positions

    def text() -> Iterator[Place]:
        read = _chunks(recipe, tokenizer)
        found = places(read, spec, recipe.seed) if positions is None else places_at(read, spec, positions)
        return itertools.islice(found, spec.distinct or None)

    longest = getattr(getattr(model, "config", None), "max_position_embeddings", None) or sys.maxsize
    asked: dict[str, Iterable[Problem | EpisodeSeed]] = {}
    for one in recipe.environments:
        if one.source:
            asked[one.name] = episode_seeds(one, recipe.seed)
            continue
        room = longest - recipe.thought.budget - one.answer_tokens - 2
        asked[one.name] = problems(one, tokenizer, room, recipe.folder, recipe.seed)
    return mixed_rows(Renewed(text), asked, _weights(recipe), row_count(recipe), recipe.seed)


def next_token_documents(recipe: Recipe, tokenizer: Any) -> Sequence[tuple[int, ...]]:
    """Documents of the next-token term, of the kinds that places are taken from.

    Examples
    --------
    >>> list(next_token_documents(Recipe(), None))
    []
    """
    rl, kinds = recipe.rl, recipe.positions.kinds
    if not rl.ntp_weight:
        return ()

    def text() -> Iterator[tuple[int, ...]]:
        read = chunks(read_documents(recipe, TEXT), tokenizer, rl.ntp_tokens)
        return (one.ids for one in read if len(one.ids) > 1 and wanted(one.kind, kinds))

    return Lazy(Renewed(text), rl.steps * rl.ntp_sequences)
