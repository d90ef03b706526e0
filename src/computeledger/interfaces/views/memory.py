"""The view of what fits where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.plots.memory import memory_figure
from computeledger.interfaces.view import Plot, Table, Tile, View
from computeledger.interfaces.views.evidence import memory_evidence
from computeledger.interfaces.views.grounds import assumed_words
from computeledger.interfaces.views.images import images_facts
from computeledger.interfaces.working import working_view
from computeledger.questions.answer import Answer
from computeledger.questions.wording import headline_words, short_model, words
from computeledger.units import GIB, format_count

_COLUMNS = ("format", "system", "GPUs #", "layout", "weights #", "cache #", "rest #", "of #", "max batch #",
            "max context #")  # fmt: skip
_NOTE = "Rest: activations and workspace; the largest batch at this context, and the longest context at this batch."
_DROPS = ("max context", "max batch", "rest")
_LACKING = ("format", "system", "GPUs tried #", "needed on each #", "of #")


def view(answer: Answer, working: bool) -> View:
    """Rows of formats and systems that fit and that do not; the launch command of the smallest that does."""
    document = answer.to_dict(working=working)
    load = f"{format_count(document['batch'], 'sequence')} of {words(document['context_tokens'], '')} tokens"
    fits, lacking = ([one for one in document["fits"] if one["fits"] is held] for held in (True, False))
    best = min(fits, key=_size, default=None)
    started = min((one for one in fits if one["launch"]), key=_size, default=None)
    held = "Memory of the busiest GPU: weights, KV cache, activations and workspace"
    return View(
        title=f"{document['model']}: what fits where",
        asked=(f"{load} per replica", f"cache in {document['kv_precision']}"),
        headline=_headline(document, best),
        context=_startable(best, started),
        tiles=_tiles(best) if best else (),
        tile_heading="",
        plots=(_plot(best),) if best else (),
        tables=(
            *(
                [Table(held, _COLUMNS, [_row(one) for one in fits], "memory_bytes", _NOTE, drops=_DROPS)]
                if fits
                else []
            ),
            *([_parts(best)] if best else []),
            *([Table("Does not fit", _LACKING, [_lacking(one) for one in lacking], "memory_bytes")] if lacking else []),
        ),
        facts=tuple(images_facts(document)),
        grounds=tuple(assumed_words(document)),
        notes=(*_seen(best), *_unstarted(best)),
        blocks=((f"Start it {_where(started)}", started["launch"]),) if started else (),
        working=tuple(working_view(document)) if working else (),
        overline="memory",
        evidence=memory_evidence(document),
    )


def _size(one: Mapping[str, Any]) -> tuple[float, float, bool]:
    """Fewest GPUs, of those the smallest, of those one that can be started."""
    return one["n_gpus"], one["memory_bytes"]["capacity"], not one["launch"]


def _unstarted(best: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Why the fewest GPUs come without a launch command."""
    if best is None or not best["launch_problem"]:
        return ()
    return (f"no launch command for {best['precision']} with {best['engine']}: {best['launch_problem']}",)


def _where(one: Mapping[str, Any]) -> str:
    return f"in {one['precision']} on {format_count(one['n_gpus'], 'GPU')} of {one['system']}"


def _headline(document: Mapping[str, Any], best: Mapping[str, Any] | None) -> str:
    """The fewest GPUs that hold it; bytes are counted, and have no interval."""
    name = short_model(document["model"])
    if best is None:
        return headline_words(name, "fits none of them")
    held = best["memory_bytes"]
    room = f"filling {words(held['total'], 'B')} of the {words(held['capacity'], 'B')} of each"
    load = f"with {format_count(document['batch'], 'sequence')} of {words(document['context_tokens'], '')} tokens"
    return headline_words(f"{name} {load}", f"fits {_where(best)} ({best['layout']}), {room}")


def _startable(best: Mapping[str, Any] | None, started: Mapping[str, Any] | None) -> str:
    """What may help where nothing fits, or the fewest GPUs on which an engine can be started."""
    if best is None:
        return "A narrower format, more GPUs, a shorter context or a smaller batch may fit."
    return f"Fewest that can be started: {_where(started)}." if started is not None and started is not best else ""


def _seen(best: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The memory of a GPU also in the unit that tools report, which counts by 1,024."""
    if best is None:
        return ()
    capacity = best["memory_bytes"]["capacity"]
    return (f"an engine sees {words(capacity, 'B')} ({capacity / GIB:.1f} GiB) of each GPU",)


def _tiles(best: Mapping[str, Any]) -> tuple[Tile, ...]:
    held = best["memory_bytes"]
    said = (
        ("GPUs", str(best["n_gpus"]), "n_gpus"),
        ("Filled of one GPU", f"{words(held['total'], 'B')} of {words(held['capacity'], 'B')}", "memory_bytes"),
        ("Largest batch", f"{best['largest_batch']:,}", "largest_batch"),
        ("Longest context", f"{words(best['longest_context_tokens'], '')} tokens", "longest_context_tokens"),
    )
    return tuple(Tile(label, text, key=key) for label, text, key in said)


def _plot(best: Mapping[str, Any]) -> Plot:
    caption = f"{best['precision']} on {format_count(best['n_gpus'], 'GPU')} of {best['system']}, {best['layout']}."
    return Plot("memory", "Memory of the busiest GPU", caption, memory_figure(best["memory_bytes"]), "memory_bytes")


def _lacking(one: Mapping[str, Any]) -> list[str]:
    needed, capacity = (words(one["memory_bytes"][name], "B") for name in ("total", "capacity"))
    return [one["precision"], one["system"], str(one["n_gpus"]), needed, capacity]


def _parts(one: Mapping[str, Any]) -> Table:
    """What is exact and what is fitted, of one format on one system."""
    held = one["memory_bytes"]
    rest = held["activations"] + held["workspace"]
    spread = words(1.645 * held["rest_sd"], "B")
    fitted = (
        f"fitted to start-up logs: nine in ten within {spread}" if held["rest_sd"] else "an estimate, fitted to no log"
    )
    rows = [
        ["weights", words(held["weights"], "B"), "exact from shapes and formats"],
        ["KV cache", words(held["kv_cache"], "B"), "exact"],
        ["activations, libraries, graphs", words(rest, "B"), fitted],
        ["room for the cache", words(held["cache_capacity"], "B"), f"{one['cache_tokens']:,} tokens"],
    ]
    title = f"{one['precision']} on {one['system']}, {one['n_gpus']:,} x: what is exact and what is fitted"
    return Table(title, ("part", "bytes #", "how it is known"), rows, "memory_bytes")


def _row(one: Mapping[str, Any]) -> list[str]:
    held = one["memory_bytes"]
    rest = held["activations"] + held["workspace"]
    parts = [words(size, "B") for size in (held["weights"], held["kv_cache"], rest, held["capacity"])]
    most = [f"{one['largest_batch']:,}", words(one["longest_context_tokens"], "")]
    return [one["precision"], one["system"], str(one["n_gpus"]), one["layout"], *parts, *most]
