"""The HTML around an answer: menu, controls with their boxes, empty places for what the engine will say."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from computeledger.facts.editions import load_prices
from computeledger.facts.load import offered_systems
from computeledger.frontier.growth import scenario_words
from computeledger.interfaces.glossary import glossary
from computeledger.interfaces.page import plotly_name, script_json, version
from computeledger.interfaces.plots import parts as plot_parts
from computeledger.interfaces.views.display_names import benchmark_name, engine_name, system_words
from computeledger.interfaces.web.listed import SYSTEMS, list_of
from computeledger.interfaces.web.onward import readings, ways_on
from computeledger.interfaces.web.spec import Control, Page

_TEMPLATES = Environment(
    loader=PackageLoader("computeledger.interfaces.web", "templates"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip

#: A page with more boxes than these has a search for them; its first groups are open as long as they hold no more than
#: so many together.
_FEW, _OPEN = 20, 16


def sections_of(pages: Sequence[Page]) -> dict[str, list[Page]]:
    """Pages by the part of the menu that each stands in, parts and pages in the order of the pages.

    Examples
    --------
    >>> from computeledger.interfaces.web.pages import PAGES
    >>> [(name, own[0].title) for name, own in sections_of(PAGES).items()]
    [('Plan', 'Life'), ('Judge', 'Prices'), ('Evidence', 'Accuracy')]
    """
    names = dict.fromkeys(one.section for one in pages)
    return {name: [one for one in pages if one.section == name] for name in names}


_TEMPLATES.globals["sections_of"] = sections_of


def page_html(page: Page, pages: Sequence[Page]) -> str:
    """The page before its first answer.

    Examples
    --------
    >>> from computeledger.interfaces.web.pages import PAGES
    >>> '<h1>' in page_html(PAGES[0], PAGES)
    True
    """
    return _TEMPLATES.get_template("page.html").render(
        page=page,
        pages=pages,
        groups=_groups(page),
        has_finder=len(page.controls) > _FEW,
        version=version(),
        data=script_json(_data(page)),
        terms=script_json(glossary()),
        plotly=plotly_name(),
        modules=modules_of("app.js"),
        list_of=list_of,
        name_of=lambda choice: scenario_words(benchmark_name(engine_name(choice))),
        ways=ways_on(page),
        readings=readings(page),
    )


def figure_html(page: Page) -> str:
    """A page that shows one figure alone; which one, and of which scenario, its script reads in the address.

    Examples
    --------
    >>> from computeledger.interfaces.web.pages import PAGES
    >>> 'id="figure"' in figure_html(PAGES[0])
    True
    """
    data = _data(page)
    data["controls"] = [{**one, "choices": []} for one in data["controls"]]
    return _TEMPLATES.get_template("figure.html").render(
        page=page, version=version(), data=script_json({**data, "presets": {}, "systems": {}}), plotly=plotly_name(),
        modules=modules_of("figure.js"),
    )  # fmt: skip


@functools.cache
def modules_of(name: str) -> tuple[str, ...]:
    """Scripts that one of the app's own loads before it runs, so that a browser asks for all of them at once.

    Examples
    --------
    >>> "dom.js" in modules_of("app.js")
    True
    """
    text = resources.files("computeledger.interfaces.web").joinpath("static", name).read_text("utf-8")
    own = re.findall(r'^import .* from "\./([\w-]+\.js)";$', text, re.MULTILINE)
    return tuple(dict.fromkeys((*own, *(one for part in own for one in modules_of(part)))))


def rendered(name: str, **given: Any) -> str:
    """Another page of the app's own, from its template."""
    return _TEMPLATES.get_template(name).render(version=version(), current="", **given)


def absent_html(message: str, pages: Sequence[Page]) -> str:
    """What stands where no page is: one line, and the pages that there are.

    Examples
    --------
    >>> from computeledger.interfaces.web.pages import PAGES
    >>> 'href="/serve"' in absent_html("'serv': no such page", PAGES)
    True
    """
    return _TEMPLATES.get_template("absent.html").render(message=message, pages=pages)


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes that stand together under a name; a slot's are added and removed by the reader."""

    name: str
    controls: tuple[Control, ...]
    is_slot: bool = False
    is_open: bool = True


def _groups(page: Page) -> list[Group]:
    """The boxes of a page by group; of a page with many boxes the first groups are open, and the others closed.

    Examples
    --------
    >>> from computeledger.interfaces.web.pages import page_named
    >>> [one.name for one in _groups(page_named("serve")) if one.is_open]
    ['What', 'Load', 'Promise']
    """
    shown = [one for one in page.controls if one.name != page.search]
    out, count = [], 0
    for name in dict.fromkeys(one.group for one in shown):
        own = tuple(one for one in shown if one.group == name)
        is_slot = bool(page.slot) and own[0].name[0].isdigit()
        count += 0 if is_slot else len(own)
        out.append(Group(name, own, is_slot, is_slot or len(shown) <= _FEW or count <= _OPEN))
    return out


@functools.cache
def _system_names() -> dict[str, str]:
    """What people call the systems that a box offers."""
    return {one: system_words(one) for one in offered_systems()}


def _data(page: Page) -> dict[str, Any]:
    """What the script needs: the controls, the presets, and how plots are drawn in light and dark."""
    return {
        "page": page.name,
        "title": page.title,
        "version": version(),
        "edition": load_prices().id,
        # names are read on the server
        "controls": [{**asdict(replace(one, choice_of=None)), "list": list_of(one)} for one in page.controls],
        "presets": {name: dict(values) for name, values in page.presets.items()},
        "bases": {name: dict(values) for name, values in page.bases.items()},
        "examples": page.slot_examples,
        "systems": _system_names() if any(list_of(one) == SYSTEMS for one in page.controls) else {},
        "config": plot_parts.CONFIG,
        "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)},
    }
