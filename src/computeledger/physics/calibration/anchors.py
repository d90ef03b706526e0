"""How far a measurement holds for other points: of a deployment, and of a training run; fitted on other people's.

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
class StepSpread:
    """Standard deviations of the logarithm of measured over predicted training step.

    Attributes
    ----------
    between_sd : float
        From one source and chip to another [-].
    scatter_sd, scatter_moe_sd : float
        Between configurations of one source and chip that no axis tells apart: dense models, models with experts [-].
    model_sd, model_moe_sd : float
        From model to model of one source and chip beside that [-].
    per_doubling_sd : mapping of str to float
        Of the slope per doubling, by axis: ``gpus``, ``layout`` (each degree, the microbatch, recomputation),
        ``sequence``, ``model`` (active parameters), ``experts`` (none or some) and ``precision`` [-].
    tails : tuple of float
        Ends of the 90 % and the 80 % interval, low to high, in predicted standard deviations [-].
    """

    between_sd: float
    scatter_sd: float
    scatter_moe_sd: float
    model_sd: float
    model_moe_sd: float
    per_doubling_sd: Mapping[str, float]
    tails: tuple[float, float, float, float]

    def of_kind(self, is_moe: bool) -> tuple[float, float]:
        """Scatter between configurations, and from model to model.

        Parameters
        ----------
        is_moe : bool
            Whether the models have experts.

        Returns
        -------
        tuple of float
            As standard deviations of a logarithm [-].

        Examples
        --------
        >>> load_anchor_calibration().step.of_kind(False) < load_anchor_calibration().step.of_kind(True)
        True
        """
        return (self.scatter_moe_sd, self.model_moe_sd) if is_moe else (self.scatter_sd, self.model_sd)


@dataclass(frozen=True, slots=True)
class AnchorCalibration:
    """The fit's result.

    Attributes
    ----------
    data, residual, date, source : str
        What it rests on.
    spreads : mapping of str to AnchorSpread
        By ``tpot`` and ``ttft``, and those of two pools (:func:`of_pools`).
    step : StepSpread
        Of training.
    step_data, step_residual, step_source : str
        What that rests on.
    """

    data: str
    residual: str
    date: str
    source: str
    spreads: Mapping[str, AnchorSpread]
    step: StepSpread
    step_data: str
    step_residual: str
    step_source: str


def of_pools(quantity: str) -> str:
    """Name of the spread of a time where two pools serve.

    Parameters
    ----------
    quantity : str
        ``tpot`` or ``ttft``.

    Returns
    -------
    str
        A key of ``spreads``.

    Examples
    --------
    >>> load_anchor_calibration().spreads[of_pools("tpot")].scatter_sd > 0
    True
    """
    return f"pools_{quantity}"


@functools.cache
def load_anchor_calibration() -> AnchorCalibration:
    """Load the shipped spreads.

    Returns
    -------
    AnchorCalibration
        Of serving's two times, and of a training step.

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
    step = table.pop("step")
    of_step = [step.pop(name) for name in ("data", "residual", "source")]
    spreads = {name: AnchorSpread(**{**one, "tails": tuple(one["tails"])}) for name, one in table.items()}
    trained = StepSpread(**{**step, "tails": tuple(step["tails"])})
    stated = about["data"], about["residual"], about["date"], about["source"]
    return AnchorCalibration(*stated, spreads, trained, of_step[0], of_step[1], of_step[2])
