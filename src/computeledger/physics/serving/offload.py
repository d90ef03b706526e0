"""Weights and cache that stay in the host's memory: multiplied there, or copied over the link for every step.

A share ``f`` of what an operation reads lies in host memory. The host multiplies it, ``max(f bytes / (0.5 host
bandwidth), f FLOP / host rate)``, or it is copied, ``max(f bytes / link bandwidth, f FLOP / chip's rate)``; an engine
that can do either takes the faster. The rest runs on the chip as before, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import POSITIVE, check_record
from computeledger.physics.roofline import Operation
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.serving.buffers import SERVER_BUFFERS, Buffers
from computeledger.units import GIGA, TERA

#: Bandwidth of a desktop's two channels of DDR5-5600, and what of a 16-lane PCIe 4.0 link copies reach [byte/s]
#: (assumptions).
HOST_BYTES_PER_S, LINK_BYTES_PER_S = 80 * GIGA, 25 * GIGA
#: Share of its memory's bandwidth that a host reaches while it multiplies quantised weights (assumption: public runs of
#: llama.cpp with experts or layers on the CPU, of Qwen3-30B-A3B, Mistral Small and gpt-oss-120b, reach 0.25 to 0.5).
HOST_FRACTION = 0.5
#: What a desktop's cores multiply of quantised weights (assumption) [FLOP/s].
HOST_FLOP_PER_S = TERA
_OF_LAYERS = (Kind.ATTENTION_PROJECTIONS, Kind.DENSE_MLP)
_OF_CACHE = (Kind.ATTENTION, Kind.LATENT_ATTENTION)


@dataclass(frozen=True, slots=True)
class HostMemory:
    """What stays in host memory, how fast it is read there, and what the engine keeps on the chip.

    Attributes
    ----------
    weights_fraction : float or ndarray
        Share of the layers' weights [-].
    experts_fraction : float or ndarray
        Share of the routed experts' weights, at least that of all [-].
    kv_fraction : float or ndarray
        Share of the cache [-].
    is_streamed : bool
        Whether all of it is copied to the chip, and nothing multiplied by the host.
    host_bytes_per_s, link_bytes_per_s : float or ndarray
        Bandwidth of the host's memory, and of the link in one direction, per accelerator [byte/s].
    buffers : Buffers
        What the engine keeps on the chip.
    """

    weights_fraction: Num = 0.0
    experts_fraction: Num = 0.0
    kv_fraction: Num = 0.0
    is_streamed: bool = False
    host_bytes_per_s: Num = HOST_BYTES_PER_S
    link_bytes_per_s: Num = LINK_BYTES_PER_S
    buffers: Buffers = SERVER_BUFFERS

    def __post_init__(self) -> None:
        check_record(self, host_bytes_per_s=POSITIVE, link_bytes_per_s=POSITIVE)

    @property
    def is_used(self) -> bool:
        """Whether anything stays in host memory."""
        shares = (self.weights_fraction, self.experts_fraction, self.kv_fraction)
        return any(one != 0 if isinstance(one, float) else np.any(one) for one in shares)

    def share(self, kind: Kind) -> Num:
        """Share of an operation's bytes that lie in host memory.

        Parameters
        ----------
        kind : OperationKind
            What is done.

        Returns
        -------
        float or ndarray
            0 for what always stays on the chip, such as the output head [-].

        Examples
        --------
        >>> float(HostMemory(weights_fraction=0.25, experts_fraction=1.0).share(Kind.ROUTED_EXPERTS))
        1.0
        """
        if kind is Kind.ROUTED_EXPERTS:
            return np.maximum(self.weights_fraction, self.experts_fraction)
        return self.weights_fraction if kind in _OF_LAYERS else self.kv_fraction if kind in _OF_CACHE else 0.0


#: Everything on the chip.
ON_CHIP = HostMemory()


def offloaded(operations: Sequence[Operation], host: HostMemory) -> list[Operation]:
    """Move a share of the operations' bytes to host memory.

    Parameters
    ----------
    operations : sequence of Operation
        Of one pass.
    host : HostMemory
        What stays there.

    Returns
    -------
    list of Operation
        The same where nothing does; else the chip's shares, and what the host's take.

    Examples
    --------
    >>> mlp = Operation(Kind.DENSE_MLP, flop=2e9, bytes=1e9, flop_per_s=1e14, bytes_per_s=1e12)
    >>> chip, there = offloaded([mlp], HostMemory(weights_fraction=0.5, host_bytes_per_s=50e9))
    >>> float(chip.time_s), float(there.time_s)
    (0.0005, 0.02)
    """
    if not host.is_used:
        return list(operations)
    out: list[Operation] = []
    for one in operations:
        share = host.share(one.kind)
        if not np.any(share):
            out.append(one)
            continue
        kept = 1 - share
        out.append(replace(one, flop=one.flop * kept, bytes=one.bytes * kept))
        moved, work = one.bytes * share, one.flop * share
        time_s = np.maximum(moved / host.link_bytes_per_s, work / one.flop_per_s)
        if not host.is_streamed:
            time_s = np.minimum(
                time_s, np.maximum(moved / (HOST_FRACTION * host.host_bytes_per_s), work / HOST_FLOP_PER_S)
            )
        kind = Kind.HOST_CACHE if one.kind in _OF_CACHE else Kind.HOST_WEIGHTS
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(time_s > 0, moved / np.where(time_s > 0, time_s, 1.0), np.inf)
        out.append(Operation(kind, bytes=moved, bytes_per_s=rate))
    return out
