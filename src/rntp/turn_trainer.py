"""Sampling for a GRPO trainer: thoughts, messages after them, and further turns where an environment answers those."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from rntp.ahead import BESIDE
from rntp.episodes import Episodes, Play, common_stops, episodes_of
from rntp.mixture import Rows
from rntp.text_loss import TextLossTrainer
from rntp.turns import Bounds, Conversations, Draft
from rntp.vllm_engine import answers


class TurnTrainer(TextLossTrainer):
    """A trainer that samples turn by turn; every process generates as often as any other."""

    rows: Rows
    _start: int
    _end: int
    _sources: list[str]
    _endings: list[int]
    _last_loaded_step: int

    def _hold_episodes(self, model: Any, tokenizer: Any) -> None:
        """Make ready what episodes of several turns need, where the recipe has such environments."""
        environments, budget = self.recipe.environments, self.recipe.thought.budget
        self._longest = max((one.answer_tokens for one in environments), default=0)
        limits = (getattr(model.config, "max_position_embeddings", None), self.recipe.vllm.context_tokens)
        context = min((one for one in limits if one), default=sys.maxsize)
        self._bounds = Bounds(context, budget + 1 + self._longest, self._start, tuple(self._endings))
        room = context - 1 - self._bounds.turn_tokens
        self._episodes = episodes_of(self.recipe, self._sources, tokenizer, room)
        self._stops = common_stops(self._episodes, self._sources)

    def _begin_episodes(self, inputs: list[dict[str, Any]]) -> list[tuple[Episodes, Play] | None]:
        """Begin the episodes of rows that have one, those of an environment side by side."""
        plays: list[tuple[Episodes, Play] | None] = [None] * len(inputs)
        with self._phase("verification"):
            for name, episodes in self._episodes.items():
                places = [place for place, row in enumerate(inputs) if row["source"] == name]
                for place, play in zip(places, episodes.begin([inputs[n]["seed"] for n in places]), strict=True):
                    plays[place] = (episodes, play)
        return plays

    def _sample_thoughts(self, drafts: list[Draft], places: Sequence[int], each: int) -> None:
        """Sample a thought for some drafts, and end it where the budget cut it."""
        prompts = self._filled(drafts, places) if each == 1 else [drafts[place].whole for place in places]
        with self._stopping([self._end, *self._endings], self.recipe.thought.budget):
            ids, log_probs = self._sample(prompts, each)
        for number, place in enumerate(places):
            drafts[place].think(ids[number], self._end, None if log_probs is None else log_probs[number])

    def _sample_messages(self, drafts: list[Draft], places: Sequence[int], talk: Conversations) -> None:
        """Sample what is said after a thought, for some drafts."""
        with self._stopping([*self._endings, *self._stops], self._longest):
            ids, log_probs = self._sample(self._filled(drafts, places), 1)
        for number, place in enumerate(places):
            end = talk.shortened(place, ids[number])
            drafts[place].say(ids[number][:end], None if log_probs is None else log_probs[number][:end])

    def _converse(self, drafts: list[Draft], talk: Conversations) -> None:
        """Take turns until every episode of every process is over: all of them generate as often."""
        while True:
            with self._phase("verification"):
                talk.answer()
            if self._anywhere(bool(talk.fault)):
                raise self._stopped(talk.fault or "an environment of another process cannot be used")
            if not self._anywhere(bool(talk.active)):
                return
            self._sample_thoughts(drafts, talk.active, 1)
            self._sample_messages(drafts, talk.active, talk)

    def _filled(self, drafts: list[Draft], places: Sequence[int]) -> list[list[int]]:
        """What stands before the tokens to sample: of the drafts given, then some whose samples are not used.

        An engine that processes share must get as many from each, since each is given the slice of its rank; elsewhere
        a process without any samples one, as sharded models need.
        """
        found = [drafts[place].whole for place in places]
        count = max(1, len(found))
        if self.use_vllm:
            count = int(self.accelerator.gather(torch.tensor([count], device=self.accelerator.device)).max())
        return found + [found[0] if found else drafts[0].prompt] * (count - len(found))

    def _sample(self, prompts: list[list[int]], each: int) -> tuple[list[list[int]], list[list[float]] | None]:
        with self._phase("generation") as book:
            try:
                found, log_probs = self._generated(prompts, each)
            except RuntimeError as error:
                if "inf" not in str(error) or "nan" not in str(error):
                    raise
                raise self._stopped("the model's probabilities are no numbers") from None
            book.generate(np.array([len(one) for one in found]), np.array([len(prompt) for prompt in prompts]))
        return found, log_probs

    def _generated(self, prompts: list[list[int]], each: int) -> tuple[list[list[int]], list[list[float]] | None]:
        if not self.use_vllm:
            ids, _ = self._generate_single_turn(prompts, None, {}, each)
            return ids, None
        with self._asking():
            if BESIDE.get() is None:  # else the engine keeps those that it was given before
                self._give_weights()
            return answers(self.vllm_generation, prompts, each, self.model.config.vocab_size)

    def _give_weights(self) -> None:
        """Give the engine the weights as they are, unless it has them."""
        if self._last_loaded_step != self.state.global_step:
            self.vllm_generation.sync_weights()
            self._last_loaded_step = self.state.global_step

    @contextmanager
    def _stopping(self, endings: list[int], longest: int) -> Iterator[None]:
        """End what is generated meanwhile at some tokens, or after so many."""
        self.eos_token_ids = endings
        if self.use_vllm:
            self.vllm_generation.max_completion_length = longest
            self.vllm_generation.generation_kwargs = {"stop_token_ids": endings}
        else:
            self.generation_kwargs.update(eos_token_id=endings, max_new_tokens=longest)
            self.generation_config.eos_token_id, self.generation_config.max_new_tokens = endings, longest
        yield
        self.eos_token_ids = self._endings
