"""Tokens on their way to experts and back: network time, and how much of it a schedule hides."""

from __future__ import annotations

import math

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.collectives import beyond_bytes_per_s, latency_s
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Machine
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.counts import layer_counts, trained_layers

#: Exposed share of expert traffic inside a scale-up domain, where no schedule hides it (assumption).
EXPERT_EXPOSED = 0.3
#: Share of a chip's processors that DualPipe's exchange takes from computing while tokens travel: 20 SMs of 132.
#: Source: deepseek-v3-report, section 3.2.2 and 3.5.1.
EXCHANGE_FRACTION = 20 / 132
#: Of the four passes of an exchange, dispatch and combine forward and backward, the two dispatches may be narrow.
DISPATCH_FRACTION = 0.5


def overlapped_s(exchange_s: Num, computing_s: Num, taken: float = EXCHANGE_FRACTION) -> Num:
    """Time of an exchange of tokens beside the computing of another microbatch: each hides the other.

    While tokens travel, the processors that move them do not compute:
    ``max(exchange, computing + taken x exchange)``.

    Parameters
    ----------
    exchange_s, computing_s : float or ndarray
        Either by itself [s].
    taken : float
        Share of the processors that the exchange needs [-].

    Returns
    -------
    float or ndarray
        Never longer than one after the other, never shorter than the longer of the two [s].

    References
    ----------
    deepseek-v3-report.

    Examples
    --------
    >>> round(float(overlapped_s(1.0, 2.0)), 3), float(overlapped_s(4.0, 1.0))
    (2.152, 4.0)
    """
    both: Num = np.maximum(exchange_s, computing_s + taken * exchange_s)
    return both


def exchange_s(model: Model, batch: Batch, layout: Layout, machine: Machine) -> Num:
    """Time of all dispatches and combines of a microbatch on one GPU of an average stage.

    Inside a domain each copy travels; between domains a token travels once to each domain that holds one of its
    experts, and is copied there. DualPipe's kernels use both kinds of links at once, and its schedule hides what it
    can (:func:`overlapped_s`); elsewhere it is the share of either that is exposed.

    Parameters
    ----------
    model : Model
        With experts.
    batch : Batch
        Sequences, recomputation, software.
    layout : Layout
        Integer degrees or arrays.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    float or ndarray
        Time [s]; under DualPipe on the wire, with nothing hidden.

    References
    ----------
    deepseek-v3-report.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.training.batch import Stack
    >>> batch, layout = Batch(4096.0, 15360.0, stack=Stack(schedule="dualpipe")), Layout(pp=16, dp=128, ep=64)
    >>> bool(0.01 < exchange_s(load_model("deepseek-v3"), batch, layout, Machine(load_system("h800-nvl8"))) < 0.1)
    True
    """
    counts, stack = layer_counts(trained_layers(model, batch.stack.mtp_layers), model.hidden_size), batch.stack
    link = machine.training.training_link_fraction
    up = machine.system.scale_up_bytes_per_s_per_gpu.value * link
    out = beyond_bytes_per_s(layout.ep, machine) * link
    narrow = 1 - PRECISION_BYTES[stack.activation_precision] / ACTIVATION_BYTES
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp / layout.tp
    sent = tokens * counts.latent_width * ACTIVATION_BYTES * (1 - DISPATCH_FRACTION * narrow)
    ep = np.asarray(layout.ep, float)
    nodes = np.maximum(ep / machine.system.n_gpus_scale_up.value, 1.0)
    reached = nodes * (1 - (1 - 1 / nodes) ** counts.copies)
    if counts.groups_active:
        reached = np.minimum(reached, counts.groups_active)
    near, far = counts.copies * (1 - 1 / ep) / up, reached * (1 - 1 / nodes) / out
    if stack.schedule == "dualpipe":
        waited = np.maximum(near, far)
    else:
        waited = near * EXPERT_EXPOSED + far * machine.training.training_exposed_expert_fraction
    # the busiest rank takes more than its share, and the others wait for it
    one = np.where(ep > 1, sent * waited * stack.imbalance + latency_s(ep, machine), 0.0)
    passes: Num = counts.n_moe / layout.pp * one * (4 + 2 * batch.forward_again)
    return passes


def dropped_fraction(imbalance: float, capacity: float, n_ranks: int) -> float:
    """Share of routed tokens that experts of limited capacity drop.

    Loads are taken as normal over ``n`` ranks, whose largest is expected at ``mean + s sqrt(2 ln n)`` (assumption):
    ``s phi(z) - (c - 1) (1 - Phi(z))`` with ``z = (c - 1) / s``.

    Parameters
    ----------
    imbalance : float
        Busiest rank's routed tokens over the mean [-].
    capacity : float
        What a rank's experts take at most, over the mean [-].
    n_ranks : int
        Ranks that share the experts [-].

    Returns
    -------
    float
        Of all routed tokens [-].

    Examples
    --------
    >>> dropped_fraction(1.0, 1.0, 8), dropped_fraction(1.5, 1.5, 8) < 0.01 < dropped_fraction(1.5, 1.0, 8)
    (0.0, True)
    """
    spread = (imbalance - 1) / math.sqrt(2 * math.log(max(n_ranks, 2)))
    if spread <= 0:
        return max(1 - capacity, 0.0)
    z = (capacity - 1) / spread
    density, above = math.exp(-z * z / 2) / math.sqrt(2 * math.pi), math.erfc(z / math.sqrt(2)) / 2
    return spread * density - (capacity - 1) * above
