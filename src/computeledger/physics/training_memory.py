"""What a training GPU holds: weights, gradients, optimiser, activations by recompute mode and stage, logits."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import LayerGroup, Model
from computeledger.physics.operations import ACTIVATION_BYTES
from computeledger.physics.parallelism import Layout
from computeledger.physics.training_batch import Batch
from computeledger.physics.training_operations import layer_counts, trained_layers
from computeledger.units import GIB

#: Mixed-precision Adam: bf16 weight, fp32 gradient, and fp32 master copy with two moments.
WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2.0, 4.0, 12.0
#: Allocator, communication buffers and workspace beside what is counted (assumption).
WORKSPACE_BYTES = 2 * GIB
#: Logits live as bf16 and fp32 at once.
LOGIT_BYTES = 6.0


@dataclass(frozen=True, slots=True)
class LocalParams:
    """Parameters on one GPU of a stage, and over how many GPUs their optimiser is spread.

    Attributes
    ----------
    dense, experts : float or ndarray
        Of mixers, dense parts and tables; of routed experts [-].
    dense_replicas, expert_replicas : float or ndarray
        GPUs that hold the same [-].
    """

    dense: Num
    experts: Num
    dense_replicas: Num
    expert_replicas: Num

    @property
    def optimizer_shard(self) -> Num:
        """Parameters whose optimiser state one GPU keeps [-]."""
        return self.dense / self.dense_replicas + self.experts / self.expert_replicas


def local_params(model: Model, batch: Batch, layout: Layout) -> LocalParams:
    """Count the parameters on one GPU of an average stage.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Whose prediction modules count.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    LocalParams
        On one GPU.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(local_params(load_model("llama-3.1-8b"), Batch(8192, 128), Layout(tp=2, dp=4)).dense_replicas)
    4.0
    """
    tables = 1.0 if model.tied_embeddings else 2.0
    return _stage_params(model, batch, layout, (1 / layout.pp, 1 / layout.pp, tables / layout.pp))


def _stage_params(model: Model, batch: Batch, layout: Layout, shares: tuple[Num, Num, Num]) -> LocalParams:
    """Parameters of a stage with its shares of dense parts and of experts, and its number of tables."""
    dense, experts, tables = shares
    counts = layer_counts(trained_layers(model, batch.stack.mtp_layers), model.hidden_size)
    spread = np.maximum(np.minimum(layout.n_gpus_per_stage, np.maximum(layout.ep, layout.tp)), 1.0)
    table = model.vocab_size * model.hidden_size
    return LocalParams(
        dense=(counts.dense_params * dense + tables * table) / layout.tp,
        experts=counts.stored_params / spread * experts,
        dense_replicas=np.asarray(layout.dp * layout.cp, float),
        expert_replicas=np.maximum(layout.n_gpus_per_stage / spread, 1.0),
    )


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Memory of the busiest training GPU by tenant.

    Attributes
    ----------
    weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes, logits_bytes, workspace_bytes : float or ndarray
        Tenants [byte].
    """

    weights_bytes: Num
    gradients_bytes: Num
    optimizer_bytes: Num
    activations_bytes: Num
    logits_bytes: Num
    workspace_bytes: Num

    @property
    def total_bytes(self) -> Num:
        """Sum of the tenants [byte]."""
        held = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return held + self.activations_bytes + self.logits_bytes + self.workspace_bytes


def training_memory(model: Model, batch: Batch, layout: Layout) -> TrainingMemory:
    """Account for the HBM of the busiest GPU: of the first stage, which keeps most microbatches alive, or of the last.

    The last stage holds the head, its logits, and experts where earlier layers have none.

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

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> memory = training_memory(load_model("llama-3.1-8b"), Batch(8192, 128), Layout(dp=8))
    >>> round(float(memory.weights_bytes) / 1e9, 1)
    16.1
    """
    first, last = (_stage_memory(model, batch, layout, is_last) for is_last in (False, True))
    busier = np.asarray(first.total_bytes > last.total_bytes)
    return TrainingMemory(
        **{one.name: np.where(busier, getattr(first, one.name), getattr(last, one.name)) for one in fields(first)}
    )


def _stage_memory(model: Model, batch: Batch, layout: Layout, is_last: bool) -> TrainingMemory:
    layers = trained_layers(model, batch.stack.mtp_layers)
    counts, n_layers = layer_counts(layers, model.hidden_size), sum(group.count for group in layers)
    alone = np.asarray(layout.pp) == 1
    share = np.ceil(n_layers / layout.pp) / n_layers
    # layers without experts come first where a stage could hold them all
    n_moe = max(counts.n_moe, 1)
    few = (n_layers - counts.n_moe) * layout.pp < n_layers
    experts = np.where(few & is_last, np.minimum(share * n_layers / n_moe, 1.0), share)
    tables = np.where(alone, 1.0 if model.tied_embeddings else 2.0, 1.0)
    local = _stage_params(model, batch, layout, (share, experts, tables))
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp
    held = local.optimizer_shard if batch.sharded_weights else local.dense + local.experts
    trained = batch.stack.trained_fraction
    alive = 1.0 if is_last else _alive_microbatches(batch, layout)
    kept = _kept_values(layers, model.hidden_size, batch.recompute)
    logits = tokens * model.vocab_size * LOGIT_BYTES / layout.tp
    return TrainingMemory(
        weights_bytes=held * WEIGHT_BYTES,
        gradients_bytes=held * GRADIENT_BYTES * trained,
        optimizer_bytes=local.optimizer_shard * OPTIMIZER_BYTES * trained,
        activations_bytes=tokens * ACTIVATION_BYTES * kept * share / layout.tp * alive,
        logits_bytes=logits if is_last else np.where(alone, logits, 0.0),
        workspace_bytes=WORKSPACE_BYTES,
    )


def _alive_microbatches(batch: Batch, layout: Layout) -> Num:
    """Microbatches whose activations the first stage keeps, in units of one stage's layers.

    1F1B keeps ``pp``; ``v`` interleaved chunks keep ``pp (1 + (pp - 1) / (pp v))``; reversible layers keep one.
    """
    if batch.recompute == "reversible":
        return 1.0
    chunks = np.maximum(batch.virtual_stages, 1.0)
    warm = np.where(chunks > 1, layout.pp + (layout.pp - 1) / chunks, layout.pp)
    return np.minimum(batch.microbatches(layout), warm)


@functools.cache
def _kept_values(layers: tuple[LayerGroup, ...], hidden_size: int, recompute: str) -> float:
    """Values per token kept for backward, all layers: inputs and outputs of matrix products and norms.

    ``full`` keeps the inputs of layers; reversible layers keep those of two.
    """
    if recompute == "full":
        return float(sum(group.count for group in layers) * hidden_size)
    if recompute == "reversible":
        return 2.0 * hidden_size
    values = 0.0
    for group in layers:
        mixer, part = group.attention, group.feed_forward
        heads = mixer.n_query_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        cached = mixer.n_kv_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        widths = part.width + part.n_shared_experts * part.shared_width + part.n_experts_active * part.expert_width
        values += group.count * (4 * hidden_size + heads + cached)
        values += group.count * (part.n_matrices * widths + hidden_size * (2 + 2 * part.n_experts_active))
    return values
