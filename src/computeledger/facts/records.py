"""What all loaders share: a user's file that builds on a shipped record, its labels, and ids that exist once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from computeledger.errors import UnknownIdError
from computeledger.facts.reading import Document, Reader, read_record

_R = TypeVar("_R")


def base_record(document: Document, load: Callable[[str], Any]) -> Any:
    """Load the shipped record that a user's file builds on."""
    like = None if document.shipped else document.table.get("like")
    if like is None:
        return None
    if not isinstance(like, str):
        raise document.error("like", f"{like!r} is not an id")
    try:
        return load(like)
    except UnknownIdError as error:
        raise document.error("like", str(error), UnknownIdError) from None


def record_values(
    document: Document, schema: type[Any], base: Any, labels: tuple[str, ...], readers: dict[str, Reader] | None = None
) -> dict[str, Any]:
    """Read a record; a user's file need not carry labels, and none that a shipped record supplies but its id.

    What people call the shipped record is not what they call a user's own.
    """
    names = () if document.shipped else labels[:1] if base is not None else labels
    stem = Path(document.name).stem
    defaults = {name: stem if name in ("id", "name") else "user's own" for name in names}
    if base is not None and any(one.name == "short_name" for one in fields(schema)):
        defaults["short_name"] = stem
    return read_record(document, schema, readers, defaults, partial=base is not None)


def check_id(document: Document, given: object) -> None:
    """Refuse a shipped id that is not its file's name, so that an id exists once."""
    stem = document.name.removesuffix(".toml")
    if not isinstance(given, str):
        raise document.error("id", f"{given!r} is not a text")
    if document.shipped and given.replace("/", "--", 1) != stem:
        raise document.error("id", f"{given!r} must be the file's own name, so that an id exists once")


def built(document: Document, schema: type[_R], base: Any, values: dict[str, Any]) -> _R:
    """The record: the shipped one that it builds on with values laid over it, or one of values alone."""
    check_id(document, values["id"])
    return schema(**({} if base is None else {one.name: getattr(base, one.name) for one in fields(base)}) | values)
