"""Classes of requests that wait in order of their urgency: what is declared of them, and how each fares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from computeledger.arrays import Range
from computeledger.errors import InputError, shown
from computeledger.simulation.measures import PERCENTILES, Slo, is_good
from computeledger.simulation.serving.clock import ServingClockResult
from computeledger.units import format_percent, parse_quantity

#: How far shares may be from 1 together.
_ROUNDING = 1e-3
_FORM = "expected NAME:SHARE, NAME:SHARE:TTFT or NAME:SHARE:TTFT:TPOT, such as chat:30%:1s:40ms"


@dataclass(frozen=True, slots=True)
class RequestClass:
    """Requests of one urgency.

    Attributes
    ----------
    name : str
        As the user calls it.
    share_fraction : float
        Of all requests [-].
    ttft_s, tpot_s : float
        Longest times of a good request; infinite where none is promised [s].
    """

    name: str
    share_fraction: float
    ttft_s: float = math.inf
    tpot_s: float = math.inf


def read_classes(texts: Sequence[str]) -> tuple[RequestClass, ...]:
    """Read ``--priority``, the most urgent first, one or several to a text.

    Examples
    --------
    >>> [one.name for one in read_classes(["chat:30%:1s:40ms", "batch:70%"])]
    ['chat', 'batch']
    >>> read_classes(["chat:60%,batch:60%"])
    Traceback (most recent call last):
    computeledger.errors.InputError: --priority: the shares add up to 120 %, not to 100 %
    """
    classes = tuple(_read(one) for text in texts for one in text.split(","))
    if classes and abs((total := sum(one.share_fraction for one in classes)) - 1) > _ROUNDING:
        raise InputError(f"--priority: the shares add up to {format_percent(total)}, not to 100 %")
    if len({one.name for one in classes}) < len(classes):
        raise InputError("--priority: a class is named twice")
    return classes


def _read(text: str) -> RequestClass:
    name, *parts = text.split(":")
    if not name.strip() or not 1 <= len(parts) <= 3:
        raise InputError(f"--priority {shown(text)}: {_FORM}")
    numbers: list[float] = []
    for part, dimension, unit in zip(parts, ("fraction", "s", "s"), ("", None, None), strict=False):
        try:
            value = parse_quantity(part, dimension, unit)
        except InputError as error:
            raise InputError(f"--priority {error}") from None
        if isinstance(value, Range) or not value > 0:
            raise InputError(f"--priority {shown(text)}: {shown(part)} is not one number above 0; {_FORM}")
        numbers.append(float(value))
    return RequestClass(name.strip(), *numbers)


def shares_of(classes: Sequence[RequestClass]) -> tuple[float, ...]:
    """Shares that add up to 1 exactly.

    Examples
    --------
    >>> shares_of([RequestClass("a", 0.2), RequestClass("b", 0.8)])
    (0.2, 0.8)
    """
    total = sum(one.share_fraction for one in classes)
    return tuple(one.share_fraction / total for one in classes)


def class_documents(
    classes: Sequence[RequestClass], result: ServingClockResult, slo: Slo, is_endless: bool
) -> list[dict[str, Any]]:
    """Each class: its requests, percentiles, and the share within its own objective, or the one of all."""
    times, ranks, rejected = result.times_s, result.request_classes, result.rejected
    out = []
    for rank, one in enumerate(classes):
        of_class = ranks == rank
        own = {name: values[of_class] for name, values in times.items()}
        limits = replace(slo, ttft_s=min(one.ttft_s, slo.ttft_s), tpot_s=min(one.tpot_s, slo.tpot_s))
        out.append({
            "name": one.name,
            "share_fraction": one.share_fraction,
            "requests": int(of_class.sum()),
            "rejected": int(rejected[of_class].sum()),
            "good_fraction": float(np.mean(is_good(own, limits))) if of_class.any() else None,
            **{name: None if is_endless and name != "tpot_s" else _percentiles(values) for name, values in own.items()},
        })  # fmt: skip
    return out


def _percentiles(values: np.ndarray) -> dict[str, float] | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    return {key: float(np.quantile(known, share)) for key, share in PERCENTILES.items()}
