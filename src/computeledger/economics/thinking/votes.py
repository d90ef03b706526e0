"""Majority votes: the right answer against the largest group of wrong ones, by one law of how answers differ."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.thinking.measured import GUESS, UNKNOWN, Measured, measured
from computeledger.economics.thinking.samples import correlation_by_kind, likenesses

Floats = NDArray[np.float64]

#: Votes beyond which no more are counted: by then a vote has come to rest.
_MOST = 128
#: Votes from which published ones tell of wrong answers.
_TELLING = 64
_LOG_FACTORIALS = np.array([math.lgamma(number + 1) for number in range(_MOST + 1)])
_DIVERSITIES = np.exp(np.arange(0.5, math.log(80.0), 0.3))


@dataclass(frozen=True, slots=True)
class WrongAnswers:
    """How wrong answers to a task differ.

    Attributes
    ----------
    diversity : float
        Wrong answers' concentration over that which the right one's chances have: 1 where right and wrong answers are
        draws of one Dirichlet process, more where wrong answers differ more than right ones say [-].
    choices : int
        Wrong choices of a task; 0 where answers are free [-].
    """

    diversity: float
    choices: int = 0


def vote_right(success: float, correlation: float, samples: float, wrong: WrongAnswers) -> float:
    """Share of tasks on which the right answer has the most votes, exactly; ties are drawn lots.

    The number of right votes is beta-binomial. Wrong ones group as draws of a Dirichlet process do, or fall on wrong
    choices as those of a Dirichlet distribution. The chance that no group of them beats the right ones is a coefficient
    of a power series (Ewens' sampling formula).

    Parameters
    ----------
    success, correlation : float
        Of one answer, and of two answers to a task [-].
    samples : float
        Votes [-].
    wrong : WrongAnswers
        How wrong answers differ.

    Returns
    -------
    float
        Of one vote, or two: that of a single answer [-].

    Examples
    --------
    >>> free, choices = WrongAnswers(20.0), WrongAnswers(3.5, 3)
    >>> round(vote_right(0.6, 0.6, 2, free), 9)
    0.6
    >>> vote_right(0.6, 0.6, 64, free) > vote_right(0.6, 0.6, 64, choices) > 0.6
    True
    """
    return float(_votes_right(success, correlation, samples, (wrong,))[0])


def _votes_right(success: float, correlation: float, samples: float, wrong: Sequence[WrongAnswers]) -> Floats:
    """The same for several diversities of one number of choices, at once."""
    count = round(min(samples, _MOST))
    if count <= 1 or success <= 0 or success >= 1:
        return np.full(len(wrong), success)
    spread = 1 / min(max(correlation, 1e-6), 1 - 1e-6) - 1
    thetas = np.maximum(np.array([one.diversity for one in wrong]) * (1 - success) * spread, 1e-9)
    choices = wrong[0].choices
    wins = (
        np.array([_wins_of_choices(count, theta / choices, choices) for theta in thetas.tolist()])
        if choices
        else _wins(count, thetas)
    )
    return np.asarray(wins @ _beta_binomial(count, success * spread, (1 - success) * spread))


def _beta_binomial(count: int, a: float, b: float) -> Floats:
    """Chance of each number of right votes."""
    whole = math.lgamma(count + 1) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - math.lgamma(a + b + count)
    return np.exp([
        whole + math.lgamma(a + right) - math.lgamma(right + 1)
        + math.lgamma(b + count - right) - math.lgamma(count - right + 1)
        for right in range(count + 1)
    ])  # fmt: skip


def _wins(count: int, theta: Floats) -> Floats:
    """Chance that ``r`` right of ``count`` votes win, for each ``r``, where wrong ones group by a Dirichlet process.

    Groups smaller than ``r`` are counted by ``exp(theta sum_{j<r} x^j / j)``, whose coefficients follow
    ``n c_n = theta (c_{n-1} + ... + c_{n-r+1})``; ``g`` groups of ``r`` votes add ``(theta / r)^g / g!`` and tie. A row
    of the answer is a ``theta``.
    """
    right, n = np.arange(count + 1), len(theta)
    series, sums = np.zeros((count + 1, count + 1, n)), np.zeros((count + 2, count + 1, n))
    every = np.ones((count + 1, n))
    series[0], sums[1] = 1.0, 1.0
    for place in range(1, count + 1):
        first = np.maximum(place - np.maximum(right - 1, 0), 0)
        series[place] = theta / place * (sums[place] - sums[first, right])
        sums[place + 1] = sums[place] + series[place]
        every[place] = every[place - 1] * (theta + place - 1) / place
    won = np.zeros((n, count + 1))
    won[:, count] = 1.0
    for ours in range(1, count):
        rest = count - ours
        ties = np.arange(rest // ours + 1)[:, None]
        weight = np.exp(ties * np.log(theta / ours) - _LOG_FACTORIALS[ties]) / (1 + ties)
        won[:, ours] = (weight * series[rest - ties[:, 0] * ours, ours]).sum(axis=0) / every[rest]
    return won


def _wins_of_choices(count: int, each: float, choices: int) -> Floats:
    """The same, where wrong votes fall on so many choices, shares Dirichlet-distributed."""
    one = np.ones(count + 1)
    for place in range(1, count + 1):
        one[place] = one[place - 1] * (each + place - 1) / place
    every = _power(one, choices, count)
    won = np.zeros(count + 1)
    won[count] = 1.0
    for ours in range(1, count):
        rest = count - ours
        smaller = np.where(np.arange(count + 1) < ours, one, 0.0)
        for tie in range(min(rest // ours, choices) + 1):
            ways = math.comb(choices, tie) * one[ours] ** tie / (1 + tie)
            won[ours] += ways * _power(smaller, choices - tie, rest)[rest - tie * ours] / every[rest]
    return won


def _power(series: Floats, exponent: int, places: int) -> Floats:
    """A power series to a whole power, cut off."""
    found = np.zeros(places + 1)
    found[0] = 1.0
    for _ in range(exponent):
        found = np.convolve(found, series[: places + 1])[: places + 1]
    return found


@dataclass(frozen=True, slots=True)
class Vote:
    """A published vote.

    Attributes
    ----------
    row : Measured
        The vote.
    first : float
        Success of one answer [-].
    own : float or None
        Correlation of two answers to a task of this benchmark, where it was published [-].
    elsewhere : float or None
        The mean of those published of the model's other benchmarks [-].
    """

    row: Measured
    first: float
    own: float | None
    elsewhere: float | None


@functools.cache
def votes() -> tuple[Vote, ...]:
    """Published votes of open models, each with the success of one answer."""
    rows = [row for row in measured() if row.selection == "single"]
    own = {(row.source, row.model, row.benchmark): row.success for row in rows}
    single = {(row.model, row.benchmark): row.success for row in rows if row.source != "best-of-infinity"}
    pairs = {(one.model, one.benchmark): one.correlation for one in likenesses()}
    found = []
    for row in measured():
        if row.selection == "vote" and math.isfinite(row.active):
            others = [alike for (model, name), alike in pairs.items() if model == row.model and name != row.benchmark]
            first = own.get((row.source, row.model, row.benchmark)) or single[row.model, row.benchmark]
            elsewhere = float(np.mean(others)) if others else None
            found.append(Vote(row, first, pairs.get((row.model, row.benchmark)), elsewhere))
    return tuple(found)


def choices_of(benchmark: str) -> int:
    """Wrong choices of a task; 0 where answers are free.

    Examples
    --------
    >>> choices_of("aime-2024"), choices_of("gpqa-diamond")
    (0, 3)
    """
    return round(1 / GUESS[benchmark]) - 1 if benchmark in GUESS else 0


def _error(vote: Vote, alike: float, diversity: float) -> float:
    return float(_errors(vote, alike, (diversity,))[0])


@functools.cache
def _errors(vote: Vote, alike: float, diversities: tuple[float, ...]) -> Floats:
    """What a vote is predicted less what was seen, by the diversity of wrong answers."""
    wrong = [WrongAnswers(one, choices_of(vote.row.benchmark)) for one in diversities]
    return _votes_right(vote.first, alike, vote.row.samples, wrong) - vote.row.success


def fit_diversity(published: Sequence[Vote], but: str | None = None) -> float:
    """Diversity of wrong answers by least mean error over votes of 64 and more, each at its own correlation.

    Where none was published it is that of the vote's kind, a source left out.
    """
    alike = correlation_by_kind(but)
    kept = [vote for vote in published if vote.row.samples >= _TELLING]
    tried = tuple(_DIVERSITIES.tolist())
    missed = np.mean([np.abs(_errors(vote, vote.own or alike[vote.row.kind], tried)) for vote in kept], axis=0)
    return float(_DIVERSITIES[int(np.argmin(missed))])


@functools.cache
def shipped_diversity(choices: int) -> float:
    """Diversity of wrong answers, free ones or those of choices, of all published votes."""
    return fit_diversity([vote for vote in votes() if choices_of(vote.row.benchmark) == choices])


def wrong_on(benchmark: str) -> WrongAnswers:
    """How wrong answers differ on a benchmark.

    Examples
    --------
    >>> wrong_on("aime-2024").diversity > wrong_on("gpqa-diamond").diversity > 1
    True
    """
    return WrongAnswers(shipped_diversity(choices_of(benchmark)), choices_of(benchmark))


#: What is known of the model whose votes are predicted, if anything: its correlation on other tasks, or on these.
ELSEWHERE, OWN = "another benchmark", "four answers a task"


@functools.cache
def votes_left_out(known: str = UNKNOWN) -> tuple[tuple[Vote, float], ...]:
    """Votes and errors, each predicted without its source, or without its model where only one source has such tasks.

    Parameters
    ----------
    known : str
        Of the model's correlation: nothing (the mean of its kind over other models), that on its other benchmarks, or
        that on this one (from four answers to a task).

    Returns
    -------
    tuple of tuple
        Vote, and predicted less seen; votes of which nothing such is known are left away.
    """
    fits: dict[tuple[str, int], float] = {}
    found = []
    for vote in votes():
        alike = {UNKNOWN: correlation_by_kind(vote.row.source)[vote.row.kind], ELSEWHERE: vote.elsewhere,
                 OWN: vote.own}[known]  # fmt: skip
        if alike is None:
            continue
        choices = choices_of(vote.row.benchmark)
        such = [one for one in votes() if choices_of(one.row.benchmark) == choices]
        others = [one for one in such if one.row.source != vote.row.source]
        key = (vote.row.source, choices) if others else (vote.row.model, choices)
        if key not in fits:
            fits[key] = (
                fit_diversity(others, vote.row.source)
                if others
                else fit_diversity([one for one in such if one.row.model != vote.row.model])
            )
        found.append((vote, _error(vote, alike, fits[key])))
    return tuple(found)
