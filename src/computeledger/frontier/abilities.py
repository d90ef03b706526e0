"""What a training system can train, do RL with, and serve: from the project's own models, at stated assumptions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from computeledger.arrays import Num, median
from computeledger.economics.scaling import tokens_per_param_at_optimum
from computeledger.errors import DoesNotFitError, InputError
from computeledger.facts.load import load_model
from computeledger.frontier.systems import DEFAULT_UTILIZATION_FRACTION, Generation, TrainingSystem
from computeledger.frontier.text import absorbed_tokens_morris_2025, epochs, text_facts
from computeledger.physics.blackboard import pretraining_flop
from computeledger.physics.blackboard_training import optimizer_steps
from computeledger.physics.critical_batch import critical_batch_merrill_2025_tokens
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision, parse_precision
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.workloads.serving import ServingScenario, estimate_serving
from computeledger.workloads.serving_search import ServingOption, layouts_that_fit, search_serving

#: Model that RL and serving are answered for (assumption: the best known large mixture of experts).
REFERENCE_MODEL = "deepseek-v3"
#: Slowest token that a user is served, and lengths of a request (assumptions).
SERVED_TPOT_S, INPUT_TOKENS, OUTPUT_TOKENS = 0.05, 1024.0, 1024.0
#: RL rollouts: mean length, longest over mean, rollouts of a step (assumptions; the documents count 10K to 50K tokens).
ROLLOUT_TOKENS, LONGEST_OVER_MEAN, ROLLOUTS_PER_STEP = 30_000.0, 3.0, 4096.0


@dataclass(frozen=True, slots=True)
class Trainable:
    """A run that fills the system's time.

    Attributes
    ----------
    flop : float or ndarray
        Of the run [FLOP].
    n_params_active, n_params_total : float or ndarray
        Multiplied per token, and stored [-].
    tokens : float or ndarray
        Trained on [token].
    critical_batch_tokens : float or ndarray
        Largest batch that costs no loss per token, at the end of the run [token].
    steps : float or ndarray
        Optimiser steps at that batch [-].
    step_s : float or ndarray
        One step, by the utilisation [s].
    epochs : float or ndarray
        Passes over the stock of text, at its middle estimate [-].
    dense_equivalent_flop : float or ndarray
        What a dense model of the same loss would take [FLOP].
    absorbs_fraction : float or ndarray
        Of the stock of text, held by heart at the capacity of its parameters; above 1 all of it would fit [-].
    """

    flop: Num
    n_params_active: Num
    n_params_total: Num
    tokens: Num
    critical_batch_tokens: Num
    steps: Num
    step_s: Num
    epochs: Num
    dense_equivalent_flop: Num
    absorbs_fraction: Num


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How a mixture of experts differs from a dense model; the default is the dense model.

    Attributes
    ----------
    total_over_active_ratio : float
        Total over active parameters [-].
    tokens_ratio : float
        Tokens per active parameter over the dense optimum [-].
    compute_ratio : float
        Compute that a dense model of the same loss takes over its own [-].
    """

    total_over_active_ratio: float = 1.0
    tokens_ratio: float = 1.0
    compute_ratio: float = 1.0


#: Of the documents (assumption): 1:32 takes 6x to 7x less compute (training-systems C084), and about five times the
#: tokens per active parameter (C086: 4.98 at 1:20).
MIXTURE = Sparsity(total_over_active_ratio=32.0, tokens_ratio=5.0, compute_ratio=6.5)


def trainable(flop: Num, duration_s: float, sparsity: Sparsity | None = None) -> Trainable:
    """Compute-optimal model of a training budget: ``N = sqrt(C / (6 r))``, ``D = r N``.

    ``r`` is the tokens per parameter of the loss law at the optimum, times ``tokens_ratio``.

    Parameters
    ----------
    flop : float or ndarray
        Budget [FLOP].
    duration_s : float
        Length of the run [s].
    sparsity : Sparsity, optional
        Of a mixture of experts; a dense model when left out.

    Returns
    -------
    Trainable
        Model, tokens, batch and step.

    Examples
    --------
    >>> run = trainable(5.76e23, 1e6)
    >>> f"{run.n_params_active:.3g} {run.tokens:.3g}"
    '7.22e+10 1.33e+12'
    >>> abs(pretraining_flop(run.n_params_active, run.tokens) / 5.76e23 - 1) < 1e-9
    True
    """
    moe = sparsity or Sparsity()
    ratio = tokens_per_param_at_optimum(flop) * moe.tokens_ratio
    active: Num = (flop / pretraining_flop(1.0, 1.0) / ratio) ** 0.5
    tokens = ratio * active
    batch = critical_batch_merrill_2025_tokens(tokens)
    steps = optimizer_steps(tokens, batch)
    stock = text_facts()["stock_tokens"].value
    return Trainable(
        flop=flop,
        n_params_active=active,
        n_params_total=active * moe.total_over_active_ratio,
        tokens=tokens,
        critical_batch_tokens=batch,
        steps=steps,
        step_s=duration_s / steps,
        epochs=epochs(tokens, stock),
        dense_equivalent_flop=flop * moe.compute_ratio,
        absorbs_fraction=absorbed_tokens_morris_2025(active * moe.total_over_active_ratio) / stock,
    )


def trains(
    system: TrainingSystem, duration_s: float, utilization_fraction: Num = DEFAULT_UTILIZATION_FRACTION
) -> dict[str, Trainable]:
    """What a system trains in some time in bf16: a dense model and a mixture of experts.

    Parameters
    ----------
    system : TrainingSystem
        Described.
    duration_s : float
        Length of the run [s].
    utilization_fraction : float or ndarray
        Of the dense peak [-].

    Returns
    -------
    dict of str to Trainable
        ``dense`` and ``moe``.

    Raises
    ------
    InputError
        A run of no length.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> from computeledger.units import MONTH_S
    >>> run = trains(described_system("100K chips of h100-sxm5-80gb"), 3 * MONTH_S)["dense"]
    >>> f"{run.flop:.3g}"
    '3.12e+26'
    """
    if duration_s <= 0:
        raise InputError(f"duration = {duration_s:g} s: a run takes more than 0")
    flop = system.flop("bf16", duration_s, utilization_fraction)
    return {
        "dense": trainable(flop, duration_s),
        "moe": trainable(flop, duration_s, MIXTURE),
    }


@dataclass(frozen=True, slots=True)
class Serves:
    """How a system serves the reference model.

    Attributes
    ----------
    model, layout, precision, profile : str
        Of a replica.
    output_tokens_per_s : float or ndarray
        Over all chips [token/s].
    tpot_s : float
        Of a user [s].
    """

    model: str
    layout: str
    precision: str
    profile: str
    output_tokens_per_s: Num
    tpot_s: float


@dataclass(frozen=True, slots=True)
class Reinforces:
    """How a system does RL with the reference model.

    Attributes
    ----------
    model, layout : str
        Of a replica that generates.
    fits_scale_up : bool
        Whether weights and one rollout lie within one scale-up domain.
    world_hbm_bytes : float
        HBM of that domain [byte].
    largest_n_params : float
        Parameters whose 8-bit weights fill half of it, the other half holding caches [-].
    rollout_s : float
        Time of the longest rollout [s].
    sampled_tokens_per_s : float or ndarray
        Over all chips, at the live batch found [token/s].
    """

    model: str
    layout: str
    fits_scale_up: bool
    world_hbm_bytes: float
    largest_n_params: float
    rollout_s: float
    sampled_tokens_per_s: Num


def _engine(generation: Generation) -> tuple[ServingScenario, Machine, Precision] | None:
    if generation.system is None:
        return None
    model = load_model(REFERENCE_MODEL)
    chip = generation.accelerator
    name = "fp8" if chip.native_precision("fp8") == "fp8" else "bf16"
    precision = parse_precision(name, moe=n_params_total(model) > n_params_active(model))
    scenario = ServingScenario(model, Layout(), precision, INPUT_TOKENS, OUTPUT_TOKENS, 1.0)
    return scenario, Machine(generation.system), precision


def serves(generation: Generation) -> Serves | None:
    """Most tokens per second at a bearable speed, at the physical limit of the chips.

    Parameters
    ----------
    generation : Generation
        Chips of one kind.

    Returns
    -------
    Serves or None
        None where no shipped scale-up domain is made of the chip, or none holds the model.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> found = serves(described_system("72 chips of gb200-gpu").generations[0])
    >>> found.precision, bool(found.output_tokens_per_s > 5e5)
    ('fp8', True)
    """
    engine = _engine(generation)
    if engine is None:
        return None
    scenario, machine, precision = engine
    try:
        options = search_serving(scenario, layouts_that_fit(scenario, machine), machine)
    except DoesNotFitError:
        return None
    bearable = [one for one in options if one.tpot_s <= SERVED_TPOT_S]
    if not bearable:
        return None
    best: ServingOption = max(bearable, key=lambda one: one.output_tokens_per_s_per_gpu)
    rate = best.output_tokens_per_s_per_gpu * generation.chips
    return Serves(REFERENCE_MODEL, str(best.layout), precision.name, "ideal", rate, best.tpot_s)


def reinforces(generation: Generation) -> Reinforces | None:
    """Whether RL fits the scale-up world, and how fast it samples, at the physical limit of the chips.

    Parameters
    ----------
    generation : Generation
        Chips of one kind.

    Returns
    -------
    Reinforces or None
        None where no shipped scale-up domain is made of the chip, or the chips hold no replica.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> found = reinforces(described_system("8K chips of gb200-gpu").generations[0])
    >>> found.fits_scale_up, round(found.world_hbm_bytes / 1e12, 1)
    (True, 13.4)
    """
    engine = _engine(generation)
    if engine is None or generation.system is None:
        return None
    scenario, machine, _ = engine
    world = int(generation.system.n_gpus_scale_up.value)
    hbm = world * generation.accelerator.hbm_bytes.value
    n_gpus = max(median(generation.chips) // world * world, 1.0)
    rollouts = replace(scenario, input_tokens=INPUT_TOKENS, output_tokens=ROLLOUT_TOKENS)
    try:
        options = search_serving(rollouts, layouts_that_fit(rollouts, machine), machine)
    except DoesNotFitError:
        return None
    # a replica holds no more rollouts than its share of a step's
    held = [one for one in options if one.batch <= max(ROLLOUTS_PER_STEP * int(one.layout.n_gpus) / n_gpus, 1.0)]
    best = max(held, key=lambda one: one.output_tokens_per_s_per_gpu)
    layout, batch = best.layout, float(best.batch)
    timed = estimate_serving(replace(rollouts, layout=layout, batch=batch), machine)
    tpot = median(timed.tpot_s)
    return Reinforces(
        model=REFERENCE_MODEL,
        layout=str(layout),
        fits_scale_up=int(layout.n_gpus) <= world,
        world_hbm_bytes=hbm,
        largest_n_params=hbm / 2,
        rollout_s=LONGEST_OVER_MEAN * ROLLOUT_TOKENS * tpot,
        sampled_tokens_per_s=batch / tpot * (generation.chips / layout.n_gpus),
    )
