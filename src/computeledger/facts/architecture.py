"""The shape of a transformer: what it stores, multiplies and remembers, layer by layer.

A :class:`Model` is read from a Hugging Face ``config.json`` by :mod:`computeledger.facts.huggingface`; the
counts and costs that follow from it are functions in :mod:`computeledger.physics.transformer`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from computeledger.facts.schema import Fact

AttentionKind = Literal["gqa", "mla", "gated_delta", "kda", "mamba2", "lightning", "none"]


@dataclass(frozen=True, slots=True)
class Attention:
    """A layer's token mixer.

    Attributes
    ----------
    kind : str
        ``gqa`` covers MHA and MQA; ``mla`` keeps a latent; ``gated_delta``, ``kda``, ``mamba2`` and
        ``lightning`` keep a state of fixed size; ``none`` is a layer without a mixer.
    n_query_heads, n_kv_heads : int
        ``N`` and ``K``. For linear kinds: value heads and key heads.
    qk_head_dim, v_head_dim : int
        ``H`` of queries and keys, and of values. For ``mamba2``: state size and head size.
    window : int or None
        Tokens a query sees at most (sliding window or chunk). Where ``compression`` is above 1: the latest tokens
        that it sees uncompressed beside the compressed ones (0: none).
    chunked : bool
        The window is a fixed chunk: a query sees its own chunk up to itself, not the last ``window`` tokens.
    q_lora_rank, kv_lora_rank, rope_head_dim : int
        MLA's latents; ``rope_head_dim`` is the shared rotary key, included in ``qk_head_dim``.
    sparse_tokens : int or None
        Cache entries a query attends to after an indexer chose them, as in DSA [token].
    index_heads, index_head_dim : int
        The indexer's shape.
    index_key_bytes : float
        One indexer key in the cache [byte].
    conv_width : int
        Width of the short convolution before a linear mixer.
    shares_kv : bool
        Reuses another layer's keys and values: no projection and no cache of its own.
    gated : bool
        An output gate as wide as the values stands beside the query projection.
    extra_params : int
        Parameters multiplied per token that the shape above does not cover, counted when read.
    compression : int
        Tokens that share one cache entry (1: none; 0: only the window is kept).
    one_kv_projection : bool
        Keys and values come out of one projection.
    one_kv_entry : bool
        Keys and values are one and the same cached vector.
    output_params : int
        Parameters of an output projection that is not ``N v D`` (0: it is).
    state_value_bytes : float
        One value in the state of a linear kind [byte].
    """

    kind: AttentionKind
    n_query_heads: int
    n_kv_heads: int
    qk_head_dim: int
    v_head_dim: int
    window: int | None = None
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    sparse_tokens: int | None = None
    index_heads: int = 0
    index_head_dim: int = 0
    index_key_bytes: float = 0.0
    conv_width: int = 0
    shares_kv: bool = False
    gated: bool = False
    extra_params: int = 0
    compression: int = 1
    chunked: bool = False
    one_kv_projection: bool = False
    one_kv_entry: bool = False
    output_params: int = 0
    state_value_bytes: float = 4.0


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A layer's feed-forward part: dense, mixture of experts, or none.

    Attributes
    ----------
    width : int
        ``F`` of the dense MLP; 0 where the layer has none.
    n_matrices : int
        3 for gated MLPs (SwiGLU), 2 for plain ones.
    n_experts, n_experts_active : int
        ``E`` routed experts and how many a token visits.
    n_groups, n_groups_active : int
        Groups that routed experts are divided into, and how many of them a token may visit (0: no such limit).
    expert_width : int
        ``F`` of one routed expert.
    n_shared_experts, shared_width : int
        Experts every token visits, and the width of one.
    latent_width : int
        Width that tokens are projected to before the routed experts (0: the model's own).
    extra_params : int
        Parameters that every token meets and the shape above does not cover, counted when read.
    """

    width: int = 0
    n_matrices: int = 3
    n_experts: int = 0
    n_experts_active: int = 0
    n_groups: int = 0
    n_groups_active: int = 0
    expert_width: int = 0
    n_shared_experts: int = 0
    shared_width: int = 0
    latent_width: int = 0
    extra_params: int = 0


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one shape.

    Attributes
    ----------
    count : int
        How many; they may stand anywhere in the model.
    attention : Attention
        Their token mixer.
    feed_forward : FeedForward
        Their feed-forward part.
    """

    count: int
    attention: Attention
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class VisionEncoder:
    """The vision part of a multimodal model, kept apart from the language part.

    Attributes
    ----------
    n_params, n_layers : int
        Parameters and layers of the encoder with its projector.
    tokens_per_image : int or None
        What an image becomes in the language model's context, where it is fixed [token].
    """

    n_params: int
    n_layers: int
    tokens_per_image: int | None = None


@dataclass(frozen=True)
class Model:
    """A language model's shape and the figures published about it.

    Attributes
    ----------
    id : str
        Hugging Face id, or the path it was read from.
    hidden_size, vocab_size : int
        ``D`` and ``V``.
    layers : tuple of LayerGroup
        All layers, grouped by shape.
    tied_embeddings : bool
        Whether the output head reuses the input embedding.
    max_context_tokens : int
        Longest context the configuration allows [token].
    weight_precision, dense_precision, expert_precision : str
        Precision of the stored weights: mixers; dense and shared MLPs; routed experts.
    n_mtp_layers : int
        Multi-token-prediction modules; excluded from parameter counts of the model proper.
    norm_params_per_layer : int
        Norm weights, biases and the like of one layer: stored, but multiplied with nothing wider than a vector.
    vision : VisionEncoder or None
        The vision part, where there is one.
    published : mapping of str to Fact
        ``n_params_total``, ``n_params_active``, ``tokens_pretraining``, ... as published.
    aliases : tuple of str
        Other ids of the same model.
    notes : tuple of str
        What the reader of the configuration should know.
    """

    id: str
    hidden_size: int
    vocab_size: int
    layers: tuple[LayerGroup, ...]
    tied_embeddings: bool = False
    max_context_tokens: int = 0
    weight_precision: str = "bf16"
    dense_precision: str = "bf16"
    expert_precision: str = "bf16"
    n_mtp_layers: int = 0
    norm_params_per_layer: int = 0
    vision: VisionEncoder | None = None
    published: Mapping[str, Fact] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(group.feed_forward.n_experts for group in self.layers)

    @functools.cached_property
    def n_layers(self) -> int:
        """``L``, all layers of the model proper [-]."""
        return sum(group.count for group in self.layers)

    @functools.cached_property
    def mixers(self) -> tuple[tuple[int, Attention], ...]:
        """Each mixer of the layers, with the number of layers that have it [-]."""
        counts: dict[Attention, int] = {}
        for group in self.layers:
            counts[group.attention] = counts.get(group.attention, 0) + group.count
        return tuple((count, mixer) for mixer, count in counts.items() if mixer.kind != "none")

    @functools.cached_property
    def feed_forwards(self) -> tuple[tuple[int, FeedForward], ...]:
        """Each MLP of the layers, with the number of layers that have it [-]."""
        counts: dict[FeedForward, int] = {}
        for group in self.layers:
            counts[group.feed_forward] = counts.get(group.feed_forward, 0) + group.count
        return tuple((count, part) for part, count in counts.items() if part.width or part.n_experts)
