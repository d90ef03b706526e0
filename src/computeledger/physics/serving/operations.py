"""A forward pass as operations: what the busiest GPU of a replica computes, moves, sends and waits for.

Every argument may be an array; a sweep over a million (batch, context, layout) points is one call. Products begin with
what model, layout and machine give, so that each long array is gone over once. The sum reduces to
the two-equation roofline of :mod:`computeledger.physics.blackboard.ledgers` where the efficiency is ideal,
the layout is one GPU and the attention is counted alike; property tests prove it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Attention, FeedForward, Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics import collectives, transformer
from computeledger.physics.adapters import adapter_operations
from computeledger.physics.attention import mixer_of
from computeledger.physics.calibration.efficiency import IDEAL, Efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Machine, Operation, Precision, exposed, total_s
from computeledger.physics.roofline import OperationKind as Kind

#: Tokens of a prompt that one prefill step takes at most (assumption: engines' defaults are 2K to 16K).
CHUNK_TOKENS = 8192.0
#: An expert layer's dispatch in 8 bits and combine in 16 bits, per value.
ALL_TO_ALL_BYTES = 3.0


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass of a replica.

    Attributes
    ----------
    sequences : float or ndarray
        Sequences in the step, all attention-DP ranks together [-].
    context_tokens : float or ndarray
        Tokens of a sequence already in the cache [token].
    new_tokens : float or ndarray
        Tokens of a sequence that are new in this step: 1 when decoding [token].
    decode : bool
        Decode step (captured graph, absorbed latent attention) or prefill.
    overlapped : bool
        Whether the step runs as two batches, one computing while the other's tokens travel to their experts.
    chunk_tokens : float or ndarray
        Tokens of prompts that a rank takes in one pass at most [token].
    is_eager : bool
        Whether a decode step is launched kernel by kernel too, without a captured graph.
    """

    sequences: Num
    context_tokens: Num
    new_tokens: Num = 1.0
    decode: bool = True
    overlapped: bool = False
    chunk_tokens: Num = CHUNK_TOKENS
    is_eager: bool = False


@dataclass(frozen=True, slots=True)
class _Cut:
    """What a layout leaves on the busiest GPU of a stage."""

    sequences: Num  # of one attention-DP rank, in one pipeline microbatch
    tokens: Num
    stage_tokens: Num  # of all ranks of the stage


def _cut(step: Step, layout: Layout) -> _Cut:
    per_stage = step.sequences / layout.pp
    sequences = np.maximum(per_stage / layout.dp, 1.0)
    return _Cut(
        sequences=sequences,
        tokens=sequences * step.new_tokens / layout.cp,
        stage_tokens=np.maximum(per_stage, 1.0) * step.new_tokens,
    )


def distinct_experts(n_experts: int, n_active: int, tokens: Num) -> Num:
    """Experts that at least one token of a step visits.

    ``E (1 - (1 - k/E)^T)``, for tokens that choose independently and evenly.

    Parameters
    ----------
    n_experts, n_active : int
        ``E`` routed experts, ``k`` per token [-].
    tokens : float or ndarray
        ``T`` tokens in the step [token].

    Returns
    -------
    float or ndarray
        Expected number of experts whose weights are read [-].

    Examples
    --------
    >>> round(float(distinct_experts(256, 8, 1.0)), 6), round(float(distinct_experts(256, 8, 1e4)), 6)
    (8.0, 256.0)
    """
    if n_active >= n_experts:
        return n_experts + 0.0 * tokens
    return n_experts * -np.expm1(tokens * math.log1p(-n_active / n_experts))


def forward(model: Model, step: Step, layout: Layout, precision: Precision, machine: Machine) -> list[Operation]:
    """List the operations of one forward pass through all pipeline stages.

    With ``pp`` stages the sequences travel as ``pp`` microbatches; a microbatch passes all stages one after the other,
    so the sum is the time between two tokens of a sequence.

    Parameters
    ----------
    model : Model
        What runs.
    step : Step
        Sequences, context and new tokens.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights by kind, and of the cache.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    list of Operation
        In order of execution; their times add up.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> operations = forward(load_model("llama-3.1-8b"), Step(1.0, 1024.0), Layout(), Precision(),
    ...                      Machine(load_system("h100-nvl8")))
    >>> [one.name for one in operations][:2]
    ['attention projections', 'attention']
    """
    if step.overlapped:
        return _two_batches(model, step, layout, precision, machine)
    cut = _cut(step, layout)
    work = [
        *_mixer_operations(model, step, cut, layout, (precision, machine)),
        *_feed_forward_operations(model, cut, layout, (precision, machine)),
        *adapter_operations(model, (cut.sequences, cut.tokens), layout, machine),
        _activations(model, cut, layout, (precision, machine)),
        _head(model, step, cut, layout, (precision, machine)),
    ]
    return [
        *exposed(work, machine.efficiency.overlap_fraction),
        *_network(model, step, cut, layout, machine),
        *_launches(model, step, cut, (precision, machine)),
    ]


def _two_batches(model: Model, step: Step, layout: Layout, precision: Precision, machine: Machine) -> list[Operation]:
    """Two half batches in turn: weights are read and kernels launched twice, most of the all-to-all is hidden.

    Exposed stays what is longer than the other half's work, and at least the exposed share of overlappable traffic.
    """
    half = forward(model, replace(step, sequences=step.sequences / 2, overlapped=False), layout, precision, machine)
    work = 2 * total_s(one for one in half if one.kind not in (Kind.ALL_TO_ALL, Kind.HOST))
    return [_doubled(one, work, machine.efficiency.exposed_dispatch_fraction) for one in half]


def _doubled(one: Operation, work_s: Num, exposed_fraction: Num) -> Operation:
    if one.kind is Kind.HOST:
        return one
    both = _times(one, 2.0)
    if one.kind is Kind.ALL_TO_ALL:
        both = replace(both, network_s=np.maximum(both.network_s - work_s, exposed_fraction * both.network_s))
    return both


def _mixer_operations(
    model: Model, step: Step, cut: _Cut, layout: Layout, made_of: tuple[Precision, Machine]
) -> Iterator[Operation]:
    precision, machine = made_of
    eff, kv_bytes = machine.efficiency, PRECISION_BYTES[precision.kv]
    end = step.context_tokens + step.new_tokens
    params: Num = 0.0
    flop: dict[Kind, Num] = {}
    bytes_: dict[Kind, Num] = {}
    for count, attention in model.mixers:
        mixer = mixer_of(attention)
        params = params + count * mixer.params(model.hidden_size)
        if step.decode:
            visible = mixer.visible_tokens(end)
        else:
            visible = mixer.mean_visible_tokens(step.new_tokens, step.context_tokens)
        per_query = mixer.flop_per_query(visible, absorbed=step.decode)
        if attention.index_heads:
            seen = end if step.decode else step.context_tokens + step.new_tokens / 2
            per_query = per_query + mixer.indexer_flop_per_query(seen)
        computed = count / layout.tp * cut.tokens * per_query
        read = mixer.kv_read_bytes(end, kv_bytes)
        read = count / (mixer.kv_shards(layout.tp) * layout.cp) * cut.sequences * read
        kind = mixer.decode_operation
        flop[kind] = flop[kind] + computed if kind in flop else computed
        bytes_[kind] = bytes_[kind] + read if kind in bytes_ else read
    weights = params / layout.tp
    yield Operation(
        Kind.ATTENTION_PROJECTIONS,
        flop=2 * weights * cut.tokens,
        bytes=weights * precision.weights.attention,
        flop_per_s=machine.gemm_flop_per_s(precision.attention),
        bytes_per_s=machine.weight_bytes_per_s * machine.unpacked_fraction(precision.attention),
    )
    for kind in (Kind.ATTENTION, Kind.LATENT_ATTENTION):
        if kind in flop and np.any(flop[kind]):
            fraction = eff.attention_fraction
            if step.decode:
                plain = eff.attention_fraction * eff.decode_attention_ratio
                fraction = plain if kind is Kind.ATTENTION else eff.latent_attention_fraction
            yield Operation(
                kind,
                flop=flop[kind],
                bytes=bytes_[kind],
                flop_per_s=machine.system.accelerator.peak(precision.scores) * machine.reached(fraction),
                bytes_per_s=machine.kv_bytes_per_s,
            )


def _feed_forward_operations(
    model: Model, cut: _Cut, layout: Layout, made_of: tuple[Precision, Machine]
) -> Iterator[Operation]:
    precision, machine = made_of
    eff = machine.efficiency
    dense: float = 0.0
    for count, part in model.feed_forwards:
        dense += count * transformer.always_active_params(part, model.hidden_size)
    if dense:
        weights = dense / layout.tp
        yield Operation(
            Kind.DENSE_MLP,
            flop=2 * weights * cut.tokens,
            bytes=weights * precision.weights.dense,
            flop_per_s=machine.gemm_flop_per_s(precision.dense),
            bytes_per_s=machine.weight_bytes_per_s * machine.unpacked_fraction(precision.dense),
        )
    for count, part in model.feed_forwards:
        if not part.n_experts:
            continue
        expert = transformer.expert_params(part, model.hidden_size)
        held = count * expert / layout.n_gpus_per_stage
        hit = distinct_experts(part.n_experts, part.n_experts_active, cut.stage_tokens)
        # uneven rows keep ranks waiting, or units of one GPU where experts are sliced; half a tile of each is empty
        sliced = 1 + machine.loss_ratio * (
            eff.expert_imbalance - 1
        )  # what grouped products lose, as they do on the chip
        uneven = np.where(np.asarray(layout.ep) > 1, eff.expert_imbalance, sliced)
        yield Operation(
            Kind.ROUTED_EXPERTS,
            flop=2 * held * (part.n_experts_active * uneven * cut.stage_tokens + eff.expert_tile_tokens / 2 * hit),
            bytes=held * precision.weights.experts * hit,
            flop_per_s=machine.expert_flop_per_s(precision.experts),
            bytes_per_s=machine.expert_bytes_per_s * machine.unpacked_fraction(precision.experts),
        )


def activation_bytes(model: Model, tokens: Num, tp: Num, copies: Num | None = None) -> Num:
    """HBM traffic of activations between fused kernels, all layers.

    Each mixer and each MLP reads and writes the residual stream (norm, input, output, add: 4 D) and its own wide
    intermediates (read and written once, cut over TP).

    Parameters
    ----------
    model : Model
        What runs.
    tokens : float or ndarray
        Tokens on one rank [token].
    tp : float or ndarray
        Tensor-parallel degree [-].
    copies : float or ndarray, optional
        Tokens whose copies for routed experts pass this rank; all of its own when left out [-].

    Returns
    -------
    float or ndarray
        Traffic [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> round(float(activation_bytes(load_model("llama-3.1-8b"), 1.0, 1)) / 1e6, 1)
    8.9
    """
    residual, wide, routed = _activation_values(model.mixers, model.feed_forwards, model.hidden_size)
    own, passed = ACTIVATION_BYTES * (residual + wide / tp), ACTIVATION_BYTES * routed
    return own * tokens + passed * (tokens if copies is None else copies)


@functools.cache
def _activation_values(
    mixers: tuple[tuple[int, Attention], ...], feed_forwards: tuple[tuple[int, FeedForward], ...], hidden_size: int
) -> tuple[float, float, float]:
    """Values per token: of the residual stream, of wide intermediates, of the copies that experts take and return."""
    residual = wide = routed = 0.0
    for count, mixer in mixers:
        residual += count * 4 * hidden_size
        heads = mixer.n_query_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        wide += (
            count * 2 * (heads + mixer.n_kv_heads * (mixer.qk_head_dim + mixer.v_head_dim) * (not mixer.kv_lora_rank))
        )
    for count, part in feed_forwards:
        residual += count * 4 * hidden_size
        routed += count * 4 * (part.latent_width or hidden_size) * part.n_experts_active
        width = part.width + part.n_experts_active * part.expert_width + part.n_shared_experts * part.shared_width
        wide += count * 2 * part.n_matrices * width
    return residual, wide, routed


def _activations(model: Model, cut: _Cut, layout: Layout, made_of: tuple[Precision, Machine]) -> Operation:
    copies = cut.stage_tokens / layout.ep  # a rank sees the tokens of its own experts only
    machine = made_of[1]
    passed = activation_bytes(model, cut.tokens, layout.tp, copies) * machine.efficiency.activation_passes
    return Operation(
        Kind.ACTIVATIONS,
        bytes=passed + _narrowed_bytes(model, cut, layout, made_of),
        bytes_per_s=machine.weight_bytes_per_s,
    )


def _narrowed_bytes(model: Model, cut: _Cut, layout: Layout, made_of: tuple[Precision, Machine]) -> Num:
    """Traffic of rounding activations to the 8 or 4 bits that products take: read in 16, written narrow."""
    precision, machine = made_of
    chip = machine.system.accelerator
    if machine.efficiency is IDEAL:  # fused with what makes them
        return 0.0

    def each(weights: str) -> float:
        native = chip.native_precision(weights)
        return 0.0 if native == "bf16" else ACTIVATION_BYTES + PRECISION_BYTES[native]

    out: Num = 0.0
    for count, mixer in model.mixers:
        values = model.hidden_size + mixer.n_query_heads * mixer.v_head_dim / layout.tp
        out = out + each(precision.attention) * count * values * cut.tokens
    for count, part in model.feed_forwards:
        width = part.width + part.n_shared_experts * part.shared_width
        values = (model.hidden_size + width / layout.tp) * (width > 0)
        out = out + each(precision.dense) * count * values * cut.tokens
        routed = part.n_experts_active * part.expert_width / layout.n_gpus_per_stage * cut.stage_tokens
        values = model.hidden_size * cut.tokens * (part.n_experts > 0) + routed
        out = out + each(precision.experts) * count * values
    return out


def _head(model: Model, step: Step, cut: _Cut, layout: Layout, made_of: tuple[Precision, Machine]) -> Operation:
    precision, machine = made_of
    weights = model.vocab_size * model.hidden_size / layout.tp
    return Operation(
        Kind.OUTPUT_HEAD,
        # a prompt needs the scores of its last token only, drafts those of each
        flop=2 * weights * (cut.tokens if step.decode else cut.sequences),
        bytes=weights * precision.weights.head,
        flop_per_s=machine.gemm_flop_per_s(precision.head),
        bytes_per_s=machine.weight_bytes_per_s * machine.unpacked_fraction(precision.head),
    )


def _network(model: Model, step: Step, cut: _Cut, layout: Layout, machine: Machine) -> Iterator[Operation]:
    residual = model.hidden_size * ACTIVATION_BYTES * cut.tokens
    n_mixers = sum(count for count, _ in model.mixers)
    n_dense = sum(count for count, part in model.feed_forwards if not part.n_experts)
    n_moe = sum(count for count, part in model.feed_forwards if part.n_experts)
    spread = np.asarray(layout.dp) > 1
    n_reduce = n_mixers + n_dense + np.where(spread, 0, n_moe)
    yield Operation(
        Kind.ALL_REDUCE,
        network_bytes=np.where(np.asarray(layout.tp) > 1, n_reduce, 0.0) * residual,
        network_s=n_reduce * collectives.ring_s(residual, layout.tp, machine),
    )
    if n_moe:
        sent: Num = 0.0
        once: Num = 0.0
        for count, part in model.feed_forwards:
            if part.n_experts:
                ranks = layout.ep * (1 - (1 - 1 / np.asarray(layout.ep, float)) ** part.n_experts_active)
                width = part.latent_width or model.hidden_size
                token = width * ALL_TO_ALL_BYTES / layout.tp * cut.tokens
                copies = ranks * token
                sent = sent + count * copies
                if step.decode:  # each copy goes straight to its rank
                    one = collectives.all_to_all_s(copies, layout.ep, machine)
                else:
                    groups = part.n_groups_active or np.inf  # the router's groups of experts lie in a domain each
                    one = collectives.forwarded_all_to_all_s(token, part.n_experts_active, layout.ep, machine, groups)
                once = once + count * one
        # dispatch and combine each start once
        away = np.where(spread, 1.0, 0.0)
        latency = n_moe * (collectives.latency_s(layout.ep, machine) + 2 * machine.efficiency.all_to_all_floor_s)
        yield Operation(
            Kind.ALL_TO_ALL,
            network_bytes=away * sent,
            network_s=away * (once + latency),
        )
    hops, handed = layout.pp - 1, residual * model.residual_streams
    yield Operation(
        Kind.PIPELINE_HOPS,
        network_bytes=hops * handed,
        network_s=hops * collectives.hop_s(handed / layout.tp, layout.n_gpus_per_stage, machine),
    )


def _launches(model: Model, step: Step, cut: _Cut, made_of: tuple[Precision, Machine]) -> Iterator[Operation]:
    precision, machine = made_of
    eff = machine.efficiency
    floor: Num = 0.0
    for count, attention in model.mixers:
        floor = floor + count * (eff.mixer_floor_s + mixer_of(attention).floor_s(eff))
    narrow = machine.system.accelerator.native_precision(precision.experts) == "fp4"
    # one token needs no sorting and few tiles; what it saves halves with each further one
    sorted_ratio = 1 - (1 - eff.single_experts_ratio) * np.exp2(1 - np.maximum(cut.stage_tokens, 1.0))
    experts_floor_s = eff.experts_floor_s * sorted_ratio * (eff.fp4_floor_ratio if narrow else 1.0)
    for count, part in model.feed_forwards:
        floor = floor + count * (experts_floor_s if part.n_experts else eff.mlp_floor_s)
    yield Operation(Kind.LAUNCH_FLOORS, overhead_s=floor * eff.floor_ratio)
    if step.decode:
        yield Operation(Kind.HOST, overhead_s=eff.host_step_s + eff.host_sequence_s * cut.sequences)


def prefill(model: Model, step: Step, layout: Layout, precision: Precision, machine: Machine) -> list[Operation]:
    """List the operations of a prefill, launched kernel by kernel from the host.

    Launching runs ahead of the GPU; where it is the slower of the two, the GPU waits for it:
    ``t = (work^3 + launches^3)^(1/3)``, a soft maximum. A chunk below the one that the constants are fitted with cuts
    prompts into more passes, each of which reads the weights and what came before it.

    Parameters
    ----------
    model : Model
        What runs.
    step : Step
        With ``decode=False``; ``context_tokens`` is the cached prefix.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights by kind, and of the cache.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    list of Operation
        As :func:`forward`, and what launching adds.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> step = Step(1.0, 0.0, 1024.0, decode=False)
    >>> prefill(load_model("llama-3.1-8b"), step, Layout(), Precision(), Machine(load_system("h100-nvl8")))[-1].name
    'eager launches'
    """
    eff = machine.efficiency
    n_passes = passes(step, layout)
    in_passes = bool(np.any(n_passes > 1))
    operations = forward(model, one_pass(step, layout) if in_passes else step, layout, precision, machine)
    if in_passes:
        operations = [_times(one, n_passes) for one in operations]
    if eff is not IDEAL:
        operations = [_slowed(one, eff.prefill_ratio) for one in operations]
    chunks = np.ceil(_rank_tokens(step, layout) / step.chunk_tokens)
    return [*operations, _eager_launches(model, operations, np.maximum(chunks, 1.0), eff)]


def _eager_launches(model: Model, operations: list[Operation], n_passes: Num, eff: Efficiency) -> Operation:
    """What launching kernel by kernel adds to operations: a soft maximum of both."""
    once = eff.prefill_layer_s * model.n_layers
    for count, attention in model.mixers:
        once = once + count * mixer_of(attention).prefill_floor_s(eff)
    for count, part in model.feed_forwards:
        once = once + count * (eff.prefill_experts_s if part.n_experts else 0.0)
    work_s, launched_s = total_s(operations), once * eff.launch_ratio * n_passes
    together_s = np.cbrt(work_s**3 + launched_s**3)
    return Operation(Kind.EAGER_LAUNCHES, overhead_s=together_s - work_s)


def decode_pass(model: Model, step: Step, layout: Layout, precision: Precision, machine: Machine) -> list[Operation]:
    """List the operations of a decode step: a captured graph, or launched kernel by kernel where it is eager.

    An eager step launches the kernels of a prefill's pass (assumption): what they take was fitted on prefills.

    Parameters
    ----------
    model : Model
        What runs.
    step : Step
        With ``decode=True``.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights by kind, and of the cache.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    list of Operation
        As :func:`forward`, and what launching adds.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> made_of = Layout(), Precision(), Machine(load_system("h100-nvl8"), efficiency())
    >>> graph, eager = (decode_pass(load_model("llama-3.1-8b"), Step(1.0, 1024.0, is_eager=one), *made_of)
    ...                 for one in (False, True))
    >>> bool(total_s(eager) > 1.1 * total_s(graph))
    True
    """
    operations = forward(model, step, layout, precision, machine)
    if not step.is_eager:
        return operations
    return [*operations, _eager_launches(model, operations, 1.0, machine.efficiency)]


def _rank_tokens(step: Step, layout: Layout) -> Num:
    """Tokens of prompts on one rank, in one microbatch of a pipeline [token]."""
    return step.sequences / (layout.dp * layout.pp) * step.new_tokens


def passes(step: Step, layout: Layout) -> Num:
    """Passes that a chunk cuts prompts into; prompts in chunks as large as the constants' own count as one pass.

    Parameters
    ----------
    step : Step
        Of whole prompts.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    float or ndarray
        At least 1 [-].

    Examples
    --------
    >>> [float(passes(Step(1.0, 0.0, 16384.0, decode=False, chunk_tokens=one), Layout())) for one in (8192.0, 2048.0)]
    [1.0, 8.0]
    """
    is_smaller = np.asarray(step.chunk_tokens) < CHUNK_TOKENS
    if not is_smaller.any():
        return 1.0
    return np.where(is_smaller, np.maximum(np.ceil(_rank_tokens(step, layout) / step.chunk_tokens), 1.0), 1.0)


def one_pass(step: Step, layout: Layout) -> Step:
    """The middle one of the passes that a small chunk cuts prompts into.

    Parameters
    ----------
    step : Step
        Of whole prompts.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    Step
        As many prompts with fewer tokens each, behind half of what came before [token].

    Examples
    --------
    >>> found = one_pass(Step(1.0, 0.0, 4096.0, decode=False, chunk_tokens=1024.0), Layout())
    >>> float(found.new_tokens), float(found.context_tokens)
    (1024.0, 1536.0)
    """
    new = step.new_tokens / passes(step, layout)
    return replace(step, new_tokens=new, context_tokens=step.context_tokens + (step.new_tokens - new) / 2)


def _times(one: Operation, n: Num) -> Operation:
    """An operation that is done several times."""
    return replace(
        one,
        flop=n * one.flop,
        bytes=n * one.bytes,
        network_bytes=n * one.network_bytes,
        network_s=n * one.network_s,
        overhead_s=n * one.overhead_s,
    )


def _slowed(one: Operation, ratio: Num) -> Operation:
    """An operation that takes a multiple of its time, whatever binds it."""
    return Operation(
        one.kind, one.flop, one.bytes, one.flop_per_s / ratio, one.bytes_per_s / ratio,
        one.network_bytes, one.network_s * ratio, one.overhead_s * ratio,
    )  # fmt: skip
