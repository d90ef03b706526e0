"""What a reader does with a table and takes away with a button."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.interfaces.render.html import report
from computeledger.interfaces.web.answers import Question, answered
from tests.interfaces.driving import drag, settled, shown

ASKED = (("layout", "tp1"), ("batch", "8"), ("model", "llama-3.1-8b"), ("system", "h100-nvl8"))


def test_the_report_is_what_the_command_writes() -> None:
    reply = answered(Question("report", "serve", ASKED))
    assert (reply.status, reply.media) == (200, "text/html; charset=utf-8")
    own = cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8)
    assert reply.body.decode() == report(own.view(working=True))
    assert answered(Question("report", "serve", (("batch", "-1"),))).status == 422


@pytest.mark.browser
def test_columns_order_their_rows_by_amount_and_give_the_answer_s_order_back(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    place = page.locator(".tables section", has_text="Decode, one step").first
    place.locator(".detail > summary").click()
    first = "row => row.querySelector('[data-name=\"time\"]').firstChild.textContent"
    times = f"place => [...place.querySelectorAll('tbody tr')].map({first})"
    before = place.evaluate(times)
    head = place.locator("th", has_text="time")
    button = head.locator("button.by")
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
    amounts = [float(one.split()[0]) * scale[one.split()[1]] for one in place.evaluate(times)]
    assert amounts == sorted(amounts, reverse=True) and len({one.split()[1] for one in before}) > 1
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    button.click()
    assert head.get_attribute("aria-sort") is None and place.evaluate(times) == before


@pytest.mark.browser
def test_a_drag_gives_a_table_new_texts_and_leaves_its_order_as_the_reader_wants_it(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    place = page.locator(".tables section", has_text="Decode, one step").first
    place.locator(".detail > summary").click()
    place.evaluate("place => { place.dataset.own = 'kept'; }")
    button = place.locator("th", has_text="time").locator("button.by")
    button.click()
    rows = "place => [...place.querySelectorAll('tbody tr')].map((row) => row.innerText)"
    before = place.evaluate(rows)
    drag(page, "batch", 250)
    after = place.evaluate(rows)
    assert place.get_attribute("data-own") == "kept" and set(after) != set(before)
    page.reload()
    settled(page, "0")
    fresh = page.locator(".tables section", has_text="Decode, one step").first
    fresh.locator(".detail > summary").click()
    assert fresh.get_attribute("data-own") is None
    fresh.locator("th", has_text="time").locator("button.by").click()
    assert fresh.evaluate(rows) == after


@pytest.mark.browser
def test_the_report_is_saved_with_a_button(visit: Any, tmp_path: Path) -> None:
    page = visit("/memory")
    with page.expect_download() as found:
        page.locator("#get-report").click()
    assert re.fullmatch(r"computeledger-memory-[a-z0-9.]+[a-z0-9.-]*-\d+-systems.html", found.value.suggested_filename)
    found.value.save_as(tmp_path / "memory.html")
    assert "<!DOCTYPE html>" in (tmp_path / "memory.html").read_text("utf-8")


def test_an_input_that_is_worked_out_names_its_figure() -> None:
    reply = answered(Question("view", "serve", (*ASKED, ("working", "on"))))
    working = json.loads(reply.body)["working"]
    places = {one["name"]: place for place, one in enumerate(working)}
    named = {(one["name"], term["name"]): term for one in working for term in one["terms"] if term["of"]}
    assert named["usd_per_mtok_output", "time in service"]["of"] == "in_service_s"
    assert named["tpot_s", "decode step"]["of"] == "decode_s"
    for (name, _), term in named.items():
        figure = working[places[term["of"]]]
        assert places[term["of"]] < places[name]
        assert (term["text"], term["band"]) == (figure["text"], figure["band"])


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_working_opens_all_the_way_down_and_has_an_address(width: int, visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16#working=usd_per_mtok_output", width)
    page.wait_for_selector("#working details[open]")
    page.locator("#working .deeper-by", has_text="in service").first.click()
    inner = page.locator("#working .deeper").first
    assert "= mean TTFT" in inner.inner_text()
    inner.locator(".deeper-by", has_text="TPOT").click()
    inner.locator(".deeper .deeper-by", has_text="decode step").click()
    assert "routed experts" in inner.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    wide = inner.locator("details").first.bounding_box()
    assert wide is not None and wide["width"] > 0.7 * width
    page.locator("#close-working").click()
    assert "#" not in page.url


@pytest.mark.browser
@pytest.mark.parametrize("name", ["%", "no_such_figure"])
def test_an_address_of_no_figure_still_shows_the_answer_and_the_working(name: str, visit: Any) -> None:
    page = visit(f"/memory#working={name}")
    assert page.locator("#headline").inner_text()
    page.wait_for_selector("#working details")
    assert page.locator("#working details[open]").count() == 0


@pytest.mark.browser
def test_facts_are_searched_on_the_page_and_stand_in_groups(visit: Any) -> None:
    page = visit("/facts", 390)
    box = page.locator("#answer #c-words")
    before = shown(page)
    page.locator("#search button", has_text="Electricity").click()
    settled(page, before)
    assert box.input_value() == "electricity" and page.url.endswith("?words=electricity")
    before = shown(page)
    box.fill("h200 bandwidth")  # answered as one types
    settled(page, before)
    assert "memory bandwidth: 4.8" in page.locator("#headline").inner_text()
    titles = page.locator("#now section h2").all_inner_texts()
    assert len(titles) > 1 and titles[0].startswith("Accelerators")
    again = page.locator("#now tr.again").first
    assert again.locator("th").is_hidden(), "a group's name stands above its first row"


@pytest.mark.browser
def test_a_table_that_does_not_fit_becomes_cards_and_stays_a_table_to_a_screen_reader(visit: Any) -> None:
    """A card shows what a narrow terminal keeps longest; the rest comes with a button, the order with a list."""
    page = visit("/serve?layout=tp8&batch=16", 390)
    place = page.locator(".tables section", has_text="Decode, one step").first
    place.locator(".detail > summary").click()
    page.wait_for_selector(".detail[open] .as-cards")
    assert place.get_by_role("table").count() == 1 and place.get_by_role("rowheader").count() > 3
    card = place.get_by_role("row").nth(1)
    values = "row => [...row.cells].filter((one) => one.checkVisibility()).map((one) => one.dataset.name ?? null)"
    assert card.evaluate(values) == [None, "FLOP", "bytes", "time", "share", "bound"], "an empty cell is left out"
    names = place.locator("tbody th").all_inner_texts()
    place.get_by_label("order of Decode").select_option(label="operation, Z to A")
    assert place.locator("tbody th").all_inner_texts() == sorted(names, key=str.lower, reverse=True) != names
    assert place.locator("thead th").first.get_attribute("aria-sort") == "descending"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_selector(".detail[open] table:not(.as-cards)")


@pytest.mark.browser
def test_a_card_of_many_figures_shows_the_rest_at_a_press(visit: Any) -> None:
    page = visit("/serve", 390)
    best = page.locator("#now details", has_text="The best of")
    best.locator("summary").click()
    best.locator(".as-cards .rest-by").first.wait_for()
    card = best.locator("tr", has=page.locator(".rest-by")).first
    more = card.locator(".rest-by")
    before = card.locator("td:visible").count()
    assert before == 5 and str(more.text_content()).startswith("3 more of ")
    more.click()
    assert more.get_attribute("aria-expanded") == "true" and card.locator("td:visible").count() == before + 3
