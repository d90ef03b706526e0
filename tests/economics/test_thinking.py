"""Success against size, thinking tokens and samples: closed forms, limits, published figures, and left-out errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.economics.thinking.budget import budgets_left_out, closed_left_out, shipped_lengths
from computeledger.economics.thinking.level import (
    Thinker,
    held_90_fraction,
    level_logit,
    levels_left_out,
    shipped_levels,
)
from computeledger.economics.thinking.measured import measured
from computeledger.economics.thinking.samples import (
    any_right,
    base_samples_ratio,
    correlation_by_kind,
    exponent_ratios,
    likenesses,
    tries_left_out,
    verified_right,
    vote_right,
    votes_left_out,
)
from computeledger.questions.answers.think import think
from computeledger.questions.think import ThinkQuestion
from computeledger.sources import load_sources

CHANCES = st.floats(0.02, 0.98)


def test_figures_of_the_sources() -> None:
    """Golden values, each where its source prints it; every row names a source of the facts."""
    seen = {(row.source, row.model, row.kind, row.benchmark, row.selection): row.success for row in measured()}
    assert seen["qwen3-report", "Qwen3-8B", "thinking", "aime-2024", "single"] == 0.76  # Table 17
    assert seen["qwen3-report", "Qwen3-8B", "instruct", "aime-2024", "single"] == 0.291  # Table 18
    assert seen["deepseek-r1-report", "DeepSeek-R1-Distill-Qwen-7B", "distilled", "aime-2024", "vote"] == 0.833
    assert seen["test-time-scaling-1b-405b", "Llama-3.2-1B-Instruct", "instruct", "math-500", "vote"] == 0.39
    assert {row.source for row in measured()} <= set(load_sources())


@given(CHANCES, st.floats(0.05, 0.95), st.integers(1, 64))
def test_samples_by_simulation_and_in_the_limits(success: float, correlation: float, samples: int) -> None:
    """Coverage and tries agree with drawn chances; alike answers gain nothing; more samples never lose."""
    covered = any_right(success, correlation, samples)
    assert success - 1e-9 <= covered <= 1 - (1 - success) ** samples + 1e-9
    assert covered <= any_right(success, correlation, samples + 1) + 1e-12
    right, tries = verified_right(success, correlation, samples, 0.0)
    assert right == pytest.approx(covered, abs=0.02)
    assert 1 - 1e-9 <= tries <= samples
    assert verified_right(success, correlation, samples, 1.0)[0] == pytest.approx(success, abs=1e-6)
    assert vote_right(success, correlation, 1, 0.2) == success
    assert vote_right(success, correlation, 2, 0.2) == pytest.approx(success, abs=1e-6)


@pytest.mark.parametrize("samples", [4, 16, 32])
def test_a_vote_against_drawn_votes(samples: int) -> None:
    """The law of a vote against votes drawn one by one, wrong answers tied as the law says."""
    rng = np.random.default_rng(1)
    success, correlation, tied = 0.45, 0.5, 0.3
    spread = 1 / correlation - 1
    chance = rng.beta(success * spread, (1 - success) * spread, 40_000)
    rival = tied * (1 - chance)
    votes = rng.multinomial(samples, np.column_stack([chance, rival, 1 - chance - rival]))
    ours, best = votes[:, 0], np.maximum(votes[:, 1], votes[:, 2] > 0)
    level = (votes[:, 1] == ours).astype(int) + np.where(ours == 1, votes[:, 2], 0)
    won = np.mean((ours > 0) * (ours >= best) / (1 + level))
    assert vote_right(success, correlation, samples, tied) == pytest.approx(float(won), abs=0.01)


@given(st.floats(10, 1e6), st.floats(100, 1e5))
def test_lengths_end_at_the_limit(budget: float, mean: float) -> None:
    """No more tokens than the limit or the natural length; a larger limit lets more answers end; no limit, all."""
    law = shipped_lengths()
    assert 0 <= law.used_tokens(budget, mean) <= min(budget, mean) * (1 + 1e-9)
    assert law.finished_fraction(budget, mean) <= law.finished_fraction(2 * budget, mean) <= 1
    assert law.finished_fraction(math.inf, mean) == 1
    assert law.longest_tokens(8, budget, mean) <= budget


def test_left_out_errors() -> None:
    """What the page says: thinking curves, levels, tries; the 90 % interval of levels holds nine of ten."""
    for by in ("model", "benchmark"):
        rows = budgets_left_out(by)
        cut = [abs(error) for _, error, _, left in rows if left < 0.95]
        assert np.median([abs(row[1]) for row in rows]) < 0.011
        assert np.median(cut) < 0.03
    closed = [abs(error) for _, _, error in closed_left_out()]
    assert len(closed) >= 15
    assert np.median(closed) < 0.02
    alone, beside = (levels_left_out(is_known_elsewhere=known) for known in (False, True))
    assert np.median([abs(one.error) for one in alone]) < 0.052
    assert np.median([abs(one.error) for one in beside]) < 0.033
    assert 0.87 <= held_90_fraction(alone) <= 0.93
    assert np.median([abs(error) for _, error in tries_left_out()]) < 0.026
    assert np.median([abs(error) for _, error in votes_left_out()]) < 0.08


def test_more_of_everything_helps() -> None:
    """Parameters, pretraining tokens and thinking each raise the level; RL makes answers more alike."""
    fit, small = shipped_levels(), Thinker(1e9, 1e9, 10e12, "instruct")
    score = level_logit(fit, small, "aime-2024")
    for better in (Thinker(8e9, 8e9, 10e12, "instruct"), Thinker(1e9, 1e9, 36e12, "instruct"),
                   Thinker(1e9, 1e9, 10e12, "thinking"), Thinker(1e9, 8e9, 10e12, "instruct")):  # fmt: skip
        assert level_logit(fit, better, "aime-2024") > score
    pairs = {(one.model, one.benchmark): one.correlation for one in likenesses()}
    base = "Qwen3-1.7B-Base"
    for (model, benchmark), alike in pairs.items():
        if model.startswith(base) and model != base:
            assert alike > pairs[base, benchmark]
    assert correlation_by_kind()["base"] < correlation_by_kind()["rl"]


def test_submissions_in_samples_of_the_base() -> None:
    """200 times the submissions are 200 times the base's samples where RL changed nothing, and 4 at 0.26."""
    assert base_samples_ratio(10_000, 50, -0.4, -0.4) == pytest.approx(200)
    assert base_samples_ratio(10_000, 50, -0.4, -0.4 * math.log(4) / math.log(200)) == pytest.approx(4)
    assert all(0.26 < ratio <= 1.01 for _, _, ratio in exponent_ratios())


def test_more_success_costs_no_less() -> None:
    """The question end to end: dearer for more success, a verifier beats a vote, numbers stand for a model."""
    asked = ThinkQuestion(model=("qwen3-4b", "qwen3-30b-a3b"), max_samples=8)
    low, high = (think(asked, success=share) for share in (0.5, 0.8))
    assert low.cheapest is not None and high.cheapest is not None and high.fastest is not None
    assert low.cheapest.usd_per_task < high.cheapest.usd_per_task
    assert high.fastest.fastest_task_s <= min(one.fastest_task_s for one in high.reaching)
    assert all(one.way.low <= one.way.success <= one.way.high for one in high.options)
    assert [one.way.success for one in high.front] == sorted(one.way.success for one in high.front)
    measured_level = max(one.way.success for one in low.options if one.way.selection == "single")
    assert measured_level == 0.804  # Qwen3-30B-A3B, thinking, without a limit: Table 15
    checked = think(asked, success=0.8, false_accept=0.0)
    assert checked.cheapest is not None and checked.cheapest.usd_per_task <= high.cheapest.usd_per_task
    free, sloppy = (think(success=0.5, model=("9B-A9B",), false_accept=wrong, max_samples=8) for wrong in (0.0, 0.5))
    best = [max(one.way.success for one in answer.options) for answer in (free, sloppy)]
    assert best[0] > best[1]
    assert think(success=0.99, model=("qwen3-0.6b",), max_samples=4).cheapest is None
