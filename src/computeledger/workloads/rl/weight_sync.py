"""Time to hand new weights from trainer to generators, by mechanism: bytes, links and layout of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.facts.architecture import Lora, Model
from computeledger.facts.schema import System
from computeledger.physics.adapters import adapter_params, adapter_shape, served_bytes
from computeledger.physics.calibration.weight_sync import SyncMechanism, load_sync_mechanism, sync_constants
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import expert_bytes_per_gpu, weights_bytes_per_gpu
from computeledger.physics.training.memory import MASTER_BYTES, MOMENT_BYTES
from computeledger.physics.transformer import n_params_total

#: Tensors of a layer beside its feed-forward matrices: projections of attention and norms (assumption).
LAYER_TENSORS = 8
#: Mechanism where nobody names one: on shared GPUs, and where sides are apart.
USUAL_SYNC = {True: "colocated", False: "nccl-packed"}


def sent_bytes_per_gpu(model: Model, layout: Layout, precision: Precision) -> Num:
    """Bytes of what a GPU takes in a synchronisation: its weights, or its adapters where they run beside the weights.

    Parameters
    ----------
    model : Model
        As the engine runs it.
    layout : Layout
        Of the engine.
    precision : Precision
        Of weights by kind; adapters are in 16 bits.

    Returns
    -------
    float or ndarray
        On each GPU [byte].

    Examples
    --------
    >>> from dataclasses import replace
    >>> from computeledger.facts.architecture import Lora
    >>> from computeledger.facts.load import load_model
    >>> llama = load_model("llama-3.1-8b")
    >>> adapted = replace(llama, adapters=Lora(16))
    >>> [round(float(sent_bytes_per_gpu(one, Layout(), Precision())) / 1e6) for one in (llama, adapted)]
    [16061, 84]
    """
    if model.adapters is not None:
        return served_bytes(model, layout)
    return weights_bytes_per_gpu(model, layout, precision)


@dataclass(frozen=True, slots=True)
class SyncSides:
    """Both sides of a synchronisation.

    Attributes
    ----------
    model : Model
        Whose weights move; of a model that runs with adapters beside its weights, the adapters alone.
    precision : Precision
        That they move in.
    generation : Layout
        Of one replica.
    n_generation, n_training : float or ndarray
        GPUs of either side; the same ones where they are shared [-].
    system : System
        Of the generators: its links.
    is_colocated : bool
        Whether both sides share their GPUs.
    is_gathered : bool
        Whether the trainer's parts still have to be brought together; not where they lie in host memory already.
    is_sharded : bool
        Whether data-parallel ranks of the trainer share its weights.
    training : Layout or None
        Of the trainer; None where nobody says: its parts lie evenly on its GPUs.
    lora : Lora or None
        Adapters that are trained alone; None where all weights are.
    """

    model: Model
    precision: Precision
    generation: Layout
    n_generation: Num
    n_training: Num
    system: System
    is_colocated: bool = True
    is_gathered: bool = True
    is_sharded: bool = False
    training: Layout | None = None
    lora: Lora | None = None

    @property
    def n_tensors(self) -> int:
        """Tensors of a checkpoint, every expert with its own; of adapters two for each matrix [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_model, load_system
        >>> sides = load_model("llama-3.1-8b"), Precision(), Layout(), 8.0, 8.0, load_system("h100-nvl8")
        >>> SyncSides(*sides).n_tensors
        354
        """
        if self.model.adapters is not None:
            return 2 * adapter_shape(self.model, self.model.adapters).n_matrices
        matrices = (one.count * one.feed_forward.n_matrices * max(one.feed_forward.n_experts, 1)
                    for one in self.model.layers)  # fmt: skip
        return 2 + LAYER_TENSORS * self.model.n_layers + sum(matrices)

    def moved_bytes(self, moved: str) -> Num:
        """Bytes that cross the link which sets the pace [byte]."""
        if moved == "own shard":
            return sent_bytes_per_gpu(self.model, self.generation, self.precision)
        every = sent_bytes_per_gpu(self.model, Layout(), self.precision)
        return every / self.n_training if moved == "trainer shard" else every

    @property
    def state_bytes(self) -> Num:
        """Master copy and moments of the optimizer on one GPU of the trainer [byte]."""
        trained = n_params_total(self.model) if self.lora is None else adapter_params(self.model, self.lora)
        return trained * (MASTER_BYTES + 2 * MOMENT_BYTES["fp32"]) / self.n_training

    def gathered_s(self, moved: str) -> Num:
        """Time to bring all weights onto every GPU of the trainer, links at their full rate [s].

        Inside a domain everything passes a GPU's link. Across domains a network card brings what its own GPU lacks of
        other stages (a shard of it, or whole tensors where those are gathered first) and its share of what all GPUs of
        its domain lack of experts and of shared weights.

        Examples
        --------
        >>> from computeledger.facts.load import load_model, load_system
        >>> model, cut = load_model("llama-3.1-70b"), Layout(tp=4, pp=4, dp=4)
        >>> sides = SyncSides(model, Precision(), cut, 64.0, 64.0, load_system("h100-nvl8"), training=cut)
        >>> shards, tensors = (sides.gathered_s(f"gathered {one}") for one in ("shards", "tensors"))
        >>> bool(tensors > 2 * shards)
        True
        """
        domain = np.minimum(self.system.n_gpus_scale_up.value, self.n_training)
        every, routed = sent_bytes_per_gpu(self.model, Layout(), self.precision), self.model.adapters is None
        inside_s = every * (1 - 1 / domain) / self.system.scale_up_bytes_per_s_per_gpu.value
        shared = every * (1 / domain - 1 / self.n_training)
        cut = self.training
        if cut is not None and not self.is_sharded:
            experts = expert_bytes_per_gpu(self.model, Layout(), self.precision) if routed else 0.0
            own = (every - experts) / np.where(moved == "gathered tensors", 1.0, cut.tp) + experts / cut.ep
            lacking = own * (1 - 1 / cut.pp) + experts * np.maximum(1 / domain - 1 / cut.ep, 0.0)
        elif cut is not None:
            # tensor-parallel shards are gathered first, then each GPU gathers whole tensors on its own
            lacking = np.where(np.asarray(cut.tp) > 1, every * (1 - domain / self.n_training), shared)
        else:
            lacking = shared
        beyond = np.where(np.asarray(self.n_training) > domain, lacking, 0.0)
        return inside_s + beyond / self.system.cross_domain_bytes_per_s_per_gpu

    def link_bytes_per_s(self, crosses_hosts: bool) -> Num:
        """Link of one GPU between both sides: inside a scale-up domain that holds both, else beyond it [byte/s]."""
        system = self.system
        gpus = self.n_generation if self.is_colocated else self.n_generation + self.n_training
        inside = (not crosses_hosts) & (np.asarray(gpus) <= system.n_gpus_scale_up.value)
        within, beyond = system.scale_up_bytes_per_s_per_gpu.value, system.cross_domain_bytes_per_s_per_gpu
        return np.where(inside, within, beyond)


def sync_s(sides: SyncSides, given: SyncMechanism, constants: Mapping[str, Num] | None = None) -> Num:
    """Time of one synchronisation, by the terms of its mechanism.

    ``fixed + tensors x each + bytes / (share x link) + gathered + bytes / rate + state / rate``

    Trainers whose ranks share the weights send at a share of their own, and bring experts together first.

    Parameters
    ----------
    sides : SyncSides
        Model, layouts, links.
    given : SyncMechanism
        Which terms there are.
    constants : mapping of str to float or ndarray, optional
        By name; as shipped where left out.

    Returns
    -------
    float or ndarray
        Generation paused throughout [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.weight_sync import load_sync_mechanism
    >>> sides = SyncSides(load_model("qwen3-30b-a3b"), Precision(), Layout(tp=2), 16.0, 16.0, load_system("h100-nvl8"),
    ...                   is_colocated=False)
    >>> whole, shards = (sync_s(sides, load_sync_mechanism(name)) for name in ("nccl-broadcast", "nccl-shard"))
    >>> bool(whole > 5 * shards)
    True
    """
    known = sync_constants() if constants is None else constants
    moved, link = sides.moved_bytes(given.moved), sides.link_bytes_per_s(given.crosses_hosts)
    time_s: Num = known[given.fixed] if given.fixed else 0.0
    if given.tensor:
        time_s = time_s + known[given.tensor] * sides.n_tensors
    if given.link:
        share = known[given.sharded_link if sides.is_sharded and given.sharded_link else given.link]
        is_gathered = given.moved.startswith("gathered")
        time_s = time_s + (sides.gathered_s(given.moved) if is_gathered else moved / link) / share
    if given.experts and sides.is_sharded and sides.model.adapters is None:
        apart = expert_bytes_per_gpu(sides.model, Layout(), sides.precision)
        time_s = time_s + apart / (known[given.experts] * link)
    if given.gather and sides.is_gathered:
        time_s = time_s + moved / (known[given.gather] * link)
    if given.rate:
        time_s = time_s + moved / known[given.rate]
    if given.state:
        time_s = time_s + sides.state_bytes / known[given.state]
    return time_s


def sync_mechanism(named: str | None, is_colocated: bool) -> SyncMechanism:
    """Find the mechanism of a run: the one that is named where the placement has it, or the placement's usual one.

    Examples
    --------
    >>> sync_mechanism(None, is_colocated=True).id, sync_mechanism("rdma", is_colocated=True).id
    ('colocated', 'colocated')
    """
    found = load_sync_mechanism(named or USUAL_SYNC[is_colocated])
    fits = not found.needs or (found.needs == "colocated") == is_colocated
    return found if fits else load_sync_mechanism(USUAL_SYNC[is_colocated])


def check_sync(named: str, is_colocated: bool) -> None:
    """Refuse a mechanism that the placement of a question has not.

    Examples
    --------
    >>> check_sync("rdma", is_colocated=True)
    Traceback (most recent call last):
    computeledger.errors.InputError: --weight-sync rdma: needs GPUs of their own for trainer and generators; state ...
    """
    needs = load_sync_mechanism(named).needs
    if needs == "apart" and is_colocated:
        raise InputError(
            f"--weight-sync {named}: needs GPUs of their own for trainer and generators; state --max-lag 1 or "
            "--training-gpus"
        )
    if needs == "colocated" and not is_colocated:
        raise InputError(f"--weight-sync {named}: needs GPUs that take turns; leave out --max-lag and --training-gpus")
