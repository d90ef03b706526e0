"""What others published about the subjects of claims."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

from computeledger.arrays import Range
from computeledger.facts.reading import Document, dimension_of, read_file, read_provenance
from computeledger.facts.schema import Fact
from computeledger.units import parse_quantity


@functools.cache
def load_observations() -> Mapping[str, Fact]:
    """Load what others published about the subjects of claims.

    Examples
    --------
    >>> load_observations()["grok_3_flop"].given
    '3.5e+26 FLOP'
    """
    document = read_file(resources.files("computeledger.validation.claims").joinpath("observations.toml"), shipped=True)
    return {name: _observation(document, name, dict(table)) for name, table in document.table.items()}


def _observation(document: Document, name: str, table: dict[str, Any]) -> Fact:
    """As facts are read; a ratio is a count of the other."""
    dimension = "count" if name.endswith("_ratio") else dimension_of(name)
    numbers = {key: table.pop(key) for key in ("value", "low", "high") if key in table}
    unit = table.pop("unit", None)
    note = table.get("note", "")
    origin = read_provenance(document, name, table)
    if "value" not in numbers or unit is None or ("low" in numbers) != ("high" in numbers):
        raise document.error(name, "an observation needs a value and a unit, and low with high")
    values: dict[str, float] = {}
    for key, number in numbers.items():
        parsed = parse_quantity(f"{number!r} {unit}".strip(), dimension)
        if isinstance(parsed, Range):
            raise document.error(name, f"{key} = {number!r} is a range")
        values[key] = parsed
    return Fact(
        value=values["value"], unit=dimension, given=f"{numbers['value']} {unit}".strip(), note=note,
        source=origin["source"], date=origin["date"], locator=origin["locator"],
        low=values.get("low"), high=values.get("high"),
    )  # fmt: skip
