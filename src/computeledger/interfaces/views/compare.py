"""The view of a comparison: offers by cost with how sure their order is, what each takes, and where it turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.facts.load import load_system
from computeledger.interfaces.plots.compare import even_figure, intervals_figure
from computeledger.interfaces.view import Cell, Plot, Table, View
from computeledger.questions.answer import Answer
from computeledger.questions.wording import figure_words, headline_words, interval_words, listed, percent, words
from computeledger.units import format_count

_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "request"}
#: A chance beyond which an order is called clear, and below which it is called open (assumptions).
_CLEAR, _OPEN = 0.9, 0.65
#: A chance below which what holds at the medians more likely does not.
_EVEN = 0.5
_NONE = "–"
#: Offers that a headline names at most.
_MOST_NAMED = 3
#: A request costs so little that people quote this many.
_REQUESTS = 1000
_PER_REQUESTS = "per thousand requests"


def view(answer: Answer, working: bool) -> View:
    """Offers of one workload; each one's working is that of ``serve``."""
    document = answer.to_dict(working=working)
    known = [one for one in document["offers"] if one["rank"]]
    refused = [one for one in document["offers"] if not one["rank"]]
    title = f"{format_count(len(document['offers']), 'offer')} for one workload, the cheapest request first"
    if not known:
        return View("No offer serves this workload.", title=title, tables=(_refused(refused),), overline="compare")
    tables = [_costs(known), *_systems(known), *_break_even(document["break_even"])]
    return View(
        headline=_headline(known),
        context=_context(known),
        title=title,
        plots=(*_cost_plot(known), *_even_plot(document["break_even"])),
        tables=(*tables, *([_refused(refused)] if refused else [])),
        grounds=(
            "cheaper than the next: errors that two offers share do not change their order (fitted to measured pairs)",
            "figures are those of `serve` for each offer; --json has them all, --csv a row for each",
        ),
        notes=tuple(f"{one['name']}: {one['why']}" for one in known if one["why"]),
        overline="compare",
    )


def _headline(known: Sequence[Mapping[str, Any]]) -> str:
    """The cheapest offer and what it costs; none is called so where the chance of another is about as great."""
    first, others = known[0], _as_likely(known)
    ends = _ends(first)
    if others:
        named, more = _named(first, others)
        costs = listed([_cost(one) for one in named])
        said = f"cannot be told apart by cost{more}, {costs} {_PER_REQUESTS}"
        return headline_words(listed([_who(one) for one in named]), said, ends, "USD")
    month = first["usd_per_month"]
    month_words = f"{words(month, 'USD')} a month, " if month is not None else ""
    rank = f"the cheapest of {format_count(len(known), 'offer')}" if len(known) > 1 else "the only offer that serves it"
    said = f"{month_words}{_cost(first)} {_PER_REQUESTS}"
    return headline_words(f"{_who(first)}, {rank}", said, ends, "USD")


def _who(one: Mapping[str, Any]) -> str:
    """An offer by its name and its GPUs; one without a name of its own is so many of its chip."""
    if one["kind"] == "gpus" and one["name"] == one["system"]:
        chip = load_system(one["system"]).accelerator.short_name
        return f"{one['gpus']} {chip}" if one["gpus"] else chip
    return f"{one['name']} on {format_count(one['gpus'], 'GPU')}" if one["gpus"] else str(one["name"])


def _ends(one: Mapping[str, Any]) -> dict[str, float]:
    """Cost of so many requests, and its 90 % interval; none where nothing ends it."""
    low, high = one["usd_per_request_p05"], one["usd_per_request_p95"]
    ends = {"p05": low, "p50": one["usd_per_request"], "p95": low if high is None else high}
    return {name: _REQUESTS * value for name, value in ends.items()}


def _cost(one: Mapping[str, Any]) -> str:
    return figure_words(_ends(one), "USD")


def _as_likely(known: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Offers whose chance of being the cheaper one is about as great as the first one's."""
    first = known[0]
    return [one for one in known[1:] if first["cheaper_probability"][one["name"]] < _OPEN]


def _context(known: Sequence[Mapping[str, Any]]) -> str:
    """How surely the first is the cheapest, and whether its speed is known."""
    first, others = known[0], _as_likely(known)
    parts = [_open_order(first, others)] if others else [*_priced_as(first)]
    if not others and len(known) > 1:
        parts.append(_odds(first["cheaper_than_next_probability"], known[1]["name"]))
    parts += kept_words(first)
    if first["kind"] == "api":
        own = next((one for one in known if one["kind"] != "api"), None)
        parts += [_own(own)] if own else []
    return " ".join(parts)


def kept_words(one: Mapping[str, Any]) -> list[str]:
    """With what chance an offer keeps its promise, where that is less than clear.

    Examples
    --------
    >>> offer = {"name": "8 H200", "kept_probability": 0.64, "tightest_limit": "p95 ttft_s", "meets": None}
    >>> kept_words(offer)[0].replace(chr(160), " ")
    '8 H200 keeps the promise with a chance of 64 %.'
    """
    chance, name = one["kept_probability"], one["name"]
    if chance is None or chance >= _CLEAR:
        return []
    if one["meets"] and chance < _EVEN:
        return [f"{name} keeps the limits at the medians alone: with a chance of at most {_chance(chance)}."]
    what = "keeps the promise" if one["tightest_limit"] else "keeps the limits" if one["meets"] else "carries the load"
    return [f"{name} {what} with a chance of {_chance(chance)}."]


def _priced_as(one: Mapping[str, Any]) -> list[str]:
    """What the cheapest offer's cost stands on: its price of a GPU-hour and the format of its weights."""
    if one["usd_per_gpu_hour"] is None:
        return []
    return [f"It runs {one['weights']} weights at {words(one['usd_per_gpu_hour'], 'USD')} per GPU-hour."]


def _odds(chance: float, other: str) -> str:
    """How surely the first comes before the second, in words."""
    return f"It is {'clearly' if chance >= _CLEAR else 'likely'} cheaper than {other} ({_chance(chance)})."


def _named(first: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """Offers of one cost that are named, and how many more there are."""
    named = [first, *others[: _MOST_NAMED - 1]]
    left = len(others) + 1 - len(named)
    return named, f", nor from {format_count(left, 'more offer')}" if len(others) >= _MOST_NAMED else ""


def _open_order(first: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """No offer is called the cheapest where the chance of another is about as great."""
    names = [one["name"] for one in _named(first, others)[0]]
    chances = [f"than {name} is {_chance(first['cheaper_probability'][name])}" for name in names[1:]]
    return f"The chance that {names[0]} is in truth cheaper {listed(chances)}."


def _own(one: Mapping[str, Any]) -> str:
    return f"An API's speed is not known; of the systems {one['name']} is the cheapest ({_cost(one)} {_PER_REQUESTS})."


def _chance(chance: float | None) -> str:
    if chance is None:
        return _NONE
    return (
        f"{100 * min(max(chance, 0.01), 0.99):.0f} %" if 0.01 <= chance <= 0.99 else ("> 99 %" if chance else "< 1 %")
    )


def _or_none(value: float | None, unit: str) -> str:
    return _NONE if value is None else words(value, unit)


def _costs(known: Sequence[Mapping[str, Any]]) -> Table:
    has_month = any(one["usd_per_month"] is not None for one in known)
    rows: list[list[str | Cell]] = []
    for one in known:
        high = one["usd_per_request_p95"]
        open_end = f"{words(_REQUESTS * one['usd_per_request_p05'], 'USD')} – not kept"
        band = open_end if high is None else interval_words(_ends(one), "USD")
        month = [_or_none(one["usd_per_month"], "USD")] if has_month else []
        each = Cell(_cost(one), below=band)
        chance = _chance(one["cheaper_than_next_probability"])
        name = Cell(one["name"], below=", ".join(_terms(one)))
        rows.append([name, *month, each, words(one["usd_per_mtok"], "USD"), chance])
    month = ["a month #"] if has_month else []
    columns = ("offer", *month, "a thousand requests, 90 % interval #", "a Mtok #", "cheaper than the next #")
    return Table("What each costs", columns, rows, "usd_per_request", strong=(0,), is_stacked=True)


def _terms(one: Mapping[str, Any]) -> list[str]:
    """What an offer's name leaves open of its format, term and region."""
    term = {"reserve": "reserved", "own": "owned"}.get(one["term"])
    said = one["name"].replace(",", "").split()
    return [part for part in (one["precision"], term, one["region"]) if part and part not in (*said, one["name"])]


def _systems(known: Sequence[Mapping[str, Any]]) -> list[Table]:
    """What each offer takes, and what it attains of the promise; prices by the token say nothing of either."""
    own = [one for one in known if one["kind"] != "api"]
    if not own:
        return []
    has_fleet = any(one["gpus"] for one in own)
    columns = ["offer", "layout", *(["GPUs #", "one spare #", "power #"] if has_fleet else []), "J/token #", "bound"]
    rows = []
    for one in own:
        row = [one["name"], f"{one['replicas']} x {one['layout']}" if one["replicas"] else one["layout"]]
        row += [f"{one['gpus']:,}", _or_none(one["gpus_with_spare"], "GPUs"), words(one["w"], "W")] if has_fleet else []
        rows.append([*row, f"{one['joules_per_token']:.3g}", one["bound"]])
    takes = Table("What each takes", tuple(columns), rows, is_detail=True)
    return [takes, *([_kept(own)] if has_fleet or any(one["meets"] for one in own) else [])]


def _kept(own: Sequence[Mapping[str, Any]]) -> Table:
    """What is attained, how near it is to the limits, and the chance that it holds."""
    limits = list(next((one["attained"] for one in own if one["attained"]), {}))
    plain = [name for name in ("ttft", "tpot", "e2e") if any(name in (one["meets"] or {}) for one in own)]
    columns = (
        "offer",
        *(f"median {_NAMES[f'{name}_s']}, within its limit #" for name in plain),
        *(f"p95 {_NAMES[name]} #" for name in limits),
        *(["tightest limit"] if limits else []),
        "kept #",
    )
    rows: list[list[str | Cell]] = [
        [
            one["name"],
            *(_within(one, name) for name in plain),
            *(_attained(one, name) for name in limits),
            *([_tightest(one)] if limits else []),
            _chance(one["kept_probability"]),
        ]
        for one in own
    ]
    title = "The promise, or else the load, and the chance that it holds"
    return Table(title, columns, rows, is_stacked=bool(plain))


def _within(one: Mapping[str, Any], name: str) -> str | Cell:
    """A time at the median, with the chance that it is within a plain limit."""
    if name not in (one["meets"] or {}):
        return _NONE
    found = one["meets"][name]
    below = f"{_chance(found['probability'])} within {words(found['limit_s'], 's')}"
    return Cell(words(found["p50_s"], "s"), below=below)


def _attained(one: Mapping[str, Any], name: str) -> str:
    return words(one["attained"][name]["p95"], "s") if one["attained"] else _NONE


def _tightest(one: Mapping[str, Any]) -> str:
    if one["tightest_limit"] is None:
        return _NONE
    share, _, name = one["tightest_limit"].partition(" ")
    return f"{share} {_NAMES[name]}, {percent(one['tightest_used_fraction'])}"


def _break_even(found: Sequence[Mapping[str, Any]]) -> list[Table]:
    tables = []
    prices = [one for one in found if one["kind"] == "price"]
    if prices:
        rows = [
            [one["offer"], words(one["usd_per_gpu_hour"], "USD"), words(one["equal_usd_per_gpu_hour"], "USD")]
            for one in prices
        ]
        note = "below it the offer is the cheapest of all."
        columns = ("offer", "now #", "even #")
        tables.append(Table("A GPU-hour at which it breaks even", columns, rows, note=note, is_detail=True))
    volumes = [one for one in found if one["kind"] == "volume"]
    if volumes:
        rows = [
            [one["offer"], one["api"], words(one["requests_per_month"], ""), percent(one["of_the_load_ratio"]),
             _or_none(one["one_replica_requests_per_month"], "")]
            for one in volumes
        ]  # fmt: skip
        headers = ("offer", "API", "requests a month #", "of the load #", "with one replica #")
        note = (
            "from so many requests a month the fleet costs less than the API; beyond 100 % of the load it does not at "
            "this load. One replica: a fleet of that size alone, where the load is as small."
        )
        tables.append(Table("Where a fleet costs what the API does", headers, rows, note=note))
    return tables


def _refused(refused: Sequence[Mapping[str, Any]]) -> Table:
    rows = [[one["name"], one["why"]] for one in refused]
    return Table("Without an answer", ("offer", "why"), rows)


def _cost_plot(known: Sequence[Mapping[str, Any]]) -> list[Plot]:
    priced = [one for one in known if one["usd_per_request"] > 0]
    if not priced:
        return []
    values = {one["name"]: _quantity(one) for one in priced}
    caption = (
        "What a thousand requests cost, with the 90 % interval over times and prices, on a scale of ratios; one that "
        "is open ends at the median."
    )
    return [Plot("cost", f"Cost {_PER_REQUESTS}", caption, intervals_figure(values, "USD"), "usd_per_request")]


def _even_plot(found: Sequence[Mapping[str, Any]]) -> list[Plot]:
    prices = [
        (one["offer"], one["usd_per_gpu_hour"], one["equal_usd_per_gpu_hour"])
        for one in found
        if one["kind"] == "price"
    ]
    if not prices:
        return []
    caption = "What a GPU-hour costs (filled), and the price below which the offer is the cheapest of all (open)."
    return [Plot("even", "A GPU-hour at break-even", caption, even_figure(prices), "break_even")]


def _quantity(one: Mapping[str, Any]) -> dict[str, Any]:
    median, high = one["usd_per_request"], one["usd_per_request_p95"]
    ends = min(one["usd_per_request_p05"], median), max(high if high is not None else median, median)
    ends, median = (_REQUESTS * ends[0], _REQUESTS * ends[1]), _REQUESTS * median
    return {"p05": ends[0], "p10": ends[0], "p50": median, "p90": ends[1], "p95": ends[1], "unit": "USD"}
