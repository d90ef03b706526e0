"""Facts out of TOML and JSON: a record of the schema, or one error that names the file and the field.

A shipped file that is malformed is our mistake (:class:`FactError`); a user's file is the user's
(:class:`InputError` and its children, which say file, line and field).
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from computeledger.arrays import Range
from computeledger.errors import (
    ComputeLedgerError,
    FactError,
    InputError,
    ModelConfigError,
    QuantityError,
    nearest,
    shown,
)
from computeledger.facts.schema import Fact
from computeledger.fields import without_brackets
from computeledger.files import MOST_BYTES, MOST_KEY_CHARACTERS, MOST_TOML_BYTES, parse_json, parse_toml, read_user_text
from computeledger.sources import check_date, load_sources
from computeledger.units import DIMENSIONS, parse_quantity

#: Source keys that name no publication: a choice with its reason, and a figure of the user's own file.
ASSUMPTION, USER = "assumption", "user"

#: Largest whole number of a file: counts and ids stay far below it.
LARGEST_INTEGER = 2**63 - 1

LARGEST_DIGITS = len(str(LARGEST_INTEGER))

_PROVENANCE = ("source", "date", "locator")
_REQUIRED = ("value", "unit", *_PROVENANCE)
_FACT_KEYS = (*_REQUIRED, "note", "low", "high")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file that can say where in it something went wrong."""

    name: str
    text: str
    table: dict[str, Any] = field(repr=False)
    shipped: bool
    is_object: bool = False

    def error(
        self, path: str, message: str, kind: type[InputError] = InputError, line: int | None = None
    ) -> ComputeLedgerError:
        """Build the error for a field, a FactError where the file is ours."""
        label = f"{path}: " if path else ""
        if self.shipped:
            return FactError(f"{self.name}: {label}{message}")
        if self.is_object:
            message = without_brackets(message)
        return kind(f"{self.place(line or self.line_of(path))}: {label}{message}")

    def place(self, line: int) -> str:
        """The file and a line of it; the name alone of tables that stand in no file.

        Examples
        --------
        >>> Document("a.toml", "", {}, False).place(1), Document("task", "", {}, False, is_object=True).place(1)
        ('a.toml:1', 'task')
        """
        return self.name if self.is_object else f"{self.name}:{line}"

    def line_of(self, path: str) -> int:
        """Line on which a dotted field is written."""
        for key in reversed(path.split(".")):
            if not 0 < len(key) <= MOST_KEY_CHARACTERS:
                continue
            found = re.search(rf"(?m)^[^#\n]*?(?<![\w-]){re.escape(key)}[\"']?\s*[=:.\]]", self.text)
            if found:
                return self.text.count("\n", 0, found.start()) + 1
        return 1


def parse_document(name: str, text: str, shipped: bool) -> Document:
    """Parse TOML, or JSON where the name says so."""
    blank = Document(name, text, {}, shipped)
    try:
        is_json = name.endswith(".json")
        table = parse_json(text, name, most_digits=LARGEST_DIGITS) if is_json else parse_toml(text, name)
    except InputError as error:
        raise (FactError if shipped else ModelConfigError if is_json else InputError)(str(error)) from None
    if not isinstance(table, dict):
        raise blank.error("", "expected an object of named fields", ModelConfigError, 1)
    return Document(name, text, table, shipped)


def read_file(path: Path | Traversable, shipped: bool = False) -> Document:
    """Read and parse one file."""
    if shipped:
        return parse_document(path.name, path.read_text("utf-8"), shipped)
    most_bytes = MOST_BYTES if path.name.endswith(".json") else MOST_TOML_BYTES
    return parse_document(str(path), read_user_text(Path(str(path)), most_bytes), shipped)


def dimension_in(path: str) -> str | None:
    """Dimension that a field's name ends in; None where it carries none."""
    for part in path.split("."):
        if part.startswith("n_"):
            return "count"
        name = f"_{part}_".replace("_gpu_hour_", "_hour_").replace("_gpu_year_", "_year_")
        found = [dimension for dimension in DIMENSIONS if f"_{dimension}_" in name]
        if found:
            return max(found, key=len)
    return None


def dimension_of(path: str) -> str:
    """Dimension that a field's name must end in."""
    found = dimension_in(path)
    if found is None:
        raise FactError(f"{path}: the name carries no unit")
    return found


def read_fact(document: Document, path: str, value: Any) -> Fact:
    """Build a fact from its table, or from a plain text in a user's file."""
    try:
        dimension = dimension_of(path)
    except FactError as error:
        raise document.error("", str(error), line=document.line_of(path)) from None
    if not isinstance(value, dict):
        if document.shipped:
            raise document.error(path, f"a fact is a table of {', '.join(_REQUIRED)}, not {shown(value)}")
        return _plain_fact(document, path, value, dimension)
    _check_keys(document, path, value, _FACT_KEYS, required=_REQUIRED if document.shipped else ("value", "unit"))
    provenance = _provenance(document, path, value)
    numbers = {key: _number(document, path, value, key) for key in ("value", "low", "high") if key in value}
    low, high = numbers.get("low"), numbers.get("high")
    if (low is None) != (high is None):
        raise document.error(path, "low and high belong together")
    if low is not None and high is not None and not (low <= numbers["value"] <= high and low < high):
        raise document.error(path, "low <= value <= high does not hold")
    return Fact(
        value=numbers["value"],
        unit=dimension,
        given=f"{value['value']} {value['unit']}".strip(),
        note=str(value.get("note", "")),
        low=low,
        high=high,
        **provenance,
    )


def _plain_fact(document: Document, path: str, value: Any, dimension: str) -> Fact:
    try:
        parsed = parse_quantity(value, dimension)
    except QuantityError as error:
        raise document.error(path, str(error), QuantityError) from None
    low, high = (parsed.low, parsed.high) if isinstance(parsed, Range) else (None, None)
    median = parsed.quantile(0.0) if isinstance(parsed, Range) else parsed
    return Fact(
        value=float(median),
        unit=dimension,
        given=str(value),
        source=USER,
        date=datetime.date.today().isoformat(),
        locator=document.name,
        low=low,
        high=high,
    )


def _number(document: Document, path: str, table: Mapping[str, Any], key: str) -> float:
    number, unit = table[key], table["unit"]
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise document.error(path, f"{key} = {shown(number)} is not a number", QuantityError)
    if not isinstance(unit, str):
        raise document.error(path, f"unit = {shown(unit)} is not a text", QuantityError)
    if isinstance(number, int) and abs(number) > LARGEST_INTEGER:
        raise document.error(path, f"{key} = {shown(number)} is too large", QuantityError)
    try:
        parsed = parse_quantity(f"{number!r} {unit}", dimension_of(path), signed="_correlation_" in path)
    except QuantityError as error:
        raise document.error(path, str(error), QuantityError) from None
    return float(parsed)  # type: ignore[arg-type]  # one number and one unit are no range


def _provenance(document: Document, path: str, table: Mapping[str, Any]) -> dict[str, str]:
    """Source, date and locator, checked; a user's file may leave them out."""
    if not document.shipped:
        defaults = {"source": USER, "date": datetime.date.today().isoformat(), "locator": document.name}
        table = {**defaults, **table}
    out = {key: table[key] for key in _PROVENANCE}
    if isinstance(out["date"], datetime.date):
        out["date"] = out["date"].isoformat()
    for key, text in out.items():
        if not isinstance(text, str) or not text.strip():
            raise document.error(path, f"{key} = {shown(text)} must be a text")
    try:
        check_date(out["date"], path)
    except FactError as error:
        raise document.error("", str(error), line=document.line_of(path)) from None
    _check_source(document, path, out["source"], str(table.get("note", "")))
    return out


def _check_source(document: Document, path: str, key: str, note: str) -> None:
    if key == USER and not document.shipped:
        return
    if key == ASSUMPTION:
        if not note:
            raise document.error(path, "an assumption needs its reason in the note")
        return
    sources = load_sources()
    if key not in sources:
        raise document.error(path, f"unknown source key {shown(key)}: {nearest(key, [*sources, ASSUMPTION])}")
    if not sources[key].verified and "unverified" not in note:
        raise document.error(path, f"source {key!r} was not read: the note must say unverified")


def read_provenance(document: Document, path: str, value: Any) -> dict[str, str]:
    """Read where something that is not a number comes from, such as a model's configuration."""
    if not isinstance(value, dict):
        raise document.error(path, f"expected a table of {', '.join(_PROVENANCE)}, not {shown(value)}")
    _check_keys(document, path, value, (*_PROVENANCE, "note"), required=_PROVENANCE if document.shipped else ())
    return _provenance(document, path, value)


def _check_keys(
    document: Document, path: str, table: Mapping[str, Any], allowed: tuple[str, ...], required: tuple[str, ...]
) -> None:
    missing = [key for key in required if key not in table]
    if missing:
        hint = "" if path or document.shipped else '; or name a shipped one that supplies them: like = "ID"'
        raise document.error(path, f"{', '.join(missing)} missing{hint}")
    for key in table:
        if key not in allowed:
            where = f"{path}.{key}" if path else key
            raise document.error(where, f"unknown field; {nearest(key, allowed)}")


def read_facts(document: Document, path: str, value: Any) -> dict[str, Fact]:
    """Read a table of facts, such as peaks by precision."""
    if not isinstance(value, dict):
        raise document.error(path, f"expected a table of facts, not {shown(value)}")
    return {key: read_fact(document, f"{path}.{key}", item) for key, item in value.items()}


Reader = Callable[[Document, str, Any], Any]


def read_record(
    document: Document,
    schema: type[Any],
    readers: Mapping[str, Reader] | None = None,
    defaults: Mapping[str, Any] | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """Read the fields of a schema class from a document."""
    by_annotation: dict[str, Reader] = {
        "str": _typed(str, "a text"), "int": _typed(int, "a whole number"), "bool": _typed(bool, "true or false"),
        "int | None": _typed(int, "a whole number"), "Fact": read_fact, "Fact | None": read_fact,
        "Mapping[str, Fact]": read_facts, "tuple[str, ...]": _texts,
    }  # fmt: skip
    by_name = readers or {}
    fields = {item.name: item for item in dataclasses.fields(schema)}
    required = () if partial else tuple(name for name, item in fields.items() if _is_required(item))
    table = {key: value for key, value in document.table.items() if key != "like" or document.shipped}
    table = {**(defaults or {}), **table}
    _check_keys(document, "", table, tuple(fields), required)
    return {
        name: (by_name.get(name) or by_annotation[str(fields[name].type)])(document, name, value)
        for name, value in table.items()
    }


def _texts(document: Document, path: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise document.error(path, f"{shown(value)} is not a list of texts")
    return tuple(value)


def _is_required(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _typed(kind: type, wanted: str) -> Reader:
    def read(document: Document, path: str, value: Any) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise document.error(path, f"{shown(value)} is not {wanted}")
        if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            raise document.error(path, f"{shown(value)} is too large")
        return value

    return read
