"""Serving options as columns: blocks of layouts x batches that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, blocks
from computeledger.physics.parallelism import Layout, stack_layouts
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.drafting import MOST_DRAFTS
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, largest_batch
from computeledger.workloads.sweep import Columns

#: Figures and the most that each may be, where the largest batch within them is wanted.
Limits = tuple[tuple[str, float], ...]
#: Batches that are tried between one that keeps the limits and the next, which does not (an assumption).
_BETWEEN = 15
#: Batches beyond this are not tried.
LARGEST_BATCH = 65536
#: Evaluations in a block: about 40 arrays of as many numbers stay in a cache of a few MB.
BLOCK_EVALUATIONS = 8192
#: Figures of a result that become columns.
FIGURES = (
    "ttft_s",
    "tpot_s",
    "output_tokens_per_s_per_user",
    "output_tokens_per_s_per_gpu",
    "requests_per_s",
    "usd_per_mtok_input",
    "usd_per_mtok_output",
)
#: Lengths of a draft that are tried where the question leaves it open, as an axis before layouts and batches.
_DRAFTS = np.arange(MOST_DRAFTS + 1.0)[:, None, None]
_DEGREES = ("tp", "pp", "dp", "ep")


@dataclass(frozen=True, slots=True)
class ServingBlock:
    """Layouts, each at every batch that it has room for."""

    scenario: ServingScenario
    machine: Machine
    layouts: tuple[Layout, ...]
    batches: tuple[int, ...]
    limits: Limits = ()


def batches_to_try(largest: float, per_doubling: int = 2) -> list[int]:
    """Batches on a geometric grid.

    Examples
    --------
    >>> batches_to_try(10)
    [1, 2, 3, 4, 6, 8]
    """
    steps = int(per_doubling * np.log2(max(largest, 1.0))) + 1
    grid = sorted({round(2 ** (step / per_doubling)) for step in range(steps + 1)})
    return [batch for batch in grid if batch <= largest]


def room(scenario: ServingScenario, layouts: Sequence[Layout], machine: Machine) -> Num:
    """Sequences that fit on each of many layouts, and that the engine decodes at once.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> found = room(scenario, [Layout(), Layout(tp=4)], Machine(load_system("h100-nvl8")))
    >>> found.shape, float(found[0, 0]), bool(found[1, 0] > 300)
    ((2, 1), 0.0, True)
    """
    held = largest_batch(replace(scenario, layout=stack_layouts(list(layouts))), machine)
    return np.asarray(np.minimum(held, scenario.settings.max_batch))


def serving_blocks(
    scenario: ServingScenario,
    layouts: Sequence[Layout],
    machine: Machine,
    batches: Sequence[int] | None = None,
    limits: Limits = (),
) -> Iterator[ServingBlock]:
    """Cut a search into blocks; with limits each has the largest batches that keep them beside those of the grid.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> found = list(serving_blocks(scenario, [Layout(), Layout(tp=2)], Machine(load_system("h100-nvl8"))))
    >>> len(found), found[0].batches[:4]
    (1, (1, 2, 3, 4))
    """
    largest = np.ravel(room(scenario, layouts, machine))
    fits = [(layout, int(most)) for layout, most in zip(layouts, largest, strict=True) if most >= 1]
    if not fits:
        return
    full = {most for _, most in fits if most <= LARGEST_BATCH}
    top = min(max(most for _, most in fits), LARGEST_BATCH)
    grid = tuple(batches) if batches else tuple(sorted({*batches_to_try(top), *full}))
    each = len(grid) * (len(_DRAFTS) if scenario.speculation.is_open else 1)
    for piece in blocks(len(fits), max(BLOCK_EVALUATIONS // each, 1)):
        yield ServingBlock(scenario, machine, tuple(layout for layout, _ in fits[piece]), grid, limits)


def evaluate_block(block: ServingBlock) -> Columns:
    """Evaluate a block in one vectorised call.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> block = ServingBlock(scenario, Machine(load_system("h100-nvl8")), (Layout(), Layout(tp=2)), (1, 64, 4096))
    >>> columns = evaluate_block(block)
    >>> columns["tp"].tolist(), columns["batch"].tolist()
    ([1, 1, 2, 2], [1, 64, 1, 64])
    """
    found = _columns(block, block.layouts, np.array([block.batches], float))
    return _filled_up(block, found) if block.limits else found


def _filled_up(block: ServingBlock, found: Columns) -> Columns:
    """The same and the largest batches that keep the limits, of layouts of which the next batch of the grid, which
    does not, gives more than the best that does.
    """
    index, given = found["layout_index"], found["output_tokens_per_s_per_gpu"]
    keeps = _keeps(block, found)
    last = _last_of_each(index, keeps)
    last = last[last + 1 < index.size]
    last = last[(index[last + 1] == index[last]) & (given[last + 1] > given[keeps].max(initial=0.0))]
    if not last.size:
        return found
    low, high = found["batch"][last], found["batch"][last + 1]
    between = np.floor(np.geomspace(low, high, _BETWEEN + 2, axis=1)[:, 1:-1])
    more = _columns(block, [block.layouts[place] for place in index[last]], between)
    rows = _last_of_each(more["layout_index"], _keeps(block, more) & (more["batch"] > low[more["layout_index"]]))
    more["layout_index"] = index[last][more["layout_index"]]
    return {name: np.concatenate([column, more[name][rows]]) for name, column in found.items()}


def _keeps(block: ServingBlock, columns: Columns) -> NDArray[np.bool_]:
    """Rows within every limit."""
    within = np.ones(columns["batch"].shape, np.bool_)
    for name, most in block.limits:
        within &= columns[name] <= most
    return within


def _last_of_each(layout_index: NDArray[np.int64], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The last of the rows wanted of each layout: rows go by layout, then by batch."""
    rows = np.flatnonzero(wanted)
    own = layout_index[rows]
    return rows[np.append(own[1:] != own[:-1], True)] if rows.size else rows


def _columns(block: ServingBlock, layouts: Sequence[Layout], batch: NDArray[np.float64]) -> Columns:
    """Layouts at batches, which are those of all or a row for each, in one vectorised call."""
    layout = stack_layouts(list(layouts))
    asked = replace(block.scenario, layout=layout, batch=batch)
    is_open = asked.speculation.is_open
    result = estimate_serving(asked.drafting(_DRAFTS) if is_open else asked, block.machine)
    fits = batch <= result.memory.largest_batch
    # a step of drafts has an axis of its own, of which the length that takes least per token is kept
    best = np.argmin(np.broadcast_to(result.tpot_s, (len(_DRAFTS), *fits.shape)), axis=0) if is_open else None
    row, column = np.nonzero(fits)
    out: Columns = {
        **{name: np.asarray(getattr(layout, name))[row, 0].astype(np.int64) for name in _DEGREES},
        "n_gpus": np.asarray(layout.n_gpus)[row, 0].astype(np.int64),
        "batch": np.broadcast_to(batch, fits.shape)[row, column].astype(np.int64),
        "layout_index": row,
    }
    figures = {name: getattr(result, name) for name in FIGURES} | {"memory_bytes_per_gpu": result.memory.total_bytes}
    if best is None:
        return out | {name: np.broadcast_to(figure, fits.shape)[row, column] for name, figure in figures.items()}
    every = {name: np.broadcast_to(figure, (len(_DRAFTS), *fits.shape)) for name, figure in figures.items()}
    out["draft_tokens"] = best[row, column]
    return out | {name: figure[best[row, column], row, column] for name, figure in every.items()}
