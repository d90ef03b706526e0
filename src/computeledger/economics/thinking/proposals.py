"""A base model proposes several answers and a reasoner selects one: success, and what both read and write."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from computeledger.economics.thinking.budget import shipped_lengths
from computeledger.economics.thinking.choice import Level, Way, ends_of, error_widths
from computeledger.economics.thinking.samples import selected_right, selector_errors

SELECTED = "selected"


@dataclass(frozen=True, slots=True)
class Selector:
    """How a model that selects errs.

    Attributes
    ----------
    false_accept, low, high : float
        Share of wrong proposals that it accepts, and the ends of its 90 % interval [-].
    """

    false_accept: float
    low: float
    high: float


def published_selector() -> Selector:
    """Errors that explain published selections by process reward models on MATH-500.

    Examples
    --------
    >>> found = published_selector()
    >>> 0 <= found.low < found.false_accept < found.high < 0.2
    True
    """
    low, median, high = np.quantile([error for _, error in selector_errors()], [0.05, 0.5, 0.95])
    return Selector(float(median), float(low), float(high))


def proposals_of(level: Level, max_samples: int, selector: Selector) -> Iterator[Way]:
    """Every count of proposals of one model, drawn side by side, each read by the selector.

    Parameters
    ----------
    level : Level
        The model that proposes.
    max_samples : int
        Proposals at most; powers of two are compared [-].
    selector : Selector
        How it errs.

    Yields
    ------
    Way
        With its success and the proposer's tokens.
    """
    alike = level.likeness.correlation
    for place in range(1, 1 + int(math.log2(max_samples))):
        samples = 2**place
        success = selected_right(level.success, alike, samples, selector.false_accept)
        ends = [selected_right(one, alike, samples, selector.false_accept) for one in ends_of(level)]
        errs = [selected_right(level.success, alike, samples, one) for one in (selector.high, selector.low)]
        missed = error_widths()["tries"]
        wait = shipped_lengths().longest_tokens(samples, math.inf, level.natural_tokens)
        yield Way(
            level, math.inf, samples, SELECTED, success,
            max(0.0, success - math.hypot(success - ends[0], success - errs[0], missed)),
            min(1.0, success + math.hypot(ends[1] - success, errs[1] - success, missed)),
            level.natural_tokens, float(samples), wait,
        )  # fmt: skip
