"""A training step: the microbatches of a pipeline, the bubble around them, gradients, the optimizer.

The operations of one microbatch are in :mod:`computeledger.physics.training.operations`, what must fit in
:mod:`computeledger.physics.training.memory`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.physics.calibration.training import measured_family
from computeledger.physics.collectives import inside_bytes_per_s
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, Precision, total_s
from computeledger.physics.training.batch import BUBBLE_RATIOS, GRADIENT_BYTES, Batch
from computeledger.physics.training.counts import layer_counts, trained_layers
from computeledger.physics.training.host import host_of, update_s
from computeledger.physics.training.memory import MASTER_BYTES, MOMENT_BYTES, WEIGHT_BYTES, state_values
from computeledger.physics.training.operations import microbatch
from computeledger.physics.training.optimizers import DECOMPOSITION_FRACTION, load_optimizer, update_of
from computeledger.physics.training.stages import LocalParams, local_params

#: Share of host time that stays where a microbatch is one captured graph (assumption).
GRAPH_RATIO = 0.3


@dataclass(frozen=True, slots=True)
class StepTime:
    """A training step by part.

    Attributes
    ----------
    operations : tuple of Operation
        Of one microbatch, as modelled.
    ratio : float or ndarray
        Real over modelled time [-].
    microbatch_s : float or ndarray
        One microbatch on one stage [s].
    microbatches : float or ndarray
        Per pipeline and step [-].
    bubble_s, gradients_s, optimizer_s, fixed_s : float or ndarray
        Idle pipeline, exposed gradient and parameter exchange, optimizer, once-per-step time [s].
    sites_s : float or ndarray
        Exchange between sites, its share of a step where it is not every step's [s].
    gather_s : float or ndarray
        Gathering sharded weights once for each microbatch, hidden or not; 0 where every rank has its own [s].
    """

    operations: tuple[Operation, ...]
    ratio: Num
    microbatch_s: Num
    microbatches: Num
    bubble_s: Num
    gradients_s: Num
    optimizer_s: Num
    fixed_s: Num
    sites_s: Num = 0.0
    gather_s: Num = 0.0

    @property
    def step_s(self) -> Num:
        """Time of the step [s]."""
        once = self.gradients_s + self.optimizer_s + self.fixed_s + self.sites_s
        return self.microbatch_s * self.microbatches + self.bubble_s + once


def step_time(model: Model, batch: Batch, layout: Layout, precision: Precision, machine: Machine) -> StepTime:
    """Time one optimizer step of the whole job.

    ``t = t_micro (m + bubble (pp - 1) / v) + exposed gradients + optimizer + fixed``, where a microbatch takes the
    8-norm of its time on the GPU and of the host's launching.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Sequences, recomputation, software.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of matrix products by kind.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    StepTime
        With its parts.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> step = step_time(load_model("llama-3.1-8b"), Batch(8192, 128), Layout(dp=8), Precision(),
    ...                  Machine(load_system("h100-nvl8")))
    >>> bool(5 < step.step_s < 10)
    True
    """
    eff = machine.training
    operations = tuple(microbatch(model, batch, layout, precision, machine))
    ratio = _ratio(model, batch, machine)
    host = _host_s(model, batch, layout, machine)
    one = _with_host(total_s(operations), host)
    average = _with_host(total_s(operations[:-1]), host)
    local = local_params(model, batch, layout)
    gradients = _exchange_s(local, batch, layout, machine, one)
    one = ratio * one
    n_micro = batch.microbatches(layout)
    return StepTime(
        operations=operations,
        ratio=ratio,
        microbatch_s=one,
        microbatches=n_micro,
        bubble_s=ratio * average * BUBBLE_RATIOS[batch.stack.schedule] * (layout.pp - 1) / batch.virtual_stages,
        gradients_s=ratio * gradients,
        optimizer_s=ratio * batch.stack.trained_fraction * _optimizer_s(model, batch, layout, machine, local),
        fixed_s=ratio * eff.training_step_s,
        gather_s=n_micro * _rings_s(local, layout, machine, WEIGHT_BYTES) if batch.sharded_weights else 0.0,
    )


def _optimizer_s(model: Model, batch: Batch, layout: Layout, machine: Machine, local: LocalParams) -> Num:
    """Time of the update: traffic over gradient, master copy and moments, and work on whole matrices.

    Matrices are gathered in 16 bits over the ranks that share them; each is computed by one data-parallel rank, and by
    all tensor-parallel ranks alike (Megatron-LM's ``duplicated``).
    """
    eff, chip, name = machine.training, machine.system.accelerator, batch.stack.optimizer
    kept = state_values(model, batch, local) * MOMENT_BYTES[batch.stack.moment_precision]
    traffic = local.optimizer_shard * (GRADIENT_BYTES + MASTER_BYTES) + kept
    if "optimizer" in batch.offloaded:
        late = 0.0 if batch.shared_master else local.optimizer_shard * WEIGHT_BYTES
        each = traffic / local.optimizer_shard
        return update_s(local.optimizer_shard, each, late, host_of(machine.system, layout))
    spent: Num = 2 * traffic / (chip.hbm_bytes_per_s.value * eff.training_bandwidth_fraction)
    if not load_optimizer(name).needs_matrices:
        return spent
    layers = trained_layers(model, batch.stack.mtp_layers)
    rate = chip.peak("bf16") * eff.sustained(chip, eff.gemm_fraction(chip, "bf16"))
    stride, whole = layout.tp * np.ones_like(layout.ep), np.maximum(layout.tp / layout.ep, 1.0)
    dense = local.dense - local.tables, local.dense_replicas, layout.tp, stride
    experts = local.experts, local.expert_replicas, whole, np.maximum(layout.ep, stride)
    for routed, (held, replicas, cut, apart) in ((False, dense), (True, experts)):
        update = update_of(name, layers, model.hidden_size, routed)
        own = held * cut / replicas
        spent = spent + np.maximum(own * update.flop, update.largest_flop) / rate
        spent = spent + own * update.decomposition_flop / (DECOMPOSITION_FRACTION * machine.bf16_flop_per_s)
        spent = spent + _ring_s(held * WEIGHT_BYTES, replicas, apart, machine)
        spent = spent + _ring_s(own * WEIGHT_BYTES, cut, np.ones_like(cut), machine)
    return spent


def _with_host(gpu_s: Num, host_s: Num) -> Num:
    """Time of kernels that a host launches meanwhile: the 8-norm, a maximum with a soft knee."""
    gpu, host = np.square(np.square(gpu_s)), np.square(np.square(host_s))
    root: Num = np.sqrt(np.sqrt(np.sqrt(gpu * gpu + host * host)))
    return root


def _host_s(model: Model, batch: Batch, layout: Layout, machine: Machine) -> Num:
    """Host time of one microbatch on one stage."""
    eff = machine.training
    layers = trained_layers(model, batch.stack.mtp_layers)
    counts = layer_counts(layers, model.hidden_size)
    n_layers = sum(group.count for group in layers)
    per_layer = eff.training_sharded_layer_s if batch.sharded_weights else eff.training_layer_s
    host = n_layers * per_layer + counts.n_moe * eff.training_expert_layer_s
    host = host * (1 + 0.5 * batch.forward_again)
    return host / layout.pp * (GRAPH_RATIO if batch.stack.graphs else 1.0)


def _ratio(model: Model, batch: Batch, machine: Machine) -> Num:
    """Real over modelled time: of the class that the question falls in, and of its framework."""
    name = step_class(model, batch, measured_family(machine.system.accelerator))
    ratio: Num = getattr(machine.training, f"training_{name}_ratio")
    return ratio * batch.stack.time_ratio


def step_class(model: Model, batch: Batch, family: str) -> str:
    """Name the class of a question's interval: how well chips like its own, models and stacks were measured.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        With its stack.
    family : str
        Of the chip, by :func:`~computeledger.physics.calibration.training.measured_family`.

    Returns
    -------
    str
        ``chip`` where measurements of the family are few or none, ``expert`` for a model with experts, ``known`` for a
        job that a vendor tuned, ``unseen`` for others.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> batch = Batch(4096.0, 64.0)
    >>> [step_class(load_model(one), batch, "hopper") for one in ("llama-3.1-8b", "deepseek-v3")]
    ['unseen', 'expert']
    """
    if family in {"other", "cdna", "tpu"}:
        return "chip"
    if model.is_moe:
        return "expert"
    return "known" if batch.stack.tuning == "recipe" else "unseen"


def _ring_s(message_bytes: Num, n_group: Num, stride: Num, machine: Machine) -> Num:
    """Time of an all-gather or reduce-scatter over GPUs that stand ``stride`` apart: domain, pod, and beyond it.

    Ranks stand as Megatron-LM puts them, from the inside: tp, cp, dp, pp.
    """
    link = machine.training.training_link_fraction
    out = machine.system.cross_domain_bytes_per_s_per_gpu * link
    local: Num = np.minimum(np.maximum(machine.system.n_gpus_scale_up.value / stride, 1.0), n_group)
    podded: Num = np.minimum(np.maximum(machine.system.pod_gpus / stride, local), n_group)
    near: Num = (1 - 1 / local) * message_bytes / inside_bytes_per_s(local, machine, link)
    across = (1 - local / podded) * message_bytes / local / out
    between = machine.system.cross_pod_bytes_per_s_per_gpu * link
    return near + across + (1 - podded / n_group) * message_bytes / podded / between


def _exchange_s(local: LocalParams, batch: Batch, layout: Layout, machine: Machine, one_s: Num) -> Num:
    """Exposed exchange of a step.

    Gradients are reduced and parameters gathered once per step beside the last microbatch; sharded weights are gathered
    twice and their gradients scattered in each microbatch.
    """
    trained = batch.stack.trained_fraction

    def ring(bytes_per_param: Num) -> Num:
        return _rings_s(local, layout, machine, bytes_per_param)

    if batch.sharded_weights:
        wire = ring(2 * WEIGHT_BYTES + WEIGHT_BYTES * trained) * batch.microbatches(layout)
        computing = one_s * batch.microbatches(layout)
    elif batch.stack.sharded_gradients:
        # gradients that no rank keeps whole are scattered after every microbatch
        wire = ring(GRADIENT_BYTES * trained) * batch.microbatches(layout) + ring(WEIGHT_BYTES * trained)
        computing = one_s * batch.microbatches(layout)
    else:
        copies = np.where((batch.stack.schedule == "dualpipe") & (np.asarray(layout.pp) > 1), 2.0, 1.0)
        wire = ring((GRADIENT_BYTES + WEIGHT_BYTES) * trained) * copies
        computing = one_s
    return exposed_s(wire, computing, machine)


def _rings_s(local: LocalParams, layout: Layout, machine: Machine, bytes_per_param: Num) -> Num:
    """Time to gather or scatter all parameters of a rank over those that share them."""
    stride = layout.tp * np.ones_like(layout.ep)
    dense = _ring_s(local.dense * bytes_per_param, local.dense_replicas, stride, machine)
    expert_stride = np.maximum(layout.ep, layout.tp)
    return dense + _ring_s(local.experts * bytes_per_param, local.expert_replicas, expert_stride, machine)


def exposed_s(wire_s: Num, computing_s: Num, machine: Machine) -> Num:
    """Say what of an exchange is not hidden beside computing: what lasts longer, and a share of the rest.

    Parameters
    ----------
    wire_s, computing_s : float or ndarray
        Time of the exchange, and of what runs beside it [s].
    machine : Machine
        With the share.

    Returns
    -------
    float or ndarray
        Added to the time of computing [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> bool(exposed_s(3.0, 1.0, machine) >= 2.0 > exposed_s(1.0, 3.0, machine))
    True
    """
    hidden = np.minimum(wire_s, computing_s)
    exposed: Num = np.maximum(wire_s - computing_s, 0.0) + machine.training.training_exposed_fraction * hidden
    return exposed
