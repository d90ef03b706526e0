"""What a sandbox holds on to: a launcher process in a control group of its own, or a plain process for calls."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rntp.errors import SandboxError
from rntp.verify import zygote
from rntp.verify.bubblewrap import ENVIRONMENT, find_bubblewrap, interpreter
from rntp.verify.cgroup import Group, Hierarchy, find_hierarchy, remove_stale
from rntp.verify.launcher import receive_message, send_message
from rntp.verify.limits import Limits
from rntp.verify.seccomp import seccomp_filter

#: Beyond a job's own wall time: until its launcher must have answered [s].
GRACE_S = 60.0
_SLOTS = itertools.count()


class Slot:
    """A launcher in its control group."""

    def __init__(self, limits: Limits, folders: Sequence[str]) -> None:
        self.bubblewrap = find_bubblewrap()
        self.program = interpreter()[1]
        self.filter = seccomp_filter()
        hierarchy = find_hierarchy()
        self.group = _group(hierarchy, limits)
        self.control, control = socket.socketpair()
        self.service, service = socket.socketpair()
        script = Path(__file__).with_name("launcher.py")
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            [_outside_python(), "-I", "-S", str(script), str(control.fileno())],
            pass_fds=(control.fileno(), service.fileno()), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        root = os.geteuid() == 0
        setup = {
            "service": service.fileno(), "nobody": root, "folders": list(folders),
            "enter": [], "leave": [], "remove": [],
        }  # fmt: skip
        if self.group is not None and hierarchy is not None:
            setup["enter"] = [str(folder / "cgroup.procs") for folder in self.group.folders]
            setup["leave"] = [str(folder / "cgroup.procs") for folder in hierarchy.homes]
            setup["remove"] = [str(folder) for folder in self.group.folders]
        control.close()
        service.close()
        try:
            answer = self.ask(setup, GRACE_S)
        except SandboxError:
            self.close()
            raise
        if "error" in answer:
            self.close()
            raise SandboxError(f"the sandbox cannot be set up: {answer['error']}")
        self.paths: list[str] = answer["paths"]

    def ask(self, message: dict[str, Any], wait_s: float) -> dict[str, Any]:
        """Send a request to the launcher and wait for the answer."""
        self.control.settimeout(wait_s)
        try:
            send_message(self.control, message)
            return receive_message(self.control)
        except (EOFError, OSError) as error:
            raise SandboxError(f"the launcher of the sandbox does not answer ({error})") from None

    def used(self) -> tuple[int, float | None]:
        """Count what the slot has used so far."""
        return (0, None) if self.group is None else (self.group.kills(), self.group.cpu_s())

    def since(self, before: tuple[int, float | None]) -> tuple[bool, float | None]:
        """Tell what was used since."""
        kills, cpu_s = self.used()
        return kills > before[0], None if cpu_s is None or before[1] is None else cpu_s - before[1]

    def close(self) -> None:
        """End the launcher, and with it everything it started."""
        self.control.close()
        self.service.close()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.group is not None and not self.group.remove():
            for process in self.group.processes():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.group.remove()


class Process:
    """A plain process that serves calls where there is no sandbox."""

    def __init__(self) -> None:
        self.service, service = socket.socketpair()
        self.group: Group | None = None
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            [_outside_python(), "-S", "-s", zygote.__file__],
            stdin=service.fileno(), stdout=subprocess.DEVNULL, cwd="/", env=dict(ENVIRONMENT),
        )  # fmt: skip
        service.close()

    def used(self) -> tuple[int, float | None]:
        """Count nothing."""
        return 0, None

    def since(self, before: tuple[int, float | None]) -> tuple[bool, float | None]:
        """Count nothing."""
        del before
        return False, None

    def close(self) -> None:
        """End it."""
        self.service.close()
        self.process.kill()
        self.process.wait()


def _group(hierarchy: Hierarchy | None, limits: Limits) -> Group | None:
    if hierarchy is None:
        return None
    remove_stale(hierarchy)
    try:
        return Group(hierarchy, f"{os.getpid()}-{next(_SLOTS)}", limits)
    except OSError as error:
        raise SandboxError(f"the control group of the sandbox cannot be made: {error}") from None


def _outside_python() -> str:
    """Our interpreter without its virtual environment."""
    return str(interpreter()[0] / f"bin/python{sys.version_info.major}.{sys.version_info.minor}")
