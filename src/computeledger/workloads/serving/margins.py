"""Are the winners of a search really different? Errors that neighbours share cancel; what is left has been measured.

The error of a predicted ratio of two options of one deployment grows with how far apart their layouts and batches are,
and levels off where they have nothing in common but the deployment:
``s^2 = v (1 - exp(-(a |layout| + b |log2 batch|) / v))``. Its tails are those of Student's t with two degrees of
freedom.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import FactError
from computeledger.physics.parallelism import Layout
from computeledger.workloads.serving.search import ServingOption

#: A rival that is better with more than this probability cannot be told from the winner (assumption).
DISTINGUISHABLE = 0.1
#: Beyond this many scales the probability is 0 or 1 to all digits.
_FAR = 1e8
_DEGREES = ("tp", "pp", "dp", "ep")


@dataclass(frozen=True, slots=True)
class NeighbourErrors:
    """Error of a predicted ratio of two neighbours, as the square of its scale in the logarithm.

    Attributes
    ----------
    layout_square : float
        Per doubling or halving of a degree of the layout, ``a`` [-].
    batch_square : float
        Per doubling of the batch, ``b`` [-].
    far_square : float
        Of options that share nothing but the deployment, ``v`` [-].
    """

    layout_square: float
    batch_square: float
    far_square: float

    def scale(self, layout_doublings: Num, batch_doublings: Num) -> Num:
        """Scale of the error of the logarithm of a ratio.

        Parameters
        ----------
        layout_doublings, batch_doublings : float or ndarray
            How far apart the two are [-].

        Returns
        -------
        float or ndarray
            0 for the same option [-].
        """
        apart = self.layout_square * layout_doublings + self.batch_square * batch_doublings
        return np.sqrt(self.far_square * -np.expm1(-apart / self.far_square))


@functools.cache
def load_neighbour_errors() -> NeighbourErrors:
    """Load the calibration of throughput and time per output token.

    Returns
    -------
    NeighbourErrors
        From ``serving/residuals.toml``.

    Raises
    ------
    FactError
        An entry without its data, residual or date.

    Examples
    --------
    >>> errors = load_neighbour_errors()
    >>> bool(0.02 < errors.scale(0.0, 1.0) < errors.scale(1.0, 1.0) < 0.2)
    True
    """
    text = resources.files("computeledger.workloads.serving").joinpath("residuals.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)
    names = [field.name for field in fields(NeighbourErrors)]
    missing = [name for name in (*names, "data", "residual", "date") if name not in table]
    if missing:
        raise FactError(f"serving/residuals.toml: {', '.join(missing)} missing")
    return NeighbourErrors(*(float(table[name]) for name in names))


def layout_doublings(one: Layout, other: Layout) -> float:
    """How far apart two layouts are: doublings and halvings of their degrees.

    Parameters
    ----------
    one, other : Layout
        Integer degrees.

    Returns
    -------
    float
        Sum over tp, pp, dp and ep [-].

    Examples
    --------
    >>> layout_doublings(Layout(tp=8, ep=8), Layout(tp=4, dp=2, ep=8))
    2.0
    """
    ratios = [float(getattr(one, name)) / float(getattr(other, name)) for name in _DEGREES]
    return float(np.sum(np.abs(np.log2(ratios))))


def student_2_cdf(x: Num) -> Num:
    """Distribution function of Student's t with two degrees of freedom, ``1/2 + x / (2 sqrt(2 + x^2))``.

    Parameters
    ----------
    x : float or ndarray
        Difference over its scale [-].

    Returns
    -------
    float or ndarray
        Probability [-].

    Examples
    --------
    >>> round(float(student_2_cdf(2.91999)), 4), float(student_2_cdf(0.0))
    (0.95, 0.5)
    """
    far = np.clip(x, -_FAR, _FAR)
    share: Num = 0.5 + far / (2 * np.sqrt(2 + np.square(far)))
    return share


def better_probability(
    winner: ServingOption, rivals: Sequence[ServingOption], errors: NeighbourErrors | None = None
) -> NDArray[np.float64]:
    """Probability that each rival has in truth the greater throughput per GPU.

    Parameters
    ----------
    winner : ServingOption
        The option in question.
    rivals : sequence of ServingOption
        Others of the same search.
    errors : NeighbourErrors, optional
        Of predicted ratios; the shipped calibration when left out.

    Returns
    -------
    ndarray
        One per rival; 1/2 for the winner itself [-].

    Examples
    --------
    >>> winner, near, far = (
    ...     ServingOption(Layout(tp=tp), 64, 0.02, 1.0, rate, 1.0, 1.0, 1.0)
    ...     for tp, rate in ((8, 100.0), (4, 98.0), (1, 40.0))
    ... )
    >>> close, clear = better_probability(winner, [near, far])
    >>> bool(0.3 < close < 0.5), bool(clear < 0.05)
    (True, True)
    """
    known = errors or load_neighbour_errors()
    layouts = np.array([layout_doublings(winner.layout, one.layout) for one in rivals])
    batches = np.abs(np.log2([one.batch / winner.batch for one in rivals]))
    ahead = np.log([one.output_tokens_per_s_per_gpu / winner.output_tokens_per_s_per_gpu for one in rivals])
    scale = np.maximum(known.scale(layouts, batches), 1e-12)
    return np.asarray(student_2_cdf(ahead / scale), float)


@dataclass(frozen=True, slots=True)
class Rival:
    """The best option of another layout.

    Attributes
    ----------
    option : ServingOption
        Its layout and batch.
    throughput_ratio : float
        Its throughput per GPU over the winner's, as predicted [-].
    better_probability : float
        That it is in truth the greater one [-].
    """

    option: ServingOption
    throughput_ratio: float
    better_probability: float


def rivals_of(winner: ServingOption, options: Sequence[ServingOption]) -> list[Rival]:
    """Compare a winner with the best option of every other layout.

    Parameters
    ----------
    winner : ServingOption
        The option in question.
    options : sequence of ServingOption
        Those that meet the same limits.

    Returns
    -------
    list of Rival
        Likeliest to be better first.

    Examples
    --------
    >>> one, two = (ServingOption(Layout(tp=tp), 64, 0.02, 1.0, 90.0 + tp, 1.0, 1.0, 1.0) for tp in (4, 8))
    >>> [str(rival.option.layout) for rival in rivals_of(two, [one, two])]
    ['tp4']
    """
    best: dict[str, ServingOption] = {}
    for one in options:
        known = best.get(str(one.layout))
        if known is None or one.output_tokens_per_s_per_gpu > known.output_tokens_per_s_per_gpu:
            best[str(one.layout)] = one
    best.pop(str(winner.layout), None)
    others = list(best.values())
    chances = better_probability(winner, others) if others else np.empty(0)
    found = [
        Rival(one, one.output_tokens_per_s_per_gpu / winner.output_tokens_per_s_per_gpu, float(chance))
        for one, chance in zip(others, chances, strict=True)
    ]
    return sorted(found, key=lambda rival: -rival.better_probability)
