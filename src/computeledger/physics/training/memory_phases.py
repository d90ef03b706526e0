"""What each stage of a pipeline holds through a step: after loading, in the passes of microbatches, at the update."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import median
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.memory import TrainingMemory, stage_memory
from computeledger.physics.training.stages import layer_kinds, stage_load, stage_loads


@dataclass(frozen=True, slots=True)
class StagePhases:
    """Memory of one GPU of a stage, phase by phase of a step.

    Attributes
    ----------
    stage : int
        From 0 [-].
    layers : float
        That it holds [-].
    alive : float
        Microbatches whose activations it keeps at most, in units of its layers [-].
    loaded_bytes : float
        Weights, optimizer and gradient buffers, between steps [byte].
    first_forward_bytes : float
        At the end of the first microbatch's forward pass [byte].
    forwards_bytes : float
        When the first backward pass begins [byte].
    backward_bytes : float
        At the peak of the backward passes [byte].
    update_bytes : float
        While the optimizer updates [byte].
    peak_bytes : float
        The most of all; more than the largest phase where an update takes new memory beside what the passes have freed
        [byte].
    """

    stage: int
    layers: float
    alive: float
    loaded_bytes: float = 0.0
    first_forward_bytes: float = 0.0
    forwards_bytes: float = 0.0
    backward_bytes: float = 0.0
    update_bytes: float = 0.0
    peak_bytes: float = 0.0


def stage_phases(model: Model, batch: Batch, layout: Layout) -> tuple[StagePhases, ...]:
    """Follow the memory of every stage through a step; under DualPipe of the ends and of the middle alone.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Sequences, recomputation, software.
    layout : Layout
        A single one.

    Returns
    -------
    tuple of StagePhases
        From the first stage to the last.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> batch = Batch(8192, 256, recompute="none")
    >>> phases = stage_phases(load_model("llama-3.1-405b"), batch, Layout(tp=8, pp=4, dp=8))
    >>> [one.alive for one in phases], phases[0].peak_bytes > phases[1].peak_bytes
    ([4.0, 3.0, 2.0, 1.0], True)
    """
    n_stages = int(median(layout.pp))
    if batch.stack.schedule == "dualpipe" and n_stages > 1:
        loads = dict(enumerate(stage_loads(model, batch, layout)))
    else:
        loads = {rank: stage_load(model, batch, layout, float(rank)) for rank in range(n_stages)}
    n_plain, n_routed = (sum(group.count for group in layers) for layers in layer_kinds(model, batch))
    keeps_gradients = not (batch.sharded_weights or batch.stack.sharded_gradients)
    out = []
    for rank, load in loads.items():
        layers = median(load.plain * n_plain + load.routed * n_routed)
        alive = median(load.plain_alive * n_plain + load.routed_alive * n_routed) / max(layers, 1.0)
        whole = stage_memory(model, batch, layout, load)
        one = replace(load, plain_alive=load.plain, routed_alive=load.routed, outputs=np.minimum(load.outputs, 1.0))
        single = stage_memory(model, batch, layout, one)
        out.append(_phases(StagePhases(rank, layers, alive), whole, single, keeps_gradients))
    return tuple(out)


def _phases(stage: StagePhases, whole: TrainingMemory, single: TrainingMemory, keeps_gradients: bool) -> StagePhases:
    loaded = whole.weights_bytes - whole.gathered_bytes + whole.optimizer_bytes + whole.gradients_bytes
    resting = loaded if keeps_gradients else loaded - whole.gradients_bytes
    running = resting + whole.gathered_bytes + whole.logits_bytes
    return replace(
        stage,
        loaded_bytes=median(resting),
        first_forward_bytes=median(running + single.activations_bytes - single.again_bytes),
        forwards_bytes=median(running + whole.activations_bytes - whole.again_bytes),
        backward_bytes=median(whole.total_bytes - whole.update_bytes),
        update_bytes=median(loaded + whole.update_bytes),
        peak_bytes=median(whole.total_bytes),
    )
