"""Systems as people describe them, against what the world published and what the source documents say."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.facts.load import accelerator_ids, load_accelerator
from computeledger.frontier.abilities import MIXTURE, optimal_tokens, trainable, trains
from computeledger.frontier.described import parse_description
from computeledger.frontier.sheets import Spending, model_sheet
from computeledger.frontier.spread import Spread, estimate_spread, levers
from computeledger.frontier.systems import described_system, flop_per_month
from computeledger.frontier.text import worth_tokens_muennighoff_2023
from computeledger.interfaces.cli import main
from computeledger.physics.blackboard.training import cluster_flop
from computeledger.physics.critical_batch import critical_batch_tokens
from computeledger.units import MONTH_S
from computeledger.validation.claims.check import check_claims

#: description, quantity, expected range, where it is published
GOLDEN = [
    ("100K chips of h100-sxm5-80gb", "capex_usd", 4.5e9, 6e9, "Epoch, Colossus 1, 2024-09-02: 5.27 bn$"),
    ("100K chips of h100-sxm5-80gb", "facility", 150e6, 190e6, "Epoch, Colossus 1, 2024-09-02: 181 MW"),
    ("110K chips of gb200-gpu", "facility", 290e6, 340e6, "Epoch, Colossus 2, 2025-10-19: 323 MW"),
    ("110K chips of gb200-gpu", "it", 215e6, 260e6, "Epoch, Colossus 2, 2025-10-19: 239 MW of IT"),
    ("110K chips of gb200-gpu", "h100e_8bit", 277e3, 279e3, "Epoch, Colossus 2, 2025-10-19: 277,918"),
    ("211 MW IT of gb200-gpu", "chips", 95e3, 106e3, "Epoch, Abilene, 2025-12-24: 100,800 B200"),
    ("457K chips of trainium2", "h100e_8bit", 298e3, 302e3, "Epoch, New Carlisle, 2025-06-23: 300,152"),
    ("457K chips of trainium2", "capex_usd", 14e9, 16.5e9, "Epoch, New Carlisle, 2025-06-23: 15.08 bn$"),
    ("7 buildings x 65 MW IT of trainium2", "chips", 500e3, 610e3, "training-systems C072: 540 to 610 thousand"),
    ("$6bn a year at $2.50 per GPU-hour of h100-sxm5-80gb", "chips", 273e3, 275e3, "training-systems C077"),
    ("200K chips of gb200-gpu", "h100e_bf16", 500e3, 510e3, "training-systems C063"),
    ("16K superchips of gb200-gpu", "h100e_bf16", 80e3, 82e3, "training-systems C059"),
    ("16K GB200 superchips", "h100e_bf16", 80e3, 82e3, "training-systems C059, as people write it"),
    ("85K dies of gb200-gpu", "chips", 42.5e3, 42.5e3, "training-systems C066: 42.5 thousand chips"),
]


def quantity(text: str, name: str) -> float:
    """Median of a quantity of a described system."""
    system = described_system(text)
    found: dict[str, Any] = {
        "capex_usd": system.capex_usd, "chips": system.chips, "h100e_bf16": system.h100e("bf16"),
        "h100e_8bit": system.h100e("fp8"), **system.power_w,
    }  # fmt: skip
    return median(found[name])


@pytest.mark.parametrize(("text", "name", "low", "high", "where"), GOLDEN)
def test_a_described_system_is_as_published(text: str, name: str, low: float, high: float, where: str) -> None:
    assert low <= quantity(text, name) <= high, where


@pytest.mark.parametrize("accelerator_id", accelerator_ids())
def test_what_is_given_comes_back_exact(accelerator_id: str) -> None:
    """Power in, power out; money in, money out; on every chip."""
    for text, name, value in (
        ("100 MW facility", "facility", 1e8),
        ("100 MW IT", "it", 1e8),
        ("$1bn", "capex_usd", 1e9),
    ):
        assert quantity(f"{text} of {accelerator_id}", name) == pytest.approx(value, rel=1e-9)
    system = described_system(f"1000 chips of {accelerator_id}")
    power = system.power_w
    assert np.all(power["chip"] < power["it"]) and np.all(power["it"] <= power["facility"])
    chip = load_accelerator(accelerator_id)
    assert system.dies == 1000 * chip.dies
    assert flop_per_month(system)["bf16"] == cluster_flop(1000.0, 2629800.0, chip.peak("bf16"), 0.4)


def test_parts_of_a_mixed_system_add_up() -> None:
    whole = described_system("3K chips of h100-sxm5-80gb + 2K chips of gb200-gpu")
    parts = [described_system(f"{n} chips of {chip}") for n, chip in (("3K", "h100-sxm5-80gb"), ("2K", "gb200-gpu"))]
    assert median(whole.chips) == 5000
    assert median(whole.peak_flop_per_s("bf16")) == sum(median(one.peak_flop_per_s("bf16")) for one in parts)
    assert whole.precisions == ("bf16", "fp8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("100K GB200", "253K H100-equivalents .bf16.; as superchips: 200K chips, 505K"),
        ("400 MW", "does not say at which boundary"),
        ("400 MW rack of gb200-gpu", "knows no boundary 'rack'"),
        ("100K chips of gb201", "gb20"),
        ("10 superchips of h100-sxm5-80gb", "no superchip"),
        ("0 MW IT of gb200-gpu", "more than 0"),
        ("400 MW facility of", "of which accelerator"),
        ("$6bn a year of gb200-gpu", "needs a price"),
        ("much", "not understood"),
        ("", "describes nothing"),
        ("7 buildings x 100K chips of gb200-gpu", "described by its power"),
    ],
)
def test_bad_descriptions_get_one_clear_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        parse_description(text)
    assert "\n" not in str(error.value)


def test_money_and_counts_in_words() -> None:
    assert parse_description("$10 billion of gb200-gpu") == parse_description("$10bn of gb200-gpu")
    assert parse_description("1 million chips of gb200-gpu")[0].amount == 1e6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["systems", "400 W facility of gb200-gpu"], "less than one chip"),
        (["forecast", "1e40"], "must be at most 1e+35"),
        (["sites", "--site", "OpenAI Stargate Abiline"], "did you mean"),
        (["spread", "--params", "1B", "--step", "6s", "--distance-km", "-3"], "--distance-km '-3': must"),
        (["growth", "--first", "2026-08-01"], "0 points of the largest training run"),
    ],
)
def test_bad_questions_get_one_clear_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["frontier", *arguments])
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2 and said in line


def test_a_run_spends_its_budget() -> None:
    for moe in (None, MIXTURE):
        run = trainable(np.array([1e24, 1e27]), 1e7, moe)
        assert 6 * run.n_params_active * run.tokens == pytest.approx([1e24, 1e27])
        assert run.steps * run.step_s == pytest.approx([1e7, 1e7])
    longer = trains(described_system("1K chips of h100-sxm5-80gb"), 8 * MONTH_S)["dense"]
    assert longer.flop == pytest.approx(8 * flop_per_month(described_system("1K chips of h100-sxm5-80gb"))["bf16"])


def test_repetition_is_worth_what_its_authors_print() -> None:
    """Muennighoff et al. 2023: four epochs 0.931 a token, sixteen 0.661; never more than the fresh text."""
    assert float(worth_tokens_muennighoff_2023(4.0, 1.0)) / 4 == pytest.approx(0.931, abs=5e-4)
    assert float(worth_tokens_muennighoff_2023(16.0, 1.0)) / 16 == pytest.approx(0.661, abs=5e-4)
    tokens = np.geomspace(0.1, 1e4, 50)
    worth = worth_tokens_muennighoff_2023(tokens, 1.0)
    assert np.all(worth <= tokens * (1 + 1e-12)) and np.all(np.diff(worth) >= 0) and worth.max() < 17


def test_several_sites_as_the_documents_count_them() -> None:
    """training-systems C095, C096, C161: 1.6 TB each way, 13 Tbit/s in a second, 2.2 in the whole step."""
    one = estimate_spread(Spread(405e9, 6.0), 1.0)
    assert one.exchange_bytes == pytest.approx(1.62e12) and 8 * one.bytes_per_s == pytest.approx(12.96e12)
    assert 8 * one.least_bytes_per_s == pytest.approx(2.16e12)
    local = estimate_spread(Spread(405e9, 6.0, local_steps=100.0), 1.0)
    assert local.least_bytes_per_s == pytest.approx(one.least_bytes_per_s / 100)
    assert local.slowdown_ratio < one.slowdown_ratio
    with pytest.raises(InputError, match="light alone"):
        estimate_spread(Spread(405e9, 6.0, distance_metres=1e7), 0.01)


def test_what_changes_the_links() -> None:
    """Larger models on more chips and shorter steps need more; local steps and compression less, by what they say."""
    found = levers(Spread(405e9, 6.0), 1.0)
    rates = [float(one.bytes_per_s / found["as asked"].bytes_per_s) for one in found.values()]
    assert rates == pytest.approx([1.0, 4.0, 1.0, 2.0, 0.01, 1 / 8, 1 / 800])
    assert [one.slowdown_ratio for one in found.values()] == pytest.approx([7 / 6] * 7)


def test_larger_domains_make_shorter_steps_and_wider_links(run_json: Any) -> None:
    spread = ("frontier", "spread", "--params", "4T", "--system", "gb200-nvl72", "--gpus", "64K", "--json")
    critical = run_json(*spread)
    assert critical["batch_tokens"] == pytest.approx(float(critical_batch_tokens(optimal_tokens(4e12))))
    document = run_json(*spread, "--batch-tokens", "16.8M")
    assert [one["n_scale_up"] for one in document["domains"]] == [8, 72, 576]
    steps = [one["step_s"] for one in document["domains"]]
    assert steps == sorted(steps, reverse=True) and steps[0] > 2 * steps[1]
    rates = [one["links"]["bytes_per_s"] for one in document["domains"]]
    assert rates == pytest.approx([rates[0] * steps[0] / step for step in steps])
    assert document["site_step_s"] == steps[1]
    both = run_json(*spread, "--step", "6s", "--exchange", "1s", "--batch-tokens", "16.8M")
    assert both["bytes_per_s"] == pytest.approx(16e12) and both["domains"] == document["domains"]


def test_the_sheet_of_deepseek_v3_shows_the_conflict() -> None:
    """The report: 2.664M H800-hours, 37B active, 14.8T tokens; a thread says 5e24."""
    lines = model_sheet("deepseek-v3", Spending("h800-sxm5-80gb", claimed_flop=5e24))
    by_side = {line.side: line for line in lines}
    assert by_side["parameters"].flop == pytest.approx(6 * 37e9 * 14.8e12)
    assert by_side["hardware"].utilization_fraction == pytest.approx(0.346, abs=0.001)
    assert [line.side for line in lines if not line.agrees] == ["claimed"]


def test_published_hours_are_hours_of_the_published_chip(run_json: Any) -> None:
    """No conflict comes of taking H800-hours for those of another chip; a chip that is asked for is taken."""
    sheet = run_json("frontier", "sheet", "deepseek-v3", "--json")
    assert (sheet["accelerator"], sheet["accelerator_ground"]) == ("h800-sxm5-80gb", "as published")
    assert sheet["reconciled"]
    asked = run_json("frontier", "sheet", "deepseek-v3", "--accelerator", "gb200-gpu", "--json")
    assert asked["accelerator"] == "gb200-gpu" and not asked["reconciled"]


def test_runs_and_sites_answer_from_python_as_the_commands_do(run_json: Any, tmp_path: Path) -> None:
    for command, found in (
        (("spread", "--params", "405B", "--step", "6s"), cl.spread(params="405B", step="6s")),
        (("sheet", "llama-3.1-405b", "--usd", "$60M"), cl.flop_sheet(model="llama-3.1-405b", usd=60e6)),
        (("schedule", "2025-01-15", "--delivery", "1..2 months"),
         cl.schedule(start="2025-01-15", delivery="1..2 months")),
        (("sites", "--lab", "OpenAI"), cl.sites(lab="OpenAI")),
        (("growth", "--years", "2"), cl.growth(years=2)),
        (("backtest", "--cutoff", "2024-06-30"), cl.backtest(cutoff="2024-06-30")),
    ):  # fmt: skip
        page = tmp_path / f"{command[0]}.html"
        assert json.loads(json.dumps(found.to_dict(working=True), default=float)) == run_json(
            "frontier", *command, "--html", str(page), "--json"
        )
        assert found.view().title in page.read_text("utf-8")
    with pytest.raises(InputError, match=r"^system and gpus"):
        cl.spread(params="4T", gpus=8)


def test_every_training_systems_claim_is_reproduced(shared_data: Path) -> None:
    """All 94 rows go through the project's formulas; what is computed lies where the study expects it.

    C100 apart: the study restated the claim, which rested on a peak of Rubin that nobody announced.
    """
    with (shared_data / "source_claims.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["id"]: row for row in csv.DictReader(stream) if row["document"] == "training-systems"}
    assert len(rows) == 94
    checked = check_claims(rows)
    computed = [one for one in checked if one.recomputed is not None]
    for one in computed:
        if one.claim.id == "C100":
            continue
        low, high = (rows[one.claim.id][name] for name in ("expected_low", "expected_high"))
        assert not low or one.recomputed[1] >= 0.99 * float(low), one.claim.id
        assert not high or one.recomputed[0] <= 1.01 * float(high), one.claim.id
    assert len(computed) + sum(one.claim.evidence is not None or bool(one.claim.status) for one in checked) == 94


def test_the_contract_of_the_command(run_json: Any) -> None:
    document = run_json("frontier", "systems", "400 MW facility of gb200-gpu", "--json")
    wanted = {"chips", "dies", "h100e_bf16", "h100e_8bit", "power_w", "capex_usd", "flop_per_month", "trains", "rl"}
    assert wanted | {"serves"} <= set(document)
    assert set(document["power_w"]) == {"chip", "it", "facility"}
    assert set(document["flop_per_month"]) == {"bf16", "fp8", "fp4"}
    assert document["rl"]["fits_scale_up"] is True
    assert json.dumps(document)
