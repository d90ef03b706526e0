"""The JSON document of a record: its fields in order, samples as quantiles with the unit that their name carries."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

import numpy as np

from computeledger.facts.architecture import Lora, Model
from computeledger.facts.reading import dimension_in
from computeledger.fields import Record
from computeledger.physics.adapters import adapter_params, trainable_fraction
from computeledger.physics.transformer import n_params_total
from computeledger.workloads.result import quantity

#: Units as documents print them, by the dimension that a name ends in; what is not here has none.
UNITS = {
    "s": "s",
    "tokens": "tokens",
    "tokens_per_s": "tokens/s",
    "requests_per_s": "1/s",
    "usd": "USD",
    "usd_per_hour": "USD/h",
    "usd_per_kwh": "USD/kWh",
    "usd_per_mtok": "USD/Mtok",
    "usd_per_w": "USD/W",
    "usd_per_year": "USD/year",
    "w": "W",
    "j": "J",
    "bytes": "bytes",
    "flop": "FLOP",
    "flop_per_s": "FLOP/s",
    "gpu_hours": "GPU-hours",
}
#: Metadata of a field that a document has only where it is not None.
WHERE_KNOWN = {"where_known": True}


def keyed(key: str) -> dict[str, str]:
    """Metadata of a field whose key in a document is no name of ours."""
    return {"key": key}


def unit_of(name: str) -> str:
    """Unit of a quantity, told from its name.

    Examples
    --------
    >>> unit_of("output_tokens_per_s_per_gpu"), unit_of("rl_over_pretraining_tokens_ratio"), unit_of("steps")
    ('tokens/s', '', '')
    """
    return "" if name.endswith(("_ratio", "_fraction")) else UNITS.get(dimension_in(name) or "", "")


def document(record: object, units: Mapping[str, str] | None = None, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """A frozen record as JSON has it; ``units`` names those that differ from what a field's name says.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Step:
    ...     step_s: np.ndarray
    ...     layout: str
    >>> document(Step(np.array([1.0, 3.0]), "tp8"))["step_s"]["unit"]
    's'
    """
    fields = [one for one in dataclasses.fields(cast(Record, record)) if one.name not in leave_out]
    return {
        one.metadata.get("key", one.name): _value(getattr(record, one.name), one.name, units or {})
        for one in fields
        if not (one.metadata.get("where_known") and getattr(record, one.name) is None)
    }


def picked(record: object, *names: str, units: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Some fields and properties of a record, as :func:`document` has them.

    Examples
    --------
    >>> from computeledger.physics.roofline import Operation
    >>> picked(Operation("gemm", flop=2e12, bytes=1e9), "bytes", "intensity_flop_per_byte")
    {'bytes': 1000000000.0, 'intensity_flop_per_byte': 2000.0}
    """
    given = units or {}
    return {name: _value(getattr(record, name), name, given) for name in names}


def _value(value: Any, name: str, units: Mapping[str, str]) -> Any:
    """A value of a record; the parts of a mapping or a list have the unit of the whole."""
    if dataclasses.is_dataclass(value):
        return document(value, units)
    if isinstance(value, Mapping):
        return {key: _value(part, name, units) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(part, name, units) for part in value]
    if isinstance(value, (float, Decimal, np.ndarray)):
        return quantity(float(value) if isinstance(value, Decimal) else value, units.get(name, unit_of(name)))
    return bool(value) if isinstance(value, np.bool_) else value


def lora_document(model: Model, lora: Lora) -> dict[str, Any]:
    """Adapters beside a frozen model, and how many parameters they train.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> lora_document(load_model("llama-3.1-8b"), Lora(16))["n_params_trained"]
    41943040.0
    """
    share = trainable_fraction(model, lora, n_params_total(model))
    return {
        "rank": lora.rank,
        "targets": lora.targets,
        "n_params_trained": adapter_params(model, lora),
        "trainable_fraction": share,
        "experts_frozen": model.is_moe,
    }
