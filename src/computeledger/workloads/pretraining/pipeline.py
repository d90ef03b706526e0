"""Pipeline schedules: what they leave of the bubble, what they keep in memory, and who does what when.

A stage runs a forward pass and a backward pass of every microbatch. 1F1B alternates them; interleaving gives each stage
``v`` pieces of the model; a zero-bubble schedule defers the weights' share of the backward pass into the gaps; DualPipe
feeds the pipeline from both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import BUBBLE_RATIOS, FORWARD_AGAIN, Batch
from computeledger.physics.training.step import StepTime

#: Names of pipeline schedules.
SCHEDULES = tuple(BUBBLE_RATIOS)
#: Below this trained share of the weights a backward pass has next to no weight gradients.
FROZEN_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class Passes:
    """Shares of a microbatch's time on a stage.

    Attributes
    ----------
    forward : float
        Forward pass [-].
    backward : float
        Backward pass, recomputation and weight gradients in it [-].
    weights : float
        Of the backward pass, the weights' gradients [-].
    """

    forward: float
    backward: float
    weights: float


def passes(recompute: str, frozen: bool = False) -> Passes:
    """Split a microbatch into its passes: forward 1, gradients of inputs 1, of weights 1, a full recomputation 1.

    Parameters
    ----------
    recompute : str
        As :class:`~computeledger.physics.training.batch.Batch` has it; what ``selective`` adds is left out.
    frozen : bool
        Whether the weights are frozen, so that they get no gradients.

    Returns
    -------
    Passes
        Shares.

    Examples
    --------
    >>> passes("none").backward == 2 / 3, passes("full").forward
    (True, 0.25)
    """
    again, weights = FORWARD_AGAIN.get(recompute, 0.0), float(not frozen)
    whole = 2 + again + weights
    return Passes(1 / whole, (1 + again + weights) / whole, weights / whole)


def bubble_ratio(schedule: str, n_stages: Num, split: Passes) -> Num:
    """Idle time of a schedule over that of 1F1B with the same stages, ``(p - 1)(F + B)``.

    Zero bubble leaves ``(p - 1)(F + B - 2 W)``, DualPipe ``(p / 2 - 1)(F&B + B - 3 W)``, with ``F&B = F + B``.

    Parameters
    ----------
    schedule : str
        One of :data:`SCHEDULES`.
    n_stages : float or ndarray
        Stages, ``p`` [-].
    split : Passes
        Of a microbatch.

    Returns
    -------
    float or ndarray
        Ratio [-]; 1 for 1F1B, and where there is no pipeline.

    References
    ----------
    deepseek-v3-report.

    Examples
    --------
    >>> round(bubble_ratio("zero-bubble", 8, passes("none")), 3)
    0.333
    """
    if schedule == "1f1b":
        return 1.0
    forward, backward, weights = split.forward, split.backward, split.weights
    if schedule == "zero-bubble":
        return max(forward + backward - 2 * weights, 0.0)
    pairs = np.maximum(np.asarray(n_stages) / 2 - 1, 0.0) * max(forward + 2 * backward - 3 * weights, 0.0)
    return (pairs / np.maximum(np.asarray(n_stages) - 1.0, 1.0))[()]


def with_schedule(batch: Batch, schedule: str) -> Batch:
    """Put a pipeline schedule into a batch.

    Parameters
    ----------
    batch : Batch
        What the step sees.
    schedule : str
        One of :data:`SCHEDULES`.

    Returns
    -------
    Batch
        The same under that schedule.

    Examples
    --------
    >>> with_schedule(Batch(4096.0, 64.0), "zero-bubble").stack.schedule
    'zero-bubble'
    """
    return replace(batch, stack=replace(batch.stack, schedule=schedule))


def scheduled(step: StepTime, batch: Batch, layout: Layout) -> StepTime:
    """Sharpen what a schedule leaves of the bubble.

    The training model takes one share of the bubble per schedule; here it depends on the stages and on recomputation.

    Parameters
    ----------
    step : StepTime
        As modelled.
    batch : Batch
        What the step sees, with its schedule.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    StepTime
        With the schedule's own bubble.

    References
    ----------
    deepseek-v3-report.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.physics.training.step import step_time
    >>> model, layout = load_model("llama-3.1-8b"), Layout(pp=4, dp=2)
    >>> steps = []
    >>> for name in ("1f1b", "zero-bubble"):
    ...     batch = with_schedule(Batch(8192.0, 64.0), name)
    ...     step = step_time(model, batch, layout, Precision(), Machine(load_system("h100-nvl8")))
    ...     steps.append(scheduled(step, batch, layout))
    >>> round(float(steps[1].bubble_s / steps[0].bubble_s), 3)
    0.333
    """
    schedule = batch.stack.schedule
    if schedule == "1f1b":
        return step
    frozen = bool(np.all(np.asarray(batch.stack.trained_fraction) < FROZEN_FRACTION))
    sharper = bubble_ratio(schedule, layout.pp, passes(batch.recompute, frozen)) / BUBBLE_RATIOS[schedule]
    return replace(step, bubble_s=step.bubble_s * sharper)
