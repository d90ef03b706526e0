"""The fitted constants of serving, as ``computeledger fit`` wrote them: value, prior, how well the data fix it."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from computeledger.sources import check_date

#: Engine that answers where a question names none (assumption: the most widely deployed open one).
DEFAULT_ENGINE = "vllm"
#: Stands for engines without constants of their own: the geometric means of the fitted ones.
GENERIC = "generic"
#: Whose deployment is asked for: as other people's measurements show it, or tuned like the public InferenceX recipes.
TUNINGS = ("usual", "recipe")
DEFAULT_TUNING = TUNINGS[0]
#: The same of an engine, which its makers, or the chip's, may publish a launch for: this model on this chip.
ENGINE_TUNINGS = ("usual", "published", "recipe")
#: Tables of the file that hold no engine's constants.
_OTHER_TABLES = ("about", "shared", "makers", "sources", "intervals", "deployments")


@dataclass(frozen=True, slots=True)
class Constant:
    """A fitted constant.

    Attributes
    ----------
    name : str
        Field of :class:`~computeledger.physics.calibration.efficiency.Efficiency`.
    engine : str
        Whose it is; ``shared`` where it holds for all.
    value, prior : float
        Fitted, and before the fit; in its own SI unit.
    sd, prior_sd : float
        Standard deviation of its logarithm after and before the fit [-].
    """

    name: str
    engine: str
    value: float
    prior: float
    sd: float
    prior_sd: float

    @property
    def identified_fraction(self) -> float:
        """Share of the prior's variance that the data removed [-]."""
        return max(0.0, 1 - (self.sd / self.prior_sd) ** 2)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fit's result.

    Attributes
    ----------
    data, residual, date, source : str
        What it rests on.
    reference_month, newest_month : str
        Month whose releases the constants describe, and that of the newest release measured.
    constants : tuple of Constant
        All of them.
    makers, sources : mapping of str to mapping
        Of other makers' chips and of each other source: figures ``n``, the ``effect``, measured over predicted time of
        a step, and the ``sd`` of its logarithm.
    intervals : mapping of str to mapping
        Quantiles of measured over predicted by class.
    deployments : frozenset of str
        Architecture, format, system and engine of what was fitted.
    chips, usual_chips : frozenset of str
        Accelerators that the public recipes were measured on; further ones that several other sources measured.
    """

    data: str
    residual: str
    date: str
    source: str
    reference_month: str
    newest_month: str
    constants: tuple[Constant, ...]
    makers: Mapping[str, Mapping[str, float]]
    sources: Mapping[str, Mapping[str, float]]
    intervals: Mapping[str, Mapping[str, Any]]
    deployments: frozenset[str]
    chips: frozenset[str]
    usual_chips: frozenset[str]

    @property
    def newest_years(self) -> float:
        """Years from the reference month to the newest release measured [year]."""
        return self.years_of(self.newest_month)

    def years_of(self, month: str) -> float:
        """Years from the reference month to another.

        Parameters
        ----------
        month : str
            Such as ``2025-11``.

        Returns
        -------
        float
            Negative before the reference [year].

        Examples
        --------
        >>> fit = load_calibration()
        >>> fit.years_of(fit.reference_month), fit.years_of("2024-01") < -1
        (0.0, True)
        """
        there, reference = (12 * int(one[:4]) + int(one[5:7]) for one in (month, self.reference_month))
        return (there - reference) / 12

    def of(self, engine: str) -> dict[str, Constant]:
        """Constants that hold for an engine, its own and the shared ones.

        Parameters
        ----------
        engine : str
            One of :func:`calibrated_engines`, or ``generic``.

        Returns
        -------
        dict of str to Constant
            By name.

        Examples
        --------
        >>> load_calibration().of("vllm")["host_step_s"].engine
        'vllm'
        """
        found = {one.name: one for one in self.constants if one.engine in ("shared", engine)}
        return found | self._means() if engine == GENERIC else found

    def _means(self) -> dict[str, Constant]:
        """Geometric means over the engines, each constant as uncertain as one more engine is."""
        own: dict[str, list[Constant]] = {}
        for one in self.constants:
            if one.engine != "shared":
                own.setdefault(one.name, []).append(one)
        means = {name: math.exp(sum(math.log(one.value) for one in ones) / len(ones)) for name, ones in own.items()}
        return {
            name: Constant(name, GENERIC, means[name], ones[0].prior, ones[0].prior_sd, ones[0].prior_sd)
            for name, ones in own.items()
        }


@functools.cache
def _file() -> Mapping[str, Any]:
    text = resources.files("computeledger.physics.calibration").joinpath("serving.toml").read_text("utf-8")
    return tomllib.loads(text)


@functools.cache
def calibrated_engines() -> tuple[str, ...]:
    """Name the engines whose constants were fitted.

    Returns
    -------
    tuple of str
        Ids, in the order of the calibration.

    Examples
    --------
    >>> DEFAULT_ENGINE in calibrated_engines()
    True
    """
    return tuple(name for name in _file() if name not in _OTHER_TABLES)


@functools.cache
def load_calibration() -> Calibration:
    """Load the shipped calibration of serving.

    Returns
    -------
    Calibration
        Constants, intervals, and what was fitted.

    Examples
    --------
    >>> len(load_calibration().constants) <= 70
    True
    """
    table = _file()
    about = table["about"]
    check_date(about["date"], "calibration/serving.toml")
    constants = tuple(
        Constant(name, engine, entry["value"], entry["prior"], entry["sd"], entry["prior_sd"])
        for engine in ("shared", *calibrated_engines())
        for name, entry in table[engine].items()
    )
    return Calibration(
        data=about["data"],
        residual=about["residual"],
        date=about["date"],
        source=about["source"],
        reference_month=about["reference_month"],
        newest_month=about["newest_month"],
        constants=constants,
        makers=table["makers"],
        sources=table["sources"],
        intervals=table["intervals"],
        deployments=frozenset(table["deployments"]["fitted"]),
        chips=frozenset(table["deployments"]["chips"]),
        usual_chips=frozenset(table["deployments"]["usual_chips"]),
    )
