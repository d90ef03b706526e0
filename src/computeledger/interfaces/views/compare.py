"""The view of a comparison: offers by cost with how sure their order is, what each takes, and where it turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.economics.hosting.rent import hourly_price
from computeledger.facts.catalog import user_path
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.plots.compare import Row, costs_figure, even_figure
from computeledger.interfaces.view import Card, Cell, Plot, Table, View, ends_said, usd_alike
from computeledger.interfaces.views.display_names import in_names
from computeledger.questions.answer import Answer
from computeledger.questions.wording import (
    figure_words,
    headline_words,
    interval_words,
    listed,
    percent,
    short_model,
    words,
)
from computeledger.sources import load_sources
from computeledger.units import format_count, format_si

_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "request"}
#: A chance beyond which an order is called clear (an assumption).
_CLEAR = 0.9
#: A chance below which what holds at the medians more likely does not.
_EVEN = 0.5
_NONE = "–"
#: Times the cost of the recommended offer beyond which an offer stands below the chart, not in it (an assumption).
_OFF_SCALE = 5.0
#: Offers of a tie that are named at most.
_MOST_NAMED = 5
#: A request costs so little that people quote this many.
_REQUESTS = 1000
_PER_REQUESTS = "per thousand requests"


def view(answer: Answer, working: bool) -> View:
    """Offers of one workload; each one's working is that of ``serve``."""
    document = answer.to_dict(working=working)
    known = [one for one in document["offers"] if one["rank"]]
    costs = usd_alike([_ends(one) for one in known])
    known = [one | {"label": who, "cost": cost} for one, who, cost in zip(known, _labels(known), costs, strict=True)]
    refused = [one for one in document["offers"] if not one["rank"]]
    offers = format_count(len(document["offers"]), "offer")
    title = f"{offers} to serve {_models(document['offers'])}, by cost"
    if not known:
        return View("No offer serves this workload.", title=title, tables=(_refused(refused),), overline="compare")
    even = [one | {"offer": label} for one in document["break_even"] for label in [_label_of(known, one["offer"])]]
    tables = [_costs(known), *_systems(known), *_break_even(even)]
    return View(
        headline=_headline(known, len(refused)),
        context=_context(known),
        title=f"{title}; recommended: {_choice(known)['label']}" if len(known) > 1 else title,
        plots=(*_cost_plot(known, _workload(answer, _choice(known))), *_even_plot(known, even)),
        tables=(*tables, *([_refused(refused)] if refused else [])),
        grounds=(
            f"a GPU-hour without a price of its own is the rent of edition {load_prices().id}",
            "figures are those of `serve` for each offer; --json has them all, --csv a row for each",
        ),
        notes=tuple(f"{one['label']}: {one['why']}" for one in known if one["why"]),
        overline="compare",
        sources=_rents(answer),
        card=_card(known),
    )


def _rents(answer: Any) -> tuple[str, ...]:
    """Sources of the rents of offers that state no price."""
    asked = [one.offer.question for one in answer.offers]
    chips = [load_system(one.system).accelerator for one in asked if one is not None and one.price is None]
    keys = dict.fromkeys(fact.source for fact in map(hourly_price, chips) if fact is not None)
    return tuple(key for key in keys if key in load_sources())


def _models(offers: Sequence[Mapping[str, Any]]) -> str:
    """The model of all offers, or how many they serve."""
    names = list(dict.fromkeys(_model(one["model"]) for one in offers if one["model"]))
    return names[0] if len(names) == 1 else f"{len(names)} models" if names else "one workload"


def _model(given: str) -> str:
    """What a model is called; a file goes by its name, and is not read again."""
    return short_model(given if user_path(given) is not None else load_model(given).id)


def _labels(known: Sequence[Mapping[str, Any]]) -> list[str]:
    """What readers call each offer; the name that tells apart two that would be called the same is added."""
    said = [_who(one) for one in known]
    return [
        who if said.count(who) == 1 else f"{who} ({one['name']})" for who, one in zip(said, known, strict=True)
    ]  # fmt: skip


def _label_of(known: Sequence[Mapping[str, Any]], name: str) -> str:
    return next((str(one["label"]) for one in known if one["name"] == name), name)


def _headline(known: Sequence[Mapping[str, Any]], n_refused: int) -> str:
    """The model, the offer to take and what it costs; none is called the cheapest where another is about as likely."""
    chosen = _choice(known)
    paid = _paid(chosen)
    able = f"the {len(known)} of {len(known) + n_refused} offers that can serve it"
    of = able if n_refused else format_count(len(known), "offer")
    rank = f"the cheapest of {of}" if len(known) > 1 else "the only offer that serves it"
    said = ", ".join(paid if _as_likely(known) else [rank, *paid])
    subject = f"{_model(chosen['model'])} " if chosen["model"] else ""
    where = f"{'from' if chosen['kind'] == 'api' else 'on'} " if subject else ""
    own = f" ({format_count(chosen['gpus'], 'GPU')})" if chosen["gpus"] and chosen["label"] == chosen["name"] else ""
    return headline_words(f"{subject}{where}{chosen['label']}{own}", said, _ends(chosen), "USD")


def _paid(one: Mapping[str, Any]) -> list[str]:
    """What an offer costs, by the month where a load is known and by the request."""
    month = one["usd_per_month"]
    return [*([f"{_month(one, month)} a month"] if month is not None else []), f"{one['cost']} {_PER_REQUESTS}"]


def _month(one: Mapping[str, Any], usd: float) -> str:
    """Dollars a month of an offer, with the digits that the interval of its cost deserves."""
    each = one["usd_per_request"]
    ends = {name: usd * value / (_REQUESTS * each) for name, value in _ends(one).items()} if each else usd
    return figure_words(ends, "USD")


def _card(known: Sequence[Mapping[str, Any]]) -> Card:
    """The offer to take, what it costs, and what costs less."""
    first, chosen = known[0], _choice(known)
    said = " and ".join(_paid(chosen))
    if first is not chosen:
        said += f"; {first['label']} may be cheaper but {_keeps(first, 'the latency limits')} less surely"
    band = ends_said(_ends(chosen), "USD")
    return Card(chosen["label"], said, band and f"{band} {_PER_REQUESTS}")


def _workload(answer: Any, chosen: Mapping[str, Any]) -> str:
    """What is served: the format of the weights, and the tokens of a request where each is one number."""
    asked = next(one.offer.question for one in answer.offers if one.offer.name == chosen["name"])
    sizes = [] if asked is None else [asked.input_tokens, asked.output_tokens]
    said = [f"{chosen['weights']} weights"] if chosen["weights"] else []
    if sizes and all(isinstance(one, int | float) for one in sizes):
        read, written = map(format_si, sizes)
        said.append(f"{read} input and {written} output tokens a request")
    return f"Served with {', '.join(said)}. " if said else ""


def _choice(known: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The offer to take."""
    return next(one for one in known if one["is_recommended"])


def _who(one: Mapping[str, Any]) -> str:
    """An offer by its name; one without a name of its own is so many of its chip."""
    name = str(one["name"])
    if one["kind"] == "gpus" and name.partition(",")[0] == one["system"]:
        chip = load_system(one["system"]).accelerator.short_name + name.removeprefix(one["system"])
        return f"{one['gpus']}\u00a0{chip}" if one["gpus"] else chip
    return name


def _ends(one: Mapping[str, Any]) -> dict[str, float]:
    """Cost of so many requests, and its 90 % interval; none where nothing ends it."""
    low, high = one["usd_per_request_p05"], one["usd_per_request_p95"]
    ends = {"p05": low, "p50": one["usd_per_request"], "p95": low if high is None else high}
    return {name: _REQUESTS * value for name, value in ends.items()}


def _as_likely(known: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Offers whose chance of being the cheaper one is about as great as the first one's."""
    return [one for one in known[1:] if one["is_tied_on_cost"]]


def _context(known: Sequence[Mapping[str, Any]]) -> str:
    """How surely the first is the cheapest, or what may be cheaper; how surely it keeps what is asked."""
    first, chosen = known[0], _choice(known)
    if _as_likely(known):
        parts = _tie(known)
    else:
        odds = [_odds(first["cheaper_than_next_probability"], known[1]["label"])] if len(known) > 1 else []
        parts = [*(odds or _priced_as(first)), *kept_words(first, "It" if odds else first["label"])]
    if first["kind"] == "api":
        own = next((one for one in known if one["kind"] != "api"), None)
        parts += [_own(own)] if own else []
    return " ".join([*parts, *_surer(known, chosen)])


def _surer(known: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> list[str]:
    """What to take to keep what is asked with a chance of 90 %, where the recommended offer does not."""
    chance = chosen["kept_probability"]
    if chance is None or chance >= _CLEAR:
        return []
    sure = [one for one in known if one["at_90_percent"]]
    if not sure:
        return ["More GPUs do not make it 90 %: loosen a limit, or take other systems."]
    best = min(sure, key=lambda one: float(one["at_90_percent"]["usd_per_month"]))
    more = best["at_90_percent"]
    to = "carry the load" if _keeps(chosen) == _CARRIES else f"keep {_keeps(chosen).partition(' ')[2]}"
    return [f"To {to} with 90 %, take {_sized(best, more['gpus'])} at {_month(best, more['usd_per_month'])} a month."]


def _sized(one: Mapping[str, Any], gpus: int) -> str:
    """An offer with so many GPUs."""
    label, own = str(one["label"]), f"{one['gpus']}\u00a0"
    if label.startswith(own):
        return f"{gpus}\u00a0{label.removeprefix(own)}"
    return f"{format_count(gpus, 'GPU')} of {label}"


def _tie(known: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which offer may be cheaper than the one to take and by which rule it is not taken, or what is no worse."""
    first, chosen, others = known[0], _choice(known), _as_likely(known)
    if chosen is not first:
        surer, less_sure = (_chance(one["kept_probability"]) for one in (chosen, first))
        but = f"but {_keeps(first)} less surely, {less_sure} against {surer}"
        rule = "of costs too close to call, the cheapest of the surest is recommended"
        return [f"{first['label']} may be cheaper ({first['cost']}) {but}: {rule}."]
    rest = [one["label"] for one in others]
    more = len(rest) - len(rest[:_MOST_NAMED])
    named = listed([*rest[:_MOST_NAMED], *([f"{more} more"] if more else [])])
    return [
        f"Its median cost is the lowest{_no_surer(first, others)}. Too close to call: {named}.",
        *kept_words(first, "It"),
    ]


def _limits(one: Mapping[str, Any]) -> str:
    """The plain limits of an offer, as a sentence names them; nothing where it is asked for something else."""
    said = [words(limit["limit_s"], "s") for limit in (one["meets"] or {}).values()]
    return f"the {'limit' if len(said) == 1 else 'limits'} of {listed(said)}" if said else ""


def _no_surer(first: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    known = [one["kept_probability"] for one in (first, *others)]
    return "" if None in known else f", and none of the others {_keeps(first)} clearly more surely"


def kept_words(one: Mapping[str, Any], subject: str = "") -> list[str]:
    """With what chance an offer keeps its promise, where that is less than clear.

    Examples
    --------
    >>> offer = {"name": "8 H200", "kept_probability": 0.64, "tightest_limit": "p95 ttft_s", "meets": None}
    >>> kept_words(offer)[0].replace(chr(160), " ")
    '8 H200 keeps the promise with a chance of 64 %.'
    """
    chance, name = one["kept_probability"], subject or one["name"]
    if chance is None or chance >= _CLEAR:
        return []
    if one["meets"] and chance < _EVEN:
        return [f"{name} keeps the limits at the medians alone: with a chance of at most {_chance(chance)}."]
    return [f"{name} {_keeps(one)} with a chance of {_chance(chance)}."]


def _keeps(one: Mapping[str, Any], limits: str = "") -> str:
    """What it is that an offer keeps."""
    if one["tightest_limit"]:
        return "keeps the promise"
    return f"keeps {limits or 'the limits'}" if one["meets"] else _CARRIES


#: What an offer without limits does.
_CARRIES = "carries the load"


def _priced_as(one: Mapping[str, Any]) -> list[str]:
    """What the cheapest offer's cost stands on: its price of a GPU-hour."""
    if one["usd_per_gpu_hour"] is None:
        return []
    return [f"A GPU-hour is {words(one['usd_per_gpu_hour'], 'USD')}."]


def _odds(chance: float, other: str) -> str:
    """How surely the first comes before the second, in words."""
    return f"It is {'clearly' if chance >= _CLEAR else 'likely'} cheaper than {other} ({_chance(chance)})."


def _own(one: Mapping[str, Any]) -> str:
    return (
        f"An API's speed is not known; of the systems {one['label']} is the cheapest ({one['cost']} {_PER_REQUESTS})."
    )


def _chance(chance: float | None) -> str:
    if chance is None:
        return _NONE
    return (
        f"{100 * min(max(chance, 0.01), 0.99):.0f} %" if 0.01 <= chance <= 0.99 else ("> 99 %" if chance else "< 1 %")
    )


def _or_none(value: float | None, unit: str) -> str:
    return _NONE if value is None else words(value, unit)


def _costs(known: Sequence[Mapping[str, Any]]) -> Table:
    first, chosen, has_month = known[0], _choice(known), any(one["usd_per_month"] is not None for one in known)
    has_kept = any(one["kept_probability"] is not None for one in known)
    has_sure = any(one["at_90_percent"] for one in known)
    rows: list[list[str | Cell]] = []
    for one in known:
        high = one["usd_per_request_p95"]
        open_end = f"{words(_REQUESTS * one['usd_per_request_p05'], 'USD')} – not kept"
        month = one["usd_per_month"]
        less = _chance(None if one is first else first["cheaper_probability"][one["name"]])
        rows.append(
            [
                _name(one, one is chosen and len(known) > 1),
                Cell(one["cost"], below=open_end if high is None else interval_words(_ends(one), "USD")),
                *([_NONE if month is None else _month(one, month)] if has_month else []),
                *([_chance(one["kept_probability"])] if has_kept else []),
                *([_at_90_percent(one)] if has_sure else []),
                *([less] if len(known) > 1 else []),
                words(one["usd_per_mtok"], "USD"),
            ]
        )
    order = f"costs more than {first['label']}"
    columns = (
        "offer",
        "per thousand requests #",
        *(["a month #"] if has_month else []),
        *([_kept_heading(known)] if has_kept else []),
        *([_SURE] if has_sure else []),
        *([f"{order} #"] if len(known) > 1 else []),
        "a Mtok #",
    )
    heading = _kept_heading(known).removesuffix(" #")
    kept = [f"{heading}: the chance that the offer {_kept_means(known)}"] if has_kept else []
    sure = ["for 90 %: how many GPUs make that chance 90 %, and what they cost a month"] if has_sure else []
    chance = [f"{order}: the chance of it; near 50 % the order is open"] if len(known) > 1 else []
    note = "; ".join([*kept, *sure, *chance])
    drops = ("a Mtok", _SURE.removesuffix(" #"))
    return Table(
        "What each costs", columns, rows, "usd_per_request", note, strong=(known.index(chosen),), is_stacked=True,
        drops=drops,
    )  # fmt: skip


#: The column of what keeps all that is asked so surely.
_SURE = "for 90\u00a0% #"


def _at_90_percent(one: Mapping[str, Any]) -> str | Cell:
    """How many GPUs keep what is asked with a chance of 90 %, and their cost."""
    found = one["at_90_percent"]
    if not found:
        return _NONE
    return Cell(format_count(found["gpus"], "GPU"), below=f"{_month(one, found['usd_per_month'])} a month")


def _kept_heading(known: Sequence[Mapping[str, Any]]) -> str:
    said = {_keeps(one).partition(" the ")[2] for one in known if one["kept_probability"] is not None}
    what = said.pop() if len(said) == 1 else "promise"
    return f"{what} carried #" if what == "load" else f"{what} kept #"


def _kept_means(known: Sequence[Mapping[str, Any]]) -> str:
    """What a chance of keeping is the chance of."""
    one = next(one for one in known if one["kept_probability"] is not None)
    limits = _limits(one)
    return (
        f"answers within {limits.replace(' and ', ' and of ')}"
        if limits and _keeps(one) == "keeps the limits"
        else _keeps(one)
    )


def _name(one: Mapping[str, Any], is_recommended: bool) -> Cell:
    """What readers call an offer, its id, and what its name leaves open."""
    own = [one["name"]] if one["name"] not in one["label"] else []
    return Cell(one["label"], below=", ".join([*(["recommended"] if is_recommended else []), *own, *_terms(one)]))


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
        row = [one["label"], f"{one['replicas']} x {one['layout']}" if one["replicas"] else one["layout"]]
        row += [f"{one['gpus']:,}", _or_none(one["gpus_with_spare"], "GPUs"), words(one["w"], "W")] if has_fleet else []
        rows.append([*row, f"{one['joules_per_token']:.3g}", one["bound"]])
    note = "one spare: GPUs with one replica more, so that the load is carried while one is down" if has_fleet else ""
    takes = Table("What each takes", tuple(columns), rows, note=note, is_detail=True)
    return [takes, *([_kept(own)] if any(one["meets"] or one["attained"] for one in own) else [])]


def _kept(own: Sequence[Mapping[str, Any]]) -> Table:
    """What is attained, how near it is to the limits, and the chance that it holds."""
    limits = list(next((one["attained"] for one in own if one["attained"]), {}))
    plain = [name for name in ("ttft", "tpot", "e2e") if any(name in (one["meets"] or {}) for one in own)]
    columns = (
        "offer",
        *(f"median {_NAMES[f'{name}_s']}, within its limit #" for name in plain),
        *(f"p95 {_NAMES[name]} #" for name in limits),
        *(["tightest limit"] if limits else []),
    )
    rows: list[list[str | Cell]] = [
        [
            one["label"],
            *(_within(one, name) for name in plain),
            *(_attained(one, name) for name in limits),
            *([_tightest(one)] if limits else []),
        ]
        for one in own
    ]
    return Table("Times against their limits", columns, rows, is_stacked=bool(plain), is_detail=True)


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
        note = "below the price in the last column the offer is the cheapest of all."
        columns = ("offer", "GPU-hour now #", "cheapest below #")
        tables.append(
            Table("Break-even: when each offer would be the cheapest", columns, rows, note=note, is_detail=True)
        )
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
    rows = [[in_names(one["name"]), one["why"]] for one in refused]
    return Table("Without an answer", ("offer", "why"), rows)


def _cost_plot(known: Sequence[Mapping[str, Any]], workload: str) -> list[Plot]:
    priced = [one for one in known if one["usd_per_request"] > 0]
    if not priced:
        return []
    heading, chosen = _kept_heading(known).removesuffix(" #"), _choice(known)
    near, far = _near([one for one in priced if one is not chosen], chosen)
    rows = [
        Row(
            one["label"],
            _quantity(one),
            one["cost"],
            _beside(one, heading, one is chosen and len(known) > 1),
            one is chosen,
        )
        for one in priced
        if one is chosen or one in near
    ]
    off = f"Off the scale: {listed([_dear(one) for one in far])}. " if far else ""
    caption = (
        f"{off}{workload}Bar: 90 % interval over times and prices, cut at the median where it has no end; dot: median; "
        "ring: recommended."
    )
    figure = costs_figure(rows, f"USD {_PER_REQUESTS}")
    return [Plot("cost", f"Cost {_PER_REQUESTS}", caption, figure, "usd_per_request")]


def _beside(one: Mapping[str, Any], heading: str, is_recommended: bool) -> str:
    """What stands behind an offer's cost, short enough for a phone."""
    chance = _chance(one["kept_probability"]) if one["kept_probability"] is not None else ""
    if is_recommended:
        return ", recommended" + (f", {heading.rpartition(' ')[2]} {chance}" if chance else "")
    return f", {heading} {chance}" if chance else ""


def _near(others: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], ...]:
    """Offers that an axis from zero shows beside the chosen one, and those that would press all others together."""
    most = _OFF_SCALE * chosen["usd_per_request"]
    near = [one for one in others if one["usd_per_request"] <= most]
    return near, [one for one in others if one["usd_per_request"] > most]


def _dear(one: Mapping[str, Any]) -> str:
    """An offer beyond the axis, with its cost and how surely it keeps what is asked."""
    return f"{one['label']} at {one['cost']}"


def _even_plot(known: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[Plot]:
    prices = [
        (one["offer"], one["usd_per_gpu_hour"], one["equal_usd_per_gpu_hour"])
        for one in found
        if one["kind"] == "price"
    ]
    if not prices:
        return []
    first = next((one for one in prices if one[0] == known[0]["label"]), None)
    stays = (
        "" if first is None else f"{first[0]} stays the cheapest until its GPU-hour costs {words(first[2], 'USD')}. "
    )
    caption = f"{stays}Filled: the price now. Open: the price below which that offer is the cheapest of all."
    title = "When would each be the cheapest?"
    return [Plot("even", title, caption, even_figure(prices), "break_even", is_detail=True)]


def _quantity(one: Mapping[str, Any]) -> dict[str, Any]:
    median, high = one["usd_per_request"], one["usd_per_request_p95"]
    ends = min(one["usd_per_request_p05"], median), max(high if high is not None else median, median)
    ends, median = (_REQUESTS * ends[0], _REQUESTS * ends[1]), _REQUESTS * median
    return {"p05": ends[0], "p10": ends[0], "p50": median, "p90": ends[1], "p95": ends[1], "unit": "USD"}
