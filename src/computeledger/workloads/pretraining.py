"""Pretraining: step time, MFU, memory, and the days and GPU-hours to D tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError, LayoutError, QuantityError
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout, check_layout, powers_of_two, stack_layouts
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training import RECOMPUTE, Batch, StepTime, TrainingMemory, step_time, training_memory
from computeledger.physics.transformer import n_params_active, training_flop_per_token
from computeledger.units import DAY_S, GIGA, HOUR_S

#: Microbatches that a search tries, in sequences.
MICROBATCHES = np.array([1.0, 2.0, 4.0, 8.0])
#: Share of HBM that a training job may fill (assumption: fragmentation and the framework take the rest).
USABLE_FRACTION = 0.94


@dataclass(frozen=True, slots=True)
class PretrainingScenario:
    """A model on a layout with a batch.

    Attributes
    ----------
    model : Model
        What is trained.
    layout : Layout
        Of the whole job.
    precision : Precision
        Of matrix products by kind.
    batch : Batch
        Sequences, microbatch, recomputation.
    tokens : float or ndarray
        Tokens of the run [token].
    usd_per_gpu_hour : float or ndarray
        Price of a GPU-hour [USD/h].
    """

    model: Model
    layout: Layout
    precision: Precision
    batch: Batch
    tokens: Num = 0.0
    usd_per_gpu_hour: Num = 0.0

    @property
    def global_batch_tokens(self) -> Num:
        """Tokens per optimiser step [token]."""
        return self.batch.global_sequences * self.batch.sequence_tokens


@dataclass(frozen=True, slots=True)
class PretrainingResult:
    """What pretraining takes.

    Attributes
    ----------
    scenario : PretrainingScenario
        What was asked.
    step : StepTime
        One optimiser step by part.
    memory : TrainingMemory
        HBM of the busiest GPU.
    flop_per_token : float or ndarray
        Model FLOP, causal attention in, recomputation out [FLOP/token].
    executed_flop_per_token : float or ndarray
        With recomputation [FLOP/token].
    peak_flop_per_s : float
        Dense bf16 peak of one GPU [FLOP/s].
    capacity_bytes : float
        HBM that a job may fill [byte].
    """

    scenario: PretrainingScenario
    step: StepTime
    memory: TrainingMemory
    flop_per_token: Num
    executed_flop_per_token: Num
    peak_flop_per_s: float
    capacity_bytes: float

    @property
    def step_s(self) -> Num:
        """Time of one optimiser step [s]."""
        return self.step.step_s

    @property
    def tokens_per_s_per_gpu(self) -> Num:
        """Training throughput [token/s]."""
        return self.scenario.global_batch_tokens / self.step_s / self.scenario.layout.n_gpus

    @property
    def mfu_fraction(self) -> Num:
        """Model FLOP over dense bf16 peak, whatever precision the products run in [-]."""
        return self.flop_per_token * self.tokens_per_s_per_gpu / self.peak_flop_per_s

    @property
    def hfu_fraction(self) -> Num:
        """Executed FLOP over dense bf16 peak [-]."""
        return self.executed_flop_per_token * self.tokens_per_s_per_gpu / self.peak_flop_per_s

    @property
    def gpu_s_per_token(self) -> Num:
        """GPU-time of one token [s/token]."""
        return 1 / self.tokens_per_s_per_gpu

    @property
    def utilization_fraction(self) -> Num:
        """The ledger's ``6 N`` per token over dense bf16 peak: attention out [-]."""
        return 6 * n_params_active(self.scenario.model) * self.tokens_per_s_per_gpu / self.peak_flop_per_s

    @property
    def gpu_hours(self) -> Num:
        """GPU-hours to the run's tokens, without failures [h]."""
        return self.scenario.tokens * self.gpu_s_per_token / HOUR_S

    @property
    def days(self) -> Num:
        """Days to the run's tokens, without failures [day]."""
        return self.gpu_hours * HOUR_S / self.scenario.layout.n_gpus / DAY_S

    @property
    def fits(self) -> bool | NDArray[np.bool_]:
        """Whether the busiest GPU holds it."""
        return self.memory.total_bytes <= self.capacity_bytes

    @property
    def components_s(self) -> dict[str, Num]:
        """Step time by part; they add up to the step [s]."""
        step = self.step
        n_micro = step.microbatches
        parts = {one.name: step.ratio * one.time_s * n_micro for one in step.operations}
        launched = step.microbatch_s * n_micro - sum(parts.values())
        return {
            **parts,
            "waiting for the host": launched,
            "pipeline bubble": step.bubble_s,
            "gradient exchange": step.gradients_s,
            "optimizer": step.optimizer_s,
            "once per step": step.fixed_s,
        }


def estimate_pretraining(scenario: PretrainingScenario, machine: Machine) -> PretrainingResult:
    """Estimate one training step and the run made of it.

    ``MFU = FLOP per token x tokens/s/GPU / dense bf16 peak``; HFU counts recomputed FLOP as well.

    Parameters
    ----------
    scenario : PretrainingScenario
        Whose numbers may be arrays that broadcast.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    PretrainingResult
        With its parts.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128), 15e12)
    >>> result = estimate_pretraining(scenario, Machine(load_system("h100-nvl8")))
    >>> bool(0.8 < result.mfu_fraction <= result.hfu_fraction <= 1.0), bool(result.fits)
    (True, False)
    """
    model, batch = scenario.model, scenario.batch
    flop = training_flop_per_token(model, batch.sequence_tokens)
    forward = flop / 3
    linear = 2 * n_params_active(model)
    again = {"none": 0.0 * forward, "selective": forward - linear, "full": forward, "reversible": forward}[
        batch.recompute
    ]
    return PretrainingResult(
        scenario=scenario,
        step=step_time(model, batch, scenario.layout, scenario.precision, machine),
        memory=training_memory(model, batch, scenario.layout),
        flop_per_token=flop,
        executed_flop_per_token=flop + again,
        peak_flop_per_s=machine.bf16_flop_per_s,
        capacity_bytes=USABLE_FRACTION * machine.system.accelerator.hbm_bytes.value,
    )


@dataclass(frozen=True, slots=True)
class PretrainingOption:
    """A point of a layout search.

    Attributes
    ----------
    layout : Layout
        Of the whole job.
    microbatch_sequences : int
        Sequences that pass a stage at once [-].
    recompute : str
        ``none``, ``selective`` or ``full``.
    step_s, mfu_fraction, memory_bytes : float
        At the median of the efficiency factors [s], [-], [byte].
    """

    layout: Layout
    microbatch_sequences: int
    recompute: str
    step_s: float
    mfu_fraction: float
    memory_bytes: float


def training_layouts(model: Model, n_gpus: int, n_scale_up: int, longest_cp: int = 1) -> list[Layout]:
    """List the layouts that use all GPUs of a job: every power of two in tp, pp, cp and ep that is legal.

    Parameters
    ----------
    model : Model
        What is trained.
    n_gpus : int
        GPUs of the job [-].
    n_scale_up : int
        GPUs in one scale-up domain [-]; tensor parallelism stays inside it.
    longest_cp : int
        Largest context-parallel degree to try [-].

    Returns
    -------
    list of Layout
        Legal layouts.

    Raises
    ------
    LayoutError
        Where none is legal.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> [str(layout) for layout in training_layouts(load_model("llama-3.1-8b"), 4, 8)]
    ['tp1-dp4', 'tp1-pp2-dp2', 'tp1-pp4', 'tp2-dp2', 'tp2-pp2', 'tp4']
    """
    experts = max(group.feed_forward.n_experts for group in model.layers)
    found = list(_legal(model, n_gpus, (n_scale_up, longest_cp, experts)))
    if not found:
        raise LayoutError(f"no legal training layout of {model.id} on {n_gpus} GPUs")
    return found


def _legal(model: Model, n_gpus: int, limits: tuple[int, int, int]) -> Iterator[Layout]:
    n_scale_up, longest_cp, experts = limits
    for tp in powers_of_two(min(n_scale_up, 64)):
        for pp in powers_of_two(min(model.n_layers, 64)):
            for cp in powers_of_two(longest_cp):
                dp, rest = divmod(n_gpus, tp * pp * cp)
                if rest or dp < 1:
                    continue
                for ep in powers_of_two(min(experts, tp * dp * cp)) if experts else [1]:
                    layout = Layout(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep)
                    try:
                        yield check_layout(layout, model)
                    except LayoutError:
                        continue


def check_shared(scenario: PretrainingScenario) -> PretrainingScenario:
    """Refuse a global batch that leaves data-parallel ranks without a microbatch.

    Parameters
    ----------
    scenario : PretrainingScenario
        With a single layout.

    Returns
    -------
    PretrainingScenario
        The same.

    Raises
    ------
    LayoutError
        With what each step holds and how many ranks share it.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> check_shared(PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=64), Precision(), Batch(4096, 32)))
    Traceback (most recent call last):
    computeledger.errors.LayoutError: layout tp1-dp64: a global batch of 32 sequences leaves ranks without a microbatch
    """
    batch, layout = scenario.batch, scenario.layout
    micro = float(np.median(batch.microbatch_sequences))
    if float(np.median(batch.global_sequences)) < float(np.median(layout.dp)) * micro:
        held = f"a global batch of {float(np.median(batch.global_sequences)):.0f} sequences"
        raise LayoutError(f"layout {layout}: {held} leaves ranks without a microbatch")
    return scenario


def power_of_two(count: float) -> int:
    """Round a batch to a power of two, so that it divides over data-parallel ranks.

    Parameters
    ----------
    count : float
        Sequences [-].

    Returns
    -------
    int
        The nearest on a logarithmic scale, at least 1 [-].

    Examples
    --------
    >>> power_of_two(16e6 / 4096), power_of_two(0.3)
    (4096, 1)
    """
    return int(2 ** max(round(math.log2(count)), 0))


def search_pretraining(
    scenario: PretrainingScenario, layouts: list[Layout], machine: Machine, top: int = 10
) -> list[PretrainingOption]:
    """Evaluate layouts, microbatches and recomputation, and keep the fastest that fit.

    Parameters
    ----------
    scenario : PretrainingScenario
        Its layout, microbatch and recomputation are replaced.
    layouts : list of Layout
        To try.
    machine : Machine
        With single numbers as efficiency factors.
    top : int
        How many to keep [-].

    Returns
    -------
    list of PretrainingOption
        From the fastest.

    Raises
    ------
    DoesNotFitError
        Where nothing fits, with the closest.
    QuantityError
        Where the global batch divides over no layout that fits.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> model, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    >>> scenario = PretrainingScenario(model, Layout(dp=8), Precision(), Batch(8192, 128))
    >>> best = search_pretraining(scenario, training_layouts(model, 16, 8), machine)[0]
    >>> str(best.layout), best.recompute
    ('tp2-dp8', 'none')
    """
    stacked = stack_layouts(layouts)
    options: list[PretrainingOption] = []
    leanest, fits = np.inf, False
    for recompute in RECOMPUTE:
        batch = replace(scenario.batch, recompute=recompute, microbatch_sequences=MICROBATCHES[None, :])
        result = estimate_pretraining(replace(scenario, layout=stacked, batch=batch), machine)
        leanest, fits = min(leanest, float(np.min(result.memory.total_bytes))), fits or bool(np.any(result.fits))
        options += _options(result, layouts)
    if not options and fits:
        sequences = float(np.asarray(scenario.batch.global_sequences))
        raise QuantityError(
            f"global batch of {sequences:.0f} sequences: no layout of {int(layouts[0].n_gpus)} GPUs that fits divides "
            f"it; try {2 ** round(np.log2(sequences))}"
        )
    if not options:
        chip = machine.system.accelerator
        raise DoesNotFitError(
            f"{scenario.model.id} does not train on {int(layouts[0].n_gpus)} x {chip.id}: the leanest layout needs "
            f"{leanest / GIGA:.0f} GB per GPU of {chip.hbm_bytes.value / GIGA:.0f} GB"
        )
    return sorted(options, key=lambda one: one.step_s)[:top]


def _options(result: PretrainingResult, layouts: list[Layout]) -> Iterator[PretrainingOption]:
    """Points of a grid of layouts by microbatches that fit, and whose global batch divides."""
    batch = result.scenario.batch
    per_rank = np.asarray(batch.global_sequences / result.scenario.layout.dp / MICROBATCHES)
    legal = (per_rank >= 1) & (per_rank == np.floor(per_rank)) & result.fits
    columns = np.broadcast_arrays(result.step_s, result.mfu_fraction, result.memory.total_bytes, legal)[:3]
    for i, j in np.argwhere(legal):
        values = (float(column[i, j]) for column in columns)
        yield PretrainingOption(layouts[i], int(MICROBATCHES[j]), batch.recompute, *values)
