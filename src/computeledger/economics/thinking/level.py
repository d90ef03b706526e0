"""Success at natural length against parameters, pretraining tokens and kind of training, and how far it misses."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.thinking.measured import (
    GUESS,
    KINDS,
    LEVEL_BENCHMARKS,
    Measured,
    level_rows,
    pretraining_tokens,
)
from computeledger.units import GIGA, TERA

Floats = NDArray[np.float64]

#: Success is held this far from 0 and 1 before its logit is taken: a third of a task in thirty, a fifth in a hundred.
_CLIP = 0.004
#: Degrees of freedom of the robust fit, and its passes.
_TAIL, _PASSES = 4.0, 12
#: Ridge that keeps the fit determined where a left-out model was the only one of its kind.
_RIDGE = 0.0005


@dataclass(frozen=True, slots=True)
class Thinker:
    """What the law of levels knows of a model.

    Attributes
    ----------
    active, total : float
        Parameters multiplied per token, and stored [-].
    pretraining_tokens : float
        Of its base [token].
    kind : str
        One of :data:`~computeledger.economics.thinking.measured.KINDS`.
    """

    active: float
    total: float
    pretraining_tokens: float
    kind: str


@dataclass(frozen=True, slots=True)
class LevelFit:
    """Coefficients of the law, and the spread of what it leaves.

    Attributes
    ----------
    values : dict of float
        By name: one per benchmark, what distillation and thinking add (in mathematics, in science), and exponents of
        the odds in active parameters, in stored over active ones and in pretraining tokens.
    own, rest : float
        Standard deviations, in logits: of what a model has of its own, and of what is left in one benchmark [-].
    """

    values: dict[str, float]
    own: float
    rest: float


NAMES = (*LEVEL_BENCHMARKS, *(f"{kind}, {field}" for kind in KINDS[1:] for field in ("mathematics", "science")),
         "active parameters", "stored over active parameters", "pretraining tokens")  # fmt: skip


def _design(thinker: Thinker, benchmark: str) -> list[float]:
    row = [float(benchmark == name) for name in LEVEL_BENCHMARKS]
    science = benchmark in GUESS
    row += [float(thinker.kind == kind and science == which) for kind in KINDS[1:] for which in (False, True)]
    return [*row, math.log(thinker.active / GIGA), math.log(thinker.total / thinker.active),
            math.log(thinker.pretraining_tokens / TERA)]  # fmt: skip


def logit(success: float, benchmark: str) -> float:
    """Logit of success above guessing."""
    guess = GUESS.get(benchmark, 0.0)
    above = min(max((success - guess) / (1 - guess), _CLIP), 1 - _CLIP)
    return math.log(above / (1 - above))


def success_of(score: float, benchmark: str) -> float:
    """Success at a logit above guessing.

    Examples
    --------
    >>> success_of(0.0, "aime-2024"), success_of(0.0, "gpqa-diamond")
    (0.5, 0.625)
    """
    guess = GUESS.get(benchmark, 0.0)
    return guess + (1 - guess) / (1 + math.exp(-score))


def thinker_of(row: Measured) -> Thinker:
    """A published row's model."""
    return Thinker(row.active, row.total, pretraining_tokens(row.model) or math.nan, row.kind)


def fit_levels(rows: Sequence[Measured]) -> LevelFit:
    """Fit ``logit s = a_benchmark + c_kind + n ln N + m ln(N_total / N) + d ln D``, robustly.

    Examples
    --------
    >>> fit = shipped_levels()
    >>> fit.values["active parameters"] > 0, fit.values["thinking, mathematics"] > 0
    (True, True)
    """
    table = np.array([_design(thinker_of(row), row.benchmark) for row in rows])
    seen = np.array([logit(row.success, row.benchmark) for row in rows])
    weight = np.ones(len(rows))
    found = np.zeros(table.shape[1])
    for _ in range(_PASSES):
        weighted = table * weight[:, None]
        found = np.linalg.solve(weighted.T @ table + _RIDGE * np.eye(table.shape[1]), weighted.T @ seen)
        left = seen - table @ found
        scale = 1.4826 * float(np.median(np.abs(left)))
        weight = (_TAIL + 1) / (_TAIL + (left / scale) ** 2)
    own, rest = _spreads(rows, seen - table @ found)
    return LevelFit(dict(zip(NAMES, map(float, found), strict=True)), own, rest)


def _spreads(rows: Sequence[Measured], left: Floats) -> tuple[float, float]:
    """Between models and within them, by the variance of means and of what is left around them."""
    names = np.array([f"{row.model} {row.kind}" for row in rows])
    groups = [left[names == name] for name in sorted(set(names.tolist()))]
    whole = [group for group in groups if len(group) > 1]
    inside = float(np.mean([group.var(ddof=1) for group in whole]))
    between = max(float(np.var([group.mean() for group in whole], ddof=1)) - inside / len(LEVEL_BENCHMARKS), 1e-6)
    return math.sqrt(between), math.sqrt(inside)


def level_logit(fit: LevelFit, thinker: Thinker, benchmark: str, known: Sequence[tuple[str, float]] = ()) -> float:
    """Logit of success on a benchmark; what is known of the model on others shifts it (shrunk towards the law).

    Parameters
    ----------
    fit : LevelFit
        The law.
    thinker : Thinker
        The model.
    benchmark : str
        Asked.
    known : sequence of tuple
        Other benchmarks, each with the model's success there [-].

    Returns
    -------
    float
        Above guessing [-].
    """
    values = np.array([fit.values[name] for name in NAMES])
    score = float(np.array(_design(thinker, benchmark)) @ values)
    if not known:
        return score
    left = [logit(seen, name) - float(np.array(_design(thinker, name)) @ values) for name, seen in known]
    return score + fit.own**2 * sum(left) / (len(left) * fit.own**2 + fit.rest**2)


@functools.cache
def shipped_levels() -> LevelFit:
    """The law of all published levels."""
    return fit_levels(level_rows())


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure that the law predicted without its model."""

    group: str
    benchmark: str
    predicted: float
    seen: float
    logit_error: float

    @property
    def error(self) -> float:
        """Predicted less seen [-]."""
        return self.predicted - self.seen


@functools.cache
def levels_left_out(*, is_known_elsewhere: bool) -> tuple[LeftOut, ...]:
    """Each model left out of the fit (all its modes), with or without its success on the other benchmarks given."""
    rows, found = level_rows(), []
    for name in sorted({row.model for row in rows}):
        fit = fit_levels([row for row in rows if row.model != name])
        mine = [row for row in rows if row.model == name]
        for row in mine:
            others = [
                (one.benchmark, one.success)
                for one in mine
                if one.kind == row.kind and one.benchmark != row.benchmark and is_known_elsewhere
            ]
            score = level_logit(fit, thinker_of(row), row.benchmark, others)
            error = score - logit(row.success, row.benchmark)
            found.append(LeftOut(name, row.benchmark, success_of(score, row.benchmark), row.success, error))
    return tuple(found)


def half_width(left_out: Sequence[LeftOut], but: str | None = None) -> float:
    """Logits that hold nine of ten left-out errors, those of one model put aside."""
    kept = [abs(one.logit_error) for one in left_out if one.group != but]
    return float(np.quantile(kept, 0.9))


def held_90_fraction(left_out: Sequence[LeftOut]) -> float:
    """Share of left-out figures inside the 90 % interval that the other models' errors set."""
    return float(np.mean([abs(one.logit_error) <= half_width(left_out, one.group) for one in left_out]))
