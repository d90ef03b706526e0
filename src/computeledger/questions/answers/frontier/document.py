"""Frontier results as JSON documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.frontier.abilities import Trainable
from computeledger.frontier.decoding import Reinforces, Serves
from computeledger.frontier.epoch_files import CREDIT, SiteDate
from computeledger.frontier.forecast import Backtest, Reached
from computeledger.frontier.forecast import Tested as Hindcast
from computeledger.frontier.growth import Growth, Projection, Scenario
from computeledger.frontier.needs import Needed
from computeledger.frontier.priced import Then
from computeledger.frontier.revisions import site_interval
from computeledger.frontier.sites import SiteRow
from computeledger.frontier.steps import RunStep
from computeledger.frontier.supply import Largest, taken
from computeledger.frontier.systems import TrainingSystem
from computeledger.frontier.trends import Predicted, Series, date_of, year_of
from computeledger.questions.document import document, picked
from computeledger.workloads.result import quantity

#: Year ends for which a forecast says its chance, from that of the last data on.
CHANCE_YEARS = 15


#: What is unknown of a step that no layout was found for.
_UNKNOWN = ("step_s", "mfu_fraction", "busy_s", "calendar_s", "mean_time_between_failures_s", "calendar_low_s",
            "calendar_high_s", "elastic_s", "elastic_low_s", "elastic_high_s")  # fmt: skip


def timed_run_document(one: Trainable, steps: Sequence[RunStep]) -> dict[str, Any]:
    """A run with its step from the operation model, at the critical batch and at both ends of its interval."""
    found = document(one)
    found["step_s_allowed"] = found.pop("step_s")
    batches = [document(step) for step in steps]
    for row in batches:
        row |= {name: None for name in _UNKNOWN if row["problem"] or math.isinf(row[name])}
    critical = next(row for row in batches if row["batch_over_critical"] == 1)
    return found | {"step_s": critical["step_s"], "step_basis": "operation model", "batches": batches}


def decoding_document(rl: Sequence[Reinforces], served: Sequence[Serves]) -> dict[str, Any]:
    """RL and serving by model and chip; on top the first model, over all chips that can."""
    out: dict[str, Any] = {}
    for name, rows, rate in (("rl", rl, "sampled_tokens_per_s"), ("serves", served, "output_tokens_per_s")):
        first = [one for one in rows if one.model == rows[0].model]
        able = [one for one in first if not one.problem]
        best = max(able or first, key=lambda one: median(getattr(one, rate)))
        total = quantity(sum(getattr(one, rate) for one in first), "tokens/s")
        out[name] = _able_document(best) | {rate: total, "by": [_able_document(one) for one in rows]}
    return out


def _able_document(one: Reinforces | Serves) -> dict[str, Any]:
    """RL or serving of one model on one chip; no time per token where it cannot be."""
    found = document(one)
    return found | ({"tpot_s": None} if isinstance(one, Serves) and math.isnan(one.tpot_s) else {})


_COUNTED = {"chips": "chips", "dies": "dies"}


def system_document(system: TrainingSystem) -> dict[str, Any]:
    """What a system has and costs."""
    return {
        "spec": system.text,
        "generations": [
            {
                "accelerator": one.accelerator.id,
                "assumed_accelerator": one.part.assumed,
                "system": None if one.system is None else one.system.id,
                **picked(one, "chips", "capex_usd_per_chip", "it_w_per_chip", "facility_w_per_chip", units=_COUNTED),
                "scale_up_chips": None if one.system is None else one.system.n_gpus_scale_up.value,
                **picked(one, "scale_up_worlds", "scale_up_hbm_bytes"),
            }
            for one in system.generations
        ],
        **picked(system, "chips", "dies", units=_COUNTED),
        "h100e_bf16": quantity(system.h100e("bf16"), "H100e"),
        "h100e_8bit": quantity(system.h100e("fp8"), "H100e"),
        "peak_flop_per_s": {one: quantity(system.peak_flop_per_s(one), "FLOP/s") for one in system.precisions},
        **picked(system, "power_w", "hbm_bytes", "capex_usd", "yearly_usd"),
    }


def site_document(row: SiteRow) -> dict[str, Any]:
    """A site at a date."""
    interval = row.interval_w()
    return {
        "name": row.published.name,
        "date": row.published.date,
        "h100e_8bit": row.h100e_8bit,
        "h100e_8bit_counted": row.h100e_counted,
        "published_h100e_8bit": row.published.h100e_8bit,
        "facility_w": row.published.facility_w,
        "it_w": row.published.it_w,
        "facility_w_interval": None if interval is None else list(interval),
        "capex_usd": row.published.capex_usd,
        "projected": row.projected,
        "chips": {one.chip: one.count for one in row.chips},
        "users": sorted({one.user for one in row.chips if one.user}),
        "reason": row.reason,
    }


def interval_document() -> dict[str, Any]:
    """What a site's interval rests on."""
    return {name: document(site_interval(name == "projected")) for name in ("observed", "projected")}


def sites_document(rows: Iterable[SiteRow], shares: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Sites with how many agree."""
    agree = {name: {"within_10_percent": within, "compared": n} for name, (within, n) in shares.items()}
    return {
        "sites": [site_document(row) for row in rows],
        "agreement": agree,
        "interval_from": interval_document(),
        "credit": CREDIT,
    }


def known_systems_document(sites: Iterable[SiteDate]) -> list[dict[str, Any]]:
    """Sites as they stand: compute and capital."""
    return [picked(one, "name", "date", "h100e_8bit", "capex_usd") for one in sites]


def hindcast_document(one: Hindcast) -> dict[str, Any]:
    """A series forecast from a cut-off."""
    middle, spread = one.predicted.middle, one.predicted.spread
    rows = zip(
        one.dates,
        10**middle,
        10 ** (middle - spread),
        10 ** (middle + spread),
        10**one.observed,
        one.inside,
        strict=True,
    )
    return {
        "series": one.series.name,
        "unit": one.series.unit,
        "model": one.model,
        "past_interval_scores_log10": dict(one.past_scores),
        "known": {
            "dates": list(one.series.dates),
            "values": one.series.values.tolist(),
        },
        "quarters": [
            dict(zip(("date", "p50", "p05", "p95", "observed", "inside"), row, strict=True)) | {"inside": bool(row[-1])}
            for row in rows
        ],
    }


def backtest_document(found: Backtest) -> dict[str, Any]:
    """Both series forecast from a cut-off."""
    return {
        **picked(
            found,
            "cutoff",
            "coverage_90",
            "n",
            "median_abs_log10_error",
            "median_width_log10_90",
            "largest_width_log10_90",
        ),
        "series": [hindcast_document(one) for one in found.parts],
        "credit": CREDIT,
    }


def growth_document(one: Growth, dated: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """A fitted growth with its points and the ends of its line."""
    points = sorted((date, value) for date, value in dated if one.first <= date <= one.last and value > 0)
    years = np.array([year_of(date) for date, _ in points])
    middle = float(np.mean(np.log10([value for _, value in points])))
    ends = middle + np.log10(one.ratio) * (years[[0, -1]] - years.mean())
    line = dict(zip(("first", "last"), (10.0**ends).tolist(), strict=True))
    return document(one) | {"points": [list(pair) for pair in points], "line": line}


def projection_document(one: Projection, today: Largest) -> dict[str, Any]:
    """A scenario: the largest system's compute by year, and what it takes."""
    by_year = {f"{name}_by_year": values.tolist() for name, values in asdict(taken(one, today)).items()}
    return {
        "scenario": one.scenario.name,
        "note": one.scenario.note,
        "compute_ratio_by_year": one.compute_ratio.tolist(),
        "binds_by_year": list(one.bounds),
        **by_year,
    }


def reached_document(found: Reached) -> dict[str, Any]:
    """When a series reaches a value."""
    return {
        "series": found.series.name,
        "model": found.model,
        "target": found.target,
        "unit": found.series.unit,
        "known_until": found.series.dates[-1],
        "largest_known": float(found.series.values[-1]),
        "date": _dates(found),
        "growth_per_year": quantity(found.growth_ratio, "x"),
    }


def _dates(found: Reached) -> dict[str, str]:
    """Quantiles of the day on which a value is reached."""
    points = np.quantile(found.years, [0.05, 0.1, 0.5, 0.9, 0.95], method="inverted_cdf")
    return {name: date_of(float(year)) for name, year in zip(("p05", "p10", "p50", "p90", "p95"), points, strict=True)}


def slice_document(of: tuple[Scenario, Then | None], found: Reached, by: str | None) -> dict[str, Any]:
    """The forecast on condition of a scenario, and what the run takes on that day."""
    scenario, then = of
    chance = {} if by is None else {"probability": found.probability_by(by)}
    first = int(found.series.dates[-1][:4])
    ends = [f"{year}-12-31" for year in range(first, first + CHANCE_YEARS)]
    yearly = [{"date": end, "probability": found.probability_by(end)} for end in ends]
    said = {"scenario": scenario.name, "note": scenario.note, **chance, "date": _dates(found),
            "probability_by_year": yearly}  # fmt: skip
    return said | {"needs_then": None if then is None else then_document(then)}


def then_document(then: Then) -> dict[str, Any]:
    """A system at the prices and the efficiency of a day."""
    return {
        "date": then.date,
        **picked(then, "capex_usd", "facility_w", "n_chips"),
        "largest_system_usd": then.largest_usd,
        "of_largest_fraction": then.of_largest_fraction,
    }


def gpu_time_document(needed: Needed) -> dict[str, Any]:
    """GPU-time of the three ledgers."""
    hours = picked(needed, "pretraining_gpu_hours", "rl_gpu_hours", "inference_gpu_hours")
    return hours | {"utilization": document(needed.used)}


def ahead_document(series: Series, ends: Sequence[str], found: Predicted) -> dict[str, Any]:
    """A series with its forecast."""
    low, high = found.middle - found.spread, found.middle + found.spread
    return {
        "series": series.name,
        "unit": series.unit,
        "known": {"dates": list(series.dates), "values": series.values.tolist()},
        "dates": list(ends),
        **{name: (10.0**one).tolist() for name, one in (("p05", low), ("p50", found.middle), ("p95", high))},
    }
