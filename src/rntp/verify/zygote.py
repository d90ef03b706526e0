"""The first process of a warm sandbox: an interpreter that has loaded its modules and forks a child per job.

It is process 1 of its namespace, so that no job can signal it, and not dumpable, so that no job can look into it. After
each job everything in the namespace but itself is killed and /tmp emptied. Run as a script without site packages;
standard input is the socket of its owner. Two kinds of work: ``jobs`` (untrusted programs, each in a child of its own)
and ``calls`` (functions of this project on untrusted text, in a child that lives on until one overruns its time).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import marshal
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
import types
from typing import Any, NoReturn

#: why it ended, wait status, wall s, CPU s, s in which it was ready and others ran, length of output and of errors
REPLY = struct.Struct("=BidddII")
ENDED, TIMEOUT, RECYCLE, FLOOD = 0, 1, 2, 4
#: Exit code of a program that cannot be compiled.
SYNTAX = 96
_DUMPABLE = 4
_LIBC = ctypes.CDLL(None)
_FILES = 64
_MILLI = 1000  # poll counts in ms
_NANO = 1_000_000_000  # the scheduler counts in ns
_PATIENCE_S = 5.0  # as in launcher.py
_KINDS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})
#: What programs import most; loaded once, shared by every job.
_USUAL = (
    "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "heapq",
    "itertools", "math", "operator", "random", "re", "statistics", "string", "typing", "_sitebuiltins",
)  # fmt: skip


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _request(connection: socket.socket) -> dict[str, Any]:
    body: dict[str, Any] = marshal.loads(_receive(connection, struct.unpack("=Q", _receive(connection, 8))[0]))  # noqa: S302
    return body


def _memory_file(content: bytes) -> int:
    handle = os.memfd_create("job")
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _schedule(pid: int) -> tuple[int, int, int, bool]:
    """As launcher._schedule, which this file cannot import."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            ran, waited, slices = (int(word) for word in file.read().split())
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return 0, 0, 0, False
    return ran, waited, slices, state == "R"


def _waited_s(pids: list[int], most_s: float = 0.0) -> float:
    """How long the longest of some processes was ready to run while the machine ran others; as launcher.waited_s."""
    begun, before = time.monotonic(), {pid: _schedule(pid) for pid in pids}
    pending = [pid for pid, seen in before.items() if seen[3]]
    while pending and time.monotonic() < begun + most_s:
        time.sleep(0.005)
        pending = [pid for pid in pending if _schedule(pid) == before[pid]]
    lasting_s = time.monotonic() - begun if pending and most_s else 0.0
    return max((_schedule(pid)[1] / _NANO + lasting_s * (pid in pending) for pid in pids), default=0.0)


def _others() -> list[int]:
    """Processes of the namespace beside this one, a limited number of them."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"][:_FILES]


def _own_state() -> tuple[Any, ...]:
    """All of this process that a job could have changed from outside, or that its child would inherit."""
    umask = os.umask(0)
    os.umask(umask)
    return (
        [resource.getrlimit(kind) for kind in _KINDS], os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0),
        os.sched_getscheduler(0), signal.pthread_sigmask(signal.SIG_BLOCK, ()), umask, os.getcwd(), os.getsid(0),
        [signal.getitimer(which) for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
    )  # fmt: skip


def _limit(rlimits: dict[str, int]) -> None:
    """What the child gives up before it runs anything of the job's."""
    _LIBC.prctl(_DUMPABLE, 1, 0, 0, 0)  # its own /proc/self and /dev/stdin are the job's again
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"1000")
    for name, wanted in rlimits.items():
        kind = getattr(resource, name)
        highest = resource.getrlimit(kind)[1]
        free = highest == resource.RLIM_INFINITY
        soft = wanted if free else min(wanted, highest)
        # after processor time a signal comes first, then the end
        resource.setrlimit(kind, (soft, soft + 1 if kind == resource.RLIMIT_CPU and free else soft))


def run_source(source: bytes, module: types.ModuleType) -> int:
    """Run a program as ``__main__`` of this process and say how it would have exited.

    Examples
    --------
    >>> run_source(b"raise SystemExit(3)", types.ModuleType("__main__"))
    3
    """
    code: Any = 0
    try:
        compiled = compile(source, "main.py", "exec")
    except SyntaxError as error:
        print(f"{type(error).__name__}: line {error.lineno}: {error.msg}", file=sys.stderr, flush=True)  # noqa: T201
        return SYNTAX
    except (ValueError, RecursionError, MemoryError):
        traceback.print_exc()
        return 1
    try:
        exec(compiled, module.__dict__)  # noqa: S102 - the job itself, in its own process
    except SystemExit as stop:
        code = stop.code
    except BaseException:  # noqa: BLE001 - whatever a program raises is printed and ends it
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return code & 0xFF if isinstance(code, int) else int(code is not None)


def _become(job: dict[str, Any], standard: tuple[int, int, int]) -> NoReturn:
    """In the child: run the job and never return."""
    status = 125
    try:
        os.setsid()
        for place, handle in enumerate(standard):
            os.dup2(handle, place)
        if job["kind"] == "binary":
            program = os.dup2(_memory_file(job["source"]), _FILES)
            os.closerange(3, program)
            os.closerange(program + 1, 4 * _FILES)
            os.set_inheritable(program, True)
            _limit(job["rlimits"])
            os.execve(program, ["main"], dict(os.environ))  # noqa: S606 - the job itself
        os.closerange(3, 4 * _FILES)
        _limit(job["rlimits"])
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        module.__file__ = "main.py"
        status = run_source(job["source"], module)
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()  # noqa: SLF001 - waits for the program's threads, as at any exit
        if "atexit" in sys.modules:
            sys.modules["atexit"]._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 120  # the interpreter's own code when output cannot be flushed
    finally:
        os._exit(status)


def _everything_ends() -> tuple[float, dict[int, int]]:
    """Kill all but ourselves and reap: CPU seconds, and wait status by process."""
    if os.getpid() != 1:
        raise RuntimeError("only process 1 of a namespace may kill all that is in it")
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    cpu_s, statuses = 0.0, dict[int, int]()
    while True:
        try:
            pid, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return cpu_s, statuses
        statuses[pid] = status
        cpu_s += used.ru_utime + used.ru_stime


def _tidy() -> bool:
    """Empty /tmp; False where a job left more than can be removed quickly, or closed or marked it for others."""
    root = "/tmp"  # noqa: S108 - the sandbox's own
    try:
        if os.stat(root).st_mode & 0o7777 != 0o1777 or os.listxattr(root) or not _is_little(root):
            return False
        for name in os.listdir(root):
            path = f"{root}/{name}"
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        return not os.listdir(root)
    except (OSError, RecursionError):
        return False


def _is_little(root: str) -> bool:
    """Whether a folder holds few enough files, at any depth, to remove them one by one."""
    left, folders = 16 * _FILES, [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return True


def _run(job: dict[str, Any], state: tuple[Any, ...]) -> tuple[bytes, bool]:
    """Run one job; the reply, and whether the sandbox can go on: /tmp is empty and this process is what it was."""
    standard = (_memory_file(job["stdin"]), os.memfd_create("out"), os.memfd_create("err"))
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(job, standard)
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    why = ENDED if poll.poll(job["wall_s"] * _MILLI) else TIMEOUT
    wall_s = time.monotonic() - started
    delay_s = _waited_s(_others(), min(job["wall_s"], _PATIENCE_S)) if why == TIMEOUT else 0.0
    cpu_s, statuses = _everything_ends()
    status = statuses.get(child, signal.SIGKILL)
    if max(os.fstat(handle).st_size for handle in standard[1:]) > job["output_bytes"]:
        why |= FLOOD
    out, err = os.pread(standard[1], job["output_bytes"], 0), os.pread(standard[2], job["error_bytes"], 0)
    for handle in (*standard, ended):
        os.close(handle)
    clean = _tidy() and _own_state() == state
    why = why if clean else why | RECYCLE
    return REPLY.pack(why, status, wall_s, cpu_s, delay_s, len(out), len(err)) + out + err, clean


def _answer_calls(connection: socket.socket) -> NoReturn:
    """In the child of a service: call functions until killed."""
    functions: dict[str, Any] = {}
    while True:
        job = _request(connection)
        name, before = job["function"], time.process_time()
        if name not in functions:
            module, _, function = name.partition(":")
            functions[name] = getattr(importlib.import_module(module), function)
        try:
            answer = {"value": functions[name](*job["arguments"])}
        except MemoryError:
            answer = {"memory": True}
        except Exception as error:  # noqa: BLE001 - what a library raises on strange text is reported, not fatal
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        answer["cpu_s"] = time.process_time() - before
        body = json.dumps(answer).encode()
        connection.sendall(struct.pack("=I", len(body)) + body)


class _Service:
    """A forked child that answers calls; a new one is forked from what is loaded when one overruns or dies."""

    def __init__(self, rlimits: dict[str, int]) -> None:
        self.rlimits = rlimits
        self.child: int | None = None
        self.connection: socket.socket | None = None

    def start(self) -> socket.socket:
        """The connection to a living child."""
        if self.connection is not None:
            return self.connection
        ours, its = socket.socketpair()
        self.child = os.fork()
        if self.child == 0:
            try:
                ours.close()
                _limit(self.rlimits)
                _answer_calls(its)
            except EOFError:
                pass
            finally:
                os._exit(0)
        its.close()
        self.connection = ours
        return ours

    def stop(self) -> tuple[float, dict[int, int]]:
        """End the child; its CPU seconds and its wait status."""
        if os.getpid() == 1:
            cpu_s, statuses = _everything_ends()
        else:
            pid = self.child or 0
            os.kill(pid, signal.SIGKILL)
            _, status, used = os.wait4(pid, 0)
            cpu_s, statuses = used.ru_utime + used.ru_stime, {pid: status}
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        return cpu_s, statuses

    def call(self, job: dict[str, Any]) -> bytes:
        """The reply to one call."""
        connection, started = self.start(), time.monotonic()
        child = self.child
        waited_s = _waited_s([child or 0])
        connection.settimeout(job["wall_s"])
        try:
            body = marshal.dumps(job)
            connection.sendall(struct.pack("=Q", len(body)) + body)
            out = _receive(connection, struct.unpack("=I", _receive(connection, 4))[0])
        except (EOFError, OSError) as error:
            delay_s = _waited_s([child or 0], min(job["wall_s"], _PATIENCE_S)) - waited_s
            cpu_s, statuses = self.stop()
            why = TIMEOUT if isinstance(error, TimeoutError) else ENDED
            status = statuses.get(child or 0, signal.SIGKILL)
            return REPLY.pack(why, status or signal.SIGKILL, time.monotonic() - started, cpu_s, delay_s, 0, 0)
        return REPLY.pack(ENDED, 0, time.monotonic() - started, 0.0, 0.0, len(out), 0) + out


def main() -> None:
    """Serve standard input until it closes.

    Examples
    --------
    >>> callable(main)
    True
    """
    connection = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for place in range(3):
        os.dup2(null, place)
    for place, mode in enumerate(("r", "w", "w")):
        stream = io.open(place, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: UP020, SIM115
        setattr(sys, ("stdin", "stdout", "stderr")[place], stream)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    setup = _request(connection)
    sys.path[:0] = setup["paths"]
    for name in setup["preload"] or _USUAL:
        module = importlib.import_module(name)
        if name.startswith("rntp."):
            module.load()
    builtins = importlib.import_module("builtins")
    site = importlib.import_module("_sitebuiltins")
    for name in ("exit", "quit"):
        setattr(builtins, name, site.Quitter(name, "Ctrl-D (i.e. EOF)"))
    _LIBC.prctl(_DUMPABLE, 0, 0, 0, 0)
    service = _Service(setup["rlimits"])
    gc.collect()
    gc.freeze()  # what is loaded is never collected, so that children do not copy its pages
    connection.sendall(REPLY.pack(ENDED, 0, 0.0, 0.0, 0.0, 0, 0))
    state = _own_state()
    try:
        while True:
            job = _request(connection)
            if job["kind"] != "call" and os.getpid() != 1:
                return  # outside a sandbox nothing runs but our own functions
            reply, clean = (service.call(job), True) if job["kind"] == "call" else _run(job, state)
            connection.sendall(reply)
            if not clean:
                return
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    main()
