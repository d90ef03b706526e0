"""To which side the nearest measurements were off, and what that makes of an answer's speed, time and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.views.display_names import engine_name
from computeledger.questions.answers.accuracy import errors_by_workload
from computeledger.questions.wording import percent, words
from computeledger.validation.accuracy.nearest import of_engine, shape_of, to_one_side

Document = Mapping[str, Any]
#: What follows a share.
_PERCENT = "\u00a0%"


def likely_words(near: Sequence[Document], engine: str) -> str:
    """To which side a speed is likely off, where the nearest of its engine all were; else nothing.

    Examples
    --------
    >>> one = {"engine": "vllm", "quantity": "tpot", "unit": "s", "p50": 0.02}
    >>> likely_words([one | {"measured": 0.025}, one | {"measured": 0.022}], "vllm").replace(chr(160), " ")
    'Likely 9.1 to 20 % slower than shown'
    """
    found = to_one_side(of_engine(near, engine))
    return f"Likely {_from_to(found[0])} {'slower' if found[1] else 'faster'} than shown" if found else ""


def expected_speed(document: Document, alike: Document) -> str:
    """What speed and cost to expect where the nearest measurements of the engine were all off to one side."""
    own = of_engine(alike["nearest"], document["backend"])
    found = to_one_side(own)
    if found is None:
        return ""
    off, is_slower = found
    more, cost = ("fewer", "dearer") if is_slower else ("more", "cheaper")
    tokens = f", so {cost} tokens{_cost_words(alike)}" if document.get("usd_per_mtok_output") is not None else ""
    of = _of_models(document["model"], [one["model"] for one in own])
    return f"Expect {_from_to(off)} {more} tokens/s than shown{tokens}, as in the nearest {len(own)} measurements{of}"


def _cost_words(alike: Document) -> str:
    """What a million output tokens would cost at the speeds that are to be expected."""
    ends = alike.get("likely_usd_per_mtok_output")
    if ends is None:
        return ""
    low, high = (words(ends[end], "USD", 2) for end in ("low", "high"))
    return f" (about {low})" if low == high else f" (about {low} to {high})"


def _of_models(model: str, measured: Sequence[str]) -> str:
    """How many of the measured models are others than one's own; models of one shape count as one.

    Examples
    --------
    >>> v3, r1, other = "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-8B"
    >>> _of_models(v3, [r1, other, other]), _of_models(v3, [other, other]), _of_models(v3, [v3, r1])
    (' (2 of them of other models)', ' (of other models)', '')
    """
    others = sum(shape_of(one) != shape_of(model) for one in measured)
    if not others:
        return ""
    return " (of other models)" if others == len(measured) else f" ({others} of them of other models)"


def side_of_engine(document: Document, alike: Document) -> str:
    """Why the predicted speed is likely off to one side."""
    own = of_engine(alike["nearest"], document["backend"])
    found = to_one_side(own)
    if found is None:
        return ""
    side, every = "slower" if found[1] else "faster", errors_by_workload()["serving"]
    return (
        f"The nearest {len(own)} measured with {engine_name(own[0]['engine'])}, below, were all {side} than predicted. "
        "They do not correct the answer: sources are off by how each runs its engine, some up, some down, and over "
        f"all {every.n:,} figures the median prediction is {1 + every.bias:.2f} times the measured one."
    )


def expected_words(near: Sequence[Document], engine: str) -> str:
    """By how much a run is likely off to one side, where the nearest of its engine all were; else nothing.

    Examples
    --------
    >>> one = {"engine": "nemo", "quantity": "step_s", "unit": "s", "p50": 2.0}
    >>> said = expected_words([one | {"measured": 2.5}, one | {"measured": 2.2}], "nemo")
    >>> said.replace(chr(160), " ")
    'Expect it 10 to 25 % longer and dearer than predicted, as the nearest 2 measured with NeMo were'
    >>> expected_words([one | {"measured": 2.5}], "nemo")
    ''
    """
    own = of_engine(near, engine)
    found = to_one_side(own)
    if not found:
        return ""
    off, is_slower = found
    off = [1 / (1 - one) - 1 if is_slower else 1 - 1 / (1 + one) for one in off]
    said = "longer and dearer" if is_slower else "shorter and cheaper"
    measured = f"as the nearest {len(own)} measured with {engine_name(engine)} were"
    return f"Expect it {_from_to(off)} {said} than predicted, {measured}"


def _from_to(off: Sequence[float]) -> str:
    """Two shares as a range."""
    low, high = (percent(one, 2) for one in (min(off), max(off)))
    return high if low == high else f"{low.removesuffix(_PERCENT)} to {high}"


def side_words(document: Document, alike: Document) -> str:
    """To which side the nearest runs were off where they are of other frameworks than this one.

    Examples
    --------
    >>> near = [{"engine": "nemo", "quantity": "step_s", "unit": "s", "p50": 2.0, "measured": one} for one in (2.2, 3)]
    >>> side_words({}, {"nearest": near}).replace(chr(160), " ")
    'The nearest 2 measured took 10 to 50 % longer than predicted; '
    """
    found, framework = to_one_side(alike["nearest"]), (document.get("framework") or {}).get("id", "")
    if found is None or any(one["engine"] == framework for one in alike["nearest"]):
        return ""
    off, is_slower = found
    times = [1 / (1 - one) - 1 if is_slower else 1 - 1 / (1 + one) for one in off]
    took = f"{_from_to(times)} {'longer' if is_slower else 'shorter'}"
    return f"The nearest {len(off)} measured took {took} than predicted; "
