"""Views of what is known: how many facts of which kinds, the records of a kind, and accelerators as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from computeledger.facts.load import accelerator_ids, load_accelerator
from computeledger.facts.reading import ASSUMPTION
from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots.chips import chips_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.questions.answers.facts import FoundFact, Known, KnownKind
from computeledger.questions.answers.facts_search import KINDS
from computeledger.questions.fact_names import fact_words, given_words
from computeledger.questions.wording import headline_words
from computeledger.units import GIGA, TERA, format_count

#: Kinds that stand above the plot, at most; facts that a record's row names.
_TILES, _NAMED = 4, 3
_WORDS = {kind: plural for plural, kind in KINDS.items()}
_WHAT = {
    "accelerator": "memory, compute, power, rent",
    "model": "parameters, training tokens, cost",
    "site": "power, chips and capital",
    "node": "GPUs of a server, links, power",
    "system": "GPUs on one fast network",
    "reliability": "how often long runs stopped",
    "edition": "prices at a date",
}


def address(query: str) -> str:
    """Of a search."""
    return f"/facts?{urlencode({'words': query})}"


def known_view(known: Known) -> View:
    """Without a word to look for: what there is, with a way to each kind."""
    some = sorted(known.kinds, key=lambda one: -one.n_records)
    rows: list[list[str | Cell]] = [
        [Cell(_title(one.kind), address(_WORDS[one.kind]), _WHAT[one.kind]), f"{one.n_records:,}",
         f"{one.n_facts - one.n_assumptions:,}", f"{one.n_assumptions:,}", f"{one.n_sources:,}"]
        for one in some
    ]  # fmt: skip
    columns = ("kind", "records #", "facts #", "assumptions #", "sources #")
    return View(
        headline_words("Look a figure up and see who says so", f"{known.n_published:,} published facts on chips, "
                       f"models, sites and prices, each with its source"),
        f"{known.n_sources:,} sources, {known.oldest[:4]} to {known.newest[:4]}; {known.n_assumptions:,} more figures "
        "are this project's assumptions, and marked so. Type a word, or open a kind.",
        tiles=tuple(_tile(one) for one in some[:_TILES]),
        tile_heading="records",
        plots=(chips_plot(),),
        tables=(Table("All kinds", columns, rows, is_detail=True),),
        overline="facts search",
    )  # fmt: skip


def _title(kind: str) -> str:
    """A kind as a heading."""
    return _WORDS[kind].capitalize()


def _tile(one: KnownKind) -> Tile:
    assumed = f", {format_count(one.n_assumptions, 'assumption')}" if one.n_assumptions else ""
    return Tile(_title(one.kind), f"{one.n_records:,}", f"{one.n_facts - one.n_assumptions:,} facts{assumed}",
                also=("Show them", address(_WORDS[one.kind])))  # fmt: skip


def kind_view(kind: str, found: Sequence[FoundFact]) -> View:
    """The records of a kind, each with a way to all that is known of it."""
    is_chip, by_record = kind == "accelerator", dict[str, list[FoundFact]]()
    fastest = sorted(found, key=lambda one: -load_accelerator(one.id).peak("bf16")) if is_chip else found
    for one in fastest:
        by_record.setdefault(one.id, []).append(one)
    heads = ("memory, GB #", "TB/s #", "bf16 TFLOP/s #", "W #") if is_chip else ("says",)
    rows: list[list[str | Cell]] = [
        [
            Cell(held[0].record or id_, address(id_)),
            *(_chip_cells(load_accelerator(id_)) if is_chip else [_first(held)]),
            f"{len(held)}",
        ]
        for id_, held in by_record.items()
    ]
    title = _title(kind)
    table = Table(f"{title}, the fastest first" if is_chip else title, ("name", *heads, "facts #"), rows)
    assumed = sum(one.fact.source == ASSUMPTION for one in found)
    beside = f" and {format_count(assumed, 'assumption')}" if assumed else ""
    return View(
        headline_words(title, f"{len(rows):,}, with {format_count(len(found) - assumed, 'fact')}{beside}"),
        f"{_WHAT[kind][:1].upper()}{_WHAT[kind][1:]}. Open one to see each of its facts with source and date.",
        plots=(chips_plot(),) if is_chip else (),
        tables=(table,),
        overline="facts search",
    )


def _chip_cells(chip: Accelerator) -> list[str]:
    """Memory, bandwidth, dense peak and power; the peak at fp16 where there is no bf16."""
    scaled = (chip.hbm_bytes.value / GIGA, chip.hbm_bytes_per_s.value / TERA, chip.peak("bf16") / TERA)
    return [f"{value:,.5g}" for value in (*scaled, chip.chip_tdp_w.value)]


def _first(held: Sequence[FoundFact]) -> str:
    """The first facts of a record in words."""
    return "; ".join(f"{fact_words(one.name)} {given_words(one.fact.given)}" for one in held[:_NAMED])


def chips_plot(asked: Accelerator | None = None) -> Plot:
    """All accelerators, the one that is asked about marked."""
    every = [load_accelerator(one) for one in accelerator_ids()]
    caption = (
        "Peak without sparsity, fp16 where a chip has no bf16. The further up and left a chip lies, the more it "
        "computes for each byte that it reads. Each mark leads to the facts of its chip."
    )
    return Plot(
        "chips", f"Dense bf16 TFLOP/s against memory bandwidth: {len(every)} accelerators", caption,
        chips_figure(every, asked), is_wide=True,
    )  # fmt: skip
