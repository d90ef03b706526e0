"""A reward of somebody's own that is the shipped one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rntp.reward import GoldScores, RewardOptions


def gain(scores: GoldScores, options: RewardOptions) -> NDArray[np.float64]:
    """Log-likelihood gain in nats."""
    assert not options.own
    return np.asarray(np.where(scores.mask, scores.log_probs - scores.baseline_log_probs, 0.0).sum(axis=1))


def token_gain(scores: GoldScores, options: RewardOptions) -> NDArray[np.float64]:
    """The same of each token."""
    del options
    return scores.log_probs - scores.baseline_log_probs
