"""Answer a pretraining question: the configuration, its step, the run with failures, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.economics.scaling.worth import Price
from computeledger.errors import DoesNotFitError, InputError
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.critical_batch import growing_batch
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.exchange import dropped_fraction
from computeledger.questions.answer import Answer, Quantity, from_python, remarked
from computeledger.questions.answers.pretraining import document as documents
from computeledger.questions.answers.pretraining.setting import Setting, read_setting
from computeledger.questions.answers.pretraining.stages import TrainedStage, prices, staged, trained_stages
from computeledger.questions.answers.setup import multiplied_in
from computeledger.questions.grounds import efficiency_document, working_document
from computeledger.workloads.anchor import spread_of
from computeledger.workloads.figures import pretraining_figures
from computeledger.workloads.launches import Launch
from computeledger.workloads.pretraining.advice import Advice, Remedy, advise, larger_job, remedies, what_binds
from computeledger.workloads.pretraining.anchor import TrainingAnchoring, anchored_result
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingResult, PretrainingScenario, estimate_pretraining
from computeledger.workloads.pretraining.launches import Job, launch
from computeledger.workloads.pretraining.levers import Lever, levers
from computeledger.workloads.pretraining.run import EffectiveRun, estimate_run
from computeledger.workloads.pretraining.scaling import (
    GrownPhase,
    Margin,
    Scaled,
    counts_around,
    grow,
    margins,
    n_level,
    scale,
)
from computeledger.workloads.pretraining.search import Swept, configured_run, evaluate
from computeledger.workloads.pretraining.step_working import step_working
from computeledger.workloads.questions.pretrain import PretrainQuestion

#: The first part of a run with a growing batch has this share of the last batch (assumption: Llama 3 405B began with a
#: quarter, DeepSeek-V3 with a fifth).
FIRST_BATCH_FRACTION = 0.125
#: Scale-up domains that a growing batch is also tried on.
LARGER_DOMAINS = (72, 576)


@dataclass(frozen=True, slots=True)
class GrowingBatch:
    """A run whose batch grows with the critical batch."""

    phases: tuple[GrownPhase, ...]
    n_scale_up: int
    n_scale_up_larger: int


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PretrainAnswer(Answer):
    """A pretraining question answered at one configuration."""

    question: PretrainQuestion
    setting: Setting
    run: EffectiveRun
    anchored: TrainingAnchoring | None
    searched: Swept | None
    layouts: tuple[Margin, ...]
    n_indistinguishable: int
    advice: tuple[Advice, ...]
    remedies: tuple[Remedy | str, ...] = ()
    scaling: Mapping[str, tuple[Scaled, ...]] = field(default_factory=dict)
    growing_batch: GrowingBatch | None = None
    levers: tuple[Lever, ...] = ()
    launch: Launch | None = None
    stages: tuple[TrainedStage, ...] = ()
    prices: tuple[Price, ...] = ()

    @property
    def result(self) -> PretrainingResult:
        """Without failures."""
        return self.run.result

    @property
    def layout(self) -> Layout:
        """Of the whole job."""
        return self.result.scenario.layout

    @property
    def step_s(self) -> Quantity:
        """Time of an optimizer step [s]."""
        return Quantity.of(self.result.step_s, "s")

    @property
    def tokens_per_s_per_gpu(self) -> Quantity:
        """Throughput [token/s]."""
        return Quantity.of(self.result.tokens_per_s_per_gpu, "tokens/s")

    @property
    def mfu_fraction(self) -> Quantity:
        """Model FLOP over the dense bf16 peak [-]."""
        return Quantity.of(self.result.mfu_fraction, "")

    @property
    def gpu_hours(self) -> Quantity:
        """Without failures [h]."""
        return Quantity.of(self.result.gpu_hours, "GPU-hours")

    @property
    def days(self) -> Quantity:
        """Without failures [day]."""
        return Quantity.of(self.result.days, "days")

    @property
    def goodput_fraction(self) -> Quantity:
        """Useful time over time on the calendar [-]."""
        return Quantity.of(self.run.goodput_fraction, "")

    @property
    def effective_gpu_hours(self) -> Quantity:
        """With failures [h]."""
        return Quantity.of(self.run.effective_gpu_hours, "GPU-hours")

    @property
    def effective_days(self) -> Quantity:
        """With failures [day]."""
        return Quantity.of(self.run.effective_days, "days")

    @property
    def effective_usd(self) -> Quantity:
        """Cost with failures [USD]."""
        return Quantity.of(self.run.usd, "USD")

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger pretrain --json`` prints it.

        Examples
        --------
        >>> from computeledger.questions.answers.pretraining.answer import pretrain
        >>> answer = pretrain(model="llama-3.1-8b", system="h100-nvl8", layout="dp8", samples=16)
        >>> answer.to_dict()["step_s"]["p50"] == answer.step_s.p50
        True
        """
        setting, system = self.setting, self.setting.machine.system
        document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
        document |= documents.pretrain_document(self.run, self.anchored is not None)
        document["multiplied_in"] = multiplied_in(system.accelerator, [document["precision"]])
        document["framework"] = documents.framework_document(self.question.stack, self.layout)
        batch = self.result.scenario.batch
        document["memory_ratio"] = documents.memory_ratio_document(batch, self.question.stack)
        document |= documents.confidence_document(self.result, system, self.question.stack)
        if self.anchored is not None:
            document["anchor"] = documents.anchor_document(self.anchored)
        document |= _routing(self) | _beside(self)
        document |= {"price": setting.price, "efficiency_profile": "calibrated"}
        if (share := self.question.loss_fraction) is not None:
            document["loss_fraction"] = share
        document |= {"asked_global_batch_tokens": setting.wanted_tokens}
        document["stops"] = documents.stops_document(setting.stops)
        if working:
            figures = (*pretraining_figures(self.result), *self.run.figures)
            document["working"] = working_document(figures, setting.price)
            document["efficiency"] = efficiency_document()
            taken_apart = step_working(self.result, setting.typical)
            document["step"] = documents.step_document(taken_apart, self.result)
        return remarked(document, self.remarks)


def _routing(answer: PretrainAnswer) -> dict[str, Any]:
    """How unevenly experts are visited, and what their capacity drops; nothing of a dense model."""
    question, layout = answer.question, answer.layout
    if not answer.result.scenario.model.is_moe:
        return {}
    routed = median_of(question.expert_imbalance)
    out: dict[str, Any] = {"expert_imbalance": routed}
    if question.capacity_factor is not None:
        capacity = median_of(question.capacity_factor)
        out |= {"capacity_factor": capacity, "dropped_fraction": dropped_fraction(routed, capacity, int(layout.ep))}
    return out


def _beside(answer: PretrainAnswer) -> dict[str, Any]:
    """What stands beside the answer: other layouts, what binds and what to change, scaling, launch arguments."""
    factor = 1.0 if answer.anchored is None else median(answer.anchored.factor)
    swept = answer.searched
    out: dict[str, Any] = {
        "best_layouts": [documents.margin_document(one, factor) for one in answer.layouts],
        "n_configurations": 0 if swept is None else swept.candidates.size,
        "n_fitting": 0 if swept is None else int(swept.fits.sum()),
        "n_level": answer.n_indistinguishable,
        "binds": what_binds(answer.result),
        "advice": [documents.advice_document(one) for one in answer.advice],
    }
    if answer.remedies:
        out["remedies"] = [
            {"change": one} if isinstance(one, str) else documents.remedy_document(one) for one in answer.remedies
        ]
    if answer.scaling:
        out["scaling"] = {
            name: [documents.scaled_document(one, factor) for one in rows] for name, rows in answer.scaling.items()
        }
    if answer.growing_batch is not None:
        grown = answer.growing_batch
        out["growing_batch"] = documents.grown_document(list(grown.phases), grown.n_scale_up, grown.n_scale_up_larger)
    if answer.levers:
        out["levers"] = [documents.lever_document(one, answer.levers[0]) for one in answer.levers]
    if answer.stages:
        out["stages"] = [documents.stage_document(one) for one in answer.stages]
    out["worth"] = documents.worth_document(answer.prices, median(answer.result.scenario.tokens))
    if answer.launch is not None:
        out["launch"] = answer.launch.to_dict()
    return out


def pretrain(question: PretrainQuestion | None = None, /, **given: Given) -> PretrainAnswer:
    """How long a training run takes, what binds it, and what it costs.

    Parameters
    ----------
    question : PretrainQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.workloads.questions.pretrain.PretrainQuestion`: texts with units, or numbers
        in SI units.

    Returns
    -------
    PretrainAnswer
        At the configuration that was stated; what was left out is the fastest that fits.

    Raises
    ------
    InputError
        For bad input, and where nothing fits, with the number of GPUs on which it does.

    Examples
    --------
    >>> answer = pretrain(model="llama-3.1-8b", system="h100-nvl8", gpus=64, tokens="1T", layout="dp64", samples=16)
    >>> str(answer.layout), answer.effective_days.p50 > answer.days.p50
    ('tp1-dp64', True)
    >>> pretrain(answer.question, precision="fp8").step_s.p50 < answer.step_s.p50
    True
    """
    return from_python(PretrainQuestion, answer_pretrain, question, given)


def answer_pretrain(question: PretrainQuestion) -> PretrainAnswer:
    """Answer ``computeledger pretrain``."""
    setting = read_setting(question)
    scenario, n_gpus, swept = _find(setting, question.objective)
    setting = replace(setting, scenario=scenario, n_gpus=n_gpus)
    result = estimate_pretraining(scenario, setting.machine)
    held: TrainingAnchoring | None = None
    if question.anchor:
        result, held = anchored_result(question.anchor, scenario, setting.machine)
    stages = trained_stages(question, result, held)
    result = replace(result, staged=staged(stages))
    within = spread_of(scenario.model.is_moe).within
    best = swept.best(question.top) if swept is not None else []
    does_fit = bool(np.all(result.fits))
    return PretrainAnswer(
        question=question,
        setting=setting,
        run=estimate_run(result, setting.reliability, setting.facility_w_per_gpu),
        anchored=held,
        searched=swept,
        layouts=tuple(margins(scenario, best, setting.machine, within)) if best else (),
        n_indistinguishable=0 if swept is None else n_level(swept.step_s[swept.fits], within),
        advice=tuple(advise(scenario, setting.typical, setting.limits)),
        remedies=() if does_fit else _remedies(setting),
        scaling=_scaling(setting) if question.scaling else {},
        growing_batch=_growing(setting) if question.growing_batch else None,
        levers=tuple(levers(scenario, setting.typical)) if question.levers else (),
        launch=_launch(setting, question) if question.emit is not None else None,
        stages=stages,
        prices=tuple(prices(question, scenario, stages)),
    )


def _find(setting: Setting, objective: str) -> tuple[PretrainingScenario, int, Swept | None]:
    """The configuration that was given, or the best one, its GPUs, and what else was tried."""
    n_gpus = _leanest(setting) if objective == "gpu-hours" else setting.n_gpus
    try:
        scenario, swept = configured_run(setting.scenario, n_gpus, _only(setting), setting.typical)
    except DoesNotFitError as error:
        raise DoesNotFitError(f"{error}; {_instead(replace(setting, n_gpus=n_gpus))}") from None
    if swept is not None:
        return scenario, n_gpus, swept
    every = candidates(scenario, n_gpus, setting.limits)
    return scenario, n_gpus, evaluate(scenario, every, setting.typical) if every.size else None


def _only(setting: Setting) -> Limits:
    """The given layout, everything else free as far as it was left out."""
    layouts = None if setting.layout is None else (setting.layout,)
    return replace(setting.limits, layouts=layouts)


def _instead(setting: Setting) -> str:
    return larger_job(setting.scenario, setting.n_gpus, setting.typical, setting.limits)


def _leanest(setting: Setting) -> int:
    """The number of GPUs, by halving, that takes the least GPU-hours."""
    counts = [setting.n_gpus]
    while counts[-1] % 2 == 0:
        counts.append(counts[-1] // 2)
    scaled = scale(setting.scenario, sorted(counts), setting.typical, setting.typical_reliability, setting.limits)
    best = min(scaled, key=lambda one: one.gpu_hours)
    if best.option is None:
        raise InputError(next(one.problem for one in scaled if one.n_gpus == setting.n_gpus))
    return best.n_gpus


def _remedies(setting: Setting) -> tuple[Remedy | str, ...]:
    """Configurations that fit instead, or in words the job that would."""
    return tuple(remedies(setting.scenario, setting.typical, setting.limits)) or (_instead(setting),)


def _scaling(setting: Setting) -> dict[str, tuple[Scaled, ...]]:
    counts, around = counts_around(setting.n_gpus), (setting.typical, setting.typical_reliability, setting.limits)
    return {name: tuple(scale(setting.scenario, counts, *around, weak=name == "weak")) for name in ("strong", "weak")}


def _growing(setting: Setting) -> GrowingBatch:
    last = median(setting.scenario.global_batch_tokens)
    phases = growing_batch(FIRST_BATCH_FRACTION * last, last, median(setting.scenario.tokens))
    domain = int(setting.machine.system.n_gpus_scale_up.value)
    larger = next((size for size in LARGER_DOMAINS if size > domain), 8 * domain)
    around = setting.typical, setting.typical_reliability, setting.limits
    return GrowingBatch(tuple(grow(setting.scenario, setting.n_gpus, phases, around, larger)), domain, larger)


def _launch(setting: Setting, question: PretrainQuestion) -> Launch:
    chip = setting.machine.system.accelerator
    job = Job(
        n_scale_up=int(setting.machine.system.n_gpus_scale_up.value),
        vendor=chip.vendor,
        has_mx="fp4" in chip.peak_flop_per_s,
        capacity_factor=None if question.capacity_factor is None else median_of(question.capacity_factor),
        left_out=tuple(_left_out(question)),
    )
    return launch(str(question.emit), setting.scenario, job)


def _left_out(question: PretrainQuestion) -> Iterator[str]:
    """Parts of a run that are not its main part, whose configuration is written."""
    if question.stage:
        yield f"stages of the run ({' '.join(f'--stage {one}' for one in question.stage)}): this is the rest of it"
    if question.growing_batch:
        yield "a batch that grows (--growing-batch): each phase has a layout and a batch of its own"
