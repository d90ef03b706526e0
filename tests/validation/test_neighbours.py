"""Margins of a search: the law of neighbours' errors covers measured ratios, of models it has not seen too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.physics.parallelism import Layout
from computeledger.validation.serving.neighbours import (
    NeighbourPairs,
    fit_neighbour_errors,
    neighbour_coverage,
    read_neighbour_pairs,
)
from computeledger.validation.serving.points import read_points, sort_points
from computeledger.workloads.serving.margins import (
    better_probability,
    load_neighbour_errors,
    rivals_of,
    student_2_cdf,
)
from computeledger.workloads.serving.search import ServingOption


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
def table(shared_data: Path) -> Path:
    return shared_data / "measured" / "serving_points.csv"


def test_measured_ratios_of_models_left_out_are_covered(table: Path) -> None:
    """Fitted on the other models, 90 % intervals of ratios cover 80 to 98 % (pairs of a model share its error)."""
    families = sorted({one.family for one in sort_points(read_points(table))[0]})[::3]
    law = fit_neighbour_errors(read_neighbour_pairs(table, but=families))
    assert 0.80 < neighbour_coverage(read_neighbour_pairs(table, only=families), law, 0.9) < 0.98


def test_the_shipped_law_holds_on_what_it_was_fitted_to(table: Path) -> None:
    pairs = read_neighbour_pairs(table)
    for level in (0.8, 0.9):
        assert neighbour_coverage(pairs, load_neighbour_errors(), level) == pytest.approx(level, abs=0.06)
