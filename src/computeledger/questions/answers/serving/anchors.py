"""What a user's measurements taught, as every answer about serving shows it."""

from __future__ import annotations

from typing import Any

from computeledger.workloads.anchor_fit import ends
from computeledger.workloads.serving.anchor import Anchoring


def anchor_document(anchoring: Anchoring | None) -> dict[str, Any]:
    """The part ``anchor`` of a document; nothing where nothing was measured."""
    if anchoring is None:
        return {}
    lessons = anchoring.lessons
    measured = {name: one for name, one in lessons.items() if one.ratios}
    points = [
        {
            "anchor": one.text,
            "layout": None if one.layout is None else str(one.layout),
            "batch": one.batch,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "tpot_s": one.tpot_s,
            "ttft_s": one.ttft_s,
        }
        for one in anchoring.anchors
    ]
    return {
        "anchor": {
            "n": len(anchoring.anchors),
            "measured": points,
            "measured_over_predicted": {name: list(one.ratios) for name, one in lessons.items()},
            "carried_over": {name: one.shift for name, one in lessons.items()},
            "carried_fraction": {name: one.carried_fraction for name, one in measured.items()},
            "interval_before": {name: ends(one.before) for name, one in measured.items()},
            "interval_after": {name: ends(one.after) for name, one in measured.items()},
            "differ_ratio": {name: one.differ_ratio for name, one in measured.items()},
            "widened_for_difference": {name: one.widening for name, one in measured.items()},
        }
    }
