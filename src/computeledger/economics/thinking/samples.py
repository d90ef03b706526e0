"""Several answers to a task: one is right, a verifier or a model selects; and how much less they vary after RL."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.routing.model import beta_quantile
from computeledger.economics.thinking.measured import Measured, measured

Floats = NDArray[np.float64]
_LARGEST = 2048.0
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


@functools.lru_cache(maxsize=4096)
def chances(success: float, correlation: float) -> tuple[Floats, Floats]:
    """Chances over tasks, and their weights; the mean is exact."""
    rho = min(max(correlation, 1e-6), 1 - 1e-6)
    chance = beta_quantile(_SCORES, success * (1 / rho - 1), (1 - success) * (1 / rho - 1))
    spread = chance * (1 - chance)
    gap = (success - float(_WEIGHTS @ chance)) / max(float(_WEIGHTS @ spread), 1e-12)
    return np.clip(chance + gap * spread, 0.0, 1.0), _WEIGHTS


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


def selected_right(
    success: float, correlation: float, samples: int, false_accept: float, false_reject: float = 0.0
) -> float:
    """Share of tasks solved where several answers are proposed and a selector takes one that it accepts, by lot.

    With ``a = p (1 - fr)`` and ``b = (1 - p) fa`` a proposal is accepted rightly or wrongly; of ``k`` at least one is
    accepted with chance ``1 - (1 - a - b)^k`` and then right with chance ``a / (a + b)``. Where none is, one is drawn.

    Parameters
    ----------
    success, correlation : float
        Of one proposal, and of two proposals to a task [-].
    samples : int
        Proposals [-].
    false_accept, false_reject : float
        Shares of wrong proposals that the selector accepts, and of right ones that it rejects [-].

    Returns
    -------
    float
        Coverage with a selector that never errs; one proposal's success with one that accepts all [-].

    Examples
    --------
    >>> round(selected_right(0.5, 1e-6, 3, 0.0), 3), round(selected_right(0.5, 0.5, 8, 1.0), 3)
    (0.875, 0.5)
    """
    chance, weight = chances(success, correlation)
    right, wrong = chance * (1 - false_reject), (1 - chance) * false_accept
    none = (1 - right - wrong) ** samples
    accepted = (1 - none) * right / np.maximum(right + wrong, 1e-300)
    drawn = none * chance * false_reject / np.maximum(1 - right - wrong, 1e-300)
    return float(weight @ (accepted + drawn))


@functools.cache
def selector_errors() -> tuple[tuple[str, float], ...]:
    """False accepts that explain published selections by a process reward model: model that proposes, and share.

    Right answers are all accepted (an assumption: one figure cannot tell both errors), and answers are as alike as
    those of the model's kind. The search that was published also prunes, which this counts as a better selector.
    """
    single = {(row.source, row.model): row.success for row in measured() if row.selection == "single"}
    alike = correlation_by_kind()
    found = []
    for row in measured():
        if row.selection == "reward-model" and math.isfinite(row.active):
            low, high = 0.0, 1.0
            for _ in range(40):
                half = (low + high) / 2
                reached = selected_right(single[row.source, row.model], alike[row.kind], int(row.samples), half)
                low, high = (half, high) if reached > row.success else (low, half)
            found.append((row.model, low))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike the answers of one model are, as measured.

    Attributes
    ----------
    source, model, kind, benchmark : str
        Of the published pair.
    success, coverage, samples : float
        Of one answer; of several, one of which is right; how many [-].
    correlation : float
        That explains both [-].
    """

    source: str
    model: str
    kind: str
    benchmark: str
    success: float
    coverage: float
    samples: float
    correlation: float


@functools.cache
def likenesses() -> tuple[Likeness, ...]:
    """Published pairs of success and coverage, with the correlation that explains them; of several, the fewest samples.

    Two answers to a task define the correlation, so few samples tell it best: many tell of the hardest tasks.
    """
    single = {_place(row): row.success for row in measured() if row.selection == "single"}
    rows = [row for row in measured() if row.selection == "any" and row.budget_tokens >= _LARGEST]
    fewest = {_place(row): row for row in sorted(rows, key=lambda row: -row.samples)}
    return tuple(
        Likeness(row.source, row.model, row.kind, row.benchmark, single[_place(row)], row.success, row.samples,
                 correlation_of(single[_place(row)], row.success, row.samples))
        for row in rows
        if fewest[_place(row)] is row
    )  # fmt: skip


def _place(row: Measured) -> tuple[str, str, str, float]:
    return row.source, row.model, row.benchmark, row.budget_tokens


#: Kind of a model -> kinds whose published pairs say how alike its answers are; nothing was published of instruct
#: models, which have had RL (an assumption).
_SAID_BY = {"base": "base", "instruct": "rl", "rl": "rl", "distilled": "distilled", "thinking": "thinking"}


@functools.cache
def correlation_by_kind(but: str | None = None) -> dict[str, float]:
    """Mean correlation of two answers to a task, by kind of training; a source may be left out.

    Examples
    --------
    >>> found = correlation_by_kind()
    >>> found["base"] < found["rl"], found["distilled"] < found["thinking"]
    (True, True)
    """
    return {
        kind: float(np.mean([one.correlation for one in likenesses() if one.kind == said and one.source != but]))
        for kind, said in _SAID_BY.items()
    }


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
