"""A training step of a described system from the operation model: the best layout, its MFU, and the run's length."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, Range, Uncertain, median, sample
from computeledger.errors import ComputeLedgerError, DoesNotFitError, QuantityError
from computeledger.facts.architecture import Model
from computeledger.facts.reliability import interruptions_per_gpu_s
from computeledger.facts.schema import System
from computeledger.frontier.abilities import Trainable
from computeledger.frontier.shapes import shaped_model
from computeledger.frontier.systems import Generation
from computeledger.physics.calibration.efficiency import efficiency, median_of
from computeledger.physics.calibration.training import load_training_factors, measured_family, training_efficiency
from computeledger.physics.critical_batch import critical_batch_range, critical_batch_tokens
from computeledger.physics.goodput import (
    ASSUMED_ELASTIC,
    ASSUMED_STOPS,
    Reliability,
    elastic_goodput_fraction,
    goodput,
    mean_time_between_failures_s,
)
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.step import step_class
from computeledger.progress import counted
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.scaling import larger_domain
from computeledger.workloads.pretraining.search import PretrainingOption, require_fit

#: Length of a sequence (assumption: as Llama 3 405B was pretrained).
SEQUENCE_TOKENS = 8192.0
#: A job has one of these times a power of two, so that layouts exist; what is left over, 16 % at most, is idle.
_ODD = (1, 3, 5, 7, 9, 15)
#: Draws of failure rates, stops and accuracy of a step.
_N_DRAWS = 256
#: Time on the calendar over useful time beyond which a run counts as one that does not advance.
_LONGEST = 1e6


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """What the chips of one kind do in a step.

    Attributes
    ----------
    accelerator, layout : str
        The chip, and how the model is cut over its GPUs.
    n_gpus : int
        That take part; the rest is left over where no layout divides them [-].
    batch_tokens : float
        Its share of the batch, in sequences that divide over its ranks [token].
    step_s, mfu_fraction, memory_bytes : float
        Of its share [s]; of bf16 [-]; of one GPU [byte].
    goodput_fraction : float
        Useful time over time on the calendar, with failures and checkpoints of so many GPUs [-].
    """

    accelerator: str
    layout: str
    n_gpus: int
    batch_tokens: float
    step_s: float
    mfu_fraction: float
    memory_bytes: float
    goodput_fraction: float


@dataclass(frozen=True, slots=True)
class RunStep:
    """One optimizer step over all generations, and the run made of such steps.

    Attributes
    ----------
    batch_tokens : float
        Of the step [token].
    batch_over_critical : float
        The batch aimed at, before a layout rounds it to whole sequences, over the median of the critical batch [-].
    parts : tuple of GenerationStep
        Data-parallel to each other; the slowest sets the pace.
    step_s, mfu_fraction : float
        Of the whole system [s], over the bf16 peak of all its chips [-].
    busy_s, calendar_s : float
        To the run's tokens without a stop, and on the calendar with failures and checkpoints of so many GPUs, as
        published rates have them; they were measured up to 16K GPUs [s].
    mean_time_between_failures_s : float
        Of the whole job, at those rates [s].
    calendar_low_s, calendar_high_s : float
        Ends of the 90 % interval of the time on the calendar, over published failure rates, assumed stops and what
        measured steps differ by; infinite where the run does not advance [s].
    elastic_s, elastic_low_s, elastic_high_s : float
        On the calendar, with the ends of its 90 % interval, where a failure stops only a part of the job [s].
    problem : str
        Why there is none; empty where there is.
    """

    batch_tokens: float
    batch_over_critical: float
    parts: tuple[GenerationStep, ...] = ()
    step_s: float = float("nan")
    mfu_fraction: float = float("nan")
    busy_s: float = float("nan")
    calendar_s: float = float("nan")
    mean_time_between_failures_s: float = float("nan")
    calendar_low_s: float = float("nan")
    calendar_high_s: float = float("nan")
    elastic_s: float = float("nan")
    elastic_low_s: float = float("nan")
    elastic_high_s: float = float("nan")
    problem: str = ""


def training_machine(system: System) -> Machine:
    """One GPU of a system with the calibrated factors at their medians.

    Parameters
    ----------
    system : System
        Scale-up domain.

    Returns
    -------
    Machine
        For the operation model.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> training_machine(load_system("h100-nvl8")).bf16_flop_per_s
    989400000000000.0
    """
    return Machine(system, efficiency(), training_efficiency())


def cut_gpus(n_gpus: float) -> tuple[int, int]:
    """Largest job of at most so many GPUs that layouts divide: ``m 2^k`` with a small odd ``m``.

    Parameters
    ----------
    n_gpus : float
        At hand, 1 or more [-].

    Returns
    -------
    tuple of int
        GPUs of the job, and their odd part [-].

    Examples
    --------
    >>> cut_gpus(142_000), cut_gpus(72), cut_gpus(11.5)
    ((131072, 1), (72, 9), (10, 5))
    """
    jobs = [(odd * 2 ** int(math.log2(n_gpus / odd)), odd) for odd in _ODD if odd <= n_gpus]
    return max(jobs)


def _sequences(batch_tokens: float, n_gpus: int, odd: int) -> int:
    """Sequences of a batch that divide over the ranks of a job."""
    wanted = max(batch_tokens / SEQUENCE_TOKENS, 1.0)
    grain = odd
    while grain * 4 <= wanted and grain < n_gpus:
        grain *= 2
    return max(round(wanted / grain), 1) * grain


@dataclass(frozen=True, slots=True)
class BestStep:
    """The fastest layout of a job.

    Attributes
    ----------
    n_gpus : int
        That take part [-].
    batch_tokens : float
        In sequences that divide over the ranks [token].
    option : PretrainingOption
        Layout, step, MFU, memory.
    """

    n_gpus: int
    batch_tokens: float
    option: PretrainingOption


def best_step(model: Model, domain: tuple[System, int], n_gpus: float, batch_tokens: float) -> BestStep:
    """Search the fastest layout of a model on chips of one kind, as ``pretrain`` does.

    Parameters
    ----------
    model : Model
        What is trained, in bf16.
    domain : tuple of System and int
        Chips and links, and GPUs in a scale-up domain: the system's own or a what-if [-].
    n_gpus : float
        At hand [-].
    batch_tokens : float
        Of a step [token].

    Returns
    -------
    BestStep
        With the calibrated factors at their medians.

    Raises
    ------
    DoesNotFitError
        Where no layout holds the model.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> best_step(shaped_model("m", 8e9), (load_system("h100-nvl8"), 8), 70.0, 4e6).n_gpus
    64
    """
    system, size = domain
    machine = training_machine(system)
    if size != int(system.n_gpus_scale_up.value):
        machine = larger_domain(machine, size)
    job, odd = cut_gpus(max(n_gpus, 1.0))
    batch = Batch(SEQUENCE_TOKENS, float(_sequences(batch_tokens, job, odd)))
    scenario = PretrainingScenario(model, Layout(), Precision(), batch)
    limits = Limits(size)
    swept = require_fit(scenario, candidates(scenario, job, limits), machine, (job, limits))
    return BestStep(job, median(scenario.global_batch_tokens), swept.best(1)[0])


def _reliability(per_gpu_s: Uncertain) -> Reliability:
    stops = {name: median_of(value) for name, (value, _) in ASSUMED_STOPS.items()}
    return Reliability(interruptions_per_gpu_s=median_of(per_gpu_s), **stops)


def _part(model: Model, generation: Generation, batch_tokens: float, per_gpu_year: Uncertain | None) -> GenerationStep:
    system = generation.system
    if system is None:
        raise DoesNotFitError(f"no shipped scale-up domain is made of {generation.accelerator.id}: see facts search")
    size = int(system.n_gpus_scale_up.value)
    found = best_step(model, (system, size), median(generation.chips), batch_tokens)
    option = found.option
    return GenerationStep(
        accelerator=generation.accelerator.id,
        layout=str(option.layout),
        n_gpus=found.n_gpus,
        batch_tokens=found.batch_tokens,
        step_s=option.step_s,
        mfu_fraction=option.mfu_fraction,
        memory_bytes=option.memory_bytes,
        goodput_fraction=job_goodput_fraction(found.n_gpus, per_gpu_year),
    )


def job_goodput_fraction(n_gpus: int, per_gpu_year: Uncertain | None = None) -> float:
    """Share of the time in which a job advances whose every failure stops it whole.

    Parameters
    ----------
    n_gpus : int
        Of the job [-].
    per_gpu_year : float, ndarray or Range, optional
        Unexpected stops per GPU and year; as published where none is given, measured up to 16K GPUs [1/year].

    Returns
    -------
    float
        With checkpoints and restarts taken off; 0 where it fails too often to advance [-].

    Examples
    --------
    >>> job_goodput_fraction(131_072) < job_goodput_fraction(16_384) < 1
    True
    """
    try:
        return float(median(goodput(_reliability(interruptions_per_gpu_s(per_gpu_year)), n_gpus).goodput_fraction))
    except QuantityError:  # it fails so often that it does not advance
        return 0.0


@functools.lru_cache(maxsize=64)
def _inverse_goodput(n_gpus: int, per_gpu_year: Uncertain | None) -> NDArray[np.float64]:
    """Time on the calendar over useful time of a job, a sample a draw of its failure rate and stops, in one order."""
    ranges = {name: value for name, (value, _) in ASSUMED_STOPS.items()}
    draws = sample({"interruptions_per_gpu_s": interruptions_per_gpu_s(per_gpu_year), **ranges}, _N_DRAWS)
    found = []
    for place in range(_N_DRAWS):
        one = {name: float(np.broadcast_to(values, _N_DRAWS)[place]) for name, values in draws.items()}
        try:
            found.append(1.0 / float(median(goodput(Reliability(**one), n_gpus).goodput_fraction)))
        except QuantityError:  # it fails so often that it does not advance
            found.append(math.inf)
    return np.array(found)


@functools.lru_cache(maxsize=64)
def _inverse_elastic(n_gpus: int, per_gpu_year: Uncertain | None) -> NDArray[np.float64]:
    """Time on the calendar over useful time of a job whose failures stop a part of it, a sample a draw."""
    ranges = {name: value for name, (value, _) in {**ASSUMED_STOPS, **ASSUMED_ELASTIC}.items()}
    draws = sample({"interruptions_per_gpu_s": interruptions_per_gpu_s(per_gpu_year), **ranges}, _N_DRAWS)
    cost = {name: draws.pop(name) for name in ASSUMED_ELASTIC}
    share = np.broadcast_to(elastic_goodput_fraction(Reliability(**draws), n_gpus, **cost), _N_DRAWS)
    return np.where(share > 1 / _LONGEST, 1.0 / np.maximum(share, 1 / _LONGEST), math.inf)


def _elastic_fraction(n_gpus: int, per_gpu_year: Uncertain | None) -> float:
    """Share of the time in which a job advances whose failures stop a part of it."""
    cost = {name: median_of(value) for name, (value, _) in ASSUMED_ELASTIC.items()}
    return float(elastic_goodput_fraction(_reliability(interruptions_per_gpu_s(per_gpu_year)), n_gpus, **cost))


def _ends_s(
    model: Model, generations: Sequence[Generation], busy_s: float, inverses: Sequence[NDArray[np.float64]]
) -> tuple[float, float]:
    """The 90 % interval of a run's time on the calendar, with the accuracy of steps like its own."""
    factors = load_training_factors()
    batch = Batch(SEQUENCE_TOKENS, 1.0)
    kinds = [step_class(model, batch, measured_family(one.accelerator)) for one in generations]
    ratios = [value for kind in kinds if isinstance(value := factors[f"training_{kind}_ratio"].value, Range)]
    slower: Num = 1.0
    if ratios:  # the least known chip sets how sure the pace is
        values = sample({"step": max(ratios, key=lambda one: one.high / one.low)}, _N_DRAWS)["step"]
        slower = values / np.median(values)
    whole = busy_s * slower * math.prod(inverses)
    low, high = np.quantile(np.asarray(whole), (0.05, 0.95), method="nearest")
    return float(low), float(high)


def run_step(
    model: Model, generations: Sequence[Generation], tokens: float, batch: tuple[float, float],
    per_gpu_year: Uncertain | None = None,
) -> RunStep:  # fmt: skip
    """Time a step over all generations: each takes a share of the batch by its peak, the slowest sets the pace.

    Parameters
    ----------
    model : Model
        What is trained, in bf16.
    generations : sequence of Generation
        Of the system, at the median of their numbers.
    tokens : float
        Of the run [token].
    batch : tuple of float
        Tokens of a step, and the same over the critical batch [-].
    per_gpu_year : float, ndarray or Range, optional
        Unexpected stops per GPU and year; as published where none is given [1/year].

    Returns
    -------
    RunStep
        With its layouts, or with the reason why there is none.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> from computeledger.units import MONTH_S
    >>> found = run_step(shaped_model("m", 405e9), described_system("16384 chips of h100-sxm5-80gb").generations,
    ...                  15.6e12, (16.8e6, 1.0))
    >>> found.parts[0].n_gpus, bool(0.3 < found.mfu_fraction < 0.5), bool(2.0 < found.calendar_s / MONTH_S < 4.0)
    (16384, True, True)
    """
    peaks = [median(one.chips) * one.accelerator.peak("bf16") for one in generations]
    whole, over = batch
    try:
        parts = tuple(
            _part(model, one, whole * peak / sum(peaks), per_gpu_year)
            for one, peak in zip(generations, peaks, strict=True)
        )
    except ComputeLedgerError as error:
        return RunStep(whole, over, problem=str(error))
    step_s = max(one.step_s for one in parts)
    batch_tokens = sum(one.batch_tokens for one in parts)
    busy = sum(one.mfu_fraction * one.step_s * one.n_gpus * generation.accelerator.peak("bf16")
               for one, generation in zip(parts, generations, strict=True))  # fmt: skip
    busy_s = tokens / batch_tokens * step_s
    useful = math.prod(one.goodput_fraction for one in parts)
    mfu = busy / step_s / sum(peaks)
    rate = median_of(interruptions_per_gpu_s(per_gpu_year))
    between_s = float(mean_time_between_failures_s(sum(one.n_gpus for one in parts), rate))
    gpus = [one.n_gpus for one in parts]
    ends = _ends_s(model, generations, busy_s, [_inverse_goodput(one, per_gpu_year) for one in gpus])
    rides = math.prod(_elastic_fraction(one, per_gpu_year) for one in gpus)
    elastic_s = busy_s / rides if rides > 1 / _LONGEST else math.inf
    elastic_ends = _ends_s(model, generations, busy_s, [_inverse_elastic(one, per_gpu_year) for one in gpus])
    times = (busy_s, busy_s / useful if useful else math.inf, between_s, *ends, elastic_s, *elastic_ends)
    return RunStep(batch_tokens, over, parts, step_s, mfu, *times)


def run_steps(
    run: Trainable, generations: Sequence[Generation], name: str = "model", per_gpu_year: Uncertain | None = None
) -> list[RunStep]:
    """Time a run at its critical batch: at the median, and at both ends of its interval where it has one.

    Parameters
    ----------
    run : Trainable
        At the median of its numbers.
    generations : sequence of Generation
        Of the system.
    name : str
        Of the model.
    per_gpu_year : float, ndarray or Range, optional
        Unexpected stops per GPU and year; as published where none is given [1/year].

    Returns
    -------
    list of RunStep
        By batch, the smallest first; at the median ``batch_over_critical`` is 1.

    Examples
    --------
    >>> from computeledger.frontier.abilities import trains
    >>> from computeledger.frontier.systems import described_system
    >>> from computeledger.units import MONTH_S
    >>> system = described_system("2048 chips of h100-sxm5-80gb")
    >>> steps = run_steps(trains(system, 4 * MONTH_S)["dense"], system.generations)
    >>> [round(one.batch_over_critical, 2) for one in steps], bool(steps[0].mfu_fraction < steps[2].mfu_fraction)
    ([0.34, 1.0, 1.45], True)
    """
    model = run_model(run, name)
    tokens = median(run.tokens)
    critical = critical_batch_range(tokens)
    middle_tokens = float(critical_batch_tokens(tokens))
    tried = (critical.low, middle_tokens, critical.high) if isinstance(critical, Range) else (middle_tokens,)
    return [
        run_step(model, generations, tokens, (batch, batch / middle_tokens), per_gpu_year)
        for batch in counted(tried, "batches")
    ]


def run_model(run: Trainable, name: str) -> Model:
    """Shape the model of a run.

    Parameters
    ----------
    run : Trainable
        At the median of its numbers.
    name : str
        Of the model.

    Returns
    -------
    Model
        Dense, or a mixture where more is stored than multiplied.

    Examples
    --------
    >>> from computeledger.frontier.abilities import trainable
    >>> run_model(trainable(1e25, 1e7), "dense").n_layers
    120
    """
    active, total = median(run.n_params_active), median(run.n_params_total)
    return shaped_model(name, active, total if total > active else None)
