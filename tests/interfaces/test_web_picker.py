"""Boxes of models and systems: what their lists say, how they are worked by keyboard, and a configuration pasted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from computeledger.facts.load import model_ids, offered_systems
from computeledger.interfaces.web.app import MOST_PASTED_BYTES, create_app
from tests.facts.test_packed import config_of
from tests.interfaces.driving import has_focus, settled, shown

_CONFIG = json.dumps({**config_of("meta-llama/Meta-Llama-3.1-8B"), "_name_or_path": "own"})
_SMALL = {"system": "h100-nvl8", "layout": "tp1", "batch": "16"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


def test_lists_say_what_the_facts_do_of_every_choice(client: TestClient) -> None:
    models, systems = client.get("/list/models").json(), client.get("/list/systems").json()
    assert list(models) == list(model_ids()) and list(systems) == list(offered_systems())
    memory = client.get("/api/memory", params={"model": "qwen3-8b", "precision": "fp8", "system": "h100-nvl8"}).json()
    (fit,) = memory["fits"]
    one = models["Qwen/Qwen3-8B"]
    assert float(one["weights"]["fp8"].split("\xa0")[0]) == pytest.approx(
        fit["memory_bytes"]["weights"] * fit["n_gpus"] / 1e9, rel=0.01
    )
    assert systems["gb200-nvl72"]["chips"] == "72 x GB200"
    assert client.get("/list/passwd").status_code == client.get("/list/../etc").status_code == 404


def test_a_pasted_configuration_answers_as_its_path_does(
    client: TestClient, computeledger: Any, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(_CONFIG, "utf-8")
    read = client.post("/config/serve", content=_CONFIG.encode()).json()
    assert read["said"].replace("\xa0", " ") == "own/config.json, 8.03B parameters"
    answer = client.get("/api/serve", params={**_SMALL, "model": read["model"]}).json()
    said = computeledger("serve", "--model", str(file), *(f"--{k}={v}" for k, v in _SMALL.items()), "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(json.dumps(answer).replace(read["model"], str(file))) == json.loads(said.stdout)
    view = client.get("/view/serve", params={**_SMALL, "model": read["model"]}).json()
    assert view["headline"].startswith("own/config.json on one H100")
    assert f"--model={read['model']}" in view["command"]
    fits = client.get("/api/memory", params={"model": read["model"], "system": "h100-nvl8", "precision": "bf16"}).json()
    assert "own/config.json is a configuration without weights" in fits["fits"][0]["launch_problem"]


def test_what_is_pasted_has_bounds(client: TestClient) -> None:
    assert client.post("/config/serve", content=b"{" * (MOST_PASTED_BYTES + 1)).status_code == 413
    answer = client.post("/config/serve", content=b'{"a": 1}')
    assert answer.status_code == 422 and "model_type: missing" in answer.json()["message"]
    assert client.post("/config/claims", content=b"{}").status_code == 404
    assert client.get("/config/serve").status_code == 405
    for text in ("config:own:" + "A" * 4000, "config:own:AAAA", "config:/etc/passwd:x"):
        refused = client.get("/view/serve", params={"model": text}).json()
        assert refused["control"] == "model" and "\n" not in refused["message"] and len(refused["message"]) < 400


@pytest.mark.browser
def test_a_model_is_found_and_chosen_by_keyboard(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    box = page.locator("#c-model")
    box.click()
    page.wait_for_function("document.activeElement.selectionEnd > 0 && document.activeElement.selectionStart === 0")
    page.keyboard.type("llama")  # in place of what stood there
    page.wait_for_selector("#picks li .below:not(:empty)")
    offered = page.locator("#picks .pick-name").all_inner_texts()
    assert offered[0].startswith("meta-llama/Llama-4") and all("llama" in one.lower() for one in offered)
    page.keyboard.press("Escape")
    assert box.input_value() == "deepseek-ai/DeepSeek-V3" and not page.locator("#picker").is_visible()
    box.fill("qwen3 32b")
    page.wait_for_function("document.querySelector('#picks .pick-name').textContent === 'Qwen/Qwen3-32B'")
    box.fill("llama 3.3 70b")
    page.keyboard.press("ArrowDown")
    active = page.locator("#picks li.active")
    assert box.get_attribute("aria-activedescendant") == active.get_attribute("id")
    assert "70.6B · weights 141\xa0GB as stored" in active.inner_text()
    before = shown(page)
    page.keyboard.press("Enter")
    settled(page, before)
    assert "model=meta-llama%2FLlama-3.3-70B-Instruct" in page.evaluate("location.search")
    assert box.get_attribute("aria-expanded") == "false"
    has_focus(page, "#c-model")
    name = page.locator(".box-name[data-of='c-model']")
    assert not name.is_visible(), "the id stands where one types"
    page.keyboard.press("Tab")
    assert name.inner_text() == "Llama-3.3-70B-Instruct"
    assert page.locator(".box-name[data-of='c-system']").inner_text() == "8 H200"
    box = page.locator("#c-system")
    assert box.input_value() == "h200-nvl8"
    box.fill("8 b200")
    page.wait_for_selector("#picks li[data-value='b200-nvl8']")


@pytest.mark.browser
def test_a_configuration_is_pasted_and_dropped_on_a_phone_too(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16", 390)
    page.locator("#open-controls").click()
    page.locator("#c-model").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#picker").bounding_box()["width"] == 390
    give = """([kind, text]) => { const data = new DataTransfer();
      if (kind === "drop") data.items.add(new File([text], "config.json")); else data.setData("text", text);
      const init = { bubbles: true, cancelable: true }, box = document.querySelector("#c-model");
      box.dispatchEvent(kind === "drop" ? new DragEvent("drop", { ...init, dataTransfer: data })
        : new ClipboardEvent("paste", { ...init, clipboardData: data })); }"""
    page.evaluate(give, ["paste", '{"a": 1}'])
    page.wait_for_selector("#e-model:not([hidden])")
    assert "not a config.json" in page.locator("#e-model").inner_text()
    for kind in ("paste", "drop"):
        before = shown(page)
        page.evaluate(give, [kind, _CONFIG.replace("own", kind)])
        settled(page, before)
        assert page.locator("#headline").inner_text().startswith(f"{kind}/config.json on 8 H200")
        assert page.evaluate("location.search").startswith(f"?model=config%3A{kind}%3A")


@pytest.mark.browser
def test_several_systems_are_chosen_in_one_box(visit: Any) -> None:
    page = visit("/memory")
    box = page.locator("#c-system")
    box.click()
    page.wait_for_selector("#picks li .below:not(:empty)")
    assert page.locator("#picks").get_attribute("aria-multiselectable") == "true"
    first = page.locator("#picks .pick-name").all_inner_texts()[:3]
    assert "h100-nvl8" in first, "what is chosen stands first"
    before = shown(page)
    page.locator("#picks li[data-value='h200-nvl8']").click()
    settled(page, before)
    assert box.input_value() == "2xrtx-4090,1xm4-max,h100-nvl8,h200-nvl8"
    assert page.locator("#picker").is_visible(), "the next one can be chosen at once"
    before = shown(page)
    page.locator("#picks li[data-value='h100-nvl8']").click()  # again takes it away
    settled(page, before)
    assert box.input_value() == "2xrtx-4090,1xm4-max,h200-nvl8"
    box.press("End")
    page.keyboard.type(",b200-nv")
    page.wait_for_selector("#picks li[data-value='b200-nvl8']")
    page.keyboard.press("ArrowDown")
    before = shown(page)
    page.keyboard.press("Enter")
    settled(page, before)
    assert box.input_value() == "2xrtx-4090,1xm4-max,h200-nvl8,b200-nvl8"
    page.keyboard.press("Escape")
    assert not page.locator("#picker").is_visible()
    assert " B200" in page.locator("#now").inner_text()


def test_the_start_page_finds_a_model_by_words_that_stand_apart_in_its_name(visit: Any) -> None:
    page = visit("/")
    page.locator("#own-model").fill("llama 70b")
    found = page.locator("#meant button")
    names = found.all_inner_texts()
    assert names[0] == "Llama-3.3-70B-Instruct" and all("70b" in one.lower() for one in names)
    found.first.click()
    assert page.locator("#own-model").input_value() == "meta-llama/Llama-3.3-70B-Instruct"
    assert found.count() == 0
