"""Predicted against actual, quantity by quantity, and what binds a server at the load that it sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from computeledger.actuals.live.window import Window
from computeledger.questions.answer import Quantity
from computeledger.questions.answers.watch.predict import Prediction
from computeledger.questions.wording import percent
from computeledger.workloads.engines.settings import settings_of

#: Share of the cache from which requests that wait do so for room (assumption) [-].
FULL_FRACTION = 0.9
#: What a decode step waits for, in words.
_BOUND_WORDS = {
    "memory": "reading weights and cache from memory",
    "compute": "computing",
    "network": "exchange between GPUs",
    "overhead": "launches, the host and other requests' prompts",
}
#: What each binding constraint is eased by.
_EASED = {
    "memory": "fewer bytes per token (8-bit weights or cache), or more sequences that share the weights' reading",
    "compute": "narrower products (8-bit weights), or more GPUs",
    "network": "a narrower layout, or a larger scale-up domain",
    "overhead": "a newer release, captured graphs, or longer chunks of prompts",
}


#: Quantities that are compared: key, label and unit.
_QUANTITIES = (
    ("output_tokens_per_s", "Output", "tokens/s"),
    ("tpot_s", "Time per output token", "s"),
    ("ttft_s", "Time to first token", "s"),
    ("kv_used_fraction", "KV cache in use", "fraction"),
    ("kv_capacity_tokens", "Room of the cache", "tokens"),
    ("cache_hit_fraction", "Prompt tokens from the cache", "fraction"),
    ("power_w_per_gpu", "Power of a GPU", "W"),
    ("gpu_busy_fraction", "GPU busy", "fraction"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A quantity as it was predicted and as it is.

    Attributes
    ----------
    key, label, unit : str
        Its name in documents, in words, and its unit.
    actual : float or None
        Measured; None where the metrics do not tell.
    predicted : Quantity or None
        With its interval; None where nothing predicts it.
    note : str
        What the actual counts, where it is not what its label says.
    """

    key: str
    label: str
    unit: str
    actual: float | None
    predicted: Quantity | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Actual over predicted median [-]."""
        if self.actual is None or self.predicted is None or not self.predicted.p50:
            return None
        return self.actual / self.predicted.p50

    @property
    def inside(self) -> bool | None:
        """Whether the actual lies in the 90 % interval; None where there is none to lie in."""
        if self.actual is None or self.predicted is None or self.predicted.p05 == self.predicted.p95:
            return None
        return self.predicted.p05 <= self.actual <= self.predicted.p95


@dataclass(frozen=True, slots=True)
class Binding:
    """What keeps a server from more, why this is known, and what eases it."""

    what: str
    why: str
    eased_by: str


def rows(window: Window, gpus: Window | None, predicted: Prediction | None) -> tuple[Row, ...]:
    """Quantities that one side or the other has."""
    return tuple(one for one in _rows(window, gpus, predicted) if one.actual is not None or one.predicted is not None)


def _rows(window: Window, gpus: Window | None, predicted: Prediction | None) -> Iterator[Row]:
    tpot, ttft = window.tpot_s, window.times.get("ttft_s")
    per_token = None if tpot is None else tpot.mean_s
    first = None if ttft is None or not ttft.count else ttft.mean_s
    gauges = {} if gpus is None else gpus.gauges
    watts = None if gpus is None or "power_w" not in gauges else gauges["power_w"] / gpus.series
    actual = {
        "output_tokens_per_s": window.rate("output_tokens"), "tpot_s": per_token, "ttft_s": first,
        "kv_used_fraction": window.gauges.get("kv_used_fraction"),
        "kv_capacity_tokens": window.gauges.get("kv_capacity_tokens"), "cache_hit_fraction": window.hit_fraction,
        "power_w_per_gpu": watts, "gpu_busy_fraction": gauges.get("busy_fraction"),
    }  # fmt: skip
    expected = {} if predicted is None else _expected(predicted)
    notes = {"tpot_s": _counted_as(window), "power_w_per_gpu": "against its design power"}
    for key, label, unit in _QUANTITIES:
        yield Row(key, label, unit, actual[key], expected.get(key), notes.get(key, ""))


def _expected(one: Prediction) -> dict[str, Quantity]:
    return {
        "output_tokens_per_s": one.output_tokens_per_s,
        "tpot_s": one.tpot_s,
        "ttft_s": one.ttft_s,
        "kv_used_fraction": _exact(one.kv_used_fraction, ""),
        "kv_capacity_tokens": _exact(one.kv_capacity_tokens, "tokens"),
        "power_w_per_gpu": _exact(one.chip_w, "W"),
    }


def _counted_as(window: Window) -> str:
    """What a time per output token counts, where it is not the mean of requests."""
    by_request, by_gap = (name in window.times and window.times[name].count > 0 for name in ("tpot_s", "gap_s"))
    if by_request or window.tpot_s is None:
        return ""
    return "mean gap between tokens" if by_gap else "time in generating, over tokens"


def _exact(value: float, unit: str) -> Quantity:
    return Quantity(value, value, value, value, value, unit)


def binding(window: Window, predicted: Prediction | None) -> Binding | None:
    """What binds; None where nothing tells."""
    waiting, running = (window.gauges.get(name, 0.0) for name in ("waiting", "running"))
    used = window.gauges.get("kv_used_fraction")
    option = settings_of(window.engine.id).get("max_batch")
    limit = "the limit of sequences" if option is None else option.option
    if window.added.get("preemptions", 0.0) > 0 and window.duration_s > 0:
        count = window.added["preemptions"]
        why = f"{count:,.0f} {'request was' if count == 1 else 'requests were'} preempted for lack of room"
        return Binding("the KV cache", why, f"an 8-bit cache, a larger share of the memory, or a lower {limit}")
    if waiting >= 1 and used is not None and used >= FULL_FRACTION:
        why = f"{waiting:,.3g} requests wait while {percent(used, 2)} of the cache is in use"
        return Binding("the KV cache", why, "an 8-bit cache, narrower weights, or a larger share of the memory")
    if waiting >= 1:
        room = "" if used is None else f", and {percent(1 - used, 2)} of the cache is free"
        why = f"{waiting:,.3g} requests wait beside {running:,.3g} that run{room}"
        return Binding("the number of sequences, or reading prompts", why, f"a higher {limit}, or longer chunks")
    if not running and not window.added.get("output_tokens", 0.0):
        return Binding("nothing: the server is idle", "no request runs, and none waits", "more load, or fewer GPUs")
    if predicted is None:
        return None
    words = _BOUND_WORDS[predicted.bound]
    return Binding(
        words, "by the prediction, a decode step waits most for it; no request waits", _EASED[predicted.bound]
    )
