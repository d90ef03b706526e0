"""The app without a browser: the same answers as the command line, bad input in words, strangers refused."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
from itertools import takewhile
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from computeledger.fields import fields_of
from computeledger.interfaces.web import answers as web
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.ask import Kind
from computeledger.interfaces.web.pages import PAGES, page_named
from computeledger.interfaces.web.pages import frontier as page_frontier
from computeledger.interfaces.web.pages import prices as page_prices
from computeledger.interfaces.web.spec import checked

#: Few samples of the engine's own: the pages ask as users do.
SMALL = {
    "serve": {"model": "meta-llama/Meta-Llama-3.1-8B", "system": "h100-nvl8", "layout": "tp1", "batch": "16"},
    "pretrain": {"model": "meta-llama/Meta-Llama-3.1-8B", "system": "h100-nvl8", "gpus": "64", "tokens": "1T"},
    "rl": {"gpus": "16", "layout": "tp2", "training-layout": "tp2-dp8"},
    "facts": {"words": "h200 bandwidth"},
    "claims": {"verdict": "fails"},
    "think": {"model": "qwen3-0.6b; qwen3-4b", "success": "0.3", "max-samples": "4"},
}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


@pytest.mark.parametrize("name", [page.name for page in PAGES])
def test_the_app_answers_as_the_command_line_does(
    name: str, client: TestClient, computeledger: Any, tmp_path: Any
) -> None:
    query = SMALL.get(name, {})
    answer = client.get(f"/api/{name}", params=query)
    assert answer.status_code == 200, answer.text
    view = client.get(f"/view/{name}", params=query).json()
    assert [one["title"] for one in view["tables"] if {len(row) for row in one["rows"]} - {len(one["columns"])}] == []
    if view["plan"] is not None:
        (tmp_path / view["command"].split()[-1]).write_text(view["plan"], "utf-8")
    said = computeledger(*shlex.split(view["command"])[1:], "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert answer.json() == json.loads(said.stdout)


def test_a_question_is_worked_out_once_for_all_that_is_shown_of_it(client: TestClient) -> None:
    """View, document, rows and working come from one answer, also where an address spells a default out."""
    for kept in (web._view_bytes, web._document_bytes, web._worked_out):
        kept.cache_clear()
    (default,) = [one.default for page in PAGES if page.name == "serve" for one in page.controls if one.name == "price"]
    for address in ("view/serve", "api/serve", "csv/serve", "view/serve?working=on", f"view/serve?price={default}"):
        assert client.get(f"/{address}").status_code == 200
    assert web._worked_out.cache_info().misses == 1


#: Presets of a page that every run asks for: the first and the last; the others ask the same question of other values.
_ENDS = [(page.name, name) for page in PAGES for name in {**dict.fromkeys([*page.presets][:1] + [*page.presets][-1:])}]


@pytest.mark.parametrize(
    ("page", "name"),
    [
        pytest.param(
            page, name, id=f"{page.name}-{name}", marks=[pytest.mark.stress] * ((page.name, name) not in _ENDS)
        )
        for page in PAGES
        for name in page.presets
    ],
)
def test_every_preset_of_every_page_answers(page: Any, name: str, client: TestClient) -> None:
    answer = client.get(f"/view/{page.name}", params=dict(page.presets[name]))
    assert answer.status_code == 200, (name, answer.text)
    view = answer.json()
    assert view["headline"]
    assert sum(not one["is_detail"] for one in view["tables"]) <= 4, "charts and a few tables; the rest are details"


def test_names_of_examples_fit_their_box() -> None:
    """A select shows some 32 letters of its choice on a desk, and cuts the rest."""
    assert [name for page in PAGES for name in page.presets if len(name) > 32] == []


#: A number with its unit, as a card and its working write it.
_NUMBER = re.compile(r"\D?(?P<number>\d+(?:\.\d+)?)(?P<unit>[TBMK]?(?:\xa0.*)?)")
#: Each offer of a comparison has its own, on Serve.
_WITHOUT_WORKING = ("accuracy", "claims", "compare", "facts")
_ASKED = [*((page.name, SMALL.get(page.name, {})) for page in PAGES if page.name not in _WITHOUT_WORKING),
          *(("frontier", {"about": about}) for about in ("a run", "sites", "growth"))]  # fmt: skip


@pytest.mark.parametrize(("name", "query"), _ASKED, ids=str)
def test_every_figure_shows_formula_inputs_and_sources(name: str, query: dict[str, str], client: TestClient) -> None:
    shown = client.get(f"/view/{name}", params=query).json()
    working = client.get(f"/view/{name}", params={**query, "working": "on"}).json()["working"]
    known = {one["name"] for one in working}
    known |= {one.rpartition(".")[2] for one in known}
    for figure in (*shown["tiles"], *shown["plots"], *shown["tables"]):
        assert figure["key"] in known, figure.get("label") or figure["title"]
    n_held = 0
    for tile in shown["tiles"]:
        worked = [one["text"] for one in working if one["name"].rpartition(".")[2] == tile["key"].rpartition(".")[2]]
        numbers = [_NUMBER.fullmatch(text) for text in (tile["text"], *worked)]
        if len(worked) == 1 and all(numbers) and len({one["unit"] for one in numbers}) == 1:
            card, own = (float(one["number"]) for one in numbers)
            assert card == pytest.approx(own, rel=0.06), tile
            n_held += 1
    assert n_held or name in ("life", "frontier"), "some card has a number that one figure works out"
    assert all(one["formula"] for one in working)
    facts = [term for one in working for term in one["terms"] if term["origin"] == "fact"]
    assert all(term["source"] and term["href"].startswith("https://") for term in facts), facts
    if name not in ("route", "prices", "life"):
        assert facts


def test_an_answer_without_working_offers_none_and_links_to_its_sources(client: TestClient) -> None:
    view = client.get("/view/prices?about=quality").json()
    assert not [one for part in ("tiles", "plots", "tables") for one in view[part] if one["key"]]
    assert any("Rosetta Stone" in words and address.startswith("https://") for words, address in view["links"])


@pytest.mark.parametrize(("name", "kinds"), [("frontier", page_frontier.KINDS), ("prices", page_prices.KINDS)])
def test_every_box_of_a_page_with_several_questions_is_one_of_theirs(name: str, kinds: dict[str, Kind]) -> None:
    """A box is shown for the questions that take it, and every question finds its boxes."""
    about, *boxes = page_named(name).controls
    assert about.choices == tuple(kinds)
    shown = {one.name: one.only.removeprefix("about=").split("|") for one in boxes}
    for kind, one in kinds.items():
        assert {name for name, where in shown.items() if kind in where} == set(one.boxes)
        assert {name.replace("-", "_") for name in one.boxes} <= fields_of(one.question).keys()


@pytest.mark.parametrize(
    "path",
    [
        "/view/rl?price=2..3",
        "/view/pretrain?model=meta-llama/Meta-Llama-3.1-8B&price=2&gpus=64&tokens=1T",
        "/view/serve?price=2..3&input-tokens=1K..2K&batch=16&layout=tp8",
        "/view/serve?price=0&batch=16&layout=tp8",
        "/view/serve?output-tokens=1",
        "/view/think?price=2..3",
        "/view/life?price=0&rl.prompts_per_step=16..64",
        "/view/prices?premium=1.5..6",
    ],
)
def test_boxes_take_ranges_and_prices(path: str, client: TestClient) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text


@pytest.mark.stress
@pytest.mark.parametrize("page", [one for one in PAGES if one.name != "compare"], ids=lambda one: one.name)
def test_every_box_of_every_page_answers_to_plain_values_or_says_why_not(page: Any, client: TestClient) -> None:
    """A page that fails at one value of one box fails for a reader, however seldom that value is."""
    for one in page.controls:
        for text in one.choices[:: max(len(one.choices) // 8, 1)] or ("1", "0.5", "10", "2..3", "1K"):
            answer = client.get(f"/view/{page.name}", params={one.name: text})
            assert answer.status_code in (200, 422), (one.name, text, answer.text[:300])


@pytest.mark.parametrize(
    ("path", "control", "part"),
    [
        ("/view/serve?batch=8&batch=16", "", "'batch' is given 2 times"),
        ("/view/prices?input=1e30", "input", "must be at most"),
        ("/view/prices?input=3..4", "input", "one exact number is expected"),
        ("/view/prices?fast-price=2..3", "fast-price", "one exact number is expected"),
        ("/view/serve?batch=many", "batch", "not a number or a range"),
        ("/view/serve?system=h100-nvl9", "system", "did you mean 'h100-nvl8'?"),
        ("/view/serve?colour=red", "", "no control of this page"),
        ("/view/life?rl.steps=-3", "rl.steps", "must not be negative"),
        ("/view/life?price=" + "9" * 300, "price", "at most 200"),
        ("/view/rl?group-size=0", "group-size", "group-size"),
        ("/view/claims?id=C9999", "id", "unknown claim"),
    ],
)
def test_bad_input_is_answered_in_words_at_its_box(path: str, control: str, part: str, client: TestClient) -> None:
    answer = client.get(path)
    assert answer.status_code == 422
    assert answer.json()["control"] == control
    assert part in answer.json()["message"]


def test_an_address_that_is_no_page_names_the_nearest_one(client: TestClient) -> None:
    answer = client.get("/api/serv")
    assert answer.status_code == 404
    assert "did you mean 'serve'?" in answer.json()["message"]
    for path in ("/serv", "/nosuch", "/docs/serve"):
        page = client.get(path)
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert all(f'href="/{one.name}"' in page.text for one in PAGES)
    assert client.get("/view/serve?working=perhaps").status_code == 422


def test_facts_without_a_word_say_what_there_is(client: TestClient) -> None:
    view = client.get("/view/facts?words=").json()
    assert "Type a word" in view["context"]
    assert sum(int(row[2].replace(",", "")) for row in view["tables"][0]["rows"]) > 500
    found = client.get("/api/facts?words=llama").json()["results"]
    assert "Llama" in found[0]["id"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_defaults_beside_what_is_asked_are_those_of_the_page(page: Any) -> None:
    """A preset's own values are what the boxes then hold, and unknown names change nothing."""
    for values in page.presets.values():
        checked_values = checked(page, dict(values))
        assert all(checked_values.get(name, "") == text for name, text in values.items())
    assert page.defaults({"nosuch": "1"}) == page.defaults({})


@pytest.mark.parametrize("name", [page.name for page in PAGES])
def test_csv_is_data(name: str, client: TestClient) -> None:
    """One number per column and row, each with its unit, the same as the document holds."""
    query = SMALL.get(name, {})
    answer = client.get(f"/csv/{name}", params=query)
    assert answer.headers["content-type"].startswith("text/csv")
    lines = answer.text.splitlines()
    about = list(takewhile(lambda line: line.startswith("# "), lines))
    assert {line.split(":")[0] for line in about} >= {"# Scenario", "# Command", "# Date"}
    in_one_cell = [line for line in about if not line.startswith("# Command")]
    assert all(list(csv.reader([line])) == [[line]] for line in in_one_cell), "a spreadsheet shows each in one cell"
    head, *rows = list(csv.reader(lines[len(about) :]))
    assert head == ["quantity", "row", "unit", "median", "p05", "p95"]
    assert len(rows) > 2
    for _, _, unit, middle, *ends in rows:
        assert unit
        assert all(math.isfinite(float(text)) for text in (middle, *ends) if text)
    if name == "life":
        said = {row[0]: row[2:] for row in rows}
        total = client.get("/api/life").json()["total"]
        assert said["total.energy_j"] == ["J", *(repr(total["energy_j"][key]) for key in ("p50", "p05", "p95"))]
    assert client.get(f"/csv/{name}?nosuch=1").status_code == 422


def test_the_description_of_the_api_names_every_control(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    for page in PAGES:
        parameters = {one["name"] for one in described["paths"][f"/api/{page.name}"]["get"]["parameters"]}
        assert parameters == {one.name for one in page.controls}


_ODD = ("", "1", "-1", "0", "1e400", "nan", "inf", "1..2", "2..1", "1e-300", "{}", "--json")
_TEXT = st.text(max_size=40) | st.sampled_from(_ODD)
_PAGE = st.sampled_from(PAGES)


def _hostile(client: TestClient, page: Any, values: dict[str, str]) -> None:
    answer = client.get(f"/view/{page.name}", params=values)
    assert answer.status_code in (200, 422), (values, answer.text[:300])
    assert "Traceback" not in answer.text


@settings(max_examples=120)
@given(data=st.data())
def test_hostile_addresses_get_an_answer_or_one_line(data: Any, client: TestClient) -> None:
    page = data.draw(_PAGE)
    names = st.sampled_from([one.name for one in page.controls]) | st.text(max_size=12)
    _hostile(client, page, data.draw(st.dictionaries(names, _TEXT, max_size=4)))


@pytest.mark.stress
@settings(max_examples=5000)
@given(data=st.data())
def test_five_thousand_hostile_addresses(data: Any, client: TestClient) -> None:
    page = data.draw(_PAGE)
    names = st.sampled_from([one.name for one in page.controls]) | st.text(max_size=12)
    _hostile(client, page, data.draw(st.dictionaries(names, _TEXT, max_size=4)))


def test_a_model_goes_by_every_name_that_the_command_takes(client: TestClient) -> None:
    answers = [
        client.get("/api/serve", params={"model": name, "system": system, "batch": "8"}).json()
        for name, system in (("llama-3.1-70b", "H200-NVL8"), ("meta-llama/Meta-Llama-3.1-70B", "h200-nvl8"))
    ]
    assert answers[0] == answers[1] and answers[0]["model"] == "meta-llama/Meta-Llama-3.1-70B"
    refused = client.get("/api/serve", params={"system": "b200"})
    assert refused.status_code == 422 and refused.json()["control"] == "system"


def test_the_api_describes_itself(client: TestClient) -> None:
    for path, methods in client.get("/api/openapi.json").json()["paths"].items():
        for one in methods.values():
            assert "partial(" not in one["description"] and "--json" in one["description"], path
