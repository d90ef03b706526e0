"""Files written whole or not at all, and never over a file that was read; TOML as the project writes it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from computeledger.errors import InputError, shown


def write_file(path: str, text: str, read_from: Iterable[str] = ()) -> None:
    """Write a whole text or nothing, and never over a file that was read."""
    write_bytes(path, text.encode("utf-8"), "--html", read_from)


def write_report(path: str, text: str, read_from: Iterable[str] = ()) -> None:
    """Write a page of HTML, over another page at most: any other file that is there was made for something else."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm") and target.is_file():
        check_unread(path, read_from)
        with target.open("rb") as stream:
            start = stream.read(200).lstrip().lower()
        if start and not start.startswith((b"<!doctype html", b"<html")):
            raise InputError(f"--html {shown(path)}: is a file that is no HTML page; the report needs another name")
    write_file(path, text, read_from)


def write_bytes(path: str, data: bytes, option: str, read_from: Iterable[str] = ()) -> None:
    """Write a whole file or nothing, and never over a file that was read."""
    target = Path(path)
    if not path:
        raise InputError(f"{option}: a file name is missing")
    try:
        _check_target(path, target, read_from)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".computeledger-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be written ({(error.strerror or 'unknown reason').lower()})") from None


def _check_target(path: str, target: Path, read_from: Iterable[str]) -> None:
    if not target.parent.is_dir():
        raise InputError(f"{path}: the folder {shown(str(target.parent))} does not exist")
    if target.is_dir():
        raise InputError(f"{path}: is a folder, a file name is needed")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is no regular file and is left as it is")
    check_unread(path, read_from)


def check_unread(path: str, named: Iterable[str]) -> None:
    """Refuse to write over a file that is among those named; what names no file is passed over."""
    # os.path says no of a text that can be no path, where pathlib raises
    if any(os.path.exists(one) and os.path.exists(path) and os.path.samefile(one, path) for one in named):  # noqa: PTH110, PTH121
        raise InputError(f"{path}: is a file that was read; what is written needs one of its own")


def toml_text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for the deletion character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_row(name: str, entries: Mapping[str, str]) -> str:
    """An inline table on a line of its own; the entries are TOML already."""
    return f"{name} = {{ {', '.join(f'{key} = {value}' for key, value in entries.items())} }}"
