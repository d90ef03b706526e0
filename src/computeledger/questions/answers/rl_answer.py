"""An RL question's answer, and its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from computeledger.arrays import median
from computeledger.physics.calibration.rl import load_rl_factors
from computeledger.questions.answer import Answer, Quantity, remarked
from computeledger.questions.answers.rl_setting import SHOWN, Setting
from computeledger.questions.documents import records as documents
from computeledger.questions.documents import rl as documents_rl
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.estimate import RLResult
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN
from computeledger.workloads.rl.levers import Lever
from computeledger.workloads.rl.run import EPOCHS, RunCost, rl_figures
from computeledger.workloads.rl.scale_up import DomainUse
from computeledger.workloads.rl.search import VERIFIER_HEADROOM


@dataclass(frozen=True, slots=True)
class DomainAnswer:
    """A scale-up domain under RL."""

    use: DomainUse
    longest_trace_tokens: float
    largest_model: str


@dataclass(frozen=True, eq=False, slots=True)
class RLAnswer(Answer):
    """An RL question answered."""

    question: RLQuestion
    setting: Setting
    run: RunCost
    typical: RLResult
    bound: str
    next_gpu: Mapping[str, float]
    levers: tuple[Lever, ...] = ()
    group_sizes: Mapping[str, RLResult] = field(default_factory=dict)
    domains: tuple[DomainAnswer, ...] = ()

    @property
    def step_s(self) -> Quantity:
        """Time of a step [s]."""
        return Quantity.of(self.run.result.step_s, "s")

    @property
    def gpu_hours(self) -> Quantity:
        """Of the run, waiting included [h]."""
        return Quantity.of(self.run.gpu_hours, "GPU-hours")

    @property
    def days(self) -> Quantity:
        """Of the run [day]."""
        return Quantity.of(self.run.days, "days")

    @property
    def usd(self) -> Quantity:
        """Cost of the run [USD]."""
        return Quantity.of(self.run.usd, "USD")

    @property
    def beta_flop(self) -> Quantity:
        """FLOP of a sampled token over the active parameters [-]."""
        return Quantity.of(self.run.result.beta_flop, "")

    @property
    def beta_gpu_time(self) -> Quantity:
        """The same in GPU-time, where a pretraining token costs 6 [-]."""
        return Quantity.of(self.run.beta_gpu_time, "")

    @property
    def utilization_fraction(self) -> Quantity:
        """FLOP over the dense bf16 peak and all GPU-time [-]."""
        return Quantity.of(self.run.result.utilization_fraction, "")

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger rl --json`` prints it.

        Examples
        --------
        >>> from computeledger.questions.answers.rl import rl
        >>> answer = rl(model="llama-3.1-8b", system="h100-nvl8", rollout_tokens="1K", samples=16)
        >>> answer.to_dict()["step_s"]["p50"] == answer.step_s.p50
        True
        """
        setting, question, run = self.setting, self.question, self.run
        document = {
            "model": setting.run.model.id,
            "system": setting.system.id,
            "accelerator": setting.system.accelerator.id,
            "n_gpus": median(run.result.scenario.split.n_gpus),
            **documents_rl.rl_document(run),
            **documents_rl.bound_document(self.typical, self.bound),
        }
        best = max(self.next_gpu, key=self.next_gpu.__getitem__)
        document["next_gpu"] = {"best": best, "step_saved_fraction": dict(self.next_gpu)}
        document["demand"] = self._demand()
        if question.pretraining_flop is not None:
            document["equal_gpu_time"] = documents_rl.balance_document(run, setting.draws["pretraining_flop"])
        if setting.run.options:
            document["split_options"] = [documents_rl.option_document(one) for one in setting.run.options[:SHOWN]]
        if self.levers:
            document["levers"] = [documents_rl.lever_document(one) for one in self.levers]
            document["samples_per_problem"] = {
                size: documents_rl.group_document(one) for size, one in self.group_sizes.items()
            }
        if self.domains:
            document["scale_up"] = [
                documents_rl.domain_document(one.use, one.longest_trace_tokens, one.largest_model)
                for one in self.domains
            ]
        document |= {"price": setting.price_ground, "backend": question.backend, "assumptions": _assumptions(question)}
        document["interval"] = {"class": setting.run.confidence}
        if working:
            document["working"] = documents.working_document(rl_figures(run), setting.price_ground)
            document["efficiency"] = _factors()
        return remarked(document, self.remarks)

    def _demand(self) -> dict[str, Any]:
        """What a budget of FLOP asks for."""
        draws = self.setting.draws
        found = documents_rl.demand_document(draws["budget_flop"], self.run.demand(draws["budget_flop"]))
        if self.question.continuation_tokens is None:
            return found
        asked = (draws["budget_flop"], draws.get("text_tokens_per_position"))
        return found | documents_rl.text_document(self.run, asked, draws["stock"])


def _assumptions(question: RLQuestion) -> dict[str, Any]:
    """What is taken for granted beside the fitted constants."""
    document: dict[str, Any] = {
        "verifier_headroom_fraction": VERIFIER_HEADROOM,
        "epochs_over_the_tasks": EPOCHS,
        "pretraining_mfu": "as --mfu",
        "colocated": "weights and caches of the idle side are moved out of the way within weight sync",
    }
    tails = question.rollout_limit_tokens, question.rollout_lengths, question.longest_over_mean
    if all(one is None for one in tails):
        document["longest_over_mean"] = LONGEST_OVER_MEAN
    return document


def _factors() -> dict[str, dict[str, Any]]:
    """RL's constants with their sources."""
    return {
        name: {**documents_rl.ends_document(one.value), "kind": one.kind, "why": one.why, "source": one.source}
        for name, one in load_rl_factors().items()
    }
