"""What the command ``ledger`` reads and writes; the Parquet form of a ledger."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from computeledger.actuals.run_ledger import SCHEMA, TOKEN_KINDS, Entry, Reading, read_ledger
from computeledger.actuals.run_summary import summary
from computeledger.errors import InputError, nearest, shown
from computeledger.files import MOST_ROWS, check_kept, open_user_file
from computeledger.questions.executors import needs_extra
from computeledger.writing import write_bytes
from rntp.cost import costs


def ledger_answer(path: Path, workload: str | None, run: str | None, parquet: str | None) -> dict[str, Any]:
    """Sum a ledger up, and write it as Parquet where asked."""
    reading = read_ledger(path) if path.suffix != ".parquet" else Reading(tuple(read_parquet(path)), ())
    runs = sorted({entry.run for entry in reading.entries})
    if not reading.entries:
        raise InputError(f"{shown(str(path))}: a ledger without entries; a run writes one line per phase of a step")
    if run is not None and run not in runs:
        raise InputError(f"--run {shown(run)}: {nearest(run, runs)}")
    entries = [entry for entry in reading.entries if run in (None, entry.run)]
    if parquet is not None:
        write_bytes(parquet, parquet_bytes(entries), "--parquet", [str(path)])
    damaged = [dataclasses.asdict(one) for one in reading.damaged]
    return {**summary(entries, workload), "entries": len(entries), "damaged_lines": damaged}


def costs_answer(folders: Sequence[Path], place: str | None, beside: Sequence[str]) -> dict[str, Any]:
    """Set runs beside their predictions; ``beside`` names options that belong to one ledger."""
    if beside:
        raise InputError(f"{beside[0]}: belongs to one LEDGER.jsonl, not to folders of runs")
    return costs(folders, place)


def _types(arrow: Any) -> dict[str, Any]:
    """Type of each column; token counts have a column per kind, software a map."""
    whole, real, text = arrow.int64(), arrow.float64(), arrow.string()
    kinds = {"int": whole, "int | None": whole, "float": real, "float | None": real, "str": text}
    out = {"schema": text}
    for part in dataclasses.fields(Entry):
        if part.name == "tokens_by_kind":
            out |= {f"{kind}_tokens": real for kind in TOKEN_KINDS}
        else:
            out[part.name] = kinds.get(str(part.type), arrow.map_(text, text))
    return out


def _row(entry: Entry) -> dict[str, Any]:
    fields = {part.name: getattr(entry, part.name) for part in dataclasses.fields(Entry)}
    tokens = fields.pop("tokens_by_kind")
    versions = list(fields.pop("versions").items())
    counts = {f"{kind}_tokens": tokens.get(kind) for kind in TOKEN_KINDS}
    return {"schema": SCHEMA, **fields, **counts, "versions": versions}


def parquet_bytes(entries: Sequence[Entry]) -> bytes:
    """Entries as a Parquet file, a row each."""
    needs_extra("--parquet", "pyarrow", "parquet")
    arrow, files = import_module("pyarrow"), import_module("pyarrow.parquet")
    table = arrow.Table.from_pylist([_row(entry) for entry in entries], arrow.schema(list(_types(arrow).items())))
    stream = io.BytesIO()
    files.write_table(table, stream)
    return stream.getvalue()


def read_parquet(path: Path) -> list[Entry]:
    """Entries of a Parquet file that :func:`parquet_bytes` made."""
    needs_extra(path.name, "pyarrow", "parquet")
    arrow, files = import_module("pyarrow"), import_module("pyarrow.parquet")
    check_kept(path)
    try:
        with open_user_file(path) as stream, files.ParquetFile(stream) as file:
            if file.metadata.num_rows > MOST_ROWS:
                raise InputError(f"{path}: {file.metadata.num_rows:,} rows, more than {MOST_ROWS:,}")
            rows = file.read().to_pylist()
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["damaged"])[0]
        raise InputError(f"{shown(str(path))} cannot be read: {first}") from None
    names = {part.name for part in dataclasses.fields(Entry)}
    entries = []
    for row in rows:
        if row.get("schema") != SCHEMA:
            raise InputError(f"{path.name}: schema {shown(row.get('schema'))}: {SCHEMA!r} is needed")
        counts = {kind: row[f"{kind}_tokens"] for kind in TOKEN_KINDS if row.get(f"{kind}_tokens") is not None}
        fields = {name: value for name, value in row.items() if name in names}
        try:
            entries.append(Entry(**{**fields, "tokens_by_kind": counts, "versions": dict(row["versions"])}))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{path.name}: row {len(entries) + 1} is no entry of a run ledger") from None
    return entries
