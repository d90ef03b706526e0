"""What a PyTorch model was given: lengths of the sequences of each forward pass, on the device until a step ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A label that counts in no loss.
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Rows:
    """Sequences of some passes, one number each.

    Attributes
    ----------
    tokens : ndarray
        Tokens, padding left out [token].
    padded_tokens : ndarray
        Width of the batch that it was in [token].
    labelled_tokens : ndarray
        Tokens that a loss was asked for; 0 where labels are not counted [token].
    """

    tokens: NDArray[np.float64]
    padded_tokens: NDArray[np.float64]
    labelled_tokens: NDArray[np.float64]


class ForwardPasses:
    """Watch a model: passes that will be trained on, and passes that only score labels; generation is passed by."""

    def __init__(self, torch: Any, model: Any, *, labels: bool) -> None:
        self._torch, self._labels = torch, labels
        self._trained: list[tuple[Any, ...]] = []
        self._scored: list[tuple[Any, ...]] = []
        self._hook = model.register_forward_pre_hook(self._see, with_kwargs=True)

    def close(self) -> None:
        """Watch no longer."""
        self._hook.remove()

    def trained(self) -> Rows:
        """Sequences of the passes with gradients since the last call."""
        passes, self._trained = self._trained, []
        return _rows(self._torch, passes)

    def scored(self) -> Rows:
        """Sequences of the passes without gradients since the last call."""
        passes, self._scored = self._scored, []
        return _rows(self._torch, passes)

    def _see(self, _module: Any, given: Sequence[Any], options: Mapping[str, Any]) -> None:
        """Note a pass; nothing here waits for the device."""
        labels = options.get("labels")
        trains = self._torch.is_grad_enabled()
        if not trains and labels is None:
            return
        ids: Any = options.get("input_ids", given[0] if given else None)
        ids = options.get("inputs_embeds") if ids is None else ids
        if getattr(ids, "ndim", 0) < 2:
            return
        counted = labels if self._labels else None
        one = ids, options.get("attention_mask"), options.get("position_ids"), counted
        (self._trained if trains else self._scored).append(_measured(one))


def _measured(one: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rows and width of a batch; tokens and labels of each row where they differ from it, still on the device."""
    ids, mask, positions, labels = one
    rows, width = ids.shape[0], ids.shape[1]
    tokens = starts = None
    if mask is not None and getattr(mask, "ndim", 0) == 2:
        tokens = mask[:, -width:].sum(dim=1)
    elif rows == 1 and getattr(positions, "ndim", 0) == 2:
        starts = positions[0] == 0  # several sequences in one row, without padding between them
    labelled = None if labels is None else (labels[:, 1:] != IGNORED).sum(dim=1)
    return rows, width, tokens, starts, labelled


def _rows(torch: Any, passes: Sequence[tuple[Any, ...]]) -> Rows:
    """Bring what was noted to the host, in one transfer for each kind."""
    tensors = [one for rows in passes for one in rows[2:] if one is not None]
    flat = iter(torch.cat([one.reshape(-1).to(torch.int64) for one in tensors]).cpu().numpy() if tensors else ())
    out: list[list[float]] = [[], [], []]
    for rows, width, tokens, starts, labelled in passes:
        lengths = [float(next(flat)) for _ in range(rows)] if tokens is not None else [float(width)] * rows
        widths = [float(width)] * rows
        if starts is not None:
            begins = [place for place in range(width) if next(flat)] or [0]
            lengths = widths = [float(one) for one in np.diff([*begins, width])]
        counts = [float(next(flat)) for _ in range(rows)] if labelled is not None else [0.0] * rows
        out[0] += lengths
        out[1] += widths
        out[2] += counts if len(counts) == len(lengths) else [sum(counts) / len(lengths)] * len(lengths)
    return Rows(*(np.array(one) for one in out))
