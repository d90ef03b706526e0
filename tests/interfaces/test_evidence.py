"""Is it right: beside every answer what was measured of its kind, or that nothing was; published beside modelled."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient

import computeledger as cl
from computeledger.interfaces.view import Cell, View
from computeledger.interfaces.views import _MODULES
from computeledger.interfaces.views.evidence import unmeasured
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages import page_named
from computeledger.questions.wording import percent, words
from computeledger.validation.published.real_systems import real_systems

#: Answers that are checks or measurements themselves, lists, or carry evidence of their own.
_CHECKS = {
    "AccuracyAnswer", "BacktestAnswer", "BooksAnswer", "CalibrateAnswer", "ClaimsAnswer", "ContributeAnswer",
    "CoverageAnswer",
    "EntryAnswer", "FitAnswer", "GuideAnswer", "LawsAnswer", "PriceCheckAnswer", "PriceListAnswer", "PublishedAnswer",
    "ReconcileAnswer", "RewardAnswer", "RouteCheckAnswer", "RunsAnswer", "ValidateAnswer", "WatchAnswer",
}  # fmt: skip
_OWN = {"ClosedModelAnswer", "InvertAnswer", "MemoryAnswer", "PoolsAnswer", "PretrainAnswer", "QualitySizeAnswer",
        "RLAnswer", "ServeAnswer", "ThinkAnswer"}  # fmt: skip


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


def test_every_kind_of_answer_says_whether_it_is_right() -> None:
    kinds = set(_MODULES)
    assert {name for name in kinds if unmeasured(name) is None} == _CHECKS | _OWN


def test_a_serving_answer_names_three_measurements_with_what_is_predicted_of_each() -> None:
    document = cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=16).to_dict()
    near = document["measured_alike"]["nearest"]
    assert len(near) == 3 and all(one["url"].startswith("https://") for one in near)
    assert all(one["p05"] < one["p50"] < one["p95"] and one["measured"] > 0 for one in near)
    view: View = cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=16).view()
    assert view.evidence is not None
    alike = document["measured_alike"]
    speed, text = alike["by"]["tpot"], view.evidence.text
    assert speed["n"] < 8 <= alike["steps"]["n"]  # too few times per token: with all rates
    within = words(alike["steps"]["median_abs_error"], "fraction", 2)
    assert text.startswith(f"Speed within ±{within} in half of the cases; the 90\u00a0% range held ")
    assert f"held {percent(alike['steps']['coverage_90'], 2)} of {alike['steps']['n']} speeds measured like it." in text
    within = words(speed["median_abs_error"], "fraction", 2)
    assert f"time per token within {within} in half of {speed['n']} figures (90" in view.evidence.details
    assert [row[-1].href for row in view.evidence.tables[0].rows if isinstance(row[-1], Cell)] == [
        one["url"] for one in near
    ]


def test_the_verdict_comes_of_the_interval_and_of_what_was_measured() -> None:
    """On H200 the speed is trusted as far as measurements go; where intervals held too few, it says so."""
    asked: dict[str, Any] = {"model": "deepseek-v3", "layout": "tp8", "batch": 16, "samples": 64}
    answer = cl.serve(system="h200-nvl8", **asked)
    cost, alike = answer.to_dict()["usd_per_mtok_output"], answer.to_dict()["measured_alike"]
    text = answer.view().evidence.text
    factor = (cost["p95"] / cost["p05"]) ** 0.5
    assert f"Trust the cost to a factor of {factor:.2g} in nine of ten cases; do not rely on the time to first" in text
    assert text.startswith(f"Speed within ±{alike['tpot']:.0%}".replace("%", "\u00a0%"))
    asked = {"model": "llama-3.1-8b", "precision": "gguf-q4_k_m", "backend": "llama.cpp", "batch": 1, "samples": 64}
    answer = cl.serve(system="1xa100-sxm4-80gb", layout="tp1", **asked)
    held = answer.to_dict()["measured_alike"]["steps"]["coverage_90"]
    text = answer.view().evidence.text
    assert held < 0.6 and text.startswith("Trust neither cost nor speed") and f"only {percent(held)}" in text


def test_an_answer_leads_with_the_side_to_which_its_own_engine_was_off() -> None:
    """One figure: where the nearest of the engine were all slower, no symmetric error stands beside it."""
    answer = cl.serve(model="deepseek-v3", system="h200-nvl8", samples=64)
    alike, text = answer.to_dict()["measured_alike"], answer.view().evidence.text
    shares = sorted(1 - one["p50"] / one["measured"] for one in alike["nearest"])
    assert shares[0] > 0 and {one["engine"] for one in alike["nearest"]} == {"vllm"}
    low, high = (percent(one, 2).removesuffix("\u00a0%") for one in (shares[0], shares[-1]))
    speed = alike["by"]["tpot"]
    assert speed["coverage_90"] == 1.0
    held = f"The 90\u00a0% range held all {speed['n']} speeds measured like it."
    ends, cost = alike["likely_usd_per_mtok_output"], answer.to_dict()["usd_per_mtok_output"]["p50"]
    assert [ends["low"], ends["high"]] == pytest.approx([cost / (1 - one) for one in (shares[0], shares[-1])])
    about = " to ".join(words(ends[end], "USD", 2) for end in ("low", "high"))
    assert text.startswith(
        f"Expect {low} to {high}\u00a0% fewer tokens/s than shown, so dearer tokens (about {about}), "
    )
    assert [one["model"] for one in alike["nearest"]].count("deepseek-ai/DeepSeek-R1") == 1  # of its own shape
    assert f"as in the nearest 3 measurements (2 of them of other models). {held}" in text
    assert "nearest 3 measured with vLLM, below, were all slower than predicted" in answer.view().evidence.details
    assert "They do not correct the answer: " in answer.view().evidence.details
    assert "±" not in text


def test_each_link_leads_to_the_figures_that_its_words_count(client: TestClient) -> None:
    """What the block counts of deployments like this one, and of its own model and chip, the pages list."""
    answer = cl.serve(model="deepseek-v3", system="h200-nvl8", layout="tp8", batch=16, samples=64)
    alike, evidence = answer.to_dict()["measured_alike"], answer.view().evidence
    assert evidence is not None
    listed = _accuracy_at(evidence.address)
    for name, one in alike["by"].items():
        assert (listed[name]["n"], listed[name]["median_abs_error"]) == pytest.approx(
            (one["n"], one["median_abs_error"]), rel=1e-6
        )
    assert listed["n"] == alike["n"] == sum(one["n"] for one in alike["by"].values())
    ((words, address),) = evidence.links
    n = _accuracy_at(address)["n"]
    for link in (address, evidence.address):  # the page takes what the links choose
        assert f"{_accuracy_at(link)['n']} measurements" in client.get(f"/view{link}").json()["context"]
    assert n == alike["n_same_model_and_chip"] and f"All {n} figures of DeepSeek-V3" in words


def _accuracy_at(address: str) -> dict[str, Any]:
    found: dict[str, Any] = cl.accuracy(**dict(parse_qsl(urlsplit(address).query))).to_dict()
    return found


def test_a_published_run_is_named_beside_the_benchmarks_that_there_are() -> None:
    """DeepSeek-V3 on H800: no benchmark, but its makers' own figure; on H100 that is no run of theirs."""
    asked: dict[str, Any] = {"model": "deepseek-v3", "gpus": 2048, "tokens": 14.8e12, "samples": 64}
    texts = {}
    for chip in ("h800", "h100"):
        view = cl.pretrain(system=f"{chip}-nvl8", **asked).view()
        assert view.evidence is not None
        texts[chip] = view.evidence.text
        (row, *_), *_ = (one.rows for one in view.tables if one.title == "Published beside modelled")
        assert row[1] == "2.664M"
        assert ("Published: 2.66M\u00a0GPU-hours" in view.context.replace("M GPU", "M\u00a0GPU")) is (chip == "h800")
    halved = cl.pretrain(system="h800-nvl8", **asked | {"gpus": 1024}).view()
    assert "Published" not in halved.context  # another run than theirs of 2,048
    assert "harder to predict than most" in texts["h800"]
    assert texts["h800"].endswith("No benchmark is of DeepSeek-V3 on H800.")
    assert texts["h100"].endswith("benchmark figures are of DeepSeek-V3, or its shape, on H100.")


def test_what_was_never_measured_is_said_plainly() -> None:
    view: Any = cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8, backend="ideal").view()
    assert view.evidence.text.startswith("No measurement like this one exists")


@pytest.mark.parametrize("page", ["serve", "rl"])
def test_presets_of_real_systems_show_what_was_published_beside_what_is_modelled(page: str, client: TestClient) -> None:
    """The published figures of each lie within a third of the modelled ones, and their table leads the page."""
    for one in real_systems(page):
        view = client.get(f"/view/{page}", params=dict(page_named(page).presets[one.name])).json()
        table = view["tables"][0]
        assert table["title"] == "Published beside modelled" and len(table["rows"]) == len(one.figures)
        for row in table["rows"]:
            published, modelled = (float(_number(text)) for text in (row[1], row[2]["text"]))
            assert modelled == pytest.approx(published, rel=0.34)


def _number(text: str) -> float:
    digits = text.replace("\u00a0", " ").split()[0].replace(",", "")
    return float(digits.rstrip("K")) * (1000 if digits.endswith("K") else 1)


def test_life_leads_to_serve_with_the_settings_of_its_plan(client: TestClient) -> None:
    """A token costs about the same on both pages, at the same speed."""
    life = client.get("/view/life").json()
    (speed,) = [one for one in life["plots"] if one["name"] == "speed"]
    assert speed["also"][0] == "Serve with these settings" and "144 H800 at $2 an hour" in speed["caption"]
    served = {one["label"]: one["value"] for one in client.get(f"/view{speed['also'][1]}").json()["tiles"]}
    details = client.get("/api/life").json()["phases"]["inference"]["details"]
    assert served["Output cost"] == pytest.approx(details["inference: usd_per_mtok_output"]["p50"], rel=0.15)
    assert served["Speed for one user"] == pytest.approx(1 / details["inference: tpot_s"]["p50"], rel=0.05)


def test_a_sampled_token_is_compared_at_a_share_of_the_peak_that_is_told() -> None:
    answer = cl.rl(model="qwen3-8b", system="h100-nvl8", gpus=16, rollout_tokens="1K", mfu="0.3", samples=16)
    document = answer.to_dict(working=True)
    (figure,) = [one for one in document["working"] if one["name"] == "rl.gpu_time_beside_pretraining"]
    terms = {one["name"]: one for one in figure["terms"]}
    share, peak = terms["share of the peak in pretraining"], terms["dense bf16 peak of H100"]
    assert share["value"] == document["assumptions"]["pretraining_mfu"] == 0.3 and peak["ground"]
    made = 6 * terms["N, active parameters"]["value"] / (share["value"] * peak["value"])
    assert terms["GPU-s per pretraining token"]["value"] == pytest.approx(made)
    used = "if each is used 10 times"
    assert any(used in one for one in answer.view().notes)
