"""Serving figures gathered from many sources, one typed row per figure: questions to the model, with what was measured.

A row states what it measured, over which statistic, and under which load; what it does not state is taken as written
down here, the same way for every row.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, Range, sample
from computeledger.errors import ComputeLedgerError, InputError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import system_ids
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import IDEAL, Efficiency, efficiency
from computeledger.physics.calibration.local import local_engines
from computeledger.physics.calibration.serving import DEFAULT_TUNING, GENERIC, load_calibration
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.serving.offload import ON_CHIP, HostMemory
from computeledger.physics.weights import precision_of
from computeledger.validation.compare import MOST_MEASURED, Comparison
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.lanes import Lanes, found_fraction, lanes_of, served_lanes
from computeledger.validation.serving.points import ROUNDS_OF_A_RUN
from computeledger.validation.serving.predictions import held_by_memory
from computeledger.workloads.engines import constants_of, engines, precision_on, reads_prompts_first
from computeledger.workloads.engines.releases import release_month
from computeledger.workloads.engines.settings import default_of
from computeledger.workloads.questions.setup import EngineRun
from computeledger.workloads.serving.burst import is_burst, turns_waited
from computeledger.workloads.serving.estimate import (
    ServingResult,
    ServingScenario,
    estimate_serving,
    packed_prefill_s,
)
from computeledger.workloads.serving.intervals import interval_at, interval_class
from computeledger.workloads.serving.reading import buffers_asked, settings_asked

Row = Mapping[str, str]
NEEDED = (
    "source", "grade", "model", "accelerator", "n_accelerators", "engine", "layout", "weights", "kv_cache",
    "input_tokens", "output_tokens", "cached_fraction", "concurrency", "static_batch", "rounds", "draft_tokens",
    "tokens_per_step", "metric", "statistic", "value", "unit",
)  # fmt: skip
UNITS = {
    "tpot": "s",
    "ttft": "s",
    "request_latency": "s",
    "output_tokens_per_s_per_gpu": "tokens/s",
    "decode_output_tokens_per_s_per_gpu": "tokens/s",
    "input_tokens_per_s_per_gpu": "tokens/s",
    "total_tokens_per_s_per_gpu": "tokens/s",
}
#: What sources call a quantity, and whether they state it for all accelerators together.
_SAID = {
    "output_tokens_per_s": ("output_tokens_per_s_per_gpu", True),
    "total_tokens_per_s": ("total_tokens_per_s_per_gpu", True),
    "prefill_input_tokens_per_s_per_node": ("input_tokens_per_s_per_gpu", True),
    "prefill_input_tokens_per_s_per_gpu": ("input_tokens_per_s_per_gpu", False),
}
#: Chance that a drafted token is accepted where a source does not state it: 2.4 tokens of a step with three drafts, as
#: the runs of :mod:`computeledger.validation.serving.points` (assumption).
ACCEPTANCE = Range(0.45, 0.85, mid=0.67)
#: Data sheets print binary gigabytes of memory as decimal ones: what ran in them fits.
BINARY = 1.074
_PER_GPU = re.compile(r"(\d+) req/GPU")
#: Requests in flight on average, where clients pause between theirs.
_IN_FLIGHT = re.compile(r"in flight(?::[^;]*=)? (\d+(?:\.\d+)?)")
#: Engines count the token that is sure among the drafted ones, and state what a step yields as a range.
_DRAFTS = re.compile(r"(\d+) draft tokens")
_YIELD = re.compile(r"accept length (?:about )?([\d.]+)(?:-([\d.]+))?")
#: Rounds of equal lengths, each of which starts with all its prompts.
_IN_STEP = re.compile("fixed lengths|all prompts sent together")
#: Month of a build that is no release.
_BUILD = re.compile(r"(?:main|nightly [0-9a-f]+) \(?(20\d\d-\d\d)")
#: Prompts that a run of a note sends; loads that no client holds, which have no first round.
_SENT = re.compile(r"(\d+) prompts")
_ARRIVING = re.compile(r"Little|Poisson|in flight|lanes")
#: Attention whose products are in 8 bits, not its cache alone.
_SCORES = re.compile(r"FP8 MLA|FP8 attention")
#: Settings of the engine as notes state them, by the field of a question; the first group that is there is the number.
#: Eager steps are not read: all but three such rows are of one source on one maker's chips, whose ratio was fitted on
#: them as they are, and would count their launches twice.
_TOLD = {
    "max_batch": re.compile(r"max[-_]num[-_]seqs[ =](\d+)|max[-_]running[-_]requests[ =](\d+)|max (\d+) running"),
    "chunk_tokens": re.compile(
        r"max[-_]num[-_]batched[-_]tokens[ =](\d+)|chunked[- ]prefill(?:-size)?[ =](\d+)|chunks of (\d+)"
    ),
    "memory_fraction": re.compile(r"gpu[-_]memory[-_]utilization[ =]([\d.]+)|mem-fraction-static[ =]([\d.]+)"),
}
_WITHOUT_PREFIXES = re.compile(r"--no-enable-prefix-caching|--disable-radix-cache")
#: gpt-fast quantises weights alone, in groups of 32 where it is int4.
_OF_ENGINE = {("gpt-fast", "int8"): "w8a16", ("gpt-fast", "int4"): "int4-g32"}
#: Sources in which an engine's or a chip's makers publish launches for the models and chips measured, with the engine
#: that they are of; they are asked as such deployments, whatever they show.
_MAKERS = {
    "AWS Neuron benchmark pages": "neuronx",
    "Google tpu-recipes (Trillium, vLLM)": "vllm",
    "Intel Gaudi model performance pages": "optimum-habana",
    "LMDeploy A100 fp16 benchmark": "lmdeploy",
    "LMSYS/Ant Group blog 2025-09-26 H20": "sglang",
    "ROCm ATOM recipes": "atom",
    "SGLang docs cookbook (docs_new)": "sglang",
    "SGLang repository, v0.3.0 against vLLM v0.6.0": "sglang",
    "gpt-fast README": "gpt-fast",
    "sglang-jax cookbook": "sglang-jax",
    "vLLM Ascend documentation": "vllm",
    "vLLM blog, FP8 KV cache (2026-04)": "vllm",
}
#: Sources that mean NVIDIA's or OCP's 4 bits as a checkpoint stores them.
_AS_STORED = {"mxfp4": "fp4", "nvfp4": "fp4"}


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A row as a question."""

    quantity: str
    statistic: str
    measured: float
    scenario: ServingScenario
    system: str
    engine: str
    is_static: bool
    interval: str
    years: float = 0.0
    tuning: str = DEFAULT_TUNING
    is_acceptance_assumed: bool = False
    lanes: Lanes | None = None

    @property
    def is_time(self) -> bool:
        """Whether the quantity is a time, and no rate."""
        return UNITS[self.quantity] == "s"


def open_case(row: Row) -> OpenCase:
    """Read a row as a question.

    Examples
    --------
    >>> open_case(dict.fromkeys(NEEDED, "") | {"metric": "watts"})
    Traceback (most recent call last):
    computeledger.validation.published.rows.Unpredictable: quantity not predicted
    """
    quantity, is_whole = _SAID.get(row["metric"], (row["metric"], False))
    measured = _number(row, "value")
    if quantity not in UNITS:
        raise Unpredictable("quantity not predicted")
    if not measured:
        raise Unpredictable("nothing measured")
    if quantity == "tpot" and row["statistic"] not in ("mean", "median"):
        raise Unpredictable("tails of the time per output token are not predicted")
    system = _system(row)
    if is_whole:
        measured /= _number(row, "n_accelerators")
    scenario = _scenario(row, system)
    engine = row["engine"] if row["engine"] in engines() else GENERIC
    is_one_burst = is_burst(_batch(row), _number(row, "rounds") or np.inf) and not row["static_batch"]
    several = "several" if engine in local_engines() else "aggregated"
    alone = "alone" if _batch(row) == 1 or row["static_batch"] else several
    kind = "burst" if is_one_burst and engine not in local_engines() else alone
    name = interval_class(scenario.model, scenario.precision.name, load_system(system), engine, kind)
    drafts, accepted = _drafts(row)
    is_assumed = bool(drafts) and not accepted
    return OpenCase(
        quantity=quantity,
        statistic=row["statistic"],
        measured=measured,
        scenario=scenario,
        system=system,
        engine=engine,
        is_static=bool(row["static_batch"]),
        interval=f"{name}, acceptance assumed" if is_assumed else name,
        years=_years(row),
        tuning="published" if _MAKERS.get(row["source"]) == row["engine"] else DEFAULT_TUNING,
        is_acceptance_assumed=is_assumed,
        lanes=lanes_of(row.get("note", "")),
    )


def _scenario(row: Row, system: str) -> ServingScenario:
    try:
        model, layout = load_model(row["model"]), _layout(row)
    except ComputeLedgerError:
        raise Unpredictable("model not known, or no layout") from None
    # a layout that ran is taken as it is: engines pad heads that do not divide
    if layout.n_gpus != _number(row, "n_accelerators"):
        raise Unpredictable("layout of another number of accelerators")
    batch = _batch(row)
    if not batch:
        raise Unpredictable("load not stated as requests in flight")
    if not _number(row, "input_tokens") or not _number(row, "output_tokens"):
        raise Unpredictable("lengths not stated")
    drafts, accepted = _drafts(row)
    precision = _precision(row, model)
    fits = weights_bytes_per_gpu(model, layout, precision)
    if "fake weights" in row.get("note", ""):
        model = _routed_alike(model)
    if _SCORES.search(row.get("note", "")):
        precision = replace(precision, scores="fp8")
    chip = load_system(system).accelerator
    if fits > BINARY * chip.hbm_bytes.value:
        raise Unpredictable("weights do not fit the GPUs as recorded")
    engine_run = told(row)
    found = found_fraction(_number(row, "cached_fraction"), row.get("note", ""))
    cached = 0.0 if engine_run.no_prefix_cache else found * _number(row, "input_tokens")
    engine = row["engine"] if row["engine"] in engines() else GENERIC
    kept = HostMemory(buffers=buffers_asked(engine_run, engine)) if engine_run.memory_fraction else ON_CHIP
    one = ServingScenario(
        model=model,
        layout=layout,
        precision=precision,
        input_tokens=max(_number(row, "input_tokens") - cached, 1.0),
        output_tokens=_number(row, "output_tokens"),
        batch=batch,
        cached_tokens=cached,
        draft_tokens=drafts,
        tokens_per_step=accepted or float(tokens_of_step(drafts, float(ACCEPTANCE.quantile(0.0)))),
        rounds=_rounds(row),
        host=kept,
        settings=settings_asked(engine_run),
    )
    return held_by_memory(one, system)


def told(row: Row) -> EngineRun:
    """Settings of the engine that the note states; sequences at once where it does not are the release's own."""
    note = row.get("note", "")
    batch, chunk, fraction = (_told_number(name, note) for name in ("max_batch", "chunk_tokens", "memory_fraction"))
    chip, release = load_system(_system(row)).accelerator, row.get("engine_version") or row.get("date", "")[:7] or None
    own = default_of(row["engine"], "max_batch", chip, release) if batch is None else None
    if own is not None and _batch(row) > own.value:
        batch = own.value
    return EngineRun(
        max_batch=None if batch is None else int(batch),
        chunk_tokens=None if chunk is None else int(chunk),
        memory_fraction=fraction,
        no_prefix_cache=_WITHOUT_PREFIXES.search(note) is not None,
    )


def _told_number(name: str, note: str) -> float | None:
    found = _TOLD[name].search(note)
    return None if found is None else float(next(group for group in found.groups() if group))


def _routed_alike(model: Model) -> Model:
    """A model whose router was never trained: all tokens visit the same experts, and no others are read."""
    groups = [
        replace(one, feed_forward=replace(one.feed_forward, n_experts=one.feed_forward.n_experts_active))
        for one in model.layers
    ]
    return replace(model, layers=tuple(groups))


def _drafts(row: Row) -> tuple[float, float]:
    """Tokens drafted per step, and tokens that a step yields; 0 where neither column nor note states them."""
    note = row.get("note", "")
    stated, yielded = _DRAFTS.search(note), _YIELD.search(note)
    drafts = float(stated.group(1)) - 1 if stated else _number(row, "draft_tokens")
    accepted = _number(row, "tokens_per_step")
    if yielded and not accepted:
        ends = [float(end) for end in yielded.groups() if end]
        accepted = sum(ends) / len(ends)
    return drafts, accepted


def tokens_of_step(drafts: float, acceptance: Num) -> Num:
    """Tokens that a step yields where every drafted token is accepted with the same chance, in a row.

    Examples
    --------
    >>> float(tokens_of_step(0.0, 0.5)), float(tokens_of_step(2.0, 0.5))
    (1.0, 1.75)
    """
    return (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def _batch(row: Row) -> float:
    """Requests in flight: on average where clients pause, stated, per GPU, or one where whole prompts are only read."""
    paused = _IN_FLIGHT.search(row.get("note", ""))
    if paused is not None:
        return max(float(paused.group(1)), 1.0)
    stated = _number(row, "concurrency") or _number(row, "static_batch")
    if stated:
        return stated
    per_gpu = _PER_GPU.search(row.get("note", ""))
    if per_gpu is not None:
        return float(per_gpu.group(1)) * _number(row, "n_accelerators")
    return float(row["metric"].startswith("prefill"))


def _layout(row: Row) -> Layout:
    """The layout; experts counted by the dies of a chip are spread over its packages."""
    layout = parse_layout(row["layout"])
    chip = load_system(_system(row)).accelerator
    if layout.ep == chip.dies * layout.n_gpus_per_stage:
        return replace(layout, ep=layout.n_gpus_per_stage)
    return layout


def _years(row: Row) -> float:
    """Age of the engine's release, or of the build of a note, against the calibration's reference; none without."""
    month = row.get("date", "")[:7] or release_month(row["engine"], row.get("engine_version", ""))
    build = _BUILD.search(row.get("note", ""))
    month = build.group(1) if build and not month else month
    return load_calibration().years_of(month) if month else 0.0


def _rounds(row: Row) -> float:
    """Requests per client between two bursts: stated, counted by the note, or what benchmarks send to a held load."""
    note = row.get("note", "")
    if row["static_batch"] or (_IN_STEP.search(note) and reads_prompts_first(row["engine"])):
        return 1.0
    held = _number(row, "concurrency")
    if _number(row, "rounds") or not held or row.get("requests_per_s") or _ARRIVING.search(note):
        return _number(row, "rounds") or np.inf
    sent = _SENT.search(note)
    return max(float(sent.group(1)) / held, 1.0) if sent else ROUNDS_OF_A_RUN


def _precision(row: Row, model: Model) -> Precision:
    """The stored formats where they are as narrow as the row's, else the row's throughout."""
    experts = row.get("expert_weights")
    weights = _OF_ENGINE.get((row["engine"], row["weights"]), row["weights"])
    narrowest, kv = experts or weights, row["kv_cache"] or "bf16"
    stored = precision_on(row["engine"], model, None, kv)
    if _AS_STORED.get(narrowest, narrowest) == _AS_STORED.get(stored.name, stored.name):
        return stored
    try:
        named = precision_of(model, weights, kv)
        return replace(named, experts=precision_of(model, experts, kv).experts) if experts else named
    except ComputeLedgerError:
        raise Unpredictable("weight format not known") from None


def predict_open(case: OpenCase, machine: Machine) -> Num:
    """Predict one figure.

    Examples
    --------
    >>> row = dict.fromkeys(NEEDED, "") | {
    ...     "metric": "tpot", "statistic": "mean", "value": "0.007", "output_tokens": "256", "concurrency": "1",
    ...     "model": "llama-3.1-8b", "accelerator": "h100-sxm5-80gb", "n_accelerators": "1", "engine": "vllm",
    ...     "layout": "tp1", "weights": "bf16", "input_tokens": "1024"}
    >>> bool(4e-3 < predict_open(open_case(row), Machine(load_system("h100-nvl8"))) < 6e-3)
    True
    """
    if case.is_static and case.engine not in local_engines():  # a benchmark that holds its batch streams to nobody
        machine = replace(machine, efficiency=_unanswering(machine.efficiency))
    if case.lanes is not None:
        return _of_lanes(case, case.lanes, machine)
    result = estimate_serving(case.scenario, machine)
    if case.quantity == "input_tokens_per_s_per_gpu":
        return _prefill_rate(case, result, machine)
    if case.quantity == "decode_output_tokens_per_s_per_gpu":  # prompts are read elsewhere
        return case.scenario.batch / result.decode_s / case.scenario.layout.n_gpus
    if case.is_static:  # all prompts in one call, and none follows: the batch decodes alone
        start_s = result.first.longest_s * machine.efficiency.first_token_ratio
        first_s, each_s = start_s + result.prefill_s, result.decode_s
    else:
        statistic = case.statistic if case.statistic in ("mean", "median", "p90") else "mean"
        first_s, each_s = result.ttft_statistic_s(statistic), result.tpot_s
    if case.quantity == "tpot":
        return each_s
    if case.quantity == "ttft":
        return first_s
    one = case.scenario
    if case.quantity == "request_latency":
        return first_s + (one.output_tokens - 1) * each_s
    tokens = one.output_tokens + (one.input_tokens if case.quantity == "total_tokens_per_s_per_gpu" else 0.0)
    turn = result.first.turn  # the last of a round that none follows ends it
    later_s = (turn.waiting / turn.batch - turns_waited(turn.waiting, turn.batch, one.rounds)) * turn.central_s
    cycle_s = first_s + machine.efficiency.first_token_ratio * later_s + one.output_tokens * each_s
    return (one.batch + one.waiting) * tokens / cycle_s / one.layout.n_gpus


def _of_lanes(case: OpenCase, lanes: Lanes, machine: Machine) -> Num:
    """A figure of replayed sessions, whose requests in flight follow from how fast they are answered."""
    one = case.scenario
    result, request_s = served_lanes(lanes, one, machine)
    if case.is_time:
        times = {"tpot": result.tpot_s, "ttft": result.ttft_statistic_s(case.statistic), "request_latency": request_s}
        return times[case.quantity]
    inputs = one.input_tokens + one.cached_tokens
    tokens = {
        "output_tokens_per_s_per_gpu": one.output_tokens,
        "input_tokens_per_s_per_gpu": inputs,
        "total_tokens_per_s_per_gpu": inputs + one.output_tokens,
    }[case.quantity]
    return lanes.requests_per_s(request_s) * tokens / one.layout.n_gpus


def _unanswering(constants: Efficiency) -> Efficiency:
    return replace(constants, host_sequence_s=0.0) if constants is not IDEAL else constants


def _prefill_rate(case: OpenCase, result: ServingResult, machine: Machine) -> Num:
    """Prompt tokens per second and GPU: of one prompt, or of many that fill every chunk."""
    one, ratio = case.scenario, machine.efficiency.first_token_ratio
    each_s = result.ttft_s / ratio - machine.efficiency.prefill_host_s if case.is_static else None
    prompt_s = packed_prefill_s(one, machine)[0] if each_s is None else each_s
    return one.input_tokens / (ratio * prompt_s) / one.layout.n_gpus


def compare_open(rows: Sequence[Row], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict gathered serving figures, each with the interval of its class.

    Examples
    --------
    >>> dict(compare_open([dict.fromkeys(NEEDED, "") | {"metric": "watts"}]).skipped)
    {'quantity not predicted': 1}
    """
    skipped: Counter[str] = Counter()
    kept: list[Row] = []
    cases: list[OpenCase] = []
    for row in rows:
        try:
            case = open_case(row)
        except Unpredictable as reason:
            skipped[str(reason)] += 1
            continue
        cases.append(case)
        kept.append({**row, "class": case.interval, "run": run_of(row)})
    units = {name: unit for name, unit in UNITS.items() if any(case.quantity == name for case in cases)}
    measured = {name: np.full(len(cases), np.nan) for name in units}
    predicted = {name: np.full((len(cases), n_samples), np.nan) for name in units}
    for index, case in enumerate(cases):
        measured[case.quantity][index] = case.measured
        predicted[case.quantity][index] = predict_open(*_sampled(case, n_samples, seed))
    return Comparison(kept, measured, predicted, skipped, units)


#: What rows of one deployment share: who measured what, with which engine, on which layout, told by which statistic.
_RUN = ("source", "model", "accelerator", "n_accelerators", "engine", "engine_version", "layout", "weights",
        "expert_weights", "kv_cache", "draft_tokens", "statistic")  # fmt: skip


def run_of(row: Row) -> str:
    """Name the deployment of a row; a batch that is held is another run than one that clients keep full.

    Examples
    --------
    >>> run_of({"source": "a blog", "layout": "tp8", "static_batch": "4"})
    'a blog tp8 static'
    """
    parts = [row.get(name, "") for name in _RUN]
    return " ".join(part for part in [*parts, "static" if row.get("static_batch") else ""] if part)


def _sampled(case: OpenCase, n_samples: int, seed: int) -> tuple[OpenCase, Machine]:
    """A case and its machine along the sample axis: the class's ratios, and the acceptance where it is assumed."""
    system = load_system(case.system)
    interval = interval_at(case.interval.partition(", acceptance")[0], system)
    inputs = {"efficiency.serving_ratio": interval.tpot, "efficiency.first_token_ratio": interval.ttft}
    draws = sample({**inputs, "acceptance": ACCEPTANCE}, n_samples, seed)
    if case.is_acceptance_assumed:
        accepted = tokens_of_step(float(np.ravel(case.scenario.draft_tokens)[0]), draws["acceptance"])
        case = replace(case, scenario=replace(case.scenario, tokens_per_step=accepted))
    engine = constants_of(case.engine, system.accelerator)
    return case, Machine(system, efficiency(engine, draws, case.years, case.tuning))


def _system(row: Row) -> str:
    """The bundled system of a row's accelerator, else as many of it as the row has in its usual node."""
    counted = f"{_number(row, 'n_accelerators'):.0f}x{row['accelerator']}"
    try:
        return _systems().get(row["accelerator"]) or load_system(counted).id
    except InputError:
        raise Unpredictable("hardware not bundled") from None


@functools.cache
def _systems() -> dict[str, str]:
    """The bundled system of each accelerator."""
    return {load_system(one).accelerator.id: one for one in system_ids()}


def _number(row: Row, name: str) -> float:
    """A column as a number that is not negative; 0 where it is empty."""
    text = row.get(name) or "0"
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 <= value <= MOST_MEASURED:
        said = f"row {row['id']}: " if row.get("id") else ""
        raise InputError(f"{said}{name} {shown(text)}: a number that is not negative is expected")
    return value
