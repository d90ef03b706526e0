"""The plot of one figure against one box: its median as a curve, its 90 % interval as a band."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from computeledger.interfaces.plots.parts import NEUTRAL, SERIES, Spec, interval_band, layout, log_axis, plain, rounded
from computeledger.questions.wording import span, words

_HEIGHT_PX = 340
#: Values that spread by more than this are drawn on a logarithmic axis [-].
_WIDE = 4.0
#: About as many ticks stand on a linear axis.
_TICKS = 6


@dataclass(frozen=True, slots=True)
class Swept:
    """A figure at one value of a box."""

    at: float
    value: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float]:
        """Where its interval begins and ends."""
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis is of, and its unit."""

    label: str
    unit: str
    is_log: bool = False


def sweep_figure(runs: Sequence[Sequence[Swept]], box: Axis, figure: Axis, present: float | None) -> Spec:
    """A curve for each run of values without a gap, over its interval; a line marks the present value.

    Examples
    --------
    >>> run = [Swept(1.0, 2.0, 1.0, 3.0), Swept(2.0, 4.0, 2.0, 6.0)]
    >>> drawn = sweep_figure([run], Axis("Batch", "", True), Axis("Output", "USD/Mtok"), 1.5)
    >>> [one["mode"] for one in drawn["data"]], drawn["layout"]["shapes"][0]["x0"]
    (['lines', 'lines+markers'], 1.5)
    """
    every = [one for run in runs for one in run]
    ends = [end for one in every for end in (one.value, *one.ends)]
    is_log = min(ends) > 0 and max(ends) / min(ends) > _WIDE
    marked = [] if present is None else [present]
    x = _axis([*(one.at for one in every), *marked], box.is_log, lambda value: words(value, box.unit))
    y = _axis(ends, is_log, lambda value: words(value, figure.unit))
    line = {"type": "line", "x0": present, "x1": present, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": NEUTRAL, "width": 1.5, "dash": "dot"}}  # fmt: skip
    above = {"text": f"{plain(figure.label)} \u2191", "x": 0, "xref": "paper", "xanchor": "left", "y": 1.0,
             "yref": "paper", "yanchor": "bottom", "showarrow": False, "font": {"size": 12}}  # fmt: skip
    return {
        "data": [trace for run in runs for trace in _traces(run, box, figure)],
        "layout": layout(
            _HEIGHT_PX, [above], xaxis={**x, "title": {"text": f"{plain(box.label)} \u2192"}}, yaxis=y,
            margin={"l": 4, "r": 12, "t": 26, "b": 48}, shapes=[line] if marked else [],
        ),
    }  # fmt: skip


def _traces(run: Sequence[Swept], box: Axis, figure: Axis) -> list[Spec]:
    across = rounded(one.at for one in run)
    band: Spec = {
        "type": "scatter", "mode": "lines", "x": [*across, *reversed(across)], "hoverinfo": "skip",
        "y": rounded([*(one.low for one in run), *(one.high for one in reversed(run))]),
        **interval_band(SERIES[1]),
    }  # fmt: skip
    curve: Spec = {
        "type": "scatter", "mode": "lines+markers", "x": across, "y": rounded(one.value for one in run),
        "line": {"color": SERIES[1], "width": 2}, "marker": {"color": SERIES[1], "size": 7},
        "hovertemplate": [_said(one, box, figure) for one in run],
    }  # fmt: skip
    return [band, curve]


def _said(one: Swept, box: Axis, figure: Axis) -> str:
    ends = span(*one.ends, figure.unit)
    return f"{words(one.at, box.unit)}: {words(one.value, figure.unit)}{f'<br>{ends}' if ends else ''}<extra></extra>"


def _axis(values: Sequence[float], is_log: bool, label: Callable[[float], str]) -> Spec:
    if is_log:
        return log_axis(values, label)
    low, high = min(values), max(values)
    low = 0.0 if 0 < low < 0.5 * high else low
    rough = (high - low or abs(high) or 1.0) / _TICKS
    tenth = 10.0 ** math.floor(math.log10(rough))
    step = tenth * next(size for size in (1, 2, 5, 10) if size * tenth >= rough * (1 - 1e-9))
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [float(f"{place * step:.6g}") for place in range(first, last + 1)]
    return {"type": "linear", "range": [ticks[0], ticks[-1] or 1.0], "tickvals": ticks,
            "ticktext": [label(tick) for tick in ticks], "fixedrange": True, "zeroline": False}  # fmt: skip
