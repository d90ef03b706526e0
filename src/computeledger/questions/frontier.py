"""The questions of ``computeledger frontier``: systems, forecasts, sites, growth, back-tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import MOST_SAMPLES, Asked, asked
from computeledger.workloads.questions.setup import OF_PEAK, Sampled

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

_DATA = "Folder with Epoch's CSV files as downloaded."
_SHIPPED = "the copy that ships"
_DAY = "YYYY-MM-DD"


@dataclass(frozen=True, kw_only=True)
class SystemsQuestion(Sampled):
    """What a system of chips, power, money or buildings has, costs, trains and serves."""

    spec: str = asked("text", "Such as '400 MW facility of gb200-gpu'.", ...)
    duration: Uncertain = asked("s", "Length of a run.", "4 months", unit=None, is_open=True)
    utilization: Uncertain = asked("fraction", "Of the peak.", OF_PEAK, is_open=True)


@dataclass(frozen=True, kw_only=True)
class ForecastQuestion(Sampled):
    """When a training run of a size is possible, with what chance, and what it takes."""

    samples: int = asked("whole", "Paths of the forecast.", 10_000, least=1, most=MOST_SAMPLES)
    flop: Uncertain = asked("flop", "Size of the run.", ..., unit="FLOP", is_open=True)
    by: str | None = asked("text", "Day of which the chance is asked.", metavar=_DAY)
    scenario: str | None = asked(
        "text", "Of growth, as in frontier growth: the date it would give.", metavar="NAME|FILE"
    )
    accelerator: str = asked("text", "Chip.", "gb200-gpu", metavar="ID")
    duration: Uncertain = asked("s", "Length of a run.", "4 months", unit=None, is_open=True)
    utilization: Uncertain = asked("fraction", "Of the peak.", OF_PEAK, is_open=True)


@dataclass(frozen=True, kw_only=True)
class SitesQuestion(Asked):
    """Data-centre sites over time, a lab's chips, or a claim about a site."""

    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)
    site: str | None = asked("text", "Only this site.", metavar="NAME")
    lab: str | None = asked("text", "Chips of a lab over time, at the sites that the data name.", metavar="NAME")
    claim: Uncertain | None = asked("w", "Facility power claimed for --site.", unit="MW", metavar="W")
    date: str | None = asked("text", "Day of the claim, or the last day shown.", metavar=_DAY)

    def check(self) -> None:
        """Refuse a claim about nothing."""
        if self.claim is not None and (self.site is None or self.date is None):
            raise InputError("--claim needs --site and --date: power of which site, on which day")


@dataclass(frozen=True, kw_only=True)
class GrowthQuestion(Asked):
    """Growth fitted on data, and scenarios of what bounds it."""

    first: str = asked("text", "Begin of the window.", "2022-01-01", metavar=_DAY)
    last: str = asked("text", "End of the window.", "2026-08-22", metavar=_DAY)
    scenario: str | None = asked("text", "One scenario, or a TOML file of them.", metavar="NAME", blank="all that ship")
    years: int = asked("whole", "Years that scenarios look ahead.", 5, least=1)
    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)


@dataclass(frozen=True, kw_only=True)
class BacktestQuestion(Asked):
    """Forecasts from a cut-off beside what came."""

    cutoff: str = asked("text", "Last day that is known.", "2024-12-31", metavar=_DAY)
    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)
