"""Margins of a search: the law of neighbours' errors covers measured ratios, of models it has not seen too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.physics.parallelism import Layout
from computeledger.validation.compare import Comparison
from computeledger.validation.neighbours import (
    NeighbourPairs,
    fit_neighbour_errors,
    neighbour_coverage,
    neighbour_pairs,
)
from computeledger.validation.serving_points import compare_serving, read_points
from computeledger.workloads.serving_margins import (
    better_probability,
    load_neighbour_errors,
    rivals_of,
    student_2_cdf,
)
from computeledger.workloads.serving_search import ServingOption


def option(layout: Layout, rate: float, batch: int = 64) -> ServingOption:
    return ServingOption(layout, batch, 0.02, 1.0, rate, 1.0, 1.0, 1.0)


def test_probability_against_sampling() -> None:
    """The closed form against a million draws of the error itself."""
    winner, rival = option(Layout(tp=8), 100.0), option(Layout(tp=4), 93.0, 128)
    errors = load_neighbour_errors()
    draws = np.random.default_rng(1).standard_t(2, 1_000_000) * errors.scale(1.0, 1.0)
    expected = np.mean(np.log(93 / 100) + draws > 0)
    assert better_probability(winner, [rival])[0] == pytest.approx(expected, abs=2e-3)


def test_neighbours_are_told_apart_better_than_strangers() -> None:
    winner = option(Layout(tp=8), 100.0)
    near, far = better_probability(winner, [option(Layout(tp=8), 90.0, 90), option(Layout(tp=1, dp=8, ep=8), 90.0)])
    assert near < far < 0.5
    assert better_probability(winner, [winner])[0] == 0.5


def test_rivals_are_the_best_of_other_layouts() -> None:
    winner = option(Layout(tp=8), 100.0)
    rivals = rivals_of(
        winner, [winner, option(Layout(tp=8), 99.0, 32), option(Layout(tp=4), 80.0), option(Layout(tp=4), 95.0)]
    )
    assert [(str(one.option.layout), one.throughput_ratio) for one in rivals] == [("tp4", 0.95)]
    assert rivals_of(winner, [winner]) == []


def test_quantiles_of_student_2() -> None:
    """T of two degrees: 4.30265 is its 97.5 % quantile (any statistical table)."""
    assert student_2_cdf(4.30265) == pytest.approx(0.975, abs=1e-6)
    assert student_2_cdf(np.inf) == pytest.approx(1.0)


def test_a_fit_needs_pairs() -> None:
    with pytest.raises(InputError, match="at least 50"):
        fit_neighbour_errors(NeighbourPairs(np.ones(3), np.ones(3), np.ones(3)))


@pytest.fixture(scope="module")
def measured(shared_data: Path) -> Comparison:
    return compare_serving(read_points(shared_data / "measured" / "serving_points.csv"), n_samples=2)


def pairs_of(measured: Comparison, chosen: np.ndarray) -> NeighbourPairs:
    predicted = np.sqrt(np.prod(measured.predicted["tpot"], axis=1))
    residual = np.log(measured.measured["tpot"] / predicted)
    rows = [row for row, used in zip(measured.rows, chosen, strict=True) if used]
    return neighbour_pairs(rows, residual[chosen])


def test_measured_ratios_of_models_left_out_are_covered(measured: Comparison) -> None:
    """Fitted on the other models, 90 % intervals of ratios cover 80 to 98 % (pairs of a model share its error)."""
    models = sorted({row["model_path"] for row in measured.rows})
    out = np.array([row["model_path"] in models[::3] for row in measured.rows])
    law = fit_neighbour_errors(pairs_of(measured, ~out))
    assert 0.80 < neighbour_coverage(pairs_of(measured, out), law, 0.9) < 0.98


def test_the_shipped_law_holds_on_what_it_was_fitted_to(measured: Comparison) -> None:
    pairs = pairs_of(measured, np.ones(len(measured.rows), bool))
    for level in (0.8, 0.9):
        assert neighbour_coverage(pairs, load_neighbour_errors(), level) == pytest.approx(level, abs=0.06)
