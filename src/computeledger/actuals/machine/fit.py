"""From a machine's measurements to the constants of its profile: pure arithmetic, nothing is timed here.

Each constant is one of :class:`~computeledger.physics.calibration.efficiency.Efficiency`, and the times come from
the same :class:`~computeledger.physics.roofline.Operation` that predictions use.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.actuals.machine.kernels import VALUE_BYTES
from computeledger.actuals.machine.microbenchmarks import Measurement
from computeledger.errors import InputError
from computeledger.facts.huggingface import parse_config
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.collectives import LATENCY_PER_DOUBLING
from computeledger.physics.roofline import Operation, OperationKind, exposed
from computeledger.physics.serving.operations import activation_bytes

Floats = NDArray[np.float64]
#: Precisions a profile has a factor for.
_PROFILED = ("bf16", "fp8")
#: Overlaps to try.
_OVERLAPS = np.linspace(0.0, 1.0, 21)
#: Relative residual from which a point counts less (Huber), standard deviation of the logarithm of a prior.
_HUBER, _WIDE = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class Residual:
    """How well the constants describe the measurements of one kind; None where as many constants meet as many cases."""

    n: int
    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None


@dataclass(frozen=True, slots=True)
class Link:
    """What an all-reduce between processes reached."""

    n_processes: int
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class MachineFit:
    """A machine's peaks and constants, with what is left unexplained."""

    peak_flop_per_s: Mapping[str, float]
    hbm_bytes_per_s: float
    constants: Mapping[str, float]
    residuals: Mapping[str, Residual]
    residual_median: float | None
    link: Link | None
    precision: str = "bf16"


def fit_logarithms(
    predict: Callable[[Floats], Floats], measured_s: Floats, start: Sequence[float], rounds: int = 30
) -> Floats:
    """Positive constants that bring predicted close to measured times, by the ratio and robustly.

    Gauss-Newton on ``ln predicted - ln measured`` with Huber's weights; each constant is drawn to its start with a
    standard deviation of 1 in the logarithm, so that one which no measurement tells apart stays where it was.

    Examples
    --------
    >>> work = np.array([1.0, 2.0, 4.0])
    >>> [round(float(rate), 1) for rate in fit_logarithms(lambda c: work / c[0], work / 5.0, [1.0])]
    [5.0]
    """
    origin = np.log(np.asarray(start, float))
    at = origin.copy()
    target = np.log(measured_s)
    for _ in range(rounds):
        residual = np.log(predict(np.exp(at))) - target
        slope = np.stack(
            [(np.log(predict(np.exp(at + 1e-4 * unit))) - target - residual) / 1e-4 for unit in np.eye(len(at))], 1
        )
        weight = np.minimum(1.0, _HUBER / np.maximum(np.abs(residual), 1e-12)) / _HUBER**2
        normal = slope.T @ (weight[:, None] * slope) + np.eye(len(at)) / _WIDE**2
        change = -np.linalg.solve(normal, slope.T @ (weight * residual) + (at - origin) / _WIDE**2)
        at = at + np.clip(change, -1.0, 1.0)
        if np.max(np.abs(change)) < 1e-6:
            break
    return np.asarray(np.exp(at))


def fit_machine(
    measurements: Sequence[Measurement],
    peak_flop_per_s: Mapping[str, float] | None = None,
    hbm_bytes_per_s: float | None = None,
) -> MachineFit:
    """Fit the constants of a profile.

    Products: ``t = max(c, m) + (1 - overlap) min(c, m)`` with ``c = FLOP / rate`` and ``m = bytes / bandwidth``.
    Attention alike. What lies between products: ``passes x activation bytes / bandwidth``, above the floor of a tiny
    layer. The bytes of the first precision are counted as the profile's bf16, whatever the library stores.

    Examples
    --------
    >>> fit_machine([])
    Traceback (most recent call last):
    computeledger.errors.InputError: a profile needs measurements of gemm; none was given
    """
    by_kind = _sorted(measurements)
    first = by_kind["gemm"][0].precision
    best = max(one.bytes / one.time_s for kind in ("copy", "read") for one in by_kind[kind])
    hbm = hbm_bytes_per_s or best
    errors: dict[str, list[float]] = {}
    constants: dict[str, float] = {}
    peaks: dict[str, float] = {}
    weight_rate, overlap = best, 1.0
    for precision in dict.fromkeys(one.precision for one in by_kind["gemm"]):
        cases = [one for one in by_kind["gemm"] if one.precision == precision]
        rate, bandwidth, hidden, found = _fit_products(cases, best, precision == first)
        name = "bf16" if precision == first else precision
        reached = max(rate, *(one.flop / one.time_s for one in cases))
        if precision == first:
            weight_rate, overlap = bandwidth, hidden
        if name not in _PROFILED:
            peaks[name] = reached
            continue
        peaks[name] = (peak_flop_per_s or {}).get(name, reached)
        constants[f"gemm_fraction_{name}"] = min(1.0, rate / peaks[name])
        errors[f"gemm {precision}"] = found
    constants["weight_bandwidth_fraction"] = min(1.0, weight_rate / hbm)
    constants["overlap_fraction"] = overlap
    constants |= _fit_attention(by_kind, (peaks["bf16"], hbm, overlap), errors)
    constants |= _fit_layer(by_kind, weight_rate, errors)
    every = [abs(error) for kind, found in errors.items() for error in found if len(found) > n_constants(kind)]
    return MachineFit(
        peak_flop_per_s=peaks,
        hbm_bytes_per_s=hbm,
        constants=constants,
        residuals={kind: _residual(kind, found) for kind, found in errors.items()},
        residual_median=statistics.median(every) if every else None,
        link=_fit_link(by_kind.get("all-reduce", [])),
        precision=first,
    )


def _sorted(measurements: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    by_kind: dict[str, list[Measurement]] = {}
    for one in measurements:
        by_kind.setdefault(one.kind, []).append(one)
    needed = ("gemm", "copy", "read", "prefill attention", "decode attention", "elementwise", "mixer floor",
              "mlp floor", "step floor")  # fmt: skip
    for kind in needed:
        if kind not in by_kind:
            raise InputError(f"a profile needs measurements of {kind}; none was given")
    return by_kind


def n_constants(kind: str) -> int:
    """Constants that are fitted to the cases of a kind: products have rate, bandwidth and overlap.

    Examples
    --------
    >>> [n_constants(kind) for kind in ("gemm fp32", "decode attention", "prefill attention")]
    [3, 2, 1]
    """
    return 3 if kind.startswith("gemm") else 2 if kind == "decode attention" else 1


def _residual(kind: str, errors: Sequence[float]) -> Residual:
    if len(errors) <= n_constants(kind):
        return Residual(len(errors), None, None, None)
    sizes = np.abs(errors)
    return Residual(
        len(errors), float(np.median(sizes)), float(np.quantile(sizes, 0.9)), float(np.median(errors)) + 1.0
    )


def _columns(cases: Sequence[Measurement], first: bool) -> tuple[Floats, Floats, Floats]:
    """FLOP, bytes as a profile counts them, and times."""
    flop, moved, time_s = (np.array([getattr(one, name) for one in cases]) for name in ("flop", "bytes", "time_s"))
    counted = PRECISION_BYTES["bf16"] / VALUE_BYTES[cases[0].precision] if first else 1.0
    return flop, moved * counted, time_s


def _times(work: tuple[Floats, Floats], rates: Sequence[float], overlap: float) -> Floats:
    kind = OperationKind.MATRIX_PRODUCTS
    one = Operation(kind, flop=work[0], bytes=work[1], flop_per_s=rates[0], bytes_per_s=rates[1])
    return np.asarray(exposed([one], overlap)[0].time_s, float)


def _fit_products(cases: Sequence[Measurement], best: float, first: bool) -> tuple[float, float, float, list[float]]:
    """Rate, bandwidth and overlap of matrix products, with the relative errors that are left."""
    flop, moved, time_s = _columns(cases, first)
    start = (float(np.max(flop / time_s)), best / 2)
    found = []
    for overlap in _OVERLAPS:
        rates = fit_logarithms(lambda c, o=overlap: _times((flop, moved), list(c), float(o)), time_s, start)  # type: ignore[misc]
        errors = _times((flop, moved), list(rates), float(overlap)) / time_s - 1
        found.append((float(np.mean(np.abs(np.log1p(errors)))), float(overlap), rates, errors))
    _, overlap, rates, errors = min(found, key=lambda one: one[0])
    return float(rates[0]), float(rates[1]), overlap, [float(error) for error in errors]


def _fit_attention(
    by_kind: Mapping[str, Sequence[Measurement]], machine: tuple[float, float, float], errors: dict[str, list[float]]
) -> dict[str, float]:
    peak, hbm, overlap = machine
    flop, moved, time_s = _columns(by_kind["prefill attention"], first=True)
    rate = float(fit_logarithms(lambda c: _times((flop, moved), [c[0], hbm], overlap), time_s, [peak / 4])[0])
    found = _times((flop, moved), [rate, hbm], overlap) / time_s - 1
    errors["prefill attention"] = [float(error) for error in found]
    flop, moved, time_s = _columns(by_kind["decode attention"], first=True)
    slow, bandwidth = fit_logarithms(lambda c: _times((flop, moved), list(c), overlap), time_s, [rate, 0.8 * hbm])
    if bandwidth > hbm:  # no cache streams faster than memory does
        bandwidth = hbm
        (slow,) = fit_logarithms(lambda c: _times((flop, moved), [c[0], hbm], overlap), time_s, [rate])
    found = _times((flop, moved), [slow, bandwidth], overlap) / time_s - 1
    errors["decode attention"] = [float(error) for error in found]
    return {
        "attention_fraction": min(1.0, rate / peak),
        "decode_attention_ratio": float(slow) / rate,
        "kv_bandwidth_fraction": float(bandwidth) / hbm,
    }


@functools.cache
def _layer_bytes(width: int, heads: int, kv_heads: int, head_dim: int, mlp_width: int) -> float:
    """Activation traffic of one layer per token, as predictions count it [byte]."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_hidden_layers": 1,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "intermediate_size": mlp_width, "vocab_size": 256, "torch_dtype": "bfloat16",
    }  # fmt: skip
    return float(activation_bytes(parse_config(config, "layer"), 1.0, 1))


def _fit_layer(
    by_kind: Mapping[str, Sequence[Measurement]], weight_rate: float, errors: dict[str, list[float]]
) -> dict[str, float]:
    names = ("width", "heads", "kv_heads", "head_dim", "mlp_width")
    cases = list(by_kind["elementwise"])
    tiny = min(cases, key=lambda one: one.shape["tokens"] * one.shape["width"])
    rest = [one for one in cases if one is not tiny]
    moved = np.array([one.shape["tokens"] * _layer_bytes(*(one.shape[name] for name in names)) for one in rest])
    time_s = np.array([one.time_s for one in rest])
    above = np.maximum(time_s - tiny.time_s, 0.0)
    passes = float(np.median(above * weight_rate / moved))
    errors["elementwise"] = [float(one) for one in (tiny.time_s + passes * moved / weight_rate) / time_s - 1]
    launch = [one.time_s for one in by_kind.get("layer launch", [])]
    floors = {kind: by_kind[kind][0].time_s for kind in ("mixer floor", "mlp floor", "step floor")}
    return {
        "activation_passes": passes,
        "mixer_floor_s": floors["mixer floor"],
        "mlp_floor_s": floors["mlp floor"],
        "host_step_s": floors["step floor"],
        "host_sequence_s": 0.0,
        "prefill_layer_s": max(launch, default=0.0),
        "prefill_host_s": floors["step floor"],
    }


def _fit_link(cases: Sequence[Measurement]) -> Link | None:
    if not cases:
        return None
    n = cases[0].shape["processes"]
    sizes, time_s = np.array([one.bytes for one in cases]), np.array([one.time_s for one in cases])
    travelled = 2 * (n - 1) / n * sizes
    rate, latency = fit_logarithms(
        lambda c: travelled / c[0] + c[1], time_s, [float(np.max(travelled / time_s)), float(np.min(time_s))]
    )
    return Link(n, float(rate), float(latency) / (1 + LATENCY_PER_DOUBLING * math.log2(n)))
