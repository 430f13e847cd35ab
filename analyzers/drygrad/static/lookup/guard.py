"""Holds the helper process to reading: it executes nothing but its own parts, and writes nothing."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import CodeType

REFUSED_EVENTS = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
    "pty.spawn", "socket.connect", "socket.bind", "ctypes.dlopen",
    "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.symlink", "os.link",
})  # fmt: skip


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Refused(ImportError):
    """Something tried to execute what the helper only reads; jedi takes an ImportError as "no such module"."""


def install(packages: Iterable[Path]) -> None:
    """Refuse, for good, to write, and to execute any file outside the standard library and these package folders."""
    standard = tuple({f"{Path(sysconfig.get_path(name)).as_posix()}/" for name in ("stdlib", "platstdlib")})
    own = ("<", *(f"{package.as_posix()}/" if package.is_dir() else package.as_posix() for package in packages))

    def allowed(file: str) -> bool:
        # "<string>" and the like are made by code that was allowed itself.
        if file.startswith(own):
            return True
        return file.startswith(standard) and "/site-packages/" not in file and "/dist-packages/" not in file

    def check(event: str, arguments: tuple[object, ...]) -> None:
        if event in REFUSED_EVENTS:
            raise Refused(f"{event} is refused")
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
            raise PermissionError(f"{arguments[0]!r} is not to be written")
        if event == "exec" and isinstance(arguments[0], CodeType):
            file = arguments[0].co_filename
        elif event == "import" and arguments[1]:
            file = str(arguments[1])
        else:
            return
        if not allowed(file.replace("\\", "/")):
            raise Refused(f"{file} is read, not executed")

    sys.addaudithook(check)
