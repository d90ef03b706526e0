"""What the RL section of a plan states of its lag and of who has which GPUs."""

from __future__ import annotations

from computeledger.arrays import median
from computeledger.economics.plan.setting import Setting
from computeledger.errors import PlanError
from computeledger.workloads.rl.scenario import NEEDS_LAG


def stated_lag(setting: Setting) -> int:
    """Largest policy lag of a section.

    Parameters
    ----------
    setting : Setting
        Of the RL section.

    Returns
    -------
    int
        0 when synchronous; where an asynchronous section leaves it open, as many steps as it has in flight [-].

    Raises
    ------
    PlanError
        Where mode, lag and in-flight updates contradict each other.
    """
    mode, lag = setting.section.text("mode"), median(setting.optional("max_lag", 0.0))
    if lag < 0 or lag != int(lag):
        raise PlanError(f"[rl] max_lag = {lag:g}: a whole number of steps, at least 0")
    is_open = "max_lag" not in setting.section
    if (mode == "synchronous" and lag > 0) or (mode == "asynchronous" and lag == 0 and not is_open):
        raise PlanError(f'[rl] mode = "{mode}" and max_lag = {lag:g} contradict each other')
    if setting.section.text("in_flight_updates") == "yes" and not lag and not (mode == "asynchronous" and is_open):
        raise PlanError(f'[rl] in_flight_updates = "yes": {NEEDS_LAG}; state max_lag = 1')
    if mode == "asynchronous" and is_open:
        return max(round(setting.typical_number("steps_in_flight")), 1)
    return int(lag)


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
