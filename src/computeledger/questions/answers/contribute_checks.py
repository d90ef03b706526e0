"""What a contributed result must not say, and what a reviewer would ask of it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from computeledger.actuals.readers.tally import ROUNDING
from computeledger.errors import ComputeLedgerError, InputError, LayoutError, nearest, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import price_editions
from computeledger.facts.load import load_model, load_system, model_name
from computeledger.facts.schema import PRECISION_BYTES, Accelerator
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.transformer import n_params_active
from computeledger.physics.weights import weight_counts
from computeledger.questions.contribute import ContributeQuestion
from computeledger.units import format_count, format_si
from computeledger.workloads.engines import precision_on
from computeledger.workloads.serving.anchor_files import BenchmarkPoint

#: Licences that results are published under, by their SPDX id; any other is ``LicenseRef-NAME``.
LICENCES = (
    "CC-BY-4.0", "CC-BY-3.0", "CC-BY-SA-4.0", "CC-BY-SA-3.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC0-1.0",
    "Apache-2.0", "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0", "0BSD", "Unlicense",
    "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later",
    "AGPL-3.0-only", "AGPL-3.0-or-later", "ODbL-1.0", "ODC-By-1.0", "PDDL-1.0",
    "CDLA-Permissive-1.0", "CDLA-Permissive-2.0", "CDLA-Sharing-1.0",
)  # fmt: skip
_OTHER_LICENCE = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
_TIMES = {"tpot": "per output token", "ttft": "to the first token"}
_MONTH = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])")
#: Relative difference in parameters from which two models are not the same (assumption) [-].
_SAME_SIZE = 0.05
#: Words with a number that name a chip: ``4090``, ``H100``; neither its memory nor its form.
_OF_A_CHIP = re.compile(r"(?!\d+(?:gb|gib|tb|w)\b|hbm|sxm|gddr|pcie|nvl)[a-z]*\d{2,4}[a-z]*", re.IGNORECASE)


def check_month(text: str, today: datetime.date | None = None) -> None:
    """Refuse what is no month, or one that has not begun; a clock behind the shipped prices counts as theirs.

    Examples
    --------
    >>> check_month("2031-01", datetime.date(2026, 11, 29))
    Traceback (most recent call last):
    computeledger.errors.InputError: --date '2031-01': has not begun; the month in which it was measured
    """
    if not _MONTH.fullmatch(text):
        raise InputError(f"--date {shown(text)}: a month, such as 2026-11")
    if text > max(f"{today or datetime.date.today():%Y-%m}", price_editions()[-1]):
        raise InputError(f"--date {shown(text)}: has not begun; the month in which it was measured")


def check_licence(text: str) -> None:
    """Refuse what names no licence.

    Examples
    --------
    >>> check_licence("LicenseRef-company-terms")
    >>> check_licence("CC-BY-4")
    Traceback (most recent call last):
    computeledger.errors.InputError: --licence 'CC-BY-4': no SPDX id; did you mean 'CC-BY-4.0'? ...
    """
    if text in LICENCES or _OTHER_LICENCE.fullmatch(text):
        return
    hint = nearest(text, LICENCES)
    apart = "" if hint.endswith("?") else ";"
    raise InputError(f"--licence {shown(text)}: no SPDX id; {hint}{apart} any other is written LicenseRef-NAME")


def check_version(text: str | None) -> None:
    """Refuse a version without a digit.

    Examples
    --------
    >>> check_version("b6123")
    >>> check_version("banana")
    Traceback (most recent call last):
    computeledger.errors.InputError: --backend-version 'banana': no version; write 0.11.0, b6123 or a commit
    """
    if text is not None and not re.search(r"\d", text):
        raise InputError(f"--backend-version {shown(text)}: no version; write 0.11.0, b6123 or a commit")


def layout_of(text: str, model: Model, n_gpus: float | None = None) -> Layout:
    """Read a layout that can exist, on as many GPUs as a log states.

    Examples
    --------
    >>> layout_of("tp3", load_model("llama-3.1-8b"))
    Traceback (most recent call last):
    computeledger.errors.LayoutError: --layout tp3: 32 attention heads of ... cannot be divided 3 ways; ...
    >>> layout_of("tp2", load_model("llama-3.1-8b"), 64)
    Traceback (most recent call last):
    computeledger.errors.LayoutError: --layout tp2: of 2 GPUs, the log says 64: write all of it, tp2-dp32 for example
    """
    try:
        layout = check_layout(parse_layout(text), model)
    except LayoutError as error:
        raise LayoutError(f"--{error}") from None
    own = int(layout.n_gpus)
    if n_gpus is None or own == n_gpus:
        return layout
    more = round(n_gpus) // (own // int(layout.dp))
    example = f": write all of it, {replace(layout, dp=more)} for example" if own * more == n_gpus * layout.dp else ""
    raise LayoutError(f"--layout {layout}: of {format_count(own, 'GPU')}, the log says {n_gpus:,.0f}{example}")


def check_physics(question: ContributeQuestion, point: BenchmarkPoint) -> None:
    """Refuse a time within which the chips cannot read the weights that every token needs."""
    model, chip = load_model(question.model), load_system(question.system).accelerator
    n_gpus = parse_layout(question.layout or "").n_gpus
    precision = precision_on(question.backend or "", model, question.precision, question.kv_precision)
    weights_bytes = n_params_active(model) * PRECISION_BYTES[precision.name]
    least_s = float(weights_bytes / (chip.hbm_bytes_per_s.value * n_gpus))
    for name, what in _TIMES.items():
        stated = point.numbers.get(name)
        if stated is not None and stated * ROUNDING < least_s:
            raise InputError(
                f"{shown(question.result)}: {format_si(stated, 's')} {what} is below the {format_si(least_s, 's')} in "
                f"which {n_gpus} x {chip.id} read the active weights once: another unit, model, precision or chip, "
                "or tokens that were guessed ahead, which no row states"
            )


def asked_of(question: ContributeQuestion, points: Sequence[BenchmarkPoint]) -> Iterator[str]:
    """Where the result names another model, chip, format, engine or layout than was given, and what failed in it."""
    said = {key: value for point in points for key, value in point.words.items()}
    model, system = load_model(question.model), load_system(question.system)
    chip, layout = system.accelerator, parse_layout(question.layout or "")
    again = ": are they the same?"
    if "model" in said and _model_id(said["model"]) != _model_id(question.model):
        yield f"--model is {question.model}, and the result names {shown(said['model'])}{again}"
    params = next((one.numbers["n_params"] for one in points if "n_params" in one.numbers), 0.0)
    own = sum(weight_counts(model).values())
    if params and abs(params / own - 1) > _SAME_SIZE:
        here = f"with {format_si(own)} parameters"
        yield f"--model is {question.model} {here}, and the result's has {format_si(params)}{again}"
    if "chip" in said and not _is_chip(said["chip"], chip):
        yield f"--system is {question.system}, and the result names {shown(said['chip'])}{again}"
    if "layout" in said and parse_layout(said["layout"]) != layout:
        yield f"--layout is {question.layout}, and the result names {shown(said['layout'])}{again}"
    engine = said.get("engine", said.get("asked_engine", question.backend))
    if engine != question.backend:
        yield f"--backend is {question.backend}, and the result is of {engine}{again}"
    width = precision_on(question.backend or "", model, question.precision, question.kv_precision)
    if "precision" in said and said["precision"] not in (width.written, width.name):
        yield f"--precision is {width.written}, and the result names {said['precision']}{again}"
    domain = int(system.n_gpus_scale_up.value)
    if layout.n_gpus > domain:
        more = f"takes {layout.n_gpus} GPUs, and one {question.system} has {domain}"
        yield f"--layout {layout} {more}: were there several?"
    failed = sum(one.numbers.get("failed", 0.0) for one in points)
    if failed:
        yield f"{failed:,.0f} requests failed: times are of those that completed; say in --note why they did"


def _is_chip(said: str, chip: Accelerator) -> bool:
    """Whether a name may be that of a chip; one without a number says nothing."""
    known = re.sub(r"[^a-z0-9]", "", " ".join((chip.id, chip.name, chip.short_name, *chip.aliases)).lower())
    named = [word for word in re.split(r"[^A-Za-z0-9]+", said) if _OF_A_CHIP.fullmatch(word)]
    return not named or any(word.lower() in known for word in named)


def _model_id(name: str) -> str:
    """Id of a model that is known by a name; else the name."""
    try:
        return model_name(name)
    except ComputeLedgerError:
        return name
