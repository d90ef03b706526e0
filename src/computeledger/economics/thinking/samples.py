"""Several answers to a task: one is right, a vote, a verifier; and how much less they vary after RL."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.routing.model import beta_quantile
from computeledger.economics.thinking.measured import GUESS, Measured, measured

Floats = NDArray[np.float64]
_TIES = np.arange(0.02, 0.9, 0.02)
_LARGEST = 2048.0
#: Votes up to which every count is summed; beyond them the lead is taken for normal.
_FEW_VOTES = 16
#: Normal scores that stand for tasks, from the hardest to the easiest, and their weights: fine, because chances of
#: alike answers lie at 0 and 1 with little between.
_SCORES = np.linspace(-6.0, 6.0, 481)
_WEIGHTS = np.exp(-(_SCORES**2) / 2) / np.exp(-(_SCORES**2) / 2).sum()


def any_right(success: float, correlation: float, samples: float) -> float:
    """Share of tasks that at least one of several answers solves, chances beta-distributed over tasks.

    ``1 - B(a, b + k) / B(a, b)`` with ``a = p (1/rho - 1)`` and ``b = (1 - p) (1/rho - 1)``.

    Parameters
    ----------
    success : float
        Of one answer [-].
    correlation : float
        ``rho`` of two answers to a task, from 0 (independent) to 1 (always alike) [-].
    samples : float
        ``k`` [-].

    Returns
    -------
    float
        Coverage [-].

    Examples
    --------
    >>> round(any_right(0.3, 1e-9, 4), 4), round(any_right(0.3, 0.999999, 4), 4)
    (0.7599, 0.3)
    """
    if success <= 0 or success >= 1:
        return success
    rho = min(max(correlation, 1e-6), 1 - 1e-9)
    a, b = success * (1 / rho - 1), (1 - success) * (1 / rho - 1)
    return 1 - math.exp(math.lgamma(b + samples) - math.lgamma(b) + math.lgamma(a + b) - math.lgamma(a + b + samples))


def correlation_of(success: float, coverage: float, samples: float) -> float:
    """Correlation of answers that explains a coverage.

    Examples
    --------
    >>> round(correlation_of(0.3, any_right(0.3, 0.6, 8), 8), 6)
    0.6
    """
    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        half = (low + high) / 2
        low, high = (half, high) if any_right(success, half, samples) > coverage else (low, half)
    return low


def chances(success: float, correlation: float) -> tuple[Floats, Floats]:
    """Chances over tasks, and their weights; the mean is exact."""
    rho = min(max(correlation, 1e-6), 1 - 1e-6)
    chance = beta_quantile(_SCORES, success * (1 / rho - 1), (1 - success) * (1 / rho - 1))
    spread = chance * (1 - chance)
    gap = (success - float(_WEIGHTS @ chance)) / max(float(_WEIGHTS @ spread), 1e-12)
    return np.clip(chance + gap * spread, 0.0, 1.0), _WEIGHTS


def vote_right(success: float, correlation: float, samples: float, tied: float) -> float:
    """Share of tasks on which the right answer has the most votes.

    Of wrong answers a share ``tied`` agrees, so the right one leads by ``p - tied (1 - p)`` a vote on average; the
    other wrong answers are all different, and ties are drawn lots.

    Parameters
    ----------
    success, correlation : float
        Of one answer, and of two answers to a task [-].
    samples : float
        Votes [-].
    tied : float
        Share of the wrong answers to a task that are the same one [-].

    Returns
    -------
    float
        Of one vote, or two: that of a single answer [-].

    Examples
    --------
    >>> vote_right(0.6, 0.6, 1, 0.2), round(vote_right(0.6, 0.6, 64, 0.2), 1)
    (0.6, 0.8)
    """
    if samples <= 1 or success <= 0 or success >= 1:
        return success
    right, weight = chances(success, correlation)
    rival = tied * (1 - right)
    if samples <= _FEW_VOTES:
        return float(weight @ _few_votes(right, rival, int(samples)))
    lead = right - rival
    spread = np.sqrt(np.maximum(right + rival - lead**2, 1e-12) / samples)
    wins = np.array([0.5 * math.erfc(-one / math.sqrt(2.0)) for one in np.ravel(lead / spread)])
    return max(float(weight @ wins), success)


def _few_votes(right: Floats, rival: Floats, samples: int) -> Floats:
    """Chance that the right answer wins, by every count of right, rival and lone wrong votes; ties are drawn lots."""
    won = np.zeros_like(right)
    lone = np.maximum(1 - right - rival, 0.0)
    for ours in range(1, samples + 1):
        for theirs in range(min(ours, samples - ours) + 1):
            rest = samples - ours - theirs
            tied_with = (ours == theirs) + (rest if ours == 1 else 0)
            ways = math.comb(samples, ours) * math.comb(samples - ours, theirs)
            won = won + ways * right**ours * rival**theirs * lone**rest / (1 + tied_with)
    return won


def verified_right(success: float, correlation: float, samples: int, false_accept: float) -> tuple[float, float]:
    """Share of tasks delivered rightly, and tries per task, when tries stop at the first one that a verifier accepts.

    Parameters
    ----------
    success, correlation : float
        Of one answer, and of two answers to a task [-].
    samples : int
        Tries at most [-].
    false_accept : float
        Share of wrong answers that the verifier accepts [-].

    Returns
    -------
    tuple of float
        Success, and mean tries [-].

    Examples
    --------
    >>> right, tries = verified_right(0.5, 1e-6, 3, 0.0)
    >>> round(right, 3), round(tries, 2)
    (0.875, 1.75)
    """
    chance, weight = chances(success, correlation)
    passed = (1 - chance) * (1 - false_accept)
    going = [passed**place for place in range(samples)]
    reached = np.sum(going, axis=0)
    return float(weight @ (chance * reached)), float(weight @ reached)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike the answers of one model are, as measured.

    Attributes
    ----------
    model, kind, benchmark : str
        Of the published pair.
    success, coverage, samples : float
        Of one answer; of several, one of which is right; how many [-].
    correlation : float
        That explains both [-].
    """

    model: str
    kind: str
    benchmark: str
    success: float
    coverage: float
    samples: float
    correlation: float


@functools.cache
def likenesses() -> tuple[Likeness, ...]:
    """Published pairs of success and coverage, with the correlation that explains them."""
    single = {_place(row): row.success for row in measured() if row.selection == "single"}
    return tuple(
        Likeness(row.model, row.kind, row.benchmark, single[_place(row)], row.success, row.samples,
                 correlation_of(single[_place(row)], row.success, row.samples))
        for row in measured()
        if row.selection == "any" and row.budget_tokens >= _LARGEST
    )  # fmt: skip


def _place(row: Measured) -> tuple[str, str, str, float]:
    return row.source, row.model, row.benchmark, row.budget_tokens


#: Kind of a model -> kinds whose published pairs say how alike its answers are; nothing was published of instruct
#: models, which have had RL (an assumption).
_SAID_BY = {"base": "base", "instruct": "rl", "rl": "rl", "distilled": "distilled", "thinking": "thinking"}


@functools.cache
def correlation_by_kind() -> dict[str, float]:
    """Mean correlation of two answers to a task, by kind of training.

    Examples
    --------
    >>> found = correlation_by_kind()
    >>> found["base"] < found["rl"], found["distilled"] < found["thinking"]
    (True, True)
    """
    return {
        kind: float(np.mean([one.correlation for one in likenesses() if one.kind == said]))
        for kind, said in _SAID_BY.items()
    }


@functools.cache
def _votes() -> tuple[tuple[Measured, float], ...]:
    """Published votes, each with the success of one answer."""
    single = {(row.model, row.benchmark): row.success for row in measured()
              if row.selection == "single" and row.source in ("qwen3-report", "deepseek-r1-report")}  # fmt: skip
    own = {(row.source, row.model): row.success for row in measured()
           if row.selection == "single" and row.source == "test-time-scaling-1b-405b"}  # fmt: skip
    found = []
    for row in measured():
        if row.selection == "vote" and math.isfinite(row.active):
            first = own.get((row.source, row.model)) or single[row.model, row.benchmark]
            found.append((row, first))
    return tuple(found)


def _vote_errors(votes: Sequence[tuple[Measured, float]], tied: float) -> list[float]:
    alike = correlation_by_kind()
    return [vote_right(first, alike[row.kind], row.samples, tied) - row.success for row, first in votes]


def fit_tied(votes: Sequence[tuple[Measured, float]]) -> float:
    """Share of wrong answers that agree, by least mean error over published votes."""
    missed = [float(np.mean(np.abs(_vote_errors(votes, tied)))) for tied in _TIES.tolist()]
    return float(_TIES[int(np.argmin(missed))])


@functools.cache
def shipped_tied() -> float:
    """Share of wrong answers that agree, of all published votes."""
    return fit_tied(_votes())


def tied_on(benchmark: str) -> float:
    """Share of wrong answers that agree on a benchmark: published votes say it, choices bound it from below.

    Examples
    --------
    >>> tied_on("aime-2024") < tied_on("gpqa-diamond")
    True
    """
    guess = GUESS.get(benchmark, 0.0)
    return max(shipped_tied(), guess / (1 - guess))


@functools.cache
def votes_left_out() -> tuple[tuple[str, float], ...]:
    """Each source of votes predicted by the other: model and error."""
    found: list[tuple[str, float]] = []
    for source in sorted({row.source for row, _ in _votes()}):
        mine = [one for one in _votes() if one[0].source == source]
        tied = fit_tied([one for one in _votes() if one[0].source != source])
        found += [(row.model, error) for (row, _), error in zip(mine, _vote_errors(mine, tied), strict=True)]
    return tuple(found)


@functools.cache
def tries_left_out() -> tuple[tuple[str, float], ...]:
    """Tasks solved within a total of tokens, tries until one is right: model and error.

    Predicted from four answers at once (their correlation) and the mean length of one, at totals that hold one answer
    or more; none of the figures was fitted.
    """
    rows = [row for row in measured() if row.selection == "until-right"]
    single = {(row.model, row.benchmark): row for row in measured()
              if row.selection == "single" and row.budget_tokens == 2 * _LARGEST}  # fmt: skip
    found = []
    for row in rows:
        one = single[row.model, row.benchmark]
        alike = float(np.mean([pair.correlation for pair in likenesses() if pair.model == row.model]))
        tries = row.budget_tokens / one.mean_tokens
        if tries >= 1:
            found.append((row.model, any_right(one.success, alike, tries) - row.success))
    return tuple(found)


def base_samples_ratio(more: float, fewer: float, base: float, trained: float) -> float:
    """How many times the base model's samples two amounts of a trained model's samples are worth of one another.

    Coverage of both follows ``exp(a k^b)``; ``k`` samples of the trained model cover what
    ``(a'/a)^(1/b) k^(b'/b)`` of the base cover, so amounts differ by ``(more / fewer)^(b'/b)``.

    Parameters
    ----------
    more, fewer : float
        Samples of the trained model [-].
    base, trained : float
        Exponents ``b`` and ``b'``, both negative [-].

    Returns
    -------
    float
        1 where the trained model gains nothing from samples; ``more / fewer`` where both gain alike [-].

    Examples
    --------
    >>> round(base_samples_ratio(10_000, 50, -0.4, -0.4), 1), round(base_samples_ratio(10_000, 50, -0.4, -0.105), 1)
    (200.0, 4.0)
    """
    return math.exp(math.log(more / fewer) * trained / base)


def coverage_exponent(success: float, coverage: float, samples: float) -> float:
    """Exponent ``b`` of ``exp(a k^b)`` through one answer's success and the coverage of several."""
    return math.log(math.log(coverage) / math.log(success)) / math.log(samples)


@functools.cache
def exponent_ratios() -> tuple[tuple[str, str, float], ...]:
    """``b'/b`` of published pairs before and after RL: trained model, benchmark, ratio."""
    pairs = {(one.model, one.benchmark): one for one in likenesses()}
    found = []
    for one in likenesses():
        name = one.model.split(",")[0]
        before = pairs.get((name, one.benchmark))
        if before is None or one.model == name or "on-policy" in one.model or before.samples != one.samples:
            continue
        exponents = [coverage_exponent(x.success, x.coverage, x.samples) for x in (before, one)]
        found.append((one.model, one.benchmark, exponents[1] / exponents[0]))
    return tuple(found)
