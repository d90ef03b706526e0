"""Reinforcement learning on rollouts, in closed form: generation, verification, log-probs, update, weight sync.

A synchronous step generates a batch of rollouts, scores them, takes the policy's log-probs and updates it. All its
rollouts start together, so the live batch per replica is bounded by rollouts over replicas, and its generation ends
with the longest of them, decoding almost alone. Asynchronous training starts new rollouts as old ones end and hides
that tail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError
from computeledger.physics.memory import weights_bytes_per_gpu
from computeledger.physics.parallelism import Layout, stack_layouts
from computeledger.physics.roofline import Machine
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.pretraining import PretrainingResult
from computeledger.workloads.serving import ServingResult, ServingScenario, estimate_serving, largest_batch

MODES = ("synchronous", "asynchronous")


@dataclass(frozen=True, slots=True)
class RLScenario:
    """An RL run on rollouts.

    Attributes
    ----------
    rollout_tokens, prompt_tokens : float or ndarray
        Mean length of a rollout, and of its prompt [token].
    longest_over_mean : float or ndarray
        Longest rollout of a step over the mean [-].
    rollouts_per_step : float or ndarray
        Prompts times group size [-].
    kept_fraction : float or ndarray
        Share of rollouts that the update trains on [-].
    logprob_passes : float or ndarray
        Forward passes over every rollout beside the update: old policy, reference [-].
    updates_per_batch : float or ndarray
        Passes of the optimiser over the kept rollouts [-].
    n_gpus : float or ndarray
        GPUs of the run [-].
    verifier_cpu_s, verifier_cores : float or ndarray
        CPU time to verify one rollout, and cores at hand [s], [-].
    steps_in_flight : float or ndarray
        Steps' worth of rollouts that decode at once when asynchronous [-].
    mode : str
        ``synchronous`` (phases one after another on all GPUs) or ``asynchronous`` (generation, verification and update
        overlap; only GPU-time adds up).
    """

    rollout_tokens: Num
    prompt_tokens: Num
    longest_over_mean: Num
    rollouts_per_step: Num
    n_gpus: Num
    kept_fraction: Num = 1.0
    logprob_passes: Num = 1.0
    updates_per_batch: Num = 1.0
    verifier_cpu_s: Num = 0.0
    verifier_cores: Num = 1.0
    steps_in_flight: Num = 1.0
    mode: str = "synchronous"


@dataclass(frozen=True, slots=True)
class RLResult:
    """What an RL step takes, in GPU-time per phase.

    Attributes
    ----------
    scenario : RLScenario
        What was asked.
    phases_gpu_s : dict of str to float or ndarray
        GPU-time of one step by phase; waiting is a phase [s].
    beta_flop : float or ndarray
        FLOP per sampled token over N [-].
    beta_gpu_time : float or ndarray
        Six times the GPU-time of a sampled token over that of a pretraining token [-].
    flop_per_token : float or ndarray
        FLOP per sampled token [FLOP/token].
    """

    scenario: RLScenario
    phases_gpu_s: dict[str, Num]
    beta_flop: Num
    beta_gpu_time: Num
    flop_per_token: Num

    @property
    def sampled_tokens_per_step(self) -> Num:
        """Tokens generated in one step [token]."""
        return self.scenario.rollouts_per_step * self.scenario.rollout_tokens

    @property
    def gpu_s_per_step(self) -> Num:
        """GPU-time of one step, waiting included [s]."""
        total: Num = 0.0
        for part in self.phases_gpu_s.values():
            total = total + part
        return total

    @property
    def step_s(self) -> Num:
        """Wall time of one step [s]."""
        return self.gpu_s_per_step / self.scenario.n_gpus

    @property
    def gpu_s_per_token(self) -> Num:
        """GPU-time of one sampled token [s/token]."""
        return self.gpu_s_per_step / self.sampled_tokens_per_step


def estimate_rl(scenario: RLScenario, rollout: ServingResult, update: PretrainingResult, machine: Machine) -> RLResult:
    """Estimate an RL step from its generation and its training.

    ``beta_flop = 2 + (2 passes + 6 updates kept) (rollout + prompt) / rollout``, per sampled token;
    ``beta_gpu_time = 6 (GPU-s per sampled token) / (GPU-s per pretraining token)``.

    Parameters
    ----------
    scenario : RLScenario
        Of the run.
    rollout : ServingResult
        The generation engine at its batch.
    update : PretrainingResult
        The trainer at its layout; also the pretraining that beta compares with.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    RLResult
        With GPU-time by phase.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training import Batch
    >>> from computeledger.workloads.pretraining import PretrainingScenario, estimate_pretraining
    >>> from computeledger.workloads.serving import ServingScenario, estimate_serving
    >>> model, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    >>> rollout = estimate_serving(ServingScenario(model, Layout(), Precision(), 200.0, 1000.0, 64.0), machine)
    >>> update = estimate_pretraining(PretrainingScenario(model, Layout(dp=8), Precision(), Batch(8192, 128)), machine)
    >>> result = estimate_rl(RLScenario(1000.0, 200.0, 3.0, 2048.0, 8.0), rollout, update, machine)
    >>> float(result.beta_flop), bool(result.beta_gpu_time > 2 * result.beta_flop)
    (11.6, True)
    """
    one = scenario
    seen = one.rollout_tokens + one.prompt_tokens
    trained = one.kept_fraction * one.updates_per_batch
    beta_flop = 2 + (2 * one.logprob_passes + 6 * trained) * seen / one.rollout_tokens
    sampled = one.rollouts_per_step * one.rollout_tokens
    train_s = update.gpu_s_per_token
    busy = {
        "generation": sampled * rollout.gpu_s_per_output_token,
        "log-probs": one.rollouts_per_step * seen * one.logprob_passes * train_s / 3,
        "update": one.rollouts_per_step * seen * trained * train_s,
        "weight sync": _weight_sync_s(rollout, machine) * one.n_gpus,
    }
    waits = _waits_s(one, rollout, machine)
    phases = {**busy, **{name: wait * one.n_gpus for name, wait in waits.items()}}
    total: Num = 0.0
    for part in phases.values():
        total = total + part
    return RLResult(
        scenario=one,
        phases_gpu_s=phases,
        beta_flop=beta_flop,
        beta_gpu_time=6 * total / sampled / train_s,
        flop_per_token=beta_flop * n_params_active(rollout.scenario.model),
    )


def _weight_sync_s(rollout: ServingResult, machine: Machine) -> Num:
    """Every generation GPU receives its weights over the scale-out fabric."""
    scenario = rollout.scenario
    weights = weights_bytes_per_gpu(scenario.model, scenario.layout, scenario.precision)
    return weights / machine.scale_out_bytes_per_s


def _waits_s(one: RLScenario, rollout: ServingResult, machine: Machine) -> dict[str, Num]:
    """Wall time in which GPUs wait: for the longest rollouts, and for verifiers."""
    if one.mode == "asynchronous":
        return {"waiting for the longest rollouts": 0.0 * one.rollout_tokens, "waiting for verifiers": 0.0}
    engine = rollout.scenario
    alone = estimate_serving(replace(engine, batch=engine.layout.dp * engine.layout.pp * 1.0), machine)
    busy = one.rollouts_per_step * one.rollout_tokens * rollout.gpu_s_per_output_token / one.n_gpus
    verify = one.rollouts_per_step * one.verifier_cpu_s / one.verifier_cores
    return {
        "waiting for the longest rollouts": (one.longest_over_mean - 1) * one.rollout_tokens * alone.decode_s,
        "waiting for verifiers": np.maximum(verify - busy, 0.0),
    }


def search_rollout(
    engine: ServingScenario, layouts: list[Layout], one: RLScenario, machine: Machine
) -> tuple[Layout, float]:
    """Find the generation layout that finishes a step's rollouts soonest, and its live batch.

    Parameters
    ----------
    engine : ServingScenario
        With single numbers; its layout and batch are replaced.
    layouts : list of Layout
        To try; each uses at most the run's GPUs.
    one : RLScenario
        With single numbers.
    machine : Machine
        With single numbers as efficiency factors.

    Returns
    -------
    tuple of Layout and float
        Layout of a replica, and sequences decoding on it [-].

    Raises
    ------
    DoesNotFitError
        Where no layout holds the weights and one rollout, or the run has too few GPUs for a replica.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 200.0, 1000.0, 1.0)
    >>> one, machine = RLScenario(1000.0, 200.0, 3.0, 512.0, 8.0), Machine(load_system("h100-nvl8"))
    >>> layout, batch = search_rollout(engine, [Layout(tp=1), Layout(tp=8)], one, machine)
    >>> str(layout), batch
    ('tp8', 512.0)
    """
    small = [layout for layout in layouts if layout.n_gpus <= one.n_gpus]
    if not small:
        smallest = int(min(layout.n_gpus for layout in layouts))
        raise DoesNotFitError(
            f"{int(one.n_gpus)} GPUs hold no replica of {engine.model.id}: the smallest takes {smallest}"
        )
    stacked = stack_layouts(small)
    held = replace(engine, layout=stacked, input_tokens=one.prompt_tokens, output_tokens=one.rollout_tokens)
    room = largest_batch(held, machine)
    replicas = np.floor(one.n_gpus / stacked.n_gpus)
    together = one.rollouts_per_step * (one.steps_in_flight if one.mode == "asynchronous" else 1.0)
    batch = np.clip(together / replicas, 1.0, np.maximum(room, 1.0))
    result = estimate_serving(replace(engine, layout=stacked, batch=batch), machine)
    wall_s = one.rollouts_per_step / (batch * replicas) * one.rollout_tokens * result.tpot_s
    wall_s = np.where(room >= 1, wall_s, np.inf)
    best = int(np.argmin(wall_s))
    if not np.isfinite(wall_s[best, 0]):
        raise DoesNotFitError(
            f"{engine.model.id} in {engine.precision.name}: no layout of at most {int(one.n_gpus)} x "
            f"{machine.system.accelerator.id} holds its weights and one rollout"
        )
    return small[best], float(batch[best, 0])
