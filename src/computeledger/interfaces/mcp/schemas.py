"""Tables that stand in an argument: short in the tools that take them, whole as a resource that is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.mcp.wording import described_arguments

#: Address of a whole schema.
SCHEMAS = "computeledger://schemas/"
#: Tables of a plan that few write: no list of tools names their keys.
_SELDOM = ("efficiency",)
_VALUES = "Values are texts with their unit ('15T tokens', '$2/h', '30ms') or ranges ('10M..100M'); counts are numbers."


def whole(name: str) -> dict[str, Any]:
    """Schema of the tables of an argument, with every key described.

    Examples
    --------
    >>> sorted(whole("offers")["properties"]), whole("task")["properties"]["model"]["type"]
    (['offer', 'promise', 'workload'], 'array')
    """
    return described_arguments({"plan": _plan, "offers": _offers, "task": _task}[name]())


def short(name: str) -> dict[str, Any]:
    """The same tables with the names of their keys alone, for the list of tools.

    Examples
    --------
    >>> short("plan")["properties"]["rl"]["description"][:33]
    'Keys: model, system, gpus, layout'
    """
    full = whole(name)
    said = f"{full.get('description', '')} {_VALUES} Each key described: resource {SCHEMAS}{name}.".strip()
    properties = {key: _short(key, one) for key, one in full["properties"].items()}
    return {**{key: one for key, one in full.items() if key[0] != "$"}, "description": said, "properties": properties}


def _short(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    """A table without its keys' schemas; what is no table stays, without examples."""
    table = one.get("items", one)
    if "properties" not in table:
        return {key: part for key, part in one.items() if key not in ("examples", "minimum", "maximum")}
    if name in _SELDOM:
        return {"type": one["type"], "description": "Factors of the model, in place of the calibrated ones."}
    keys = [key for key, part in table["properties"].items() if not part.get("deprecated")]
    return {"type": one["type"], "description": table.get("description") or f"Keys: {', '.join(keys)}."}


def _plan() -> dict[str, Any]:
    from computeledger.economics.plan.keys import json_schema

    of_phase = "pretraining, rl and inference are a table each, or {'skip': 'why there is none'}."
    return {**json_schema(), "description": f"A model's life. {of_phase}"}


def _offers() -> dict[str, Any]:
    from computeledger.fields import described, fields_of
    from computeledger.questions.answers.serving.offers import offer_fields
    from computeledger.questions.compare import OfferTerms

    served = offer_fields()
    limits = {key: one for key, one in served.items() if one.takes_quantile}
    load = {key: one for key, one in served.items() if not one.takes_quantile}
    terms = fields_of(OfferTerms)
    each = {**described(served), **described(terms)}
    said = f"Keys: those of workload and promise, {', '.join(terms)}."
    return {
        "type": "object",
        "description": "Offers for one load: what all share in workload, limits in promise, an offer each in offer.",
        "additionalProperties": False,
        "required": ["offer"],
        "properties": {
            "workload": _table(described(load)),
            "promise": _table(described(limits)),
            "offer": {"type": "array", "minItems": 1, "items": {**_table(each), "description": said}},
        },
    }


def _task() -> dict[str, Any]:
    from computeledger.economics.routing.task import FALLBACK_KEYS, MODEL_KEYS, TASK_KEYS, VERIFIER_KEYS

    return {
        "type": "object",
        "description": "Models that may do a task, the check of their answers (verifier), and who does what fails "
        "(fallback); a chance is a share, or [successes, tries].",
        "additionalProperties": False,
        "required": ["model"],
        "properties": {
            "model": {"type": "array", "minItems": 1, "items": _said("model", MODEL_KEYS)},
            "task": _said("task", TASK_KEYS),
            "verifier": _said("verifier", VERIFIER_KEYS),
            "fallback": _said("fallback", FALLBACK_KEYS),
            "difficulty": {"type": "object", "description": "Share of the tasks of each difficulty, by its name."},
        },
    }


#: What each key of a route's tables is, with the unit of a number.
_OF_A_TASK = {
    "model": {
        "name": "What it is called.",
        "success": "Chance that an attempt completes a task: a share, [successes, attempts], or one per difficulty.",
        "input_tokens": "Tokens of an attempt's prompts, cached ones included.",
        "cached_tokens": "Of them, those that a cache holds.",
        "output_tokens": "Tokens that an attempt writes.",
        "price": "USD per Mtok as {input, output, cached_read}, or provider/model of a price sheet.",
        "usd_per_attempt": "Cost of an attempt [USD], in place of tokens and price.",
        "seconds": "Time of an attempt [s].",
        "retry_correlation": "How alike tries of one task are, 0 to 1; 0.5..0.85 where it is not stated.",
        "retry_odds_ratio": "Odds of a later try that sees why the last one failed, over those of one that does not.",
        "failed_cost_ratio": "Cost of an attempt that fails over that of one that succeeds.",
        "tool_failure": "Share of attempts that a broken tool ends.",
        "patch_tokens": "Tokens of a patch, billed as prompt beside input_tokens.",
        "source": "Key of the source that these figures are from, then the place in it: KEY, place.",
    },
    "task": {
        "title": "What the task is.",
        "model_correlation": "How alike models fail on the same tasks, 0 to 1.",
        "latency_usd_per_hour": "What an hour of waiting costs [USD].",
        "min_success": "Least share of the tasks to complete.",
        "failure_usd": "What a task costs besides that is not completed [USD].",
        "max_tries": "Most tries of one model, up to 8.",
        "max_depth": "Most models after one another, up to 4.",
    },
    "verifier": {
        "usd": "Cost of a check [USD].",
        "seconds": "Time of a check [s].",
        "false_accept": "Share of wrong answers that pass.",
        "false_reject": "Share of right answers that do not.",
    },
    "fallback": {
        "usd": "Cost of a task that a person takes over [USD].",
        "seconds": "Time of it [s].",
        "success": "Chance that the person completes it.",
    },
}


def _said(table: str, keys: tuple[str, ...]) -> dict[str, Any]:
    return _table({key: _text(_OF_A_TASK[table][key]) for key in keys})


def _text(said: str) -> dict[str, Any]:
    return {"description": said}


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties)}
