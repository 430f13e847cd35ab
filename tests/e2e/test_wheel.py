"""The wheel, installed in one environment, runs code in a second one that has torch and nothing of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_harness import ROOT

PROGRAM = """
import importlib.util
import sys

import torch


# dry-run: x=torch.ones(2, 3)
def strangers(x):
    names = "drygrad.cli drygrad.dryrun drygrad.static pygls lsprotocol jedi rich".split()
    for name in names:
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        print(name, "found" if found else "absent")
    print("executable", sys.executable)
    raise LookupError("so that its output is shown")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the wheel is installed, as an installer unpacks it."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not here to build with")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment whose only packages are torch and what torch needs."""
    import torch  # noqa: PLC0415

    home = tmp_path_factory.mktemp("second") / "env"
    venv.create(home, symlinks=os.name != "nt")
    (packages,) = home.glob("lib/python*/site-packages")
    installed = Path(torch.__file__).parents[1]
    needed = (
        "torch torchgen functorch typing_extensions.py sympy mpmath filelock jinja2 markupsafe networkx fsspec numpy"
    )
    for name in [*needed.split(), *(each.name for each in installed.glob("numpy.libs"))]:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    return home


def test_nothing_of_ours_can_be_found_there(site: Path, second: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    command = [sys.executable, "-m", "drygrad", "run", "program.py::strangers", "--python", str(second)]
    done = subprocess.run(
        [*command, "--device", "cpu"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "failed on the CPU" in done.stdout, done.stderr
    assert f"executable {second}" in done.stdout
    assert " found" not in done.stdout
    assert done.stdout.count(" absent") == 7
