"""Predictions and actuals as Prometheus metrics of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from computeledger.interfaces.watch.page import Board

if TYPE_CHECKING:
    from computeledger.questions.answers.watch.answer import WatchAnswer
    from computeledger.questions.answers.watch.session import Endpoint

#: Key of a quantity -> its metric, in Prometheus's base units, and what it is.
METRICS = {
    "output_tokens_per_s": ("computeledger_output_tokens_per_second", "Output tokens per second."),
    "tpot_s": ("computeledger_time_per_output_token_seconds", "Time per output token."),
    "ttft_s": ("computeledger_time_to_first_token_seconds", "Time to first token."),
    "kv_used_fraction": ("computeledger_kv_cache_used_ratio", "Share of the KV cache in use."),
    "kv_capacity_tokens": ("computeledger_kv_cache_capacity_tokens", "Tokens that the KV cache has room for."),
    "cache_hit_fraction": ("computeledger_prompt_cache_hit_ratio", "Share of prompt tokens that a cache held."),
    "power_w_per_gpu": ("computeledger_gpu_power_watts", "Power of a GPU."),
    "gpu_busy_fraction": ("computeledger_gpu_busy_ratio", "Share of the time that a GPU is busy."),
}
RATIO = ("computeledger_actual_over_predicted_ratio", "Actual over predicted median.")
INSIDE = ("computeledger_inside_interval", "1 where the actual lies in the predicted 90 % interval.")
UP = ("computeledger_endpoint_up", "1 where the last scrape of an address was answered.")
FAILURES = ("computeledger_scrape_failures", "Scrapes that failed.")
_SIDES = {"low": "p05", "median": "p50", "high": "p95"}


class Collector:
    """Gives Prometheus's client the newest answer, whenever it asks."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Any]:
        """Metrics of the newest answer; no label holds a text of the server that is watched."""
        core = import_module("prometheus_client.core")
        if self._board.answer is not None:
            yield from _compared(core, self._board.answer)
        yield from _answered(core, self._board.endpoints)


def _compared(core: Any, answer: WatchAnswer) -> Iterator[Any]:
    """Both sides of every quantity; one of a server that is silent has no actual."""
    ratio = core.GaugeMetricFamily(*RATIO, labels=["quantity"])
    inside = core.GaugeMetricFamily(*INSIDE, labels=["quantity"])
    for row in answer.rows:
        name, said = METRICS[row.key]
        family = core.GaugeMetricFamily(name, f"{said} By side: actual, and predicted low, median and high.",
                                        labels=["side"])  # fmt: skip
        if row.actual is not None:
            family.add_metric(["actual"], row.actual)
        if row.predicted is not None:
            for side, quantile in _SIDES.items():
                family.add_metric([side], getattr(row.predicted, quantile))
        yield family
        if row.ratio is not None:
            ratio.add_metric([row.key], row.ratio)
        if row.inside is not None:
            inside.add_metric([row.key], float(row.inside))
    yield from (ratio, inside)


def _answered(core: Any, endpoints: Sequence[Endpoint]) -> Iterator[Any]:
    """Which addresses answer; nothing before the first scrape."""
    up = core.GaugeMetricFamily(*UP, labels=["address"])
    failures = core.CounterMetricFamily(*FAILURES, labels=["address"])
    for one in endpoints:
        up.add_metric([one.address], float(not one.is_down))
        failures.add_metric([one.address], float(sum(one.failures.values())))
    if endpoints:
        yield from (up, failures)
