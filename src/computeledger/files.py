"""User's files, opened here and nowhere else: regular files of bounded size, and none for a stranger's question."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from computeledger.errors import InputError, shown
from computeledger.units import MIB

#: Most bytes of a file that is read whole (a configuration, a plan, a price sheet): a thousand times the largest known.
MOST_BYTES = int(64 * MIB)

_allowed: ContextVar[bool] = ContextVar("user_files_allowed", default=True)


@contextlib.contextmanager
def without_user_files() -> Iterator[None]:
    """Open no user's file inside a ``with`` block: for questions whose words come from a stranger.

    Under it :func:`user_files_allowed` is false, so that a text is never taken for a path, and :func:`open_user_file`
    refuses whatever reaches it all the same.

    Yields
    ------
    None
        For the block.

    Examples
    --------
    >>> with without_user_files(), open_user_file(Path("pyproject.toml")) as stream:
    ...     stream.read()
    Traceback (most recent call last):
    computeledger.errors.InputError: pyproject.toml: files cannot be named here; give an id or a number
    """
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def user_files_allowed() -> bool:
    """Whether a text may be taken for the path of a file.

    Returns
    -------
    bool
        False inside :func:`without_user_files`.

    Examples
    --------
    >>> with without_user_files():
    ...     user_files_allowed()
    False
    """
    return _allowed.get()


@contextlib.contextmanager
def open_user_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that a user named, if it is a regular file.

    A device, a pipe or a socket never ends or never begins, so it is refused before anything is read.

    Parameters
    ----------
    path : Path
        As the user gave it.

    Yields
    ------
    BinaryIO
        At its beginning.

    Raises
    ------
    InputError
        A file that does not exist, is no regular file, or cannot be read; any file inside :func:`without_user_files`.

    Examples
    --------
    >>> with open_user_file(Path("/dev/zero")) as stream:
    ...     stream.read()
    Traceback (most recent call last):
    computeledger.errors.InputError: /dev/zero: not a regular file
    """
    name = str(path)
    if not _allowed.get():
        raise InputError(f"{name}: files cannot be named here; give an id or a number")
    try:
        # without O_NONBLOCK the opening of a pipe waits for whoever writes to it
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: {(error.strerror or 'cannot be read').lower()}") from None
    except ValueError:
        raise InputError(f"{shown(name)}: not a file name") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise InputError(f"{name}: {'is a folder, a file is needed' if stat.S_ISDIR(mode) else 'not a regular file'}")
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


def read_user_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Read a user's file whole.

    Parameters
    ----------
    path : Path
        As the user gave it.
    most_bytes : int
        Size beyond which it is refused [byte].

    Returns
    -------
    str
        UTF-8, without a byte order mark.

    Raises
    ------
    InputError
        What :func:`open_user_file` refuses, a file that is too large, or bytes that are not UTF-8.

    Examples
    --------
    >>> read_user_text(Path("missing.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.toml: no such file
    """
    with open_user_file(path) as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise InputError(f"{path}: larger than {most_bytes / MIB:.0f} MiB, the most that is read of such a file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None
