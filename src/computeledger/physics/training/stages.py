"""What each stage of a pipeline holds: layers, tables, and the microbatches that are alive there."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.facts.architecture import LayerGroup, Model
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import REVERSIBLE, Batch
from computeledger.physics.training.counts import layer_counts, trained_layers


@dataclass(frozen=True, slots=True)
class LocalParams:
    """Parameters on one GPU of a stage, and over how many GPUs their optimizer is spread.

    Attributes
    ----------
    dense, tables, experts : float or ndarray
        Of mixers, dense parts and tables; of these the tables; of routed experts [-].
    dense_replicas, expert_replicas : float or ndarray
        GPUs that hold the same [-].
    """

    dense: Num
    tables: Num
    experts: Num
    dense_replicas: Num
    expert_replicas: Num

    @property
    def optimizer_shard(self) -> Num:
        """Parameters whose optimizer state one GPU keeps [-]."""
        return self.dense / self.dense_replicas + self.experts / self.expert_replicas


def local_params(model: Model, batch: Batch, layout: Layout) -> LocalParams:
    """Count the parameters on one GPU of an average stage.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Whose prediction modules count.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    LocalParams
        On one GPU.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(local_params(load_model("llama-3.1-8b"), Batch(8192, 128), Layout(tp=2, dp=4)).dense_replicas)
    4.0
    """
    tables = 1.0 if model.tied_embeddings else 2.0
    return params_of(model, batch, layout, StageLoad(1 / layout.pp, 1 / layout.pp, tables / layout.pp))


@dataclass(frozen=True, slots=True)
class StageLoad:
    """What a GPU's stages hold, and what is alive there.

    Attributes
    ----------
    plain, routed : float or ndarray
        Share of the model's layers without and with experts [-].
    tables : float or ndarray
        Embedding and output head [-].
    plain_alive, routed_alive : float or ndarray
        The same shares times the microbatches that are alive [-].
    heads : float or ndarray
        Output heads, whose logits count [-].
    outputs : float or ndarray
        Outputs of its chunks to other stages that are alive [-].
    copies : float or ndarray
        GPUs of a pipeline that hold the same stage [-].
    """

    plain: Num
    routed: Num
    tables: Num
    plain_alive: Num = 0.0
    routed_alive: Num = 0.0
    heads: Num = 0.0
    outputs: Num = 0.0
    copies: Num = 1.0

    def __add__(self, other: StageLoad) -> StageLoad:
        summed = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return StageLoad(**summed)


def layer_kinds(model: Model, batch: Batch) -> tuple[tuple[LayerGroup, ...], tuple[LayerGroup, ...]]:
    """Layers without and with experts.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Whose prediction modules and schedule count.

    Returns
    -------
    tuple of tuple of LayerGroup
        Groups without routed experts, and with them.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> plain, routed = layer_kinds(load_model("deepseek-v3"), Batch(4096, 64))
    >>> sum(group.count for group in plain), sum(group.count for group in routed)
    (3, 58)
    """
    layers = trained_layers(model, batch.stack.mtp_layers)
    routed = tuple(group for group in layers if group.feed_forward.n_experts)
    return tuple(group for group in layers if not group.feed_forward.n_experts), routed


def params_of(model: Model, batch: Batch, layout: Layout, load: StageLoad) -> LocalParams:
    """Count the parameters on one GPU of a stage.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Whose prediction modules and schedule count.
    layout : Layout
        Integer degrees or arrays.
    load : StageLoad
        Layers and tables that the GPU's stages hold.

    Returns
    -------
    LocalParams
        On one GPU [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> llama, layout = load_model("llama-3.1-8b"), Layout(tp=2, dp=4)
    >>> whole = params_of(llama, Batch(8192, 128), layout, StageLoad(1.0, 1.0, 2.0))
    >>> round(float(whole.dense) / 1e9, 2), float(whole.experts)
    (4.01, 0.0)
    """
    plain, routed = (layer_counts(layers, model.hidden_size) for layers in layer_kinds(model, batch))
    spread = np.maximum(np.minimum(layout.n_gpus_per_stage, np.maximum(layout.ep, layout.tp)), 1.0)
    dense = plain.dense_params * load.plain + routed.dense_params * load.routed
    tables = load.tables * model.vocab_size * model.hidden_size
    return LocalParams(
        dense=(dense + tables) / layout.tp,
        tables=tables / layout.tp,
        experts=routed.stored_params / spread * load.routed,
        dense_replicas=np.asarray(layout.dp * layout.cp, float) * load.copies,
        expert_replicas=np.maximum(layout.n_gpus_per_stage / spread, 1.0) * load.copies,
    )


def stage_loads(model: Model, batch: Batch, layout: Layout) -> list[StageLoad]:
    """The first, the second and the last stage; under DualPipe the two ends together, and two in the middle.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Whose prediction modules and schedule count.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    list of StageLoad
        The stages that may be the busiest.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> loads = stage_loads(load_model("llama-3.1-8b"), Batch(8192, 64), Layout(pp=4, dp=2))
    >>> [float(load.plain_alive / load.plain) for load in loads]
    [4.0, 3.0, 1.0]
    """
    pp = np.asarray(layout.pp, float)
    first, second, last = (
        stage_load(model, batch, layout, rank) for rank in (0.0 * pp, np.minimum(1.0, pp - 1), pp - 1)
    )
    if batch.stack.schedule != "dualpipe":
        return [first, second, last]
    ends = _where(pp > 1, first + last, first)
    return [ends, _where(pp > 2, second + _mirrored(second, pp), ends)]


def stage_load(model: Model, batch: Batch, layout: Layout, rank: Num) -> StageLoad:
    """What the stage of a rank holds, one direction of the pipeline alone.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : Batch
        Whose prediction modules and schedule count.
    layout : Layout
        Integer degrees or arrays.
    rank : float or ndarray
        Place of the stage, from 0 [-].

    Returns
    -------
    StageLoad
        Of one GPU.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> llama, layout = load_model("llama-3.1-405b"), Layout(tp=8, pp=16, dp=4)
    >>> [round(float(stage_load(llama, Batch(8192, 64), layout, rank).plain) * 126) for rank in (0, 1, 15)]
    [7, 8, 7]
    """
    pp, rank = np.asarray(layout.pp, float), np.asarray(rank, float)
    plain, routed = (sum(group.count for group in layers) for layers in layer_kinds(model, batch))
    size = stage_layers(plain + routed, pp, rank, batch.stack.stage_layers)
    is_first, is_last = rank == 0, rank == pp - 1
    # layers without experts come first where a stage could hold them all
    few = (pp > 1) & (routed > 0) & (plain * pp < plain + routed)
    even = size / (plain + routed)
    in_front = np.where(is_first, np.minimum(float(plain), size), 0.0)
    dense = np.where(few, in_front / max(plain, 1), even)
    experts = np.where(few, (size - in_front) / max(routed, 1), even)
    whole = 1.0 if model.tied_embeddings else 2.0
    tables = np.where(pp > 1, 1.0 * (is_first | is_last), whole)
    alive = _alive(batch, layout, rank)
    chunks = np.maximum(batch.virtual_stages, 1.0) - is_last
    outputs = np.where(pp > 1, alive * chunks, 0.0)
    return StageLoad(dense, experts, tables, dense * alive, experts * alive, 1.0 * is_last, outputs)


def stage_layers(layers: float, pp: Num, rank: Num, rule: str) -> Num:
    """Layers of a stage where a framework divides them by its rule.

    Parameters
    ----------
    layers : float
        Layers of the model [-].
    pp, rank : float or ndarray
        Stages of the pipeline, and the place of this one, from 0 [-].
    rule : str
        ``ends`` and ``back`` leave the first and last, or the last stages a layer short; ``front`` counts both tables
        as layers and fills the first stages.

    Returns
    -------
    float or ndarray
        Layers of the stage [-].

    Examples
    --------
    >>> [float(stage_layers(32, 3.0, rank, "front")) for rank in (0.0, 1.0, 2.0)]
    [11.0, 12.0, 9.0]
    """
    whole = np.ceil(layers / pp)
    spare = whole * pp - layers
    if rule == "front":
        items = np.ceil((layers + 2) / pp)
        before = np.maximum(items * rank - 1, 0.0)
        return np.where(np.asarray(pp) > 1, np.clip(layers - before, 0.0, items - (rank == 0)), layers)
    # the ends, which have a table besides, take the layers less
    ends = np.where(rank == 0, np.floor(spare / 2), np.where(rank == pp - 1, np.ceil(spare / 2), 0.0))
    less = np.where(rank < spare, 1.0, 0.0) if rule == "back" else ends
    found: Num = np.maximum(whole - less, 0.0)
    return found


def _mirrored(load: StageLoad, pp: Num) -> StageLoad:
    """The stage that shares a GPU with the second one: two microbatches of the other direction are alive there."""
    two = np.minimum(2.0, pp)
    return StageLoad(load.plain, load.routed, load.tables, load.plain * two, load.routed * two)


def _where(piped: NDArray[np.bool_], one: StageLoad, other: StageLoad) -> StageLoad:
    names = [part.name for part in fields(one)]
    return StageLoad(**{name: np.where(piped, getattr(one, name), getattr(other, name)) for name in names})


def _alive(batch: Batch, layout: Layout, rank: Num) -> Num:
    """Microbatches whose activations a stage keeps, in units of its layers.

    Stage ``r`` of 1F1B keeps ``pp - r``; with ``v`` interleaved chunks ``(2 (pp - r - 1) + (v - 1) pp + 1) / v``;
    reversible layers keep one.
    """
    if batch.recompute == REVERSIBLE:
        return 1.0
    pp, chunks = np.asarray(layout.pp, float), np.maximum(batch.virtual_stages, 1.0)
    warm = np.where(chunks > 1, (2 * (pp - rank - 1) + (chunks - 1) * pp + 1) / chunks, pp - rank)
    alive: Num = np.minimum(batch.microbatches(layout), warm)
    return alive
