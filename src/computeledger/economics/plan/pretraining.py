"""The pretraining ledger, and the trainer that RL shares with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, median, sample
from computeledger.economics.plan.phases import Phase, Spent, make_phase, params_term, stated_gpu_hours
from computeledger.economics.plan.setting import Setting, refused_anchor
from computeledger.errors import InputError, LayoutError, PlanError
from computeledger.facts.reliability import published_interruptions_per_gpu_s
from computeledger.physics.goodput import ASSUMED_STOPS, Reliability, goodput
from computeledger.physics.training.memory import TRAINING_HBM_FRACTION
from computeledger.units import DAY_S, HOUR_S, format_percent, format_si
from computeledger.workloads.pretraining.anchor import anchored_result, lesson_words
from computeledger.workloads.pretraining.estimate import (
    PretrainingResult,
    estimate_pretraining,
)
from computeledger.workloads.pretraining.reading import context_words, read_limits, read_training, stated_layout
from computeledger.workloads.pretraining.search import configured_run
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.result import Figure, Term


def training_estimate(setting: Setting) -> tuple[PretrainingResult, str]:
    """Estimate the trainer of a section; what the plan gives holds, what it leaves out is searched.

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "gpus": 64, "layout": "tp2"},
    ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
    >>> setting = make_setting(plan, plan.sections["pretraining"], sample(uncertain_inputs(plan)))
    >>> training_estimate(setting)[1]
    'tp2-dp32, microbatch 4, recompute none (plan)'
    """
    question, system = setting.asked(PretrainQuestion), setting.machine.system
    n_scale_up = int(system.n_gpus_scale_up.value)
    scenario, limits = read_training(question, setting.model), read_limits(question, n_scale_up)
    n_gpus, layout = stated_layout(question, setting.model, system)
    if layout is not None:
        scenario, limits = replace(scenario, layout=layout), replace(limits, layouts=(layout,))
    found, _ = configured_run(scenario, n_gpus, limits, setting.typical)
    found = replace(found, usd_per_gpu_hour=setting.usd_per_gpu_hour)
    if not question.anchor:
        result = estimate_pretraining(found, setting.machine)
        return result, _choice_words(result, layout is not None)
    try:
        result, anchoring = anchored_result(question.anchor, found, setting.machine)
    except InputError as error:
        raise refused_anchor("pretraining", error) from None
    return result, f"{_choice_words(result, layout is not None)}; {lesson_words(anchoring)}"


def _choice_words(result: PretrainingResult, is_given: bool) -> str:
    """The configuration, and whether the plan or the search chose its layout."""
    batch, layout = result.scenario.batch, result.scenario.layout
    stages = f", {median(batch.virtual_stages):g} virtual stages" if median(batch.virtual_stages) > 1 else ""
    words = f"{layout}, microbatch {median(batch.microbatch_sequences):g}{stages}, recompute {batch.recompute}"
    return f"{words} ({'plan' if is_given else 'searched'}{_memory_words(result)})"


def _memory_words(result: PretrainingResult) -> str:
    """What a layout of the plan needs where, as modelled, it does not fit: the plan may know better."""
    needed, usable = median(result.memory.total_bytes), result.capacity_bytes
    if needed <= usable:
        return ""
    if needed <= usable / TRAINING_HBM_FRACTION:
        hbm = format_si(usable / TRAINING_HBM_FRACTION, "B")
        return f"; tight: as modelled {format_si(needed, 'B')} of the GPU's {hbm}"
    return f"; as modelled it needs {format_si(needed, 'B')} of {format_si(usable, 'B')} per GPU"


#: The trainer of a section and its layout; nothing where the plan states GPU-hours alone.
TrainingModel = tuple[PretrainingResult, str] | None
#: Keys of the section that :func:`model_training` does not read.
LATER_KEYS = frozenset({"tokens", "gpu_hours", "utilization", "goodput", "price"})


def model_training(setting: Setting) -> TrainingModel:
    """Model the training step of a pretraining section.

    Examples
    --------
    >>> from computeledger.economics.plan.read import Plan, Section
    >>> from computeledger.economics.plan.setting import make_setting
    >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": 2.0}))
    >>> section = Section("pretraining", {"gpus": 64.0, "layout": "tp2"})
    >>> draws = {"plan.price": 2.0, "power.h100-nvl8": 1300.0, "pretraining.gpus": 64.0}
    >>> model_training(make_setting(plan, section, draws))[1]
    'tp2-dp32, microbatch 4, recompute none (plan)'
    """
    if "gpus" not in setting.section:
        if "anchor" in setting.section:
            raise PlanError("[pretraining] anchor: a measurement moves a modelled step, which needs gpus")
        return None
    result, layout = training_estimate(setting)
    _check_whole(result, setting)
    return result, layout


def pretraining_phase(setting: Setting, modelled: TrainingModel, tokens: Num, tokens_formula: str) -> Phase:
    """Estimate the pretraining ledger, ``C = 6 N D``.

    Examples
    --------
    >>> from computeledger.arrays import sample
    >>> from computeledger.economics.plan.read import read_plan
    >>> from computeledger.economics.plan.setting import make_setting, uncertain_inputs
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
    >>> setting = make_setting(plan, plan.sections["pretraining"], sample(uncertain_inputs(plan)))
    >>> phase = pretraining_phase(setting, model_training(setting), 15e12, "as the plan states")
    >>> [one.name for one in phase.figures][:3]
    ['pretraining.tokens', 'pretraining.flop', 'pretraining.gpu_hours']
    """
    active = params_term(setting.model)
    flop = 6 * active.value * tokens
    flop_terms = (active, Term("D", tokens, "tokens", "plan", tokens_formula))
    hours = stated_gpu_hours("pretraining", setting, flop)
    details: dict[str, tuple[Num, str]] = {}
    choices: dict[str, str] = {}
    operations = {}
    if hours is not None and "goodput" in setting.section:
        raise PlanError("[pretraining] goodput: GPU-hours and utilisation that are stated hold their stops already")
    if modelled is not None:
        result, choices["layout"] = modelled
        result = replace(result, scenario=replace(result.scenario, tokens=tokens))
        operations["training"] = result.step.operations
        details = _details(result)
        choices["MFU"] = _mfu_words(result)
        if beyond := context_words(result.scenario.model, median(result.scenario.batch.sequence_tokens)):
            choices["context"] = beyond
        hours = hours or _counting_stops(_modelled_gpu_hours(result), setting, details, choices)
        details["days"] = hours.value * HOUR_S / setting.number("gpus") / DAY_S, "days"
    if hours is None:
        raise PlanError("[pretraining] gpus is missing (or gpu_hours, or utilization)")
    figures = (
        Figure("pretraining.tokens", tokens, "tokens", tokens_formula),
        Figure("pretraining.flop", flop, "FLOP", "6 N D", flop_terms),
        hours,
    )
    assumed = () if modelled is None else setting.assumed("sequence_tokens", "global_batch_tokens")
    spent = Spent(tokens, flop, hours.value, details, figures, choices, operations, assumed)
    return make_phase("pretraining", setting, spent)


def _check_whole(result: PretrainingResult, setting: Setting) -> None:
    """A layout that leaves GPUs of the job idle would make its days and its GPU-hours disagree."""
    layout, n_gpus = result.scenario.layout, setting.asked(PretrainQuestion).gpus
    if int(layout.n_gpus) != n_gpus:
        raise LayoutError(
            f"layout {layout} uses {int(layout.n_gpus):,} of {n_gpus:,} GPUs: leave dp out to use all of them"
        )


def _mfu_words(result: PretrainingResult) -> str:
    """How MFU and the utilisation of the ledger differ."""
    mfu = format_percent(median(result.mfu_fraction))
    return f"{mfu} of the steps' time, attention's FLOP counted; utilisation counts 6 N D over all GPU-hours"


def _details(result: PretrainingResult) -> dict[str, tuple[Num, str]]:
    return {
        "mfu_fraction": (result.mfu_fraction, ""),
        "hfu_fraction": (result.hfu_fraction, ""),
        "step_s": (result.step_s, "s"),
        "modelled_gpu_hours": (result.gpu_hours, "GPU-hours"),
        "flop_with_attention": (result.flop_per_token * result.scenario.tokens, "FLOP"),
    }


def _modelled_gpu_hours(result: PretrainingResult) -> Figure:
    rate = Term("tokens/s/GPU", result.tokens_per_s_per_gpu, "tokens/s")
    terms = (Term("D", result.scenario.tokens, "tokens"), rate)
    formula = "D / (tokens/s/GPU x 3600 s/h), tokens/s/GPU from the modelled training step"
    return Figure("pretraining.gpu_hours", result.gpu_hours, "GPU-hours", formula, terms)


def _counting_stops(
    hours: Figure, setting: Setting, details: dict[str, tuple[Num, str]], choices: dict[str, str]
) -> Figure:
    """Divide by the plan's goodput; where it states none, say what failures and stops would make of the hours."""
    if "goodput" in setting.section:
        share = Term("goodput", setting.number("goodput"), "fraction", "plan", "pretraining.goodput")
        longer = hours.value / share.value
        details |= {"goodput_fraction": (share.value, ""), "modelled_gpu_hours": (longer, "GPU-hours")}
        return replace(hours, value=longer, formula=f"{hours.formula}; over goodput", terms=(*hours.terms, share))
    known = {name: value for name, (value, _) in ASSUMED_STOPS.items()}
    stops = sample({"interruptions_per_gpu_s": published_interruptions_per_gpu_s(), **known})
    shares = goodput(Reliability(**stops), float(setting.asked(PretrainQuestion).gpus or 1)).goodput_fraction
    low, typical, high = np.percentile(shares, (5, 50, 95))
    if low > 0:
        makes = format_si(median(hours.value) / float(typical), "GPU-hours")
        choices["failures and stops"] = (
            f'not counted: goodput = "{100 * low:.3g}%..{100 * high:.3g}%", as pretrain has it, makes it {makes}'
        )
    return hours
