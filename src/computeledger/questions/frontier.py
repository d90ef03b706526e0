"""The questions of ``computeledger frontier``: systems, forecasts, sites, growth, runs over sites, releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import MOST_SAMPLES, Asked, asked, shared
from computeledger.questions.sweep import SweepQuestion
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.setup import OF_PEAK, Sampled

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

_DATA = "Folder with Epoch's CSV files as downloaded."
_SHIPPED = "the copy that ships"
_DAY = "YYYY-MM-DD"


@dataclass(frozen=True, kw_only=True)
class SystemsQuestion(Sampled):
    """What a system of chips, power, money or buildings has, costs, trains and serves."""

    spec: str = asked("text", "Such as '400 MW facility of gb200-gpu'.", ..., example="400 MW facility of gb200-gpu")
    duration: Uncertain = asked("s", "Duration of a run.", "4 months", unit=None, is_open=True)
    utilization: Uncertain = asked("fraction", "Utilisation, as a share of peak FLOP/s.", OF_PEAK, is_open=True)
    interruptions_per_gpu_year: Uncertain | None = shared(
        PretrainQuestion, "interruptions_per_gpu_year", blank="as published"
    )


@dataclass(frozen=True, kw_only=True)
class ForecastQuestion(Sampled):
    """When a training run of a size is possible, with what chance, and what it takes."""

    samples: int = asked("whole", "Sampled paths of the forecast.", 10_000, least=1, most=MOST_SAMPLES)
    flop: Uncertain = asked("flop", "Size of the run.", ..., unit="FLOP", is_open=True, example="1e28")
    by: str | None = asked("text", "Day to give the probability for.", metavar=_DAY)
    scenario: str | None = asked(
        "text",
        "Scenario of growth, as in frontier growth, that the forecast is conditional on.",
        metavar="NAME|FILE",
        blank="the trend, and beside it all that ship",
    )
    accelerator: str = asked("text", "Chip.", "gb200-gpu", metavar="ID")
    duration: Uncertain = asked("s", "Duration of a run.", "4 months", unit=None, is_open=True)
    utilization: Uncertain = asked("fraction", "Utilisation, as a share of peak FLOP/s.", OF_PEAK, is_open=True)
    workers: int | None = shared(SweepQuestion, "workers", blank="this one")
    cluster: str | None = shared(SweepQuestion, "cluster")

    def check(self) -> None:
        """Refuse two places to compute."""
        super().check()
        if self.workers is not None and self.cluster is not None:
            raise InputError("--workers and --cluster exclude each other: a cluster has its own workers")


@dataclass(frozen=True, kw_only=True)
class SitesQuestion(Asked):
    """Data-centre sites over time, a lab's chips, or a claim about a site."""

    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)
    site: str | None = asked("text", "Only this site.", metavar="NAME")
    lab: str | None = asked("text", "Chips of a lab over time, at the sites named in the data.", metavar="NAME")
    claim: Uncertain | None = asked("w", "Facility power claimed for --site.", unit="MW", metavar="W")
    date: str | None = asked("text", "Day of the claim, or the last day shown.", metavar=_DAY)

    def check(self) -> None:
        """Refuse a claim about nothing."""
        if self.claim is not None and (self.site is None or self.date is None):
            raise InputError("--claim needs --site and --date: power of which site, on which day")


@dataclass(frozen=True, kw_only=True)
class LabsQuestion(Sampled):
    """Labs side by side at a date: largest site, whole fleet, its power, what it trains, and the next release."""

    date: str = asked("text", "Day, or month (its last day).", "2026-08-22", metavar=_DAY)
    lab: str | None = asked("text", "Only this lab; other names of it are known.", metavar="NAME", blank="all")
    scenario: str = asked(
        "text", "Scenario in which compute grows from that day to a lab's next release.", "trend", metavar="NAME|FILE"
    )
    duration: Uncertain = asked("s", "Duration of a run.", "3..4 months", unit=None, is_open=True)
    utilization: Uncertain = asked("fraction", "Utilisation, as a share of peak FLOP/s.", OF_PEAK, is_open=True)
    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)


@dataclass(frozen=True, kw_only=True)
class RunsQuestion(Asked):
    """Training runs whose compute is estimated, by date of release."""

    lab: str | None = asked("text", "Only runs of this lab; other names of it are known.", metavar="NAME", blank="all")
    first: str | None = asked("text", "Released on this day or later.", metavar=_DAY)
    last: str | None = asked("text", "Released on this day or earlier.", metavar=_DAY)
    least: Uncertain | None = asked("flop", "Least training compute.", unit="FLOP", metavar="FLOP")
    records: bool = asked("switch", "Only runs that were the largest when they came.", False)


@dataclass(frozen=True, kw_only=True)
class GrowthQuestion(Asked):
    """Growth fitted on data, and scenarios of what bounds it."""

    first: str = asked("text", "Start of the window.", "2022-01-01", metavar=_DAY)
    last: str = asked("text", "End of the window.", "2026-08-22", metavar=_DAY)
    scenario: str | None = asked(
        "text", "One scenario, or a TOML file of scenarios.", metavar="NAME", blank="all that ship"
    )
    years: int = asked("whole", "Years that the scenarios cover.", 5, least=1)
    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)


@dataclass(frozen=True, kw_only=True)
class BacktestQuestion(Asked):
    """Forecasts from a cut-off beside what came."""

    cutoff: str = asked("text", "Last day that is known.", "2024-12-31", metavar=_DAY)
    data: str | None = asked("text", _DATA, metavar="DIR", blank=_SHIPPED)


@dataclass(frozen=True, kw_only=True)
class SpreadQuestion(Asked):
    """One training run over several sites: bandwidth, step time, fibres, and what changes them."""

    params: Uncertain | None = asked("count", "Parameters exchanged.", unit="", is_open=True, metavar="N")
    model: str | None = asked("text", "In place of --params.", metavar="ID")
    step: Uncertain | None = asked(
        "s", "Time of an optimizer step within a site.", unit=None, is_open=True, metavar="T"
    )
    system: str | None = asked("text", "System of each site; with --gpus, the step time is modelled.", metavar="ID")
    gpus: int | None = asked("whole", "GPUs of one site.", least=1, metavar="N")
    batch_tokens: Uncertain | None = asked(
        "tokens", "Tokens of a step, over all sites.", unit="tokens", is_open=True, metavar="N",
        blank="the critical batch of the compute-optimal run",
    )  # fmt: skip
    exchange: Uncertain | None = asked(
        "s", "Time allowed for an exchange.", unit=None, metavar="T", blank="a sixth of --step"
    )
    sites: int = asked("whole", "Sites.", 2, least=2, metavar="N")
    distance_km: float = asked(
        "count", "Length of fibre between the two sites furthest apart.", 0.0, is_single=True, metavar="KM"
    )
    local_steps: float = asked("count", "Steps between exchanges (DiLoCo).", 1.0, is_single=True, metavar="N")
    bytes_per_gradient: float = asked(
        "count",
        "Bytes per gradient: 4 uncompressed, 1 or less compressed.",
        4.0,
        is_open=True,
        is_single=True,
        metavar="B",
    )

    def check(self) -> None:
        """Refuse a run without a size, without a step, or with half of what gives it."""
        if (self.system is None) != (self.gpus is None):
            raise InputError("--system and --gpus (of one site) go together: the step comes from both")
        if (self.model is None) == (self.params is None):
            raise InputError("give --params N or --model ID, one of both: what is exchanged are its gradients")
        if self.step is None and self.system is None:
            raise InputError(
                "--step: needed, or --system ID and --gpus N of one site, which give it from the operation model"
            )


@dataclass(frozen=True, kw_only=True)
class FlopSheetQuestion(Asked):
    """A published model's training FLOP from parameters, hardware-time and price."""

    model: str = asked("text", "Model whose publisher states its tokens.", ..., example="deepseek-v3")
    accelerator: str | None = asked(
        "text", "Accelerator of the GPU-hours.", metavar="ID", blank="as published, else gb200-gpu"
    )
    gpu_hours: Uncertain | None = asked(
        "gpu_hours", "GPU-hours of pretraining.", unit="GPU-hours", is_open=True, metavar="H"
    )
    usd: Uncertain | None = asked("usd", "Price of the run.", unit="$", is_open=True, metavar="$")
    price: Uncertain = asked(
        "usd_per_hour", "Price of a GPU-hour.", 2.0, unit="$/h", is_open=True, metavar="$/h", blank="$2/h"
    )
    claim: Uncertain | None = asked(
        "flop", "Training FLOP as claimed by others.", unit="FLOP", is_open=True, metavar="FLOP"
    )
    precision: str = asked("text", "Precision of the peak that utilisation refers to.", "bf16", metavar="P")
    utilization: Uncertain | None = asked(
        "fraction", "Utilisation, as a share of peak FLOP/s.", metavar="F", blank="19%..46%"
    )


@dataclass(frozen=True, kw_only=True)
class ScheduleQuestion(Asked):
    """When a model is out: delivery, installation, pretraining and post-training one after the other."""

    start: str = asked("text", "Day of the first delivery or order.", ..., metavar=_DAY, example="2026-12-01")
    delivery: Uncertain = asked("s", "Time until the chips are delivered.", "0 months", unit=None, metavar="T")
    installation: Uncertain = asked("s", "Time to install them.", "2 months", unit=None, metavar="T")
    pretraining: Uncertain = asked("s", "Duration of pretraining.", "4 months", unit=None, metavar="T")
    post_training: Uncertain = asked(
        "s", "Duration of post-training, until release.", "1 month", unit=None, metavar="T"
    )
