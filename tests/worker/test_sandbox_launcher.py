"""The launcher: what it applies before the first instruction, how it ends, what it leaves: nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_harness import IS_ROOT, NOBODY, as_user, marked_processes, world

from drygrad.dryrun import launch
from drygrad.worker.sandbox.private import folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's layers are Linux's")

ALL = ("overlay", "landlock", "seccomp", "none")
FILES = ("overlay", "landlock")
UNTIL_DEAD = 180.0


def held() -> dict[str, bool | str]:
    answer = subprocess.run(launch.probe_command(), capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    os.fork()
    os.closerange(0, 3)
    time.sleep(1000)
"""
HELD = held() if sys.platform == "linux" else {}


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


def needs(layer: str) -> None:
    if layer != "none" and HELD[layer] is not True:
        pytest.skip(f"{layer}: {HELD[layer]}")


def command(code: str, private: Path, layers: str = "auto", *workspaces: Path) -> list[str]:
    options = launch.LaunchOptions(layers=layers, workspaces=[str(path) for path in workspaces], private=str(private))
    return [*launch.command(sys.executable, Path("-c"), options), code]


def run(
    code: str, private: Path, layers: str = "auto", *workspaces: Path, prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    needs("none" if layers == "auto" else layers)
    return subprocess.run(
        command(code, private, layers, *workspaces),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=workspaces[0] if workspaces else None,
        preexec_fn=prepare,  # the tests have one thread
    )


@pytest.mark.parametrize("layer", FILES)
def test_code_that_runs_before_the_worker_is_confined(layer: str, private: Path, tmp_path: Path) -> None:
    ended = run("open('new', 'w')", private, layer, tmp_path)
    assert "Error" in ended.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("layer", ALL)
def test_the_wire_and_the_exit_status_pass_through(layer: str, private: Path) -> None:
    needs(layer)
    code = "import sys; print(sys.stdin.read().upper()); sys.exit(7)"
    ended = subprocess.run(
        command(code, private, layer), input="ping", capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.returncode) == ("PING\n", 7)


@pytest.mark.parametrize("layer", ALL)
def test_the_end_by_a_signal_is_told(layer: str, private: Path) -> None:
    assert run("import os; os.kill(os.getpid(), 9)", private, layer).returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("layer", ALL)
def test_a_command_that_is_not_there(layer: str, private: Path) -> None:
    needs(layer)
    options = launch.LaunchOptions(layers=layer, private=str(private))
    words = launch.command("/nowhere/python", Path("worker"), options)
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 127
    assert "/nowhere/python" in ended.stderr
    assert not list(private.iterdir())


@pytest.mark.parametrize("arguments", [["--layers", "paper", "--", "true"], ["--unknown"], []])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, str(launch.SANDBOX), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert "usage:" in ended.stderr


@pytest.mark.parametrize("layer", ALL)
def test_what_the_worker_leaves_running_ends_with_it(
    layer: str, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv("ATTEMPT_MARK", mark)
    assert run(DAEMON, private, layer).returncode == 0
    assert marked_processes(mark) == []


@pytest.mark.parametrize("layer", ALL)
def test_a_killed_guard_takes_the_worker_with_it(layer: str, private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(layer)
    mark = uuid.uuid4().hex
    monkeypatch.setenv("ATTEMPT_MARK", mark)
    code = "import os, time; print(os.environ['TMPDIR'], flush=True); time.sleep(1000)"
    with subprocess.Popen(command(code, private, layer), stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        guard.stdout.readline()
        assert marked_processes(mark)
        guard.kill()
    deadline = time.monotonic() + UNTIL_DEAD
    while marked_processes(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked_processes(mark) == []


@pytest.mark.parametrize("layer", ALL)
def test_a_terminated_guard_removes_its_folder(layer: str, private: Path) -> None:
    needs(layer)
    code = "import time; print('up', flush=True); time.sleep(1000)"
    with subprocess.Popen(command(code, private, layer), stdout=subprocess.PIPE) as guard:
        assert guard.stdout is not None
        guard.stdout.readline()
        guard.terminate()
    assert guard.returncode == 128 + signal.SIGTERM
    assert not list(private.iterdir())


@pytest.mark.parametrize("layer", ["landlock", "none"])
def test_the_folder_of_a_killed_guard_is_swept_by_the_next_and_a_living_ones_is_not(layer: str, private: Path) -> None:
    needs(layer)
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    words = command(code, private, layer)
    killed = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    living = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with killed, living:
        for guard in (killed, living):
            assert guard.stdout is not None
            guard.stdout.readline()
        assert len(list(private.iterdir())) == 2
        killed.kill()
        killed.wait()
        run("pass", private, layer)
        assert len(list(private.iterdir())) == 1
        living.communicate(b"")
    assert not list(private.iterdir())


def test_a_layer_that_fails_gives_way_to_the_next_and_says_why(private: Path) -> None:
    needs("landlock")
    code = "import os; print(os.environ['DRYGRAD_SANDBOX'])"
    found = json.loads(run(code, private, "auto", Path("/proc")).stdout)
    assert found["layer"] == "landlock"
    assert isinstance(found["layers"]["overlay"], str)
    assert "overlay" in found["layers"]["overlay"]


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a folder to another group")
def test_a_workspace_of_another_group_is_not_left_to_an_overlay() -> None:
    needs("landlock")
    with world([], NOBODY) as made:
        os.chown(made.workspace, NOBODY, NOBODY - 1)
        code = "import os; print(os.environ['DRYGRAD_SANDBOX'])"
        ended = run(code, made.private, "auto", made.workspace, prepare=as_user(NOBODY))
    found = json.loads(ended.stdout)
    assert found["layer"] == "landlock"
    assert "group" in found["layers"]["overlay"]


def test_trying_the_layers_leaves_no_mount() -> None:
    before = Path("/proc/self/mountinfo").read_bytes()
    assert set(held()) == {"overlay", "landlock", "seccomp"}
    assert Path("/proc/self/mountinfo").read_bytes() == before


def test_the_worker_inherits_nothing_but_the_standard_streams(private: Path) -> None:
    reading, writing = os.pipe()
    code = "import os; print(len([name for name in os.listdir('/proc/self/fd')]))"
    ended = subprocess.run(
        command(code, private), pass_fds=[writing], capture_output=True, text=True, timeout=60, check=False
    )
    os.close(reading)
    os.close(writing)
    assert ended.stdout == "4\n"  # and the descriptor of the folder itself


@pytest.mark.parametrize("layer", ALL)
def test_loggers_are_told_to_be_offline_and_temporary_files_have_a_place(layer: str, private: Path) -> None:
    code = (
        "import os, tempfile; tempfile.TemporaryFile(); print(os.environ['WANDB_MODE'], os.environ['HF_HUB_OFFLINE'])"
    )
    assert run(code, private, layer).stdout == "disabled 1\n"


UNDO = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
results = [
    libc.mount(None, b"/", None, 32 | 4096, None),          # remount writable
    libc.umount2(b"/proc/sys", 2),
    libc.umount2(b"/dev", 2),
    libc.syscall(442, -100, b"/", 0x8000, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32),  # mount_setattr, clear read-only
]
print([result for result in results if result == 0], os.path.exists("/dev/vda"), os.getpid() < 10)
for path in ("/proc/sys/kernel/hostname", "/etc/drygrad-was-here", "/dev/new", "/sys/kernel/mm/ksm/run"):
    try:
        open(path, "w")
    except OSError:
        continue
    print("wrote", path)
"""


@pytest.mark.parametrize("user", [None, NOBODY] if IS_ROOT else [None])
def test_the_world_of_an_overlay_cannot_be_undone(user: int | None) -> None:
    prepare = None if user is None else as_user(user)
    with world([], user) as made:
        ended = run(UNDO, made.private, "overlay", made.workspace, prepare=prepare)
    assert ended.stdout == "[] False True\n", ended.stderr


RUNS = """
import os, sys, types
worker, folder = sys.argv[1:]
for name, path in (("drygrad", []), ("drygrad.worker", [worker])):
    package = types.ModuleType(name)
    package.__path__ = path
    sys.modules[name] = package
from drygrad.worker.sandbox import child

def run(number):
    if os.fork() == 0:
        child.confine({})
        print(number, open("text.txt").read(), os.path.exists("made.txt"), flush=True)
        open("made.txt", "w").close()
        print(child.written(), flush=True)
        os._exit(0)
    os.wait()

run(1)
print("edit", flush=True)
sys.stdin.readline()
run(2)
"""


@pytest.mark.parametrize("layer", ALL)
def test_a_run_sees_the_files_as_they_are_and_nothing_of_the_run_before(
    layer: str, private: Path, tmp_path: Path
) -> None:
    needs(layer)
    (tmp_path / "text.txt").write_text("old", encoding="utf-8")
    words = [*command(RUNS, private, layer, tmp_path), str(launch.SANDBOX.parent), str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as guard:
        assert guard.stdin is not None
        assert guard.stdout is not None
        made = f"{[str(tmp_path / 'made.txt')]}\n"
        assert guard.stdout.readline() == "1 old False\n"
        assert guard.stdout.readline() == made
        assert guard.stdout.readline() == "edit\n"
        (tmp_path / "saved").write_text("new", encoding="utf-8")
        (tmp_path / "saved").replace(tmp_path / "text.txt")
        assert guard.communicate("\n")[0] == "2 new False\n" + made


LIMITED = """
import resource, sys, types
for name, path in (("drygrad", []), ("drygrad.worker", [sys.argv[1]])):
    package = types.ModuleType(name)
    package.__path__ = path
    sys.modules[name] = package
from drygrad.worker.sandbox import child
child.confine({"timeout": 1.0, "memory_limit": 64 << 20})
bytearray(32 << 20)
try:
    bytearray(256 << 20)
except MemoryError:
    print("no more", resource.getrlimit(resource.RLIMIT_CORE)[1])
"""


@pytest.mark.parametrize("layer", ALL)
def test_memory_is_limited_and_no_core_is_left(layer: str, private: Path) -> None:
    needs(layer)
    words = [*command(LIMITED, private, layer), str(launch.SANDBOX.parent)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "no more 0\n", ended.stderr


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def swept_once(**where: str) -> str:
        made.append(make(**where))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_once)
    with folder(str(tmp_path)) as inner:
        assert Path(inner).parent == Path(made[1])
        with folder(str(tmp_path)) as other:
            assert Path(inner).exists()
            assert inner != other
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_whose_starter_has_gone_starts_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(writing)  # before the launcher can have asked the kernel to tell it
    mark = tmp_path / "started"
    command = [sys.executable, "-I", "-S", str(launch.SANDBOX), "--layers", "none", "--", "touch", str(mark)]
    try:
        assert subprocess.run(command, stdin=reading, timeout=60, check=False).returncode == 0
    finally:
        os.close(reading)
    assert not mark.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="overlays are Linux's")
def test_a_folder_that_vanishes_while_it_is_listed_gets_no_overlay(tmp_path: Path) -> None:
    from drygrad.worker.sandbox import overlay  # noqa: PLC0415 - only on Linux

    (held,) = overlay._held([str(tmp_path / "gone"), str(tmp_path)])  # pyright: ignore[reportPrivateUsage]
    os.close(held[1])
    assert held[0] == str(tmp_path)
