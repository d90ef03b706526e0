"""Low-rank adapters: a frozen model takes 4 N FLOP per token instead of 6 N, and trains little.

Each adapted matrix of ``a x b`` gets two of rank ``r``: ``r (a + b)`` parameters. The frozen weights need no gradients
and no optimiser; gradients still flow through them to the activations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import LayerGroup, Model
from computeledger.physics.operations import ACTIVATION_BYTES
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, total_s
from computeledger.physics.training import (
    GRADIENT_BYTES,
    OPTIMIZER_BYTES,
    OPTIMIZER_TRAFFIC_BYTES,
    WEIGHT_BYTES,
    Batch,
    StepTime,
    TrainingMemory,
)

TARGETS = ("attention", "all")
#: Operations whose weights a frozen model does not update.
_FROZEN = frozenset({"matrix products", "output head", "routed experts"})


@dataclass(frozen=True, slots=True)
class Lora:
    """Adapters beside a frozen model.

    Attributes
    ----------
    rank : int
        Of every adapter, ``r`` [-].
    targets : str
        ``attention`` adapts the projections of the mixers, ``all`` the dense MLPs as well; routed experts stay frozen.
    """

    rank: int
    targets: str = "all"


def adapter_params(model: Model, lora: Lora) -> float:
    """Count the trainable parameters, ``sum of r (a + b)`` over the adapted matrices.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.

    Returns
    -------
    float
        Parameters [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> adapter_params(load_model("llama-3.1-8b"), Lora(16)) / 1e6
    41.943...
    """
    return float(sum(group.count * _per_layer(group, model.hidden_size, lora) for group in model.layers))


def _per_layer(group: LayerGroup, width: int, lora: Lora) -> float:
    mixer, part = group.attention, group.feed_forward
    sides = 0
    if mixer.kind != "none":
        query, value = mixer.n_query_heads * mixer.qk_head_dim, mixer.n_query_heads * mixer.v_head_dim
        keys = mixer.n_kv_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        latent = mixer.q_lora_rank + mixer.kv_lora_rank
        sides += 4 * width + query + keys + value + 2 * latent
    if lora.targets == "all":
        shared = part.n_shared_experts * part.shared_width
        sides += part.n_matrices * ((width + part.width) * (part.width > 0) + (width + shared) * (shared > 0))
    return float(lora.rank * sides)


def adapted(
    parts: tuple[StepTime, TrainingMemory], model: Model, lora: Lora, batch: Batch, layout: Layout, machine: Machine
) -> tuple[StepTime, TrainingMemory]:
    """Turn a step and a memory of full training into those of adapters.

    Parameters
    ----------
    parts : tuple of StepTime and TrainingMemory
        Of full training.
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.
    batch : Batch
        What the step sees.
    layout : Layout
        Integer degrees or arrays.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    tuple of StepTime and TrainingMemory
        Matrix products without weight gradients; gradients, exchange and optimiser of the adapters alone.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training import step_time, training_memory
    >>> model, batch, layout = load_model("llama-3.1-8b"), Batch(4096.0, 8.0, recompute="none"), Layout(dp=8)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> full = step_time(model, batch, layout, Precision(), machine), training_memory(model, batch, layout)
    >>> step, memory = adapted(full, model, Lora(16), batch, layout, machine)
    >>> bool(0.6 < step.step_s / full[0].step_s < 0.8), bool(memory.gradients_bytes < 1e9)
    (True, True)
    """
    step, memory = parts
    again = float(batch.recompute == "full")
    trained = adapter_params(model, lora)
    cut = layout.tp * layout.pp
    tokens = batch.microbatch_sequences * batch.sequence_tokens / layout.cp
    operations = tuple(_without_weight_gradients(one, again) for one in step.operations)
    adapters = Operation(
        "adapters",
        flop=2 * (3 + again) * tokens * trained / cut,
        flop_per_s=machine.gemm_flop_per_s("bf16") * machine.efficiency.training_gemm_fraction,
        bytes=(2 + again) * 2 * ACTIVATION_BYTES * tokens * model.hidden_size / cut,
        bytes_per_s=machine.weight_bytes_per_s,
    )
    host = machine.efficiency.microbatch_layer_s * model.n_layers / layout.pp
    one = step.ratio * np.maximum(total_s((*operations, adapters)), host)
    weights = np.maximum(memory.weights_bytes / WEIGHT_BYTES, 1.0)
    share = trained / cut / weights
    shard = trained / cut / (layout.dp * layout.cp)
    return replace(
        step,
        operations=(*operations, adapters),
        microbatch_s=one,
        bubble_s=step.bubble_s * one / step.microbatch_s,
        gradients_s=step.gradients_s * np.minimum(share, 1.0) if not batch.sharded_weights else step.gradients_s,
        optimizer_s=shard * OPTIMIZER_TRAFFIC_BYTES / machine.weight_bytes_per_s,
    ), replace(
        memory,
        weights_bytes=memory.weights_bytes + trained / cut * WEIGHT_BYTES,
        gradients_bytes=trained / cut * GRADIENT_BYTES,
        optimizer_bytes=shard * OPTIMIZER_BYTES,
    )


def _without_weight_gradients(one: Operation, again: float) -> Operation:
    if one.name not in _FROZEN:
        return one
    left = 2 / 3 if one.name == "output head" else (2 + again) / (3 + again)
    return replace(one, flop=one.flop * left, bytes=one.bytes * left)


def trainable_fraction(model: Model, lora: Lora, n_params_total: Num) -> Num:
    """Share of the parameters that are trained.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.
    n_params_total : float or ndarray
        Parameters of the model [-].

    Returns
    -------
    float or ndarray
        Share [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> round(trainable_fraction(load_model("llama-3.1-8b"), Lora(16), 8.03e9), 4)
    0.0052
    """
    trained = adapter_params(model, lora)
    return trained / (n_params_total + trained)
