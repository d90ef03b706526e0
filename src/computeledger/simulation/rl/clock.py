"""Reinforcement learning through time: what a run's phases wait for, and how stale its rollouts become.

The same replicas as in serving write the rollouts; verifiers, trainer and weight transfer stand around them. Lag 0 is
synchronous, lag 1 one step off-policy, a larger lag asynchronous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from computeledger.display import Displayed
from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.simulation import measures
from computeledger.simulation.compiled import for_events
from computeledger.simulation.rl import loop, tables
from computeledger.simulation.rl.scenario import RLClockScenario, Rollouts, check_run
from computeledger.simulation.state import (
    DECODE_BUSY,
    LOST_TIME,
    PREFILL_BUSY,
    Q_ADMITTED,
    Q_BEGAN,
    Q_FINISHED,
    Q_FIRST,
    Q_OUTPUT,
    Q_PREEMPTIONS,
    Q_PREFIX,
    Q_READY,
    Q_REPLICA,
    Q_WRITTEN,
    Counts,
    Times,
    World,
    make_world,
)
from computeledger.workloads.rl.generation import OUTSIDE

#: Events that a rollout takes in all: admission, prompt, finish, verdict.
_EVENTS_PER_ROLLOUT = 6


@dataclass(frozen=True, slots=True)
class RLClockResult(Displayed):
    """What a simulated run did."""

    scenario: RLClockScenario
    rollouts: Rollouts
    run: tables.RLRun
    end_s: float

    @property
    def world(self) -> World:
        """Rollouts and replicas at the end."""
        return self.run.world

    @property
    def step_s(self) -> float:
        """Mean time of a step: the run over its steps, the filling of the pipeline included [s]."""
        return self.end_s / self.scenario.n_steps

    @property
    def steady_step_s(self) -> float:
        """Mean time of a step in the second half of the run, when the pipeline is full [s]."""
        ends = self.run.steps[: self.scenario.n_steps, tables.S_ENDED]
        fills = self.scenario.keeps_partial or not self.scenario.is_colocated
        skip = len(ends) // 2 if fills else 0
        begin_s = float(ends[skip - 1]) if skip else 0.0
        return (float(ends[-1]) - begin_s) / (len(ends) - skip)

    @property
    def trained(self) -> Counts:
        """Rollouts in the order in which they were trained on."""
        return self.run.taken[: self.scenario.n_steps * self.scenario.rollouts_per_step]

    @property
    def staleness_steps(self) -> Counts:
        """Versions between the weights a trained rollout began with and the step that trained on it [-]."""
        return np.asarray(self.run.fate[self.trained, tables.F_STEP] - self.world.req[self.trained, Q_BEGAN])

    def gpu_s(self) -> dict[str, float]:
        """Split the run's GPU-time by phase."""
        one, links = self.scenario, self.run.links
        busy = self.world.clock[:, [DECODE_BUSY, PREFILL_BUSY, LOST_TIME]].sum()
        tokens = self.rollouts.sequence_tokens
        took = [
            float(tokens[self.trained].sum()),
            float(tokens[self.trained][self.rollouts.is_kept[self.trained]].sum()),
        ]
        n_train = one.n_gpus_generation if one.is_colocated else one.trainer.n_gpus
        phases = {
            "generation": float(busy) * one.n_gpus_per_replica,
            "log-probs": took[0] * one.trainer.logprob_s_per_token * (n_train - one.trainer.n_spare),
            "update": took[1] * one.trainer.update_s_per_token * (n_train - one.trainer.n_spare),
            "once per step": one.n_steps * one.trainer.fixed_s * n_train,
            "weight sync": self._sync_gpu_s(n_train),
            "repair": float(links[:, tables.D_DOWN].sum()) * one.n_gpus_per_replica,
            **self._judge_gpu_s(),
        }
        phases[OUTSIDE] = self._outside_gpu_s(one.n_steps * one.trainer.fixed_s)
        return {**phases, **self._waits(one.n_gpus * self.end_s - sum(phases.values()))}

    def _judge_gpu_s(self) -> dict[str, float]:
        """GPU-time in which the judge has verdicts in flight, and in which GPUs of its own wait for rollouts."""
        judge = self.scenario.judge
        if judge is None:
            return {}
        busy = float(self.run.judge.clock[:, [DECODE_BUSY, PREFILL_BUSY, LOST_TIME]].sum()) * judge.n_gpus_per_replica
        waits = {"judge waiting": judge.own_gpus * self.end_s - busy} if judge.is_apart else {}
        return {"judge": busy, **waits}

    @property
    def judge_flop(self) -> float:
        """FLOP of the verdicts on rollouts that were trained on, ``2 N`` a token read or written [FLOP]."""
        judge = self.scenario.judge
        if judge is None:
            return 0.0
        read = float((self.rollouts.sequence_tokens[self.trained] - judge.shared_tokens).sum())
        written = float(judge.votes * judge.verdict_tokens * len(self.trained))
        return 2 * judge.n_params_active * (read + written)

    def _outside_gpu_s(self, fixed_s: float) -> float:
        """GPU-time of GPUs outside the layouts: beside each phase of their side, or all the time."""
        one, steps = self.scenario, self.run.steps[: self.scenario.n_steps]
        n_trains, n_generates = one.trainer.n_spare, one.n_spare_generating
        trains_s = float((steps[:, tables.S_ENDED] - steps[:, tables.S_BEGAN]).sum()) - fixed_s
        if one.is_colocated:
            return n_trains * trains_s + n_generates * (self.end_s - trains_s - fixed_s)
        sent_s = (one.n_steps - 1) * one.sync.load_s
        return n_trains * (self.end_s - fixed_s - sent_s) + n_generates * self.end_s

    def flop(self, n_params_active: float, logprob_passes: float, updates_per_batch: float) -> float:
        """Model FLOP of the trained steps and of every token sampled for them.

        ``2 N (sampled) + (2 passes + 6 updates kept) N (prompt + rollout)``
        """
        seen = self.rollouts.sequence_tokens[self.trained]
        kept = self.rollouts.is_kept[self.trained]
        learns = self.trained % self.scenario.agents < self.scenario.trained_agents
        train = float((seen * learns * (2 * logprob_passes + 6 * updates_per_batch * kept)).sum())
        observed = float(self._n_calls) * self.rollouts.call_observed_tokens
        return n_params_active * (2 * (float(self.sampled_tokens) + observed) + train) + self.judge_flop

    @property
    def _n_calls(self) -> int:
        """Calls of tools that were made, failed attempts included; of several agents those of trained rollouts."""
        if self.scenario.agents > 1:
            return int(self.rollouts.calls[self.trained].sum())
        return int(self.run.turns[:, tables.T_MADE].sum())

    @property
    def sampled_tokens(self) -> int:
        """Tokens written in the run, those of failed attempts, dropped and unfinished rollouts included [token]."""
        return int(self.world.req[:, Q_WRITTEN].sum()) + self.failed_tokens

    @property
    def failed_tokens(self) -> int:
        """Tokens of attempts that failed [token]."""
        return int(self.run.turns[:, tables.T_LOST].sum())

    @property
    def dropped_tokens(self) -> int:
        """Tokens of rollouts that were broken off or sampled once more [token]."""
        return int(self.world.req[self.run.fate[:, tables.F_STEP] == tables.DROPPED, Q_WRITTEN].sum())

    @property
    def kept_tokens(self) -> int:
        """Tokens of rollouts that an update went over [token]."""
        return int(self.world.req[self.trained[self.rollouts.is_kept[self.trained]], Q_WRITTEN].sum())

    @property
    def trained_tokens(self) -> int:
        """Tokens of rollouts that a step took in [token]."""
        return int(self.world.req[self.trained, Q_WRITTEN].sum())

    @property
    def verifier_busy_fraction(self) -> float:
        """Share of the verifiers' time in which they verify [-]."""
        began, ended = (self.run.rollouts[:, column] for column in (tables.R_VERIFY_BEGAN, tables.R_VERIFIED))
        spent = np.clip(ended, None, self.end_s) - np.clip(began, None, self.end_s)
        return float(np.nansum(spent)) / (sum(self.scenario.kinds_of_verifiers) * self.end_s)

    @property
    def verifiers_fall_behind(self) -> bool:
        """Whether the verifiers work all the time: more of them would shorten the steps."""
        return self.verifier_busy_fraction > measures.BLOCKED_FRACTION

    @property
    def percentiles(self) -> dict[str, dict[str, float]]:
        """Of finished rollouts, from their release on: p50, p90, p99 [s]."""
        done = np.isfinite(self.world.when[:, Q_FINISHED])
        ready = np.where(done, self.world.when[:, Q_READY], np.nan)
        return measures.percentiles(measures.latencies(self.world, ready), self.world.gaps)

    def records(self) -> dict[str, np.ndarray]:
        """Every rollout that was released, as columns."""
        n = int(self.run.state[tables.RELEASED])
        req, when, rollouts, fate = (
            table[:n] for table in (self.world.req, self.world.when, self.run.rollouts, self.run.fate)
        )
        return {
            "prompt_tokens": self.rollouts.prompt_tokens[:n], "rollout_tokens": self.rollouts.output_tokens[:n],
            "calls": self.rollouts.calls[:n], "written_tokens": req[:, Q_WRITTEN],
            "released_s": when[:, Q_READY], "admitted_s": when[:, Q_ADMITTED], "first_token_s": when[:, Q_FIRST],
            "generated_s": when[:, Q_FINISHED], "verifying_s": rollouts[:, tables.R_VERIFY_BEGAN],
            "verified_s": rollouts[:, tables.R_VERIFIED], "kept": self.rollouts.is_kept[:n].astype(np.int64),
            "first_version": req[:, Q_BEGAN], "last_version": fate[:, tables.F_ENDED_VERSION],
            "trained_in_step": fate[:, tables.F_STEP], "replica": req[:, Q_REPLICA],
            "preemptions": req[:, Q_PREEMPTIONS],
        }  # fmt: skip

    def timeline(self, n_points: int = 400) -> dict[str, Times]:
        """Rollouts over time: queued, decoding, waiting for a verdict, being verified, waiting for training."""
        at_s = np.linspace(0.0, self.end_s, n_points)
        when, rollouts = self.world.when, self.run.rollouts
        step = self.run.fate[:, tables.F_STEP]
        ends = np.where(step == tables.DROPPED, np.nan, when[:, Q_FINISHED])
        began = np.where(step >= 0, self.run.steps[np.maximum(step, 0), tables.S_BEGAN], np.nan)
        pairs = {
            "waiting": (when[:, Q_READY], when[:, Q_ADMITTED]), "generating": (when[:, Q_ADMITTED], ends),
            "unverified": (ends, rollouts[:, tables.R_VERIFIED]), "verified": (rollouts[:, tables.R_VERIFIED], began),
        }  # fmt: skip
        return {"time_s": at_s, **{name: _counted(pair, at_s) for name, pair in pairs.items()}}

    def _sync_gpu_s(self, n_train: float) -> float:
        """GPU-time in which weights are loaded, and sent where the trainer has GPUs of its own."""
        one = self.scenario
        loads = self.run.links[:, tables.D_SYNC].sum() * one.n_gpus_per_replica
        sends = 0.0 if one.is_colocated else (one.n_steps - 1) * one.sync.load_s * n_train
        return float(loads) + sends

    def _waits(self, idle_gpu_s: float) -> dict[str, float]:
        """Split idle GPU-time by what it waits for."""
        one, steps = self.scenario, self.run.steps[: self.scenario.n_steps]
        verdicts_s = float((steps[:, tables.S_VERIFIED] - steps[:, tables.S_GENERATED]).sum())
        if one.is_colocated:
            verdicts = min(verdicts_s * one.n_gpus_generation, idle_gpu_s)
            return {"waiting for verifiers": verdicts, "waiting for the longest rollouts": idle_gpu_s - verdicts}
        trains = float((steps[:, tables.S_ENDED] - steps[:, tables.S_BEGAN]).sum())
        trains += (one.n_steps - 1) * one.sync.load_s
        trainer = max((one.trainer.n_gpus - one.trainer.n_spare) * (self.end_s - trains), 0.0)
        return {"trainer waiting for rollouts": trainer, "generators waiting": idle_gpu_s - trainer}


def _counted(interval_s: tuple[Times, Times], at_s: Times) -> Times:
    """Rollouts between two moments of theirs; one that reached the second without the first never was."""
    begin_s, end_s = interval_s
    return measures.in_state(begin_s, np.where(np.isfinite(begin_s), end_s, np.nan), at_s)


def simulate_rl(scenario: RLClockScenario, rollouts: Rollouts, seed: int = 0) -> RLClockResult:
    """Simulate a run.

    Parameters
    ----------
    scenario : RLClockScenario
        The run.
    rollouts : Rollouts
        At least as many as it may start.
    seed : int
        Of the failures [-].

    Returns
    -------
    RLClockResult
        With every record.

    Raises
    ------
    QuantityError
        Where the scenario contradicts itself.
    DoesNotFitError
        Where a replica does not hold one rollout.

    Examples
    --------
    >>> from computeledger.simulation.rl.scenario import Trainer
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> pool = Pool(1, constant_step_times(8, 0.1, 0.1), Limits(8, 10_000, 0, 0, 512))
    >>> scenario = RLClockScenario(pool, 1.0, 1.0, Trainer(1.0, 1.0, 0.0, 0.0), True, n_steps=2, rollouts_per_step=4)
    >>> n = scenario.n_rollouts
    >>> ones = Rollouts(np.full(n, 10), np.full(n, 11), np.zeros(n), np.ones(n, bool))
    >>> result = simulate_rl(scenario, ones)
    >>> round(result.step_s, 6), result.staleness_steps.tolist()
    (2.1, [0, 0, 0, 0, 0, 0, 0, 0])
    """
    check_run(scenario)
    _check_rollouts(scenario, rollouts)
    run = _prepared(scenario, rollouts, np.random.default_rng([seed, 2]))
    votes = 0 if scenario.judge is None else scenario.judge.votes * scenario.n_rollouts
    attempts = rollouts.failures + 1
    n_calls = int((rollouts.calls * attempts + attempts).sum())
    n_events = _EVENTS_PER_ROLLOUT * (scenario.n_rollouts + votes + n_calls)
    end_s = float(for_events(loop.rl_loop, n_events)(run))
    return RLClockResult(scenario, rollouts, run, end_s)


def _check_rollouts(one: RLClockScenario, rollouts: Rollouts) -> None:
    """Refuse rollouts that are too few or too long."""
    if len(rollouts.output_tokens) < one.n_rollouts:
        raise QuantityError(f"{len(rollouts.output_tokens)} rollouts are given, the run may start {one.n_rollouts}")
    longest = int(rollouts.sequence_tokens.max()) + one.pool.limits.state_tokens
    if longest > one.pool.limits.kv_tokens:
        raise DoesNotFitError(
            f"no room for one rollout: {longest} tokens, a replica's cache holds {one.pool.limits.kv_tokens}"
        )
    if (judge := one.judge) is not None:
        read = int(rollouts.sequence_tokens.max()) + judge.verdict_tokens + judge.pool.limits.state_tokens
        if read > judge.pool.limits.kv_tokens:
            held = judge.pool.limits.kv_tokens
            raise DoesNotFitError(f"no room for one verdict: {read} tokens, a replica of the judge holds {held}")


def _prepared(one: RLClockScenario, rollouts: Rollouts, rng: np.random.Generator) -> tables.RLRun:
    """The run at its beginning."""
    n, n_replicas = one.n_rollouts, one.pool.n_replicas
    prompt, output = rollouts.prompt_tokens[:n], rollouts.output_tokens[:n]
    world = make_world([one.pool], np.zeros(n), prompt, output)
    tokens, (turns, fails) = rollouts.sequence_tokens[:n], _turns(rollouts, n)
    world.req[:, Q_OUTPUT] = output // (turns[:, tables.T_CALLS] + 1)
    again = turns[:, tables.T_FAILS] > 0
    first = fails[np.minimum(turns[:, tables.T_FAIL], len(fails) - 1)]
    world.req[again, Q_OUTPUT] = np.minimum(world.req[again, Q_OUTPUT], first[again])
    if rollouts.group_size > 1:
        world.req[:, Q_PREFIX] = np.where(np.arange(n) % rollouts.group_size, prompt - 1, 0)
    per_rollout = np.full((n, 4), np.nan)
    per_rollout[:, tables.R_VERIFY] = rollouts.verify_s[:n]
    kept = np.where(rollouts.is_kept[:n], one.trainer.update_s_per_token, 0.0)
    per_rollout[:, tables.R_TRAIN] = tokens * (one.trainer.logprob_s_per_token + kept)
    gaps_s, cores = np.full(1, np.inf), [min(each, n) for each in one.kinds_of_verifiers]
    if np.isfinite(one.failure_s):
        gaps_s = rng.exponential(one.failure_s, max(4096, n_replicas))
    return tables.RLRun(
        world=world,
        settings=tables.RLSettings(
            one.n_steps, one.rollouts_per_step, one.n_started, one.policy_lag_steps, int(one.sync.is_in_flight),
            int(one.keeps_partial), int(one.sync.rereads), one.trainer.fixed_s, one.sync.load_s, one.repair_s,
            n if math.isinf(one.environments) else int(one.environments), rollouts.call_observed_tokens,
            0 if one.judge is None else one.judge.votes, int(one.judge is not None and not one.judge.is_apart),
            one.agents, int(one.takes_turns), float(one.sampling_rounds), int(rollouts.group_size > 1),
        ),
        state=np.array([0, 0, 0, 0, 0, n_replicas, 0, 0, 0, n, n, 0, 0, 0, 0, 0, 0]),
        steps=np.full((one.n_steps + one.policy_lag_steps + 1, 5), np.nan),
        rollouts=per_rollout,
        links=_links(one, gaps_s),
        fate=np.column_stack([np.full(n, -1), np.full(n, -1)]),
        left=np.full(one.n_steps + one.policy_lag_steps + 2, one.n_started),
        taken=np.full(one.n_steps * one.rollouts_per_step, -1),
        ready=np.zeros(n, np.int64), parked=np.zeros(n, np.int64), queue=np.zeros(2 * n, np.int64),
        free_s=np.zeros(sum(cores)), kinds=np.cumsum([0, *cores]),
        verdicts_s=np.zeros(n), verdicts=np.zeros(n, np.int64),
        fail_gaps_s=gaps_s, turns=turns, fails=fails,
        waits_s=np.zeros(1) if rollouts.call_s is None else rollouts.call_s,
        tools_s=np.zeros(n), tools=np.zeros(n, np.int64), judge=_judge_world(one, tokens),
        unjudged=np.zeros(n, np.int64), votes_left=np.full(n, 0 if one.judge is None else one.judge.votes),
        met=np.zeros(n, np.int64), met_s=np.zeros(n),
    )  # fmt: skip


def _judge_world(one: RLClockScenario, tokens: Counts) -> World:
    """The judge's replicas with a request for each verdict; idle ones that are never asked without a judge."""
    judge = one.judge
    if judge is None:
        return make_world([one.pool._replace(n_replicas=1)], np.zeros(1), np.ones(1, np.int64), np.ones(1, np.int64))
    prompt = np.repeat(np.maximum(tokens - judge.shared_tokens, 1), judge.votes)
    return make_world([judge.pool], np.zeros(len(prompt)), prompt, np.full(len(prompt), judge.verdict_tokens))


def _turns(rollouts: Rollouts, n: int) -> tuple[Counts, Counts]:
    """What each rollout writes, calls and loses, where its waits and failures stand in the lists of all; and those."""
    calls, failures, output = rollouts.calls[:n], rollouts.failures[:n], rollouts.output_tokens[:n]
    waits, none = calls * (failures + 1), np.zeros(n, np.int64)
    kind = none if rollouts.kind is None else rollouts.kind[:n]
    turns = np.column_stack([
        output, calls, calls, np.cumsum(waits) - waits, failures, np.cumsum(failures) - failures,
        rollouts.prompt_tokens[:n], none, none, kind,
    ])  # fmt: skip
    if rollouts.failed_fractions is None or not failures.any():
        return turns, np.ones(1, np.int64)
    fails = np.ceil(rollouts.failed_fractions[: failures.sum()] * np.repeat(output, failures))
    return turns, np.maximum(fails, 1.0).astype(np.int64)


def _links(one: RLClockScenario, gaps_s: Times) -> Times:
    """Delays and next failures by replica; the last ones are those at another site."""
    n = one.pool.n_replicas
    out = np.zeros((n, 8))
    remote = np.arange(n) >= n - one.sync.n_remote
    out[:, tables.D_WEIGHTS] = np.where(remote, one.sync.remote_s, 0.0)
    out[:, tables.D_RETURN] = np.where(remote, one.sync.return_s, 0.0)
    out[:, tables.D_ARRIVES] = np.inf
    out[:, tables.D_FAILS] = np.resize(gaps_s, n)
    return out
