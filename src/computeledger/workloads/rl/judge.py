"""A model of its own that judges rollouts: how fast it is served, how long a verdict takes, how late the last one is.

It reads a rollout behind the prompt, of which a group shares one reading, and writes its verdict, or only a score. On
GPUs of its own it judges each rollout as it ends; in turn on the generators' it begins when all of a step have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, POSITIVE, check_record
from computeledger.physics.roofline import Machine, bound
from computeledger.workloads.rl.lengths import SURVIVAL, Lengths, single
from computeledger.workloads.serving.estimate import (
    ServingScenario,
    estimate_serving,
    largest_batch,
    packed_prefill_s,
)

#: What is as good as nothing.
_FEW = 1e-9
#: Rounds in which verdicts in flight and the time that one takes settle.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Judge:
    """A served model that judges rollouts.

    Attributes
    ----------
    engine : ServingScenario
        Of one replica: model, layout, precision; its batch is the most verdicts in flight.
    n_gpus : float or ndarray or None
        GPUs that only judge; None where the generators' judge in turn [-].
    tokens : float or ndarray
        Written per verdict; 0 for a score, which reading alone gives [token].
    calls : float or ndarray
        Verdicts per rollout, which share one reading of it [-].
    """

    engine: ServingScenario
    n_gpus: Num | None = None
    tokens: Num = 0.0
    calls: Num = 1.0

    def __post_init__(self) -> None:
        check_record(self, n_gpus=POSITIVE, calls=AT_LEAST_ONE)

    @property
    def is_apart(self) -> bool:
        """Whether it has GPUs of its own."""
        return self.n_gpus is not None

    @property
    def own_gpus(self) -> Num:
        """GPUs that only judge [-]."""
        return 0.0 if self.n_gpus is None else self.n_gpus

    @property
    def gives_score(self) -> bool:
        """Whether it writes nothing."""
        return not np.any(self.tokens)


@dataclass(frozen=True, slots=True)
class Transcripts:
    """What a judge is given in one step: rollouts, what it reads of each, and what it finds in its cache [token]."""

    rollouts: Num
    read_tokens: Num
    shared_tokens: Num


@dataclass(frozen=True, slots=True)
class Judging:
    """How a judge does in a step.

    Attributes
    ----------
    replicas : float or ndarray
        Whole ones [-].
    all_s : float or ndarray
        All verdicts of a step: in turn after its generation, on GPUs of its own at the largest batch [s].
    verdict_s : float or ndarray
        From the end of a step's last rollout, or of a rollout under a lag, to its verdict [s].
    late_s : float or ndarray
        From the end of generation to the last verdict of a synchronous step [s].
    """

    replicas: Num
    all_s: Num
    verdict_s: Num
    late_s: Num


def served_judge(judge: Judge, given: Transcripts, in_flight: Num) -> ServingScenario:
    """State one replica of a judge with so many verdicts in flight; those of one rollout share its reading.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> one = served_judge(Judge(engine, 8.0, tokens=100.0, calls=4.0), Transcripts(64.0, 1000.0, 200.0), 8.0)
    >>> float(one.input_tokens), one.cached_tokens, float(one.output_tokens)
    (250.0, 950.0, 100.0)
    """
    read = np.maximum(given.read_tokens / judge.calls, 1.0)
    found = given.shared_tokens + given.read_tokens - given.read_tokens / judge.calls
    written = np.maximum(judge.tokens, 1.0)
    return replace(judge.engine, input_tokens=read, cached_tokens=found, output_tokens=written, batch=in_flight)


def most_in_flight(judge: Judge, given: Transcripts, machine: Machine) -> Num:
    """Verdicts that a replica has in flight at most: its limit, or what its memory holds; 0 where it does not fit.

    Caches are given out as they grow: verdicts under way are half written on average.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=8), Precision(), 1.0, 1.0, 64.0)
    >>> float(most_in_flight(Judge(engine, 8.0), Transcripts(64.0, 1000.0, 200.0), Machine(load_system("h100-nvl8"))))
    64.0
    """
    half = replace(served_judge(judge, given, 1.0), output_tokens=np.maximum(judge.tokens / 2, 1.0))
    room = np.asarray(largest_batch(half, machine), float)
    return np.where(room >= 1, np.minimum(room, judge.engine.batch), 0.0)


def judgement_s(judge: Judge, given: Transcripts, in_flight: Num, machine: Machine) -> Num:
    """Time of a verdict with so many in flight on its replica, as ``serve`` has a request; a score waits for others'.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 64.0)
    >>> given, machine = Transcripts(64.0, 1000.0, 200.0), Machine(load_system("h100-nvl8"))
    >>> score, verdict = (judgement_s(Judge(engine, 8.0, n), given, 8.0, machine) for n in (0.0, 256.0))
    >>> bool(score < 0.3 < 1.0 < verdict < 2.5)
    True
    """
    if judge.gives_score:
        alone = served_judge(judge, given, 1.0)
        packed_s, _ = packed_prefill_s(alone, machine)
        return estimate_serving(alone, machine).ttft_s + (in_flight - 1.0) * packed_s
    return estimate_serving(served_judge(judge, given, in_flight), machine).in_service_s


def verdicts_per_s(judge: Judge, given: Transcripts, machine: Machine) -> Num:
    """Verdicts that one replica gives at its largest batch, as ``serve`` has its requests; scores at full chunks.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 64.0)
    >>> given, machine = Transcripts(64.0, 1000.0, 200.0), Machine(load_system("h100-nvl8"))
    >>> judge = Judge(engine, 8.0, tokens=256.0)
    >>> served = estimate_serving(served_judge(judge, given, 64.0), machine)
    >>> bool(verdicts_per_s(judge, given, machine) == served.requests_per_s)
    True
    """
    most = np.maximum(most_in_flight(judge, given, machine), 1.0)
    if judge.gives_score:
        return 1.0 / packed_prefill_s(served_judge(judge, given, most), machine)[0]
    return estimate_serving(served_judge(judge, given, most), machine).requests_per_s


def judge_bound(judge: Judge, given: Transcripts, machine: Machine) -> NDArray[np.str_]:
    """Name what binds a judge: reading where it gives a score, the decode step at its largest batch elsewhere.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 64.0)
    >>> str(judge_bound(Judge(engine, 8.0), Transcripts(64.0, 4e3, 2e2), Machine(load_system("h100-nvl8"))))
    'compute'
    """
    most = np.maximum(most_in_flight(judge, given, machine), 1.0)
    found = estimate_serving(served_judge(judge, given, most), machine)
    return bound(list(found.prefill if judge.gives_score else found.decode))


@dataclass(frozen=True, slots=True)
class Ends:
    """When the rollouts of a synchronous step end: evenly while a queue is left, then by length.

    Attributes
    ----------
    lengths : Lengths
        Of rollouts [token].
    wall_s : float or ndarray
        Of generation [s].
    queued_fraction : float or ndarray
        Rollouts beyond those that all replicas have under way at once [-].
    rollouts : float or ndarray
        Of the step [-].
    """

    lengths: Lengths
    wall_s: Num
    queued_fraction: Num
    rollouts: Num

    def _curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Moments before the end of generation [s], and the share of rollouts that end later."""
        lengths, queued = self.lengths, np.asarray(self.queued_fraction)
        longest = np.maximum(lengths.expected_longest_tokens(self.rollouts), lengths.mean_tokens)
        rounds = queued / np.maximum(1.0 - queued, 1e-9)
        tail_s = self.wall_s * longest / (longest + rounds * lengths.mean_tokens)
        before_s = tail_s * np.maximum(1.0 - lengths.tokens / longest, 0.0)
        left = (1.0 - queued) * SURVIVAL.reshape(-1, 1)
        return before_s, np.broadcast_to(left, np.broadcast(before_s, left).shape)

    def beside(self, verdict_s: Num) -> Num:
        """Share of rollouts whose verdicts are under way beside the last one, on average of its time.

        One that ends ``u`` before the last shares ``1 - u / verdict`` of it.
        """
        moments_s, left = self._curve()
        overlap = np.maximum(1.0 - moments_s / verdict_s, 0.0)
        shared = np.sum((left[:-1] - left[1:]) * (overlap[:-1] + overlap[1:]) / 2, axis=0)
        queued_s = (self.wall_s + np.max(moments_s, axis=0)) / 2
        return single(shared + self.queued_fraction * np.maximum(1.0 - queued_s / verdict_s, 0.0))

    def worked_off_s(self, all_s: Num) -> Num:
        """How long after generation the last verdict comes, where all of them take so long."""
        moments_s, left = self._curve()
        backlog_s = single(np.max(left * all_s - moments_s, axis=0))
        return np.maximum(np.maximum(backlog_s, all_s - self.wall_s), 0.0)


def judging(
    judge: Judge, given: Transcripts, machine: Machine, replicas: Num, pace_s: Num, ends: Ends | None = None
) -> Judging:
    """Time the verdicts of one step.

    On GPUs of its own the judge is given rollouts as they end: the last verdict comes when what is left at any moment
    ``t`` is worked off, ``max t + left(t) all``, and no sooner than a verdict takes beside those that arrive with it.

    Parameters
    ----------
    judge : Judge
        What judges.
    given : Transcripts
        Of one step.
    machine : Machine
        One of its GPUs.
    replicas : float or ndarray
        Of the judge [-].
    pace_s : float or ndarray
        A step takes no less: verdicts of a run with a lag arrive evenly over it [s].
    ends : Ends or None
        When rollouts of a synchronous step end; None where they do so evenly.

    Returns
    -------
    Judging
        Endless where not one replica is there, or it does not hold one verdict.
    """
    most = most_in_flight(judge, given, machine)
    held, calls = np.maximum(most, 1.0), given.rollouts * judge.calls
    count = np.maximum(replicas, 1.0)
    all_s = calls / (count * verdicts_per_s(judge, given, machine))
    fits = (np.asarray(most) >= 1) & (np.asarray(replicas) >= 1)
    share = np.maximum(calls / count, 1.0)
    alone_s = verdict_s = judgement_s(judge, given, 1.0 + 0.0 * np.asarray(all_s), machine)
    in_flight = np.minimum(share, held)
    for _ in range(_ROUNDS if judge.is_apart else 1):
        if judge.is_apart and ends is not None:
            in_flight = np.clip(share * ends.beside(verdict_s), 1.0, held)
        verdict_s = judgement_s(judge, given, in_flight, machine)
        if judge.is_apart and ends is None:
            # Little's law on the line between a verdict alone and one beside so many
            rate, more_s = share / np.maximum(pace_s, all_s), (verdict_s - alone_s) / np.maximum(in_flight - 1.0, _FEW)
            settled = rate * (alone_s - more_s) / np.maximum(1.0 - rate * more_s, _FEW)
            in_flight = np.clip(np.where(rate * more_s < 1.0, settled, held), 1.0, np.minimum(share, held))
    if not judge.is_apart:
        all_s = late_s = np.maximum(share / held, 1.0) * verdict_s
    elif ends is None:
        late_s = np.maximum(all_s - pace_s, verdict_s)
    else:
        late_s = np.maximum(ends.worked_off_s(all_s), verdict_s)
    return Judging(
        replicas=np.where(fits, replicas, 0.0),
        all_s=np.where(fits, all_s, np.inf),
        verdict_s=np.where(fits, verdict_s, np.inf),
        late_s=np.where(fits, late_s, np.inf),
    )
