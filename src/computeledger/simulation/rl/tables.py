"""What a simulation of RL keeps beside its replicas: columns, settings and tables."""

from __future__ import annotations

from typing import NamedTuple

from computeledger.simulation.state import Counts, Times, World

#: Columns of ``RLRun.steps`` [s]: batch released; its last rollout generated; its last verdict; training began, ended.
S_RELEASED, S_GENERATED, S_VERIFIED, S_BEGAN, S_ENDED = range(5)
#: Columns of ``RLRun.rollouts`` [s]: time a verifier needs; training time; verification began, ended.
R_VERIFY, R_TRAIN, R_VERIFY_BEGAN, R_VERIFIED = range(4)
#: Columns of ``RLRun.fate``: weights when it was generated; step that trained on it, -1 none, -2 dropped.
F_ENDED_VERSION, F_STEP = range(2)
#: Columns of ``RLRun.links`` by replica [s]: delay until new weights are there; delay of its rollouts; when the newest
#: weights on their way are there, and which; next failure; time spent loading weights; time under repair, and its end.
D_WEIGHTS, D_RETURN, D_ARRIVES, D_SENT, D_FAILS, D_SYNC, D_DOWN, D_REPAIRED = range(8)
#: Steps of a rollout that none trained on: not yet, and never.
UNTRAINED, DROPPED = -1, -2
#: Entries of ``RLRun.state``: version out, steps trained, rollouts released, verdicts in ``ready``, verdicts under way,
#: next failure gap, what the trainer does (0 waits, 1 trains, 2 sends weights), failures, rollouts that are parked,
#: ends of the common queue, rollouts on replicas, lag in use, calls of tools that are not answered yet, rollouts that
#: wait for the judge, and those that it has, rounds of sampling that the present step has still to begin.
(OUT, TRAINED, RELEASED, READY, VERDICTS, GAP, TRAINER, FAILURES, PARKED, HEAD, TAIL, PLACED, LAG, TOOLS, UNJUDGED,
 JUDGING, ROUNDS_LEFT) = range(17)  # fmt: skip
#: Columns of ``RLRun.turns``: tokens of all turns, calls of tools in all, calls left, place of its next wait; attempts
#: that are still to fail, place of the next one's tokens; its prompt; tokens lost, calls made; kind of its verifier.
T_TOKENS, T_CALLS, T_LEFT, T_WAIT, T_FAILS, T_FAIL, T_PROMPT, T_LOST, T_MADE, T_KIND = range(10)


class RLSettings(NamedTuple):
    """What does not change in a simulation of RL."""

    n_steps: int
    batch: int
    started: int
    lag: int
    in_flight: int
    partial: int
    reread: int
    train_fixed_s: float
    sync_s: float
    repair_s: float
    environments: int
    observed_tokens: int
    votes: int = 0
    judge_in_turn: int = 0
    agents: int = 1
    takes_turns: int = 0
    rounds: float = 1.0
    shares_prefix: int = 0


class RLRun(NamedTuple):
    """A simulation of RL, ready to run."""

    world: World
    settings: RLSettings
    state: Counts
    steps: Times
    rollouts: Times
    links: Times
    fate: Counts
    left: Counts
    taken: Counts
    ready: Counts
    parked: Counts
    queue: Counts
    free_s: Times
    kinds: Counts
    verdicts_s: Times
    verdicts: Counts
    fail_gaps_s: Times
    turns: Counts
    fails: Counts
    waits_s: Times
    tools_s: Times
    tools: Counts
    judge: World
    unjudged: Counts
    votes_left: Counts
    met: Counts
    met_s: Times
