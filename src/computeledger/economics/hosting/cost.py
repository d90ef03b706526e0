"""What a GPU-hour costs: rented, reserved or owned.

The three are compared per GPU-hour that is used: rent is paid for those hours only, a reserved or owned GPU also for
the hours in which it stands idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from computeledger.arrays import Num, Uncertain, sample
from computeledger.errors import InputError, nearest
from computeledger.facts.editions import PRICE_KINDS, load_ownership, load_prices
from computeledger.facts.schema import Accelerator, Fact, OwnershipEdition, PriceEdition, System
from computeledger.units import HOUR_S, HOURS_PER_YEAR, KILO, WH_J
from computeledger.workloads.result import Figure, Term, fact_term, sources_of


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
    return sum(owned_components(owned).values(), start=0.0)


def owned_components(owned: Ownership) -> dict[str, Num]:
    """Parts of the cost of a used GPU-hour of an owned GPU.

    ``capital = annuity x capex / hours``, ``electricity = power x price``, ``operation = operation / hours``, and
    ``idle = (1 / occupancy - 1) x`` their sum.

    Parameters
    ----------
    owned : Ownership
        Of one GPU.

    Returns
    -------
    dict of str to float or ndarray
        ``capital``, ``electricity``, ``operation`` and ``idle`` [USD/h]; they add up to the whole.

    Examples
    --------
    >>> owned = Ownership(40_000.0, 5.0, 0.1, 1800.0, 0.08, occupancy_fraction=0.5)
    >>> {name: round(float(part), 3) for name, part in owned_components(owned).items()}
    {'capital': 1.204, 'electricity': 0.144, 'operation': 0.0, 'idle': 1.348}
    """
    capital = annuity_fraction(owned.cost_of_capital_fraction, owned.life_years) * owned.capex_usd_per_gpu
    parts: dict[str, Num] = {
        "capital": capital / HOURS_PER_YEAR,
        "electricity": owned.facility_w_per_gpu / KILO * owned.electricity_usd_per_kwh,
        "operation": owned.operation_usd_per_gpu_year / HOURS_PER_YEAR,
    }
    return {**parts, "idle": (1 / owned.occupancy_fraction - 1) * sum(parts.values(), start=0.0)}


@dataclass(frozen=True, slots=True)
class OwnedGpu:
    """A GPU that somebody may own: the facts its cost rests on.

    Attributes
    ----------
    accelerator : Accelerator
        The chip.
    system : System or None
        What it stands in; without one, its power follows from the TDP.
    ownership : OwnershipEdition
        Capital, life, occupancy, operation.
    prices : PriceEdition
        Of electricity, rent and contracts.
    """

    accelerator: Accelerator
    system: System | None = None
    ownership: OwnershipEdition = field(default_factory=load_ownership)
    prices: PriceEdition = field(default_factory=load_prices)

    @property
    def has_own_capex(self) -> bool:
        """Whether the edition knows what this accelerator costs; otherwise its IT power tells."""
        return self.accelerator.id in self.ownership.capex_usd_per_gpu

    def facts(self) -> dict[str, Fact]:
        """Every fact that the cost of owning rests on.

        Returns
        -------
        dict of str to Fact
            By the name its samples go by.

        Examples
        --------
        >>> from computeledger.facts.load import load_system
        >>> system = load_system("h100-nvl8")
        >>> sorted(OwnedGpu(system.accelerator, system).facts())[:2]
        ['ownership.cost_of_capital_fraction', 'ownership.electricity_usd_per_kwh']
        """
        edition, chip = self.ownership, self.accelerator
        names = ("life_years", "cost_of_capital_fraction", "occupancy_fraction", "operation_usd_per_gpu_year")
        out = {f"ownership.{name}": getattr(edition, name) for name in names}
        out["ownership.electricity_usd_per_kwh"] = self.prices.electricity_usd_per_kwh
        if self.system is None:
            out["ownership.it_over_tdp_ratio"] = edition.it_over_tdp_ratio
            out["ownership.pue_ratio"] = edition.pue_ratio
        else:
            out[f"power.{self.system.id}"] = self.system.facility_w_per_chip
        if self.has_own_capex:
            out[f"ownership.{chip.id}.capex_usd_per_gpu"] = edition.capex_usd_per_gpu[chip.id]
        else:
            out["ownership.capex_usd_per_w"] = edition.capex_usd_per_w
            if self.system is not None:
                out[f"ownership.{self.system.id}.it_w_per_chip"] = self.system.it_w_per_chip
        return out

    def facility_w(self, draws: Mapping[str, Num]) -> Num:
        """Power with cooling and losses: the system's own, or ``TDP x IT over TDP x PUE``.

        Parameters
        ----------
        draws : mapping of str to float or ndarray
            Samples of :meth:`facts`.

        Returns
        -------
        float or ndarray
            Of one GPU [W].
        """
        if self.system is not None:
            return draws[f"power.{self.system.id}"]
        return self.it_w(draws) * draws["ownership.pue_ratio"]

    def it_w(self, draws: Mapping[str, Num]) -> Num:
        """Power with the share of servers and network.

        Parameters
        ----------
        draws : mapping of str to float or ndarray
            Samples of :meth:`facts`.

        Returns
        -------
        float or ndarray
            Of one GPU [W].
        """
        if self.system is not None:
            return draws.get(f"ownership.{self.system.id}.it_w_per_chip", self.system.it_w_per_chip.value)
        return self.accelerator.chip_tdp_w.value * draws["ownership.it_over_tdp_ratio"]

    def owned(self, draws: Mapping[str, Num]) -> Ownership:
        """Gather the numbers of the formula.

        Parameters
        ----------
        draws : mapping of str to float or ndarray
            Samples of :meth:`facts`.

        Returns
        -------
        Ownership
            Of one GPU.
        """
        own = draws.get(f"ownership.{self.accelerator.id}.capex_usd_per_gpu")
        return Ownership(
            capex_usd_per_gpu=draws["ownership.capex_usd_per_w"] * self.it_w(draws) if own is None else own,
            life_years=draws["ownership.life_years"],
            cost_of_capital_fraction=draws["ownership.cost_of_capital_fraction"],
            facility_w_per_gpu=self.facility_w(draws),
            electricity_usd_per_kwh=draws["ownership.electricity_usd_per_kwh"],
            operation_usd_per_gpu_year=draws["ownership.operation_usd_per_gpu_year"],
            occupancy_fraction=draws["ownership.occupancy_fraction"],
        )

    def figure(self, draws: Mapping[str, Num], given: Mapping[str, Uncertain] | None = None) -> Figure:
        """The cost of a used GPU-hour with its working.

        Parameters
        ----------
        draws : mapping of str to float or ndarray
            Samples of :meth:`facts`.
        given : mapping of str to float or Range, optional
            Inputs that the question states instead of the facts.

        Returns
        -------
        Figure
            Named after the accelerator, in USD/h.
        """
        stated = given or {}
        facts = self.facts()
        own = f"ownership.{self.accelerator.id}.capex_usd_per_gpu"
        if own in stated and not self.has_own_capex:
            facts = {name: fact for name, fact in facts.items() if not name.endswith(("_per_w", ".it_w_per_chip"))}
        power = "power" if self.system is not None else "TDP x IT over TDP x PUE"
        capex = "capex" if self.has_own_capex or own in stated else "capex per W x IT power"
        formula = f"(annuity x {capex} + operation + {power} x electricity x hours) / (hours x occupancy)"
        terms = [fact_term(name, fact, draws[name]) for name, fact in facts.items() if name not in stated]
        known = {name: fact.unit for name, fact in self.facts().items()} | {own: "usd"}
        terms += [Term(name, draws[name], known[name], "plan", "given") for name in stated if name in known]
        value = owned_usd_per_gpu_hour(self.owned(draws))
        return Figure(f"price.{self.accelerator.id}.own", value, "USD/h", formula, tuple(terms))


@dataclass(frozen=True, slots=True)
class GpuHour:
    """A GPU-hour had in one way.

    Attributes
    ----------
    kind : str
        ``rent``, ``reserve`` or ``own``.
    usd_per_gpu_hour : float or ndarray
        Of an hour that is used [USD/h].
    components : mapping of str to float or ndarray
        Its parts; they add up to the whole [USD/h].
    figure : Figure
        Its working.
    """

    kind: str
    usd_per_gpu_hour: Num
    components: Mapping[str, Num]
    figure: Figure


@dataclass(frozen=True, slots=True)
class GpuHourCost:
    """The same GPU-hour rented, reserved and owned.

    Attributes
    ----------
    gpu : OwnedGpu
        What it is an hour of.
    by_kind : mapping of str to GpuHour
        By kind.
    missing : mapping of str to str
        Kinds without a price, and why.
    energy_j_per_gpu_hour : float or ndarray
        At the meter of the facility [J/h].
    carbon_kg_per_gpu_hour : float or ndarray
        Of that energy from the grid [kg/h].
    draws : mapping of str to float or ndarray
        Samples of the inputs.
    sources : tuple of str
        Source keys that the figures rest on.
    """

    gpu: OwnedGpu
    by_kind: Mapping[str, GpuHour]
    missing: Mapping[str, str]
    energy_j_per_gpu_hour: Num
    carbon_kg_per_gpu_hour: Num
    draws: Mapping[str, Num]
    sources: tuple[str, ...]

    @property
    def editions(self) -> dict[str, str]:
        """Dated facts that were used."""
        return {"prices": self.gpu.prices.id, "ownership": self.gpu.ownership.id}


def estimate_gpu_hour(
    gpu: OwnedGpu,
    given: Mapping[str, Uncertain] | None = None,
    kinds: tuple[str, ...] = PRICE_KINDS,
    n_samples: int = 4096,
    seed: int = 0,
) -> GpuHourCost:
    """Cost of a used GPU-hour, rented, reserved and owned side by side.

    ``rent = price``; ``reserve = price / occupancy``; ``own`` as :func:`owned_usd_per_gpu_hour`.

    Parameters
    ----------
    gpu : OwnedGpu
        With its facts.
    given : mapping of str to float or Range, optional
        Inputs by name of :meth:`OwnedGpu.facts` that the question states instead, each in its own SI unit.
    kinds : tuple of str
        Of :data:`computeledger.facts.editions.PRICE_KINDS`.
    n_samples : int
        Samples of the uncertain inputs [-].
    seed : int
        Of the sampling [-].

    Returns
    -------
    GpuHourCost
        By kind, with components, working, energy and carbon.

    Raises
    ------
    InputError
        A kind or a stated input that does not exist, or no price of any of the kinds.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> system = load_system("h100-nvl8")
    >>> cost = estimate_gpu_hour(OwnedGpu(system.accelerator, system))
    >>> sorted(cost.by_kind), bool(1.5 < np.median(cost.by_kind["own"].usd_per_gpu_hour) < 2.5)
    (['own', 'rent', 'reserve'], True)
    """
    for kind in kinds:
        if kind not in PRICE_KINDS:
            raise InputError(f"kind {kind!r}: {nearest(kind, PRICE_KINDS)}")
    facts = gpu.facts()
    carbon = "ownership.carbon_kg_per_kwh"
    prices = gpu.prices.usd_per_gpu_hour.get(gpu.accelerator.id, {})
    priced = {kind: prices[kind] for kind in kinds if kind in prices and kind != "own"}
    inputs = {name: fact.uncertain for name, fact in {**facts, carbon: gpu.ownership.carbon_kg_per_kwh}.items()}
    inputs |= {_price_name(gpu, kind): fact.uncertain for kind, fact in priced.items()}
    known = {*inputs, f"ownership.{gpu.accelerator.id}.capex_usd_per_gpu"}
    for name in given or {}:
        if name not in known:
            raise InputError(f"{name!r} is no input of a GPU-hour's cost: {nearest(name, sorted(known))}")
    draws = sample({**inputs, **(given or {})}, n_samples, seed)
    hours = {kind: _bought(gpu, kind, fact, draws, given or {}) for kind, fact in priced.items()}
    if "own" in kinds:
        owned = gpu.owned(draws)
        hours["own"] = GpuHour("own", owned_usd_per_gpu_hour(owned), owned_components(owned), gpu.figure(draws, given))
    missing = {kind: f"price edition {gpu.prices.id} has none" for kind in kinds if kind not in hours}
    if not hours:
        raise InputError(f"price edition {gpu.prices.id} has no {' or '.join(missing)} price of {gpu.accelerator.id}")
    energy = gpu.facility_w(draws) * HOUR_S
    return GpuHourCost(
        gpu=gpu,
        by_kind={kind: hours[kind] for kind in PRICE_KINDS if kind in hours},
        missing=missing,
        energy_j_per_gpu_hour=energy,
        carbon_kg_per_gpu_hour=energy / (KILO * WH_J) * draws[carbon],
        draws=draws,
        sources=tuple(sorted(sources_of([one.figure for one in hours.values()]))),
    )


def _price_name(gpu: OwnedGpu, kind: str) -> str:
    return f"price.{gpu.accelerator.id}.{kind}"


def _bought(gpu: OwnedGpu, kind: str, fact: Fact, draws: Mapping[str, Num], given: Mapping[str, Uncertain]) -> GpuHour:
    """An hour at a price: a reserved one is paid for whether it is used or not."""
    name, key = _price_name(gpu, kind), "ownership.occupancy_fraction"
    price, occupancy = draws[name], draws[key]
    facts = {name: fact, key: gpu.ownership.occupancy_fraction}
    paid, used = (
        Term(one, draws[one], stated.unit, "plan", "given") if one in given else fact_term(one, stated, draws[one])
        for one, stated in facts.items()
    )
    paid = replace(paid, unit="USD/h")
    if kind == "rent":
        return GpuHour(kind, price, {"price": price}, Figure(f"{name}.used", price, "USD/h", "price", (paid,)))
    whole = price / occupancy
    parts = {"price": price, "idle": whole - price}
    return GpuHour(kind, whole, parts, Figure(f"{name}.used", whole, "USD/h", "price / occupancy", (paid, used)))
