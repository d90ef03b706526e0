"""How sure a percentile beyond the median is: how much further out its interval ends than that of the class's means.

A class's interval is of means. Percentiles are simulated where real times lie at a standard normal score of it, and
what is measured beyond the median scatters more: first bursts, kernels compiled on the way, how a run was counted. The
ends of what is simulated are moved out, each by its own ratio, so that they hold as much as they promise of percentiles
of sources left out.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

from computeledger.arrays import Z_95
from computeledger.errors import FactError

#: How requests come: all at once, or at a rate and from clients.
BURST_LOAD, STEADY_LOAD = "burst", "steady"
#: Share of requests beyond which a percentile has the interval of percentiles.
MEDIAN_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class TailSpread:
    """Ratios at both ends of a 90 % interval of a percentile, over what is simulated there.

    Attributes
    ----------
    low, high : float
        Of the 5 % and of the 95 % end [-].
    """

    low: float = 1.0
    high: float = 1.0

    def ratio(self, score: float) -> float:
        """Ratio at a standard normal score of the interval: none at the median, and beyond the ends as steep.

        Parameters
        ----------
        score : float
            Where in the interval real times lie [-].

        Returns
        -------
        float
            Over the simulated percentile [-].

        Examples
        --------
        >>> spread = TailSpread(0.5, 2.0)
        >>> [round(spread.ratio(one * Z_95), 3) for one in (-1.0, 0.0, 1.0, 2.0)]
        [0.5, 1.0, 2.0, 4.0]
        """
        end = self.high if score > 0 else self.low
        return float(end ** (abs(score) / Z_95))


@dataclass(frozen=True, slots=True)
class TailCalibration:
    """What published percentiles say of one time under one kind of load.

    Attributes
    ----------
    spread : TailSpread
        How much further out the ends lie.
    n, n_sources : int
        Percentiles behind it, and who measured them [-].
    coverage_fraction : float
        Share that the 90 % interval holds of percentiles whose source was left out [-].
    date : str
        Of the fit.
    """

    spread: TailSpread
    n: int
    n_sources: int
    coverage_fraction: float
    date: str


@functools.cache
def load_tails(load: str = STEADY_LOAD) -> dict[str, TailCalibration]:
    """Load the calibration of percentiles.

    Parameters
    ----------
    load : str
        ``steady`` for requests at a rate or from clients, ``burst`` where all are sent at once.

    Returns
    -------
    dict of str to TailCalibration
        By time: ``ttft_s``, ``tpot_s``, ``itl_s``; what is not among them keeps the interval of its class.

    Raises
    ------
    FactError
        An entry without its figures, data or date.

    Examples
    --------
    >>> steady, burst = load_tails(), load_tails("burst")
    >>> burst["ttft_s"].spread.high > steady["ttft_s"].spread.high > 1 > steady["ttft_s"].spread.low
    True
    """
    text = resources.files("computeledger.workloads.serving").joinpath("tails.toml").read_text("utf-8")
    table: dict[str, dict[str, Any]] = tomllib.loads(text)[load]
    names = [*(one.name for one in fields(TailSpread)), "n", "n_sources", "coverage_fraction", "date", "data"]
    out = {}
    for name, one in table.items():
        if missing := [each for each in names if not one.get(each)]:
            raise FactError(f"serving/tails.toml: {load}.{name}: {', '.join(missing)} missing")
        spread = TailSpread(float(one["low"]), float(one["high"]))
        out[name] = TailCalibration(spread, one["n"], one["n_sources"], one["coverage_fraction"], one["date"])
    return out


def tail_ratios(score: float, load: str = STEADY_LOAD) -> dict[str, float]:
    """Ratios of percentiles beyond the median over simulated ones, at a score of the interval of times.

    Parameters
    ----------
    score : float
        Where in the interval real times lie [-].
    load : str
        As :func:`load_tails` takes it.

    Returns
    -------
    dict of str to float
        By time [-].

    Examples
    --------
    >>> set(tail_ratios(0.0).values()), tail_ratios(1.0)["ttft_s"] > 1 > tail_ratios(-1.0)["ttft_s"]
    ({1.0}, True)
    """
    return {name: one.spread.ratio(score) for name, one in load_tails(load).items()}
