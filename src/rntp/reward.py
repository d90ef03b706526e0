"""Rewards of a thought by how well the model then predicts what follows.

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

from computeledger.errors import ComputeLedgerError, InputError, shown
from rntp import plugins
from rntp.recipe import RewardSpec

Floats = NDArray[np.float64]


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


def _token_gain(scores: GoldScores, options: RewardOptions) -> Floats:
    """Of each token log p(gold | thought) - log p(gold), in nats."""
    del options
    return scores.log_probs - scores.baseline_log_probs


def _log_likelihood_gain(scores: GoldScores, options: RewardOptions) -> Floats:
    """Sum of log p(gold | thought) - log p(gold), in nats."""
    return _sum(_token_gain(scores, options), _first(scores, options), options)


def _token_probability(scores: GoldScores, options: RewardOptions) -> Floats:
    """Probability of each token."""
    del options
    return np.exp(scores.log_probs)


def _probability(scores: GoldScores, options: RewardOptions) -> Floats:
    """exp(sum of log p): bounded, so that a bad miss costs no more than a small one; per token the mean of p."""
    mask = _first(scores, options)
    if options.per_token:
        return _sum(_token_probability(scores, options), mask, options)
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


def _token_right(scores: GoldScores, options: RewardOptions) -> Floats:
    """1 for each token that is the most likely one."""
    del options
    return np.asarray(scores.argmax_ids == scores.gold_ids, dtype=np.float64)


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


def _token_weighted_gain(scores: GoldScores, options: RewardOptions) -> Floats:
    """The gain of each token with weights H_t**power over their mean."""
    mask = _first(scores, options)
    weights = np.where(mask, np.maximum(scores.entropies, 0.0) ** options.entropy_power, 0.0)
    mean = weights.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    weights = np.divide(weights, mean, out=np.ones_like(weights), where=mean > 0)
    return np.asarray(weights * _token_gain(scores, options))


def _entropy_weighted_gain(scores: GoldScores, options: RewardOptions) -> Floats:
    """The gain with weights H_t**power over their mean: what was uncertain without a thought weighs more."""
    return _sum(_token_weighted_gain(scores, options), _first(scores, options), options)


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


#: name -> from scores and options to one number per thought and token
TOKEN_REWARDS: dict[str, Reward] = {
    "log-likelihood-gain": _token_gain,
    "probability": _token_probability,
    "token-accuracy": _token_right,
    "entropy-weighted-gain": _token_weighted_gain,
}


def reward_named(name: str, folder: Path = Path(), *, by_token: bool = False) -> Reward:
    """Find a reward.

    Parameters
    ----------
    name : str
        One of ``REWARDS``, or a function of somebody's own as :mod:`rntp.plugins` finds it.
    folder : Path
        The recipe's, where files are looked for.
    by_token : bool
        Whether one number per token is wanted: of ``TOKEN_REWARDS``, or of a function that gives as many.

    Returns
    -------
    callable
        From scores and options to one number per thought, or per thought and token; of a function of somebody's own it
        is checked that they are.

    Examples
    --------
    >>> reward_named("log-likelihood")
    Traceback (most recent call last):
    computeledger.errors.InputError: unknown reward 'log-likelihood': did you mean 'log-likelihood-gain'? ...FUNCTION
    """
    function: Callable[..., Any] = plugins.resolve(plugins.REWARDS, name, folder, REWARDS)
    if name in REWARDS:
        if by_token and name not in TOKEN_REWARDS:
            raise InputError(
                f"reward {shown(name)}: is one number for a whole thought; by token: {', '.join(TOKEN_REWARDS)}"
            )
        return (TOKEN_REWARDS if by_token else REWARDS)[name]
    plugins.check_call(plugins.REWARDS, name, function, "scores", "options")

    def reward(scores: GoldScores, options: RewardOptions) -> Floats:
        try:
            values = np.asarray(function(scores, options), dtype=np.float64)
        except ComputeLedgerError:
            raise
        except Exception as error:  # whatever somebody else's code does
            raise InputError(f"reward {shown(name)}: {plugins.said(error)}") from error
        _check(name, values, scores, by_token=by_token)
        return values

    return reward


def _check(name: str, values: Floats, scores: GoldScores, *, by_token: bool) -> None:
    """Refuse what is not one finite number for each thought, or for each token that counts."""
    count, width = scores.gold_ids.shape
    if values.shape != ((count, width) if by_token else (count,)):
        each = f"each of {count} thoughts and {width} tokens" if by_token else f"each of {count} thoughts"
        shape = f"({count}, {width})" if by_token else f"({count},)"
        raise InputError(
            f"reward {shown(name)}: gave an array of shape {values.shape}: one number for {each} is needed, shape "
            f"{shape}"
        )
    wrong = ~np.isfinite(values) & (scores.mask if by_token else True)
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise InputError(f"reward {shown(name)}: gave {values[wrong][0]} for thought {row}: a finite number is needed")


@dataclass(frozen=True, slots=True)
class Rewarded:
    """What thoughts are worth.

    Attributes
    ----------
    values : NDArray[np.float64]
        One number per thought, (B,) [-].
    tokens : NDArray[np.float64] or None
        What each token of the continuation adds to it, where that is asked for; NaN where none counts, (B, L) [-].
    """

    values: Floats
    tokens: Floats | None = None

    def less(self, costs: Floats, *, per_token: bool) -> Rewarded:
        """Take costs off, spread evenly over a thought's tokens.

        Parameters
        ----------
        costs : NDArray[np.float64]
            One per thought [-].
        per_token : bool
            Whether a value is the mean of its tokens, not their sum.

        Returns
        -------
        Rewarded
            The rest.

        Examples
        --------
        >>> Rewarded(np.array([3.0]), np.array([[1.0, 2.0]])).less(np.array([1.0]), per_token=False).tokens.tolist()
        [[0.5, 1.5]]
        """
        if self.tokens is None:
            return Rewarded(self.values - costs)
        count = 1 if per_token else np.maximum((~np.isnan(self.tokens)).sum(axis=1), 1)
        return Rewarded(self.values - costs, self.tokens - (costs / count)[:, None])


@dataclass(frozen=True, slots=True)
class Rewarder:
    """The reward of a recipe.

    Attributes
    ----------
    reward : callable
        As :func:`reward_named` finds it.
    options : RewardOptions
        What it is told.
    by_token : bool
        Whether it gives one number per token.
    """

    reward: Reward
    options: RewardOptions
    by_token: bool

    @classmethod
    def of(cls, spec: RewardSpec, folder: Path = Path()) -> Rewarder:
        """Find the reward that a recipe names.

        Parameters
        ----------
        spec : RewardSpec
            Its table.
        folder : Path
            The recipe's, where files are looked for.

        Returns
        -------
        Rewarder
            To be called.

        Examples
        --------
        >>> Rewarder.of(RewardSpec(credit="token")).by_token
        True
        """
        by_token = spec.credit == "token"
        return cls(reward_named(spec.name, folder, by_token=by_token), RewardOptions.of(spec), by_token)

    def __call__(self, scores: GoldScores) -> Rewarded:
        """Say what thoughts are worth.

        Parameters
        ----------
        scores : GoldScores
            What was measured.

        Returns
        -------
        Rewarded
            By token, where the recipe asks for that.
        """
        given = self.reward(scores, self.options)
        if not self.by_token:
            return Rewarded(given)
        mask = _first(scores, self.options)
        return Rewarded(_sum(given, mask, self.options), np.where(mask, given, np.nan))


def try_reward(spec: RewardSpec, folder: Path, gold_tokens: int) -> None:
    """Call a reward of somebody's own once, on scores that are made up: what is wrong with it shows before training.

    Parameters
    ----------
    spec : RewardSpec
        Its table; a reward that ships is not tried.
    folder : Path
        The recipe's.
    gold_tokens : int
        Length of the continuations [token].

    Examples
    --------
    >>> try_reward(RewardSpec("math:hypot"), Path(), 4)
    Traceback (most recent call last):
    computeledger.errors.InputError: reward 'math:hypot': TypeError: must be real number, not GoldScores ...
    """
    found = Rewarder.of(spec, folder)
    if spec.name in REWARDS:
        return
    chance, shape = np.random.default_rng(0), (4, gold_tokens)
    log_probs, baseline = -chance.exponential(size=(2, *shape))
    ids, guesses = chance.integers(0, 9, size=(2, *shape))
    mask = scored_mask([gold_tokens, gold_tokens, gold_tokens, max(gold_tokens - 1, 1)], min(1, gold_tokens - 1))
    found(GoldScores(ids, log_probs, baseline, -baseline, guesses, mask, lambda row: " ".join(map(str, row))))
