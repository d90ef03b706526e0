"""Runs inside a sandbox: a pytest file in one process, the program that it tests in another, values between them.

The judge is process 1, which no other process can signal or look into. It forks the program's process before it reads
the tests, so that neither they nor what they expect are ever in the program's memory or among its files. The program's
functions, classes and objects are stood for by others that carry no code of its own: each use of one is a message, and
an answer is a value that the judge makes itself. An object equals a value only where a copy of it does. Arithmetic and
order are asked of objects whose class the tests have taken from the program by name, and of no others.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import dataclasses
import io
import json
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from rntp.verify import lent
from rntp.verify.exchange import COPIED, ProgramError, Side
from rntp.verify.program_side import be_the_program

#: Ends the line that is the report; as in harness.py.
MARK = "\x1e"
#: Exit code of a program that cannot be compiled; as in zygote.py.
SYNTAX = 96
_DUMPABLE = 4
_COPIED = tuple(getattr(builtins, name) for name in COPIED)
#: How many containers that came as attributes are looked at for changes before a message, and how long they may be.
_WATCHED, _SHORT = 7, 4096
#: Special methods that are asked of every object, with the type that the language demands of the answer.
_UNARY: dict[str, type | None] = {
    "len": int, "str": str, "repr": str, "bool": bool, "int": int, "float": float, "index": int, "iter": None,
    "next": None, "enter": None, "reversed": None,
}  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
    "iadd", "isub", "imul", "itruediv", "ior", "iand", "divmod", "lt", "le", "gt", "ge",
)  # fmt: skip
_REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")


_ASKED = ("__name__", "__doc__", "__qualname__", "__wrapped__", "__dict__")


class _Class(type):
    """Stands for a class of the program."""

    _side: _Judge
    _number: int

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls._side.call(cls._number, arguments, named)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_abc_") or name in ("__isabstractmethod__", "_side", "_number"):
            raise AttributeError(name)
        if name == "__dataclass_fields__":
            return _fields(cls._side.told(["fields", cls._number]))
        return cls._side.get(cls._number, name)

    def __iter__(cls) -> Any:
        return iter(cls._side.use(cls._number, "iter"))

    def __len__(cls) -> int:
        return int(cls._side.use(cls._number, "len"))

    def __getitem__(cls, key: Any) -> Any:
        return cls._side.use(cls._number, "getitem", key)

    def __contains__(cls, value: Any) -> bool:
        return bool(cls._side.use(cls._number, "contains", value))

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            cls._side.told(["set", cls._number, name, cls._side.pack(value)])


class _Object:
    """Stands for an object of the program; every use of it is a message."""

    _side: _Judge

    def __getattr__(self, name: str) -> Any:
        if name == "__dataclass_fields__":
            return getattr(type(self), name)
        if name.startswith("__") and name.endswith("__") and name not in _ASKED:
            raise AttributeError(name)
        return self._side.get(_number_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._side.told(["set", _number_of(self), name, self._side.pack(value)])

    def __delattr__(self, name: str) -> None:
        self._side.told(["delete", _number_of(self), name])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._side.call(_number_of(self), arguments, named)

    def __getitem__(self, key: Any) -> Any:
        return self._side.use(_number_of(self), "getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._side.use(_number_of(self), "setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        self._side.use(_number_of(self), "delitem", key)

    def __contains__(self, value: Any) -> bool:
        if _is_named(self):
            return bool(self._side.use(_number_of(self), "contains", value))
        return any(one == value for one in self._side.use(_number_of(self), "iter"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> bool:
        given = (None, None) if error is None else (type(error).__name__, str(error))
        return self._side.use(_number_of(self), "exit", *given) is True and error is not None

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if isinstance(other, _Object):
            asked = ["equal", _number_of(self), self._side.pack(other)]
            return _is_named(self) and _is_named(other) and self._side.told(asked) is True
        found = self._side.unpack(self._side.told(["copied", _number_of(self)]))
        return found is not None and bool(found == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __copy__(self) -> Any:
        return self._side.use(_number_of(self), "copy")

    def __deepcopy__(self, memo: Any) -> Any:
        return self._side.use(_number_of(self), "deepcopy")

    def __format__(self, spec: str) -> str:
        return str(self._side.use(_number_of(self), "format", spec))

    def __round__(self, *digits: int) -> Any:
        return self._side.use(_number_of(self), "round", *digits)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return self._side.use(_number_of(self), "anext")

    async def __aenter__(self) -> Any:
        return self._side.use(_number_of(self), "aenter")

    async def __aexit__(self, *error: object) -> bool:
        return self._side.use(_number_of(self), "aexit", None, None, None) is True

    def __hash__(self) -> int:
        return hash(self._side.use(_number_of(self), "hash"))


_DICT = property(lambda value: value._side.get(_number_of(value), "__dict__"))  # noqa: SLF001
_DOC = property(lambda value: value._side.get(_number_of(value), "__doc__"))  # noqa: SLF001


def _number_of(value: Any) -> int:
    return int(object.__getattribute__(value, "_number"))


def _is_named(value: Any) -> bool:
    """Whether the tests know the class of an object: they have taken it, or one that it is derived from, by name."""
    named = object.__getattribute__(value, "_side").named
    return any(vars(kind).get("_number", -1) in named for kind in type(value).__mro__)


def _unary(name: str, wanted: type | None) -> Callable[[Any], Any]:
    def use(self: Any) -> Any:
        found = self._side.use(_number_of(self), name)
        if wanted is not None and type(found) is not wanted:
            raise ProgramError(f"__{name}__ is no {wanted.__name__}")
        return found

    return use


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def use(self: Any, other: Any) -> Any:
        return self._side.use(_number_of(self), name, other) if _is_named(self) else NotImplemented

    return use


for _name, _wanted in _UNARY.items():
    setattr(_Object, f"__{_name}__", _unary(_name, _wanted))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(_Object, f"__{_name}__", _unary(_name, None))
for _name in _BINARY:
    setattr(_Object, f"__{_name}__", _binary(_name))
for _name in _REFLECTED:
    setattr(_Object, f"__r{_name}__", _binary(f"reflected {_name}"))


class _Judge(Side):
    """Asks the program's process; makes every value itself."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.classes: dict[int, type] = {}
        self.objects: dict[int, Any] = {}
        self.named: set[int] = set()
        self.thrown: set[int] = set()
        #: containers that are attributes of the program's objects, with what they held when they came
        self.copies: list[tuple[int, str, Any, Any]] = []

    def told(self, request: list[Any]) -> Any:
        """The reply to a request, or the exception that the program raised."""
        copies, self.copies = self.copies, []
        for number, attribute, value, before in copies:
            if (now := self.pack(value)) != before:
                self.told(["fill", number, attribute, now])
            self.copies.append((number, attribute, value, now))
        reply = self.ask(request)
        if not isinstance(reply, dict):
            raise ProgramError("no reply")
        for stream, name in ((sys.stdout, "printed"), (sys.stderr, "errors")):
            if isinstance(text := reply.get(name), str) and text:
                stream.write(text)
        if "raised" in reply:
            raise self.exception(reply["raised"])
        return reply.get("value")

    def call(self, number: int, arguments: Any, named: Any) -> Any:
        packed = [self.pack(one) for one in arguments]
        found = self.told(["call", number, packed, [[key, self.pack(value)] for key, value in named.items()]])
        if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], list):
            raise ProgramError("no reply")
        arguments = (*arguments, *named.values())
        for given, changed in zip(arguments, found[1], strict=False):
            if changed is not None:
                _change(given, self.unpack(changed))
        if isinstance(found[0], dict) and "argument" in found[0]:
            place = found[0]["argument"]
            if type(place) is not int or not 0 <= place < len(arguments):
                raise ProgramError("no reply")
            return arguments[place]
        return self.unpack(found[0])

    def get(self, number: int, name: str) -> Any:
        value = self.unpack(self.told(["get", number, name]))
        if type(value) in (list, dict, set) and len(str(before := self.pack(value))) < _SHORT:
            self.copies = [*self.copies[-_WATCHED:], (number, name, value, before)]
        return value

    def use(self, number: int, name: str, *arguments: Any) -> Any:
        return self.unpack(self.told(["use", number, name, [self.pack(one) for one in arguments]]))

    def refer(self, value: Any) -> Any:
        if isinstance(value, type) and isinstance(value, _Class):
            return {"ours": vars(value)["_number"]}
        if getattr(type(value), "_side", None) is self:
            return {"ours": _number_of(value)}
        if known := lent.known_by_name(value):
            return {"named": known}
        return {"theirs": [self.hold(value)]}

    def resolve(self, name: str, inner: Any) -> Any:
        if name == "theirs":
            return self.held[inner]
        if name == "class":
            return self.mirror(inner)
        if name == "failure":
            return self.exception(inner)
        if name == "coroutine":
            return self._awaited(int(inner))
        if name not in ("object", "copy"):
            raise ProgramError("no value")
        number = int(inner[0])
        if number not in self.objects:
            self.objects[number] = self._made(name, inner)
            object.__setattr__(self.objects[number], "_number", number)
        return self.objects[number]

    def _made(self, name: str, inner: Any) -> Any:
        """What stands for an object that is met for the first time."""
        if name == "copy" and inner[2] in COPIED:
            return getattr(builtins, inner[2]).__new__(self.mirror(inner[1]), self.unpack(inner[3]))
        kind = self.mirror(inner[1])
        if _is_failure(kind):
            return BaseException.__new__(kind)
        return object.__new__(kind if isinstance(kind, _Class) and issubclass(kind, _Object) else self.plain)

    async def _awaited(self, number: int) -> Any:
        return self.unpack(self.told(["run", number]))

    @property
    def plain(self) -> type:
        """What stands for objects of the language's own types: functions, modules, generators."""
        if -1 not in self.classes:
            self.classes[-1] = _Class.__new__(
                _Class, "object", (_Object,), {"_side": self, "_number": -1, "__doc__": _DOC, "__dict__": _DICT}
            )
        return self.classes[-1]

    def mirror(self, described: Any) -> type:
        """The class that stands for one of the program's; those of the language are themselves."""
        if isinstance(described, str | dict):
            return _of_the_language(described)
        number, name, bases = int(described[0]), str(described[1]), [self.mirror(one) for one in described[2]]
        if number not in self.classes:
            base = next((kind for kind in _COPIED if any(issubclass(one, kind) for one in bases)), None)
            kept = [one for one in bases if isinstance(one, _Class) or _is_failure(one)]
            above = [one for one in kept if base is None or issubclass(one, base)] or [base or _Object]
            own: dict[str, Any] = {"_side": self, "_number": number}
            if _is_failure(above[0]) or base is not None:
                own["__getattr__"] = _Object.__getattr__
                own["__str__"] = vars(_Object)["__str__"]
            if base is not None:
                own["__repr__"] = vars(_Object)["__repr__"]
            elif not _is_failure(above[0]):
                own |= {"__doc__": _DOC, "__dict__": _DICT}
            container = next((one for one in bases if one in (list, dict, set, frozenset)), None)
            if container is not None:  # isinstance() asks for it where the type itself does not answer
                own["__class__"] = property(lambda _: container)
            self.classes[number] = _Class.__new__(_Class, name, tuple(above), own)
        return self.classes[number]

    def exception(self, described: Any) -> BaseException:
        """An exception of the program, as one of the judge's with the same class, arguments and fields."""
        if isinstance(described, int) and described in self.thrown:
            passed_on: BaseException = self.held[described]
            return passed_on
        if not isinstance(described, list) or len(described) != 5 or not isinstance(described[1], list):
            raise ProgramError("no exception")
        try:
            kind = self.mirror(described[0])
            arguments = tuple(self.unpack(one) for one in described[1])
            if not _is_failure(kind):
                return ProgramError(f"raised {kind.__name__}: {described[2]}")
            made: BaseException = kind.__new__(kind, *arguments)
            fields = {str(name): self.unpack(value) for name, value in described[4]}
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError):
            raise ProgramError("no exception") from None
        made.args = arguments
        above = next(one for one in kind.__mro__ if not isinstance(one, _Class))
        for name, value in fields.items():
            # what the program's own class adds is asked for when it is read
            is_field = hasattr(above, name) or above is kind
            if name == "__cause__" and isinstance(value, BaseException):
                made.__cause__ = value
            if is_field and not name.startswith("_") and not callable(getattr(above, name, None)):
                with contextlib.suppress(AttributeError, TypeError):
                    BaseException.__setattr__(made, name, value)
        if isinstance(kind, _Class):
            made.__dict__["_number"] = int(described[3])
        return made

    def serve(self, request: Any) -> Any:
        """The program uses something that a test gave to it."""
        try:
            how, number, given, words = request
            named = {str(key): self.unpack(one) for key, one in words}
            return {"value": self.pack(lent.use(self.held[number], how, [self.unpack(one) for one in given], named))}
        except Exception as error:  # noqa: BLE001 - what a test's own function raises goes to the program
            if isinstance(type(error), _Class):
                return {"raised": ["ours", [], _number_of(error)]}
            kind = next(one for one in type(error).__mro__ if getattr(builtins, one.__name__, None) is one)
            self.thrown.add(self.hold(error))
            return {"raised": [kind.__name__, [self.pack(one) for one in error.args], self.hold(error)]}


def _of_the_language(described: str | dict[str, str]) -> type:
    """A built-in type, or an exception of the standard library that the tests have loaded."""
    if isinstance(described, str):
        found = getattr(builtins, described, object)
        return found if isinstance(found, type) else object
    module = described["module"] if described["module"].partition(".")[0] in sys.stdlib_module_names else ""
    found = getattr(sys.modules.get(module), described["name"], Exception)
    return found if isinstance(found, type) and issubclass(found, Exception) else Exception


def _fields(names: Any) -> dict[str, Any]:
    """Fields of a data class of the program, as the functions of ``dataclasses`` look for them."""
    made = dataclasses.make_dataclass("made", [str(name) for name in names])
    return {one.name: one for one in dataclasses.fields(made)}


def _is_failure(kind: type) -> bool:
    """Whether it is an exception that a test may expect."""
    return issubclass(kind, Exception | SystemExit)


def _change(given: Any, changed: Any) -> None:
    """Do to an argument what the program did to its copy."""
    if type(given) is not type(changed) or given == changed:
        return
    if isinstance(given, list | bytearray):
        given[:] = changed
    elif isinstance(given, dict | set):
        given.clear()
        given.update(changed)


class _Module(types.ModuleType):
    """Stands for the program's module."""

    def __init__(self, side: _Judge) -> None:
        super().__init__("solution")
        self.__dict__["_side"] = side

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self.__dict__["_side"].told(["names", 0])
        if name.startswith("__"):
            raise AttributeError(name)
        side = self.__dict__["_side"]
        found = side.get(0, name)
        if isinstance(found, _Class):
            side.named.add(vars(found)["_number"])
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            side = self.__dict__["_side"]
            side.told(["set", 0, name, side.pack(value)])

    def __delattr__(self, name: str) -> None:
        self.__dict__["_side"].told(["delete", 0, name])


class _Recorder:
    """Outcomes of a pytest run, by test; and the test file, which stands in no folder."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_pycollect_makemodule(self, module_path: Any, parent: Any) -> Any:
        """Collect the tests from memory."""
        import ast

        import pytest
        from _pytest.assertion.rewrite import rewrite_asserts

        source = self.source

        class Held(pytest.Module):
            def _getobj(self) -> Any:
                tree = ast.parse(source)
                rewrite_asserts(tree, source.encode("utf-8", "surrogatepass"), str(self.path), self.config)
                module = types.ModuleType("test_solution")
                module.__file__ = str(self.path)
                sys.modules["test_solution"] = module
                exec(compile(tree, "test_solution.py", "exec"), module.__dict__)  # noqa: S102 - the task's own tests
                return module

        return Held.from_parent(parent, path=module_path)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the worst of a test's three phases."""
        if report.outcome != "passed" or report.when == "call":
            name = report.nodeid.split("::", 1)[-1]
            if self.outcomes.get(name, ("passed", ""))[0] == "passed":
                crash = getattr(report.longrepr, "reprcrash", None)
                self.outcomes[name] = (report.outcome, str(crash.message)[:200] if crash else "")


def _input(kind: str, *arguments: Any) -> str:
    """What the program asks of standard input: as the tests have it now."""
    found = {"input": builtins.input, "readline": sys.stdin.readline, "read": sys.stdin.read}[kind](*arguments)
    return str(found)


def _judge(side: _Judge, work: dict[str, Any], report: io.TextIOWrapper) -> None:
    """Run the tests and report the outcome of each."""
    sys.path[:] = [*work["paths"], *(path for path in sys.path if path.startswith(("/usr", "/python")))]
    import pytest

    sys.modules["solution"] = _Module(side)
    side.told(["stdin", side.hold(_input)])
    recorder = _Recorder(work["tests"])
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:doctest", "--rootdir=/box", "-c", "/dev/null", "--noconftest"]
    pytest.main([*plain, "/box/test_solution.py"], plugins=[recorder])
    report.write(json.dumps({"outcomes": recorder.outcomes}) + MARK + "\n")
    report.flush()


def main() -> None:
    """Fork the program, read the work from standard input, and report where the tests' own output does not go.

    Examples
    --------
    >>> _of_the_language("ValueError"), _of_the_language({"module": "shutil", "name": "rmtree"})
    (<class 'ValueError'>, <class 'Exception'>)
    """
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
            be_the_program(theirs)
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
