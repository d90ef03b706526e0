"""Runs inside a sandbox: a pytest file in one process, the program that it tests in another, values between them.

The judge is process 1, which no other process can signal or look into. It forks the program's process before it reads
the tests, so that neither they nor what they expect are ever in the program's memory or among its files. The program's
functions, classes and objects are stood for by others that carry no code of its own: each use of one is a message, and
an answer is a value that the judge makes itself. An object equals a value only where a copy of it does. Arithmetic and
order are asked of objects whose class the tests have taken from the program by name, and of no others.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import io
import json
import os
import socket
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

#: Ends the line that is the report; as in harness.py.
MARK = "\x1e"
#: Exit code of a program that cannot be compiled; as in zygote.py.
SYNTAX = 96
_SIZE = struct.Struct("=I")
_MOST_BYTES = 1 << 26
_DEEPEST = 100
_DUMPABLE = 4
_SMALL = 1 << 53
_PLAIN = (bool, int, float, str, bytes, complex)
_WRITERS: dict[type, Callable[[Any], Any]] = {
    float: float.hex, int: hex, bytes: bytes.hex, complex: lambda it: [it.real.hex(), it.imag.hex()],
}  # fmt: skip
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
#: Types of the standard library that travel as values: module, type, and how to take one apart.
_LIBRARY: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "decimal": ("decimal", "Decimal", lambda it: [str(it)]),
    "fraction": ("fractions", "Fraction", lambda it: [it.numerator, it.denominator]),
    "timedelta": ("datetime", "timedelta", lambda it: [it.days, it.seconds, it.microseconds]),
    "date": ("datetime", "date", lambda it: [it.year, it.month, it.day]),
    "range": ("builtins", "range", lambda it: [it.start, it.stop, it.step]),
    "bytearray": ("builtins", "bytearray", lambda it: [bytes(it)]),
    "deque": ("collections", "deque", lambda it: [list(it), it.maxlen]),
    "counter": ("collections", "Counter", lambda it: [dict(it)]),
    "ordered": ("collections", "OrderedDict", lambda it: [[list(pair) for pair in it.items()]]),
}
#: Special methods that are asked of every object, with the type that the language demands of the answer.
_UNARY: dict[str, type | None] = {
    "len": int, "str": str, "repr": str, "bool": bool, "int": int, "float": float, "index": int, "iter": None,
    "next": None, "enter": None, "reversed": None,
}  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
    "iadd", "isub", "imul", "lt", "le", "gt", "ge",
)  # fmt: skip
_REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_COPIED = ("int", "str", "float", "tuple")


class ProgramError(BaseException):
    """The program's process has ended, or has sent what is no message."""


class _Side:
    """One end of the line: sends a request and answers those of the other side until its own is answered."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.held: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}

    def hold(self, value: Any) -> int:
        """The number of an object that stays on this side."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.held)
            self.held[number] = value
        return number

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode("utf-8", "surrogatepass")
        self.connection.sendall(_SIZE.pack(len(body)) + body)

    def receive(self) -> Any:
        size = _SIZE.unpack(self._exactly(_SIZE.size))[0]
        if size > _MOST_BYTES:
            raise ProgramError("too long a message")
        try:
            return json.loads(self._exactly(size).decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            raise ProgramError("no message") from None

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.connection.recv(min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise ProgramError("the program has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def ask(self, request: list[Any]) -> Any:
        """Send a request; the other side's reply."""
        try:
            self.send(["ask", request])
        except OSError:
            raise ProgramError("the program has ended") from None
        while True:
            message = self.receive()
            if not isinstance(message, list) or len(message) != 2 or message[0] not in ("ask", "reply"):
                raise ProgramError("no message")
            if message[0] == "reply":
                return message[1]
            self.send(["reply", self.serve(message[1])])

    def serve(self, request: Any) -> Any:
        """Answer a request of the other side."""
        raise NotImplementedError

    def pack(self, value: Any, depth: int = 0) -> Any:
        """A value as a message holds it; what is none stays here and is referred to."""
        kind = type(value)
        if value is None or kind in (bool, str) or (kind is int and abs(value) < _SMALL):
            return value
        if kind in _WRITERS:
            return {kind.__name__: _WRITERS[kind](value)}
        if depth < _DEEPEST:
            if kind in _SEQUENCES.values():
                return {kind.__name__: [self.pack(one, depth + 1) for one in list(value)]}
            if kind is dict:
                return {"dict": [[self.pack(one, depth + 1) for one in pair] for pair in list(value.items())]}
            for name, (module, typename, parts) in _LIBRARY.items():
                if kind is getattr(sys.modules.get(module), typename, None):
                    return {"library": [name, [self.pack(one, depth + 1) for one in parts(value)]]}
        return self.refer(value)

    def refer(self, value: Any) -> Any:
        """What stands for an object of this side, or of the other."""
        raise NotImplementedError

    def unpack(self, message: Any) -> Any:
        """The value of a message."""
        if message is None or type(message) in (bool, int, str):
            return message
        if not isinstance(message, dict) or len(message) != 1:
            raise ProgramError("no value")
        ((name, inner),) = message.items()
        try:
            if name in _SEQUENCES:
                return _SEQUENCES[name](self.unpack(one) for one in inner)
            reader = _READERS.get(name)
            return reader(self, inner) if reader else self.resolve(name, inner)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError):
            raise ProgramError("no value") from None

    def resolve(self, name: str, inner: Any) -> Any:
        """What a reference stands for."""
        raise NotImplementedError


def _library(side: _Side, inner: Any) -> Any:
    module, typename, _ = _LIBRARY[inner[0]]
    return getattr(importlib.import_module(module), typename)(*(side.unpack(one) for one in inner[1]))


_READERS: dict[str, Callable[[_Side, Any], Any]] = {
    "float": lambda _, inner: float.fromhex(inner),
    "int": lambda _, inner: int(inner, 16),
    "bytes": lambda _, inner: bytes.fromhex(inner),
    "complex": lambda _, inner: complex(float.fromhex(inner[0]), float.fromhex(inner[1])),
    "dict": lambda side, inner: {side.unpack(key): side.unpack(value) for key, value in inner},
    "library": _library,
}

# ---- the program's side: nothing here is trusted


class _Program(_Side):
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
        base = next((name for name in _COPIED if isinstance(value, getattr(builtins, name))), "")
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
        plain = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:doctest",
            "--rootdir=/box",
            "-c",
            "/dev/null",
            "--noconftest",
        ]

    pytest.main([*plain, "/box/test_solution.py"], plugins=[recorder])
    report.write(json.dumps({"outcomes": recorder.outcomes}) + MARK + "\n")
    report.flush()


def main() -> None:
    """Fork the program, read the work from standard input, and report where the tests' own output does not go."""
    libc = ctypes.CDLL(None)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            null = os.open(os.devnull, os.O_RDWR)
            for place in range(3):
                os.dup2(null, place)
            libc.prctl(_DUMPABLE, 1, 0, 0, 0)
            _be_the_program(theirs)
        finally:
            os._exit(1)
    theirs.close()
    side = _Judge(ours)
    work = json.loads(sys.stdin.read())
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    code = 0
    try:
        begun = side.receive()[1]
        if "syntax" in begun or "failed" in begun:
            sys.stderr.write(str(begun.get("syntax") or begun.get("failed"))[-2000:] + "\n")
            code = SYNTAX if "syntax" in begun else 1
        else:
            _judge(side, work, report)
    except ProgramError as error:
        sys.stderr.write(f"{error}\n")
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
