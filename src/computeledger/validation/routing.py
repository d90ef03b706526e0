"""Cascades and retries predicted from half of the tasks of real runs, and what happened on the other half."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.routing.choice import independent
from computeledger.economics.routing.fit import Attempt, fit_attempts
from computeledger.economics.routing.model import RouteModel, RouteTask, Step, evaluate_policies
from computeledger.economics.routing.task import RouteCase, route_task
from computeledger.errors import InputError
from computeledger.validation.compare import Summary, summarize

Floats = NDArray[np.float64]
Tries = dict[str, dict[str, list[Attempt]]]

_DRAWS = 40


@dataclass(frozen=True, slots=True)
class RoutingCheck:
    """Predicted against seen, with a verifier that never errs."""

    success: Summary
    success_if_independent: Summary
    cost: Summary
    retry_success: Summary
    n_tasks: int
    n_models: int


def check_attempts(attempts: list[Attempt], n_splits: int = 10, seed: int = 0) -> RoutingCheck:
    """Fit half of the tasks, predict every cascade of two models on the other half.

    Examples
    --------
    >>> tries = [Attempt(name, str(task), (task + k) % 3 > 0, 0.1) for k, name in enumerate("ab") for task in range(40)]
    >>> check = check_attempts(tries, n_splits=2)
    >>> check.n_tasks, check.n_models
    (40, 2)
    """
    first: Tries = defaultdict(dict)
    for one in attempts:
        first[one.model].setdefault(one.task, []).append(one)
    shared = sorted(set.intersection(*(set(tasks) for tasks in first.values()))) if first else []
    if len(first) < 2 or len(shared) < 4:
        raise InputError(f"{len(first)} models share {len(shared)} tasks: a check needs two models and four tasks")
    names, rng = list(first), np.random.default_rng(seed)
    cascades: list[tuple[Floats, ...]] = []
    retries: list[tuple[Floats, Floats]] = []
    for _ in range(n_splits):
        order = rng.permutation(len(shared))
        half = {shared[place] for place in order[: len(shared) // 2]}
        rest = [name for name in shared if name not in half]
        tasks = _drawn_tasks([replace(one, difficulty="all") for one in attempts if one.task in half], rng)
        cascades.append(_cascades(tasks, first, rest, rng))
        retries.append(_retries(tasks, first, rest, rng))
    seen = [np.concatenate([one[k] for one in cascades]) for k in range(5)]
    twice = [np.concatenate([one[k] for one in retries]) for k in range(2)]
    return RoutingCheck(
        summarize(seen[0], seen[1]), summarize(seen[2], seen[1]), summarize(seen[3], seen[4]),
        summarize(twice[0], twice[1]), len(shared), len(names),
    )  # fmt: skip


def _drawn_tasks(attempts: list[Attempt], rng: np.random.Generator) -> list[RouteTask]:
    """The fit, at draws of what is uncertain in it."""
    fit = fit_attempts(attempts)
    stand_in = RouteTask((RouteModel("any", 0.5, 0.0, 0.0),))
    question = RouteCase(fit.models, stand_in, uncertain={"model_correlation": fit.model_correlation_fraction})
    return [route_task(question, "all", rng) for _ in range(_DRAWS)]


def _noise(shares: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Shares as so many tasks would show them."""
    return rng.binomial(n, np.clip(shares, 0.0, 1.0)) / n


def _cascades(
    tasks: list[RouteTask], first: Tries, rest: list[str], rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Of each ordered pair: predicted and seen success, success if independent, predicted and seen cost."""
    names = [model.name for model in tasks[0].models]
    pairs = [(a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
    policies = [(Step(a, 1), Step(b, 1)) for a, b in pairs]
    outs = [evaluate_policies(task, policies) for task in tasks]
    bound = evaluate_policies(independent(tasks[0]), policies).success_fraction
    right = np.array([[float(first[name][t][0].success) for t in rest] for name in names])
    usd = np.array([[first[name][t][0].usd for t in rest] for name in names])
    success = _noise(np.array([out.success_fraction for out in outs]).T, len(rest), rng)
    seen = np.array([np.maximum(right[a], right[b]).mean() for a, b in pairs])
    paid = np.array([(usd[a] + (1 - right[a]) * usd[b]).mean() for a, b in pairs])
    each = _scatter(first, names, pairs, [t for t in first[names[0]] if t not in set(rest)]) / np.sqrt(len(rest))
    noise = each[:, None] * rng.standard_normal((len(pairs), len(tasks)))
    cost = np.array([out.usd_per_task for out in outs]).T + noise
    return success, seen, bound[:, None], np.maximum(cost, 0.0), paid


def _scatter(first: Tries, names: list[str], pairs: list[tuple[int, int]], half: list[str]) -> Floats:
    """How much the cost of a cascade differs between tasks of the fitted half."""
    fitted = [t for t in half if all(t in first[name] for name in names)]
    right = np.array([[float(first[name][t][0].success) for t in fitted] for name in names])
    usd = np.array([[first[name][t][0].usd for t in fitted] for name in names])
    return np.array([(usd[a] + (1 - right[a]) * usd[b]).std() for a, b in pairs])


def _retries(tasks: list[RouteTask], first: Tries, rest: list[str], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Predicted and seen share of tasks that one of two attempts solves."""
    predicted, seen = [np.empty((0, len(tasks)))], []
    for place, model in enumerate(tasks[0].models):
        twice = [first[model.name][t] for t in rest if len(first[model.name][t]) > 1]
        if len(twice) > 1:
            each = np.array([evaluate_policies(task, [(Step(place, 2),)]).success_fraction for task in tasks]).T
            predicted.append(_noise(each, len(twice), rng))
            seen.append(float(np.mean([_one_of_two([one.success for one in tries]) for tries in twice])))
    return np.concatenate(predicted), np.array(seen)


def _one_of_two(tries: list[bool]) -> float:
    """Chance that one of two attempts drawn from these is right."""
    n, wrong = len(tries), len(tries) - sum(tries)
    return 1.0 - wrong * (wrong - 1) / (n * (n - 1))
