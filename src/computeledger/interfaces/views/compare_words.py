"""Sentences on offers: which one to take, how surely it keeps what is asked, and what makes that surer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.view import Card, Tile, ends_said
from computeledger.questions.wording import figure_words, headline_words, interval_words, listed, short_model, words
from computeledger.units import format_count

Offered = Mapping[str, Any]
#: A chance beyond which an order is called clear (an assumption).
_CLEAR = 0.9
#: A chance below which what holds at the medians more likely does not.
EVEN = 0.5
#: A chance beyond which nobody counts on the rest.
_SURE = 0.99
NONE = "–"
#: Offers of a tie that are named at most.
_MOST_NAMED = 5
#: A request costs so little that people quote this many.
REQUESTS = 1000
PER_REQUESTS = "per thousand requests"


def models(offers: Sequence[Offered]) -> str:
    """The model of all offers, or how many they serve."""
    names = list(dict.fromkeys(_model(one["model"]) for one in offers if one["model"]))
    return names[0] if len(names) == 1 else f"{len(names)} models" if names else "one workload"


def _model(given: str) -> str:
    """What a model is called; a file goes by its name, and is not read again."""
    return short_model(given if user_path(given) is not None else load_model(given).id)


def labels(known: Sequence[Offered]) -> list[str]:
    """What readers call each offer; the name that tells apart two that would be called the same is added."""
    said = [_who(one) for one in known]
    return [
        who if said.count(who) == 1 else f"{who} ({one['name']})" for who, one in zip(said, known, strict=True)
    ]  # fmt: skip


def label_of(known: Sequence[Offered], name: str) -> str:
    """What readers call the offer of a name."""
    return next((str(one["label"]) for one in known if one["name"] == name), name)


def choice(known: Sequence[Offered]) -> Offered:
    """The offer to take."""
    return next(one for one in known if one["is_recommended"])


def _who(one: Offered) -> str:
    """An offer by its name; one without a name of its own is so many of its chip."""
    name = str(one["name"])
    if one["kind"] == "gpus" and name.partition(",")[0] == one["system"]:
        chip = load_system(one["system"]).accelerator.short_name + name.removeprefix(one["system"])
        return f"{one['gpus']}\u00a0{chip}" if one["gpus"] else chip
    return name


def ends(one: Offered) -> dict[str, float]:
    """Cost of so many requests, and its 90 % interval; none where nothing ends it."""
    low, high = one["usd_per_request_p05"], one["usd_per_request_p95"]
    each = {"p05": low, "p50": one["usd_per_request"], "p95": low if high is None else high}
    return {name: REQUESTS * value for name, value in each.items()}


def paid_ends(one: Offered) -> dict[str, float]:
    """Cost a month where a load is known, or of so many requests, with its 90 % interval."""
    each, month = ends(one), one["usd_per_month"]
    if month is None:
        return each
    return {name: month * value / each["p50"] if each["p50"] else month for name, value in each.items()}


def paid(one: Offered) -> str:
    """What an offer costs by the month or by so many requests, as its interval deserves."""
    return str(one["cost"]) if one["usd_per_month"] is None else figure_words(paid_ends(one), "USD")


def per(one: Offered) -> str:
    """What an offer's cost is counted by."""
    return PER_REQUESTS if one["usd_per_month"] is None else "a month"


def month_words(one: Offered, usd: float) -> str:
    """Dollars a month for a fleet of an offer, with the digits that the interval of its cost deserves."""
    each = ends(one)
    return figure_words(
        {name: usd * value / each["p50"] for name, value in each.items()} if each["p50"] else usd, "USD"
    )


def as_likely(known: Sequence[Offered]) -> list[Offered]:
    """Offers whose chance of being the cheaper one is about as great as the first one's."""
    return [one for one in known[1:] if one["is_tied_on_cost"]]


#: What each limit is on.
_LIMITED = {"tpot": "a token", "ttft": "to the first token", "e2e": "a request"}


def limits_words(one: Offered) -> str:
    """The plain limits of an offer, as a sentence names them; nothing where it is asked for something else."""
    said = [f"{words(limit['limit_s'], 's')} {_LIMITED[name]}" for name, limit in (one["meets"] or {}).items()]
    return f"the {'limit' if len(said) == 1 else 'limits'} of {listed(said)}" if said else ""


def _no_surer(first: Offered, others: Sequence[Offered]) -> str:
    known = [one["kept_probability"] for one in (first, *others)]
    return "" if None in known else f", and none of the others {keeps(first)} clearly more surely"


def kept_words(one: Offered, subject: str = "") -> list[str]:
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
    if one["meets"] and chance < EVEN:
        return [f"{name} keeps the limits at the medians alone: with a chance of at most {chance_words(chance)}."]
    return [f"{name} {keeps(one)} with a chance of {chance_words(chance)}."]


def keeps(one: Offered, limits: str = "") -> str:
    """What it is that an offer keeps."""
    if one["tightest_limit"]:
        return "keeps the promise"
    return f"keeps {limits or 'the limits'}" if one["meets"] else CARRIES


#: What an offer without limits does.
CARRIES = "carries the load"


def _to_keep(one: Offered, limits: str = "") -> str:
    """The same after "to"."""
    said = keeps(one, limits)
    return "carry the load" if said == CARRIES else f"keep {said.partition(' ')[2]}"


def sure_words(one: Offered) -> str:
    """How surely an offer keeps what is asked, before what it costs; nothing where that is not known.

    Examples
    --------
    >>> offer = {"kept_probability": 0.84, "tightest_limit": None, "meets": {"tpot": {}}}
    >>> sure_words(offer), sure_words(offer | {"kept_probability": 1.0})
    ('an 84 % chance to keep the limits', 'sure to keep the limits')
    """
    chance = one["kept_probability"]
    if chance is None:
        return ""
    if chance > _SURE:
        return f"sure to {_to_keep(one)}"
    said = chance_words(chance)
    article = "an" if said.startswith(("8", "11 ", "18 ")) else "a"
    return f"{'no' if chance < 1 - _SURE else f'{article} {said}'} chance to {_to_keep(one)}"


def headline(known: Sequence[Offered], n_refused: int) -> str:
    """The model, the offer to take, how surely it keeps what is asked, and what it costs.

    None is called the cheapest where another is about as likely.
    """
    chosen = choice(known)
    of = format_count(len(known) + n_refused, "offer")
    rank = f"the cheapest of {of}" if len(known) + n_refused > 1 else "the only offer"
    cost = f"{paid(chosen)} {per(chosen)}"
    surely = sure_words(chosen)
    said = ", ".join([*([] if as_likely(known) else [rank]), f"{surely} for {cost}" if surely else cost])
    subject = f"{_model(chosen['model'])} " if chosen["model"] else ""
    where = f"{'from' if chosen['kind'] == 'api' else 'on'} " if subject else ""
    own = f" ({format_count(chosen['gpus'], 'GPU')})" if chosen["gpus"] and chosen["label"] == chosen["name"] else ""
    return headline_words(f"{subject}{where}{chosen['label']}{own}", said, paid_ends(chosen), "USD")


def surest(known: Sequence[Offered], chosen: Offered) -> Offered | None:
    """The offer that costs least with as many GPUs as keep what is asked with 90 %, where the chosen one does not."""
    chance = chosen["kept_probability"]
    sure = [one for one in known if one["at_90_percent"]]
    if chance is None or chance >= _CLEAR or not sure:
        return None
    return min(sure, key=lambda one: float(one["at_90_percent"]["usd_per_month"]))


def sized(one: Offered) -> str:
    """An offer with as many GPUs as keep what is asked with 90 %."""
    gpus = one["at_90_percent"]["gpus"]
    label, own = str(one["label"]), f"{one['gpus']}\u00a0"
    if label.startswith(own):
        return f"{gpus}\u00a0{label.removeprefix(own)}"
    return f"{format_count(gpus, 'GPU')} of {label}"


def _sure_chance(one: Offered) -> str:
    """With what chance that many GPUs keep what is asked; a simulated promise states no more than the 90 %."""
    return chance_words(one["at_90_percent"].get("kept_probability", _CLEAR))


def _sure_month(one: Offered) -> str:
    return month_words(one, one["at_90_percent"]["usd_per_month"])


def tiles(known: Sequence[Offered]) -> tuple[Tile, ...]:
    """What to take, what to take to be surer, what costs less, each with its chance; and the cost of requests."""
    first, chosen = known[0], choice(known)
    sure = surest(known, chosen)
    out = [_tile(f"Recommended: {chosen['label']}" if len(known) > 1 else str(chosen["label"]), chosen)]
    if sure is not None:
        kept = f"{_sure_chance(sure)} chance to {_to_keep(sure)}"
        out.append(Tile(f"Surer: {sized(sure)}", f"{_sure_month(sure)}\u00a0a month", kept))
    if first is not chosen and paid(first) != paid(chosen):
        out.append(_tile(f"Cheaper: {first['label']}", first))
    if chosen["usd_per_month"] is not None:
        out.append(Tile("Per thousand requests", str(chosen["cost"]), interval_words(ends(chosen), "USD")))
    return tuple(out)


def _tile(label: str, one: Offered) -> Tile:
    chance = one["kept_probability"]
    band = (
        interval_words(paid_ends(one), "USD") if chance is None else f"{chance_words(chance)} chance to {_to_keep(one)}"
    )
    return Tile(label, f"{paid(one)}\u00a0{per(one)}", band)


def card(known: Sequence[Offered]) -> Card:
    """The offer to take, how surely it keeps what is asked and what it costs, and what is surer."""
    chosen = choice(known)
    sure, surely = surest(known, chosen), sure_words(chosen)
    said = f"{paid(chosen)} {per(chosen)}" + (f", {surely}" if surely else "")
    if sure is not None:
        said += f"; {sized(sure)} at {_sure_month(sure)} make it {_sure_chance(sure)}"
    band = ends_said(paid_ends(chosen), "USD")
    return Card(chosen["label"], said, band and f"{band} {per(chosen)}")


def context(known: Sequence[Offered], n_refused: int, workload: str) -> str:
    """What is surer, what may be cheaper or how sure the order is, and what was compared."""
    first, chosen = known[0], choice(known)
    parts = [*_surer(known, chosen), *(_tie(known) if as_likely(known) else _order(known))]
    if first["kind"] == "api":
        own = next((one for one in known if one["kind"] != "api"), None)
        parts += [_own(own)] if own else []
    n = len(known) + n_refused
    of = f"{format_count(n, 'offer')} compared" if n > 1 else ""
    served = ", ".join(part for part in (of, workload) if part)
    return " ".join([*parts, *([f"{served[:1].upper()}{served[1:]}."] if served else [])])


def _order(known: Sequence[Offered]) -> list[str]:
    """How surely the first is the cheapest, or what its cost stands on; that it hardly keeps what is asked."""
    first = known[0]
    chance = first["kept_probability"]
    odds = [_odds(first["cheaper_than_next_probability"], known[1]["label"])] if len(known) > 1 else []
    hardly = kept_words(first, "It" if odds else first["label"]) if chance is not None and chance < EVEN else []
    return [*(odds or _priced_as(first)), *hardly]


def _surer(known: Sequence[Offered], chosen: Offered) -> list[str]:
    """What to take to keep what is asked with a chance of 90 %, where the recommended offer does not."""
    chance = chosen["kept_probability"]
    if chance is None or chance >= _CLEAR:
        return []
    best = surest(known, chosen)
    if best is None:
        return ["More GPUs do not make it 90 %: loosen a limit, or take other systems."]
    to = _to_keep(chosen, limits_words(chosen))
    return [f"To {to} with 90 %, take {sized(best)} at {_sure_month(best)} a month."]


def _tie(known: Sequence[Offered]) -> list[str]:
    """Which offer may be cheaper than the one to take, and how much less sure it is; or what is no worse."""
    first, chosen, others = known[0], choice(known), as_likely(known)
    if chosen is not first:
        surer, less_sure = (chance_words(one["kept_probability"]) for one in (chosen, first))
        cost = f"costs the same ({paid(first)})" if paid(first) == paid(chosen) else f"may be cheaper ({paid(first)})"
        return [f"{first['label']} {cost} but is less sure, {less_sure} against {surer}."]
    rest = [one["label"] for one in others]
    more = len(rest) - len(rest[:_MOST_NAMED])
    named = listed([*rest[:_MOST_NAMED], *([f"{more} more"] if more else [])])
    chance = first["kept_probability"]
    return [
        f"Its median cost is the lowest{_no_surer(first, others)}. Too close to call: {named}.",
        *(kept_words(first, "It") if chance is not None and chance < EVEN else []),
    ]


def _priced_as(one: Offered) -> list[str]:
    """What the cheapest offer's cost stands on: its price of a GPU-hour."""
    if one["usd_per_gpu_hour"] is None:
        return []
    return [f"A GPU-hour is {words(one['usd_per_gpu_hour'], 'USD')}."]


def _odds(chance: float, other: str) -> str:
    """How surely the first comes before the second, in words."""
    return f"It is {'clearly' if chance >= _CLEAR else 'likely'} cheaper than {other} ({chance_words(chance)})."


def _own(one: Offered) -> str:
    return f"An API's speed is not known; of the systems {one['label']} is the cheapest ({one['cost']} {PER_REQUESTS})."


def chance_words(chance: float | None) -> str:
    """A chance in percent, none said as certain."""
    if chance is None:
        return NONE
    return (
        f"{100 * min(max(chance, 0.01), 0.99):.0f} %" if 0.01 <= chance <= 0.99 else ("> 99 %" if chance else "< 1 %")
    )
