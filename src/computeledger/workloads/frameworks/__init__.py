"""Training frameworks: one file of data each, found by being there. Their fitted constants are in the calibration."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any

from computeledger.errors import FactError, unknown_id
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import Stack
from computeledger.sources import load_sources

#: Where nobody names a framework.
USUAL_STACK = "generic"
_ROOM = "computeledger.workloads.frameworks"


@dataclass(frozen=True, slots=True)
class Framework:
    """What the project knows of a training framework besides its fitted constants.

    Attributes
    ----------
    id : str
        As ``--framework`` takes it.
    name : str
        As its makers write it.
    words : tuple of str
        Words by which a publication names it, in lower case.
    stack : Stack
        Its software as people run it.
    sharding : str
        What data-parallel ranks share where nobody says: ``zero-1``, ``zero-2`` or ``zero-3``.
    selective : str
        What its selective recomputation is: ``selective`` (attention between its products) or ``selective-op``.
    accumulates : bool
        Whether a rank's sequences are usually split into several microbatches without a pipeline.
    chunk_layers : int
        Layers of a pipeline's chunk where nobody states virtual stages; 0 leaves a stage whole [-].
    counts_full_attention : bool
        Whether the FLOP of its own logs count attention as if nothing were masked.
    vendors : tuple of str
        Makers of the chips that it runs on alone; empty where it runs on most.
    splits_experts : bool
        Whether experts have an axis of their own, so that its data axes hold the ranks beside them.
    follows : str
        Id of the framework that it grew out of, whose effect on the time of a step is its own as well; empty for none.
    degrees : mapping of str to str
        Its names for ``tp``, ``pp``, ``dp``, ``cp`` and ``ep``.
    source : str
        Where names and defaults are from.
    """

    id: str
    name: str
    words: tuple[str, ...] = ()
    stack: Stack = field(default_factory=Stack)
    sharding: str = "zero-1"
    selective: str = "selective"
    accumulates: bool = True
    chunk_layers: int = 0
    counts_full_attention: bool = False
    vendors: tuple[str, ...] = ()
    splits_experts: bool = False
    follows: str = ""
    degrees: Mapping[str, str] = field(default_factory=dict)
    source: str = "assumption"

    @property
    def shards_weights(self) -> bool:
        """Whether weights are sharded over data-parallel ranks where nobody says."""
        return self.sharding == "zero-3"

    def written(self, layout: Layout) -> dict[str, int]:
        """A layout in the framework's own words, degrees of 1 left out.

        Examples
        --------
        >>> load_framework("megatron-lm").written(Layout(tp=4, pp=2, dp=8))
        {'--tensor-model-parallel-size': 4, '--pipeline-model-parallel-size': 2}
        """
        values = {name: int(getattr(layout, name)) for name in self.degrees}
        if self.splits_experts and "dp" in values:
            values["dp"] = max(int(layout.dp) // int(layout.ep), 1)
        return {self.degrees[name]: value for name, value in values.items() if value > 1}


@functools.cache
def framework_ids() -> tuple[str, ...]:
    """Name the shipped frameworks, the generic one first.

    Examples
    --------
    >>> framework_ids()[0], "maxtext" in framework_ids()
    ('generic', True)
    """
    return room_ids(_ROOM)


def room_ids(room: str) -> tuple[str, ...]:
    """Name the data files of a package, the generic one first.

    Examples
    --------
    >>> room_ids(_ROOM) == framework_ids()
    True
    """
    files = resources.files(room).iterdir()
    names = sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))
    return (USUAL_STACK, *(one for one in names if one != USUAL_STACK))


def room_entry(room: str, given: str, known: AbstractSet[str]) -> dict[str, Any]:
    """Read one data file of a package: a known id, known entries, a known source.

    Examples
    --------
    >>> room_entry(_ROOM, "maxtext", {one.name for one in fields(Framework)})["name"]
    'MaxText'
    """
    if given not in room_ids(room):
        raise unknown_id("framework", given, room_ids(room))
    entry = tomllib.loads(resources.files(room).joinpath(f"{given}.toml").read_text("utf-8"))
    if not set(entry) <= known or entry["source"] not in {"assumption", *load_sources()}:
        raise FactError(f"frameworks/{given}.toml: unknown entries {sorted(set(entry) - known)} or no known source")
    return entry


@functools.cache
def load_framework(given: str) -> Framework:
    """Load a framework by its id.

    Examples
    --------
    >>> load_framework("torchtitan").shards_weights
    True
    """
    entry = room_entry(_ROOM, given, {one.name for one in fields(Framework)} - {"id"})
    words, vendors = (tuple(entry.pop(name, ())) for name in ("words", "vendors"))
    return Framework(given, words=words, vendors=vendors, stack=Stack(**entry.pop("stack", {})), **entry)


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Load every shipped framework.

    Examples
    --------
    >>> len(frameworks()) == len(framework_ids())
    True
    """
    return tuple(load_framework(one) for one in framework_ids())


def named_framework(text: str) -> Framework:
    """Find the framework that a publication is about: of the names it says, the longest; else the generic one.

    Examples
    --------
    >>> named_framework("NVIDIA Megatron-Bridge performance summary").id, named_framework("A table").id
    ('megatron-bridge', 'generic')
    """
    return load_framework(longest_named(text, ((one.id, one.words) for one in frameworks())))


def longest_named(text: str, words_of: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Id whose longest word a text says; the generic one where it says none.

    Examples
    --------
    >>> longest_named("verl and verlux", [("a", ["verl"]), ("b", ["verlux"])])
    'b'
    """
    said = text.lower()
    found = [(len(word), given) for given, words in words_of for word in words if word in said]
    return max(found)[1] if found else USUAL_STACK
