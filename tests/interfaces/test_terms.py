"""Words of the field say what they mean, on the app's pages and in reports."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.interfaces.glossary import glossary
from computeledger.interfaces.render.html import report
from tests.gates import ROOT
from tests.interfaces.driving import drag

ASKED: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "batch": 8, "samples": 64}


def test_what_a_word_means_is_one_or_two_short_sentences() -> None:
    for word, means in glossary()["words"].items():
        assert means.endswith(".") and len(means.split()) <= 36, word


@pytest.mark.parametrize("word", ["MFU", "HFU", "MBU", "TTFT", "TPOT", "goodput", "staleness", "occupancy", "PUE"])
def test_words_of_the_nomenclature_are_explained(word: str) -> None:
    assert f"| {word} " in (ROOT / "docs" / "nomenclature.md").read_text("utf-8")
    assert word in glossary()["words"]


def test_a_report_carries_the_words_where_it_may_run_scripts() -> None:
    answer = cl.serve(**ASKED)
    assert 'id="terms"' in report(answer.view(working=True))


@pytest.mark.browser
def test_a_word_is_explained_by_pointer_key_and_tap(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    bubble = page.locator("#term-means")
    assert bubble.is_hidden()
    page.locator(".help .term, .hint .term", has_text="tp8").first.hover()
    assert bubble.inner_text() == "Each matrix split over 8 GPUs (tensor parallel)."
    page.keyboard.press("Escape")
    assert bubble.is_hidden()
    tile = page.locator(".tiles .term", has_text="Time to first token")
    tile.focus()
    assert bubble.inner_text() == glossary()["words"]["TTFT"]
    assert tile.get_attribute("aria-describedby") == "term-means"
    counted = page.locator("#now .term").count()
    drag(page, "batch", 440)  # words are marked once again, and no word twice
    assert page.locator("#now .term", has_text="Time to first token").count() == 1
    assert page.locator("#now .term").count() >= counted - 3
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#context .term").first.click()
    box = bubble.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
