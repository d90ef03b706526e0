"""Parts of a training step by the names of what runs, and how long each runs with nothing before it running."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Beginnings and ends, sorted and apart [s].
Spans: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step: how it is told, what the model calls it, and what shortens it."""

    name: str
    fix: str
    modelled: tuple[str, ...] = ()
    is_network: bool = False
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that kernels fill, that the host makes a GPU wait for, and that a log tells."""

    kernels: tuple[Part, ...]
    waits: tuple[Part, ...]
    log: tuple[Part, ...]

    def named(self, name: str) -> Part:
        """The part of a name."""
        return next(one for one in (*self.kernels, *self.waits, *self.log) if one.name == name)


@dataclass(frozen=True, slots=True)
class StepProfile:
    """What a profile says of one step of one GPU.

    ``exposed_s`` are times in which nothing listed before runs; they add up to ``step_s``, where that is known.
    ``busy_s`` are sums over kernels; ``largest`` names the three that take longest of each part, with their times.
    """

    path: str
    tool: str
    n_steps: int
    step_s: float | None
    busy_s: Mapping[str, float]
    exposed_s: Mapping[str, float]
    largest: Mapping[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    recomputes: bool = False
    is_host: bool = False


@functools.cache
def load_parts() -> Parts:
    """Read the shipped patterns."""
    text = resources.files("computeledger.actuals.profiles").joinpath("parts.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    return Parts(*(tuple(_part(one) for one in tables[name]) for name in ("parts", "waits", "log")))


def _part(table: Mapping[str, object]) -> Part:
    patterns = table.get("patterns")
    pattern = None
    if isinstance(patterns, list):
        pattern = re.compile("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)
    modelled = table.get("modelled", [])
    names = tuple(str(one) for one in modelled) if isinstance(modelled, list) else ()
    return Part(str(table["name"]), str(table["fix"]), names, bool(table.get("is_network", False)), pattern)


@functools.lru_cache(maxsize=65536)
def part_of(name: str) -> str:
    """The part that a kernel or an operator belongs to.

    Examples
    --------
    >>> [part_of(one) for one in ("nvjet_tst_192x192_64x4", "ncclDevKernel_AllGather_RING_LL", "flash_fwd_kernel")]
    ['matrix products', 'all-gather', 'attention']
    >>> part_of("void at::native::vectorized_elementwise_kernel<4>")
    'elementwise and the rest'
    """
    return next(one.name for one in load_parts().kernels if one.pattern is not None and one.pattern.search(name))


@functools.lru_cache(maxsize=65536)
def wait_of(name: str) -> str:
    """What a GPU waits for while the host does something of a name."""
    return next(one.name for one in load_parts().waits if one.pattern is not None and one.pattern.search(name))


def united(spans: Iterable[tuple[float, float]]) -> Spans:
    """Spans as one covers them: sorted, none touching another.

    Examples
    --------
    >>> united([(3.0, 4.0), (0.0, 1.0), (0.5, 2.0)]).tolist()
    [[0.0, 2.0], [3.0, 4.0]]
    """
    table = np.array(sorted(spans), float).reshape(-1, 2)
    if not len(table):
        return table
    reach = np.maximum.accumulate(table[:, 1])
    first = np.concatenate([[True], table[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.column_stack([table[first, 0], reach[last]])


def without(spans: Spans, covered: Spans) -> Spans:
    """What of spans is not covered.

    Examples
    --------
    >>> without(united([(0.0, 4.0)]), united([(1.0, 2.0), (3.0, 9.0)])).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    if not len(spans) or not len(covered):
        return spans
    edges = np.unique(np.concatenate([spans.ravel(), covered.ravel()]))
    pieces = np.column_stack([edges[:-1], edges[1:]])
    middle = pieces.mean(axis=1)
    kept = pieces[_inside(middle, spans) & ~_inside(middle, covered)]
    return united((float(low), float(high)) for low, high in kept)


def _inside(points: NDArray[np.float64], spans: Spans) -> NDArray[np.bool_]:
    place = np.searchsorted(spans[:, 0], points, side="right") - 1
    inside: NDArray[np.bool_] = (place >= 0) & (points < spans[np.maximum(place, 0), 1])
    return inside


def length(spans: Spans) -> float:
    """How long spans are together [s]."""
    return float(np.sum(spans[:, 1] - spans[:, 0])) if len(spans) else 0.0
