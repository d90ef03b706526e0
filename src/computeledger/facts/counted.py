"""Systems that a count makes: N of an accelerator in its usual node, N of a system, with a thinner fabric beyond it.

An accelerator's node is part of its facts: a :class:`~computeledger.facts.schema.Node` with the accelerator put into
it, or the shipped system that is made of it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass

from computeledger.errors import InputError, only_one, shown
from computeledger.facts.catalog import normal_id
from computeledger.facts.editions import load_ownership
from computeledger.facts.reading import ASSUMPTION
from computeledger.facts.schema import Accelerator, Fact, Node, System
from computeledger.fields import MOST_COUNT
from computeledger.units import BITS_PER_BYTE, GIGA

_COUNTED = re.compile(
    r"(?:(?!0\d+-+[a-z])(?P<n>\d+)(?:-*[x×*]-*|-+(?=[a-z])))?(?P<name>[a-z0-9].*?)"
    r"(?:,?-*with-(?P<nics>\d+)-*[x×*]-*(?P<gbit>\d+(?:\.\d+)?)-*(?:gbit/s|gb/s|gbps|gbit|g))?"
    r"(?:,?-*oversubscribed-(?P<ratio>\d+(?:\.\d+)?)(?:-?(?::|to)-?1)?(?:-(?:above|beyond)-(?P<pod>\d+))?)?"
)
#: A count that is no whole number, is not above 0, stands behind the name, or has nothing beside it.
_MISWRITTEN = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<n>[-+]?(?:\d+\.?\d*|\.\d+)(?:e\d)?)-*[x×*]-*(?P<name>[a-z0-9].*)",
        r"(?P<name>[a-z0-9].*?)-*[-x×*]-*(?P<n>\d{1,9})",
        r"(?P<n>\d{1,9})-*(?P<name>[a-z].*)",
    )
)
#: Up to so many accelerators a scale-up domain is called by them, beyond by what it is sold as.
_SERVER = 8
#: Largest ratio of a fabric's bandwidth below its switches to that above.
_MOST_OVERSUBSCRIBED = 1000.0
#: Most network ports of a node, and the most bandwidth of one [Gbit/s].
_MOST_PORTS, _MOST_GBIT = 1024, 10_000.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What a text counts: how many of what, the network ports of a node, and how thin the fabric is beyond a pod.

    Attributes
    ----------
    n : int or None
        Accelerators, or systems [-].
    name : str
        Of what is counted.
    oversubscription_ratio : float or None
        Of the fabric beyond a pod, or beyond a scale-up domain where no pod is stated [-].
    n_gpus_pod : int or None
        Accelerators among which the fabric has its full bandwidth [-].
    ports : tuple of int and float, or None
        Network ports of a node, and the bandwidth of one [-], [Gbit/s].
    """

    n: int | None
    name: str
    oversubscription_ratio: float | None = None
    n_gpus_pod: int | None = None
    ports: tuple[int, float] | None = None

    def id_of(self, record: System | Accelerator) -> str:
        """The one way in which the system is written.

        Examples
        --------
        >>> read_counted("4 x H100-NVL8 oversubscribed 2:1").oversubscription_ratio
        2.0
        """
        count = "" if self.n is None else f"{self.n}x"
        ports = "" if self.ports is None else f"-with-{self.ports[0]}x{self.ports[1]:g}gbit"
        thin = "" if self.oversubscription_ratio is None else f"-oversubscribed-{self.oversubscription_ratio:g}"
        above = "" if self.n_gpus_pod is None else f"-above-{self.n_gpus_pod}"
        return f"{count}{record.id}{ports}{thin}{above}"


def read_counted(given: str) -> Counted | None:
    """Read ``2xl40s`` or ``16xb200-nvl8 with 4x100Gb/s oversubscribed 2:1 above 512``; None where nothing is counted.

    Examples
    --------
    >>> read_counted("16 x h100-nvl8 with 4 x 100 Gb/s oversubscribed 7:1 above 64").ports
    (4, 100.0)
    >>> read_counted("2 x L40S").name, read_counted("2 L40S").n, read_counted("h100-nvl8")
    ('l40s', 2, None)
    >>> read_counted("01-ai/Yi-34B")  # a name
    """
    if several := only_one("system", given):
        raise several
    found = _COUNTED.fullmatch(normal_id(given))
    if found is None or (found["n"] is None and found["ratio"] is None and found["nics"] is None):
        return None
    n = None if found["n"] is None or len(found["n"]) > len(str(MOST_COUNT)) else int(found["n"])
    if n == 0:
        return None  # refused with the other counts that cannot be
    if found["n"] is not None and (n is None or n > MOST_COUNT):
        raise InputError(f"system {shown(given)}: from 1 to {MOST_COUNT} can be counted")
    ratio = None if found["ratio"] is None else float(found["ratio"])
    if ratio is not None and not 1 <= ratio <= _MOST_OVERSUBSCRIBED:
        raise InputError(f"system {shown(given)}: a fabric is oversubscribed from 1 to {_MOST_OVERSUBSCRIBED:g} times")
    ports = None if found["nics"] is None else (int(found["nics"]), float(found["gbit"]))
    if ports is not None and not (0 < ports[0] <= _MOST_PORTS and 0 < ports[1] <= _MOST_GBIT):
        raise InputError(f"system {shown(given)}: a node has 1 to {_MOST_PORTS} ports of up to {_MOST_GBIT:g} Gbit/s")
    return Counted(n, found["name"], ratio, None if found["pod"] is None else int(found["pod"]), ports)


def called(system: System) -> str:
    """What people call a system: what boxes show, and what is read as the system."""
    n = system.n_gpus_scale_up.value
    return f"{n:.0f} {system.accelerator.short_name}" if n <= _SERVER else system.name.partition(",")[0]


def meant_count(given: str) -> tuple[int, str] | None:
    """The count and the name in a text that says both in another form than ``N x NAME``; None where it does not.

    Examples
    --------
    >>> meant_count("3.5xl40s"), meant_count("L40S x 2"), meant_count("2l40s"), meant_count("l40s")
    ((4, 'l40s'), (2, 'l40s'), (2, 'l40s'), None)
    """
    for pattern in _MISWRITTEN:
        found = pattern.fullmatch(normal_id(given))
        if found is not None:
            return min(max(math.ceil(abs(float(found["n"]))), 1), MOST_COUNT), found["name"]
    return None


def compact(name: str) -> str:
    """A name without what people write in many ways.

    Examples
    --------
    >>> compact("RTX 4090") == compact("rtx4090"), compact("TPU v5e")
    (True, 'tpuv5e')
    """
    return re.sub(r"[^a-z0-9+]", "", name.lower())


def in_node(chip: Accelerator, node: Node | System) -> System:
    """A full node of an accelerator: power follows its thermal design power where the node is made for several."""
    if isinstance(node, System):
        own = node.accelerator.id == chip.id
        return dataclasses.replace(node, measured_as=node.id) if own else _refitted(chip, node)
    rule = load_ownership()
    it_ratio, facility_ratio = node.it_over_tdp_ratio or rule.it_over_tdp_ratio, node.facility_over_it_ratio
    it = _times(chip.chip_tdp_w, it_ratio, f"{chip.chip_tdp_w.value:g} W of thermal design power")
    facility = _times(it, facility_ratio or rule.pue_ratio, f"{it.value:g} W of IT power")
    return System(
        id=node.id,
        name=node.name,
        accelerator=chip,
        n_gpus_scale_up=node.n_gpus_scale_up,
        scale_up_bytes_per_s_per_gpu=node.scale_up_bytes_per_s_per_gpu,
        scale_out_bytes_per_s_per_gpu=node.scale_out_bytes_per_s_per_gpu,
        scale_up_latency_s=node.scale_up_latency_s,
        scale_out_latency_s=node.scale_out_latency_s,
        it_w_per_chip=it,
        facility_w_per_chip=facility,
        host_link_bytes_per_s_per_gpu=node.host_link_bytes_per_s_per_gpu,
        host_bytes_per_gpu=node.host_bytes_per_gpu,
        pair_link_fraction=node.pair_link_fraction,
        ring_link_fraction=node.ring_link_fraction,
    )


def _refitted(chip: Accelerator, system: System) -> System:
    """A shipped system with another accelerator in it; it takes power as that one does."""
    ratio = chip.chip_tdp_w.value / system.accelerator.chip_tdp_w.value
    why = f"{system.id}, by thermal design power"
    factor = Fact(ratio, "ratio", f"{ratio:.3g}", ASSUMPTION, chip.chip_tdp_w.date, "chosen here")
    it, facility = (_times(fact, factor, f"{fact.given} of {why}")
                    for fact in (system.it_w_per_chip, system.facility_w_per_chip))  # fmt: skip
    return dataclasses.replace(system, accelerator=chip, it_w_per_chip=it, facility_w_per_chip=facility)


def _times(fact: Fact, ratio: Fact, of_what: str) -> Fact:
    """A power that follows from another by a ratio: an assumption, with both ranges."""
    value = fact.value * ratio.value
    low = (fact.low or fact.value) * (ratio.low or ratio.value)
    high = (fact.high or fact.value) * (ratio.high or ratio.value)
    known = {"low": low, "high": high} if low < high else {}
    note = f"{of_what} x {ratio.value:.3g}"
    return Fact(value, "w", f"{value:.4g} W", ASSUMPTION, ratio.date, "chosen here", note, **known)


def counted(asked: Counted, record: System | Accelerator, node: System) -> System:
    """N of an accelerator in its node, or N of a system: whole scale-up domains, or a part of one."""
    domain, n = node.n_gpus_scale_up, asked.n
    n_gpus, name = node.n_gpus, node.name
    if n is not None:
        name = f"{n} x {record.name}"
        n_gpus = n * int(domain.value) if isinstance(record, System) else n
        domain = domain if isinstance(record, System) else _domain(n, record, node)
    made = dataclasses.replace(node, id=asked.id_of(record), name=name, n_gpus=n_gpus, n_gpus_scale_up=domain)
    return _with_fabric(made, asked, int(node.n_gpus_scale_up.value))


def _with_fabric(made: System, asked: Counted, domain: int) -> System:
    """What a text states of the network beyond a node."""
    date = made.scale_out_bytes_per_s_per_gpu.date

    def stated(value: float, unit: str, given: str) -> Fact:
        return Fact(value, unit, given, ASSUMPTION, date, "as asked", "stated with the system")

    if asked.ports is not None:
        ports, gbit = asked.ports
        each = ports * gbit * GIGA / BITS_PER_BYTE / domain
        port = stated(each, "bytes_per_s", f"{ports} x {gbit:g} Gbit/s for {domain}")
        made = dataclasses.replace(made, scale_out_bytes_per_s_per_gpu=port)
    if (ratio := asked.oversubscription_ratio) is not None:
        made = dataclasses.replace(made, oversubscription_ratio=stated(ratio, "ratio", f"{ratio:g}:1"))
    if (pod := asked.n_gpus_pod) is not None:
        if pod < domain or pod % domain:
            whole = f"a pod is whole scale-up domains of {domain}: {pod} is no multiple"
            raise InputError(f"system {shown(made.id)}: {whole}")
        made = dataclasses.replace(made, n_gpus_pod=stated(float(pod), "count", f"{pod} GPUs"))
    return made


def _domain(n: int, chip: Accelerator, node: System) -> Fact:
    """GPUs that scale up together: all of them, or a node's where there are several."""
    full = node.n_gpus_scale_up
    domain = int(full.value)
    if n < domain:
        return dataclasses.replace(full, value=float(n), given=f"{n} GPUs", note=f"of at most {domain} in one domain")
    if n % domain:
        slices = next((k for k in range(2, 2 * math.ceil(n / domain) + 1) if n % k == 0 and n // k <= domain), 0)
        if chip.family == "tpu" and slices:  # a pod may be sliced
            each = n // slices
            return dataclasses.replace(full, value=float(each), given=f"{slices} slices of {each} chips")
        raise InputError(
            f"{n} x {chip.id} fill no whole number of nodes of {domain} ({node.name}): ask for {n - n % domain} or "
            f"{n - n % domain + domain}, or state the node in a TOML file"
        )
    return full
