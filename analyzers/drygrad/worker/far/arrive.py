"""The first of ours that an interpreter elsewhere executes, as text from its standard input: it unpacks the worker.

It comes alone, and before the interpreter's version is known: Python 3.6 must be able to read it. What is unpacked
stays in a folder that only the user can enter, keyed by its digest; the next start finds it there.
"""

import compileall
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from contextlib import suppress
from typing import Any, NoReturn

OLDEST = (3, 9)
UNUSED_DAYS = 30
_PREFIX = "worker-"
_NEW = "new-worker-"


def main() -> None:
    """Answer the order on standard input, and become what stays."""
    order = json.loads(_line())
    if sys.version_info < OLDEST:
        needed, found = (".".join(map(str, version[:2])) for version in (OLDEST, sys.version_info))
        _refuse(f"the dry run needs Python {needed} or newer, {sys.executable} is {found}")
    try:
        folder = _folder(order)
    except OSError as error:
        _refuse(f"the worker cannot be put anywhere there: {error}")
    entry = os.path.join(folder, "drygrad", "worker", "far")
    os.execv(sys.executable, [sys.executable, "-I", "-S", entry, json.dumps(order)])


def _folder(order: "dict[str, Any]") -> str:
    """Return the folder with the worker, unpacked now if it was not there as it was sent."""
    base = _base()
    folder = os.path.join(base, _PREFIX + order["digest"][:32] + "-" + (sys.implementation.cache_tag or "python"))
    if _digest(folder) == order["digest"]:
        os.utime(folder)
        _say({"type": "here"})
        return folder
    _say({"type": "wanted"})
    files: dict[str, str] = json.loads(zlib.decompress(_exactly(order["size"])).decode("utf-8"))
    made = tempfile.mkdtemp(prefix=_NEW, dir=base)
    for name, text in files.items():
        path = os.path.join(made, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    if _digest(made) != order["digest"]:
        shutil.rmtree(made, ignore_errors=True)
        raise OSError("it did not arrive as it was sent")
    compileall.compile_dir(made, quiet=2)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        os.rename(made, folder)
    except OSError:  # another start was faster
        shutil.rmtree(made, ignore_errors=True)
        if _digest(folder) != order["digest"]:
            raise
    _sweep(base)
    return folder


def _base() -> str:
    """Return a folder of the user's own that nobody else can enter: below the home, else below the temporary one."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    problem: OSError | None = None
    for path in (os.path.join(caches, "drygrad"), os.path.join(tempfile.gettempdir(), f"drygrad-{os.getuid()}")):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
            _require_private(path)
            return path
        except OSError as error:
            problem = error
    raise problem or OSError("there is no folder")


def _require_private(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} is not a folder of this user's")
    os.chmod(path, 0o700)
    if not os.access(path, os.W_OK | os.X_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
        raise PermissionError(f"{path} cannot be written to")


def _digest(folder: str) -> str:
    """Return the digest of the sources in a folder, as whoever packs them counts it."""
    files: dict[str, str] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if name.endswith(".py") and not os.path.islink(path):
                with open(path, encoding="utf-8", newline="") as file:
                    files[os.path.relpath(path, folder).replace(os.sep, "/")] = file.read()
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode("ascii")).hexdigest()


def _sweep(base: str) -> None:
    """Remove workers of other versions that nobody has started for a month."""
    for name in (name for name in os.listdir(base) if name.startswith((_PREFIX, _NEW))):
        path = os.path.join(base, name)
        try:
            if time.time() - os.lstat(path).st_mtime > UNUSED_DAYS * 86400:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass


def _line() -> bytes:
    """Read one line and nothing beyond it, which is for what comes after this program."""
    line = os.fdopen(0, "rb", 0, closefd=False).readline()
    if not line.endswith(b"\n"):
        sys.exit(0)
    return line


def _exactly(size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(0, min(size, 1 << 16))
        if not part:
            sys.exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _say(message: "dict[str, Any]") -> None:
    os.write(1, json.dumps(message).encode("ascii") + b"\n")


def _refuse(why: str) -> "NoReturn":
    _say({"type": "unusable", "why": why})
    sys.exit(2)


if __name__ == "__main__":
    main()
