"""Pieces that many families share: heads, windows, experts, and a shape put together from layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from computeledger.facts.architecture import Attention, FeedForward, LayerGroup
from computeledger.facts.huggingface.fields import MAX_LAYERS, Fields

NO_MIXER = Attention("none", 0, 0, 0, 0)
NO_FEED_FORWARD = FeedForward()
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "top_k_experts")
_WINDOWED = {"sliding_attention": True, "full_attention": False, "attention": False}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a family's reader finds: one mixer and one feed-forward part per layer, and what goes with them.

    Attributes
    ----------
    mixers, feed_forwards : sequence
        One per layer, in order.
    norm_params_per_layer : int
        Norm weights and biases of one layer [-].
    tied_embeddings : bool
        Whether the family ties its embeddings where the configuration does not say.
    notes : tuple of str
        What the reader of the configuration should know.
    """

    mixers: Sequence[Attention]
    feed_forwards: Sequence[FeedForward]
    norm_params_per_layer: int
    tied_embeddings: bool = False
    notes: tuple[str, ...] = ()

    def groups(self) -> tuple[LayerGroup, ...]:
        """Layers of one shape together, in order of first appearance."""
        counts: dict[tuple[Attention, FeedForward], int] = {}
        for layer in zip(self.mixers, self.feed_forwards, strict=True):
            counts[layer] = counts.get(layer, 0) + 1
        return tuple(LayerGroup(count, *layer) for layer, count in counts.items())


def layer_count(f: Fields) -> int:
    """``L``, bounded."""
    n = f.integer("num_hidden_layers")
    if n > MAX_LAYERS:
        raise f.error("num_hidden_layers", f"{n} is not allowed; at most {MAX_LAYERS} is")
    return n


def head_size(f: Fields, n_heads: int, name: str = "head_dim") -> int:
    """``H``: stated, or the width over the heads."""
    size = f.optional_integer(name)
    if size is not None:
        return size
    hidden = f.integer("hidden_size")
    if hidden % n_heads:
        raise f.error("num_attention_heads", f"{n_heads} does not divide hidden_size {hidden}, and {name} is missing")
    return hidden // n_heads


def grouped_heads(f: Fields, kv_defaults_to_all: bool = False) -> Attention:
    """Attention with grouped key and value heads, MHA and MQA among them."""
    n = f.integer("num_attention_heads")
    k = f.integer("num_key_value_heads", default=n if kv_defaults_to_all else None)
    if n % k:
        raise f.error("num_key_value_heads", f"{k} does not divide num_attention_heads {n}")
    size = head_size(f, n)
    return Attention("gqa", n, k, size, size)


def within(f: Fields, window: int | None) -> int | None:
    """A window as wide as the longest context hides nothing."""
    longest = f.optional_integer("max_position_embeddings")
    return None if window is None or (longest is not None and window >= longest) else window


def windowed(
    f: Fields, mixer: Attention, n_layers: int, slides: Callable[[int], bool], name: str = "sliding_window"
) -> list[Attention]:
    """One mixer per layer, sliding where ``layer_types`` says so, or else the family's rule."""
    window = f.optional_integer(name)
    if f.has("layer_types"):
        sliding = [_WINDOWED[kind] for kind in f.choices("layer_types", _WINDOWED, n_layers)]
        if any(sliding) and window is None:
            raise f.missing(name)
    else:
        sliding = [window is not None and slides(i) for i in range(n_layers)]
    near = replace(mixer, window=within(f, window))
    return [near if slide else mixer for slide in sliding]


def dense_mlp(f: Fields, name: str = "intermediate_size", n_matrices: int = 3) -> FeedForward:
    """A dense MLP."""
    return FeedForward(width=f.integer(name), n_matrices=n_matrices)


def experts(f: Fields, width: int, n_matrices: int = 3) -> FeedForward:
    """Routed experts of a width, no shared ones."""
    n, active = f.integer(*EXPERT_COUNTS), f.integer(*EXPERTS_PER_TOKEN)
    if active > n:
        name = next(name for name in EXPERTS_PER_TOKEN if f.has(name))
        raise f.error(name, f"{active} experts per token, but there are {n}")
    return FeedForward(n_matrices=n_matrices, n_experts=n, n_experts_active=active, expert_width=width)


def with_shared(f: Fields, part: FeedForward, names: Sequence[str], width: int) -> FeedForward:
    """Routed experts and shared ones beside them, counted under any of the names."""
    n = f.optional_integer(*names, minimum=0) or 0
    return replace(part, n_shared_experts=n, shared_width=width if n else 0)


def expert_layers(f: Fields, n_layers: int) -> list[bool]:
    """Which layers route to experts: after the first dense ones, at a frequency, or by a list."""
    first = f.integer("first_k_dense_replace", default=0, minimum=0)
    if isinstance(f.value("moe_layer_freq"), Sequence):
        listed = f.integers("moe_layer_freq", n_layers)
        return [bool(listed[i]) and i >= first for i in range(n_layers)]
    every = f.integer("moe_layer_freq", default=1)
    routed = [i >= first and i % every == 0 for i in range(n_layers)]
    if f.has("mlp_layer_types"):
        listed_types = f.choices("mlp_layer_types", {"dense": 0, "sparse": 1}, n_layers)
        if [kind == "sparse" for kind in listed_types] != routed:
            raise f.error("mlp_layer_types", "contradicts first_k_dense_replace and moe_layer_freq")
    return routed


def pick(routed: Sequence[bool], moe: FeedForward, dense: FeedForward) -> list[FeedForward]:
    """One feed-forward part per layer."""
    return [moe if is_routed else dense for is_routed in routed]


def projection_biases(mixer: Attention, hidden: int, output: bool) -> int:
    """Biases of the query, key and value projections, and of the output where it has one."""
    n, k = mixer.n_query_heads, mixer.n_kv_heads
    return n * mixer.qk_head_dim + k * (mixer.qk_head_dim + mixer.v_head_dim) + (hidden if output else 0)
