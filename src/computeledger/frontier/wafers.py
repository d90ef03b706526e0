"""From CoWoS wafers to chips: good packages of a wafer, the lag to delivery, and what is left of 2025's gap."""

from __future__ import annotations

import csv
import functools
import itertools
from dataclasses import dataclass

import numpy as np

from computeledger.facts.catalog import shipped_file

#: The two packages with two large dies, those before them, and the row of all capacity.
BLACKWELL, HOPPER, ALL_SUPPLY = ("B200", "B300"), ("H100/H200",), "all supply"
_MONTHS_PER_QUARTER = 3.0


@dataclass(frozen=True, slots=True)
class WaferQuarter:
    """Wafers that a chip took in a quarter, and chips sold in it; no chips for all capacity."""

    quarter: str
    chip: str
    n_wafers: float
    n_chips: float


@functools.cache
def wafer_quarters() -> tuple[WaferQuarter, ...]:
    """CoWoS wafers and chips of Nvidia by quarter, 2024 and 2025, and the capacity of all.

    References
    ----------
    epoch-chip-wafers; epoch-chip-sales.

    Examples
    --------
    >>> sum(one.n_wafers for one in wafer_quarters() if one.chip == "all supply" and one.quarter >= "2025")
    645000.0
    """
    rows = csv.DictReader(shipped_file("frontier", "wafers.csv").read_text("utf-8").splitlines())
    return tuple(
        WaferQuarter(row["quarter"], row["chip"], float(row["cowos_wafers"]), float(row["units"] or 0.0))
        for row in rows
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaferLaw:
    """Wafers of a quarter from the chips sold in it and in the next.

    Attributes
    ----------
    n_packages_per_wafer : float
        Good ones [-].
    same_quarter_fraction : float
        Share of a quarter's chips whose wafers are packaged in the same quarter [-].
    n_quarters : int
        It is fitted on.
    residual_fraction : float
        Root mean square of what it misses, over the wafers [-].
    """

    n_packages_per_wafer: float
    same_quarter_fraction: float
    n_quarters: int
    residual_fraction: float

    @property
    def lag_months(self) -> float:
        """From packaging to sale: the rest of the chips takes a quarter [month]."""
        return (1.0 - self.same_quarter_fraction) * _MONTHS_PER_QUARTER

    def wafers(self, n_chips: float) -> float:
        """Wafers that chips take [-].

        Parameters
        ----------
        n_chips : float
            Packages [-].

        Returns
        -------
        float
            Wafers [-].

        Examples
        --------
        >>> WaferLaw(12.5, 0.5, 2, 0.0).wafers(25.0)
        2.0
        """
        return n_chips / self.n_packages_per_wafer


@functools.cache
def fitted_wafers(chips: tuple[str, ...] = BLACKWELL) -> WaferLaw:
    """Fit packages of a wafer and lag: ``wafers(q) = (w chips(q) + (1 - w) chips(q + 1)) / y``, errors relative.

    Parameters
    ----------
    chips : tuple of str
        Of :func:`wafer_quarters`.

    Returns
    -------
    WaferLaw
        Two constants.

    Notes
    -----
    Epoch reckons wafers from the chips with yields and lags of its own, so that this reads its account and is no
    measurement of a yield.

    References
    ----------
    epoch-chip-wafers; epoch-chip-sales.

    Examples
    --------
    >>> law = fitted_wafers()
    >>> round(law.n_packages_per_wafer, 1), round(law.lag_months, 1)
    (13.0, 1.9)
    """
    found = {(one.chip, one.quarter): one for one in wafer_quarters()}
    quarters = sorted({one.quarter for one in wafer_quarters()})
    rows = [
        (found[chip, now].n_chips, found[chip, then].n_chips, found[chip, now].n_wafers)
        for chip in chips
        for now, then in itertools.pairwise(quarters)
        if (chip, now) in found and (chip, then) in found
    ]
    table = np.array(rows)
    design = table[:, :2] / table[:, 2:]
    each = np.linalg.lstsq(design, np.ones(len(table)), rcond=None)[0]
    missed = design @ each - 1.0
    return WaferLaw(
        float(1.0 / each.sum()), float(each[0] / each.sum()), len(rows), float(np.sqrt(np.mean(missed**2)))
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaferStep:
    """A step from capacity to chips: wafers of Nvidia in 2025, and the mechanism."""

    n_wafers: float
    mechanism: str


def account_2025(n_wafers_per_month: float, share: float, gross: tuple[float, float]) -> tuple[WaferStep, ...]:
    """From the mean of two year ends to the wafers that the year's chips take.

    Parameters
    ----------
    n_wafers_per_month : float
        Mean of the capacities at the two year ends [-].
    share : float
        Nvidia's, as quoted [-].
    gross : tuple of float
        Packages that fit on a wafer, Blackwell and Hopper [-].

    Returns
    -------
    tuple of WaferStep
        From the supply down, and from the chips up to the last.

    Examples
    --------
    >>> down = account_2025(57_500.0, 0.63, (16.0, 29.0))
    >>> [round(one.n_wafers / 1e3) for one in down]
    [435, 406, 377, 349, 295, 244]
    """
    year = [one for one in wafer_quarters() if one.quarter >= "2025"]
    capacity = sum(one.n_wafers for one in year if one.chip == ALL_SUPPLY)
    own = [one for one in year if one.chip != ALL_SUPPLY]
    taken = sum(one.n_wafers for one in own)
    blackwell = sum(one.n_chips for one in own if one.chip in BLACKWELL)
    hopper = sum(one.n_chips for one in own if one.chip not in BLACKWELL)
    law, before = fitted_wafers(), fitted_wafers(HOPPER)
    waiting = {
        quarter: (1.0 - law.same_quarter_fraction)
        * sum(one.n_wafers for one in wafer_quarters() if one.quarter == quarter and one.chip != ALL_SUPPLY)
        for quarter in ("2024-Q4", "2025-Q4")
    }
    return (
        WaferStep(n_wafers_per_month * 12.0 * share, "mean of two year ends, and the share as quoted"),
        WaferStep(capacity * share, "capacity as it grew from quarter to quarter"),
        WaferStep(taken, "wafers that Epoch books for Nvidia"),
        WaferStep(taken + waiting["2024-Q4"] - waiting["2025-Q4"], "less those for chips of the next year"),
        WaferStep(law.wafers(blackwell) + before.wafers(hopper), "good packages on a wafer"),
        WaferStep(blackwell / gross[0] + hopper / gross[1], "every package good"),
    )
