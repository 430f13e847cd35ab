"""Real editors, configured as the README says, each through one session with a file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BESIDE_PYTHON = str(Path(sys.executable).with_name("nvim"))
OLD_NEOVIM = "/usr/bin/nvim"

WRONG = """\
import torch
import torch.nn.functional as F


def train(model, loader, optimizer):
    total = 0
    for images, labels in loader:
        optimizer.zero_grad()
        probabilities = model(images).softmax(dim=-1)
        loss = F.cross_entropy(probabilities, labels)
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""
MENDED = WRONG.replace(".softmax(dim=-1)", "").replace("total += loss", "total += loss.detach()")


def configuration(editor: str, suffix: str, folder: Path) -> Path:
    """Return a file with what the README wants in an editor's configuration."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## In an editor\n")[1].split("\n## ")[0]
    block = re.search(rf"^{re.escape(editor)}.*?```\w+\n(.*?)```", section, re.MULTILINE | re.DOTALL)
    assert block, f"the README does not configure {editor}"
    path = folder / f"configuration{suffix}"
    path.write_text(block[1], encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a wrong program, and with a ``drygrad`` that leaves its process id there."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(WRONG, encoding="utf-8")
    program = tmp_path / "drygrad"
    program.write_text(f'#!/bin/sh\necho $$ >> "{tmp_path}/pids"\nexec "{sys.executable}" -m drygrad "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(project: Path, *command: str | Path) -> None:
    """Run an editor in the project; expect the file mended, and no server left."""
    environment = {
        **os.environ,
        "HOME": str(project),
        "PATH": f"{project}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "server"), str(ROOT / "analyzers")]),
    }
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "train.py").read_text(encoding="utf-8") == MENDED
    (pid,) = (project / "pids").read_text().split()
    assert ends(int(pid)), "the server outlives the editor"


def ends(pid: int) -> bool:
    """Say whether a process ends within some seconds."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


def version_of(neovim: str) -> tuple[int, int]:
    """Return a Neovim's version."""
    said = subprocess.run([neovim, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v(\d+)\.(\d+)", said)
    assert match, said
    return int(match[1]), int(match[2])


@pytest.mark.parametrize("neovim", [BESIDE_PYTHON, OLD_NEOVIM], ids=["from PyPI", "from Debian"])
def test_neovim(neovim: str, project: Path) -> None:
    if not Path(neovim).exists():
        pytest.skip(f"{neovim} is not installed; make test-editors installs it")
    which = "Neovim 0.11" if version_of(neovim) >= (0, 11) else "Neovim 0.10"
    init = configuration(which, ".lua", project)
    session = f"luafile {HERE / 'session.lua'}"
    run(project, neovim, "--headless", "--clean", "-u", init, "-i", "NONE", "-n", "train.py", "-c", session)


def test_emacs(project: Path) -> None:
    if shutil.which("emacs") is None:
        pytest.skip("emacs is not installed; make test-editors installs it")
    init = configuration("Emacs", ".el", project)
    run(project, "emacs", "--batch", "-Q", "-l", HERE / "session.el", init, "train.py")
