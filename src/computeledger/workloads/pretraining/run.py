"""A pretraining run as it will be: days, GPU-hours, money and energy with failures, checkpoints and stragglers."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.physics.goodput import Goodput, Reliability, goodput
from computeledger.units import DAY_S, HOUR_S
from computeledger.workloads.pretraining.estimate import PretrainingResult
from computeledger.workloads.result import ASKED, Figure, Term


@dataclass(frozen=True, slots=True)
class EffectiveRun:
    """What a run takes on the calendar.

    Attributes
    ----------
    result : PretrainingResult
        Without failures.
    goodput : Goodput
        Where the time goes.
    facility_w_per_gpu : float or ndarray
        Power, cooling and losses included [W].
    """

    result: PretrainingResult
    goodput: Goodput
    facility_w_per_gpu: Num

    @property
    def goodput_fraction(self) -> Num:
        """Useful time over time on the calendar [-]."""
        return self.goodput.goodput_fraction

    @property
    def effective_gpu_hours(self) -> Num:
        """GPU-hours with all that is lost [h]."""
        return self.result.gpu_hours / self.goodput_fraction

    @property
    def effective_days(self) -> Num:
        """Days on the calendar [day]."""
        return self.effective_gpu_hours * HOUR_S / self.result.scenario.layout.n_gpus / DAY_S

    @property
    def usd(self) -> Num:
        """Cost of those GPU-hours [USD]."""
        return self.effective_gpu_hours * self.result.scenario.usd_per_gpu_hour

    @property
    def energy_j(self) -> Num:
        """Energy at the meter; what waits draws as much as what works [J]."""
        return self.effective_gpu_hours * HOUR_S * self.facility_w_per_gpu

    @property
    def failures(self) -> Num:
        """Unexpected stops during the run [-]."""
        return self.effective_days * DAY_S / self.goodput.mean_time_between_failures_s

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The working of goodput and of what follows from it."""
        spent = self.goodput
        parts = tuple(
            Term(name, getattr(spent, f"{name}_fraction"), "fraction")
            for name in ("straggler", "pause", "lost", "restart", "planned")
        )
        between = Term("M", spent.mean_time_between_failures_s, "s")
        hours = Term("GPU-hours without failures", self.result.gpu_hours, "GPU-hours")
        share = Term("goodput", self.goodput_fraction, "fraction")
        power = Term("facility power per GPU", self.facility_w_per_gpu, "W")
        used = Term("effective GPU-hours", self.effective_gpu_hours, "GPU-hours")
        asked = self.result.scenario
        gpus = Term("GPUs", asked.layout.n_gpus, "GPUs", "plan", ASKED)
        price = Term("price", asked.usd_per_gpu_hour, "USD/h")
        interval = Term("checkpoint interval", spent.interval_s, "s")
        shares = "1 - stragglers - pauses - lost work - restarts - planned stops (Daly: pieces between checkpoints)"
        return (
            Figure("goodput_fraction", self.goodput_fraction, "fraction", shares, (between, interval, *parts)),
            Figure("effective_gpu_hours", self.effective_gpu_hours, "GPU-hours", "GPU-hours / goodput", (hours, share)),
            Figure(
                "effective_days", self.effective_days, "days", "effective GPU-hours x 3600 / GPUs / 86400", (used, gpus)
            ),
            Figure("effective_usd", self.usd, "USD", "effective GPU-hours x price", (used, price)),
            Figure("energy_j", self.energy_j, "J", "effective GPU-hours x facility power", (used, power)),
        )


def estimate_run(result: PretrainingResult, reliability: Reliability, facility_w_per_gpu: Num) -> EffectiveRun:
    """Put a run onto the calendar.

    Parameters
    ----------
    result : PretrainingResult
        Without failures.
    reliability : Reliability
        How often the job stops, and what that costs.
    facility_w_per_gpu : float or ndarray
        Power, cooling and losses included [W].

    Returns
    -------
    EffectiveRun
        With failures.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> from computeledger.workloads.pretraining.estimate import PretrainingScenario, estimate_pretraining
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128), 15e12)
    >>> result = estimate_pretraining(scenario, Machine(load_system("h100-nvl8")))
    >>> run = estimate_run(result, Reliability(5e-9), 1400.0)
    >>> bool(run.effective_days > result.days)
    True
    """
    return EffectiveRun(result, goodput(reliability, result.scenario.layout.n_gpus), facility_w_per_gpu)
