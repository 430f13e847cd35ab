"""seccomp: system calls that fail with an error number, or do nothing and say that they succeeded (0), by classic BPF.

Stage A holds from before the user's interpreter starts; stage B is added in the process that executes the user's code.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Sequence
from typing import NamedTuple

from drygrad.worker.sandbox import system
from drygrad.worker.sandbox.syscalls import AUDIT_ARCHES, TABLES

EPERM, ENOSYS = 1, 38
ALL_BITS = 0xFFFFFFFF
NEW_NAMESPACES = 0x7E020000

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32_BIT = 0x40000000
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENTS = 0, 4, 16
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_SET_MODE_FILTER, _ALL_THREADS = 1, 1


class Test(NamedTuple):
    """Whether an argument's low 32 bits, under a mask, equal a value."""

    argument: int
    mask: int
    value: int


class Denial(NamedTuple):
    """Calls that return `error`: always; or only `when` one of the tests holds; or `unless` one holds."""

    calls: str
    error: int = EPERM
    when: tuple[Test, ...] = ()
    unless: tuple[Test, ...] = ()


def is_first(value: int, argument: int = 0) -> Test:
    """The test that an argument is exactly `value`."""
    return Test(argument, ALL_BITS, value)


_MOUNTING = "mount umount2 unshare"
_STREAM, _SEQPACKET, _TYPE_BITS = 1, 5, 0xF
_SET_SIGNAL, _SET_OWNER, _SET_OWNER_EX = 10, 8, 15
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

STAGE_A = (
    # Pairs of connected streams are private; a datagram end could be connected to the system log.
    Denial("socket connect bind listen accept"),
    Denial("socketpair", unless=(Test(1, _TYPE_BITS, _STREAM), Test(1, _TYPE_BITS, _SEQPACKET))),
    Denial("ptrace process_vm_readv process_vm_writev pidfd_getfd pidfd_send_signal process_madvise process_mrelease"),
    Denial("bpf perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd"),
    Denial("setns chroot pivot_root mount_setattr move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick"),
    Denial(
        "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct syslog vhangup"
    ),
    Denial(
        "keyctl add_key request_key quotactl quotactl_fd fanotify_init open_by_handle_at lookup_dcookie ioperm iopl"
    ),
    Denial("settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname migrate_pages move_pages"),
    Denial("fcntl", when=(is_first(_SET_SIGNAL, 1), is_first(_SET_OWNER, 1), is_first(_SET_OWNER_EX, 1))),
    Denial("ioctl", when=(is_first(_TIOCSTI, 1), is_first(_TIOCLINUX, 1))),
    # A limit or a priority of another process lasts: all later runs would have it.
    Denial("prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr", unless=(is_first(0),)),
    Denial("setpriority ioprio_set", unless=(is_first(0, 1),)),
    # The arguments of clone3 lie in memory where a filter cannot read them; the C library then uses clone.
    Denial("clone3", ENOSYS),
    Denial("clone", when=tuple(Test(0, 1 << bit, 1 << bit) for bit in range(32) if NEW_NAMESPACES >> bit & 1)),
)

WITHOUT_NAMESPACES = (
    Denial(_MOUNTING),
    Denial("mq_open mq_unlink msgget semget shmget"),
    # Landlock knows nothing of these; that they seem to succeed lets a copy of a file go on to its end.
    Denial("chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat", 0),
    Denial(
        "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr", 0
    ),
)
"""What the namespaces of the overlay otherwise take care of."""

_READ_ONLY_BUT_TRUNCATE, _ACCESS_AND_TRUNCATE = 0o1000, 0o1003
BEFORE_LANDLOCK_3 = (
    Denial("truncate"),
    Denial("openat2", ENOSYS),
    Denial("open", when=(Test(1, _ACCESS_AND_TRUNCATE, _READ_ONLY_BUT_TRUNCATE),)),
    Denial("openat", when=(Test(2, _ACCESS_AND_TRUNCATE, _READ_ONLY_BUT_TRUNCATE),)),
)
"""Truncation, which Landlock governs from its third version on."""


IMPORTING = (Denial("execve execveat setsid"),)
"""What a process that imports installed packages ahead of its runs may not do either; it must start and end runs."""


def stage_b(process: int) -> tuple[Denial, ...]:
    """What the process of a run may not do beyond stage A: execute, leave its group, signal others than itself."""
    # Signal 0 only asks whether a process is there.
    to_itself = (is_first(process), is_first(0, 1))
    return (
        Denial("execve execveat setsid setpgid"),
        Denial(_MOUNTING),
        Denial("kill", unless=to_itself),
        Denial("tgkill tkill rt_sigqueueinfo rt_tgsigqueueinfo", unless=(is_first(process),)),
    )


def available() -> None:
    """Raise `OSError` where the kernel offers no filters or drygrad has no table of this machine's system calls."""
    if platform.machine() not in AUDIT_ARCHES:
        raise OSError(ENOSYS, f"no table of the system calls of {platform.machine()}")
    system.prctl(system.PR_GET_SECCOMP)


def install(denials: Sequence[Denial]) -> None:
    """Confine this process and its descendants for good."""
    code = program(denials, platform.machine())
    buffer = ctypes.create_string_buffer(code, len(code))
    description = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    system.forbid_new_privileges()
    if len(os.listdir("/proc/self/task")) > 1:
        system.call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, description)
    else:
        pointer = ctypes.create_string_buffer(description, len(description))
        system.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(pointer))


def program(denials: Sequence[Denial], machine: str) -> bytes:
    """The filter in classic BPF: eight bytes an instruction."""
    code = [
        _instruction(_LOAD, _AT_ARCH),
        _instruction(_EQUAL, AUDIT_ARCHES[machine], 1, 0),
        _instruction(_RETURN, _ERRNO | EPERM),
        _instruction(_LOAD, _AT_NUMBER),
        _instruction(_AT_LEAST, _X32_BIT, 0, 1),
        _instruction(_RETURN, _ERRNO | ENOSYS),
    ]
    numbers = TABLES[machine]
    for denial in denials:
        for name in denial.calls.split():
            if name in numbers:
                body = _body(denial)
                code += [_instruction(_EQUAL, numbers[name], 0, len(body)), *body]
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _body(denial: Denial) -> list[bytes]:
    refuse, allow = _instruction(_RETURN, _ERRNO | denial.error), _instruction(_RETURN, _ALLOW)
    if not denial.when and not denial.unless:
        return [refuse]
    body: list[bytes] = []
    for test in denial.when or denial.unless:
        body += [
            _instruction(_LOAD, _AT_ARGUMENTS + 8 * test.argument),
            _instruction(_AND, test.mask),
            _instruction(_EQUAL, test.value, 0, 1),
            refuse if denial.when else allow,
        ]
    return [*body, allow if denial.when else refuse]


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
