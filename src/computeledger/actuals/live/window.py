"""What happened between two scrapes: tokens, requests and times, over restarts; and the load that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from computeledger.actuals.live.histogram import Observed, joined
from computeledger.actuals.live.names import COUNTER, GAUGE, HISTOGRAM, KINDS, STARTED, EngineMetrics
from computeledger.actuals.live.scrape import Labels, Scrape
from computeledger.actuals.readers.tally import amount

#: Gauges of which ranks have a share each.
_AVERAGED = ("kv_used_fraction", "busy_fraction")


@dataclass(frozen=True, slots=True)
class Window:
    """What a server did in a span of time.

    Attributes
    ----------
    engine : EngineMetrics
        Whose metrics say so.
    duration_s : float
        Its length; 0 for one scrape alone [s].
    gauges : Mapping
        By quantity, the mean of both ends.
    added : Mapping
        By quantity, what counters added up.
    times : Mapping
        By quantity, what was observed.
    restarts : int
        Restarts of the server in it [-].
    series : int
        GPUs or ranks that the gauges are of [-].
    """

    engine: EngineMetrics
    duration_s: float
    gauges: Mapping[str, float] = field(default_factory=dict)
    added: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, Observed] = field(default_factory=dict)
    restarts: int = 0
    series: int = 1

    def rate(self, quantity: str) -> float | None:
        """What a counter added per second; None without a counter or a second scrape."""
        return self.added[quantity] / self.duration_s if quantity in self.added and self.duration_s > 0 else None

    @property
    def new_input_tokens(self) -> float | None:
        """Prompt tokens that no cache held [token]."""
        if "input_tokens" not in self.added:
            return None
        cached = self.added.get("cached_tokens", 0.0) if self.engine.prompt_has_cached else 0.0
        return max(self.added["input_tokens"] - cached, 0.0)

    @property
    def hit_fraction(self) -> float | None:
        """Share of the prompt tokens that a cache held [-]."""
        new, cached = self.new_input_tokens, self.added.get("cached_tokens")
        return cached / (new + cached) if new is not None and cached is not None and new + cached > 0 else None

    @property
    def requests(self) -> float | None:
        """Requests that finished [-]."""
        if "requests" in self.added:
            return self.added["requests"]
        return self.times["request_s"].count if "request_s" in self.times else None

    @property
    def tpot_s(self) -> Observed | None:
        """Times per output token: of requests where the engine counts them so, else gaps between tokens [s]."""
        for name in ("tpot_s", "gap_s"):
            if name in self.times and self.times[name].count > 0:
                return self.times[name]
        tokens = self.added.get("output_tokens", 0.0)
        return Observed(tokens, self.added["output_busy_s"]) if "output_busy_s" in self.added and tokens else None

    @property
    def batch(self) -> float | None:
        """Sequences in flight, on average: what all of them took to be read and to decode, over the time [-]."""
        decoding = self._decoding_s
        if self.duration_s <= 0 or decoding is None:
            return self.gauges.get("running")
        return (decoding + self._reading_s) / self.duration_s

    @property
    def _decoding_s(self) -> float | None:
        """Time of all sequences in decoding [s]."""
        if "gap_s" in self.times:
            return self.times["gap_s"].total_s
        if "output_busy_s" in self.added:
            return self.added["output_busy_s"]
        if self.tpot_s is not None and "output_tokens" in self.added:
            return self.tpot_s.mean_s * self.added["output_tokens"]
        return None

    @property
    def _reading_s(self) -> float:
        """Time of all sequences in reading their prompts; where a queue is in it that nobody timed, none [s]."""
        if "prompt_busy_s" in self.added:
            return self.added["prompt_busy_s"]
        if "ttft_s" not in self.times or ("queue_s" not in self.times and self.gauges.get("waiting", 0.0) > 0):
            return 0.0
        queued_s = self.times["queue_s"].total_s if "queue_s" in self.times else 0.0
        return max(self.times["ttft_s"].total_s - queued_s, 0.0)


def between(before: Scrape | None, after: Scrape) -> Window:
    """What lies between two scrapes of one server; a counter that went back began again at 0.

    Examples
    --------
    >>> from computeledger.actuals.live.scrape import read_scrape
    >>> first, second, third = (read_scrape(f"llamacpp:tokens_predicted_total {n}", when)
    ...                         for n, when in ((500, 0.0), (620, 2.0), (40, 4.0)))
    >>> between(first, second).rate("output_tokens"), between(second, third).added, between(second, third).restarts
    (60.0, {'output_tokens': 40.0}, 1)
    """
    engine = after.engine
    if engine is None:
        raise LookupError("a scrape without one metric that is known")
    restarted = before is not None and _is_restarted(before, after, engine)
    base = None if restarted else before
    gauges, added, times = dict[str, float](), dict[str, float](), dict[str, Observed]()
    series = 1
    for quantity, name in _present(engine, after):
        scale = engine.scale.get(quantity, 1.0)
        if KINDS[quantity] == GAUGE:
            ends = [one.samples[name] for one in (base, after) if one is not None and name in one.samples]
            series = max(series, len(ends[-1]))
            gauges[quantity] = scale * sum(_level(quantity, one) for one in ends) / len(ends)
        elif KINDS[quantity] == COUNTER:
            added[quantity] = scale * sum(_increases(base, after, name).values())
        elif KINDS[quantity] == HISTOGRAM:
            times[quantity] = _observed(base, after, name)
        elif (tokens := _cache_tokens(after.samples[name])) is not None:
            gauges["kv_capacity_tokens"] = tokens
    duration_s = after.when_s - before.when_s if before is not None else 0.0
    return Window(engine, duration_s, gauges, added, times, int(restarted), series)


def together(first: Window, second: Window) -> Window:
    """Two spans as one; gauges count by how long each span was."""
    whole_s = first.duration_s + second.duration_s
    share = second.duration_s / whole_s if whole_s > 0 else 1.0
    gauges = {
        name: value * share + first.gauges.get(name, value) * (1 - share) for name, value in second.gauges.items()
    }
    names = dict.fromkeys((*first.added, *second.added))
    added = {name: first.added.get(name, 0.0) + second.added.get(name, 0.0) for name in names}
    kinds = dict.fromkeys((*first.times, *second.times))
    times = {name: joined([one.times[name] for one in (first, second) if name in one.times]) for name in kinds}
    restarts, series = first.restarts + second.restarts, max(first.series, second.series)
    return Window(second.engine, whole_s, {**first.gauges, **gauges}, added, times, restarts, series)


def _present(engine: EngineMetrics, scrape: Scrape) -> Iterator[tuple[str, str]]:
    """Quantities that a scrape has, and the name under which it has each."""
    for quantity, names in engine.names.items():
        end = "_count" if KINDS[quantity] == HISTOGRAM else ""
        found = next((name for name in names if f"{name}{end}" in scrape.samples), None)
        if found is not None:
            yield quantity, found


def _is_restarted(before: Scrape, after: Scrape, engine: EngineMetrics) -> bool:
    """Whether a process began in between: it says so, or a counter went back."""
    starts = [max(one.samples[STARTED].values()) for one in (before, after) if STARTED in one.samples]
    if len(starts) == 2 and starts[1] > starts[0]:
        return True
    for quantity, name in _present(engine, after):
        end = {COUNTER: "", HISTOGRAM: "_count"}.get(KINDS[quantity])
        if end is None:
            continue
        last = before.samples.get(f"{name}{end}", {})
        if any(value < last.get(labels, 0.0) for labels, value in after.samples[f"{name}{end}"].items()):
            return True
    return False


def _increases(base: Scrape | None, after: Scrape, name: str) -> dict[Labels, float]:
    """What each series of a counter added; one that is new began at 0, and in a first scrape it is all there is."""
    last = base.samples.get(name, {}) if base is not None else {}
    return {labels: max(value - last.get(labels, 0.0), 0.0) for labels, value in after.samples.get(name, {}).items()}


def _observed(base: Scrape | None, after: Scrape, name: str) -> Observed:
    up_to: dict[float, float] = {}
    for labels, count in _increases(base, after, f"{name}_bucket").items():
        end = next((value for key, value in labels if key == "le"), "")
        bound = float("inf") if end in ("+Inf", "inf") else amount(end)
        if bound is not None:
            up_to[bound] = up_to.get(bound, 0.0) + count
    count, total_s = (sum(_increases(base, after, f"{name}{end}").values()) for end in ("_count", "_sum"))
    return Observed(count, total_s, up_to)


def _level(quantity: str, series: Mapping[Labels, float]) -> float:
    total = sum(series.values())
    return total / len(series) if quantity in _AVERAGED else total


def _cache_tokens(series: Mapping[Labels, float]) -> float | None:
    """Tokens that the cache holds, as vLLM's labels state them or its blocks; of all ranks together."""
    total = 0.0
    for labels in series:
        stated = {key: amount(value) or 0.0 for key, value in labels}
        blocks = stated.get("num_gpu_blocks", 0.0) * stated.get("block_size", 0.0)
        total += stated.get("kv_cache_size_tokens", 0.0) or blocks
    return total or None
