"""The RL ledger: rollouts on an engine, updates on a trainer, and beta in both currencies."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.phase_pretraining import training_estimate
from computeledger.economics.phases import Phase, Spent, check_context, make_phase, params_term, stated_gpu_hours
from computeledger.economics.setting import Setting
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.units import HOUR_S
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.rl import RLResult, RLScenario, estimate_rl, search_rollout
from computeledger.workloads.serving import ServingResult, ServingScenario, estimate_serving
from computeledger.workloads.serving_search import check_batch, layouts_that_fit


def rl_phase(setting: Setting, pretraining_s_per_token: Num | None, pretraining_gpu_hours: Num) -> Phase:
    """Estimate the RL ledger, ``C = beta_flop N D`` with ``D`` in sampled tokens.

    ``beta_gpu_time = 6 (GPU-s per sampled token) / (GPU-s per pretraining token)``

    Parameters
    ----------
    setting : Setting
        Of the section.
    pretraining_s_per_token : float or ndarray or None
        GPU-time of one pretraining token on the same chip, which beta compares with; the trainer's own where the plan
        has no pretraining [s/token].
    pretraining_gpu_hours : float or ndarray
        GPU-time of the pretraining run, for a balanced RL run [h].

    Returns
    -------
    Phase
        GPU-hours as the plan states them, else from the modelled RL step.

    Raises
    ------
    DoesNotFitError
        Where no layout holds the model.

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan import read_plan
    >>> from computeledger.economics.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
    ...                   "rl": {"gpus": 64, "steps": 1000, "prompts_per_step": 128, "group_size": 8,
    ...                          "rollout": "4K tokens", "prompt": "400 tokens"}})
    >>> setting = make_setting(plan, plan.sections["rl"], sample(uncertain_inputs(plan)))
    >>> phase = rl_phase(setting, None, 0.0)
    >>> phase.tokens, phase.details["beta_flop"]
    (4096000000.0, (10.8, ''))
    """
    scenario = _scenario(setting)
    engine, engine_choice = _engine(setting, scenario)
    trained = scenario.rollouts_per_step * (scenario.rollout_tokens + scenario.prompt_tokens)
    step_tokens = None if "global_batch" in setting.section else trained
    trainer, trainer_choice = training_estimate(setting, "training_layout", trained, step_tokens)
    step = estimate_rl(scenario, engine, trainer, setting.machine)
    compared_s = trainer.gpu_s_per_token if pretraining_s_per_token is None else pretraining_s_per_token
    per_token_s = _gpu_s_per_token(setting, step, compared_s)
    tokens, origin = _tokens(setting, step, pretraining_gpu_hours * HOUR_S / per_token_s)
    hours = _gpu_hours(setting, step, tokens, per_token_s)
    beta = 6 * (hours.value * HOUR_S / tokens) / compared_s
    details: dict[str, tuple[Num, str]] = {
        "beta_flop": (step.beta_flop, ""),
        "beta_gpu_time": (beta, ""),
        "step_s": (step.step_s, "s"),
        "steps": (tokens / step.sampled_tokens_per_step, ""),
        "rollout_tpot_s": (engine.tpot_s, "s"),
        **{f"{name}_fraction": (part / step.gpu_s_per_step, "") for name, part in step.phases_gpu_s.items()},
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
            _beta_gpu_time(beta, hours.value * HOUR_S / tokens, compared_s),
        ),
        choices={"generation": engine_choice, "trainer": trainer_choice, "mode": scenario.mode},
        operations={"rollout decode": engine.decode},
    )
    return make_phase("rl", setting, spent)


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
    return setting.number("steps") * step.sampled_tokens_per_step, "steps x prompts per step x group size x rollout"


def _token_terms(setting: Setting) -> tuple[Term, ...]:
    """What the plan says about the tokens it samples."""
    keys = ("tokens", "steps", "prompts_per_step", "group_size", "rollout")
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
    scenario = step.scenario
    terms = (
        Term("rollout", scenario.rollout_tokens, "tokens", "plan", "rl.rollout"),
        Term("prompt", scenario.prompt_tokens, "tokens", "plan", "rl.prompt"),
        Term("log-prob passes", scenario.logprob_passes, ""),
        Term("kept", scenario.kept_fraction, ""),
    )
    formula = "2 + (2 log-prob passes + 6 updates kept) (rollout + prompt) / rollout"
    return Figure("rl.beta_flop", step.beta_flop, "", formula, terms)


def _flop(setting: Setting, step: RLResult, tokens: Num) -> Figure:
    terms = (Term("beta_flop", step.beta_flop, ""), params_term(setting.model), Term("D_RL", tokens, "tokens"))
    formula = "beta_flop N D_RL, D_RL counts sampled tokens"
    return Figure("rl.flop", step.flop_per_token * tokens, "FLOP", formula, terms)


def _beta_gpu_time(beta: Num, per_token_s: Num, compared_s: Num) -> Figure:
    terms = (Term("RL", per_token_s, "s"), Term("pretraining", compared_s, "s"))
    formula = "6 (GPU-s per sampled token) / (GPU-s per pretraining token)"
    return Figure("rl.beta_gpu_time", beta, "", formula, terms)


def _scenario(setting: Setting) -> RLScenario:
    """The run as the plan states it, along the sample axis."""
    mode = setting.section.text("mode") or "synchronous"
    return RLScenario(
        rollout_tokens=setting.number("rollout"),
        prompt_tokens=setting.number("prompt"),
        longest_over_mean=setting.number("longest_over_mean"),
        rollouts_per_step=setting.number("prompts_per_step") * setting.number("group_size"),
        n_gpus=setting.number("gpus"),
        kept_fraction=setting.optional("kept", 1.0),
        logprob_passes=setting.optional("logprob_passes", 1.0),
        updates_per_batch=setting.optional("updates_per_batch", 1.0),
        verifier_cpu_s=setting.optional("verifier_time", 0.0),
        verifier_cores=setting.optional("verifier_cores", np.inf),
        steps_in_flight=setting.number("steps_in_flight") if mode == "asynchronous" else 1.0,
        mode=mode,
    )


def _typical(scenario: RLScenario) -> RLScenario:
    numbers = {one.name: median(getattr(scenario, one.name)) for one in fields(scenario) if one.name != "mode"}
    return RLScenario(**numbers, mode=scenario.mode)


def _engine(setting: Setting, scenario: RLScenario) -> tuple[ServingResult, str]:
    """The generation engine at its layout and live batch, searched where the plan leaves them out."""
    typical, section, model = _typical(scenario), setting.section, setting.model
    question = ServingScenario(
        model, Layout(), setting.precision, typical.prompt_tokens, typical.rollout_tokens, batch=1.0
    )
    check_context("rl", model, median(question.held_tokens))
    text = section.text("layout")
    layouts = [check_layout(parse_layout(text), model)] if text else layouts_that_fit(question, setting.typical)
    layout, live = search_rollout(question, layouts, typical, setting.typical)
    batch: Num = live
    if "batch" in section:
        batch = setting.number("batch")
        check_batch(question, layout, median(batch), setting.machine)
    engine = replace(
        question,
        layout=layout,
        batch=batch,
        input_tokens=scenario.prompt_tokens,
        output_tokens=scenario.rollout_tokens,
        usd_per_gpu_hour=setting.usd_per_gpu_hour,
    )
    how = "plan" if text and "batch" in section else "searched"
    return estimate_serving(engine, setting.machine), f"{layout}, live batch {median(batch):.0f} ({how})"
