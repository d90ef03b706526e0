"""A user's own measurement of serving: read as it is written or from a benchmark's result, and set beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.errors import ComputeLedgerError, InputError, shown
from computeledger.facts.load import load_model
from computeledger.files import parse_json, read_user_text
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.units import KILO, format_si
from computeledger.workloads.anchor import AnchorKey, parse_anchor
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving.intervals import model_family

KEYS = {
    "batch": AnchorKey("count"),
    "isl": AnchorKey("tokens", "tokens"),
    "osl": AnchorKey("tokens", "tokens"),
    "tpot": AnchorKey("s"),
    "ttft": AnchorKey("s"),
    "layout": AnchorKey(),
}
#: What a result of vLLM's `bench serve` calls them.
_BENCH = ("completed", "total_input_tokens", "total_output_tokens", "max_concurrency")


@dataclass(frozen=True, slots=True)
class ServingAnchor:
    """One measured point."""

    batch: float
    input_tokens: float
    output_tokens: float
    tpot_s: float | None = None
    ttft_s: float | None = None
    layout: Layout | None = None
    model_id: str = ""
    text: str = ""


def read_anchor(text: str) -> ServingAnchor:
    """Read ``batch=32,isl=1024,osl=1024,tpot=21ms``, or the JSON file that a benchmark of vLLM wrote.

    Examples
    --------
    >>> read_anchor("batch=32, isl=1024, osl=512, tpot=21 ms").tpot_s
    0.021
    """
    if text.strip().endswith(".json"):
        return _of_benchmark(text.strip())
    given = parse_anchor(text, KEYS)
    missing = [name for name in ("batch", "isl", "osl") if name not in given]
    if missing or not {"tpot", "ttft"} & set(given):
        what = ", ".join(missing) or "tpot or ttft"
        raise InputError(f"anchor {shown(text)}: {what} missing, as in batch=32,isl=1024,osl=1024,tpot=21ms")
    numbers = {name: float(value) for name, value in given.items() if name != "layout"}
    layout = parse_layout(str(given["layout"])) if "layout" in given else None
    lengths = numbers["isl"], numbers["osl"]
    return ServingAnchor(numbers["batch"], *lengths, numbers.get("tpot"), numbers.get("ttft"), layout, "", text)


def _of_benchmark(path: str) -> ServingAnchor:
    try:
        text = read_user_text(Path(path))
        found: Any = parse_json(text, path) if text.strip() else None
    except InputError as error:
        raise InputError(f"--anchor {error}") from None
    if not text.strip():
        raise InputError(f"--anchor {path}: the file is empty; a benchmark's result holds {', '.join(_BENCH)}")
    if not isinstance(found, dict):
        raise InputError(f"--anchor {path}: a benchmark's result is an object with {', '.join(_BENCH)}")
    values = {name: _positive(found, name) for name in _BENCH}
    lacks = [name for name, value in values.items() if value is None]
    if lacks:
        raise InputError(f"--anchor {path}: {', '.join(lacks)} missing in the benchmark's result, or not above 0")
    completed, given, written, load = (value or 1.0 for value in values.values())
    tpot, ttft = (_positive(found, f"mean_{name}_ms", f"median_{name}_ms") for name in ("tpot", "ttft"))
    if tpot is None and ttft is None:
        raise InputError(f"--anchor {path}: mean_tpot_ms and mean_ttft_ms are missing")
    tpot_s, ttft_s = (None if value is None else value / KILO for value in (tpot, ttft))
    name = found.get("model_id")
    lengths = given / completed, written / completed
    return ServingAnchor(load, *lengths, tpot_s, ttft_s, None, name if isinstance(name, str) else "", path)


def _positive(found: dict[str, Any], *names: str) -> float | None:
    """The first of several entries that is a number above 0."""
    for name in names:
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
    return None


def anchor_ratios(anchors: Sequence[ServingAnchor], asked: ServingScenario, machine: Machine) -> dict[str, list[float]]:
    """Measured over predicted, of every anchor.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> asked = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 1.0)
    >>> limit = Machine(load_system("h100-nvl8"))
    >>> found = anchor_ratios([read_anchor("batch=1,isl=1024,osl=64,tpot=9ms")], asked, limit)
    >>> [round(one) for one in found["tpot"]], found["ttft"]
    ([2], [])
    """
    out: dict[str, list[float]] = {"tpot": [], "ttft": []}
    for one in anchors:
        layout = asked.layout if one.layout is None else check_layout(one.layout, asked.model)
        point = replace(
            asked,
            layout=layout,
            batch=one.batch,
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            cached_tokens=0.0,
        )
        _check_model(one, asked)
        found, limit = estimate_serving(point, machine), ideal_serving(point, machine)
        for name, measured in (("tpot", one.tpot_s), ("ttft", one.ttft_s)):
            if measured is not None:
                predicted, least = (float(np.ravel(getattr(side, f"{name}_s"))[0]) for side in (found, limit))
                _check_time(one, name, measured, (predicted, least))
                out[name].append(measured / predicted)
    return out


def _check_model(anchor: ServingAnchor, asked: ServingScenario) -> None:
    try:
        served = load_model(anchor.model_id) if anchor.model_id else asked.model
    except ComputeLedgerError:
        return  # an id of the user's own says nothing
    if model_family(served) != model_family(asked.model):
        raise InputError(f"--anchor {shown(anchor.text)}: it measured {served.id}, the question is {asked.model.id}")


def _check_time(anchor: ServingAnchor, name: str, measured_s: float, expected: tuple[float, float]) -> None:
    """A measurement that beats the limit, or is far from any engine, is of something else or in another unit."""
    predicted_s, least_s = expected
    given = f"--anchor {shown(anchor.text)}: {name} = {format_si(measured_s, 's')}"
    if measured_s < least_s * _LIMIT_SLACK:
        raise InputError(
            f"{given} is below the physical limit of that point, {format_si(least_s, 's')}: check the unit"
        )
    if measured_s > FARTHEST_RATIO * predicted_s:
        raise InputError(f"{given} is far above what the model gives, {format_si(predicted_s, 's')}: check the unit")


#: Measured over predicted beyond which an anchor is refused: no published run is that far, but mistyped units are.
FARTHEST_RATIO = 12.0
#: A limit is exact only as far as lengths and batch are.
_LIMIT_SLACK = 0.95
