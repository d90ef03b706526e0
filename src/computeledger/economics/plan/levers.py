"""What moves all three ledgers at once, which gets too little compute, and where the three are of one order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, Range, median
from computeledger.economics.scaling.allocation import (
    PHASES,
    Allocation,
    AllocationScenario,
    Ledgers,
    PhaseCosts,
    RLGain,
    allocate,
    judge_ledgers,
)
from computeledger.economics.scaling.earnings import RLDoubling
from computeledger.economics.scaling.forms import kept_params_kumar_2024
from computeledger.economics.scaling.sparsity import sparsity_multiplier
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.physics.weights import stored_precision
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving

#: Returns within this factor are called equal; ledgers within a factor of ten are of one order.
EQUAL_RATIO, ONE_ORDER_RATIO = 1.25, 10.0
#: Embeddings alone are no sparsity.
_SPARSE = 1.2

#: Ledgers of two kinds of lab to judge: assumptions, not reports. Active parameters, tokens pretrained, of RL, served.
PRESETS = {
    "consumer-app": (100e9, 20e12, 2e12, 800e12),
    "api-only": (100e9, 20e12, 2e12, 1.2e12),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The request on which levers are measured: an assumption."""

    input_tokens: float = 4096.0
    output_tokens: float = 1024.0
    decode_batch: float = 64.0
    draft_tokens: float = 3.0
    tokens_per_step: float = 2.4
    cached_fraction: float = 0.8
    routed_fraction: float = 0.5


def judge_feeding(found: Allocation) -> dict[str, str | float]:
    """Which ledger of a lab is under-fed: the one whose next GPU-hour takes most off the loss.

    Examples
    --------
    >>> from computeledger.economics.scaling.allocation import Ledgers, judge_ledgers, phase_gpu_hours
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> hours = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.13, 0.13))
    >>> asked = AllocationScenario(load_loss_law("besiroglu_2024"), 1.0, PhaseCosts(), hours)
    >>> from computeledger.economics.scaling.allocation import judge_ledgers
    >>> judge_feeding(judge_ledgers(asked, Ledgers(400e9, 15e12, 0.0, 1e15)))["better"]
    'a smaller model on more tokens'
    """
    returns = {phase: median(found.marginal_return_per_gpu_hour[phase]) for phase in PHASES}
    tokens, size = returns["pretraining"], returns["inference"]
    ratio = size / tokens
    if 1 / EQUAL_RATIO <= ratio <= EQUAL_RATIO:
        reading, fed, better = "the three returns are about equal", "none", "neither"
    elif ratio > 1:
        fed, better = "inference", "a larger model on fewer tokens"
        reading = "a small model is stretched too far: tokens are piled on it that a larger one would use better"
    else:
        fed, better = "pretraining", "a smaller model on more tokens"
        reading = (
            "the model is too large for what it was trained on and for its use: more tokens pay, or a smaller model"
        )
    served = median(found.gpu_hours["inference"]) / max(median(found.gpu_hours["pretraining"]), 1e-300)
    if served < 1 / ONE_ORDER_RATIO:
        reading += "; it is hardly served: an asset not used"
    return {"under_fed": fed, "better": better, "reading": reading, "return_ratio": ratio, "served_ratio": served}


def rl_of_curve(scenario: AllocationScenario) -> str:
    """How RL moves with the demand: chosen by its ``gain``, given ``tokens``, or ``equal`` to pretraining's cost."""
    if scenario.rl_gain is not None:
        return "gain"
    return "equal" if scenario.tokens_rl is None else "tokens"


def demand_curve(scenario: AllocationScenario, found: Allocation) -> list[dict[str, float]]:
    """How the optimum of the same budget, in its own unit, moves with the tokens served, at the medians.

    Examples
    --------
    >>> from computeledger.economics.scaling.allocation import phase_gpu_hours
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> hours = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.4, 0.4))
    >>> asked = AllocationScenario(load_loss_law("besiroglu_2024"), 3e25, PhaseCosts(), hours, 1e14, 0.0)
    >>> curve = demand_curve(asked, allocate(asked))
    >>> [row["one_order"] for row in (curve[0], curve[8], curve[-1])]
    [0.0, 1.0, 0.0]
    """
    costs = scenario.costs
    whole = median(sum((found.flop[phase] * getattr(costs, phase) for phase in PHASES), start=0.0))
    trained = median(found.ledgers.tokens_pretraining)
    served = trained * np.logspace(-2, 2.5, 15)
    held = median(found.ledgers.tokens_rl) if rl_of_curve(scenario) == "tokens" else None
    one = replace(
        _at_medians(scenario), budget=np.full(served.shape, whole), tokens_inference=served, demand_elasticity=0.0,
        tokens_rl=held,
    )  # fmt: skip
    best = allocate(one)
    rows = []
    for place in range(served.size):
        flop = {phase: float(np.asarray(best.flop[phase])[place]) for phase in PHASES}
        spent = [value for value in flop.values() if value > 0]
        n, tokens = (
            float(np.asarray(of)[place]) for of in (best.ledgers.n_params_active, best.ledgers.tokens_pretraining)
        )
        rows.append({
            "tokens_inference": float(served[place]), "inference_over_pretraining_tokens_ratio": served[place] / tokens,
            "n_params_active": n, "tokens_per_param": tokens / n, "loss": float(np.asarray(best.loss)[place]),
            **{f"{phase}_flop_fraction": value / sum(spent) for phase, value in flop.items()},
            "one_order": float(max(spent) <= ONE_ORDER_RATIO * min(spent)),
        })  # fmt: skip
    return rows


def return_curves(scenario: AllocationScenario, found: Allocation) -> list[dict[str, float]]:
    """What one more GPU-hour of a ledger takes off the loss once that ledger is a tenth to ten times as large.

    Pretraining has more tokens at the same size; inference carries a larger model for the same tokens served, trained
    on fewer for the same compute; RL has more compute. The other ledgers stay. At the medians.

    Examples
    --------
    >>> from computeledger.economics.scaling.allocation import phase_gpu_hours
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> hours = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.4, 0.4))
    >>> asked = AllocationScenario(load_loss_law("besiroglu_2024"), 3e25, hours, hours, 1e14, 0.0)
    >>> rows = return_curves(asked, allocate(replace(asked, budget=1e7)))
    >>> bool(rows[0]["pretraining"] > rows[-1]["pretraining"])
    True
    """
    n, trained, rl, served = (
        median(of) for of in (
            found.ledgers.n_params_active, found.ledgers.tokens_pretraining, found.ledgers.tokens_rl,
            found.ledgers.tokens_inference,
        )
    )  # fmt: skip
    factor = np.geomspace(0.1, 10.0, 41)
    one = _at_medians(scenario)
    even = np.ones(factor.shape)
    moved = {
        "pretraining": Ledgers(n * even, trained * factor, rl * even, served * even),
        "rl": Ledgers(n * even, trained * even, rl * factor, served * even),
        "inference": Ledgers(n * factor, trained / factor, rl / factor, served * even),
    }
    returns = {
        phase: judge_ledgers(one, ledgers).marginal_return_per_gpu_hour[phase] for phase, ledgers in moved.items()
    }
    return [
        {"factor": float(factor[place]), **{phase: float(np.asarray(of)[place]) for phase, of in returns.items()}}
        for place in range(factor.size)
    ]


def _at_medians(scenario: AllocationScenario) -> AllocationScenario:
    """The question with the middle of everything that is uncertain."""
    of = scenario.law
    law = replace(
        of, E=median(of.E), A=median(of.A), B=median(of.B), alpha=median(of.alpha), beta=median(of.beta),
        unique_tokens=median(of.unique_tokens),
    )  # fmt: skip
    hours, costs = (
        PhaseCosts(*(median(getattr(one, phase)) for phase in PHASES)) for one in (scenario.gpu_hours, scenario.costs)
    )
    gain = scenario.rl_gain
    if isinstance(gain, RLGain):
        gain = RLGain(median(gain.most_ratio), median(gain.mid_flop), median(gain.exponent))
    elif isinstance(gain, RLDoubling):
        gain = RLDoubling(median(gain.nats), median(gain.reference_flop))
    return replace(
        scenario, law=law, budget=median(scenario.budget), costs=costs, gpu_hours=hours, beta=median(scenario.beta),
        demand_elasticity=median(scenario.demand_elasticity), rl_gain=gain,
    )  # fmt: skip


def ledger_levers(model_id: str, system_id: str, traffic: Traffic | None = None) -> list[dict[str, str | float]]:
    """What each lever does to the GPU-time of every ledger, loss and tokens kept: by the serving model and laws.

    A rollout of RL is decoded as inference is and trained on as pretraining is: half its GPU-time each is assumed.
    What levers of serving alone cost in quality is not modelled.

    Examples
    --------
    >>> table = ledger_levers("llama-3.1-8b", "h100-nvl8")
    >>> [round(row["inference"], 1) for row in table if row["lever"] == "routing"]
    [0.6]
    """
    use = traffic or Traffic()
    model, machine = load_model(model_id), Machine(load_system(system_id), efficiency())
    weights = stored_precision(model)
    base = ServingScenario(
        model, _layout(model, machine), weights, use.input_tokens, use.output_tokens, use.decode_batch
    )
    plain = _request_s(base, machine)
    rows = [_sparsity_row(model), *_training_rows(machine)]
    for name, (scenario, how) in _served(base, machine, use).items():
        one = float(_request_s(scenario, machine) / plain) if scenario is not None else 1.0
        rows.append(_row(name, how, (1.0, 0.5 + 0.5 * one, one)))
    routed = 1 - 0.9 * use.routed_fraction
    return [*rows, _row("routing", f"{use.routed_fraction:.0%} of requests to a model of a tenth of the cost",
                        (1.0, 1.0, routed))]  # fmt: skip


def _served(base: ServingScenario, machine: Machine, use: Traffic) -> dict[str, tuple[ServingScenario | None, str]]:
    """Levers of serving: the changed request, or none where the lever is already pulled."""
    reused = use.input_tokens * use.cached_fraction
    return {
        "KV compression": (replace(base, precision=replace(base.precision, kv="fp8")), "cache in 8 bits"),
        "quantised serving": _quantised(base, machine),
        "speculative decoding": (
            replace(base, draft_tokens=use.draft_tokens, tokens_per_step=use.tokens_per_step),
            f"{use.draft_tokens:g} drafted, {use.tokens_per_step:g} kept per step",
        ),
        "cache reuse": (
            replace(base, input_tokens=use.input_tokens - reused, cached_tokens=reused),
            f"{use.cached_fraction:.0%} of the prompt found",
        ),
    }


def _quantised(base: ServingScenario, machine: Machine) -> tuple[ServingScenario | None, str]:
    """Weights and products in the next narrower precision that the chip has."""
    stored = base.precision.name
    narrower = {"bf16": ("fp8", "8 bits"), "fp8": ("fp4", "4 bits")}.get(stored)
    if narrower is None or narrower[0] not in machine.system.accelerator.peak_flop_per_s:
        return None, f"stored in {stored} already, and the chip multiplies nothing narrower"
    name, words = narrower
    return replace(base, precision=Precision(name, name, name, base.precision.kv)), f"weights and products in {words}"


def _training_rows(machine: Machine) -> list[dict[str, str | float]]:
    """Training in 8 bits at equal loss, where the chip has them: faster products, more parameters for the loss."""
    peak = machine.system.accelerator.peak_flop_per_s
    if "fp8" not in peak:
        return []
    kept = float(kept_params_kumar_2024(8.0, 8.0, 16.0))
    faster = peak["bf16"].value / peak["fp8"].value
    how = (
        f"same loss from 1/{kept:.2f} of the parameters (Kumar et al., integers, small models); peak x{1 / faster:.2g}"
    )
    return [_row("training in 8 bits", how, (faster / kept, (0.5 * faster + 0.5) / kept, 1 / kept))]


def _sparsity_row(model: Model) -> dict[str, str | float]:
    """Sparsity at equal loss: active parameters over those of the dense model with the same loss."""
    total_over_active = float(n_params_total(model) / n_params_active(model))
    found = sparsity_multiplier(max(total_over_active, 1.0), unverified=True)
    multiplier = float(found.quantile(0.0)) if isinstance(found, Range) else float(found)
    how = (
        f"{total_over_active:.3g} parameters per one that multiplies a token: {multiplier:.2g} times fewer of those "
        "than in a dense model of the same loss and tokens (a figure read in notes only)"
    )
    if total_over_active < _SPARSE:
        multiplier, how = 1.0, "this model is dense"
    return _row("MoE sparsity", how, (1 / multiplier,) * 3)


def _row(lever: str, how: str, ratios: tuple[float, float, float]) -> dict[str, str | float]:
    return {"lever": lever, "how": how, **dict(zip(PHASES, ratios, strict=True))}


def _layout(model: Model, machine: Machine) -> Layout:
    """One scale-up domain, experts spread over it."""
    n = min(8, int(machine.system.n_gpus_scale_up.value))
    experts = model.is_moe
    return Layout(tp=n, ep=n if experts else 1)


def _request_s(scenario: ServingScenario, machine: Machine) -> Num:
    """Replica time of one request."""
    result = estimate_serving(scenario, machine)
    return scenario.output_tokens * result.decode_s / scenario.batch + result.prefill_busy_s
