"""Scores of tokens from hidden states, a part of the output head's work at a time.

Logits of a whole batch are the largest array of a pass: tokens times vocabulary. What is asked of them (probability,
entropy and most likely token of each position) is taken part by part where the head would give them: no more than
:data:`PART_ELEMENTS` logits exist at a time. A model that changes its logits behind the head keeps them whole.
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

#: Logits that exist at a time: with what is made of them in float32, some 200 MB.
PART_ELEMENTS = 2**24
#: What transformers calls the keys and values that a pass is given and gives back; ``past_key_values`` before 5.24.
CACHE = "cache" if "cache" in inspect.signature(Qwen3Model.forward).parameters else "past_key_values"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the logits of each position of a batch."""

    next_ids: Tensor
    detailed: Tensor
    temperature: float = 1.0
    pair: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Sums:
    """What was asked for, (B, T) each; entropy and token are 0 where not asked for."""

    log_probs: Tensor
    scaled_log_probs: Tensor
    entropies: Tensor
    argmax_ids: Tensor
    first_of_pair: Tensor


def sums(logits_of: Callable[[int, int], Tensor], width: int, asked: Asked) -> Sums:
    """Take what is asked for from logits that are made part by part.

    Examples
    --------
    >>> logits = torch.zeros(3, 8)
    >>> found = sums(lambda start, stop: logits[start:stop], 8, Asked(torch.ones(1, 3).long(), torch.ones(1, 3).bool()))
    >>> found.entropies.exp().round().tolist()
    [[8.0, 8.0, 8.0]]
    """
    ids, detailed = asked.next_ids.flatten(), asked.detailed.flatten()
    total, step = len(ids), max(1, PART_ELEMENTS // width)
    plain, scaled, entropies, said = (torch.zeros(total, device=ids.device) for _ in range(4))
    argmax_ids = torch.zeros_like(ids)
    for start in range(0, total, step):
        stop = min(start + step, total)
        logits = logits_of(start, stop)
        said[start:stop] = torch.sigmoid((logits[:, asked.pair[0]] - logits[:, asked.pair[1]]).float())
        chosen = ids[start:stop, None]
        if asked.temperature != 1.0:
            scaled[start:stop] = torch.log_softmax(logits.float() / asked.temperature, dim=-1).gather(-1, chosen)[:, 0]
        log_p = torch.log_softmax(logits.float(), dim=-1)
        del logits
        plain[start:stop] = log_p.gather(-1, chosen)[:, 0]
        rows = detailed[start:stop].nonzero()[:, 0]
        some = log_p if len(rows) == len(log_p) else log_p[rows]
        argmax_ids[start + rows] = some.argmax(dim=-1)
        entropies[start + rows] = -(some.exp().mul_(some)).sum(dim=-1)
    shape = asked.next_ids.shape
    scaled = plain if asked.temperature == 1.0 else scaled
    return Sums(*(one.view(shape) for one in (plain, scaled, entropies, argmax_ids, said)))


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


class Reader:
    """Reads a model's predictions without keeping their logits, where its logits are what its head gives."""

    def __init__(self, model: Any) -> None:
        self._model, self._head = model, head_of(model)
        self._is_plain = False

    def whole(self, **given: Any) -> Any:
        """Call the model, and see whether its logits are the head's."""
        if self._head is None:
            return self._model(**given)
        kept: list[Tensor] = []
        own = self._head.forward

        def noted(hidden: Tensor) -> Tensor:
            kept.append(own(hidden))
            return kept[-1]

        with replaced(self._head, noted):
            out = self._model(**given)
        self._is_plain = len(kept) == 1 and out.logits.shape == kept[0].shape and torch.equal(out.logits, kept[0])
        return out

    def sums(self, asked: Asked, **given: Any) -> Sums:
        """Call the model, and take what is asked for from its logits."""
        found: list[Sums] = []
        if not self._is_plain:
            logits = self._model(**given).logits.flatten(0, 1)
            return sums(lambda start, stop: logits[start:stop], logits.shape[1], asked)
        own, width = self._head.forward, self._head.weight.shape[0]

        def reduced(hidden: Tensor) -> Tensor:
            flat = hidden.flatten(0, 1)
            found.append(sums(lambda start, stop: own(flat[start:stop]), width, asked))
            return hidden[..., :1]

        with replaced(self._head, reduced):
            self._model(**given)
        return found[0]
