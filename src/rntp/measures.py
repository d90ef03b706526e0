"""What a model makes of a text before anything is trained: the arrays that some rules of ``positions`` ask for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.actuals.recording.run import PhaseBook
from computeledger.actuals.recording.work import Counted, forward_work
from computeledger.errors import InputError, shown
from rntp.corpus import Chunk
from rntp.models import counted_by, load_model
from rntp.positions import Measure, Place, place_at
from rntp.recipe import Recipe
from rntp.reward import GoldScores, Rewarder, scored_mask
from rntp.sampling import Sampling, Thoughts, sample_thoughts
from rntp.scoring import Rollouts, ScoreOptions, padded, score_shared


@torch.no_grad()
def entropies(model: Any, chunk: Chunk) -> NDArray[np.float64]:
    """Entropy of the prediction of each token of a chunk, given those before it.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> shape = {"vocab_size": 9, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    >>> model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0))
    >>> entropies(model, Chunk((1, 2, 3), (0, 1, 2), "abc", "a")).round().tolist()
    [nan, 2.0, 2.0]
    """
    log_p = _log_probs(model, chunk)
    return np.concatenate([[np.nan], -(log_p.exp() * log_p).sum(dim=-1).cpu().double().numpy()])


@torch.no_grad()
def losses(model: Any, chunk: Chunk) -> NDArray[np.float64]:
    """Loss of each token of a chunk, given those before it.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> shape = {"vocab_size": 9, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    >>> model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0))
    >>> losses(model, Chunk((1, 2, 3), (0, 1, 2), "abc", "a")).round().tolist()
    [nan, 2.0, 2.0]
    """
    log_p = _log_probs(model, chunk)
    gold = torch.tensor(chunk.ids[1:], device=log_p.device)[:, None]
    return np.concatenate([[np.nan], -log_p.gather(-1, gold)[:, 0].cpu().double().numpy()])


def _log_probs(model: Any, chunk: Chunk) -> torch.Tensor:
    ids = torch.tensor([chunk.ids[:-1]], device=model.device)
    return torch.log_softmax(model(input_ids=ids, use_cache=False).logits[0].float(), dim=-1)


@dataclass(frozen=True)
class Spread:
    """Measures how much the rewards of a group of thoughts differ."""

    model: Any
    tokenizer: Any
    recipe: Recipe
    book: PhaseBook

    @torch.no_grad()
    def __call__(self, chunk: Chunk, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard deviation of the group's rewards at some places of a chunk; NaN elsewhere."""
        recipe, group = self.recipe, self.recipe.rl.group_size
        cut = [place_at(chunk, int(place), recipe.positions) for place in places]
        start, end = self.tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
        # draws of the chunk's own, whatever was measured before it: the same after a restart, and in every process
        seed = zlib.crc32(np.array(chunk.ids, dtype=np.int64).tobytes(), recipe.seed)
        sampling = Sampling(
            start, end, recipe.thought.budget, group, recipe.rl.temperature, stop_ids=(self.tokenizer.eos_token_id,),
            rows_per_pass=len(cut) * group, seed=seed,
        )  # fmt: skip
        thoughts = sample_thoughts(self.model, [one.context_ids for one in cut], sampling)
        rows = [one for one in cut for _ in range(group)]
        contexts, golds = [one.context_ids for one in rows], [one.gold_ids for one in rows]
        rollouts = Rollouts(contexts, thoughts.rows, golds)
        scored = score_shared(self.model, rollouts, ScoreOptions(with_thoughts=False))
        self._count(cut, thoughts)
        base = scored.baseline or scored.gold
        with_thought, without, entropy = (
            one.cpu().double().numpy() for one in (scored.gold.log_probs, base.log_probs, base.entropies)
        )
        counts = scored_mask([len(gold) for gold in golds], recipe.positions.skip_first_gold)
        argmax_ids = scored.gold.argmax_ids.cpu().numpy()
        scores = GoldScores(
            padded(golds)[0].numpy(), with_thought, without, entropy, argmax_ids, counts, self.tokenizer.decode
        )
        values = Rewarder.of(recipe.reward, recipe.folder)(scores).values.reshape(len(cut), group)
        out = np.full(len(chunk.ids), np.nan)
        out[places] = values.std(axis=1)
        return out

    def _count(self, cut: Sequence[Place], thoughts: Thoughts) -> None:
        """Charge sampling, and scoring behind shared contexts with and without a thought."""
        group = self.recipe.rl.group_size
        context = np.array([len(one.context_ids) for one in cut])
        gold = np.array([len(one.gold_ids) for one in cut])
        said = np.array([len(row) for row in thoughts.rows])
        self.book.sample(said - 1 - thoughts.truncated, np.repeat(context + 1, group))
        self.book.forward(context, head_tokens=1.0)
        after = np.repeat(gold, group)
        self.book.forward(said + after, np.repeat(context, group), head_tokens=after)
        self.book.forward(gold, context, head_tokens=gold - 1)


def measure_for(recipe: Recipe, model: Any, tokenizer: Any, book: PhaseBook | None = None) -> Measure | None:
    """Choose what measures a chunk for the recipe's rule.

    Examples
    --------
    >>> measure_for(Recipe(), None, None) is None
    True
    """
    asked_for, counts = recipe.positions.measured, book or PhaseBook(None)

    def counted(measure: Callable[[Any, Chunk], NDArray[np.float64]], asked: Any, by: Counted | None) -> Measure:
        def measured(chunk: Chunk, _places: NDArray[np.int64]) -> NDArray[np.float64]:
            if by is not None and book is not None:
                counts.add(forward_work(by, len(chunk.ids) - 1))
            return measure(asked, chunk)

        return measured

    if asked_for == "entropy":
        return counted(entropies, model, None if book is None else counted_by(model))
    if asked_for == "spread":
        return Spread(model, tokenizer, recipe, counts)
    if asked_for == "proxy-loss":
        proxy = _proxy(recipe, tokenizer).to(model.device)
        return counted(losses, proxy, None if book is None else counted_by(proxy))
    return None


def _proxy(recipe: Recipe, tokenizer: Any) -> Any:
    """The smaller model, which must share the tokenizer: what it measures is by token."""
    path = recipe.folder / recipe.positions.proxy
    proxy, other = load_model(Path(path), recipe.thought)
    if other.get_vocab() != tokenizer.get_vocab():
        raise InputError(f"[positions] proxy {shown(recipe.positions.proxy)}: its tokenizer is not the model's")
    return proxy.eval()
