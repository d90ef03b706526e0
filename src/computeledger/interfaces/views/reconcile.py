"""The view of a reconciliation: each phase's budget against its actual, and why the two differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from computeledger.actuals.actual_files import ReadFile
from computeledger.actuals.gap import AS_PREDICTED_FRACTION, WORTH_A_FIX_FRACTION, Gap
from computeledger.actuals.physics_checks import Contradiction
from computeledger.actuals.plan_calibration import PlanCalibration
from computeledger.actuals.reconcile import Settled
from computeledger.actuals.sums import UNDIVIDED
from computeledger.interfaces.plots.reconcile import CHANGES, parts_figure, signed, waterfall_figure
from computeledger.interfaces.view import Plot, Table, Tile, View
from computeledger.questions.answers.reconcile import SHARE_WORDS, VARIANCE_WORDS, ReconcileAnswer
from computeledger.questions.wording import PHASE_NAMES, headline_words, percent, show, words
from computeledger.units import HOUR_S, format_count, format_si

#: Quantity, its words and unit.
_QUANTITIES = (
    ("tokens", "tokens", ""), ("gpu_hours", "GPU-hours", ""), ("utilization_fraction", "utilisation", "fraction"),
    ("mfu_fraction", "MFU", "fraction"), ("usd", "cost", "USD"), ("usd_per_gpu_hour", "price of a GPU-hour", "USD/h"),
    ("energy_j", "energy, at the facility", "J"), ("beta_flop", "beta in FLOP", ""),
    ("beta_gpu_time", "beta in GPU-time", ""),
)  # fmt: skip
_INSIDE = {"tokens": "tokens", "gpu_hours": "GPU-hours", "usd": "cost"}


def view(answer: ReconcileAnswer, _working: bool) -> View:
    """Totals, a waterfall and two tables for each phase, then what was read and what it teaches."""
    return View(
        title=f"{answer.title}: budget against actuals",
        headline=_headline(answer),
        context=_context(answer),
        tiles=_tiles(answer),
        reference="planned",
        tile_heading="actual",
        warnings=tuple(f"Contradicts physics: {_contradiction(one)}" for one in answer.result.contradictions),
        plots=(*(plot for one in answer.phases.values() for plot in _plots(one)), _parts(answer)),
        tables=(
            *(table for one in answer.phases.values() for table in (_quantities(one), _variance(one), *_by_part(one))),
            *([_gap(answer.gap)] if answer.gap is not None else []),
            *_calibration(answer.calibration, answer.result.ledger.plan.name),
            _files(answer.files),
        ),
        facts=(("Step time", _step_time(answer.gap)),) if answer.gap is not None else (),
        grounds=("; ".join(SHARE_WORDS.values()), *answer.result.remarks),
        overline="reconcile",
    )


def _headline(answer: ReconcileAnswer) -> str:
    budget, actual = (answer.total(side, "usd") for side in ("budget", "actual"))
    side = "over" if actual > budget else "under"
    said = f"{words(actual, 'USD')} where {words(budget, 'USD')} was planned"
    return headline_words(answer.title, f"{said}, {words(abs(actual - budget), 'USD')} {side} budget")


def _context(answer: ReconcileAnswer) -> str:
    changes = {part: answer.total("usd", part) for part in CHANGES}
    largest = max(changes, key=lambda part: abs(changes[part]))
    return f"The largest part of the difference is {CHANGES[largest]}: {signed(changes[largest], 'USD')}."


def _tiles(answer: ReconcileAnswer) -> tuple[Tile, ...]:
    held, planned = (answer.total(side, "gpu_hours") for side in ("actual", "budget"))
    spent, budget = (answer.total(side, "usd") for side in ("actual", "budget"))
    unplanned = sum(one.took.unplanned_gpu_hours for one in answer.phases.values())
    n_wrong = len(answer.result.contradictions)
    return (
        Tile("GPU-hours", format_si(held), value=held, reference=format_si(planned)),
        Tile("Cost", words(spent, "USD"), value=spent, reference=words(budget, "USD")),
        Tile("In unplanned phases", percent(unplanned / held if held else 0.0), words(unplanned, "GPU-hours")),
        Tile("Contradictions with physics", str(n_wrong) if n_wrong else "none"),
    )


def _contradiction(one: Contradiction) -> str:
    found, limit = (show(value, one.unit) if one.unit else f"{value:.3g}" for value in (one.found, one.limit))
    return f"{PHASE_NAMES[one.phase]}: {one.what}: {found} against {limit} ({one.why})"


def _plots(one: Settled) -> Iterator[Plot]:
    for unit, what in (("USD", "cost"), ("GPU-hours", "GPU-hours")):
        title = f"{PHASE_NAMES[one.name]}: {what}, from budget to actual"
        caption = "The parts of the variance lead from what was planned to what was spent."
        yield Plot(f"{one.name}-{unit.lower()}", title, caption, waterfall_figure(one, unit))


def _parts(answer: ReconcileAnswer) -> Plot:
    caption = "Shares of the GPU-time that was held, by phase of the run ledger."
    return Plot("parts", "Where the GPU-time went", caption, parts_figure(answer.phases))


def _quantities(one: Settled) -> Table:
    """Budget, actual and their ratio, of each quantity that one side has."""
    rows = []
    for key, label, unit in _QUANTITIES:
        budget, actual = getattr(one.budget, key), getattr(one.actual, key)
        if budget or actual:
            ratio = f"× {actual / budget:.3g}" if budget and actual is not None else ""
            rows.append([label, _amount(budget, unit), _amount(actual, unit), ratio])
    runs = f"Runs: {', '.join(one.took.runs)}; {_entries(one.took.steps)} with tokens."
    against = ", ".join(f"{_INSIDE[key]} {'inside' if value else 'outside'}" for key, value in one.inside.items())
    note = f"Against the plan's 90 % interval: {against}. {runs}" if one.is_planned else f"Not in the plan. {runs}"
    return Table(PHASE_NAMES[one.name], ("", "budget #", "actual #", "actual / budget #"), rows, note=note)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return format_si(value) if unit == "" else show(value, unit)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _variance(one: Settled) -> Table:
    rows = [
        [label, signed(getattr(one.usd, part), "USD"),
         "" if part == "price" else signed(getattr(one.gpu_hours, part), "GPU-hours"), VARIANCE_WORDS[part]]
        for part, label in CHANGES.items()
    ]  # fmt: skip
    rows.append(["actual − budget", signed(one.usd.total, "USD"), signed(one.gpu_hours.total, "GPU-hours"), ""])
    whole_s = one.took.gpu_hours * HOUR_S
    parts = sorted(one.took.gpu_s_by_phase.items(), key=lambda pair: -pair[1])
    spent = ", ".join(f"{name} {percent(seconds / whole_s if whole_s else 0.0)}" for name, seconds in parts)
    return Table(
        f"{PHASE_NAMES[one.name]}: why the two differ", ("part", "USD #", "GPU-hours #", "what it is"), rows,
        note=f"GPU-time: {spent}.", strong=(len(rows) - 1,),
    )  # fmt: skip


def _by_part(one: Settled) -> Iterator[Table]:
    """GPU-hours as planned and as they were, by phase of the run ledger; the largest difference first."""
    if not one.planned_parts:
        return
    took = {name: seconds / HOUR_S for name, seconds in one.took.gpu_s_by_phase.items()}
    parts = dict(one.planned_parts)
    if UNDIVIDED in took:  # a step that its tool does not divide stands against all phases that are not told apart
        parts[UNDIVIDED] = sum(hours for name, hours in parts.items() if name not in took)
    pairs = [(name, parts.get(name, 0.0), took.get(name)) for name in {**parts, **took}]
    pairs.sort(key=lambda pair: (pair[2] is None, -abs((pair[2] or 0.0) - pair[1])))
    rows = [
        [name, show(planned, "GPU-hours") if planned else "–", "–", "", ""] if actual is None else
        [name, show(planned, "GPU-hours") if planned else "–", show(actual, "GPU-hours"),
         f"× {actual / planned:.3g}" if planned else "", signed(actual - planned, "GPU-hours")]
        for name, planned, actual in pairs
    ]  # fmt: skip
    columns = ("phase", "planned #", "actual #", "actual / planned #", "difference #")
    silent = [name for name, _, actual in pairs if actual is None]
    where = "the undivided step" if UNDIVIDED in took else "other phases, or in idle"
    yield Table(
        f"{PHASE_NAMES[one.name]} by phase, in GPU-hours", columns, rows,
        note="Planned: the plan's GPU-time per token for the tokens of the run, divided as its modelled step is. "
        "What waits for the longest rollouts is generation, as logs count it."
        + (f" Not in the log: {', '.join(silent)}; their time is within {where}." if silent else ""),
    )  # fmt: skip


def _step_time(gap: Gap) -> str:
    """Measured against modelled, and the part of the gap whose fix gains most, or that there is no gap."""
    step = f"{words(gap.measured_s, 's')} measured, {words(gap.modelled_s, 's')} modelled"
    if gap.best is None or gap.total_s < AS_PREDICTED_FRACTION * gap.modelled_s:
        if gap.best is None:
            return f"{step}: no part takes much more than modelled"
        return f"{step}: {gap.best.name} takes {words(gap.best.excess_s, 's')} more than modelled, other parts less"
    share = percent(gap.best.excess_s / gap.total_s)
    fix = f": {gap.best.fix}" if gap.best.fix else ""
    return f"{step}; {share} of the difference comes from {gap.best.name}{fix}"


def _gap(gap: Gap) -> Table:
    """Every part of the gap; what a GPU did is told where a profile was given."""
    is_apart = gap.total_s >= AS_PREDICTED_FRACTION * gap.modelled_s
    rows = [
        [one.name, _amount(one.modelled_s or None, "s"), _amount(one.measured_s, "s"), signed(one.excess_s, "s"),
         percent(one.excess_s / gap.total_s).replace("-", "\u2212") if is_apart else "",
         one.fix if one.excess_s > WORTH_A_FIX_FRACTION * gap.measured_s else ""]
        for one in gap.parts
    ]  # fmt: skip
    rows.append(
        ["a step", _amount(gap.modelled_s, "s"), _amount(gap.measured_s, "s"), signed(gap.total_s, "s"), "", ""]
    )
    whole = gap.profile
    seen = "" if whole is None else f" {whole.tool} of {format_count(whole.n_steps, 'step')}."
    note = (
        f"Device-time of a global batch on {gap.layout}, pauses included; the median step took "
        f"{words(gap.steady_s, 's')}.{seen} {'; '.join(gap.remarks)}"
    ).strip()
    columns = ("part", "modelled #", "measured #", "difference #", "share #", "what shortens it")
    return Table("Why a step takes longer", columns, rows, note=note, strong=(len(rows) - 1,))


def _calibration(calibration: PlanCalibration, plan: str) -> list[Table]:
    rows = [
        [PHASE_NAMES[name], percent(float(one.utilization.quantile(0.0))),
         f"{percent(one.utilization.low)} – {percent(one.utilization.high)}", ", ".join(one.data)]
        for name, one in calibration.phases.items()
    ]  # fmt: skip
    if not rows:
        return [Table("For the next plan", ("", ""), [["calibration", "none: no phase gives one"]])]
    note = (
        f"The interval is that of the run's own pieces. {PurePath(calibration.name).name} holds it for "
        f"{next_command(*map(_named, (plan, calibration.name)))}."
    )
    return [Table("For the next plan", ("phase", "utilisation reached #", "90 % interval #", "from"), rows, note=note)]


def next_command(plan: str, calibration: str) -> str:
    """The command that takes what was learnt, as a shell reads it.

    Examples
    --------
    >>> next_command("my plans/a.toml", "c.toml")
    "computeledger plan 'my plans/a.toml' --calibration c.toml"
    """
    return f"computeledger plan {shlex.quote(plan)} --calibration {shlex.quote(calibration)}"


def _named(path: str) -> str:
    """A path as it was given; of one from the root on the name: a report that is passed on tells no folders."""
    return PurePath(path).name if PurePath(path).is_absolute() else path


def _files(files: tuple[ReadFile, ...]) -> Table:
    rows: list[Any] = [
        [PurePath(one.path).name, one.tool, _entries(one.entries), "; ".join(_damage(one))] for one in files
    ]
    return Table("What was read", ("file", "tool", "entries #", "damaged or odd"), rows)


def _damage(one: ReadFile) -> Iterator[str]:
    for counts in (one.tally.damaged, one.tally.remarks):
        for reason, seen in sorted(counts.items(), key=lambda pair: -pair[1].count):
            yield f"{format_count(seen.count, 'line')} (first: {seen.line}): {reason}"
