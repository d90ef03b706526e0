"""The view of what fits where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots.memory import memory_figure
from computeledger.interfaces.view import Plot, Table, Tile, View
from computeledger.interfaces.views.evidence import memory_evidence
from computeledger.interfaces.views.grounds import assumed_words
from computeledger.interfaces.views.images import images_facts
from computeledger.interfaces.working import working_view
from computeledger.questions.answers.serving.memory import MemoryAnswer
from computeledger.questions.wording import headline_words, short_model, words
from computeledger.units import GIB, format_count

_COLUMNS = ("format", "system", "GPUs #", "layout", "weights #", "cache #", "rest #", "of #", "max batch #",
            "max context #")  # fmt: skip
_NOTE = "Rest: activations and workspace; the largest batch at this context, and the longest context at this batch."
_DROPS = ("max context", "max batch", "rest")
_LACKING = ("format", "system", "GPUs tried #", "needed on each #", "of #", "too much by #", "what fits there")


def view(answer: MemoryAnswer, working: bool) -> View:
    """Rows of formats and systems that fit and that do not; the launch command of the smallest that does."""
    document = answer.to_dict(working=working)
    load = f"{format_count(document['batch'], 'sequence')} of {words(document['context_tokens'], '')} tokens"
    fits, lacking = ([one for one in document["fits"] if one["fits"] is held] for held in (True, False))
    best = min(fits, key=_size, default=None)
    started = min((one for one in fits if one["launch"]), key=_size, default=None)
    nearest = min(lacking, key=_lack, default=None)
    shown = best or nearest
    chips = {one.system: one.chip for one in answer.fits}
    held = "Memory of the busiest GPU: weights, KV cache, activations and workspace"
    return View(
        title=f"{document['model']}: what fits where",
        asked=(f"{load} per replica", f"cache in {document['kv_precision']}"),
        headline=_headline(document, best, nearest),
        context=_startable(best, started, nearest),
        tiles=_tiles(best) if best else (),
        tile_heading="",
        plots=(_plot(shown),) if shown else (),
        tables=(
            *(
                [Table(held, _COLUMNS, [_row(one) for one in fits], "memory_bytes", _NOTE, drops=_DROPS)]
                if fits
                else []
            ),
            *([_parts(best)] if best else []),
            *(
                [Table("Does not fit", _LACKING, [_lacking(one, fits) for one in lacking], "memory_bytes")]
                if lacking
                else []
            ),
        ),
        facts=(*(_seen(chips[shown["system"]]) if shown else ()), *images_facts(document)),
        grounds=tuple(assumed_words(document)),
        notes=_unstarted(best),
        blocks=((f"Start it {_where(started)}", started["launch"]),) if started else (),
        working=tuple(working_view(document)) if working else (),
        overline="memory",
        evidence=memory_evidence(document),
    )


def _size(one: Mapping[str, Any]) -> tuple[float, float, bool]:
    """Fewest GPUs, of those the smallest, of those one that can be started."""
    return one["n_gpus"], one["memory_bytes"]["capacity"], not one["launch"]


def _lack(one: Mapping[str, Any]) -> float:
    """How much more is needed than there is."""
    return float(one["memory_bytes"]["total"] / one["memory_bytes"]["capacity"])


def _unstarted(best: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Why the fewest GPUs come without a launch command."""
    if best is None or not best["launch_problem"]:
        return ()
    return (f"no launch command for {best['precision']} with {best['engine']}: {best['launch_problem']}",)


def _where(one: Mapping[str, Any]) -> str:
    return f"in {one['precision']} on {format_count(one['n_gpus'], 'GPU')} of {one['system']}"


def _headline(document: Mapping[str, Any], best: Mapping[str, Any] | None, nearest: Mapping[str, Any] | None) -> str:
    """Whether it fits, on what, and how much is left or lacking; bytes are counted, and have no interval."""
    load = f"with {format_count(document['batch'], 'sequence')} of {words(document['context_tokens'], '')} tokens"
    subject = f"{short_model(document['model'])} {load}"
    if best is not None:
        each = " on each" if best["n_gpus"] > 1 else ""
        room = f"{_left(best)} of {words(best['memory_bytes']['capacity'], 'B')} to spare{each}"
        return headline_words(subject, f"fits {_where(best)} ({best['layout']}), {room}")
    if nearest is None:
        return headline_words(subject, "does not fit")
    needed, there = (words(nearest["memory_bytes"][name], "B") for name in ("total", "capacity"))
    lacks = f"each GPU lacks {_left(nearest)} ({needed} needed, {there} there)"
    return headline_words(subject, f"does not fit; nearest {_where(nearest)}, where {lacks}")


def _left(one: Mapping[str, Any]) -> str:
    """What is free of each GPU, or lacking."""
    held = one["memory_bytes"]
    return words(abs(held["capacity"] - held["total"]), "B")


def _startable(
    best: Mapping[str, Any] | None, started: Mapping[str, Any] | None, nearest: Mapping[str, Any] | None
) -> str:
    """What would make it fit where nothing does, or the fewest GPUs on which an engine can be started."""
    if best is not None:
        return f"Fewest that can be started: {_where(started)}." if started is not None and started is not best else ""
    if nearest is None or _without_cache(nearest) > nearest["memory_bytes"]["capacity"]:
        return "Weights and workspace alone are more than a GPU holds: it takes more GPUs or a narrower format."
    return "It would fit without the KV cache: a shorter context, fewer sequences or a narrower cache make room."


def _without_cache(one: Mapping[str, Any]) -> float:
    """What fills a GPU beside its cache."""
    return float(one["memory_bytes"]["total"] - one["memory_bytes"]["kv_cache"])


def _seen(chip: Accelerator) -> tuple[tuple[str, str], ...]:
    """What an engine sees of a GPU, in the unit that tools report too, beside what the GPU is sold as."""
    seen = f"an engine sees {words(chip.usable_bytes, 'B')}, which is {chip.usable_bytes / GIB:.1f} GiB"
    sold = f"sold as {chip.hbm_bytes.given}; " if chip.usable_hbm_bytes is not None else ""
    return ((f"Memory of one {chip.short_name or chip.name}", f"{sold}{seen}"),)


def _tiles(best: Mapping[str, Any]) -> tuple[Tile, ...]:
    held = best["memory_bytes"]
    said = (
        ("GPUs", str(best["n_gpus"]), "n_gpus"),
        ("Filled of each GPU", f"{words(held['total'], 'B')} of {words(held['capacity'], 'B')}", "memory_bytes"),
        ("Largest batch", f"{best['largest_batch']:,}", "largest_batch"),
        ("Longest context", f"{words(best['longest_context_tokens'], '')} tokens", "longest_context_tokens"),
    )
    return tuple(Tile(label, text, key=key) for label, text, key in said)


def _plot(best: Mapping[str, Any]) -> Plot:
    over = "" if best["fits"] else f" {_left(best)} too much: what lies right of the line does not fit."
    caption = (
        f"{best['precision']} on {format_count(best['n_gpus'], 'GPU')} of {best['system']}, {best['layout']}.{over}"
    )
    return Plot("memory", "Memory of the busiest GPU", caption, memory_figure(best["memory_bytes"]), "memory_bytes")


def _lacking(one: Mapping[str, Any], fits: Sequence[Mapping[str, Any]]) -> list[str]:
    """How much is missing, and what fits there instead."""
    needed, capacity = (words(one["memory_bytes"][name], "B") for name in ("total", "capacity"))
    there = min((other for other in fits if other["system"] == one["system"]), key=_size, default=None)
    instead = "nothing that was tried" if there is None else f"{there['precision']} on {there['n_gpus']:,}"
    return [one["precision"], one["system"], str(one["n_gpus"]), needed, capacity, _left(one), instead]


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
        ["free", _left(one), f"of {words(held['capacity'], 'B')}"],
        ["most that the cache may fill", words(held["cache_capacity"], "B"), f"{one['cache_tokens']:,} tokens"],
    ]
    title = f"{one['precision']} on {one['system']}, {one['n_gpus']:,} x: what is exact and what is fitted"
    return Table(title, ("part", "bytes #", "how it is known"), rows, "memory_bytes")


def _row(one: Mapping[str, Any]) -> list[str]:
    held = one["memory_bytes"]
    rest = held["activations"] + held["workspace"]
    parts = [words(size, "B") for size in (held["weights"], held["kv_cache"], rest, held["capacity"])]
    most = [f"{one['largest_batch']:,}", words(one["longest_context_tokens"], "")]
    return [one["precision"], one["system"], str(one["n_gpus"]), one["layout"], *parts, *most]
