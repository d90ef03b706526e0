"""A pretraining question's answer, and its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from computeledger.arrays import median
from computeledger.physics.parallelism import Layout
from computeledger.questions.answer import Answer, Quantity, remarked
from computeledger.questions.answers.pretrain_setting import Setting
from computeledger.questions.answers.setup import multiplied_in
from computeledger.questions.documents import records as documents
from computeledger.questions.documents import training as documents_training
from computeledger.workloads.anchor import Anchored
from computeledger.workloads.figures import pretraining_figures
from computeledger.workloads.pretraining.advice import Advice, Remedy, what_binds
from computeledger.workloads.pretraining.estimate import PretrainingResult
from computeledger.workloads.pretraining.megatron import Launch
from computeledger.workloads.pretraining.run import EffectiveRun
from computeledger.workloads.pretraining.scaling import GrownPhase, Margin, Scaled
from computeledger.workloads.pretraining.search import Swept
from computeledger.workloads.pretraining.step_working import step_working
from computeledger.workloads.questions.pretrain import PretrainQuestion


@dataclass(frozen=True, slots=True)
class GrowingBatch:
    """A run whose batch grows with the critical batch."""

    phases: tuple[GrownPhase, ...]
    n_scale_up: int
    n_scale_up_larger: int


@dataclass(frozen=True, eq=False, slots=True)
class PretrainAnswer(Answer):
    """A pretraining question answered at one configuration."""

    question: PretrainQuestion
    setting: Setting
    run: EffectiveRun
    anchored: Anchored | None
    measured: Mapping[str, Any]
    searched: Swept | None
    layouts: tuple[Margin, ...]
    n_indistinguishable: int
    advice: tuple[Advice, ...]
    remedies: tuple[Remedy | str, ...] = ()
    scaling: Mapping[str, tuple[Scaled, ...]] = field(default_factory=dict)
    growing_batch: GrowingBatch | None = None
    launch: Launch | None = None

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
        """Time of an optimiser step [s]."""
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

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger pretrain --json`` prints it.

        Examples
        --------
        >>> from computeledger.questions.answers.pretrain import pretrain
        >>> answer = pretrain(model="llama-3.1-8b", system="h100-nvl8", layout="dp8", samples=16)
        >>> answer.to_dict()["step_s"]["p50"] == answer.step_s.p50
        True
        """
        setting, system = self.setting, self.setting.machine.system
        document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
        document |= documents_training.pretrain_document(self.run, self.anchored)
        document["multiplied_in"] = multiplied_in(system.accelerator, [document["precision"]])
        if self.anchored is not None:
            document["anchor"] = documents_training.anchor_document(self.anchored, self.measured)
        document |= _beside(self)
        document |= {"price": setting.price, "efficiency_profile": "calibrated"}
        document |= {"asked_global_batch_tokens": setting.wanted_tokens}
        document["stops"] = documents_training.stops_document(setting.stops)
        if working:
            figures = (*pretraining_figures(self.result), *self.run.figures)
            document["working"] = documents.working_document(figures, setting.price)
            document["efficiency"] = documents.efficiency_document()
            taken_apart = step_working(self.result, setting.typical)
            document["step"] = documents_training.step_document(taken_apart, self.result)
        return remarked(document, self.remarks)


def _beside(answer: PretrainAnswer) -> dict[str, Any]:
    """What stands beside the answer: other layouts, what binds and what to change, scaling, launch arguments."""
    factor = 1.0 if answer.anchored is None else median(answer.anchored.factor)
    swept = answer.searched
    out: dict[str, Any] = {
        "best_layouts": [documents_training.margin_document(one, factor) for one in answer.layouts],
        "n_configurations": 0 if swept is None else swept.candidates.size,
        "n_fitting": 0 if swept is None else int(swept.fits.sum()),
        "n_level": answer.n_indistinguishable,
        "binds": what_binds(answer.result),
        "advice": [documents_training.advice_document(one) for one in answer.advice],
    }
    if answer.remedies:
        out["remedies"] = [
            {"change": one} if isinstance(one, str) else documents_training.remedy_document(one)
            for one in answer.remedies
        ]
    if answer.scaling:
        out["scaling"] = {
            name: [documents_training.scaled_document(one, factor) for one in rows]
            for name, rows in answer.scaling.items()
        }
    if answer.growing_batch is not None:
        grown = answer.growing_batch
        out["growing_batch"] = documents_training.grown_document(
            list(grown.phases), grown.n_scale_up, grown.n_scale_up_larger
        )
    if answer.launch is not None:
        out["launch"] = documents_training.launch_document(answer.launch)
    return out
