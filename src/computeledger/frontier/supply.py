"""Dollars, watts and chips of the largest system by year in a scenario, beside what chips are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.facts.load import load_accelerator
from computeledger.facts.reading import read_facts
from computeledger.facts.schema import Fact
from computeledger.frontier.described import DEFAULT_ACCELERATOR
from computeledger.frontier.epoch_files import SiteDate
from computeledger.frontier.growth import Projection, largest_systems
from computeledger.frontier.systems import REFERENCE
from computeledger.frontier.text import frontier_document
from computeledger.frontier.trends import Floats
from computeledger.frontier.wafers import fitted_wafers
from computeledger.units import MONTH_S, YEAR_S


def supply_facts() -> Mapping[str, Fact]:
    """Packaging, HBM, and packages of a wafer, as reported.

    Examples
    --------
    >>> round(supply_facts()["hbm_bytes_2026"].value / 1e18, 2)
    3.75
    """
    document = frontier_document()
    return read_facts(document, "supply", document.table["supply"])


def packaging_growth() -> float:
    """CoWoS capacity reported for the end of 2026 over that of 2025 [-].

    Examples
    --------
    >>> round(packaging_growth(), 2)
    1.61
    """
    facts = supply_facts()
    return facts["n_cowos_wafers_per_month_2026"].value / facts["n_cowos_wafers_per_month_2025"].value


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest system today, its compute counted in packages of one chip.

    Attributes
    ----------
    site : str
        Name.
    date : str
        Of its figures, ISO.
    usd, facility_w : float
        Capital [USD] and power [W].
    n_chips : float
        Packages of the chip that hold its H100-equivalents [-].
    accelerator_id : str
        That chip.
    """

    site: str
    date: str
    usd: float
    facility_w: float
    n_chips: float
    accelerator_id: str = DEFAULT_ACCELERATOR


def largest_today(sites: Sequence[SiteDate] | None = None) -> Largest:
    """The site with most H100-equivalents as the data stand.

    Examples
    --------
    >>> found = largest_today()
    >>> found.site, round(found.n_chips / 1e3)
    ('Colossus 2', 440)
    """
    site = max(largest_systems(sites), key=lambda one: one.h100e_8bit or 0.0)
    rate = load_accelerator(DEFAULT_ACCELERATOR).peak("fp8") / load_accelerator(REFERENCE).peak("fp8")
    return Largest(site.name, site.date, site.capex_usd or 0.0, site.facility_w or 0.0, (site.h100e_8bit or 0.0) / rate)


@dataclass(frozen=True, slots=True)
class Taken:
    """What the largest system takes in a scenario, by year.

    Attributes
    ----------
    usd, facility_w, n_chips : ndarray
        Capital [USD], power [W], and packages of today's chip at a steady price [-].
    n_cowos_wafers : ndarray
        That these packages take, as many of a wafer being good as Epoch reckons [-].
    cowos_year_fraction : ndarray
        Of a year's wafers at the rate reported for the end of 2026 [-].
    hbm_bytes : ndarray
        At today's memory of a package [byte].
    hbm_year_fraction : ndarray
        Of the shipments reported for 2026 [-].
    """

    usd: Floats
    facility_w: Floats
    n_chips: Floats
    n_cowos_wafers: Floats
    cowos_year_fraction: Floats
    hbm_bytes: Floats
    hbm_year_fraction: Floats


def taken(projection: Projection, today: Largest) -> Taken:
    """Dollars, watts, chips, wafers and HBM of a scenario's largest system.

    Examples
    --------
    >>> import numpy as np
    >>> from computeledger.frontier.growth import fitted_growth, project, shipped_scenarios
    >>> flat = project(shipped_scenarios()["flat-funding"], fitted_growth(), np.arange(3.0))
    >>> found = taken(flat, largest_today())
    >>> bool(np.allclose(found.usd, found.usd[0])), bool(abs(found.facility_w[2] / found.facility_w[0] - 1) < 0.05)
    (True, True)
    """
    facts = supply_facts()
    chips = today.n_chips * projection.chips_ratio
    wafers = np.asarray(chips / fitted_wafers().n_packages_per_wafer, float)
    yearly = facts["n_cowos_wafers_per_month_2026"].value * YEAR_S / MONTH_S
    hbm = chips * load_accelerator(today.accelerator_id).hbm_bytes.value
    return Taken(
        usd=today.usd * projection.usd_ratio,
        facility_w=today.facility_w * projection.w_ratio,
        n_chips=chips,
        n_cowos_wafers=wafers,
        cowos_year_fraction=wafers / yearly,
        hbm_bytes=hbm,
        hbm_year_fraction=hbm / facts["hbm_bytes_2026"].value,
    )
