"""What a GPU-hour costs: rented, reserved or owned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.units import HOURS_PER_YEAR, KILO


def annuity_fraction(rate_fraction: Num, years: Num) -> Num:
    """Yearly payment that returns a loan of one.

    ``r / (1 - (1 + r)^-n)``, and ``1 / n`` where the rate is zero.

    Parameters
    ----------
    rate_fraction : float or ndarray
        Cost of capital per year [-].
    years : float or ndarray
        Life [year].

    Returns
    -------
    float or ndarray
        Payment per year [-].

    Examples
    --------
    >>> round(float(annuity_fraction(0.1, 5.0)), 4), float(annuity_fraction(0.0, 5.0))
    (0.2638, 0.2)
    """
    rate = np.asarray(rate_fraction, float)
    safe = np.where(rate == 0, 1.0, rate)
    return np.where(rate == 0, 1 / np.asarray(years, float), safe / -np.expm1(-years * np.log1p(safe)))


@dataclass(frozen=True, slots=True)
class Ownership:
    """What owning a GPU takes.

    Attributes
    ----------
    capex_usd_per_gpu : float or ndarray
        Purchase with its share of servers, network and building [USD].
    life_years : float or ndarray
        Years of service [year].
    cost_of_capital_fraction : float or ndarray
        Per year [-].
    facility_w_per_gpu : float or ndarray
        Power, cooling and losses included [W].
    electricity_usd_per_kwh : float or ndarray
        Price of electricity [USD/kWh].
    operation_usd_per_gpu_year : float or ndarray
        Staff, repair, space [USD/year].
    occupancy_fraction : float or ndarray
        Sold hours over owned hours [-].
    """

    capex_usd_per_gpu: Num
    life_years: Num
    cost_of_capital_fraction: Num
    facility_w_per_gpu: Num
    electricity_usd_per_kwh: Num
    operation_usd_per_gpu_year: Num = 0.0
    occupancy_fraction: Num = 1.0


def owned_usd_per_gpu_hour(owned: Ownership) -> Num:
    """Cost of a used GPU-hour of an owned GPU.

    ``(annuity x capex + operation + power x electricity x hours) / (hours x occupancy)``: power is paid whether the
    GPU is sold or not, which is a little too much for an idle one.

    Parameters
    ----------
    owned : Ownership
        Of one GPU.

    Returns
    -------
    float or ndarray
        Cost [USD/h].

    Examples
    --------
    >>> owned = Ownership(40_000.0, 5.0, 0.1, 1800.0, 0.08, occupancy_fraction=0.7)
    >>> round(float(owned_usd_per_gpu_hour(owned)), 2)
    1.93
    """
    capital = annuity_fraction(owned.cost_of_capital_fraction, owned.life_years) * owned.capex_usd_per_gpu
    power = owned.facility_w_per_gpu / KILO * owned.electricity_usd_per_kwh * HOURS_PER_YEAR
    yearly = capital + owned.operation_usd_per_gpu_year + power
    return yearly / (HOURS_PER_YEAR * owned.occupancy_fraction)
