"""Success under a limit of thinking tokens: the share of right answers that are shorter than the limit."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.economics.thinking.measured import Measured, measured

_SHORTER, _SPREADS, _ALL = np.arange(-1.2, -0.25, 0.05), np.arange(0.4, 1.0, 0.05), np.arange(0.5, 1.5, 0.05)
_RUNS = "budgeted-maths-runs"
#: A limit bites where it leaves less than this of success.
BITES = 0.95


@dataclass(frozen=True, slots=True)
class LengthLaw:
    """Lengths of answers, log-normal, against their mean without a limit.

    Attributes
    ----------
    log_shorter : float
        Log of the median of right answers over the mean of all [-].
    right_spread : float
        Standard deviation of the log length of right answers [-].
    all_spread : float
        Of all answers: loops of wrong ones make it the wider [-].
    """

    log_shorter: float
    right_spread: float
    all_spread: float

    def finished_fraction(self, budget_tokens: float, mean_tokens: float) -> float:
        """Share of right answers that end within a limit.

        Parameters
        ----------
        budget_tokens, mean_tokens : float
            Limit, and mean length of all answers without one [token].

        Returns
        -------
        float
            Between 0 and 1 [-].

        Examples
        --------
        >>> law = LengthLaw(-0.75, 0.6, 0.8)
        >>> law.finished_fraction(math.inf, 1000.0), round(law.finished_fraction(1000.0, 1000.0), 2)
        (1.0, 0.89)
        """
        if math.isinf(budget_tokens):
            return 1.0
        if budget_tokens <= 0:
            return 0.0
        return _normal((math.log(budget_tokens / mean_tokens) - self.log_shorter) / self.right_spread)

    def used_tokens(self, budget_tokens: float, mean_tokens: float) -> float:
        """Mean tokens of an answer that is ended at a limit: ``E min(L, B)``.

        Parameters
        ----------
        budget_tokens, mean_tokens : float
            Limit, and mean without one [token].

        Returns
        -------
        float
            At most either [token].

        Examples
        --------
        >>> law = LengthLaw(-0.75, 0.6, 0.8)
        >>> law.used_tokens(math.inf, 1000.0), round(law.used_tokens(1000.0, 1000.0))
        (1000.0, 689)
        """
        if math.isinf(budget_tokens):
            return mean_tokens
        spread = self.all_spread
        score = math.log(budget_tokens / mean_tokens) / spread + spread / 2
        return mean_tokens * _normal(score - spread) + budget_tokens * _normal(-score)

    def longest_tokens(self, samples: int, budget_tokens: float, mean_tokens: float) -> float:
        """Median of the longest of several answers drawn side by side, each ended at a limit.

        Parameters
        ----------
        samples : int
            Answers [-].
        budget_tokens, mean_tokens : float
            Limit, and mean without one [token].

        Returns
        -------
        float
            At most the limit [token].

        Examples
        --------
        >>> law = LengthLaw(-0.75, 0.6, 0.8)
        >>> law.longest_tokens(1, math.inf, 1000.0) < law.longest_tokens(16, math.inf, 1000.0)
        True
        """
        score = _score(0.5 ** (1 / samples))
        return min(budget_tokens, mean_tokens * math.exp(self.all_spread * score - self.all_spread**2 / 2))


def _normal(score: float) -> float:
    return 0.5 * math.erfc(-score / math.sqrt(2.0))


def _score(share: float) -> float:
    """Standard normal quantile by bisection."""
    low, high = -12.0, 12.0
    for _ in range(60):
        half = (low + high) / 2
        low, high = (half, high) if _normal(half) < share else (low, half)
    return low


def _curves(rows: Sequence[Measured]) -> dict[tuple[str, str], list[Measured]]:
    """Rows of one model on one benchmark, by limit."""
    kept = [row for row in rows if row.source == _RUNS and row.selection == "single"]
    keys = sorted({(row.model, row.benchmark) for row in kept})
    return {
        key: sorted((row for row in kept if (row.model, row.benchmark) == key), key=lambda row: row.budget_tokens)
        for key in keys
    }


def _predicted(curve: Sequence[Measured], law: LengthLaw) -> list[float]:
    """Success under the smaller limits, from success and mean length at the largest alone."""
    last = curve[-1]
    top = law.finished_fraction(last.budget_tokens, last.mean_tokens)
    return [
        last.success * law.finished_fraction(row.budget_tokens, last.mean_tokens) / top
        for row in curve[:-1]
    ]  # fmt: skip


def fit_lengths(curves: Sequence[Sequence[Measured]]) -> LengthLaw:
    """Fit the length law: right answers by least mean error of success, all answers by mean tokens under limits."""
    best = (math.inf, 0.0, 1.0)
    for shorter in _SHORTER.tolist():
        for spread in _SPREADS.tolist():
            law = LengthLaw(shorter, spread, 1.0)
            missed = float(np.mean([abs(one) for curve in curves for one in _errors(curve, law)]))
            best = min(best, (missed, shorter, spread))
    ends = (math.inf, 1.0)
    for spread in _ALL.tolist():
        law = LengthLaw(best[1], best[2], spread)
        off = [
            abs(law.used_tokens(row.budget_tokens, curve[-1].mean_tokens) / row.mean_tokens - 1)
            for curve in curves
            for row in curve[:-1]
        ]
        ends = min(ends, (float(np.mean(off)), spread))
    return LengthLaw(best[1], best[2], ends[1])


def _errors(curve: Sequence[Measured], law: LengthLaw) -> list[float]:
    return [one - row.success for one, row in zip(_predicted(curve, law), curve[:-1], strict=True)]


@functools.cache
def shipped_lengths() -> LengthLaw:
    """The length law of all published runs under limits.

    Examples
    --------
    >>> law = shipped_lengths()
    >>> law.log_shorter < 0 < law.right_spread < law.all_spread
    True
    """
    return fit_lengths(list(_curves(measured()).values()))


@functools.cache
def budgets_left_out(by: str = "model") -> tuple[tuple[str, float, float, float], ...]:
    """Left-out figures under limits: group, error, success seen, and share of it that the limit leaves.

    Every curve of a model (a way of training) or of a benchmark is left out of the fit; of the curve that is predicted
    only the end is known: success and mean length at the largest limit.
    """
    curves, found = _curves(measured()), []
    place = 0 if by == "model" else 1
    for group in sorted({key[place] for key in curves}):
        law = fit_lengths([curve for key, curve in curves.items() if key[place] != group])
        for key, curve in curves.items():
            if key[place] == group:
                found += [
                    (group, error, row.success, row.success / curve[-1].success)
                    for error, row in zip(_errors(curve, law), curve[:-1], strict=True)
                ]
    return tuple(found)


_CLOSED, _LENGTHS = "epoch-benchmark-runs", np.exp(np.arange(math.log(2e3), math.log(1.2e5), 0.1))


@functools.cache
def closed_left_out() -> tuple[tuple[str, str, float], ...]:
    """Budgets of closed models between none and the largest: model, benchmark, error.

    Success without thinking and under the largest budget is known, and what a budget in between reaches is predicted:
    ``S(B) = S0 + (S1 - S0) F(B) / F(B1)``, mean length on a benchmark fitted on the other models.
    """
    curves: dict[tuple[str, str], dict[float, float]] = {}
    for row in measured():
        if row.source == _CLOSED:
            curves.setdefault((row.model, row.benchmark), {})[row.budget_tokens] = row.success
    curves = {key: curve for key, curve in curves.items() if 0.0 in curve and len(curve) > 2}
    found = []
    for (model, benchmark), curve in curves.items():
        others = [one for key, one in curves.items() if key[0] != model and key[1] == benchmark]
        if others:
            lengths = _LENGTHS.tolist()
            missed = [float(np.mean([abs(e) for one in others for e in _between(one, mean)])) for mean in lengths]
            found += [(model, benchmark, error) for error in _between(curve, lengths[int(np.argmin(missed))])]
    return tuple(found)


def _between(curve: dict[float, float], mean_tokens: float) -> list[float]:
    law, largest = shipped_lengths(), max(curve)
    top = law.finished_fraction(largest, mean_tokens)
    gain = curve[largest] - curve[0.0]
    return [
        curve[0.0] + gain * law.finished_fraction(budget, mean_tokens) / top - seen
        for budget, seen in curve.items()
        if 0 < budget < largest
    ]
