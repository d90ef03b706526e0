"""What a serving answer says of documents that users ask about: read again, held in a cache, or trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from computeledger.arrays import Num, sample
from computeledger.economics.hosting.corpus import (
    LORA,
    LORA_RANK,
    TUNED,
    Corpus,
    Way,
    compare_corpus_ways,
    corpus_inputs,
)
from computeledger.economics.hosting.kv_tiers import load_tier_market
from computeledger.errors import InputError
from computeledger.physics.roofline import Machine
from computeledger.units import HOUR_S
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.result import quantities, quantity
from computeledger.workloads.serving.estimate import ServingScenario


def corpus_document(question: ServeQuestion, scenario: ServingScenario, machine: Machine) -> dict[str, Any]:
    """Every way to answer questions about documents: GPU-time, cost, and from how many requests a day it pays.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import serve
    >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=16, corpus="50K", samples=16)
    >>> [one["name"] for one in answer.to_dict()["corpus"]["ways"]]
    ['read', 'cached', 'tuned', 'lora']
    """
    if question.corpus is None:
        return {}
    if np.any(np.asarray(scenario.usd_per_gpu_hour) <= 0):
        raise InputError("--corpus compares ways by the price of GPU-time: --price must be greater than 0")
    silent = {name: one for name, one in corpus_inputs().items() if getattr(question, name, None) is None}
    given = {name: one for name in corpus_inputs() if (one := getattr(question, name, None)) is not None}
    inputs = {name: one for name, (one, _) in silent.items()} | given | {"corpus": question.corpus}
    market = load_tier_market()
    draws = sample(inputs | market.uncertain(), question.samples, question.seed)
    corpus = Corpus(draws["corpus"], draws["corpus_questions"], draws["corpus_passes"], draws["corpus_refresh"],
                    draws["finetuning_utilization"])  # fmt: skip
    ways = compare_corpus_ways(scenario, machine, corpus, draws, market)
    longest = scenario.model.max_context_tokens
    reading = [one for one in ways if one.name not in (TUNED, LORA)]
    return {
        "corpus": {
            **quantities({
                "tokens": (corpus.tokens, "tokens"), "questions_per_day": (corpus.questions_per_day, "1/day"),
                "passes": (corpus.passes, ""), "refresh_s": (corpus.refresh_s, "s"),
                "utilization_fraction": (corpus.utilization, ""),
            }),
            "lora_rank": LORA_RANK,
            "max_context_tokens": longest or None,
            "is_beyond_context": bool(longest and np.any(np.asarray(corpus.tokens) + scenario.held_tokens > longest)),
            "ways": [_way(one, corpus, reading) for one in ways],
            "assumed": [words for _, words in silent.values()],
        }
    }  # fmt: skip


def _way(one: Way, corpus: Corpus, reading: list[Way]) -> dict[str, Any]:
    """A way, and from how many requests a day it costs less than each way of reading."""
    return {
        "name": one.name,
        "place": one.place or None,
        **quantities({
            "batch": (one.batch, ""),
            "gpu_hours_per_day": (one.gpu_hours_per_day(corpus), "GPU-hours"),
            "usd_per_day": (one.usd_per_day(corpus), "USD"),
            "usd_per_request": (one.usd_per_request, "USD"),
            "gpu_hours_per_change": (one.change_gpu_s / HOUR_S, "GPU-hours"),
            "usd_per_change": (one.change_usd, "USD"),
        }),
        "pays_from_per_day": {
            other.name: _where_finite(one.pays_from(other, corpus)) for other in reading if other.name != one.name
        },
    }  # fmt: skip


def _where_finite(value: Num) -> Any:
    """Requests a day; null where some sample never pays."""
    return quantity(value, "1/day") if np.all(np.isfinite(value)) else None
