"""The RL ledger: rollouts on an engine, updates on a trainer, and beta in both currencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.phase_pretraining import training_estimate
from computeledger.economics.phases import Phase, Spent, close, params_term, plan_term, stated_hours
from computeledger.economics.setting import Setting
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.units import HOUR_S
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.rl import RLResult, RLScenario, estimate_rl, search_rollout
from computeledger.workloads.serving import ServingResult, ServingScenario, estimate_serving
from computeledger.workloads.serving_search import layouts_that_fit


def rl_phase(setting: Setting, pretraining_s: Num | None, pretraining_gpu_hours: Num) -> tuple[Phase, RLResult]:
    """Estimate the RL ledger.

    Parameters
    ----------
    setting : Setting
        Of the section.
    pretraining_s : float or ndarray or None
        GPU-time of one pretraining token on the same chip, which beta compares with; the trainer's own where the plan
        has no pretraining [s].
    pretraining_gpu_hours : float or ndarray
        GPU-time of the pretraining run, for a balanced RL run [h].

    Returns
    -------
    tuple of Phase and RLResult
        The phase, and one RL step.

    Examples
    --------
    >>> rl_phase.__name__
    'rl_phase'
    """
    one = setting
    scenario = _scenario(one)
    rollout, prompt, per_step = scenario.rollout_tokens, scenario.prompt_tokens, scenario.rollouts_per_step
    engine, engine_choice = _engine(one, scenario)
    trained = per_step * (rollout + prompt)
    trainer, trainer_choice = training_estimate(
        one, "training_layout", trained, None if "global_batch" in one.section else trained
    )
    step = estimate_rl(scenario, engine, trainer, one.machine)
    compared_s = trainer.gpu_s_per_token if pretraining_s is None else pretraining_s
    per_token = step.gpu_s_per_token
    if "beta_gpu_time" in one.section:
        per_token = one.number("beta_gpu_time") / 6 * compared_s
    balanced = one.section.text("tokens") == "balanced"
    tokens: Num
    if balanced:
        tokens = pretraining_gpu_hours * HOUR_S / per_token
    elif "tokens" in one.section:
        tokens = one.number("tokens")
    else:
        tokens = one.number("steps") * step.sampled_tokens_per_step
    active = params_term(one.model)
    flop = step.beta_flop * active.value * tokens
    hours = tokens * per_token / HOUR_S
    stated = stated_hours("rl", 0.0, one, flop)
    formula = "sampled tokens x GPU-s per token / 3600, GPU-s per token from the modelled RL step"
    figure = Figure("rl.gpu_hours", hours, "GPU-hours", formula,
                    (Term("sampled tokens", tokens, "tokens"), Term("GPU-s per token", per_token, "s")))  # fmt: skip
    if stated is not None:
        hours, figure = stated
        per_token = hours * HOUR_S / tokens
    beta = 6 * per_token / compared_s
    origin = "balanced: GPU-time equal to pretraining" if balanced else "plan"
    figures = (
        Figure("rl.tokens", tokens, "tokens", origin),
        Figure("rl.beta_flop", step.beta_flop, "", "2 + (2 log-prob passes + 6 updates kept) (rollout + prompt) / rollout",
               (plan_term("rollout", rollout, "tokens", "rl.rollout"), plan_term("prompt", prompt, "tokens", "rl.prompt"),
                Term("log-prob passes", scenario.logprob_passes, ""), Term("kept", scenario.kept_fraction, ""))),
        Figure("rl.flop", flop, "FLOP", "beta_flop N D_RL, D_RL counts sampled tokens",
               (Term("beta_flop", step.beta_flop, ""), active, Term("D_RL", tokens, "tokens"))),
        figure,
        Figure("rl.beta_gpu_time", beta, "", "6 (GPU-s per sampled token) / (GPU-s per pretraining token)",
               (Term("RL", per_token, "s"), Term("pretraining", compared_s, "s"))),
    )  # fmt: skip
    details: dict[str, tuple[Num, str]] = {
        "beta_flop": (step.beta_flop, ""), "beta_gpu_time": (beta, ""), "step_s": (step.step_s, "s"),
        "steps": (tokens / step.sampled_tokens_per_step, ""), "rollout_tpot_s": (engine.tpot_s, "s"),
        **{f"{name}_fraction": (part / step.gpu_s_per_step, "") for name, part in step.phases_gpu_s.items()},
    }  # fmt: skip
    choices = {"generation": engine_choice, "trainer": trainer_choice, "mode": scenario.mode}
    operations = {"rollout decode": engine.decode}
    return close("rl", one, Spent(tokens, flop, hours, details, figures, choices, operations)), step


def _scenario(one: Setting) -> RLScenario:
    """The run as the plan states it, along the sample axis."""
    mode = one.section.text("mode") or "synchronous"
    return RLScenario(
        rollout_tokens=one.number("rollout"), prompt_tokens=one.number("prompt"),
        longest_over_mean=one.number("longest_over_mean"),
        rollouts_per_step=one.number("prompts_per_step") * one.number("group_size"), n_gpus=one.number("gpus"),
        kept_fraction=one.optional("kept", 1.0), logprob_passes=one.optional("logprob_passes", 1.0),
        updates_per_batch=one.optional("updates_per_batch", 1.0), verifier_cpu_s=one.optional("verifier_time", 0.0),
        verifier_cores=one.optional("verifier_cores", np.inf), mode=mode,
        steps_in_flight=one.number("steps_in_flight") if mode == "asynchronous" else 1.0,
    )  # fmt: skip


def _typical(scenario: RLScenario) -> RLScenario:
    numbers = {name: getattr(scenario, name) for name in scenario.__dataclass_fields__ if name != "mode"}
    return RLScenario(**{name: float(np.median(np.asarray(value))) for name, value in numbers.items()}, mode=scenario.mode)


def _engine(one: Setting, scenario: RLScenario) -> tuple[ServingResult, str]:
    """The generation engine at its layout and live batch, searched where the plan leaves them out."""
    typical = _typical(scenario)
    question = ServingScenario(one.model, Layout(), one.precision, typical.prompt_tokens, typical.rollout_tokens, 1.0)
    text = one.section.text("layout")
    layouts = [check_layout(parse_layout(text), one.model)] if text else layouts_that_fit(question, one.typical)
    layout, live = search_rollout(question, layouts, typical, one.typical)
    batch = one.number("batch") if "batch" in one.section else live
    engine = replace(
        question, layout=layout, batch=batch, input_tokens=scenario.prompt_tokens, output_tokens=scenario.rollout_tokens,
        usd_per_gpu_hour=one.usd_per_gpu_hour,
    )  # fmt: skip
    how = "plan" if text and "batch" in one.section else "searched"
    return estimate_serving(engine, one.machine), f"{layout}, live batch {float(np.median(np.asarray(batch))):.0f} ({how})"
