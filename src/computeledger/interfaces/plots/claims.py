"""Plots of claims as plotly specifications: verdicts by document, and what is recomputed over what was said."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.answers.claims import ratio_of

Claim = Mapping[str, Any]
_BAR_PX, _ROW_PX = 44, 54
#: Share of a phone's width that a character takes.
_CHARACTER = 0.024
#: Characters of a line above a claim's row on a phone, those of a line under the pointer, and claims that have a row.
_NARROW, _LINE, _MOST_ROWS = 46, 44, 8
#: Where a row's words and its mark stand, above and below its middle.
_WORDS, _MARK = 0.14, -0.36
#: Rows of dots that a strip of many claims takes, and its height in rows.
_LANES, _STRIP = 4, 1.7


#: Two entries of a legend side by side, on a phone too.
_TWO_A_LINE: Spec = {
    "traceorder": "normal", "entrywidth": 0.49, "entrywidthmode": "fraction", "font": {"size": 12},
}  # fmt: skip


def tally_figure(claims: Sequence[tuple[str, str]], kinds: Mapping[str, tuple[str, str]]) -> Spec:
    """Shares of each document's claims by kind, one bar for a document; ``kinds`` have words and a colour.

    Examples
    --------
    >>> kinds = {"fails": ("do not hold", "#C22F2F"), "holds": ("hold", "#2E8540")}
    >>> figure = tally_figure([("essay", "holds"), ("essay", "holds"), ("essay", "fails")], kinds)
    >>> [(one["name"], one["x"]) for one in figure["data"]]
    [('do not hold', [0.3333]), ('hold', [0.6667])]
    """
    counts = Counter(claims)
    totals = Counter(document for document, kind in claims if kind in kinds)
    documents = [name for name, _ in totals.most_common()]
    data: list[Spec] = []
    for kind, (said, color) in kinds.items():
        own = [counts[name, kind] for name in documents]
        shares = [n / totals[name] for n, name in zip(own, documents, strict=True)]
        if any(own):
            data.append({
                "type": "bar", "orientation": "h", "name": said, "x": rounded(shares),
                "y": [-place - 0.12 for place in range(len(own))], "width": [0.5] * len(own),
                "text": [_fitting(n, said, share) for n, share in zip(own, shares, strict=True)],
                **parts.bar_text(color), "constraintext": "none",
                "marker": {"color": color, "line": {"width": 1, "color": "rgba(127,127,127,0.6)"}},
                "hovertext": [f"{plain(name)}: {n} of {totals[name]}" for name, n in zip(documents, own, strict=True)],
                "hovertemplate": f"%{{hovertext}} {said}<extra></extra>",
            })  # fmt: skip
    notes = [parts.note(f"{plain(name)}  <b>{totals[name]}</b>", -place + 0.32) for place, name in enumerate(documents)]
    top, n_rows = 8 + 20 * math.ceil(len(data) / 2), max(len(documents), 1)
    layout = parts.layout(
        _BAR_PX * n_rows + top + 12, notes, barmode="stack", showlegend=True,
        legend={**parts.LEGEND, **_TWO_A_LINE}, margin={"l": 4, "r": 8, "t": top, "b": 4},
        xaxis={"range": [0, 1], "visible": False, "fixedrange": True},
        yaxis={"range": [0.55 - n_rows, 0.55], **parts.ROWS},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _fitting(n: int, said: str, share: float) -> str:
    """What of a number and its word a segment has room for, on a phone too."""
    return next((text for text in (f"{n} {said}", str(n)) if n and share > _CHARACTER * len(text)), "")


def ratios_figure(
    claims: Sequence[Claim], names: Mapping[str, str], words: Mapping[str, tuple[str, str]] | None = None
) -> Spec:
    """Said over recomputed on one axis: a row for each of the furthest off, one strip for all others of a verdict.

    ``words`` are by claim what its number is of, and what was said and is.

    Examples
    --------
    >>> claim = {"verdict": "fails", "claimed": 2.0, "recomputed": 8.0, "recomputed_as_stated": None, "id": "C001"}
    >>> claim |= {"claim": "two"}
    >>> ratios_figure([claim], {"fails": "does not hold"})["data"][-1]["x"]
    [0.25]
    """
    known = [(one, _drawn(one, ratio)) for one in claims if (ratio := ratio_of(one)) is not None]
    failing = sorted((pair for pair in known if pair[0]["verdict"] == "fails"), key=lambda pair: -_off(pair[1][1]))
    rows = failing[:_MOST_ROWS]
    strips = {"fails": failing[_MOST_ROWS:]}
    strips |= {name: [pair for pair in known if pair[0]["verdict"] == name] for name in ("holds_if", "holds")}
    strips = {name: own for name, own in strips.items() if own}
    bottom = -len(rows) - _STRIP * len(strips)
    axis = parts.log_axis([1.0, *(end for _, ratio in known for end in ratio)], _tick, 0.08)
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"color": color, "width": width},
         "xaxis": side, **_unbroken(len(rows), len(strips), places)}
        for places, color, width, side in (
            (axis["tickvals"], parts.faint(palette.OTHER, 0.3), 1, "x2"), ([1.0], palette.OTHER, 1.5, "x"),
        )
    ]  # fmt: skip
    notes: list[Spec] = []
    said = words or {}
    for place, (one, ratio) in enumerate(rows):
        data += _row(ratio, -place + _MARK)
        head = said.get(one["id"], (one["claim"], f"said {off_words(ratio[1])}"))
        notes.append(parts.note(_said(*head), -place + _WORDS))
    for place, (name, own) in enumerate(strips.items()):
        top = -len(rows) - _STRIP * place
        total = sum(one["verdict"] == name for one in claims) - (len(rows) if name == "fails" else 0)
        without = f" ({total - len(own)} have no ratio)" if total > len(own) else ""
        notes.append(parts.note(f"<b>{total}</b> {names[name]}{without}", top + 0.26))
        data.append(_dots(own, [top - 0.12 - 0.26 * (lane % _LANES) for lane in range(len(own))]))
    if rows:
        data.append(_dots(rows, [-place + _MARK for place in range(len(rows))]))
    across = {**axis, "showgrid": False}
    notes += _sides(axis["range"])
    layout = parts.layout(
        round(_ROW_PX * -bottom) + 92, notes, xaxis=across,
        xaxis2={**across, "overlaying": "x", "side": "top"},
        yaxis={"range": [bottom + 0.4, 0.55], **parts.ROWS}, margin={"l": 4, "r": 12, "t": 52, "b": 28},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _sides(ends: Sequence[float]) -> list[Spec]:
    """What the two halves of the axis say, as far as there is one, at its ends."""
    halves = ((-ends[0], "← said too low", 0, "left"), (ends[1], "said too high →", 1, "right"))
    return [
        {"text": text, "x": x, "xref": "paper", "xanchor": side, "y": 1, "yref": "paper", "yshift": 34,
         "showarrow": False}
        for reach, text, x, side in halves if reach > _NARROWEST * (ends[1] - ends[0])
    ]  # fmt: skip


#: Share of the axis that a half has at least to be named.
_NARROWEST = 0.1


def _drawn(claim: Claim, ratio: tuple[float, float, float]) -> tuple[float, float, float]:
    """Where a claim stands: a bound or a range that holds is right, however far what is lies inside it."""
    is_wide = claim.get("relation", "equals") in ("at_least", "at_most") or isinstance(claim["claimed"], Sequence)
    return (1.0, 1.0, 1.0) if claim["verdict"] == "holds" and is_wide else _turned(ratio)


def _turned(ratio: tuple[float, float, float]) -> tuple[float, float, float]:
    """Said over recomputed, from recomputed over said."""
    low, middle, high = ratio
    return 1 / high, 1 / middle, 1 / low


def off_words(ratio: float) -> str:
    """How far a number is off, by what was said over what is.

    Examples
    --------
    >>> [off_words(ratio).replace(chr(160), " ") for ratio in (88.6, 0.125, 241.0)]
    ['89× too high', '8× too low', '240× too high']
    """
    return f"{float(f'{_off(ratio):.2g}'):g}×\u00a0too {'high' if ratio > 1 else 'low'}"


def _off(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _tick(ratio: float) -> str:
    """A tick of the axis in words."""
    return "right" if ratio == 1 else f"{_off(ratio):g}×"


def _unbroken(n_rows: int, n_strips: int, places: Sequence[float]) -> Spec:
    """Upright lines at some places of the axis, with a gap where the words of a row or of a strip stand."""
    spans = [(-place - 0.22, -place - 0.52) for place in range(n_rows)]
    spans += [(top + 0.08, top - 1.0) for top in (-n_rows - _STRIP * place for place in range(n_strips))]
    return {
        "x": [end for x in places for end in (*rounded([x, x]), None) * len(spans)],
        "y": [end for start, stop in spans for end in (start, stop, None)] * len(places),
    }


def _said(of: str, numbers: str) -> str:
    """What a number is of and what was said of it, on a line each."""
    lines = textwrap.wrap(of, _NARROW)
    shown = plain(lines[0]) + ("\u2026" if lines[1:] else "")
    return f"<b>{shown}</b><br>{plain(numbers)}"


def _row(ratio: tuple[float, float, float], y: float) -> list[Spec]:
    """Where the recomputed range lies."""
    ends = rounded((ratio[0], ratio[2]))
    return [
        {"type": "scatter", "mode": "lines", "x": ends, "y": [y, y], "hoverinfo": "skip",
         "line": {"color": palette.BAD, "width": 2}}
    ] if ends[0] < ends[1] else []  # fmt: skip


def _dots(own: Sequence[tuple[Claim, tuple[float, float, float]]], places: Sequence[float]) -> Spec:
    name = own[0][0]["verdict"]
    return {
        "type": "scatter", "mode": "markers", "x": rounded(ratio[1] for _, ratio in own), "y": list(places),
        "marker": {"color": palette.VERDICTS[name], "size": 11 if name == "fails" else 8, "line": {"width": 0},
                   "symbol": {"fails": "x", "holds_if": "diamond", "holds": "circle"}[name]},
        "hovertext": [_hover(one, ratio[1]) for one, ratio in own], "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }  # fmt: skip


def _hover(one: Claim, ratio: float) -> str:
    texts = [one["claim"]] if one["verdict"] == "holds" else [one["claim"], one.get("reason", "")]
    lines = "<br>".join(plain(line) for text in texts for line in textwrap.wrap(text, _LINE))
    off = "as said" if _off(ratio) < _NEARLY else off_words(ratio)
    return f"<b>{one['id']}</b>, {off}<br>{lines}"


#: Times off that two digits do not show.
_NEARLY = 1.05
