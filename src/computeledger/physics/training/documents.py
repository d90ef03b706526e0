"""Documents of unequal lengths in sequences of one: attention within each, padding, and ranks that wait for others."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import FRACTION, NOT_NEGATIVE, POSITIVE, check_record

#: Blom's plotting position: an expected largest of n normal variables is the quantile (n - a) / (n + 1 - 2 a).
_BLOM = 0.375


@dataclass(frozen=True, slots=True)
class Documents:
    """What lies in the sequences of a step.

    Attributes
    ----------
    attended_tokens : float
        Length of the document that a token is in, mean over tokens, ``E[l^2] / E[l]`` [token].
    useful_fraction : float
        Tokens that are not padding [-].
    work_spread : float
        Standard deviation of a sequence's attention work over its mean [-].
    rank_ratios : tuple of float
        Attention work of the busiest context-parallel rank over the mean, for 1, 2, 4, ... ranks [-].
    """

    attended_tokens: float
    useful_fraction: float = 1.0
    work_spread: float = 0.0
    rank_ratios: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        check_record(
            self, attended_tokens=POSITIVE, useful_fraction=FRACTION, work_spread=NOT_NEGATIVE
        )  # fmt: skip

    def attention_ratio(self, ranks: Num, context_ranks: Num, sequences: Num) -> Num:
        """Attention time of the slowest rank over the mean: others wait for it.

        The busiest of ``context_ranks`` within a sequence, times the largest of ``ranks`` sums of ``sequences``.

        Parameters
        ----------
        ranks : float or ndarray
            Data-parallel ranks that wait for one another [-].
        context_ranks : float or ndarray
            That share a sequence [-].
        sequences : float or ndarray
            That a rank computes before it waits [-].

        Returns
        -------
        float or ndarray
            At least 1 [-].

        Examples
        --------
        >>> mixed = Documents(2000.0, work_spread=0.5, rank_ratios=(1.0, 1.2))
        >>> [round(float(mixed.attention_ratio(n, 1, 4)), 2) for n in (1, 8, 64)]
        [1.0, 1.36, 1.58]
        >>> round(float(mixed.attention_ratio(1, 2, 4)), 2)
        1.2
        """
        within = np.interp(np.log2(context_ranks), np.arange(len(self.rank_ratios)), self.rank_ratios)
        between: Num = 1 + self.work_spread / np.sqrt(np.maximum(sequences, 1.0)) * expected_largest(ranks)
        return within * between


def expected_largest(n: Num) -> Num:
    """Expected largest of ``n`` independent standard normal variables, within 1 %.

    Parameters
    ----------
    n : float or ndarray
        Variables [-].

    Returns
    -------
    float or ndarray
        Standard deviations above the mean; 0 for one [-].

    Examples
    --------
    >>> [round(float(expected_largest(n)), 2) for n in (1, 2, 100, 16384)]
    [0.0, 0.59, 2.5, 3.96]
    """
    counts, places = np.unique(np.asarray(n, float), return_inverse=True)
    inverse = NormalDist().inv_cdf
    largest = [inverse((count - _BLOM) / (count + 1 - 2 * _BLOM)) for count in counts]
    found: Num = np.maximum(np.array(largest)[places].reshape(np.shape(n)), 0.0)[()]
    return found
