"""Plot of accelerators as a plotly specification: compute over memory bandwidth, the one that is asked about marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from urllib.parse import urlencode

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.parts import Spec, plain
from computeledger.questions.wording import words
from computeledger.units import TERA

#: Height, that of the margins in it, and the mark of the one that is asked about [px]; room above for its name.
_HEIGHT_PX, _MARGIN_PX, _ASKED_PX, _LINE = 430, 76, 18, 0.2
#: Makers with a colour of their own; all others share the last one.
_MAKERS = ("NVIDIA", "AMD", "Google", "Apple")
_OTHERS = "others"
#: Accelerators that are named where there is room and none is asked about.
_KNOWN = ("h200-sxm5-141gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm", "mi300x", "tpu-v5e", "tpu-v7",
          "trainium2", "rtx-4090", "rtx-5090", "l40s", "m4-max", "rubin-ultra-gpu", "mi455x", "t4", "h20-sxm5-96gb",
          "gb10")  # fmt: skip


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
    if asked is not None:
        data.append(_asked(asked))
    notes = _labels(chips, asked, x_axis["range"], y_axis["range"])
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
        "marker": {"color": palette.CHOSEN, "size": _ASKED_PX, "symbol": "diamond-open", "line": {"width": 2.5}},
    }  # fmt: skip


def _labels(chips: Sequence[Accelerator], asked: Accelerator | None, xs: Sequence[float],
            ys: Sequence[float]) -> list[Spec]:  # fmt: skip
    """The name of the one that is asked about, else of those that are well known, where no mark lies on them."""
    labels = Labels(xs, ys, _HEIGHT_PX - _MARGIN_PX)
    places = {one.id: (math.log10(_rate(one)), math.log10(_peak(one))) for one in chips}
    for place in places.values():
        labels.mark(*place)
    if asked is not None:
        labels.name(asked.short_name or asked.name, *places[asked.id], size_px=_ASKED_PX, is_answer=True,
                    is_needed=True)  # fmt: skip
        return labels.notes
    for one in chips:
        if one.id in _KNOWN:
            labels.name(one.short_name or one.name, *places[one.id])
    return labels.notes
