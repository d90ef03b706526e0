"""Plot of accelerators as a plotly specification: compute over memory bandwidth, the one that is asked about marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Place, names_beside
from computeledger.interfaces.plots.parts import Spec, plain
from computeledger.questions.wording import words
from computeledger.units import TERA

_HEIGHT_PX = 430
#: Room of a letter and of a line, in decades of bandwidth and of compute, on a phone.
_LETTER, _LINE = 0.07, 0.2
#: Makers with a colour of their own; all others share the last one.
_MAKERS = ("NVIDIA", "AMD", "Google", "Apple")
_OTHERS = "others"
#: Accelerators that are named where there is room and none is asked about.
_KNOWN = ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm", "mi300x", "tpu-v5e", "tpu-v7", "trainium2", "rtx-4090",
          "rtx-5090", "l40s", "m4-max", "rubin-ultra-gpu", "mi455x", "t4", "h20-sxm5-96gb", "gb10")  # fmt: skip


def chips_figure(chips: Sequence[Accelerator], asked: Accelerator | None = None) -> Spec:
    """Dense bf16 compute over memory bandwidth, both logarithmic; a press on a mark leads to the facts of its chip.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> chips = [load_accelerator(one) for one in ("h200-sxm5-141gb", "mi300x")]
    >>> figure = chips_figure(chips, chips[0])
    >>> [one["name"] for one in figure["data"]], figure["data"][0]["customdata"]
    (['NVIDIA', 'AMD', 'H200'], ['/facts?words=h200-sxm5-141gb'])
    """
    x_axis = parts.log_axis([_rate(one) for one in chips], lambda value: f"{value / TERA:,.4g}")
    y_axis = parts.log_axis([_peak(one) for one in chips], lambda value: f"{value / TERA:,.6g}", 0.1)
    if asked is not None:
        y_axis["range"][1] += _LINE
    groups = [(maker, [one for one in chips if _maker(one) == maker]) for maker in (*_MAKERS, _OTHERS)]
    data = [_marks(maker, place, held) for place, (maker, held) in enumerate(groups) if held]
    places = [Place(one.short_name or one.name, math.log10(_rate(one)), math.log10(_peak(one)),
                    asked is None and one.id in _KNOWN) for one in chips]  # fmt: skip
    notes = names_beside(places, x_axis["range"], (_LETTER, _LINE))
    if asked is not None:
        data.append(_asked(asked))
        notes += _asked_label(asked, x_axis["range"], y_axis["range"][1])
    layout = parts.layout(
        _HEIGHT_PX, notes, showlegend=True, legend=parts.LEGEND,
        xaxis=x_axis | {"title": {"text": "memory bandwidth, TB/s →"}}, yaxis=y_axis,
        margin={"l": 8, "r": 12, "t": 28, "b": 48},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _rate(one: Accelerator) -> float:
    return one.hbm_bytes_per_s.value


def _peak(one: Accelerator) -> float:
    return one.peak("bf16")


def _maker(one: Accelerator) -> str:
    return one.vendor if one.vendor in _MAKERS else _OTHERS


def _marks(maker: str, place: int, chips: Sequence[Accelerator]) -> Spec:
    return {
        "type": "scatter", "mode": "markers", "name": maker, "showlegend": True,
        "x": parts.rounded(map(_rate, chips)), "y": parts.rounded(map(_peak, chips)),
        "marker": {"color": palette.GROUPS[place], "symbol": parts.MARKS[place], "size": 8, "line": {"width": 0}},
        "customdata": [f"/facts?{urlencode({'words': one.id})}" for one in chips],
        "hovertemplate": [f"{_hover(one)}<extra></extra>" for one in chips],
    }  # fmt: skip


def _hover(one: Accelerator) -> str:
    said = f"{words(_peak(one), 'flop_per_s')} dense {one.wide_unit}, {words(_rate(one), 'bytes_per_s')}"
    more = f"{words(one.hbm_bytes.value, 'bytes')}, {words(one.chip_tdp_w.value, 'W')}"
    state = ", announced" if one.announced else ""
    return f"<b>{plain(one.name)}</b>{state}<br>{said}<br>{more}"


def _asked(one: Accelerator) -> Spec:
    return {
        "type": "scatter", "mode": "markers", "name": one.short_name or one.name, "showlegend": False,
        "hoverinfo": "skip", "x": parts.rounded([_rate(one)]), "y": parts.rounded([_peak(one)]),
        "marker": {"color": palette.CHOSEN, "size": 18, "symbol": "diamond-open", "line": {"width": 2.5}},
    }  # fmt: skip


def _asked_label(one: Accelerator, ends: Sequence[float], top: float) -> list[Spec]:
    """Its name above all marks, to the side that has room, and a line from there."""
    x, y = math.log10(_rate(one)), math.log10(_peak(one))
    is_right = 2 * x > sum(ends)
    text: dict[str, Any] = {
        "text": f"<b>{plain(one.short_name or one.name)}</b>", "showarrow": False, "font": {"size": 13},
        "x": x, "y": top, "xanchor": "right" if is_right else "left", "yanchor": "top",
        "xshift": 8 if is_right else -8,
    }  # fmt: skip
    line = {
        "text": "", "showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": palette.CHOSEN, "x": x, "y": y,
        "standoff": 9, "ax": x, "ay": top - _LINE, "axref": "x", "ayref": "y",
    }  # fmt: skip
    return [text, line]
