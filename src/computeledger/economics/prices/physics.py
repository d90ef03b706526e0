"""What a model of which only the sizes are supposed costs to serve: known shapes, widened or narrowed to those sizes.

Every supposed model takes the open shape nearest to it in active and total parameters. The operations are those of
:func:`computeledger.physics.serving.operations.forward`, as ``serve`` evaluates them, with the efficiencies fitted
there. Work on weights grows with their number, work on activations with its square root (a wider model of the
same depth), traffic of the cache with its bytes per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import compared_systems
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.attention import mixer_of
from computeledger.physics.calibration.efficiency import IDEAL, efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, Precision, parse_precision
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.serving.buffers import SERVER_BUFFERS, held_beside
from computeledger.physics.serving.limit import above_limit_s
from computeledger.physics.serving.memory import (
    WORKSPACE_BYTES,
    cache_bytes_per_gpu,
    sequence_bytes_per_gpu,
    weights_bytes_per_gpu,
)
from computeledger.physics.serving.operations import CHUNK_TOKENS, Step, forward, prefill
from computeledger.physics.transformer import kv_bytes_per_token, n_params_active, n_params_total
from computeledger.units import HOUR_S, TOKENS_PER_MTOK

Floats = NDArray[np.float64]

#: Sizes whose shapes by rule stand for others: dense, and with experts (assumption).
SHAPES = ("8B", "32B", "70B", "400B", "20B-A4B", "30B-A3B", "120B-A5B", "100B-A10B", "230B-A10B", "400B-A17B",
          "400B-A40B", "700B-A37B", "1000B-A32B", "2000B-A50B", "2800B-A100B")  # fmt: skip
#: Chips a price may come from, and precisions of the weights.
SYSTEMS = compared_systems("token_prices")
PRECISIONS = ("bf16", "fp8", "fp4")
#: Time between two tokens of a sequence that a seller aims at, 90 % intervals (assumption) [s].
SPEED_TARGETS = {"fast": (0.008, 0.02), "usual": (0.02, 0.05), "bulk": (0.05, 0.15)}
#: Share of the HBM that the weights may take, the rest being the cache's (assumption).
WEIGHTS_FRACTION = 0.75
#: GPUs of the largest replica (assumption; DeepSeek-V3 decodes on 320).
LARGEST_REPLICA = 512.0


@dataclass(frozen=True, slots=True)
class ServingPrior:
    """What is assumed of how a model is served: 90 % intervals of log-normal quantities.

    Attributes
    ----------
    context_tokens : tuple of float
        In a sequence's cache [token].
    occupancy_fraction : tuple of float
        Hours that are sold over hours that are paid [-].
    """

    context_tokens: tuple[float, float] = (2000.0, 32000.0)
    occupancy_fraction: tuple[float, float] = (0.3, 0.8)


@dataclass(frozen=True, slots=True)
class Supposed:
    """Models that are supposed, one per sample.

    Attributes
    ----------
    n_params_active, n_params_total : ndarray
        Sizes [-].
    kv_bytes_per_token : ndarray
        Cache of one more token of a long context in bf16 [byte/token].
    """

    n_params_active: Floats
    n_params_total: Floats
    kv_bytes_per_token: Floats


@dataclass(frozen=True, slots=True)
class Served:
    """How samples are served, and at what cost.

    Attributes
    ----------
    fits : ndarray
        Whether at least one sequence fits and meets the speed target.
    batch, context_tokens, step_s : ndarray
        Sequences per replica [-], tokens each holds [token], time of a decode step [s].
    largest_batch : ndarray
        Sequences that the memory holds [-].
    usd_per_mtok_input, usd_per_mtok_output : ndarray
        Cost [USD/Mtok].
    utilization_fraction : ndarray
        FLOP of three input tokens and one output token over peak and GPU-time, unsold hours included [-].
    fast_speed_ratio : ndarray
        How much faster a step is at the batch that a fast mode leaves; not a number where none is asked for [-].
    """

    fits: NDArray[np.bool_]
    batch: Floats
    context_tokens: Floats
    step_s: Floats
    largest_batch: Floats
    usd_per_mtok_input: Floats
    usd_per_mtok_output: Floats
    utilization_fraction: Floats
    fast_speed_ratio: Floats


C = TypeVar("C", Supposed, Served)


def rows_of(columns: C, chosen: NDArray[np.intp]) -> C:
    """Some rows of a record of columns.

    Parameters
    ----------
    columns : Supposed or Served
        Arrays of one length.
    chosen : ndarray
        Which rows [-].

    Returns
    -------
    Supposed or Served
        In that order.

    Examples
    --------
    >>> few = Supposed(np.array([1e9, 2e9]), np.array([1e9, 8e9]), np.array([1e5, 1e5]))
    >>> rows_of(few, np.array([1])).n_params_total.tolist()
    [8000000000.0]
    """
    return type(columns)(*(getattr(columns, name)[chosen] for name in columns.__slots__))


@dataclass(frozen=True, slots=True)
class Cell:
    """A chip with a precision of the weights.

    Attributes
    ----------
    system_id, precision : str
        Which.
    """

    system_id: str
    precision: str

    @property
    def name(self) -> str:
        """Chip and precision."""
        return f"{load_system(self.system_id).accelerator.id} {self.precision}"


def cells() -> tuple[dict[Cell, str], list[Cell]]:
    """Chips and precisions that could be: those ruled out with the reason, and the rest.

    Returns
    -------
    tuple of dict and list
        Reasons by cell, and cells that remain.

    Examples
    --------
    >>> ruled_out, possible = cells()
    >>> [ruled_out[Cell("h100-nvl8", "fp4")], Cell("h100-nvl8", "fp8") in possible]
    ['the chip does not compute in fp4', True]
    """
    ruled_out, possible = {}, []
    rents = load_prices().usd_per_gpu_hour
    for cell in (Cell(system_id, precision) for system_id in SYSTEMS for precision in PRECISIONS):
        chip = load_system(cell.system_id).accelerator
        if cell.precision not in chip.peak_flop_per_s:
            ruled_out[cell] = f"the chip does not compute in {cell.precision}"
        elif "rent" not in rents.get(chip.id, {}):
            ruled_out[cell] = "the price edition has no rent of the chip"
        else:
            possible.append(cell)
    return ruled_out, possible


def lognormal(ends: tuple[float, float], rng: np.random.Generator, n: int) -> Floats:
    """Draws of a quantity of which a 90 % interval is assumed.

    Parameters
    ----------
    ends : tuple of float
        The interval, in the quantity's unit.
    rng : Generator
        Of the draws.
    n : int
        How many [-].

    Returns
    -------
    ndarray
        In the quantity's unit.

    Examples
    --------
    >>> round(float(np.median(lognormal((1.0, 100.0), np.random.default_rng(0), 10_000))))
    10
    """
    middle, half = 0.5 * (math.log(ends[0]) + math.log(ends[1])), 0.5 * math.log(ends[1] / ends[0]) / 1.6449
    return np.exp(middle + half * rng.standard_normal(n))


@cache
def _shapes() -> tuple[tuple[Supposed, Model], ...]:
    return tuple((_sizes(model), model) for model in map(load_model, SHAPES))


def _sizes(model: Model) -> Supposed:
    """Sizes of a model as samples have them: all parameters of a dense one are active."""
    total, cache = (np.array(float(count)) for count in (n_params_total(model), kv_bytes_per_token(model, 2.0)))
    return Supposed(np.array(float(n_params_active(model))) if model.is_moe else total, total, cache)


def nearest_shape(supposed: Supposed) -> NDArray[np.intp]:
    """Which of the shapes stands for each sample: the nearest in the logarithms of active and total parameters.

    Parameters
    ----------
    supposed : Supposed
        Sizes.

    Returns
    -------
    ndarray
        Place in ``SHAPES`` [-].

    Examples
    --------
    >>> one = Supposed(*(np.array([value]) for value in (37e9, 671e9, 70e3)))
    >>> SHAPES[int(nearest_shape(one)[0])]
    '700B-A37B'
    """
    active, total = np.log(supposed.n_params_active), np.log(supposed.n_params_total)
    apart = [
        (active - np.log(one.n_params_active)) ** 2 + (total - np.log(one.n_params_total)) ** 2 for one, _ in _shapes()
    ]
    return np.asarray(np.argmin(np.stack(apart), axis=0), np.intp)


def serve_supposed(
    supposed: Supposed, where: tuple[Cell, NDArray[np.intp]], prior: ServingPrior, rng: np.random.Generator,
    fast_batch_ratio: float | None = None,
) -> Served:  # fmt: skip
    """Serve every sample on one kind of chip and at one precision, at the batch that its speed target allows.

    Replicas are one, two or four times the smallest power of two of GPUs that holds the weights.

    Parameters
    ----------
    supposed : Supposed
        Models.
    where : tuple of Cell and ndarray
        Chip and precision, and the place of each sample's target in ``SPEED_TARGETS``.
    prior : ServingPrior
        How models are served.
    rng : Generator
        Of what is drawn.
    fast_batch_ratio : float, optional
        Batch over that of a fast mode [-].

    Returns
    -------
    Served
        One entry per sample.

    Examples
    --------
    >>> one = Supposed(*(np.full(50, value) for value in (8e9, 8e9, 131072.0)))
    >>> where = Cell("h100-nvl8", "fp8"), np.ones(50, int)
    >>> served = serve_supposed(one, where, ServingPrior(), np.random.default_rng(0))
    >>> bool(0.02 < np.median(served.usd_per_mtok_output) < 2.0)
    True
    """
    n = len(supposed.n_params_active)
    machine = Machine(load_system(where[0].system_id), efficiency())
    context = lognormal(prior.context_tokens, rng, n)
    target = np.choose(where[1], [lognormal(ends, rng, n) for ends in SPEED_TARGETS.values()])
    sold = np.minimum(lognormal(prior.occupancy_fraction, rng, n), 1.0)
    doublings = rng.integers(0, 3, n)
    out = [np.zeros(n, bool), *(np.full(n, math.nan) for _ in range(len(Served.__slots__) - 1))]
    kinds = nearest_shape(supposed)
    for kind in np.unique(kinds):
        mine = np.flatnonzero(kinds == kind)
        stretched = _Stretched(_shapes()[kind], rows_of(supposed, mine), machine, where[0].precision)
        drawn = _Drawn(context[mine], target[mine], sold[mine], doublings[mine])
        for whole, part in zip(out, stretched.serve(drawn, fast_batch_ratio), strict=True):
            whole[mine] = part
    return Served(*out)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What is drawn of how a sample is served."""

    context: Floats
    target_s: Floats
    sold: Floats
    doublings: NDArray[np.int64]


class _Stretched:
    """Samples that share a shape, on one kind of machine."""

    def __init__(self, shape: tuple[Supposed, Model], supposed: Supposed, machine: Machine, precision: str) -> None:
        known, self.model = shape
        self.moe = self.model.is_moe
        self.latent = any(mixer_of(mixer).decode_operation is Kind.LATENT_ATTENTION for _, mixer in self.model.mixers)
        self.machine, self.supposed = machine, supposed
        self.precision: Precision = parse_precision(precision, self.moe, "bf16" if precision == "bf16" else "fp8")
        active = supposed.n_params_active / known.n_params_active
        self.total = supposed.n_params_total / known.n_params_total
        self.kv = supposed.kv_bytes_per_token / known.kv_bytes_per_token
        self.growth = {
            Kind.ATTENTION_PROJECTIONS: (active, active), Kind.DENSE_MLP: (active, active),
            Kind.ROUTED_EXPERTS: (active, self.total), Kind.ATTENTION: (np.sqrt(active), self.kv),
            Kind.LATENT_ATTENTION: (np.sqrt(active), self.kv),
        }  # fmt: skip
        self.wide = np.sqrt(active)

    def seconds(self, run: Callable[..., Sequence[Operation]], step: Step, layout: Layout) -> Floats:
        """Time of a step, as serving has it: its operations grown to the sample's sizes, above the physical limit."""
        eff = self.machine.efficiency
        whole_s, limit_s = (
            self.grown_s(run(self.model, step, layout, self.precision, machine))
            for machine in (self.machine, replace(self.machine, efficiency=IDEAL))
        )
        central_s = np.maximum(eff.step_ratio * whole_s, limit_s)
        return np.asarray(above_limit_s(central_s, limit_s, eff.serving_ratio), float)

    def grown_s(self, operations: Sequence[Operation]) -> Num:
        """Time of operations, each grown to the sample's sizes."""
        total: Num = 0.0
        for one in operations:
            flop, bytes_ = self.growth.get(one.kind, (self.wide, self.wide))
            moved_s = np.maximum(one.compute_s * flop, one.memory_s * bytes_)
            total = total + (moved_s + one.network_s * self.wide + one.overhead_s)
        return total

    def layout(self, doublings: NDArray[np.int64]) -> tuple[Layout, Floats]:
        """Cut of every sample and its GPUs: tensors within a node, experts over all of it."""
        hbm = float(self.machine.system.accelerator.usable_bytes)
        room = WEIGHTS_FRACTION * (hbm - WORKSPACE_BYTES)
        stored = np.asarray(weights_bytes_per_gpu(self.model, Layout(), self.precision) * self.total, float)
        gpus = np.asarray(2.0 ** (np.ceil(np.log2(np.maximum(stored / room, 1.0))) + doublings), float)
        if self.latent:
            return Layout(dp=gpus, ep=gpus), gpus
        tp = np.asarray(np.minimum(gpus, 8.0), float)
        return (Layout(tp=tp, dp=gpus / tp, ep=gpus) if self.moe else Layout(tp=tp, pp=gpus / tp)), gpus

    def largest_batch(self, context: Floats, layout: Layout) -> Floats:
        """Sequences that the memory of a replica holds, all attention-DP ranks together."""
        weights = weights_bytes_per_gpu(self.model, layout, self.precision) * self.total
        held = held_beside(self.model, context, layout, self.precision, SERVER_BUFFERS)
        held = replace(held, chunk_bytes=held.chunk_bytes * self.wide)
        kept = cache_bytes_per_gpu(self.machine.system, weights, held, 0.0, SERVER_BUFFERS)
        each = sequence_bytes_per_gpu(self.model, context, layout, PRECISION_BYTES[self.precision.kv]) * self.kv
        return np.asarray(kept / each * layout.dp, float)

    def decode_s(self, batch: Num, context: Floats, layout: Layout) -> Floats:
        """One decode step."""
        return self.seconds(forward, Step(batch, context), layout)

    def batch(self, drawn: _Drawn, layout: Layout, largest: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Largest batch within the speed target, its step, and whether one sequence is fast enough."""
        low, high = np.ones_like(largest), np.maximum(largest, 1.0)
        first, last = self.decode_s(np.stack([low, high]), drawn.context, layout)
        step, batch = last, high
        for _ in range(3):
            share = (drawn.target_s - first) / np.maximum(last - first, 1e-12)
            batch = np.where(last <= drawn.target_s, high, low + np.clip(share, 0.0, 1.0) * (high - low))
            step = self.decode_s(batch, drawn.context, layout)
            over = step > drawn.target_s
            high, last = np.where(over, batch, high), np.where(over, step, last)
            low, first = np.where(over, low, batch), np.where(over, first, step)
        return batch, step, first <= drawn.target_s * 1.05

    def serve(self, drawn: _Drawn, fast_batch_ratio: float | None) -> tuple[Floats | NDArray[np.bool_], ...]:
        """Columns of :class:`Served`."""
        layout, gpus = self.layout(drawn.doublings)
        precision, chip = self.precision, self.machine.system.accelerator
        largest = self.largest_batch(drawn.context, layout)
        batch, step_s, fast_enough = self.batch(drawn, layout, largest)
        new = np.minimum(drawn.context, CHUNK_TOKENS)
        ranks = layout.dp * layout.pp
        prompt = Step(ranks, (drawn.context - new) / 2, new, decode=False)
        input_s = self.seconds(prefill, prompt, layout) * gpus / (ranks * new)
        output_s = step_s * gpus / batch
        rent = float(load_prices().usd_per_gpu_hour[chip.id]["rent"].value) / HOUR_S * TOKENS_PER_MTOK / drawn.sold
        flop = 2 * self.supposed.n_params_active * 4
        peak = chip.peak(chip.native_precision(precision.name))
        fast = np.full_like(batch, math.nan)
        if fast_batch_ratio is not None:
            smaller = batch / fast_batch_ratio
            fast = np.where(smaller >= 1, step_s / self.decode_s(np.maximum(smaller, 1.0), drawn.context, layout), 0.0)
        return (
            fast_enough & (largest >= 1) & (gpus <= LARGEST_REPLICA), batch, drawn.context, step_s, largest,
            input_s * rent, output_s * rent, flop / peak / (3 * input_s + output_s) * drawn.sold, fast,
        )  # fmt: skip
