"""The operations of one training microbatch on one GPU of an average pipeline stage, forward and backward.

Backward costs twice the forward in matrix products and 2.5 times in attention (FlashAttention recomputes the scores).
``full`` recomputation and reversible layers run the layers' forward once more, ``selective`` only the attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.attention import mixer_of
from computeledger.physics.collectives import reduction_latency_s
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Machine, Operation, Precision, total_s
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.training.batch import GRADIENT_BYTES, Batch
from computeledger.physics.training.counts import LayerCounts, layer_counts, trained_layers
from computeledger.physics.training.exchange import exchange_s, overlapped_s
from computeledger.physics.training.host import exposed_s, host_of
from computeledger.physics.training.memory import copies_of
from computeledger.physics.transformer import kv_bytes_per_token

#: Backward over forward: matrix products, elementwise kernels, attention (definition and assumption).
BACKWARD, BACKWARD_ELEMENTWISE, BACKWARD_ATTENTION = 2.0, 1.5, 2.5
#: Passes of block-scaled casts over those of one scale per tensor: both orientations are cast (assumption).
BLOCK_CAST_RATIO = 2.0
#: Passes of casts in experts over those of their activations (assumption: amax, transpose and padding apart).
EXPERT_CASTS = 3.0
#: Rate of the chunked scans of linear mixers against attention's, per FLOP of their recurrence (assumption).
SCAN_RATIO = 0.2
#: Passes over the scores of unfused attention, forward and backward, and those of its forward: scores, softmax,
#: dropout and its mask, values (counted).
UNFUSED_PASSES, UNFUSED_FORWARD = 16.0, 6.5
#: Row-wise 8-bit products against one scale per tensor, without and with tensor parallelism (fitted by hand: Llama 3.1
#: 8B on eight H100 gains 10 to 12 % over bf16 where one scale gains 25 %, torchao and torchtitan 7a04053; 70B at tp8
#: gains nothing where one scale gains 36 %).
ROW_RATIO, ROW_RATIO_CUT = 1.5, 2.0
#: Eager frameworks' activation traffic over fused kernels' (assumption).
EAGER_RATIO = 2.0
#: Exposed shares of traffic that runs beside computing: ring attention, stage hand-over (assumptions).
CONTEXT_EXPOSED, HOP_EXPOSED = 0.3, 0.1
#: Exposed share of hidden tensor-parallel traffic (assumption).
HIDDEN_EXPOSED = 0.5


def microbatch(model: Model, batch: Batch, layout: Layout, precision: Precision, machine: Machine) -> list[Operation]:
    """List the operations of one microbatch, forward and backward, on one GPU of an average stage.

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
    counts = layer_counts(trained_layers(model, batch.stack.mtp_layers), model.hidden_size)
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp
    work = _Work(model, batch, layout, counts, tokens, machine)
    computing = [*_products(work, precision), *_attention(work), _elementwise(work, precision)]
    operations = [*computing, *_network(work, total_s(computing))]
    if batch.offloaded:
        copies, host = copies_of(model, batch, layout), host_of(machine.system, layout)
        waits = exposed_s(copies, total_s(operations), 1 / work.passes, host)
        operations.append(Operation(Kind.HOST_COPIES, network_s=waits))
    return [*operations, _uneven(work, operations)]


@dataclass(frozen=True, slots=True)
class _Work:
    model: Model
    batch: Batch
    layout: Layout
    counts: LayerCounts
    tokens: Num
    machine: Machine

    @property
    def passes(self) -> Num:
        """Passes over the weights' products: forward, input gradients, weight gradients, forward again."""
        return 2.0 + self.batch.stack.trained_fraction + self.batch.forward_again

    @property
    def bytes_per_s(self) -> Num:
        chip = self.machine.system.accelerator
        return chip.hbm_bytes_per_s.value * self.machine.training.training_bandwidth_fraction

    def product_flop_per_s(self, precision: str) -> Num:
        chip, recipe = self.machine.system.accelerator, self.batch.stack.recipe
        native = chip.native_precision(precision)
        fraction = self.machine.training.gemm_fraction(chip, native)
        rate = chip.peak(native) * self.machine.training.sustained(chip, fraction)
        if recipe != "row" or native == "bf16":
            return rate
        return rate / np.where(np.asarray(self.layout.tp) > 1, ROW_RATIO_CUT, ROW_RATIO)


def _p_norm(one: Num, other: Num) -> Num:
    """Time of a product and its traffic, which overlap inside a kernel: their 3-norm (assumption)."""
    return np.cbrt(one * one * one + other * other * other)


def _products(work: _Work, precision: Precision) -> Iterator[Operation]:
    counts, layout, tokens = work.counts, work.layout, work.tokens
    eff, again = work.machine.training, work.batch.forward_again
    cut = layout.tp * layout.pp
    moved = (2 + again) * PRECISION_BYTES["bf16"] + 2 * GRADIENT_BYTES * work.batch.stack.trained_fraction
    io = ACTIVATION_BYTES * (3 + again) / layout.pp
    ramp = eff.training_ramp_values
    filled = counts.dense_params + ramp * (counts.wide_ramp + counts.cut_ramp * layout.tp)
    up_again = counts.up_params if work.batch.recomputes("mla_up_proj") and not again else 0.0
    yield _product(
        Kind.MATRIX_PRODUCTS,
        (2 * tokens * (work.passes * counts.dense_params + up_again) / cut, filled / counts.dense_params),
        counts.dense_params / cut * moved + tokens * io * (counts.wide_values + counts.cut_values / layout.tp),
        (work.product_flop_per_s(precision.dense), work.bytes_per_s),
    )
    heads = (1 + work.batch.stack.mtp_layers) * work.model.vocab_size * work.model.hidden_size / cut
    yield _product(
        Kind.OUTPUT_HEAD,
        (2 * (2 + work.batch.stack.trained_fraction) * tokens * heads, 1 + ramp / work.model.hidden_size / 2),
        tokens * 4 * ACTIVATION_BYTES * work.model.vocab_size / cut,
        (work.product_flop_per_s("bf16"), work.bytes_per_s),
    )
    if counts.n_moe:
        stage = layout.n_gpus_per_stage
        fused = work.batch.stack.fused_experts
        grouped = eff.training_fused_expert_fraction if fused else eff.training_expert_fraction
        spread = np.maximum(np.minimum(stage, np.maximum(layout.ep, layout.tp)), 1.0)
        gathered = np.maximum(np.asarray(layout.ep) / layout.tp, 1.0)
        rows = tokens * counts.copies / counts.n_experts * gathered * work.batch.stack.imbalance
        few = eff.training_expert_rows / rows
        wide = 1 + np.square(eff.training_expert_width_values / counts.expert_width)
        grouped = grouped + (1 - grouped) / wide
        yield _product(
            Kind.ROUTED_EXPERTS,
            (
                2 * work.passes * tokens * counts.routed_params / cut * work.batch.stack.imbalance,
                1 + ramp * counts.routed_ramp / counts.routed_params + few,
            ),
            counts.stored_params / spread / layout.pp * moved + tokens * io * counts.routed_values / layout.tp,
            (work.product_flop_per_s(precision.experts) * grouped, work.bytes_per_s),
        )


def _product(kind: Kind, work: tuple[Num, Num], bytes_: Num, rates: tuple[Num, Num]) -> Operation:
    """A product whose arithmetic and traffic overlap, but not wholly; ``work`` is its FLOP and the ramp over it."""
    flop, slower = work
    flop_per_s, bytes_per_s = rates[0] / slower, rates[1]
    compute, memory = flop / flop_per_s, bytes_ / bytes_per_s
    waits = _p_norm(compute, memory) - np.maximum(compute, memory)
    return Operation(kind, flop, bytes_, flop_per_s, bytes_per_s, overhead_s=waits)


def _attention(work: _Work) -> Iterator[Operation]:
    batch, machine, layout = work.batch, work.machine, work.layout
    flop: dict[Kind, Num] = {Kind.ATTENTION: 0.0, Kind.STATE_SCANS: 0.0}
    # padding is attended to as tokens are
    computed = batch.attended_tokens if batch.useful_fraction == 1 else batch.sequence_tokens
    for group in trained_layers(work.model, batch.stack.mtp_layers):
        mixer = mixer_of(group.attention)
        kind, visible = mixer.training_operation, mixer.mean_visible_tokens(computed)
        flop[kind] = flop[kind] + group.count * mixer.flop_per_query(visible, absorbed=False)
        flop[kind] = flop[kind] + group.count * mixer.indexer_flop_per_query(computed / 2)
    softmax, scans = flop[Kind.ATTENTION], flop[Kind.STATE_SCANS]
    again = float(batch.recomputes("core_attn"))
    passes = 1 + BACKWARD_ATTENTION + again
    if batch.stack.attention == "unfused":
        yield _unfused(work, softmax, again)
        return
    fraction = machine.training.attention_fraction(machine.system.accelerator, batch.stack.attention)
    cut = layout.tp * layout.pp
    rate = machine.bf16_flop_per_s * machine.training.sustained(machine.system.accelerator, fraction)
    if batch.documents is not None:  # the slowest rank's attention is waited for
        sequences = batch.global_sequences / layout.dp
        rate = rate / batch.documents.attention_ratio(layout.dp, layout.cp, sequences)
    yield Operation(Kind.ATTENTION, flop=passes * work.tokens * softmax / cut, flop_per_s=rate)
    if np.any(scans):
        yield Operation(Kind.STATE_SCANS, flop=passes * work.tokens * scans / cut, flop_per_s=rate * SCAN_RATIO)


def _unfused(work: _Work, softmax_flop: Num, again: float) -> Operation:
    """Attention by plain products over whole rows, its scores in HBM."""
    cut = work.layout.tp * work.layout.pp
    heads = sum(group.count * group.attention.n_query_heads for group in work.model.layers)
    scores = heads * work.batch.sequence_tokens * ACTIVATION_BYTES * (UNFUSED_PASSES + UNFUSED_FORWARD * again)
    return Operation(
        Kind.ATTENTION,
        flop=2 * (1 + BACKWARD + again) * work.tokens * softmax_flop / cut,
        flop_per_s=work.product_flop_per_s("bf16"),
        overhead_s=work.tokens * scores / cut / work.bytes_per_s,
    )


def _streams(work: _Work) -> Num:
    """Residual streams that layers read and stages hand on: the model's own, or more where that is asked."""
    return np.maximum(work.batch.stack.residual_streams, work.model.residual_streams)


def _elementwise(work: _Work, precision: Precision) -> Operation:
    counts, layout, eff, stack = work.counts, work.layout, work.machine.training, work.batch.stack
    again = work.batch.forward_again
    # sequence parallelism cuts the residual stream over TP as well; without it each GPU moves all of it
    whole = 1.0 if stack.sequence_parallel else layout.tp
    residual = counts.residual_values * _streams(work) * whole
    values = eff.training_activation_passes * (residual + counts.mixer_values)
    routed = counts.permuted_values + (0.0 if stack.fused_experts else counts.expert_values)
    values = values + eff.training_expert_passes * routed
    moved = (1 + BACKWARD_ELEMENTWISE + again) * values
    if not again:
        named = {"layernorm": counts.norm_values, "moe_act": counts.activation_values}
        moved = moved + sum(one for name, one in named.items() if work.batch.recomputes(name))
    moved = moved * (1.0 if stack.compiled else EAGER_RATIO)
    if work.machine.system.accelerator.native_precision(precision.name) != "bf16":
        ratio = BLOCK_CAST_RATIO if stack.recipe == "block" else 1.0
        casts = eff.training_quantization_passes * counts.cast_values
        copies = 0.0 if stack.fused_experts else EXPERT_CASTS * eff.training_expert_passes * counts.routed_casts
        moved = moved + (2 + again) * (casts + copies) * ratio
    bytes_ = work.tokens * ACTIVATION_BYTES * moved / (layout.tp * layout.pp)
    return Operation(Kind.ACTIVATIONS_AND_CASTS, bytes=bytes_, bytes_per_s=work.bytes_per_s)


def _uneven(work: _Work, operations: list[Operation]) -> Operation:
    """What the busiest stage takes beyond the average one.

    Where the stages divide the layers, the last one runs the head besides its share; where they do not, the stages
    that have a layer less take the tables, and the others have whole layers.
    """
    pp, n_layers = work.layout.pp, sum(group.count for group in work.model.layers)
    head = sum(one.time_s for one in operations if one.kind is Kind.OUTPUT_HEAD)
    rest = sum(one.time_s for one in operations if one.kind is not Kind.OUTPUT_HEAD)
    whole = np.ceil(n_layers / pp)
    extra = np.where(whole * pp == n_layers, head * (pp - 1), np.maximum(rest * whole * pp / n_layers - rest - head, 0))
    return Operation(Kind.UNEVEN_STAGES, overhead_s=extra)


def _network(work: _Work, computing_s: Num) -> Iterator[Operation]:
    layout, counts, model, machine = work.layout, work.counts, work.model, work.machine
    stack, again, eff = work.batch.stack, work.batch.forward_again, machine.training
    up = machine.system.scale_up_bytes_per_s_per_gpu.value * eff.training_link_fraction
    out = machine.system.cross_domain_bytes_per_s_per_gpu * eff.training_link_fraction
    domain = machine.system.n_gpus_scale_up.value
    residual = work.tokens * model.hidden_size * ACTIVATION_BYTES
    tensor = (8 + 4 * again) * model.n_layers / layout.pp
    link = np.where(np.asarray(layout.tp) > domain, out, up)
    wire = residual * (1 - 1 / layout.tp) / link + reduction_latency_s(layout.tp, machine)
    exposed = HIDDEN_EXPOSED if stack.hidden_tensor_parallel else 1.0
    yield Operation(Kind.TENSOR_PARALLEL, network_s=tensor * wire * exposed)
    cache = kv_bytes_per_token(model, ACTIVATION_BYTES)
    link = np.where(layout.tp * layout.cp > domain, out, up)
    ring = work.tokens * cache / layout.tp / layout.pp * (layout.cp - 1) / link
    yield Operation(Kind.CONTEXT_PARALLEL, network_s=4 * ring * CONTEXT_EXPOSED)
    if counts.n_moe:
        exchange = exchange_s(model, work.batch, layout, machine)
        if stack.schedule == "dualpipe":
            exchange = overlapped_s(exchange, computing_s) - computing_s
        yield Operation(Kind.ALL_TO_ALL, network_s=exchange)
    link = np.where(layout.n_gpus_per_stage * 2 <= domain, up, _hop_bytes_per_s(layout, machine))
    sent = residual / layout.tp * _streams(work) / link * work.batch.virtual_stages
    yield Operation(Kind.PIPELINE_HOPS, network_s=np.where(np.asarray(layout.pp) > 1, 4 * sent * HOP_EXPOSED, 0.0))


def _hop_bytes_per_s(layout: Layout, machine: Machine) -> Num:
    """Rate of a hop beyond the scale-up domain; the slowest paces all, and a stage that leaves its pod sends alone."""
    system, link = machine.system, machine.training.training_link_fraction
    within = system.cross_domain_bytes_per_s_per_gpu * link
    senders = np.minimum(layout.n_gpus_per_stage, system.pod_gpus)
    between = system.cross_pod_bytes_per_s_per_gpu * link * system.pod_gpus / senders
    return np.where(layout.n_gpus > system.pod_gpus, np.minimum(within, between), within)
