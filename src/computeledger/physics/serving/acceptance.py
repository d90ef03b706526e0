"""Chances that drafted tokens are accepted, fitted to what is published of each method and model.

Two numbers describe a curve of tokens per step over the length of the draft: the chance of the first draft, and the
ratio of each further one to the one before. The ratio is a method's (the median over its curves); the chance is that
of a model and its texts, whose spread is the interval.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range
from computeledger.facts.speculation import AcceptanceCurve, load_acceptance
from computeledger.physics.serving.drafting import Acceptance, acceptance_of

#: Chances and ratios that are tried, and what a curve must have for a ratio of its own.
_FIRST, _RATIOS, _FEWEST = np.linspace(0.02, 0.99, 98), np.linspace(0.7, 1.1, 41), 3
#: Chances of a method that few have measured stay this far apart at least, as odds (assumption).
_LEAST_SPREAD = 0.35
#: Ratio of a method without a long curve, of drafts that are as good as the first (assumption).
_WITHOUT_CURVE = 1.0


@dataclass(frozen=True, slots=True)
class PublishedAcceptance:
    """What is known of a method on a model.

    Attributes
    ----------
    first : Range
        Chance that the first draft is accepted, over models and texts [-].
    ratio : float
        Of each further draft over the one before [-].
    n_curves : int
        Published curves that it rests on [-].
    is_own_model : bool
        Whether they are of the model asked about.
    sources : tuple of str
        Their keys.
    residual_fraction : float
        Root mean square of predicted over published tokens per step of the method's curves, less one [-].
    """

    first: Range
    ratio: float
    n_curves: int
    is_own_model: bool
    sources: tuple[str, ...]
    residual_fraction: float

    @property
    def at_median(self) -> Acceptance:
        """The chances at the median of the first."""
        return Acceptance(float(self.first.quantile(0.0)), self.ratio)


def fitted_curve(curve: AcceptanceCurve) -> tuple[Acceptance, float]:
    """Chances that come nearest to a curve, and the root mean square that is left of it.

    Parameters
    ----------
    curve : AcceptanceCurve
        Published.

    Returns
    -------
    tuple of Acceptance and float
        The residual as a fraction of tokens per step [-].

    Examples
    --------
    >>> curve = next(one for one in load_acceptance() if one.source == "vllm-issue-20780" and one.method == "eagle3")
    >>> found, left = fitted_curve(curve)
    >>> round(float(found.first), 2), round(found.ratio, 2), left < 0.01
    (0.77, 0.98, True)
    """
    tried = Acceptance(_FIRST[:, None, None], _RATIOS[None, :, None])
    errors = np.asarray(tried.tokens_of_step(np.array(curve.draft_tokens, float))) / curve.tokens_per_step - 1
    left = np.sqrt(np.mean(errors**2, axis=-1))
    row, column = np.unravel_index(np.argmin(left), left.shape)
    return Acceptance(float(_FIRST[row]), float(_RATIOS[column])), float(left[row, column])


@functools.cache
def _ratio_of(curves: tuple[AcceptanceCurve, ...]) -> float:
    """The median ratio of curves that are long enough to tell one."""
    ratios = [fitted_curve(one)[0].ratio for one in curves if len(one.draft_tokens) >= _FEWEST]
    return float(np.median(np.asarray(ratios))) if ratios else _WITHOUT_CURVE


def _first_chances(curves: Sequence[AcceptanceCurve], ratio: float) -> NDArray[np.float64]:
    """Chance of the first draft that each curve implies at a ratio, the mean over its lengths."""
    drafts = np.concatenate([np.array(one.draft_tokens, float) for one in curves])
    tokens = np.concatenate([np.array(one.tokens_per_step) for one in curves])
    every = np.asarray(acceptance_of(tokens, drafts, ratio).first)
    ends = np.cumsum([len(one.draft_tokens) for one in curves])
    return np.array([float(np.mean(part)) for part in np.split(every, ends[:-1])])


@functools.cache
def published_acceptance(method: str, model: str, without: str = "") -> PublishedAcceptance:
    """What is published of a method on a model: of the model itself, else of all that the method was tried on.

    Parameters
    ----------
    method : str
        ``mtp``, ``eagle``, ``eagle3``, ``ngram`` or ``draft``.
    model : str
        Id of the model that verifies.
    without : str
        Key of a source that is left out, to see how well the others tell it.

    Returns
    -------
    PublishedAcceptance
        With the interval of models and texts.

    Examples
    --------
    >>> found = published_acceptance("eagle3", "meta-llama/Llama-3.1-8B-Instruct")
    >>> found.is_own_model, 0.6 < found.at_median.first < 0.8, found.ratio
    (True, True, 0.97)
    """
    curves = tuple(one for one in load_acceptance() if one.method == method and one.source != without)
    ratio, family = _ratio_of(curves), model.rpartition("/")[2].lower()
    own = [one for one in curves if _is_same_family(one.family, family)]
    used = own or list(curves)
    chances = _first_chances(used, ratio)
    spread = _logit_spread(chances, _spread_of_sources(curves, ratio), bool(own))
    errors = [
        np.asarray(Acceptance(float(chance), ratio).tokens_of_step(np.array(one.draft_tokens, float)))
        / one.tokens_per_step - 1
        for one, chance in zip(curves, _first_chances(curves, ratio), strict=True)
    ]  # fmt: skip
    return PublishedAcceptance(
        first=_range(float(np.median(chances)), spread),
        ratio=ratio,
        n_curves=len(used),
        is_own_model=bool(own),
        sources=tuple(sorted({one.source for one in used})),
        residual_fraction=float(np.sqrt(np.mean(np.square(np.concatenate(errors))))),
    )


def _is_same_family(published: str, asked: str) -> bool:
    """Whether two names are of the same model, with or without what it was tuned to."""
    return _bare(published) == _bare(asked)


def _bare(name: str) -> str:
    words = name.removeprefix("meta-").split("-")
    return "-".join(one for one in words if one not in _TUNED)


#: Parts of a name that say how a model was tuned or stored.
_TUNED = frozenset({"instruct", "it", "chat", "fp8", "nvfp4", "bf16", "base", "2507", "0528", "0324"})


def _logits(curves: Sequence[AcceptanceCurve], ratio: float) -> NDArray[np.float64]:
    """Chances of first drafts as logarithms of odds."""
    chances = _first_chances(curves, ratio)
    return np.asarray(np.log(chances / (1 - chances)))


@functools.cache
def _spread_of_sources(curves: tuple[AcceptanceCurve, ...], ratio: float) -> float:
    """How far whole sources lie from the median of the others: what holds all but one in twenty of their curves."""
    misses: list[float] = []
    for source in {one.source for one in curves}:
        others = [one for one in curves if one.source != source]
        if others:
            here = _logits([one for one in curves if one.source == source], ratio)
            misses += np.abs(here - np.median(_logits(others, ratio))).tolist()
    return float(np.quantile(misses, 0.95, method="higher")) / Z_95 if misses else _LEAST_SPREAD


def _logit_spread(own: NDArray[np.float64], of_sources: float, is_own_model: bool) -> float:
    """Standard deviation as odds: of a model's own texts, no less than half of that of models nobody measured."""
    if not is_own_model or len(own) == 1:
        return max(of_sources, _LEAST_SPREAD)
    return max(float(np.std(np.log(own / (1 - own)), ddof=1)), of_sources / 2, _LEAST_SPREAD)


def _range(median: float, spread: float) -> Range:
    """The 90 % interval around a chance."""
    middle = math.log(median / (1 - median))
    low, high = (1 / (1 + math.exp(-(middle + sign * Z_95 * spread))) for sign in (-1, 1))
    return Range(low, high, bounded=True)
