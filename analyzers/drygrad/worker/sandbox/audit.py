"""Refusals in words: an audit hook that says what a dry run does not do, wherever Python itself is asked to do it.

The kernel's layers hold also where Python is not asked (native code). Where they do not hold files, the C functions
that would have an effect cannot be looked up through ctypes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from drygrad.worker.sandbox import state

OnBlocked = Callable[[str, str, FrameType], None]
"""Takes the kind (`write`, `network`, `process`, `signal`, `limit`, `native`), its object, and the frame that asked."""

_SENTENCES = {
    "write": "a dry run does not write to {}",
    "network": "a dry run does not open network connections ({})",
    "process": "a dry run does not start other programs ({})",
    "signal": "a dry run does not signal other processes ({})",
    "limit": "a dry run does not limit other processes ({})",
    "native": "a dry run does not call {} through ctypes on systems where the kernel layer cannot stop file writes",
}
_WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NATIVE = frozenset(
    "accept bind chmod chown connect creat execl execle execlp execv execve execvp fchmod fopen fopen64 fork"
    " ftruncate ftruncate64 kill killpg lchown link linkat mkdir mkdirat mkfifo mknod mkstemp mount mq_open msgget"
    " open open64 openat openat64 popen posix_spawn posix_spawnp prlimit prlimit64 process_vm_readv"
    " process_vm_writev ptrace reboot remove rename renameat renameat2 rmdir sem_open semget setpgid setpriority"
    " setsid shm_open shmget socket symlink symlinkat syscall system tgkill truncate truncate64 unlink unlinkat"
    " utime utimensat utimes vfork".split()
)
_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/full", "nul", "NUL"})


class Blocked(PermissionError):
    """What a dry run refuses; says so in a sentence."""

    def __init__(self, kind: str, argument: str) -> None:
        super().__init__(1, f"drygrad: {_SENTENCES[kind].format(argument)}")
        self.kind = kind
        self.argument = argument


def install(on_blocked: OnBlocked) -> None:
    """Refuse from here on in this process, for good."""
    sandbox = state.current()
    checks = _checks(sandbox)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        check = checks.get(event)
        if check is None:
            return
        found = check(arguments)
        if found is not None:
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # the only way to the frame that asked
            on_blocked(*found, frame)
            raise Blocked(*found)

    sys.addaudithook(hook)


Refusal = tuple[str, str]
Check = Callable[[tuple[Any, ...]], "Refusal | None"]


def _checks(sandbox: state.Sandbox) -> Mapping[str, Check]:
    checks: dict[str, Check] = {"os.kill": _signal, "os.killpg": _refuse("signal"), "socket.__new__": _socket}
    checks |= dict.fromkeys(_events("socket.", "connect bind sendto getaddrinfo gethostbyname gethostbyaddr"), _address)
    checks |= dict.fromkeys(_events("os.", "system exec posix_spawn spawn startfile startfile/2"), _refuse("process"))
    checks |= dict.fromkeys(["subprocess.Popen", "pty.spawn", "webbrowser.open"], _refuse("process"))
    checks["resource.prlimit"] = _limit
    checks |= dict.fromkeys(["syslog.openlog", "syslog.syslog"], _refuse("network"))
    if not sandbox.overlay:
        writes = _Writes(sandbox.private)
        checks["open"] = writes.opened
        checks["sqlite3.connect"] = writes.database
        checks |= dict.fromkeys(_events("os.", "remove rmdir mkdir truncate chmod chown utime"), writes.path)
        checks |= dict.fromkeys(_events("os.", "setxattr removexattr chflags lchflags"), writes.path)
        checks |= dict.fromkeys(_events("os.", "rename link"), writes.two_paths)
        checks["os.symlink"] = writes.second_path
    if sandbox.layer not in ("overlay", "landlock"):
        checks["ctypes.dlsym"] = _native
        checks["ctypes.dlsym/handle"] = _native
    return checks


def _events(prefix: str, names: str) -> list[str]:
    return [prefix + name for name in names.split()]


def _refuse(kind: str) -> Check:
    def check(arguments: tuple[Any, ...]) -> Refusal:
        return kind, _words(arguments[0]) if arguments else ""

    return check


def _words(argument: object) -> str:
    return os.fsdecode(argument) if isinstance(argument, (str, bytes)) else str(argument)


def _signal(arguments: tuple[Any, ...]) -> Refusal | None:
    process, number = arguments
    return None if process == os.getpid() or number == 0 else ("signal", f"process {process}")


def _limit(arguments: tuple[Any, ...]) -> Refusal | None:
    process = arguments[0]
    return None if process in (0, os.getpid()) else ("limit", f"process {process}")


def _socket(arguments: tuple[Any, ...]) -> Refusal | None:
    import socket

    family = arguments[1]
    private_families = (-1, getattr(socket, "AF_UNIX", -1))
    return None if family in private_families else ("network", f"a socket of {socket.AddressFamily(family).name}")


def _address(arguments: tuple[Any, ...]) -> Refusal | None:
    host = arguments[0] if arguments and isinstance(arguments[0], (str, bytes)) else arguments[-1]
    return None if host is None else ("network", _words(host))


def _native(arguments: tuple[Any, ...]) -> Refusal | None:
    name = _words(arguments[1])
    return ("native", name) if name in _NATIVE else None


class _Writes:
    """What may be written to without an overlay: the private folder and the devices that keep nothing."""

    def __init__(self, private: str) -> None:
        self._allowed = os.path.realpath(private) + os.sep if private else ""

    def opened(self, arguments: tuple[Any, ...]) -> Refusal | None:
        path, mode, flags = arguments
        writing = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITING_FLAGS)
        return self._check(path) if writing else None

    def database(self, arguments: tuple[Any, ...]) -> Refusal | None:
        name = os.fsdecode(arguments[0])
        return None if name in ("", ":memory:") else self._check(name)

    def path(self, arguments: tuple[Any, ...]) -> Refusal | None:
        descriptor = arguments[-1] if isinstance(arguments[-1], int) else -1
        return self._check(arguments[0], descriptor if len(arguments) > 1 else -1)

    def second_path(self, arguments: tuple[Any, ...]) -> Refusal | None:
        return self._check(arguments[1], arguments[2] if len(arguments) > 2 else -1)

    def two_paths(self, arguments: tuple[Any, ...]) -> Refusal | None:
        return self._check(arguments[0], arguments[2]) or self._check(arguments[1], arguments[3])

    def _check(self, path: object, folder: int = -1) -> Refusal | None:
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)  # type: ignore[arg-type]
        if text in _DEVICES:
            return None
        if folder >= 0 and not os.path.isabs(text):
            text = os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), text)
        allowed = self._allowed and os.path.realpath(text).startswith(self._allowed)
        return None if allowed else ("write", text)
