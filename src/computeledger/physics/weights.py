"""What a model's weights are stored in: as asked, as published, or as llama.cpp's rule has it in a GGUF file."""

from __future__ import annotations

import re
from dataclasses import replace

from computeledger.facts.architecture import Attention, FeedForward, Model, WeightBytes
from computeledger.facts.formats import FORMATS
from computeledger.facts.gguf_mixes import Mix, bytes_of_row, mean_bytes, mix_named
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics import transformer
from computeledger.physics.attention import mixer_of
from computeledger.physics.roofline import OperationKind, Precision, kv_format, parse_precision

#: Norms, biases and routers stay in 32 bits.
_F32 = PRECISION_BYTES["f32"]
#: Query heads per KV head from which llama.cpp spends more bits on values.
_SHARED_HEADS = 4
#: Layers of what llama.cpp takes for a 70B model, whose values get 5 bits where others get 3 or 4.
_LAYERS_OF_70B = 80
#: Routed experts of what it takes for Mixtral, whose keys and values get 8 bits and whose outputs 5.
_MIXTRAL_EXPERTS = 8
#: Values of the longest block of a GGUF file.
_BLOCK = FORMATS["q4_k"].block_values
_MIXTRAL_OUTPUT = (
    "q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq3_xs", "iq3_xxs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs",
)  # fmt: skip


def stored_precision(model: Model, kv: str = "bf16", scores: str = "bf16") -> Precision:
    """The formats that a model's weights are stored in.

    Parameters
    ----------
    model : Model
        Whose weights they are.
    kv, scores : str
        Formats of the KV cache and of attention's products.

    Returns
    -------
    Precision
        By kind of value.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> stored_precision(load_model("gpt-oss-20b")).experts
    'mxfp4'
    """
    mix = mix_named(model.gguf_mix)
    if mix is not None:
        named = parse_precision(model.gguf_mix, model.is_moe, kv)
        return replace(named, scores=scores, mixed=mixed_weights(model, mix))
    return Precision(
        model.weight_precision, model.dense_precision, model.expert_precision, kv, scores, model.head_precision,
        model.embedding_precision, None if model.stored is None else _per_weight(model, model.stored),
    )  # fmt: skip


def _per_weight(model: Model, stored: WeightBytes) -> WeightBytes:
    """Bytes of one weight by kind; the bytes of a kind that the shape does not have count with the rest."""
    counts = weight_counts(model)
    found = {kind: getattr(stored, kind) for kind in counts}
    unplaced = sum(found[kind] for kind, n in counts.items() if not n)
    means = {kind: found[kind] / n if n else 0.0 for kind, n in counts.items()}
    return WeightBytes(**means, rest_bytes=stored.rest_bytes + unplaced)


def weight_counts(model: Model) -> dict[str, float]:
    """Weights of a model by kind, norms and biases left out.

    Parameters
    ----------
    model : Model
        Any model.

    Returns
    -------
    dict of str to float
        Of mixers, dense and shared MLPs, routed experts, output head, and the embedding where it is apart [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> {kind: round(n / 1e9, 2) for kind, n in weight_counts(load_model("llama-3.1-8b")).items()}
    {'attention': 1.34, 'dense': 5.64, 'experts': 0.0, 'head': 0.53, 'embedding': 0.53}
    """
    mixers = dense = experts = 0.0
    for group in model.layers:
        part = group.feed_forward
        mixers += group.count * mixer_of(group.attention).params(model.hidden_size)
        dense += group.count * transformer.always_active_params(part, model.hidden_size)
        experts += group.count * part.n_experts * transformer.expert_params(part, model.hidden_size)
    table = float(model.vocab_size * model.hidden_size)
    apart = 0.0 if model.tied_embeddings else table
    return {"attention": mixers, "dense": dense, "experts": experts, "head": table, "embedding": apart}


def precision_of(model: Model, given: str | None, kv: str = "bf16") -> Precision:
    """The precision that was asked for, or the one that the weights are stored in.

    Parameters
    ----------
    model : Model
        Whose weights they are.
    given : str or None
        As :func:`parse_precision` reads it.
    kv : str
        Format of the KV cache.

    Returns
    -------
    Precision
        By kind of value; of a GGUF file the exact mean of each kind, by llama.cpp's rule for the model's layers.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> precision_of(load_model("deepseek-v3"), None).experts, precision_of(load_model("llama-3.1-8b"), "fp8").dense
    ('fp8-block', 'fp8')
    """
    if given is None:
        stored, named = stored_precision(model, kv_format(kv)), mix_named(model.dense_precision)
        return stored if named is None else replace(stored, file=f"gguf-{named.name}")
    precision, mix = parse_precision(given, model.is_moe, kv), mix_named(given)
    return precision if mix is None else replace(precision, mixed=mixed_weights(model, mix), file=f"gguf-{mix.name}")


def mixed_weights(model: Model, mix: Mix) -> WeightBytes:
    """Mean bytes of a weight by kind, in a GGUF file of a model.

    Parameters
    ----------
    model : Model
        Whose layers they are.
    mix : Mix
        The file's types and rules.

    Returns
    -------
    WeightBytes
        By kind; routers, norms and biases in 32 bits.

    Examples
    --------
    >>> from computeledger.facts.gguf_mixes import MIXES
    >>> from computeledger.facts.load import load_model
    >>> round(8 * mixed_weights(load_model("llama-3.1-8b"), MIXES["q4_k_m"]).dense, 2)
    4.84
    """
    model = _in_blocks(model)
    held: dict[str, list[float]] = {"attention": [0.0, 0.0], "dense": [0.0, 0.0], "experts": [0.0, 0.0]}

    def add(kind: str, weights: float, bytes_: float) -> None:
        held[kind][0] += weights
        held[kind][1] += weights * bytes_

    for group in model.layers:
        for weights, bytes_ in _mixer_tensors(model, group.attention, mix):
            add("attention", group.count * weights, bytes_)
        for kind, weights, bytes_ in _feed_forward_tensors(model, group.feed_forward, mix):
            add(kind, group.count * weights, bytes_)
    means = [total / weights if weights else PRECISION_BYTES[mix.rest] for weights, total in held.values()]
    head = bytes_of_row(mix.output, model.hidden_size)
    embedding = bytes_of_row(mix.embedding or mix.dense or mix.rest, model.hidden_size)
    rest = (model.n_layers * model.norm_params_per_layer + model.hidden_size) * _F32
    return WeightBytes(means[0], means[1], means[2], head, embedding, rest)


def _in_blocks(model: Model) -> Model:
    """A model whose shape a rule gave, in widths that blocks fit, as those of real models are."""
    if not model.guessed:
        return model
    groups = []
    for group in model.layers:
        part, mixer = group.feed_forward, group.attention
        part = replace(
            part,
            width=_whole(part.width),
            expert_width=_whole(part.expert_width),
            shared_width=_whole(part.shared_width),
        )
        mixer = replace(mixer, qk_head_dim=_whole(mixer.qk_head_dim), v_head_dim=_whole(mixer.v_head_dim))
        groups.append(replace(group, feed_forward=part, attention=mixer))
    return replace(model, hidden_size=_whole(model.hidden_size), layers=tuple(groups))


def _whole(width: int) -> int:
    return -(-width // _BLOCK) * _BLOCK


def _mixer_tensors(model: Model, shape: Attention, mix: Mix) -> list[tuple[float, float]]:
    """Weights of one mixer with the mean bytes of each: values, output, and the rest (queries, keys)."""
    total = mixer_of(shape).params(model.hidden_size) if shape.is_present else 0
    if not total or mixer_of(shape).training_operation is OperationKind.STATE_SCANS:
        return [(total, PRECISION_BYTES[mix.dense or mix.rest])]
    wide, width, layers = shape.n_query_heads * shape.v_head_dim, model.hidden_size, model.n_layers
    if shape.kv_lora_rank:  # keys and values come from the latent in one product, which counts as values
        rows = shape.kv_lora_rank
        values = rows * shape.n_query_heads * (shape.qk_head_dim - shape.rope_head_dim + shape.v_head_dim)
    else:
        rows, values = width, width * shape.n_kv_heads * shape.v_head_dim
    output = shape.output_params or wide * width
    base, is_mixtral = mix.dense or mix.rest, model.n_experts == _MIXTRAL_EXPERTS
    shared = shape.n_query_heads >= _SHARED_HEADS * shape.n_kv_heads or is_mixtral
    attn_v, attn_qk, attn_output = mix.attn_v, mix.attn_qk, mix.attn_output
    base_v = base
    if model.n_layers == _LAYERS_OF_70B:
        attn_v, base_v = (re.sub("q[34]_k", "q5_k", one) for one in (attn_v, base))
    if is_mixtral:
        attn_v = "q8_0"
        attn_output = "q5_k" if mix.name in _MIXTRAL_OUTPUT else ""
    v = mean_bytes(attn_v, base_v, (layers, rows, shared))
    o = mean_bytes(attn_output, base, (layers, wide, shared))
    qk = mean_bytes(attn_qk, base, (layers, width, shared))
    keys = values if is_mixtral else 0
    return [(values + keys, v), (output, o), (total - values - keys - output, qk)]


def _feed_forward_tensors(model: Model, part: FeedForward, mix: Mix) -> list[tuple[str, float, float]]:
    """Kind, weights and mean bytes of a feed-forward part's tensors."""
    width, layers = model.hidden_size, model.n_layers
    out: list[tuple[str, float, float]] = []
    experts = part.latent_width or width
    for kind, base, inner, outer, copies in (
        ("dense", mix.dense or mix.rest, part.width, width, 1),
        ("dense", mix.dense or mix.rest, part.shared_width, width, part.n_shared_experts),
        ("experts", mix.rest, part.expert_width, experts, part.n_experts),
    ):
        weights = copies * inner * outer
        if weights:
            out.append((kind, weights, mean_bytes(mix.ffn_down, base, (layers, inner, False))))
            out.append((kind, (part.n_matrices - 1) * weights, mean_bytes(mix.ffn_up, base, (layers, outer, False))))
    router = part.n_experts * width
    others = transformer.always_active_params(part, width) - sum(w for kind, w, _ in out if kind == "dense") - router
    return [*out, ("dense", router, _F32), ("dense", others, PRECISION_BYTES[mix.dense or mix.rest])]
