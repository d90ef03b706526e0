"""How engines fill a step: who is let in and in what order, prompt chunks, room kept for outputs, who is preempted.

vLLM counts decoding sequences against the tokens of a step, admits a prompt where it fits whole while the step has
tokens left, reads of one prompt a threshold at most, and preempts the sequence that came in last
(``vllm/v1/core/sched/scheduler.py`` at 00024d31, ``schedule``). SGLang reads prompts in steps of their own, admits
while the step has tokens left, keeps a share of what running sequences may still write free, tries again only when
somebody has left where the next had no room, and where the share was too little retracts those that have written
least (release 0.5.23: ``managers/schedule_policy.py``, ``PrefillAdder``; ``managers/scheduler.py``, ``batch_is_full``;
``managers/schedule_batch.py``, ``retract_decode``; ``environ.py``). TensorRT-LLM keeps all of it free and never
preempts, or packs as vLLM does (``useful-runtime-flags.md``, capacity scheduler policy). What a request may write is
taken to be what it writes (assumption). Orders are those of :mod:`computeledger.simulation.orders`.
"""

from __future__ import annotations

from typing import NamedTuple

from computeledger.simulation.compiled import kernel
from computeledger.simulation.state import (
    DECODING,
    FIRST_READING,
    KEPT_FREE,
    L_CHUNK,
    L_COUNTS_DECODE,
    L_KEEPS_FREE,
    L_LONG,
    L_RANKS,
    L_SHARE,
    L_WITHIN_BUDGET,
    POOL,
    Q_LINK,
    Q_OUTPUT,
    Q_UNREAD,
    Q_WRITTEN,
    STEPS,
    World,
)

#: What is kept free for outputs: nothing, all of them, or a share that falls with every step.
NOTHING, ALL, SHARE = range(3)
#: Who waits first: who came first, who writes longest, whose prompt the cache has most of.
ARRIVAL, LONGEST_OUTPUT, LONGEST_PREFIX = range(3)
#: SGLang's constants (``environ.py``): share of what may still be written that is kept free at first, of that the
#: least, steps until then, longest output that is believed, steps that must fit after a retraction.
FIRST_SHARE, LEAST_SHARE_RATIO, SHARE_STEPS, BELIEVED_TOKENS, FITTING_STEPS = 0.7, 0.14, 600, 4096, 20
#: Of its default, in ``Limits.share_permille``.
SHARE_PARTS = 1000


class Rules(NamedTuple):
    """What one scheduler does.

    Attributes
    ----------
    counts_decode : int
        1 where decoding sequences count against the tokens of a step [-].
    reads_alone : int
        1 where nothing decodes in a step that reads prompts [-].
    keeps_free : int
        For outputs: nothing, all, or a falling share [-].
    within_budget : int
        1 where a prompt is let in only for a step that can begin to read it [-].
    order : int
        Of those that wait [-].
    """

    counts_decode: int = 0
    reads_alone: int = 0
    keeps_free: int = NOTHING
    within_budget: int = 0
    order: int = ARRIVAL


#: By the name that ``--scheduler`` takes.
SCHEDULERS = {
    "vllm": Rules(counts_decode=1, within_budget=1),
    "sglang": Rules(reads_alone=1, keeps_free=SHARE, within_budget=1),
    "sglang-lpm": Rules(reads_alone=1, keeps_free=SHARE, within_budget=1, order=LONGEST_PREFIX),
    "sglang-lof": Rules(reads_alone=1, keeps_free=SHARE, within_budget=1, order=LONGEST_OUTPUT),
    "sglang-mixed": Rules(counts_decode=1, keeps_free=SHARE, within_budget=1),
    "trtllm": Rules(counts_decode=1, keeps_free=ALL),
    "trtllm-max-utilization": Rules(counts_decode=1),
    "plain": Rules(),
}


@kernel
def step_tokens(world: World, r: int) -> tuple[int, int]:
    """Prompt tokens that one sequence, and all together, may read in the next step.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> [int(one) for one in step_tokens(example_world(), 0)]
    [100, 100]
    """
    limits = world.limits[world.rep[r, POOL]]
    most = limits[L_CHUNK]
    if limits[L_COUNTS_DECODE]:
        most = max(most - world.rep[r, DECODING] // limits[L_RANKS], 1)
    own = min(most, limits[L_LONG]) if limits[L_LONG] > 0 else most
    return own, most * limits[L_RANKS]


@kernel
def tokens_left(world: World, r: int) -> int:
    """Prompt tokens of the next step that those who are being read leave; without end where nobody counts them.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> tokens_left(example_world(), 0) > 10**9
    True
    """
    if not world.limits[world.rep[r, POOL], L_WITHIN_BUDGET]:
        return 1 << 62
    most, left = step_tokens(world, r)
    q = world.rep[r, FIRST_READING]
    while q >= 0 and left > 0:
        left -= min(world.req[q, Q_UNREAD], most)
        q = world.req[q, Q_LINK]
    return int(left)


@kernel
def believed_tokens(world: World, pool: int, tokens: int) -> int:
    """What a scheduler believes of an output that is still to be written.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> believed_tokens(example_world(), 0, 10)
    10
    """
    return min(tokens, BELIEVED_TOKENS) if world.limits[pool, L_KEEPS_FREE] == SHARE else tokens


@kernel
def free_tokens(world: World, r: int) -> float:
    """Room that a replica keeps for what its sequences will write.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> float(free_tokens(example_world(), 0))
    0.0
    """
    rep, req, pool, total = world.rep, world.req, world.rep[r, POOL], 0
    for place in range(rep[r, DECODING]):
        total += believed_tokens(world, pool, world.finish_step[r, place] - rep[r, STEPS])
    q = rep[r, FIRST_READING]
    while q >= 0:
        total += believed_tokens(world, pool, req[q, Q_OUTPUT] - req[q, Q_WRITTEN])
        q = req[q, Q_LINK]
    return float(total * (world.clock[r, KEPT_FREE] if world.limits[pool, L_KEEPS_FREE] == SHARE else 1.0))


@kernel
def first_share(world: World, r: int) -> float:
    """Share of outputs that is kept free when a replica begins.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> first_share(example_world(), 0)
    0.7
    """
    return float(min(FIRST_SHARE * world.limits[world.rep[r, POOL], L_SHARE] / SHARE_PARTS, 1.0))


@kernel
def least_share(world: World, r: int) -> float:
    """Share of outputs below which it does not fall.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> round(least_share(example_world(), 0), 3)
    0.098
    """
    return LEAST_SHARE_RATIO * first_share(world, r)


@kernel
def lower_share(world: World, r: int, n_steps: int) -> None:
    """Keep less free after steps in which all fitted.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> world.clock[0, KEPT_FREE] = 0.7
    >>> lower_share(world, 0, 300), round(float(world.clock[0, KEPT_FREE]), 3)
    (None, 0.399)
    """
    least = least_share(world, r)
    fallen = world.clock[r, KEPT_FREE] - n_steps * (first_share(world, r) - least) / SHARE_STEPS
    world.clock[r, KEPT_FREE] = max(fallen, least)


@kernel
def raise_share(world: World, r: int) -> None:
    """After a retraction: the share of their outputs that those who stay have written, and some steps more.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> raise_share(world, 0), float(world.clock[0, KEPT_FREE])
    (None, 0.0)
    """
    rep, written, outputs = world.rep, 0, 0
    for place in range(rep[r, DECODING]):
        output = world.req[world.finish_request[r, place], Q_OUTPUT]
        written += output - (world.finish_step[r, place] - rep[r, STEPS])
        outputs += output
    share = (written + FITTING_STEPS * rep[r, DECODING]) / (outputs + 1.0)
    world.clock[r, KEPT_FREE] = min(share, 1.0)
