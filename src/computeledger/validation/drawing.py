"""Drawing rows of a table evenly over its groups, by a rule that anyone can repeat and that never sees an error."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

Row = TypeVar("Row", bound=Mapping[str, str])


def drawn(rows: Sequence[Row], by: Sequence[str], most: int) -> list[Row]:
    """Draw the same number of rows from every group.

    In a group the rows with the smallest SHA-256 of their id come first (of all their cells where there is no id).

    Examples
    --------
    >>> [row["id"] for row in drawn([{"id": "1", "g": "a"}, {"id": "2", "g": "a"}, {"id": "3", "g": "b"}], ["g"], 1)]
    ['3', '1']
    """

    def draw(row: Mapping[str, str]) -> str:
        return hashlib.sha256((row.get("id") or "|".join(row.values())).encode()).hexdigest()

    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=draw):
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [group[turn] for turn in range(most) for group in groups.values() if turn < len(group)]
