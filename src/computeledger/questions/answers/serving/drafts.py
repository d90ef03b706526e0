"""What a serving answer says of speculation: what drafts, how surely, how long a draft is best, and until when."""

from __future__ import annotations

from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.physics.roofline import Machine
from computeledger.questions.answers.serving.setting import Setting
from computeledger.workloads.result import quantity
from computeledger.workloads.serving.estimate import estimate_serving
from computeledger.workloads.serving.scenario import ServingScenario
from computeledger.workloads.serving.speculation import (
    batches_that_fit,
    drafts_by_load,
    planned_speculation,
    undrafted,
)


def drafts_document(scenario: ServingScenario) -> dict[str, float]:
    """Tokens drafted per step and yielded, where anything is drafted."""
    if not np.any(scenario.draft_tokens):
        return {}
    return {"draft_tokens": median(scenario.draft_tokens), "tokens_per_step": median(scenario.tokens_per_step)}


def speculation_document(
    setting: Setting, scenario: ServingScenario, at_median: ServingScenario, machine: Machine
) -> dict[str, Any]:
    """A planned speculation at the answer's layout: ``scenario`` with samples, ``machine`` at its medians."""
    plan = planned_speculation(setting.question, setting.at_median.model)
    chances = scenario.speculation.acceptance
    if plan is None or chances is None:
        return {}
    plain = estimate_serving(undrafted(scenario), setting.machine)
    speedup = plain.tpot_s / estimate_serving(scenario, setting.machine).tpot_s
    batches = batches_that_fit(at_median, machine)
    loads = drafts_by_load(at_median, machine, batches)
    at_batch = drafts_by_load(at_median, machine, np.array([median(scenario.batch)]))
    place = loads.stops_paying
    known = plan.known
    found = {
        "method": plan.method,
        "drafter": None if plan.drafter is None else plan.drafter.id,
        "is_searched": not setting.question.draft_tokens,
        "draft_tokens": median(scenario.draft_tokens),
        "tokens_per_step": quantity(scenario.tokens_per_step, "tokens"),
        "speedup_ratio": quantity(speedup, ""),
        "best_draft_tokens": float(at_batch.draft_tokens[0]),
        "first_draft_accepted_fraction": quantity(chances.first, "fraction"),
        "next_draft_ratio": float(np.asarray(chances.ratio)),
        "acceptance": {
            "origin": "published" if plan.stated is None else "given",
            "n_curves": known.n_curves, "is_own_model": known.is_own_model, "sources": list(known.sources),
            "residual_fraction": known.residual_fraction,
        },
        "by_batch": [
            {"batch": batch, "draft_tokens": drafts, "speedup_ratio": ratio, "requests_per_s": rate}
            for batch, drafts, ratio, rate in zip(
                *(one.tolist() for one in (loads.batches, loads.draft_tokens, loads.speedup_ratio,
                                           loads.requests_per_s)), strict=True)
        ],
        "stops_paying": None if place is None else {
            "batch": float(loads.batches[place]), "requests_per_s_per_replica": float(loads.requests_per_s[place]),
        },
    }  # fmt: skip
    return {"speculation": found}
