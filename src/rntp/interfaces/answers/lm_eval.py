"""A checkpoint that thinks before it is scored and before it answers, as lm-evaluation-harness asks models.

The log-likelihood of a continuation is that of ``rntp evaluate``: the mean over sampled thoughts of its log-probability
after context and thought, here of all its tokens. Continuations of one context are scored after the same thoughts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import StoppingCriteria

from computeledger.errors import InputError
from rntp.evaluate import gold_scores
from rntp.interfaces.answers.evaluate import checkpoint_of, sampling_of
from rntp.models import marker_id, read_model
from rntp.positions import Place
from rntp.recipe import Recipe
from rntp.recipe_file import parse_recipe
from rntp.run_folder import read_written_recipe
from rntp.sampling import Sampling, Thought, sample_thoughts
from rntp.scoring import pad_of, padded

Ids = tuple[int, ...]
#: Told how many more are done.
Told = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a checkpoint is asked; a budget of 0 and no dtype stand for what the recipe of its run says."""

    thoughts: int = field(default=1, metadata={"low": 0, "high": 4096})
    budget: int = field(default=0, metadata={"low": 0, "high": 2**24})
    seed: int = 0
    dtype: str = field(default="", metadata={"choices": ("float32", "bfloat16")})


@dataclass(frozen=True, slots=True)
class Generation:
    """How an answer is generated."""

    tokens: int
    stops: tuple[str, ...]
    options: Mapping[str, Any]


class _Stops(StoppingCriteria):
    """Ends each row once its new text holds one of some texts, whatever tokens spell it."""

    def __init__(self, tokenizer: Any, stops: Sequence[str], start: int) -> None:
        self._tokenizer, self._stops, self._start = tokenizer, stops, start
        self._reach = max(len(stop.encode()) for stop in stops) + 1  # no token that a text shows is less than a byte

    def __call__(self, input_ids: Tensor, scores: Tensor, **_options: Any) -> Tensor:  # noqa: ARG002 - of transformers
        last = input_ids[:, max(self._start, input_ids.shape[1] - self._reach) :]
        texts = self._tokenizer.batch_decode(last, skip_special_tokens=True)
        return torch.tensor([any(one in text for one in self._stops) for text in texts], device=input_ids.device)


class AskedModel:
    """A checkpoint and how it thinks."""

    def __init__(self, target: Path, settings: Settings, rows_per_pass: int, device: str = "cpu") -> None:
        checkpoint, run = checkpoint_of(target)
        recipe = Recipe() if run is None else _recipe_of(run)
        precision: Literal["float32", "bfloat16"] = (
            "bfloat16" if (settings.dtype or recipe.rl.precision) == "bfloat16" else "float32"
        )
        self.model, self.tokenizer = read_model(checkpoint, precision)
        self.model.to(device).eval()
        if settings.thoughts:
            for marker in (recipe.thought.start, recipe.thought.end):
                marker_id(self.tokenizer, marker)
        self._sampling = replace(
            sampling_of(recipe, self.model, self.tokenizer, settings.thoughts),
            budget=settings.budget or recipe.thought.budget, skip_first_gold=0, success_tokens=0,
            rows_per_pass=rows_per_pass, seed=settings.seed,
        )  # fmt: skip
        self.window: int = getattr(self.model.config, "max_position_embeddings", None) or sys.maxsize

    @property
    def thoughts(self) -> int:
        """Thoughts that are sampled after each context [-]."""
        return self._sampling.thoughts

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Tokens of a text, after the token that begins texts in training, where the tokenizer has one."""
        first = self.tokenizer.bos_token_id
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return [first, *ids] if begins and first is not None and ids[:1] != [first] else ids

    def likelihoods(
        self, asked: Sequence[tuple[Ids, Ids]], told: Told = lambda _more: None
    ) -> list[tuple[float, bool]]:
        """Log-likelihood of continuations in nats, and whether most of the thoughts make every token the likeliest."""
        of_context: dict[Ids, list[int]] = {}
        for number, (context, _) in enumerate(asked):
            of_context.setdefault(context, []).append(number)
        order = sorted(of_context, key=len, reverse=True)
        found: dict[int, tuple[float, bool]] = {}
        for part, contexts in enumerate(self._batches(order, max(1, self.thoughts))):
            numbers = [of_context[context] for context in contexts]
            cut = [
                self._cut(context, max(len(asked[one][1]) for one in own))
                for context, own in zip(contexts, numbers, strict=True)
            ]
            thoughts = self._thoughts(cut, part, self.thoughts)
            places = [Place(cut[at], asked[one][1], "", len(cut[at])) for at, own in enumerate(numbers) for one in own]
            heads = [row for rows, own in zip(thoughts, numbers, strict=True) for _ in own for row in rows]
            scores = gold_scores(self.model, places, heads if self.thoughts else None, self._sampling)
            sums, right = (each.reshape(len(places), -1).mean(axis=1) for each in (scores.sums, scores.right))
            flat = [one for own in numbers for one in own]
            found |= {one: (float(sums[at]), bool(right[at] > 0.5)) for at, one in enumerate(flat)}
            told(len(flat))
        return [found[number] for number in range(len(asked))]

    def answers(self, contexts: Sequence[Ids], how: Generation, told: Told = lambda _more: None) -> list[str]:
        """Texts generated after contexts, each with one thought before it that is not in the text."""
        out: list[str] = []
        for part, some in enumerate(self._batches(contexts, 1)):
            cut = [self._cut(context, how.tokens) for context in some]
            thoughts = self._thoughts(cut, part, min(1, self.thoughts))
            prompts = [(*context, *(rows[0] if rows else ())) for context, rows in zip(cut, thoughts, strict=True)]
            out += [_until(text, how.stops) for text in self._generated(prompts, how)]
            told(len(some))
        return out

    def _generated(self, prompts: Sequence[Ids], how: Generation) -> list[str]:
        ids, mask = padded(prompts, self.model.device, left=True, pad_id=pad_of(self.model))
        stopping = [_Stops(self.tokenizer, how.stops, ids.shape[1])] if how.stops else []
        with torch.no_grad():
            made = self.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=how.tokens, pad_token_id=pad_of(self.model),
                eos_token_id=list(self._sampling.stop_ids) or None, stopping_criteria=stopping, **how.options,
            )  # fmt: skip
        texts: list[str] = self.tokenizer.batch_decode(made[:, ids.shape[1] :], skip_special_tokens=True)
        return texts

    def _batches(self, rows: Sequence[Ids], each: int) -> list[Sequence[Ids]]:
        size = max(1, self._sampling.rows_per_pass // each)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def _thoughts(self, contexts: Sequence[Ids], part: int, count: int) -> list[Sequence[Thought]]:
        """So many thoughts for each context; every part of what is asked has draws of its own."""
        if not count:
            return [()] * len(contexts)
        how: Sampling = replace(self._sampling, thoughts=count, seed=self._sampling.seed + part)
        rows = sample_thoughts(self.model, contexts, how).rows
        return [rows[start : start + count] for start in range(0, len(rows), count)]

    def _cut(self, context: Ids, after: int) -> Ids:
        """The end of a context that leaves room for a thought and for what comes after it."""
        thought = self._sampling.budget + 2 if self.thoughts else 0
        room = self.window - thought - after
        if room < 1:
            raise InputError(
                f"the model's context of {self.window} tokens is too short: a thought ({thought} tokens with its "
                f"markers) and {after} tokens after it leave none for the question"
            )
        return context[-room:]


def _recipe_of(run: Path) -> Recipe:
    written, folder = read_written_recipe(run)
    return parse_recipe(written, folder or Path())


def _until(text: str, stops: Sequence[str]) -> str:
    """A text up to the first of what stops it."""
    return min((text.split(stop, maxsplit=1)[0] for stop in stops if stop), key=len, default=text)
