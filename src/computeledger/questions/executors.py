"""Who computes a sweep: local processes, or a Dask cluster; and its results as a Parquet file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib import import_module, util
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from computeledger.errors import InputError, shown

#: Questions from which on a sweep starts a process per core by itself.
LONG_SWEEP = 100
#: Seconds that a cluster has to answer.
_CONNECT_S = 10.0


def needs_extra(option: str, package: str, extra: str) -> Any:
    """Import an optional package, or say how to get it."""
    if util.find_spec(package) is None:
        raise InputError(f"{option} needs {package}: install it with pip install 'computeledger[{extra}]'")
    return import_module(package)


def local_workers(asked: int | None, n_questions: int, fewest: int = LONG_SWEEP) -> int:
    """Processes for many questions: as asked; else this one while starting others would take longer than the answer."""
    return asked or (1 if n_questions < fewest else min(os.cpu_count() or 1, n_questions))


@contextmanager
def open_executor(workers: int | None, cluster: str | None) -> Iterator[Executor | None]:
    """An executor for a number of local processes or a cluster's address; None for this process."""
    with _cluster(cluster) if cluster is not None else _processes(workers) as executor:
        yield executor


def _processes(workers: int | None) -> Any:
    if workers is None or workers <= 1:
        return nullcontext(None)
    # fresh processes: a fork would copy the threads of whoever calls
    return ProcessPoolExecutor(workers, mp_context=_Fresh())


class _Worker(SpawnProcess):
    """A fresh process that does not run the caller's script again: what it computes is imported by name."""

    def start(self) -> None:
        """Start without a main module: a script without a guard would ask its question again in every process."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Fresh(SpawnContext):
    """Starts such processes."""

    Process = _Worker


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    distributed = needs_extra("--cluster", "distributed", "cluster")
    if not re.fullmatch(r"[a-z]+://[^\s/]+:[0-9]+", address):
        raise InputError(f"--cluster {shown(address)}: expected the address of a Dask scheduler, tcp://HOST:PORT")
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0] or error.__class__.__name__
        raise InputError(f"--cluster {shown(address)}: no scheduler answers there ({why})") from None
    with client, client.get_executor(pure=False) as executor:
        yield executor


@contextmanager
def open_parquet(path: str | None) -> Iterator[Any]:
    """A function that appends columns to a Parquet file; it does nothing where no file is named."""
    if path is None:
        yield _forget
        return
    parquet = needs_extra("--parquet", "pyarrow", "parquet") and import_module("pyarrow.parquet")
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"--parquet {path}: the folder {shown(str(target.parent))} does not exist")
    partial = target.with_name(f".{target.name}.part")
    try:
        with _Writer(parquet, partial) as writer:
            yield writer.append
        if partial.exists():
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _forget(_columns: Mapping[str, Iterable[Any]]) -> None:
    """Keep nothing."""


class _Writer:
    """Row groups of equal columns, the schema taken from the first."""

    def __init__(self, parquet: Any, path: Path) -> None:
        self._parquet, self._path = parquet, path
        self._open: Any = None

    def __enter__(self) -> Self:
        return self

    def append(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Write columns as one row group."""
        pyarrow = import_module("pyarrow")
        table = pyarrow.table({name: pyarrow.array(column) for name, column in columns.items()})
        if self._open is None:
            self._open = self._parquet.ParquetWriter(self._path, table.schema)
        self._open.write_table(table)

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()
