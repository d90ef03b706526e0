"""Low-rank adapters: what they add to a frozen model, trained or served.

Each adapted matrix of ``a x b`` gets two of rank ``r``: ``r (a + b)`` parameters. The frozen weights need no gradients
and no optimizer; gradients still flow through them to the activations, so a token takes 4 N FLOP instead of 6 N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.facts.architecture import LayerGroup, Lora, Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Machine, Operation
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.transformer import n_params_total

#: Adapters are trained, sent and served in 16 bits.
ADAPTER_BYTES = PRECISION_BYTES["bf16"]


@dataclass(frozen=True, slots=True)
class AdapterShape:
    """The adapters of all layers.

    Attributes
    ----------
    rank : int
        ``r`` [-].
    n_matrices : int
        Adapted matrices, two adapters each [-].
    inputs, outputs : int
        Sums over adapted matrices of their widths: what the first adapter reads and the second one writes [-].
    narrowest : int
        Smallest side of an adapted matrix; 0 where nothing is adapted [-].
    """

    rank: int
    n_matrices: int
    inputs: int
    outputs: int
    narrowest: int

    @property
    def n_params(self) -> float:
        """Trainable parameters, ``sum of r (a + b)`` [-]."""
        return float(self.rank * (self.inputs + self.outputs))


def adapter_shape(model: Model, lora: Lora) -> AdapterShape:
    """Add up the adapters of a model.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.

    Returns
    -------
    AdapterShape
        Of all layers.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> shape = adapter_shape(load_model("llama-3.1-8b"), Lora(16))
    >>> shape.n_matrices, shape.narrowest
    (224, 1024)
    """
    sides = [(group.count, *one) for group in model.layers for one in _matrices(group, model.hidden_size, lora.targets)]
    return AdapterShape(
        rank=lora.rank,
        n_matrices=sum(count for count, _, _ in sides),
        inputs=sum(count * into for count, into, _ in sides),
        outputs=sum(count * out for count, _, out in sides),
        narrowest=min((min(into, out) for _, into, out in sides), default=0),
    )


def _matrices(group: LayerGroup, width: int, targets: str) -> Iterator[tuple[int, int]]:
    """Inputs and outputs of each adapted matrix of a layer."""
    mixer, part = group.attention, group.feed_forward
    if mixer.is_present:
        query, value = mixer.n_query_heads * mixer.qk_head_dim, mixer.n_query_heads * mixer.v_head_dim
        keys = mixer.n_kv_heads * mixer.qk_head_dim, mixer.n_kv_heads * mixer.v_head_dim
        if mixer.q_lora_rank:
            yield from ((width, mixer.q_lora_rank), (mixer.q_lora_rank, query))
        else:
            yield width, query
        if mixer.kv_lora_rank:
            yield from ((width, mixer.kv_lora_rank), (mixer.kv_lora_rank, sum(keys)))
        else:
            yield from ((width, keys[0]), (width, keys[1]))
        yield value, width
    if targets != "all":
        return
    for wide in (part.width, part.n_shared_experts * part.shared_width):
        if wide:
            yield from ((width, wide),) * (part.n_matrices - 1)
            yield wide, width


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

    References
    ----------
    Schulman and Thinking Machines Lab, LoRA Without Regret (2025): 0.25 G for attention at rank 256 in Llama 3.1 8B,
    the output head adapted as well.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> adapter_params(load_model("llama-3.1-8b"), Lora(16)) / 1e6
    41.943...
    """
    return adapter_shape(model, lora).n_params


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


def check_lora(model: Model, lora: Lora) -> Lora:
    """Refuse adapters that a model cannot have, and those that hold more than it.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.

    Returns
    -------
    Lora
        The same.

    Raises
    ------
    InputError
        With the largest rank.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> check_lora(load_model("llama-3.1-8b"), Lora(2048))
    Traceback (most recent call last):
    computeledger.errors.InputError: --lora-rank 2048: at most 1024, the smallest side of an adapted matrix of ...
    """
    shape = adapter_shape(model, lora)
    if not shape.n_matrices:
        raise InputError(f"--lora-rank: {model.id} has no matrix of --lora-targets {lora.targets}")
    if lora.rank > shape.narrowest:
        raise InputError(
            f"--lora-rank {lora.rank}: at most {shape.narrowest}, the smallest side of an adapted matrix of {model.id}"
        )
    most = int(n_params_total(model) * lora.rank / shape.n_params)
    if lora.rank > most:
        raise InputError(f"--lora-rank {lora.rank}: at most {most}; above it adapters hold more than {model.id} itself")
    return lora


def adapter_bytes(model: Model, lora: Lora) -> float:
    """Bytes of all adapters, as they are sent.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.

    Returns
    -------
    float
        In 16 bits [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> round(adapter_bytes(load_model("llama-3.1-8b"), Lora(16)) / 1e6, 1)
    83.9
    """
    return ADAPTER_BYTES * adapter_params(model, lora)


def served_fraction(layout: Layout) -> Num:
    """Share of the adapters that each tensor-parallel rank of an engine holds: of each pair, one is whole on all.

    Parameters
    ----------
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    float or ndarray
        ``(1 + 1 / tp) / 2`` [-].

    References
    ----------
    vLLM 0.11, ``LoRAConfig``: ``fully_sharded_loras`` is off, and half of the computation is sharded.

    Examples
    --------
    >>> served_fraction(Layout(tp=4))
    0.625
    """
    return (1 + 1 / layout.tp) / 2


def served_bytes(model: Model, layout: Layout) -> Num:
    """Bytes of the adapters that run beside the weights, on each GPU of an engine.

    Parameters
    ----------
    model : Model
        With its adapters, or without.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    float or ndarray
        0 without adapters [byte].

    Examples
    --------
    >>> from dataclasses import replace
    >>> from computeledger.facts.load import load_model
    >>> llama = load_model("llama-3.1-8b")
    >>> [round(served_bytes(one, Layout(tp=2)) / 1e6, 1) for one in (llama, replace(llama, adapters=Lora(16)))]
    [0.0, 62.9]
    """
    if model.adapters is None:
        return 0.0
    return adapter_bytes(model, model.adapters) * served_fraction(layout) / layout.pp


def adapter_operations(model: Model, tokens: Num, layout: Layout, machine: Machine) -> list[Operation]:
    """Products of adapters that run beside the weights, all layers, on one rank of an engine.

    Two products of ``2 r (a + b)`` FLOP a token read the adapters, the input of each adapted matrix, and its output,
    which they add to. What launching these kernels takes is not counted: nothing that was published fixes it.

    Parameters
    ----------
    model : Model
        With its adapters, or without.
    tokens : float or ndarray
        On one rank [token].
    layout : Layout
        Integer degrees or arrays.
    machine : Machine
        One GPU.

    Returns
    -------
    list of Operation
        None without adapters.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from computeledger.facts.load import load_model, load_system
    >>> adapted, machine = replace(load_model("llama-3.1-8b"), adapters=Lora(16)), Machine(load_system("h100-nvl8"))
    >>> [round(float(one.flop) / 1e6, 1) for one in adapter_operations(adapted, 1.0, Layout(), machine)]
    [83.9]
    """
    if model.adapters is None:
        return []
    shape, share = adapter_shape(model, model.adapters), served_fraction(layout)
    moved = ADAPTER_BYTES * shape.n_params + tokens * ACTIVATION_BYTES * (shape.inputs + 2 * shape.outputs)
    return [
        Operation(
            Kind.ADAPTERS,
            flop=2 * share * shape.n_params * tokens,
            bytes=share * moved,
            flop_per_s=machine.gemm_flop_per_s("bf16"),
            bytes_per_s=machine.weight_bytes_per_s,
        )
    ]
