"""Success against size, thinking tokens and samples: closed forms, limits, published figures, and left-out errors."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.economics.routing.model import RouteModel, RouteTask, Step, Verifier, evaluate_policies
from computeledger.economics.thinking.budget import shipped_lengths
from computeledger.economics.thinking.checked import checked
from computeledger.economics.thinking.interval import half_width, held_fraction
from computeledger.economics.thinking.level import (
    BY_FAMILY,
    Thinker,
    anchored_logit,
    level_logit,
    logit,
    shipped_levels,
    spread_left_out,
)
from computeledger.economics.thinking.measured import measured
from computeledger.economics.thinking.samples import (
    any_right,
    base_samples_ratio,
    correlation_by_kind,
    exponent_ratios,
    likenesses,
    selected_right,
    verified_right,
)
from computeledger.economics.thinking.votes import WrongAnswers, vote_right, wrong_on
from computeledger.questions.answers.think import think
from computeledger.questions.think import ThinkQuestion
from computeledger.questions.wording import point
from computeledger.sources import load_sources

CHANCES = st.floats(0.02, 0.98)


def test_figures_of_the_sources() -> None:
    """Golden values, each where its source prints it; every row names a source of the facts."""
    seen = {(row.source, row.model, row.kind, row.benchmark, row.selection): row.success for row in measured()}
    assert seen["qwen3-report", "Qwen3-8B", "thinking", "aime-2024", "single"] == 0.76  # Table 17
    assert seen["qwen3-report", "Qwen3-8B", "instruct", "aime-2024", "single"] == 0.291  # Table 18
    assert seen["deepseek-r1-report", "DeepSeek-R1-Distill-Qwen-7B", "distilled", "aime-2024", "vote"] == 0.833
    # boinf/jsonl: 80 answers to each of 30 tasks, 1,992 of them right
    assert seen["best-of-infinity", "Qwen3-14B", "thinking", "aime-2024", "single"] == pytest.approx(
        1991 / 2400, abs=1e-3
    )
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
    free = WrongAnswers(20.0)
    assert vote_right(success, correlation, 1, free) == success
    assert vote_right(success, correlation, 16, free) >= success
    # a selector between one that never errs (coverage) and one that takes any (a single answer)
    halfway = selected_right(success, correlation, samples, 0.2, 0.1)
    assert selected_right(success, correlation, samples, 0.0) == pytest.approx(right, abs=1e-6)
    assert selected_right(success, correlation, samples, 1.0) == pytest.approx(success, abs=1e-6)
    assert halfway <= right + 1e-9
    assert selected_right(success, correlation, samples, 0.1, 0.1) >= halfway - 1e-9


@pytest.mark.parametrize(("samples", "choices"), [(4, 0), (16, 0), (32, 0), (32, 3)])
def test_a_vote_against_drawn_votes(samples: int, choices: int) -> None:
    """The law of a vote against answers drawn one by one: chances beta, wrong answers of a Dirichlet process."""
    rng = np.random.default_rng(1)
    success, correlation, diversity, tasks = 0.45, 0.5, 6.0, 10_000
    spread = 1 / correlation - 1
    chance = rng.beta(success * spread, (1 - success) * spread, tasks)
    theta = diversity * (1 - success) * spread
    if choices:
        wrong = rng.dirichlet([theta / choices] * choices, tasks)
    else:
        sticks = rng.beta(1.0, theta, (tasks, 60))
        wrong = sticks * np.cumprod(np.column_stack([np.ones(tasks), 1 - sticks[:, :-1]]), axis=1)
        wrong /= wrong.sum(axis=1, keepdims=True)
    votes = rng.multinomial(samples, np.column_stack([chance, wrong * (1 - chance)[:, None]]))
    best = votes.max(axis=1)
    won = (votes[:, 0] == best) / (votes == best[:, None]).sum(axis=1)
    assert vote_right(success, correlation, samples, WrongAnswers(diversity, choices)) == pytest.approx(
        float(won.mean()), abs=0.01
    )


@given(st.floats(10, 1e6), st.floats(100, 1e5))
def test_lengths_end_at_the_limit(budget: float, mean: float) -> None:
    """No more tokens than the limit or the natural length; a larger limit lets more answers end; no limit, all."""
    law = shipped_lengths()
    assert 0 <= law.used_tokens(budget, mean) <= min(budget, mean) * (1 + 1e-9)
    assert law.finished_fraction(budget, mean) <= law.finished_fraction(2 * budget, mean) <= 1
    assert law.finished_fraction(math.inf, mean) == 1
    assert law.longest_tokens(8, budget, mean) <= budget


def test_left_out_errors() -> None:
    """What the page says: each law within 4 points of figures it has not seen, 5 where nothing is known of a model."""
    bars = {"levels": 0.05, "limits of tokens": 0.011, "limits that cost 5 % or more": 0.03,
            "budgets of closed models": 0.02, "tries until one is right": 0.026, "votes": 0.018}  # fmt: skip
    for one in checked():
        assert one.n >= 15
        assert one.median_error < (0.04 if one.known in ("one figure", "other benchmarks") else bars[one.figures])
        assert 0.89 <= one.held <= 0.94, one


def test_more_of_everything_helps() -> None:
    """Parameters, pretraining tokens and thinking each raise the level; RL makes answers more alike."""
    fit, small = shipped_levels(), Thinker(1e9, 1e9, 10e12, "instruct", 2025.0)
    score = level_logit(fit, small, "aime-2024")
    for better in ({"active": 8e9, "total": 8e9}, {"pretraining_tokens": 36e12}, {"kind": "thinking"}, {"total": 8e9},
                   {"released": 2025.5}):  # fmt: skip
        assert level_logit(fit, dataclasses.replace(small, **better), "aime-2024") > score
    # a figure of its own moves a model towards it, never past it, and more so on tasks of the same field
    spread = spread_left_out(BY_FAMILY)
    law = level_logit(fit, small, "aime-2025")
    near, far = (
        anchored_logit(fit, spread, small, name, [("aime-2024", 0.5)]) for name in ("aime-2025", "gpqa-diamond")
    )
    assert law < near < law + logit(0.5, "aime-2024") - score
    assert 0 < far - level_logit(fit, small, "gpqa-diamond") <= near - law
    assert wrong_on("aime-2024").diversity > wrong_on("gpqa-diamond").diversity > 1
    pairs = {(one.model, one.benchmark): one.correlation for one in likenesses()}
    base = "Qwen3-1.7B-Base"
    for (model, benchmark), alike in pairs.items():
        if model.startswith(base) and model != base:
            assert alike > pairs[base, benchmark]
    assert correlation_by_kind()["base"] < correlation_by_kind()["rl"] < 1


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
    many = think(success=0.9, model=("qwen3-235b-a22b",))  # 64 answers do not fit the batch of the cheapest layout
    assert all(one.fastest_task_s <= one.task_s for one in (*high.options, *many.options))
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


@pytest.mark.parametrize("asked", [
    {}, {"success": 0.99}, {"false_accept": 0.0, "success": 0.75}, {"benchmark": "gpqa-diamond"},
    {"proposer": "qwen3-0.6b", "success": 0.2},
], ids=str)  # fmt: skip
def test_the_working_gives_the_cost_the_success_and_the_time_of_a_task(asked: dict[str, Any]) -> None:
    """Each figure follows from its inputs, and the way shown where none reaches the success is the highest."""
    answer = think(model=("qwen3-4b",), max_samples=8, **asked)
    working = {one["name"]: one for one in answer.to_dict(working=True)["working"]}

    def inputs(name: str) -> dict[str, float]:
        return {term["name"]: point(term["value"]) for term in working[name]["terms"]}

    cost, time, shown = inputs("usd_per_task"), inputs("seconds"), answer.shown
    text = cost["tokens of a task's text"] * cost["price of input"]
    text += cost["tokens of an answer"] * cost["price of output"]
    assert cost["answers"] * text / 1e6 + cost.get("selecting", 0.0) == pytest.approx(shown.usd_per_task, rel=0.02)
    tries = time.get("answers", 1.0) * time["first token"]
    tokens = time.get("tokens of the longest answer", time.get("answers", 1.0) * time.get("tokens of an answer", 0.0))
    assert tries + tokens * time["time per token"] + time.get("selecting", 0.0) == pytest.approx(shown.task_s, rel=0.02)
    if shown.way.samples == 1:
        told = inputs("success")
        if "without thinking" in told:
            gain = told["published success of one answer"] - told["without thinking"]
            reached = told["without thinking"] + gain * told["share that ends in the limit"]
        else:
            reached = next(iter(told.values()))
        assert reached == pytest.approx(shown.way.success)
    assert shown.way.success == (max(one.way.success for one in answer.options) if answer.cheapest is None
                                 else answer.cheapest.way.success)  # fmt: skip
    assert answer.surest is None or answer.surest.way.low >= answer.question.success


def test_answers_side_by_side_share_a_batch() -> None:
    """At the least wait a vote of N costs between once and N times one answer, and more votes add little wait."""
    found = think(model=("qwen3-8b",), max_samples=16)
    ways = [one for one in found.options if one.way.level.kind == "thinking" and math.isinf(one.way.budget_tokens)]
    single = ways[0]
    assert [one.way.samples for one in ways] == [1, 4, 8, 16]
    for less, more in itertools.pairwise(ways):
        assert single.fastest_usd_per_task < more.fastest_usd_per_task
        assert more.fastest_usd_per_task < more.way.samples * single.fastest_usd_per_task / 2
        assert less.fastest_task_s < more.fastest_task_s < 2 * less.fastest_task_s
        assert more.fastest_batch >= more.way.samples
    assert found.cheapest is not None
    for name, value in (("usd_per_task", found.cheapest.usd_per_task), ("seconds", found.cheapest.task_s)):
        ends = found.ranges[name]
        assert float(ends["p05"]) < value < float(ends["p95"])


def test_one_proposes_another_selects() -> None:
    """More proposals succeed more often and cost more; a selector that never errs beats one that does."""
    asked = ThinkQuestion(model=("qwen3-4b",), proposer="qwen3-8b", proposer_success=0.3, max_samples=8)
    ways = [one for one in think(asked).options if one.selector is not None]
    sure = [one for one in think(asked, false_accept=0.0).options if one.selector is not None]
    assert [one.way.samples for one in ways] == [2, 4, 8]
    for less, more in itertools.pairwise(ways):
        assert less.way.success < more.way.success
        assert less.usd_per_task < more.usd_per_task
    assert all(one.way.success >= other.way.success for one, other in zip(sure, ways, strict=True))
    assert sure[-1].way.success == pytest.approx(any_right(0.3, correlation_by_kind()["base"], 8), abs=0.01)


def test_an_interval_holds_groups_that_it_has_not_seen() -> None:
    """Groups that differ want a wider interval than their errors alone; groups alike get nine of ten."""
    rng = np.random.default_rng(3)
    alike = [(f"g{place % 20}", float(error)) for place, error in enumerate(rng.normal(size=2_000))]
    drawn = enumerate(rng.normal(size=500))
    apart = [(f"g{place % 5}", float(error) * (1 + 4 * (place % 5 == 0))) for place, error in drawn]
    assert half_width(alike) == pytest.approx(1.645, rel=0.08)
    assert half_width(apart) > np.quantile(np.abs([error for _, error in apart]), 0.9)
    assert held_fraction(alike) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("success", "correlation", "accepted", "tries"), [(0.4, 0.5, 0.0, 4), (0.7, 0.3, 0.4, 3)])
def test_a_selector_is_the_verifier_of_route(success: float, correlation: float, accepted: float, tries: int) -> None:
    """Selecting among proposals is the best of k that ``route`` prices."""
    model = RouteModel("base", success, 1.0, 1.0, retry_correlation_fraction=correlation)
    task = RouteTask((model,), Verifier(false_accept_fraction=accepted))
    routed = float(evaluate_policies(task, [(Step(0, tries, "best"),)]).success_fraction[0])
    assert selected_right(success, correlation, tries, accepted) == pytest.approx(routed, abs=0.03)


def test_where_no_way_solves_the_wish_the_view_says_the_odds_and_the_headline_has_the_digits_of_the_tile() -> None:
    for wish, said in ((0.9, "About even odds of 90 %"), (0.95, "Less than even odds of 95 %"), (0.995, "No way")):
        view = think(success=wish).view()
        told = view.headline if said == "No way" else view.context
        assert told.replace("\u00a0", " ").startswith(said)
        assert next(one for one in view.tiles if one.label == "Tasks solved").text in view.headline
