"""Who computes a sweep: local processes, or a Dask cluster; and its results as a Parquet file."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module, util
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from computeledger.errors import InputError, shown

#: Questions from which on a sweep starts a process per core by itself.
LONG_SWEEP = 100
#: Seconds that a cluster has to answer.
_CONNECT_S = 6.0
#: Seconds in which an executor forgets what was cancelled: a process that ends before would break it.
_FORGET_S = 0.2


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


@contextmanager
def _processes(workers: int | None) -> Iterator[Executor | None]:
    if workers is None or workers <= 1:
        yield None
        return
    # fresh processes: a fork would copy the threads of whoever calls
    context = _Fresh()
    with ProcessPoolExecutor(workers, mp_context=context) as executor:
        try:
            yield executor
        except BaseException:  # nobody waits for what is under way
            executor.shutdown(wait=False, cancel_futures=True)
            time.sleep(_FORGET_S)
            for one in context.started:
                one.terminate()
            raise


class _Worker(SpawnProcess):
    """A fresh process that does not run the caller's script again: what it computes is imported by name."""

    def start(self) -> None:
        """Start without a main module: a script without a guard would ask its question again in every process."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            with deaf_to_interrupts():
                super().start()
        finally:
            sys.modules["__main__"] = main

    def run(self) -> None:
        """Compute until the caller ends it: Ctrl-C is the caller's."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().run()


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """What starts here inherits it, so that Ctrl-C does not strike in its imports."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may say what a signal does
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Fresh(SpawnContext):
    """Starts such processes, and knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_Worker] = []

    def Process(self, *args: Any, **given: Any) -> _Worker:  # type: ignore[override]  # noqa: N802 (its name there)
        """Make a process, as executors do."""
        self.started.append(_Worker(*args, **given))
        return self.started[-1]


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    with cluster_client(address) as client:
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # every result was taken, or nobody waits for what is under way


def cluster_client(address: str) -> Any:
    """Connect to a Dask scheduler.

    Parameters
    ----------
    address : str
        ``tcp://HOST:PORT``.

    Returns
    -------
    distributed.Client
        To be closed by who asked for it; no default of the process.

    Raises
    ------
    InputError
        Where Dask is not installed, or no scheduler answers there.

    Examples
    --------
    >>> cluster_client("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: --cluster 'nowhere': expected the address of a Dask scheduler, tcp://HOST:PORT
    """
    if not re.fullmatch(r"[a-z]+://[^\s/]+:[0-9]+", address):
        raise InputError(f"--cluster {shown(address)}: expected the address of a Dask scheduler, tcp://HOST:PORT")
    distributed = needs_extra("--cluster", "distributed", "cluster")
    try:
        with ThreadPoolExecutor(1) as own:  # a loop of its own: that of a notebook runs already
            own.submit(asyncio.run, _require_scheduler(address)).result()
        return distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0] or error.__class__.__name__
        raise InputError(f"--cluster {shown(address)}: no scheduler answers there ({why})") from None


async def _require_scheduler(address: str) -> None:
    """Refuse what is no scheduler of Dask: a client would wait for the answer of whatever listens."""
    core = import_module("distributed.core")
    secured = import_module("distributed.security").Security().get_connection_args("client")
    other = "a server of another protocol does"
    try:
        async with asyncio.timeout(2 * _CONNECT_S):
            async with core.rpc(address, timeout=_CONNECT_S, connection_args=secured) as there:
                kind = (await there.identity())["type"]
    except TimeoutError:
        raise ConnectionError(other) from None
    except OSError:
        raise
    except Exception as error:  # whatever an answer in another protocol is read as
        raise ConnectionError(other) from error
    if kind != "Scheduler":
        raise ConnectionError(f"a {kind} does")


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
