"""What a training job keeps in the host's memory, and what copying it takes: activations, optimizer, weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import InputError, nearest
from computeledger.facts.schema import System
from computeledger.physics.parallelism import Layout
from computeledger.units import GIGA

#: What may stay in the host's memory.
OFFLOADS = ("activations", "optimizer", "weights")
#: Link and host memory per GPU where a system states none: PCIe 4.0 x16, a server of 1 TB for eight GPUs (assumption)
#: [byte/s, byte].
USUAL_LINK, USUAL_BYTES = 31.5 * GIGA, 128 * GIGA
#: Share of a link that copies of pinned memory reach (assumption: 25 of PCIe 4.0's 31.5 GB/s).
LINK_FRACTION = 0.8
#: What an update on the host's cores reads and writes for one GPU, casts, norms and waits included (assumption: 22 in
#: DeepSpeed's runs of Qwen2.5 on two A100 with 128 cores, 34 in Megatron Core's of Qwen3-30B-A3B on H100) [byte/s].
UPDATE_BYTES_PER_S = 27 * GIGA
#: Of a host's memory that a job may fill (assumption).
HOST_MEMORY_FRACTION = 0.9
#: Layers whose activations are on the GPU while the others' are away: the one that runs and the next.
STAYING_LAYERS = 2.0
#: Largest scale-up domain that is one host, whose memory fewer GPUs share.
MOST_GPUS_PER_HOST = 16


@dataclass(frozen=True, slots=True)
class Host:
    """A GPU's share of its host.

    Attributes
    ----------
    link_bytes_per_s : float or ndarray
        Copies in one direction [byte/s].
    bytes : float or ndarray
        Memory that a job may fill [byte].
    """

    link_bytes_per_s: Num
    bytes: Num


def host_of(system: System, layout: Layout) -> Host:
    """Share the hosts of a system among the GPUs of a job.

    Parameters
    ----------
    system : System
        With its facts, as far as they are stated.
    layout : Layout
        Fewer GPUs than a host has share all of its memory.

    Returns
    -------
    Host
        Of one GPU.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> one, all_of_them = (host_of(load_system("h100-nvl8"), Layout(dp=n)) for n in (1, 8))
    >>> float(one.bytes / all_of_them.bytes), float(one.link_bytes_per_s) / 1e9
    (8.0, 50.4)
    """
    domain = int(system.n_gpus_scale_up.value)
    alone = domain / np.minimum(layout.n_gpus, domain) if domain <= MOST_GPUS_PER_HOST else 1.0
    link, room = system.host_link_bytes_per_s_per_gpu, system.host_bytes_per_gpu
    per_gpu = USUAL_BYTES if room is None else room.value
    return Host(LINK_FRACTION * (USUAL_LINK if link is None else link.value), HOST_MEMORY_FRACTION * per_gpu * alone)


def parse_offload(text: str) -> str:
    """Read what stays in the host's memory.

    Parameters
    ----------
    text : str
        Names joined by commas.

    Returns
    -------
    str
        The same in the order of :data:`OFFLOADS`.

    Raises
    ------
    InputError
        For a name that is none, and for weights without their optimizer.

    Examples
    --------
    >>> parse_offload("optimizer, activations")
    'activations,optimizer'
    """
    named = [one.strip() for one in text.split(",")]
    for one in named:
        if one not in OFFLOADS:
            raise InputError(f"offload {one!r}: {nearest(one, OFFLOADS)}")
    if "weights" in named and "optimizer" not in named:
        raise InputError("offload 'weights': goes with the optimizer, whose master copy they are: optimizer,weights")
    return ",".join(one for one in OFFLOADS if one in named)


@dataclass(frozen=True, slots=True)
class Copies:
    """What a microbatch moves between a GPU and its host.

    Attributes
    ----------
    activations_bytes, weights_bytes, gradients_bytes : float or ndarray
        Out in forward and back in backward; in for each of the two; out in backward [byte].
    """

    activations_bytes: Num = 0.0
    weights_bytes: Num = 0.0
    gradients_bytes: Num = 0.0


def exposed_s(copies: Copies, computing_s: Num, forward_fraction: Num, host: Host) -> Num:
    """Time that a microbatch waits for copies: each pass hides as much in either direction as it takes itself.

    Parameters
    ----------
    copies : Copies
        Of one microbatch.
    computing_s : float or ndarray
        Of the microbatch without them [s].
    forward_fraction : float or ndarray
        Share of the forward pass [-].
    host : Host
        With its link.

    Returns
    -------
    float or ndarray
        Beside the computing [s].

    Examples
    --------
    >>> host = Host(25e9, 1e12)
    >>> [float(exposed_s(Copies(activations_bytes=held), 3.0, 1 / 3, host)) for held in (25e9, 50e9)]
    [0.0, 1.0]
    """
    rate = host.link_bytes_per_s
    forward = np.maximum(copies.activations_bytes, copies.weights_bytes) / rate
    backward = np.maximum(copies.activations_bytes + copies.weights_bytes, copies.gradients_bytes) / rate
    waits: Num = np.maximum(forward - forward_fraction * computing_s, 0.0)
    return waits + np.maximum(backward - (1 - forward_fraction) * computing_s, 0.0)


def update_s(params: Num, bytes_per_param: Num, gradients_bytes: Num, host: Host) -> Num:
    """Time of an update on the host's cores: gradients in and weights out are copied beside it, the longest counts.

    Parameters
    ----------
    params : float or ndarray
        That one GPU's share of the host updates [-].
    bytes_per_param : float or ndarray
        Of gradient, master copy and moments, each read and written [byte].
    gradients_bytes : float or ndarray
        Still to be copied when the last backward pass ends [byte].
    host : Host
        With its link.

    Returns
    -------
    float or ndarray
        Time [s].

    Examples
    --------
    >>> round(float(update_s(1e9, 16.0, 2e9, Host(25e9, 1e12))), 2)
    1.19
    """
    cores = 2 * params * bytes_per_param / UPDATE_BYTES_PER_S
    copied = np.maximum(gradients_bytes, 2.0 * params) / host.link_bytes_per_s
    longest: Num = np.maximum(cores, copied)
    return longest
