"""What a model makes of held-out documents, one by one: answers, likelihoods, and how often one of many is right.

The same thoughts, sampled once, are asked for everything: whether the answer after them is right, what they are worth
to a frozen scorer, and what to the model itself. Without a thought the model gets the first token of the continuation,
so that it cannot begin one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError
from rntp.controls import coverage
from rntp.evaluate import gold_scores
from rntp.gap import oracle_thoughts, words_of
from rntp.must_think.families import family_of
from rntp.must_think.family import checked
from rntp.must_think.verified import right_answer
from rntp.positions import Place
from rntp.sampling import Sampling, answers_after, sample_thoughts
from rntp.verify.task import Task
from rntp.verify.text import pattern_score

#: What is kept of every document.
MEASURES = (
    "right", "right_without", "thought_right", "gain_nats", "gap_nats", "own_with_nats", "own_without_nats",
)  # fmt: skip
#: Places at most where many thoughts are sampled, and rows of a pass.
_COVERED, _ROWS = 64, 128


@dataclass(frozen=True, slots=True)
class Asked:
    """Held-out places, what a right answer looks like at each, and how models are sampled."""

    tokenizer: Any
    places: Sequence[Place]
    patterns: Sequence[str]
    sampling: Sampling

    @property
    def answer_tokens(self) -> int:
        """Room for an answer: the longest continuation."""
        return max(len(one.gold_ids) for one in self.places) + 1

    def first(self, count: int) -> Asked:
        """Some of the places."""
        return replace(self, places=self.places[:count], patterns=self.patterns[:count])


def asked_at(tokenizer: Any, places: Sequence[Place], sampling: Sampling) -> Asked:
    """Say what is right at places.

    Examples
    --------
    >>> asked_at(None, [], Sampling(1, 2, 3))
    Traceback (most recent call last):
    computeledger.errors.InputError: outcomes: no held-out place was found
    """
    if not places:
        raise InputError("outcomes: no held-out place was found")
    patterns = [right_answer(family_of(one.document), words_of(tokenizer, one.context_ids)) for one in places]
    return Asked(tokenizer, places, patterns, replace(sampling, rows_per_pass=_ROWS))


def _right(asked: Asked, texts: Sequence[str]) -> NDArray[np.float64]:
    """Which answers are right, place after place."""
    each = len(texts) // len(asked.places)
    wanted = [Task("", "text", {"answer": pattern}) for pattern in asked.patterns]
    return np.array([pattern_score(wanted[number // each], text) for number, text in enumerate(texts)])


def _thought(model: Any, asked: Asked, samples: int) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
    """Thoughts at places; whether the answer after each is right, and whether the thought makes no slip."""
    words, places = asked.tokenizer, asked.places
    found = sample_thoughts(model, [one.context_ids for one in places], replace(asked.sampling, thoughts=samples))
    prompts = [[*places[number // samples].context_ids, *row] for number, row in enumerate(found.rows)]
    texts = answers_after(model, words, prompts, asked.sampling, asked.answer_tokens)
    marks = [
        checked(family_of(place.document), words_of(words, place.context_ids), words_of(words, row[1:-1])).steps
        for place, row in zip((one for one in places for _ in range(samples)), found.rows, strict=True)
    ]
    return found, _right(asked, texts), np.array(marks, dtype=float)


def outcomes(model: Any, scorer: Any, asked: Asked, samples: int) -> dict[str, Any]:
    """Measure a model.

    Examples
    --------
    >>> from rntp.models import make_model, make_tokenizer
    >>> from rntp.recipe import ModelSpec, ThoughtSpec
    >>> context, gold = "the gannet left york on tue . first 5 sailing , .", "at last it came to hull on sun"
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), [f"{context} {gold}"])
    >>> spec = ModelSpec(hidden_size=8, heads=1, kv_heads=1, layers=1, intermediate_size=8)
    >>> start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
    >>> place = Place(tuple(words(context)["input_ids"]), tuple(words(gold)["input_ids"]), "ship's log 0", 9)
    >>> model = make_model(spec, words).eval()
    >>> sampling = Sampling(start, end, 4, thoughts=1, stop_ids=(words.eos_token_id,))
    >>> found = outcomes(model, model, asked_at(words, [place], sampling), 2)
    >>> found["per_document"]["right"], found["coverage"]["thought"]
    ([0.0], {'1': 0.0, '2': 0.0})
    """
    places, sampling = asked.places, asked.sampling
    thoughts, right, worked = _thought(model, asked, 1)
    silent = [[*one.context_ids, one.gold_ids[0]] for one in places]
    begun = asked.tokenizer.decode([places[0].gold_ids[0]])
    said = answers_after(model, asked.tokenizer, silent, sampling, asked.answer_tokens)
    none, oracle, given = (
        gold_scores(scorer, places, rows, sampling).sums
        for rows in (None, oracle_thoughts(asked.tokenizer, places, sampling), thoughts.rows)
    )
    own_with, own_without = (gold_scores(model, places, rows, sampling).sums for rows in (thoughts.rows, None))
    without = _right(asked, [f"{begun} {text}" for text in said])
    values = (right, without, worked, given - none, oracle - none, own_with, own_without)
    out: dict[str, Any] = {
        "places": len(places), "per_document": dict(zip(MEASURES, (one.tolist() for one in values), strict=True)),
        "thought_tokens": float(np.mean([len(row) - 2 for row in thoughts.rows])),
        "truncated_fraction": float(thoughts.truncated.mean()),
    }  # fmt: skip
    return {**out, "coverage": _coverage(model, asked.first(_COVERED), samples) if samples else {}}


def _coverage(model: Any, asked: Asked, samples: int) -> dict[str, dict[str, float]]:
    """How often one of k answers is right, and one of k thoughts."""
    _, right, worked = _thought(model, asked, samples)
    return {
        name: {str(k): one for k, one in coverage(values.reshape(-1, samples).sum(axis=1).astype(int), samples).items()}
        for name, values in (("answer", right), ("thought", worked))
    }
