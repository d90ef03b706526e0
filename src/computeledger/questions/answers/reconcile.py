"""Answer ``computeledger reconcile``: a plan settled with what its runs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from computeledger.actuals.actual_files import ReadActuals, ReadFile, read_files, tally_of
from computeledger.actuals.gap import Gap, explain_step
from computeledger.actuals.plan_calibration import PlanCalibration, calibration_of, calibration_text, read_calibration
from computeledger.actuals.profiles.profile import StepProfile
from computeledger.actuals.profiles.profiles import read_profile, split_profiles
from computeledger.actuals.readers.tally import Hints, counted
from computeledger.actuals.reconcile import Reconciliation, Settled, settle_plan
from computeledger.actuals.sums import LEDGERS
from computeledger.economics.plan.read import Plan, load_plan
from computeledger.errors import InputError, shown
from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.plan import PHASE_QUANTITIES
from computeledger.questions.document import picked
from computeledger.questions.reconcile import ReconcileQuestion
from computeledger.questions.wording import MFU_WORDS, UTILIZATION_WORDS
from computeledger.units import HOUR_S
from computeledger.workloads.pretraining.step_logs import FORMATS, read_step_log
from computeledger.writing import write_bytes

VARIANCE_WORDS = {
    "volume": "more or fewer tokens, at the planned GPU-time per token",
    "utilization": "more or less GPU-time per token, at the planned price",
    "unplanned": "phases that no plan has (idle, checkpoints, evaluation, work done again), at the planned price",
    "price": "another price, for every GPU-hour",
}
#: Two shares of the peak that one run has, and why they differ.
SHARE_WORDS = {
    "utilization_fraction": UTILIZATION_WORDS,
    "mfu_fraction": f"{MFU_WORDS}, over the GPU-time of planned work",
}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ReconcileAnswer(Answer):
    """A plan and what became of it, by phase."""

    question: ReconcileQuestion
    result: Reconciliation
    files: tuple[ReadFile, ...]
    calibration: PlanCalibration
    gap: Gap | None = None

    @property
    def phases(self) -> Mapping[str, Settled]:
        """Budget, actual and variance by phase."""
        return self.result.phases

    @property
    def title(self) -> str:
        """Title of the plan."""
        plan = self.result.ledger.plan
        return plan.top.text("title") or plan.name

    def total(self, side: str, quantity: str) -> float:
        """Sum over the phases; ``side`` is ``budget`` or ``actual``, or of the variance ``usd`` or ``gpu_hours``."""
        return sum(float(getattr(getattr(one, side), quantity)) for one in self.phases.values())

    def write_calibration(self) -> None:
        """Write the calibration that ``plan`` takes, where there is one."""
        if self.calibration.phases:
            text = calibration_text(self.calibration)
            read = [one for one in (self.question.plan, *self.question.actuals) if isinstance(one, str)]
            write_bytes(self.question.calibration, text.encode(), "--calibration", read)

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger reconcile --json`` prints it."""
        found = self.result
        sums = {side: {name: self.total(side, name) for name in ("gpu_hours", "usd")} for side in ("budget", "actual")}
        return {
            "plan": found.ledger.plan.name,
            "title": self.title,
            "phases": {name: _phase_document(found, one) for name, one in found.phases.items()},
            "total": {**sums, "variance": {name: self.total("usd", name) for name in VARIANCE_WORDS}},
            "contradictions": [asdict(one) for one in found.contradictions],
            "remarks": list(found.remarks),
            "files": [_file_document(one) for one in self.files],
            "definitions": {**VARIANCE_WORDS, **SHARE_WORDS},
            "gap": None if self.gap is None else _gap_document(self.gap),
            "calibration": _calibration_document(self.calibration) if self.calibration.phases else None,
        }


def reconcile(
    plan: str | PathLike[str] | Plan | ReconcileQuestion | None = None,
    /,
    actuals: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    **given: Given,
) -> ReconcileAnswer:
    """Budget against actuals by phase: what the runs took, why it differs, and what the next plan can count on.

    Parameters
    ----------
    plan : str, path, Plan or ReconcileQuestion
        A plan file, a plan as read, or a question made before.
    actuals : str, path or sequence of them
        Run ledgers and logs.
    **given : str or float
        Other fields of :class:`~computeledger.questions.reconcile.ReconcileQuestion`, such as ``price`` and ``gpus``.

    Returns
    -------
    ReconcileAnswer
        With each phase's budget, actual and variance; its ``write_calibration()`` writes what a plan takes.

    Raises
    ------
    InputError
        For a plan or a log that cannot be read, and for a log that leaves out what its reader has to know.

    Examples
    --------
    >>> import tempfile
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "rl": {"skip": "-"},
    ...                   "pretraining": {"tokens": "1B tokens", "utilization": "40%"}, "inference": {"skip": "-"}})
    >>> log = Path(tempfile.mkdtemp(), "run.jsonl")
    >>> _ = log.write_text('{"schema": "run-ledger/1", "run": "a", "workload": "pretraining", "phase": "step", '
    ...                    '"duration_s": 18000, "devices": 8, "tokens_by_kind": {"trained": 1e9}}')
    >>> run = reconcile(plan, log).phases["pretraining"]
    >>> round(run.actual.gpu_hours), round(run.budget.gpu_hours, 1), round(run.usd.utilization, 1)
    (40, 31.6, 16.8)
    """
    question = plan if isinstance(plan, ReconcileQuestion) else None
    named: dict[str, Any] = {"plan": None if question else plan, "actuals": actuals}
    asked = {**given, **{name: value for name, value in named.items() if value is not None}}
    return from_python(ReconcileQuestion, answer_reconcile, question, asked)


def answer_reconcile(question: ReconcileQuestion) -> ReconcileAnswer:
    """Answer ``computeledger reconcile``."""
    _check_calibration_file(question.calibration)
    plan = load_plan(question.plan) if isinstance(question.plan, str) else question.plan
    hints = Hints(
        devices=question.gpus,
        sequence_tokens=question.sequence_tokens,
        rollouts_per_step=question.rollouts_per_step,
        duration_s=question.duration,
    )
    logs, profiles = split_profiles(question.actuals)
    if not logs:
        raise InputError(f"{shown(profiles[0])}: a profile is one of a few steps: give the run's log beside it")
    actuals = read_files(logs, hints)
    files = actuals.files
    tallies = {phase: tally_of(phase, files) for phase in LEDGERS.values()}
    found = settle_plan(plan, actuals.took, tallies, question.price, actuals.accounts)
    held = {count for one in found.phases.values() for count in one.took.devices}
    if question.gpus is not None and question.gpus not in held:
        remark = f"--gpus {question.gpus} was not needed: every log says how many GPUs it held"
        found = replace(found, remarks=(*found.remarks, remark))
    gap = _gap(plan, found, actuals, [read_profile(path, question.profiled_steps) for path in profiles])
    return ReconcileAnswer(question, found, files, calibration_of(found, _data(files), question.calibration), gap)


def _gap(plan: Plan, found: Reconciliation, read: ReadActuals, profiles: Sequence[StepProfile]) -> Gap | None:
    """Why pretraining's steps take longer than modelled, by the first log that states them and the profile."""
    if len(profiles) > 1:
        raise InputError(f"{shown(profiles[1].path)}: give one profile, of one rank, beside {shown(profiles[0].path)}")
    settled = found.phases.get("pretraining")
    if settled is None or not settled.is_planned:
        if profiles:
            raise InputError(
                f"{shown(profiles[0].path)}: a profile explains a step of pretraining, which was not planned"
            )
        return None
    trained = [one.path for one in read.files if one.tool in {f"{form.tool} log" for form in FORMATS}]
    log = read_step_log(trained[0]) if trained else None
    gap = explain_step(plan, read.logged["pretraining"], log, profiles[0] if profiles else None)
    if gap is None and profiles:
        raise InputError(
            f"{shown(profiles[0].path)}: the plan models no step to compare with: [pretraining] needs gpus"
        )
    return gap


def _gap_document(gap: Gap) -> dict[str, Any]:
    profile = gap.profile
    return {
        "modelled_step_s": gap.modelled_s,
        "measured_step_s": gap.measured_s,
        "steady_step_s": gap.steady_s,
        "layout": gap.layout,
        "parts": [
            {
                "part": one.name,
                "modelled_s": one.modelled_s,
                "measured_s": one.measured_s,
                "excess_s": one.excess_s,
                "share_fraction": one.excess_s / gap.total_s if gap.total_s else 0.0,
                "fix": one.fix,
                "largest": [{"name": name, "time_s": seconds} for name, seconds in one.largest],
            }
            for one in gap.parts
        ],
        "pays_most": None if gap.best is None else gap.best.name,
        "profile": None
        if profile is None
        else {
            "file": profile.path,
            "tool": profile.tool,
            "n_steps": profile.n_steps,
            "step_s": profile.step_s,
            "busy_s": dict(profile.busy_s),
        },
        "remarks": list(gap.remarks),
    }


def _check_calibration_file(path: str) -> None:
    """Refuse to write over a file that is no calibration."""
    if Path(path).exists():
        try:
            read_calibration(path)
        except InputError as error:
            raise InputError(f"--calibration {error}; it is left as it is: give another name") from None


def _data(files: Sequence[ReadFile]) -> dict[str, list[str]]:
    """Names of the files that each phase is from."""
    phases = dict.fromkeys(phase for one in files for phase in one.phases)
    return {phase: [Path(one.path).name for one in files if phase in one.phases] for phase in phases}


def _phase_document(found: Reconciliation, one: Settled) -> dict[str, Any]:
    phase, took = found.ledger.phases.get(one.name), one.took
    names = [name for name in PHASE_QUANTITIES if name != "flop"]
    whole_s = took.gpu_hours * HOUR_S
    planned = None if phase is None else picked(phase, *names)
    return {
        "budget": asdict(one.budget),
        "actual": asdict(one.actual) | {"energy_measured_j": one.measured_energy_j},
        "variance": asdict(one.usd),
        "variance_gpu_hours": asdict(one.gpu_hours),
        "budget_interval": planned,
        "inside_interval": dict(one.inside),
        "is_planned": one.is_planned,
        "parts": {
            name: {"gpu_hours": seconds / HOUR_S, "fraction": seconds / whole_s if whole_s else 0.0}
            for name, seconds in sorted(took.gpu_s_by_phase.items(), key=lambda pair: -pair[1])
        },
        "planned_parts": {name: {"gpu_hours": hours} for name, hours in one.planned_parts.items()},
        "unplanned_gpu_hours": took.unplanned_gpu_hours,
        "utilization_interval": list(one.utilization_range) if one.utilization_range else None,
        "runs": list(took.runs),
        "devices": list(took.devices),
        "steps": took.steps,
    }


def _file_document(one: ReadFile) -> dict[str, Any]:
    return {
        "file": one.path,
        "tool": one.tool,
        "entries": one.entries,
        "phases": list(one.phases),
        "damaged": counted(one.tally.damaged),
        "remarks": counted(one.tally.remarks),
        "observed": {
            name: {"n": value.count, "mean": value.mean, "least": value.least, "most": value.most}
            for name, value in one.tally.observed.items()
        },
    }


def _calibration_document(calibration: PlanCalibration) -> dict[str, Any]:
    phases = {
        name: {
            "utilization": {
                "p05": one.utilization.low,
                "p50": float(one.utilization.quantile(0.0)),
                "p95": one.utilization.high,
            },
            "model": one.model,
            "accelerator": one.accelerator,
            "data": list(one.data),
        }
        for name, one in calibration.phases.items()
    }
    return {"file": calibration.name, "date": calibration.date, "phases": phases}
