"""What fits: weights, KV cache and activations of one GPU, and the batch that fills it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.schema import PRECISION_BYTES, System
from computeledger.physics.attention import mixer_of
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Precision
from computeledger.physics.serving.offload import ON_CHIP, SERVER_BUFFERS, Buffers, HostMemory
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
    tables = counts["head"] * each.head + counts["embedding"] * each.embedding
    # the last norm stands behind all layers
    norms = (model.n_layers * model.norm_params_per_layer + model.hidden_size) * PRECISION_BYTES["bf16"]
    if precision.mixed is not None:
        norms = each.rest_bytes
    kept = mixers * each.attention + dense * each.dense
    spread = counts["experts"] * each.experts
    return (kept + tables) / layout.tp / layout.pp + norms / layout.pp + spread / layout.n_gpus_per_stage / layout.pp


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
        Bytes, with the replication of KV heads beyond TP and the cut over pipeline stages [byte].

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
    return total / layout.pp


def activations_bytes_per_gpu(
    model: Model, context_tokens: Num, layout: Layout, buffers: Buffers = SERVER_BUFFERS
) -> Num:
    """What a serving engine holds of a prompt's chunk while it passes a layer.

    Parameters
    ----------
    model : Model
        What is served.
    context_tokens : float or ndarray
        Tokens of the prompt; beyond a chunk nothing is added [token].
    layout : Layout
        Integer degrees or arrays.
    buffers : Buffers
        Of the engine.

    Returns
    -------
    float or ndarray
        Activations of the busiest GPU [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> llama = load_model("llama-3.1-8b")
    >>> [round(float(activations_bytes_per_gpu(llama, tokens, Layout())) / 1e9, 2) for tokens in (1024, 8192, 65536)]
    [0.14, 1.11, 1.11]
    """
    widest = max(
        group.feed_forward.width
        + group.feed_forward.n_experts_active * group.feed_forward.expert_width
        + group.feed_forward.n_shared_experts * group.feed_forward.shared_width
        for group in model.layers
    )
    chunk = np.minimum(buffers.chunk_tokens, context_tokens)
    return chunk * ACTIVATION_BYTES * (6 * model.hidden_size + 3 * widest / layout.tp)


def cache_bytes_per_gpu(
    system: System, weights_bytes: Num, activations_bytes: Num, buffers: Buffers = SERVER_BUFFERS
) -> Num:
    """Memory that a serving engine gives to the KV cache.

    ``cache = share (HBM - weights - activations - workspace)``

    Parameters
    ----------
    system : System
        Whose HBM it is.
    weights_bytes, activations_bytes : float or ndarray
        Of the busiest GPU [byte].
    buffers : Buffers
        Of the engine.

    Returns
    -------
    float or ndarray
        Of one GPU; 0 where the rest leaves nothing [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> float(cache_bytes_per_gpu(load_system("h100-nvl8"), 16e9, 2e9)) / 1e9
    54.0
    """
    free = system.accelerator.usable_bytes - weights_bytes - activations_bytes - buffers.workspace_bytes
    return np.maximum(buffers.cache_fraction * free, 0.0)


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
    weights = weights_bytes_per_gpu(model, layout, precision)
    experts = expert_bytes_per_gpu(model, layout, precision)
    more = np.maximum(host.experts_fraction - host.weights_fraction, 0.0)
    weights = weights * (1 - host.weights_fraction) - experts * more
    one = sequence_bytes_per_gpu(model, context_tokens, layout, PRECISION_BYTES[precision.kv])
    one = one * (1 - host.kv_fraction)
    activations = activations_bytes_per_gpu(model, context_tokens, layout, host.buffers)
    capacity = system.accelerator.usable_bytes
    held = np.maximum(one, 1.0)  # a cache in host memory is bounded by nothing that is known here
    largest = np.floor(cache_bytes_per_gpu(system, weights, activations, host.buffers) / held) * layout.dp
    return ServingMemory(
        weights_bytes=weights,
        kv_cache_bytes=np.maximum(batch / layout.dp, 1.0) * one,
        activations_bytes=activations,
        workspace_bytes=host.buffers.workspace_bytes,
        capacity_bytes=capacity,
        sequence_bytes=one,
        largest_batch=largest,
    )
