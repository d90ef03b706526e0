"""Control groups, version 1 and 2: memory, processes and processor time of a slot, jobs and all they start together.

A slot has one group for its whole life. Its launcher enters once and starts every job from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from computeledger.units import GIGA, MEGA
from rntp.verify.limits import Limits

#: Length of a period of the processor quota [us].
_PERIOD = 100_000
#: What the launcher itself takes of a slot's memory [byte], and how many processes it and bubblewrap are.
_OWN_BYTES, _OWN_PROCESSES = 24_000_000, 6
_NAME = "rntp-"
#: Leaf of version 2 to which the processes move that stood where the slots are made.
_HOME = f"{_NAME}home"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups can be made on this machine."""

    version: int
    folders: dict[str, Path]
    homes: tuple[Path, ...]


def _mounts(text: str) -> Iterator[tuple[str, set[str], str, Path]]:
    """Kind, options, root and folder of every control group mount."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup"):
            fields, kind = before.split(" "), after.split(" ")
            yield kind[0], set(kind[2].split(",")), fields[3], Path(fields[4])


def _own(root: str, folder: Path, path: str) -> Path:
    """Our own group's folder below a mount that may show only a part of the hierarchy."""
    inner = folder / os.path.relpath(path, root) if path.startswith(root.rstrip("/")) else folder
    return inner if inner.is_dir() else folder


def find_hierarchy(proc: Path = Path("/proc/self")) -> Hierarchy | None:
    """Find where this process may make groups with limits on memory and processes.

    Examples
    --------
    >>> find_hierarchy(Path("nowhere")) is None
    True
    """
    try:
        mounts = list(_mounts((proc / "mountinfo").read_text("ascii")))
        lines = [line.split(":", 2) for line in (proc / "cgroup").read_text("ascii").splitlines()]
    except OSError:
        return None
    folders: dict[str, Path] = {}
    for controller in ("memory", "pids", "cpu", "cpuacct"):
        for kind, options, root, folder in mounts:
            own = [path for _, names, path in lines if controller in names.split(",")]
            if kind == "cgroup" and controller in options and own:
                folders[controller] = _own(root, folder, own[0])
    if {"memory", "pids"} <= set(folders) and all(os.access(folder, os.W_OK) for folder in folders.values()):
        return Hierarchy(1, folders, tuple(folders.values()))
    for kind, _, root, folder in mounts:
        own = [path for _, names, path in lines if not names]
        if kind == "cgroup2" and own:
            return _unified(_own(root, folder, own[0]))
    return None


def _unified(folder: Path) -> Hierarchy | None:
    """Version 2: a group with processes may not delegate, so that those in it move to a leaf beside the slots."""
    home = folder
    if folder.name == _HOME:
        folder = folder.parent
    try:
        offered = (folder / "cgroup.controllers").read_text("ascii").split()
        control = folder / "cgroup.subtree_control"
        if not {"memory", "pids"} <= set(offered) or not os.access(control, os.W_OK):
            return None
        wanted = [name for name in ("memory", "pids", "cpu") if name in offered]
        if not set(wanted) <= set(control.read_text("ascii").split()):
            if (folder / "cgroup.type").exists():  # the root has none, and may hold processes beside groups
                home = folder / _HOME
                home.mkdir(exist_ok=True)
                for process in (folder / "cgroup.procs").read_text("ascii").split():
                    (home / "cgroup.procs").write_text(process, "ascii")
            control.write_text(" ".join(f"+{name}" for name in wanted), "ascii")
    except OSError:
        return None
    return Hierarchy(2, dict.fromkeys(wanted, folder), (home,))


def control_values(version: int, limits: Limits) -> dict[str, str]:
    """What to write to which control file.

    Examples
    --------
    >>> control_values(2, Limits(processes=8))["pids.max"]
    '14'
    """
    memory, pids = str(limits.memory_bytes + _OWN_BYTES), str(limits.processes + _OWN_PROCESSES)
    if version == 1:
        return {
            "memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory, "pids.max": pids,
            "cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(_PERIOD),
        }  # fmt: skip
    return {"memory.max": memory, "memory.swap.max": "0", "pids.max": pids, "cpu.max": f"{_PERIOD} {_PERIOD}"}


class Group:
    """The control group of one slot."""

    def __init__(self, hierarchy: Hierarchy, name: str, limits: Limits) -> None:
        self.hierarchy = hierarchy
        self.folders = sorted({folder / f"{_NAME}{name}" for folder in hierarchy.folders.values()})
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
        self.limits: Limits | None = None
        self._handles: dict[str, int | None] = {}
        self.set_limits(limits)

    def set_limits(self, limits: Limits) -> None:
        """Write limits that differ from those that hold."""
        if limits == self.limits:
            return
        for file, value in control_values(self.hierarchy.version, limits).items():
            for folder in self.folders:
                if (folder / file).exists():
                    _write_limit(folder / file, value)
        self.limits = limits

    def kills(self) -> int:
        """Processes that the kernel has killed here for memory, so far."""
        text = self._read("memory.oom_control" if self.hierarchy.version == 1 else "memory.events")
        found = re.search(rb"^oom_kill (\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def cpu_s(self) -> float | None:
        """Processor time that everything in the group has used so far."""
        if self.hierarchy.version == 1:
            text = self._read("cpuacct.usage")
            return int(text) / GIGA if text else None
        found = re.search(rb"^usage_usec (\d+)", self._read("cpu.stat"), re.MULTILINE)
        return int(found[1]) / MEGA if found else None

    def _read(self, name: str) -> bytes:
        """A counter, through a handle that stays open: it is read around every job."""
        if name not in self._handles:
            found = [folder / name for folder in self.folders if (folder / name).exists()]
            self._handles[name] = os.open(found[0], os.O_RDONLY) if found else None
        handle = self._handles[name]
        return b"" if handle is None else os.pread(handle, 4096, 0)

    def processes(self) -> list[int]:
        """Processes in the group."""
        try:
            return [int(line) for line in (self.folders[0] / "cgroup.procs").read_text("ascii").split()]
        except OSError:
            return []

    def remove(self) -> bool:
        """Remove the group."""
        for handle in self._handles.values():
            if handle is not None:
                os.close(handle)
        self._handles.clear()
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return False
        return True


def _write_limit(file: Path, value: str) -> None:
    try:
        file.write_text(value, "ascii")
    except OSError:
        # the limit of memory and swap together may not fall below that of memory alone, and the other way round
        if "memsw" not in file.name:
            swap = file.with_name("memory.memsw.limit_in_bytes")
            if not swap.exists():
                raise
            swap.write_text(value, "ascii")
            file.write_text(value, "ascii")


def remove_stale(hierarchy: Hierarchy) -> int:
    """Remove empty groups whose owner no longer runs.

    Examples
    --------
    >>> remove_stale(Hierarchy(2, {}, ()))
    0
    """
    removed = 0
    for parent in set(hierarchy.folders.values()):
        for folder in parent.glob(f"{_NAME}[0-9]*"):
            owner = folder.name.removeprefix(_NAME).split("-")[0]
            if not Path("/proc", owner).exists():
                try:
                    folder.rmdir()
                    removed += 1
                except OSError:
                    continue  # somebody is still in it, or was faster
    return removed
