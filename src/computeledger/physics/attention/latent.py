"""Multi-head latent attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.attention.softmax import Softmax
from computeledger.physics.calibration.efficiency import Efficiency
from computeledger.physics.roofline import ACTIVATION_BYTES, OperationKind


@dataclass(frozen=True, slots=True)
class Latent(Softmax):
    """Attention whose cache is one latent vector and one rotary key for all heads, which tensor parallelism cannot cut.

    An entry is ``r + rope`` values. A query takes ``2 N ((r + rope) + r)`` FLOP per visible entry absorbed, as decode
    runs it, and ``2 N (qk + v)`` otherwise. Parameters: the low-rank chains of queries and of keys and values, not
    absorbed.

    Attributes
    ----------
    shape : Attention
        Heads, widths, ``q_lora_rank``, ``kv_lora_rank`` and ``rope_head_dim``.

    Examples
    --------
    >>> from computeledger.facts.architecture import Attention
    >>> shape = Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, rope_head_dim=64, sparse_tokens=2048)
    >>> latent = Latent(shape)
    >>> latent.values_per_entry, float(latent.flop_per_query(1000.0, absorbed=True))
    (576, 278528000.0)
    >>> float(latent.kv_read_bytes(65536.0, 2.0)), float(latent.kv_shards(8))
    (2359296.0, 1.0)
    """

    kind: ClassVar[str] = "mla"
    decode_operation: ClassVar[OperationKind] = OperationKind.LATENT_ATTENTION

    def _key_value_params(self, hidden_size: int) -> int:
        rank, rope = self.shape.kv_lora_rank, self.shape.rope_head_dim
        heads = self.shape.n_query_heads * (self.shape.qk_head_dim - rope + self.shape.v_head_dim)
        return hidden_size * (rank + rope) + rank * heads

    def _scored_width(self, *, absorbed: bool) -> int:
        latent = 2 * self.shape.kv_lora_rank + self.shape.rope_head_dim
        return latent if absorbed else self.shape.qk_head_dim + self.shape.v_head_dim

    @property
    def _entry_values(self) -> int:
        return self.shape.kv_lora_rank + self.shape.rope_head_dim

    def kv_shards(self, tp: Num) -> Num:
        return np.minimum(tp, 1)

    def floor_s(self, efficiency: Efficiency) -> Num:
        sparse = efficiency.sparse_floor_s if self.shape.sparse_tokens else 0.0
        return efficiency.latent_floor_s + sparse

    def prefill_floor_s(self, efficiency: Efficiency) -> Num:
        return efficiency.prefill_mixer_s

    @property
    def up_params(self) -> float:
        """Parameters of the projections from the latents of queries and of keys and values [-]."""
        shape = self.shape
        queries = shape.q_lora_rank * shape.n_query_heads * shape.qk_head_dim
        plain = shape.qk_head_dim - shape.rope_head_dim
        return float(queries + shape.kv_lora_rank * shape.n_query_heads * (plain + shape.v_head_dim))

    def kept_bytes(self, recomputed: frozenset[str], norm_bytes_per_value: float) -> float:
        """Activations that training keeps: heads or outputs, and the latents before and after their norms.

        Parameters
        ----------
        recomputed : frozenset of str
            Operations that run again instead.
        norm_bytes_per_value : float
            Bytes of one value behind a norm [byte].

        Returns
        -------
        float
            Of one token in one layer [byte].
        """
        shape = self.shape
        latent = shape.q_lora_rank + shape.kv_lora_rank
        kept = shape.n_query_heads * shape.v_head_dim if "mla_up_proj" in recomputed else self.head_values
        normed = 0.0 if "layernorm" in recomputed else norm_bytes_per_value * latent
        return ACTIVATION_BYTES * (kept + latent + shape.rope_head_dim) + normed
