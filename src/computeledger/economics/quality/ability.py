"""One scale of ability over benchmarks: a score is the logistic of a slope times ability minus difficulty.

The idea is that of item response theory and of Epoch AI's stitching of benchmarks: models that share benchmarks tie
these together. The scale is the log-odds of the anchor benchmark above guessing, so a unit has a meaning.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from computeledger.economics.quality.evaluations import ANCHOR, GUESS_FRACTION, Floats, Results, evaluations

#: Standard deviations of what is supposed before any score is seen: ability and difficulty, logarithm of a slope
#: (assumptions, wide: they only decide where scores say nothing, as at 0 and below guessing).
_ABILITY_SPREAD, _SLOPE_SPREAD = 3.0, 1.0
#: First guess of the scatter of scores beside the error of a run; rounds in which it is read from residuals.
_FIRST_SCATTER, _ROUNDS = 0.05, 3
#: Steps of the fit at most, and the change below which it is done.
_STEPS, _STILL = 60, 1e-7
#: Groups in which results are left out.
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class Scale:
    """Abilities of models and what benchmarks ask, in log-odds of the anchor benchmark.

    Attributes
    ----------
    names, benchmarks : tuple of str
        Models as they were run, and benchmarks.
    ability, error : ndarray
        Ability and its standard error, by model [-].
    difficulty, slope : ndarray
        By benchmark [-].
    scatter : float
        Standard deviation of scores around the law, beside the error of a run [-].
    """

    names: tuple[str, ...]
    benchmarks: tuple[str, ...]
    ability: Floats
    error: Floats
    difficulty: Floats
    slope: Floats
    scatter: float

    def score(self, ability: float, benchmark: str) -> float:
        """Score that a model of that ability is expected to have [-].

        Parameters
        ----------
        ability : float
            Log-odds of the anchor benchmark above guessing [-].
        benchmark : str
            Its name.

        Returns
        -------
        float
            Share of right answers [-].
        """
        place = self.benchmarks.index(benchmark)
        asked = float(self.slope[place]) * (ability - float(self.difficulty[place]))
        return float(_score(np.array([asked]), np.array([GUESS_FRACTION[benchmark]]))[0])


def _score(asked: Floats, guess: Floats) -> Floats:
    return np.asarray(guess + (1.0 - guess) / (1.0 + np.exp(-np.clip(asked, -60.0, 60.0))))


def fit_scale(results: Results) -> Scale:
    r"""Fit abilities, difficulties and slopes by weighted least squares on scores.

    Equation: :math:`s = g + (1 - g) / (1 + \exp(-a (\theta - d)))`, with the anchor's slope 1 and difficulty 0. A row
    weighs by its own error and by the scatter around the law, which is read from the residuals.

    Parameters
    ----------
    results : Results
        Scores; the anchor benchmark is among them.

    Returns
    -------
    Scale
        Abilities with standard errors.

    Notes
    -----
    Validity: scores between guessing and all; a benchmark that nobody passes orders nobody.

    References
    ----------
    epoch-benchmark-runs.

    Examples
    --------
    >>> scale = fit_scale(evaluations())
    >>> strong, weak = (scale.ability[scale.names.index(one)] for one in ("gpt-5.1 (high)", "gpt-4-0613"))
    >>> bool(strong > weak)
    True
    """
    n, m = len(results.names), len(results.benchmarks)
    values, scatter = np.zeros(n + 2 * m), _FIRST_SCATTER
    normal = np.eye(len(values))
    for _ in range(_ROUNDS):
        values, normal, left = _settle(results, values, scatter)
        n_free = max(len(left) - len(set(results.who.tolist())) - 2 * m, 1)
        scatter = float(np.sqrt(max(float(np.sum(left**2 - results.error**2)) / n_free, 1e-6)))
    anchor = results.benchmarks.index(ANCHOR)
    free = np.setdiff1d(np.arange(len(values)), [n + anchor, n + m + anchor])
    error = np.sqrt(np.diag(np.linalg.inv(normal[np.ix_(free, free)])))[:n]
    return Scale(
        results.names, results.benchmarks, values[:n], error, values[n : n + m], np.exp(values[n + m :]), scatter
    )


def _settle(results: Results, start: Floats, scatter: float) -> tuple[Floats, Floats, Floats]:
    """Gauss and Newton's steps, damped: values, the matrix of the last step, residuals."""
    n, m = len(results.names), len(results.benchmarks)
    rows = np.arange(len(results.score))
    guess = np.array([GUESS_FRACTION[name] for name in results.benchmarks])[results.which]
    weight = 1.0 / np.hypot(results.error, scatter)
    prior = np.concatenate([np.full(n + m, _ABILITY_SPREAD), np.full(m, _SLOPE_SPREAD)]) ** -2
    anchor = results.benchmarks.index(ANCHOR)
    held = np.array([n + anchor, n + m + anchor])
    values, damping, best = start.copy(), 1e-2, np.inf
    matrix, kept, left = np.eye(len(values)), values, results.score
    for _ in range(_STEPS):
        apart = values[results.who] - values[n + results.which]
        slope = np.exp(np.clip(values[n + m + results.which], -5.0, 5.0))
        share = _score(slope * apart, np.zeros(len(rows)))
        residual = results.score - (guess + (1.0 - guess) * share)
        loss = float(np.sum((weight * residual) ** 2) + np.sum(prior * values**2))
        done = abs(best - loss) < _STILL * (1.0 + loss)
        if loss < best:
            best, kept, damping, left = loss, values, damping / 3.0, residual
            by_asked = (1.0 - guess) * share * (1.0 - share) * slope * weight
            jacobian = np.zeros((len(rows), len(values)))
            jacobian[rows, results.who] = by_asked
            jacobian[rows, n + results.which] = -by_asked
            jacobian[rows, n + m + results.which] = by_asked * apart
            jacobian[:, held] = 0.0
            matrix = jacobian.T @ jacobian + np.diag(prior)
            pull = jacobian.T @ (weight * residual) - prior * values
            pull[held] = 0.0
        else:
            damping *= 8.0
        if done:
            break
        values = kept + np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), pull)
    return kept, matrix, left


@functools.cache
def shipped_scale() -> Scale:
    """The scale of the shipped evaluations.

    Examples
    --------
    >>> scale = shipped_scale()
    >>> round(scale.score(0.0, "gpqa-diamond"), 3)
    0.625
    """
    return fit_scale(evaluations())


@dataclass(frozen=True, slots=True)
class LeftOutScores:
    """Scores that the fit did not see: what it says of them, and what the benchmark's median says."""

    benchmark: tuple[str, ...]
    score: Floats
    predicted: Floats
    median: Floats


def leave_results_out(results: Results) -> LeftOutScores:
    """Predict a model's score on a benchmark from its other benchmarks; in ten groups, each fitted without them.

    Parameters
    ----------
    results : Results
        Scores.

    Returns
    -------
    LeftOutScores
        Of every pair of a model and a benchmark where the model has another.

    Examples
    --------
    >>> found = evaluations()
    >>> out = leave_results_out(found.where(found.which < 2))
    >>> bool(np.median(abs(out.predicted - out.score)) < 0.5 * np.median(abs(out.median - out.score)))
    True
    """
    cells, cell = np.unique(np.stack([results.who, results.which], axis=1), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    others = np.bincount(cells[:, 0], minlength=len(results.names))[cells[:, 0]] > 1
    found: list[tuple[str, float, float, float]] = []
    for fold in range(_FOLDS):
        out = (others & (np.arange(len(cells)) % _FOLDS == fold))[cell]
        kept, scale = results.where(~out), fit_scale(results.where(~out))
        for who, which, score in zip(results.who[out], results.which[out], results.score[out], strict=True):
            name = results.benchmarks[which]
            if np.any(kept.who == who):
                median = float(np.median(kept.score[kept.which == which]))
                found.append((name, score, scale.score(float(scale.ability[who]), name), median))
    names, *columns = zip(*found, strict=True)
    return LeftOutScores(tuple(names), *(np.array(column) for column in columns))
