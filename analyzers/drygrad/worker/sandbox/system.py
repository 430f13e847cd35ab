"""What the kernel offers and Python does not: mounts, namespaces, capabilities; through the C library by ctypes."""

from __future__ import annotations

import ctypes
import os
import struct

from drygrad.worker.sandbox.syscalls import NUMBERS

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 0x4000, 0x40000
MNT_DETACH = 2

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID, CAP_SYS_ADMIN = 0, 1, 2, 3, 4, 21
FILE_CAPABILITIES = (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID)
"""What root needs to read and write files of other users; of no use beyond the file systems that a process sees."""

PR_GET_SECCOMP = 21
_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 36, 38, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call by name. Raises `OSError` with its error number, ENOSYS if this machine has no such call."""
    if name not in NUMBERS:
        raise OSError(38, f"{name}: not in the table of this machine")
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _checked(_libc.syscall(ctypes.c_long(NUMBERS[name]), *words), name)


def prctl(option: int, *arguments: int) -> int:
    """Change something of this process, with up to four more arguments."""
    words = [ctypes.c_ulong(word) for word in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(option, *words), f"prctl({option})")


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str = "") -> None:
    """Mount a file system, or change a mount, as `mount(2)` does it."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    result = _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), data.encode() or None)
    _checked(result, f"mount {kind or ''} on {target}")


def unmount(target: str) -> None:
    """Detach what is mounted on top of `target`."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def set_read_only(target: str) -> None:
    """Make a mount and all that is mounted below it read-only, in one call (Linux 5.12)."""
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    call("mount_setattr", _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def fork_into(flags: int, death_signal: int) -> int:
    """Fork into new namespaces; the child begins a new PID namespace. Only for a process with one thread."""
    return call("clone", flags | death_signal, 0, 0, 0, 0)


def die_with_parent(signal: int = 9) -> None:
    """Have the kernel send this process a signal as soon as its parent ends."""
    prctl(_PR_SET_PDEATHSIG, signal)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_inspection() -> None:
    """Let no process of the same user read or write this one's memory; its children inherit that."""
    prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Ignore set-user-ID bits and file capabilities from here on; the condition for seccomp and Landlock."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def limit_capabilities(keep: tuple[int, ...]) -> None:
    """Drop all capabilities but `keep` in the bounding set, so that no later program can have them."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in keep:
            try:
                prctl(_PR_CAPBSET_DROP, capability)
            except OSError:
                return


def set_capabilities(keep: tuple[int, ...], *, ambient: bool = False) -> None:
    """Keep `keep` only in this thread; with `ambient` the programs that it executes have them too."""
    prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    low = sum(1 << capability for capability in keep)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    call("capset", header, struct.pack("=6I", low, low, low if ambient else 0, 0, 0, 0))
    for capability in keep if ambient else ():
        prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, capability)
