"""Answer ``computeledger contribute``: a result or a log as rows of measurements, with their residuals."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from computeledger.errors import InputError, nearest, shown
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Given
from computeledger.files import open_user_file
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.contribute_checks import (
    asked_of,
    check_licence,
    check_month,
    check_physics,
    check_version,
    layout_of,
)
from computeledger.questions.contribute import ContributeQuestion
from computeledger.units import PERCENT
from computeledger.validation.compare import Comparison, deviations
from computeledger.validation.measured_table import MOST_CELL_CHARACTERS, curated_columns
from computeledger.validation.serving.elsewhere import SHIPPED
from computeledger.validation.serving.open_points import compare_open
from computeledger.validation.training.points import compare_training
from computeledger.workloads.engines import engines, precision_on
from computeledger.workloads.pretraining.step_logs import StepLog, read_step_log
from computeledger.workloads.serving.anchor_files import BenchmarkPoint, is_table, read_benchmarks
from computeledger.writing import write_bytes

#: Shipped tables that a pull request adds rows to.
SERVING, TRAINING = SHIPPED, "training_elsewhere.csv"
#: Column of a training row -> setting of a log.
_LOG_COLUMNS = {"n_gpus": "gpus", "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "micro_batch": "microbatch",
                "seq_len": "sequence"}  # fmt: skip
_LOG_WORDS = {"gpus": "number of GPUs", "sequence": "sequence length", "sequences": "global batch"}
#: Measure of a log -> metric of a row, its unit, and the factor to it.
_MEASURES = {
    "step": ("step_time", "s", 1.0), "tokens_per_s_per_gpu": ("tokens_per_s_per_gpu", "tokens/s/GPU", 1.0),
    "mfu": ("MFU", "%", PERCENT),
}  # fmt: skip
#: Bytes that tell a document from a log.
_HEAD_BYTES = 4096
#: Grade of a result that was read whole, with its settings.
_GRADE = "B"
#: Names of a branch in an address, behind which a result may change.
_MOVING = re.compile(r"/(?:blob|tree|raw)/(?:main|master|develop|HEAD)/|/latest/")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ContributeAnswer(Answer):
    """Rows with their origin, and how far predictions lie from them."""

    question: ContributeQuestion
    table: str
    rows: tuple[Mapping[str, str], ...]
    comparison: Comparison
    open_points: tuple[str, ...]

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger contribute --json`` prints it."""
        del working
        found = [one for name in self.comparison.measured for one in deviations(self.comparison, name)]
        return {
            "file": self.question.out,
            "table": self.table,
            "rows": [dict(row) for row in self.rows],
            "residuals": [
                {
                    "row": one.index,
                    "quantity": one.quantity,
                    "unit": self.comparison.units[one.quantity],
                    "measured": one.measured,
                    "predicted": dict(zip(("p05", "p50", "p95"), (one.predicted[at] for at in (0, 2, 4)), strict=True)),
                    "ratio": one.ratio,
                    "inside_interval": one.predicted[0] <= one.measured <= one.predicted[4],
                }
                for one in found
            ],
            "skipped": dict(self.comparison.skipped),
            "open_points": list(self.open_points),
        }

    def write(self) -> None:
        """Write the rows with their header."""
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        write_bytes(self.question.out, text.getvalue().encode(), "--out", [self.question.result])


def contribute(question: ContributeQuestion | None = None, /, **given: Given) -> ContributeAnswer:
    """Turn a benchmark's result into rows of the measured world, and predict them.

    Parameters
    ----------
    question : ContributeQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str or int
        Fields of :class:`~computeledger.questions.contribute.ContributeQuestion`.

    Returns
    -------
    ContributeAnswer
        Rows with their origin and residuals; its ``write()`` writes the table for a pull request.

    Raises
    ------
    InputError
        For a result that cannot be read, an origin that is not stated, or settings that do not fit it.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> result = Path(tempfile.mkdtemp(), "result.json")
    >>> totals = {"completed": 320, "max_concurrency": 32, "total_input_tokens": 327680, "total_output_tokens": 81920}
    >>> _ = result.write_text(json.dumps(totals | {"mean_tpot_ms": 12.5, "mean_ttft_ms": 90.0, "request_rate": "inf"}))
    >>> answer = contribute(result=str(result), model="llama-3.1-8b", system="h100-nvl8", layout="tp1", backend="vllm",
    ...                     backend_version="0.11.0", source="me", url="https://example.org/1/r.json", date="2026-11",
    ...                     licence="CC-BY-4.0")
    >>> [(row["metric"], row["value"]) for row in answer.rows]
    [('tpot', '0.0125'), ('ttft', '0.09')]
    """
    return from_python(ContributeQuestion, answer_contribute, question, given)


def answer_contribute(question: ContributeQuestion) -> ContributeAnswer:
    """Answer ``computeledger contribute``: a benchmark's document, else a training log."""
    _check_origin(question)
    with open_user_file(Path(question.result)) as stream:
        head = stream.read(_HEAD_BYTES).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if head[:1] in ("{", "[") or is_table(head):
        points = read_benchmarks(question.result)
        shared = _of_serving(question)
        for point in points:
            check_physics(question, point)
        rows = [row for point in points for row in _served(point, shared, question.result)]
        compared = compare_open(rows, question.samples, question.seed)
        said = asked_of(question, points)
        return ContributeAnswer(question, SERVING, tuple(rows), compared, (*_open_points(question), *said))
    rows = _trained(question)
    compared = compare_training(rows, question.samples, question.seed)
    return ContributeAnswer(question, TRAINING, tuple(rows), compared, _open_points(question))


def _of_serving(question: ContributeQuestion) -> dict[str, str]:
    """What the rows of a serving benchmark have in common."""
    for name in ("layout", "backend", "backend_version"):
        if getattr(question, name) is None:
            raise InputError(f"--{name.replace('_', '-')}: needed, a benchmark's result does not say it")
    layout, engine = question.layout or "", question.backend or ""
    if engine not in engines():
        raise InputError(f"--backend {shown(engine)}: {nearest(engine, engines())}")
    model, system = load_model(question.model), load_system(question.system)
    precision = precision_on(engine, model, question.precision, question.kv_precision)
    return {
        "source": question.source, "url": question.url, "date": question.date, "licence": question.licence,
        "grade": _GRADE, "model": model.id, "accelerator": system.accelerator.id,
        "n_accelerators": str(layout_of(layout, model).n_gpus), "engine": engine,
        "engine_version": question.backend_version or "", "layout": layout, "weights": precision.name,
        "kv_cache": question.kv_precision, "note": question.note,
    }  # fmt: skip


def _trained(question: ContributeQuestion) -> list[dict[str, str]]:
    """The row of a training log: its settings, and the median of its steady steps."""
    log = read_step_log(question.result)
    lacks = [name for name in ("gpus", "sequence", "sequences") if name not in log.settings]
    if lacks:
        raise InputError(
            f"{shown(question.result)}: the log states no {', '.join(_LOG_WORDS[one] for one in lacks)}: "
            "keep the settings that its tool prints above the steps"
        )
    metric, value, unit = _measure(log, question.result)
    model = load_model(question.model)
    layout = layout_of(question.layout, model, log.settings["gpus"]) if question.layout else None
    own = {name: float(getattr(layout, name)) for name in ("tp", "pp", "cp", "ep")} if layout else {}
    settings = {**own, **log.settings}
    if not settings.keys() & {"tp", "pp"}:
        raise InputError(f"{shown(question.result)}: the log states no layout: give --layout")
    numbers = {name: f"{settings[key]:.0f}" for name, key in _LOG_COLUMNS.items() if key in settings}
    gpus, sequence, sequences = (settings[name] for name in ("gpus", "sequence", "sequences"))
    split = math.prod(settings.get(name, 1.0) for name in ("tp", "pp", "cp"))
    if gpus % split:
        raise InputError(
            f"{shown(question.result)}: tp x pp x cp is {split:.0f}, which does not divide {gpus:.0f} GPUs"
        )
    row = dict.fromkeys(curated_columns(TRAINING), "") | numbers | {
        "source": question.source, "url": question.url, "month": question.date, "notes": question.note,
        "model": model.id, "hardware": load_system(question.system).accelerator.id,
        "dp": f"{gpus / split:.0f}", "global_batch_tokens": f"{sequence * sequences:.0f}",
        "precision": question.precision or "bf16", "framework": log.tool, "metric": metric, "value": f"{value:.6g}",
        "unit": unit,
    }  # fmt: skip
    return [row]


def _measure(log: StepLog, name: str) -> tuple[str, float, str]:
    for key, (metric, unit, by) in _MEASURES.items():
        if key in log.measures:
            if metric == "MFU" and log.measures[key] > 1:
                raise InputError(f"{shown(name)}: an MFU of {log.measures[key]:.0%}: more FLOP than its chips have")
            return metric, log.measures[key] * by, unit
    raise InputError(f"{shown(name)}: its steps state neither a time nor a rate")


def _check_origin(question: ContributeQuestion) -> None:
    """Refuse a row that nobody could look up, or that would not fit its table."""
    check_month(question.date)
    address = urlsplit(question.url)
    if address.scheme != "https" or not address.netloc:
        raise InputError(f"--url {shown(question.url)}: an https address where the result can be read")
    for name in ("source", "licence", "note", "backend_version", "url"):
        text = getattr(question, name) or ""
        if len(text) > MOST_CELL_CHARACTERS or any(ord(letter) < ord(" ") for letter in text):
            raise InputError(f"--{name.replace('_', '-')}: one line of at most {MOST_CELL_CHARACTERS:,} characters")
        if name not in ("note", "backend_version") and not text.strip():
            raise InputError(f"--{name.replace('_', '-')}: is empty, and a row without it is no fact")
    check_licence(question.licence)
    check_version(question.backend_version)


def _served(point: BenchmarkPoint, shared: Mapping[str, str], name: str) -> list[dict[str, str]]:
    """A row for each time that a point of the result states."""
    numbers = point.numbers
    lacks = [point.keys.get(key, key) for key in ("batch", "isl", "osl") if key not in numbers]
    if lacks:
        raise InputError(f"{shown(name)}: {', '.join(lacks)} missing in this result of {point.kind}, or not above 0")
    load = {
        "input_tokens": f"{numbers['isl']:.6g}", "output_tokens": f"{numbers['osl']:.6g}",
        "concurrency": f"{numbers['batch']:.6g}", "rounds": f"{numbers['rounds']:.6g}" if "rounds" in numbers else "",
    }  # fmt: skip
    times = {key: numbers[key] for key in ("tpot", "ttft") if key in numbers}
    if not times:
        raise InputError(f"{shown(name)}: neither a time per output token nor one to the first token in it")
    made = []
    for metric, value in times.items():
        own = {"metric": metric, "value": f"{value:.6g}", "unit": "s"}
        own["statistic"] = point.words.get(f"{metric}_statistic", "mean")
        row = {**dict.fromkeys(curated_columns(SERVING), ""), **shared, **load, **own}
        text = "\x1f".join(row.values())
        made.append(row | {"id": f"c{hashlib.sha256(text.encode()).hexdigest()[:8]}"})
    return made


def _open_points(question: ContributeQuestion) -> tuple[str, ...]:
    """What a reviewer would ask."""
    out = []
    if _MOVING.search(question.url):
        out.append("--url points at a branch, which may move: name a commit or a release")
    if not question.note:
        out.append("--note is empty: say how it was started, and how the load was made")
    return tuple(out)
