"""The RL section of a plan as a run to simulate: lengths, replicas, trainer, verifiers and the way of the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.distributions import Spread
from computeledger.economics.plan.read import Plan
from computeledger.economics.plan.rl import asked_run, rl_assumptions
from computeledger.economics.plan.setting import Setting, make_setting, uncertain_inputs
from computeledger.errors import PlanError
from computeledger.facts.architecture import Model
from computeledger.fields import MOST_COUNT
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout
from computeledger.physics.transformer import n_params_active
from computeledger.simulation.engine import Engine, timed_pool
from computeledger.simulation.rl.scenario import JudgePool, RLClockScenario, Rollouts, Trainer, WeightSync, check_run
from computeledger.simulation.state import Counts, Limits, Pool, Times, constant_step_times
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.estimate import once_per_step_s, passes_of
from computeledger.workloads.rl.generation import places
from computeledger.workloads.rl.judge import most_in_flight
from computeledger.workloads.rl.pace import framework_machine
from computeledger.workloads.rl.reading import AskedRun, heard_tokens
from computeledger.workloads.rl.scale_up import NO_LIMIT as MOST_LIVE
from computeledger.workloads.rl.scenario import RLScenario
from computeledger.workloads.rl.training import train
from computeledger.workloads.rl.weight_sync import sent_bytes_per_gpu

#: Waits for tools that are drawn one by one; more calls than these take them in turn again.
_MOST_WAITS = 1 << 20
#: Stands for the replicas until their steps are timed.
_UNTIMED = Pool(1, constant_step_times(1, 1.0, 1.0), Limits(1, 1, 0, 0, 1))


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run to simulate, and what it rests on."""

    scenario: RLClockScenario
    rollouts: Rollouts
    model: Model
    generation: str
    training: str
    logprob_passes: float
    updates_per_batch: float
    peak_flop_per_s: float
    usd_per_gpu_hour: float
    fit_error_fraction: float
    weights_bytes: float
    assumed: tuple[str, ...]


def with_lag(plan: Plan, policy_lag_steps: int, like: PlannedRun | None = None) -> Plan:
    """The same plan with another largest lag, on GPUs of their own for generation and training.

    Examples
    --------
    >>> from computeledger.economics.plan.read import Section
    >>> plan = Plan("x", Section("plan", {}), {"rl": Section("rl", {"mode": "synchronous"})})
    >>> dict(with_lag(plan, 2).sections["rl"].values)
    {'max_lag': 2.0, 'mode': 'asynchronous'}
    """
    left = {"mode"} if policy_lag_steps else {"mode", "in_flight", "drained", "reread_cache"}
    values = {key: value for key, value in plan.sections["rl"].values.items() if key not in left}
    values["max_lag"] = float(policy_lag_steps)
    if policy_lag_steps:
        values["mode"] = "asynchronous"
    if like is not None and not like.scenario.is_colocated:
        generating, training = like.scenario.n_gpus_generation, like.scenario.trainer.n_gpus
        values |= {"gpus": generating + training, "generation_gpus": generating, "training_gpus": training}
        values["layout"] = like.generation
    section = replace(plan.sections["rl"], values=values)
    return replace(plan, sections={**plan.sections, "rl": section})


def planned_run(plan: Plan, n_steps: int, seed: int = 0) -> PlannedRun:
    """Make a run of a plan's RL section, at the medians of what is uncertain.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
    ...                   "rl": {"gpus": 16, "steps": 100, "prompts_per_step": 16, "group_size": 8,
    ...                          "rollout_tokens": "1K tokens", "prompt_tokens": "400 tokens"}})
    >>> run = planned_run(plan, 2)
    >>> run.scenario.rollouts_per_step, run.scenario.is_colocated
    (128, True)
    """
    section = plan.sections["rl"]
    if "skip" in section:
        raise PlanError(f'[rl] is skipped ("{section.text("skip")}"): there is nothing to simulate')
    if "continuation_tokens" in section:
        raise PlanError("[rl] continuation_tokens: scores of a text are not simulated; plan and rl count them")
    draws: dict[str, Num] = {name: median_of(value) for name, value in uncertain_inputs(plan).items()}
    setting = make_setting(plan, section, draws)
    asked = asked_run(setting)
    run = asked.typical
    layout, split = run.engine.layout, run.split
    n_replicas = int(split.n_generation // layout.n_gpus)
    sync_s, fixed_s = (median(part) for part in once_per_step_s(run, asked.typical_machines))
    scenario = RLClockScenario(
        pool=_UNTIMED._replace(n_replicas=n_replicas),
        n_gpus_per_replica=float(layout.n_gpus), n_gpus_generation=float(split.n_generation),
        trainer=_trainer(setting, asked, fixed_s),
        is_colocated=split.is_colocated, n_steps=n_steps,
        rollouts_per_step=round(median(run.algorithm.rollouts)),
        policy_lag_steps=split.max_lag,
        verifiers=tuple(min(round(median(one.n_cores)), MOST_COUNT) for one in run.domains),
        sync=_sync(setting, run, n_replicas, sync_s),
        started_ratio=median(run.algorithm.started_ratio), keeps_partial=run.algorithm.keeps_partial,
        failure_s=_optional(setting, "replica_failures", math.inf), repair_s=_optional(setting, "replica_repair", 0.0),
        environments=median(run.sampling.turns.environments),
        judge=_judge(asked), agents=round(median(run.algorithm.agents)),
        trained_agents=round(median(run.algorithm.trained_agents)), takes_turns=median(run.sampling.turns.takers) > 1,
        sampling_rounds=median(run.algorithm.sampling_rounds),
    )  # fmt: skip
    check_run(scenario)
    rollouts = _with_turns(_draw(setting, run, scenario, seed), setting, run, seed)
    question = replace(run.engine, input_tokens=max(median(run.sampling.prompt_tokens), 1.0))
    machine = framework_machine(asked.typical_machines.generation, asked.typical_machines.factors)
    timed = timed_pool(question, machine, _timing(asked, scenario, rollouts))
    return PlannedRun(
        scenario=replace(scenario, pool=timed.pool), rollouts=rollouts, model=setting.model,
        generation=str(layout), training=f"{run.trainer.layout}, recompute {run.trainer.recompute}",
        logprob_passes=median(run.algorithm.logprob_passes),
        updates_per_batch=median(run.algorithm.updates_per_batch),
        peak_flop_per_s=setting.typical.bf16_flop_per_s, usd_per_gpu_hour=median(setting.usd_per_gpu_hour),
        fit_error_fraction=timed.fit_error_fraction,
        weights_bytes=float(sent_bytes_per_gpu(run.engine.model, Layout(), setting.precision)),
        assumed=tuple(f"{one.name} = {median(one.value):g} {one.unit}".strip() for one in rl_assumptions(setting)),
    )  # fmt: skip


def _judge(asked: AskedRun) -> JudgePool | None:
    """The judge's replicas with their step times, as `serve` has them."""
    run, machine = asked.typical, asked.typical_machines.generation
    if (judge := run.judge) is None:
        return None
    given, layout = run.transcripts, judge.engine.layout
    votes = 1 if judge.gives_score else max(round(median(judge.calls)), 1)
    written = max(round(median(judge.tokens)), 2 if votes > 1 else 1)
    near = max(median(given.read_tokens), 1.0)
    far = max(median(run.longest_sequence_tokens) + written, near + 2.0)
    question = replace(judge.engine, input_tokens=near, output_tokens=float(written))
    live = max(int(median(most_in_flight(judge, given, machine))), 1)
    pool = timed_pool(
        question, machine, Engine(int(median(run.judge_replicas)), live=live, contexts_tokens=(near, far))
    )
    return JudgePool(
        pool.pool, float(layout.n_gpus), median(judge.own_gpus), round(median(given.shared_tokens)), written, votes,
        float(n_params_active(judge.engine.model)),
    )  # fmt: skip


def _timing(asked: AskedRun, scenario: RLClockScenario, rollouts: Rollouts) -> Engine:
    """How a replica is run: as many rollouts at once as its engine allows, it holds, and the steps in flight bring."""
    run, engine = asked.typical, asked.typical.engine
    held = int(median(places(replace(engine, batch=MOST_LIVE), run.sampling, asked.typical_machines.generation)))
    share = scenario.n_started * (scenario.policy_lag_steps + 1) / scenario.pool.n_replicas
    live = min(math.ceil(median(engine.batch)), held, math.ceil(share))
    near = max(median(engine.input_tokens), 1.0)
    far = max(float(rollouts.sequence_tokens.max()), near + 2.0)
    return Engine(scenario.pool.n_replicas, live=max(live, 1), contexts_tokens=(near, far))


def _optional(setting: Setting, key: str, default: float) -> float:
    return median(setting.optional(key, default))


def _trainer(setting: Setting, asked: AskedRun, fixed_s: float) -> Trainer:
    """What a training step takes on its GPUs, by token, over rollouts of mean length that do not see one another."""
    run, machines = asked.typical, asked.typical_machines
    made = train(setting.model, run.trainer, passes_of(run), (machines.training, machines.factors))
    tokens = median(run.algorithm.rollouts * run.sequence_tokens)
    updated = tokens * median(run.algorithm.kept_fraction * run.algorithm.trained_agents / run.algorithm.agents)
    return Trainer(
        n_gpus=float(run.split.n_training),
        fixed_s=_optional(setting, "step_overhead", fixed_s),
        logprob_s_per_token=median(made.logprob_s) / tokens,
        update_s_per_token=median(made.update_s) / updated,
        n_spare=median(run.spare_gpus[1]),
    )


def _sync(setting: Setting, run: RLScenario, n_replicas: int, own_s: float) -> WeightSync:
    """The way of the weights: over the scale-out fabric, and over a line between sites where some GPUs are remote."""
    layout = run.engine.layout
    n_remote = int(_optional(setting, "remote_gpus", 0.0) // layout.n_gpus)
    if n_remote and "remote_bandwidth" not in setting.section:
        raise PlanError("[rl] remote_gpus needs remote_bandwidth: how fast new weights reach the other site")
    if n_remote > n_replicas:
        raise PlanError(f"[rl] remote_gpus: {n_remote} replicas are remote, the run has {n_replicas}")
    latency_s = _optional(setting, "remote_latency", 0.0)
    remote_s = 0.0
    if n_remote:
        every = float(sent_bytes_per_gpu(run.engine.model, Layout(), setting.precision))
        remote_s = every / median(setting.number("remote_bandwidth")) + latency_s
    return WeightSync(
        load_s=_optional(setting, "weight_load", own_s),
        is_in_flight=run.split.is_in_flight or not run.split.max_lag,
        rereads=run.sampling.turns.rereads,
        n_remote=n_remote, remote_s=remote_s, return_s=latency_s if n_remote else 0.0,
    )  # fmt: skip


def _draw(setting: Setting, run: RLScenario, scenario: RLClockScenario, seed: int) -> Rollouts:
    """Lengths, verifiers' times and what the update keeps, each from a stream of its own."""
    streams = [np.random.default_rng([seed, place]) for place in range(4)]
    n, prompt = scenario.n_rollouts, max(round(median(run.sampling.prompt_tokens)), 1)
    agents, share = scenario.agents, run.sampling.turns.failed_fraction
    # agents of an episode write alike; what they lose by failures is part of what they write
    lengths = run.sampling.lengths if agents == 1 else run.sampling.lengths.repeated(share)
    output = np.maximum(np.rint(lengths.draw(n, streams[0])), 1).astype(np.int64)
    output = np.repeat(output[::agents], agents)[:n]
    size = max(round(median(run.algorithm.group_size)), 1)
    groups = math.ceil(n / (size * agents))
    kept = np.repeat(streams[2].random(groups) < median(run.algorithm.kept_fraction), math.ceil(n / groups))[:n]
    kept &= np.arange(n) % agents < scenario.trained_agents
    again = np.random.default_rng([seed, 6])
    failures = again.geometric(1 - median(share), n) - 1 if agents == 1 else np.zeros(n, np.int64)
    kind = _kinds(run, n, np.random.default_rng([seed, 7]))
    return Rollouts(
        np.full(n, prompt), output, _verify_s(setting, run, kind, (streams[1], streams[3])), kept,
        n_failures=failures, failed_fractions=again.random(int(failures.sum())), kind=kind,
        group_size=size if run.sampling.is_prefix_shared and agents == 1 else 1,
    )  # fmt: skip


def _kinds(run: RLScenario, n: int, rng: np.random.Generator) -> Counts:
    """Kind of task of each rollout, by the shares of the verifiers."""
    if len(run.domains) < 2:
        return np.zeros(n, np.int64)
    ends = np.cumsum([median(one.share_fraction) for one in run.domains])
    return np.minimum(np.searchsorted(ends, rng.random(n), side="right"), len(ends) - 1)


def _with_turns(rollouts: Rollouts, setting: Setting, run: RLScenario, seed: int) -> Rollouts:
    """The same rollouts with calls of tools, in proportion to what they write, and how long each call takes."""
    turns = run.sampling.turns
    per_token = median(turns.calls_per_token)
    if not per_token:
        return rollouts
    rounding, waits = (np.random.default_rng([seed, place]) for place in (4, 5))
    n_calls = np.floor(per_token * rollouts.output_tokens + rounding.random(len(rollouts.output_tokens)))
    agents = round(median(run.algorithm.agents))
    n_calls = np.repeat(n_calls[::agents], agents)[: len(n_calls)]
    n_waits = int(np.clip((n_calls * (rollouts.failures + 1)).sum(), 1, _MOST_WAITS))
    observed = median(turns.observed_tokens)
    before = np.zeros(len(n_calls), np.int64)
    if agents > 1:
        heard = _heard(setting, run)
        observed = median(setting.optional("observation_tokens", 0.0)) + heard * (agents - 1)
        if turns.takers != 1:
            before = np.rint(heard * (np.arange(len(n_calls)) % agents)).astype(np.int64)
    latency = setting.asked(RLQuestion).spreads.get("tool_latency", Spread(0.0))
    return replace(
        rollouts,
        n_calls=n_calls.astype(np.int64),
        prompt_tokens=rollouts.prompt_tokens + before,
        call_observed_tokens=round(observed),
        call_s=latency.draw(n_waits, median(turns.latency_s), waits),
    )


def _heard(setting: Setting, run: RLScenario) -> float:
    """Tokens of a turn that another agent sees."""
    question = setting.asked(RLQuestion)
    numbers = {name: median_of(value) for name, value in question.numbers.items()}
    mean = run.sampling.lengths.mean_tokens
    return median(heard_tokens(question, numbers, mean, is_mean=False)) / (question.agents - 1)


def _verify_s(
    setting: Setting, run: RLScenario, kind: Counts, streams: tuple[np.random.Generator, np.random.Generator]
) -> Times:
    """Time that a verifier of its kind spends on each rollout; a verdict that fails is repeated."""
    n, (rng, repeats) = len(kind), streams
    means = np.array([median(one.cpu_s) for one in run.domains] or [0.0])
    spread, failures = _optional(setting, "verifier_spread", 0.0), _optional(setting, "verifier_failures", 0.0)
    if not means.any():
        return np.zeros(n)
    if failures >= 1:
        raise PlanError("[rl] verifier_failures = 100%: no rollout would ever be verified")
    sigma = math.sqrt(math.log1p(spread**2))
    once = means[kind] * np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)
    return np.asarray(once * repeats.geometric(1 - failures, n))
