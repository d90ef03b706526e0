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
    answer = f"Use {policy_in_full(best['policy'])}: {done} completed{wrong}, {cost}"
    return answer, f"The cheapest that completes at least {floor}, {whose}."


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


def policy_in_full(policy: str) -> str:
    """A policy in a sentence, where a model goes by one plain word, such as *large*.

    Examples
    --------
    >>> policy_in_full("large"), policy_in_full("gpt-5"), policy_in_full("the person alone")
    ('the large model alone', 'gpt-5 alone', 'the person alone')
    >>> policy_in_full("large x3 checked -> small x1 checked")
    'the large model up to 3 times, then the small model once'
    """
    parts = policy_said(policy).split(", then ")
    return ", then ".join(re.sub(r"^([a-z]+)(?= up to| once| alone|$)", r"the \1 model", one) for one in parts)
