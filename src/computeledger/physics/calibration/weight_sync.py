"""How trainers hand new weights to generators: mechanisms as data, with constants fitted to published times of one.

``weight_sync.toml`` beside this file holds both; ``fit_syncs`` writes its constants.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

from computeledger.arrays import Num
from computeledger.errors import FactError, unknown_id
from computeledger.physics.calibration.efficiency import Factor, median_of
from computeledger.sources import check_date, load_sources
from computeledger.units import parse_quantity

FILE = "weight_sync.toml"
#: Measured over modelled time of a synchronisation, for a publisher that the fit has not seen.
RATIO = "sync_ratio"
#: What crosses a link: all weights, a generator's own part of them, a trainer's part of them; or all of them, gathered
#: onto every GPU by the trainer's layout, shards before stages or whole tensors.
MOVED = ("whole", "own shard", "trainer shard", "gathered shards", "gathered tensors")


#: Entries of a mechanism that name a constant.
_TERMS = ("fixed", "tensor", "link", "sharded_link", "experts", "gather", "rate", "state")


@dataclass(frozen=True, slots=True)
class SyncMechanism:
    """One way to hand over weights, as a sum of terms; the name of a constant, or none where a term is absent.

    Attributes
    ----------
    id : str
        As ``--weight-sync`` takes it.
    name : str
        For readers.
    fixed : str
        Constant: once per synchronisation [s].
    tensor : str
        Constant: per tensor of the model, gathered, named and loaded one by one [s].
    link : str
        Constant: share of a GPU's link that the weights move at [-].
    sharded_link : str
        Constant: the same share where data-parallel ranks of the trainer share its weights; as ``link`` where absent.
    experts : str
        Constant: share of the link at which such ranks bring experts together, on top [-].
    gather : str
        Constant: share of the link at which the trainer's parts are brought together first [-].
    rate : str
        Constant: rate where no link between GPUs sets the pace [byte/s].
    state : str
        Constant: rate at which the optimizer's state leaves the GPUs that both sides share [byte/s].
    moved : str
        One of :data:`MOVED`.
    crosses_hosts : bool
        Whether weights pass a host or a network card even where one scale-up domain holds both sides.
    needs : str
        ``colocated`` or ``apart`` where only that placement has it.
    sends_adapters : bool
        Whether it can hand over adapters alone; not where it needs all weights.
    words : tuple of str
        Words by which a publication names it, in lower case.
    source : str
        Where the mechanism is described.
    """

    id: str
    name: str
    fixed: str = ""
    tensor: str = ""
    link: str = ""
    sharded_link: str = ""
    experts: str = ""
    gather: str = ""
    rate: str = ""
    state: str = ""
    moved: str = "whole"
    crosses_hosts: bool = False
    needs: str = ""
    sends_adapters: bool = True
    words: tuple[str, ...] = ()
    source: str = "assumption"


def load_sync_text() -> str:
    """Read the shipped file.

    Returns
    -------
    str
        TOML.

    Examples
    --------
    >>> "sync_fixed_s" in load_sync_text()
    True
    """
    return resources.files("computeledger.physics.calibration").joinpath(FILE).read_text("utf-8")


@functools.cache
def sync_mechanisms() -> Mapping[str, SyncMechanism]:
    """Load the mechanisms by id.

    Returns
    -------
    mapping of str to SyncMechanism
        As the file lists them.

    Examples
    --------
    >>> sync_mechanisms()["delta"].moved
    'trainer shard'
    """
    known, constants = {one.name for one in fields(SyncMechanism)} - {"id"}, load_sync_factors()
    found = {}
    for name, entry in tomllib.loads(load_sync_text())["mechanisms"].items():
        used = {entry[term] for term in _TERMS if term in entry}
        wrong = not set(entry) <= known or not used <= set(constants) or entry.get("moved", "whole") not in MOVED
        if wrong or entry["source"] not in {"assumption", *load_sources()}:
            raise FactError(f"calibration/{FILE}: mechanism {name}: unknown entry, constant or source")
        found[name] = SyncMechanism(name, words=tuple(entry.pop("words", ())), **entry)
    return found


def load_sync_mechanism(given: str) -> SyncMechanism:
    """Load one mechanism.

    Parameters
    ----------
    given : str
        Id.

    Returns
    -------
    SyncMechanism
        Its terms.

    Examples
    --------
    >>> load_sync_mechanism("nccl-broadcast").name
    'full broadcast over NCCL'
    """
    if given not in sync_mechanisms():
        raise unknown_id("weight-sync mechanism", given, sync_mechanisms())
    return sync_mechanisms()[given]


@functools.cache
def load_sync_factors() -> Mapping[str, Factor]:
    """Load the constants with their grounds.

    Returns
    -------
    mapping of str to Factor
        By name.

    Examples
    --------
    >>> load_sync_factors()["sync_tensor_s"].kind
    'calibration'
    """
    return {name: _factor(name, entry) for name, entry in tomllib.loads(load_sync_text())["constants"].items()}


def _factor(name: str, entry: Mapping[str, Any]) -> Factor:
    missing = {"value", "why", "data", "residual", "identifiability", "date", "source"} - set(entry)
    if missing or entry["source"] not in load_sources():
        raise FactError(f"calibration/{FILE}: {name} lacks {', '.join(sorted(missing)) or 'a known source'}")
    check_date(entry["date"], f"calibration/{FILE}: {name}")
    value = entry["value"]
    read = parse_quantity(value, "count") if isinstance(value, str) else float(value)
    ground = f"{entry['why']}; {entry['data']}; residual {entry['residual']}; {entry['identifiability']}"
    return Factor(name, read, "calibration", ground, entry["source"], entry["date"])


@functools.cache
def sync_constants() -> Mapping[str, Num]:
    """Build the constants as numbers, the ratio of their interval left out.

    Returns
    -------
    mapping of str to float
        By name.

    Examples
    --------
    >>> RATIO in sync_constants()
    False
    """
    return {name: median_of(one.value) for name, one in load_sync_factors().items() if name != RATIO}
