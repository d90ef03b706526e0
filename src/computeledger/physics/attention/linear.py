"""Linear attention and state-space mixers: a state of fixed size instead of a cache that grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.attention.mixer import Mixer, Moved
from computeledger.physics.calibration.efficiency import Efficiency
from computeledger.physics.roofline import ACTIVATION_BYTES, OperationKind


@dataclass(frozen=True, slots=True)
class Linear(Mixer):
    """A mixer with a state of ``N qk v`` values per sequence and a short convolution over its inputs.

    Per token an outer product and a read-out, ``4 N qk v`` FLOP; delta rules read twice, ``6 N qk v``. Parameters:
    every input projection, the convolution, gates, and the output.

    Attributes
    ----------
    shape : Attention
        Heads, widths, ``conv_width`` and the precision of the state.

    Examples
    --------
    >>> from computeledger.facts.architecture import Attention
    >>> delta = GatedDelta(Attention("gated_delta", 32, 16, 128, 128, conv_width=4))
    >>> delta.channels, delta.state_bytes, float(delta.flop_per_query(1e6, absorbed=False))
    (8192, 2146304.0, 3145728.0)
    """

    training_operation: ClassVar[OperationKind] = OperationKind.STATE_SCANS
    #: FLOP per value of the state and token.
    state_flop_per_value: ClassVar[float] = 4.0
    #: Projections from the residual stream to one value per head, such as decays and step sizes.
    gates_per_head: ClassVar[int] = 0

    @property
    def channels(self) -> int:
        """Channels of queries, keys and values together, ``2 K qk + N v`` [-]."""
        return 2 * self.shape.n_kv_heads * self.shape.qk_head_dim + self.shape.n_query_heads * self.shape.v_head_dim

    @property
    def _state_values(self) -> int:
        return self.shape.n_query_heads * self.shape.qk_head_dim * self.shape.v_head_dim

    def params(self, hidden_size: int) -> int:
        values = self.shape.n_query_heads * self.shape.v_head_dim
        gate = hidden_size * values if self.shape.gated else 0
        per_head = self.gates_per_head * self.shape.n_query_heads * hidden_size
        projected = self.channels * (hidden_size + self.shape.conv_width)
        return projected + gate + per_head + values * hidden_size + self.shape.extra_params

    def flop_per_query(self, visible_tokens: Num, *, absorbed: bool) -> Num:
        return self.state_flop_per_value * self._state_values + 0.0 * np.asarray(visible_tokens, float)

    @property
    def state_bytes(self) -> float:
        """Bytes of the state and of the convolution's ``width - 1`` last positions [byte]."""
        window = max(self.shape.conv_width - 1, 0) * self.channels
        return self._state_values * self.shape.state_value_bytes + window * ACTIVATION_BYTES

    def floor_s(self, efficiency: Efficiency) -> Num:
        return efficiency.linear_floor_s

    def moved_values(self, hidden_size: int) -> Moved:
        inner = self.shape.n_query_heads * self.shape.v_head_dim
        # projections in, convolution, scan, gate, norm
        return Moved(8.0 * self.channels + 12.0 * inner, self.channels + 3.0 * inner, hidden_size + inner)


@dataclass(frozen=True, slots=True)
class GatedDelta(Linear):
    """Gated DeltaNet: a decay and a step size per head.

    Attributes
    ----------
    shape : Attention
        As of :class:`Linear`.
    """

    kind: ClassVar[str] = "gated_delta"
    state_flop_per_value: ClassVar[float] = 6.0
    gates_per_head: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class KimiDelta(Linear):
    """Kimi delta attention: a decay per channel, from a low-rank projection, and a step size per head.

    Attributes
    ----------
    shape : Attention
        As of :class:`Linear`.
    """

    kind: ClassVar[str] = "kda"
    state_flop_per_value: ClassVar[float] = 6.0
    gates_per_head: ClassVar[int] = 1

    def params(self, hidden_size: int) -> int:
        size = self.shape.qk_head_dim
        return Linear.params(self, hidden_size) + size * (hidden_size + self.shape.n_query_heads * size)


@dataclass(frozen=True, slots=True)
class Mamba2(Linear):
    """Mamba-2: a step size per head.

    Attributes
    ----------
    shape : Attention
        As of :class:`Linear`.
    """

    kind: ClassVar[str] = "mamba2"
    gates_per_head: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Lightning(Linear):
    """Lightning attention: a fixed decay per head.

    Attributes
    ----------
    shape : Attention
        As of :class:`Linear`.
    """

    kind: ClassVar[str] = "lightning"
