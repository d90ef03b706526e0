"""What a serving answer says of traffic and context: users that fill it, and where the cache outweighs compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from computeledger.arrays import Num, median
from computeledger.errors import InputError
from computeledger.facts.schema import Accelerator
from computeledger.facts.traffic import chatgpt_usage
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.context import crossover_context_tokens
from computeledger.questions.answers.serving.cache_design import cache_design_document
from computeledger.questions.grounds import fact_document
from computeledger.units import DAY_S, format_si
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.result import quantities
from computeledger.workloads.serving.estimate import ServingResult
from computeledger.workloads.serving.scenario import ServingScenario


def context_and_traffic(
    question: ServeQuestion, result: ServingResult | ServingScenario, requests_per_s: Num | None, chip: Accelerator
) -> dict[str, Any]:
    """These parts of a serving document; under a promise, which has a load of its own, no traffic fills the batch."""
    scenario = result.scenario if isinstance(result, ServingResult) else result
    out = {} if requests_per_s is None else {"traffic": traffic_document(question, scenario, requests_per_s)}
    if question.wanted_context is not None and isinstance(result, ServingResult):
        whole = median(scenario.cached_tokens + scenario.input_tokens + scenario.output_tokens)
        if question.wanted_context < whole:
            given = format_si(question.wanted_context)
            raise InputError(
                f"--wanted-context {given}: a request of the answer has {format_si(whole)} tokens; at least as many"
            )
        out["cache_design"] = cache_design_document(result, question.wanted_context)
    return out | {"cache_against_compute": crossover_document(scenario, chip)}


def traffic_document(question: ServeQuestion, scenario: ServingScenario, requests_per_s: Num) -> dict[str, Any]:
    """Traffic that keeps the batch full day and night, and the users who send it on average over a day."""
    given, usage = question.user_requests, chatgpt_usage()
    a_day = usage.requests_per_user_per_day if given is None else given
    lengths = {name: getattr(scenario, f"{name}_tokens") for name in ("input", "cached", "output")}
    figures = {
        "requests_per_s": (requests_per_s, "requests/s"),
        **{f"{name}_tokens_per_s": (requests_per_s * one, "tokens/s") for name, one in lengths.items()},
        "users": (requests_per_s * DAY_S / a_day, ""),
        **{f"{name}_tokens_per_user_per_day": (a_day * one, "tokens") for name, one in lengths.items()},
    }
    out = {"requests_per_user_per_day": a_day, **quantities(figures)}
    if given is not None:
        return out
    facts = {"n_messages_per_week": usage.n_messages_per_week, "n_weekly_users": usage.n_weekly_users}
    return out | {"usage": {"name": usage.name} | {name: fact_document(one) for name, one in facts.items()}}


def crossover_document(scenario: ServingScenario, chip: Accelerator) -> dict[str, Any]:
    """Context from which a token's cache is read for longer than it is computed: as laid out, and of one copy."""
    model, layout, precision = scenario.model, scenario.layout, scenario.precision
    found = {
        "context_tokens": crossover_context_tokens(model, chip, layout, precision),
        "of_one_copy_context_tokens": crossover_context_tokens(model, chip, Layout(), precision),
    }
    return {
        **{name: one if np.isfinite(one) else None for name, one in found.items()},
        "assumed": "the data sheet's rates, and weights read for so many sequences that they cost nothing",
    }
