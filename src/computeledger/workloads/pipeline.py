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
from computeledger.physics.roofline import total_s
from computeledger.physics.training import Batch, StepTime, TrainingMemory

SCHEDULES = ("1f1b", "zero-bubble", "dualpipe")


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
        ``none``, ``selective`` or ``full``; the little that ``selective`` adds is left out.
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
    again, weights = float(recompute == "full"), float(not frozen)
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


def activations_ratio(schedule: str, layout: Layout, batch: Batch) -> Num:
    """Activations that the first stage keeps, over those of 1F1B.

    Interleaving keeps ``1 + (p - 1) / (p v)`` times as much, DualPipe ``(p + 1) / p``; never more than there are.

    Parameters
    ----------
    schedule : str
        One of :data:`SCHEDULES`.
    layout : Layout
        Integer degrees or arrays.
    batch : Batch
        With its virtual stages.

    Returns
    -------
    float or ndarray
        Ratio [-].

    References
    ----------
    deepseek-v3-report.

    Examples
    --------
    >>> float(activations_ratio("1f1b", Layout(pp=4), Batch(4096.0, 64.0, virtual_stages=3.0)))
    1.25
    """
    stages, pieces = np.asarray(layout.pp, float), np.asarray(batch.virtual_stages, float)
    kept = np.minimum(batch.microbatches(layout), stages)
    more = (stages - 1) / (stages * pieces) * (pieces > 1) if schedule == "1f1b" else 0.0
    if schedule == "dualpipe":
        more = np.where(stages > 1, 1 / stages, 0.0)
    ratio: Num = (np.minimum(stages * (1 + more), batch.microbatches(layout)) / kept)[()]
    return ratio


def scheduled(
    step: StepTime, memory: TrainingMemory, batch: Batch, layout: Layout, schedule: str
) -> tuple[StepTime, TrainingMemory]:
    """Apply a schedule to a step and a memory of 1F1B.

    Parameters
    ----------
    step : StepTime
        Of 1F1B.
    memory : TrainingMemory
        Of 1F1B.
    batch : Batch
        What the step sees.
    layout : Layout
        Integer degrees or arrays.
    schedule : str
        One of :data:`SCHEDULES`.

    Returns
    -------
    tuple of StepTime and TrainingMemory
        With its hops, bubble, activations and copies of the weights: each piece hands its activations on, DualPipe
        keeps two copies.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.physics.training import step_time, training_memory
    >>> model, batch, layout = load_model("llama-3.1-8b"), Batch(8192.0, 64.0), Layout(pp=4, dp=2)
    >>> step = step_time(model, batch, layout, Precision(), Machine(load_system("h100-nvl8")))
    >>> shorter, _ = scheduled(step, training_memory(model, batch, layout), batch, layout, "zero-bubble")
    >>> round(float(shorter.bubble_s / step.bubble_s), 3)
    0.333
    """
    step = _hopping(step, batch)
    copies = np.where(np.asarray(layout.pp) > 1, 2.0, 1.0)[()] if schedule == "dualpipe" else 1.0
    less = bubble_ratio(schedule, layout.pp, passes(batch.recompute))
    more = activations_ratio(schedule, layout, batch)
    return replace(step, bubble_s=step.bubble_s * less), replace(
        memory,
        weights_bytes=memory.weights_bytes * copies,
        gradients_bytes=memory.gradients_bytes * copies,
        activations_bytes=memory.activations_bytes * more,
    )


def _hopping(step: StepTime, batch: Batch) -> StepTime:
    """Hand activations on once for every piece of the model that a stage holds."""
    if not np.any(np.asarray(batch.virtual_stages) > 1):
        return step
    operations = tuple(
        replace(one, network_s=one.network_s * batch.virtual_stages) if one.name == "pipeline hops" else one
        for one in step.operations
    )
    longer = np.maximum(step.ratio * total_s(operations), step.microbatch_s)
    bubble_s = step.bubble_s * longer / step.microbatch_s
    return replace(step, operations=operations, microbatch_s=longer, bubble_s=bubble_s)
