"""What fits: weights, KV cache and activations of one GPU, and the batch that fills it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.schema import PRECISION_BYTES, System
from computeledger.physics.adapters import served_bytes
from computeledger.physics.attention import mixer_of
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.buffers import SERVER_BUFFERS, Buffers, Held, held_beside
from computeledger.physics.serving.drafting import beside
from computeledger.physics.serving.encoding import encoder_bytes_per_gpu
from computeledger.physics.serving.offload import ON_CHIP, HostMemory
from computeledger.physics.weights import weight_counts

#: What a server gives to the cache, and what its graphs and workspace take.
CACHE_FRACTION, WORKSPACE_BYTES = SERVER_BUFFERS.cache_fraction, SERVER_BUFFERS.workspace_bytes


@dataclass(frozen=True, slots=True)
class ServingMemory:
    """Memory of one GPU by tenant.

    Attributes
    ----------
    weights_bytes, kv_cache_bytes, activations_bytes, workspace_bytes : float or ndarray
        Tenants of the busiest GPU [byte].
    capacity_bytes : float
        HBM of one GPU [byte].
    rest_sd_bytes : float or ndarray
        Standard deviation of activations and workspace together; 0 where the engine's logs were not read [byte].
    cache_bytes : float or ndarray
        What the engine gives to the cache, whether sequences fill it or not [byte].
    sequence_bytes : float or ndarray
        Cache of one more sequence on its rank [byte].
    largest_batch : float or ndarray
        Sequences per replica that fit, all attention-DP ranks together; 0 where the weights do not fit [-].
    """

    weights_bytes: Num
    kv_cache_bytes: Num
    activations_bytes: Num
    workspace_bytes: Num
    capacity_bytes: float
    rest_sd_bytes: Num
    cache_bytes: Num
    sequence_bytes: Num
    largest_batch: Num

    @property
    def total_bytes(self) -> Num:
        """Sum of the tenants [byte]."""
        return self.weights_bytes + self.kv_cache_bytes + self.activations_bytes + self.workspace_bytes


def weights_bytes_per_gpu(model: Model, layout: Layout, precision: Precision) -> Num:
    """Stored weights on the busiest GPU.

    Mixers and dense parts are cut over TP and replicated over attention-DP; experts are cut over the whole stage.
    Norms and biases are kept in 16 bits where the checkpoint says nothing else.

    Parameters
    ----------
    model : Model
        What is stored.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights by kind.

    Returns
    -------
    float or ndarray
        Weights [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> round(float(weights_bytes_per_gpu(load_model("llama-3.1-8b"), Layout(), Precision())) / 1e9, 2)
    16.06
    """
    counts, each = weight_counts(model), precision.weights
    mixers, dense = counts["attention"], counts["dense"]
    head, embedding = counts["head"] * each.head, counts["embedding"] * each.embedding
    # of a pipeline's ends one has the embedding and the other the head
    tables = np.where(np.asarray(layout.pp) > 1, np.maximum(head, embedding), head + embedding)
    # the last norm stands behind all layers
    norms = (model.n_layers * model.norm_params_per_layer + model.hidden_size) * PRECISION_BYTES["bf16"]
    if precision.mixed is not None:
        norms = each.rest_bytes
    kept = mixers * each.attention + dense * each.dense
    spread = counts["experts"] * each.experts
    return tables / layout.tp + (kept / layout.tp + norms + spread / layout.n_gpus_per_stage) / layout.pp


def expert_bytes_per_gpu(model: Model, layout: Layout, precision: Precision) -> Num:
    """Stored weights of routed experts on each GPU.

    Parameters
    ----------
    model : Model
        What is stored.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights by kind.

    Returns
    -------
    float or ndarray
        Weights [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(expert_bytes_per_gpu(load_model("llama-3.1-8b"), Layout(), Precision()))
    0.0
    """
    stored = weight_counts(model)["experts"] * precision.weights.experts
    return stored / layout.n_gpus_per_stage / layout.pp


def sequence_bytes_per_gpu(model: Model, context_tokens: Num, layout: Layout, kv_bytes_per_value: float) -> Num:
    """Cache of one sequence on each GPU of its rank.

    Parameters
    ----------
    model : Model
        What is served.
    context_tokens : float or ndarray
        Tokens in the cache [token].
    layout : Layout
        Integer degrees or arrays.
    kv_bytes_per_value : float
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        Bytes, with the replication of KV heads beyond TP and the sharding over pipeline stages [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(sequence_bytes_per_gpu(load_model("deepseek-v3"), 1.0, Layout(tp=8), 2.0))
    70272.0
    """
    total: Num = 0.0
    for group in model.layers:
        mixer = mixer_of(group.attention)
        one = mixer.kv_cache_bytes(context_tokens, kv_bytes_per_value)
        total = total + group.count * one / mixer.kv_shards(layout.tp)
    if model.drafter is None:
        return total / layout.pp
    # what drafts lies whole beside the last layers
    own = sequence_bytes_per_gpu(model.drafter, context_tokens, Layout(tp=layout.tp), kv_bytes_per_value)
    return total / layout.pp + own


def token_bytes_per_gpu(model: Model, layout: Layout, kv_bytes_per_value: float, after_tokens: Num = 1.0) -> Num:
    """Cache of one more token of a sequence on each GPU of its rank, without the states that a sequence has once.

    Parameters
    ----------
    model : Model
        What is served.
    layout : Layout
        Integer degrees or arrays.
    kv_bytes_per_value : float
        Bytes of one cached value [byte].
    after_tokens : float or ndarray
        Tokens that are in the cache already; a layer with a full window holds no more [token].

    Returns
    -------
    float or ndarray
        Bytes [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(token_bytes_per_gpu(load_model("deepseek-v3"), Layout(tp=8), 2.0))
    70272.0
    >>> hybrid = load_model("qwen3.5-397b-a17b")
    >>> ratio = sequence_bytes_per_gpu(hybrid, 1.0, Layout(), 2.0) / token_bytes_per_gpu(hybrid, Layout(), 2.0)
    >>> bool(ratio > 1000)
    True
    """
    before, after = (
        sequence_bytes_per_gpu(model, tokens, layout, kv_bytes_per_value)
        for tokens in (after_tokens, after_tokens + 1.0)
    )
    return after - before


def cache_bytes_per_gpu(system: System, weights_bytes: Num, held: Held, load: Num, buffers: Buffers) -> Num:
    """Memory that a serving engine gives to the KV cache.

    ``cache = share (whole HBM - weights - max(activations + workspace, reserve))``

    Parameters
    ----------
    system : System
        Whose HBM it is.
    weights_bytes : float or ndarray
        Of the busiest GPU [byte].
    held : Held
        What the engine holds beside them.
    load : float or ndarray
        Sequences that are sampled at once on the GPU [-].
    buffers : Buffers
        Of the engine.

    Returns
    -------
    float or ndarray
        Of one GPU; 0 where the rest leaves nothing [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> llama = load_model("llama-3.1-8b")
    >>> held = held_beside(llama, 8192.0, Layout(), Precision(), SERVER_BUFFERS)
    >>> round(float(cache_bytes_per_gpu(load_system("h100-nvl8"), 16e9, held, 1.0, SERVER_BUFFERS)) / 1e9)
    59
    """
    filled = _filled_bytes(system, buffers)
    beside = np.maximum(held.activations_bytes(load) + held.workspace_bytes, buffers.least_bytes(filled))
    return np.maximum(buffers.cache_fraction * (filled - weights_bytes - beside), 0.0)


def _filled_bytes(system: System, buffers: Buffers) -> float:
    """Memory of one GPU that an engine fills."""
    return buffers.whole_fraction * system.accelerator.usable_bytes


def _largest_batch(system: System, weights_bytes: Num, held: Held, one: Num, buffers: Buffers) -> Num:
    """Sequences that fit on a rank: a chunk and the reserve bound them, and sampling, which grows with them."""
    cached = np.maximum(one, 1.0)  # a cache in host memory is bounded by nothing that is known here
    by_chunk = cache_bytes_per_gpu(system, weights_bytes, held, 0.0, buffers) / cached
    whole, share = _filled_bytes(system, buffers), buffers.cache_fraction
    left = whole - weights_bytes - held.workspace_bytes - held.expert_bytes - held.sampling_bytes
    by_sampling = np.maximum(share * left, 0.0) / (cached + share * held.sampling_bytes_per_sequence)
    return np.floor(np.minimum(by_chunk, by_sampling))


def serving_memory(
    model: Model,
    system: System,
    layout: Layout,
    precision: Precision,
    load: tuple[Num, Num],
    host: HostMemory = ON_CHIP,
) -> ServingMemory:
    """Account for the HBM of the busiest GPU of a replica.

    Parameters
    ----------
    model : Model
        What is served.
    system : System
        Whose HBM it must fit.
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights by kind and of the cache.
    load : tuple of float or ndarray
        Sequences per replica, all attention-DP ranks together [-], and tokens each holds at its end [token].
    host : HostMemory
        What stays in the host's memory instead, and what the engine keeps.

    Returns
    -------
    ServingMemory
        Tenants, and the largest batch that fits.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> memory = serving_memory(load_model("llama-3.1-8b"), load_system("h100-nvl8"), Layout(), Precision(), (1, 8192))
    >>> bool(memory.largest_batch > 20)
    True
    """
    batch, context_tokens = load
    weights = weights_bytes_per_gpu(model, layout, precision) + served_bytes(model, layout)
    weights = weights + encoder_bytes_per_gpu(model, layout)
    if model.drafter is not None:
        weights = weights + weights_bytes_per_gpu(model.drafter, *beside(layout, precision))
    experts = expert_bytes_per_gpu(model, layout, precision)
    more = np.maximum(host.experts_fraction - host.weights_fraction, 0.0)
    weights = weights * (1 - host.weights_fraction) - experts * more
    one = sequence_bytes_per_gpu(model, context_tokens, layout, PRECISION_BYTES[precision.kv])
    one = one * (1 - host.kv_fraction)
    kept, ranks = host.buffers, layout.dp
    held = held_beside(model, context_tokens, layout, precision, kept)
    on_rank = np.maximum(batch / ranks, 1.0)
    return ServingMemory(
        weights_bytes=weights,
        kv_cache_bytes=on_rank * one,
        activations_bytes=held.activations_bytes(on_rank),
        workspace_bytes=held.workspace_bytes,
        capacity_bytes=system.accelerator.usable_bytes,
        rest_sd_bytes=held.sd_bytes(on_rank, kept),
        cache_bytes=cache_bytes_per_gpu(system, weights, held, on_rank, kept),
        sequence_bytes=one,
        largest_batch=_largest_batch(system, weights, held, one, kept) * ranks,
    )
