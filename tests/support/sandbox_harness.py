"""Starts the attempts in a layer, as a user, and tells what the world outside looks like before and after."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import sandbox_attempts

from drygrad.dryrun import launch
from drygrad.worker.sandbox import system

ATTEMPTS = Path(sandbox_attempts.__file__)
WORKER = launch.SANDBOX.parent
NOBODY = 65534
IS_ROOT = sys.platform != "win32" and os.geteuid() == 0

PATIENCE = 240.0
"""Seconds until the attempts are given up, however busy the machine is."""

Tree = Mapping[str, tuple[int, int, bytes]]


@dataclass(frozen=True)
class Outcome:
    """What became of the attempts in one launched process, and of the world around it."""

    results: Mapping[str, str]
    errors: str
    changed: Mapping[str, list[str]]
    """Attempt → paths in its folder that are not as before."""
    elsewhere: list[str]
    """Paths outside the attempts' folders that are not as before."""
    connections: int
    victim_lives: bool
    left_folders: list[str]
    left_processes: list[str]
    layer: str = ""


def tree(root: Path) -> Tree:
    """Every path below a folder with mode, time of modification and content."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def differences(before: Tree, after: Tree) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


class World:
    """A home, a workspace with a folder for each attempt, two listening sockets and a process that may be killed."""

    def __init__(self, names: list[str], user: int | None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="world-"))
        self.private = Path(tempfile.mkdtemp(prefix="private-"))
        self.names = names
        self.user = user
        self.mark = uuid.uuid4().hex
        self.workspace = self.root / "workspace"
        self.workspace.mkdir()
        for name in names:
            sandbox_attempts.prepare(self.workspace / name)
        (self.root / "home").mkdir()
        self.listeners = [_listen_tcp(), _listen_unix(self.root / "home" / "socket")]
        self._own()
        self.victim = subprocess.Popen([*sleeper()], user=user, stdout=subprocess.DEVNULL)
        self.before = tree(self.root)

    def _own(self) -> None:
        self.root.chmod(0o755)
        if self.user is not None:
            for path in (self.private, self.root, *self.root.rglob("*")):
                os.chown(path, self.user, self.user)

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.root / "home"),
            "ATTEMPT_PORT": str(self.listeners[0].getsockname()[1]),
            "ATTEMPT_SOCKET": str(self.root / "home" / "socket"),
            "ATTEMPT_VICTIM": str(self.victim.pid),
            "ATTEMPT_MARK": self.mark,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, command: list[str]) -> Outcome:
        """Execute the command and compare the world with what it was."""
        process = start(command, self.user, self.environment(), self.workspace)
        answer, errors = process.communicate(timeout=PATIENCE)
        changed = differences(self.before, tree(self.root))
        places = {name: f"workspace/{name}" for name in self.names}
        inside = {name: [path for path in changed if f"{path}/".startswith(f"{places[name]}/")] for name in self.names}
        known = {path for paths in inside.values() for path in paths}
        return Outcome(
            results=json.loads(answer or "{}"),
            errors=errors,
            changed=inside,
            elsewhere=[path for path in changed if path not in known],
            connections=sum(map(_pending, self.listeners)),
            victim_lives=self.victim.poll() is None,
            left_folders=sorted(path.name for path in self.private.iterdir()),
            left_processes=marked_processes(self.mark),
        )

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for listener in self.listeners:
            listener.close()
        shutil.rmtree(self.root)
        shutil.rmtree(self.private)


@contextlib.contextmanager
def world(names: list[str], user: int | None) -> Generator[World]:
    made = World(names, user)
    try:
        yield made
    finally:
        made.close()


def confined(layer: str, made: World) -> Outcome:
    """All attempts of a world in one layer."""
    options = launch.LaunchOptions(layers=layer, workspaces=[str(made.workspace)], private=str(made.private))
    started = launch.command(sys.executable, ATTEMPTS, options)
    found = made.run([*started, str(WORKER), str(made.workspace), "confined", *made.names])
    return replace(found, layer=layer)


def free(made: World) -> Outcome:
    """All attempts of a world without any confinement."""
    return made.run([sys.executable, str(ATTEMPTS), str(WORKER), str(made.workspace), "free", *made.names])


def start(command: list[str], user: int | None, environment: Mapping[str, str], folder: Path) -> subprocess.Popen[str]:
    """Start a command as root or, from root, as another user."""
    prepare = None if user is None else as_user(user)
    return subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        preexec_fn=prepare,  # noqa: PLW1509  # the tests have one thread
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def as_user(user: int) -> Callable[[], None]:
    """What a child of root does to become another user who can read this interpreter and this checkout."""

    def become() -> None:
        system.unshare(system.CLONE_NEWNS)
        system.mount(None, "/", None, system.MS_REC | system.MS_PRIVATE)
        _open_up([Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]])
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    return become


def _open_up(folders: list[Path]) -> None:
    """Show these folders also to users who may not enter the ones above, in this mount namespace."""
    for folder in folders:
        closed = next((path for path in reversed(folder.parents) if not path.stat().st_mode & stat.S_IXOTH), None)
        if closed is not None:
            held = os.open(folder, os.O_PATH)
            system.mount("tmpfs", str(closed), "tmpfs", 0, "mode=755")
            folder.mkdir(parents=True)
            system.mount(f"/proc/self/fd/{held}", str(folder), None, system.MS_BIND)
            os.close(held)


def sleeper() -> tuple[str, ...]:
    return (shutil.which("sleep") or "sleep", "1000")


def marked_processes(mark: str) -> list[str]:
    """The processes that have a mark in their environment, as they were started."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def _listen_tcp() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def _listen_unix(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.setblocking(False)
    return listener


def _pending(listener: socket.socket) -> int:
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count
