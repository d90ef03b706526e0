"""A table of a study, for terminal and page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """Title, head, and rows of a name and cells: a figure and its range. A row without cells is a heading."""

    title: str
    head: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]
