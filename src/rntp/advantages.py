"""Advantages of thoughts: what is a thought worth beside the others of its group, and which groups teach nothing.

Pure functions over arrays of rewards, group after group; a missing reward is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError, nearest, shown
from rntp.reward import Floats

ADVANTAGES = ("group-mean", "leave-one-out")
SCALES = ("none", "batch-std", "group-std")
TRUNCATIONS = ("worst", "drop", "keep")


def with_truncation(
    rewards: Floats, unaided: Floats, truncated: NDArray[np.bool_], group_size: int, rule: str = "worst"
) -> Floats:
    """Settle what a thought is worth that reached its budget and never ended.

    ``worst``: no more than the worst of its group, nor than no thought at all. ``drop``: nothing, NaN. ``keep``: what
    was measured with the end written for it.

    Parameters
    ----------
    rewards : NDArray[np.float64]
        Group after group [-].
    unaided : NDArray[np.float64]
        Reward without a thought; NaN where there is none [-].
    truncated : NDArray[np.bool_]
        Which thoughts never ended.
    group_size : int
        Thoughts per prompt [-].
    rule : str
        One of ``TRUNCATIONS``.

    Returns
    -------
    NDArray[np.float64]
        One per thought [-].

    Examples
    --------
    >>> with_truncation(np.array([2.0, -1.0, 3.0]), np.zeros(3), np.array([False, False, True]), 3).tolist()
    [2.0, -1.0, -1.0]
    """
    if rule not in TRUNCATIONS:
        raise InputError(f"unknown truncation {shown(rule)}: {nearest(rule, TRUNCATIONS)}")
    if rule == "keep":
        return rewards
    if rule == "drop":
        return np.where(truncated, np.nan, rewards)
    worst = np.fmin.reduce(rewards.reshape(-1, group_size), axis=1).repeat(group_size)
    return np.where(truncated & ~np.isnan(rewards), np.fmin(worst, unaided), rewards)


def without_idle_groups(
    rewards: Floats, unaided: Floats, group_size: int, min_spread: float = 0.0, min_gain: float = -np.inf
) -> Floats:
    """Leave groups out that teach nothing: rewards hardly differ, or no thought of theirs beats no thought by enough.

    Parameters
    ----------
    rewards : NDArray[np.float64]
        Group after group; NaN where there is none [-].
    unaided : NDArray[np.float64]
        Reward without a thought; NaN, as for verified answers, asks for no gain [-].
    group_size : int
        Thoughts per prompt [-].
    min_spread : float
        Least standard deviation of a group's rewards [-].
    min_gain : float
        Least gain over no thought of a group's best [-].

    Returns
    -------
    NDArray[np.float64]
        The rewards, NaN in groups left out [-].

    Examples
    --------
    >>> without_idle_groups(np.array([1.0, 3.0, 0.1, 0.2]), np.zeros(4), 2, min_gain=0.5).tolist()
    [1.0, 3.0, nan, nan]
    """
    grouped = rewards.reshape(-1, group_size)
    count = np.maximum((~np.isnan(grouped)).sum(axis=1, keepdims=True), 1)
    offset = np.where(np.isnan(grouped), 0.0, grouped - np.nansum(grouped, axis=1, keepdims=True) / count)
    spread = np.sqrt((offset**2).sum(axis=1) / count[:, 0])
    best = np.fmax.reduce(grouped - unaided.reshape(-1, group_size), axis=1)
    out = (spread < min_spread) | (best < min_gain)
    return np.where(out.repeat(group_size), np.nan, rewards)


def why_idle(settled: Floats, truncated: NDArray[np.bool_], group_size: int) -> str:
    """Say why no thought of a step is worth more than the others of its group, and what to change.

    Parameters
    ----------
    settled : NDArray[np.float64]
        Rewards before groups are left out, group after group; NaN where there is none [-].
    truncated : NDArray[np.bool_]
        Which thoughts never ended.
    group_size : int
        Thoughts per prompt [-].

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> why_idle(np.zeros(4), np.zeros(4, dtype=bool), 2)
    "the thoughts of each group have the same reward; a larger [rl] group_size, ... make rewards differ"
    """
    if truncated.all():
        return "every thought reached [thought] budget before it ended; a larger budget lets thoughts end"
    grouped = settled.reshape(-1, group_size)
    if np.isnan(settled).all():
        return "no thought has a reward; [thought] truncation and what verifies answers say why"
    if (np.fmax.reduce(grouped, axis=1) > np.fmin.reduce(grouped, axis=1)).any():
        return "every group was left out; a lower [rl] min_spread or min_gain lets groups in"
    return (
        "the thoughts of each group have the same reward; a larger [rl] group_size, a higher temperature, easier "
        "positions or tasks, or a reward of degrees such as 'log-likelihood-gain' make rewards differ"
    )


def advantages(
    rewards: Floats,
    group_size: int,
    kind: str = "leave-one-out",
    scale: str = "batch-std",
    sources: Sequence[str] | None = None,
) -> Floats:
    """Compare each reward with its group.

    ``group-mean``: r - mean. ``leave-one-out``: r minus the mean of the others, G/(G-1) times that. What is constant in
    a group cancels, the likelihood without a thought included. A missing reward (NaN) counts for nothing and has
    advantage 0.

    Parameters
    ----------
    rewards : NDArray[np.float64]
        Group after group; NaN where there is none [-].
    group_size : int
        Thoughts per prompt, at least 2 [-].
    kind : str
        One of ``ADVANTAGES``.
    scale : str
        ``batch-std``: divided by their root mean square over the batch; ``group-std``: over the group; ``none``.
    sources : sequence of str, optional
        Where each reward comes from: with ``batch-std`` every source, whose unit is its own, has its own scale.

    Returns
    -------
    NDArray[np.float64]
        One per reward [-].

    Examples
    --------
    >>> advantages(np.array([1.0, 3.0, 5.0, 5.0]), 2, scale="none").tolist()
    [-2.0, 2.0, 0.0, 0.0]
    """
    if kind not in ADVANTAGES:
        raise InputError(f"unknown advantage {shown(kind)}: {nearest(kind, ADVANTAGES)}")
    if scale not in SCALES:
        raise InputError(f"unknown scale {shown(scale)}: {nearest(scale, SCALES)}")
    if group_size < 2 or rewards.size % group_size:
        raise InputError(f"group size {group_size} for {rewards.size} rewards: whole groups of at least 2 are needed")
    grouped = rewards.reshape(-1, group_size)
    known = ~np.isnan(grouped)
    values = np.where(known, grouped, 0.0)
    count = known.sum(axis=1, keepdims=True)
    centred = np.where(known, values - values.sum(axis=1, keepdims=True) / np.maximum(count, 1), 0.0)
    if kind == "leave-one-out":
        centred = centred * np.where(count > 1, count / np.maximum(count - 1, 1), 0.0)
    # a group whose rewards are equal but for rounding teaches nothing, and must not be blown up
    same = np.ptp(np.where(known, values, np.nan_to_num(values.max(axis=1, keepdims=True))), axis=1) < 1e-9
    centred[same] = 0.0
    if scale == "none":
        return np.asarray(centred.reshape(-1))
    if scale == "group-std":
        return np.asarray(_scaled(centred, known, axis=1).reshape(-1))
    out = np.zeros(rewards.size)
    names = np.asarray(sources if sources is not None else [""] * rewards.size)
    for name in sorted(set(names.tolist())):
        rows = names == name
        out[rows] = _scaled(centred.reshape(-1)[rows], known.reshape(-1)[rows], axis=0)
    return out


@dataclass(frozen=True, slots=True)
class Comparison:
    """How thoughts are compared.

    Attributes
    ----------
    group_size : int
        Thoughts per prompt, at least 2 [-].
    kind : str
        One of ``ADVANTAGES``.
    scale : str
        One of ``SCALES``.
    truncation : str
        One of ``TRUNCATIONS``.
    """

    group_size: int
    kind: str = "group-mean"
    scale: str = "batch-std"
    truncation: str = "worst"


def token_advantages(
    tokens: Floats, unaided: Floats, truncated: NDArray[np.bool_], how: Comparison, sources: Sequence[str]
) -> Floats:
    """Compare thoughts token by token of the continuation: each with the same token behind the group's other thoughts.

    Every token is centred and scaled on its own, as rewards of whole thoughts are by :func:`advantages`; a thought's
    advantage is the mean over its tokens, which is scaled once more, so that updates are as large. Without a scale that
    is the advantage of the mean over tokens: both are linear.

    Parameters
    ----------
    tokens : NDArray[np.float64]
        What each token adds, group after group; NaN where none counts, or the thought is left out, (B, L) [-].
    unaided : NDArray[np.float64]
        The same without a thought, (B, L) [-].
    truncated : NDArray[np.bool_]
        Which thoughts never ended.
    how : Comparison
        Groups, centre, scale, and what a thought is worth that never ended.
    sources : sequence of str
        Where each thought comes from.

    Returns
    -------
    NDArray[np.float64]
        One per thought, 0 where no token counts [-].

    Examples
    --------
    >>> tokens, cut = np.array([[1.0, 30.0], [3.0, 10.0]]), np.zeros(2, dtype=bool)
    >>> token_advantages(tokens, np.zeros((2, 2)), cut, Comparison(2, scale="none"), ["text"] * 2).tolist()
    [4.5, -4.5]
    >>> token_advantages(tokens, np.zeros((2, 2)), cut, Comparison(2, scale="group-std"), ["text"] * 2).tolist()
    [0.0, 0.0]
    """
    out = np.full(tokens.shape, np.nan)
    for place in range(tokens.shape[1]):
        settled = with_truncation(tokens[:, place], unaided[:, place], truncated, how.group_size, how.truncation)
        made = advantages(settled, how.group_size, how.kind, how.scale, sources)
        out[:, place] = np.where(np.isnan(settled), np.nan, made)
    count = (~np.isnan(out)).sum(axis=1)
    mean = np.where(count > 0, np.nansum(out, axis=1) / np.maximum(count, 1), np.nan)
    return advantages(mean, how.group_size, "group-mean", how.scale, sources)


def _scaled(values: Floats, known: NDArray[np.bool_], axis: int) -> Floats:
    """Divide by the root mean square of what is known."""
    count = np.maximum(known.sum(axis=axis, keepdims=True), 1)
    size = np.sqrt((values**2).sum(axis=axis, keepdims=True) / count)
    return np.asarray(np.divide(values, size, out=np.zeros_like(values), where=size > 0))
