"""DualPipe in time: microbatches enter a pipeline at both ends, and pairs of passes run as one.

Each rank holds a stage of either direction. The order of a rank is that of DeepSeek's DualPipe: it fills up, runs pairs
of a forward pass one way and a backward pass the other way, and puts weights' gradients off into what stays empty.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from computeledger.workloads.pretraining.pipeline import Passes

#: Kind, microbatch within its direction, direction. ``inputs`` is a backward pass whose weights' gradients come later.
Pass = tuple[str, int, int]
#: Passes of a rank that run as one, with their begin and end [s].
Spans = list[tuple[int, Pass, float, float]]


@dataclass(frozen=True, slots=True)
class _Rank:
    """The order of a rank, as it is written down."""

    own: int
    turns: list[list[Pass]] = field(default_factory=list)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    put_off: deque[Pass] = field(default_factory=deque)

    def add(self, *passes: tuple[str, int]) -> None:
        """Run passes as one; 0 is the direction that enters nearer to the rank, 1 the other."""
        turn: list[Pass] = []
        for kind, nearer in passes:
            if kind == "weights":
                turn.append(self.put_off.popleft())
                continue
            way = self.own ^ nearer
            counted = "forward" if kind == "forward" else "backward", way
            number = self.counts.get(counted, 0)
            self.counts[counted] = number + 1
            turn.append((kind, number, way))
            if kind == "inputs":
                self.put_off.append(("weights", number, way))
        self.turns.append(turn)


def dual_order(rank: int, n_stages: int, n_microbatches: int) -> list[list[Pass]]:
    """Passes of a rank in their order; those of one entry run as one.

    Parameters
    ----------
    rank : int
        From 0 [-].
    n_stages, n_microbatches : int
        Both even, and at least twice as many microbatches as stages [-].

    Returns
    -------
    list of list of tuple
        Kind, microbatch of its direction, direction.

    Examples
    --------
    >>> dual_order(0, 2, 4)[:2]
    [[('forward', 0, 0)], [('forward', 0, 1)]]
    """
    half, inner = n_stages // 2, min(rank, n_stages - 1 - rank)
    outer = half - inner - 1
    one = _Rank(own=0 if rank < half else 1)
    for _ in range(2 * outer):
        one.add(("forward", 0))
    for _ in range(inner + 1):
        one.add(("forward", 0))
        one.add(("forward", 1))
    for _ in range(outer):
        one.add(("inputs", 1))
        one.add(("weights", 0))
        one.add(("forward", 1))
    for turn in range(n_microbatches // 2 - n_stages + inner + 1):
        if turn == 0 and inner == half - 1:  # the innermost ranks meet no pair yet
            one.add(("forward", 0))
            one.add(("backward", 1))
        else:
            one.add(("forward", 0), ("backward", 1))
        one.add(("forward", 1), ("backward", 0))
    for _ in range(outer):
        one.add(("backward", 1))
        one.add(("forward", 1), ("backward", 0))
    _drain(one, inner, outer)
    return one.turns


def _drain(one: _Rank, inner: int, outer: int) -> None:
    """The end of a step: backward passes alone, from the middle of them on without weights' gradients."""
    middle = (inner + 1) // 2
    for turn in range(inner + 1):
        one.add(("inputs" if turn >= middle + 1 - inner % 2 else "backward", 1))
        one.add(("inputs" if turn >= middle else "backward", 0))
    for _ in range(outer):
        one.add(("weights", 0))
        one.add(("inputs", 0))
    while one.put_off:
        one.add(("weights", 0))


def dual_spans(n_stages: int, n_microbatches: int, split: Passes, microbatch_s: float) -> Spans:
    """When every pass runs: a turn begins when its rank is free and everything that it needs is there.

    Parameters
    ----------
    n_stages, n_microbatches : int
        As :func:`dual_order` takes them [-].
    split : Passes
        Of a microbatch's time.
    microbatch_s : float
        Time of one microbatch on one stage [s].

    Returns
    -------
    list of tuple
        Rank, pass, begin and end [s].

    Examples
    --------
    >>> from computeledger.workloads.pretraining.pipeline import passes
    >>> max(end for *_, end in dual_spans(4, 8, passes("none"), 3.0))  # 8 of 3 s, and (4 / 2 - 1)(3 + 2 - 3) idle
    26.0
    """
    lasts = {
        "forward": microbatch_s * split.forward, "backward": microbatch_s * split.backward,
        "inputs": microbatch_s * (split.backward - split.weights), "weights": microbatch_s * split.weights,
    }  # fmt: skip
    orders = [dual_order(rank, n_stages, n_microbatches) for rank in range(n_stages)]
    done: dict[tuple[str, int, int, int], float] = {}
    free, place = [0.0] * n_stages, [0] * n_stages
    spans: Spans = []
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while place[rank] < len(order):
                turn = order[place[rank]]
                ready = [_ready(one, rank, n_stages, done) for one in turn]
                known = [at for at in ready if at is not None]
                if len(known) < len(ready):
                    break
                end = max([free[rank], *known])
                for one in turn:
                    spans.append((rank, one, end, end + lasts[one[0]]))
                    end += lasts[one[0]]
                for kind, number, way in turn:
                    if kind != "weights":
                        done["forward" if kind == "forward" else "backward", number, way, rank] = end
                free[rank], place[rank], moved = end, place[rank] + 1, True
    return spans


def _ready(one: Pass, rank: int, n_stages: int, done: dict[tuple[str, int, int, int], float]) -> float | None:
    """When what a pass needs is there; None while it is not."""
    kind, number, way = one
    first, last, step = (0, n_stages - 1, 1) if way == 0 else (n_stages - 1, 0, -1)
    if kind == "weights" or (kind == "forward" and rank == first):
        return 0.0
    if kind == "forward":
        return done.get(("forward", number, way, rank - step))
    before = ("forward", number, way, rank) if rank == last else ("backward", number, way, rank + step)
    return done.get(before)
