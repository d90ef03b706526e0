"""What beta is in published runs: GPU-time of an RL token against a pretraining token, row by row, and its parts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Range
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.physics.calibration.rl import rl_factors
from computeledger.physics.transformer import n_params_active
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.rl.rows import PROMPT_TOKENS, RLRun, central_machine, rl_runs
from computeledger.workloads.rl.estimate import RLResult, estimate_rl, pretraining_gpu_s_per_token
from computeledger.workloads.rl.scenario import RLMachines

#: Published RL steps that the package ships.
CURATED_RL = "rl_curated.csv"


@dataclass(frozen=True, slots=True)
class PublishedBeta:
    """Beta of one published run; ``is_split_stated`` where the publication says who has which GPUs, not its recipe."""

    run: RLRun
    is_split_stated: bool
    beta_flop: float
    beta_gpu_time: float
    modelled_beta_gpu_time: float
    parts: Mapping[str, float]
    phase_utilization: Mapping[str, float]


def published_betas(
    rows: Sequence[Mapping[str, str]] | None = None, mfu_fraction: float = PRETRAINING_UTILIZATION_FRACTION
) -> list[PublishedBeta]:
    """Reproduce beta from published rows.

    ``beta = 6 (GPUs T / tokens) / (6 N / (MFU peak))``; a token is one of prompt or rollout, as the rows count them.

    Examples
    --------
    >>> dense = [one for one in published_betas() if one.run.row["model_kind"] == "dense"]
    >>> 18 < min(one.beta_gpu_time for one in dense) and max(one.beta_gpu_time for one in dense) < 46
    True
    """
    given = curated_rows(CURATED_RL) if rows is None else rows
    return [_beta(run, "recipe" not in run.row["gpu_split"], mfu_fraction) for run in rl_runs(given)[0]]


@functools.cache
def published_utilization(model_kind: str) -> Range:
    """Utilisation of a whole RL step in published runs, waiting included, ``U beta_flop / beta_gpu_time``.

    ``U`` is that of the pretraining which ``beta_gpu_time`` compares with, and cancels.

    Examples
    --------
    >>> dense, mixtures = published_utilization("dense"), published_utilization("moe")
    >>> 0.08 < dense.low < dense.mid < dense.high < 0.21, mixtures.high < 0.05
    (True, True)
    """
    rows = [one for one in published_betas() if one.run.row["model_kind"] == model_kind]
    used = [PRETRAINING_UTILIZATION_FRACTION * one.beta_flop / one.beta_gpu_time for one in rows]
    return Range(min(used), max(used), mid=float(np.median(used)))


def _beta(run: RLRun, is_split_stated: bool, mfu_fraction: float) -> PublishedBeta:
    machine = central_machine(run.system)
    result = estimate_rl(run.scenario, RLMachines(machine, machine, rl_factors()))
    peak = machine.bf16_flop_per_s
    compared = pretraining_gpu_s_per_token(n_params_active(run.scenario.engine.model), peak, mfu_fraction)
    tokens = _tokens(result)
    per_gpu_s = 6 / compared / tokens
    measured = run.step_s * float(run.scenario.split.n_gpus) * per_gpu_s
    return PublishedBeta(
        run=run,
        is_split_stated=is_split_stated,
        beta_flop=float(result.flop_per_step / n_params_active(run.scenario.engine.model) / tokens),
        beta_gpu_time=float(measured),
        modelled_beta_gpu_time=float(result.gpu_s_per_step * per_gpu_s),
        parts={name: float(part * per_gpu_s) for name, part in result.phases_gpu_s.items()},
        phase_utilization={name: float(np.asarray(part)) for name, part in result.phase_utilization.items()},
    )


def _tokens(result: RLResult) -> float:
    one = result.scenario
    return float(one.algorithm.rollouts * (one.taken_tokens + PROMPT_TOKENS))
