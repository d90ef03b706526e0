"""Tables that stand in an argument: short in the tools that take them, whole as a resource that is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Address of a whole schema.
ADDRESS = "computeledger://schemas/"
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
    return {"plan": _plan, "offers": _offers, "task": _task}[name]()


def short(name: str) -> dict[str, Any]:
    """The same tables with the names of their keys alone, for the list of tools.

    Examples
    --------
    >>> short("plan")["properties"]["rl"]["description"][:33]
    'Keys: model, system, gpus, layout'
    """
    full = whole(name)
    said = f"{full.get('description', '')} {_VALUES} Each key described: resource {ADDRESS}{name}.".strip()
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
    each = {"name": _text("What it is called."), **described(served), **described(terms)}
    said = f"Keys: name, those of workload and promise, {', '.join(terms)}."
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

    of_model = {key: _text(said) for key, said in _OF_A_MODEL.items() if key in MODEL_KEYS}
    keys = {key: of_model.get(key, {}) for key in MODEL_KEYS}
    return {
        "type": "object",
        "description": "Models that may do a task, the check of their answers (verifier), and who does what fails "
        "(fallback); a chance is a share, or [successes, tries].",
        "additionalProperties": False,
        "required": ["model"],
        "properties": {
            "model": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": keys}},
            "task": _table({key: {} for key in TASK_KEYS}),
            "verifier": _table({key: {} for key in VERIFIER_KEYS}),
            "fallback": _table({key: {} for key in FALLBACK_KEYS}),
            "difficulty": {"type": "object", "description": "Share of the tasks of each difficulty, by its name."},
        },
    }


_OF_A_MODEL = {
    "name": "What it is called.", "success": "Chance that one attempt completes a task: a share, [successes, tries], "
    "or one for each difficulty.", "usd_per_attempt": "Cost of an attempt [USD]; or tokens with a price.",
    "price": "A price sheet: an id, or USD per Mtok by kind of token.", "seconds": "Time of an attempt [s].",
}  # fmt: skip


def _text(said: str) -> dict[str, Any]:
    return {"description": said}


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties)}
