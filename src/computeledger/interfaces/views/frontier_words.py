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
    busy_s, calendar_s = row["busy_s"], row["calendar_s"]
    is_stopped = calendar_s is None or calendar_s > busy_s * MOST_STOPPED
    return words(busy_s / MONTH_S, "", 2), HARDLY if is_stopped else words(calendar_s / MONTH_S, "", 2)


def elastic_months(row: Document) -> str:
    """Months of a run that goes on without the part that failed; empty where a restart of the whole costs no more.

    Examples
    --------
    >>> row = {"busy_s": 4.6 * MONTH_S, "calendar_s": 7.9 * MONTH_S, "elastic_s": 5.1 * MONTH_S}
    >>> elastic_months(row), elastic_months({**row, "elastic_s": 8 * MONTH_S})
    ('5.1', '')
    """
    elastic_s, calendar_s = row["elastic_s"], row["calendar_s"]
    if elastic_s is None or elastic_s > row["busy_s"] * MOST_STOPPED:
        return ""
    said = words(elastic_s / MONTH_S, "", 2)
    whole = "" if calendar_s is None else words(calendar_s / MONTH_S, "", 2)
    return said if said != whole and (calendar_s is None or elastic_s < calendar_s) else ""


def months_span(row: Document) -> str:
    """Months of a run from elastic recovery to a restart of the whole at each failure, as far as it then advances.

    Examples
    --------
    >>> row = {"busy_s": 4.6 * MONTH_S, "calendar_s": 7.9 * MONTH_S, "elastic_s": 5.1 * MONTH_S}
    >>> months_span(row), months_span({**row, "calendar_s": 79 * MONTH_S})
    ('5.1 to 7.9', '5.1')
    """
    ends = (elastic_months(row), step_months(row)[1])
    return " to ".join(one for one in ends if one not in ("", HARDLY)) or HARDLY


def month_ends(row: Document) -> str:
    """The 90 % interval of the months where each failure restarts the run, and that it may hardly advance.

    Examples
    --------
    >>> ends = {"calendar_low_s": 5.8 * MONTH_S, "calendar_high_s": 29.9 * MONTH_S, "busy_s": 4.6 * MONTH_S}
    >>> month_ends(ends), month_ends({**ends, "calendar_high_s": None})
    ('5.8 to 30', 'from 5.8; at many failures it hardly advances')
    """
    return _ends(row, "calendar_low_s", "calendar_high_s")


def elastic_ends(row: Document) -> str:
    """The 90 % interval of the months with elastic recovery."""
    return _ends(row, "elastic_low_s", "elastic_high_s")


def span_ends(row: Document) -> str:
    """The 90 % interval over both ways to recover, the low end of the one and the high end of the other."""
    return _ends(row, "elastic_low_s" if elastic_months(row) else "calendar_low_s", "calendar_high_s")


def _ends(row: Document, low_key: str, high_key: str) -> str:
    if row[low_key] is None:
        return ""
    low, high = words(row[low_key] / MONTH_S, "", 2), row[high_key]
    if high is None or high > row["busy_s"] * MOST_STOPPED:
        return f"from {low}; at many failures it {HARDLY}"
    return f"{low} to {words(high / MONTH_S, '', 2)}"


def lost_months(row: Document, key: str = "calendar_s") -> str:
    """Months that failures take: those of the calendar less those of the steps, as both are printed.

    Examples
    --------
    >>> lost_months({"busy_s": 4.56 * MONTH_S, "calendar_s": 7.9 * MONTH_S})
    '3.3'
    """
    if row[key] is None or row[key] > row["busy_s"] * MOST_STOPPED:
        return HARDLY
    busy, calendar = (float(words(row[one] / MONTH_S, "", 2)) for one in ("busy_s", key))
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
    if elastic_months(row):
        least = lost_months(row, "elastic_s")
        lost = f"{least} for failures; restarted whole it {HARDLY}" if lost == HARDLY else f"{least} to {lost}"
    said = f"{trains['months']:.3g} asked"
    if slower != "0":
        is_faster = slower[:1] == "\u2212"
        said += f", {slower[1:]} less for faster steps" if is_faster else f", {slower} for slower steps"
    if lost == HARDLY:
        return f"{said}; with failures it {HARDLY}"
    return f"{said}, {lost}" if HARDLY in lost else f"{said}, {lost} for failures"


@dataclass(frozen=True, slots=True)
class OverRecord:
    """How many times the compute of a known run, with its 90 % interval."""

    name: str
    times: str
    band: str
    is_estimate: bool = False
    month: str = ""

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
    month = f"{date.fromisoformat(record.date):%B %Y}"
    return OverRecord(record.name.partition(" (")[0], times, band, is_estimate, month)


def system_headline(document: Document) -> str:
    """What the system trains beside a known run, and how long that takes; first of all that failures forbid it."""
    trains = document["trains"]
    flop, months = trains["dense"]["flop"], f"{trains['months']:.3g} months"
    row = critical_row(trains["dense"])
    calendar = "" if row["problem"] else step_months(row)[1]
    if calendar == HARDLY and not elastic_months(row):
        every = _every(row["mean_time_between_failures_s"])
        return headline_words(document["spec"], f"one run on all its chips {HARDLY}, failures stop it every {every}")
    known = over_record(flop)
    said = known.said if known else f"a training run of {figure_words(flop, 'FLOP')}"
    if calendar == HARDLY:
        said = f"{said} in {elastic_months(row)} months if it rides through failures"
        return f"{headline_words(document['spec'], said)}{_in_brackets(elastic_ends(row))}"
    if calendar and row["calendar_s"] / MONTH_S > trains["months"]:
        said = f"{said} in {months_span(row)} months"
        return f"{headline_words(document['spec'], said)}{_in_brackets(span_ends(row))}"
    if known is None:
        return headline_words(document["spec"], f"{months} for {said}", flop, "FLOP")
    ends = f" (90\u00a0%: {known.ends})" if known.ends else ""
    return f"{headline_words(document['spec'], f'{months} for {said}')}{ends}"


def _in_brackets(ends: str) -> str:
    """A 90 % interval of months behind a headline; what it says of many failures where it has no upper end."""
    if not ends:
        return ""
    low, sign, hardly = ends.partition(";")
    return f" (90\u00a0%: {low} months{sign}{hardly})"


def system_sentence(document: Document) -> str:
    """The months of the run by how it recovers, those of its steps alone, the model, and when such a site stands."""
    run = document["trains"]["dense"]
    model = f"a dense model of {figure_words(run['n_params_active'], '')} parameters"
    row = critical_row(run)
    if row["problem"]:
        return f"It trains {model}. No way to run its steps was found: {row['problem']}"
    if months_span(row) == HARDLY:
        return _stopped_run(run, row, model)
    known = over_record(run["flop"])
    since = f". {known.name} came out in {known.month}" if known else ""
    return f"{_planned(document, row)}. It trains {model}. {_site_words(document)}{since}"


def _site_words(document: Document) -> str:
    """Since when a site of this power stands, or when the data expect the first one.

    Examples
    --------
    >>> _site_words({"first_site": {"date": "2025-06-23", "is_projected": False}})
    'Sites of this power have existed since June 2025'
    >>> _site_words({"first_site": {"date": "2028-01-01", "is_projected": True}}), _site_words({"first_site": None})
    ('The first site of this power is planned for January 2028', 'No site of this power is planned yet')
    """
    site = document["first_site"]
    if site is None:
        return "No site of this power is planned yet"
    month = f"{date.fromisoformat(site['date']):%B %Y}"
    if site["is_projected"]:
        return f"The first site of this power is planned for {month}"
    return f"Sites of this power have existed since {month}"


def _stopped_run(run: Document, row: Document, model: str) -> str:
    """What a run would be that hardly advances, and how long it takes without failures and with them."""
    known = over_record(run["flop"])
    what = f"{known.said}, {model}" if known else model
    ends = f", {month_ends(row)} with them" if month_ends(row) else ""
    busy = words(float(step_months(row)[0]), "", 2)
    return f"Do not plan on it: {what}, would take {busy} months without failures{ends}"


def system_card(document: Document) -> Card:
    """What the run is beside a known one, the model that it trains, and the months to plan on."""
    trains = document["trains"]
    run, row = trains["dense"], critical_row(trains["dense"])
    active, tokens = run["n_params_active"], figure_words(run["tokens"], "tokens")
    if row["problem"]:
        share = words(trains["utilization_fraction"], "fraction", 2)
        when = f"in {trains['months']:.3g} months at {share} of the chips' peak, as asked"
    elif months_span(row) == HARDLY:
        when = f"in {step_months(row)[0]} months without failures; with them it {HARDLY}"
    elif step_months(row)[1] == HARDLY:
        when = f"in {elastic_months(row)} months if it rides through failures; restarted whole it {HARDLY}"
    else:
        when = f"in {months_span(row)} months{', by how it recovers from failures' if elastic_months(row) else ''}"
    known = over_record(run["flop"])
    model = f"parameters, a dense model on {tokens}"
    what = f"{model}: {known.said} {when}" if known else f"{model}, {when}"
    card = Card.of(figure_words(active, ""), what, (active, ""))
    return replace(card, band=f"{card.band}: more if each chip draws less power") if leans(document) else card


def _planned(document: Document, row: Document) -> str:
    """How long the run takes by how it recovers from failures, and its steps alone beside what was asked."""
    asked, rides = document["trains"]["months"], elastic_months(row)
    busy, calendar = step_months(row)
    if calendar != HARDLY and row["calendar_s"] / MONTH_S <= asked:
        return "Failures included, it ends in time"
    alone = f"Without failures it takes {busy}; you ask for {asked:.3g}"
    rate = words(document["assumptions"]["interruptions_per_gpu_year"]["median"], "", 2)
    every = f"{rate} per GPU and year: one every {_every(row['mean_time_between_failures_s'])}"
    if calendar == HARDLY:
        return f"If each failure ({every}) restarts the whole run, as with Llama 3, it {HARDLY}. {alone}"
    if not rides:
        return f"It takes {calendar} months with failures ({every}). {alone}"
    return (
        f"{rides} months if it rides through failures, as Gemini 2.5 did; {calendar} if each ({every}) restarts the "
        f"whole run, as with Llama 3. {alone}"
    )


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
