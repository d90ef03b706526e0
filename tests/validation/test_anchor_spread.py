"""How far a measurement holds: the fit finds spreads it was given, and what is shipped holds on sources left out."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.physics.calibration.anchors import load_anchor_calibration
from computeledger.questions.answers.fit import fit
from computeledger.questions.answers.validate import validate
from computeledger.validation.serving.anchor_gain import RunPoint, pairs_of, summarized
from computeledger.validation.serving.anchor_spread import (
    OPEN_TABLE,
    QUANTITIES,
    calibration_text,
    fit_anchors,
    left_out_gain,
    spread_of,
)
from computeledger.validation.serving.open_points import run_of
from computeledger.workloads.serving.anchor_fit import MeasuredRatio

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CLASS = "engine never fitted"


def deployments(n: int, slope_sd: float, seed: int = 0) -> dict[str, list[RunPoint]]:
    """Deployments of several sources whose residuals are drawn from the model itself."""
    rng = np.random.default_rng(seed)
    out = {}
    for index in range(n):
        level, slope = rng.normal(0.0, 0.4), rng.normal(0.0, slope_sd)
        places = [(batch, 1024.0) for batch in (1.0, 8.0, 64.0)]
        logs = [level + slope * (math.log2(batch) - 3) + rng.normal(0.0, 0.066) for batch, _ in places]
        points = [MeasuredRatio(math.exp(log), *place) for log, place in zip(logs, places, strict=True)]
        out[f"run {index}"] = [RunPoint(f"source {index % 5}", CLASS, point) for point in points]
    return out


@pytest.mark.parametrize("slope_sd", [0.06, 0.12])
def test_the_fit_finds_the_spreads_that_the_points_were_drawn_with(slope_sd: float) -> None:
    found = spread_of(deployments(200, slope_sd), "tpot")
    assert found.between_sd == pytest.approx(0.4, rel=0.25)
    assert found.per_batch_doubling_sd == pytest.approx(slope_sd, rel=0.5)
    assert 1.3 < found.tails[3] < 2.6 and -2.6 < found.tails[0] < -1.3


def test_sources_left_out_are_held_as_often_as_the_interval_promises() -> None:
    found = left_out_gain(deployments(100, 0.1), "tpot")
    assert 0.82 < found.coverage_90 < 0.97
    assert found.after < 0.8 * found.before


def test_the_middle_load_is_the_anchor_and_every_run_counts_once() -> None:
    runs = deployments(1, 0.0)
    pairs = pairs_of(runs, "tpot")
    assert len(pairs) == 6 and sum(one.is_middle for one in pairs) == 2
    assert sum(one.weight for one in pairs) == pytest.approx(3.0)
    assert summarized(pairs, 1).n == 2


def test_a_deployment_is_told_by_what_its_rows_share() -> None:
    row = {"source": "a", "model": "m", "layout": "tp8", "statistic": "mean", "concurrency": "8", "note": "x"}
    assert run_of(row) == run_of({**row, "concurrency": "64", "note": "y"})
    assert len({run_of({**row, **change}) for change in ({}, {"layout": "tp4"}, {"static_batch": "8"})}) == 3


def test_the_shipped_table_says_what_one_measurement_is_worth() -> None:
    gains = validate(data="serving_elsewhere.csv", samples=32).to_dict()["rows"]["anchors"]
    for name, most, narrowest in (("tpot", 0.20, 0.70), ("ttft", 0.30, 0.75)):
        assert gains[name]["after"] < min(most, 0.75 * gains[name]["before"])
        assert gains[name]["coverage_90"] > narrowest


def test_a_fit_without_residuals_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        fit(what="anchors", data=str(tmp_path))


@pytest.mark.stress
@pytest.mark.skipif(not (DATA / OPEN_TABLE).exists(), reason="the gathered figures lie beside the project")
def test_the_shipped_spreads_are_near_what_the_fit_gives() -> None:
    made = fit_anchors(DATA, quick=True)
    for name in QUANTITIES:
        shipped, found = load_anchor_calibration().spreads[name], made.spreads[name]
        for part in ("between_sd", "scatter_sd", "per_batch_doubling_sd", "per_input_doubling_sd"):
            assert getattr(found, part) == pytest.approx(getattr(shipped, part), rel=0.5), (name, part)
    with pytest.raises(InputError, match="sources were not left out"):
        calibration_text(made)
