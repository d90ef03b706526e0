"""Pretraining: step time, MFU, memory, and the days and GPU-hours to D tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.bounds import check_record
from computeledger.display import Displayed
from computeledger.errors import LayoutError
from computeledger.facts.architecture import Lora, Model
from computeledger.physics.adapters import adapter_params
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch, with_adapters
from computeledger.physics.training.counts import layer_counts
from computeledger.physics.training.host import host_of
from computeledger.physics.training.memory import TRAINING_HBM_FRACTION, TrainingMemory, training_memory
from computeledger.physics.training.sites import OUTER_BYTES, Sites, of_one_site, site_exchange_s
from computeledger.physics.training.step import StepTime, step_time
from computeledger.physics.transformer import n_params_active, n_params_total, training_flop_per_token
from computeledger.units import DAY_S, HOUR_S
from computeledger.workloads.pretraining.pipeline import scheduled

#: Sequence and global batch of a run where nobody says (assumptions) [token].
DEFAULT_SEQUENCE_TOKENS, DEFAULT_GLOBAL_BATCH_TOKENS = 4096.0, 4e6
#: Name of the part of a step that exchanges between sites.
BETWEEN_SITES = "exchange between sites"


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
    lora : Lora or None
        Adapters beside frozen weights; None trains everything.
    sites : Sites or None
        Sites that share the data-parallel ranks; None for one.
    """

    model: Model
    layout: Layout
    precision: Precision
    batch: Batch
    tokens: Num = 0.0
    usd_per_gpu_hour: Num = 0.0
    lora: Lora | None = None
    sites: Sites | None = None

    def __post_init__(self) -> None:
        check_record(self)

    @property
    def schedule(self) -> str:
        """Pipeline schedule: ``1f1b`` (interleaved with virtual stages), ``zero-bubble`` or ``dualpipe``."""
        return self.batch.stack.schedule

    @property
    def global_batch_tokens(self) -> Num:
        """Tokens per optimizer step [token]."""
        return self.batch.global_sequences * self.batch.sequence_tokens


@dataclass(frozen=True, slots=True)
class Staged:
    """The stages of a run that differ from the rest.

    Attributes
    ----------
    tokens : float
        Of all of them [token].
    gpu_hours : float or ndarray
        Of all of them, without failures [h].
    """

    tokens: float
    gpu_hours: Num


@dataclass(frozen=True, slots=True)
class PretrainingResult(Displayed):
    """What pretraining takes.

    Attributes
    ----------
    scenario : PretrainingScenario
        What was asked.
    step : StepTime
        One optimizer step by part.
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
    host_capacity_bytes : float or ndarray
        Its share of the host's memory [byte].
    staged : Staged or None
        Stages of the run that differ from this configuration.
    """

    scenario: PretrainingScenario
    step: StepTime
    memory: TrainingMemory
    flop_per_token: Num
    executed_flop_per_token: Num
    peak_flop_per_s: float
    capacity_bytes: float
    host_capacity_bytes: Num
    staged: Staged | None = None

    @property
    def step_s(self) -> Num:
        """Time of one optimizer step [s]."""
        return self.step.step_s

    @property
    def tokens_per_s_per_gpu(self) -> Num:
        """Training throughput, padding left out [token/s]."""
        useful = self.scenario.batch.useful_fraction * self.scenario.global_batch_tokens
        return useful / self.step_s / self.scenario.layout.n_gpus

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
        """The ledger's ``6 N`` per token over dense bf16 peak, ``4 N`` of frozen weights: attention out [-]."""
        flop, lora = 6.0 * n_params_active(self.scenario.model), self.scenario.lora
        if lora is not None:
            flop += 6 * adapter_params(self.scenario.model, lora) - flop / 3
        return flop * self.tokens_per_s_per_gpu / self.peak_flop_per_s

    @property
    def gpu_hours(self) -> Num:
        """GPU-hours to the run's tokens, stages included, without failures [h]."""
        if self.staged is None:
            return self.scenario.tokens * self.gpu_s_per_token / HOUR_S
        rest = np.maximum(self.scenario.tokens - self.staged.tokens, 0.0)
        return rest * self.gpu_s_per_token / HOUR_S + self.staged.gpu_hours

    @property
    def days(self) -> Num:
        """Days to the run's tokens, without failures [day]."""
        return self.gpu_hours * HOUR_S / self.scenario.layout.n_gpus / DAY_S

    @property
    def fits(self) -> bool | NDArray[np.bool_]:
        """Whether the busiest GPU holds it, and its host what is kept there."""
        return (self.memory.total_bytes <= self.capacity_bytes) & self.host_fits

    @property
    def host_fits(self) -> bool | NDArray[np.bool_]:
        """Whether the host holds what is kept there."""
        return np.asarray(self.memory.host_bytes <= self.host_capacity_bytes)

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
            BETWEEN_SITES: step.sites_s,
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
    flop = training_flop_per_token(model, batch.attended_tokens)
    if scenario.lora is not None:
        flop = flop - 2 * n_params_active(model) + 6 * adapter_params(model, scenario.lora)
    layout, batch = as_run(scenario)
    sites = scenario.sites
    step = scheduled(step_time(model, batch, layout, scenario.precision, machine), batch, layout)
    executed = flop + recomputed_flop_per_token(model, batch)
    memory = training_memory(model, batch, layout)
    if sites is not None:
        step = replace(step, sites_s=site_exchange_s(batch.stack.trained_fraction * n_params_total(model), sites))
    found = PretrainingResult(
        scenario=scenario,
        step=step,
        memory=memory,
        flop_per_token=flop,
        executed_flop_per_token=executed,
        peak_flop_per_s=machine.bf16_flop_per_s,
        capacity_bytes=TRAINING_HBM_FRACTION * machine.system.accelerator.usable_bytes,
        host_capacity_bytes=host_of(machine.system, layout).bytes,
    )
    # no draw of an interval is faster than the arithmetic
    peak = machine.system.accelerator.peak(scenario.precision.name)
    least = executed * scenario.global_batch_tokens * batch.useful_fraction / scenario.layout.n_gpus / peak
    return rescaled(found, 1.0, least) if np.any(least > found.step_s) else found


def recomputed_flop_per_token(model: Model, batch: Batch) -> Num:
    """FLOP that recomputation adds: of the layers, of attention between its products, of MLA's up-projections.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        With its recomputation.

    Returns
    -------
    float or ndarray
        Per token [FLOP/token].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> batch = Batch(4096.0, 64.0, recompute="mla_up_proj")
    >>> round(float(recomputed_flop_per_token(load_model("deepseek-v3"), batch)) / 1e9, 2)
    6.65
    """
    forward = training_flop_per_token(model, batch.attended_tokens) / 3
    if batch.forward_again:
        return forward * batch.forward_again
    attention = forward - 2 * n_params_active(model) if batch.recomputes("core_attn") else 0.0 * forward
    up = layer_counts(model.layers, model.hidden_size).up_params if batch.recomputes("mla_up_proj") else 0.0
    return attention + 2 * up


def rescaled(result: PretrainingResult, factor: Num, least_step_s: Num = 0.0) -> PretrainingResult:
    """Stretch a step, each part but the link between sites, as a measurement says; never beyond the physical limit.

    Parameters
    ----------
    result : PretrainingResult
        As modelled.
    factor : float or ndarray
        New over old time [-].
    least_step_s : float or ndarray
        The physical limit of the step [s].

    Returns
    -------
    PretrainingResult
        The same configuration.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> result = estimate_pretraining(scenario, Machine(load_system("h100-nvl8")))
    >>> round(float(rescaled(result, 1.25).step_s / result.step_s), 6)
    1.25
    """
    step = result.step
    by = np.maximum(factor, least_step_s / step.step_s)
    parts = ("ratio", "microbatch_s", "bubble_s", "gradients_s", "optimizer_s", "fixed_s")
    return replace(result, step=replace(step, **{name: getattr(step, name) * by for name in parts}))


def as_run(scenario: PretrainingScenario) -> tuple[Layout, Batch]:
    """Layout and batch of one site, with what adapters and local steps make of them.

    Parameters
    ----------
    scenario : PretrainingScenario
        As asked.

    Returns
    -------
    tuple of Layout and Batch
        Of one site: the trained share of the parameters is that of adapters, local steps keep an outer optimizer.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.facts.architecture import Lora
    >>> llama, batch = load_model("llama-3.1-8b"), Batch(4096, 32)
    >>> adapted = PretrainingScenario(llama, Layout(dp=8), Precision(), batch, lora=Lora(16))
    >>> round(as_run(adapted)[1].stack.trained_fraction, 4)
    0.0052
    """
    layout, batch, sites = scenario.layout, scenario.batch, scenario.sites
    batch = with_adapters(batch, scenario.model, scenario.lora)
    if sites is None:
        return layout, batch
    if sites.local_steps > 1:
        batch = replace(batch, stack=replace(batch.stack, outer_bytes=OUTER_BYTES))
    return of_one_site(sites, layout, batch)


def check_shared(scenario: PretrainingScenario) -> PretrainingScenario:
    """Refuse a global batch that leaves data-parallel ranks without a microbatch, and a schedule that stages lack.

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
        With what each step holds and how many ranks share it, or how many stages DualPipe needs.

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
    if scenario.sites is not None:
        of_one_site(scenario.sites, layout, batch)
    stages, pieces = int(np.median(layout.pp)), int(np.median(batch.virtual_stages))
    rounds = float(np.median(batch.microbatches(layout)))
    if pieces > 1 and rounds % stages:
        raise LayoutError(
            f"layout {layout}: {pieces} virtual stages run microbatches in multiples of the {stages} stages, not "
            f"{rounds:g}; leave out virtual stages, or halve dp"
        )
    if scenario.schedule == "dualpipe" and stages % 2:
        raise LayoutError(f"layout {layout}: dualpipe feeds an even number of stages from both ends, not {stages}")
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


def batch_sequences(wanted_tokens: float, sequence_tokens: float) -> int:
    """Turn a global batch in tokens into sequences that divide over many ranks.

    The nearest power of two where it lies within 5 %, else the nearest count with four binary digits.

    Parameters
    ----------
    wanted_tokens : float
        Tokens per optimizer step that were asked for [token].
    sequence_tokens : float
        Of one sequence [token].

    Returns
    -------
    int
        Sequences, at least 1 [-].

    Examples
    --------
    >>> batch_sequences(16e6, 8192), batch_sequences(15360 * 4096, 4096), batch_sequences(4e6, 4096)
    (2048, 15360, 1024)
    """
    count = max(wanted_tokens / sequence_tokens, 1.0)
    whole = power_of_two(count)
    if abs(whole / count - 1) <= 0.05:
        return whole
    grain = 2 ** max(math.floor(math.log2(count)) - 3, 0)
    return int(max(round(count / grain), 1) * grain)
