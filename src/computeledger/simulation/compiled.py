"""Kernels that run as they are written, or as machine code where a simulation is long: the same source, the same
results.

A kernel is a plain function over arrays. Short simulations run it as Python, which starts at once; long ones compile it
with numba, once per machine, and load it from numba's cache afterwards. Where numba is not installed, everything runs
as Python, some hundred times slower.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: Events beyond which compiling pays: it takes some ten seconds once, Python some ten microseconds per event.
COMPILE_EVENTS = 200_000
#: The same for the events of many simulations together.
COMPILE_TOTAL_EVENTS = 1_000_000

#: Events beyond which what an earlier process compiled is worth loading: a second, with numba.
LOADED_EVENTS = 30_000

_KERNELS: dict[str, Callable[..., Any]] = {}
#: Events that this process has given each kernel.
_SEEN_EVENTS: dict[Callable[..., Any], int] = {}


def kernel(function: Function) -> Function:
    """Mark a function that compiled kernels may call.

    Examples
    --------
    >>> kernel(abs) is abs
    True
    """
    module = getattr(function, "__module__", "")
    if module.startswith(__package__ or "computeledger"):
        _KERNELS[f"{module}.{function.__qualname__}"] = function
    return function


def can_compile() -> bool:
    """Whether numba is here.

    Examples
    --------
    >>> can_compile() in (True, False)
    True
    """
    return importlib.util.find_spec("numba") is not None


def for_events(function: Function, n_events: int) -> Function:
    """Choose how to run a kernel: many short simulations are compiled for as one long one is.

    Examples
    --------
    >>> for_events(abs, 10) is abs
    True
    """
    _SEEN_EVENTS[function] = _SEEN_EVENTS.get(function, 0) + n_events
    pays = n_events > COMPILE_EVENTS or _SEEN_EVENTS[function] > COMPILE_TOTAL_EVENTS
    pays = pays or (_SEEN_EVENTS[function] > LOADED_EVENTS and is_stored(function))
    return compiled(function) if pays and can_compile() else function


@functools.cache
def is_stored(function: Callable[..., Any]) -> bool:
    """Whether an earlier process left the compiled kernel in numba's cache beside this module.

    Examples
    --------
    >>> is_stored(abs)
    False
    """
    here = Path(__file__)
    return any((here.parent / "__pycache__").glob(f"{here.stem}.{_stored_name(function)}-*.nbi"))


def _stored_name(function: Callable[..., Any]) -> str:
    """The cache's file name holds the stamp: what was compiled of other source is not looked at."""
    return f"{function.__name__}_{_stamp()[:16]}"


@functools.cache
def compiled(function: Function) -> Function:
    """Compile a kernel of one argument."""
    numba = importlib.import_module("numba")
    extending = importlib.import_module("numba.extending")
    # kernels allocate nothing, so that counting references to arrays would only cost time: four times as much in all;
    # and only the one compiled here is called from Python, so that the others need no entry from there or from C
    for one in _KERNELS.values():
        extending.register_jitable(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(one)
    code: Function = numba.njit(cache=True, _nrt=False)(_with_stamp(function, _stamp()))
    return code


def _with_stamp(function: Callable[[Any], Any], stamp: str) -> Callable[[Any], Any]:
    """The function with the fingerprint of all kernels among its free variables, which numba's cache compares."""

    def run(world: Any) -> Any:
        """Call it."""
        return function(world) if stamp else 0

    run.__name__ = _stored_name(function)
    run.__qualname__ = run.__name__
    return run


def _stamp() -> str:
    """Fingerprint of the name and source of every module that holds kernels: what was compiled names them."""
    modules = sorted({function.__module__ for function in _KERNELS.values()})
    sources = "".join(name + inspect.getsource(sys.modules[name]) for name in modules)
    return hashlib.sha256(sources.encode()).hexdigest()
