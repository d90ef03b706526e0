"""Adapters of a replica: which its live sequences name, which are on its chips, and which give way."""

from __future__ import annotations

from computeledger.simulation.compiled import kernel
from computeledger.simulation.state import (
    COPY_TIME,
    COPYING,
    FIRST_WAITING,
    L_ADAPTERS,
    N_ADMITTED,
    NAMED,
    ON_CHIP,
    POOL,
    Q_ADAPTER,
    Q_LINK,
    SKIPPED,
    World,
)

#: Columns of ``World.adapters``: live sequences that name it; when it was last asked for, 0 where it is not on a chip.
LIVE_SEQUENCES, ASKED_AT = range(2)


@kernel
def takes_adapter(world: World, r: int, q: int) -> bool:
    """Whether a batch may take a request: its adapter is named already, or fewer are than there are slots.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> takes_adapter(example_world(), 0, 0)
    True
    """
    slots = world.limits[world.rep[r, POOL], L_ADAPTERS]
    if slots == 0 or world.rep[r, NAMED] < slots:
        return True
    return bool(world.adapters[r, world.req[q, Q_ADAPTER], LIVE_SEQUENCES] > 0)


@kernel
def next_taken(world: World, r: int) -> tuple[int, int]:
    """The first request in line whose adapter the batch may take, and the one before it; -1 where there is none.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> next_taken(example_world(), 0)
    (-1, -1)
    """
    before = world.rep[r, SKIPPED]  # as long as the same adapters are named, those before it stay out
    q = world.rep[r, FIRST_WAITING] if before < 0 else world.req[before, Q_LINK]
    while q >= 0 and not takes_adapter(world, r, q):
        before, q = q, world.req[q, Q_LINK]
    world.rep[r, SKIPPED] = before
    return int(before), int(q)


@kernel
def name_adapter(world: World, r: int, q: int) -> None:
    """A live sequence names its adapter, which is copied to the chip where it is not there: the least recent one goes.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> name_adapter(example_world(), 0, 0)
    """
    slots = world.limits[world.rep[r, POOL], L_ADAPTERS]
    if slots == 0:
        return
    held, a = world.adapters, world.req[q, Q_ADAPTER]
    if held[r, a, LIVE_SEQUENCES] == 0:
        world.rep[r, NAMED] += 1
        world.rep[r, SKIPPED] = -1
    held[r, a, LIVE_SEQUENCES] += 1
    if held[r, a, ASKED_AT] == 0:
        world.clock[r, COPYING] += world.clock[r, COPY_TIME]
        if world.rep[r, ON_CHIP] < slots:
            world.rep[r, ON_CHIP] += 1
        else:
            oldest = -1
            for other in range(held.shape[1]):
                is_idle = held[r, other, ASKED_AT] > 0 and held[r, other, LIVE_SEQUENCES] == 0
                if is_idle and (oldest < 0 or held[r, other, ASKED_AT] < held[r, oldest, ASKED_AT]):
                    oldest = other
            held[r, oldest, ASKED_AT] = 0
    held[r, a, ASKED_AT] = world.counters[N_ADMITTED] + 1


@kernel
def leave_adapter(world: World, r: int, q: int) -> None:
    """A sequence that is no longer live names its adapter no more; it stays on the chip until another needs the slot.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> leave_adapter(example_world(), 0, 0)
    """
    if world.limits[world.rep[r, POOL], L_ADAPTERS] == 0:
        return
    a = world.req[q, Q_ADAPTER]
    world.adapters[r, a, LIVE_SEQUENCES] -= 1
    if world.adapters[r, a, LIVE_SEQUENCES] == 0:
        world.rep[r, NAMED] -= 1
        world.rep[r, SKIPPED] = -1
