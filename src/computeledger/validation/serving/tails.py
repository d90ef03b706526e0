"""Published percentiles of serving: each run is sent through the event simulator as its benchmark sent it.

A benchmark states arrivals (at a rate, all at once, or by clients that wait for one answer before the next request),
lengths and the number of requests. The same requests go through one simulated replica, and the same quantile is taken.
Clients need no model of their own: ``C`` of them are a line that never empties before an engine that lets ``C`` in, and
request ``k`` is sent when the ``k - C``-th answer ends.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95
from computeledger.errors import ComputeLedgerError
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.roofline import Machine
from computeledger.simulation.engine import Engine, TimedPool, timed_pool
from computeledger.simulation.measures import gap_quantile_s
from computeledger.simulation.serving.arrivals import Arrivals, draw_trace
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.steady import capacity
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Q_CACHED, Q_FINISHED, Q_FIRST, Q_OUTPUT, Q_PROMPT, Times
from computeledger.validation.compare import Comparison
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.open_points import OpenCase, Row, open_case, told
from computeledger.validation.serving.tail_spread import TailFigure
from computeledger.workloads.engines import constants_of
from computeledger.workloads.engines.settings import default_of
from computeledger.workloads.serving.intervals import Interval, interval_at, interval_class
from computeledger.workloads.serving.tails import BURST_LOAD, MEDIAN_FRACTION, STEADY_LOAD, load_tails

NEEDED = (
    "source", "model", "accelerator", "n_accelerators", "engine", "layout", "weights", "kv_cache", "cached_fraction",
    "concurrency", "requests_per_s", "arrivals", "requests", "input_lengths", "output_lengths", "metric", "statistic",
    "value",
)  # fmt: skip
#: The shipped table, and a file of the reader's with the same columns.
SHIPPED = "serving_percentiles.csv"
ARRIVALS = ("burst", "clients", "even", "poisson")
QUANTITIES = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s", "request_latency": "end_to_end_s"}
STATISTICS = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
#: Scores of real over predicted times at which a run is simulated: the ends and the middle of a 90 % interval.
RUN_SCORES = (-Z_95, 0.0, Z_95)
#: Requests over all seeds of a run whose times are drawn, and most seeds: one run's p99 is of a few requests.
DRAWN_REQUESTS, MOST_SEEDS = 3_000, 8
#: Load over the simulated capacity from which a rate counts as near saturation, or beyond.
NEAR_FRACTION = 0.8
#: What the class of a percentile is called beside that of means.
BEYOND = "beyond the median"
#: Columns that rows of one run share.
_RUN = tuple(name for name in NEEDED if name not in ("metric", "statistic", "value"))
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """How a benchmark sends its requests.

    Attributes
    ----------
    arrivals : str
        ``burst`` (all at once), ``clients``, ``even`` or ``poisson``.
    requests_per_s : float
        Rate, where there is one [1/s].
    clients : int
        Requests in flight at most, whatever the rate; 0 where nobody holds them back [-].
    n_requests : int
        How many [-].
    lengths : tuple of str
        Input and output, as :func:`~computeledger.simulation.serving.arrivals.draw_lengths` reads them.
    cached_fraction : float
        Share of every prompt that is found in the cache [-].
    """

    arrivals: str
    requests_per_s: float
    clients: int
    n_requests: int
    lengths: tuple[str, str]
    cached_fraction: float = 0.0

    @property
    def is_drawn(self) -> bool:
        """Whether chance decides arrivals or lengths."""
        return self.arrivals == "poisson" or any(":" in text for text in self.lengths)

    def trace(self, seed: int, longest_tokens: int | None) -> Trace:
        """The requests with what is left to read of their prompts; those that nobody spaces out arrive at 0."""
        at_once = self.arrivals in ("burst", "clients")
        kind = Arrivals("even" if at_once else self.arrivals, 1.0 if at_once else self.requests_per_s)
        kind = replace(kind, spread_ratio=float(self.arrivals == "poisson"))
        drawn = draw_trace(kind, self.lengths, self.n_requests, seed, longest_tokens)
        unread = np.maximum(np.rint((1 - self.cached_fraction) * drawn.input_tokens), 1).astype(np.int64)
        arrival_s = np.zeros(self.n_requests) if at_once else drawn.arrival_s
        return replace(drawn, arrival_s=arrival_s, input_tokens=unread)


@dataclass(frozen=True, slots=True)
class Run:
    """A benchmark run as a question: a deployment, and the requests that it got."""

    case: OpenCase
    sent: Sent
    live: int | None

    @property
    def interval(self) -> Interval:
        """The interval of its class."""
        return interval_at(self.case.interval, load_system(self.case.system))


def sent_of(row: Row) -> Sent:
    """Read how requests were sent.

    Examples
    --------
    >>> row = dict.fromkeys(NEEDED, "") | {"arrivals": "poisson", "requests_per_s": "4", "requests": "200"}
    >>> row |= {"input_lengths": "exponential:217", "output_lengths": "exponential:200"}
    >>> sent_of(row).is_drawn, sent_of(row).trace(0, None).requests_per_s > 3
    (True, True)
    """
    if row["arrivals"] not in ARRIVALS:
        raise Unpredictable("arrivals not stated")
    rate, clients = float(row["requests_per_s"] or 0), int(float(row["concurrency"] or 0))
    if row["arrivals"] in ("even", "poisson") and not rate > 0:
        raise Unpredictable("arrivals at a rate that is not stated")
    if row["arrivals"] == "clients" and not clients:
        raise Unpredictable("clients not counted")
    if not row["requests"] or not row["input_lengths"] or not row["output_lengths"]:
        raise Unpredictable("lengths or number of requests not stated")
    lengths = (row["input_lengths"], row["output_lengths"])
    return Sent(row["arrivals"], rate, clients, int(row["requests"]), lengths)


def run_of_row(row: Row) -> Run:
    """Read a row's deployment; what its interval rests on is the load that meets a request."""
    sent = sent_of(row)
    # requests that arrive at a rate meet others, how many is what the simulation finds: any number above one
    held = {"burst": sent.n_requests, "clients": sent.clients}.get(sent.arrivals, 2)
    asked = {**row, "metric": "ttft", "statistic": "mean", "value": "1", "concurrency": str(held), "requests_per_s": "",
             "rounds": "1" if sent.arrivals == "burst" else "", "static_batch": ""}  # fmt: skip
    case = open_case(asked)
    chip, month = load_system(case.system).accelerator, row.get("engine_version") or row.get("date", "")[:7] or None
    stated, own = told(asked).max_batch, default_of(row["engine"], "max_batch", chip, month)
    live = stated if stated is not None else None if own is None else int(own.value)
    if sent.clients:
        live = sent.clients if live is None else min(live, sent.clients)
    kind = "alone" if sent.clients == 1 else "aggregated"
    cached, unread = (float(np.asarray(one)) for one in (case.scenario.cached_tokens, case.scenario.input_tokens))
    sent = replace(sent, cached_fraction=cached / (cached + unread))
    # who waits for whom is what the simulation finds
    case = replace(case, scenario=replace(case.scenario, batch=1.0, waiting=0.0, rounds=np.inf))
    return Run(replace(case, interval=_class(case, kind)), sent, live)


def _class(case: OpenCase, kind: str) -> str:
    """The class of a deployment under a load; a burst is simulated, so its steps are those of any other batch."""
    one = case.scenario
    return interval_class(one.model, one.precision.name, load_system(case.system), case.engine, kind)


def _timed(run: Run, score: float) -> TimedPool:
    """One replica whose steps and first tokens are as slow as at a standard normal score of its interval."""
    case, interval, system = run.case, run.interval, load_system(run.case.system)
    ratios = {
        "efficiency.serving_ratio": float(interval.tpot.quantile(score)),
        "efficiency.first_token_ratio": float(interval.ttft.quantile(score)),
    }
    constants = efficiency(constants_of(case.engine, system.accelerator), ratios, case.years, case.tuning)
    machine = Machine(system, constants)
    first = float(interval.ttft.quantile(score) / interval.ttft.quantile(0.0))
    alone = first * float(interval_at(_class(case, "alone"), system).ttft.quantile(0.0))
    sample = run.sent.trace(0, run.case.scenario.model.max_context_tokens)
    total = sample.input_tokens + sample.output_tokens
    prefix = round(float(np.asarray(case.scenario.cached_tokens)))
    near = max(float(np.quantile(sample.input_tokens, 0.05)), 1.0)
    contexts = (near + prefix, max(float(total.max()), near + 2.0) + prefix)
    engine = Engine(
        1, int(float(case.scenario.settings.chunk_tokens)), run.live, contexts, alone_ratio=alone, prefix_tokens=prefix
    )
    return timed_pool(case.scenario, machine, engine)


@dataclass(frozen=True, slots=True)
class Seen:
    """What clients saw of a run.

    Attributes
    ----------
    times_s : mapping of str to ndarray of float
        To the first token, per further token and end to end, of every request [s].
    gaps : ndarray of float
        Gaps between tokens, counted by length [-].
    sent_s : ndarray of float
        When each request was sent [s].
    """

    times_s: Mapping[str, Times]
    gaps: Times
    sent_s: Times

    def quantile_s(self, name: str, share_fraction: float) -> float:
        """Time that a share of requests, or of gaps, does not exceed [s]."""
        if name == "itl_s":
            return gap_quantile_s(self.gaps, share_fraction)
        known = self.times_s[name][np.isfinite(self.times_s[name])]
        return float(np.quantile(known, share_fraction)) if len(known) else np.nan


def seen_by(fleet: ServingClock, sent: Sent, seed: int, longest_tokens: int | None) -> Seen:
    """Simulate a run as its clients see it.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(2, 0.1, 0.5), Limits(2, 1000, 0, 0, 512)),))
    >>> found = seen_by(fleet, Sent("clients", 0.0, 2, 6, ("100", "3")), 0, None)
    >>> found.sent_s.round(3).tolist(), found.times_s["end_to_end_s"].round(3).tolist()
    ([0.0, 0.0, 0.7, 0.7, 1.4, 1.4], [0.7, 0.7, 0.7, 0.7, 0.7, 0.7])
    """
    trace = sent.trace(seed, longest_tokens)
    result = simulate_serving(fleet, trace, seed)
    world, host = result.world, fleet.host_s
    late_s = host.at_s(world.req[:, Q_PROMPT] - world.req[:, Q_CACHED]) - host.least_s
    first_s, done_s = world.when[:, Q_FIRST] + late_s, world.when[:, Q_FINISHED] + late_s
    sent_s = trace.arrival_s
    if sent.clients and sent.clients < len(sent_s):
        begun_s = sent_s.copy()
        # a client's next request takes its way to the engine as the first one did
        begun_s[sent.clients :] = np.sort(done_s)[: len(sent_s) - sent.clients] - host.least_s
        sent_s = np.maximum(sent_s, begun_s)
    more = world.req[:, Q_OUTPUT] - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot_s = np.where(more > 0, (done_s - first_s) / more, np.nan)
    times_s = {"ttft_s": first_s - sent_s, "tpot_s": tpot_s, "end_to_end_s": done_s - sent_s}
    return Seen(times_s, world.gaps, sent_s)


def quantiles_of(run: Run, timed: TimedPool) -> dict[tuple[str, str], float]:
    """Simulate a run: the published statistics of its times, medians over seeds where chance decides [s]."""
    fleet = ServingClock((timed.pool,), host_s=timed.host_s)
    seeds = min(max(DRAWN_REQUESTS // run.sent.n_requests, 1), MOST_SEEDS) if run.sent.is_drawn else 1
    longest = run.case.scenario.model.max_context_tokens
    seen = [seen_by(fleet, run.sent, seed, longest) for seed in range(seeds)]
    return {
        (name, statistic): float(np.median([one.quantile_s(name, share) for one in seen]))
        for name in QUANTITIES.values()
        for statistic, share in STATISTICS.items()
    }


def load_word(run: Run, timed: Callable[[], TimedPool]) -> str:
    """Name the load: how requests came, and whether the replica could hardly keep up."""
    if run.sent.arrivals in ("burst", "clients"):
        return run.sent.arrivals
    longest = run.case.scenario.model.max_context_tokens

    def draw(n: int, requests_per_s: float) -> Trace:
        sent = replace(run.sent, arrivals="poisson", requests_per_s=requests_per_s, n_requests=n)
        return sent.trace(0, longest)

    replica = timed()
    carried = capacity(ServingClock((replica.pool,), host_s=replica.host_s), draw).value
    return "near saturation" if run.sent.requests_per_s >= NEAR_FRACTION * carried else "rate"


@functools.cache
def _run_of(key: Key, extra: Key) -> Run:
    return run_of_row(dict(zip(_RUN + _EXTRA, key + extra, strict=True)))


@functools.cache
def _replica(key: Key, extra: Key, score: float) -> TimedPool:
    return _timed(_run_of(key, extra), score)


@functools.cache
def _quantiles(key: Key, extra: Key, score: float) -> dict[tuple[str, str], float]:
    return quantiles_of(_run_of(key, extra), _replica(key, extra, score))


@functools.cache
def _load_word(key: Key, extra: Key) -> str:
    return load_word(_run_of(key, extra), lambda: _replica(key, extra, 0.0))


def _simulated(
    key: Key, extra: Key, scores: tuple[float, ...]
) -> tuple[str, Mapping[tuple[str, str], NDArray[np.float64]], str]:
    """Class, times at the scores, and load of a run; each score is simulated once however many figures ask for it."""
    run = _run_of(key, extra)
    each = [_quantiles(key, extra, score) for score in scores]
    times = {name: np.array([one[name] for one in each]) for name in each[0]}
    return run.case.interval, times, _load_word(key, extra)


#: Columns that decide a deployment where a table has them.
_EXTRA = ("date", "grade", "engine_version", "expert_weights", "input_tokens", "output_tokens", "draft_tokens",
          "tokens_per_step", "note", "unit")  # fmt: skip


def compare_tails(rows: Sequence[Row], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Simulate published percentiles, each with the interval of its class.

    Examples
    --------
    >>> dict(compare_tails([dict.fromkeys(NEEDED, "") | {"metric": "watts"}]).skipped)
    {'quantity not predicted': 1}
    """
    del seed  # quantiles of a cloud of equal steps: nothing is drawn
    skipped: Counter[str] = Counter()
    kept: list[Row] = []
    found: list[tuple[str, float, NDArray[np.float64]]] = []
    scores, at = _scores(n_samples), RUN_SCORES if n_samples > 1 else (0.0,)
    for row in rows:
        try:
            name, statistic = _asked(row)
            kind, times, load = _simulated(*_keys(row), at)
        except (Unpredictable, ComputeLedgerError) as reason:
            skipped[str(reason)] += 1
            continue
        cloud = _cloud(times[QUANTITIES[name], statistic], scores)
        if STATISTICS[statistic] > MEDIAN_FRACTION:
            kind = f"{kind}, {BEYOND}"
            spread = load_tails(_load_of(load)).get(QUANTITIES[name])
            cloud = cloud if spread is None else cloud * [spread.spread.ratio(one) for one in scores]
        kept.append({**row, "class": kind, "load": load})
        found.append((f"{name}_{statistic}", float(row["value"]), cloud))
    seen = {name for name, _, _ in found}
    tails_first = [f"{one}_{statistic}" for one in QUANTITIES for statistic in reversed(STATISTICS)]
    names = [name for name in tails_first if name in seen]
    measured = {name: np.array([value if one == name else np.nan for one, value, _ in found]) for name in names}
    blank = np.full(n_samples, np.nan)
    predicted = {name: np.array([cloud if one == name else blank for one, _, cloud in found]) for name in names}
    return Comparison(kept, measured, predicted, skipped, dict.fromkeys(names, "s"))


def tail_figures(rows: Sequence[Row]) -> list[TailFigure]:
    """Published percentiles beyond the median beside both ends of what is simulated, for a fit of how far they lie."""
    out = []
    for row in rows:
        try:
            name, statistic = _asked(row)
            if STATISTICS[statistic] <= MEDIAN_FRACTION:
                continue
            _, times, load = _simulated(*_keys(row), RUN_SCORES)
        except (Unpredictable, ComputeLedgerError):
            continue  # counted where the table is compared
        low, _, high = times[QUANTITIES[name], statistic]
        told_s = float(row["value"])
        out.append(TailFigure(row["source"], _load_of(load), QUANTITIES[name], statistic, told_s, low, high))
    return out


def _keys(row: Row) -> tuple[Key, Key]:
    """What a run is told by."""
    return tuple(row[one] for one in _RUN), tuple(row.get(one, "") for one in _EXTRA)


def _load_of(word: str) -> str:
    return BURST_LOAD if word == "burst" else STEADY_LOAD


def _asked(row: Row) -> tuple[str, str]:
    """What a row measured."""
    if row["metric"] not in QUANTITIES:
        raise Unpredictable("quantity not predicted")
    if row["statistic"] not in STATISTICS:
        raise Unpredictable("statistic not predicted")
    if not float(row["value"] or 0) > 0:
        raise Unpredictable("nothing measured")
    return row["metric"], row["statistic"]


def _scores(n: int) -> NDArray[np.float64]:
    """Standard normal scores of equal shares."""
    return np.array([NormalDist().inv_cdf((one + 0.5) / n) for one in range(n)])


def _cloud(times_s: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Samples of a time from its values at the ends and the middle; what lies beyond goes on as steeply."""
    if len(times_s) == 1:
        return np.full(len(scores), times_s[0])
    levels = np.log(np.maximum(times_s, np.finfo(float).tiny))
    low, middle, high = levels
    below = np.minimum(scores - RUN_SCORES[0], 0.0) * (middle - low) / Z_95
    above = np.maximum(scores - RUN_SCORES[2], 0.0) * (high - middle) / Z_95
    return np.asarray(np.exp(np.interp(scores, RUN_SCORES, levels) + below + above))
