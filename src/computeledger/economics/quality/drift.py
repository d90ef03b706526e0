"""How the market's price of one open model moves: launch sheets beside those of the shipped edition."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from computeledger.economics.quality.evaluations import evaluated_models, evaluated_prices
from computeledger.economics.quality.value import years_between

#: Day of the shipped prices of open models, on which the price law is fitted.
MARKET_DATE = "2026-11-21"


@dataclass(frozen=True, slots=True)
class PriceDrift:
    """Change of the logarithm of a model's price a year, its standard error, and the models it stands on.

    Attributes
    ----------
    per_year, error : float
        Of the mean of input's and output's price [1/year].
    scatter : float
        Of one model's whole change around it [-].
    n_versions : int
        Versions of open models that the market sold at both times.
    """

    per_year: float
    error: float
    scatter: float
    n_versions: int


@functools.cache
def market_drift() -> PriceDrift:
    """Fit a line through nothing at the launch: the median seller's price at launch and in the shipped edition.

    References
    ----------
    litellm-editions; litellm-prices.

    Examples
    --------
    >>> found = market_drift()
    >>> -0.5 < found.per_year < 0.0 < found.error < 0.2
    True
    """
    launch, last = evaluated_prices("launch"), evaluated_prices("last")
    rows = []
    for version, model in evaluated_models().items():
        both = [one[version] for one in (launch, last) if version in one and one[version].basis == "market"]
        if model.open_model and len(both) == 2:
            then, now = both
            moved = (now.usd_per_mtok_input * now.usd_per_mtok_output) / (
                then.usd_per_mtok_input * then.usd_per_mtok_output
            )
            rows.append((years_between(model.released, MARKET_DATE), math.log(moved) / 2.0))
    years, moves = np.array(rows).T
    per_year = float(years @ moves / (years @ years))
    scatter = float((moves - per_year * years).std(ddof=1))
    return PriceDrift(per_year, scatter / math.sqrt(float(years @ years)), scatter, len(rows))
