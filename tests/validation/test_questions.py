"""A measured row is a question: asked by itself it gets the prediction that ``validate`` gives it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from computeledger.arrays import median
from computeledger.physics.calibration.efficiency import efficiency, median_of
from computeledger.physics.calibration.rl import rl_factors
from computeledger.physics.calibration.training import load_training_factors, training_efficiency
from computeledger.physics.roofline import Machine, Precision
from computeledger.questions.answers.pretraining.setting import read_setting as read_pretraining
from computeledger.questions.answers.rl.setting import read_setting as read_rl
from computeledger.questions.answers.serving.answer import answer_one_pool
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.questions import UnaskedError, measured_question, measured_questions
from computeledger.validation.rl import points as rl_points
from computeledger.validation.rl.beta import CURATED_RL
from computeledger.validation.rl.rows import rl_runs
from computeledger.validation.serving.points import NEEDED, ROUNDS_OF_A_RUN, Point, sort_points
from computeledger.validation.serving.predictions import blocks_of, predict_blocks
from computeledger.validation.training import points as training_points
from computeledger.validation.training.rows import read_training_table, training_runs
from computeledger.validation.training.sources import TrainingRun
from computeledger.workloads.pretraining.estimate import estimate_pretraining
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.rl.estimate import estimate_rl
from computeledger.workloads.serving.estimate import estimate_serving

TABLE = Path(os.environ.get("COMPUTELEDGER_DATA", "../shared/data")) / "measured" / "training.csv"
POINTS = [one for one in sort_points(curated_rows("serving_curated.csv"))[0] if measured_questions([one])[0]][::9]


@pytest.mark.parametrize("point", POINTS, ids=lambda one: one.run)
def test_a_serving_point(point: Point) -> None:
    """With equal factors the same to rounding; the interval's ratio moves a wait for prompts by its own share."""
    asked = measured_question(point)
    assert isinstance(asked.question, ServeQuestion)
    answer = answer_one_pool(asked.question)
    central = efficiency(
        point.backend, {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}, 0.0, "recipe"
    )
    predicted = [one[0, 0] for one in predict_blocks(blocks_of([point]), {point.backend: central}, 1)]
    result = estimate_serving(answer.setting.at_median, Machine(answer.setting.system, central.after(point.years)))
    assert [float(result.tpot_s), float(result.ttft_s)] == pytest.approx(predicted, rel=1e-6)
    interval = answer.setting.interval
    assert interval is not None
    shifted = [predicted[0] * median_of(interval.tpot), predicted[1] * median_of(interval.ttft)]
    assert [answer.chosen.tpot_s, answer.chosen.ttft_s] == pytest.approx(shifted, rel=1e-3)
    assert asked.values["tpot_s"] == pytest.approx(float(point.row["silicon_tpot_ms"]) / 1000)


def test_an_rl_step() -> None:
    runs = [one for one in rl_runs(curated_rows(CURATED_RL))[0] if measured_questions([one])[0]]
    assert len(runs) >= 5
    for run in runs:
        asked = measured_question(run)
        assert isinstance(asked.question, RLQuestion)
        setting = read_rl(asked.question)
        predicted = rl_points.predict_runs([run], rl_factors(), 1)[0, 0]
        answered = median(estimate_rl(setting.run.typical, setting.run.typical_machines).step_s)
        assert answered == pytest.approx(predicted, rel=1e-6)


def check_training(run: TrainingRun) -> None:
    """The same at the factors of training alone, for software that the calibration has seen.

    The answer takes the floors and shares of all-to-all traffic from the serving engine too, which moves models with
    experts by up to 2 %; the fit of training, and ``validate``, do not.
    """
    asked = measured_question(run)
    assert isinstance(asked.question, PretrainQuestion)
    setting = read_pretraining(asked.question)
    medians = {f"efficiency.{name}": median_of(one.value) for name, one in load_training_factors().items()}
    predicted = training_points.predict_runs([run], training_efficiency(draws=medians), 1)[0][0, 0]
    seen = replace(setting.scenario, batch=replace(setting.scenario.batch, stack=run.stack))
    result = estimate_pretraining(seen, Machine(setting.typical.system, training=setting.typical.training))
    assert median(result.step_s) == pytest.approx(predicted, rel=1e-6)
    answered = median(estimate_pretraining(setting.scenario, setting.typical).step_s)
    assert answered == pytest.approx(predicted, rel=2e-2 if run.model.is_moe else 1e-3)


@pytest.mark.skipif(not TABLE.is_file(), reason="the folder of measurements is not here")
def test_training_runs() -> None:
    runs = [one for one in training_runs(read_training_table(TABLE))[0] if measured_questions([one])[0]]
    assert len(runs) > 100
    for run in runs[::5]:
        check_training(run)


def test_a_row_that_says_more_than_a_question_says_what() -> None:
    """Pools are searched, waiting requests do not fit, and formats by kind of weight have no name."""
    points = sort_points(curated_rows("serving_curated.csv"))[0]
    asked, unasked = measured_questions(points)
    assert len(asked) + sum(unasked.values()) == len(points)
    assert len(asked) > 90
    pools = next(one for one in points if one.kind == "disaggregated")
    with pytest.raises(UnaskedError, match="two pools"):
        measured_question(pools)
    assert np.isfinite([value for one in asked for value in one.values.values()]).all()


def test_pools_are_asked_as_their_release_was_launched() -> None:
    """The record names attention-DP ranks with undivided experts: spread over a wide pool, none on a node."""
    row = dict.fromkeys(NEEDED, "") | {
        "model_path": "deepseek-ai/DeepSeek-R1", "system": "gb200", "backend": "sglang", "mode": "disagg",
        "backend_version": "0.5.5.post2", "isl": "1024", "osl": "1024", "gemm_quant_mode": "fp8_block",
        "moe_quant_mode": "fp8_block", "silicon_ttft_ms": "900", "silicon_tpot_ms": "20", "prefill_num_workers": "1",
        "decode_num_workers": "1", "prefill_tp_size": "1", "prefill_attention_dp_size": "8", "prefill_moe_ep_size": "1",
        "decode_tp_size": "1", "decode_attention_dp_size": "32", "decode_moe_ep_size": "1",
        "silicon_data_source": "silicon_concurrency=512",
    }  # fmt: skip
    names = [
        f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("tp_size", "attention_dp_size", "moe_ep_size")
    ]
    node = {"prefill_attention_dp_size": "4", "decode_attention_dp_size": "4"}
    for changes, expected in (
        ({}, [1, 8, 8, 1, 32, 32]),
        (node, [4, 1, 1, 4, 1, 1]),
        ({"backend_version": "0.5.8"}, [1, 8, 1, 1, 32, 1]),
    ):
        (point,), skipped = sort_points([row | changes])
        assert not skipped
        assert [point.number(name) for name in names] == expected


def test_rounds_of_equal_lengths_start_together() -> None:
    row = {"silicon_data_source": "source_file=/data/h100_sxm/sglang/0.5.1.post1/one.csv"}
    points = [Point(one, None, "", "sglang", Precision(), "aggregated", 8.0, 1.0, False) for one in (row, {})]  # type: ignore[arg-type]
    assert [one.rounds for one in points] == [1.0, ROUNDS_OF_A_RUN]
