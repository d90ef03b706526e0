"""The parts of a serving view that LoRA adapters and structured output add."""

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
    by_slots = document.get("gpus_by_adapter_slots")
    if by_slots is not None:
        said = ", ".join(f"{slots}: {format_count(n, 'GPU')}" for slots, n in by_slots.items())
        said = said if len(by_slots) > 1 else f"{said}; twice as many save none"
        out.append(("GPUs of this layout by --max-loras", said))
    return out


def mask_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line on structured output: the host's time of a step, and what of it a token waits for."""
    one = document.get("structured")
    if one is None:
        return []
    made, added = words(one["masks_of_step_s"], "s"), words(one["added_to_step_s"], "s")
    how = "of which the step hides all but" if one["is_overlapped"] else "before the step, which is longer by"
    said = (
        f"{one['library']} masks {percent(one['sequences_fraction'])} of requests: {made} of host time a step, {how} "
    )
    out = [("Structured output", said + added)]
    if one["new_schemas_fraction"]:
        new, compiled = percent(one["new_schemas_fraction"]), words(one["compile_s"], "s")
        out.append(("New schemas", f"{new} of them, {compiled} each to compile before the first token"))
    return out
