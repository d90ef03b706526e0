"""Memory that a run needs, estimated before anything is trained, beside what the machine has.

The estimate is a low one: weights with what trains them, and the larger of the keys and values of all thoughts that are
sampled together and of what a pass keeps for its gradients, at half the longest length. A run that exceeds the machine
even so would be killed by the system in the middle, without a word.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from computeledger.actuals.machine.kernels import host_memory_bytes
from computeledger.errors import DoesNotFitError
from computeledger.units import format_si
from rntp.base_model import corpus_of
from rntp.corpus import chunks, split
from rntp.models import outline
from rntp.recipe import Recipe

#: Bytes of a weight, and of its gradient and two moments; chunks that are looked at for their length.
_WEIGHT_BYTES, _STATE_BYTES, _CHUNKS = 4, 12, 32
#: Numbers that a layer keeps of a token for the backward pass, in hidden sizes and in intermediate sizes: no fewer.
_HIDDEN, _INTERMEDIATE = 6, 3
_SMALLER = "a smaller [model] needs less"


@dataclass(frozen=True, slots=True)
class Need:
    """What one part of a run needs in each process [B], and what would need less."""

    weights_bytes: float
    pass_bytes: float
    what: str
    less: str

    @property
    def all_bytes(self) -> float:
        """Both together."""
        return self.weights_bytes + self.pass_bytes


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of a model that memory depends on."""

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    keys: int
    vocabulary: int

    @classmethod
    def of(cls, model: Any) -> _Sizes:
        """Read them of a model, with or without weights."""
        config, count = model.config, sum(one.numel() for one in model.parameters())
        hidden, heads = getattr(config, "hidden_size", 0), getattr(config, "num_attention_heads", 1)
        width = getattr(config, "head_dim", None) or hidden // heads
        keys = 2 * width * (getattr(config, "num_key_value_heads", None) or heads)
        wide = getattr(config, "intermediate_size", None) or 4 * hidden
        return cls(count, getattr(config, "num_hidden_layers", 0), hidden, wide, keys, config.vocab_size)

    def kept(self, *, checkpointing: bool = False) -> int:
        """Numbers that are kept of a token for the backward pass."""
        return self.layers * (
            self.hidden if checkpointing else _HIDDEN * self.hidden + _INTERMEDIATE * self.intermediate
        )


def check_memory(recipe: Recipe, tokenizer: Any, device: torch.device, processes: int = 1) -> None:
    """Refuse a run that cannot fit, with what it needs, what there is, and what would need less.

    Parameters
    ----------
    recipe : Recipe
        What is to be trained.
    tokenizer : PreTrainedTokenizerFast or None
        Of the model; None where texts are not to be measured by it.
    device : torch.device
        Where: a CPU is shared by the processes, a GPU is not.
    processes : int
        Of the run [-].

    Examples
    --------
    >>> from rntp.recipe import ModelSpec
    >>> check_memory(Recipe(model=ModelSpec(hidden_size=32768, layers=900, vocabulary=512)), None, torch.device("cpu"))
    Traceback (most recent call last):
    computeledger.errors.DoesNotFitError: this needs about 64 TB of memory (weights and optimizer 62.6 TB, ...
    """
    if device.type == "cuda":
        there_bytes, place = float(torch.cuda.get_device_properties(device).total_memory), "a GPU"
    else:
        there_bytes, place = host_memory_bytes() / int(os.environ.get("LOCAL_WORLD_SIZE", processes)), "this machine"
    most = max(needs(recipe, tokenizer, processes), key=lambda one: one.all_bytes)
    if most.all_bytes > there_bytes:
        shared = " for each process" if device.type != "cuda" and processes > 1 else ""
        raise DoesNotFitError(
            f"this needs about {format_si(most.all_bytes, 'B')} of memory (weights and optimizer "
            f"{format_si(most.weights_bytes, 'B')}, {most.what} {format_si(most.pass_bytes, 'B')}), and {place} has "
            f"{format_si(there_bytes, 'B')}{shared}: {most.less}"
        )


def needs(recipe: Recipe, tokenizer: Any, processes: int = 1) -> Iterator[Need]:
    """Estimate what pretraining, sampling and an update need in each process.

    Parameters
    ----------
    recipe : Recipe
        What is to be trained.
    tokenizer : PreTrainedTokenizerFast or None
        Of the model; None where texts are not to be measured by it.
    processes : int
        Of the run [-].

    Yields
    ------
    Need
        One for each.

    Examples
    --------
    >>> [round(one.weights_bytes / 1e6, 1) for one in needs(Recipe(), None)]
    [12.6, 12.6]
    """
    vocabulary = recipe.model.vocabulary if tokenizer is None else len(tokenizer)
    sizes = _Sizes.of(outline(recipe.model, recipe.folder, vocabulary))
    is_sharded = os.environ.get("ACCELERATE_USE_FSDP", "") == "true"
    parameters = sizes.parameters / (processes if is_sharded else 1)
    if recipe.pretrain is not None and not recipe.model.path:
        spec = recipe.pretrain
        tokens = spec.batch_sequences * _length(recipe, tokenizer, spec.sequence_tokens)
        passed = tokens * (sizes.kept() + 2 * sizes.vocabulary) * _WEIGHT_BYTES
        states = float(sizes.parameters) * (_WEIGHT_BYTES + _STATE_BYTES)
        less = _SMALLER if states > passed else "fewer [pretrain] batch_sequences need less"
        yield Need(states, passed, f"a batch of {spec.batch_sequences:,} sequences", less)
    states = parameters * _WEIGHT_BYTES * (1 + _copies(recipe))
    if recipe.lora is None:
        states += parameters * _STATE_BYTES
    yield from _of_rl(recipe, sizes, states, _row_tokens(recipe, tokenizer), processes)


def _of_rl(recipe: Recipe, sizes: _Sizes, states: float, tokens: float, processes: int) -> Iterator[Need]:
    """What sampling all thoughts of a step needs, and what a pass of the update needs."""
    rl = recipe.rl
    share = rl.prompts_per_step * rl.group_size // processes
    number_bytes = 2 if rl.precision == "bfloat16" else _WEIGHT_BYTES
    few = _SMALLER if recipe.lora is not None else "a smaller [model], or [lora], needs less"
    if rl.engine == "transformers":
        cached = share * (tokens * sizes.layers * sizes.keys + sizes.vocabulary) * number_bytes
        less = (
            few
            if states > cached
            else "fewer [rl] prompts_per_step, a smaller group_size or shorter thoughts need less"
        )
        yield Need(states, cached, f"sampling {share:,} thoughts at a time", less)
    rows = rl.micro_batch or share
    passed = rows * tokens * sizes.kept(checkpointing=rl.gradient_checkpointing) * number_bytes
    less = (
        few if states > passed else "a smaller [rl] micro_batch, shorter thoughts or gradient_checkpointing need less"
    )
    yield Need(states, passed, f"a pass over {rows:,} thoughts", less)


def _copies(recipe: Recipe) -> int:
    """Copies of the weights beside those that are trained: the model before RL, and running means."""
    frozen = recipe.lora is None and ("frozen" in recipe.reward.models or recipe.thought.kl_weight > 0)
    means = ("ema" in recipe.reward.models) + bool(recipe.rl.ema_decay)
    return frozen + (means if recipe.lora is None else 0)


def _row_tokens(recipe: Recipe, tokenizer: Any) -> float:
    """Tokens of a row, at half their longest: a thought, a context where text is all there is, else an answer."""
    spec, tokens = recipe.positions, recipe.thought.budget / 2
    if recipe.environments:
        tokens += min(one.answer_tokens for one in recipe.environments) / 2
    if recipe.corpus is not None and recipe.corpus.weight and not recipe.environments:
        tokens += _length(recipe, tokenizer, spec.context_tokens + spec.gold_tokens) / 2
    return tokens


def _length(recipe: Recipe, tokenizer: Any, longest: int) -> float:
    """Mean length of the first chunks of the corpus, each of so many tokens at most."""
    if tokenizer is None or recipe.corpus is None:
        return 1.0
    read = chunks(split(corpus_of(recipe), recipe.folder, recipe.seed), tokenizer, longest)
    return fmean([len(one.ids) for one in itertools.islice(read, _CHUNKS)] or [1.0])
