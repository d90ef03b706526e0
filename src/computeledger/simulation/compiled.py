"""Kernels that run as they are written, or as machine code where a simulation is long: the same source, the same
results.

A kernel is a plain function over arrays. Short simulations run it as Python, which starts at once; long ones compile it
with numba, once per machine, and load it from numba's cache afterwards. Where numba is not installed, everything runs
as Python, some hundred times slower.

A kernel's argument is a named tuple of arrays and of further named tuples. numba hands such a tuple on by value, every
array as seven arguments, some three hundred a call; what is compiled here lays it down once and hands on a pointer,
which takes half of the time in every run.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from computeledger.progress import announce

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
    return f"{function.__name__}_{_stamp(function)[:16]}"


@functools.cache
def compiled(function: Function) -> Function:
    """Compile a kernel of one argument, and say so where that takes long."""
    numba = importlib.import_module("numba")
    _teach_pointers()
    for one in _called(function):
        _made_callable(one)
    run = _with_stamp(function, _stamp(function))
    code: Function = numba.njit(cache=True, _nrt=False, no_cfunc_wrapper=True)(run)
    if not any(Path(code.stats.cache_path).glob(f"{Path(__file__).stem}.{run.__name__}-*.nbi")):  # type: ignore[attr-defined]
        announce("compiling the simulator, once on this machine: about half a minute")
    return code


@functools.cache
def _made_callable(function: Callable[..., Any]) -> None:
    """Let compiled code call a kernel.

    Kernels allocate nothing, so that counting references to arrays would only cost time: four times as much in all; and
    only the outermost is called from Python, so that the others need no entry from there or from C.
    """
    extending = importlib.import_module("numba.extending")
    extending.register_jitable(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def _with_stamp(function: Callable[[Any], Any], stamp: str) -> Callable[[Any], Any]:
    """The function with the fingerprint of all its kernels among its free variables, which numba's cache compares."""

    def run(world: Any) -> Any:
        """Call it."""
        return function(_laid_down(world)) if stamp else 0

    run.__name__ = _stored_name(function)
    run.__qualname__ = run.__name__
    return run


@functools.cache
def _stamp(function: Callable[..., Any]) -> str:
    """Fingerprint of the name and source of every module whose kernels a kernel calls, whatever else is loaded."""
    modules = sorted({one.__module__ for one in _called(function)})
    sources = "".join(name + inspect.getsource(sys.modules[name]) for name in modules)
    return hashlib.sha256(sources.encode()).hexdigest()


def _called(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Every kernel that a kernel calls, directly or not, and itself."""
    found: dict[Callable[..., Any], None] = {}
    left, kernels = [function], set(_KERNELS.values())
    while left:
        one = left.pop()
        if one in found or not isinstance(one, FunctionType):
            continue
        found[one] = None
        named = (one.__globals__.get(name) for name in one.__code__.co_names)
        left += [other for other in named if isinstance(other, FunctionType) and other in kernels]
    return list(found)


def _laid_down(world: Any) -> Any:
    """The same named tuple; to compiled code a pointer to where it lies."""
    return world


@functools.cache
def _teach_pointers() -> None:
    """Tell numba of named tuples that lie somewhere: their fields are read there, inner ones are pointers again."""
    numba, extending = importlib.import_module("numba"), importlib.import_module("numba.extending")
    cgutils = importlib.import_module("numba.core.cgutils")
    templates = importlib.import_module("numba.core.typing.templates")
    types, models = numba.types, extending.models

    def named(self: Any, record: Any) -> None:
        self.record = record
        types.Type.__init__(self, f"Pointer({record.instance_class.__name__})")  # short: it is part of every symbol

    def stored(self: Any, manager: Any, pointer: Any) -> None:
        record = manager.lookup(pointer.record).get_value_type()
        models.PrimitiveModel.__init__(self, manager, pointer, record.as_pointer())

    def field_of(pointer: Any, name: str) -> Any:
        field = pointer.record.types[pointer.record.fields.index(name)]
        return Pointer(field) if isinstance(field, types.NamedTuple) else field

    def typed(_self: Any, pointer: Any, name: str) -> Any:
        return field_of(pointer, name) if name in pointer.record.fields else None

    def read(_context: Any, builder: Any, pointer: Any, value: Any, name: str) -> Any:
        place = cgutils.gep_inbounds(builder, value, 0, pointer.record.fields.index(name))
        return place if isinstance(field_of(pointer, name), Pointer) else builder.load(place)

    def pointer_to(_context: Any) -> Callable[[Any], Any]:
        def typed_call(record: Any) -> Any:
            return Pointer(record)

        return typed_call

    def lay_down(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return cgutils.alloca_once_value(builder, values[0])

    Pointer = type("Pointer", (types.Type,), {"__init__": named, "key": property(lambda self: self.record)})
    extending.register_model(Pointer)(type("PointerModel", (models.PrimitiveModel,), {"__init__": stored}))
    fields = {"key": Pointer, "generic_resolve": typed}
    templates.infer_getattr(type("PointerFields", (templates.AttributeTemplate,), fields))
    extending.lower_getattr_generic(Pointer)(read)
    extending.type_callable(_laid_down)(pointer_to)
    extending.lower_builtin(_laid_down, types.BaseNamedTuple)(lay_down)
