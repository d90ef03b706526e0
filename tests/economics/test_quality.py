"""Quality against price: scores that the fit has not seen, declines against published ones, every way to ask."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import computeledger as cl
from computeledger.economics.prices.points import open_models
from computeledger.economics.quality.ability import fit_scale, leave_results_out, shipped_scale
from computeledger.economics.quality.evaluations import (
    GUESS_FRACTION,
    Results,
    evaluated_models,
    evaluated_prices,
    evaluations,
    unpriced,
)
from computeledger.economics.quality.size import SizedModels, fit_size, shipped_sizes_by_ability
from computeledger.economics.quality.value import Offer, fit_decline, judged, price_records, priced_offers
from computeledger.interfaces.cli import main
from computeledger.sources import load_sources

#: The first rows of lowest_price_models_results.csv of epoch-research/llm-benchmark-efficiency at 34b9233, with the
#: dates and prices of lowest_price_models_data.csv there: benchmark and threshold, times cheaper a year, its interval.
EPOCH = {
    "GPQA Diamond, GPT-4-0314": (
        ("2023-03-14", "2023-11-06", "2024-02-26", "2024-03-04", "2024-05-10", "2024-12-13"),
        (37.5, 15.0, 6.0, 0.5, 0.13, 0.1225),
        (42.0189988368494, 4.398155473320801, 401.44016598804956),
    ),
    "GPQA Diamond, Claude-3.5-Sonnet-2024-06": (
        ("2024-06-20", "2024-09-24", "2024-12-26", "2025-02-05"),
        (6.0, 2.19, 0.4775, 0.175),
        (251.15711308883266, 41.56132345563141, 1517.7547346984131),
    ),
    "HumanEval, GPT-3.5-Turbo-2023-06": (
        ("2023-06-13", "2023-11-06", "2024-03-04", "2024-06-24", "2024-07-18", "2024-12-13"),
        (3.25, 0.75, 0.5, 0.26, 0.13, 0.1225),
        (9.240250279099344, 4.832723864099762, 17.66751579883625),
    ),
    "MMLU, GPT-3.5": (
        ("2022-11-30", "2023-03-06", "2023-11-06", "2024-03-04", "2024-05-10", "2024-07-23", "2024-10-03"),
        (20.0, 2.0, 0.75, 0.5, 0.13, 0.1, 0.07),
        (15.830914761762989, 8.054664913158714, 31.114623003717604),
    ),
}


@pytest.mark.parametrize("case", EPOCH)
def test_declines_are_the_published_ones(case: str) -> None:
    """Epoch's own records give Epoch's own rates: the logarithm within 1.5 %, as Student's quantile is a series."""
    dates, prices, published = EPOCH[case]
    found = fit_decline(dates, prices)
    assert found is not None
    mine = (found.ratio_per_year, found.p05_ratio_per_year, found.p95_ratio_per_year)
    assert np.log(mine[0]) == pytest.approx(np.log(published[0]), rel=1e-3)
    assert np.log(mine) == pytest.approx(np.log(published), rel=0.015)


def test_half_a_year_of_records_gives_no_yearly_rate() -> None:
    """86 times within 5.7 months was 25,000 times a year (50 to 13 million)."""
    found = cl.price_quality(at=0.48, benchmark="math-level-5")
    assert found.decline is None and len(found.records) > 4
    prices = [one.usd_per_mtok for one in found.records]
    assert found.fall.ratio == prices[0] / prices[-1] and found.fall.span_years < 1


def test_our_records_decline_as_the_published_ones() -> None:
    """The shipped scores and prices, read elsewhere, agree with Epoch's 42 times a year (90 %: 4.4 to 401)."""
    found = cl.price_quality(at=0.33, no_reasoning=True)
    assert 4.4 < found.decline.ratio_per_year < 401
    assert found.records[0].name == "gpt-4-0314" and found.records[0].usd_per_mtok == 37.5


def test_a_score_that_was_left_out_is_found_again() -> None:
    """Half of the left-out scores lie within 4.5 points, a quarter of what the benchmark's median misses."""
    out = leave_results_out(evaluations())
    missed, median = abs(out.predicted - out.score), abs(out.median - out.score)
    assert np.median(missed) < 0.045 and np.median(missed) < 0.25 * np.median(median)


def _drawn(seed: int) -> tuple[Results, np.ndarray]:
    rng = np.random.default_rng(seed)
    ability = rng.normal(0.0, 1.2, 40)
    who, which = (one.ravel() for one in np.meshgrid(np.arange(40), np.arange(len(GUESS_FRACTION)), indexing="ij"))
    guess = np.array(list(GUESS_FRACTION.values()))
    difficulty, slope = np.linspace(0.0, 1.2, len(guess)), np.linspace(1.0, 1.8, len(guess))
    share = 1.0 / (1.0 + np.exp(-slope[which] * (ability[who] - difficulty[which])))
    score = guess[which] + (1.0 - guess[which]) * share
    names = tuple(f"m{i}" for i in range(40))
    return Results(names, tuple(GUESS_FRACTION), who, which, score, np.full(len(who), 0.005)), ability


def test_known_abilities_come_back_and_order_scores() -> None:
    """Scores made by the law give its abilities, and a stronger model scores higher everywhere."""
    results, ability = _drawn(1)
    scale = fit_scale(results)
    assert np.max(abs(scale.ability - ability)) < 0.12
    for name in scale.benchmarks:
        scores = [scale.score(one, name) for one in (-50.0, -1.0, 0.0, 1.0, 50.0)]
        assert scores == sorted(scores) and scores[0] == pytest.approx(GUESS_FRACTION[name])
        assert scores[-1] == pytest.approx(1.0)
    fewer = results.where(results.which < 2)
    assert np.median(fit_scale(fewer).error) > np.median(scale.error)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 100)), min_size=4, max_size=12))
def test_the_frontier_is_what_nobody_beats(drawn: list[tuple[float, float]]) -> None:
    """Off the frontier somebody is at least as strong for at most the price; prices in another unit change nothing."""
    offers = [
        Offer(f"m{i}", "", f"2025-0{1 + i % 9}-01", False, ability, 0.1, usd, "list")
        for i, (ability, usd) in enumerate(drawn)
    ]
    rows, _ = judged(offers)
    front = [one for one in rows if one.on_frontier]
    assert front and all(one.price_over_frontier_ratio == 1 for one in front)
    for one in rows:
        beaten = any(other.ability >= one.ability and other.usd_per_mtok <= one.usd_per_mtok for other in front)
        assert beaten
    scaled, _ = judged([replace(one, usd_per_mtok=8.0 * one.usd_per_mtok) for one in offers])
    assert [one.on_frontier for one in scaled] == [one.on_frontier for one in rows]


def test_a_harder_score_is_never_cheaper() -> None:
    """The cheapest launch price of a quality rises with the quality."""
    last = [price_records(evaluations(), "gpqa-diamond", at, 3.0)[-1].usd_per_mtok for at in (0.3, 0.5, 0.7, 0.8)]
    assert last == sorted(last)


def test_every_row_names_a_source_and_joins_one_model() -> None:
    """Prices and open sizes that are named exist; versions without a price are listed, and not guessed."""
    sources, models = load_sources(), evaluated_models()
    for when in ("launch", "last"):
        for price in evaluated_prices(when).values():
            assert price.source in sources and price.locator and price.version in models
    assert all(one.open_model in open_models() for one in models.values() if one.open_model)
    assert set(unpriced()) == {one for one in models if one not in evaluated_prices("last")}
    assert np.all((evaluations().score >= 0) & (evaluations().score <= 1))
    names = {one.name for one in priced_offers(shipped_scale(), 3.0)}
    assert not any(one.partition(" (")[0] in unpriced() for one in names)


def test_a_size_that_follows_ability_is_found_and_one_that_does_not_is_not() -> None:
    """A law without scatter is read exactly; on open models ability tells what is stored, and not what is active."""
    rng = np.random.default_rng(3)
    ability, years = rng.normal(0.0, 1.0, 20), rng.uniform(0.0, 2.0, 20)
    size = 11.0 + 0.5 * ability - 0.3 * years
    drawn = SizedModels(tuple(f"m{i}" for i in range(20)), ability, years, size, size)
    found = fit_size(drawn, size)
    assert (found.constant, found.per_ability, found.per_year) == pytest.approx((11.0, 0.5, -0.3))
    assert found.median_error_ratio == pytest.approx(1.0) and found.half_width == pytest.approx(0.0, abs=1e-9)
    active, total = shipped_sizes_by_ability()
    assert total.median_error_ratio < 0.7 * total.mean_error_ratio
    assert active.median_error_ratio > 0.95 * active.mean_error_ratio
    low, _, high = total.params(0.7, "2025-08-05")
    assert low < open_models()["gpt-oss-120b"].n_params_total < high


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["prices", "quality", *arguments])
    said = capsys.readouterr()
    return stopped.value.code, said.out, said.err


def test_python_and_the_command_answer_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """The document of Python is that of the command, and the terminal names the frontier."""
    asked: tuple[dict[str, float | str | bool], ...] = (
        {},
        {"at": 0.5},
        {"no_reasoning": True},
        {"size_of": "o3-2025-04-16"},
    )
    for one in asked:
        options = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in one.items()
        ]
        assert json.loads(_run(capsys, *options, "--json")[1]) == cl.price_quality(**one).to_dict()
    assert "Nobody is as strong for less" in _run(capsys)[1]
    code, _, said = _run(capsys, "--at", "0.99")
    assert code == 2 and "the best score is" in said
    wrong: tuple[tuple[tuple[str, ...], str], ...] = ((("--size-of", "gpt-5-2025"), "did you mean 'gpt-5-2025-08-07'"),
                          (("--size-of", "o3-2025-04-16", "--at", "0.3"), "give one of them"),
                          (("--size-of", unpriced()[0]), "no price source"))  # fmt: skip
    for given_, word in wrong:
        code, _, said = _run(capsys, *given_)
        assert code == 2 and word in said
