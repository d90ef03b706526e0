"""Pretraining results as JSON documents, one shape for the command line, the report and the web."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, median
from computeledger.economics.scaling.worth import Price
from computeledger.errors import InputError
from computeledger.facts.schema import System
from computeledger.physics.calibration.training import load_training_factors
from computeledger.physics.critical_batch import critical_batch_facts
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.documents import Documents
from computeledger.physics.training.memory import TRAINING_HBM_FRACTION, is_accounted
from computeledger.physics.training.memory_phases import stage_phases
from computeledger.questions.answers.pretraining.stages import TrainedStage
from computeledger.questions.document import document, lora_document, picked
from computeledger.units import DAY_S, HOUR_S
from computeledger.validation.accuracy.nearest import Wanted, nearest_figures
from computeledger.workloads.anchor_fit import ends
from computeledger.workloads.frameworks import USUAL_STACK, load_framework
from computeledger.workloads.pretraining.advice import Advice, Remedy, step_share_words, what_binds
from computeledger.workloads.pretraining.anchor import MeasuredStep, TrainingAnchoring, log_width
from computeledger.workloads.pretraining.confidence import confidence_of, measured_alike
from computeledger.workloads.pretraining.estimate import BETWEEN_SITES, PretrainingResult, PretrainingScenario, as_run
from computeledger.workloads.pretraining.levers import Lever
from computeledger.workloads.pretraining.pipeline import passes
from computeledger.workloads.pretraining.reading import context_words
from computeledger.workloads.pretraining.run import EffectiveRun
from computeledger.workloads.pretraining.scaling import GrownPhase, Margin, Scaled
from computeledger.workloads.pretraining.search import PretrainingOption
from computeledger.workloads.pretraining.step_working import NEGLIGIBLE_FRACTION, StepWorking
from computeledger.workloads.pretraining.timeline import MOST_ROUNDS, Pipeline, timeline
from computeledger.workloads.result import quantity

TENANTS = ("weights", "gradients", "optimizer", "activations", "logits", "workspace")


def pretrain_document(run: EffectiveRun, is_anchored: bool) -> dict[str, Any]:
    """Pretraining at one layout, without and with failures."""
    result = run.result
    scenario, batch = result.scenario, result.scenario.batch
    out = {
        "model": scenario.model.id,
        "layout": str(scenario.layout),
        "n_gpus": int(median(scenario.layout.n_gpus)),
        "microbatch_sequences": median(batch.microbatch_sequences),
        "microbatches": median(result.step.microbatches),
        "recompute": batch.recompute,
        "schedule": scenario.schedule,
        "virtual_stages": median(batch.virtual_stages),
        "sharded_weights": batch.sharded_weights,
        "sharded_gradients": batch.stack.sharded_gradients,
        "activation_precision": batch.stack.activation_precision,
        "moment_precision": batch.stack.moment_precision,
        "optimizer": batch.stack.optimizer,
        "offload": batch.stack.offload,
        "mtp_layers": batch.stack.mtp_layers,
        "residual_streams": max(median(batch.stack.residual_streams), scenario.model.residual_streams),
        "recipe": batch.stack.recipe,
        "precision": scenario.precision.name,
        "sequence_tokens": median(batch.sequence_tokens),
        "beyond_context": context_words(scenario.model, median(batch.sequence_tokens)),
        "global_batch_tokens": median(scenario.global_batch_tokens),
        "tokens": quantity(scenario.tokens, "tokens"),
        **_quantities(run),
        "flop_per_token": median(result.flop_per_token),
        "peak_flop_per_s": result.peak_flop_per_s,
        "peak_precision": "bf16",
        "goodput": goodput_document(run),
        "components": {
            name: quantity(part, "s")
            for name, part in result.components_s.items()
            if median(part) > NEGLIGIBLE_FRACTION * median(result.step_s)
        },
        "binds_words": step_share_words(what_binds(result)),
        "memory_bytes": {
            **{name: median(getattr(result.memory, f"{name}_bytes")) for name in TENANTS},
            "total": median(result.memory.total_bytes),
            "usable": result.capacity_bytes,
            "capacity": result.capacity_bytes / TRAINING_HBM_FRACTION,
        },
        "memory_stages": _stages(scenario),
        **_host(result),
        "fits": bool(np.all(result.fits)),
        "anchored": is_anchored,
    }
    if batch.documents is not None:
        out["documents"] = _documents(scenario)
    if scenario.sites is not None:
        out["sites"] = asdict(scenario.sites)
    if scenario.lora is not None:
        out["lora"] = lora_document(scenario.model, scenario.lora)
    return out


def _stages(scenario: PretrainingScenario) -> list[dict[str, Any]]:
    layout, batch = as_run(scenario)
    return [asdict(one) for one in stage_phases(scenario.model, batch, layout)]


def _documents(scenario: PretrainingScenario) -> dict[str, Any]:
    """What lies in sequences, and what its unevenness costs."""
    batch, layout, held = scenario.batch, scenario.layout, scenario.batch.documents or Documents(1.0)
    return {
        "attended_tokens": held.attended_tokens,
        "useful_fraction": held.useful_fraction,
        "attention_ratio": median(held.attention_ratio(layout.dp, layout.cp, batch.global_sequences / layout.dp)),
    }


def _host(result: PretrainingResult) -> dict[str, Any]:
    """What lies in the host's memory, where anything does."""
    if not result.scenario.batch.offloaded:
        return {}
    return {"host_bytes": median(result.memory.host_bytes), "host_usable_bytes": median(result.host_capacity_bytes)}


def _quantities(run: EffectiveRun) -> dict[str, Any]:
    result, days = run.result, {"days": "days", "effective_days": "days"}
    step = ("step_s", "tokens_per_s_per_gpu", "mfu_fraction", "hfu_fraction", "utilization_fraction")
    return {
        **picked(result, *step, "gpu_hours", "days", units=days),
        "usd": quantity(result.gpu_hours * result.scenario.usd_per_gpu_hour, "USD"),
        **picked(run, "goodput_fraction", "effective_gpu_hours", "effective_days", units=days),
        "effective_usd": quantity(run.usd, "USD"),
        **picked(run, "energy_j"),
    }


def framework_document(framework: str, layout: Layout) -> dict[str, Any]:
    """A framework, and the layout as it writes it."""
    found = load_framework(framework)
    return {"id": found.id, "name": found.name, "layout": found.written(layout)}


def confidence_document(result: PretrainingResult, system: System, framework: str) -> dict[str, Any]:
    """The class that an answer's interval comes from, and the measurements that are most like the question."""
    scenario = result.scenario
    held, alike = confidence_of(scenario, system), measured_alike(scenario, system, framework)
    interval = {"class": held.name, "why": held.sentence}
    if alike is None:
        return {"interval": interval}
    kind = "moe" if scenario.model.is_moe else "dense"
    wanted = Wanted(
        "training", scenario.model.id, system.accelerator.id, framework, ("step_time",), chosen=(("class", kind),)
    )
    near = nearest_figures(wanted, {"step_time": median(result.step_s)})
    return {"interval": interval, "measured_alike": {**asdict(alike), **document(near)}}


def goodput_document(run: EffectiveRun) -> dict[str, Any]:
    """Where a run's time goes."""
    spent = run.goodput
    return {
        "mean_time_between_failures_s": quantity(spent.mean_time_between_failures_s, "s"),
        "checkpoint_interval_s": quantity(spent.interval_s, "s"),
        "failures": quantity(run.failures, ""),
        "effective_fraction": quantity(spent.effective_fraction, ""),
        "shares": {
            name: quantity(getattr(spent, f"{name}_fraction"), "")
            for name in ("useful", "straggler", "pause", "lost", "restart", "planned")
        },
    }


def stops_document(stops: Mapping[str, tuple[Uncertain, str]]) -> dict[str, Any]:
    """Rates and times of stops with their grounds."""
    out = {}
    for name, (value, why) in stops.items():
        low, high = (value.low, value.high) if isinstance(value, Range) else (value, value)
        out[name] = {"low": low, "high": high, "why": why}
    return out


def memory_ratio_document(batch: Batch, framework: str) -> dict[str, Any]:
    """Real over modelled peak memory, with its source; a framework that nobody named has the spread of all stacks."""
    known = framework != USUAL_STACK and is_accounted(batch.sharded_weights, batch.stack)
    factor = load_training_factors()["training_memory_ratio" if known else "training_memory_other_ratio"]
    value = factor.value
    low, high = (value.low, value.high) if isinstance(value, Range) else (value, value)
    return {"low": low, "high": high, "why": factor.why, "source": factor.source}


def option_document(one: PretrainingOption, factor: float = 1.0) -> dict[str, Any]:
    """A point of a search."""
    return {
        "layout": str(one.layout),
        "microbatch_sequences": one.microbatch_sequences,
        "recompute": one.recompute,
        "schedule": one.schedule,
        "virtual_stages": one.virtual_stages,
        "sharded_weights": one.sharded_weights,
        "step_s": one.step_s * factor,
        "mfu_fraction": one.mfu_fraction / factor,
        "memory_bytes": one.memory_bytes,
    }


def margin_document(one: Margin, factor: float) -> dict[str, Any]:
    """A point of a search against the winner."""
    return {
        **option_document(one.option, factor),
        "step_ratio": quantity(one.step_ratio, ""),
        "level": one.level,
        "faster_fraction": one.faster_fraction,
    }


def advice_document(one: Advice) -> dict[str, Any]:
    """A change and what it gains."""
    return asdict(one)


def remedy_document(one: Remedy) -> dict[str, Any]:
    """A configuration that fits instead."""
    return {"change": one.change, **option_document(one.option), "slower_ratio": one.slower_ratio}


def lever_document(one: Lever, now: Lever) -> dict[str, Any]:
    """A change, what it frees on the GPU and how much longer a step takes."""
    return {**asdict(one), "freed_bytes": now.memory_bytes - one.memory_bytes, "step_ratio": one.step_s / now.step_s}


def anchor_document(anchoring: TrainingAnchoring) -> dict[str, Any]:
    """What a user's measurements taught: each with its residual, the interval before and after; the first in full."""
    first, lesson = anchoring.steps[0], anchoring.lesson
    return {
        **_measured_document(first),
        "measured_ratio": float(np.exp(np.mean(np.log(lesson.ratios)))),
        "shrinkage_fraction": lesson.carried_fraction,
        "narrowed_fraction": log_width(lesson.after) / log_width(lesson.before),
        "factor": quantity(anchoring.factor, ""),
        "n": len(anchoring.steps),
        "measured": [
            {**_measured_document(one), "measured_over_modelled": one.ratio, "residual_fraction": left}
            for one, left in zip(anchoring.steps, lesson.residuals, strict=True)
        ],
        "carried_over": lesson.shift,
        "interval_before": ends(lesson.before),
        "interval_after": ends(lesson.after),
        "differ_ratio": lesson.differ_ratio,
        "widened_for_difference": lesson.widening,
    }


def _measured_document(one: MeasuredStep) -> dict[str, Any]:
    log = one.anchor.log
    return {
        "anchor": one.anchor.text,
        "tool": "" if log is None else log.tool,
        "taken": "as stated" if log is None else log.rule,
        "layout": str(one.scenario.layout),
        "model": one.scenario.model.id,
        "n_layers": one.scenario.model.n_layers,
        "measured_step_s": one.measured_s,
        "modelled_step_s": one.modelled_s,
        "same_configuration": one.is_same,
    }


def scaled_document(one: Scaled, factor: float) -> dict[str, Any]:
    """The best layout on a number of GPUs."""
    out: dict[str, Any] = {"n_gpus": one.n_gpus, "global_batch_tokens": one.global_batch_tokens}
    if one.option is None:
        return {**out, "problem": one.problem}
    return {
        **out,
        **option_document(one.option, factor),
        "tokens_per_s_per_gpu": one.tokens_per_s_per_gpu / factor,
        "goodput_fraction": one.goodput_fraction,
        "effective_days": one.elapsed_s / DAY_S * factor,
        "effective_gpu_hours": one.gpu_hours * factor,
        "beyond_critical_batch": one.beyond_critical,
        "worth_fraction": one.worth_fraction,
    }


def grown_document(grown: list[GrownPhase], domain: int, larger: int) -> dict[str, Any]:
    """A run whose batch grows, here and on a larger scale-up domain."""
    rows = [
        {
            **picked(one.phase, "start_tokens", "end_tokens", "batch_tokens"),
            "here": scaled_document(one.here, 1.0),
            "larger": scaled_document(one.larger, 1.0),
        }
        for one in grown
    ]
    days = {name: sum(getattr(one, name).elapsed_s for one in grown) / DAY_S for name in ("here", "larger")}
    facts = critical_batch_facts()
    return {
        "phases": rows,
        "n_scale_up": domain,
        "n_scale_up_larger": larger,
        "effective_days": {name: value if math.isfinite(value) else None for name, value in days.items()},
        "measured_batch_tokens": facts["plateau_batch_tokens"].value,
        "sources": [facts[name].source for name in ("plateau_batch_tokens", "exponent_ratio")],
    }


def stage_document(one: TrainedStage) -> dict[str, Any]:
    """A stage at its configuration, without failures."""
    result, batch = one.result, one.result.scenario.batch
    hours = one.stage.tokens * result.gpu_s_per_token / HOUR_S
    return {
        "stage": one.stage.text,
        "start_tokens": one.stage.start_tokens,
        "end_tokens": one.stage.end_tokens,
        "layout": str(result.scenario.layout),
        "sequence_tokens": median(batch.sequence_tokens),
        "global_batch_tokens": median(result.scenario.global_batch_tokens),
        "step_s": quantity(result.step_s, "s"),
        "mfu_fraction": quantity(result.mfu_fraction, ""),
        "gpu_hours": quantity(hours, "GPU-hours"),
        "days": quantity(hours * HOUR_S / DAY_S / result.scenario.layout.n_gpus, "days"),
        "fits": bool(np.all(result.fits)),
    }


def worth_document(prices: Sequence[Price], tokens: float) -> dict[str, Any]:
    """What the tokens of a run are worth: reason by reason, and together."""
    together: Num = np.prod(np.broadcast_arrays(*(one.worth_fraction for one in prices)), axis=0)
    parts = [
        {"name": one.name, "worth_fraction": quantity(one.worth_fraction, ""), "loss": quantity(one.loss, ""),
         "why": one.why, "source": one.source}
        for one in prices
    ]  # fmt: skip
    return {"tokens": quantity(together * tokens, "tokens"), "fraction": quantity(together, ""), "parts": parts}


def step_document(working: StepWorking, result: PretrainingResult) -> dict[str, Any]:
    """A step taken apart, with its timeline."""
    rows = [
        {
            **picked(
                one,
                "name",
                "bound",
                "flop",
                "bytes",
                "time_s",
                "share_fraction",
                "limit_fraction",
                "exposed_s",
                "hidden_s",
                "phases",
            )
        }
        for one in working.operations
    ]
    return {
        "operations": rows,
        "phases_s": working.phase_s,
        "step_s": working.step_s,
        "limit_s": working.limit_s,
        "limit_fraction": working.limit_s / working.step_s,
        "timeline": timeline_document(result),
    }


def timeline_document(result: PretrainingResult, rounds: int = MOST_ROUNDS) -> dict[str, Any]:
    """Every pass on every stage of one pipeline, at the medians; why not, where its schedule cannot be drawn."""
    scenario, step = result.scenario, result.step
    pieces = 2 if scenario.schedule == "dualpipe" else int(median(scenario.batch.virtual_stages))
    pipeline = Pipeline(
        schedule=scenario.schedule,
        n_stages=int(median(scenario.layout.pp)),
        n_microbatches=max(int(median(step.microbatches)), 1),
        n_pieces=pieces,
        split=passes(scenario.batch.recompute, scenario.lora is not None),
        microbatch_s=median(step.microbatch_s),
    )
    try:
        drawn = timeline(pipeline, rounds=rounds)
    except InputError as error:
        return {"problem": str(error)}
    tail = {"gradient exchange": step.gradients_s, "optimizer": step.optimizer_s, "once per step": step.fixed_s}
    if scenario.sites is not None:
        tail[BETWEEN_SITES] = step.sites_s
    return {
        "n_stages": drawn.n_stages,
        "n_microbatches": drawn.n_microbatches,
        "n_pieces": pieces,
        "left_out": drawn.left_out,
        "microbatch_s": median(step.microbatch_s),
        "pipeline_end_s": drawn.end_s,
        "bubble_fraction": median(step.bubble_s / step.step_s),
        "tail_s": {name: median(value) for name, value in tail.items()},
        "bars": [[one.stage, one.kind, one.microbatch, one.piece, one.start_s, one.end_s] for one in drawn.bars],
    }
