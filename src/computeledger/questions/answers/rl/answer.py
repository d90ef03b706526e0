"""Answer an RL question: the step by phase, the run's cost, what binds, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, median
from computeledger.errors import DoesNotFitError, InputError
from computeledger.facts.catalog import compared_systems
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Given, fields_of
from computeledger.physics.calibration.rl import load_rl_factors
from computeledger.physics.roofline import Precision
from computeledger.physics.transformer import n_params_active
from computeledger.progress import stage
from computeledger.questions.answer import Answer, Quantity, from_python, remarked
from computeledger.questions.answers.rl import document as documents
from computeledger.questions.answers.rl.comparison import (
    Comparison,
    LoggedQuestion,
    compare_step,
    comparison_document,
    with_log,
)
from computeledger.questions.answers.rl.setting import SHOWN, Setting, read_setting
from computeledger.questions.grounds import working_document
from computeledger.questions.rl_returns import RLReturnsQuestion
from computeledger.units import format_count
from computeledger.workloads.launches import Launch
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.result import Term, fact_term, quantity
from computeledger.workloads.rl.environments import Environments, Horizon, environments_of, longer_horizons
from computeledger.workloads.rl.estimate import RLResult, estimate_rl, pretraining_gpu_s_per_token
from computeledger.workloads.rl.judge import judge_bound
from computeledger.workloads.rl.launch_values import Emitted
from computeledger.workloads.rl.launches import rl_launch
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN
from computeledger.workloads.rl.levers import Lever, levers, step_levers
from computeledger.workloads.rl.pace import decode_bound
from computeledger.workloads.rl.run import EPOCHS, RunCost, rl_figures
from computeledger.workloads.rl.scale_up import DomainUse, domain_use, largest_model, longest_trace
from computeledger.workloads.rl.scenario import RLScenario
from computeledger.workloads.rl.search import (
    VERIFIER_HEADROOM,
    MoreUnits,
    judge_gpus_that_keep_pace,
    next_gpu,
    pace_bound,
    rl_machine,
    trainer_fits,
)
from computeledger.workloads.rl_frameworks import load_rl_framework

#: Domains that --scale-up shows beside the question's own.
SCALE_UP_SYSTEMS = compared_systems("scale_up_domains")
#: Models among which the largest that a domain serves is looked for.
MODELS = (
    "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3",
    "kimi-k2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DomainAnswer:
    """A scale-up domain under RL."""

    use: DomainUse
    longest_trace_tokens: float
    largest_model: str


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RLAnswer(Answer):
    """An RL question answered."""

    question: RLQuestion
    setting: Setting
    run: RunCost
    typical: RLResult
    bound: str
    next_gpu: Mapping[str, MoreUnits]
    levers: tuple[Lever, ...] = ()
    group_sizes: Mapping[str, RLResult] = field(default_factory=dict)
    domains: tuple[DomainAnswer, ...] = ()
    environments: Environments | None = None
    judge_gpus: float | None = None
    horizons: tuple[Horizon, ...] = ()
    grown: str = ""
    launch: Launch | None = None
    comparison: Comparison | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Those of model and system, of a layout that the framework lacks, and of GPUs added to those given."""
        own = Answer.remarks.fget(self)  # type: ignore[attr-defined]
        run = self.setting.run.typical
        staged = not run.has_stages and median(run.engine.layout.pp) > 1
        name = load_rl_framework(self.question.stack).name
        refused = f"{name} runs no pipeline stages in generation: {run.engine.layout} cannot be run there"
        return (*own, *([self.grown] if self.grown else ()), *([refused] if staged else ()), *_left_out(run))

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

    @property
    def phases_s(self) -> dict[str, Quantity]:
        """Wall-clock time of a step by phase, as frameworks log it; phases may overlap [s].

        Examples
        --------
        >>> answer = rl(model="llama-3.1-8b", system="h100-nvl8", rollout_tokens="1K", samples=16)
        >>> list(answer.phases_s)[:2]
        ['generation', 'exposed generation']
        """
        return {name: Quantity.of(part, "s") for name, part in self.run.result.phases_s.items()}

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger rl --json`` prints it.

        Examples
        --------
        >>> from computeledger.questions.answers.rl.answer import rl
        >>> answer = rl(model="llama-3.1-8b", system="h100-nvl8", rollout_tokens="1K", samples=16)
        >>> answer.to_dict()["step_s"]["p50"] == answer.step_s.p50
        True
        """
        setting, question, run = self.setting, self.question, self.run
        document = {
            "model": setting.run.model.id,
            "system": setting.system.id,
            "accelerator": setting.system.accelerator.id,
            "n_gpus": median(run.result.scenario.n_gpus),
            **documents.rl_document(run),
            **documents.bound_document(self.typical, self.bound, self.environments),
        }
        held = trainer_fits(setting.run.typical, setting.run.typical_machines.training)
        document["fits"] = document["fits"] and bool(np.all(held))
        if self.judge_gpus is not None:
            document["judge"]["gpus_that_keep_pace"] = self.judge_gpus
        document["next_gpu"] = documents.next_gpu_document(self.next_gpu)
        document["demand"] = self._demand()
        if question.pretraining_flop is not None:
            document["equal_gpu_time"] = documents.balance_document(
                run, setting.draws["pretraining_flop"], setting.draws["price_ratio"]
            )
        if setting.run.options:
            document["split_options"] = [documents.option_document(one) for one in setting.run.options[:SHOWN]]
        if self.levers:
            document["levers"] = [documents.lever_document(one) for one in self.levers]
            document["samples_per_problem"] = {
                size: documents.group_document(one) for size, one in self.group_sizes.items()
            }
        if self.domains:
            document["scale_up"] = [
                documents.domain_document(
                    one.use, (one.longest_trace_tokens, setting.run.model.max_context_tokens), one.largest_model
                )
                for one in self.domains
            ]
        if self.environments is not None:
            cores = setting.draws["environment_cores"]
            document["episodes"] = documents.turns_document(run, self.environments, self.horizons, cores)
        if self.comparison is not None:
            document["comparison"] = comparison_document(self.comparison)
        if self.launch is not None:
            document["launch"] = self.launch.to_dict()
        if setting.run.typical.lora is not None:
            document["lora"] = documents.adapters_document(setting.run.typical.lora, self.typical)
        document["framework"] = documents.framework_document(question, run.result)
        document |= {"price": setting.price_ground, "backend": question.settled.backend}
        document["assumptions"] = _assumptions(question, setting.draws["mfu"])
        document["interval"] = documents.interval_document(setting.run.confidence, question.settled.framework)
        document["measured_alike"] = documents.alike_document(run, document["model"], document["accelerator"])
        if working:
            document["working"] = working_document(rl_figures(run), setting.price_ground)
            document["efficiency"] = _factors()
        return remarked(document, self.remarks)

    def _demand(self) -> dict[str, Any]:
        """What a budget of FLOP asks for."""
        draws = self.setting.draws
        found = documents.demand_document(self.run, draws["budget_flop"])
        if self.question.continuation_tokens is None:
            return found
        asked = (draws["budget_flop"], draws.get("text_tokens_per_position"))
        return found | documents.text_document(self.run, asked, draws["stock"])


#: What is taken for granted where adapters are trained.
_ADAPTERS_ASSUMED = {
    "adapter_launches": "kernels of adapters that run beside the weights are launched for nothing: not fitted",
    "frozen_weights": "in 16 bits, sharded and gathered as those of a trainer that trains everything",
    "critic": "trained with adapters too, where there is one",
}


def _left_out(run: RLScenario) -> Iterator[str]:
    """GPUs that layouts leave without work, side by side."""
    split = run.split
    spares: tuple[Num, ...]
    sides: tuple[tuple[str, Num, str], ...] = (
        ("generate", split.n_generation, f"replicas of {run.engine.layout}"),
        ("train", split.n_training, f"the layout {run.trainer.layout}"),
    )
    spares = run.spare_gpus
    if (judge := run.judge) is not None and judge.is_apart:
        sides = (*sides, ("judge", judge.own_gpus, f"replicas of {judge.engine.layout}"))
        spares = (*spares, judge.own_gpus - run.judge_replicas * judge.engine.layout.n_gpus)
    for (verb, held, what), spare in zip(sides, spares, strict=True):
        if n := median(spare):
            takes = "takes" if verb == "train" else "take"
            idle = "the other one is idle and paid" if n == 1 else f"the other {n:,.0f} are idle and paid"
            yield f"{what} {takes} {held - n:,.0f} of {format_count(float(held), 'GPU')} that {verb}: {idle}"


def _assumptions(question: RLQuestion, mfu_fraction: Num) -> dict[str, Any]:
    """What is taken for granted beside the fitted constants."""
    document: dict[str, Any] = {
        "verifier_headroom_fraction": VERIFIER_HEADROOM,
        "epochs_over_the_tasks": EPOCHS,
        "pretraining_mfu": quantity(mfu_fraction, ""),
        "colocated": "weights and caches of the idle side are moved out of the way within weight sync",
    }
    if question.lora is not None:
        document |= _ADAPTERS_ASSUMED
    tails = question.rollout_limit_tokens, question.rollout_lengths, question.longest_over_mean
    if all(one is None for one in tails):
        document["longest_over_mean"] = LONGEST_OVER_MEAN
    return document


def _factors() -> dict[str, dict[str, Any]]:
    """RL's constants with their sources."""
    return {
        name: {**documents.ends_document(one.value), "kind": one.kind, "why": one.why, "source": one.source}
        for name, one in load_rl_factors().items()
    }


def rl(question: RLQuestion | None = None, /, **given: Given) -> RLAnswer:
    """Where the GPU-time of a reinforcement-learning run goes, what it costs, and who waits.

    Parameters
    ----------
    question : RLQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.workloads.questions.rl.RLQuestion`: texts with units, or numbers
        in SI units.

    Returns
    -------
    RLAnswer
        With the layouts and the split of the GPUs that were stated, or found.

    Raises
    ------
    InputError
        For bad input, and where nothing fits.

    Examples
    --------
    >>> answer = rl(model="llama-3.1-8b", system="h100-nvl8", gpus=16, rollout_tokens=1000, samples=16)
    >>> twice = rl(answer.question, prompts_per_step=256)
    >>> 1.2 < twice.step_s.p50 / answer.step_s.p50 < 2.1
    True
    """
    if elsewhere := sorted(given.keys() & (fields_of(RLReturnsQuestion).keys() - fields_of(RLQuestion).keys())):
        raise InputError(f"{', '.join(elsewhere)}: a question to rl_returns, not to rl")
    return from_python(RLQuestion, answer_rl, question, given)


def answer_rl(question: RLQuestion) -> RLAnswer:
    """Answer ``computeledger rl``."""
    logged = with_log(question)
    question = logged.question
    try:
        setting, grown = _read(question)
    except DoesNotFitError as error:
        if "gpus" not in logged.taken:
            raise
        held = format_count(int(logged.taken["gpus"]), "GPU")
        raise DoesNotFitError(f"{error}; the log says {held}") from None
    stage("the run with its samples")
    run = _cost(setting, typical=False)
    stage("what binds")
    result = _cost(setting, typical=True).result
    one, machines = setting.run.typical, setting.run.typical_machines
    binding = None
    if one.judge is not None and str(np.ravel(pace_bound(result))[0]) == "judge":
        binding = judge_bound(one.judge, one.transcripts, machines.generation)
    bound = decode_bound(one.engine, one.sampling, result.generation.live, machines.generation)
    return RLAnswer(
        question=question,
        setting=setting,
        run=run,
        typical=result,
        bound=str(np.ravel(bound if binding is None else binding)[0]),
        next_gpu=next_gpu(one, machines),
        levers=tuple(levers(one, machines)) if question.levers else (),
        group_sizes=_group_sizes(setting) if question.levers else {},
        domains=_domains(setting) if question.scale_up else (),
        environments=environments_of(run.result, one, machines) if question.turns is not None else None,
        horizons=tuple(longer_horizons(one, machines)) if question.turns is not None else (),
        judge_gpus=judge_gpus_that_keep_pace(one, machines) if one.judge is not None else None,
        grown=grown,
        launch=_launch(question, setting, result) if question.emit is not None else None,
        comparison=_comparison(logged, run, result, setting) if logged.measured is not None else None,
    )


def _comparison(logged: LoggedQuestion, run: RunCost, typical: RLResult, setting: Setting) -> Comparison:
    """A step of the reader's beside the run's, and what would make it shorter."""
    return compare_step(logged, run, typical, step_levers(setting.run.typical, setting.run.typical_machines))


def _launch(question: RLQuestion, setting: Setting, planned: RLResult) -> Launch:
    """The run as the framework takes it that the question names."""
    domain, steps = int(setting.system.n_gpus_scale_up.value), median(setting.medians["steps"])
    limit = None if question.turn_limit is None else median(setting.medians["turn_limit"])
    engine, trains_on = str(question.settled.backend), question.training_system or ""
    run = Emitted(setting.run.typical, engine, domain, steps, limit, trains_on, median(planned.step_s))
    return rl_launch(str(question.emit), run)


#: How often the GPUs are doubled in search of those that hold a run whose scale-up domain is asked about.
_MOST_DOUBLINGS = 7


def _read(question: RLQuestion) -> tuple[Setting, str]:
    """The question's run; where only its scale-up domain is asked about, on the fewest GPUs, doubled, that hold it."""
    try:
        return read_setting(question), ""
    except DoesNotFitError:
        if not question.scale_up:
            raise
        system = load_system(question.system)
        given = question.gpus or system.n_gpus or int(system.n_gpus_scale_up.value)
        free = replace(question, generation_gpus=None, training_gpus=None, layout=None, training_layout=None)
        for doublings in range(1, _MOST_DOUBLINGS + 1):
            n_gpus = given * 2**doublings
            try:
                setting = read_setting(replace(free, gpus=n_gpus))
            except DoesNotFitError:
                continue
            words = format_count(n_gpus, "GPU")
            return setting, f"the run does not fit {format_count(given, 'GPU')}: it is shown on {words}"
        raise


def _cost(setting: Setting, typical: bool) -> RunCost:
    """One step of the run and what it costs."""
    numbers = setting.medians if typical else setting.draws
    scenario = setting.run.typical if typical else setting.run.scenario
    machines = setting.run.typical_machines if typical else setting.run.machines
    peak, n_active = machines.training.bf16_flop_per_s, n_params_active(setting.run.model)
    return RunCost(
        result=estimate_rl(scenario, machines),
        steps=numbers["steps"],
        usd_per_gpu_hour=numbers["price"],
        facility_w_per_gpu=numbers["power"],
        pretraining_gpu_s_per_token=pretraining_gpu_s_per_token(n_active, peak, numbers["mfu"]),
        pretraining_terms=_pretraining_terms(setting, numbers["mfu"]),
    )


def _pretraining_terms(setting: Setting, mfu_fraction: Num) -> tuple[Term, ...]:
    """What a pretraining token's GPU-time is made of, on the chips of the run."""
    chip = setting.system.accelerator
    peak = fact_term(f"dense bf16 peak of {chip.short_name}", chip.peak_flop_per_s["bf16"])
    return (
        Term("N, active parameters", float(n_params_active(setting.run.model)), "params"),
        Term("share of the peak in pretraining", mfu_fraction, "fraction", "plan", "--mfu"),
        replace(peak, unit="FLOP/s"),
    )


def _group_sizes(setting: Setting) -> dict[str, RLResult]:
    """Sampling 4 against 64 per problem, the rest alike."""
    found = {}
    for size in (4.0, 64.0):
        algorithm = replace(setting.run.typical.algorithm, group_size=size)
        sampling = replace(setting.run.typical.sampling, group_size=size)
        moved = replace(setting.run.typical, algorithm=algorithm, sampling=sampling)
        found[f"{size:.0f}"] = estimate_rl(moved, setting.run.typical_machines)
    return found


def _domains(setting: Setting) -> tuple[DomainAnswer, ...]:
    """The question's model and rollouts in one domain of each kind."""
    machines, engine = setting.run.typical_machines, setting.run.typical.engine
    sampling = setting.run.typical.sampling
    models = [replace(engine, model=one, precision=Precision()) for one in map(load_model, MODELS)]
    rows = []
    for name in dict.fromkeys((setting.system.id, *SCALE_UP_SYSTEMS)):
        there = rl_machine(replace(machines.generation, system=load_system(name)))
        moved = replace(machines, generation=there, training=there)
        use, trace = domain_use(engine, sampling, moved), longest_trace(engine, sampling, moved)
        best = largest_model(models, sampling, moved)
        rows.append(DomainAnswer(use, trace, best[0].id if best else "none of those tried"))
    return tuple(rows)
