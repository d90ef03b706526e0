"""The view of what fits where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Table, View
from computeledger.interfaces.views.grounds import assumed_words
from computeledger.questions.answer import Answer
from computeledger.questions.wording import words
from computeledger.units import format_count

_COLUMNS = ("format", "system", "GPUs #", "layout", "weights #", "cache #", "rest #", "of #", "largest batch #",
            "longest context #")  # fmt: skip


def view(answer: Answer, working: bool) -> View:
    """Rows of formats and systems; the launch command of the first that fits."""
    document = answer.to_dict(working=working)
    fits = [one for one in document["fits"] if one["fits"]]
    load = f"{format_count(document['batch'], 'sequence')} of {words(document['context_tokens'], '')} tokens"
    best = min(fits, key=lambda one: (one["n_gpus"], one["memory_bytes"]["capacity"]), default=None)
    return View(
        title=f"{document['model']}: what fits where",
        asked=(f"{load} per replica", f"cache in {document['kv_precision']}"),
        headline=_headline(best),
        notes=tuple(_too_large(one) for one in document["fits"] if not one["fits"]),
        tables=(
            Table(
                "Memory of the busiest GPU: weights, KV cache, activations and workspace of its HBM",
                _COLUMNS,
                [_row(one) for one in fits],
                "memory_bytes",
            ),
            *([_parts(best)] if best else []),
            *([Table("Start it", ("command",), [[line] for line in best["launch"].splitlines()])] if best else []),
        ),
        grounds=tuple(assumed_words(document)),
        overline="memory",
    )


def _headline(best: Mapping[str, Any] | None) -> str:
    if best is None:
        return "It fits in none of them."
    n, name = best["n_gpus"], best["precision"]
    return f"Fewest: {format_count(n, 'GPU')} of {best['system']} in {name}, {best['layout']}."


def _parts(one: Mapping[str, Any]) -> Table:
    """What is exact and what is fitted, of one format on one system."""
    held = one["memory_bytes"]
    rest = held["activations"] + held["workspace"]
    spread = words(1.645 * held["rest_sd"], "B")
    fitted = f"fitted to start-up logs: 90 % within {spread}" if held["rest_sd"] else "an estimate, fitted to no log"
    rows = [
        ["weights", words(held["weights"], "B"), "exact from shapes and formats"],
        ["KV cache", words(held["kv_cache"], "B"), "exact"],
        ["activations, libraries, graphs", words(rest, "B"), fitted],
        ["room for the cache", words(held["cache_capacity"], "B"), f"{one['cache_tokens']:,} tokens"],
    ]
    title = f"{one['precision']} on {one['system']}, {one['n_gpus']} x: what is exact and what is fitted"
    return Table(title, ("part", "bytes #", "how it is known"), rows, "memory_bytes")


def _too_large(one: Mapping[str, Any]) -> str:
    held, capacity = (words(one["memory_bytes"][name], "B") for name in ("total", "capacity"))
    return f"{one['precision']} on {one['system']}: {held} a GPU of {capacity} on {one['n_gpus']}: it does not fit"


def _row(one: Mapping[str, Any]) -> list[str]:
    held = one["memory_bytes"]
    rest = held["activations"] + held["workspace"]
    parts = [words(one, "B") for one in (held["weights"], held["kv_cache"], rest, held["capacity"])]
    most = [f"{one['largest_batch']:,}", words(one["longest_context_tokens"], "")]
    return [one["precision"], one["system"], str(one["n_gpus"]), one["layout"], *parts, *most]
