"""What of a model fits where: the fewest GPUs that hold a load, and what would make a load fit that does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import median
from computeledger.errors import DoesNotFitError
from computeledger.facts.architecture import Model
from computeledger.facts.load import node_gpus
from computeledger.facts.schema import PRECISION_BYTES, System
from computeledger.physics.parallelism import Layout, powers_of_two, serving_layouts, stack_layouts
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import ServingMemory, serving_memory, weights_bytes_per_gpu
from computeledger.physics.serving.offload import ON_CHIP, HostMemory
from computeledger.physics.weights import precision_of
from computeledger.units import format_percent
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.engine import Engine
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.search import MOST_DOMAINS

#: Narrower formats that are tried where nothing else is named, the widest first.
SERVER_FORMATS = ("fp8", "int4")
LOCAL_FORMATS = {
    "llama.cpp": ("gguf-q8_0", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m", "gguf-q3_k_m", "gguf-q2_k"),
    "mlx": ("mlx-8bit", "mlx-6bit", "mlx-4bit", "mlx-3bit"),
}
#: GPUs that a remedy looks for at most, as a multiple of those at hand.
_MOST_TIMES = 64
#: Tokens of a context below which a shorter one is no remedy, and shares of the weights that the host may keep.
_LEAST_TOKENS, _HOST_SHARES = 256, np.arange(1, 20) / 20


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be held: weights in a format, and sequences of some tokens."""

    model: Model
    precision: Precision
    batch: float
    tokens: float
    host: HostMemory = ON_CHIP

    def held(self, system: System, layout: Layout) -> ServingMemory:
        """Memory of the busiest GPU.

        Examples
        --------
        >>> from computeledger.facts.load import load_model, load_system
        >>> load = Load(load_model("llama-3.1-8b"), Precision(), 1.0, 8192.0)
        >>> bool(load.held(load_system("h100-nvl8"), Layout()).largest_batch > 20)
        True
        """
        return serving_memory(self.model, system, layout, self.precision, (self.batch, self.tokens), self.host)

    def room(self, system: System, layouts: list[Layout]) -> NDArray[np.float64]:
        """Sequences that each of many layouts holds [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_model, load_system
        >>> load = Load(load_model("llama-3.1-70b"), Precision(), 1.0, 1280.0)
        >>> load.room(load_system("h100-nvl8"), [Layout(), Layout(tp=4)]).tolist()
        [0.0, 408.0]
        """
        largest = self.held(system, stack_layouts(layouts)).largest_batch
        return np.ravel(np.broadcast_to(largest, (len(layouts), 1)))


@dataclass(frozen=True, slots=True)
class Place:
    """The fewest GPUs of a system that hold a load, or the most that were tried."""

    fits: bool
    layout: Layout
    memory: ServingMemory


def fewest_gpus(load: Load, system: System, engine: Engine, most: int) -> Place:
    """Find the fewest GPUs of a system that hold a load; of their layouts, the one that holds most.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> load = Load(load_model("llama-3.1-70b"), Precision(), 1.0, 8192.0)
    >>> place = fewest_gpus(load, load_system("h100-nvl8"), engines()["vllm"], 8)
    >>> place.fits, str(place.layout)
    (True, 'tp2')
    """
    domain, counts = int(system.n_gpus_scale_up.value), sorted({most, powers_of_two(most)[-1]})
    tried = {str(one): one for count in counts for one in _layouts(load.model, engine, count, domain)}
    layouts = list(tried.values())
    sizes = np.array([int(one.n_gpus) for one in layouts])
    batches = load.room(system, layouts)
    holds = batches >= load.batch
    among = sizes == (sizes[holds].min() if holds.any() else sizes.max())
    flat = among & holds & np.array([one.pp == 1 for one in layouts])
    among = flat if flat.any() else among  # a pipeline answers no sooner: it comes where tensors are cut no further
    chosen = layouts[int(np.argmax(np.where(among, batches, -1.0)))]
    return Place(bool(holds.any()), chosen, load.held(system, chosen))


def longest_context(load: Load, system: System, layouts: list[Layout], most: int) -> int:
    """The longest context at which one of some layouts holds the batch, by halving; 0 where none does [token].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> load = Load(load_model("llama-3.1-70b"), Precision(), 1.0, 1.0)
    >>> system = load_system("h100-nvl8")
    >>> [longest_context(load, system, [Layout(tp=tp)], 131072) for tp in (1, 8)]
    [0, 131072]
    """
    low, high = 0, most
    while low < high:
        halfway = (low + high + 1) // 2
        fits = np.any(replace(load, tokens=float(halfway)).room(system, layouts) >= load.batch)
        low, high = (halfway, high) if fits else (low, halfway - 1)
    return low


def _layouts(model: Model, engine: Engine, n_gpus: int, domain: int) -> list[Layout]:
    return [one for one in serving_layouts(model, n_gpus, domain) if engine.problem(one) is None]


@contextmanager
def with_remedies(
    scenario: ServingScenario, system: System, engine: str, n_gpus: int | None = None, *, has_layout: bool = False
) -> Iterator[None]:
    """Say in the error of a model that does not fit what would make it fit.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> one = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> with with_remedies(one, load_system("1xl40s"), "vllm"):
    ...     raise DoesNotFitError("too large")
    Traceback (most recent call last):
    computeledger.errors.DoesNotFitError: too large; it would fit in int4, or on 4 x l40s
    """
    try:
        yield
    except DoesNotFitError as error:
        found = remedies(scenario, system, engine, n_gpus, has_layout=has_layout)
        raise DoesNotFitError(f"{error}; it would fit {', or '.join(found)}" if found else str(error)) from None


def remedies(
    scenario: ServingScenario, system: System, engine: str, n_gpus: int | None = None, *, has_layout: bool = False
) -> list[str]:
    """What would make one sequence fit, the smallest change first; each is enough by itself.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> one = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> remedies(one, load_system("1xl40s"), "llama.cpp")[:2]
    ['in gguf-q4_k_m', 'on 4 x l40s']
    """
    runs = engines().get(engine, engines()["vllm"])
    load = Load(scenario.model, scenario.precision, 1.0, float(median(scenario.held_tokens)), scenario.host)
    domain = int(system.n_gpus_scale_up.value)
    at_hand = n_gpus or system.n_gpus or MOST_DOMAINS * domain
    layouts = _layouts(load.model, runs, at_hand, domain)
    if not layouts:
        return []
    if np.any(load.room(system, layouts) >= 1):  # refused for another reason, or in the layout that was stated
        return [f"as {fewest_gpus(load, system, runs, at_hand).layout}"] if has_layout else []
    tokens = longest_context(load, system, layouts, int(load.tokens))
    words = [f"with at most {tokens:,} tokens a request"] if tokens >= _LEAST_TOKENS else []
    words += _narrower(load, system, runs, layouts)
    words += _more_gpus(load, system, runs, at_hand)
    if runs.computes_on_host and not load.host.is_used and not system.accelerator.shares_memory:
        words += _on_host(load, system, layouts)
    return words


def _narrower(load: Load, system: System, engine: Engine, layouts: list[Layout]) -> list[str]:
    """The widest of the usual formats that fits, of the cache and of the weights."""
    kept, now = load.precision, float(weights_bytes_per_gpu(load.model, Layout(), load.precision))
    caches = [one for one in engine.caches if PRECISION_BYTES[one] < PRECISION_BYTES[kept.kv]]
    caches.sort(key=lambda one: -PRECISION_BYTES[one])
    names = () if load.model.stored is not None else LOCAL_FORMATS.get(engine.id, SERVER_FORMATS)
    tried = [(f"with the cache in {one}", replace(kept, kv=one)) for one in caches]
    words = _first_that_fits(tried, load, system, layouts)
    weights = [(f"in {name}", precision_of(load.model, name, kept.kv)) for name in names]
    narrower = [one for one in weights if float(weights_bytes_per_gpu(load.model, Layout(), one[1])) < now]
    return words + _first_that_fits(narrower, load, system, layouts)


def _first_that_fits(
    tried: Sequence[tuple[str, Precision]], load: Load, system: System, layouts: list[Layout]
) -> list[str]:
    for words, precision in tried:
        if np.any(replace(load, precision=precision).room(system, layouts) >= 1):
            return [words]
    return []


def _more_gpus(load: Load, system: System, engine: Engine, at_hand: int) -> list[str]:
    """The fewest of the same chip, in full nodes of it where the system counts them."""
    chip = system.accelerator
    domain = int(system.n_gpus_scale_up.value)
    if system.n_gpus is not None:
        domain = max(domain, node_gpus(chip))
    most = max(domain, at_hand) if engine.is_local else _MOST_TIMES * max(at_hand, domain)
    if most <= at_hand:
        return []
    full = replace(system, n_gpus_scale_up=replace(system.n_gpus_scale_up, value=float(domain)))
    found = fewest_gpus(load, full, engine, most)
    n = int(found.layout.n_gpus)
    return [f"on {n} x {chip.id}"] if found.fits and n > at_hand else []


def _on_host(load: Load, system: System, layouts: list[Layout]) -> list[str]:
    """The smallest share of the weights that the host keeps; of experts alone where that is enough."""
    for part in ("experts", "weights") if load.model.is_moe else ("weights",):
        for share in _HOST_SHARES.tolist():
            host = replace(load.host, **{f"{part}_fraction": share})
            if np.any(replace(load, host=host).room(system, layouts) >= 1):
                return [f"with {format_percent(share)} of the {part} in host memory (--host-{part} {share:g})"]
    return []
