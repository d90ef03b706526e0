"""Measured serving points predicted by the serving model, many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from computeledger.arrays import sample
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import Efficiency, efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.memory import serving_memory
from computeledger.units import KILO
from computeledger.validation.compare import Array, Comparison
from computeledger.validation.serving.points import (
    ASSUMED_DECODE,
    ASSUMED_DRAFT_TOKENS,
    ASSUMED_PREFILL,
    ASSUMED_TOKENS_PER_STEP,
    Point,
    sort_points,
)
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.intervals import interval_class, interval_of
from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated


@dataclass(frozen=True, slots=True)
class Block:
    """Points of one model, system, engine and precision: one vectorised question."""

    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    scenario: ServingScenario | DisaggregatedScenario
    system: str
    backend: str
    years: Array


def blocks_of(points: Sequence[Point]) -> list[Block]:
    """Put points that share a model, a system, an engine and a precision together.

    Examples
    --------
    >>> blocks_of([])
    []
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, one in enumerate(points):
        together = (one.model.id, one.system, one.backend, one.precision, one.kind == "aggregated")
        groups.setdefault(together, []).append(place)
    return [_block(np.array(places), [points[place] for place in places]) for places in groups.values()]


def _block(places: np.ndarray[tuple[int], np.dtype[np.int64]], points: Sequence[Point]) -> Block:
    first = points[0]

    def column(name: str, default: float = 1.0) -> Array:
        return np.array([[one.number(name, default)] for one in points])

    def layout(pool: str) -> Layout:
        names = ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size")
        tp, pp, dp, ep = (column(pool + name) for name in names)
        return Layout(tp=tp, pp=pp, dp=dp, ep=ep)

    ratio = np.array([[one.length_ratio] for one in points])
    load = np.array([[one.concurrency] for one in points])
    speculative = np.array([[float(one.speculative)] for one in points])
    serving = ServingScenario(
        model=first.model,
        layout=layout("" if first.kind == "aggregated" else "decode_"),
        precision=first.precision,
        input_tokens=column("isl") * ratio,
        output_tokens=column("osl") * ratio,
        batch=load,
        draft_tokens=speculative * ASSUMED_DRAFT_TOKENS,
        tokens_per_step=1 + speculative * (ASSUMED_TOKENS_PER_STEP - 1),
        rounds=np.array([[one.rounds] for one in points]),
    )
    where = (first.system, first.backend, np.array([[one.years] for one in points]))
    if first.kind == "aggregated":
        return Block(places, held_by_memory(serving, first.system), *where)
    pools = DisaggregatedScenario(
        decode=serving,
        prefill_layout=layout("prefill_"),
        n_prefill=column("prefill_num_workers", ASSUMED_PREFILL),
        n_decode=column("decode_num_workers", ASSUMED_DECODE),
        concurrency=load,
    )
    return Block(places, pools, *where)


def held_by_memory(scenario: ServingScenario, system: str) -> ServingScenario:
    """Let decode what fits the cache and the engine admits, and wait the rest.

    Sequences in flight hold half of their output on average.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 8192.0, 1024.0, 256.0)
    >>> found = held_by_memory(one, "h100-nvl8")
    >>> bool(found.waiting > 0), float(found.batch + found.waiting)
    (True, 256.0)
    """
    held = scenario.cached_tokens + scenario.input_tokens + scenario.output_tokens / 2
    memory = serving_memory(
        scenario.model, load_system(system), scenario.layout, scenario.precision, (scenario.batch, held), scenario.host
    )
    most = np.minimum(memory.largest_batch, scenario.settings.max_batch)
    batch = np.minimum(scenario.batch, np.maximum(most, 1.0))
    return replace(scenario, batch=batch, waiting=scenario.batch - batch)


def predict_blocks(blocks: Sequence[Block], efficiencies: Mapping[str, Efficiency], n: int) -> tuple[Array, Array]:
    """Predict TPOT and TTFT.

    Examples
    --------
    >>> [part.shape for part in predict_blocks([], {}, 1)]
    [(0, 1), (0, 1)]
    """
    n_points = sum(len(block.places) for block in blocks)
    tpot_s, ttft_s = np.empty((n_points, n)), np.empty((n_points, n))
    for block in blocks:
        machine = Machine(load_system(block.system), efficiencies[block.backend].after(block.years))
        if isinstance(block.scenario, ServingScenario):
            aggregated = estimate_serving(block.scenario, machine)
            found = aggregated.tpot_s, aggregated.ttft_s
        else:
            pools = estimate_disaggregated(block.scenario, machine)
            found = pools.tpot_s, pools.ttft_s
        tpot_s[block.places], ttft_s[block.places] = found
    return tpot_s, ttft_s


def compare_serving(rows: Sequence[Mapping[str, str]], n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict measured serving points, with the interval of each one's class.

    Examples
    --------
    >>> row = {"model_path": "nobody/none", "mode": "agg"}
    >>> dict(compare_serving([row]).skipped)
    {'model not known': 1}
    """
    points, skipped = sort_points(rows)
    engines = {point.backend for point in points}
    central = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
    tpot_s, ttft_s = predict_blocks(
        blocks_of(points), {name: efficiency(name, central, 0.0, "recipe") for name in engines}, 1
    )
    classes = [
        interval_class(one.model, one.precision.name, load_system(one.system), one.backend, one.kind, "recipe")
        for one in points
    ]
    spread = {
        name: sample({"tpot": interval_of(name).tpot, "ttft": interval_of(name).ttft}, n_samples, seed)
        for name in set(classes)
    }
    ratios = {
        quantity: np.array([spread[name][quantity] for name in classes]).reshape(len(points), n_samples)
        for quantity in ("tpot", "ttft")
    }
    return Comparison(
        rows=[{**one.row, "class": name, "run": one.run} for one, name in zip(points, classes, strict=True)],
        measured={
            name: np.array([one.number(f"silicon_{name}_ms") for one in points]) / KILO for name in ("tpot", "ttft")
        },
        predicted={"tpot": tpot_s * ratios["tpot"], "ttft": ttft_s * ratios["ttft"]},
        skipped=skipped,
        units={"tpot": "s", "ttft": "s"},
    )


def constants_along_an_axis(base: Efficiency, changes: Mapping[str, Array]) -> Efficiency:
    """Constants times the exponentials of log changes; a share of a peak stays at 1 or below.

    Examples
    --------
    >>> constants_along_an_axis(Efficiency(host_step_s=1.0), {"host_step_s": np.log([2.0, 3.0])}).host_step_s.round(6)
    array([2., 3.])
    """
    known = {field.name for field in fields(Efficiency)}
    out = {}
    for name in known & set(changes):
        value = getattr(base, name) * np.exp(changes[name])
        out[name] = np.minimum(value, 1.0) if "fraction" in name else value
    return replace(base, **out)
