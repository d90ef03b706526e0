"""From parsed options to an RL document: the call that the command line and the web share. No formula here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration_rl import load_rl_factors
from computeledger.physics.roofline import Precision
from computeledger.physics.transformer import n_params_active
from computeledger.progress import stage
from computeledger.questions.answers.rl_run import Asked, read_run
from computeledger.questions.documents import records as documents
from computeledger.questions.documents import rl as documents_rl
from computeledger.units import LARGEST
from computeledger.validation.rl_beta import published_betas
from computeledger.validation.tables import read_rows
from computeledger.workloads.rl import estimate_rl, pretraining_gpu_s_per_token
from computeledger.workloads.rl_coverage import fit_coverage, pass_at_k
from computeledger.workloads.rl_generation import decode_bound
from computeledger.workloads.rl_lengths import LONGEST_OVER_MEAN
from computeledger.workloads.rl_levers import levers
from computeledger.workloads.rl_returns import FARTHEST_FORECAST, fit_reward
from computeledger.workloads.rl_run import EPOCHS, RunCost, rl_figures
from computeledger.workloads.rl_scale_up import domain_use, largest_model, longest_trace
from computeledger.workloads.rl_search import VERIFIER_HEADROOM, next_gpu, rl_machine

#: Domains that --scale-up shows beside the question's own.
WORLD = ("h200-nvl8", "b200-nvl8", "gb200-nvl72", "tpu-v5p-pod", "tpu-v6e-pod")
#: Models among which the largest that a domain serves is looked for.
MODELS = (
    "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3",
    "kimi-k2",
)  # fmt: skip


def answer_rl(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger rl``."""
    if options["published"]:
        return documents_rl.published_document(published_betas())
    if options["reward"]:
        return _answer_reward(options["reward"], options["forecast"])
    if options["coverage"]:
        return _answer_coverage(options["coverage"], options["forecast"])
    asked = read_run(options)
    stage("the run with its samples")
    run = _cost(asked, typical=False)
    document = {
        "model": asked.model.id,
        "system": asked.system.id,
        "accelerator": asked.system.accelerator.id,
        "n_gpus": median(run.result.scenario.split.n_gpus),
        **documents_rl.rl_document(run),
        **_pace(asked),
    }
    document["demand"] = documents_rl.demand_document(
        asked.draws["budget_flop"], run.demand(asked.draws["budget_flop"])
    )
    if options["gold"] is not None:
        each, stock = asked.draws.get("text_per_place"), asked.draws["stock"]
        document["demand"] |= documents_rl.text_document(run, (asked.draws["budget_flop"], each), stock)
    if options["pretraining_flop"] is not None:
        document["equal_gpu_time"] = documents_rl.balance_document(run, asked.draws["pretraining_flop"])
    if asked.options_found:
        document["split_options"] = [documents_rl.option_document(one) for one in asked.options_found]
    if options["levers"]:
        document["levers"] = _levers(asked)
        document["samples_per_problem"] = _group_sizes(asked)
    if options["scale_up"]:
        document["scale_up"] = _world(asked)
    document |= {"price": asked.price_ground, "backend": options["backend"], "assumptions": _assumptions(options)}
    document["interval"] = {"class": asked.sureness}
    if options["working"]:
        document["working"] = documents.working_document(rl_figures(run), asked.price_ground)
        document["efficiency"] = _grounds()
    return document


def _cost(asked: Asked, typical: bool) -> RunCost:
    """One step of the run and what it costs."""
    numbers = asked.middles if typical else asked.draws
    scenario = asked.typical if typical else asked.scenario
    machines = asked.typical_machines if typical else asked.machines
    peak = machines.training.bf16_flop_per_s
    return RunCost(
        result=estimate_rl(scenario, machines),
        steps=numbers["steps"],
        usd_per_gpu_hour=numbers["price"],
        facility_w_per_gpu=numbers["power"],
        pretraining_gpu_s_per_token=pretraining_gpu_s_per_token(n_params_active(asked.model), peak, numbers["mfu"]),
    )


def _pace(asked: Asked) -> dict[str, Any]:
    """What binds, and what the next GPU should be."""
    stage("what binds")
    result = _cost(asked, typical=True).result
    one = asked.typical
    resource = str(
        np.ravel(decode_bound(one.engine, one.sampling, result.generation.live, asked.typical_machines.generation))[0]
    )
    saved = next_gpu(one, asked.typical_machines)
    return {
        **documents_rl.bound_document(result, resource),
        "next_gpu": {"best": max(saved, key=saved.__getitem__), "step_saved_fraction": saved},
    }


def _levers(asked: Asked) -> list[dict[str, Any]]:
    return [documents_rl.lever_document(one) for one in levers(asked.typical, asked.typical_machines)]


def _group_sizes(asked: Asked) -> dict[str, dict[str, float]]:
    """Sampling 4 against 64 per problem, the rest alike."""
    found = {}
    for size in (4.0, 64.0):
        algorithm = replace(asked.typical.algorithm, group_size=size)
        sampling = replace(asked.typical.sampling, group_size=size)
        result = estimate_rl(replace(asked.typical, algorithm=algorithm, sampling=sampling), asked.typical_machines)
        found[f"{size:.0f}"] = documents_rl.group_document(result)
    return found


def _world(asked: Asked) -> list[dict[str, Any]]:
    """The question's model and rollouts in one domain of each kind."""
    machines, engine = asked.typical_machines, asked.typical.engine
    models = [(one, Precision()) for one in map(load_model, MODELS)]
    rows = []
    for name in dict.fromkeys((asked.system.id, *WORLD)):
        there = rl_machine(replace(machines.generation, system=load_system(name)))
        moved = replace(machines, generation=there, training=there)
        use = domain_use(asked.model, engine.precision, asked.typical.sampling, moved)
        trace = longest_trace(asked.model, engine.precision, moved, median(asked.typical.sampling.prompt_tokens))
        best = largest_model(models, asked.typical.sampling, moved)
        rows.append(documents_rl.domain_document(use, trace, best[0].id if best else "none of those tried"))
    return rows


def _assumptions(options: Mapping[str, Any]) -> dict[str, Any]:
    """What is taken for granted beside the fitted constants."""
    document: dict[str, Any] = {
        "verifier_headroom_fraction": VERIFIER_HEADROOM,
        "epochs_over_the_tasks": EPOCHS,
        "pretraining_mfu": "as --mfu",
        "colocated": "weights and caches of the idle side are moved out of the way within weight sync",
    }
    if options["longest"] is None and options["rollout_lengths"] is None:
        document["longest_over_mean"] = LONGEST_OVER_MEAN
    return document


def _grounds() -> dict[str, dict[str, Any]]:
    """RL's constants with their grounds."""
    return {
        name: {**documents_rl.ends_document(one.value), "kind": one.kind, "why": one.why, "source": one.source}
        for name, one in load_rl_factors().items()
    }


def _columns(path: str, names: Sequence[str]) -> list[list[float]]:
    """Columns of numbers of a user's table."""
    rows = read_rows(path)
    missing = [name for name in names if name not in rows[0]]
    if missing:
        raise InputError(f"{path}: the columns {', '.join(missing)} are missing; needed: {', '.join(names)}")
    found: list[list[float]] = [[] for _ in names]
    for line, row in enumerate(rows, 2):
        for place, name in enumerate(names):
            try:
                value = float(row[name])
            except ValueError:
                value = math.nan
            if not abs(value) <= LARGEST:
                raise InputError(f"{path}:{line}: {name} {shown(row[name])} is no number up to {LARGEST:g}")
            found[place].append(value)
    return found


def _answer_reward(path: str, at: float | None) -> dict[str, Any]:
    compute, reward = _columns(path, ("compute", "reward"))
    fits = [fit_reward(compute, reward, law) for law in ("sigmoid", "power law")]
    return {**documents_rl.reward_document(fits, at), "farthest_forecast": FARTHEST_FORECAST}


def _answer_coverage(path: str, at: float | None) -> dict[str, Any]:
    rows = read_rows(path)
    if {"samples", "correct"} <= set(rows[0]):
        samples, correct = (np.array(column) for column in _columns(path, ("samples", "correct")))
        sizes = [float(k) for k in 2.0 ** np.arange(0, 20) if k <= np.min(samples)]
        seen = [float(np.mean(pass_at_k(samples, correct, k))) for k in sizes]
    else:
        sizes, seen = _columns(path, ("k", "coverage"))
    table = list(zip(sizes, seen, strict=True))
    inside = [(k, value) for k, value in table if 0 < value < 1]
    if at is not None and at > FARTHEST_FORECAST * max(sizes, default=0.0):
        raise InputError(
            f"--forecast {at:g}: the points reach to {max(sizes):g} samples, and a forecast at most "
            f"{FARTHEST_FORECAST:g} times as far"
        )
    fit = fit_coverage([k for k, _ in inside], [value for _, value in inside])
    return documents_rl.coverage_document(fit, table, at)
