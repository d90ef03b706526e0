"""A whole RL run: hours, money, energy, beta by phase, and how it compares with a pretraining run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from computeledger.arrays import Num
from computeledger.physics.adapters import adapter_params
from computeledger.physics.transformer import n_params_active
from computeledger.units import DAY_S, HOUR_S
from computeledger.workloads.result import ASKED, Figure, Term
from computeledger.workloads.rl.coverage import BudgetDemand, budget_demand
from computeledger.workloads.rl.estimate import RLResult
from computeledger.workloads.rl.judge import Judge
from computeledger.workloads.rl.scenario import RLScenario
from computeledger.workloads.rl.shares import fractions

#: Times a set of tasks is gone through (assumption).
EPOCHS = 10.0


@dataclass(frozen=True, slots=True)
class RunCost:
    """An RL run with what it costs and what it is compared with."""

    result: RLResult
    steps: Num
    usd_per_gpu_hour: Num
    facility_w_per_gpu: Num
    pretraining_gpu_s_per_token: Num
    pretraining_terms: tuple[Term, ...] = ()

    @property
    def gpu_hours(self) -> Num:
        """Of the run, waiting included, failures not [h]."""
        return self.steps * self.result.gpu_s_per_step / HOUR_S

    @property
    def phase_gpu_hours(self) -> dict[str, Num]:
        """The same by phase [h]."""
        return {name: self.steps * part / HOUR_S for name, part in self.result.phases_gpu_s.items()}

    @property
    def phase_fraction(self) -> dict[str, Num]:
        """Share of each phase in the run's GPU-time; their medians add up to 1 [-]."""
        return fractions(self.result.phases_gpu_s, self.result.gpu_s_per_step)

    @property
    def days(self) -> Num:
        """Of the run, failures not counted [day]."""
        return self.steps * self.result.step_s / DAY_S

    @property
    def flop(self) -> Num:
        """Model FLOP of the run [FLOP]."""
        return self.steps * self.result.flop_per_step

    @property
    def tokens(self) -> Num:
        """Sampled in the run [token]."""
        return self.steps * self.result.sampled_tokens

    @property
    def usd(self) -> Num:
        """Money for the GPUs [USD]."""
        return self.gpu_hours * self.usd_per_gpu_hour

    @property
    def energy_j(self) -> Num:
        """Of the GPUs' share of the facility [J]."""
        return self.gpu_hours * HOUR_S * self.facility_w_per_gpu

    @property
    def tokens_per_s_per_gpu(self) -> Num:
        """Sampled tokens over the whole run's GPU-time [token/s]."""
        return 1 / self.result.gpu_s_per_token

    @property
    def beta_gpu_time(self) -> Num:
        """Against the pretraining token, per sampled token [-]."""
        return self.result.beta_gpu_time(self.pretraining_gpu_s_per_token)

    @property
    def gpu_time_beside_pretraining(self) -> Num:
        """GPU-time of a sampled token over that of a pretraining token [-]."""
        return self.result.gpu_s_per_token / self.pretraining_gpu_s_per_token

    @property
    def gpu_time_beside_pretraining_by_phase(self) -> dict[str, Num]:
        """Parts of ``gpu_time_beside_pretraining`` by phase; they add up to it [-]."""
        whole = self.gpu_time_beside_pretraining
        return {name: share * whole for name, share in self.phase_fraction.items()}

    @property
    def beta_by_phase(self) -> dict[str, Num]:
        """Parts of ``beta_gpu_time`` by phase; they add up to it [-]."""
        whole = self.beta_gpu_time
        return {name: share * whole for name, share in self.phase_fraction.items()}

    @property
    def beta_flop_by_phase(self) -> dict[str, Num]:
        """Parts of ``beta_flop`` by phase; they add up to it [-]."""
        per_n = n_params_active(self.result.scenario.engine.model) * self.result.sampled_tokens
        return {name: part / per_n for name, part in self.result.flop_by_phase.items()}

    @property
    def kept_ratio(self) -> Num:
        """Sampled over kept tokens: either beta times this counts kept tokens [-]."""
        return self.result.sampled_tokens / self.result.kept_tokens

    def flop_at_equal_gpu_time(self, pretraining_flop: Num) -> Num:
        """FLOP that RL performs in the GPU-time of a pretraining run.

        ``C_pre beta_flop / beta_gpu_time``
        """
        return pretraining_flop * self.result.beta_flop / self.beta_gpu_time

    def demand(self, flop: Num, epochs: Num = EPOCHS) -> BudgetDemand:
        """Tokens, steps and tasks that put an amount of FLOP into RL of this kind."""
        one = self.result.scenario
        rollout = (one.sampling.lengths.mean_tokens, one.algorithm.rollouts)
        return budget_demand(flop, self.result.flop_per_token, rollout, (one.algorithm.group_size, epochs))

    def with_budget(self, flop: Num) -> RunCost:
        """The same run, as many steps long as an amount of FLOP takes: its GPU-hours, days and money."""
        return replace(self, steps=self.demand(flop).steps)

    def text_tokens(self, flop: Num, spacing_tokens: Num | None = None) -> Num:
        """Text that an amount of FLOP in RL on text asks for, ``rollouts / group x text each``, each place once."""
        one = self.result.scenario
        each = spacing_tokens
        if each is None:
            each = one.sampling.prompt_tokens + (0.0 if one.text is None else one.text.gold_tokens)
        return self.demand(flop, 1.0).tasks * each


def rl_figures(run: RunCost) -> tuple[Figure, ...]:
    """Show the working of the headline figures."""
    result, one = run.result, run.result.scenario
    turns = one.split.max_lag == 0
    step = (
        "generation + late verdicts + log-probs + update + weight sync + once per step"
        if turns
        else "max(generation, log-probs + update, verification) + exposed weight sync and once per step"
    )
    parts = (
        Term("generation", result.generation.wall_s, "s"),
        Term("verification", result.verification_s, "s"),
        Term("log-probs", result.training.logprob_s, "s"),
        Term("update", result.training.update_s, "s"),
    )
    passes = (
        Term("forward passes", one.algorithm.forward_passes, ""),
        Term("updates x kept", one.algorithm.trained_passes, ""),
        Term("prompt + rollout", one.sequence_tokens, "tokens"),
        Term("sampled per rollout taken in", result.sampled_tokens / one.algorithm.rollouts, "tokens"),
    )
    beta = "2 + (2 passes + 6 updates kept) (prompt + rollout) / sampled"
    scores: tuple[Term, ...] = ()
    counts: tuple[Term, ...] = ()
    if one.lora is not None:
        beta = (
            "2 (1 + a served / N) + (2 passes + 2 a / N + (4 + 6 a / N) updates kept) (prompt + rollout) / sampled; no "
            "weight gradients of frozen matrices"
        )
        counts = (
            Term("a, parameters of adapters", adapter_params(one.engine.model, one.lora), "params"),
            Term("served: 1 where adapters run beside the weights", float(one.engine.model.adapters is not None), ""),
        )
    if one.text is not None:
        step = step.replace("log-probs", "thought scoring + baseline + log-probs")
        beta = (
            "(2 (sampled + read + scored) + 2 passes (prompt + rollout) + 6 (updates kept trained + plain)) / sampled"
        )
        scores = tuple(Term(name, part, "s") for name, part in result.training.scoring_s.items())
        counts += (
            Term("prompts read, of a step", one.read_tokens, "tokens"),
            *(Term(f"{name}, of a step", tokens * n, "tokens") for name, (tokens, n) in one.scored.items()),
            Term("trained, of a rollout", one.trained_tokens, "tokens"),
            Term("plain, of a step", one.text.plain_tokens, "tokens"),
        )
    if one.judge is not None:
        step = step.replace("late verdicts" if turns else "verification", "verdicts of judge and verifiers")
        beta += " + 2 N_judge (read + written) / (N sampled)"
        counts += _judge_terms(one, one.judge)
    return (
        Figure("rl.step", result.step_s, "s", step, (*parts, *scores)),
        Figure("rl.beta_flop", result.beta_flop, "", beta, (*passes, *counts)),
        *_gpu_time_figures(run),
        *_run_figures(run),
    )


def _gpu_time_figures(run: RunCost) -> tuple[Figure, ...]:
    """What a sampled token takes of GPU-time beside a pretraining token."""
    sampled, pretrained = "GPU-s per sampled token", "GPU-s per pretraining token"
    times = (Term(sampled, run.result.gpu_s_per_token, "s"), Term(pretrained, run.pretraining_gpu_s_per_token, "s"))
    made_of = "; the latter is 6 N / (share of the peak x peak)" if run.pretraining_terms else ""
    return (
        Figure(
            "rl.beta_gpu_time",
            run.beta_gpu_time,
            "",
            f"6 ({sampled}) / ({pretrained}), as pretraining takes 6 FLOP per parameter",
            times,
        ),
        Figure(
            "rl.gpu_time_beside_pretraining",
            run.gpu_time_beside_pretraining,
            "x",
            f"({sampled}) / ({pretrained}){made_of}",
            (*times, *run.pretraining_terms),
        ),
    )


def _judge_terms(one: RLScenario, judge: Judge) -> tuple[Term, ...]:
    """What a judge reads and writes."""
    return (
        Term("N_judge", float(n_params_active(judge.engine.model)), "params"),
        Term("read by the judge, of a rollout", one.transcripts.read_tokens, "tokens"),
        Term("written by the judge, of a rollout", judge.calls * judge.tokens, "tokens"),
    )


def _run_figures(run: RunCost) -> tuple[Figure, ...]:
    """What the whole run takes."""
    result = run.result
    beta, params = Term("beta_flop", result.beta_flop, ""), n_params_active(result.scenario.engine.model)
    size, sampled = Term("N", float(params), "params"), Term("D", run.tokens, "tokens")
    steps, step = Term("steps", run.steps, "", "plan", "steps"), Term("step", result.step_s, "s")
    gpus = Term("GPUs", result.scenario.n_gpus, "GPUs", "plan", ASKED)
    hours = Term("GPU-hours", run.gpu_hours, "GPU-hours")
    price, power = Term("price", run.usd_per_gpu_hour, "USD/h"), Term("facility power", run.facility_w_per_gpu, "W")
    work, peak = Term("FLOP of a step", result.flop_per_step, "FLOP"), result.peak_flop_per_s
    waiting = tuple(Term(name, part, "s") for name, part in result.phases_gpu_s.items() if "waiting" in name)
    return (
        Figure("rl.flop", run.flop, "FLOP", "beta_flop N D, D counts sampled tokens", (beta, size, sampled)),
        Figure("rl.gpu_hours", run.gpu_hours, "GPU-hours", "steps x GPUs x step / 3600", (steps, gpus, step)),
        Figure("rl.days", run.days, "days", "steps x step / 86400, without failures", (steps, step)),
        Figure("rl.usd", run.usd, "USD", "GPU-hours x price: the median of the products", (hours, price)),
        Figure("rl.energy_j", run.energy_j, "J", "GPU-hours x 3600 x facility power", (hours, power)),
        Figure("rl.utilization_fraction", result.utilization_fraction, "fraction",
               "FLOP of a step / (step x dense bf16 peak of all GPUs)",
               (work, step, Term("dense bf16 peak", peak, "FLOP/s"))),
        Figure("rl.idle_fraction", result.idle_fraction, "fraction", "GPU-time in which GPUs wait / (step x GPUs)",
               (*waiting, step, gpus)),
    )  # fmt: skip
