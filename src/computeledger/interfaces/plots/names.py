"""Names beside marks, where no other mark lies on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from computeledger.interfaces.plots.parts import Spec, plain

#: Where a name may stand beside its mark: to the left or right, above or below.
_CORNERS = (("right", "bottom"), ("right", "top"), ("left", "bottom"), ("left", "top"))


@dataclass(frozen=True, slots=True)
class Place:
    """A mark in decades of both axes, and whether its name is wanted."""

    name: str
    x: float
    y: float
    is_named: bool = False


def names_beside(places: Sequence[Place], ends: Sequence[float], room: tuple[float, float]) -> list[Spec]:
    """Names of marks, towards the middle first; none where all corners have a mark or a name that came before.

    ``room`` is that of a letter and of a line, in decades.

    Examples
    --------
    >>> marks = [Place("M", 0.3, 10.95, True), Place("N", 0.6, 11.95)]
    >>> [one["xanchor"] for one in names_beside(marks, (-2.0, 1.0), (0.075, 0.17))]
    ['right']
    """
    letter, line = room
    notes: list[Spec] = []
    taken: list[tuple[float, float, float]] = []
    for one in (one for one in places if one.is_named):
        width = letter * (len(one.name) + 1)
        corners = _CORNERS if 2 * one.x > sum(ends) else (*_CORNERS[2:], *_CORNERS[:2])
        free = [corner for corner in corners if not _is_covered(one, corner, places, (width, line))]
        boxes = [(corner, _box(one, corner, width, line)) for corner in free]
        found = next(((corner, box) for corner, box in boxes if _is_clear(box, taken, line)), None)
        if found is None:
            continue
        (across, up), box = found
        taken.append(box)
        notes.append({
            "text": plain(one.name), "showarrow": False, "font": {"size": 12}, "x": one.x, "y": one.y,
            "xanchor": across, "yanchor": up, "xshift": -4 if across == "right" else 4,
            "yshift": 4 if up == "bottom" else -4,
        })  # fmt: skip
    return notes


def _is_covered(one: Place, corner: tuple[str, str], places: Sequence[Place], size: tuple[float, float]) -> bool:
    """Whether another mark lies where a name would stand."""
    width, line = size
    for other in places:
        right, above = other.x - one.x, other.y - one.y
        across = -right if corner[0] == "right" else right
        up = above if corner[1] == "bottom" else -above
        if (right, above) != (0.0, 0.0) and -0.02 <= across <= width and 0.02 <= up <= line:
            return True
    return False


def _box(one: Place, corner: tuple[str, str], width: float, line: float) -> tuple[float, float, float]:
    """Left and right end and the bottom of a name."""
    left = one.x - width if corner[0] == "right" else one.x
    return left, left + width, one.y if corner[1] == "bottom" else one.y - line


def _is_clear(box: tuple[float, float, float], taken: Sequence[tuple[float, float, float]], line: float) -> bool:
    left, right, bottom = box
    return not any(left < end and begin < right and abs(bottom - low) < line for begin, end, low in taken)
