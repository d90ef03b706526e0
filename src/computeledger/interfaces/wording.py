"""Words and numbers as people read them: units, intervals, names of inputs."""

from __future__ import annotations

from typing import Any

from computeledger.economics.plan import KINDS, SECTIONS, TOP, TRAFFIC
from computeledger.interfaces.tables import point, show
from computeledger.units import DAY_S, HOUR_S, format_si, format_usd

PHASE_SHORT = {"pretraining": "Pretraining", "rl": "RL", "inference": "Inference", "experiments": "Experiments"}


def words(value: float, unit: str) -> str:
    """A number as people read it, for every unit that a fact, a plan or a result may carry.

    Parameters
    ----------
    value : float
        In its own unit.
    unit : str
        Unit of a result, or dimension of a plan's key.

    Returns
    -------
    str
        With a prefix, a few digits, and spaces that do not break.

    Examples
    --------
    >>> words(2.0, "usd_per_hour"), words(15778800.0, "s")
    ('$2/h', '183\\xa0days')
    """
    spelt = {"flop_per_s": "FLOP/s", "w": "W", "bytes": "B", "bytes_per_s": "B/s", "tokens_per_s": "tokens/s"}
    if unit == "usd_per_hour":
        text = f"{format_usd(value)}/h"
    elif unit in ("GPU-hours", "gpu_hours"):
        text = f"{format_si(value)} GPU-hours"
    elif unit in ("", "-", "count", "params", "GPUs"):
        text = format_si(value)
    elif unit == "s" and HOUR_S <= value < DAY_S:
        text = f"{format_si(value / HOUR_S)} h"
    else:
        text = show(value, spelt.get(unit, unit))
    return text.replace(" ", "\u00a0")


def span(value: Any, unit: str) -> str:
    """The 90 % interval of a document's quantity, empty where it is exact to the printed digits.

    Parameters
    ----------
    value : float or dict
        A quantity as :func:`computeledger.workloads.result.quantity` renders it, in its own unit.
    unit : str
        As for :func:`words`.

    Returns
    -------
    str
        Such as ``"16.9M – 37.4M"``.

    Examples
    --------
    >>> span({"p05": 1.0, "p50": 2.0, "p95": 3.0}, "")
    '1 – 3'
    """
    low, high = words(point(value, "p05"), unit), words(point(value, "p95"), unit)
    return "" if low == high else f"{low} – {high}"


def input_words(name: str) -> str:
    """Name of an uncertain input in words.

    Parameters
    ----------
    name : str
        As the samples go by, such as ``inference.traffic1.rate``.

    Returns
    -------
    str
        Such as ``"Inference, stream 1: rate"``.

    Examples
    --------
    >>> input_words("rl.longest_over_mean")
    'RL: longest over mean'
    """
    section, *middle, key = name.split(".")
    if section in ("price", "power"):
        return f"{'Price of a GPU-hour' if section == 'price' else 'Facility power'}: {' '.join([*middle, key])}"
    head = {"plan": "Plan", "efficiency": "Efficiency", **PHASE_SHORT}.get(section, section)
    for part in middle:
        head += f", {part.replace('traffic', 'stream ')}"
    return f"{head}: {key.replace('_', ' ')}"


def input_unit(name: str) -> str:
    """Dimension of an uncertain input, for :func:`words`.

    Parameters
    ----------
    name : str
        As the samples go by.

    Returns
    -------
    str
        Empty where it has none.

    Examples
    --------
    >>> input_unit("inference.life"), input_unit("efficiency.host_step_s")
    ('s', 's')
    """
    section, key = name.split(".")[0], name.rpartition(".")[2]
    if section == "efficiency":
        return "s" if key.endswith("_s") else ""
    if section in ("price", "power"):
        return "usd_per_hour" if section == "price" else "w"
    keys = {**KINDS, **TRAFFIC, **SECTIONS.get(section, TOP)}
    return keys[key].kind if key in keys else ""
