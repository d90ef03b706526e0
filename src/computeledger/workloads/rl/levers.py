"""What would bring an RL run's GPU-time down: one change at a time, each with its effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import median
from computeledger.physics.calibration.weight_sync import sync_mechanisms
from computeledger.physics.roofline import parse_precision
from computeledger.workloads.rl.estimate import RLResult, estimate_rl
from computeledger.workloads.rl.scenario import RLMachines, RLScenario, Split
from computeledger.workloads.rl.search import generation_layouts, search_generation, with_share
from computeledger.workloads.rl.weight_sync import sync_mechanism

#: A draft model of the engine's own, as an RL run would use it (assumption).
DRAFT_TOKENS, TOKENS_PER_STEP = 3.0, 2.2
#: GPUs of a larger domain.
WIDER_GPUS = 72.0


@dataclass(frozen=True, slots=True)
class Lever:
    """One change to a run.

    Attributes
    ----------
    name : str
        What is changed.
    why : str
        What it does.
    step_s : float
        Of a step with it [s].
    gpu_time_ratio : float
        GPU-time of a sampled token with it over without, which is also the ratio of both betas [-].
    """

    name: str
    why: str
    step_s: float
    gpu_time_ratio: float


def levers(scenario: RLScenario, machines: RLMachines) -> list[Lever]:
    """Try each change alone.

    Parameters
    ----------
    scenario : RLScenario
        With single numbers.
    machines : RLMachines
        With single numbers as factors.

    Returns
    -------
    list of Lever
        From the most helpful; a change that the run has already is left out.
    """
    base = estimate_rl(scenario, machines)
    moe = scenario.engine.model.is_moe
    tried = [] if scenario.judge is not None and not scenario.judge.is_apart else [_asynchronous(scenario)]
    engine = scenario.engine
    if engine.precision.name == "bf16":
        narrow = replace(engine, precision=parse_precision("fp8", moe, engine.precision.kv))
        tried.append(("fp8 rollout", "half the weights to read", replace(scenario, engine=narrow)))
    tried.append(_twice_the_rollouts(scenario))
    if not scenario.engine.draft_tokens:
        drafted = replace(engine, draft_tokens=DRAFT_TOKENS, tokens_per_step=TOKENS_PER_STEP)
        why = f"{DRAFT_TOKENS:.0f} tokens drafted, {TOKENS_PER_STEP:.1f} kept a step (assumed)"
        tried.append(("speculative decoding", why, replace(scenario, engine=drafted)))
    found = [_lever(name, why, estimate_rl(changed, machines), base) for name, why, changed in tried]
    best = _anew(scenario, machines)
    if best.engine.layout != scenario.engine.layout:
        why = f"generation on {best.engine.layout} in place of {scenario.engine.layout}"
        found.append(_lever("another layout", why, estimate_rl(best, machines), base))
    if machines.generation.system.n_gpus_scale_up.value < WIDER_GPUS:
        found.append(_wider(best, machines))
    return sorted(found, key=lambda one: one.gpu_time_ratio)


#: Levers that change the work of a step, or ask for other hardware: they do not make this step shorter.
_OTHER_STEPS = ("more concurrency", "larger scale-up domain")
#: A change that shortens a step by less is left out.
LEAST_GAIN = 0.005
#: Share of GPUs that is added to a side, to see what it is worth.
_MORE_GPUS = 0.25


def step_levers(scenario: RLScenario, machines: RLMachines) -> list[Lever]:
    """Try what makes a step shorter: more GPUs for a side, other weight sync, more lag, and what :func:`levers` tries.

    Parameters
    ----------
    scenario : RLScenario
        With single numbers.
    machines : RLMachines
        With single numbers as factors.

    Returns
    -------
    list of Lever
        From the shortest step; changes without an effect are left out.
    """
    base = estimate_rl(scenario, machines)
    tried = [*_more_gpus(scenario), *_other_syncs(scenario), *_smaller_changes(scenario)]
    found = [one for one in levers(scenario, machines) if one.name not in _OTHER_STEPS]
    for name, why, changed in tried:
        result = estimate_rl(changed, machines)
        if np.all(result.fits):
            found.append(_lever(name, why, result, base))
    least_s = (1 - LEAST_GAIN) * median(base.step_s)
    best: dict[str, Lever] = {}
    for one in sorted(found, key=lambda one: one.step_s):
        if one.step_s < least_s:
            best.setdefault(one.name, one)
    return list(best.values())


def _more_gpus(scenario: RLScenario) -> Iterator[tuple[str, str, RLScenario]]:
    """A quarter more GPUs for generators, for the trainer, or for both where they share them, in whole replicas."""
    split, cut = scenario.split, scenario.trainer.layout
    replica, rank = float(scenario.engine.layout.n_gpus), float(cut.tp * cut.pp * cut.cp)
    sides = {"GPUs": (1, 1)} if split.is_colocated else {"GPUs that generate": (1, 0), "GPUs that train": (0, 1)}
    unit = float(np.lcm(int(replica), int(rank))) if split.is_colocated else 0.0
    for name, (generates, trains) in sides.items():
        own = unit or (replica if generates else rank)
        now = float(split.n_generation if generates else split.n_training)
        added = own * max(round(_MORE_GPUS * now / own), 1)
        grown = replace(
            split, n_generation=split.n_generation + generates * added, n_training=split.n_training + trains * added
        )
        trainer = with_share(scenario.trainer, grown.n_training)
        yield f"more {name}", f"{added:.0f} more", replace(scenario, split=grown, trainer=trainer)
    if (judge := scenario.judge) is not None and judge.n_gpus is not None:
        own = float(judge.engine.layout.n_gpus)
        added = own * max(round(_MORE_GPUS * median(judge.n_gpus) / own), 1)
        yield (
            "more GPUs that judge",
            f"{added:.0f} more",
            replace(scenario, judge=replace(judge, n_gpus=judge.n_gpus + added)),
        )


def _other_syncs(scenario: RLScenario) -> Iterator[tuple[str, str, RLScenario]]:
    """Every mechanism that hands over weights in this placement."""
    is_colocated = scenario.split.is_colocated
    now = sync_mechanism(scenario.weight_sync, is_colocated)
    for one in sync_mechanisms().values():
        shares_program = not one.fixed and not one.rate
        if one.id != now.id and not shares_program and one.needs != ("apart" if is_colocated else "colocated"):
            yield "other weight sync", f"{one.id} in place of {now.id}", replace(scenario, weight_sync=one.id)


def _smaller_changes(scenario: RLScenario) -> Iterator[tuple[str, str, RLScenario]]:
    """More rollouts decoded at once, fewer optimizer steps, a version more of lag."""
    engine, algorithm, split = scenario.engine, scenario.algorithm, scenario.split
    twice = 2 * median(engine.batch)
    yield (
        "larger generation batch",
        f"{twice:.0f} decoded at once",
        replace(scenario, engine=replace(engine, batch=twice)),
    )
    if median(algorithm.optimizer_steps) > 1:
        fewer = replace(algorithm, optimizer_steps=1.0)
        yield "fewer optimizer steps", "one in a pass", replace(scenario, algorithm=fewer)
    if split.max_lag:
        later = replace(split, max_lag=split.max_lag + 1, is_in_flight=True)
        yield "more lag", f"{split.max_lag + 1} versions behind", replace(scenario, split=later)


def _lever(name: str, why: str, changed: RLResult, base: RLResult) -> Lever:
    ratio = median(changed.gpu_s_per_token) / median(base.gpu_s_per_token)
    return Lever(name, why, median(changed.step_s), ratio)


def _anew(scenario: RLScenario, machines: RLMachines) -> RLScenario:
    """The run with its generation layout searched anew."""
    longest = float(np.max(scenario.longest_sequence_tokens - scenario.sampling.prompt_tokens))
    held = replace(scenario.engine, output_tokens=longest, batch=1.0)
    layouts = [scenario.engine.layout, *generation_layouts(scenario, held, machines.generation)]
    return replace(scenario, engine=scenario.on(search_generation(scenario, layouts, machines)))


def _wider(best: RLScenario, machines: RLMachines) -> Lever:
    """The same chips, all links of a larger domain as fast as inside the present one, against its best layout."""
    system = machines.generation.system
    domain = replace(system, n_gpus_scale_up=replace(system.n_gpus_scale_up, value=WIDER_GPUS))
    moved = replace(
        machines,
        generation=replace(machines.generation, system=domain),
        training=replace(machines.training, system=domain),
    )
    there = _anew(best, moved)
    why = f"the same chips in a domain of {WIDER_GPUS:.0f}: {there.engine.layout} against {best.engine.layout}"
    return _lever("larger scale-up domain", why, estimate_rl(there, moved), estimate_rl(best, machines))


def _asynchronous(scenario: RLScenario) -> tuple[str, str, RLScenario]:
    """The same GPUs, shared so that both sides keep pace, four versions of lag, weights taken in flight."""
    split, replica = scenario.split, scenario.engine.layout.n_gpus
    if not split.is_colocated:
        flowing = replace(split, max_lag=max(4, split.max_lag), is_in_flight=True)
        return "asynchrony", "lag 4, weights taken in flight", replace(scenario, split=flowing)
    half = max(float(split.n_gpus // (2 * replica)) * float(replica), float(replica))
    apart = Split(half, split.n_gpus - half, False, 4, True)
    trainer = with_share(scenario.trainer, apart.n_training)
    return (
        "asynchrony",
        "half the GPUs train, lag 4, weights taken in flight",
        replace(scenario, split=apart, trainer=trainer),
    )


def _twice_the_rollouts(scenario: RLScenario) -> tuple[str, str, RLScenario]:
    algorithm = scenario.algorithm
    more = replace(
        algorithm, prompts_per_step=2 * algorithm.prompts_per_step, optimizer_steps=2 * algorithm.optimizer_steps
    )
    return "more concurrency", "twice the prompts per step and optimizer steps", replace(scenario, algorithm=more)
