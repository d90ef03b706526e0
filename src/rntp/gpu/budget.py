"""Time shared out among measurements: each has an end, and asks before it begins another round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

#: What a round may take beyond the longest before it, as a factor (assumption).
MARGIN = 1.3


class Weighted(Protocol):
    """What has a share of the time."""

    @property
    def share(self) -> float:
        """Weight among the others [-]."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """An end on a monotonic clock [s].

    Attributes
    ----------
    end_s : float
        When time is up, on that clock [s].
    clock : callable
        Gives the time [s].
    """

    end_s: float
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        """Time that is left, 0 at least [s]."""
        return max(0.0, self.end_s - self.clock())

    def allows(self, longest_s: float) -> bool:
        """Say whether another round fits, where the longest so far took ``longest_s``.

        Parameters
        ----------
        longest_s : float
            Longest round so far; 0 where there was none [s].

        Returns
        -------
        bool
            Whether one that takes ``MARGIN`` times as long would still end in time.

        Examples
        --------
        >>> Deadline(10.0, lambda: 4.0).allows(4.0), Deadline(10.0, lambda: 4.0).allows(5.0)
        (True, False)
        """
        return self.left_s > MARGIN * longest_s


def allowance_s(parts: Sequence[Weighted], left_s: float) -> float:
    """Time of the first of several parts: what is left, by their shares; what one leaves over goes to those after it.

    Parameters
    ----------
    parts : sequence
        Those still to come, each with its ``share``.
    left_s : float
        Time left for all of them [s].

    Returns
    -------
    float
        Time of the first [s].

    Examples
    --------
    >>> from types import SimpleNamespace as Part
    >>> allowance_s([Part(share=1.0), Part(share=3.0)], 100.0)
    25.0
    """
    return left_s * parts[0].share / sum(one.share for one in parts)
