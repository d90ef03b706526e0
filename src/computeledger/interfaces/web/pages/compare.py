"""The page *Compare*: several offers for one workload and one promise."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from computeledger.errors import InputError
from computeledger.facts.load import bundled_system_id, model_ids, model_name, offered_systems
from computeledger.fields import TEXT, fields_of
from computeledger.interfaces.view import Cell
from computeledger.interfaces.views import view_of
from computeledger.interfaces.views.compare_words import PER_REQUESTS_TILE, in_order, shown
from computeledger.interfaces.web.ask import boxes_of_question
from computeledger.interfaces.web.controls import TIME_PER_TOKEN, choices, control_of
from computeledger.interfaces.web.listed import WEIGHT_FORMATS
from computeledger.interfaces.web.plan_boxes import plan_text
from computeledger.interfaces.web.spec import PLAN, Answer, Control, ControlError, Page, Values, View, with_times
from computeledger.questions.answers.compare import CompareAnswer, answer_compare
from computeledger.questions.answers.serving.offers import read_offers
from computeledger.questions.compare import CompareQuestion, Offer, Offers, OfferTerms
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.questions.setup import BACKENDS

_WORKLOAD, _PROMISE = "workload", "promise"
_SERVE, _TERMS = fields_of(ServeQuestion), fields_of(OfferTerms)
#: What all offers share, with what the page shows first; limits on times are the promise.
_SHARED: Mapping[str, Mapping[str, Any]] = {
    "model": {**choices(model_ids, model_name, "meta-llama/Meta-Llama-3.1-8B"), "help": ""},
    "requests_per_s": {"default": "40", "blank": "none", "help": "None: the cost of GPUs that never idle."},
    "ttft": {"label": "First token within", "kind": "text", "default": "2s",
             "help": "A share of requests is simulated: some seconds for each offer."},
    "tpot": {**TIME_PER_TOKEN, "label": "Each token within", "kind": "text", "default": "40ms",
             "help": "Or a speed, in tokens/s for each user."},
    "precision": {"label": "Weights", "kind": "choice", "choices": ("", *WEIGHT_FORMATS), "blank": "as stored",
                  "help": ""},
    "input_tokens": {"default": "2K", "help": "A number, or how they differ: lognormal:P50:P95."},
    "cached_tokens": {"has_zero": True, "help": ""},
    "output_tokens": {"default": "300", "help": ""},
    "e2e": {"label": "Whole request within", "kind": "text", "help": ""},
    "goodput": {"help": "Share of the requests that keep all limits at once."},
}  # fmt: skip
#: What a reader comes with stands first: a model, its load, and how long its users may wait.
_GROUPS = {
    **dict.fromkeys(("model", "requests_per_s", "ttft", "tpot", "precision"), "Model, load and limits"),
    **dict.fromkeys(("e2e", "goodput"), "More limits"),
}
#: What an offer says of itself.
_OWN: Mapping[str, Mapping[str, Any]] = {
    "system": {"kind": "choice", "choices": ("", *offered_systems()), "choice_of": bundled_system_id, "blank": ""},
    "api": {"blank": "none: a system", "help": "In place of a system, such as groq/llama-3.1-8b-instant."},
    "name": {},
    "model": {"kind": "choice", "choices": ("", *model_ids()), "choice_of": model_name, "blank": "the workload's"},
    "precision": {"kind": "choice", "choices": ("", *WEIGHT_FORMATS), "blank": "the workload's"},
    "backend": {"kind": "choice", "choices": ("", *BACKENDS), "blank": "vllm, usually"},
    "price": {"kind": "text", "blank": "of the term"},
    "term": {"default": "", "choices": ("", "rent", "reserve", "own"), "blank": "rent"},
    "region": {},
}
#: Systems that the page begins with: what is rented most, from Hopper to Blackwell, AMD's, and the cheapest card.
_FIRST = ("h100-nvl8", "h200-nvl8", "b200-nvl8", "gb200-nvl72", "mi300x-8", "8xl40s")
#: Systems that offers are added with.
_MORE = (*_FIRST, "a100-nvl8")
MOST_SLOTS = 6


def _shared_control(name: str) -> Control:
    return control_of(_SERVE[name], {**_SHARED[name], "group": _GROUPS.get(name, "Length of requests")})


def _own_control(place: int, name: str) -> Control:
    first = _FIRST[place - 1] if name == "system" else ""
    look = {"help": "", **_OWN[name], "group": f"Offer {place}", "default": first}
    if name not in ("system", "api", "term"):
        look["follows"] = f"{place}.system"
    return dataclasses.replace(control_of((_TERMS | _SERVE)[name], look), name=f"{place}.{name}", option="")


_CONTROLS = (
    *(_shared_control(name) for name in _SHARED),
    *(_own_control(place, name) for place in range(1, MOST_SLOTS + 1) for name in _OWN),
)


def tables_of(values: Values) -> tuple[dict[str, Any], list[int]]:
    """Tables of the OFFERS.toml that the boxes describe, and which slot each offer stands in.

    Examples
    --------
    >>> tables_of({"model": "llama-3.1-8b", "ttft": "2s", "3.system": "h100-nvl8", "3.price": "2.5"})[0]
    {'workload': {'model': 'llama-3.1-8b'}, 'promise': {'ttft': '2s'}, 'offer': [{'system': 'h100-nvl8', 'price': 2.5}]}
    """
    shared: dict[str, dict[str, Any]] = {_WORKLOAD: {}, _PROMISE: {}}
    slots: dict[int, dict[str, Any]] = {}
    for name, text in values.items():
        place, _, key = name.rpartition(".")
        field = (_TERMS | _SERVE)[key.replace("-", "_")]
        section = _PROMISE if field.takes_quantile else _WORKLOAD
        table = slots.setdefault(int(place), {}) if place else shared[section]
        table[field.name] = text if field.dimension == TEXT else _number(text)
    without = next((place for place, table in slots.items() if not table.keys() & {"system", "api"}), None)
    if without is not None:
        raise ControlError(f"{without}.system", "needed, or an API in place of it; Remove takes the offer away")
    both = next((place for place, table in slots.items() if table.keys() >= {"system", "api"}), None)
    if both is not None:
        raise ControlError(f"{both}.api", "in place of a system: empty one of the two")
    used = {name: table for name, table in shared.items() if table}
    return {**used, "offer": [slots[place] for place in sorted(slots)]}, sorted(slots)


def _number(text: str) -> float | int | str:
    """A plain number as TOML writes one; anything else is a text for the engine to judge."""
    if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text):
        return text
    return float(text) if "." in text else int(text)


def _offers(values: Values) -> tuple[Offers, list[int], str]:
    """The offers that the boxes describe, their slots, and the text of their file."""
    tables, slots = tables_of(values)
    if not slots:
        raise ControlError("1.system", "at least one offer is needed: add one")
    try:
        return read_offers(tables), slots, plan_text(tables)
    except InputError as error:
        raise _at_its_box(str(error), slots) from None


def _at_its_box(message: str, slots: list[int]) -> InputError:
    """An error of a file of offers, at the box that it is about."""
    found = re.match(
        r"(?:offers:(?:\d+:)? )?(?:\[\w+\] |(?:workload|promise) |(?:offer \d+ and )?offer (\d+)(?: \(.*?\))?: )?"
        r"(?:(\w+) (?='))?",
        message,
    )
    place, key = found.groups() if found else (None, None)
    said = message[found.end() :] if found else message
    word = (key or re.split(r"\W", said, maxsplit=1)[0]).replace("_", "-")
    own = f"{slots[int(place) - 1]}." if place else ""
    names = {one.name for one in _CONTROLS}
    return ControlError(next((one for one in (own + word, word, f"{own}name") if one in names), ""), said)


def _answer(values: Values, working: bool) -> Answer:
    offers, slots, text = _offers(with_times(_CONTROLS, values))
    try:
        found = answer_compare(CompareQuestion(offers=offers))
    except InputError as error:
        raise _at_its_box(str(error), slots) if ": api: " in str(error) else error from None
    return Answer(found.to_dict(working=working), "computeledger compare OFFERS.toml", found, text, values)


def _view(answer: Answer) -> View:
    found: CompareAnswer = answer.source
    view = view_of(found)
    first, *others = view.tables
    links: list[str] = [""]
    if found.offers:
        offers = {one.offer.name: one.offer for one in found.offers}
        ordered = in_order([shown({**one, "label": one["name"]}) for one in answer.document["offers"] if one["rank"]])
        links = [_on_serve(offers[one["name"]], one) for one in ordered]
        rows = [[_linked(row[0], link), *row[1:]] for row, link in zip(first.rows, links, strict=True)]
        whole = not any(one["replicas"] for one in ordered)
        opens = "it" if whole else "a replica of its fleet"
        note = f"{first.note}. The name of an offer opens {opens} on Serve".removeprefix(". ")
        first = dataclasses.replace(first, rows=rows, note=note)
    tiles = view.tiles
    if len(tiles) > 1 and tiles[-1].label == PER_REQUESTS_TILE and links[0]:
        how = ("How? On Serve", f"{links[0]}#working=usd_per_mtok_output")
        tiles = (*tiles[:-1], dataclasses.replace(tiles[-1], also=how))
    if tiles and (address := _in_fewer_bits(found, answer.asked)):
        tiles = (dataclasses.replace(tiles[0], also=(f"Try {_FEWER_BITS} weights", address)), *tiles[1:])
    blocks = (("OFFERS.toml", answer.plan or ""),)
    return dataclasses.replace(view, tables=(first, *others), tiles=tiles, blocks=blocks, grounds=view.grounds[:1])


#: What weights are tried in where they are in bf16.
_FEWER_BITS = "fp8"


def _in_fewer_bits(found: CompareAnswer, asked: Mapping[str, str]) -> str:
    """The address of the same offers with weights of half the bits; nothing where a format was asked for."""
    given = [name for name in asked if name.rpartition(".")[2] == "precision"]
    if given or {one.served.weights for one in found.offers} != {"bf16"}:
        return ""
    boxes = {one.name: asked.get(one.name, "") for one in _CONTROLS if asked.get(one.name, "") != one.default}
    return f"/compare?{urlencode({**boxes, 'precision': _FEWER_BITS})}"


def _linked(cell: str | Cell, href: str) -> Cell:
    return dataclasses.replace(cell if isinstance(cell, Cell) else Cell(cell), href=href)


def _on_serve(offer: Offer, fleet: Mapping[str, Any]) -> str:
    """The address of the page Serve that asks about one replica of an offer's fleet, with its share of the load; about
    the offer where its fleet is not made of equal replicas.
    """
    question = offer.question
    if question is None:
        return ""
    boxes = boxes_of_question(question)
    if fleet["replicas"] and isinstance(question.requests_per_s, int | float):
        share = question.requests_per_s / fleet["replicas"]
        boxes |= {"layout": str(fleet["layout"]), "requests-per-s": f"{share:.4g}"}
    return f"/serve?{urlencode(boxes)}"


def _without(first: int) -> dict[str, str]:
    """Empty boxes in place of the offers from one on."""
    return {f"{place}.system": "" for place in range(first, MOST_SLOTS + 1)}


PAGE = Page(
    "compare",
    "Offers",
    "Which hardware or offer serves this load within its latency limits for the least, and how sure is that?",
    _CONTROLS,
    _answer,
    _view,
    short="Which hardware costs the least?", section=PLAN,
    presets={
        "Six systems": {},
        "Six systems, fp8 weights": {"precision": "fp8"},
        "Two systems beside an API": {
            **_without(4), "1.system": "h100-nvl8", "2.system": "b200-nvl8", "3.system": "",
            "3.api": "groq/llama-3.1-8b-instant",
        },
        "Limits for 95 % of requests": {
            **_without(3), "ttft": "p95:2s", "tpot": "p95:40ms", "2.system": "b200-nvl8",
        },
        "H200 rented, reserved, owned": {
            **_without(4), "1.system": "h200-nvl8", "2.system": "h200-nvl8", "3.system": "h200-nvl8",
            "2.term": "reserve", "3.term": "own",
        },
        "Two models of one family": {
            **_without(3), "requests-per-s": "10", "1.name": "8B", "2.name": "70B", "2.system": "h100-nvl8",
            "2.model": "meta-llama/Llama-3.3-70B-Instruct", "2.precision": "fp8",
        },
    },
    slot="offer",
    slot_examples=_MORE,
)  # fmt: skip
