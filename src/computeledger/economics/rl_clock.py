"""The RL section of a plan as a run to simulate: lengths, replicas, trainer, verifiers and the way of the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.phase_pretraining import training_estimate
from computeledger.economics.phases import check_context
from computeledger.economics.plan import Plan
from computeledger.economics.rl_split import stated_lag, stated_split
from computeledger.economics.setting import Setting, make_setting, uncertain_inputs
from computeledger.errors import InputError, PlanError
from computeledger.facts.architecture import Model
from computeledger.physics.efficiency import middle
from computeledger.physics.memory import weights_bytes_per_gpu
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.simulation.rl_scenario import RLClockScenario, Rollouts, Trainer, WeightSync, check_run
from computeledger.simulation.state import Limits, Pool, Times, constant_step_times
from computeledger.simulation.step_times import Engine, timed_pool
from computeledger.workloads.pretraining import PretrainingResult
from computeledger.workloads.rl_generation import Sampling, framework_machine
from computeledger.workloads.rl_lengths import exact_lengths, spread_of_lengths
from computeledger.workloads.rl_scenario import Algorithm, RLMachines, RLScenario, Split
from computeledger.workloads.rl_search import rl_machine, search_generation
from computeledger.workloads.rl_sureness import KNOWN, rl_factors_of
from computeledger.workloads.rl_training import Passes, train
from computeledger.workloads.rl_training import Trainer as RLTrainer
from computeledger.workloads.serving import ServingScenario, estimate_serving, largest_batch
from computeledger.workloads.serving_search import check_batch, layouts_that_fit

#: Parts of the GPUs that a split between generation and training is chosen from.
SPLIT_PARTS = 16
#: Most rollouts that a replica decodes at once.
MOST_LIVE = 4096
#: Constants of an RL framework where the plan is silent, at their medians.
FRAMEWORK = rl_factors_of(KNOWN)
#: Stands for the replicas until their steps are timed.
_UNTIMED = Pool(1, constant_step_times(1, 1.0, 1.0), Limits(1, 1, 0, 0, 1))


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run to simulate, and what it rests on.

    Attributes
    ----------
    scenario : RLClockScenario
        The run.
    rollouts : Rollouts
        As drawn.
    model : Model
        What is trained.
    generation, training : str
        Layouts.
    logprob_passes, updates_per_batch : float
        Forward passes beside the update, and updates [-].
    peak_flop_per_s, usd_per_gpu_hour : float
        Dense bf16 peak of one GPU, and its price [FLOP/s], [USD/h].
    fit_error_fraction : float
        Largest departure of the tables of step times from the physics [-].
    weights_bytes : float
        What is sent after a step [byte].
    assumed : tuple of str
        What the plan is silent about.
    """

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

    Parameters
    ----------
    plan : Plan
        With an RL section.
    policy_lag_steps : int
        Largest policy lag [-].
    like : PlannedRun, optional
        A run whose split of the GPUs is kept.

    Returns
    -------
    Plan
        Otherwise unchanged.

    Examples
    --------
    >>> from computeledger.economics.plan import Section
    >>> plan = Plan("x", Section("plan", {}), {"rl": Section("rl", {"mode": "synchronous"})})
    >>> dict(with_lag(plan, 2).sections["rl"].values)
    {'max_lag': 2.0, 'mode': 'asynchronous'}
    """
    values = {key: value for key, value in plan.sections["rl"].values.items() if key != "mode"}
    values["max_lag"] = float(policy_lag_steps)
    if policy_lag_steps:
        values["mode"] = "asynchronous"
    if like is not None and not like.scenario.is_colocated:
        values |= {"generation_gpus": like.scenario.n_gpus_generation, "training_gpus": like.scenario.trainer.n_gpus}
        values["layout"] = like.generation
    section = replace(plan.sections["rl"], values=values)
    return replace(plan, sections={**plan.sections, "rl": section})


def planned_run(plan: Plan, n_steps: int, seed: int = 0) -> PlannedRun:
    """Make a run of a plan's RL section, at the medians of what is uncertain.

    Parameters
    ----------
    plan : Plan
        With an RL section that is not skipped.
    n_steps : int
        Training steps to simulate [-].
    seed : int
        Of the lengths and the verifiers' times [-].

    Returns
    -------
    PlannedRun
        Ready to be simulated.

    Raises
    ------
    PlanError
        Where the section is skipped or contradicts itself.
    DoesNotFitError
        Where no layout holds the model and one rollout.

    Examples
    --------
    >>> from computeledger.economics.plan import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
    ...                   "rl": {"gpus": 16, "steps": 100, "prompts_per_step": 16, "group_size": 8,
    ...                          "rollout": "1K tokens", "prompt": "400 tokens"}})
    >>> run = planned_run(plan, 2)
    >>> run.scenario.rollouts_per_step, run.scenario.is_colocated
    (128, True)
    """
    section = plan.sections["rl"]
    if "skip" in section:
        raise PlanError(f'[rl] is skipped ("{section.text("skip")}"): there is nothing to simulate')
    if "gold" in section:
        raise PlanError("rl.gold: scores of a text are not simulated; plan and rl count them")
    draws: dict[str, Num] = {name: middle(value) for name, value in uncertain_inputs(plan).items()}
    setting = make_setting(plan, section, draws)
    lag = _lag(setting)
    question, layout, live = _engine(setting, lag)
    n_generation, n_training = _split(plan, setting, replace(question, layout=layout, batch=float(live)), lag)
    trainer, training = _trainer(plan, setting, n_training)
    n_replicas = int(n_generation // layout.n_gpus)
    scenario = RLClockScenario(
        pool=_UNTIMED._replace(n_replicas=n_replicas),
        n_gpus_per_replica=float(layout.n_gpus), n_gpus_generation=n_generation, trainer=trainer,
        is_colocated=n_generation == n_training == _number(setting, "gpus"), n_steps=n_steps,
        rollouts_per_step=round(_number(setting, "prompts_per_step") * _number(setting, "group_size")),
        policy_lag_steps=lag,
        n_verifiers=round(_optional(setting, "verifier_cores", 1.0)), sync=_sync(setting, layout, n_replicas, lag),
        started_ratio=_optional(setting, "oversampling", 1.0), keeps_partial=_is_yes(setting, "partial_rollouts"),
        failure_s=_optional(setting, "replica_failures", math.inf), repair_s=_optional(setting, "replica_repair", 0.0),
    )  # fmt: skip
    check_run(scenario)
    rollouts = _draw(setting, scenario, seed)
    timed = timed_pool(
        replace(question, layout=layout), _framework(setting), _timing(setting, scenario, rollouts, live)
    )
    return PlannedRun(
        scenario=replace(scenario, pool=timed.pool), rollouts=rollouts, model=setting.model,
        generation=str(layout), training=training,
        logprob_passes=_optional(setting, "logprob_passes", 1.0),
        updates_per_batch=_optional(setting, "updates_per_batch", 1.0),
        peak_flop_per_s=setting.typical.bf16_flop_per_s, usd_per_gpu_hour=median(setting.usd_per_gpu_hour),
        fit_error_fraction=timed.fit_error_fraction,
        weights_bytes=float(weights_bytes_per_gpu(setting.model, Layout(), setting.precision)),
        assumed=tuple(f"{one.name} = {median(one.value):g} {one.unit}".strip() for one in setting.defaults),
    )  # fmt: skip


def _timing(setting: Setting, scenario: RLClockScenario, rollouts: Rollouts, live: int) -> Engine:
    """How a replica is run: as many rollouts at once as the steps in flight bring it and its memory holds."""
    if "batch" not in setting.section:
        share = scenario.n_started * (scenario.policy_lag_steps + 1) / scenario.pool.n_replicas
        live = min(live, max(math.ceil(share), 1))
    near = max(_number(setting, "prompt"), 1.0)
    far = max(float((rollouts.prompt_tokens + rollouts.output_tokens).max()), near + 2.0)
    return Engine(scenario.pool.n_replicas, live=live, contexts_tokens=(near, far))


def _number(setting: Setting, key: str) -> float:
    return median(setting.number(key))


def _optional(setting: Setting, key: str, default: float) -> float:
    return median(setting.optional(key, default))


def _lag(setting: Setting) -> int:
    """Largest policy lag: 0 when synchronous, else as the plan says or what keeps its steps in flight."""
    lag = stated_lag(setting)
    return max(round(_number(setting, "steps_in_flight")) - 1, 1) if lag is None else lag


def _engine(setting: Setting, lag: int) -> tuple[ServingScenario, Layout, int]:
    """What generates: the layout of a replica, and the rollouts it holds, searched where the plan leaves them out."""
    section, model = setting.section, setting.model
    prompt, rollout = _number(setting, "prompt"), _number(setting, "rollout")
    question = ServingScenario(model, Layout(), setting.precision, max(prompt, 1.0), rollout, 1.0)
    check_context("rl", model, float(np.max(question.held_tokens)))
    n_gpus = _optional(setting, "generation_gpus", _number(setting, "gpus"))
    run = RLScenario(
        engine=replace(question, batch=float(MOST_LIVE)),
        sampling=Sampling(exact_lengths(rollout), prompt, _number(setting, "group_size")),
        algorithm=Algorithm(_number(setting, "prompts_per_step"), _number(setting, "group_size")),
        trainer=RLTrainer(Layout()),
        split=Split(n_gpus, n_gpus, is_colocated=not lag, max_lag=lag, is_in_flight=bool(lag)),
    )
    text = section.text("layout")
    layouts = [check_layout(parse_layout(text), model)] if text else layouts_that_fit(question, setting.typical)
    layout = search_generation(run, layouts, RLMachines(setting.typical, setting.typical))
    live = float(largest_batch(replace(question, layout=layout), setting.typical))
    if "batch" in section:
        live = _number(setting, "batch")
        check_batch(question, layout, live, setting.typical)
    return question, layout, min(max(math.ceil(live), 1), MOST_LIVE)


def _split(plan: Plan, setting: Setting, engine: ServingScenario, lag: int) -> tuple[float, float]:
    """GPUs that generate and that train: all in turns when synchronous, else as the plan says or in balance."""
    gpus, size = _number(setting, "gpus"), int(engine.layout.n_gpus)
    stated = stated_split(setting)
    if stated is not None:
        if stated[0] < size:
            raise PlanError(f"[rl] generation_gpus = {stated[0]:g}: a replica takes {size}")
        return stated
    if lag == 0:
        return gpus, gpus
    decode = estimate_serving(engine, setting.typical)
    generate_s = median(decode.gpu_s_per_output_token) * _number(setting, "rollout")
    wanted = gpus * generate_s / (generate_s + _train_gpu_s(setting))
    parts = [part * gpus / SPLIT_PARTS for part in range(1, SPLIT_PARTS)]
    whole = [part for part in parts if part == int(part) and part % size == 0]
    whole = [part for part in whole if _can_train(plan, setting, gpus - part)]
    if not whole:
        raise PlanError(
            f"[rl] {gpus:g} GPUs cannot be split into replicas of {size} and a trainer: give generation_gpus"
        )
    generation = min(whole, key=lambda part: abs(part - wanted))
    return generation, gpus - generation


def _can_train(plan: Plan, setting: Setting, n_gpus: float) -> bool:
    """Whether some layout trains on that many GPUs."""
    try:
        _trainer(plan, setting, n_gpus)
    except InputError:
        return False
    return True


def _train_gpu_s(setting: Setting) -> float:
    """GPU-time that training takes per rollout."""
    result, _ = _training(setting)
    seen = _number(setting, "rollout") + _number(setting, "prompt")
    passes, kept = _optional(setting, "logprob_passes", 1.0), _optional(setting, "kept", 1.0)
    return seen * median(result.gpu_s_per_token) * (passes / 3 + kept * _optional(setting, "updates_per_batch", 1.0))


def _training(setting: Setting) -> tuple[PretrainingResult, str]:
    """The trainer on the section's GPUs."""
    seen = _number(setting, "rollout") + _number(setting, "prompt")
    tokens = _number(setting, "prompts_per_step") * _number(setting, "group_size") * seen
    return training_estimate(setting, "training_layout", tokens, None if "global_batch" in setting.section else tokens)


def _trainer(plan: Plan, setting: Setting, n_gpus: float) -> tuple[Trainer, str]:
    """What a training step takes on its GPUs, by token, over rollouts of mean length that do not see one another."""
    own = replace(setting.section, values={**setting.section.values, "gpus": float(n_gpus)})
    result, layout = _training(make_setting(plan, own, {**setting.draws, "rl.gpus": float(n_gpus)}))
    batch = result.scenario.batch
    packed = median(batch.microbatch_sequences) * median(batch.sequence_tokens)
    trainer = RLTrainer(result.scenario.layout, setting.precision, packed, batch.recompute, batch.virtual_stages)
    each = _number(setting, "rollout") + _number(setting, "prompt")
    n = _number(setting, "prompts_per_step") * _number(setting, "group_size")
    scored, trained = (n * _optional(setting, key, 1.0) for key in ("logprob_passes", "updates_per_batch"))
    made_of = (rl_machine(setting.typical), FRAMEWORK)
    made = train(setting.model, trainer, Passes(each, scored, trained, 1.0), made_of)
    return Trainer(
        n_gpus=n_gpus,
        fixed_s=_optional(setting, "step_overhead", _exposed_fraction(_lag(setting)) * median(FRAMEWORK.rl_fixed_s)),
        logprob_s_per_token=median(made.logprob_s) / (n * each),
        update_s_per_token=median(made.update_s) / (n * each),
    ), layout


def _framework(setting: Setting) -> Machine:
    """One GPU of the generators, as an RL framework drives it: the constants that ``plan`` and ``rl`` answer with."""
    return framework_machine(rl_machine(setting.typical), FRAMEWORK)


def _exposed_fraction(lag: int) -> float:
    """Share of what is done once per step that is not hidden beside other work."""
    return 1 - median(FRAMEWORK.rl_hidden_sync_fraction) if lag else 1.0


def _is_yes(setting: Setting, key: str) -> bool:
    return setting.section.text(key) == "yes"


def _sync(setting: Setting, layout: Layout, n_replicas: int, lag: int) -> WeightSync:
    """The way of the weights: over the scale-out fabric, and over a line between sites where some GPUs are remote."""
    machine, model = setting.typical, setting.model
    own_s = median(weights_bytes_per_gpu(model, layout, setting.precision) / machine.scale_out_bytes_per_s)
    every_s = FRAMEWORK.rl_sync_s_per_byte * weights_bytes_per_gpu(model, Layout(), setting.precision)
    own_s = _exposed_fraction(lag) * max(own_s, median(every_s))
    n_remote = int(_optional(setting, "remote_gpus", 0.0) // layout.n_gpus)
    if n_remote and "remote_bandwidth" not in setting.section:
        raise PlanError("[rl] remote_gpus needs remote_bandwidth: how fast new weights reach the other site")
    if n_remote > n_replicas:
        raise PlanError(f"[rl] remote_gpus: {n_remote} replicas are remote, the run has {n_replicas}")
    latency_s = _optional(setting, "remote_latency", 0.0)
    remote_s = 0.0
    if n_remote:
        every = float(weights_bytes_per_gpu(model, Layout(), setting.precision))
        remote_s = every / _number(setting, "remote_bandwidth") + latency_s
    return WeightSync(
        load_s=_optional(setting, "weight_sync", own_s),
        is_in_flight=setting.section.text("in_flight_updates") != "no",
        rereads=_is_yes(setting, "reread_cache"),
        n_remote=n_remote, remote_s=remote_s, return_s=latency_s if n_remote else 0.0,
    )  # fmt: skip


def _draw(setting: Setting, scenario: RLClockScenario, seed: int) -> Rollouts:
    """Lengths, verifiers' times and what the update keeps, each from a stream of its own."""
    streams = [np.random.default_rng([seed, place]) for place in range(4)]
    n, mean, prompt = scenario.n_rollouts, _number(setting, "rollout"), max(round(_number(setting, "prompt")), 1)
    if "rollout_p95" in setting.section:
        ratio, share = _number(setting, "rollout_p95") / mean, 0.95
    else:
        ratio, share = _number(setting, "longest_over_mean"), 1 - 1 / (scenario.rollouts_per_step + 1)
    if ratio < 1:
        raise PlanError(f"[rl] rollout_p95 lies below the mean, rollout = {mean:g} tokens")
    sigma = spread_of_lengths(ratio, share)
    drawn = mean * np.exp(sigma * streams[0].standard_normal(n) - sigma**2 / 2)
    context = setting.model.max_context_tokens or math.inf
    limit = min(_optional(setting, "rollout_limit", math.inf), context - prompt)
    if _optional(setting, "rollout_limit", 0.0) > context - prompt:
        raise PlanError(f"[rl] rollout_limit and prompt exceed the context of {setting.model.id}: {context:g} tokens")
    output = np.clip(np.rint(drawn), 1, limit).astype(np.int64)
    groups = math.ceil(n / max(round(_number(setting, "group_size")), 1))
    kept = np.repeat(streams[2].random(groups) < _optional(setting, "kept", 1.0), math.ceil(n / groups))[:n]
    return Rollouts(np.full(n, prompt), output, _verify_s(setting, n, streams[1], streams[3]), kept)


def _verify_s(setting: Setting, n: int, rng: np.random.Generator, repeats: np.random.Generator) -> Times:
    """Time that a verifier spends on each rollout; a failed attempt is repeated."""
    mean = _optional(setting, "verifier_time", 0.0)
    spread, failures = _optional(setting, "verifier_spread", 1.0), _optional(setting, "verifier_failures", 0.0)
    if mean == 0:
        return np.zeros(n)
    if failures >= 1:
        raise PlanError("[rl] verifier_failures = 100%: no rollout would ever be verified")
    sigma = math.sqrt(math.log1p(spread**2))
    once = mean * np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)
    return np.asarray(once * repeats.geometric(1 - failures, n))
