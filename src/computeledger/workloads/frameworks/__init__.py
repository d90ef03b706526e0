"""Training frameworks: one file of data each, found by being there. Their fitted constants are in the calibration."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources

from computeledger.errors import FactError, unknown_id
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import Stack
from computeledger.sources import load_sources

#: Where nobody names a framework.
USUAL_STACK = "generic"
_FOLDER = resources.files("computeledger.workloads.frameworks")


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
    accumulates : bool
        Whether a rank's sequences are usually split into several microbatches without a pipeline.
    chunk_layers : int
        Layers of a pipeline's chunk where nobody states virtual stages; 0 leaves a stage whole [-].
    counts_full_attention : bool
        Whether the FLOP of its own logs count attention as if nothing were masked.
    vendors : tuple of str
        Makers of the chips that it runs on alone; empty where it runs on most.
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
    accumulates: bool = True
    chunk_layers: int = 0
    counts_full_attention: bool = False
    vendors: tuple[str, ...] = ()
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
        return {self.degrees[name]: value for name, value in values.items() if value > 1}


@functools.cache
def framework_ids() -> tuple[str, ...]:
    """Name the shipped frameworks, the generic one first.

    Examples
    --------
    >>> framework_ids()[0], "maxtext" in framework_ids()
    ('generic', True)
    """
    names = sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml"))
    return (USUAL_STACK, *(one for one in names if one != USUAL_STACK))


@functools.cache
def load_framework(given: str) -> Framework:
    """Load a framework by its id.

    Examples
    --------
    >>> load_framework("torchtitan").shards_weights
    True
    """
    if given not in framework_ids():
        raise unknown_id("framework", given, framework_ids())
    entry = tomllib.loads(_FOLDER.joinpath(f"{given}.toml").read_text("utf-8"))
    known = {one.name for one in fields(Framework)} - {"id"}
    if not set(entry) <= known or entry["source"] not in {"assumption", *load_sources()}:
        raise FactError(f"frameworks/{given}.toml: unknown entries {sorted(set(entry) - known)} or no known source")
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
    said = text.lower()
    found = [(len(word), one.id) for one in frameworks() for word in one.words if word in said]
    return load_framework(max(found)[1] if found else USUAL_STACK)
