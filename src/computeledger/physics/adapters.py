"""Low-rank adapters: what they add to a frozen model, trained or served.

Each adapted matrix of ``a x b`` gets two of rank ``r``: ``r (a + b)`` parameters. The frozen weights need no gradients
and no optimizer; gradients still flow through them to the activations, so a token takes 4 N FLOP instead of 6 N.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.facts.architecture import LayerGroup, Lora, Model, ServedLoras
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Machine, Operation
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.transformer import n_params_total

#: Adapters are trained, sent and served in 16 bits.
ADAPTER_BYTES = PRECISION_BYTES["bf16"]
#: Two kernels beside each adapted matrix, in every pass [s]: fitted to Punica's 2 ms per token (arXiv 2310.18547,
#: abstract; 224 matrices of Llama 2 7B, one A100), with one digit; one figure, so no residual. vLLM's kernels take 3 us
#: a matrix with no adapter in the batch (pull request 25914), and 10 us for the second one of a QKV projection (32425).
KERNELS_S = 2e-3 / 224
#: Sequences at which the expected number of distinct adapters is tabulated where their popularity differs.
_SEQUENCES = np.geomspace(1.0, 1e7, 700)
#: Halvings of the time within which an adapter must be asked for again.
_HALVINGS = 60


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
    held = model.adapters.served.n_slots
    return held * adapter_bytes(model, model.adapters) * served_fraction(layout) / layout.pp


def popularity(served: ServedLoras) -> NDArray[np.float64]:
    """Share of requests that name each adapter, the most popular first: ``i^-s`` over its sum.

    Parameters
    ----------
    served : ServedLoras
        How many, and how their popularity differs.

    Returns
    -------
    ndarray
        Shares, together 1 [-].

    Examples
    --------
    >>> popularity(ServedLoras(3, 3, 1.0)).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    weights = np.arange(1.0, served.n_adapters + 1) ** -served.zipf_exponent
    return np.asarray(weights / weights.sum())


def distinct_adapters(served: ServedLoras, sequences: Num) -> Num:
    """Adapters that at least one sequence of a batch names, as far as an engine takes so many.

    ``min(sum of 1 - (1 - p_i)^B, slots)``, for requests that choose independently.

    Parameters
    ----------
    served : ServedLoras
        How many, how their popularity differs, and the engine's slots.
    sequences : float or ndarray
        ``B``, on one rank [-].

    Returns
    -------
    float or ndarray
        Expected number whose matrices are read [-].

    Examples
    --------
    >>> [round(float(distinct_adapters(ServedLoras(32, 32), one)), 2) for one in (1.0, 32.0, 1e4)]
    [1.0, 20.41, 32.0]
    >>> round(float(distinct_adapters(ServedLoras(32, 32, 1.5), 32.0)), 2)
    10.31
    """
    n, b = served.n_adapters, np.maximum(sequences, 1.0)
    if n == 1:
        return 1.0 + 0.0 * b
    if not served.zipf_exponent:
        found: Num = n * -np.expm1(b * np.log1p(-1.0 / n))
    else:
        found = np.interp(np.log(b), np.log(_SEQUENCES), _distinct_table(served))
    return np.minimum(found, float(served.n_slots))


@functools.cache
def _distinct_table(served: ServedLoras) -> NDArray[np.float64]:
    missing = np.log1p(-popularity(served))
    return np.array([-np.expm1(b * missing).sum() for b in _SEQUENCES])


@functools.cache
def miss_fraction(served: ServedLoras) -> float:
    """Share of requests whose adapter is not among those on the chip, which keeps the most recently asked for.

    ``sum of p_i exp(-p_i t)``, with the time ``t`` in requests at which the slots are full, ``sum of 1 - exp(-p_i t) =
    slots`` (Che's approximation of an LRU cache).

    Parameters
    ----------
    served : ServedLoras
        How many, how their popularity differs, and the engine's slots.

    Returns
    -------
    float
        0 where all have a slot [-].

    References
    ----------
    Che, Tung, Wang, Hierarchical Web Caching Systems, IEEE JSAC 20(7), 2002.

    Examples
    --------
    >>> miss_fraction(ServedLoras(8, 8)), round(miss_fraction(ServedLoras(32, 8)), 3)
    (0.0, 0.75)
    >>> round(miss_fraction(ServedLoras(32, 8, 1.5)), 2)
    0.23
    """
    if served.n_slots >= served.n_adapters or not served.is_copied:
        return 0.0
    shares, low, high = popularity(served), 0.0, 60.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_full = -np.expm1(-shares * np.exp(middle)).sum() >= served.n_slots
        low, high = (low, middle) if is_full else (middle, high)
    return float((shares * np.exp(-shares * np.exp(high))).sum())


def load_s(model: Model, layout: Layout, link_bytes_per_s: Num) -> Num:
    """Time to copy one adapter from host memory to the chips, through all stages: the step that needs it waits.

    Parameters
    ----------
    model : Model
        With its adapters, or without.
    layout : Layout
        Integer degrees or arrays.
    link_bytes_per_s : float or ndarray
        From host memory to a chip [byte/s].

    Returns
    -------
    float or ndarray
        0 without adapters [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> adapted = replace(load_model("llama-3.1-8b"), adapters=Lora(16))
    >>> round(1000 * float(load_s(adapted, Layout(), 25e9)), 2)
    3.36
    """
    if model.adapters is None:
        return 0.0
    return adapter_bytes(model, model.adapters) * served_fraction(layout) / link_bytes_per_s


def without_copies(model: Model) -> Model:
    """The same model where no prompt carries the mean of what copying adapters takes.

    Parameters
    ----------
    model : Model
        With its adapters, or without.

    Returns
    -------
    Model
        For a simulation, which copies adapters itself.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> few = replace(load_model("llama-3.1-8b"), adapters=Lora(16, served=ServedLoras(32, 8)))
    >>> round(miss_fraction(few.adapters.served), 3), miss_fraction(without_copies(few).adapters.served)
    (0.75, 0.0)
    """
    if model.adapters is None:
        return model
    return replace(model, adapters=replace(model.adapters, served=replace(model.adapters.served, is_copied=False)))


def adapter_operations(model: Model, batch: tuple[Num, Num], layout: Layout, machine: Machine) -> list[Operation]:
    """Products of adapters that run beside the weights, all layers, on one rank of an engine.

    Two products of ``2 r (a + b)`` FLOP a token read each adapter that the batch names, the input of each adapted
    matrix, and its output, which they add to; and two kernels beside each matrix take :data:`KERNELS_S`. Matrices are
    held, read and multiplied at one rank, as engines hold them at their largest.

    Parameters
    ----------
    model : Model
        With its adapters, or without.
    batch : tuple of float or ndarray
        On one rank: sequences [-], and tokens [token].
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
    >>> from computeledger.facts.load import load_model, load_system
    >>> llama, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    >>> for served in (ServedLoras(), ServedLoras(32, 32)):
    ...     adapted = replace(llama, adapters=Lora(16, served=served))
    ...     one, _ = adapter_operations(adapted, (32.0, 32.0), Layout(), machine)
    ...     print(round(float(one.flop) / 1e9, 2), round(float(one.bytes) / 1e9, 2))
    2.68 0.34
    2.68 1.97
    """
    if model.adapters is None:
        return []
    sequences, tokens = batch
    shape, share = adapter_shape(model, model.adapters), served_fraction(layout)
    read = distinct_adapters(model.adapters.served, sequences)
    moved = read * ADAPTER_BYTES * shape.n_params + tokens * ACTIVATION_BYTES * (shape.inputs + 2 * shape.outputs)
    return [
        Operation(
            Kind.ADAPTERS,
            flop=2 * share * shape.n_params * tokens,
            bytes=share * moved,
            flop_per_s=machine.gemm_flop_per_s("bf16"),
            bytes_per_s=machine.weight_bytes_per_s,
        ),
        Operation(
            Kind.ADAPTER_KERNELS, overhead_s=0.0 if machine.efficiency is IDEAL else KERNELS_S * shape.n_matrices
        ),
    ]
