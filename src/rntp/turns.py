"""Rollouts of several turns: drafts that grow by what the model samples and by what an environment answers.

A turn is a thought and a message. What an environment answers stands between two turns; it is not trained on::

    prompt | <think> .. </think> message | observation <think> .. </think> message | ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rntp.episodes import Episodes, Play

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Thoughts:
    """What was sampled, row by row; ``lengths`` are the thoughts' own tokens, without answers and written ends.

    Completions of episodes hold what their environment has answered, too, which ``trained`` leaves out; ``sampled`` is
    the log-probability of each token when it was drawn, 0 where it was not, or None where that is now.
    """

    contexts: list[list[int]]
    golds: list[list[int]]
    completions: list[list[int]]
    trained: list[list[int]]
    lengths: list[int]
    closed: list[bool]
    answers: list[str]
    sampled: list[list[float]] | None
    plays: list[Play | None]


class Draft:
    """A rollout as it grows: what stands behind its prompt, and which of it is trained on."""

    def __init__(self, context: Ids, start_id: int) -> None:
        self.context, self.prompt = list(context), [*context, start_id]
        self.ids: list[int] = []
        self.trained: list[int] = []
        self.log_probs: list[float] = []
        self.thought_tokens = 0
        self.is_closed = True
        self.message: list[int] = []

    @property
    def whole(self) -> list[int]:
        """All tokens so far."""
        return [*self.prompt, *self.ids]

    def think(self, ids: Ids, end_id: int, log_probs: Ids | Sequence[float] | None = None) -> None:
        """Add a sampled thought; one that did not end is ended by a marker that is not trained on."""
        is_closed = bool(ids) and ids[-1] == end_id
        self._add(ids, log_probs, trained=True)
        if not is_closed:
            self._add([end_id], None, trained=False)
        self.thought_tokens += len(ids)
        self.is_closed = self.is_closed and is_closed

    def say(self, ids: Ids, log_probs: Sequence[float] | None = None) -> None:
        """Add a sampled message."""
        self._add(ids, log_probs, trained=True)
        self.message = list(ids)

    def read(self, ids: Ids) -> None:
        """Add what the model reads and has not said."""
        self._add(ids, None, trained=False)

    def _add(self, ids: Ids, log_probs: Sequence[float] | None, *, trained: bool) -> None:
        self.ids += ids
        self.trained += [int(trained)] * len(ids)
        self.log_probs += log_probs if log_probs is not None else [0.0] * len(ids)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a rollout may grow.

    Attributes
    ----------
    context_tokens : int
        The longest sequence of the model [token].
    turn_tokens : int
        What a turn takes at most: markers, thought and message [token].
    start_id : int
        Marker of a thought.
    ending_ids : tuple of int
        Tokens that end a message.
    """

    context_tokens: int
    turn_tokens: int
    start_id: int
    ending_ids: tuple[int, ...]


class Conversations:
    """Drafts beside the episodes that answer them; some drafts have none.

    Parameters
    ----------
    drafts : sequence of Draft
        One for each rollout.
    plays : sequence of tuple of Episodes and Play, or None
        The episode of each, and whose it is.
    tokenizer : Any
        Says what a message is as text.
    bounds : Bounds
        Where an episode that is not done is ended.
    """

    def __init__(
        self, drafts: Sequence[Draft], plays: Sequence[tuple[Episodes, Play] | None], tokenizer: Any, bounds: Bounds
    ) -> None:
        self._drafts, self._tokenizer, self._bounds = drafts, tokenizer, bounds
        self._plays = {place: pair for place, pair in enumerate(plays) if pair is not None}

    @property
    def active(self) -> list[int]:
        """Drafts whose episode goes on."""
        return [place for place, (_, play) in self._plays.items() if not play.is_over]

    @property
    def fault(self) -> str:
        """What is wrong with an environment; empty where nothing is."""
        found = (
            f"environment {episodes.spec.name!r}, seed {play.seed}: {play.fault}"
            for episodes, play in self._plays.values()
            if play.fault
        )
        return next(found, "")

    def answer(self) -> None:
        """Hand every message to its environment, and add what that answers where another turn follows."""
        for episodes, places in self._grouped(self.active):
            plays = [self._plays[place][1] for place in places]
            drafts = [self._drafts[place] for place in places]
            texts = [self._text(draft.message, episodes.stop_ids) for draft in drafts]
            seen = episodes.answered(plays, texts, [draft.message[-1:] for draft in drafts])
            cut = []
            for draft, play, ids in zip(drafts, plays, seen, strict=True):
                if play.is_over:
                    continue
                added = [*ids, self._bounds.start_id]
                if self._has_room(episodes, play, len(draft.context), len(draft.ids) + len(added)):
                    draft.read(added)
                else:
                    cut.append(play)
            if cut:
                episodes.cut(cut)

    def shortened(self, place: int, ids: Ids) -> int:
        """Count the tokens of a message up to the first that ends it in its environment."""
        pair = self._plays.get(place)
        stops = pair[0].stop_ids if pair is not None else ()
        return next((number + 1 for number, token in enumerate(ids) if token in stops), len(ids))

    def _has_room(self, episodes: Episodes, play: Play, context: int, tokens: int) -> bool:
        spec, needed = episodes.spec, tokens + self._bounds.turn_tokens
        bounded = spec.episode_tokens == 0 or needed <= spec.episode_tokens
        return play.turns < spec.turns and bounded and context + 1 + needed <= self._bounds.context_tokens

    def _text(self, ids: Ids, stop_ids: Ids) -> str:
        ends = bool(ids) and ids[-1] in self._bounds.ending_ids and ids[-1] not in stop_ids
        text: str = self._tokenizer.decode(ids[:-1] if ends else ids)
        return text

    def _grouped(self, places: Sequence[int]) -> list[tuple[Episodes, list[int]]]:
        """Drafts of each environment."""
        found: dict[str, tuple[Episodes, list[int]]] = {}
        for place in places:
            episodes = self._plays[place][0]
            found.setdefault(episodes.spec.name, (episodes, []))[1].append(place)
        return list(found.values())
