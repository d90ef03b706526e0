"""RL answers as JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, median
from computeledger.facts.architecture import Lora
from computeledger.fields import MOST_COUNT
from computeledger.frontier.text import epochs
from computeledger.physics.parallelism import Layout
from computeledger.questions.document import document, lora_document, picked
from computeledger.validation.accuracy.nearest import Wanted, nearest_figures
from computeledger.validation.accuracy.table import errors_of, published
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.result import quantity
from computeledger.workloads.rl.confidence import RL_CLASSES, framework_effect, rests_on
from computeledger.workloads.rl.coverage import BudgetDemand
from computeledger.workloads.rl.environments import Environments, Horizon
from computeledger.workloads.rl.estimate import RLResult
from computeledger.workloads.rl.lengths import SURVIVAL
from computeledger.workloads.rl.levers import Lever
from computeledger.workloads.rl.run import RunCost
from computeledger.workloads.rl.scale_up import TRACES, DomainUse
from computeledger.workloads.rl.search import MoreUnits, SplitOption, cores_needed, pace_bound
from computeledger.workloads.rl.weight_sync import sent_bytes_per_gpu, sync_mechanism
from computeledger.workloads.rl_frameworks import load_rl_framework

#: Said with every beta.
CONVENTION = "tokens are sampled tokens, dropped ones included; times kept_ratio it counts tokens that were trained on"


def rl_document(run: RunCost) -> dict[str, Any]:
    """One run: the contract's keys first."""
    result, one = run.result, run.result.scenario
    hours, shares = run.phase_gpu_hours, run.phase_fraction
    return {
        **picked(result, "step_s"),
        "phases": {
            name: {"gpu_hours": quantity(hours[name], "GPU-hours"), "fraction": quantity(shares[name], "")}
            for name in hours
        },
        **picked(result, "beta_flop", units={"beta_flop": ""}),
        **picked(run, "beta_gpu_time"),
        **picked(result, "utilization_fraction"),
        "fits": bool(np.all(result.fits)),
        "split": split_document(result),
        "gpu_time_beside_pretraining": quantity(run.gpu_time_beside_pretraining, "x"),
        **picked(result, "idle_fraction", "timeline_s"),
        "phases_s": _quantities(result.phases_s, "s"),
        "beta": {
            "convention": CONVENTION,
            "kept_ratio": quantity(run.kept_ratio, ""),
            "flop_by_phase": _quantities(run.beta_flop_by_phase),
            "gpu_time_by_phase": _quantities(run.beta_by_phase),
            "beside_pretraining_by_phase": _quantities(run.gpu_time_beside_pretraining_by_phase),
        },
        "phase_utilization_fraction": _quantities(result.phase_utilization),
        **picked(
            run,
            "steps",
            "days",
            "gpu_hours",
            "flop",
            "tokens",
            "usd",
            "energy_j",
            "tokens_per_s_per_gpu",
            units={"days": "days"},
        ),
        "generation": _generation_document(result),
        "tokens_per_step": {
            "sampled": quantity(result.sampled_tokens, "tokens"),
            "kept": quantity(result.kept_tokens, "tokens"),
            "dropped": quantity(result.dropped_tokens, "tokens"),
        },
        "verification_s": quantity(result.phases_s["reward"], "s"),
        "verifier_cores_needed": quantity(cores_needed(result), ""),
        **picked(result, "lag_steps"),
        **judge_document(result),
        "rollout_tokens": {
            "mean": quantity(one.sampling.lengths.mean_tokens, "tokens"),
            "longest": quantity(one.sampling.lengths.longest_tokens, "tokens"),
        },
    }


def adapters_document(lora: Lora, result: RLResult) -> dict[str, Any]:
    """The adapters: how many parameters they train, and what generators take of them."""
    engine = result.scenario.engine
    return {
        **lora_document(engine.model, lora),
        "sync": "merged" if engine.model.adapters is None else "adapters",
        "sent_bytes": median(sent_bytes_per_gpu(engine.model, Layout(), engine.precision)),
    }


def judge_document(result: RLResult) -> dict[str, Any]:
    """What judges, how busy it is, and how long a verdict takes; empty without a judge."""
    one, verdicts = result.scenario, result.judging
    if one.judge is None or verdicts is None:
        return {}
    given, calls = one.transcripts, one.judge.calls
    return {
        "judge": {
            "model": one.judge.engine.model.id,
            "layout": str(one.judge.engine.layout),
            "n_gpus": median(one.judge.own_gpus) if one.judge.is_apart else median(one.split.n_generation),
            "in_turn": not one.judge.is_apart,
            "replicas": median(verdicts.replicas),
            "verdicts_per_step": quantity(given.rollouts * calls, ""),
            "read_tokens_per_rollout": quantity(given.read_tokens, "tokens"),
            "written_tokens_per_verdict": quantity(one.judge.tokens, "tokens"),
            "verdict_s": quantity(verdicts.verdict_s, "s"),
            "busy_fraction": quantity(np.minimum(verdicts.all_s / result.step_s, 1.0), ""),
        }
    }


def framework_document(question: RLQuestion, result: RLResult) -> dict[str, Any]:
    """The framework that the question takes its defaults from, which ones, and how weights are handed over."""
    one, colocated = load_rl_framework(question.stack), result.scenario.split.is_colocated
    taken = {name: value for name, value in question.from_framework.items() if getattr(question, name) is None}
    if question.live_limit is None and median(result.scenario.engine.batch) < MOST_COUNT:
        taken["live_limit"] = median(result.scenario.engine.batch)
    mechanism = sync_mechanism(result.scenario.weight_sync, colocated)
    return {
        "id": one.id,
        "name": one.name,
        "trainer": one.trainer,
        "placement": one.placement,
        "packs": one.packs,
        "taken": taken,
        "weight_sync": mechanism.id,
        "weight_sync_name": mechanism.name,
        "weight_sync_taken": question.weight_sync is None,
        "step_ratio": framework_effect(one.id),
        "source": one.source,
        "unverified": list(one.unverified),
    }


def _quantities(values: Mapping[str, Num], unit: str = "") -> dict[str, Any]:
    return {name: quantity(value, unit) for name, value in values.items()}


def _generation_document(result: RLResult) -> dict[str, Any]:
    made = result.generation
    return {
        "wall_s": quantity(made.wall_s * result.ratio_of("generation"), "s"),
        "exposed_s": quantity(result.phases_s["exposed generation"], "s"),
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


def bound_document(result: RLResult, resource: str, needed: Environments | None = None) -> dict[str, Any]:
    """What binds: the resource of the phase that sets the pace, or too few environments."""
    if needed is not None and needed.set_the_pace:
        return {"bound": "environments", "binding_phase": "environments"}
    phase = str(np.ravel(pace_bound(result))[0])
    named = {"generation": resource, "training": "compute", "verification": "cpu", "judge": resource}[phase]
    return {"bound": named, "binding_phase": phase}


def next_gpu_document(saved: Mapping[str, MoreUnits]) -> dict[str, Any]:
    """What the fewest GPUs that a layout can take more would save, all together and each on average."""
    return {
        "best": max(saved, key=lambda name: saved[name].of_each_fraction),
        "added": {name: one.added for name, one in saved.items()},
        "added_save_fraction": {name: one.saved_fraction for name, one in saved.items()},
        "step_saved_fraction": {name: one.of_each_fraction for name, one in saved.items()},
    }


def interval_document(name: str, framework: str) -> dict[str, str]:
    """Class of the step's interval, and what it rests on."""
    return {"class": name, **({} if name not in RL_CLASSES else {"rests_on": rests_on(name, framework)})}


def alike_document(run: RunCost, model: str, chip: str) -> dict[str, Any]:
    """Measured steps of runs whose halves take turns, or run at once, as those of this one, and the nearest of them."""
    step_s, kind = median(run.result.step_s), "asynchronous" if run.result.scenario.split.max_lag else "synchronous"
    rows = published("rl").promised().chosen(**{"class": [kind]}).rows
    wanted = Wanted("rl", model, chip, rows[0]["engine"], ("step_time",), chosen=(("class", kind),))
    near = nearest_figures(wanted, {"step_time": step_s})
    return {"what": f"{kind} steps of {rows[0]['engine']}", **asdict(errors_of(rows)), **document(near)}


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


def balance_document(run: RunCost, pretraining_flop: Num, price_ratio: Num) -> dict[str, Any]:
    """RL in the GPU-time of a pretraining run, beside the heuristic of price sheets."""
    return {
        "pretraining_flop": quantity(pretraining_flop, "FLOP"),
        "rl_flop": quantity(run.flop_at_equal_gpu_time(pretraining_flop), "FLOP"),
        "price_ratio": median(price_ratio),
        "rl_flop_by_price_ratio": quantity(pretraining_flop / price_ratio, "FLOP"),
    }


def demand_document(run: RunCost, flop: Num) -> dict[str, Any]:
    """What a budget of FLOP asks for, on the GPUs of the run."""
    demand: BudgetDemand = run.demand(flop)
    return {
        "flop": quantity(flop, "FLOP"),
        **picked(demand, "tokens", "rollouts", "steps", "tasks"),
        **picked(run.with_budget(flop), "gpu_hours", "days", "usd", units={"days": "days"}),
    }


def turns_document(run: RunCost, needed: Environments, horizons: Sequence[Horizon], cores: Num) -> dict[str, Any]:
    """What episodes with turns do beside writing, and what they need beside GPUs."""
    result, one = run.result, run.result.scenario
    lengths, turns = one.sampling.lengths, one.sampling.turns
    cut = SURVIVAL.reshape(-1, 1) * (lengths.tokens >= lengths.longest_tokens)
    waiting_s = turns.wait_s_per_token * lengths.mean_tokens
    return {
        "turns_per_episode": quantity(1 + turns.calls_per_token * lengths.mean_tokens, ""),
        "agents": median(one.algorithm.agents),
        "trained_agents": median(one.algorithm.trained_agents),
        "calls_per_step": quantity(one.calls, ""),
        "observed_tokens_per_step": quantity(one.observed_tokens, "tokens"),
        "longest_context_tokens": quantity(one.longest_sequence_tokens, "tokens"),
        "cut_fraction": quantity(np.max(np.where(lengths.tokens[1:2] < lengths.longest_tokens, cut, 0.0), axis=0), ""),
        "episode_s": quantity(result.generation.episode_s, "s"),
        "waiting_s": quantity(waiting_s, "s"),
        "reused_cache_fraction": quantity(result.generation.reused_fraction, ""),
        "environments": {
            "at_most": quantity(needed.at_most, ""),
            "busy": quantity(needed.busy, ""),
            "keep_pace": needed.keep_pace,
            "more_save_fraction": needed.more_save_fraction,
            "cores": needed.keep_pace * median(cores),
            "calls_at_once": quantity(needed.calls_at_once, ""),
        },
        "horizons": [
            {"turns": each.turns, "longest_context_tokens": each.longest_tokens, "step_s": each.step_s,
             "episode_gpu_s": each.episode_gpu_s, "fits": each.fits}
            for each in horizons
        ],
    }  # fmt: skip


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
        **picked(whole, "gpu_hours", "days", "usd", units={"days": "days"}),
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


def domain_document(use: DomainUse, traces: tuple[float, float | None], largest: str) -> dict[str, Any]:
    """A scale-up domain under RL; traces are the longest that it carries, and what the model's context allows."""
    return {
        "system": use.system,
        "n_chips": use.n_chips,
        "layout": use.layout,
        "hbm_bytes": use.hbm_bytes,
        "weights_bytes": use.weights_bytes,
        "fits": use.fits,
        "rollouts": use.n_rollouts,
        "tokens_per_s_per_gpu": use.tokens_per_s_per_gpu,
        "utilization_fraction": use.utilization_fraction,
        "shared_fraction": use.shared_fraction,
        "efficient": use.is_efficient,
        "longest_trace_tokens": traces[0],
        "is_longest_tried": bool(traces[0] >= TRACES[-1]),
        "context_tokens": traces[1],
        "largest_model": largest,
    }
