"""The view of a machine's profile: peaks, constants with their residuals, what they leave unexplained."""

from __future__ import annotations

from pathlib import Path

from computeledger.actuals.machine.files import factors_document
from computeledger.actuals.machine.fit import Residual
from computeledger.interfaces.view import Table, Tile, View
from computeledger.questions.answers.calibrate import CalibrateAnswer
from computeledger.questions.wording import headline_words
from computeledger.units import format_count, format_percent, format_si

_UNKNOWN = "not determined"


def view(answer: CalibrateAnswer, _working: bool) -> View:
    """Best rates, then the constants and how well they describe what was measured."""
    kernels, fit = answer.kernels, answer.fit
    spread = format_percent(answer.spread_fraction)
    folder = answer.question.write
    return View(
        title=f"{answer.about.name}: {answer.about.device_name}",
        asked=(f"{kernels.name} {kernels.version} on {kernels.device}", format_count(kernels.threads, "thread")),
        headline=headline_words(answer.about.device_name, _predicted(fit.residual_median)),
        tiles=_tiles(answer),
        tile_heading="best rate",
        warnings=(f"{answer.warning}.".capitalize(),) if answer.warning else (),
        tables=(_constants(answer), _residuals(answer)),
        facts=(("Written", f"profile.toml, system.toml and accelerator.toml in {Path(folder).name}"),)
        if folder
        else (),
        grounds=(
            f"spread of repeats {spread}; times are the {'wall' if kernels.wall else 'processor'} clock's",
            f"what was not measured is as in the profile {answer.about.like}",
        ),
        overline="calibrate",
    )


def _predicted(median: float | None) -> str:
    if median is None:
        return f"how well the constants predict is {_UNKNOWN}, there are as many of them as cases"
    return f"the constants predict {format_percent(median)} beside what was measured, at the median over all cases"


def _tiles(answer: CalibrateAnswer) -> tuple[Tile, ...]:
    fit, link = answer.fit, answer.fit.link
    names = {"bf16": fit.precision}
    products = [
        Tile(f"Matrix products, {names.get(name, name)}", format_si(rate, "FLOP/s"), value=rate)
        for name, rate in fit.peak_flop_per_s.items()
    ]
    memory = Tile("Memory", format_si(fit.hbm_bytes_per_s, "B/s"), value=fit.hbm_bytes_per_s)
    if link is None:
        return (*products, memory)
    latency = f"latency {format_si(link.latency_s, 's')}"
    reduced = Tile(f"All-reduce of {link.n_processes} processes", format_si(link.bytes_per_s, "B/s"), latency)
    return (*products, memory, reduced)


def _constants(answer: CalibrateAnswer) -> Table:
    rows = [
        [name, format_si(float(one["value"]), "s") if one["unit"] else f"{one['value']:.3g}", str(one["residual"])]
        for name, one in factors_document(answer.fit).items()
    ]
    return Table("Constants of the profile", ("constant", "value #", "residual"), rows)


def _residuals(answer: CalibrateAnswer) -> Table:
    rows = [[kind, f"{one.n}", *_errors(one)] for kind, one in answer.fit.residuals.items()]
    columns = ("kind", "cases #", "median error #", "90th percentile #", "predicted over measured #")
    return Table("Predicted against measured times", columns, rows)


def _errors(one: Residual) -> tuple[str, str, str]:
    if one.median_abs_error is None or one.p90_abs_error is None or one.bias is None:
        return _UNKNOWN, "", ""
    return format_percent(one.median_abs_error), format_percent(one.p90_abs_error), f"× {one.bias:.2f}"
