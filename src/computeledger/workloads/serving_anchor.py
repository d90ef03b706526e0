"""A user's own measurement of serving: read as it is written or from a benchmark's result, and set beside the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.errors import InputError, shown
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.units import KILO
from computeledger.workloads.anchor import AnchorKey, parse_anchor
from computeledger.workloads.serving import ServingScenario, estimate_serving

KEYS = {
    "batch": AnchorKey("count"),
    "isl": AnchorKey("tokens", "tokens"),
    "osl": AnchorKey("tokens", "tokens"),
    "tpot": AnchorKey("s", "s"),
    "ttft": AnchorKey("s", "s"),
    "layout": AnchorKey(),
}
#: What a result of vLLM's `bench serve` calls them.
_BENCH = ("completed", "total_input_tokens", "total_output_tokens", "max_concurrency")


@dataclass(frozen=True, slots=True)
class ServingAnchor:
    """One measured point.

    Attributes
    ----------
    batch : float
        Requests in flight [-].
    input_tokens, output_tokens : float
        Per request, mean [token].
    tpot_s, ttft_s : float or None
        What was measured [s].
    layout : Layout or None
        Of the replica; the question's own where it is not stated.
    """

    batch: float
    input_tokens: float
    output_tokens: float
    tpot_s: float | None = None
    ttft_s: float | None = None
    layout: Layout | None = None


def read_anchor(text: str) -> ServingAnchor:
    """Read ``batch=32,isl=1024,osl=1024,tpot=21ms``, or the JSON file that a benchmark of vLLM wrote.

    Parameters
    ----------
    text : str
        Keys and values, or a path that ends in ``.json``.

    Returns
    -------
    ServingAnchor
        With at least one of the two times.

    Raises
    ------
    InputError
        What is missing or cannot be read.

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
    return ServingAnchor(numbers["batch"], *lengths, numbers.get("tpot"), numbers.get("ttft"), layout)


def _of_benchmark(path: str) -> ServingAnchor:
    try:
        found: Any = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"--anchor {path}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"--anchor {path}: no JSON document ({error.__class__.__name__})") from None
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
    return ServingAnchor(load, given / completed, written / completed, tpot_s, ttft_s)


def _positive(found: dict[str, Any], *names: str) -> float | None:
    """The first of several entries that is a number above 0."""
    for name in names:
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
    return None


def anchor_ratios(anchors: Sequence[ServingAnchor], asked: ServingScenario, machine: Machine) -> dict[str, list[float]]:
    """Measured over predicted, of every anchor.

    Parameters
    ----------
    anchors : sequence of ServingAnchor
        The user's points.
    asked : ServingScenario
        The question: its model, precision and, where an anchor states none, layout.
    machine : Machine
        With single numbers, and ratios of 1.

    Returns
    -------
    dict of str to list of float
        ``tpot`` and ``ttft`` [-].

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
        found = estimate_serving(point, machine)
        if one.tpot_s is not None:
            out["tpot"].append(one.tpot_s / float(np.ravel(found.tpot_s)[0]))
        if one.ttft_s is not None:
            out["ttft"].append(one.ttft_s / float(np.ravel(found.ttft_s)[0]))
    return out
