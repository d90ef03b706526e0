"""Sentences on what a system trains: the run of its months, how long that run takes, and why a range leans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from computeledger.frontier.epoch_files import SPECULATIVE, record_below
from computeledger.interfaces.view import Card
from computeledger.questions.wording import figure_words, headline_words, interval_words, point, words
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, MONTH_S

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


def month_ends(row: Document) -> str:
    """The 90 % interval of the months with failures; without an upper end where the run may hardly advance.

    Examples
    --------
    >>> ends = {"calendar_low_s": 5.8 * MONTH_S, "calendar_high_s": 29.9 * MONTH_S, "busy_s": 4.6 * MONTH_S}
    >>> month_ends(ends), month_ends({**ends, "calendar_high_s": None})
    ('5.8 to 30', '5.8 or more')
    """
    if row["calendar_low_s"] is None:
        return ""
    low, high = words(row["calendar_low_s"] / MONTH_S, "", 2), row["calendar_high_s"]
    if high is None or high > row["busy_s"] * MOST_STOPPED:
        return f"{low} or more"
    return f"{low} to {words(high / MONTH_S, '', 2)}"


def lost_months(row: Document) -> str:
    """Months that failures take: those of the calendar less those of the steps, as both are printed.

    Examples
    --------
    >>> lost_months({"busy_s": 4.56 * MONTH_S, "calendar_s": 7.9 * MONTH_S})
    '3.3'
    """
    if step_months(row)[1] == HARDLY:
        return HARDLY
    busy, calendar = (float(words(row[key] / MONTH_S, "", 2)) for key in ("busy_s", "calendar_s"))
    return words(max(calendar - busy, 0.0), "", 2)


def more_months(asked: float, row: Document) -> str:
    """Months that the steps take beyond those asked, as both are printed; with a minus where they take fewer.

    Examples
    --------
    >>> more_months(4.0, {"busy_s": 4.64 * MONTH_S, "calendar_s": 7.9 * MONTH_S})
    '0.6'
    """
    busy = float(words(row["busy_s"] / MONTH_S, "", 2))
    return words(busy - asked, "", 2) if busy >= asked else f"\u2212{words(asked - busy, '', 2)}"


def months_made_of(trains: Document) -> str:
    """What the months of the dense run are made of: those asked, those of slower steps, those that failures take."""
    row = critical_row(trains["dense"])
    slower, lost = more_months(trains["months"], row), lost_months(row)
    said = f"{trains['months']:.3g} as asked"
    if slower != "0":
        is_faster = slower[:1] == "\u2212"
        said += f", {slower[1:]} less for faster steps" if is_faster else f", {slower} for slower steps"
    return f"{said}; with failures it {HARDLY}" if lost == HARDLY else f"{said}, {lost} for failures"


@dataclass(frozen=True, slots=True)
class OverRecord:
    """How many times the compute of a known run, with its 90 % interval."""

    name: str
    times: str
    band: str
    is_estimate: bool = False

    @property
    def said(self) -> str:
        """A run of so much compute; that a known one's is an estimate, where Epoch calls it speculative."""
        compute = f"{'estimated ' * self.is_estimate}compute"
        if self.times == "1":
            return f"as much as {self.name}'s {compute}"
        return f"{self.times} times {self.name}'s {compute}"

    @property
    def ends(self) -> str:
        """The 90 % interval in a sentence; empty where there is none."""
        return f"{self.band.replace(' – ', ' to ')} times" if self.band else ""


def over_record(flop: Any) -> OverRecord | None:
    """Compute over that of the largest known record which it reaches; none where it reaches none.

    Examples
    --------
    >>> over_record({"p05": 1.4e27, "p50": 1.5e27, "p95": 2.1e27}).said
    "3 times Grok 4's estimated compute"
    """
    record = record_below(point(flop))
    if record is None:
        return None
    ends = {name: point(flop, name) / record.training_flop for name in ("p05", "p50", "p95")}
    is_estimate = record.confidence == SPECULATIVE
    times, band = words(ends["p50"], "", 2), interval_words(ends, "")
    return OverRecord(record.name.partition(" (")[0], times, band, is_estimate)


def system_headline(document: Document) -> str:
    """What the system trains beside a known run, and how long that takes; first of all that failures forbid it."""
    trains = document["trains"]
    flop, months = trains["dense"]["flop"], f"{trains['months']:.3g} months"
    row = critical_row(trains["dense"])
    calendar = "" if row["problem"] else step_months(row)[1]
    if calendar == HARDLY:
        every = _every(row["mean_time_between_failures_s"])
        return headline_words(document["spec"], f"one run on all its chips {HARDLY}, failures stop it every {every}")
    known = over_record(flop)
    said = known.said if known else f"a training run of {figure_words(flop, 'FLOP')}"
    if calendar and float(calendar) > trains["months"]:
        said = f"{said}, {words(float(calendar), '', 2)} months after it starts"
        ends = f" (90\u00a0%: {month_ends(row)} months)" if month_ends(row) else ""
        return f"{headline_words(document['spec'], said)}{ends}"
    if known is None:
        return headline_words(document["spec"], f"{months} for {said}", flop, "FLOP")
    ends = f" (90\u00a0%: {known.ends})" if known.ends else ""
    return f"{headline_words(document['spec'], f'{months} for {said}')}{ends}"


def system_sentence(document: Document) -> str:
    """Both models that the run may train, and what makes its months more than those asked about."""
    run, mixture = (document["trains"][name] for name in ("dense", "moe"))
    model = f"a dense model of {figure_words(run['n_params_active'], '')} parameters"
    row = critical_row(run)
    if row["problem"]:
        return f"It trains {model}. No way to run its steps was found: {row['problem']}"
    if step_months(row)[1] == HARDLY:
        return _stopped_run(run, row, model)
    return f"{_site_words(document)}{_planned(document, row)}. It trains {model}{_or_experts(mixture)}"


def _site_words(document: Document) -> str:
    """Since when a site of this power stands, or when the data expect the first one.

    Examples
    --------
    >>> _site_words({"first_site": {"date": "2025-06-23", "is_projected": False}})
    'Sites of this power have existed since June 2025. '
    >>> _site_words({"first_site": {"date": "2028-01-01", "is_projected": True}}), _site_words({"first_site": None})
    ('The first site of this power is planned for January 2028. ', 'No site of this power is planned yet. ')
    """
    site = document["first_site"]
    if site is None:
        return "No site of this power is planned yet. "
    month = f"{date.fromisoformat(site['date']):%B %Y}"
    if site["is_projected"]:
        return f"The first site of this power is planned for {month}. "
    return f"Sites of this power have existed since {month}. "


def _stopped_run(run: Document, row: Document, model: str) -> str:
    """What a run would be that hardly advances, and how long it takes without failures and with them."""
    known = over_record(run["flop"])
    what = f"{known.said}, {model}" if known else model
    ends = f", {month_ends(row)} with them" if month_ends(row) else ""
    busy = words(float(step_months(row)[0]), "", 2)
    return f"Do not plan on it: {what}, would take {busy} months without failures{ends}"


def _or_experts(run: Document) -> str:
    """The mixture of experts that takes the same compute, and how long, where a way to run its steps was found."""
    row = critical_row(run)
    size = figure_words(run["n_params_total"], "")
    if row["problem"] or step_months(row)[1] == HARDLY:
        return ""
    months = words(row["calendar_s"] / MONTH_S, "", 2)
    return f", or a mixture of experts of {size} in {months} months"


def system_card(document: Document) -> Card:
    """What the run is beside a known one, the model that it trains, and the months to plan on."""
    trains = document["trains"]
    run, row = trains["dense"], critical_row(trains["dense"])
    active, tokens = run["n_params_active"], figure_words(run["tokens"], "tokens")
    if row["problem"]:
        share = words(trains["utilization_fraction"], "fraction", 2)
        when = f"in {trains['months']:.3g} months at {share} of the chips' peak, as asked"
    else:
        calendar = step_months(row)[1]
        without = f"in {words(float(step_months(row)[0]), '', 2)} months without failures; with them it {HARDLY}"
        with_stops = f"in {words(float(calendar), '', 2)} months{_by_failures(row)}" if calendar != HARDLY else ""
        when = with_stops or without
    known = over_record(run["flop"])
    model = f"parameters, a dense model on {tokens}"
    what = f"{model}: {known.said} {when}" if known else f"{model}, {when}"
    card = Card.of(figure_words(active, ""), what, (active, ""))
    return replace(card, band=f"{card.band}: more if each chip draws less power") if leans(document) else card


def _by_failures(row: Document) -> str:
    """How the months of a run range with its failures."""
    ends = month_ends(row)
    low, sign, _ = ends.partition(" or more")
    if sign:
        return f" with failures ({low} if they are few, years if many)"
    return f" ({ends}), failures included" if ends else ", failures included"


def _planned(document: Document, row: Document) -> str:
    """How long the run takes with everything that is modelled, and why."""
    months = document["trains"]["months"]
    busy, calendar = row["busy_s"] / MONTH_S, row["calendar_s"] / MONTH_S
    stops = f"failures stop it about every {_every(row['mean_time_between_failures_s'])}"
    if calendar <= months:
        return "Failures included, it ends in time"
    expect = f"You ask for {months:.3g} months; expect {words(calendar, '', 2)}"
    if calendar - busy > busy - months:
        return _at_rate(document, f"{stops[:1].upper()}{stops[1:]}")
    slower = f"steps reach {words(row['mfu_fraction'], 'fraction', 2)} of the chips' peak"
    return f"{expect}: {slower}, and {stops}"


def _at_rate(document: Document, stops: str) -> str:
    """Over which rates of failures a run's months range; where there is one rate, how often failures stop it."""
    rate = document.get("assumptions", {}).get("interruptions_per_gpu_year")
    if rate is None:
        return stops
    low, middle, high = (words(rate[name], "", 2) for name in ("low", "median", "high"))
    if rate["low"] == rate["high"]:
        return f"{stops} ({middle} per GPU and year)"
    return f"The range is for {low} to {high} failures per GPU and year (median {middle})"


def _every(time_s: float) -> str:
    """A time between failures as people say it."""
    sizes = (("days", DAY_S), ("hours", HOUR_S), ("minutes", MINUTE_S))
    name, size = next((one for one in sizes if time_s >= 1.5 * one[1]), ("seconds", 1.0))
    return f"{words(time_s / size, '', 2)} {name}"


def leans(document: Document) -> tuple[str, str] | None:
    """Power of the facility for a chip, usually and at least, where their number lies at its low end for that."""
    chips, kinds = document["chips"], document["generations"]
    low, median, high = (point(chips, end) for end in ("p05", "p50", "p95"))
    if len(kinds) > 1 or median / low > 1.1 or high / median < 1.2:
        return None
    usual, least = (words(point(kinds[0]["facility_w_per_chip"], end), "W", 2) for end in ("p50", "p05"))
    return usual, least
