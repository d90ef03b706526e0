"""The view of thinking against size: the cheapest and the fastest way to a success, by model, and the front."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.facts.load import model_ids
from computeledger.interfaces.plots.thinking import ways_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.questions.answers.think import ThinkAnswer
from computeledger.questions.wording import headline_words, interval_words, percent, short_model, words
from computeledger.sources import load_sources
from computeledger.units import PERCENT, format_count, format_si, format_times

#: Rows of the front that are shown, about.
_ROWS = 12
_ARROW = "\u2192"


def view(answer: ThinkAnswer, working: bool) -> View:  # noqa: ARG001 (what was left out is always shown)
    """The cheapest and the fastest way, the cheapest of each model, and ways that none beats."""
    document = answer.to_dict()
    target, tasks = percent(document["success_fraction"]), document["benchmark"]
    best, fast = document["cheapest"], document["fastest"]
    compared = format_count(document["ways_compared"], "way")
    if best is None:
        top = document["front"][-1]
        headline = headline_words(
            f"{target} of {tasks}", f"no way reaches it, {_way(top)} comes to {percent(top['success'])}"
        )
        context = ""
        tiles: tuple[Tile, ...] = ()
    else:
        soon = fast["where_fastest"]
        ranges = document["cheapest_ranges"]
        said = f"{target} of {tasks} for {words(best['usd_per_task'], 'USD')} a task"
        headline = headline_words(f"Use {_way(best)}", said, ranges.get("usd_per_task"), "USD")
        who = "" if _way(fast) == _way(best) else f" by {_way(fast)}"
        wait = f"Answers in {words(best['seconds'], 's')}; fastest {words(soon['seconds'], 's')}{who}, at "
        wait += f"{words(soon['usd_per_task'], 'USD')} ({_dearer(fast, best)} the price)."
        context = " ".join((wait, *_next_model(document)))
        tiles = (
            Tile(
                "A task costs", words(best["usd_per_task"], "USD"), _range(ranges, "usd_per_task"), key="usd_per_task"
            ),
            Tile("Solved", percent(best["success"]), interval_words(best["success"], "fraction"), key="success"),
            Tile(
                "Tokens of a task",
                format_si(best["tokens_per_task"]),
                _range(ranges, "tokens_per_task"),
                key="tokens_per_task",
            ),
            Tile("Takes", words(best["seconds"], "s"), _range(ranges, "seconds"), key="seconds"),
        )
    tables = [_ways(_cheapest_first(document) if best else [], _spread(document["front"], best), best)]
    if document["proposals"]:
        tables.append(_proposals(document["proposals"]))
    tables.append(_left_out(document["left_out"]))
    return View(
        title=f"{f'{_way(best)}: ' if best else ''}{target} of {tasks}, {compared} compared",
        headline=headline,
        context=context,
        tiles=tiles,
        facts=_counted(best) if best else (),
        plots=(_plot(answer, document),),
        tables=tuple(tables),
        grounds=(
            *_published(document),
            *(f"assumed: {one}" for one in document["assumptions"]),
            *(f"extrapolated: {one}" for one in document["extrapolated"]),
        ),
        sources=_sources(answer),
        overline="think",
        main="usd_per_task",
    )


def _cheapest_first(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cheapest way of each model, the answer first."""
    return sorted(document["by_model"].values(), key=lambda row: float(row["usd_per_task"]))


def _next_model(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What the next model would cost for the same success, where there is one."""
    first, *others = _cheapest_first(document)
    if not others:
        return ()
    times = others[0]["usd_per_task"] / first["usd_per_task"]
    cost = words(others[0]["usd_per_task"], "USD")
    return (f"The next model costs {cost}, {format_times(times)} as much: {_way(others[0])}.",)


def _counted(best: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """How the cost of a task comes about, in place of a working."""
    tokens, cost = format_si(best["tokens_per_task"]), words(best["usd_per_task"], "USD")
    said = (
        f"{cost} = {tokens} tokens of a task, and its input, at what Serve counts for a token ({best['layout']}, batch "
        f"{best['batch']:,}); solved: the published score, moved by the limit of thinking and the number of answers"
    )
    return (("How it is counted", said),)


def _dearer(row: Mapping[str, Any], than: Mapping[str, Any] | None = None) -> str:
    """How many times the cost of a task a way costs where it is fastest."""
    return format_times(row["where_fastest"]["usd_per_task"] / (than or row)["usd_per_task"])


def _range(ranges: Mapping[str, Mapping[str, Any]], name: str) -> str:
    return interval_words(ranges[name], ranges[name]["unit"]) if name in ranges else ""


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
    beaten = [(_name(one.model), one.usd_per_task, one.way.success) for one in answer.options if one not in front]
    ways = [(_way(row), _named(row)) for row in document["front"]]
    best = document["cheapest"]
    figure = ways_figure(ways, beaten, document["success_fraction"], None if best is None else _named(best))
    caption = (
        "Each mark is a model with a limit of thinking and a number of samples: coloured, on the line and with its "
        "90 % interval, where no other solves more for less; pale where another does. The ring is the answer."
    )
    return Plot("ways", "Success against the cost of a task", caption, figure, "front", is_wide=True)


def _left_out(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Each law beside figures that it had not seen."""
    cells: list[list[str | Cell]] = [
        [row["figures"], row["left_out"], row["known"], f"{row['n']}",
         f"{row['median_error'] * PERCENT:.1f}", f"{row['held']:.0%}"]
        for row in rows
    ]  # fmt: skip
    note = "error: points of success, median; held: share inside 90 % intervals that the others' errors set"
    columns = ("figures", "left out", "known", "of #", "error #", "held #")
    return Table("Success predicted without what is left out", columns, cells, "left_out", note, is_detail=True)


def _name(model: str) -> str:
    """A model's name, also where it was asked for by its id."""
    said = short_model(model)
    return _known().get(said.lower(), said)


@functools.cache
def _known() -> Mapping[str, str]:
    """Names of shipped models by the same in small letters, as they may be asked for."""
    names = map(short_model, model_ids())
    return {one.lower(): one for one in names}


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "model": _name(row["model"])}


def _way(row: Mapping[str, Any]) -> str:
    """A way as people write it."""
    name, samples = _name(row["model"]), row["samples"]
    if row["selector"] is not None:
        return f"{name}, {samples} proposals, {row['selector'].rpartition('/')[2]} selects"
    thought = "" if row["kind"] == "instruct" else ", thinking"
    limit = "" if row["budget_tokens"] is None else f" up to {format_si(row['budget_tokens'], digits=2)} tokens"
    many = {"single": "", "vote": f", vote of {samples}", "verified": f", up to {samples} tries",
            "verified, side by side": f", {samples} tries side by side"}[row["selection"]]  # fmt: skip
    return f"{name}{thought}{limit}{many}"


def _spread(rows: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Rows evenly over all, the last one and the answer kept."""
    step, kept = max(len(rows) / _ROWS, 1.0), {place for place, row in enumerate(rows) if row == best}
    places = sorted({min(round(k * step), len(rows) - 1) for k in range(_ROWS)} | {len(rows) - 1} | kept)
    return [rows[place] for place in places]


def _cells(row: Mapping[str, Any]) -> list[str | Cell]:
    """Model, cost, limit, answers and success of a row: what decides stands first."""
    name, samples = _name(row["model"]), row["samples"]
    limit = "freely" if row["budget_tokens"] is None else format_si(row["budget_tokens"], digits=2)
    answers = {
        "single": "1",
        "vote": f"vote of {samples}",
        "verified": f"{samples} tries",
        "verified, side by side": f"{samples} at once",
        "selected": f"1 of {samples}",
    }[row["selection"]]
    if row["selector"] is not None:
        name = f"{name}, {row['selector'].rpartition('/')[2]}"
    solved = Cell(percent(row["success"]), below=interval_words(row["success"], "fraction"))
    cost = words(row["usd_per_task"], "USD")
    return [name, cost, "no" if row["kind"] in ("instruct", "base") else limit, answers, solved]


def _ways(
    cheapest: Sequence[Mapping[str, Any]], front: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None
) -> Table:
    """The answer, the cheapest way of each model to the success asked for, and what each success costs at least."""
    first = [row for row in (*cheapest, *front) if row == best][:1]
    ordered = [*first, *(row for row in cheapest if row != best)]
    ordered += [row for row in front if row not in ordered]
    cells: list[list[str | Cell]] = [
        [
            f"{_ARROW} {_way(row)}" if row == best else _way(row),
            *(_cells(row)[column] for column in (1, 4)),
            words(row["seconds"], "s"),
            words(row["where_fastest"]["seconds"], "s"),
            Cell(words(row["where_fastest"]["usd_per_task"], "USD"), below=_dearer(row)),
        ]
        for row in ordered
    ]
    columns = ("way", "a task #", "solved #", "takes #", "fastest #", "fastest costs #")
    note = (
        "fastest: least time per token; answers side by side share one batch, paid until the longest one ends, so that "
        "a vote takes as long as its longest answer; below what it costs: how many times the way's own cost"
    )
    title = f"The answer ({_ARROW}), the cheapest of each model, and what each success costs at least"
    strong = tuple(place for place, row in enumerate(ordered) if row == best)
    return Table(title, columns, cells, "usd_per_task", note, strong=strong, drops=("fastest costs", "fastest"))


def _proposals(rows: Sequence[Mapping[str, Any]]) -> Table:
    cells: list[list[str | Cell]] = [
        [row["selector"].rpartition("/")[2], _cells(row)[1], f"{row['samples']}", _cells(row)[4], *_effort(row)]
        for row in rows
    ]
    columns = ("selects", "a task #", "proposals #", "solved #", "tokens #", "takes #")
    return Table(f"{rows[0]['model'].rpartition('/')[2]} proposes", columns, cells, "usd_per_task")


def _effort(row: Mapping[str, Any]) -> list[str]:
    return [format_si(row["tokens_per_task"]), words(row["seconds"], "s")]
