"""The measured figures that are nearest an answer: by engine, model and chip, then by size."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.errors import InputError
from computeledger.facts.load import load_accelerator, load_model
from computeledger.units import format_count, format_si
from computeledger.validation.accuracy.table import Published, family_of, published
from computeledger.validation.measured_table import curated_rows
from computeledger.workloads.serving.intervals import model_family

#: Measured figures that are named beside an answer.
NEAREST = 3
#: How far two engines are apart, beside 1 of two models or chips (assumption): figures of the answer's own engine come
#: first, as its errors are counted by engine too.
_OTHER_ENGINE = 1.25
Row = Mapping[str, str]
#: Tables of measured serving, and the columns that say of what load, with their units.
_SERVED = ("serving_curated.csv", "serving_elsewhere.csv")
_LOAD = (
    ("concurrency", "at once"), ("static_batch", "in a batch"),
    ("requests_per_s", "requests/s"), ("input_tokens", "tokens in"), ("output_tokens", "out"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A measured figure, its load in words, and what was predicted for it with it left out of the fit."""

    source: str
    url: str
    model: str
    accelerator: str
    engine: str
    quantity: str
    unit: str
    measured: float
    p05: float
    p50: float
    p95: float
    error_fraction: float
    load: str = ""


@dataclass(frozen=True, slots=True)
class OwnError:
    """How far off figures of one quantity were predicted: the median absolute error of ``n``, a fraction."""

    quantity: str
    n: int
    median_abs_error: float


@dataclass(frozen=True, slots=True)
class Near:
    """Figures of the answer's own chip and a model of its shape, how far off they were, and those nearest to it."""

    n_same_model_and_chip: int
    own_errors: tuple[OwnError, ...]
    nearest: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an answer is of: which part of the table, its labels, and its medians by quantity, the most telling first.

    ``chosen`` are columns of the table with the value that a figure must have to be compared.
    """

    workload: str
    model: str
    accelerator: str
    engine: str
    quantities: tuple[str, ...]
    tuning: str = ""
    chosen: tuple[tuple[str, str], ...] = ()


def nearest_figures(wanted: Wanted, medians: Mapping[str, float]) -> Near:
    """Find the figures of the nearest engine, model and chip, of each source one, and among these the nearest size.

    Sizes are compared as predicted, so that no figure is named for being predicted well.

    Examples
    --------
    >>> asked = Wanted("training", "meta-llama/Meta-Llama-3.1-8B", "h100-sxm5-80gb", "torchtitan", ("step_time",))
    >>> found = nearest_figures(asked, {"step_time": 2.0})
    >>> found.n_same_model_and_chip > 5, [one.model for one in found.nearest][:2]
    (True, ['meta-llama/Meta-Llama-3.1-8B', 'meta-llama/Meta-Llama-3.1-8B'])
    """
    n_same, rows = _candidates(wanted)

    def distance(ranked: tuple[float, Row]) -> tuple[float, float]:
        labels, row = ranked
        return labels, abs(math.log(float(row["p50"]) / medians[row["quantity"]]))

    others: dict[tuple[str, ...], Row] = {}
    for _, row in sorted(rows, key=distance):
        others.setdefault(_deployment(row), row)
    return Near(n_same, own_errors(wanted), tuple(_neighbour(row) for row in list(others.values())[:NEAREST]))


@functools.lru_cache(maxsize=256)
def own_figures(wanted: Wanted) -> Sequence[Row]:
    """Figures of an answer's own chip and a model of its shape, by any engine.

    Examples
    --------
    >>> asked = Wanted("serving", "deepseek-ai/DeepSeek-V3", "h200-sxm5-141gb", "vllm", ("tpot",), "usual")
    >>> {row["model"] for row in own_figures(asked)} >= {"deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1"}
    True
    """
    shape = shape_of(wanted.model)
    rows = _compared(wanted).rows
    return tuple(row for row in rows if row["accelerator"] == wanted.accelerator and shape_of(row["model"]) == shape)


@functools.lru_cache(maxsize=256)
def own_errors(wanted: Wanted) -> tuple[OwnError, ...]:
    """How far off an answer's own chip and a model of its shape were predicted, by any engine, by quantity.

    Examples
    --------
    >>> found = own_errors(Wanted("serving", "deepseek-ai/DeepSeek-V3", "h200-sxm5-141gb", "", (), "usual"))
    >>> {one.quantity: one.n > 5 and one.median_abs_error < 0.5 for one in found}["tpot"]
    True
    """
    errors: dict[str, list[float]] = {}
    for row in own_figures(wanted):
        errors.setdefault(row["quantity"], []).append(abs(float(row["p50"]) / float(row["measured"]) - 1))
    return tuple(OwnError(name, len(found), statistics.median(found)) for name, found in sorted(errors.items()))


def _compared(wanted: Wanted) -> Published:
    """Figures that may be compared with an answer."""
    table = published(wanted.workload, wanted.tuning).promised()
    return table.chosen(**{name: [value] for name, value in wanted.chosen})


@functools.lru_cache(maxsize=256)
def _candidates(wanted: Wanted) -> tuple[int, Sequence[tuple[float, Row]]]:
    """Figures of the answer's own model and chip, and rows that may be nearest: by labels, as far as the third goes."""
    table = _compared(wanted)
    n_same = len(own_figures(wanted))
    ranked = sorted(
        ((_unlike(row, wanted), row) for row in table.rows if row["quantity"] in wanted.quantities),
        key=lambda pair: pair[0],
    )
    firsts = list({_deployment(row): labels for labels, row in reversed(ranked)}.values())
    farthest = sorted(firsts)[:NEAREST][-1] if firsts else 0.0
    return n_same, [pair for pair in ranked if pair[0] <= farthest]


def _deployment(row: Row) -> tuple[str, ...]:
    """What one source measured of one model on one chip: one figure of it is enough."""
    return row["source"], shape_of(row["model"]), row["accelerator"], row["engine"]


def _unlike(row: Row, wanted: Wanted) -> float:
    """How far labels are apart: a model of the series or a chip of the family is half of another one."""
    is_same = shape_of(row["model"]) == shape_of(wanted.model)
    model = 0.0 if is_same else 0.5 if family_of(row["model"]) == family_of(wanted.model) else 1.0
    is_same = row["accelerator"] == wanted.accelerator
    chip = 0.0 if is_same else 0.5 if _chip_family(row["accelerator"]) == _chip_family(wanted.accelerator) else 1.0
    engine = _OTHER_ENGINE * (row["engine"] != wanted.engine)
    other = 0.25 * wanted.quantities.index(row["quantity"])
    return model + chip + engine + other


@functools.cache
def shape_of(name: str) -> str:
    """Shape of a model, which its other versions and formats share; of one that the facts do not name, its own name.

    Examples
    --------
    >>> shape_of("deepseek-ai/DeepSeek-R1") == shape_of("deepseek-ai/DeepSeek-V3"), shape_of("no-such-model")
    (True, 'no-such-model')
    """
    try:
        return model_family(load_model(name))
    except InputError:
        return name


@functools.cache
def _chip_family(name: str) -> str:
    """Family of a chip; of one that the facts do not name, or give no family, its own name."""
    try:
        return load_accelerator(name).family or name
    except InputError:
        return name


def _neighbour(row: Row) -> Neighbour:
    low, median, high, measured = (float(row[name]) for name in ("p05", "p50", "p95", "measured"))
    labels = {name: row[name] for name in ("source", "url", "model", "accelerator", "engine", "quantity", "unit")}
    off = median / measured - 1
    return Neighbour(**labels, measured=measured, p05=low, p50=median, p95=high, error_fraction=off, load=_load(row))


@functools.cache
def _measured_rows() -> Mapping[str, Row]:
    """Rows of the shipped tables of serving, by id."""
    return {row["id"]: row for name in _SERVED for row in curated_rows(name)}


def _load(row: Row) -> str:
    """What a figure of serving was measured at; empty where its table does not say."""
    found = _measured_rows().get(row["id"], {})
    said = (f"{format_si(float(found[name]))} {unit}" for name, unit in _LOAD if found.get(name))
    n_gpus = found.get("n_accelerators")
    return ", ".join((*([format_count(int(float(n_gpus)), "GPU")] if n_gpus else []), *said))


def of_engine(near: Sequence[Mapping[str, Any]], engine: str) -> list[Mapping[str, Any]]:
    """Those of the nearest figures, as a document has them, that are of an engine."""
    return [one for one in near if engine and one["engine"] == engine]


#: Fewest of the nearest figures that tell of a side: one is to some side always.
_FEWEST_NEAREST = 2


def to_one_side(near: Sequence[Mapping[str, Any]]) -> tuple[list[float], bool] | None:
    """Shares of the predicted speed that was missing or to spare, and whether all were slower; None of both sides.

    Examples
    --------
    >>> one = {"quantity": "tpot", "unit": "s", "p50": 0.02}
    >>> to_one_side([one | {"measured": measured} for measured in (0.032, 0.04, 0.08)])
    ([0.375, 0.5, 0.75], True)
    >>> to_one_side([one | {"measured": 0.025}, one | {"measured": 0.01}]) is None
    True
    """
    steps = [one for one in near if one["quantity"] != "ttft"]
    ratios = [one["p50"] / one["measured"] if one["unit"] == "s" else one["measured"] / one["p50"] for one in steps]
    sides = {one < 1 for one in ratios}
    if len(ratios) < _FEWEST_NEAREST or len(ratios) < len(near) or len(sides) > 1:
        return None
    return sorted(abs(one - 1) for one in ratios), sides == {True}


def cost_by_nearest(near: Sequence[Mapping[str, Any]], engine: str, usd: float) -> dict[str, float]:
    """Ends of a cost whose speed is as far off as the nearest of its engine all were to one side; empty elsewhere.

    A token costs the GPU-time that it takes, so its cost goes as one over its speed.

    Examples
    --------
    >>> one = {"engine": "vllm", "quantity": "tpot", "unit": "s", "p50": 0.02}
    >>> found = cost_by_nearest([one | {"measured": 0.025}, one | {"measured": 0.03}], "vllm", 4.0)
    >>> {name: round(value, 6) for name, value in found.items()}
    {'low': 5.0, 'high': 6.0}
    """
    found = to_one_side(of_engine(near, engine))
    if found is None:
        return {}
    off, is_slower = found
    costs = [usd / (1 - one if is_slower else 1 + one) for one in off]
    return {"low": min(costs), "high": max(costs)}
