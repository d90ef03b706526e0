"""The part of a serving view on traffic and context: who fills a replica, and where its cache outweighs compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Table
from computeledger.questions.wording import figure_words, percent, words


def traffic_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line on the traffic that fills the answer, one on the context from which the cache is the dearer part.

    None under a promise, whose load is stated and whose tables follow.
    """
    if "traffic" not in document:
        return []
    unit = "these pools once" if "pools" in document else "one replica"
    return [
        (f"Traffic that fills {unit}", _traffic(document["traffic"])),
        ("Cache against compute", _crossover(document["cache_against_compute"])),
    ]


def _traffic(one: Mapping[str, Any]) -> str:
    rate = figure_words(one["requests_per_s"], "requests/s")
    usage = one.get("usage")
    whose = "" if usage is None else f" like {usage['name']}"
    asks = f"{words(one['requests_per_user_per_day'], '', 2)} a day each{whose}"
    users = figure_words(one["users"], "")
    return f"{rate}: what {users} users ask at {asks}"


def _crossover(one: Mapping[str, Any]) -> str:
    """From which context on reading the cache is the longer part, and where copies on several GPUs decide that.

    Examples
    --------
    >>> _crossover({"context_tokens": 894.0, "of_one_copy_context_tokens": None}).replace(chr(160), " ")
    'beyond 894 tokens of context a token waits longer for its cache than for its arithmetic; without copies: never'
    """
    here, single = one["context_tokens"], one["of_one_copy_context_tokens"]
    if here is None:
        return "at no context does a token wait longer for its cache than for its arithmetic"
    said = f"beyond {words(here, 'tokens')} of context a token waits longer for its cache than for its arithmetic"
    if here == single:
        return said
    alone = "never" if single is None else f"beyond {words(single, 'tokens')}"
    return f"{said}; without copies: {alone}"


def design_table(document: Mapping[str, Any]) -> list[Table]:
    """Layers that may keep a cache for a wanted context, by what they keep and its bits; none where none was asked."""
    one = document.get("cache_design")
    if one is None:
        return []
    most = one["n_layers"]
    rows = [[row["entry"], *("all" if n == most else f"{n:,}" for n in row["n_layers"].values())]
            for row in one["entries"]]  # fmt: skip
    context = words(one["context_tokens"], "tokens")
    title = f"A cache for {context} at this price and speed: layers that may keep one, of {most}"
    shares = {"read": one["own_read_fraction"], "held": one["own_held_fraction"]}
    said = [f"{percent(share)} of it could be {how}" for how, share in shares.items() if share is not None]
    own = f"The model's own is {words(one['own_bytes_per_token'], 'B')} a token, copies included; at that context "
    note = (
        f"Room for {words(one['bytes_per_token'], 'B')} a token over the replica's GPUs of a rank, bound by "
        f"{one['bound']}. {own}{' and '.join(said)} (sparse attention reads less and holds all). Assumed: "
        f"{one['assumed']}."
    )
    columns = ("a layer keeps", *(f"{bits} bits #" for bits in one["entries"][0]["n_layers"]))
    return [Table(title, columns, rows, note=note)]
