"""The report as lines: measured beside predicted with their ratio, and what failed or was left out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.units import format_percent, format_si
from rntp.gpu.settings import REAL, sizes_of

HEAD = ("measured", "at", "value", "calibrated", "data sheet")
_NONE = "–"
_PLACES = ("calibrated", "data sheet")


def _shown(value: float, unit: str, quantity: str) -> str:
    if quantity == "MFU":
        return format_percent(value)
    return format_si(value, unit) if unit else f"{value:.3g}"


def _setting(row: Mapping[str, Any]) -> str:
    given = row["setting"]
    if "sequences" in given:
        return f"{row['model']}, {given['sequences']} x {given['sequence_tokens']} tokens"
    if "batch" not in given:
        return str(row["model"])
    return f"{row['model']}, {str(given['engine']).partition(' ')[0]}, {given['batch']} x {given['input_tokens']}"


def _predicted(row: Mapping[str, Any], place: str) -> str:
    found = row["predictions"].get(place)
    if found is None or "predicted" not in found:
        return _NONE
    ratio = found["predicted_over_measured"]
    value = _shown(found["predicted"], row["unit"], row["quantity"])
    return value if ratio is None else f"{value} ({ratio:.2f})"


def lines_of(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Write each row of a report as texts, in the order of ``HEAD``.

    Parameters
    ----------
    report : mapping
        As :func:`rntp.gpu.report.measure_gpu` gives it.

    Returns
    -------
    list of tuple of str
        In parentheses predicted over measured.

    Examples
    --------
    >>> row = {"model": "0.5B", "quantity": "prefill", "value": 0.02, "unit": "s",
    ...     "setting": {"batch": 1, "input_tokens": 512, "engine": "vllm 0.12"},
    ...     "predictions": {"calibrated": {"predicted": 0.01, "predicted_over_measured": 0.5}}}
    >>> lines_of({"rows": [row]})
    [('prefill', '0.5B, vllm, 1 x 512', '20 ms', '10 ms (0.50)', '–')]
    """
    out = []
    for key, rows in itertools.groupby(report["rows"], lambda row: (row["model"], row["setting"].get("phase"))):
        if key[1] is None:
            out += [(row["quantity"], _setting(row), *_cells([row])) for row in rows]
        else:
            out.append((f"step of RL: {key[1]}", str(key[0]), *_cells(list(rows))))
    return out


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What was measured and predicted, one line per quantity."""
    measured = [_shown(row["value"], row["unit"], row["quantity"]) for row in rows]
    if len(rows) > 1:
        measured = [
            f"MFU {text}" if one["quantity"] == "MFU" else text for one, text in zip(rows, measured, strict=True)
        ]
    predicted = [[_predicted(row, place) for row in rows] for place in _PLACES]
    filled = [[text for text in some if text != _NONE] or [_NONE] for some in predicted]
    return ", ".join(measured), *(", ".join(some) for some in filled)


def notes_of(report: Mapping[str, Any]) -> list[str]:
    """Say what failed, what was left out, and what could not be predicted.

    Parameters
    ----------
    report : mapping
        As :func:`rntp.gpu.report.measure_gpu` gives it.

    Returns
    -------
    list of str
        A line each.

    Examples
    --------
    >>> notes_of({"rows": [], "parts": [{"part": "vllm", "failed": "", "notes": ["left out: not installed"]}]})
    ['vllm: left out: not installed']
    """
    failed = [f"{one['part']}: failed: {one['failed']}" for one in report["parts"] if one["failed"]]
    left = [f"{one['part']}: {said}" for one in report["parts"] for said in one["notes"]]
    reasons = [
        f"no prediction ({place}): {found['reason']}"
        for row in report["rows"]
        for place, found in row["predictions"].items()
        if "reason" in found
    ]
    return [*failed, *left, *dict.fromkeys(reasons)]


def markdown(report: Mapping[str, Any]) -> str:
    """Write a report as a page.

    Parameters
    ----------
    report : mapping
        As :func:`rntp.gpu.report.measure_gpu` gives it.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> about = {"device": "CPU", "date": "2026-01-31", "peak_flop_per_s": 1e12, "peak_source": "sheet", "took_s": 9.0}
    >>> markdown(about | {"rows": [], "parts": []}).splitlines()[0]
    '# CPU, measured on 2026-01-31'
    """

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return "\n".join(
        [
            f"# {report['device']}, measured on {report['date']}", "",
            *(f"{one}\n" for one in measured_with(report)), about(report), "",
            line(HEAD), line(["---"] * len(HEAD)), *map(line, lines_of(report)), "",
            *(f"- {one}" for one in notes_of(report)), "",
        ]
    )  # fmt: skip


def measured_with(report: Mapping[str, Any]) -> list[str]:
    """Say what a dry run is worth, and with which sizes a GPU, or the dry run, is measured.

    Parameters
    ----------
    report : mapping
        As :func:`rntp.gpu.report.measure_gpu` gives it.

    Returns
    -------
    list of str
        One line, or none where the report does not say.

    Examples
    --------
    >>> measured_with({"dry": True})[0][:45]
    'Dry run: shapes and figures mean nothing; it '
    >>> measured_with({"dry": False, "sizes": ["RL: 6 steps", "prefill of 1 x 512 tokens"]})
    ['Measured with: RL: 6 steps; prefill of 1 x 512 tokens.']
    """
    if report.get("dry"):
        said = "Dry run: shapes and figures mean nothing; it shows that every part runs. A GPU is measured with"
        return [f"{said}: {'; '.join(sizes_of(REAL))}."]
    return [f"Measured with: {'; '.join(report['sizes'])}."] if report.get("sizes") else []


def about(report: Mapping[str, Any]) -> str:
    """Say what utilisation is against, and how long it took.

    Parameters
    ----------
    report : mapping
        As :func:`rntp.gpu.report.measure_gpu` gives it.

    Returns
    -------
    str
        One sentence.

    Examples
    --------
    >>> about({"peak_flop_per_s": 1e12, "peak_source": "l4, bf16", "took_s": 9.0})
    'Peak 1 TFLOP/s (l4, bf16); 9 s in all. In parentheses: predicted over measured.'
    """
    peak = format_si(report["peak_flop_per_s"], "FLOP/s") if report["peak_flop_per_s"] else "not known"
    took = format_si(report["took_s"], "s")
    return f"Peak {peak} ({report['peak_source']}); {took} in all. In parentheses: predicted over measured."
