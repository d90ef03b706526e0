"""Policies of a route in sentences: what to use, what it completes, what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.questions.wording import figure_words, listed, point, words

#: A share of wrong deliveries up to which a headline does not warn.
_RARE = 0.0005
#: A chance from which a policy is the cheapest beyond doubt, and a share of tasks that leaves no failures to price.
_SURE = 0.95
#: A chance up to which a difference of cost is noise, and one from which it is none at all.
_LIKELY, _CERTAIN = 0.8, 0.995


def route_words(document: Mapping[str, Any]) -> tuple[str, str]:
    """The answer of a route in one sentence, and what that policy must complete.

    Examples
    --------
    >>> best = {"policy": "large", "usd_per_completed_task": 0.541, "success_fraction": 0.74,
    ...         "wrong_fraction": 0.26}
    >>> document = {"best": best, "least_success_fraction": 0.7, "least_success_is": "stated"}
    >>> route_words(document)[0].replace(chr(160), " ")
    'Use the large model alone: 74 % completed, 26 % delivered wrong, $0.54 each'
    >>> route_words(document)[1].replace(chr(160), " ")
    'The cheapest that completes at least 70 %, as stated.'
    """
    best = document["best"]
    done, failed = _completed(best), words(best["wrong_fraction"], "fraction", 2)
    is_told = has_person(document) and bool(_IS_CHECKED.search(best["policy"]))  # what is not completed is wrong
    wrong = f", {failed} delivered wrong" if best["wrong_fraction"] > _RARE and not is_told else ""
    cost = f"{words(best['usd_per_completed_task'], 'USD', 2)} each"
    answer = f"Use {policy_in_full(best['policy'], has_person(document))}: {done} completed{wrong}, {cost}"
    return answer, " ".join(filter(None, (_why(document), _alternative(document))))


def _why(document: Mapping[str, Any]) -> str:
    """By what the answer is the cheapest: what a failed task costs, or the share that must be completed."""
    best, failing = document["best"], document.get("failure_usd")
    floor = words(document["least_success_fraction"], "fraction", 2)
    whose = "as stated" if document["least_success_is"] == "stated" else "as the best single model does"
    if failing and document.get("cheapest_without_a_floor", best)["policy"] == best["policy"]:
        return f"The cheapest where a task not completed costs {words(failing, 'USD', 2)}, which is counted in."
    said = "; a failure costs nothing here" if failing == 0 and best["success_fraction"] < _SURE else ""
    said = f"; {words(failing, 'USD', 2)} for each failure is counted in" if failing else said
    return f"The cheapest that completes at least {floor}, {whose}{said}."


def _completed(row: Mapping[str, Any]) -> str:
    """The share that a policy completes, with the digits that its interval deserves where it has one."""
    share, ends = row["success_fraction"], row.get("interval", {}).get("success_fraction")
    if ends is None:
        return words(share, "fraction", 2)
    return figure_words({"p05": point(ends, "p05"), "p50": share, "p95": point(ends, "p95")}, "fraction")


def _alternative(document: Mapping[str, Any]) -> str:
    r"""What the next cheapest policy costs and completes, and the chance that it costs more.

    It is the cheapest one of other models where that may well be cheaper than the answer; of the same models it is
    the runner-up.

    Examples
    --------
    >>> best = {"policy": "a x2 checked -> b x2 checked", "success_fraction": 0.95}
    >>> near = {"policy": "a x2 checked -> b x1 checked", "success_fraction": 0.96}
    >>> near |= {"usd_per_completed_task": 8.9, "chance_dearer_fraction": 0.97}
    >>> found = {"best": best, "options": [best, near], "runner_up": near}
    >>> print(_alternative(found).replace(chr(160), " "))
    97 % likely cheaper than the next ($8.90, 96 % completed).
    >>> found["alternative"] = {"policy": "c", "usd_per_completed_task": 9.0, "chance_dearer_fraction": 0.6}
    >>> _alternative(found).replace(chr(160), " ")
    'Within noise of c alone ($9): cheaper with a chance of 60 %.'
    >>> found["alternative"] |= {"policy": "best of 2 b checked -> a x1 checked"}
    >>> _alternative(found).replace(chr(160), " ")[:35]
    '97 % likely cheaper than the next ('
    """
    other, near = document.get("alternative"), document.get("runner_up")
    if near is None or (other is not None and _is_likely_rival(other, document)):
        near = other
    if near is None:
        return ""
    done = next((_completed(row) for row in document.get("options", ()) if row["policy"] == near["policy"]), "")
    usd = words(near["usd_per_completed_task"], "USD", 2)
    costs, sure = f"{usd}, {done} completed" if done else usd, near["chance_dearer_fraction"]
    chance = words(sure, "fraction", 2)
    if sure > _CERTAIN:
        return f"Surely cheaper than the next ({usd})."
    if sure > _LIKELY:
        return f"{chance} likely cheaper than the next ({costs})."
    return f"Within noise of {_beside(near['policy'], document)} ({costs}): cheaper with a chance of {chance}."


def _is_likely_rival(other: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether a policy asks other models than the answer, and may well be cheaper."""
    is_other = _asked(other["policy"]) != _asked(document["best"]["policy"])
    return is_other and bool(other["chance_dearer_fraction"] <= _LIKELY)


def _asked(policy: str) -> set[str]:
    """The models that a policy asks.

    Examples
    --------
    >>> sorted(_asked("best of 2 a checked -> b x3 checked"))
    ['a', 'b']
    """
    return set(_in_order(policy))


def next_words(document: Mapping[str, Any]) -> str:
    """Which policy is the next, and why their order is surer than their ranges look; empty where it is not sure."""
    near = document.get("runner_up")
    if near is None or not _LIKELY < near["chance_dearer_fraction"] <= _CERTAIN:
        return ""
    shared = "models and tasks" if _asked(document["best"]["policy"]) == _asked(near["policy"]) else "tasks"
    cost = words(near["usd_per_completed_task"], "USD", 2)
    return f"{_beside(near['policy'], document)}, {cost}; both costs rise and fall with the same {shared}"


def other_order(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The cheapest policy that asks the models of the answer in the other order; none where it asks one model."""
    order = _in_order(document["best"]["policy"])[::-1]
    turned = [row for row in document.get("options", ()) if order[1:] and _in_order(row["policy"]) == order]
    return min(turned, key=lambda row: float(row["usd_per_completed_task"]), default=None)


def order_words(document: Mapping[str, Any]) -> str:
    r"""Why the model of the dearer try goes first: what the other order costs, and by what; empty where none does.

    Examples
    --------
    >>> def row(policy, usd, tries, failing, wait=0.1):
    ...     return {"policy": policy, "usd_per_completed_task": usd, "attempts_usd_per_task": tries,
    ...             "failure_usd_per_task": failing, "waiting_usd_per_task": wait}
    >>> best = row("a x2 checked -> b x2 checked", 8.7, 5.2, 2.7)
    >>> turned = row("b x1 checked -> a x2 checked", 9.2, 5.0, 3.5, 0.3)
    >>> singles = [row("a", 1.0, 0.74, 0.0) | {"single": True}, row("b", 1.0, 0.04, 0.0) | {"single": True}]
    >>> order_words({"best": best, "options": [best, turned, *singles]}).replace(chr(160), " ")
    'a first, though a try costs $0.74, not $0.04: the other order costs $9.20, with more for failures and waiting.'
    >>> order_words({"best": best, "options": [best, *singles]})
    ''
    """
    best, turned = document["best"], other_order(document)
    prices = {row["policy"]: row["attempts_usd_per_task"] for row in document.get("options", ()) if row.get("single")}
    order = _in_order(best["policy"])
    if turned is None or prices.get(order[0], 0.0) <= prices.get(order[-1], math.inf):
        return ""
    first, other = (words(prices[one], "USD", 2) for one in (order[0], order[-1]))
    cost = words(turned["usd_per_completed_task"], "USD", 2)
    more = listed([said for said, _ in _dearer_parts(turned, best)])
    said = re.sub(r"^[a-z]{2,}$", r"The \g<0> model", order[0])
    return f"{said} first, though a try costs {first}, not {other}: the other order costs {cost}, with more for {more}."


def order_parts_words(document: Mapping[str, Any]) -> str:
    """What a task costs more in the other order, by part; empty where that needs no reason."""
    turned, best = other_order(document), document["best"]
    if turned is None or not order_words(document):
        return ""
    parts = listed([f"{words(usd, 'USD', 2)} for {said}" for said, usd in _dearer_parts(turned, best)])
    return f"{policy_in_short(turned['policy'], has_person(document))}; a task costs {parts} more"


def _dearer_parts(turned: Mapping[str, Any], best: Mapping[str, Any]) -> list[tuple[str, float]]:
    """What the other order pays more for, the most first, with how much [USD per task]; a small rest is left out."""
    more = {said: float(turned[name] - best[name]) for name, said in _MADE_OF.items()}
    paid = sorted(((said, usd) for said, usd in more.items() if usd > 0), key=lambda one: -one[1])
    return [one for one in paid if one[1] >= _SMALL * sum(usd for _, usd in paid)]


#: What a task's cost is made of, and a share of what is dearer that no sentence tells.
_MADE_OF = {"failure_usd_per_task": "failures", "waiting_usd_per_task": "waiting",
            "attempts_usd_per_task": "tries"}  # fmt: skip
_SMALL = 0.1


def _in_order(policy: str) -> list[str]:
    """The models of a policy in the order in which it asks them."""
    return [re.sub(r"^best of \d+ | checked$", "", one) for one in chain(policy).split(" -> ")]


def _beside(policy: str, document: Mapping[str, Any]) -> str:
    """A policy beside the answer: by the one model that it asks more or less often, where that is all."""
    best = document["best"]["policy"]
    steps = list(zip(policy.split(" -> "), best.split(" -> "), strict=False))
    other = [one for one, its in steps if one != its]
    if chain(policy) == chain(best) and steps[1:] and len(other) == 1:
        return f"the same with {policy_said(other[0])}"
    return policy_in_short(policy, has_person(document))


#: The policy without a model.
PERSON = "the person alone"


def has_person(document: Mapping[str, Any]) -> bool:
    """Whether a person takes over what no model finished."""
    return any(row["policy"] == PERSON for row in document.get("options", ()))


def policy_in_short(policy: str, is_person: bool) -> str:
    """A policy as charts and tables have room for it, with the person who does what fails every check.

    Examples
    --------
    >>> policy_in_short("large x3 checked -> small x4 checked", is_person=True)
    'large up to 3 times, small up to 4, then a person'
    >>> [policy_in_short(one, is_person=True) for one in ("best of 3 small", "large x1 checked", "large", PERSON)]
    ['best of 3 small, then a person', 'large once, then a person', 'large alone', 'the person alone']
    """
    return policies_in_short((policy,), is_person)


def policies_in_short(policies: Sequence[str], is_person: bool) -> str:
    """Policies that ask the same models in the same order, as one: how often each is asked, at least and at most.

    Examples
    --------
    >>> same = ("large x3 checked -> small x4 checked", "large x2 checked -> small x1 checked")
    >>> policies_in_short(same, is_person=False), policies_in_short(same[:1], is_person=False)
    ('large 2 or 3 times, then small 1 to 4', 'large up to 3 times, then small up to 4')
    """
    if not _IS_CHECKED.search(policies[0]):
        return policy_said(policies[0])
    said, is_times = [], False
    for tries in zip(*(one.split(" -> ") for one in policies), strict=True):
        counts = [_TRIES.search(one) for one in tries]
        numbers = sorted({int(one[1]) for one in counts if one is not None})
        often = _often(numbers, is_times)
        is_times = is_times or "times" in often
        said.append(f"{_TRIES.sub('', tries[0])}{often}")
    steps = [*said, "a person"] if is_person else said
    return ", then ".join([", ".join(steps[:-1]), steps[-1]] if steps[1:] else steps)


def _often(numbers: Sequence[int], is_told: bool) -> str:
    """How often a model is asked; a second one's times are not called so again."""
    if not numbers:
        return ""
    least, most = numbers[0], numbers[-1]
    if most == 1:
        return " once"
    among = f"{least} or {most}" if most == least + 1 else f"{least} to {most}"
    return f" {f'up to {most}' if least == most else among}{'' if is_told else ' times'}"


def chain(policy: str) -> str:
    """The models of a policy in order, without how often each is asked; policies of one chain differ in tries alone.

    Examples
    --------
    >>> chain("large x3 checked -> small x4 checked"), chain("large")
    ('large checked -> small checked', 'large')
    """
    return re.sub(r" x\d+ checked", " checked", policy)


_TRIES = re.compile(r" x(\d+) checked")
_IS_CHECKED = re.compile(r" x\d|->|best of")


def policy_said(policy: str) -> str:
    """A policy of a document in a sentence.

    Examples
    --------
    >>> [policy_said(one).replace(chr(160), " ") for one in ("small x2 checked -> large", "best of 3 small", "large")]
    ['small up to 2 times, then large', 'best of 3 small', 'large alone']
    """
    if not re.search(r" x\d|->|best of|alone$", policy):
        return f"{policy} alone"
    said = re.sub(r" x(\d+) checked", " up to \\1 times", policy).replace(" up to 1 times", " once")
    return said.replace(" -> ", ", then ")


def policy_in_full(policy: str, is_person: bool = False) -> str:
    """A policy in a sentence, where a model goes by one plain word, such as *large*, and with the person after it.

    Examples
    --------
    >>> policy_in_full("large"), policy_in_full("gpt-5"), policy_in_full("the person alone")
    ('the large model alone', 'gpt-5 alone', 'the person alone')
    >>> policy_in_full("large x3 checked -> small x1 checked")
    'the large model (up to 3 tries), then the small model (1)'
    >>> policy_in_full("A x2 checked -> B x2 checked", is_person=True), policy_in_full("A x1 checked", is_person=True)
    ('A (up to 2 tries), B (2), then a person', 'A (1 try), then a person')
    """
    steps, is_told = [], False
    for one in policy.split(" -> "):
        tries = _TRIES.search(one)
        name = re.sub(r"^[a-z]+$", r"the \g<0> model", _TRIES.sub("", one))
        often = f" ({_tries(int(tries[1]), is_told)})" if tries else ""
        is_told = is_told or tries is not None
        steps.append(f"{name}{often}")
    if len(steps) == 1 and not _IS_CHECKED.search(policy):
        return steps[0] if policy.endswith(" alone") else f"{steps[0]} alone"
    steps += ["a person"] if is_person and _IS_CHECKED.search(policy) else []
    return ", then ".join([", ".join(steps[:-1]), steps[-1]] if steps[1:] else steps)


def _tries(count: int, is_told: bool) -> str:
    """How many tries at most; of a later model the number alone."""
    if is_told:
        return f"{count}"
    return f"up to {count} tries" if count > 1 else "1 try"
