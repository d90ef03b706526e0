"""The working of a route: formula and inputs of what the cheapest policy costs and completes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from computeledger.arrays import Uncertain, sample
from computeledger.economics.routing.model import Step
from computeledger.economics.routing.task import ModelQuestion, RouteCase
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
    >>> [one.name for one in route_figures(question, (Step(0, 1, "once"),), dict.fromkeys(names, 0.5))][0]
    'usd_per_completed_task'
    """
    models = [question.models[place] for place in dict.fromkeys(step.model for step in policy)]
    checks = [name for name in ("false_accept", "false_reject") if name in question.uncertain]
    chances = [term for one in models for term in _chances(one)]
    alike = _term("models fail alike", question.uncertain["model_correlation"], "fraction")
    rates = tuple(_term(name.replace("_", " "), question.uncertain[name], "fraction") for name in checks)
    return (*_money(question, policy, found), *_shares(found, (*chances, alike, *rates)))


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


def _mean(model: ModelQuestion, name: str, value: Uncertain, unit: str) -> Term:
    """What a try takes: a mean over those that were counted."""
    return _from_source(_term(name, value, unit), model, "mean over the attempts")


def _money(question: RouteCase, policy: tuple[Step, ...], found: Mapping[str, float]) -> tuple[Figure, ...]:
    settings = question.settings
    models = [question.models[place] for place in dict.fromkeys(step.model for step in policy)]
    tries = [_mean(one, f"one try of {one.name}", one.attempt_usd, "USD") for one in models]
    failed = [_mean(one, f"a failed over a solved try of {one.name}", one.failed_cost_ratio, "") for one in models]
    times = [_mean(one, f"one try of {one.name} takes", one.attempt_s, "s") for one in models]
    check = asdict(settings.verifier)
    checked = any(step.kind != "once" for step in policy)
    paid = [Term("one check", check["check_usd"], "USD", "plan", "TASK.toml")] if checked else []
    spent = [Term("one check takes", check["check_s"], "s", "plan", "TASK.toml")] if checked else []
    person = settings.fallback
    if person is not None and (not policy or checked):
        paid.append(Term("a person", person.task_usd, "USD", "plan", "TASK.toml"))
        spent.append(Term("a person takes", person.task_s, "s", "plan", "TASK.toml"))
    failing = Term("a task that is not completed", settings.failure_usd, "USD", "plan", "failure_usd")
    waiting = Term("an hour of waiting", settings.usd_per_hour, "USD", "plan", "TASK.toml")
    seconds = Term("time of a task", found["seconds"], "s")
    parts = tuple(Term(name, found[key], "USD") for key, name in _PARTS.items() if found[key])
    share = Term("share completed", found["success_fraction"], "fraction")
    added = " + ".join(one.name for one in parts)
    formula = f"({added}) / {share.name}" if len(parts) > 1 else f"{added or 'cost of a task'} / {share.name}"
    return (
        Figure("usd_per_completed_task", found["usd_per_completed_task"], "USD", formula, (*parts, share)),
        Figure("usd_per_task", found["usd_per_task"], "USD",
               "solved and failed tries + checks + the person on what is left + time x price of waiting / 3600 + "
               "share not completed x what one costs", (*tries, *failed, *paid, seconds, waiting, failing)),
        Figure("seconds", found["seconds"], "s",
               "tries and checks one after the other, a best-of-k side by side, then the person", (*times, *spent)),
    )  # fmt: skip


def _shares(found: Mapping[str, float], terms: tuple[Term, ...]) -> tuple[Figure, ...]:
    done = "right tries that the check lets pass, step after step on what is passed on, then the person"
    wrong = "wrong tries that are delivered: all without a check, those that it lets pass with one"
    return (
        Figure("success_fraction", found["success_fraction"], "fraction", f"{done}; {_COPULA}", terms),
        Figure("wrong_fraction", found["wrong_fraction"], "fraction", f"{wrong}; {_COPULA}", terms),
    )
