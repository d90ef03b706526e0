"""From a routing question to its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from computeledger.arrays import Range
from computeledger.economics.routing import Outcome, RouteModel, RouteTask, Step, evaluate_policies
from computeledger.economics.routing_choice import (
    best_policy,
    break_even_price_ratio,
    independent,
    pareto_policies,
)
from computeledger.economics.routing_fit import fit_attempts, read_attempts
from computeledger.economics.routing_task import MODEL_RANGE, RouteQuestion, at, read_route, route_task
from computeledger.economics.routing_working import route_figures
from computeledger.errors import InputError
from computeledger.progress import counted
from computeledger.questions.documents.records import figure_document
from computeledger.questions.price_source import load_sheet
from computeledger.validation.routing import check_attempts
from computeledger.workloads.result import quantity

#: Draws of what is uncertain.
DRAWS = 128


def answer_route(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger route``."""
    if options["check"]:
        return _check(options)
    return answer_question(*_question(options), options)


def answer_question(
    question: RouteQuestion, facts: tuple[dict[str, Any], ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Policies for a question that was read, with what fitted attempts say of it."""
    kinds = list(question.difficulty)
    tasks = {kind: route_task(question, kind) for kind in kinds}
    whole = {kind: evaluate_policies(task) for kind, task in tasks.items()}
    out = _mixed(whole, question.difficulty)
    front = [int(place) for place in pareto_policies(out)]
    singles = [place for place, policy in enumerate(out.policies) if len(policy) == 1 and policy[0].kind == "once"]
    least = question.least_success_fraction
    if least is None:
        least = float(out.success_fraction[singles].max())
    best, freest = best_policy(out, least), best_policy(out)
    person = [place for place, policy in enumerate(out.policies) if not policy]
    bests = _bests(out, singles)
    by_kind = {kind: best_policy(one, min(least, float(one.success_fraction.max()))) for kind, one in whole.items()}
    listed = list(dict.fromkeys([best, freest, *singles, *person, *bests.values(), *front, *by_kind.values()]))
    drawn = _draws(question, [out.policies[place] for place in listed], options)
    bound = _mixed({k: evaluate_policies(independent(t), [out.policies[p] for p in listed]) for k, t in tasks.items()},
                   question.difficulty)  # fmt: skip
    names = [model.name for model in question.models]
    mixed = [_mixed(one, question.difficulty) for one in drawn]
    rows = [_row(out, place, names, (mixed, i), bound) for i, place in enumerate(listed)]
    for row, place in zip(rows, listed, strict=True):
        row["on_front"], row["break_even_price_ratio"] = place in front, break_even_price_ratio(out, place, best)
        row["single"] = place in singles
    document = {
        "best": rows[0], "cheapest_without_a_floor": rows[listed.index(freest)],
        "options": sorted(rows, key=lambda row: row["usd_per_completed_task"]), "policies_compared": len(out.policies),
        "best_of": {kind: rows[listed.index(place)]["policy"] for kind, place in bests.items()},
        "by_difficulty": _by_difficulty(whole, question, names, [(by_kind, listed, drawn)]),
        "least_success_fraction": least,
        "least_success_is": "the best single model's" if question.least_success_fraction is None else "stated",
        "model_correlation": _shown(question.uncertain["model_correlation"]),
        "retry_correlation": {model.name: _shown(model.retry_correlation_fraction) for model in question.models},
        "attempts": list(facts) or None,
        "assumptions": _assumptions(question), "remark": _remark(question, out, singles),
    }  # fmt: skip
    if options.get("working"):
        figures = route_figures(question, out.policies[best], rows[0])
        document["working"] = [figure_document(one) for one in figures]
    return {key: value for key, value in document.items() if value is not None}


def _check(options: Mapping[str, Any]) -> dict[str, Any]:
    """Predictions from half of the tasks against the other half."""
    if options["attempts"] is None:
        raise InputError("--check needs --attempts F.csv, the real runs to predict")
    found = check_attempts(read_attempts(options["attempts"], load_sheet), seed=options["seed"])
    names = ("success", "success_if_independent", "cost", "retry_success")
    return {
        **{name: asdict(getattr(found, name)) for name in names}, "n_tasks": found.n_tasks, "n_models": found.n_models,
    }  # fmt: skip


def _shown(value: Any) -> Any:
    """A number, or a range as a quantity's ends."""
    return {"p05": value.low, "p50": at(value, 0.0), "p95": value.high} if isinstance(value, Range) else value


def _assumptions(question: RouteQuestion) -> list[str]:
    out = [words for model in question.models for words in model.is_assumed]
    if question.uncertain.get("model_correlation") is MODEL_RANGE:
        out.append(f"model_correlation {MODEL_RANGE.low:g}..{MODEL_RANGE.high:g}")
    if not any(question.uncertain.get(name) for name in ("false_accept", "false_reject")):
        out.append("checks never err")
    if not question.settings.verifier.check_usd:
        out.append("checks cost nothing")
    return out


def _question(options: Mapping[str, Any]) -> tuple[RouteQuestion, tuple[dict[str, Any], ...]]:
    if options["task_file"] is None and options["attempts"] is None:
        raise InputError("TASK.toml is missing: computeledger route TASK.toml, or --attempts F.csv")
    if options["attempts"] is None:
        return read_route(options["task_file"], load_sheet), ()
    fit = fit_attempts(read_attempts(options["attempts"], load_sheet), options["seed"])
    given = RouteQuestion(fit.models, RouteTask((RouteModel("any", 0.5, 0.0, 0.0),)))
    if options["task_file"] is not None:
        given = read_route(options["task_file"], load_sheet)
    uncertain = {**given.uncertain, "model_correlation": fit.model_correlation_fraction}
    return replace(given, models=fit.models, difficulty=fit.difficulty, uncertain=uncertain), fit.facts


def _mixed(by_kind: Mapping[str, Outcome], shares: Mapping[str, float]) -> Outcome:
    """All difficulties together, each with its share."""
    first = next(iter(by_kind.values()))
    sums = [sum(shares[kind] * getattr(one, name) for kind, one in by_kind.items())
            for name in ("success_fraction", "wrong_fraction", "usd_per_task", "s_per_task")]  # fmt: skip
    return Outcome(first.policies, *(np.asarray(value) for value in sums))


def _bests(out: Outcome, singles: list[int]) -> dict[str, int]:
    """The cheapest per completed task of each kind, and of all that succeed like the best single model or more."""
    groups: dict[str, list[int]] = {"single": [], "retry": [], "best_of_k": [], "cascade": []}
    kinds = {"once": "single", "retry": "retry", "best": "best_of_k"}
    for place, policy in enumerate(out.policies):
        if policy:
            groups["cascade" if len(policy) > 1 else kinds[policy[0].kind]].append(place)
    each = out.usd_per_completed_task
    found = {kind: places[int(np.argmin(each[places]))] for kind, places in groups.items() if places}
    good = np.flatnonzero(out.success_fraction >= out.success_fraction[singles].max() - 1e-9)
    return {**found, "as_good_as_the_best_single": int(good[np.argmin(each[good])])}


def _draws(
    question: RouteQuestion, policies: list[tuple[Step, ...]], options: Mapping[str, Any]
) -> list[dict[str, Outcome]]:
    # the same luck in every difficulty, since the same tasks or the same lent counts tell of them
    return [
        {
            kind: evaluate_policies(
                route_task(question, kind, np.random.default_rng([options["seed"], draw])), policies
            )
            for kind in question.difficulty
        }
        for draw in counted(range(DRAWS), "draws")
    ]


def policy_words(policy: tuple[Step, ...], names: list[str]) -> str:
    """A policy as people write it."""
    if not policy:
        return "the person alone"
    form = {"once": "{0}", "retry": "{0} x{1} checked", "best": "best of {1} {0}"}
    return " -> ".join(form[step.kind].format(names[step.model], step.tries) for step in policy)


def _row(
    out: Outcome, place: int, names: list[str], drawn: tuple[list[Outcome], int], bound: Outcome
) -> dict[str, Any]:
    draws, i = drawn
    spread = {
        "usd_per_completed_task": ("usd_per_completed_task", "USD"), "success_fraction": ("success_fraction", ""),
        "seconds": ("s_per_task", "s"), "usd_per_task": ("usd_per_task", "USD"),
        "wrong_fraction": ("wrong_fraction", ""),
    }  # fmt: skip
    return {
        "policy": policy_words(out.policies[place], names),
        "usd_per_completed_task": float(out.usd_per_completed_task[place]),
        "success_fraction": float(out.success_fraction[place]),
        "seconds": float(out.s_per_task[place]),
        "usd_per_task": float(out.usd_per_task[place]),
        "wrong_fraction": float(out.wrong_fraction[place]),
        "interval": {
            name: quantity(np.array([getattr(one, key)[i] for one in draws]), unit)
            for name, (key, unit) in spread.items()
        },
        "independent_upper_bound_success_fraction": float(bound.success_fraction[i]),
    }


def _by_difficulty(
    whole: Mapping[str, Outcome], question: RouteQuestion, names: list[str],
    drawn: list[tuple[dict[str, int], list[int], list[dict[str, Outcome]]]],
) -> dict[str, Any] | None:  # fmt: skip
    """The best policy of each difficulty, where tasks are told apart before they are given out."""
    if len(whole) < 2:
        return None
    ((by_kind, listed, draws),) = drawn
    rows, usd, success = {}, 0.0, 0.0
    for kind, out in whole.items():
        place, at_row = by_kind[kind], listed.index(by_kind[kind])
        usd += question.difficulty[kind] * float(out.usd_per_task[place])
        success += question.difficulty[kind] * float(out.success_fraction[place])
        cost = np.array([one[kind].usd_per_completed_task[at_row] for one in draws])
        share = np.array([one[kind].success_fraction[at_row] for one in draws])
        rows[kind] = {
            "policy": policy_words(out.policies[place], names), "share_of_tasks": question.difficulty[kind],
            "success_fraction": float(out.success_fraction[place]),
            "usd_per_completed_task": float(out.usd_per_completed_task[place]),
            "interval": {"usd_per_completed_task": quantity(cost, "USD"), "success_fraction": quantity(share, "")},
        }  # fmt: skip
    return {"policies": rows, "success_fraction": success, "usd_per_task": usd, "usd_per_completed_task": usd / success}


def _remark(question: RouteQuestion, out: Outcome, singles: list[int]) -> str:
    """Whether the cheapest attempt is the dearest completed task."""
    models = [question.models[out.policies[place][0].model] for place in singles]
    names = [model.name for model in models]
    task = names[int(np.argmin(out.usd_per_completed_task[singles]))]
    if all(model.usd_per_mtok > 0 for model in models):
        token = names[int(np.argmin([model.usd_per_mtok for model in models]))]
        if token != task:
            return f"the cheap token is the dear task: {token} has the cheapest tokens, {task} completes for less"
    cheap = names[int(np.argmin(out.usd_per_task[singles]))]
    if cheap == task:
        return f"of single models {cheap} is the cheapest by the attempt and by the completed task"
    return f"of single models {cheap} is the cheapest by the attempt, {task} by the completed task"
