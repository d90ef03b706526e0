"""Terminal output that fits its width: ids, numbers and intervals stay whole; columns go by their priority."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

#: Columns where output goes to a file and nobody says how wide.
WIDE = 120
DIM = "bright_black"
#: A column of words is not made narrower than this, nor so narrow that a cell takes more lines than these, about: in
#: the first column, which names the row, and in others.
_LEAST, _NAME_LINES, _MOST_LINES = 16, 2, 4
#: Only words wider than this may stand below a row, and only a name wider than that above it.
_SHORT, _LONG = 24, 32
#: Where a line may not break: between a number and its unit, and around the dash or the "to" of an interval.
_GLUE = re.compile(
    r"(?<=[\dKMBTx%]) (?=%|[\u2013+]|(?:[kMGTPEZ\u00b5mn]?(?:s|B|W|Wh|FLOP|bit|tokens?)(?:/\w+)*|GPU\S*|days?|"
    r"hours?|h|min|months?|years?|x|USD\S*)(?!\w))| (?=\u2013 [-\d$])|(?<=\u2013) (?=[-\d$])|"
    r"(?<=[\d%\w]) (?=to [-$\d])|(?<=[\w%] to) (?=[-$\d])"
)
#: What is not parted from the word before it, an interval in brackets; and what is not parted in itself, a command.
_WHOLE = re.compile(r" \(90 %: [^()]{1,60}\)|`[^`]{1,48}`")
_BAR = re.compile("[\u2588\u00b7 ]{4,}")
#: A number and its unit, parted where the point stands or would stand; an interval, parted before its dash.
_NUMBER = re.compile(r"([-+\u2212<>~x$]*\d[\d,]*)((?:\.\d+)?(?:e[-+]?\d+)?(?: ?[^\d\s]+){0,2})")
_INTERVAL = re.compile(r"([-+\u2212$]*\d[^\u2013]*)( \u2013 [-+\u2212$]*\d[^\u2013]*)")
#: The rule below the heads of a table, and how far what stands below a row is set in.
_RULE, _INDENT = "\u2500", "    "


class Page(Console):
    """A console as wide as the terminal, as ``COLUMNS`` says, or as a page; numbers stay with their units."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, **options)
        #: A pipe or a file whose width nobody stated: a table there is as wide as all its columns need.
        self.is_open_ended = not self.is_terminal and not os.environ.get("COLUMNS", "").isdigit()
        if self.is_open_ended:
            self.width = WIDE

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with texts wrapped between words that may be parted; what is longer than a line is left whole.

        With ``soft_wrap``, which prints commands to be copied, nothing is wrapped.
        """
        width = None if options.get("soft_wrap") else self.width
        whole = [wrapped(one, width) if width and isinstance(one, str | Text) else one for one in objects]
        super().print(*whole, **{"soft_wrap": True, **options})


def wrapped(text: str | Text, width: int) -> Text:
    """Break a text into lines, never between a number and its unit, nor within an interval.

    Examples
    --------
    >>> wrapped("a layout takes 9.87 %", 18).plain.splitlines()
    ['a layout takes', '9.87 %']
    >>> wrapped("prefills of others 974 µs – 2.42 ms", 30).plain.splitlines()
    ['prefills of others', '974 µs – 2.42 ms']
    >>> wrapped("an output token costs $3.60 (90 %: $1.90 to $7.60)", 30).plain.splitlines()
    ['an output token costs', '$3.60 (90 %: $1.90 to $7.60)']
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


@dataclass(frozen=True)
class _Column:
    """A column as it is set: its heading and its cells."""

    place: int
    head: Text
    cells: tuple[Text, ...]
    is_right: bool = False

    @cached_property
    def name(self) -> str:
        """What a line that leaves it out calls it."""
        return " ".join(self.head.plain.split()) or f"column {self.place + 1}"

    @cached_property
    def width(self) -> int:
        """As wide as its widest line."""
        return _width([self.head, *self.cells])

    @cached_property
    def is_words(self) -> bool:
        """Whether its cells may be wrapped: numbers and intervals may not, nor what holds no letter."""
        lines = [line.strip() for cell in self.cells for line in cell.plain.splitlines()]
        return any(_breaks(one) and any(map(str.isalpha, one)) and not _is_figure(one) for one in lines)

    @cached_property
    def least(self) -> int:
        """The width below which it is hard to read."""
        longest = _width(self.cells)
        if not self.is_words:
            return max(longest, _longest([self.head]))
        readable = min(longest, max(_LEAST, -(-longest // (_MOST_LINES if self.place else _NAME_LINES))))
        return max(readable, _longest([self.head, *self.cells]))

    def wrapped(self, width: int) -> _Column:
        """Set to a width."""
        return replace(self, head=wrapped(self.head, width), cells=tuple(wrapped(one, width) for one in self.cells))

    def changed(self, change: Callable[[Text], Text]) -> _Column:
        """With every cell changed."""
        return replace(self, cells=tuple(map(change, self.cells)))


_Columns = tuple[_Column, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """A table that fits: its columns, what stands above and below its rows, and the names of what is left out."""

    columns: _Columns
    gap: int
    above: _Column | None = None
    below: _Columns = ()
    left_out: tuple[str, ...] = ()
    is_named: bool = True


class FittingTable(Table):
    """A table that cuts nothing: too wide, it drops bars, stacks intervals, wraps words and leaves columns out.

    ``drops`` names the columns that a narrow page leaves out, in this order; a line below says which it left out.
    Where that is not enough, columns of words go below their rows, or the names of rows above them; and then columns
    go from the last to the second. One that ``is_kept_whole`` parts its intervals at the dash before that.
    """

    def __init__(
        self, *heads: Any, drops: Sequence[str] = (), note: str = "", is_kept_whole: bool = False, **options: Any
    ) -> None:
        super().__init__(*heads, **options)
        self.drops, self.note, self.is_kept_whole = tuple(drops), note, is_kept_whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render at the width at hand."""
        room = options.max_width
        yield wrapped(Text(str(self.title or ""), style="bold"), room)
        columns = tuple(
            _Column(place, _text(one.header), tuple(map(_text, one.cells)), one.justify == "right")
            for place, one in enumerate(self.columns)
        )
        found = self._fitted(columns, room, isinstance(console, Page) and console.is_open_ended)
        yield from self._drawn(found, room)
        said = f"left out at this width: {', '.join(found.left_out)} (wider terminal or --json)"
        for text in (said if found.left_out else "", self.note):
            if text:
                yield wrapped(Text(text, style=DIM), room)
        yield Text()

    def _fitted(self, columns: _Columns, room: int, is_open_ended: bool) -> _Layout:
        """The first way that fits; on a page without an end, as wide as all columns need."""
        looks = _looks(columns)
        declared, every = ((), ()) if is_open_ended else self._order(columns)
        ways = [(declared, self._side_by_side), (declared, self._words_below)]
        if not is_open_ended:
            ways += [(declared, self._intervals_parted)] * self.is_kept_whole
            ways += [(declared, self._name_above), (every, self._words_below)]
        for order, way in ways:
            for left_out in _growing(order):
                kept = [one.place for one in columns if one.place not in left_out]
                if found := way([tuple(look[place] for place in kept) for look in looks], room):
                    names = dict.fromkeys(one.name for one in columns if one.place in left_out)
                    return replace(found, left_out=tuple(names))
        return _Layout(looks[0], 1) if is_open_ended else _Layout(looks[-1][:1], 1)

    def _order(self, columns: _Columns) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Columns in the order in which they are left out: those declared; and these, then the last to the second."""
        declared = tuple(one.place for name in self.drops for one in columns[1:] if one.name == name)
        return declared, (*declared, *(one.place for one in reversed(columns[1:]) if one.place not in declared))

    def _side_by_side(self, looks: Sequence[_Columns], room: int) -> _Layout | None:
        """All columns beside each other, in the roomiest look that fits; none where they need more."""
        even, bare, *tight = looks
        for gap, made in ((2, even), (1, even), (1, bare)):
            if self._room([one.width for one in made], gap) <= room:
                return _Layout(made, gap)
        fitting = (made for made in tight if self._room([one.least for one in made], 1) <= room)
        return next((_Layout(self._narrowed(made, room), 1) for made in fitting), None)

    def _words_below(self, looks: Sequence[_Columns], room: int) -> _Layout | None:
        """Columns of words below their row, the widest first."""
        words = [one for one in looks[-1][1:] if one.is_words and one.width > _SHORT]
        for below in _growing([one.place for one in sorted(words, key=lambda one: -one.least)]):
            beside = [tuple(one for one in look if one.place not in below) for look in looks]
            if found := self._side_by_side(beside, room):
                return replace(found, below=tuple(one for one in looks[-1] if one.place in below))
        return None

    def _intervals_parted(self, looks: Sequence[_Columns], room: int) -> _Layout | None:
        """All columns beside each other, with the second end of an interval below the first."""
        return self._side_by_side([*looks, tuple(one.changed(_halved) for one in looks[-1])], room)

    def _name_above(self, looks: Sequence[_Columns], room: int) -> _Layout | None:
        """What names a row on a line of its own above it, where that is long."""
        if looks[0][0].width <= _LONG or not looks[0][1:]:
            return None
        found = self._side_by_side([look[1:] for look in looks], room - len(_INDENT))
        return found and replace(found, above=looks[-1][0])

    def _room(self, widths: Sequence[int], gap: int) -> int:
        edge, line = (2, 1) if self.box else (0, 0)
        return sum(widths) + (gap + line) * (len(widths) - 1) + edge

    def _narrowed(self, columns: _Columns, room: int) -> _Columns:
        """Columns of words and headings made narrower, the widest first."""
        widths, least = [one.width for one in columns], [one.least for one in columns]
        while self._room(widths, 1) > room:
            place = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
            widths[place] -= 1
        return tuple(one.wrapped(width) for one, width in zip(columns, widths, strict=True))

    def _drawn(self, found: _Layout, room: int) -> Iterator[Text]:
        """Lines of the table; a name above rows is said once for those that share it."""
        if self.show_header:
            yield from self._row(found, lambda one: one.head, room, str(self.header_style or ""))
            if self.box:
                edge = len(self._edge(found)) - 1
                yield Text(f" {_RULE * (edge + self._room([one.width for one in found.columns], found.gap) - 2)}")
        said = ""
        for number, row in enumerate(self.rows):
            name = found.above.cells[number].plain if found.above else ""
            shown = replace(found, is_named=name != said)
            yield from self._row(shown, partial(_cell, number), room, str(row.style or ""))
            said = name

    def _row(self, found: _Layout, cell: Callable[[_Column], Text], room: int, style: str) -> Iterator[Text]:
        """Lines of one row: a name above, cells beside each other, words below."""
        if found.above and found.is_named:
            yield _styled(Text(" ").append_text(cell(found.above)), style)
        between = " " * (found.gap + bool(self.box))
        lines = [cell(one).split("\n", allow_blank=True) for one in found.columns]
        for line in itertools.zip_longest(*lines, fillvalue=Text()):
            out = Text(self._edge(found))
            for number, (one, text) in enumerate(zip(found.columns, line, strict=True)):
                left = " " * (one.width - cell_len(text.plain))
                out.append(between if number else "").append(left if one.is_right else "").append_text(text)
                out.append("" if one.is_right else left)
            yield _styled(out, style)
        for one in found.below:
            for part in wrapped(cell(one), room - len(_INDENT)).split("\n") if cell(one).plain.strip() else ():
                yield _styled(Text(_INDENT).append_text(part), style)

    def _edge(self, found: _Layout) -> str:
        return _INDENT if found.above else " " * bool(self.box)


def _cell(number: int, column: _Column) -> Text:
    return column.cells[number]


def _styled(line: Text, style: str) -> Text:
    line.rstrip()
    line.stylize_before(style)
    return line


def _looks(columns: _Columns) -> list[_Columns]:
    """Columns as they may be set, the roomiest first: without bars, with intervals below, with nothing aligned."""
    bare = [one.changed(_without_bar) for one in columns]
    stacked = [one.changed(_stacked) for one in bare]
    return [*(tuple(map(_aligned, one)) for one in (columns, bare, stacked)), tuple(stacked)]


def _growing(order: Sequence[int]) -> Iterator[Sequence[int]]:
    """None of them, then the first, then the first two, and so on."""
    for count in range(len(order) + 1):
        yield order[:count]


def _text(cell: Any) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def _without_bar(cell: Text) -> Text:
    found = _BAR.match(cell.plain)
    return cell[found.end() :] if found and len(cell) > found.end() else cell


def _stacked(cell: Text) -> Text:
    """A median above its interval, in place of beside it."""
    return Text("\n").join(cell.split("  ")) if "  " in cell.plain and "\u2013" in cell.plain else cell


def _halved(cell: Text) -> Text:
    """An interval on two lines, the dash at the end of the first."""
    parts = cell.split("\u2013 ", include_separator=True)
    for part in parts:
        part.rstrip()
    return Text("\n").join(parts)


def _aligned(column: _Column) -> _Column:
    """Points of numbers below each other, and dashes of intervals; a cell has either, or an interval after a number."""
    parts = [_parted(cell) for cell in column.cells]
    if not column.is_right:
        firsts = [first for first, _, _ in parts if first.plain]
        if any(between for _, between, _ in parts) or not all(_INTERVAL.fullmatch(one.plain) for one in firsts):
            return column
        return replace(column, cells=tuple(_on_mark([first for first, _, _ in parts], _INTERVAL, is_right=False)))
    firsts = _on_mark([first for first, _, _ in parts], _NUMBER)
    bands = _on_mark([band for _, _, band in parts], _INTERVAL)
    beside = _width(band for band, (_, between, _) in zip(bands, parts, strict=True) if between == "  ")
    cells = []
    for first, band, (_, between, _) in zip(firsts, bands, parts, strict=True):
        room = " " * (beside - cell_len(band.plain)) if between == "  " else ""
        after = Text(f"{between}{room}").append_text(band) if between else Text(" " * (beside and beside + 2))
        cells.append(Text().append_text(first).append_text(after))
    return replace(column, cells=tuple(cells))


def _is_figure(text: str) -> bool:
    return any(kind.fullmatch(text) for kind in (_NUMBER, _INTERVAL))


def _parted(cell: Text) -> tuple[Text, str, Text]:
    """What a cell says first, what stands between, and the interval after it."""
    for between in ("\n", "  "):
        first, found, _ = cell.plain.partition(between)
        if found:
            return cell[: len(first)], between, cell[len(first) + len(between) :]
    return cell, "", Text()


def _on_mark(texts: Sequence[Text], kind: re.Pattern[str], *, is_right: bool = True) -> list[Text]:
    """Texts of a kind padded until what parts them stands at one place from the right, or from the left."""
    found = [kind.fullmatch(one.plain) for one in texts]
    lengths = [cell_len(one[2 if is_right else 1]) if one else None for one in found]
    longest = max((one for one in lengths if one is not None), default=0)
    out = []
    for text, length in zip(texts, lengths, strict=True):
        room = Text(" " * (longest - length if length is not None and text.plain else 0))
        out.append(Text().append_text(text).append_text(room) if is_right else room.append_text(text))
    return out


def _width(texts: Iterable[Text]) -> int:
    return max((cell_len(line) for text in texts for line in text.plain.splitlines()), default=0)


def _breaks(plain: str) -> list[int]:
    """Places of spaces where a line may break."""
    kept = {match.start() for match in _GLUE.finditer(plain)}
    kept |= {place for match in _WHOLE.finditer(plain) for place in range(*match.span())}
    return [place for place, letter in enumerate(plain) if letter == " " and place not in kept]


def _longest(texts: Iterable[Text]) -> int:
    """The longest piece that must stay whole."""
    longest = 0
    for text in texts:
        for line in text.plain.splitlines():
            ends = [-1, *_breaks(line), len(line)]
            longest = max([longest, *(cell_len(line[a + 1 : b]) for a, b in itertools.pairwise(ends))])
    return longest
