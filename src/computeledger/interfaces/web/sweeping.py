"""A sweep: one figure of a page against one of its boxes, each value asked as if it stood in the box."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.interfaces.plots.sweep import Axis, Swept, sweep_figure
from computeledger.interfaces.view import Plot
from computeledger.interfaces.web.pages import page_named
from computeledger.interfaces.web.spec import Control, ControlError, Page, Tile, checked
from computeledger.progress import counted
from computeledger.questions.wording import words
from computeledger.units import parse_quantity

#: Values over the bounds of a box, and how many of them must have an answer for no others to be asked.
N_VALUES, _FEW = 9, 6
#: Answers kept, so that another figure over the same values, or a sweep that goes on, asks nothing again.
_KEPT = 512


@dataclass(frozen=True, slots=True)
class _Found:
    """What stands in the tiles at one value, or why there is no answer."""

    tiles: tuple[Tile, ...] = ()
    command: str = ""
    main: str = ""
    why: str = ""


def values_of(control: Control, low: float, high: float) -> tuple[float, ...]:
    """Values of a box from one to another, as its slider would give them.

    Examples
    --------
    >>> values_of(Control("gpus", "GPUs", is_power=True), 1, 64)
    (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    >>> values_of(Control("share", "Share", log=False), 0.0, 0.8)[:3]
    (0.0, 0.1, 0.2)
    """
    shares = [place / (N_VALUES - 1) for place in range(N_VALUES)]
    is_log = control.log and low > 0
    free = [low * (high / low) ** share if is_log else low + share * (high - low) for share in shares]
    return tuple(dict.fromkeys(_rounded(control, value) for value in free))


def _rounded(control: Control, value: float) -> float:
    if control.is_power:
        return float(2 ** round(math.log2(value)))
    short = float(f"{value:.2g}")
    return float(max(round(short), math.ceil(control.low))) if control.whole else short


def sweep_document(name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """A sweep of a page's answer; ``sweep`` of what is asked names the box and ``figure`` the tile.

    Examples
    --------
    >>> sweep_document("serve", {"sweep": "model"})
    Traceback (most recent call last):
    computeledger.interfaces.web.spec.ControlError: 'model': no box of numbers on this page; ...
    """
    page = page_named(name)
    control = _control(page, asked.get("sweep", ""))
    boxes = {key: text for key, text in asked.items() if key not in ("sweep", "figure", control.name)}
    found = _over_bounds(page, control, boxes)
    answered = [one for one in found.values() if one.tiles]
    if not answered:
        why = next(iter(found.values())).why or "none has figures"
        raise ControlError(control.name, f"no value of {control.label} has an answer; {why}")
    label = _figure(answered, asked.get("figure", ""))
    points = {value: _tile(one, label) for value, one in found.items()}
    runs = list(_runs(points))
    unit = next(one.unit for one in points.values() if one is not None)
    present = _present(page, control, asked)
    drawn = sweep_figure(runs, Axis(_label(control), "", control.log), Axis(label, unit), present)
    return {
        "plot": asdict(
            Plot("sweep", f"{label} against {control.label}", _caption(control, len(answered), present), drawn)
        ),
        "figures": _figures(answered),
        "points": [
            {"at": at, "text": _text(at), "value": one.value, "low": one.low, "high": one.high}
            for at, one in points.items()
            if one is not None
        ],
        "missing": [f"{control.label} {words(at, '')}: {one.why}" for at, one in found.items() if not one.tiles],
        "command": _command(control, found, label),
    }


def _over_bounds(page: Page, control: Control, boxes: Mapping[str, str]) -> dict[float, _Found]:
    """What is found at values over the box's bounds; where most have no answer, at others among those that do, too."""
    found: dict[float, _Found] = {}

    def look(low: float, high: float) -> None:
        for value in counted([one for one in values_of(control, low, high) if one not in found], "values"):
            asked = checked(page, {**boxes, control.name: _text(value)})
            found[value] = _asked(page.name, tuple(asked.items()))

    look(control.low, control.high)
    answered = [value for value, one in found.items() if one.tiles]
    if 0 < len(answered) < _FEW:
        look(min(answered), min((value for value in found if value > max(answered)), default=max(answered)))
    return dict(sorted(found.items()))


def _text(value: float) -> str:
    return f"{value:.10g}"


def _label(control: Control) -> str:
    return f"{control.label} [{control.unit_shown}]" if control.unit_shown else control.label


def _control(page: Page, name: str) -> Control:
    boxes = {one.name: one for one in page.controls if one.kind == "number"}
    if name not in boxes:
        raise ControlError("", f"{shown(name)}: no box of numbers on this page; {nearest(name, boxes)}")
    return boxes[name]


@functools.lru_cache(maxsize=_KEPT)
def _asked(name: str, values: tuple[tuple[str, str], ...]) -> _Found:
    page = page_named(name)
    try:
        answer = page.answer(dict(values), False)
        view = page.view(answer)
        return _Found(tuple(one for one in view.tiles if one.value is not None), answer.command, view.main)
    except InputError as error:
        return _Found(why=str(error))


def _figures(found: Sequence[_Found]) -> list[str]:
    return list(dict.fromkeys(tile.label for one in found for tile in one.tiles))


def _figure(found: Sequence[_Found], label: str) -> str:
    """The figure that is asked for; the first where none is."""
    labels = _figures(found)
    if not label:
        return labels[0]
    if label not in labels:
        raise ControlError("", f"{shown(label)}: no figure of this answer; {nearest(label, labels)}")
    return label


def _tile(found: _Found, label: str) -> Tile | None:
    return next((one for one in found.tiles if one.label == label), None)


def _runs(points: Mapping[float, Tile | None]) -> Iterator[list[Swept]]:
    """Neighbouring values that have an answer."""
    run: list[Swept] = []
    for at, tile in points.items():
        if tile is None or tile.value is None:
            if run:
                yield run
            run = []
            continue
        value = tile.value
        run.append(Swept(at, value, value if tile.low is None else tile.low, value if tile.high is None else tile.high))
    if run:
        yield run


def _present(page: Page, control: Control, asked: Mapping[str, str]) -> float | None:
    """The number in the box; None where it is empty, a range, or a time with a unit of its own."""
    text = asked.get(control.name, page.defaults(asked)[control.name])
    try:
        value = parse_quantity(text, "count")
    except InputError:
        return None
    return value if isinstance(value, float) else None


def _caption(control: Control, n: int, present: float | None) -> str:
    line = "" if present is None else " The dotted line is the value in the box."
    return (
        f"Median and 90 % interval at {n} values of {control.label} from {control.range_shown}; every other box as it "
        f"stands.{line}"
    )


def _command(control: Control, found: Mapping[float, _Found], label: str) -> str:
    """What asks the same on a command line, value by value; the page's own command where the value is in a file."""
    answered = {at: one for at, one in found.items() if one.tiles}
    option = f"--{control.option or control.name}="
    commands = [one.command for one in answered.values()]
    rests = {tuple(part for part in shlex.split(one) if not part.startswith(option)) for one in commands}
    if len(rests) > 1 or not any(option in one for one in commands):
        return commands[0]
    first = next(iter(answered.values()))
    is_main = any(one.label == label and one.key == first.main for one in first.tiles)
    values, rest = " ".join(map(_text, answered)), shlex.join(rests.pop())
    return f'for value in {values}; do {rest} "{option}$value" {"--brief" if is_main else "--json"}; done'
