"""Ways of one model to a success: limits of its thoughts, and samples with a vote or a verifier."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.economics.thinking.budget import BITES, budgets_left_out, closed_left_out, shipped_lengths
from computeledger.economics.thinking.interval import half_width
from computeledger.economics.thinking.level import (
    BY_FAMILY,
    BY_MODEL,
    OTHER_BENCHMARKS,
    LeftOut,
    Thinker,
    anchored_logit,
    level_logit,
    levels_left_out,
    shipped_levels,
    spread_left_out,
    success_of,
)
from computeledger.economics.thinking.measured import UNKNOWN, Measured, family_of, level_rows, measured
from computeledger.economics.thinking.samples import (
    correlation_by_kind,
    likenesses,
    tries_left_out,
    verified_right,
)
from computeledger.economics.thinking.votes import (
    ELSEWHERE,
    OWN,
    WrongAnswers,
    vote_right,
    votes_left_out,
)

#: Limits of thoughts that are compared, in mean lengths without a limit (a choice).
LIMITS = (0.25, 0.5, 1.0, 2.0, math.inf)
SINGLE, VOTE, VERIFIED, SIDE_BY_SIDE = "single", "vote", "verified", "verified, side by side"
#: Where one answer is written after the other; of other ways all are written side by side.
ONE_BY_ONE = (SINGLE, VERIFIED)


@dataclass(frozen=True, slots=True)
class Alike:
    """How alike two answers of a model to a task are.

    Attributes
    ----------
    correlation : float
        Of two answers [-].
    known : str
        What it rests on: the model's kind, its other benchmarks, or this one.
    """

    correlation: float
    known: str


@dataclass(frozen=True, slots=True)
class Level:
    """A model asked in one way, at its natural length.

    Attributes
    ----------
    name, kind, basis : str
        Of the model; of its training; where the success comes from (a source and place, or the law).
    success : float
        Of one answer [-].
    logit_half_width : float
        Of its 90 % interval [-].
    floor : float
        Success without thinking, which an answer that is cut short falls back to [-].
    natural_tokens : float
        Mean length without a limit [token].
    likeness : Alike
        How alike two answers to a task are.
    wrong : WrongAnswers
        How wrong answers differ.
    """

    name: str
    kind: str
    basis: str
    success: float
    logit_half_width: float
    floor: float
    natural_tokens: float
    likeness: Alike
    wrong: WrongAnswers


@dataclass(frozen=True, slots=True)
class Way:
    """A model, a limit of its thoughts, samples and how one is selected.

    Attributes
    ----------
    level : Level
        The model.
    budget_tokens : float
        Limit of an answer; infinite where there is none [token].
    samples : int
        Answers at most [-].
    selection : str
        One of ``single``, ``vote``, ``verified`` (one after another until one is accepted), and side by side.
    success, low, high : float
        Share of tasks, with the ends of its 90 % interval [-].
    answer_tokens, answers, wait_tokens : float
        Mean tokens of an answer [token]; answers per task [-]; tokens that follow one another until the task is
        done [token].
    """

    level: Level
    budget_tokens: float
    samples: int
    selection: str
    success: float
    low: float
    high: float
    answer_tokens: float
    answers: float
    wait_tokens: float


def known_levels(name: str, benchmark: str) -> list[tuple[Measured, float]]:
    """Published levels of a model on a benchmark, one per kind of answers, each with the half-width of its interval."""
    rows = [row for row in level_rows() if same_model(row.model, name) and row.benchmark == benchmark]
    return [(row, published_half_width(row.success)) for row in rows]


def same_model(published: str, name: str) -> bool:
    """Whether a published name and the last part of a model id mean one model.

    Examples
    --------
    >>> same_model("Llama-3.1-8B-Instruct", "Meta-Llama-3.1-8B"), same_model("Qwen3-8B", "Qwen3-8B-Base")
    (True, False)
    """
    return _plain(published) == _plain(name)


def _plain(name: str) -> str:
    return name.lower().removeprefix("meta-").removesuffix("-instruct").removesuffix("-it").replace(".", "-")


@functools.cache
def _published_twice() -> float:
    """Half-width of a 90 % interval about a published level, in arcsines of its root: by what two publications differ.

    Repetitions of a share scatter alike on that scale, near its ends too.
    """
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for row in measured():
        if row.selection == "single" and row.kind in ("distilled", "thinking") and row.source != "epoch-benchmark-runs":
            groups.setdefault((row.model, row.benchmark, row.kind), []).append(row)
    return half_width([
        (one.model, math.asin(math.sqrt(one.success)) - math.asin(math.sqrt(rows[0].success)))
        for rows in groups.values()
        for one in rows[1:]
        if one.source != rows[0].source
    ])  # fmt: skip


def published_half_width(success: float) -> float:
    """Half-width in logits of a 90 % interval about a published level.

    Examples
    --------
    >>> 0.2 < published_half_width(0.5) < published_half_width(0.9) < 0.6
    True
    """
    return 2 * _published_twice() / math.sqrt(success * (1 - success))


def law_level(thinker: Thinker, name: str, benchmark: str) -> tuple[float, float]:
    """Logit of a model's success by the law, what was published of it elsewhere taken in, and its half-width."""
    rows = [row for row in level_rows() if same_model(row.model, name) and row.kind == thinker.kind]
    known = [(row.benchmark, row.success) for row in rows if row.benchmark != benchmark]
    by = BY_MODEL if family_of(name) in {family_of(row.model) for row in level_rows()} else BY_FAMILY
    if not known:
        return level_logit(shipped_levels(), thinker, benchmark), _level_width(levels_left_out(by=by))
    score = anchored_logit(shipped_levels(), spread_left_out(by), thinker, benchmark, known)
    return score, _level_width(levels_left_out(OTHER_BENCHMARKS, by))


def _level_width(rows: Sequence[LeftOut]) -> float:
    return half_width([(one.group, one.logit_error) for one in rows])


def alike_of(name: str, kind: str, benchmark: str) -> Alike:
    """Correlation of a model's answers: as published on the tasks, else on others, else of models of its kind.

    Examples
    --------
    >>> alike_of("Qwen3-14B", "thinking", "aime-2024").known, alike_of("nobody's", "thinking", "aime-2024").known
    ('four answers a task', 'nothing')
    """
    pairs = {one.benchmark: one.correlation for one in likenesses() if one.model == name and one.kind == kind}
    if benchmark in pairs:
        return Alike(pairs[benchmark], OWN)
    if pairs:
        return Alike(float(np.mean(list(pairs.values()))), ELSEWHERE)
    return Alike(correlation_by_kind()[kind], UNKNOWN)


@functools.cache
def natural_tokens(kind: str, benchmark: str) -> tuple[float, bool]:
    """Mean length of answers on a benchmark, the median over published models, and whether it was published.

    Lengths without thinking that nobody published are those with thinking at the published ratio.

    Examples
    --------
    >>> tokens, is_published = natural_tokens("thinking", "aime-2024")
    >>> 5_000 < tokens < 20_000, is_published, natural_tokens("instruct", "gpqa-diamond")[1]
    (True, True, False)
    """
    thinks = _lengths(("thinking", "distilled"))
    plain = _lengths(("no-thinking",))
    if kind != "instruct":
        return thinks[benchmark], True
    if benchmark in plain:
        return plain[benchmark], True
    ratio = float(np.median([plain[name] / thinks[name] for name in plain]))
    return ratio * thinks[benchmark], False


@functools.cache
def length_half_width(benchmark: str) -> float:
    """Half-width of a 90 % interval of a mean length, in logs: by what published models' differ from their median.

    Examples
    --------
    >>> 0.1 < length_half_width("aime-2024") < 1.5
    True
    """
    median = _lengths(("thinking", "distilled"))[benchmark]
    rows = [row for row in _lengths_published(("thinking", "distilled")) if row.benchmark == benchmark]
    return half_width([(row.model, math.log(row.mean_tokens / median)) for row in rows])


def length_sources(kind: str, benchmark: str) -> tuple[tuple[str, ...], int]:
    """Sources of the lengths that :func:`natural_tokens` rests on, and how many they are.

    Examples
    --------
    >>> sources, n = length_sources("thinking", "aime-2024")
    >>> 0 < len(sources) <= n
    True
    """
    kinds = ("no-thinking",) if kind in ("instruct", "base") else ("thinking", "distilled")
    rows = [row for row in _lengths_published(kinds) if row.benchmark == benchmark]
    rows = rows or _lengths_published(kinds)
    return tuple(dict.fromkeys(row.source for row in rows)), len(rows)


def _lengths_published(kinds: tuple[str, ...]) -> list[Measured]:
    return [
        row
        for row in measured()
        if row.kind in kinds
        and math.isfinite(row.mean_tokens)
        and math.isfinite(row.active)
        and row.source != "budgeted-maths-runs"
    ]


@functools.cache
def _lengths(kinds: tuple[str, ...]) -> dict[str, float]:
    rows = _lengths_published(kinds)
    names = sorted({row.benchmark for row in rows})
    return {name: float(np.median([row.mean_tokens for row in rows if row.benchmark == name])) for name in names}


@functools.cache
def error_widths() -> dict[str, float]:
    """Half-widths of 90 % intervals of success: under limits that bite, or do not; of tries; of votes."""
    limits = budgets_left_out()
    found = {
        "bites": [*(row[:2] for row in limits if row[3] < BITES), *((row[0], row[2]) for row in closed_left_out())],
        "past": [row[:2] for row in limits if row[3] >= BITES],
        "tries": list(tries_left_out()),
        **{
            known: [(vote.row.model, error) for vote, error in votes_left_out(known)]
            for known in (UNKNOWN, ELSEWHERE, OWN)
        },
    }
    return {name: half_width(errors) for name, errors in found.items()}


def ways_of(level: Level, max_samples: int, false_accept: float | None) -> Iterator[Way]:
    """Every way of one model: each limit, one answer or several, a vote or (where it is given) a verifier.

    Parameters
    ----------
    level : Level
        The model.
    max_samples : int
        Answers at most; powers of two are compared [-].
    false_accept : float or None
        Share of wrong answers that the verifier accepts; None without one [-].

    Yields
    ------
    Way
        With its success and tokens.
    """
    limits = LIMITS if level.kind != "instruct" else (math.inf,)
    counts = [2**place for place in range(1, 1 + int(math.log2(max_samples)))]
    for limit in limits:
        budget = limit * level.natural_tokens
        yield _way(level, budget, 1, SINGLE, 0.0)
        for samples in counts:
            if samples > 2:
                yield _way(level, budget, samples, VOTE, 0.0)
            if false_accept is not None:
                yield _way(level, budget, samples, VERIFIED, false_accept)
                yield _way(level, budget, samples, SIDE_BY_SIDE, false_accept)


def _way(level: Level, budget: float, samples: int, selection: str, false_accept: float) -> Way:
    law = shipped_lengths()
    alike = level.likeness.correlation
    done = law.finished_fraction(budget, level.natural_tokens)

    def reached(success: float) -> tuple[float, float]:
        one = min(level.floor, success) + max(success - level.floor, 0.0) * done
        if selection == VOTE:
            return vote_right(one, alike, samples, level.wrong), float(samples)
        if selection in (VERIFIED, SIDE_BY_SIDE):
            right, tries = verified_right(one, alike, samples, false_accept)
            return right, tries if selection == VERIFIED else float(samples)
        return one, 1.0

    success, answers = reached(level.success)
    ends = [reached(one)[0] for one in ends_of(level)]
    missed = 0.0 if math.isinf(budget) else error_widths()["bites" if done < BITES else "past"]
    missed = math.hypot(
        missed, {SINGLE: 0.0, VOTE: error_widths()[level.likeness.known]}.get(selection, error_widths()["tries"])
    )
    used = law.used_tokens(budget, level.natural_tokens)
    wait = used * answers if selection in ONE_BY_ONE else law.longest_tokens(
        samples, budget, level.natural_tokens)  # fmt: skip
    return Way(
        level, budget, samples, selection, success,
        max(0.0, success - math.hypot(success - ends[0], missed)),
        min(1.0, success + math.hypot(ends[1] - success, missed)),
        used, answers, wait,
    )  # fmt: skip


def ends_of(level: Level) -> tuple[float, float]:
    """Ends of the 90 % interval of a level's success."""
    score = math.log(level.success / (1 - level.success))
    low, high = (success_of(score + side * level.logit_half_width, "") for side in (-1, 1))
    return low, high
