"""Policies of a route in sentences: what to use, what it completes, what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import words

#: A share of wrong deliveries up to which a headline does not warn.
_RARE = 0.0005


def route_words(document: Mapping[str, Any]) -> tuple[str, str]:
    """The answer of a route in one sentence, and what that policy must complete.

    Examples
    --------
    >>> best = {"policy": "large", "usd_per_completed_task": 0.541, "success_fraction": 0.74,
    ...         "wrong_fraction": 0.26}
    >>> document = {"best": best, "least_success_fraction": 0.7, "least_success_is": "stated"}
    >>> route_words(document)[0].replace(chr(160), " ")
    'Use the large model alone: 74 % completed, 26 % delivered wrong, $0.54 per completed task'
    >>> route_words(document)[1].replace(chr(160), " ")
    'The cheapest that completes at least 70 %, as stated.'
    """
    best = document["best"]
    floor = words(document["least_success_fraction"], "fraction", 2)
    whose = "as stated" if document["least_success_is"] == "stated" else "as the best single model does"
    done, failed = (words(best[name], "fraction", 2) for name in ("success_fraction", "wrong_fraction"))
    wrong = f", {failed} delivered wrong" if best["wrong_fraction"] > _RARE else ""
    cost = f"{words(best['usd_per_completed_task'], 'USD', 2)} per completed task"
    answer = f"Use {policy_in_full(best['policy'], has_person(document))}: {done} completed{wrong}, {cost}"
    return answer, f"The cheapest that completes at least {floor}, {whose}."


#: The policy without a model.
PERSON = "the person alone"


def has_person(document: Mapping[str, Any]) -> bool:
    """Whether a person takes over what no model finished."""
    return any(row["policy"] == PERSON for row in document.get("options", ()))


def policy_in_short(policy: str, is_person: bool) -> str:
    """A policy as charts and tables have room for it, with the person who does what fails every check.

    Examples
    --------
    >>> named = ("large x3 checked -> small x4 checked", "best of 3 small", "large", PERSON)
    >>> [policy_in_short(one, is_person=True).replace("\u00d7", "x") for one in named]
    ['large x3, small x4, person', 'best of 3 small, person', 'large alone', 'the person alone']
    """
    if not _IS_CHECKED.search(policy):
        return policy_said(policy)
    said = re.sub(r" x(\d+) checked", " \u00d7\\1", policy).replace(" -> ", ", ")
    return f"{said}, person" if is_person else said


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
    'the large model up to 3 times, then the small model once'
    >>> policy_in_full("large x1 checked", is_person=True)
    'the large model once, then a person'
    """
    parts = policy_said(policy).split(", then ")
    after = ["a person"] if is_person and _IS_CHECKED.search(policy) else []
    return ", then ".join(
        [re.sub(r"^([a-z]+)(?= up to| once| alone|$)", r"the \1 model", one) for one in parts] + after
    )
