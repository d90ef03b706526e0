"""Constants of engines that serve one user on one device (llama.cpp, MLX), fitted by kind of chip.

Kinds are told from an accelerator's facts: chips of one kind share kernels and what these reach. Beside the constants
stand the intervals of engines without any. ``computeledger fit local`` writes the file.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from computeledger.physics.calibration.serving import Constant
from computeledger.sources import check_date

if TYPE_CHECKING:
    from computeledger.facts.schema import Accelerator

#: Kind of a chip that is of none: constants of all kinds together hold for it.
ANY = "any chip"


@dataclass(frozen=True, slots=True)
class LocalCalibration:
    """The fit's result.

    Attributes
    ----------
    data, residual, date, source : str
        What it rests on.
    profiles : mapping of str to mapping of str to Constant
        Constants by name of every engine on every kind of chip: ``llama.cpp on apple``.
    kinds : mapping of str to str
        Kind of chip by its family, or by the line of products that its name states.
    intervals : mapping of str to mapping
        Quantiles of measured over predicted by class.
    """

    data: str
    residual: str
    date: str
    source: str
    profiles: Mapping[str, Mapping[str, Constant]]
    kinds: Mapping[str, str]
    intervals: Mapping[str, Mapping[str, Any]]


@functools.cache
def load_local() -> LocalCalibration:
    """Load the shipped calibration of local engines.

    Returns
    -------
    LocalCalibration
        Constants by engine and kind of chip, and intervals.

    Examples
    --------
    >>> "engine never fitted" in load_local().intervals
    True
    """
    text = resources.files("computeledger.physics.calibration").joinpath("local.toml").read_text("utf-8")
    table = tomllib.loads(text)
    about = table["about"]
    check_date(about["date"], "calibration/local.toml")
    profiles = {
        profile: {
            name: Constant(name, profile, one["value"], one["prior"], one["sd"], one["prior_sd"])
            for name, one in entries.items()
        }
        for profile, entries in table["profiles"].items()
    }
    return LocalCalibration(
        data=about["data"],
        residual=about["residual"],
        date=about["date"],
        source=about["source"],
        profiles=profiles,
        kinds=table["kinds"],
        intervals=table["intervals"],
    )


@functools.cache
def local_engines() -> tuple[str, ...]:
    """Name the engines with constants by kind of chip.

    Returns
    -------
    tuple of str
        Ids, in the order of the calibration.

    Examples
    --------
    >>> "vllm" in local_engines()
    False
    """
    return tuple(dict.fromkeys(profile.partition(" on ")[0] for profile in load_local().profiles))


def kind_of(chip: Accelerator) -> str:
    """Tell the kind of a chip.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    str
        Such as ``apple``; :data:`ANY` where its kernels were not measured.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> kind_of(load_accelerator("h100-sxm5-80gb")), kind_of(load_accelerator("tpu-v5p"))
    ('any chip', 'any chip')
    """
    kinds = load_local().kinds
    line = next((kind for name, kind in kinds.items() if name in chip.name), None)
    return line or kinds.get(chip.family, ANY)


def is_measured_kind(engine: str, chip: Accelerator) -> bool:
    """Say whether an engine was measured on a kind of chip.

    Parameters
    ----------
    engine : str
        One of :func:`local_engines`.
    chip : Accelerator
        Any.

    Returns
    -------
    bool
        Whether its constants are those of the kind.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> is_measured_kind("mlx", load_accelerator("tpu-v5p"))
    False
    """
    return kind_of(chip) != ANY and local_profile(engine, chip) in load_local().profiles


def local_profile(engine: str, chip: Accelerator) -> str:
    """Name the constants of a local engine on a chip.

    Parameters
    ----------
    engine : str
        One of :func:`local_engines`.
    chip : Accelerator
        Any.

    Returns
    -------
    str
        Profile for :func:`~computeledger.physics.calibration.efficiency.efficiency`.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> local_profile("llama.cpp", load_accelerator("tpu-v5p"))
    'llama.cpp on any chip'
    """
    profile = f"{engine} on {kind_of(chip)}"
    return profile if profile in load_local().profiles else f"{engine} on {ANY}"
