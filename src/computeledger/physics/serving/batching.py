"""Prompts beside decodes: what one pass over both shares, and ranks that wait for the busiest one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.physics.roofline import Operation, OperationKind, total_s

#: Chance of more prompts on a rank below which the sum ends.
_REST = 1e-13


#: Groups of more attention-DP ranks than a node has hold prompts back this many steps, so that ranks prefill together;
#: smaller ones take each as it comes (assumption: without it most steps of 64 ranks would wait for one prompt).
ENGINE_RANKS, HOLD_STEPS = 8, 10.0


def held_steps(n_ranks: Num) -> Num:
    """Steps over which prompts are gathered before the attention-DP ranks read them together.

    Parameters
    ----------
    n_ranks : float or ndarray
        Attention-DP ranks [-].

    Returns
    -------
    float or ndarray
        Decode steps [-].

    Examples
    --------
    >>> held_steps(np.array([1, 8, 64])).tolist()
    [1.0, 1.0, 10.0]
    """
    return np.where(np.asarray(n_ranks) > ENGINE_RANKS, HOLD_STEPS, 1.0)


def expected_busiest(mean: Num, n_ranks: Num) -> Num:
    """Prompts on the busiest of several ranks when each receives a Poisson number.

    ``E[max] = sum over k >= 0 of 1 - F(k)^n``

    Parameters
    ----------
    mean : float or ndarray
        Prompts per rank and step [-].
    n_ranks : float or ndarray
        Ranks that wait for one another [-].

    Returns
    -------
    float or ndarray
        At least the mean; the mean itself for one rank [-].

    Examples
    --------
    >>> round(float(expected_busiest(0.1875, 1)), 4), round(float(expected_busiest(0.1875, 8)), 2)
    (0.1875, 0.9)
    """
    mean, n = np.asarray(mean, float), np.asarray(n_ranks, float)
    below: Num = np.zeros(np.broadcast(mean, n).shape)
    total = np.zeros_like(below)
    logs = np.log(np.maximum(mean, np.finfo(float).tiny))
    largest = float(np.max(mean))
    for k in range(int(largest + 10 * math.sqrt(largest) + 20)):
        below = below + np.exp(k * logs - mean - math.lgamma(k + 1))
        total = total + 1 - np.minimum(below, 1.0) ** n
        if np.min(below, initial=1.0) > 1 - _REST:
            break
    return total


def most_in_a_bin(n_balls: int, n_bins: int) -> NDArray[np.float64]:
    """Mean of the fullest of several bins when balls fall at random, for every number of balls.

    ``P(max <= m) = n! [x^n] (sum over k <= m of (x / bins)^k / k!)^bins``. Over a Poisson number of balls its mean is
    :func:`expected_busiest`.

    Parameters
    ----------
    n_balls, n_bins : int
        Most balls; bins [-].

    Returns
    -------
    ndarray
        By number of balls, from 0 on [-].

    Examples
    --------
    >>> most_in_a_bin(2, 2).tolist()
    [0.0, 1.0, 1.5]
    """
    n = np.arange(n_balls + 1)
    factorials = np.cumprod(np.maximum(n, 1).astype(float))
    total = np.zeros(n_balls + 1)
    for most in range(n_balls):
        one = np.where(n <= most, (1.0 / n_bins) ** n / factorials, 0.0)
        product = np.zeros(n_balls + 1)
        product[0] = 1.0
        for _ in range(n_bins):
            product = np.convolve(product, one)[: n_balls + 1]
        total += 1.0 - np.minimum(product * factorials, 1.0)
    return total


#: Operations that the ranks of a stage share: tokens of one rank's prompt are spread over all of them.
_SHARED = (OperationKind.ROUTED_EXPERTS, OperationKind.ALL_TO_ALL)


def shared_fraction(prefill: Sequence[Operation]) -> Num:
    """Share of a prefill that all ranks of a stage do together, whoever holds the prompt.

    Parameters
    ----------
    prefill : sequence of Operation
        Of a prompt on every rank.

    Returns
    -------
    float or ndarray
        Of its time; the rest is each rank's own [-].

    Examples
    --------
    >>> from computeledger.physics.roofline import OperationKind
    >>> kinds = (OperationKind.ATTENTION, OperationKind.ROUTED_EXPERTS)
    >>> own, shared = (Operation(kind, overhead_s=1.0) for kind in kinds)
    >>> float(shared_fraction([own, own, own, shared]))
    0.25
    """
    return total_s(part for part in prefill if part.kind in _SHARED) / total_s(prefill)


#: Operations whose weights one pass reads once for its prompts and its decodes.
_OF_WEIGHTS = (
    OperationKind.ATTENTION_PROJECTIONS,
    OperationKind.DENSE_MLP,
    OperationKind.ROUTED_EXPERTS,
    OperationKind.OUTPUT_HEAD,
)
#: Launches that a prompt does not add: those of the decode step that it joins, and those that the host makes ahead of
#: the GPU while decodes keep it busy.
_NOT_ADDED = (OperationKind.LAUNCH_FLOORS, OperationKind.EAGER_LAUNCHES, OperationKind.ADAPTER_KERNELS)


def added_s(prompts: Sequence[Operation], decode: Sequence[Operation], overlap_fraction: Num) -> Num:
    """What prompts add to the decode step that they join: ``max(c_p + c_d, m_p, m_d)`` for the products of both.

    Parameters
    ----------
    prompts, decode : sequence of Operation
        Of a pass over prompts alone, and of the decode step alone.
    overlap_fraction : float or ndarray
        Share of the shorter of computing and moving that is hidden [-].

    Returns
    -------
    float or ndarray
        Beside the decode step [s].

    Examples
    --------
    >>> from computeledger.physics.roofline import OperationKind
    >>> one = {"kind": OperationKind.DENSE_MLP, "flop_per_s": 1.0, "bytes_per_s": 1.0, "bytes": 3.0}
    >>> [float(added_s([Operation(flop=work, **one)], [Operation(flop=1.0, **one)], 1.0)) for work in (2.0, 4.0)]
    [0.0, 2.0]
    """
    products = {one.kind: one for one in decode if one.kind in _OF_WEIGHTS}
    further = [one for one in prompts if one.kind not in products and one.kind not in _NOT_ADDED]
    added_s, exposed_fraction = total_s(further), 1 - overlap_fraction
    is_exposed = np.any(exposed_fraction)
    for one in prompts:
        beside = products.get(one.kind)
        if beside is None:
            continue
        compute_s, memory_s = beside.compute_s, beside.memory_s
        computed_s, moved_s = compute_s + one.compute_s, np.maximum(memory_s, one.memory_s)
        added_s = added_s + (np.maximum(computed_s, moved_s) - np.maximum(compute_s, memory_s))
        if is_exposed:
            more_s = np.minimum(computed_s, moved_s) - np.minimum(compute_s, memory_s)
            added_s = added_s + exposed_fraction * more_s
    return added_s
