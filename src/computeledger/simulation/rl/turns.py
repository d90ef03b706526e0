"""Turns of a rollout: calls of tools, agents that wait for one another, attempts that fail and are begun again."""

from __future__ import annotations

from computeledger.simulation.admission import keep
from computeledger.simulation.compiled import kernel
from computeledger.simulation.heaps import push
from computeledger.simulation.replica import enqueue
from computeledger.simulation.rl.tables import (
    F_ENDED_VERSION,
    T_CALLS,
    T_FAIL,
    T_FAILS,
    T_LEFT,
    T_LOST,
    T_MADE,
    T_PROMPT,
    T_TOKENS,
    T_WAIT,
    TOOLS,
    RLRun,
)
from computeledger.simulation.state import (
    AWAY,
    Q_OUTPUT,
    Q_PREFIX,
    Q_PROMPT,
    Q_REPLICA,
    Q_UNREAD,
    Q_WRITTEN,
)


@kernel
def call(run: RLRun, r: int, q: int, now_s: float) -> None:
    """A rollout calls a tool: it leaves the batch, and its cache stays while there is room."""
    world, turn = run.world, run.turns[q]
    wait_s = run.waits_s[turn[T_WAIT] % len(run.waits_s)]
    turn[T_WAIT] += 1
    turn[T_MADE] += 1
    turn[T_LEFT] -= 1
    world.rep[r, AWAY] += 1
    keep(world, r, q, world.req[q, Q_PROMPT] + world.req[q, Q_WRITTEN] - 1)
    if run.settings.agents > 1:
        meet(run, q, now_s + wait_s)
    else:
        _wait(run, q, now_s + wait_s)


@kernel
def _wait(run: RLRun, q: int, until_s: float) -> None:
    """A rollout that is away from the batch comes back at some time."""
    push(run.tools_s, run.tools, run.state[TOOLS], until_s, q)
    run.state[TOOLS] += 1


@kernel
def meet(run: RLRun, q: int, ended_s: float) -> None:
    """An agent has ended its turn: the next one begins, or of agents that write at once all do behind the last."""
    agents, first = run.settings.agents, q - q % run.settings.agents
    if run.settings.takes_turns == 1:
        following = first + (q - first + 1) % agents
        if run.world.req[following, Q_REPLICA] < 0:
            run.met[following] = 1
        elif run.fate[following, F_ENDED_VERSION] < 0:
            _wait(run, following, ended_s)
        return
    run.met[first] += 1
    run.met_s[first] = max(run.met_s[first], ended_s)
    if run.met[first] == agents:
        run.met[first] = 0
        for one in range(first, first + agents):
            _wait(run, one, run.met_s[first])


@kernel
def next_turn(run: RLRun, q: int) -> None:
    """The tool has answered: the rollout reads the answer and writes its next turn."""
    turn = run.turns[q]
    if turn[T_CALLS] > turn[T_LEFT]:
        run.world.req[q, Q_PROMPT] += run.settings.observed_tokens
    _aim(run, q)


@kernel
def _aim(run: RLRun, q: int) -> None:
    """A rollout writes up to its next call, or to where its attempt fails."""
    turn = run.turns[q]
    made = turn[T_CALLS] - turn[T_LEFT]
    end = turn[T_TOKENS] * (made + 1) // (turn[T_CALLS] + 1)
    if turn[T_FAILS] > 0:
        end = min(end, run.fails[turn[T_FAIL]])
    run.world.req[q, Q_OUTPUT] = end


@kernel
def begin_again(run: RLRun, r: int, q: int, now_s: float) -> None:
    """An attempt has failed: what it wrote is lost, and the next one begins with the prompt on the same replica."""
    req, turn = run.world.req, run.turns[q]
    turn[T_LOST] += req[q, Q_WRITTEN]
    turn[T_FAILS] -= 1
    turn[T_FAIL] += 1
    turn[T_LEFT] = turn[T_CALLS]
    req[q, Q_PROMPT] = turn[T_PROMPT]
    req[q, Q_PREFIX] = run.settings.shares_prefix * (turn[T_PROMPT] - 1)
    req[q, Q_WRITTEN], req[q, Q_UNREAD] = 0, 0
    _aim(run, q)
    enqueue(run.world, r, q, now_s)
