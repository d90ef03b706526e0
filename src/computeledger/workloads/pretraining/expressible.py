"""What a search may propose for a framework: configurations that its launch can state."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.physics.training.batch import RECOMPUTE_CHOICES
from computeledger.workloads.launches import load_templates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.pipeline import SCHEDULES

#: What Megatron-LM, whose launch is no template, is limited to.
MEGATRON = {"schedule": ("1f1b",)}
_ROOM = "computeledger.workloads.pretraining"

Columns = Mapping[str, NDArray[np.float64]]
Mask = NDArray[np.bool_]


@functools.cache
def stated(launcher: str) -> Mapping[str, tuple[str, ...]]:
    """Values that a launch can state, by name; a name that is missing is free.

    Examples
    --------
    >>> stated("fsdp2")["pp"], stated("megatron")["schedule"]
    (('1',), ('1f1b',))
    """
    if not launcher:
        return {}
    if launcher == "megatron":
        return MEGATRON
    template = load_templates(_ROOM)[launcher]
    out = {limit.name: limit.holds for limit in template.cannot}
    for option in template.options:
        if option.map and option.value == f"{{{option.names[0]}}}":
            out.setdefault(option.names[0], tuple(option.map))
    return out


def sequence_unit(launcher: str, tp: Num, cp: Num) -> Num:
    """Tokens whose multiples a sequence must be: each rank of context parallelism takes a chunk of either end.

    Sequence parallelism divides what is left of it; torchtitan wants both at once (its ``seq_len_divisor``).

    Examples
    --------
    >>> [int(sequence_unit(*one)) for one in (("megatron", 8, 2), ("megatron", 1, 4), ("torchtitan", 8, 2))]
    [16, 8, 32]
    """
    tp, cp = np.asarray(tp, int), np.asarray(cp, int)
    if launcher == "torchtitan":
        return np.asarray(2 * tp * cp)
    return np.asarray(cp * np.lcm(np.where(cp > 1, 2, 1), tp))


def _among(column: NDArray[np.float64], names: tuple[str, ...], holds: tuple[str, ...]) -> Mask:
    """Rows whose name, given by its place, is held."""
    return np.isin(column, [names.index(one) for one in holds if one in names])


def _legal(name: str, scenario: PretrainingScenario, table: Columns, holds: tuple[str, ...]) -> Mask | None:
    """Rows that a limit allows, by the names of :func:`~computeledger.workloads.pretraining.launches.values`.

    None where a search does not choose what the limit is of.
    """
    if name in ("pp", "ep"):
        return np.isin(table[name], [int(one) for one in holds])
    if name == "zero":
        whole = 2 if scenario.batch.stack.sharded_gradients else 1
        return np.isin(np.where(table["sharded"] > 0, 3, whole), [int(one) for one in holds])
    if name == "recompute":
        return _among(table["recompute"], RECOMPUTE_CHOICES, holds)
    if name == "schedule":
        return _among(table["schedule"], SCHEDULES, holds)
    if name == "even_stages":
        return np.asarray(scenario.model.n_layers % (table["pp"] * table["virtual_stages"]) == 0)
    if name == "whole_rounds":
        rounds = np.median(scenario.batch.global_sequences) / table["dp"] / table["microbatch_sequences"]
        return np.asarray(rounds % table["pp"] == 0)
    return np.asarray(table["dp"] % table["ep"] == 0) if name == "is_mesh" else None


def expressible(launcher: str, scenario: PretrainingScenario, table: Columns, asked: AbstractSet[str]) -> Mask:
    """Tell which candidates a launch can state; where none has what was ``asked``, the launch says that it is missing.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(8192, 128))
    >>> one = np.ones(2)
    >>> names = ("tp", "dp", "cp", "ep", "microbatch_sequences", "virtual_stages", "schedule", "sharded", "recompute")
    >>> table = {name: 0 * one if name in ("schedule", "recompute") else one for name in names}
    >>> table |= {"pp": np.array([1.0, 2.0])}
    >>> expressible("fsdp2", scenario, table, set()).tolist()
    [True, False]
    """
    found = {name: _legal(name, scenario, table, holds) for name, holds in stated(launcher).items()}
    masks = {name: mask for name, mask in found.items() if mask is not None}
    sequence = float(np.median(np.asarray(scenario.batch.sequence_tokens)))
    masks["sequence"] = np.asarray(sequence % sequence_unit(launcher, table["tp"], table["cp"]) == 0)
    keep = np.ones(len(table["tp"]), bool)
    for name, mask in sorted(masks.items(), key=lambda one: one[0] in asked):
        keep = keep & mask if name not in asked or (keep & mask).any() else keep
    return keep
