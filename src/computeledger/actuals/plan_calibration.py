"""What a reconciled run teaches the next plan: the utilisation of each phase, idle time included, with its interval.

GPU-hours of a calibrated phase are ``FLOP / (utilisation x dense bf16 peak x 3600 s/h)``, FLOP being the plan's own.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from computeledger.actuals.reconcile import Reconciliation
from computeledger.arrays import Range
from computeledger.economics.plan.read import Plan
from computeledger.economics.plan.setting import system_of
from computeledger.economics.scaling.allocation import PHASES
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.load import load_model
from computeledger.files import read_toml
from computeledger.writing import toml_row, toml_text

SCHEMA = "plan-calibration/1"
#: Keys of a section that say what a calibration says.
REPLACED = ("gpu_hours", "utilization", "beta_gpu_time")


@dataclass(frozen=True, slots=True)
class PhaseCalibration:
    """The utilisation that a phase reached."""

    phase: str
    utilization: Range
    model: str
    accelerator: str
    gpu_hours: float
    unplanned_fraction: float
    data: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanCalibration:
    """Calibrations of phases, of one day."""

    name: str
    date: str
    phases: Mapping[str, PhaseCalibration]


def calibration_of(found: Reconciliation, data: Mapping[str, Sequence[str]], name: str = "") -> PlanCalibration:
    """Take the utilisations of a reconciliation; a run that cannot have been teaches nothing."""
    phases = {}
    impossible = {one.phase for one in found.contradictions}
    for phase, one in found.phases.items():
        if not one.is_planned or one.utilization_range is None or phase in impossible:
            continue
        low, high = one.utilization_range
        value = one.actual.utilization_fraction
        planned = found.ledger.phases[phase]
        phases[phase] = PhaseCalibration(
            phase, Range(low, high, bounded=True, mid=value), planned.model, planned.accelerator, one.actual.gpu_hours,
            one.took.unplanned_gpu_hours / one.actual.gpu_hours, tuple(data.get(phase, ())),
        )  # fmt: skip
    return PlanCalibration(name, datetime.date.today().isoformat(), phases)


def calibration_text(calibration: PlanCalibration) -> str:
    """Write a calibration as TOML."""
    lines = [
        "# What reconciled runs reached; computeledger plan PLAN.toml --calibration FILE uses it",
        f"schema = {toml_text(SCHEMA)}",
        f"date = {calibration.date}",
    ]
    for name, one in calibration.phases.items():
        span, value = one.utilization, float(one.utilization.quantile(0.0))
        lines += [
            "",
            f"[{name}]",
            "# FLOP of 6 N a trained and 2 N a forward token over the dense bf16 peak and all GPU-time held; not MFU",
            toml_row("utilization", {"value": f"{value:.6g}", "low": f"{span.low:.6g}", "high": f"{span.high:.6g}"}),
            f"model = {toml_text(one.model)}",
            f"accelerator = {toml_text(one.accelerator)}",
            f"gpu_hours = {float(one.gpu_hours):.6}",
            f"unplanned_fraction = {float(one.unplanned_fraction):.6}",
            f"data = [{', '.join(toml_text(file) for file in one.data)}]",
        ]
    return "\n".join(lines) + "\n"


def read_calibration(path: str | Path) -> PlanCalibration:
    """Read a calibration that ``reconcile`` wrote."""
    table = read_toml(Path(path))
    if table.get("schema") != SCHEMA:
        raise InputError(f"{path}: schema = {shown(table.get('schema'))}: a calibration of reconcile says {SCHEMA!r}")
    phases = {name: one for name, one in table.items() if name not in ("schema", "date")}
    for name in phases:
        if name not in PHASES:
            raise InputError(f"{path}: unknown section [{name}]: {nearest(name, PHASES)}")
    if not phases:
        raise InputError(f"{path}: holds no phase")
    return PlanCalibration(
        str(path), str(table.get("date", "")), {n: _phase(path, n, one) for n, one in phases.items()}
    )


def _phase(path: str | Path, name: str, table: Any) -> PhaseCalibration:
    label = f"{path}: [{name}]"
    if not isinstance(table, dict):
        raise InputError(f"{label} is {shown(table)}: a table is needed")
    span = table.get("utilization")
    given = [span.get(key) for key in ("low", "value", "high")] if isinstance(span, dict) else []
    ends = [float(end) for end in given if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(ends) != 3:
        raise InputError(f"{label} utilization needs value, low and high, each a number")
    low, value, high = ends
    if not 0 < low < high < 1 or not low <= value <= high:
        raise InputError(f"{label} utilization = {low:g}..{value:g}..{high:g}: 0 < low <= value <= high < 1 is needed")
    for key in ("model", "accelerator"):
        if not isinstance(table.get(key), str):
            raise InputError(f"{label} {key} is missing: what it was measured with")
    data = table.get("data", [])
    hours, unplanned = (table.get(key, 0.0) for key in ("gpu_hours", "unplanned_fraction"))
    known = isinstance(data, list) and all(isinstance(one, int | float) for one in (hours, unplanned))
    if not known:
        raise InputError(f"{label} data is a list of files, gpu_hours and unplanned_fraction are numbers")
    return PhaseCalibration(
        name, Range(low, high, bounded=True, mid=value), table["model"], table["accelerator"], float(hours),
        float(unplanned), tuple(str(one) for one in data),
    )  # fmt: skip


def calibrated(plan: Plan, calibration: PlanCalibration) -> Plan:
    """A plan whose phases reach the utilisations of a calibration."""
    sections = dict(plan.sections)
    used = [name for name in calibration.phases if name in sections and "skip" not in sections[name]]
    if not used:
        raise InputError(
            f"{calibration.name}: calibrates {', '.join(calibration.phases)}, which the plan does not have"
        )
    for name in used:
        one, section = calibration.phases[name], sections[name]
        for what, own, measured in (
            ("model", load_model(str(plan.value(section, "model"))).id, one.model),
            ("accelerator", system_of(plan, section).accelerator.id, one.accelerator),
        ):
            if own != measured:
                raise InputError(f"{calibration.name}: [{name}] is of {what} {measured}, the plan's is {own}")
        kept = {key: value for key, value in section.values.items() if key not in REPLACED}
        sections[name] = replace(section, values={**kept, "utilization": one.utilization})
    return replace(plan, sections=sections)
