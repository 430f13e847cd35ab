"""Real editors, configured as the README says, each through one session with a file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drygrad.dryrun.short_forecast import size

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BESIDE_PYTHON = str(Path(sys.executable).with_name("nvim"))
OLD_NEOVIM = "/usr/bin/nvim"
LSP_MODE = Path("/usr/share/doc/elpa-lsp-mode")

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
RUNNABLE = """\
import torch
import torch.nn.functional as F


# dry-run: logits=torch.randn(4, 5), target=torch.tensor([0, 1, 5, 2])
def loss(logits, target):
    return F.cross_entropy(logits, target)
"""
FORECAST = """\
import torch


# dry-run: x=torch.zeros(4096, 4096, device="cuda")
def square(x):
    return (x @ x).relu()
"""
MENDED = WRONG.replace(".softmax(dim=-1)", "").replace("total += loss", "total += loss.detach()")


PAGES = ROOT / "editor-client"
STEP = re.compile(r"^ *\d+\.\d s  .*$", re.MULTILINE)
_UNTRUSTED = re.compile(r"(?:--|;;) (?=:?init)")


def configuration(editor: str, suffix: str, folder: Path, *, trusted: bool = False) -> Path:
    """Return a file with what the README wants in an editor's configuration, with or without trust."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## In an editor\n")[1].split("\n## ")[0]
    code = code_under(editor, section)
    return written(folder, suffix, _UNTRUSTED.sub("", code) if trusted else code)


def code_under(beginning: str, page: str) -> str:
    """Return the code that follows a line of a page."""
    block = re.search(rf"^{re.escape(beginning)}.*?```\w+\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert block, f"nothing is configured under {beginning}"
    return block[1]


def written(folder: Path, suffix: str, code: str) -> Path:
    """Return a new file for an editor to read."""
    path = folder / f"configuration{suffix}"
    path.write_text(code, encoding="utf-8")
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


def run(project: Path, *command: str | Path, mended: str = MENDED, expected: str = "") -> None:
    """Run an editor in the project; expect the file mended, and no server left."""
    environment = {
        "EXPECTED": expected,
        "STEPS": str(HERE / "steps.lua"),
        **os.environ,
        "HOME": str(project),
        "VIRTUAL_ENV": sys.prefix,
        "PATH": f"{project}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "server"), str(ROOT / "analyzers")]),
    }
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    print("\n", "\n".join(STEP.findall(done.stderr)), sep="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "train.py").read_text(encoding="utf-8") == mended
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


@pytest.fixture(params=[BESIDE_PYTHON, OLD_NEOVIM], ids=["from PyPI", "from Debian"])
def neovim(request: pytest.FixtureRequest) -> str:
    """Return one Neovim after the other."""
    if not Path(request.param).exists():
        pytest.skip(f"{request.param} is not installed; make test-editors installs it")
    return request.param


def neovim_beginning(neovim: str) -> str:
    """Return how the line begins that stands above a Neovim's configuration."""
    return "Neovim 0.11" if version_of(neovim) >= (0, 11) else "Neovim 0.10"


def in_neovim(neovim: str, project: Path, init: Path, session: str, mended: str = MENDED, expected: str = "") -> None:
    """Run a session in Neovim."""
    play = ["train.py", "-c", f"luafile {HERE / session}"]
    begin = [neovim, "--headless", "--clean", "-u", init, "-i", "NONE", "-n"]
    run(project, *begin, *play, mended=mended, expected=expected)


def forecast_by_command(project: Path) -> str:
    """Write a program, and set its GPU; return what the command line's forecast comes to, as editors say it."""
    (project / "train.py").write_text(FORECAST, encoding="utf-8")
    (project / "pyproject.toml").write_text('[tool.drygrad.run]\ngpu = "1GiB"\n', encoding="utf-8")
    asked = ["forecast", "train.py::square", "--python", sys.prefix, "--output-format", "json", "--no-progress"]
    done = subprocess.run(
        [sys.executable, "-m", "drygrad", *asked], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    (told,) = json.loads(done.stdout)["forecasts"]
    forecast = told["forecast"]
    room = size(forecast["memory"] - forecast["context"])
    line = sum(row["bytes"] for row in forecast["by_line"] if row["line"] == 6)
    return f"{size(forecast['peak_reserved'])} of GPU memory, fits 1GiB ({room} usable)|+{size(line)}"


def test_neovim(neovim: str, project: Path) -> None:
    in_neovim(neovim, project, configuration(neovim_beginning(neovim), ".lua", project), "session.lua")


@pytest.mark.parametrize("where", ["README", "page"])
def test_neovim_runs_a_function(neovim: str, project: Path, where: str) -> None:
    (project / "train.py").write_text(RUNNABLE, encoding="utf-8")
    beginning = neovim_beginning(neovim)
    page = (PAGES / "neovim" / "README.md").read_text(encoding="utf-8")
    own = written(project, ".lua", code_under(beginning, page))
    init = own if where == "page" else configuration(beginning, ".lua", project, trusted=True)
    in_neovim(neovim, project, init, "dry_run.lua", mended=RUNNABLE.replace("5, 2]", "4, 2]"))


def test_neovim_forecasts_as_the_command_line_does(neovim: str, project: Path) -> None:
    expected = forecast_by_command(project)
    init = configuration(neovim_beginning(neovim), ".lua", project, trusted=True)
    in_neovim(neovim, project, init, "forecast.lua", mended=FORECAST, expected=expected)


@pytest.fixture
def emacs() -> str:
    """Return Emacs."""
    if shutil.which("emacs") is None:
        pytest.skip("emacs is not installed; make test-editors installs it")
    return "emacs"


def in_eglot(emacs: str, project: Path, session: str, *given: str | Path, mended: str, expected: str = "") -> None:
    """Run a session in Emacs with Eglot; it is given a configuration first."""
    begin = [emacs, "--batch", "-Q", "-l", HERE / "eglot.el", "-l", HERE / session]
    run(project, *begin, given[0], "train.py", *given[1:], mended=mended, expected=expected)


def test_emacs(emacs: str, project: Path) -> None:
    in_eglot(emacs, project, "session.el", configuration("Emacs", ".el", project), mended=MENDED)


@pytest.mark.parametrize(("where", "how"), [("README", "command"), ("page", "command"), ("page", "action")])
def test_emacs_runs_a_function(emacs: str, project: Path, where: str, how: str) -> None:
    (project / "train.py").write_text(RUNNABLE, encoding="utf-8")
    page = (PAGES / "emacs" / "README.md").read_text(encoding="utf-8")
    own = written(project, ".el", code_under("With Eglot", page))
    init = own if where == "page" else configuration("Emacs", ".el", project, trusted=True)
    in_eglot(emacs, project, "dry_run.el", init, how, mended=RUNNABLE)


def test_emacs_forecasts_as_the_command_line_does(emacs: str, project: Path) -> None:
    expected = forecast_by_command(project)
    init = configuration("Emacs", ".el", project, trusted=True)
    in_eglot(emacs, project, "forecast.el", init, mended=FORECAST, expected=expected)


def in_lsp_mode(emacs: str, project: Path, steps: str, mended: str) -> None:
    """Run a session in Emacs with lsp-mode, configured as its page says."""
    if not LSP_MODE.exists():
        pytest.skip("elpa-lsp-mode is not installed; make test-editors installs it")
    page = (PAGES / "emacs" / "README.md").read_text(encoding="utf-8")
    init = written(project, ".el", code_under("With lsp-mode", page))
    run(project, emacs, "--batch", "-Q", "-l", HERE / "lsp_mode.el", init, "train.py", steps, mended=mended)


def test_lsp_mode(emacs: str, project: Path) -> None:
    in_lsp_mode(emacs, project, "mend", MENDED)


def test_lsp_mode_runs_a_function(emacs: str, project: Path) -> None:
    (project / "train.py").write_text(RUNNABLE, encoding="utf-8")
    in_lsp_mode(emacs, project, "run", RUNNABLE.replace("5, 2]", "4, 2]"))
