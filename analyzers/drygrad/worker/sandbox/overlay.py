"""Overlays: what a run writes goes to memory and is gone when its mount namespace ends.

Each run mounts its own over the folders as they are then. An overlay that lasted would show a file that an editor
replaced as it was before, and one run the files of another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from drygrad.worker.sandbox import system

# Folders of the system and of the kernel: they stay read-only.
_SYSTEM = frozenset("bin boot dev etc lib lib32 lib64 libx32 lost+found proc run sbin snap sys usr".split())
_MOST_NOTED = 50
_NOT_FILES = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs proc"
    " pstore rpc_pipefs securityfs sysfs tracefs".split()
)

# Upper layer → the folder over which it lies, in the process of a run.
_uppers: dict[str, str] = {}


def mount_all(wanted: Iterable[str], scratch: str) -> list[str]:
    """Lay overlays over all ordinary folders, and over `wanted` ones in them; the upper layers lie in `scratch`.

    The answer: the folders where it was not possible and that stay read-only. A wanted folder has an overlay of its own
    because a user who may write there need not own the folders above, and could not copy those up.
    """
    failed: list[str] = []
    for number, (folder, descriptor) in enumerate(_held(_folders(wanted))):
        lower = f"/proc/self/fd/{descriptor}"
        try:
            _uppers[_mount(lower, folder, scratch, number)] = folder
        except OSError:
            if os.path.isdir(folder):  # else somebody has removed it by now
                failed.append(folder)
                _show_again(lower, folder)
        os.close(descriptor)
    return failed


def _held(folders: Iterable[str]) -> list[tuple[str, int]]:
    """Open folders, but for those that somebody has removed since they were listed."""
    held: list[tuple[str, int]] = []
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            held.append((folder, os.open(folder, os.O_PATH | os.O_CLOEXEC)))
    return held


def require_own(folder: str) -> None:
    """Raise `OSError` if an overlay could not hold this user's changes; to be asked outside of namespaces."""
    status = os.stat(folder)
    if os.geteuid() != 0 and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        # An unprivileged namespace knows one user and one group; it could not copy up what belongs to others.
        raise OSError(errno.EOVERFLOW, f"overlay on {folder}: its owner or its group is not the user's own")


def attempt(folder: str, scratch: str) -> None:
    """Mount an overlay and take it away again. Raises `OSError` where that does not work."""
    target = Path(scratch, "trial")
    target.mkdir()
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        _mount(f"/proc/self/fd/{descriptor}", str(target), scratch, 0)
        (target / ".drygrad").touch()
        system.unmount(str(target))
    finally:
        os.close(descriptor)


def written() -> list[str]:
    """The files that this process and its descendants wrote or removed, the first few dozen."""
    found: list[str] = []
    for upper, folder in _uppers.items():
        for parent, _, names in os.walk(upper):
            place = os.path.join(folder, os.path.relpath(parent, upper))
            found += (os.path.normpath(os.path.join(place, name)) for name in names)
            if len(found) >= _MOST_NOTED:
                return found[:_MOST_NOTED]
    return found


def _mount(lower: str, target: str, scratch: str, number: int) -> str:
    """The folder of what is written."""
    upper, work = Path(scratch, ".upper", str(number)), Path(scratch, ".work", str(number))
    for folder in (upper, work):
        folder.mkdir(parents=True, exist_ok=True)
    upper.chmod(Path(lower).stat().st_mode & 0o7777)
    layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
    try:
        system.mount("overlay", target, "overlay", system.MS_NOSUID | system.MS_NODEV, f"{layers},userxattr")
    except OSError:
        system.mount("overlay", target, "overlay", system.MS_NOSUID | system.MS_NODEV, layers)
    if os.statvfs(target).f_flag & os.ST_RDONLY:
        system.unmount(target)
        raise OSError(errno.EROFS, f"overlay on {target}: {os.strerror(errno.EROFS)}")
    return str(upper)


def _show_again(source: str, target: str) -> None:
    """Bind a folder that an overlay above it has hidden."""
    if not Path(target).samefile(source):
        system.mount(source, target, None, system.MS_BIND | system.MS_REC)


def _folders(wanted: Iterable[str]) -> list[str]:
    """Where overlays go, each before what lies in it."""
    mounts = {path: kind for path, kind in _mounts() if path.split("/")[1] not in _SYSTEM}
    top = (entry.path for entry in os.scandir("/") if entry.name not in _SYSTEM)
    chosen = {folder for path in top for folder in _without_mounts_below(path, mounts)}
    wanted_folders = {path for path in map(os.path.realpath, wanted) if os.path.isdir(path)}
    return sorted(chosen | {path for path in wanted_folders if not _mounts_below(path, mounts)})


def _without_mounts_below(folder: str, mounts: Mapping[str, str]) -> Iterator[str]:
    """The folder, or those in it that hold no other mount: the kernel lays no overlay over what a mount may hide."""
    if mounts.get(folder) in _NOT_FILES or os.path.islink(folder) or not os.path.isdir(folder):
        return
    if not _mounts_below(folder, mounts):
        yield folder
        return
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            yield from _without_mounts_below(entry.path, mounts)


def _mounts_below(folder: str, mounts: Mapping[str, str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for path in mounts)


def _mounts() -> Iterator[tuple[str, str]]:
    """Mount points and kinds of file system."""
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split()
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), fields[4])
        yield os.fsdecode(point), os.fsdecode(fields[fields.index(b"-", 6) + 1])
