"""A view on a terminal: as wide as it is, medians with their intervals, bars for shares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.fitting import DIM
from computeledger.interfaces.tables import bar, console, new_table, note
from computeledger.interfaces.view import Cell, Table, View

#: Characters of a share's bar.
_BAR = 10
#: A heading of tiles whose two parts stand above two columns, where all of these are intervals.
_TILE_HEADS = {"median and 90 % interval": ("median", "90 % interval")}
_DASH = "\u2013"
#: Words that make no title differ from a headline.
_SMALL = {"a", "an", "and", "in", "of", "on", "the"}
#: What lies between a cell and the words below it in a stacked table, which has room for the cell's details too.
_STACKED = "\n"


def print_view(view: View, out: Console | None = None, *, is_whole: bool = False) -> None:
    """Print everything but the plots that are not drawn in characters, on the terminal where nothing else is named.

    A table that has a short form is printed in it, unless ``is_whole``.
    """
    out = out or console()
    _print_answer(out, view)
    _print_tiles(out, view)
    for label, text in view.facts:
        out.print(Text(f"{label}  ", style="bold").append(_plain(text), style="not bold"))
    if view.tables and view.tables[0].title and (view.facts or not view.tiles):
        out.print()
    for table in view.tables:
        _print_table(out, table if is_whole or table.in_short is None else table.in_short)
    _print_blocks(out, [(plot.title, plot.text) for plot in view.plots if plot.text])
    for figure in view.working:
        _print_figure(out, figure)
    for text in view.warnings:
        out.print(Text(_plain(text), style="bold red"))
    for text in (*view.notes, *view.grounds):
        note(out, _plain(text))
    _print_blocks(out, view.blocks)


def _print_answer(out: Console, view: View) -> None:
    """The headline, what stands behind it, what was asked, and whether the answer is right."""
    headline, title = _plain(view.headline), _plain(view.title)
    if headline or title:
        out.print(Text(headline or title, style="bold"))
    if view.context:
        out.print(Text(_plain(view.context)))
    asked = [*([title] if headline and not _is_said(title, headline) else []), *map(_plain, view.asked)]
    if asked:
        note(out, "; ".join(asked))
    if view.evidence:
        note(out, f"Is it right? {_plain(view.evidence.text)}")
        if view.evidence.command:
            out.print(Text(f"    {view.evidence.command}", style=DIM), soft_wrap=True)


def _is_said(title: str, headline: str) -> bool:
    """Whether a title has no word that its headline lacks."""
    said, titled = ({*re.findall(r"[^\s:,;]+", text.lower())} for text in (headline, title))
    return titled <= said | _SMALL


def _print_blocks(out: Console, blocks: Sequence[tuple[str, str]]) -> None:
    for title, text in blocks:
        out.print(Text(title, style="bold"))
        out.print(Text(text), soft_wrap=True)


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def _print_tiles(out: Console, view: View) -> None:
    if not view.tiles:
        return
    bands = [_plain(one.band) for one in view.tiles]
    heads = _TILE_HEADS.get(view.tile_heading) if all(_DASH in band for band in bands if band) else None
    columns = heads or (view.tile_heading, view.band_heading)
    used = columns if any(bands) else columns[:1]
    table = new_table("", "", *used, *([view.reference] if view.reference else []))
    for one, band in zip(view.tiles, bands, strict=True):
        quiet = [*([band] if any(bands) else []), *([_plain(one.reference)] if view.reference else [])]
        table.add_row(one.label, _plain(one.text), *(Text(text, style=DIM) for text in quiet))
    out.print(table)


def _print_table(out: Console, one: Table) -> None:
    if not one.columns:
        if one.note:
            note(out, _plain(one.note))
        return
    heads = [f">{name.removesuffix('#').rstrip()}" if name.endswith("#") else name for name in one.columns]
    table = new_table(one.title, *heads, drops=one.drops, note=_plain(one.note), is_kept_whole=one.is_kept_whole)
    if not any(heads):
        table.show_header = False
    for place, row in enumerate(one.rows):
        table.add_row(
            *(_cell(cell, _STACKED if one.is_stacked else "  ") for cell in row),
            style="bold" if place in one.strong else "",
        )
    out.print(table)


def _cell(cell: str | Cell, between: str) -> Text:
    if isinstance(cell, str):
        return Text(_one_line(cell))
    text = bar(cell.share, _BAR) if cell.share is not None else Text()
    text.append(_one_line(cell.text))
    below = (cell.below, cell.details if between == _STACKED else "")
    return text.append("".join(f"{between}{_one_line(one)}" for one in below if one), style=DIM)


def _one_line(text: str) -> str:
    """The text of a cell: where a file broke its lines says nothing here."""
    return _plain(text).replace("\n", " ")


def _print_figure(out: Console, figure: Mapping[str, Any]) -> None:
    out.print(Text(figure["title"], style="bold").append(f" = {_plain(figure['formula'])}", style="not bold"))
    if figure["text"]:
        out.print(Text(f"    = {_plain(figure['text'])}").append(f"  {_plain(figure['band'])}", style=DIM))
    for term in figure["terms"]:
        line = Text(f"    {term['name']} = {_plain(term['text'])}")
        line.append(f"  {_plain(term['band'])}" if term["band"] else "", style=DIM)
        ground = ", ".join(part for part in (term["source"], term["ground"]) if part)
        out.print(line.append(f"   [{term['origin']}] {ground}", style=DIM))
