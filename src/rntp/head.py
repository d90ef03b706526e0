"""Scores of tokens from hidden states, a part of the output head's work at a time.

Logits of a whole batch are the largest array of a pass: tokens times vocabulary. What is asked of them (probability,
entropy and most likely token) is taken at the positions where it is asked for, part by part: no more than
:func:`part_rows` rows of logits exist at a time. Models that scale or cap their logits behind the head are known by
their configuration, and tried; one that does something else keeps its logits whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3Model

#: Logits that exist at a time at most: with their logarithms in float32, some 130 MB.
PART_ELEMENTS = 2**24
#: Logits that exist at a time for each element of the hidden states that a pass has: below what its layers needed.
PART_PER_HIDDEN = 4
#: Width of the slices of a row whose probabilities exist beside their logarithms.
_SLICE = 2**15
#: What transformers calls the keys and values that a pass is given and gives back; ``past_key_values`` before 5.24.
CACHE = "cache" if "cache" in inspect.signature(Qwen3Model.forward).parameters else "past_key_values"

#: Makes the logits of some positions, by their numbers in the flattened batch.
LogitsOf = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the logits of a batch: (B, T) each.

    ``sampled`` positions are asked for the probability at the sampling temperature, ``detailed`` ones for probability,
    entropy and most likely token, ``judged`` ones for the first of a pair of tokens against the second.
    """

    next_ids: Tensor
    sampled: Tensor
    detailed: Tensor
    judged: Tensor
    temperature: float = 1.0
    pair: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Sums:
    """What was asked for, (B, T) each; 0 where it was not."""

    log_probs: Tensor
    sampled_log_probs: Tensor
    entropies: Tensor
    argmax_ids: Tensor
    first_of_pair: Tensor


def part_rows(width: int, hidden_elements: int) -> int:
    """Count the rows of logits that may exist at a time, for a pass over so many elements of hidden states.

    Examples
    --------
    >>> part_rows(width=150_000, hidden_elements=600 * 1024), part_rows(150_000, 10**9), part_rows(150_000, 0)
    (16, 111, 1)
    """
    return max(1, min(PART_ELEMENTS, PART_PER_HIDDEN * hidden_elements) // width)


def sums(logits_of: LogitsOf, asked: Asked, rows: int) -> Sums:
    """Take what is asked for from logits that are made for so many positions at a time.

    Examples
    --------
    >>> logits, every, none = torch.zeros(3, 8), torch.ones(1, 3).bool(), torch.zeros(1, 3).bool()
    >>> found = sums(lambda places: logits[places], Asked(torch.ones(1, 3).long(), none, every, none), rows=2)
    >>> found.entropies.exp().round().tolist()
    [[8.0, 8.0, 8.0]]
    """
    ids = asked.next_ids.flatten()
    plain, sampled, entropies, said = (torch.zeros(len(ids), device=ids.device) for _ in range(4))
    argmax_ids = torch.zeros_like(ids)
    for places in _parts(asked.sampled, rows):
        log_p = torch.log_softmax(_cooled(logits_of(places), asked.temperature), dim=-1, dtype=torch.float32)
        sampled[places] = log_p.gather(-1, ids[places, None])[:, 0]
        del log_p
    for places in _parts(asked.detailed, rows):
        log_p = torch.log_softmax(logits_of(places), dim=-1, dtype=torch.float32)
        plain[places] = log_p.gather(-1, ids[places, None])[:, 0]
        argmax_ids[places] = log_p.argmax(dim=-1)
        entropies[places] = entropies_of(log_p)
        del log_p
    for places in _parts(asked.judged, rows):
        pair = logits_of(places)[:, asked.pair].float()
        said[places] = torch.sigmoid(pair[:, 0] - pair[:, 1])
    return Sums(*(one.view(asked.next_ids.shape) for one in (plain, sampled, entropies, argmax_ids, said)))


def entropies_of(log_p: Tensor) -> Tensor:
    """Entropies of rows of log-probabilities, whose probabilities exist a slice at a time.

    Examples
    --------
    >>> entropies_of(torch.full((1, 8), 1 / 8).log()).exp().round().tolist()
    [8.0]
    """
    slices = [(some.exp().mul_(some)).sum(dim=-1) for some in torch.split(log_p, _SLICE, dim=-1)]
    return -torch.stack(slices).sum(dim=0)


def _parts(where: Tensor, rows: int) -> Iterator[Tensor]:
    """Positions, so many at a time."""
    places = where.flatten().nonzero()[:, 0]
    return (places[start : start + rows] for start in range(0, len(places), rows))


def _cooled(logits: Tensor, temperature: float) -> Tensor:
    return logits if temperature == 1.0 else logits.float().div_(temperature)


def head_of(model: Any) -> Any:
    """Find the output head of a model, however it is wrapped.

    Examples
    --------
    >>> head_of(object()) is None
    True
    """
    while hasattr(model, "module"):
        model = model.module
    named = getattr(model, "get_output_embeddings", None)
    return None if named is None else named()


@contextmanager
def replaced(head: Any, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let a head do something else meanwhile.

    Examples
    --------
    >>> head = torch.nn.Linear(2, 3)
    >>> with replaced(head, lambda hidden: hidden[..., :1]):
    ...     head(torch.ones(5, 2)).shape
    torch.Size([5, 1])
    >>> head(torch.ones(5, 2)).shape
    torch.Size([5, 3])
    """
    before = head.__dict__.get("forward")
    head.forward = forward
    try:
        yield
    finally:
        if before is None:
            del head.forward
        else:
            head.forward = before


def scaled_by(config: Any) -> Callable[[Tensor], Tensor]:
    """Find what models of a configuration do to their logits behind the head: scale them, cap them, or nothing.

    Examples
    --------
    >>> from transformers import Gemma2Config
    >>> scaled_by(Gemma2Config(final_logit_softcapping=30.0))(torch.tensor([3.0, 300.0])).round().tolist()
    [3.0, 30.0]
    """
    read = config.get_text_config() if hasattr(config, "get_text_config") else config
    factors = [getattr(read, name, None) for name in ("logit_scale", "output_multiplier", "lm_head_multiplier")]
    factor = next((one for one in factors if one is not None), 1.0)
    if divisor := getattr(read, "logits_scaling", None):
        factor = factor / divisor
    cap = getattr(read, "final_logit_softcapping", None)

    def changed(logits: Tensor) -> Tensor:
        logits = logits if factor == 1.0 else logits * factor
        return logits if cap is None else torch.tanh(logits / cap) * cap

    return changed


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two arrays are the same but for rounding."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one is other or torch.allclose(one, other, rtol=8 * torch.finfo(one.dtype).eps, atol=1e-6)


class Reader:
    """Reads a model's predictions without keeping their logits, where it is known how its head's become its own."""

    def __init__(self, model: Any) -> None:
        self._model, self._head = model, head_of(model)
        self._change: Callable[[Tensor], Tensor] | None = None

    @property
    def is_understood(self) -> bool:
        """Whether it is known how the head's logits become the model's."""
        return self._change is not None

    def whole(self, **given: Any) -> Any:
        """Call the model, and see how its logits come of the head's."""
        if self._head is None:
            return self._model(**given)
        kept: list[Tensor] = []
        own = self._head.forward

        def noted(hidden: Tensor) -> Tensor:
            kept.append(own(hidden))
            return kept[-1]

        with replaced(self._head, noted):
            out = self._model(**given)
        change = scaled_by(getattr(self._model, "config", None))
        if len(kept) == 1 and _alike(change(kept[0]), out.logits):
            self._change = change
        return out

    def sums(self, asked: Asked, context_tokens: int = 0, **given: Any) -> Sums:
        """Call the model on rows behind so many tokens each, and take what is asked for from its logits."""
        change, found = self._change, []
        if change is None:
            logits = self._model(**given).logits.flatten(0, 1)
            return sums(lambda places: logits[places], asked, part_rows(logits.shape[1], 0))
        own, width = self._head.forward, self._head.weight.shape[0]

        def reduced(hidden: Tensor) -> Tensor:
            flat = hidden.flatten(0, 1)
            rows = part_rows(width, hidden.numel() + hidden.shape[0] * hidden.shape[2] * context_tokens)
            found.append(sums(lambda places: change(own(flat[places])), asked, rows))
            return hidden[..., :1]

        with replaced(self._head, reduced):
            self._model(**given)
        return found[0]
