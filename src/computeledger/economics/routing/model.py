"""Cost, time and success of a completed task under retries, cascades and best-of-k: failures are correlated.

A task is hard for every attempt of a model, and for every model: a model's chance on a task is beta-distributed over
tasks (beta-binomial retries), and a Gaussian copula of one factor joins the models. Given the factor the models are
independent, so a cascade is an exact product of integrals over one number per model.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError
from computeledger.units import HOUR_S

Floats = NDArray[np.float64]

#: What is assumed where nothing is known: correlation of a model's own attempts, correlation of models, cost of a
#: failed over a solved attempt. Medians of public agent benchmarks.
RETRY_CORRELATION, MODEL_CORRELATION, FAILED_COST_RATIO = 0.7, 0.6, 1.6
_NODES = 24
_GRID = np.linspace(-14.0, 14.0, 1401)
_NORMAL = np.array([0.5 * math.erfc(-score / math.sqrt(2.0)) for score in _GRID])


@dataclass(frozen=True, slots=True)
class RouteModel:
    """What one attempt of a model takes and how often it succeeds.

    Attributes
    ----------
    name : str
        Of the model.
    success_fraction : float
        Chance of a first attempt, over all tasks [-].
    solved_usd, failed_usd : float
        Cost of an attempt that is right, and of one that is wrong [USD].
    solved_s, failed_s : float
        Time of each [s].
    retry_correlation_fraction : float
        Correlation of two attempts at one task, 0 for independent, 1 for the same outcome always [-].
    retry_odds_ratio : float
        Odds of a later try over those of the first at the same task: above 1 where a try sees why the last one
        failed [-].
    """

    name: str
    success_fraction: float
    solved_usd: float
    failed_usd: float
    solved_s: float = 0.0
    failed_s: float = 0.0
    retry_correlation_fraction: float = RETRY_CORRELATION
    retry_odds_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Verifier:
    """Who says whether an answer is right.

    Attributes
    ----------
    check_usd, check_s : float
        Cost and time of a check [USD], [s].
    false_accept_fraction, false_reject_fraction : float
        Wrong answers that pass, right ones that do not [-].
    """

    check_usd: float = 0.0
    check_s: float = 0.0
    false_accept_fraction: float = 0.0
    false_reject_fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Fallback:
    """A person who takes over what no model finished.

    Attributes
    ----------
    task_usd, task_s : float
        Cost and time of a task [USD], [s].
    success_fraction : float
        Chance of success [-].
    """

    task_usd: float
    task_s: float = 0.0
    success_fraction: float = 1.0


@dataclass(frozen=True, slots=True)
class RouteTask:
    """Models, a verifier, and what happens when all fail.

    Attributes
    ----------
    models : tuple of RouteModel
        To choose from.
    verifier : Verifier
        Between attempts.
    fallback : Fallback or None
        A person at the end.
    model_correlation_fraction : float
        Correlation of the copula between models [-].
    usd_per_hour : float
        What an hour of waiting costs [USD/h].
    max_tries, max_depth : int
        Attempts of one model, and models in a cascade.
    failure_usd : float
        What a task costs besides that nobody completes: delivered wrong, or given up [USD].
    """

    models: tuple[RouteModel, ...]
    verifier: Verifier = Verifier()
    fallback: Fallback | None = None
    model_correlation_fraction: float = MODEL_CORRELATION
    usd_per_hour: float = 0.0
    max_tries: int = 4
    max_depth: int = 3
    failure_usd: float = 0.0

    def __post_init__(self) -> None:
        checked = [
            ("correlation of models", self.model_correlation_fraction),
            ("false_accept", self.verifier.false_accept_fraction),
            ("false_reject", self.verifier.false_reject_fraction),
            *((f"success of {model.name}", model.success_fraction) for model in self.models),
            *((f"retry correlation of {model.name}", model.retry_correlation_fraction) for model in self.models),
        ]
        for name, value in checked:
            if not 0 <= value <= 1:
                raise InputError(f"{name} {value:g}: a probability must lie in 0..1")
        if not self.models:
            raise InputError("no model is given: at least one [[model]] is needed")
        names = [model.name for model in self.models]
        if len(set(names)) < len(names):
            raise InputError(f"model {next(n for n in names if names.count(n) > 1)!r} stands twice")


@dataclass(frozen=True, slots=True)
class Step:
    """A model within a policy.

    Attributes
    ----------
    model : int
        Its place among the task's models.
    tries : int
        Attempts at most.
    kind : str
        ``retry`` checks after each attempt, ``best`` draws all and checks them, ``once`` delivers one unchecked.
    """

    model: int
    tries: int = 1
    kind: str = "retry"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What policies come to, one entry per policy.

    Attributes
    ----------
    policies : tuple of tuple of Step
        In the order of the numbers.
    success_fraction : ndarray
        Tasks completed rightly [-].
    wrong_fraction : ndarray
        Tasks delivered wrongly, believed right [-].
    usd_per_task, s_per_task : ndarray
        Expected cost with what waiting and failing cost, and expected time [USD], [s].
    """

    policies: tuple[tuple[Step, ...], ...]
    success_fraction: Floats
    wrong_fraction: Floats
    usd_per_task: Floats
    s_per_task: Floats

    @property
    def usd_per_completed_task(self) -> Floats:
        """Cost over success [USD]."""
        return self.usd_per_task / np.maximum(self.success_fraction, 1e-12)


def success_by_task(
    success_fraction: float, retry_correlation_fraction: float, model_correlation_fraction: float
) -> tuple[Floats, Floats]:
    """Chance of a model on tasks of given common and own difficulty: beta marginals under a Gaussian copula.

    ``p = BetaInverse(Phi(sqrt(r) z + sqrt(1 - r) e); p (1/rho - 1), (1 - p) (1/rho - 1))``

    Parameters
    ----------
    success_fraction, retry_correlation_fraction : float
        Mean ``p`` and correlation ``rho`` of the beta-binomial [-].
    model_correlation_fraction : float
        Correlation ``r`` between models [-].

    Returns
    -------
    tuple of ndarray
        Chances, common difficulty on the first axis; and the weights of own difficulty [-].

    Examples
    --------
    >>> chance, weight = success_by_task(0.41, 0.7, 0.6)
    >>> bool(abs(normal_nodes()[1] @ chance @ weight - 0.41) < 1e-9)
    True
    """
    nodes, weight = normal_nodes()
    shape = (_NODES, _NODES)
    if retry_correlation_fraction < 1e-9 or success_fraction in (0.0, 1.0):
        return np.full(shape, success_fraction), weight
    r = model_correlation_fraction
    score = math.sqrt(r) * nodes[:, None] + math.sqrt(1 - r) * nodes[None, :]
    rho = min(retry_correlation_fraction, 0.999)
    a, b = success_fraction * (1 / rho - 1), (1 - success_fraction) * (1 / rho - 1)
    chance = beta_quantile(score, a, b)
    # the quadrature's own mean is drawn to the exact one, so that a single attempt is exact
    for _ in range(60):
        gap = success_fraction - float(weight @ chance @ weight)
        if abs(gap) < 1e-12:
            break
        spread = chance * (1 - chance)
        room = float(weight @ spread @ weight)
        chance = np.clip(chance + gap * spread / max(room, 1e-12), 0.0, 1.0)
    return chance, weight


@functools.cache
def normal_nodes() -> tuple[Floats, Floats]:
    """Nodes and weights that integrate over a standard normal.

    Returns
    -------
    tuple of ndarray
        Scores and weights; the weights add up to 1 [-].

    Examples
    --------
    >>> scores, weights = normal_nodes()
    >>> round(float(weights @ scores**2), 9)
    1.0
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


def beta_quantile(score: Floats, a: float, b: float) -> Floats:
    """Beta quantile at normal scores, through the distribution of the logit on a grid.

    Parameters
    ----------
    score : ndarray
        Standard normal [-].
    a, b : float
        Of the beta distribution [-].

    Returns
    -------
    ndarray
        Between 0 and 1 [-].

    Examples
    --------
    >>> round(float(beta_quantile(np.zeros(()), 5.0, 5.0)), 4)
    0.5
    """
    span = 14.0 * max(1.0, 0.7 / min(a, b, 1.0))
    logit = _GRID * span / 14.0
    low, high = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    density = np.exp(a * low + b * high - (a * low + b * high).max())
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    mass /= mass[-1]
    normal = np.interp(score, _GRID, _NORMAL)
    return np.asarray(1 / (1 + np.exp(-np.clip(np.interp(normal, mass, logit), -700, 700))))


@dataclass(frozen=True, slots=True)
class _Part:
    """A step's outcome given the common difficulty: right and wrong deliveries, tasks passed on, cost and time."""

    right: Floats
    wrong: Floats
    passed: Floats
    usd: Floats
    s: Floats


def _part(task: RouteTask, step: Step, table: tuple[Floats, Floats]) -> _Part:
    chance, weight = table
    model, verifier = task.models[step.model], task.verifier
    nothing = np.zeros_like(chance)
    if step.kind == "once":
        right, wrong, passed = chance, 1 - chance, nothing
        rights, wrongs, checks = chance, 1 - chance, nothing
    else:
        again = chance * model.retry_odds_ratio / (1 - chance + chance * model.retry_odds_ratio)
        right, wrong, rights, wrongs, checks, passed = (*(nothing,) * 5, nothing + 1.0)
        for k in range(step.tries):
            best = step.kind == "best"
            now, paid = (chance if k == 0 or best else again), (nothing + 1.0 if best else passed)
            rights, wrongs, checks = rights + paid * now, wrongs + paid * (1 - now), checks + paid
            right = right + passed * now * (1 - verifier.false_reject_fraction)
            wrong = wrong + passed * (1 - now) * verifier.false_accept_fraction
            rejected = now * verifier.false_reject_fraction + (1 - now) * (1 - verifier.false_accept_fraction)
            passed = passed * rejected
    usd = rights * model.solved_usd + wrongs * model.failed_usd + checks * verifier.check_usd
    s = rights * model.solved_s + wrongs * model.failed_s
    if step.kind == "best":
        s = chance * model.solved_s + (1 - chance) * model.failed_s  # drawn side by side
    s = s + np.minimum(checks, step.tries if step.kind == "retry" else 1.0) * verifier.check_s
    return _Part(*(value @ weight for value in (right, wrong, passed, usd, s)))


def policies_of(task: RouteTask) -> Iterator[tuple[Step, ...]]:
    """Every policy: the person alone, single, retried, best-of-k and cascades of different models.

    Parameters
    ----------
    task : RouteTask
        Its models and limits.

    Yields
    ------
    tuple of Step
        In the order of attempts.

    Examples
    --------
    >>> two = tuple(RouteModel(name, 0.5, 1.0, 1.0) for name in "ab")
    >>> len(list(policies_of(RouteTask(two, max_tries=2, max_depth=2))))
    20
    """
    if task.fallback is not None:
        yield ()
    for model in range(len(task.models)):
        yield (Step(model, 1, "once"),)
        yield from ((Step(model, k, "best"),) for k in range(2, task.max_tries + 1))
    yield from _cascades(task, ())


def _cascades(task: RouteTask, before: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if len(before) == task.max_depth:
        return
    used = {step.model for step in before}
    for model in range(len(task.models)):
        if model in used:
            continue
        if before and task.fallback is None:
            yield (*before, Step(model, 1, "once"))
        for tries in range(1, task.max_tries + 1):
            policy = (*before, Step(model, tries))
            yield policy
            yield from _cascades(task, policy)


def evaluate_policies(task: RouteTask, policies: Sequence[tuple[Step, ...]] | None = None) -> Outcome:
    """Success, cost and time of policies, exactly under the copula.

    Parameters
    ----------
    task : RouteTask
        Models and verifier.
    policies : sequence of tuple of Step, optional
        Which; all when left out.

    Returns
    -------
    Outcome
        One entry per policy.

    Examples
    --------
    >>> one = RouteModel("a", 0.41, 1.0, 1.0)
    >>> out = evaluate_policies(RouteTask((one,)), [(Step(0, 1),), (Step(0, 2),)])
    >>> [round(float(value), 3) for value in out.success_fraction]  # a retry after a failure succeeds 12 %, not 41 %
    [0.41, 0.482]
    """
    chosen = tuple(policies_of(task) if policies is None else policies)
    _, common = normal_nodes()
    tables = [
        success_by_task(model.success_fraction, model.retry_correlation_fraction, task.model_correlation_fraction)
        for model in task.models
    ]
    steps = sorted({step for policy in chosen for step in policy}, key=lambda s: (s.model, s.kind, s.tries))
    place = {step: index for index, step in enumerate(steps)}
    parts = [_part(task, step, tables[step.model]) for step in steps]
    stacked = {name: np.array([getattr(part, name) for part in parts] + [np.full(_NODES, float(name == "passed"))])
               for name in ("right", "wrong", "passed", "usd", "s")}  # fmt: skip
    nothing = len(steps)
    for name in ("right", "wrong", "usd", "s"):
        stacked[name][nothing] = 0.0
    depth = max((len(policy) for policy in chosen), default=0)
    index = np.array([[place[policy[i]] if i < len(policy) else nothing for i in range(depth)] for policy in chosen])
    left = np.ones((len(chosen), _NODES))
    sums = {name: np.zeros((len(chosen), _NODES)) for name in ("right", "wrong", "usd", "s")}
    for level in range(depth):
        for name, so_far in sums.items():
            sums[name] = so_far + left * stacked[name][index[:, level]]
        left = left * stacked["passed"][index[:, level]]
    right, wrong, usd, s, open_tasks = (value @ common for value in (*sums.values(), left))
    if task.fallback is not None:
        right = right + open_tasks * task.fallback.success_fraction
        usd, s = usd + open_tasks * task.fallback.task_usd, s + open_tasks * task.fallback.task_s
    right = np.minimum(right, 1.0)
    usd = usd + s * task.usd_per_hour / HOUR_S + (1 - right) * task.failure_usd
    return Outcome(chosen, right, wrong, usd, s)
