"""The part of a serving view on documents: read with each request, held in a cache, or trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Cell, Table, quantity_cell
from computeledger.questions.wording import figure_words, point, words

_NAMES = {"read": "read each time", "cached": "from a cache", "tuned": "trained on"}


def corpus_table(document: Mapping[str, Any]) -> list[Table]:
    """What documents cost in each way, and from how many requests a day training pays; none where none were asked."""
    one = document.get("corpus")
    if one is None:
        return []
    names = _NAMES | {"lora": f"LoRA, rank {one['lora_rank']}"}
    rows: list[list[str | Cell]] = [
        [names[way["name"]], quantity_cell(way["gpu_hours_per_day"], ""),
         *(quantity_cell(way[key], "USD") for key in ("usd_per_day", "usd_per_request"))]
        for way in one["ways"]
    ]  # fmt: skip
    pays: list[list[str | Cell]] = [
        [names[way["name"]], quantity_cell(way["usd_per_change"], "USD"), _pays(way, "read"), _pays(way, "cached")]
        for way in one["ways"]
        if way["name"] != "read"
    ]
    title = (
        f"{figure_words(one['tokens'], '')} tokens of documents, {figure_words(one['questions_per_day'], '')} requests "
        f"a day, changed every {figure_words(one['refresh_s'], 's')}"
    )
    return [
        Table(title, ("", "GPU-hours a day #", "a day #", "a request #"), rows, "usd", _note(one)),
        Table("Requests a day from which a way costs less", ("", "each change #", "than reading each time #",
              "than a cache #"), pays, "usd"),
    ]  # fmt: skip


def corpus_sentence(document: Mapping[str, Any]) -> str:
    """What the documents cost a day in each way, cheapest first; nothing where none were asked."""
    one = document.get("corpus")
    if one is None:
        return ""
    names = _NAMES | {"lora": f"by LoRA of rank {one['lora_rank']}"}
    ways = sorted(one["ways"], key=lambda way: point(way["usd_per_day"]))
    said = ", ".join(f"{figure_words(way['usd_per_day'], 'USD')} {names[way['name']]}" for way in ways)
    return f" A day of the documents costs {said}."


def _pays(way: Mapping[str, Any], other: str) -> str | Cell:
    if other not in way["pays_from_per_day"]:
        return "–"
    value = way["pays_from_per_day"][other]
    return "not in every sample" if value is None else quantity_cell(value, "")


def _note(one: Mapping[str, Any]) -> str:
    said = ["What a model answers from training may be worse: no figure here counts that."]
    cached = next((way for way in one["ways"] if way["name"] == "cached"), None)
    if cached is None:
        said.append("No sequence with these documents fits these GPUs: reading is left out.")
    else:
        place = "computed again" if cached["place"] == "recompute" else f"held in {cached['place']}"
        said.append(
            f"Reading decodes {figure_words(cached['batch'], '')} sequences at once, each with a cache of its own; "
            f"between two requests the cache is cheapest {place}."
        )
    if one["is_beyond_context"]:
        said.append(f"The model's context is {words(one['max_context_tokens'], 'tokens')}.")
    said.append("Paraphrases to train on are written by the model, at this answer's cost of output.")
    if one["assumed"]:
        said.append(f"Assumed: {'; '.join(one['assumed'])}.")
    return " ".join(said)
