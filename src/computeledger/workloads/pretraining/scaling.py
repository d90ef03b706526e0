"""How a search's answer holds: margins between layouts, more or fewer GPUs, and a batch that grows during the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Num, Range, median, sample
from computeledger.errors import InputError
from computeledger.facts.schema import Fact
from computeledger.physics.critical_batch import BatchPhase, critical_batch_tokens, worth_of_batches
from computeledger.physics.goodput import Reliability, goodput
from computeledger.physics.roofline import Machine
from computeledger.units import HOUR_S
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingScenario, batch_sequences, estimate_pretraining
from computeledger.workloads.pretraining.search import PretrainingOption, chosen, require_fit


@dataclass(frozen=True, slots=True)
class Margin:
    """An option against the winner, over the same samples.

    Attributes
    ----------
    option : PretrainingOption
        What is compared.
    step_ratio : float or ndarray
        Its step over the winner's: what both share cancels, what the model leaves out of either does not [-].
    """

    option: PretrainingOption
    step_ratio: Num

    @property
    def level(self) -> bool:
        """Whether it may as well be the faster one: the 90 % interval of the ratio reaches 1."""
        return float(np.quantile(np.asarray(self.step_ratio, float), 0.05)) <= 1

    @property
    def faster_fraction(self) -> float:
        """Share of the samples in which it beats the winner [-]."""
        return float(np.mean(np.asarray(self.step_ratio, float) < 1))


def margins(
    scenario: PretrainingScenario, options: list[PretrainingOption], machine: Machine, within: float = 0.0
) -> list[Margin]:
    """Compare options with the first one under the same samples of the efficiency factors.

    The model's error differs from one configuration to the next: each option's ratio carries a scatter of its own.

    Parameters
    ----------
    scenario : PretrainingScenario
        Of the search.
    options : list of PretrainingOption
        The winner first.
    machine : Machine
        With samples.
    within : float
        Standard deviation of the logarithm of that scatter, as in :mod:`computeledger.workloads.anchor` [-].

    Returns
    -------
    list of Margin
        One for each option; the winner's ratio is 1.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0))
    >>> option = PretrainingOption(Layout(dp=8), 1, "full", 1.0, 0.4, 1e9)
    >>> margins(scenario, [option], Machine(load_system("h100-nvl8")))[0].level
    True
    """
    steps = [np.asarray(estimate_pretraining(chosen(scenario, one), machine).step_s, float) for one in options]
    return [
        Margin(option, step / steps[0] * _own(place, step.size, within))
        for place, (option, step) in enumerate(zip(options, steps, strict=True))
    ]


def _own(place: int, n_samples: int, within: float) -> Num:
    """Scatter of one option against the first, by sample."""
    if place == 0 or within == 0 or n_samples < 2:
        return 1.0
    half = math.exp(Z_95 * within)
    drawn = sample({f"layout {place}": Range(1 / half, half)}, n_samples)
    return drawn[f"layout {place}"]


def n_level(step_s: NDArray[np.float64], within: float) -> int:
    """Count options that cannot be told from the fastest, by the scatter alone.

    Parameters
    ----------
    step_s : ndarray
        Steps of the options that fit [s].
    within : float
        Standard deviation of the logarithm of the scatter [-].

    Returns
    -------
    int
        How many, the fastest among them [-].

    Examples
    --------
    >>> n_level(np.array([1.0, 1.1, 2.0]), 0.1)
    2
    """
    return int(np.count_nonzero(step_s <= step_s.min() * math.exp(Z_95 * within))) if step_s.size else 0


@dataclass(frozen=True, slots=True)
class Scaled:
    """The best layout on one number of GPUs.

    Attributes
    ----------
    n_gpus : int
        GPUs of the job [-].
    global_batch_tokens : float
        Tokens per optimizer step [token].
    option : PretrainingOption or None
        None where nothing fits or divides.
    tokens_per_s_per_gpu : float
        At the median of the efficiency factors; 0 without an option [token/s].
    goodput_fraction : float
        At the median rates [-].
    elapsed_s, gpu_hours : float
        Of the run, with failures [s], [h].
    beyond_critical : bool
        Whether the batch exceeds the critical batch at the end of the run.
    problem : str
        Why there is no option.
    worth_fraction : float
        Of the run's tokens with that batch, against a small one's, at the median growth of the critical batch [-].
    """

    n_gpus: int
    global_batch_tokens: float
    option: PretrainingOption | None
    tokens_per_s_per_gpu: float = 0.0
    goodput_fraction: float = 0.0
    elapsed_s: float = float("inf")
    gpu_hours: float = float("inf")
    beyond_critical: bool = False
    problem: str = ""
    worth_fraction: float = 1.0


def scale(
    scenario: PretrainingScenario, n_gpus: list[int], machine: Machine, reliability: Reliability, limits: Limits,
    weak: bool = False,
) -> list[Scaled]:  # fmt: skip
    """Find the best layout for several numbers of GPUs.

    Parameters
    ----------
    scenario : PretrainingScenario
        Model, tokens, and the global batch of the middle number of GPUs.
    n_gpus : list of int
        Numbers of GPUs, ascending [-].
    machine : Machine
        With single numbers as efficiency factors.
    reliability : Reliability
        With single numbers.
    limits : Limits
        What may be chosen.
    weak : bool
        Whether the batch grows with the GPUs; else it stays.

    Returns
    -------
    list of Scaled
        One for each number.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0), 1e12)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> [one.n_gpus for one in scale(scenario, [8, 16], machine, Reliability(5e-9), Limits(8))]
    [8, 16]
    """
    middle = n_gpus[len(n_gpus) // 2]
    tokens = float(np.median(np.asarray(scenario.global_batch_tokens)))
    return [
        _scaled(scenario, count, tokens * (count / middle if weak else 1.0), (machine, reliability, limits))
        for count in n_gpus
    ]


def _scaled(
    scenario: PretrainingScenario, n_gpus: int, batch_tokens: float, setting: tuple[Machine, Reliability, Limits]
) -> Scaled:
    machine, reliability, limits = setting
    sequence = float(np.median(np.asarray(scenario.batch.sequence_tokens)))
    sequences = batch_sequences(batch_tokens, sequence)
    one = replace(scenario, batch=replace(scenario.batch, global_sequences=float(sequences)))
    tokens = median(scenario.tokens)
    batch_tokens = sequences * sequence
    try:
        best = require_fit(one, candidates(one, n_gpus, limits), machine, (n_gpus, limits)).best(1)[0]
    except InputError as error:
        return Scaled(n_gpus, batch_tokens, None, problem=str(error))
    speed = one.batch.useful_fraction * batch_tokens / best.step_s / n_gpus
    share = float(np.median(np.asarray(goodput(reliability, n_gpus).goodput_fraction)))
    hours = tokens / speed / share / HOUR_S
    beyond = batch_tokens > 1.01 * float(critical_batch_tokens(tokens))
    worth = float(worth_of_batches([BatchPhase(batch_tokens, 0.0, tokens)])) / tokens
    days = hours * HOUR_S / n_gpus
    return Scaled(n_gpus, batch_tokens, best, speed, share, days, hours, beyond, worth_fraction=worth)


def counts_around(n_gpus: int, doublings: int = 3) -> list[int]:
    """Numbers of GPUs around one, by factors of two.

    Parameters
    ----------
    n_gpus : int
        In the middle [-].
    doublings : int
        On each side [-].

    Returns
    -------
    list of int
        Ascending, whole [-].

    Examples
    --------
    >>> counts_around(96, 2), counts_around(3, 1)
    ([24, 48, 96, 192, 384], [3, 6])
    """
    fewer = [n_gpus // 2**k for k in range(doublings, 0, -1) if n_gpus % 2**k == 0]
    return [*fewer, n_gpus, *(n_gpus * 2**k for k in range(1, doublings + 1))]


@dataclass(frozen=True, slots=True)
class GrownPhase:
    """A part of a run with a growing batch, on two scale-up domains.

    Attributes
    ----------
    phase : BatchPhase
        Batch and tokens.
    here, larger : Scaled
        On the system, and with the larger scale-up domain.
    """

    phase: BatchPhase
    here: Scaled
    larger: Scaled


def larger_domain(machine: Machine, n_scale_up: int) -> Machine:
    """The same chips and links with another size of the scale-up domain.

    Parameters
    ----------
    machine : Machine
        As it is.
    n_scale_up : int
        GPUs of the other domain [-].

    Returns
    -------
    Machine
        A what-if; its domain is an assumption.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> larger_domain(Machine(load_system("h100-nvl8")), 72).system.n_gpus_scale_up.value
    72.0
    """
    was = machine.system.n_gpus_scale_up
    other = Fact(float(n_scale_up), was.unit, f"{n_scale_up} GPUs", "assumption", was.date, "what if", note="a what-if")
    return replace(machine, system=replace(machine.system, n_gpus_scale_up=other))


def grow(
    scenario: PretrainingScenario, n_gpus: int, phases: list[BatchPhase], setting: tuple[Machine, Reliability, Limits],
    n_larger: int,
) -> list[GrownPhase]:  # fmt: skip
    """Find the best layout of each part of a run whose batch grows, here and with a larger scale-up domain.

    Parameters
    ----------
    scenario : PretrainingScenario
        Of the run.
    n_gpus : int
        GPUs of the job [-].
    phases : list of BatchPhase
        Parts of the run.
    setting : tuple of Machine, Reliability and Limits
        With single numbers.
    n_larger : int
        GPUs of the larger scale-up domain [-].

    Returns
    -------
    list of GrownPhase
        One for each part.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0), 1e12)
    >>> setting = Machine(load_system("h100-nvl8")), Reliability(5e-9), Limits(8)
    >>> found = grow(scenario, 64, [BatchPhase(262144.0, 0.0, 1e12)], setting, 72)[0]
    >>> bool(found.larger.elapsed_s <= found.here.elapsed_s)
    True
    """
    machine, reliability, limits = setting
    other = larger_domain(machine, n_larger), reliability, replace(limits, n_scale_up=n_larger)
    out = []
    for phase in phases:
        part = replace(scenario, tokens=phase.tokens)
        here, larger = (_scaled(part, n_gpus, phase.batch_tokens, one) for one in (setting, other))
        out.append(GrownPhase(phase, here, larger))
    return out
