"""The RL ledger: rollouts on an engine, updates on a trainer, and beta in both currencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.phase_pretraining import training_estimate
from computeledger.economics.phases import Phase, Spent, check_context, make_phase, params_term, stated_gpu_hours
from computeledger.economics.plan import Section
from computeledger.economics.rl_split import apart, balanced_split, stated_lag, stated_split
from computeledger.economics.setting import Setting
from computeledger.errors import PlanError
from computeledger.physics.operations import Step, forward
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Operation
from computeledger.units import HOUR_S
from computeledger.workloads.pretraining import PretrainingResult
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.rl import RLResult, estimate_rl
from computeledger.workloads.rl_generation import Sampling
from computeledger.workloads.rl_lengths import Lengths, lengths_of_mean, spread_of_lengths
from computeledger.workloads.rl_scenario import Algorithm, Domain, RLMachines, RLScenario, Split, TextReward
from computeledger.workloads.rl_search import rl_machine, search_generation
from computeledger.workloads.rl_sureness import rl_class, rl_factors_of
from computeledger.workloads.rl_training import Trainer
from computeledger.workloads.serving import ServingScenario
from computeledger.workloads.serving_search import check_batch, layouts_that_fit

#: Longest rollout over the 95th percentile where neither the plan nor the model's context ends it (assumption).
MOST_OVER_P95 = 3.0
#: Rollouts that an engine decodes at once at most (assumption: engines' defaults are 256 to 1,024).
LIVE_LIMIT = 1024.0


@dataclass(frozen=True, slots=True)
class RLModel:
    """The modelled RL step of a plan, before money and before anything is compared with pretraining.

    Attributes
    ----------
    step : RLResult
        Along the sample axis.
    trainer_s_per_token : float or ndarray
        GPU-time of one token that the trainer sees [s/token].
    choices : mapping of str to str
        Layouts and mode.
    decode : tuple of Operation
        One decode step at the live batch.
    """

    step: RLResult
    trainer_s_per_token: Num
    choices: Mapping[str, str]
    decode: tuple[Operation, ...]


#: Keys of the section that :func:`model_rl` does not read.
LATER_KEYS = frozenset({"steps", "tokens", "gpu_hours", "price"})
#: Keys that only the clock has a use for: the ledger says that it left them out.
_CLOCK_KEYS = (
    "reread_cache", "weight_sync", "step_overhead", "verifier_spread",
    "verifier_failures", "replica_failures", "replica_repair", "remote_gpus", "remote_bandwidth", "remote_latency",
)  # fmt: skip


def model_rl(setting: Setting) -> RLModel:
    """Model the RL step of a section.

    Parameters
    ----------
    setting : Setting
        Of the section; its price and its number of steps do not matter.

    Returns
    -------
    RLModel
        For :func:`rl_phase`.

    Raises
    ------
    DoesNotFitError
        Where no layout holds the model.
    """
    run, choices, trainer = _run(setting)
    step = estimate_rl(run, _machines(setting))
    return RLModel(step, trainer.gpu_s_per_token, choices, _decode(step, setting))


def rl_phase(
    setting: Setting, modelled: RLModel, pretraining_s_per_token: Num | None, pretraining_gpu_hours: Num
) -> Phase:
    """Estimate the RL ledger, ``C = beta_flop N D`` with ``D`` in sampled tokens.

    ``beta_gpu_time = 6 (GPU-s per sampled token) / (GPU-s per pretraining token)``

    Parameters
    ----------
    setting : Setting
        Of the section.
    modelled : RLModel
        Its step.
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
    PlanError
        Where the plan's GPU-hours are fewer than the chips can do it in.

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
    >>> phase = rl_phase(setting, model_rl(setting), None, 0.0)
    >>> round(phase.tokens), round(float(phase.details["beta_flop"][0]), 6)
    (4096000000, 10.8)
    """
    step = modelled.step
    compared_s = modelled.trainer_s_per_token if pretraining_s_per_token is None else pretraining_s_per_token
    per_token_s = _gpu_s_per_token(setting, step, compared_s)
    tokens, origin = _tokens(setting, step, pretraining_gpu_hours * HOUR_S / per_token_s)
    hours = _gpu_hours(setting, step, tokens, per_token_s)
    beta = 6 * (hours.value * HOUR_S / tokens) / compared_s
    details: dict[str, tuple[Num, str]] = {
        "beta_flop": (step.beta_flop, ""),
        "beta_gpu_time": (beta, ""),
        "step_s": (step.step_s, "s"),
        "steps": (tokens / step.sampled_tokens, ""),
        "rollouts_decoding": (step.generation.live, ""),
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
        choices=modelled.choices,
        operations={"rollout decode": modelled.decode},
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
    return setting.number("steps") * step.sampled_tokens, "steps x prompts per step x group size x rollout"


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
    run = step.scenario
    terms: tuple[Term, ...] = (
        Term("rollout", run.sampling.lengths.mean_tokens, "tokens", "plan", "rl.rollout"),
        Term("prompt", run.sampling.prompt_tokens, "tokens", "plan", "rl.prompt"),
        Term("log-prob passes", run.algorithm.logprob_passes, ""),
        Term("kept", run.algorithm.kept_fraction, ""),
    )
    formula = "2 + (2 log-prob passes + 6 updates kept) (rollout + prompt) / rollout"
    if run.text is not None:
        formula = "(2 (sampled + read + scored) + 2 log-prob passes seen + 6 (updates kept trained + plain)) / sampled"
        terms += (
            Term("gold", run.text.gold_tokens, "tokens", "plan", "rl.gold"),
            Term("next-token training, of a step", run.text.plain_tokens, "tokens"),
        )
    return Figure("rl.beta_flop", step.beta_flop, "", formula, terms)


def _flop(setting: Setting, step: RLResult, tokens: Num) -> Figure:
    terms = (Term("beta_flop", step.beta_flop, ""), params_term(setting.model), Term("D_RL", tokens, "tokens"))
    formula = "beta_flop N D_RL, D_RL counts sampled tokens"
    return Figure("rl.flop", step.flop_per_token * tokens, "FLOP", formula, terms)


def _beta_gpu_time(beta: Num, per_token_s: Num, compared_s: Num) -> Figure:
    terms = (Term("RL", per_token_s, "s"), Term("pretraining", compared_s, "s"))
    formula = "6 (GPU-s per sampled token) / (GPU-s per pretraining token)"
    return Figure("rl.beta_gpu_time", beta, "", formula, terms)


def _machines(setting: Setting, typical: bool = False) -> RLMachines:
    """GPUs of the run, with RL's own interval in place of those of serving and training."""
    machine = rl_machine(setting.typical if typical else setting.machine)
    draws = {} if typical else setting.draws
    name = rl_class(setting.model, machine.system.accelerator, setting.typical_number("rollout"))
    return RLMachines(machine, machine, rl_factors_of(name, draws))


def _run(setting: Setting) -> tuple[RLScenario, dict[str, str], PretrainingResult]:
    """The run as the plan states it, along the sample axis; layouts are searched where it leaves them out."""
    section, question = setting.section, _question(setting)
    check_context("rl", setting.model, median(question.held_tokens))
    trained = setting.number("prompts_per_step") * setting.number("group_size")
    trained = trained * (setting.number("rollout") + setting.number("prompt"))
    step_tokens = None if "global_batch" in section else trained
    found, trainer_choice = training_estimate(_of_trainer(setting), "training_layout", trained, step_tokens)
    text = section.text("layout")
    layouts = [check_layout(parse_layout(text), setting.model)] if text else layouts_that_fit(question, setting.typical)
    typical = _shared(setting, _assembled(setting, question, found, typical=True), layouts)
    layout, split = typical.engine.layout, typical.split
    engine = replace(typical.engine, batch=LIVE_LIMIT)
    if "batch" in section:
        engine = replace(engine, batch=setting.number("batch"))
        check_batch(question, layout, median(engine.batch), setting.machine)
    run = replace(_assembled(setting, question, found), engine=engine, split=split, trainer=typical.trainer)
    how = "plan" if text else "searched"
    shared = f"{split.n_generation:,.0f} generate, {split.n_training:,.0f} train"
    trainer = trainer_choice.replace(str(found.scenario.layout), str(run.trainer.layout), 1)
    choices = {
        "generation": f"{layout} ({how})",
        "trainer": trainer,
        "mode": f"{'asynchronous' if split.max_lag else 'synchronous'}, GPUs "
        + ("in turns" if split.is_colocated else shared),
    }
    unread = ", ".join(key for key in _CLOCK_KEYS if key in section)
    if unread:
        choices["left to simulate rl"] = unread
    return run, choices, found


def _of_trainer(setting: Setting) -> Setting:
    """The section with the trainer's own GPUs, where the plan states who has which."""
    stated = stated_split(setting)
    if stated is None:
        return setting
    section = replace(setting.section, values={**setting.section.values, "gpus": stated[1]})
    return replace(setting, section=section, draws={**setting.draws, "rl.gpus": stated[1]})


def _question(setting: Setting) -> ServingScenario:
    """What a replica must hold: the longest rollout."""
    rollout, prompt = setting.typical_number("rollout"), setting.typical_number("prompt")
    return ServingScenario(setting.model, Layout(), setting.precision, prompt, rollout, batch=1.0)


def _assembled(
    setting: Setting, question: ServingScenario, found: PretrainingResult, typical: bool = False
) -> RLScenario:
    """The run in turns on all GPUs."""
    number = setting.typical_number if typical else setting.number

    def optional(name: str, otherwise: float) -> Num:
        return number(name) if name in setting.section else otherwise

    rollout = number("rollout")
    lengths = _lengths(setting, rollout, number)
    n_gpus = setting.typical_number("gpus")
    algorithm = Algorithm(
        prompts_per_step=number("prompts_per_step"),
        group_size=number("group_size"),
        kept_fraction=optional("kept", 1.0),
        logprob_passes=optional("logprob_passes", 1.0),
        updates_per_batch=optional("updates_per_batch", 1.0),
        started_ratio=optional("oversampling", 1.0),
        keeps_partial=setting.section.text("partial_rollouts") == "yes",
    )
    batch, layout = found.scenario.batch, found.scenario.layout
    packed = median(batch.microbatch_sequences) * median(batch.sequence_tokens)
    trainer = Trainer(layout, setting.precision, packed, batch.recompute, batch.virtual_stages)
    verdict_s, cores = optional("verifier_time", 0.0), optional("verifier_cores", np.inf)
    return RLScenario(
        engine=replace(question, batch=LIVE_LIMIT),
        sampling=Sampling(lengths, number("prompt"), number("group_size")),
        algorithm=algorithm,
        trainer=trainer,
        split=Split(n_gpus, n_gpus),
        domains=(Domain(1.0, verdict_s, cores),),
        text=_text(setting.section, optional),
    )


def _lengths(setting: Setting, mean: Num, number: Callable[[str], Num]) -> Lengths:
    """Log-normal lengths of a step's rollouts, by their mean and tail, cut where the plan or the context ends them."""
    section = setting.section
    room = (setting.model.max_context_tokens or np.inf) - number("prompt")
    limit = np.minimum(number("rollout_limit"), room) if "rollout_limit" in section else room
    if "rollout_p95" not in section:
        longest = np.maximum(number("longest_over_mean"), 1.0) * mean
        return lengths_of_mean(mean, np.minimum(longest, limit) if "rollout_limit" in section else longest)
    ratio = setting.typical_number("rollout_p95") / setting.typical_number("rollout")
    if ratio < 1:
        raise PlanError(f"[rl] rollout_p95 lies below the mean, rollout = {setting.typical_number('rollout'):g} tokens")
    longest = np.broadcast_to(limit, np.shape(mean)) if np.all(np.isfinite(limit)) else MOST_OVER_P95 * ratio * mean
    return lengths_of_mean(mean, longest, spread_of_lengths(ratio, 0.95))


def _text(section: Section, optional: Callable[[str, float], Num]) -> TextReward | None:
    """What rewards a thought about a text, where the plan says so."""
    if "gold" in section:
        is_trained = section.text("train_on_gold") == "yes"
        return TextReward(optional("gold", 0.0), is_trained, optional("next_token", 0.0))
    for name in ("train_on_gold", "next_token"):
        if name in section:
            raise PlanError(f"rl.{name}: belongs to RL on text, which states gold")
    return None


def _shared(setting: Setting, run: RLScenario, layouts: Sequence[Layout]) -> RLScenario:
    """Who has which GPUs, and the generation layout that has a step's rollouts soonest there."""
    lag, section, machines = stated_lag(setting), setting.section, _machines(setting, typical=True)
    if lag is None:
        lag = int(max(round(setting.typical_number("steps_in_flight")), 1))
    in_flight = lag > 0 and section.text("in_flight_updates") != "no"
    run = replace(run, split=replace(run.split, max_lag=lag, is_in_flight=in_flight, is_colocated=not lag))
    stated = stated_split(setting)
    if stated is not None:
        run = apart(run, *stated)
    elif lag:
        halves = replace(run.split, n_generation=run.split.n_generation / 2, n_training=run.split.n_training / 2)
        return balanced_split(replace(run, split=halves), layouts, machines, "training_layout" not in section)
    return replace(run, engine=replace(run.engine, layout=search_generation(run, layouts, machines)))


def _decode(step: RLResult, setting: Setting) -> tuple[Operation, ...]:
    """One decode step at the live batch."""
    run = step.scenario
    engine, context = run.engine, run.sampling.prompt_tokens + run.sampling.lengths.mean_age_tokens
    live = Step(step.generation.live, context)
    return tuple(forward(engine.model, live, engine.layout, engine.precision, setting.machine))
