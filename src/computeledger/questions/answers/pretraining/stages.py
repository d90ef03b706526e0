"""A run in stages, and what its tokens are worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from computeledger.arrays import median
from computeledger.economics.scaling.laws import load_loss_law
from computeledger.economics.scaling.worth import Price, price_of_batch, price_of_local_steps, price_of_repeats
from computeledger.errors import InputError
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.critical_batch import BatchPhase
from computeledger.physics.transformer import n_params_active
from computeledger.questions.answers.pretraining.setting import Setting, read_setting
from computeledger.units import HOUR_S
from computeledger.workloads.pretraining.anchor import TrainingAnchoring
from computeledger.workloads.pretraining.candidates import Limits
from computeledger.workloads.pretraining.estimate import (
    PretrainingResult,
    PretrainingScenario,
    Staged,
    estimate_pretraining,
    rescaled,
)
from computeledger.workloads.pretraining.search import configured_run
from computeledger.workloads.pretraining.stages import Stage, read_stages
from computeledger.workloads.questions.pretrain import PretrainQuestion

#: Law by which a loss is told where nobody names one, as ``allocate`` has it.
LAW = "besiroglu_2024"


@dataclass(frozen=True, slots=True)
class TrainedStage:
    """A stage at its configuration."""

    stage: Stage
    result: PretrainingResult


def trained_stages(
    question: PretrainQuestion, whole: PretrainingResult, held: TrainingAnchoring | None
) -> tuple[TrainedStage, ...]:
    """Every stage at its own configuration, the rest of the run as the question has it."""
    if not question.stage:
        return ()
    stages = read_stages(question.stage, median_of(question.tokens))
    return tuple(TrainedStage(one, _result(question, one, held) if one.text else whole) for one in stages)


def _result(question: PretrainQuestion, stage: Stage, held: TrainingAnchoring | None) -> PretrainingResult:
    asked = _changed(question, stage)
    try:
        setting = read_setting(asked)
        result = estimate_pretraining(_found(setting), setting.machine)
    except InputError as error:
        raise InputError(f"stage {stage.text}: {error}") from None
    return result if held is None else rescaled(result, held.factor)


def _found(setting: Setting) -> PretrainingScenario:
    layouts = None if setting.layout is None else (setting.layout,)
    limits: Limits = replace(setting.limits, layouts=layouts)
    return configured_run(setting.scenario, setting.n_gpus, limits, setting.typical)[0]


def _changed(question: PretrainQuestion, stage: Stage) -> PretrainQuestion:
    """The question of a stage: on the same GPUs, microbatch and pieces searched where the run's layout is left."""
    said = dict(stage.changes)
    if "microbatch_sequences" in said:
        said["microbatch_sequences"] = int(said["microbatch_sequences"])
    free = {"microbatch_sequences": None, "virtual_stages": None, "recompute": None}
    return replace(question, stage=(), anchor=(), **{**free, **said})  # type: ignore[arg-type]


def staged(stages: tuple[TrainedStage, ...]) -> Staged | None:
    """Tokens and GPU-hours of the stages that differ from the run."""
    own = [one for one in stages if one.stage.text]
    if not own:
        return None
    hours = sum(one.stage.tokens * one.result.gpu_s_per_token for one in own) / HOUR_S
    return Staged(sum(one.stage.tokens for one in own), hours)


def prices(question: PretrainQuestion, scenario: PretrainingScenario, stages: tuple[TrainedStage, ...]) -> list[Price]:
    """What the tokens of a run are worth less for."""
    return list(_prices(question, scenario, stages))


def _prices(
    question: PretrainQuestion, scenario: PretrainingScenario, stages: tuple[TrainedStage, ...]
) -> Iterator[Price]:
    law, tokens, size = load_loss_law(LAW), median(scenario.tokens), float(n_params_active(scenario.model))
    whole = median(scenario.global_batch_tokens)
    phases = [one.stage.phase(median(one.result.scenario.global_batch_tokens)) for one in stages]
    yield price_of_batch(law, phases or [BatchPhase(whole, 0.0, tokens)], size)
    if question.unique_tokens is not None and question.unique_tokens < tokens:
        yield price_of_repeats(law, tokens, question.unique_tokens, size)
    if scenario.sites is not None and scenario.sites.local_steps > 1:
        yield price_of_local_steps(law, tokens, scenario.sites.n, scenario.sites.local_steps, size)
