"""Environments of several turns: what they must offer, and the episodes that a process holds.

An environment is an object with two methods, made by a function that ``[[environments]] source`` names. One object
holds one episode at a time; ``reset`` begins the next::

    reset(seed) -> prompt                            the same seed gives the same prompt
    step(text)  -> (observation, done, reward)       text is a message of the model, without its thought

Prompt and observation are text, or messages (``{"role": ..., "content": ...}``) for the tokenizer's chat template.
The rewards of an episode's steps are added up. It may have more: ``tools`` (a list of JSON schemas for the template),
``truncate() -> reward``, called where a limit ends an episode that is not done, and ``close()``.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, TypeVar

from jinja2 import TemplateError

from computeledger.errors import InputError, shown
from rntp.errors import EpisodeError, SandboxError
from rntp.models import marker_id
from rntp.plugins import ENVIRONMENTS, check_call, resolve, said
from rntp.recipe import EnvironmentSpec, Recipe

Said = str | Sequence[Mapping[str, Any]]
Result = TypeVar("Result")

#: Errors of the machine and of what it asks over a network: such an episode has no reward.
FAILURES = (EpisodeError, SandboxError, OSError)
#: Threads in which the environments of a process work at most.
_THREADS = 32
#: Stands for a message of the model where the chat template is asked what comes after one.
_REPLY = "[the reply stands here]"


class Environment(Protocol):
    """What holds an episode."""

    def reset(self, seed: int) -> Said:
        """Begin an episode, and give its prompt."""

    def step(self, text: str) -> tuple[Said, bool, float]:
        """Answer a message: what the model reads next, whether the episode is over, and the reward of the turn."""


class Play:
    """One episode as it goes on."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.environment: Environment | None = None
        self.prompt_ids: list[int] = []
        self.reward, self.turns = 0.0, 0
        self.is_over = self.is_cut = False
        #: Why the machine gave no reward, and what is wrong with the environment itself.
        self.failure = self.fault = ""

    @property
    def value(self) -> float:
        """Reward of the episode; NaN where the machine failed [-]."""
        return math.nan if self.failure else self.reward


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an environment, for a thread."""

    play: Play
    work: Callable[[], Any]
    future: Future[Any]


class _Threads:
    """Threads that wait for calls; one that does not come back is replaced."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._count = 0

    def run(self, works: Sequence[tuple[Play, Callable[[], Any]]], timeout_s: float) -> None:
        """Make calls side by side; what fails is written down where it happened."""
        calls = [_Call(play, work, Future()) for play, work in works]
        for _ in range(min(len(calls), _THREADS) - self._count):
            self._begin()
        for call in calls:
            self._calls.put(call)
        until_s = time.monotonic() + timeout_s * math.ceil(len(calls) / _THREADS)
        for call in calls:
            try:
                call.future.result(max(0.0, until_s - time.monotonic()))
            except FAILURES as error:
                is_stuck = isinstance(error, TimeoutError) and not call.future.done()
                _failed(call.play, f"no answer within {timeout_s:g} s" if is_stuck else said(error))
                if is_stuck and not call.future.cancel():
                    self._begin()
            except Exception as error:  # noqa: BLE001 - a lab's code may fail in any way; the run says how, and stops
                call.play.fault, call.play.is_over = said(error), True

    def _begin(self) -> None:
        self._count += 1
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if not call.future.set_running_or_notify_cancel():
                continue
            try:
                call.future.set_result(call.work())
            except BaseException as error:  # noqa: BLE001 - raised again where the result is read
                call.future.set_exception(error)


def _failed(play: Play, reason: str) -> None:
    play.failure, play.is_over, play.environment = reason, True, None


class Episodes:
    """Episodes of one environment of a recipe, in this process.

    Parameters
    ----------
    spec : EnvironmentSpec
        With a ``source``.
    tokenizer : Any
        Of the model.
    folder : Path
        The recipe's.
    room : int
        Tokens of a prompt at most [token].

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = unk_token_id = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> spec = EnvironmentSpec("ports", source="rntp.must_think.lookup:make")
    >>> episodes = Episodes(spec, Letters(), Path(), room=999)
    >>> play = episodes.begin([3])[0]
    >>> bytes(play.prompt_ids).decode()
    'where does the master of the petrel live ?'
    >>> [bytes(ids).decode() for ids in episodes.answered([play], ["look petrel"], [[]])], play.is_over
    (['jonas'], False)
    """

    def __init__(self, spec: EnvironmentSpec, tokenizer: Any, folder: Path, room: int) -> None:
        self.spec, self._room, self._voice = spec, room, _Voice(tokenizer)
        self._make: Callable[..., Environment] = resolve(ENVIRONMENTS, spec.source, folder, {})
        check_call(ENVIRONMENTS, spec.source, self._make, **spec.config)
        self.stop_ids = tuple(marker_id(tokenizer, text) for text in spec.stop)
        self._idle: list[Environment] = []
        self._threads = _Threads()

    def begin(self, seeds: Sequence[int]) -> list[Play]:
        """Begin an episode for each seed."""
        plays = [Play(seed) for seed in seeds]
        for play in plays:
            play.environment = self._idle.pop() if self._idle else self._made()
        self._threads.run([(play, partial(self._reset, play)) for play in plays], self.spec.timeout_s)
        for play in plays:
            if not play.prompt_ids:  # nothing is asked, and what is sampled counts for nothing
                play.prompt_ids = [self._voice.any_id]
        return plays

    def answered(self, plays: Sequence[Play], texts: Sequence[str], last: Sequence[Sequence[int]]) -> list[list[int]]:
        """Hand each episode a message, whose last tokens are given, and take what it answers in tokens."""
        out: list[list[int]] = [[] for _ in plays]

        def answer(place: int) -> None:
            out[place] = self._step(plays[place], texts[place], last[place])

        self._threads.run([(play, partial(answer, n)) for n, play in enumerate(plays)], self.spec.timeout_s)
        for play in plays:
            if play.is_over:
                self._leave(play)
        return out

    def cut(self, plays: Sequence[Play]) -> None:
        """End episodes at a limit."""
        for play in plays:
            play.is_cut = play.is_over = True
        self._threads.run([(play, partial(self._truncate, play)) for play in plays], self.spec.timeout_s)
        for play in plays:
            self._leave(play)

    def close(self) -> None:
        """Close the environments that wait for an episode."""
        for one in self._idle:
            if (close := getattr(one, "close", None)) is not None:
                close()
        self._idle.clear()

    def _made(self) -> Environment:
        try:
            made = self._make(**self.spec.config)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"environment {shown(self.spec.name)}: {said(error)}") from error
        for name in ("reset", "step"):
            if not callable(getattr(made, name, None)):
                raise InputError(
                    f"environment {shown(self.spec.name)}: {shown(self.spec.source)} gives a "
                    f"{type(made).__name__} without {name}: an object with reset(seed) and step(text) is needed"
                )
        return made

    def _leave(self, play: Play) -> None:
        """Keep an environment whose episode is over for the next."""
        if play.environment is not None and not play.fault:
            self._idle.append(play.environment)
        play.environment = None

    def _reset(self, play: Play) -> None:
        environment = _running(play)
        prompt = environment.reset(play.seed)
        ids = self._voice.prompt(prompt, getattr(environment, "tools", None))
        if not ids:
            raise InputError("reset: a prompt of at least one token is needed")
        if len(ids) > self._room:
            raise EpisodeError(
                f"the prompt of seed {play.seed} has {len(ids)} tokens, and the model's context leaves room for "
                f"{self._room} beside a turn"
            )
        play.prompt_ids = ids

    def _step(self, play: Play, text: str, last: Sequence[int]) -> list[int]:
        environment = _running(play)
        given: Any = environment.step(text)
        if not isinstance(given, tuple) or len(given) != 3 or not isinstance(given[2], Real):
            raise InputError(f"step gives {shown(given)}: (observation, done, reward) is needed")
        observation, is_done, reward = given
        if math.isinf(reward):
            raise InputError(f"step gives the reward {reward}: a finite number is needed, or NaN for none")
        play.turns += 1
        if math.isnan(reward):
            raise EpisodeError("the environment gave no reward (NaN)")
        play.reward += float(reward)
        if is_done:
            play.is_over = True
            return []
        return self._voice.after(observation, last, getattr(environment, "tools", None))

    @staticmethod
    def _truncate(play: Play) -> None:
        truncate = getattr(_running(play), "truncate", None)
        if truncate is not None:
            reward = float(truncate())
            if not math.isfinite(reward):
                raise EpisodeError("the environment gave no reward where a limit ended the episode")
            play.reward += reward


def episodes_of(recipe: Recipe, names: Sequence[str], tokenizer: Any, room: int) -> dict[str, Episodes]:
    """Hold the episodes of those environments of a recipe that have some.

    Examples
    --------
    >>> episodes_of(Recipe(environments=(EnvironmentSpec("sums", puzzle="chain_sum"),)), ["sums"], None, 9)
    {}
    """
    some = [one for one in recipe.environments if one.source and one.name in names]
    return {one.name: Episodes(one, tokenizer, recipe.folder, room) for one in some}


def common_stops(held: Mapping[str, Episodes], names: Sequence[str]) -> list[int]:
    """Find the tokens that end a message in every environment; elsewhere it is cut after it was sampled.

    Examples
    --------
    >>> common_stops({}, ["sums"])
    []
    """
    stops = [set(held[name].stop_ids) if name in held else set() for name in names]
    return sorted(set.intersection(*stops)) if stops else []


def _running(play: Play) -> Environment:
    if play.environment is None:
        raise EpisodeError("the episode has ended")
    return play.environment


class _Voice:
    """What an environment says, in tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def any_id(self) -> int:
        """A token that stands for a prompt that is not there."""
        return int(getattr(self._tokenizer, "eos_token_id", None) or 0)

    def prompt(self, given: Any, tools: Any) -> list[int]:
        """What an episode begins with."""
        if isinstance(given, str):
            first = self._tokenizer.bos_token_id
            return [*([] if first is None else [first]), *self._plain(given)]
        return self._plain(self._rendered(given, tools, "reset"))

    def after(self, given: Any, last: Sequence[int], tools: Any) -> list[int]:
        """What follows a message of the model, whose last tokens are given."""
        if isinstance(given, str):
            return self._plain(given)
        before = [{"role": "user", "content": "..."}, {"role": "assistant", "content": _REPLY}]
        _, reply, rest = self._rendered([*before, *_messages(given, "step")], tools, "step").partition(_REPLY)
        if not reply:
            raise InputError("the chat template leaves out what the model has said")
        ids = self._plain(rest)
        # the template closes the model's message; what it has closed itself is not closed again
        return ids[1:] if ids and last and ids[0] == last[-1] else ids

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _rendered(self, given: Any, tools: Any, method: str) -> str:
        messages = _messages(given, method)
        if not getattr(self._tokenizer, "chat_template", None):
            raise InputError(f"{method} gives messages, and the tokenizer has no chat template: text is needed")
        try:
            return str(
                self._tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise InputError(f"{method}: the chat template does not take these messages: {said(error)}") from None


def _messages(given: Any, method: str) -> list[Mapping[str, Any]]:
    """Messages, or why they are none."""
    fits = isinstance(given, Sequence) and not isinstance(given, str | bytes) and len(given) > 0
    if not fits or not all(isinstance(one, Mapping) and {"role", "content"} <= set(one) for one in given):
        raise InputError(f"{method} gives {shown(given)}: a text, or messages with role and content are needed")
    return list(given)
