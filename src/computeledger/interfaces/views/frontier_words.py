"""Sentences on what a system trains: the run of its months, how long that run takes, and why a range leans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import ends_words, figure_words, headline_words, percent, point, words
from computeledger.units import MONTH_S

Document = Mapping[str, Any]
#: Time with stops over that without beyond which a run hardly advances.
MOST_STOPPED = 10.0
HARDLY = "hardly advances"


def critical_row(run: Document) -> Document:
    """The step that aims at the median critical batch."""
    found: Document = next(one for one in run["batches"] if one["batch_over_critical"] == 1)
    return found


def step_months(row: Document) -> tuple[str, str]:
    """Months of a run without stops and with them; where stops leave less than a tenth of the time, only that."""
    busy, calendar = (row[key] / MONTH_S for key in ("busy_s", "calendar_s"))
    return f"{busy:.3g}", f"{calendar:.3g}" if calendar <= busy * MOST_STOPPED else HARDLY


def system_headline(document: Document) -> str:
    """What the system trains in the months asked about, and how long the modelled run takes for that."""
    trains = document["trains"]
    flop, given = trains["dense"]["flop"], percent(trains["utilization_fraction"])
    ends = ends_words(flop, "FLOP")
    said = f"trains {figure_words(flop, 'FLOP')}{f' ({ends})' if ends else ''} in {trains['months']:.3g} months"
    said = f"{said} at {given} utilisation"
    row = critical_row(trains["dense"])
    return headline_words(document["spec"], said if row["problem"] else f"{said}; {_whole(row, trains['months'])}")


def _whole(row: Document, months: float) -> str:
    """How long the run takes with everything that is modelled, and what takes most of the time beyond that asked."""
    stops = step_months(row)[1]
    if not stops[0].isdigit():
        return f"modelled with its failures, that run {stops}"
    failing, slower = row["calendar_s"] - row["busy_s"], row["busy_s"] - months * MONTH_S
    why = ", mostly from failures" if failing > max(slower, 0.0) and row["calendar_s"] > months * MONTH_S else ""
    return f"modelled in full, that run takes {stops} months{why}"


def system_sentence(document: Document) -> str:
    """The model that the run trains, and the utilisation and the months without failures of the operation model."""
    run = document["trains"]["dense"]
    size, tokens = figure_words(run["n_params_active"], ""), figure_words(run["tokens"], "tokens")
    asked = f"That is a dense model of {size} parameters on {tokens}"
    row = critical_row(run)
    if row["problem"]:
        return f"{asked}; the operation model finds no step: {row['problem']}"
    mfu = percent(row["mfu_fraction"])
    return f"{asked}. At the modelled MFU of {mfu} it takes {step_months(row)[0]} months without failures"


def leaning(document: Document) -> str:
    """Why the number of chips of a power lies at the low end of its range, where one kind of chip makes it so."""
    chips, kinds = document["chips"], document["generations"]
    low, median, high = (point(chips, end) for end in ("p05", "p50", "p95"))
    if len(kinds) > 1 or median / low > 1.1 or high / median < 1.2:
        return ""
    each = kinds[0]["facility_w_per_chip"]
    usual, least = (words(point(each, end), "W") for end in ("p50", "p05"))
    return (
        f" The range leans upwards: a chip takes {usual} of the facility's power, but perhaps as little as {least}, "
        f"and then there are {words(high, '')} of them."
    )
