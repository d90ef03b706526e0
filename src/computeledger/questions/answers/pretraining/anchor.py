"""Anchors of a pretraining question: a measurement read, put beside the model, and applied to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout, check_layout, filled, parse_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.physics.training.batch import RECOMPUTE, REVERSIBLE, Batch
from computeledger.units import format_si
from computeledger.workloads.anchor import Anchored, AnchorKey, anchor, parse_anchor, spread_of
from computeledger.workloads.pretraining.estimate import (
    PretrainingResult,
    PretrainingScenario,
    batch_sequences,
    check_shared,
    estimate_pretraining,
    rescaled,
)

MEASURES = {
    "tokens_per_s_per_gpu": AnchorKey("count"), "step": AnchorKey("s"), "mfu": AnchorKey("fraction"),
}  # fmt: skip
KEYS = {
    **MEASURES,
    "gpus": AnchorKey("count"),
    "layout": AnchorKey(),
    "microbatch": AnchorKey("count"),
    "virtual_stages": AnchorKey("count"),
    "recompute": AnchorKey(),
    "precision": AnchorKey(),
    "model": AnchorKey(),
    "sequence": AnchorKey("tokens", "tokens"),
    "global_batch": AnchorKey("tokens", "tokens"),
}


def anchored_result(
    text: str, scenario: PretrainingScenario, machine: Machine
) -> tuple[PretrainingResult, Anchored, dict[str, Any]]:
    """The answer shifted and narrowed by a measurement, how, and what was measured."""
    said = parse_anchor(text, KEYS)
    there = check_shared(_configuration(said, scenario))
    model = estimate_pretraining(there, machine)
    measured_s = _step_s(said, model)
    limit_s = median(estimate_pretraining(there, Machine(machine.system)).step_s)
    if measured_s < limit_s:
        raise InputError(
            f"anchor: a step of {format_si(measured_s, 's')} on {there.layout} is faster than the physical limit of "
            f"{format_si(limit_s, 's')}: check gpus, layout and global_batch"
        )
    target = estimate_pretraining(scenario, machine)
    held = anchor(target.step_s, model.step_s, measured_s, spread_of(there.model.is_moe), _same(there, scenario))
    least = estimate_pretraining(scenario, Machine(machine.system)).step_s
    described = {
        "layout": str(there.layout),
        "model": there.model.id,
        "measured_step_s": measured_s,
        "modelled_step_s": median(model.step_s),
        "same_configuration": _same(there, scenario),
    }
    return rescaled(target, held.factor, least), held, described


def _configuration(said: Mapping[str, float | str], scenario: PretrainingScenario) -> PretrainingScenario:
    """What was measured: the question's own configuration, but for what the anchor says."""
    model = load_model(str(said["model"])) if "model" in said else scenario.model
    layout = scenario.layout
    gpus = int(float(said["gpus"])) if "gpus" in said else None
    if "layout" in said:
        layout = check_layout(filled(parse_layout(str(said["layout"])), gpus), model, gpus)
    elif gpus is not None and gpus != int(layout.n_gpus):
        raise InputError(f"anchor gpus={gpus}: give the layout that was measured as well")
    batch = scenario.batch
    recompute = str(said.get("recompute", batch.recompute))
    if recompute != batch.recompute and recompute not in (*RECOMPUTE, REVERSIBLE):
        raise InputError(f"anchor recompute={recompute}: expected {', '.join((*RECOMPUTE, REVERSIBLE))}")
    sequence = float(said.get("sequence", median(batch.sequence_tokens)))
    held = median(batch.global_sequences * batch.sequence_tokens)
    batch = replace(
        batch,
        sequence_tokens=sequence,
        global_sequences=float(batch_sequences(float(said.get("global_batch", held)), sequence)),
        microbatch_sequences=float(said.get("microbatch", batch.microbatch_sequences)),
        virtual_stages=float(said.get("virtual_stages", _pieces(batch, layout, model))),
        recompute=recompute,
    )
    precision = scenario.precision
    if "precision" in said and parse_training_precision(str(said["precision"]), model.is_moe).name != precision.name:
        precision = parse_training_precision(str(said["precision"]), model.is_moe)
    return replace(scenario, model=model, layout=layout, batch=batch, precision=precision)


def _pieces(batch: Batch, layout: Layout, model: Model) -> float:
    """Virtual stages of the question, where another layout or model can have them."""
    pieces = median(batch.virtual_stages)
    return pieces if int(layout.pp) > 1 and int(layout.pp) * pieces <= model.n_layers else 1.0


def _step_s(said: Mapping[str, float | str], model: PretrainingResult) -> float:
    given = [name for name in MEASURES if name in said]
    if len(given) != 1:
        raise InputError(f"anchor: give one of {', '.join(MEASURES)}, not {len(given)}")
    value = float(said[given[0]])
    if given[0] == "step":
        return value
    per_gpu = median(model.scenario.global_batch_tokens) / median(model.scenario.layout.n_gpus)
    if given[0] == "mfu":
        value = value * model.peak_flop_per_s / median(model.flop_per_token)
    return per_gpu / value


def _same(one: PretrainingScenario, other: PretrainingScenario) -> bool:
    """Whether two scenarios are one configuration."""
    keys = ("microbatch_sequences", "global_sequences", "sequence_tokens", "virtual_stages")
    alike = all(median(getattr(one.batch, key)) == median(getattr(other.batch, key)) for key in keys)
    modes = (one.batch.recompute, one.precision, one.model.id) == (
        other.batch.recompute, other.precision, other.model.id,
    )  # fmt: skip
    return alike and modes and str(one.layout) == str(other.layout)
