"""What code in a dry run may try: a table, and a program that tries it, one forked child each, as a worker does.

Started by path with the folder of the worker, the workspace, `confined` or `free`, and names of attempts; prints what
became of each as JSON.
"""

# pyright: reportUnknownMemberType=false, reportPrivateUsage=false, reportDeprecated=false, reportUnusedImport=false

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Attempt = Callable[[Path], object]
MEMORY = 1 << 30
"""Bytes that an attempt may take."""


class Entry(NamedTuple):
    """One attempt: what it does in its folder, and what is expected of it."""

    run: Attempt
    runs_on: bool
    """It is ordinary code that must come to its end in every layer."""
    control: bool
    """It may be tried unconfined, and then leaves a trace."""
    refused: bool
    """It must not come to its end in any layer; what it does cannot be seen in its folder."""


ATTEMPTS: dict[str, Entry] = {}


def attempt(*, runs_on: bool = False, control: bool = True, refused: bool = False) -> Callable[[Attempt], Attempt]:
    def register(function: Attempt) -> Attempt:
        ATTEMPTS[function.__name__] = Entry(function, runs_on, control and not refused, refused)
        return function

    return register


def prepare(place: Path) -> None:
    """The files that each attempt finds in its folder."""
    for name in ("data.txt", "sub/deep.txt", ".git/config"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("hello\n", encoding="utf-8")


def libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# Files through Python.


@attempt(runs_on=True)
def open_for_writing(place: Path) -> None:
    with open(place / "new.txt", "w", encoding="utf-8") as stream:
        stream.write("x")
    assert (place / "new.txt").read_text(encoding="utf-8") == "x"


@attempt(runs_on=True)
def open_for_appending(place: Path) -> None:
    with (place / "data.txt").open("a", encoding="utf-8") as stream:
        stream.write("more")
    assert (place / "data.txt").read_text(encoding="utf-8") == "hello\nmore"


@attempt(runs_on=True)
def overwrite(place: Path) -> None:
    (place / "data.txt").write_text("gone", encoding="utf-8")
    assert (place / "data.txt").stat().st_size == 4


@attempt(runs_on=True)
def open_by_descriptor(place: Path) -> None:
    descriptor = os.open(place / "raw.bin", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert os.path.getsize(place / "raw.bin") == 1


@attempt(runs_on=True)
def write_into_git(place: Path) -> None:
    (place / ".git" / "config").write_text("[core]", encoding="utf-8")


@attempt(runs_on=True)
def truncate(place: Path) -> None:
    os.truncate(place / "data.txt", 0)
    assert not (place / "data.txt").read_bytes()


@attempt(runs_on=True)
def rename(place: Path) -> None:
    (place / "data.txt").rename(place / "moved.txt")
    assert sorted(os.listdir(place)) == [".git", "moved.txt", "sub"]


@attempt(runs_on=True)
def replace_by_temporary(place: Path) -> None:
    (place / "data.txt.tmp").write_text("better", encoding="utf-8")
    os.replace(place / "data.txt.tmp", place / "data.txt")
    assert (place / "data.txt").read_text(encoding="utf-8") == "better"


@attempt(runs_on=True)
def remove(place: Path) -> None:
    (place / "data.txt").unlink()
    assert not (place / "data.txt").exists()


@attempt(runs_on=True)
def remove_tree(place: Path) -> None:
    shutil.rmtree(place / "sub")
    assert not (place / "sub" / "deep.txt").exists()


@attempt(runs_on=True)
def remove_and_make_folder(place: Path) -> None:
    shutil.rmtree(place / "sub")
    (place / "sub").mkdir()
    assert not os.listdir(place / "sub")


@attempt(runs_on=True)
def make_folders(place: Path) -> None:
    os.makedirs(place / "a" / "b")
    assert [folder for folder, _, _ in os.walk(place / "a")] == [str(place / "a"), str(place / "a" / "b")]


@attempt(runs_on=True)
def copy_tree(place: Path) -> None:
    shutil.copytree(place / "sub", place / "copied")
    assert (place / "copied" / "deep.txt").read_text(encoding="utf-8") == "hello\n"


@attempt(runs_on=True)
def change_mode(place: Path) -> None:
    (place / "data.txt").chmod(0o600)


@attempt(runs_on=True)
def change_times(place: Path) -> None:
    os.utime(place / "data.txt", (1, 1))


@attempt(runs_on=True)
def link_symbolically(place: Path) -> None:
    (place / "link").symlink_to("data.txt")


@attempt(runs_on=True)
def make_a_pipe(place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert (place / "pipe").is_fifo()


@attempt(runs_on=True)
def link_to_a_folder(place: Path) -> None:
    """As programs link the folder of a data set: whoever removes the link must not touch the folder."""
    (place / "data").symlink_to(place / "sub")
    assert (place / "data" / "deep.txt").exists()


@attempt(control=False)
def c_link_to_a_folder(place: Path) -> None:
    target = os.path.join(tempfile.gettempdir(), "data")
    checked(libc().symlink(os.fsencode(place / "sub"), os.fsencode(target)))


@attempt(runs_on=True, control=False)
def folders_that_let_nobody_in(_place: Path) -> None:
    deep = Path(tempfile.mkdtemp(), "a", "b")
    deep.mkdir(parents=True)
    (deep / "x").write_text("x", encoding="utf-8")
    for folder in (deep, deep.parent):
        folder.chmod(0)


@attempt(runs_on=True, control=False)
def folders_without_end(_place: Path) -> None:
    os.chdir(tempfile.mkdtemp())
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")


@attempt(refused=True)
def c_make_a_folder_beside_the_run(_place: Path) -> None:
    checked(libc().mkdir(os.fsencode(os.path.join(tempfile.gettempdir(), "..", "..", "stray")), 0o700))


@attempt(runs_on=True)
def sqlite_database(place: Path) -> None:
    with sqlite3.connect(place / "runs.sqlite") as database:
        database.execute("create table losses (value real)")
        database.execute("insert into losses values (0.5)")
    assert database.execute("select value from losses").fetchone() == (0.5,)


@attempt(runs_on=True, control=False)
def temporary_file(_place: Path) -> None:
    with tempfile.NamedTemporaryFile() as stream, tempfile.TemporaryDirectory() as folder:
        stream.write(b"x")
        (Path(folder) / "x").write_text("x", encoding="utf-8")


@attempt(runs_on=True, control=False)
def write_to_home(_place: Path) -> None:
    (Path.home() / ".cache").mkdir()
    (Path.home() / ".cache" / "state").write_text("x", encoding="utf-8")


@attempt(runs_on=True)
def log_events(place: Path) -> None:
    """As tensorboard's writer does it: a folder for the run, a binary file, flushed and appended to."""
    folder = place / "runs" / "today"
    os.makedirs(folder)
    with open(os.path.join(folder, "events.out.tfevents.1"), "wb") as stream:
        for step in range(3):
            stream.write(b"%d" % step)
            stream.flush()
    assert [entry.name for entry in os.scandir(folder)] == ["events.out.tfevents.1"]


# Files through torch.


@attempt(runs_on=True)
def save_checkpoint(place: Path) -> None:
    import torch

    os.makedirs(place / "checkpoints", exist_ok=True)
    torch.save({"weight": torch.ones(3)}, place / "checkpoints" / "a.pt")
    assert torch.load(place / "checkpoints" / "a.pt")["weight"].tolist() == [1.0, 1.0, 1.0]
    assert torch.load(str(place / "checkpoints" / "a.pt"), mmap=True)["weight"].tolist() == [1.0, 1.0, 1.0]


@attempt(runs_on=True)
def save_legacy_checkpoint(place: Path) -> None:
    import torch

    torch.save(torch.ones(3), place / "old.pt", _use_new_zipfile_serialization=False)
    assert torch.load(place / "old.pt").tolist() == [1.0, 1.0, 1.0]


@attempt(runs_on=True)
def save_scripted_module(place: Path) -> None:
    import torch

    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(place / "scripted.pt"))
    torch.jit.load(str(place / "scripted.pt"))


@attempt(runs_on=True)
def write_through_torch(place: Path) -> None:
    import torch

    writer = torch._C.PyTorchFileWriter(str(place / "written.zip"))
    writer.write_end_of_file()


@attempt(runs_on=True)
def map_file_shared(place: Path) -> None:
    import torch

    torch.from_file(str(place / "mapped.bin"), shared=True, size=10).fill_(1)


# Files through C.


@attempt()
def c_open(place: Path) -> None:
    checked(libc().open(os.fsencode(place / "data.txt"), os.O_WRONLY | os.O_TRUNC))


@attempt()
def c_create(place: Path) -> None:
    checked(libc().open(os.fsencode(place / "made.txt"), os.O_WRONLY | os.O_CREAT, 0o600))


@attempt()
def c_ftruncate(place: Path) -> None:
    descriptor = checked(libc().open(os.fsencode(place / "data.txt"), os.O_RDWR))
    checked(libc().ftruncate(descriptor, 0))


@attempt()
def c_truncate(place: Path) -> None:
    checked(libc().truncate(os.fsencode(place / "data.txt"), 0))


@attempt()
def c_truncate_on_opening(place: Path) -> None:
    checked(libc().open(os.fsencode(place / "data.txt"), os.O_RDONLY | os.O_TRUNC))


@attempt()
def c_unlink(place: Path) -> None:
    checked(libc().unlink(os.fsencode(place / "data.txt")))


@attempt()
def c_rename(place: Path) -> None:
    checked(libc().rename(os.fsencode(place / "data.txt"), os.fsencode(place / "other.txt")))


@attempt()
def c_chmod(place: Path) -> None:
    checked(libc().chmod(os.fsencode(place / "data.txt"), 0o600))


@attempt()
def c_link(place: Path) -> None:
    checked(libc().link(os.fsencode(place / "data.txt"), os.fsencode(place / "hard")))


@attempt()
def c_system(place: Path) -> None:
    command = f"touch '{place}/touched'"
    assert libc().system(command.encode()) == 0


# Network.


@attempt()
def connect_tcp(_place: Path) -> None:
    with socket.create_connection(("127.0.0.1", int(os.environ["ATTEMPT_PORT"]))):
        pass


@attempt()
def connect_unix(_place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(os.environ["ATTEMPT_SOCKET"])


@attempt()
def c_connect_unix(_place: Path) -> None:
    address = b"\x01\x00" + os.environ["ATTEMPT_SOCKET"].encode() + b"\0"
    checked(libc().connect(checked(libc().socket(socket.AF_UNIX, socket.SOCK_STREAM, 0)), address, len(address)))


@attempt()
def c_connect_tcp(_place: Path) -> None:
    address = b"\x02\x00" + int(os.environ["ATTEMPT_PORT"]).to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    checked(libc().connect(checked(libc().socket(socket.AF_INET, socket.SOCK_STREAM, 0)), address, len(address)))


@attempt(control=False)
def reconnect_a_pair(_place: Path) -> None:
    left, _right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.connect("/run/systemd/journal/socket")


@attempt(runs_on=True, control=False)
def pair_of_sockets(_place: Path) -> None:
    left, right = socket.socketpair()
    left.send(b"x")
    assert right.recv(1) == b"x"


# Processes and signals.


@attempt()
def run_program(place: Path) -> None:
    subprocess.run(["touch", str(place / "touched")], check=True)


@attempt()
def run_shell(place: Path) -> None:
    assert os.system(f"touch '{place}/touched'") == 0


@attempt()
def write_from_fork(place: Path) -> None:
    process = os.fork()
    if process == 0:
        with contextlib.suppress(OSError):
            (place / "from-fork").write_text("x", encoding="utf-8")
            libc().open(os.fsencode(place / "from-c"), os.O_WRONLY | os.O_CREAT, 0o600)
        os._exit(0)
    os.waitpid(process, 0)


@attempt()
def outlive(place: Path) -> None:
    process = os.fork()
    if process == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            for _ in range(100):
                (place / "alive").write_text("x", encoding="utf-8")
                signal.sigtimedwait([], 0.2)
        os._exit(0)
    os.waitpid(process, 0)


@attempt()
def kill_another(_place: Path) -> None:
    os.kill(int(os.environ["ATTEMPT_VICTIM"]), signal.SIGKILL)


@attempt()
def c_kill_another(_place: Path) -> None:
    checked(libc().kill(int(os.environ["ATTEMPT_VICTIM"]), signal.SIGKILL))


@attempt(control=False)
def kill_parent(_place: Path) -> None:
    os.kill(os.getppid(), signal.SIGKILL)


@attempt(control=False)
def c_kill_parent(_place: Path) -> None:
    checked(libc().kill(os.getppid(), signal.SIGKILL))


@attempt(control=False)
def kill_everyone(_place: Path) -> None:
    os.kill(-1, signal.SIGKILL)


@attempt(runs_on=True, control=False)
def signal_itself(_place: Path) -> None:
    caught: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _frame: caught.append(number))
    signal.raise_signal(signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert len(caught) == 2


@attempt(control=False)
def leave_the_group(_place: Path) -> None:
    os.setsid()


@attempt(control=False)
def trace_parent(_place: Path) -> None:
    checked(libc().ptrace(16, os.getppid(), 0, 0))


# Other processes, by other ways than signals.


@attempt(refused=True)
def limit_another(_place: Path) -> None:
    resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))


@attempt(refused=True)
def c_limit_another(_place: Path) -> None:
    checked(libc().prlimit(os.getppid(), resource.RLIMIT_CORE, (ctypes.c_ulong * 2)(0, 0), None))


@attempt(refused=True)
def read_memory_of_another(_place: Path) -> None:
    with open(f"/proc/{os.getppid()}/mem", "rb"):
        pass


@attempt(refused=True)
def write_memory_of_another(_place: Path) -> None:
    os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR))


@attempt(refused=True)
def offer_another_to_the_kernel(_place: Path) -> None:
    with open(f"/proc/{os.getppid()}/oom_score_adj", "w", encoding="ascii") as stream:
        stream.write("1000")


@attempt(refused=True)
def c_read_memory_of_another(_place: Path) -> None:
    checked(libc().process_vm_readv(os.getppid(), None, 0, None, 0, 0))


_KEY = 0x64726779


@attempt(control=False)
def leave_shared_memory(_place: Path) -> None:
    checked(libc().shmget(_KEY, 4096, 0o1600))


@attempt(control=False)
def leave_a_semaphore(_place: Path) -> None:
    checked(libc().semget(_KEY, 1, 0o1600))


@attempt(control=False)
def leave_a_queue(_place: Path) -> None:
    checked(libc().msgget(_KEY, 0o1600))


@attempt(runs_on=True, control=False)
def find_nothing_left(_place: Path) -> None:
    for kind in ("shm", "sem", "msg"):
        lines = Path("/proc/sysvipc", kind).read_text(encoding="ascii").splitlines()
        assert all(int(line.split()[0]) != _KEY for line in lines[1:])


# Too much.


@attempt(refused=True)
def take_too_much_memory(_place: Path) -> None:
    bytearray(2 * MEMORY)


# The program.


def lend_worker(folder: str) -> None:
    """Make the worker importable by location, as it makes itself importable."""
    for name, path in (("drygrad", []), ("drygrad.worker", [folder])):
        package = types.ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


def outcome(entry: Entry, place: Path, confine: Callable[[], None]) -> str:
    """Try one attempt in a child of its own: `done`, or the error in a line."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        text = "done"
        try:
            confine()
            entry.run(place)
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is the answer
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    text = os.read(reading, 65536).decode()
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return text


def confinement(mode: str) -> Callable[[], None]:
    if mode == "free":
        return lambda: None
    from drygrad.worker.sandbox import audit, child, system

    system.forbid_inspection()  # as the worker does it when it starts

    def confine() -> None:
        child.confine({"timeout": 60, "memory_limit": MEMORY})
        audit.install(lambda _kind, _argument, _frame: None)

    return confine


def needs_torch(name: str) -> bool:
    return "torch" in ATTEMPTS[name].run.__code__.co_names


def main() -> None:
    worker, workspace, mode, *names = sys.argv[1:]
    lend_worker(worker)
    confine = confinement(mode)
    results: dict[str, str] = {}
    for name in sorted(names, key=needs_torch):
        if needs_torch(name):
            import torch  # noqa: F401  # before the fork, as the worker has it, but after what is quicker without it
        results[name] = outcome(ATTEMPTS[name], Path(workspace, name), confine)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
