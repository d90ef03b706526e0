"""What a fact must carry, and the records made of facts: accelerators, systems, prices, ownership, storage tiers.

A fact without value, unit, source key, date and locator cannot be built. The unit must agree with the name of
the field that holds it, because a quantity's name ends in its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from computeledger.arrays import Range, Uncertain
from computeledger.facts.formats import FORMATS

#: Bytes of one stored value with its scales, by the name of its format.
PRECISION_BYTES: Mapping[str, float] = {name: one.bits / 8 for name, one in FORMATS.items()}
#: Formats that products are quoted in and trained in, and those of a cache.
FLOAT_PRECISIONS = ("bf16", "fp8", "fp4")
KV_PRECISIONS = (*FLOAT_PRECISIONS, "int8", "int4", "q8_0", "q4_0")
#: What a peak may be quoted for.
PEAK_PRECISIONS = (*FLOAT_PRECISIONS, "int8")


@dataclass(frozen=True, slots=True)
class Fact:
    """A number that somebody published.

    Attributes
    ----------
    value : float
        In ``unit``.
    unit : str
        SI unit, such as ``bytes_per_s``: what the name of the field ends in that holds the fact.
    given : str
        As published, with people's units.
    source, date, locator : str
        Key of the source, ISO date of the statement, and where in the source it stands.
    note : str
        Conflicts with other sources and the reason of the choice, boundaries, conversions.
    low, high : float or None
        Range over sources where they disagree, in ``unit``.
    """

    value: float
    unit: str
    given: str
    source: str
    date: str
    locator: str
    note: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def uncertain(self) -> Uncertain:
        """The value, or the range over sources where they disagree, in ``unit``."""
        if self.low is not None and self.high is not None:
            if self.unit == "fraction":
                return Range(self.low, self.high, bounded=True)
            return Range(self.low, self.high, mid=self.value)
        return self.value


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU package (or TPU / Trainium chip); peaks are dense.

    Attributes
    ----------
    id, name, vendor : str
        Exact id, published name, maker.
    scope : str
        What one unit is: a package, and how many compute dies are in it.
    hbm_bytes, hbm_bytes_per_s : Fact
        Capacity [byte] and bandwidth [byte/s] of one package.
    peak_flop_per_s : mapping of str to Fact
        Dense peak by precision [FLOP/s].
    chip_tdp_w : Fact
        Thermal design power of the package [W].
    dies : int
        Compute dies in the package.
    packages_per_superchip : int
        Packages on one superchip; 1 where there is none.
    family : str
        Chips of one family share kernels, and what was measured of them: ``hopper``; empty where it is not stated.
    short_name : str
        As publications name it: ``H100``; the name of the form that the systems are made of.
    aliases : tuple of str
        What else people call it: ``4090``, ``DGX Spark``.
    node : str
        Id of what it stands in where nothing else is stated: a :class:`Node`, or the shipped system made of it.
    announced : bool
        True where it was not shipping at the date of the facts.
    wide_unit : str
        What 16-bit weights are multiplied in, whose peak ``bf16`` holds: ``fp16`` on chips without bf16 units.
    usable_hbm_bytes : Fact or None
        What its driver or operating system lets programs hold, where that was read or differs: drivers count in powers
        of two, and macOS keeps a part [byte].
    """

    id: str
    name: str
    vendor: str
    scope: str
    hbm_bytes: Fact
    hbm_bytes_per_s: Fact
    peak_flop_per_s: Mapping[str, Fact]
    chip_tdp_w: Fact
    dies: int = 1
    announced: bool = False
    packages_per_superchip: int = 1
    family: str = ""
    short_name: str = ""
    node: str = ""
    aliases: tuple[str, ...] = ()
    wide_unit: str = "bf16"
    usable_hbm_bytes: Fact | None = None

    @property
    def usable_bytes(self) -> float:
        """Memory that programs can hold: what the driver offers, else the data sheet's capacity [byte]."""
        return (self.usable_hbm_bytes or self.hbm_bytes).value

    @property
    def unit_name(self) -> str:
        """What one of them is called: ``GPU``, ``chip`` or ``processor``, as the scope says."""
        if "server processor" in self.scope:
            return "processor"
        return "GPU" if "GPU" in self.scope and not self.shares_memory else "chip"

    @property
    def shares_memory(self) -> bool:
        """Whether its memory is the host's too, as the scope says: nothing can be kept in host memory instead."""
        return any(word in self.scope for word in ("shared memory", "server processor", "processor dies"))

    def peak(self, precision: str) -> float:
        """Dense peak of the units that multiply a format.

        Parameters
        ----------
        precision : str
            A key of :data:`PRECISION_BYTES`.

        Returns
        -------
        float
            Peak of one package [FLOP/s].
        """
        return self.peak_flop_per_s[self.native_precision(precision)].value

    def native_precision(self, precision: str) -> str:
        """Precision in which the chip multiplies weights stored in a format.

        A chip without fp8 units runs fp8 weights through its bf16 units; int8 units slower than the bf16 ones (B300)
        are left idle.

        Parameters
        ----------
        precision : str
            A key of :data:`PRECISION_BYTES`.

        Returns
        -------
        str
            The first of the format's units that the chip has; every chip has bf16.
        """
        peaks = self.peak_flop_per_s
        for name in FORMATS[precision].units:
            if name in peaks:
                return "bf16" if peaks[name].value < peaks["bf16"].value else name
        return "bf16"


@dataclass(frozen=True, slots=True)
class Node:
    """A server, workstation or device that takes accelerators of many kinds: a system without its accelerator.

    Attributes
    ----------
    id, name : str
        Exact id and published name.
    n_gpus_scale_up : Fact
        Packages in one scale-up domain, when it is full [-].
    scale_up_bytes_per_s_per_gpu, scale_out_bytes_per_s_per_gpu : Fact
        Bandwidth of one package, per direction [byte/s].
    scale_up_latency_s, scale_out_latency_s : Fact
        Time of the smallest transfer [s].
    host_link_bytes_per_s_per_gpu, host_bytes_per_gpu : Fact or None
        Link of one package to its host, per direction, and its share of the host's memory; None where nothing is
        stated [byte/s, byte].
    pair_link_fraction, ring_link_fraction : Fact or None
        Share of a link inside the domain that a collective of two and of more packages reaches, where they meet over
        PCIe; None where switches or links of their own join them, whose share is fitted [-].
    it_over_tdp_ratio, facility_over_it_ratio : Fact or None
        Power of one package with its share of the server and network, over its thermal design power; with cooling and
        losses, over that; None for those of the ownership edition [-].
    """

    id: str
    name: str
    n_gpus_scale_up: Fact
    scale_up_bytes_per_s_per_gpu: Fact
    scale_out_bytes_per_s_per_gpu: Fact
    scale_up_latency_s: Fact
    scale_out_latency_s: Fact
    it_over_tdp_ratio: Fact | None = None
    facility_over_it_ratio: Fact | None = None
    host_link_bytes_per_s_per_gpu: Fact | None = None
    host_bytes_per_gpu: Fact | None = None
    pair_link_fraction: Fact | None = None
    ring_link_fraction: Fact | None = None


@dataclass(frozen=True, slots=True)
class System:
    """A scale-up domain of accelerators and the fabric beyond it.

    Attributes
    ----------
    id, name : str
        Exact id and published name.
    accelerator : Accelerator
        What it is made of.
    n_gpus_scale_up : Fact
        Packages in one scale-up domain [-].
    scale_up_bytes_per_s_per_gpu, scale_out_bytes_per_s_per_gpu : Fact
        Bandwidth of one package, per direction [byte/s].
    scale_up_latency_s, scale_out_latency_s : Fact
        Time of the smallest transfer [s].
    it_w_per_chip, facility_w_per_chip : Fact
        Power of one package with its share of the servers and network; with cooling and losses too [W].
    oversubscription_ratio : Fact or None
        Bandwidth of a switch's ports towards the accelerators over that towards the next tier of switches, which what
        leaves a pod passes; 1 where it is not stated [-].
    n_gpus_pod : Fact or None
        Packages among which the fabric has its full bandwidth; one scale-up domain where it is not stated [-].
    host_link_bytes_per_s_per_gpu, host_bytes_per_gpu : Fact or None
        Link of one package to its host, per direction, and its share of the host's memory; None where nothing is
        stated [byte/s, byte].
    pair_link_fraction, ring_link_fraction : Fact or None
        Share of a link inside the domain that a collective of two and of more packages reaches, where they meet over
        PCIe; None where switches or links of their own join them, whose share is fitted [-].
    n_gpus : int or None
        Packages at hand, where the name of the system counts them: ``2xl40s``.
    measured_as : str
        Shipped system of which this is a part or a multiple, whose measurements hold here; empty where there is none.
    """

    id: str
    name: str
    accelerator: Accelerator
    n_gpus_scale_up: Fact
    scale_up_bytes_per_s_per_gpu: Fact
    scale_out_bytes_per_s_per_gpu: Fact
    scale_up_latency_s: Fact
    scale_out_latency_s: Fact
    it_w_per_chip: Fact
    facility_w_per_chip: Fact
    oversubscription_ratio: Fact | None = None
    n_gpus_pod: Fact | None = None
    host_link_bytes_per_s_per_gpu: Fact | None = None
    host_bytes_per_gpu: Fact | None = None
    pair_link_fraction: Fact | None = None
    ring_link_fraction: Fact | None = None
    n_gpus: int | None = None
    measured_as: str = ""

    @property
    def is_one_machine(self) -> bool:
        """Whether all that the name counts stands in one scale-up domain: nothing crosses a network."""
        return self.n_gpus is not None and self.n_gpus <= self.n_gpus_scale_up.value

    @property
    def thinner_ratio(self) -> float:
        """Bandwidth within a pod over that between pods; 1 where the fabric is not oversubscribed [-]."""
        return 1.0 if self.oversubscription_ratio is None else self.oversubscription_ratio.value

    @property
    def pod_gpus(self) -> float:
        """Packages among which the fabric has its full bandwidth; a scale-up domain's where no pod is stated [-]."""
        return self.n_gpus_scale_up.value if self.n_gpus_pod is None else self.n_gpus_pod.value

    @property
    def cross_domain_bytes_per_s_per_gpu(self) -> float:
        """Bandwidth of one package towards other scale-up domains of its pod, all sending, per direction [byte/s]."""
        return self.scale_out_bytes_per_s_per_gpu.value / (1.0 if self.n_gpus_pod is not None else self.thinner_ratio)

    @property
    def cross_pod_bytes_per_s_per_gpu(self) -> float:
        """Bandwidth of one package towards other pods, all of them sending, per direction [byte/s]."""
        return self.scale_out_bytes_per_s_per_gpu.value / self.thinner_ratio


@dataclass(frozen=True, slots=True)
class PriceEdition:
    """GPU-hour prices as of one date; immutable once published."""

    id: str
    usd_per_gpu_hour: Mapping[str, Mapping[str, Fact]]
    electricity_usd_per_kwh: Fact
    extra: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnershipEdition:
    """What owning a GPU takes, as of one date; immutable once published.

    The price of electricity is not here: it belongs to the price edition.
    """

    id: str
    capex_usd_per_gpu: Mapping[str, Fact]
    capex_usd_per_w: Fact
    life_years: Fact
    cost_of_capital_fraction: Fact
    occupancy_fraction: Fact
    operation_usd_per_gpu_year: Fact
    pue_ratio: Fact
    it_over_tdp_ratio: Fact
    carbon_kg_per_kwh: Fact


@dataclass(frozen=True, slots=True)
class Tier:
    """One kind of memory or storage below the GPU's own."""

    id: str
    name: str
    capacity_bytes: Fact
    read_bytes_per_s: Fact
    usd_per_byte: Fact

    @property
    def drain_s(self) -> float:
        """Time to read one full unit once, capacity over bandwidth [s]."""
        return self.capacity_bytes.value / self.read_bytes_per_s.value


@dataclass(frozen=True, slots=True)
class TierEdition:
    """Memory and storage tiers as of one date; immutable once published."""

    id: str
    tiers: Mapping[str, Tier]
