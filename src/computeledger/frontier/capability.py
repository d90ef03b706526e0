"""Benchmark scores as a clue to training FLOP: one index of capability, and its law in FLOP and date.

Scores become an ability on the project's own scale, the ability Epoch's Capabilities Index (ECI), and the index follows
``ECI = a + b ln(FLOP) + g year`` on open models of known FLOP. The scatter is that of whole developers left out.
"""

from __future__ import annotations

import csv
import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.quality.ability import Scale, shipped_scale
from computeledger.economics.quality.evaluations import GUESS_FRACTION, version_of
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.catalog import shipped_file
from computeledger.frontier.trends import year_of

Floats = NDArray[np.float64]

#: Name of the index among scores; a day and FLOP that the law counts from.
INDEX = "eci"
YEAR_0, FLOP_0 = 2025.0, 1e24
#: Standard error of an index that is stated (assumption: Epoch's intervals of well-tested models are about as wide).
_INDEX_ERROR = 1.0
#: Values that an index may have: GPT-4 of 2023 has 126, GPT-5 150.
INDEX_RANGE = (50.0, 220.0)
#: Abilities at which scores are weighed, and the standard deviation supposed before them (as in the scale's own fit).
_ABILITIES = np.linspace(-9.0, 9.0, 721)
_ABILITY_SPREAD = 3.0
#: Versions whose ability is known better than this tie the scale to the index [-].
_KNOWN = 0.3
#: Models trained on code alone are no general models.
_CODE = re.compile(r"code|starcoder", re.IGNORECASE)
_EFFORT = re.compile(r"_(?:x?high|medium|low|none|minimal|max|\d+K)$")


@dataclass(frozen=True, slots=True)
class Rated:
    """A version of a model with its capability index; FLOP where Epoch estimates it."""

    name: str
    version: str
    organization: str
    released: str
    index: float
    is_open: bool
    training_flop: float | None
    confidence: str
    open_model: str


@functools.cache
def rated_models() -> tuple[Rated, ...]:
    """Models with a capability index, by day of release.

    References
    ----------
    epoch-capabilities-index.

    Examples
    --------
    >>> [(one.version, one.index) for one in rated_models() if one.name == "GPT-4 (Mar 2023)"]
    [('gpt-4-0314', 125.82)]
    """
    rows = csv.DictReader(shipped_file("frontier", "capabilities.csv").read_text("utf-8").splitlines())
    return tuple(
        Rated(
            row["name"], row["version"], row["organization"], row["released"], float(row["eci"]),
            row["weights"] == "open", float(row["training_flop"]) if row["training_flop"] else None,
            row["confidence"], row["open_model"],
        )
        for row in rows
    )  # fmt: skip


def rated_index(open_model: str) -> float | None:
    """Index of an open model of the catalog; None where it has none.

    Examples
    --------
    >>> rated_index("DeepSeek-V3"), rated_index("OLMo-3-7B")
    (133.03, None)
    """
    return next((one.index for one in rated_models() if one.open_model == open_model), None)


@dataclass(frozen=True, slots=True)
class CapabilityLaw:
    """Capability as a plane in the logarithm of training FLOP and the date.

    Attributes
    ----------
    constant, per_log_flop, per_year : float
        Index at 1e24 FLOP in 2025, per factor e of FLOP, per year at the same FLOP [-].
    spread : float
        Root mean square of what developers that were left out lie off the plane [-].
    n_models, n_developers : int
        It stands on.
    """

    constant: float
    per_log_flop: float
    per_year: float
    spread: float
    n_models: int
    n_developers: int


def known_flop() -> tuple[Rated, ...]:
    """General open models whose FLOP follows from what was published, each name once.

    Examples
    --------
    >>> len(known_flop()) >= 55
    True
    """
    out: dict[str, Rated] = {}
    for one in rated_models():
        if one.is_open and one.training_flop and one.confidence != "Speculative" and not _CODE.search(one.name):
            out.setdefault(one.name, one)
    return tuple(out.values())


@functools.cache
def fitted_capability(without: frozenset[str] = frozenset()) -> CapabilityLaw:
    """Fit the law; every model of a developer of which one is left out is left out too.

    Parameters
    ----------
    without : frozenset of str
        Open models of the catalog.

    Returns
    -------
    CapabilityLaw
        Three constants and the scatter of developers left out.

    Examples
    --------
    >>> law = fitted_capability()
    >>> law.per_log_flop > 0 < law.per_year and 4.0 < law.spread < 7.0
    True
    """
    away = {one.organization for one in rated_models() if one.open_model in without and one.open_model}
    models = [one for one in known_flop() if one.organization not in away]
    design, index = _design(models), np.array([one.index for one in models])
    developers = np.array([one.organization for one in models])
    off = np.zeros(len(models))
    for name in set(developers):
        out = developers == name
        off[out] = index[out] - design[out] @ np.linalg.lstsq(design[~out], index[~out], rcond=None)[0]
    constant, per_log_flop, per_year = np.linalg.lstsq(design, index, rcond=None)[0]
    spread = math.sqrt(float(np.mean(off**2)))
    return CapabilityLaw(
        float(constant), float(per_log_flop), float(per_year), spread, len(models), len(set(developers.tolist()))
    )


def _design(models: Iterable[Rated]) -> Floats:
    rows = [(1.0, math.log((one.training_flop or 1.0) / FLOP_0), year_of(one.released) - YEAR_0) for one in models]
    return np.array(rows)


@functools.cache
def _index_of_ability() -> tuple[float, float, float]:
    """Index at ability 0, per ability, and the scatter: versions that Epoch rates and the project's scale knows."""
    scale = shipped_scale()
    rated = {_EFFORT.sub("", one.version.rpartition("/")[2]): one.index for one in rated_models()}
    best: dict[str, tuple[float, float]] = {}
    for name, ability, error in zip(scale.names, scale.ability.tolist(), scale.error.tolist(), strict=True):
        version = version_of()[name][0]
        if version in rated and error < _KNOWN:
            best[version] = max((ability, rated[version]), best.get(version, (-math.inf, 0.0)))
    ability, index = np.array(list(best.values())).T
    slope, constant = np.polyfit(ability, index, 1)
    return float(constant), float(slope), float((index - constant - slope * ability).std(ddof=2))


def ability_of(scores: Mapping[str, float], scale: Scale | None = None) -> tuple[float, float]:
    """Ability that scores imply, and its standard error: the scale's law, weighed over a grid of abilities.

    Parameters
    ----------
    scores : mapping of str to float
        Share of right answers by benchmark [-].
    scale : Scale, optional
        The shipped one when left out.

    Returns
    -------
    tuple of float
        In log-odds of GPQA diamond above guessing [-].

    Examples
    --------
    >>> strong, weak = (ability_of({"gpqa-diamond": share})[0] for share in (0.8, 0.4))
    >>> strong > weak
    True
    >>> ability_of({"gpqa-diamond": 0.8, "otis-mock-aime": 0.7})[1] < ability_of({"gpqa-diamond": 0.8})[1]
    True
    """
    known = scale or shipped_scale()
    log_weight = -0.5 * (_ABILITIES / _ABILITY_SPREAD) ** 2
    for name, share in scores.items():
        law = np.array([known.score(float(one), name) for one in _ABILITIES])
        log_weight -= 0.5 * ((share - law) / known.scatter) ** 2
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = float(weight @ _ABILITIES)
    return mean, math.sqrt(float(weight @ (_ABILITIES - mean) ** 2))


def index_of(scores: Mapping[str, float]) -> tuple[float, float]:
    """Capability index that scores imply, or that is stated, and its standard error.

    Parameters
    ----------
    scores : mapping of str to float
        Shares of right answers by benchmark, or ``eci`` alone [-].

    Returns
    -------
    tuple of float
        On Epoch's scale [-].

    Examples
    --------
    >>> index_of({"eci": 130.0})
    (130.0, 1.0)
    >>> found, error = index_of({"gpqa-diamond": 0.442, "math-level-5": 0.367})  # Llama 3.1 70B: 125.4
    >>> abs(found - 125.4) < 2 * error < 8
    True
    """
    if INDEX in scores:
        return scores[INDEX], _INDEX_ERROR
    constant, slope, scatter = _index_of_ability()
    ability, error = ability_of(scores)
    return constant + slope * ability, math.hypot(slope * error, scatter)


def read_scores(text: str) -> dict[str, float]:
    """Scores by benchmark as shares, or the index.

    Examples
    --------
    >>> read_scores("gpqa-diamond=59%, otis-mock-aime=0.16"), read_scores("eci=133")
    ({'gpqa-diamond': 0.59, 'otis-mock-aime': 0.16}, {'eci': 133.0})
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, value = _read_score(part.strip())
        if name in found:
            raise InputError(f"--score: {name} is given twice")
        found[name] = value
    if INDEX in found and len(found) > 1:
        raise InputError(f"--score: {INDEX} already joins benchmarks; give it alone, or benchmarks alone")
    return found


def _read_score(text: str) -> tuple[str, float]:
    name, _, said = (one.strip() for one in text.lower().partition("="))
    where = f"--score {shown(text)}"
    if name != INDEX and name not in GUESS_FRACTION:
        raise InputError(f"{where}: {nearest(name, [*GUESS_FRACTION, INDEX])}")
    try:
        value = float(said.removesuffix("%")) / (100.0 if said.endswith("%") else 1.0)
    except ValueError:
        raise InputError(f"{where}: write NAME=VALUE, such as gpqa-diamond=59% or eci=133") from None
    low, high = INDEX_RANGE if name == INDEX else (0.0, 1.0)
    if not low <= value <= high:
        allowed = f"{low:g} to {high:g}" if name == INDEX else "0 to 100% (or 0 to 1)"
        raise InputError(f"{where}: allowed: {allowed}")
    return name, value
