"""Text beside marks, where it lies on no mark and on no other text at any width of the drawing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from computeledger.interfaces.plots import palette
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain

#: Widths of a drawing on a phone and on the widest screen, of a letter and of a bold one, and a line's height [px].
PHONE_PX, _WIDE_PX, _LETTER_PX, _BOLD_PX, _LINE_PX = 262.0, 1150.0, 6.3, 6.9, 15.0
#: By how much of a letter a capital is wider.
_CAPITAL = 0.3
#: How far text stands from the middle of its mark, from a mark next to it, and a step of a text that moves away [px].
_GAP_PX, _CLEAR_PX, _STEP_PX = 6.0, 1.5, 8.0
#: How far a name that is not needed moves away [px].
_NEAR_PX = 72.0
#: Where text may stand beside its mark: across and up, by its own edge next to the mark.
_SIDES = ((1, 1), (1, -1), (1, 0), (0, 1), (0, -1))
#: What text on other text, on a mark or on a thin line costs, against a pixel of distance from its mark.
_ON_TEXT, _ON_MARK, _ON_LINE = 1e5, 1e3, 30.0
_ACROSS = {1: "left", 0: "center", -1: "right"}
_UP = {1: "bottom", 0: "middle", -1: "top"}


class Box(NamedTuple):
    """A box about a place: a share of the width, so that it moves with it, and ends in pixels from there."""

    at: float
    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True, slots=True)
class _Spot:
    """A candidate: what it costs, its box, its anchors, how far up it stands from its mark and its line from there."""

    cost: float
    box: Box
    side: tuple[int, int]
    up_px: float
    leader: Box | None


@dataclass(frozen=True, slots=True)
class Labels:
    """Text on a drawing; each one tries places beside its mark against all marks and text placed before it.

    What is clear is clear at every width from a phone's on: marks move with the drawing, and text keeps its size.

    Attributes
    ----------
    xs, ys : sequence of float
        Ends of both axes, in decades of a logarithmic one.
    height_px : float
        Of the plot between its margins [px].

    Examples
    --------
    >>> labels = Labels((0.0, 1.0), (0.0, 1.0), 200.0)
    >>> labels.mark(0.3, 0.5), labels.mark(0.35, 0.55), labels.name("M", 0.3, 0.5)
    (None, None, True)
    >>> labels.notes[0]["xanchor"], labels.notes[0]["yanchor"]
    ('left', 'top')
    """

    xs: Sequence[float]
    ys: Sequence[float]
    height_px: float
    notes: list[Spec] = field(default_factory=list)
    _marks: list[Box] = field(default_factory=list)
    _lines: list[Box] = field(default_factory=list)
    _texts: list[Box] = field(default_factory=list)
    _edges: list[Box] = field(default_factory=list)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        """Share of the width, and height in pixels."""
        across, up = (x - self.xs[0]) / (self.xs[1] - self.xs[0]), (y - self.ys[0]) / (self.ys[1] - self.ys[0])
        return across, up * self.height_px

    def mark(self, x: float, y: float, size_px: float = 8.0) -> None:
        """Keep text off a mark."""
        (at, up), half = self._place(x, y), size_px / 2
        self._marks.append(Box(at, -half, up - half, half, up + half))

    def bar(self, x: float, low: float, high: float, width_px: float = 4.0) -> None:
        """Keep text off an upright line, such as an interval."""
        (at, bottom), (_, top) = self._place(x, low), self._place(x, high)
        self._marks.append(Box(at, -width_px / 2, bottom, width_px / 2, top))

    def edge(self, y: float, width_px: float = 2.0) -> None:
        """Keep text off a level line through the whole drawing, such as the end of a band."""
        (at, up), half = self._place(self.xs[0], y), width_px / 2
        self._edges.append(Box(at, -math.inf, up - half, math.inf, up + half))

    def keep(self, text: str, x: float, y: float) -> None:
        """Keep names off a text that stands right of a place and above it."""
        at, up = self._place(x, y)
        self._texts.append(Box(at, 0.0, up, _letters(text) * _LETTER_PX, up + _LINE_PX))

    def line(self, points: Sequence[tuple[float, float]]) -> None:
        """Keep text off a thin line where there is room elsewhere."""
        for (x, y), (right, top) in itertools.pairwise(self._place(*one) for one in points):
            n = max(1, math.ceil(math.hypot((right - x) * PHONE_PX, top - y) / _STEP_PX))
            at = ((x + (right - x) * k / n, y + (top - y) * k / n) for k in range(n + 1))
            self._lines.extend(Box(a, -1.0, b - 1.0, 1.0, b + 1.0) for a, b in at)

    def name(
        self, text: str, x: float, y: float, *, size_px: float = 8.0, is_answer: bool = False, is_needed: bool = False
    ) -> bool:
        """Name a mark, and say whether there was room; where there is none beside it, text stands at a line from it.

        Parameters
        ----------
        text : str
            Lines parted by ``<br>``.
        x, y : float
            The mark, in the units of the axes.
        size_px : float
            Of the mark [px].
        is_answer : bool
            Bold, its line in the colour of an answer.
        is_needed : bool
            Whether it stands where it hurts least if no place is clear.

        Returns
        -------
        bool
            False where it was left away.
        """
        lines = text.split("<br>")
        size = (max(map(_letters, lines)) * (_BOLD_PX if is_answer else _LETTER_PX), len(lines) * _LINE_PX)
        at = self._place(x, y)
        spots = list(self._beside(at, size, size_px))
        if all(spot.cost >= _ON_MARK for spot in spots):
            away = self._away(at, size, size_px, self.height_px if is_needed else _NEAR_PX)
            spots += (spot for spot in away if is_needed or not self._is_crossed(spot))
        found = min(spots, key=lambda spot: spot.cost, default=None)
        if found is None or (found.cost >= _ON_MARK and not is_needed):
            return False
        self._texts.append(found.box)
        said = "<br>".join(map(plain, lines))
        (across, up), gap = found.side, _GAP_PX + max(size_px - 8.0, 0.0) / 2
        self.notes.append({
            "text": f"<b>{said}</b>" if is_answer else said, "showarrow": False, "font": {"size": 12},
            "align": _ACROSS[across], "x": x, "y": y, "xanchor": _ACROSS[across], "yanchor": _UP[up],
            "xshift": 0 if found.leader else across * (gap if up == 0 else gap - 3.0),
            "yshift": found.up_px if found.leader else up * (gap if across == 0 else gap - 4.0),
        })  # fmt: skip
        if found.leader is not None:
            self._texts.append(found.leader)
            self.notes.append({
                "text": "", "showarrow": True, "arrowhead": 0, "arrowwidth": 1, "standoff": size_px / 2 + 1,
                "arrowcolor": palette.CHOSEN if is_answer else NEUTRAL, "x": x, "y": y, "ax": 0, "ay": -found.up_px,
            })  # fmt: skip
        return True

    def _beside(self, at: tuple[float, float], size: tuple[float, float], mark_px: float) -> Iterator[_Spot]:
        """Places next to a mark, those towards the middle of the drawing first."""
        towards = 1 if at[0] < 1 / 2 else -1
        gap = _GAP_PX + max(mark_px - 8.0, 0.0) / 2
        ordered = [(side * across, up) for side in (towards, -towards) for across, up in _SIDES]
        for place, (across, up) in enumerate(dict.fromkeys(ordered)):
            x = across * (gap if up == 0 else gap - 3.0)
            y = at[1] + up * (gap if across == 0 else gap - 4.0)
            box = _box(at[0], (x, y), size, (across, up))
            if self._is_inside(box):
                yield _Spot(self._cost(box, at) + place, box, (across, up), 0.0, None)

    def _away(
        self, at: tuple[float, float], size: tuple[float, float], mark_px: float, reach_px: float
    ) -> Iterator[_Spot]:
        """Places above and below a mark at the end of a line from there."""
        for up in (1, -1):
            for step in range(2, int(reach_px / _STEP_PX)):
                up_px = up * (step * _STEP_PX + mark_px / 2)
                end = at[1] + up_px
                start = at[1] + up * mark_px
                leader = Box(at[0], -1.0, min(start, end), 1.0, max(start, end))
                for across in (0, 1, -1):
                    box = _box(at[0], (0.0, end), size, (across, up))
                    if self._is_inside(box):
                        crossed = _ON_TEXT * sum(_touch(leader, one) for one in self._texts)
                        crossed += _ON_LINE * sum(_touch(leader, one) for one in self._marks)
                        cost = self._cost(box, at) + crossed + abs(up_px) + 10.0
                        yield _Spot(cost, box, (across, up), up_px, leader)

    def _is_crossed(self, spot: _Spot) -> bool:
        """Whether the line from a mark to its text runs through the edge of a band."""
        return spot.leader is not None and any(_touch(spot.leader, one) for one in self._edges)

    def _is_inside(self, box: Box) -> bool:
        left, right = box.at * PHONE_PX + box.left, box.at * PHONE_PX + box.right
        return left >= 0 and right <= PHONE_PX and box.bottom >= 0 and box.top <= self.height_px

    def _cost(self, box: Box, own: tuple[float, float]) -> float:
        """What lies under a text, its own mark aside."""
        marks = sum(_touch(box, one) for one in [*self._marks, *self._edges] if not _holds(one, own))
        lines = sum(_touch(box, one) for one in self._lines)
        return _ON_TEXT * sum(_touch(box, one) for one in self._texts) + _ON_MARK * marks + _ON_LINE * lines


def _letters(text: str) -> float:
    """Letters of a text, by their width: a capital is wider.

    Examples
    --------
    >>> _letters("a few"), _letters("GPT-4")
    (5.0, 5.9)
    """
    return len(text) + _CAPITAL * sum(map(str.isupper, text))


def _box(share: float, at: tuple[float, float], size: tuple[float, float], side: tuple[int, int]) -> Box:
    """The box of a text whose edge next to a mark is at a point."""
    left, bottom = (value + (way - 1) * length / 2 for value, length, way in zip(at, size, side, strict=True))
    return Box(share, left, bottom, left + size[0], bottom + size[1])


def _touch(one: Box, other: Box) -> bool:
    """Whether boxes meet at some width: how far apart they are grows with it.

    Examples
    --------
    >>> name, near = Box(0.5, 6.0, 0.0, 40.0, 15.0), Box(0.51, -4.0, 4.0, 4.0, 12.0)
    >>> _touch(name, near), _touch(name, near._replace(at=0.49))
    (True, False)
    """
    if one.bottom >= other.top + _CLEAR_PX or other.bottom >= one.top + _CLEAR_PX:
        return False
    apart = other.at - one.at
    ends = apart * PHONE_PX, apart * _WIDE_PX
    return min(ends) < one.right - other.left + _CLEAR_PX and max(ends) > one.left - other.right - _CLEAR_PX


def _holds(box: Box, own: tuple[float, float]) -> bool:
    """Whether a mark is the one that is named, or lies on it."""
    return abs(box.at - own[0]) * _WIDE_PX <= box.right and box.bottom <= own[1] <= box.top
