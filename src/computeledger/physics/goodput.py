"""Goodput of a training run: failures, checkpoints, restarts and stragglers between the step and the calendar.

Failures strike at random (a Poisson process whose rate grows with the GPUs). A checkpoint pauses the job for a moment
and is usable once it is written; a failure throws the job back to the last usable one, and a restart brings it up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, Range, Uncertain
from computeledger.errors import QuantityError
from computeledger.units import DAY_S, MINUTE_S, YEAR_S

#: What a stop costs where the question does not say. Each rests on published runs (``facts/data/reliability.toml``);
#: none states the spread over runs, so the ranges are assumptions.
ASSUMED_STOPS: dict[str, tuple[Uncertain, str]] = {
    "pause_s": (Range(0.5, 30.0), "from asynchronous checkpoints (0.59 s, ByteCheckpoint) to slow ones"),
    "write_s": (Range(20.0, 120.0), "until a checkpoint is usable: 51 s for 405B on 8,960 GPUs (ByteCheckpoint)"),
    "restart_s": (
        Range(4 * MINUTE_S, 15 * MINUTE_S),
        "detecting and diagnosing (under 10 min, MegaScale), starting, loading (129 s, ByteCheckpoint)",
    ),
    "planned_stops_per_s": (Range(0.3 / DAY_S, 1.5 / DAY_S), "maintenance and updates: 47 in 54 days (Llama 3)"),
    "straggler_fraction": (
        Range(0.005, 0.05, bounded=True),
        "steps slower than on a healthy job: single hosts take about 10 % longer until they are replaced (MegaScale)",
    ),
}

#: What a failure costs a run that goes on without the part that failed, as Gemini 2.5 did.
ASSUMED_ELASTIC: dict[str, tuple[Uncertain, str]] = {
    "lost_s": (Range(20.0, 90.0), "tens of seconds of training per interruption (Gemini 2.5)"),
    "slowed_fraction": (0.97, "speed while the part that failed recovers (Gemini 2.5); taken for the whole run"),
}

#: Time between the failures of a job that has none: checkpoints then cost next to nothing.
NEVER_S = 10_000 * YEAR_S
#: Where a checkpoint and a restart together outlast the time between failures this often, no work gets done.
LARGEST_EXPONENT = 20.0


@dataclass(frozen=True, slots=True)
class Reliability:
    """How often a job stops, and what that costs.

    Attributes
    ----------
    interruptions_per_gpu_s : float or ndarray
        Unexpected stops of the job per GPU [1/s].
    pause_s : float or ndarray
        Training stands still while a checkpoint is taken [s].
    write_s : float or ndarray
        Until that checkpoint can be loaded; training goes on meanwhile [s].
    restart_s : float or ndarray
        From a failure to training again: detection, new hosts, start, loading [s].
    planned_stops_per_s : float or ndarray
        Planned stops of the whole job; they lose no work [1/s].
    straggler_fraction : float or ndarray
        Time added to each step by hosts that are slower than the model assumes [-].
    interval_s : float or ndarray or None
        Training time between checkpoints; None takes the best one [s].
    """

    interruptions_per_gpu_s: Num
    pause_s: Num = 4.0
    write_s: Num = 50.0
    restart_s: Num = 8 * MINUTE_S
    planned_stops_per_s: Num = 0.0
    straggler_fraction: Num = 0.0
    interval_s: Num | None = None


@dataclass(frozen=True, slots=True)
class Goodput:
    """Where a run's time goes. The shares add up to 1.

    Attributes
    ----------
    mean_time_between_failures_s : float or ndarray
        Of the whole job [s].
    interval_s : float or ndarray
        Training time between checkpoints [s].
    useful_fraction : float or ndarray
        Steps that count, at the speed of a healthy job [-].
    straggler_fraction : float or ndarray
        Added to those steps by slow hosts [-].
    pause_fraction : float or ndarray
        Standing still for checkpoints [-].
    lost_fraction : float or ndarray
        Work done again [-].
    restart_fraction : float or ndarray
        Coming up after failures [-].
    planned_fraction : float or ndarray
        Planned stops [-].
    """

    mean_time_between_failures_s: Num
    interval_s: Num
    useful_fraction: Num
    straggler_fraction: Num
    pause_fraction: Num
    lost_fraction: Num
    restart_fraction: Num
    planned_fraction: Num

    @property
    def goodput_fraction(self) -> Num:
        """Useful time, stragglers counted as loss [-]."""
        return self.useful_fraction

    @property
    def effective_fraction(self) -> Num:
        """Time in steps that count, however slow: what reports call effective training time [-]."""
        return self.useful_fraction + self.straggler_fraction


def mean_time_between_failures_s(n_gpus: Num, interruptions_per_gpu_s: Num) -> Num:
    """Time between unexpected stops of a synchronous job, ``1 / (n f)``; ten thousand years where nothing fails.

    Parameters
    ----------
    n_gpus : float or ndarray
        GPUs of the job [-].
    interruptions_per_gpu_s : float or ndarray
        Stops per GPU [1/s].

    Returns
    -------
    float or ndarray
        Mean time [s].

    References
    ----------
    kokolis-2025.

    Examples
    --------
    >>> round(float(mean_time_between_failures_s(16384, 6.5e-3 / 8 / 86400)) / 3600, 1)
    1.8
    """
    return 1 / np.maximum(n_gpus * interruptions_per_gpu_s, 1 / NEVER_S)


def checkpoint_interval_young_s(pause_s: Num, mean_time_s: Num) -> Num:
    """Interval between checkpoints that wastes least, to first order: ``sqrt(2 C M)``.

    Parameters
    ----------
    pause_s : float or ndarray
        Time that one checkpoint costs, ``C``; small against ``M`` [s].
    mean_time_s : float or ndarray
        Time between failures, ``M`` [s].

    Returns
    -------
    float or ndarray
        Training time between checkpoints [s].

    Examples
    --------
    >>> float(checkpoint_interval_young_s(20.0, 9000.0))
    600.0
    """
    return np.sqrt(2 * pause_s * mean_time_s)


def checkpoint_interval_daly_s(pause_s: Num, mean_time_s: Num) -> Num:
    """Interval by Daly's higher-order estimate, ``sqrt(2 C M) (1 + x / 3 + x^2 / 9) - C`` with ``x = sqrt(C / 2 M)``.

    Parameters
    ----------
    pause_s : float or ndarray
        Time that one checkpoint costs, ``C`` [s]; from ``2 M`` on the interval is ``M``.
    mean_time_s : float or ndarray
        Time between failures, ``M`` [s].

    Returns
    -------
    float or ndarray
        Training time between checkpoints [s].

    Examples
    --------
    >>> round(float(checkpoint_interval_daly_s(20.0, 9000.0)))
    587
    """
    x = np.sqrt(pause_s / (2 * mean_time_s))
    interval = checkpoint_interval_young_s(pause_s, mean_time_s) * (1 + x / 3 + x**2 / 9) - pause_s
    return np.where(np.asarray(pause_s) < 2 * np.asarray(mean_time_s), interval, mean_time_s)


def goodput(reliability: Reliability, n_gpus: Num) -> Goodput:
    """Share of a run's time that advances it.

    A piece of ``tau`` seconds of training takes ``M exp(R / M) (exp((tau + C) / M) - 1)`` on average (Daly): exact
    where failures strike at random, restarts included. ``R`` holds the restart and the time in which the last
    checkpoint was not yet usable. The interval is Daly's, and never shorter than a checkpoint takes to write.

    Parameters
    ----------
    reliability : Reliability
        Rates and times.
    n_gpus : float or ndarray
        GPUs of the job [-].

    Returns
    -------
    Goodput
        Shares of the time.

    Raises
    ------
    QuantityError
        Where the job fails so often that it hardly advances.

    Examples
    --------
    >>> run = goodput(Reliability(5.5e-9, pause_s=4.0, restart_s=480.0), 16384)
    >>> round(float(run.goodput_fraction), 2)
    0.93
    """
    one = reliability
    mean_time = mean_time_between_failures_s(n_gpus, one.interruptions_per_gpu_s)
    best = np.maximum(checkpoint_interval_daly_s(one.pause_s, mean_time), one.write_s)
    interval = best if one.interval_s is None else np.maximum(one.interval_s, one.write_s)
    down = one.restart_s + one.write_s
    if np.any((interval + one.pause_s + down) / mean_time > LARGEST_EXPONENT):
        raise QuantityError(
            f"a job of {float(np.max(n_gpus)):.0f} GPUs fails every {float(np.min(mean_time)):.3g} s and needs longer "
            "to restart: it does not advance"
        )
    failures = np.expm1((interval + one.pause_s) / mean_time)
    again = failures * mean_time - interval - one.pause_s
    restarts = failures * mean_time * np.expm1(down / mean_time)
    unwritten = restarts * one.write_s / down
    planned = one.planned_stops_per_s * one.restart_s
    whole = (interval + one.pause_s + again + restarts) * (1 + planned)
    slow = one.straggler_fraction / (1 + one.straggler_fraction)
    return Goodput(
        mean_time_between_failures_s=mean_time,
        interval_s=interval,
        useful_fraction=interval * (1 - slow) / whole,
        straggler_fraction=interval * slow / whole,
        pause_fraction=one.pause_s / whole,
        lost_fraction=(again + unwritten) / whole,
        restart_fraction=(restarts - unwritten) / whole,
        planned_fraction=planned / (1 + planned),
    )


def elastic_goodput_fraction(reliability: Reliability, n_gpus: Num, lost_s: Num, slowed_fraction: Num) -> Num:
    """Share of a run's time that advances it, where a failure takes out one part and the others go on.

    No work is done again, as the other replicas hold the state. A failure costs ``lost_s`` and strikes again meanwhile
    at the same rate: ``exp(-lost / M)`` of the time is left. With parts of one size the share of GPUs that recover at a
    time does not grow with the job, so the speed meanwhile is taken as published, and for the whole run.

    Parameters
    ----------
    reliability : Reliability
        Rates and times; planned stops restart the whole job, stragglers slow it.
    n_gpus : float or ndarray
        GPUs of the job [-].
    lost_s : float or ndarray
        Until the rest of the job goes on [s].
    slowed_fraction : float or ndarray
        Speed of the rest over that of the whole job [-].

    Returns
    -------
    float or ndarray
        Useful time, stragglers counted as loss [-].

    Examples
    --------
    >>> often = Reliability(6.3e-9)
    >>> round(float(elastic_goodput_fraction(often, 524_288, 40.0, 0.97)), 2)
    0.85
    >>> round(float(goodput(often, 524_288).goodput_fraction), 2)
    0.15
    """
    mean_time = mean_time_between_failures_s(n_gpus, reliability.interruptions_per_gpu_s)
    planned = 1 + reliability.planned_stops_per_s * reliability.restart_s
    return np.exp(-lost_s / mean_time) * slowed_fraction / (1 + reliability.straggler_fraction) / planned
