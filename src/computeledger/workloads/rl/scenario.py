"""What an RL run is asked for: its algorithm, its verifiers, who has which GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, median
from computeledger.bounds import AT_LEAST_ONE, FRACTION, POSITIVE, Bound, check_record
from computeledger.errors import QuantityError
from computeledger.facts.architecture import Lora
from computeledger.physics.adapters import adapter_params
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.transformer import n_params_active
from computeledger.units import format_percent
from computeledger.workloads.rl.judge import Judge, Transcripts
from computeledger.workloads.rl.lengths import Lengths
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario

#: Verdicts at a time where a verifier takes time and nobody says how many (assumption).
VERIFIER_CORES = 1024.0
#: Why in-flight updates without a lag are refused, wherever they are stated.
NEEDS_LAG = "live rollouts take new weights only where they may be behind"
#: Why a judge in turn is refused under a lag, wherever it is stated.
JUDGE_NEEDS_GPUS = (
    "a judge on the generators' GPUs waits until all rollouts of a step have ended, which under a lag they never have: "
    "state judge GPUs, or lag 0"
)
#: Shares of verifiers add up to one but for the rounding of what people type [-].
SHARES_ROUNDING = 5e-3
#: Shares of the GPUs that generate, as a search tries them.
_SHARES = np.linspace(0.06, 0.94, 45)


@dataclass(frozen=True, slots=True)
class Domain:
    """Rollouts that one kind of verifier judges."""

    share_fraction: Num
    cpu_s: Num
    n_cores: Num

    def __post_init__(self) -> None:
        check_record(self, share_fraction=FRACTION, n_cores=Bound(1.0, is_endless=True))


def mixture_problem(domains: Sequence[Domain]) -> str:
    """Say what is wrong with kinds of tasks that are not all of them.

    Examples
    --------
    >>> mixture_problem([Domain(0.3, 2.0, 512.0), Domain(0.7, 0.0, 1.0)])
    ''
    >>> mixture_problem([Domain(0.3, 2.0, 512.0)]).partition(";")[0]
    'the shares add up to 30 %, not to 100 %'
    """
    if not domains:
        return ""
    total = np.sum(np.stack(np.broadcast_arrays(*(one.share_fraction for one in domains))), axis=0)
    if np.all(np.abs(total - 1) <= SHARES_ROUNDING):
        return ""
    return (
        f"the shares add up to {format_percent(median(total))}, not to 100 %; rollouts whose verdict takes no "
        "time are a kind too, such as 70%:0s:1"
    )


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What a step samples, keeps and trains on."""

    prompts_per_step: Num
    group_size: Num
    kept_fraction: Num = 1.0
    sampling_rounds: Num = 1.0
    started_ratio: Num = 1.0
    keeps_partial: bool = False
    logprob_passes: Num = 1.0
    updates_per_batch: Num = 1.0
    optimizer_steps: Num = 1.0
    critic_ratio: Num = 0.0
    reward_ratio: Num = 0.0
    agents: Num = 1.0
    trained_agents: Num = 1.0

    def __post_init__(self) -> None:
        check_record(
            self,
            prompts_per_step=POSITIVE,
            group_size=AT_LEAST_ONE,
            kept_fraction=FRACTION,
            sampling_rounds=AT_LEAST_ONE,
            started_ratio=AT_LEAST_ONE,
            updates_per_batch=POSITIVE,
            optimizer_steps=POSITIVE,
            agents=AT_LEAST_ONE,
            trained_agents=AT_LEAST_ONE,
        )

    @property
    def rollouts(self) -> Num:
        """Rollouts that a step takes in, one for each agent of an episode [-]."""
        return self.prompts_per_step * self.group_size * self.agents

    @property
    def trained_rollouts(self) -> Num:
        """Of them, those of agents that are trained on: what the trainer goes over [-]."""
        return self.prompts_per_step * self.group_size * self.trained_agents

    @property
    def forward_passes(self) -> Num:
        """Forward passes over every rollout, critic and reward model counted by size [-]."""
        return self.logprob_passes + self.critic_ratio + self.reward_ratio

    @property
    def trained_passes(self) -> Num:
        """Updates over every rollout of the step, kept or not, critic counted by size [-]."""
        return self.kept_fraction * self.updates_per_batch * (1 + self.critic_ratio)


@dataclass(frozen=True, slots=True)
class TextReward:
    """RL on text: a thought is worth what it adds to the likelihood of the gold, the text that goes on behind it.

    A place of a text is a prompt, its context. Behind every thought the gold is scored, and once per place without one;
    for all of it the context is read once.
    """

    gold_tokens: Num
    is_gold_trained: bool = False
    plain_tokens: Num = 0.0

    def __post_init__(self) -> None:
        check_record(self)


@dataclass(frozen=True, slots=True)
class Split:
    """Who has which GPUs."""

    n_generation: Num
    n_training: Num
    is_colocated: bool = True
    max_lag: int = 0
    is_in_flight: bool = False

    def __post_init__(self) -> None:
        check_record(self)
        if self.is_in_flight and not self.max_lag:
            raise QuantityError(f"is_in_flight: {NEEDS_LAG}; max_lag must be at least 1")

    @property
    def n_gpus(self) -> Num:
        """GPUs of the run [-]."""
        return self.n_generation if self.is_colocated else self.n_generation + self.n_training


@dataclass(frozen=True, slots=True)
class RLScenario:
    """An RL run on rollouts.

    Attributes
    ----------
    engine : ServingScenario
        Of one generation replica; its batch is the engine's own limit of live rollouts.
    sampling : Sampling
        Lengths and prompts.
    algorithm : Algorithm
        What a step samples, keeps and trains on.
    trainer : Trainer
        Layout, precision, packing.
    split : Split
        Who has which GPUs.
    domains : tuple of Domain
        Verifiers by kind of task; none where checking takes no time.
    text : TextReward or None
        What rewards a thought about a text; None where rollouts are verified.
    weight_sync : str or None
        Mechanism that hands over weights; None for the usual one of the placement.
    is_one_program : bool
        Whether trainer and generators are one program: no controller hands out work, no engine is woken.
    has_stages : bool
        Whether the framework runs generation on pipeline stages; searched without them where it does not.
    gpu_batch : float or ndarray or None
        Rollouts that a GPU of a replica decodes at once at most, where no engine batches them [-].
    host_unit : int
        Of a run that a framework is to start, GPUs of which sides apart take multiples: layouts that divide their GPUs,
        and ranks their batch, are preferred. 0 of any other run [-].
    judge : Judge or None
        A served model that judges rollouts; verifiers check behind its verdict.
    """

    engine: ServingScenario
    sampling: Sampling
    algorithm: Algorithm
    trainer: Trainer
    split: Split
    domains: tuple[Domain, ...] = ()
    text: TextReward | None = None
    weight_sync: str | None = None
    is_one_program: bool = False
    has_stages: bool = True
    gpu_batch: Num | None = None
    host_unit: int = 0
    judge: Judge | None = None

    def __post_init__(self) -> None:
        check_record(self)
        if problem := mixture_problem(self.domains):
            raise QuantityError(f"domains: {problem}")

    @property
    def lora(self) -> Lora | None:
        """Adapters that are trained; None where the whole model is."""
        return self.trainer.lora

    @property
    def breaks_off(self) -> bool:
        """Whether rollouts are broken off and dropped when enough have ended."""
        return bool(np.any(np.asarray(self.algorithm.started_ratio) > 1)) and not self.algorithm.keeps_partial

    @property
    def written(self) -> Lengths:
        """Lengths that are written: failed attempts included, cut where enough rollouts have ended [token]."""
        lengths, ratio = self.sampling.lengths, self.algorithm.started_ratio
        lengths = lengths.repeated(self.sampling.turns.failed_fraction)
        return lengths.until(1 - 1 / ratio) if self.breaks_off else lengths

    @property
    def taken_tokens(self) -> Num:
        """Mean length of the rollouts that a step takes in: the shorter ones where others are broken off [token]."""
        if not self.breaks_off:
            return self.sampling.lengths.mean_tokens
        ratio = self.algorithm.started_ratio
        written = self.sampling.lengths.until(1 - 1 / ratio)
        return ratio * written.mean_tokens - (ratio - 1) * written.longest_tokens

    @property
    def sequence_tokens(self) -> Num:
        """Mean of prompt, rollout and what it observed, as the trainer sees it [token]."""
        return self.sampling.context_tokens(self.taken_tokens)

    @property
    def passed_tokens(self) -> Num:
        """Mean length of a forward pass over a rollout; of RL on text a group's context is read once [token]."""
        if self.text is None:
            return self.sequence_tokens
        return self.sequence_tokens - self.sampling.prompt_tokens * (1 - 1 / self.algorithm.group_size)

    @property
    def longest_sequence_tokens(self) -> Num:
        """Longest of them [token]."""
        return self.sampling.longest_context_tokens

    @property
    def calls(self) -> Num:
        """Calls of tools in a step, those of failed attempts included [-]."""
        return self.sampling.turns.calls_per_token * self.sampled_tokens

    @property
    def observed_tokens(self) -> Num:
        """Tokens that tools answer in a step [token]."""
        return self.calls * self.sampling.turns.observed_tokens

    @property
    def trained_tokens(self) -> Num:
        """Mean length of a sequence of the update: prompt, rollout, and gold where it is trained on [token]."""
        gold = self.text.gold_tokens if self.text is not None and self.text.is_gold_trained else 0.0
        return self.sequence_tokens + gold

    @property
    def padding_tokens(self) -> Num:
        """Tokens that a sequence is padded by on average, up to the longest of its microbatch [token]."""
        if not self.trainer.is_padded:
            return 0.0
        each = self.trainer.batch(self.sequence_tokens, self.algorithm.trained_rollouts).microbatch_sequences
        longest = self.sampling.context_tokens(self.sampling.lengths.expected_longest_tokens(each))
        return np.maximum(longest - self.sequence_tokens, 0.0)

    @property
    def read_tokens(self) -> Num:
        """Prompt tokens that the generators read for one step, once per group where its cache is shared [token]."""
        each = self.algorithm.group_size if self.sampling.is_prefix_shared else 1.0
        return self.algorithm.rollouts * self.sampling.prompt_tokens / each

    @property
    def scored(self) -> dict[str, tuple[Num, Num]]:
        """Passes that score a text: mean length of their sequences [token] and how many [-], by phase."""
        if self.text is None:
            return {}
        one, gold = self.algorithm, self.text.gold_tokens
        shared = self.sampling.prompt_tokens / one.group_size
        return {
            "thought scoring": (shared + self.taken_tokens + gold, one.rollouts),
            "baseline": (gold, one.prompts_per_step),
        }

    @property
    def sampled_tokens(self) -> Num:
        """Tokens generated for one step, dropped ones included [token]."""
        ratio = self.algorithm.started_ratio if self.breaks_off else 1.0
        rollouts = self.algorithm.rollouts * self.algorithm.sampling_rounds
        return rollouts * ratio * self.written.mean_tokens

    @property
    def flop_by_phase(self) -> dict[str, Num]:
        """FLOP of one step: ``2 N`` a generated token, ``2 N`` a pass and ``6 N`` an update over prompt and rollout.

        With adapters of ``a`` parameters an update takes ``4 N + 6 a``; a generated token and the pass of the old
        policy ``2 a`` more where adapters run beside the weights. The reference has them off.

        Where a text rewards, its scores take ``2 N`` a token, a forward pass reads the context once for a group, and
        generators read it too: it is long beside a thought. So they do with what tools answer. Of other rollouts
        reading the prompt is left out.
        """
        n, one = n_params_active(self.engine.model), self.algorithm
        a = 0.0 if self.lora is None else adapter_params(self.engine.model, self.lora)
        beside = 0.0 if self.engine.model.adapters is None else a
        update = 6 * n if self.lora is None else 4 * n + 6 * a
        passes = one.forward_passes * n + np.minimum(one.logprob_passes, 1.0) * a
        read, plain = (0.0, 0.0) if self.text is None else (self.read_tokens, self.text.plain_tokens)
        return {
            "generation": 2 * (n + beside) * (self.sampled_tokens + read + self.observed_tokens),
            **{name: 2 * (n + a) * tokens * sequences for name, (tokens, sequences) in self.scored.items()},
            "log-probs": 2 * passes * one.trained_rollouts * self.passed_tokens,
            "update": update * (one.trained_passes * one.trained_rollouts * self.trained_tokens + plain),
            **({} if self.judge is None else {"judge": self.judge_flop}),
        }

    @property
    def n_replicas(self) -> Num:
        """Whole generation replicas [-]."""
        return np.floor(self.split.n_generation / self.engine.layout.n_gpus)

    @property
    def is_even(self) -> NDArray[np.bool_]:
        """Whether layouts divide their GPUs, experts their ranks, and ranks the rollouts of an optimizer step."""
        one, trainer = self.algorithm, self.trainer.layout
        idle = self.split.n_generation - self.n_replicas * self.engine.layout.n_gpus
        rest = (one.trained_rollouts / one.optimizer_steps) % trainer.dp + self.experts_rest
        whole = (idle == 0) & (trainer.n_gpus == self.split.n_training) & (rest == 0)
        if not self.split.is_colocated and self.host_unit > 1:
            on_one = np.asarray(self.split.n_gpus <= self.host_unit)
            hosts = (self.split.n_training % self.host_unit) + (self.split.n_generation % self.host_unit)
            whole = whole & (on_one | (hosts == 0))
        return np.asarray(whole)

    @property
    def experts_rest(self) -> Num:
        """Ranks of a pipeline stage of the trainer that its expert parallelism leaves over [-]."""
        trainer = self.trainer.layout
        rest: Num = (trainer.tp * trainer.cp * trainer.dp) % np.maximum(trainer.ep, trainer.tp)
        return rest

    @property
    def n_gpus(self) -> Num:
        """GPUs of the run, those that only judge included [-]."""
        return self.split.n_gpus + (0.0 if self.judge is None else self.judge.own_gpus)

    @property
    def judge_replicas(self) -> Num:
        """Whole replicas of the judge, on GPUs of its own or the generators' [-]."""
        if self.judge is None:
            return 0.0
        gpus = self.split.n_generation if self.judge.n_gpus is None else self.judge.n_gpus
        return np.floor(gpus / self.judge.engine.layout.n_gpus)

    @property
    def transcripts(self) -> Transcripts:
        """What a judge is given in a step: a group's prompt is read once where its cache is shared."""
        one, each = self.algorithm, self.algorithm.group_size if self.sampling.is_prefix_shared else 1.0
        shared = self.sampling.prompt_tokens * (1 - 1 / each)
        return Transcripts(one.rollouts * one.sampling_rounds, self.sequence_tokens - shared, shared)

    @property
    def judge_flop(self) -> Num:
        """FLOP of a step's verdicts: ``2 N`` of the judge for each token that it reads or writes [FLOP]."""
        if self.judge is None:
            return 0.0
        given = self.transcripts
        tokens = given.read_tokens + self.judge.calls * self.judge.tokens
        return 2 * n_params_active(self.judge.engine.model) * given.rollouts * tokens

    def on(self, layout: Layout) -> ServingScenario:
        """The generation engine on a layout, with its limit of live rollouts there.

        Parameters
        ----------
        layout : Layout
            Of one replica of the generators.

        Returns
        -------
        ServingScenario
            With ``gpu_batch`` rollouts at once for each of its GPUs, where that is stated.
        """
        engine = replace(self.engine, layout=layout)
        return engine if self.gpu_batch is None else replace(engine, batch=self.gpu_batch * layout.n_gpus)

    @property
    def spare_gpus(self) -> tuple[Num, Num]:
        """GPUs of the generators that no whole replica takes, and of the trainer that its layout leaves out [-]."""
        split, trained = self.split, self.trainer.layout.n_gpus
        generated = np.maximum(self.n_replicas, 1.0) * self.engine.layout.n_gpus
        return np.maximum(split.n_generation - generated, 0.0), np.maximum(split.n_training - trained, 0.0)

    @property
    def working_replicas(self) -> Num:
        """Replicas that an environment can be given to, at least one: with fewer environments the others idle [-]."""
        environments = np.floor(np.asarray(self.sampling.turns.environments, float))
        working: Num = np.maximum(np.minimum(self.n_replicas, environments), 1.0)
        return working


@dataclass(frozen=True, slots=True)
class RLMachines:
    """Where an RL run stands."""

    generation: Machine
    training: Machine
    factors: RLFactors = field(default_factory=RLFactors)


def check_rl(scenario: RLScenario) -> RLScenario:
    """Refuse a run that cannot be."""
    if scenario.split.is_colocated and scenario.split.max_lag > 0:
        raise QuantityError("a lag needs GPUs of its own for training: state training GPUs, or lag 0")
    if scenario.judge is not None and scenario.split.max_lag > 0 and not scenario.judge.is_apart:
        raise QuantityError(JUDGE_NEEDS_GPUS)
    return scenario


def least_ranks(layout: Layout) -> int:
    """Data-parallel ranks of a trainer's layout come in multiples of these: experts are spread over a stage evenly.

    Examples
    --------
    >>> [least_ranks(Layout(tp=2, dp=8, ep=ep)) for ep in (1, 2, 8)]
    [1, 1, 4]
    """
    ep = int(layout.ep)
    return ep // math.gcd(ep, int(layout.tp) * int(layout.cp))


def shares_apart(
    n_gpus: float, cut: Layout, layouts: Sequence[Layout]
) -> tuple[list[tuple[Layout, float]], NDArray[np.float64], NDArray[np.float64]]:
    """Share GPUs between generators and a trainer of their own, in whole replicas of either.

    Examples
    --------
    >>> _, generating, training = shares_apart(32.0, Layout(tp=4), [Layout(tp=8)])
    >>> generating.tolist(), training.tolist()
    ([8.0, 16.0, 24.0], [24.0, 16.0, 8.0])
    """
    unit = float(cut.tp * cut.pp * cut.cp * least_ranks(cut))
    pairs = [
        (layout, float(generators))
        for layout in layouts
        for generators in sorted({np.floor(share * n_gpus / layout.n_gpus) * layout.n_gpus for share in _SHARES})
        if generators >= layout.n_gpus and n_gpus - generators >= unit
    ]
    generation = np.array([generators for _, generators in pairs], float)
    return pairs, generation, np.floor((n_gpus - generation) / unit) * unit
