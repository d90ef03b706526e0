"""Sentences on what a system trains: the run of its months, how long that run takes, and why a range leans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Card
from computeledger.questions.wording import figure_words, headline_words, percent, point, words
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
    """What the system trains in the months asked about, and how long that takes with failures where they matter."""
    trains = document["trains"]
    flop, months = trains["dense"]["flop"], f"{trains['months']:.3g} months"
    row = critical_row(trains["dense"])
    calendar = "" if row["problem"] else step_months(row)[1]
    if calendar == HARDLY:
        months += " at best"
    elif calendar and float(calendar) > trains["months"]:
        months = f"{words(float(calendar), '', 2)} months, failures included"
    said = f"a training run of {figure_words(flop, 'FLOP')} in {months}"
    return headline_words(document["spec"], said, flop, "FLOP")


def system_sentence(document: Document) -> str:
    """The model that the run trains, and the months to plan on, with what makes them more than those asked about."""
    trains = document["trains"]
    run, given = trains["dense"], percent(trains["utilization_fraction"])
    size, tokens = figure_words(run["n_params_active"], ""), figure_words(run["tokens"], "tokens")
    asked = (
        f"In {trains['months']:.3g} months without failures, at {given} utilisation, it trains a dense model of {size} "
    )
    asked += f"parameters on {tokens}"
    row = critical_row(run)
    if row["problem"]:
        return f"{asked}. No way to run its steps was found: {row['problem']}"
    return f"{asked}. {_planned(document, row)}"


def system_card(document: Document) -> Card:
    """The model that the run trains, and the months that were asked about beside those to plan on."""
    trains = document["trains"]
    run, row = trains["dense"], critical_row(trains["dense"])
    months, tokens = f"{trains['months']:.3g} months", figure_words(run["tokens"], "tokens")
    said = f"parameters, a dense model on {tokens}, in {months}"
    if not row["problem"]:
        calendar = step_months(row)[1]
        told = HARDLY if calendar == HARDLY else f"takes {words(float(calendar), '', 2)} months"
        said += f" without failures; with them it {told}"
    active = run["n_params_active"]
    return Card.of(figure_words(active, ""), said, (active, ""))


def _planned(document: Document, row: Document) -> str:
    """How long the run takes with everything that is modelled, and why."""
    months, chips = document["trains"]["months"], words(point(document["chips"]), "", 2)
    busy, calendar = row["busy_s"] / MONTH_S, row["calendar_s"] / MONTH_S
    if not step_months(row)[1][0].isdigit():
        return (
            f"Do not plan on it: where each failure stops the whole job, at rates measured on up to 16K GPUs, a run on "
            f"{chips} chips {HARDLY}"
        )
    plan = f"Plan on {words(calendar, '', 2)} months"
    if calendar <= months:
        return f"{plan}, failures included"
    if calendar - busy > busy - months:
        return (
            f"{plan}: one of {chips} chips fails so often, and stops the whole job until it restarts, that "
            f"{words(busy, '', 2)} months of training take that long"
        )
    slower = f"its steps reach {words(row['mfu_fraction'], 'fraction', 2)} of the chips' peak"
    return f"{plan}: {slower}, and failures stop the whole job"


def leaning(document: Document) -> tuple[str, ...]:
    """Why the number of chips of a power lies at the low end of its range, where one kind of chip makes it so."""
    chips, kinds = document["chips"], document["generations"]
    low, median, high = (point(chips, end) for end in ("p05", "p50", "p95"))
    if len(kinds) > 1 or median / low > 1.1 or high / median < 1.2:
        return ()
    each = kinds[0]["facility_w_per_chip"]
    usual, least = (words(point(each, end), "W") for end in ("p50", "p05"))
    more = words(high, "")
    said = f"the range of chips leans upwards: a chip takes {usual} of the facility's power, but perhaps as little as "
    return (f"{said}{least}, and then there are {more} of them",)
