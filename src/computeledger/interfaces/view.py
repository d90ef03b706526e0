"""An answer as it is shown: made once per answer, drawn alike by terminal, report, notebook and app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from computeledger.questions.wording import interval_words, point, words


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure, large.

    Attributes
    ----------
    label, text, band : str
        What it is, its median, its interval.
    value : float or None
        The median as a number, for comparing two scenarios [-].
    key : str
        Of the working that explains it.
    reference : str
        What it is compared with; the view says what that is.
    """

    label: str
    text: str
    band: str = ""
    value: float | None = None
    key: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with its caption.

    Attributes
    ----------
    name, title, caption : str
        Its id, what it shows, and how to read it.
    figure : mapping
        A plotly specification without a theme.
    key : str
        Of the working that explains it.
    is_wide : bool
        Whether it needs the width of two.
    """

    name: str
    title: str
    caption: str
    figure: Mapping[str, Any]
    key: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table that is more than its text.

    Attributes
    ----------
    text : str
        What it says.
    href : str
        Where it leads.
    below : str
        A second line, quieter: an interval, a formula, a place in a source.
    share : float or None
        Drawn as a bar before the text [-].
    """

    text: str
    href: str = ""
    below: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text.

    Attributes
    ----------
    title : str
        What it lists.
    columns : sequence of str
        Headings; one that ends in ``#`` is a column of numbers.
    rows : sequence of sequence of str or Cell
        Cells.
    key : str
        Of the working that explains it.
    note : str
        How to read it.
    strong : tuple of int
        Rows that stand out.
    is_stacked : bool
        Whether a terminal writes a cell's second line below its first.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    key: str = ""
    note: str = ""
    strong: tuple[int, ...] = ()
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """An answer as it is shown.

    Attributes
    ----------
    headline : str
        The answer in one sentence.
    tiles, plots, tables : tuple
        In reading order.
    notes : tuple of str
        How sure the answer is, and what a reader must know of it.
    chosen : mapping of str to str
        What the engine took for boxes that were left empty.
    title : str
        What was asked, in a few words.
    asked : tuple of str
        The rest of the question.
    reference : str
        What the tiles' references are, such as ``physical limit``.
    facts : tuple of tuple of str
        Labels with a sentence each.
    grounds : tuple of str
        What the answer rests on: prices, factors, assumptions.
    blocks : tuple of tuple of str
        Titles with texts that stay as they are, such as a launch command.
    working : tuple of mapping
        Figures with formula, inputs and sources, in words.
    overline : str
        Of the report: which command it is of.
    warnings : tuple of str
        What must not be missed, such as a load that no queue survives.
    sources : tuple of str
        Keys of what the answer rests on; a report lists them, with BibTeX.
    tile_heading : str
        What a terminal writes above the tiles' values.
    """

    headline: str
    tiles: tuple[Tile, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    asked: tuple[str, ...] = ()
    reference: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    grounds: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    working: tuple[Mapping[str, Any], ...] = ()
    overline: str = ""
    warnings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tile_heading: str = "median and 90 % interval"


def tile(
    document: Mapping[str, Any], key: str, label: str, unit: str, why: str = "", limit: Mapping[str, Any] | None = None
) -> Tile:
    """A tile of one of a document's quantities, with the same quantity of another document as its reference."""
    value = document[key]
    reference = words(point(limit[key]), unit) if limit is not None and key in limit else ""
    return Tile(label, words(point(value), unit), interval_words(value, unit), point(value), why or key, reference)


def quantity_cell(value: Any, unit: str) -> Cell:
    """A median with its interval below."""
    return Cell(words(point(value), unit), below=interval_words(value, unit))


def share_cell(share: float, text: str) -> Cell:
    """A share with its bar."""
    return Cell(text, share=share)


def quantity_table(title: str, rows: Iterable[tuple[str, Any, str]], key: str = "") -> Table:
    """Quantities with their medians and intervals: a label, a value and a unit each."""
    cells = [(label, words(point(value), unit), interval_words(value, unit)) for label, value, unit in rows]
    return Table(title, ("", "median #", "90 % interval"), cells, key)
