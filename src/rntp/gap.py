"""How much of what thinking can gain a model has learnt: its thoughts between no thought and one that makes no slip.

Everything is scored by the model before RL, kept frozen, and again by a judge that was trained apart. The first gold
token is left out of every score, and an empty thought, a thought of another document and plain training for as long are
reported beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError
from rntp.evaluate import gold_scores
from rntp.intervals import estimate
from rntp.must_think.families import family_of
from rntp.must_think.family import checked, oracle
from rntp.positions import Place
from rntp.sampling import Sampling, Thought, sample_thoughts

Floats = NDArray[np.float64]

#: Least share of the words that a judge must know [-].
_SHARED = 0.8
#: What the runs are to reach: at least, or below.
BARS = {
    "gap_closed_fraction": ("at least", 0.80),
    "swapped_thought_loss_fraction": ("at least", 0.80),
    "independent_scorer_fraction": ("at least", 0.85),
    "ntp_equal_time_gap_closed_fraction": ("below", 0.15),
    "empty_thought_gap_closed_fraction": ("below", 0.02),
}


@dataclass(frozen=True, slots=True)
class Reader:
    """A model with its tokenizer, asked in the tokens of another one."""

    model: Any
    ids: Mapping[int, int]

    def translated(self, rows: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Say rows of tokens in its own."""
        return [tuple(self.ids.get(one, one) for one in row) for row in rows]

    def sums(self, places: Sequence[Place], thoughts: Sequence[Thought] | None, sampling: Sampling) -> Floats:
        """Score the gold of places."""
        contexts = self.translated([one.context_ids for one in places])
        golds = self.translated([one.gold_ids for one in places])
        own = [
            Place(context, gold, one.document, one.position, one.kind)
            for context, gold, one in zip(contexts, golds, places, strict=True)
        ]
        return gold_scores(self.model, own, None if thoughts is None else self.translated(thoughts), sampling).sums


def reader(model: Any, tokenizer: Any, common: Any) -> Reader:
    """Let a model be asked in the tokens of another one's tokenizer.

    Examples
    --------
    >>> class Words(dict):
    ...     def get_vocab(self):
    ...         return self
    >>> dict(reader(None, Words(a=0, b=1), Words(a=1, b=0)).ids)
    {1: 0, 0: 1}
    """
    own, others = tokenizer.get_vocab(), common.get_vocab()
    if own == others:
        return Reader(model, {})
    unknown = getattr(tokenizer, "unk_token_id", None)
    if set(own) != set(others) and (unknown is None or len(own.keys() & others.keys()) < _SHARED * len(others)):
        raise InputError("judge: its tokenizer does not know the same words")
    return Reader(model, {number: own.get(word, unknown) for word, number in others.items()})


def partners(places: Sequence[Place]) -> NDArray[np.int64]:
    """Give every place the next one of its kind, whose thought it gets.

    Examples
    --------
    >>> partners([Place((1,), (2,), "", 1, kind) for kind in "abab"]).tolist()
    [2, 3, 0, 1]
    """
    members: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        members.setdefault(place.kind, []).append(number)
    out = np.arange(len(places))
    for some in members.values():
        out[some] = np.roll(some, -1)
    return out


def words_of(tokenizer: Any, ids: Sequence[int]) -> str:
    """Read tokens as text, without the markers of text and thought.

    Examples
    --------
    >>> from rntp.models import make_tokenizer
    >>> from rntp.recipe import ModelSpec, ThoughtSpec
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["a rose"])
    >>> words_of(words, words("<think> a rose </think>")["input_ids"])
    'a rose'
    """
    text: str = tokenizer.decode(list(ids), skip_special_tokens=True)
    return text.strip()


def oracle_thoughts(tokenizer: Any, places: Sequence[Place], sampling: Sampling) -> list[Thought]:
    """Make the thought without a slip for every place.

    Examples
    --------
    >>> oracle_thoughts(None, [], Sampling(1, 2, 3))
    []
    """
    out = []
    for place in places:
        said = oracle(family_of(place.document), words_of(tokenizer, place.context_ids))
        ids = tokenizer(said, add_special_tokens=False)["input_ids"]
        out.append((sampling.start_id, *ids, sampling.end_id))
    return out


@dataclass(frozen=True, slots=True)
class Thinker:
    """A model's own thoughts at places, and what is right in them."""

    thoughts: tuple[Thought, ...]
    shares: dict[str, float]


def think(model: Any, tokenizer: Any, places: Sequence[Place], sampling: Sampling) -> Thinker:
    """Let a model think at places, and check every thought word by word.

    Examples
    --------
    >>> from rntp.models import make_model, make_tokenizer
    >>> from rntp.recipe import ModelSpec, ThoughtSpec
    >>> context = "the gannet left york on tue . first 5 sailing , ."
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), [context])
    >>> spec = ModelSpec(hidden_size=8, heads=1, kv_heads=1, layers=1, intermediate_size=8)
    >>> start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
    >>> place = Place(tuple(words(context)["input_ids"]), (), "ship's log 0", 9)
    >>> think(make_model(spec, words).eval(), words, [place], Sampling(start, end, 4)).shares["steps_right_fraction"]
    0.0
    """
    found = sample_thoughts(model, [place.context_ids for place in places], replace(sampling, thoughts=1))
    marks = [
        checked(family_of(place.document), words_of(tokenizer, place.context_ids), words_of(tokenizer, row[1:-1]))
        for place, row in zip(places, found.rows, strict=True)
    ]
    style, steps, conclusion = (float(np.mean([mark[part] for mark in marks])) for part in range(3))
    shares = {
        "worked_style_fraction": style, "steps_right_fraction": steps, "conclusion_right_fraction": conclusion,
        "right_given_style_fraction": steps / style if style else 0.0,
        "truncated_fraction": float(found.truncated.mean()),
        "mean_tokens": float(np.mean([len(row) - 2 for row in found.rows])),
    }  # fmt: skip
    return Thinker(found.rows, shares)


@dataclass(frozen=True, slots=True)
class Models:
    """What is compared; all speak the tokens of one tokenizer but the judge."""

    tokenizer: Any
    base: Any
    policy: Any
    judge: Reader | None
    rivals: Mapping[str, Any]


def measure(models: Models, places: Sequence[Place], sampling: Sampling) -> dict[str, Any]:
    """Measure the table of an experiment.

    Examples
    --------
    >>> measure(Models(None, None, None, None, {}), [], Sampling(1, 2, 3))
    Traceback (most recent call last):
    computeledger.errors.InputError: experiment: no held-out place was found
    """
    if not places:
        raise InputError("experiment: no held-out place was found")
    documents = [place.document for place in places]
    frozen = reader(models.base, models.tokenizer, models.tokenizer)
    before = think(models.base, models.tokenizer, places, sampling)
    after = think(models.policy, models.tokenizer, places, sampling)
    said: dict[str, Sequence[Thought] | None] = {
        "no thought": None,
        "empty thought": [(sampling.start_id, sampling.end_id)] * len(places),
        "thought before RL": before.thoughts,
        "thought after RL": after.thoughts,
        "swapped thought": [after.thoughts[other] for other in partners(places)],
        "oracle thought": oracle_thoughts(models.tokenizer, places, sampling),
    }
    scored = {name: frozen.sums(places, rows, sampling) for name, rows in said.items()}
    none, full = scored["no thought"], scored["oracle thought"]
    gap = float((full - none).mean())
    if gap <= 0:
        raise InputError(
            f"the thought without a slip gains {gap:.3f} nat per continuation before RL: pretraining has not taught to "
            "read one; give it more steps"
        )
    tokens = sum(len(place.gold_ids) - sampling.skip_first_gold for place in places)
    gain = scored["thought after RL"] - none

    def share(values: Floats) -> dict[str, float | str | None]:
        return estimate(values / gap, documents).document()

    intervals = {
        "gap_closed_fraction": share(gain),
        "gap_closed_before_fraction": share(scored["thought before RL"] - none),
        "empty_thought_gap_closed_fraction": share(scored["empty thought"] - none),
    }
    sums = {"frozen scorer": _means(scored)}
    out: dict[str, Any] = {
        "places": len(places), "scored_tokens": tokens, "gap_nats": gap,
        "gain_nats_per_token": float(gain.sum() / tokens),
        "swapped_thought_loss_fraction": _ratio(scored["thought after RL"] - scored["swapped thought"], gain),
    }  # fmt: skip
    if models.judge is not None:
        judged = {name: models.judge.sums(places, rows, sampling) for name, rows in said.items()}
        sums["judge"] = _means(judged)
        out["independent_scorer_fraction"] = _ratio(judged["thought after RL"] - judged["no thought"], gain)
    for name, rival in models.rivals.items():
        own = think(rival, models.tokenizer, places, sampling)
        mine = Reader(rival, {})
        alone, thinking = mine.sums(places, None, sampling), mine.sums(places, own.thoughts, sampling)
        sums[name] = _means({"no thought": alone, "its own thought": thinking})
        intervals[f"{name}, no thought"] = share(alone - none)
        intervals[f"{name}, its own thought"] = share(thinking - none)
    mine = Reader(models.policy, {})
    own_words = {name: mine.sums(places, said[name], sampling) for name in ("no thought", "thought after RL")}
    sums["policy"] = _means(own_words)
    intervals["own_gap_closed_fraction"] = share(own_words["thought after RL"] - none)
    out["no_thought_loss_change_fraction"] = float(own_words["no thought"].mean() / none.mean()) - 1
    return {
        **out, "intervals": intervals, "nats_per_continuation": sums,
        "thoughts": {"before RL": before.shares, "after RL": after.shares},
        "by_kind": _by_kind(places, gain, full - none),
    }  # fmt: skip


def _ratio(part: Floats, gain: Floats) -> float:
    """Share of a gain; 0 where there is none to lose or to confirm."""
    return float(part.mean() / gain.mean()) if gain.mean() > 0 else 0.0


def _means(sums: Mapping[str, Floats]) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in sums.items()}


def _by_kind(places: Sequence[Place], gain: Floats, room: Floats) -> dict[str, dict[str, float]]:
    """Gap closed by kind of document."""
    kinds = np.array([place.kind for place in places])
    return {
        kind: {
            "places": int((kinds == kind).sum()),
            "gap_closed_fraction": float(gain[kinds == kind].mean() / room[kinds == kind].mean()),
        }
        for kind in sorted(set(kinds.tolist()), key=lambda one: (len(one), one))
    }


def held_against(found: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Hold fractions against what is to be reached.

    Examples
    --------
    >>> held_against({"gap_closed_fraction": 0.9})
    {'gap_closed_fraction': {'value': 0.9, 'bar': 'at least 0.8', 'reached': True}}
    """
    return {
        name: {
            "value": found[name],
            "bar": f"{how} {bar:g}",
            "reached": found[name] >= bar if how == "at least" else found[name] < bar,
        }
        for name, (how, bar) in BARS.items()
        if name in found
    }
