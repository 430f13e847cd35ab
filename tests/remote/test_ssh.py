"""Dry runs on a host that is reached by a real ssh and has torch, but neither drygrad nor the project."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import Cli, program
from far_host import FarHost
from far_runs import ended, running

from drygrad.launchers import Profile

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, 8)
        self.second = nn.Linear(16, 2)

    def forward(self, x):
        return self.second(self.first(x))
"""
TRAIN = """\
import os

import torch

from pkg.model import Net

here = os.path.dirname(os.path.abspath(__file__))
width = int(open(os.path.join(here, "it's $(touch pwned) `x`.yaml")).read())
print("in", os.getcwd(), "of", here)
open("written.txt", "w").write("x")
Net(width)(torch.randn(3, width)).sum().backward()
"""


@pytest.fixture
def cli(
    near: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Cli:
    """Return drygrad's command line in a folder that the host does not see."""
    folder = near / re.sub(r"\W+", "-", request.node.name)
    folder.mkdir()
    return Cli(folder, monkeypatch, capfd)


def profiles(cli: Cli, host: FarHost, **more: str) -> None:
    named = {"box": f'command = "{host.shown}", python = "{host.python}"', **more}
    lines = [f"{name} = {{ {fields} }}" for name, fields in named.items()]
    cli.write("pyproject.toml", "\n".join(["[tool.drygrad.run.launchers]", *lines]))


def project(cli: Cli) -> None:
    cli.write("pkg/__init__.py", "")
    cli.write("pkg/model.py", MODEL)
    cli.write("train.py", TRAIN)
    cli.write("it's $(touch pwned) `x`.yaml", "4")


def test_a_host_without_our_files_finds_the_fault_where_it_is_here(cli: Cli, host: FarHost) -> None:
    profiles(cli, host)
    project(cli)
    assert host.told(f"ls -A {cli.folder.parent}; ls -A {Path(__file__).parents[2]}") == ""
    done = cli("run", "--launcher", "box", "--device", "cpu", "train.py")
    assert "pkg/model.py:11:16: error[DG314]" in done.out, done
    assert f"in {cli.folder} of {cli.folder}" in done.out
    assert f"discarded with the run: {cli.folder / 'written.txt'}" in done.out
    assert not (cli.folder / "written.txt").exists()
    assert not [*cli.folder.rglob("pwned")], "a file's name was executed"
    assert "pwned" not in host.told(f"ls -R {host.home}")


def test_the_worker_stays_for_the_next_start_and_the_files_do_not(cli: Cli, host: FarHost) -> None:
    profiles(cli, host)
    cli.write("a.py", "import torch\n\nprint(torch.ones(2).sum())\n")
    for _ in range(2):
        assert cli("run", "--launcher", "box", "--device", "cpu", "a.py").status == 0
        left = host.told(f"cd {host.home}; stat -c '%a %n' cache/drygrad cache/drygrad/*; ls").split("\n")
        assert [line for line in left if "worker-" in line and line.startswith("700 ")], left
        assert sum("worker-" in line for line in left) == 1
        assert not [line for line in left if "drygrad-run" in line], "the project's files are left there"


def test_a_worker_that_was_tampered_with_is_sent_again(cli: Cli, host: FarHost) -> None:
    profiles(cli, host)
    cli.write("a.py", "import torch\n\nprint(torch.ones(2).sum())\n")
    assert cli("run", "--launcher", "box", "--device", "cpu", "a.py").status == 0
    (folder,) = (host.home / "cache" / "drygrad").glob("worker-*")
    entry = folder / "drygrad" / "worker" / "program.py"
    told = entry.read_text()
    entry.write_text("raise SystemExit('tampered')\n")
    assert cli("run", "--launcher", "box", "--device", "cpu", "a.py").status == 0
    assert entry.read_text() == told


def test_what_a_host_prints_before_does_no_harm(cli: Cli, host: FarHost) -> None:
    noise = "echo '{\\\"type\\\": \\\"ready\\\"}'; seq 3000; printf 'no end of line'"
    profiles(cli, host, noisy=f'command = "{host.shown}", python = "{host.python}", setup = "{noise}"')
    cli.write("a.py", "import torch\n\nprint(torch.ones(2).sum())\n")
    done = cli("run", "--launcher", "noisy", "--device", "cpu", "a.py")
    assert done.status == 0, done


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('command = "ssh -F {config} nowhere.invalid"', "Could not resolve hostname nowhere.invalid"),
        ('command = "ssh -p 1 127.0.0.1"', "port 1: Connection refused"),
        ('command = "{shown} -l nobody-there"', "Permission denied"),
        ('command = "{shown}", python = "/opt/none/bin/python"', "finds no /opt/none/bin/python there"),
        ('command = "{shown}", python = "/usr/bin/python3"', "no torch in /usr/bin/python3"),
        ('command = "{shown} -tt", python = "{python}"', "gives a terminal instead of a pipe"),
        ('command = "{shown}", python = "sleep 100;", start-limit = 2', "finds no sleep 100; there"),
        ('command = "{shown} sleep 100;", start-limit = 1', "started nothing within 1 s"),
        (
            'command = "{shown}", python = "{python}", paths = {{ "/" = "/none" }}',
            "the project's folder is not there as",
        ),
    ],
)
def test_what_is_in_the_way_is_said_in_one_sentence(cli: Cli, host: FarHost, fields: str, said: str) -> None:
    if "/usr/bin/python3" in fields and not Path("/usr/bin/python3").exists():
        pytest.skip("there is no Python without torch here")
    config = host.command[2]
    profile = fields.format(shown=host.shown, config=config, python=host.python) + ", restarts = 0"
    profiles(cli, host, wrong=profile)
    cli.write("a.py", "import torch\n\nprint(torch.ones(2).sum())\n")
    done = cli("run", "--launcher", "wrong", "a.py")
    assert done.status == 2
    assert said in done.err, done
    assert len(done.err.splitlines()) == 1
    doctor = cli("doctor", "--launcher", "wrong")
    assert doctor.status == 2
    assert said in doctor.out, doctor


def test_doctor_says_what_there_is(cli: Cli, host: FarHost) -> None:
    profiles(cli, host)
    project(cli)
    said = cli("doctor", "--launcher", "box").out
    for part in (r"launcher +box: ssh ", r"files +5 files of the project are sent", r"torch +\d", r"sandbox +\w+: "):
        assert re.search(part, said), (part, said)


async def test_the_end_of_a_connection_ends_a_run_with_a_sentence(cli: Cli, host: FarHost) -> None:
    path = cli.write("a.py", "import time\nimport torch\n\ntime.sleep(300)\n")

    def phase(name: str) -> None:
        if name == "target":
            for ssh in _children("ssh"):
                os.kill(ssh, signal.SIGKILL)

    async with running(path, Profile(host.command, python=host.python), phase, timeout=200) as task:
        record = await ended(task)
    assert record.result.outcome == "crashed"
    assert "the worker was ended by SIGKILL" in (record.result.reason or ""), record.result


def test_ctrl_c_ends_the_wait(cli: Cli, host: FarHost) -> None:
    profiles(cli, host, slow=f'command = "{host.shown} sleep 1000;"')
    cli.write("a.py", "import torch\n\nprint(torch.ones(2).sum())\n")
    running = subprocess.Popen(program("run", "--launcher", "slow", "a.py"), cwd=cli.folder, stderr=subprocess.PIPE)
    _wait_for(lambda: _children("ssh", running.pid))
    (ssh,) = _children("ssh", running.pid)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert not Path("/proc", str(ssh)).exists()


def _wait_for(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def _children(name: str, process: int | None = None) -> list[int]:
    parent = str(process or os.getpid())
    done = subprocess.run(["pgrep", "-P", parent, "-x", name], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]
