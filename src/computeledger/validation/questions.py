"""Measured rows as questions: what a user would ask, and what was measured of it.

``validate`` predicts thousands of rows in a few vectorised calls; one row asked by itself gets the same prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

import numpy as np

from computeledger.arrays import Num, median
from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import FLOAT_PRECISIONS, PRECISION_BYTES
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import (
    Machine,
    Precision,
    parse_precision,
    parse_training_precision,
)
from computeledger.physics.weights import stored_precision
from computeledger.units import KILO
from computeledger.validation.rl.rows import RLRun
from computeledger.validation.serving.points import Point
from computeledger.validation.serving.predictions import blocks_of
from computeledger.validation.training.sources import TrainingRun
from computeledger.workloads.pretraining.estimate import batch_sequences
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.rl.training import PACK_TOKENS
from computeledger.workloads.rl.weight_sync import sync_mechanism
from computeledger.workloads.serving.estimate import ServingScenario, largest_batch

Run: TypeAlias = "Point | TrainingRun | RLRun"


class UnaskedError(ComputeLedgerError):
    """A row that says more than a question can; its text is what."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A question and what was measured of it, by the name that the answer has for it [SI units]."""

    question: ServeQuestion | PretrainQuestion | RLQuestion
    values: Mapping[str, float]


def measured_question(run: Run) -> Measured:
    """The question that a measured row answers.

    Examples
    --------
    >>> from computeledger.validation.serving.points import sort_points
    >>> from computeledger.validation.measured_table import curated_rows
    >>> points, _ = sort_points([one for one in curated_rows("serving_curated.csv") if one["precision"] == "bf16"])
    >>> one = measured_question(points[0])
    >>> one.question.backend, sorted(one.values)
    ('sglang', ['tpot_s', 'ttft_s'])
    """
    if isinstance(run, Point):
        return _served(run)
    return _trained(run) if isinstance(run, TrainingRun) else _reinforced(run)


def measured_questions(runs: Sequence[Run]) -> tuple[list[Measured], Counter[str]]:
    """The questions of rows, and why the others have none.

    Examples
    --------
    >>> measured_questions([])
    ([], Counter())
    """
    questions: list[Measured] = []
    unasked: Counter[str] = Counter()
    for run in runs:
        try:
            questions.append(measured_question(run))
        except UnaskedError as reason:
            unasked[str(reason)] += 1
    return questions, unasked


def _served(point: Point) -> Measured:
    scenario = blocks_of([point])[0].scenario
    if not isinstance(scenario, ServingScenario):
        raise UnaskedError("two pools as stated; a question has them searched")
    if _one(largest_batch(scenario, Machine(load_system(point.system)))) < point.concurrency:
        raise UnaskedError("requests that wait for memory; a question asks for a batch that fits with all its output")
    held = float(np.max(scenario.input_tokens + scenario.output_tokens))
    longest = point.model.max_context_tokens
    question = ServeQuestion(
        model=_same_model(point.model),
        system=point.system,
        layout=_layout(scenario.layout),
        batch=int(point.concurrency),
        input_tokens=_one(scenario.input_tokens),
        output_tokens=_one(scenario.output_tokens),
        context_tokens=int(np.ceil(held)) if longest and held > longest else None,
        precision=_precision_text(point.model, point.precision),
        kv_precision=point.precision.kv,
        backend=point.backend,
        backend_version=point.month,
        tuning="recipe",
        draft_tokens=_one(scenario.draft_tokens),
        tokens_per_step=_one(scenario.tokens_per_step),
        rounds=int(_one(scenario.rounds)),
    )
    return Measured(question, {f"{name}_s": point.number(f"silicon_{name}_ms") / KILO for name in ("tpot", "ttft")})


def _trained(run: TrainingRun) -> Measured:
    stack = run.stack
    given = ("recipe", "mtp_layers", "tuning", "time_ratio")
    asked = replace(run.framework.stack, **{name: getattr(stack, name) for name in given})
    if stack != asked:
        names = [name for name, value in asdict(stack).items() if value != getattr(asked, name)]
        raise UnaskedError(f"software that no question asks about: {', '.join(names).replace('_', ' ')}")
    if load_system(run.system.id) != run.system:
        raise UnaskedError("a chip of another size or bandwidth than the system's")
    tokens = run.global_sequences * run.sequence_tokens
    counts = (run.virtual_stages, run.microbatch_sequences)
    if batch_sequences(tokens, run.sequence_tokens) != run.global_sequences or any(one % 1 for one in counts):
        raise UnaskedError("a batch or a piece of the pipeline that is no whole number")
    question = PretrainQuestion(
        model=_same_model(run.model),
        system=run.system.id,
        layout=_layout(run.layout),
        precision=_training_precision_text(run.model, run.precision),
        sequence_tokens=run.sequence_tokens,
        global_batch_tokens=tokens,
        microbatch_sequences=int(run.microbatch_sequences),
        virtual_stages=int(run.virtual_stages),
        recompute=run.recompute,
        sharding="zero-3" if run.sharded_weights else "zero-1",
        recipe=stack.recipe,
        mtp_layers=stack.mtp_layers or None,
        framework=run.framework.id,
        tuning=stack.tuning,
    )
    measured = {"step_s": run.step_s, "memory_bytes": run.memory_bytes}
    return Measured(question, {name: value for name, value in measured.items() if np.isfinite(value)})


def _reinforced(run: RLRun) -> Measured:
    one, split, trainer = run.scenario, run.scenario.split, run.scenario.trainer
    if _one(trainer.virtual_stages) != 1 or _one(trainer.pack_tokens) != PACK_TOKENS:
        raise UnaskedError("interleaved stages or packed lengths of the trainer; a question takes the assumed ones")
    if one.algorithm.critic_ratio or one.algorithm.reward_ratio or not np.isfinite(run.step_s):
        raise UnaskedError("a critic's size from the row, or a run without the time of a step")
    question = RLQuestion(
        framework=run.row["framework"],
        weight_sync=sync_mechanism(one.weight_sync, split.is_colocated).id,
        logprob_passes=_one(one.algorithm.logprob_passes),
        model=_same_model(one.engine.model),
        system=run.system.id,
        gpus=int(_one(split.n_gpus)),
        training_gpus=None if split.is_colocated else int(_one(split.n_training)),
        layout=_layout(one.engine.layout),
        training_layout=_layout(trainer.layout),
        precision=_precision_text(one.engine.model, one.engine.precision),
        training_precision=_training_precision_text(one.engine.model, trainer.precision),
        rollout_tokens=_one(one.engine.output_tokens),
        rollout_limit_tokens=median(one.sampling.lengths.longest_tokens),
        prompt_tokens=_one(one.sampling.prompt_tokens),
        prompts_per_step=_one(one.algorithm.prompts_per_step),
        group_size=_one(one.algorithm.group_size),
        sampling_rounds=_one(one.algorithm.sampling_rounds),
        optimizer_steps=_one(one.algorithm.optimizer_steps),
        max_lag=split.max_lag,
        drained=split.max_lag > 0 and not split.is_in_flight,
        live_limit=_one(one.engine.batch),
        recompute=trainer.recompute,
        sharding="zero-3" if trainer.is_sharded else "zero-1",
        packing="padded" if trainer.is_padded else "packed",
        microbatch_sequences=None if trainer.microbatch_sequences is None else int(_one(trainer.microbatch_sequences)),
        memory_fraction=_one(one.engine.host.buffers.whole_fraction) if split.is_colocated else None,
    )
    return Measured(question, {"step_s": run.step_s})


def _one(value: Num) -> float:
    return float(np.ravel(value)[0])


def _layout(layout: Layout) -> str:
    return str(Layout(**{name: int(_one(getattr(layout, name))) for name in ("tp", "pp", "dp", "cp", "ep")}))


def _same_model(model: Model) -> str:
    """The model's id, where it is that model unchanged."""
    if load_model(model.id) != model:
        raise UnaskedError("a model that differs from the one of its id")
    return model.id


def _precision_text(model: Model, precision: Precision) -> str | None:
    """How a question says a precision: none where weights are as stored."""
    if precision == stored_precision(model, precision.kv):
        return None
    for text in PRECISION_BYTES:
        if parse_precision(text, model.is_moe, precision.kv) == precision:
            return text
    raise UnaskedError("formats by kind of weight that no precision names")


def _training_precision_text(model: Model, precision: Precision) -> str:
    for text in FLOAT_PRECISIONS:
        if parse_training_precision(text, model.is_moe) == precision:
            return text
    raise UnaskedError("formats by kind of product that no precision names")
