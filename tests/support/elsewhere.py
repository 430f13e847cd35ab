"""Runs a program as on a system without fork: what Linux has and Windows has not is taken away first.

``python elsewhere.py PROGRAM ARGUMENT...``; what the system's own Python and torch need is imported before.
"""

import importlib
import os
import runpy
import signal
import socket
import subprocess  # noqa: F401  # pyright: ignore[reportUnusedImport]
import sys
import sysconfig
from types import ModuleType

LACKING: dict[ModuleType, str] = {
    os: "fork forkpty killpg setpgid getpgid getpgrp setsid getuid geteuid getgid getegid wait WNOHANG WIFSIGNALED"
    " WTERMSIG WEXITSTATUS register_at_fork sysconf statvfs O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_PATH mkfifo mknod chown"
    " lchown sched_getaffinity",
    signal: "SIGKILL SIGCHLD SIGALRM SIGUSR1 SIGHUP setitimer alarm pthread_sigmask pthread_kill",
    socket: "AF_UNIX",
}


def take_away() -> None:
    """Make this look like Windows to what is imported from now on."""
    for module, names in LACKING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.platform = "win32"


if __name__ == "__main__":
    if os.path.basename(sys.argv[1]) == "worker":  # noqa: PTH119 - pathlib would learn of the system too early
        importlib.import_module("torch.utils.data")
        sysconfig.get_config_vars()
    take_away()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
