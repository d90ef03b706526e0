"""Shapes for models that do not exist yet: layers, heads and experts from a number of parameters."""

from __future__ import annotations

import math

from computeledger.facts.architecture import Attention, FeedForward, LayerGroup, Model

#: Width of a head, heads of keys and values, vocabulary, width over layers (assumption: as Llama 3, 8B to 405B).
HEAD_WIDTH, KV_HEADS, VOCABULARY, WIDTH_PER_LAYER = 128, 8, 128_256, 128
#: Parameters of a layer over its width squared (assumption: Llama 3 405B, MLP 3.25 times as wide as the model).
LAYER_PARAMS_RATIO = 11.75
#: Routed experts and how many a token visits (assumption: as sparse as the largest published models, 8 of 384 or 512).
EXPERTS, EXPERTS_ACTIVE = 512, 8
#: Heads come in multiples of this from there on, so that they can be cut.
_HEADS_GRAIN, _LAYERS_GRAIN, _WIDTH_GRAIN = 64, 8, 256


def shaped_model(name: str, n_params_active: float, n_params_total: float | None = None) -> Model:
    """Shape a transformer of a given size: width, layers and heads as Llama 3 scales them, the MLP takes the rest.

    A layer multiplies ``11.75 D^2`` parameters and there are ``D / 128`` layers, so ``D = (128 N / 11.75)^(1/3)``. A
    mixture has 512 routed experts of which a token visits 8; a shared expert takes what is active beside them.

    Examples
    --------
    >>> from computeledger.physics.transformer import n_params_active, n_params_total
    >>> dense = shaped_model("dense", 405e9)
    >>> dense.hidden_size, dense.n_layers, round(n_params_active(dense) / 405e9, 2)
    (16384, 128, 1.0)
    >>> mixture = shaped_model("moe", 1e12, 32e12)
    >>> round(n_params_active(mixture) / 1e12, 2), round(n_params_total(mixture) / 32e12, 2)
    (1.0, 1.0)
    """
    width = _grain((WIDTH_PER_LAYER * n_params_active / LAYER_PARAMS_RATIO) ** (1 / 3), _WIDTH_GRAIN)
    layers = _grain(width / WIDTH_PER_LAYER, _LAYERS_GRAIN)
    heads = _heads(width / HEAD_WIDTH)
    mixer = 2 * width * HEAD_WIDTH * (heads + min(KV_HEADS, heads))
    block = LayerGroup(layers, Attention("gqa", heads, min(KV_HEADS, heads), HEAD_WIDTH, HEAD_WIDTH), FeedForward())
    rest = (n_params_active - VOCABULARY * width) / layers - mixer
    if n_params_total is None:
        feed_forward = FeedForward(width=_grain(rest / (3 * width), 64))
    else:
        inactive = EXPERTS - EXPERTS_ACTIVE
        each = max(round((n_params_total - n_params_active) / (3 * width * layers * inactive)), 1)
        shared = max(round(rest / (3 * width) - EXPERTS_ACTIVE * each - EXPERTS / 3), 0)
        feed_forward = FeedForward(
            n_experts=EXPERTS,
            n_experts_active=EXPERTS_ACTIVE,
            expert_width=each,
            n_shared_experts=int(shared > 0),
            shared_width=shared,
        )
    return Model(name, width, VOCABULARY, (LayerGroup(block.count, block.attention, feed_forward),))


def _grain(value: float, grain: int) -> int:
    return max(round(value / grain), 1) * grain


def _heads(wanted: float) -> int:
    """Heads that can be cut: a power of two, from 64 on multiples of 64."""
    if wanted < _HEADS_GRAIN:
        return int(2 ** max(round(math.log2(wanted)), 0))
    return _grain(wanted, _HEADS_GRAIN)
