"""Rewards by hand, what cancels in them, and what a missing or useless one does to the advantages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from computeledger.errors import InputError
from rntp.recipe import REWARDS as NAMED
from rntp.reward import (
    REWARDS,
    GoldScores,
    RewardOptions,
    advantages,
    scored_mask,
    with_truncation,
    without_idle_groups,
)

TEXTS = ("ab", " c", " cd", "x", " d")
HALF, QUARTER = np.log(0.5), np.log(0.25)


def scores() -> GoldScores:
    """Three thoughts on the gold ``ab| c| d``: right throughout; right by text until the end; wrong at once."""
    gold = np.array([[0, 1, 4]] * 3)
    likely = np.array([[0, 1, 4], [0, 2, 4], [3, 1, 4]])
    return GoldScores(
        gold_ids=gold,
        log_probs=np.array([[HALF, HALF, HALF], [HALF, QUARTER, HALF], [QUARTER, HALF, HALF]]),
        baseline_log_probs=np.full((3, 3), QUARTER),
        entropies=np.array([[3.0, 0.0, 0.0]] * 3),
        argmax_ids=likely,
        mask=np.ones((3, 3), dtype=bool),
        decode=lambda ids: "".join(TEXTS[i] for i in ids).replace(" cd", " c d"),
        self_evaluation=np.array([0.9, 0.5, 0.1]),
    )


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("log-likelihood-gain", {}, [3 * np.log(2), 2 * np.log(2), 2 * np.log(2)]),
        ("log-likelihood-gain", {"k": 1}, [np.log(2), np.log(2), 0.0]),
        ("log-likelihood-gain", {"per_token": True}, [np.log(2), 2 / 3 * np.log(2), 2 / 3 * np.log(2)]),
        ("probability", {}, [1 / 8, 1 / 16, 1 / 16]),
        ("probability", {"per_token": True}, [1 / 2, 5 / 12, 5 / 12]),
        ("first-token", {}, [1, 1, 0]),
        ("exact-prefix", {}, [1, 1 / 3, 0]),
        # " cd" spells " c" and " d" in one token, and ends where the gold's last token does
        ("token-boundary-prefix", {}, [1, 1, 0]),
        ("token-boundary-prefix", {"k": 2}, [1, 1, 0]),
        ("token-accuracy", {}, [1, 2 / 3, 2 / 3]),
        ("token-accuracy", {"k": 2}, [1, 1 / 2, 1 / 2]),
        ("entropy-weighted-gain", {}, [3 * np.log(2), 3 * np.log(2), 0.0]),
        ("entropy-weighted-gain", {"entropy_power": 0.0}, [3 * np.log(2), 2 * np.log(2), 2 * np.log(2)]),
        ("self-evaluation", {}, [0.9, 0.5, 0.1]),
    ],
)
def test_rewards_by_hand(name: str, options: dict[str, Any], expected: list[float]) -> None:
    assert REWARDS[name](scores(), RewardOptions(**options)) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["similarity-bleu", "similarity-chrf"])
def test_likeness_of_text_ranks_the_thoughts(name: str) -> None:
    right, respelt, wrong = REWARDS[name](scores(), RewardOptions())
    assert right == pytest.approx(1.0)
    assert right > respelt > wrong >= 0


def test_the_recipe_names_every_reward_and_no_other() -> None:
    assert set(NAMED) == set(REWARDS)


def test_a_first_token_left_out_changes_no_reward() -> None:
    """What stands at a masked place, an infinite loss included, is not seen by any reward."""
    given = replace(scores(), mask=scored_mask([3, 3, 2]))
    spoilt = replace(
        given,
        gold_ids=np.where(given.mask, given.gold_ids, 3),
        log_probs=np.where(given.mask, given.log_probs, -np.inf),
        baseline_log_probs=np.where(given.mask, given.baseline_log_probs, -7.0),
        entropies=np.where(given.mask, given.entropies, 50.0),
        argmax_ids=np.where(given.mask, given.argmax_ids, 2),
    )
    for reward in REWARDS.values():
        assert reward(spoilt, RewardOptions()) == pytest.approx(reward(given, RewardOptions()))


@pytest.mark.parametrize("name", ["token-boundary-prefix", "similarity-chrf", "self-evaluation"])
def test_a_reward_without_what_it_needs_says_so(name: str) -> None:
    with pytest.raises(InputError, match="needed"):
        REWARDS[name](replace(scores(), decode=None, self_evaluation=None), RewardOptions())


@pytest.mark.parametrize("scale", ["none", "batch-std", "group-std"])
def test_what_is_constant_in_a_group_cancels(scale: str) -> None:
    rewards = np.random.default_rng(0).normal(size=12)
    shifted = rewards + np.repeat([3.0, -5.0, 40.0], 4)
    assert advantages(shifted, 4, scale=scale) == pytest.approx(advantages(rewards, 4, scale=scale))


def test_leaving_one_out_compares_with_the_mean_of_the_others() -> None:
    rewards = np.array([1.0, 2.0, 6.0, 0.0, 0.0, 3.0])
    others = [(sum(group) - one) / 2 for group in (rewards[:3], rewards[3:]) for one in group]
    assert advantages(rewards, 3, "leave-one-out", "none") == pytest.approx(rewards - others)
    scaled = advantages(rewards, 3, "group-mean")
    assert np.mean(scaled**2) == pytest.approx(1.0)
    assert scaled == pytest.approx(advantages(rewards, 3, "leave-one-out"))


def test_missing_and_equal_rewards_have_no_advantage() -> None:
    rewards = np.array([1.0, np.nan, 3.0, 0.1 + 0.2, 0.3, 0.3, np.nan, np.nan, 5.0])
    made = advantages(rewards, 3, "leave-one-out", "none")
    assert made.tolist() == [-2.0, 0.0, 2.0, *[0.0] * 6]


def test_sources_have_scales_of_their_own() -> None:
    rewards = np.array([0.0, 1.0, 0.0, 1000.0])
    assert np.abs(advantages(rewards, 2, sources=["maths", "maths", "text", "text"])) == pytest.approx(1.0)


def test_a_cut_thought_is_never_better_than_none() -> None:
    rewards, cut = np.array([2.0, -3.0, 9.0, 1.0, 2.0, 9.0]), np.array([False, False, True] * 2)
    assert with_truncation(rewards, np.zeros(6), cut, 3).tolist() == [2.0, -3.0, -3.0, 1.0, 2.0, 0.0]
    assert np.isnan(with_truncation(rewards, np.zeros(6), cut, 3, "drop")).tolist() == cut.tolist()
    assert with_truncation(rewards, np.zeros(6), cut, 3, "keep") is rewards


def test_groups_that_teach_nothing_are_left_out() -> None:
    rewards = np.array([1.0, 1.1, -1.0, -3.0, 5.0, 5.0, 1.0, np.nan])
    unaided = np.array([0.0, 0.0, 0.0, 0.0, np.nan, np.nan, 0.0, 0.0])  # the third group is verified, not text
    kept = [int(place) for place in np.flatnonzero(~np.isnan(without_idle_groups(rewards, unaided, 2, min_gain=0.5)))]
    assert kept == [0, 1, 4, 5, 6]
    spread = without_idle_groups(rewards, unaided, 2, min_spread=0.2)
    assert np.flatnonzero(~np.isnan(spread)).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "mean"}, "unknown advantage 'mean'.*group-mean"),
        ({"scale": "std"}, "unknown scale 'std'"),
        ({"group_size": 4}, "whole groups"),
    ],
)
def test_bad_options_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        advantages(np.zeros(6), **{"group_size": 3, **arguments})
