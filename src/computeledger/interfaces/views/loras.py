"""The part of a serving view that LoRA adapters add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import percent, words
from computeledger.units import format_count


def adapter_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line on adapters: what they hold, how many a batch names, and what is copied."""
    one = document.get("adapters")
    if one is None:
        return []
    held = f"{format_count(one['n_adapters'], 'adapter')} of rank {one['rank']} ({one['targets']} layers)"
    said = f"{held}, {words(one['bytes_each'], 'bytes')} each"
    on_chip = f"{one['n_on_chip']:,} on the chips take {words(one['bytes_per_gpu'], 'bytes')} of each GPU"
    out = [("Adapters", f"{said}; {on_chip}; a batch names {one['distinct_in_batch']:.3g} on average")]
    if one["missed_fraction"]:
        missed, copied, host = percent(one["missed_fraction"]), words(one["copy_s"], "s"), one["host_bytes"]
        said = f"for {missed} of requests, {copied} each, out of host memory ({words(host, 'bytes')})"
        out.append(("Adapters copied", said))
    return out
