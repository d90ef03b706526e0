"""The events of reinforcement learning in order of time: rollouts, verdicts, training steps, new weights, failures.

A step trains on ``batch`` rollouts. With a largest lag ``L``, rollouts up to batch ``v + L`` may have begun when
version ``v`` of the weights is out; the lag is used as far as the trainer would otherwise wait. Batches are trained in
the order in which their rollouts were released, so none is trained on with weights more than ``L`` versions younger
than those it began with. Lag 0 is synchronous training, whose rounds of sampling follow one another: those before the
last are dropped. An attempt that fails leaves its tokens behind and is begun again where it was.
"""

from __future__ import annotations

import math

import numpy as np

from computeledger.simulation.admission import drop_first_waiting, make_room
from computeledger.simulation.compiled import kernel
from computeledger.simulation.heaps import first_leaf, pop, push, put_end
from computeledger.simulation.replica import enqueue, evacuate, finish_run, interrupt, schedule, stall
from computeledger.simulation.rl.tables import (
    D_ARRIVES,
    D_DOWN,
    D_FAILS,
    D_REPAIRED,
    D_RETURN,
    D_SENT,
    D_SYNC,
    D_WEIGHTS,
    DROPPED,
    F_ENDED_VERSION,
    F_STEP,
    FAILURES,
    GAP,
    HEAD,
    JUDGING,
    LAG,
    OUT,
    PARKED,
    PLACED,
    R_TRAIN,
    R_VERIFIED,
    R_VERIFY,
    R_VERIFY_BEGAN,
    READY,
    RELEASED,
    ROUNDS_LEFT,
    S_BEGAN,
    S_ENDED,
    S_GENERATED,
    S_RELEASED,
    S_VERIFIED,
    T_FAIL,
    T_FAILS,
    T_KIND,
    T_LEFT,
    TAIL,
    TOOLS,
    TRAINED,
    TRAINER,
    UNJUDGED,
    UNTRAINED,
    VERDICTS,
    RLRun,
)
from computeledger.simulation.rl.turns import begin_again, call, meet, next_turn
from computeledger.simulation.state import (
    AWAY,
    CONTEXT,
    DECODING,
    HELD,
    INTERRUPT,
    L_LIVE,
    L_RANKS,
    LIVE,
    N_DONE,
    NOW,
    PLANNED,
    POOL,
    Q_FINISHED,
    Q_READY,
    Q_REPLICA,
    Q_UNREAD,
    Q_VERSION,
    Q_WRITTEN,
    VERSION,
    WAITING,
)
from computeledger.simulation.steps import reading_s

#: Rounds of sampling are told apart to so much.
_ROUNDING = 1e-9


@kernel
def rl_loop(run: RLRun) -> float:
    """Run until every step is trained and its weights are out."""
    world, state = run.world, run.state
    tree = world.tree
    trainer_s, now_s = np.inf, 0.0
    state[ROUNDS_LEFT] = _rounds_of(run, 0)
    _release(run, 0.0)
    while state[TRAINED] < run.settings.n_steps:
        verdict_s = run.verdicts_s[0] if state[VERDICTS] > 0 else np.inf
        tool_s = run.tools_s[0] if state[TOOLS] > 0 else np.inf
        judge_s = run.judge.tree[1]
        if tool_s <= min(verdict_s, judge_s, tree[1], trainer_s):
            now_s = tool_s
            _answer(run, now_s)
        elif verdict_s <= min(judge_s, tree[1], trainer_s):
            now_s = verdict_s
            q = run.verdicts[0]
            pop(run.verdicts_s, run.verdicts, state[VERDICTS])
            state[VERDICTS] -= 1
            if q < 0:
                _arrive(run, -1 - q, now_s)
            elif run.fate[q, F_STEP] == UNTRAINED:
                _count_verdict(run, q)
                if state[TRAINER] == 0:
                    trainer_s = _begin_training(run, now_s)
                    if trainer_s < np.inf:  # it had to wait: more of the lag is of use
                        state[LAG] = min(state[LAG] + 1, run.settings.lag)
        elif judge_s <= min(tree[1], trainer_s):
            now_s = judge_s
            _judge_boundary(run, first_leaf(run.judge.tree), now_s)
        elif trainer_s <= tree[1]:
            now_s = trainer_s
            trainer_s = _go_on_training(run, now_s)
        else:
            now_s = tree[1]
            _step_boundary(run, first_leaf(tree), now_s)
    _end(run, now_s)
    return now_s


@kernel
def _end(run: RLRun, now_s: float) -> None:
    """What replicas have begun counts up to the end of the run."""
    world = run.world
    for r in range(len(world.rep)):
        if world.rep[r, PLANNED] > 0:
            evacuate(world, r, now_s)
        ahead_s = max(world.clock[r, NOW] - now_s, 0.0)
        run.links[r, D_DOWN if world.clock[r, NOW] == run.links[r, D_REPAIRED] else D_SYNC] -= ahead_s
    for r in range(len(run.judge.rep)):
        if run.judge.rep[r, PLANNED] > 0:
            evacuate(run.judge, r, now_s)


@kernel
def _answer(run: RLRun, now_s: float) -> None:
    """The call of a tool that ends first is answered: its rollout stands in line for its next turn."""
    world, q = run.world, run.tools[0]
    pop(run.tools_s, run.tools, run.state[TOOLS])
    run.state[TOOLS] -= 1
    world.rep[world.req[q, Q_REPLICA], AWAY] -= 1
    next_turn(run, q)
    enqueue(world, world.req[q, Q_REPLICA], q, now_s)


@kernel
def _go_on_training(run: RLRun, now_s: float) -> float:
    """A training step has ended, or its weights are sent; the end of what the trainer does next."""
    state = run.state
    if state[TRAINER] == 1:
        state[TRAINED] += 1
        if state[TRAINED] < run.settings.n_steps:
            _publish(run, now_s)
        state[TRAINER] = 2
        return now_s + run.settings.sync_s
    state[TRAINER] = 0
    return _begin_training(run, now_s)


@kernel
def _count_verdict(run: RLRun, q: int) -> None:
    """A rollout has its verdict: it stands in line for training, in order of release where order matters."""
    state, settings = run.state, run.settings
    if settings.lag > 0:
        run.left[q // settings.started] -= 1
    else:
        run.ready[state[READY]] = q
        state[READY] += 1


@kernel
def _begin_training(run: RLRun, now_s: float) -> float:
    """Begin the next training step if its batch is complete; its end."""
    state, settings, step = run.state, run.settings, run.state[TRAINED]
    first = step * settings.batch
    if settings.lag > 0:
        if run.left[step] > 0:
            return np.inf
        released = step * settings.started
        for place in range(settings.batch):
            run.taken[first + place] = released + place
        for place in range(settings.batch, settings.started):
            run.fate[released + place, F_STEP] = DROPPED
    else:
        while state[READY] >= settings.batch and state[ROUNDS_LEFT] > 0:
            _sample_again(run, now_s)
        if state[READY] < settings.batch:
            return np.inf
        for place in range(settings.batch):
            run.taken[first + place] = run.ready[place]
        _take_ready(run)
    train_s, generated_s, verified_s = settings.train_fixed_s, 0.0, 0.0
    for place in range(first, first + settings.batch):
        q = run.taken[place]
        run.fate[q, F_STEP] = step
        train_s += run.rollouts[q, R_TRAIN]
        generated_s = max(generated_s, run.world.when[q, Q_FINISHED])
        verified_s = max(verified_s, run.rollouts[q, R_VERIFIED])
    run.steps[step, S_GENERATED], run.steps[step, S_VERIFIED] = generated_s, verified_s
    run.steps[step, S_BEGAN], run.steps[step, S_ENDED] = now_s, now_s + train_s
    state[TRAINER] = 1
    if settings.lag == 0:
        _stop_generation(run, now_s)
    return now_s + train_s


@kernel
def _take_ready(run: RLRun) -> None:
    """A batch of those that have their verdict leaves the line."""
    batch = run.settings.batch
    for place in range(batch, run.state[READY]):
        run.ready[place - batch] = run.ready[place]
    run.state[READY] -= batch


@kernel
def _rounds_of(run: RLRun, step: int) -> int:
    """Rounds of sampling that a step begins after its first: whole ones, so many on average."""
    rounds = run.settings.rounds
    return math.floor((step + 1) * rounds + _ROUNDING) - math.floor(step * rounds + _ROUNDING) - 1


@kernel
def _sample_again(run: RLRun, now_s: float) -> None:
    """Too few groups carry a signal: the batch is dropped, and another one is sampled."""
    for place in range(run.settings.batch):
        run.fate[run.ready[place], F_STEP] = DROPPED
    _take_ready(run)
    run.state[ROUNDS_LEFT] -= 1
    _stop_generation(run, now_s)
    _release(run, now_s)


@kernel
def _stop_generation(run: RLRun, now_s: float) -> None:
    """The batch is full: what is still being generated is kept for the next step, or dropped."""
    world, state, partial = run.world, run.state, run.settings.partial
    for r in range(len(world.rep)):
        if world.rep[r, LIVE] + world.rep[r, WAITING] == 0:
            continue
        evacuate(world, r, now_s)
        for place in range(world.counters[N_DONE] - 1, -1, -1):
            _set_aside(run, world.done[place], partial)
        while world.rep[r, WAITING] > 0:
            _set_aside(run, drop_first_waiting(world, r), partial)
    while state[HEAD] < state[TAIL]:
        _set_aside(run, run.queue[state[HEAD]], partial)
        state[HEAD] += 1
    for place in range(state[TOOLS]):
        next_turn(run, run.tools[place])
        _set_aside(run, run.tools[place], partial)
    state[TOOLS] = 0
    for r in range(len(world.rep)):
        world.rep[r, AWAY] = 0
        make_room(world, r, 0)
    state[PLACED] = 0
    if partial == 0:
        for place in range(state[READY]):
            run.fate[run.ready[place], F_STEP] = DROPPED
        state[READY] = 0
        for place in range(state[VERDICTS]):
            q = run.verdicts[place]
            run.fate[q if q >= 0 else -1 - q, F_STEP] = DROPPED
        _drop_unjudged(run)


@kernel
def _drop_unjudged(run: RLRun) -> None:
    """Rollouts that the judge has, or that wait for it, are dropped; verdicts under way go on."""
    state = run.state
    if state[UNJUDGED] + state[JUDGING] > 0:
        for q in range(state[RELEASED]):
            if run.votes_left[q] > 0 and run.fate[q, F_STEP] == UNTRAINED and run.fate[q, F_ENDED_VERSION] >= 0:
                run.fate[q, F_STEP] = DROPPED
    state[UNJUDGED] = 0


@kernel
def _set_aside(run: RLRun, q: int, partial: int) -> None:
    """Keep an unfinished rollout for the next step, or drop it."""
    if partial == 1:
        run.parked[run.state[PARKED]] = q
        run.state[PARKED] += 1
    else:
        run.fate[q, F_STEP] = DROPPED


@kernel
def _publish(run: RLRun, now_s: float) -> None:
    """New weights are out: they travel to the replicas, and more rollouts may begin."""
    world, links, state = run.world, run.links, run.state
    state[OUT] += 1
    state[ROUNDS_LEFT] = _rounds_of(run, state[OUT])
    for r in range(len(world.rep)):
        if links[r, D_ARRIVES] == np.inf:
            _send_weights(run, r, now_s)
        _look_at(run, r)
    _release(run, now_s)


@kernel
def _send_weights(run: RLRun, r: int, now_s: float) -> None:
    """The newest weights start on their way to a replica."""
    run.links[r, D_ARRIVES] = now_s + run.links[r, D_WEIGHTS]
    run.links[r, D_SENT] = run.state[OUT]


@kernel
def _look_at(run: RLRun, r: int) -> None:
    """Let a replica's run end when its weights arrive or it fails."""
    world, links = run.world, run.links
    look_s = min(links[r, D_ARRIVES], links[r, D_FAILS])
    world.clock[r, INTERRUPT] = look_s
    if look_s == np.inf:
        return
    if world.rep[r, PLANNED] == 0:
        look_s = max(look_s, world.clock[r, NOW])
        if look_s < world.tree[(len(world.tree) >> 1) + r]:
            put_end(world.tree, r, look_s)
    else:
        interrupt(world, r, look_s)


@kernel
def _release(run: RLRun, now_s: float) -> None:
    """Begin the rollouts that the lag allows, parked ones first."""
    world, state, settings = run.world, run.state, run.settings
    allowed = (state[OUT] + state[LAG] + 1) * settings.started
    if settings.lag == 0:
        allowed = state[RELEASED] + settings.started
    if settings.partial == 1:
        # what is parked, verified or being verified counts for this step
        begun = state[PARKED] + state[READY] + state[VERDICTS] + state[UNJUDGED] + state[JUDGING]
        allowed = state[RELEASED] + max(settings.started - begun, 0)
    for place in range(state[PARKED] - 1, -1, -1):
        _queue_first(run, run.parked[place])
    state[PARKED] = 0
    while state[RELEASED] < min(allowed, len(world.req)):
        q = state[RELEASED]
        world.when[q, Q_READY] = now_s
        world.req[q, Q_VERSION] = state[OUT]
        step = min(q // settings.started if settings.lag > 0 else state[OUT], len(run.steps) - 1)
        if math.isnan(run.steps[step, S_RELEASED]):
            run.steps[step, S_RELEASED] = now_s
        run.queue[state[TAIL]] = q
        state[TAIL] += 1
        state[RELEASED] += 1
    for r in range(len(world.rep)):
        if world.rep[r, PLANNED] == 0:  # idle replicas look at the queue at once, others at their next boundary
            look_s = max(now_s, world.clock[r, NOW])
            if look_s < world.tree[(len(world.tree) >> 1) + r]:
                put_end(world.tree, r, look_s)
        else:
            interrupt(world, r, now_s)


@kernel
def _queue_first(run: RLRun, q: int) -> None:
    """A rollout goes to the head of the common queue."""
    run.state[HEAD] -= 1
    run.queue[run.state[HEAD]] = q


@kernel
def _pull(run: RLRun, r: int, now_s: float) -> None:
    """A replica takes from the common queue what it has places for, up to an even share of all rollouts."""
    world, state = run.world, run.state
    rep, clock = world.rep, world.clock
    if rep[r, HELD] == 1 or rep[r, WAITING] > 0 or state[HEAD] == state[TAIL]:
        return
    at_work = 0
    for other in range(len(rep)):
        if clock[other, NOW] <= now_s or run.links[other, D_REPAIRED] <= now_s:
            at_work += 1
    share = math.ceil((state[TAIL] - state[HEAD] + state[PLACED]) / at_work)
    share = min(share, math.ceil(run.settings.environments / at_work))
    while state[HEAD] < state[TAIL] and state[PLACED] < run.settings.environments:
        here = rep[r, LIVE] + rep[r, WAITING]
        if here >= world.limits[rep[r, POOL], L_LIVE] or here + rep[r, AWAY] >= share:
            return
        q = run.queue[state[HEAD]]
        if world.req[q, Q_VERSION] > rep[r, VERSION]:
            return
        if run.settings.takes_turns == 1 and q % run.settings.agents > 0 and run.met[q] == 0:
            world.req[q, Q_REPLICA] = r  # it waits for the agent before it
            rep[r, AWAY] += 1
        else:
            enqueue(world, r, q, now_s)
        state[HEAD] += 1
        state[PLACED] += 1


@kernel
def _step_boundary(run: RLRun, r: int, now_s: float) -> None:
    """A replica is between two runs: rollouts go to the verifiers, failures and new weights take effect."""
    world, links = run.world, run.links
    finish_run(world, r)
    for place in range(world.counters[N_DONE]):
        q = world.done[place]
        if run.turns[q, T_FAILS] > 0 and world.req[q, Q_WRITTEN] >= run.fails[run.turns[q, T_FAIL]]:
            begin_again(run, r, q, now_s)
            continue
        if run.turns[q, T_LEFT] > 0:
            call(run, r, q, now_s)
            continue
        run.state[PLACED] -= 1
        run.fate[q, F_ENDED_VERSION] = world.rep[r, VERSION]
        if run.settings.takes_turns == 1:
            meet(run, q, now_s)
        if links[r, D_RETURN] > 0:
            push(run.verdicts_s, run.verdicts, run.state[VERDICTS], now_s + links[r, D_RETURN], -1 - q)
            run.state[VERDICTS] += 1
        else:
            _arrive(run, q, now_s)
    if links[r, D_FAILS] <= now_s:
        _fail(run, r, now_s)
        return
    if links[r, D_ARRIVES] <= now_s:
        if run.settings.in_flight == 1 or world.rep[r, LIVE] + world.rep[r, AWAY] == 0:
            _load_weights(run, r, now_s)
            return
        world.rep[r, HELD] = 1
        world.clock[r, INTERRUPT] = links[r, D_FAILS]
    _pull(run, r, now_s)
    schedule(world, r)


@kernel
def _arrive(run: RLRun, q: int, now_s: float) -> None:
    """A rollout is there: a judge reads it, or at once the verifiers; in turn, a judge begins when a batch is there."""
    state, settings = run.state, run.settings
    if settings.votes == 0:
        _verify(run, q, now_s)
        return
    run.unjudged[state[UNJUDGED]] = q
    state[UNJUDGED] += 1
    if (
        settings.judge_in_turn == 1
        and state[UNJUDGED] + state[JUDGING] + state[READY] + state[VERDICTS] < settings.batch
    ):
        return
    for place in range(state[UNJUDGED]):
        _judge(run, run.unjudged[place], now_s)
    state[UNJUDGED] = 0


@kernel
def _judge(run: RLRun, q: int, now_s: float) -> None:
    """The replica of the judge with the fewest verdicts gives those of a rollout; the first one reads it for all."""
    judge = run.judge
    fewest = 0
    for r in range(len(judge.rep)):
        if judge.rep[r, LIVE] + judge.rep[r, WAITING] < judge.rep[fewest, LIVE] + judge.rep[fewest, WAITING]:
            fewest = r
    run.state[JUDGING] += 1
    for vote in range(run.settings.votes):
        one = q * run.settings.votes + vote
        if vote > 0:
            judge.req[one, Q_UNREAD], judge.req[one, Q_WRITTEN] = -1, 1
        enqueue(judge, fewest, one, now_s)


@kernel
def _judge_boundary(run: RLRun, r: int, now_s: float) -> None:
    """A replica of the judge is between two runs: rollouts whose last verdict is there go to the verifiers."""
    judge = run.judge
    finish_run(judge, r)
    for place in range(judge.counters[N_DONE]):
        q = judge.done[place] // run.settings.votes
        run.votes_left[q] -= 1
        if run.votes_left[q] == 0:
            run.state[JUDGING] -= 1
            if run.fate[q, F_STEP] == UNTRAINED:
                _verify(run, q, now_s)
    schedule(judge, r)


@kernel
def _verify(run: RLRun, q: int, arrives_s: float) -> None:
    """A rollout takes the verifier of its kind that is free first."""
    kind = run.turns[q, T_KIND]
    free_s = run.free_s[run.kinds[kind] : run.kinds[kind + 1]]
    began_s = max(arrives_s, free_s[0])
    ended_s = began_s + run.rollouts[q, R_VERIFY]
    run.rollouts[q, R_VERIFY_BEGAN], run.rollouts[q, R_VERIFIED] = began_s, ended_s
    n = len(free_s)
    pop(free_s, free_s, n)
    push(free_s, free_s, n - 1, ended_s, ended_s)
    push(run.verdicts_s, run.verdicts, run.state[VERDICTS], ended_s, q)
    run.state[VERDICTS] += 1


@kernel
def _load_weights(run: RLRun, r: int, now_s: float) -> None:
    """A replica loads the newest weights that have arrived, and reads its live contexts anew where that is asked
    for.
    """
    world, links, settings = run.world, run.links, run.settings
    wait_s = settings.sync_s
    if settings.reread == 1 and world.rep[r, DECODING] > 0:
        pool = world.rep[r, POOL]
        live, tokens = world.rep[r, DECODING], world.rep[r, CONTEXT]
        rounds = live / world.limits[pool, L_RANKS]
        wait_s += max(rounds, 1.0) * reading_s(world, pool, tokens / live, 0.0)
    if settings.reread == 1:
        make_room(world, r, 0)
    if links[r, D_WEIGHTS] == 0:
        links[r, D_SENT] = run.state[OUT]  # a drained replica of the same site takes the newest
    world.rep[r, VERSION] = int(links[r, D_SENT])
    world.rep[r, HELD] = 0
    links[r, D_ARRIVES] = np.inf
    links[r, D_SYNC] += wait_s
    if run.state[OUT] > world.rep[r, VERSION]:
        _send_weights(run, r, now_s)
    world.clock[r, INTERRUPT] = min(links[r, D_FAILS], links[r, D_ARRIVES])
    stall(world, r, now_s + wait_s)


@kernel
def _fail(run: RLRun, r: int, now_s: float) -> None:
    """A replica fails: its rollouts are continued elsewhere from what they have written, their caches are lost."""
    world, links, state = run.world, run.links, run.state
    evacuate(world, r, now_s)
    make_room(world, r, 0)
    n_lost = world.counters[N_DONE]
    state[FAILURES] += 1
    until_s = now_s + run.settings.repair_s
    links[r, D_DOWN] += run.settings.repair_s
    links[r, D_REPAIRED] = until_s
    links[r, D_FAILS] = until_s + run.fail_gaps_s[state[GAP] % len(run.fail_gaps_s)]
    state[GAP] += 1
    stall(world, r, until_s)
    world.rep[r, HELD] = 0
    world.clock[r, INTERRUPT] = min(links[r, D_FAILS], links[r, D_ARRIVES])
    state[PLACED] -= n_lost
    for place in range(n_lost):
        _queue_first(run, world.done[place])
