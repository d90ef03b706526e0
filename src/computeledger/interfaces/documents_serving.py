"""Serving answers as JSON documents, one shape for the command line, the report and the web."""

from __future__ import annotations

from typing import Any

from computeledger.arrays import Num, median
from computeledger.interfaces.documents import bound_fractions, main_bound, memory_document, operations_document
from computeledger.physics import memory
from computeledger.physics.roofline import Operation
from computeledger.workloads.result import quantities, quantity
from computeledger.workloads.serving import ServingResult
from computeledger.workloads.serving_search import Fleet, PriceOfSpeed, ServingOption


def serving_assumptions() -> dict[str, float]:
    """What serving takes for granted beside the efficiency factors."""
    return {
        "usable_hbm_fraction": memory.USABLE_FRACTION,
        "engine_workspace_bytes": memory.WORKSPACE_BYTES,
        "prefill_chunk_tokens": memory.CHUNK_TOKENS,
    }


def serve_document(result: ServingResult, ideal: ServingResult, curve: PriceOfSpeed, gpus: int) -> dict[str, Any]:
    """Serving at one layout and batch, its physical limit, and the price of speed."""
    scenario = result.scenario
    return {
        "model": scenario.model.id,
        "layout": str(scenario.layout),
        "batch": median(scenario.batch),
        "n_gpus_per_replica": int(median(scenario.layout.n_gpus)),
        "n_replicas": gpus // int(median(scenario.layout.n_gpus)),
        "input_tokens": median(scenario.input_tokens),
        "cached_tokens": median(scenario.cached_tokens),
        "output_tokens": median(scenario.output_tokens),
        "precision": {name: getattr(scenario.precision, name) for name in ("attention", "dense", "experts", "kv")},
        **quantities(serve_figures(result)),
        "requests_per_s_per_replica": quantity(result.requests_per_s, "1/s"),
        "bound": main_bound(result.decode),
        "prefill_bound": main_bound(result.prefill),
        "bound_fractions": bound_fractions(result.decode),
        "components": {
            "decode": operations_document([*result.decode, _beside(result)]),
            "prefill": operations_document(result.prefill),
        },
        "components_of": "busiest GPU",
        "memory_bytes": memory_document(result.memory),
        "largest_batch": median(result.memory.largest_batch),
        "physical_limit": quantities(serve_figures(ideal)),
        "price_of_speed": speed_document(curve),
    }


def _beside(result: ServingResult) -> Operation:
    """The prefills of other requests that a decode step waits for, as one more row."""
    return Operation("prefill of other requests", overhead_s=result.prefill_wait_s)


def serve_figures(result: ServingResult) -> dict[str, tuple[Num, str]]:
    """The figures that answer a serving question, with units."""
    return {
        "ttft_s": (result.ttft_s, "s"),
        "tpot_s": (result.tpot_s, "s"),
        "output_tokens_per_s_per_user": (result.output_tokens_per_s_per_user, "tokens/s"),
        "output_tokens_per_s_per_gpu": (result.output_tokens_per_s_per_gpu, "tokens/s"),
        "usd_per_mtok_input": (result.usd_per_mtok_input, "USD/Mtok"),
        "usd_per_mtok_cached_read": (result.usd_per_mtok_cached_read, "USD/Mtok"),
        "usd_per_mtok_output": (result.usd_per_mtok_output, "USD/Mtok"),
    }


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
        "requests_per_s": option.requests_per_s,
        "usd_per_mtok_input": option.usd_per_mtok_input,
        "usd_per_mtok_output": option.usd_per_mtok_output,
    }


def speed_document(curve: PriceOfSpeed) -> dict[str, Any]:
    """The price of speed on one layout."""
    return {
        "latency_floor_s": curve.latency_floor_s,
        "usd_per_mtok_output_plateau": curve.usd_per_mtok_output_plateau,
        "slow_mode_saves_fraction": curve.slow_mode_saves_fraction,
        "fast_mode_costs_ratio": curve.fast_mode_costs_ratio,
        "curve": [
            {"batch": one.batch, "tpot_s": one.tpot_s, "usd_per_mtok_output": one.usd_per_mtok_output}
            for one in curve.options
        ],
    }


def fleet_document(fleet: Fleet) -> dict[str, Any]:
    """Replicas that carry a load."""
    return {
        "n_gpus": fleet.n_gpus,
        "n_replicas": fleet.n_replicas,
        "load_fraction": fleet.load_fraction,
        "replica": option_document(fleet.option),
    }
