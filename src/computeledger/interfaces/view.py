"""An answer as it is shown: made once per answer, drawn alike by terminal, report, notebook and app."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from computeledger.questions.wording import figure_words, interval_words, point
from computeledger.sources import load_sources


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure, large; ``low`` and ``high`` end the interval of its value, in the unit that is given.

    ``also`` has the words and the address of a page of the app with another figure of the same thing.
    """

    label: str
    text: str
    band: str = ""
    value: float | None = None
    key: str = ""
    reference: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    also: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with its caption; of several variants a report lets the reader choose one, the first at first.

    On a phone one that ``is_detail`` is closed under its title. ``also`` has the words and the address of a page of the
    app behind its caption.
    """

    name: str
    title: str
    caption: str
    figure: Mapping[str, Any]
    key: str = ""
    is_wide: bool = False
    is_detail: bool = False
    text: str = ""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    also: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table that is more than its text; a page opens its details, a terminal has no room for them.

    ``tone`` is the colour of a mark before the text, on pages alone.
    """

    text: str
    href: str = ""
    below: str = ""
    share: float | None = None
    id: str = ""
    details: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; ``drops`` names the columns that a page too narrow for all leaves out, in this order.

    Pages and reports show the first rows of a long table, with a button for all; one that ``is_detail`` is closed
    under its title. A terminal prints ``in_short`` in place of a table of hundreds of lines, unless all is asked for;
    one without columns is its note alone. A narrow page parts the intervals of one that ``is_kept_whole`` before it
    leaves out a column.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    key: str = ""
    note: str = ""
    strong: tuple[int, ...] = ()
    is_stacked: bool = False
    is_sortable: bool = False
    drops: tuple[str, ...] = ()
    is_detail: bool = False
    in_short: Table | None = None
    is_kept_whole: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether an answer is right: how far such answers lie from what was measured, or that nothing was.

    ``text`` is one line, ``details`` say more of it; ``command`` and ``address`` lead to the measurements behind it;
    ``links`` are other addresses of the app with their words; ``tables`` name the nearest.
    """

    text: str
    details: str = ""
    command: str = ""
    address: str = ""
    tables: tuple[Table, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """An answer as the start page shows it: its figure large, the words that go on from it, the 90 % interval.

    ``span`` has the ends of the first interval around its median, for a line.
    """

    figure: str
    said: str
    band: str = ""
    span: tuple[float, ...] = ()

    @classmethod
    def of(cls, figure: str, said: str, *quantities: tuple[Any, str]) -> Card:
        """A card with the intervals of quantities, each with its unit.

        Examples
        --------
        >>> card = Card.of("$2", "a request", ({"p05": 1.0, "p50": 2.0, "p95": 3.0}, "USD"))
        >>> card.band, card.span
        ('$1 to $3', (1.0, 2.0, 3.0))
        """
        band = ", ".join(filter(None, (ends_said(value, unit) for value, unit in quantities)))
        ends = tuple(point(quantities[0][0], name) for name in ("p05", "p50", "p95")) if band else ()
        return cls(figure, said, band, ends)


@dataclass(frozen=True, slots=True)
class View:
    """An answer as it is shown.

    ``headline`` is one line that stands alone: subject, answer, 90 % interval; ``context`` has the sentences behind it.
    ``tile_heading`` stands over the figures of the tiles, ``band_heading`` over what follows them.
    ``links`` are addresses of the app with their words, which only the app shows; there ``context_href`` is where the
    context leads. ``main`` is the key of the tile that answers the question. ``card`` is the answer on the start page,
    where a question there has it.
    """

    headline: str
    context: str = ""
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
    band_heading: str = ""
    links: tuple[tuple[str, str], ...] = ()
    main: str = ""
    evidence: Evidence | None = None
    card: Card | None = None
    context_href: str = ""


def brief(view: View) -> str:
    """An answer in one line: its main figure with the interval, two spaces and what it is of; or else its headline.

    Examples
    --------
    >>> cost = Tile("Output", "$3.48/Mtok", "$2 – $6.58", key="usd_per_mtok_output")
    >>> brief(View("", tiles=(cost,), title="DeepSeek-V3 on 8 H200", main="usd_per_mtok_output"))
    '$3.48/Mtok ($2 to $6.58)  Output, DeepSeek-V3 on 8 H200'
    >>> brief(View("2025-03 and 2026-11: 58 facts differ", title="2025-03 and 2026-11 (edition)"))
    '2025-03 and 2026-11: 58 facts differ'
    """
    one = next((one for one in view.tiles if view.main and one.key == view.main), None)
    said = [view.headline]
    if one is not None:
        said = [f"{one.text} ({one.band})" if one.band else one.text, f"{one.label}, {view.title}"]
    return "  ".join(" ".join(text.replace(" \u2013 ", " to ").split()) for text in said)


def tile(
    document: Mapping[str, Any], key: str, label: str, unit: str, why: str = "", limit: Mapping[str, Any] | None = None
) -> Tile:
    """A tile of one of a document's quantities, with the same quantity of another document as its reference."""
    value = document[key]
    reference = figure_words(limit[key], unit) if limit is not None and key in limit else ""
    return with_interval(Tile(label, "", key=why or key, reference=reference), value, unit)


def with_interval(one: Tile, value: Any, unit: str, interval: Any = None) -> Tile:
    """A tile that shows a document's quantity, and the interval that belongs to it.

    Examples
    --------
    >>> found = with_interval(Tile("Output", ""), {"p05": 1.0, "p50": 2.0, "p95": 3.0}, "USD/Mtok")
    >>> found.text, found.band, found.low
    ('$2/Mtok', '$1 – $3/Mtok', 1.0)
    """
    ends = value if interval is None else interval
    low, high = point(ends, "p05"), point(ends, "p95")
    text = figure_words({"p05": low, "p50": point(value), "p95": high}, unit)
    return replace(
        one, text=text, band=interval_words(ends, unit), value=point(value), unit=unit, low=low, high=high
    )  # fmt: skip


def ends_said(value: Any, unit: str) -> str:
    """The ends of an interval in a sentence, empty where there is none.

    Examples
    --------
    >>> ends_said({"p05": 1.0, "p50": 2.0, "p95": 3.0}, "USD")
    '$1 to $3'
    """
    return interval_words(value, unit).replace(" – ", " to ")


def usd_alike(values: Sequence[Any]) -> list[str]:
    """Medians of amounts that stand side by side, with the same number of decimals where all are below a thousand.

    Examples
    --------
    >>> usd_alike([{"p05": 0.04, "p50": 0.073, "p95": 0.2}, {"p05": 0.05, "p50": 0.1, "p95": 0.2}])
    ['$0.073', '$0.100']
    >>> usd_alike([3.5, 4000.0])
    ['$3.50', '$4K']
    """
    texts = [figure_words(one, "USD") for one in values]
    if not texts or not all(re.fullmatch(r"\$\d+(\.\d+)?", text) for text in texts):
        return texts
    decimals = max(len(text.partition(".")[2]) for text in texts)
    return [f"${point(one):.{decimals}f}" for one in values]


def quantity_cell(value: Any, unit: str) -> Cell:
    """A median with its interval below."""
    return Cell(figure_words(value, unit), below=interval_words(value, unit))


def share_cell(share: float, text: str) -> Cell:
    """A share with its bar."""
    return Cell(text, share=share)


def quantity_table(title: str, rows: Iterable[tuple[str, Any, str]], key: str = "") -> Table:
    """Quantities with their medians and intervals: a label, a value and a unit each."""
    cells = [(label, figure_words(value, unit), interval_words(value, unit)) for label, value, unit in rows]
    return Table(title, ("", "median #", "90 % interval"), cells, key)


def cited(source: str, locator: str) -> Cell:
    """Where a figure was read: the publication with its address, and the place in it.

    Examples
    --------
    >>> cited("user", "a plan").text
    'user'
    """
    known = load_sources().get(source)
    return Cell(source, below=locator) if known is None else Cell(known.title, known.url, locator)


def source_links(keys: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Sources by their titles with their addresses, for the links of a view.

    Examples
    --------
    >>> [text for text, _ in source_links(("genai-prices", "user"))]
    ['source: genai-prices 0.2.3: prices of LLM inference APIs']
    """
    known = load_sources()
    return tuple((f"source: {known[key].title}", known[key].url) for key in keys if key in known)
