"""Waits in a line before several servers that take the same time for everybody, with arrivals at random (M/D/c)."""

from __future__ import annotations

import math

#: Halvings in which the decay of long waits is found.
_HALVINGS = 60


def waits_probability(n_servers: int, busy_servers: float) -> float:
    """Chance that an arrival waits, by Erlang's formula for waiting lines.

    Parameters
    ----------
    n_servers : int
        Servers of one line [-].
    busy_servers : float
        Those that are busy on average: arrivals a second times the time of a service [-].

    Returns
    -------
    float
        1 where the servers cannot keep up; exact for exponential services, close for even ones [-].

    Examples
    --------
    >>> round(waits_probability(1, 0.7), 6), round(waits_probability(2, 1.0), 6), waits_probability(2, 2.0)
    (0.7, 0.333333, 1.0)
    """
    if busy_servers >= n_servers:
        return 1.0
    blocked = 1.0
    for n in range(1, n_servers + 1):
        blocked = busy_servers * blocked / (n + busy_servers * blocked)
    return blocked / (1 - busy_servers / n_servers * (1 - blocked))


def wait_within_s(requests_per_s: float, service_s: float, n_servers: int, share_fraction: float) -> float:
    """Wait that a share of arrivals keeps to: long waits die out as ``exp(-theta t)`` in a line with even services.

    ``theta`` solves ``c ln(1 + theta / lambda) = theta D`` (the leading pole of M/D/c); the chance to wait at all is
    Erlang's.

    Parameters
    ----------
    requests_per_s : float
        Arrivals, Poisson [1/s].
    service_s : float
        Of every request [s].
    n_servers : int
        Servers of one line [-].
    share_fraction : float
        Share of arrivals that wait no longer [-].

    Returns
    -------
    float
        0 where so many do not wait, infinite where the line grows [s].

    Examples
    --------
    >>> waits = [wait_within_s(rate, 1.0, 1, 0.95) for rate in (0.01, 0.5, 0.9, 1.0)]
    >>> [round(one, 2) for one in waits]
    [0.0, 1.83, 13.95, inf]
    """
    busy = requests_per_s * service_s
    if busy >= n_servers:
        return math.inf
    waits = waits_probability(n_servers, busy) if busy > 0 else 0.0
    if waits <= 1 - share_fraction:
        return 0.0
    low, high = 0.0, 1.0
    while math.log1p(high) > busy / n_servers * high:
        high *= 2
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        low, high = (half, high) if math.log1p(half) > busy / n_servers * half else (low, half)
    return math.log(waits / (1 - share_fraction)) / (requests_per_s * high)
