"""How far one measurement of a deployment holds for its other points, fitted on other people's deployments.

``computeledger fit anchors`` writes the file.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from computeledger.sources import check_date


@dataclass(frozen=True, slots=True)
class AnchorSpread:
    """Standard deviations of the logarithm of measured over predicted time.

    Attributes
    ----------
    between_sd : float
        From deployment to deployment [-].
    scatter_sd : float
        Between points of one deployment at the same load and lengths [-].
    per_batch_doubling_sd, per_input_doubling_sd : float
        Of the slope within a deployment, per doubling of the batch and of the input [-].
    tails : tuple of float
        Ends of the 90 % and the 80 % interval, low to high, in predicted standard deviations [-].
    """

    between_sd: float
    scatter_sd: float
    per_batch_doubling_sd: float
    per_input_doubling_sd: float
    tails: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class AnchorCalibration:
    """The fit's result.

    Attributes
    ----------
    data, residual, date, source : str
        What it rests on.
    spreads : mapping of str to AnchorSpread
        By ``tpot`` and ``ttft``.
    """

    data: str
    residual: str
    date: str
    source: str
    spreads: Mapping[str, AnchorSpread]


@functools.cache
def load_anchor_calibration() -> AnchorCalibration:
    """Load the shipped spreads.

    Returns
    -------
    AnchorCalibration
        Of both times.

    Examples
    --------
    >>> spreads = load_anchor_calibration().spreads
    >>> spreads["ttft"].between_sd > spreads["tpot"].between_sd > spreads["tpot"].scatter_sd
    True
    """
    text = resources.files("computeledger.physics.calibration").joinpath("anchors.toml").read_text("utf-8")
    table = tomllib.loads(text)
    about = table.pop("about")
    check_date(about["date"], "anchors.toml")
    spreads = {name: AnchorSpread(**{**one, "tails": tuple(one["tails"])}) for name, one in table.items()}
    return AnchorCalibration(about["data"], about["residual"], about["date"], about["source"], spreads)
