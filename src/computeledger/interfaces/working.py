"""The working of an answer as a page shows it: figures and inputs in words, each source with its title and address."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.view import Tile
from computeledger.questions.wording import figure_words, interval_words, point, span, words
from computeledger.sources import load_sources
from computeledger.units import GIGA

#: The last entry: what the times of a step rest on.
BELOW = "facts and factors"


def working_view(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Figures of a document with their formulas and inputs, in words; the facts and factors behind them last.

    Examples
    --------
    >>> term = {"name": "N", "value": 8e9, "unit": "params", "origin": "fact", "ground": "llama-3-report, 2024"}
    >>> figure = {"name": "rl.flop", "value": 2.0, "unit": "FLOP", "formula": "2 N", "terms": [term]}
    >>> found = working_view({"working": [figure]})
    >>> found[0]["title"], found[0]["terms"][0]["text"], found[0]["terms"][0]["of"]
    ('RL FLOP', '8B', '')
    """
    figures = document.get("working", ())
    found = [
        {"name": one["name"], "title": _title(one["name"]), "value": point(one["value"]), "formula": one["formula"],
         **_said(one),
         "terms": [{"name": term["name"], **_said(term), **_in_full(term),
                    **ground_words(term["origin"], term["ground"]),
                    "of": _figure_of(term, one, figures)}
                   for term in one["terms"]]}
        for one in figures
    ]  # fmt: skip
    below = _below(document)
    if below:
        entry = {"name": BELOW, "title": "Facts and factors behind them", "text": "", "band": "", "terms": below}
        found.append({**entry, "formula": "time of an operation: the longest of its compute, memory and network times"})
    return found


def _figure_of(term: Mapping[str, Any], own: Mapping[str, Any], figures: Sequence[Mapping[str, Any]]) -> str:
    """The figure that an input is: the only one worked out before it with the same median, ends and unit."""
    if term["origin"] != "figure":
        return ""
    earlier = itertools.takewhile(lambda one: one is not own, figures)
    same = [one["name"] for one in earlier if (one["value"], one["unit"]) == (term["value"], term["unit"])]
    return same[0] if len(same) == 1 else ""


def _below(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Constants of a step where it was taken apart, and fitted factors where it was not."""
    of = "training_" if "mfu_fraction" in document else ""
    factors = [{"name": name, **one} for name, one in document.get("efficiency", {}).items() if name.startswith(of)]
    rows = document.get("breakdown", {}).get("constants", factors)
    return [
        {
            "name": one["name"].replace("_", " "),
            **_known(one),
            **ground_words(one["kind"], f"{one['source']}, {one['why']}"),
        }
        for one in rows
    ]


def _known(one: Mapping[str, Any]) -> dict[str, str]:
    """A constant with its range, or the range alone where nothing says more."""
    unit = one.get("unit", "")
    band = span(one["low"], one["high"], unit)
    if "value" in one:
        return {"text": words(one["value"], unit), "band": band}
    return {"text": band or words(one["low"], unit), "band": ""}


_SPELT = {"attempts usd per task": "tries, checks and any person", "waiting usd per task": "waiting",
          "failure usd per task": "tasks not completed",
          "n params active": "active parameters", "n params total": "total parameters", "n gpus": "GPUs", "rl": "RL",
          "usd per mtok": "USD/Mtok", "usd": "USD", "gpu": "GPU", "kv": "KV", "mfu": "MFU", "flop": "FLOP",
          "ttft s": "TTFT", "tpot s": "TPOT", "per s": "per second", "params": "parameters"}  # fmt: skip


#: Ends of names that say a unit.
_UNITS = (" fraction", " s", " j", " w", " bytes")


def _title(name: str) -> str:
    """A figure's name as people say it."""
    text = name.replace(".", " ").replace("_", " ")
    for plain, said in _SPELT.items():
        text = " ".join((f" {text} ".replace(f" {plain} ", f" {said} ")).split())
    text = (
        text.removesuffix(" fraction").removesuffix(" s").removesuffix(" j").removesuffix(" w").removesuffix(" bytes")
    )
    return text[:1].upper() + text[1:]


def _said(one: Mapping[str, Any]) -> dict[str, str]:
    return {"text": figure_words(one["value"], one["unit"]), "band": interval_words(one["value"], one["unit"])}


#: Origins of inputs that somebody states, whose whole numbers keep their digits up to so many.
_GIVEN, _MOST_IN_FULL = "plan", GIGA


def _in_full(term: Mapping[str, Any]) -> dict[str, str]:
    """A whole number that was given, with all of its digits, as it was typed; nothing for others.

    Examples
    --------
    >>> _in_full({"value": 2048.0, "unit": "GPUs", "origin": "plan"})
    {'text': '2,048'}
    >>> _in_full({"value": 14.8e12, "unit": "tokens", "origin": "plan"})
    {}
    """
    value, unit = term["value"], term["unit"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if term["origin"] != _GIVEN or unit not in ("", "tokens", "GPUs") or not is_number:
        return {}
    if value != int(value) or abs(value) >= _MOST_IN_FULL:
        return {}
    return {"text": f"{int(value):,}{f' {unit}' if unit == 'tokens' else ''}"}


def named_as_tiles(working: Sequence[Mapping[str, Any]], tiles: Sequence[Tile]) -> tuple[dict[str, Any], ...]:
    """The figures under the names of the tiles that lead to them and show the same number.

    Examples
    --------
    >>> named_as_tiles([{"name": "rl.usd", "title": "RL USD", "value": 2.0}], [Tile("Cost", "$2", "", 2.0, "usd")])
    ({'name': 'rl.usd', 'title': 'Cost', 'value': 2.0},)
    """
    return tuple({**one, "title": _tile_name(one, tiles) or one["title"]} for one in working)


def _tile_name(figure: Mapping[str, Any], tiles: Sequence[Tile]) -> str:
    name, value = figure["name"], figure.get("value")
    own = (
        one.label for one in tiles
        if one.key and f".{name}".endswith(f".{one.key}") and one.value is not None and value is not None
        and math.isclose(one.value, value, rel_tol=1e-6)
    )  # fmt: skip
    return next(own, "")


def ground_words(origin: str, ground: str) -> dict[str, str]:
    """Where an input comes from: its source where it has one, the reason or the plan's key otherwise."""
    key, _, rest = ground.partition(", ")
    source = load_sources().get(key)
    if source is None:
        if key.startswith("--"):  # an option: the input has its name
            ground = rest
        elif origin == _GIVEN and re.fullmatch(r"[a-z_]+\.[a-z_]+", ground):  # a key of a plan
            ground = _title(ground)
        return {"origin": origin, "ground": ground, "source": "", "href": "", "of": ""}
    return {"origin": origin, "ground": rest, "source": source.title, "href": source.url, "of": ""}
