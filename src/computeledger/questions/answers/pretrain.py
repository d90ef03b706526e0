"""From parsed options to a pretraining document: the call that the command line and the web share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import median
from computeledger.errors import DoesNotFitError, InputError
from computeledger.physics.critical_batch import growing_batch
from computeledger.questions.answers.pretrain_anchor import anchored_result
from computeledger.questions.answers.pretrain_question import Question, read_question
from computeledger.questions.answers.setup import multiplied_in
from computeledger.questions.documents import records as documents
from computeledger.questions.documents import training as documents_training
from computeledger.workloads.advice import advise, larger_job, remedies, what_binds
from computeledger.workloads.anchor import Anchored, spread_of
from computeledger.workloads.effective_run import EffectiveRun, estimate_run
from computeledger.workloads.figures import pretraining_figures
from computeledger.workloads.megatron import megatron_launch
from computeledger.workloads.pretraining import (
    PretrainingResult,
    PretrainingScenario,
    estimate_pretraining,
)
from computeledger.workloads.pretraining_candidates import Limits, candidates
from computeledger.workloads.pretraining_scaling import counts_around, grow, margins, n_level, scale
from computeledger.workloads.pretraining_search import Swept, configured_run, evaluate
from computeledger.workloads.step_working import step_working

#: The first part of a run with a growing batch has this share of the last batch (assumption: Llama 3 405B began with a
#: quarter, DeepSeek-V3 with a fifth).
FIRST_BATCH_FRACTION = 0.125
#: Scale-up domains that a growing batch is also tried on.
LARGER_DOMAINS = (72, 576)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes
    ----------
    scenario : PretrainingScenario
        The configuration that is answered.
    n_gpus : int
        GPUs of the job [-].
    swept : Swept or None
        What else was tried; None where nothing could be.
    """

    scenario: PretrainingScenario
    n_gpus: int
    swept: Swept | None


def answer_pretrain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger pretrain``."""
    question = read_question(options)
    found = _find(question, options)
    result = estimate_pretraining(found.scenario, question.machine)
    held: Anchored | None = None
    if options.get("anchor") is not None:
        result, held, said = anchored_result(options["anchor"], found.scenario, question.machine)
    run = estimate_run(result, question.reliability, question.facility_w_per_gpu)
    system = question.machine.system
    document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
    document |= documents_training.pretrain_document(run, held)
    document["multiplied_in"] = multiplied_in(system.accelerator, [document["precision"]])
    if held is not None:
        document["anchor"] = documents_training.anchor_document(held, said)
    document |= _beside(question, found, result, options, held)
    document |= {"price": question.price, "efficiency_profile": "calibrated"}
    document |= {"asked_global_batch_tokens": question.wanted_tokens}
    document["stops"] = documents_training.stops_document(question.stops)
    if options["working"] or options.get("html_file") is not None:
        document["working"] = documents.working_document(_figures(result, run), question.price)
        document["efficiency"] = documents.efficiency_document()
        document["step"] = documents_training.step_document(step_working(result, question.typical), result)
    return document


def _figures(result: PretrainingResult, run: EffectiveRun) -> tuple[Any, ...]:
    return (*pretraining_figures(result), *run.figures)


def _find(question: Question, options: Mapping[str, Any]) -> Found:
    """The configuration that was given, or the best one, and what else was tried."""
    scenario, n_gpus = question.scenario, question.n_gpus
    if options.get("objective") == "gpu-hours":
        n_gpus = _leanest(question)
    try:
        scenario, swept = configured_run(scenario, n_gpus, _only(question), question.typical)
    except DoesNotFitError as error:
        raise DoesNotFitError(f"{error}; {_instead(question, n_gpus)}") from None
    if swept is not None:
        return Found(scenario, n_gpus, swept)
    every = candidates(scenario, n_gpus, question.limits)
    return Found(scenario, n_gpus, evaluate(scenario, every, question.typical) if every.size else None)


def _only(question: Question) -> Limits:
    """The given layout, everything else free as far as it was left out."""
    layouts = None if question.layout is None else (question.layout,)
    return replace(question.limits, layouts=layouts)


def _instead(question: Question, n_gpus: int) -> str:
    return larger_job(question.scenario, n_gpus, question.typical, question.limits)


def _leanest(question: Question) -> int:
    """The number of GPUs, by halving, that takes the least GPU-hours."""
    counts = [question.n_gpus]
    while counts[-1] % 2 == 0:
        counts.append(counts[-1] // 2)
    scaled = scale(question.scenario, sorted(counts), question.typical, question.typical_reliability, question.limits)
    best = min(scaled, key=lambda one: one.gpu_hours)
    if best.option is None:
        raise InputError(next(one.problem for one in scaled if one.n_gpus == question.n_gpus))
    return best.n_gpus


def _beside(
    question: Question, found: Found, result: PretrainingResult, options: Mapping[str, Any], held: Anchored | None
) -> dict[str, Any]:
    """What stands beside the answer: other layouts, what binds and what to change, scaling, launch arguments."""
    factor = 1.0 if held is None else median(held.factor)
    best = found.swept.best(options["top"]) if found.swept is not None else []
    within = spread_of(found.scenario.model.is_moe).within
    compared = margins(found.scenario, best, question.machine, within) if best else []
    out: dict[str, Any] = {"best_layouts": [documents_training.margin_document(one, factor) for one in compared]}
    out["n_configurations"] = found.swept.candidates.size if found.swept is not None else 0
    out["n_fitting"] = int(found.swept.fits.sum()) if found.swept is not None else 0
    out["n_level"] = 0 if found.swept is None else n_level(found.swept.step_s[found.swept.fits], within)
    out["binds"] = what_binds(result)
    out["advice"] = [
        documents_training.advice_document(one) for one in advise(found.scenario, question.typical, question.limits)
    ]
    if not bool(median(result.memory.total_bytes) <= result.capacity_bytes):
        out["remedies"] = _remedies(question, found)
    if options.get("scaling"):
        out["scaling"] = _scaling(question, found, factor)
    if options.get("growing_batch"):
        out["growing_batch"] = _growing(question, found)
    if options.get("emit") is not None:
        blackwell = "fp4" in question.machine.system.accelerator.peak_flop_per_s
        launch = megatron_launch(found.scenario, "mxfp8" if blackwell else "blockwise")
        out["launch"] = documents_training.launch_document(launch)
    return out


def _remedies(question: Question, found: Found) -> list[dict[str, Any]]:
    listed = remedies(found.scenario, question.typical, question.limits)
    if listed:
        return [documents_training.remedy_document(one) for one in listed]
    return [{"change": _instead(question, found.n_gpus)}]


def _scaling(question: Question, found: Found, factor: float) -> dict[str, Any]:
    counts, setting = counts_around(found.n_gpus), (question.typical, question.typical_reliability, question.limits)
    return {
        name: [
            documents_training.scaled_document(one, factor)
            for one in scale(found.scenario, counts, *setting, weak=name == "weak")
        ]
        for name in ("strong", "weak")
    }


def _growing(question: Question, found: Found) -> dict[str, Any]:
    last = median(found.scenario.global_batch_tokens)
    phases = growing_batch(FIRST_BATCH_FRACTION * last, last, median(found.scenario.tokens))
    domain = int(question.machine.system.n_gpus_scale_up.value)
    larger = next((size for size in LARGER_DOMAINS if size > domain), 8 * domain)
    setting = question.typical, question.typical_reliability, question.limits
    grown = grow(found.scenario, found.n_gpus, phases, setting, larger)
    return documents_training.grown_document(grown, domain, larger)
