"""An RL question made ready: lengths, verifiers, layouts, split. No formula here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, median
from computeledger.errors import InputError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.files import MOST_VALUES, read_user_lines
from computeledger.frontier.text import text_facts
from computeledger.physics.calibration.efficiency import middle
from computeledger.physics.calibration.rl import RATIOS, RLFactors, load_rl_factors
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.questions.answers.setup import draw_machine, precision_of, price_of
from computeledger.units import parse_quantity
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.generation import Sampling
from computeledger.workloads.rl.lengths import (
    Lengths,
    default_longest,
    empirical_lengths,
    lengths_of_mean,
    lognormal_lengths,
)
from computeledger.workloads.rl.placement import Stated, place_run
from computeledger.workloads.rl.scenario import (
    Algorithm,
    Domain,
    RLMachines,
    RLScenario,
    Split,
    TextReward,
    mixture_problem,
)
from computeledger.workloads.rl.search import SplitOption, rl_machine
from computeledger.workloads.rl.sureness import rl_class, rl_factors_of
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.serving.estimate import ServingScenario

#: Splits of the GPUs that an answer lists.
SHOWN = 5
#: Fields that are numbers, certain or not, by the names of their random streams.
_NUMBERS = {
    "rollout": "rollout_tokens", "rollout_p50": "rollout_p50_tokens", "rollout_p95": "rollout_p95_tokens",
    "longest": "rollout_limit_tokens", "prompt": "prompt_tokens", "prompts": "prompts_per_step",
    "kept": "kept_fraction", "updates": "updates_per_batch", "gold": "continuation_tokens",
    "next_token": "next_token_tokens", "text_per_place": "text_tokens_per_position",
    **{name: name for name in (
        "group_size", "steps", "sampling_rounds", "oversampling", "optimizer_steps", "verifier_cores", "live_limit",
        "tokens_per_step", "mfu", "pretraining_flop", "budget_flop", "logprob_passes", "critic_ratio", "reward_ratio",
        "verifier_time", "draft_tokens",
    )},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """The run of a question, with samples and at the middle of its ranges."""

    model: Model
    system: System
    sureness: str
    price_ground: dict[str, Any]
    draws: dict[str, Num]
    middles: dict[str, Num]
    machines: RLMachines
    typical_machines: RLMachines
    scenario: RLScenario
    typical: RLScenario
    options_found: list[SplitOption]


def read_setting(question: RLQuestion) -> Setting:
    """Make a question ready: facts loaded, inputs sampled, layouts and split found where they are not given."""
    one = _Reading(question)
    return Setting(
        model=one.model,
        system=one.system,
        sureness=one.sureness,
        price_ground=one.price_ground,
        draws=one.draws,
        middles=one.middles,
        machines=one.machines,
        typical_machines=one.typical_machines,
        scenario=one.scenario,
        typical=one.typical,
        options_found=one.options_found,
    )


class _Reading:
    """A question on its way to a run."""

    def __init__(self, question: RLQuestion) -> None:
        self.question = question
        self.model, self.system = load_model(question.model), load_system(question.system)
        self.price, self.price_ground = price_of(self.system, question.price)
        given = {name: getattr(question, field) for name, field in _NUMBERS.items()}
        known: dict[str, Uncertain] = {name: value for name, value in given.items() if value is not None}
        known |= {"price": self.price, "power": self.system.facility_w_per_chip.uncertain}
        if question.continuation_tokens is not None:
            known["stock"] = text_facts()["stock_tokens"].uncertain
        ideal = question.backend == "ideal"
        if not ideal:
            known |= {f"efficiency.{name}": load_rl_factors()[name].value for name in RATIOS}
        self.draws, drawn, typical = draw_machine(self.system, known, question.backend, question)
        self.middles: dict[str, Num] = {name: middle(value) for name, value in known.items() if "." not in name}
        mean = median(self._lengths(self.middles).mean_tokens)
        self.sureness = "physical limit" if ideal else rl_class(self.model, self.system.accelerator, mean)
        factors = (RLFactors(), RLFactors())
        if not ideal:
            factors = (rl_factors_of(self.sureness, self.draws), rl_factors_of(self.sureness))
        self.machines = self._machines(drawn, factors[0])
        self.typical_machines = self._machines(typical, factors[1])
        self.options_found: list[SplitOption] = []
        self.typical = self._typical()
        self.scenario = self._with(self.draws, self.typical)

    def _machines(self, machine: Machine, factors: RLFactors) -> RLMachines:
        one = Machine(self.system) if self.question.backend == "ideal" else rl_machine(machine)
        other = self.question.training_system
        return RLMachines(one, replace(one, system=load_system(other)) if other else one, factors)

    def _typical(self) -> RLScenario:
        """The run at the middle of its ranges, with layouts and split found where they are not given."""
        question, model = self.question, self.model
        gpus, trains = question.gpus or int(self.system.n_gpus_scale_up.value), question.training_gpus
        if trains is not None and trains >= gpus:
            raise InputError(f"--training-gpus {trains}: of {gpus} GPUs some must generate")
        bare = self._with(self.middles, None)
        check_context(model, bare.sampling)
        layout, trainer = question.layout, question.training_layout
        stated = Stated(
            n_gpus=gpus,
            n_training=trains,
            max_lag=question.max_lag,
            is_in_flight=question.takes_weights_live,
            generation=check_layout(parse_layout(layout), model) if layout else None,
            trainer=check_layout(parse_layout(trainer), model) if trainer else None,
            precision=parse_training_precision(question.training_precision, model.is_moe),
            recompute=question.recompute,
            is_wide=question.search,
        )
        placed, found = place_run(bare, stated, self.typical_machines)
        self.options_found = found[:SHOWN]
        return placed

    def _with(self, numbers: Mapping[str, Num], found: RLScenario | None) -> RLScenario:
        """The run with given numbers, and with layouts and split where they have been found."""
        question = self.question
        precision = precision_of(self.model, question.precision, question.kv_precision)
        lengths = self._lengths(numbers)
        engine = ServingScenario(
            model=self.model,
            layout=found.engine.layout if found else Layout(),
            precision=precision,
            input_tokens=numbers["prompt"],
            output_tokens=lengths.mean_tokens,
            batch=numbers["live_limit"],
            draft_tokens=numbers["draft_tokens"],
            tokens_per_step=numbers["tokens_per_step"],
        )
        return RLScenario(
            engine=engine,
            sampling=Sampling(lengths, numbers["prompt"], numbers["group_size"], not question.no_shared_prefix),
            algorithm=self._algorithm(numbers),
            trainer=found.trainer if found else Trainer(Layout()),
            split=found.split if found else Split(1.0, 1.0),
            domains=self._domains(numbers),
            text=self._text(numbers),
        )

    def _text(self, numbers: Mapping[str, Num]) -> TextReward | None:
        if "gold" not in numbers:
            return None
        return TextReward(numbers["gold"], self.question.train_on_continuation, numbers["next_token"])

    def _algorithm(self, numbers: Mapping[str, Num]) -> Algorithm:
        return Algorithm(
            prompts_per_step=numbers["prompts"],
            group_size=numbers["group_size"],
            kept_fraction=numbers["kept"],
            sampling_rounds=numbers["sampling_rounds"],
            started_ratio=numbers["oversampling"],
            keeps_partial=self.question.partial_rollouts,
            logprob_passes=numbers["logprob_passes"],
            updates_per_batch=numbers["updates"],
            optimizer_steps=numbers["optimizer_steps"],
            critic_ratio=numbers["critic_ratio"],
            reward_ratio=numbers["reward_ratio"],
        )

    def _lengths(self, numbers: Mapping[str, Num]) -> Lengths:
        if self.question.rollout_lengths is not None:
            return empirical_lengths(read_lengths(self.question.rollout_lengths))
        room = (self.model.max_context_tokens or np.inf) - numbers["prompt"]
        if "rollout_p50" in numbers:
            p50, p95 = numbers["rollout_p50"], numbers["rollout_p95"]
            longest = np.maximum(default_longest(room, p50, p95), p50)
            return lognormal_lengths(p50, p95, numbers.get("longest", longest))
        longest = np.maximum(default_longest(room, numbers["rollout"]), numbers["rollout"])
        return lengths_of_mean(numbers["rollout"], numbers.get("longest", longest))

    def _domains(self, numbers: Mapping[str, Num]) -> tuple[Domain, ...]:
        if self.question.verifier:
            return check_mixture(tuple(parse_domain(text) for text in self.question.verifier))
        if not self.question.verifier_time:
            return ()
        return (Domain(1.0, numbers["verifier_time"], numbers["verifier_cores"]),)


def check_context(model: Model, sampling: Sampling) -> None:
    """Refuse rollouts beyond the model's context."""
    held = median(sampling.prompt_tokens) + median(sampling.lengths.longest_tokens)
    if model.max_context_tokens and held > model.max_context_tokens:
        raise InputError(
            f"prompt and longest rollout of {held:.0f} tokens exceed the context of {model.id}: "
            f"{model.max_context_tokens}; state --rollout-limit-tokens"
        )


def parse_domain(text: str) -> Domain:
    """Read one kind of verifier: ``30%:2s:512``."""
    parts = text.split(":")
    if len(parts) != 3:
        raise InputError(f"--verifier {shown(text)}: expected SHARE:TIME:CORES, such as 30%:2s:512")
    try:
        share, time_s, cores = (
            parse_quantity(part, dimension, unit)
            for part, dimension, unit in zip(parts, ("fraction", "s", "count"), ("", None, ""), strict=True)
        )
    except InputError as error:
        raise InputError(f"--verifier {error}") from None
    if isinstance(share, Range) or isinstance(time_s, Range) or isinstance(cores, Range):
        raise InputError(f"--verifier {shown(text)}: expected single numbers; ranges go to --verifier-time")
    if cores < 1:
        raise InputError(f"--verifier {shown(text)}: at least 1 core is needed")
    return Domain(share, time_s, cores)


def check_mixture(domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
    """Refuse kinds of tasks that are not all of them."""
    if problem := mixture_problem(domains):
        raise InputError(f"--verifier: {problem}")
    return domains


def read_lengths(path: str) -> list[float]:
    """Read observed lengths, one number per line."""
    found: list[float] = []
    for number, line in read_user_lines(Path(path)):
        for word in line.split():
            try:
                found.append(float(word))
            except ValueError:
                raise InputError(f"{path}:{number}: {shown(word)} is no number of tokens") from None
        if len(found) > MOST_VALUES:
            raise InputError(f"{path}:{number}: more than {MOST_VALUES:,} lengths")
    if not found:
        raise InputError(f"{path}: no lengths")
    return found
