"""Disaggregated serving: one pool of workers reads prompts, another writes tokens, a cache moves between them.

A closed network of ``C`` requests: each is prefilled (a queue with the pool's rate), handed over, and decoded in a
batch that shares its worker. Where prefill is the slower pool, requests queue before it and the decode batches shrink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.display import Displayed
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.limit import above_limit_s
from computeledger.physics.serving.memory import sequence_bytes_per_gpu
from computeledger.workloads.serving.burst import FirstToken
from computeledger.workloads.serving.estimate import (
    ServingResult,
    ServingScenario,
    decode_step,
    estimate_serving,
    packed_prefill_s,
)

#: Halvings of the decode batch's range, which leave it to a thousandth.
HALVINGS = 14
#: Share of the prefill pool's rate beyond which requests count as piling up before it.
_FULL_FRACTION = 0.9999


@dataclass(frozen=True, slots=True)
class Chips:
    """What the workers that read prompts run on, where those that decode run on others.

    Attributes
    ----------
    machine : Machine
        One GPU, its links, and what they reach.
    usd_per_gpu_hour : float or ndarray
        Price of it [USD/h].
    """

    machine: Machine
    usd_per_gpu_hour: Num


@dataclass(frozen=True, slots=True)
class DisaggregatedScenario:
    """Two pools that serve one load.

    Attributes
    ----------
    decode : ServingScenario
        Model, layout of one decode worker, precision, lengths; its batch is set aside.
    prefill_layout : Layout
        Of one prefill worker.
    n_prefill, n_decode : float or ndarray
        Workers of each pool [-].
    concurrency : float or ndarray
        Requests in flight over both pools [-].
    prefill_on : Chips or None
        What prefill workers run on, where it is not what decode workers do.
    transfer_bytes_per_s : float or ndarray or None
        Rate at which the cache of a prompt moves; None for the NICs of a prefill worker [byte/s].
    """

    decode: ServingScenario
    prefill_layout: Layout
    n_prefill: Num
    n_decode: Num
    concurrency: Num
    prefill_on: Chips | None = None
    transfer_bytes_per_s: Num | None = None

    def prefill_machine(self, machine: Machine) -> Machine:
        """What prefill workers run on.

        Parameters
        ----------
        machine : Machine
            Of the decode pool.

        Returns
        -------
        Machine
            The same where both pools are alike.
        """
        return machine if self.prefill_on is None else self.prefill_on.machine

    @property
    def prefill_usd_per_gpu_hour(self) -> Num:
        """Price of a GPU-hour of the prefill pool [USD/h]."""
        return self.decode.usd_per_gpu_hour if self.prefill_on is None else self.prefill_on.usd_per_gpu_hour

    @property
    def n_gpus(self) -> Num:
        """GPUs of both pools [-]."""
        return self.n_prefill * self.prefill_layout.n_gpus + self.n_decode * self.decode.layout.n_gpus


@dataclass(frozen=True, slots=True)
class DisaggregatedResult(Displayed):
    """What two pools reach.

    Attributes
    ----------
    scenario : DisaggregatedScenario
        What was asked.
    decode, prefill : ServingResult
        One decode worker at its batch; one prefill worker, whose prefill is what counts.
    ttft_s, tpot_s : float or ndarray
        Arrival to first token, queue and transfer included, at the scenario's statistic; time per further token [s].
    first : FirstToken
        What of the first is each request's own, and what the wait in the burst.
    queue_s : float or ndarray
        Mean wait before prefill in steady state [s].
    handed_s : float or ndarray
        Hand-over of a prompt's cache, as modelled [s].
    decode_batch : float or ndarray
        Sequences decoding on one worker [-].
    prefill_busy_fraction : float or ndarray
        Share of time that a prefill worker computes [-].
    requests_per_s : float or ndarray
        Requests that both pools finish [1/s].
    """

    scenario: DisaggregatedScenario
    decode: ServingResult
    prefill: ServingResult
    ttft_s: Num
    tpot_s: Num
    first: FirstToken
    queue_s: Num
    handed_s: Num
    decode_batch: Num
    prefill_busy_fraction: Num
    requests_per_s: Num

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether both workers' memory holds their sequences."""
        return np.asarray(self.decode.fits & self.prefill.fits)

    def ttft_statistic_s(self, statistic: str) -> Num:
        """Time to first token at another statistic over the requests of the run.

        Parameters
        ----------
        statistic : str
            A key of :data:`~computeledger.workloads.serving.burst.STATISTICS`.

        Returns
        -------
        float or ndarray
            Arrival to first token [s].
        """
        return self.first.at_s(statistic)

    @property
    def output_tokens_per_s_per_user(self) -> Num:
        """Interactivity, ``1 / TPOT`` [token/s]."""
        return 1 / self.tpot_s

    @property
    def output_tokens_per_s_per_gpu(self) -> Num:
        """Throughput over the GPUs of both pools [token/s]."""
        return self.requests_per_s * self.scenario.decode.output_tokens / self.scenario.n_gpus

    @property
    def gpu_s_per_output_token(self) -> Num:
        """GPU-time of one output token, prefill included [s/token]."""
        return 1 / self.output_tokens_per_s_per_gpu


def estimate_disaggregated(
    scenario: DisaggregatedScenario, machine: Machine, halvings: int = HALVINGS
) -> DisaggregatedResult:
    """Estimate two pools under a closed load.

    The decode batch ``B`` is where requests before, in and after prefill make up the load:
    ``C = rate (T_prefill + wait + D)`` with ``D = O TPOT(B)`` and ``rate = n_d B / D``, never above the prefill pool's
    ``n_p / S``. The wait is that of a queue with even service (M/D/1), or for the pass that is running, and at
    saturation what is left of the cycle.

    Parameters
    ----------
    scenario : DisaggregatedScenario
        Whose numbers may be arrays that broadcast.
    machine : Machine
        One GPU, its links, and what they reach; of the decode pool where prefill runs on other chips.
    halvings : int
        How closely the decode batch is found: times that its range is halved [-].

    Returns
    -------
    DisaggregatedResult
        With the two workers' results.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=4), Precision(), 2048.0, 512.0, 1.0)
    >>> pools = DisaggregatedScenario(one, Layout(tp=4), 1.0, 1.0, 32.0)
    >>> result = estimate_disaggregated(pools, Machine(load_system("h100-nvl8")))
    >>> bool(0 < result.decode_batch < 32.0)
    True
    """
    ratio = machine.efficiency.serving_ratio
    reads = _central(scenario.prefill_machine(machine))
    machine, eff = _central(machine), reads.efficiency
    apart = without_prompts(machine)
    layout, load = scenario.prefill_layout, scenario.concurrency
    prefill = prefill_worker(scenario.decode, layout, reads)
    pool = _PrefillPool(prefill.prefill_s, prefill.prefill_busy_s / scenario.n_prefill, scenario.n_prefill)
    batch = _batch_of(scenario, pool, apart, halvings)
    decode = estimate_serving(replace(scenario.decode, batch=np.maximum(batch, 1.0)), apart)
    decode_s = scenario.decode.output_tokens * decode.tpot_s
    rate = np.minimum(scenario.n_decode * batch / decode_s, _FULL_FRACTION / pool.service_s)
    queue_s = np.maximum(load / rate - pool.alone_s - decode_s, 0.0)
    busy = rate * pool.service_s
    alone_s, service_s = pool.alone_s, pool.service_s
    longest_s = np.where(np.isinf(scenario.decode.rounds), 0.0, np.maximum(load - 1, 0.0) * service_s)
    # first tokens as people have them are slower than modelled by a ratio; a stated rate says what is
    surely = 1.0 if scenario.transfer_bytes_per_s is None else eff.first_token_ratio
    prompt = scenario.decode.cached_tokens + scenario.decode.input_tokens  # decoders keep no prefix: all of it moves
    handed_s = eff.transfer_s + moved_s(scenario, machine, prompt) / surely
    own_s = eff.prefill_host_s + alone_s + queue_s + handed_s + decode.step_s
    limits = (prefill.first.own_limit_s, longest_s, 0.0 * longest_s)
    first = FirstToken(own_s, *limits, scenario.decode.rounds, eff.first_token_ratio)
    tpot_s = above_limit_s(decode.tpot_s, decode.decode_limit_s, ratio)
    return DisaggregatedResult(
        scenario=scenario,
        decode=decode,
        prefill=prefill,
        ttft_s=first.at_s(scenario.decode.statistic),
        tpot_s=tpot_s,
        first=first,
        queue_s=queue_s,
        handed_s=handed_s,
        decode_batch=batch,
        prefill_busy_fraction=busy,
        requests_per_s=rate * decode.tpot_s / tpot_s,
    )


def at_rate(
    scenario: DisaggregatedScenario, machine: Machine, requests_per_s: Num, halvings: int = HALVINGS
) -> DisaggregatedScenario:
    """Two pools under a load: with the requests in flight at which they finish what arrives.

    Parameters
    ----------
    scenario : DisaggregatedScenario
        Its decode batch is the largest that a worker takes; its requests in flight are set aside.
    machine : Machine
        One GPU, its links, and what they reach.
    requests_per_s : float or ndarray
        What arrives; where the pools finish less, they are full [1/s].
    halvings : int
        How closely the decode batch is found, as in :func:`estimate_disaggregated` [-].

    Returns
    -------
    DisaggregatedScenario
        For :func:`estimate_disaggregated`.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=4), Precision(), 2048.0, 512.0, 64.0)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> asked = at_rate(DisaggregatedScenario(one, Layout(tp=4), 2.0, 2.0, 1.0), machine, 3.0)
    >>> round(float(estimate_disaggregated(asked, machine).requests_per_s), 2)
    3.0
    """
    apart, decode = without_prompts(_central(machine)), scenario.decode
    real = without_prompts(machine)
    prefill = prefill_worker(decode, scenario.prefill_layout, _central(scenario.prefill_machine(machine)))
    pool = _PrefillPool(prefill.prefill_s, prefill.prefill_busy_s / scenario.n_prefill, scenario.n_prefill)

    def decode_s(batch: Num, at: Machine) -> Num:
        step_s = decode_step(replace(decode, batch=np.maximum(batch, 1.0)), at)[1]
        return decode.output_tokens * step_s / decode.tokens_per_step

    wanted = np.asarray(requests_per_s / scenario.n_decode, float)
    alone = wanted * decode_s(1.0, real)  # below one sequence a worker idles in between
    shape = np.broadcast_shapes(np.shape(alone), np.shape(decode.batch), np.shape(pool.service_s))
    low, high = np.zeros(shape), np.broadcast_to(np.log(decode.batch), shape)
    for _ in range(halvings + 4):
        half = (low + high) / 2
        is_enough = np.exp(half) >= wanted * decode_s(np.exp(half), real)
        low, high = np.where(is_enough, low, half), np.where(is_enough, half, high)
    batch = np.where(alone < 1, np.maximum(alone, 1e-9), np.exp(high))
    taken_s = decode_s(batch, apart)
    rate = np.minimum(scenario.n_decode * batch / taken_s, _FULL_FRACTION / pool.service_s)
    load = rate * (pool.alone_s + pool.wait_s(rate, np.inf) + taken_s)
    return replace(scenario, concurrency=rate * (pool.alone_s + pool.wait_s(rate, load) + taken_s))


def moved_s(scenario: DisaggregatedScenario, machine: Machine, input_tokens: Num) -> Num:
    """Time to move a prompt's cache: at a stated rate, or over the slower NICs of both pools, a share on each GPU.

    Parameters
    ----------
    scenario : DisaggregatedScenario
        Model, formats, the layout that prompts are read on, and the rate.
    machine : Machine
        Of the decode pool, and of the other where that has none of its own.
    input_tokens : float or ndarray
        Of the prompt [token].

    Returns
    -------
    float or ndarray
        Time on the wire of the last byte [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 2048.0, 512.0, 1.0)
    >>> pools = DisaggregatedScenario(one, Layout(), 1.0, 1.0, 32.0, transfer_bytes_per_s=131072e6)
    >>> float(moved_s(pools, Machine(load_system("h100-nvl8")), 1000.0))
    0.001
    """
    one, rate = scenario.decode, scenario.transfer_bytes_per_s
    layout = scenario.prefill_layout if rate is None else Layout()
    cache = sequence_bytes_per_gpu(one.model, input_tokens, layout, PRECISION_BYTES[one.precision.kv])
    reads = scenario.prefill_machine(machine)
    return cache / (np.minimum(machine.scale_out_bytes_per_s, reads.scale_out_bytes_per_s) if rate is None else rate)


def _central(machine: Machine) -> Machine:
    """A machine whose steps take as long as modelled."""
    return replace(machine, efficiency=replace(machine.efficiency, serving_ratio=1.0))


def without_prompts(machine: Machine) -> Machine:
    """A machine whose decodes share no GPU with prompts: no prefill stands between two decode steps.

    Parameters
    ----------
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    Machine
        The same, undisturbed.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> without_prompts(Machine(load_system("h100-nvl8"))).efficiency.prefill_interference
    0.0
    """
    return replace(machine, efficiency=replace(machine.efficiency, prefill_interference=0.0))


def prefill_worker(scenario: ServingScenario, layout: Layout, machine: Machine) -> ServingResult:
    """A worker that only reads prompts.

    Parameters
    ----------
    scenario : ServingScenario
        Model, precision and lengths; layout and batch are set aside.
    layout : Layout
        Of the worker.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    ServingResult
        With the pass of one prompt on every rank, and as replica time of a prompt what passes between two of a worker
        that never rests: full chunks, or one prompt per rank where that is faster.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 512.0, 128.0, 1.0)
    >>> result = prefill_worker(one, Layout(dp=2), Machine(load_system("h100-nvl8")))
    >>> bool(result.prefill_busy_s < result.prefill_s / 2)
    True
    """
    alone = estimate_serving(replace(scenario, layout=layout, batch=1.0), machine)
    packed_s = machine.efficiency.serving_ratio * packed_prefill_s(alone.scenario, machine)[0]
    return replace(alone, prefill_busy_s=np.minimum(packed_s, alone.prefill_s / (layout.dp * layout.pp)))


@dataclass(frozen=True, slots=True)
class _PrefillPool:
    """What the prefill pool does with a prompt."""

    alone_s: Num  # from start to end of one prompt's pass
    service_s: Num  # between two prompts of a pool that never rests
    n_workers: Num

    def wait_s(self, rate: Num, load: Num) -> Num:
        """Mean wait before the pass: a queue with even service, or the pass that is running on the worker."""
        busy = np.minimum(rate * self.service_s, _FULL_FRACTION)
        running = np.minimum(rate * self.alone_s / self.n_workers, 1.0)
        waiting = np.maximum(busy / (2 * (1 - busy)) * self.service_s, running * self.alone_s / 2)
        return np.asarray(np.minimum(waiting, np.maximum(load / 2 * self.service_s, self.alone_s / 2)))


def _batch_of(scenario: DisaggregatedScenario, pool: _PrefillPool, machine: Machine, halvings: int) -> Num:
    """The decode batch at which requests before, in and after prefill make up the load; found by halving its range.

    A batch asks for the rate ``n_d B / D(B)``; requests in flight at that rate rise with it, without end where the
    prefill pool is full.
    """
    load = scenario.concurrency
    shape = np.broadcast_shapes(*map(np.shape, (load, scenario.n_decode, pool.alone_s, pool.service_s)))
    high = np.broadcast_to(load / scenario.n_decode, shape)
    low = high / (8 * np.maximum(load, 2.0))
    for _ in range(halvings):
        batch = np.sqrt(low * high)
        one = replace(scenario.decode, batch=np.maximum(batch, 1.0))
        decode_s = scenario.decode.output_tokens * decode_step(one, machine)[1] / scenario.decode.tokens_per_step
        rate = scenario.n_decode * batch / decode_s
        held = rate * (pool.alone_s + pool.wait_s(rate, load) + decode_s)
        over = (held > load) | (rate * pool.service_s > _FULL_FRACTION)
        low, high = np.where(over, low, batch), np.where(over, batch, high)
    return np.asarray(high)  # so that a full pool is full, whatever the halvings leave
