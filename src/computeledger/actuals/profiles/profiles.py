"""Which of a run's files are profiles, and what they say of a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from computeledger.actuals.profiles import kineto, nsys
from computeledger.actuals.profiles.profile import StepProfile
from computeledger.files import open_user_file

#: Beginning of a file that is searched for marks [byte].
_PIECE_BYTES = 1_000_000


def split_profiles(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that are logs or ledgers, and files that are profiles: told by what is in them."""
    profiles = tuple(path for path in paths if _tool(path))
    return tuple(path for path in paths if path not in profiles), profiles


def read_profile(path: str, n_steps: int | None) -> StepProfile:
    """Read a profile of either tool.

    Examples
    --------
    >>> read_profile("nowhere.json", 1)
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.json: no such file
    """
    return nsys.read_summary(path, n_steps) if _tool(path) == nsys.TOOL else kineto.read_trace(path, n_steps)


def _tool(path: str) -> str:
    with open_user_file(Path(path)) as stream:
        piece = stream.read(_PIECE_BYTES)
    if piece[:2] == kineto.GZIPPED:
        piece = kineto.unpacked(piece, path, _PIECE_BYTES)
    if kineto.MARK.search(piece):
        return kineto.TOOL
    return nsys.TOOL if nsys.MARK.search(piece) else ""
