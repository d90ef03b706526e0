"""Samples against coverage: pass@k, its laws, and what RL takes from a base model's tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import QuantityError

#: Samples beyond which two laws count as never meeting: nobody draws so many (a choice).
_MOST_LOG_K = 40 * math.log(2)

Array = NDArray[np.float64]


def pass_at_k(n_samples: Num, n_correct: Num, k: Num) -> Num:
    """Chance that at least one of ``k`` samples is right, without bias, from ``n`` samples of which ``c`` are.

    ``1 - C(n - c, k) / C(n, k)``

    Parameters
    ----------
    n_samples, n_correct : float or ndarray
        ``n`` and ``c``, per problem [-].
    k : float or ndarray
        At most ``n`` [-].

    Returns
    -------
    float or ndarray
        Per problem; its mean over problems is pass@k [-].

    Raises
    ------
    QuantityError
        More right than samples, or ``k`` beyond them.

    Examples
    --------
    >>> round(float(pass_at_k(10, 3, 1)), 6), round(float(pass_at_k(5, 2, 3)), 6)
    (0.3, 0.9)
    """
    n, c, k = (np.asarray(one, float) for one in (n_samples, n_correct, k))
    if np.any(c > n) or np.any(c < 0) or np.any(k < 1) or np.any(k > n):
        raise QuantityError("pass@k: expected 0 <= right <= samples and 1 <= k <= samples")
    n, c, k = np.broadcast_arrays(n, c, k)
    out = np.ones(n.shape)
    possible = n - c >= k
    logs = np.array([
        _log_choose(float(a - b), float(d)) - _log_choose(float(a), float(d)) if ok else -np.inf
        for a, b, d, ok in zip(n.ravel(), c.ravel(), k.ravel(), possible.ravel(), strict=True)
    ])  # fmt: skip
    return np.asarray(out - np.exp(logs.reshape(n.shape)))


def _log_choose(n: float, k: float) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@dataclass(frozen=True, slots=True)
class CoverageFit:
    """``coverage = exp(a k^b)``.

    Attributes
    ----------
    a, b : float
        Both negative: coverage rises to 1 [-].
    residual : float
        Root of the mean squared residual of coverage [-].
    """

    a: float
    b: float
    residual: float

    def coverage(self, k: Num) -> Num:
        """Share of problems solved by at least one of ``k`` samples.

        Parameters
        ----------
        k : float or ndarray
            Samples [-].

        Returns
        -------
        float or ndarray
            Coverage [-].

        Examples
        --------
        >>> round(float(CoverageFit(-1.8, -0.3, 0.0).coverage(1)), 3)
        0.165
        """
        return np.exp(self.a * np.asarray(k, float) ** self.b)


def fit_coverage(k: Sequence[float] | Array, coverage: Sequence[float] | Array) -> CoverageFit:
    """Fit ``log(-log coverage) = log(-a) + b log k``.

    Parameters
    ----------
    k : sequence of float
        Samples per problem [-].
    coverage : sequence of float
        Strictly between 0 and 1 [-].

    Returns
    -------
    CoverageFit
        By least squares in those logarithms.

    Raises
    ------
    QuantityError
        Fewer than three points, or a coverage of 0 or 1.

    Examples
    --------
    >>> ks = np.array([1.0, 4.0, 16.0, 64.0])
    >>> found = fit_coverage(ks, CoverageFit(-1.8, -0.3, 0.0).coverage(ks))
    >>> round(found.a, 6), round(found.b, 6)
    (-1.8, -0.3)
    """
    ks, seen = np.asarray(k, float), np.asarray(coverage, float)
    if len(ks) < 3 or len(ks) != len(seen):
        raise QuantityError(f"coverage: {len(ks)} points, at least 3 are needed")
    if np.any(seen <= 0) or np.any(seen >= 1) or np.any(ks < 1):
        raise QuantityError("coverage: expected samples of at least 1 and coverage strictly between 0 and 1")
    b, level = np.polyfit(np.log(ks), np.log(-np.log(seen)), 1)
    found = CoverageFit(-math.exp(level), float(b), 0.0)
    left = float(np.sqrt(np.mean((found.coverage(ks) - seen) ** 2)))
    return CoverageFit(found.a, found.b, left)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where two laws of coverage meet.

    Attributes
    ----------
    k : float
        Samples from which on the other model solves more [-].
    coverage : float
        Of both there [-].
    is_base_ahead : bool
        Whether the base model leads beyond, as where RL narrows what is tried; else the trained one does.
    """

    k: float
    coverage: float
    is_base_ahead: bool


def crossing(base: CoverageFit, trained: CoverageFit) -> Crossing | None:
    """Find where the curves of a base and a trained model cross: ``k = (a' / a)^(1 / (b - b'))``.

    Parameters
    ----------
    base, trained : CoverageFit
        Of the model before and after RL.

    Returns
    -------
    Crossing or None
        None where one of them leads at every number of samples from 1 on.

    Examples
    --------
    >>> found = crossing(CoverageFit(-1.8, -0.4, 0.0), CoverageFit(-0.9, -0.2, 0.0))
    >>> round(found.k), round(found.coverage, 3)
    (32, 0.638)
    >>> crossing(CoverageFit(-1.8, -0.2, 0.0), CoverageFit(-0.9, -0.4, 0.0)) is None
    True
    """
    if base.b == trained.b:
        return None
    log_k = math.log(trained.a / base.a) / (base.b - trained.b)
    if not 0 <= log_k <= _MOST_LOG_K:
        return None
    k = math.exp(log_k)
    return Crossing(k, float(np.asarray(base.coverage(k))), base.b < trained.b)


@dataclass(frozen=True, slots=True)
class BudgetDemand:
    """What a budget of FLOP in RL asks for.

    Attributes
    ----------
    tokens, rollouts, steps : float or ndarray
        Sampled tokens, rollouts and steps [token], [-], [-].
    tasks : float or ndarray
        Different verifiable tasks, where each is tried a given number of times [-].
    """

    tokens: Num
    rollouts: Num
    steps: Num
    tasks: Num


def budget_demand(flop: Num, flop_per_token: Num, rollout: tuple[Num, Num], visits: tuple[Num, Num]) -> BudgetDemand:
    """Tokens, steps and tasks that put an amount of FLOP into RL.

    ``D = C / (beta N)``; rollouts ``D / L``; tasks ``rollouts / (group x epochs)``.

    Parameters
    ----------
    flop : float or ndarray
        ``C`` [FLOP].
    flop_per_token : float or ndarray
        ``beta_flop N`` per sampled token [FLOP/token].
    rollout : tuple of float or ndarray
        Mean length [token], and rollouts per step [-].
    visits : tuple of float or ndarray
        Rollouts per task in a step, and times the set of tasks is gone through [-].

    Returns
    -------
    BudgetDemand
        What the run must be fed.

    Examples
    --------
    >>> one = budget_demand(1e26, 6 * 100e9, (10e3, 4096.0), (16.0, 10.0))
    >>> f"{one.tokens:.2e}", f"{one.steps:.2e}", f"{one.tasks:.2e}"
    ('1.67e+14', '4.07e+06', '1.04e+08')
    """
    tokens = flop / flop_per_token
    rollouts = tokens / rollout[0]
    return BudgetDemand(tokens, rollouts, rollouts / rollout[1], rollouts / (visits[0] * visits[1]))
