"""A run written as RL frameworks take it: what is refused, what is said beside it, and the command."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from computeledger.arrays import median
from computeledger.errors import InputError, nearest
from computeledger.units import format_count
from computeledger.workloads.launches import Launch, fill, load_templates, refused
from computeledger.workloads.questions.rl import EMITTED
from computeledger.workloads.rl.launch_values import (
    USUAL_HOST_GPUS,
    Emitted,
    host_gpus,
    is_fsdp,
    ranks,
    values,
    whole,
)
from computeledger.workloads.rl.scenario import RLScenario

#: Where the templates of RL frameworks lie.
PACKAGE = "computeledger.workloads.rl"
#: How far a number may lie from a whole one and be it.
_ROUNDING = 1e-6


def rl_launch(framework: str, run: Emitted) -> Launch:
    """Write a run as a framework takes it.

    Raises
    ------
    InputError
        Where the framework would not start, or start another run.

    Examples
    --------
    >>> from computeledger.questions.answers.rl.answer import rl
    >>> answer = rl(model="llama-3.1-8b", system="h100-nvl8", gpus=16, rollout_tokens="4K", emit="verl", samples=16)
    >>> dict(answer.launch.arguments)["actor_rollout_ref.rollout.n"]
    '16'
    """
    if framework not in EMITTED:
        raise InputError(f"emit {framework!r}: {nearest(framework, EMITTED)}")
    if run.scenario.text is not None:
        raise InputError(f"--emit {framework}: it has no RL on text: leave --continuation-tokens out")
    template = load_templates(PACKAGE)[framework]
    said = values(run, is_fsdp(run, template.fsdp))
    for problem in (*_uncounted(run.scenario), *_undivided(run.scenario), *_uneven(framework, run),
                    *refused(template, said)):  # fmt: skip
        raise InputError(f"--emit {framework}: {problem}")
    beside = [f"cannot be expressed here: {one}" for one in _beyond(run.scenario)]
    return fill(framework, template, said, (*_notes(run), *beside))


def _around(number: float, unit: int) -> str:
    """The multiples of a unit next to a number, in words."""
    below, above = int(number // unit) * unit, -int(-number // unit) * unit
    return " or ".join(str(one) for one in dict.fromkeys((below, above)) if one)


def _uncounted(one: RLScenario) -> Iterator[str]:
    """Counts that are not whole, which no framework takes."""
    algorithm = one.algorithm
    counts = (
        (algorithm.prompts_per_step, "prompts-per-step"),
        (algorithm.group_size, "group-size"),
        (algorithm.optimizer_steps, "optimizer-steps"),
        (algorithm.updates_per_batch, "updates-per-batch"),
    )
    for value, name in counts:
        number = float(median(value))
        if abs(number - round(number)) > _ROUNDING or round(number) < 1:
            yield f"--{name} {number:g}: it takes whole numbers; nearest: {max(round(number), 1)}"


def _undivided(one: RLScenario) -> Iterator[str]:
    """Layouts that leave GPUs of their side over."""
    split, engine, trainer = one.split, one.engine.layout, one.trainer.layout
    unit = whole(trainer.tp * trainer.pp * trainer.cp)
    sides = (
        ("generate", whole(split.n_generation), engine, whole(engine.n_gpus), "generation"),
        ("train", whole(split.n_training), trainer, unit, "training"),
    )
    for verb, held, layout, each, side in sides:
        used = held // each * each if verb == "generate" else whole(layout.n_gpus)
        if used == held:
            continue
        if verb == "train" and held % each == 0:
            near = f"--training-layout {replace(layout, dp=held // each)}"
        elif split.is_colocated:
            near = f"--gpus {_around(held, math.lcm(unit, whole(engine.n_gpus)))}, or another --{_layout_option(side)}"
        else:
            near = f"--{side}-gpus {_around(held, each)}, or another --{_layout_option(side)}"
        yield f"of {format_count(held, 'GPU')} that {verb}, layout {layout} takes {used}; nearest: {near}"
    if whole(one.experts_rest):
        ep, n_ranks = whole(trainer.ep), whole(trainer.tp * trainer.cp * trainer.dp)
        fit = replace(trainer, ep=math.gcd(ep, n_ranks))
        yield f"experts over {ep} ranks do not divide the {n_ranks} of {trainer}; nearest: --training-layout {fit}"


def _layout_option(side: str) -> str:
    return "training-layout" if side == "training" else "layout"


def _uneven(framework: str, run: Emitted) -> Iterator[str]:
    """Batches that optimizer steps or the trainer's ranks do not divide."""
    one = run.scenario.algorithm
    prompts, group, updates = (whole(part) for part in (one.prompts_per_step, one.group_size, one.optimizer_steps))
    over = whole(run.scenario.split.n_training) if framework == "trl" else ranks(run)
    unit = updates * over // math.gcd(over, group)
    if prompts % updates:
        yield (
            f"{prompts} prompts do not divide into {updates} optimizer steps; nearest: --prompts-per-step "
            f"{_around(prompts, unit)}"
        )
    elif prompts * group // updates % over:
        yield (
            f"{format_count(prompts * group // updates, 'rollout')} of an optimizer step do not divide over {over} "
            f"data-parallel ranks; nearest: --prompts-per-step {_around(prompts, unit)}"
        )


def _notes(run: Emitted) -> Iterator[str]:
    """What a reader has to know before he starts it."""
    one = run.scenario
    engine, trainer, kept = one.engine.layout, one.trainer.layout, "zero-3" if one.trainer.is_sharded else "zero-1"
    replicas = f"{whole(one.n_replicas)} x {engine}"
    yield f"planned: {run.step_s:.3g} s a step, generation on {replicas}, training on {trainer} ({kept})"
    if run.n_scale_up > USUAL_HOST_GPUS or run.n_scale_up == 1:
        yield f"hosts of {host_gpus(run.n_scale_up)} GPUs are assumed"
    if run.training_system:
        yield f"the plan trains on {run.training_system}: which hosts train is yours to arrange"
    if run.has_turns and run.turn_limit is None:
        yield f"no --turn-limit is stated: {run.most_turns} turns are those of the longest rollout"
    if (rounds := median(run.scenario.algorithm.sampling_rounds)) > 1:
        yield f"the plan samples a batch {rounds:g} times; how often it is sampled is up to the data"


def _beyond(one: RLScenario) -> Iterator[str]:
    """What no framework's keys express here."""
    algorithm = one.algorithm
    kept, drafted = median(algorithm.kept_fraction), median(one.engine.draft_tokens)
    if kept < 1:
        yield f"{kept:.3g} of the rollouts trained on: which are left out is a filter of yours"
    failed = median(one.sampling.turns.failed_fraction)
    named = (
        (failed, f"{failed:.3g} of the attempts failing and begun again: which fail is up to your environments"),
        (algorithm.critic_ratio, "a critic"),
        (algorithm.agents - 1.0, f"episodes of {algorithm.agents:g} agents: the game is an environment of yours"),
        (algorithm.reward_ratio, "a reward model on the trainer"),
        (
            1.0 if one.judge is not None else 0.0,
            "the judge: its server, its prompt and how a verdict is read are yours",
        ),
        (one.engine.draft_tokens, f"speculative decoding of {drafted:g} tokens: its draft model is yours to name"),
    )
    yield from (words for value, words in named if median(value))
