"""What notes and facts of an RL answer say: the framework's share, parity with pretraining, what a budget takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import point, with_interval_words
from computeledger.units import PETA, format_si

#: Fields that a framework settles, in words.
_TAKEN = {
    "backend": "engine", "max_lag": "lag", "logprob_passes": "log-prob passes", "sharding": "sharding",
    "recompute": "recompute", "microbatch_sequences": "rollouts a microbatch", "packing": "packing",
    "memory_fraction": "share of memory for generation", "lora_sync": "LoRA sync",
    "live_limit": "rollouts at once on a replica",
}  # fmt: skip


def framework_words(one: Mapping[str, Any]) -> str:
    """What the framework decided, and what of it was not read at its source."""
    taken = [f"{_TAKEN[name]} {value:g}" if not isinstance(value, str) else f"{_TAKEN[name]} {value}"
             for name, value in one["taken"].items()]  # fmt: skip
    if one["weight_sync_taken"]:
        taken.append(f"weight sync: {one['weight_sync_name']}")
    said = f"framework: {one['name']}" + (f"; from it {', '.join(taken)}" if taken else "")
    effect = one["step_ratio"]
    said += f"; its measured steps take x {effect:.2g}" if effect != 1 else ""
    return said + (f"; not read at its source: {', '.join(one['unverified'])}" if one["unverified"] else "")


def parity_words(one: Mapping[str, Any]) -> str:
    """What RL performs in the GPU-time of pretraining, and what the prices of tokens would suggest."""
    names = ("pretraining_flop", "rl_flop", "rl_flop_by_price_ratio")
    whole, here, priced = (format_si(point(one[name]), "FLOP") for name in names)
    ratio = f"{one['price_ratio']:.3g}-fold"
    return (
        f"in that of a pretraining run of {whole} RL performs {here}; the {ratio} price of output over input tokens "
        f"would suggest {priced}"
    )


def demand_words(demand: Mapping[str, Any], visits: float) -> str:
    """What a budget of FLOP asks for: tasks, each of them used so many times, or positions of a text."""
    flop = re.sub(r"\.?0+(?=e\d)", "", format_si(point(demand["flop"]), "FLOP"))
    return f"for scale, {flop} of such RL would take {_asked_for(demand, visits)}"


def _asked_for(demand: Mapping[str, Any], visits: float) -> str:
    """GPU-time, money, tokens and tasks; of RL on text its positions, and the share of all that is public."""
    steps, tasks = (format_si(point(demand[name]), "", 2) for name in ("steps", "tasks"))
    sampled = point(demand["tokens"])
    tokens = f"{sampled:.1e}".replace("e+", "e") if sampled >= PETA else format_si(sampled, "", 2)
    units = (("gpu_hours", "GPU-hours"), ("days", "days"), ("usd", "USD"))
    hours, days, cost = (with_interval_words(demand[key], unit) for key, unit in units)
    if "places" not in demand:
        return f"{hours} and {cost}: {tokens} sampled tokens, {tasks} verifiable tasks if each is used {visits:g} times"
    positions, text = (format_si(point(demand[name]), "", 2) for name in ("places", "text_tokens"))
    share = with_interval_words(demand["passes_over_the_stock"], "fraction")
    return (
        f"{tokens} tokens sampled in {steps} steps, at {positions} positions of a text; that is {text} tokens of text, "
        f"{share} of all that is public, and {hours}, {days} on these GPUs, {cost}"
    )
