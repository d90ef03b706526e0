"""What a run of a given size takes: the system, the model, the text, and RL and inference of its size in GPU-time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, median, sample
from computeledger.errors import InputError
from computeledger.facts.load import load_accelerator, load_model
from computeledger.frontier.abilities import MIXTURE, Trainable, trainable
from computeledger.frontier.decoding import REFERENCE_MODEL, reinforces, serves
from computeledger.frontier.systems import Generation, TrainingSystem, described_system
from computeledger.frontier.text import epochs, text_facts, worth_tokens_muennighoff_2023
from computeledger.physics.blackboard.ledgers import (
    DECODING_UTILIZATION_RATIO,
    FORWARD_FLOP_PER_PARAM,
    MEDIAN_BETA_FLOP,
    inference_flop,
)
from computeledger.physics.blackboard.training import cluster_time_s, mfu_fraction
from computeledger.physics.transformer import n_params_active
from computeledger.progress import stage
from computeledger.units import HOUR_S, format_si

#: Share of RL's FLOP that generates: 2 N of 10 N a token, beside 2 N of log-probabilities and 6 N of the update
#: (assumption: every rollout is trained on once, no critic).
GENERATED_FRACTION = FORWARD_FLOP_PER_PARAM / MEDIAN_BETA_FLOP


@dataclass(frozen=True, slots=True)
class Used:
    """Utilisation of the bf16 peak by phase.

    Attributes
    ----------
    pretraining, rl_generation, inference : float
        Model FLOP over dense peak [-].
    basis : str
        Where the last two come from.
    """

    pretraining: float
    rl_generation: float
    inference: float
    basis: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A run's tokens against the stock of text.

    Attributes
    ----------
    epochs : float or ndarray
        Passes over the stock [-].
    worth_fraction : float or ndarray
        Worth of its tokens over that of fresh ones [-].
    exceeds_fraction : float
        Chance that the stock is smaller than the run's tokens [-].
    """

    epochs: Num
    worth_fraction: Num
    exceeds_fraction: float


@dataclass(frozen=True, slots=True)
class Needed:
    """What a run takes.

    Attributes
    ----------
    system : TrainingSystem
        That does it in the time given.
    runs : mapping of str to Trainable
        ``dense`` and ``moe``.
    text : mapping of str to Reading
        The same keys.
    pretraining_gpu_hours, rl_gpu_hours, inference_gpu_hours : float
        Of the run; of as many FLOP of RL, a fifth of which generates; and of serving as many tokens as the run read
        with its mixture of experts [h].
    used : Used
        Utilisation that they are counted at.
    """

    system: TrainingSystem
    runs: Mapping[str, Trainable]
    text: Mapping[str, Reading]
    pretraining_gpu_hours: float
    rl_gpu_hours: float
    inference_gpu_hours: float
    used: Used


def reading(tokens: float, n_samples: int = 4096, seed: int = 0) -> Reading:
    """Set a run's tokens against the stock of text.

    Parameters
    ----------
    tokens : float
        Trained on [token].
    n_samples : int
        Samples of the stock [-].
    seed : int
        Of the sampling [-].

    Returns
    -------
    Reading
        Passes, worth, chance.

    Examples
    --------
    >>> round(reading(300e12).exceeds_fraction, 2)
    0.5
    """
    stock = sample({"stock": text_facts()["stock_tokens"].uncertain}, n_samples, seed)["stock"]
    worth = worth_tokens_muennighoff_2023(tokens, stock) / tokens
    return Reading(epochs(tokens, stock), worth, float(np.mean(np.asarray(stock) < tokens)))


def needed_system(flop: float, accelerator_id: str, duration_s: float, utilization_fraction: float) -> Needed:
    """The system that trains a run in a given time, and what else the run takes.

    Parameters
    ----------
    flop : float
        Of the run, in bf16 [FLOP].
    accelerator_id : str
        Its chips.
    duration_s : float
        Time that it may take [s].
    utilization_fraction : float
        Of the dense peak [-].

    Returns
    -------
    Needed
        Chips, power, cost, model, text, GPU-time.

    Raises
    ------
    InputError
        For a run that one chip does in less than the time.

    Examples
    --------
    >>> found = needed_system(3.12e26, "h100-sxm5-80gb", 7889400.0, 0.4)
    >>> round(float(found.system.chips), -3)
    100000.0
    """
    stage("the system that a run needs")
    chip = load_accelerator(accelerator_id)
    chips = float(cluster_time_s(flop, 1.0, chip.peak("bf16"), utilization_fraction)) / duration_s
    if chips < 1:
        least = format_si(flop / chips, "FLOP")
        raise InputError(
            f"{format_si(flop, 'FLOP')} is less than one {chip.id} does in the time: at least {least}, or a shorter run"
        )
    system = described_system(f"{chips:f} chips of {chip.id}")
    runs = {"dense": trainable(flop, duration_s), "moe": trainable(flop, duration_s, MIXTURE)}
    used = decode_utilization(system.generations[0], utilization_fraction)
    served = inference_flop(runs["moe"].n_params_active, runs["moe"].tokens)

    def gpu_hours(work: Num, utilization: float) -> float:
        """GPU-time of some work."""
        return float(cluster_time_s(work, 1.0, chip.peak("bf16"), utilization)) / HOUR_S

    generated = gpu_hours(GENERATED_FRACTION * flop, used.rl_generation)
    return Needed(
        system=system,
        runs=runs,
        text={name: reading(float(run.tokens)) for name, run in runs.items()},
        pretraining_gpu_hours=gpu_hours(flop, utilization_fraction),
        rl_gpu_hours=generated + gpu_hours((1 - GENERATED_FRACTION) * flop, utilization_fraction),
        inference_gpu_hours=gpu_hours(served, used.inference),
        used=used,
    )


def decode_utilization(generation: Generation, pretraining_fraction: float) -> Used:
    """Utilisation of RL's generation and of serving, ``2 N`` per token over the peak, from their models.

    Parameters
    ----------
    generation : Generation
        Chips of one kind.
    pretraining_fraction : float
        Utilisation of pretraining [-].

    Returns
    -------
    Used
        Of :data:`computeledger.frontier.decoding.REFERENCE_MODEL`; by assumption where it does not fit the chips.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> used = decode_utilization(described_system("100K chips of gb200-gpu").generations[0], 0.4)
    >>> 0.02 < used.rl_generation < used.inference < 0.2
    True
    """
    model = load_model(REFERENCE_MODEL)
    stage("RL on that system")
    rl = reinforces(model, generation)
    stage("serving on that system")
    served = serves(model, generation)
    if rl.problem or served.problem:
        assumed = pretraining_fraction * DECODING_UTILIZATION_RATIO
        why = f"decoding assumed at {DECODING_UTILIZATION_RATIO:.2g} of pretraining ({rl.problem or served.problem})"
        return Used(pretraining_fraction, assumed, assumed, why)
    peak = median(generation.chips) * generation.accelerator.peak("bf16")
    generated, answered = (
        float(mfu_fraction(inference_flop(n_params_active(model), median(one)), 1.0, 1.0, peak))
        for one in (rl.sampled_tokens_per_s, served.output_tokens_per_s)
    )
    basis = f"decoding of {REFERENCE_MODEL} from the RL and serving models"
    return Used(pretraining_fraction, generated, answered, basis)
