"""The start of a closed load: all clients send their first prompt at once, and later ones as each is answered.

``C`` prompts stand in one queue, ``T`` apart: waits spread evenly from 0 to ``W = (C - 1) T``. The rounds that follow
are staggered by that queue, and wait for none. Over ``R`` rounds one request in ``R`` is of the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import UnknownIdError, nearest
from computeledger.physics.serving.limit import above_limit_s

#: What a time to first token may be over the requests of a run, by the share of requests that are as soon; the mean
#: has none.
STATISTICS = {"mean": None, "median": 0.5, "p90": 0.9, "last": 1.0}


#: Requests at once, and rounds of them, that make a run one burst: its lengths' spread decides when it ends.
FEWEST_AT_ONCE, MOST_BURST_ROUNDS = 32.0, 2.0


def is_burst(at_once: float, rounds: float) -> bool:
    """Whether a run is little more than its start.

    Parameters
    ----------
    at_once : float
        Requests that start together [-].
    rounds : float
        Requests that each client sends [-].

    Returns
    -------
    bool
        Whether hardly any of its time is steady.

    Examples
    --------
    >>> is_burst(1000.0, 1.0), is_burst(1000.0, 10.0), is_burst(4.0, 1.0)
    (True, False, False)
    """
    return at_once >= FEWEST_AT_ONCE and rounds <= MOST_BURST_ROUNDS


def start_wait_s(longest_s: Num, rounds: Num, statistic: str = "mean") -> Num:
    """Wait for the start-up burst, over all requests of a run.

    ``W / (2 R)`` on average; ``W R max(q - (1 - 1 / R), 0)`` at the quantile ``q``: over two rounds or more half of the
    requests and more wait for nobody, and the mean lies far above the median.

    Parameters
    ----------
    longest_s : float or ndarray
        Wait of the last prompt of the burst, ``W`` [s].
    rounds : float or ndarray
        Requests per client, ``R`` [-].
    statistic : str
        A key of :data:`STATISTICS`.

    Returns
    -------
    float or ndarray
        Wait [s].

    Raises
    ------
    UnknownIdError
        A statistic that is not listed.

    Examples
    --------
    >>> [float(start_wait_s(8.0, 1.0, name)) for name in STATISTICS]
    [4.0, 4.0, 7.2, 8.0]
    >>> [round(float(start_wait_s(8.0, 4.0, name)), 6) for name in STATISTICS]
    [1.0, 0.0, 4.8, 8.0]
    """
    if statistic not in STATISTICS:
        raise UnknownIdError(f"unknown statistic {statistic!r}: {nearest(statistic, STATISTICS)}")
    share = STATISTICS[statistic]
    if share is None:
        return longest_s / (2 * rounds)
    return longest_s * np.clip(1 - (1 - share) * np.asarray(rounds), 0.0, 1.0)


def turns_of_run(rounds: Num, batch: Num, waiting: Num) -> Num:
    """Requests of a run for each place among the sequences that decode.

    Parameters
    ----------
    rounds : float or ndarray
        Requests per client [-].
    batch, waiting : float or ndarray
        Requests that decode, and that wait [-].

    Returns
    -------
    float or ndarray
        Turns of a place [-].

    Examples
    --------
    >>> turns_of_run(1.0, 250.0, 750.0)
    4.0
    """
    return rounds * (batch + waiting) / batch


def turns_waited(waiting: Num, batch: Num, rounds: Num, statistic: str = "mean") -> Num:
    """Wait for a place among the sequences that decode, over the time that a sequence decodes.

    ``w / B`` where clients send on and on. Of a round that none follows the queue of ``w`` behind ``B`` drains:
    ``w^2 / (2 (w + B) B)`` on average, ``(q (w + B) - B) / B`` at a quantile.

    Parameters
    ----------
    waiting, batch : float or ndarray
        Requests that wait, ``w``, and that decode, ``B`` [-].
    rounds : float or ndarray
        Requests per client [-].
    statistic : str
        A key of :data:`STATISTICS`.

    Returns
    -------
    float or ndarray
        In turns of the batch [-].

    Examples
    --------
    >>> [float(turns_waited(744.0, 256.0, rounds)) for rounds in (1.0, np.inf)]
    [1.081125, 2.90625]
    """
    share, whole = STATISTICS[statistic], waiting / batch
    once = waiting**2 / (2 * (waiting + batch) * batch)
    if share is not None:
        once = np.maximum(share * (waiting + batch) / batch - 1, 0.0)
    return whole + (once - whole) / rounds


@dataclass(frozen=True, slots=True)
class Turn:
    """The wait for a place among the sequences that decode.

    Attributes
    ----------
    waiting, batch : float or ndarray
        Requests that wait, and that decode [-].
    central_s, real_s, limit_s : float or ndarray
        How long a sequence decodes: as modelled, at the ratio of real over modelled steps, and at the limit [s].
    """

    waiting: Num = 0.0
    batch: Num = 1.0
    central_s: Num = 0.0
    real_s: Num = 0.0
    limit_s: Num = 0.0


NO_TURN = Turn()


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Modelled time to first token of a run's requests.

    Attributes
    ----------
    own_s, own_limit_s : float or ndarray
        Of a request that waits for none of the first round, and its physical limit [s].
    longest_s, longest_limit_s : float or ndarray
        Wait of the last prompt of the first round, and its limit [s].
    rounds, ratio : float or ndarray
        Requests per client; real over modelled time [-].
    turn : Turn
        The wait for a place among the sequences that decode.
    shared_s : float or ndarray
        What the step that it joins takes longer for the prompts of others, at the ratio of real over modelled steps; of
        the rounds behind the first [s].
    """

    own_s: Num
    own_limit_s: Num
    longest_s: Num
    longest_limit_s: Num
    rounds: Num
    ratio: Num
    turn: Turn = NO_TURN
    shared_s: Num = 0.0

    def at_s(self, statistic: str) -> Num:
        """Time to first token at a statistic over the requests of the run.

        Parameters
        ----------
        statistic : str
            A key of :data:`STATISTICS`.

        Returns
        -------
        float or ndarray
            Arrival to first token [s].

        Examples
        --------
        >>> float(FirstToken(2.0, 1.0, 8.0, 4.0, 4.0, 1.5).at_s("mean"))
        4.5
        """
        start_s = start_wait_s(self.longest_s, self.rounds, statistic)
        start_limit_s = start_wait_s(self.longest_limit_s, self.rounds, statistic)
        central_s, limit_s = self.own_s + start_s, self.own_limit_s + start_limit_s
        turns = turns_waited(self.turn.waiting, self.turn.batch, self.rounds, statistic)
        beside_s = (1 - 1 / self.rounds) * self.shared_s
        if np.all(np.isinf(self.rounds)):  # turns that follow one another are decode steps: they are as sure as these
            return above_limit_s(central_s, limit_s, self.ratio) + turns * self.turn.real_s + beside_s
        queued_s, queued_limit_s = turns * self.turn.central_s, turns * self.turn.limit_s
        return above_limit_s(central_s + queued_s, limit_s + queued_limit_s, self.ratio) + beside_s
