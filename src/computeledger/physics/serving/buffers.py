"""What an engine keeps of a chip's memory beside weights and cache, by mechanism.

A pass over a chunk of ``T`` tokens holds ``2 T (4.25 hidden + 3 width / tp)`` bytes; sampling ``B`` sequences holds
their last hidden states and ``b B vocabulary`` bytes. The two follow each other, so the larger counts. Experts keep two
buffers of the chunk's routed tokens throughout. Beside PyTorch stand libraries and, where GPUs exchange, their buffers;
captured graphs grow with the layers. The constants of vLLM are fitted to its start-up logs of version 0.19
(``validation/data/memory_curated.csv``); those of SGLang are its own rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import FeedForward, Model
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Precision
from computeledger.physics.serving.encoding import encoding_bytes
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.units import GIGA


@dataclass(frozen=True, slots=True)
class Buffers:
    """What an engine keeps of a chip's memory beside weights and cache.

    Attributes
    ----------
    chunk_tokens : float
        Tokens of a prompt that pass the layers together [token].
    workspace_bytes : float
        Libraries and workspace of a GPU by itself [byte].
    cache_fraction : float
        Share of the memory that all of these leave which goes to the cache [-].
    whole_fraction : float
        Share of the memory that the driver reports which the engine fills [-].
    group_bytes : float
        What a GPU keeps besides where it exchanges with others of its stage [byte].
    graph_bytes, graph_bytes_per_layer : float
        Captured graphs, of a model and of each of its layers [byte].
    logit_bytes : float
        Held while one logit of a sampled sequence becomes a probability [byte].
    hidden_copies, width_copies : float
        Of a chunk in one layer: of the residual stream, and of the feed-forward width [-].
    keeps_expert_buffers : bool
        Whether routed tokens have two buffers of their own.
    reserved_bytes : float
        Kept free at least, whatever activations and graphs take [byte].
    reserved_bytes_per_token : float
        Kept free besides for each token of the chunk [byte/token].
    reserved_fraction : float
        Kept free besides, of what the engine fills [-].
    activations_sd, workspace_sd, graphs_sd : float
        Standard deviation of the logarithm against the logs of models left out of the fit; 0 where none was read [-].
    """

    chunk_tokens: float
    workspace_bytes: float
    cache_fraction: float
    whole_fraction: float = 1.0
    group_bytes: float = 0.0
    graph_bytes: float = 0.0
    graph_bytes_per_layer: float = 0.0
    logit_bytes: float = 0.0
    hidden_copies: float = 6.0
    width_copies: float = 3.0
    keeps_expert_buffers: bool = False
    reserved_bytes: float = 0.0
    reserved_bytes_per_token: float = 0.0
    reserved_fraction: float = 0.0
    activations_sd: float = 0.0
    workspace_sd: float = 0.0
    graphs_sd: float = 0.0

    def least_bytes(self, filled_bytes: float) -> float:
        """Kept free whatever activations and graphs take.

        Parameters
        ----------
        filled_bytes : float
            Memory of a GPU that the engine fills [byte].

        Returns
        -------
        float
            Of it [byte].

        Examples
        --------
        >>> SERVER_BUFFERS.with_share(0.75, "static").least_bytes(100.0)
        25.0
        """
        own = self.reserved_bytes + self.reserved_bytes_per_token * self.chunk_tokens
        return own + self.reserved_fraction * filled_bytes

    def with_share(self, fraction: float, of: str) -> Buffers:
        """The same engine with another share of the memory, as it means one.

        Parameters
        ----------
        fraction : float
            What it was told [-].
        of : str
            ``whole``: of the memory, for everything; ``static``: of what it fills, for weights and cache; ``free``: of
            what weights and the rest leave, for the cache.

        Returns
        -------
        Buffers
            With a cache of that size.

        Examples
        --------
        >>> [SERVER_BUFFERS.with_share(0.5, one).whole_fraction for one in ("whole", "free")]
        [0.5, 1.0]
        """
        if of == "whole":
            return replace(self, whole_fraction=fraction)
        if of == "free":
            return replace(self, cache_fraction=fraction)
        plain = replace(self, cache_fraction=1.0, reserved_bytes=0.0, reserved_bytes_per_token=0.0)
        return replace(plain, reserved_fraction=1 - fraction)

    def without_graphs(self) -> Buffers:
        """The same engine without captured graphs.

        Returns
        -------
        Buffers
            That keep nothing for them.

        Examples
        --------
        >>> Buffers(8192.0, 0.0, 1.0, graph_bytes=5e8).without_graphs().graph_bytes
        0.0
        """
        return replace(self, graph_bytes=0.0, graph_bytes_per_layer=0.0)


#: A server's of which nothing was measured: it gives the cache nine tenths of what is free (assumption).
SERVER_BUFFERS = Buffers(CHUNK_TOKENS, 2 * GIGA, 0.9)
#: Those of an engine on the own desk, which takes a prompt in pieces of 512 tokens (llama.cpp's ``--ubatch-size``) and
#: as much cache as it is told to.
LOCAL_BUFFERS = Buffers(512.0, 0.5 * GIGA, 1.0)


@dataclass(frozen=True, slots=True)
class Held:
    """What an engine holds beside weights and cache, on one GPU.

    Attributes
    ----------
    chunk_bytes : float or ndarray
        While a chunk passes a layer [byte].
    sampling_bytes, sampling_bytes_per_sequence : float or ndarray
        While sequences are sampled: whatever their number, and for each [byte].
    expert_bytes : float or ndarray
        Buffers of routed tokens, and embeddings of images that wait for their prompt, which stay [byte].
    library_bytes, graph_bytes : float or ndarray
        Libraries with their exchange, and captured graphs [byte].
    """

    chunk_bytes: Num
    sampling_bytes: Num
    sampling_bytes_per_sequence: float
    expert_bytes: Num
    library_bytes: Num
    graph_bytes: Num

    @property
    def workspace_bytes(self) -> Num:
        """Libraries and graphs [byte]."""
        return self.library_bytes + self.graph_bytes

    def activations_bytes(self, sequences: Num) -> Num:
        """What a chunk or sampling takes, whichever is more, with the experts' buffers.

        Parameters
        ----------
        sequences : float or ndarray
            Sampled at once on this GPU [-].

        Returns
        -------
        float or ndarray
            Activations [byte].
        """
        sampling = self.sampling_bytes + self.sampling_bytes_per_sequence * sequences
        return self.expert_bytes + np.maximum(self.chunk_bytes, sampling)

    def sd_bytes(self, sequences: Num, buffers: Buffers) -> Num:
        """Standard deviation of activations, libraries and graphs together, as the engine's logs leave it.

        Parameters
        ----------
        sequences : float or ndarray
            Sampled at once on this GPU [-].
        buffers : Buffers
            Of the engine.

        Returns
        -------
        float or ndarray
            Of their sum; 0 where no log was read [byte].
        """
        parts = (self.activations_bytes(sequences) * buffers.activations_sd, self.library_bytes * buffers.workspace_sd,
                 self.graph_bytes * buffers.graphs_sd)  # fmt: skip
        spread: Num = np.sqrt(sum(np.square(one) for one in parts))
        return spread


def held_beside(model: Model, context_tokens: Num, layout: Layout, precision: Precision, buffers: Buffers) -> Held:
    """What an engine holds of one GPU beside weights and cache.

    Parameters
    ----------
    model : Model
        What is served.
    context_tokens : float or ndarray
        Tokens of the prompt; beyond a chunk nothing is added [token].
    layout : Layout
        Integer degrees or arrays.
    precision : Precision
        Of weights: experts narrower than a byte have kernels without buffers of their own (gpt-oss).
    buffers : Buffers
        Of the engine.

    Returns
    -------
    Held
        By mechanism.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> llama, desk = load_model("llama-3.1-8b"), LOCAL_BUFFERS
    >>> round(float(held_beside(llama, 8192.0, Layout(), Precision(), desk).activations_bytes(1)) / 1e6)
    69
    """
    chunk = ACTIVATION_BYTES * np.minimum(buffers.chunk_tokens, context_tokens)
    buffered = buffers.keeps_expert_buffers and precision.weights.experts >= 1
    width = max(_width(group.feed_forward, routed=not buffered) for group in model.layers)
    exchanging: Num = np.where(np.asarray(layout.n_gpus_per_stage) > 1, buffers.group_bytes, 0.0)
    layer_bytes = chunk * (buffers.hidden_copies * model.hidden_size + buffers.width_copies * width / layout.tp)
    waiting: Num = 0.0
    if model.images is not None:  # an encoder reads before the layers do, and its results wait in a cache
        copies = buffers.hidden_copies, buffers.width_copies
        seen = encoding_bytes(model.images, layout, buffers.chunk_tokens, copies)
        layer_bytes = np.maximum(layer_bytes, seen)
        waiting = ACTIVATION_BYTES * model.hidden_size * max(buffers.chunk_tokens, model.images.tokens)
    return Held(
        chunk_bytes=layer_bytes,
        sampling_bytes=1.5 * chunk * model.hidden_size if buffers.logit_bytes else 0.0,
        sampling_bytes_per_sequence=buffers.logit_bytes * model.vocab_size,
        expert_bytes=waiting + (chunk * _routed_width(model, layout) if buffered else 0.0),
        library_bytes=buffers.workspace_bytes + exchanging,
        graph_bytes=buffers.graph_bytes + buffers.graph_bytes_per_layer * model.n_layers / layout.pp,
    )


def _width(part: FeedForward, *, routed: bool) -> int:
    """Values between a token's products of one layer; of its routed experts too where they have no buffers."""
    width = part.width + part.n_shared_experts * part.shared_width
    return width + part.n_experts_active * part.expert_width * routed


def _routed_width(model: Model, layout: Layout) -> Num:
    """Values of both buffers for one token: its copies before and after each of an expert's products."""
    widest: Num = 0.0
    for group in model.layers:
        part = group.feed_forward
        width = part.expert_width / np.where(np.asarray(layout.ep) > 1, 1, layout.tp)
        hidden = part.latent_width or model.hidden_size
        both = np.maximum(width, hidden) + np.maximum(2 * width, hidden)
        widest = np.maximum(widest, part.n_experts_active * both)
    return widest
