"""Measurements that are listed apart because no physics explains them; they are never left out."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

#: Column that names a row's suspect group, for slicing.
COLUMN = "suspect"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A group of measurements in doubt."""

    name: str
    why: str
    where: Mapping[str, Sequence[str]]

    def holds(self, row: Mapping[str, str]) -> bool:
        """Tell whether a row is of the group.

        Examples
        --------
        >>> Suspect("a", "b", {"chip": ["x", "~late"]}).holds({"chip": "very late"})
        True
        """
        return all(
            any(value[1:] in row.get(column, "") if value.startswith("~") else value == row.get(column, "")
                for value in values)
            for column, values in self.where.items()
        )  # fmt: skip


@functools.cache
def load_suspects() -> tuple[Suspect, ...]:
    """Load the groups that this package knows.

    Examples
    --------
    >>> load_suspects()[0].name
    'R1 NVFP4 checkpoint, flat'
    """
    text = resources.files("computeledger.validation").joinpath("suspects.toml").read_text("utf-8")
    return tuple(Suspect(one["name"], one["why"], one["where"]) for one in tomllib.loads(text)["suspect"])


def marked(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Add the column :data:`COLUMN` to rows: the group's name, or ``no``.

    Examples
    --------
    >>> marked([{"model_path": "x/y"}])[0]["suspect"]
    'no'
    """
    groups = load_suspects()
    return [{**row, COLUMN: next((one.name for one in groups if one.holds(row)), "no")} for row in rows]


def suspect_mask(rows: Sequence[Mapping[str, str]]) -> NDArray[np.bool_]:
    """Tell which rows are in doubt.

    Examples
    --------
    >>> suspect_mask([{"suspect": "no"}, {"suspect": "a group"}]).tolist()
    [False, True]
    """
    return np.array([row.get(COLUMN, "no") != "no" for row in rows], bool)
