"""Simulations as JSON documents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from computeledger.economics.plan.rl_clock import PlannedRun
from computeledger.facts.architecture import Model
from computeledger.physics.transformer import n_params_active
from computeledger.simulation.measures import Slo, is_good
from computeledger.simulation.rl import tables
from computeledger.simulation.rl.clock import RLClockResult
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult
from computeledger.simulation.serving.conversations import DrawnConversations, expected_hits
from computeledger.simulation.serving.search import Load, LoadPoint
from computeledger.simulation.serving.steady import MOST_OVERLOAD_RATIO, Estimate, Steady
from computeledger.simulation.state import Times
from computeledger.units import HOUR_S, TOKENS_PER_MTOK

#: Points of a timeline and of a distribution.
TIMELINE_POINTS, CDF_POINTS = 240, 101
#: Phases in which no GPU works on tokens.
_IDLE = ("idle", "waiting", "repair", "lost")


def phases_document(gpu_s: dict[str, float]) -> dict[str, dict[str, float]]:
    """GPU-time by phase, which adds up to what is paid for."""
    total = max(sum(gpu_s.values()), 1e-300)
    return {name: {"gpu_hours": part / HOUR_S, "fraction": part / total} for name, part in gpu_s.items()}


def distribution(times_s: dict[str, Times]) -> dict[str, list[float]]:
    """Quantiles of each time, evenly spaced in rank."""
    shares = np.linspace(0, 1, CDF_POINTS)
    out = {}
    for name, values in times_s.items():
        known = values[np.isfinite(values)]  # a single token has no time per further one; an endless line no quantile
        out[name] = [float(value) for value in np.quantile(known, shares)] if len(known) else []
    return out


def _rounded(columns: dict[str, Times]) -> dict[str, list[float]]:
    return {name: [float(f"{value:.6g}") for value in values] for name, values in columns.items()}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def serving_document(
    result: ServingClockResult, model: Model, slo: Slo, machine: tuple[Times, Times], steady: Steady | None
) -> dict[str, Any]:
    """A fleet under a load; of the machines by pool, FLOP/s of a GPU and USD of its hour."""
    peak_flop_per_s, usd_per_gpu_hour = machine
    one, trace, measured = result.scenario, result.trace, result.measured
    gpu_s = result.gpu_s()
    paid = sum(gpu_s.values())
    busy = paid - gpu_s["idle"] - gpu_s["lost"]
    usd = result.usd(usd_per_gpu_hour)
    done = result.requests_per_s if steady is None else steady.requests_per_s.value
    told = result if steady is None else steady
    good = float(np.mean(is_good(told.times_s, slo)))
    output = result.output_tokens_per_s / max(result.requests_per_s, 1e-300) * done * result.span_s
    return {
        "kind": "serve",
        "model": model.id,
        "replicas": [pool.n_replicas for pool in one.pools],
        "n_gpus": result.n_gpus,
        "load": {
            "requests": int(np.sum(measured)),
            "requests_per_s": _finite(trace.requests_per_s),
            "mean_input_tokens": float(np.mean(trace.input_tokens[measured])),
            "mean_output_tokens": float(np.mean(trace.output_tokens[measured])),
            "span_s": result.span_s,
        },
        "throughput": {
            "requests_per_s": done,
            "output_tokens_per_s": output / result.span_s,
            "output_tokens_per_s_per_gpu": output / paid,
        },
        "percentiles": {
            name: {key: _finite(value) for key, value in one.items()} for name, one in told.percentiles.items()
        },
        "slo": {
            "ttft_s": _finite(slo.ttft_s),
            "tpot_s": _finite(slo.tpot_s),
            "e2e_s": _finite(slo.end_to_end_s),
            "share_fraction": slo.share_fraction,
        },
        "goodput_requests_per_s": good * done / result.served_fraction,
        "good_fraction": good,
        "utilization_fraction": result.flop(n_params_active(model)) / np.sum(peak_flop_per_s * result.paid_gpu_s()),
        "busy_fraction": busy / paid,
        "phases": phases_document(gpu_s),
        "usd": usd,
        "usd_per_mtok_output": usd / output * TOKENS_PER_MTOK,
        "cached_fraction": result.cached_fraction,
        "cache": _cache(result),
        "preemptions": result.n_put_back,
        "failures": int(result.run.fleet.cursor[2]),
        "timeline": _rounded(result.timeline(TIMELINE_POINTS)),
        "distribution": distribution(told.times_s),
    }


def _cache(result: ServingClockResult) -> dict[str, Any]:
    """Where prompts were found, and what had to give way."""
    return {
        "hit_fraction": result.hits,
        "prefilled_tokens": result.prefilled_tokens,
        "evicted_tokens": result.evicted_tokens,
    }


def conversation_document(load: Load, fleet: ServingClock, rate: float) -> dict[str, Any]:
    """What is known of conversations before they are simulated: none where requests are on their own."""
    if not isinstance(load, DrawnConversations):
        return {"conversations": None}
    expected = expected_hits(fleet, load, rate)
    names = ("hbm", *(one.name for one in fleet.tiers))
    return {
        "conversations": {
            "per_s": rate / load.mean_turns,
            "turns": load.mean_turns,
            "expected_hit_fraction": dict(zip(names, expected.fractions, strict=True)),
            "hold_s": {name: _finite(one) for name, one in zip(names, expected.hold_s, strict=True)},
            "kv_tokens": dict(zip(
                names, (fleet.pools[0].limits.kv_tokens, *(tier.kv_tokens for tier in fleet.tiers)), strict=True)),
            "load_s_per_token": {one.name: one.s_per_token for one in fleet.tiers},
        }
    }  # fmt: skip


def steady_document(requests_per_s: float, carried: Estimate, steady: Steady | None) -> dict[str, Any]:
    """What the fleet carries, and how still the means hold: None for a trace, which has a beginning and an end."""
    found: dict[str, Any] = {
        "capacity": _estimate(carried)
        | {"load_fraction": _finite(requests_per_s / carried.value) if carried.value else None},
        "steady": None,
        "overload": None,
    }
    if steady is not None:
        found["steady"] = {
            "requests_per_s": _estimate(steady.requests_per_s),
            "end_to_end_s": _estimate(steady.end_to_end_s),
            "window_s": steady.result.span_s,
            "converged": steady.end_to_end_s.has_converged and steady.requests_per_s.has_converged,
        }
        if steady.is_saturated:
            pools = steady.result.scenario.pools
            n_needed = math.floor(pools[0].n_replicas * requests_per_s / carried.value) + 1 if len(pools) == 1 else None
            found["overload"] = {
                "queue_grows_requests_per_s": requests_per_s - carried.value,
                "ttft_grows_s_per_s": requests_per_s / carried.value - 1,
                "simulated_requests_per_s": min(requests_per_s, MOST_OVERLOAD_RATIO * carried.value),
                "replicas_that_carry_it": n_needed,
            }
    return found


def point_document(point: LoadPoint) -> dict[str, Any]:
    """A simulated load."""
    figures = {name: getattr(point, name) for name in LoadPoint.__dataclass_fields__}
    return (
        figures
        | {name: _finite(figures[name]) for name in ("ttft_p90_s", "tpot_p90_s", "e2e_p90_s")}
        | {"saturated": point.is_saturated}
    )


def _estimate(one: Estimate) -> dict[str, Any]:
    """A mean with its 90 % interval."""
    bounds = {"p05": one.low, "p50": one.value, "p95": one.high}
    return {name: _finite(value) for name, value in bounds.items()} | {"converged": one.has_converged}


def rl_document(result: RLClockResult, run: PlannedRun) -> dict[str, Any]:
    """A simulated RL run."""
    one, gpu_s = result.scenario, result.gpu_s()
    total = sum(gpu_s.values())
    busy = sum(part for name, part in gpu_s.items() if not any(word in name for word in _IDLE))
    tokens, end_s = result.sampled_tokens, result.end_s
    trained = len(result.trained)
    flop = result.flop(n_params_active(run.model), run.logprob_passes, run.updates_per_batch)
    staleness = result.staleness_steps
    return {
        "kind": "rl",
        "model": run.model.id,
        "generation": {"layout": run.generation, "replicas": one.pool.n_replicas, "n_gpus": one.n_gpus_generation},
        "training": {"layout": run.training, "n_gpus": one.trainer.n_gpus},
        "colocated": one.is_colocated,
        "max_lag": one.policy_lag_steps,
        "n_steps": one.n_steps,
        "rollouts_per_step": one.rollouts_per_step,
        "step_s": result.step_s,
        "steady_step_s": result.steady_step_s,
        "throughput": {
            "requests_per_s": trained / end_s,
            "output_tokens_per_s": tokens / end_s,
            "output_tokens_per_s_per_gpu": tokens / end_s / one.n_gpus,
        },
        "percentiles": result.percentiles,
        "goodput_requests_per_s": float(result.rollouts.is_kept[result.trained].sum()) / end_s,
        "saturated": result.verifiers_fall_behind,
        "utilization_fraction": flop / (run.peak_flop_per_s * total),
        "busy_fraction": busy / total,
        "phases": phases_document(gpu_s),
        "usd_per_step": total / HOUR_S * run.usd_per_gpu_hour / one.n_steps,
        "tokens": {
            "sampled": tokens,
            "trained": result.trained_tokens,
            "kept": result.kept_tokens,
            "failed": result.failed_tokens,
            "dropped": result.dropped_tokens,
            "unfinished": tokens - result.trained_tokens - result.failed_tokens - result.dropped_tokens,
        },
        "staleness_steps": {
            "mean": float(np.mean(staleness)),
            "max": int(staleness.max()),
            "histogram": [float(share) for share in np.bincount(staleness) / len(staleness)],
        },
        "verifiers": {"n": sum(one.kinds_of_verifiers), "busy_fraction": result.verifier_busy_fraction},
        **_judge(result),
        "weights": _weights(result, run),
        "failures": int(result.run.state[tables.FAILURES]),
        "steps": _steps(result),
        "timeline": _rounded(result.timeline(TIMELINE_POINTS)),
        "distribution": distribution({"rollout_tokens": result.rollouts.output_tokens.astype(float)}),
        "assumptions": {
            "silent": list(run.assumed),
            "step_time_fit_error_fraction": run.fit_error_fraction,
            "largest_batch": one.pool.limits.live,
            "kv_tokens_per_replica": one.pool.limits.kv_tokens,
            "efficiency": "medians of the plan's factors",
        },
    }


def _judge(result: RLClockResult) -> dict[str, Any]:
    """What judges and how busy it was; empty without a judge."""
    judge = result.scenario.judge
    if judge is None:
        return {}
    gpus = judge.own_gpus or judge.n_gpus_per_replica * judge.pool.n_replicas
    busy = result.gpu_s()["judge"] / (gpus * result.end_s)
    return {"judge": {"n_gpus": gpus, "replicas": judge.pool.n_replicas, "busy_fraction": busy,
                      "in_turn": not judge.is_apart}}  # fmt: skip


def _weights(result: RLClockResult, run: PlannedRun) -> dict[str, float]:
    """What sending new weights takes, and what a line to another site would need."""
    sync = result.scenario.sync
    return {
        "bytes": run.weights_bytes,
        "load_s": sync.load_s,
        "remote_replicas": sync.n_remote,
        "remote_s": sync.remote_s,
        "bytes_per_s_to_arrive_within_a_step": run.weights_bytes / result.steady_step_s,
    }


def _steps(result: RLClockResult) -> dict[str, list[float]]:
    """Moments of every step, for the timeline."""
    table = result.run.steps[: result.scenario.n_steps]
    names = {"released_s": tables.S_RELEASED, "generated_s": tables.S_GENERATED, "verified_s": tables.S_VERIFIED,
             "training_s": tables.S_BEGAN, "trained_s": tables.S_ENDED}  # fmt: skip
    return {name: [float(value) for value in table[:, column]] for name, column in names.items()}
