"""Tiers of memory as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.hosting.kv_tiers import DEVICES_PER_GPU, REUSE_S, KvTiersResult, TierMarket, TierResult
from computeledger.economics.hosting.memory_design import MemoryDesign
from computeledger.questions.document import picked
from computeledger.questions.grounds import fact_document
from computeledger.workloads.result import quantities, quantity

_TIER_FACTS = ("capacity_bytes", "read_bytes_per_s", "usd_per_byte")


def kv_tiers_document(
    found: KvTiersResult, designs: Sequence[MemoryDesign], market: TierMarket, cache_read_fraction: Num
) -> dict[str, Any]:
    """A prefix in every tier, and memory as a design variable."""
    return {
        **picked(found, "prefix_tokens", "prefix_bytes", "recompute_s", "recompute_usd", units={"prefix_bytes": "B"}),
        "tiers": [_tier(one) for one in found.tiers],
        "cheapest": [
            {"tier": name, "from_s": start, "to_s": end if np.isfinite(end) else None}
            for name, start, end in found.cheapest
        ],
        "memory_design": [_design(one) for one in designs],
        "edition": market.tiers.id,
        "facts": {
            tier.id: {
                name: fact_document(getattr(tier, name))
                for name in ("capacity_bytes", "read_bytes_per_s", "usd_per_byte")
            }
            for tier in market.tiers.tiers.values()
        },
        "assumptions": {
            "cache_read_fraction": quantity(cache_read_fraction, ""),
            "devices_per_gpu": {one.id: DEVICES_PER_GPU.get(one.id, 1.0) for one in found.tiers if one.id != "hbm"},
            "hbm": "a byte is priced at what a running sequence in its place would earn",
            "left_out": "writes, wear and power of the devices",
        },
    }


def _tier(one: TierResult) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        **quantities(
            {
                "n_prefixes": (one.n_prefixes, ""),
                "drain_s": (one.holding.drain_s, "s"),
                "hit_s": (one.hit_s, "s"),
                "usd_per_byte_per_s": (one.holding.usd_per_byte_per_s, "USD/byte/s"),
                "hold_or_recompute_s": (one.hold_s, "s"),
                "discount_pays_s": (one.discount_s, "s"),
            }
        ),
        "hit_usd": {f"{reuse_s:.0f}": quantity(one.hit_usd[reuse_s], "USD") for reuse_s in REUSE_S},
    }


def _design(one: MemoryDesign) -> dict[str, Any]:
    return {
        **picked(one, "stages", "n_gpus"),
        "batch": median(one.batch),
        **picked(
            one,
            "hbm_bytes",
            "hbm_usd_per_gpu",
            "saved_usd_per_gpu",
            "saved_usd_per_gpu_hour",
            "tpot_s",
            "ttft_s",
            "output_tokens_per_s_per_gpu",
            "usd_per_mtok_output",
            units={"hbm_bytes": "B"},
        ),
    }
