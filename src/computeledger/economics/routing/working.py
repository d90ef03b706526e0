"""The working of a route: formula and inputs of what the cheapest policy costs and completes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from computeledger.arrays import Uncertain, sample
from computeledger.economics.routing.model import RouteTask, Step, evaluate_policies
from computeledger.economics.routing.task import ModelQuestion, RouteCase, route_task
from computeledger.workloads.result import Figure, Term

#: What a task costs: tries, checks and the person, then what waiting and failing cost besides.
_PARTS = {
    "attempts_usd_per_task": "tries, checks and any person",
    "waiting_usd_per_task": "waiting",
    "failure_usd_per_task": "tasks not completed",
}
_COPULA = "all under one common difficulty of the task, normally distributed"


def route_figures(question: RouteCase, policy: tuple[Step, ...], found: Mapping[str, float]) -> tuple[Figure, ...]:
    """Show how the figures of one policy come about.

    Examples
    --------
    >>> from pathlib import Path
    >>> from computeledger.economics.routing.task import route_of
    >>> from computeledger.facts.reading import Document
    >>> table = {"model": [{"name": "a", "success": 0.5, "usd_per_attempt": 0.1}]}
    >>> question = route_of(Document("T", "", table, shipped=False), Path())
    >>> names = ("usd_per_task", "usd_per_completed_task", "success_fraction", "wrong_fraction", "seconds")
    >>> names += ("attempts_usd_per_task", "waiting_usd_per_task", "failure_usd_per_task")
    >>> [one.name for one in route_figures(question, (Step(0, 1, "once"),), dict.fromkeys(names, 0.5))][-1]
    'usd_per_completed_task'
    """
    models = [question.models[place] for place in dict.fromkeys(step.model for step in policy)]
    checks = [name for name in ("false_accept", "false_reject") if name in question.uncertain]
    chances = [term for one in models for term in _chances(one)]
    alike = _term("models fail alike", question.uncertain["model_correlation"], "fraction")
    rates = tuple(_term(name.replace("_", " "), question.uncertain[name], "fraction") for name in checks)
    return (*_shares(found, (*chances, alike, *rates)), *_money(question, policy, found))


def _chances(model: ModelQuestion) -> tuple[Term, ...]:
    """How often a model succeeds, by difficulty, and how much its failures repeat."""
    found = []
    for kind, chance in model.chances.items():
        name = f"{model.name} succeeds" + ("" if kind == "all" else f", {kind}")
        if isinstance(chance, tuple):
            right, tried = chance
            share, counted = right / max(tried, 1.0), f"{right:g} of {tried:g} attempts"
            found.append(_from_source(Term(name, share, "fraction", "plan", counted), model, counted))
        else:
            found.append(_term(name, chance, "fraction"))
    return (*found, _term(f"failures of {model.name} repeat", model.retry_correlation_fraction, "fraction"))


def _from_source(term: Term, model: ModelQuestion, where: str) -> Term:
    """An input that was read where the model's figures are from, if that is named."""
    return replace(term, origin="fact", ground=f"{model.source}, {where}") if model.source else term


def _term(name: str, value: Uncertain, unit: str) -> Term:
    """An input of the question, a range as samples."""
    return Term(name, sample({name: value})[name], unit, "plan", "TASK.toml")


def _stated(name: str, value: float, unit: str) -> Term:
    """A number of the question."""
    return Term(name, value, unit, "plan", "TASK.toml")


def _mean(model: ModelQuestion, name: str, value: Uncertain, unit: str) -> Term:
    """What a try takes: a mean over those that were counted."""
    return _from_source(_term(name, value, unit), model, "mean over the attempts")


def _money(question: RouteCase, policy: tuple[Step, ...], found: Mapping[str, float]) -> tuple[Figure, ...]:
    """Time and cost of a task, each after what it is made of."""
    settings = question.settings
    models = [question.models[place] for place in dict.fromkeys(step.model for step in policy)]
    times = [_mean(one, f"one try of {one.name} takes", one.attempt_s, "s") for one in models]
    is_checked, person = any(step.kind != "once" for step in policy), settings.fallback
    spent = [_stated("one check takes", settings.verifier.check_s, "s")] if is_checked else []
    if person is not None and (not policy or is_checked):
        spent.append(_stated("a person takes", person.task_s, "s"))
    seconds, share = Term("time of a task", found["seconds"], "s"), Term("share completed", found["success_fraction"],
                                                                         "fraction")  # fmt: skip
    failing = _stated("a task that is not completed", settings.failure_usd, "USD")
    waiting = _stated("an hour of waiting", settings.usd_per_hour, "USD")
    parts = tuple(Term(name, found[key], "USD") for key, name in _PARTS.items() if found[key])
    added = " + ".join(one.name for one in parts)
    each = Term("cost of a task", found["usd_per_task"], "USD")
    besides = (
        Figure("waiting_usd_per_task", found["waiting_usd_per_task"], "USD",
               f"{seconds.name} x {waiting.name} / 3600", (seconds, waiting)),
        Figure("failure_usd_per_task", found["failure_usd_per_task"], "USD",
               f"(1 - {share.name}) x {failing.name}", (share, failing)),
    )  # fmt: skip
    return (
        Figure("seconds", found["seconds"], "s",
               "tries and checks one after the other, a best-of-k side by side, then the person", (*times, *spent)),
        _paid(question, policy, found["attempts_usd_per_task"]),
        *(one for one in besides if one.value),
        Figure("usd_per_task", found["usd_per_task"], "USD", added or "nothing", parts),
        Figure("usd_per_completed_task", found["usd_per_completed_task"], "USD", f"{each.name} / {share.name}",
               (each, share)),
    )  # fmt: skip


def _paid(question: RouteCase, policy: tuple[Step, ...], whole: float) -> Figure:
    """What is paid for a task: how many tries, checks and tasks of the person there are, and what one costs."""
    terms: list[Term] = []
    for place in dict.fromkeys(step.model for step in policy):
        one = question.models[place]
        tries = [_counted(question, policy, f"{kind} tries of {one.name}", functools.partial(_tries_alone, place, kind))
                 for kind in _KINDS]  # fmt: skip
        mean = _mean(one, "", one.attempt_usd, "USD")
        ground = f"{mean.ground}, parted by what a failed one costs over a solved one"
        for kind, (number, usd) in zip(_KINDS, tries, strict=True):
            if point := float(number.value):
                terms += [number, replace(mean, name=f"a {kind} try of {one.name}", value=usd / point, ground=ground)]
    for name, each, price in (
        ("checks", "one check", _check_alone),
        ("tasks left to a person", "a person", _person_alone),
    ):
        number, usd = _counted(question, policy, name, price)
        if point := float(number.value):
            terms += [number, _stated(each, usd / point, "USD")]
    formula = "each number x what one costs, added up" if terms else "nothing"
    return Figure("attempts_usd_per_task", whole, "USD", formula, tuple(terms))


#: Tries that are told apart by what they cost.
_KINDS = ("solved", "failed")
_Priced = Callable[[RouteTask, bool], RouteTask]


def _counted(question: RouteCase, policy: tuple[Step, ...], name: str, alone: _Priced) -> tuple[Term, float]:
    """How many of one thing a task takes, and what they cost: all else is free, and each costs 1 or its price."""
    found = [0.0, 0.0]
    for kind, share in question.difficulty.items():
        task = route_task(question, kind)
        for place, is_unit in enumerate((True, False)):
            priced = replace(alone(task, is_unit), usd_per_hour=0.0, failure_usd=0.0)
            found[place] += share * float(evaluate_policies(priced, [policy]).usd_per_task[0])
    return Term(name, found[0], "", ground="a task, by the chances and the check"), found[1]


def _free(task: RouteTask) -> RouteTask:
    """A task whose tries, checks and person cost nothing."""
    models = tuple(replace(one, solved_usd=0.0, failed_usd=0.0) for one in task.models)
    person = None if task.fallback is None else replace(task.fallback, task_usd=0.0)
    return replace(task, models=models, verifier=replace(task.verifier, check_usd=0.0), fallback=person)


def _tries_alone(place: int, kind: str, task: RouteTask, is_unit: bool) -> RouteTask:
    free, own = _free(task), task.models[place]
    usd = 1.0 if is_unit else own.solved_usd if kind == _KINDS[0] else own.failed_usd
    solved, failed = (usd, 0.0) if kind == _KINDS[0] else (0.0, usd)
    models = list(free.models)
    models[place] = replace(own, solved_usd=solved, failed_usd=failed)
    return replace(free, models=tuple(models))


def _check_alone(task: RouteTask, is_unit: bool) -> RouteTask:
    usd = 1.0 if is_unit else task.verifier.check_usd
    return replace(_free(task), verifier=replace(task.verifier, check_usd=usd))


def _person_alone(task: RouteTask, is_unit: bool) -> RouteTask:
    if task.fallback is None:
        return _free(task)
    return replace(_free(task), fallback=replace(task.fallback, task_usd=1.0 if is_unit else task.fallback.task_usd))


def _shares(found: Mapping[str, float], terms: tuple[Term, ...]) -> tuple[Figure, ...]:
    done = "right tries that the check lets pass, step after step on what is passed on, then the person"
    wrong = "wrong tries that are delivered: all without a check, those that it lets pass with one"
    return (
        Figure("success_fraction", found["success_fraction"], "fraction", f"{done}; {_COPULA}", terms),
        Figure("wrong_fraction", found["wrong_fraction"], "fraction", f"{wrong}; {_COPULA}", terms),
    )
