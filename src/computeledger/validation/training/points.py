"""Measured training runs against the training model: the schema of ``measured/training.csv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, sample
from computeledger.physics.calibration.training import TrainingEfficiency, load_training_factors, training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.memory import training_memory
from computeledger.physics.training.step import step_time
from computeledger.validation.compare import Array, Comparison
from computeledger.validation.training.rows import training_runs
from computeledger.validation.training.sources import TrainingRun

_DEGREES = ("tp", "pp", "dp", "cp", "ep")


def _column(runs: Sequence[TrainingRun], values: Sequence[float]) -> Array:
    return np.array(values, float).reshape(len(runs), 1)


def group_runs(runs: Sequence[TrainingRun]) -> list[list[int]]:
    """Group configurations that one vectorised call can predict: they differ in numbers only.

    Examples
    --------
    >>> group_runs([])
    []
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(runs):
        chip = run.system.accelerator
        key = (
            run.model.id,
            run.model.n_layers,
            run.system.id,
            chip.id,
            chip.hbm_bytes_per_s.value,
            chip.chip_tdp_w.value,
            run.system.cross_domain_bytes_per_s_per_gpu,
            run.precision,
            run.recompute,
            run.sharded_weights,
            run.stack,
        )
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def as_batch(run: TrainingRun) -> Batch:
    """What one step of a run sees.

    Examples
    --------
    >>> from computeledger.validation.training.sources import describe_run
    >>> row = {"source": "SimuMax", "model": "llama3_70b truncated to 12 layers", "hardware": "B200", "n_gpus": "8",
    ...        "tp": "2", "pp": "1", "seq_len": "4096", "global_batch_tokens": "65536", "precision": "bf16"}
    >>> as_batch(describe_run(row)).global_sequences
    16.0
    """
    return Batch(
        sequence_tokens=run.sequence_tokens,
        global_sequences=run.global_sequences,
        microbatch_sequences=run.microbatch_sequences,
        recompute=run.recompute,
        virtual_stages=run.virtual_stages,
        sharded_weights=run.sharded_weights,
        stack=run.stack,
    )


def predict_runs(runs: Sequence[TrainingRun], training: TrainingEfficiency, width: int) -> tuple[Array, Array]:
    """Predict step times and peak memory of configurations.

    Examples
    --------
    >>> from computeledger.physics.calibration.training import IDEAL_TRAINING
    >>> predict_runs([], IDEAL_TRAINING, 1)[0].shape
    (0, 1)
    """
    steps, memory = np.empty((len(runs), width)), np.empty((len(runs), 1))
    for places in group_runs(runs):
        members = [runs[place] for place in places]
        first = members[0]
        layout = Layout(
            **{name: _column(members, [float(getattr(one.layout, name)) for one in members]) for name in _DEGREES}
        )
        batch = replace(
            as_batch(first),
            sequence_tokens=_column(members, [one.sequence_tokens for one in members]),
            global_sequences=_column(members, [one.global_sequences for one in members]),
            microbatch_sequences=_column(members, [one.microbatch_sequences for one in members]),
            virtual_stages=_column(members, [one.virtual_stages for one in members]),
        )
        machine = Machine(first.system, training=training)
        step = step_time(first.model, batch, layout, first.precision, machine).step_s
        steps[places] = np.broadcast_to(step, (len(places), width))
        beside = _column(members, [one.beside_bytes for one in members])
        memory[places] = training_memory(first.model, batch, layout).total_bytes + beside
    return steps, memory


def compare_training(rows: Sequence[Mapping[str, str]], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict measured training runs, with intervals of the class each falls in.

    Examples
    --------
    >>> row = {"source": "x", "model": "nobody", "metric": "MFU", "value": "40"}
    >>> dict(compare_training([row]).skipped)
    {'model not known': 1}
    """
    runs, skipped = training_runs(rows)
    factors = {f"efficiency.{name}": factor.value for name, factor in load_training_factors().items()}
    draws: dict[str, Num] = sample(factors, n_samples, seed)
    training = training_efficiency(draws=draws)
    steps, memory = predict_runs(runs, training, n_samples)
    accounted = np.array([one.is_accounted for one in runs], bool).reshape(-1, 1)
    memory = memory * np.where(accounted, training.training_memory_ratio, training.training_memory_other_ratio)
    return Comparison(
        rows=[run.row for run in runs],
        measured={
            "step_time": np.array([run.step_s for run in runs]),
            "memory": np.array([run.memory_bytes for run in runs]),
        },
        predicted={"step_time": steps, "memory": memory},
        skipped=skipped,
        units={"step_time": "s", "memory": "B"},
    )
