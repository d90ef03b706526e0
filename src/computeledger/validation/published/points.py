"""Published serving figures against the serving model: production days, wide expert parallelism, vendors' tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, Range, sample
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import IDEAL, efficiency, load_factors
from computeledger.physics.calibration.serving import DEFAULT_ENGINE, calibrated_engines
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, OperationKind, total_s
from computeledger.physics.serving.memory import serving_memory
from computeledger.physics.serving.operations import Step, forward, prefill
from computeledger.units import DAY_S, format_si
from computeledger.validation.compare import Comparison, Explanation, explained
from computeledger.validation.published.rows import (
    MOST_SEQUENCES,
    NEEDED,
    NODE_GPUS,
    UNITS,
    Case,
    Row,
    Unpredictable,
    case_of,
)
from computeledger.workloads.engines import named_engine
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.intervals import (
    CHIP,
    CHIP_SPREAD,
    INCOMPLETE,
    NEW,
    SPREAD,
    interval_of,
    is_measured_chip,
)

__all__ = ["NEEDED", "compare_published"]

#: Vendors and laboratories tune what they publish.
VENDORS = "recipe"
#: Operations of the attention kernel.
ATTENTION = (OperationKind.ATTENTION, OperationKind.LATENT_ATTENTION)
#: Decode batches per GPU among which a stated speed per user is looked up.
_BATCHES = np.arange(4.0, 516.0, 4.0)


def compare_published(rows: Sequence[Row], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict published serving figures with the factors' assumed ranges.

    Examples
    --------
    >>> row = dict.fromkeys(NEEDED, "") | {"source": "MLPerf", "metric": "output_tokens_per_s_total"}
    >>> dict(compare_published([row]).skipped)
    {'input lengths not stated': 1}
    """
    draws = {
        (engine, kind): _draws(engine, kind, (n_samples, seed))
        for engine in calibrated_engines()
        for kind in (NEW, SPREAD, INCOMPLETE, CHIP, CHIP_SPREAD)
    }
    skipped: Counter[str] = Counter()
    kept: list[Row] = []
    cases: list[Case] = []
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        try:
            case = case_of(row, rows)
        except Unpredictable as reason:
            skipped[str(reason)] += 1
            continue
        key = (case.model.id, case.system, row["isl"], row["osl"], case.quantity, f"{case.measured:.3g}")
        if key in seen:
            skipped["duplicate"] += 1
            continue
        seen.add(key)
        cases.append(case)
        kept.append(row)
    measured = {name: np.full(len(cases), np.nan) for name in UNITS}
    predicted = {name: np.full((len(cases), n_samples), np.nan) for name in UNITS}
    for index, case in enumerate(cases):
        measured[case.quantity][index] = case.measured
        engine = engine_of(kept[index])
        system = load_system(case.system)
        wide = case.layout.n_gpus > system.n_gpus_scale_up.value
        # a table of an offline run does not state its batch
        near, far = (NEW, SPREAD) if is_measured_chip(system) else (CHIP, CHIP_SPREAD)
        kind = INCOMPLETE if case.kind == "offline" else far if wide else near
        machine = Machine(system, efficiency(engine, draws[engine, kind], 0.0, VENDORS))
        predicted[case.quantity][index] = predict(case, machine)
    return Comparison(kept, measured, predicted, skipped, UNITS, _explainer(cases, kept))


def engine_of(row: Row) -> str:
    """Engine whose constants hold for a row.

    Examples
    --------
    >>> engine_of({"source": "TensorRT-LLM tech blog 3"}), engine_of({"source": "DeepSeek open-infra-index day 6"})
    ('trtllm', 'sglang')
    """
    said = named_engine(" ".join((row.get("source") or "", row.get("notes") or "")))
    return said if said in calibrated_engines() else DEFAULT_ENGINE


def _draws(engine: str, kind: str, sampling: tuple[int, int]) -> dict[str, Num]:
    interval = interval_of(kind)
    factors = {f"efficiency.{name}": factor.value for name, factor in load_factors(engine).items()}
    factors |= {"efficiency.serving_ratio": interval.tpot, "efficiency.first_token_ratio": interval.ttft}
    if kind == INCOMPLETE:  # that class's width, not the shift of the pools it was found on
        factors["efficiency.serving_ratio"] = _around_one(interval.tpot)
    return sample(factors, *sampling)


def _around_one(ratio: Range) -> Range:
    return ratio.times(1 / float(ratio.quantile(0.0)))


def _explainer(cases: Sequence[Case], rows: Sequence[Row]) -> Callable[[int, str], Explanation | None]:
    def explain(index: int, quantity: str) -> Explanation | None:
        case = cases[index]
        machine = Machine(load_system(case.system), efficiency(engine_of(rows[index]), years=0.0, tuning=VENDORS))
        what, operations = _operations(case, quantity, machine)
        return explained(what, operations, case.assumed)

    return explain


def predict(case: Case, machine: Machine) -> Num:
    """Predict one published figure.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.roofline import Precision
    >>> case = Case("tpot", 0.01, "mixed", load_model("llama-3.1-8b"), "h100-nvl8", Layout(), Precision(), 1024.0,
    ...             256.0, batch=1.0)
    >>> bool(0.004 < predict(case, Machine(load_system("h100-nvl8"))) < 0.006)
    True
    """
    machine = _balanced(case, machine)
    if case.kind == "prefill":
        return _prefill_rate(case, machine)
    if case.kind == "decode":
        batch = case.batch or _room(case, machine)
        return case.accepted_per_step * batch / case.layout.n_gpus / _step_s(case, _decode_step(case, batch), machine)
    if case.kind == "offline":
        return _offline_rate(case, machine)
    if case.kind == "nodes":
        return _nodes(case, machine)
    if case.kind in ("stages", "kernel"):
        return _stages_s(case, machine)
    if case.kind in ("weights", "request"):
        load = (1.0, case.input_tokens + case.output_tokens)
        memory = serving_memory(case.model, machine.system, case.layout, case.precision, load)
        return memory.sequence_bytes if case.kind == "request" else memory.weights_bytes + memory.activations_bytes
    ttft_s, tpot_s = _times_s(case, case.batch, machine)
    if case.quantity in ("ttft", "tpot"):
        return ttft_s if case.quantity == "ttft" else tpot_s
    return case.batch * case.output_tokens / (ttft_s + case.output_tokens * tpot_s) / case.layout.n_gpus


def _balanced(case: Case, machine: Machine) -> Machine:
    if not case.balanced or machine.efficiency is IDEAL:
        return machine
    return replace(machine, efficiency=replace(machine.efficiency, expert_imbalance=1.0))


def _scenario(case: Case, batch: Num) -> ServingScenario:
    return ServingScenario(
        model=case.model,
        layout=case.layout,
        precision=case.precision,
        input_tokens=case.input_tokens,
        output_tokens=case.output_tokens,
        batch=batch,
        ranks_balanced=case.ranks_balanced,
        rounds=case.rounds,
        statistic=case.statistic,
    )


def _times_s(case: Case, batch: Num, machine: Machine) -> tuple[Num, Num]:
    """Time to first token, and time per output token with prompts that share passes and ranks that wait."""
    result = estimate_serving(_scenario(case, batch), machine)
    return result.ttft_s, result.tpot_s


def _room(case: Case, machine: Machine) -> Num:
    """Sequences per replica that fit at their full length."""
    load = (1.0, case.input_tokens + case.output_tokens)
    memory = serving_memory(case.model, machine.system, case.layout, case.precision, load)
    return np.maximum(memory.largest_batch, case.layout.dp)


def _step_s(case: Case, step: Step, machine: Machine) -> Num:
    """A step's time with the ratio for the rest: never faster than the physical limit."""
    run = forward if step.decode else prefill
    made_of = (case.model, step, case.layout, case.precision)
    limit_s = total_s(run(*made_of, replace(machine, efficiency=IDEAL)))
    ratio = machine.efficiency.serving_ratio * machine.efficiency.step_ratio
    return np.maximum(ratio * total_s(run(*made_of, machine)), limit_s)


def _prefill_step(case: Case) -> Step:
    new = case.input_tokens * (1 - case.cached_fraction)
    sequences = case.layout.dp * case.chunk_tokens / new
    return Step(sequences, case.input_tokens - new, new, decode=False, overlapped=case.overlapped)


def _decode_step(case: Case, batch: Num) -> Step:
    context = case.input_tokens + case.output_tokens / 2 - 1
    return Step(batch, context, case.tokens_per_step, overlapped=case.overlapped)


def _prefill_rate(case: Case, machine: Machine) -> Num:
    """New input tokens per second and GPU."""
    return case.chunk_tokens / _step_s(case, _prefill_step(case), machine)


def _offline_rate(case: Case, machine: Machine) -> Num:
    """Output tokens per second and GPU of requests that all wait at the start.

    They run in full waves, and a last one of what is left: ``n O / (floor(n / B) t(B) + t(rest))`` with ``t`` the time
    of a wave, its prompts included.
    """
    batch = np.minimum(_room(case, machine), MOST_SEQUENCES * case.layout.dp)
    if not case.n_requests:
        return batch * case.output_tokens / _wave_s(case, batch, machine) / case.layout.n_gpus
    batch = np.minimum(batch, case.n_requests)
    waves = np.floor(case.n_requests / batch)
    rest = case.n_requests - waves * batch
    full_s = waves * _wave_s(case, batch, machine)
    last_s = np.where(rest > 0, _wave_s(case, np.maximum(rest, 1.0), machine), 0.0)
    return case.n_requests * case.output_tokens / (full_s + last_s) / case.layout.n_gpus


def _wave_s(case: Case, batch: Num, machine: Machine) -> Num:
    return batch / estimate_serving(_scenario(case, batch), machine).requests_per_s


def _stages_s(case: Case, machine: Machine) -> Num:
    """Time of a prompt through p stages in m chunks of even time, ``t (m + p - 1) / (m p)``; or a layer's attention."""
    one = Step(1.0, 0.0, case.input_tokens, decode=False)
    if case.kind == "kernel":
        operations = forward(case.model, one, case.layout, case.precision, machine)
        return sum(part.time_s for part in operations if part.kind in ATTENTION) / case.model.n_layers
    chunks, stages = case.input_tokens / case.chunk_tokens, case.layout.pp
    whole = _step_s(case, one, machine)
    return machine.efficiency.prefill_host_s + whole * (chunks + stages - 1) / (chunks * stages)


def _decode_pool(case: Case) -> Case:
    load = case.companions or {}
    ranks = int(load["decode_gpus"])
    return replace(
        case, layout=Layout(dp=ranks, ep=ranks), input_tokens=load["context_tokens"], output_tokens=0.0, overlapped=True
    )


def _decode_at_speed(case: Case, machine: Machine) -> tuple[Num, Num]:
    """Batch per GPU at which a sequence is as fast as stated, and output tokens per second and GPU there."""
    load = case.companions or {}
    asked_s = 2 / (load["output_speed_per_user_low"] + load["output_speed_per_user_high"])
    pool = _decode_pool(case)
    steps = _BATCHES[:, None] * pool.layout.dp
    times = np.atleast_2d(_step_s(pool, _decode_step(pool, steps), machine))
    batch = np.array([np.interp(asked_s, column, _BATCHES) for column in times.T])
    return batch, batch / asked_s


def _nodes(case: Case, machine: Machine) -> Num:
    """Nodes that a day's load keeps busy: those that prefill what the cache misses, and those that decode."""
    load = case.companions or {}
    missed = load["daily_input_tokens"] - load["daily_input_tokens_cache_hit"]
    prefills = missed / DAY_S / _prefill_rate(replace(case, overlapped=True), machine)
    decodes = load["daily_output_tokens"] / DAY_S / _decode_at_speed(case, machine)[1]
    return np.asarray((prefills + decodes) / NODE_GPUS)


def _operations(case: Case, quantity: str, machine: Machine) -> tuple[str, list[Operation]]:
    """The step that decides a case, at the middle of the factors."""
    machine = _balanced(case, machine)
    made_of = (case.layout, case.precision, machine)
    if case.kind in ("weights", "request"):
        return "memory, no time", []
    if case.kind == "prefill":
        words = "as two batches" if case.overlapped else "as one batch"
        what = f"one prefill of {format_si(case.chunk_tokens)} tokens per GPU, {words}"
        return what, prefill(case.model, _prefill_step(case), *made_of)
    if case.kind == "nodes":
        pool, batch = _decode_pool(case), float(np.mean(_decode_at_speed(case, machine)[0]))
        step = _decode_step(pool, batch * pool.layout.dp)
        what = f"one decode step at batch {format_si(batch)} per GPU, as two batches"
        return what, forward(pool.model, step, pool.layout, pool.precision, machine)
    if case.kind in ("stages", "kernel"):
        what = f"one prefill of {format_si(case.input_tokens)} tokens through {case.layout}"
        return what, forward(case.model, Step(1.0, 0.0, case.input_tokens, decode=False), *made_of)
    batch = float(np.mean(case.batch or _room(case, machine)))
    if case.kind == "decode":
        what = f"one decode step at batch {format_si(batch / float(case.layout.dp))} per GPU"
        return what, forward(case.model, _decode_step(case, batch), *made_of)
    if case.kind == "offline":
        batch = min(batch, MOST_SEQUENCES * float(case.layout.dp), case.n_requests or batch)
    result = estimate_serving(_scenario(case, batch), machine)
    if quantity == "ttft":
        return f"one prefill of {format_si(case.input_tokens)} tokens", list(result.prefill)
    waits = Operation(OperationKind.OTHER_PREFILLS, overhead_s=result.prefill_wait_s)
    return f"one decode step at batch {format_si(batch)}", [*result.decode, waits]
