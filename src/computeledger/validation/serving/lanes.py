"""Clients that replay recorded sessions: a lane waits for an answer, pauses as the recording did, and asks again.

How many requests are in flight then follows from how fast they are answered, so a row of such a run is asked with its
lanes and pauses, never with the requests that were measured in flight.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.roofline import Machine
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario, estimate_serving

#: Pause of a lane per request where a run does not state it: lanes x length of the run x share without a request, over
#: requests, of five other runs of the same recordings is 17.1 to 21.7 s, in the median this (compute-to-agents,
#: commit 230b6837, reference/agentx_audit.json, ``occupancy``) [s].
PAUSE_S = 17.5
#: Share of prompts that HBM and the host memory below it find together, where a source states HBM's share alone: what
#: a cache without an end finds of open sessions of the same kind (kv-cache-tester, commit 94f6046d: 710 sessions,
#: 49,334 requests, counted from their blocks; assumption: so much memory loses nothing) [-].
FOUND_WITH_HOST = 0.963
_LANES = re.compile(r"(\d+) replay lanes")
#: Requests of a run, its length and what a request took on average.
_SENT = re.compile(r"(\d+) requests / ([\d.]+) s x ([\d.]+) s")
_IN_FLIGHT = re.compile(r"in flight (\d[\d.]*) on average")
_HBM_ALONE = re.compile(r"KV offload to .*GPU prefix hits")
#: Rounds in which requests in flight and their times agree, and how well.
_ROUNDS, _CLOSE = 40, 1e-3


@dataclass(frozen=True, slots=True)
class Lanes:
    """Sessions that are replayed side by side.

    Attributes
    ----------
    n : float
        Sessions at any time [-].
    pause_s : float
        Of a session per request, beyond the time of the request: tools and people, less what requests of subagents
        overlap [s].
    """

    n: float
    pause_s: float

    def requests_per_s(self, request_s: Num) -> Num:
        """What the sessions ask for when a request takes so long [1/s].

        Examples
        --------
        >>> Lanes(10.0, 4.0).requests_per_s(1.0)
        2.0
        """
        return self.n / (request_s + self.pause_s)


def lanes_of(note: str) -> Lanes | None:
    """Read the lanes of a row's note, unless it states what was in flight; none without lanes.

    Examples
    --------
    >>> found = lanes_of("64 replay lanes with idle gaps; in flight: 6400 requests / 3200 s x 24 s = 48")
    >>> found.n, found.pause_s
    (64.0, 8.0)
    >>> lanes_of("4 replay lanes; in flight 0.75 on average"), lanes_of("4 clients")
    (None, None)
    """
    lanes, sent = _LANES.search(note), _SENT.search(note)
    if lanes is None or (sent is None and _IN_FLIGHT.search(note)):
        return None
    n = float(lanes.group(1))
    if sent is None:
        return Lanes(n, PAUSE_S)
    requests, run_s, request_s = (float(one) for one in sent.groups())
    return Lanes(n, max(n * run_s / requests - request_s, 0.0))


def found_fraction(stated: float, note: str) -> float:
    """Share of prompts that need not be read: as stated, unless that is HBM's alone and host memory lies below.

    Examples
    --------
    >>> found_fraction(0.9, "KV offload to host memory; GPU prefix hits 0.9"), found_fraction(0.9, "no offload")
    (0.963, 0.9)
    """
    return max(stated, FOUND_WITH_HOST) if _HBM_ALONE.search(note) else stated


def served_lanes(lanes: Lanes, scenario: ServingScenario, machine: Machine) -> tuple[ServingResult, Num]:
    """What lanes get, and the time of a request, at the requests in flight that follow from it.

    Parameters
    ----------
    lanes : Lanes
        Sessions.
    scenario : ServingScenario
        Of one request; its batch is where the search begins.
    machine : Machine
        Machine.

    Returns
    -------
    tuple of ServingResult and float or ndarray
        The estimate, and the mean time of a request [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 8.0)
    >>> result, request_s = served_lanes(Lanes(64.0, 10.0), one, Machine(load_system("h100-nvl8")))
    >>> round(float(result.scenario.batch / request_s), 2), round(64 / (10 + float(request_s)), 2)
    (5.66, 5.66)
    """
    batch: Num = np.asarray(scenario.batch, dtype=np.float64)
    for _ in range(_ROUNDS):
        result = estimate_serving(replace(scenario, batch=batch), machine)
        request_s = result.ttft_statistic_s("mean") + (scenario.output_tokens - 1) * result.tpot_s
        wanted = np.maximum(lanes.requests_per_s(request_s) * request_s, 1.0)
        if np.all(np.abs(wanted - batch) <= _CLOSE * batch):
            break
        batch = (batch + wanted) / 2
    return result, request_s
