"""Measured serving points, read and sorted: the schema of InferenceX-derived tables.

A row becomes a question for the serving model, or is left out with a reason. What a record does not state is taken as
written down here, the same way for every row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system, system_named_in
from computeledger.physics.calibration.serving import calibrated_engines, load_calibration
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.weights import stored_precision
from computeledger.units import SMALLEST
from computeledger.validation.compare import MOST_MEASURED
from computeledger.validation.measured_table import read_rows
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.releases import release_month
from computeledger.workloads.serving.intervals import model_family

NEEDED = (
    "model_path",
    "system",
    "backend",
    "precision",
    "mode",
    "isl",
    "osl",
    "gemm_quant_mode",
    "moe_quant_mode",
    "batch_size",
    "tp_size",
    "pp_size",
    "attention_dp_size",
    "moe_ep_size",
    "silicon_ttft_ms",
    "silicon_tpot_ms",
)
#: These runs draw lengths evenly from 0.8 to 1.0 of the nominal ones; other harnesses send the nominal ones.
DRAWN_LENGTH_RATIO = 0.9
_OTHER_HARNESS = re.compile(r"source_file=/")
#: Requests per client of these runs: ten times the concurrency is sent, all clients starting at once.
ROUNDS_OF_A_RUN = 10.0
#: One grid of fixed lengths whose first tokens take as long as half the prompts of all clients and more: every round
#: starts with all of them, as equal lengths stay in step where an engine reads prompts first (inferred).
_IN_STEP = re.compile(r"sglang/0\.5\.1\.post1/")
#: Pools whose record names attention-DP ranks and undivided experts, which no launch of theirs has: those published for
#: this release spread experts over all ranks, or have tensor parallelism alone on the four GPUs of a node.
_MISRECORDED, _NODE_GPUS = ("sglang", "0.5.5.post2"), 4.0
#: Workers of each pool where a disaggregated record does not state them (assumption).
ASSUMED_PREFILL, ASSUMED_DECODE = 2.0, 4.0
#: Drafts and yield of a step in runs that are 1.5 to 2.2 times faster than the same configuration without (inferred).
ASSUMED_DRAFT_TOKENS, ASSUMED_TOKENS_PER_STEP = 3.0, 2.4
_PUBLISHERS_SUFFIXES = ("-NVFP4", "-FP8", "-MXFP4")


def read_points(path: str | Path) -> list[dict[str, str]]:
    """Read a table of measured serving points.

    Examples
    --------
    >>> read_points("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    return read_rows(path, NEEDED)


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement, as a question."""

    row: Mapping[str, str]
    model: Model
    system: str
    backend: str
    precision: Precision
    kind: str
    concurrency: float
    length_ratio: float
    speculative: bool

    def number(self, name: str, default: float = 1.0) -> float:
        """A column as a number.

        Examples
        --------
        >>> row = {"tp_size": "8.0", "attention_dp_size": ""}
        >>> one = Point(row, None, "", "", Precision(), "aggregated", 1.0, 1.0, False)
        >>> one.number("tp_size"), one.number("attention_dp_size")
        (8.0, 1.0)
        """
        value = _number(self.row, name)
        return default if value is None else value

    @property
    def run(self) -> str:
        """What was started once: engine, version, model, format, system, layout and day."""
        day = re.search(r"measured=(\S{10})", self.row.get("silicon_data_source", ""))
        return " ".join([*(self.row.get(name, "") for name in _RUN), day.group(1) if day else ""])

    @property
    def month(self) -> str:
        """Month of the run where it is stated, else of the engine's release; the calibration's where neither is."""
        day = re.search(r"measured=(\S{7})", self.row.get("silicon_data_source", ""))
        released = release_month(self.backend, self.row.get("backend_version", ""))
        return day.group(1) if day else released or load_calibration().reference_month

    @property
    def years(self) -> float:
        """Age of the engine's release against the calibration's reference [year]."""
        return load_calibration().years_of(self.month)

    @property
    def rounds(self) -> float:
        """Requests per client between two starts of all clients at once."""
        return 1.0 if _IN_STEP.search(self.row.get("silicon_data_source", "")) else ROUNDS_OF_A_RUN

    @property
    def family(self) -> str:
        """Model family: variants of one architecture, and their formats, are one."""
        return model_family(self.model)

    @property
    def pair(self) -> str:
        """Model family, system and kind of serving."""
        return f"{self.family} {self.system} {'aggregated' if self.kind == 'aggregated' else 'disaggregated'}"


_RUN = (
    "backend",
    "backend_version",
    "model_path",
    "system",
    "gemm_quant_mode",
    "mode",
    "tp_size",
    "attention_dp_size",
    "moe_ep_size",
    "prefill_tp_size",
    "prefill_attention_dp_size",
    "decode_tp_size",
    "decode_attention_dp_size",
)


def sort_points(rows: Sequence[Mapping[str, str]]) -> tuple[list[Point], Counter[str]]:
    """Turn records into questions, each measurement once.

    Examples
    --------
    >>> sort_points([{"model_path": "nobody/none", "mode": "agg"}])[1]
    Counter({'model not known': 1})
    """
    seen: set[tuple[str, ...]] = set()
    points: list[Point] = []
    skipped: Counter[str] = Counter()
    complete_first = sorted(range(len(rows)), key=lambda i: not rows[i].get("prefill_num_workers"))
    for index in complete_first:
        found = _point(rows[index])
        if isinstance(found, str):
            skipped[found] += 1
            continue
        key = (found.family, found.system, *(_rounded(rows[index], name) for name in _SAME))
        if key in seen:
            skipped["duplicate"] += 1
            continue
        seen.add(key)
        points.append(found)
    return points, skipped


#: What tells one measurement from another; one source rounds its times to three digits or so.
_SAME = ("mode", "isl", "osl", "batch_size", "silicon_ttft_ms", "silicon_tpot_ms")


def _rounded(row: Mapping[str, str], name: str) -> str:
    value = _number(row, name)
    return row.get(name, "") if value is None else f"{value:.3g}"


def _as_launched(row: Mapping[str, str]) -> Mapping[str, str]:
    """The record with the layouts that its engine's published launches have, where it names one that none has."""
    if row.get("mode", "agg") == "agg" or (row["backend"], row.get("backend_version")) != _MISRECORDED:
        return row
    is_wide = (_number(row, "decode_attention_dp_size") or 1.0) > _NODE_GPUS
    changed: dict[str, str] = {}
    for pool in ("prefill_", "decode_"):
        ranks = row.get(f"{pool}attention_dp_size", "")
        if _number(row, f"{pool}moe_ep_size") == 1.0 and (_number(row, f"{pool}attention_dp_size") or 1.0) > 1.0:
            own = {"moe_ep_size": ranks} if is_wide else {"tp_size": ranks, "attention_dp_size": "1"}
            changed |= {f"{pool}{name}": value for name, value in own.items()}
    return {**row, **changed}


def _point(row: Mapping[str, str]) -> Point | str:
    """A question, or why the record is none."""
    row = _as_launched(row)
    model = _model(row["model_path"])
    if model is None:
        return "model not known"
    system = system_named_in(row["system"])
    if system is None:
        return "system not known"
    if row["backend"] not in calibrated_engines():
        return "engine not known"
    if any(_number(row, name) is None for name in ("isl", "osl", "silicon_ttft_ms", "silicon_tpot_ms")):
        return "lengths or times not stated"
    kind = "aggregated"
    if row["mode"] != "agg":
        kind = "disaggregated" if _number(row, "prefill_num_workers") else "incomplete"
    concurrency = _concurrency(row, kind)
    if concurrency is None:
        return "concurrency not stated"
    precision = _precision(model, row)
    if precision is None:
        return "weight format not known"
    if engines()[row["backend"]].has_narrow_cache and precision.name in ("fp8", "fp4", "mxfp4"):
        precision = Precision(precision.attention, precision.dense, precision.experts, "fp8")
    for pool in {"aggregated": ("",)}.get(kind, ("prefill_", "decode_")):
        weights = weights_bytes_per_gpu(model, _layout(row, pool), precision)
        if weights > load_system(system).accelerator.usable_bytes:
            return "weights do not fit the GPUs as recorded"
    ratio = 1.0 if _OTHER_HARNESS.search(row.get("silicon_data_source", "")) else DRAWN_LENGTH_RATIO
    return Point(row, model, system, row["backend"], precision, kind, concurrency, ratio, _speculative(row))


def _layout(row: Mapping[str, str], pool: str) -> Layout:
    names = ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size")
    tp, pp, dp, ep = (_number(row, pool + name) or 1.0 for name in names)
    return Layout(tp=tp, pp=pp, dp=dp, ep=ep)


def _concurrency(row: Mapping[str, str], kind: str) -> float | None:
    stated = re.search(r"silicon_concurrency=(\d+)", row.get("silicon_data_source", ""))
    if kind == "aggregated":
        return _number(row, "batch_size")
    if stated:
        return float(stated.group(1))
    parts = ("decode_batch_size", "decode_num_workers", "decode_attention_dp_size")
    values = [_number(row, name) for name in parts]
    return float(np.prod([value or 1.0 for value in values])) if values[0] else None


def _speculative(row: Mapping[str, str]) -> bool:
    """Runs whose speed tells: nothing in the record does."""
    tagged = row.get("backend_version") == "1.2.0rc6.post3" or "measured=2026-01-14" in row.get(
        "silicon_data_source", ""
    )
    return row["backend"] == "trtllm" and "DeepSeek-R1" in row["model_path"] and tagged


def _number(row: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if SMALLEST <= value <= MOST_MEASURED else None


def _model(path: str) -> Model | None:
    names = [path]
    for suffix in _PUBLISHERS_SUFFIXES:
        if path.upper().endswith(suffix):
            names += [path[: -len(suffix)], path[: -len(suffix)].rpartition("/")[2]]
    for name in names:
        try:
            return load_model(name)
        except ComputeLedgerError:
            continue
    return None


def _precision(model: Model, row: Mapping[str, str]) -> Precision | None:
    """Format by kind: what the row states, else the stored one; 4-bit expert checkpoints keep their mixers wide."""
    gemm, moe = (_FORMATS.get(row[f"{kind}_quant_mode"]) for kind in ("gemm", "moe"))
    if gemm is None or moe is None:
        return None
    stored = stored_precision(model)
    if stored.name == "mxfp4" and (moe or gemm) in ("fp4", "mxfp4"):  # tables say 4 bits for either
        return stored
    if not gemm or stored.name.partition("-")[0] == (moe or gemm) == "int4":  # the publisher's own checkpoint
        return stored
    mixers = "bf16" if model.is_moe and gemm in ("fp4", "int4") else gemm
    return Precision(mixers, gemm, moe or gemm)


#: Weight formats as these tables name them.
_FORMATS = {
    "": "", "bf16": "bf16", "float16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8",
    "fp8_static": "fp8", "fp8_ootb": "fp8", "nvfp4": "fp4", "fp4": "fp4", "mxfp4": "mxfp4",
    "w4a16_mxfp4": "mxfp4-a16", "w4a8_mxfp4_mxfp8": "mxfp4-a8",
    "int4": "int4", "int4_wo": "int4", "w4afp8": "w4a8", "int8": "int8", "sq": "int8", "int8_wo": "w8a16",
}  # fmt: skip
