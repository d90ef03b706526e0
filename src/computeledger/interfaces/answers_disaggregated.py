"""From parsed options to an answer with prefill and decode apart: the call that the command line and the web share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.errors import InputError
from computeledger.interfaces import documents_serving
from computeledger.interfaces.answers_serving_parts import (
    add_asked_model,
    aim_of_the_search,
    layouts_to_search,
    speculation,
)
from computeledger.interfaces.answers_setting import whole_number
from computeledger.interfaces.launch_flags import launch_text
from computeledger.physics.efficiency import IDEAL, middle
from computeledger.physics.roofline import Machine
from computeledger.units import format_si
from computeledger.workloads.disaggregated import estimate_disaggregated
from computeledger.workloads.pool_search import PoolOption, pools_usd_per_mtok, search_pools
from computeledger.workloads.serving import ServingScenario
from computeledger.workloads.serving_search import SLOWEST_TPOT_S, layouts_that_fit, pareto_front, search_serving

#: Options that are built for one layout only.
_ONE_LAYOUT = ("batch", "layout", "requests_per_s", "working", "html", "kv_tiers")


@dataclass(frozen=True, slots=True)
class Asked:
    """A serving question, ready to be searched.

    Attributes
    ----------
    options : mapping
        As the command line parsed them.
    scenario, machine : ServingScenario and Machine
        With samples.
    middles, typical : ServingScenario and Machine
        With single numbers.
    price : mapping
        Where the price comes from.
    """

    options: Mapping[str, Any]
    scenario: ServingScenario
    machine: Machine
    middles: ServingScenario
    typical: Machine
    price: Mapping[str, Any]


def answer_disaggregated(asked: Asked) -> dict[str, Any]:
    """Answer ``computeledger serve --mode disaggregated``."""
    for name in _ONE_LAYOUT:
        if asked.options.get(name):
            raise InputError(f"--{name.replace('_', '-')} is not built for two pools: leave out --mode disaggregated")
    system = asked.typical.system
    gpus = whole_number("--gpus", asked.options["gpus"])
    layouts = layouts_to_search(asked.options, layouts_that_fit(asked.middles, asked.typical, gpus))
    at_hand = gpus or max(int(system.n_gpus_scale_up.value), 2 * min(int(one.n_gpus) for one in layouts))
    found = search_pools(asked.middles, layouts, asked.typical, at_hand)
    chosen = _choose(found, asked.options)
    pools = chosen.scenario(asked.scenario)
    result = estimate_disaggregated(pools, asked.machine)
    limit = estimate_disaggregated(pools, replace(asked.machine, efficiency=IDEAL))
    document: dict[str, Any] = {"system": system.id, "accelerator": system.accelerator.id}
    document |= documents_serving.pools_document(
        (result, pools_usd_per_mtok(result)), (limit, pools_usd_per_mtok(limit)), chosen, at_hand
    )
    document["winner"] = documents_serving.pool_option_document(chosen)
    document["pareto"] = [documents_serving.pool_option_document(one) for one in pareto_front(found)]
    document["n_options"] = len(found)
    document["aggregated"] = _aggregated(asked, layouts, chosen)
    document |= {"price": dict(asked.price), "assumptions": documents_serving.serving_assumptions()}
    limits = {name: middle(asked.options[name]) for name in ("tpot", "ttft") if asked.options[name] is not None}
    if limits:
        document["meets"] = documents_serving.meets_document(result, limits)
    add_asked_model(document, asked.options, asked.middles.model)
    document["remarks"] += documents_serving.wider_products(asked.scenario.precision, system)
    document["assumptions"] |= aim_of_the_search(asked.options, chosen.tpot_s)
    document |= speculation(asked.options)
    if asked.options.get("emit"):
        document["launch"] = {"engine": asked.options["emit"], "text": launch_text(asked.options["emit"], document)}
    return document


def _choose(found: list[PoolOption], options: Mapping[str, Any]) -> PoolOption:
    """The most throughput within the limits."""
    limits = {name: middle(options[name]) for name in ("tpot", "ttft") if options[name] is not None}
    for name, limit in limits.items():
        within = [one for one in found if getattr(one, f"{name}_s") <= limit]
        if not within:
            best = format_si(min(getattr(one, f"{name}_s") for one in found), "s")
            raise InputError(f"--{name} {format_si(limit, 's')}: no two pools are that fast; the best take {best}")
        found = within
    fast = [one for one in found if one.tpot_s <= limits.get("tpot", SLOWEST_TPOT_S)] or found
    return max(fast, key=lambda one: one.output_tokens_per_s_per_gpu)


def _aggregated(asked: Asked, layouts: list[Any], chosen: PoolOption) -> dict[str, Any] | None:
    """The best answer of one pool that is as fast per token."""
    found = search_serving(asked.middles, layouts, asked.typical)
    fast = [one for one in found if one.tpot_s <= chosen.tpot_s]
    if not fast:
        return None
    return documents_serving.option_document(max(fast, key=lambda one: one.output_tokens_per_s_per_gpu))
