"""Pieces that many families share: heads, windows, a dense MLP, and a shape put together from layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from computeledger.facts.architecture import Attention, FeedForward, LayerGroup
from computeledger.facts.huggingface.fields import MAX_LAYERS, Fields

NO_MIXER = Attention("none", 0, 0, 0, 0)
NO_FEED_FORWARD = FeedForward()
_WINDOWED = {"sliding_attention": True, "full_attention": False}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a family's reader finds: one mixer and one feed-forward part per layer, and what goes with them."""

    mixers: Sequence[Attention]
    feed_forwards: Sequence[FeedForward]
    norm_params_per_layer: int
    tied_embeddings: bool = False
    default_vocab_size: int | None = None
    residual_streams: int = 1

    def groups(self) -> tuple[LayerGroup, ...]:
        """Layers of one shape together."""
        counts: dict[tuple[Attention, FeedForward], int] = {}
        for layer in zip(self.mixers, self.feed_forwards, strict=True):
            counts[layer] = counts.get(layer, 0) + 1
        return tuple(LayerGroup(count, *layer) for layer, count in counts.items())


def layer_count(f: Fields) -> int:
    """``L``, bounded, because the readers make a list of layers."""
    n = f.integer("num_hidden_layers")
    if n > MAX_LAYERS:
        raise f.error("num_hidden_layers", f"{n} is not allowed; at most {MAX_LAYERS} is")
    return n


def head_size(f: Fields, n_heads: int) -> int:
    """``H``: stated, or the width over the heads."""
    size = f.optional_integer("head_dim")
    if size is not None:
        return size
    hidden = f.integer("hidden_size")
    if hidden % n_heads:
        raise f.error("num_attention_heads", f"{n_heads} does not divide hidden_size {hidden}, and head_dim is missing")
    return hidden // n_heads


def grouped_heads(f: Fields, kv_defaults_to_all: bool = False) -> Attention:
    """Attention with grouped key and value heads, MHA and MQA among them."""
    n = f.integer("num_attention_heads")
    k = f.integer("num_key_value_heads", default=n if kv_defaults_to_all else None)
    if n % k:
        raise f.error("num_key_value_heads", f"{k} does not divide num_attention_heads {n}")
    size = head_size(f, n)
    return Attention("gqa", n, k, size, size)


def within(f: Fields, window_tokens: int | None) -> int | None:
    """A window, unless it is as wide as the longest context and hides nothing."""
    longest = f.optional_integer("max_position_embeddings")
    binds = window_tokens is not None and (longest is None or window_tokens < longest)
    return window_tokens if binds else None


def windowed(f: Fields, mixer: Attention, n_layers: int, slides: Callable[[int], bool]) -> list[Attention]:
    """One mixer per layer, sliding where ``layer_types`` says so, or else by the family's rule."""
    window = f.optional_integer("sliding_window")
    if f.has("layer_types"):
        sliding = [_WINDOWED[kind] for kind in f.choices("layer_types", _WINDOWED, n_layers)]
        if any(sliding) and window is None:
            raise f.missing("sliding_window")
    else:
        sliding = [window is not None and slides(i) for i in range(n_layers)]
    near = replace(mixer, window=within(f, window))
    return [near if slide else mixer for slide in sliding]


def dense_mlp(f: Fields, name: str = "intermediate_size", n_matrices: int = 3) -> FeedForward:
    """A dense MLP."""
    return FeedForward(width=f.integer(name), n_matrices=n_matrices)


def projection_biases(mixer: Attention, hidden_size: int, output: bool) -> int:
    """Biases of the query, key and value projections, and of the output where it has one."""
    n, k = mixer.n_query_heads, mixer.n_kv_heads
    return n * mixer.qk_head_dim + k * (mixer.qk_head_dim + mixer.v_head_dim) + (hidden_size if output else 0)
