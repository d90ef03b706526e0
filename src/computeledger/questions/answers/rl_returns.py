"""What RL buys, fitted to a reader's own points, and beta of published runs: questions of ``rl`` without a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from computeledger.errors import InputError, shown
from computeledger.questions.documents import rl as documents_rl
from computeledger.units import LARGEST
from computeledger.validation.measured_table import read_rows
from computeledger.validation.rl.beta import published_betas
from computeledger.workloads.rl.coverage import fit_coverage, pass_at_k
from computeledger.workloads.rl.returns import FARTHEST_FORECAST, fit_reward


def answer_published() -> dict[str, Any]:
    """Answer ``rl --published``."""
    return documents_rl.published_document(published_betas())


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


def answer_reward(path: str, at: float | None) -> dict[str, Any]:
    """Answer ``rl --reward``."""
    compute, reward = _columns(path, ("compute", "reward"))
    fits = [fit_reward(compute, reward, law) for law in ("sigmoid", "power law")]
    return {**documents_rl.reward_document(fits, at), "farthest_forecast": FARTHEST_FORECAST}


def answer_coverage(path: str, at: float | None) -> dict[str, Any]:
    """Answer ``rl --coverage``."""
    rows = read_rows(path)
    if {"samples", "correct"} <= set(rows[0]):
        samples, correct = (np.array(column) for column in _columns(path, ("samples", "correct")))
        sizes = [float(k) for k in 2.0 ** np.arange(0, 20) if k <= np.min(samples)]
        seen = [float(np.mean(pass_at_k(samples, correct, k))) for k in sizes]
    else:
        sizes, seen = _columns(path, ("k", "coverage"))
    table = list(zip(sizes, seen, strict=True))
    inside = [(k, value) for k, value in table if 0 < value < 1]
    if at is not None and at > FARTHEST_FORECAST * max(sizes, default=0.0):
        raise InputError(
            f"--forecast {at:g}: the points reach to {max(sizes):g} samples, and a forecast at most "
            f"{FARTHEST_FORECAST:g} times as far"
        )
    fit = fit_coverage([k for k, _ in inside], [value for _, value in inside])
    return documents_rl.coverage_document(fit, table, at)
