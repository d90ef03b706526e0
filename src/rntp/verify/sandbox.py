"""Sandboxes: a fresh one for every run, or a warm one whose interpreter forks a child per run.

Each holds one slot: a launcher process in a control group of its own. What failed for a reason that is not the job's is
a :class:`~rntp.errors.SandboxError`, and no verdict.
"""

from __future__ import annotations

import marshal
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rntp.errors import SandboxError
from rntp.verify import zygote
from rntp.verify.bubblewrap import BOX, PACKAGES, PYTHON, View, command, interpreter
from rntp.verify.launcher import receive_exactly
from rntp.verify.limits import Limits
from rntp.verify.slot import GRACE_S, Process, Slot

_ERROR_BYTES = 16384
#: Share of the wall time that a starved run waits for a processor at least, and has one at most.
_STARVED = 0.3
# The program becomes __main__ itself, as when it is run by name; what site would define is defined.
_BOOT = f"""
import builtins, os, sys, _sitebuiltins
for name in ("exit", "quit"):
    setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
with open("{BOX}/main.py", "rb") as file:
    code = file.read()
try:
    code = compile(code, "main.py", "exec")
except SyntaxError as error:
    print(f"{{type(error).__name__}}: line {{error.lineno}}: {{error.msg}}", file=sys.stderr, flush=True)
    os._exit({zygote.SYNTAX})
sys.modules["__main__"].__dict__["__file__"] = "main.py"
del builtins, os, sys, _sitebuiltins, name, file
exec((lambda: (globals()["code"], globals().pop("code"))[0])())
"""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a program."""

    source: bytes
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    compiled: bool = False
    command: tuple[str, ...] = ()
    place: str = f"{BOX}/main.py"
    files: Mapping[str, bytes] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    ended: str
    code: int
    stdout: bytes
    stderr: bytes
    wall_s: float
    cpu_s: float
    delay_s: float = 0.0

    @property
    def is_starved(self) -> bool:
        """Whether the machine, not the program, used up the time: it was ready, and got little of a processor."""
        waited = self.delay_s >= _STARVED * self.wall_s and self.cpu_s < _STARVED * self.wall_s
        return self.ended == "timeout" and waited


def _as_memory(outcome: Outcome) -> Outcome:
    """An allocation that was refused, where the kernel had no need to kill."""
    last = outcome.stderr.rstrip().rsplit(b"\n", 1)[-1]
    refused = last.startswith(b"MemoryError") or b"std::bad_alloc" in outcome.stderr
    if not refused or outcome.ended not in ("exit", "signal") or outcome.code == 0:
        return outcome
    return Outcome("memory", outcome.code, outcome.stdout, outcome.stderr, outcome.wall_s, outcome.cpu_s)


def _folders(more: Mapping[str, str]) -> dict[str, str]:
    folder, program = interpreter()
    return {**({PYTHON: str(folder)} if program.startswith(PYTHON) else {}), **more}


class Sandbox:
    """Runs each job in a sandbox of its own, made for it and gone after it."""

    def __init__(self, folders: Mapping[str, str] | None = None) -> None:
        self.folders = _folders(folders or {})
        self._slot: Slot | None = None

    @property
    def grouped(self) -> bool:
        """Whether a control group holds memory, processes and processor time."""
        return self._open(Limits()).group is not None

    def _open(self, limits: Limits) -> Slot:
        if self._slot is None:
            self._slot = Slot(limits, list(self.folders.values()))
        if self._slot.group is not None:
            self._slot.group.set_limits(limits)
        return self._slot

    def run(self, job: Job) -> Outcome:
        """Run a job to its end, and to the end of everything it started."""
        slot = self._open(job.limits)
        files = {job.place: job.source, **job.files}
        places = dict(zip(self.folders, slot.paths, strict=True))
        view = View(places, tuple(files), (job.place,) if job.compiled else (), job.limits.tmp_bytes)
        rlimits = {**job.limits.rlimits(grouped=slot.group is not None), "RLIMIT_FSIZE": _largest(job)}
        arguments = _inside(_arguments(job, slot.program), rlimits.pop("RLIMIT_NPROC", None))
        message = {
            "command": command(slot.bubblewrap, view, arguments),
            "files": [*files.values(), slot.filter], "stdin": job.stdin, "wall_s": job.limits.wall_s,
            "rlimits": rlimits,
            "output_bytes": job.limits.output_bytes, "error_bytes": _ERROR_BYTES, "score": "1000",
        }  # fmt: skip
        before = slot.used()
        try:
            answer = slot.ask(message, job.limits.wall_s + GRACE_S)
        except SandboxError:
            killed, cpu_s = slot.since(before)
            self.close()
            if killed:  # the job has taken the launcher with it
                return Outcome("memory", signal.SIGKILL, b"", b"", 0.0, cpu_s or 0.0)
            raise
        if not answer["gone"]:
            self.close()
            raise SandboxError("processes of a job could not be ended; the sandbox was given up")
        killed, cpu_s = slot.since(before)
        answer["cpu_s"] = answer["cpu_s"] if cpu_s is None else cpu_s
        return _as_memory(_fresh_outcome(answer, job.limits, killed=killed))

    def close(self) -> None:
        """End the slot; the next job starts another one."""
        if self._slot is not None:
            self._slot.close()
        self._slot = None

    def __enter__(self) -> Self:
        """Nothing is started before the first job."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def _arguments(job: Job, program: str) -> list[str]:
    """What runs in the sandbox."""
    return list(job.command) or ([job.place] if job.compiled else [program, "-S", "-s", "-c", _BOOT])


def _inside(arguments: list[str], processes: int | None) -> list[str]:
    """The same under a limit on processes, set within the namespace, by way of a shell."""
    if processes is None:
        return arguments
    return ["/usr/bin/sh", "-c", f'ulimit -p {processes} && exec "$@"', "sh", *arguments]


def _largest(job: Job) -> int:
    """Size of a file that may be written: bubblewrap copies the program in under the same limit."""
    return max(job.limits.tmp_bytes, len(job.source), *map(len, job.files.values()), 0)


def _fresh_outcome(answer: dict[str, Any], limits: Limits, *, killed: bool) -> Outcome:
    """Read how a fresh run ended; one that never began is no outcome."""
    out, err, wall_s, cpu_s = answer["stdout"], answer["stderr"], answer["wall_s"], answer["cpu_s"]
    code = answer["code"]
    # bubblewrap reports a job that a signal ended as 128 and the signal
    number = code - 128 if code is not None and code > 128 else 0
    if answer["why"] == "timeout" or (code is not None and cpu_s > limits.cpu_s) or number == signal.SIGXCPU:
        return Outcome("timeout", 0, out, err, wall_s, cpu_s, answer["delay_s"])
    if answer["why"] == "output":
        return Outcome("output", 0, out, err, wall_s, cpu_s)
    if killed and code != 0:
        return Outcome("memory", number, out, err, wall_s, cpu_s)
    if answer["why"] or code is None:
        raise SandboxError(f"the sandbox did not start: {err.decode('utf-8', 'replace').strip()[-300:] or 'no reason'}")
    if number:
        return Outcome("signal", number, out, err, wall_s, cpu_s)
    return Outcome("exit", code, out, err, wall_s, cpu_s)


class WarmSandbox:
    """One sandbox whose interpreter has loaded its modules and forks a child per job or serves calls.

    Jobs share its namespaces one after another: after each one every process is killed and /tmp emptied, or the sandbox
    replaced. Calls run functions of trusted modules on untrusted text.
    """

    def __init__(
        self,
        limits: Limits,
        preload: Sequence[str] = (),
        folders: Mapping[str, str] | None = None,
        *,
        sandboxed: bool = True,
    ) -> None:
        self.limits, self.preload, self.sandboxed = limits, tuple(preload), sandboxed
        self.folders = _folders(folders or {}) if sandboxed else dict(folders or {})
        self._slot: Slot | Process | None = None

    def _open(self) -> Slot | Process:
        if self._slot is None:
            self._slot = self._sandbox() if self.sandboxed else Process()
            paths = [place for place in self.folders if place.startswith(PACKAGES)]
            own = self.limits.rlimits(grouped=self._slot.group is not None)
            own.pop("RLIMIT_CPU")  # a child that answers calls lives on
            if not self.sandboxed:
                paths = [self.folders[place] for place in paths]
                own.pop("RLIMIT_NPROC", None)  # outside a user namespace it counts what else the user runs
            self._send({"paths": paths, "preload": list(self.preload), "rlimits": own})
            self._reply(GRACE_S)
        return self._slot

    def _sandbox(self) -> Slot:
        slot = Slot(self.limits, list(self.folders.values()))
        view = View(
            dict(zip(self.folders, slot.paths, strict=True)), (f"{BOX}/zygote.py",), tmp_bytes=self.limits.tmp_bytes
        )
        line = command(slot.bubblewrap, view, [slot.program, "-S", "-s", f"{BOX}/zygote.py"], told=False)
        rlimits = self.limits.rlimits(grouped=True)
        message = {
            "detached": True, "score": "500", "command": line,
            "files": [Path(zygote.__file__).read_bytes(), slot.filter],
            "rlimits": {name: rlimits[name] for name in ("RLIMIT_CORE", "RLIMIT_STACK")},
        }  # fmt: skip
        slot.ask(message, GRACE_S)
        return slot

    def _send(self, message: dict[str, Any]) -> None:
        if self._slot is None:
            raise SandboxError("the warm sandbox has ended")
        body = marshal.dumps(message)
        try:
            self._slot.service.sendall(struct.pack("=Q", len(body)) + body)
        except OSError as error:
            self.close()
            raise SandboxError(f"the warm sandbox does not answer ({error})") from None

    def _reply(self, wait_s: float) -> tuple[tuple[Any, ...], bytes, bytes]:
        if self._slot is None:
            raise SandboxError("the warm sandbox has ended")
        connection = self._slot.service
        connection.settimeout(wait_s)
        try:
            header = zygote.REPLY.unpack(receive_exactly(connection, zygote.REPLY.size))
            out, err = receive_exactly(connection, header[5]), receive_exactly(connection, header[6])
        except (EOFError, OSError) as error:
            raise SandboxError(f"the warm sandbox does not answer ({error!r})") from None
        return header, out, err

    def run(self, job: Job) -> Outcome:
        """Run a job in a forked child."""
        return self._ask({
            "kind": "binary" if job.compiled else "python", "source": job.source, "stdin": job.stdin,
            "output_bytes": job.limits.output_bytes, "error_bytes": _ERROR_BYTES,
        }, job.limits)  # fmt: skip

    def call(self, function: str, arguments: Sequence[Any], limits: Limits) -> Outcome:
        """Call a function of a trusted module; its answer is the output, as JSON."""
        return self._ask({"kind": "call", "function": function, "arguments": list(arguments)}, limits)

    def _ask(self, message: dict[str, Any], limits: Limits) -> Outcome:
        slot = self._open()
        if slot.group is not None:
            slot.group.set_limits(self.limits if self.preload else limits)
        before = slot.used()
        rlimits = limits.rlimits(grouped=slot.group is not None)
        self._send({**message, "wall_s": limits.wall_s, "rlimits": rlimits})
        try:
            header, out, err = self._reply(limits.wall_s + GRACE_S)
        except SandboxError:
            killed, cpu_s = slot.since(before)
            self.close()
            if killed:  # the job has taken the whole sandbox with it
                return Outcome("memory", signal.SIGKILL, b"", b"", 0.0, cpu_s or 0.0)
            raise
        killed, cpu_s = slot.since(before)
        if header[0] & zygote.RECYCLE:
            self.close()
        header = (*header[:3], header[3] if cpu_s is None else cpu_s, *header[4:])
        return _as_memory(_warm_outcome(header, out, err, limits, killed=killed and header[1] != 0))

    def close(self) -> None:
        """End the sandbox; the next job starts another one."""
        if self._slot is not None:
            self._slot.close()
        self._slot = None

    def __enter__(self) -> Self:
        """Nothing is started before the first job."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def _warm_outcome(header: tuple[Any, ...], out: bytes, err: bytes, limits: Limits, *, killed: bool) -> Outcome:
    """Read how a warm run ended."""
    why, status, wall_s, cpu_s, delay_s = header[:5]
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if why & zygote.TIMEOUT or cpu_s > limits.cpu_s or number == signal.SIGXCPU:
        return Outcome("timeout", 0, out, err, wall_s, cpu_s, delay_s)
    if killed:
        return Outcome("memory", number, out, err, wall_s, cpu_s)
    if why & zygote.FLOOD or number == signal.SIGXFSZ:
        return Outcome("output", 0, out, err, wall_s, cpu_s)
    if number:
        return Outcome("signal", number, out, err, wall_s, cpu_s)
    return Outcome("exit", os.WEXITSTATUS(status), out, err, wall_s, cpu_s)
