"""What a page is made of: controls, presets, and an answer shown as tiles, plots and tables. No formula here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.facts.packed import MOST_PACKED, is_packed
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, cited, tile
from computeledger.interfaces.views import view_of
from computeledger.questions.wording import words
from computeledger.units import DIMENSIONS

#: Characters that a box takes: long enough for a range with units, short enough for an address.
LONGEST = 200
#: More choices than these are not listed in a message.
_FEW = 12
Values = dict[str, str]
#: Parts of the menu: what one plans, what one judges by others' figures, and what all of it stands on.
PLAN, JUDGE, EVIDENCE = "Plan", "Judge", "Evidence"
__all__ = [
    "EVIDENCE",
    "JUDGE",
    "PLAN",
    "Answer",
    "Cell",
    "Control",
    "ControlError",
    "Page",
    "Plot",
    "Table",
    "Tile",
    "Values",
    "View",
    "blamed",
    "checked",
    "cited",
    "tile",
    "with_times",
]


#: Characters that a box shows beside its label.
_BESIDE_LABEL = 12


@dataclass(frozen=True, slots=True)
class Control:
    """One thing that a reader may change; what stands between several choices in one box is ``several``.

    ``renamed`` has the choices of older addresses and of commands with what they are called on the page.

    ``shares`` are the shares of the requests that a limit on a time can be of, as its text begins, with their words.
    """

    name: str
    label: str
    kind: str = "number"
    unit: str = ""
    default: str = ""
    low: float = 1.0
    high: float = 1.0
    log: bool = True
    whole: bool = False
    choices: tuple[str, ...] = ()
    choice_of: Callable[[str], str] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    several: str = ""
    blank: str = "searched"
    is_power: bool = False
    has_zero: bool = False
    ends: tuple[str, str] = ("", "")
    shares: tuple[tuple[str, str], ...] = ()
    is_wide: bool = False
    only: str = ""
    follows: str = ""
    otherwise: str = ""
    help: str = ""
    group: str = ""
    option: str = ""

    @property
    def unit_shown(self) -> str:
        """The unit, where neither the label says it already nor what stands in the box."""
        is_said = self.unit.lower() == self.label.lower() or (bool(self.shares) and self.kind == "text")
        return "" if is_said else self.unit

    @property
    def needs_width(self) -> bool:
        """Whether what stands in the box, or may be chosen there, is longer than a box beside its label shows."""
        texts = (self.default or self.blank, *(self.choices if self.kind == "choice" else ()))
        return self.is_wide or (self.kind != "switch" and max(map(len, texts)) > _BESIDE_LABEL)

    @property
    def range_shown(self) -> str:
        """The ends of the slider in words."""
        low = "0" if self.has_zero else words(self.low, "")
        return f"{low} to {words(self.high, '')} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine said."""

    document: Mapping[str, Any]
    command: str
    source: Any = None
    plan: str | None = None
    asked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the app; ``section`` is the part of the menu that it stands in.

    The server answers the defaults of one that ``is_ahead`` before anybody asks: it takes long, or many begin there.

    ``invites`` stands above the boxes.

    The control that ``search`` names stands above the answer, with the presets as examples, instead of beside it.

    One that ``is_list`` has its tables above its plots.

    ``short`` is the question in so few words that they stand in one line beside the title on a phone; ``opener`` is
    what the button says there that opens the controls.

    ``read`` takes a text that is pasted, and the system that its box names, to values of boxes and what is said of it.
    Groups whose controls are named ``1.system``, ``2.system`` and so on are slots: a reader adds and removes them, an
    empty one is not shown, and one that is added starts with the first of ``slot_examples`` that no other has.
    """

    name: str
    title: str
    question: str
    controls: tuple[Control, ...]
    answer: Callable[[Values, bool], Answer]
    view: Callable[[Answer], View] = lambda answer: view_of(answer.source)
    presets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read: Callable[[str, str], Mapping[str, Any]] | None = None
    slot: str = ""
    slot_examples: tuple[str, ...] = ()
    section: str = ""
    short: str = ""
    opener: str = "Change the scenario"
    search: str = ""
    invites: str = ""
    is_ahead: bool = False
    is_list: bool = False

    def defaults(self, query: Mapping[str, str]) -> Values:
        """Defaults of the controls, beside what is asked.

        Examples
        --------
        >>> price = Control("price", "GPU-hour", default="2", follows="system")
        >>> page = Page("p", "P", "", (Control("system", "System", default="h800-nvl8"), price), None, None)
        >>> page.defaults({})["price"], page.defaults({"system": "gb200-nvl72"})["price"]
        ('2', '')
        """
        base = self.bases.get(query.get(self.controls[0].name, self.controls[0].default), {})
        out = {one.name: base.get(one.name, one.default) for one in self.controls}
        moved = {name for name, text in out.items() if query.get(name, text).strip() != text}
        return out | {one.name: one.otherwise for one in self.controls if moved & set(one.follows.split("|"))}


class ControlError(InputError):
    """Bad input in one box."""

    def __init__(self, control: str, message: str) -> None:
        super().__init__(message)
        self.control = control


def checked(page: Page, query: Mapping[str, str]) -> Values:
    """Values of a page's controls: those given, defaults for the rest.

    Examples
    --------
    >>> page = Page("p", "P", "", (Control("engine", "Engine", "choice", choices=("vllm", "ideal")),), None, None)
    >>> checked(page, {"engine": "ideal"})
    {'engine': 'ideal'}
    >>> checked(page, {"engine": "idael"})
    Traceback (most recent call last):
    computeledger.interfaces.web.spec.ControlError: Engine 'idael': not one of the choices; did you mean 'ideal'?
    """
    known = {one.name: one for one in page.controls}
    for name in query:
        if name not in known:
            raise ControlError("", f"{shown(name)}: no control of this page; {nearest(name, known)}")
    defaults = page.defaults(query)
    out = {name: query.get(name, defaults[name]).strip() for name in known}
    unchosen = [name for name, one in known.items() if one.kind == "choice" and not out[name] and "" not in one.choices]
    out |= {name: defaults[name] for name in unchosen}
    out = {name: _choice(known[name], known[name].renamed.get(text, text)) for name, text in out.items()}
    for name, text in out.items():
        _check(known[name], text)
    return {name: text for name, text in out.items() if text}


def with_times(controls: Sequence[Control], values: Values) -> Values:
    """Values for a command, which takes no time without a unit: a bare number has the one shown beside its box.

    Examples
    --------
    >>> with_times((Control("tpot", "TPOT", unit="s"), Control("batch", "Batch")), {"tpot": "0.05", "batch": "8"})
    {'tpot': '0.05s', 'batch': '8'}
    """
    units = {one.name: one.unit for one in controls if one.unit in DIMENSIONS["s"]}
    return {
        name: f"{text}{units[name]}" if name in units and text[-1:].isdigit() else text for name, text in values.items()
    }


def _choice(one: Control, text: str) -> str:
    """The choice that a text names; any other text as it is."""
    if one.choice_of is None or one.several or not text or text in one.choices or len(text) > _longest(one, text):
        return text
    try:
        return one.choice_of(text)
    except InputError as error:
        said = str(error)
        hint = said.partition(f"{shown(text)}: ")[2] if said.startswith("unknown") else said
        raise ControlError(one.name, f"{one.label} {shown(text)}: not one of the choices; {hint or said}") from None


def _longest(one: Control, text: str) -> int:
    """Characters that are read: more where a configuration stands in a box of models."""
    return MOST_PACKED if one.choice_of is not None and is_packed(text) else LONGEST


def _check(one: Control, text: str) -> None:
    if len(text) > _longest(one, text):
        raise ControlError(one.name, f"{one.label}: {len(text)} characters; at most {_longest(one, text)} are read")
    if not text:
        return
    if any(ord(letter) < ord(" ") for letter in text):
        raise ControlError(one.name, f"{one.label} {shown(text)}: one line of plain text is expected")
    if one.kind == "choice" and one.choice_of is None and text not in one.choices:
        hint = nearest(text, filter(None, one.choices))
        if hint.startswith("allowed") and len(one.choices) > _FEW:
            hint = f"type a part of a name to see which of the {len(one.choices)} have it"
        raise ControlError(one.name, f"{one.label} {shown(text)}: not one of the choices; {hint}")
    if one.kind == "switch" and text != "on":
        raise ControlError(one.name, f"{one.label} {shown(text)}: 'on', or left out")


def blamed(page: Page, message: str, given: Mapping[str, str]) -> str:
    """The control that an error of the engine is about: whose option or key the message names, or whose text it quotes.

    Examples
    --------
    >>> page = Page("p", "P", "", (Control("batch", "Batch"), Control("rl.steps", "Steps")), None, None)
    >>> blamed(page, "--batch 'many': not a number", {}), blamed(page, "[rl] steps = '-3': negative", {})
    ('batch', 'rl.steps')
    >>> pages = Page("p", "P", "", (Control("batch", "Batch"), Control("anchor", "A", option="anchor")), None, None)
    >>> blamed(pages, "--anchor 'x': write batch=32", {})
    'anchor'
    >>> blamed(page, "unknown '7x'", {"batch": "7x"}), blamed(page, "does not fit", {"batch": "8"})
    ('batch', '')
    """
    first = re.match(r"--([\w-]+)", message)
    for one in page.controls:
        if first is not None and first[1] == one.option:
            return one.name
    for one in page.controls:
        section, _, key = one.name.rpartition(".")
        names = "|".join(re.escape(name) for name in {one.name, one.option} if name)
        whole = rf"(?<![\w.-])(--)?({names})"
        named = rf"(\[{re.escape(section)}\] {re.escape(key)}|{whole})" if section else whole
        if re.search(rf"{named}(?![\w-])", message):
            return one.name
    quoting = [name for name, text in given.items() if text and f"'{text}'" in message]
    return quoting[0] if len(quoting) == 1 else ""
