"""Runs inside a sandbox: values and requests between the judge of a pytest file and the program that it tests.

What one side sends the other makes anew as values of its own; what is no value stays where it is and is referred to by
a number. Each side answers requests of the other while it waits for its own reply.
"""

from __future__ import annotations

import abc
import importlib
import json
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

_SIZE = struct.Struct("=I")
_MOST_BYTES = 1 << 26
_DEEPEST = 100
_SMALL = 1 << 53
#: Types whose objects are handed over as the plain value that they are derived from.
COPIED = ("int", "str", "float", "tuple")
_WRITERS: dict[type, Callable[[Any], Any]] = {
    float: float.hex, int: hex, bytes: bytes.hex, complex: lambda it: [it.real.hex(), it.imag.hex()],
}  # fmt: skip
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
#: Types of the standard library that travel as values: module, type, and how to take one apart.
_LIBRARY: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "decimal": ("decimal", "Decimal", lambda it: [str(it)]),
    "fraction": ("fractions", "Fraction", lambda it: [it.numerator, it.denominator]),
    "timedelta": ("datetime", "timedelta", lambda it: [it.days, it.seconds, it.microseconds]),
    "datetime": ("datetime", "datetime", lambda it: [*it.timetuple()[:6], it.microsecond, it.tzinfo]),
    "time": ("datetime", "time", lambda it: [it.hour, it.minute, it.second, it.microsecond, it.tzinfo]),
    "timezone": ("datetime", "timezone", lambda it: [it.utcoffset(None)]),
    "zone": ("zoneinfo", "ZoneInfo", lambda it: [it.key]),
    "uuid": ("uuid", "UUID", lambda it: [str(it)]),
    "path": ("pathlib", "PosixPath", lambda it: [str(it)]),
    "defaultdict": ("collections", "defaultdict", lambda it: [it.default_factory, dict(it)]),
    "slice": ("builtins", "slice", lambda it: [it.start, it.stop, it.step]),
    "date": ("datetime", "date", lambda it: [it.year, it.month, it.day]),
    "range": ("builtins", "range", lambda it: [it.start, it.stop, it.step]),
    "bytearray": ("builtins", "bytearray", lambda it: [bytes(it)]),
    "deque": ("collections", "deque", lambda it: [list(it), it.maxlen]),
    "counter": ("collections", "Counter", lambda it: [dict(it)]),
    "ordered": ("collections", "OrderedDict", lambda it: [[list(pair) for pair in it.items()]]),
}


class ProgramError(BaseException):
    """The program's process has ended, or has sent what is no message."""


class Side(abc.ABC):
    """One end of the line: sends a request and answers those of the other side until its own is answered."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.held: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}

    def hold(self, value: Any) -> int:
        """Keep an object on this side."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.held)
            self.held[number] = value
        return number

    def send(self, message: Any) -> None:
        """Send a message."""
        body = json.dumps(message).encode("utf-8", "surrogatepass")
        self.connection.sendall(_SIZE.pack(len(body)) + body)

    def receive(self) -> Any:
        """Wait for a message; raises ProgramError where none comes."""
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
        """Send a request and answer those of the other side until its reply comes."""
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

    @abc.abstractmethod
    def serve(self, request: Any) -> Any:
        """Answer a request of the other side.

        Parameters
        ----------
        request : list
            Name and arguments.

        Returns
        -------
        Any
            The reply.
        """

    def pack(self, value: Any, depth: int = 0) -> Any:
        """Write a value as a message holds it; what is none stays here and is referred to."""
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

    @abc.abstractmethod
    def refer(self, value: Any) -> Any:
        """Refer to an object of this side, or of the other."""

    def unpack(self, message: Any) -> Any:
        """Read the value of a message."""
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

    @abc.abstractmethod
    def resolve(self, name: str, inner: Any) -> Any:
        """Find what a reference stands for."""


def _library(side: Side, inner: Any) -> Any:
    module, typename, _ = _LIBRARY[inner[0]]
    return getattr(importlib.import_module(module), typename)(*(side.unpack(one) for one in inner[1]))


_READERS: dict[str, Callable[[Side, Any], Any]] = {
    "float": lambda _, inner: float.fromhex(inner),
    "int": lambda _, inner: int(inner, 16),
    "bytes": lambda _, inner: bytes.fromhex(inner),
    "complex": lambda _, inner: complex(float.fromhex(inner[0]), float.fromhex(inner[1])),
    "dict": lambda side, inner: {side.unpack(key): side.unpack(value) for key, value in inner},
    "library": _library,
}
