"""Rewards of a thought by how well the model then predicts what follows, and the advantages made of them.

Pure functions over arrays of per-token scores, which ``rntp.scoring`` (or another engine) measures. Rows are thoughts,
columns the tokens of the gold continuation. Scores are taken at temperature 1, each with the gold before it as input:
the model's greedy continuation and the predictions held here agree up to and including the first wrong token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
from numpy.typing import NDArray

from computeledger.errors import ComputeLedgerError, InputError, nearest, shown
from rntp import plugins
from rntp.plugins import check_call, resolve, said
from rntp.recipe import RewardSpec

Floats = NDArray[np.float64]
ADVANTAGES = ("group-mean", "leave-one-out")
SCALES = ("none", "batch-std", "group-std")
TRUNCATIONS = ("worst", "drop", "keep")


@dataclass(frozen=True, slots=True)
class GoldScores:
    """What was measured on the gold continuation of each thought; B thoughts, L tokens.

    Attributes
    ----------
    gold_ids : NDArray[np.int64]
        Tokens that follow in the text, right-padded, (B, L) [-].
    log_probs : NDArray[np.float64]
        Natural log-probability of each gold token given context, thought and the gold before it, (B, L) [-].
    baseline_log_probs : NDArray[np.float64]
        The same without a thought, equal within a group, (B, L) [-].
    entropies : NDArray[np.float64]
        Entropy in nats of the prediction without a thought: a thought cannot move its own weights, (B, L) [-].
    argmax_ids : NDArray[np.int64]
        Most likely token at each place given the thought, (B, L) [-].
    mask : NDArray[np.bool_]
        Which gold tokens count: one run per row, after the tokens left out at the start and before the padding, (B, L).
    decode : callable or None
        Text of a row of token ids; needed by rewards that compare text.
    self_evaluation : NDArray[np.float64] or None
        Probability with which the model says that its thought helps, (B,) [-].
    """

    gold_ids: NDArray[np.int64]
    log_probs: Floats
    baseline_log_probs: Floats
    entropies: Floats
    argmax_ids: NDArray[np.int64]
    mask: NDArray[np.bool_]
    decode: Callable[[Sequence[int]], str] | None = None
    self_evaluation: Floats | None = None


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """What a reward may be told.

    Attributes
    ----------
    k : int
        Gold tokens looked at, from the first that counts; 0 for all.
    per_token : bool
        Whether likelihoods are averaged over tokens rather than added up or multiplied: long continuations then
        weigh as much as short ones.
    entropy_power : float
        Exponent of the entropy that weighs a token's gain [-].
    own : mapping
        Settings of somebody's own reward, as the recipe gives them (``[reward] options``).
    """

    k: int = 0
    per_token: bool = False
    entropy_power: float = 1.0
    own: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: RewardSpec) -> RewardOptions:
        """Take them from a recipe.

        Parameters
        ----------
        spec : RewardSpec
            Its table.

        Returns
        -------
        RewardOptions
            With the settings of somebody's own reward.

        Examples
        --------
        >>> RewardOptions.of(RewardSpec(k=2, options={"most": 1.0})).own["most"]
        1.0
        """
        return cls(spec.k, spec.per_token, spec.entropy_power, spec.options)


def scored_mask(lengths: Sequence[int], skip_first: int = 1) -> NDArray[np.bool_]:
    """Mark the gold tokens that count.

    The first token is left out by default: in text that was also read without thoughts, part of its probability goes
    to starting a thought, which an empty thought already wins back.

    Parameters
    ----------
    lengths : sequence of int
        Gold tokens of each row.
    skip_first : int
        Tokens left out at the start [-].

    Returns
    -------
    NDArray[np.bool_]
        One row each, as wide as the longest.

    Examples
    --------
    >>> scored_mask([3, 2]).tolist()
    [[False, True, True], [False, True, False]]
    """
    places = np.arange(max(lengths, default=0))
    return np.asarray((places >= skip_first) & (places < np.asarray(lengths)[:, None]))


def _first(scores: GoldScores, options: RewardOptions) -> NDArray[np.bool_]:
    """The mask, cut after k tokens."""
    return scores.mask & ((np.cumsum(scores.mask, axis=1) <= options.k) | (options.k == 0))


def _sum(values: Floats, mask: NDArray[np.bool_], options: RewardOptions) -> Floats:
    """Sum over the tokens that count, or their mean."""
    count = np.maximum(mask.sum(axis=1), 1) if options.per_token else 1
    return np.asarray(np.where(mask, values, 0.0).sum(axis=1) / count)


def _prefix(scores: GoldScores, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Tokens predicted right before the first wrong one."""
    wrong = (scores.argmax_ids != scores.gold_ids) & mask
    return np.asarray((mask & (np.cumsum(wrong, axis=1) == 0)).sum(axis=1))


def _share(counts: NDArray[np.int64], mask: NDArray[np.bool_]) -> Floats:
    return np.asarray(counts / np.maximum(mask.sum(axis=1), 1))


def _decoder(scores: GoldScores) -> Callable[[Sequence[int]], str]:
    if scores.decode is None:
        raise InputError("this reward compares text: scores with decode are needed")
    return scores.decode


def _log_likelihood_gain(scores: GoldScores, options: RewardOptions) -> Floats:
    """Sum of log p(gold | thought) - log p(gold), in nats."""
    return _sum(scores.log_probs - scores.baseline_log_probs, _first(scores, options), options)


def _probability(scores: GoldScores, options: RewardOptions) -> Floats:
    """exp(sum of log p): bounded, so that a bad miss costs no more than a small one; per token the mean of p."""
    mask = _first(scores, options)
    if options.per_token:
        return _sum(np.exp(scores.log_probs), mask, options)
    return np.asarray(np.exp(_sum(scores.log_probs, mask, options)))


def _first_token(scores: GoldScores, options: RewardOptions) -> Floats:
    """1 where the first token that counts is the most likely one."""
    del options
    return _token_accuracy(scores, RewardOptions(k=1))


def _exact_prefix(scores: GoldScores, options: RewardOptions) -> Floats:
    """Share of the gold that greedy continuation gets right before its first mistake."""
    mask = _first(scores, options)
    return _share(_prefix(scores, mask), mask)


def _token_boundary_prefix(scores: GoldScores, options: RewardOptions) -> Floats:
    """The same by text: what is cut into other tokens counts where it ends with a gold token, not within one.

    With ``k=1`` this is the binary rule of reinforcement pre-training, for a prediction of one token.
    """
    decode, mask = _decoder(scores), _first(scores, options)
    reached = _prefix(scores, mask)
    for row, count in enumerate(reached):
        gold, guesses = (ids[row][scores.mask[row]].tolist() for ids in (scores.gold_ids, scores.argmax_ids))
        if count < mask[row].sum():
            guess = decode([*gold[:count], guesses[count]])
            ends = [end for end in range(count + 1, len(gold) + 1) if decode(gold[:end]) == guess]
            reached[row] = min(max(ends, default=count), int(mask[row].sum()))
    return _share(reached, mask)


def _token_accuracy(scores: GoldScores, options: RewardOptions) -> Floats:
    """Share of gold tokens that are the most likely ones."""
    mask = _first(scores, options)
    return _share(np.asarray(((scores.argmax_ids == scores.gold_ids) & mask).sum(axis=1)), mask)


def _similarity(scores: GoldScores, options: RewardOptions, measure: Callable[[str, str], float]) -> Floats:
    """Likeness of the text of the most likely tokens and the gold's, from sacrebleu's percent."""
    decode, mask = _decoder(scores), _first(scores, options)
    rows = zip(scores.argmax_ids, scores.gold_ids, mask, strict=True)
    return np.array([measure(decode(guess[m].tolist()), decode(gold[m].tolist())) / 100 for guess, gold, m in rows])


def _bleu(guess: str, gold: str) -> float:
    return float(sacrebleu.sentence_bleu(guess, [gold], use_effective_order=True).score)


def _chrf(guess: str, gold: str) -> float:
    return float(sacrebleu.sentence_chrf(guess, [gold]).score)


def _entropy_weighted_gain(scores: GoldScores, options: RewardOptions) -> Floats:
    """The gain with weights H_t**power over their mean: what was uncertain without a thought weighs more."""
    mask = _first(scores, options)
    weights = np.where(mask, np.maximum(scores.entropies, 0.0) ** options.entropy_power, 0.0)
    mean = weights.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    weights = np.divide(weights, mean, out=np.ones_like(weights), where=mean > 0)
    return _sum(weights * (scores.log_probs - scores.baseline_log_probs), mask, options)


def _self_evaluation(scores: GoldScores, options: RewardOptions) -> Floats:
    """The model's own word: probability of yes against no, asked after thought and gold."""
    del options
    if scores.self_evaluation is None:
        raise InputError("reward 'self-evaluation': scores with the model's own answer are needed")
    return scores.self_evaluation


Reward = Callable[[GoldScores, RewardOptions], Floats]
#: name -> from scores and options to one number per thought
REWARDS: dict[str, Reward] = {
    "log-likelihood-gain": _log_likelihood_gain,
    "probability": _probability,
    "first-token": _first_token,
    "exact-prefix": _exact_prefix,
    "token-boundary-prefix": _token_boundary_prefix,
    "token-accuracy": _token_accuracy,
    "similarity-bleu": lambda scores, options: _similarity(scores, options, _bleu),
    "similarity-chrf": lambda scores, options: _similarity(scores, options, _chrf),
    "entropy-weighted-gain": _entropy_weighted_gain,
    "self-evaluation": _self_evaluation,
}


def reward_named(name: str, folder: Path = Path()) -> Reward:
    """Find a reward.

    Parameters
    ----------
    name : str
        One of ``REWARDS``, or a function of somebody's own as :mod:`rntp.plugins` finds it.
    folder : Path
        The recipe's, where files are looked for.

    Returns
    -------
    callable
        From scores and options to one number per thought; of somebody's own it is checked that they are.

    Examples
    --------
    >>> reward_named("log-likelihood")
    Traceback (most recent call last):
    computeledger.errors.InputError: unknown reward 'log-likelihood': did you mean 'log-likelihood-gain'? ...FUNCTION
    """
    function: Callable[..., Any] = resolve(plugins.REWARDS, name, folder, REWARDS)
    if name in REWARDS:
        return REWARDS[name]
    check_call(plugins.REWARDS, name, function, "scores", "options")

    def reward(scores: GoldScores, options: RewardOptions) -> Floats:
        try:
            values = np.asarray(function(scores, options), dtype=np.float64)
        except ComputeLedgerError:
            raise
        except Exception as error:  # whatever somebody else's code does
            raise InputError(f"reward {shown(name)}: {said(error)}") from error
        if values.shape != (count := len(scores.gold_ids),):
            raise InputError(
                f"reward {shown(name)}: gave an array of shape {values.shape}: one number for each of {count} thoughts "
                f"is needed, shape ({count},)"
            )
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"reward {shown(name)}: gave {values[row]} for thought {row}: a finite number is needed")
        return values

    return reward


def try_reward(name: str, folder: Path, options: RewardOptions, gold_tokens: int) -> None:
    """Call a reward of somebody's own once, on scores that are made up: what is wrong with it shows before training.

    Parameters
    ----------
    name : str
        Of the reward; one that ships is not tried.
    folder : Path
        The recipe's.
    options : RewardOptions
        The recipe's.
    gold_tokens : int
        Length of the continuations [token].

    Examples
    --------
    >>> try_reward("math:hypot", Path(), RewardOptions(), 4)
    Traceback (most recent call last):
    computeledger.errors.InputError: reward 'math:hypot': TypeError: must be real number, not GoldScores ...
    """
    reward = reward_named(name, folder)
    if name in REWARDS:
        return
    chance, shape = np.random.default_rng(0), (4, gold_tokens)
    log_probs, baseline = -chance.exponential(size=(2, *shape))
    ids, guesses = chance.integers(0, 9, size=(2, *shape))
    mask = scored_mask([gold_tokens, gold_tokens, gold_tokens, max(gold_tokens - 1, 1)], min(1, gold_tokens - 1))
    reward(GoldScores(ids, log_probs, baseline, -baseline, guesses, mask, lambda row: " ".join(map(str, row))), options)


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


def _scaled(values: Floats, known: NDArray[np.bool_], axis: int) -> Floats:
    """Divide by the root mean square of what is known."""
    count = np.maximum(known.sum(axis=axis, keepdims=True), 1)
    size = np.sqrt((values**2).sum(axis=axis, keepdims=True) / count)
    return np.asarray(np.divide(values, size, out=np.zeros_like(values), where=size > 0))
