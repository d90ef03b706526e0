"""A training step as operations: one microbatch on the busiest GPU, the pipeline around it, the optimiser.

Backward costs twice the forward in matrix products and 2.5 times in attention (FlashAttention recomputes the scores).
``full`` recomputation runs the layers' forward once more, ``selective`` only the attention.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import LayerGroup, Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics import attention as mixing
from computeledger.physics import collectives, transformer
from computeledger.physics.operations import ACTIVATION_BYTES, activation_bytes
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, Precision, total_s
from computeledger.units import GIB

RECOMPUTE = ("none", "selective", "full")
#: Mixed-precision Adam: bf16 weight, fp32 gradient, and fp32 master copy with two moments.
WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2.0, 4.0, 12.0
#: Optimiser traffic per parameter: read and write of gradient, master copy, two moments.
OPTIMIZER_TRAFFIC_BYTES = 32.0
#: Passes over a matrix product's inputs that 8- and 4-bit training spends on scaling and casting (assumption).
QUANTISATION_PASSES = 3.0
#: Allocator, communication buffers and workspace beside what is counted (assumption).
WORKSPACE_BYTES = 2 * GIB
#: Logits live as bf16 and fp32 at once.
LOGIT_BYTES = 6.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What one training step sees.

    Attributes
    ----------
    sequence_tokens : float or ndarray
        Tokens of one sequence [token].
    global_sequences : float or ndarray
        Sequences per step, all data-parallel ranks together [-].
    microbatch_sequences : float or ndarray
        Sequences that pass a stage at once [-].
    recompute : str
        ``none``, ``selective`` or ``full``.
    virtual_stages : float or ndarray
        Interleaved model chunks per stage [-].
    sharded_weights : bool
        Weights and gradients sharded over data-parallel ranks as well (FSDP / ZeRO-3); the optimiser always is.
    """

    sequence_tokens: Num
    global_sequences: Num
    microbatch_sequences: Num = 1.0
    recompute: str = "selective"
    virtual_stages: Num = 1.0
    sharded_weights: bool = False

    def microbatches(self, layout: Layout) -> Num:
        """Microbatches that each pipeline runs per step, ``global / (dp x micro)`` and at least one.

        Parameters
        ----------
        layout : Layout
            Integer degrees or arrays.

        Returns
        -------
        float or ndarray
            Microbatches [-].

        Examples
        --------
        >>> float(Batch(4096.0, 128.0, microbatch_sequences=2.0).microbatches(Layout(dp=8)))
        8.0
        """
        return np.maximum(self.global_sequences / (layout.dp * self.microbatch_sequences), 1.0)


@functools.cache
def _params(layers: tuple[LayerGroup, ...], hidden_size: int) -> tuple[float, float, float, int]:
    """Parameters that every token meets, of one expert per layer times active, of all experts; expert layers."""
    always = active = stored = 0.0
    n_moe = 0
    for group in layers:
        part = group.feed_forward
        always += group.count * transformer.attention_params(group.attention, hidden_size)
        always += group.count * transformer.always_active_params(part, hidden_size)
        if part.n_experts:
            one = group.count * transformer.expert_params(part, hidden_size)
            active += part.n_experts_active * one
            stored += part.n_experts * one
            n_moe += group.count
    return always, active, stored, n_moe


@functools.cache
def _product_inputs(layers: tuple[LayerGroup, ...], hidden_size: int) -> float:
    """Values per token that enter matrix products, all layers."""
    values = 0.0
    for group in layers:
        mixer, part = group.attention, group.feed_forward
        values += group.count * (hidden_size + mixer.n_query_heads * mixer.v_head_dim)
        widths = part.width + part.n_shared_experts * part.shared_width + part.n_experts_active * part.expert_width
        values += group.count * (hidden_size * (1 + part.n_experts_active) + widths)
    return values


def microbatch(model: Model, batch: Batch, layout: Layout, precision: Precision, machine: Machine) -> list[Operation]:
    """List the operations of one microbatch, forward and backward, on one GPU of an average stage.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Sequences and recomputation.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of matrix products by kind.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    list of Operation
        Their times add up to the microbatch's time on the GPU.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> operations = microbatch(load_model("llama-3.1-8b"), Batch(8192, 128), Layout(dp=8), Precision(),
    ...                         Machine(load_system("h100-nvl8")))
    >>> operations[0].name
    'matrix products'
    """
    again = 1.0 if batch.recompute == "full" else 0.0
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp
    return [
        *_products(model, (tokens, again), layout, precision, machine),
        _attention(model, batch, tokens, layout, machine),
        _elementwise(model, (tokens, again), layout, precision, machine),
        *_network(model, (tokens, again), layout, machine),
    ]


def _products(
    model: Model, work: tuple[Num, float], layout: Layout, precision: Precision, machine: Machine
) -> Iterator[Operation]:
    tokens, again = work
    eff = machine.efficiency
    always, active, stored, _ = _params(model.layers, model.hidden_size)
    cut = layout.tp * layout.pp
    rate = machine.gemm_flop_per_s(precision.dense) * eff.training_gemm_fraction
    traffic = (2 + again) * PRECISION_BYTES["bf16"] + 2 * GRADIENT_BYTES
    yield Operation(
        "matrix products",
        flop=2 * (3 + again) * tokens * always / cut,
        bytes=always / cut * traffic,
        flop_per_s=rate,
        bytes_per_s=machine.weight_bytes_per_s,
    )
    head = model.vocab_size * model.hidden_size / cut
    yield Operation(
        "output head",
        flop=2 * 3 * tokens * head,
        flop_per_s=machine.gemm_flop_per_s("bf16") * eff.training_gemm_fraction,
    )
    if active:
        yield Operation(
            "routed experts",
            flop=2 * (3 + again) * tokens * active / cut * eff.expert_imbalance,
            bytes=stored / layout.n_gpus_per_stage / layout.pp * traffic,
            flop_per_s=machine.gemm_flop_per_s(precision.experts) * eff.training_gemm_fraction * eff.expert_fraction,
            bytes_per_s=machine.weight_bytes_per_s,
        )


def _attention(model: Model, batch: Batch, tokens: Num, layout: Layout, machine: Machine) -> Operation:
    per_token: Num = 0.0
    for group in model.layers:
        visible = mixing.mean_visible_tokens(group.attention, batch.sequence_tokens)
        one = mixing.attention_flop_per_query(group.attention, visible, absorbed=False)
        one = one + mixing.indexer_flop_per_query(group.attention, batch.sequence_tokens / 2)
        per_token = per_token + group.count * one
    passes = 3.5 if batch.recompute == "none" else 4.5
    return Operation(
        "attention",
        flop=passes * tokens * per_token / (layout.tp * layout.pp),
        flop_per_s=machine.bf16_flop_per_s * machine.efficiency.training_attention_fraction,
    )


def _elementwise(
    model: Model, work: tuple[Num, float], layout: Layout, precision: Precision, machine: Machine
) -> Operation:
    tokens, again = work
    # sequence parallelism cuts the residual stream over TP as well
    traffic = (2.5 + again) * activation_bytes(model, tokens, 1.0) / (layout.tp * layout.pp)
    bytes_ = traffic * machine.efficiency.activation_passes
    if precision.dense != "bf16" and np.any(machine.efficiency.activation_passes):
        values = _product_inputs(model.layers, model.hidden_size)
        cast = tokens * values * 2 * ACTIVATION_BYTES * QUANTISATION_PASSES / (layout.tp * layout.pp)
        bytes_ = bytes_ + cast * (2 + again)
    return Operation("activations and casts", bytes=bytes_, bytes_per_s=machine.weight_bytes_per_s)


def _network(model: Model, work: tuple[Num, float], layout: Layout, machine: Machine) -> Iterator[Operation]:
    tokens, again = work
    eff = machine.efficiency
    _, _, _, n_moe = _params(model.layers, model.hidden_size)
    residual = tokens * model.hidden_size * ACTIVATION_BYTES
    n_tensor = (8 + 4 * again) * model.n_layers / layout.pp
    yield Operation("tensor-parallel", network_s=n_tensor * collectives.ring_s(residual, layout.tp, machine, passes=1))
    cache = sum(
        group.count * mixing.kv_bytes_per_token_layer(group.attention, ACTIVATION_BYTES) for group in model.layers
    )
    ring = collectives.ring_s(tokens * layout.cp * cache / layout.tp / layout.pp, layout.cp, machine, passes=1)
    yield Operation("context-parallel", network_s=4 * ring * eff.exposed_fraction)
    if n_moe:
        k = max(group.feed_forward.n_experts_active for group in model.layers)
        ranks = layout.ep * (1 - (1 - 1 / np.asarray(layout.ep, float)) ** k)
        one = collectives.all_to_all_s(residual / layout.tp * ranks, layout.ep, machine)
        yield Operation("all-to-all", network_s=(4 + 2 * again) * n_moe / layout.pp * one * eff.exposed_fraction)
    hop = collectives.hop_s(residual / layout.tp, layout.n_gpus_per_stage, machine)
    yield Operation("pipeline hops", network_s=np.where(np.asarray(layout.pp) > 1, 2 * hop * eff.exposed_fraction, 0.0))


@dataclass(frozen=True, slots=True)
class StepTime:
    """A training step by part.

    Attributes
    ----------
    operations : tuple of Operation
        Of one microbatch, as modelled.
    ratio : float or ndarray
        Real over modelled time of a microbatch [-].
    microbatch_s : float or ndarray
        One microbatch on one stage [s].
    microbatches : float or ndarray
        Per pipeline and step [-].
    bubble_s, gradients_s, optimizer_s, fixed_s : float or ndarray
        Idle pipeline, exposed gradient and parameter exchange, optimiser, once-per-step time [s].
    """

    operations: tuple[Operation, ...]
    ratio: Num
    microbatch_s: Num
    microbatches: Num
    bubble_s: Num
    gradients_s: Num
    optimizer_s: Num
    fixed_s: Num

    @property
    def step_s(self) -> Num:
        """Time of the step [s]."""
        return (
            self.microbatch_s * self.microbatches + self.bubble_s + self.gradients_s + self.optimizer_s + self.fixed_s
        )


def step_time(model: Model, batch: Batch, layout: Layout, precision: Precision, machine: Machine) -> StepTime:
    """Time one optimiser step of the whole job.

    ``t = t_micro (m + (pp - 1) / v) + exposed gradients + optimiser + fixed``

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Sequences and recomputation.
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
    eff = machine.efficiency
    operations = tuple(microbatch(model, batch, layout, precision, machine))
    on_gpu = total_s(operations)
    host = eff.microbatch_layer_s * model.n_layers / layout.pp
    one = eff.training_ratio * np.maximum(on_gpu, host)
    n_micro = batch.microbatches(layout)
    always, _, stored, _ = _params(model.layers, model.hidden_size)
    tables = model.vocab_size * model.hidden_size * (1 if model.tied_embeddings else 2)
    dense_local = (always + tables) / (layout.tp * layout.pp)
    expert_local = stored / (layout.n_gpus_per_stage * layout.pp) * _expert_replicas(layout)
    shard = dense_local / (layout.dp * layout.cp) + expert_local / _expert_replicas(layout)
    return StepTime(
        operations=operations,
        ratio=eff.training_ratio,
        microbatch_s=one,
        microbatches=n_micro,
        bubble_s=one * (layout.pp - 1) / batch.virtual_stages,
        gradients_s=eff.exposed_fraction * _exchange_s((dense_local, expert_local), batch, layout, machine),
        optimizer_s=shard * OPTIMIZER_TRAFFIC_BYTES / machine.weight_bytes_per_s,
        fixed_s=eff.training_step_s,
    )


def _exchange_s(local: tuple[Num, Num], batch: Batch, layout: Layout, machine: Machine) -> Num:
    """Gradients reduced and parameters gathered once per step; sharded weights are gathered per microbatch as well."""
    dense, experts = local
    replicas = layout.dp * layout.cp
    once = GRADIENT_BYTES + WEIGHT_BYTES
    exchange = collectives.ring_s(dense * once, replicas, machine, passes=1) + collectives.ring_s(
        experts * once, _expert_replicas(layout), machine, passes=1
    )
    if batch.sharded_weights:
        gathered = collectives.ring_s(dense * WEIGHT_BYTES, replicas, machine, passes=1)
        exchange = exchange + 2 * batch.microbatches(layout) * gathered
    return exchange


def _expert_replicas(layout: Layout) -> Num:
    """Copies of each expert: the GPUs of a stage over those that one set of experts needs."""
    return np.maximum(layout.n_gpus_per_stage / np.maximum(layout.ep, layout.tp), 1.0)


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
    """Account for the HBM of the busiest GPU: the first stage, which keeps the most microbatches alive.

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
    always, _, stored, _ = _params(model.layers, model.hidden_size)
    tables = model.vocab_size * model.hidden_size * (1 if model.tied_embeddings else 2) / np.minimum(layout.pp, 2)
    dense = always / (layout.tp * layout.pp) + tables / layout.tp
    copies = _expert_replicas(layout)
    experts = stored / (layout.n_gpus_per_stage * layout.pp) * copies
    replicas = layout.dp * layout.cp
    held = dense / replicas + experts / copies if batch.sharded_weights else dense + experts
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp
    alive = np.minimum(batch.microbatches(layout), layout.pp)
    full = batch.recompute == "full"
    values = model.n_layers * model.hidden_size if full else _kept_values(model.layers, model.hidden_size)
    kept = tokens * ACTIVATION_BYTES * values / (layout.tp * layout.pp)
    return TrainingMemory(
        weights_bytes=held * WEIGHT_BYTES,
        gradients_bytes=held * GRADIENT_BYTES,
        optimizer_bytes=(dense / replicas + experts / copies) * OPTIMIZER_BYTES,
        activations_bytes=kept * alive,
        logits_bytes=tokens * model.vocab_size * LOGIT_BYTES / layout.tp,
        workspace_bytes=WORKSPACE_BYTES,
    )


@functools.cache
def _kept_values(layers: tuple[LayerGroup, ...], hidden_size: int) -> float:
    """Values per token kept for backward, all layers: inputs and outputs of matrix products and norms."""
    values = 0.0
    for group in layers:
        mixer, part = group.attention, group.feed_forward
        heads = mixer.n_query_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        cached = mixer.n_kv_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        widths = part.width + part.n_shared_experts * part.shared_width + part.n_experts_active * part.expert_width
        values += group.count * (4 * hidden_size + heads + cached)
        values += group.count * (part.n_matrices * widths + hidden_size * (2 + 2 * part.n_experts_active))
    return values
