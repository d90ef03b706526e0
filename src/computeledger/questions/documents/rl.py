"""RL answers as JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, median
from computeledger.frontier.text import epochs
from computeledger.validation.rl.beta import PublishedBeta
from computeledger.workloads.result import quantity
from computeledger.workloads.rl.coverage import BudgetDemand, CoverageFit
from computeledger.workloads.rl.estimate import RLResult
from computeledger.workloads.rl.levers import Lever
from computeledger.workloads.rl.returns import RewardFit
from computeledger.workloads.rl.run import PRICE_RATIO, RunCost
from computeledger.workloads.rl.scale_up import DomainUse
from computeledger.workloads.rl.search import SplitOption, cores_needed, pace_bound

#: Said with every beta.
CONVENTION = "tokens are sampled tokens, dropped ones included; times kept_ratio it counts tokens that were trained on"


def rl_document(run: RunCost) -> dict[str, Any]:
    """One run: the contract's keys first."""
    result, one = run.result, run.result.scenario
    hours, shares = run.phase_gpu_hours, run.phase_fraction
    return {
        "step_s": quantity(result.step_s, "s"),
        "phases": {
            name: {"gpu_hours": quantity(hours[name], "GPU-hours"), "fraction": quantity(shares[name], "")}
            for name in hours
        },
        "beta_flop": quantity(result.beta_flop, ""),
        "beta_gpu_time": quantity(run.beta_gpu_time, ""),
        "utilization_fraction": quantity(result.utilization_fraction, ""),
        "fits": bool(np.all(result.fits)),
        "split": split_document(result),
        "idle_fraction": quantity(result.idle_fraction, ""),
        "timeline_s": {side: _quantities(spans, "s") for side, spans in result.timeline_s.items()},
        "beta": {
            "convention": CONVENTION,
            "kept_ratio": quantity(run.kept_ratio, ""),
            "flop_by_phase": _quantities(run.beta_flop_by_phase),
            "gpu_time_by_phase": _quantities(run.beta_by_phase),
        },
        "phase_utilization_fraction": _quantities(result.phase_utilization),
        "steps": quantity(run.steps, ""),
        "days": quantity(run.days, "days"),
        "gpu_hours": quantity(run.gpu_hours, "GPU-hours"),
        "flop": quantity(run.flop, "FLOP"),
        "tokens": quantity(run.tokens, "tokens"),
        "usd": quantity(run.usd, "USD"),
        "energy_j": quantity(run.energy_j, "J"),
        "tokens_per_s_per_gpu": quantity(run.tokens_per_s_per_gpu, "tokens/s"),
        "generation": _generation_document(result),
        "tokens_per_step": {
            "sampled": quantity(result.sampled_tokens, "tokens"),
            "kept": quantity(result.kept_tokens, "tokens"),
            "dropped": quantity(result.dropped_tokens, "tokens"),
        },
        "verification_s": quantity(result.verification_s, "s"),
        "verifier_cores_needed": quantity(cores_needed(result), ""),
        "lag_steps": quantity(result.lag_steps, ""),
        "rollout_tokens": {
            "mean": quantity(one.sampling.lengths.mean_tokens, "tokens"),
            "longest": quantity(one.sampling.lengths.longest_tokens, "tokens"),
        },
    }


def _quantities(values: Mapping[str, Num], unit: str = "") -> dict[str, Any]:
    return {name: quantity(value, unit) for name, value in values.items()}


def _generation_document(result: RLResult) -> dict[str, Any]:
    made = result.generation
    return {
        "wall_s": quantity(made.wall_s, "s"),
        "exposed_s": quantity(result.exposed_generation_s, "s"),
        "rollouts_decoding": quantity(made.live, ""),
        "places": quantity(made.n_places, ""),
        "replicas": median(result.scenario.n_replicas),
    }


def split_document(result: RLResult) -> dict[str, Any]:
    """Who has which GPUs, and on what layouts."""
    one = result.scenario
    return {
        "generation_gpus": median(one.split.n_generation),
        "training_gpus": median(one.split.n_training),
        "colocated": one.split.is_colocated,
        "max_lag": one.split.max_lag,
        "in_flight": one.split.is_in_flight,
        "layout": str(one.engine.layout),
        "training_layout": str(one.trainer.layout),
        "recompute": one.trainer.recompute,
    }


def bound_document(result: RLResult, resource: str) -> dict[str, Any]:
    """What binds: the resource of the phase that sets the pace."""
    phase = str(np.ravel(pace_bound(result))[0])
    named = {"generation": resource, "training": "compute", "verification": "cpu"}[phase]
    return {"bound": named, "binding_phase": phase}


def option_document(option: SplitOption) -> dict[str, Any]:
    """One way to share the GPUs."""
    return {
        "generation_gpus": float(option.split.n_generation),
        "training_gpus": float(option.split.n_training),
        "colocated": option.split.is_colocated,
        "layout": str(option.layout),
        "training_layout": str(option.trainer.layout),
        "step_s": option.step_s,
        "gpu_s_per_kept_token": option.gpu_s_per_token,
        "verifier_cores": option.verifier_cores,
        "binding_phase": option.bound,
    }


def balance_document(run: RunCost, pretraining_flop: Num) -> dict[str, Any]:
    """RL in the GPU-time of a pretraining run, beside the heuristic of price sheets."""
    return {
        "pretraining_flop": quantity(pretraining_flop, "FLOP"),
        "rl_flop": quantity(run.flop_at_equal_gpu_time(pretraining_flop), "FLOP"),
        "price_ratio": PRICE_RATIO,
        "rl_flop_by_price_ratio": quantity(pretraining_flop / PRICE_RATIO, "FLOP"),
    }


def demand_document(flop: Num, demand: BudgetDemand) -> dict[str, Any]:
    """What a budget of FLOP asks for."""
    return {
        "flop": quantity(flop, "FLOP"),
        "tokens": quantity(demand.tokens, "tokens"),
        "rollouts": quantity(demand.rollouts, ""),
        "steps": quantity(demand.steps, ""),
        "tasks": quantity(demand.tasks, ""),
    }


def text_document(run: RunCost, asked: tuple[Num, Num | None], stock: Num) -> dict[str, Any]:
    """The same of RL on text: places, GPU-time, and text beside all that there is."""
    flop, per_place = asked
    demand, text = run.demand(flop, 1.0), run.text_tokens(flop, per_place)
    whole = replace(run, steps=demand.steps)
    return {
        "places": quantity(demand.tasks, ""),
        "text_tokens": quantity(text, "tokens"),
        "text_stock_tokens": quantity(stock, "tokens"),
        "passes_over_the_stock": quantity(epochs(text, stock), ""),
        "gpu_hours": quantity(whole.gpu_hours, "GPU-hours"),
        "days": quantity(whole.days, "days"),
        "usd": quantity(whole.usd, "USD"),
    }


def ends_document(value: Uncertain) -> dict[str, float]:
    """A constant as a range, or a number as both of its ends."""
    return {"low": value.low, "high": value.high} if isinstance(value, Range) else {"low": value, "high": value}


def lever_document(lever: Lever) -> dict[str, Any]:
    """One change and its effect."""
    return {
        "name": lever.name,
        "why": lever.why,
        "step_s": lever.step_s,
        "gpu_time_per_token_ratio": lever.gpu_time_ratio,
    }


def group_document(result: RLResult) -> dict[str, float]:
    """One group size: a step, and GPU-time of a problem."""
    problems = result.scenario.algorithm.prompts_per_step
    return {"step_s": median(result.step_s), "gpu_s_per_problem": median(result.gpu_s_per_step / problems)}


def domain_document(use: DomainUse, longest_trace_tokens: float, largest: str) -> dict[str, Any]:
    """A scale-up domain under RL."""
    return {
        "system": use.system,
        "layout": use.layout,
        "hbm_bytes": use.hbm_bytes,
        "weights_bytes": use.weights_bytes,
        "fits": use.fits,
        "rollouts": use.n_rollouts,
        "tokens_per_s_per_gpu": use.tokens_per_s_per_gpu,
        "utilization_fraction": use.utilization_fraction,
        "shared_fraction": use.shared_fraction,
        "efficient": use.is_efficient,
        "longest_trace_tokens": longest_trace_tokens,
        "largest_model": largest,
    }


def published_document(betas: Sequence[PublishedBeta]) -> dict[str, Any]:
    """Beta of published runs, by phase."""
    rows = [
        {
            "system": one.run.row["source"],
            "model": one.run.row["model"],
            "hardware": one.run.row["hardware"],
            "n_gpus": float(one.run.scenario.split.n_gpus),
            "mode": one.run.row["algorithm"].partition("; ")[2],
            "precision": one.run.scenario.engine.precision.name,
            "mean_tokens": float(one.run.scenario.sequence_tokens),
            "step_s": one.run.step_s,
            "beta_flop": one.beta_flop,
            "beta_gpu_time": one.beta_gpu_time,
            "modelled_beta_gpu_time": one.modelled_beta_gpu_time,
            "split_stated": one.is_split_stated,
            "by_phase": dict(one.parts),
            "phase_utilization_fraction": dict(one.phase_utilization),
        }
        for one in betas
    ]
    values = np.array([one.beta_gpu_time for one in betas])
    levels = dict(
        zip(("min", "p25", "p50", "p75", "max"), np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist(), strict=True)
    )
    convention = "tokens of prompt and rollout, as the rows count them; against 40 % of 6 N on the same chip"
    return {"published": rows, "beta_gpu_time": levels, "convention": convention}


def reward_document(fits: Sequence[RewardFit], forecast_at: float | None) -> dict[str, Any]:
    """Laws of reward, and their forecast."""
    laws = {
        one.law: {
            "values": one.values,
            "intervals": {name: _ends(cloud) for name, cloud in one.cloud.items()},
            "residual": one.residual,
        }
        for one in fits
    }
    document: dict[str, Any] = {"reward": laws, "points_reach": list(fits[0].span)}
    if forecast_at is not None:
        document["forecast"] = {"compute": forecast_at} | {
            one.law: dict(zip(("p05", "p50", "p95"), one.forecast(forecast_at), strict=True)) for one in fits
        }
    return document


def _ends(cloud: np.ndarray) -> dict[str, float]:
    return dict(zip(("p05", "p50", "p95"), np.quantile(cloud, (0.05, 0.5, 0.95)).tolist(), strict=True))


def coverage_document(fit: CoverageFit, table: Sequence[tuple[float, float]], at: float | None) -> dict[str, Any]:
    """A law of coverage, and pass@k."""
    document: dict[str, Any] = {
        "coverage": {"a": fit.a, "b": fit.b, "residual": fit.residual, "formula": "exp(a k^b)"},
        "pass_at_k": [{"k": k, "coverage": value} for k, value in table],
    }
    if at is not None:
        document["forecast"] = {"k": at, "coverage": float(np.asarray(fit.coverage(at)))}
    return document
