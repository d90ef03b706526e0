"""Rewards by hand, what cancels in them, and what a missing or useless one does to the advantages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from computeledger.errors import InputError
from rntp.advantages import Comparison, advantages, token_advantages, why_idle, with_truncation, without_idle_groups
from rntp.recipe import REWARDS as NAMED
from rntp.recipe import TOKEN_REWARDS as NAMED_BY_TOKEN
from rntp.recipe import RewardSpec
from rntp.reward import REWARDS, TOKEN_REWARDS, GoldScores, Rewarder, RewardOptions, scored_mask

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


GOLD = ["un", "do", "ing", " it"]
VOCABULARY = [*GOLD, "undo", "und", "undoing", "undoing it", "undone", "redo", "undoing it all"]


@pytest.mark.parametrize(
    ("guess", "right"),
    [
        ("un", 1), ("undo", 1), ("undoing", 1), ("undoing it", 1),  # ends where a token of the continuation ends
        ("und", 0),  # a prefix by its letters, but it ends within a token
        ("undone", 0), ("redo", 0), ("do", 0),  # no prefix
        ("undoing it all", 0),  # goes on behind what is known
    ],
)  # fmt: skip
def test_a_prediction_of_one_token_is_right_or_wrong_by_its_letters(guess: str, right: int) -> None:
    gold = np.array([[VOCABULARY.index(part) for part in GOLD]])
    likely = np.where(np.arange(4) == 0, VOCABULARY.index(guess), gold)
    one = np.zeros((1, 4))
    scores = GoldScores(
        gold, one, one, one, likely, one == 0, decode=lambda ids: "".join(VOCABULARY[place] for place in ids)
    )
    assert REWARDS["token-boundary-prefix"](scores, RewardOptions(k=1)).tolist() == [right]


def test_rewards_by_token_make_up_the_rewards_of_thoughts() -> None:
    assert set(NAMED_BY_TOKEN) == set(TOKEN_REWARDS)
    part = replace(scores(), mask=scored_mask([3, 2, 3], 1))
    for name in TOKEN_REWARDS:
        for per_token in (False, True):
            if name in ("probability", "token-accuracy") and not per_token:
                continue  # a product, and a share
            given = RewardSpec(name, per_token=per_token)
            whole, found = Rewarder.of(given)(part), Rewarder.of(replace(given, credit="token"))(part)
            assert found.tokens is not None and whole.tokens is None
            assert found.values == pytest.approx(whole.values)
            total = np.nanmean(found.tokens, axis=1) if per_token else np.nansum(found.tokens, axis=1)
            assert total == pytest.approx(whole.values)
            assert np.isnan(found.tokens).tolist() == (~part.mask).tolist()
            less, costs = found.less(np.array([3.0, 0.0, 1.0]), per_token=per_token), np.array([3.0, 0.0, 1.0])
            assert less.tokens is not None
            total = np.nanmean(less.tokens, axis=1) if per_token else np.nansum(less.tokens, axis=1)
            assert total == pytest.approx(whole.values - costs) == less.values


NUMBERS = st.floats(-50, 50).map(lambda value: round(value, 6))


@settings(max_examples=40)
@given(
    arrays(np.float64, (12, 3), elements=NUMBERS),
    arrays(np.float64, (3, 3), elements=NUMBERS),
    st.sampled_from(["group-mean", "leave-one-out"]),
    st.sampled_from(["none", "batch-std", "group-std"]),
)
def test_the_baseline_cancels_in_the_advantages(with_: Any, without: Any, kind: str, scale: str) -> None:
    """Whoever's likelihood without a thought it is, as long as a group shares it: of thoughts, and token by token."""
    none, sources = np.zeros((12, 3)), ["text"] * 12
    how, cut = Comparison(4, kind, scale, "keep"), np.zeros(12, dtype=bool)
    gains = with_ - without.repeat(4, axis=0)
    made, plain = (advantages(one.sum(axis=1), 4, kind, scale) for one in (gains, with_))
    by_token, plain_by_token = (token_advantages(one, none, cut, how, sources) for one in (gains, with_))
    spread = np.ptp(with_.reshape(3, 4, 3), axis=1)
    if spread[spread > 0].size and spread[spread > 0].min() < 1e-4:
        return  # rewards that are equal but for rounding count as equal, and rounding differs
    assert made == pytest.approx(plain, abs=1e-6)
    assert by_token == pytest.approx(plain_by_token, abs=1e-6)


@settings(max_examples=40)
@given(arrays(np.float64, (8, 5), elements=NUMBERS), st.sampled_from(["group-mean", "leave-one-out"]))
def test_by_token_and_without_a_scale_the_advantage_is_that_of_the_mean(tokens: Any, kind: str) -> None:
    tokens[4:, 3:] = np.nan  # a shorter continuation
    tokens[6] = np.nan  # a thought that is left out
    how, cut = Comparison(4, kind, "none", "keep"), np.zeros(8, dtype=bool)
    known = ~np.isnan(tokens).all(axis=1)
    mean = np.full(8, np.nan)
    mean[known] = np.nanmean(tokens[known], axis=1)
    found = token_advantages(tokens, np.zeros((8, 5)), cut, how, ["text"] * 8)
    assert found == pytest.approx(advantages(mean, 4, kind, "none"), abs=1e-6)


def test_by_token_a_loud_token_does_not_drown_the_others() -> None:
    tokens = np.array([[1.0, 0.0], [1.0, 60.0], [0.0, 62.0], [0.0, 121.0]])
    how, cut, none = Comparison(4), np.array([False, False, False, True]), np.zeros((4, 2))
    whole = advantages(np.where(cut, -9.0, tokens.sum(axis=1)), 4)
    found = token_advantages(tokens, none, cut, how, ["text"] * 4)
    assert whole[2] > whole[1] and found[1] > found[2]
    assert found[3] == found.min() and np.mean(found**2) == pytest.approx(1.0)  # never ended: the worst at every token
    assert token_advantages(tokens * np.nan, none, cut, how, ["text"] * 4).tolist() == [0.0] * 4


def test_a_step_that_teaches_nothing_is_explained() -> None:
    some, none = np.array([True, False, False, False]), np.zeros(4, dtype=bool)
    for rewards, cut, said in [
        ([1.0, 1.0, 2.0, 2.0], none, "the thoughts of each group have the same reward; a larger [rl] group_size"),
        ([1.0, np.nan, 2.0, 2.0], none, "the thoughts of each group have the same reward"),
        ([1.0, 1.0, 2.0, 2.1], some, "every group was left out; a lower [rl] min_spread or min_gain"),
        ([0.0, 0.0, 0.0, 0.0], ~none, "every thought reached [thought] budget before it ended"),
        ([np.nan] * 4, none, "no thought has a reward"),
    ]:
        assert why_idle(np.array(rewards), cut, 2).startswith(said)
