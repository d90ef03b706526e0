"""Which requests of a load are turns of one conversation: a turn comes some time after the one before it is done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.simulation.prefix_cache import Prompts
from computeledger.simulation.state import Counts, Times


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns of conversations, by request; first turns come first, in order of arrival.

    Attributes
    ----------
    n_open : int
        Requests that arrive by themselves: first turns [-].
    next_turn : ndarray of int
        The request that follows when this one is done; -1 after a last turn [-].
    delay_s : ndarray of float
        From the end of this turn to the next one's arrival: a person who thinks, a tool that answers [s].
    session : ndarray of int
        Its conversation [-].
    prefix : ndarray of int
        Which of the shared prompts it begins with [-].
    shared_tokens : ndarray of int
        Tokens of that prompt [token].
    """

    n_open: int
    next_turn: Counts
    delay_s: Times
    session: Counts
    prefix: Counts
    shared_tokens: Counts

    def prompts(self, input_tokens: Counts) -> Prompts:
        """What each prompt consists of: the shared one, then the conversation's own tokens.

        Examples
        --------
        >>> one = np.zeros(1, np.int64)
        >>> turns = Turns(1, one - 1, np.zeros(1), one, one, one + 100)
        >>> turns.prompts(np.array([250])).units.tolist()
        [100, 150]
        """
        n_prefixes = int(self.prefix.max()) + 1
        ids = np.stack([self.prefix, n_prefixes + self.session], axis=1)
        units = np.stack([self.shared_tokens, input_tokens - self.shared_tokens], axis=1)
        used = units > 0
        first = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(used.sum(axis=1), out=first[1:])
        return Prompts(ids[used].astype(np.int32), units[used].astype(np.int32), first, 1)
