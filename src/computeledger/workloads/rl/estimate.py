"""An RL step by phase: generation, verification, log-probs, update, weight sync, and who waits for whom.

Synchronous on shared GPUs, the phases follow one another and the longest rollout ends generation. With GPUs of their
own and a lag, generators and trainer work at once, and the slower one sets the pace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.display import Displayed
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.roofline import Machine
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.rl.generation import OUTSIDE, Generation, carried_on, generate, in_order, sooner
from computeledger.workloads.rl.judge import Ends, Judging, judging
from computeledger.workloads.rl.pace import held_rollouts
from computeledger.workloads.rl.scenario import RLMachines, RLScenario, check_rl
from computeledger.workloads.rl.shares import part_ratios
from computeledger.workloads.rl.training import Passes, Training, train
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.rl.verdicts import late_verdicts_s, verdict_times_s
from computeledger.workloads.rl.weight_sync import SyncSides, sent_bytes_per_gpu, sync_mechanism, sync_s
from computeledger.workloads.serving.estimate import ServingScenario

#: Lags that a step may use up to the one allowed: batches that are generated together.
_LAGS = (1, 2, 4, 8, 16, 32, 64)
#: Share of a time that is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class RLResult(Displayed):
    """What an RL step takes.

    Attributes
    ----------
    scenario : RLScenario
        What was asked.
    step_s : float or ndarray
        From one update to the next [s].
    phases_gpu_s : dict of str to float or ndarray
        GPU-time of one step by phase, waiting included; adds up to GPUs times ``step_s`` [s].
    generation : Generation
        One batch of rollouts.
    training : Training
        Log-probs and update.
    verification_s : float or ndarray
        Wall time in which verifiers work on the rollouts of a step: no less than one verdict, than all of them over the
        cores, nor than those take that have ended at any time [s].
    exposed_generation_s : float or ndarray
        Part of the step in which the trainer waits for rollouts [s].
    lag_steps : float or ndarray
        Versions that the oldest rollout is behind [-].
    fits : bool or ndarray
        Whether weights and one longest rollout fit a generation replica, and a replica the GPUs.
    peak_flop_per_s : float or ndarray
        Dense bf16 peak of all GPUs [FLOP/s].
    sync_s : float or ndarray
        One weight synchronisation, hidden or not [s].
    generation_fixed_s : float or ndarray
        Once per generation, which logs count in it; under a lag what is not hidden beside generation [s].
    factors : RLFactors
        What RL adds: the intervals of phases are among it.
    judging : Judging or None
        What a judge takes, where one judges.
    ratios : dict of str to float or ndarray
        Real over modelled time of each part of the step, by the names of ``phases_gpu_s`` [-].
    """

    scenario: RLScenario
    step_s: Num
    phases_gpu_s: dict[str, Num]
    generation: Generation
    training: Training
    verification_s: Num
    exposed_generation_s: Num
    lag_steps: Num
    fits: bool | NDArray[np.bool_]
    peak_flop_per_s: Num
    sync_s: Num = 0.0
    generation_fixed_s: Num = 0.0
    factors: RLFactors = field(default_factory=RLFactors)
    judging: Judging | None = None
    ratios: dict[str, Num] = field(default_factory=dict)

    def ratio_of(self, part: str) -> Num:
        """Real over modelled time of a part of the step; the step's own where the part takes none.

        Parameters
        ----------
        part : str
            Name of ``phases_gpu_s``.

        Returns
        -------
        float or ndarray
            [-].
        """
        return self.ratios.get(part, self.factors.rl_step_ratio)

    @property
    def phases_s(self) -> dict[str, Num]:
        """Wall-clock time by phase as frameworks log it; phases may overlap [s].

        Each is as much longer than modelled as its GPU-time is, and none that GPUs work in is longer than the step.
        Reference log-probs are the passes beyond the first; idle is the mean GPU's waiting.
        """
        training, algorithm = self.training, self.scenario.algorithm
        one_s = training.logprob_s / np.maximum(algorithm.forward_passes, np.finfo(float).tiny)
        one_s = one_s * self.ratio_of("log-probs")
        starts_s = self.generation_fixed_s * self.ratio_of("once per step")
        generation_s = np.minimum(self.generation.wall_s * self.ratio_of("generation") + starts_s, self.step_s)
        waited_s = np.minimum(self.exposed_generation_s * self.ratio_of("trainer waiting for rollouts"), self.step_s)
        verdicts_s = self.verification_s + (0.0 if self.judging is None else self.judging.all_s)
        return {
            "generation": generation_s,
            "exposed generation": waited_s if self.scenario.split.max_lag > 0 else generation_s,
            "reward": verdicts_s * self.ratio_of("waiting for verifiers"),
            "old-policy log-probs": one_s * np.minimum(algorithm.logprob_passes, 1.0),
            "reference log-probs": one_s * np.maximum(algorithm.logprob_passes - 1.0, 0.0),
            "update": np.minimum(training.update_s * self.ratio_of("update"), self.step_s),
            "weight sync": self.sync_s * self.ratio_of("weight sync"),
            "idle": self.idle_fraction * self.step_s,
        }

    @property
    def sampled_tokens(self) -> Num:
        """Tokens generated for one step, dropped ones included [token]."""
        return self.scenario.sampled_tokens

    @property
    def dropped_tokens(self) -> Num:
        """Tokens of rollouts that no update trains on: broken off, filtered, sampled once more [token]."""
        return self.sampled_tokens - self.kept_tokens

    @property
    def gpu_s_per_step(self) -> Num:
        """GPU-time of one step, waiting included [s]."""
        return self.step_s * self.scenario.n_gpus

    @property
    def kept_tokens(self) -> Num:
        """Rollout tokens that the update trains on [token]."""
        one = self.scenario
        return one.algorithm.trained_rollouts * one.algorithm.kept_fraction * one.taken_tokens

    @property
    def gpu_s_per_token(self) -> Num:
        """GPU-time of one sampled token [s/token]."""
        return self.gpu_s_per_step / self.sampled_tokens

    @property
    def flop_by_phase(self) -> dict[str, Num]:
        """FLOP of one step, as the scenario counts them [FLOP]."""
        return self.scenario.flop_by_phase

    @property
    def flop_per_step(self) -> Num:
        """Model FLOP of one step, without attention [FLOP]."""
        total: Num = 0.0
        for part in self.flop_by_phase.values():
            total = total + part
        return total

    @property
    def flop_per_token(self) -> Num:
        """FLOP of a step over the tokens it sampled [FLOP/token]."""
        return self.flop_per_step / self.sampled_tokens

    @property
    def beta_flop(self) -> Num:
        """FLOP per sampled token over N [-]."""
        return self.flop_per_token / n_params_active(self.scenario.engine.model)

    def beta_gpu_time(self, pretraining_gpu_s_per_token: Num) -> Num:
        """Six times the GPU-time of a sampled token over that of a pretraining token.

        Parameters
        ----------
        pretraining_gpu_s_per_token : float or ndarray
            On the same chip [s/token].

        Returns
        -------
        float or ndarray
            What a pretraining token of the same GPU-time would count in FLOP per N [-].
        """
        return 6 * self.gpu_s_per_token / pretraining_gpu_s_per_token

    @property
    def idle_fraction(self) -> Num:
        """Share of a step's GPU-time in which GPUs wait for one another, for stragglers or for verdicts [-]."""
        waiting = [part for name, part in self.phases_gpu_s.items() if "waiting" in name]
        share = sum(waiting, start=0.0) / self.gpu_s_per_step
        return np.where(share < _ROUNDING, 0.0, share)

    @property
    def timeline_s(self) -> dict[str, dict[str, Num]]:
        """What each side of a step does, in order: phases by side, each as long as its mean GPU is in it [s]."""
        split, spent, judge = self.scenario.split, self.phases_gpu_s, self.scenario.judge
        both = {name: spent[name] / split.n_gpus for name in ("weight sync", "once per step")}
        in_turn = () if judge is None or judge.is_apart else ("judge",)
        if split.is_colocated:
            order = ("generation", "waiting for the longest rollouts", *in_turn, "waiting for verifiers", "log-probs",
                     "update", OUTSIDE)  # fmt: skip
            found = {"all GPUs": {**{name: spent[name] / split.n_gpus for name in order}, **both}}
        else:
            sides = {
                "generators": (split.n_generation, ("generation", *in_turn, "generators waiting")),
                "trainer": (split.n_training, ("trainer waiting for rollouts", "log-probs", "update")),
            }
            spares = dict(zip(sides, self.scenario.spare_gpus, strict=True))
            outside_s = spent[OUTSIDE] / np.maximum(sum(spares.values()), 1.0)
            found = {
                side: {**{name: spent[name] / gpus for name in order}, OUTSIDE: spares[side] * outside_s / gpus, **both}
                for side, (gpus, order) in sides.items()
            }
        if judge is not None and judge.is_apart:
            found["judge"] = {name: spent[name] / judge.own_gpus for name in ("judge", "judge waiting")}
        return found

    @property
    def utilization_fraction(self) -> Num:
        """FLOP of a step over what all GPUs could do in it, dense bf16 [-]."""
        return self.flop_per_step / (self.step_s * self.peak_flop_per_s)

    @property
    def phase_utilization(self) -> dict[str, Num]:
        """FLOP of each phase over what its busy GPUs could do meanwhile, dense bf16 [-]."""
        peak, spent = self.peak_flop_per_s / self.scenario.n_gpus, self.phases_gpu_s
        return {
            name: np.where(np.asarray(spent[name]) > 0, flop / np.where(spent[name], spent[name], 1.0) / peak, 0.0)
            for name, flop in self.flop_by_phase.items()
        }


def pretraining_gpu_s_per_token(
    n_params: Num, peak_flop_per_s: Num, mfu_fraction: Num = PRETRAINING_UTILIZATION_FRACTION
) -> Num:
    """GPU-time of a pretraining token at a stated utilisation, ``6 N / (MFU peak)``.

    Parameters
    ----------
    n_params : float or ndarray
        Active parameters [-].
    peak_flop_per_s : float or ndarray
        Dense bf16 peak of one GPU [FLOP/s].
    mfu_fraction : float or ndarray
        Of the ledger's ``6 N`` [-].

    Returns
    -------
    float or ndarray
        What beta compares with [s/token].

    Examples
    --------
    >>> round(pretraining_gpu_s_per_token(8e9, 989e12) * 1e6)
    121
    """
    return 6 * n_params / (mfu_fraction * peak_flop_per_s)


def passes_of(scenario: RLScenario) -> Passes:
    """State how often the trainer goes over the rollouts of a step.

    Parameters
    ----------
    scenario : RLScenario
        Of the run.

    Returns
    -------
    Passes
        Lengths, forward passes, updates, optimizer steps.
    """
    algorithm, whole = scenario.algorithm, scenario.trained_tokens + scenario.padding_tokens
    plain = 0.0 if scenario.text is None else scenario.text.plain_tokens / whole
    return Passes(
        scenario.passed_tokens + scenario.padding_tokens,
        algorithm.trained_rollouts * algorithm.forward_passes,
        algorithm.trained_rollouts * algorithm.trained_passes + plain,
        algorithm.optimizer_steps * algorithm.updates_per_batch,
        whole,
        scenario.scored,
    )


def estimate_rl(scenario: RLScenario, machines: RLMachines) -> RLResult:
    """Estimate an RL step.

    Without a lag ``T = generation + exposed verification + scoring + log-probs + update + sync``; with a lag
    ``T = max(generation, log-probs + update, verification) + exposed sync``, where generation is spread over as many
    batches as the lag allows and never drains with in-flight updates.

    Parameters
    ----------
    scenario : RLScenario
        Whose numbers may be arrays that broadcast.
    machines : RLMachines
        GPUs of both sides and what RL adds.

    Returns
    -------
    RLResult
        With GPU-time by phase.

    Raises
    ------
    QuantityError
        Where the scenario contradicts itself.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> from computeledger.workloads.rl.scenario import Algorithm, Split
    >>> from computeledger.workloads.rl.training import Trainer
    >>> from computeledger.workloads.serving.estimate import ServingScenario
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> sampling = Sampling(lengths_of_mean(1000.0, 4096.0), 200.0)
    >>> run = RLScenario(engine, sampling, Algorithm(64, 32), Trainer(Layout(dp=16)), Split(16, 16))
    >>> result = estimate_rl(run, RLMachines(machine, machine))
    >>> round(float(result.beta_flop), 1), bool(result.beta_gpu_time(121e-6) > 8)
    (11.6, True)
    """
    check_rl(scenario)
    split = scenario.split
    passes, made_of = passes_of(scenario), (machines.training, machines.factors)
    training = train(scenario.engine.model, scenario.trainer, passes, made_of)
    least_s, last_s = verdict_times_s(scenario)
    once_s, verdicts = once_per_step_s(scenario, machines), None
    makers, each_s, train_s = (machines.generation, machines.factors), once_s[0] + once_s[1], training.wall_s
    made, lag = _generation(scenario, makers, (train_s + last_s, each_s, train_s))
    if split.max_lag and (verdicts := _judging(scenario, machines, np.maximum(made.wall_s, training.wall_s) + each_s)):
        made, lag = _generation(scenario, makers, (train_s + last_s + verdicts.verdict_s, each_s, train_s))
    late_s = late_verdicts_s(scenario, made)
    pace_s: Num
    exposed_s: Num
    if split.max_lag:
        slowest_s = least_s - each_s
        slowest_s = slowest_s if verdicts is None else np.maximum(slowest_s, verdicts.all_s - each_s)
        pace_s = np.maximum(np.maximum(made.wall_s, training.wall_s), slowest_s)
        exposed_s = _left_s(pace_s, training.wall_s)
    else:
        if verdicts := _judging(scenario, machines, made):
            late_s = late_s + verdicts.late_s
        exposed_s = made.wall_s + late_s
        pace_s = exposed_s + training.wall_s
    modelled = _phases(scenario, _Parts(made, training, late_s, *once_s, pace_s + each_s, verdicts))
    # a judge's GPUs are no side that takes what another gives back: its parts have the ratio of the step
    judges = {name: machines.factors.rl_step_ratio for name in modelled if name.startswith("judge")}
    others = {name: part for name, part in modelled.items() if name not in judges}
    ratios = part_ratios(others, split, machines.factors) | judges
    shown = 1 - machines.factors.rl_hidden_sync_fraction if split.max_lag else 1.0
    # what RL adds does not make verifiers faster than their cores
    floor = np.maximum(least_s / (machines.factors.rl_step_ratio * (pace_s + each_s)), 1.0)
    return RLResult(
        scenario=scenario,
        step_s=floor * machines.factors.rl_step_ratio * (pace_s + each_s),
        phases_gpu_s={name: floor * ratios[name] * part for name, part in modelled.items()},
        generation=made,
        training=training,
        verification_s=np.maximum(least_s, last_s),
        exposed_generation_s=exposed_s,
        lag_steps=lag,
        fits=(np.asarray(made.n_places) >= 1) & (np.asarray(scenario.n_replicas) >= 1),
        peak_flop_per_s=_peak_flop_per_s(scenario, machines),
        factors=machines.factors,
        ratios=ratios,
        sync_s=weight_sync_s(scenario, machines),
        generation_fixed_s=0.0 if scenario.is_one_program else shown * machines.factors.rl_generation_fixed_s,
        judging=verdicts,
    )


def _peak_flop_per_s(scenario: RLScenario, machines: RLMachines) -> Num:
    """Dense bf16 peak of all GPUs; those that only judge are the generators' kind."""
    split, own = scenario.split, scenario.n_gpus - scenario.split.n_gpus
    judges = own * machines.generation.bf16_flop_per_s
    if split.is_colocated:
        return judges + split.n_gpus * machines.training.bf16_flop_per_s
    trainer = split.n_training * machines.training.bf16_flop_per_s
    return judges + split.n_generation * machines.generation.bf16_flop_per_s + trainer


def _judging(scenario: RLScenario, machines: RLMachines, beside: Num | Generation) -> Judging | None:
    """Verdicts of a judge on a step's rollouts, beside their generation; of a run with a lag beside its training."""
    if scenario.judge is None:
        return None
    given, replicas = scenario.transcripts, scenario.judge_replicas
    asked = (scenario.judge, given, machines.generation, replicas)
    if not isinstance(beside, Generation):
        return judging(*asked, beside)
    rounds = scenario.algorithm.sampling_rounds
    each, wall_s = replace(given, rollouts=given.rollouts / rounds), beside.wall_s / rounds
    if scenario.algorithm.keeps_partial:
        ends = None
    else:
        under_way = beside.n_places * np.maximum(scenario.n_replicas, 1.0)
        queued = np.clip(1 - under_way / (each.rollouts * scenario.algorithm.started_ratio), 0.0, 1.0)
        ends = Ends(scenario.written, wall_s, queued, each.rollouts)
    found = judging(scenario.judge, each, machines.generation, replicas, wall_s, ends)
    return replace(found, all_s=rounds * found.all_s)


def _generation(
    scenario: RLScenario, made_of: tuple[Machine, RLFactors], beside_s: tuple[Num, Num, Num]
) -> tuple[Generation, Num]:
    """The rollouts of one step, and the lag that generating them so needs.

    Under a lag of ``k`` a batch must be there ``k + 1`` steps after its rollouts began, so that none is older:
    ``(k + 1) T >= longest rollout + last verdict + training``.
    """
    algorithm, split = scenario.algorithm, scenario.split
    turns = replace(scenario.sampling.turns, is_spread=not scenario.breaks_off)
    question = (scenario.engine, replace(scenario.sampling, lengths=scenario.written, turns=turns))
    rollouts, replicas = algorithm.rollouts * algorithm.sampling_rounds, scenario.working_replicas
    started = rollouts * algorithm.started_ratio
    if not split.max_lag:
        if algorithm.keeps_partial:
            each = (algorithm.rollouts, started / algorithm.sampling_rounds, replicas)
            return carried_on(*question, each, made_of).times(algorithm.sampling_rounds), 0.0 * replicas
        together = generate(*question, (started / algorithm.sampling_rounds, replicas), made_of)
        return together.times(algorithm.sampling_rounds), 0.0 * replicas
    # in flight the whole lag is used: a shorter one is faster only where caches do not fit, and seldom
    shorter = () if split.is_in_flight else (one for one in _LAGS if one < split.max_lag)
    lags = sorted({*shorter, split.max_lag})
    made = [_lagged(split.is_in_flight, question, (rollouts, used, replicas), made_of, beside_s) for used in lags]
    best, lag = made[0], lags[0] + 0.0 * replicas
    for used, other in zip(lags[1:], made[1:], strict=True):
        lag = np.where(other.wall_s < best.wall_s, float(used), lag)
        best = sooner(best, other)
    return best, lag


def _lagged(
    is_in_flight: bool,
    question: tuple[ServingScenario, Sampling],
    load: tuple[Num, int, Num],
    made_of: tuple[Machine, RLFactors],
    beside_s: tuple[Num, Num, Num],
) -> Generation:
    """A batch under a lag that is used: with new weights in flight, or drained before them.

    Where generation drains, what begins between two versions does so together, and its first batch is trained on.
    Where fewer episodes at once, whose caches fit, end sooner, the other environments stay unused.
    """
    engine, sampling = question
    rollouts, used, replicas = load
    if is_in_flight:
        made = in_order(*question, load, made_of, beside_s)
        if not sampling.turns.has_calls:
            return made
        held = held_rollouts(engine, sampling, made_of[0])[1] * replicas
        fitting = np.maximum(np.minimum(sampling.turns.environments, held), replicas)
        if np.all(fitting >= np.minimum(sampling.turns.environments, (used + 1) * rollouts)):
            return made
        fewer = replace(sampling, turns=replace(sampling.turns, environments=fitting))
        return sooner(made, in_order(engine, fewer, load, made_of, beside_s))
    drained = generate(*question, ((used + 1) * rollouts, replicas), made_of).times(1 / (used + 1))
    return replace(drained, wall_s=drained.wall_s + beside_s[0] / (used + 1))


def once_per_step_s(scenario: RLScenario, machines: RLMachines) -> tuple[Num, Num]:
    """Exposed time to hand over weights, and of what is done once per step.

    Parameters
    ----------
    scenario : RLScenario
        Of the run.
    machines : RLMachines
        GPUs of both sides and what RL adds.

    Returns
    -------
    tuple of float or ndarray
        Both; under a lag a share of them is hidden beside other work [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.rl import RLFactors
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> from computeledger.workloads.rl.scenario import Algorithm, Split
    >>> from computeledger.workloads.rl.training import Trainer
    >>> from computeledger.workloads.serving.estimate import ServingScenario
    >>> one = Machine(load_system("h100-nvl8"))
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> run = RLScenario(engine, Sampling(lengths_of_mean(1e3, 3e3), 2e2), Algorithm(64, 16), Trainer(Layout()),
    ...                  Split(8, 8))
    >>> once_per_step_s(run, RLMachines(one, one, RLFactors(rl_fixed_s=5.0, rl_generation_fixed_s=2.0)))[1]
    7.0
    """
    factors = machines.factors
    shown = 1 - factors.rl_hidden_sync_fraction if scenario.split.max_lag else 1.0
    once_s = 0.0 if scenario.is_one_program else factors.rl_fixed_s + factors.rl_generation_fixed_s
    return shown * weight_sync_s(scenario, machines), shown * once_s


def weight_sync_s(scenario: RLScenario, machines: RLMachines) -> Num:
    """Time one weight synchronisation, hidden or not: by its mechanism, and never below the network time.

    Parameters
    ----------
    scenario : RLScenario
        Of the run.
    machines : RLMachines
        GPUs of both sides and what RL adds.

    Returns
    -------
    float or ndarray
        Generation paused throughout, as published whole steps have it [s].
    """
    engine, split = scenario.engine, scenario.split
    own = sent_bytes_per_gpu(engine.model, engine.layout, engine.precision)
    wire_s = 0.0 if split.is_colocated else own / machines.generation.scale_out_bytes_per_s
    system, sharded = machines.generation.system, scenario.trainer.is_sharded
    sides = SyncSides(engine.model, engine.precision, engine.layout, split.n_generation, split.n_training, system,
                      split.is_colocated, is_sharded=sharded, training=scenario.trainer.layout,
                      lora=scenario.lora)  # fmt: skip
    mechanism = sync_mechanism(scenario.weight_sync, split.is_colocated)
    return np.maximum(machines.factors.rl_sync_ratio * sync_s(sides, mechanism), wire_s)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Wall times of a step, before the ratio of its class."""

    made: Generation
    training: Training
    late_s: Num
    sync_s: Num
    fixed_s: Num
    step_s: Num
    verdicts: Judging | None = None


def _phases(scenario: RLScenario, parts: _Parts) -> dict[str, Num]:
    """Split GPUs times step by phase; what is left of a side's time is waiting."""
    split, training = scenario.split, parts.training
    generating = parts.made.busy_s * scenario.working_replicas * scenario.engine.layout.n_gpus
    spare_generation, spare_training = scenario.spare_gpus
    n_training = split.n_training - spare_training
    phases: dict[str, Num] = {
        "generation": generating,
        **{name: one_s * n_training for name, one_s in training.scoring_s.items()},
        "log-probs": training.logprob_s * n_training,
        "update": training.update_s * n_training,
        "weight sync": parts.sync_s * split.n_gpus,
        "once per step": parts.fixed_s * split.n_gpus,
    }
    in_turn_s: Num = 0.0
    if scenario.judge is not None and parts.verdicts is not None:
        one, at_work_s = scenario.judge, np.minimum(parts.verdicts.all_s, parts.step_s)
        phases["judge"] = at_work_s * parts.verdicts.replicas * one.engine.layout.n_gpus
        if one.is_apart:
            phases["judge waiting"] = parts.step_s * one.own_gpus - phases["judge"]
        else:
            in_turn_s = phases["judge"]
    pace_s = parts.step_s - parts.sync_s - parts.fixed_s
    generates_s, trains_s = (parts.made.wall_s, training.wall_s) if split.is_colocated else (pace_s, pace_s)
    spare = _times(spare_generation, generates_s) + _times(spare_training, trains_s)
    if split.is_colocated:
        held = split.n_generation - spare_generation
        phases["waiting for the longest rollouts"] = parts.made.wall_s * held - generating
        phases["waiting for verifiers"] = parts.late_s * split.n_gpus - in_turn_s
    else:
        phases["generators waiting"] = pace_s * (split.n_generation - spare_generation) - generating
        phases["generators waiting"] = phases["generators waiting"] - in_turn_s
        phases["trainer waiting for rollouts"] = _left_s(pace_s, training.wall_s) * n_training
    phases[OUTSIDE] = spare
    return phases


def _left_s(whole_s: Num, part_s: Num) -> Num:
    """What a part leaves of a time; what rounding alone leaves is nothing."""
    return np.where(np.asarray(part_s) < (1 - _ROUNDING) * whole_s, whole_s - part_s, 0.0)


def _times(n_gpus: Num, spent_s: Num) -> Num:
    """GPU-time of some GPUs; none of them spend nothing, however long it takes."""
    return np.where(np.asarray(n_gpus) > 0, n_gpus * np.where(np.isfinite(spent_s), spent_s, 0.0), 0.0)
