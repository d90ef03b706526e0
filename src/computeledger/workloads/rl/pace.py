"""How fast a replica's rollouts go on: the decode step as an RL framework runs it, and waits for tools between."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.roofline import Machine, bound, total_s
from computeledger.physics.serving.operations import CHUNK_TOKENS, Step, forward, prefill
from computeledger.workloads.rl.lengths import agreed
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario, largest_batch

#: Rounds in which those that decode and the step that they take settle.
_ROUNDS = 3
#: Rollouts that are as good as none.
_FEW = 1e-9


def framework_machine(machine: Machine, factors: RLFactors) -> Machine:
    """One GPU of the generators as an RL framework drives it: slower launches, a slower host and a slower step.

    Parameters
    ----------
    machine : Machine
        As :func:`computeledger.workloads.rl.search.rl_machine` gives it.
    factors : RLFactors
        What RL adds.

    Returns
    -------
    Machine
        With the framework's ratios in its efficiency, in place of that of a tuned server.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.calibration.efficiency import Efficiency
    >>> tuned = Machine(load_system("h100-nvl8"), Efficiency(host_step_s=1e-3))
    >>> driven = framework_machine(tuned, RLFactors(rl_launch_ratio=2.0, rl_decode_ratio=1.5)).efficiency
    >>> driven.host_step_s, driven.floor_ratio, driven.serving_ratio
    (0.002, 2.0, 1.5)
    """
    eff, launch = machine.efficiency, factors.rl_launch_ratio
    if eff is IDEAL:
        return machine
    slower = replace(
        eff,
        floor_ratio=launch * eff.floor_ratio,
        host_step_s=launch * eff.host_step_s,
        host_sequence_s=launch * eff.host_sequence_s,
        serving_ratio=factors.rl_decode_ratio,
        step_ratio=1.0,
    )
    return replace(machine, efficiency=slower)


def decode_step_s(engine: ServingScenario, live: Num, context_tokens: Num, made_of: tuple[Machine, RLFactors]) -> Num:
    """Time of one decode step of a generation engine, per token of a rollout.

    An RL framework's engine launches and schedules more slowly than a tuned server: that part, and the step as a
    whole, carry factors of their own.

    Parameters
    ----------
    engine : ServingScenario
        Model, layout, precision, speculative decoding; its lengths and batch are set aside.
    live : float or ndarray
        Rollouts decoding on the replica [-].
    context_tokens : float or ndarray
        Of each [token].
    made_of : tuple of Machine and RLFactors
        One GPU of the generators, and what RL adds.

    Returns
    -------
    float or ndarray
        Never below the physical limit [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.rl import IDEAL_RL
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 1.0)
    >>> bool(4e-3 < decode_step_s(engine, 1.0, 1.0, (Machine(load_system("h100-nvl8")), IDEAL_RL)) < 6e-3)
    True
    """
    machine = framework_machine(*made_of)
    ranks = engine.layout.dp * engine.layout.pp
    step = Step(np.maximum(live, ranks), context_tokens, 1.0 + engine.draft_tokens)
    question = (engine.model, step, engine.layout, engine.precision)
    time_s = total_s(forward(*question, machine))
    if machine.efficiency is not IDEAL:
        limit_s = total_s(forward(*question, replace(machine, efficiency=IDEAL)))
        time_s = np.maximum(machine.efficiency.serving_ratio * time_s, limit_s)
    time_s = np.maximum(time_s, made_of[1].rl_decode_layer_s * engine.model.n_layers / engine.layout.pp)
    return time_s * (1 + engine.draft_tokens / engine.model.n_layers) / engine.tokens_per_step


def decode_bound(engine: ServingScenario, sampling: Sampling, live: Num, machine: Machine) -> NDArray[np.str_]:
    """Name what binds a decode step at the live batch.

    Parameters
    ----------
    engine : ServingScenario
        Of one replica.
    sampling : Sampling
        Lengths and prompts.
    live : float or ndarray
        Rollouts decoding on a replica [-].
    machine : Machine
        One GPU of the generators.

    Returns
    -------
    ndarray of str
        ``compute``, ``memory``, ``network`` or ``overhead``.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import exact_lengths
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> str(decode_bound(engine, Sampling(exact_lengths(2000.0), 100.0), 8.0, Machine(load_system("h100-nvl8"))))
    'memory'
    """
    ranks = engine.layout.dp * engine.layout.pp
    step = Step(np.maximum(live, ranks), sampling.mean_context_tokens, 1.0 + engine.draft_tokens)
    return bound(forward(engine.model, step, engine.layout, engine.precision, machine))


def read_s(engine: ServingScenario, tokens: Num, before: Num, machine: Machine) -> Num:
    """Replica time to read tokens behind others that are in the cache, many sequences sharing a pass."""
    ranks = engine.layout.dp * engine.layout.pp
    packed = np.maximum(CHUNK_TOKENS / tokens, 1.0)
    step = Step(ranks * packed, before, tokens, decode=False)
    each: Num = total_s(prefill(engine.model, step, engine.layout, engine.precision, machine)) / packed / ranks
    return each


def held_rollouts(engine: ServingScenario, sampling: Sampling, machine: Machine) -> tuple[Num, Num]:
    """Rollouts whose caches a replica holds: of the longest context, and of the mean one of those under way."""
    lengths, growth = sampling.lengths, sampling.turns.growth
    held = replace(engine, cached_tokens=0.0, input_tokens=sampling.prompt_tokens)
    one = largest_batch(replace(held, output_tokens=lengths.longest_held_tokens * growth), machine)
    return one, largest_batch(replace(held, output_tokens=lengths.mean_held_tokens * growth), machine)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast rollouts go on, some of them waiting for tools: by position, and in a full house last.

    ``token_s`` is what a token of a rollout takes, its share of waiting included; ``busy_s`` the part of it in which
    the replica works, ``read_s`` that in which it reads what was observed.
    """

    token_s: NDArray[np.float64]
    busy_s: NDArray[np.float64]
    decoding: NDArray[np.float64]
    read_s: NDArray[np.float64]
    reused: NDArray[np.float64]


def columns(one: Pace) -> tuple[NDArray[np.float64], ...]:
    """Its arrays in order, all of one shape."""
    names = [getattr(one, each.name) for each in fields(Pace)]
    return tuple(np.broadcast_arrays(*names))


def pace_of(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num, Num], made_of: tuple[Machine, RLFactors]
) -> Pace:
    """The pace of so many rollouts under way at a context, of which at most so many decode at once.

    With a wait of ``w`` per token and a step of ``t`` for the ``b`` that decode, ``b (t + w) = n t``.
    """
    under_way, context, most = load
    turns = sampling.turns
    if not turns.has_calls:
        plain_s = np.asarray(decode_step_s(engine, under_way, context, made_of))
        return Pace(plain_s, plain_s, np.asarray(under_way), np.zeros_like(plain_s), np.ones_like(plain_s))
    most = np.minimum(np.maximum(most, 1.0), under_way)
    seen, again = reading_s(engine, sampling, context, made_of[0])
    held = held_rollouts(engine, sampling, made_of[0])[1]
    held = held * sampling.mean_context_tokens / np.maximum(context, 1.0)
    decoding, step_s, reused = most, decode_step_s(engine, most, context, made_of), np.ones(1)
    for _ in range(_ROUNDS):
        waiting = np.maximum(under_way - decoding, _FEW)
        reused = np.asarray(turns.reused_fraction((held - decoding) / waiting))
        read_s = turns.calls_per_token * (seen + (1 - reused) * again)
        own_s = step_s + decoding * read_s
        decoding = np.minimum(under_way * own_s / (own_s + turns.others_s(own_s)), most)
        step_s = decode_step_s(engine, np.maximum(decoding, 1.0), context, made_of)
    own_s = step_s + decoding * read_s
    token_s = np.maximum(own_s + turns.others_s(own_s), under_way * own_s / np.maximum(decoding, np.finfo(float).tiny))
    # the replica stands still where all of its rollouts wait at the same time
    idle = np.maximum(1 - own_s / token_s, 0.0) ** under_way
    return Pace(token_s, (1 - idle) * token_s, decoding, (1 - idle) * decoding * read_s, reused)


def reading_s(engine: ServingScenario, sampling: Sampling, context: Num, machine: Machine) -> tuple[Num, Num]:
    """Replica time to read the answer to a call behind its context, and to read that context again."""
    observed = np.asarray(sampling.turns.observed_tokens, float)
    seen = np.where(observed > 0, read_s(engine, np.maximum(observed, 1.0), context, machine), 0.0)
    return seen, read_s(engine, np.maximum(context, 1.0), 0.0, machine)


def under_way_at_most(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num, Num], made_of: tuple[Machine, RLFactors]
) -> Num:
    """Rollouts that a replica has under way while a queue is left: those that fill its places, inside the limit."""
    share, room, replicas = load
    turns, places_ = sampling.turns, np.maximum(room, 1.0)
    if turns.has_calls:
        full = np.clip(share, 1.0, places_)
        step_s = decode_step_s(engine, full, sampling.mean_context_tokens, made_of)
        seen, _ = reading_s(engine, sampling, sampling.mean_context_tokens, made_of[0])
        own_s = step_s + full * turns.calls_per_token * seen
        places_ = places_ * (1 + turns.others_s(own_s) / own_s)
    places_ = np.minimum(places_, np.maximum(turns.environments / replicas, 1.0))
    return agreed(np.clip(share, 1.0, places_))
