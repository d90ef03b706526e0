"""What RL buys, fitted to a reader's own points, and beta of published runs: questions of ``rl`` without a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.errors import InputError, shown
from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.rl_returns import RLReturnsQuestion
from computeledger.units import LARGEST
from computeledger.validation.measured_table import read_rows
from computeledger.validation.rl.beta import PublishedBeta, published_betas
from computeledger.workloads.rl.coverage import CoverageFit, crossing, fit_coverage, pass_at_k
from computeledger.workloads.rl.returns import FARTHEST_FORECAST, RewardFit, fit_reward

_QUARTILES = {"min": 0.0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "max": 1.0}
_CONVENTION = "tokens of prompt and rollout, as the rows count them; against 40 % of 6 N on the same chip"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PublishedAnswer(Answer):
    """Beta of published runs, by phase."""

    betas: Sequence[PublishedBeta]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger rl --published --json`` prints it."""
        values = [one.beta_gpu_time for one in self.betas]
        levels = {name: float(np.quantile(values, share)) for name, share in _QUARTILES.items()}
        return {
            "published": [_run_document(one) for one in self.betas],
            "beta_gpu_time": levels,
            "convention": _CONVENTION,
        }


def _run_document(one: PublishedBeta) -> dict[str, Any]:
    run = one.run
    return {
        "system": run.row["source"],
        "model": run.row["model"],
        "hardware": run.row["hardware"],
        "n_gpus": float(run.scenario.split.n_gpus),
        "mode": run.row["algorithm"].partition("; ")[2],
        "precision": run.scenario.engine.precision.name,
        "mean_tokens": float(run.scenario.sequence_tokens),
        "step_s": run.step_s,
        "beta_flop": one.beta_flop,
        "beta_gpu_time": one.beta_gpu_time,
        "modelled_beta_gpu_time": one.modelled_beta_gpu_time,
        "split_stated": one.is_split_stated,
        "by_phase": dict(one.parts),
        "phase_utilization_fraction": dict(one.phase_utilization),
    }


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RewardAnswer(Answer):
    """Laws of reward against compute, and their forecast."""

    fits: Sequence[RewardFit]
    at: float | None

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger rl --reward --json`` prints it."""
        laws = {
            one.law: {
                "values": one.values,
                "intervals": {name: _interval(np.quantile(cloud, _ENDS)) for name, cloud in one.cloud.items()},
                "residual": one.residual,
            }
            for one in self.fits
        }
        document: dict[str, Any] = {"reward": laws, "points_reach": list(self.fits[0].span)}
        if self.at is not None:
            found = {one.law: _interval(one.forecast(self.at)) for one in self.fits}
            document["forecast"] = {"compute": self.at, **found}
        return document | {"farthest_forecast": FARTHEST_FORECAST}


_ENDS = (0.05, 0.5, 0.95)


def _interval(points: Sequence[float] | np.ndarray) -> dict[str, float]:
    return {name: float(one) for name, one in zip(("p05", "p50", "p95"), points, strict=True)}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class CoverageAnswer(Answer):
    """A law of coverage against samples, and pass@k of the points."""

    fit: CoverageFit
    table: Sequence[tuple[float, float]]
    at: float | None
    trained: CoverageFit | None = None

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger rl --coverage --json`` prints it."""
        fit = self.fit
        document: dict[str, Any] = {
            "coverage": _law(fit),
            "pass_at_k": [{"k": k, "coverage": value} for k, value in self.table],
        }
        if self.at is not None:
            document["forecast"] = {"k": self.at, "coverage": float(np.asarray(fit.coverage(self.at)))}
        if self.trained is None:
            return document
        met, reach = crossing(fit, self.trained), max(k for k, _ in self.table)
        found = None
        if met is not None:
            ahead = "base" if met.is_base_ahead else "trained"
            found = {"k": met.k, "coverage": met.coverage, "ahead_beyond": ahead, "beyond_points": met.k > reach}
        return document | {"trained": _law(self.trained), "crossing": found}


def _law(fit: CoverageFit) -> dict[str, Any]:
    return {"a": fit.a, "b": fit.b, "residual": fit.residual, "formula": "exp(a k^b)"}


RLReturnsAnswer = PublishedAnswer | RewardAnswer | CoverageAnswer


def rl_returns(question: RLReturnsQuestion | None = None, /, **given: Given) -> RLReturnsAnswer:
    """Beta of published RL runs, or what RL buys by your own points.

    Parameters
    ----------
    question : RLReturnsQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or bool
        Fields of :class:`~computeledger.questions.rl_returns.RLReturnsQuestion`: ``published=True``, or a table of
        points as ``reward`` or ``coverage``.

    Returns
    -------
    PublishedAnswer, RewardAnswer or CoverageAnswer
        Published runs with their beta; laws of reward; or a law of coverage with pass@k.

    Raises
    ------
    InputError
        For a table without its columns, too few points, and a forecast too far from them.

    Examples
    --------
    >>> found = rl_returns(published=True)
    >>> min(one.beta_gpu_time / one.beta_flop for one in found.betas) > 1
    True
    """
    return from_python(RLReturnsQuestion, answer_rl_returns, question, given)


def answer_rl_returns(question: RLReturnsQuestion) -> RLReturnsAnswer:
    """Answer ``computeledger rl`` with ``--published``, ``--reward`` or ``--coverage``."""
    if question.reward is not None:
        compute, reward = _columns(question.reward, ("compute", "reward"))
        return RewardAnswer([fit_reward(compute, reward, law) for law in ("sigmoid", "power law")], question.forecast)
    if question.coverage is not None:
        found = _answer_coverage(question.coverage, question.forecast)
        if question.trained is None:
            return found
        return replace(found, trained=_answer_coverage(question.trained, None).fit)
    return PublishedAnswer(published_betas())


def _columns(path: str, names: Sequence[str]) -> list[list[float]]:
    """Columns of numbers of a user's table."""
    rows = read_rows(path)
    missing = [name for name in names if name not in rows[0]]
    if missing:
        raise InputError(f"{path}: the columns {', '.join(missing)} are missing; needed: {', '.join(names)}")
    found: list[list[float]] = [[] for _ in names]
    for line, row in enumerate(rows, 2):
        for place, name in enumerate(names):
            try:
                value = float(row[name])
            except ValueError:
                value = math.nan
            if not abs(value) <= LARGEST:
                raise InputError(f"{path}:{line}: {name} {shown(row[name])} is no number up to {LARGEST:g}")
            found[place].append(value)
    return found


def _answer_coverage(path: str, at: float | None) -> CoverageAnswer:
    rows = read_rows(path)
    if {"samples", "correct"} <= set(rows[0]):
        samples, correct = (np.array(column) for column in _columns(path, ("samples", "correct")))
        sizes = [float(k) for k in 2.0 ** np.arange(0, 20) if k <= np.min(samples)]
        seen = [float(np.mean(pass_at_k(samples, correct, k))) for k in sizes]
    else:
        sizes, seen = _columns(path, ("k", "coverage"))
    table = list(zip(sizes, seen, strict=True))
    if beyond := [value for _, value in table if not 0 <= value <= 1]:
        raise InputError(f"{path}: coverage {beyond[0]:g}: a share of the problems, from 0 to 1")
    inside = [(k, value) for k, value in table if 0 < value < 1]
    if at is not None and at > FARTHEST_FORECAST * max(sizes, default=0.0):
        raise InputError(
            f"--forecast {at:g}: the points reach to {max(sizes):g} samples, and a forecast at most "
            f"{FARTHEST_FORECAST:g} times as far"
        )
    return CoverageAnswer(fit_coverage([k for k, _ in inside], [value for _, value in inside]), table, at)
