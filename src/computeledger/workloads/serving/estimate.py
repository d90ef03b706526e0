"""Serving a model: time to first token, time per output token, throughput, money, memory.

Steady state of continuous batching on one replica with ``B`` sequences decoding. A request of ``I`` new input and
``O`` output tokens takes ``O`` decode steps and one prefill. Beside it ``B - 1`` others are in flight: while it
decodes, ``(B - 1) / O`` of their prompts arrive per step, and each makes the step that it joins longer.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.bounds import POSITIVE
from computeledger.display import Displayed
from computeledger.errors import QuantityError
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.adapters import load_s, miss_fraction
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.roofline import Machine, Operation, OperationKind, total_s
from computeledger.physics.serving.batching import added_s, expected_busiest, held_steps, shared_fraction
from computeledger.physics.serving.drafting import drafting
from computeledger.physics.serving.encoding import encoding
from computeledger.physics.serving.limit import above_limit_s
from computeledger.physics.serving.memory import ServingMemory, serving_memory, token_bytes_per_gpu
from computeledger.physics.serving.offload import offloaded
from computeledger.physics.serving.operations import Step, decode_pass, one_pass, passes, prefill
from computeledger.units import HOUR_S, TOKENS_PER_MTOK
from computeledger.workloads.serving.burst import NO_TURN, FirstToken, Turn, turns_of_run
from computeledger.workloads.serving.scenario import ServingScenario
from computeledger.workloads.serving.settings import AS_FITTED

__all__ = [
    "ServingResult", "ServingScenario", "decode_step", "estimate_serving", "ideal_serving", "largest_batch",
    "packed_prefill_s", "prefill_beside_s", "usd_per_mtok",
]  # fmt: skip


@dataclass(frozen=True)
class ServingResult(Displayed):
    """What serving takes.

    Attributes
    ----------
    scenario : ServingScenario
        What was asked.
    decode, prefill : tuple of Operation
        One decode step, and one prefill of a prompt on every rank.
    step_s, decode_s, prefill_s : float or ndarray
        One decode step, its time per token of a sequence, and a prefill [s].
    decode_limit_s : float or ndarray
        Physical limit of the time per token [s].
    prefill_joined_s : float or ndarray
        What one prompt adds to the decode steps that it joins [s].
    prefill_busy_s : float or ndarray
        Replica time of one prompt: what it adds to the others' steps, all of its prefill where none decode [s].
    ttft_s, tpot_s : float or ndarray
        Arrival to first token, over the start-up burst of a run as the scenario's statistic says; time per further
        token [s].
    first : FirstToken
        What of that is each request's own, and what the wait in the burst.
    memory : ServingMemory
        HBM of the busiest GPU.
    machine : Machine
        What it runs on.
    """

    scenario: ServingScenario
    decode: tuple[Operation, ...]
    prefill: tuple[Operation, ...]
    step_s: Num
    decode_s: Num
    decode_limit_s: Num
    prefill_s: Num
    prefill_joined_s: Num
    prefill_busy_s: Num
    ttft_s: Num
    tpot_s: Num
    first: FirstToken
    memory: ServingMemory
    machine: Machine = field(repr=False)

    @functools.cached_property
    def cached_attended_s(self) -> Num:
        """Replica time of attending to a further cached token, as long as the prompt's own work counts [s]."""
        one, more = self.scenario, np.maximum(self.scenario.input_tokens, 1.0)
        longer = replace(_reading(one), context_tokens=one.cached_tokens + more)
        attend = np.maximum(_timed(one, longer, self.machine).s - self.prefill_s, 0.0)
        return attend / more * self.prefill_busy_s / self.prefill_s

    @property
    def cached_busy_s(self) -> Num:
        """Replica time of a further cached token: attended to, and fetched over the NIC of several machines [s]."""
        one, ranks = self.scenario, self.scenario.layout.dp * self.scenario.layout.pp
        if self.machine.system.is_one_machine:
            return self.cached_attended_s
        before = np.maximum(one.cached_tokens, 1.0)
        entry = token_bytes_per_gpu(one.model, one.layout, PRECISION_BYTES[one.precision.kv], before)
        return self.cached_attended_s + entry / self.machine.scale_out_bytes_per_s / ranks

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
    def fits(self) -> NDArray[np.bool_]:
        """Whether memory holds the batch; no figure of a result that does not fit can be reached."""
        return np.asarray(self.scenario.batch <= self.memory.largest_batch)

    @property
    def prefill_wait_s(self) -> Num:
        """What the prefills of other requests add to each output token [s]."""
        return self.tpot_s - self.decode_s

    @property
    def output_tokens_per_s_per_user(self) -> Num:
        """Interactivity, ``1 / TPOT`` [token/s]."""
        return 1 / self.tpot_s

    @property
    def output_tokens_per_s_per_gpu(self) -> Num:
        """Throughput, requests per second times ``O / n`` [token/s]."""
        return 1 / self.gpu_s_per_output_token

    @property
    def in_service_s(self) -> Num:
        """Time of a request among the batch, ``TTFT + (O - 1) TPOT`` without a wait for a place [s].

        ``TTFT`` is the mean, a run's start included; no less than the GPUs are busy, ``O t_decode + B t_prompt``, less
        the first token's step where nobody else decodes.
        """
        one, first = self.scenario, replace(self.first, turn=NO_TURN)
        steps = one.output_tokens - 1 + np.minimum(np.maximum(one.batch - 1.0, 0.0), 1.0)
        busy_s = steps * self.decode_s + one.batch * self.prefill_busy_s
        return np.maximum(first.at_s("mean") + (one.output_tokens - 1) * self.tpot_s, busy_s)

    @property
    def requests_per_s(self) -> Num:
        """Requests one replica finishes, ``occupancy B / (TTFT + (O - 1) TPOT)``: Little's law [1/s]."""
        return self.scenario.layout.n_gpus / (self.scenario.output_tokens * self.gpu_s_per_output_token)

    @property
    def usd_per_mtok_output(self) -> Num:
        """Cost of an output token: all that a request takes but its prefill [USD/Mtok]."""
        one = self.scenario
        return usd_per_mtok(one, (self.in_service_s / one.batch - self.prefill_busy_s) / one.output_tokens)

    @property
    def usd_per_mtok_input(self) -> Num:
        """Cost of prefilling a token that is not cached [USD/Mtok]."""
        return usd_per_mtok(self.scenario, self.prefill_busy_s / self.scenario.input_tokens)

    @property
    def usd_per_mtok_cached_read(self) -> Num:
        """Cost of reusing a cached token [USD/Mtok]."""
        return usd_per_mtok(self.scenario, self.cached_busy_s)

    @property
    def gpu_s_per_output_token(self) -> Num:
        """GPU-time of one output token, its share of prefill included [s/token]."""
        one = self.scenario
        return self.in_service_s * one.layout.n_gpus / (one.batch * one.output_tokens * one.occupancy)


def usd_per_mtok(scenario: ServingScenario, replica_s: Num) -> Num:
    """Cost of tokens that take a replica's time.

    Parameters
    ----------
    scenario : ServingScenario
        With layout and price.
    replica_s : float or ndarray
        Time of the whole replica per token [s].

    Returns
    -------
    float or ndarray
        Cost [USD/Mtok].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(tp=2), Precision(), 1.0, 1.0, 1.0, 0.0, 3.6)
    >>> usd_per_mtok(scenario, 1e-3)
    2.0
    """
    price = scenario.usd_per_gpu_hour / HOUR_S * TOKENS_PER_MTOK / scenario.occupancy
    return replica_s * scenario.layout.n_gpus * price


def estimate_serving(scenario: ServingScenario, machine: Machine) -> ServingResult:
    """Estimate serving in steady state; ``fits`` of the result says whether memory holds the batch.

    ``TPOT = t_decode(B, context) / yield + interference ((B - 1) / O) t_added / ranks``, where ``t_added`` is what a
    prompt adds to the decode step that it joins (weights are read once, launches hide behind the decodes), prompts that
    arrive in one step share its pass and ranks wait for the busiest; half are past in a last turn. Alone, none joins;
    ``TTFT = t_host + t_prefill + admission t_decode + start``, with others in flight no less than ``t_prefill + TPOT``.
    ``start`` is the wait of a first round in which every client sends its prompt at once, at the scenario's statistic.

    Parameters
    ----------
    scenario : ServingScenario
        Whose numbers may be arrays that broadcast.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    ServingResult
        With its operations.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> result = estimate_serving(scenario, Machine(load_system("h100-nvl8")))
    >>> bool(7e-3 < result.decode_s < 9e-3)
    True
    """
    if problem := POSITIVE.problem(scenario.input_tokens):
        raise QuantityError(f"input_tokens {problem}")
    eff, scenario = machine.efficiency, _paced(scenario)
    step = _timed(scenario, _decoding(scenario), machine)
    step_s = step.s * scenario.step_ratio_of_drafts
    decode_s = step_s / scenario.tokens_per_step
    prompts = _timed(scenario, _reading(scenario), machine)
    joined_s = _joined_s(scenario, prompts, step, machine)
    others = np.maximum(scenario.batch - 1.0, 0.0)
    met = others * (1 - 1 / (2 * turns_of_run(scenario.rounds, scenario.batch, scenario.waiting)))
    tpot_s = decode_s + joined_s * (met / scenario.output_tokens)
    # the first token has an interval of its own: nothing of a step's ratio enters it
    to_central = step.central_s / step.s
    beside_s = eff.admission_steps * step_s * to_central + _joining_s(scenario, prompts, step_s * to_central, machine)
    own_s = eff.prefill_host_s + prompts.central_s + np.minimum(others, 1.0) * beside_s
    own_s = own_s if scenario.masks is None else own_s + scenario.masks.first_s
    # no step that a prompt joins is shorter than the mean one, which carries others' prompts; a limit waits for none
    is_joined = 0.0 if eff is IDEAL else np.minimum(others, 1.0)
    shared_s = is_joined * np.maximum(tpot_s - (eff.prefill_host_s + beside_s) / to_central, 0.0)
    own_limit_s, turn_limit_s = _first_limits_s(scenario, prompts, machine)
    decoding_s = scenario.output_tokens * tpot_s
    turn = Turn(scenario.waiting, scenario.batch, decoding_s * to_central, decoding_s, turn_limit_s)
    queued = (0.0, 0.0) if np.all(np.isinf(scenario.rounds)) else packed_prefill_s(scenario, machine)
    waits = others * queued[0], others * queued[1]
    first = FirstToken(own_s, own_limit_s, *waits, scenario.rounds, eff.first_token_ratio, turn, shared_s)
    return ServingResult(
        scenario=scenario,
        decode=tuple(step.operations),
        prefill=tuple(prompts.operations),
        step_s=step_s,
        decode_s=decode_s,
        decode_limit_s=total_s(step.limit) * scenario.step_ratio_of_drafts / scenario.tokens_per_step,
        prefill_s=prompts.s,
        prefill_joined_s=joined_s,
        prefill_busy_s=_busy_s(joined_s, prompts.s, scenario.batch, machine),
        ttft_s=first.at_s(scenario.statistic),
        tpot_s=tpot_s,
        first=first,
        memory=_memory(scenario, machine, scenario.batch),
        machine=machine,
    )


def _first_limits_s(scenario: ServingScenario, prompts: _Timed, machine: Machine) -> tuple[Num, Num]:
    """Physical limits of a request's own first token and of a turn among those that decode."""
    is_plain = not np.any(scenario.waiting) and not np.any(scenario.settings.steps_more(scenario.input_tokens))
    if machine.efficiency is IDEAL or is_plain:
        return total_s(prompts.limit), 0.0
    ideal = ideal_serving(scenario, machine)
    return ideal.first.own_s, ideal.first.turn.central_s


def _joining_s(scenario: ServingScenario, prompts: _Timed, step_s: Num, machine: Machine) -> Num:
    """Decode steps that a small chunk has a prompt join, beyond the weights that its passes read by themselves."""
    steps = scenario.settings.steps_more(scenario.input_tokens)
    if not np.any(steps):
        return 0.0
    whole = _timed(scenario, replace(_reading(scenario), chunk_tokens=AS_FITTED.chunk_tokens), machine)
    again_s = prompts.central_s - whole.central_s
    return np.maximum(steps * step_s - again_s, 0.0)


def _paced(scenario: ServingScenario) -> ServingScenario:
    """The scenario with as many sequences decoding as its chunk feeds; in the first of its rounds the start waits."""
    if np.all(np.asarray(scenario.settings.chunk_tokens) >= AS_FITTED.chunk_tokens):
        return scenario
    ranks, lengths = scenario.layout.dp * scenario.layout.pp, (scenario.input_tokens, scenario.output_tokens)
    batch = scenario.settings.decoding(scenario.batch, ranks, lengths)
    waiting = (scenario.batch - batch) * (1 - 1 / scenario.rounds)
    return replace(scenario, batch=batch, waiting=scenario.waiting + waiting)


def largest_batch(scenario: ServingScenario, machine: Machine) -> Num:
    """Sequences per replica that fit when each holds all its tokens.

    Parameters
    ----------
    scenario : ServingScenario
        What is served; its batch is set aside.
    machine : Machine
        Whose HBM it must fit.

    Returns
    -------
    float or ndarray
        All attention-DP ranks together; 0 where the weights do not fit [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> float(largest_batch(scenario, machine)), float(largest_batch(replace(scenario, layout=Layout(tp=4)), machine))
    (0.0, 408.0)
    """
    return _memory(scenario, machine, 1.0).largest_batch


def _memory(scenario: ServingScenario, machine: Machine, batch: Num) -> ServingMemory:
    at, load = (scenario.layout, scenario.precision), (batch, scenario.held_tokens)
    return serving_memory(scenario.model, machine.system, *at, load, scenario.host)


@dataclass(frozen=True, slots=True)
class _Timed:
    """A step: with the ratio for what is not modelled, never faster than the physical limit; and without either."""

    operations: list[Operation]
    limit: list[Operation]
    s: Num
    central_s: Num


def _timed(scenario: ServingScenario, step: Step, machine: Machine) -> _Timed:
    run = decode_pass if step.decode else prefill
    made_of = (scenario.model, step, scenario.layout, scenario.precision)
    operations = [*offloaded(run(*made_of, machine), scenario.host), *_beside_model(scenario, step, machine)]
    if scenario.masks is not None and step.decode and machine.efficiency is not IDEAL:
        tokens = np.maximum(step.sequences / scenario.layout.dp, 1.0) * step.new_tokens
        operations += scenario.masks.operations(tokens, total_s(operations))
    whole_s = machine.efficiency.step_ratio * total_s(operations)
    if machine.efficiency is IDEAL:
        return _Timed(operations, operations, whole_s, whole_s)
    ideal = replace(machine, efficiency=IDEAL)
    limit = [*offloaded(run(*made_of, ideal), scenario.host), *_beside_model(scenario, step, ideal)]
    central_s = np.maximum(whole_s, limit_s := total_s(limit))
    return _Timed(operations, limit, above_limit_s(central_s, limit_s, machine.efficiency.serving_ratio), central_s)


def _beside_model(scenario: ServingScenario, step: Step, machine: Machine) -> list[Operation]:
    """What a drafter, the encoder of images, and adapters that are not on the chip add to a step."""
    model, layout = scenario.model, scenario.layout
    drafts = scenario.draft_tokens if step.decode else np.minimum(scenario.draft_tokens, 1.0)
    drafted = drafting(model, step, (layout, scenario.precision), machine, drafts)
    if step.decode:
        return drafted
    drafted = [*drafted, *_adapter_loads(scenario, step)]
    if model.images is None:
        return drafted
    per_rank = scenario.images_per_token * step.sequences * step.new_tokens / (layout.dp * layout.pp)
    return [*drafted, *encoding(model.images, per_rank, model.hidden_size, layout, machine)]


def _adapter_loads(scenario: ServingScenario, step: Step) -> list[Operation]:
    """Adapters that a pass over prompts waits for: copied from host memory, one after the other."""
    adapters, layout = scenario.model.adapters, scenario.layout
    if adapters is None or not (missing := miss_fraction(adapters.served)):
        return []
    prompts = np.maximum(step.sequences / (layout.dp * layout.pp), 1.0)
    copied_s = load_s(scenario.model, layout, scenario.host.link_bytes_per_s)
    return [Operation(OperationKind.ADAPTER_LOADS, overhead_s=prompts * missing * copied_s)]


def _pass_s(prompts: _Timed, decode: _Timed, machine: Machine) -> Num:
    """What a pass over prompts adds to the decode step that it joins."""
    eff = machine.efficiency
    # no engine stops decoding for less than the limit does
    limit_s = added_s(prompts.limit, decode.limit, 1.0)
    if eff is IDEAL:
        return limit_s
    more_s = eff.step_ratio * added_s(prompts.operations, decode.operations, eff.overlap_fraction)
    return above_limit_s(np.maximum(eff.prefill_interference * more_s, limit_s), limit_s, eff.serving_ratio)


def prefill_beside_s(scenario: ServingScenario, machine: Machine) -> Num:
    """Time that one prompt on every rank adds to the decode step that it joins.

    Parameters
    ----------
    scenario : ServingScenario
        Whose batch decodes beside the prompts.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    float or ndarray
        Beside the decode step; 0 where prompts are read elsewhere [s].

    Examples
    --------
    >>> import computeledger as cl
    >>> model, machine = cl.load_model("llama-3.1-8b"), cl.Machine(cl.load_system("h100-nvl8"))
    >>> scenario = ServingScenario(model, cl.Layout(), cl.Precision(), 1024.0, 256.0, 64.0)
    >>> bool(prefill_beside_s(scenario, machine) < estimate_serving(scenario, machine).prefill_s)
    True
    """
    if not np.any(machine.efficiency.prefill_interference):
        return 0.0 * scenario.batch
    return _beside_s(scenario, _reading(scenario), _timed(scenario, _decoding(scenario), machine), machine)


def _beside_s(
    scenario: ServingScenario, step: Step, beside: _Timed, machine: Machine, alone: _Timed | None = None
) -> Num:
    """What a pass over prompts, or each of several, adds to the decode step that it joins; ``alone`` is the pass."""
    n_passes = passes(step, scenario.layout)
    if np.any(n_passes > 1):
        step, alone = one_pass(step, scenario.layout), None
    return n_passes * _pass_s(alone or _timed(scenario, step, machine), beside, machine)


def _busy_s(joined_s: Num, alone_s: Num, batch: Num, machine: Machine) -> Num:
    """Replica time of a prompt: it joins the steps of the others, or has the replica for itself without any."""
    is_beside = np.any(machine.efficiency.prefill_interference)  # else prompts are read elsewhere
    return joined_s + (alone_s - joined_s) / np.maximum(batch, 1.0) if is_beside else joined_s


def _joined_s(scenario: ServingScenario, alone: _Timed, decode: _Timed, machine: Machine) -> Num:
    """Time that one prompt adds to the decode steps that it joins.

    A rank receives ``a = B / (O ranks)`` prompts per token; ``alone`` is the pass of one. Prompts that arrive together
    share one pass, which the decodes join. Work that only the prompt's own rank can do makes the others wait: it is
    paid for the busiest rank; work that all ranks share is paid for the mean.
    """
    layout, eff, share = scenario.layout, machine.efficiency, machine.efficiency.prefill_interference
    ranks = layout.dp * layout.pp
    per_step = scenario.batch / scenario.output_tokens
    arrivals = per_step / ranks
    if not np.any(share):  # prompts are read elsewhere
        return 0.0 * arrivals
    most = scenario.settings.chunk_tokens / np.maximum(scenario.input_tokens, 1.0)
    together = np.clip(arrivals, 1.0, np.maximum(most, 1.0))
    step = _reading(scenario, together)
    one = alone if np.all(together == 1) else _timed(scenario, step, machine)
    pass_s = _beside_s(scenario, step, decode, machine, one)
    if eff is IDEAL or scenario.ranks_balanced or not np.any(np.asarray(layout.dp) > 1):
        return np.asarray(pass_s / (together * ranks))
    held = held_steps(layout.dp)
    waits = np.where(np.asarray(layout.dp) > 1, expected_busiest(held * arrivals, layout.dp) / held, arrivals)
    spread = shared_fraction(one.operations)
    return np.asarray((arrivals * spread + waits * (1 - spread)) * pass_s / (together * per_step))


def decode_step(scenario: ServingScenario, machine: Machine) -> tuple[list[Operation], Num]:
    """One decode step at the middle of the outputs, drafts included.

    Parameters
    ----------
    scenario : ServingScenario
        What is served.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    operations : list of Operation
        Of the step that verifies.
    step_s : float or ndarray
        Its time, and that of drafting: one layer of the model per drafted token [s].

    Examples
    --------
    >>> import computeledger as cl
    >>> model, machine = cl.load_model("llama-3.1-8b"), cl.Machine(cl.load_system("h100-nvl8"))
    >>> scenario = ServingScenario(model, cl.Layout(), cl.Precision(), 1024.0, 256.0, 64.0)
    >>> bool(decode_step(scenario, machine)[1] == estimate_serving(scenario, machine).step_s)
    True
    """
    found = _timed(scenario, _decoding(scenario), machine)
    return found.operations, found.s * scenario.step_ratio_of_drafts


def _decoding(scenario: ServingScenario) -> Step:
    middle = scenario.held_tokens - scenario.output_tokens / 2 - 1.0
    new = scenario.verified_tokens
    return Step(scenario.batch, middle, new, overlapped=scenario.two_batches, is_eager=scenario.settings.is_eager)


def _reading(scenario: ServingScenario, per_rank: Num = 1.0) -> Step:
    """A pass over prompts on every rank."""
    prompts, context = scenario.layout.dp * scenario.layout.pp * per_rank, scenario.cached_tokens
    step = scenario.settings.prompts(prompts, context, scenario.input_tokens)
    return replace(step, overlapped=True) if scenario.two_batches else step


def prompt_pass(scenario: ServingScenario, machine: Machine) -> tuple[list[Operation], Num]:
    """A pass over one prompt on every rank, as :func:`estimate_serving` has it.

    Parameters
    ----------
    scenario : ServingScenario
        What is served.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    tuple of list and float or ndarray
        Operations, and ``prefill_s`` of an estimate [s].

    Examples
    --------
    >>> import computeledger as cl
    >>> model, machine = cl.load_model("llama-3.1-8b"), cl.Machine(cl.load_system("h100-nvl8"))
    >>> scenario = ServingScenario(model, cl.Layout(), cl.Precision(), 1024.0, 256.0, 64.0)
    >>> bool(prompt_pass(scenario, machine)[1] == estimate_serving(scenario, machine).prefill_s)
    True
    """
    found = _timed(scenario, _reading(scenario), machine)
    return found.operations, found.s


def packed_prefill_s(scenario: ServingScenario, machine: Machine) -> tuple[Num, Num]:
    """Replica time of one prompt, and its physical limit, when many stand in line and fill every chunk.

    Parameters
    ----------
    scenario : ServingScenario
        What is served.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    tuple of float or ndarray
        Time of a full chunk over the prompts in it [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 256.0, 256.0, 64.0)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> bool(packed_prefill_s(scenario, machine)[0] < estimate_serving(scenario, machine).prefill_s)
    True
    """
    ranks = scenario.layout.dp * scenario.layout.pp
    packed = np.maximum((1 + scenario.two_batches) * scenario.settings.chunk_tokens / scenario.input_tokens, 1.0)
    full, n = _timed(scenario, _reading(scenario, packed), machine), packed * ranks
    return full.central_s / n, total_s(full.limit) / n


def ideal_serving(scenario: ServingScenario, machine: Machine) -> ServingResult:
    """Estimate the physical limit of the same scenario.

    Parameters
    ----------
    scenario : ServingScenario
        What is served.
    machine : Machine
        Whose facts hold; its efficiency is set aside.

    Returns
    -------
    ServingResult
        With every peak reached and no overhead.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> machine = Machine(load_system("h100-nvl8"), efficiency())
    >>> bool(ideal_serving(scenario, machine).tpot_s < estimate_serving(scenario, machine).tpot_s)
    True
    """
    return estimate_serving(scenario, replace(machine, efficiency=IDEAL))
