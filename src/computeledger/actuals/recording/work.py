"""The work of a model's passes: FLOP of the model itself and FLOP that were multiplied, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.huggingface import parse_config
from computeledger.physics.attention import mixer_of
from computeledger.physics.transformer import n_params_active


@dataclass(frozen=True, slots=True)
class Work:
    """FLOP of some passes."""

    flop: float
    executed_flop: float


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """All that is known of a model whose architecture the planner cannot count: 2 FLOP a parameter and token."""

    n_params: int
    n_params_head: int
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A frozen model and the parameters of the adapters beside it: ``2 (N + a)`` a pass, ``4 N + 6 a`` an update."""

    model: Model | ParameterCount
    n_params: float


Counted = Model | ParameterCount | Adapted


def bare(model: Counted) -> Model | ParameterCount:
    """The model without its adapters."""
    return model.model if isinstance(model, Adapted) else model


def counted_model(config: object, name: str = "model", parameters: ParameterCount | None = None) -> Counted | None:
    """Choose what a model's work is counted by: its architecture, else its parameters, else nothing.

    Examples
    --------
    >>> counted_model({"model_type": "gpt2"}, parameters=ParameterCount(100, 10, "gpt2")).n_params
    100
    """
    if config is None:
        return None
    try:
        return parse_config(_mapping(config), name)
    except InputError:
        if parameters is None:
            raise
        return parameters


def active_parameters(model: Counted) -> int:
    """Parameters that one token is multiplied with, adapters left out."""
    model = bare(model)
    return model.n_params if isinstance(model, ParameterCount) else n_params_active(model)


def forward_work(model: Counted, new_tokens: Num, context_tokens: Num = 0.0, head_tokens: Num | None = None) -> Work:
    """Count a forward pass over new tokens that follow a context whose keys and values are cached.

    ``2 N`` per token, the output head at ``head_tokens`` positions of each sequence (None for all), and the attention
    over visible tokens. Sequences of a batch are padded to the longest in ``executed_flop``.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> work = forward_work(model, np.array([8.0, 16.0]))
    >>> work.flop < work.executed_flop
    True
    """
    new, context = np.broadcast_arrays(np.atleast_1d(np.asarray(new_tokens, float)), np.asarray(context_tokens, float))
    head = new if head_tokens is None else np.broadcast_to(np.asarray(head_tokens, float), new.shape)
    longest, widest = np.broadcast_to(new.max(initial=0.0), new.shape), context.max(initial=0.0)
    heads = longest if head_tokens is None else head
    # every query of a dense pass is multiplied with every key, those that the mask hides included
    dense = _matrix_flop(model, longest, heads) + longest * _attention_flop(model, longest + widest, every=True)
    causal = _matrix_flop(model, new, head) + new * _attention_flop(model, new, context)
    return Work(float(np.sum(causal)), float(np.sum(dense)))


def decode_work(model: Counted, new_tokens: Num, context_tokens: Num = 0.0) -> Work:
    """Count tokens that are passed one at a time, each with logits, after a cached context.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> work = decode_work(model, 8.0, 100.0)
    >>> work.flop == work.executed_flop
    True
    """
    new, context = np.broadcast_arrays(np.atleast_1d(np.asarray(new_tokens, float)), np.asarray(context_tokens, float))

    def whole(tokens: Num, before: Num) -> Num:
        return _matrix_flop(model, tokens, tokens) + tokens * _attention_flop(model, tokens, before)

    longest = np.broadcast_to(new.max(initial=0.0), new.shape)
    widest = np.broadcast_to(context.max(initial=0.0), new.shape)
    return Work(float(np.sum(whole(new, context))), float(np.sum(whole(longest, widest))))


def update_work(
    model: Counted, tokens: Num, padded_tokens: Num, recomputed: bool = False, trained_fraction: float = 1.0
) -> Work:
    """Count forward and backward passes over sequences, each in a batch of its own width, with logits everywhere.

    The backward pass takes twice the forward, less the gradients of weights that are not trained. Recomputation makes
    the layers' forward pass again.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> whole, adapter = (update_work(model, np.array([8.0, 16.0]), 16.0, False, share) for share in (1.0, 0.0))
    >>> round(whole.flop / forward_work(model, np.array([8.0, 16.0])).flop, 9), 2 / 3 < adapter.flop / whole.flop < 0.7
    (3.0, True)
    """
    lengths = np.atleast_1d(np.asarray(tokens, float))
    widths = np.broadcast_to(np.asarray(padded_tokens, float), lengths.shape)
    totals = []
    for each, every in ((lengths, False), (widths, True)):
        weights, attention = _matrix_flop(model, each, each), each * _attention_flop(model, each, every=every)
        totals.append(float(np.sum((2 + trained_fraction) * weights + 3 * attention)))
    again = (
        _matrix_flop(model, widths, 0.0) + widths * _attention_flop(model, widths, every=True) if recomputed else 0.0
    )
    return Work(totals[0], totals[1] + float(np.sum(again)))


def training_work(
    model: Counted, tokens: Num, head_tokens: Num | None = None, *, recomputed: bool = False,
    padded_tokens: float = 0.0, fused_tokens: Num | None = None,
) -> Work:  # fmt: skip
    """Count forward and backward passes over a batch as the trainer of RL makes them.

    Three times the forward pass; of frozen weights beside adapters twice, as their gradients are not taken. A fused
    head makes its logits once more in the backward pass, and recomputation the layers' forward pass.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> whole, frozen = (training_work(one, np.array([8.0, 16.0])).flop for one in (model, Adapted(model, 0)))
    >>> whole - frozen == 2 * n_params_active(model) * 24
    True
    """
    lengths, frozen = np.atleast_1d(np.asarray(tokens, float)), isinstance(model, Adapted)
    once = forward_work(model, lengths, head_tokens=head_tokens)
    headed = np.broadcast_to(np.asarray(lengths if head_tokens is None else head_tokens, float), lengths.shape)
    width = max(padded_tokens, float(lengths.max(initial=0.0)))
    layers = forward_work(model, np.full(lengths.shape, width), head_tokens=0.0).executed_flop
    if fused_tokens is None:
        head = (3 - frozen) * headed.max(initial=0.0) * headed.size
    else:
        head = (4 - frozen) * float(np.sum(np.asarray(fused_tokens)))
    flop, executed = 3 * once.flop, (4 if recomputed else 3) * layers + float(head) * head_flop(model)
    if frozen:
        flop -= float(np.sum(_matrix_flop(bare(model), lengths, headed)))
        executed -= float(_matrix_flop(bare(model), width, 0.0)) * lengths.size
    return Work(flop, executed)


def head_flop(model: Counted) -> float:
    """FLOP of one token's logits."""
    model = bare(model)
    if isinstance(model, ParameterCount):
        return 2.0 * model.n_params_head
    return 2.0 * model.vocab_size * model.hidden_size


def _matrix_flop(model: Counted, tokens: Num, head_tokens: Num) -> Num:
    head, beside = head_flop(model), 2.0 * model.n_params if isinstance(model, Adapted) else 0.0
    return beside * tokens + (2.0 * active_parameters(model) - head) * tokens + head * head_tokens


def _attention_flop(model: Counted, new: Num, context: Num = 0.0, *, every: bool = False) -> Num:
    """Scores and values of a query, averaged over the new ones; of every key where asked."""
    flop: Num = 0.0
    model = bare(model)
    if isinstance(model, ParameterCount):
        return flop
    some = np.maximum(new, 1.0)
    for group in model.layers:
        mixer = mixer_of(group.attention)
        visible = some if every else mixer.mean_visible_tokens(some, context)
        one = mixer.flop_per_query(visible, absorbed=False)
        indexed = mixer.indexer_flop_per_query(some if every else context + (some + 1) / 2)
        flop = flop + group.count * (one + indexed)
    return flop


def _mapping(config: object) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    document: Mapping[str, Any] = config.to_dict()  # type: ignore[attr-defined]
    return document
