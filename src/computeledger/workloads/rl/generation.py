"""Generating a step's rollouts: replicas that decode together, and the few long rollouts that end it.

All rollouts of a step are released at once. While a queue is left, every place of a replica is taken; then the live
batch shrinks as rollouts end, and the step waits for the longest of them. The time of a decode step follows the live
batch and its contexts from position to position.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, blocks
from computeledger.bounds import AT_LEAST_ONE, check_record
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.roofline import Machine, bound, total_s
from computeledger.physics.serving.operations import CHUNK_TOKENS, Step, forward, prefill
from computeledger.workloads.rl.lengths import SURVIVAL, Lengths, agreed, single
from computeledger.workloads.serving.estimate import ServingScenario, largest_batch

#: Numbers handled at a time: what stays in a core's own cache.
_BLOCK = 32_768
#: Positions of the tail whose steps are priced: the start, every other one, the end.
_PRICED = np.array([0, *range(1, len(SURVIVAL) - 1, 2), len(SURVIVAL) - 1])


@dataclass(frozen=True, slots=True)
class Sampling:
    """What generators are asked for.

    Attributes
    ----------
    lengths : Lengths
        Of rollouts, prompts not counted [token].
    prompt_tokens : float or ndarray
        Of each rollout [token].
    group_size : float or ndarray
        Rollouts per prompt; with a shared prefix its prompt is read once per group [-].
    is_prefix_shared : bool
        Whether the engine keeps a group's prompt in its cache.
    """

    lengths: Lengths
    prompt_tokens: Num
    group_size: Num = 1.0
    is_prefix_shared: bool = True

    def __post_init__(self) -> None:
        check_record(self, group_size=AT_LEAST_ONE)


@dataclass(frozen=True, slots=True)
class Generation:
    """What generating some rollouts takes.

    Attributes
    ----------
    wall_s, busy_s : float or ndarray
        From release to the end of the longest rollout; of it, the mean over replicas with work [s].
    prefill_s : float or ndarray
        Part of ``busy_s`` that reads prompts [s].
    live : float or ndarray
        Rollouts decoding on a replica in the average decode step [-].
    n_places : float or ndarray
        Rollouts a replica decodes at once at most [-].
    tokens : float or ndarray
        Sampled [token].
    """

    wall_s: Num
    busy_s: Num
    prefill_s: Num
    live: Num
    n_places: Num
    tokens: Num

    def times(self, factor: Num) -> Generation:
        """Times and tokens of several such batches one after the other, or of a part of one.

        Parameters
        ----------
        factor : float or ndarray
            Number of batches [-].

        Returns
        -------
        Generation
            With the same live batch.

        Examples
        --------
        >>> Generation(2.0, 1.0, 0.5, 8.0, 16.0, 100.0).times(2).wall_s
        4.0
        """
        return replace(
            self,
            wall_s=factor * self.wall_s,
            busy_s=factor * self.busy_s,
            prefill_s=factor * self.prefill_s,
            tokens=factor * self.tokens,
        )


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
    context = sampling.prompt_tokens + sampling.lengths.mean_age_tokens
    step = Step(np.maximum(live, ranks), context, 1.0 + engine.draft_tokens)
    return bound(forward(engine.model, step, engine.layout, engine.precision, machine))


def _prompt_s(engine: ServingScenario, sampling: Sampling, machine: Machine) -> Num:
    """Replica time to read the prompt of one rollout, many prompts sharing a pass."""
    ranks = engine.layout.dp * engine.layout.pp
    tokens = np.maximum(sampling.prompt_tokens, 1.0)
    packed = np.maximum(CHUNK_TOKENS / tokens, 1.0)
    step = Step(ranks * packed, 0.0, tokens, decode=False)
    each: Num = total_s(prefill(engine.model, step, engine.layout, engine.precision, machine)) / packed / ranks
    return each / np.where(sampling.is_prefix_shared, sampling.group_size, 1.0)


def places(engine: ServingScenario, sampling: Sampling, machine: Machine) -> Num:
    """Rollouts that a replica can decode at once: the cache is given out as they grow.

    Room is counted at the mean length of rollouts under way, and never below one rollout of the longest length.

    Parameters
    ----------
    engine : ServingScenario
        Its batch is the engine's own limit.
    sampling : Sampling
        Lengths and prompts.
    machine : Machine
        One GPU of the generators.

    Returns
    -------
    float or ndarray
        0 where the weights and one longest rollout do not fit [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import exact_lengths
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> float(places(engine, Sampling(exact_lengths(2000.0), 100.0), machine))
    256.0
    """
    lengths = sampling.lengths
    held = replace(engine, cached_tokens=0.0, input_tokens=sampling.prompt_tokens)
    one = largest_batch(replace(held, output_tokens=lengths.longest_tokens), machine)
    mean = largest_batch(replace(held, output_tokens=lengths.mean_age_tokens), machine)
    return np.where(np.asarray(one) >= 1, np.minimum(mean, engine.batch), 0.0)


def generate(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num], made_of: tuple[Machine, RLFactors]
) -> Generation:
    """Time a batch of rollouts over some replicas.

    A replica with ``n`` rollouts and ``c`` places takes ``(n - c) mean t(c) / c`` while a queue is left, then
    ``integral P(any alive) t(live | any alive) ds`` over the positions ``s`` of the last ``c``.

    Parameters
    ----------
    engine : ServingScenario
        Of one replica; its batch is the engine's own limit.
    sampling : Sampling
        Lengths and prompts.
    load : tuple of float or ndarray
        Rollouts, and replicas that share them [-].
    made_of : tuple of Machine and RLFactors
        One GPU of the generators, and what RL adds.

    Returns
    -------
    Generation
        Endless, and without work, where not one rollout fits.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.rl import IDEAL_RL
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> made_of = Machine(load_system("h100-nvl8")), IDEAL_RL
    >>> found = generate(engine, Sampling(lengths_of_mean(1000.0, 4096.0), 150.0), (2048.0, 16.0), made_of)
    >>> bool(found.wall_s >= found.busy_s > 0)
    True
    """
    rollouts, replicas = load
    machine, factors = made_of
    lengths = sampling.lengths
    room = places(engine, sampling, machine)
    share = np.maximum(rollouts / replicas, 1.0)
    last = agreed(np.clip(share, 1.0, np.maximum(room, 1.0)))
    age = sampling.prompt_tokens + lengths.mean_age_tokens
    # one call prices the queue's full house and every other position of the tail
    any_own = lengths.any_alive(last)
    together = last * SURVIVAL[_PRICED, None] / np.maximum(any_own[_PRICED], np.finfo(float).tiny)
    context = sampling.prompt_tokens + lengths.tokens[_PRICED]
    live, contexts = _with_queue(np.maximum(together, 1.0), last), _with_queue(context, age)
    rows = max(_BLOCK // np.broadcast(live[0], contexts[0], factors.rl_decode_ratio).size, 1)
    parts = [slice(start, start + rows) for start in range(0, len(live), rows)]
    priced_s = np.concatenate([decode_step_s(engine, live[part], contexts[part], made_of) for part in parts])
    tail_s, longest_s = _tail_s(lengths, any_own, np.atleast_1d(agreed(last * replicas)), priced_s[:-1])
    queued_s = (share - last) * lengths.mean_tokens * single(priced_s[-1]) / last
    prompts_s = share * _prompt_s(engine, sampling, machine)
    steps = (share - last) * lengths.mean_tokens / last + lengths.integral(any_own)
    fits = room >= 1
    busy_s = np.where(fits, queued_s + prompts_s + tail_s, 0.0)
    wall_s = np.where(fits, queued_s + prompts_s + np.maximum(longest_s, tail_s), np.inf)
    return Generation(
        wall_s=wall_s,
        busy_s=busy_s,
        prefill_s=prompts_s,
        live=share * lengths.mean_tokens / steps,
        n_places=room,
        tokens=rollouts * lengths.mean_tokens,
    )


def _with_queue(tail: Num, queue: Num) -> NDArray[np.float64]:
    """Priced positions, and the queue's full house last."""
    shape = np.broadcast(tail, queue).shape
    return np.concatenate([np.broadcast_to(tail, shape), np.broadcast_to(queue, (1, *shape[1:]))])


def _tail_s(
    lengths: Lengths, any_own: NDArray[np.float64], rollouts: NDArray[np.float64], priced: NDArray[np.float64]
) -> tuple[Num, Num]:
    """Time until the last rollout of a replica ends, and until that of all replicas does."""
    n_samples = priced.shape[1]
    tail_s, longest_s = np.empty((2, n_samples))
    for part in blocks(n_samples, _BLOCK // len(SURVIVAL)):
        here, step_s = Lengths(_samples(lengths.tokens, part)), _between(priced[:, part])
        tail_s[part] = here.integral(_samples(any_own, part) * step_s)
        longest_s[part] = here.integral(here.any_alive(_samples(rollouts, part)) * step_s)
    return single(tail_s), single(longest_s)


def _samples(values: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
    """Some of the samples; one number that holds for all stays one."""
    return values if values.shape[-1] == 1 else values[..., part]


def _between(priced: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values at all positions: those left out lie halfway between their neighbours."""
    inner = priced[1:-1]
    out = np.empty((2 * len(inner) + 1, *priced.shape[1:]))
    out[0], out[-1] = priced[0], priced[-1]
    out[1:-1:2], out[2:-1:2] = inner, (inner[:-1] + inner[1:]) / 2
    return out


def steady(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num, Num], made_of: tuple[Machine, RLFactors]
) -> Generation:
    """Time a batch of rollouts where new ones start as old ones end: no tail is waited for.

    ``t = rollouts mean t(c) / (c replicas)``

    Parameters
    ----------
    engine : ServingScenario
        Of one replica; its batch is the engine's own limit.
    sampling : Sampling
        Lengths and prompts.
    load : tuple of float or ndarray
        Rollouts, rollouts under way at most, and replicas that share them [-].
    made_of : tuple of Machine and RLFactors
        One GPU of the generators, and what RL adds.

    Returns
    -------
    Generation
        Endless, and without work, where not one rollout fits.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.rl import IDEAL_RL
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> made_of, sampling = (Machine(load_system("h100-nvl8")), IDEAL_RL), Sampling(lengths_of_mean(1e3, 4e3), 150.0)
    >>> flowing = steady(engine, sampling, (2048.0, 2048.0, 16.0), made_of)
    >>> bool(flowing.wall_s < generate(engine, sampling, (2048.0, 16.0), made_of).wall_s)
    True
    """
    rollouts, under_way, replicas = load
    machine, _ = made_of
    lengths = sampling.lengths
    room = places(engine, sampling, machine)
    live = np.clip(under_way / replicas, 1.0, np.maximum(room, 1.0))
    step_s = decode_step_s(engine, live, sampling.prompt_tokens + lengths.mean_age_tokens, made_of)
    prompts_s = rollouts / replicas * _prompt_s(engine, sampling, machine)
    wall_s = np.where(room >= 1, prompts_s + rollouts / replicas * lengths.mean_tokens * step_s / live, np.inf)
    busy_s = np.where(room >= 1, wall_s, 0.0)
    return Generation(wall_s, busy_s, prompts_s, live, room, rollouts * lengths.mean_tokens)


def sooner(one: Generation, other: Generation) -> Generation:
    """Take whichever of two ways to generate a batch ends first.

    Parameters
    ----------
    one, other : Generation
        Of the same rollouts.

    Returns
    -------
    Generation
        Chosen sample by sample.

    Examples
    --------
    >>> sooner(Generation(2.0, 1.0, 0.5, 8.0, 16.0, 1.0), Generation(3.0, 1.0, 0.5, 8.0, 16.0, 1.0)).wall_s
    array(2.)
    """
    first = np.asarray(one.wall_s) <= np.asarray(other.wall_s)
    names = (field.name for field in fields(Generation))
    return Generation(**{name: np.where(first, getattr(one, name), getattr(other, name)) for name in names})
