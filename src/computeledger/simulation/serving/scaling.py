"""How many replicas an autoscaler wants: the rule of Kubernetes' HorizontalPodAutoscaler on requests in flight.

Every tick it asks for requests in flight over a target per replica, rounded up, and leaves the number alone where the
two agree within a tolerance (``pkg/controller/podautoscaler/replica_calculator.go`` of kubernetes/kubernetes,
``GetExternalPerPodMetricReplicas``). It rises to the least that was asked for within one window and falls to the most
within another (``horizontal.go``, ``stabilizeRecommendationWithBehaviors``), by no more than its policies allow in
their periods (``calculateScaleUpLimitWithScalingRules``). Defaults are those of the page "Horizontal Pod Autoscaling"
of the Kubernetes documentation and of ``HPAScalingRules`` (autoscaling/v2). KEDA, and KServe and llm-d through it,
write such an autoscaler, so that they scale alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from computeledger.arrays import Range
from computeledger.errors import QuantityError, shown
from computeledger.simulation.compiled import kernel
from computeledger.simulation.state import Counts, Times
from computeledger.units import format_si, parse_quantity

#: Time by which two moments may differ and be the same [s].
_SAME_S = 1e-6
#: Decisions that a window or a period may look back on.
MOST_DECISIONS = 100_000
#: Columns of a policy's row.
CHANGE, IS_SHARE, PERIOD_S = range(3)
_LEAST, _NEVER = "min:", "never"
_FORM = "expected policies such as 4/15s,100%/15s, min: before them for the least change of them, or never"


@dataclass(frozen=True, slots=True)
class Policies:
    """By how much the number of replicas may change in one direction.

    Attributes
    ----------
    rows : tuple of (float, bool, float)
        Replicas, or share of them, in a period: the amount [-], whether it is a share, and the period [s]; none: the
        number never changes that way.
    takes_least : bool
        Whether the policy that allows the least counts, not that which allows the most.
    """

    rows: tuple[tuple[float, bool, float], ...] = ()
    takes_least: bool = False


#: What ``HPAScalingRules`` allows where nothing is said: a rise by 4 or to twice as many, and a fall by all, in 15 s.
USUAL_RISE = Policies(((4.0, False, 15.0), (1.0, True, 15.0)))
USUAL_FALL = Policies(((1.0, True, 15.0),))


def parse_policies(text: str) -> Policies:
    """Read policies as they are written.

    Parameters
    ----------
    text : str
        ``4/60s,10%/60s``; ``min:`` before them takes the one that allows the least; ``never`` allows no change.

    Returns
    -------
    Policies
        In the order in which they are written.

    Raises
    ------
    QuantityError
        Text of another form.

    Examples
    --------
    >>> parse_policies("4/15s,100%/15s") == USUAL_RISE
    True
    >>> parse_policies("min:2/60s").takes_least, parse_policies("never").rows
    (True, ())
    """
    if text == _NEVER:
        return Policies()
    rows = tuple(_row(one.strip(), text) for one in text.removeprefix(_LEAST).split(","))
    return Policies(rows, text.startswith(_LEAST))


def _row(one: str, text: str) -> tuple[float, bool, float]:
    amount, _, period = one.partition("/")
    is_share = amount.endswith("%")
    try:
        value = parse_quantity(amount.removesuffix("%"), "count")
        period_s = parse_quantity(period, "s")
    except QuantityError as error:
        raise QuantityError(f"{shown(text)}: {error}; {_FORM}") from None
    if isinstance(value, Range) or isinstance(period_s, Range) or not (value > 0 and period_s > 0):
        raise QuantityError(f"{shown(text)}: {_FORM}")
    if not is_share and not float(value).is_integer():
        raise QuantityError(f"{shown(text)}: {amount} replicas: expected a whole number, or a share such as 50%")
    return float(value) / (100 if is_share else 1), is_share, float(period_s)


@dataclass(frozen=True, slots=True)
class Autoscale:
    """How the number of replicas follows the load.

    Attributes
    ----------
    least : int
        Replicas that stay [-].
    target_requests : float
        Requests in flight that a replica is meant to carry [-].
    tick_s, start_s : float
        Time between two decisions, and until a new replica serves [s].
    tolerance : float
        How far requests in flight over those meant may be from 1 without a change [-].
    rise_window_s, fall_window_s : float
        Time within which the least, or the most, that was asked for counts [s].
    rise, fall : Policies
        By how much the number may change.
    """

    least: int
    target_requests: float
    tick_s: float = 15.0
    start_s: float = 300.0
    tolerance: float = 0.1
    rise_window_s: float = 0.0
    fall_window_s: float = 300.0
    rise: Policies = USUAL_RISE
    fall: Policies = USUAL_FALL


class Scaling(NamedTuple):
    """An autoscaler's rule, and what it asked for and changed of late, ready for the kernels."""

    least: float
    target_requests: float
    tolerance: float
    rise_window_s: float
    fall_window_s: float
    rises: Times
    rises_least: bool
    falls: Times
    falls_least: bool
    asked_s: Times
    asked: Times
    changed_s: Times
    changed: Times
    cursor: Counts


def make_scaling(rule: Autoscale) -> Scaling:
    """Make the kernels' form of a rule, with room for what its windows and periods look back on.

    Raises
    ------
    QuantityError
        Where that is more than :data:`MOST_DECISIONS`.

    Examples
    --------
    >>> desired_replicas(make_scaling(Autoscale(1, 10.0)), 0.0, (2, 100), 40.0)
    4
    """
    rows = [np.array(one.rows or np.zeros((0, 3)), np.float64) for one in (rule.rise, rule.fall)]
    back_s = max([rule.rise_window_s, rule.fall_window_s, *(float(row) for one in rows for row in one[:, PERIOD_S])])
    if back_s / rule.tick_s > MOST_DECISIONS:
        raise QuantityError(
            f"tick {format_si(rule.tick_s, 's')}: the longest window of the autoscaler, {format_si(back_s, 's')}, may "
            f"hold {MOST_DECISIONS:,} decisions; at least {format_si(back_s / MOST_DECISIONS, 's')} between two of them"
        )
    room = math.ceil(back_s / rule.tick_s) + 2
    return Scaling(
        float(rule.least), rule.target_requests, rule.tolerance, rule.rise_window_s, rule.fall_window_s,
        rows[0], rule.rise.takes_least, rows[1], rule.fall.takes_least,
        np.full(room, -np.inf), np.zeros(room), np.full(room, -np.inf), np.zeros(room), np.zeros(2, np.int64),
    )  # fmt: skip


@kernel
def desired_replicas(scaling: Scaling, now_s: float, sizes: tuple[int, int], in_flight: float) -> int:
    """Replicas that an autoscaler sets; ``sizes`` are those that there are, and the most that may be.

    Examples
    --------
    >>> scaling = make_scaling(Autoscale(1, 10.0))
    >>> desired_replicas(scaling, 0.0, (10, 100), 109.0), desired_replicas(scaling, 15.0, (10, 100), 121.0)
    (10, 13)
    """
    n, most = sizes
    meant = scaling.target_requests
    asked = n if abs(1 - in_flight / (meant * n)) <= scaling.tolerance else math.ceil(in_flight / meant)
    upper, lower = asked, asked
    for place in range(len(scaling.asked)):
        since_s = now_s - scaling.asked_s[place]
        if since_s < scaling.rise_window_s - _SAME_S:
            upper = min(upper, int(scaling.asked[place]))
        if since_s < scaling.fall_window_s - _SAME_S:
            lower = max(lower, int(scaling.asked[place]))
    wanted = min(max(n, upper), lower)
    place = scaling.cursor[0] % len(scaling.asked)
    scaling.asked_s[place], scaling.asked[place] = now_s, asked
    scaling.cursor[0] += 1
    if wanted > n:
        wanted = min(wanted, max(_limit(scaling, 1, now_s, n), n))
    elif wanted < n:
        wanted = max(wanted, min(_limit(scaling, -1, now_s, n), n))
    wanted = min(max(wanted, int(scaling.least)), most)
    if wanted != n:
        place = scaling.cursor[1] % len(scaling.changed)
        scaling.changed_s[place], scaling.changed[place] = now_s, wanted - n
        scaling.cursor[1] += 1
    return wanted


@kernel
def _begun_with(scaling: Scaling, now_s: float, n: int, period_s: float) -> float:
    """Replicas at the beginning of a period that ends now."""
    before = float(n)
    for place in range(len(scaling.changed)):
        if now_s - scaling.changed_s[place] < period_s - _SAME_S:
            before -= scaling.changed[place]
    return before


@kernel
def _limit(scaling: Scaling, towards: int, now_s: float, n: int) -> int:
    """Number of replicas that the policies of a rise (1) or of a fall (-1) allow."""
    rows, takes_least, found = scaling.rises, scaling.rises_least, n
    if towards < 0:
        rows, takes_least = scaling.falls, scaling.falls_least
    for one in range(len(rows)):
        before = _begun_with(scaling, now_s, n, rows[one, PERIOD_S])
        change = towards * rows[one, CHANGE]
        allowed = before * (1 + change) if rows[one, IS_SHARE] > 0 else before + change
        limit = math.ceil(allowed) if towards > 0 else int(allowed)
        if one == 0 or (towards * limit < towards * found) == takes_least:
            found = limit
    return found
