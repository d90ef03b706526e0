"""Checkpoints that are whole or do not count: a mark with the size of every file is written last.

A kill at any moment leaves either a marked folder or one that the next run removes. Old ones go after the new one is
marked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from computeledger.errors import InputError, shown
from computeledger.files import read_json

#: File that makes a checkpoint count.
MARK = "complete.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def mark_complete(folder: Path) -> None:
    """Say that a checkpoint is whole, after all its files are on the disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     mark_complete(Path(name))
    ...     is_complete(Path(name))
    True
    """
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MARK:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    written = folder / f"{MARK}.new"
    with written.open("w", encoding="utf-8") as file:
        json.dump({"files": sizes}, file)
        file.flush()
        os.fsync(file.fileno())
    written.replace(folder / MARK)


def is_complete(folder: Path) -> bool:
    """Tell whether a checkpoint has its mark, and every file that the mark names at its size.

    Examples
    --------
    >>> is_complete(Path("nowhere"))
    False
    """
    try:
        sizes = read_json(folder / MARK)["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def checkpoints(output: Path) -> list[Path]:
    """List the complete checkpoints of a run.

    Examples
    --------
    >>> checkpoints(Path("nowhere"))
    []
    """
    return [folder for folder in _all(output) if is_complete(folder)]


def _all(output: Path) -> list[Path]:
    found = [(int(name[1]), path) for path in output.glob("checkpoint-*") if (name := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def last_checkpoint(output: Path) -> Path | None:
    """Find the last complete checkpoint of a run.

    Examples
    --------
    >>> last_checkpoint(Path("nowhere")) is None
    True
    """
    return next(reversed(checkpoints(output)), None)


def clear(output: Path, keep: int = 0) -> None:
    """Remove checkpoints that are not complete, and all but the last of those that are.

    Examples
    --------
    >>> clear(Path("nowhere"))
    """
    if keep < 0:
        raise InputError(f"checkpoints to keep {shown(keep)}: a number from 0 is needed")
    whole = checkpoints(output)
    old = whole[:-keep] if keep else []
    for folder in [*old, *(folder for folder in _all(output) if folder not in whole)]:
        # without its mark first: a removal that is cut short leaves nothing that counts
        (folder / MARK).unlink(missing_ok=True)
        shutil.rmtree(folder)
