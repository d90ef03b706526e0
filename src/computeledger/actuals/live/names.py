"""What engines call their metrics: the shipped table, by engine and quantity."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType

from computeledger.errors import FactError

#: Kinds of a metric: as it is now, adding up since the start, a distribution, or text in labels.
GAUGE, COUNTER, HISTOGRAM, LABELS = "gauge", "counter", "histogram", "labels"
#: Quantity -> its kind. Counters and gauges of several ranks or GPUs add up, shares are averaged.
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "running": GAUGE, "waiting": GAUGE, "kv_used_fraction": GAUGE, "kv_capacity_tokens": GAUGE, "power_w": GAUGE,
        "busy_fraction": GAUGE, "memory_used_bytes": GAUGE, "input_tokens": COUNTER, "cached_tokens": COUNTER,
        "output_tokens": COUNTER, "requests": COUNTER, "preemptions": COUNTER, "energy_j": COUNTER,
        "prompt_busy_s": COUNTER, "output_busy_s": COUNTER, "ttft_s": HISTOGRAM, "tpot_s": HISTOGRAM,
        "gap_s": HISTOGRAM, "request_s": HISTOGRAM, "queue_s": HISTOGRAM, "kv_blocks": LABELS,
    }
)  # fmt: skip
#: Name of the sample that says when a process began, which a restart changes.
STARTED = "process_start_time_seconds"
#: The exporter of GPUs, which serves no model.
GPUS = "dcgm"


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """The metrics of an engine."""

    id: str
    name: str
    mark: str
    prompt_has_cached: bool
    source: str
    names: Mapping[str, tuple[str, ...]]
    scale: Mapping[str, float] = field(default_factory=dict)

    @property
    def serves(self) -> bool:
        """Whether it serves a model, rather than measuring GPUs."""
        return self.id != GPUS


@functools.cache
def engine_metrics() -> Mapping[str, EngineMetrics]:
    """Engines by id.

    Examples
    --------
    >>> engine_metrics()["vllm"].names["running"]
    ('vllm:num_requests_running',)
    """
    text = resources.files(__package__).joinpath("metrics.toml").read_text("utf-8")
    found = {}
    for key, table in tomllib.loads(text).items():
        names = {quantity: tuple(given) for quantity, given in table.pop("names").items()}
        if unknown := names.keys() - KINDS.keys():
            raise FactError(f"metrics.toml: [{key}.names] {min(unknown)}: no such quantity")
        found[key] = EngineMetrics(id=key, names=names, **table)
    return found


@functools.cache
def wanted_names() -> frozenset[str]:
    """Names of all samples that are read, those of histograms with their endings.

    Examples
    --------
    >>> {"vllm:time_to_first_token_seconds_bucket", "process_start_time_seconds"} <= wanted_names()
    True
    """
    out = {STARTED}
    for one in engine_metrics().values():
        for quantity, names in one.names.items():
            ends = ("_bucket", "_sum", "_count") if KINDS[quantity] == HISTOGRAM else ("",)
            out |= {f"{name}{end}" for name in names for end in ends}
    return frozenset(out)


def engine_of(samples: Iterable[str]) -> EngineMetrics | None:
    """The engine whose names samples have, the first of the table where several do.

    Examples
    --------
    >>> engine_of(["process_start_time_seconds", "sglang:token_usage"]).name, engine_of(["up"])
    ('SGLang', None)
    """
    names = tuple(samples)
    found = engine_metrics().values()
    return next((one for one in found if any(name.startswith(one.mark) for name in names)), None)
