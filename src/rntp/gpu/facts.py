"""Measured rows as tables of the columns that the package's own tables of measurements have."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from computeledger.validation.measured_table import shipped_text
from rntp.gpu.learning import BETAS, TIME
from rntp.gpu.parts import DECODE, MEMORY, PREFILL, STEP, Row
from rntp.gpu.settings import FACTS, Shape

#: File of facts -> the shipped table whose columns it has.
TABLES = {"serving.csv": "local_curated.csv", "training.csv": "training_elsewhere.csv", "rl.csv": "rl_curated.csv"}
_METRICS = {DECODE: "tpot", PREFILL: "ttft"}
_SOURCE = "Compute Ledger, make gpu"


@dataclass(frozen=True, slots=True)
class Origin:
    """What stands in every row: when, on what, by which software."""

    date: str
    device: str
    accelerator: str
    software: str


def _columns(table: str) -> list[str]:
    return next(csv.reader([shipped_text(table).partition("\n")[0]]))


def _serving(row: Row, shape: Shape, origin: Origin) -> dict[str, object] | None:
    if row.part not in ("serving", "vllm") or row.quantity not in _METRICS:
        return None
    engine, _, version = str(row.setting["engine"]).partition(" ")
    return {
        "licence": "own measurement", "grade": "A", "date": origin.date, "model": shape.model,
        "accelerator": origin.accelerator, "n_accelerators": 1, "engine": engine, "engine_version": version,
        "layout": "tp1", "weights": "bf16", "kv_cache": "bf16", "input_tokens": row.setting["input_tokens"],
        "output_tokens": row.setting.get("output_tokens", 1), "static_batch": row.setting["batch"],
        "metric": _METRICS[row.quantity], "statistic": "median", "value": row.value, "unit": "s",
        "note": f"random weights; {origin.device}; {origin.software}",
    }  # fmt: skip


def _training(row: Row, shape: Shape, origin: Origin) -> dict[str, object] | None:
    metric = {STEP: "step_time", MEMORY: "peak_memory"}.get(row.quantity)
    if row.part != "training" or metric is None:
        return None
    sequences, tokens = (int(row.setting[name]) for name in ("sequences", "sequence_tokens"))
    return {
        "model": shape.model, "hardware": origin.accelerator, "n_gpus": 1, "tp": 1, "pp": 1, "dp": 1, "cp": 1, "ep": 1,
        "micro_batch": sequences, "global_batch_tokens": sequences * tokens, "seq_len": tokens, "precision": "bf16",
        "recompute": "none", "framework": "torch", "month": origin.date[:7], "metric": metric, "value": row.value,
        "unit": row.unit, "notes": f"float32 weights under autocast; random weights and tokens; {origin.date}; "
        f"{origin.device}; {origin.software}",
    }  # fmt: skip


def _rl(row: Row, shape: Shape, origin: Origin) -> dict[str, object] | None:
    if row.part != "rntp" or row.quantity not in (TIME, MEMORY, *BETAS):
        return None
    metric = {TIME: "phase_time", MEMORY: "peak_memory"}.get(row.quantity, row.quantity)
    return {
        "system": "RNTP", "model": shape.model, "algorithm": "GRPO on text", "hardware": origin.accelerator,
        "n_gpus": 1, "gpu_split": "one GPU in turn", "metric": metric, "value": row.value, "unit": row.unit,
        "licence": "own measurement",
        "notes": f"{row.setting.get('phase', 'whole run')}; mean of {row.setting['steps']} steps; random weights; "
        f"{origin.date}; {origin.device}; {origin.software}",
    }  # fmt: skip


def write_facts(rows: Iterable[Row], shapes: Mapping[str, Shape], origin: Origin, output: Path) -> list[str]:
    """Write measured rows into tables with the columns of the shipped ones.

    Parameters
    ----------
    rows : iterable of Row
        What was measured.
    shapes : mapping of str to Shape
        Models by their short names.
    origin : Origin
        What all rows share.
    output : Path
        Folder of the report.

    Returns
    -------
    list of str
        Paths of the tables.

    Examples
    --------
    >>> import tempfile
    >>> from rntp.gpu.settings import REAL
    >>> row = Row("serving", "0.5B", DECODE, 0.02, "s", {"batch": 4, "input_tokens": 512, "output_tokens": 32,
    ...     "engine": "transformers 5.0"})
    >>> with tempfile.TemporaryDirectory() as name:
    ...     files = write_facts([row], {"0.5B": REAL.shapes[0]}, Origin("2026-01-31", "L4", "l4", ""), Path(name))
    ...     written = list(csv.DictReader(Path(files[0]).read_text().splitlines()))
    >>> written[0]["model"], written[0]["static_batch"], written[0]["metric"]
    ('Qwen/Qwen2.5-0.5B', '4', 'tpot')
    """
    folder = output / FACTS
    folder.mkdir(exist_ok=True)
    makers = {"serving.csv": _serving, "training.csv": _training, "rl.csv": _rl}
    known = [row for row in rows if not row.note and row.model in shapes]
    for name, maker in makers.items():
        columns = _columns(TABLES[name])
        made = [one for row in known if (one := maker(row, shapes[row.model], origin)) is not None]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for number, one in enumerate(made, 1):
            key = {"id": f"g{number:04d}"} if "id" in columns else {}
            writer.writerow({"source": f"{_SOURCE}, {origin.date}", **key, **one})
        (folder / name).write_text(text.getvalue(), "utf-8")
    return [str(folder / name) for name in makers]
