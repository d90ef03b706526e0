"""A promise over conversations: what the closed form searches, and what caches find on the fleet that was sized."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.fields import MOST_COUNT
from computeledger.questions.answers.serving.cache_tiers import host_caches_document
from computeledger.questions.answers.serving.finalists import fitting_fleet, one_unit, prices_of, promised_load
from computeledger.questions.answers.serving.promise import KeptPromise
from computeledger.questions.answers.serving.setting import Setting, read_setting
from computeledger.simulation.serving.conversations import DrawnConversations, expected_hits
from computeledger.simulation.serving.promise import PromisedLoad, with_replicas
from computeledger.workloads.questions.conversations import on_their_own
from computeledger.workloads.questions.serve import TWO_POOLS, ServeQuestion
from computeledger.workloads.serving.conversations import CacheHits, CacheLoad, cache_hits


def conversations_asked(setting: Setting) -> DrawnConversations:
    """The turns of a question, and how they hang together."""
    load = promised_load(setting, 0.0).load
    if not isinstance(load, DrawnConversations):
        raise InputError("--turns: this load has none")
    return load


def of_mean_turn(question: ServeQuestion, load: DrawnConversations, cached_tokens: float) -> ServeQuestion:
    """The same question of requests on their own, each as the mean turn, of which so much is found in a cache."""
    sample = load.sample()
    prompt, output = float(np.mean(sample.input_tokens)), float(np.mean(sample.output_tokens))
    lengths: dict[str, Any] = {
        "input_tokens": prompt - cached_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": output,
    }
    return replace(question, **on_their_own(), **lengths)


def found_without_end(question: ServeQuestion, load: DrawnConversations) -> float:
    """Tokens of the mean turn that a cache without end has: no layout finds more [token]."""
    if question.no_prefix_cache:
        return 0.0
    endless = CacheLoad(load.requests_per_s, 1, math.inf, 0.0, is_split=question.modes == (TWO_POOLS,))
    return float(np.mean(cache_hits(load.sample(), endless).by_turn))


def settings_of_turns(question: ServeQuestion, load: DrawnConversations) -> tuple[Setting, Setting]:
    """What is searched in closed form, at the most that any cache finds; and what is simulated, turn by turn."""
    searched = read_setting(of_mean_turn(question, load, found_without_end(question, load)))
    return searched, replace(read_setting(of_mean_turn(question, load, 0.0)), question=question)


def derived_hits(kept: KeptPromise) -> CacheHits:
    """What the closed form says that turns find on the fleet that was sized."""
    fleet, load = with_replicas(kept.chosen.unit.clock, kept.median.counts), kept.asked.load
    if not isinstance(load, DrawnConversations):
        raise InputError("--turns: this load has none")
    return expected_hits(fleet, load, load.requests_per_s)


def simulated_hits(kept: KeptPromise) -> float:
    """Tokens of the mean turn that are found on the fleet that was sized [token]."""
    return sum(kept.median.steady.result.hits.values()) * derived_hits(kept).prompt_tokens


def setting_at_hits(kept: KeptPromise, load: DrawnConversations) -> Setting:
    """The mean turn and what it finds on the fleet that was sized, on the chosen layouts."""
    layouts, question = kept.chosen.layouts, kept.chosen.setting.question
    cached = min(simulated_hits(kept), found_without_end(question, load))
    reading = str(layouts[0]) if len(layouts) > 1 else None
    asked = of_mean_turn(question, load, cached)
    return read_setting(replace(asked, layout=str(layouts[-1]), prefill_layout=reading))


def talks_document(kept: KeptPromise) -> dict[str, Any]:
    """Conversations of a kept promise: hits by tier, derived and simulated, and GPUs of the same layout without them.

    None where requests are on their own.
    """
    load, tiers = kept.asked.load, kept.chosen.unit.clock.tiers
    if not isinstance(load, DrawnConversations):
        return {}
    hits = derived_hits(kept)
    names, setting = ("hbm", *(one.name for one in tiers)), kept.chosen.setting
    system = (setting.reading or setting).system if len(kept.chosen.layouts) > 1 else setting.system
    return host_caches_document(setting.question, kept.chosen.layouts[0], system) | {
        "conversations": {
            "per_s": load.requests_per_s / load.mean_turns,
            "turns": load.mean_turns,
            "prompt_tokens": hits.prompt_tokens,
            "expected_hit_fraction": dict(zip(names, hits.fractions, strict=True)),
            "hit_fraction": kept.median.steady.result.hits,
            "hold_s": {name: one if math.isfinite(one) else None for name, one in zip(names, hits.hold_s, strict=True)},
            "routing": kept.chosen.unit.clock.routing,
            "gpus_without_cache": _gpus_without(kept),
        }
    }


def _gpus_without(kept: KeptPromise) -> int | None:
    """GPUs of the chosen layout that keep the promise where every prompt is read in full; none where none do."""
    chosen, asked = kept.chosen, kept.asked
    question = replace(chosen.setting.question, no_prefix_cache=True, host_cache=None, ssd_cache=None)
    bare = replace(chosen.setting, question=question)
    load = PromisedLoad(asked.load, asked.promises, asked.seed)
    unit = one_unit(bare, chosen.option, chosen.max_batch, load)
    prices = prices_of(bare, chosen.layouts)
    found = fitting_fleet(unit, chosen.option, load, (prices, float(MOST_COUNT)), kept.median.counts)
    return None if found is None else chosen.gpus_of(found.counts)
