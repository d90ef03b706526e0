"""Whose deployment: tuning, the age of the engine's release, and what both do to an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import IDEAL, efficiency
from computeledger.physics.calibration.serving import calibrated_engines, load_calibration
from computeledger.questions.wording import accuracy_command
from computeledger.validation.accuracy.table import kinds_of
from computeledger.workloads.engines.releases import release_month, releases
from computeledger.workloads.serving.intervals import CHIP, interval_at, interval_of

ASKED: dict[str, str | float] = {
    "model": "llama-3.1-70b",
    "system": "h100-nvl8",
    "layout": "tp8",
    "batch": 16,
    "precision": "fp8",
}


def tpot(**further: str | float) -> dict[str, float]:
    found = cl.serve(**ASKED, **further).to_dict()["tpot_s"]
    assert isinstance(found, dict)
    return found


def test_tuning_moves_the_answer_by_its_step_ratio_and_the_two_classes() -> None:
    usual, recipe = (cl.serve(**ASKED, tuning=one).to_dict() for one in ("usual", "recipe"))
    classes = [interval_of(one["interval"]["class"]).tpot for one in (usual, recipe)]
    assert usual["interval"]["class"] != recipe["interval"]["class"]
    widths = [one.high / one.low for one in classes]
    assert widths[0] > widths[1]
    medians = [float(one.quantile(0.0)) for one in classes]
    moved = usual["tpot_s"]["p50"] / recipe["tpot_s"]["p50"]
    assert moved == pytest.approx(efficiency("vllm").step_ratio * medians[0] / medians[1], rel=0.02)
    assert cl.serve(**ASKED).to_dict()["tpot_s"] == usual["tpot_s"]


def test_an_older_release_is_slower_and_the_newest_measured_is_the_default() -> None:
    by_month = [tpot(backend_version=month)["p50"] for month in ("2024-06", "2025-06", "2026-06")]
    assert by_month == sorted(by_month, reverse=True)
    assert by_month[0] > by_month[-1]
    assert tpot(backend_version=load_calibration().newest_month) == tpot()
    assert tpot(backend_version="0.12.0") == tpot(backend_version="2025-12")


def test_only_launch_floors_age() -> None:
    now, before = efficiency("vllm"), efficiency("vllm", years=-2.0)
    gain = now.floor_gain_per_year
    years = load_calibration().newest_years + 2.0
    assert before.floor_ratio / now.floor_ratio == pytest.approx(pow(2.718281828459045, float(gain) * years))
    rest = replace(before, floor_ratio=now.floor_ratio)
    assert rest == now
    assert IDEAL.after(-10.0) == IDEAL


def test_releases_are_ordered_by_day_as_by_version() -> None:
    for engine, listed in releases().items():
        stable = [one for one in listed if one.replace(".", "").isdigit()]
        for version in stable:
            assert release_month(engine, version) == listed[version][:7], (engine, version)
    assert set(calibrated_engines()) <= set(releases())
    assert release_month("vllm", "0.12.0rc1") == release_month("vllm", "0.11.2") == "2025-11"
    assert release_month("vllm", "0.999.0") == max(releases()["vllm"].values())[:7]


@pytest.mark.parametrize("said", ["latest", "2026-13", "", "v", "2030-01", "2020-01"])
def test_a_release_that_is_none_gets_one_line(said: str) -> None:
    with pytest.raises(InputError, match=r"backend_version .*expected a release of vllm or a month"):
        cl.serve(**ASKED, backend_version=said)


def test_usual_steps_are_slower_by_one_ratio_and_other_makers_chips_by_their_own() -> None:
    """What other people's sources say lies in three places of the calibration, each applied once."""
    recipe, usual = (efficiency("sglang", tuning=one) for one in ("recipe", "usual"))
    assert (recipe.step_ratio, usual.step_ratio) == (1.0, recipe.usual_step_ratio)
    assert usual.admission_steps == recipe.usual_admission_steps < recipe.admission_steps
    published = efficiency("sglang", tuning="published")
    assert (published.step_ratio, published.admission_steps) == (1.0, usual.admission_steps)
    for maker, entry in load_calibration().makers.items():
        assert entry["effect"] > 0, maker
    moved, plain = (interval_at(CHIP, load_system(one)) for one in ("8xascend-910b", "8xrtx4090"))
    effect = load_calibration().makers["Huawei"]["effect"]
    assert moved.tpot.high / plain.tpot.high == pytest.approx(effect)
    assert moved.ttft == plain.ttft


def test_a_burst_and_an_engine_never_fitted_keep_their_classes_whatever_the_tuning() -> None:
    for tuning in ("usual", "recipe"):
        burst = cl.serve(**ASKED | {"batch": 64}, rounds=1, tuning=tuning).to_dict()["interval"]["class"]
        assert burst == "one burst"
        strange = cl.serve(**ASKED, backend="tgi", tuning=tuning).to_dict()["interval"]["class"]
        assert strange == "engine never fitted"


def test_the_answer_names_the_measurements_that_are_most_like_it() -> None:
    found = cl.serve(**ASKED).to_dict()["measured_alike"]
    assert found["what"].startswith("usual vllm") and found["n"] >= 8 and 0 < found["tpot"] < 1
    assert "measured_alike" not in cl.serve(**ASKED, backend="ideal").to_dict()


def test_rates_of_steps_count_and_a_burst_is_set_beside_bursts() -> None:
    """The line of measurements alike and the page of accuracy count the same figures."""
    steady = cl.serve(**ASKED).to_dict()["measured_alike"]
    named = dict(zip(("tuning", "engine", "accelerator"), steady["what"].split(), strict=False))
    kinds = [row["quantity"] for row in kinds_of(cl.accuracy(**named, load="clients").table.rows)]
    assert steady["steps"]["n"] == kinds.count("step") > steady["by"]["tpot"]["n"]
    burst = cl.serve(**ASKED | {"batch": 64}, rounds=1).to_dict()["measured_alike"]
    assert (burst["load"], steady["load"]) == ("burst", "clients")
    assert "--load burst" in accuracy_command(burst) and "--load clients" in accuracy_command(steady)
