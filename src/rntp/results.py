"""Results of a study, as its file keeps them; read without what training needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from computeledger.errors import InputError
from computeledger.files import read_json

#: Version of the file: of a study, of what is carried over to other texts, and of a search of shares.
SCHEMA, TRANSFER_SCHEMA, MIXTURE_SCHEMA = "rntp-study/1", "rntp-transfer/1", "rntp-mixture/1"


def read_results(path: Path, schema: str = SCHEMA) -> dict[str, Any]:
    """Read what a study found.

    Examples
    --------
    >>> read_results(Path("pyproject.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: pyproject.toml:1: not valid JSON: Expecting value; ...
    """
    try:
        found = read_json(path)
    except InputError as error:
        raise InputError(f"{error}; the results of a study are needed") from None
    if not isinstance(found, Mapping) or found.get("schema") != schema:
        raise InputError(f"{path}: no results of a study")
    return dict(found)
