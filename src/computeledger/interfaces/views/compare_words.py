"""Sentences on offers: which one to take, how surely it keeps what is asked, and what makes that surer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.view import Card, Tile, ends_said, usd_alike
from computeledger.questions.wording import figure_words, headline_words, interval_words, listed, short_model, words
from computeledger.units import format_count

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
    """What readers call the offer of a name, with as many GPUs as keep what is asked."""
    return next((sized_sure(one) for one in known if one["name"] == name), name)


def choice(known: Sequence[Offered]) -> Offered:
    """The offer to take, as it stands among the others: with the fewest GPUs."""
    return next(one for one in known if one["is_recommended"])


def taken(known: Sequence[Offered], recommended: Offered) -> Offered:
    """The offer to take with as many GPUs as are recommended of it, and what they cost."""
    chosen = choice(known)
    found = {**chosen, **{name: value for name, value in recommended.items() if name != "offer"}}
    (cost,) = usd_alike([ends(found)])
    return {**found, "label": sized(chosen, found["gpus"]), "cost": cost}


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
    if chance is None or chance >= CLEAR:
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
    return f"{'no' if chance < 1 - _SURE else f'{_article(chance)} {chance_words(chance)}'} chance to {_to_keep(one)}"


def headline(known: Sequence[Offered], best: Offered, n_refused: int) -> str:
    """The model, the offer to take with its cost, and how surely it keeps what is asked.

    None is called the cheapest where another is about as likely, and none keeps what is asked with 90 %.
    """
    n = len(known) + n_refused
    of, chance = format_count(n, "offer"), best["kept_probability"]
    cost, surely = f"{paid(best)} {per(best)}", sure_words(best)
    if chance is not None and chance >= CLEAR and n > 1:
        said = f"{cost}, the cheapest of {of} that {keep(best)} in nine of ten cases"
    else:
        rank = f"the cheapest of {of}" if n > 1 else "the only offer"
        said = ", ".join([*([] if as_likely(known) else [rank]), f"{surely} for {cost}" if surely else cost])
    subject = f"{_model(best['model'])} " if best["model"] else ""
    where = f"{'from' if best['kind'] == 'api' else 'on'} " if subject else ""
    own = f" ({format_count(best['gpus'], 'GPU')})" if best["gpus"] and best["label"] == best["name"] else ""
    return headline_words(f"{subject}{where}{best['label']}{own}", said, paid_ends(best), "USD")


def keep(one: Offered) -> str:
    """The same of more than one offer."""
    return keeps(one).replace("keeps", "keep", 1).replace("carries", "carry", 1)


def sized(one: Offered, gpus: int | None) -> str:
    """An offer with so many GPUs of it."""
    label, own = str(one["label"]), f"{one['gpus']}\u00a0"
    if gpus is None or gpus == one["gpus"]:
        return label
    if label.startswith(own):
        return f"{gpus}\u00a0{label.removeprefix(own)}"
    return f"{format_count(gpus, 'GPU')} of {label}"


def sure_usd(one: Offered) -> float | None:
    """What an offer costs where it keeps what is asked with 90 %, as it is compared; None where it does not."""
    chance, found = one["kept_probability"], one["at_90_percent"]
    if chance is None:
        return None
    if chance >= CLEAR:
        return REQUESTS * float(one["usd_per_request"]) if one["usd_per_month"] is None else float(one["usd_per_month"])
    return float(found["usd_per_month"]) if found else None


def in_order(known: Sequence[Offered]) -> list[Offered]:
    """Offers as a reader chooses: the recommended one, those that keep what is asked by their cost, then the others."""
    sure = {one["name"]: sure_usd(one) for one in known}
    return sorted(known, key=lambda one: (not one["is_recommended"], sure[one["name"]] is None,
                                          sure[one["name"]] or 0.0, one["rank"]))  # fmt: skip


def sure_chance(one: Offered) -> str:
    """With what chance the GPUs of 90 % keep what is asked; a simulated promise states no more than the 90 %."""
    chance = one["kept_probability"]
    return chance_words(chance if chance >= CLEAR else one["at_90_percent"]["kept_probability"])


def sure_month(one: Offered) -> str:
    """What the GPUs cost that keep what is asked with 90 %: so many GPUs, so many dollars."""
    usd = sure_usd(one)
    return NONE if usd is None else words(usd, "USD", one["digits"])


def _next_best(known: Sequence[Offered]) -> Offered | None:
    """The offer that keeps what is asked with 90 % for the least after the recommended one; None where none does."""
    chosen, *others = in_order(known)
    return next((one for one in others if sure_usd(one) is not None), None) if sure_usd(chosen) is not None else None


def sized_sure(one: Offered) -> str:
    """An offer with as many GPUs as keep what is asked with 90 %."""
    found, chance = one["at_90_percent"], one["kept_probability"]
    return sized(one, found["gpus"] if found and chance is not None and chance < CLEAR else one["gpus"])


def tiles(known: Sequence[Offered], best: Offered) -> tuple[Tile, ...]:
    """What to take, what comes next, what costs less, each with its chance; and the cost of requests."""
    first, after = known[0], _next_best(known)
    out = [_tile(f"Recommended: {best['label']}" if len(known) > 1 else str(best["label"]), best)]
    if after is not None:
        cost = f"{sure_month(after)}\u00a0{per(after)}"
        out.append(Tile(f"Next: {sized_sure(after)}", cost, f"{sure_chance(after)} chance to {_to_keep(after)}"))
    if _is_gamble(first, best):
        out.append(_tile(f"Cheaper: {counted(first)}", first))
    if best["usd_per_month"] is not None:
        out.append(Tile("Per thousand requests", str(best["cost"]), interval_words(ends(best), "USD")))
    return tuple(out)


def _is_gamble(first: Offered, best: Offered) -> bool:
    """Whether the cheapest at the medians costs less than what to take."""
    return first["label"] != best["label"] and paid(first) != paid(best)


def _tile(label: str, one: Offered) -> Tile:
    chance = one["kept_probability"]
    band = (
        interval_words(paid_ends(one), "USD") if chance is None else f"{chance_words(chance)} chance to {_to_keep(one)}"
    )
    return Tile(label, f"{paid(one)}\u00a0{per(one)}", band)


def card(best: Offered) -> Card:
    """The offer to take, what it costs, and how surely it keeps what is asked."""
    surely = sure_words(best)
    said = f"{paid(best)} {per(best)}" + (f", {surely}" if surely else "")
    band = ends_said(paid_ends(best), "USD")
    return Card(best["label"], said, band and f"{band} {per(best)}")


def context(known: Sequence[Offered], best: Offered, n_refused: int, workload: str) -> str:
    """How sure the choice is, what comes next, what costs less and keeps less; and what was compared."""
    first, is_sure = known[0], sure_usd(choice(known)) is not None
    parts = (
        _of_sure(known, best) if is_sure else [*_no_more(best), *(_tie(known) if as_likely(known) else _order(known))]
    )
    if first["kind"] == "api":
        own = next((one for one in known if one["kind"] != "api"), None)
        parts += [_own(own)] if own else []
    n = len(known) + n_refused
    offers = format_count(n, "offer").replace(" ", "\u00a0") if n > 1 else ""
    served = ", ".join(part for part in (offers, workload) if part)
    return " ".join([*parts, *([f"Compared: {served}."] if n > 1 else [f"Asked: {served}."] if served else [])])


def _of_sure(known: Sequence[Offered], best: Offered) -> list[str]:
    """The chance of the recommended fleet within which limits, the next, and the cheapest at the medians."""
    first, after = known[0], _next_best(known)
    gamble = _is_gamble(first, best) and first["kept_probability"] is not None
    less = f"; {counted(first)} at {paid(first)}, with {chance_words(first['kept_probability'])}" if gamble else ""
    limits = limits_words(best).removeprefix("the limits of ").removeprefix("the limit of ")
    out = [f"It {f'keeps {limits}' if limits else keeps(best)} with {chance_words(best['kept_probability'])}{less}."]
    return [*out, *([f"Next: {sized_sure(after)} at {sure_month(after)} {per(after)}."] if after is not None else [])]


def counted(one: Offered) -> str:
    """An offer with its GPUs, where its name does not say how many."""
    label, n = str(one["label"]), one["gpus"]
    return label if not n or label.startswith(f"{n}\u00a0") else f"{format_count(n, 'GPU')} of {label}"


def _article(chance: float) -> str:
    return "an" if chance_words(chance).startswith(("8", "11 ", "18 ")) else "a"


def _order(known: Sequence[Offered]) -> list[str]:
    """How surely the first is the cheapest, or what its cost stands on; that it hardly keeps what is asked."""
    first = known[0]
    chance = first["kept_probability"]
    odds = [_odds(first["cheaper_than_next_probability"], known[1]["label"])] if len(known) > 1 else []
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
    return f"It is {'clearly' if chance >= CLEAR else 'likely'} cheaper than {other} ({chance_words(chance)})."


def _own(one: Offered) -> str:
    return f"An API's speed is not known; of the systems {one['label']} is the cheapest ({one['cost']} {PER_REQUESTS})."


def chance_words(chance: float | None) -> str:
    """A chance in percent, none said as certain."""
    if chance is None:
        return NONE
    return (
        f"{100 * min(max(chance, 0.01), 0.99):.0f} %" if 0.01 <= chance <= 0.99 else ("> 99 %" if chance else "< 1 %")
    )
