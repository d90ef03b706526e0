"""Thoughts sampled after contexts, and answers after thoughts, checked by the verifiers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.errors import InputError
from rntp.episodes import Episodes
from rntp.judges.answers import Checks
from rntp.mixture import Problem
from rntp.recipe import Recipe
from rntp.scoring import pad_of, padded
from rntp.turns import Bounds, Conversations, Draft

Thought = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How thoughts are sampled and scored."""

    start_id: int
    end_id: int
    budget: int
    thoughts: int = 4
    temperature: float = 1.0
    skip_first_gold: int = 1
    success_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    rows_per_pass: int = 64
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Thoughts:
    """Thoughts sampled at places, place after place."""

    rows: tuple[Thought, ...]
    truncated: NDArray[np.bool_]


def _generated(
    model: Any, prompts: Sequence[Sequence[int]], sampling: Sampling, stops: set[int], shape: tuple[int, int]
) -> Iterator[list[int]]:
    """Tokens sampled after prompts, up to the first stop; ``shape`` is rows to each prompt, and tokens of a row."""
    each, tokens = shape
    places = max(1, sampling.rows_per_pass // each)
    device = next(model.parameters()).device
    for start in range(0, len(prompts), places):
        ids, mask = padded(prompts[start : start + places], device, left=True, pad_id=pad_of(model))
        with torch.no_grad():
            out = model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=True, top_k=0, top_p=1.0,
                temperature=sampling.temperature, num_return_sequences=each, eos_token_id=sorted(stops),
                pad_token_id=min(stops),
            )  # fmt: skip
        for row in out[:, ids.shape[1] :].tolist():
            last = next((place for place, token in enumerate(row) if token in stops), len(row) - 1)
            yield row[: last + 1]


@contextmanager
def _seeded(model: Any, seed: int) -> Iterator[None]:
    """Draws of a seed; the caller's random state is left as it was."""
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def sample_thoughts(
    model: Any, contexts: Sequence[Sequence[int]], sampling: Sampling, begun: Sequence[Sequence[int]] = ()
) -> Thoughts:
    """Let a model think after contexts, or go on with thoughts of which the first tokens are given.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> found = sample_thoughts(model, [[1, 2], [3]], Sampling(start_id=7, end_id=8, budget=3, thoughts=2))
    >>> [(row[0], row[-1], len(row) <= 5) for row in found.rows]
    [(7, 8, True), (7, 8, True), (7, 8, True), (7, 8, True)]
    >>> [row[:3] for row in sample_thoughts(model, [[1, 2]], Sampling(7, 8, 3, thoughts=2), [[4, 5]]).rows]
    [(7, 4, 5), (7, 4, 5)]
    """
    stops = {sampling.end_id, *sampling.stop_ids}
    given = [(sampling.start_id, *head) for head in begun or [()] * len(contexts)]
    prompts = [[*context, *head] for context, head in zip(contexts, given, strict=True)]
    with _seeded(model, sampling.seed):
        found = list(_generated(model, prompts, sampling, stops, (sampling.thoughts, sampling.budget)))
    truncated = np.array([row[-1] != sampling.end_id for row in found], dtype=bool)
    ends = [(sampling.end_id,) if cut else () for cut in truncated]
    heads = [head for head in given for _ in range(sampling.thoughts)]
    rows = tuple((*head, *row, *end) for head, row, end in zip(heads, found, ends, strict=True))
    return Thoughts(rows, truncated)


def answers_after(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], sampling: Sampling, answer_tokens: int
) -> list[str]:
    """Let a model go on after prompts up to the end of the text, or so many tokens.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=32, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> answers_after(model, None, [[1, 2]], Sampling(7, 8, 3), 2)
    Traceback (most recent call last):
    computeledger.errors.InputError: answers: a token that ends the text is needed
    """
    if not sampling.stop_ids:
        raise InputError("answers: a token that ends the text is needed")
    with _seeded(model, sampling.seed + 1):
        answers = list(_generated(model, prompts, sampling, set(sampling.stop_ids), (1, answer_tokens)))
    return [tokenizer.decode(answer, skip_special_tokens=True) for answer in answers]


def solved(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    sampling: Sampling,
    answer_tokens: int,
    recipe: Recipe | None = None,
) -> NDArray[np.float64]:
    """Let a model think and answer, and check the answers; a recipe names the judges that are language models.

    Examples
    --------
    >>> from rntp.verify.task import Task
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=32, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> class Letters:
    ...     def decode(self, ids, **options):
    ...         return "never"
    >>> never = Problem(Task("1", "text", {"answer": "right", "scorer": "exact"}), (1, 2, 3))
    >>> solved(model, Letters(), [never], Sampling(7, 8, 3, thoughts=2, stop_ids=(0,)), 2).tolist()
    [[0.0, 0.0]]
    """
    thoughts = sample_thoughts(model, [problem.prompt_ids for problem in problems], sampling)
    each = sampling.thoughts
    prompts = [[*problems[number // each].prompt_ids, *row] for number, row in enumerate(thoughts.rows)]
    texts = answers_after(model, tokenizer, prompts, sampling, answer_tokens)
    pairs = [(problems[number // each].task, text) for number, text in enumerate(texts)]
    with Checks(recipe or Recipe(), {task.environment for task, _ in pairs}, next(model.parameters()).device) as checks:
        scores = checks.scores(pairs)
    return np.array([np.nan if score is None else score for score in scores], dtype=float).reshape(-1, each)


def played(
    model: Any, tokenizer: Any, episodes: Episodes, seeds: Sequence[int], sampling: Sampling, answer_tokens: int
) -> NDArray[np.float64]:
    """Let a model think and talk with an environment until every episode is over, several times for each seed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from rntp.models import make_model, make_tokenizer
    >>> from rntp.recipe import EnvironmentSpec, ModelSpec, ThoughtSpec
    >>> shape = ModelSpec(tokenizer="word", hidden_size=8, heads=2, kv_heads=1, intermediate_size=16, layers=1)
    >>> words = make_tokenizer(shape, ThoughtSpec(), ["where does the master of the heron live ? look irma hull"])
    >>> episodes = Episodes(EnvironmentSpec("a", source="rntp.must_think.lookup:make"), words, Path(), 99)
    >>> start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
    >>> how = Sampling(start, end, 4, thoughts=2, stop_ids=(words.eos_token_id,))
    >>> played(make_model(shape, words).eval(), words, episodes, [1, 3, 5], how, 2).shape
    (3, 2)
    """
    plays = episodes.begin([seed for seed in seeds for _ in range(sampling.thoughts)])
    drafts = [Draft(play.prompt_ids, sampling.start_id) for play in plays]
    context = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
    bounds = Bounds(context, sampling.budget + 1 + answer_tokens, sampling.start_id, sampling.stop_ids)
    talk = Conversations(drafts, [(episodes, play) for play in plays], tokenizer, bounds)
    endings = {*sampling.stop_ids, *episodes.stop_ids}
    with _seeded(model, sampling.seed):
        while active := talk.active:
            prompts = [drafts[place].whole for place in active]
            stops = {sampling.end_id, *sampling.stop_ids}
            for place, ids in zip(
                active, _generated(model, prompts, sampling, stops, (1, sampling.budget)), strict=True
            ):
                drafts[place].think(ids, sampling.end_id)
            prompts = [drafts[place].whole for place in active]
            for place, ids in zip(
                active, _generated(model, prompts, sampling, endings, (1, answer_tokens)), strict=True
            ):
                drafts[place].say(ids)
            talk.answer()
    if talk.fault:
        raise InputError(talk.fault)
    return np.array([play.value for play in plays]).reshape(-1, sampling.thoughts)
