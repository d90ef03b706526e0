"""The view of thinking against size: the cheapest and the fastest way to a success, by model, and the front."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from computeledger.facts.load import load_model, model_ids
from computeledger.interfaces.plots.thinking import ways_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, with_interval
from computeledger.interfaces.views.display_names import benchmark_name, chip_name
from computeledger.interfaces.views.evidence import think_evidence
from computeledger.interfaces.working import working_view
from computeledger.physics.transformer import n_params_total
from computeledger.questions.answers.think import Priced, ThinkAnswer
from computeledger.questions.wording import (
    ends_words,
    headline_words,
    interval_words,
    percent,
    point,
    short_model,
    words,
)
from computeledger.sources import load_sources
from computeledger.units import PERCENT, format_count, format_si

#: Rows of the front that are shown, about, and digits of a figure in a sentence.
_ROWS, _DIGITS = 12, 2
_ARROW = "\u2192"
#: Answers to a task that are many: the first such way on the line has a name.
_MANY = 8
#: Ratio of costs from which a way is called dearer; the share of its lower range by which a success may exceed the wish
#: that it just meets; by how much it may fall short of the best one that it nearly is; and the share of the best one's
#: cost that is much less.
_MORE, _JUST, _NEARLY, _MUCH_LESS = 1.05, 0.2, 0.02, 0.5
#: Share of a way's time up to which another one is called sooner.
_SOONER = 0.95


def view(answer: ThinkAnswer, working: bool) -> View:
    """The cheapest and the fastest way, the cheapest of each model, and ways that none beats."""
    document = answer.to_dict(working=working)
    target, tasks = percent(document["success_fraction"]), benchmark_name(document["benchmark"])
    best, shown = document["cheapest"], document["cheapest"] or document["highest"]
    compared = format_count(document["ways_compared"], "way")
    ends = ends_words(shown["success"], "fraction")
    solved = f"{_solved(document, shown)} ({ends})" if ends else _solved(document, shown)
    if best is None:
        headline = _at_best(document, shown, solved)
        near = (*_odds(document, shown), *_nearly(document["front"], shown))
        context = " ".join((*near, _setup(document, shown)))
    else:
        said = f"solves {solved} of {tasks} for {_short(best['usd_per_task'], 'USD')} a task"
        headline = headline_words(f"Use {_way(best)}", said)
        near = _surely(document, best) or _next_model(document)
        context = " ".join((*near, _setup(document, best), _compared(answer)))
    tables = [*_by_model(document, best), _by_success(document["front"], best)]
    if document["proposals"]:
        tables.append(_proposals(document["proposals"]))
    tables.append(_left_out(document["left_out"]))
    return View(
        title=f"{f'{_way(best)}: ' if best else ''}{target} on {tasks}, {compared} compared",
        headline=headline,
        context=context,
        tiles=_tiles(document, shown),
        plots=(_plot(answer, document),),
        tables=tuple(tables),
        working=tuple(working_view(document)) if working else (),
        grounds=(
            *_published(document),
            *(f"assumed: {one}" for one in document["assumptions"]),
            *(f"extrapolated: {one}" for one in document["extrapolated"]),
        ),
        sources=_sources(answer),
        overline="think",
        evidence=think_evidence(document),
        main="usd_per_task",
    )


def _solved(document: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    """The share solved, with a digit more where it would look like the share that it falls short of."""
    said = percent(shown["success"], _DIGITS)
    is_short = document["cheapest"] is None and said == percent(document["success_fraction"], _DIGITS)
    return percent(shown["success"], _DIGITS + 1) if is_short else said


def _at_best(document: Mapping[str, Any], best: Mapping[str, Any], solved: str) -> str:
    """What the best way solves where none solves the wish."""
    wish, tasks = document["success_fraction"], benchmark_name(document["benchmark"])
    if wish > best["success"]["p95"]:
        return headline_words(f"No way solves {percent(wish)} of {tasks}", f"at best {solved}, by {_way(best)}")
    return headline_words(
        "At best", f"{solved} of {tasks} for {_short(best['usd_per_task'], 'USD')} a task, by {_way(best)}"
    )


def _odds(document: Mapping[str, Any], best: Mapping[str, Any]) -> tuple[str, ...]:
    """The odds of the wish with the best way that falls short of it, where its range reaches the wish."""
    wish, success = document["success_fraction"], best["success"]
    if wish > success["p95"]:
        return ()
    is_near = wish - success["p50"] < _JUST * (success["p95"] - success["p50"])
    return (f"{'About' if is_near else 'Less than'} even odds of {percent(wish)}.",)


def _compared(answer: ThinkAnswer) -> str:
    """What was compared: how many models, how long they think, how many answers."""
    n_models, most = len({one.model for one in answer.options}), answer.question.max_samples
    models = "this model" if n_models == 1 else f"{n_models} models"
    answers = f", 1 to {most:,} answers" if most > 1 else ""
    return f"The cheapest of {format_count(len(answer.options), 'way')}: {models}, short or long thinking{answers}."


def _setup(document: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """What the price rests on: the chips, what an hour of them costs, and how many answers are written at once."""
    count, usd = document["n_gpus_per_replica"], words(point(document["price"]["value"]), "USD")
    chips = f"{count:g} {chip_name(document['accelerator'])}"
    return f"On {chips} at {usd} an hour{' each' if count > 1 else ''}, kept full ({best['batch']:,} answers at once)."


def _surely(document: Mapping[str, Any], best: Mapping[str, Any]) -> tuple[str, ...]:
    """How often the way misses the success asked for, and the cheapest one that hardly does."""
    wish, success = document["success_fraction"], best["success"]
    if success["p05"] >= wish:
        return ()
    target, sure = percent(wish), document["surest"]
    is_just = success["p50"] - wish < _JUST * (success["p50"] - success["p05"])
    odds = f"{'Even' if is_just else 'Good'} odds of {target} or more"
    if sure is None:
        return (f"{odds}; no way reaches it surely.",)
    return (f"{odds}; 19 in 20 with {_way(sure)} ({_short(sure['usd_per_task'], 'USD')}).",)


def _nearly(front: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> tuple[str, ...]:
    """The cheapest way that solves almost as much as the best one."""
    near = next(row for row in front if row["success"]["p50"] > best["success"]["p50"] - _NEARLY)
    if near["usd_per_task"] > _MUCH_LESS * best["usd_per_task"]:
        return ()
    less = percent(near["success"], _DIGITS)
    return (f"{_way(near)}, solves {less} for {_short(near['usd_per_task'], 'USD')} a task.",)


def _tiles(document: Mapping[str, Any], best: Mapping[str, Any]) -> tuple[Tile, ...]:
    """What the answer costs, solves, takes and writes."""
    ranges, fast = document["cheapest_ranges"] or document["highest_ranges"], document["fastest"]
    solves = _figure("Tasks solved", "success", best["success"]["p50"], best["success"], "fraction")
    takes = _figure("A task takes", "seconds", best["seconds"], ranges.get("seconds"), "s")
    return (
        _figure("A task costs", "usd_per_task", best["usd_per_task"], ranges.get("usd_per_task"), "USD"),
        replace(solves, text=_solved(document, best)),
        replace(takes, band="; ".join(part for part in (takes.band, *_sooner(best, fast)) if part)),
        _figure("Tokens written", "tokens_per_task", best["tokens_per_task"], ranges.get("tokens_per_task"), ""),
    )


def _sooner(best: Mapping[str, Any], fast: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The least wait for the same success, and what it costs."""
    way = fast or best
    who = "" if way["model"] == best["model"] else f" by {_name(way['model'])}"
    soon = way["where_fastest"]
    if soon["seconds"] > _SOONER * best["seconds"]:
        return ()
    return (f"or {_short(soon['seconds'], 's')} for {_short(soon['usd_per_task'], 'USD')}{who}",)


def _figure(label: str, key: str, value: float, interval: Mapping[str, Any] | None, unit: str) -> Tile:
    """A figure with its interval where it has one; the page can sweep it."""
    shown = with_interval(Tile(label, "", key=key), value, unit, interval)
    return replace(shown, text=percent(value, _DIGITS) if unit == "fraction" else _short(value, unit))


def _short(value: float, unit: str) -> str:
    """A figure of a sentence or a tile."""
    return words(value, unit, _DIGITS)


def _cheapest_first(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cheapest way of each model, the answer first."""
    return sorted(document["by_model"].values(), key=lambda row: float(row["usd_per_task"]))


def _next_model(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What the next model would cost for the same success, where there is one."""
    first, *others = _cheapest_first(document)
    if not others:
        return ()
    ratio = others[0]["usd_per_task"] / first["usd_per_task"]
    times = f"{_times(ratio)} as much" if ratio > _MORE else "about as much"
    cost = _short(others[0]["usd_per_task"], "USD")
    return (f"{_name(others[0]['model'])} would cost {times} ({cost}).",)


def _dearer(row: Mapping[str, Any]) -> str:
    """How many times the cost of a task a way costs where it is fastest."""
    return f"{format_si(row['where_fastest']['usd_per_task'] / row['usd_per_task'], digits=_DIGITS)} times"


def _times(ratio: float) -> str:
    return f"{format_si(ratio, digits=_DIGITS)} times"


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
    beaten = [
        (_name(one.model), _way(_fields(one)), one.usd_per_task,
         {"p05": one.way.low, "p50": one.way.success, "p95": one.way.high})
        for one in answer.options if one not in front
    ]  # fmt: skip
    ways = [(_way(row), _named(row)) for row in document["front"]]
    best = document["cheapest"]
    shown = best or document["highest"]
    on_line = {row["model"] for row in document["front"]}
    after = [] if best is None else _cheapest_first(document)[1:]  # the next model has its words, on the line or not
    others = [row for row in after if row is after[0] or row["model"] not in on_line]
    marked = _landmarks(document["front"], shown, has_others=bool(others))
    named = marked, [(_way(row), _named(row)) for row in others]
    figure = ways_figure(ways, beaten, document["success_fraction"], _named(shown), named, _largest_first(answer))
    ring = "the answer" if best else "the best found"
    caption = (
        "A mark is a way: a model, how long it may think, how many answers it votes over; bars: 90 % ranges. The "
        f"line joins the best at each price. Ring: {ring}; dotted: the {percent(document['success_fraction'])} asked "
        "for; pale: another way is cheaper and better."
    )
    title = f"{benchmark_name(document['benchmark'])}: % solved, by cost"
    return Plot("ways", title, caption, figure, "success", is_wide=True)


def _fields(one: Priced) -> dict[str, Any]:
    """What names a way, as a document has it."""
    way, limit = one.way, one.way.budget_tokens
    return {"model": one.model, "selector": one.selector, "kind": way.level.kind, "samples": way.samples,
            "selection": way.selection, "budget_tokens": None if math.isinf(limit) else limit}  # fmt: skip


def _largest_first(answer: ThinkAnswer) -> list[str]:
    """Models by their size, so that each has one colour on every benchmark."""
    ids = dict.fromkeys(one.model for one in answer.options)
    ordered = sorted(ids, key=lambda one: n_params_total(load_model(one)), reverse=True)
    return list(dict.fromkeys(map(_name, ordered)))


def _landmarks(
    front: Sequence[Mapping[str, Any]], best: Mapping[str, Any], *, has_others: bool
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The cheapest way, and the first of many answers, unless another model has its words there."""
    rest = [row for row in front if row != best]
    many = [] if has_others else [row for row in rest if row["samples"] >= _MANY][:1]
    chosen = [*rest[:1], *(row for row in many if row is not rest[0])]
    is_one = len({row["model"] for row in front}) == 1
    return tuple((_part(row) if is_one or row["kind"] == "instruct" else _way(row), row) for row in chosen)


def _part(row: Mapping[str, Any]) -> str:
    """A way without its model, in short: the answers of many, else how it thinks."""
    said = str(_without(_name(row["model"]), _way(row)))
    return said.rpartition(", ")[2] if row["samples"] > 1 else said


def _left_out(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Each law beside figures that it had not seen."""
    cells: list[list[str | Cell]] = [
        [row["figures"], row["left_out"], row["known"], f"{row['n']}",
         f"{row['median_error'] * PERCENT:.1f}", f"{row['held']:.0%}"]
        for row in rows
    ]  # fmt: skip
    note = "error: points of success, median; held: share inside 90 % intervals that the others' errors set"
    columns = ("figures", "left out", "known", "of #", "error #", "held #")
    return Table("How well scores that were left out are predicted", columns, cells, "success", note, is_detail=True)


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
    solved = Cell(percent(row["success"], _DIGITS), below=interval_words(row["success"], "fraction"))
    cost = _short(row["usd_per_task"], "USD")
    return [name, cost, "no" if row["kind"] in ("instruct", "base") else limit, answers, solved]


_COLUMNS = ("way", "a task #", "solved #", "takes #", "at its fastest #", "cost then #")
_COLUMN_DROPS = ("cost then", "at its fastest")
_NOTE = (
    "at its fastest: with few answers at once, which costs more; a vote takes as long as its longest answer, and all "
    "of them are paid for until it ends"
)


def _by_model(document: Mapping[str, Any], best: Mapping[str, Any] | None) -> tuple[Table, ...]:
    """The cheapest way of each model to the success asked for, the answer first."""
    if best is None:
        return ()
    cheapest = _cheapest_first(document)
    rows = [_row(row, row == best) for row in cheapest]
    target = percent(document["success_fraction"])
    title = f"The cheapest way of each model to {target}" if len(rows) > 1 else f"The cheapest way to {target}"
    strong = tuple(place for place, row in enumerate(cheapest) if row == best)
    return (Table(title, _COLUMNS, rows, "usd_per_task", _NOTE, strong=strong, drops=_COLUMN_DROPS),)


def _by_success(front: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None) -> Table:
    """What each success costs at least: the ways that none beats, of whichever model."""
    rows = _spread(front, best)
    strong = tuple(place for place, row in enumerate(rows) if row == best)
    note = "" if best else _NOTE
    return Table("The best way at each price, of any model", _COLUMNS, [_row(row, row == best) for row in rows],
                 "usd_per_task", note, strong=strong, drops=_COLUMN_DROPS, is_detail=best is not None)  # fmt: skip


def _without(name: str, way: str | Cell) -> str | Cell:
    """A way without the name of its model.

    Examples
    --------
    >>> _without("M", "M, thinking"), _without("M", "M")
    ('thinking', 'without thinking')
    """
    if not isinstance(way, str):
        return way
    mark, rest = (_ARROW + " ", way.removeprefix(f"{_ARROW} ")) if way.startswith(_ARROW) else ("", way)
    return mark + (rest.removeprefix(f"{name}, ") if rest != name else "without thinking")


def _row(row: Mapping[str, Any], is_best: bool) -> list[str | Cell]:
    """A way with its cost, its success, how long it takes, and what the least wait costs."""
    soon = row["where_fastest"]
    is_sooner = soon["seconds"] <= _SOONER * row["seconds"]
    least = [_short(soon["seconds"], "s"), Cell(_short(soon["usd_per_task"], "USD"), below=_dearer(row))]
    return [
        f"{_ARROW} {_way(row)}" if is_best else _way(row),
        *(_cells(row)[column] for column in (1, 4)),
        _short(row["seconds"], "s"),
        *(least if is_sooner else ["", ""]),
    ]


def _proposals(rows: Sequence[Mapping[str, Any]]) -> Table:
    cells: list[list[str | Cell]] = [
        [row["selector"].rpartition("/")[2], _cells(row)[1], f"{row['samples']}", _cells(row)[4], *_effort(row)]
        for row in rows
    ]
    columns = ("selects", "a task #", "proposals #", "solved #", "tokens #", "takes #")
    return Table(f"{rows[0]['model'].rpartition('/')[2]} proposes", columns, cells, "usd_per_task")


def _effort(row: Mapping[str, Any]) -> list[str]:
    return [_short(row["tokens_per_task"], ""), _short(row["seconds"], "s")]
