"""Where a model thinks, and how often one of many thoughts is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rntp.controls import coverage, crossover
from rntp.evaluate import gold_scores
from rntp.gap import words_of
from rntp.must_think.families import family_of
from rntp.must_think.family import checked
from rntp.positions import Place
from rntp.sampling import Sampling, sample_thoughts


def habit(model: Any, scorer: Any, places: Sequence[Place], sampling: Sampling) -> dict[str, float]:
    """Ask a model to think at places, where it may also say nothing, and what that gains.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> sorted(habit(model, model, [Place((1, 2), (3, 4), "a", 2)], Sampling(7, 8, 3)))
    ['gain_nats', 'mean_tokens', 'thinks_fraction']
    """
    found = sample_thoughts(model, [place.context_ids for place in places], replace(sampling, thoughts=1))
    lengths = np.array([len(row) - 2 for row in found.rows])
    with_thought, without = (gold_scores(scorer, places, rows, sampling).sums for rows in (found.rows, None))
    return {
        "thinks_fraction": float(np.mean(lengths > 0)),
        "mean_tokens": float(lengths.mean()),
        "gain_nats": float((with_thought - without).mean()),
    }


def solved_fractions(
    model: Any, tokenizer: Any, places: Sequence[Place], sampling: Sampling, samples: int
) -> dict[int, float]:
    """Measure how often one of k thoughts makes no slip.

    Examples
    --------
    >>> from rntp.models import make_model, make_tokenizer
    >>> from rntp.recipe import ModelSpec, ThoughtSpec
    >>> context = "the gannet left york on tue . first 5 sailing , ."
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), [context])
    >>> spec = ModelSpec(hidden_size=8, heads=1, kv_heads=1, layers=1, intermediate_size=8)
    >>> start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
    >>> place = Place(tuple(words(context)["input_ids"]), (), "ship's log 0", 9)
    >>> solved_fractions(make_model(spec, words).eval(), words, [place], Sampling(start, end, 4), 2)
    {1: 0.0, 2: 0.0}
    """
    found = sample_thoughts(model, [place.context_ids for place in places], replace(sampling, thoughts=samples))
    right = np.zeros(len(places), dtype=np.int64)
    for number, row in enumerate(found.rows):
        place = places[number // samples]
        context, thought = words_of(tokenizer, place.context_ids), words_of(tokenizer, row[1:-1])
        right[number // samples] += checked(family_of(place.document), context, thought).steps
    return coverage(right, samples)


def coverage_of(
    base: Any, policy: Any, tokenizer: Any, places: Sequence[Place], sampling: Sampling, samples: int
) -> dict[str, Any]:
    """Hold the thoughts of a model after RL against many of the model before.

    Examples
    --------
    >>> coverage_of(None, None, None, [], Sampling(1, 2, 3), 0)
    {'before': {}, 'after': {}, 'crossover': None}
    """
    if not samples:
        return {"before": {}, "after": {}, "crossover": None}
    before, after = (solved_fractions(one, tokenizer, places, sampling, samples) for one in (base, policy))
    return {"before": before, "after": after, "crossover": crossover(before, after)}
