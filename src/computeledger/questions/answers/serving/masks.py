"""What a serving answer says of structured output: time of the masks in a step, whether it is hidden, new schemas."""

from __future__ import annotations

from typing import Any

from computeledger.arrays import median
from computeledger.facts.structured import mask_libraries
from computeledger.physics.roofline import OperationKind
from computeledger.units import format_percent, format_si
from computeledger.workloads.questions.structured import Structured
from computeledger.workloads.serving.estimate import ServingResult


def masks_document(question: Structured, result: ServingResult) -> dict[str, Any]:
    """Masks at an answer's batch; nothing where no output is structured."""
    scenario, masks = result.scenario, result.scenario.masks
    if masks is None or question.structured is None:
        return {}
    per_step = masks.mask_s * masks.sequences_fraction * scenario.batch / scenario.layout.dp * scenario.verified_tokens
    added = [one.overhead_s for one in result.decode if one.kind is OperationKind.MASKS]
    found = {
        "library": question.structured,
        "sequences_fraction": median(masks.sequences_fraction),
        "new_schemas_fraction": median(masks.new_schemas_fraction),
        "mask_s": median(masks.mask_s),
        "masks_of_step_s": median(per_step),
        "added_to_step_s": median(sum(added)) if added else 0.0,
        "compile_s": median(masks.compile_s),
        "added_to_first_token_s": median(masks.first_s),
        "is_overlapped": masks.is_overlapped,
    }
    return {"structured": found}


def mask_remarks(question: Structured, result: ServingResult) -> list[str]:
    """Where the time of a mask comes from, and what it leaves out."""
    masks = result.scenario.masks
    if masks is None or question.structured is None:
        return []
    one = mask_libraries()[question.structured]
    mean, p99 = (format_si(one.facts[f"mask_{name}_s"].value, "s") for name in ("mean", "p99"))
    when = "while the GPU computes" if masks.is_overlapped else "before each step"
    said = [f"masks are made {when}, one after the other (assumption)"]
    if question.mask_time is None:
        said.append(
            f"a mask takes {format_si(float(one.facts['mask_p75_s'].value), 's')}, as {format_percent(0.75)} of those "
            f"of 10,000 published schemas do at most ({one.name} on one core): their mean is {mean}, one in a hundred "
            f"takes {p99}; --mask-time states that of your schema"
        )
    return said
