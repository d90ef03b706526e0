"""Who does what when in one pipeline step: every pass of every microbatch on every stage, as a schedule runs them."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from computeledger.errors import InputError
from computeledger.workloads.pretraining.dual_pipe import dual_spans
from computeledger.workloads.pretraining.pipeline import Passes

#: Microbatches drawn over stages: a longer step is cut in its steady middle, where every turn is like the last.
MOST_ROUNDS, FEW_ROUNDS = 3, 2


@dataclass(frozen=True, slots=True)
class Bar:
    """One pass on one stage.

    Attributes
    ----------
    stage : int
        Stage, from 0 [-].
    kind : str
        ``forward``, ``backward`` or ``weights``.
    microbatch, piece : int
        Which microbatch, and which piece of the model on the stage, from 0; of DualPipe, the direction [-].
    start_s, end_s : float
        When [s].
    """

    stage: int
    kind: str
    microbatch: int
    piece: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A pipeline step, or its beginning and end.

    Attributes
    ----------
    bars : tuple of Bar
        Every pass.
    n_stages, n_microbatches : int
        As drawn [-].
    left_out : int
        Microbatches of the steady middle that are not drawn [-].
    """

    bars: tuple[Bar, ...]
    n_stages: int
    n_microbatches: int
    left_out: int

    @property
    def end_s(self) -> float:
        """When the last pass ends [s]."""
        return max(bar.end_s for bar in self.bars)

    @property
    def busy_fraction(self) -> float:
        """Share of the stages' time in which they work [-]."""
        return sum(bar.end_s - bar.start_s for bar in self.bars) / (self.n_stages * self.end_s)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is to be drawn.

    Attributes
    ----------
    schedule : str
        ``1f1b`` (interleaved with several pieces), ``zero-bubble`` or ``dualpipe``.
    n_stages, n_microbatches, n_pieces : int
        Stages, microbatches of a step, pieces of the model per stage [-].
    split : Passes
        Of a microbatch's time.
    microbatch_s : float
        Time of one microbatch on one stage [s].
    """

    schedule: str
    n_stages: int
    n_microbatches: int
    n_pieces: int
    split: Passes
    microbatch_s: float


def timeline(pipeline: Pipeline, whole: bool = False, rounds: int = MOST_ROUNDS) -> Timeline:
    """Run a schedule: each stage works through its order, each pass waits for what it needs.

    Parameters
    ----------
    pipeline : Pipeline
        Schedule and times.
    whole : bool
        Whether to keep every microbatch of a long step.
    rounds : int
        Microbatches over stages up to which a step is not cut [-].

    Returns
    -------
    Timeline
        With its bars.

    Raises
    ------
    InputError
        For a DualPipe of stages or microbatches that it does not run.

    Examples
    --------
    >>> from computeledger.workloads.pretraining.pipeline import passes
    >>> drawn = timeline(Pipeline("1f1b", 4, 8, 1, passes("none"), 3.0))
    >>> drawn.end_s
    33.0
    """
    if pipeline.schedule == "dualpipe":
        return _dual(pipeline, whole)
    stages, total = pipeline.n_stages, pipeline.n_microbatches
    if pipeline.n_pieces > 1:  # interleaving takes microbatches in rounds of the stages
        total = math.ceil(total / stages) * stages
    most = rounds * stages
    shown = total if whole or total <= most + stages else most + total % stages
    orders = [_order(stage, shown, pipeline) for stage in range(stages)]
    deferred = pipeline.schedule == "zero-bubble" and pipeline.split.weights > 0
    bars = _run(orders, pipeline, deferred)
    return Timeline(tuple(bars), stages, shown, total - shown)


def _dual(pipeline: Pipeline, whole: bool) -> Timeline:
    """A pipeline that is fed from both ends; the second half of the microbatches enters at the last stage."""
    stages, total = pipeline.n_stages, pipeline.n_microbatches
    if stages % 2 or total % 2 or total < 2 * stages:
        raise InputError(
            f"no picture of a dualpipe of {stages} stages and {total} microbatches: it runs an even number of stages, "
            "and an even number of microbatches, at least two for each stage"
        )
    shown = total if whole or total <= MOST_ROUNDS * stages else 2 * stages
    spans = dual_spans(stages, shown, pipeline.split, pipeline.microbatch_s)
    bars = [
        Bar(stage, "backward" if kind == "inputs" else kind, number + way * total // 2, way, start, end)
        for stage, (kind, number, way), start, end in spans
    ]
    return Timeline(tuple(bars), stages, shown, total - shown)


Pass = tuple[str, int, int]


def _order(stage: int, microbatches: int, pipeline: Pipeline) -> list[Pass]:
    """Forward and backward passes of a stage in the order of (interleaved) 1F1B."""
    stages, pieces = pipeline.n_stages, pipeline.n_pieces
    total = microbatches * pieces
    ahead = stages - stage - 1
    warm = ahead if pieces == 1 else 2 * ahead + (pieces - 1) * stages
    warm = total if pieces > 1 and microbatches == stages else min(warm, total)

    def one(kind: str, turn: int) -> Pass:
        piece = turn % (stages * pieces) // stages
        microbatch = turn // (stages * pieces) * stages + turn % stages if pieces > 1 else turn
        return kind, microbatch, piece if kind == "forward" else pieces - 1 - piece

    order = [one("forward", turn) for turn in range(warm)]
    for turn in range(total - warm):
        order += [one("forward", warm + turn), one("backward", turn)]
    return order + [one("backward", turn) for turn in range(total - warm, total)]


def _run(orders: list[list[Pass]], pipeline: Pipeline, deferred: bool) -> list[Bar]:
    """Start each pass as early as its stage and what it waits for allow."""
    split, unit = pipeline.split, pipeline.microbatch_s / pipeline.n_pieces
    lasts = {"forward": unit * split.forward, "weights": unit * split.weights}
    lasts["backward"] = unit * (split.backward - (split.weights if deferred else 0.0))
    done: dict[tuple[Pass, int], float] = {}
    free, place = [0.0] * len(orders), [0] * len(orders)
    waiting: list[deque[Pass]] = [deque() for _ in orders]
    bars: list[Bar] = []

    def work(stage: int, one: Pass, start: float) -> None:
        end = start + lasts[one[0]]
        bars.append(Bar(stage, one[0], one[1], one[2], start, end))
        done[one, stage] = free[stage] = end

    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while place[stage] < len(order):
                one = order[place[stage]]
                ready = _ready(one, stage, pipeline, done)
                if ready is None:
                    break
                # gaps are filled with weight gradients; at most as many wait as the stage has room for
                while waiting[stage] and (
                    free[stage] + lasts["weights"] <= ready + 1e-12 * unit or len(waiting[stage]) > stage
                ):
                    work(stage, waiting[stage].popleft(), free[stage])
                work(stage, one, max(free[stage], ready))
                if deferred and one[0] == "backward":
                    waiting[stage].append(("weights", one[1], one[2]))
                place[stage] += 1
                moved = True
    for stage, left in enumerate(waiting):
        for one in left:
            work(stage, one, free[stage])
    return bars


def _ready(one: Pass, stage: int, pipeline: Pipeline, done: dict[tuple[Pass, int], float]) -> float | None:
    """When what a pass waits for is there; None while it is not."""
    kind, microbatch, piece = one
    last = pipeline.n_stages - 1
    before: tuple[Pass, int] | None
    if kind == "forward":
        if stage == 0 and piece == 0:
            return 0.0
        before = (("forward", microbatch, piece), stage - 1) if stage else (("forward", microbatch, piece - 1), last)
    elif stage == last and piece == pipeline.n_pieces - 1:
        before = (("forward", microbatch, piece), stage)
    else:
        inner = stage < last
        before = (("backward", microbatch, piece), stage + 1) if inner else (("backward", microbatch, piece + 1), 0)
    return done.get(before)
