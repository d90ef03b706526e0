"""Held-out places scored with and without thought, by the trained model and by those it is compared with.

Models are named by their role: ``policy`` (what was trained), ``base`` (what it began as, which is also the frozen
scorer), ``independent-scorer`` (trained apart), and any rival that was trained another way on as much, such as
``ntp-equal-tokens``. Each is loaded when its turn comes and dropped after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError
from rntp.controls import Measured, coverage, crossover, drafted_fraction, settle, swapped
from rntp.corpus import chunks, split
from rntp.intervals import estimate
from rntp.measures import measure_for
from rntp.positions import Place, places
from rntp.recipe import Recipe
from rntp.reward import scored_mask
from rntp.sampling import Sampling, Thought, Thoughts, sample_thoughts
from rntp.scoring import Rollouts, ScoreOptions, padded, score_shared
from rntp.solvers import Asked

Floats = NDArray[np.float64]
Roles = Mapping[str, Callable[[], Any]]

#: Roles whose model is scored on the policy's thoughts -> the control it is.
SCORERS = {"base": "frozen-scorer", "independent-scorer": "independent-scorer"}
#: Documents that places are spread over, where the corpus has as many.
SPREAD = 8
#: Whose likelihood without a thought a gain is over, by role.
BASELINES = {"policy": "the trained model without a thought", "base": "the model before RL without a thought"}
#: Names of the thirds of the places by the loss of the base without a thought.
THIRDS = ("easy", "medium", "hard")


def places_of(recipe: Recipe, model: Any, tokenizer: Any, count: int, *, held_out: bool = True) -> list[Place]:
    """Choose places by a recipe's own rule, each once, and at most an eighth of them from one document.

    Examples
    --------
    >>> from rntp.models import make_tokenizer
    >>> from rntp.recipe import CorpusSpec, ModelSpec, ThoughtSpec
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["import json def return"])
    >>> corpus = CorpusSpec("generator", ("python-library",), options={"pattern": "json/*.py"}, held_out_fraction=0.5)
    >>> len(places_of(Recipe(corpus=corpus), None, words, 3))
    3
    """
    if recipe.corpus is None:
        raise InputError("evaluation: the recipe has no [corpus] to take places from")
    spec = recipe.positions
    read = split(recipe.corpus, recipe.folder, recipe.seed, held_out=held_out)
    cut = chunks(read, tokenizer, spec.context_tokens + spec.gold_tokens)
    found: list[Place] = []
    spare: list[Place] = []
    taken: Counter[str] = Counter()
    for place in places(cut, spec, recipe.seed, measure_for(recipe, model, tokenizer)):
        taken[place.document] += 1
        if taken[place.document] <= max(1, count // SPREAD):
            found.append(place)
        elif len(spare) < count:
            spare.append(place)
        if len(found) == count:
            break
    return [*found, *spare[: count - len(found)]]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the gold, a row per thought."""

    sums: Floats
    log_probs: Floats
    right: NDArray[np.bool_]


def gold_scores(model: Any, places: Sequence[Place], thoughts: Sequence[Thought] | None, sampling: Sampling) -> Scores:
    """Score the gold of places after thoughts, or without any.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> place = Place((1, 2), (3, 4, 5), "a", 2)
    >>> gold_scores(model, [place], [(7, 8), (7, 6, 8)], Sampling(7, 8, 3)).log_probs.shape
    (2, 3)
    """
    each = 1 if thoughts is None else len(thoughts) // len(places)
    repeated = [place for place in places for _ in range(each)]
    # a place without a thought is scored as the baseline of an empty row: its one token is given, not predicted
    heads = [(sampling.end_id,)] * len(repeated) if thoughts is None else list(thoughts)
    rollouts = Rollouts([p.context_ids for p in repeated], heads, [p.gold_ids for p in repeated])
    options = ScoreOptions(
        sampling.temperature, sampling.rows_per_pass, with_baseline=thoughts is None, with_thoughts=False
    )
    scored = score_shared(model, rollouts, options)
    gold = scored.gold if thoughts is not None or scored.baseline is None else scored.baseline
    log_probs = gold.log_probs.double().cpu().numpy()
    mask = scored_mask([len(place.gold_ids) for place in repeated], sampling.skip_first_gold)
    guesses = gold.argmax_ids.cpu().numpy()
    ids = padded([place.gold_ids for place in repeated])[0].numpy()
    asked = mask & ((np.cumsum(mask, axis=1) <= sampling.success_tokens) | (sampling.success_tokens == 0))
    right = ((guesses == ids) | ~asked).all(axis=1) & asked.any(axis=1)
    counted = np.where(mask, log_probs, 0.0)
    return Scores(counted.sum(axis=1), counted, right)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured at held-out places."""

    document: dict[str, Any]
    thoughts: Thoughts
    with_thought: Scores
    without: Scores


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one role gave: sums per place, in nats."""

    none: Floats
    own_thought: Floats
    own_right: NDArray[np.int64]
    policy_thought: Floats | None = None


def _per_place(values: NDArray[Any], n_places: int) -> Floats:
    return np.asarray(values.reshape(n_places, -1).mean(axis=1), dtype=float)


def _turn(model: Any, places: Sequence[Place], sampling: Sampling, given: Thoughts | None) -> _Turn:
    """Let a model that is compared with think for itself, and score the policy's thoughts where it is a scorer."""
    n = len(places)
    own = sample_thoughts(model, [place.context_ids for place in places], sampling)
    scores = gold_scores(model, places, own.rows, sampling)
    other = None if given is None else _per_place(gold_scores(model, places, given.rows, sampling).sums, n)
    none = gold_scores(model, places, None, sampling).sums
    return _Turn(none, _per_place(scores.sums, n), scores.right.reshape(n, -1).sum(axis=1), other)


def evaluate(
    roles: Roles,
    places: Sequence[Place],
    sampling: Sampling,
    trained_places: Sequence[Place] = (),
    progress: Callable[[str], None] = lambda _role: None,
) -> Evaluation:
    """Measure what thinking gains at held-out places, and hold it against the controls.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> some = [Place((1, 2), (3, 4, 5), name, 2) for name in "abc"]
    >>> out = evaluate({"policy": lambda: model}, some, Sampling(7, 8, 3)).document
    >>> out["places"], sorted(out["settled"]["controls"]), out["loss"]["base"]
    (3, ['empty-thought', 'overlap', 'swapped-thought'], None)
    """
    if not places:
        raise InputError("evaluation: no held-out place was found")
    progress("policy")
    policy = roles["policy"]()
    n = len(places)
    thoughts = sample_thoughts(policy, [place.context_ids for place in places], sampling)
    with_thought = gold_scores(policy, places, thoughts.rows, sampling)
    without = gold_scores(policy, places, None, sampling)
    rivals = _rivals(policy, places, thoughts, sampling)
    repeats = _gain(policy, trained_places, sampling) if trained_places else None
    del policy
    turns: dict[str, _Turn] = {}
    for role, load in roles.items():
        if role != "policy":
            progress(role)
            turns[role] = _turn(load(), places, sampling, thoughts if role in SCORERS else None)
    own = _per_place(with_thought.sums, n)
    none, baseline = without.sums, BASELINES["policy"]
    if "base" in turns:
        rivals["untrained-thought"] = turns["base"].own_thought
        if turns["base"].none.mean() > none.mean():
            none, baseline = turns["base"].none, BASELINES["base"]
    for role, turn in turns.items():
        if role not in SCORERS:
            rivals[role] = turn.none if turn.none.mean() > turn.own_thought.mean() else turn.own_thought
    scorers = {
        SCORERS[role]: turn.policy_thought - turn.none
        for role, turn in turns.items()
        if turn.policy_thought is not None
    }
    drafted = _drafted(places, thoughts)
    documents, repeated = (tuple(place.document for place in some) for some in (places, trained_places))
    document = {
        "places": n,
        "documents": len(set(documents)),
        "thoughts_per_place": sampling.thoughts,
        "settled": settle(Measured(documents, own, none, rivals, scorers, drafted, repeats, repeated, baseline)),
        "loss": _losses(places, sampling, own, without.sums, turns),
        "classes": _classes(places, sampling, own, (without.sums, none), turns.get("base")),
        "thoughts": _lengths(thoughts, with_thought, none),
        "pass_at_k": _curve(
            with_thought.right.reshape(n, -1).sum(axis=1),
            turns["base"].own_right if "base" in turns else None,
            sampling.thoughts,
        ),
    }
    return Evaluation(document, thoughts, with_thought, without)


def evaluate_answers(roles: Roles, asked: Mapping[str, Asked], sampling: Sampling) -> dict[str, dict[str, Any]]:
    """Measure pass@k in environments, by the policy and by the model that it began as.

    Examples
    --------
    >>> evaluate_answers({}, {}, Sampling(1, 2, 3))
    {}
    """
    models = {role: roles[role]() for role in ("policy", "base") if role in roles and asked}
    out = {}
    for name, some in asked.items():
        scores = {role: some.solve(model, slice(None)) for role, model in models.items()}
        whole = np.all([~np.isnan(score).any(axis=1) for score in scores.values()], axis=0)
        right = {role: (score[whole] >= 1).sum(axis=1) for role, score in scores.items()}
        out[name] = {
            "tasks": some.seen,
            "problems": int(whole.sum()),
            "left_out": int((~whole).sum()),
            "mean_score": {role: float(score[whole].mean()) for role, score in scores.items()} if whole.any() else {},
            **(_curve(right["policy"], right.get("base"), sampling.thoughts) if whole.any() else {}),
        }
    return out


def _rivals(policy: Any, places: Sequence[Place], thoughts: Thoughts, sampling: Sampling) -> dict[str, Floats]:
    """What the policy reaches with an empty thought, and with one from another document."""
    n = len(places)
    empty = [(sampling.start_id, sampling.end_id)] * n
    out = {"empty-thought": gold_scores(policy, places, empty, sampling).sums}
    other = swapped([place.document for place in places])
    if (other != np.arange(n)).all():
        each = len(thoughts.rows) // n
        rows = [thoughts.rows[place * each + turn] for place in other for turn in range(each)]
        out["swapped-thought"] = _per_place(gold_scores(policy, places, rows, sampling).sums, n)
    return out


def _gain(policy: Any, places: Sequence[Place], sampling: Sampling) -> Floats:
    own = sample_thoughts(policy, [place.context_ids for place in places], sampling)
    with_thought = _per_place(gold_scores(policy, places, own.rows, sampling).sums, len(places))
    return with_thought - gold_scores(policy, places, None, sampling).sums


def _drafted(places: Sequence[Place], thoughts: Thoughts) -> Floats:
    each = len(thoughts.rows) // len(places)
    shares = [
        drafted_fraction(row, places[number // each].gold_ids, places[number // each].context_ids)
        for number, row in enumerate(thoughts.rows)
    ]
    return _per_place(np.array(shares), len(places))


def _scored_tokens(places: Sequence[Place], sampling: Sampling) -> int:
    return sum(max(0, len(place.gold_ids) - sampling.skip_first_gold) for place in places)


def _losses(
    places: Sequence[Place], sampling: Sampling, own: Floats, without: Floats, turns: Mapping[str, _Turn]
) -> dict[str, Any]:
    """Held-out next-token loss of every role, with its own thought and without."""
    tokens = _scored_tokens(places, sampling)

    def loss(sums: Floats) -> float:
        return float(-sums.sum() / tokens)

    others = {
        role: {"without": loss(turn.none), "with_thought": loss(turn.own_thought)} for role, turn in turns.items()
    }
    return {
        "unit": "nats per token", "tokens": tokens, "base": None,
        "policy": {"without": loss(without), "with_thought": loss(own)}, **others,
    }  # fmt: skip


def _classes(
    places: Sequence[Place], sampling: Sampling, own: Floats, none: tuple[Floats, Floats], base: _Turn | None
) -> dict[str, dict[str, Any]]:
    """Losses and gain by kind of document, and by thirds of the loss without a thought.

    ``none`` is without a thought: by the trained model, and the baseline of all gains.
    """
    without, baseline = none
    reference = without if base is None else base.none
    ranks = np.argsort(np.argsort(-reference, kind="stable"), kind="stable")
    thirds = [THIRDS[int(rank * len(THIRDS) / len(places))] for rank in ranks]
    members: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        for name in (f"kind: {place.kind or 'none'}", f"difficulty: {thirds[number]}"):
            members.setdefault(name, []).append(number)
    out = {}
    kinds = sorted(name for name in members if name.startswith("kind"))
    for name in [*kinds, *(name for third in THIRDS if (name := f"difficulty: {third}") in members)]:
        rows = members[name]
        some = [places[row] for row in rows]
        tokens = max(1, _scored_tokens(some, sampling))
        gain = estimate(own[rows] - baseline[rows], [place.document for place in some])
        out[name] = {
            "places": len(rows), "loss_without": float(-without[rows].sum() / tokens),
            "loss_with_thought": float(-own[rows].sum() / tokens), "gain": gain.document(),
            "loss_base": None if base is None else float(-base.none[rows].sum() / tokens),
        }  # fmt: skip
    return out


def _lengths(thoughts: Thoughts, with_thought: Scores, baseline: Floats) -> dict[str, Any]:
    """Tokens of thoughts between their markers, and what those gain that did not end by themselves."""
    tokens = np.array([len(row) - 2 for row in thoughts.rows], dtype=float)
    gain = with_thought.sums - np.repeat(baseline, len(thoughts.rows) // len(baseline))
    low, middle, high = np.quantile(tokens, [0.05, 0.5, 0.95])
    cut = thoughts.truncated
    return {
        "mean_tokens": float(tokens.mean()), "p05": float(low), "p50": float(middle), "p95": float(high),
        "truncated_fraction": float(cut.mean()),
        "gain_truncated": float(gain[cut].mean()) if cut.any() else None,
        "gain_complete": float(gain[~cut].mean()) if not cut.all() else None,
    }  # fmt: skip


def _curve(right: NDArray[np.int64], base: NDArray[np.int64] | None, n_samples: int) -> dict[str, Any]:
    trained = coverage(right, n_samples)
    before = None if base is None else coverage(base, n_samples)
    rows = [{"k": k, "policy": trained[k], "base": None if before is None else before[k]} for k in trained]
    return {"curve": rows, "crossover_k": None if before is None else crossover(before, trained)}
