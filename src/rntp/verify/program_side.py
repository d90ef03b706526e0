"""Runs inside a sandbox, in a process of its own: the program that a pytest file tests. Nothing here is trusted.

It keeps the program's objects, uses them as the judge asks, and answers in values.
"""

from __future__ import annotations

import builtins
import io
import operator
import socket
import sys
import traceback
import types
from typing import Any

from rntp.verify.exchange import COPIED, Side


class _Program(Side):
    """Serves the judge: uses the program's objects as it is told."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.theirs: dict[int, _Theirs] = {}

    def refer(self, value: Any) -> Any:
        if isinstance(value, _Theirs):
            return {"theirs": value.number}
        kind = type(value)
        if isinstance(value, type):
            return {"class": self.describe(value)}
        base = next((name for name in COPIED if isinstance(value, getattr(builtins, name))), "")
        if base:
            return {"copy": [self.hold(value), self.describe(kind), base, self.pack(getattr(builtins, base)(value))]}
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
        """An exception: its class, its arguments and its text."""
        arguments = [self.pack(one) for one in error.args]
        return [self.describe(type(error)), arguments, str(error)[:2000], self.hold(error)]

    def _call(self, number: int, arguments: Any, named: Any) -> Any:
        given = [self.unpack(one) for one in arguments]
        words = {key: self.unpack(value) for key, value in named}
        out = self.held[number](*given, **words)
        open_to_change = [isinstance(one, list | dict | set | bytearray) for one in given]
        same = next((place for place, one in enumerate(given) if one is out and open_to_change[place]), None)
        changed = [self.pack(one) if is_open else None for one, is_open in zip(given, open_to_change, strict=True)]
        return [self.pack(out) if same is None else {"argument": same}, changed]

    def _get(self, number: int, name: str) -> Any:
        return self.pack(getattr(self.held[number], name))

    def _set(self, number: int, name: str, value: Any) -> None:
        setattr(self.held[number], name, self.unpack(value))

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
        base = next((kind for kind in (list, dict, set, frozenset) if isinstance(value, kind)), None)
        return None if base is None else self.pack(base(value))

    def _run(self, number: int) -> Any:
        import asyncio

        return self.pack(asyncio.run(self.held[number]))


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
    """Something that the tests passed to the program: it can be called, and its public parts looked at."""

    def __init__(self, side: _Program, number: int) -> None:
        vars(self).update(side=side, number=number)

    def _asked(self, request: list[Any]) -> Any:
        side = vars(self)["side"]
        reply = side.ask(request)
        if "raised" in reply:
            name, text = reply["raised"]
            raise getattr(builtins, name, RuntimeError)(text)
        return side.unpack(reply["value"])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        side = vars(self)["side"]
        words = [[key, side.pack(value)] for key, value in named.items()]
        return self._asked(["call", vars(self)["number"], [side.pack(one) for one in arguments], words])

    def __getattr__(self, name: str) -> Any:
        return self._asked(["get", vars(self)["number"], name])

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._asked(["next", vars(self)["number"]])


def be_the_program(connection: socket.socket) -> None:
    """Become the program and serve the judge until it ends.

    Parameters
    ----------
    connection : socket.socket
        The line to the judge.

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
