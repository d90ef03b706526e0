"""The system calls that a job may not make, as a filter for the kernel: no mounts, namespaces, tracing or network.

The filter is classic BPF: a list of (code, jump if true, jump if false, value) read over ``struct seccomp_data``.
"""

from __future__ import annotations

import platform
import struct

from computeledger.errors import shown
from rntp.errors import SandboxError

#: system call -> number on x86-64 and on 64-bit ARM (Linux, asm/unistd.h); None where it does not exist
REFUSED: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "mbind": (237, 235), "memfd_secret": (447, 447), "migrate_pages": (256, 238),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "mq_open": (240, 180), "msgget": (68, 186), "name_to_handle_at": (303, 264), "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "semget": (64, 190),
    "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "settimeofday": (164, 170), "shmget": (29, 194), "swapoff": (168, 225), "swapon": (167, 224),
    "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "uselib": (134, None),
    "ustat": (136, None), "vhangup": (153, 58),
}  # fmt: skip

#: machine -> (AUDIT_ARCH, column of REFUSED, clone, clone3, socket, ioctl)
_MACHINES = {
    "x86_64": (0xC000003E, 0, 56, 435, 41, 16),
    "aarch64": (0xC00000B7, 1, 220, 435, 198, 29),
}
#: system call -> numbers, and how many leading arguments must be 0: a process changes itself alone (PRIO_PROCESS is 0)
_OWN: dict[str, tuple[tuple[int, int], int]] = {
    "prlimit64": ((302, 261), 1), "sched_setaffinity": ((203, 122), 1), "setpriority": ((141, 140), 2),
}  # fmt: skip
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, low halves of arguments
_ALLOW, _KILL, _REFUSE, _ABSENT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026  # EPERM; ENOSYS
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
_UNIX = 1
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into somebody's terminal

_Instruction = tuple[int, int, int, int]


def _is(value: int, answer: int) -> list[_Instruction]:
    """Answer at once where the loaded word equals a value."""
    return [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, answer)]


def _guarded(number: int, rule: list[_Instruction]) -> list[_Instruction]:
    """A rule for one system call; it ends in an answer, so that what follows is only met by others."""
    return [(_EQUAL, 0, len(rule), number), *rule]


def seccomp_filter(machine: str | None = None) -> bytes:
    """Compile the filter for a processor.

    A foreign architecture kills the process; refused calls return EPERM. ``clone3`` hides its flags from the filter and
    answers ENOSYS, so that the C library falls back on ``clone``; sockets other than AF_UNIX are refused. A
    process sets limits, priority and processors for itself, never for another.

    Examples
    --------
    >>> len(seccomp_filter("x86_64")) % 8
    0
    """
    given = platform.machine() if machine is None else machine
    if given not in _MACHINES:
        raise SandboxError(f"no system-call filter for the machine {shown(given)}: {' or '.join(_MACHINES)} is needed")
    architecture, column, clone, clone3, socket, ioctl = _MACHINES[given]
    program: list[_Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    program.append((_LOAD, 0, 0, _NUMBER))
    if given == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    program += _is(clone3, _ABSENT)
    flags = [(_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), (_RETURN, 0, 0, _REFUSE)]
    program += _guarded(clone, [*flags, (_RETURN, 0, 0, _ALLOW)])
    program += _guarded(socket, [(_LOAD, 0, 0, _FIRST), *_is(_UNIX, _ALLOW), (_RETURN, 0, 0, _REFUSE)])
    typed = [instruction for request in _TERMINAL for instruction in _is(request, _REFUSE)]
    program += _guarded(ioctl, [(_LOAD, 0, 0, _SECOND), *typed, (_RETURN, 0, 0, _ALLOW)])
    for (x86, arm), arguments in _OWN.values():
        others = [
            step
            for offset in (_FIRST, _SECOND)[:arguments]
            for step in ((_LOAD, 0, 0, offset), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE))
        ]
        program += _guarded((x86, arm)[column], [*others, (_RETURN, 0, 0, _ALLOW)])
    for numbers in REFUSED.values():
        number = numbers[column]
        program += [] if number is None else _is(number, _REFUSE)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
