"""The pretraining ledger, and the trainer that RL shares with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.phases import Phase, Spent, close, params_term, stated_hours
from computeledger.economics.setting import Setting
from computeledger.errors import PlanError
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Operation
from computeledger.physics.training import Batch
from computeledger.units import DAY_S, HOUR_S
from computeledger.workloads.pretraining import (
    PretrainingResult,
    PretrainingScenario,
    estimate_pretraining,
    search_pretraining,
    training_layouts,
)
from computeledger.workloads.result import Figure, Term


def training_estimate(
    setting: Setting, layout_key: str, tokens: Num, batch_tokens: Num | None = None
) -> tuple[PretrainingResult, str]:
    """Estimate the trainer of a section; search its layout where the plan leaves it out.

    Parameters
    ----------
    setting : Setting
        Of a pretraining or RL section.
    layout_key : str
        Key that may hold the layout.
    tokens : float or ndarray
        Tokens of the run [token].
    batch_tokens : float or ndarray, optional
        Tokens per optimiser step, where the section does not say [token].

    Returns
    -------
    tuple of PretrainingResult and str
        The estimate, and the layout with how it was chosen.

    Examples
    --------
    >>> training_estimate.__name__
    'training_estimate'
    """
    section = setting.section
    sequence = setting.typical_number("sequence")
    wanted = setting.typical_number("global_batch") if batch_tokens is None else float(np.median(batch_tokens))
    sequences = max(round(wanted / sequence), 1)
    batch = Batch(
        sequence_tokens=sequence,
        global_sequences=float(sequences),
        microbatch_sequences=setting.optional("microbatch", 1.0),
        recompute=section.text("recompute") or "selective",
        virtual_stages=setting.optional("virtual_stages", 1.0),
    )
    n_gpus = int(setting.typical_number("gpus"))
    scenario = PretrainingScenario(setting.model, Layout(), setting.precision, batch, tokens, setting.usd_per_gpu_hour)
    given = section.text(layout_key)
    if given:
        layout = check_layout(_with_dp(parse_layout(given), n_gpus), setting.model, n_gpus)
        return estimate_pretraining(replace(scenario, layout=layout), setting.machine), f"{layout} (plan)"
    domain = int(setting.machine.system.n_gpus_scale_up.value)
    rounded = replace(batch, global_sequences=float(2 ** round(np.log2(sequences))))
    layouts = training_layouts(setting.model, n_gpus, domain)
    best = search_pretraining(replace(scenario, batch=rounded, tokens=0.0), layouts, setting.typical, top=1)[0]
    rounded = replace(rounded, microbatch_sequences=float(best.microbatch_sequences), recompute=best.recompute)
    result = estimate_pretraining(replace(scenario, layout=best.layout, batch=rounded), setting.machine)
    return result, f"{best.layout}, microbatch {best.microbatch_sequences}, recompute {best.recompute} (searched)"


def _with_dp(layout: Layout, n_gpus: int) -> Layout:
    """A layout without dp takes as many data-parallel ranks as the GPUs allow."""
    if layout.dp == 1 and n_gpus % int(layout.n_gpus) == 0:
        return replace(layout, dp=n_gpus // int(layout.n_gpus))
    return layout


def pretraining_phase(setting: Setting, tokens: Num, tokens_formula: str) -> tuple[Phase, Num]:
    """Estimate the pretraining ledger.

    Parameters
    ----------
    setting : Setting
        Of the section.
    tokens : float or ndarray
        Tokens of the run [token].
    tokens_formula : str
        Where they come from.

    Returns
    -------
    tuple of Phase and float or ndarray
        The phase, and the GPU-time of one token [s].

    Examples
    --------
    >>> pretraining_phase.__name__
    'pretraining_phase'
    """
    active = params_term(setting.model)
    flop = 6 * active.value * tokens
    figures = [
        Figure("pretraining.tokens", tokens, "tokens", tokens_formula),
        Figure("pretraining.flop", flop, "FLOP", "6 N D", (active, Term("D", tokens, "tokens", "plan", tokens_formula))),
    ]
    details: dict[str, tuple[Num, str]] = {}
    choices: dict[str, str] = {}
    operations: dict[str, tuple[Operation, ...]] = {}
    stated = stated_hours("pretraining", 0.0, setting, flop)
    if "gpus" in setting.section:
        result, choices["layout"] = training_estimate(setting, "layout", tokens)
        modelled = result.gpu_hours
        operations["training"] = result.step.operations
        details |= {
            "mfu_fraction": (result.mfu_fraction, ""),
            "hfu_fraction": (result.hfu_fraction, ""),
            "step_s": (result.step_s, "s"),
            "modelled_gpu_hours": (modelled, "GPU-hours"),
            "flop_with_attention": (result.flop_per_token * tokens, "FLOP"),
        }
        if stated is None:
            terms = (Term("D", tokens, "tokens"), Term("tokens/s/GPU", result.tokens_per_s_per_gpu, "tokens/s"))
            formula = "D / (tokens/s/GPU x 3600 s/h), tokens/s/GPU from the modelled training step"
            stated = modelled, Figure("pretraining.gpu_hours", modelled, "GPU-hours", formula, terms)
    if stated is None:
        raise PlanError("[pretraining] gpus is missing (or gpu_hours, or utilization)")
    hours, figure = stated
    if "gpus" in setting.section:
        days = hours * HOUR_S / setting.number("gpus") / DAY_S
        details["days"] = (days, "days")
    spent = Spent(tokens, flop, hours, details, (*figures, figure), choices, operations)
    return close("pretraining", setting, spent), hours * HOUR_S / np.maximum(tokens, 1e-300)
