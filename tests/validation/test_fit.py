"""The fit: recovers known constants, survives wrong measurements, and the shipped calibration is what it claims."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import QuantityError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency, load_factors
from computeledger.physics.calibration.serving import calibrated_engines, load_calibration
from computeledger.physics.calibration.training import TrainingEfficiency
from computeledger.validation.conformal import conformal_ratios, variance_parts
from computeledger.validation.fit import Fit, cross_validate, fit_constants, linear_at
from computeledger.validation.rl.fit import rl_fit
from computeledger.validation.serving.elsewhere import Elsewhere, read_elsewhere
from computeledger.validation.serving.fit import Name, engines_of, names_to_fit, serving_fit, shipped_change
from computeledger.validation.serving.points import read_points, sort_points
from computeledger.validation.training.constants import Problem
from computeledger.workloads.serving.intervals import (
    CHIP,
    CHIP_POOLS,
    CHIP_SPREAD,
    KNOWN,
    NEW,
    POOLS,
    SPREAD,
    USUAL,
    USUAL_POOLS,
    USUAL_SPREAD,
    interval_class,
    interval_of,
)

POINTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured" / "serving_points.csv"


def power_law(noise: np.ndarray, sd: float = 1.0) -> tuple[Fit, np.ndarray]:
    """Y = a x^b with a = 2, b's constant c = 3 as an additive part; noise in log."""
    x = np.geomspace(1, 1000, len(noise))
    truth = np.log(2.0 * x + 3.0) + noise

    def residuals(changes: np.ndarray) -> np.ndarray:
        a, c = 1.5 * np.exp(changes[:, 0]), 2.0 * np.exp(changes[:, 1])
        return np.asarray(np.log(a * x[:, None] + c) - truth[:, None])

    return Fit(residuals, np.full(len(x), 0.1), np.ones(len(x)), np.full(2, sd)), truth


def test_constants_are_recovered_despite_wrong_measurements() -> None:
    noise = np.zeros(60)
    noise[::10] = np.log(5.0)
    found = fit_constants(power_law(noise)[0])
    assert 1.5 * np.exp(found.change[0]) == pytest.approx(2.0, rel=0.01)
    assert 2.0 * np.exp(found.change[1]) == pytest.approx(3.0, rel=0.05)


def test_the_prior_holds_what_the_data_do_not_say() -> None:
    fit, _ = power_law(np.zeros(60))
    blind = fit_constants(fit.without(np.ones(60, bool)))
    assert blind.change == pytest.approx(np.zeros(2), abs=1e-9)
    assert blind.sd == pytest.approx(fit.prior_sd)


def test_cross_validation_never_sees_its_fold() -> None:
    noise = np.repeat([0.0, 0.0, 0.4], 20)
    fit, _ = power_law(noise)
    folds = np.repeat([0, 1, 2], 20)
    left_out = cross_validate(fit, folds, np.zeros(2))
    seen = fit.residuals(fit_constants(fit).change[None, :])[:, 0]
    assert np.median(np.abs(left_out[folds == 2])) > np.median(np.abs(seen[folds == 2]))


def test_what_an_executor_leaves_out_is_what_this_process_does() -> None:
    fit, _ = power_law(np.repeat([0.0, 0.1, 0.4], 20))
    folds = np.repeat([0, 1, -1], 20)
    here = cross_validate(fit, folds, np.zeros(2))
    with ThreadPoolExecutor(2) as pool:
        assert np.array_equal(cross_validate(fit, folds, np.zeros(2), pool), here, equal_nan=True)


@pytest.mark.parametrize(
    "stated",
    [
        lambda: rl_fit([]),
        lambda: serving_fit([], [Name("host_step_s", "vllm")], Elsewhere([], [])),
        lambda: Problem([], TrainingEfficiency()).fit(),
        lambda: linear_at(power_law(np.zeros(60))[0], np.zeros(2)),
    ],
    ids=["rl", "serving", "training", "linear"],
)
def test_a_fit_can_be_sent_to_another_process(stated: Callable[[], Fit]) -> None:
    fit = stated()
    change = np.full((2, len(fit.prior_sd)), 0.1)
    sent = pickle.loads(pickle.dumps(fit))  # noqa: S301 - our own
    assert np.array_equal(sent.residuals(change), fit.residuals(change))


def test_a_constant_stays_at_its_highest_value_and_folds_move_it_from_there() -> None:
    fit, _ = power_law(np.zeros(60))
    capped = replace(fit, highest=np.array([np.log(1.8 / 1.5), np.inf]))
    held = fit_constants(capped, np.array([1.0, 0.0])).change
    assert 1.5 * np.exp(held[0]) == pytest.approx(1.8)
    lower, _ = power_law(np.full(60, np.log(0.5)))
    moved = fit_constants(replace(lower, highest=capped.highest), held).change
    assert 1.5 * np.exp(moved[0]) == pytest.approx(1.0, rel=0.02)


def test_conformal_intervals_cover_new_draws() -> None:
    rng = np.random.default_rng(1)
    low, inner_low, middle, inner_high, high = conformal_ratios(rng.standard_t(3, 500) * 0.1)
    new = np.exp(-rng.standard_t(3, 100_000) * 0.1)
    assert 0.88 < np.mean((low < new) & (new < high)) < 0.93
    assert 0.77 < np.mean((inner_low < new) & (new < inner_high)) < 0.85
    assert middle == pytest.approx(1.0, abs=0.02)
    with pytest.raises(QuantityError, match="at least"):
        conformal_ratios(np.zeros(3))
    assert variance_parts(np.zeros(12), np.repeat([0, 1, 2], 4)) == (0.0, 0.0)


def test_shipped_constants_are_few_and_no_peak_is_exceeded() -> None:
    fit = load_calibration()
    assert len(fit.constants) <= 70
    for one in fit.constants:
        assert 0 < one.sd <= one.prior_sd * 1.01, one.name
        assert "fraction" not in one.name or one.value <= 1
        assert abs(np.log(one.value / one.prior)) < 4 * one.prior_sd, one.name
    for engine in calibrated_engines():
        assert {factor.kind for factor in load_factors(engine).values()} == {"calibration", "assumption"}


def test_intervals_widen_with_distance() -> None:
    widths = [interval_of(name).tpot for name in (KNOWN, NEW, USUAL)]
    spans = [one.high / one.low for one in widths]
    assert spans == sorted(spans)
    deepseek = load_model("deepseek-v3")
    nvl72, nvl8 = load_system("gb200-nvl72"), load_system("h100-nvl8")
    for tuning, pools, spread in (("recipe", POOLS, SPREAD), ("usual", USUAL_POOLS, USUAL_SPREAD)):
        assert interval_class(deepseek, "fp8", nvl72, "sglang", "disaggregated", tuning) == pools
        assert interval_class(deepseek, "fp8", nvl8, "sglang", "spread", tuning) == spread
    wide, new = interval_of(SPREAD), interval_of(NEW)
    assert (wide.tpot, wide.ttft) == (interval_of(POOLS).tpot, new.ttft)
    for name, near in ((CHIP, NEW), (CHIP_POOLS, POOLS), (CHIP_SPREAD, SPREAD), (USUAL, NEW), (USUAL_POOLS, POOLS)):
        strange, sure = interval_of(name), interval_of(near)
        assert strange.tpot.low <= sure.tpot.low and sure.tpot.high < strange.tpot.high, name
    for kind, name in (("aggregated", CHIP), ("disaggregated", CHIP_POOLS), ("spread", CHIP_SPREAD)):
        for system in ("tpu-v6e-pod", "trn2-ultra-64", "mi355x-8"):
            assert interval_class(deepseek, "fp8", load_system(system), "sglang", kind) == name
    for tuning in ("usual", "recipe"):  # several sources measured it, no recipe did
        assert interval_class(deepseek, "fp8", load_system("a100-nvl8"), "sglang", tuning=tuning) == USUAL


@pytest.mark.skipif(not POINTS.exists(), reason="the measured serving points lie beside the project")
def test_the_shipped_constants_are_a_minimum_of_the_fit() -> None:
    """No small step in any constant lowers the loss by more than rounding: the file is what the fit gives."""
    points = [one for one in sort_points(read_points(POINTS))[0] if one.kind != "incomplete"]
    names = names_to_fit()
    others = read_elsewhere(POINTS.parent)
    fit = serving_fit(points, names, others)
    change = shipped_change(names, others)
    steps = np.vstack([change, *(change + sign * 0.02 * np.eye(len(change)) for sign in (1, -1))])
    residuals = fit.residuals(steps)
    loss = fit.weights @ np.log1p((residuals / fit.scales[:, None]) ** 2) + np.sum((steps / fit.prior_sd) ** 2, axis=1)
    assert loss[0] - loss.min() < 2.0
    limit = engines_of(names, change[None, : len(names)])["vllm"]
    assert np.all(np.asarray(limit.gemm_fraction_bf16) <= 1)
    assert efficiency("vllm", tuning="recipe").host_step_s == pytest.approx(float(limit.host_step_s[0]), rel=1e-3)
