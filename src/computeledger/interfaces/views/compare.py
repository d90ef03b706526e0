"""The view of a comparison: offers by cost with how sure their order is, what each takes, and where it turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from computeledger.economics.hosting.rent import hourly_price
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_system
from computeledger.interfaces.glossary import layout_said
from computeledger.interfaces.plots.compare import Row, costs_figure, even_figure
from computeledger.interfaces.view import Cell, Plot, Table, View, quantity_cell, usd_alike
from computeledger.interfaces.views.compare_words import (
    CARRIES,
    EVEN,
    NONE,
    card,
    chance_words,
    cheapest,
    context,
    ends,
    headline,
    in_order,
    inverse,
    is_sure,
    keep,
    keeps,
    labels,
    limits_words,
    models,
    paid,
    paid_ends,
    per,
    shown,
    sized,
    tiles,
)
from computeledger.interfaces.views.display_names import in_names
from computeledger.interfaces.views.evidence import offers_evidence
from computeledger.questions.answer import Answer
from computeledger.questions.wording import figure_words, interval_words, listed, percent, words
from computeledger.sources import load_sources
from computeledger.units import format_count, format_si
from computeledger.workloads.questions.serve import ServeQuestion

_NAMES = {"ttft_s": "first token", "tpot_s": "token", "e2e_s": "request"}
#: Times the cost of the recommended offer beyond which an offer stands below the chart, not in it (an assumption).
_OFF_SCALE = 5.0
Offered = Mapping[str, Any]


def view(answer: Answer, working: bool) -> View:
    """Offers of one workload; each one's working is that of ``serve``."""
    document = answer.to_dict(working=working)
    found = [one for one in document["offers"] if one["rank"]]
    refused = [one for one in document["offers"] if not one["rank"]]
    offers = format_count(len(document["offers"]), "offer")
    title = f"{offers} to serve {models(document['offers'])}, by cost"
    if not found:
        return View("No offer serves this workload.", title=title, tables=(_refused(refused),), overline="compare")
    known = _fleets(answer, found)
    names = {one["name"]: one["label"] for one in known}
    even = [one | {"offer": names[one["offer"]]} for one in document["break_even"]]
    least = [one["fewest"] for one in known]
    of_fleets = any(one["meets"] for one in least)  # chances within plain limits are known of the fewest alone
    kept = _times_kept(least if of_fleets else known)
    tables = [_costs(known), *_systems(known), *_fewest(known), *kept, *_break_even(even)]
    return View(
        headline=headline(known, len(refused)),
        context=context(known, len(refused), _workload(answer, known)),
        title=f"{title}; recommended: {known[0]['label']}" if len(known) > 1 else title,
        tiles=tiles(known),
        tile_heading="cost",
        plots=(*_cost_plot(known), *_even_plot(known, even)),
        tables=(*tables, *([_refused(refused)] if refused else [])),
        grounds=(
            f"a GPU-hour without a price of its own is the rent of edition {load_prices().id}",
            "figures are those of `serve` for each offer; --json has them all, --csv a row for each",
        ),
        notes=tuple(_remarks(one for one in known if not _is_larger(one))),
        overline="compare",
        evidence=None if known[0]["kind"] == "api" else offers_evidence(known[0]),
        sources=_rents(answer),
        card=card(known[0], _workload(answer, known)),
    )


def _fleets(answer: Any, found: Sequence[Offered]) -> list[Offered]:
    """Offers in the order of choice, each with the fleet to take of it, its label, and its limits in words."""
    asked = {one.offer.name: one.offer.question for one in answer.offers}
    known = [shown({**one, "label": who}) for one, who in zip(found, labels(found), strict=True)]
    costs = usd_alike([ends(one) for one in known])
    return in_order(
        [
            {
                **one,
                "cost": cost,
                "limits": limits_words(asked[one["name"]]),
                "rests_on_first_token": _rests_on_first_token(asked[one["name"]]),
            }
            for one, cost in zip(known, costs, strict=True)
        ]
    )


def _rests_on_first_token(question: ServeQuestion | None) -> bool:
    """Whether the chance of an offer is one of times to the first token too."""
    limited = set() if question is None else {*question.limits, *question.promises}
    return bool(limited & {"ttft", "ttft_s", "end_to_end_s"})


def _is_larger(one: Offered) -> bool:
    """Whether fewer GPUs than those to take of an offer are expected to do."""
    return bool(one["gpus"] != one["fewest"]["gpus"])


def _remarks(known: Iterable[Offered]) -> list[str]:
    """What a reader of the cost of the fewest GPUs alone would miss."""
    of_remark: dict[str, list[str]] = {}
    for one in known:
        of_remark.setdefault(one["why"], []).append(_fewest_label(one))
    return [f"{listed(names)}: {why}" for why, names in of_remark.items() if why]


def _fewest_label(one: Offered) -> str:
    """What a remark of an offer is of: its fewest GPUs."""
    return str(one["label"]) if one["kind"] == "api" else sized(one["fewest"], one["fewest"]["gpus"])


def _workload(answer: Any, known: Sequence[Offered]) -> str:
    """What is served: the load, and the tokens of a request, where all offers have the same."""
    chosen = known[0]
    asked = next(one.offer.question for one in answer.offers if one.offer.name == chosen["name"])
    sizes = [] if asked is None else [asked.input_tokens, asked.output_tokens]
    said = []
    if asked is not None and isinstance(asked.requests_per_s, int | float):
        said.append(f"at {asked.requests_per_s:g}\u00a0requests/s")
    if sizes and all(isinstance(one, int | float) for one in sizes):
        read, written = map(format_si, sizes)
        said.append(f"{'of' if said else 'for'} {read} tokens in, {written} out")
    return " ".join(said)


def _rents(answer: Any) -> tuple[str, ...]:
    """Sources of the rents of offers that state no price."""
    asked = [one.offer.question for one in answer.offers]
    chips = [load_system(one.system).accelerator for one in asked if one is not None and one.price is None]
    keys = dict.fromkeys(fact.source for fact in map(hourly_price, chips) if fact is not None)
    return tuple(key for key in keys if key in load_sources())


def _or_none(value: float | None, unit: str) -> str:
    return NONE if value is None else words(value, unit)


def _costs(known: Sequence[Offered]) -> Table:
    """What the fleet to take of each offer costs, and with what chance it keeps what is asked."""
    has_month = any(one["usd_per_month"] is not None for one in known)
    has_kept = any(one["kept_probability"] is not None for one in known)
    order = f"costs more than {cheapest(known)['label']}" if len(known) > 1 and not _has_fewer(known) else ""
    has_odds = sum(map(is_sure, known)) > 1
    rows: list[list[str | Cell]] = [
        [
            _name(one, known),
            *([Cell(paid(one), below=interval_words(paid_ends(one), "USD"))] if has_month else []),
            *([chance_words(one["cheapest_probability"])] if has_odds else []),
            *([chance_words(one["kept_probability"])] if has_kept else []),
            figure_words(ends(one), "USD")
            if has_month
            else Cell(str(one["cost"]), below=interval_words(ends(one), "USD")),
            *([_costs_more(known, one)] if order else []),
        ]
        for one in known
    ]
    columns = (
        "offer",
        *(["a month #"] if has_month else []),
        *(["chance to be the cheapest #"] if has_odds else []),
        *([_kept_heading(known)] if has_kept else []),
        "per thousand requests #",
        *([f"{order} #"] if order else []),
    )
    sure = [f"Each has as many GPUs as {keep(known[0])} in nine of ten cases"]
    sure += ["Where no number does, it has the fewest expected to"] * any(map(_is_unsure, known))
    chance = ["Near 50 % the order of two offers is open"] if order else []
    rents = ["Ranges: 90 % of the cost, as rents differ"] * any(one["gpus"] and not _is_narrow(one) for one in known)
    note = ". ".join([*(sure if _has_fewer(known) else []), *rents, *(_kept_note(known) if has_kept else []), *chance])
    return Table(
        "What each costs", columns, rows, "usd_per_request", note, strong=(0,), is_stacked=True,
        drops=(order, "per thousand requests"),
    )  # fmt: skip


def _has_fewer(known: Sequence[Offered]) -> bool:
    """Whether fewer GPUs than those to take are expected to do, of any offer."""
    return any(map(_is_larger, known))


def _costs_more(known: Sequence[Offered], one: Offered) -> str:
    """The chance that an offer costs more than the cheapest, both with the fewest GPUs."""
    first = cheapest(known)
    return chance_words(None if one is first else first["cheaper_probability"][one["name"]])


def _fewest(known: Sequence[Offered]) -> list[Table]:
    """What the fewest GPUs of each cost that are expected to do, and how surely they do."""
    if not _has_fewer(known):
        return []
    least = [one["fewest"] for one in known]
    order = f"costs more than {cheapest(known)['fewest']['label']}"
    rows: list[list[str | Cell]] = [
        [few["label"], Cell(paid(few), below=interval_words(paid_ends(few), "USD")),
         chance_words(few["kept_probability"]), _costs_more(known, one)]
        for one, few in zip(known, least, strict=True) if few["gpus"]
    ]  # fmt: skip
    columns = ("offer", "a month #", _kept_heading(known), f"{order} #")
    note = ". ".join([*_remarks(filter(_is_larger, known)), "Near 50 % the order of two offers is open"])
    return [Table("Fewer GPUs, less sure", columns, rows, note=note, is_stacked=True, is_detail=True)]


def _kept_heading(known: Sequence[Offered]) -> str:
    carries = all(keeps(one) == CARRIES for one in known)
    return f"chance to {'carry the load' if carries else 'keep the limits'} #"


def _kept_note(known: Sequence[Offered]) -> list[str]:
    """Which limits a chance is of, and what medians assume."""
    one = next(one for one in known if one["kept_probability"] is not None)
    said = [f"Limits: {one['limits']}"] if one["limits"] else []
    return [*said, *([_MEDIANS] if said and not one["fewest"]["tightest_limit"] else [])]


def _name(one: Offered, known: Sequence[Offered]) -> Cell:
    """What readers call an offer and its fleet; its id, what is left open, and why it takes so many GPUs."""
    own = [one["name"]] if one["name"] not in one["label"] else []
    recommended = ["recommended"] if one is known[0] and len(known) > 1 else []
    return Cell(one["label"], below=", ".join([*recommended, *own, *_terms(one), *_many(one, known[0])]))


#: Times the GPUs of the recommended fleet from which on a count is explained (an assumption).
_MANY = 5.0


def _many(one: Offered, best: Offered) -> list[str]:
    """Why an offer takes many more GPUs than the recommended one: how little each serves within the limits."""
    each, most = one["requests_per_s_per_gpu"], best["requests_per_s_per_gpu"]
    if each is None or most is None or most < _MANY * each:
        return []
    within = " within the limits" if one["limits"] else ""
    return [f"each serves {words(each, '', 2)}\u00a0requests/s{within} (recommended: {words(most, '', 2)})"]


def _terms(one: Offered) -> list[str]:
    """What an offer's name leaves open of its format, term and region."""
    term = {"reserve": "reserved", "own": "owned"}.get(one["term"])
    said = one["name"].replace(",", "").split()
    return [part for part in (one["precision"], term, one["region"]) if part and part not in (*said, one["name"])]


def _systems(known: Sequence[Offered]) -> list[Table]:
    """How each fleet to take is laid out, how fast it answers, and what it draws; of APIs none of it is known."""
    own = [one for one in known if one["kind"] != "api"]
    if not own:
        return []
    has_fleet, has_times = any(one["w"] for one in own), any(one["ttft_s"] or one["tpot_s"] for one in own)
    is_promise = any(one["attained"] for one in own)
    rows: list[list[str | Cell]] = [
        [
            one["label"],
            _laid_out(one),
            *([_figure(one, "ttft_s", "s"), _figure(one, "tpot_s", "tokens/s")] if has_times else []),
            *([NONE if one["w"] is None else words(one["w"], "W", 2)] if has_fleet else []),
            f"{one['joules_per_token']:.2g}",
            one["bound"],
        ]
        for one in own
    ]
    columns = [
        "offer",
        "layout",
        *(["first token #", "speed for one user #"] if has_times else []),
    ]
    columns += [*(["power #"] if has_fleet else []), "J/token #", "bound"]
    said = _OF_REQUESTS if is_promise else _MEDIANS
    notes = [said] * (has_fleet and has_times)
    note = ". ".join([*notes, *["Power includes cooling and losses"] * has_fleet])
    drops = ("J/token", "bound")
    return [Table("How each runs", tuple(columns), rows, note=note, is_stacked=True, drops=drops, is_detail=True)]


#: What times at a load are: within plain limits, and of a simulated promise.
_MEDIANS = "Medians assume that requests arrive evenly"
_OF_REQUESTS = "Medians are over the requests. 95 %: so many of them are as fast"


def _laid_out(one: Offered) -> Cell:
    """How many replicas of how many GPUs each, and how these share the model."""
    said = layout_said(one["layout"] or "")
    said = "prefill > decode workers" if " > " in (one["layout"] or "") else said
    below = f"{one['layout']}: {said}" if said else str(one["layout"] or "")
    if not one["replicas"]:
        return Cell(below)
    each = format_count(one["gpus"] // one["replicas"], "GPU")
    return Cell(f"{format_count(one['replicas'], 'replica')} of {each}", below=below)


def _figure(one: Offered, name: str, unit: str) -> str | Cell:
    """The median of a time or of its rate, where it is known; below it its interval, or what 95 % of requests get."""

    def in_unit(value: Any) -> Any:
        return value if unit == "s" else inverse(value)

    if not one[name]:
        return NONE
    if not one["attained"]:
        return quantity_cell(in_unit(one[name]), unit)
    below = f"95 %: {words(in_unit(one['attained'][name]['p95']), unit, 2)}"
    return Cell(words(in_unit(one[name]), unit, 2), below=below)


def _times_kept(known: Sequence[Offered]) -> list[Table]:
    """What the fewest GPUs attain of the promise; prices by the token say nothing of it."""
    own = [one for one in known if one["kind"] != "api"]
    return [_kept(own)] if any(one["meets"] or one["attained"] for one in own) else []


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
    note = "of the fewest GPUs" if plain and any(one["gpus"] for one in own) else ""
    if any(_slow(one) for one in own):
        note = "at the medians; slow: where times are as long as in one of ten cases"
    return Table("Times against their limits", columns, rows, note=note, is_stacked=True, is_detail=True)


def _within(one: Offered, name: str) -> str | Cell:
    """A time at the median, with the chance that it is within a plain limit."""
    if name not in (one["meets"] or {}):
        return NONE
    found = one["meets"][name]
    below = f"{chance_words(found['probability'])} within {words(found['limit_s'], 's')}"
    return Cell(words(found["p50_s"], "s"), below=below)


def _attained(one: Offered, name: str) -> str | Cell:
    if not one["attained"] or one["attained"][name]["p95"] is None:
        return NONE
    slow = _slow(one).get((name, 0.95))
    said = words(one["attained"][name]["p95"], "s", 2)
    return Cell(said, below=f"slow: {words(slow, 's', 2)}" if slow else "")


def _slow(one: Offered) -> dict[tuple[str, float], float]:
    """Times of the fleet to take, by quantity and share of requests, that one case of ten exceeds; where promised."""
    sure = one["at_90_percent"] if one["gpus"] != one.get("fewest", one)["gpus"] else None
    limits = (sure or {}).get("limits", ())
    return {(each["quantity"], each["share_fraction"]): each["attained_p90_s"] for each in limits}


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


def _cost_plot(known: Sequence[Offered]) -> list[Plot]:
    """Costs in the order of choice: the recommended offer, then the others."""
    priced = [one for one in known if one["usd_per_request"] > 0]
    if not priced:
        return []
    best, most = known[0], _OFF_SCALE * paid_ends(known[0])["p50"]
    near = [one for one in priced if one is best or (paid_ends(one)["p50"] <= most and not _is_hopeless(one))]
    rows = [_row(one, one is best and len(known) > 1) for one in near]
    figure = costs_figure(rows, f"USD {per(best)}")
    caption = f"{_marks(near, best)}{_left_out([one for one in priced if one not in near], best)}"
    return [Plot("cost", f"Cost {per(best)}", caption, figure, "usd_per_request")]


def _left_out(far: Sequence[Offered], best: Offered) -> str:
    """What is not drawn, and why."""
    dear = [f"{one['label']} at {paid(one)}" for one in far if not _is_hopeless(one)]
    hopeless = [
        f"{one['label']} at {paid(one)} ({chance_words(one['kept_probability'])})" for one in far if _is_hopeless(one)
    ]
    said = [f"far dearer, {listed(dear)}"] if dear else []
    said += [f"unlikely to {keep(best)}, {listed(hopeless)}"] if hopeless else []
    return f" Not drawn: {'; '.join(said)}." if said else ""


def _marks(near: Sequence[Offered], best: Offered) -> str:
    """What the marks of a chart of costs mean, as far as it has them."""
    said = "Dot and bar: median and 90 % range"
    if best["gpus"]:
        each = ", or the fewest expected to where no number does" if any(map(_is_unsure, near)) else ""
        fleets = f"Fleets that {keep(best)} in nine of ten cases{each}. " if is_sure(best) else ""
        said = f"{fleets}Bar: 90 % range of the cost, as rents differ"
    said += "; ring: recommended" if len(near) > 1 else ""
    bare = [one["label"] for one in near if _is_narrow(one)]
    if bare and len(bare) < len(near):
        said += f"; {listed(bare)} {'have' if len(bare) > 1 else 'has'} no bar, as quoted rents hardly differ"
    return f"{said}."


#: Width of an interval, over its median, below which a dot hides it.
_NARROW = 0.05


def _is_unsure(one: Offered) -> bool:
    """Whether no number of GPUs keeps what is asked with 90 %; of an API that is not known."""
    return one["kept_probability"] is not None and not is_sure(one)


def _is_narrow(one: Offered) -> bool:
    """Whether an offer's bar is hidden by its dot."""
    of = paid_ends(one)
    return of["p95"] - of["p05"] < _NARROW * of["p50"]


def _row(one: Offered, is_recommended: bool) -> Row:
    """An offer as the chart shows it."""
    chance, likely = one["kept_probability"], one["cheapest_probability"]
    sure = "" if chance is None else f", {chance_words(chance)} chance"
    sure = sure if likely is None else f", {chance_words(likely)} likely cheapest"
    ring = "" if not is_recommended or likely is not None else ", recommended"
    return Row(one["label"], _quantity(one), paid(one), f"{sure}{ring}", is_recommended)


def _is_hopeless(one: Offered) -> bool:
    """Whether an offer costs more than others and more likely misses what is asked than not."""
    chance = one["kept_probability"]
    return chance is not None and chance < EVEN and one["rank"] > 1


def _even_plot(known: Sequence[Offered], found: Sequence[Offered]) -> list[Plot]:
    """At which price of a GPU-hour each offer that is in the running is the cheapest."""
    running = [one["label"] for one in known if not _is_hopeless(one)]
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
    best = known[0]
    if is_sure(best):
        return f" Each with as many GPUs as {keep(best)} in nine of ten cases."
    return f" How surely it {keeps(best)} is not counted." if best["gpus"] else ""


def _quantity(one: Offered) -> dict[str, Any]:
    of = paid_ends(one)
    low, high = min(of["p05"], of["p50"]), max(of["p95"], of["p50"])
    return {"p05": low, "p10": low, "p50": of["p50"], "p90": high, "p95": high, "unit": "USD"}
