"""What every kind of token mixer answers, and the answers of a layer that has none.

Token counts may be arrays. Positions are counted from 1: the query at position ``S`` sees itself and the ``S - 1``
tokens before it. Entries of a compressed cache are counted without rounding, so a curve over contexts has no steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Attention
from computeledger.physics.calibration.efficiency import Efficiency
from computeledger.physics.roofline import ACTIVATION_BYTES, OperationKind


@dataclass(frozen=True, slots=True)
class Moved:
    """Values that training moves in one layer's mixer for one token.

    Attributes
    ----------
    elementwise_values : float
        Moved by the kernels inside the mixer [-].
    cut_values : float
        Inputs and outputs of products whose width tensor parallelism cuts [-].
    cast_values : float
        Inputs of products that a narrow precision casts [-].
    """

    elementwise_values: float
    cut_values: float
    cast_values: float


@dataclass(frozen=True, slots=True)
class Mixer:
    """The mixer of a layer: what it stores, sees, keeps, computes and waits for.

    A kind is a subclass that overrides what differs; this class answers for a layer without a mixer.

    Attributes
    ----------
    shape : Attention
        Heads, widths, window and ranks, as the configuration states them.
    """

    #: What a configuration's reader calls the kind.
    kind: ClassVar[str] = "none"
    #: Whether queries are scored against a cache of keys.
    attends: ClassVar[bool] = False
    #: The operation that holds its scores in a decode step, and in training.
    decode_operation: ClassVar[OperationKind] = OperationKind.ATTENTION
    training_operation: ClassVar[OperationKind] = OperationKind.ATTENTION

    shape: Attention

    def params(self, hidden_size: int) -> int:
        """Parameters of the projections, each multiplied once per token; norms and biases are out.

        Parameters
        ----------
        hidden_size : int
            ``D`` [-].

        Returns
        -------
        int
            Parameters of one layer [-].
        """
        return self.shape.extra_params

    def visible_tokens(self, context_tokens: Num) -> Num:
        """Cache entries that the newest query attends to; 0 where nothing is scored.

        Parameters
        ----------
        context_tokens : float or ndarray
            ``S``, the query's own token included [token].

        Returns
        -------
        float or ndarray
            Entries that are scored, of a compressed cache too [token].
        """
        return 0.0 * np.asarray(context_tokens, float)

    def summed_visible_tokens(self, n_tokens: Num) -> Num:
        """Sum of :meth:`visible_tokens` over the positions of a sequence.

        Parameters
        ----------
        n_tokens : float or ndarray
            The last position [token].

        Returns
        -------
        float or ndarray
            Over positions ``1 .. n`` [token].
        """
        return 0.0 * n_tokens

    def mean_visible_tokens(self, sequence_tokens: Num, context_tokens: Num = 0.0) -> Num:
        """Entries that a query attends to, averaged over the new tokens of a causal sequence.

        Full attention from scratch: ``(S + 1) / 2``. Window ``w`` with ``S > w``: ``w - w (w - 1) / (2 S)``.

        Parameters
        ----------
        sequence_tokens : float or ndarray
            New tokens, above 0 [token].
        context_tokens : float or ndarray
            Tokens before them, such as a cached prefix [token].

        Returns
        -------
        float or ndarray
            Mean of :meth:`visible_tokens` over positions ``context + 1 .. context + sequence`` [token].
        """
        start = np.asarray(context_tokens, float)
        end = start + sequence_tokens
        return (self.summed_visible_tokens(end) - self.summed_visible_tokens(start)) / sequence_tokens

    def flop_per_query(self, visible_tokens: Num, *, absorbed: bool) -> Num:
        """Scores and weighted values of one query token; projections and the indexer are not in.

        Parameters
        ----------
        visible_tokens : float or ndarray
            Entries attended to, from the method of that name [token].
        absorbed : bool
            Whether a latent mixer attends in its latent space, as decode runs it.

        Returns
        -------
        float or ndarray
            FLOP of one query token in one layer [FLOP].
        """
        return 0.0 * np.asarray(visible_tokens, float)

    def indexer_flop_per_query(self, context_tokens: Num) -> Num:
        """Scores of a sparse layer's indexer for one query token.

        Parameters
        ----------
        context_tokens : float or ndarray
            ``S``, or its mean over queries [token].

        Returns
        -------
        float or ndarray
            FLOP of one query token in one layer [FLOP].
        """
        return 0.0 * np.asarray(context_tokens, float)

    @property
    def values_per_entry(self) -> int:
        """Values of one cache entry of one layer, indexer keys not among them [-]."""
        return 0

    @property
    def state_bytes(self) -> float:
        """Bytes that one layer keeps of one sequence, whatever its length [byte]."""
        return 0.0

    def kv_bytes_per_token(self, kv_bytes_per_value: Num) -> Num:
        """Cache bytes that one more token adds in one layer, while it lies inside the layer's window.

        Parameters
        ----------
        kv_bytes_per_value : float or ndarray
            Bytes of one cached value [byte].

        Returns
        -------
        float or ndarray
            Indexer keys included [byte/token].
        """
        return 0.0 * np.asarray(kv_bytes_per_value, float)

    def kv_cache_bytes(self, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
        """Bytes that one layer keeps of one sequence: cache, indexer keys, or state.

        Parameters
        ----------
        context_tokens : float or ndarray
            ``S`` [token].
        kv_bytes_per_value : float or ndarray
            Bytes of one cached value [byte].

        Returns
        -------
        float or ndarray
            Bytes of one layer [byte].
        """
        return 0.0 * np.asarray(context_tokens, float) * kv_bytes_per_value + self.state_bytes

    def kv_read_bytes(self, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
        """Bytes that one decoding step of one sequence reads in one layer; a state is read and written back.

        Parameters
        ----------
        context_tokens : float or ndarray
            ``S`` [token].
        kv_bytes_per_value : float or ndarray
            Bytes of one cached value [byte].

        Returns
        -------
        float or ndarray
            HBM traffic of one layer [byte].
        """
        return 2 * self.state_bytes + 0.0 * np.asarray(context_tokens, float) * kv_bytes_per_value

    def kv_shards(self, tp: Num) -> Num:
        """Parts that tensor parallelism cuts the layer's cache into; beyond the KV heads it is replicated.

        Parameters
        ----------
        tp : float or ndarray
            Tensor-parallel degree [-].

        Returns
        -------
        float or ndarray
            Number of parts [-].
        """
        return np.minimum(tp, max(self.shape.n_kv_heads, 1))

    def floor_s(self, efficiency: Efficiency) -> Num:
        """Time that the kernels of one layer take beyond those of plain attention, whatever the batch.

        Parameters
        ----------
        efficiency : Efficiency
            Calibrated floors.

        Returns
        -------
        float or ndarray
            Of one decode step [s].
        """
        return 0.0

    def prefill_floor_s(self, efficiency: Efficiency) -> Num:
        """Time to launch the kernels of one layer in a prefill beyond those of plain attention.

        Parameters
        ----------
        efficiency : Efficiency
            Calibrated floors.

        Returns
        -------
        float or ndarray
            Of one chunk of a prompt [s].
        """
        return efficiency.prefill_mixer_s

    @property
    def up_params(self) -> float:
        """Parameters of projections from latents, which training may compute again by themselves [-]."""
        return 0.0

    def moved_values(self, hidden_size: int) -> Moved:
        """Values that training moves for one token.

        Parameters
        ----------
        hidden_size : int
            ``D`` [-].

        Returns
        -------
        Moved
            Of one layer.
        """
        shape = self.shape
        outputs = shape.n_query_heads * shape.v_head_dim
        ranks = shape.q_lora_rank + shape.kv_lora_rank
        return Moved(1.5 * self.head_values, self.head_values, hidden_size + outputs + ranks)

    @property
    def head_values(self) -> int:
        """Values of one token's queries, keys, values and outputs over all heads [-]."""
        return (self.shape.n_query_heads + self.shape.n_kv_heads) * (self.shape.qk_head_dim + self.shape.v_head_dim)

    def kept_bytes(self, recomputed: frozenset[str], norm_bytes_per_value: float) -> float:
        """Activations that training keeps of one token for the backward pass.

        Parameters
        ----------
        recomputed : frozenset of str
            Operations that run again instead.
        norm_bytes_per_value : float
            Bytes of one value behind a norm [byte].

        Returns
        -------
        float
            Of one layer: queries, keys, values and outputs [byte].
        """
        return ACTIVATION_BYTES * self.head_values
