"""A reward and a rule of positions of one's own: a recipe beside this file names them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rntp.corpus import Chunk
from rntp.recipe import PositionSpec
from rntp.reward import GoldScores, RewardOptions


def capped_gain(scores: GoldScores, options: RewardOptions) -> NDArray[np.float64]:
    """Log-likelihood gain of each thought in nats, no token counting for more than the recipe allows."""
    gain = np.minimum(scores.log_probs - scores.baseline_log_probs, options.own.get("most", 2.0))
    return np.asarray(np.where(scores.mask, gain, 0.0).sum(axis=1))


def every_equals_sign(chunk: Chunk, spec: PositionSpec, generator: np.random.Generator) -> NDArray[np.int64]:
    """Think wherever an equals sign has just been read."""
    del spec, generator  # it draws nothing
    signs = [place for place, letter in enumerate(chunk.text) if letter == "="]
    return np.searchsorted(np.array(chunk.starts), signs, side="right")
