"""From a routing question to its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.economics.routing import (
    Outcome,
    RouteTask,
    Step,
    best_policy,
    break_even_price_ratio,
    evaluate_policies,
    independent,
    pareto_policies,
)
from computeledger.economics.routing_task import RouteQuestion, fit_attempts, read_route, route_task
from computeledger.errors import InputError
from computeledger.interfaces.price_source import load_sheet
from computeledger.workloads.result import quantity

#: Draws of what is uncertain, and policies beside the front that are listed.
DRAWS = 64


def answer_route(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger route``."""
    question = _question(options)
    kinds = list(question.difficulty)
    tasks = {kind: route_task(question, kind) for kind in kinds}
    whole = {kind: evaluate_policies(task) for kind, task in tasks.items()}
    out = _mixed(whole, question.difficulty)
    best = best_policy(out, question.least_success_fraction)
    front = [int(place) for place in pareto_policies(out)]
    singles = [place for place, policy in enumerate(out.policies) if len(policy) == 1 and policy[0].kind == "once"]
    listed = list(dict.fromkeys([best, *singles, *_bests(out, tasks[kinds[0]]), *front]))
    draws = _draws(question, [out.policies[place] for place in listed], options)
    bound = _mixed({k: evaluate_policies(independent(t), [out.policies[p] for p in listed]) for k, t in tasks.items()},
                   question.difficulty)  # fmt: skip
    names = [model.name for model in question.models]
    rows = [_row(out, place, names, (draws, i), bound) for i, place in enumerate(listed)]
    for row, place in zip(rows, listed, strict=True):
        row["on_front"], row["break_even_price_ratio"] = place in front, break_even_price_ratio(out, place, best)
    document = {
        "best": rows[0], "options": rows, "policies_compared": len(out.policies),
        "by_difficulty": _by_difficulty(whole, question, names),
        "least_success_fraction": question.least_success_fraction,
        "model_correlation": question.settings.model_correlation_fraction,
        "assumptions": [words for model in question.models for words in model.is_assumed],
        "remark": _remark(question, out, singles),
    }  # fmt: skip
    document["single_models"] = [row["policy"] for row in rows[1 : 1 + len(singles)]] if best not in singles else None
    return {key: value for key, value in document.items() if value is not None}


def _question(options: Mapping[str, Any]) -> RouteQuestion:
    if options["task_file"] is None and options["attempts"] is None:
        raise InputError("TASK.toml is missing: computeledger route TASK.toml, or --attempts F.csv")
    if options["attempts"] is None:
        return read_route(options["task_file"], load_sheet)
    models, correlation = fit_attempts(options["attempts"])
    if options["task_file"] is not None:
        given = read_route(options["task_file"], load_sheet)
        return replace(given, models=models, settings=replace(given.settings, model_correlation_fraction=correlation))
    from computeledger.economics.routing import RouteModel

    settings = RouteTask((RouteModel("any", 0.5, 0.0, 0.0),), model_correlation_fraction=correlation)
    return RouteQuestion(models, settings)


def _mixed(by_kind: Mapping[str, Outcome], shares: Mapping[str, float]) -> Outcome:
    """All difficulties together, each with its share."""
    first = next(iter(by_kind.values()))
    sums = [sum(shares[kind] * getattr(one, name) for kind, one in by_kind.items())
            for name in ("success_fraction", "wrong_fraction", "usd_per_task", "s_per_task")]  # fmt: skip
    return Outcome(first.policies, *(np.asarray(value) for value in sums))


def _bests(out: Outcome, task: RouteTask) -> list[int]:
    """Best retry count, best of k and best cascade of the best single model's success or more."""
    groups: dict[str, list[int]] = {"retry": [], "best": [], "cascade": []}
    for place, policy in enumerate(out.policies):
        kind = "cascade" if len(policy) > 1 else policy[0].kind
        if kind in groups:
            groups[kind].append(place)
    each = out.usd_per_completed_task
    found = [places[int(np.argmin(each[places]))] for places in groups.values() if places]
    least = max(model.success_fraction for model in task.models)
    good = np.flatnonzero(out.success_fraction >= least - 1e-9)
    return [*found, *([int(good[np.argmin(each[good])])] if good.size else [])]


def _draws(question: RouteQuestion, policies: list[tuple[Step, ...]], options: Mapping[str, Any]) -> list[Outcome]:
    rng = np.random.default_rng(options["seed"])
    return [
        _mixed({kind: evaluate_policies(route_task(question, kind, rng), policies) for kind in question.difficulty},
               question.difficulty)
        for _ in range(DRAWS)
    ]  # fmt: skip


def policy_words(policy: tuple[Step, ...], names: list[str]) -> str:
    """A policy as people write it."""
    form = {"once": "{0}", "retry": "{0} x{1} checked", "best": "best of {1} {0}"}
    return " -> ".join(form[step.kind].format(names[step.model], step.tries) for step in policy)


def _row(
    out: Outcome, place: int, names: list[str], drawn: tuple[list[Outcome], int], bound: Outcome
) -> dict[str, Any]:
    draws, i = drawn
    cost = np.array([one.usd_per_completed_task[i] for one in draws])
    success = np.array([one.success_fraction[i] for one in draws])
    return {
        "policy": policy_words(out.policies[place], names),
        "usd_per_completed_task": float(out.usd_per_completed_task[place]),
        "success_fraction": float(out.success_fraction[place]),
        "seconds": float(out.s_per_task[place]),
        "usd_per_task": float(out.usd_per_task[place]),
        "wrong_fraction": float(out.wrong_fraction[place]),
        "interval": {"usd_per_completed_task": quantity(cost, "USD"), "success_fraction": quantity(success, "")},
        "independent_upper_bound_success_fraction": float(bound.success_fraction[i]),
    }


def _by_difficulty(whole: Mapping[str, Outcome], question: RouteQuestion, names: list[str]) -> dict[str, Any] | None:
    """The best policy of each difficulty, where tasks are told apart."""
    if len(whole) < 2:
        return None
    rows, usd, success = {}, 0.0, 0.0
    for kind, out in whole.items():
        least = min(question.least_success_fraction, float(out.success_fraction.max()))
        place = best_policy(out, least)
        usd += question.difficulty[kind] * float(out.usd_per_task[place])
        success += question.difficulty[kind] * float(out.success_fraction[place])
        rows[kind] = {
            "policy": policy_words(out.policies[place], names), "success_fraction": float(out.success_fraction[place]),
            "usd_per_completed_task": float(out.usd_per_completed_task[place]),
        }  # fmt: skip
    return {"policies": rows, "success_fraction": success, "usd_per_task": usd, "usd_per_completed_task": usd / success}


def _remark(question: RouteQuestion, out: Outcome, singles: list[int]) -> str:
    """Whether the cheapest attempt is the dearest completed task."""
    names = [question.models[out.policies[place][0].model].name for place in singles]
    cheap = names[int(np.argmin(out.usd_per_task[singles]))]
    task = names[int(np.argmin(out.usd_per_completed_task[singles]))]
    if cheap == task:
        return f"{cheap} is the cheapest by the attempt and by the completed task"
    return f"{cheap} is the cheapest by the attempt, {task} by the completed task"
