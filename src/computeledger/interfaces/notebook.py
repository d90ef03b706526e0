"""Results as a notebook shows them: one quiet table each, medians with their 90 % intervals, as in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from computeledger.interfaces.page import page_template
from computeledger.interfaces.view import View
from computeledger.interfaces.views import has_view, view_of
from computeledger.interfaces.views.plan import PHASE_ROWS
from computeledger.interfaces.views.simulate import TIMES
from computeledger.questions.wording import (
    PHASE_NAMES,
    figure_words,
    input_phrase,
    interval_words,
    model_words,
    point,
    words,
)
from computeledger.units import format_count
from computeledger.workloads.result import quantity

if TYPE_CHECKING:
    from computeledger.economics.plan.ledger import Ledger
    from computeledger.simulation.rl.clock import RLClockResult
    from computeledger.simulation.serving.clock import ServingClockResult
    from computeledger.workloads.pretraining.estimate import PretrainingResult
    from computeledger.workloads.rl.estimate import RLResult
    from computeledger.workloads.serving.estimate import ServingResult
    from computeledger.workloads.serving.pools import DisaggregatedResult

SERVE_ROWS = [
    ("time to first token", "ttft_s", "s"),
    ("time per output token", "tpot_s", "s"),
    ("output tokens/s per user", "output_tokens_per_s_per_user", ""),
    ("output tokens/s per GPU", "output_tokens_per_s_per_gpu", ""),
    ("input", "usd_per_mtok_input", "USD/Mtok"),
    ("cached read", "usd_per_mtok_cached_read", "USD/Mtok"),
    ("output", "usd_per_mtok_output", "USD/Mtok"),
]
_PRETRAINING_ROWS = [
    ("step time", "step_s", "s"),
    ("tokens/s per GPU", "tokens_per_s_per_gpu", ""),
    ("MFU (dense bf16 peak)", "mfu_fraction", "fraction"),
    ("HFU", "hfu_fraction", "fraction"),
    ("utilisation", "utilization_fraction", "fraction"),
    ("GPU-hours", "gpu_hours", "GPU-hours"),
    ("days", "days", "days"),
    ("cost", "usd", "USD"),
]
_RL_ROWS = [
    ("step", "step_s", "s"),
    ("beta in FLOP", "beta_flop", ""),
    ("utilisation (dense bf16)", "utilization_fraction", "fraction"),
]
#: Longest text of a cell or line, and most rows: a title or a front of policies may be of any length.
_LONGEST, _MOST_ROWS = 160, 24
#: A median and the interval beside it.
Cell = tuple[str, str]
Row = tuple[str, Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A result as text."""

    title: str
    rows: Sequence[Row]
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def notebook_html(result: object) -> str:
    """A result as a fragment of HTML without script; empty where it has no table.

    Examples
    --------
    >>> from computeledger.questions.answers.frontier.runs import schedule
    >>> "2025-08-16" in notebook_html(schedule(start="2025-01-15"))
    True
    """
    sheet = _sheet(result)
    return "" if sheet is None else page_template("notebook.html").render(sheet=sheet)


def notebook_text(result: object) -> str:
    """The same as lines, for IPython in a terminal.

    Examples
    --------
    >>> notebook_text(42)
    ''
    """
    sheet = _sheet(result)
    if sheet is None:
        return ""
    heads = [("", *sheet.columns)] if sheet.columns else []
    lines = [*heads, *((label, *("  ".join(filter(None, cell)) for cell in cells)) for label, cells in sheet.rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    table = ["   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(line.rstrip() for line in [sheet.title, *table, *sheet.notes]).replace("\u00a0", " ")


def _sheet(result: object) -> Sheet | None:
    if has_view(result):
        return _of_view(view_of(result))
    found = _SHEETS.get(type(result).__name__)
    if found is None:
        return None
    sheet = found(result)
    rows = [(_cut(label), [(_cut(text), _cut(band)) for text, band in cells]) for label, cells in sheet.rows]
    more = (f"{len(rows) - _MOST_ROWS:,} further rows are not shown",) if len(rows) > _MOST_ROWS else ()
    notes = tuple(_cut(one) for one in (*more, *sheet.notes) if one)
    return Sheet(_cut(sheet.title), rows[:_MOST_ROWS], tuple(map(_cut, sheet.columns)), notes)


def _of_view(view: View) -> Sheet:
    """The tiles of an answer's view, with what a reader must know of them."""
    rows = [(one.label, [(one.text, one.band)]) for one in view.tiles]
    right = f"Is it right? {view.evidence.text}" if view.evidence else ""
    return Sheet(
        view.title or view.headline,
        rows,
        notes=(view.headline, *filter(None, (view.context, right)), *view.warnings, *view.notes),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cell(value: Any, unit: str) -> Cell:
    """A number, an array of them, or a document's quantity."""
    if value is None:
        return "–", ""
    found = value if isinstance(value, Mapping) else quantity(value, unit)
    if not np.isfinite(point(found)):
        return "–", ""
    unit = "" if unit == "GPU-hours" else unit  # the label says it
    return figure_words(found, unit), interval_words(found, unit)


def _gpus(count: Any) -> str:
    return format_count(point(quantity(count, "")), "GPU")


def _rows(rows: Iterable[tuple[str, Any, str]]) -> list[Row]:
    return [(label, [_cell(value, unit)]) for label, value, unit in rows]


def _taken(result: object, rows: Iterable[tuple[str, str, str]]) -> list[Row]:
    """Rows of the terminal's table that the result has by the same name."""
    found = ((label, getattr(result, name, None), unit) for label, name, unit in rows)
    return _rows(row for row in found if row[1] is not None and not callable(row[1]))


def _spread(value: Any) -> tuple[str, ...]:
    count = np.size(value)
    return (f"medians with 90 % intervals over {count:,} values",) if count > 1 else ()


def _crowded(fits: Any) -> tuple[str, ...]:
    return () if np.all(fits) else ("it does not fit the memory",)


def _ledger(one: Ledger) -> Sheet:
    phases = one.phases
    shares = {name: one.shares(name) for name in ("flop", "gpu_hours")}
    rows: list[Row] = []
    for label, key, unit in PHASE_ROWS:
        own = {name: getattr(phase, key) for name, phase in phases.items()}
        none = ("tokens", "flop", "utilization_fraction")
        cells = [_cell(None if name == "experiments" and key in none else own[name], unit) for name in phases]
        total = one.total(key) if key in ("flop", "gpu_hours", "usd", "energy_j") else None
        rows.append((label, [*cells, _cell(total, unit)]))
    for label, key in (("share of FLOP", "flop"), ("share of GPU-time", "gpu_hours")):
        rows.append((label, [*(_cell(shares[key].get(name), "fraction") for name in phases), ("", "")]))
    drivers = ", ".join(input_phrase(driver.name) for driver in one.drivers[:3])
    skipped = "; ".join(
        f"{PHASE_NAMES[name]} is left out: {section.text('skip')}"
        for name, section in one.plan.sections.items()
        if "skip" in section
    )
    return Sheet(
        one.plan.top.text("title") or one.plan.name, rows, (*(PHASE_NAMES[name] for name in phases), "Total"),
        (f"medians with 90 % intervals, {one.n_samples:,} samples, seed {one.seed}",
         f"most of the spread comes from {drivers}" if drivers else "", skipped),
    )  # fmt: skip


def _serving(one: ServingResult) -> Sheet:
    asked = one.scenario
    priced = [row for row in SERVE_ROWS if row[2] != "USD/Mtok" or np.any(np.asarray(asked.usd_per_gpu_hour) > 0)]
    batch, come, go = (_cell(value, "")[0] for value in (asked.batch, asked.input_tokens, asked.output_tokens))
    title = f"{model_words(asked.model.id)}, {asked.layout}, batch {batch}, {come} tokens in, {go} out"
    return Sheet(title, _taken(one, priced), notes=(*_crowded(one.fits), *_spread(one.tpot_s)))


def _disaggregated(one: DisaggregatedResult) -> Sheet:
    asked = one.scenario
    flying = _cell(asked.concurrency, "")[0]
    title = f"{model_words(asked.decode.model.id)}, pools {asked.prefill_layout} and {asked.decode.layout}, "
    title += f"{_gpus(asked.n_gpus)}, {flying} requests in flight"
    return Sheet(title, _taken(one, SERVE_ROWS), notes=(*_crowded(one.fits), *_spread(one.tpot_s)))


def _pretraining(one: PretrainingResult) -> Sheet:
    asked = one.scenario
    title = f"{model_words(asked.model.id)}, {asked.layout}, {_cell(asked.tokens, 'tokens')[0]}"
    notes = ("GPU-hours and days without failures", *_spread(one.gpu_hours))
    return Sheet(title, _taken(one, _PRETRAINING_ROWS), notes=(*_crowded(one.fits), *notes))


def _rl(one: RLResult) -> Sheet:
    asked = one.scenario
    title = f"RL of {model_words(asked.engine.model.id)} on {_gpus(asked.split.n_gpus)}, one step"
    whole = one.gpu_s_per_step
    phases = [(f"GPU-time: {name}", np.divide(part, whole), "fraction") for name, part in one.phases_gpu_s.items()]
    rows = [*_taken(one, _RL_ROWS), *_rows([("FLOP of a step", one.flop_per_step, "FLOP"), *phases])]
    notes = _spread(one.step_s)
    return Sheet(title, rows, notes=(*_crowded(one.fits), *notes))


def _percentiles(one: ServingClockResult | RLClockResult) -> list[Row]:
    found = one.percentiles
    return [
        (label, [_cell(found[name].get(key), "s") for key in ("p50", "p90", "p99")])
        for name, label in TIMES.items()
        if name in found
    ]


def _served(one: ServingClockResult) -> Sheet:
    gpus = format_count(one.n_gpus, "GPU")
    title = f"{gpus}: {one.requests_per_s:.3g} requests/s, {one.output_tokens_per_s:.3g} output tokens/s"
    notes = ("saturated: the load is more than this fleet carries",) if one.is_saturated else ()
    return Sheet(title, _percentiles(one), ("p50", "p90", "p99"), notes)


def _trained(one: RLClockResult) -> Sheet:
    title = f"{words(one.step_s, 's')} per RL step, {words(one.steady_step_s, 's')} once the pipeline is full"
    return Sheet(title, _percentiles(one), ("p50", "p90", "p99"), (f"{one.scenario.n_steps} steps",))


#: By name of the class: a result of one engine loads no other.
_SHEETS: dict[str, Callable[[Any], Sheet]] = {
    "Ledger": _ledger, "ServingResult": _serving, "DisaggregatedResult": _disaggregated,
    "PretrainingResult": _pretraining, "RLResult": _rl, "ServingClockResult": _served, "RLClockResult": _trained,
}  # fmt: skip
