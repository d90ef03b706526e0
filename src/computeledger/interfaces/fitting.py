"""Terminal output that fits its width: no id is cut, no number leaves its unit, a wide table goes on below itself."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

#: Columns where output goes to a file and nobody says how wide.
WIDE = 120
#: A column of prose is not made narrower than this.
_LEAST = 12
#: Where a line may not break: between a number and its unit, and around the dash of an interval.
_GLUE = re.compile(
    r"(?<=[\dKMBTx%]) (?=%|[\u2013+]|(?:[kMGTPEZ\u00b5mn]?(?:s|B|W|Wh|FLOP|bit|tokens?)(?:/\w+)*|GPU\S*|days?|"
    r"hours?|h|min|months?|years?|x|USD\S*)(?!\w)|to [-\d])| (?=\u2013 [-\d$])|(?<=\u2013) (?=[-\d$])|"
    r"(?<=\d to) (?=[-\d])"
)
_BAR = re.compile("[\u2588\u00b7 ]{4,}")


class Page(Console):
    """A console as wide as the terminal, as ``COLUMNS`` says, or as a page; numbers stay with their units."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, **options)
        if not self.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
            self.width = WIDE

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with texts wrapped between words that may be parted."""
        super().print(*(wrapped(one, self.width) if isinstance(one, str | Text) else one for one in objects), **options)


def wrapped(text: str | Text, width: int) -> Text:
    """Break a text into lines, never between a number and its unit, nor within an interval.

    Examples
    --------
    >>> wrapped("a layout takes 9.87 %", 18).plain.splitlines()
    ['a layout takes', '9.87 %']
    >>> wrapped("prefills of others 974 µs – 2.42 ms", 30).plain.splitlines()
    ['prefills of others', '974 µs – 2.42 ms']
    """
    whole = text if isinstance(text, Text) else Text(text)
    if all(cell_len(line) <= width for line in whole.plain.splitlines()):
        return whole
    return Text("\n").join(part for line in whole.split("\n", allow_blank=True) for part in _lines(line, width))


def _lines(line: Text, width: int) -> list[Text]:
    plain, spaces = line.plain, set(_breaks(line.plain))
    breaks, start, last = [], 0, 0
    for place in range(len(plain)):
        if place in spaces and plain[:place].strip():
            last = place + 1
        elif last > start and cell_len(plain[start : place + 1]) > width:
            breaks.append(last)
            start = last
    parts = list(line.divide(breaks))
    for part in parts:
        part.rstrip()
    return parts


class FittingTable(Table):
    """A table that cuts nothing: too wide, it drops bars, stacks intervals, wraps prose, and at last goes on below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render at the width at hand."""
        if self.title:
            yield wrapped(Text(str(self.title), style="bold"), options.max_width)
        heads = [_text(column.header) for column in self.columns]
        cells = [[_text(cell) for cell in column.cells] for column in self.columns]
        for gap, change in ((2, _as_it_is), (1, _as_it_is), (1, _without_bar), (1, _stacked)):
            cells = [[change(cell) for cell in column] for column in cells]
            widths = [_width([head, *column]) for head, column in zip(heads, cells, strict=True)]
            if self._room(widths, gap) <= options.max_width:
                break
        else:
            widths = self._narrowed(heads, cells, options.max_width)
            gap = 1 if self._room(widths, 1) <= options.max_width else 0
        for places in self._parts(widths, gap, options.max_width):
            yield self._part(places, (heads, cells), widths, gap)

    def _room(self, widths: Sequence[int], gap: int) -> int:
        edge, line = (2, 1) if self.box else (0, 0)
        return sum(widths) + (gap + line) * (len(widths) - 1) + edge

    def _narrowed(self, heads: list[Text], cells: list[list[Text]], room: int) -> list[int]:
        """Widths with prose and headings made narrower, the widest first; heads and cells are wrapped to them."""
        widths, least = [], []
        for head, column in zip(heads, cells, strict=True):
            is_prose = any(_breaks(cell.plain) and any(map(str.isalpha, cell.plain)) for cell in column)
            words = _longest([head, *column]) if is_prose else max(_longest([head]), _width(column))
            widths.append(_width([head, *column]))
            least.append(min(widths[-1], max(_LEAST, words)) if is_prose else words)
        while self._room(widths, 1) > room and widths != least:
            place = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
            widths[place] -= 1
        for place, width in enumerate(widths):
            heads[place] = wrapped(heads[place], width)
            cells[place] = [wrapped(cell, width) for cell in cells[place]]
        return widths

    def _parts(self, widths: Sequence[int], gap: int, room: int) -> list[list[int]]:
        """Columns of each table: all in one, or the first again before those that had no room."""
        parts = [[0]]
        for place in range(1, len(widths)):
            if len(parts[-1]) > 1 and self._room([widths[one] for one in [*parts[-1], place]], gap) > room:
                parts.append([0])
            parts[-1].append(place)
        return parts

    def _part(
        self, places: Sequence[int], texts: tuple[list[Text], list[list[Text]]], widths: Sequence[int], gap: int
    ) -> Table:
        """Some of the columns, at fixed widths."""
        heads, cells = texts
        table = Table(box=self.box, pad_edge=False, header_style=self.header_style, show_header=self.show_header,
                      padding=(0, gap, 0, 0))  # fmt: skip
        for place in places:
            table.add_column(heads[place], justify=self.columns[place].justify, style=self.columns[place].style,
                             width=widths[place], overflow="fold")  # fmt: skip
        for number, row in enumerate(self.rows):
            table.add_row(*(cells[place][number] for place in places), style=row.style)
        return table


def _text(cell: Any) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def _as_it_is(cell: Text) -> Text:
    return cell


def _without_bar(cell: Text) -> Text:
    found = _BAR.match(cell.plain)
    return cell[found.end() :] if found and len(cell) > found.end() else cell


def _stacked(cell: Text) -> Text:
    """A median above its interval, in place of beside it."""
    return Text("\n").join(cell.split("  ")) if "  " in cell.plain and "\u2013" in cell.plain else cell


def _width(texts: Iterable[Text]) -> int:
    return max((cell_len(line) for text in texts for line in text.plain.splitlines()), default=0)


def _breaks(plain: str) -> list[int]:
    """Places of spaces where a line may break."""
    kept = {match.start() for match in _GLUE.finditer(plain)}
    return [place for place, letter in enumerate(plain) if letter == " " and place not in kept]


def _longest(texts: Iterable[Text]) -> int:
    """The longest piece that must stay whole."""
    longest = 0
    for text in texts:
        for line in text.plain.splitlines():
            ends = [-1, *_breaks(line), len(line)]
            longest = max([longest, *(cell_len(line[a + 1 : b]) for a, b in itertools.pairwise(ends))])
    return longest
