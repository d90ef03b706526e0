"""What a scenario takes in dollars, watts and chips, what several sites cost, and power as a clue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.frontier.conditional import pace_of, reached_under
from computeledger.frontier.epoch_files import COPY_DATE
from computeledger.frontier.forecast import run_series, when_reached
from computeledger.frontier.growth import fitted_growth, project, shipped_scenarios
from computeledger.frontier.power_clue import read_clue
from computeledger.frontier.priced import taken_then
from computeledger.frontier.spread import Spread, levers, prices_of_sites
from computeledger.frontier.supply import largest_today, packaging_growth, supply_facts, taken
from computeledger.frontier.systems import described_system
from computeledger.frontier.trends import year_of
from computeledger.frontier.wafers import BLACKWELL, account_2025, fitted_wafers
from computeledger.interfaces.views.growth import growth_view
from computeledger.questions.answers.frontier.forecast import answer_growth
from computeledger.questions.frontier import GrowthQuestion

YEARS = np.arange(4.0)


def test_a_scenario_takes_what_bounds_it() -> None:
    """Flat funding keeps the capital, a power limit the power's growth, a chip limit that of the chips."""
    fits, today = fitted_growth(), largest_today()
    found = {name: taken(project(one, fits, YEARS), today) for name, one in shipped_scenarios().items()}
    assert found["flat-funding"].usd == pytest.approx(today.usd)
    assert found["one-more-doubling"].usd[-1] == pytest.approx(2 * today.usd)
    assert found["power-limited"].facility_w == pytest.approx(today.facility_w * 1.25**YEARS)
    assert found["chip-limited"].n_chips == pytest.approx(today.n_chips * 1.6**YEARS)
    assert shipped_scenarios()["chip-limited"].chips == pytest.approx(packaging_growth(), rel=0.02)
    assert found["trend"].usd == pytest.approx(today.usd * fits["site_usd"].ratio ** YEARS)
    assert np.all(found["memory-limited"].n_chips[1:] < found["trend"].n_chips[1:])  # dearer chips: fewer for the money
    one = found["chip-limited"]
    good = fitted_wafers().n_packages_per_wafer
    assert one.cowos_year_fraction * 125_000 * 12 * good == pytest.approx(one.n_chips) and good < 16
    assert one.hbm_year_fraction * supply_facts()["hbm_bytes_2026"].value == pytest.approx(one.hbm_bytes)


def test_wafers_of_2025_are_explained_but_for_a_sixth() -> None:
    """Measured 2026-11-24: 435K wafers by capacity against 244K by chips; yield, lag and ramp leave 349K and 295K."""
    gross = supply_facts()["n_packages_per_wafer"].value
    steps = [one.n_wafers for one in account_2025((37_500.0 + 77_500.0) / 2, 0.63, (gross, 29.0))]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] / steps[-1] == pytest.approx(1.78, abs=0.01)
    assert 1.0 < steps[3] / steps[4] < 1.25
    law = fitted_wafers()
    for chip in BLACKWELL:
        assert fitted_wafers((chip,)).n_packages_per_wafer == pytest.approx(law.n_packages_per_wafer, rel=0.2)
    assert 0.0 < law.same_quarter_fraction < 1.0 and law.residual_fraction < 0.1


def test_growth_says_dollars_watts_and_chips(run_json: Any) -> None:
    document = run_json("frontier", "growth", "--scenario", "chip-limited", "--years", "2", "--json")
    (row,) = document["scenarios"]
    assert row["n_chips_by_year"][2] / row["n_chips_by_year"][0] == pytest.approx(1.6**2)
    assert row["usd_by_year"][0] == document["largest_system"]["usd"] > 1e10
    assert "unverified" in document["supply"]["n_packages_per_wafer"]["note"]


def test_several_sites_cost_loss_or_stops() -> None:
    """Tables 4 and 5 of Charles and others: 4 replicas at 4B lose 0.18 %, 2 replicas at 10B nothing."""
    every, local = prices_of_sites(Spread(4e9, 1.0, 4, local_steps=30.0), 8e10, None)
    assert (every.worth_fraction, every.loss) == (1.0, 0.0) and every.goodput_fraction is None
    assert 0.0 < local.loss < 0.01 and 0.8 < local.worth_fraction < 1.0 and "+0.18 %" in local.why
    assert prices_of_sites(Spread(10e9, 1.0, 2), 2e11, None)[1].worth_fraction == 1.0
    worths = [prices_of_sites(Spread(1.3e9, 1.0, n), 2.6e10, None)[1].worth_fraction for n in (2, 4, 8)]
    assert worths == sorted(worths, reverse=True)
    few, many = (prices_of_sites(Spread(4e12, 20.0, 2), 8e13, n) for n in (8_192, 131_072))
    for synchronous, apart in (few, many):
        assert synchronous.goodput_fraction is not None and apart.goodput_fraction is not None
        assert synchronous.goodput_fraction < apart.goodput_fraction < 1
    assert many[0].worth_fraction / many[1].worth_fraction < few[0].worth_fraction / few[1].worth_fraction


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("16K GB200 at 32 MW", "16000 chips of gb200-gpu"),
        ("16K GB200 at 67 MW IT", "32000 chips of gb200-gpu"),
        ("16K GB200 at 80 MW facility power", "32000 chips of gb200-gpu"),
        ("100K h100-sxm5-80gb at 150 MW", "100000 chips of h100-sxm5-80gb"),
    ],
)
def test_power_tells_chips_from_superchips(text: str, spec: str) -> None:
    clue = read_clue(text)
    assert clue is not None and clue.spec == spec
    assert clue.taken.low_w * 0.98 <= clue.given_w <= clue.taken.high_w * 1.02


def test_power_that_tells_nothing_is_refused() -> None:
    for text in ("16K GB200 at 500 MW", "16K GB200 at 1 MW IT", "100K h100-sxm5-80gb at 32 MW"):
        with pytest.raises(InputError, match="no reading fits"):
            read_clue(text)
    assert read_clue("400 MW facility of gb200-gpu") is None
    assert read_clue("$6bn a year at $2.50 per GPU-hour of h100-sxm5-80gb") is None
    answer = cl.systems(spec="72 GB200 at 150 kW", samples=16)
    assert answer.to_dict()["power_clue"]["taken"]["unit"] == "chips"
    assert "tells chips: chips fit" in answer.view().notes[0]


def test_a_lever_names_the_local_steps_that_it_takes() -> None:
    found = levers(Spread(405e9, 6.0, n_sites=3, local_steps=100.0), 1.0)
    assert "10,000 local steps (DiLoCo)" in found and "100 local steps (DiLoCo)" not in found


def test_a_run_is_priced_at_its_day_as_growth_prices_its_scenario() -> None:
    """Flat funding never spends more than today's largest system: dollars of 2032 buy what took $75bn in 2026."""
    fits, system, largest = fitted_growth(), described_system("951K chips of gb200-gpu"), largest_today()
    ahead, past = (when_reached(run_series(), flop, 1000) for flop in (1e28, 1e25))
    today, earlier = median(system.capex_usd), set()
    for name, scenario in shipped_scenarios().items():
        then = taken_then(system, reached_under(ahead, pace_of(scenario, fits)), (scenario, fits), largest)
        assert then is not None
        grown = project(scenario, fits, np.array([year_of(then.date) - year_of(COPY_DATE)]))
        dollar = float((grown.compute_ratio / grown.usd_ratio)[0])
        assert median(then.capex_usd) == pytest.approx(today / dollar, rel=0.05), name
        assert then.largest_usd == pytest.approx(largest.usd * float(grown.usd_ratio[0]), rel=5e-3), name
        assert 0 < then.of_largest_fraction < 1, name
        if name == "flat-funding":
            assert then.largest_usd == pytest.approx(largest.usd) and median(then.capex_usd) < today / 4
        known = taken_then(system, reached_under(past, pace_of(scenario, fits)), (scenario, fits), largest)
        assert known is not None and median(known.capex_usd) > 2 * today
        earlier.add(median(known.capex_usd))
    assert len(earlier) == 1  # no scenario changes the past


def test_growth_says_where_it_looks_further_ahead_than_back() -> None:
    near, far = (growth_view(answer_growth(GrowthQuestion(years=n)).to_dict()).notes for n in (5, 12))
    assert not any("never seen" in note for note in near)
    assert "the scenarios look 12 years ahead, the fits 4.6 back: growth beyond that was never seen" in far
