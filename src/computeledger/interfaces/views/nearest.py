"""The measurements that are most like an answer, each with what is predicted of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots.validation import quantity_words
from computeledger.interfaces.view import Cell, Table
from computeledger.interfaces.views.display_names import chip_name, engine_name
from computeledger.questions.row_words import source_address
from computeledger.questions.wording import interval_words, percent, short_model, words

Document = Mapping[str, Any]
_NEAREST = ("of", "measured #", "predicted #", "off by #", "source")
#: The same beside a sentence on how long runs took.
_NEAREST_TIMES = (*_NEAREST[:3], "time against predicted #", _NEAREST[4])
_NOTE = "predicted: with the measurement left out of the fit; nearest by engine, model and chip, then by size"


def nearest_tables(alike: Document, *, of_times: bool = False) -> tuple[Table, ...]:
    """Table of the figures measured that are most like an answer's; of runs with the time against the predicted one."""
    near: Sequence[Document] = alike["nearest"]
    columns, off = (_NEAREST_TIMES, _longer) if of_times else (_NEAREST, lambda one: float(one["error_fraction"]))
    rows = [_row(one, off(one)) for one in near]
    return (Table("The nearest measurements", columns, rows, note=_NOTE),) if near else ()


def _longer(one: Document) -> float:
    """Share by which a run took longer than predicted; below zero where it took shorter.

    Examples
    --------
    >>> _longer({"unit": "s", "p50": 2.0, "measured": 3.0}), _longer({"unit": "tokens/s", "p50": 3.0, "measured": 2.0})
    (0.5, 0.5)
    """
    ratio = one["measured"] / one["p50"] if one["unit"] == "s" else one["p50"] / one["measured"]
    return float(ratio - 1)


def _row(one: Document, off: float) -> list[str | Cell]:
    where = ", ".join(part for part in (chip_name(one["accelerator"]), engine_name(one["engine"])) if part)
    quantity = quantity_words(one["quantity"])
    return [
        Cell(f"{short_model(one['model'])} on {where}", below=": ".join(filter(None, (quantity, one.get("load"))))),
        words(one["measured"], one["unit"]),
        Cell(words(one["p50"], one["unit"]), below=interval_words(one, one["unit"])),
        off_words(off),
        Cell(one["source"], source_address(one["url"])),
    ]


def off_words(error: float) -> str:
    """How far a prediction is off, and to which side."""
    return f"{'+' if error > 0 else chr(0x2212)}{percent(abs(error))}"
