"""What an RL framework adds to generation and training: a few constants, fitted to published step times.

``rl.toml`` beside this file holds them, as ``fit_rl`` wrote them.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from computeledger.arrays import Num
from computeledger.errors import FactError, unknown_id
from computeledger.physics.calibration.efficiency import Factor, median_of
from computeledger.sources import check_date, load_sources
from computeledger.units import parse_quantity

FILE = "rl.toml"
#: What is fitted.
FITTED = (
    "rl_fixed_s",
    "rl_generation_fixed_s",
    "rl_hidden_sync_fraction",
    "rl_training_ratio",
    "rl_launch_ratio",
    "rl_decode_ratio",
)
#: Real over modelled time of a step by class: model and chip family in the calibration, another one, another
#: framework; and of one of its phases.
RATIOS = ("rl_known_ratio", "rl_new_ratio", "rl_framework_ratio", "rl_phase_ratio")
#: Parts of a step that are longer or shorter than modelled one apart from the other, each by ``rl_phase_ratio``.
PHASES = ("generation", "scoring", "update", "once")


@dataclass(frozen=True, slots=True)
class RLFactors:
    """Constants of an RL framework. The default is the physical limit: nothing beside generating and training.

    Attributes
    ----------
    rl_fixed_s : float or ndarray
        Once per step: loading, scoring, advantages, logging [s].
    rl_generation_fixed_s : float or ndarray
        Once per generation, which logs count in it: waking engines, handing out prompts, collecting rollouts [s].
    rl_sync_ratio : float or ndarray
        1 where weights are handed over by a mechanism; 0 leaves the network time alone [-].
    rl_hidden_sync_fraction : float or ndarray
        Share of all three that generators and trainer on GPUs of their own do beside other work [-].
    rl_training_ratio : float or ndarray
        Real over modelled time of log-probs and update: ragged packing, small batches, gaps [-].
    rl_launch_ratio : float or ndarray
        Launch and host time of a decode step over those of a tuned server [-].
    rl_decode_ratio : float or ndarray
        Real over modelled time of a decode step as a whole [-].
    rl_decode_layer_s : float or ndarray
        Host time of one layer in a decode step, where a framework launches kernels one by one [s].
    rl_generation_ratio, rl_scoring_ratio, rl_update_ratio, rl_once_ratio, rl_weight_sync_ratio : float or ndarray
        Real over modelled time of one part of a step beside the others: they move time between parts of a step whose
        whole is :attr:`rl_step_ratio`'s [-].
    rl_step_ratio : float or ndarray
        Real over modelled time of the whole step, of the class that a question falls in [-].
    """

    rl_fixed_s: Num = 0.0
    rl_generation_fixed_s: Num = 0.0
    rl_sync_ratio: Num = 0.0
    rl_hidden_sync_fraction: Num = 1.0
    rl_training_ratio: Num = 1.0
    rl_launch_ratio: Num = 1.0
    rl_decode_ratio: Num = 1.0
    rl_decode_layer_s: Num = 0.0
    rl_generation_ratio: Num = 1.0
    rl_scoring_ratio: Num = 1.0
    rl_update_ratio: Num = 1.0
    rl_once_ratio: Num = 1.0
    rl_weight_sync_ratio: Num = 1.0
    rl_step_ratio: Num = 1.0


IDEAL_RL = RLFactors()


def load_rl_text() -> str:
    """Read the shipped calibration as it stands in the file.

    Returns
    -------
    str
        TOML.

    Examples
    --------
    >>> "rl_fixed_s" in load_rl_text()
    True
    """
    return resources.files("computeledger.physics.calibration").joinpath(FILE).read_text("utf-8")


@functools.cache
def load_rl_factors(profile: str = "fitted") -> Mapping[str, Factor]:
    """Load the constants with their grounds.

    Parameters
    ----------
    profile : str
        ``fitted``, ``assumed`` (before any fit) or ``ideal``.

    Returns
    -------
    mapping of str to Factor
        One per name of :data:`FITTED` and :data:`RATIOS`; none for ``ideal``.

    Raises
    ------
    UnknownIdError
        A profile that does not exist.
    FactError
        A shipped constant that misses its ground.

    Examples
    --------
    >>> load_rl_factors()["rl_fixed_s"].kind
    'calibration'
    """
    if profile not in {"fitted", "assumed", "ideal"}:
        raise unknown_id("RL profile", profile, ("fitted", "assumed", "ideal"))
    if profile == "ideal":
        return {}
    entries = tomllib.loads(load_rl_text())["constants"]
    known = {*FITTED, *RATIOS}
    if known != set(entries):
        raise FactError(f"calibration/{FILE}: {sorted(known ^ set(entries))} missing or unknown")
    return {name: _factor(name, entry, profile) for name, entry in entries.items()}


def _factor(name: str, entry: Mapping[str, Any], profile: str) -> Factor:
    missing = {"value", "why", "data", "residual", "identifiability", "date", "source"} - set(entry)
    if missing:
        raise FactError(f"calibration/{FILE}: {name} lacks {', '.join(sorted(missing))}")
    if entry["source"] not in load_sources():
        raise FactError(f"calibration/{FILE}: {name}: {unknown_id('source', entry['source'], load_sources())}")
    check_date(entry["date"], f"calibration/{FILE}: {name}")
    if profile == "assumed" and name in FITTED:
        return Factor(name, parse_quantity(entry["prior"], "count"), "assumption", entry["why"], "assumption")
    ground = f"{entry['why']}; {entry['data']}; residual {entry['residual']}; {entry['identifiability']}"
    value = entry["value"]
    read = parse_quantity(value, "count") if isinstance(value, str) else float(value)
    return Factor(name, read, "calibration", ground, entry["source"], entry["date"])


def rl_factors(profile: str = "fitted", draws: Mapping[str, Num] | None = None) -> RLFactors:
    """Build the constants as numbers.

    Parameters
    ----------
    profile : str
        As for :func:`load_rl_factors`.
    draws : mapping of str to float or ndarray, optional
        Samples by ``efficiency.NAME``; a constant without samples takes its median, the ratio of the step is 1.

    Returns
    -------
    RLFactors
        Numbers, or arrays along the sample axis.

    Examples
    --------
    >>> rl_factors("ideal") == IDEAL_RL, rl_factors().rl_fixed_s > 0
    (True, True)
    """
    given = draws or {}
    factors = load_rl_factors(profile)
    numbers = {
        name: given.get(f"efficiency.{name}", median_of(factors[name].value)) for name in FITTED if name in factors
    }
    return RLFactors(rl_sync_ratio=float(profile != "ideal"), **numbers)
