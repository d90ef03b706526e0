"""A serving question ready to be searched, and what both kinds of its answers say."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from computeledger.arrays import Num, Range, Uncertain, median
from computeledger.distributions import Spread
from computeledger.facts.catalog import checkpoint_id
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.fields import WITHIN_ALL, fields_of
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.serving import (
    DEFAULT_ENGINE,
    DEFAULT_TUNING,
    GENERIC,
    calibrated_engines,
    load_calibration,
)
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.offload import HOST_FRACTION, HostMemory
from computeledger.questions.answer import Answer, Quantity, file_remarks, system_remarks
from computeledger.questions.answers.serving.commands import command_document, command_remarks
from computeledger.questions.answers.serving.images import image_remarks
from computeledger.questions.answers.setup import draw_machine, price_of
from computeledger.questions.document import document
from computeledger.simulation.serving.promise import Promises
from computeledger.simulation.serving.workload import Workload, read_workload, with_workload
from computeledger.units import format_count, format_si
from computeledger.validation.accuracy.nearest import Wanted, cost_by_nearest, nearest_figures
from computeledger.validation.accuracy.table import FEWEST_FIGURES, measured_alike, published
from computeledger.workloads.engines import constants_of, reads_prompts_first
from computeledger.workloads.engines.releases import release_at
from computeledger.workloads.questions.serve import TWO_POOLS, ServeQuestion
from computeledger.workloads.serving.anchor import ANCHORED, Anchoring, anchoring_of
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario
from computeledger.workloads.serving.intervals import BURST, CHIP, Interval, is_measured_chip
from computeledger.workloads.serving.pools import DisaggregatedResult
from computeledger.workloads.serving.reading import (
    interval_asked,
    lengths_of,
    median_lengths,
    model_of,
    read_serving,
    run_asked,
)
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, ServingOption
from computeledger.workloads.serving.speculation import FIRST, chances_asked
from computeledger.workloads.serving.tails import MEDIAN_FRACTION, load_tails

#: Requests of a trace beyond a promised percentile, below which it says little of that percentile.
FEWEST_BEYOND = 10


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
    anchoring: Anchoring | None
    workload: Workload | None = None
    reading: Setting | None = None

    @property
    def system(self) -> System:
        """Of the machine."""
        return self.machine.system

    @property
    def constants(self) -> str:
        """Profile whose factors hold for the engine on this chip."""
        return constants_of(self.question.engine, self.system.accelerator)

    @property
    def ranges(self) -> dict[str, Uncertain]:
        """Real over predicted time: of the question's class, or what the reader's measurements left of it."""
        return _ratios(self.interval, self.anchoring)


def read_setting(question: ServeQuestion, batch: float | None = None) -> Setting:
    """Scenario and machine of a question, with samples and at their medians: the start of every answer about serving.

    With anchors, ``batch`` is one that was found: how far a measurement holds depends on it.
    """
    workload = None if question.workload is None else read_workload(question.workload)
    question = question if workload is None else with_workload(question, workload)
    system, model = load_system(question.system), model_of(question)
    price, ground = price_of(system, question.price)
    lengths = lengths_of(question)
    streams = {name: one.stream for name, one in fields_of(ServeQuestion).items() if name in lengths}
    interval = interval_asked(question, model, system)
    anchoring = anchoring_of(question, model, system, interval, batch)
    inputs = {streams[name]: value for name, value in lengths.items()} | chances_asked(question, model)
    made_of = {**inputs, "price": price, **_ratios(interval, anchoring)}
    draws, machine, typical = draw_machine(system, made_of, question.engine, question, run_asked(question))
    numbers = {name: draws[streams[name]] for name in lengths} | {k: draws[k] for k in (FIRST,) if k in draws}
    scenario = read_serving(question, numbers, draws["price"])
    at_median = read_serving(question, median_lengths(question), median_of(price))
    parts = machine, typical, ground, interval, anchoring, workload
    return Setting(question, scenario, at_median, *parts, _reading(question))


def _reading(question: ServeQuestion) -> Setting | None:
    """The same question on the chips of the workers that read prompts, where they have their own."""
    if question.prefill_system is None:
        return None
    alike = replace(question, prefill_system=None, prefill_price=None)
    return read_setting(replace(alike, system=question.prefill_system, price=question.prefill_price, mode=TWO_POOLS))


def cost_ratio(found: ServingResult, option: ServingOption) -> float:
    """Median cost of an option over its cost at the medians of all inputs [-].

    Cost is a price times a time; where both are skewed, the median of the product is not the product of the medians.
    Every cost at the medians is multiplied by it, so that the same option costs the same wherever it is shown.
    """
    return median(found.usd_per_mtok_output) / option.usd_per_mtok_output if option.usd_per_mtok_output else 1.0


def _ratios(interval: Interval | None, anchoring: Anchoring | None) -> dict[str, Uncertain]:
    """Ranges of real over predicted time: of the question's class, or what the reader's measurements left of them."""
    if interval is None or anchoring is not None:
        return {} if anchoring is None else anchoring.ranges
    return {f"efficiency.{factor}": getattr(interval, name) for factor, name in ANCHORED.items()}


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


def model_document(setting: Setting) -> dict[str, Any]:
    """Which checkpoint and workload were named, and remarks on what a reader must know of either."""
    question, model = setting.question, setting.at_median.model
    own = load_model(question.model)
    remarks = [*own.remarks, *file_remarks(question), *system_remarks(question.system, question.gpus)]
    if (model.max_context_tokens or 0) > (own.max_context_tokens or 0):
        remarks.append(
            f"a context of {model.max_context_tokens:,} tokens is your assumption: the configuration of {own.id} says "
            f"{own.max_context_tokens:,}, and what rope scaling does to quality is not modelled"
        )
    remarks += [*workload_remarks(setting), *command_remarks(question), *image_remarks(setting.at_median)]
    checkpoint = {"checkpoint": checkpoint_id(question.model) or model.id, "remarks": remarks}
    return checkpoint | workload_document(setting) | command_document(question)


def workload_document(setting: Setting) -> dict[str, Any]:
    """The workload that was named, where one was."""
    one = setting.workload
    if one is None:
        return {}
    lengths = {name: str(getattr(one, name)) for name in ("input_tokens", "output_tokens")}
    return {"workload": {"name": one.name, **lengths, "correlation": one.correlation}}


def workload_remarks(setting: Setting) -> list[str]:
    """What an answer leaves out of how requests differ, and when they arrive."""
    question, one = setting.question, setting.workload
    said = []
    means = [value for value in lengths_of(question).values() if not isinstance(value, Range)]
    differ = any(isinstance(getattr(question, name), Spread) for name in ("input_tokens", "output_tokens"))
    if differ and not question.promises:
        said.append(
            f"lengths differ from request to request: this answer is of their means, {means[0]:,.0f} input and "
            f"{means[1]:,.0f} output tokens; a promise in percentiles (--ttft p95:2s) simulates all of them"
        )
    if one is None:
        return said
    if one.trace is not None and one.trace.blocks is not None:
        said.append(
            "every prompt is read in full: beginnings that prompts of this trace share are not counted here; "
            "simulate serve --workload replays them"
        )
    if one.trace is not None and one.trace.n_failed:
        said.append(f"{format_count(one.trace.n_failed, 'request')} of the trace failed and are left out")
    said += _trace_remarks(question, one)
    if question.promises and question.arrival_spread is None and one.published_spread is not None:
        said.append(
            f"arrivals are Poisson (assumption); those of {one.name} had gaps with a spread of "
            f"{one.published_spread:.3g} at a rate of their own (--arrival-spread)"
        )
    return said


def _trace_remarks(question: ServeQuestion, one: Workload) -> list[str]:
    """What too few requests of a trace say of a percentile."""
    share = max((promise.share_fraction for promise in question.promises.values()), default=0.0)
    if one.trace is None or not share:
        return []
    n, needed = len(one.trace.arrival_s), math.ceil(FEWEST_BEYOND / (1 - share) - 1e-6)
    if n >= needed:
        return []
    said = (
        f"the trace holds {format_count(n, 'request')}, p{100 * share:g} needs {needed:,} ({FEWEST_BEYOND} beyond it)"
    )
    return [f"{said}: the chance that the promise holds leaves out that other requests may be longer"]


def engine_document(setting: Setting) -> dict[str, Any]:
    """The engine that is answered for, and of what age; constants of a machine and of desk engines have none."""
    question, engine = setting.question, setting.question.engine
    found: dict[str, Any] = {"backend": engine, "efficiency_profile": setting.constants}
    if setting.constants not in (*calibrated_engines(), GENERIC) or engine == GENERIC:
        return found
    given = question.backend_version
    release, month = release_at(engine, given or load_calibration().newest_month) or (None, None)
    return found | {"backend_release": {"given": given, "release": release, "month": month}}


#: What the class of a chip that was fitted to nothing is called where a few people measured it.
MEASURED_BY_FEW = "chip measured by few"


def is_measured_by_few(system: System) -> bool:
    """Whether a chip that was not fitted has measurements that predictions were set beside.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> is_measured_by_few(load_system("8xmi300x")), is_measured_by_few(load_system("8xgaudi2"))
    (True, False)
    """
    if is_measured_chip(system):
        return False
    return len(published("serving").chosen(accelerator=[system.accelerator.id]).rows) >= FEWEST_FIGURES


def interval_document(
    interval: Interval | None, engine: str, system: System, promises: Promises | None = None
) -> dict[str, Any]:
    """The class that an answer's interval comes from, and why; percentiles beyond the median reach further."""
    if interval is None and engine != "ideal":
        why = "constants measured on one machine; its residuals stand in the profile, and no class of deployments"
        return {"class": "own profile", "why": why, "n": 0}
    if interval is None:
        return {"class": "physical limit", "why": "every peak reached and no overhead: no machine does this", "n": 0}
    name = interval.name.replace(CHIP, MEASURED_BY_FEW) if is_measured_by_few(system) else interval.name
    return {"class": name, "why": interval.sentence + _of_percentiles(promises or {}), "n": interval.n}


def _of_percentiles(promises: Promises) -> str:
    """How much further the interval of promised percentiles reaches, and by whose; empty where none is beyond half."""
    of_all = promises[WITHIN_ALL].share_fraction if WITHIN_ALL in promises else 0.0
    parts = [
        f"{_OF_TIMES[name]} from {found.spread.low:.2g} to {found.spread.high:.2g} times its ends, by {found.n} "
        f"published ones of {found.n_sources} sources, each left out in turn"
        for name, found in load_tails().items()
        if name in promises and max(promises[name].share_fraction, of_all) > MEDIAN_FRACTION
    ]
    return f"; percentiles beyond the median reach further: {'; '.join(parts)}" if parts else ""


_OF_TIMES = {"ttft_s": "those of first tokens", "tpot_s": "those of times per token"}


def alike_document(
    question: ServeQuestion, setting: Setting, medians: Mapping[str, float], model: str, cost: Any
) -> dict[str, Any]:
    """Measurements that are most like the question, how well they were predicted, and the nearest to the answer.

    Where the nearest were all off to one side, also what an output token would cost if the answer's speed were too;
    not of a stated load, whose cost goes by the GPUs that are held for it.
    """
    system, interval = setting.system, setting.interval
    if interval is None:
        return {}
    chip = system.accelerator.id
    is_recipe = question.tuning == "recipe" and chip in load_calibration().chips
    tuning = question.tuning if is_recipe else DEFAULT_TUNING
    load = "burst" if interval.name.startswith(BURST) else "clients"
    found = measured_alike(tuning, question.engine, chip, load)
    if found is None:
        return {}
    wanted = Wanted(
        found.workload, model, chip, question.engine, tuple(medians), found.what.split()[0], (("load", found.load),)
    )
    alike = {**asdict(found), **document(nearest_figures(wanted, medians))}
    if cost is not None and question.requests_per_s is None:
        usd = float(cost["p50"]) if isinstance(cost, Mapping) else float(cost)
        if usd and (ends := cost_by_nearest(alike["nearest"], question.engine, usd)):
            alike["likely_usd_per_mtok_output"] = ends
    return {"measured_alike": alike}


def engine_remarks(question: ServeQuestion, system: System) -> list[str]:
    """What stands for what a question left to be chosen, or asked of a chip that nobody tuned in public."""
    chip, out = system.accelerator, []
    if question.engine != DEFAULT_ENGINE and not (question.profile or question.backend or question.emitted_engine):
        out.append(f"no engine was named: {question.engine}, which runs on {chip.name}; --backend names another")
    is_fitted = question.engine in (*calibrated_engines(), GENERIC)
    if question.tuning == "recipe" and is_fitted and chip.id not in load_calibration().chips:
        out.append(
            f"no public recipe on {chip.name} was fitted: steps are as fast as recipes on other chips make them, and "
            "the interval is that of other people's deployments"
        )
    return out


def idle_options(question: ServeQuestion, layout: Layout) -> list[str]:
    """Options that do nothing, or only harm, at this layout and on this engine."""
    out = []
    if question.two_batches and int(layout.ep) == 1:
        out.append(f"--two-batches hides tokens that travel to their experts: on {layout} none do, it only costs time")
    if question.equal_lengths and not reads_prompts_first(question.engine):
        out.append(f"--equal-lengths changes nothing on {question.engine}, which reads prompts beside its decodes")
    return out


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
