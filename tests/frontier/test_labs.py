"""Labs side by side and their runs: against what others published, limits, and the commands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.frontier.epoch_files import shipped_chips, shipped_runs, shipped_sites
from computeledger.frontier.fleets import (
    Training,
    estimated_fleets,
    fleet,
    fleets_until,
    growth_left_out,
    growth_since,
    it_w_per_h100e,
    labs_at,
    listed_runs,
)
from computeledger.frontier.labs import lab_date, lab_names, lab_sites
from computeledger.units import MONTH_S

SITES = shipped_sites()


def test_fleets_pass_through_the_estimates_and_widen_beyond_them() -> None:
    for lab, facts in estimated_fleets().items():
        for fact in facts:
            found = fleet(lab, fact.date, SITES)
            assert found is not None and (found[0].low, found[0].mid, found[0].high) == (
                fact.low,
                fact.value,
                fact.high,
            )
        assert fleet(lab, "2022-12-31", SITES) is None
    dates = ("2024-12-31", "2025-06-30", "2025-12-31", "2026-04-30", "2026-08-22", "2026-11-30")
    ranges = [found[0] for date in dates if (found := fleet("OpenAI", date, SITES)) is not None]
    assert [one.mid for one in ranges] == sorted(one.mid or 0.0 for one in ranges)
    widths = [one.high / one.low for one in ranges[2:]]
    assert widths == sorted(widths)
    assert fleet("Mistral AI", "2025-12-31", SITES) is None


def test_no_fleet_is_carried_beyond_what_the_estimates_test() -> None:
    """Carried on to 2030 one lab had 112M H100-equivalents and up to 1.75 TW."""
    assert fleet("OpenAI", fleets_until(), SITES) is not None and fleet("OpenAI", "2027-01-01", SITES) is None
    document = cl.labs(date="2030-01", samples=64).to_dict()
    assert document["fleets_until"] == "2026-12-31"
    assert all(one["fleet_h100e_8bit"] is None and one["fleet_it_w"] is None for one in document["labs"])
    assert any("no fleet after 2026-12-31" in one["basis"] for one in document["labs"])


@pytest.mark.parametrize("date", ["2025-06-30", "2026-08-22", "2026-11-30", "2029-12-31"])
def test_a_lab_s_largest_site_is_a_part_of_its_named_sites(date: str) -> None:
    """Colossus 2 had 1.11M of 834K: a later count of a kind adds to the earlier one, as the published capacity says."""
    chips, every = shipped_chips(), {one.name: one.h100e_8bit for one in SITES if one.date <= date and one.h100e_8bit}
    for lab in lab_names(chips):
        named, held = lab_date(lab, date, chips, SITES), lab_sites(lab, date, chips, SITES)
        assert named.low <= named.mid <= named.high
        assert all(high <= every.get(site, high) * (1 + 1e-9) for site, (_, _, high) in held.items()), lab
    for one in labs_at(date, Training(4 * MONTH_S, 0.4, 16), chips, SITES):
        if one.largest_site is not None:
            whole = one.named.mid if one.largest_site.user_is == "likely" else one.named.high
            assert one.largest_site.h100e_8bit <= whole * (1 + 1e-9), one.lab


def test_a_lab_left_out_grew_as_the_others_within_half() -> None:
    """End of 2024 to end of 2025, five labs: each against the mean of the other four."""
    off = growth_left_out()
    assert len(off) == 5 and max(abs(one) for one in off.values()) < math.log(1.5)
    since = growth_since("2025-12-31", "2026-08-22", SITES)
    assert since.ratio == pytest.approx(math.sqrt(since.labs_ratio * since.sites_ratio))
    assert growth_since("2025-12-31", "2025-12-31", SITES).spread == 0.0


def test_power_of_a_fleet_against_what_openai_disclosed() -> None:
    """IT power of OpenAI, as disclosed and listed by Epoch (ai-compute-users, data/lab IT power.csv): 600 MW at the
    end of 2024, 1,900 MW at the end of 2025; the sites' power per H100-equivalent never saw them.
    """
    for date, disclosed_w in (("2024-12-31", 600e6), ("2025-12-31", 1900e6)):
        rate, found = it_w_per_h100e(date, SITES), fleet("OpenAI", date, SITES)
        assert found is not None and found[0].mid is not None
        assert found[0].mid * rate.low < disclosed_w < found[0].mid * rate.high


def test_labs_side_by_side(run_json: Any) -> None:
    document = run_json("frontier", "labs", "--date", "2026-11", "--json")
    assert document["date"] == "2026-11-30" and document["projected"]
    labs = {one["lab"]: one for one in document["labs"]}
    assert {"OpenAI", "Google DeepMind", "Anthropic", "Meta", "SpaceXAI"} <= set(labs)
    assert "xAI" in labs["SpaceXAI"]["aliases"] and labs["SpaceXAI"]["largest_site"]["name"] == "Colossus 2"
    for one in labs.values():
        if one["fleet_h100e_8bit"] is not None:
            assert one["fleet_h100e_8bit"]["p50"] > one["largest_site"]["h100e_8bit"] > 0, one["lab"]
            assert one["fleet_flop"]["p05"] < one["fleet_flop"]["p95"]
    for name in ("xAI", "SpaceXAI"):
        (only,) = run_json("frontier", "labs", "--date", "2026-11", "--lab", name, "--json")["labs"]
        assert only == labs["SpaceXAI"]
    given = Training(4 * MONTH_S, 0.4, 16)
    exact = next(one for one in labs_at("2025-12-31", given, shipped_chips(), SITES) if one.lab == "SpaceXAI")
    assert exact.largest_site is not None and exact.site_flop is not None
    expected = exact.largest_site.h100e_8bit * 989.5e12 * 0.4 * 4 * MONTH_S
    assert float(np.median(exact.site_flop)) == pytest.approx(expected, rel=1e-3)
    with pytest.raises(InputError, match="first estimate"):
        cl.labs(date="2020-01")
    with pytest.raises(InputError, match="is no date"):
        cl.labs(date="2026-13")


def test_runs_are_one_calendar(run_json: Any) -> None:
    every = run_json("frontier", "runs", "--json")["runs"]
    assert len(every) == len(shipped_runs()) == len(listed_runs(shipped_runs()))
    assert [one["date"] for one in every] == sorted(one["date"] for one in every)
    records = run_json("frontier", "runs", "--records", "--json")["runs"]
    flop = [one["training_flop"] for one in records]
    assert flop == sorted(set(flop)) and records[-1]["name"] == "Grok 4"
    google = run_json("frontier", "runs", "--lab", "DeepMind", "--least", "1e24", "--first", "2023-01-01", "--json")
    assert {"Gemini 1.0 Ultra"} <= {one["name"] for one in google["runs"]}
    assert all(one["labs"] == ["Google DeepMind"] and one["training_flop"] >= 1e24 for one in google["runs"])
    assert cl.training_runs(last="2010-01-01").to_dict()["runs"] == []
    with pytest.raises(InputError, match="'Nobody': allowed"):
        cl.training_runs(lab="Nobody")
