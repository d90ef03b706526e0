"""Measured RL steps against the RL model: the schema of ``measured/rl.csv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, median, sample
from computeledger.physics.calibration.rl import RLFactors, rl_factors
from computeledger.physics.calibration.weight_sync import RATIO
from computeledger.validation.compare import Array, Comparison, Explanation, merged
from computeledger.validation.rl.rows import RLRun, central_machine, rl_runs
from computeledger.validation.rl.syncs import SYNC_METRICS, read_syncs
from computeledger.workloads.rl.confidence import framework_factors, known_ratios, rl_class, rl_factors_of
from computeledger.workloads.rl.estimate import RLResult, estimate_rl
from computeledger.workloads.rl.generation import OUTSIDE
from computeledger.workloads.rl.pace import decode_bound
from computeledger.workloads.rl.scenario import RLMachines
from computeledger.workloads.rl.weight_sync import sync_s
from computeledger.workloads.rl_frameworks import load_rl_framework, named_rl_framework

#: What binds the phases whose time is not that of a decode step.
_BOUNDS = {"log-probs": "compute", "update": "compute", "weight sync": "network"}
_BOUNDS |= dict.fromkeys(("once per step", "waiting for the longest rollouts", "waiting for verifiers"), "overhead")
_BOUNDS |= dict.fromkeys(("generators waiting", "trainer waiting for rollouts", OUTSIDE), "overhead")


def compare_rl(rows: Sequence[Mapping[str, str]], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict measured RL steps and their phases, every figure a row, with the interval of the class it falls in.

    Examples
    --------
    >>> row = {"model": "nobody", "metric": "step_time", "value": "9", "unit": "s"}
    >>> dict(compare_rl([row]).skipped)
    {'model not known': 1}
    """
    alone = [row for row in rows if row["metric"] in SYNC_METRICS and "weight sync" in (row.get("algorithm") or "")]
    runs, skipped = rl_runs([row for row in rows if row not in alone])
    parts = [_compare_steps(runs, skipped, n_samples, seed)]
    if alone:
        parts.append(_compare_syncs(alone, n_samples, seed))
    return merged(parts) if alone else parts[0]


def _compare_steps(runs: Sequence[RLRun], skipped: Counter[str], n_samples: int, seed: int) -> Comparison:
    """Steps and phases of runs."""
    held: list[tuple[RLRun, list[int]]] = []
    for run in runs:
        places: list[int] = []
        times = predict_figures(run, framework_factors(rl_factors(), run.row["framework"]), 1)[:, 0]
        for at, time_s in enumerate(times):
            if np.isfinite(time_s) and time_s > 0:
                places.append(at)
            else:
                skipped["a step that no layout holds" if np.isinf(time_s) else "a phase that the run has not"] += 1
        held.append((run, places))
    ratios = sample({f"efficiency.{name}": value for name, value in known_ratios().items()}, n_samples, seed)
    found, kept = _Cells(n_samples), []
    for run, places in held:
        model, framework = run.scenario.engine.model, run.row["framework"]
        one = rl_class(model, run.system.accelerator, median(run.scenario.taken_tokens), framework)
        clouds = predict_figures(run, rl_factors_of(one, ratios), n_samples)  # its own effect left out
        for at in places:
            metric, quantity, measured = run.figures[at]
            found.add(quantity, measured, clouds[at])
            kept.append({**run.row, "metric": metric, "class": one})
    own = [run for run, places in held for _ in places]
    return found.comparison(kept, skipped, _explainer(own))


def _compare_syncs(rows: Sequence[Mapping[str, str]], n_samples: int, seed: int) -> Comparison:
    """Weight synchronisations that were measured alone."""
    syncs, skipped = read_syncs(rows)
    ratio = sample({RATIO: known_ratios()[RATIO]}, n_samples, seed)[RATIO]
    found = _Cells(n_samples)
    for one in syncs:
        found.add("weight_sync_time", one.time_s, float(sync_s(one.sides, one.mechanism)) * np.asarray(ratio))
    kept = [{**one.row, "mechanism": one.mechanism.id, "class": "weight sync",
             "framework": named_rl_framework(one.row["system"]).id} for one in syncs]  # fmt: skip
    return found.comparison(kept, skipped, None)


class _Cells:
    """Figures of several quantities, row by row, as columns that are blank where a row measures another one."""

    def __init__(self, n_samples: int) -> None:
        self.n_samples = n_samples
        self.rows: list[tuple[str, float, Array]] = []

    def add(self, quantity: str, measured: float, predicted: Array) -> None:
        """Append a row."""
        self.rows.append((quantity, measured, np.broadcast_to(predicted, self.n_samples)))

    def comparison(self, rows: Sequence[Mapping[str, str]], skipped: Mapping[str, int],
                   explain: Callable[[int, str], Explanation | None] | None) -> Comparison:  # fmt: skip
        """All rows; a step's time is a column in any case."""
        names = ["step_time", *dict.fromkeys(name for name, _, _ in self.rows if name != "step_time")]
        measured = {name: np.full(len(self.rows), np.nan) for name in names}
        predicted = {name: np.full((len(self.rows), self.n_samples), np.nan) for name in names}
        for at, (name, value, cloud) in enumerate(self.rows):
            measured[name][at], predicted[name][at] = value, cloud
        return Comparison(rows, measured, predicted, skipped, {}, explain)


def predict_runs(runs: Sequence[RLRun], factors: RLFactors, width: int) -> Array:
    """Predict the step time of configurations.

    Examples
    --------
    >>> predict_runs([], RLFactors(), 3).shape
    (0, 3)
    """
    steps = np.empty((len(runs), width))
    for place, run in enumerate(runs):
        steps[place] = _result(run, factors).step_s
    return steps


def predict_figures(run: RLRun, factors: RLFactors, width: int) -> Array:
    """Predict every measured figure of a configuration, one row each; not a number where it has no such phase."""
    result = _result(run, factors)
    times = figures_of(result)
    return np.array([np.broadcast_to(times[quantity], width) for _, quantity, _ in run.figures], float)


def figures_of(result: RLResult) -> dict[str, Num]:
    """Times of a result by the quantity that measured metrics name [s].

    Log-probs are those of old policy and reference together, as one timer of frameworks counts them.
    """
    phases = result.phases_s
    both_s = phases["old-policy log-probs"] + phases["reference log-probs"]
    return {
        "step_time": result.step_s,
        "generation_time": phases["generation"],
        "exposed_generation_time": phases["exposed generation"],
        "logprob_time": both_s,
        "reference_logprob_time": phases["reference log-probs"],
        "update_time": phases["update"],
        "weight_sync_time": phases["weight sync"],
        "reward_time": phases["reward"],
        "idle_time": phases["idle"],
    }


def _result(run: RLRun, factors: RLFactors) -> RLResult:
    machine, layer_s = central_machine(run.system), load_rl_framework(run.row["framework"]).decode_layer_s
    return estimate_rl(run.scenario, RLMachines(machine, machine, replace(factors, rl_decode_layer_s=layer_s)))


def _explainer(runs: Sequence[RLRun]) -> Callable[[int, str], Explanation | None]:
    """What a predicted step is made of."""

    def explain(index: int, _quantity: str) -> Explanation | None:
        run = runs[index]
        machine, result = central_machine(run.system), _result(run, rl_factors())
        parts = {name: float(part / run.scenario.split.n_gpus) for name, part in result.phases_gpu_s.items()}
        parts = {name: part for name, part in parts.items() if part > 0}
        generation = str(
            np.ravel(decode_bound(run.scenario.engine, run.scenario.sampling, result.generation.live, machine))[0]
        )
        bounds = {name: _BOUNDS.get(name, generation) for name in parts}
        largest = max(parts, key=parts.__getitem__)
        return Explanation("one step, as GPU-time over GPUs", parts, bounds, bounds[largest])

    return explain
