"""Which policy: the front of cost and success, the cheapest that succeeds often enough, the bound of independence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.routing.model import Outcome, RouteTask
from computeledger.errors import InputError


def pareto_policies(out: Outcome) -> NDArray[np.intp]:
    """Policies that nothing beats in both cost per completed task and success, from cheap to good.

    Examples
    --------
    >>> from computeledger.economics.routing.model import RouteModel, evaluate_policies
    >>> models = (RouteModel("cheap", 0.4, 0.1, 0.1), RouteModel("dear", 0.8, 2.0, 2.0))
    >>> out = evaluate_policies(RouteTask(models))
    >>> front = pareto_policies(out)
    >>> bool(np.all(np.diff(out.usd_per_task[front]) >= 0) and np.all(np.diff(out.success_fraction[front]) > 0))
    True
    """
    order = np.lexsort((-out.success_fraction, out.usd_per_completed_task))
    best = np.maximum.accumulate(out.success_fraction[order])
    keep = np.concatenate([[True], out.success_fraction[order][1:] > best[:-1] + 1e-9])
    return np.asarray(order[keep])


def best_policy(out: Outcome, least_success_fraction: float = 0.0) -> int:
    """The lowest cost per completed task among policies that succeed often enough.

    Examples
    --------
    >>> from computeledger.economics.routing.model import RouteModel, evaluate_policies
    >>> models = (RouteModel("cheap", 0.4, 0.1, 0.1), RouteModel("dear", 0.8, 2.0, 2.0))
    >>> out = evaluate_policies(RouteTask(models))
    >>> [out.policies[best_policy(out, least)][-1].model for least in (0.0, 0.8)]
    [0, 1]
    """
    allowed = out.success_fraction >= least_success_fraction - 1e-12
    if not allowed.any():
        raise InputError(
            f"no policy succeeds in {least_success_fraction:g} of tasks: the best in {out.success_fraction.max():.3g}"
        )
    return int(np.argmin(np.where(allowed, out.usd_per_completed_task, np.inf)))


def cheapest_by_failure(out: Outcome, failure_usd: float) -> list[tuple[float, int]]:
    """The cheapest policy as a task that is not completed costs more: from which cost on, and which.

    Cost per completed task grows with it on a straight line for each policy, flatter the more of the tasks are
    completed; the lowest lines follow one another.

    Parameters
    ----------
    out : Outcome
        Policies.
    failure_usd : float
        What such a task costs in them [USD].

    Returns
    -------
    list of tuple
        Cost of a task that is not completed [USD], and the place of the policy.

    Examples
    --------
    >>> from computeledger.economics.routing.model import RouteModel, Step, evaluate_policies
    >>> models = (RouteModel("cheap", 0.4, 0.1, 0.1), RouteModel("dear", 0.8, 2.0, 2.0))
    >>> out = evaluate_policies(RouteTask(models), [(Step(0, 1, "once"),), (Step(1, 1, "once"),)])
    >>> [(round(usd, 2), place) for usd, place in cheapest_by_failure(out, 0.0)]  # 0.25 + 1.5 x = 2.5 + 0.25 x
    [(0.0, 0), (1.8, 1)]
    """
    success = np.maximum(out.success_fraction, 1e-12)
    slope = (1 - success) / success
    start = out.usd_per_completed_task - slope * failure_usd
    place, at_usd = int(np.lexsort((slope, start))[0]), 0.0
    found = [(at_usd, place)]
    while (flatter := np.flatnonzero(slope < slope[place] - 1e-9)).size:
        meets = (start[flatter] - start[place]) / (slope[place] - slope[flatter])
        first = int(np.lexsort((slope[flatter], meets))[0])
        at_usd, place = max(at_usd, float(meets[first])), int(flatter[first])
        found.append((at_usd, place))
    return found


def independent(task: RouteTask) -> RouteTask:
    """The same task with failures that know nothing of each other: an upper bound of what retries and cascades reach.

    Examples
    --------
    >>> from computeledger.economics.routing.model import RouteModel, Step, evaluate_policies
    >>> task = independent(RouteTask((RouteModel("a", 0.41, 1.0, 1.0),)))
    >>> round(float(evaluate_policies(task, [(Step(0, 3),)]).success_fraction[0]), 3)
    0.795
    """
    models = tuple(replace(model, retry_correlation_fraction=0.0) for model in task.models)
    return replace(task, models=models, model_correlation_fraction=0.0)


def break_even_price_ratio(out: Outcome, place: int, best: int) -> float:
    """Factor on a policy's whole cost at which it would cost what the best does per completed task.

    Examples
    --------
    >>> from computeledger.economics.routing.model import RouteModel, evaluate_policies
    >>> models = (RouteModel("cheap", 0.4, 0.1, 0.1), RouteModel("dear", 0.8, 2.0, 2.0))
    >>> from computeledger.economics.routing.model import Step
    >>> out = evaluate_policies(RouteTask(models), [(Step(0, 1, "once"),), (Step(1, 1, "once"),)])
    >>> round(break_even_price_ratio(out, 1, 0), 2)
    0.1
    """
    each = out.usd_per_completed_task
    return float(each[best] / max(each[place], 1e-300))
