"""What each lever of memory frees on a GPU, and its price in time: one change at a time, everything else as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.errors import LayoutError
from computeledger.physics.parallelism import Layout, check_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.physics.training.batch import ACTIVATIONS, BY_OPERATION, MOMENTS, RECOMPUTE, SHARDING
from computeledger.physics.training.optimizers import OPTIMIZERS, load_optimizer
from computeledger.workloads.pretraining.estimate import PretrainingScenario, check_shared, estimate_pretraining


@dataclass(frozen=True, slots=True)
class Lever:
    """One change to a configuration.

    Attributes
    ----------
    lever, value : str
        What is changed, and to what.
    memory_bytes, host_bytes : float
        Of the busiest GPU, and of its share of the host [byte].
    step_s : float
        Time of a step; the batch stays [s].
    fits : bool
        Whether GPU and host hold it.
    """

    lever: str
    value: str
    memory_bytes: float
    host_bytes: float
    step_s: float
    fits: bool


def levers(scenario: PretrainingScenario, machine: Machine) -> list[Lever]:
    """Pull every lever by itself; the first row is the configuration as it is, changes that cannot run are left out.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 64))
    >>> found = levers(scenario, Machine(load_system("h100-nvl8")))
    >>> found[0].lever, [one.value for one in found if one.lever == "recompute"]
    ('as it is', ['none', 'full'])
    """
    found = [_pulled("as it is", "", scenario, machine)]
    for lever, value, other in (*_changes(scenario), *_narrower(scenario, machine)):
        if _runs(other):
            found.append(_pulled(lever, value, other, machine))
    return found


def _pulled(lever: str, value: str, scenario: PretrainingScenario, machine: Machine) -> Lever:
    result = estimate_pretraining(scenario, machine)
    held = result.memory
    return Lever(
        lever,
        value,
        median(held.total_bytes),
        median(held.host_bytes),
        median(result.step_s),
        bool(np.all(result.fits)),
    )


def _runs(scenario: PretrainingScenario) -> bool:
    """Whether a changed configuration is legal and its batch divides over it."""
    batch, layout = scenario.batch, scenario.layout
    rounds = median(batch.global_sequences) / median(layout.dp) / median(batch.microbatch_sequences)
    pieces = median(batch.virtual_stages) > 1
    try:
        check_layout(layout, scenario.model)
        check_shared(scenario)
    except LayoutError:
        return False
    return rounds == int(rounds) and not (pieces and rounds % median(layout.pp))


Change = tuple[str, str, PretrainingScenario]


def _changes(now: PretrainingScenario) -> Iterator[Change]:
    # reversible layers are another architecture: no lever of a model that has none
    for mode in (*RECOMPUTE, *_named(now)):
        if mode != now.batch.recompute:
            yield "recompute", mode, _with_batch(now, recompute=mode)
    yield from _offloads(now)
    yield from _sharding(now)
    yield from _cut(now)
    micro = median(now.batch.microbatch_sequences)
    for other in sorted({1.0, micro / 2, micro * 2} - {micro, 0.5}):
        yield "microbatch", f"{other:.0f}", _with_batch(now, microbatch_sequences=other)
    if median(now.batch.virtual_stages) > 1:
        yield "virtual stages", "1", _with_batch(now, virtual_stages=1.0)
    yield from _updates(now)


def _with_batch(now: PretrainingScenario, **changes: Any) -> PretrainingScenario:
    return replace(now, batch=replace(now.batch, **changes))


def _with_stack(now: PretrainingScenario, **changes: Any) -> PretrainingScenario:
    return _with_batch(now, stack=replace(now.batch.stack, **changes))


def _updates(now: PretrainingScenario) -> Iterator[Change]:
    stack = now.batch.stack
    for name in OPTIMIZERS:
        if name != stack.optimizer and not ("optimizer" in now.batch.offloaded and load_optimizer(name).needs_matrices):
            yield "optimizer", name, _with_stack(now, optimizer=name)
    for lever, trait, choices in (
        ("moments", "moment_precision", MOMENTS),
        ("activations", "activation_precision", ACTIVATIONS),
    ):
        for value in choices:
            if value != getattr(stack, trait):
                yield lever, value, _with_stack(now, **{trait: value})


def _narrower(now: PretrainingScenario, machine: Machine) -> Iterator[Change]:
    """Other precisions of products that the chip multiplies itself: the 16-bit weights stay."""
    chip = machine.system.accelerator
    for name in ("bf16", "fp8", "fp4"):
        if name != now.precision.name and chip.native_precision(name) == name:
            yield "precision", name, replace(now, precision=parse_training_precision(name, now.model.is_moe))


def _named(now: PretrainingScenario) -> Iterator[str]:
    """Operations that may be recomputed by themselves, all of them at once, and PyTorch's where weights are sharded."""
    if now.batch.sharded_weights:
        yield BY_OPERATION
    has_latent = any(group.attention.kv_lora_rank for group in now.model.layers)
    names = ("layernorm", *(("mla_up_proj",) if has_latent else ()), *(("moe_act",) if now.model.is_moe else ()))
    if len(names) > 1:
        yield ",".join(names)


def _offloads(now: PretrainingScenario) -> Iterator[Change]:
    choices = ["", "activations"]
    if not load_optimizer(now.batch.stack.optimizer).needs_matrices:
        choices += ["optimizer", "activations,optimizer"]
        choices += ["optimizer,weights"] if now.batch.sharded_weights else []
    for offload in choices:
        if offload != now.batch.stack.offload:
            yield "in host memory", offload or "nothing", _with_stack(now, offload=offload)


def _sharding(now: PretrainingScenario) -> Iterator[Change]:
    batch, layout = now.batch, now.layout
    is_now = "zero-3" if batch.sharded_weights else "zero-2" if batch.stack.sharded_gradients else "zero-1"
    for name in SHARDING:
        alone = median(layout.dp * layout.cp) == 1
        no_weights = name == "zero-3" and median(layout.pp) > 1
        weights_away = "weights" in batch.offloaded and name != "zero-3"
        # a pipeline scatters chunk by chunk: a stage of one chunk keeps its gradients whole
        one_piece = name == "zero-2" and median(layout.pp) > 1 and median(batch.virtual_stages) <= 1
        if name != is_now and not (alone or no_weights or weights_away or one_piece):
            stack = replace(batch.stack, sharded_gradients=name == "zero-2")
            yield "sharding", name, _with_batch(now, sharded_weights=name == "zero-3", stack=stack)


def _cut(now: PretrainingScenario) -> Iterator[Change]:
    """Twice and half of a degree of parallelism, taken from and given to data parallelism."""
    names = {"tensor parallelism": "tp", "pipeline stages": "pp", "context parallelism": "cp"}
    degrees = {name: int(median(getattr(now.layout, name))) for name in ("tp", "pp", "dp", "cp", "ep")}
    for lever, name in names.items():
        for more in (True, False):
            gives, takes = ("dp", name) if more else (name, "dp")
            if degrees[gives] % 2 == 0 and not (name == "pp" and more and now.batch.sharded_weights):
                changed = degrees | {gives: degrees[gives] // 2, takes: degrees[takes] * 2}
                yield lever, f"{name}{changed[name]}", replace(now, layout=Layout(**changed))
    experts = now.model.n_experts
    for ep in (degrees["ep"] * 2, degrees["ep"] // 2) if experts else ():
        if ep >= 1:
            yield "expert parallelism", f"ep{ep}", replace(now, layout=Layout(**(degrees | {"ep": ep})))
