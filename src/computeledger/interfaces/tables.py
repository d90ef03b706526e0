"""Documents as terminal tables: two or three digits, intervals beside medians, what binds in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.text import Text

from computeledger.interfaces.fitting import DIM, FittingTable, Page

ACCENT = "cyan"


def console() -> Console:
    """A console as wide as the terminal or as ``COLUMNS`` says; words in square brackets are units, no markup."""
    return Page()


def new_table(
    title: str, *columns: str, drops: Sequence[str] = (), note: str = "", is_kept_whole: bool = False
) -> FittingTable:
    """An empty table; a column whose name starts with ``>`` holds numbers and is set right."""
    named = any(columns)
    table = FittingTable(
        drops=drops,
        note=note,
        is_kept_whole=is_kept_whole,
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if named else None,
        pad_edge=False,
        header_style=DIM,
        show_header=named,
        padding=(0, 2, 0, 0),
    )
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify)
    return table


def note(out: Console, text: str) -> None:
    """Print a quiet line."""
    out.print(Text(text, style=DIM))


def bar(fraction: float, width: int = 20) -> Text:
    """A share as a bar."""
    filled = round(max(0.0, min(fraction, 1.0)) * width)
    return Text().append("█" * filled, style=ACCENT).append("·" * (width - filled) + " ", style=DIM)
