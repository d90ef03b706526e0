"""Errors of predicted ratios of two offers: pairs of measured deployments, and the law fitted to them.

The pairs are those of the shipped table of accuracy: predictions with the model, or with the source, left out. Two of
one model in one pair of hands differ in chip, engine or format, as offers of one buyer do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from computeledger.validation.accuracy.table import NEW_PAIR, published
from computeledger.workloads.serving.margins import student_2_cdf
from computeledger.workloads.serving.offers import OfferErrors

Array = NDArray[np.float64]
_POINT = re.compile(r"_agg_(\d+)x(\d+)_.*?c(\d+)")
_FORMAT = re.compile(r"_(?:nv)?(fp4|fp8|bf16)(?=_)")


@dataclass(frozen=True, slots=True)
class OfferPairs:
    """Pairs of deployments.

    Attributes
    ----------
    left_out : tuple of str
        Whose pair it is: what is left out together with it.
    differs : ndarray
        1 or 0 for chip, engine and format, a row for each pair [-].
    log_error : ndarray
        Logarithm of the measured over the predicted ratio [-].
    weight : ndarray
        Of each pair in a fit and in a share [-].
    """

    left_out: tuple[str, ...]
    differs: Array
    log_error: Array
    weight: Array

    def chosen(self, kept: Callable[[str], bool]) -> OfferPairs:
        """Pairs of those that are kept.

        Examples
        --------
        >>> OfferPairs(("a", "b"), np.eye(2, 3), np.ones(2), np.ones(2)).chosen(lambda one: one == "b").left_out
        ('b',)
        """
        mask = np.array([kept(one) for one in self.left_out])
        names = tuple(one for one in self.left_out if kept(one))
        return OfferPairs(names, self.differs[mask], self.log_error[mask], self.weight[mask])


def recipe_pairs() -> OfferPairs:
    """Pairs of public recipes at one load; each two deployments of a model weigh as one, whatever loads were measured.

    Examples
    --------
    >>> recipe_pairs().differs.shape[1]
    3
    """
    points: dict[tuple[str, ...], dict[tuple[str, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in published("serving", "recipe").promised(NEW_PAIR).rows:
        found = _POINT.search(row["id"])
        if row["quantity"] != "tpot" or found is None:
            continue
        formats = _FORMAT.findall(row["id"].partition("_agg_")[0] + "_")
        deployed = (row["accelerator"], row["engine"], formats[-1] if formats else "")
        points[row["model"], *found.groups()][deployed].append(_log_error(row))
    return _pairs(((key[0], (key[0],), of) for key, of in points.items()), lambda n: 1 / n)


def usual_pairs() -> OfferPairs:
    """Pairs that one source measured of one model; a source weighs as the root of its pairs.

    Examples
    --------
    >>> set(usual_pairs().differs[:, 2].tolist())
    {0.0}
    """
    points: dict[tuple[str, ...], dict[tuple[str, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in published("serving", "usual").rows:
        is_rate = "tokens_per_s" in row["quantity"]
        if row["load"] != "burst" and (is_rate or row["quantity"] == "tpot"):
            error = -_log_error(row) if is_rate else _log_error(row)
            points[row["source"], row["model"]][row["accelerator"], row["engine"], ""].append(error)
    return _pairs(((key[0], (), of) for key, of in points.items()), lambda n: n**-0.5)


def _log_error(row: Mapping[str, str]) -> float:
    return float(np.log(float(row["measured"]) / float(row["p50"])))


def _pairs(
    groups: Iterable[tuple[str, tuple[str, ...], Mapping[tuple[str, ...], Sequence[float]]]],
    weigh: Callable[[int], float],
) -> OfferPairs:
    """Every two deployments of a group, at the medians of their errors."""
    found = []
    for name, alike, of in groups:
        middle = {deployed: float(np.median(errors)) for deployed, errors in of.items()}
        for one, other in combinations(sorted(middle), 2):
            same = (name, *alike, *((one, other) if alike else ()))
            differs = [float(mine != theirs) for mine, theirs in zip(one, other, strict=True)]
            found.append((name, same, differs, middle[one] - middle[other]))
    counts = Counter(same for _, same, _, _ in found)
    return OfferPairs(
        tuple(name for name, _, _, _ in found),
        np.array([differs for _, _, differs, _ in found]),
        np.array([error for _, _, _, error in found]),
        np.array([weigh(counts[same]) for _, same, _, _ in found]),
    )


def fit_offer_errors(pairs: OfferPairs) -> OfferErrors:
    """Fit the law of the scale by maximum likelihood, errors taken as Student's t with two degrees of freedom.

    What never differs among the pairs has a square of 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> differs = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]] * 1000)
    >>> errors = np.sqrt(differs @ [0.04, 0.01, 0.0]) * rng.standard_t(2, 3000)
    >>> found = fit_offer_errors(OfferPairs(("a",) * 3000, differs, errors, np.ones(3000)))
    >>> abs(found.chip_square / 0.04 - 1) < 0.2, abs(found.engine_square / 0.01 - 1) < 0.2, found.format_square
    (True, True, 0.0)
    """
    seen = np.flatnonzero(pairs.differs.any(axis=0))
    differs, centre, width = pairs.differs[:, seen], np.log(np.full(len(seen), 0.02)), 3.0

    def misfit(logs: Sequence[float]) -> float:
        square = differs @ np.exp(logs)
        return float(pairs.weight @ (0.5 * np.log(square) + 1.5 * np.log1p(np.square(pairs.log_error) / square / 2)))

    while width > 0.01:
        steps = [np.linspace(middle - width, middle + width, 5) for middle in centre]
        centre = np.array(min(product(*steps), key=misfit))
        width /= 2
    squares = np.zeros(pairs.differs.shape[1])
    squares[seen] = np.exp(centre)
    return OfferErrors(*squares.tolist())


def offer_coverage(pairs: OfferPairs, level: float, errors: OfferErrors | None = None) -> float:
    """Share of measured ratios inside the interval that the law gives them; without a law each left out of its fit.

    Examples
    --------
    >>> pairs = OfferPairs(("a", "b"), np.eye(2, 3), np.array([0.0, 9.0]), np.ones(2))
    >>> offer_coverage(pairs, 0.9, OfferErrors(0.01, 0.01, 0.1))
    0.5
    """
    if errors is None:
        parts = [
            (pairs.chosen(lambda one, name=name: one == name), pairs.chosen(lambda one, name=name: one != name))  # type: ignore[misc]
            for name in dict.fromkeys(pairs.left_out)
        ]
        shares = [offer_coverage(own, level, fit_offer_errors(rest)) for own, rest in parts]
        return float(np.average(shares, weights=[own.weight.sum() for own, _ in parts]))
    scale = np.sqrt(np.asarray(errors.square(pairs.differs), float))
    inside = 2 * np.asarray(student_2_cdf(np.abs(pairs.log_error) / scale)) - 1 <= level
    return float(np.average(inside, weights=pairs.weight))
