"""Tables of step times from the physics, so that a simulation never evaluates a layer.

For a given number of sequences the time of a decode step is straight in the context wherever the cache is read as
fast as HBM allows; sliding windows and sparse attention bend it. The line goes through two contexts of the workload,
and the largest departure from the physics between them is part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, POSITIVE, check_record
from computeledger.errors import DoesNotFitError, QuantityError, nearest
from computeledger.physics.adapters import load_s, popularity, without_copies
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.batching import expected_busiest, held_steps, most_in_a_bin, shared_fraction
from computeledger.physics.serving.memory import serving_memory
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.simulation.schedulers import SCHEDULERS
from computeledger.simulation.state import MOST_PROMPTS, HostTimes, Limits, Pool, StepTimes
from computeledger.workloads.serving.columns import LARGEST_BATCH
from computeledger.workloads.serving.estimate import (
    ServingScenario,
    decode_step,
    estimate_serving,
    largest_batch,
    prefill_beside_s,
    prompt_pass,
)

#: Entries of a table over chunk sizes.
N_CHUNKS = 41
#: Entries of a table over numbers of decoding sequences.
N_BATCHES = 13
#: Share of the cache that stays free when a sequence is let in (assumption: what engines are started with).
RESERVE_FRACTION = 0.01


@dataclass(frozen=True, slots=True)
class Engine:
    """How a replica is run.

    Attributes
    ----------
    n_replicas : int
        How many [-].
    chunk_tokens : int
        Prompt tokens that a rank reads per step [token].
    live : int or None
        Most sequences at once; None for what memory holds at the scenario's lengths [-].
    contexts_tokens : tuple of float
        Two contexts between which the workload lies [token].
    reading_ratio : float
        Real over predicted time of a prompt that is read alone, and of what comes before it [-].
    alone_ratio : float or None
        Real over modelled time to first token of a request that meets no other; None where it is as beside others [-].
    prefix_tokens : int
        Cached prefix that every sequence holds before its own prompt; the contexts contain it [token].
    scheduler : str
        One of :data:`~computeledger.simulation.schedulers.SCHEDULERS`.
    """

    n_replicas: int = 1
    chunk_tokens: int = int(CHUNK_TOKENS)
    live: int | None = None
    contexts_tokens: tuple[float, float] = (1024.0, 8192.0)
    reading_ratio: float = 1.0
    alone_ratio: float | None = None
    prefix_tokens: int = 0
    scheduler: str = "plain"

    def __post_init__(self) -> None:
        check_record(self, n_replicas=AT_LEAST_ONE, chunk_tokens=AT_LEAST_ONE, live=AT_LEAST_ONE)
        check_record(self, reading_ratio=POSITIVE)
        if self.scheduler not in SCHEDULERS:
            raise QuantityError(f"scheduler {self.scheduler!r}: {nearest(self.scheduler, SCHEDULERS)}")
        if problem := POSITIVE.problem(self.contexts_tokens):
            raise QuantityError(f"contexts_tokens {problem}")


@dataclass(frozen=True, slots=True)
class TimedPool:
    """Replicas with their tables."""

    pool: Pool
    host_s: HostTimes
    fit_error_fraction: float
    n_gpus_per_replica: int


def timed_pool(scenario: ServingScenario, machine: Machine, engine: Engine) -> TimedPool:
    """Tabulate the step times of replicas.

    Parameters
    ----------
    scenario : ServingScenario
        Model, layout and precision; its lengths say how many fit, its batch is set aside.
    machine : Machine
        With single numbers as efficiency factors.
    engine : Engine
        How a replica is run.

    Returns
    -------
    TimedPool
        Whose tables agree with :func:`~computeledger.workloads.serving.estimate.estimate_serving` at both contexts.

    Raises
    ------
    DoesNotFitError
        Where the layout does not hold the weights and one sequence of the longer context.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.serving.operations import CHUNK_TOKENS
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> question = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 1.0)
    >>> found = timed_pool(question, Machine(load_system("h100-nvl8")), Engine(live=64))
    >>> found.pool.limits.live, found.fit_error_fraction < 0.01
    (64, True)
    """
    layout, (near, far) = scenario.layout, engine.contexts_tokens
    ranks = int(layout.dp * layout.pp)
    limits, shares = _limits(scenario, machine, engine, ranks), _adapter_shares(scenario)
    scenario = replace(scenario, model=without_copies(scenario.model))  # a simulation sees for itself what is copied
    batch = np.arange(1.0, limits.live + 1)
    asked = replace(scenario, output_tokens=2.0, cached_tokens=0.0, batch=batch)
    middle = [near + share * (far - near) for share in (0.25, 0.5, 0.75)]
    first, second, *between = _decode_s(asked, machine, (near, far, *middle))
    slope = (second - first) / (far - near)
    chunks = np.unique(np.rint(np.geomspace(1.0, max(engine.chunk_tokens, 2), N_CHUNKS)))
    beside_batch = np.unique(np.rint(np.geomspace(1.0, max(limits.live, 2), N_BATCHES)))
    prompts = replace(scenario, output_tokens=2.0, batch=max(float(ranks), 2.0), input_tokens=chunks)
    # the time to first token has a ratio of its own: that of a step does not enter it
    is_central = np.all(np.asarray(machine.efficiency.serving_ratio) == 1.0)
    central = machine if is_central else replace(machine, efficiency=replace(machine.efficiency, serving_ratio=1.0))
    (read, fresh_s), (_, later_s) = (prompt_pass(replace(prompts, cached_tokens=one), central) for one in (0.0, far))
    reading = engine.reading_ratio
    # engines look at their queue in every step: what usual runs show beyond that is of clients that move in rounds,
    # which a simulation sees for itself; recipes that stream several tokens at once look less often
    looked = np.maximum(central.efficiency.admission_steps - central.efficiency.usual_admission_steps, 0.0)
    admission = reading * float(np.mean(central.efficiency.first_token_ratio * looked))
    host = _outside_steps(prompts, central, engine, float(np.mean(scenario.input_tokens)))
    joined = replace(prompts, input_tokens=chunks[:, None], batch=beside_batch)
    shape = np.zeros((len(chunks), len(beside_batch)))
    beside_s, beside_later_s = (
        _filled(prefill_beside_s(replace(joined, cached_tokens=cached), machine), shape) for cached in (0.0, far)
    )
    times = StepTimes(
        decode_s=np.concatenate([[0.0], first - slope * near]),
        context_s=np.concatenate([[0.0], slope / batch]),
        chunk_tokens=chunks,
        prefill_s=reading * _filled(fresh_s, chunks),
        prefill_context_s=reading * (_filled(later_s, chunks) - _filled(fresh_s, chunks)) / far,
        beside_batch=beside_batch,
        beside_s=beside_s,
        beside_context_s=(beside_later_s - beside_s) / far,
        shared_fraction=_filled(shared_fraction(read), chunks),
        busiest_prompts=_busiest(int(layout.dp)),
        admission_steps=max(admission - 0.5, 0.0),  # half a step passes on the clock until the one that reads begins
        admission_s=host.more_beside_s,
        adapter_copy_s=float(load_s(scenario.model, layout, scenario.host.link_bytes_per_s)),
    )
    misses = [(first + slope * (at - near)) / real_s - 1 for at, real_s in zip(middle, between, strict=True)]
    pool = after_prefix(Pool(engine.n_replicas, times, limits, shares), engine.prefix_tokens)
    return TimedPool(pool, host, float(np.max(np.abs(misses))), int(layout.n_gpus))


def after_prefix(pool: Pool, prefix_tokens: int) -> Pool:
    """Replicas whose sequences all hold a cached prefix of their own before their prompts begin.

    Its bytes are read with every token and every chunk, and take room; no work makes it.

    Examples
    --------
    >>> from computeledger.simulation.state import constant_step_times
    >>> pool = Pool(1, constant_step_times(4, 0.1, 0.0)._replace(context_s=np.full(5, 1e-6)), Limits(4, 1000, 0, 0, 8))
    >>> held = after_prefix(pool, 100)
    >>> round(float(held.times.decode_s[2] - pool.times.decode_s[2]), 9), held.limits.state_tokens
    (0.0002, 100)
    """
    if not prefix_tokens:
        return pool
    times, limits = pool.times, pool.limits
    batch = np.arange(len(times.decode_s))
    moved = times._replace(
        decode_s=times.decode_s + batch * times.context_s * prefix_tokens,
        prefill_s=times.prefill_s + times.prefill_context_s * prefix_tokens,
        beside_s=times.beside_s + times.beside_context_s * prefix_tokens,
    )
    return pool._replace(times=moved, limits=limits._replace(state_tokens=limits.state_tokens + prefix_tokens))


def _outside_steps(prompts: ServingScenario, machine: Machine, engine: Engine, mean_tokens: float) -> HostTimes:
    """What first tokens take outside of steps: of a request that meets no other, and what is more beside others."""
    sizes = np.unique(np.rint(np.geomspace(1.0, max(engine.contexts_tokens[1], 2.0), N_CHUNKS)))
    alone = machine
    if engine.alone_ratio is not None:
        alone = replace(machine, efficiency=replace(machine.efficiency, first_token_ratio=engine.alone_ratio))

    def outside_s(input_tokens: Num, at: Machine) -> np.ndarray:
        found = estimate_serving(replace(prompts, input_tokens=input_tokens, batch=1.0), at)
        return np.asarray(engine.reading_ratio * np.maximum(found.ttft_s - found.prefill_s, 0.0))

    is_same = alone is machine
    more_s = 0.0 if is_same else float(outside_s(mean_tokens, machine) - outside_s(mean_tokens, alone))
    return HostTimes(tuple(sizes.tolist()), tuple(outside_s(sizes, alone).tolist()), max(more_s, 0.0))


def _busiest(n_ranks: int) -> np.ndarray:
    """Prompts on the busiest attention-DP rank by prompts in a step, as the closed form has them on average."""
    n = np.arange(MOST_PROMPTS + 1.0)
    if n_ranks == 1:
        return n
    held = float(held_steps(n_ranks))
    if held > 1:
        return np.asarray(expected_busiest(held * n / n_ranks, n_ranks) / held)
    return most_in_a_bin(MOST_PROMPTS, n_ranks)


def _filled(value: Num, like: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, float), like.shape)


def _decode_s(asked: ServingScenario, machine: Machine, contexts_tokens: tuple[float, ...]) -> np.ndarray:
    """Decode steps by context and number of sequences."""
    contexts, batch = np.array(contexts_tokens)[:, None], np.asarray(asked.batch)
    step_s = decode_step(replace(asked, input_tokens=contexts), machine)[1]
    return np.broadcast_to(np.asarray(step_s / asked.tokens_per_step, float), (len(contexts), len(batch)))


def _adapter_shares(scenario: ServingScenario) -> tuple[float, ...]:
    """Shares of requests by adapter; none where all are on the chips."""
    served = None if scenario.model.adapters is None else scenario.model.adapters.served
    return () if served is None or served.n_slots >= served.n_adapters else tuple(popularity(served).tolist())


def _limits(scenario: ServingScenario, machine: Machine, engine: Engine, ranks: int) -> Limits:
    """What memory holds, in tokens of cache."""
    near, far = engine.contexts_tokens
    made_of = (scenario.model, machine.system, scenario.layout, scenario.precision)
    short, held = (serving_memory(*made_of, (1.0, context), scenario.host) for context in (near, far))
    per_token = float(held.sequence_bytes - short.sequence_bytes) / (far - near)
    state = max(float(held.sequence_bytes) - per_token * far, 0.0)
    if per_token <= 0:  # nothing grows with the context: count the state as if it did
        per_token, state = float(held.sequence_bytes) / far, 0.0
    kv_tokens = int(float(held.cache_bytes) / per_token) * int(scenario.layout.dp)
    state_tokens = round(state / per_token)
    if kv_tokens < far + state_tokens:
        raise DoesNotFitError(
            f"{scenario.model.id} on {scenario.layout}: no room for one sequence of {int(far):,} tokens; "
            f"beside the weights a replica holds {max(kv_tokens - state_tokens, 0):,}"
        )
    at_once = int(np.min(largest_batch(scenario, machine)))
    live = engine.live or max(min(at_once, LARGEST_BATCH), 1)
    return Limits(
        live,
        kv_tokens,
        round(RESERVE_FRACTION * kv_tokens),
        state_tokens,
        engine.chunk_tokens,
        ranks,
        int(scenario.layout.pp),
        0,
        *SCHEDULERS[engine.scheduler],
        adapters=scenario.model.adapters.served.n_slots if scenario.model.adapters and _adapter_shares(scenario) else 0,
    )
