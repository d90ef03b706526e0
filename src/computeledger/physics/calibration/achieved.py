"""Carrying constants over to a chip that they were not fitted on, by kernels measured on it and on an H100.

A product takes its FLOP over the peak, and longer by what it loses: ``t = FLOP / peak (1 + loss)``. What the tensor
cores wait for (loads, promotion, scaling, quantising) is work of a GPU's other units, so a chip with slow tensor cores
beside those loses less: an H20 a quarter of what an H100 does, in four kernels alike.
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from computeledger.errors import FactError, unknown_id
from computeledger.facts.load import load_accelerator
from computeledger.physics.calibration.serving import load_calibration
from computeledger.sources import load_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from computeledger.facts.schema import Accelerator


@dataclass(frozen=True, slots=True)
class Achieved:
    """A kernel's share of the data sheet on a chip and on the reference.

    Attributes
    ----------
    chip, kernel : str
        Where, and what ran.
    share, reference_share : float
        Of the peak, or of the bandwidth [-].
    source, locator : str
        Where it was read.
    """

    chip: str
    kernel: str
    share: float
    reference_share: float
    source: str
    locator: str

    @property
    def loss_ratio(self) -> float:
        """Time lost per FLOP of the peak, over that of the reference [-]."""
        return (1 / self.share - 1) / (1 / self.reference_share - 1)

    @property
    def share_ratio(self) -> float:
        """Share over that of the reference [-]."""
        return self.share / self.reference_share


@functools.cache
def _table() -> Mapping[str, Any]:
    text = resources.files("computeledger.physics.calibration").joinpath("achieved.toml").read_text("utf-8")
    return tomllib.loads(text)


@functools.cache
def measured_kernels(kind: str) -> Mapping[str, Sequence[Achieved]]:
    """Measured kernels by chip.

    Parameters
    ----------
    kind : str
        ``compute`` or ``bandwidth``.

    Returns
    -------
    mapping of str to sequence of Achieved
        By accelerator.

    Raises
    ------
    FactError
        A source that is not listed.

    Examples
    --------
    >>> [round(one.loss_ratio, 1) for one in measured_kernels("compute")["gh200-96gb"]]
    [0.8, 0.7]
    """
    found: dict[str, list[Achieved]] = {}
    for entry in _table()[kind]:
        if entry["source"] not in load_sources():
            raise FactError(f"achieved.toml: {unknown_id('source', entry['source'], load_sources())}")
        found.setdefault(entry["chip"], []).append(Achieved(**entry))
    return found


def loss_ratio(chip: Accelerator) -> float:
    """Time that a chip loses per FLOP of its peak, over what the chips of the fit lose.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    float
        Geometric mean of the kernels measured on its dies; where there are none, tensor over vector peak beside those
        of the reference; 1 for a chip of the fit, and where nothing is known [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> [round(loss_ratio(load_accelerator(one)), 2) for one in ("h20-sxm5-96gb", "l40s", "tpu-v6e")]
    [0.24, 0.27, 1.0]
    """
    known = _known_ratio(chip.id, "compute")
    peaks: Mapping[str, float] = _table()["vector"]["tflop_per_s"]
    if known is not None or chip.id not in peaks:
        return 1.0 if known is None else known
    reference = load_accelerator(_table()["vector"]["reference"])
    tensor, vector = (chip.peak("bf16") / reference.peak("bf16"), peaks[chip.id] / peaks[reference.id])
    return tensor / vector


def bandwidth_ratio(chip: Accelerator) -> float:
    """Share of its bandwidth that a chip reaches, over the share that the chips of the fit reach.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    float
        Geometric mean of what was measured on its dies; 1 for a chip of the fit, and where nothing is known [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> round(bandwidth_ratio(load_accelerator("a100-sxm4-80gb")), 2)
    0.92
    """
    known = _known_ratio(chip.id, "bandwidth")
    return 1.0 if known is None else known


def same_dies(chip: Accelerator) -> list[str]:
    """Name a chip and those whose dies it has: what was measured on these stands for what was not on it.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    list of str
        Ids of accelerators, the chip's own first.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> same_dies(load_accelerator("h800-sxm5-80gb"))
    ['h800-sxm5-80gb', 'h100-sxm5-80gb']
    """
    return _same_dies(chip.id)


def _same_dies(chip_id: str) -> list[str]:
    found, table = [chip_id], _table()["same_dies"]
    while found[-1] in table:
        found.append(table[found[-1]])
    return found


def same_boards(chip: Accelerator) -> list[str]:
    """Name a chip and those that differ from it in nothing but their links: the same dies at the same power.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    list of str
        Ids of accelerators, the chip's own first.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> [same_boards(load_accelerator(one))[1:] for one in ("h800-sxm5-80gb", "a100-pcie-80gb")]
    [['h100-sxm5-80gb'], []]
    """
    power = chip.chip_tdp_w.value
    own, *others = same_dies(chip)  # its own record is at hand: an accelerator of a user's file is not shipped
    return [own, *(one for one in others if load_accelerator(one).chip_tdp_w.value == power)]


@functools.cache
def _known_ratio(chip_id: str, kind: str) -> float | None:
    """Geometric mean of what was measured on a chip, else on one of the same dies; 1 for a chip of the fit."""
    measured, alike = measured_kernels(kind), _same_dies(chip_id)
    if load_calibration().chips.intersection(alike):
        return 1.0
    kernels = next((measured[name] for name in alike if name in measured), ())
    ratios = [one.loss_ratio if kind == "compute" else one.share_ratio for one in kernels]
    return math.exp(sum(math.log(one) for one in ratios) / len(ratios)) if ratios else None
