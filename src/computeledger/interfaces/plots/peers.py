"""Plot of this project's errors beside those of another tool, as a plotly specification."""

from __future__ import annotations

from collections.abc import Mapping

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import percent

_ROW_PX = 74
#: Where the two bars of a row stand, and how high each is, in rows.
_PLACES, _HIGH = (0.02, -0.24), 0.22
#: Share of a chart's width for the words behind the longest bar.
_WORDS = 0.42


def peers_figure(rows: Mapping[str, tuple[int, float, float]], peer: str, own: str = "Compute Ledger") -> Spec:
    r"""Median errors of two tools on the same figures: for each quantity how many, our error and the other's.

    Examples
    --------
    >>> figure = peers_figure({"first token": (10, 0.3, 0.6)}, "other")
    >>> [(trace["name"], trace["x"], trace["text"]) for trace in figure["data"]]
    [('Compute Ledger', [0.3], ['Compute Ledger <b>30\xa0%</b>']), ('other', [0.6], ['other <b>60\xa0%</b>'])]
    """
    places = list(range(len(rows)))[::-1]
    most = max((error for _, *errors in rows.values() for error in errors), default=1.0)
    data: list[Spec] = []
    for side, (name, color) in enumerate(((own, palette.CHOSEN), (peer, palette.OTHER))):
        errors = [row[1 + side] for row in rows.values()]
        data.append({
            "type": "bar", "orientation": "h", "name": plain(name), "x": rounded(errors),
            "y": [place + _PLACES[side] for place in places], "width": [_HIGH] * len(places),
            "marker": {"color": color, "line": {"width": 0}}, "textposition": "outside", "cliponaxis": False,
            "text": [f"{plain(name)} <b>{percent(error, 2)}</b>" for error in errors], "hoverinfo": "skip",
        })  # fmt: skip
    notes = [
        parts.note(f"<b>{plain(name)}</b>  {row[0]:,} figures", place + 0.32)
        for place, (name, row) in zip(places, rows.items(), strict=True)
    ]
    layout = parts.layout(
        _ROW_PX * len(rows) + 8, notes, barmode="overlay",
        xaxis={"range": [0, most / (1 - _WORDS)], "visible": False, "fixedrange": True},
        yaxis={"range": [-0.45, len(rows) - 0.5], **parts.ROWS}, margin={"l": 4, "r": 4, "t": 4, "b": 4},
    )  # fmt: skip
    return {"data": data, "layout": layout}
