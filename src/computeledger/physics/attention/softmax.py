"""Attention that scores queries against cached keys: all, grouped or single KV heads, windows, chunks, indexers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.attention.mixer import Mixer
from computeledger.physics.calibration.efficiency import Efficiency


def clipped(amount: Num, limit: float) -> Num:
    """Clip an amount from above.

    Parameters
    ----------
    amount : float or ndarray
        In its own unit.
    limit : float
        In the same unit, its own unit; infinite where nothing is clipped.

    Returns
    -------
    float or ndarray
        ``min(amount, limit)``, in its own unit.

    Examples
    --------
    >>> float(clipped(5.0, 3.0)), float(clipped(5.0, np.inf))
    (3.0, 5.0)
    """
    return np.asarray(amount if limit == np.inf else np.minimum(amount, limit))


def summed_clipped(n_tokens: Num, limit: float) -> Num:
    """Sum ``min(p, limit)`` over the positions of a sequence.

    Parameters
    ----------
    n_tokens : float or ndarray
        The last position [token].
    limit : float
        Most entries that a query sees, in their own unit; infinite for all.

    Returns
    -------
    float or ndarray
        Over ``p = 1 .. n`` [token].

    Examples
    --------
    >>> float(summed_clipped(4.0, 2.0))
    7.0
    """
    inside = clipped(n_tokens, limit)
    beyond = n_tokens - inside
    return inside * (inside + 1) / 2 + (beyond * limit if np.isfinite(limit) else 0.0)


@dataclass(frozen=True, slots=True)
class Softmax(Mixer):
    """Multi-head, grouped-query and multi-query attention, in full or within a window, a chunk or an indexer's choice.

    Parameters ``D N qk + D K (qk + v) + N v D``. Visible: all ``S``; in a window ``min(S, w)``, in a chunk
    ``(S - 1) mod w + 1``, after an indexer ``min(S, k)``. An entry is ``K (qk + v)`` values, or ``K qk`` where one
    vector serves as both; a query takes ``2 N (qk + v)`` FLOP per visible entry, and the indexer ``2 H_i d_i S``: it
    looks at every entry, which is why its keys are small. An indexer chooses what is read, not what is kept. A layer
    that shares another's cache keeps none but reads it.

    Attributes
    ----------
    shape : Attention
        Heads, widths, window and ranks.

    Examples
    --------
    >>> from computeledger.facts.architecture import Attention
    >>> plain = Softmax(Attention("gqa", 64, 8, 128, 128))
    >>> plain.params(8192), plain.values_per_entry, float(plain.kv_bytes_per_token(2.0))
    (150994944, 2048, 4096.0)
    >>> float(plain.flop_per_query(1000.0, absorbed=False)), float(plain.mean_visible_tokens(8191.0))
    (32768000.0, 4096.0)
    >>> near = Softmax(Attention("gqa", 64, 8, 64, 64, window=128))
    >>> float(near.visible_tokens(4096.0)), float(near.kv_cache_bytes(4096.0, 2.0))
    (128.0, 262144.0)
    """

    kind: ClassVar[str] = "gqa"
    attends: ClassVar[bool] = True

    def params(self, hidden_size: int) -> int:
        shape = self.shape
        wide = shape.n_query_heads * shape.v_head_dim
        gate = hidden_size * wide if shape.gated else 0
        output = shape.output_params or wide * hidden_size
        kept = 0 if shape.shares_kv else self._key_value_params(hidden_size)
        return (
            self._query_params(hidden_size)
            + kept
            + gate
            + output
            + self._indexer_params(hidden_size)
            + (shape.extra_params)
        )

    def _query_params(self, hidden_size: int) -> int:
        width, rank = self.shape.n_query_heads * self.shape.qk_head_dim, self.shape.q_lora_rank
        return rank * (hidden_size + width) if rank else hidden_size * width

    def _key_value_params(self, hidden_size: int) -> int:
        shape = self.shape
        width = shape.qk_head_dim + (0 if shape.one_kv_projection else shape.v_head_dim)
        return hidden_size * shape.n_kv_heads * width

    def _indexer_params(self, hidden_size: int) -> int:
        """Queries from the query latent where there is one, and keys shared by all heads."""
        heads, dim = self.shape.index_heads, self.shape.index_head_dim
        return (self.shape.q_lora_rank or hidden_size) * heads * dim + (hidden_size * dim if heads else 0)

    @property
    def _most_visible(self) -> float:
        return min(self.shape.window or np.inf, self.shape.sparse_tokens or np.inf)

    def visible_tokens(self, context_tokens: Num) -> Num:
        context = np.asarray(context_tokens, float)
        if self.shape.chunked and self.shape.window:
            return np.where(context > 0, np.mod(context - 1, self.shape.window) + 1, 0.0)
        return clipped(context, self._most_visible)

    def summed_visible_tokens(self, n_tokens: Num) -> Num:
        if self.shape.chunked and self.shape.window:
            chunk = self.shape.window
            chunks: Num = np.floor_divide(n_tokens, chunk)
            rest = n_tokens - chunks * chunk
            return chunks * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2
        return summed_clipped(n_tokens, self._most_visible)

    def flop_per_query(self, visible_tokens: Num, *, absorbed: bool) -> Num:
        width = self._scored_width(absorbed=absorbed)
        return 2.0 * self.shape.n_query_heads * width * np.asarray(visible_tokens, float)

    def _scored_width(self, *, absorbed: bool) -> int:
        return self.shape.qk_head_dim + self.shape.v_head_dim

    def indexer_flop_per_query(self, context_tokens: Num) -> Num:
        return 2.0 * self.shape.index_heads * self.shape.index_head_dim * np.asarray(context_tokens, float)

    @property
    def values_per_entry(self) -> int:
        """Values of one cache entry of one layer; 0 where another layer's cache is shared [-]."""
        return 0 if self.shape.shares_kv else self._entry_values

    @property
    def _entry_values(self) -> int:
        shape = self.shape
        return shape.n_kv_heads * (shape.qk_head_dim + (0 if shape.one_kv_entry else shape.v_head_dim))

    def kv_bytes_per_token(self, kv_bytes_per_value: Num) -> Num:
        return self.values_per_entry * np.asarray(kv_bytes_per_value, float) + self.shape.index_key_bytes

    def kv_cache_bytes(self, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
        kept = clipped(np.asarray(context_tokens, float), self.shape.window or np.inf)
        entry = self.values_per_entry * np.asarray(kv_bytes_per_value, float)
        return kept * entry + kept * self.shape.index_key_bytes

    def kv_read_bytes(self, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
        context = np.asarray(context_tokens, float)
        read = self.visible_tokens(context) * (self._entry_values * np.asarray(kv_bytes_per_value, float))
        return read + context * self.shape.index_key_bytes if self.shape.index_key_bytes else read

    def floor_s(self, efficiency: Efficiency) -> Num:
        return efficiency.sparse_floor_s if self.shape.sparse_tokens else 0.0

    def prefill_floor_s(self, efficiency: Efficiency) -> Num:
        return 0.0


@dataclass(frozen=True, slots=True)
class Compressed(Softmax):
    """A window of plain entries beside a cache that holds one entry for ``c`` tokens; ``c = 0`` keeps the window only.

    Visible: ``min(S, w) + min(S / c, k)``, where an indexer chooses ``k`` among the compressed. Kept: ``min(S, w) +
    S / c`` entries. The indexer's keys are compressed the same way.

    Attributes
    ----------
    shape : Attention
        Heads, widths, window, ranks and ``compression``.

    Examples
    --------
    >>> from computeledger.facts.architecture import Attention
    >>> far = Compressed(Attention("compressed", 64, 1, 512, 512, window=128, compression=4, one_kv_entry=True))
    >>> float(far.visible_tokens(4096.0)), float(far.kv_cache_bytes(4096.0, 1.0)) / 512
    (1152.0, 1152.0)
    """

    kind: ClassVar[str] = "compressed"

    def _compressed(self, amount: Num) -> Num:
        """Per compressed entry instead of per token; 0 where nothing is kept beyond the window."""
        return amount / self.shape.compression if self.shape.compression else 0.0 * amount

    def visible_tokens(self, context_tokens: Num) -> Num:
        context = np.asarray(context_tokens, float)
        far = clipped(self._compressed(context), self.shape.sparse_tokens or np.inf)
        return clipped(context, self.shape.window or 0) + far

    def summed_visible_tokens(self, n_tokens: Num) -> Num:
        local = summed_clipped(n_tokens, self.shape.window or 0)
        ratio = self.shape.compression
        if not ratio:
            return local
        return local + summed_clipped(n_tokens, (self.shape.sparse_tokens or np.inf) * ratio) / ratio

    def indexer_flop_per_query(self, context_tokens: Num) -> Num:
        scored = self._compressed(np.asarray(context_tokens, float))
        return 2.0 * self.shape.index_heads * self.shape.index_head_dim * scored

    def kv_bytes_per_token(self, kv_bytes_per_value: Num) -> Num:
        entry = self.values_per_entry * np.asarray(kv_bytes_per_value, float)
        near = entry if self.shape.window else 0.0 * entry
        return near + self._compressed(entry + self.shape.index_key_bytes)

    def kv_cache_bytes(self, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
        context = np.asarray(context_tokens, float)
        entry = self.values_per_entry * np.asarray(kv_bytes_per_value, float)
        far = self._compressed(context) * (entry + self.shape.index_key_bytes)
        return clipped(context, self.shape.window or 0) * entry + far

    def kv_read_bytes(self, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
        context = np.asarray(context_tokens, float)
        read = self.visible_tokens(context) * (self._entry_values * np.asarray(kv_bytes_per_value, float))
        if self.shape.index_key_bytes:
            read = read + self._compressed(context) * self.shape.index_key_bytes
        return read
