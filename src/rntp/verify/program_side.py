"""Runs inside a sandbox, in a process of its own: the program that a pytest file tests. Nothing here is trusted.

It keeps the program's objects, uses them as the judge asks, and answers in values.
"""

from __future__ import annotations

import builtins
import importlib
import io
import operator
import os
import socket
import sys
import traceback
import types
from typing import Any

from rntp.verify.exchange import COPIED, Side
from rntp.verify.lent import BINARY, UNARY

#: As in bubblewrap.py, which this file cannot import.
_PACKAGES = "/packages"


class _Program(Side):
    """Serves the judge: uses the program's objects as it is told."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.theirs: dict[int, _Theirs] = {}
        self.caught: dict[int, tuple[BaseException, int]] = {}
        self.loop: Any = None

    def refer(self, value: Any) -> Any:
        kind = type(value)
        if kind is _Theirs:
            return {"theirs": _number_of(value)}
        if isinstance(value, type):
            return {"class": self.describe(value)}
        base = next((name for name in COPIED if isinstance(value, getattr(builtins, name))), "")
        if base:
            plain = str.__str__(value) if isinstance(value, str) else getattr(builtins, base)(value)
            return {"copy": [self.hold(value), self.describe(kind), base, self.pack(plain)]}
        if isinstance(value, types.CoroutineType):
            return {"coroutine": self.hold(value)}
        return {"object": [self.hold(value), self.describe(kind)]}

    def describe(self, kind: type) -> Any:
        """A class with those that it is derived from; those of the language by name."""
        if getattr(builtins, kind.__name__, None) is kind:
            return kind.__name__
        is_shared = issubclass(kind, BaseException) and kind.__module__.partition(".")[0] in sys.stdlib_module_names
        if is_shared and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind:
            return {"module": kind.__module__, "name": kind.__name__}
        return [self.hold(kind), kind.__name__, [self.describe(one) for one in kind.__bases__]]

    def resolve(self, name: str, inner: Any) -> Any:
        if name == "ours":
            return self.held[inner]
        if name == "named":
            return getattr(importlib.import_module(inner[0]), inner[1])
        return self.theirs.setdefault(inner[0], _Theirs(self, inner[0]))

    def serve(self, request: Any) -> Any:
        before, printed, errors = (sys.stdout, sys.stderr), io.StringIO(), io.StringIO()
        sys.stdout, sys.stderr = printed, errors
        try:
            reply = {"value": getattr(self, f"_{request[0]}")(*request[1:])}
        except BaseException as error:  # noqa: BLE001 - whatever the program raises is the judge's to see
            reply = {"raised": self.raised(error)}
        finally:
            sys.stdout, sys.stderr = before
        return {**reply, "printed": printed.getvalue(), "errors": errors.getvalue()}

    def raised(self, error: BaseException) -> Any:
        """An exception: its class, its arguments, its text and its fields; one that came from the tests by number."""
        if id(error) in self.caught:
            return self.caught[id(error)][1]
        arguments = [self.pack(one) for one in error.args]
        names = [name for name in dir(error) if not name.startswith("_") and name not in dir(BaseException)]
        fields = [[name, getattr(error, name, None)] for name in names]
        packed = [[name, self.pack(value)] for name, value in fields if value is not None and not callable(value)]
        if error.__cause__ is not None:
            packed.append(["__cause__", {"failure": self.raised(error.__cause__)}])
        return [self.describe(type(error)), arguments, str(error)[:2000], self.hold(error), packed]

    def thrown(self, described: Any) -> BaseException:
        """An exception of the tests' own function, for the program to handle or to pass on."""
        name, arguments, number = described
        if name == "ours":
            ours: BaseException = self.held[number]
            return ours
        kind, given = getattr(builtins, name), [self.unpack(one) for one in arguments]
        try:
            made: BaseException = kind(*given)
        except TypeError:
            made = kind.__new__(kind)
            made.args = tuple(given)
        self.caught[id(made)] = made, number
        return made

    def _fields(self, number: int) -> list[str]:
        return list(self.held[number].__dataclass_fields__)

    def _call(self, number: int, arguments: Any, named: Any) -> Any:
        given = [self.unpack(one) for one in arguments]
        words = {key: self.unpack(value) for key, value in named}
        out = self.held[number](*given, **words)
        given += words.values()
        open_to_change = [isinstance(one, list | dict | set | bytearray) for one in given]
        same = next((place for place, one in enumerate(given) if one is out and open_to_change[place]), None)
        changed = [self.pack(one) if is_open else None for one, is_open in zip(given, open_to_change, strict=True)]
        return [self.pack(out) if same is None else {"argument": same}, changed]

    def _get(self, number: int, name: str) -> Any:
        return self.pack(getattr(self.held[number], name))

    def _set(self, number: int, name: str, value: Any) -> None:
        setattr(self.held[number], name, self.unpack(value))

    def _fill(self, number: int, name: str, value: Any) -> None:
        """A test has changed the copy of a container that is an attribute: do the same to the original."""
        own, new = getattr(self.held[number], name), self.unpack(value)
        if type(own) is type(new) and own != new:
            own.clear()
            own.extend(new) if isinstance(own, list) else own.update(new)

    def _delete(self, number: int, name: str) -> None:
        delattr(self.held[number], name)

    def _names(self, number: int) -> list[str]:
        return [name for name in dir(self.held[number]) if not name.startswith("_")]

    def _use(self, number: int, name: str, arguments: Any) -> Any:
        """A special method, found as the language finds it."""
        value, given = self.held[number], [self.unpack(one) for one in arguments]
        if name == "enter":
            return self.pack(type(value).__enter__(value))
        if name == "exit":
            error = given[0] and getattr(builtins, given[0], RuntimeError)(given[1])
            return bool(type(value).__exit__(value, type(error) if error else None, error or None, None))
        if name.startswith("reflected "):
            return self.pack(getattr(operator, _function(name.removeprefix("reflected ")))(given[0], value))
        if name in ("copy", "deepcopy"):
            return self.pack(getattr(importlib.import_module("copy"), name)(value))
        if name in ("anext", "aenter", "aexit"):
            return self.pack(self.finished(getattr(type(value), f"__{name}__")(value, *given)))
        own = getattr(operator, _function(name), None) or getattr(builtins, name)
        return self.pack(own(value, *given))

    def _stdin(self, number: int) -> None:
        """Input comes through the tests, which may have replaced theirs."""
        ask = _Theirs(self, number)
        builtins.input = lambda *prompt: ask("input", *prompt)
        sys.stdin = _Input(ask)

    def _equal(self, number: int, other: Any) -> bool:
        return bool(self.held[number] == self.unpack(other))

    def _copied(self, number: int) -> Any:
        """An object of a class derived from a container, as that container."""
        value = self.held[number]
        if isinstance(value, type({}.keys()) | type({}.items())):
            value = set(value)
        base = next((kind for kind in (list, dict, set, frozenset) if isinstance(value, kind)), None)
        return None if base is None else self.pack(base(value))

    def _run(self, number: int) -> Any:
        return self.pack(self.finished(self.held[number]))

    def finished(self, awaitable: Any) -> Any:
        """What an awaitable gives; all of them share one event loop."""
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(awaitable)


def _function(name: str) -> str:
    """Of a special method, the function of ``operator`` that does the same."""
    return f"{name}_" if name in ("and", "or") else name


class _Input(io.TextIOBase):
    """Standard input as the tests have it."""

    def __init__(self, ask: Any) -> None:
        super().__init__()
        self.ask = ask

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        return str(self.ask("readline", size))

    def read(self, size: int | None = -1) -> str:
        return str(self.ask("read", -1 if size is None else size))


class _Theirs:
    __doc__ = property(lambda self: _asked(self, "get", "__doc__"))

    __slots__ = ("_number", "_side")

    def __init__(self, side: _Program, number: int) -> None:
        object.__setattr__(self, "_side", side)
        object.__setattr__(self, "_number", number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _asked(self, "call", *arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return _asked(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _asked(self, "set", name, value)

    def __exit__(self, *error: object) -> bool:
        return bool(_asked(self, "exit"))

    def __eq__(self, other: object) -> bool:
        return self is other or bool(_asked(self, "eq", other))

    def __hash__(self) -> int:
        return int(_asked(self, "hash"))


def _number_of(value: _Theirs) -> int:
    return int(object.__getattribute__(value, "_number"))


def _asked(value: _Theirs, how: str, *arguments: Any, **named: Any) -> Any:
    side = object.__getattribute__(value, "_side")
    words = [[key, side.pack(one)] for key, one in named.items()]
    reply = side.ask([how, _number_of(value), [side.pack(one) for one in arguments], words])
    if "raised" in reply:
        raise side.thrown(reply["raised"])
    return side.unpack(reply["value"])


def _special(name: str) -> Any:
    return lambda self, *arguments: _asked(self, name, *arguments)


for _name in (*UNARY, *BINARY):
    if f"__{_name}__" not in vars(_Theirs):
        setattr(_Theirs, f"__{_name}__", _special(_name))


def _packages() -> list[str]:
    """Where the packages of the tests stand: the program may import what they may."""
    try:
        return [f"{_PACKAGES}/{name}" for name in sorted(os.listdir(_PACKAGES))]
    except FileNotFoundError:
        return []


def be_the_program(connection: socket.socket) -> None:
    """Become the program and serve the judge until it ends.

    Examples
    --------
    >>> ours, theirs = socket.socketpair()
    >>> _Program(theirs).pack([1, 2.5, {"a": b"x"}])
    {'list': [1, {'float': '0x1.4000000000000p+1'}, {'dict': [['a', {'bytes': '78'}]]}]}
    >>> ours.close(), theirs.close()
    (None, None)
    """
    side = _Program(connection)
    module = types.ModuleType("solution")
    module.__file__ = "/box/solution.py"
    sys.modules["solution"] = module
    sys.path.insert(0, "/box")
    sys.path += _packages()
    side.hold(module)
    sys.stdout = sys.stderr = io.StringIO()
    try:
        with open("/box/solution.py", encoding="utf-8", errors="surrogatepass") as file:
            source = file.read()
        try:
            code = compile(source, "solution.py", "exec")
        except SyntaxError as error:
            side.send(["reply", {"syntax": f"{type(error).__name__}: line {error.lineno}: {error.msg}"}])
            return
        exec(code, module.__dict__)  # noqa: S102 - the program under test, in a process of its own
        side.send(["reply", {"value": None}])
    except BaseException:  # noqa: BLE001 - the program's own error, told as it would tell it
        side.send(["reply", {"failed": traceback.format_exc()}])
        return
    while True:
        side.send(["reply", side.serve(side.receive()[1])])
