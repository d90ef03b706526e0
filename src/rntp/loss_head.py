"""Log-probabilities with gradients from hidden states, so that no loss ever holds the logits of a batch.

On a GPU that is TRL's fused head, whose kernel makes logits tile by tile. Without the kernel TRL goes over every
position and holds several tiles of 32,768 tokens of the vocabulary for each; here the positions that are scored are
taken part by part, and made again in the backward pass.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from trl.trainer.utils import FusedCausalLMOutput, add_fused_lm_head

from rntp.head import entropies_of, part_rows, scaled_by


def add_loss_head(model: Any, temperature: float = 1.0) -> None:
    """Let ``model(..., labels=labels, scored_at=t)`` give log-probabilities, at TRL's temperature and at others.

    Labels of -100 are not scored; the others are, each from the position before it.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2)).eval()
    >>> add_loss_head(model, temperature=2.0)
    >>> ids = torch.tensor([[1, 2, 3]])
    >>> own = torch.log_softmax(model(ids).logits / 2.0, dim=-1)[0, :2].gather(-1, ids[0, 1:, None])[:, 0]
    >>> torch.allclose(model(ids, labels=ids, scored_at=2.0).log_probs[0], own)
    True
    """
    sampling = model.forward
    add_fused_lm_head(model)
    plain = model.forward

    @functools.wraps(type(model).forward)  # generate checks what it passes against the model's own signature
    def scored(of: Any, *given: Any, scored_at: float | None = None, **named: Any) -> Any:
        if scored_at is None:
            return sampling(*given, **named)
        if named.get("output_router_logits") or named["labels"].is_cuda:
            return (sampling if scored_at == temperature else plain)(*given, fused_lm_head=True, **named)
        return _in_parts(of, scored_at, *given, **named)

    model.forward = types.MethodType(scored, model)


def _in_parts(model: Any, temperature: float, *given: Any, labels: Tensor, **named: Any) -> FusedCausalLMOutput:
    hidden = model.base_model(*given, use_cache=False, **named).last_hidden_state[:, :-1]
    where = labels[:, 1:] != -100
    rows, ids = hidden[where], labels[:, 1:][where]
    head, change = model.get_output_embeddings(), scaled_by(model.config)

    def part(some: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        log_p = torch.log_softmax(change(head(some)) / temperature, dim=-1, dtype=torch.float32)
        found = log_p.gather(-1, chosen[:, None])[:, 0]
        with torch.no_grad():  # last: the backward pass makes again only what it needs
            return found, entropies_of(log_p)

    kept = hidden.numel() * model.config.get_text_config().num_hidden_layers  # at least, for the backward pass
    size = part_rows(head.weight.shape[0], kept)
    pieces = [
        checkpoint(part, *some, use_reentrant=False, preserve_rng_state=False)
        for some in zip(torch.split(rows, size), torch.split(ids, size), strict=True)
    ]
    log_probs, entropy = (torch.cat(one) for one in zip(*pieces, strict=True))
    blank = hidden.new_zeros(where.shape, dtype=torch.float32)
    return FusedCausalLMOutput(
        log_probs=blank.masked_scatter(where, log_probs), entropy=blank.masked_scatter(where, entropy), label_mask=where
    )
