"""Answer a routing question: policies by cost and success, with intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Range
from computeledger.economics.routing.choice import (
    best_policy,
    break_even_price_ratio,
    cheapest_by_failure,
    independent,
    pareto_policies,
)
from computeledger.economics.routing.fit import fit_attempts, read_attempts
from computeledger.economics.routing.model import Outcome, RouteModel, RouteTask, Step, evaluate_policies
from computeledger.economics.routing.task import MODEL_RANGE, RouteCase, at, read_route, route_of, route_task
from computeledger.economics.routing.working import route_figures
from computeledger.facts.reading import Document
from computeledger.fields import Given
from computeledger.progress import counted
from computeledger.questions.answer import Answer, Quantity, from_python
from computeledger.questions.answers.prices.source import load_sheet
from computeledger.questions.document import document, keyed
from computeledger.questions.grounds import figure_document
from computeledger.questions.policies import chain
from computeledger.questions.route import RouteQuestion
from computeledger.units import HOUR_S
from computeledger.validation.routing import RoutingCheck, check_attempts
from computeledger.workloads.result import quantity

#: Draws of what is uncertain.
DRAWS = 128


@dataclass(frozen=True, eq=False, slots=True)
class PolicyDraws:
    """Figures of a policy over the draws of what is uncertain."""

    usd_per_completed_task: NDArray[np.float64]
    success_fraction: NDArray[np.float64]
    s_per_task: NDArray[np.float64] = field(metadata=keyed("seconds"))
    usd_per_task: NDArray[np.float64]
    wrong_fraction: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class PolicyFigures:
    """A policy at the middle of all inputs, with its draws and what independence would promise."""

    policy: str
    usd_per_completed_task: float
    success_fraction: float
    s_per_task: float = field(metadata=keyed("seconds"))
    usd_per_task: float
    attempts_usd_per_task: float
    waiting_usd_per_task: float
    failure_usd_per_task: float
    wrong_fraction: float
    interval: PolicyDraws
    independent_upper_bound_success_fraction: float
    on_front: bool
    break_even_price_ratio: float | None
    single: bool


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RouteAnswer(Answer):
    """Policies for a task: each a model, retries, the best of several tries, or a cascade."""

    case: RouteCase
    facts: tuple[dict[str, Any], ...]
    outcomes: Mapping[str, Outcome]
    outcome: Outcome
    listed: tuple[int, ...]
    draws: tuple[Mapping[str, Outcome], ...]
    bound: Outcome
    least_success_fraction: float

    @property
    def policy(self) -> str:
        """The cheapest policy that completes enough of the tasks."""
        return policy_words(self.outcome.policies[self.listed[0]], self._names)

    @property
    def usd_per_completed_task(self) -> Quantity:
        """Its cost per completed task [USD]."""
        return self._drawn("usd_per_completed_task", "USD")

    @property
    def success_fraction(self) -> Quantity:
        """Share of the tasks that it completes [-]."""
        return self._drawn("success_fraction", "")

    @property
    def policies(self) -> tuple[PolicyFigures, ...]:
        """The policies that are listed: the cheapest that completes enough first."""
        out, best = self.outcome, self.listed[0]
        singles, front = _singles(out), pareto_policies(out)
        mixed = self._mixed()
        waiting, failing = self._besides_tries()
        return tuple(
            PolicyFigures(
                policy=policy_words(out.policies[place], self._names),
                usd_per_completed_task=float(out.usd_per_completed_task[place]),
                success_fraction=float(out.success_fraction[place]),
                s_per_task=float(out.s_per_task[place]),
                usd_per_task=float(out.usd_per_task[place]),
                attempts_usd_per_task=float(out.usd_per_task[place] - waiting[place] - failing[place]),
                waiting_usd_per_task=float(waiting[place]),
                failure_usd_per_task=float(failing[place]),
                wrong_fraction=float(out.wrong_fraction[place]),
                interval=_draws_of(mixed, row),
                independent_upper_bound_success_fraction=float(self.bound.success_fraction[row]),
                on_front=place in front,
                break_even_price_ratio=break_even_price_ratio(out, place, best),
                single=place in singles,
            )
            for row, place in enumerate(self.listed)
        )

    def _besides_tries(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What waiting and tasks that are not completed cost with each policy [USD per task]."""
        settings, out = self.case.settings, self.outcome
        return out.s_per_task * settings.usd_per_hour / HOUR_S, (1 - out.success_fraction) * settings.failure_usd

    def _next(self, *, is_other: bool) -> dict[str, Any] | None:
        """The next cheapest policy that completes enough, or that of other models, and the chance that it is dearer."""
        best, *rows = self.policies
        near = [row for row in rows if row.success_fraction >= self.least_success_fraction - 1e-9
                and not (is_other and chain(row.policy) == chain(best.policy))]  # fmt: skip
        if not near:
            return None
        alternative = min(near, key=lambda row: row.usd_per_completed_task)
        drawn = (one.interval.usd_per_completed_task for one in (best, alternative))
        dearer = np.subtract(*drawn) < 0
        return {
            "policy": alternative.policy,
            "usd_per_completed_task": alternative.usd_per_completed_task,
            "chance_dearer_fraction": float(np.mean(dearer)),
        }

    @property
    def _names(self) -> list[str]:
        return [model.name for model in self.case.models]

    def _drawn(self, name: str, unit: str) -> Quantity:
        """A figure of the answer: its quantiles over the draws, around the value at the middle of all inputs."""
        drawn = Quantity.of(np.array([getattr(one, name)[0] for one in self._mixed()]), unit)
        return dataclasses.replace(drawn, p50=float(getattr(self.outcome, name)[self.listed[0]]))

    def _mixed(self) -> list[Outcome]:
        return [_mixed(one, self.case.difficulty) for one in self.draws]

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger route --json`` prints it."""
        case, out, listed, least = self.case, self.outcome, self.listed, self.least_success_fraction
        singles, best = _singles(out), listed[0]
        rows = [document(one) for one in self.policies]
        found = {
            "best": rows[0], "cheapest_without_a_floor": rows[listed.index(best_policy(out))],
            "runner_up": self._next(is_other=False), "alternative": self._next(is_other=True),
            "options": sorted(rows, key=lambda row: row["usd_per_completed_task"]),
            "policies_compared": len(out.policies),
            "best_of": {kind: rows[listed.index(place)]["policy"] for kind, place in _bests(out, singles).items()},
            "failure_usd": case.settings.failure_usd, "by_failure_usd": _by_failure(self),
            "by_difficulty": _by_difficulty(self), "least_success_fraction": least,
            "least_success_is": "the best single model's" if case.least_success_fraction is None else "stated",
            "model_correlation": _shown(case.uncertain["model_correlation"]),
            "retry_correlation": {model.name: _shown(model.retry_correlation_fraction) for model in case.models},
            "attempts": list(self.facts) or None,
            "sources": sorted({model.source.partition(", ")[0] for model in case.models if model.source}) or None,
            "assumptions": _assumptions(case), "remark": _remark(case, out, singles, least),
        }  # fmt: skip
        if working:
            figures = route_figures(case, out.policies[best], rows[0])
            found["working"] = [_with_range(figure_document(one), rows[0]) for one in figures]
        return {key: value for key, value in found.items() if value is not None}


def _with_range(figure: dict[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    """A figure of the working, it and the figures that it is made of with the ranges of the answer."""
    ranges = {best[name]: (name, ends) for name, ends in best["interval"].items() if isinstance(ends, Mapping)}
    for one in (figure, *figure["terms"]):
        known = ranges.get(one["value"]) if one.get("origin", "figure") == "figure" else None
        if known is not None and one.get("name") in (known[0], _CALLED.get(known[0])):
            one["value"] = {**known[1], "p50": best[known[0]], "unit": one["unit"]}
    return figure


#: Figures of the answer as the formulas of others call them.
_CALLED = {"success_fraction": "share completed", "seconds": "time of a task", "usd_per_task": "cost of a task"}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RouteCheckAnswer(Answer):
    """Cascades of real runs, predicted from half of the tasks."""

    found: RoutingCheck

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger route --check-attempts --json`` prints it."""
        return document(self.found)


def route(
    question: RouteQuestion | str | Path | Mapping[str, Any] | None = None, /, **given: Given
) -> RouteAnswer | RouteCheckAnswer:
    """Which model, or which order of models, completes a task most cheaply.

    Parameters
    ----------
    question : RouteQuestion, str, Path or mapping, optional
        What is asked, the path of a task, or its tables as the file would have them; keywords change single fields.
    **given : str, float or bool
        Fields of :class:`~computeledger.questions.route.RouteQuestion`.

    Returns
    -------
    RouteAnswer or RouteCheckAnswer
        The cheapest policy that completes enough, with all others; with ``check_attempts``, how cascades of real runs
        were predicted.

    Raises
    ------
    InputError
        For a file that is none of a task or of attempts.

    Examples
    --------
    >>> answer = route("examples/money/route-support.toml")
    >>> answer.success_fraction.p50 >= answer.least_success_fraction
    True
    >>> small = {"name": "small", "success": 0.4, "usd_per_attempt": 0.02}
    >>> route({"model": [small, {"name": "large", "success": 0.8, "usd_per_attempt": 0.3}]}).to_dict()["best"]["policy"]
    'small x2 checked -> large'
    """
    if isinstance(question, (str, Path)):
        question, given = None, {**given, "task": str(question)}
    elif isinstance(question, Mapping):
        case = route_of(Document("task", "", dict(question), shipped=False, is_object=True), Path(), load_sheet)
        question, given = None, {**given, "task": case}  # type: ignore[dict-item]
    return from_python(RouteQuestion, answer_route, question, given)


def answer_route(question: RouteQuestion) -> RouteAnswer | RouteCheckAnswer:
    """Answer ``computeledger route``."""
    if question.check_attempts:
        attempts = read_attempts(question.attempts or "", load_sheet)
        return RouteCheckAnswer(check_attempts(attempts, seed=question.seed))
    return answer_case(*_case(question), question.seed)


def answer_case(case: RouteCase, facts: tuple[dict[str, Any], ...] = (), seed: int = 0) -> RouteAnswer:
    """Policies for a case that was read, with what fitted attempts say of it."""
    kinds = list(case.difficulty)
    tasks = {kind: route_task(case, kind) for kind in kinds}
    whole = {kind: evaluate_policies(task) for kind, task in tasks.items()}
    out = _mixed(whole, case.difficulty)
    singles = _singles(out)
    least = case.least_success_fraction
    if least is None:
        least = float(out.success_fraction[singles].max())
    person = [place for place, policy in enumerate(out.policies) if not policy]
    front = [int(place) for place in pareto_policies(out)]
    by_kind = _best_by_kind(whole, least)
    listed = list(dict.fromkeys([
        *_cheapest(out, least), best_policy(out), *singles, *person, *_bests(out, singles).values(), *front,
        *by_kind.values(), *(place for _, place in cheapest_by_failure(out, case.settings.failure_usd)),
        *_other_order(out, least),
    ]))  # fmt: skip
    bound = _mixed({k: evaluate_policies(independent(t), [out.policies[p] for p in listed]) for k, t in tasks.items()},
                   case.difficulty)  # fmt: skip
    return RouteAnswer(
        case=case,
        facts=facts,
        outcomes=whole,
        outcome=out,
        listed=tuple(listed),
        draws=tuple(_draws(case, [out.policies[place] for place in listed], seed)),
        bound=bound,
        least_success_fraction=least,
    )


def _cheapest(out: Outcome, least: float) -> list[int]:
    """The cheapest policy that completes enough, and the next one."""
    best = best_policy(out, least)
    enough = np.flatnonzero(out.success_fraction >= least - 1e-12)
    others = enough[enough != best]
    return [best, *(int(one) for one in others[np.argsort(out.usd_per_completed_task[others])][:1])]


def _other_order(out: Outcome, least: float) -> list[int]:
    """The cheapest policy that completes enough and asks the models of the best one in the other order."""
    order = tuple(step.model for step in out.policies[best_policy(out, least)])[::-1]
    turned = [tuple(step.model for step in policy) == order for policy in out.policies]
    places = np.flatnonzero(np.array(turned) & (out.success_fraction >= least - 1e-12))
    return [int(places[np.argmin(out.usd_per_completed_task[places])])] if order[1:] and places.size else []


def _singles(out: Outcome) -> list[int]:
    return [place for place, policy in enumerate(out.policies) if len(policy) == 1 and policy[0].kind == "once"]


def _best_by_kind(whole: Mapping[str, Outcome], least: float) -> dict[str, int]:
    """The best policy of each difficulty."""
    return {kind: best_policy(one, min(least, float(one.success_fraction.max()))) for kind, one in whole.items()}


def _shown(value: Any) -> Any:
    """A number, or a range as a quantity's ends."""
    return {"p05": value.low, "p50": at(value, 0.0), "p95": value.high} if isinstance(value, Range) else value


def _assumptions(question: RouteCase) -> list[str]:
    out = [words for model in question.models for words in model.is_assumed]
    if question.uncertain.get("model_correlation") is MODEL_RANGE:
        out.append(f"model_correlation {MODEL_RANGE.low:g}..{MODEL_RANGE.high:g}")
    if not any(question.uncertain.get(name) for name in ("false_accept", "false_reject")):
        out.append("checks never err")
    if not question.settings.verifier.check_usd:
        out.append("checks cost nothing")
    return out


def _by_failure(answer: RouteAnswer) -> list[dict[str, Any]]:
    """The cheapest policy from each cost of a failed task on."""
    out = answer.outcome
    return [
        {"failure_usd": usd, "policy": policy_words(out.policies[place], answer._names),  # noqa: SLF001 (its own)
         "success_fraction": float(out.success_fraction[place])}
        for usd, place in cheapest_by_failure(out, answer.case.settings.failure_usd)
    ]  # fmt: skip


def _case(question: RouteQuestion) -> tuple[RouteCase, tuple[dict[str, Any], ...]]:
    case, facts = _read(question)
    least, usd = question.min_success, question.failure_usd
    if least is not None:
        case = replace(case, least_success_fraction=least)
    if usd is not None:
        case = replace(case, settings=replace(case.settings, failure_usd=usd))
    return case, facts


def _read(question: RouteQuestion) -> tuple[RouteCase, tuple[dict[str, Any], ...]]:
    if question.attempts is None:
        return _task(question.task or ""), ()
    fit = fit_attempts(read_attempts(question.attempts, load_sheet), question.seed)
    given = RouteCase(fit.models, RouteTask((RouteModel("any", 0.5, 0.0, 0.0),)))
    if question.task is not None:
        given = _task(question.task)
    uncertain = {**given.uncertain, "model_correlation": fit.model_correlation_fraction}
    return replace(given, models=fit.models, difficulty=fit.difficulty, uncertain=uncertain), fit.facts


def _task(given: str | RouteCase) -> RouteCase:
    return read_route(given, load_sheet) if isinstance(given, str) else given


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


def _draws(case: RouteCase, policies: list[tuple[Step, ...]], seed: int) -> list[dict[str, Outcome]]:
    # the same luck in every difficulty, since the same tasks or the same lent counts tell of them
    return [
        {
            kind: evaluate_policies(route_task(case, kind, np.random.default_rng([seed, draw])), policies)
            for kind in case.difficulty
        }
        for draw in counted(range(DRAWS), "draws")
    ]


def policy_words(policy: tuple[Step, ...], names: list[str]) -> str:
    """A policy as people write it."""
    if not policy:
        return "the person alone"
    form = {"once": "{0}", "retry": "{0} x{1} checked", "best": "best of {1} {0}"}
    return " -> ".join(form[step.kind].format(names[step.model], step.tries) for step in policy)


def _draws_of(draws: list[Outcome], row: int) -> PolicyDraws:
    names = ("usd_per_completed_task", "success_fraction", "s_per_task", "usd_per_task", "wrong_fraction")
    return PolicyDraws(*(np.array([getattr(one, name)[row] for one in draws]) for name in names))


def _by_difficulty(answer: RouteAnswer) -> dict[str, Any] | None:
    """The best policy of each difficulty, where tasks are told apart before they are given out."""
    whole, shares = answer.outcomes, answer.case.difficulty
    if len(whole) < 2:
        return None
    by_kind = _best_by_kind(whole, answer.least_success_fraction)
    rows, usd, success = {}, 0.0, 0.0
    for kind, out in whole.items():
        place, at_row = by_kind[kind], answer.listed.index(by_kind[kind])
        usd += shares[kind] * float(out.usd_per_task[place])
        success += shares[kind] * float(out.success_fraction[place])
        cost = np.array([one[kind].usd_per_completed_task[at_row] for one in answer.draws])
        share = np.array([one[kind].success_fraction[at_row] for one in answer.draws])
        rows[kind] = {
            "policy": policy_words(out.policies[place], [model.name for model in answer.case.models]),
            "share_of_tasks": shares[kind],
            "success_fraction": float(out.success_fraction[place]),
            "usd_per_completed_task": float(out.usd_per_completed_task[place]),
            "interval": {"usd_per_completed_task": quantity(cost, "USD"), "success_fraction": quantity(share, "")},
        }
    return {"policies": rows, "success_fraction": success, "usd_per_task": usd, "usd_per_completed_task": usd / success}


def _remark(question: RouteCase, out: Outcome, singles: list[int], least: float) -> str:
    """Whether the cheapest attempt is the dearest completed task."""
    models = [question.models[out.policies[place][0].model] for place in singles]
    names = [model.name for model in models]
    task = names[int(np.argmin(out.usd_per_completed_task[singles]))]
    if all(model.usd_per_mtok > 0 for model in models):
        token = names[int(np.argmin([model.usd_per_mtok for model in models]))]
        if token != task:
            return f"the cheap token is the dear task: {token} has the cheapest tokens, {task} completes for less"
    cheap = min(models, key=lambda model: at(model.attempt_usd, 0.0)).name
    if cheap == task:
        done = float(out.success_fraction[singles[names.index(cheap)]])
        short = ", but completes fewer tasks than the answer has to" if done < least else ""
        return f"of single models {cheap} costs least, both for a try and for a completed task{short}"
    return f"of single models {cheap} costs least for a try, {task} for a completed task"
