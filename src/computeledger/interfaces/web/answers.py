"""What the app answers to an address: a status and a JSON document. It knows no HTTP and opens no user's file."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from computeledger.errors import InputError, shown
from computeledger.facts.load import load_model
from computeledger.facts.packed import packed, packed_name
from computeledger.files import without_user_files
from computeledger.interfaces.page import version
from computeledger.interfaces.render.html import report
from computeledger.interfaces.view import source_links
from computeledger.interfaces.web.csv_rows import COMMAND, csv_text
from computeledger.interfaces.web.listed import LISTS, MODELS, list_of
from computeledger.interfaces.web.pages import PAGES, page_named
from computeledger.interfaces.web.sourced import sourced_lines
from computeledger.interfaces.web.spec import LONGEST, Answer, ControlError, Page, View, blamed, checked
from computeledger.interfaces.web.sweeping import sweep_document
from computeledger.interfaces.web.unknown_models import Advice, advice_on
from computeledger.interfaces.working import working_view
from computeledger.physics.transformer import n_params_total
from computeledger.questions.answer import Answer as CommandAnswer
from computeledger.questions.answer import documents_once
from computeledger.questions.wording import words
from computeledger.units import DIMENSIONS, KILO, bytes_shown, gigabytes

#: Answers kept: enough for going back and forth, little enough for memory to stay flat.
_KEPT = 256
#: Answers kept whole, so that document, rows, working and view of one question are worked out once.
_KEPT_WHOLE = 8
OK, BAD_INPUT = 200, 422
#: Pages whose parts (offers) are kept while others are worked out.
_OF_PARTS = frozenset(one.name for one in PAGES if one.slot)
#: What an address may say beside the boxes: whether bytes are shown in GB or in GiB.
UNITS, _DECIMAL, _BINARY = "units", "decimal", "binary"


@dataclass(frozen=True, slots=True)
class Question:
    """What an address asks."""

    kind: str
    page: str
    items: tuple[tuple[str, str], ...]

    @property
    def goes_on(self) -> bool:
        """Whether its parts are kept, so that the same question, asked again, goes on behind them."""
        return self.kind == "sweep" or self.page in _OF_PARTS


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    status: int
    body: bytes
    media: str = "application/json"


def refused(status: int, message: str, control: str = "", advice: Advice | None = None) -> Reply:
    """Refuse in one line, with ways on where there are some.

    Examples
    --------
    >>> refused(422, "a number is expected", "batch").body
    b'{"control":"batch","message":"a number is expected"}'
    """
    beside = {} if advice is None else {"advice": advice}
    return Reply(status, _json({"control": control, "message": message, **beside}))


def failed(status: int, message: str, command: str = "") -> Reply:
    """Say in one line why there is no answer to what may be asked again, or by a command, where one is known.

    Examples
    --------
    >>> failed(503, "busy", "computeledger think").body
    b'{"command":"computeledger think","control":"","is_worth_another_try":true,"message":"busy"}'
    """
    return Reply(status, _json({"command": command, "control": "", "is_worth_another_try": True, "message": message}))


def answered(question: Question) -> Reply:
    """Answer an address, with no text of it taken for the path of a file.

    Examples
    --------
    >>> reply = answered(Question("view", "serve", (("system", "/dev/zero"),)))
    >>> reply.status, b"not one of the choices" in reply.body
    (422, True)
    """
    names = [name for name, _ in question.items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return refused(BAD_INPUT, f"{shown(twice)} is given {names.count(twice)} times; once is read")
    units = dict(question.items).get(UNITS, _DECIMAL)
    if units not in (_DECIMAL, _BINARY):
        return refused(BAD_INPUT, f"{UNITS}: {shown(units)} is not one of the choices {_DECIMAL}, {_BINARY}")
    render, media = _RENDERED[question.kind]
    try:
        with without_user_files(), documents_once(), bytes_shown(units == _BINARY):
            return Reply(OK, render(question.page, tuple(sorted(question.items))), media)
    except ControlError as error:
        return refused(BAD_INPUT, str(error), error.control, _advice(question, error.control))
    except InputError as error:
        message = str(error)
        return refused(BAD_INPUT, message, blamed(page_named(question.page), message, dict(question.items)))


def _advice(question: Question, name: str) -> Advice | None:
    """Ways on from a name in a box of models that no model has."""
    page, text = page_named(question.page), dict(question.items).get(name, "")
    is_model = any(one.name == name and list_of(one) == MODELS and not one.several for one in page.controls)
    return advice_on(text, page.name) if is_model and len(text) <= LONGEST else None


def _boxes(query: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What an address says of the boxes; in which units the answer is shown is no part of the question."""
    return {name: text for name, text in query if name != UNITS}


@functools.lru_cache(maxsize=_KEPT_WHOLE)
def _worked_out(name: str, values: tuple[tuple[str, str], ...], unit: str) -> Answer:
    """The answer, which holds words in the unit that bytes are shown in."""
    del unit
    return page_named(name).answer(dict(values), False)


def _answer(page: Page, asked: Mapping[str, str]) -> Answer:
    """The answer to checked values: addresses that spell a default and those that leave it out ask the same."""
    return _worked_out(page.name, tuple(checked(page, asked).items()), gigabytes()[0])


@functools.lru_cache(maxsize=_KEPT)
def _document_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    return _json(_answer(page_named(name), _boxes(query)).document)


@functools.lru_cache(maxsize=_KEPT)
def _view_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """What the page shows; ``working`` asks for formulas, inputs and sources instead."""
    page, asked = page_named(name), _boxes(query)
    working = asked.get("working") == "on"
    if working:
        del asked["working"]
    answer = _answer(page, asked)
    if working:
        return _json({"working": _working(page, asked, answer), "command": answer.command})
    drawn = page.view(answer)
    view = _fields(drawn if _has_working(answer) else _without_working(drawn))
    resolved = _in_box_units(page, {**_resolved(page, answer.document), **view.pop("chosen")})
    sourced = sourced_lines(answer.document, drawn)
    return _json({**view, "command": answer.command, "plan": answer.plan, "resolved": resolved, "sourced": sourced})


@functools.lru_cache(maxsize=_KEPT)
def _line_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """The answer in one line, and what stands behind it."""
    page = page_named(name)
    view = page.view(_answer(page, _boxes(query)))
    right = "" if view.evidence is None else view.evidence.text
    return _json({"headline": view.headline, "context": view.context, "evidence": right, "card": view.card})


def _has_working(answer: Answer) -> bool:
    return not isinstance(answer.source, CommandAnswer) or answer.source.has_working


def _without_working(view: View) -> View:
    """A view whose figures offer no working, with links to its sources in place of it."""
    links = (*view.links, *source_links(view.sources))
    return dataclasses.replace(
        view,
        tiles=tuple(dataclasses.replace(one, key="") for one in view.tiles),
        plots=tuple(dataclasses.replace(one, key="") for one in view.plots),
        tables=tuple(dataclasses.replace(one, key="") for one in view.tables),
        links=links,
    )


def _working(page: Page, asked: Mapping[str, str], answer: Answer) -> Any:
    if isinstance(answer.source, CommandAnswer):
        return answer.source.view(working=True).working
    return working_view(page.answer(checked(page, asked), True).document)


def _csv_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    page = page_named(name)
    answer = _answer(page, _boxes(query))
    view = page.view(answer)
    about = (
        f"Compute Ledger: {view.headline}",
        f"Scenario: {'; '.join(filter(None, (view.title, *view.asked)))}",
        *([f"{COMMAND}{answer.command}"] if answer.command else []),
        *sourced_lines(answer.document, view),
        f"Date: {date.today().isoformat()}; computeledger {version()}",
    )
    return csv_text(answer.document, about).encode()


def _report_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """The report that the command writes with ``--html``."""
    source = _answer(page_named(name), _boxes(query)).source
    found = source[0] if isinstance(source, tuple) else source
    return report(found.view(working=found.has_working)).encode()


def _read_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """What a text that was pasted says in the boxes of a page."""
    read, asked = page_named(name).read, dict(query)
    if read is None:
        raise InputError("nothing is pasted on this page")
    return _json(read(asked.get("text", ""), asked.get("system", "")))


@functools.lru_cache(maxsize=4)
def _list_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """What stands beside the names in a box of models or systems."""
    del query
    return _json(LISTS[name]())


@functools.lru_cache(maxsize=_KEPT_WHOLE)
def _sweep_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """One figure against one box."""
    return _json(sweep_document(name, _boxes(query)))


def _named_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """Whether every box of a page holds what may stand in it, before anything is worked out."""
    checked(page_named(name), _boxes(query))
    return _json({})


def _config_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """A ``config.json`` that was pasted, as the word that a box of models takes."""
    del name
    word = packed(dict(query).get("text", ""))
    size = words(n_params_total(load_model(word)), "")
    return _json({"model": word, "said": f"{packed_name(word)}, {size} parameters"})


#: What each kind of address is answered with, and what that is.
_RENDERED: dict[str, tuple[Callable[[str, tuple[tuple[str, str], ...]], bytes], str]] = {
    "api": (_document_bytes, "application/json"),
    "line": (_line_bytes, "application/json"),
    "csv": (_csv_bytes, "text/csv; charset=utf-8"),
    "report": (_report_bytes, "text/html; charset=utf-8"),
    "view": (_view_bytes, "application/json"),
    "read": (_read_bytes, "application/json"),
    "list": (_list_bytes, "application/json"),
    "config": (_config_bytes, "application/json"),
    "named": (_named_bytes, "application/json"),
    "sweep": (_sweep_bytes, "application/json"),
}


def _resolved(page: Page, document: Mapping[str, Any]) -> dict[str, str]:
    """What the engine chose for boxes that were left empty."""
    out = {}
    for one in page.controls:
        value = document.get(one.name.replace("-", "_"))
        if one.kind in ("text", "number") and isinstance(value, str | int | float) and not isinstance(value, bool):
            out[one.name] = value if isinstance(value, str) else _in_a_box(value, one.whole)
    return out


def _in_a_box(value: float, is_whole: bool) -> str:
    """A number that the engine chose, as a reader would type it."""
    return f"{value:.0f}" if is_whole or abs(value) >= KILO else f"{value:.3g}"


def _in_box_units(page: Page, found: dict[str, str]) -> dict[str, str]:
    """What the engine chose, where a box shows another unit of time than the engine's seconds."""
    factors = {one.name: DIMENSIONS["s"][one.unit] for one in page.controls if one.unit in DIMENSIONS["s"]}
    moved = {name for name, text in found.items() if factors.get(name, 1.0) != 1.0 and re.fullmatch(r"[\d.e-]+", text)}
    return found | {name: f"{float(found[name]) / factors[name]:g}" for name in moved}


def _fields(one: Any) -> dict[str, Any]:
    """A part of a view by its fields, without copying what they hold."""
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain_value).encode()


def _plain_value(value: Any) -> Any:
    return _fields(value) if dataclasses.is_dataclass(value) else float(value)
