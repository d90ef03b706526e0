"""A training system: chips, power at three boundaries, money, H100-equivalents and FLOP per month."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Z_95, Num, Range, Uncertain, median, sample
from computeledger.economics.hosting.cost import OwnedGpu, Ownership, annuity_fraction
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_accelerator, load_system, system_ids
from computeledger.facts.schema import Accelerator, Fact, System
from computeledger.frontier.described import Part, parse_description
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.physics.blackboard.training import cluster_flop, h100e
from computeledger.units import GIGA, HOURS_PER_YEAR, KILO, MONTH_S

#: Epoch counts H100-equivalents at 8 bit, the source documents at bf16.
REFERENCE = "h100-sxm5-80gb"
#: Chips of a system at most (a limit of the search for layouts, not of the world).
MOST_CHIPS = GIGA
_STANDARD_NORMAL = Range(-Z_95, Z_95)


@dataclass(frozen=True, slots=True)
class Generation:
    """The chips of one kind in a system.

    Attributes
    ----------
    part : Part
        As described.
    accelerator : Accelerator
        The chip.
    system : System or None
        The scale-up domain it is taken to stand in.
    chips : float or ndarray
        GPU packages [-].
    it_w_per_chip, facility_w_per_chip, capex_usd_per_chip : float or ndarray
        With servers and network [W]; with cooling and losses [W]; with its share of everything [USD].
    """

    part: Part
    accelerator: Accelerator
    system: System | None
    chips: Num
    it_w_per_chip: Num
    facility_w_per_chip: Num
    capex_usd_per_chip: Num

    @property
    def scale_up_worlds(self) -> Num | None:
        """Scale-up domains that the chips fill; None where no shipped one is made of them [-]."""
        return None if self.system is None else self.chips / self.system.n_gpus_scale_up.value

    @property
    def scale_up_hbm_bytes(self) -> float | None:
        """HBM of one of them [byte]."""
        return None if self.system is None else self.system.n_gpus_scale_up.value * self.accelerator.hbm_bytes.value


@dataclass(frozen=True, slots=True)
class TrainingSystem:
    """A described system with what it has.

    Attributes
    ----------
    text : str
        The description.
    generations : tuple of Generation
        One or more.
    yearly_usd : float or ndarray
        Capital, electricity and operation of a year [USD].
    """

    text: str
    generations: tuple[Generation, ...]
    yearly_usd: Num

    @property
    def chips(self) -> Num:
        """GPU packages [-]."""
        return _sum(one.chips for one in self.generations)

    @property
    def dies(self) -> Num:
        """Compute dies [-]."""
        return _sum(one.chips * one.accelerator.dies for one in self.generations)

    @property
    def hbm_bytes(self) -> Num:
        """HBM of all chips [byte]."""
        return _sum(one.chips * one.accelerator.hbm_bytes.value for one in self.generations)

    @property
    def capex_usd(self) -> Num:
        """Purchase with servers, network and building [USD]."""
        return _sum(one.chips * one.capex_usd_per_chip for one in self.generations)

    @property
    def power_w(self) -> dict[str, Num]:
        """Power by boundary [W]."""
        return {
            "chip": _sum(one.chips * one.accelerator.chip_tdp_w.value for one in self.generations),
            "it": _sum(one.chips * one.it_w_per_chip for one in self.generations),
            "facility": _sum(one.chips * one.facility_w_per_chip for one in self.generations),
        }

    def peak_flop_per_s(self, precision: str) -> Num:
        """Dense peak of all chips; a chip without the precision counts at the next wider one.

        Parameters
        ----------
        precision : str
            ``bf16``, ``fp8`` or ``fp4``.

        Returns
        -------
        float or ndarray
            Rate [FLOP/s].
        """
        return _sum(one.chips * one.accelerator.peak(precision) for one in self.generations)

    def h100e(self, precision: str) -> Num:
        """H100-equivalents at a precision.

        Parameters
        ----------
        precision : str
            ``bf16`` or ``fp8``.

        Returns
        -------
        float or ndarray
            Ratio of peaks [-].
        """
        return h100e(1.0, self.peak_flop_per_s(precision), load_accelerator(REFERENCE).peak(precision))

    def flop(self, precision: str, duration_s: float, utilization_fraction: Num) -> Num:
        """Model FLOP of a run on the whole system.

        Parameters
        ----------
        precision : str
            ``bf16``, ``fp8`` or ``fp4``.
        duration_s : float
            Length of the run [s].
        utilization_fraction : float or ndarray
            Of the dense peak [-].

        Returns
        -------
        float or ndarray
            Work [FLOP].
        """
        return cluster_flop(1.0, duration_s, self.peak_flop_per_s(precision), utilization_fraction)

    @property
    def precisions(self) -> tuple[str, ...]:
        """Precisions that every chip has units for."""
        return tuple(
            one
            for one in ("bf16", "fp8", "fp4")
            if all(part.accelerator.native_precision(one) == one for part in self.generations)
        )


def _sum(values: Iterable[Num]) -> Num:
    return sum(values, start=0.0)


@functools.cache
def system_of_accelerator(accelerator_id: str) -> System | None:
    """Scale-up domain that an accelerator is sold in.

    Parameters
    ----------
    accelerator_id : str
        Exact id.

    Returns
    -------
    System or None
        The shipped one; None where no shipped system is made of it.

    Examples
    --------
    >>> system_of_accelerator("gb200-gpu").id, system_of_accelerator("tpu-v4")
    ('gb200-nvl72', None)
    """
    return next((one for one in map(load_system, system_ids()) if one.accelerator.id == accelerator_id), None)


def described_system(text: str, n_samples: int = 4096, seed: int = 0) -> TrainingSystem:
    """Work out a system from its description.

    What is given stays exact; what follows from a power or a price with a range over sources is an interval. A chip's
    IT and facility power move together, as sites with more servers per chip have more of both.

    Parameters
    ----------
    text : str
        As :func:`computeledger.frontier.described.parse_description` reads it.
    n_samples : int
        Samples of the uncertain facts [-].
    seed : int
        Of the sampling [-].

    Returns
    -------
    TrainingSystem
        Chips, power, money.

    Examples
    --------
    >>> from computeledger.arrays import median
    >>> system = described_system("400 MW facility of gb200-gpu")
    >>> round(median(system.chips), -3), round(median(system.power_w["facility"]))
    (142000.0, 400000000)
    """
    generations, yearly = [], []
    for part in parse_description(text):
        generation, cost = _generation(part, n_samples, seed)
        if median(generation.chips) > MOST_CHIPS:
            raise InputError(f"{shown(text)}: that is {median(generation.chips):.3g} chips, more than {MOST_CHIPS:.0g}")
        generations.append(generation)
        yearly.append(cost)
    return TrainingSystem(text, tuple(generations), _sum(yearly))


def _generation(part: Part, n_samples: int, seed: int) -> tuple[Generation, Num]:
    system = system_of_accelerator(part.accelerator_id)
    owned = OwnedGpu(load_accelerator(part.accelerator_id), system)
    facts = owned.facts()
    if system is not None:
        facts[f"ownership.{system.id}.it_w_per_chip"] = system.it_w_per_chip
    inputs: dict[str, Uncertain] = {name: fact.uncertain for name, fact in facts.items() if not _is_power(name)}
    draws = sample({**inputs, "power": _STANDARD_NORMAL}, n_samples, seed)
    draws |= {name: _at(fact, draws["power"]) for name, fact in facts.items() if _is_power(name)}
    it_w = owned.it_w(draws)
    # in the tails of the two ranges a site would use less than its servers do
    one = replace(owned.owned(draws), facility_w_per_gpu=np.maximum(owned.facility_w(draws), it_w))
    per = {
        "chip": owned.accelerator.chip_tdp_w.value,
        "it": it_w,
        "facility": one.facility_w_per_gpu,
        "capex": one.capex_usd_per_gpu,
        "rent": HOURS_PER_YEAR,
        "chips": 1.0,
    }
    chips = part.amount / per[part.kind]
    made = Generation(part, owned.accelerator, system, chips, per["it"], per["facility"], per["capex"])
    return made, chips * yearly_usd_per_chip(one)


def _is_power(name: str) -> bool:
    return name.startswith("power.") or name.endswith(".it_w_per_chip")


def _at(fact: Fact, score: Num) -> Num:
    """A fact at a standard normal score of its range."""
    return fact.uncertain.quantile(score) if isinstance(fact.uncertain, Range) else fact.value


def yearly_usd_per_chip(owned: Ownership) -> Num:
    """Cost of a chip for a year, whether it is busy or not: ``annuity x capex + power x electricity + operation``.

    Parameters
    ----------
    owned : Ownership
        Of one chip.

    Returns
    -------
    float or ndarray
        Cost [USD].

    Examples
    --------
    >>> round(float(yearly_usd_per_chip(Ownership(40_000.0, 5.0, 0.1, 2000.0, 0.1, 600.0))))
    12905
    """
    capital = annuity_fraction(owned.cost_of_capital_fraction, owned.life_years) * owned.capex_usd_per_gpu
    energy = owned.facility_w_per_gpu / KILO * HOURS_PER_YEAR * owned.electricity_usd_per_kwh
    return capital + energy + owned.operation_usd_per_gpu_year


def flop_per_month(
    system: TrainingSystem, utilization_fraction: Num = PRETRAINING_UTILIZATION_FRACTION
) -> Mapping[str, Num]:
    """Model FLOP of a month by precision.

    Parameters
    ----------
    system : TrainingSystem
        Described.
    utilization_fraction : float or ndarray
        Of the dense peak at that precision [-].

    Returns
    -------
    mapping of str to float or ndarray
        By precision that every chip has [FLOP].

    References
    ----------
    training-systems C036.

    Examples
    --------
    >>> f"{flop_per_month(described_system('1 chips of h100-sxm5-80gb'))['bf16']:.3g}"
    '1.04e+21'
    """
    return {one: system.flop(one, MONTH_S, utilization_fraction) for one in system.precisions}
