"""The operations of one training microbatch on one GPU of an average pipeline stage, forward and backward.

Backward costs twice the forward in matrix products and 2.5 times in attention (FlashAttention recomputes the scores).
``full`` recomputation and reversible layers run the layers' forward once more, ``selective`` only the attention.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import FeedForward, LayerGroup, Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics import attention as mixing
from computeledger.physics import transformer
from computeledger.physics.collectives import latency_s
from computeledger.physics.efficiency_training import chip_family
from computeledger.physics.operations import ACTIVATION_BYTES
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, Precision
from computeledger.physics.training_batch import Batch

#: fp32 gradient that each microbatch reads and adds to [byte].
GRADIENT_BYTES = 4.0
#: Products and their traffic overlap inside a kernel: time is the p-norm of the two, p of this value (assumption).
OVERLAP_NORM = 3
#: Backward over forward: matrix products, elementwise kernels, attention (definition and assumption).
BACKWARD, BACKWARD_ELEMENTWISE, BACKWARD_ATTENTION = 2.0, 1.5, 2.5
#: Values per routed copy of a token that permuting, activation and weighting move, over those of a dense MLP.
PERMUTE_VALUES = 6
#: Passes of block-scaled casts over those of one scale per tensor: both orientations are cast (assumption).
BLOCK_CAST_RATIO = 3.0
#: Passes of casts in experts over those of their activations (assumption: amax, transpose and padding apart).
EXPERT_CASTS = 3.0
#: Rate of the chunked scans of linear mixers against attention's, per FLOP of their recurrence (assumption).
SCAN_RATIO = 0.2
#: Passes over the scores of unfused attention, forward and backward, and those of its forward: scores, softmax,
#: dropout and its mask, values (counted).
UNFUSED_PASSES, UNFUSED_FORWARD = 16.0, 6.5
#: Row-wise 8-bit products against one scale per tensor (assumption, four torchtitan rows).
ROW_RATIO = 2.5
#: Eager frameworks' activation traffic over fused kernels' (assumption).
EAGER_RATIO = 2.0
#: Activation traffic where one compiler sees the whole program and fuses it into the products (assumption: XLA).
WHOLE_PROGRAM_RATIO = 0.4
#: Exposed shares of traffic that runs beside computing: ring attention, stage hand-over (assumptions).
CONTEXT_EXPOSED, HOP_EXPOSED = 0.3, 0.1
#: Exposed share of expert traffic inside a scale-up domain, and of hidden tensor-parallel traffic (assumptions).
EXPERT_EXPOSED, HIDDEN_EXPOSED = 0.3, 0.5
#: What DualPipe leaves of that (assumption: its authors call the exchange's overhead near zero).
DUALPIPE_EXPOSED = 0.2


@dataclass(frozen=True, slots=True)
class LayerCounts:
    """What one token meets in all layers of a model.

    Attributes
    ----------
    dense_params, routed_params, stored_params : float
        Multiplied by every token; of the experts a token visits; of all experts [-].
    wide_ramp, cut_ramp, routed_ramp : float
        Parameters over the inner widths of their products: as wide as the residual stream, cut over TP, of experts [-].
    n_moe : int
        Layers with experts [-].
    wide_values, cut_values, routed_values : float
        Inputs and outputs of products: as wide as the residual stream, cut over TP, of routed copies [-].
    cast_values, routed_casts : float
        Inputs of products that a narrow precision casts: of every token, of routed copies [-].
    residual_values, mixer_values, permuted_values, expert_values : float
        Values that elementwise kernels move: residual stream, inside mixers and MLPs, of routed copies on their way
        and inside experts [-].
    copies, latent_width : float
        Experts a token visits, and the width that travels to them [-].
    """

    dense_params: float
    routed_params: float
    stored_params: float
    wide_ramp: float
    cut_ramp: float
    routed_ramp: float
    n_moe: int
    wide_values: float
    cut_values: float
    routed_values: float
    cast_values: float
    routed_casts: float
    residual_values: float
    mixer_values: float
    permuted_values: float
    expert_values: float
    copies: float
    latent_width: float


def trained_layers(model: Model, mtp_layers: int) -> tuple[LayerGroup, ...]:
    """Layers that a step runs: the model's own, and multi-token-prediction modules shaped like its last ones.

    Parameters
    ----------
    model : Model
        What is trained.
    mtp_layers : int
        Modules [-].

    Returns
    -------
    tuple of LayerGroup
        Groups with their counts.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> sum(group.count for group in trained_layers(load_model("deepseek-v3"), 1))
    62
    """
    if not mtp_layers:
        return model.layers
    return (*model.layers, replace(model.layers[-1], count=mtp_layers))


@functools.cache
def layer_counts(layers: tuple[LayerGroup, ...], hidden_size: int) -> LayerCounts:
    """Count what one token meets in all layers.

    Parameters
    ----------
    layers : tuple of LayerGroup
        Of a model.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    LayerCounts
        Per token, all layers.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> model = load_model("deepseek-v3")
    >>> counts = layer_counts(model.layers, model.hidden_size)
    >>> counts.n_moe, round(counts.stored_params / 1e9)
    (58, 654)
    """
    d = hidden_size
    total = dict.fromkeys(LayerCounts.__dataclass_fields__, 0.0)
    for group in layers:
        part = group.feed_forward
        mixer = _mixer_counts(group, d)
        dense = _dense_counts(part, d)
        for name, value in (*mixer.items(), *dense.items(), *_routed_counts(part, d).items()):
            total[name] += group.count * value
        if part.n_experts:
            total["n_moe"] += group.count
            total["copies"] = max(total["copies"], part.n_experts_active)
            total["latent_width"] = max(total["latent_width"], part.latent_width or d)
    return LayerCounts(**{**total, "n_moe": int(total["n_moe"])})  # type: ignore[arg-type]


def _mixer_counts(group: LayerGroup, d: int) -> dict[str, float]:
    mixer = group.attention
    if mixer.kind == "none":
        return {}
    params = transformer.attention_params(mixer, d)
    heads = mixer.n_query_heads * (mixer.qk_head_dim + mixer.v_head_dim)
    cached = mixer.n_kv_heads * (mixer.qk_head_dim + mixer.v_head_dim)
    if mixer.kind in mixing.LINEAR_KINDS:
        # projections in, convolution, scan, gate, norm
        channels, inner = mixing.convolution_channels(mixer), mixer.n_query_heads * mixer.v_head_dim
        values = 8.0 * channels + 12.0 * inner
        cut, casts = channels + 3.0 * inner, d + inner
    else:
        values = 1.5 * (heads + cached)
        cut, casts = heads + cached, d + mixer.n_query_heads * mixer.v_head_dim
        casts += mixer.q_lora_rank + mixer.kv_lora_rank
    return {
        "dense_params": params,
        "wide_ramp": params / d / 2,
        "cut_ramp": params / (mixer.n_query_heads * mixer.v_head_dim) / 2,
        "residual_values": 10.0 * d if group.feed_forward.width or group.feed_forward.n_experts else 5.0 * d,
        "mixer_values": values,
        "wide_values": 2.0 * d,
        "cut_values": cut,
        "cast_values": casts,
    }


def _dense_counts(part: FeedForward, d: int) -> dict[str, float]:
    width = part.width + part.n_shared_experts * part.shared_width
    if not width:
        return {"dense_params": transformer.always_active_params(part, d)}
    matrices = part.n_matrices
    return {
        "dense_params": transformer.always_active_params(part, d),
        "wide_ramp": matrices * width / 2,
        "cut_ramp": matrices
        * d
        * (part.width + part.n_shared_experts * part.shared_width)
        / (part.width or part.shared_width)
        / 2,
        "residual_values": 4.0 * d,
        "mixer_values": 2.0 * matrices * width,
        "wide_values": 2.0 * d,
        "cut_values": matrices * width,
        "cast_values": d + width,
    }


def _routed_counts(part: FeedForward, d: int) -> dict[str, float]:
    if not part.n_experts:
        return {}
    width, size, k = part.expert_width, part.latent_width or d, part.n_experts_active
    one = transformer.expert_params(part, d)
    return {
        "routed_params": k * one,
        "stored_params": part.n_experts * one,
        "routed_ramp": k * part.n_matrices * (size + width) / 2,
        "residual_values": 4.0 * d,
        "permuted_values": k * PERMUTE_VALUES * size,
        "expert_values": k * 2.0 * part.n_matrices * width,
        "routed_values": k * (2.0 * size + part.n_matrices * width),
        "routed_casts": k * (size + width),
    }


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
    operations = [*_products(work, precision), *_attention(work), _elementwise(work, precision), *_network(work)]
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
        rate = chip.peak(native) * fraction * self.machine.training.power_ratio(chip)
        return rate / (ROW_RATIO if recipe == "row" and native != "bf16" else 1.0)


def _p_norm(one: Num, other: Num) -> Num:
    """Time of two flows that overlap inside kernels, cube root of the sum of cubes."""
    return np.cbrt(one * one * one + other * other * other)


def _products(work: _Work, precision: Precision) -> Iterator[Operation]:
    counts, layout, tokens = work.counts, work.layout, work.tokens
    eff, again = work.machine.training, work.batch.forward_again
    cut = layout.tp * layout.pp
    moved = (2 + again) * PRECISION_BYTES["bf16"] + 2 * GRADIENT_BYTES * work.batch.stack.trained_fraction
    io = ACTIVATION_BYTES * (3 + again) / layout.pp
    ramp = eff.training_ramp_values
    filled = counts.dense_params + ramp * (counts.wide_ramp + counts.cut_ramp * layout.tp)
    yield _product(
        "matrix products",
        (2 * work.passes * tokens * counts.dense_params / cut, filled / counts.dense_params),
        counts.dense_params / cut * moved + tokens * io * (counts.wide_values + counts.cut_values / layout.tp),
        (work.product_flop_per_s(precision.dense), work.bytes_per_s),
    )
    heads = (1 + work.batch.stack.mtp_layers) * work.model.vocab_size * work.model.hidden_size / cut
    yield _product(
        "output head",
        (2 * (2 + work.batch.stack.trained_fraction) * tokens * heads, 1 + ramp / work.model.hidden_size / 2),
        tokens * 4 * ACTIVATION_BYTES * work.model.vocab_size / cut,
        (work.product_flop_per_s("bf16"), work.bytes_per_s),
    )
    if counts.n_moe:
        stage = layout.n_gpus_per_stage
        fused = work.batch.stack.fused_experts
        grouped = eff.training_fused_expert_fraction if fused else eff.training_expert_fraction
        spread = np.maximum(np.minimum(stage, np.maximum(layout.ep, layout.tp)), 1.0)
        yield _product(
            "routed experts",
            (
                2 * work.passes * tokens * counts.routed_params / cut * work.batch.stack.imbalance,
                1 + ramp * counts.routed_ramp / counts.routed_params,
            ),
            counts.stored_params / spread / layout.pp * moved + tokens * io * counts.routed_values / layout.tp,
            (work.product_flop_per_s(precision.experts) * grouped, work.bytes_per_s),
        )


def _product(name: str, work: tuple[Num, Num], bytes_: Num, rates: tuple[Num, Num]) -> Operation:
    """A product whose arithmetic and traffic overlap, but not wholly; ``work`` is its FLOP and the ramp over it."""
    flop, slower = work
    flop_per_s, bytes_per_s = rates[0] / slower, rates[1]
    compute, memory = flop / flop_per_s, bytes_ / bytes_per_s
    waits = _p_norm(compute, memory) - np.maximum(compute, memory)
    return Operation(name, flop, bytes_, flop_per_s, bytes_per_s, overhead_s=waits)


def _attention(work: _Work) -> Iterator[Operation]:
    batch, machine, layout = work.batch, work.machine, work.layout
    softmax: Num = 0.0
    scans: Num = 0.0
    for group in trained_layers(work.model, batch.stack.mtp_layers):
        visible = mixing.mean_visible_tokens(group.attention, batch.sequence_tokens)
        one = group.count * mixing.attention_flop_per_query(group.attention, visible, absorbed=False)
        if group.attention.kind in mixing.LINEAR_KINDS:
            scans = scans + one
        else:
            softmax = softmax + one
            scored = mixing.indexer_flop_per_query(group.attention, batch.sequence_tokens / 2)
            softmax = softmax + group.count * scored
    again = float(batch.recompute != "none")
    passes = 1 + BACKWARD_ATTENTION + again
    if batch.stack.attention == "unfused":
        yield _unfused(work, softmax, again)
        return
    fraction = machine.training.attention_fraction(machine.system.accelerator, batch.stack.attention)
    cut = layout.tp * layout.pp
    rate = machine.bf16_flop_per_s * fraction * machine.training.power_ratio(machine.system.accelerator)
    yield Operation("attention", flop=passes * work.tokens * softmax / cut, flop_per_s=rate)
    if np.any(scans):
        yield Operation("state scans", flop=passes * work.tokens * scans / cut, flop_per_s=rate * SCAN_RATIO)


def _unfused(work: _Work, softmax_flop: Num, again: float) -> Operation:
    """Attention by plain products over whole rows, its scores in HBM."""
    cut = work.layout.tp * work.layout.pp
    heads = sum(group.count * group.attention.n_query_heads for group in work.model.layers)
    scores = heads * work.batch.sequence_tokens * ACTIVATION_BYTES * (UNFUSED_PASSES + UNFUSED_FORWARD * again)
    return Operation(
        "attention",
        flop=2 * (1 + BACKWARD + again) * work.tokens * softmax_flop / cut,
        flop_per_s=work.product_flop_per_s("bf16"),
        overhead_s=work.tokens * scores / cut / work.bytes_per_s,
    )


def _elementwise(work: _Work, precision: Precision) -> Operation:
    counts, layout, eff, stack = work.counts, work.layout, work.machine.training, work.batch.stack
    again = work.batch.forward_again
    # sequence parallelism cuts the residual stream over TP as well
    values = eff.training_activation_passes * (counts.residual_values * stack.residual_streams + counts.mixer_values)
    routed = counts.permuted_values + (0.0 if stack.fused_experts else counts.expert_values)
    values = values + eff.training_expert_passes * routed
    moved = (1 + BACKWARD_ELEMENTWISE + again) * values * (1.0 if stack.compiled else EAGER_RATIO)
    if chip_family(work.machine.system.accelerator) == "tpu":
        moved = moved * WHOLE_PROGRAM_RATIO
    if work.machine.system.accelerator.native_precision(precision.name) != "bf16":
        ratio = BLOCK_CAST_RATIO if stack.recipe == "block" else 1.0
        casts = eff.training_quantization_passes * counts.cast_values
        copies = 0.0 if stack.fused_experts else EXPERT_CASTS * eff.training_expert_passes * counts.routed_casts
        moved = moved + (2 + again) * (casts + copies) * ratio
    bytes_ = work.tokens * ACTIVATION_BYTES * moved / (layout.tp * layout.pp)
    return Operation("activations and casts", bytes=bytes_, bytes_per_s=work.bytes_per_s)


def _uneven(work: _Work, operations: list[Operation]) -> Operation:
    """What the busiest stage takes beyond the average one.

    Where the stages divide the layers, the last one runs the head besides its share; where they do not, the stages
    that have a layer less take the tables, and the others have whole layers.
    """
    pp, n_layers = work.layout.pp, sum(group.count for group in work.model.layers)
    head = sum(one.time_s for one in operations if one.name == "output head")
    rest = sum(one.time_s for one in operations if one.name != "output head")
    whole = np.ceil(n_layers / pp)
    extra = np.where(whole * pp == n_layers, head * (pp - 1), np.maximum(rest * whole * pp / n_layers - rest - head, 0))
    return Operation("uneven stages", overhead_s=extra)


def _network(work: _Work) -> Iterator[Operation]:
    layout, counts, model, machine = work.layout, work.counts, work.model, work.machine
    stack, again, eff = work.batch.stack, work.batch.forward_again, machine.training
    up = machine.system.scale_up_bytes_per_s_per_gpu.value * eff.training_link_fraction
    out = machine.system.scale_out_bytes_per_s_per_gpu.value * eff.training_link_fraction
    domain = machine.system.n_gpus_scale_up.value
    residual = work.tokens * model.hidden_size * ACTIVATION_BYTES
    tensor = (8 + 4 * again) * model.n_layers / layout.pp
    link = np.where(np.asarray(layout.tp) > domain, out, up)
    wire = residual * (1 - 1 / layout.tp) / link + latency_s(layout.tp, machine)
    exposed = HIDDEN_EXPOSED if stack.hidden_tensor_parallel else 1.0
    yield Operation("tensor-parallel", network_s=tensor * wire * exposed)
    cache = sum(
        group.count * mixing.kv_bytes_per_token_layer(group.attention, ACTIVATION_BYTES) for group in model.layers
    )
    link = np.where(layout.tp * layout.cp > domain, out, up)
    ring = work.tokens * cache / layout.tp / layout.pp * (layout.cp - 1) / link
    yield Operation("context-parallel", network_s=4 * ring * CONTEXT_EXPOSED)
    if counts.n_moe:
        copies = work.tokens / layout.tp * counts.latent_width * ACTIVATION_BYTES
        # two directions of microbatches: one computes while the other's tokens travel
        shown = DUALPIPE_EXPOSED if stack.schedule == "dualpipe" else 1.0
        yield Operation("all-to-all", network_s=_all_to_all_s(copies, work, (up, out)) * (4 + 2 * again) * shown)
    link = np.where(layout.n_gpus_per_stage * 2 <= domain, up, out)
    sent = residual / layout.tp * stack.residual_streams / link * work.batch.virtual_stages
    yield Operation("pipeline hops", network_s=np.where(np.asarray(layout.pp) > 1, 4 * sent * HOP_EXPOSED, 0.0))


def _all_to_all_s(sent_bytes: Num, work: _Work, links: tuple[Num, Num]) -> Num:
    """Exposed time of one dispatch or combine in all expert layers of a stage.

    Inside a domain each copy travels; between domains a token travels once to each domain that holds one of its
    experts, and is copied there.
    """
    layout, counts, machine = work.layout, work.counts, work.machine
    ep = np.asarray(layout.ep, float)
    nodes = np.maximum(ep / machine.system.n_gpus_scale_up.value, 1.0)
    reached = nodes * (1 - (1 - 1 / nodes) ** counts.copies)
    near = counts.copies * (1 - 1 / ep) / links[0] * EXPERT_EXPOSED
    far = reached * (1 - 1 / nodes) / links[1] * machine.training.training_exposed_expert_fraction
    exposed = np.where(ep > 1, sent_bytes * (near + far) + latency_s(ep, machine), 0.0)
    return counts.n_moe / layout.pp * exposed
