"""Size that ability implies: open models of known size, regressed on their ability and date.

Ability at a date tells how many parameters a model stores, and not how many it multiplies per token: those of open
models have hardly moved while their ability rose, so their mean predicts a left-out model as well.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.economics.prices.points import conformal_half_width, open_models
from computeledger.economics.quality.ability import Scale, shipped_scale
from computeledger.economics.quality.evaluations import Floats, evaluated_models, version_of
from computeledger.economics.quality.value import years_between

#: Day from which years are counted: any would do.
_FROM = "2024-01-01"
_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class SizedModels:
    """Open models of known size with their best ability, one row a version.

    Attributes
    ----------
    open_model : tuple of str
        Weights that the version has: versions of the same are left out together.
    ability, years : ndarray
        Ability, and release as years from 2024 [year].
    log10_active, log10_total : ndarray
        Parameters multiplied per token and stored, as powers of ten [-].
    """

    open_model: tuple[str, ...]
    ability: Floats
    years: Floats
    log10_active: Floats
    log10_total: Floats


@dataclass(frozen=True, slots=True)
class SizeByAbility:
    """Logarithm of the size as a line in ability and date, and how far left-out models lie from it.

    Attributes
    ----------
    constant, per_ability, per_year : float
        As powers of ten [-].
    half_width : float
        Half the 90 % interval that left-out models keep, as powers of ten [-].
    median_error_ratio, mean_error_ratio : float
        Error of half of the left-out models: of the line, and of the mean size of the others [-].
    strongest : float
        Ability of the strongest open model; beyond it the line is drawn on.
    n_models : int
        Open models.
    """

    constant: float
    per_ability: float
    per_year: float
    half_width: float
    median_error_ratio: float
    mean_error_ratio: float
    strongest: float
    n_models: int

    def params(self, ability: float, released: str) -> tuple[float, float, float]:
        """Parameters of an open model that strong at that date: p05, median, p95 [params].

        Parameters
        ----------
        ability : float
            Log-odds of GPQA diamond above guessing [-].
        released : str
            ISO.

        Returns
        -------
        tuple of float
            Parameters [params].
        """
        log10 = self.constant + self.per_ability * ability + self.per_year * years_between(_FROM, released)
        low, median, high = (float(10.0 ** (log10 + side * self.half_width)) for side in (-1, 0, 1))
        return low, median, high


def sized_models(scale: Scale) -> SizedModels:
    """Versions of open models whose size was read at a source, each at the effort at which it is strongest.

    Examples
    --------
    >>> found = sized_models(shipped_scale())
    >>> len(found.ability) >= 25 and len(set(found.open_model)) >= 20
    True
    """
    best: dict[str, float] = {}
    for place, name in enumerate(scale.names):
        version = version_of()[name][0]
        if evaluated_models()[version].open_model:
            best[version] = max(float(scale.ability[place]), best.get(version, -np.inf))
    models = [evaluated_models()[version] for version in best]
    sizes = [open_models()[one.open_model] for one in models]
    return SizedModels(
        tuple(one.open_model for one in models),
        np.array(list(best.values())),
        np.array([years_between(_FROM, one.released) for one in models]),
        np.log10([one.n_params_active for one in sizes]),
        np.log10([one.n_params_total for one in sizes]),
    )


def fit_size(models: SizedModels, log10_size: Floats) -> SizeByAbility:
    """Fit a size to ability and date; the interval is what each left-out model, with all its versions, keeps.

    Parameters
    ----------
    models : SizedModels
        Abilities and dates.
    log10_size : ndarray
        ``log10_active`` or ``log10_total`` of them [-].

    Returns
    -------
    SizeByAbility
        The line and its errors.

    References
    ----------
    epoch-benchmark-runs.

    Examples
    --------
    >>> models = sized_models(shipped_scale())
    >>> total = fit_size(models, models.log10_total)
    >>> total.per_ability > 0 > total.per_year and total.median_error_ratio < 0.8 * total.mean_error_ratio
    True
    """
    design = np.column_stack([np.ones(len(models.ability)), models.ability, models.years])
    errors, plain = (
        _left_out(models.open_model, design, log10_size),
        _left_out(models.open_model, design[:, :1], log10_size),
    )
    constant, per_ability, per_year = np.linalg.lstsq(design, log10_size, rcond=None)[0]
    return SizeByAbility(
        float(constant), float(per_ability), float(per_year), float(conformal_half_width(errors, _LEVEL)),
        float(10.0 ** np.median(np.abs(errors))), float(10.0 ** np.median(np.abs(plain))),
        float(models.ability.max()), len(set(models.open_model)),
    )  # fmt: skip


def _left_out(names: Sequence[str], design: Floats, target: Floats) -> Floats:
    """Errors on each model from a line through the others."""
    group = np.array(names)
    errors = np.zeros(len(target))
    for name in set(names):
        out = group == name
        line = np.linalg.lstsq(design[~out], target[~out], rcond=None)[0]
        errors[out] = target[out] - design[out] @ line
    return errors


@functools.cache
def shipped_sizes_by_ability() -> tuple[SizeByAbility, SizeByAbility]:
    """Active and total parameters by ability, from the shipped evaluations and sizes.

    Examples
    --------
    >>> active, total = shipped_sizes_by_ability()
    >>> total.mean_error_ratio > 3 > active.mean_error_ratio
    True
    """
    models = sized_models(shipped_scale())
    return fit_size(models, models.log10_active), fit_size(models, models.log10_total)
