"""Where many simulations run: here, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

from computeledger.errors import InputError, shown


@contextlib.contextmanager
def executor(jobs: int, cluster: str | None) -> Iterator[Executor | None]:
    """An executor for the length of a ``with`` block; None runs everything here."""
    if cluster is not None:
        if jobs > 1:
            raise InputError("--jobs and --cluster contradict each other: give one of them")
        with _cluster(cluster) as found:
            yield found
    elif jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            yield pool
    else:
        yield None


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    """A running Dask scheduler as an executor."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise InputError("--cluster needs Dask: pip install distributed") from None
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError):
        raise InputError(f"--cluster {shown(address)}: no Dask scheduler answers there") from None
    with client:
        yield client.get_executor()
