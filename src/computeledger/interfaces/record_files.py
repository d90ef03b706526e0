"""Records of a simulation as a file: CSV, NumPy archive or Parquet.

Parquet is written here in its simplest form (plain encoding, no compression, one page per column and row group), which
every reader understands; it needs no further package.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError, nearest, shown

SUFFIXES = (".csv", ".npz", ".parquet")
#: Rows of a row group.
GROUP_ROWS = 1_000_000

Columns = Mapping[str, NDArray[np.generic]]


def record_bytes(path: str, columns: Columns) -> bytes:
    """Records in the format that a file's name asks for."""
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        return parquet(columns)
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


_INT32, _INT64, _DOUBLE = 1, 2, 5
_I32, _I64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12


def parquet(columns: Columns) -> bytes:
    """A Parquet file of whole and real numbers, none missing."""
    plain = {name: _plain(np.asarray(column)) for name, column in columns.items()}
    n = len(next(iter(plain.values()))[1]) if plain else 0
    out = bytearray(b"PAR1")
    groups = []
    for start in range(0, n, GROUP_ROWS):
        chunks = []
        for name, (kind, values) in plain.items():
            chunks.append(_chunk(out, name, kind, values[start : start + GROUP_ROWS]))
        rows = min(GROUP_ROWS, n - start)
        size = sum(chunk[1] for chunk in chunks)
        groups.append(_struct([(1, _LIST, _list(_STRUCT, [chunk[0] for chunk in chunks])), (2, _I64, _int(size)),
                               (3, _I64, _int(rows))]))  # fmt: skip
    schema = [_struct([(4, _TEXT, _text("records")), (5, _I32, _int(len(plain)))])]
    schema += [
        _struct([(1, _I32, _int(kind)), (3, _I32, _int(0)), (4, _TEXT, _text(name))])
        for name, (kind, _) in plain.items()
    ]
    footer = _struct([
        (1, _I32, _int(1)), (2, _LIST, _list(_STRUCT, schema)), (3, _I64, _int(n)),
        (4, _LIST, _list(_STRUCT, groups)), (6, _TEXT, _text("computeledger")),
    ])  # fmt: skip
    return bytes(out) + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _plain(column: NDArray[np.generic]) -> tuple[int, NDArray[np.generic]]:
    """A column as one of the format's own types."""
    if column.dtype.kind in "iub":
        return _INT64, column.astype("<i8")
    return _DOUBLE, column.astype("<f8")


def _chunk(out: bytearray, name: str, kind: int, values: NDArray[np.generic]) -> tuple[bytes, int]:
    """Append a column's page; what the footer says about it, and its size."""
    data = values.tobytes()
    page = _struct([(1, _I32, _int(len(values))), (2, _I32, _int(0)), (3, _I32, _int(3)), (4, _I32, _int(3))])
    header = _struct([(1, _I32, _int(0)), (2, _I32, _int(len(data))), (3, _I32, _int(len(data))), (5, _STRUCT, page)])
    place, size = len(out), len(header) + len(data)
    out += header + data
    about = _struct([
        (1, _I32, _int(kind)), (2, _LIST, _list(_I32, [_int(0)])), (3, _LIST, _list(_TEXT, [_text(name)])),
        (4, _I32, _int(0)), (5, _I64, _int(len(values))), (6, _I64, _int(size)), (7, _I64, _int(size)),
        (9, _I64, _int(place)),
    ])  # fmt: skip
    return _struct([(2, _I64, _int(place)), (3, _STRUCT, about)]), size


def _varint(value: int) -> bytes:
    """Seven bits at a time, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(value: int) -> bytes:
    """A whole number of the compact protocol, its sign in the lowest bit."""
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _text(value: str) -> bytes:
    data = value.encode()
    return _varint(len(data)) + data


def _list(kind: int, items: list[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _struct(fields: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Fields by rising number, each with the step from the one before."""
    out, last = bytearray(), 0
    for number, kind, data in fields:
        out += bytes([(number - last) << 4 | kind]) + data
        last = number
    return bytes(out) + b"\0"
