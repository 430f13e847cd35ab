"""Dry runs on a node of a real Ray cluster, which an actor starts."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray_cluster
from cli_harness import Cli
from far_runs import PROMPT, running

from drygrad.launchers import Profile

PROGRAM = "import torch\nfrom net import Net\n\nprint(Net()(torch.randn(2, 4)).shape)\n"
NET = "from torch import nn\n\n\nclass Net(nn.Linear):\n    def __init__(self):\n        super().__init__(5, 2)\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Provide a cluster."""
    if why := ray_cluster.why_not():
        pytest.skip(why)

    folder = tempfile.TemporaryDirectory(prefix="ray-")  # not pytest's: the paths of its sockets must be short
    with folder as name, ray_cluster.ray_cluster(Path(name)) as started:
        yield started


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line in a project."""
    cli = Cli(tmp_path, monkeypatch, capfd)
    cli.write("train.py", PROGRAM)
    cli.write("net.py", NET)
    return cli


def through(address: str, *more: str) -> str:
    return " ".join([str(ray_cluster.RAY), "--address", address, *more])


def test_a_node_of_a_cluster_runs_the_program(cli: Cli, address: str) -> None:
    done = cli("run", "--device", "cpu", "--launcher", through(address), "train.py")
    assert re.search(r"train\.py:4:\d+: error\[DG314\]", done.out), done


async def test_what_a_cluster_does_not_have_is_waited_for(cli: Cli, address: str) -> None:
    waits = asyncio.Event()

    def phase(name: str) -> None:
        if name == "waiting for ray: waiting for num_cpus=1, num_gpus=1.0":
            waits.set()

    profile = Profile((str(ray_cluster.RAY), "--address", address, "--num-gpus", "1"))
    async with running(cli.folder / "train.py", profile, phase):
        await asyncio.wait_for(waits.wait(), PROMPT)


def test_what_ray_does_not_know_is_said(cli: Cli, address: str) -> None:
    done = cli("run", "--launcher", through(address, "--nonsense"), "train.py")
    assert done.status == 2
    assert "unrecognized arguments: --nonsense" in done.err, done


def test_no_cluster_is_no_wait(cli: Cli, address: str) -> None:
    done = cli("run", "--launcher", through("127.0.0.1:1"), "train.py")
    assert done.status == 2
    assert "ray: no cluster at 127.0.0.1:1: [Errno 111] Connection refused" in done.err, done
