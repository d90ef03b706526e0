"""From a pretraining question to its run, and what a search may choose: ``pretrain`` and ``plan`` read here."""

from __future__ import annotations

import math
from dataclasses import replace

from computeledger.arrays import Range, Uncertain
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.schema import System
from computeledger.facts.shape_rule import shape_rule
from computeledger.physics.adapters import check_lora
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.calibration.training import framework_ratio, load_all_factors
from computeledger.physics.parallelism import Layout, check_layout, filled, parse_layout
from computeledger.physics.roofline import parse_training_precision
from computeledger.physics.training.batch import RECOMPUTE, Batch, parse_recompute
from computeledger.physics.training.documents import Documents
from computeledger.physics.training.host import parse_offload
from computeledger.physics.training.sites import Sites
from computeledger.workloads.frameworks import USUAL_STACK, load_framework
from computeledger.workloads.pretraining.candidates import Limits, divides_sequence
from computeledger.workloads.pretraining.documents import PACKINGS, read_documents
from computeledger.workloads.pretraining.estimate import PretrainingScenario, batch_sequences
from computeledger.workloads.pretraining.expressible import stated
from computeledger.workloads.pretraining.pipeline import SCHEDULES
from computeledger.workloads.questions.pretrain import PretrainQuestion

#: One way between two sites where nobody says (assumption: 4,000 km of fibre at two thirds of the speed of light) [s].
USUAL_SITE_LATENCY_S = 0.02


def read_training(question: PretrainQuestion, model: Model) -> PretrainingScenario:
    """The run that a question asks about, its layout still open.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> asked = PretrainQuestion(model="llama-3.1-8b", system="h100-nvl8", sequence_tokens=8192, tokens="2T")
    >>> run = read_training(asked, load_model("llama-3.1-8b"))
    >>> run.batch.sequence_tokens, run.batch.global_sequences, run.tokens
    (8192.0, 512.0, 2000000000000.0)
    """
    _check_model(question, model)
    sequence, framework = median_of(question.sequence_tokens), load_framework(question.stack)
    batch = Batch(
        sequence_tokens=sequence,
        global_sequences=float(batch_sequences(median_of(question.global_batch_tokens), sequence)),
        microbatch_sequences=float(question.microbatch_sequences or 1),
        recompute=_recompute(question) or "selective",
        virtual_stages=float(question.virtual_stages or 1),
        sharded_weights=_sharding(question) == "zero-3",
        documents=_documents(question, sequence),
        stack=replace(
            framework.stack,
            tuning=question.tuning,
            time_ratio=framework_ratio(framework.id),
            recipe=question.recipe or _recipe(question.precision),
            mtp_layers=question.mtp_layers or 0,
            activation_precision=question.activation_precision,
            moment_precision=question.moment_precision,
            optimizer=question.optimizer,
            residual_streams=question.residual_streams or model.residual_streams,
            imbalance=busiest(question),
            offload="" if question.offload is None else parse_offload(question.offload),
            sharded_gradients=_sharding(question) == "zero-2",
        ),
    )
    precision = parse_training_precision(question.precision, model.is_moe)
    tokens = median_of(question.tokens)
    return PretrainingScenario(model, Layout(), precision, batch, tokens, lora=question.lora, sites=_sites(question))


def _check_model(question: PretrainQuestion, model: Model) -> None:
    """Refuse what a model cannot have, and a batch or local steps that a run cannot."""
    for name in ("expert_imbalance", "capacity_factor"):
        if not model.is_moe and getattr(question, name) not in (None, 1.0):
            raise InputError(f"--{name.replace('_', '-')}: {model.id} has no routed experts")
    streams = question.residual_streams
    if streams is not None and streams < model.residual_streams:
        raise InputError(f"--residual-streams {streams:g}: {model.id} has {model.residual_streams}")
    if question.lora is not None:
        check_lora(model, question.lora)
    batch, sequence = median_of(question.global_batch_tokens), median_of(question.sequence_tokens)
    if batch < sequence:
        raise InputError(f"--global-batch-tokens {batch:.0f}: less than one sequence of {sequence:.0f} tokens")
    steps = max(int(median_of(question.tokens) / batch), 1)
    if (question.local_steps or 1) > steps:
        raise InputError(f"--local-steps {question.local_steps}: the whole run has {steps} steps")


def _recipe(precision: str) -> str:
    """Scales that a format's name says: blocks of MXFP8 and NVFP4."""
    return "block" if precision.lower().startswith(("mx", "nv")) else "tensor"


def _documents(question: PretrainQuestion, sequence_tokens: float) -> Documents | None:
    if question.documents is None:
        return None
    return read_documents(question.documents, question.packing or PACKINGS[0], sequence_tokens)


def _sites(question: PretrainQuestion) -> Sites | None:
    if question.sites is None or question.site_bandwidth is None:
        return None
    latency = USUAL_SITE_LATENCY_S if question.site_latency is None else question.site_latency
    return Sites(question.sites, question.site_bandwidth, latency, question.local_steps or 1)


def busiest(question: PretrainQuestion) -> float:
    """Tokens that the busiest rank's experts take, over the mean: as routed, as far as their capacity goes.

    Examples
    --------
    >>> asked = {"model": "deepseek-v3", "system": "h800-nvl8", "expert_imbalance": 1.6}
    >>> busiest(PretrainQuestion(**asked)), busiest(PretrainQuestion(**asked, capacity_factor=1.25))
    (1.6, 1.25)
    """
    routed = median_of(question.expert_imbalance)
    return routed if question.capacity_factor is None else min(routed, median_of(question.capacity_factor))


def context_words(model: Model, sequence_tokens: float) -> str:
    """That sequences are longer than the model's context, which can be trained but is not its configuration; else "".

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> context_words(load_model("qwen3-8b"), 500_000)
    'sequences of 500,000 tokens exceed the context of Qwen/Qwen3-8B: 40,960; timed as if it were extended'
    """
    longest = model.max_context_tokens
    if not longest or sequence_tokens <= longest:
        return ""
    return (
        f"sequences of {sequence_tokens:,.0f} tokens exceed the context of {model.id}: {longest:,}; "
        "timed as if it were extended"
    )


def stated_layout(question: PretrainQuestion, model: Model, system: System) -> tuple[int, Layout | None]:
    """GPUs of the job, and its layout where one is stated: without ``dp`` it fills the GPUs that are counted.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> asked = PretrainQuestion(model="llama-3.1-8b", system="8xh100-nvl8", layout="tp2")
    >>> str(stated_layout(asked, load_model("llama-3.1-8b"), load_system("8xh100-nvl8"))[1])
    'tp2-dp32'
    """
    _check_chips(question, system)
    if question.layout is None:
        return question.gpus or system.n_gpus or int(system.n_gpus_scale_up.value), None
    layout = filled(parse_layout(question.layout), question.gpus or system.n_gpus)
    check_layout(layout, model, question.gpus)
    sequence, cp = median_of(question.sequence_tokens), int(layout.cp)
    if not divides_sequence(cp, sequence):
        near = max(round(sequence / (2 * cp)), 1) * 2 * cp
        raise InputError(
            f"layout {layout}: a sequence of {sequence:.0f} tokens does not divide into {2 * cp} chunks, two for each "
            f"of {cp} context-parallel ranks; nearest: --sequence-tokens {near}, or cp{2 ** round(math.log2(cp))}"
        )
    if layout.pp == 1 and (question.virtual_stages or 1) > 1:
        raise InputError(
            f"--virtual-stages {question.virtual_stages}: layout {layout} has no pipeline; give it pp2 or more"
        )
    return int(layout.n_gpus), layout


def _check_chips(question: PretrainQuestion, system: System) -> None:
    """Refuse a framework on chips that it does not run on."""
    framework, vendor = load_framework(question.stack), system.accelerator.vendor
    if framework.vendors and vendor not in framework.vendors:
        raise InputError(
            f"--framework {framework.id}: {framework.name} does not run on {system.accelerator.id} of {vendor}; it "
            f"runs on chips of {', '.join(framework.vendors)}"
        )


def read_limits(question: PretrainQuestion, n_gpus_scale_up: int) -> Limits:
    """What a search may choose.

    Examples
    --------
    >>> read_limits(PretrainQuestion(model="llama-3.1-8b", system="h100-nvl8", sharding="zero-3"), 8).sharded
    (True,)
    """
    recompute, selective = _recompute(question), load_framework(question.stack).selective
    return Limits(
        n_scale_up=n_gpus_scale_up,
        microbatch_sequences=question.microbatch_sequences,
        virtual_stages=question.virtual_stages,
        recompute=tuple(selective if one == "selective" else one for one in RECOMPUTE)
        if recompute is None
        else (recompute,),
        sharded=(False, True) if _sharding(question) is None else (_sharding(question) == "zero-3",),
        schedules=_schedules(question),
        launcher=question.launcher,
    )


def _schedules(question: PretrainQuestion) -> tuple[str, ...]:
    """Schedules that are asked for, of those that the framework runs."""
    asked = SCHEDULES if question.schedule == "any" else (question.schedule,)
    known = stated(question.launcher).get("schedule", SCHEDULES)
    if not set(asked) & set(known):
        raise InputError(
            f"--schedule {question.schedule}: {load_framework(question.stack).name} has no {question.schedule} "
            f"schedule; it runs {', '.join(known)}, interleaved with --virtual-stages"
        )
    return tuple(one for one in asked if one in known)


def _sharding(question: PretrainQuestion) -> str | None:
    """What ranks share: as given, else as a named framework does; None is searched."""
    if question.sharding is not None or question.framework == USUAL_STACK:
        return question.sharding
    return load_framework(question.framework).sharding


def _recompute(question: PretrainQuestion) -> str | None:
    try:
        asked = None if question.recompute is None else parse_recompute(question.recompute)
    except InputError as error:
        raise InputError(f"--{error}") from None
    return load_framework(question.stack).selective if asked == "selective" else asked


def guessed_ratios(model: Model) -> dict[str, Uncertain]:
    """Ratios of real over modelled steps, wider where a rule guessed the model's shape; none where it did not.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> len(guessed_ratios(load_model("llama-3.1-70b"))), len(guessed_ratios(load_model("70B"))) > 3
    (0, True)
    """
    spread = shape_rule().spread_of("step", model)
    factors = {name: one.value for name, one in load_all_factors(DEFAULT_ENGINE).items() if spread}
    return {
        f"efficiency.{name}": value.widened(spread)
        for name, value in factors.items()
        if name.startswith("training_") and isinstance(value, Range) and "memory" not in name
    }
