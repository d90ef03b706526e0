"""Expressions of the claims: numbers, quantities, references to facts, and calls of the project's public formulas.

A formula is looked up by name in the modules of :data:`FORMULAS` at the moment of the call, so that a claim has no
arithmetic of its own beyond a product or a quotient, and the working that is shown is what was computed.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range
from computeledger.economics.scaling import laws as scaling
from computeledger.errors import FactError, QuantityError, unknown_id
from computeledger.facts.architecture import Model
from computeledger.facts.load import accelerator_ids, load_accelerator, load_model, load_system, system_ids
from computeledger.facts.reading import dimension_of
from computeledger.facts.schema import Fact
from computeledger.facts.traffic import chatgpt_usage
from computeledger.physics import transformer
from computeledger.physics.blackboard import context as blackboard_context
from computeledger.physics.blackboard import estimates as blackboard_estimates
from computeledger.physics.blackboard import ledgers as blackboard
from computeledger.physics.blackboard import network as blackboard_network
from computeledger.physics.blackboard import serving as blackboard_serving
from computeledger.physics.blackboard import training as blackboard_training
from computeledger.units import DIMENSIONS, parse_quantity
from computeledger.validation.claims import formulas as claims_formulas
from computeledger.validation.claims.observations import load_observations

#: Where a claim's formulas come from, searched in this order.
FORMULAS = (
    blackboard, blackboard_training, blackboard_serving, blackboard_context, blackboard_network, blackboard_estimates,
    scaling, claims_formulas,
)  # fmt: skip
#: Arguments that are names and not quantities.
_NAMES = ("law",)
_OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "product": ("x", operator.mul),
    "quotient": ("/", operator.truediv),
}
#: Bytes of a cached value where a claim does not say: bf16.
_KV_BYTES_PER_VALUE = 2.0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an expression came to."""

    value: Num
    written: str
    facts: Mapping[str, Fact]


def evaluate(expression: Any, argument: str = "") -> Evaluated:
    """Compute an expression.

    Examples
    --------
    >>> one = evaluate({"formula": "drain_s", "capacity_bytes": "@h100-sxm5-80gb:hbm_bytes", "bytes_per_s": "4 TB/s"})
    >>> one.value, one.written
    (0.02, 'drain_s(capacity_bytes = h100-sxm5-80gb:hbm_bytes, bytes_per_s = 4 TB/s)')
    """
    if isinstance(expression, bool) or not isinstance(expression, (int, float, str, list, Mapping)):
        raise FactError(f"{expression!r} is no expression")
    if isinstance(expression, (int, float)):
        return Evaluated(float(expression), f"{expression:g}", {})
    if isinstance(expression, str):
        return _text(expression, argument)
    if isinstance(expression, Mapping):
        return _call(expression) if "formula" in expression else _of_two(expression)
    parts = [evaluate(part, argument) for part in expression]
    if not parts:
        raise FactError("an empty list is no expression")
    value = np.concatenate([np.atleast_1d(np.asarray(part.value, float)) for part in parts])
    return Evaluated(value, f"[{', '.join(part.written for part in parts)}]", _merged(parts))


def _call(expression: Mapping[str, Any]) -> Evaluated:
    name = expression.get("formula")
    function = next((vars(module)[name] for module in FORMULAS if name in vars(module)), None)
    if not isinstance(name, str) or name.startswith("_") or not callable(function):
        raise FactError(f"formula {name!r} is none of the project's")
    given = {key: value for key, value in expression.items() if key != "formula"}
    names = {key: value for key, value in given.items() if key in _NAMES}
    parts = {key: evaluate(value, key) for key, value in given.items() if key not in _NAMES}
    written = ", ".join(f"{key} = {parts[key].written if key in parts else names[key]}" for key in given)
    arguments = {**names, **{key: part.value for key, part in parts.items()}}
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise FactError(f"formula {name}: {error}") from None
    number = np.asarray(function(**arguments), float)
    return Evaluated(float(number) if number.ndim == 0 else number, f"{name}({written})", _merged([*parts.values()]))


def _of_two(expression: Mapping[str, Any]) -> Evaluated:
    """A product or a quotient of two expressions."""
    ((name, pair),) = expression.items() if len(expression) == 1 else [("", ())]
    if name not in _OPERATORS or not isinstance(pair, list) or len(pair) != 2:
        raise FactError(f"{dict(expression)!r}: formula, product = [A, B] or quotient = [A, B] is needed")
    first, second = (evaluate(part) for part in pair)
    sign, operate = _OPERATORS[name]
    value = operate(np.asarray(first.value, float), np.asarray(second.value, float))
    written = f" {sign} ".join(
        f"({one.written})" if isinstance(part, Mapping) and "formula" not in part else one.written
        for part, one in zip(pair, (first, second), strict=True)
    )
    return Evaluated(float(value) if value.ndim == 0 else value, written, _merged([first, second]))


def _merged(parts: list[Evaluated]) -> dict[str, Fact]:
    return {reference: fact for part in parts for reference, fact in part.facts.items()}


def _text(text: str, argument: str) -> Evaluated:
    if text.startswith("@"):
        return _reference(text[1:])
    value = _quantity(text, argument)
    ends = np.array([value.low, value.high]) if isinstance(value, Range) else value
    return Evaluated(ends, text, {})


def _quantity(text: str, argument: str) -> float | Range:
    """A quantity in the unit that the argument's name ends in, else in the only one that its spelling allows.

    ``100B`` is refused where the name says nothing, as it may be parameters or bytes.
    """
    found: list[float | Range] = []
    for dimension in _dimensions(argument):
        try:
            found.append(parse_quantity(text, dimension))
        except QuantityError:
            continue
    if not found:
        raise FactError(f"{text!r} is no quantity" + (f" for {argument}" if argument else ""))
    if any(other != found[0] for other in found):
        raise FactError(f"{text!r} can be read in several ways: write its unit")
    return found[0]


def _dimensions(argument: str) -> list[str]:
    try:
        return [dimension_of(argument)]
    except FactError:
        return list(DIMENSIONS)


def _reference(reference: str) -> Evaluated:
    record, colon, field = reference.partition(":")
    if not colon:
        raise FactError(f"reference {reference!r} must read ID:FIELD")
    if record == "observed":
        found: Any = _of_mapping(load_observations(), field, reference)
    elif record == "chatgpt":
        found = getattr(chatgpt_usage(), field, None)
    elif record in accelerator_ids() or record in system_ids():
        load = load_accelerator if record in accelerator_ids() else load_system
        name, _, key = field.partition(".")
        found = getattr(load(record), name, None)
        found = _of_mapping(found, key, reference) if key and isinstance(found, Mapping) else found
    else:
        found = _of_model(load_model(record), field, reference)
    if isinstance(found, Fact):
        return Evaluated(found.value, reference, {reference: found})
    if not isinstance(found, float):
        raise FactError(f"reference {reference!r} names no number")
    return Evaluated(found, reference, {})


def _of_mapping(facts: Mapping[str, Fact], key: str, reference: str) -> Fact:
    if key not in facts:
        raise FactError(f"reference {reference!r}: {unknown_id('field', key, facts)}")
    return facts[key]


def _of_model(model: Model, field: str, reference: str) -> Fact | float:
    """A published figure of a model, or one that its configuration says."""
    if field == "kv_bytes_per_token":
        return float(transformer.kv_bytes_per_token(model, _KV_BYTES_PER_VALUE))
    if field in ("n_experts", "n_experts_active"):
        return float(max(getattr(group.feed_forward, field) for group in model.layers))
    return _of_mapping(model.published, field, reference)
