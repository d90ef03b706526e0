"""What engines can be told on their command line: the table that a launch is written with and read by."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from computeledger.errors import InputError, close_choices, nearest, shown
from computeledger.fields import Given
from computeledger.units import GIB, GIGA, KIB, KILO, MEGA, MIB

#: Lists of a table whose names no field of a question stands for.
NO_EFFECT, NOT_MODELLED = "ignored", "not_modelled"
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
_SUFFIXES = {"": 1.0, "k": KILO, "m": MEGA, "g": GIGA, "K": KIB, "M": MIB, "G": GIB}


@dataclass(frozen=True, slots=True)
class Flag:
    """A name on a command line: the word that a question has a field for, or the list that it stands in."""

    name: str
    word: str
    takes_value: bool


@dataclass(frozen=True, slots=True)
class Flags:
    """What an engine can be told, and how its launches are recognised."""

    engine: str
    source: str
    programs: tuple[tuple[str, ...], ...]
    images: tuple[str, ...]
    variables: tuple[str, ...]
    told: Mapping[str, tuple[Flag, ...]]
    others: Mapping[str, Flag]
    harmless: Mapping[str, tuple[str, ...]]
    underscores: bool = False
    dots: bool = False
    abbreviates: bool = False
    chunk_of_stage: bool = False
    settings_win: bool = False

    @property
    def known(self) -> Mapping[str, Flag]:
        """Every flag by name."""
        return {**self.others, **{one.name: one for flags in self.told.values() for one in flags}}

    def written(self, told: Mapping[str, str]) -> list[str]:
        """Options of a launch, by the first name of each word; a word with an empty value is a switch.

        Examples
        --------
        >>> flags_of("vllm").written({"tp": "8", "experts": ""})
        ['--tensor-parallel-size 8', '--enable-expert-parallel']
        """
        return [f"{self.told[word][0].name} {value}".rstrip() for word, value in told.items()]

    def find(self, given: str) -> Flag:
        """The flag that a text names, as the engine's parser takes it; one line for a text that names none.

        Examples
        --------
        >>> flags_of("vllm").find("--max_num_seqs").word, flags_of("sglang").find("--mem-fraction").word
        ('batch', 'share')
        >>> flags_of("vllm").find("--max-seqs")
        Traceback (most recent call last):
        computeledger.errors.InputError: --from-command: '--max-seqs': no flag of vllm; did you mean '--max-num-seqs'?
        """
        name = given.replace("_", "-") if self.underscores and given.startswith("--") else given
        known = self.known
        if name in known:
            return known[name]
        if self.dots and (above := known.get(name.partition(".")[0])) is not None:  # a part of a table
            return Flag(name, NOT_MODELLED if above.word in self.told else above.word, takes_value=True)
        if name.startswith("--no-") and (of := known.get(f"--{name[5:]}")) is not None and not of.takes_value:
            return Flag(name, NO_EFFECT if of.word in self.told else of.word, takes_value=False)
        longer = [one for text, one in known.items() if self.abbreviates and text.startswith(name) and len(name) > 3]
        if longer and len({(one.word, one.takes_value) for one in longer}) == 1 and longer[0].word in self.told:
            return longer[0]
        if not name.startswith("-"):  # a file of settings has keys that the parser of flags does not list
            return Flag(name, NOT_MODELLED, takes_value=True)
        near = close_choices(name, [one for one in known if one.startswith("-")], 2)
        hint = nearest(name, near) if near else f"its flags are those of {self.source.partition(' of ')[0]}"
        raise InputError(f"--from-command: {shown(given)}: no flag of {self.engine}; {hint}")


@dataclass(frozen=True, slots=True)
class Stated:
    """What a launch tells an engine: values by word, and the names that they were written with."""

    engine: str
    told: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, word: str) -> bool:
        return word in self.told

    def text(self, word: str, otherwise: str = "") -> str:
        """A value as it was written."""
        return self.told.get(word, otherwise)

    def whole(self, word: str, otherwise: int = 1) -> int:
        """A whole number, as vLLM writes them too: 32k is 32,000 and 32K 32,768."""
        if word not in self.told:
            return otherwise
        found = _NUMBER.fullmatch(self.told[word])
        number = float(found[1]) * _SUFFIXES[found[2]] if found else 0.5
        if number % 1 or number < 1:
            raise self.wrong(word, "a whole number, at least 1")
        return int(number)

    def share(self, word: str) -> float | None:
        """A share between 0 and 1; None where nothing is said."""
        if word not in self.told:
            return None
        try:
            number = float(self.told[word])
        except ValueError:
            number = -1.0
        if not 0 < number <= 1:
            raise self.wrong(word, "a share above 0 and at most 1")
        return number

    def on(self, word: str) -> bool | None:
        """Whether something is switched on; None where nothing is said."""
        if word not in self.told:
            return None
        value = self.told[word].lower()
        if value not in ("", "true", "false"):
            raise self.wrong(word, "'true' or 'false'")
        return value != "false"

    def table(self, word: str) -> dict[str, Any]:
        """A JSON object."""
        if word not in self.told:
            return {}
        try:
            found = json.loads(self.told[word])
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self.wrong(word, "a JSON object")
        return found

    def wrong(self, word: str, expected: str) -> InputError:
        """The error for a value that cannot be read."""
        return InputError(f"--from-command: {self.names.get(word, word)} {shown(self.told[word])}: expected {expected}")


@dataclass(frozen=True, slots=True)
class Understood:
    """What a launch says in the words of a question.

    ``quantization`` is what the engine is told of the weights, which means a format only where the checkpoint has
    none; ``role`` is ``prefill`` or ``decode`` for a worker of two pools; ``replicas`` are copies that one command
    starts; ``left`` are words whose value is not modelled.
    """

    fields: Mapping[str, Given]
    quantization: str = ""
    role: str = ""
    replicas: int = 1
    left: Sequence[str] = ()


@functools.cache
def flags_of(engine: str) -> Flags:
    """The table of an engine whose commands are read.

    Examples
    --------
    >>> flags_of("trtllm").told["batch"][0].name, flags_of("vllm").find("--no-enable-log-requests").word
    ('--max_batch_size', 'ignored')
    """
    table = dict(_file()[engine])
    told = {word: tuple(_flag(name, word) for name in names.split()) for word, names in table.pop("told").items()}
    others = {
        one.name: one
        for kind in (NO_EFFECT, NOT_MODELLED)
        for one in (_flag(name, kind) for name in table.pop(kind).split())
    }
    return Flags(
        engine=engine,
        told=told,
        others=others,
        programs=tuple(tuple(one.split()) for one in table.pop("programs")),
        images=tuple(table.pop("images")),
        variables=tuple(table.pop("variables")),
        harmless={name: tuple(values) for name, values in table.pop("harmless").items()},
        **table,
    )


@functools.cache
def readable_engines() -> tuple[str, ...]:
    """Engines whose launch commands are read.

    Examples
    --------
    >>> readable_engines()
    ('vllm', 'sglang', 'trtllm')
    """
    return tuple(name for name in _file() if name != "about")


def _flag(name: str, word: str) -> Flag:
    return Flag(name.removesuffix("="), word, name.endswith("="))


@functools.cache
def _file() -> Mapping[str, Any]:
    text = resources.files("computeledger.workloads.engines").joinpath("flags.toml").read_text("utf-8")
    return tomllib.loads(text)
