"""Measured serving points against the serving model: the schema of InferenceX-derived tables."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from computeledger.arrays import sample
from computeledger.errors import ComputeLedgerError, InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.physics.efficiency import efficiency, load_factors
from computeledger.physics.memory import serving_memory
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.units import KILO
from computeledger.validation.compare import Array, Comparison
from computeledger.workloads.serving import ServingScenario, estimate_serving

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
SYSTEMS = {
    "a100_sxm": "a100-nvl8",
    "h100_sxm": "h100-nvl8",
    "h200_sxm": "h200-nvl8",
    "b200_sxm": "b200-nvl8",
    "b300_sxm": "b300-nvl8",
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
}
#: These tables draw lengths evenly from 0.8 to 1.0 of the nominal ones.
DRAWN_LENGTH_RATIO = 0.9
_PUBLISHERS_SUFFIXES = ("-NVFP4", "-FP8", "-MXFP4")
_SAME = ("model_path", "system", "mode", "isl", "osl", "batch_size", "silicon_ttft_ms", "silicon_tpot_ms")


def read_points(path: str | Path) -> list[dict[str, str]]:
    """Read a table of measured serving points.

    Parameters
    ----------
    path : str or Path
        CSV with the columns :data:`NEEDED`; further columns are kept.

    Returns
    -------
    list of dict
        One per row.

    Raises
    ------
    InputError
        No such file, not a table, or a column missing.

    Examples
    --------
    >>> read_points("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table ({error.__class__.__name__})") from None
    columns = set(rows[0]) if rows else set()
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise InputError(f"{path}: the columns {', '.join(missing)} are missing; needed: {', '.join(NEEDED)}")
    return rows


def compare_serving(rows: Sequence[Mapping[str, str]], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict measured serving points with the factors' assumed ranges.

    Parameters
    ----------
    rows : sequence of mapping
        From :func:`read_points`.
    n_samples : int
        Samples of the factors [-].
    seed : int
        Of the sampling [-].

    Returns
    -------
    Comparison
        ``tpot`` and ``ttft`` in seconds; duplicates, unknown models and modes are counted as skipped.

    Examples
    --------
    >>> row = {"model_path": "nobody/none", "mode": "agg"}
    >>> dict(compare_serving([row]).skipped)
    {'model not known': 1}
    """
    factors = {f"efficiency.{name}": factor.value for name, factor in load_factors().items()}
    draws = sample(factors, n_samples, seed)
    skipped: Counter[str] = Counter()
    groups: dict[tuple[str, str, Precision], list[Mapping[str, str]]] = {}
    for row in _distinct(rows, skipped):
        reason, key = _group(row)
        if key is None:
            skipped[reason] += 1
        else:
            groups.setdefault(key, []).append(row)
    kept: list[Mapping[str, str]] = []
    predicted: dict[str, list[Array]] = {"tpot": [], "ttft": []}
    for (model_id, system_id, precision), members in groups.items():
        machine = Machine(load_system(system_id), efficiency(draws=draws))
        tpot_s, ttft_s = _predict(load_model(model_id), precision, members, machine)
        kept += members
        predicted["tpot"].append(tpot_s)
        predicted["ttft"].append(ttft_s)
    return Comparison(
        rows=kept,
        measured={name: np.array([float(row[f"silicon_{name}_ms"]) / KILO for row in kept]) for name in predicted},
        predicted={
            name: np.concatenate(parts) if parts else np.empty((0, n_samples)) for name, parts in predicted.items()
        },
        skipped=skipped,
    )


def _distinct(rows: Sequence[Mapping[str, str]], skipped: Counter[str]) -> list[Mapping[str, str]]:
    seen: set[tuple[str, ...]] = set()
    out = []
    for row in rows:
        key = tuple(row.get(name, "") for name in _SAME)
        if key in seen and any(key):
            skipped["duplicate"] += 1
            continue
        seen.add(key)
        out.append(row)
    return out


def _group(row: Mapping[str, str]) -> tuple[str, tuple[str, str, Precision] | None]:
    """What a row needs to be predicted together with its like, or why it cannot be."""
    model = _model(row["model_path"])
    if model is None:
        return "model not known", None
    if row["mode"] != "agg":
        return "disaggregated serving is not modelled yet", None
    if row["system"] not in SYSTEMS:
        return "system not known", None
    numbers = ("isl", "osl", "batch_size", "tp_size", "silicon_ttft_ms", "silicon_tpot_ms")
    if any(_number(row, name) is None for name in numbers):
        return "incomplete record", None
    return "", (model.id, SYSTEMS[row["system"]], _precision(model, row))


def _number(row: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if np.isfinite(value) and value > 0 else None


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


def _precision(model: Model, row: Mapping[str, str]) -> Precision:
    """Precision by kind: what the row states, else the stored one; 4-bit expert checkpoints keep their mixers wide."""
    stated = {kind: _width(row[f"{kind}_quant_mode"]) for kind in ("gemm", "moe")}
    is_moe = any(group.feed_forward.n_experts for group in model.layers)
    if not stated["gemm"]:
        return Precision(model.weight_precision, model.dense_precision, model.expert_precision)
    mixers = "bf16" if is_moe and stated["gemm"] == "fp4" else stated["gemm"]
    return Precision(mixers, stated["gemm"], stated["moe"] or stated["gemm"])


def _width(mode: str) -> str:
    if "fp4" in mode or "w4" in mode:
        return "fp4"
    return "fp8" if "fp8" in mode else "bf16" if mode else ""


def _predict(
    model: Model, precision: Precision, rows: Sequence[Mapping[str, str]], machine: Machine
) -> tuple[Array, Array]:
    """Samples of TPOT and TTFT, one row per measurement."""

    def column(name: str) -> Array:
        return np.array([[_number(row, name) or 1.0] for row in rows])

    layout = Layout(
        tp=column("tp_size"), pp=column("pp_size"), dp=column("attention_dp_size"), ep=column("moe_ep_size")
    )
    drawn = np.array([[DRAWN_LENGTH_RATIO] for _ in rows])
    given, written = column("isl") * drawn, column("osl") * drawn
    load = (1.0, given + written)
    room = serving_memory(model, machine.system, layout, precision, load).largest_batch
    batch = np.minimum(column("batch_size"), np.maximum(room, 1.0))
    result = estimate_serving(ServingScenario(model, layout, precision, given, written, batch), machine)
    shape = (len(rows), np.broadcast(result.tpot_s, result.ttft_s).shape[-1])
    return np.broadcast_to(result.tpot_s, shape), np.broadcast_to(result.ttft_s, shape)
