"""Time of an operation: max(compute, HBM traffic) + exposed network time + fixed overhead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.bounds import check_record
from computeledger.errors import UnknownIdError, check_kind, nearest
from computeledger.facts.architecture import WeightBytes
from computeledger.facts.formats import FORMATS, beside_experts, known_format
from computeledger.facts.gguf_mixes import mix_named, unknown_precision
from computeledger.facts.schema import FLOAT_PRECISIONS, KV_PRECISIONS, PRECISION_BYTES, System
from computeledger.physics.calibration.achieved import bandwidth_ratio, loss_ratio
from computeledger.physics.calibration.efficiency import IDEAL, Efficiency
from computeledger.physics.calibration.training import IDEAL_TRAINING, TrainingEfficiency

BOUNDS = ("compute", "memory", "network", "overhead")

#: Bytes of one activation: 16 bits.
ACTIVATION_BYTES = 2.0

#: Rate of a weight-only product over that of 16-bit weights, reading and multiplying alike [-]. Fitted to 5,250
#: products of at least 2^24 weights in TensorRT-LLM's int4 and int8 kernels on A100, of 1 to 8,192 rows (aiconfigurator
#: 0.12.0): median residual 14 %, 18 % without it.
UNPACKED_FRACTION = 0.96


class OperationKind(StrEnum):
    """What an operation does: models tell operations apart by this, and tables show its value."""

    ATTENTION_PROJECTIONS = "attention projections"
    ATTENTION = "attention"
    LATENT_ATTENTION = "latent attention"
    STATE_SCANS = "state scans"
    DENSE_MLP = "dense and shared MLP"
    ROUTED_EXPERTS = "routed experts"
    MATRIX_PRODUCTS = "matrix products"
    ADAPTERS = "adapters"
    ADAPTER_KERNELS = "adapter kernels"
    ADAPTER_LOADS = "loading of adapters"
    OUTPUT_HEAD = "output head"
    ACTIVATIONS = "activations"
    ACTIVATIONS_AND_CASTS = "activations and casts"
    ALL_REDUCE = "all-reduce"
    TENSOR_PARALLEL = "tensor-parallel"
    CONTEXT_PARALLEL = "context-parallel"
    ALL_TO_ALL = "all-to-all"
    PIPELINE_HOPS = "pipeline hops"
    UNEVEN_STAGES = "uneven stages"
    LAUNCH_FLOORS = "launch floors"
    EAGER_LAUNCHES = "eager launches"
    HOST = "host"
    MASKS = "masks of structured output"
    HOST_WEIGHTS = "weights in host memory"
    HOST_CACHE = "cache in host memory"
    HOST_COPIES = "copies to host memory"
    OTHER_PREFILLS = "prefills of other requests"
    USUAL_TUNING = "usual tuning"
    CORRECTION = "measured correction"
    DRAFTING = "drafting"
    IMAGE_ENCODER = "image encoder"
    IMAGE_ATTENTION = "attention of images"
    IMAGE_ACTIVATIONS = "activations of images"
    PREFILL_QUEUE = "queue before the prefill pool"


@dataclass(frozen=True, slots=True)
class Operation:
    """Work of one kind in a step, on the busiest GPU, over all layers.

    ``time = max(flop / flop_per_s, bytes / bytes_per_s) + network + overhead``

    Attributes
    ----------
    kind : OperationKind
        What is done.
    flop, bytes : float or ndarray
        Work and HBM traffic [FLOP], [byte].
    flop_per_s, bytes_per_s : float or ndarray
        Rates that are reached [FLOP/s], [byte/s].
    network_bytes : float or ndarray
        Traffic that leaves the GPU [byte].
    network_s, overhead_s : float or ndarray
        Exposed time on the wire; launches and host [s].
    """

    kind: OperationKind
    flop: Num = 0.0
    bytes: Num = 0.0
    flop_per_s: Num = float("inf")
    bytes_per_s: Num = float("inf")
    network_bytes: Num = 0.0
    network_s: Num = 0.0
    overhead_s: Num = 0.0

    @property
    def name(self) -> str:
        """What is done, in words, such as ``routed experts``."""
        return self.kind.value

    @property
    def compute_s(self) -> Num:
        """Time if only arithmetic took any [s]."""
        return self.flop / self.flop_per_s

    @property
    def memory_s(self) -> Num:
        """Time if only HBM traffic took any [s]."""
        return self.bytes / self.bytes_per_s

    @property
    def time_s(self) -> Num:
        """Time of the operation [s]."""
        time_s = np.maximum(self.flop / self.flop_per_s, self.bytes / self.bytes_per_s)
        for further_s in (self.network_s, self.overhead_s):
            if not isinstance(further_s, float) or further_s:  # most have neither, and adding nothing takes as long
                time_s = time_s + further_s
        return time_s

    @property
    def intensity_flop_per_byte(self) -> Num:
        """Work over HBM traffic; infinite where nothing is moved [FLOP/byte]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(self.flop, self.bytes)

    @property
    def reached_flop_per_s(self) -> Num:
        """Work over time, launches and wire included; not a number where no time passes [FLOP/s]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(self.flop, self.time_s)


def total_s(operations: Iterable[Operation]) -> Num:
    """Time of operations that follow one another.

    Parameters
    ----------
    operations : iterable of Operation
        One step's work.

    Returns
    -------
    float or ndarray
        Sum of their times [s].

    Examples
    --------
    >>> head = Operation(OperationKind.OUTPUT_HEAD, flop=2.0, flop_per_s=1.0)
    >>> float(total_s([head, Operation(OperationKind.HOST, overhead_s=0.5)]))
    2.5
    """
    total: Num = 0.0
    # short arrays first: a long one is gone over once for each that follows it
    for time_s in sorted([one.time_s for one in operations], key=_size):
        total = total + time_s
    return total


def _size(value: Num) -> int:
    """Numbers of an array, 1 of a single one."""
    return getattr(value, "size", 1)


def exposed(operations: list[Operation], overlap_fraction: Num) -> list[Operation]:
    """Add to operations the share of the shorter of computing and moving that the longer does not hide.

    Parameters
    ----------
    operations : list of Operation
        Of any kind.
    overlap_fraction : float or ndarray
        Share that is hidden; 1 on a GPU, about 0 on a CPU that packs its weights before it multiplies [-].

    Returns
    -------
    list of Operation
        ``t = max(c, m) + (1 - overlap) min(c, m)``, the exposed part as overhead.

    Examples
    --------
    >>> one = Operation(OperationKind.OUTPUT_HEAD, flop=2.0, flop_per_s=1.0, bytes=1.0, bytes_per_s=1.0)
    >>> [float(exposed([one], share)[0].time_s) for share in (1.0, 0.0)]
    [2.0, 3.0]
    """
    if overlap_fraction == 1 if isinstance(overlap_fraction, float) else np.all(np.asarray(overlap_fraction) == 1):
        return operations
    hidden = 1 - overlap_fraction
    return [
        replace(one, overhead_s=one.overhead_s + hidden * np.minimum(one.compute_s, one.memory_s)) for one in operations
    ]


def bound_times_s(operations: Iterable[Operation]) -> dict[str, Num]:
    """Split a step's time by what binds.

    Parameters
    ----------
    operations : iterable of Operation
        One step's work.

    Returns
    -------
    dict of str to float or ndarray
        ``compute``, ``memory``, ``network``, ``overhead``; they add up to the step's time [s].

    Examples
    --------
    >>> work = dict(flop=2.0, flop_per_s=1.0, bytes=1.0, bytes_per_s=1.0, network_s=0.5)
    >>> parts = bound_times_s([Operation(OperationKind.OUTPUT_HEAD, **work)])
    >>> {name: float(part) for name, part in parts.items()}
    {'compute': 2.0, 'memory': 0.0, 'network': 0.5, 'overhead': 0.0}
    """
    out: dict[str, Num] = dict.fromkeys(BOUNDS, 0.0)
    for one in operations:
        compute, memory = one.compute_s, one.memory_s
        out["compute"] = out["compute"] + np.where(compute >= memory, compute, 0.0)
        out["memory"] = out["memory"] + np.where(compute >= memory, 0.0, memory)
        out["network"] = out["network"] + one.network_s
        out["overhead"] = out["overhead"] + one.overhead_s
    return out


def bound(operations: Iterable[Operation]) -> NDArray[np.str_]:
    """Name what binds a step: the largest of the four parts of its time.

    Parameters
    ----------
    operations : iterable of Operation
        One step's work.

    Returns
    -------
    ndarray of str
        ``compute``, ``memory``, ``network`` or ``overhead``.

    Examples
    --------
    >>> head = Operation(OperationKind.OUTPUT_HEAD, flop=2.0, flop_per_s=1.0)
    >>> str(bound([head, Operation(OperationKind.HOST, overhead_s=1.0)]))
    'compute'
    """
    parts = bound_times_s(operations)
    stacked = np.stack(np.broadcast_arrays(*(parts[name] for name in BOUNDS)))
    return np.asarray(np.array(BOUNDS)[np.argmax(stacked, axis=0)])


@dataclass(frozen=True, slots=True)
class Precision:
    """Format of each kind of value: a key of ``PRECISION_BYTES``, such as ``fp8`` or ``int4`` (W4A16).

    Attributes
    ----------
    attention, dense, experts : str
        Weights and products of mixers, of dense and shared MLPs, of routed experts.
    kv : str
        The KV cache.
    scores : str
        Products of queries with keys and of weights with values.
    head, embedding : str
        Weights of the output head, and of the input embedding where it is apart.
    mixed : WeightBytes or None
        Where tensors of one kind are in several formats: the mean of each kind.
    file : str
        What a file that mixes them so is called: ``gguf-q4_k_m``; empty where none is named.
    """

    attention: str = "bf16"
    dense: str = "bf16"
    experts: str = "bf16"
    kv: str = "bf16"
    scores: str = "bf16"
    head: str = "bf16"
    embedding: str = "bf16"
    mixed: WeightBytes | None = field(default=None, repr=False)
    file: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """The narrowest weights, which is what people call the precision; 8-bit floats by blocks are fp8 to them."""
        narrowest = min((self.attention, self.dense, self.experts), key=PRECISION_BYTES.__getitem__)
        return narrowest.removesuffix("-block")

    @property
    def written(self) -> str:
        """As people write it: a file that mixes formats by its own name, ``gguf-q4_k_m``, any other by its formats."""
        return self.file or "/".join(dict.fromkeys((self.attention, self.experts)))

    @property
    def weights(self) -> WeightBytes:
        """Bytes of one weight by kind: the mean where formats are mixed."""
        if self.mixed is not None:
            return self.mixed
        kinds = (self.attention, self.dense, self.experts, self.head, self.embedding)
        return WeightBytes(*(PRECISION_BYTES[one] for one in kinds))


def parse_precision(text: str, moe: bool = False, kv: str = "bf16") -> Precision:
    """Read a precision as it is written.

    Parameters
    ----------
    text : str
        A format of :data:`computeledger.facts.formats.FORMATS` or another name of it: ``bf16``, ``fp8``, ``fp4``
        (``nvfp4``), ``mxfp4``, ``int8`` (weights and activations), ``int4`` (``awq``, ``gptq``: weight-only, multiplied
        in 16 bits), ``w8a16`` and ``fp4-a16`` (weight-only), ``w4a8`` or ``fp4-a8`` (multiplied in 8 bits); or a GGUF
        file such as ``gguf-q4_k_m``. 4-bit float checkpoints of MoE models quantise the experts: ``fp4`` keeps the rest
        in 8 bits, ``mxfp4`` in 16.
    moe : bool
        Whether the model has routed experts.
    kv : str
        Format of the KV cache.

    Returns
    -------
    Precision
        By kind of value; of a GGUF file the type that most tensors have.

    Raises
    ------
    UnknownIdError
        A format that is not listed.

    Examples
    --------
    >>> parse_precision("nvfp4", moe=True)  # doctest: +ELLIPSIS
    Precision(attention='fp8', dense='fp8', experts='fp4', kv='bf16', ...)
    >>> parse_precision("gguf-q4_k_m").dense, parse_precision("gguf-q4_k_m").head
    ('q4_k', 'q6_k')
    """
    check_kind(text, str, "a precision, such as 'fp8'")
    kv = kv_format(kv)
    mix = mix_named(text)
    if mix is not None:
        rest = mix.dense or mix.rest
        return Precision(rest, rest, mix.rest if moe else rest, kv, head=mix.output, embedding=mix.embedding or rest)
    name = known_format(text)
    if name is None:
        raise unknown_precision(text)
    rest = {"fp4": "fp8", "mxfp4": "bf16"}.get(name, name) if moe else name
    if name.startswith("mlx-"):  # embedding and head are quantised too
        rest = beside_experts(name) if moe else name
        return Precision(rest, rest, name, kv, head=rest, embedding=rest)
    return Precision(attention=rest, dense=rest, experts=name, kv=kv)


def kv_format(text: str) -> str:
    """The name of a format of the KV cache.

    Parameters
    ----------
    text : str
        A format or another name of it.

    Returns
    -------
    str
        One of ``KV_PRECISIONS``.

    Raises
    ------
    UnknownIdError
        A format that no engine caches in.

    Examples
    --------
    >>> kv_format("fp16"), kv_format("Q8_0")
    ('bf16', 'q8_0')
    """
    check_kind(text, str, "a precision, such as 'fp8'")
    name = known_format(text)
    if name not in KV_PRECISIONS:
        raise UnknownIdError(f"unknown precision {text!r}: {nearest(text, KV_PRECISIONS)}")
    return name


def parse_training_precision(text: str, moe: bool = False) -> Precision:
    """Read the precision of a training step: of the formats that products are trained in.

    Parameters
    ----------
    text : str
        ``bf16``, ``fp8`` (``mxfp8``) or ``fp4`` (``nvfp4``).
    moe : bool
        Whether the model has routed experts.

    Returns
    -------
    Precision
        By kind of value.

    Raises
    ------
    UnknownIdError
        A format that is not listed, or one for serving alone.

    Examples
    --------
    >>> parse_training_precision("int4")
    Traceback (most recent call last):
    computeledger.errors.UnknownIdError: unknown precision of training 'int4': allowed: bf16, fp4, fp8
    """
    name = known_format(text) or text
    name = "fp8" if name == "mxfp8" else name
    if name not in FLOAT_PRECISIONS:
        raise UnknownIdError(f"unknown precision of training {text!r}: {nearest(text, FLOAT_PRECISIONS)}")
    return parse_precision(name, moe)


@dataclass(frozen=True, slots=True)
class Machine:
    """One GPU of a system, with what it reaches of its peaks.

    Attributes
    ----------
    system : System
        The facts.
    efficiency : Efficiency
        The factors between them and the machine.
    training : TrainingEfficiency
        The same for training.
    """

    system: System
    efficiency: Efficiency = IDEAL
    training: TrainingEfficiency = IDEAL_TRAINING

    def __post_init__(self) -> None:
        check_record(self)

    def gemm_flop_per_s(self, precision: str) -> Num:
        """Rate of matrix products: the peak at the narrowest precision that the chip has, times its factor.

        Parameters
        ----------
        precision : str
            A stored format; a chip without its units runs the next wider ones.

        Returns
        -------
        float or ndarray
            Rate of one GPU [FLOP/s].

        Examples
        --------
        >>> from computeledger.facts.load import load_system
        >>> h100 = Machine(load_system("h100-nvl8"))
        >>> h100.gemm_flop_per_s("fp4") == h100.gemm_flop_per_s("fp8") == 1979e12
        True
        """
        chip = self.system.accelerator
        rate = chip.peak(precision) * self.reached(self.efficiency.gemm_fraction(chip.native_precision(precision)))
        return rate * self.unpacked_fraction(precision)

    def expert_flop_per_s(self, precision: str) -> Num:
        """Rate of the grouped products of routed experts.

        Parameters
        ----------
        precision : str
            As for :meth:`gemm_flop_per_s`.

        Returns
        -------
        float or ndarray
            Rate of one GPU [FLOP/s].

        Examples
        --------
        >>> from computeledger.facts.load import load_system
        >>> from computeledger.physics.calibration.efficiency import efficiency
        >>> h20 = Machine(load_system("h20-nvl8"), efficiency())
        >>> round(h20.expert_flop_per_s("fp8") / h20.system.accelerator.peak("fp8"), 1)
        0.8
        """
        chip, eff = self.system.accelerator, self.efficiency
        fraction = eff.gemm_fraction(chip.native_precision(precision)) * eff.expert_fraction
        return chip.peak(precision) * self.reached(fraction) * self.unpacked_fraction(precision)

    @property
    def loss_ratio(self) -> Num:
        """Time that the chip loses per FLOP of its peak, over what the constants say [-]."""
        return 1 + self.efficiency.chip_correction * (loss_ratio(self.system.accelerator) - 1)

    def reached(self, fraction: Num) -> Num:
        """What the chip reaches of its peak where the chips of the fit reach a fraction of theirs.

        Parameters
        ----------
        fraction : float or ndarray
            A fitted constant [-].

        Returns
        -------
        float or ndarray
            ``1 / (1 + r (1 / fraction - 1))`` with ``r`` the ratio of what is lost per FLOP of the peak [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_system
        >>> from computeledger.physics.calibration.efficiency import efficiency
        >>> h20, h100 = (Machine(load_system(one), efficiency()) for one in ("h20-nvl8", "h100-nvl8"))
        >>> round(h20.reached(0.5), 1), h100.reached(0.5)
        (0.8, 0.5)
        """
        ratio = self.loss_ratio
        is_of_the_fit = not isinstance(ratio, np.ndarray) and ratio == 1
        return fraction if is_of_the_fit else 1 / (1 + ratio * (1 / fraction - 1))

    @property
    def bandwidth_ratio(self) -> Num:
        """Share of its bandwidth that the chip reaches, over what the constants say [-]."""
        return 1 + self.efficiency.chip_correction * (bandwidth_ratio(self.system.accelerator) - 1)

    def _stream_bytes_per_s(self, fraction: Num) -> Num:
        """Rate at which bytes stream from HBM where the chips of the fit reach a fraction of their bandwidth."""
        return self.system.accelerator.hbm_bytes_per_s.value * fraction * self.bandwidth_ratio

    def unpacked_fraction(self, precision: str) -> float:
        """Share of its rates that a product keeps when it unpacks narrow weights to 16 bits first.

        Parameters
        ----------
        precision : str
            A stored format.

        Returns
        -------
        float
            :data:`UNPACKED_FRACTION` for weight-only formats on a real machine, else 1 [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_system
        >>> Machine(load_system("h100-nvl8")).unpacked_fraction("int4")
        1.0
        """
        is_unpacked = FORMATS[precision].is_weight_only and self.efficiency is not IDEAL
        return UNPACKED_FRACTION if is_unpacked else 1.0

    @property
    def bf16_flop_per_s(self) -> float:
        """Dense bf16 peak, which every utilisation is measured against [FLOP/s]."""
        return self.system.accelerator.peak_flop_per_s["bf16"].value

    @property
    def weight_bytes_per_s(self) -> Num:
        """Rate at which weights stream from HBM [byte/s]."""
        return self._stream_bytes_per_s(self.efficiency.weight_bandwidth_fraction)

    @property
    def expert_bytes_per_s(self) -> Num:
        """Rate at which routed experts' weights stream from HBM [byte/s]."""
        return self._stream_bytes_per_s(self.efficiency.expert_bandwidth_fraction)

    @property
    def kv_bytes_per_s(self) -> Num:
        """Rate at which the KV cache streams from HBM [byte/s]."""
        return self._stream_bytes_per_s(self.efficiency.kv_bandwidth_fraction)

    @property
    def scale_up_bytes_per_s(self) -> Num:
        """Rate of a collective inside the scale-up domain, per GPU and direction [byte/s]."""
        return self.system.scale_up_bytes_per_s_per_gpu.value * self.efficiency.scale_up_fraction

    @property
    def scale_out_bytes_per_s(self) -> Num:
        """Rate of a collective beyond the scale-up domain, per GPU and direction [byte/s]."""
        return self.system.cross_domain_bytes_per_s_per_gpu * self.efficiency.scale_out_fraction
