"""The RL ledger: rollouts on an engine, updates on a trainer, and beta in both currencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.plan.phases import Phase, Spent, make_phase, params_term, stated_gpu_hours
from computeledger.economics.plan.read import Section, in_plan
from computeledger.economics.plan.setting import Setting
from computeledger.errors import DoesNotFitError, InputError
from computeledger.physics.adapters import adapter_params, trainable_fraction
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.roofline import Operation
from computeledger.physics.serving.operations import Step, forward
from computeledger.physics.training.memory import TRAINING_HBM_FRACTION
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.units import HOUR_S, format_percent, format_si
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.rl.estimate import RLResult, estimate_rl, pretraining_gpu_s_per_token
from computeledger.workloads.rl.reading import AskedRun, Numbers, read_run
from computeledger.workloads.rl.search import trainer_bytes, trainer_fits
from computeledger.workloads.rl.shares import fractions


@dataclass(frozen=True, slots=True)
class RLModel:
    """The modelled RL step of a plan, before money and before anything is compared with pretraining."""

    step: RLResult
    choices: Mapping[str, str]
    decode: tuple[Operation, ...]


#: Keys of the section that :func:`model_rl` does not read.
LATER_KEYS = frozenset({"steps", "tokens", "gpu_hours", "price"})
#: Keys that only the clock has a use for: the ledger says that it left them out.
_CLOCK_KEYS = (
    "weight_load", "step_overhead", "verifier_spread",
    "verifier_failures", "replica_failures", "replica_repair", "remote_gpus", "remote_bandwidth", "remote_latency",
)  # fmt: skip


def model_rl(setting: Setting) -> RLModel:
    """Model the RL step of a section.

    Raises
    ------
    DoesNotFitError
        Where some draws of its lengths leave no room for a rollout beside the weights.
    """
    asked = asked_run(setting)
    step = estimate_rl(asked.scenario, asked.machines)
    held = float(np.mean(np.isfinite(step.step_s)))
    if held < 1:
        engine = asked.scenario.engine
        raise DoesNotFitError(
            f"rl: {setting.model.id} in {engine.precision.written} on replicas of {int(engine.layout.n_gpus)} x "
            f"{setting.machine.system.accelerator.id}: the longest rollouts fit in {format_percent(held)} of the draws "
            "only; give shorter rollouts, narrower weights or a chip with more memory"
        )
    return RLModel(step, _choices(setting, asked), _decode(step, setting))


def rl_phase(
    setting: Setting, modelled: RLModel, pretraining_s_per_token: Num | None, pretraining_gpu_hours: Num
) -> Phase:
    """Estimate the RL ledger, ``C = beta_flop N D`` with ``D`` in sampled tokens.

    ``beta_gpu_time = 6 (GPU-s per sampled token) / (GPU-s per pretraining token)``

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
    ...                   "rl": {"gpus": 64, "steps": 1000, "prompts_per_step": 128, "group_size": 8,
    ...                          "rollout_tokens": "4K tokens", "prompt_tokens": "400 tokens"}})
    >>> setting = make_setting(plan, plan.sections["rl"], sample(uncertain_inputs(plan)))
    >>> phase = rl_phase(setting, model_rl(setting), None, 0.0)
    >>> round(phase.tokens), round(float(phase.details["beta_flop"][0]), 6)
    (4096000000, 10.8)
    """
    step = modelled.step
    compared_s, compared_with = pretraining_s_per_token, "a pretraining token of this plan"
    if compared_s is None:
        peak = setting.machine.bf16_flop_per_s
        compared_s = pretraining_gpu_s_per_token(n_params_active(setting.model), peak)
        share = format_percent(PRETRAINING_UTILIZATION_FRACTION)
        compared_with = f"a pretraining token at {share} of the dense bf16 peak (assumption)"
    per_token_s = _gpu_s_per_token(setting, step, compared_s)
    tokens, origin = _tokens(setting, step, pretraining_gpu_hours * HOUR_S / per_token_s)
    hours = _gpu_hours(setting, step, tokens, per_token_s)
    beta = 6 * (hours.value * HOUR_S / tokens) / compared_s
    shares = fractions(step.phases_gpu_s, step.gpu_s_per_step)
    details: dict[str, tuple[Num, str]] = {
        "beta_flop": (step.beta_flop, ""),
        "beta_gpu_time": (beta, ""),
        "step_s": (step.step_s, "s"),
        "steps": (tokens / step.sampled_tokens, ""),
        "rollouts_decoding": (step.generation.live, ""),
        "modelled_gpu_hours": (tokens * step.gpu_s_per_token / HOUR_S, "GPU-hours"),
        **{f"{name}_fraction": (share, "") for name, share in shares.items()},
    }
    spent = Spent(
        tokens=tokens,
        flop=step.flop_per_token * tokens,
        gpu_hours=hours.value,
        details=details,
        figures=(
            Figure("rl.tokens", tokens, "tokens", origin, _token_terms(setting)),
            _beta_flop(step),
            _flop(setting, step, tokens),
            hours,
            _beta_gpu_time(beta, hours.value * HOUR_S / tokens, (compared_s, compared_with)),
        ),
        choices={**modelled.choices, "beta in GPU-time compares with": compared_with},
        operations={"rollout decode": modelled.decode},
        assumptions=rl_assumptions(setting),
    )
    return make_phase("rl", setting, spent)


def rl_assumptions(setting: Setting) -> tuple[Term, ...]:
    """What is assumed of a run because its section is silent.

    Examples
    --------
    >>> from computeledger.economics.plan.read import Plan
    >>> from computeledger.economics.plan.setting import make_setting
    >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": 2.0}))
    >>> draws = {"plan.price": 2.0, "power.h100-nvl8": 1800.0}
    >>> section = Section("rl", {"mode": "asynchronous", "rollout_p95_tokens": 9000.0})
    >>> [(one.name, one.value) for one in rl_assumptions(make_setting(plan, section, draws))]
    [('rl.steps_in_flight', 4.0)]
    """
    section = setting.section
    has_tail = "rollout_p95_tokens" in section or "rollout_limit_tokens" in section
    is_open = section.text("mode") == "asynchronous" and "max_lag" not in section
    silent = {
        "longest_over_mean": not has_tail, "steps_in_flight": is_open, "verifier_cores": "verifier_time" in section,
    }  # fmt: skip
    return setting.assumed(*(name for name, counts in silent.items() if counts))


def _gpu_s_per_token(setting: Setting, step: RLResult, compared_s: Num) -> Num:
    """Of a sampled token: as measured or stated where the plan says so, else of the modelled step."""
    if "beta_gpu_time" in setting.section:
        return setting.number("beta_gpu_time") / 6 * compared_s
    if "utilization" in setting.section:
        return step.flop_per_token / (setting.number("utilization") * setting.machine.bf16_flop_per_s)
    return step.gpu_s_per_token


def _tokens(setting: Setting, step: RLResult, balanced_tokens: Num) -> tuple[Num, str]:
    """Sampled tokens of the run, and where they come from."""
    if setting.section.text("tokens") == "balanced":
        return balanced_tokens, "balanced: GPU-time equal to pretraining"
    if "tokens" in setting.section:
        return setting.number("tokens"), "as the plan states"
    return setting.number("steps") * step.sampled_tokens, "steps x prompts per step x group size x rollout"


def _token_terms(setting: Setting) -> tuple[Term, ...]:
    """What the plan says about the tokens it samples."""
    keys = ("tokens", "steps", "prompts_per_step", "group_size", "rollout_tokens")
    stated = [key for key in keys if key in setting.section and setting.section.text(key) is None]
    return tuple(Term(key, setting.number(key), "", "plan", f"rl.{key}") for key in stated)


def _gpu_hours(setting: Setting, step: RLResult, tokens: Num, per_token_s: Num) -> Figure:
    stated = stated_gpu_hours("rl", setting, step.flop_per_token * tokens)
    if stated is not None:
        return stated
    formula = "sampled tokens x GPU-s per token / 3600, GPU-s per token from the modelled RL step"
    terms = (Term("sampled tokens", tokens, "tokens"), Term("GPU-s per token", per_token_s, "s"))
    return Figure("rl.gpu_hours", tokens * per_token_s / HOUR_S, "GPU-hours", formula, terms)


def _beta_flop(step: RLResult) -> Figure:
    run = step.scenario
    terms: tuple[Term, ...] = (
        Term("rollout", run.sampling.lengths.mean_tokens, "tokens", "plan", "rl.rollout_tokens"),
        Term("prompt", run.sampling.prompt_tokens, "tokens", "plan", "rl.prompt_tokens"),
        Term("log-prob passes", run.algorithm.logprob_passes, ""),
        Term("kept", run.algorithm.kept_fraction, ""),
    )
    formula = "2 + (2 log-prob passes + 6 updates kept) (rollout + prompt) / rollout"
    if run.lora is not None:
        formula = "2 + (2 log-prob passes + 4 updates kept) (rollout + prompt) / rollout, and what adapters add"
        terms += (Term("parameters of adapters", adapter_params(run.engine.model, run.lora), "params"),)
    if run.text is not None:
        formula = "(2 (sampled + read + scored) + 2 log-prob passes seen + 6 (updates kept trained + plain)) / sampled"
        terms += (
            Term("continuation", run.text.gold_tokens, "tokens", "plan", "rl.continuation_tokens"),
            Term("next-token training, of a step", run.text.plain_tokens, "tokens"),
        )
    return Figure("rl.beta_flop", step.beta_flop, "", formula, terms)


def _flop(setting: Setting, step: RLResult, tokens: Num) -> Figure:
    terms = (Term("beta_flop", step.beta_flop, ""), params_term(setting.model), Term("D_RL", tokens, "tokens"))
    formula = "beta_flop N D_RL, D_RL counts sampled tokens"
    return Figure("rl.flop", step.flop_per_token * tokens, "FLOP", formula, terms)


def _beta_gpu_time(beta: Num, per_token_s: Num, compared: tuple[Num, str]) -> Figure:
    terms = (Term("RL", per_token_s, "s"), Term(compared[1], compared[0], "s"))
    formula = "6 (GPU-s per sampled token) / (GPU-s per pretraining token)"
    return Figure("rl.beta_gpu_time", beta, "", formula, terms)


def asked_run(setting: Setting) -> AskedRun:
    """Read the run of a section as ``rl`` reads its question: what the ledger prices and the simulation follows.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
    ...                   "rl": {"gpus": 16, "steps": 100, "prompts_per_step": 16, "group_size": 8, "max_lag": 2,
    ...                          "rollout_tokens": "1K tokens", "prompt_tokens": "400 tokens", "training_gpus": 4}})
    >>> draws = {name: median_of(value) for name, value in uncertain_inputs(plan).items()}
    >>> found = asked_run(make_setting(plan, plan.sections["rl"], draws)).typical
    >>> found.split.n_generation, found.split.is_in_flight, int(found.trainer.layout.n_gpus)
    (12.0, True, 4)
    """
    question = setting.asked(RLQuestion)
    typical = {name: median_of(value) for name, value in question.numbers.items()}
    try:
        return read_run(
            question, Numbers(setting.numbers(question.numbers), setting.machine), Numbers(typical, setting.typical)
        )
    except InputError as error:
        raise in_plan("rl", error) from None


def _choices(setting: Setting, asked: AskedRun) -> dict[str, str]:
    """Layouts and mode in words, and what the ledger leaves to the simulation."""
    section, split = setting.section, asked.typical.split
    shared = f"{split.n_generation:,.0f} generate, {split.n_training:,.0f} train"
    choices = {
        "generation": f"{asked.typical.engine.layout} ({'plan' if section.text('layout') else 'searched'})",
        "trainer": _trainer_words(asked, section),
        "mode": f"{'asynchronous' if split.max_lag else 'synchronous'}, GPUs "
        + ("in turns" if split.is_colocated else shared),
    }
    if asked.typical.lora is not None:
        lora, model = asked.typical.lora, asked.typical.engine.model
        share = format_percent(median(trainable_fraction(model, lora, n_params_total(model))))
        sent = "all weights, merged" if model.adapters is None else "the adapters alone"
        choices["adapters"] = f"LoRA rank {lora.rank} ({lora.targets}), {share} of parameters trained; {sent} are sent"
    unread = ", ".join(key for key in _CLOCK_KEYS if key in section)
    if unread:
        choices["left to simulate rl"] = unread
    return choices


def _trainer_words(asked: AskedRun, section: Section) -> str:
    """The trainer, who chose it, and whether it fits as modelled where the plan chose it."""
    trainer, machine = asked.typical.trainer, asked.typical_machines.training
    words = f"{trainer.layout}, recompute {trainer.recompute}"
    if not section.text("training_layout"):
        return f"{words} (searched)"
    if bool(trainer_fits(asked.typical, machine)):
        return f"{words} (plan)"
    needed, hbm = format_si(median(trainer_bytes(asked.typical)), "B"), machine.system.accelerator.usable_bytes
    return f"{words} (plan; as modelled it needs {needed} of {format_si(TRAINING_HBM_FRACTION * hbm, 'B')} per GPU)"


def _decode(step: RLResult, setting: Setting) -> tuple[Operation, ...]:
    """One decode step at the live batch."""
    run = step.scenario
    engine, context = run.engine, run.sampling.prompt_tokens + run.sampling.lengths.mean_age_tokens
    live = Step(step.generation.live, context)
    return tuple(forward(engine.model, live, engine.layout, engine.precision, setting.machine))
