"""The page of offers: what is edited is a file of offers, each answered once, and said at its own box."""

from __future__ import annotations

import tomllib
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient

import computeledger as cl
from computeledger.files import without_user_files
from computeledger.interfaces.web.app import create_app
from computeledger.questions.answers import compare as answers
from computeledger.questions.answers.serving.answer import answer_serve
from computeledger.questions.answers.serving.offers import read_offers
from computeledger.questions.compare import CompareQuestion

#: Boxes of a page with two offers.
NO_MORE = {f"{place}.system": "" for place in range(3, 7)}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


def test_the_file_to_take_away_asks_the_same_and_names_what_is_quoted(client: TestClient) -> None:
    """Texts with quotation marks, letters beyond ASCII and a rubout come back from the file as they were typed."""
    names = NO_MORE | {"1.name": 'a "quote" \\ \u00e9 \U0001f4a5 \x7f', "2.name": "[[offer]]"}
    view = client.get("/view/compare", params=names).json()
    tables = tomllib.loads(view["plan"])
    assert [one["name"] for one in tables["offer"]] == [names["1.name"], names["2.name"]]
    assert cl.compare(tables).to_dict() == client.get("/api/compare", params=names).json()


def test_the_name_of_an_offer_opens_a_replica_of_its_fleet_on_serve(client: TestClient) -> None:
    """With its share of the load: what a request costs there, and its times, are those of the fleet."""
    view, document = (client.get(f"/{kind}/compare", params=NO_MORE).json() for kind in ("view", "api"))
    fleets = {one["system"]: one["fleet"] for one in document["offers"]}
    how, address = view["tiles"][-1]["also"]
    assert (
        how.startswith("How?") and address == f"{view['tables'][0]['rows'][0][0]['href']}#working=usd_per_mtok_output"
    )
    for row in view["tables"][0]["rows"]:
        link = urlsplit(row[0]["href"])
        asked = dict(parse_qsl(link.query))
        fleet, served = fleets[asked["system"]], client.get(f"/api{link.path}", params=asked).json()
        assert served["fleet"]["n_replicas"] == 1 < fleet["replicas"]
        assert served["fleet"]["usd_per_request"] == pytest.approx(fleet["usd_per_request"], rel=1e-3)
        for name in ("ttft_s", "tpot_s"):
            assert served[name]["p50"] == pytest.approx(fleet[name]["p50"], rel=1e-3)


@pytest.mark.parametrize(
    ("query", "control", "part"),
    [
        ({"2.price": "x"}, "2.price", "'x': not a number or a range"),
        ({"1.term": "lease"}, "1.term", "not one of the choices"),
        ({"input-tokens": "abc"}, "input-tokens", "'abc': not a number"),
        ({"ttft": "p95:x"}, "ttft", "not a number"),
        ({"ttft": "p95:2s", "requests-per-s": ""}, "ttft", "add requests_per_s"),
        ({**NO_MORE, "4.region": "eu"}, "4.system", "Remove takes the offer away"),
        ({**NO_MORE, "1.system": "", "2.system": ""}, "1.system", "at least one offer"),
        ({"1.name": "a", "3.name": "a"}, "3.name", "two offers of one name"),
        ({"3.backend": "vlm"}, "3.backend", "did you mean 'vllm'?"),
        ({"7.system": "h100-nvl8"}, "", "no control of this page"),
        ({"3.api": "groq/llama-3.1-8b-instant"}, "3.api", "in place of a system"),
        ({**NO_MORE, "1.system": "", "2.system": "", "3.api": "groq/llama-3.1-8b"}, "3.api", "did you mean"),
    ],
)
def test_bad_input_is_said_at_the_box_of_its_offer(
    query: dict[str, str], control: str, part: str, client: TestClient
) -> None:
    answer = client.get("/view/compare", params=query)
    assert answer.status_code == 422, answer.text
    assert (answer.json()["control"], part in answer.json()["message"]) == (control, True), answer.text


def test_who_edits_one_offer_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can be read; where one can, it may have changed meanwhile, so that every offer is asked again."""
    asked: list[str] = []
    kept = answers._kept_figures

    def counted(question: Any) -> Any:
        asked.append(question.system)
        return answer_serve(question)

    def compare(price: float) -> float:
        offers = [{"system": "h100-nvl8", "gpus": 1}, {"system": "a100-nvl8", "gpus": 1, "price": price}]
        shared = {"model": "llama-3.1-8b", "layout": "tp1", "batch": 8, "samples": 64}
        found = answers.answer_compare(CompareQuestion(offers=read_offers({"workload": shared, "offer": offers})))
        return next(one.served.usd_per_request for one in found.offers if one.offer.name == "a100-nvl8")

    monkeypatch.setattr("computeledger.questions.answers.compare.answer_serve", counted)
    kept.cache_clear()
    with without_user_files():
        first, second = compare(1.0), compare(2.0)
    assert asked == ["h100-nvl8", "a100-nvl8", "a100-nvl8"]
    assert second == pytest.approx(2 * first)
    assert compare(2.0) == second
    assert len(asked) == 5


def test_where_no_offer_keeps_a_limit_the_page_says_so(client: Any) -> None:
    answer = client.get("/view/compare", params={"tpot": "1ms"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["headline"] == "No offer serves this workload."
    assert len(answer.json()["tables"][0]["rows"]) == 6
