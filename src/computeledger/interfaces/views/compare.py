"""The view of a comparison: offers by cost with how sure their order is, what each takes, and where it turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.economics.hosting.rent import hourly_price
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_system
from computeledger.interfaces.plots.compare import Row, costs_figure, even_figure
from computeledger.interfaces.view import Cell, Plot, Table, View, usd_alike
from computeledger.interfaces.views.compare_words import (
    CLEAR,
    EVEN,
    NONE,
    card,
    chance_words,
    choice,
    context,
    ends,
    headline,
    in_order,
    keep,
    keeps,
    label_of,
    labels,
    limits_words,
    models,
    paid,
    paid_ends,
    per,
    sized_sure,
    sure_chance,
    sure_month,
    sure_usd,
    taken,
    tiles,
)
from computeledger.interfaces.views.display_names import in_names
from computeledger.questions.answer import Answer
from computeledger.questions.wording import DIGITS, interval_words, listed, percent, words
from computeledger.sources import load_sources
from computeledger.units import format_count, format_si

_NAMES = {"ttft_s": "first token", "tpot_s": "token", "e2e_s": "request"}
#: Times the cost of the recommended offer beyond which an offer stands below the chart, not in it (an assumption).
_OFF_SCALE = 5.0
Offered = Mapping[str, Any]


def view(answer: Answer, working: bool) -> View:
    """Offers of one workload; each one's working is that of ``serve``."""
    document = answer.to_dict(working=working)
    known = [one for one in document["offers"] if one["rank"]]
    costs = usd_alike([ends(one) for one in known])
    digits = _digits(document["recommended"])
    known = [
        one | {"label": who, "cost": cost, "digits": digits}
        for one, who, cost in zip(known, labels(known), costs, strict=True)
    ]
    refused = [one for one in document["offers"] if not one["rank"]]
    offers = format_count(len(document["offers"]), "offer")
    title = f"{offers} to serve {models(document['offers'])}, by cost"
    if not known:
        return View("No offer serves this workload.", title=title, tables=(_refused(refused),), overline="compare")
    best = taken(known, document["recommended"])
    even = [one | {"offer": label} for one in document["break_even"] for label in [label_of(known, one["offer"])]]
    tables = [_costs(known), *_systems(known), *_break_even(even)]
    return View(
        headline=headline(known, best, len(refused)),
        context=context(known, best, len(refused), _workload(answer, known)),
        title=f"{title}; recommended: {best['label']}" if len(known) > 1 else title,
        tiles=tiles(known, best),
        tile_heading="cost",
        plots=(*_cost_plot(known, best), *_even_plot(known, even)),
        tables=(*tables, *([_refused(refused)] if refused else [])),
        grounds=(
            f"a GPU-hour without a price of its own is the rent of edition {load_prices().id}",
            "figures are those of `serve` for each offer; --json has them all, --csv a row for each",
        ),
        notes=tuple(f"{one['label']}: {one['why']}" for one in known if one["why"]),
        overline="compare",
        sources=_rents(answer),
        card=card(best),
    )


def _digits(recommended: Offered | None) -> int:
    """Digits of what so many GPUs cost: those that the price of the recommended ones deserves."""
    best = recommended or {}
    return DIGITS if best and best["usd_per_request_p05"] == best["usd_per_request_p95"] else 2


def _workload(answer: Any, known: Sequence[Offered]) -> str:
    """What is served: the format of the weights, and the tokens of a request, where all offers have the same."""
    chosen = choice(known)
    asked = next(one.offer.question for one in answer.offers if one.offer.name == chosen["name"])
    sizes = [] if asked is None else [asked.input_tokens, asked.output_tokens]
    kinds = {one["weights"] for one in known}
    said = [f"{chosen['weights']} weights"] if chosen["weights"] and len(kinds) == 1 else []
    if sizes and all(isinstance(one, int | float) for one in sizes):
        read, written = map(format_si, sizes)
        said.append(f"{read} tokens in, {written} out")
    return ", ".join(said)


def _rents(answer: Any) -> tuple[str, ...]:
    """Sources of the rents of offers that state no price."""
    asked = [one.offer.question for one in answer.offers]
    chips = [load_system(one.system).accelerator for one in asked if one is not None and one.price is None]
    keys = dict.fromkeys(fact.source for fact in map(hourly_price, chips) if fact is not None)
    return tuple(key for key in keys if key in load_sources())


def _or_none(value: float | None, unit: str) -> str:
    return NONE if value is None else words(value, unit)


def _costs(known: Sequence[Offered]) -> Table:
    first, chosen, has_month = known[0], choice(known), any(one["usd_per_month"] is not None for one in known)
    has_kept = any(one["kept_probability"] is not None for one in known)
    has_sure = has_month and any(sure_usd(one) is not None for one in known)
    order, month = f"costs more than {first['label']}", f"{_FEWEST if has_sure else 'a month'} #"
    rows: list[list[str | Cell]] = []
    for one in in_order(known):
        less = chance_words(None if one is first else first["cheaper_probability"][one["name"]])
        per_requests = (
            [] if has_sure else [one["cost"] if has_month else Cell(one["cost"], below=_interval(one, ends(one)))]
        )
        rows.append(
            [
                _name(one, one is chosen and len(known) > 1, has_sure),
                *(_at_90_percent(one) if has_sure else []),
                *([_fewest(one, has_sure)] if has_month else []),
                *([chance_words(one["kept_probability"])] if has_kept else []),
                *per_requests,
                *([less] if len(known) > 1 else []),
                *([] if has_sure else [words(one["usd_per_mtok"], "USD")]),
            ]
        )
    columns = (
        "offer",
        *([f"{_SURE} #", f"{_REQUESTS} #"] if has_sure else []),
        *([month] if has_month else []),
        *([_kept_heading(known)] if has_kept else []),
        *([] if has_sure else [f"{_REQUESTS} #"]),
        *([f"{order} #"] if len(known) > 1 else []),
        *([] if has_sure else ["a Mtok #"]),
    )
    return Table(
        "What each costs", columns, rows, "usd_per_request", _costs_note(known, order, has_sure), strong=(0,),
        is_stacked=True, drops=("a Mtok", order, _REQUESTS),
    )  # fmt: skip


def _fewest(one: Offered, has_sure: bool) -> Cell:
    """What the fewest GPUs cost a month that are expected to do, with the interval."""
    interval = _interval(one, paid_ends(one))
    gpus = f"{format_count(one['gpus'], 'GPU')}, " if has_sure and one["gpus"] else ""
    return Cell(paid(one), below=f"{gpus}{interval}")


def _costs_note(known: Sequence[Offered], order: str, has_sure: bool) -> str:
    """What the columns mean."""
    out = []
    if has_sure:
        out.append(
            f"{_SURE}: a month of as many GPUs as keep what is asked with that chance, and a thousand requests on them"
        )
        out.append(f"{_FEWEST}: a month of as many as are expected to, with the 90 % interval of their cost")
    if any(one["kept_probability"] is not None for one in known):
        who = "fewest" if has_sure else "offer"
        out.append(
            f"{_kept_heading(known).removesuffix(' #')}: the chance that the {who} {_kept_means(known, has_sure)}"
        )
    if len(known) > 1:
        out.append(
            f"{order}: the chance of it{', with the fewest GPUs' if has_sure else ''}; near 50 % the order is open"
        )
    return "; ".join(out)


def _interval(one: Offered, of: Mapping[str, float]) -> str:
    """The 90 % interval of a cost; open where at slow times no number of GPUs keeps what is asked."""
    if one["usd_per_request_p95"] is None:
        return f"{words(of['p05'], 'USD')} – not kept"
    return interval_words(of, "USD")


#: The columns of what keeps all that is asked so surely, and of what is expected to.
_SURE, _FEWEST, _REQUESTS = "for 90\u00a0%", "fewest GPUs", "per thousand requests"


def _at_90_percent(one: Offered) -> list[str | Cell]:
    """What as many GPUs cost as keep what is asked with a chance of 90 %: a month, and a thousand requests."""
    usd = sure_usd(one)
    if usd is None:
        return [NONE, one["cost"] if one["kind"] == "api" else NONE]
    found, chance = one["at_90_percent"], one["kept_probability"]
    n = found["gpus"] if found and chance < CLEAR else one["gpus"]
    each = ends(one)["p50"] * usd / one["usd_per_month"]
    return [Cell(sure_month(one), below=format_count(n, "GPU") if n else ""), words(each, "USD", one["digits"])]


def _kept_heading(known: Sequence[Offered]) -> str:
    said = {keeps(one).partition(" the ")[2] for one in known if one["kept_probability"] is not None}
    what = said.pop() if len(said) == 1 else "promise"
    return f"{what} carried #" if what == "load" else f"{what} kept #"


def _kept_means(known: Sequence[Offered], are_many: bool) -> str:
    """What a chance of keeping is the chance of."""
    one = next(one for one in known if one["kept_probability"] is not None)
    limits = limits_words(one)
    if limits and keeps(one) == "keeps the limits":
        return f"{'answer' if are_many else 'answers'} within {limits}"
    return keep(one) if are_many else keeps(one)


def _name(one: Offered, is_recommended: bool, has_sure: bool) -> Cell:
    """What readers call an offer, without its GPUs where two fleets of it follow; its id, and what is left open."""
    label = str(one["label"]).removeprefix(f"{one['gpus']}\u00a0") if has_sure else one["label"]
    own = [one["name"]] if one["name"] not in one["label"] else []
    return Cell(label, below=", ".join([*(["recommended"] if is_recommended else []), *own, *_terms(one)]))


def _terms(one: Offered) -> list[str]:
    """What an offer's name leaves open of its format, term and region."""
    term = {"reserve": "reserved", "own": "owned"}.get(one["term"])
    said = one["name"].replace(",", "").split()
    return [part for part in (one["precision"], term, one["region"]) if part and part not in (*said, one["name"])]


def _systems(known: Sequence[Offered]) -> list[Table]:
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
    spare = "the fewest GPUs; one spare: with one replica more, so that the load is carried while one is down"
    note = spare if has_fleet else ""
    takes = Table("What each takes", tuple(columns), rows, note=note, is_detail=True)
    return [takes, *([_kept(own)] if any(one["meets"] or one["attained"] for one in own) else [])]


def _kept(own: Sequence[Offered]) -> Table:
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
    note = "of the fewest GPUs" if any(one["gpus"] for one in own) else ""
    return Table("Times against their limits", columns, rows, note=note, is_stacked=bool(plain), is_detail=True)


def _within(one: Offered, name: str) -> str | Cell:
    """A time at the median, with the chance that it is within a plain limit."""
    if name not in (one["meets"] or {}):
        return NONE
    found = one["meets"][name]
    below = f"{chance_words(found['probability'])} within {words(found['limit_s'], 's')}"
    return Cell(words(found["p50_s"], "s"), below=below)


def _attained(one: Offered, name: str) -> str:
    return words(one["attained"][name]["p95"], "s") if one["attained"] else NONE


def _tightest(one: Offered) -> str:
    if one["tightest_limit"] is None:
        return NONE
    share, _, name = one["tightest_limit"].partition(" ")
    return f"{share} {_NAMES[name]}, {percent(one['tightest_used_fraction'])}"


def _break_even(found: Sequence[Offered]) -> list[Table]:
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


def _refused(refused: Sequence[Offered]) -> Table:
    rows = [[in_names(one["name"]), one["why"]] for one in refused]
    return Table("Without an answer", ("offer", "why"), rows)


def _cost_plot(known: Sequence[Offered], best: Offered) -> list[Plot]:
    """Costs in the order of choice: the recommended offer, then the others, each with what makes it sure."""
    priced = [one for one in in_order(known) if one["usd_per_request"] > 0]
    if not priced:
        return []
    chosen, most = choice(known), _OFF_SCALE * paid_ends(best)["p50"]
    shown = [one for one in priced if one is chosen or _is_near(one, most)]
    rows = [_row(one, one is chosen and len(known) > 1, most) for one in shown]
    title = f"Cost {per(best)}"
    figure = costs_figure(rows, f"USD {per(best)}")
    left_out = _left_out([one for one in priced if one not in shown], chosen)
    return [Plot("cost", title, f"{_marks(shown, rows, chosen)}.{left_out}", figure, "usd_per_request")]


def _left_out(far: Sequence[Offered], chosen: Offered) -> str:
    """What is not drawn, and why."""
    dear = [f"{one['label']} at {paid(one)}" for one in far if not _is_hopeless(one)]
    hopeless = [
        f"{one['label']} at {paid(one)} ({chance_words(one['kept_probability'])})" for one in far if _is_hopeless(one)
    ]
    said = [f"far dearer, {listed(dear)}"] if dear else []
    said += [f"unlikely to {keep(chosen)}, {listed(hopeless)}"] if hopeless else []
    return f" Not drawn: {'; '.join(said)}." if said else ""


def _marks(shown: Sequence[Offered], rows: Sequence[Row], chosen: Offered) -> str:
    """What the marks of a chart of costs mean, as far as it has them."""
    is_kept = chosen["kept_probability"] is not None
    marks = [f"Diamond: as many GPUs as {keep(chosen)} with a chance of 90 %"] if any(
        one.sure for one in rows) else []  # fmt: skip
    marks += [f"dot: the fewest expected to {keep(chosen)}, with the 90 % interval of their cost" if is_kept else
              "dot and bar: median and 90 % interval"]  # fmt: skip
    marks += ["ring: recommended"] if any(one.is_chosen for one in rows) else []
    if any(one["usd_per_request_p95"] is None for one in shown):
        marks.append("no bar to the right: at slow times no number of GPUs is enough")
    said = "; ".join(marks)
    return f"{said[:1].upper()}{said[1:]}"


def _row(one: Offered, is_recommended: bool, most: float) -> Row:
    """An offer as the chart shows it: with what it costs to keep what is asked, where the scale has room for it."""
    ring, usd = ", recommended" if is_recommended else "", sure_usd(one)
    chance = one["kept_probability"]
    if chance is None or chance >= CLEAR or usd is None or usd > most or one["usd_per_month"] is None:
        sure = "" if chance is None else f", {chance_words(chance)} sure"
        return Row(one["label"], _quantity(one), paid(one), f"{ring}{sure}", is_recommended)
    fewest = f"{format_count(one['gpus'], 'GPU')} {paid(one)}, {chance_words(chance)}"
    said = f", {sure_chance(one)} sure   \u25cf {fewest}"
    return Row(sized_sure(one), _quantity(one), sure_month(one), said, is_recommended, usd)


def _is_near(one: Offered, most: float) -> bool:
    """Whether an offer is drawn: it is not far dearer, and does not more likely miss what is asked."""
    usd = sure_usd(one)
    if usd is None:
        return paid_ends(one)["p50"] <= most and not _is_hopeless(one)
    return paid_ends(one)["p50"] <= most and (usd <= most or not _is_hopeless(one))


def _is_hopeless(one: Offered) -> bool:
    """Whether an offer costs more than others and more likely misses what is asked than not."""
    chance = one["kept_probability"]
    return chance is not None and chance < EVEN and one["rank"] > 1


def _even_plot(known: Sequence[Offered], found: Sequence[Offered]) -> list[Plot]:
    """At which price of a GPU-hour each offer that is in the running is the cheapest."""
    running = [sized_sure(one) for one in known if sure_usd(one) is not None or not _is_hopeless(one)]
    prices = [
        (one["offer"], one["usd_per_gpu_hour"], one["equal_usd_per_gpu_hour"])
        for one in found
        if one["kind"] == "price" and one["offer"] in running
    ]
    if not prices:
        return []
    caption = (
        "Dot: the price of a GPU-hour now; diamond: up to which price that offer costs the least of all."
        + _compared_as(known)
    )
    title = "At which rent would each be the cheapest?"
    return [Plot("even", title, caption, even_figure(prices), "break_even", is_detail=True)]


def _compared_as(known: Sequence[Offered]) -> str:
    """How many GPUs of each are compared."""
    if any(sure_usd(one) is not None for one in known):
        return f" Each with as many GPUs as {keep(choice(known))} with 90 %."
    return f" How surely it {keeps(known[0], 'the limits')} is not counted." if choice(known)["gpus"] else ""


def _quantity(one: Offered) -> dict[str, Any]:
    of = paid_ends(one)
    low, high = min(of["p05"], of["p50"]), max(of["p95"], of["p50"])
    return {"p05": low, "p10": low, "p50": of["p50"], "p90": high, "p95": high, "unit": "USD"}
