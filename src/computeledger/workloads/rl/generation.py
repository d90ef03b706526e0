"""Generating a step's rollouts: replicas that decode together, and the few long rollouts that end it.

All rollouts of a step are released at once. While a queue is left, every place of a replica is taken; then the live
batch shrinks as rollouts end, and the step waits for the longest of them. The time of a decode step follows the live
batch and its contexts from position to position. Rollouts with turns leave the batch while their tools answer: fewer
decode than are under way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, blocks
from computeledger.physics.blackboard.estimates import best_of_n_mean
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.buffers import SERVER_BUFFERS
from computeledger.physics.serving.offload import ON_CHIP, HostMemory
from computeledger.workloads.rl.lengths import SCORES, SURVIVAL, Lengths, agreed, single
from computeledger.workloads.rl.pace import (
    Pace,
    columns,
    decode_step_s,
    held_rollouts,
    pace_of,
    read_s,
    under_way_at_most,
)
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario

#: GPU-time of GPUs that no replica and no rank of the trainer takes, as a phase.
OUTSIDE = "waiting outside the layouts"
#: Rounds in which the rollouts under way and the step that they leave settle.
_ROUNDS = 3
#: Points of a uniform distribution on either side of its mean, and the weight of the mean (Gauss and Legendre).
_ASIDE, _CENTRAL = math.sqrt(0.6), 4 / 9
#: Level whose root gives the score of the largest of several normal draws: within 1 % of ``best_of_n_mean``.
_MEDIAN_OF_LARGEST = 0.5264
#: Numbers handled at a time: what stays in a core's own cache.
_BLOCK = 32_768
#: Positions of the tail whose steps are priced: the start, every other one, the end.
_PRICED = np.array([0, *range(1, len(SURVIVAL) - 1, 2), len(SURVIVAL) - 1])


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
    episode_s : float or ndarray
        From the beginning of a rollout to its end, on average [s].
    reused_fraction : float or ndarray
        Returns from a tool that find their cache in place [-].
    left_fraction : ndarray
        Rollouts that have not ended at each time of ``ended_s``, along the first axis [-].
    ended_s : ndarray
        Times since their release, along the first axis [s].
    """

    wall_s: Num
    busy_s: Num
    prefill_s: Num
    live: Num
    n_places: Num
    tokens: Num
    episode_s: Num = 0.0
    reused_fraction: Num = 1.0
    left_fraction: Num = field(default_factory=lambda: np.ones(1))
    ended_s: Num = field(default_factory=lambda: np.zeros(1))

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


def _prompt_s(engine: ServingScenario, sampling: Sampling, machine: Machine) -> Num:
    """Replica time to read the prompt of one rollout, many prompts sharing a pass."""
    each = read_s(engine, np.maximum(sampling.prompt_tokens, 1.0), 0.0, machine)
    return each / np.where(sampling.is_prefix_shared, sampling.group_size, 1.0)


def engine_memory(share_fraction: float) -> HostMemory:
    """Say what the engine keeps of a GPU's memory, of which a framework leaves it a share.

    Parameters
    ----------
    share_fraction : float
        Of the memory; 0 for what servers take [-].

    Returns
    -------
    HostMemory
        All of it on the chip, with the engine's buffers.

    Examples
    --------
    >>> engine_memory(0.6).buffers.whole_fraction
    0.6
    """
    if not share_fraction:
        return ON_CHIP
    return replace(ON_CHIP, buffers=replace(SERVER_BUFFERS, whole_fraction=share_fraction, cache_fraction=1.0))


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
    one, mean = held_rollouts(engine, sampling, machine)
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
    last = under_way_at_most(engine, sampling, (share, room, replicas), made_of)
    # where a queue was, those under way when it ends are not at their beginning
    queued = np.clip((share - last) / last, 0.0, 1.0)
    tail, ages = lengths.remaining(queued)
    # one call prices the queue's full house and every other position of the tail
    any_own = tail.any_alive(last)
    together = last * SURVIVAL[_PRICED, None] / np.maximum(any_own[_PRICED], np.finfo(float).tiny)
    live = _with_queue(np.maximum(together, 1.0), last)
    contexts = _with_queue(sampling.context_tokens(ages[_PRICED]), sampling.mean_context_tokens)
    rows = max(_BLOCK // np.broadcast(live[0], contexts[0], factors.rl_decode_ratio).size, 1)
    parts = [slice(start, start + rows) for start in range(0, len(live), rows)]
    paces = [pace_of(engine, sampling, (live[part], contexts[part], room), made_of) for part in parts]
    pace = Pace(*(np.concatenate(column) for column in zip(*map(columns, paces), strict=True)))
    everyone = np.atleast_1d(agreed(last * replicas))
    tail_s, longest_s = _tail_s(tail, any_own, everyone, (pace.token_s[:-1], pace.busy_s[:-1]))
    late_s = _late_s(replace(sampling, lengths=tail), everyone, pace.token_s[0])
    queued_tokens = np.maximum(share * lengths.mean_tokens / last - tail.mean_tokens, 0.0)
    queued_s = queued_tokens * single(pace.token_s[-1])
    queued_busy_s = queued_tokens * single(pace.busy_s[-1])
    prompts_s = share * _prompt_s(engine, sampling, machine)
    steps = queued_tokens + tail.integral(any_own)
    fits = room >= 1
    busy_s = np.where(fits, queued_busy_s + prompts_s + tail_s[1], 0.0)
    wall_s = np.where(fits, queued_s + prompts_s + np.maximum(longest_s + late_s, tail_s[0]), np.inf)
    read_s = queued_tokens * single(pace.read_s[-1]) + tail.integral(any_own * _between(pace.read_s[:-1]))
    return Generation(
        wall_s=wall_s,
        busy_s=busy_s,
        prefill_s=prompts_s + read_s,
        live=share * lengths.mean_tokens / steps * single(pace.decoding[-1]) / last,
        n_places=room,
        tokens=rollouts * lengths.mean_tokens,
        episode_s=lengths.mean_tokens * single(pace.token_s[-1]),
        reused_fraction=single(pace.reused[-1]),
        left_fraction=_with_queue(SURVIVAL[:, None] * last / share, 1.0),
        ended_s=_with_queue(np.minimum(queued_s + prompts_s + _reached_s(tail, pace.token_s[:-1]), wall_s), prompts_s),
    )


def _reached_s(lengths: Lengths, token_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Time at which rollouts reach each position, those of the tail beginning at once [s]."""
    steps_s = np.diff(lengths.tokens, axis=0) * _between(token_s)[1:]
    return np.concatenate([np.zeros_like(steps_s[:1]), np.cumsum(steps_s, axis=0)])


def _late_s(sampling: Sampling, rollouts: NDArray[np.float64], token_s: Num) -> Num:
    """How much later the last rollout ends because the waits of single ones depart from their mean.

    Departures of lengths and of waits from their means add as squares; and of the rollouts that reach a length, one
    waits as long as the longest of so many do.
    """
    turns, lengths = sampling.turns, sampling.lengths
    if not turns.has_calls:
        return 0.0
    alive = lengths.any_alive(rollouts)
    own_s = turns.spread_s(lengths.tokens, SCORES)
    others_s = np.maximum(lengths.tokens - lengths.mean_tokens, 0.0) * token_s
    squares_s = np.sqrt(others_s**2 + own_s**2) - others_s
    together_s = single(np.sum((squares_s[1:] - squares_s[:-1]) * (alive[1:] + alive[:-1]) / 2, axis=0))
    reach = np.maximum(rollouts * np.maximum(SURVIVAL[:, None], 1 / rollouts), 1.0)
    levels = -np.expm1(np.log(_MEDIAN_OF_LARGEST) / reach)
    scores = np.interp(-levels, -SURVIVAL[1:-1], SCORES[1:-1, 0])
    reached_s = lengths.tokens * token_s + turns.spread_s(lengths.tokens, scores)
    reached_s = np.where(rollouts * SURVIVAL[:, None] >= 1.0, reached_s, 0.0)
    beyond_s = np.max(reached_s, axis=0) - np.asarray(lengths.integral(alive * token_s))
    return np.maximum(together_s, single(np.atleast_1d(beyond_s)))


def _with_queue(tail: Num, queue: Num) -> NDArray[np.float64]:
    """Priced positions, and the queue's full house last."""
    shape = np.broadcast(tail, queue).shape
    return np.concatenate([np.broadcast_to(tail, shape), np.broadcast_to(queue, (1, *shape[1:]))])


def _tail_s(
    lengths: Lengths,
    any_own: NDArray[np.float64],
    rollouts: NDArray[np.float64],
    priced: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> tuple[tuple[Num, Num], Num]:
    """Time until the last rollout of a replica ends, and of it at work; and until that of all replicas does."""
    n_samples = priced[0].shape[1]
    tail_s, busy_s, longest_s = np.empty((3, n_samples))
    for part in blocks(n_samples, _BLOCK // len(SURVIVAL)):
        here, own = Lengths(_samples(lengths.tokens, part)), _samples(any_own, part)
        token_s = _between(priced[0][:, part])
        tail_s[part] = here.integral(own * token_s)
        busy_s[part] = here.integral(own * _between(priced[1][:, part]))
        longest_s[part] = here.integral(here.any_alive(_samples(rollouts, part)) * token_s)
    return (single(tail_s), single(busy_s)), single(longest_s)


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
    lengths, turns = sampling.lengths, sampling.turns
    room = places(engine, sampling, machine)
    live = under_way_at_most(engine, sampling, (np.maximum(under_way / replicas, 1.0), room, replicas), made_of)
    pace = pace_of(engine, sampling, (live, sampling.mean_context_tokens, room), made_of)
    prompts_s = rollouts / replicas * _prompt_s(engine, sampling, machine)
    again_s: Num = 0.0
    if turns.rereads:
        again_s = live * read_s(engine, np.maximum(sampling.mean_context_tokens, 1.0), 0.0, machine)
    each = rollouts / replicas * lengths.mean_tokens / live
    wall_s = np.where(room >= 1, prompts_s + again_s + each * pace.token_s, np.inf)
    busy_s = np.where(room >= 1, prompts_s + again_s + each * pace.busy_s, 0.0)
    return Generation(
        wall_s=wall_s,
        busy_s=busy_s,
        prefill_s=prompts_s + again_s + each * pace.read_s,
        live=pace.decoding,
        n_places=room,
        tokens=rollouts * lengths.mean_tokens,
        episode_s=lengths.mean_tokens * pace.token_s,
        reused_fraction=pace.reused,
    )


def carried_on(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num, Num], made_of: tuple[Machine, RLFactors]
) -> Generation:
    """Time a batch of rollouts that ends when enough of those under way have, the others going on with the next one.

    ``t = integral of E(n) / n dn`` from those that start to those that are left, with ``E(n)`` the time of one among
    ``n``: three points of the integral.

    Parameters
    ----------
    engine : ServingScenario
        Of one replica; its batch is the engine's own limit.
    sampling : Sampling
        Lengths and prompts.
    load : tuple of float or ndarray
        Rollouts taken in, those under way at the start, and replicas that share them [-].
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
    >>> few, many = (carried_on(engine, sampling, (512.0, n, 16.0), made_of).wall_s for n in (600.0, 2048.0))
    >>> bool(few > many > steady(engine, sampling, (512.0, 2048.0, 16.0), made_of).wall_s)
    True
    """
    rollouts, started, replicas = load
    found = steady(engine, sampling, (rollouts, started - rollouts / 2, replicas), made_of)
    wall_s, busy_s = _CENTRAL * found.wall_s, _CENTRAL * found.busy_s
    for side in (-_ASIDE, _ASIDE):
        at = np.maximum(started - (1 - side) * rollouts / 2, 1.0)
        other = steady(engine, sampling, (rollouts, at, replicas), made_of)
        wall_s = wall_s + (1 - _CENTRAL) / 2 * other.wall_s
        busy_s = busy_s + (1 - _CENTRAL) / 2 * other.busy_s
    return replace(found, wall_s=wall_s, busy_s=busy_s)


def in_order(
    engine: ServingScenario,
    sampling: Sampling,
    load: tuple[Num, int, Num],
    made_of: tuple[Machine, RLFactors],
    beside_s: tuple[Num, Num, Num],
) -> Generation:
    """Time a batch of rollouts under a lag where batches are trained on in the order of their release.

    New rollouts start as old ones end, but none may become older than the lag: its batch waits for its longest one.
    ``(lag + 1) T >= t longest + training``, while which fewer decode, and faster.

    Parameters
    ----------
    engine : ServingScenario
        Of one replica; its batch is the engine's own limit.
    sampling : Sampling
        Lengths and prompts.
    load : tuple of float or ndarray
        Rollouts of a step, versions that they may be behind, and replicas that share them [-].
    made_of : tuple of Machine and RLFactors
        One GPU of the generators, and what RL adds.
    beside_s : tuple of float or ndarray
        From the end of a batch's last rollout to the end of its training, what a step has once besides, and training
        alone [s].

    Returns
    -------
    Generation
        As :func:`steady` has it, or as long as the longest rollout makes it.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.rl import IDEAL_RL
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> made_of, sampling = (Machine(load_system("h100-nvl8")), IDEAL_RL), Sampling(lengths_of_mean(1e3, 2e4), 150.0)
    >>> one, four = (in_order(engine, sampling, (512.0, lag, 16.0), made_of, (1.0, 0.0, 1.0)) for lag in (1, 4))
    >>> bool(1.2 < one.wall_s / four.wall_s)
    True
    """
    rollouts, lag, replicas = load
    after_s, once_s, train_s = beside_s
    full = steady(engine, sampling, (rollouts, lag * rollouts, replicas), made_of)
    prompts_s = rollouts / replicas * _prompt_s(engine, sampling, made_of[0])
    share = np.maximum((lag + 1) * rollouts / replicas, 1.0)
    places_ = under_way_at_most(engine, sampling, (share, full.n_places, replicas), made_of) * replicas
    fits = np.broadcast_to(np.isfinite(full.wall_s), np.broadcast(full.wall_s, after_s, once_s, rollouts).shape)
    longest = sampling.lengths.expected_longest_tokens(rollouts)
    under_way = np.clip((lag + 1) * rollouts * sampling.lengths.mean_tokens / longest, 1.0, lag * rollouts)
    for left in reversed(range(_ROUNDS)):
        # how many are under way settles on their mean; what the step takes counts how that number varies
        settle = steady if left else _varying
        made = settle(engine, sampling, (rollouts, under_way, replicas), made_of)
        token_s = made.episode_s / sampling.lengths.mean_tokens
        more_s = _late_s(sampling, np.atleast_1d(agreed(rollouts)), token_s) + (lag + 1) * prompts_s
        more_s = more_s + _uneven_s(engine, sampling, (under_way, replicas), made_of)
        more_s = more_s + _begun_s(sampling.lengths, rollouts, (under_way, places_), token_s)
        # steps wait for the batches whose longest rollout is later than the trainer: not for the mean one
        slack_s = (lag + 1) * (train_s + once_s) - after_s - once_s - more_s
        late_s = sampling.lengths.expected_longest_tokens(rollouts, slack_s / token_s) * token_s + more_s
        stale_s = (late_s + after_s + once_s) / (lag + 1) - once_s
        step_s = np.maximum(stale_s, train_s) + once_s
        under_way = np.clip(rollouts * made.episode_s / np.where(fits, step_s, 1.0), 1.0, lag * rollouts)
    # generators go on while the trainer does what comes once per step
    rate_s = np.maximum(np.minimum(full.wall_s, made.wall_s) - once_s, 0.0)
    paced_s = np.maximum(stale_s, rate_s)
    late = replace(made, wall_s=paced_s, busy_s=np.minimum(made.busy_s, paced_s))
    free = replace(full, wall_s=rate_s, busy_s=np.minimum(full.busy_s, rate_s))
    return _chosen((rate_s >= paced_s) | ~np.isfinite(full.wall_s), free, late)


def _varying(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num, Num], made_of: tuple[Machine, RLFactors]
) -> Generation:
    """A batch where rollouts under way rise by one batch as it is released, and fall until the next one is.

    Rollouts go on at the mean of their rates at so many: three points of a uniform distribution.
    """
    rollouts, under_way, replicas = load
    made = steady(engine, sampling, load, made_of)
    if not sampling.turns.has_calls:
        return made
    rate = _CENTRAL / made.episode_s
    for side in (-_ASIDE, _ASIDE):
        at = np.maximum(under_way + side * rollouts / 2, 1.0)
        rate = rate + (1 - _CENTRAL) / 2 / steady(engine, sampling, (rollouts, at, replicas), made_of).episode_s
    return replace(made, episode_s=1 / rate)


def _begun_s(lengths: Lengths, rollouts: Num, held: tuple[Num, Num], token_s: Num) -> Num:
    """How much later the longest rollout of a batch begins because places, or environments, are short.

    What is free takes up the beginning of a batch at once, the rest begins as others end; of the rollouts that would
    end last, the last to begin counts. Places are free before a batch begins: twice as many then as on average.
    """
    under_way, places_ = held
    free = np.clip(2 * (places_ - under_way), 0.0, places_)
    delayed = np.clip(rollouts - free, 0.0, rollouts)
    over_s = delayed * lengths.mean_tokens * token_s / np.maximum(places_, 1.0)
    longest = lengths.expected_longest_tokens(rollouts)
    least = longest - over_s / np.maximum(token_s, np.finfo(float).tiny)
    last = delayed * single(np.max(np.where(lengths.tokens >= np.asarray(least), SURVIVAL[:, None], 0.0), axis=0))
    found: Num = over_s * last / (last + 1)
    return found


def _uneven_s(
    engine: ServingScenario, sampling: Sampling, load: tuple[Num, Num], made_of: tuple[Machine, RLFactors]
) -> Num:
    """How much later the replica with the most to write ends than one with its share, on average of many steps.

    The sum of ``n`` lengths departs from its mean by ``sd sqrt(n)``, the largest of ``R`` of them by so much times the
    mean of the largest of ``R`` normal draws; a token more on a replica takes what a rollout more adds to a step.
    """
    rollouts, replicas = load
    lengths = sampling.lengths
    share = np.maximum(rollouts / replicas, 1.0)
    each = np.clip(share, 1.0, np.maximum(places(engine, sampling, made_of[0]), 1.0))
    more_s = decode_step_s(engine, each, sampling.mean_context_tokens, made_of) - decode_step_s(
        engine, 1.0, sampling.mean_context_tokens, made_of
    )
    variance = np.maximum(2 * lengths.mean_age_tokens * lengths.mean_tokens - lengths.mean_tokens**2, 0.0)
    largest = best_of_n_mean(0.0, 1.0, np.maximum(replicas, 1.0))
    found: Num = largest * np.sqrt(variance * share) * more_s / np.maximum(each - 1.0, 1.0)
    return found


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
    return _chosen(np.asarray(one.wall_s) <= np.asarray(other.wall_s), one, other)


def _chosen(first: NDArray[np.bool_], one: Generation, other: Generation) -> Generation:
    """One where it is the first, else the other."""
    names = (each.name for each in fields(Generation) if each.name not in ("left_fraction", "ended_s"))
    return Generation(**{name: np.where(first, getattr(one, name), getattr(other, name)) for name in names})
