"""What a training search chooses from: every legal layout, microbatch, recompute mode and schedule, as columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import LayoutError
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout, check_layout
from computeledger.physics.training.batch import RECOMPUTE, RECOMPUTE_CHOICES
from computeledger.units import format_count
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.expressible import expressible
from computeledger.workloads.pretraining.pipeline import SCHEDULES

#: Context parallelism leaves each rank at least this many tokens (assumption: published runs keep 4K to 8K), and this
#: many where a batch has fewer sequences than a job has GPUs: pipelines would run empty otherwise.
LEAST_TOKENS_PER_RANK, LEAST_OF_FEW = 4096, 2048
#: Largest microbatch that is tried, in sequences, and the largest number of pieces of the model per stage.
MOST_MICROBATCH, MOST_PIECES = 16, 16

Columns = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may choose from; None leaves it free. A ``launcher`` narrows it to what its launch can state."""

    n_scale_up: int
    layouts: tuple[Layout, ...] | None = None
    microbatch_sequences: int | None = None
    virtual_stages: int | None = None
    recompute: tuple[str, ...] = RECOMPUTE
    schedules: tuple[str, ...] = ("1f1b",)
    sharded: tuple[bool, ...] = (False, True)
    launcher: str = ""

    @property
    def asked(self) -> frozenset[str]:
        """What was asked for, so that no search may change it, as ``expressible`` names it."""
        of_layout = {"pp", "ep", "is_mesh", "even_stages", "whole_rounds", "sequence"}
        of_pieces = {"even_stages", "whole_rounds"} if self.virtual_stages or self.microbatch_sequences else set()
        single = {"recompute": self.recompute, "zero": self.sharded, "schedule": self.schedules}
        given = {name for name, choices in single.items() if len(choices) == 1}
        return frozenset((of_layout if self.layouts is not None else of_pieces) | given)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Configurations as columns; each is legal, and the global batch divides over it."""

    tp: Columns
    pp: Columns
    dp: Columns
    cp: Columns
    ep: Columns
    microbatch_sequences: Columns
    virtual_stages: Columns
    schedule: Columns
    sharded: Columns
    recompute: Columns

    @property
    def size(self) -> int:
        """Number of configurations [-]."""
        return len(self.tp)

    def take(self, rows: NDArray[np.int64] | slice) -> Candidates:
        """Pick rows.

        Examples
        --------
        >>> one = np.array([1.0, 2.0])
        >>> Candidates(*([one] * 10)).take(slice(1, 2)).size
        1
        """
        return Candidates(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})


def divisors(n: int, most: int | None = None) -> list[int]:
    """Divisors of a count.

    Examples
    --------
    >>> divisors(12), divisors(12, 4)
    ([1, 2, 3, 4, 6, 12], [1, 2, 3, 4])
    """
    if most is not None and most < math.isqrt(n):
        return [d for d in range(1, most + 1) if n % d == 0]
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return [d for d in sorted({*small, *(n // d for d in small)}) if most is None or d <= most]


def training_layouts(model: Model, n_gpus: int, n_scale_up: int, longest_cp: int = 1) -> list[Layout]:
    """List the layouts that use all GPUs of a job: every divisor in tp, pp, cp and ep that is legal.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> [str(layout) for layout in training_layouts(load_model("llama-3.1-8b"), 4, 8)]
    ['tp1-dp4', 'tp1-pp2-dp2', 'tp1-pp4', 'tp2-dp2', 'tp2-pp2', 'tp4']
    """
    experts = model.n_experts
    found = list(_legal(model, n_gpus, (n_scale_up, longest_cp, experts)))
    if not found:
        raise LayoutError(f"no legal training layout of {model.id} on {format_count(n_gpus, 'GPU')}")
    return found


def _legal(model: Model, n_gpus: int, limits: tuple[int, int, int]) -> Iterator[Layout]:
    n_scale_up, longest_cp, experts = limits
    for tp in divisors(n_gpus, min(n_scale_up, 64)):
        for pp in divisors(n_gpus // tp, min(model.n_layers, 64)):
            for cp in divisors(n_gpus // (tp * pp), longest_cp):
                dp = n_gpus // (tp * pp * cp)
                for ep in divisors(experts, tp * dp * cp) if experts else [1]:
                    layout = Layout(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep)
                    try:
                        yield check_layout(layout, model)
                    except LayoutError:
                        continue


def longest_context_parallel(sequence_tokens: float, least: int = LEAST_TOKENS_PER_RANK) -> int:
    """Context-parallel degree up to which each rank keeps enough tokens.

    Examples
    --------
    >>> longest_context_parallel(4096), longest_context_parallel(131072), longest_context_parallel(500)
    (1, 32, 1)
    """
    return int(2 ** max(math.floor(math.log2(max(sequence_tokens / least, 1.0))), 0))


def candidates(scenario: PretrainingScenario, n_gpus: int, limits: Limits) -> Candidates:
    """Lay out every legal configuration of a job as columns.

    A configuration is legal where the layout is, the global batch divides into microbatches, the pipeline has a piece
    of the model for each virtual stage and, with several pieces, microbatches in multiples of the stages; DualPipe
    needs an even number of stages and at least two microbatches for each.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(4096.0, 64.0))
    >>> candidates(scenario, 8, Limits(8)).size
    462
    """
    sequences = int(np.median(np.asarray(scenario.batch.global_sequences)))
    sequence_tokens = float(np.median(np.asarray(scenario.batch.sequence_tokens)))
    layouts = limits.layouts
    if layouts is None:
        least = LEAST_OF_FEW if sequences < n_gpus else LEAST_TOKENS_PER_RANK
        longest = longest_context_parallel(sequence_tokens, least)
        every = training_layouts(scenario.model, n_gpus, limits.n_scale_up, longest)
        layouts = tuple(one for one in every if divides_sequence(int(one.cp), sequence_tokens))
    degrees = np.array([[one.tp, one.pp, one.dp, one.cp, one.ep] for one in layouts], float)
    micro = [limits.microbatch_sequences] if limits.microbatch_sequences else divisors(sequences, MOST_MICROBATCH)
    pieces = [limits.virtual_stages] if limits.virtual_stages else list(range(1, MOST_PIECES + 1))
    kinds = [SCHEDULES.index(name) for name in limits.schedules]
    table = _crossed(degrees, [micro])
    table = table[_divides(table, sequences)]
    if scenario.sites is not None:
        table = table[_sited(table, scenario.sites.n)]
    table = _crossed(table, [pieces, kinds])
    table = table[_piped(table, sequences, scenario.model.n_layers, bool(limits.virtual_stages))]
    table = _crossed(
        table, [[int(flag) for flag in limits.sharded], [RECOMPUTE_CHOICES.index(mode) for mode in limits.recompute]]
    )
    _, pp, dp, cp, _, _, _, _, sharded, _ = table.T
    table = table[(sharded == 0) | ((pp == 1) & (dp * cp > 1))]
    names = [one.name for one in fields(Candidates)]
    columns = dict(zip(names, np.ascontiguousarray(table.T), strict=True))
    legal = Candidates(**columns)
    if not limits.launcher:
        return legal
    return legal.take(np.flatnonzero(expressible(limits.launcher, scenario, columns, limits.asked)))


def divides_sequence(cp: int, sequence_tokens: float) -> bool:
    """Tell whether a sequence divides into two chunks for each rank; what is short of a power of two is padded.

    Examples
    --------
    >>> divides_sequence(3, 8192.0), divides_sequence(3, 9216.0), divides_sequence(4, 8190.0)
    (False, True, True)
    """
    return cp & (cp - 1) == 0 or sequence_tokens % (2 * cp) == 0


def _crossed(table: Columns, choices: list[list[int]]) -> Columns:
    """Every row with every combination of further columns."""
    grid = np.meshgrid(np.arange(len(table)), *choices, indexing="ij")
    return np.column_stack([table[grid[0].ravel()], *(axis.ravel() for axis in grid[1:])])


def _divides(table: Columns, sequences: int) -> NDArray[np.bool_]:
    """Rows whose ranks get whole microbatches."""
    per_rank = sequences / table[:, 2] / table[:, 5]
    return np.asarray((per_rank >= 1) & (per_rank == np.floor(per_rank)))


def _sited(table: Columns, n_sites: int) -> NDArray[np.bool_]:
    """Rows whose data-parallel ranks divide over sites, with every expert in each."""
    tp, _, dp, cp, ep, *_ = table.T
    inside = dp // n_sites
    return np.asarray((dp % n_sites == 0) & (tp * inside * cp % ep == 0))


def _piped(table: Columns, sequences: int, n_layers: int, given: bool) -> NDArray[np.bool_]:
    """Rows whose pipeline can run; pieces of unequal size only in powers of two, or where their number was given."""
    _, pp, dp, _, _, micro, pieces, kind = table.T
    per_rank = sequences / dp / micro
    even = (n_layers % (pp * pieces) == 0) | (np.log2(pieces) % 1 == 0) | given
    interleaved = (pp > 1) & (kind == 0) & (pp * pieces <= n_layers) & even & (per_rank % pp == 0)
    both_ends = (pp % 2 == 0) & (per_rank % 2 == 0) & (per_rank >= 2 * pp)
    return np.asarray(
        ((pieces == 1) | interleaved) & ((kind == 0) | (pp > 1)) & ((kind != SCHEDULES.index("dualpipe")) | both_ends)
    )
