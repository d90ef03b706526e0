"""Success at natural length against parameters, pretraining tokens and kind of training, and how far it misses."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.thinking.measured import (
    GUESS,
    KINDS,
    LEVEL_BENCHMARKS,
    UNKNOWN,
    Measured,
    family_of,
    level_rows,
    pretraining_tokens,
    released_year,
)
from computeledger.units import GIGA, TERA

Floats = NDArray[np.float64]

#: Success is held this far from 0 and 1 before its logit is taken: a third of a task in thirty, a fifth in a hundred.
_CLIP = 0.004
#: Degrees of freedom of the robust fit, and its passes.
_TAIL, _PASSES = 4.0, 12
#: Ridge that keeps the fit determined where a left-out model was the only one of its kind.
_RIDGE = 0.0005
#: Year from which release is counted.
_YEAR = 2025.0
#: Benchmarks whose mean slope is 1, and the least slope of any.
_UNIT, _FLATTEST = ("aime-2024", "aime-2025"), 0.3


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
    released : float
        Year: later models get more out of the same parameters and tokens [-].
    """

    active: float
    total: float
    pretraining_tokens: float
    kind: str
    released: float


@dataclass(frozen=True, slots=True)
class LevelFit:
    """Coefficients of the law of levels.

    Attributes
    ----------
    values : dict of float
        By name: one per benchmark, what distillation and thinking add (in mathematics, in science), and exponents of
        the odds in active parameters, in stored over active ones and in pretraining tokens.
    slopes : dict of float
        By benchmark: how much a model's ability moves the logit there; 1 on average of the two of AIME [-].
    """

    values: dict[str, float]
    slopes: dict[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """How far models that were not seen lie from the law: variances of what it misses.

    Attributes
    ----------
    own, field, rest : float
        Of what a model has of its own on every benchmark; of its own in mathematics, or in science; of what is left on
        one benchmark. Abilities squared, logits squared for what is left [-].
    """

    own: float
    field: float
    rest: float

    def shared(self, first: str, second: str) -> float:
        """Covariance of a model's abilities on two benchmarks [-]."""
        return self.own + (self.field if (first in GUESS) == (second in GUESS) else 0.0)


NAMES = (*LEVEL_BENCHMARKS, *(f"{kind}, {field}" for kind in KINDS[1:] for field in ("mathematics", "science")),
         "active parameters", "stored over active parameters", "pretraining tokens", "a year later")  # fmt: skip


def _features(thinker: Thinker, benchmark: str) -> list[float]:
    """What a model's ability is linear in."""
    science = benchmark in GUESS
    row = [float(thinker.kind == kind and science == which) for kind in KINDS[1:] for which in (False, True)]
    return [*row, math.log(thinker.active / GIGA), math.log(thinker.total / thinker.active),
            math.log(thinker.pretraining_tokens / TERA), thinker.released - _YEAR]  # fmt: skip


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
    return Thinker(row.active, row.total, pretraining_tokens(row.model) or math.nan, row.kind, released_year(row.model))


def fit_levels(rows: Sequence[Measured]) -> LevelFit:
    """Fit ``logit s = a_benchmark + b_benchmark (c_kind + n ln N + m ln(N_total / N) + d ln D + y year)``, robustly.

    Slopes and the rest in turn: a model's ability is what the law says and, shrunk, what its own figures add.

    Examples
    --------
    >>> fit = shipped_levels()
    >>> fit.values["active parameters"] > 0, fit.values["thinking, mathematics"] > 0, fit.slopes["math-500"] < 1
    (True, True, True)
    """
    places = np.array([LEVEL_BENCHMARKS.index(row.benchmark) for row in rows])
    features = np.array([_features(thinker_of(row), row.benchmark) for row in rows])
    seen = np.array([logit(row.success, row.benchmark) for row in rows])
    _, models = np.unique([f"{row.model} {row.kind}" for row in rows], return_inverse=True)
    weight, slopes = np.ones(len(rows)), np.ones(len(LEVEL_BENCHMARKS))
    for _ in range(_PASSES):
        slope = slopes[places]
        table = np.column_stack([np.eye(len(LEVEL_BENCHMARKS))[places], features * slope[:, None]])
        weighted = table * weight[:, None]
        found = np.linalg.solve(weighted.T @ table + _RIDGE * np.eye(table.shape[1]), weighted.T @ seen)
        left = seen - table @ found
        scale = 1.4826 * float(np.median(np.abs(left)))
        weight = (_TAIL + 1) / (_TAIL + (left / scale) ** 2)
        own = np.bincount(models, slope * left) / (1 + np.bincount(models, slope**2))
        ability = features @ found[len(LEVEL_BENCHMARKS) :] + own[models]
        slopes = _slopes(places, ability, seen, weight)
    values = dict(zip(NAMES, map(float, found), strict=True))
    return LevelFit(values, dict(zip(LEVEL_BENCHMARKS, map(float, slopes), strict=True)))


def _slopes(places: NDArray[np.intp], ability: Floats, seen: Floats, weight: Floats) -> Floats:
    """Of each benchmark, by weighted least squares about its own means; AIME's mean is 1."""
    found = np.ones(len(LEVEL_BENCHMARKS))
    for place in np.unique(places):
        here = places == place
        share = weight[here] / weight[here].sum()
        x = ability[here] - share @ ability[here]
        found[place] = max(_FLATTEST, float((share * x) @ seen[here] / max((share * x) @ x, 1e-9)))
    return np.asarray(found / np.mean([found[LEVEL_BENCHMARKS.index(name)] for name in _UNIT]))


def level_logit(fit: LevelFit, thinker: Thinker, benchmark: str) -> float:
    """Logit of success on a benchmark, above guessing, where nothing is known of the model."""
    features = np.array(_features(thinker, benchmark))
    ability = float(features @ [fit.values[name] for name in NAMES[len(LEVEL_BENCHMARKS) :]])
    return fit.values[benchmark] + fit.slopes[benchmark] * ability


def anchored_logit(
    fit: LevelFit, spread: Spread, thinker: Thinker, benchmark: str, known: Sequence[tuple[str, float]]
) -> float:
    """Logit of success on a benchmark; figures of the model shift its ability, shrunk by how far models lie apart.

    Parameters
    ----------
    fit, spread : LevelFit, Spread
        The law, and how far it misses models.
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
    score = level_logit(fit, thinker, benchmark)
    if not known:
        return score
    names = [name for name, _ in known]
    slopes = np.array([fit.slopes[name] for name in names])
    left = np.array([logit(seen, name) - level_logit(fit, thinker, name) for name, seen in known])
    shared = np.array([[spread.shared(one, other) for other in names] for one in names])
    among = shared * slopes[:, None] * slopes + spread.rest * np.eye(len(names))
    towards = fit.slopes[benchmark] * slopes * [spread.shared(benchmark, name) for name in names]
    return score + float(towards @ np.linalg.solve(among, left))


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


#: What is known of a model whose level is predicted, if anything: one figure of its own on another benchmark; all.
ONE_FIGURE, OTHER_BENCHMARKS = "one figure", "other benchmarks"
#: What is left out of the fit.
BY_MODEL, BY_FAMILY = "model", "family"


def _group(row: Measured, by: str) -> str:
    return row.model if by == BY_MODEL else family_of(row.model)


@functools.cache
def _fits_without(by: str) -> dict[str, LevelFit]:
    """The law without each model, or without each family."""
    groups = sorted({_group(row, by) for row in level_rows()})
    return {group: fit_levels([row for row in level_rows() if _group(row, by) != group]) for group in groups}


@functools.cache
def spread_left_out(by: str, but: str | None = None) -> Spread:
    """How far the law misses models that it has not seen: what the misses of one model share, and what is left.

    Parameters
    ----------
    by : str
        Whether each model alone was left out of the fit, or its whole family.
    but : str, optional
        Model or family whose own misses do not count.

    Examples
    --------
    >>> spread = spread_left_out(BY_FAMILY)
    >>> spread.shared("aime-2024", "math-500") >= spread.shared("aime-2024", "gpqa-diamond") > 0
    True
    """
    misses: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for row in level_rows():
        group = _group(row, by)
        if group != but:
            fit = _fits_without(by)[group]
            miss = logit(row.success, row.benchmark) - level_logit(fit, thinker_of(row), row.benchmark)
            misses.setdefault((row.model, row.kind), []).append((row.benchmark, miss / fit.slopes[row.benchmark]))
    products: dict[bool, list[float]] = {True: [], False: []}
    for found in misses.values():
        for (one, first), (other, second) in itertools.combinations(found, 2):
            products[(one in GUESS) == (other in GUESS)].append(first * second)
    alike, across = (max(float(np.mean(products[same])), 1e-6) for same in (True, False))
    own = min(alike, across)
    whole = float(np.mean([miss**2 for found in misses.values() for _, miss in found]))
    return Spread(own, alike - own, max(whole - alike, 1e-6))


@functools.cache
def levels_left_out(known: str = UNKNOWN, by: str = BY_MODEL) -> tuple[LeftOut, ...]:
    """Levels predicted without their model (all its modes), or without its whole family.

    Parameters
    ----------
    known : str
        Of the model: nothing, one of its figures on another benchmark (each in turn), or all of those.
    by : str
        ``model`` or ``family``: what is left out of the fit.
    """
    found = []
    for group, fit in _fits_without(by).items():
        mine = [row for row in level_rows() if _group(row, by) == group]
        for row in mine:
            for others in _known_of(row, mine, known):
                spread = spread_left_out(by, group)
                score = anchored_logit(fit, spread, thinker_of(row), row.benchmark, others)
                error = score - logit(row.success, row.benchmark)
                found.append(LeftOut(group, row.benchmark, success_of(score, row.benchmark), row.success, error))
    return tuple(found)


def _known_of(row: Measured, rows: Sequence[Measured], known: str) -> list[list[tuple[str, float]]]:
    """Sets of figures that are known beside one that is predicted."""
    figures = [
        (one.benchmark, one.success)
        for one in rows
        if (one.model, one.kind) == (row.model, row.kind) and one.benchmark != row.benchmark
    ]
    if known == UNKNOWN:
        return [[]]
    return [[one] for one in figures] if known == ONE_FIGURE else [figures]
