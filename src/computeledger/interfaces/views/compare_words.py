"""Sentences on offers: which one to take, how surely it keeps what is asked, and what makes that surer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Promise
from computeledger.interfaces.view import Card, Tile, ends_said
from computeledger.questions.wording import (
    figure_words,
    headline_words,
    interval_words,
    listed,
    point,
    short_model,
    words,
)
from computeledger.units import format_count

if TYPE_CHECKING:
    from computeledger.workloads.questions.serve import ServeQuestion

Offered = Mapping[str, Any]
#: A chance beyond which an order is called clear (an assumption).
CLEAR = 0.9
#: A chance below which what holds at the medians more likely does not.
EVEN = 0.5
#: A chance beyond which nobody counts on the rest.
_SURE = 0.99
NONE = "–"
#: Offers of a tie that are named at most.
_MOST_NAMED = 5
#: Chance of being the cheapest from which on an offer is named as an alternative, and how many are (assumptions).
_ALTERNATIVE, _MOST_ALTERNATIVES = 0.1, 2
#: Chips that are named at most as compared.
_MOST_COMPARED = 6
#: A request costs so little that people quote this many.
REQUESTS = 1000
PER_REQUESTS = "per thousand requests"
PER_REQUESTS_TILE = PER_REQUESTS.capitalize()


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


def shown(one: Offered) -> Offered:
    """An offer with the fleet to take of it; ``fewest`` is the one with the fewest GPUs, at the same rents."""
    fleet = one["fleet"]
    less = one["usd_per_request"] / fleet["usd_per_request"] if fleet["usd_per_request"] else 1.0
    fewest = {**one, **{name: less * fleet[name] for name in ("usd_per_request_p05", "usd_per_request_p95")}}
    return {**one, **fleet, "label": sized(one, fleet["gpus"]), "fewest": fewest}


def sized(one: Offered, gpus: int | None) -> str:
    """An offer with so many GPUs of it."""
    label, own = str(one["label"]), f"{one['gpus']}\u00a0"
    if gpus is None or gpus == one["gpus"]:
        return label
    if label.startswith(own):
        return f"{gpus}\u00a0{label.removeprefix(own)}"
    return f"{format_count(gpus, 'GPU')} of {label}"


def is_sure(one: Offered) -> bool:
    """Whether the fleet to take of an offer keeps what is asked with 90 %."""
    return one["kept_probability"] is not None and one["kept_probability"] >= CLEAR


def in_order(known: Sequence[Offered]) -> list[Offered]:
    """Offers as a reader chooses: the recommended one, those that keep what is asked by their cost, then the others."""

    def place(one: Offered) -> tuple[bool, bool, float, int]:
        return not one["is_recommended"], not is_sure(one), one["usd_per_request"] if is_sure(one) else 0.0, one["rank"]

    return sorted(known, key=place)


def cheapest(known: Sequence[Offered]) -> Offered:
    """The offer whose fewest GPUs cost the least."""
    return next(one for one in known if one["rank"] == 1)


def _who(one: Offered) -> str:
    """An offer by its name; one without a name of its own is so many of its chip."""
    name = str(one["name"])
    if one["kind"] == "gpus" and name.partition(",")[0] == one["system"]:
        chip = load_system(one["system"]).accelerator.short_name + name.removeprefix(one["system"])
        return f"{one['gpus']}\u00a0{chip}" if one["gpus"] else chip
    return name


def ends(one: Offered) -> dict[str, float]:
    """Cost of so many requests, and its 90 % interval."""
    each = {"p05": one["usd_per_request_p05"], "p50": one["usd_per_request"], "p95": one["usd_per_request_p95"]}
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


def as_likely(known: Sequence[Offered]) -> list[Offered]:
    """Offers whose chance of being the cheaper one is about as great as the first one's."""
    return [one for one in known if one["is_tied_on_cost"] and one["rank"] > 1]


#: What each limit is on.
_LIMITED = {"ttft": "to the first token", "tpot": "a token", "end_to_end": "a request"}


def limits_words(question: ServeQuestion | None) -> str:
    """The limits of an offer, as a sentence names them; nothing where it is asked for something else.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> limits = {"ttft": Promise(0.95, 1.0), "tpot": 0.04, "requests_per_s": 1.0}
    >>> limits_words(ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", **limits)).replace(chr(160), " ")
    '1 s to the first token for 95 % of requests and 40 ms a token for half of them'
    """
    if question is None:
        return ""
    shares = {name.removesuffix("_s"): one for name, one in question.promises.items()}
    plain = {name: Promise(1 / 2, limit) for name, limit in question.limits.items()}
    asked = {name: one for name, one in (plain | shares).items() if name in _LIMITED}
    said = [f"{words(asked[name].limit, 's')} {what}" for name, what in _LIMITED.items() if name in asked]
    if not shares or not said:
        return listed(said) if said else ""
    of = [_share(asked[name].share_fraction) for name in _LIMITED if name in asked]
    if len(set(of)) == 1:
        return f"{listed(said)} for {of[0]} of requests{' at once' if question.goodput is not None else ''}"
    whom = [f"for {share} of {'them' if place else 'requests'}" for place, share in enumerate(of)]
    return listed([f"{one} {each}" for one, each in zip(said, whom, strict=True)])


def _share(fraction: float) -> str:
    return "half" if fraction == 1 / 2 else f"{100 * fraction:g}\u00a0%"


def _no_surer(first: Offered, others: Sequence[Offered]) -> str:
    known = [one["kept_probability"] for one in (first, *others)]
    return "" if None in known else f", and none of the others {keeps(first)} clearly more surely"


def kept_words(one: Offered, subject: str = "") -> list[str]:
    """With what chance an offer keeps its promise, where that is less than clear.

    Examples
    --------
    >>> offer = {"name": "8 H200", "kept_probability": 0.64, "tightest_limit": "p95 ttft_s", "meets": None}
    >>> kept_words(offer)[0].replace(chr(160), " ")
    '8 H200 keeps the limits with a chance of 64 %.'
    """
    chance, name = one["kept_probability"], subject or one["name"]
    if chance is None or chance >= CLEAR:
        return []
    if one["meets"] and chance < EVEN:
        return [f"{name} keeps the limits at the medians alone: with a chance of at most {chance_words(chance)}."]
    return [f"{name} {keeps(one)} with a chance of {chance_words(chance)}."]


def keeps(one: Offered) -> str:
    """What it is that an offer keeps."""
    return "keeps the limits" if one["tightest_limit"] or one["meets"] else CARRIES


#: What an offer without limits does.
CARRIES = "carries the load"


def keep(one: Offered) -> str:
    """The same after "to", and of more than one offer."""
    return keeps(one).replace("keeps", "keep", 1).replace("carries", "carry", 1)


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
        return f"sure to {keep(one)}"
    return f"{'no' if chance < 1 - _SURE else f'{_article(chance)} {chance_words(chance)}'} chance to {keep(one)}"


def headline(known: Sequence[Offered], n_refused: int) -> str:
    """The model, the offer to take with its cost, and how surely it keeps what is asked.

    None is called the cheapest where another is about as likely, and none keeps what is asked with 90 %.
    """
    best, n, n_sure = known[0], len(known) + n_refused, sum(map(is_sure, known))
    of, cost, surely = format_count(n, "offer"), f"{paid(best)} {per(best)}", sure_words(best)
    if is_sure(best) and n > 1:
        sure = f"{n_sure} offers that {keep(best)}"
        which = f"the only one of {of} that {keeps(best)}" if n_sure == 1 else f"cheapest of {sure}"
        said = f"{cost}, {which} in nine of ten cases"
        chance = best["cheapest_probability"]
        if chance < CLEAR and n_sure > 1:
            among = f"{n} offers" if n_sure == n else sure
            said = f"{cost}, {chance_words(chance)} likely the cheapest of {among}"
    else:
        rank = f"the cheapest of {of}" if n > 1 else "the only offer"
        said = ", ".join([*([] if as_likely(known) else [rank]), f"{surely} for {cost}" if surely else cost])
    subject = f"{_model(best['model'])} " if best["model"] else ""
    subject += f"in {best['weights']} " if subject and best["weights"] and best["weights"] not in best["label"] else ""
    where = f"{'from' if best['kind'] == 'api' else 'on'} " if subject else ""
    own = f" ({format_count(best['gpus'], 'GPU')})" if best["gpus"] and best["label"] == best["name"] else ""
    return headline_words(f"{subject}{where}{best['label']}{own}", said, paid_ends(best), "USD")


def tiles(known: Sequence[Offered]) -> tuple[Tile, ...]:
    """What to take, what comes next, what costs less, each with its chance; and the cost of requests."""
    best, gamble = known[0], _gamble(known)
    out = [_tile(f"Recommended: {best['label']}" if len(known) > 1 else str(best["label"]), best)]
    if len(known) > 1 and is_sure(best) and is_sure(known[1]):
        after = known[1]
        out.append(
            Tile(f"Next: {after['label']}", f"{paid(after)}\u00a0{per(after)}", ends_said(paid_ends(after), "USD"))
        )
    if gamble is not None:
        out.append(_tile(f"Cheaper: {counted(gamble)}", gamble))
    if best["usd_per_month"] is not None:
        out.append(Tile(PER_REQUESTS_TILE, figure_words(ends(best), "USD"), interval_words(ends(best), "USD")))
    return tuple(out)


def _gamble(known: Sequence[Offered]) -> Offered | None:
    """The fewest GPUs that cost the least, where they cost less than the fleet to take."""
    best, first = known[0], cheapest(known)
    less: Offered = first["fewest"] if is_sure(best) and first["usd_per_month"] is not None else first
    return less if less["label"] != best["label"] and paid(less) != paid(best) else None


def _tile(label: str, one: Offered) -> Tile:
    chance = one["kept_probability"]
    band = interval_words(paid_ends(one), "USD") if chance is None else f"{chance_words(chance)} chance to {keep(one)}"
    return Tile(label, f"{paid(one)}\u00a0{per(one)}", band)


def card(best: Offered, workload: str) -> Card:
    """The offer to take, what it costs, for which load, and how surely it keeps what is asked."""
    surely = sure_words(best).replace("the limits", best["limits"] or "the limits")
    said = ", ".join(filter(None, (f"{paid(best)} {per(best)} {workload}".strip(), surely)))
    paid_usd = paid_ends(best)
    band = ends_said(paid_usd, "USD")
    ends = tuple(point(paid_usd, name) for name in ("p05", "p50", "p95")) if band else ()
    return Card(best["label"], said, band and f"{band} {per(best)}", ends)


def context(known: Sequence[Offered], n_refused: int, workload: str) -> str:
    """How sure the choice is, what comes next, what costs less and keeps less; and what was compared."""
    best, first = known[0], cheapest(known)
    parts = (
        _of_sure(known) if is_sure(best) else [*_no_more(best), *(_tie(known) if as_likely(known) else _order(known))]
    )
    if first["kind"] == "api":
        own = next((one for one in known if one["kind"] != "api"), None)
        parts += [_own(own)] if own else []
    return " ".join([*parts, *_asked(known, n_refused, workload)])


def _asked(known: Sequence[Offered], n_refused: int, workload: str) -> list[str]:
    """What was compared, by its chips where they are few, and for which load."""
    n = len(known) + n_refused
    if n == 1:
        return [f"Asked: {workload.removeprefix('at ')}."] if workload else []
    names = list(dict.fromkeys(re.sub(r"^\d+\u00a0", "", str(one["label"])) for one in known))
    is_long = bool(n_refused) or len(names) > _MOST_COMPARED
    offers = format_count(n, "offer").replace(" ", "\u00a0") if is_long else listed(names)
    return [f"Compared: {offers}{f' {workload}' if workload else ''}."]


def _of_sure(known: Sequence[Offered]) -> list[str]:
    """How the recommended fleet runs, and its chance to stay within which limits; what comes next has a tile."""
    best = known[0]
    kept = f"keeps {best['limits']}" if best["limits"] else keeps(best)
    runs = runs_words(best)
    subject = f"{runs[:1].upper()}{runs[1:]}. It" if runs else "It"
    return [*_rivals(known), f"{subject} {kept} with a chance of {chance_words(best['kept_probability'])}."]


def _rivals(known: Sequence[Offered]) -> list[str]:
    """Which other fleets are likely to be the cheapest as rents differ, where the first is not clearly that."""
    best, others = known[0], [one for one in known[1:] if (one["cheapest_probability"] or 0.0) >= _ALTERNATIVE]
    if best["cheapest_probability"] >= CLEAR or not others:
        return []
    likely = sorted(others, key=lambda one: -one["cheapest_probability"])[:_MOST_ALTERNATIVES]
    return [f"Rents differ, so {' or '.join(str(one['label']) for one in likely)} may be cheaper."]


def runs_words(one: Offered) -> str:
    """How a fleet is laid out, how fast it answers one user, and what power it draws; nothing where none is known."""
    if not one["replicas"]:
        return ""
    each = format_count(one["gpus"] // one["replicas"], "GPU")
    parts = []
    if one["tpot_s"]:
        parts.append(f"{_figure(inverse(one['tpot_s']), 'tokens/s')} per user")
    if one["ttft_s"]:
        parts.append(f"first token after {_figure(one['ttft_s'], 's')}")
    parts += [words(one["w"], "W", 2)] if one["w"] else []
    laid_out = f"run as {format_count(one['replicas'], 'replica')} of {each} ({one['layout']})"
    return f"{laid_out}: {', '.join(parts)}" if parts else laid_out


def _figure(value: Any, unit: str) -> str:
    """A median as its interval deserves; without one, with two digits."""
    return figure_words(value, unit) if isinstance(value, Mapping) else words(value, unit, 2)


def inverse(value: Any) -> Any:
    """The rate of a time per item, with its interval.

    Examples
    --------
    >>> inverse(0.5), inverse({"p05": 0.1, "p50": 0.2, "p95": 0.5, "unit": "s"})["p05"]
    (2.0, 2.0)
    """
    if not isinstance(value, Mapping):
        return 1 / value
    ends = (("p05", "p95"), ("p10", "p90"), ("p50", "p50"), ("p90", "p10"), ("p95", "p05"))
    return {name: 1 / value[of] for name, of in ends if of in value}


def counted(one: Offered) -> str:
    """An offer with its GPUs, where its name does not say how many."""
    label, n = str(one["label"]), one["gpus"]
    return label if not n or label.startswith(f"{n}\u00a0") else f"{format_count(n, 'GPU')} of {label}"


def _article(chance: float) -> str:
    return "an" if chance_words(chance).startswith(("8", "11 ", "18 ")) else "a"


def _order(known: Sequence[Offered]) -> list[str]:
    """How surely the first is the cheapest, or what its cost stands on; that it hardly keeps what is asked."""
    first, after = cheapest(known), next((one for one in known if one["rank"] == 2), None)
    chance = first["kept_probability"]
    odds = [] if after is None else [_odds(first["cheaper_than_next_probability"], after["label"])]
    hardly = kept_words(first, "It" if odds else first["label"]) if chance is not None and chance < EVEN else []
    return [*(odds or _priced_as(first)), *hardly]


def _no_more(best: Offered) -> list[str]:
    """That more GPUs do not keep what is asked with a chance of 90 %, where a chance is known."""
    chance = best["kept_probability"]
    if chance is None or chance >= CLEAR:
        return []
    return ["More GPUs do not make it 90 %: loosen a limit, or take other systems."]


def _tie(known: Sequence[Offered]) -> list[str]:
    """Which offer may be cheaper than the one to take, and how much less sure it is; or what is no worse."""
    first, chosen, others = cheapest(known), known[0], as_likely(known)
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
    return f"It is {'clearly' if chance >= CLEAR else 'likely'} cheaper than {other} ({chance_words(chance)})."


def _own(one: Offered) -> str:
    return f"An API's speed is not known; of the systems {one['label']} is the cheapest ({one['cost']} {PER_REQUESTS})."


def chance_words(chance: float | None) -> str:
    """A chance in percent, none said as certain.

    Examples
    --------
    >>> [chance_words(one) for one in (None, 0.0, 1e-6, 0.43, 1.0)]
    ['–', '< 1 %', '< 1 %', '43 %', '> 99 %']
    """
    if chance is None:
        return NONE
    if not 0.01 <= chance <= _SURE:
        return "> 99 %" if chance > _SURE else "< 1 %"
    return f"{100 * chance:.0f} %"
