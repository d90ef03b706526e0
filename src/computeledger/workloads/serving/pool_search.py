"""Searching disaggregated serving: prefill layout x decode layout x batch x workers of each, rate-matched.

Both pools are evaluated once for all their layouts; matching them is arithmetic on rates. Only the front of what comes
out is evaluated as one closed system, and those are the figures that an option carries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.physics.parallelism import Layout, stack_layouts
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.waiting import wait_within_s
from computeledger.units import HOUR_S, TOKENS_PER_MTOK, format_count, format_si
from computeledger.workloads.serving.columns import (
    LARGEST_BATCH,
    ServingBlock,
    batches_to_try,
    evaluate_block,
    room,
    serving_blocks,
)
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.pools import (
    Chips,
    DisaggregatedResult,
    DisaggregatedScenario,
    at_rate,
    estimate_disaggregated,
    prefill_worker,
    without_prompts,
)
from computeledger.workloads.serving.search import Slo
from computeledger.workloads.sweep import Columns, join_columns

Array = NDArray[np.float64]

#: Share of time that prefill workers may be busy: above it the queue before them grows fast (assumption).
MOST_BUSY_FRACTION = 0.8
#: Batches per doubling: workers are whole, so a pool's rate must be met closely.
_PER_DOUBLING = 8
#: Pools of each kind, on the fewest GPUs, that are matched with one another for a load.
_MOST_SIDES = 16
#: Prefill workers that are tried for a promise, over those that a load keeps busy.
_MOST_MORE = 8
#: Steps per decade of TPOT in which the best match of each is kept and evaluated exactly.
_BINS = 80


@dataclass(frozen=True, slots=True)
class PoolOption:
    """Two pools of workers."""

    prefill_layout: Layout
    decode_layout: Layout
    n_prefill: int
    n_decode: int
    draft_tokens: int
    concurrency: float
    decode_batch: float
    tpot_s: float
    ttft_s: float
    output_tokens_per_s_per_gpu: float
    requests_per_s: float
    usd_per_mtok_output: float
    usd_per_mtok_input: float
    prefill_busy_fraction: float

    @property
    def n_gpus(self) -> int:
        """GPUs of both pools [-]."""
        return self.n_prefill * int(self.prefill_layout.n_gpus) + self.n_decode * int(self.decode_layout.n_gpus)

    def weight(self, prices: tuple[Num, Num]) -> Num:
        """GPUs of both pools, those that read prompts and those that decode each times a price."""
        reading, decoding = self.n_prefill * int(self.prefill_layout.n_gpus), self.n_decode * int(self.layout.n_gpus)
        return prices[0] * reading + prices[1] * decoding

    @property
    def layout(self) -> Layout:
        """Layout of a decode worker, where the answer's time per token is made."""
        return self.decode_layout

    @property
    def batch(self) -> float:
        """Sequences decoding on one worker [-]."""
        return self.decode_batch

    def scenario(
        self, one: ServingScenario, prefill_on: Chips | None = None, transfer_bytes_per_s: float | None = None
    ) -> DisaggregatedScenario:
        """What this option serves."""
        one = one.drafting(float(self.draft_tokens)) if one.speculation.is_open else one
        decode = replace(one, layout=self.decode_layout, batch=self.decode_batch)
        counts = self.n_prefill, self.n_decode, self.concurrency
        return DisaggregatedScenario(decode, self.prefill_layout, *counts, prefill_on, transfer_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Reading:
    """Prefill workers that may be chosen, where they are not those that may decode.

    Attributes
    ----------
    layouts : sequence of Layout
        Of a worker.
    chips : Chips or None
        What they run on; None where both pools are alike.
    transfer_bytes_per_s : float or None
        Rate at which a cache leaves one; None for its NICs [byte/s].
    """

    layouts: Sequence[Layout]
    chips: Chips | None = None
    transfer_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Match:
    """Layouts, workers and the decode batch of one match."""

    prefill: Layout
    decode: Layout
    n_prefill: int
    n_decode: int
    batch: float
    drafts: int


#: Layout, workers, batch, drafts and GPUs of a decode pool.
_DecodingSide = tuple[Layout, int, float, int, float]


@dataclass(frozen=True, slots=True)
class _Prefill:
    """The prefill pool: one row per layout."""

    layouts: list[Layout]
    gpus: Array
    service_s: Array
    alone_s: Array


def pools_usd_per_mtok(result: DisaggregatedResult, requests_per_s: Num | None = None) -> tuple[Num, Num]:
    """Cost of writing and of reading a million tokens, each paid by its own pool; shared by all requests that arrive.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 2048.0, 512.0, 1.0, 0.0, 2.0)
    >>> pools = DisaggregatedScenario(one, Layout(), 1.0, 1.0, 32.0)
    >>> result = estimate_disaggregated(pools, Machine(load_system("h100-nvl8")))
    >>> output, given = pools_usd_per_mtok(result)
    >>> per_request = (output * 512 + given * 2048) / 1e6
    >>> bool(abs(per_request * result.requests_per_s * 3600 / (2 * 2.0) - 1) < 1e-9)
    True
    """
    asked, one = result.scenario, result.scenario.decode
    per_hour = TOKENS_PER_MTOK / HOUR_S / (result.requests_per_s if requests_per_s is None else requests_per_s)
    decode = asked.n_decode * one.layout.n_gpus * one.usd_per_gpu_hour
    prefill = asked.n_prefill * asked.prefill_layout.n_gpus * asked.prefill_usd_per_gpu_hour
    return per_hour * decode / one.output_tokens, per_hour * prefill / one.input_tokens


def search_pools(
    scenario: ServingScenario, layouts: Sequence[Layout], machine: Machine, n_gpus: int,
    stated: tuple[Layout, int | None] | None = None, reading: Reading | None = None,
) -> list[PoolOption]:  # fmt: skip
    """Match every prefill layout with every decode layout and batch, on at most a number of GPUs.

    ``stated`` is the one layout that prompts are read on, and the batch of a decoding worker where it is known.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 2048.0, 256.0, 1.0, 0.0, 2.0)
    >>> found = search_pools(scenario, [Layout(tp=2), Layout(tp=4)], Machine(load_system("h200-nvl8")), 8)
    >>> {one.n_gpus <= 8 for one in found}
    {True}
    """
    sizes = f"at most {format_count(n_gpus, 'GPU')}"
    prefill = _prefill_pool(scenario, [stated[0]] if stated else layouts, machine)
    columns = _decode_workers(scenario, layouts, machine, stated, sizes)
    if not prefill.layouts:
        raise _no_room(scenario, sizes)
    matches = _matches(scenario, prefill, columns, layouts, n_gpus)
    if not matches:
        raise DoesNotFitError(
            f"{scenario.model.id}: {format_count(n_gpus, 'GPU')} cannot hold a prefill and a decode worker: at least "
            f"{_fewest_gpus(scenario, prefill, columns)} can, each keeping up with the other: prefill workers "
            f"are busy for at most {MOST_BUSY_FRACTION:.0%} of the time (assumption)"
        )
    found = _exact(scenario, machine, matches, reading or Reading(layouts))
    if not found:
        raise DoesNotFitError(
            f"{scenario.model.id}: no two pools on {format_count(n_gpus, 'GPU')} reach a steady state"
        )
    return found


def size_pools(
    scenario: ServingScenario, layouts: Sequence[Layout], machine: Machine, slo: Slo,
    stated: tuple[Layout, int | None] | None = None, reading: Reading | None = None,
) -> list[PoolOption]:  # fmt: skip
    """Size both pools for a load within its limits, fewest GPUs first; the figures are those at that load.

    Where prefill runs on other chips (``reading``) the cheapest come first instead. Workers of the two pools are
    counted apart: prefill workers are busy for at most a share of the time, decode workers as many as hold the
    sequences at a batch that is fast enough. Arrivals are even.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 2048.0, 256.0, 1.0, 0.0, 2.0)
    >>> machine = Machine(load_system("h200-nvl8"))
    >>> few, more = (size_pools(scenario, [Layout(tp=4)], machine, Slo(rate, 2.0, 0.05))[0] for rate in (4.0, 40.0))
    >>> few.n_gpus, few.n_gpus < more.n_gpus, round(more.requests_per_s, 1)
    (8, True, 40.0)
    """
    reading = reading or Reading(layouts)
    chips = reading.chips
    reads = machine if chips is None else chips.machine
    held = _keeps_busy(scenario, reading.layouts, reads)
    able = [one for one, is_able in zip(reading.layouts, held, strict=True) if is_able] or reading.layouts
    prefill = _prefill_pool(scenario, [stated[0]] if stated else able, reads)
    columns = _decode_workers(scenario, layouts, machine, stated, "these sizes")
    if not prefill.layouts:
        raise _no_room(scenario, "these sizes")
    decoding = _decoding_sides(scenario, columns, layouts, slo)
    if not decoding:
        raise QuantityError(
            f"no two pools meet TPOT {format_si(slo.tpot_s, 's')}: the best is "
            f"{format_si(float(np.min(columns['tpot_s'])), 's')}"
        )
    sides = _prefill_sides(prefill, slo)
    if not sides:
        raise QuantityError(
            f"no two pools meet TTFT {format_si(slo.ttft_s, 's')}: the shortest prompt's pass takes "
            f"{format_si(float(np.min(prefill.alone_s)), 's')}"
        )
    pairs = [
        _Match(one, layout, n, m, batch, drafts) for one, n, _ in sides for layout, m, batch, drafts, _ in decoding
    ]
    asked = at_rate(_stacked(scenario, pairs, reading), machine, slo.requests_per_s)
    result = estimate_disaggregated(asked, machine)
    found = _options(pairs, asked, result)
    first_s = _first_s(prefill, pairs, slo, result, _one(reads.efficiency.first_token_ratio))
    within = [
        one for one, late_s in zip(found, first_s, strict=True) if one.tpot_s <= slo.tpot_s and late_s <= slo.ttft_s
    ]
    if not within:
        raise QuantityError(
            f"no two pools meet TTFT {format_si(slo.ttft_s, 's')} and TPOT {format_si(slo.tpot_s, 's')}: the best TTFT "
            f"is {format_si(min(first_s), 's')}"
        )
    prices = (1.0, 1.0) if chips is None else (_one(chips.usd_per_gpu_hour), _one(scenario.usd_per_gpu_hour))
    return sorted(within, key=lambda one: (_one(one.weight(prices)), one.ttft_s))


def _one(value: Num) -> float:
    return float(np.asarray(value))


def _keeps_busy(scenario: ServingScenario, layouts: Sequence[Layout], machine: Machine) -> NDArray[np.bool_]:
    """Whether memory beside the weights holds a prompt for every rank and stage of a worker, and another that waits."""
    held = np.ravel(room(scenario, layouts, machine))
    return held >= 2 * np.array([float(one.dp * one.pp) for one in layouts])


def _prefill_sides(prefill: _Prefill, slo: Slo) -> list[tuple[Layout, int, float]]:
    """Layout, workers and GPUs of the smallest prefill pools that keep up, and of larger ones that wait less.

    Where a share of requests has to keep the limit, of each layout the fewest whose waits leave time for the prompt.
    """
    out = []
    for place, (layout, gpus) in enumerate(zip(prefill.layouts, prefill.gpus, strict=True)):
        busy = slo.requests_per_s * float(prefill.service_s[place])
        least = max(math.ceil(busy / MOST_BUSY_FRACTION), 1)
        if slo.ttft_share is None:
            counts = {least, least + 1, math.ceil(1.5 * least), 2 * least}
        else:
            tried = range(math.floor(busy) + 1, _MOST_MORE * least + 1)
            first = next((n for n in tried if _read_within_s(prefill, place, n, slo) <= slo.ttft_s), None)
            counts = set() if first is None else {first, first + 1, math.ceil(1.25 * first), math.ceil(1.5 * first)}
        out += [(layout, n, n * float(gpus)) for n in sorted(counts)]
    return sorted(out, key=lambda one: one[2])[:_MOST_SIDES]


def _wait_within_s(prefill: _Prefill, place: int, n_workers: int, slo: Slo) -> float:
    """Wait that the promised share keeps to: ranks are servers, a pipeline takes a prompt whenever a stage is free."""
    ranks = int(prefill.layouts[place].dp)
    service_s = float(prefill.service_s[place]) * ranks
    return wait_within_s(slo.requests_per_s, service_s, n_workers * ranks, slo.ttft_share or 0.0)


def _read_within_s(prefill: _Prefill, place: int, n_workers: int, slo: Slo) -> float:
    """Wait and pass of a prompt within which the promised share is."""
    return float(prefill.alone_s[place]) + _wait_within_s(prefill, place, n_workers, slo)


def _first_s(
    prefill: _Prefill, pairs: Sequence[_Match], slo: Slo, result: DisaggregatedResult, ratio: float
) -> list[float]:
    """Time to first token of each pair: the mean, or what the promised share keeps to under random arrivals."""
    means, queues = (np.ravel(np.broadcast_to(one, (len(pairs), 1))) for one in (result.ttft_s, result.queue_s))
    if slo.ttft_share is None:
        return [float(one) for one in means]
    places = {id(layout): place for place, layout in enumerate(prefill.layouts)}
    waits = {
        (place, n): _wait_within_s(prefill, place, n, slo)
        for place, n in {(places[id(one.prefill)], one.n_prefill) for one in pairs}
    }
    longer = [waits[places[id(one.prefill)], one.n_prefill] for one in pairs]
    return [float(mean + ratio * (wait - queue)) for mean, queue, wait in zip(means, queues, longer, strict=True)]


def _decoding_sides(
    scenario: ServingScenario, columns: Columns, layouts: Sequence[Layout], slo: Slo
) -> list[_DecodingSide]:
    """Decode pools that are fast enough, each layout on its fewest workers with its largest batch."""
    best: dict[int, _DecodingSide] = {}
    drafts = columns.get("draft_tokens", np.zeros_like(columns["batch"]))
    rate = columns["batch"] / (scenario.output_tokens * columns["tpot_s"])
    needed = np.maximum(np.ceil(slo.requests_per_s / rate), 1)
    for row in np.flatnonzero(columns["tpot_s"] <= slo.tpot_s):
        place, n = int(columns["layout_index"][row]), int(needed[row])
        gpus = n * float(columns["n_gpus"][row])
        one = (layouts[place], n, float(columns["batch"][row]), int(drafts[row]), gpus)
        if place not in best or (one[1], -one[2]) < (best[place][1], -best[place][2]):
            best[place] = one
    return sorted(best.values(), key=lambda one: one[4])[:_MOST_SIDES]


def _stacked(scenario: ServingScenario, matches: list[_Match], reading: Reading) -> DisaggregatedScenario:
    """Every match, one row each; the decode batch stands for the requests in flight."""
    prefill, decode = stack_layouts([one.prefill for one in matches]), stack_layouts([one.decode for one in matches])
    n_prefill, n_decode, batch = (
        np.array([[float(getattr(one, name))] for one in matches]) for name in ("n_prefill", "n_decode", "batch")
    )
    drafts = np.array([[float(one.drafts)] for one in matches])
    asked = replace(scenario.drafting(drafts) if scenario.speculation.is_open else scenario, layout=decode, batch=batch)
    own = reading.chips, reading.transfer_bytes_per_s
    return DisaggregatedScenario(asked, prefill, n_prefill, n_decode, n_decode * batch, *own)


def _decode_workers(
    scenario: ServingScenario, layouts: Sequence[Layout], machine: Machine, stated: tuple[Layout, int | None] | None,
    sizes: str,
) -> Columns:  # fmt: skip
    """Decode workers of every layout at every batch."""
    apart = without_prompts(machine)
    most = min(float(np.max(room(scenario, layouts, machine))), LARGEST_BATCH)
    batches = [stated[1]] if stated and stated[1] else batches_to_try(most, _PER_DOUBLING)
    cut = list(serving_blocks(scenario, layouts, apart, batches))
    parts = [_with_index(block, evaluate_block(block), layouts) for block in cut]
    if not parts:
        raise _no_room(scenario, sizes)
    columns = join_columns(parts)
    if not columns["batch"].size:
        raise DoesNotFitError(f"--batch {batches[0]}: does not fit; the largest batch that fits is {most:,.0f}")
    return columns


def _no_room(scenario: ServingScenario, sizes: str) -> DoesNotFitError:
    return DoesNotFitError(f"{scenario.model.id}: no layout of {sizes} holds it and one sequence")


def _with_index(block: ServingBlock, columns: Columns, layouts: Sequence[Layout]) -> Columns:
    """A block's columns, with each layout's place in the whole list."""
    places = {id(layout): place for place, layout in enumerate(layouts)}
    own = np.array([places[id(layout)] for layout in block.layouts])
    return columns | {"layout_index": own[columns["layout_index"]]}


def _prefill_pool(scenario: ServingScenario, layouts: Sequence[Layout], machine: Machine) -> _Prefill:
    """Layouts that hold a prompt, without those that another beats in rate per GPU and in time."""
    fits = [
        layout for layout, most in zip(layouts, np.ravel(room(scenario, layouts, machine)), strict=True) if most >= 1
    ]
    if not fits:
        return _Prefill([], np.empty(0), np.empty(0), np.empty(0))
    worker = prefill_worker(scenario, stack_layouts(fits), machine)
    alone, service = (np.ravel(np.asarray(one, float)) for one in (worker.prefill_s, worker.prefill_busy_s))
    gpus = np.array([float(layout.n_gpus) for layout in fits])
    rate = 1 / (service * gpus)
    kept = [
        place
        for place in range(len(fits))
        if not np.any((rate > rate[place]) & (alone <= alone[place]) & (gpus <= gpus[place]))
    ]
    return _Prefill([fits[place] for place in kept], gpus[kept], service[kept], alone[kept])


def _matches(
    scenario: ServingScenario, prefill: _Prefill, decode: Columns, layouts: Sequence[Layout], n_gpus: int
) -> list[_Match]:
    """Places of both layouts, workers of both, decode batch: the best for each small interval of TPOT and prefill."""
    kept: list[_Match] = []
    tpot, batch, gpus = decode["tpot_s"], decode["batch"].astype(float), decode["n_gpus"].astype(float)
    rate = batch / (scenario.output_tokens * tpot)
    drafts = decode.get("draft_tokens", np.zeros(tpot.size, int))
    bins = np.floor(np.log10(tpot) * _BINS).astype(int)
    for place in range(len(prefill.layouts)):
        best, workers = np.zeros_like(tpot), np.zeros((2, tpot.size), int)
        for n_decode in range(1, int(n_gpus // gpus.min()) + 1):
            n_prefill = np.ceil(n_decode * rate * prefill.service_s[place] / MOST_BUSY_FRACTION)
            total = n_prefill * prefill.gpus[place] + n_decode * gpus
            throughput = np.where(total <= n_gpus, n_decode * rate / total, 0.0)
            better = throughput > best
            best = np.where(better, throughput, best)
            workers = np.where(better, np.stack([n_prefill.astype(int), np.full(tpot.size, n_decode)]), workers)
        order = np.lexsort((-best, bins))
        first = order[np.r_[True, np.diff(bins[order]) > 0]]
        for row in first[best[first] > 0]:
            layout = layouts[int(decode["layout_index"][row])]
            counts = int(workers[0, row]), int(workers[1, row]), float(batch[row]), int(drafts[row])
            kept.append(_Match(prefill.layouts[place], layout, *counts))
    return kept


def _fewest_gpus(scenario: ServingScenario, prefill: _Prefill, decode: Columns) -> int:
    """GPUs of the smallest decode worker and the prefill workers that keep up with it."""
    rate = decode["batch"] / (scenario.output_tokens * decode["tpot_s"])
    workers = np.ceil(rate * prefill.service_s[:, None] / MOST_BUSY_FRACTION)
    return int(np.min(workers * prefill.gpus[:, None] + decode["n_gpus"]))


def _exact(scenario: ServingScenario, machine: Machine, matches: list[_Match], reading: Reading) -> list[PoolOption]:
    """Each match as one closed system, its load such that the decode batches are those matched."""
    asked = _stacked(scenario, matches, reading)
    load, batch = asked.concurrency, asked.decode.batch
    before = estimate_disaggregated(asked, machine)
    load = np.maximum(load * batch / np.maximum(before.decode_batch, 1e-9), 1.0)  # those not yet decoding come on top
    load = np.floor(np.minimum(load, 2 * asked.concurrency) + 0.5)
    result = estimate_disaggregated(replace(asked, concurrency=load), machine)
    over = result.decode_batch / scenario.settings.max_batch
    if np.any(over > 1):  # a worker never decodes more than it was told to
        load = np.where(over > 1, np.maximum(np.floor(load / over), 1.0), load)
        result = estimate_disaggregated(replace(asked, concurrency=load), machine)
    return _options(matches, replace(asked, concurrency=load), result)


def _options(matches: list[_Match], asked: DisaggregatedScenario, result: DisaggregatedResult) -> list[PoolOption]:
    """Rows of a stacked result."""
    columns = (
        asked.concurrency,
        result.decode_batch,
        result.tpot_s,
        result.ttft_s,
        result.output_tokens_per_s_per_gpu,
        result.requests_per_s,
        *pools_usd_per_mtok(result),
        result.prefill_busy_fraction,
    )
    shape = np.shape(result.requests_per_s)
    rows = zip(*(np.broadcast_to(column, shape)[:, 0].tolist() for column in columns), strict=True)
    return [
        PoolOption(match.prefill, match.decode, match.n_prefill, match.n_decode, match.drafts, *row)
        for match, row in zip(matches, rows, strict=True)
    ]
