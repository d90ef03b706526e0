"""Time of collectives: scale-up domain first, scale-out beyond it.

A group of ``g`` GPUs puts ``min(g, domain)`` of them in one scale-up domain. With the ideal efficiency the latency is
kept: it is a fact of the fabric, not a loss. What a byte takes is worked out first: group and machine are few numbers,
messages may be many.
"""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.roofline import Machine

#: Growth of a collective's latency per doubling of its group (assumption: tree depth, measured 3-5 us at 2 to 8 GPUs).
LATENCY_PER_DOUBLING = 0.15
#: Packages of the smallest ring.
PAIR = 2


def _groups(n_group: Num, machine: Machine) -> tuple[Num, Num]:
    """GPUs of the group inside one domain, and the number of domains it spans."""
    local = np.minimum(n_group, machine.system.n_gpus_scale_up.value)
    return local, n_group / local


def inside_bytes_per_s(local: Num, machine: Machine, fitted_fraction: Num) -> Num:
    """Rate of a collective inside the domain: of PCIe its own share, which the host's bridge decides.

    Parameters
    ----------
    local : float or ndarray
        GPUs of the group in one domain [-].
    machine : Machine
        Fabric.
    fitted_fraction : float or ndarray
        Share of links of their own that was fitted [-].

    Returns
    -------
    float or ndarray
        Of one GPU, per direction [byte/s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> l40s = Machine(load_system("8xl40s"), efficiency("vllm"))
    >>> [round(float(inside_bytes_per_s(n, l40s, 0.5)) / 1e9, 1) for n in (2, 8)]
    [19.5, 12.6]
    """
    system = machine.system
    pair = system.pair_link_fraction or system.ring_link_fraction
    ring = system.ring_link_fraction or pair
    if pair is None or ring is None or machine.efficiency is IDEAL:
        return system.scale_up_bytes_per_s_per_gpu.value * fitted_fraction
    return system.scale_up_bytes_per_s_per_gpu.value * np.where(np.asarray(local) > PAIR, ring.value, pair.value)


def beyond_bytes_per_s(n_group: Num, machine: Machine) -> Num:
    """Rate of traffic beyond the scale-up domain that is spread evenly over a group, its losses left out.

    What goes to other pods is bound by the thinner tier, ``out / (ratio x its share)``; the ports bind the rest.

    Parameters
    ----------
    n_group : float or ndarray
        GPUs that take part [-].
    machine : Machine
        Fabric.

    Returns
    -------
    float or ndarray
        Of one GPU, per direction [byte/s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> thin = Machine(load_system("512 x h100-nvl8 oversubscribed 7:1 above 1024"))
    >>> [round(float(beyond_bytes_per_s(n, thin)) / 1e9, 1) for n in (512, 1024, 2048, 4096)]
    [50.0, 50.0, 14.3, 9.5]
    """
    system = machine.system
    crossing = 0.0 if system.n_gpus_pod is None else np.maximum(1 - system.pod_gpus / np.asarray(n_group, float), 0.0)
    return system.cross_domain_bytes_per_s_per_gpu / np.maximum(system.thinner_ratio * crossing, 1.0)


def latency_s(n_group: Num, machine: Machine) -> Num:
    """Time of the smallest collective: over PCIe it passes from each package to the next, elsewhere through a tree.

    Parameters
    ----------
    n_group : float or ndarray
        GPUs that take part [-]; a group of one takes no time.
    machine : Machine
        Fabric.

    Returns
    -------
    float or ndarray
        ``t_up (1 + 0.15 log2 local) + t_out`` where it leaves the domain; over PCIe ``t_up local / 2`` inside [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> h100 = Machine(load_system("h100-nvl8"))
    >>> bool(latency_s(16, h100) > latency_s(8, h100) > latency_s(1, h100) == 0)
    True
    """
    local, domains = _groups(n_group, machine)
    is_switched = machine.system.ring_link_fraction is None and machine.system.pair_link_fraction is None
    grown = 1 + LATENCY_PER_DOUBLING * np.log2(local) if is_switched else local / PAIR
    up = machine.system.scale_up_latency_s.value * grown
    out = machine.system.scale_out_latency_s.value
    return np.where(np.asarray(n_group) > 1, up, 0.0) + np.where(domains > 1, out, 0.0)


def reduction_latency_s(n_group: Num, machine: Machine) -> Num:
    """Time of the smallest reduction: a library's own steps beyond the domain come on top of the fabric's latency.

    Exchanges between experts have none of them: their kernels write into the other GPUs' memory themselves.

    Parameters
    ----------
    n_group : float or ndarray
        GPUs that take part [-]; a group of one takes no time.
    machine : Machine
        Fabric.

    Returns
    -------
    float or ndarray
        ``latency``, and the floor of a reduction where it leaves the domain [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> h100 = Machine(load_system("h100-nvl8"), efficiency("vllm"))
    >>> [bool(reduction_latency_s(n, h100) > latency_s(n, h100)) for n in (8, 16)]
    [False, True]
    """
    beyond = _groups(n_group, machine)[1] > 1
    return latency_s(n_group, machine) + np.where(beyond, machine.efficiency.scale_out_floor_s, 0.0)


def ring_s(message_bytes: Num, n_group: Num, machine: Machine, passes: int = 2) -> Num:
    """Time of an all-reduce (2 passes), all-gather or reduce-scatter (1 pass).

    ``passes (g-1)/g bytes / bandwidth`` inside the domain, and the same over the domains on each GPU's share. The
    physical limit takes at most ``bytes / bandwidth`` inside the domain: switches that add up exist.

    Parameters
    ----------
    message_bytes : float or ndarray
        Bytes of the full message on each GPU [byte].
    n_group : float or ndarray
        GPUs that take part [-].
    machine : Machine
        Fabric.
    passes : int
        2 for all-reduce, 1 for all-gather and reduce-scatter [-].

    Returns
    -------
    float or ndarray
        Time, latency included [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> h100 = Machine(load_system("h100-nvl8"))
    >>> bool(ring_s(1e9, 16, h100) > ring_s(1e9, 8, h100) > ring_s(1e9, 8, h100, passes=1))
    True
    """
    local, domains = _groups(n_group, machine)
    up = passes * (1 - 1 / local) / inside_bytes_per_s(local, machine, machine.efficiency.scale_up_fraction)
    if machine.efficiency is IDEAL:  # a switch that adds up sends each value once
        up = np.minimum(up, np.where(local > 1, 1 / machine.scale_up_bytes_per_s, 0.0))
    out = passes * (1 - 1 / domains) / local / machine.scale_out_bytes_per_s
    return reduction_latency_s(n_group, machine) + (up + out) * message_bytes


def exchange_bytes_per_s(machine: Machine) -> Num:
    """Rate of an exchange between experts beyond the scale-up domain, per GPU and direction.

    Parameters
    ----------
    machine : Machine
        Fabric.

    Returns
    -------
    float or ndarray
        Its own share of the links: every GPU writes straight to every other, no ring waits for its slowest [byte/s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> h800 = Machine(load_system("h800-nvl8"), efficiency("sglang"))
    >>> bool(exchange_bytes_per_s(h800) > h800.scale_out_bytes_per_s)
    True
    """
    return machine.system.cross_domain_bytes_per_s_per_gpu * machine.efficiency.exchange_out_fraction


def all_to_all_s(sent_bytes: Num, n_group: Num, machine: Machine) -> Num:
    """Time to send each GPU's bytes to the others, evenly.

    ``max(near, far) + latency``, with ``near = bytes (local - 1) / g / scale-up`` and
    ``far = bytes (g - local) / g / scale-out``: the two fabrics work at once.

    Parameters
    ----------
    sent_bytes : float or ndarray
        Bytes that one GPU sends [byte].
    n_group : float or ndarray
        GPUs that take part [-].
    machine : Machine
        Fabric.

    Returns
    -------
    float or ndarray
        The slower of the near and the far share, latency included [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> h100 = Machine(load_system("h100-nvl8"))
    >>> bool(all_to_all_s(1e6, 16, h100) > 2 * all_to_all_s(1e6, 8, h100))
    True
    """
    local, _ = _groups(n_group, machine)
    up = inside_bytes_per_s(local, machine, machine.efficiency.all_to_all_fraction)
    near = (local - 1) / n_group / up
    far = (n_group - local) / n_group / exchange_bytes_per_s(machine)
    return latency_s(n_group, machine) + np.maximum(near, far) * sent_bytes


def forwarded_all_to_all_s(
    token_bytes: Num, n_copies: int, n_group: Num, machine: Machine, most_domains: float = np.inf
) -> Num:
    """Time to send tokens to several ranks each, crossing to another domain once and fanning out inside it.

    With ``D`` domains and ``k`` copies to even ranks a token meets ``D (1 - (1 - 1/D)^k)`` domains, ``(D - 1) / D`` of
    them far and no more than its router allows, and ``g (1 - (1 - 1/g)^k)`` ranks, ``(local - 1) / local`` of them over
    scale-up links. The two fabrics work at once.

    Parameters
    ----------
    token_bytes : float or ndarray
        One copy of all tokens of a GPU [byte].
    n_copies : int
        ``k`` destinations of a token [-].
    n_group : float or ndarray
        ``g`` GPUs that take part [-].
    machine : Machine
        Fabric.
    most_domains : float
        Domains that a token's experts lie in at most, where the router limits them [-].

    Returns
    -------
    float or ndarray
        The slower of the near and the far share, latency included [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> h100 = Machine(load_system("h100-nvl8"))
    >>> bool(forwarded_all_to_all_s(1e6, 8, 32, h100) < all_to_all_s(7.2e6, 32, h100))
    True
    """
    local, domains = _groups(n_group, machine)
    ranks = n_group * (1 - (1 - 1 / np.asarray(n_group, float)) ** n_copies)
    met = np.minimum(domains * (1 - (1 - 1 / domains) ** n_copies), most_domains)
    up = inside_bytes_per_s(local, machine, machine.efficiency.all_to_all_fraction)
    near = ranks * (local - 1) / local / up
    far = met * (domains - 1) / domains / exchange_bytes_per_s(machine)
    return latency_s(n_group, machine) + np.maximum(near, far) * token_bytes


def hop_s(message_bytes: Num, n_gpus_per_stage: Num, machine: Machine) -> Num:
    """Time to hand activations to the next pipeline stage.

    Parameters
    ----------
    message_bytes : float or ndarray
        Bytes that one GPU sends [byte].
    n_gpus_per_stage : float or ndarray
        GPUs of a stage [-]: two stages that fit one scale-up domain talk inside it.
    machine : Machine
        Fabric.

    Returns
    -------
    float or ndarray
        Time of one hop [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> h100 = Machine(load_system("h100-nvl8"))
    >>> bool(hop_s(1e6, 8, h100) > hop_s(1e6, 4, h100))
    True
    """
    near = np.asarray(n_gpus_per_stage) * 2 <= machine.system.n_gpus_scale_up.value
    inside = inside_bytes_per_s(PAIR, machine, machine.efficiency.scale_up_fraction)
    start_s = np.where(near, machine.system.scale_up_latency_s.value, machine.system.scale_out_latency_s.value)
    return start_s + message_bytes / np.where(near, inside, machine.scale_out_bytes_per_s)
