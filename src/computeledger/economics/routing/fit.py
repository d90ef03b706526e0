"""A table of attempts, one row per attempt, fitted: chances by difficulty, correlations, costs, all with intervals.

Attempts at one task repeat each other, so counts are thinned to what they would be worth if they did not; a rare
difficulty leans on the model's other tasks and on the other models (beta-binomial shrinkage, its strength fitted).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range, Uncertain
from computeledger.economics.prices.sheets import PriceSheet, Usage, bill
from computeledger.economics.routing.model import FAILED_COST_RATIO, normal_nodes, success_by_task
from computeledger.economics.routing.task import MODEL_RANGE, RETRY_RANGE, ModelQuestion, at
from computeledger.errors import InputError, shown
from computeledger.files import MOST_ROWS, read_json_lines, read_table

Floats = NDArray[np.float64]

_BOOTSTRAP = 200
_STRENGTHS = np.geomspace(1.0, 1000.0, 25)
_GRID = np.linspace(0.0, 1.0, 11)
_RIDGE = 0.25
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "patch_tokens")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a model at a task."""

    model: str
    task: str
    success: bool
    usd: float
    s: float = 0.0
    difficulty: str = "all"
    tool_failed: bool | None = None
    tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class AttemptFit:
    """What a table of attempts says."""

    models: tuple[ModelQuestion, ...]
    model_correlation_fraction: Uncertain
    difficulty: dict[str, float]
    facts: tuple[dict[str, Any], ...]


def read_attempts(path: str | Path, sheets: Callable[[str], PriceSheet] | None = None) -> list[Attempt]:
    """Read a table of attempts.

    Examples
    --------
    >>> read_attempts("missing.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.csv: no such file
    """
    file = Path(path)
    table: Sequence[tuple[int, Mapping[str, Any]]]
    if file.suffix == ".jsonl":
        table = [(line, _json_object(f"{file}:{line}", found)) for line, found in read_json_lines(file, MOST_ROWS)]
    else:
        table = list(read_table(file, comment="#"))
    needed = ("model", "task", "success")
    if not table or any(column not in table[0][1] for column in needed):
        why = "" if table else "no attempt in it; "
        raise InputError(f"{file}: {why}needed are the columns {', '.join(needed)}, and cost or tokens")
    if "cost" not in table[0][1] and (sheets is None or any(key not in table[0][1] for key in _TOKENS[:2])):
        raise InputError(f"{file}: needed is cost, or input_tokens and output_tokens of models with a price sheet")
    for line, row in table:
        if lacks := [column for column in needed if column not in row]:
            raise InputError(f"{file}:{line}: {', '.join(lacks)} missing")
    priced: dict[str, PriceSheet] = {}
    return [_attempt(f"{file}:{line}", row, priced, sheets) for line, row in table]


def _json_object(where: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InputError(f"{where}: every line must be an object")
    return found


def _attempt(
    where: str, row: Mapping[str, Any], priced: dict[str, PriceSheet], sheets: Callable[[str], PriceSheet] | None
) -> Attempt:
    model = str(row["model"])
    tokens = {key: _number(where, row, key) for key in _TOKENS}
    if row.get("cost") not in (None, ""):
        usd = _number(where, row, "cost")
    elif sheets is not None and "input_tokens" in row:
        if model not in priced:
            priced[model] = sheets(model)
        prompt = tokens["input_tokens"] + tokens["patch_tokens"]
        if tokens["cached_tokens"] > prompt:
            raise InputError(f"{where}: cached_tokens exceed the prompt")
        usage = Usage(round(prompt), round(tokens["output_tokens"]), round(tokens["cached_tokens"]))
        usd = float(bill(priced[model], usage)["total"])
    else:
        raise InputError(f"{where}: cost is missing")
    broke = row.get("tool_failed")
    return Attempt(
        model, str(row["task"]), _truth(where, "success", row["success"]), usd, _number(where, row, "seconds"),
        str(row.get("difficulty") or "all"), None if broke in (None, "") else _truth(where, "tool_failed", broke),
        tokens["input_tokens"] + tokens["patch_tokens"] + tokens["output_tokens"],
    )  # fmt: skip


def _number(where: str, row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    if value in (None, ""):
        return 0.0
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: {key} {shown(value)}: expected a number") from None
    if not (number >= 0 and math.isfinite(number)):
        raise InputError(f"{where}: {key} {number:g}: must not be negative")
    return number


def _truth(where: str, key: str, value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in ("0", "1", "true", "false", "1.0", "0.0"):
        raise InputError(f"{where}: {key} {shown(value)}: expected true or false, 1 or 0")
    return word in ("1", "true", "1.0")


def fit_attempts(attempts: list[Attempt], seed: int = 0) -> AttemptFit:
    """Fit chances by difficulty, correlations and costs to attempts.

    Examples
    --------
    >>> tries = [Attempt("a", str(task), task < 3, 0.1) for task in range(10)]
    >>> fit_attempts(tries).models[0].chances
    {'all': (3.0, 10.0)}
    """
    rng = np.random.default_rng(seed)
    by_model: dict[str, dict[str, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    kinds: dict[str, str] = {}
    for one in attempts:
        by_model[one.model][one.task].append(one)
        if kinds.setdefault(one.task, one.difficulty) != one.difficulty:
            raise InputError(
                f"task {one.task!r} is both {kinds[one.task]} and {one.difficulty}: one difficulty per task"
            )
    shares = {kind: sum(k == kind for k in kinds.values()) / len(kinds) for kind in dict.fromkeys(kinds.values())}
    rhos = {name: _retry_correlation(tasks, rng) for name, tasks in by_model.items()}
    cells = {name: _cells(tasks, at(rhos[name], 0.0), shares) for name, tasks in by_model.items()}
    chances = _shrunk(cells)
    models = tuple(_model(name, tasks, rhos[name], chances[name]) for name, tasks in by_model.items())
    facts = tuple(_facts(name, tasks) for name, tasks in by_model.items())
    return AttemptFit(models, _copula(by_model, models, rng), shares, facts)


def _retry_correlation(tasks: Mapping[str, list[Attempt]], rng: np.random.Generator) -> Uncertain:
    """Two attempts at one task are both right with ``p^2 + rho p (1 - p)``; tasks drawn again give the interval."""
    counts = np.array(
        [(sum(a.success for a in tries), len(tries)) for tries in tasks.values() if len(tries) > 1], float
    )
    if len(counts) < 2:
        return RETRY_RANGE
    found = [_pairwise(counts)]
    found += [_pairwise(counts[rng.integers(0, len(counts), len(counts))]) for _ in range(_BOOTSTRAP)]
    return _interval(np.array(found)[np.isfinite(found)], RETRY_RANGE)


def _pairwise(counts: Floats) -> float:
    solved, tried = counts.T
    share = solved.sum() / tried.sum()
    pairs = (tried * (tried - 1)).sum()
    if not 0 < share < 1:
        return math.nan
    both = (solved * (solved - 1)).sum() / pairs
    return float(np.clip((both - share**2) / (share * (1 - share)), 0.0, 0.99))


def _interval(found: Floats, otherwise: Uncertain) -> Uncertain:
    """90 % of what was found, kept off 0 and 1; what is assumed where nothing was."""
    if not found.size:
        return otherwise
    low, high = np.clip(np.quantile(found, [0.05, 0.95]), 1e-3, 0.999)
    return Range(float(low), float(high), bounded=True) if high > low else float(low)


def _cells(
    tasks: Mapping[str, list[Attempt]], rho: float, shares: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Successes and attempts per difficulty, thinned by ``1 + (m - 1) rho`` for the ``m`` attempts at a task."""
    out = dict.fromkeys(shares, (0.0, 0.0))
    for tries in tasks.values():
        worth = 1.0 / (1.0 + (len(tries) - 1) * rho)
        solved, tried = out[tries[0].difficulty]
        out[tries[0].difficulty] = (solved + worth * sum(a.success for a in tries), tried + worth * len(tries))
    return out


def _shrunk(cells: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Counts per difficulty with those a model's other tasks and the other models lend."""
    kinds = list(next(iter(cells.values())))
    if len(kinds) == 1:
        return {name: dict(by_kind) for name, by_kind in cells.items()}
    counts = np.array([[by_kind[kind] for kind in kinds] for by_kind in cells.values()])
    solved, tried = counts[..., 0], counts[..., 1]
    expected = _additive(solved, tried)
    fits = [_beta_binomial(solved, tried, expected, strength) for strength in _STRENGTHS]
    strength = float(_STRENGTHS[int(np.argmax(fits))])
    mean = (solved + strength * expected) / (tried + strength)
    # what is lent weighs no more than the model's other attempts, of which it is made
    worth = tried + np.minimum(strength, tried.sum(axis=1, keepdims=True) - tried)
    lent = np.stack([mean * worth, worth], axis=-1)
    return {
        name: {kind: (float(lent[i, j, 0]), float(lent[i, j, 1])) for j, kind in enumerate(kinds)}
        for i, name in enumerate(cells)
    }


def _additive(solved: Floats, tried: Floats) -> Floats:
    """Chances of a logistic model of one number per model and one per difficulty, lightly drawn to the middle."""
    n_models, n_kinds = tried.shape
    rows = np.hstack([np.repeat(np.eye(n_models), n_kinds, axis=0), np.tile(np.eye(n_kinds), (n_models, 1))])
    right, n, theta = solved.ravel(), tried.ravel(), np.zeros(n_models + n_kinds)
    for _ in range(40):
        chance = 1 / (1 + np.exp(-(rows @ theta)))
        curve = (rows * (n * chance * (1 - chance))[:, None]).T @ rows + _RIDGE * np.eye(theta.size)
        theta = theta + np.linalg.solve(curve, rows.T @ (right - n * chance) - _RIDGE * theta)
    return (1 / (1 + np.exp(-(rows @ theta)))).reshape(tried.shape)


def _beta_binomial(solved: Floats, tried: Floats, expected: Floats, strength: float) -> float:
    """Log likelihood of counts whose chances scatter about what is expected."""
    a, b = expected * strength, (1 - expected) * strength
    log_beta = np.vectorize(lambda x, y: math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y))
    return float(np.sum(log_beta(a + solved, b + tried - solved) - log_beta(a, b)))


def _model(
    name: str, tasks: Mapping[str, list[Attempt]], rho: Uncertain, chances: dict[str, tuple[float, float]]
) -> ModelQuestion:
    every = [attempt for tries in tasks.values() for attempt in tries]
    usd = np.array([attempt.usd for attempt in every])
    right = np.array([attempt.success for attempt in every])
    solved, failed = (float(usd[chosen].mean()) if chosen.any() else 0.0 for chosen in (right, ~right))
    assumed = [f"retry_correlation of {name} 0.5..0.85"] if rho is RETRY_RANGE else []
    ratio = failed / solved if solved > 0 and failed > 0 else FAILED_COST_RATIO
    if not (solved > 0 and failed > 0):
        assumed.append(f"failed_cost_ratio of {name} {FAILED_COST_RATIO:g}")
    s = float(np.mean([a.s for a in every]))
    if s == 0:
        assumed.append(f"seconds of {name} 0")
    return ModelQuestion(
        name, chances, _mean_interval(usd), s, rho, ratio,
        is_assumed=tuple(assumed),
    )  # fmt: skip


def _mean_interval(values: Floats) -> Uncertain:
    """90 % interval of a mean."""
    mean = float(values.mean())
    half = Z_95 * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0
    if mean <= 0 or half < 1e-8 * mean:
        return mean
    spread = math.exp(min(half / mean, 2.0))
    return Range(mean / spread, mean * spread)


def _facts(name: str, tasks: Mapping[str, list[Attempt]]) -> dict[str, Any]:
    every = [attempt for tries in tasks.values() for attempt in tries]
    told = [attempt.tool_failed for attempt in every if attempt.tool_failed is not None]
    out: dict[str, Any] = {"model": name, "tasks": len(tasks), "attempts": len(every),
                           "successes": sum(attempt.success for attempt in every)}  # fmt: skip
    if told:
        out["tool_failure_fraction"] = sum(told) / len(told)
    if any(attempt.tokens for attempt in every):
        out["tokens_per_attempt"] = float(np.mean([attempt.tokens for attempt in every]))
    return out


def _copula(
    by_model: Mapping[str, Mapping[str, list[Attempt]]], models: tuple[ModelQuestion, ...], rng: np.random.Generator
) -> Uncertain:
    """Correlation at which pairs of models are right together as often as their first attempts were."""
    tasks = sorted({task for tried in by_model.values() for task in tried})
    first = np.array(
        [[float(tried[t][0].success) if t in tried else np.nan for t in tasks] for tried in by_model.values()]
    )
    _, weight = _excess(first)
    if not weight.any():
        return MODEL_RANGE
    expected = [_expected_excess(first, models, r, weight) for r in _GRID]
    if max(expected) - min(expected) < 1e-4:  # a model that always or never succeeds tells nothing
        return MODEL_RANGE
    found = []
    for draw in range(_BOOTSTRAP + 1):
        again = first if draw == 0 else first[:, rng.integers(0, len(tasks), len(tasks))]
        seen, shared = _excess(again)
        total = float((seen * shared).sum() / max(shared.sum(), 1.0))
        found.append(float(np.interp(total, np.maximum.accumulate(expected), _GRID)))
    return _interval(np.array(found), MODEL_RANGE)


def _excess(first: Floats) -> tuple[Floats, Floats]:
    """How much more often pairs are right together than apart, and on how many tasks both were tried."""
    tried = np.isfinite(first)
    known, seen = np.where(tried, first, 0.0), tried.astype(float)
    shared = np.triu(seen @ seen.T, 1)
    n = np.maximum(shared, 1.0)
    return np.triu(known @ known.T, 1) / n - (known @ seen.T) * (seen @ known.T) / n**2, shared


def _expected_excess(first: Floats, models: tuple[ModelQuestion, ...], r: float, shared: Floats) -> float:
    """The same under the copula."""
    _, nodes = normal_nodes()
    given, shares = [], np.nanmean(first, axis=1)
    for model, share in zip(models, shares, strict=True):
        chance, own = success_by_task(float(share), at(model.retry_correlation_fraction, 0.0), r)
        given.append(chance @ own)
    by_node = np.array(given)
    together = (by_node * nodes) @ by_node.T - np.outer(shares, shares)
    return float((together * shared).sum() / max(shared.sum(), 1.0))
