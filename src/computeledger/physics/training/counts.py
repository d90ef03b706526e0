"""What one token meets in all layers of a model under training: parameters by kind, values that move."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from computeledger.facts.architecture import FeedForward, LayerGroup, Model
from computeledger.physics import transformer
from computeledger.physics.attention import mixer_of

#: Values per routed copy of a token that permuting, activation and weighting move, over those of a dense MLP.
PERMUTE_VALUES = 6


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
    copies, latent_width, groups_active : float
        Experts a token visits, the width that travels to them, and the groups of experts it may visit (0: all) [-].
    n_experts, expert_width : float
        Experts of a layer, and the width of one [-].
    up_params, norm_values, activation_values : float
        What may be recomputed by itself: parameters of MLA's up-projections, values that norms and that the activations
        of experts read and write [-].
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
    groups_active: float
    n_experts: float
    expert_width: float
    up_params: float
    norm_values: float
    activation_values: float


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
            total["n_experts"] = max(total["n_experts"], part.n_experts)
            total["expert_width"] = max(total["expert_width"], part.expert_width)
            total["groups_active"] = max(total["groups_active"], part.n_groups_active)
    return LayerCounts(**{**total, "n_moe": int(total["n_moe"])})  # type: ignore[arg-type]


def _mixer_counts(group: LayerGroup, d: int) -> dict[str, float]:
    shape = group.attention
    if not shape.is_present:
        return {}
    mixer = mixer_of(shape)
    params, moved = mixer.params(d), mixer.moved_values(d)
    return {
        "up_params": mixer.up_params,
        "norm_values": 2.0 * (d + shape.q_lora_rank + shape.kv_lora_rank),
        "dense_params": params,
        "wide_ramp": params / d / 2,
        "cut_ramp": params / (shape.n_query_heads * shape.v_head_dim) / 2,
        "residual_values": 10.0 * d if group.feed_forward.is_present else 5.0 * d,
        "mixer_values": moved.elementwise_values,
        "wide_values": 2.0 * d,
        "cut_values": moved.cut_values,
        "cast_values": moved.cast_values,
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
        "norm_values": 0.0 if part.n_experts else 2.0 * d,
        "activation_values": matrices * part.n_shared_experts * part.shared_width if part.n_experts else 0.0,
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
        "norm_values": 2.0 * d,
        "activation_values": k * part.n_matrices * width,
        "routed_params": k * one,
        "stored_params": part.n_experts * one,
        "routed_ramp": k * part.n_matrices * (size + width) / 2,
        "residual_values": 4.0 * d,
        "permuted_values": k * PERMUTE_VALUES * size,
        "expert_values": k * 2.0 * part.n_matrices * width,
        "routed_values": k * (2.0 * size + part.n_matrices * width),
        "routed_casts": k * (size + width),
    }
