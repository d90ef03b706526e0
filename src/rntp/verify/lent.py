"""Runs inside a sandbox, in the judge: what the program may do with the things that a test lends to it.

A program that could look into a generator's frame, a module or a mock's settings would reach the judge itself, so only
objects of the tests' own classes and of a few harmless modules have attributes for it, and those public.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable
from typing import Any

#: Modules whose objects may be looked at: none leads to a frame, to code or to the judge's own state.
_OPEN = (
    "test_solution", "_io", "_random", "_thread", "array", "collections", "io", "logging", "queue", "_queue", "random",
    "re", "threading", "types",
)  # fmt: skip
#: Attributes of functions and classes that are texts and no more.
_TEXTS = ("__name__", "__doc__", "__qualname__")
_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "len": len, "iter": iter, "bool": bool, "str": str, "repr": repr, "hash": hash, "int": int, "float": float,
    "next": lambda value: next(value if hasattr(value, "__next__") else iter(value)),
    "enter": lambda value: type(value).__enter__(value),
    "exit": lambda value: bool(type(value).__exit__(value, None, None, None)),
}  # fmt: skip
BINARY = ("getitem", "setitem", "delitem", "contains", "eq", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv")
UNARY = tuple(_SPECIAL)


def known_by_name(value: Any) -> list[str] | None:
    """Find the module and the name of a type or function of the standard library, which the other side has as well.

    Examples
    --------
    >>> known_by_name(int), known_by_name(len), known_by_name(lambda: 0)
    (['builtins', 'int'], ['builtins', 'len'], None)
    """
    if not isinstance(value, type | types.BuiltinFunctionType | types.FunctionType):
        return None
    module, name = value.__module__, value.__name__
    is_shared = str(module).partition(".")[0] in sys.stdlib_module_names
    return [module, name] if is_shared and getattr(sys.modules.get(module), name, None) is value else None


def may_see(value: Any, name: Any) -> bool:
    """Tell whether the program may read an attribute of a thing that a test lent it.

    Examples
    --------
    >>> may_see((one for one in ""), "gi_frame"), may_see(types.SimpleNamespace(a=1), "a")
    (False, True)
    """
    if not isinstance(name, str) or (name.startswith("_") and name not in _TEXTS):
        return False
    kind = value if isinstance(value, type) else type(value)
    if name in _TEXTS:
        return isinstance(value, type | types.FunctionType | types.MethodType | types.BuiltinFunctionType)
    mocks, cases = sys.modules.get("unittest.mock"), sys.modules.get("unittest.case")
    if mocks is not None and issubclass(kind, mocks.NonCallableMock):
        return name not in dir(mocks.AsyncMock) and name not in dir(mocks.Mock)
    if cases is not None and issubclass(kind, cases.TestCase):
        return name not in dir(cases.TestCase)
    return kind.__module__ in _OPEN


def use(value: Any, how: str, given: list[Any], words: dict[str, Any]) -> Any:
    """Do with a thing of a test what the program asks.

    Examples
    --------
    >>> use([3, 4], "getitem", [1], {})
    4
    """
    if how == "call":
        return value(*given, **words)
    if how in ("get", "set"):
        if not may_see(value, given[0]) or (how == "set" and isinstance(value, type)):
            raise AttributeError(str(given[0])[:200])
        return getattr(value, given[0]) if how == "get" else setattr(value, given[0], given[1])
    if how in BINARY:
        return getattr(operator, how)(value, *given)
    return _SPECIAL[how](value)
