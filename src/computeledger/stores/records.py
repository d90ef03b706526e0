"""Records of a simulation as a file: CSV, NumPy archive or Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError, nearest, shown
from computeledger.questions.executors import needs_extra

SUFFIXES = (".csv", ".npz", ".parquet")

Columns = Mapping[str, NDArray[np.generic]]


def record_bytes(path: str, columns: Columns) -> bytes:
    """Records in the format that a file's name asks for."""
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        return _parquet(columns)
    if suffix == ".npz":
        stream = io.BytesIO()
        arrays: dict[str, Any] = {name: np.asarray(column) for name, column in columns.items()}
        np.savez_compressed(stream, **arrays)
        return stream.getvalue()
    if suffix == ".csv":
        return _csv(columns)
    raise InputError(f"--records {shown(path)}: {nearest(suffix, SUFFIXES)}; the name's ending says the format")


def _csv(columns: Columns) -> bytes:
    text = [",".join(columns)]
    lists = [np.asarray(column).tolist() for column in columns.values()]
    text += [",".join("" if value != value else repr(value) for value in row) for row in zip(*lists, strict=True)]  # noqa: PLR0124 (not a number)
    return ("\n".join(text) + "\n").encode()


def _parquet(columns: Columns) -> bytes:
    parquet = needs_extra("--records FILE.parquet", "pyarrow", "parquet") and import_module("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(
        import_module("pyarrow").table({name: np.asarray(one) for name, one in columns.items()}), stream
    )
    return stream.getvalue()
