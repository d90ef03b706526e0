"""Starts sandboxed jobs from within their control group, and sees to it that nothing of them is left.

A small process of its own, run as a script without site packages. It moves into the control group of its slot once, so
that every job it starts is born there: no job pays for the move. As root it also gives jobs a view of folders that only
root can reach (bound in a mount namespace that ends with it) and starts them as the user nobody. One job at a time.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

NOBODY = 65534
#: Where folders that jobs may read are bound when the launcher is root.
STAGE = "/mnt"
#: Seconds after a job's end within which its processes must be gone; the kernel removes a million files before that.
REAP_S = 40.0
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x00020000, 0x1000, 0x4000, 0x40000
_SUBREAPER = 36
_CHUNK = 65536
_MILLI = 1000  # poll counts in ms
_NANO = 1_000_000_000  # the scheduler counts in ns
_LOOKED_AT = 64
_PATIENCE_S = 5.0  # for a process that is ready to get a processor, before its wait is judged


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Read a number of bytes from a socket.

    Examples
    --------
    >>> one, other = socket.socketpair()
    >>> one.sendall(b"abcdef")
    >>> receive_exactly(other, 4)
    b'abcd'
    >>> one.close(), other.close()
    (None, None)
    """
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError("the other side has closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send_message(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message to a trusted process of the same Python.

    Examples
    --------
    >>> one, other = socket.socketpair()
    >>> send_message(one, {"exit": 0})
    >>> receive_message(other)
    {'exit': 0}
    >>> one.close(), other.close()
    (None, None)
    """
    body = marshal.dumps(message)
    connection.sendall(struct.pack("=Q", len(body)) + body)


def receive_message(connection: socket.socket) -> dict[str, Any]:
    """Receive what :func:`send_message` sent.

    Examples
    --------
    >>> one, other = socket.socketpair()
    >>> send_message(one, {"files": [b"x"]})
    >>> receive_message(other)
    {'files': [b'x']}
    >>> one.close(), other.close()
    (None, None)
    """
    size = struct.unpack("=Q", receive_exactly(connection, 8))[0]
    message: dict[str, Any] = marshal.loads(receive_exactly(connection, size))  # noqa: S302 - from our own process
    return message


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _stage(folders: list[str]) -> list[str]:
    """Bind folders below STAGE in a mount namespace of our own; their new paths."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "unshare")
    _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount private")
    _check(libc.mount(b"tmpfs", STAGE.encode(), b"tmpfs", 0, b"mode=755,size=1m"), "mount tmpfs")
    paths = []
    for place, folder in enumerate(folders):
        path = f"{STAGE}/{place}"
        os.mkdir(path)
        _check(libc.mount(folder.encode(), path.encode(), None, _MS_BIND, None), f"bind {folder}")
        paths.append(path)
    return paths


def _enter(path: str, text: str) -> None:
    """Write to a control file."""
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def set_limit(kind: int, wanted: int) -> None:
    """Set a resource limit, as far as this process may; after processor time a signal comes first, then the end.

    Examples
    --------
    >>> set_limit(resource.RLIMIT_CORE, 0)
    """
    highest = resource.getrlimit(kind)[1]
    free = highest == resource.RLIM_INFINITY
    soft = wanted if free else min(wanted, highest)
    resource.setrlimit(kind, (soft, soft + 1 if kind == resource.RLIMIT_CPU and free else soft))


def _memory_file(content: bytes) -> int:
    """A file in memory, to be read from its start."""
    handle = os.memfd_create("job")
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _start(job: dict[str, Any], standard: tuple[int, int, int], kept: dict[str, int], nobody: bool) -> int:
    """Fork a child that becomes the job; its process id."""
    numbers = {f"{{{name}}}": str(handle) for name, handle in kept.items()}
    arguments = [numbers.get(argument, argument) for argument in job["command"]]
    pid = os.fork()
    if pid:
        return pid
    try:
        for place, handle in enumerate(standard):
            os.dup2(handle, place)
        for handle in kept.values():
            os.set_inheritable(handle, True)
        _enter("/proc/self/oom_score_adj", job["score"])
        for name, wanted in job["rlimits"].items():
            set_limit(getattr(resource, name), wanted)
        if nobody:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        os.execve(arguments[0], arguments, {})  # noqa: S606 - bubblewrap, with arguments of our own
    except OSError as error:
        os.write(2, f"launcher: {error}".encode())
    finally:
        os._exit(127)


def _status(text: bytes) -> tuple[int | None, int | None]:
    """Process id of the namespace's first process and exit code of the job, from what bubblewrap reports."""
    words = text.replace(b",", b" ").replace(b"}", b" ").split()
    found: dict[bytes, int] = {}
    for name, value in zip(words, words[1:], strict=False):  # noqa: RUF007 - itertools is not loaded here
        if name in (b'"child-pid":', b'"exit-code":') and value.isdigit():
            found[name] = int(value)
    return found.get(b'"child-pid":'), found.get(b'"exit-code":')


def _schedule(pid: int) -> tuple[int, int, int, bool]:
    """Of a process: time on a processor and time ready for one [ns], how often it got one, and whether it is ready."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            ran, waited, slices = (int(word) for word in file.read().split())
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):  # it has ended, or the kernel does not count
        return 0, 0, 0, False
    return ran, waited, slices, state == "R"


def waited_s(pids: list[int], most_s: float = 0.0) -> float:
    """How long processes were ready to run while the machine ran others: the longest of them.

    The kernel adds a wait when it ends, so one that lasts is waited for. A process that runs, or sleeps, is not.

    Examples
    --------
    >>> waited_s([os.getpid()]) >= 0.0, waited_s([])
    (True, 0.0)
    """
    begun, before = time.monotonic(), {pid: _schedule(pid) for pid in pids}
    pending = [pid for pid, seen in before.items() if seen[3]]
    while pending and time.monotonic() < begun + most_s:
        time.sleep(0.005)
        pending = [pid for pid in pending if _schedule(pid) == before[pid]]
    lasting_s = time.monotonic() - begun if pending and most_s else 0.0
    return max((_schedule(pid)[1] / _NANO + lasting_s * (pid in pending) for pid in pids), default=0.0)


class _Streams:
    """What a job prints: kept up to a cap, and too much beyond the most that it may print."""

    def __init__(self, handles: dict[int, int], most: int) -> None:
        self.caps = handles
        self.most = most
        self.text = {handle: bytearray() for handle in handles}
        self.read_bytes = dict.fromkeys(handles, 0)
        self.overflow = False

    def read(self, handle: int) -> bool:
        """Read once; False at the end of the stream."""
        try:
            part = os.read(handle, _CHUNK)
        except BlockingIOError:
            return True
        self.text[handle] += part[: self.caps[handle] - len(self.text[handle])]
        self.read_bytes[handle] += len(part)
        self.overflow |= self.read_bytes[handle] > self.most
        return bool(part)


def _watch(pid: int, streams: _Streams, control: socket.socket, wall_s: float) -> str:
    """Wait for the end of a job: "" when it ended by itself, else why it must end."""
    poll = select.poll()
    ended = os.pidfd_open(pid)
    for handle in (ended, *streams.caps):
        poll.register(handle, select.POLLIN)
    poll.register(control, select.POLLHUP)
    deadline = time.monotonic() + wall_s
    try:
        while (left := deadline - time.monotonic()) > 0:
            for handle, _ in poll.poll(left * _MILLI):
                if handle == ended:
                    return ""
                if handle == control.fileno():
                    return "abandoned"
                if not streams.read(handle):
                    poll.unregister(handle)
            if streams.overflow:
                return "output"
        return "timeout"
    finally:
        os.close(ended)


def _reap(child: int, pid: int) -> tuple[int, float, bool]:
    """Wait until every descendant is gone: wait status of the child, CPU seconds, and whether all are gone."""
    status, cpu_s, deadline = 0, 0.0, time.monotonic() + REAP_S
    while time.monotonic() < deadline:
        try:
            found, code, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return status, cpu_s, True
        if found == 0:
            for left in (child, pid):
                if left:
                    _kill(left)
            time.sleep(0.0005)
            continue
        if found == child:
            status = code
        cpu_s += used.ru_utime + used.ru_stime
    return status, cpu_s, False


def _run(job: dict[str, Any], control: socket.socket, nobody: bool) -> dict[str, Any]:
    """Run one job to its end and to the end of everything it started."""
    files = {f"file{place}": _memory_file(content) for place, content in enumerate(job["files"])}
    stdin = _memory_file(job["stdin"])
    (out, out_end), (err, err_end), (told, told_end) = os.pipe(), os.pipe(), os.pipe()
    started = time.monotonic()
    child = _start(job, (stdin, out_end, err_end), {**files, "status": told_end}, nobody)
    for handle in (*files.values(), stdin, out_end, err_end, told_end):
        os.close(handle)
    for handle in (out, err, told):
        os.set_blocking(handle, False)
    streams = _Streams({out: job["output_bytes"], err: job["error_bytes"], told: _CHUNK}, job["output_bytes"])
    why = _watch(child, streams, control, job["wall_s"])
    wall_s = time.monotonic() - started
    while why == "" and streams.read(told) and b"child-pid" not in streams.text[told]:
        time.sleep(0.0002)
    inside = _status(bytes(streams.text[told]))[0]
    delay_s = waited_s(_family(inside), min(job["wall_s"], _PATIENCE_S)) if why == "timeout" and inside else 0.0
    for pid in (child, inside) if why else (inside,):
        if pid:
            _kill(pid)
    status, cpu_s, gone = _reap(child, inside or 0)
    for handle in (out, err, told):
        while not streams.overflow and _more(streams, handle):
            pass
        os.close(handle)
    code = _status(bytes(streams.text[told]))[1]
    return {
        "why": why, "code": code, "status": status, "gone": gone, "wall_s": wall_s, "cpu_s": cpu_s, "delay_s": delay_s,
        "stdout": bytes(streams.text[out]), "stderr": bytes(streams.text[err]), "overflow": streams.overflow,
    }  # fmt: skip


def _more(streams: _Streams, handle: int) -> bool:
    before = streams.read_bytes[handle]
    return streams.read(handle) and streams.read_bytes[handle] > before


def _family(pid: int) -> list[int]:
    """A process and its descendants, a limited number of them."""
    found = [pid]
    for one in found:
        try:
            with open(f"/proc/{one}/task/{one}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        except OSError:  # it has ended meanwhile
            continue
        if len(found) > _LOOKED_AT:
            break
    return found[:_LOOKED_AT]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _serve(control: socket.socket, setup: dict[str, Any]) -> None:
    """Answer requests until the other side closes."""
    nobody = bool(setup["nobody"])
    while True:
        try:
            job = receive_message(control)
        except (EOFError, ConnectionResetError):
            return
        if job.get("detached"):
            # a long-lived service: its socket is ours to hand on, and it ends when its owner closes the other end
            service = int(setup["service"])
            null = os.open(os.devnull, os.O_RDWR)
            files = {f"file{place}": _memory_file(content) for place, content in enumerate(job["files"])}
            answer = {"pid": _start(job, (service, null, null), files, nobody)}
            for handle in (*files.values(), null, service):
                os.close(handle)
        else:
            answer = _run(job, control, nobody)
        send_message(control, answer)


def main() -> None:
    """Serve the socket whose number is the first argument, until it closes.

    Examples
    --------
    >>> callable(main)
    True
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    setup = receive_message(control)
    os.set_inheritable(int(setup["service"]), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the owner's to handle
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        for path in setup["enter"]:
            _enter(path, str(os.getpid()))
        paths = _stage(setup["folders"]) if setup["nobody"] else setup["folders"]
        send_message(control, {"paths": paths})
        _serve(control, setup)
    except OSError as error:
        send_message(control, {"error": str(error)})
    finally:
        _kill_children()
        for path in setup["leave"]:
            _enter(path, str(os.getpid()))
        for folder in setup["remove"]:
            os.rmdir(folder)


def _kill_children() -> None:
    """End whatever still runs below this process, the service included."""
    deadline = time.monotonic() + REAP_S
    while time.monotonic() < deadline:
        try:
            children = open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii").read().split()  # noqa: SIM115
            for child in children:
                _kill(int(child))
            os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.001)


if __name__ == "__main__":
    main()
