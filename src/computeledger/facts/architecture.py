"""The shape of a transformer: what it stores, multiplies and remembers, layer by layer.

A :class:`Model` is read from a Hugging Face ``config.json`` by :mod:`computeledger.facts.huggingface`; the
counts and costs that follow from it are functions in :mod:`computeledger.physics.transformer`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from computeledger.bounds import AT_LEAST_ONE, check_record
from computeledger.facts.schema import Fact


@dataclass(frozen=True, slots=True)
class Attention:
    """A layer's token mixer, as its configuration states it; ``kind`` names a class of ``physics.attention``."""

    kind: str
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

    @property
    def is_present(self) -> bool:
        """Whether the layer has a mixer at all."""
        return self.kind != "none"


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A layer's feed-forward part: dense, mixture of experts, or none."""

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

    @property
    def is_present(self) -> bool:
        """Whether the layer has an MLP or experts at all."""
        return bool(self.width or self.n_experts)


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one shape."""

    count: int
    attention: Attention
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class VisionEncoder:
    """The vision part of a multimodal model, kept apart from the language part.

    Attributes
    ----------
    n_params : int
        Matrices of all of it, positions included [-].
    n_layers : int
        Of the transformer over patches [-].
    tokens_per_image : int or None
        Where the configuration states one number for every image [token].
    family : str
        ``model_type`` of the whole model, which says how images are resized and cut.
    hidden_size, attention_width, mlp_width : int
        Of a patch, of its queries, and between the matrices of its MLP [-].
    patch_params, layer_params, projector_params : int
        Multiplied with each patch once, with each patch in each layer, and with each token that is left [-].
    patch_pixels, merged_side, image_pixels : int
        Side of a patch, patches that become one token along a side, and side of an image or tile [pixel], [-], [pixel].
    window_patches, n_full_layers : int
        Patches that a patch sees in most layers, and layers where it sees all; 0 where all layers see all [-].
    """

    n_params: int
    n_layers: int
    tokens_per_image: int | None = None
    family: str = ""
    hidden_size: int = 0
    attention_width: int = 0
    mlp_width: int = 0
    patch_params: int = 0
    layer_params: int = 0
    projector_params: int = 0
    patch_pixels: int = 14
    merged_side: int = 1
    image_pixels: int = 0
    window_patches: int = 0
    n_full_layers: int = 0


#: How an engine spreads an encoder over the ranks of tensor parallelism: its matrices, or the images.
TENSOR, DATA = "tensor", "data"


@dataclass(frozen=True, slots=True)
class Images:
    """Images of a request, and the encoder that an engine holds to read them.

    Attributes
    ----------
    count : int
        Of a request [-].
    patches, tokens : int
        Of one image: what the encoder reads, and what the prompt holds of it with the marks around it [-], [token].
    encoder : VisionEncoder
        What reads them.
    spread : str
        ``tensor`` or ``data``.
    """

    count: int
    patches: int
    tokens: int
    encoder: VisionEncoder
    spread: str = TENSOR


#: What adapters are put beside: the projections of the mixers, or those and the dense MLPs.
TARGETS = ("attention", "all")


@dataclass(frozen=True, slots=True)
class ServedLoras:
    """Adapters that requests name, each request one.

    Attributes
    ----------
    n_adapters : int
        How many there are [-].
    n_slots : int
        How many an engine holds on the chip, and takes into a batch, at once [-].
    zipf_exponent : float
        The ``i``-th most popular one gets a share of requests in ratio ``i^-s``; 0 where all get as many [-].
    is_copied : bool
        Whether the mean prompt carries its share of copying adapters to the chip; a simulation copies them itself.
    """

    n_adapters: int = 1
    n_slots: int = 1
    zipf_exponent: float = 0.0
    is_copied: bool = True

    def __post_init__(self) -> None:
        check_record(self, n_adapters=AT_LEAST_ONE, n_slots=AT_LEAST_ONE)


#: One adapter, in every request.
ONE_LORA = ServedLoras()


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters beside frozen weights.

    Attributes
    ----------
    rank : int
        Of every adapter, ``r`` [-].
    targets : str
        ``attention`` adapts the projections of the mixers, ``all`` the dense MLPs as well; routed experts stay frozen.
    served : ServedLoras
        How many there are where an engine runs them.
    """

    rank: int
    targets: str = "all"
    served: ServedLoras = ONE_LORA

    def __post_init__(self) -> None:
        check_record(self, rank=AT_LEAST_ONE)


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of stored weights by kind: of all of a kind in ``Model.stored``, of one on average in ``Precision.mixed``.

    Attributes
    ----------
    attention, dense, experts, head, embedding : float
        Of all weights of a kind, or of one [byte].
    rest_bytes : float
        Of all norms, biases and whatever else is stored [byte].
    """

    attention: float
    dense: float
    experts: float
    head: float
    embedding: float
    rest_bytes: float = 0.0


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
    head_precision, embedding_precision : str
        Of the output head, and of the input embedding where it is apart.
    stored : WeightBytes or None
        Bytes of all weights by kind, of a checkpoint whose headers were read.
    gguf_mix : str
        Mix of a GGUF file that the name states, such as ``q4_k_m``; empty where it states none.
    n_mtp_layers : int
        Multi-token-prediction modules; excluded from parameter counts of the model proper.
    residual_streams : int
        Residual streams that layers read and write, such as with hyper-connections; a stage hands all of them on [-].
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
    remarks : tuple of str
        Those of the notes that every answer shows: what was taken from the name, assumed or fetched.
    guessed : tuple of str
        What a rule filled of a shape that is given by numbers; empty for a model with a configuration.
    adapters : Lora or None
        Adapters that an engine runs beside the weights; None where there are none, or where they are merged.
    drafter : Model or None
        What an engine runs beside the model to draft its tokens: a head, or a small model.
    images : Images or None
        Images of a request, and the encoder that an engine holds for them; None where prompts are text.
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
    head_precision: str = "bf16"
    embedding_precision: str = "bf16"
    stored: WeightBytes | None = None
    gguf_mix: str = ""
    n_mtp_layers: int = 0
    residual_streams: int = 1
    norm_params_per_layer: int = 0
    vision: VisionEncoder | None = None
    published: Mapping[str, Fact] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    adapters: Lora | None = None
    drafter: Model | None = None
    images: Images | None = None

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return self.n_experts > 0

    @functools.cached_property
    def n_experts(self) -> int:
        """``E``, routed experts of the layers that have most; 0 where the model is dense [-]."""
        return max((group.feed_forward.n_experts for group in self.layers), default=0)

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
        return tuple((count, mixer) for mixer, count in counts.items() if mixer.is_present)

    @functools.cached_property
    def feed_forwards(self) -> tuple[tuple[int, FeedForward], ...]:
        """Each MLP of the layers, with the number of layers that have it [-]."""
        counts: dict[FeedForward, int] = {}
        for group in self.layers:
            counts[group.feed_forward] = counts.get(group.feed_forward, 0) + group.count
        return tuple((count, part) for part, count in counts.items() if part.is_present)


def truncated(model: Model, n_layers: int) -> Model:
    """The first layers of a model, as short runs and benchmarks train them.

    One dense layer stays before those with experts.

    Parameters
    ----------
    model : Model
        The whole.
    n_layers : int
        Layers that are left [-].

    Returns
    -------
    Model
        Without multi-token-prediction modules.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> truncated(load_model("deepseek-v3"), 4).n_layers
    4
    """
    moe = [group for group in model.layers if group.feed_forward.n_experts]
    dense = [group for group in model.layers if not group.feed_forward.n_experts]
    if not moe:
        groups = [replace(dense[0], count=n_layers)]
    else:
        first = [replace(dense[0], count=1)] if dense and n_layers > 1 else []
        groups = [*first, replace(moe[0], count=n_layers - len(first))]
    return replace(model, layers=tuple(groups), n_mtp_layers=0)
