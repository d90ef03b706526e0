"""The app in a real browser: pages load, a drag moves the figure, the link restores, downloads are valid."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from computeledger.interfaces.web.pages import PAGES
from tests.axe import issues
from tests.interfaces.driving import drag, has_focus, settled, shown
from tests.printed import sheets, words_of

pytestmark = pytest.mark.browser
_NAMES = [page.name for page in PAGES]
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


#: Boxes, those of closed groups included, whose placeholder is wider than they are.
_CUT_OFF = """() => {
  for (const one of document.querySelectorAll("#controls details")) one.open = true;
  const pen = document.createElement("canvas").getContext("2d");
  return [...document.querySelectorAll("#controls input")].filter((one) => one.placeholder && one.offsetParent)
    .filter((one) => {
      const style = getComputedStyle(one);
      pen.font = style.font;
      const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      return pen.measureText(one.placeholder).width > 0.95 * room;
    }).map((one) => one.placeholder);
}"""


#: What is touched and is smaller than a thumb; a switch is touched at its label too.
_SMALL = """() => [...document.querySelectorAll("button, select, summary, input, nav a, .brand")]
  .filter((one) => one.checkVisibility()).filter((one) => {
    const { width, height } = (one.type === "checkbox" ? one.labels[0] : one).getBoundingClientRect();
    return width < 43.5 || height < 43.5;
  }).map((one) => one.outerHTML.slice(0, 80))"""

#: On a phone, where the figures begin (none: at the top), and what of the question in its one line is cut off.
_HEAD = """() => [(document.querySelector("#now .tiles")?.getBoundingClientRect().top ?? 0) + scrollY,
  [...document.querySelectorAll("h1")].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.id)]"""

#: Tables, those of closed details included, that a reader would have to move sideways.
_TOO_WIDE = """async () => {
  for (const one of document.querySelectorAll("main details")) one.open = true;
  document.documentElement.dataset.settled = "on";  // tables out of sight are laid out too
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  return [...document.querySelectorAll("main .scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.getAttribute("aria-label"));
}"""

#: Whether all plots are drawn but those that are folded away.
_ALL_DRAWN = """[...document.querySelectorAll(".canvas")]
  .every((one) => !one.checkVisibility() || one.querySelector(".main-svg"))"""

#: Traces that the library took for others, or left out.
_NOT_DRAWN = """() => [...document.querySelectorAll(".canvas")].filter((one) => one.checkVisibility())
  .flatMap((one) => one.data
  .filter((trace, place) => one._fullData[place]?.type !== (trace.type ?? "scatter")).map((trace) => trace.type))"""


def value(page: Any, place: int = 0) -> str:
    return str(page.locator("#now .tiles .value").nth(place).inner_text())


def looked_at(page: Any, width: int, name: str) -> None:
    """A page as it has loaded: a headline, nothing wider than the window, no serious issue."""
    assert page.locator("#headline").inner_text()
    if width < 600:
        figures_at, cut_off = page.evaluate(_HEAD)
        assert figures_at < 420 and cut_off == [], "above the figures: a question, a headline, four lines"
        if name != "facts":  # all that it has is the search above the answer
            page.locator("#open-controls").click()
        assert page.evaluate(_SMALL) == [], "all that a thumb touches is 44 px high and wide"
        assert page.evaluate(_TOO_WIDE) == [], "a table that does not fit becomes cards"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert issues(page, WCAG) == []
    assert page.evaluate(_CUT_OFF) == [], "what a box takes when it is left empty stands in it whole"
    # plots that nobody has scrolled to are drawn as well
    page.wait_for_function(_ALL_DRAWN)
    assert page.evaluate(_NOT_DRAWN) == [], "the shipped build of the library draws every trace"
    if folder := os.environ.get("SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}-{width}.png"), full_page=True)


@pytest.mark.parametrize("name", _NAMES)
def test_every_page_loads_and_axe_finds_no_serious_issue(name: str, visit: Any) -> None:
    """On a phone, in light; wide and in dark before it is printed."""
    looked_at(visit(f"/{name}", 390, "light"), 390, name)


@pytest.mark.parametrize(
    "name", ["serve", *(pytest.param(one, marks=pytest.mark.stress) for one in _NAMES if one != "serve")]
)
def test_axe_finds_no_serious_issue_in_any_state(name: str, visit: Any) -> None:
    """In dark: two scenarios side by side, the working of one open, then bad input."""
    page = visit({"claims": "/claims?verdict=fails"}.get(name, f"/{name}"), 1280, "dark")
    if name != "facts":  # it compares nothing
        page.locator("#compare").click()
        page.wait_for_selector("#pinned h2")
    how = page.locator("#pinned .why", has_text="How?")
    if how.count():
        how.first.click()
        page.wait_for_selector("#working details[open]")
    assert issues(page, WCAG) == []
    if name == "facts":  # any words may be looked for
        return
    page.keyboard.press("Escape")
    box = page.locator("#controls input[type=text]:not([role=combobox]):visible").first
    box.fill("{}")
    box.press("Enter")
    page.wait_for_selector("#answer.stale")
    assert issues(page, WCAG) == []


#: Pages of every make: a plan with its groups, rows that are edited, plots and tiles, statements without a plot.
_PRINTED = ("life", "compare", "serve", "claims", "frontier")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.stress] * (one not in _PRINTED)) for one in _NAMES]
)
def test_every_page_is_sound_in_dark_and_prints_whole_and_light(name: str, visit: Any) -> None:
    """From a dark screen: every plot with its words, no control, nothing wider than a sheet."""
    page = visit(f"/{name}", 1280, "dark")
    looked_at(page, 1280, name)
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    words = words_of(pdf)
    drawn = page.evaluate("[...document.querySelectorAll('.canvas')].map(one => [...one.querySelectorAll("
                          "'.xtitle, .ytitle, .legendtext')].map(text => text.textContent).join('|'))")  # fmt: skip
    headings = page.locator("h1, #headline, #now h2").all_inner_texts()
    assert sheets(pdf) <= (40 if name == "claims" else 20)  # a hundred statements, each with its formula
    assert [one for one in [*headings, *"|".join(drawn).split("|")] if "".join(one.split()) not in words] == []
    assert not [one for one in ("Undo", "Firststeps", "Startfrom", "Skipto") if one in words]
    assert f"1/{sheets(pdf)}" in words
    page.set_viewport_size({"width": 688, "height": 900})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 688
    fills = page.evaluate("[...document.querySelectorAll('.canvas .xtick text')].map(one => one.style.fill)")
    assert set(fills) <= {"rgb(27, 32, 38)"}
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")


def test_a_drag_changes_the_figure_and_undo_takes_it_back(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    first = value(page, 1)  # the speed
    drag(page, "batch", 440)
    assert page.locator("#c-batch").input_value() not in ("", "16")
    assert float(value(page, 1).split()[0]) < float(first.split()[0])
    before = shown(page)
    page.locator("#undo").click()
    settled(page, before)
    assert page.locator("#c-batch").input_value() == "16"
    assert value(page, 1) == first


def test_a_range_stays_a_range_under_the_slider(visit: Any) -> None:
    page = visit("/life?inference.rate=5M..15M")
    drag(page, "inference.rate", 159)  # the ends stand on both sides of 10K, below which no suffix is written
    assert page.locator("[name='inference.rate']").input_value() == "5800..17.4K"
    drag(page, "inference.rate", 700)
    low, high = page.locator("[name='inference.rate']").input_value().split("..")
    assert low.endswith("M")
    assert high.endswith("M")
    assert page.locator("#answer.stale").count() == 0


def test_only_plots_that_changed_are_drawn_again_and_first_those_in_view(visit: Any) -> None:
    page = visit("/life")
    page.set_viewport_size({"width": 1280, "height": 640})
    page.wait_for_function("[...document.querySelectorAll('.canvas')].every(one => one.querySelector('.main-svg'))")
    page.evaluate("""() => {  // the shares stand just below the window
      scrollBy(0, document.querySelector("[data-plot=shares] .canvas").getBoundingClientRect().top - innerHeight - 90);
      window.drawn = [];
      const react = Plotly.react, root = document.documentElement;
      Plotly.react = (canvas, ...rest) => {
        drawn.push(canvas.closest("figure").dataset.plot);
        return react(canvas, ...rest);
      };
      new MutationObserver(() => drawn.push("shown")).observe(root, { attributeFilter: ["data-shown"] });
    }""")
    drag(page, "inference.rate", 650)
    page.wait_for_function("drawn.includes('shown') && document.documentElement.dataset.behind === undefined")
    drawn, in_view = page.evaluate("""() => [drawn, [...document.querySelectorAll("figure")].filter(one => {
      const { top, bottom } = one.querySelector(".canvas").getBoundingClientRect();
      return top < innerHeight && bottom > 0;
    }).map(one => one.dataset.plot)]""")
    before, after = drawn[: drawn.index("shown")], drawn[drawn.index("shown") + 1 :]
    assert "money" in before
    assert set(before) <= set(in_view)
    assert "shares" in after
    assert set(after).isdisjoint(in_view)
    assert "bounds" not in drawn  # what binds a step does not change with the traffic


def test_the_link_restores_the_scenario_and_two_readers_do_not_mix(visit: Any) -> None:
    one, other = visit("/serve?layout=tp8&batch=16"), visit("/serve?layout=tp8&batch=64")
    drag(one, "batch", 300)
    again = visit(one.evaluate("location.pathname + location.search"))
    assert value(again) == value(one)
    assert again.locator("#c-batch").input_value() == one.locator("#c-batch").input_value()
    assert other.locator("#c-batch").input_value() == "64"


def test_what_a_page_says_after_a_change_is_what_it_says_when_opened_so(visit: Any) -> None:
    page = visit("/rl?gpus=64")
    before, titles = shown(page), page.locator("#now h2").all_inner_texts()
    page.locator("#c-gpus").fill("256")
    page.locator("#c-gpus").press("Enter")
    settled(page, before)
    page.wait_for_function("location.search.includes('gpus=256')")
    again = visit("/rl?gpus=256")
    for what in ("#headline", "#context", "#now h2", "#now figcaption", "#now .tiles > div", "#now .buttons button"):
        said = "all => all.map((one) => [one.innerText, one.ariaLabel])"
        assert page.locator(what).evaluate_all(said) == again.locator(what).evaluate_all(said), what
    assert page.locator("#now h2").all_inner_texts() != titles, "one of them names what binds"


def test_bad_input_stands_at_its_box_and_the_last_answer_stays(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    before, kept = shown(page), value(page)
    page.locator("#c-batch").fill("many")
    page.locator("#c-batch").press("Enter")
    settled(page, before)
    assert "not a number" in page.locator("#e-batch").inner_text()
    assert value(page) == kept
    assert page.locator("#c-batch").get_attribute("aria-invalid") == "true"
    page.locator("#e- a").click(delay=500)  # the box loses the focus, and nothing is asked anew meanwhile
    has_focus(page, "#c-batch")


def test_two_scenarios_stand_side_by_side(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    page.locator("#compare").click()
    page.wait_for_selector("#pinned .tiles .value")
    drag(page, "batch", 440)
    assert "× the other" in page.locator("#now .versus").first.inner_text()
    page.wait_for_function("""() => {  // what stands side by side is measured by the same rule
      const plots = ["now", "pinned"].map((one) => document.querySelector(`#${one} [data-plot=pareto] .canvas`));
      const ranges = plots.map((one) => one?.layout?.xaxis.range.join());
      return ranges[0] && ranges[0] === ranges[1];
    }""")
    page.locator("#pinned .why").first.click()
    page.wait_for_selector("#working details[open]")
    number = page.locator("#pinned .tiles .value").first.inner_text().strip("$").partition("/")[0]
    said = page.locator("#working details[open] summary").first.inner_text()  # with more digits than the tile
    assert number == f"{float(re.findall(r'[0-9.]+', said)[0]):.2g}"
    assert "the other scenario" in page.locator("#working h2").inner_text()
    page.keyboard.press("Escape")
    has_focus(page, "section#pinned")
    again = visit(page.evaluate("location.pathname + location.search"))
    again.wait_for_selector("#pinned .tiles .value")


def test_offers_are_added_and_removed_and_the_link_restores_them(visit: Any) -> None:
    page = visit("/compare?3.region=eu-north&2.system=b200-nvl8&3.system=8xl40s&4.system=&5.system=&6.system=")

    def systems() -> list[str]:
        return [one.input_value() for one in page.locator("input[name$='.system']:visible").all()]

    def press(selector: str, place: int = 0) -> None:
        before = shown(page)
        page.locator(selector).nth(place).click()
        settled(page, before)

    assert systems() == ["h100-nvl8", "b200-nvl8", "8xl40s"]
    press(".remove:visible", 1)
    assert systems() == ["h100-nvl8", "8xl40s"]
    assert page.locator("[name='2.region']").input_value() == "eu-north"
    press("#add")
    assert systems() == ["h100-nvl8", "8xl40s", "h200-nvl8"]
    assert page.locator("#now table").first.locator("tbody tr").count() == 3
    page = visit(page.evaluate("location.pathname + location.search"))
    assert systems() == ["h100-nvl8", "8xl40s", "h200-nvl8"]


def test_a_pasted_launch_fills_the_boxes_and_a_bad_one_changes_none(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16&model=Qwen/Qwen3-32B")
    page.locator("#paste summary").click()
    page.locator("#pasted").fill("vllm serve Qwen/Qwen3-8B -tp 2 --enforce-eager")
    before = shown(page)
    page.locator("#read").click()
    settled(page, before)
    asked = [page.locator(f"#c-{name}").input_value() for name in ("model", "layout", "batch")]
    assert asked == ["Qwen/Qwen3-8B", "tp2", "16"]
    assert page.locator("#c-eager").is_checked()
    assert "layout: -tp 2" in page.locator("#read-said").inner_text()
    assert issues(page, WCAG) == []
    page.locator("#pasted").fill("ls -la")
    page.locator("#read").click()
    page.wait_for_selector("#e-pasted:visible")
    assert "no launch of an engine" in page.locator("#e-pasted").inner_text()
    assert page.locator("#c-layout").input_value() == "tp2"


def test_downloads_are_what_they_say(visit: Any, tmp_path: Path) -> None:
    page = visit("/life")

    def saved(selector: str) -> bytes:
        with page.expect_download() as download:
            page.locator(selector).first.click()
        return Path(download.value.path()).read_bytes()

    assert {"phases", "shares", "total"} <= set(json.loads(saved("#get-json")))
    assert "\nquantity,row,unit,median,p05,p95\n" in saved("#get-csv").decode()
    assert set(tomllib.loads(saved("#get-plan").decode())) >= {"model", "pretraining", "rl", "inference"}
    assert saved("figure button:text('PNG')").startswith(b"\x89PNG")
    drawn = saved("figure button:text('SVG')").decode()
    assert drawn.startswith("<svg")
    title = page.locator("figure h2").first.inner_text()
    assert title in drawn
    assert "Model deepseek-ai/DeepSeek-V3" in drawn  # the scenario,
    assert "/life" in drawn  # where it was asked,
    assert '<rect width="100%" height="100%" fill="#' in drawn  # and a ground that does not shine through


def test_the_working_follows_the_sliders_and_gives_the_focus_back(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    page.locator("#now .why").first.click()
    page.wait_for_selector("#working details[open]")
    opened = page.locator("#working details[open]").first
    assert "(time in service / sequences at once - prefill of a prompt) / output x GPUs" in opened.inner_text()
    assert opened.locator("a[href^='https://']").count() > 0  # the rent of a GPU-hour has a source
    first = opened.locator("summary").inner_text()
    drag(page, "batch", 440)
    page.wait_for_function(
        "before => document.querySelector('#working details[open] summary').innerText !== before", arg=first
    )
    page.keyboard.press("Escape")
    page.wait_for_selector("#working", state="hidden")
    has_focus(page, "[class=why]")


def test_a_link_with_strange_words_is_answered_and_says_so(visit: Any) -> None:
    page = visit("/facts?words=h200&colour=red")
    assert "colour" in page.locator("#e-").inner_text()
    assert page.locator("#now tbody tr").count() > 5
    page = visit("/claims?verdict=maybe")
    assert "not one of the choices" in page.locator("#e-").inner_text()
    assert page.locator("#now tbody tr").count() > 100


def test_a_slider_reaches_nothing_and_gpus_stop_at_powers_of_two(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16&cached-tokens=1024")
    drag(page, "cached-tokens", 0)
    assert page.locator("#c-cached-tokens").input_value() == "0"
    drag(page, "gpus", 400)
    assert page.locator("#c-gpus").input_value() in ("8", "16")


def test_frontier_asks_only_what_matters_and_claims_can_be_searched(visit: Any) -> None:
    page = visit("/frontier?about=sites")
    assert page.locator("[name='site']").is_visible()
    assert page.locator("[name='spec']").is_hidden()
    page = visit("/claims", 390)
    assert not page.locator(".find").count(), "one search, above the answer"
    page.fill("[name='words']", "B200")
    page.wait_for_function("document.querySelectorAll('#now .tables section:first-child tbody tr').length < 60")
    shown = page.locator("#now .tables section").first.locator("tbody tr:visible")
    assert shown.count() and all("B200" in one for one in shown.all_text_contents())
    page.click("[data-preset='Do not hold']")
    page.wait_for_function("document.querySelector('#headline').textContent.includes('do not hold')")
    assert page.input_value("[name='words']") == "B200", "a filter keeps the words"
    assert page.locator("#search [aria-pressed='true']").all_text_contents() == ["Do not hold"]
    page.fill("[name='words']", "nobody says so")
    page.wait_for_function("document.querySelector('#headline').textContent.includes('No number')")
    page.click("#search [data-all]")
    page.wait_for_function("document.querySelector('#headline').textContent.includes('numbers on AI compute:')")


def test_columns_of_charts_end_at_one_height_also_when_the_answer_changed(visit: Any) -> None:
    page = visit("/claims", 1440)
    ends = """() => Math.max(...[...Map.groupBy([...document.querySelectorAll("#now .plots > figure")].map((one) =>
      one.getBoundingClientRect()), (one) => Math.round(one.left)).values()].map((own) => own.at(-1).bottom)
      .map((end, i, all) => Math.abs(end - all[0]))) <= 2"""
    page.wait_for_function(ends)
    page.select_option("[name='verdict']", index=2)
    page.wait_for_function("document.querySelector('#headline').textContent.includes('from 3 texts')")
    page.wait_for_function(ends)


def test_the_menu_groups_the_pages_and_opens_on_a_phone(visit: Any) -> None:
    page = visit("/claims")
    parts = page.locator("#menu div")
    assert parts.locator("p").all_text_contents() == ["Plan", "Judge", "Evidence"]
    assert parts.nth(2).locator("a").all_inner_texts() == ["Accuracy", "Claims", "Facts"]
    assert page.evaluate("document.querySelector('#menu').scrollWidth <= document.querySelector('#menu').clientWidth")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator("#menu").is_hidden()
    page.locator(".menu-by").click()
    here = page.locator("#menu [aria-current]")
    box = here.bounding_box()
    assert box is not None
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["height"] >= 44
    page.keyboard.press("Escape")
    page.wait_for_selector("#menu", state="hidden")
    page.locator(".menu-by").click()
    page.locator("#menu a", has_text="Facts").click()
    page.wait_for_url("**/facts")


def test_the_keyboard_is_enough(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    slider = page.locator(".control[data-name='batch'] .slider")
    slider.focus()
    before, first = shown(page), value(page)
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    settled(page, before)
    assert value(page) != first
    page.keyboard.press("Shift+Tab")
    has_focus(page, "#c-batch")


def test_the_focus_stays_when_an_answer_comes(visit: Any) -> None:
    """What had it is made anew with the next answer: a table, the button above it, and Stop, which goes."""
    page = visit("/serve?layout=tp8&batch=16")
    page.locator("#now .tables .detail > summary").first.click()
    for place, kind in enumerate((".scroll", ".why")):
        inside = page.locator(f"#now .tables {kind}").first
        wanted = f"#now .tables {kind}[aria-label='{inside.get_attribute('aria-label')}']"
        inside.focus()
        drag(page, "batch", 300 + 100 * place)
        has_focus(page, wanted)
    page.evaluate("document.getElementById('busy').hidden = false; document.getElementById('stop').focus()")
    drag(page, "batch", 500)
    has_focus(page, "main")


def test_a_box_that_was_left_does_not_take_the_focus_back(visit: Any) -> None:
    """What it holds is selected a moment after it gets the focus; on a busy machine the reader is elsewhere by then."""
    page = visit("/serve?layout=tp8&batch=16")
    page.evaluate("""() => {
      const soon = window.setTimeout;
      window.setTimeout = (go) => soon(() => { go(); window.late = true; }, 300);
    }""")
    page.locator("#c-model").focus()
    page.keyboard.press("Tab")
    page.wait_for_function("window.late")
    assert page.evaluate("document.activeElement.id") == "c-system"


@pytest.mark.parametrize("name", ["life", "serve"])
def test_tab_reaches_everything_and_the_focus_shows_in_dark(name: str, visit: Any) -> None:
    page = visit(f"/{name}", 1280, "dark")
    page.wait_for_function(_ALL_DRAWN)
    reached, hidden = [], []
    for _ in range(300):
        page.keyboard.press("Tab")
        at = page.evaluate("""() => {
          const one = document.activeElement, style = getComputedStyle(one);
          const control = one.closest(".control")?.dataset.name;
          const isShown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
          return [one.id || (control ? control + " slider" : one.className || one.tagName), isShown];
        }""")
        reached.append(at[0])
        if not at[1]:
            hidden.append(at[0])
        if at[0] == "print":
            break
    wanted = set(page.evaluate("[...document.querySelectorAll('.control:not([hidden])')]"
                               ".filter(one => one.checkVisibility()).flatMap(one => ["
                               "`c-${one.dataset.name}`, ...(one.querySelector('.slider') ? "
                               "[`${one.dataset.name} slider`] : [])])"))  # fmt: skip
    assert wanted | {"compare", "reset", "why", "share", "print"} <= set(reached)
    boxes = [one for one in reached if one.startswith("c-")]
    assert len(boxes) == len(set(boxes)), "the focus never goes back"
    assert hidden == []
    page.locator("#compare").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#pinned .tiles .value")
    page.keyboard.press("Enter")
    page.wait_for_selector("#pinned", state="hidden")
    page.locator("#now .why").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#working details[open]")
    page.keyboard.press("Tab")
    has_focus(page, "#close-working")
    page.keyboard.press("Escape")
    has_focus(page, "[class=why]")


def test_nothing_moves_for_readers_who_want_no_motion(visit: Any) -> None:
    page = visit("/facts")
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(
        "document.querySelector('.bar').classList.add('known'); document.getElementById('busy').hidden = false"
    )
    moves = "getComputedStyle(document.querySelector('.bar i'))"
    assert page.evaluate(f"[{moves}.animationName, {moves}.transitionDuration]") == ["none", "0s"]


def test_boxes_answer_as_one_types_and_only_answers_can_be_undone(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16")
    before, first = shown(page), value(page)
    batch = page.locator("#c-batch")
    batch.fill("64")
    settled(page, before)
    assert value(page) != first  # neither Enter nor leaving the box was needed
    batch.press("Enter")
    page.wait_for_function(
        "location.search.includes('batch=64') && !document.documentElement.dataset.asking"  # Enter asks once more
    )
    before, second = shown(page), value(page)
    batch.fill("many")
    batch.press("Enter")
    settled(page, before)
    assert "batch=64" in page.evaluate("location.search")
    for text, kept in (("64", second), ("16", first)):  # what was refused is taken back first, then the last answer
        page.locator("#undo").click()
        page.wait_for_function("text => document.querySelector('#c-batch').value === text", arg=text)
        page.wait_for_function("!document.documentElement.dataset.asking")  # as soon as the box says so, it is asked
        assert value(page) == kept
        assert not page.locator("#e-batch").is_visible()
    assert page.locator("#undo").is_disabled()


def test_a_link_that_cannot_be_answered_shows_the_default_and_one_line(visit: Any) -> None:
    page = visit("/serve?model=foo&batch=16&layout=tp8")
    page.wait_for_selector("#now .tiles .value")
    said = page.locator("#e-").inner_text()
    assert said.startswith("No model called foo is known here") and said.endswith("default, DeepSeek-V3.")
    assert page.locator("#c-model").input_value() == "deepseek-ai/DeepSeek-V3"
    assert page.locator("#c-batch").input_value() == "16"
    assert "foo" not in page.evaluate("location.search")


def test_a_closed_model_leads_to_its_prices_and_never_to_the_figure_of_another(visit: Any) -> None:
    page = visit("/serve?model=GPT-5")
    page.wait_for_selector("#now .tiles .value")
    said = page.locator("#e-").inner_text()
    assert said.startswith("The size of GPT-5 is not public")
    assert said.endswith("Shown below is the default, DeepSeek-V3.")
    assert page.locator("#e-").bounding_box()["y"] < page.locator("#headline").bounding_box()["y"]
    page = visit("/")
    page.locator("#own-model").fill("Claude Opus 4")
    page.locator("#own-model").press("Enter")
    page.wait_for_selector("#advice:not([hidden])")
    assert page.locator("#own-model").input_value() == "Claude Opus 4"
    assert page.locator("#advice a").first.get_attribute("href") == "/sheet?price=15%2F75&speed=&date=2025-05-22"


def test_another_chip_takes_its_own_price_and_another_plan_its_own_boxes(visit: Any) -> None:
    page = visit("/life")
    assert page.locator("#c-price").input_value() == "2"
    before = shown(page)
    page.locator("#c-system").fill("gb200-nvl72")
    settled(page, before)
    assert page.locator("#c-price").input_value() == ""
    before = shown(page)
    page.locator("#reset").click()
    settled(page, before)
    before = shown(page)
    page.locator("#c-plan").select_option("llama-3.1-405b")
    settled(page, before)
    assert page.locator("[id='c-rl.gpus']").input_value() == "4096"
    assert page.evaluate("location.search") == "?plan=llama-3.1-405b"
