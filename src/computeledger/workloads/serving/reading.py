"""From a serving question to its scenario, its layouts and the option to take: ``serve`` and ``plan`` read here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, Uncertain
from computeledger.distributions import Spread
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_model
from computeledger.facts.schema import System
from computeledger.facts.structured import mask_libraries
from computeledger.physics.adapters import check_lora
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.local import local_engines
from computeledger.physics.calibration.serving import load_calibration
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.buffers import SERVER_BUFFERS, Buffers
from computeledger.physics.serving.grammars import Masks
from computeledger.physics.serving.offload import HOST_BYTES_PER_S, LINK_BYTES_PER_S, HostMemory
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.units import format_si
from computeledger.workloads.engines import constants_of, engines, precision_on, reads_prompts_first
from computeledger.workloads.engines.releases import checked_month
from computeledger.workloads.engines.settings import default_of
from computeledger.workloads.questions.adapters import Adapting
from computeledger.workloads.questions.serve import ServeQuestion, limit_s
from computeledger.workloads.questions.setup import EngineMemory, EngineRun
from computeledger.workloads.serving.burst import is_burst
from computeledger.workloads.serving.columns import room
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.images import image_tokens, with_images
from computeledger.workloads.serving.intervals import Interval, interval_for
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    ServingOption,
    cheapest,
    layouts_that_fit,
    search_serving,
)
from computeledger.workloads.serving.settings import EngineSettings
from computeledger.workloads.serving.speculation import speculated


def lengths_of(question: ServeQuestion) -> dict[str, Uncertain]:
    """Tokens of a request; where they differ from request to request, their means.

    Examples
    --------
    >>> lengths_of(ServeQuestion(model="qwen3-8b", system="h100-nvl8"))["output_tokens"]
    1024.0
    """
    given = {name: getattr(question, name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
    return {name: one.mean if isinstance(one, Spread) else one for name, one in given.items()}


def median_lengths(question: ServeQuestion) -> dict[str, Num]:
    """Tokens of a request at their medians.

    Examples
    --------
    >>> median_lengths(ServeQuestion(model="qwen3-8b", system="h100-nvl8"))["input_tokens"]
    4096.0
    """
    return {name: median_of(value) for name, value in lengths_of(question).items()}


def model_of(question: ServeQuestion) -> Model:
    """The model that is served, with the context that the question assumes and the adapters that its requests name.

    Examples
    --------
    >>> model_of(ServeQuestion(model="qwen3-8b", system="h100-nvl8", context_tokens=131072)).max_context_tokens
    131072
    """
    model = adapted(with_images(question, load_model(question.model)), question)
    return model if question.context_tokens is None else replace(model, max_context_tokens=question.context_tokens)


def adapted(model: Model, question: Adapting) -> Model:
    """The model with the adapters that requests name; as it is where they name none.

    Examples
    --------
    >>> asked = ServeQuestion(model="qwen3-8b", system="h100-nvl8", adapters=32, lora_rank=16, max_loras=8)
    >>> adapted(load_model("qwen3-8b"), asked).adapters.served.n_slots
    8
    """
    lora = question.served_lora
    return model if lora is None else replace(model, adapters=check_lora(model, lora))


def with_copies(model: Model, n_copies: int) -> Model:
    """The model with copies of its busy experts: as many more to hold and to spread, no more per token.

    Examples
    --------
    >>> with_copies(load_model("deepseek-v3"), 32).n_experts
    288
    """
    if not n_copies:
        return model
    if not model.is_moe:
        raise InputError(f"--redundant-experts {n_copies}: {model.id} has no routed experts to copy")
    layers = tuple(
        replace(one, feed_forward=replace(one.feed_forward, n_experts=one.feed_forward.n_experts + n_copies))
        if one.feed_forward.n_experts
        else one
        for one in model.layers
    )
    stored = model.stored
    if stored is not None:
        stored = replace(stored, experts=stored.experts * (1 + n_copies / model.n_experts))
    return replace(model, layers=layers, stored=stored)


def read_serving(question: ServeQuestion, numbers: Mapping[str, Num], usd_per_gpu_hour: Num) -> ServingScenario:
    """The scenario of a question, its layout and batch still open.

    Examples
    --------
    >>> asked = ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", precision="fp8")
    >>> read_serving(asked, lengths_of(asked), 2.0).precision.dense
    'fp8'
    """
    model = with_copies(model_of(question), question.redundant_experts)
    settings, in_flight = settings_asked(question), question.batch or 0.0
    prefilled, cached = numbers["input_tokens"], numbers["cached_tokens"]
    if question.no_prefix_cache:
        prefilled, cached = prefilled + cached, 0.0 * cached
    seen = image_tokens(model, question.cached_images, not question.no_prefix_cache)
    if model.images is not None:
        prefilled, cached = prefilled + seen.new, cached + seen.cached
    rounds = float("inf") if question.rounds is None else float(question.rounds)
    if question.rounds is not None and question.equal_lengths and reads_prompts_first(question.engine):
        rounds = 1.0  # every round starts together
    return ServingScenario(
        **speculated(question, model, numbers),
        layout=Layout(),
        precision=precision_on(question.engine, model, question.precision, question.kv_precision),
        input_tokens=prefilled,
        output_tokens=numbers["output_tokens"],
        batch=1.0,
        cached_tokens=cached,
        usd_per_gpu_hour=usd_per_gpu_hour,
        rounds=rounds,
        two_batches=question.two_batches,
        statistic=question.statistic,
        waiting=max(in_flight - float(settings.max_batch), 0.0),
        host=host_memory(question),
        settings=settings,
        masks=masks_asked(question),
        images_per_token=seen.encoded / prefilled if seen.encoded else 0.0,
    )


def masks_asked(question: ServeQuestion) -> Masks | None:
    """What structured output takes on the host; None where none is asked for.

    Examples
    --------
    >>> masks_asked(ServeQuestion(model="qwen3-8b", system="h100-nvl8", structured="xgrammar")).mask_s
    3.9e-05
    """
    if question.structured is None:
        return None
    facts = mask_libraries()[question.structured].facts
    share = 1.0 if question.structured_fraction is None else question.structured_fraction
    return Masks(
        mask_s=facts["mask_p75_s"].value if question.mask_time is None else median_of(question.mask_time),
        compile_s=facts["compile_p50_s"].value,
        sequences_fraction=share,
        new_schemas_fraction=question.new_schemas or 0.0,
        is_overlapped=question.engine not in MASKS_FIRST,
    )


#: Engines whose scheduler makes the masks before a step is launched (vLLM issue 23881 and pull request 24300, 2025); of
#: the others it is assumed that masks are made while the GPU computes, as XGrammar's paper (arXiv 2411.15100) has it.
MASKS_FIRST = ("vllm",)


def host_memory(question: ServeQuestion) -> HostMemory:
    """What stays in host memory; llama.cpp multiplies it there, other engines copy it to the accelerator.

    Examples
    --------
    >>> host_memory(ServeQuestion(model="qwen3-8b", system="h100-nvl8", host_weights=0.5, host_link=50e9)).is_streamed
    True
    """
    return HostMemory(
        weights_fraction=question.host_weights,
        experts_fraction=question.host_experts,
        kv_fraction=question.host_kv,
        is_streamed=question.engine in engines() and not engines()[question.engine].computes_on_host,
        host_bytes_per_s=question.host_bandwidth or HOST_BYTES_PER_S,
        link_bytes_per_s=question.host_link or LINK_BYTES_PER_S,
        buffers=buffers_asked(question, question.engine),
    )


def buffers_asked(question: EngineMemory, engine: str) -> Buffers:
    """What an engine keeps of a chip's memory beside weights and cache, as a question has it run.

    Examples
    --------
    >>> [buffers_asked(EngineRun(memory_fraction=0.5), one).whole_fraction for one in ("vllm", "sglang")]
    [0.5, 0.98]
    >>> buffers_asked(EngineRun(backend_version="0.12.0"), "vllm").whole_fraction
    0.9
    """
    if engine not in engines():
        kept, share = SERVER_BUFFERS, question.memory_fraction
        return kept if share is None else kept.with_share(share, "free")
    kept, fraction = engines()[engine].buffers_of(question.backend_version), question.memory_fraction
    if fraction is None and question.backend_version is not None:
        default = default_of(engine, "memory_fraction", version=question.backend_version)
        fraction = None if default is None else default.value
    if fraction is not None:
        kept = kept.with_share(fraction, engines()[engine].settings["memory_fraction"].of)
    if question.chunk_tokens is not None:
        kept = replace(kept, chunk_tokens=float(question.chunk_tokens))
    return kept.without_graphs() if question.eager else kept


def settings_asked(question: EngineRun) -> EngineSettings:
    """What the engine was told, as far as it decides times.

    Examples
    --------
    >>> settings_asked(EngineRun(max_batch=64)).max_batch, settings_asked(EngineRun()).max_batch
    (64.0, inf)
    """
    return EngineSettings(
        max_batch=np.inf if question.max_batch is None else float(question.max_batch),
        chunk_tokens=CHUNK_TOKENS if question.chunk_tokens is None else float(question.chunk_tokens),
        is_eager=question.eager,
    )


def check_request(scenario: ServingScenario) -> None:
    """Refuse requests beyond the model's context.

    Examples
    --------
    >>> asked = ServeQuestion(model="qwen3-8b", system="h100-nvl8", input_tokens="500K")
    >>> check_request(read_serving(asked, lengths_of(asked), 2.0))
    Traceback (most recent call last):
    computeledger.errors.InputError: 501,024 tokens per request exceed the context of Qwen/Qwen3-8B: 40,960; ...
    """
    model = scenario.model
    if not fits_context(scenario):
        raise InputError(
            f"{int(scenario.held_tokens):,} tokens per request exceed the context of {model.id}: "
            f"{model.max_context_tokens:,}; --context-tokens states a longer one (YaRN)"
        )


def fits_context(scenario: ServingScenario) -> bool:
    """Say whether a request stays within the model's context, as configured or assumed.

    Examples
    --------
    >>> asked = ServeQuestion(model="qwen3-8b", system="h100-nvl8", input_tokens="500K")
    >>> fits_context(read_serving(asked, lengths_of(asked), 2.0))
    False
    """
    longest = scenario.model.max_context_tokens
    return not longest or bool(scenario.held_tokens <= longest)


def layouts_to_try(question: ServeQuestion, scenario: ServingScenario, machine: Machine) -> list[Layout]:
    """The layout that is stated, or all that hold the model.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> asked = ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", layout="tp2")
    >>> layouts_to_try(asked, read_serving(asked, lengths_of(asked), 2.0), Machine(load_system("h100-nvl8")))
    [Layout(tp=2, pp=1, dp=1, cp=1, ep=1)]
    """
    if question.layout is None:
        with with_remedies(scenario, machine.system, question.engine, question.gpus):
            return layouts_that_fit(scenario, machine, question.gpus)
    at_hand = question.gpus or machine.system.n_gpus
    return [stated_layout(question.layout, scenario.model, at_hand)]


def stated_layout(text: str, model: Model, gpus: int | None = None) -> Layout:
    """A layout as it is written, that serving can run.

    Examples
    --------
    >>> stated_layout("tp1-dp144-ep144", with_copies(load_model("deepseek-v3"), 32)).n_gpus
    144
    """
    layout = check_layout(parse_layout(text), model, gpus)
    if int(layout.cp) > 1:
        raise InputError(f"layout {layout}: context parallelism is for training and prefill; serving decodes with cp1")
    return layout


def layouts_to_search(question: ServeQuestion, layouts: list[Layout]) -> list[Layout]:
    """Layouts that the engine can run, and its launcher where a launch command is asked for.

    Examples
    --------
    >>> asked = ServeQuestion(model="qwen3-8b", system="2xl40s", backend="llama.cpp")
    >>> [str(one) for one in layouts_to_search(asked, [Layout(tp=2), Layout(dp=2, ep=2)])]
    ['tp2']
    """
    able = layouts_of_engine(question.engine, layouts)
    launcher = question.emitted_engine or question.engine
    if (question.emit is None and question.engine not in local_engines()) or launcher not in engines():
        return able
    engine = engines()[launcher]
    launched = [one for one in able if engine.problem(one) is None]
    if not launched:
        raise InputError(f"{engine.id}: {engine.problem(able[0])}")
    return launched


def layouts_of_engine(engine: str, layouts: list[Layout]) -> list[Layout]:
    """Layouts of kinds of parallelism that an engine has; an engine that is not known here has all.

    Examples
    --------
    >>> [str(one) for one in layouts_of_engine("lmdeploy", [Layout(tp=2), Layout(pp=2)])]
    ['tp2']
    """
    if engine not in engines():
        return layouts
    refusals = [engines()[engine].refusal(one) for one in layouts]
    able = [one for one, refusal in zip(layouts, refusals, strict=True) if refusal is None]
    if not able:
        raise InputError(f"layout {layouts[0]}: {engine}: {refusals[0]}")
    return able


def interval_asked(question: ServeQuestion, model: Model, system: System) -> Interval | None:
    """The interval of a question's class; the physical limit and a machine's own profile have none.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> asked = ServeQuestion(model="qwen3-8b", system="h100-nvl8", backend="ideal")
    >>> interval_asked(asked, load_model("qwen3-8b"), load_system("h100-nvl8")) is None
    True
    """
    engine, kind, stated = question.engine, question.modes[0], question.layout
    constants = constants_of(engine, system.accelerator)
    if kind == "aggregated" and stated and parse_layout(stated).n_gpus > system.n_gpus_scale_up.value:
        kind = "spread"
    if engine in local_engines() and question.batch != 1:
        kind = "several"
    elif kind == "aggregated" and question.rounds and is_burst(question.batch or math.inf, question.rounds):
        kind = "burst"
    elif kind == "aggregated" and question.batch == 1:
        kind = "alone"
    weights = precision_on(engine, model, question.precision, question.kv_precision).name
    if constants in ("ideal", "assumed") or user_path(engine) is not None:
        return None
    return interval_for(model, weights, system, engine, kind, question.tuning)


def run_asked(question: ServeQuestion) -> tuple[float | None, str]:
    """Age of the engine's release where one is named, and whose deployment it is.

    Examples
    --------
    >>> run_asked(ServeQuestion(model="qwen3-8b", system="h100-nvl8", backend_version="2025-01"))
    (-1.0, 'usual')
    """
    if question.backend_version is None:
        return None, question.tuning
    return load_calibration().years_of(checked_month(question.engine, question.backend_version)), question.tuning


def search_options(
    question: ServeQuestion, scenario: ServingScenario, layouts: list[Layout], machine: Machine
) -> list[ServingOption]:
    """Every layout at every batch, or at the one that is stated.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> asked = ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", batch=8)
    >>> scenario = read_serving(asked, lengths_of(asked), 2.0)
    >>> [one.batch for one in search_options(asked, scenario, [Layout()], Machine(load_system("h100-nvl8")))]
    [8]
    """
    made_of = (scenario, machine.system, question.engine, question.gpus)
    stated = None if question.batch is None else [min(question.batch, question.max_batch or question.batch)]
    limits = {"tpot": SLOWEST_TPOT_S, **question.limits} if stated is None and not question.promises else {}
    most = tuple((f"{name}_s", limit) for name, limit in limits.items())
    with with_remedies(*made_of, has_layout=question.layout is not None):
        found = search_serving(scenario, layouts, machine, stated, limits=most)
    if found:
        return found
    held = np.ravel(room(scenario, layouts, machine))
    best = int(np.argmax(held))
    raise InputError(
        f"--batch {question.batch}: does not fit; the largest batch that fits is {int(held[best]):,} ({layouts[best]})"
    )


def choose_option(question: ServeQuestion, found: Sequence[ServingOption]) -> ServingOption:
    """The layout for a stated batch, or the cheapest option that is fast enough.

    Examples
    --------
    >>> asked = ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", tpot="1ms")
    >>> choose_option(asked, [ServingOption(Layout(), 8, 0.02, 0.1, 400.0, 1.0, 2.0, 1.0)])
    Traceback (most recent call last):
    computeledger.errors.InputError: --tpot 1 ms: the fastest layout is slower: tp1 at batch 8 takes 20 ms
    """
    if question.batch is not None:
        in_order = sorted(found, key=lambda one: str(one.layout))
        return max(in_order, key=lambda one: one.output_tokens_per_s_per_gpu)
    if question.ttft is not None:
        first, best_ttft_s = limit_s(question.ttft), min(one.ttft_s for one in found)
        found = [one for one in found if one.ttft_s <= first]
        if not found:
            best = format_si(best_ttft_s, "s")
            raise InputError(f"--ttft {format_si(first, 's')}: no layout reaches that TTFT; the best is {best}")
    limit = SLOWEST_TPOT_S if question.tpot is None else limit_s(question.tpot)
    best_option = cheapest(found, limit)
    if best_option.tpot_s > limit and question.tpot is not None:
        words = f"{best_option.layout} at batch {best_option.batch:,} takes {format_si(best_option.tpot_s, 's')}"
        raise InputError(f"--tpot {format_si(limit, 's')}: the fastest layout is slower: {words}")
    return best_option
