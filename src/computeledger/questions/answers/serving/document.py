"""Serving answers as JSON documents, one shape for the command line, the report and the web."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, median
from computeledger.facts.formats import FORMATS
from computeledger.facts.schema import System
from computeledger.physics.calibration.efficiency import load_factors, median_of
from computeledger.physics.roofline import (
    BOUNDS,
    Machine,
    Operation,
    OperationKind,
    Precision,
    bound,
    bound_times_s,
    total_s,
)
from computeledger.physics.serving.buffers import SERVER_BUFFERS, Buffers
from computeledger.physics.serving.memory import ServingMemory
from computeledger.physics.weights import weight_counts
from computeledger.questions.document import picked
from computeledger.units import HOUR_S
from computeledger.workloads.engines import engines
from computeledger.workloads.result import quantities, quantity
from computeledger.workloads.serving.breakdown import (
    Constant,
    OperationBreakdown,
    PoolsBreakdown,
    ServingBreakdown,
    StepBreakdown,
    beside_operations,
)
from computeledger.workloads.serving.burst import STATISTICS
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario
from computeledger.workloads.serving.margins import DISTINGUISHABLE, Rival
from computeledger.workloads.serving.pool_search import PoolOption
from computeledger.workloads.serving.pools import DisaggregatedResult
from computeledger.workloads.serving.search import Fleet, PriceOfSpeed, ServingOption

#: Kinds of value whose format an answer states.
WIDTHS = ("attention", "dense", "experts", "head", "kv")


def wider_products(scenario: ServingScenario, system: System) -> list[str]:
    """What multiplies weights that the chip has no units for, or that are narrow on purpose."""
    chip, precision, counts = system.accelerator, scenario.precision, weight_counts(scenario.model)
    kinds = [kind for kind in ("attention", "dense", "experts") if counts[kind]]
    out = {}
    for name in dict.fromkeys(getattr(precision, kind) for kind in kinds):
        unit, native = FORMATS[name].units[0], chip.native_precision(name)
        if FORMATS[name].is_weight_only:
            own = [kind for kind in kinds if getattr(precision, kind) == name]
            read = sum(counts[kind] * getattr(precision.weights, kind) for kind in own)
            bits = 8 * read / sum(counts[kind] for kind in own)
            out[name] = f"weights alone are narrow: {bits:.3g} bits are read, products run in {native}"
        elif native != unit:
            has = f"is faster in {native}" if unit in chip.peak_flop_per_s else f"has no {unit} units"
            out[name] = f"{chip.id} {has}; products run in {native}"
        elif name == scenario.model.expert_precision == "mxfp4":
            out[name] = _MXFP4.format(chip.id)
        elif native == "bf16" != chip.wide_unit:
            out[name] = f"{chip.id} has no bf16 units; 16-bit weights are multiplied in {chip.wide_unit}, at its peak"
    return [f"{name}: {said}" for name, said in out.items()]


#: vLLM's quantization/mxfp4.py (commit 007d500): FlashInfer's MXFP4 x BF16 kernels on SM100 unless MXFP8 is asked for,
#: Triton's or Marlin's with activations in bf16 on Hopper and ROCm.
_MXFP4 = (
    "products are counted at the fp4 rate of {}; where activations stay wider, as vLLM's do for gpt-oss (bf16, or 8 "
    "bits by a setting), what compute binds is slower"
)


def foreign_engine(backend: str | None, system: System) -> list[str]:
    """What an engine is asked to run on that it does not run on."""
    engine, chip = engines().get(backend or ""), system.accelerator
    if engine is None or not engine.makers or chip.vendor in engine.makers:
        return []
    return [f"{engine.id} runs on chips of {' and '.join(engine.makers)} alone: on {chip.name} nobody can run this"]


def carried_over(machine: Machine) -> list[str]:
    """How constants that were fitted on other chips are carried over to this one."""
    chip = machine.system.accelerator
    lost, streamed = (float(median(one)) for one in (machine.loss_ratio, machine.bandwidth_ratio))
    parts = [f"products lose {lost:.2g} times as much per FLOP of the peak"] if lost != 1 else []
    parts += [f"memory reaches {streamed:.2g} times their share of its bandwidth"] if streamed != 1 else []
    return [f"constants of H100 to GB300, carried over to {chip.name}: {', '.join(parts)}"] if parts else []


def dear_reads(result: ServingResult, system: System) -> list[str]:
    """Why a cached token costs more than a new one, where it does."""
    if median(result.usd_per_mtok_cached_read) <= median(result.usd_per_mtok_input):
        return []
    fetched = "" if system.is_one_machine else ", and a cached entry crosses the network"
    return [f"{_DEAR_READ}{fetched}"]


_DEAR_READ = (
    "cached read above input: every new token of the prompt attends to all of a cached prefix, but only to the half of "
    "the new tokens that stand before it"
)


def serving_assumptions(buffers: Buffers = SERVER_BUFFERS) -> dict[str, float]:
    """What serving takes for granted beside the efficiency factors."""
    return {
        "cache_share_of_free_hbm_fraction": buffers.cache_fraction,
        "engine_share_of_hbm_fraction": buffers.whole_fraction,
        "engine_workspace_bytes": buffers.workspace_bytes,
        "prefill_chunk_tokens": buffers.chunk_tokens,
    }


def precision_document(precision: Precision) -> dict[str, str]:
    """Formats by kind of value, and the file that mixes several by its name."""
    return {name: getattr(precision, name) for name in WIDTHS} | ({"file": precision.file} if precision.file else {})


def serve_document(result: ServingResult, ideal: ServingResult, curve: PriceOfSpeed, gpus: int) -> dict[str, Any]:
    """Serving at one layout and batch, its physical limit, and the price of speed."""
    scenario = result.scenario
    return {
        "mode": "aggregated",
        "model": scenario.model.id,
        "layout": str(scenario.layout),
        "batch": median(scenario.batch),
        "n_gpus_per_replica": int(median(scenario.layout.n_gpus)),
        "n_replicas": gpus // int(median(scenario.layout.n_gpus)),
        "n_idle_gpus": gpus % int(median(scenario.layout.n_gpus)),
        "input_tokens": quantity(scenario.input_tokens, "tokens"),
        "cached_tokens": quantity(scenario.cached_tokens, "tokens"),
        "output_tokens": quantity(scenario.output_tokens, "tokens"),
        "precision": precision_document(scenario.precision),
        **quantities(serve_figures(result)),
        **_first_tokens(result, result.scenario),
        "requests_per_s_per_replica": quantity(result.requests_per_s, "1/s"),
        "bound": main_bound(result.decode),
        "prefill_bound": main_bound(result.prefill),
        "bound_fractions": bound_fractions(result.decode),
        "components": {
            "decode": operations_document([*result.decode, *beside_operations(result, decode=True)]),
            "prefill": operations_document([*result.prefill, *beside_operations(result, decode=False)]),
        },
        "components_of": f"busiest GPU{', through all stages' if median(scenario.layout.pp) > 1 else ''}",
        "memory_bytes": memory_document(result.memory),
        "largest_batch": median(result.memory.largest_batch),
        "physical_limit": quantities(serve_figures(ideal)),
        "price_of_speed": speed_document(curve),
    }


def _first_tokens(result: ServingResult | DisaggregatedResult, run: ServingScenario) -> dict[str, Any]:
    """Times to first token over the requests of a run that starts at once."""
    if np.all(np.isinf(run.rounds)):
        return {}
    return {
        "rounds_per_burst": median(run.rounds),
        "statistic": run.statistic,
        "ttft_statistics_s": {name: quantity(result.ttft_statistic_s(name), "s") for name in STATISTICS},
    }


def serve_figures(result: ServingResult, fleet: Fleet | None = None) -> dict[str, tuple[Num, str]]:
    """The figures that answer a serving question, with units; what a fleet is paid is shared by all that arrive."""
    paid: Num = 1.0 if fleet is None else result.requests_per_s * fleet.n_replicas / fleet.requests_per_s
    return {
        "ttft_s": (result.ttft_s, "s"),
        "tpot_s": (result.tpot_s, "s"),
        "output_tokens_per_s_per_user": (result.output_tokens_per_s_per_user, "tokens/s"),
        "output_tokens_per_s_per_gpu": (result.output_tokens_per_s_per_gpu, "tokens/s"),
        "usd_per_mtok_input": (paid * result.usd_per_mtok_input, "USD/Mtok"),
        "usd_per_mtok_cached_read": (paid * result.usd_per_mtok_cached_read, "USD/Mtok"),
        "usd_per_mtok_output": (paid * result.usd_per_mtok_output, "USD/Mtok"),
    }


def without_further_tokens(document: dict[str, Any]) -> dict[str, Any]:
    """A document whose requests write one token: no further one has a time or a speed."""
    none = dict.fromkeys(OF_FURTHER_TOKENS)
    return document | none | {"physical_limit": document["physical_limit"] | none}


#: Figures of the tokens behind the first.
OF_FURTHER_TOKENS = ("tpot_s", "output_tokens_per_s_per_user")


def paid_document(fleet: Fleet, found: ServingResult, limits: tuple[ServingResult, ServingResult]) -> dict[str, Any]:
    """Costs of a fleet; its limit is as fast as at the load, and as cheap as chips that are fully loaded."""
    costs = {name: one for name, one in serve_figures(found, fleet).items() if name.startswith("usd_")}
    at_load, full = (serve_figures(one) for one in limits)
    of_load = {name: full[name] for name in full if name.startswith("usd_") or name.endswith("_per_gpu")}
    return quantities(costs) | {"physical_limit": quantities(at_load | of_load)}


def option_document(option: ServingOption) -> dict[str, Any]:
    """A point of a serving search."""
    return {
        "layout": str(option.layout),
        "batch": option.batch,
        "n_gpus": int(option.layout.n_gpus),
        "ttft_s": option.ttft_s,
        "tpot_s": option.tpot_s,
        "output_tokens_per_s_per_user": 1 / option.tpot_s,
        "output_tokens_per_s_per_gpu": option.output_tokens_per_s_per_gpu,
        **picked(option, "requests_per_s", "usd_per_mtok_input", "usd_per_mtok_output"),
        **({"draft_tokens": option.draft_tokens} if option.draft_tokens else {}),
    }


def speed_document(curve: PriceOfSpeed) -> dict[str, Any]:
    """The price of speed on one layout."""
    return {
        **picked(
            curve, "latency_floor_s", "usd_per_mtok_output_plateau", "slow_mode_saves_fraction", "fast_mode_costs_ratio"
        ),
        "curve": [picked(one, "batch", "tpot_s", "usd_per_mtok_output") for one in curve.options],
    }


def fleet_document(fleet: Fleet, found: ServingResult, full: ServingResult) -> dict[str, Any]:
    """Replicas that carry a load; what one does when it is fully loaded, and what it then holds."""
    usd_per_hour = median(found.scenario.usd_per_gpu_hour) * fleet.n_gpus
    return {
        **picked(fleet, "n_gpus", "n_replicas", "requests_per_s", "load_fraction"),
        "usd_per_hour": usd_per_hour,
        "usd_per_request": usd_per_hour / HOUR_S / fleet.requests_per_s,
        "carries_probability": float(np.mean(carries(fleet, full))),
        "occupancy_fraction": median(found.scenario.occupancy),
        "replica": option_document(fleet.option),
        "memory_bytes": memory_document(full.memory),
    }


def carries(fleet: Fleet, full: ServingResult) -> NDArray[np.bool_]:
    """The samples in which a fleet finishes what arrives."""
    return np.asarray(full.requests_per_s >= fleet.requests_per_s / fleet.n_replicas)


def breakdown_document(found: ServingBreakdown, engine: str) -> dict[str, Any]:
    """A serving answer taken apart, at the medians of its inputs."""
    result = found.result
    return {
        "decode": _step_document(found.decode),
        "prefill": _step_document(found.prefill),
        "tpot": {
            "decode step": median(result.decode_s),
            OperationKind.OTHER_PREFILLS.value: median(result.prefill_wait_s),
        },
        "ttft": {
            "prefill": found.prefill.time_s,
            "host, admission and queue": median(result.ttft_s) - found.prefill.time_s,
        },
        "constants": [_constant_document(one, engine) for one in found.constants],
    }


def pools_breakdown_document(found: PoolsBreakdown, engine: str) -> dict[str, Any]:
    """An answer by two pools taken apart, at the medians of its inputs."""
    return {
        "decode": _step_document(found.decode),
        "prefill": _step_document(found.prefill),
        "tpot": dict(found.tpot),
        "ttft": dict(found.ttft),
        "constants": [_constant_document(one, engine) for one in found.constants],
    }


def _step_document(step: StepBreakdown) -> dict[str, Any]:
    return {
        "time_s": step.time_s,
        "limit_s": step.limit_s,
        "limit_fraction": step.limit_s / step.time_s,
        "beside_s": dict(step.beside_s),
        "operations": [_operation_document(one, step) for one in step.operations],
    }


def _operation_document(row: OperationBreakdown, step: StepBreakdown) -> dict[str, Any]:
    one, limit = row.operation, row.limit
    time_s = median(one.time_s)
    parts = {name: median(getattr(one, name)) for name in ("compute_s", "memory_s", "network_s", "overhead_s")}
    flop_per_s, bytes_per_s = (median(amount) / time_s for amount in (one.flop, one.bytes))
    return {
        "name": one.name,
        "flop": median(one.flop),
        "bytes": median(one.bytes),
        "network_bytes": median(one.network_bytes),
        **parts,
        "time_s": time_s,
        "share_fraction": time_s / step.time_s,
        "limit_s": median(limit.time_s),
        "limit_fraction": row.limit_fraction,
        "bound": main_bound([one]),
        "flop_per_s": flop_per_s,
        "flop_per_s_fraction": flop_per_s / median(limit.flop_per_s) if np.all(one.flop) else 0.0,
        "bytes_per_s": bytes_per_s,
        "bytes_per_s_fraction": bytes_per_s / median(limit.bytes_per_s) if np.all(one.bytes) else 0.0,
    }


def _constant_document(one: Constant, engine: str) -> dict[str, Any]:
    out: dict[str, Any] = {"name": one.name, "value": one.value, "elasticity": dict(one.elasticity)}
    if one.fact is not None:
        ground = {"kind": "fact", "source": one.fact.source, "why": one.fact.locator, "given": one.fact.given}
        return {**out, "unit": one.fact.unit, "low": one.value, "high": one.value, **ground}
    unit = "s" if one.name.endswith("_s") else ""
    factors = load_factors(engine)
    usual = factors.get(f"usual_{one.name}")  # what tuning sets has the provenance of what was fitted for it
    factor = usual if usual is not None and median_of(usual.value) == one.value else factors.get(one.name)
    if factor is None:  # the physical limit: every factor is at its end
        limit = {"kind": "assumption", "source": "assumption", "why": "the physical limit"}
        return {**out, "unit": unit, "low": one.value, "high": one.value, **limit}
    low, high = getattr(factor.value, "low", one.value), getattr(factor.value, "high", one.value)
    return {
        **out,
        "unit": unit,
        "low": low,
        "high": high,
        "kind": factor.kind,
        "source": factor.source,
        "why": factor.why,
    }


def margins_document(rivals: Sequence[Rival], chances: dict[str, float], n_within: int) -> dict[str, Any]:
    """How far the winner of a search is ahead."""
    return {
        "of": "output_tokens_per_s_per_gpu",
        "n_options_within_limits": n_within,
        "n_layouts_within_limits": len(rivals) + 1,
        "not_distinguishable_above": DISTINGUISHABLE,
        "n_not_distinguishable": sum(one.better_probability > DISTINGUISHABLE for one in rivals),
        "meets_limit_probability": chances,
        "rivals": [
            {
                **option_document(one.option),
                "throughput_ratio": one.throughput_ratio,
                "better_probability": one.better_probability,
            }
            for one in rivals
        ],
    }


def meets_document(
    result: ServingResult | DisaggregatedResult, limits: dict[str, float], carried: NDArray[np.bool_] | bool = True
) -> dict[str, Any]:
    """Whether an answer is within limits on its times, at the median that is printed and over the samples.

    A fleet is sized at the medians, where it carries its load. In samples whose load is not ``carried`` the queue grows
    on and on, and no first token is in time: that lowers the chance, and no printed time.
    """
    times = {name: getattr(result, f"{name}_s") for name in limits}
    within = {name: (times[name] <= limit) & (carried if name == "ttft" else True) for name, limit in limits.items()}
    return {
        name: {
            "limit_s": limit,
            "meets": bool(np.median(times[name]) <= limit),
            "probability": float(np.mean(within[name])),
        }
        for name, limit in limits.items()
    }


def pool_option_document(one: PoolOption) -> dict[str, Any]:
    """A point of a search over two pools."""
    return {
        "layout": _pools_words(one),
        "prefill_layout": str(one.prefill_layout),
        "decode_layout": str(one.decode_layout),
        "n_prefill_workers": one.n_prefill,
        "n_decode_workers": one.n_decode,
        "n_gpus": one.n_gpus,
        "batch": round(one.decode_batch),
        "concurrency": one.concurrency,
        "ttft_s": one.ttft_s,
        "tpot_s": one.tpot_s,
        "output_tokens_per_s_per_user": 1 / one.tpot_s,
        **picked(
            one,
            "output_tokens_per_s_per_gpu",
            "requests_per_s",
            "usd_per_mtok_input",
            "usd_per_mtok_output",
            "prefill_busy_fraction",
        ),
        **({"draft_tokens": one.draft_tokens} if one.draft_tokens else {}),
    }


def _pools_words(one: PoolOption) -> str:
    return f"{one.n_prefill}x {one.prefill_layout} > {one.n_decode}x {one.decode_layout}"


def _pools_figures(result: DisaggregatedResult, usd_per_mtok: tuple[Num, Num]) -> dict[str, tuple[Num, str]]:
    output, given = usd_per_mtok
    return {
        "ttft_s": (result.ttft_s, "s"),
        "tpot_s": (result.tpot_s, "s"),
        "output_tokens_per_s_per_user": (result.output_tokens_per_s_per_user, "tokens/s"),
        "output_tokens_per_s_per_gpu": (result.output_tokens_per_s_per_gpu, "tokens/s"),
        "usd_per_mtok_input": (given, "USD/Mtok"),
        "usd_per_mtok_output": (output, "USD/Mtok"),
    }


def pools_document(
    answer: tuple[DisaggregatedResult, tuple[Num, Num]],
    limit: tuple[DisaggregatedResult, tuple[Num, Num]],
    chosen: PoolOption,
    gpus: int,
) -> dict[str, Any]:
    """Serving by two pools, and its physical limit."""
    result = answer[0]
    one = result.scenario.decode
    # the ratio of real over modelled steps stands in the pools' time per token, not in that of a worker
    own = [*result.decode.decode, *beside_operations(result.decode, decode=True)]
    step_s = result.tpot_s * one.tokens_per_step
    prompts = int(chosen.prefill_layout.dp * chosen.prefill_layout.pp)
    staged = max(chosen.prefill_layout.pp, chosen.decode_layout.pp) > 1
    workers = (
        ("prefill", chosen.prefill_layout, chosen.n_prefill, prompts),
        ("decode", chosen.decode_layout, chosen.n_decode, round(chosen.decode_batch)),
    )
    return {
        "mode": "disaggregated",
        "model": one.model.id,
        "layout": _pools_words(chosen),
        "batch": median(result.decode_batch),
        "concurrency": chosen.concurrency,
        "n_gpus_per_replica": chosen.n_gpus,
        "n_replicas": gpus // chosen.n_gpus,
        "n_idle_gpus": gpus % chosen.n_gpus,
        "input_tokens": quantity(one.input_tokens, "tokens"),
        "cached_tokens": quantity(one.cached_tokens, "tokens"),
        "output_tokens": quantity(one.output_tokens, "tokens"),
        "precision": precision_document(one.precision),
        **quantities(_pools_figures(*answer)),
        **_first_tokens(result, one),
        "requests_per_s_per_replica": quantity(result.requests_per_s, "1/s"),
        "pools": {
            name: {
                "layout": str(layout),
                "n_workers": n,
                "n_gpus_per_worker": int(layout.n_gpus),
                "batch": batch,
                "memory_bytes": memory_document(getattr(result, name).memory),
            }
            for name, layout, n, batch in workers
        },
        **picked(result, "prefill_busy_fraction", "queue_s"),
        "bound": main_bound(result.decode.decode),
        "prefill_bound": main_bound(result.prefill.prefill),
        "bound_fractions": bound_fractions(result.decode.decode),
        "components": {
            "decode": operations_document(
                [*own, Operation(OperationKind.CORRECTION, overhead_s=step_s - total_s(own))]
            ),
            "prefill": operations_document([*result.prefill.prefill, *beside_operations(result.prefill, decode=False)]),
        },
        "components_of": f"busiest GPU of a worker{', through all stages' if staged else ''}",
        "memory_bytes": memory_document(result.decode.memory),
        "memory_of": "decode pool",
        "largest_batch": median(result.decode.memory.largest_batch),
        "physical_limit": quantities(_pools_figures(*limit)),
    }


def operations_document(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    """Operations of a step: work, time, what binds; shares are of the sum of the medians."""
    every = [one for one in operations if median(one.time_s) != 0]
    whole_s = sum(median(one.time_s) for one in every)
    return [
        {
            "name": one.name,
            "flop": median(one.flop),
            "bytes": median(one.bytes),
            "network_bytes": median(one.network_bytes),
            "time_s": quantity(one.time_s, "s"),
            "share_fraction": median(one.time_s) / whole_s,
            "bound": main_bound([one])
            if np.any(one.flop) or np.any(one.bytes) or np.any(one.network_s)
            else BOUNDS[-1],
            "intensity_flop_per_byte": median(one.intensity_flop_per_byte) if np.all(one.bytes) else None,
            "reached_flop_per_s": median(one.reached_flop_per_s)
            if np.all(one.time_s)  # in some samples nothing is waited for
            else median(one.flop) / median(one.time_s),
        }
        for one in every
    ]


def main_bound(operations: Iterable[Operation]) -> str:
    """What binds most often over the samples."""
    found = bound(operations)
    return max(BOUNDS, key=lambda name: np.count_nonzero(found == name))


def memory_document(held: ServingMemory) -> dict[str, Any]:
    """Memory of the busiest GPU by tenant."""
    return {
        "weights": median(held.weights_bytes),
        "kv_cache": median(held.kv_cache_bytes),
        "activations": median(held.activations_bytes),
        "workspace": median(held.workspace_bytes),
        "total": median(held.total_bytes),
        "capacity": held.capacity_bytes,
    }


def bound_fractions(operations: Iterable[Operation]) -> dict[str, float]:
    """Share of a step's time by what binds, at the median."""
    parts = {name: median(part) for name, part in bound_times_s(operations).items()}
    whole = max(sum(parts.values()), 1e-300)
    return {name: part / whole for name, part in parts.items()}
