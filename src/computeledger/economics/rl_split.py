"""Who has which GPUs in the RL section of a plan: as it says, or so that a step is soonest done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import median
from computeledger.economics.setting import Setting
from computeledger.errors import DoesNotFitError, PlanError
from computeledger.physics.parallelism import Layout
from computeledger.physics.training import training_memory
from computeledger.units import format_count
from computeledger.workloads.pretraining import USABLE_FRACTION
from computeledger.workloads.rl import estimate_rl
from computeledger.workloads.rl_scenario import RLMachines, RLScenario, Split, shares_apart
from computeledger.workloads.rl_search import side_by_side, with_share


def stated_lag(setting: Setting) -> int | None:
    """Largest policy lag that a section states.

    Parameters
    ----------
    setting : Setting
        Of the RL section.

    Returns
    -------
    int or None
        0 when synchronous; None where it is asynchronous and leaves the lag open [-].

    Raises
    ------
    PlanError
        Where mode and lag contradict each other.
    """
    mode, lag = setting.section.text("mode"), median(setting.optional("max_lag", 0.0))
    if lag < 0 or lag != int(lag):
        raise PlanError(f"[rl] max_lag = {lag:g}: a whole number of steps, at least 0")
    is_open = "max_lag" not in setting.section
    if (mode == "synchronous" and lag > 0) or (mode == "asynchronous" and lag == 0 and not is_open):
        raise PlanError(f'[rl] mode = "{mode}" and max_lag = {lag:g} contradict each other')
    return None if mode == "asynchronous" and is_open else int(lag)


def stated_split(setting: Setting) -> tuple[float, float] | None:
    """GPUs that generate and that train, where a section states either.

    Parameters
    ----------
    setting : Setting
        Of the RL section.

    Returns
    -------
    tuple of float or None
        Both; the one that is left out gets the rest of ``gpus`` [-].

    Raises
    ------
    PlanError
        Where they do not fit ``gpus``.
    """
    gpus = median(setting.number("gpus"))
    given = {key: median(setting.optional(f"{key}_gpus", 0.0)) for key in ("generation", "training")}
    if not any(given.values()):
        return None
    generation = given["generation"] or gpus - given["training"]
    training = given["training"] or gpus - given["generation"]
    if generation <= 0 or training <= 0 or generation + training > gpus:
        raise PlanError(
            f"[rl] generation_gpus = {generation:g} and training_gpus = {training:g} do not fit gpus = {gpus:g}"
        )
    return generation, training


def balanced_split(
    run: RLScenario, layouts: Sequence[Layout], machines: RLMachines, is_held_to_memory: bool
) -> RLScenario:
    """Share the GPUs so that a step is soonest done.

    Parameters
    ----------
    run : RLScenario
        With single numbers; the GPUs of its split are shared anew, its trainer keeps its cut of the model.
    layouts : sequence of Layout
        A generation replica may have.
    machines : RLMachines
        With single numbers as factors.
    is_held_to_memory : bool
        Whether a trainer on fewer GPUs must still hold its share of the optimiser's state.

    Returns
    -------
    RLScenario
        With split, generation layout and trainer.

    Raises
    ------
    DoesNotFitError
        Where no share of the GPUs holds a replica, and the rest the trainer.
    """
    n_gpus = float(run.split.n_gpus)
    pairs, generation, training = shares_apart(n_gpus, run.trainer.layout, layouts)
    refused = f"{run.engine.model.id} does not fit {format_count(n_gpus, 'GPU')} under RL with a trainer of its own"
    if not pairs:
        raise DoesNotFitError(refused)
    split = replace(run.split, n_generation=generation, n_training=n_gpus - generation)
    engine = replace(run.engine, layout=side_by_side([layout for layout, _ in pairs]))
    tried = replace(run, split=split, engine=engine, trainer=with_share(run.trainer, training))
    result = estimate_rl(tried, machines)
    legal = np.broadcast_to(np.asarray(result.fits), generation.shape)
    if is_held_to_memory:
        legal = legal & _trains(tried, machines)
    step_s = np.where(legal, np.broadcast_to(result.step_s, generation.shape), np.inf)
    best = int(np.argmin(step_s))
    if not np.isfinite(step_s[best]):
        raise DoesNotFitError(refused)
    layout, generators = pairs[best]
    found = replace(run.split, n_generation=float(generators), n_training=n_gpus - float(generators))
    trainer = with_share(run.trainer, float(training[best]))
    return replace(run, split=found, engine=replace(run.engine, layout=layout), trainer=trainer)


def apart(run: RLScenario, generation: float, training: float) -> RLScenario:
    """Give generators and trainer GPUs of their own.

    Parameters
    ----------
    run : RLScenario
        Its lag and its cut of the model stay.
    generation, training : float
        GPUs of each [-].

    Returns
    -------
    RLScenario
        With that split.

    Raises
    ------
    PlanError
        Where the trainer's GPUs do not hold one copy of the model.
    """
    cut = run.trainer.layout
    unit = float(cut.tp * cut.pp * cut.cp)
    if training < unit:
        raise PlanError(f"[rl] training_gpus = {training:g}: the trainer's cut of the model takes {unit:g}")
    split = Split(generation, training, False, run.split.max_lag, run.split.is_in_flight)
    return replace(run, split=split, trainer=with_share(run.trainer, training))


def _trains(run: RLScenario, machines: RLMachines) -> NDArray[np.bool_]:
    """Whether the trainer's GPUs hold a full microbatch."""
    trainer = run.trainer
    batch = trainer.batch(trainer.pack_tokens, run.algorithm.rollouts)
    held = training_memory(run.engine.model, batch, trainer.layout)
    return np.asarray(held.total_bytes <= USABLE_FRACTION * machines.training.system.accelerator.hbm_bytes.value)
