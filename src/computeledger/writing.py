"""Files written whole or not at all, and never over the file that was read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from computeledger.errors import InputError, shown


def write_file(path: str, text: str, read_from: str | None = None) -> None:
    """Write a whole text or nothing, and never over the file that was read."""
    write_bytes(path, text.encode("utf-8"), "--html", read_from)


def write_bytes(path: str, data: bytes, option: str, read_from: str | None = None) -> None:
    """Write a whole file or nothing, and never over the file that was read."""
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


def _check_target(path: str, target: Path, read_from: str | None) -> None:
    if not target.parent.is_dir():
        raise InputError(f"{path}: the folder {shown(str(target.parent))} does not exist")
    if target.is_dir():
        raise InputError(f"{path}: is a folder, a file name is needed")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is no regular file and is left as it is")
    if read_from is not None and target.exists() and target.samefile(read_from):
        raise InputError(f"{path}: is the file that was read; the report needs one of its own")
