"""A serving question ready to be searched, and what both kinds of its answers say."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import checkpoint_id
from computeledger.facts.load import load_model
from computeledger.facts.schema import System
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.offload import HOST_FRACTION, HostMemory
from computeledger.questions.answer import Answer, Quantity, file_remarks, system_remarks
from computeledger.units import format_si
from computeledger.validation.accuracy.table import measured_alike
from computeledger.workloads.engines import constants_of
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario
from computeledger.workloads.serving.intervals import Interval
from computeledger.workloads.serving.pools import DisaggregatedResult
from computeledger.workloads.serving.search import SLOWEST_TPOT_S


@dataclass(frozen=True, eq=False, slots=True)
class Setting:
    """A serving question, ready to be searched."""

    question: ServeQuestion
    scenario: ServingScenario
    at_median: ServingScenario
    machine: Machine
    typical: Machine
    price: dict[str, Any]
    interval: Interval | None

    @property
    def system(self) -> System:
        """Of the machine."""
        return self.machine.system

    @property
    def constants(self) -> str:
        """Profile whose factors hold for the engine on this chip."""
        return constants_of(self.question.engine, self.system.accelerator)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ServingAnswer(Answer):
    """What both answers to a serving question hold: of one pool of replicas, and of prefill and decode apart."""

    question: ServeQuestion
    setting: Setting
    result: ServingResult | DisaggregatedResult

    @property
    def ttft_s(self) -> Quantity:
        """Time to first token [s]."""
        return Quantity.of(self.result.ttft_s, "s")

    @property
    def tpot_s(self) -> Quantity:
        """Time per output token [s]."""
        return Quantity.of(self.result.tpot_s, "s")

    @property
    def output_tokens_per_s_per_user(self) -> Quantity:
        """Interactivity [token/s]."""
        return Quantity.of(self.result.output_tokens_per_s_per_user, "tokens/s")

    @property
    def output_tokens_per_s_per_gpu(self) -> Quantity:
        """Throughput [token/s]."""
        return Quantity.of(self.result.output_tokens_per_s_per_gpu, "tokens/s")

    @property
    def usd_per_mtok_output(self) -> Quantity:
        """Cost of output tokens [USD/Mtok]."""
        return Quantity.of(self._usd_per_mtok[0], "USD/Mtok")

    @property
    def usd_per_mtok_input(self) -> Quantity:
        """Cost of new input tokens [USD/Mtok]."""
        return Quantity.of(self._usd_per_mtok[1], "USD/Mtok")

    @property
    @abstractmethod
    def _usd_per_mtok(self) -> tuple[Num, Num]:
        """Cost of output and of new input tokens [USD/Mtok]."""


def model_document(question: ServeQuestion, model: Model) -> dict[str, Any]:
    """Which checkpoint was named, and a remark where its context is the reader's and not the configuration's."""
    own = load_model(question.model)
    remarks = [*own.remarks, *file_remarks(question), *system_remarks(question.system, question.gpus)]
    if model.max_context_tokens != own.max_context_tokens:
        remarks.append(
            f"a context of {model.max_context_tokens:,} tokens is your assumption: the configuration of {own.id} says "
            f"{own.max_context_tokens:,}, and what rope scaling does to quality is not modelled"
        )
    return {"checkpoint": checkpoint_id(question.model) or model.id, "remarks": remarks}


def interval_document(interval: Interval | None, engine: str) -> dict[str, Any]:
    """The class that an answer's interval comes from, and why."""
    if interval is None and engine != "ideal":
        why = "constants measured on one machine; its residuals stand in the profile, and no class of deployments"
        return {"class": "own profile", "why": why, "n": 0}
    if interval is None:
        return {"class": "physical limit", "why": "every peak reached and no overhead: no machine does this", "n": 0}
    return {"class": interval.name, "why": interval.sentence, "n": interval.n}


def alike_document(question: ServeQuestion, system: System, interval: Interval | None) -> dict[str, Any]:
    """Measurements that are most like the question, and how well they were predicted."""
    if interval is None:
        return {}
    found = measured_alike(question.tuning, question.engine, system.accelerator.id)
    return {"measured_alike": asdict(found)} if found is not None else {}


def speculation(question: ServeQuestion) -> dict[str, float]:
    """What was asked of speculative decoding, where it was."""
    if not question.draft_tokens:
        return {}
    return {"draft_tokens": question.draft_tokens, "tokens_per_step": question.tokens_per_step}


def host_memory_document(host: HostMemory) -> dict[str, Any]:
    """What stays in host memory, where something does."""
    return {"host_memory": {k: v for k, v in asdict(host).items() if k != "buffers"}} if host.is_used else {}


def host_memory_remarks(host: HostMemory) -> list[str]:
    """The assumptions that decide how fast host memory is read."""
    if not host.is_used:
        return []
    link, own = format_si(float(host.link_bytes_per_s), "B/s"), format_si(float(host.host_bytes_per_s), "B/s")
    shares = (host.weights_fraction, host.experts_fraction, host.kv_fraction)
    words = ("the layers' weights", "the routed experts", "the cache")
    said = [f"{float(part):.0%} of {what}" for what, part in zip(words, shares, strict=True) if part]
    there = f"read there at {HOST_FRACTION:.0%} of {own} or copied at {link}"
    how = f"copied over a link of {link}" if host.is_streamed else there
    return [f"{', '.join(said)} in host memory, {how} for every step (assumptions: --host-bandwidth, --host-link)"]


def aim_of_the_search(question: ServeQuestion, tpot_s: float) -> dict[str, Any]:
    """What a search aimed at that was told no speed, and the speed that it found."""
    if question.tpot is not None:
        return {}
    if tpot_s <= SLOWEST_TPOT_S:
        return {"slowest_tpot_s_of_the_search": SLOWEST_TPOT_S}
    return {"choice_of_the_search": f"the fastest: no layout takes {format_si(SLOWEST_TPOT_S, 's')} per token or less"}
