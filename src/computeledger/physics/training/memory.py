"""What a training GPU holds: weights, gradients, optimizer, activations by recomputation and stage, logits."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES
from computeledger.physics.training.batch import GRADIENT_BYTES, REVERSIBLE, Batch, Stack
from computeledger.physics.training.counts import layer_counts, trained_layers
from computeledger.physics.training.host import STAYING_LAYERS, Copies
from computeledger.physics.training.kept import kept_by
from computeledger.physics.training.optimizers import load_optimizer, update_of
from computeledger.physics.training.stages import (
    LocalParams,
    StageLoad,
    layer_kinds,
    local_params,
    params_of,
    stage_loads,
)

#: Mixed precision: bf16 weight, fp32 gradient, fp32 master copy.
WEIGHT_BYTES, MASTER_BYTES = 2.0, 4.0
#: Of one moment of the optimizer, by its precision.
MOMENT_BYTES = {"fp32": 4.0, "bf16": 2.0}
#: A product's weight gradient stands as bf16 and fp32 at once before it is added to the others (assumption, set with
#: the measured peaks in view; buffers beside what is counted are in the share of HBM that stays free).
LOOSE_GRADIENT_BYTES = 6.0
#: Logits live as bf16 and fp32 at once; a loss of single operations keeps its logarithms and their gradient as well,
#: and over tensor parallelism the shifted logits (PyTorch, distributed/tensor/parallel/loss.py).
LOGIT_BYTES, UNFUSED_LOGIT_BYTES, SHIFTED_LOGIT_BYTES = 6.0, 14.0, 4.0
#: Layers whose weights stand gathered at once where they are sharded: the one that runs and the next.
GATHERED_LAYERS = 2.0
#: Of the residual stream that sequence parallelism cuts: a product's input, and the gradient of another's.
GATHERED_STREAMS = 2.0
#: A sharded layer's gradient stands whole in 16 bits, and in fp32 for the reduce-scatter.
REDUCED_GRADIENT_BYTES = 6.0
#: Share of HBM that a training job may fill (assumption: fragmentation and the framework take the rest).
TRAINING_HBM_FRACTION = 0.94


def is_accounted(sharded_weights: bool, stack: Stack) -> bool:
    """Whether a stack is Megatron's, whose peaks the account meets best; others have a wider interval.

    Parameters
    ----------
    sharded_weights : bool
        As a batch has it.
    stack : Stack
        The software.

    Returns
    -------
    bool
        True for whole weights, sequence parallelism and a fused loss.

    Examples
    --------
    >>> is_accounted(False, Stack()), is_accounted(True, Stack())
    (True, False)
    """
    return not sharded_weights and stack.sequence_parallel and stack.fused_loss


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Memory of the busiest training GPU by tenant.

    Attributes
    ----------
    weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes, logits_bytes, workspace_bytes : float or ndarray
        Tenants [byte].
    host_bytes : float or ndarray
        What lies in the host's memory instead [byte].
    gathered_bytes, again_bytes, update_bytes : float or ndarray
        Of weights those gathered while layers run, of activations those of the layer that is computed again, of the
        workspace what an update sets aside [byte].
    """

    weights_bytes: Num
    gradients_bytes: Num
    optimizer_bytes: Num
    activations_bytes: Num
    logits_bytes: Num
    workspace_bytes: Num
    host_bytes: Num = 0.0
    gathered_bytes: Num = 0.0
    again_bytes: Num = 0.0
    update_bytes: Num = 0.0

    @property
    def total_bytes(self) -> Num:
        """Sum of the tenants [byte]."""
        held = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return held + self.activations_bytes + self.logits_bytes + self.workspace_bytes


def training_memory(model: Model, batch: Batch, layout: Layout) -> TrainingMemory:
    """Account for the HBM of the busiest GPU: of the first, the second or the last stage.

    The first keeps most microbatches alive, the second the most layers where they do not divide, the last the output
    head and its logits. Under DualPipe a GPU holds a stage of either direction: two copies of the weights, and the
    activations of ``pp + 1`` microbatches.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Sequences and recomputation.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    TrainingMemory
        Tenants.

    References
    ----------
    deepseek-v3-report, llama-3-herd.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> memory = training_memory(load_model("llama-3.1-8b"), Batch(8192, 128), Layout(dp=8))
    >>> round(float(memory.weights_bytes) / 1e9, 1)
    16.1
    """
    first, *others = (stage_memory(model, batch, layout, load) for load in stage_loads(model, batch, layout))
    for other in others:
        busier = np.asarray(other.total_bytes > first.total_bytes)
        first = TrainingMemory(
            **{one.name: np.where(busier, getattr(other, one.name), getattr(first, one.name)) for one in fields(first)}
        )
    return first


def stage_memory(model: Model, batch: Batch, layout: Layout, load: StageLoad) -> TrainingMemory:
    """Account for the HBM of a GPU of one stage.

    Parameters
    ----------
    model : Model
        Architecture.
    batch : Batch
        What is trained, and how.
    layout : Layout
        Partition of the model over the GPUs.
    load : StageLoad
        Layers, tables and microbatches that the stage holds.

    Returns
    -------
    TrainingMemory
        At the peak of a step [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> model, batch, layout = load_model("llama-3.1-8b"), Batch(8192, 64), Layout(pp=4, dp=2)
    >>> first, _, last = (stage_memory(model, batch, layout, load) for load in stage_loads(model, batch, layout))
    >>> bool(first.activations_bytes > last.activations_bytes), float(first.logits_bytes)
    (True, 0.0)
    """
    local, stack = params_of(model, batch, layout, load), batch.stack
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp
    weights, gathered, gradients = _resident(model, batch, layout, local)
    kept = kept_by(model, batch)
    plain, routed = (kept.bytes_per_token(layers, layout) for layers in layer_kinds(model, batch))
    logits = tokens * model.vocab_size * _logit_bytes(stack, layout) / layout.tp * load.heads
    again = tokens * kept.again_per_token(model, layout, stack.attention == "unfused", batch.sequence_tokens)
    streams = tokens * model.hidden_size * ACTIVATION_BYTES / (layout.tp if stack.sequence_parallel else 1.0)
    outputs = streams * load.outputs if stack.keeps_stage_outputs else 0.0
    moments = state_values(model, batch, local) * MOMENT_BYTES[stack.moment_precision]
    # a layer is computed again when the logits are gone; both halves of a reversible stage's output stay meanwhile
    again = np.maximum(again - logits, 2.0 * streams if batch.recompute == REVERSIBLE else 0.0)
    activations = tokens * (plain * load.plain_alive + routed * load.routed_alive) + outputs + again
    loose = _loose(model, batch, layout, streams)
    update = _update_bytes(batch, local, activations + logits + loose + gathered)
    found = TrainingMemory(
        weights_bytes=weights,
        gradients_bytes=gradients * stack.gradient_bytes * stack.trained_fraction,
        optimizer_bytes=stack.trained_fraction * (local.optimizer_shard * (MASTER_BYTES + stack.outer_bytes) + moments),
        activations_bytes=activations,
        logits_bytes=logits,
        workspace_bytes=loose + update,
        gathered_bytes=gathered,
        again_bytes=again,
        update_bytes=update,
    )
    if not batch.offloaded:
        return found
    running = tokens * (plain * load.plain + routed * load.routed)
    return _offloaded(model, batch, (load, local, running), found)


def _resident(model: Model, batch: Batch, layout: Layout, local: LocalParams) -> tuple[Num, Num, Num]:
    """Bytes of weights that stand in 16 bits, those of them gathered for a while, and the gradients at once."""
    stack, held = batch.stack, local.dense + local.experts
    piped = np.asarray(layout.pp) > 1
    each, tables = _unsharded(model, batch, layout)
    if batch.sharded_weights:
        # between the microbatches of a pipeline, weights stay gathered and gradients whole
        shard = local.optimizer_shard
        gathered = WEIGHT_BYTES * np.where(piped, held, GATHERED_LAYERS * each + tables)
        # what is trained is its own master copy, unless that is apart; what is frozen stands in 16 bits
        standing = WEIGHT_BYTES * shard * (1.0 if stack.separate_master else 1 - stack.trained_fraction)
        return gathered + standing, gathered, np.where(piped, held + shard, shard)
    if stack.sharded_gradients:
        whole = np.where(piped, held / np.maximum(batch.virtual_stages, 1.0), each + tables)
        return held * WEIGHT_BYTES, 0.0, np.minimum(held, whole + local.optimizer_shard)
    return held * WEIGHT_BYTES, 0.0, held


def _logit_bytes(stack: Stack, layout: Layout) -> Num:
    shifted = np.where(np.asarray(layout.tp) > 1, SHIFTED_LOGIT_BYTES, 0.0)
    return LOGIT_BYTES if stack.fused_loss else UNFUSED_LOGIT_BYTES + shifted


def _loose(model: Model, batch: Batch, layout: Layout, streams: Num) -> Num:
    """Gradients and activations on their way, and buffers of their exchange.

    Where weights are sharded, tables are one unit whose gradients stay whole until backward ends. Sequence parallelism
    gathers the input of a product and scatters a gradient, unless products take them piece by piece.
    """
    stack = batch.stack
    loose: Num = LOOSE_GRADIENT_BYTES * _largest_product(model) / layout.tp
    if batch.sharded_weights:
        each, tables = _unsharded(model, batch, layout)
        at_once = np.where(np.asarray(layout.pp) > 1, 0.0, WEIGHT_BYTES * tables)
        loose = REDUCED_GRADIENT_BYTES * each + at_once
    elif np.any(np.asarray(layout.dp * layout.cp) > 1):
        loose = loose + stack.bucket_bytes
    gathers = stack.sequence_parallel and not stack.hidden_tensor_parallel
    gathered = GATHERED_STREAMS * streams * (layout.tp - 1) if gathers else 0.0
    return stack.trained_fraction * loose + gathered


def _update_bytes(batch: Batch, local: LocalParams, freed: Num) -> Num:
    """What an update sets aside beyond what the passes before it have freed.

    Sharded weights are updated layer by layer, in blocks that fit where activations were. One flat tensor of a rank's
    whole share does not: the allocator keeps the smaller blocks and takes new memory.
    """
    stack = batch.stack
    aside = stack.trained_fraction * stack.update_bytes * local.optimizer_shard
    return np.maximum(aside - freed, 0.0) if batch.sharded_weights else aside


def _offloaded(
    model: Model, batch: Batch, on: tuple[StageLoad, LocalParams, Num], found: TrainingMemory
) -> TrainingMemory:
    """Move what a job keeps in the host's memory off the GPU.

    Megatron Core, which shards the optimizer alone, leaves the master copy on the GPU; DeepSpeed moves it and the
    gradients, so that sharded weights then stand there in 16 bits.

    References
    ----------
    deepspeed; Megatron Bridge (docs/training/cpu-offloading.md).
    """
    load, local, running = on
    shard, away = local.optimizer_shard * batch.stack.trained_fraction, batch.offloaded
    weights, gradients, optimizer = found.weights_bytes, found.gradients_bytes, found.optimizer_bytes
    activations, host = found.activations_bytes, np.asarray(0.0)
    if "optimizer" in away:
        host = host + optimizer + shard * GRADIENT_BYTES
        if batch.shared_master:
            optimizer, gradients = 0.0 * optimizer, 0.0 * gradients
        else:
            optimizer = shard * MASTER_BYTES
        if batch.sharded_weights and "weights" not in away:
            weights = weights + shard * WEIGHT_BYTES
    if "weights" in away:
        host = host + local.optimizer_shard * WEIGHT_BYTES
    if "activations" in away:
        plain, routed = (sum(group.count for group in layers) for layers in layer_kinds(model, batch))
        layers = np.maximum(load.plain * plain + load.routed * routed, 1.0)
        stays = np.minimum(running * STAYING_LAYERS / layers, activations)
        host, activations = host + activations - stays, stays
    return replace(
        found, weights_bytes=weights, gradients_bytes=gradients, optimizer_bytes=optimizer,
        activations_bytes=activations, host_bytes=host, again_bytes=np.minimum(found.again_bytes, activations),
    )  # fmt: skip


def copies_of(model: Model, batch: Batch, layout: Layout) -> Copies:
    """Count what a microbatch moves between a GPU of an average stage and its host.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        With what stays in the host's memory.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    Copies
        Of one microbatch.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.training.batch import Stack
    >>> batch = Batch(8192, 128, recompute="full", stack=Stack(offload="activations"))
    >>> copies_of(load_model("llama-3.1-8b"), batch, Layout(dp=8)).activations_bytes == 32 * 8192 * 4096 * 2
    True
    """
    away, local = batch.offloaded, local_params(model, batch, layout)
    kept = kept_by(model, batch)
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp / layout.pp
    moved = sum(kept.bytes_per_token(layers, layout) for layers in layer_kinds(model, batch))
    streams = "optimizer" in away and batch.shared_master
    sixteen = local.optimizer_shard * WEIGHT_BYTES
    return Copies(
        activations_bytes=tokens * moved if "activations" in away else 0.0,
        weights_bytes=sixteen if "weights" in away else 0.0,
        gradients_bytes=sixteen * batch.stack.trained_fraction if streams else 0.0,
    )


def state_values(model: Model, batch: Batch, local: LocalParams) -> Num:
    """Count the values that an optimizer keeps on one GPU beside its master copy.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        With its optimizer.
    local : LocalParams
        On one GPU.

    Returns
    -------
    float or ndarray
        Values [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> model, batch, layout = load_model("llama-3.1-8b"), Batch(8192, 128), Layout()
    >>> local = local_params(model, batch, layout)
    >>> bool(state_values(model, batch, local) == 2 * local.optimizer_shard)
    True
    """
    name, layers = batch.stack.optimizer, trained_layers(model, batch.stack.mtp_layers)
    dense, experts = (update_of(name, layers, model.hidden_size, routed).state_values for routed in (False, True))
    held = (local.dense - local.tables) * dense + local.tables * load_optimizer(name).n_moments_elsewhere
    return held / local.dense_replicas + local.experts * experts / local.expert_replicas


def _unsharded(model: Model, batch: Batch, layout: Layout) -> tuple[Num, Num]:
    """Parameters of the largest layer, and of the tables, which FSDP2 keeps in a unit of their own."""
    layers = trained_layers(model, batch.stack.mtp_layers)
    each = max(layer_counts((replace(group, count=1),), model.hidden_size).dense_params for group in layers)
    routed = max(layer_counts((replace(group, count=1),), model.hidden_size).stored_params for group in layers)
    spread = np.maximum(np.minimum(layout.n_gpus_per_stage, np.maximum(layout.ep, layout.tp)), 1.0)
    tables = (1.0 if model.tied_embeddings else 2.0) * model.vocab_size * model.hidden_size
    return each / layout.tp + routed / spread, tables / layout.tp


def _largest_product(model: Model) -> float:
    """Parameters of the widest product of a layer: a gated MLP's first two matrices are one."""
    d = model.hidden_size
    widths = [
        max(part.n_matrices - 1, 1) * max(part.width, part.n_shared_experts * part.shared_width, part.expert_width)
        for part in (group.feed_forward for group in model.layers)
    ]
    return float(d * max(widths, default=0))
