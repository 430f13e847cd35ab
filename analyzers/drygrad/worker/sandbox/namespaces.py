"""The world that the worker sees: its own processes, no network, every file read-only, and a small `/dev`.

Two user namespaces, one in the other: the outer makes the world, the inner inherits its mounts locked, so that not even
the capability with which a run later mounts its overlays could undo them.
"""

from __future__ import annotations

import os
from pathlib import Path

from drygrad.worker.sandbox import landlock, overlay, system

OUTER = system.CLONE_NEWUSER | system.CLONE_NEWNS | system.CLONE_NEWPID | system.CLONE_NEWIPC | system.CLONE_NEWNET
INNER = system.CLONE_NEWUSER | system.CLONE_NEWNS
SHARED_MEMORY = "/dev/shm"
TEMPORARY = f"{SHARED_MEMORY}/tmp"

# The owner of these is root also inside a user namespace in which root is mapped.
_KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


def map_identity(process: int) -> None:
    """Give a process in a new user namespace the same user and group numbers as outside: all of them for root."""
    folder = Path("/proc", str(process))
    if os.geteuid() != 0:
        (folder / "setgroups").write_text("deny", encoding="ascii")
    for kind, own in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
        (folder / kind).write_text(_extents(kind) if os.geteuid() == 0 else f"{own} {own} 1", encoding="ascii")


def build(scratch_bytes: int, trial: str) -> None:
    """Make this mount namespace read-only but for a bounded `/dev/shm`, and try an overlay over the folder `trial`."""
    system.mount(None, "/", None, system.MS_REC | system.MS_PRIVATE)
    system.set_read_only("/")
    _small_dev()
    flags = system.MS_NOSUID | system.MS_NODEV
    system.mount("tmpfs", SHARED_MEMORY, "tmpfs", flags, f"size={scratch_bytes},mode=755")
    system.mount("proc", "/proc", "proc", flags | system.MS_NOEXEC)
    for name in _KERNEL_SETTINGS:
        if Path(name).exists():
            system.mount(name, name, None, system.MS_BIND | system.MS_REC)
            system.set_read_only(name)
    overlay.attempt(trial, SHARED_MEMORY)
    Path(TEMPORARY).mkdir()


def _extents(kind: str) -> str:
    lines = Path("/proc/self", kind).read_text(encoding="ascii").splitlines()
    parts = [line.split() for line in lines]
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in parts)


def _small_dev() -> None:
    """Replace `/dev`, whose other devices are disks, terminals and keyboards."""
    held = {name: os.open(name, os.O_PATH | os.O_CLOEXEC) for name in landlock.devices()}
    system.mount("tmpfs", "/dev", "tmpfs", system.MS_NOSUID, "size=256k,mode=755")
    for name, descriptor in held.items():
        source = f"/proc/self/fd/{descriptor}"
        if Path(source).is_dir():
            Path(name).mkdir()
        else:
            Path(name).touch()
        system.mount(source, name, None, system.MS_BIND | system.MS_REC)
        os.close(descriptor)
    Path(SHARED_MEMORY).mkdir()
    for name, target in _LINKS.items():
        Path("/dev", name).symlink_to(target)
    system.mount(None, "/dev", None, system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY | system.MS_NOSUID)


def lay_overlays(wanted: list[str], scratch_bytes: int) -> list[str]:
    """Give this process a mount namespace in which writes succeed and vanish with it, and no capability to change that.

    The answer: folders that stay read-only. The working directory must be entered again.
    """
    system.unshare(system.CLONE_NEWNS | system.CLONE_NEWIPC)  # System V memory would outlive the run
    flags = system.MS_NOSUID | system.MS_NODEV
    # What stands there of other processes can be written by root, whose files they are.
    system.mount(None, "/proc", None, system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY | system.MS_NOEXEC | flags)
    system.mount("tmpfs", SHARED_MEMORY, "tmpfs", flags, f"size={scratch_bytes},mode=755")
    Path(TEMPORARY).mkdir()
    failed = overlay.mount_all(wanted, SHARED_MEMORY)
    system.set_capabilities(system.FILE_CAPABILITIES if os.geteuid() == 0 else ())
    return failed
