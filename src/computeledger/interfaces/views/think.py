"""The view of thinking against size: the cheapest and the fastest way to a success, by model, and the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots.thinking import ways_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.questions.answers.think import ThinkAnswer
from computeledger.questions.wording import interval_words, percent, words
from computeledger.sources import load_sources
from computeledger.units import format_count, format_si

#: Rows of the front that are shown, about.
_ROWS = 16


def view(answer: ThinkAnswer, working: bool) -> View:  # noqa: ARG001 (the laws are in the document)
    """The cheapest and the fastest way, the cheapest of each model, and ways that none beats."""
    document = answer.to_dict()
    target, tasks = percent(document["success_fraction"]), document["benchmark"]
    best, fast = document["cheapest"], document["fastest"]
    if best is None:
        top = document["front"][-1]
        headline = f"No way reaches {target}; {_way(top)} comes to {percent(top['success'])}."
        tiles: tuple[Tile, ...] = ()
    else:
        soon = fast["where_fastest"]
        headline = (
            f"At least cost {_way(best)}: {words(best['usd_per_task'], 'USD')} a task, and "
            f"{percent(best['success'])} solved ({interval_words(best['success'], 'fraction')}). With the least wait "
            f"{_way(fast)}: {words(soon['seconds'], 's')}, for {words(soon['usd_per_task'], 'USD')}."
        )
        tiles = (
            Tile("A task costs", words(best["usd_per_task"], "USD"), key="usd_per_task"),
            Tile("Solved", percent(best["success"]), interval_words(best["success"], "fraction"), key="success"),
            Tile("Tokens of a task", format_si(best["tokens_per_task"]), key="tokens_per_task"),
            Tile("Takes", words(best["seconds"], "s"), key="seconds"),
        )
    tables = [_table("The cheapest of each model", list(document["by_model"].values()))] if best else []
    tables.append(_table("Ways than which none solves more for less", _spread(document["front"])))
    return View(
        title=f"{target} of {tasks}: {format_count(document['ways_compared'], 'way')} compared",
        headline=headline,
        tiles=tiles,
        plots=(_plot(answer, document),),
        tables=tuple(tables),
        grounds=(*_published(document), *(f"assumed: {one}" for one in document["assumptions"])),
        sources=_sources(answer),
        overline="think",
    )


def _sources(answer: ThinkAnswer) -> tuple[str, ...]:
    """Sources of published successes; the law has none of its own."""
    keys = dict.fromkeys(one.way.level.basis.partition(", ")[0] for one in answer.options)
    return tuple(key for key in keys if key in load_sources())


def _published(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the successes on the front were read."""
    places = dict.fromkeys(one["basis"] for one in document["front"])
    return (f"success of a single answer: {'; '.join(places)}",) if places else ()


def _plot(answer: ThinkAnswer, document: Mapping[str, Any]) -> Plot:
    """Success against cost."""
    front = set(answer.front)
    beaten = [(one.usd_per_task, one.way.success) for one in answer.options if one not in front]
    figure = ways_figure([(_way(row), row) for row in document["front"]], beaten, document["success_fraction"])
    caption = "Each mark is a model with a limit of thinking and a number of samples; bars are 90 % intervals."
    return Plot("ways", "Success against the cost of a task", caption, figure, "front", is_wide=True)


def _way(row: Mapping[str, Any]) -> str:
    """A way as people write it."""
    name, samples = row["model"].rpartition("/")[2], row["samples"]
    thought = "" if row["kind"] == "instruct" else ", thinking"
    limit = "" if row["budget_tokens"] is None else f" up to {format_si(row['budget_tokens'], digits=2)} tokens"
    many = {"single": "", "vote": f", vote of {samples}", "verified": f", up to {samples} tries",
            "verified, side by side": f", {samples} tries side by side"}[row["selection"]]  # fmt: skip
    return f"{name}{thought}{limit}{many}"


def _spread(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows evenly over all, the last one kept."""
    step = max(len(rows) / _ROWS, 1.0)
    places = sorted({min(round(k * step), len(rows) - 1) for k in range(_ROWS)} | {len(rows) - 1})
    return [rows[place] for place in places]


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    cells: list[list[str | Cell]] = [
        [_way(row), Cell(percent(row["success"]), below=interval_words(row["success"], "fraction")),
         format_si(row["tokens_per_task"]), words(row["usd_per_task"], "USD"), words(row["seconds"], "s"),
         words(row["where_fastest"]["seconds"], "s"), words(row["where_fastest"]["usd_per_task"], "USD")]
        for row in rows
    ]  # fmt: skip
    columns = ("", "solved #", "tokens #", "a task #", "takes #", "fastest #", "for #")
    note = "fastest, for: on the layout and batch with the shortest time per token, and what a task costs there"
    return Table(title, columns, cells, "usd_per_task", note)
