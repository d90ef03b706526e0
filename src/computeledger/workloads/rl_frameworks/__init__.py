"""Frameworks of RL: one file of data each, found by being there; questions take their defaults from it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

from computeledger.errors import FactError
from computeledger.facts.schema import Accelerator
from computeledger.physics.calibration.weight_sync import load_sync_mechanism
from computeledger.sources import load_sources
from computeledger.workloads.engines.settings import default_of
from computeledger.workloads.frameworks import longest_named, room_entry, room_ids

_ROOM = "computeledger.workloads.rl_frameworks"
#: Who has which GPUs: the same in turns, own ones in turns, own ones beside one another, or either as it is asked.
PLACEMENTS = ("in turns", "separate", "asynchronous", "hybrid")


#: What generators take of adapters: themselves, or all weights with them merged.
LORA_SYNCS = ("adapters", "merged")


@dataclass(frozen=True, slots=True)
class LoraWays:
    """How a framework's adapters reach its generators.

    Attributes
    ----------
    ways : tuple of str
        Of :data:`LORA_SYNCS` those that it has, its default first.
    apart : tuple of str
        The same where trainer and generators have GPUs of their own; as ``ways`` where empty.
    merged_engines : tuple of str
        Engines that take adapters only merged.
    source : str
        Where this is from.
    """

    ways: tuple[str, ...]
    apart: tuple[str, ...] = ()
    merged_engines: tuple[str, ...] = ()
    source: str = "assumption"

    def on(self, engine: str, is_apart: bool = False) -> tuple[str, ...]:
        """Ways to an engine, the default first.

        Examples
        --------
        >>> verl = load_rl_framework("verl").lora
        >>> verl.on("vllm"), verl.on("sglang"), verl.on("vllm", is_apart=True)
        (('adapters', 'merged'), ('merged',), ('merged',))
        """
        known = self.apart if is_apart and self.apart else self.ways
        return tuple(one for one in known if one == "merged" or engine not in self.merged_engines)


@dataclass(frozen=True, slots=True)
class RLFramework:
    """What the project knows of an RL framework.

    Attributes
    ----------
    id : str
        As ``--framework`` takes it.
    name : str
        As its makers write it.
    words : tuple of str
        Words by which a publication names it, in lower case.
    engine : str
        Generation engine where nobody says: an id of ``--backend``.
    trainer : str
        What runs the update where nobody says.
    placement : str
        One of :data:`PLACEMENTS`, where nobody says.
    max_lag : int
        Versions that rollouts may be behind where nobody says; 0 is synchronous [-].
    weight_sync : str
        Mechanism on shared GPUs; empty for the usual one.
    weight_sync_apart : str
        The same where trainer and generators have GPUs of their own.
    logprob_passes : float
        Forward passes of the trainer: old policy, reference [-].
    is_one_program : bool
        Whether trainer and generators are one program: no controller hands out work, no engine is woken.
    has_stages : bool
        Whether its generation engines run on pipeline stages.
    whole_nodes : bool
        Whether sides on GPUs of their own take whole nodes, or share one.
    packs : bool
        Whether the trainer packs rollouts of different lengths; padded otherwise.
    sharding : str
        ``zero-3`` where its usual trainer shares the weights among data-parallel ranks (FSDP); empty otherwise.
    recompute : str
        What its usual trainer computes again; empty for as little as its memory allows.
    gathers_once : bool
        Whether shared weights stay gathered while log-probs are computed; for every microbatch otherwise.
    microbatch_sequences : int
        Rollouts of a training microbatch where nobody says; 0 for as many as the packed length holds [-].
    live_rollouts : int
        Rollouts that a replica decodes at once at most where nobody says; 0 for what its engine takes on a chip [-].
    generation_batch : int
        Rollouts that a GPU decodes together where nobody says; 0 where an engine batches them [-].
    shared_hbm_fraction : float
        Share of a GPU's memory that the engine fills where GPUs are shared; 0 for what servers fill [-].
    decode_layer_s : float
        Host time of a layer in a decode step, where kernels are launched one by one [s].
    lora : LoraWays or None
        How its adapters reach the generators; None where it trains none.
    source : str
        Where its defaults are from.
    unverified : tuple of str
        Fields that were not read at that source.
    """

    id: str
    name: str
    words: tuple[str, ...] = ()
    engine: str = "vllm"
    trainer: str = ""
    placement: str = "hybrid"
    max_lag: int = 0
    weight_sync: str = ""
    weight_sync_apart: str = ""
    logprob_passes: float = 1.0
    is_one_program: bool = False
    has_stages: bool = True
    whole_nodes: bool = False
    packs: bool = True
    sharding: str = ""
    recompute: str = ""
    gathers_once: bool = False
    microbatch_sequences: int = 0
    live_rollouts: int = 0
    generation_batch: int = 0
    shared_hbm_fraction: float = 0.0
    decode_layer_s: float = 0.0
    lora: LoraWays | None = None
    source: str = "assumption"
    unverified: tuple[str, ...] = ()

    def live_limit(self, engine: str, chip: Accelerator) -> float:
        """Rollouts that a replica decodes at once at most: as the framework starts its engine, or as that has it.

        0 where neither says.

        Examples
        --------
        >>> from computeledger.facts.load import load_accelerator
        >>> h100, a100 = (load_accelerator(one) for one in ("h100-sxm5-80gb", "a100-sxm4-80gb"))
        >>> [load_rl_framework(one).live_limit("vllm", h100) for one in ("verl", "openrlhf")]
        [256.0, 1024.0]
        >>> load_rl_framework("openrlhf").live_limit("vllm", a100)
        256.0
        """
        own = default_of(engine, "max_batch", chip)
        return float(self.live_rollouts or (0 if own is None else own.value))

    def sync_of(self, is_colocated: bool) -> str | None:
        """Mechanism that it hands weights over by, None for the usual one.

        Examples
        --------
        >>> load_rl_framework("prime-rl").sync_of(is_colocated=False)
        'disk'
        """
        return (self.weight_sync if is_colocated else self.weight_sync_apart) or None


@functools.cache
def rl_framework_ids() -> tuple[str, ...]:
    """Name the shipped frameworks, the generic one first.

    Examples
    --------
    >>> rl_framework_ids()[0], "verl" in rl_framework_ids()
    ('generic', True)
    """
    return room_ids(_ROOM)


@functools.cache
def load_rl_framework(given: str) -> RLFramework:
    """Load a framework by its id.

    Examples
    --------
    >>> load_rl_framework("slime").engine
    'sglang'
    """
    known = {one.name for one in fields(RLFramework)} - {"id"}
    entry = room_entry(_ROOM, given, known)
    words, unverified = (tuple(entry.pop(name, ())) for name in ("words", "unverified"))
    lora = _lora_ways(entry.pop("lora", {}))
    found = RLFramework(given, words=words, unverified=unverified, lora=lora, **entry)
    for name in (found.weight_sync, found.weight_sync_apart):
        if name:
            load_sync_mechanism(name)
    if found.placement not in PLACEMENTS or not set(found.unverified) <= known:
        raise FactError(f"rl_frameworks/{given}.toml: placement or unverified fields not known")
    return found


def _lora_ways(entry: dict[str, Any]) -> LoraWays | None:
    """The table of a framework's adapters; none where it trains none."""
    if not entry:
        return None
    ways, apart, merged = (tuple(entry.get(name, ())) for name in ("ways", "apart", "merged_engines"))
    known = {one.name for one in fields(LoraWays)}
    if not ways or not {*ways, *apart} <= set(LORA_SYNCS) or not set(entry) <= known:
        raise FactError(f"rl_frameworks: [lora] {entry}: entries or ways not known")
    if entry["source"] not in {"assumption", *load_sources()}:
        raise FactError(f"rl_frameworks: [lora] source {entry['source']!r} not known")
    return LoraWays(ways, apart, merged, entry["source"])


def named_rl_framework(text: str) -> RLFramework:
    """Find the framework that a publication is about; the generic one where it names none.

    Examples
    --------
    >>> named_rl_framework("NeMo RL v0.3 (Megatron train + vLLM gen)").id, named_rl_framework("a table").id
    ('nemo-rl', 'generic')
    """
    every = ((one, load_rl_framework(one).words) for one in rl_framework_ids())
    return load_rl_framework(longest_named(text, every))
