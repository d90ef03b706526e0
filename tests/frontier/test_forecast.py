"""Sites, trends, growth and forecasts: the data as published, properties of the fits, and the contracts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.arrays import median, t_95
from computeledger.errors import FactError, InputError, UnknownIdError
from computeledger.facts.editions import load_tiers
from computeledger.facts.load import load_accelerator
from computeledger.frontier.conditional import pace_of, reached_under
from computeledger.frontier.epoch_files import (
    CHIPS,
    TIMELINES,
    read_chips,
    read_timelines,
    shipped_chips,
    shipped_runs,
    shipped_sites,
)
from computeledger.frontier.forecast import backtest, backtest_series, run_series, site_series, when_reached
from computeledger.frontier.growth import (
    Scenario,
    fit_growth,
    fitted_growth,
    flat_funding_slowdown,
    load_scenarios,
    project,
    shipped_scenarios,
)
from computeledger.frontier.labs import lab_timeline
from computeledger.frontier.memory import hbm_share
from computeledger.frontier.needs import needed_system
from computeledger.frontier.revisions import fit_interval, shipped_revisions, site_interval
from computeledger.frontier.shapes import shaped_model
from computeledger.frontier.sheets import Schedule, release_dates
from computeledger.frontier.sites import check_claimed_power, flop_per_s_8bit, share_within, site_rows
from computeledger.frontier.systems import described_system
from computeledger.frontier.trends import Series, choose_model, date_of, predict, quarter_ends, year_of
from computeledger.physics.training.optimizers import update_of
from computeledger.units import MONTH_S

DATES = tuple(quarter_ends("2015-01-01", "2019-12-31"))


def of_logs(logs: Any) -> Series:
    """A series of twenty quarters."""
    return Series("x", "", DATES, 10.0 ** np.asarray(logs, float))


@pytest.fixture(scope="module")
def epoch(shared_data: Path) -> Path:
    """Epoch's files as downloaded."""
    return shared_data / "frontier"


def test_nine_of_ten_site_dates_agree(epoch: Path) -> None:
    rows = site_rows(read_timelines(epoch), read_chips(epoch))
    within, compared = share_within(rows)
    assert compared >= 150 and within / compared >= 0.90
    within, compared = share_within(rows, projected=False, counted=True)
    assert compared >= 130 and within / compared >= 0.90
    assert all(row.reason for row in rows if row.error_fraction is None and row.published.h100e_8bit)
    assert all(row.reason for row in rows if row.error_fraction is not None and abs(row.error_fraction) > 0.10)


def test_the_copy_that_ships_is_the_download(epoch: Path) -> None:
    shipped = {(one.name, one.date): one for one in shipped_sites()}
    for one in read_timelines(epoch):
        other = shipped[one.name, one.date]
        for name in ("it_w", "facility_w", "h100e_8bit", "capex_usd"):
            assert getattr(other, name) == (getattr(one, name) and pytest.approx(getattr(one, name), rel=1e-5)), one
    assert list(shipped_chips()) == read_chips(epoch)


@pytest.mark.parametrize(("chip", "h100e"), [("H100", 1.0), ("B200", 2.5265), ("Trainium2", 0.6564), ("A100", 0.15766)])
def test_rates_are_epoch_s(chip: str, h100e: float) -> None:
    assert flop_per_s_8bit(chip) == pytest.approx(h100e * 1979e12, rel=2e-4)
    assert flop_per_s_8bit("abacus") is None


def test_abilene_did_not_have_400_mw_at_the_end_of_2025() -> None:
    found = check_claimed_power("Stargate Abilene", 400e6, "2025-12-31", shipped_sites())
    assert (found.facility_w, found.verdict, found.reached) == (295e6, "too high", "2026-05-23")
    assert check_claimed_power("Colossus 1", 180e6, "2024-10-01", shipped_sites()).verdict == "holds"
    with pytest.raises(InputError, match="OpenAI Stargate Abilene"):
        check_claimed_power("Abilene", 400e6, "2025-12-31", shipped_sites())
    with pytest.raises(InputError, match="the data begin at"):
        check_claimed_power("Colossus 2", 1.0, "2020-01-01", shipped_sites())


def test_site_intervals_are_what_earlier_copies_got_wrong() -> None:
    """Copies of 2025-12, 2026-04 and 2026-05 against 2026-08: revisions go down, plans more than what was seen."""
    seen, planned = site_interval(False), site_interval(True)
    assert planned.low_ratio < seen.low_ratio < 0.9 and 1.0 <= seen.high_ratio < 1.1
    assert 0.02 < seen.not_running_fraction < planned.not_running_fraction < 0.2
    assert seen.n_sites > 50 and planned.n_sites > 30
    abilene = [one for one in shipped_revisions() if "Abilene" in one.name and one.date == "2025-09-26"]
    assert {(one.copy_date, one.earlier_w, one.later_w) for one in abilene} == {
        ("2025-12-14", 295e6, 147e6), ("2026-04-03", 295e6, 147e6), ("2026-05-23", 147e6, 147e6)
    }  # fmt: skip
    with pytest.raises(FactError, match="no revisions"):
        fit_interval([], projected=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "columns Data center, Date"),
        ("Data center,Date,IT power (MW),Power (MW),H100 equivalents\nA,soon,1,1,1\n", "is no date"),
        ("Data center,Date,IT power (MW),Power (MW),H100 equivalents\nA,2025-01-01,1,-1,1\n", "0 or more"),
        ("Data center,Date,IT power (MW),Power (MW),H100 equivalents\nA,2025-01-01,1,x,1\n", "is no number"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / TIMELINES).write_text(text)
    with pytest.raises(InputError, match=said):
        read_timelines(tmp_path)
    with pytest.raises(InputError, match=f"{CHIPS}: no such file"):
        read_chips(tmp_path)


def test_the_backtest_reaches_its_figures() -> None:
    found = backtest()
    assert found.n == 11
    assert 0.75 <= found.coverage_90 <= 0.98
    assert found.largest_width_log10_90 <= 1.0
    assert [one.model for one in found.parts] == ["trend", "driven"]


def test_nine_of_ten_quarters_lie_inside_over_all_cutoffs() -> None:
    """Nine cut-offs, of which one alone misses: the jump of power in late 2024."""
    every = [backtest(one) for one in quarter_ends("2023-06-01", "2025-07-01")]
    inside = sum(one.coverage_90 * one.n for one in every)
    assert len(every) == 9 and inside / sum(one.n for one in every) >= 0.9
    assert min(one.coverage_90 for one in every) == backtest("2024-06-30").coverage_90 < 0.75


def test_nothing_after_the_cutoff_is_looked_at() -> None:
    """Whatever comes later, the forecast is the same."""
    series = run_series()
    other = Series(series.name, series.unit, series.dates, np.where(series.years > 2025.0, 1e30, series.values))
    one, two = backtest_series(series), backtest_series(other)
    assert one.model == two.model
    assert one.predicted.middle == pytest.approx(two.predicted.middle)
    assert one.predicted.spread == pytest.approx(two.predicted.spread)


def test_series_leave_projections_out() -> None:
    assert site_series().dates[-1] == "2026-06-30"
    assert site_series(last="2030-12-31").dates[-1] == "2026-06-30"
    assert np.all(np.diff(run_series().values) >= 0)
    names = [one.name.replace("-", " ").lower() for one in shipped_runs()]
    assert len(names) == len(set(names))


@given(st.floats(0.05, 1.0), st.floats(-3.0, 30.0))
def test_an_exact_line_is_forecast_exactly(slope: float, level: float) -> None:
    series = of_logs(slope * (np.array([year_of(one) for one in DATES]) - 2015.0) + level)
    found = predict("trend", series, np.array([2025.0]))
    assert found.middle[0] == pytest.approx(level + 10 * slope, abs=1e-6)
    assert found.spread[0] == pytest.approx(0.0, abs=1e-5)
    walked = predict("walk", series, np.array([2025.0]))
    assert walked.middle[0] == pytest.approx(level + 10 * slope, abs=0.02)


def test_intervals_cover_what_they_say() -> None:
    """Both models on their own kind of data: nine of ten futures inside."""
    draw, years = np.random.default_rng(1), np.arange(20.0) / 4
    inside = {"trend": 0, "walk": 0, "driven": 0}
    for _ in range(400):
        line = years + 0.2 * draw.standard_normal(20)
        walk = np.cumsum(0.1 + 0.1 * draw.standard_normal(20))
        cause = of_logs(0.6 * years + 0.2 * draw.standard_normal(20))
        for model, logs in (("trend", line), ("walk", walk), ("driven", walk)):
            series = replace(of_logs(logs), cause=cause, cause_excess=0.2)
            found = predict(model, series.before(DATES[15]), series.years[16:])
            inside[model] += int(abs(logs[19] - found.middle[3]) <= found.spread[3])
    assert all(0.86 <= count / 400 <= 0.94 for count in inside.values()), inside


@pytest.mark.parametrize(("n", "quantile"), [(6, 1.943), (9, 1.833), (17, 1.740), (30, 1.697)])
def test_student_s_quantile(n: int, quantile: float) -> None:
    """Any table of the t distribution, one-sided 95 %."""
    assert t_95(n) == pytest.approx(quantile, abs=2e-3)


def test_a_forecast_is_later_for_more_and_agrees_with_the_backtest_s_line() -> None:
    small, large = (when_reached(run_series(), flop) for flop in (1e27, 1e28))
    assert np.median(small.years) < np.median(large.years)
    assert small.probability_by("2029-12-31") >= large.probability_by("2029-12-31")
    assert 3.5 < median(large.growth_ratio) < 5.0  # Epoch: 4 to 5 times a year
    done = when_reached(run_series(), 1e25)
    assert date_of(float(done.years[0])) == "2023-03-31"  # GPT-4: 2.1e25 on 2023-03-15
    assert choose_model(site_series())[0] == "driven"


def test_what_a_run_needs_is_what_its_system_gives() -> None:
    needed = needed_system(1e27, "h100-sxm5-80gb", 4 * MONTH_S, 0.4)
    assert median(needed.system.flop("bf16", 4 * MONTH_S, 0.4)) == pytest.approx(1e27)
    assert needed.pretraining_gpu_hours == pytest.approx(median(needed.system.chips) * 4 * MONTH_S / 3600)
    assert (
        needed.used.rl_generation == needed.used.inference == pytest.approx(0.4 / 3) and "assumed" in needed.used.basis
    )
    rl = needed.pretraining_gpu_hours * (0.8 + 0.2 * 3)
    assert needed.rl_gpu_hours == pytest.approx(rl)
    modelled = needed_system(1e27, "gb200-gpu", 4 * MONTH_S, 0.4)
    assert 0.02 < modelled.used.rl_generation < modelled.used.inference < 0.2
    assert modelled.rl_gpu_hours > modelled.pretraining_gpu_hours
    assert needed.text["moe"].exceeds_fraction > needed.text["dense"].exceeds_fraction


def test_what_carries_no_answer_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"less than one gb200-gpu does in the time: at least 1\.05e22 FLOP"):
        needed_system(1e20, "gb200-gpu", 4 * MONTH_S, 0.4)
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(InputError, match=r"empty\.toml:1: no scenario in it"):
        load_scenarios(str(tmp_path / "empty.toml"))
    with pytest.raises(InputError, match="shorter than a year"):
        fit_growth("x", [(f"2026-0{n}-01", 2.0**n) for n in range(1, 7)], "2026-01-01", "2026-08-22")
    small = shaped_model("m", 3e8, 9e9)  # experts take all of it: no shared expert of width 0
    assert small.layers[0].feed_forward.n_shared_experts == 0
    assert update_of("muon", small.layers, small.hidden_size, False).state_values == pytest.approx(1.0)


def test_growth_is_fitted_and_scenarios_are_bounded() -> None:
    fits = fitted_growth()
    assert 1.3 < fits["h100e_per_usd"].ratio < 1.5  # training-systems C055, C056: 1.35 to 1.4 a year
    assert 3.0 < flat_funding_slowdown(fits) < 4.0  # C051: 3.3
    years = np.arange(6.0)
    free = project(shipped_scenarios()["trend"], fits, years).compute_ratio
    for scenario in shipped_scenarios().values():
        found = project(scenario, fits, years)
        assert found.compute_ratio[0] == pytest.approx(1.0)
        assert np.all(found.compute_ratio <= free * (1 + 1e-9)), scenario.name
    flat = project(load_scenarios("flat-funding")["flat-funding"], fits, np.array([1.0])).compute_ratio[0]
    assert flat_funding_slowdown(fits) == pytest.approx(math.log(free[1]) / math.log(flat))  # headline and table
    assert math.log(fits["site_usd"].ratio * flat) == pytest.approx(math.log(free[1]))


def test_dear_memory_slows_what_a_dollar_buys() -> None:
    """HBM 25 % of capital and 1.3 times as dear each year against a price that falls with the rest."""
    fits, years = fitted_growth(), np.array([1.0])
    share, gain = hbm_share().with_margin_fraction, fits["h100e_per_usd"].ratio
    memory = project(shipped_scenarios()["memory-limited"], fits, years).compute_ratio[0]
    slower = 1 - share + share * 1.3 * gain
    assert memory == pytest.approx(project(shipped_scenarios()["trend"], fits, years).compute_ratio[0] / slower)
    chip, edition = load_accelerator("gb200-gpu"), load_tiers()
    at_contract = edition.tiers["hbm3e-stack"].usd_per_byte.value * chip.hbm_bytes.value
    capex = median(described_system("1 chips of gb200-gpu").capex_usd)
    assert 0.3 < at_contract / capex / hbm_share().at_cost_fraction < 1.0  # the price list says 3.5 %, the shares 7.4 %


def test_bad_windows_and_scenarios(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must end after it begins"):
        fit_growth("x", [], "2025-01-01", "2024-01-01")
    with pytest.raises(InputError, match="at least 4"):
        fitted_growth("2026-08-01", "2026-08-02")
    with pytest.raises(UnknownIdError, match="flat-funding"):
        load_scenarios("flat-fundin")
    file = tmp_path / "mine.toml"
    file.write_text("[mine]\npowr = 1.2\n")
    with pytest.raises(InputError, match="did you mean 'power'"):
        load_scenarios(str(file))
    file.write_text("[mine]\npower = -1.2\n")
    with pytest.raises(InputError, match="above 0"):
        load_scenarios(str(file))


def test_dates_go_both_ways() -> None:
    for date in quarter_ends("2019-01-01", "2031-01-01"):
        assert date_of(year_of(date) + 1e-6) == date
    ends = release_dates("2025-01-15", Schedule())
    assert ends["pretraining"][0] < ends["post-training"][0]


def test_labs_of_the_sites_stay_within_epoch_s_fleets(epoch: Path) -> None:
    """End of 2025, 95 % ends of lab_compute_year_end_by_lab.csv; one lab is also seen nearly whole."""
    chips = read_chips(epoch)
    for lab, most in (("OpenAI", 2_185_142), ("Anthropic", 1_716_535), ("Meta", 1_637_713), ("SpaceXAI", 786_633)):
        last = [one for one in lab_timeline(lab, chips) if one.date <= "2025-12-31"][-1]
        assert 0 < last.low <= last.mid <= last.high <= most, lab
    assert last.mid > 0.8 * 634_793
    assert lab_timeline("xAI", chips) == lab_timeline("SpaceXAI", chips)  # two names of one lab
    assert lab_timeline("Google", chips) == lab_timeline("deepmind", chips)
    with pytest.raises(InputError, match=r"a part of Anthropic, Microsoft"):
        lab_timeline("ic", chips)
    with pytest.raises(InputError, match=r"allowed: .*OpenAI.*SpaceXAI"):
        lab_timeline("Open IA", chips)


def test_scenarios_are_slices_of_one_model(run_json: Any, tmp_path: Path) -> None:
    """The trend's paths at another pace: flat funding takes ln 2.87 / ln 1.37 years for each of the trend."""
    fits, trend = fitted_growth(), when_reached(run_series(), 1e28)
    same = reached_under(trend, pace_of(shipped_scenarios()["trend"], fits))
    assert same.years == pytest.approx(trend.years, abs=1e-9)
    slow = math.log(fits["site_usd"].ratio * fits["h100e_per_usd"].ratio) / math.log(fits["h100e_per_usd"].ratio)
    flat = reached_under(trend, pace_of(shipped_scenarios()["flat-funding"], fits))
    last = trend.series.years[-1]
    assert flat.years - last == pytest.approx((trend.years - last) * slow, rel=1e-6)
    growing = [reached_under(trend, pace_of(Scenario("x", funding=ratio), fits)) for ratio in (1.0, 1.5, 2.0, 4.0)]
    chances = [one.probability_by("2028-12-31") for one in growing]
    assert chances == sorted(chances) and chances[0] < 0.05 and chances[-1] > trend.probability_by("2028-12-31")
    never = reached_under(trend, pace_of(Scenario("x", funding=0.5), fits))
    assert np.all(np.isinf(never.years)) and never.probability_by("2999-12-31") == 0.0
    done = when_reached(run_series(), 1e25)
    assert reached_under(done, pace_of(Scenario("x", funding=0.5), fits)).years[0] == done.years[0]
    own = tmp_path / "own.toml"
    own.write_text('[mine]\nnote = "funding stays"\nfunding = 1.0\n')
    asked = ["frontier", "forecast", "1e28", "--by", "2028-12-31"]
    mine = run_json(*asked, "--scenario", str(own), "--json")
    assert mine["probability"] == flat.probability_by("2028-12-31") and mine["scenario"] == "mine"
    assert mine["date"]["p50"] > date_of(float(np.quantile(trend.years, 0.95)))


def test_the_contracts(run_json: Any, epoch: Path) -> None:
    found = run_json("frontier", "backtest", "--json")
    assert {"coverage_90", "n", "median_abs_log10_error", "median_width_log10_90"} <= set(found)
    sites = run_json("frontier", "sites", "--data", str(epoch), "--json")
    assert run_json("frontier", "sites", "--json")["agreement"] == sites["agreement"]
    assert "CC BY 4.0" in sites["credit"]
    assert {"name", "date", "h100e_8bit", "published_h100e_8bit", "facility_w"} <= set(sites["sites"][0])
    ahead = run_json("frontier", "forecast", "1e28", "--by", "2028-12-31", "--json")
    assert 0.5 < ahead["probability"] == ahead["probability_by"]["probability"] <= 1.0
    rows = {one["scenario"]: one["probability"] for one in ahead["scenarios"]}
    assert list(rows) == list(shipped_scenarios()) and ahead["scenario"] == "trend"
    assert rows["trend"] == ahead["probability"] == max(rows.values()) and rows["flat-funding"] == min(rows.values())
    assert ahead["trains"]["dense"]["batches"][0]["parts"]
    assert ahead["date"]["p05"] < ahead["date"]["p50"] < ahead["date"]["p95"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("systems", "10K chips of h100-sxm5-80gb + 72 chips of gb200-gpu"),
        ("systems", "1K chips of tpu-v4"),
        ("sites", "--site", "Colossus"),
        ("growth", "--scenario", "memory-limited"),
        ("backtest", "--cutoff", "2024-06-30"),
        ("forecast", "1e27"),
    ],
)
def test_pages_stand_alone(run_json: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    page = tmp_path / "page.html"
    document = run_json("frontier", *arguments, "--html", str(page), "--json")
    text = page.read_text("utf-8")
    assert text.count('data-plot="') >= 1 and "<script src" not in text and "http-equiv" in text
    for name in text.split('data-plot="')[1:]:
        assert f'"{name.partition(chr(34))[0]}"' in text.partition('id="data"')[2]
    assert document.get("credit", "") in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["systems", "100K GB200"], "superchip"),
        (["sites", "--data", "nowhere"], "no such file"),
        (["sites", "--site", "nowhere"], "'nowhere': allowed: Alibaba"),
        (["spread", "--params", "4T"], "--step"),
        (["spread", "--step", "4s"], "--params"),
        (["spread", "--params", "4T", "--gpus", "8"], "--system"),
        (["spread", "--params", "4T", "--gpus", "8", "--system", "h100-nvl8"], "GB per GPU"),
        (["sites", "--claim", "400 MW", "--site", "Colossus 1"], "--date"),
        (["backtest", "--cutoff", "2030-01-01"], "no quarter"),
        (["backtest", "--cutoff", "2021-01-01"], "at least 10"),
        (["backtest", "--cutoff", "soon"], "no date"),
        (["forecast", "1e28", "--accelerator", "gb201"], "gb20"),
        (["sheet", "deepseek-v3", "--price", "0"], "--price"),
        (["spread", "--params", "1B", "--step", "1s", "--sites", "1"], "at least 2"),
    ],
)
def test_bad_input_gets_one_line_and_exit_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from computeledger.interfaces.cli import main

    with pytest.raises(SystemExit) as stop:
        main(["frontier", *arguments])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in error and error.count("\n") == 1


def test_the_report_is_one_page(tmp_path: Path, run_json: Any) -> None:
    page = tmp_path / "forecast.html"
    run_json("frontier", "forecast", "1e28", "--html", str(page), "--json")
    text = page.read_text("utf-8")
    assert all(f'data-plot="{name}"' in text for name in ("runs", "sites", "cost")) and "CC BY 4.0" in text
