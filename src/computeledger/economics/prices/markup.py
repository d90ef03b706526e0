"""What open models are sold at over what they cost to serve: mean and covariance of both prices' logarithms.

Which chip, precision, speed and occupancy stand behind a price is not known, so a sheet's likelihood is the mean over
draws of all of them; mean and covariance are those that make the sheets of open models likeliest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.economics.prices.physics import Served, Supposed
from computeledger.economics.prices.points import PricePoints, SizeFit

Floats = NDArray[np.float64]

#: Rounds of expectation and maximisation: means and spreads move by less than 0.05 after that.
_ROUNDS = 60
#: Least standard deviation of a price's logarithm (assumption): one provider's sheets of one model differ by as much.
_LEAST_SPREAD = 0.2
#: Input tokens for each output token in a margin (assumption).
INPUT_PER_OUTPUT = 3.0


@dataclass(frozen=True, slots=True)
class Markup:
    """Logarithm of price over cost of open models.

    Attributes
    ----------
    mean : ndarray
        Of input and of output price [-].
    covariance : ndarray
        Of both [-].
    n_sheets : int
        Sheets that it was fitted on [-].
    """

    mean: Floats
    covariance: Floats
    n_sheets: int

    def log_likelihood(self, ratios: Floats, price: str = "both") -> Floats:
        """How likely prices are at given costs.

        Parameters
        ----------
        ratios : ndarray
            Logarithms of price over cost, input and output in the last axis [-].
        price : str
            ``input``, ``output`` or ``both``.

        Returns
        -------
        ndarray
            Up to a constant [-].

        Examples
        --------
        >>> markup = Markup(np.zeros(2), np.eye(2), 1)
        >>> float(markup.log_likelihood(np.array([1.0, 2.0]), "output"))
        -2.0
        """
        apart = ratios - self.mean
        if price == "both":
            return np.asarray(-0.5 * ((apart @ np.linalg.inv(self.covariance)) * apart).sum(axis=-1), float)
        one = ("input", "output").index(price)
        return np.asarray(-0.5 * apart[..., one] ** 2 / self.covariance[one, one], float)


def log_ratios(log_prices: Floats, served: Served) -> Floats:
    """Logarithms of price over cost.

    Parameters
    ----------
    log_prices : ndarray
        Logarithms of input and output price in the last axis, in USD per million tokens.
    served : Served
        Costs.

    Returns
    -------
    ndarray
        Input and output in the last axis; not a number where nothing is served [-].

    Examples
    --------
    >>> one = np.ones(1)
    >>> served = Served(np.array([True]), one, one, one, one, 2 * one, one, one, one)
    >>> log_ratios(np.log([[4.0, 1.0]]), served).round(3).tolist()
    [[0.693, 0.0]]
    """
    costs = np.stack([served.usd_per_mtok_input, served.usd_per_mtok_output], axis=-1)
    return np.asarray(log_prices - np.log(np.where(served.fits[:, None], costs, math.nan)), float)


def gross_margin_fraction(prices: tuple[Num, Num], served: Served) -> Floats:
    """Price less cost over price, at three input tokens for each output token.

    Parameters
    ----------
    prices : tuple of float or ndarray
        Input and output [USD/Mtok].
    served : Served
        Costs.

    Returns
    -------
    ndarray
        One per sample [-].

    Examples
    --------
    >>> one = np.ones(1)
    >>> served = Served(np.array([True]), one, one, one, one, 1 * one, 3 * one, one, one)
    >>> gross_margin_fraction((2.0, 6.0), served).tolist()
    [0.5]
    """
    cost = INPUT_PER_OUTPUT * served.usd_per_mtok_input + served.usd_per_mtok_output
    return np.asarray(1 - cost / (INPUT_PER_OUTPUT * prices[0] + prices[1]), float)


def adjusted(points: PricePoints, fit: SizeFit) -> Floats:
    """Log prices, what each provider charges above the others taken off.

    Parameters
    ----------
    points : PricePoints
        Sheets.
    fit : SizeFit
        Whose provider effects are taken off.

    Returns
    -------
    ndarray
        Input and output in the last axis.

    Examples
    --------
    >>> from computeledger.economics.prices.points import one_sheet
    >>> fit = SizeFit(np.zeros(3), np.zeros(3), {"dear": (math.log(2.0), math.log(4.0))})
    >>> np.exp(adjusted(one_sheet("dear", 2.0, 4.0), fit)).round(6).tolist()
    [[1.0, 1.0]]
    """
    effects = np.array([fit.provider_effects.get(name, (0.0, 0.0)) for name in points.provider.tolist()])
    return np.asarray(np.column_stack([points.log_input, points.log_output]) - effects, float)


def known_models(points: PricePoints, kv: Floats, n_each: int) -> tuple[NDArray[np.str_], Supposed]:
    """Each priced model, several times over, as what is served.

    Parameters
    ----------
    points : PricePoints
        Sheets of models of known size.
    kv : ndarray
        Cache of open models, drawn from in turn [byte/token].
    n_each : int
        Draws of each model [-].

    Returns
    -------
    tuple of ndarray and Supposed
        Names, and models in that order, each ``n_each`` times.

    Examples
    --------
    >>> from computeledger.economics.prices.points import shipped_points
    >>> names, models = known_models(shipped_points(), np.array([70e3]), 2)
    >>> len(names), len(models.n_params_active)
    (75, 150)
    """
    names, first = np.unique(points.model, return_index=True)
    active, total = (np.repeat(np.exp(values[first]), n_each) for values in (points.log_active, points.log_total))
    return names, Supposed(active, total, np.resize(kv, len(active)))


def fit_markup(points: PricePoints, fit: SizeFit, names: NDArray[np.str_], served: Served) -> Markup:
    """Mean and covariance of log price over cost, from the sheets of models of known size.

    Every model counts once, whatever the number of its sheets.

    Parameters
    ----------
    points : PricePoints
        Sheets.
    fit : SizeFit
        Whose provider effects are taken off.
    names : ndarray
        Models in the order of ``served``.
    served : Served
        As many draws of each model.

    Returns
    -------
    Markup
        Fitted.

    Examples
    --------
    >>> from computeledger.economics.prices.points import shipped_points
    >>> points = shipped_points()
    >>> names, one = np.unique(points.model), np.ones(75)
    >>> served = Served(np.ones(75, bool), one, one, one, one, one, one, one, one)
    >>> markup = fit_markup(points, SizeFit(one[:3], one[:3], {}), names, served)
    >>> bool(markup.mean[0] < markup.mean[1])  # at equal cost output is dearer than input
    True
    """
    rows = np.searchsorted(names, points.model)
    count = np.bincount(rows, minlength=len(names))
    costs = np.stack([served.usd_per_mtok_input, served.usd_per_mtok_output], -1).reshape(len(names), -1, 2)
    fits = served.fits.reshape(len(names), -1)
    ratios = adjusted(points, fit)[:, None, :] - np.log(np.where(fits[..., None], costs, 1.0))[rows]
    kept = fits[rows]
    weight = kept / count[rows][:, None] / np.maximum(kept.sum(axis=1, keepdims=True), 1)
    mean, covariance = _moments(ratios, weight)
    for _ in range(_ROUNDS):
        density = np.where(kept, Markup(mean, covariance, 0).log_likelihood(ratios), -math.inf)
        top = density.max(axis=1, keepdims=True)
        density = np.exp(density - np.where(np.isfinite(top), top, 0.0))
        share = density / np.maximum(density.sum(axis=1, keepdims=True), 1e-300) / count[rows][:, None]
        mean, covariance = _moments(ratios, share)
    return Markup(mean, covariance, len(points.model))


def _moments(ratios: Floats, weight: Floats) -> tuple[Floats, Floats]:
    flat, shares = ratios.reshape(-1, 2), weight.reshape(-1) / weight.sum()
    mean = shares @ flat
    apart = flat - mean
    covariance = (apart * shares[:, None]).T @ apart
    return mean, covariance + np.diag(np.maximum(_LEAST_SPREAD**2 - np.diag(covariance), 0.0))
