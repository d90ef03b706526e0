"""The view of what fits where."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots.memory import kept_free, memory_rows_figure
from computeledger.interfaces.view import Cell, Evidence, Plot, Table, Tile, View
from computeledger.interfaces.views.capacity import capacity_words
from computeledger.interfaces.views.display_names import engine_name, format_words
from computeledger.interfaces.views.evidence import memory_evidence
from computeledger.interfaces.views.grounds import assumed_words
from computeledger.interfaces.views.images import images_facts
from computeledger.interfaces.working import working_view
from computeledger.questions.answers.serving.memory import MemoryAnswer
from computeledger.questions.wording import headline_words, listed, model_words, short_model, words
from computeledger.units import format_count

_COLUMNS = ("format", "filled #", "largest batch #", "longest context #")
_PARTS = ("format", "on", "with", "weights #", "cache #", "rest #", "layout")
_NOTE = (
    "Of several GPUs the fullest; \u00b1 holds nine of ten start-up logs, of engines that have them. The largest batch "
    "is at this context, the longest context at this batch, rounded down where memory sets it; all: the "
    "model's limit. Of as many GPUs of one size, one with a launch command comes first."
)
_DROPS = ("layout", "with", "rest")
_LACKING = ("format", "on", "too much by #", "needed on each #", "of #", "what fits there")


def view(answer: MemoryAnswer, working: bool) -> View:
    """Rows of formats and systems that fit and that do not; the launch command of the smallest that does."""
    document = answer.to_dict(working=working)
    load = _load(document)
    fits, lacking = ([one for one in document["fits"] if one["fits"] is held] for held in (True, False))
    best = next((row for row, one in zip(document["fits"], answer.fits, strict=True) if one is answer.best), None)
    started = min((one for one in fits if one["launch"]), key=_size, default=None)
    nearest = min(lacking, key=_lack, default=None)
    shown = best or nearest
    chips = {one.system: one.chip.short_name or one.chip.name for one in answer.fits}
    chip = next((one.chip for one in answer.fits if shown and one.system == shown["system"]), None)
    limit = answer.model.max_context_tokens
    return View(
        title=f"{model_words(document['model'])}: what fits where",
        asked=(f"{load} per replica", f"cache in {document['kv_precision']}"),
        headline=_headline(document, best, nearest, chips),
        context=_context(document, (best, started, nearest), _seen(chip) if best is None else ""),
        tiles=_tiles(best, document, limit, chip) if best else (),
        tile_heading="",
        plots=(_plot(document["fits"], chips),) if shown else (),
        tables=(
            *((_filled(fits, chips, document["batch"], limit), _parts_of_all(fits, chips)) if fits else ()),
            *([_parts(best, chips, chip)] if best and chip else []),
            *(
                [
                    Table(
                        "Does not fit",
                        _LACKING,
                        [_lacking(one, fits, chips) for one in lacking],
                        "memory_bytes",
                        "Tried: powers of two, and all GPUs that are counted where heads and layers divide over them.",
                        is_detail=bool(fits),
                    )
                ]
                if lacking
                else []
            ),
        ),
        facts=tuple(images_facts(document)),
        grounds=tuple(assumed_words(document)),
        notes=_unstarted(best),
        blocks=((f"Start it {_where(started)}", started["launch"]),) if started else (),
        working=_working(document, best, limit) if working else (),
        overline="memory",
        evidence=_evidence(document, best),
    )


def _working(document: Mapping[str, Any], best: Mapping[str, Any] | None, limit: float) -> tuple[dict[str, Any], ...]:
    """How the figures come about; the longest context reads as on its card."""
    said = {} if best is None else {"longest_context_tokens": f"{_longest(best, document['batch'], limit)}\u00a0tokens"}
    return tuple({**one, "text": said.get(one["name"], one["text"])} for one in working_view(document))


def _context(document: Mapping[str, Any], rows: tuple[Mapping[str, Any] | None, ...], seen: str) -> str:
    """With which load it fits; where nothing does, what a GPU holds beside what it is sold as, and what would help.

    ``rows`` are the fewest GPUs that hold it, the fewest that can be started, and what lacks least.
    """
    best, started, nearest = rows
    load = f"{_free(best)} with {_load(document)}{_doubt(best)}." if best else f"Counted for {_load(document)}."
    return " ".join(text for text in (load, _startable(best, started, nearest), "" if best else seen) if text)


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
    return (f"no launch command for {format_words(best['precision'])} with {best['engine']}: {best['launch_problem']}",)


def _where(one: Mapping[str, Any]) -> str:
    return f"in {format_words(one['precision'])} on {format_count(one['n_gpus'], 'GPU')} of {one['system']}"


def _load(document: Mapping[str, Any]) -> str:
    """Sequences and their length, counted exactly: 8,192 tokens are not 8K."""
    return f"{format_count(document['batch'], 'sequence')} of {document['context_tokens']:,.0f} tokens"


def _headline(
    document: Mapping[str, Any],
    best: Mapping[str, Any] | None,
    nearest: Mapping[str, Any] | None,
    chips: Mapping[str, str],
) -> str:
    """Whether it fits, and on what; bytes are counted, and have no interval."""
    subject = short_model(document["model"])
    if best is not None:
        each = " on each" if best["n_gpus"] > 1 else ""
        fits = "fits" if _is_sure(best["memory_bytes"]) else "just fits"
        where = f"{_on(best, chips)} in {format_words(best['precision'])} with {engine_name(best['engine'])}"
        filled = f"{words(best['memory_bytes']['total'], 'B')} of {words(best['memory_bytes']['capacity'], 'B')}"
        return headline_words(subject, f"{fits} {where}, {filled}{each}")
    if nearest is None:
        return headline_words(subject, "does not fit")
    needed, there = (words(nearest["memory_bytes"][name], "B") for name in ("total", "capacity"))
    lacks = f"each GPU lacks {_left(nearest)} ({needed} needed, {there} there)"
    return headline_words(
        subject, f"does not fit; nearest {_on(nearest, chips)} in {format_words(nearest['precision'])}, where {lacks}"
    )


def _uncertain(held: Mapping[str, Any]) -> float:
    """How much more it may take: what logs leave open, or all that is estimated where none were fitted."""
    fitted = _NINE_IN_TEN * held["rest_sd"]
    return float(fitted or held["activations"] + held["workspace"])


def _is_sure(held: Mapping[str, Any]) -> bool:
    """Whether more is free than it may take."""
    return bool(held["capacity"] - held["total"] > _uncertain(held))


def _free(one: Mapping[str, Any]) -> str:
    """What is free of each GPU."""
    held = one["memory_bytes"]
    return f"{words(held['capacity'] - held['total'], 'B', 2)} {'of each ' if one['n_gpus'] > 1 else ''}stay free"


def _doubt(one: Mapping[str, Any]) -> str:
    """How much of the total is not exact, where that is more than what is free."""
    held = one["memory_bytes"]
    if _is_sure(held):
        return ""
    said = "the total is known to within {} in nine of ten cases" if held["rest_sd"] else "all but {} of it is exact"
    return f"; {said.format(words(_uncertain(held), 'B', 2))}"


#: Standard deviations that hold nine in ten.
_NINE_IN_TEN = 1.645


def _on(one: Mapping[str, Any], chips: Mapping[str, str]) -> str:
    """On how many of which GPU."""
    return f"on {one['n_gpus']} {chips[one['system']]}"


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


def _seen(chip: Accelerator | None) -> str:
    """What an engine sees of a GPU beside what the GPU is sold as, as a sentence."""
    said = "" if chip is None else capacity_words(chip)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _evidence(document: Mapping[str, Any], best: Mapping[str, Any] | None) -> Evidence:
    """What engines reported of weights, and how the rest of this answer is known, which that does not vouch for."""
    found = memory_evidence(document)
    if best is None or "measured_alike" not in document:
        return found
    held, engine = best["memory_bytes"], engine_name(best["engine"])
    rest = words(held["activations"] + held["workspace"], "B")
    known = (
        f"Total within {words(_NINE_IN_TEN * held['rest_sd'], 'B', 2)} in nine of ten start-up logs"
        if held["rest_sd"]
        else f"All is counted but {rest}, an estimate without logs of {engine}"
    )
    near = sorted({engine_name(one["engine"]) for one in document["measured_alike"]["nearest"] if one["engine"]})
    others = "" if not near or engine in near else f" The nearest are of {listed(near)}, none of {engine}."
    said = f"{known}; {found.text[:1].lower()}{found.text[1:]}{others}"
    return replace(found, text=said)


def _limited(one: Mapping[str, Any], limit: float) -> str:
    """What ends the context: the model, or the memory."""
    return "the model's limit" if one["longest_context_tokens"] >= limit > 0 else "set by memory"


def _longest(one: Mapping[str, Any], batch: int, limit: float) -> str:
    """The longest context: as the model has it, or rounded down to what the estimate of memory deserves.

    Examples
    --------
    >>> held = {"rest_sd": 0.0, "activations": 4e8, "workspace": 2e8, "cache_capacity": 4e10}
    >>> one = {"memory_bytes": held, "cache_tokens": 125_000, "longest_context_tokens": 127_803}
    >>> _longest(one, 1, 131_072), _longest(one, 1, 127_803)
    ('127,000', '127,803')
    """
    tokens = one["longest_context_tokens"]
    return f"{tokens:,}" if tokens >= limit > 0 else _at_least(tokens, one, batch)


def _at_least(tokens: int, one: Mapping[str, Any], batch: int = 1) -> str:
    """Tokens of each sequence that the memory left by an estimate holds, rounded down to what that deserves."""
    held = one["memory_bytes"]
    if held["cache_capacity"] <= 0:
        return f"{tokens:,}"
    unsure = _uncertain(held) / held["cache_capacity"] * one["cache_tokens"] / batch
    step = 10 ** math.floor(math.log10(max(unsure, 1.0)))
    return f"{tokens // step * step or tokens:,}"


def _known(held: Mapping[str, Any]) -> str:
    """How far a total is known: the range of what start-up logs leave open, or what is an estimate."""
    if not held["rest_sd"]:
        return f"{words(held['activations'] + held['workspace'], 'B')} of it estimated"
    return f"{_spread(held)} in nine of ten"


def _spread(held: Mapping[str, Any]) -> str:
    """How far nine in ten start-up logs lie from a total; nothing where none were fitted."""
    return f"\u00b1{words(_NINE_IN_TEN * held['rest_sd'], 'B', 2)}" if held["rest_sd"] else ""


def _sold(held: Mapping[str, Any], chip: Accelerator | None) -> str:
    """Of how much, and what a chip is sold as that holds more: its makers say GB and mean GiB."""
    said = f"of {words(held['capacity'], 'B')}"
    if chip is None or chip.usable_hbm_bytes is None or chip.usable_bytes <= chip.hbm_bytes.value:
        return said
    return f"{said} (sold as {chip.hbm_bytes.given})"


def _tiles(
    best: Mapping[str, Any], document: Mapping[str, Any], limit: float, chip: Accelerator | None
) -> tuple[Tile, ...]:
    held = best["memory_bytes"]
    tokens, batch = f"{document['context_tokens']:,.0f} tokens", format_count(document["batch"], "sequence")
    said = (
        ("GPUs", str(best["n_gpus"]), "fewest that hold it", "n_gpus"),
        ("Filled on each GPU", words(held["total"], "B"), f"{_sold(held, chip)}; {_known(held)}", "memory_bytes"),
        ("Largest batch", f"{best['largest_batch']:,}", f"of {tokens} each", "largest_batch"),
        ("Longest context", f"{_longest(best, document['batch'], limit)} tokens",
         f"with {batch}, {_limited(best, limit)}", "longest_context_tokens"),
    )  # fmt: skip
    return tuple(Tile(label, text, band, key=key) for label, text, band, key in said)


#: Bars of the plot: what fits, on the fewest GPUs first, then what lacks least.
_MOST_BARS = 10


def _plot(found: Sequence[Mapping[str, Any]], chips: Mapping[str, str]) -> Plot:
    """A bar for each way to hold the model."""
    shown = sorted(found, key=lambda one: (not one["fits"], *(_size(one) if one["fits"] else (_lack(one),))))[
        :_MOST_BARS
    ]
    rows = [(f"{_place(one, chips)} · {format_words(one['precision'])}", one["memory_bytes"]) for one in shown]
    caption = "A frame is the memory of one GPU; of several GPUs the fullest is drawn."
    if any(kept_free(held) for _, held in rows):
        caption += " Its dark end: what the engine keeps free."
    title = "Memory filled on each GPU"
    return Plot("memory", title, caption, memory_rows_figure(rows), "memory_bytes", is_wide=True)


def _lacking(one: Mapping[str, Any], fits: Sequence[Mapping[str, Any]], chips: Mapping[str, str]) -> list[str]:
    """How much is missing, and what fits there instead."""
    needed, capacity = (words(one["memory_bytes"][name], "B") for name in ("total", "capacity"))
    there = min((other for other in fits if other["system"] == one["system"]), key=_size, default=None)
    instead = (
        "nothing that was tried" if there is None else f"{format_words(there['precision'])} on {there['n_gpus']:,}"
    )
    return [format_words(one["precision"]), _place(one, chips), _left(one), needed, capacity, instead]


def _place(one: Mapping[str, Any], chips: Mapping[str, str]) -> str:
    """GPUs by their name, or by their system where several have the same."""
    several = list(chips.values()).count(chips[one["system"]]) > 1
    return f"{one['n_gpus']} of {one['system']}" if several else f"{one['n_gpus']} {chips[one['system']]}"


def _parts(one: Mapping[str, Any], chips: Mapping[str, str], chip: Accelerator) -> Table:
    """What is exact and what is fitted, of one format on one system."""
    held = one["memory_bytes"]
    rest = held["activations"] + held["workspace"]
    spread = words(_NINE_IN_TEN * held["rest_sd"], "B")
    fitted = (
        f"fitted to start-up logs: nine in ten within {spread}" if held["rest_sd"] else "an estimate, fitted to no log"
    )
    rows = [
        ["weights", words(held["weights"], "B"), "exact from shapes and formats"],
        ["KV cache", words(held["kv_cache"], "B"), "exact"],
        ["activations, libraries, graphs", words(rest, "B"), fitted],
        ["free", _left(one), f"of {words(held['capacity'], 'B')}: {capacity_words(chip)}"],
        [
            "most that the cache may fill",
            words(held["cache_capacity"], "B"),
            f"{_at_least(one['cache_tokens'], one)} tokens",
        ],
    ]
    title = f"How sure each part is: {format_words(one['precision'])} {_on(one, chips)}"
    return Table(title, ("part", "bytes #", "how it is known"), rows, "memory_bytes", is_detail=True)


def _filled(fits: Sequence[Mapping[str, Any]], chips: Mapping[str, str], batch: int, limit: float) -> Table:
    """How full each way to hold the model is, and how much more it holds: few columns, to be compared on a phone."""
    rows: list[list[str | Cell]] = []
    for one in sorted(fits, key=_size):
        total, capacity = (words(one["memory_bytes"][name], "B") for name in ("total", "capacity"))
        number, _, unit = total.partition("\u00a0")
        filled = f"{number if capacity.endswith(unit) else total} of {capacity}"
        most = f"{'all ' if one['longest_context_tokens'] >= limit > 0 else ''}{_longest(one, batch, limit)}"
        where = f"{_place(one, chips)}, {engine_name(one['engine'])}"
        of_total = Cell(filled, below=_spread(one["memory_bytes"]))
        rows.append([Cell(format_words(one["precision"]), below=where), of_total, f"{one['largest_batch']:,}", most])
    return Table("What fits, the fewest GPUs first", _COLUMNS, rows, "memory_bytes", _NOTE)


def _parts_of_all(fits: Sequence[Mapping[str, Any]], chips: Mapping[str, str]) -> Table:
    """What fills a GPU, by format and system."""
    rows = []
    for one in sorted(fits, key=_size):
        held = one["memory_bytes"]
        sizes = (held["weights"], held["kv_cache"], held["activations"] + held["workspace"])
        named = (format_words(one["precision"]), _place(one, chips), engine_name(one["engine"]))
        rows.append([*named, *(words(size, "B") for size in sizes), one["layout"]])
    note = "rest: activations and workspace"
    title = "What fills it: weights, KV cache, activations and workspace"
    return Table(title, _PARTS, rows, "memory_bytes", note, is_detail=True, drops=_DROPS)
