"""Offers for one workload: figures are those of serve, the order is that of cost, and how sure it is is measured."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.arrays import Range
from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.interfaces.fitting import Page
from computeledger.interfaces.tables import new_table
from computeledger.interfaces.views.compare_words import chance_words, kept_words
from computeledger.physics.parallelism import Layout
from computeledger.questions.answers.compare import recommended_place
from computeledger.questions.answers.serving.offers import read_offers
from computeledger.units import HOURS_PER_MONTH, MONTH_S
from computeledger.validation.accuracy.offers import fit_offer_errors, offer_coverage, recipe_pairs, usual_pairs
from computeledger.workloads.serving.offers import (
    Deployed,
    Priced,
    PromisedFleet,
    chances,
    cheaper_probability,
    cheapest_probabilities,
    fleet_priced,
    load_offer_errors,
)

LOAD: dict[str, Any] = {"model": "llama-3.1-8b", "input_tokens": 1024, "output_tokens": 256, "requests_per_s": 30}
PROMISE: dict[str, Any] = {"ttft": "p95:1s", "tpot": "p95:30ms"}
SHEET = """
name = "a sheet"
currency = "EUR"
usd_per_unit = 1.25
rate_date = 2026-11-20
[price]
input = 2.0
output = 8.0
"""


def deployed(chip: str = "h100", engine: str = "vllm", weights: str = "fp8", spread: float = 0.3) -> Deployed:
    return Deployed("llama", chip, engine, weights, "usual", Layout(tp=8), 64.0, spread)


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("sheets") / "sheet.toml"
    path.write_text(SHEET)
    return str(path)


@pytest.fixture(scope="module")
def tables(sheet: str) -> dict[str, Any]:
    """Two systems with a promise, one that cannot keep it, and a price sheet."""
    offers = [
        {"system": "h100-nvl8", "price": 2.5},
        {"name": "H200", "system": "h200-nvl8", "price": Range(2.0, 4.0)},
        {"name": "L4", "system": "8xl4", "tpot": "p95:5ms"},
        {"name": "sheet", "api": sheet},
    ]
    return {"workload": LOAD, "promise": PROMISE, "offer": offers}


@pytest.fixture(scope="module")
def answer(tables: dict[str, Any]) -> Any:
    return cl.compare(tables)


# --- the figures ------------------------------------------------------------------------------------------------------


def test_an_offer_is_what_serve_answers(answer: Any) -> None:
    found = next(one for one in answer.to_dict()["offers"] if one["name"] == "h100-nvl8")
    alone = cl.serve(**LOAD, **PROMISE, system="h100-nvl8", price=2.5).to_dict()
    for name in ("usd_per_request", "replicas", "gpus", "attained", "layout", "joules_per_token"):
        assert found[name] == alone[name], name
    assert found["kept_probability"] == alone["promise"]["kept_probability"]
    assert found["w"] == alone["facility_w"]


@pytest.mark.parametrize(
    ("chance", "limit", "meets", "said"),
    [
        (0.64, "p95 ttft", None, ["A keeps the limits with a chance of 64 %."]),
        (0.64, None, {"tpot": {}}, ["A keeps the limits with a chance of 64 %."]),
        (0.64, None, None, ["A carries the load with a chance of 64 %."]),
        (0.31, None, {"tpot": {}}, ["A keeps the limits at the medians alone: with a chance of at most 31 %."]),
        (0.9, "p95 ttft", None, []),
        (None, None, None, []),
    ],
)
def test_the_context_says_how_surely_the_cheapest_keeps_its_promise(
    chance: float | None, limit: str | None, meets: Any, said: list[str]
) -> None:
    offer = {"name": "A", "kept_probability": chance, "tightest_limit": limit, "meets": meets}
    assert kept_words(offer) == said


def test_a_month_and_a_currency_by_hand(answer: Any) -> None:
    by_name = {one["name"]: one for one in answer.to_dict()["offers"]}
    own, api = by_name["h100-nvl8"], by_name["sheet"]
    month_h = 365.25 * 24 / 12
    assert own["usd_per_month"] == pytest.approx(2.5 * own["gpus"] * month_h)
    assert own["usd_per_request"] == pytest.approx(2.5 * own["gpus"] / 3600 / 30)
    assert own["gpus_with_spare"] == own["gpus"] // own["replicas"] * (own["replicas"] + 1)
    a_request = 1.25 * (1024 * 2.0 + 256 * 8.0) / 1e6
    assert api["usd_per_request"] == pytest.approx(a_request)
    assert api["usd_per_month"] == pytest.approx(a_request * 30 * month_h * 3600)
    assert api["usd_per_mtok"] == pytest.approx(1e6 * a_request / 1280)
    volume = next(one for one in answer.to_dict()["break_even"] if one.get("offer") == "h100-nvl8" and "api" in one)
    assert volume["requests_per_month"] * a_request == pytest.approx(own["at_90_percent"]["usd_per_month"])


def test_at_the_price_that_breaks_even_two_offers_cost_the_same(answer: Any) -> None:
    found = [one for one in answer.to_dict()["break_even"] if one["kind"] == "price"]
    own = [one for one in answer.to_dict()["offers"] if one["kind"] == "gpus" and one["rank"]]
    first, second = sorted(own, key=lambda one: float(one["at_90_percent"]["usd_per_month"]))
    assert first["is_recommended"], "both keep the promise with 90 %"
    even = next(one for one in found if one["offer"] == second["name"])
    month_h = 365.25 * 24 / 12
    at_even = even["equal_usd_per_gpu_hour"] * second["at_90_percent"]["gpus"] * month_h
    assert at_even == pytest.approx(first["at_90_percent"]["usd_per_month"])


def test_offers_come_by_cost_and_those_without_an_answer_last(answer: Any, tables: dict[str, Any]) -> None:
    found = answer.to_dict()["offers"]
    ranked = [one for one in found if one["rank"]]
    assert [one["usd_per_request"] for one in ranked] == sorted(one["usd_per_request"] for one in ranked)
    assert found[-1]["name"] == "L4" and "no layout" in found[-1]["why"] and len(found) == len(tables["offer"])


def test_the_order_of_a_file_does_not_matter() -> None:
    offers = [{"system": one, "gpus": 8, "price": 2} for one in ("h100-nvl8", "a100-nvl8", "h200-nvl8")]
    one, other = (cl.compare({"workload": {"model": "llama-3.1-8b"}, "offer": each}) for each in (offers, offers[::-1]))
    assert one.to_dict() == other.to_dict()


def test_a_dominated_offer_never_wins() -> None:
    """The same deployment at a higher price is never the cheaper one; lists multiply an offer."""
    offers = [{"system": "h100-nvl8", "backend": ["vllm", "sglang"], "price": [2, 3], "gpus": 8}]
    found = cl.compare({"workload": {"model": "llama-3.1-8b"}, "offer": offers})
    rows = {one["name"]: one for one in found.to_dict()["offers"]}
    assert len(rows) == 4
    assert rows["h100-nvl8, vllm, $2/h"]["cheaper_probability"]["h100-nvl8, vllm, $3/h"] == 1.0
    assert 0.5 < rows["h100-nvl8, sglang, $2/h"]["cheaper_probability"]["h100-nvl8, vllm, $3/h"] < 1.0


def test_owning_is_the_hosting_economics_of_cost() -> None:
    terms = {"term": "own", "electricity": 0.05, "occupancy": 0.8}
    (offer,) = read_offers({"workload": {"model": "qwen3-8b"}, "offer": [{"system": "h100-nvl8", **terms}]}).each
    cost = cl.cost(system="h100-nvl8", kind="own", electricity=0.05, occupancy=0.8).usd_per_gpu_hour["own"]
    assert offer.question is not None and isinstance(offer.question.price, Range)
    assert (offer.question.price.low, offer.question.price.high) == (cost.p05, cost.p95)


def test_files_are_read_from_the_folder_of_the_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sheet beside the file of offers is found from anywhere; one that is missing is refused before any work."""
    (tmp_path / "sheet.toml").write_text(SHEET, encoding="utf-8")
    file = tmp_path / "offers.toml"
    monkeypatch.chdir(tmp_path.parent)
    text = '[workload]\nmodel = "llama-3.1-8b"\ninput_tokens = 100\noutput_tokens = 10\n[[offer]]\napi = "sheet.toml"\n'
    file.write_text(text, encoding="utf-8")
    (found,) = cl.compare(str(file)).offers
    assert found.offer.name == "sheet.toml" and found.served.usd_per_request > 0
    file.write_text(text.replace("sheet.toml", "none.toml") + '[[offer]]\nsystem = "h100-nvl8"\n', encoding="utf-8")
    monkeypatch.setattr("computeledger.questions.answers.compare.answer_serve", lambda question: pytest.fail("worked"))
    with pytest.raises(InputError, match=r"offers.toml:6: offer 1: api: none.toml: no such file"):
        cl.compare(str(file))


def test_a_named_workload_gives_an_api_its_mean_lengths(sheet: str) -> None:
    shared: dict[str, Any] = {"model": "llama-3.1-8b", "workload": "azure-conv-2023", "requests_per_s": 10}
    own = cl.serve(**shared, system="h100-nvl8", layout="tp1").to_dict()
    found = cl.compare(
        {"workload": shared, "offer": [{"system": "h100-nvl8", "layout": "tp1"}, {"name": "sheet", "api": sheet}]}
    ).to_dict()["offers"]
    rows = {one["name"]: one for one in found}
    come, written = (float(own[name]) for name in ("input_tokens", "output_tokens"))
    assert rows["h100-nvl8"]["usd_per_request"] == own["fleet"]["usd_per_request"]
    assert rows["sheet"]["usd_per_request"] == pytest.approx(1.25 * (round(come) * 2.0 + round(written) * 8.0) / 1e6)


def test_two_pools_are_an_offer_and_processes_change_nothing(tmp_path: Path) -> None:
    """A script needs no guard for its main part: processes do not run it again."""
    shared = {key: one for key, one in LOAD.items() if key != "requests_per_s"}
    tables = {"workload": shared, "offer": [{"system": "h100-nvl8", "mode": ["disaggregated", "aggregated"]}]}
    here = cl.compare(tables, workers=1).to_dict()
    script = tmp_path / "plain.py"
    asked = f"cl.compare({tables!r}, workers=2).to_dict()"
    script.write_text(f"import json\nimport computeledger as cl\nprint(json.dumps({asked}))\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(json.dumps(here))
    found = next(one for one in here["offers"] if one["name"] == "h100-nvl8, disaggregated")
    alone = cl.serve(**shared, system="h100-nvl8", mode="disaggregated").to_dict()
    costs = [alone[f"usd_per_mtok_{kind}"]["p50"] * LOAD[f"{kind}_tokens"] / 1e6 for kind in ("input", "output")]
    assert found["usd_per_request"] == pytest.approx(sum(costs)) and found["layout"] == alone["layout"]


def test_a_cost_moves_in_whole_replicas_and_steeply_where_a_promise_is_tight() -> None:
    on = deployed(spread=0.3)
    fleet = fleet_priced(1.0, PromisedFleet(4, 0.1, 3.0), on)
    scores = np.linspace(-2, 2, 41)
    replicas = 4 * fleet.costs(0.3 * scores)
    assert np.allclose(replicas, np.round(replicas)) and np.all(np.diff(replicas) >= 0)
    assert fleet.costs(0.3 * 1.2816) == pytest.approx(3.0) and fleet.costs(0.0) == 1.0
    pools = fleet_priced(1.0, PromisedFleet(None, 0.1, 3.0), on)
    assert pools.costs(0.3 * 1.2815515655446004) == pytest.approx(3.0)
    assert pools.costs(-0.3) == pytest.approx(np.exp(-0.3)), "faster times spare GPUs in proportion, no more"
    never = fleet_priced(1.0, PromisedFleet(4, 0.1, None), on)
    assert np.isinf(never.costs(0.3 * 1.3)) and np.isfinite(never.costs(0.3 * 1.2))


# --- how sure an order is ---------------------------------------------------------------------------------------------


def test_a_load_that_hardly_is_one_takes_a_whole_replica() -> None:
    """One request in thirty years: the price is that of one replica, whatever times are (it was no number)."""
    one = Priced(2.0, load=1e-12, deployed=deployed())
    assert one.costs(np.log([0.5, 1.0, 2.0])).tolist() == [2.0, 2.0, 2.0]


def test_chances_add_up_to_one_and_equals_are_open() -> None:
    offers = [
        Priced(1.0, 2.3, deployed=deployed()),
        Priced(1.1, 4.7, 1.5, deployed=deployed("b200"), price_spread=0.2, price_of="b200"),
        Priced(0.9, deployed=deployed(engine="sglang")),
        Priced(1.2, 3.2, 1.0, 1.28, deployed(weights="fp4")),
        Priced(1.05),
    ]
    for one in offers:
        assert cheaper_probability(one, one) == 0.5
        for other in offers:
            both = cheaper_probability(one, other) + cheaper_probability(other, one)
            assert both == pytest.approx(1.0, abs=1e-12)
    table = chances(offers)
    assert np.allclose(table + table.T, 1.0)


def test_what_is_shared_moves_no_order() -> None:
    """However uncertain times are, of one deployment only prices differ; the less two share, the less is certain."""
    for spread in (0.05, 1.0):
        same = (Priced(usd, deployed=deployed(spread=spread)) for usd in (1.0, 1.01))
        assert cheaper_probability(*same) == 1.0
    others = [deployed(weights="fp4"), deployed("b200"), deployed("b200", "sglang"), deployed("b200", "sglang", "fp4")]
    sure = [cheaper_probability(Priced(1.0, deployed=deployed()), Priced(1.3, deployed=one)) for one in others]
    assert sure == sorted(sure, reverse=True) and sure[0] > sure[-1] > 0.5
    own = Priced(1.0, deployed=deployed(spread=0.3))
    assert cheaper_probability(own, Priced(1.0)) == pytest.approx(0.5, abs=0.01), "an API shares no error"
    assert cheaper_probability(own, Priced(np.exp(0.3))) == pytest.approx(0.841, abs=0.01)
    ranges = [Priced(usd, deployed=deployed(), price_spread=0.3, price_of=of) for usd, of in ((1.0, "a"), (1.1, "a"))]
    assert cheaper_probability(*ranges) == 1.0, "one price list moves both"


def test_offers_of_the_law_itself_are_ranked_as_often_as_it_says() -> None:
    """Simulated truths: of pairs that are ranked with a chance, that share is ranked rightly."""
    rng = np.random.default_rng(0)
    one, other = deployed(spread=0.5), deployed("b200", spread=0.5)
    log_ratio = rng.normal(0.0, 0.4, 400)
    said = np.array(
        [cheaper_probability(Priced(1.0, deployed=one), Priced(np.exp(x), deployed=other)) for x in log_ratio]
    )
    true = log_ratio + one.apart(other) * rng.standard_t(2, log_ratio.size) > 0
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.01)):
        within = (said >= low) & (said < high)
        assert np.mean(true[within]) == pytest.approx(np.mean(said[within]), abs=0.1)


@pytest.mark.parametrize(
    ("tuning", "pairs", "least"), [("recipe", recipe_pairs, (0.74, 0.87)), ("usual", usual_pairs, (0.77, 0.86))]
)
def test_the_law_is_the_fit_of_measured_pairs_and_covers_those_left_out(tuning, pairs, least) -> None:
    measured = pairs()
    fitted, shipped = fit_offer_errors(measured), load_offer_errors(tuning)
    assert shipped.chip_square == pytest.approx(fitted.chip_square, rel=0.02)
    assert shipped.engine_square == pytest.approx(fitted.engine_square, rel=0.02)
    recipe = load_offer_errors("recipe")
    of_format = fitted.format_square or recipe.format_square * shipped.chip_square / recipe.chip_square
    assert shipped.format_square == pytest.approx(of_format, rel=0.02)
    for level, share in zip((0.8, 0.9), least, strict=True):
        assert share <= offer_coverage(measured, level) <= level + 0.05


# --- files, the command, and what it shows ----------------------------------------------------------------------------


GOOD = '[workload]\nmodel = "llama-3.1-8b"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one is needed"),
        (GOOD + "[[offers]]\n", "did you mean 'offer'"),
        ("[workload]\nmodl = 'x'\n[[offer]]\n", "did you mean 'model'"),
        ("[promise]\nmodel = 'x'\n[[offer]]\n", "no field of [promise]"),
        (GOOD + "[[offer]]\n", "system: needed"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl8'\nprecison = 'fp8'\n", "did you mean 'precision'"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl9'\n", "did you mean 'h100-nvl8'"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl8'\nterm = 'lease'\n", "term 'lease'"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl8'\nlife = 4\n", "add term"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl8'\nterm = 'own'\nlife = 4\nprice = 2\n", "the price is stated"),
        (GOOD + "[[offer]]\nsystem = []\n", "at least one is needed"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl8'\n[[offer]]\nsystem = 'h100-nvl8'\n", "two offers of one name"),
        (GOOD + "[[offer]]\nsystem = 'h100-nvl8'\n[promise]\ntpot = 'p95:9ms'\n", "add requests_per_s"),
        (GOOD + "input_tokens = [1, 2]\n[[offer]]\nsystem = 'h100-nvl8'\n", "a list stands in an [[offer]]"),
        (GOOD + "[[offer]]\napi = 'x.toml'\nsystem = 'h100-nvl8'\n", "leave it out"),
        (GOOD + "[[offer]]\napi = 'nowhere.toml'\n", "nowhere.toml"),
        ("offer = 3\n", "at least one is needed"),
        ("[[offer\n", "offers.toml:1"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "offers.toml"
    path.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        main(["compare", str(path)])
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and message in printed.err and printed.err.count("\n") == 1, printed.err
    assert "--" not in printed.err, "fields are spelt as the file has them"


def test_the_command_writes_json_csv_and_a_report(
    tmp_path: Path, sheet: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "offers.toml"
    offers = f"[[offer]]\nsystem = ['h100-nvl8', 'a100-nvl8']\ngpus = 8\n[[offer]]\nname = 'sheet'\napi = '{sheet}'\n"
    path.write_text(GOOD + offers)
    table, page = tmp_path / "out.csv", tmp_path / "out.html"
    with pytest.raises(SystemExit) as stopped:
        main(["compare", str(path), "--json", "--csv", str(table), "--html", str(page)])
    assert stopped.value.code == 0
    found = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["name"] for row in rows] == [one["name"] for one in found["offers"]]
    assert float(rows[0]["usd_per_request"]) == found["offers"][0]["usd_per_request"]
    assert found == cl.compare(path).to_dict() and "Cost per thousand requests" in page.read_text()
    with pytest.raises(InputError, match="was read"):
        cl.compare(path, csv=str(path))


def test_a_row_of_csv_has_what_the_tables_have() -> None:
    shared = {"model": "llama-3.1-8b", "precision": "fp8", "requests_per_s": 10, "samples": 64}
    offers = [{"system": ["h100-nvl8", "a100-nvl8"], "price": [2, 3], "region": "eu-north"}]
    answer = cl.compare({"workload": shared, "promise": {"ttft": "2s"}, "offer": offers})
    rows, document = list(csv.DictReader(answer.csv_text().splitlines())), answer.to_dict()
    assert [one["name"] for one in rows] == [one["name"] for one in document["offers"]]
    even = {one["offer"]: one["equal_usd_per_gpu_hour"] for one in document["break_even"]}
    for row, one in zip(rows, document["offers"], strict=True):
        said = one | {
            "meets.ttft.p50_s": one["meets"]["ttft"]["p50_s"],
            "equal_usd_per_gpu_hour": even.get(one["name"]),
        }
        for name in ("usd_per_month", "usd_per_request", "usd_per_mtok", "w", "joules_per_token", "kept_probability",
                     "meets.ttft.p50_s", "equal_usd_per_gpu_hour"):  # fmt: skip
            assert (float(row[name]) if row[name] else None) == said[name], name
        assert (row["bound"], row["region"]) == (one["bound"], "eu-north")
        assert one["rank"] == len(rows) or float(row["cheaper_than_next_probability"]) <= 1


OFFER = "[[offer]]\nsystem = 'h100-nvl8'\n"


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (OFFER + "[[offer]]\nsystem = 'h100-nvl8'\nprice = [2, '3 kg']\n", 7, "offer 2 (h100-nvl8, 3 kg): "),
        (OFFER + "[promise]\nttft = '1 parsec'\n", 6, "[promise] ttft '1 parsec': unknown unit"),
        (OFFER + "[promise]\nttft = '110 qq'\n", 6, ", ms, "),
        (OFFER + "[[offer]]\nsystem = 'zzz'\n", 6, "offer 2: unknown system 'zzz'"),
        (OFFER + "[[offer]]\nname = 'a'\napi = 'nowhere.toml'\n", 7, "offer 2: api: nowhere.toml"),
        (2 * "[[offer]]\nname = 'x'\nsystem = 'h100-nvl8'\n", 5, "offer 1 and offer 2: 'x': two offers of one name"),
    ],
)  # fmt: skip
def test_an_error_names_the_line_and_the_offer(text: str, where: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "offers.toml"
    path.write_text(GOOD + text)
    with pytest.raises(InputError) as raised:
        cl.compare(path)
    assert str(raised.value).startswith(f"{path}:{where}: ") and message in str(raised.value), raised.value


@pytest.mark.parametrize("ttft", ["100ms", "110ms", "130ms", "1s"])
def test_a_plain_limit_is_judged_as_serve_prints_it(ttft: str) -> None:
    """The printed median, the verdict and the size of a fleet agree, and ``compare`` hides no chance of ``serve``."""
    load: dict[str, Any] = LOAD | {"input_tokens": 1000, "output_tokens": 200, "requests_per_s": 40}
    limits: dict[str, Any] = {"ttft": ttft, "tpot": "15ms"}
    own: dict[str, Any] = {"system": "h100-nvl8", "layout": "tp1", "price": 2.5}
    alone = cl.serve(**load, **limits, **own).to_dict()
    answer = cl.compare({"workload": load, "promise": limits, "offer": [own]})
    (found,) = answer.to_dict()["offers"]
    for name, one in alone["meets"].items():
        assert one["meets"] is (alone[f"{name}_s"]["p50"] <= one["limit_s"]) is True, "as the fleet was sized"
        assert found["meets"][name] == {**one, "p50_s": alone[f"{name}_s"]["p50"]}
    least = min(one["probability"] for one in alone["meets"].values())
    assert found["kept_probability"] == least <= alone["fleet"]["carries_probability"]
    assert (least < 0.5) is ("at the median" in found["why"]) is ("at the medians alone" in answer.view().context)


def test_an_offer_beyond_a_plain_limit_is_not_ranked() -> None:
    own = {"system": "h100-nvl8", "layout": "tp1", "gpus": 1, "price": 2, "batch": [4, 64]}
    tables = {"workload": {"model": "llama-3.1-8b"}, "promise": {"tpot": "9ms"}, "offer": [own]}
    ranked, missed = cl.compare(tables).to_dict()["offers"]
    assert (ranked["rank"], missed["rank"]) == (1, None) and "TPOT does not meet the limit" in missed["why"]


def test_the_offer_to_take_keeps_its_limits_with_90_percent_and_the_cheaper_gamble_is_named() -> None:
    offers = [{"name": name, "system": f"{name}-nvl8", "price": usd} for name, usd in (("h100", 2.5), ("h200", 3.2))]
    limits = {"ttft": "1s", "tpot": "15ms"}
    load = LOAD | {"input_tokens": 1000, "output_tokens": 200, "requests_per_s": 40, "layout": "tp1"}
    answer = cl.compare({"workload": load, "promise": limits, "offer": offers})
    document, view = answer.to_dict(), answer.view()
    best, known = document["recommended"], {one["name"]: one for one in document["offers"]}
    sure = {name: one["at_90_percent"] for name, one in known.items() if one["at_90_percent"]}
    least = min(sure, key=lambda name: sure[name]["usd_per_month"])
    assert all(one["kept_probability"] < 0.9 for one in known.values()), "with the fewest GPUs none does"
    assert best["offer"] == least and known[least]["is_recommended"]
    assert {name: best[name] for name in ("gpus", "usd_per_month", "kept_probability")} == {
        name: sure[least][name] for name in ("gpus", "usd_per_month", "kept_probability")
    }
    month = best["gpus"] * known[least]["usd_per_gpu_hour"] * HOURS_PER_MONTH
    assert best["usd_per_month"] == pytest.approx(month)
    assert best["usd_per_request"] * 40 * MONTH_S == pytest.approx(month), "the load of a month pays for its fleet"
    assert best["usd_per_request_p05"] == best["usd_per_request_p95"], "so many GPUs at one price"
    said = view.headline.replace("\u00a0", " ")
    assert f"{best['gpus']} GPUs" in said and said.endswith(
        "cheapest of 2 offers that keep the limits in nine of ten cases"
    )
    gamble = document["offers"][0]
    cheaper = next(one for one in view.tiles if one.label.startswith("Cheaper"))
    assert f"{round(100 * gamble['kept_probability'])} %" in cheaper.band.replace("\u00a0", " ")
    runs = answer.recommended.fleet() if answer.recommended else {}
    assert runs["replicas"] == best["gpus"] and runs["layout"] == "tp1", "the layout of the larger fleet"
    assert runs["tpot_s"]["p50"] < gamble["meets"]["tpot"]["p50_s"], "more replicas share the load"


def test_where_no_number_of_gpus_keeps_the_limits_none_is_called_the_cheapest_of_those_that_do() -> None:
    load: dict[str, Any] = LOAD | {"input_tokens": 1000, "output_tokens": 200, "layout": "tp1"}
    alone = cl.serve(**load, system="h100-nvl8", batch=1).to_dict()["tpot_s"]["p50"]
    offers = [{"name": name, "system": "h100-nvl8", "price": usd} for name, usd in (("a", 2.0), ("b", 2.02))]
    limits = {"tpot": f"{1050 * alone:.4g}ms"}
    answer = cl.compare({"workload": load | {"requests_per_s": 2}, "promise": limits, "offer": offers})
    for one in answer.to_dict()["offers"]:
        assert one["kept_probability"] < 0.9 and one["at_90_percent"] is None, "a request alone is near the limit"
    assert "nine of ten" not in answer.view().headline
    assert "More GPUs do not make it 90 %" in answer.view().context


def test_an_offer_ten_times_as_dear_stands_below_the_chart_and_the_axis_starts_at_zero() -> None:
    offers = [{"name": name, "system": "h100-nvl8", "gpus": 1, "price": usd} for name, usd in (("a", 2), ("b", 20))]
    (plot, *_) = cl.compare({"workload": {"model": "llama-3.1-8b"}, "offer": offers}).view().plots
    said = [one["text"] for one in plot.figure["layout"]["annotations"]]
    assert len(said) == 1 and "recommended" in said[0] and plot.figure["layout"]["xaxis"]["range"][0] == 0
    assert "Not drawn: far dearer, b at $" in plot.caption


def test_fleets_of_which_no_times_are_known_stand_beside_others(answer: Any) -> None:
    """A fleet of two pools may have none; others show theirs all the same."""
    first = answer.offers[0]
    for served in (replace(first.served, sure=None), replace(first.served, ttft_s=None, tpot_s=None)):
        mixed = replace(answer, offers=(replace(first, served=served), *answer.offers[1:]))
        table = next(one for one in mixed.view().tables if one.title == "How each runs")
        assert len(table.rows) == sum(not one.offer.terms.api for one in answer.offers)


def test_the_recommended_offer_is_the_cheapest_that_keeps_what_is_asked_with_90_percent() -> None:
    assert recommended_place([0.5, 0.9, 0.9], [0.6, 0.7, 0.99], [3.0, None, 2.0]) == 2
    assert recommended_place([0.5, 0.9], [0.95, 0.99], [1.0, 2.0]) == 0
    none = [None] * 3
    assert recommended_place([0.5, 0.55, 0.55], [0.6, 0.7, 0.72], none) == 1, "none does: the surer of a tie"
    assert recommended_place([0.5, 0.55], [0.6, 0.64], none) == 0
    assert recommended_place([0.5, 0.9], [0.6, 0.99], none) == 0, "no tie"
    assert recommended_place([0.5, 0.55], [None, 0.99], [None, 2.0]) == 0, "nothing is known of the first"


def test_a_price_of_nothing_is_remarked() -> None:
    offers = [{"system": "h100-nvl8", "gpus": 1, "price": 0}]
    (found,) = cl.compare({"workload": {"model": "llama-3.1-8b"}, "offer": offers}).to_dict()["offers"]
    assert "term = 'own'" in found["why"] and found["usd_per_request"] == 0


@pytest.mark.parametrize("columns", [80, 120])
def test_the_tables_are_whole(answer: Any, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    view = answer.view()
    assert re.match(r"[\w.-]+ in \w+ on (\d+ |\d+ GPUs of )?H[12]00", view.headline)
    assert "Without an answer" in [one.title for one in view.tables]
    for one in view.tables:
        out = Page()
        with out.capture() as printed:
            drawn = new_table(one.title, *one.columns)
            for row in one.rows:
                drawn.add_row(*(cell if isinstance(cell, str) else cell.text for cell in row))
            out.print(drawn)
        assert max(map(len, printed.get().splitlines())) <= columns


def test_the_chances_to_be_the_cheapest_of_all_are_those_of_drawn_rents() -> None:
    """Two that rent the same chip move together; an API's price stands."""
    of = ("b200", "h200", "h200", "")
    fleets = [
        Priced(usd, price_spread=spread, price_of=chip)
        for usd, spread, chip in zip((1.0, 1.1, 1.3, 1.2), (0.4, 0.3, 0.3, 0.0), of, strict=True)
    ]
    rng = np.random.default_rng(1)
    scores = {chip: rng.standard_normal(200_000) for chip in set(of)}
    costs = np.array([one.usd * np.exp(one.price_spread * scores[one.price_of]) for one in fleets])
    drawn = np.bincount(costs.argmin(axis=0), minlength=len(fleets)) / costs.shape[1]
    found = cheapest_probabilities(fleets)
    assert found == pytest.approx(drawn, abs=0.005) and found.sum() == pytest.approx(1, abs=0.005)
    assert found[2] == 0, "never cheaper than the same chip for less"
    assert cheapest_probabilities(fleets[:1]).tolist() == [1.0]


def test_a_chance_of_hardly_anything_is_not_called_sure() -> None:
    assert chance_words(7e-21) == "< 1 %" and chance_words(1 - 1e-9) == "> 99 %"


def test_rents_that_differ_leave_open_which_is_the_cheapest_and_the_next_has_its_range() -> None:
    offers = [{"name": name, "system": f"{name}-nvl8"} for name in ("h100", "h200")]
    load = LOAD | {"input_tokens": 1000, "output_tokens": 200, "requests_per_s": 40, "layout": "tp1"}
    answer = cl.compare({"workload": load, "promise": {"tpot": "40ms"}, "offer": offers})
    document, view = answer.to_dict(), answer.view()
    odds = [one["fleet"]["cheapest_probability"] for one in document["offers"]]
    assert sum(odds) == pytest.approx(1, abs=0.01) and 0.1 < max(odds) < 0.9
    likely = f"{round(100 * document['recommended']['cheapest_probability'])} % likely the cheapest of 2 offers"
    assert likely in view.headline.replace("\u00a0", " ")
    after = next(one for one in view.tiles if one.label.startswith("Next"))
    costs = view.tables[0]
    column = costs.columns.index("chance to be the cheapest #")
    assert " to $" in after.band and [row[column] for row in costs.rows][1].strip("< >%").isdigit()
    assert "Rents differ, so " in view.context and " may be cheaper." in view.context


@pytest.mark.parametrize("promise", [{"tpot": "40ms"}, {"tpot": "p95:40ms"}])
def test_the_range_of_a_fleet_is_that_of_its_rent_at_any_load(promise: dict[str, str]) -> None:
    """The fewest GPUs had a wider range than the same number with a load that asks for more than the fewest."""
    own = {"system": "b200-nvl8", "layout": "tp1"}
    shared = LOAD | {"input_tokens": 2000, "output_tokens": 300}
    ranges: dict[int, list[tuple[float, ...]]] = {}
    is_fewest: set[bool] = set()
    for rate in (12, 18, 24, 30, 36):
        tables = {"workload": shared | {"requests_per_s": rate}, "promise": promise, "offer": [own]}
        (found,) = cl.compare(tables).to_dict()["offers"]
        fleet, usd = found["fleet"], found["fleet"]["usd_per_request"]
        is_fewest.add(fleet["gpus"] == found["gpus"])
        ends = tuple(fleet[f"usd_per_request_{name}"] / usd for name in ("p05", "p95"))
        ranges.setdefault(fleet["gpus"], []).append(ends)
    assert is_fewest == {True, False}, "both kinds of fleet"
    first, *others = [ends for each in ranges.values() for ends in each]
    assert all(one == pytest.approx(first) for one in others), "its GPUs are rented at one price, however many they are"
