"""The part of a serving view that speculation adds: what drafts, what it gains, and until when it pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Table
from computeledger.questions.wording import percent, words
from computeledger.units import format_count, format_times

_METHODS = {
    "mtp": "the model's own module",
    "eagle": "an EAGLE head",
    "eagle3": "an EAGLE-3 head",
    "ngram": "n-grams of the text",
}


def speculation_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line each on what is drafted and on until when it pays."""
    if "speculation" not in document:
        return []
    one = document["speculation"]
    who = _METHODS.get(one["method"], str(one["drafter"]))
    drafts, best = one["draft_tokens"], one["best_draft_tokens"]
    chosen = "searched" if one["is_searched"] else f"stated; {best:g} would be best here"
    gain, tokens = one["speedup_ratio"], one["tokens_per_step"]
    if not drafts:
        said = f"{who}: no draft pays at this load"
    else:
        said = (
            f"{who} drafts {drafts:g} tokens a step ({chosen}); {_interval(tokens)} tokens come of it, its own "
            f"included; {_interval(gain)} times as fast per token as without"
        )
    return [("Speculation", said), ("Drafting pays", f"{_until(one)}; {_known(one)}")]


def _interval(value: Mapping[str, float] | float) -> str:
    """A ratio with its 90 % interval."""
    if not isinstance(value, Mapping):
        return f"{value:.2f}"
    return f"{value['p50']:.2f} ({value['p05']:.2f} to {value['p95']:.2f})"


def _until(one: Mapping[str, Any]) -> str:
    stops, most = one["stops_paying"], one["by_batch"][-1]
    if stops is None:
        gain = format_times(most["speedup_ratio"])
        return f"at every batch that fits, {gain} as fast at {most['batch']:,.0f}"
    if stops["batch"] <= 1:
        return "at no batch"
    rate = words(stops["requests_per_s_per_replica"], "requests/s")
    return f"up to batches below {stops['batch']:,.0f} (a replica finishes {rate} there)"


def _known(one: Mapping[str, Any]) -> str:
    known, first = one["acceptance"], one["first_draft_accepted_fraction"]
    chance = percent(first["p50"] if isinstance(first, Mapping) else first)
    if known["origin"] == "given":
        return f"the first draft is accepted in {chance} of steps, as your tokens per step say"
    whose = "this model" if known["is_own_model"] else "other models"
    curves = format_count(known["n_curves"], "published curve")
    return f"the first draft is accepted in {chance} of steps: {curves} of {whose}"


def speculation_table(document: Mapping[str, Any]) -> Table:
    """The best length of the draft by batch."""
    rows = [
        [f"{one['batch']:,.0f}", f"{one['draft_tokens']:g}", f"{one['speedup_ratio']:.2f}",
         words(one["requests_per_s"], "requests/s")]
        for one in document["speculation"]["by_batch"]
    ]  # fmt: skip
    columns = ("batch #", "drafts #", "speed-up #", "requests per replica #")
    return Table("Best draft by batch on this layout, at the medians", columns, rows, "speedup_ratio")
