"""Searching how to train: every legal layout, microbatch, recompute mode and pipeline schedule in one sweep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import blocks
from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.training.batch import RECOMPUTE_CHOICES
from computeledger.progress import counted
from computeledger.units import GIGA, format_count
from computeledger.workloads.pretraining.candidates import Candidates, Columns, Limits, candidates, training_layouts
from computeledger.workloads.pretraining.estimate import (
    PretrainingScenario,
    batch_sequences,
    check_shared,
    estimate_pretraining,
)
from computeledger.workloads.pretraining.pipeline import SCHEDULES, with_schedule


@dataclass(frozen=True, slots=True)
class PretrainingOption:
    """A point of a search."""

    layout: Layout
    microbatch_sequences: int
    recompute: str
    step_s: float
    mfu_fraction: float
    memory_bytes: float
    virtual_stages: int = 1
    schedule: str = "1f1b"
    sharded_weights: bool = False


@dataclass(frozen=True, slots=True)
class Swept:
    """Candidates with what they take."""

    candidates: Candidates
    step_s: Columns
    mfu_fraction: Columns
    memory_bytes: Columns
    capacity_bytes: float

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Which candidates the busiest GPU holds."""
        return self.memory_bytes <= self.capacity_bytes

    def best(self, top: int, fitting: bool = True) -> list[PretrainingOption]:
        """List the fastest candidates."""
        return list(itertools.islice(self.ranked(fitting), top))

    def ranked(self, fitting: bool = True) -> Iterator[PretrainingOption]:
        """Give the candidates from the fastest on, each made when it is asked for."""
        cost = np.where(self.fits, self.step_s, np.inf) if fitting else self.step_s
        order = np.argsort(cost, kind="stable")
        return (self.option(int(row)) for row in order if np.isfinite(cost[row]))

    def option(self, row: int) -> PretrainingOption:
        """Give one candidate by its row."""
        one = self.candidates.take(slice(row, row + 1))
        degrees = {name: int(getattr(one, name)[0]) for name in ("tp", "pp", "dp", "cp", "ep")}
        return PretrainingOption(
            layout=Layout(**degrees),
            microbatch_sequences=int(one.microbatch_sequences[0]),
            recompute=RECOMPUTE_CHOICES[int(one.recompute[0])],
            step_s=float(self.step_s[row]),
            mfu_fraction=float(self.mfu_fraction[row]),
            memory_bytes=float(self.memory_bytes[row]),
            virtual_stages=int(one.virtual_stages[0]),
            schedule=SCHEDULES[int(one.schedule[0])],
            sharded_weights=bool(one.sharded[0]),
        )


def configured(scenario: PretrainingScenario, every: Candidates) -> PretrainingScenario:
    """Put candidates of one recompute mode, schedule and sharding into a scenario, as arrays.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0))
    >>> configured(scenario, candidates(scenario, 8, Limits(8, recompute=("full",), sharded=(False,)))).batch.recompute
    'full'
    """
    batch = replace(
        scenario.batch,
        microbatch_sequences=every.microbatch_sequences,
        virtual_stages=every.virtual_stages,
        recompute=RECOMPUTE_CHOICES[int(every.recompute[0])],
        sharded_weights=bool(every.sharded[0]),
    )
    batch = with_schedule(batch, SCHEDULES[int(every.schedule[0])])
    layout = Layout(tp=every.tp, pp=every.pp, dp=every.dp, cp=every.cp, ep=every.ep)
    return replace(scenario, layout=layout, batch=batch)


def evaluate(scenario: PretrainingScenario, every: Candidates, machine: Machine) -> Swept:
    """Time every candidate and account for its memory, in blocks that stay in the cache.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0))
    >>> swept = evaluate(scenario, candidates(scenario, 8, Limits(8)), machine)
    >>> bool(swept.best(1)[0].step_s == swept.step_s[swept.fits].min())
    True
    """
    out = np.empty((3, every.size))
    capacity = np.inf
    kinds = every.recompute * 100 + every.schedule * 10 + every.sharded
    for kind in counted(np.unique(kinds), "ways to train"):
        rows = np.flatnonzero(kinds == kind)
        for piece in blocks(len(rows)):
            result = estimate_pretraining(configured(scenario, every.take(rows[piece])), machine)
            # what its host does not hold, a GPU does not either
            held = np.where(result.host_fits, result.memory.total_bytes, np.inf)
            for column, value in zip(out, (result.step_s, result.mfu_fraction, held), strict=True):
                column[rows[piece]] = value
            capacity = result.capacity_bytes
    step_s, mfu, needed = out
    return Swept(every, step_s, mfu, needed, capacity)


def chosen(scenario: PretrainingScenario, option: PretrainingOption) -> PretrainingScenario:
    """Put an option of a search into a scenario.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0))
    >>> chosen(scenario, PretrainingOption(Layout(dp=8), 2, "full", 1.0, 0.4, 1e9)).batch.microbatch_sequences
    2.0
    """
    batch = replace(
        scenario.batch,
        microbatch_sequences=float(option.microbatch_sequences),
        recompute=option.recompute,
        virtual_stages=float(option.virtual_stages),
        sharded_weights=option.sharded_weights,
    )
    return replace(scenario, layout=option.layout, batch=with_schedule(batch, option.schedule))


def search_pretraining(
    scenario: PretrainingScenario, layouts: Iterable[Layout], machine: Machine, top: int = 10
) -> list[PretrainingOption]:
    """Evaluate layouts with every microbatch and recompute mode, and keep the fastest that fit.

    Virtual stages and sharding stay as the scenario has them.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> model, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    >>> scenario = PretrainingScenario(model, Layout(dp=8), Precision(), Batch(8192, 128))
    >>> from computeledger.workloads.pretraining.candidates import training_layouts
    >>> best = search_pretraining(scenario, training_layouts(model, 16, 8), machine)[0]
    >>> str(best.layout), best.recompute
    ('tp2-dp8', 'none')
    """
    return list(itertools.islice(ranked_pretraining(scenario, layouts, machine), top))


def ranked_pretraining(
    scenario: PretrainingScenario, layouts: Iterable[Layout], machine: Machine
) -> Iterator[PretrainingOption]:
    """Give all that :func:`search_pretraining` evaluates and that fits, from the fastest on, made as it is asked for.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> from computeledger.workloads.pretraining.candidates import training_layouts
    >>> model, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    >>> asked = PretrainingScenario(model, Layout(dp=8), Precision(), Batch(8192, 128)), training_layouts(model, 16, 8)
    >>> next(ranked_pretraining(*asked, machine)) == search_pretraining(*asked, machine, top=1)[0]
    True
    """
    tried = tuple(layouts)
    limits = Limits(
        n_scale_up=int(machine.system.n_gpus_scale_up.value),
        layouts=tried,
        virtual_stages=int(np.median(np.asarray(scenario.batch.virtual_stages))),
        sharded=(scenario.batch.sharded_weights,),
        schedules=(scenario.schedule,),
    )
    every = candidates(scenario, int(tried[0].n_gpus), limits)
    return require_fit(scenario, every, machine, (int(tried[0].n_gpus), limits)).ranked()


def require_fit(scenario: PretrainingScenario, every: Candidates, machine: Machine, asked: tuple[int, Limits]) -> Swept:
    """Evaluate candidates, and refuse where none can be run.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0))
    >>> every = candidates(scenario, 8, Limits(8))
    >>> bool(require_fit(scenario, every, Machine(load_system("h100-nvl8")), (8, Limits(8))).fits.any())
    True
    """
    n_gpus, limits = asked
    if not every.size:
        raise QuantityError(_undivided(scenario, n_gpus, limits))
    swept = evaluate(scenario, every, machine)
    if not swept.fits.any():
        chip = machine.system.accelerator
        if np.isinf(swept.memory_bytes).all():
            raise DoesNotFitError(
                f"{scenario.model.id} does not train on {n_gpus:,} x {chip.id}: the memory of their hosts does not "
                f"hold {scenario.batch.stack.offload.replace(',', ' and ')}"
            )
        raise DoesNotFitError(
            f"{scenario.model.id} does not train on {n_gpus:,} x {chip.id}: the leanest layout needs "
            f"{float(swept.memory_bytes.min()) / GIGA:.1f} GB per GPU, and {swept.capacity_bytes / GIGA:.1f} GB may be "
            f"filled of its {chip.usable_bytes / GIGA:.1f} GB"
        )
    return swept


def _undivided(scenario: PretrainingScenario, n_gpus: int, limits: Limits) -> str:
    """Why no configuration exists, and the nearest batch that has one."""
    sequences, micro = int(np.median(np.asarray(scenario.batch.global_sequences))), limits.microbatch_sequences or 1
    if "1f1b" not in limits.schedules and n_gpus == 1:
        return f"a {limits.schedules[0]} schedule needs a pipeline: at least 2 GPUs"
    if scenario.sites is not None and n_gpus % scenario.sites.n:
        return f"{n_gpus:,} GPUs do not divide over {scenario.sites.n} sites, which share the data-parallel ranks"
    layouts = limits.layouts or tuple(training_layouts(scenario.model, n_gpus, limits.n_scale_up))
    least = micro * min(int(one.dp) for one in layouts)
    if limits.launcher and candidates(scenario, n_gpus, replace(limits, launcher="")).size:
        return (
            f"{n_gpus:,} GPUs and a batch of {sequences:,} sequences: {limits.launcher} can state no layout of them: "
            f"stages, experts or microbatches do not divide; try {2 ** int(math.log2(n_gpus)):,} GPUs"
        )
    given = f" with microbatch {micro}" if limits.microbatch_sequences else ""
    pieces = f" for {limits.virtual_stages} virtual stages" if (limits.virtual_stages or 1) > 1 else ""
    each = float(np.median(np.asarray(scenario.batch.sequence_tokens)))
    near = _nearest_batch(sequences, least, each)
    if near == sequences:
        advice = "leave microbatch, virtual stages and schedule to the search"
    elif near is not None:
        advice = f"try a global batch of {near * each:.0f} tokens ({format_count(near, 'sequence')})"
    else:  # a batch is a round number of sequences
        advice = f"try {2 ** int(math.log2(n_gpus)):,} GPUs"
    batch = f"a global batch of {format_count(sequences, 'sequence')}"
    if near is None:
        return f"--gpus {n_gpus}: no layout of them divides {batch}{given}{pieces}; {advice}"
    return f"{batch[2:]}: no layout of {n_gpus:,} GPUs divides it{given}{pieces}; {advice}"


def _nearest_batch(sequences: int, unit: int, sequence_tokens: float) -> int | None:
    """The batch nearest to one that was asked for, of those that a global batch in tokens comes out as."""
    sizes = {mantissa * 2**power for mantissa in range(1, 16) for power in range(MOST_BATCH_BITS)}
    even = [one for one in sizes if one % unit == 0 and batch_sequences(one * sequence_tokens, sequence_tokens) == one]
    return min(even, key=lambda one: abs(math.log(one / sequences)), default=None)


#: Largest global batch that is proposed, as a power of two of sequences.
MOST_BATCH_BITS = 24


def configured_run(
    scenario: PretrainingScenario, n_gpus: int, limits: Limits, machine: Machine
) -> tuple[PretrainingScenario, Swept | None]:
    """Give a run its configuration: what is given holds, what is left out is searched.

    ``pretrain`` and ``plan`` both ask here.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=2, dp=4), Precision(), Batch(4096.0, 64.0))
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> given, _ = configured_run(scenario, 8, Limits(8, (scenario.layout,)), machine)
    >>> searched, swept = configured_run(scenario, 8, Limits(8), machine)
    >>> str(given.layout), len(swept.best(3))
    ('tp2-dp4', 3)
    """
    every = candidates(scenario, n_gpus, limits)
    if limits.layouts is None:
        swept = require_fit(scenario, every, machine, (n_gpus, limits))
        return chosen(scenario, swept.best(1)[0]), swept
    own = evaluate(scenario, every, machine).best(1)
    if own:
        return chosen(scenario, own[0]), None
    return check_shared(replace(scenario, batch=with_schedule(scenario.batch, limits.schedules[0]))), None
