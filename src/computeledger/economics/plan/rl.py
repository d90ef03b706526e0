"""The RL ledger: rollouts on an engine, updates on a trainer, and beta in both currencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.plan.phases import Phase, Spent, check_context, make_phase, params_term, stated_gpu_hours
from computeledger.economics.plan.read import Section
from computeledger.economics.plan.rl_split import stated_lag, stated_split
from computeledger.economics.plan.setting import Setting
from computeledger.errors import PlanError
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Operation
from computeledger.physics.serving.operations import Step, forward
from computeledger.physics.training.memory import TRAINING_HBM_FRACTION
from computeledger.physics.transformer import n_params_active
from computeledger.units import HOUR_S, format_percent, format_si
from computeledger.workloads.result import Figure, Term
from computeledger.workloads.rl.estimate import RLResult, estimate_rl, pretraining_gpu_s_per_token
from computeledger.workloads.rl.generation import Sampling
from computeledger.workloads.rl.lengths import Lengths, default_longest, lengths_of_mean, spread_of_lengths
from computeledger.workloads.rl.placement import Stated, place_run
from computeledger.workloads.rl.scenario import (
    VERIFIER_CORES,
    Algorithm,
    Domain,
    RLMachines,
    RLScenario,
    Split,
    TextReward,
)
from computeledger.workloads.rl.search import rl_machine, trainer_bytes, trainer_fits
from computeledger.workloads.rl.sureness import rl_class, rl_factors_of
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.serving.estimate import LIVE_LIMIT, ServingScenario
from computeledger.workloads.serving.search import check_batch


@dataclass(frozen=True, slots=True)
class RLModel:
    """The modelled RL step of a plan, before money and before anything is compared with pretraining.

    Attributes
    ----------
    step : RLResult
        Along the sample axis.
    choices : mapping of str to str
        Layouts and mode.
    decode : tuple of Operation
        One decode step at the live batch.
    """

    step: RLResult
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
    run, choices = _run(setting)
    step = estimate_rl(run, _machines(setting))
    return RLModel(step, choices, _decode(step, setting))


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
        GPU-time of one pretraining token on the same chip, which beta compares with; where the plan has no such
        pretraining, that of an assumed utilisation [s/token].
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
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
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
            _beta_gpu_time(beta, hours.value * HOUR_S / tokens, (compared_s, compared_with)),
        ),
        choices={**modelled.choices, "beta in GPU-time compares with": compared_with},
        operations={"rollout decode": modelled.decode},
        assumptions=rl_assumptions(setting),
    )
    return make_phase("rl", setting, spent)


def rl_assumptions(setting: Setting) -> tuple[Term, ...]:
    """What is assumed of a run because its section is silent.

    Parameters
    ----------
    setting : Setting
        Of the RL section.

    Returns
    -------
    tuple of Term
        The longest rollout where no tail is stated, and the steps in flight where an asynchronous run states no lag.

    Examples
    --------
    >>> from computeledger.economics.plan.read import Plan
    >>> from computeledger.economics.plan.setting import make_setting
    >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": 2.0}))
    >>> draws = {"plan.price": 2.0, "power.h100-nvl8": 1800.0}
    >>> section = Section("rl", {"mode": "asynchronous", "rollout_p95": 9000.0})
    >>> [(one.name, one.value) for one in rl_assumptions(make_setting(plan, section, draws))]
    [('rl.steps_in_flight', 4.0)]
    """
    section = setting.section
    tail = () if "rollout_p95" in section else setting.assumed("longest_over_mean")
    is_open = section.text("mode") == "asynchronous" and "max_lag" not in section
    return (*tail, *(setting.assumed("steps_in_flight") if is_open else ()))


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


def _beta_gpu_time(beta: Num, per_token_s: Num, compared: tuple[Num, str]) -> Figure:
    terms = (Term("RL", per_token_s, "s"), Term(compared[1], compared[0], "s"))
    formula = "6 (GPU-s per sampled token) / (GPU-s per pretraining token)"
    return Figure("rl.beta_gpu_time", beta, "", formula, terms)


def _machines(setting: Setting, typical: bool = False) -> RLMachines:
    """GPUs of the run, with RL's own interval in place of those of serving and training."""
    machine = rl_machine(setting.typical if typical else setting.machine)
    draws = {} if typical else setting.draws
    name = rl_class(setting.model, machine.system.accelerator, setting.typical_number("rollout"))
    return RLMachines(machine, machine, rl_factors_of(name, draws))


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """The run of a section at its medians, with layouts and split as stated or as searched.

    Attributes
    ----------
    scenario : RLScenario
        With single numbers.
    machines : RLMachines
        With single numbers as factors.
    """

    scenario: RLScenario
    machines: RLMachines


def placed_run(setting: Setting) -> PlacedRun:
    """Find where the run of a section stands: what the ledger prices and what the simulation follows.

    Parameters
    ----------
    setting : Setting
        Of the RL section.

    Returns
    -------
    PlacedRun
        At the medians of what is uncertain.

    Raises
    ------
    PlanError
        Where the section contradicts itself.
    DoesNotFitError
        Where no layout holds the model and a longest rollout.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> from computeledger.physics.calibration.efficiency import middle
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
    ...                   "rl": {"gpus": 16, "steps": 100, "prompts_per_step": 16, "group_size": 8, "max_lag": 2,
    ...                          "rollout": "1K tokens", "prompt": "400 tokens", "training_gpus": 4}})
    >>> draws = {name: middle(value) for name, value in uncertain_inputs(plan).items()}
    >>> found = placed_run(make_setting(plan, plan.sections["rl"], draws)).scenario
    >>> found.split.n_generation, found.split.is_in_flight, int(found.trainer.layout.n_gpus)
    (12.0, True, 4)
    """
    section, model = setting.section, setting.model
    prompt, rollout = setting.typical_number("prompt"), setting.typical_number("rollout")
    gold = setting.typical_number("gold") if "gold" in section else 0.0
    check_context("rl", model, prompt + rollout + gold)
    shares = stated_split(setting)
    layout, trainer = section.text("layout"), section.text("training_layout")
    stated = Stated(
        n_gpus=int(setting.typical_number("gpus")),
        n_generation=None if shares is None else shares[0],
        n_training=None if shares is None else shares[1],
        max_lag=stated_lag(setting),
        is_in_flight={"yes": True, "no": False}.get(section.text("in_flight_updates") or ""),
        generation=check_layout(parse_layout(layout), model) if layout else None,
        trainer=check_layout(parse_layout(trainer), model) if trainer else None,
        precision=setting.training_precision,
        pack_tokens=setting.typical_number("sequence") if "sequence" in section else None,
    )
    machines = _machines(setting, typical=True)
    found, _ = place_run(_assembled(setting, setting.typical_number), stated, machines)
    if "batch" in section:
        batch = setting.typical_number("batch")
        check_batch(replace(found.engine, batch=1.0), found.engine.layout, batch, setting.typical)
    return PlacedRun(found, machines)


def _run(setting: Setting) -> tuple[RLScenario, dict[str, str]]:
    """The run as the plan states it, along the sample axis; layouts are searched where it leaves them out."""
    placed = placed_run(setting)
    typical, section = placed.scenario, setting.section
    drawn = _assembled(setting, setting.number)
    engine = replace(drawn.engine, layout=typical.engine.layout)
    run = replace(drawn, engine=engine, split=typical.split, trainer=typical.trainer)
    split = typical.split
    shared = f"{split.n_generation:,.0f} generate, {split.n_training:,.0f} train"
    choices = {
        "generation": f"{engine.layout} ({'plan' if section.text('layout') else 'searched'})",
        "trainer": _trainer_words(placed, section),
        "mode": f"{'asynchronous' if split.max_lag else 'synchronous'}, GPUs "
        + ("in turns" if split.is_colocated else shared),
    }
    unread = ", ".join(key for key in _CLOCK_KEYS if key in section)
    if unread:
        choices["left to simulate rl"] = unread
    return run, choices


def _trainer_words(placed: PlacedRun, section: Section) -> str:
    """The trainer, who chose it, and whether it fits as modelled where the plan chose it."""
    trainer, machine = placed.scenario.trainer, placed.machines.training
    words = f"{trainer.layout}, recompute {trainer.recompute}"
    if not section.text("training_layout"):
        return f"{words} (searched)"
    if bool(trainer_fits(placed.scenario, machine)):
        return f"{words} (plan)"
    needed, hbm = format_si(median(trainer_bytes(placed.scenario)), "B"), machine.system.accelerator.hbm_bytes.value
    return f"{words} (plan; as modelled it needs {needed} of {format_si(TRAINING_HBM_FRACTION * hbm, 'B')} per GPU)"


def _assembled(setting: Setting, number: Callable[[str], Num]) -> RLScenario:
    """The run with given numbers, where it stands still open."""

    def optional(name: str, otherwise: float) -> Num:
        return number(name) if name in setting.section else otherwise

    lengths, prompt = _lengths(setting, number), number("prompt")
    algorithm = Algorithm(
        prompts_per_step=number("prompts_per_step"),
        group_size=number("group_size"),
        kept_fraction=optional("kept", 1.0),
        logprob_passes=optional("logprob_passes", 1.0),
        updates_per_batch=optional("updates_per_batch", 1.0),
        started_ratio=optional("oversampling", 1.0),
        keeps_partial=setting.section.text("partial_rollouts") == "yes",
    )
    if "global_batch" in setting.section:
        trained = algorithm.rollouts * algorithm.kept_fraction * (prompt + lengths.mean_tokens)
        steps = np.maximum(np.rint(trained / number("global_batch")), 1.0)
        algorithm = replace(algorithm, optimizer_steps=steps)
    domains: tuple[Domain, ...] = ()
    if "verifier_time" in setting.section:
        domains = (Domain(1.0, number("verifier_time"), optional("verifier_cores", VERIFIER_CORES)),)
    batch = optional("batch", LIVE_LIMIT)
    return RLScenario(
        engine=ServingScenario(setting.model, Layout(), setting.precision, prompt, lengths.mean_tokens, batch),
        sampling=Sampling(lengths, prompt, number("group_size")),
        algorithm=algorithm,
        trainer=Trainer(Layout()),
        split=Split(1.0, 1.0),
        domains=domains,
        text=_text(setting.section, optional),
    )


def _lengths(setting: Setting, number: Callable[[str], Num]) -> Lengths:
    """Log-normal lengths of a step's rollouts, by their mean and tail, cut where the plan or the context ends them."""
    section, mean = setting.section, number("rollout")
    room = (setting.model.max_context_tokens or np.inf) - number("prompt")
    if "rollout_limit" in section:
        if setting.typical_number("rollout_limit") > median(room):
            raise PlanError(
                f"[rl] rollout_limit and prompt exceed the context of {setting.model.id}: "
                f"{setting.model.max_context_tokens} tokens"
            )
        room = np.minimum(number("rollout_limit"), room)
    if "rollout_p95" in section:
        ratio = setting.typical_number("rollout_p95") / setting.typical_number("rollout")
        if ratio < 1:
            raise PlanError(
                f"[rl] rollout_p95 lies below the mean, rollout = {setting.typical_number('rollout'):g} tokens"
            )
        longest = room if "rollout_limit" in section else default_longest(room, mean, ratio * mean)
        return lengths_of_mean(mean, np.maximum(longest, mean), spread_of_lengths(ratio, 0.95))
    longest = np.minimum(np.maximum(number("longest_over_mean"), 1.0) * mean, room)
    return lengths_of_mean(mean, np.maximum(longest, mean))


def _text(section: Section, optional: Callable[[str, float], Num]) -> TextReward | None:
    """What rewards a thought about a text, where the plan says so."""
    if "gold" in section:
        is_trained = section.text("train_on_gold") == "yes"
        return TextReward(optional("gold", 0.0), is_trained, optional("next_token", 0.0))
    for name in ("train_on_gold", "next_token"):
        if name in section:
            raise PlanError(f"rl.{name}: belongs to RL on text, which states gold")
    return None


def _decode(step: RLResult, setting: Setting) -> tuple[Operation, ...]:
    """One decode step at the live batch."""
    run = step.scenario
    engine, context = run.engine, run.sampling.prompt_tokens + run.sampling.lengths.mean_age_tokens
    live = Step(step.generation.live, context)
    return tuple(forward(engine.model, live, engine.layout, engine.precision, setting.machine))
