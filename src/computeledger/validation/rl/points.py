"""Measured RL steps against the RL model: the schema of ``measured/rl.csv``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from computeledger.arrays import Num, median, sample
from computeledger.physics.calibration.rl import RATIOS, RLFactors, load_rl_factors, rl_factors
from computeledger.validation.compare import Array, Comparison, Explanation
from computeledger.validation.rl.rows import RLRun, central_machine, rl_runs
from computeledger.workloads.rl.confidence import rl_class, rl_ratio_name
from computeledger.workloads.rl.estimate import estimate_rl
from computeledger.workloads.rl.pace import decode_bound
from computeledger.workloads.rl.scenario import RLMachines

#: What binds the phases whose time is not that of a decode step.
_BOUNDS = {"log-probs": "compute", "update": "compute", "weight sync": "network"}
_BOUNDS |= dict.fromkeys(("once per step", "waiting for the longest rollouts", "waiting for verifiers"), "overhead")
_BOUNDS |= dict.fromkeys(("generators waiting", "trainer waiting for rollouts"), "overhead")


def predict_runs(runs: Sequence[RLRun], factors: RLFactors, width: int) -> Array:
    """Predict the step time of configurations.

    Examples
    --------
    >>> predict_runs([], RLFactors(), 3).shape
    (0, 3)
    """
    steps = np.empty((len(runs), width))
    for place, run in enumerate(runs):
        machine = central_machine(run.system)
        steps[place] = estimate_rl(run.scenario, RLMachines(machine, machine, factors)).step_s
    return steps


def compare_rl(rows: Sequence[Mapping[str, str]], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict measured RL steps, with the interval of the class each falls in.

    Examples
    --------
    >>> row = {"model": "nobody", "metric": "step_time", "value": "9", "unit": "s"}
    >>> dict(compare_rl([row]).skipped)
    {'model not known': 1}
    """
    runs, skipped = rl_runs(rows)
    middle = predict_runs(runs, rl_factors(), 1)
    fits = np.isfinite(middle[:, 0])
    if not fits.all():
        skipped["a step that no layout holds"] += int(np.count_nonzero(~fits))
        runs, middle = [run for run, held in zip(runs, fits, strict=True) if held], middle[fits]
    ratios: dict[str, Num] = sample({name: load_rl_factors()[name].value for name in RATIOS}, n_samples, seed)
    predicted = np.empty((len(runs), n_samples))
    kept = []
    for place, run in enumerate(runs):
        one = rl_class(run.scenario.engine.model, run.system.accelerator, median(run.scenario.taken_tokens))
        predicted[place] = middle[place] * ratios[rl_ratio_name(one)]
        kept.append({**run.row, "class": one})
    measured = np.array([run.step_s for run in runs])
    return Comparison(kept, {"step_time": measured}, {"step_time": predicted}, skipped, {}, _explainer(runs))


def _explainer(runs: Sequence[RLRun]) -> Callable[[int, str], Explanation | None]:
    """What a predicted step is made of."""

    def explain(index: int, _quantity: str) -> Explanation | None:
        run = runs[index]
        machine = central_machine(run.system)
        result = estimate_rl(run.scenario, RLMachines(machine, machine, rl_factors()))
        parts = {name: float(part / run.scenario.split.n_gpus) for name, part in result.phases_gpu_s.items()}
        parts = {name: part for name, part in parts.items() if part > 0}
        generation = str(
            np.ravel(decode_bound(run.scenario.engine, run.scenario.sampling, result.generation.live, machine))[0]
        )
        bounds = {name: _BOUNDS.get(name, generation) for name in parts}
        largest = max(parts, key=parts.__getitem__)
        return Explanation("one step, as GPU-time over GPUs", parts, bounds, bounds[largest])

    return explain
