"""What layers keep of a token for the backward pass, by what is computed again, and what is held meanwhile."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Attention, FeedForward, LayerGroup, Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.attention import mixer_of
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES
from computeledger.physics.training.batch import BY_OPERATION, REVERSIBLE, Batch

#: Of one score of attention: itself, its softmax and a mask, as they are kept (Korthikanti et al. 2022).
SCORE_BYTES = 5.0
#: Of a norm in single operations: its input in fp32 instead of 16 bits, and its output once more before the weight.
EAGER_NORM_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What layers keep of a token for the backward pass, and what they hold while they are computed again.

    Attributes
    ----------
    hidden_size : int
        Width of the residual stream [-].
    recompute, precision : str
        As a batch and its stack have them.
    compiled, sequence_parallel, keeps_gathered_inputs : bool
        As the stack has them.
    imbalance : float
        Busiest rank's routed tokens over the mean [-].
    """

    hidden_size: int
    recompute: str
    precision: str
    compiled: bool
    sequence_parallel: bool
    keeps_gathered_inputs: bool
    imbalance: float

    def bytes_per_token(self, layers: tuple[LayerGroup, ...], layout: Layout) -> Num:
        """Of all layers on one GPU: what tensor parallelism shards, and what each GPU keeps whole.

        Parameters
        ----------
        layers : tuple of LayerGroup
            Layers that are kept.
        layout : Layout
            Integer degrees or arrays.

        Returns
        -------
        float or ndarray
            Kept from forward to backward [byte/token].

        Examples
        --------
        >>> from computeledger.facts.load import load_model
        >>> from computeledger.physics.training.batch import Batch
        >>> llama, batch = load_model("llama-3.1-8b"), Batch(8192, 8, recompute="full")
        >>> float(kept_by(llama, batch).bytes_per_token(llama.layers, Layout())) == 32 * 2 * 4096
        True
        """
        return self._on_a_gpu(layers, self.recompute, layout)

    def again_per_token(self, model: Model, layout: Layout, unfused: bool, sequence_tokens: Num) -> Num:
        """Of the layer that is computed again, with attention's scores where no kernel keeps them in registers.

        Reversible layers hold both halves of their output besides, from which the input is computed back.

        Parameters
        ----------
        model : Model
            Whose largest layer counts.
        layout : Layout
            Integer degrees or arrays.
        unfused : bool
            Whether attention writes its scores.
        sequence_tokens : float or ndarray
            Length of a sequence [token].

        Returns
        -------
        float or ndarray
            Alive while the layer runs backward; 0 where nothing is computed again [byte/token].

        Examples
        --------
        >>> from computeledger.facts.load import load_model
        >>> from computeledger.physics.training.batch import Batch
        >>> llama = load_model("llama-3.1-8b")
        >>> kept = kept_by(llama, Batch(8192, 8, recompute="full"))
        >>> one, scores = (float(kept.again_per_token(llama, Layout(), unfused, 8192.0)) for unfused in (False, True))
        >>> one > 2 * 4096 and scores > 10 * one
        True
        """
        if self.recompute not in ("full", REVERSIBLE):
            return 0.0
        most: Num = 0.0
        for group in model.layers:
            scores = SCORE_BYTES * group.attention.n_query_heads * sequence_tokens if unfused else 0.0
            one = self._on_a_gpu((replace(group, count=1),), "none", layout) + scores / layout.tp
            most = np.maximum(most, one)
        halves = 2.0 * self.hidden_size * ACTIVATION_BYTES if self.recompute == REVERSIBLE else 0.0
        return most + halves / (layout.tp if self.sequence_parallel else 1.0)

    def _on_a_gpu(self, layers: tuple[LayerGroup, ...], recompute: str, layout: Layout) -> Num:
        how = (recompute, self.precision, self.compiled)
        whole, cut = _kept_bytes(layers, self.hidden_size, how, self.imbalance)
        out = cut / layout.tp + whole / (layout.tp if self.sequence_parallel else 1.0)
        if self.sequence_parallel and self.keeps_gathered_inputs:
            out = out + _gathered_bytes(layers, self.hidden_size, recompute) * (1 - 1 / layout.tp)
        return out


def kept_by(model: Model, batch: Batch) -> Kept:
    """Read what is kept off a batch and its stack.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        With its recomputation and stack.

    Returns
    -------
    Kept
        Of its layers.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> model = load_model("llama-3.1-8b")
    >>> float(kept_by(model, Batch(8192, 8, recompute="full")).bytes_per_token(model.layers, Layout()))
    262144.0
    """
    stack = batch.stack
    busy = float(np.median(np.asarray(stack.imbalance)))
    return Kept(
        model.hidden_size, batch.recompute, stack.activation_precision, stack.compiled, stack.sequence_parallel,
        stack.keeps_gathered_inputs, busy,
    )  # fmt: skip


def _gathered_bytes(layers: tuple[LayerGroup, ...], hidden_size: int, recompute: str) -> float:
    """Inputs of the first products of mixers and dense parts, where nothing of them is computed again."""
    if recompute in ("full", REVERSIBLE, BY_OPERATION):
        return 0.0
    inputs = sum(group.count * (group.attention.is_present + bool(group.feed_forward.width)) for group in layers)
    return float(inputs * hidden_size * ACTIVATION_BYTES)


@functools.cache
def _kept_bytes(
    layers: tuple[LayerGroup, ...], hidden_size: int, how: tuple[str, str, bool], imbalance: float
) -> tuple[float, float]:
    """Bytes per token kept for backward, all layers: norms, then inputs of products, activations and attention.

    ``full`` keeps the inputs of layers, reversible layers none. What attention's own backward needs and the residual
    stream stay in bf16. Single operations keep more of norms and gated activations than fused ones.

    References
    ----------
    Korthikanti et al. 2022 (arXiv 2205.05198); deepseek-v3-report; Megatron Core MoE (arXiv 2603.07685).
    """
    recompute, precision, compiled = how
    if recompute == "full":
        return float(sum(group.count for group in layers) * hidden_size * ACTIVATION_BYTES), 0.0
    if recompute == REVERSIBLE:
        return 0.0, 0.0
    if recompute == BY_OPERATION:
        return _by_operation(layers, hidden_size, compiled)
    again, narrow = frozenset(recompute.split(",")), PRECISION_BYTES[precision]
    whole = cut = 0.0
    for group in layers:
        part = group.feed_forward
        n_norms = group.attention.is_present + part.is_present
        normed = 0.0 if "layernorm" in again else narrow + (0.0 if compiled else EAGER_NORM_BYTES)
        whole += group.count * n_norms * hidden_size * (ACTIVATION_BYTES + normed)
        cut += group.count * mixer_of(group.attention).kept_bytes(again, narrow)
        cut += group.count * _dense_bytes(part, again, narrow)
        cut += group.count * imbalance * _routed_bytes(part, hidden_size, again, narrow)
        if not compiled:
            cut += group.count * (part.width * ACTIVATION_BYTES * (part.n_matrices == 3) + _repeated(group.attention))
    return whole, cut


def _repeated(attention: Attention) -> float:
    """Keys and values repeated for each query head, where no kernel shares them."""
    if not attention.n_kv_heads or attention.kv_lora_rank:
        return 0.0
    widths = attention.qk_head_dim + attention.v_head_dim
    return float((attention.n_query_heads - attention.n_kv_heads) * widths * ACTIVATION_BYTES)


def _by_operation(layers: tuple[LayerGroup, ...], hidden_size: int, compiled: bool) -> tuple[float, float]:
    """Inputs of layers, outputs of attention and of every second product: queries, values, gate, and down.

    A compiler drops the last, which nothing in backward needs. Grouped products of experts are computed again.

    References
    ----------
    torchtitan (parallelisms/parallelize_llama.py at 9dec370).
    """
    whole = cut = 0.0
    for group in layers:
        part, attention = group.feed_forward, group.attention
        if attention.kv_lora_rank or not attention.n_kv_heads:
            cut += group.count * mixer_of(attention).kept_bytes(frozenset(), ACTIVATION_BYTES) / 2
        else:
            values = attention.n_query_heads * (attention.qk_head_dim + attention.v_head_dim)
            cut += group.count * ACTIVATION_BYTES * (values + attention.n_kv_heads * attention.v_head_dim)
        wide = part.width + (part.n_shared_experts * part.shared_width if part.n_experts else 0)
        cut += group.count * ACTIVATION_BYTES * wide
        whole += group.count * ACTIVATION_BYTES * hidden_size * (1.0 if compiled else 2.0)
    return whole, cut


def _dense_bytes(part: FeedForward, again: frozenset[str], narrow: float) -> float:
    """Inputs and output of the activation, of a dense MLP and of shared experts."""
    wide = max(part.n_matrices - 1, 1)
    shared = part.n_shared_experts * part.shared_width if part.n_experts else 0
    return part.width * (wide * ACTIVATION_BYTES + narrow) + shared * _expert_bytes(part, again, narrow)


def _routed_bytes(part: FeedForward, hidden_size: int, again: frozenset[str], narrow: float) -> float:
    """Inputs and output of the activation of experts, and each copy of a token.

    The router's weights enter before an expert's second product, so that nothing of its output is kept.
    """
    if not part.n_experts:
        return 0.0
    copies = part.n_experts_active
    each = part.expert_width * _expert_bytes(part, again, narrow)
    return copies * (each + (part.latent_width or hidden_size) * narrow)


def _expert_bytes(part: FeedForward, again: frozenset[str], narrow: float) -> float:
    return max(part.n_matrices - 1, 1) * narrow + (0.0 if "moe_act" in again else narrow)
