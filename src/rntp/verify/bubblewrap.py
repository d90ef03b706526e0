"""The command line of a sandbox: what of the system it shows, and what it takes away."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rntp.errors import SandboxError

#: Where a job's own files, the interpreter and the packages stand in the sandbox.
BOX, PYTHON, PACKAGES = "/box", "/python", "/packages"
_NAMESPACES = ("user", "pid", "net", "ipc", "uts", "cgroup-try")
_DEVICES = ("null", "zero", "urandom")
TMP = "/tmp"  # noqa: S108 - the sandbox's own
#: All that a job finds in its environment.
ENVIRONMENT = {
    "PATH": "/usr/bin", "HOME": TMP, "TMPDIR": TMP, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
}  # fmt: skip


def find_bubblewrap() -> str:
    """Find the program that makes the sandboxes; there is no unsafe run without it.

    Examples
    --------
    >>> try:
    ...     Path(find_bubblewrap()).name
    ... except SandboxError as error:
    ...     "bwrap" if "bubblewrap is missing" in str(error) else error
    'bwrap'
    """
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxError("bubblewrap is missing, and nothing is run without it (Debian: apt-get install bubblewrap)")
    return path


def interpreter() -> tuple[Path, str]:
    """Find the Python that runs jobs: ours, without its virtual environment.

    Examples
    --------
    >>> folder, program = interpreter()
    >>> folder.is_dir(), program.startswith("/")
    (True, True)
    """
    folder = Path(sys.base_prefix).resolve()
    name = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / name).exists():
        raise SandboxError(f"{folder / name} does not exist: the sandbox needs the interpreter this one was made from")
    return folder, f"{folder}/{name}" if folder.is_relative_to("/usr") else f"{PYTHON}/{name}"


@dataclass(frozen=True, slots=True)
class View:
    """What a sandbox sees beside the system."""

    folders: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()
    tmp_bytes: int = 0


def _system() -> list[str]:
    """The read-only system: /usr, and the links that lead there."""
    out = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib64", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            out += ["--symlink", f"usr/{name}", f"/{name}"]
        elif path.is_dir():
            out += ["--ro-bind", f"/{name}", f"/{name}"]
    return [*out, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]


def command(program: str, view: View, arguments: Sequence[str], *, told: bool = True) -> list[str]:
    """Build the command line of a sandbox, with ``{status}`` and ``{fileN}`` left for the launcher.

    The filter of system calls comes as the file after those of the view.

    Examples
    --------
    >>> line = command("bwrap", View(tmp_bytes=4096), ["/usr/bin/true"])
    >>> "--disable-userns" in line, line[-1]
    (True, '/usr/bin/true')
    """
    out = [program, *(f"--unshare-{name}" for name in _NAMESPACES), "--disable-userns", "--die-with-parent"]
    out += ["--new-session", "--clearenv", "--hostname", "job", *_system()]
    for place, folder in view.folders.items():
        out += ["--ro-bind", folder, place]
    out += ["--proc", "/proc"]
    for name in _DEVICES:
        out += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for name, target in (("stdin", "0"), ("stdout", "1"), ("stderr", "2")):
        out += ["--symlink", f"/proc/self/fd/{target}", f"/dev/{name}"]
    out += ["--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "urandom", "/dev/random"]
    for number, place in enumerate(view.files):
        mode = "0555" if place in view.executable else "0444"
        out += ["--perms", mode, "--file", f"{{file{number}}}", place]
    out += ["--perms", "1777", "--size", str(view.tmp_bytes), "--tmpfs", TMP, "--remount-ro", "/"]
    out += ["--chdir", TMP, "--seccomp", f"{{file{len(view.files)}}}"]
    for name, value in ENVIRONMENT.items():
        out += ["--setenv", name, value]
    # what runs is process 1: no other is in the namespace that it could turn against its judge, and its end is the end
    # of all that it started
    out += ["--as-pid-1", *(("--json-status-fd", "{status}") if told else ())]
    return [*out, *arguments]
